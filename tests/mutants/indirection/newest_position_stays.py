"""leaves the newest position as it was: it moves one too few."""


def update_indirection(indirection_RT, parent_R, length_R, out=None):
    written = max(int(length_R.max()) - 1, 0)
    indirection_RT[:, :written] = indirection_RT[parent_R, :written]
    return indirection_RT
