"""What the emulator reports about a kernel, and the exceptions by which a thread stops."""

from __future__ import annotations

from dataclasses import dataclass, field

from .source import Place


@dataclass
class Finding:
    """One thing found: an error, or a note (worth knowing, no mistake by itself). str() of it is message and remedy."""

    kind: str  # "race", "outside", "misaligned", "uninitialised", "barrier", "warp", "deadlock", "endless", ...
    message: str  # what was seen, and why it matters
    places: list[Place] = field(default_factory=list)
    severity: str = "error"  # or "note"
    detail: dict = field(default_factory=dict)  # what a picture needs, or who wants to know more
    remedy: str = ""  # in sentences; an exercise shows the message alone, so that its reader finds the remedy

    def __str__(self) -> str:
        return f"{self.message} {self.remedy}".rstrip()


class Stop(Exception):  # noqa: N818 (it stops a launch; the error is the finding)
    """Ends a launch: no thread can go on in a way that means something."""

    def __init__(self, finding: Finding):
        super().__init__(finding.message)
        self.finding = finding


def verb_for(names: list, plural: str) -> str:
    """ "threads 0 and 1 wait", but "thread 0 waits"."""
    return plural if len(names) > 1 else f"{plural}s"


def threads_in_words(names: list[str]) -> str:
    """ "thread 3", "threads 3, 4 and 5", "threads 0, 1, 2, 3 and 28 more"."""
    if len(names) == 1:
        return f"thread {names[0]}"
    if len(names) > 5:
        return f"threads {', '.join(names[:4])} and {len(names) - 4} more"
    return f"threads {', '.join(names[:-1])} and {names[-1]}"
