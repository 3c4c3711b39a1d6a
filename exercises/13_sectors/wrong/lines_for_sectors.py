"""Lines of 128 bytes."""

# --- variation
OFFSET = 3
WIDTH = 4
STRIDE = 5
SIZE = 8
SHARE = 2
FROM = 11
# --- end


def lines(size, place):
    return len({(place(t) * size + byte) // 128 for t in range(32) for byte in range(size)})


NEIGHBOURS = lines(WIDTH, lambda t: OFFSET + t)
APART = lines(4, lambda t: STRIDE * t)
SHARED = lines(SIZE, lambda t: FROM + t // SHARE)
