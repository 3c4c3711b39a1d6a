"""Arrays whose numbers are with the judge, as an engine meets them: the model's weights in its own process.

A part of one, the same numbers in another shape or type, and a scaled one are such arrays, too: what was done is noted,
and done by the judge. Products are made there, and counted; their results are plain arrays. All else that needs the
numbers fetches them, which is counted as well. NumPy alone is needed here: the student's process loads this file.
"""

from __future__ import annotations

import numpy as np

SMALL = 8192  # numbers: fewer are fetched where an array meets others number by number
MOVING = (
    "reshape", "transpose", "swapaxes", "moveaxis", "split", "array_split", "hsplit", "vsplit", "concatenate", "hstack",
    "vstack", "stack", "column_stack", "take", "copy", "ravel", "expand_dims", "squeeze",
)  # fmt: skip
PRODUCTS = ("matmul", "dot", "inner", "vdot", "tensordot", "einsum")
ASKING = ("shape", "ndim", "size")
ONE_BY_ONE = ("add", "subtract", "multiply", "divide", "negative", "absolute", "rint", "positive")


class Elsewhere(np.lib.mixins.NDArrayOperatorsMixin):
    """An array without its numbers. `ask(name, *arguments)` asks the judge; set before any is made."""

    ask = staticmethod(lambda name, *arguments: None)

    def __init__(self, tree, like):
        self._tree, self._like = tree, like  # like: an array of its shape and type that takes no memory

    def __reduce__(self):
        return rebuild_elsewhere, (self._tree, self._like.shape, self._like.dtype.str)

    shape = property(lambda self: self._like.shape)
    ndim = property(lambda self: self._like.ndim)
    size = property(lambda self: self._like.size)
    dtype = property(lambda self: self._like.dtype)
    nbytes = property(lambda self: self._like.nbytes)
    T = property(lambda self: np.transpose(self))

    def __len__(self):
        return len(self._like)

    def __iter__(self):
        return (self[k] for k in range(len(self)))

    def __getitem__(self, key):
        items = [_item_for_judge(k) for k in (key if isinstance(key, tuple) else (key,))]
        return Elsewhere(["part", self._tree, items], _placeholder_like(self._like[key]))

    def __setitem__(self, key, value):
        raise TypeError("an array of the model is changed after load: change a copy, in load")

    def astype(self, dtype, copy=True, **how):
        return Elsewhere(["type", self._tree, np.dtype(dtype).str], _placeholder_like(self._like.astype(dtype)))

    def reshape(self, *shape, **how):
        return np.reshape(self, shape[0] if len(shape) == 1 else shape, **how)

    def transpose(self, *axes):
        return np.transpose(self, (axes[0] if len(axes) == 1 else axes) or None)

    def swapaxes(self, one, other):
        return np.swapaxes(self, one, other)

    def ravel(self):
        return np.ravel(self)

    flatten = ravel

    def squeeze(self, axis=None):
        return np.squeeze(self, axis)

    def copy(self):
        return np.copy(self)

    def dot(self, other):
        return np.dot(self, other)

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.numbers(), name)  # sums, maxima and the like

    def numbers(self):
        """They themselves, fetched."""
        return Elsewhere.ask("numbers", {"tree": self._tree})

    def __array__(self, dtype=None, copy=None):
        return self.numbers().astype(dtype) if dtype is not None else self.numbers()

    def __float__(self):
        return float(self.numbers())

    def __int__(self):
        return int(self.numbers())

    def __array_ufunc__(self, ufunc, method, *inputs, **named):
        out = named.get("out")
        if any(isinstance(array, Elsewhere) for array in out or ()):
            self[...] = None  # which says what is wrong
        if ufunc is np.matmul and method == "__call__":
            result = Elsewhere.ask("product", "matmul", _as_trees_for_judge(inputs), {})
            return result if out is None else _copy_into(out[0], result)
        if method == "__call__" and out is None and set(named) <= {"dtype"} and ufunc.__name__ in ONE_BY_ONE:
            like = ufunc(*map(_placeholder_of, inputs), **named)
            others = [array for array in inputs if not isinstance(array, Elsewhere)]
            if like.size >= SMALL or all(np.size(array) == 1 for array in others):
                named = {name: np.dtype(value).str for name, value in named.items()}
                return Elsewhere(["call", ufunc.__name__, _as_trees_for_judge(inputs), named], _placeholder_like(like))
        return getattr(ufunc, method)(*map(_fetch_if_elsewhere, inputs), **named)

    def __array_function__(self, function, types, args, named):
        name = function.__name__
        if name in ASKING:
            return function(*map(_placeholder_of, args), **named)
        if name in MOVING:
            like = function(*_map_nested(args, _placeholder_of), **named)
            tree = ["call", name, _as_trees_for_judge(args), named]
            if isinstance(like, list):
                return [Elsewhere(["item", tree, k], _placeholder_like(part)) for k, part in enumerate(like)]
            return Elsewhere(tree, _placeholder_like(like))
        if name in PRODUCTS:
            out = named.pop("out", None)
            result = Elsewhere.ask("product", name, _as_trees_for_judge(args), named)
            return result if out is None else _copy_into(out, result)
        return function(
            *_map_nested(args, _fetch_if_elsewhere), **{key: _fetch_if_elsewhere(value) for key, value in named.items()}
        )


def rebuild_elsewhere(tree, shape, dtype):
    return Elsewhere(tree, np.broadcast_to(np.zeros((), dtype), shape))


def _placeholder_like(array):
    """An array like this one that takes no memory."""
    return np.broadcast_to(np.zeros((), array.dtype), np.shape(array))


def _item_for_judge(key):
    if isinstance(key, slice):
        return {"slice": [None if n is None else int(n) for n in (key.start, key.stop, key.step)]}
    if key is None or key is Ellipsis:
        return {"new": key is None}
    return int(key) if np.ndim(key) == 0 else np.asarray(key)


def _placeholder_of(value):
    return value._like if isinstance(value, Elsewhere) else value


def _fetch_if_elsewhere(value):
    return value.numbers() if isinstance(value, Elsewhere) else value


def _map_nested(values, change):
    return type(values)(_map_nested(v, change) for v in values) if isinstance(values, tuple | list) else change(values)


def _as_trees_for_judge(values):
    def as_tree(value):
        return {"tree": value._tree} if isinstance(value, Elsewhere) else value

    return list(_map_nested(values, as_tree))


def _copy_into(array, result):
    array[...] = result
    return array
