"""Following the beams by a table: inputs that find mistakes, and what is right."""

from __future__ import annotations

import numpy as np

from . import reorder


def make_arguments(k_RGMX, parent_R, length_R) -> tuple:
    """(indirection_RT, parent_R, length_R) from a cache's: no two places hold the same number."""
    R, _, T, _ = k_RGMX.shape
    return np.arange(1, 1 + R * T).reshape(R, T), parent_R, length_R


def draw_inputs():
    """The inputs of `reorder`, their caches exchanged for tables."""
    return reorder.draw_inputs().map(lambda arguments: make_arguments(*arguments))


def planted_cases() -> list[tuple]:
    return [make_arguments(*arguments) for arguments in reorder.planted_cases()]


def large_cases() -> list[tuple]:
    """The large inputs of `reorder`, their caches exchanged for tables."""
    return [make_arguments(*arguments) for arguments in reorder.large_cases()]


def oracle(indirection_RT, parent_R, length_R):
    """A new table, place by place; what is not written yet stays."""
    result_RT = np.empty_like(indirection_RT)
    for r, t in np.ndindex(indirection_RT.shape):
        result_RT[r, t] = indirection_RT[parent_R[r] if t < length_R[r] else r, t]
    return result_RT


def make_paper_inputs(*, seed: int = 0) -> tuple[tuple, str]:
    """The table beside the cache of row `reorder`."""
    arguments, _ = reorder.make_paper_inputs(seed=seed)
    return make_arguments(*arguments), "32 sentences of 4 beams, 64 positions"
