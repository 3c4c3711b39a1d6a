"""The rows of a step's scores: their texts, lengths and limits, and the tables that lie beside them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..device.arrays import fetch
from .constraints import Constraint


@dataclass(frozen=True)
class Rows:
    """The texts that the scores continue, one per row: what a processor may look at.

    tokens_RM[r, :length_R[r]] is the text so far, its prompt included, without padding. Texts and lengths may lie on a
    device; all else the host knows. So it knows too, without looking, how long a text is that goes on: step new tokens.
    """

    tokens_RM: np.ndarray
    length_R: np.ndarray
    prompt_R: np.ndarray  # tokens of the prompt
    limit_R: np.ndarray  # most tokens that may follow the prompt
    sentence_R: np.ndarray  # which sentence of the batch the row belongs to
    sources: list[np.ndarray]  # by sentence: what the encoder read, or the prompt where there is no encoder
    prefix_BP: np.ndarray | None = None  # tokens that the text must begin with; -1 leaves a place free
    step: int | None = None  # where it is not known, the lengths say it
    constraint: Constraint | None = None  # what new texts must match
    unconditional_RV: np.ndarray | None = None  # logits of the same new tokens behind the negative prompts
    tables: dict[Any, Any] = field(default_factory=dict)  # what lies beside the texts for a whole generation

    def table(self, name: str, make: Callable[[], Any]) -> Any:
        """The table of this name, an array or several, where the texts lie; made when it is first asked for."""
        key = (name, len(self.length_R) if name.endswith("_R") else None, type(self.tokens_RM))
        if key not in self.tables:
            self.tables[key] = _move_beside(make(), self.tokens_RM)
        return self.tables[key]

    def table_of_rows(self, name: str) -> Any:
        """Makes the table of this name, one of OF_ROWS."""
        return self.table(name, lambda: OF_ROWS[name](self))

    @functools.cached_property
    def certain_R(self) -> np.ndarray:
        """Rows whose next token a processor has made certain; they are noted here."""
        return np.zeros_like(self.length_R, bool)

    @functools.cached_property
    def rows_that_may_go_on(self) -> Rows:
        """The rows below their limits, as long as they are if they go on."""
        if self.step is None:
            return self
        mine_X = np.flatnonzero(self.limit_R > self.step)
        prompt_R, limit_R, sentence_R = self.prompt_R[mine_X], self.limit_R[mine_X], self.sentence_R[mine_X]
        length_R = prompt_R + self.step
        return replace(self, length_R=length_R, prompt_R=prompt_R, limit_R=limit_R, sentence_R=sentence_R)

    @functools.cached_property
    def on_device(self) -> Rows:
        """These rows, with all that conditions read where the texts lie."""
        if isinstance(self.tokens_RM, np.ndarray):
            return self
        names = ("prompt_R", "limit_R", "sentence_R", *(() if self.prefix_BP is None else ("prefix_BP",)))
        return replace(self, **{name: self.table_of_rows(name) for name in names})

    @functools.cached_property
    def new_texts(self) -> tuple[np.ndarray, np.ndarray]:
        """(tokens_RM, length_R): of each text what stands behind its prompt, from the first column on."""
        there, M = self.on_device, self.tokens_RM.shape[1]
        at_RM = there.prompt_R[:, None] + np.arange(M, like=self.tokens_RM)
        return np.take_along_axis(self.tokens_RM, np.minimum(at_RM, M - 1), axis=1), there.new_R

    @property
    def on_host(self) -> Rows:
        """These rows, with copies of what lies on a device."""
        rows = replace(self, tokens_RM=fetch(self.tokens_RM), length_R=fetch(self.length_R))
        rows.certain_R[...] = fetch(self.certain_R)
        return rows

    @property
    def new_R(self) -> np.ndarray:
        """New tokens so far."""
        return self.length_R - self.prompt_R

    @property
    def last_R(self) -> np.ndarray:
        """Whether only one more token may follow."""
        return self.new_R == self.limit_R - 1

    def text(self, r: int) -> np.ndarray:
        return self.tokens_RM[r, : self.length_R[r]]


def _move_beside(made: Any, like: Any) -> Any:
    if isinstance(made, tuple):
        return tuple(np.asarray(array, like=like) for array in made)
    return np.asarray(made, like=like)


OF_ROWS = {  # by what they are; those whose names end in R are for as many rows as there are
    "first_list_R": lambda rows: np.zeros(len(rows.length_R), np.int64),
    "every_R": lambda rows: np.arange(len(rows.length_R)),
    "prompt_R": lambda rows: rows.prompt_R,
    "limit_R": lambda rows: rows.limit_R,
    "sentence_R": lambda rows: rows.sentence_R,
    "prefix_BP": lambda rows: rows.prefix_BP,
}
