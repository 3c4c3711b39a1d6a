"""A head is D / H wide, and there are H of them."""

# --- variation
POSITIONS = 512
SENTENCES = 16
W = 4
H = 12
D = 768
ITEMSIZE = 2
BANDWIDTH = 900
# --- end

OPERATIONS_PER_BYTE = 4 * W / ITEMSIZE
TERA_OPERATIONS = 2 * W / ITEMSIZE * BANDWIDTH / 1000
