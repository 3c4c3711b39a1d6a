"""Sectors are counted, not bytes: which ones does the warp touch?"""

# --- variation
OFFSET = 3
STRIDE = 5
SIZE = 8
SHARE = 2
FROM = 11
# --- end

# --- your turn: sectors that one warp moves at each line
#| NEIGHBOURS = None  # x = a[OFFSET + t]
#| APART = None  # y = b[STRIDE * t]
#| SHARED = None  # z = c[FROM + t // SHARE]
FLOATS = 32 // 4  # in a sector
NEIGHBOURS = (OFFSET + 31) // FLOATS - OFFSET // FLOATS + 1
APART = min(32, STRIDE * 31 // FLOATS + 1)
SHARED = (FROM + 31 // SHARE) * SIZE // 32 - FROM * SIZE // 32 + 1
# --- end
