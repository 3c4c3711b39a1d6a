"""Arrays whose operations are counted: what code without fusion launches and moves, an operation at a time."""

from __future__ import annotations

import numpy as np


class Counts:
    """What has run so far."""

    def __init__(self):
        self.kernels = self.products = self.bytes = 0

    def __iter__(self):
        return iter((self.kernels, self.products, self.bytes))


class Elementary(np.ndarray):
    """An array whose every operation counts as one launch, with the bytes of what it reads and writes."""

    def __array_finalize__(self, other):
        self.counts = getattr(other, "counts", None)

    def __array_ufunc__(self, ufunc, method, *inputs, out=(), **more):
        plain = [unwrap_counting_array(a) for a in inputs]
        result = getattr(ufunc, method)(
            *plain, **more, **({"out": tuple(map(unwrap_counting_array, out))} if out else {})
        )
        return self.note_operation(result, plain, is_product=ufunc is np.matmul, into=out[0] if out else None)

    def __array_function__(self, function, types, args, kwargs):
        plain = [unwrap_counting_array(a) for a in args]
        result = function(*plain, **{name: unwrap_counting_array(a) for name, a in kwargs.items()})
        if function in (np.empty_like, np.shape, np.ndim, np.split, np.shares_memory):  # nothing is computed
            return result
        return self.note_operation(result, [a for a in plain if isinstance(a, np.ndarray)] or plain[0])

    def mean(self, *args, **more):
        return self.note_operation(unwrap_counting_array(self).mean(*args, **more), [self])

    def copy(self, order="C"):
        return self.note_operation(unwrap_counting_array(self).copy(order), [self])

    def __setitem__(self, place, value):
        plain = unwrap_counting_array(self)
        plain[place] = unwrap_counting_array(value)
        self.note_operation(plain[place], [plain[place]])

    def note_operation(self, result, read, is_product=False, into=None):
        self.counts.products += is_product
        self.counts.kernels += not is_product
        self.counts.bytes += sum(a.nbytes for a in (result, *read) if isinstance(a, np.ndarray))
        return wrap_in_counting_array(result, self.counts) if into is None else into


def unwrap_counting_array(thing):
    """Without counting; lists of arrays too."""
    if isinstance(thing, list | tuple):
        return type(thing)(map(unwrap_counting_array, thing))
    return thing.view(np.ndarray) if isinstance(thing, Elementary) else thing


def wrap_in_counting_array(thing, counts: Counts):
    if not isinstance(thing, np.ndarray) or thing.dtype.kind != "f":
        return thing
    array = thing.view(Elementary)
    array.counts = counts
    return array


def run_on_counting_arrays(function, counts: Counts):
    """The function on arrays that count; what it returns does not."""
    return lambda *args, **more: unwrap_counting_array(
        function(*(wrap_in_counting_array(a, counts) for a in args), **more)
    )
