"""What a check says: data first, and how it reads."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass
class Verdict:
    """One submission to one exercise, judged. str() of it is what a student reads.

    mistake: the stable name of a known mistake, or None. input: code that makes the smallest input that fails.
    picture: SVG. score: of a prediction, from 0 to 1. published: the published solution that it is, where it is graded.
    """

    exercise: int
    seed: int
    ok: bool
    message: str
    mistake: str | None = None
    numbers: dict[str, Any] = field(default_factory=dict)
    input: str | None = None
    picture: str | None = None
    score: float | None = None
    printed: str = ""
    notes: list[str] = field(default_factory=list)
    published: str = ""

    def as_dict(self) -> dict[str, Any]:
        """The fields for JSON; of the picture, the file that it was written to, if any."""
        return {k: v for k, v in asdict(self).items() if k != "picture"}

    def __str__(self) -> str:
        parts = [self.message, *self.notes]
        if self.input:
            parts += ["", "The smallest input that fails:", self.input]
        if self.printed.strip():
            parts += ["", "Your code printed:", self.printed.rstrip()]
        return "\n".join(parts)


@dataclass
class Miss:
    """One thing that is wrong, in words; and the known mistake, where that is clear already."""

    message: str
    mistake: str | None = None
    numbers: dict[str, Any] = field(default_factory=dict)
    picture: str | None = None
    is_of_value: bool = False  # the output is wrong: known mistakes are looked for by their outputs
    shows_input: bool = True
    values_matter: bool = True  # of the input; else its sizes are enough
    is_explained: bool = False  # the message says all there is to say, with a name or without
