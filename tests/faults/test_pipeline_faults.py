"""Faults put into the pipeline: dying threads, failing stages, full disks, interrupts. Nothing hangs, is lost, doubled.

Every run here goes against a clock: what hangs fails.
"""

from __future__ import annotations

import contextlib
import errno
import gc
import itertools
import json
import os
import queue
import random
import re
import signal
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path

import pytest
from toy_folder import write_folder

import minidecode as md
from minidecode.files import lines
from minidecode.files.lines import RecordFile
from minidecode.lines import pipeline, worker_threads
from minidecode.lines.pipeline import Generating, Stages, generate_lines
from minidecode.lines.worker_threads import Worker

LINES = ["the", "sea", "a", "x", "other", "of", "the sea", "b", "c", "dd"]
PATIENCE = 30  # seconds, on a busy machine
THREADED = ("both", "prefetch", "post-process")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return md.load(write_folder(tmp_path_factory.mktemp("models") / "toy"))


@pytest.fixture(autouse=True)
def no_thread_is_left():
    yield
    assert not [t for t in threading.enumerate() if isinstance(t, Worker)], "every thread is joined on every way out"


def run_of(model, overlap, lines=LINES, **options):
    return generate_lines(model, lines, overlap=overlap, batch_size=2, sort_window=4, max_new_tokens=3, **options)


def outcome(run):
    """(numbers of the lines that came, what was raised), in a thread that must end."""
    numbers, raised = [], []

    def consume():
        try:
            for line in run:
                numbers.append(line.number)
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=consume, daemon=True)  # so that a hanging test ends
    thread.start()
    thread.join(PATIENCE)
    assert not thread.is_alive(), "the run hangs"
    return numbers, raised[0] if raised else None


class BugError(Exception):
    """What nobody foresaw."""


class Death(BaseException):
    """What no stage catches."""


# --- a stage fails for one line: the error is that line's ---


def fail_in(monkeypatch, model, stage, text, error):
    """The stage raises when it comes to the line with this text."""
    target = model.tokenizer.encode(text).tolist()
    generate, tokenize = model.generate, model.tokenize
    if stage == "tokenize":

        def tokenize_or_fail(prompt, *args, **kwargs):
            if prompt == text:
                raise error
            return tokenize(prompt, *args, **kwargs)

        monkeypatch.setattr(model, "tokenize", tokenize_or_fail)
        return {}
    if stage == "generate":

        def generate_or_fail(*, input_ids, **kwargs):
            if target in [ids.tolist() for ids in input_ids]:
                raise error
            return generate(input_ids=input_ids, **kwargs)

        monkeypatch.setattr(model, "generate", generate_or_fail)
        return {}

    def render(line):
        if line.given == text and not line.error:
            raise error

    return {"render": render}


@pytest.mark.parametrize("overlap", pipeline.OVERLAPS)
@pytest.mark.parametrize("stage", ["tokenize", "generate", "post-process"])
@pytest.mark.parametrize("kind", [BugError, MemoryError, md.NumericalError])
@pytest.mark.parametrize("on_error", pipeline.ON_ERROR)
def test_the_line_that_caused_it_gets_the_error(monkeypatch, model, overlap, stage, kind, on_error):
    """Also if the model failed on a batch of several: each of its lines is then tried alone."""
    more = fail_in(monkeypatch, model, stage, "the sea", kind("of this line"))
    run = run_of(model, overlap, on_error=on_error, source="prompts.txt, line", **more)
    numbers, raised = outcome(run)
    every = list(range(1, 11))
    assert numbers == {"stop": every[:6], "skip": every[:6] + every[7:], "record": every}[on_error]
    (failure,) = run.receipt.failures
    assert failure.number == 7 and isinstance(failure.__cause__, kind)
    visible_lines = "of this line" if kind is md.NumericalError else f"{kind.__name__}: of this line"
    assert str(failure) == f"prompts.txt, line 7: {visible_lines}"
    assert raised is (failure if on_error == "stop" else None)
    assert (run.receipt.lines, run.receipt.reached) == (len(numbers), 6 if on_error == "stop" else 10)


