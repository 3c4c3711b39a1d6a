"""What ends a text beside EOS and its limit: strings in it, functions of the caller's, and the clock."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from ..device.user_functions import call_option, describe
from ..errors import OptionError
from ..options.options import Options


@dataclass
class Stopping:
    """Asked once a step, by the host: which texts end with their newest token.

    decode_after: (ids before, ids) -> the text of the ids there, special tokens left out; `special` are their ids.
    tail: how many tokens at the end of a text can hold a stop string that ends in the newest token; None where only the
    whole text tells.
    """

    options: Options
    decode_after: Callable[[np.ndarray, np.ndarray], str] | None
    special: Sequence[int] = ()
    tail: int | None = None
    began: float = field(default_factory=time.perf_counter)
    cut_at: int | None = None  # the new tokens at which max_time ended what was left

    def is_last(self, step: int) -> bool:
        """Whether max_time is over, so that this step is the last."""
        if self.cut_at is None and time.perf_counter() - self.began >= (self.options.max_time or float("inf")):
            self.cut_at = step + 1
        return self.cut_at is not None

    @property
    def looks_at_texts(self) -> bool:
        """Whether strings or functions are to be asked."""
        return bool(self.options.stop_strings or self.options.stopping_criteria)

    def ends(self, texts: Iterable[np.ndarray], prompt_R: np.ndarray, scores_RV: np.ndarray | None) -> np.ndarray:
        """end_R: whether each text ends. texts: ids, each behind its prompt of prompt_R tokens, the newest one last."""
        texts = list(texts)
        end_R = np.array([self._has_stop(ids[:p], ids[p:]) for ids, p in zip(texts, prompt_R, strict=True)], bool)
        for function in self.options.stopping_criteria:
            answer = np.asarray(call_option("stopping_criteria", "f(ids, scores)", function, texts, scores_RV))
            if answer.dtype != bool or answer.shape not in ((), end_R.shape):
                raise OptionError(
                    f"stopping_criteria: {describe(function)} returned {answer!r:.80}: return True or False, or one "
                    f"for each of the {len(texts)} texts"
                )
            end_R |= answer
        return end_R

    def _has_stop(self, before: np.ndarray, ids: np.ndarray) -> bool:
        if self.decode_after is None or not self.options.stop_strings:
            return False
        ids = ids[~np.isin(ids, self.special)]
        if self.tail is not None and len(ids) > self.tail:
            before, ids = np.split(ids, [-self.tail])
        text = self.decode_after(before, ids)
        return any(stop in text for stop in self.options.stop_strings)
