"""The errors that a user can mend. The command line prints them as one line; nothing else is caught there."""

from __future__ import annotations

import difflib
import os
import shlex
import subprocess
from collections.abc import Iterable


def did_you_mean(word: str, names: Iterable[str]) -> str:
    """ "; did you mean NAME?" where one of the names is near to the word, and nothing otherwise."""
    near = difflib.get_close_matches(word, list(names), n=1)
    return f"; did you mean {near[0]}?" if near else ""


def quoted(path: object) -> str:
    """A path or another word as a shell takes it, in quotes where it needs them: for commands in messages."""
    return shlex.quote(str(path)) if os.name == "posix" else subprocess.list2cmdline([str(path)])


class MinidecodeError(Exception):
    """Something a user can mend: the message names the cause and the remedy on one line."""


class MinidecodeWarning(UserWarning):
    """Something goes on otherwise than a file or a call asks for. The command line prints it as one line."""


class CheckpointError(MinidecodeError, ValueError):
    """A model folder or one of its files cannot be used."""


class OptionError(MinidecodeError, ValueError):
    """A generation option, plan or argument breaks a rule; the message says which."""


class InputError(MinidecodeError, ValueError):
    """The text or the token ids to start from cannot be used."""


class NumericalError(MinidecodeError, ArithmeticError):
    """The model's scores turned NaN."""


class EmulationError(MinidecodeError, RuntimeError):
    """The emulator found a mistake in a kernel (with `strict=True`), or would take too long."""


class CompiledCodeError(MinidecodeError, RuntimeError):
    """Numba finds no folder that it may keep compiled code in."""


class MemoryBudgetError(MinidecodeError, MemoryError):
    """A generation would take more memory than it may, or a model does not fit; nothing has been computed."""


class LineError(MinidecodeError):
    """One line of many cannot be done: the message says where it stands, and `__cause__` what happened."""

    def __init__(self, message: str, number: int):
        super().__init__(message)
        self.number = number  # from 1


class RefusedError(MinidecodeError, ValueError):
    """A function handed to `compare` cannot be timed fairly: the message says what it did."""


class WorkerError(MinidecodeError, RuntimeError):
    """A worker thread that shared an op's work died or could not start: results of that op may be incomplete."""


class PipelineError(MinidecodeError, RuntimeError):
    """A thread of the pipeline ended without a word, or a line was lost or came twice: nothing of it was written."""
