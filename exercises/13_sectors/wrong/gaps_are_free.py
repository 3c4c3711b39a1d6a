"""Only the numbers wanted are moved."""

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


NEIGHBOURS = sectors(WIDTH, lambda t: OFFSET + t)
APART = 4
SHARED = sectors(SIZE, lambda t: FROM + t // SHARE)
