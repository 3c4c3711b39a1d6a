"""moves whole rows: what a row will write next then counts as another row's."""


def redirect(source_RT, parent_R, length_R, out=None):
    source_RT[...] = source_RT[parent_R]
    return source_RT
