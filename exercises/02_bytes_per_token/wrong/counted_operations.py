"""Two operations for each number."""

# --- variation
LAYERS = 12
WIDTH = 768
VOCABULARY = 50257
POSITIONS = 2000
BYTES_PER_NUMBER = 4
# --- end

BYTES_PER_TOKEN = 2 * (LAYERS * (12 * WIDTH**2 + 2 * POSITIONS * WIDTH) + VOCABULARY * WIDTH)
