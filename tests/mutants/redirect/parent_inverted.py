"""sends each row to its parent instead of fetching it from there: a scatter where a gather is due."""


def redirect(source_RT, parent_R, length_R, out=None):
    before_RT = source_RT.copy()
    for r, parent in enumerate(parent_R):
        source_RT[parent, : length_R[r]] = before_RT[r, : length_R[r]]
    return source_RT
