"""Bytes wanted."""

# --- variation
OFFSET = 3
WIDTH = 4
STRIDE = 5
SIZE = 8
SHARE = 2
FROM = 11
# --- end

NEIGHBOURS = 32 * WIDTH
APART = 32 * 4
SHARED = 32 // SHARE * SIZE
