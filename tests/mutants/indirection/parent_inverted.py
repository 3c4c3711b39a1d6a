"""sends each row to its parent instead of fetching it from there: a scatter where a gather is due."""


def update_indirection(indirection_RT, parent_R, length_R, out=None):
    before_RT = indirection_RT.copy()
    for r, parent in enumerate(parent_R):
        indirection_RT[parent, : length_R[r]] = before_RT[r, : length_R[r]]
    return indirection_RT
