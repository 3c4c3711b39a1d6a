"""How far a float32 answer may lie from the oracle's: computed from the dtype, the values and how many are summed.

EPS is the relative error of one rounding in float32. A bound must hold for sums in a tree, and for those of one thread
as far as their errors are independent; and yet be narrow: a test wants it at most 32 times the error that is observed,
so that a factor of 1.001, a wrong scale or a position left out breaks it. (A plain sum of many equal numbers errs in
one direction, and is refused: sum what lies above the first of them.) Each function has an op's arguments and gives
one bound per result, of its shape.
"""

from __future__ import annotations

EPS = 2.0**-24
TINY = 2.0**-126  # the smallest normal number: what is below it may be a few bits of itself, or 0