@pytest.mark.parametrize("overlap", pipeline.OVERLAPS)
def test_a_batch_that_fails_once_is_done_line_by_line(monkeypatch, model, overlap):
    generate, calls = model.generate, []

    def fails_once(**kwargs):
        calls.append(len(kwargs["input_ids"]))
        if len(calls) == 2:
            raise BugError
        return generate(**kwargs)

    expected = [line.texts for line in run_of(model, "none")]
    monkeypatch.setattr(model, "generate", fails_once)
    run = run_of(model, overlap)
    assert [line.texts for line in run] == expected
    assert calls == [2, 2, 1, 1, 2, 2, 2] and run.receipt.failed == 0


@pytest.mark.parametrize("overlap", pipeline.OVERLAPS)
def test_reading_breaks_off(model, overlap):
    """What was read before is done; then comes the error itself, which is of no line."""
    broken = OSError(errno.EIO, "Input/output error")

    def lines():
        yield from LINES[:5]
        raise broken

    numbers, raised = outcome(run_of(model, overlap, lines()))
    assert (numbers, raised) == ([1, 2, 3, 4, 5], broken)


@pytest.mark.parametrize("overlap", pipeline.OVERLAPS)
def test_options_that_no_line_survives_are_no_lines_fault(model, overlap):
    run = run_of(model, overlap, on_error="record", plan="hars=reference", num_beams=2, no_repeat_ngram_size=2)
    numbers, raised = outcome(run)
    assert numbers == [] and type(raised) is md.OptionError and "hars" in str(raised)


# --- a thread dies ---


@pytest.mark.parametrize(("overlap", "method"), [
    ("both", "parse_and_tokenize"), ("prefetch", "parse_and_tokenize"), ("both", "finish"), ("post-process", "finish"),
    ("both", "run_model"), ("none", "run_model"), ("none", "parse_and_tokenize"), ("none", "finish"),
])  # fmt: skip
def test_what_kills_a_thread_ends_the_run(monkeypatch, model, overlap, method):
    """It is raised where the results are read, after whole lines in order, none of them twice."""
    original, calls = getattr(Generating, method), []

    def dies(self, work):
        calls.append(work)
        if len(calls) == 3:
            raise Death
        return original(self, work)

    monkeypatch.setattr(Generating, method, dies)
    numbers, raised = outcome(run_of(model, overlap))
    assert isinstance(raised, Death)
    assert numbers == list(range(1, len(numbers) + 1)) and len(numbers) < 10


@pytest.mark.parametrize("overlap", THREADED)
@pytest.mark.parametrize("after", [0, 1, 2])
def test_a_thread_that_ends_without_a_word_is_missed(monkeypatch, model, overlap, after):
    """No exception and no sentinel comes from it, as if the system had ended it."""
    handed = []

    class Box(queue.SimpleQueue):
        def put(self, item):
            if isinstance(threading.current_thread(), Worker):
                handed.append(item)
                if len(handed) > after:
                    raise Death
            super().put(item)

    def silently(self):
        with contextlib.suppress(Death):
            self.work()

    monkeypatch.setattr(worker_threads.queue, "SimpleQueue", Box)
    monkeypatch.setattr(Worker, "run", silently)
    numbers, raised = outcome(run_of(model, overlap))
    assert isinstance(raised, md.PipelineError) and "ended without a word" in str(raised)
    assert numbers == list(range(1, len(numbers) + 1)) and len(numbers) < 10


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="a timer that interrupts")
@pytest.mark.parametrize("overlap", ["both", "post-process"])
def test_an_interrupt_at_any_moment_ends_all_threads(overlap):
    """Wherever it finds the caller's thread, in a box too: none of the others waits for ever for what was lost."""

    class Interrupt(BaseException):
        pass

    def interrupt(*_):
        raise Interrupt

    usual = signal.signal(signal.SIGALRM, interrupt)
    rng = random.Random(0)
    try:
        for _ in range(100):
            numbers = itertools.count()
            read = worker_threads.iterate_ahead(numbers, 3) if overlap == "both" else numbers
            written = worker_threads.apply_in_threads(str, read, 2)
            next(written)  # all threads have started: an interrupt within Thread.start is Python's own affair
            with pytest.raises(Interrupt):
                signal.setitimer(signal.ITIMER_REAL, rng.uniform(0.0001, 0.004), PATIENCE)  # again, where it hangs
                for _ in written:
                    pass
            written.close()
            if overlap == "both":
                read.close()
            signal.setitimer(signal.ITIMER_REAL, 0)
            deadline = time.monotonic() + PATIENCE
            while any(isinstance(thread, Worker) for thread in threading.enumerate()):  # one that just began ends soon
                assert time.monotonic() < deadline
                time.sleep(0.001)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, usual)


