"""What an encoder made of the source texts, for the cross memories of all decoder layers."""

from __future__ import annotations

import numpy as np

from ..precision import held_as


class Source:
    """Hidden states of the sources: the rows as they come, or, once somebody asks for them, as one padded array.

    There is only ever one of the two, whoever reads it, and however many beams and layers do.
    """

    def __init__(self, h_RD, offsets_X, stored_as=None):
        self.h_RD, self.offsets_X, self.stored_as = h_RD, offsets_X, stored_as
        self.h_BND = None

    def padded(self, ops):
        """h_BND, padded on the left, as it is stored; made at the first call, and the rows are given up for it."""
        if self.h_BND is None:
            self.h_BND = ops.pad_left(held_as(self.stored_as, self.h_RD)[:, None], self.offsets_X)[:, 0]
            self.h_RD = None
        return self.h_BND

    def repeated(self, ops, times: int) -> Source:
        """Every source so many times in a row: one for each beam."""
        places = np.split(np.arange(len(self.h_RD)), self.offsets_X[1:-1])
        repeated = [rows for rows in places for _ in range(times)]
        offsets_X = np.concatenate([[0], np.cumsum([len(rows) for rows in repeated])])
        return Source(ops.take(self.h_RD, np.concatenate(repeated)), offsets_X)

    def arrays(self):
        """What is held."""
        return (self.h_RD,) if self.h_BND is None else (self.h_BND,)
