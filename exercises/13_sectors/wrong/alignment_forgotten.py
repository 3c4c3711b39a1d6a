"""As if everything began at a sector."""

# --- variation
OFFSET = 3
WIDTH = 4
STRIDE = 5
SIZE = 8
SHARE = 2
FROM = 11
# --- end


def sectors(size, place):
    return len({(place(t) * size + byte) // 32 for t in range(32) for byte in range(size)})


NEIGHBOURS = WIDTH
APART = sectors(4, lambda t: STRIDE * t)
SHARED = max(1, 32 // SHARE * SIZE // 32)