@pytest.mark.parametrize("where", ["the caller's thread", "a worker"])
def test_an_error_that_was_handled_keeps_nothing(where):
    """Its traceback holds frames, one of them with a thread's lease: they go with it, before any garbage collection."""

    class Witness:
        pass

    witnesses = []

    def items():
        witness = Witness()
        witnesses.append(weakref.ref(witness))
        yield 1
        raise ZeroDivisionError

    gc.disable()
    try:
        threads = worker_threads
        is_callers = where == "the caller's thread"
        run = threads.apply_in_threads(str, items(), 2) if is_callers else threads.iterate_ahead(items(), 2)
        with pytest.raises(ZeroDivisionError):
            list(run)
        del run
        assert witnesses[0]() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("overlap", THREADED)
def test_a_thread_that_cannot_start(monkeypatch, model, overlap):
    """As where a system has no more of them: the second one that is asked for."""
    start, started = Worker.start, []

    def refuses(self):
        started.append(self)
        if len(started) == 2 or overlap == "prefetch":
            raise RuntimeError("can't start new thread")
        start(self)

    monkeypatch.setattr(Worker, "start", refuses)
    numbers, raised = outcome(run_of(model, overlap))
    assert numbers == [] and "can't start" in str(raised)


def test_a_line_that_a_thread_forgets_is_missed(monkeypatch, model):
    finish = Stages.finish
    monkeypatch.setattr(Stages, "finish", lambda self, batch: finish(self, [x for x in batch if x.number != 5]))
    for overlap in pipeline.OVERLAPS:
        numbers, raised = outcome(run_of(model, overlap))
        assert (numbers, str(raised)) == ([1, 2, 3, 4], "line 5 was lost in the pipeline")


def test_the_last_lines_are_missed_too(monkeypatch, model):
    finish = Stages.finish
    monkeypatch.setattr(Stages, "finish", lambda self, batch: finish(self, [x for x in batch if x.number < 9]))
    for overlap in pipeline.OVERLAPS:
        numbers, raised = outcome(run_of(model, overlap))
        assert (numbers, str(raised)) == (list(range(1, 9)), "line 9 was lost in the pipeline")


# --- the caller stops ---


@pytest.mark.parametrize("overlap", pipeline.OVERLAPS)
@pytest.mark.parametrize("way", ["close", "with", "forget", "raise", "never begin"])
def test_a_caller_who_stops_leaves_no_thread(model, overlap, way):
    endless = (f"line {n % 50}" for n in range(10**9))
    run = run_of(model, overlap, endless)
    if way == "never begin":
        run.close()
        return
    assert next(run).number == 1
    if way == "close":
        run.close()
        assert list(run) == []
    elif way == "with":
        with run:
            next(run)
    elif way == "forget":
        del run
    else:
        with pytest.raises(BugError), run:
            raise BugError


@pytest.mark.parametrize("overlap", pipeline.OVERLAPS)
def test_an_interrupt_in_the_model_ends_all_threads(monkeypatch, model, overlap):
    generate, calls = model.generate, []

    def interrupted(**kwargs):
        calls.append(1)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return generate(**kwargs)

    monkeypatch.setattr(model, "generate", interrupted)
    run = run_of(model, overlap)
    numbers, raised = outcome(run)
    assert isinstance(raised, KeyboardInterrupt)
    assert numbers == list(range(1, len(numbers) + 1)) and len(numbers) <= 6
    assert run.receipt.reached == len(numbers)


# --- the disk ---


def test_a_record_file_appears_whole(tmp_path):
    with RecordFile(tmp_path / "out.txt") as out:
        out.write("one\n", 1)
        assert (tmp_path / "out.txt.part").read_text() == "one\n", "each record is there at once"
        out.write("two\n", 2)
    assert (tmp_path / "out.txt").read_text() == "one\ntwo\n"
    assert os.listdir(tmp_path) == ["out.txt"]


def test_records_that_come_in_any_order_stand_in_theirs(tmp_path):
    with RecordFile(tmp_path / "out.txt") as out:
        for line in (3, 1, 2):
            out.write(f"{line}\n", line)
        assert (tmp_path / "out.txt.part").read_text() == "3\n1\n2\n", "each record is there at once"
    assert (tmp_path / "out.txt").read_text() == "1\n2\n3\n"
    assert os.listdir(tmp_path) == ["out.txt"]


