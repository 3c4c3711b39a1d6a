"""The cache as large as the hidden states."""

# --- variation
POSITIONS = 512
SENTENCES = 16
W = 4
H = 12
D = 768
ITEMSIZE = 2
BANDWIDTH = 900
# --- end

OPERATIONS_PER_BYTE = 4 * W * H / ITEMSIZE
TERA_OPERATIONS = 4 * W * H / ITEMSIZE * BANDWIDTH / 1000
