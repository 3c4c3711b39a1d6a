"""A row of scores cut into groups, a threshold from the maxima of the groups, and which scores survive it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ..errors import InputError
from ..reference.candidates import group_maxima
from .canvas import Canvas
from .figure import Figure, scrub

LEFT, TOP, HEIGHT, WIDEST = 12, 66, 26, 440  # pixels
MOST_GROUPS, MOST_DEEP = 11, 8


def draw_survivors(scores_X: Sequence[float], C: int, *, name: str, caption: str, alt: str, **more) -> Figure:
    """HARS step by step, for the C best: groups, their maxima, what reaches the least of these, the best C of that.

    Score x belongs to group x mod C. more: groups and reaches, as in `draw_ways`.
    """
    row = _Row(scores_X, C, more.get("groups", C), more.get("reaches", np.greater_equal))
    return scrub(name, [(row.label(k), row.canvas(k)) for k in range(4)], caption=caption, alt=alt)


def draw_ways(
    scores_X: Sequence[float], C: int, ways: Mapping[str, tuple[int, Callable]], *, name: str, caption: str, alt: str
) -> Figure:
    """Draws the scores that survive, a frame for each way: title -> (groups, how a score reaches a threshold).

    One of the C best that does not survive is crossed.
    """
    rows = {title: _Row(scores_X, C, *way) for title, way in ways.items()}
    height, width = max(r.height for r in rows.values()), max(r.width for r in rows.values())
    frames = [(f"{title}: {row.label(3)}", row.canvas(3, height, width)) for title, row in rows.items()]
    return scrub(name, frames, caption=caption, alt=alt)


class _Row:
    """A row of scores, and what becomes of it."""

    def __init__(self, scores_X, C: int, groups: int, reaches: Callable):
        self.scores_X, self.C, self.groups = np.asarray(scores_X), C, groups
        self.deep = -(-len(self.scores_X) // groups)
        if groups > MOST_GROUPS or self.deep > MOST_DEEP:
            raise InputError(f"a figure has room for {MOST_GROUPS} groups of {MOST_DEEP} scores")
        self.maxima_X = group_maxima(self.scores_X, groups)
        self.threshold = self.maxima_X.min()
        self.survive_X = reaches(self.scores_X, self.threshold)
        self.best = np.argsort(-self.scores_X, kind="stable")[:C].tolist()
        self.lost = [x for x in self.best if not self.survive_X[x]]
        self.cell = min(52, WIDEST // max(groups, C))
        self.width = max(2 * LEFT + self.cell * max(groups, C), 300)
        self.height = TOP + HEIGHT * self.deep + 116

    def label(self, step: int) -> str:
        survivors = int(self.survive_X.sum())
        lost = f"; {len(self.lost)} of the best {self.C} lost" if self.lost else f"; the best {self.C} are among them"
        return (
            f"{len(self.scores_X)} scores in {self.groups} groups.",
            f"The maxima of the groups: {', '.join(f'{m:g}' for m in self.maxima_X)}.",
            f"The least of them is {self.threshold:g}, and {survivors} scores pass.",
            f"{survivors} survivors{lost}.",
        )[step]

    def canvas(self, step: int, height: int = 0, width: int = 0) -> Canvas:
        canvas = Canvas(width or self.width, height or self.height)
        head = ("score x in group x mod " + str(self.groups), "the largest of each group",
                f"threshold: {self.threshold:g}", f"threshold: {self.threshold:g}")[step]  # fmt: skip
        canvas.text(LEFT, 20, head, bold=True)
        first_of = self._first_maxima()
        for g in range(self.groups):
            canvas.text(LEFT + self.cell * (g + 0.5), TOP - 8, f"g{g}", anchor="middle", role="faint")
        for x, score in enumerate(self.scores_X.tolist()):
            fill = "pale"
            if step == 1 and x in first_of:
                fill = "strong"
            elif step >= 2 and self.survive_X[x]:
                fill = "mark"
            elif step == 3 and x in self.lost:
                fill = "bad"
            place = LEFT + self.cell * (x % self.groups), TOP + HEIGHT * (x // self.groups)
            canvas.cell(*place, fill, f"{score:g}", width=self.cell, height=HEIGHT, tip=f"score {x}: {score:g}")
        y = TOP + HEIGHT * self.deep
        for g in range(self.groups) if step >= 2 else ():
            count = int(self.survive_X[g :: self.groups].sum())
            canvas.text(LEFT + self.cell * (g + 0.5), y + 18, str(count), anchor="middle")
        if step == 3:
            canvas.text(LEFT, y + 44, f"the best {self.C}", bold=True)
            for k, x in enumerate(self.best):
                canvas.cell(LEFT + self.cell * k, y + 52, "bad" if x in self.lost else "strong",
                            f"{self.scores_X[x]:g}", width=self.cell, height=HEIGHT)  # fmt: skip
        meanings = ({"pale": "a score"}, {"strong": "maximum"}, {"mark": "survives"},
                    {"mark": "survives", "strong": "best"} | ({"bad": "lost"} if self.lost else {}))[step]  # fmt: skip
        canvas.legend(LEFT, y + 104, meanings)
        return canvas

    def _first_maxima(self) -> set[int]:
        """The first position of each group's maximum."""
        return {int(np.argmax(self.scores_X[g :: self.groups])) * self.groups + g for g in range(self.groups)}
