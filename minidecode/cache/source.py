"""What an encoder made of the source texts, for the cross caches of all decoder layers."""

from __future__ import annotations

import numpy as np

from ..device.arrays import fetch
from ..device.low_precision import cast_for_cache
from .padding import longest_sentence_length


class Source:
    """Hidden states of the sources: the rows as they come, or, once somebody asks for them, as one padded array.

    There is only ever one of the two, however many beams and layers read it.
    """

    def __init__(self, h_RD, offsets_X, stored_as=None, N=None):
        self.h_RD, self.offsets_X, self.stored_as = h_RD, offsets_X, stored_as
        self.N = longest_sentence_length(offsets_X) if N is None else N  # positions that sources are padded to
        self.h_BND: np.ndarray | None = None

    def pad_once(self, ops):
        """h_BND, padded on the left, as it is stored; made at the first call, and the rows are given up for it."""
        if self.h_BND is None:
            h_RD = cast_for_cache(self.stored_as, self.h_RD)
            self.h_BND = ops.pad_left(h_RD[:, None], self.offsets_X, self.N)[:, 0]
            self.h_RD = self.offsets_X = None
        return self.h_BND

    def pick_sentences(self, ops, pick_X) -> Source:
        """Picks these sources, in this order, each as often as it is named: one for each beam, or those that go on."""
        places = np.split(np.arange(len(self.h_RD)), fetch(self.offsets_X)[1:-1])
        picked = [places[x] for x in pick_X]
        offsets_X, pick_R = np.cumsum([0, *(len(rows) for rows in picked)]), np.concatenate(picked)
        like = self.offsets_X
        h_RD = ops.gather_rows(self.h_RD, np.asarray(pick_R, like=like))
        return Source(h_RD, np.asarray(offsets_X, like=like), N=self.N)

    def keep_only(self, ops, stays_B) -> None:
        """The padded sources of these sentences alone. Sentences that leave make it shorter, so it is done once."""
        assert self.h_BND is not None  # `pad_once` has made it
        if len(self.h_BND) > len(stays_B):
            self.h_BND = ops.gather_rows(self.h_BND, stays_B)

    def arrays(self):
        """The arrays that are held."""
        return (self.h_RD,) if self.h_BND is None else (self.h_BND,)
