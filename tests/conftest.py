"""Fixtures that several folders of tests share."""

from __future__ import annotations

import contextlib
import gc
import io
import json
import os
import sys
import warnings
import zlib
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path

import golden_files
import pytest
from hypothesis import settings
from threadpoolctl import threadpool_limits
from toy_folder import write_folder

os.environ["HF_HUB_OFFLINE"] = "1"  # a plain word as a model's name must never ask the real hub


settings.register_profile("house", deadline=None)  # never a timed test: machines are busy, first calls import
settings.load_profile("house")


def read_steps() -> tuple[dict[str, int], dict[str, int]]:
    """Steps by file::function, of `pytest` alone and of `pytest --rest`, from {file: {function: k or [k, m]}}.

    k: `pytest` runs every k-th case, and none where k is 0. m: of the cases left `pytest --rest` runs one in m.
    """
    files = json.loads(Path(__file__).with_name("sampled.json").read_text(encoding="utf-8"))
    listed = {f"tests/{file}::{name}": step for file, tests in files.items() for name, step in tests.items()}
    both = {name: step for name, step in listed.items() if isinstance(step, list)}
    return listed | {name: k for name, (k, _) in both.items()}, {name: m for name, (_, m) in both.items()}


SAMPLED, THINNED = read_steps()


def pytest_configure(config):
    """Unpacks the golden folders before tests are collected, and before processes that share the work start."""
    if not hasattr(config, "workerinput"):
        golden_files.unpack()


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session):
    """What tests are made of stays to the end: each search for garbage would go through a million objects again."""
    gc.collect()
    gc.freeze()


def pytest_addoption(parser):
    parser.addoption("--full", action="store_true", help="run every case of every test, not the five-minute sample")
    parser.addoption(
        "--rest",
        action="store_true",
        help="run the cases that the five-minute sample leaves out; of long tests (sampled.json) a part",
    )


def pytest_collection_modifyitems(config, items):
    """Leaves out most cases of slow tests (sampled.json), unless --full, a file, -k or -m says what to run."""
    for marker in ("weights", "ray", "clients"):  # a package of 93 MB, a minute on a cluster, and packages by pip
        if marker not in config.option.markexpr:
            config.hook.pytest_deselected(items=[item for item in items if item.get_closest_marker(marker)])
            items[:] = [item for item in items if not item.get_closest_marker(marker)]
    named = any(argument.partition("::")[0].endswith(".py") for argument in config.args)
    if config.option.full or named or config.option.keyword or config.option.markexpr:
        return
    seen, sampled, left = Counter(), [], defaultdict(list)
    for item in items:
        name = item.nodeid.partition("[")[0]
        step = SAMPLED.get(name, 1)
        if step > 0 and seen[name] % step == 0:
            sampled.append(item)
        else:
            left[name].append(item)
        seen[name] += 1
    rest = (item for name in left for item in thinned(left[name], THINNED.get(name, 1)))
    kept = set(rest if config.option.rest else sampled)
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = [item for item in items if item in kept]


def thinned(items, step):
    """One case in `step`: again and again the one with the most values that none has had, of these one by its name."""
    if step == 1:
        return items
    left, drawn, had = sorted(items, key=lambda item: zlib.crc32(item.nodeid.encode())), [], set()
    while len(drawn) < len(items) / step:
        most = max(left, key=lambda item: len(values_of(item) - had))
        left.remove(most)
        drawn.append(most)
        had |= values_of(most)
    return drawn


def values_of(item):
    """(place, value) of the parameters that a case's name tells, which is the same in all processes."""
    return set(enumerate(item.nodeid.partition("[")[2].rstrip("]").split("-")))


def pytest_runtest_setup(item):
    """Tests marked `gpu` are skipped where there is none; pytest lists them at the end of its run."""
    if item.get_closest_marker("gpu"):
        from minidecode.device.arrays import device_kind

        if device_kind() != "gpu":
            pytest.skip("no GPU here")


def pytest_terminal_summary(terminalreporter):
    """Names the large inputs that kernels were not emulated on: a run without a GPU says nothing about those."""
    left_out, emulated = defaultdict(dict), defaultdict(set)
    for report in terminalreporter.stats.get("passed", ()):
        for what, value in report.user_properties:
            for row, shapes in value.items() if what in ("not_emulated", "emulated_too") else ():
                (left_out[row].update if what == "not_emulated" else emulated[row].update)(dict.fromkeys(shapes))
    if left_out:
        terminalreporter.section("large inputs that no kernel was emulated on")
        for row, shapes in sorted(left_out.items()):
            names = [shape for shape in shapes if shape not in emulated[row]]
            terminalreporter.line(f"{row}: {', '.join(names) or 'none'}")


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    """Toy matrices gain nothing from BLAS threads, and lose much on a busy machine, where they wait for each other."""
    with threadpool_limits(1):
        yield


@pytest.fixture(autouse=True)
def same_environment():
    """What a test, or a script that it loads, sets in the environment is gone afterwards: later tests start processes.

    benchmarks/query_rows.py, for one, sets the number of threads of its process to 1. Numba would see that it is gone
    when it next compiles: until then some code counts the old threads, other code the new ones.
    """
    before, threads = dict(os.environ), _threads_of_numba()
    yield
    if has_changed := os.environ != before:
        os.environ.clear()
        os.environ.update(before)
    if "numba" in sys.modules and (has_changed or _threads_of_numba() != threads):
        sys.modules["numba"].config.reload_config()


def _threads_of_numba():
    return sys.modules["numba"].config.NUMBA_NUM_THREADS if "numba" in sys.modules else None


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
        monkeypatch.setenv("HF_HUB_DISABLE_PROGRESS_BARS", "")  # which --quiet sets: the end of the test takes it back
        monkeypatch.delenv("HF_HUB_DISABLE_PROGRESS_BARS")
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
