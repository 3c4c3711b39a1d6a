"""Ctrl-C and SIGTERM at any moment: the command ends as asked, in one line; no library's traceback is shown.

`SIGNAL_MOMENTS=30 pytest tests/cli/test_signals.py` tries so many random moments of each command and signal.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time

import pytest

from minidecode.commands import interrupts
from minidecode.commands.interrupts import Terminated
from minidecode.search import compiled

MOMENTS = int(os.environ.get("SIGNAL_MOMENTS", "1"))
PATIENCE = 60  # seconds, on a busy machine
posix_only = pytest.mark.skipif(sys.platform == "win32", reason="no such signals there")
SIGNALS = [(signal.SIGINT, KeyboardInterrupt, "interrupted"), (signal.SIGTERM, Terminated, "terminated")]


class InFinalizer:
    """What a signal raises in it is dropped by Python, as in LLVM's calls of Python and in garbage collection."""

    def __init__(self, number):
        self.number = number

    def __del__(self):
        signal.raise_signal(self.number)


@posix_only
@pytest.mark.parametrize(("number", "raised", "word"), SIGNALS)
def test_what_python_drops_is_raised_again(capfd, number, raised, word):
    with interrupts.raise_on_signals(), pytest.raises(raised):
        InFinalizer(number)
        time.sleep(PATIENCE)
    assert capfd.readouterr().err == "", "no traceback of an ignored exception"


@posix_only
@pytest.mark.parametrize(("number", "raised", "word"), SIGNALS)
@pytest.mark.parametrize("becomes", [RuntimeError("no compiled object yet"), SystemError("an exception was set")])
def test_what_a_library_makes_of_a_signal_is_told_as_the_signal(cli, monkeypatch, number, raised, word, becomes):
    def compiles(progress):
        try:
            signal.raise_signal(number)
        except BaseException:
            raise becomes from None

    monkeypatch.setattr(compiled, "precompile", compiles)
    ran = cli("precompile")
    assert (ran.code, ran.out, ran.err) == (128 + number, "", f"minidecode: {word}\n")


@posix_only
@pytest.mark.parametrize(("number", "raised", "word"), SIGNALS)
def test_what_a_library_swallows_is_raised_at_the_next_report(cli, monkeypatch, number, raised, word):
    def compiles(progress):
        with pytest.raises(raised):
            signal.raise_signal(number)
        progress(1, 2)

    monkeypatch.setattr(compiled, "precompile", compiles)
    ran = cli("precompile")
    assert (ran.code, ran.out, ran.err) == (128 + number, "", f"minidecode: {word}\n")


@posix_only
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_handlers_that_were_there_are_there_again(cli, number):
    before = signal.getsignal(number), sys.unraisablehook
    cli("models")
    assert (signal.getsignal(number), sys.unraisablehook) == before


@posix_only
@pytest.mark.parametrize("moment", range(MOMENTS))
@pytest.mark.parametrize(("number", "raised", "word"), SIGNALS)
@pytest.mark.parametrize("command", [["precompile"], ["ladder", "--seconds", "40"]], ids=["precompile", "ladder"])
def test_a_random_moment_of_compiling(tmp_path, command, number, raised, word, moment):
    """Into an empty folder. The moments begin with the compiler, or earlier, behind the interpreter's own start."""
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    whole = [sys.executable, "-m", "minidecode", *command]
    process = subprocess.Popen(whole, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    longest = 15.0 if MOMENTS > 1 else 5.0
    time.sleep(random.Random(f"{command} {number} {moment}").uniform(1.5, longest))
    assert process.poll() is None
    process.send_signal(number)
    _, err = process.communicate(timeout=PATIENCE)
    # CPython ends itself by SIGINT if that was raised in the text of an `exec`: 130 to a shell, too.
    assert process.returncode in (128 + number, -number), err
    assert "Traceback" not in err and "ignored" not in err, err
    assert err == "" or err.splitlines()[-1] == f"minidecode: {word}", err
