"""A step, a part of it or a prefill, captured once and launched as one: CUDA graphs, and in the emulator a tape.

A step of GPT-2 launches 113 kernels. For each, Python and the driver take longer than the kernel does. A graph holds
the launches with their arguments, so that all of them are one call. For that a step must do the same on the same arrays
each time: what is new in it goes into arrays that stay (`Captured` keeps them), caches write in place
(`in_place`), and no number is looked at on the way. Products of the library go through nvmath: CuPy refuses its own
while a stream is captured. So a part with one of CuPy's stays as it is, and so does one with a function of the host.

The emulated device proves as much as it can without a GPU: what was noted on its tape is done again, on the same
arrays, with no Python of the forward pass between. benchmarks/gpu.py asks a GPU.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from .launch import LAUNCHES, STREAM, OnHost
from .matmul import (
    BY_CUPY,
    allocate_cublas_workspace,
    bind_cublas_handle,
    using_cublas_workspace,
    why_not_nvmath,
)
from .out_of_memory import MEMORY, give_back_unused_memory, is_out_of_memory
from .user_functions import describe_function


@dataclass
class GraphCounts:
    """How many parts of steps, encoders and prefills were captured and launched as one."""

    captured: int = 0  # in this call
    reused: int = 0  # an earlier call captured them
    launches: int = 0  # of both
    passes: int = 0  # encoders and prefills, launched whole
    looks: int = 0  # of the host at what steps told; it was not needed at each
    why_not: str = ""  # why steps of this call, or parts of them, were not captured, if any were not


class Captured:
    """A part of a step: run as it is at first, captured the second time, then launched, by the generation that has it.

    In a launch no op is called by Python; the proxy and the launch counter count what the graph holds all the same.
    """

    def __init__(self, device: str):
        self.device = device
        self.inputs: tuple[Any, ...] = ()  # that the graph reads, with the numbers of each call
        self.beside: tuple[Any, ...] = ()  # that it reads, and that nothing else keeps
        self.graph: Any = None
        self.end: Any = None  # of what launched it last, perhaps on another stream
        self.has_run, self.can_be, self.why_not = False, True, ""
        self.lacked_memory = False  # when it was to be captured: it is not kept, and a later call tries again

    def __call__(self, ops: Any, counts: GraphCounts, run: Callable[..., Any], *arrays: Any) -> Any:
        """run(*arrays), which calls these ops: a proxy that counts them (runtime/receipt.py).

        Nothing of the generation is kept but what the graph works on.
        """
        if not self.has_run or not self.can_be:
            return self._run_uncaptured(ops, counts, run, arrays)
        if self.graph is None:
            self.inputs = tuple(array.copy() for array in arrays)
            if why_not := self._try_to_capture(ops, run):
                self.forget_capture()
                self.why_not = why_not
                return self._run_uncaptured(ops, counts, run, arrays)
            counts.captured += 1
        else:
            for mine, new in zip(self.inputs, arrays, strict=True):
                mine[...] = new
            ops.count_again(self._held)
            if (launches := LAUNCHES.get()) is not None:
                launches.update(self._kernels)
            self.graph.launch()
        counts.launches += 1
        return self.result

    def _run_uncaptured(self, ops: Any, counts: GraphCounts, run: Callable[..., Any], arrays: tuple[Any, ...]) -> Any:
        before, counted = Counter(LAUNCHES.get() or {}), ops.counted()
        result = run(*arrays)
        launched = Counter(LAUNCHES.get() or {}) - before
        ran = {name: ops.functions[name] for name in ops.counts_since(counted)}
        by_host = [f"{name} is {describe_function(op)}" for name, op in ran.items() if isinstance(op, OnHost)]
        if by_host or BY_CUPY in launched:
            by_cupy = f"a {BY_CUPY}, which no graph can hold, and {why_not_nvmath()}"
            self.can_be, self.why_not = False, ", ".join(by_host) or by_cupy
        self.has_run = True
        counts.why_not = self.why_not or counts.why_not
        return result

    def forget_capture(self) -> None:
        """Stops capturing: from here on the step runs as it is."""
        self.graph, self.result, self.inputs, self.beside, self.can_be = None, None, (), (), False

    def _try_to_capture(self, ops: Any, run: Callable[..., Any]) -> str:
        """Captures it. Where CUDA refuses, the reason; where memory ends, unused memory goes and it is tried once more.

        When this returns, no traceback holds what a failed try has made: what runs as it is needs the room.
        """
        why_not, tries = "", 2
        while tries:
            try:
                self._capture(ops, run)
                self.lacked_memory = False
                return ""
            except CaptureError as error:
                self.lacked_memory = is_out_of_memory(error.__cause__ or error)
                why_not, tries = str(error), tries - 1 if self.lacked_memory else 0
            give_back_unused_memory(self.device)
        return why_not

    def _capture(self, ops: Any, run: Callable[..., Any]) -> None:
        before, counted = Counter(LAUNCHES.get() or {}), ops.counted()
        self.graph, self.result = capture_and_run(self.device, lambda: run(*self.inputs))
        self._kernels = Counter(LAUNCHES.get() or {}) - before
        self._held = ops.counts_since(counted)


class CaptureError(Exception):
    """CUDA has refused to capture what runs; nothing of it was done."""


def capture_and_run(device: str, run: Callable[[], Any]) -> tuple[Any, Any]:
    """(graph, result) of what `run` does on the device. It is done once, and once more at each graph.launch().

    `run` must have run before: kernels are compiled and loaded then, which no capture allows. Raises CaptureError
    where CUDA refuses.
    """
    if device == "emulator":
        from ..emulator.device_array import recorded_tape

        with recorded_tape() as tape:
            return tape, run()
    import cupy

    MEMORY.give_back_unused()
    bind_cublas_handle()  # is made now, where there is none: cuBLAS is not loaded while a stream is captured
    stream, pool = cupy.cuda.Stream(non_blocking=True), cupy.cuda.MemoryPool(allocate_or_refuse)
    pool.set_limit(size=0)  # CUPY_GPU_MEMORY_LIMIT is of the default pool
    cupy.cuda.get_current_stream().synchronize()
    token = STREAM.set(stream.ptr)
    try:
        # Room that the graph uses is its own: another pool would lend it to others between two launches.
        with cupy.cuda.using_allocator(pool.malloc), using_cublas_workspace(allocate_cublas_workspace()), stream:
            stream.begin_capture()
            result = run()
            graph = stream.end_capture()
    except BaseException as error:  # Ctrl-C, too
        with suppress(Exception):  # or the stream would go on capturing
            stream.end_capture()
        MEMORY.add(None, pool)
        if not isinstance(error, Exception):
            raise
        raise CaptureError(f"it could not be captured ({type(error).__name__}: {error})") from error
    finally:
        STREAM.reset(token)
    held = _GpuGraph(graph, pool)
    MEMORY.add(held, pool)
    held.launch()
    return held, result


def allocate_or_refuse(size: int) -> Any:
    """New memory for a graph. Raises CuPy's OutOfMemoryError where the device has none left.

    At the driver's own error a pool would free its idle blocks and try again. While a graph is captured, launches that
    are in it use those blocks.
    """
    import cupy

    try:
        return cupy.cuda.MemoryPointer(cupy.cuda.Memory(size), 0)
    except cupy.cuda.runtime.CUDARuntimeError as error:
        free, total = cupy.cuda.runtime.memGetInfo()
        raise cupy.cuda.memory.OutOfMemoryError(size, total - free) from error


def mark_end_of_work(device: str) -> Any:
    """An event behind all that this thread's stream has to do; None but on a GPU."""
    if device != "cuda":
        return None
    import cupy

    event = cupy.cuda.Event(disable_timing=True)
    event.record(cupy.cuda.get_current_stream())
    return event


def wait_for_work(event: Any) -> None:
    """Lets this thread's stream, not the host, wait for what `mark_end_of_work` has marked, on whatever stream."""
    if event is not None:
        import cupy

        cupy.cuda.get_current_stream().wait_event(event)


class _GpuGraph:
    """A CUDA graph, with the memory that it uses: while the one is there, or its `launch`, so is the other."""

    def __init__(self, graph: Any, pool: Any):
        self.graph, self.pool, self.bytes = graph, pool, pool.total_bytes()

    def launch(self) -> None:
        self.graph.launch()
