"""moves whole rows: what a row will write next then counts as another row's."""


def update_indirection(indirection_RT, parent_R, length_R, out=None):
    indirection_RT[...] = indirection_RT[parent_R]
    return indirection_RT
