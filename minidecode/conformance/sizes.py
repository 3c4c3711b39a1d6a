"""Sizes at which implementations break that are right on small inputs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

ROWS = 1025  # one more than a block has threads
WIDTH = 3  # of rows, where there are many
VOCABULARY = 50257  # GPT-2's: more than int16 counts
WIDE = 2**16 + 60  # more columns than uint16 counts
POSITIONS = 2**12 + 33  # position 4,096 is among them, which twelve bits do not count
SEVERAL_WIDE = (3, 2**12 + 33)  # (rows, columns): all rows must be right, not the first alone
MANY_ROWS = 2**16 + 1  # more than a grid has blocks in y or z, and than sixteen bits count
LARGE_HEADS = ((33, 3), (1, 130))  # (heads, width): more heads than a warp has threads; a head wider than 128
BOUNDARIES = tuple(sorted({multiple + more for multiple in (32, 64, 128, 256, 512) for more in (0, 1)}))
POISON = 1e4  # lies where no op may look


def make_large_scores(rng: np.random.Generator, spread: float = 1.0) -> Iterator[np.ndarray]:
    """scores_RV of many rows, wide ones, and widths at the edges of blocks: the first row's last token is the best."""
    for shape in [*((1, V) for V in BOUNDARIES), (ROWS, WIDTH), SEVERAL_WIDE, (1, WIDE), (MANY_ROWS, 2)]:
        scores_RV = spread * rng.standard_normal(shape)
        scores_RV[0, -1] = 9.0
        yield scores_RV
