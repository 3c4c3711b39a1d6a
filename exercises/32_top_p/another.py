"""Sets the bits of the threshold one after the other, the highest first. A bit stays set if enough tokens are kept."""

import numpy as np

# --- variation
BITS = 32
DTYPE = "float32"
SIDE = "reach"
# --- end


def number(order):
    """The float whose place among all of them, from the lowest on, this is."""
    top = 1 << (BITS - 1)
    bits = [o - top if o >= top else 2 * top - 1 - o for o in order.tolist()]
    return np.array(bits, f"uint{BITS}").view(DTYPE)


def threshold(p_R, weigh):
    total_R = weigh(np.array([-np.inf if SIDE == "reach" else np.inf] * len(p_R), DTYPE))
    most_that_goes_R = total_R - np.ceil(p_R * total_R).astype(np.int64)
    order_R = np.zeros(len(p_R), np.int64)
    for bit in reversed(range(BITS)):
        tried_R = order_R | (1 << bit)
        weight_R = weigh(number(tried_R))
        goes_R = weight_R if SIDE == "below" else total_R - weight_R
        order_R[goes_R <= most_that_goes_R] |= 1 << bit
    return number(order_R)
