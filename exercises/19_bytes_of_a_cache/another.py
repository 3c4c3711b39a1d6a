"""By shapes: prompts B, G, N, K and beams R, G, T, K."""

import math

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

SHAPES = [(SENTENCES, HEADS, PROMPT, K), (SENTENCES * BEAMS, HEADS, GENERATED, K)]
CACHE_BYTES = sum(BYTES_PER_NUMBER * math.prod(shape) for shape in SHAPES for _ in range(2 * LAYERS))
