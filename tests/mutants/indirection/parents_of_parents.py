"""applies the parents twice."""


def update_indirection(indirection_RT, parent_R, length_R, out=None):
    written = int(length_R.max())
    indirection_RT[:, :written] = indirection_RT[parent_R[parent_R], :written]
    return indirection_RT
