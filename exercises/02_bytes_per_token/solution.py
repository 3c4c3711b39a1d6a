"""What a step touches from end to end: weights, the output matrix, the cache."""

# --- variation
LAYERS = 12
WIDTH = 768
VOCABULARY = 50257
POSITIONS = 2000
BYTES_PER_NUMBER = 4
# --- end

# --- your turn: bytes that one decode step reads
#| BYTES_PER_TOKEN = None
WEIGHTS = LAYERS * 12 * WIDTH**2
CACHE = LAYERS * 2 * POSITIONS * WIDTH
BYTES_PER_TOKEN = (WEIGHTS + VOCABULARY * WIDTH + CACHE) * BYTES_PER_NUMBER
# --- end
