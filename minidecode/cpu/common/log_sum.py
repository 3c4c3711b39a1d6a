"""The largest logit of a row and the sum of its exponentials: pieces of the ops over a vocabulary."""

from __future__ import annotations

import numpy as np

from .jit import REORDER, njit
from .vector_exp import exp

PART = 256  # logits that are compared together
ADDED = 512  # exponentials that are added up in float32


@njit(cache=True)
def largest_of(logits_V):
    """NaN is passed over. In lanes, so that it runs on vectors: a maximum alone may not be taken in another order."""
    lanes_X = np.full(PART, -np.inf, logits_V.dtype)
    for first in range(0, len(logits_V), PART):
        raise_lanes(lanes_X, logits_V[first : first + PART])
    return lanes_X.max()


@njit(cache=True)
def raise_lanes(lanes_X, part_X):
    for k in range(len(part_X)):
        lanes_X[k] = part_X[k] if part_X[k] > lanes_X[k] else lanes_X[k]


@njit(cache=True)
def sum_of_exponentials(logits_V, largest):
    """The sum of exp(logit - largest); NaN if a logit is NaN or plus infinity, or all are minus infinity.

    Parts are added up in float64: of many small numbers added to one large sum in float32, each loses its last digits,
    and all of them in the same direction if they are nearly equal.
    """
    if logits_V.itemsize == 8:
        return np.exp(logits_V - largest).sum()
    total = 0.0
    for first in range(0, len(logits_V), ADDED):
        total += sum_of_part(logits_V[first : first + ADDED], largest)
    return np.float32(total)


@njit(cache=True, fastmath=REORDER)
def sum_of_part(part_X, largest):
    total = np.float32(0)
    for k in range(len(part_X)):
        total += exp(part_X[k] - largest)
    return total
