"""When the host looks at a search: after each step, or on a device after several steps, each of which is one launch.

A look waits until the device is done, and then the device waits for the next launch. So where the host need not see
each step, the device keeps what the last eight steps told, and the host reads it at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..device.arrays import array_like, fetch
from ..ops import ALL_DONE, TROUBLE
from ..options.options import Options
from ..runtime.engine import Engine
from .result import Request
from .rows import Rows

MOST = 8  # steps between two looks: a number of 64 bits has a byte for each


def steps_between_looks(steps: int, may_end_early: bool) -> int:
    """How many steps are launched between two looks, after this many steps: 1, 2, 4 or 8.

    Where texts may end at any step, K steps between looks launch (K - 1) / 2 too many at the end on average. On an H100
    each look that is left out saves about 1/25 of a step of GPT-2. So K in place of K / 2 pays after 6 K * K steps. It
    begins after 8 K * K: a text that is so long may well get twice as long.
    """
    between = MOST
    while may_end_early and between > 1 and 8 * between * between > steps:
        between //= 2
    return between


class StepReport(NamedTuple):
    """How a step went, as the host reads it."""

    step: int
    flag: int  # ALL_DONE, SOME_DONE, TROUBLE, MOVED
    trouble_X: np.ndarray  # what is wrong with texts, or with sentences
    model_trouble_R: np.ndarray | None  # and with the model's own scores, before processors


@dataclass
class Past:
    """What the last eight steps told, in a part of a search's state on a device: a byte each, the newest lowest."""

    history_X: np.ndarray  # the flag, then the troubles of texts or sentences, then those of the model's scores
    troubles: int  # of texts or sentences

    @classmethod
    def start(cls, like: np.ndarray, troubles: int, rows: int) -> Past:
        """The state before the first step, on the device of this array."""
        return cls(array_like(like, 1 + troubles + rows, np.int64, 0), troubles)

    def make_empty(self, troubles: int, rows: int) -> Past:
        """An empty history of this many texts or sentences: the host has seen all steps."""
        return Past.start(self.history_X, troubles, rows)

    def note(self, flag: np.ndarray, trouble_X: np.ndarray, model_trouble_R: np.ndarray | None) -> None:
        """Keeps what one more step told: the next one overwrites its flag and its troubles."""
        self.history_X <<= 8
        behind = 1 + self.troubles
        parts = self.history_X[:1], self.history_X[1:behind], self.history_X[behind:]
        for part_X, new_X in zip(parts, (flag, trouble_X, model_trouble_R), strict=True):
            if new_X is not None:
                part_X |= new_X

    def recent_flags(self, steps: int) -> list[int]:
        """The flags of the last steps, the oldest first; the host waits here."""
        flags = int(self.history_X[0])
        return [flags >> 8 * ago & 255 for ago in reversed(range(steps))]

    def troubles_of(self, ago: int) -> tuple[np.ndarray, np.ndarray]:
        """(trouble_X, model_trouble_R) of the step before this many others."""
        report_X = fetch(self.history_X) >> 8 * ago & 255
        return report_X[1 : 1 + self.troubles], report_X[1 + self.troubles :]


@dataclass
class Looks:
    """The host's, at a search."""

    engine: Engine
    may_end_early: bool  # whether a text may end before its limit
    are_rare: bool  # whether some steps need no look; then the search's state has a Past
    steps: int = 0  # that it has seen

    @classmethod
    def start(cls, engine: Engine, request: Request, options: Options, refused: str) -> Looks:
        """refused: why no step is one launch, if none is."""
        may_end_early = bool(options.eos_token_id)
        # Looks at each step cost less than a Past.
        halfway = steps_between_looks(int(request.limit_B.max()) // 2, may_end_early)
        return cls(engine, may_end_early, halfway > 1 and engine.captures(refused or ()))

    def are_due(self, past: Past | None, rows: Rows, key: Any) -> bool:
        """Whether the host looks before the next step, which has these rows and this key.

        It does before every step that is not one launch, and where a text is at its limit, as all are at the end.
        """
        if past is None or not self.engine.captures(key):
            return True
        assert rows.step is not None
        is_time = rows.step - self.steps >= steps_between_looks(rows.step, self.may_end_early)
        return is_time or bool((rows.limit_R == rows.step).any())

    def look(
        self, steps: int, past: Past | None, flag: np.ndarray, trouble_X: np.ndarray,
        model_trouble_R: np.ndarray | None,
    ) -> StepReport:  # fmt: skip
        """What the steps since the last look told: the first one that ends the search, or else the newest.

        So many steps have run; the arrays are what the newest told.
        """
        if past is None:
            self.steps = steps
            return StepReport(steps - 1, int(flag[0]), trouble_X, model_trouble_R)  # the host waits here
        self.engine.graphs.looks += 1
        flags = past.recent_flags(steps - self.steps)
        decisive = next((i for i, each in enumerate(flags) if each & (TROUBLE | ALL_DONE)), len(flags) - 1)
        self.steps += decisive + 1
        troubles = past.troubles_of(steps - self.steps) if flags[decisive] & TROUBLE else (trouble_X, model_trouble_R)
        return StepReport(self.steps - 1, flags[decisive], *troubles)