def test_a_disk_without_room_for_the_records_in_order(monkeypatch, tmp_path):
    """They stay as they came, with their journal."""

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(md.InputError, match="No space left"), RecordFile(tmp_path / "out.txt") as out:
        monkeypatch.setattr(lines.shutil, "copymode", full)
        out.write("two\n", 2)
        out.write("one\n", 1)
    assert (tmp_path / "out.txt.part").read_text() == "two\none\n"
    assert sorted(os.listdir(tmp_path)) == ["out.txt.part", "out.txt.part.journal"]


class FullDisk:
    """A file on a disk with room for so many bytes."""

    def __init__(self, file, room):
        self.file, self.room = file, room

    def write(self, data):
        if not self.room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = self.file.write(data[: self.room])
        self.room -= written
        return written

    def __getattr__(self, name):
        return getattr(self.file, name)


@pytest.mark.parametrize("room", [0, 1, 3, 4, 5, 8, 9, 11])
def test_a_full_disk_leaves_whole_records(tmp_path, room):
    (tmp_path / "out.txt").write_text("old")
    with pytest.raises(md.InputError, match=r"out.txt cannot be written: No space left"), \
            RecordFile(tmp_path / "out.txt") as out:  # fmt: skip
        out._file = FullDisk(out._file, room)
        for number in (1, 2, 3):
            out.write("été\n"[: number + 1] + "\n", number)
    assert (tmp_path / "out.txt").read_text() == "old", "what was there before is untouched"
    part = tmp_path / "out.txt.part"
    whole = ["ét\n", "été\n", "été\n\n"]
    sizes = [sum(len(r.encode()) for r in whole[:n]) for n in range(4)]
    kept = max(n for n in range(4) if sizes[n] <= room)
    assert len(out.done) == kept and part.exists() == bool(kept)
    if kept:
        assert part.read_bytes().decode() == "".join(whole[:kept])


def test_a_disk_that_is_full_at_the_very_end(monkeypatch, tmp_path):
    """Some systems find out when the data must really go there."""

    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(md.InputError, match="No space left"), RecordFile(tmp_path / "out.txt") as out:
        monkeypatch.setattr(os, "fsync", full)
        out.write("one\n", 1)
    assert sorted(os.listdir(tmp_path)) == ["out.txt.part", "out.txt.part.journal"]


def test_an_interrupt_in_the_middle_of_a_record(tmp_path):
    class Interrupting(FullDisk):
        def write(self, data):
            if not self.room:
                raise KeyboardInterrupt
            return super().write(data)

    with pytest.raises(KeyboardInterrupt), RecordFile(tmp_path / "out.txt") as out:
        out._file = Interrupting(out._file, 6)
        out.write("one\n", 1)
        out.write("two\n", 2)
    assert (tmp_path / "out.txt.part").read_text() == "one\n" and list(out.done) == [1]


def test_what_a_run_before_has_left_is_not_overwritten(tmp_path):
    (tmp_path / "out.txt.part").write_text("hours of work")
    with pytest.raises(md.InputError, match=r"out.txt.part is there.*rename it or delete it"):
        RecordFile(tmp_path / "out.txt")
    assert (tmp_path / "out.txt.part").read_text() == "hours of work"


# --- as a process: a real limit of the system, a real interrupt ---

START = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    "from minidecode.commands.cli import main; main()"
)


@pytest.fixture
def toy(tiny_folder):
    return tiny_folder()


def start(*arguments: object, limit: int | None = None, **options) -> subprocess.Popen:
    """`limit`: the most bytes that a file may have, which the system holds in the middle of a write.

    Nobody may leave byte code (-B): Python stores as much of it as there is room for, and then fails to load it.
    """
    lead = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))\n" if limit else ""
    command = [sys.executable, "-B", "-c", lead + START, *map(str, arguments)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, **options)


