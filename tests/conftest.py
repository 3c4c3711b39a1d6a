"""Fixtures that several folders of tests share."""

from __future__ import annotations

import contextlib
import io
import os
import sys
import warnings
from dataclasses import dataclass

import pytest
from hypothesis import settings
from threadpoolctl import threadpool_limits
from toy_folder import write_folder

os.environ["HF_HUB_OFFLINE"] = "1"  # a plain word as a model's name must never ask the real hub


settings.register_profile("house", deadline=None)  # never a timed test: machines are busy, first calls import
settings.load_profile("house")


def pytest_runtest_setup(item):
    """Tests marked `gpu` are skipped where there is none; pytest lists them at the end of its run."""
    if item.get_closest_marker("gpu"):
        from minidecode.runtime.device import device_kind

        if device_kind() != "gpu":
            pytest.skip("no GPU here")


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    """Toy matrices gain nothing from BLAS threads, and lose much on a busy machine, where they wait for each other."""
    with threadpool_limits(1):
        yield


@pytest.fixture
def tiny_folder(tmp_path):
    """Makes a toy GPT-2 folder: `tiny_folder(n_layer=3)` changes fields of its config.json (see toy_folder.py)."""

    def make(**changes):
        return write_folder(tmp_path / "toy-gpt2", **changes)

    return make


@dataclass
class Ran:
    code: int
    out: str
    err: str


@pytest.fixture
def cli(monkeypatch):
    """Runs the command line in this process: the real `main`, with files of bytes for the standard streams.

    A warning is an error here: on a user's screen it would be a line that nobody can mend.
    """

    def run(*arguments: object, stdin: bytes | io.TextIOBase = b"") -> Ran:
        from minidecode.commands.cli import main

        monkeypatch.setattr(sys, "argv", ["minidecode", *map(str, arguments)])
        given = io.TextIOWrapper(io.BytesIO(stdin)) if isinstance(stdin, bytes) else stdin
        monkeypatch.setattr(sys, "stdin", given)
        out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")  # the poorest terminal; main asks for UTF-8
        err = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(SystemExit) as stopped:
                main()
            out.flush()
        return Ran(stopped.value.code, out.buffer.getvalue().decode(), err.getvalue())

    return run
