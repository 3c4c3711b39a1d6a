"""For each number."""

# --- variation
POSITIONS = 512
SENTENCES = 16
W = 4
H = 12
D = 768
ITEMSIZE = 2
BANDWIDTH = 900
# --- end

OPERATIONS_PER_BYTE = 4 * W * H
TERA_OPERATIONS = 2 * W * H * BANDWIDTH / 1000
