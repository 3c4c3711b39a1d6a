"""Chooses the cache class of each layer, and the dtype that it stores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .prefix import Prefix
from .protocol import LayerCache


@dataclass(frozen=True)
class CacheFactory:
    """Makes caches of one kind. stored_as: a smaller dtype than the arithmetic's; None stores what is computed."""

    kind: type[LayerCache]
    stored_as: np.dtype | None = None

    @property
    def keeps(self) -> bool:
        """Whether a step computes one row per beam."""
        return self.kind.keeps

    def __call__(self, block, offsets_X: np.ndarray, N: int, prefix: Prefix | None = None) -> LayerCache:
        """A decoder layer's own cache, of prompts that the steps find padded to N positions.

        prefix: the sources in front of them, if they are read in the same layers.
        """
        cache = self.kind(block, offsets_X, self.stored_as, N)
        cache.prefix = prefix
        return cache

    def make_source_caches(self, ops, weights, source, target_offsets_X) -> list:
        """What each decoder layer keeps of the source."""
        return self.kind.cross.of_layers(ops, weights, source, target_offsets_X, self.stored_as)

    def name(self, has_encoder: bool) -> str:
        """The cache's name in receipts: its classes, and the dtype that it stores."""
        kinds: list[Any] = [self.kind, *([self.kind.cross] if has_encoder else [])]
        names = " + ".join(f"{kind.__module__}.{kind.__qualname__}" for kind in kinds)
        return names if self.stored_as is None else f"{names} in {self.stored_as}"
