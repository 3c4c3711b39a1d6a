"""copies row by row, in order: who comes later reads what has been overwritten."""


def redirect(source_RT, parent_R, length_R, out=None):
    for r, parent in enumerate(parent_R):
        source_RT[r, : length_R[r]] = source_RT[parent, : length_R[r]]
    return source_RT
