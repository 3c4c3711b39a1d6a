"""A guess."""

# --- variation
OFFSET = 3
WIDTH = 4
STRIDE = 5
SIZE = 8
SHARE = 2
FROM = 11
# --- end

NEIGHBOURS = 7
APART = 13
SHARED = 11
