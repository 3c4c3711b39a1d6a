"""Processes for foreign code: started with a limit on time and memory, asked over a pipe, and killed at the limit.

Only inputs go in and only outputs come out. What is expected, and what follows from it, stays with who asks.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from . import wire
from .skeleton import folders_with_solutions

HERE = Path(__file__).resolve().parent
SECONDS = 10.0  # for one answer
TOTAL = 20.0  # for all answers of one check
MOST_WAITED = 120.0  # seconds of waiting for a core that are not counted
MEMORY = 2 * 2**30  # bytes of address space, Python and NumPy included
_KEPT: ContextVar[list | None] = ContextVar("kept", default=None)
MOST_PRINTED = 20_000  # characters of what a student's code prints that are kept


@dataclass
class Failed(Exception):  # noqa: N818 (it is an outcome)
    """The process gave no answer. kind: "time", "memory", "ended" or "forged"."""

    kind: str
    what: str


class Sandbox:
    """One process. `ask` sends a question and returns the answer, or raises Failed; then the process is gone."""

    def __init__(self, command: list[str], *, seconds: float | None = None, memory: int = MEMORY):
        self.seconds, self._word, self._printed = seconds or SECONDS, secrets.token_bytes(16), []
        flags = {"start_new_session": True} if os.name == "posix" else {"creationflags": 0x08000000}  # no window
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=_minimal_environment(),
            cwd=HERE.anchor, **flags,
        )  # fmt: skip
        self._waited = 0.0
        self.end_after(TOTAL)
        self._replies: queue.Queue = queue.Queue(4)  # a process that floods it waits
        self._over_memory, self._too_late, self._closed = threading.Event(), threading.Event(), threading.Event()
        self._count_readers = [
            threading.Thread(target=f, daemon=True) for f in (self._read_replies, self._read_printed)
        ]
        for reader in self._count_readers:
            reader.start()
        if _is_memory_watched():
            threading.Thread(target=self._watch_memory, args=(memory,), daemon=True).start()
        with contextlib.suppress(OSError):
            self._process.stdin.write(self._word)
            self._process.stdin.flush()

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def ask(self, do: str, *, callbacks: dict[str, Any] | None = None, **what: Any) -> dict[str, Any]:
        """The answer to one question. callbacks: name -> function that the other side may ask for meanwhile."""
        deadline, answered = min(self._seconds_on_core_clock() + self.seconds, self._end), threading.Event()
        threading.Thread(target=self._kill_after, args=(deadline, answered), daemon=True).start()
        try:
            return self._send_and_await_reply(do, what, callbacks or {}, deadline)
        finally:
            answered.set()

    def _send_and_await_reply(
        self, do: str, what: dict[str, Any], callbacks: dict[str, Any], deadline: float
    ) -> dict[str, Any]:
        self._send({"do": do, "with": what}, deadline)
        while True:
            reply = self._receive(deadline)
            if not isinstance(reply, dict):
                raise self._close_as_failed("forged", "answered with something that is no answer")
            if "ask" not in reply:
                return reply
            if self._seconds_on_core_clock() > deadline:
                raise self._close_as_failed("time", f"no answer within {self.seconds:g} seconds, but many calls")
            self._send(_call_and_pack_result(callbacks.get(str(reply["ask"])), reply.get("arguments")), deadline)

    def end_after(self, seconds: float) -> None:
        """Sets a deadline for answers, this many seconds from now."""
        self._end, self._total = self._seconds_on_core_clock() + seconds, seconds

    def _seconds_on_core_clock(self) -> float:
        """Seconds on a clock that stands while the process waits for a core.

        It stands for MOST_WAITED seconds at most, so that a process that slows itself, by threads say, ends too.
        """
        self._waited = max(self._waited, min(_seconds_waited_for_a_core(self._process.pid), MOST_WAITED))
        return time.monotonic() - self._waited

    def _kill_after(self, deadline: float, answered: threading.Event) -> None:
        """Ends a process that is late: one that never reads would keep us in `_send` for ever."""
        while not answered.wait(max(0.0, deadline + 0.5 - self._seconds_on_core_clock())):
            if self._seconds_on_core_clock() >= deadline + 0.5:
                self._too_late.set()
                self._process.kill()
                return

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    @property
    def printed(self) -> str:
        """What the code printed, up to a limit: for the student to see, never to be read as an answer."""
        return "".join(self._printed)[:MOST_PRINTED]

    def read_resident_and_peak_bytes(self, *, forget_peak: bool = False) -> tuple[int, int] | None:
        """(bytes of memory that the process has, the most that it had), counted by the system; None where it does not.

        forget_peak: the most is counted anew from now on. The process itself can reset nothing: it writes no files.
        """
        place = Path(f"/proc/{self._process.pid}")
        try:
            if forget_peak:
                (place / "clear_refs").write_text("5")
            status = dict(line.split(":", 1) for line in (place / "status").read_text().splitlines())
            now, most = (int(status[name].split()[0]) * 1024 for name in ("VmRSS", "VmHWM"))
        except (OSError, KeyError, ValueError):
            return None
        return now, most

    def close(self) -> None:
        self._closed.set()
        with contextlib.suppress(OSError):
            if os.name == "posix":  # with whatever it may have started, which has its group
                os.killpg(self._process.pid, signal.SIGKILL)
            else:
                self._process.kill()
        self._process.wait()
        for reader in self._count_readers:
            reader.join(timeout=5)  # both are at the end of their pipes now
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            with contextlib.suppress(OSError, ValueError):
                pipe.close()

    def _send(self, value: Any, deadline: float) -> None:
        try:
            wire.write_message(self._process.stdin, self._word, value)
        except OSError:
            raise self._error_of_end(deadline) from None

    def _receive(self, deadline: float) -> Any:
        while True:
            left = deadline - self._seconds_on_core_clock()
            try:
                reply = self._replies.get(timeout=max(0.0, left))
                break
            except queue.Empty:
                if left > 0:
                    continue
                raise self._time_limit_message(deadline) from None
        if isinstance(reply, EOFError | OSError | ValueError):
            if self._over_memory.is_set():
                raise self._close_as_failed("memory", "more memory than it may have")
            if isinstance(reply, wire.TooLargeError):  # a slip in a shape, and no forgery
                raise self._close_as_failed("memory", str(reply))
            if isinstance(reply, wire.WireError):
                raise self._close_as_failed("forged", str(reply))
            raise self._error_of_end(deadline)
        return reply

    def _error_of_end(self, deadline: float) -> Failed:
        """The process ended: by itself, or by us because it was late, which may come before we notice that."""
        if self._too_late.is_set():
            return self._time_limit_message(deadline)
        return self._close_as_failed("ended", "the process ended without an answer")

    def _time_limit_message(self, deadline: float) -> Failed:
        is_total = deadline >= self._end
        within = f"{self._total:g} seconds for all inputs" if is_total else f"{self.seconds:g} seconds"
        return self._close_as_failed("time", f"no answer within {within}")

    def _close_as_failed(self, kind: str, what: str) -> Failed:
        self.close()
        return Failed(kind, what)

    def _read_replies(self) -> None:
        while True:
            try:
                reply, is_last = wire.read_message(self._process.stdout, self._word), False
            except (EOFError, OSError, ValueError) as error:
                reply, is_last = error, True
            while not self._closed.is_set():
                with contextlib.suppress(queue.Full):
                    self._replies.put(reply, timeout=0.2)
                    break
            if is_last or self._closed.is_set():
                return

    def _read_printed(self) -> None:
        kept = 0
        with contextlib.suppress(OSError, ValueError):
            while part := self._process.stderr.read1(65536):
                if kept < MOST_PRINTED:  # the rest is read and thrown away, so that no process waits for us
                    self._printed.append(part.decode(errors="replace"))
                    kept += len(part)

    def _watch_memory(self, most: int) -> None:
        while self._process.poll() is None:
            if _resident_bytes(self._process.pid) > most:
                self._over_memory.set()
                with contextlib.suppress(OSError):
                    self._process.kill()
            time.sleep(0.1)


def _call_and_pack_result(function: Any, arguments: Any) -> dict[str, Any]:
    if function is None or not isinstance(arguments, list):
        return {"error": {"type": "ValueError", "message": "there is no such function"}}
    try:
        return {"result": function(*arguments)}
    except Exception as error:  # of arguments that a student made up
        return {"error": {"type": type(error).__name__, "message": str(error)[:200]}}


def numpy_sandbox(root: Path | None, script: Path = HERE / "child.py", **limits: Any) -> Sandbox:
    """A process with NumPy and without minidecode, for a student's functions. script: what runs in it."""
    package = HERE.parents[1]
    closed = [package, *(root / part for root in folders_with_solutions() for part in ("exercises", "tests"))]
    memory = limits.get("memory", MEMORY)
    home = Path(np.__file__).resolve().parents[1]
    return Sandbox(
        [sys.executable, "-I", "-S", str(script), str(home), str(root or ""),
         os.pathsep.join(map(str, closed)), str(memory)], **limits,
    )  # fmt: skip


