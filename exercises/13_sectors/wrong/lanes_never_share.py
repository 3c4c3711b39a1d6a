"""Each lane's own number."""

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
APART = sectors(4, lambda t: STRIDE * t)
SHARED = sectors(SIZE, lambda t: FROM + t)
