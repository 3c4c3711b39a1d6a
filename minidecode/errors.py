"""The errors that a user can mend. The command line prints them as one line; nothing else is caught there."""

from __future__ import annotations

import contextlib
import difflib
import os
import re
import shlex
import subprocess
from collections.abc import Iterable
from pathlib import Path

OTHER_NAMES = {"yaml": "PyYAML", "sklearn": "scikit-learn", "PIL": "pillow", "cupy": "cupy-cuda12x"}  # import -> pip


def did_you_mean(word: str, names: Iterable[str]) -> str:
    """ "; did you mean NAME?" where one of the names is near to the word, and nothing otherwise."""
    near = difflib.get_close_matches(str(word), list(names), n=1)
    return f"; did you mean {near[0]}?" if near else ""


def names_with(part: str, names: Iterable[str]) -> list[str]:
    """The names that have these words, or where none has, those that have this text. Case, - and _ make no difference.

    A number is no part of a name.
    """
    text = re.sub(r"[\W_]+", "_", part.lower()).strip("_")
    if not text or text.isdecimal():
        return []
    known = {name: name.lower().replace("-", "_") for name in names}
    return [n for n, k in known.items() if f"_{text}_" in f"_{k}_"] or [n for n, k in known.items() if text in k]


def counted(number: int, thing: str) -> str:
    """A number with its noun: "1 text", "2 texts", "1,000 batches"."""
    plural = "" if number == 1 else "es" if thing.endswith(("ch", "s")) else "s"
    return f"{number:,} {thing}{plural}"


def quoted(path: object) -> str:
    """A path or another word as a shell takes it, in quotes where it needs them: for commands in messages."""
    return shlex.quote(str(path)) if os.name == "posix" else subprocess.list2cmdline([str(path)])


def shown(value: object, most: int = 80) -> str:
    """A value of a file for a message: its repr, which escapes control characters, of at most that many characters."""
    if isinstance(value, str):
        value = value[: most + 1]  # the rest would be escaped for nothing
    text = repr(value).replace("\n", " ")  # an array's repr has lines
    return text if len(text) <= most else f"{text[: most - 3]}..."


def words_of(error: object) -> str:
    """A library's own words on a file, which may quote all of it: the first of them, on one line."""
    text = " ".join(str(error)[:1000].split())
    return text if len(text) <= 80 else f"{text[:77]}..."


def cut_words(reason: object) -> str:
    """Shortens a message about a file: words to 80 characters, the message to 500."""
    return re.sub(r"\S{81,}", lambda word: f"{word[0][:77]}...", str(reason))[:500]


def pip_install(wanted: str, extra: str | None = None) -> str:
    """The command that adds a package, by the name that `import` or pip has for it, or a whole extra of minidecode.

    It names the packages and versions that minidecode asks for, never minidecode[extra]: so it works wherever
    minidecode came from, a checkout, a wheel or an index.
    """
    needed = _requirements()
    if extra in needed:
        return "pip install " + " ".join(map(quoted, needed[extra]))
    name = wanted.partition(".")[0]
    for requirement in (r for requirements in needed.values() for r in requirements):
        if _normalized(re.split(r"[^\w.-]", requirement)[0]) == _normalized(name):
            return f"pip install {quoted(requirement)}"
    return f"pip install {OTHER_NAMES.get(name, name)}"


def _requirements() -> dict[str, list[str]]:
    """What minidecode asks for, by extra ("": always): as it was installed, or as a checkout's pyproject.toml says."""
    from importlib import metadata

    requirements, project = [], Path(__file__).parents[1] / "pyproject.toml"
    with contextlib.suppress(metadata.PackageNotFoundError):
        requirements = metadata.requires("minidecode") or []
    if not requirements and project.is_file():
        import tomllib

        asked = tomllib.loads(project.read_text("utf-8"))["project"]
        return {"": asked["dependencies"], **asked["optional-dependencies"]}
    needed: dict[str, list[str]] = {}
    for requirement in requirements:
        words, _, marker = requirement.partition(";")
        of_extra = re.search(r"""extra\s*==\s*['"]([\w-]+)['"]""", marker)
        needed.setdefault(of_extra[1] if of_extra else "", []).append(words.strip())
    return needed


def _normalized(name: str) -> str:
    """A package's name without what pip and `import` spell differently."""
    return re.sub(r"[-_.]+", "-", name).lower()


def without_controls(message: object) -> object:
    """A message in which nothing acts on a terminal: names in files may hold control characters. Lines stay lines."""
    if not isinstance(message, str) or message.isprintable():
        return message
    return "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in message)


class MinidecodeError(Exception):
    """Something a user can mend: the message names the cause and the remedy on one line."""

    def __init__(self, *arguments: object):
        super().__init__(*map(without_controls, arguments))


class MinidecodeWarning(UserWarning):
    """Something goes on otherwise than a file or a call asks for. The command line prints it as one line."""

    def __init__(self, *arguments: object):
        super().__init__(*map(without_controls, arguments))


class CheckpointError(MinidecodeError, ValueError):
    """A model folder or one of its files cannot be used."""

    def __init__(self, message: str):
        super().__init__(" ".join(message.splitlines()))  # a library's own words may have several lines


class OptionError(MinidecodeError, ValueError):
    """A generation option, plan or argument breaks a rule; the message says which."""

    def __init__(self, message: str):
        super().__init__(" ".join(message.splitlines()))


class InputError(MinidecodeError, ValueError):
    """The text or the token ids to start from cannot be used."""


class NumericalError(MinidecodeError, ArithmeticError):
    """The model's scores turned NaN."""


class EmulationError(MinidecodeError, RuntimeError):
    """The emulator found a mistake in a kernel (with `strict=True`), or would take too long."""


class CompiledCodeError(MinidecodeError, RuntimeError):
    """Numba finds no folder that it may keep compiled code in."""


class DeviceError(MinidecodeError, RuntimeError):
    """A GPU, or its driver, refuses what it was asked to do."""


class MemoryBudgetError(MinidecodeError, MemoryError):
    """A call needs more memory than it may use or than there is, or a model does not fit. Nothing was computed."""


class QueueFullError(MinidecodeError, RuntimeError):
    """The scheduler's queue is full; the request itself is valid."""


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