@contextlib.contextmanager
def kernel_sandbox(**limits: Any) -> Iterator[Sandbox]:
    """A process of ours with the emulator, for kernels that were read as data and found harmless."""
    kept = _KEPT.get()
    if kept is None:
        with _start_judge(**limits) as box:
            yield box
        return
    if not kept or not kept[0].is_alive:
        kept[:] = [_start_judge(**limits)]
    yield kept[0]


@contextlib.contextmanager
def keep_one_judge() -> Iterator[None]:
    """Within it, kernels are judged one after the other by one process, for tests: starting it takes longest."""
    kept: list[Sandbox] = []
    token = _KEPT.set(kept)
    try:
        yield
    finally:
        _KEPT.reset(token)
        for box in kept:
            box.close()


def _start_judge(**limits: Any) -> Sandbox:
    memory = limits.setdefault("memory", 2 * MEMORY)
    return Sandbox([sys.executable, "-I", str(HERE / "judge.py"), json.dumps(sys.path), str(memory)], **limits)


def _minimal_environment() -> dict[str, str]:
    """Only those of the parent's variables that Python needs to start, and settings of the sandbox."""
    kept = {k: os.environ[k] for k in ("SYSTEMROOT", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH") if k in os.environ}
    one = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    at_once = {
        "MALLOC_MMAP_THRESHOLD_": "65536",
        "MALLOC_TRIM_THRESHOLD_": "65536",
    }  # freed arrays go back to the system
    return {**kept, **one, **at_once, "NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS": "0"}


def _seconds_waited_for_a_core(process: int) -> float:
    """Seconds in which a process could run and other work did. 0 where the system does not say, or it is gone."""
    try:
        return int(Path(f"/proc/{process}/schedstat").read_text().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0


def _is_memory_watched() -> bool:
    """Whether memory is watched from outside here: where RLIMIT_AS does not hold."""
    return not sys.platform.startswith("linux")


def _resident_bytes(pid: int) -> int:
    """Bytes of memory that a process has, or 0 where that is not to be found out."""
    try:
        if os.name == "nt":
            return _resident_on_windows(pid)
        listed = subprocess.run(["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, text=True, timeout=5)
        return int(listed.stdout.strip() or 0) * 1024
    except (OSError, ValueError, subprocess.SubprocessError):
        return 0


def _resident_on_windows(pid: int) -> int:
    import ctypes
    from ctypes import wintypes

    class Counters(ctypes.Structure):
        _fields_ = [("cb", wintypes.DWORD), ("faults", wintypes.DWORD), *(
            (name, ctypes.c_size_t) for name in
            ("peak", "working", "peak_paged", "paged", "peak_unpaged", "unpaged", "pagefile", "peak_pagefile")
        )]  # fmt: skip

    kernel = ctypes.WinDLL("kernel32", use_last_error=True)
    kernel.OpenProcess.restype = wintypes.HANDLE
    handle = kernel.OpenProcess(0x1000 | 0x0010, False, pid)
    if not handle:
        return 0
    counters = Counters(cb=ctypes.sizeof(Counters))
    try:
        ctypes.WinDLL("psapi").GetProcessMemoryInfo(wintypes.HANDLE(handle), ctypes.byref(counters), counters.cb)
    finally:
        kernel.CloseHandle(wintypes.HANDLE(handle))
    return counters.pagefile  # committed, touched or not


@lru_cache(maxsize=1)
def _what_the_system_refuses() -> tuple[str, ...]:
    """What the system itself refuses to a student's process here (lock.py): asked of one."""
    with numpy_sandbox(None) as box, contextlib.suppress(Failed):
        return tuple(box.ask("limits")["held"])
    return ()


def limits_in_words() -> list[str]:
    """The limits that are enforced on this system, in words."""
    if _is_memory_watched():
        memory = f"memory: watched ten times a second, ended above {MEMORY // 2**30} GiB (no limit by the system here)"
    else:
        memory = f"memory: {MEMORY // 2**30} GiB of address space for NumPy code, twice that for kernels (RLIMIT_AS)"
    held = _what_the_system_refuses()

    def say_who_refuses(what: str, system: str) -> str:
        return f"refused by the system ({system}) and an audit hook of Python" if what in held else (
            "refused by an audit hook of Python, not by the system")  # fmt: skip

    files = "files: none written (RLIMIT_FSIZE)" if os.name == "posix" else "files: none written"
    return [
        f"time: {SECONDS:g} seconds for each answer, {TOTAL:g} for all (twice that with hidden inputs), then killed",
        memory,
        f"{files}; read are Python, NumPy and the submission's own folder: {say_who_refuses('files', 'Landlock')}",
        f"processes, signals and network: {say_who_refuses('calls', 'seccomp')}",
    ]
