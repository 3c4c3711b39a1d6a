"""What ends a text beside EOS and its limit: strings in it, the caller's functions, and the clock."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from ..device.user_functions import call_user_option, describe_function
from ..errors import OptionError, counted
from ..options.options import Options
from ..options.stop_strings import NewText


@dataclass
class Stopping:
    """Asked once a step, by the host: which texts end with their newest token.

    new_text: (ids before, ids, stop strings) -> the text of the ids there. textless: ids of special tokens that no stop
    string names. tail: how many other tokens at the end of a text can hold a stop string that ends in the newest one;
    None where only the whole text tells.
    """

    options: Options
    new_text: Callable[[np.ndarray, np.ndarray, Sequence[str]], NewText] | None
    textless: Sequence[int] = ()
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

    def ends(
        self, texts: Iterable[np.ndarray], prompt_R: np.ndarray, done_R: np.ndarray, scores_RV: np.ndarray | None
    ) -> np.ndarray:
        """end_R: whether each text ends. texts: ids, each behind its prompt of prompt_R tokens, the newest one last.

        Of those that are done, no strings are read; functions are given them, too.
        """
        texts, prompt_R, done_R = list(texts), np.asarray(prompt_R), np.asarray(done_R)
        end_R = np.zeros(len(texts), bool)
        for r in np.flatnonzero(~done_R):
            end_R[r] = self.ends_in_stop_string(*np.split(texts[r], [prompt_R[r]]))
        for function in self.options.stopping_criteria:
            answer = np.asarray(call_user_option("stopping_criteria", "f(ids, scores)", function, texts, scores_RV))
            if answer.dtype != bool or answer.shape not in ((), end_R.shape):
                raise OptionError(
                    f"stopping_criteria: {describe_function(function)} returned {answer!r:.80}: return True or False, "
                    f"or one for each of {counted(len(texts), 'text')}"
                )
            end_R |= answer
        return end_R

    def ends_in_stop_string(self, before: np.ndarray, ids: np.ndarray) -> bool:
        """Whether a stop string ends in the newest of these ids, which stand behind others."""
        if self.new_text is None or not self.options.stop_strings:
            return False
        ids = ids[~np.isin(ids, self.textless)]
        if self.tail is not None and len(ids) > self.tail:
            before, ids = np.split(ids, [-self.tail])
        return self.new_text(before, ids, self.options.stop_strings).has(self.options.stop_strings)