@pytest.mark.skipif(sys.platform == "win32", reason="no such limit there")
@pytest.mark.parametrize("flag", ["--pipeline", "--no-pipeline"])
def test_the_system_takes_no_more_bytes(toy, tmp_path, flag):
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("the sea\n" * 200)
    out = tmp_path / "out.jsonl"
    process = start("generate", "-i", prompts, "-m", toy, "-o", out, "--json", "--max-new-tokens", 3, flag, limit=5000)
    _, err = process.communicate(timeout=2 * PATIENCE)
    records = (tmp_path / "out.jsonl.part").read_text().splitlines(keepends=True)
    assert [json.loads(r)["prompt"] for r in records] == ["the sea"] * len(records)
    length = len(records[0])
    assert len(records) == 5000 // length and records[-1].endswith("\n"), "as many whole records as there is room for"
    assert 5000 % length, "a write broke off in the middle, or the test shows nothing"
    assert process.returncode == 1 and not out.exists()
    # Two threads end lines in any order: these may be the first ones or not.
    assert re.sub(r"the first (\d+) lines", r"\1 of 200 lines", err.decode()) == (
        f"minidecode: {out} cannot be written: File too large; {len(records)} of 200 lines are done, in {out}.part: "
        "--resume continues it\n"
    )
    process = start("generate", "-i", prompts, "-m", toy, "-o", out, "--json", "--max-new-tokens", 3, flag, "--resume")
    _, err = process.communicate(timeout=2 * PATIENCE)
    ways = f"continues after line {len(records)}\n", f"has {len(records)} of 200 lines: continues with the others\n"
    assert process.returncode == 0 and any(f"{out}.part {way}" in err.decode() for way in ways)
    found = out.read_text().splitlines(keepends=True)
    assert set(records) <= set(found) and [json.loads(r)["line"] for r in found] == list(range(1, 201))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_device_that_is_always_full(toy):
    process = start("generate", "the", "a", "-m", toy, "-o", "/dev/full", "--max-new-tokens", 3)
    _, err = process.communicate(timeout=2 * PATIENCE)
    assert process.returncode == 1
    assert err.decode() == "minidecode: /dev/full cannot be written: No space left on device\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_timeline_that_cannot_be_written(toy, tmp_path):
    """The output is whole, under its name; and what ended a run is told, not that it cannot be drawn either."""
    out, prompts = tmp_path / "out.txt", tmp_path / "prompts.txt"
    prompts.write_text("the\nsea\n")
    arguments = "generate", "-i", prompts, "-m", toy, "--max-new-tokens", 3, "--trace", "/dev/full", "-o"
    process = start(*arguments, out)
    _, err = process.communicate(timeout=2 * PATIENCE)
    assert process.returncode == 1 and len(out.read_text().splitlines()) == 2
    assert not Path(f"{out}.part").exists()
    assert err.decode() == "minidecode: /dev/full cannot be written: No space left on device\n"
    out.unlink()
    prompts.write_text("the\n\nsea\n")
    process = start(*arguments, out)
    _, err = process.communicate(timeout=2 * PATIENCE)
    assert process.returncode == 1 and not out.exists()
    assert (
        err.decode()
        == f"minidecode: {prompts}, line 2 is blank: each line is a prompt; delete it, or say --on-error skip\n"
    )


@pytest.mark.skipif(sys.platform == "win32", reason="no such signals there")
@pytest.mark.parametrize(("flag", "how", "code", "word"), [
    ("--pipeline", signal.SIGINT, 130, "interrupted"), ("--no-pipeline", signal.SIGINT, 130, "interrupted"),
    ("--pipeline", signal.SIGTERM, 143, "terminated"),
])  # fmt: skip
def test_an_interrupt_while_it_waits_for_lines(toy, tmp_path, flag, how, code, word):
    """Standard input stays open and nothing comes: the thread that reads it must not be waited for."""
    out = tmp_path / "out.txt"
    process = start("generate", "-", "-m", toy, "-o", out, "--max-new-tokens", 3, "--batch-size", 2,
                    "--sort-window", 2, flag, stdin=subprocess.PIPE)  # fmt: skip
    process.stdin.write(b"the\nsea\na\nb\nhalf")
    process.stdin.flush()
    part = tmp_path / "out.txt.part"
    deadline = time.monotonic() + PATIENCE
    while not (part.exists() and part.read_bytes().count(b"\n") == 4) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert part.read_bytes().count(b"\n") == 4, "what is done is written though more lines may come"
    process.send_signal(how)
    process.wait(timeout=PATIENCE)
    err = process.stderr.read().decode()
    process.stdin.close()
    assert process.returncode == code  # of two batches, the second may have ended first
    assert err.startswith((f"minidecode: {word}; the first 4 lines are done", f"minidecode: {word}; 4 lines are done"))
    assert f" done, in {part}" in err and err.count("\n") == 1
    assert part.read_bytes().count(b"\n") == 4 and not out.exists()
