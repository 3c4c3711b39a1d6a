"""What the engine and the models ask of a cache: the methods that the classes in this folder share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from .prefix import Prefix


@dataclass(frozen=True)
class CacheSize:
    """What the bytes of one layer's cache follow from."""

    B: int  # sentences
    R: int  # rows: beams, or samples of each sentence
    N: int  # positions of a prompt
    T: int  # generated positions
    G: int  # heads of keys and values
    window: int | None  # positions that a row sees
    stored: int  # bytes of one position's keys and values, as the cache stores them
    computed: int  # the same in the dtype of the arithmetic
    hidden: int  # bytes of one position's hidden state, as the cache stores it


class SourceCache(Protocol):
    """What one decoder layer keeps of the source."""

    is_per_beam: ClassVar[bool]  # whether steps read a copy for each beam
    target_offsets_X: np.ndarray  # where the rows of each sentence begin, in a prefill

    def attend(self, ops: Any, q_RX: np.ndarray) -> np.ndarray:
        """Attention of each row to the whole of its source, from the query product without its bias."""

    def expand(self, ops: Any, beams: int) -> None:
        """Ends the prefill: from here on a row per beam."""

    def keep_only(self, ops: Any, stays_B: np.ndarray, stays_R: np.ndarray) -> None:
        """Keeps only these sentences, and these rows of theirs."""

    def arrays(self) -> tuple[np.ndarray, ...]:
        """The arrays that are held between steps."""


class SourceCacheKind(Protocol):
    """A class of them: it makes those of all layers at once."""

    is_per_beam: bool
    ops: frozenset[str]  # that it calls in a prefill, and not every cache does
    op_of_step: str  # that attends in steps

    def of_layers(
        self, ops: Any, weights: Any, source: Any, target_offsets_X: np.ndarray, stored_as: np.dtype | None = None
    ) -> list[SourceCache]:
        """A cache for each layer."""


class CacheTraits(Protocol):
    """What others ask of a cache's class, none by its name. A cache says what differs from these."""

    keeps: ClassVar[bool] = True  # whether it goes on in steps, as a `StepCache`
    in_place: ClassVar[bool] = True  # whether steps work on arrays that stay where they are
    grows: ClassVar[bool] = False  # whether each step makes its arrays anew, one position longer
    slots_wrap: ClassVar[bool] = False  # whether position p lies in slot p % M
    shares_pages: ClassVar[bool] = False  # whether rows share pages of one pool
    reads_hidden_states: ClassVar[bool] = False  # whether steps attend to those, by the weights of keys and values
    refuses: ClassVar[Mapping[str, str]] = {}  # why it cannot serve a model, by the parameters of `Plan.resolve`
    cross: ClassVar[SourceCacheKind]  # what a decoder that sees a source has beside it
    running_kind: ClassVar[Any] = None  # the class that a running batch has in its place (running.py), if it has one


class LayerCache(CacheTraits, Protocol):
    """One decoder layer's keys and values (or what they are made from) in a forward pass over prompts."""

    prefix: Prefix | None  # which rows are of sources, in a model that reads them in the same layers

    def __init__(self, block: Any, offsets_X: np.ndarray, stored_as: np.dtype | None = None, N: int | None = None):
        """Begins a cache for sequences that begin at offsets_X. N: positions that steps pad to; stored_as: a dtype."""

    def append(self, ops: Any, qkv_RX: np.ndarray, h_RD: np.ndarray) -> np.ndarray:
        """Adds the bias, cuts into heads, keeps keys and values, returns the queries."""

    def attend(self, ops: Any, q_RHK: np.ndarray) -> np.ndarray:
        """Attention of each row to its text up to itself."""

    def arrays(self) -> tuple[np.ndarray, ...]:
        """The arrays that are held between steps."""


class ChosenCache(LayerCache, Protocol):
    """One that a plan can choose: it says what it is, and how many bytes it takes."""

    about: ClassVar[str]  # what it keeps, in one line of help
    ops: ClassVar[frozenset[str]]  # that steps call, and not with every cache
    beside_source: ClassVar[type[ChosenCache] | None]  # what a decoder that sees a source has in its place

    @staticmethod
    def prompt_bytes(size: CacheSize) -> int:
        """Held when the prompts have been read."""

    @staticmethod
    def bytes_between_steps(size: CacheSize) -> int:
        """Held between steps, after the last of them."""

    @staticmethod
    def gathered_bytes(size: CacheSize) -> int:
        """Copies that a step makes in order to read what lies in many places; for a time only."""


class StepCache(Protocol):
    """One decoder layer's cache from step to step, with what it keeps of a source, if there is one."""

    def append(self, ops: Any, qkv_RX: np.ndarray, h_RD: np.ndarray) -> np.ndarray:
        """What `LayerCache.append` does; in a step, for one new position a row."""

    def attend(self, ops: Any, q_RHK: np.ndarray) -> np.ndarray:
        """What `LayerCache.attend` does."""

    def expand(self, ops: Any, beams: int, steps: int) -> None:
        """Ends the prefill: from here on there is a row per beam, for at most this many steps."""

    def reorder(self, ops: Any, parent_R: np.ndarray) -> None:
        """Row r goes on from what row parent[r] held."""

    def keep_only(self, ops: Any, stays_B: np.ndarray, stays_R: np.ndarray) -> None:
        """Keeps only these sentences, and these rows of theirs."""

    def arrays(self) -> tuple[np.ndarray, ...]:
        """The arrays that are held between steps."""
