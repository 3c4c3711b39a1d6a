"""Every op in NumPy. Signatures, equations and costs stand in minidecode/ops.py; here is how.

An op that needs room for something in between asks `workspace(shape, dtype)` for it, which is `np.empty` unless the
caller has room to lend (runtime/arena.py). How much it asks for may grow with shapes and lengths, and must not hang on
any other value.
"""
