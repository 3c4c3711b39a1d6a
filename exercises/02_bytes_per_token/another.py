"""By shapes, one matrix after the other."""

import math

# --- variation
LAYERS = 12
WIDTH = 768
VOCABULARY = 50257
POSITIONS = 2000
BYTES_PER_NUMBER = 4
# --- end

LAYER = [(WIDTH, 3 * WIDTH), (WIDTH, WIDTH), (WIDTH, 4 * WIDTH), (4 * WIDTH, WIDTH), (2, POSITIONS, WIDTH)]
SHAPES = LAYER * LAYERS + [(WIDTH, VOCABULARY)]
BYTES_PER_TOKEN = float(BYTES_PER_NUMBER * sum(math.prod(shape) for shape in SHAPES))
