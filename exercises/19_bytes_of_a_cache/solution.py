"""Positions, and the bytes of one."""

# --- variation
LAYERS = 18
SENTENCES = 8
BEAMS = 4
PROMPT = 512
GENERATED = 56
HEADS = 12
K = 64
BYTES_PER_NUMBER = 2
# --- end

# --- your turn: bytes of keys and values at the end
#| CACHE_BYTES = None
POSITIONS = SENTENCES * (PROMPT + BEAMS * GENERATED)
CACHE_BYTES = POSITIONS * LAYERS * 2 * HEADS * K * BYTES_PER_NUMBER
# --- end
