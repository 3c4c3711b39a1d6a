"""copies row by row, in order: who comes later reads what has been overwritten."""


def update_indirection(indirection_RT, parent_R, length_R, out=None):
    for r, parent in enumerate(parent_R):
        indirection_RT[r, : length_R[r]] = indirection_RT[parent, : length_R[r]]
    return indirection_RT
