"""Whether this machine is ready for a class: what the hour will run is run once, and what fails is named."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from urllib.parse import urlparse
from urllib.request import url2pathname

from ...errors import InputError, MinidecodeError


@dataclass
class Readiness:
    """One thing that a class needs. message: what was seen, or what is wrong and how it is mended."""

    name: str
    ok: bool
    message: str


def run_checks() -> Iterator[Readiness]:
    """Each check as it is done; none needs a network."""
    for name, check in CHECKS.items():
        try:
            yield Readiness(name, True, check())
        except _NotReadyError as error:
            yield Readiness(name, False, str(error))
        except (MinidecodeError, ImportError, OSError) as error:
            yield Readiness(name, False, f"{type(error).__name__}: {error}")


class _NotReadyError(Exception):
    """A class is not ready: the message says why, and what to do."""


def _check_generation() -> str:
    from ...loading import load

    out = load("tiny-gpt2").generate("Fellow citizens,", max_new_tokens=4)
    return f"tiny-gpt2 says {out.texts[0]!r}"


def _check_compiled_code() -> str:
    from ...plan import import_backend_file

    import_backend_file("cpu", "norm")
    return "the cache of compiled code is writable"


def _check_emulator() -> str:
    import numpy as np

    from ...emulator import emulate

    run = emulate(_make_racy_kernel())[1, 64](np.zeros(65, np.float32))
    if run.verdict == "clean":
        raise _NotReadyError("the emulator does not see a race that is there: reinstall minidecode and greenlet")
    return "the emulator finds a race that is there"


def _make_racy_kernel():
    """A kernel whose threads read what their neighbours write."""
    from numba import cuda

    @cuda.jit
    def shift_left_in_place(a):
        a[cuda.threadIdx.x] = a[cuda.threadIdx.x + 1]

    return shift_left_in_place


def _check_exercises() -> str:
    """Exercises of each way to be run: an unfinished one must come back as that, from its process."""
    from .exercise import Submission
    from .find import exercises
    from .sandbox import limits_in_words

    judged = {}
    with tempfile.TemporaryDirectory() as folder:
        for exercise in exercises().values():
            if exercise.text.kind in ("N", "K") and exercise.text.kind not in judged:
                path = Path(folder, exercise.file_name)
                path.write_text(exercise.start(0), encoding="utf-8")
                verdict = exercise.task.check(Submission.of_file(path), 0)
                if verdict.mistake != "not-started":
                    raise _NotReadyError(f"exercise {exercise.number} says of an empty answer: {verdict.message}")
                judged[exercise.text.kind] = exercise.number
    return "exercises run in processes of their own; " + "; ".join(limits_in_words())


def _check_notebooks() -> str:
    if importlib.util.find_spec("ipykernel") is None:
        raise _NotReadyError("notebooks have no kernel to run in: install the extra notebook, or ipykernel alone")
    return "notebooks of the chapters run here"


CHECKS: dict[str, Callable[[], str]] = {
    "generation": _check_generation, "compiled code": _check_compiled_code, "emulator": _check_emulator,
    "exercises": _check_exercises, "notebooks": _check_notebooks,
}  # fmt: skip


def build_wheels(folder: Path) -> None:
    """Wheels of minidecode and of all that it needs here, for rooms without a network. Raises InputError if pip fails.

    Of this system and this Python: a room of another kind needs a folder of its own.
    """
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file: --wheels names a folder to be filled")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--wheel-dir", str(folder), pip_requirement()]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise InputError(f"the folder of wheels could not be filled: {last}")


def pip_requirement() -> str:
    """What pip installs this minidecode from again: no package index has it. Raises InputError where that is unknown.

    MINIDECODE_FROM of the environment goes before the checkout that runs, and that before what pip noted.
    """
    if source := os.environ.get("MINIDECODE_FROM"):
        return f"minidecode @ {source}" if "://" in source else source
    checkout = Path(__file__).resolve().parents[3]
    if (checkout / "pyproject.toml").is_file():
        return str(checkout)
    noted = json.loads(metadata.distribution("minidecode").read_text("direct_url.json") or "{}")
    url = noted.get("url", "")
    if "vcs_info" in noted:
        return f"minidecode @ {noted['vcs_info']['vcs']}+{url}@{noted['vcs_info']['commit_id']}"
    if url and (not url.startswith("file:") or Path(url2pathname(urlparse(url).path)).exists()):
        return f"minidecode @ {url}"
    raise InputError(
        "minidecode is in no package index, and where it was installed from is not there: say so by MINIDECODE_FROM=,"
        " a git address (git+https://...), a wheel or a checkout's folder"
    )
