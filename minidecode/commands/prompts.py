"""Prompts of a command: from its arguments, a file, or a pipe."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ..errors import InputError
from ..files.lines import LineReader, path_of_prompts


@dataclass
class Prompts:
    """Prompts as they come: from arguments, from a file, or from a pipe, which cannot be read twice."""

    lines: Iterable[str | bytes]
    source: str  # what an error calls a line, before its number
    is_jsonl: bool = False
    total: int | None = None  # None: not known yet
    again: Callable[[], LineReader] | None = None  # opens the file once more

    @property
    def is_single(self) -> bool:
        return self.total == 1

    @property
    def can_be_read_again(self) -> bool:
        return self.again is not None or self.source == "prompt"  # arguments

    def count_prompts(self) -> None:
        """Finds the total out, where that can be done without losing a line."""
        if self.total is None and self.again:
            with contextlib.closing(self.again()) as lines:
                self.total = sum(1 for _ in lines)


@contextlib.contextmanager
def read_prompts_of_command(
    arguments: list[str], path: Path | None, jsonl: bool, what: str = "prompt"
) -> Iterator[Prompts]:  # fmt: skip
    """Prompts from the arguments, or from a file or standard input (-). Raises InputError on both, and on none.

    what: the word for one of them in errors.
    """
    path = path_of_prompts(arguments, path, jsonl, what)
    if path is None:
        yield Prompts(arguments, what, total=len(arguments))
        return
    with contextlib.closing(LineReader(path)) as reader:
        first_two = list(itertools.islice(reader, 2))
        if not first_two:
            raise InputError(f"{reader.name} is empty: write one text per line")
        yield Prompts(
            _Beginning(first_two, reader), f"{reader.name}, line", jsonl or path.suffix == ".jsonl",
            1 if len(first_two) == 1 else None, (lambda: LineReader(path)) if reader.can_be_opened_again else None,
        )  # fmt: skip


class _Beginning:
    """Lines that were looked at already, then the reader's others."""

    def __init__(self, first: list[bytes], reader: LineReader):
        self.first, self.reader, self.call_off = first, reader, reader.call_off

    def __iter__(self) -> Iterator[bytes]:
        return itertools.chain(self.first, self.reader)
