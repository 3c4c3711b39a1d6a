"""By the seconds of a step, sizes and all."""

# --- variation
POSITIONS = 512
SENTENCES = 16
W = 4
H = 12
D = 768
ITEMSIZE = 2
BANDWIDTH = 900
# --- end

HIDDEN_BYTES = SENTENCES * POSITIONS * D * ITEMSIZE
OPERATIONS = 2 * SENTENCES * W * H * POSITIONS * D * 2  # a multiplication and an addition; two products
OPERATIONS_PER_BYTE = OPERATIONS / HIDDEN_BYTES
CACHE_SECONDS = 2 * HIDDEN_BYTES / (BANDWIDTH * 10**9)
TERA_OPERATIONS = round(OPERATIONS / CACHE_SECONDS / 10**12, 2)
