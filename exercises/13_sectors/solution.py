"""Sectors are counted, not bytes: which ones does the warp touch?"""

# --- variation
OFFSET = 3
WIDTH = 4
STRIDE = 5
SIZE = 8
SHARE = 2
FROM = 11
# --- end

# --- your turn: sectors that one warp moves at each line
#| NEIGHBOURS = None  # x = a[OFFSET + t]
#| APART = None  # y = b[STRIDE * t]
#| SHARED = None  # z = c[FROM + t // SHARE]
NEIGHBOURS = (OFFSET + 31) * WIDTH // 32 - OFFSET * WIDTH // 32 + 1
APART = min(32, STRIDE * 31 * 4 // 32 + 1)
SHARED = (FROM + 31 // SHARE) * SIZE // 32 - FROM * SIZE // 32 + 1
# --- end
