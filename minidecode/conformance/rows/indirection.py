"""Following the beams by a table: inputs that find mistakes, and what is right."""

from __future__ import annotations

import numpy as np

from . import reorder


def arguments_of(k_RGMX, parent_R, length_R) -> tuple:
    """(indirection_RT, parent_R, length_R) from a cache's: no two places hold the same number."""
    R, _, T, _ = k_RGMX.shape
    return np.arange(1, 1 + R * T).reshape(R, T), parent_R, length_R


def inputs():
    """The inputs of `reorder`, their caches exchanged for tables."""
    return reorder.inputs().map(lambda arguments: arguments_of(*arguments))


def planted() -> list[tuple]:
    return [arguments_of(*arguments) for arguments in reorder.planted()]


def large() -> list[tuple]:
    """The large inputs of `reorder`, their caches exchanged for tables."""
    return [arguments_of(*arguments) for arguments in reorder.large()]


def oracle(indirection_RT, parent_R, length_R):
    """A new table, place by place; what is not written yet stays."""
    result_RT = np.empty_like(indirection_RT)
    for r, t in np.ndindex(indirection_RT.shape):
        result_RT[r, t] = indirection_RT[parent_R[r] if t < length_R[r] else r, t]
    return result_RT


def paper_inputs(*, seed: int = 0) -> tuple[tuple, str]:
    """The table beside the cache of row `reorder`."""
    arguments, _ = reorder.paper_inputs(seed=seed)
    return arguments_of(*arguments), "32 sentences of 4 beams, 64 positions"
