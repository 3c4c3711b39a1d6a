"""A sector for each lane."""

# --- variation
OFFSET = 3
WIDTH = 4
STRIDE = 5
SIZE = 8
SHARE = 2
FROM = 11
# --- end

NEIGHBOURS = 32
APART = 32
SHARED = 32
