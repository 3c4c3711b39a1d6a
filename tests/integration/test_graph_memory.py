"""Memory of CUDA graphs, by a stand-in for CuPy: pools are emptied, failed captures end and hold nothing."""

import contextlib
import gc
import json
import sys
import types
import weakref
from collections import Counter
from typing import ClassVar

import numpy as np
import pytest
from taped_ops import references_on_tape
from test_gpu_families import FORWARD_PASSES, TOYS

import minidecode as md
from minidecode.device import graphs
from minidecode.device.graphs import Captured, CaptureError, GraphCounts
from minidecode.device.launch import STREAM
from minidecode.device.out_of_memory import MemoryOfGraphs
from minidecode.emulator import device_array
from minidecode.emulator.device_array import TAPE, Tape
from minidecode.errors import MinidecodeError
from minidecode.methods.out_of_memory import retry_after_freeing
from minidecode.runtime.buckets import Buckets
from minidecode.runtime.passes import Passes

__all__ = ["references_on_tape"]  # a fixture


class Pool:
    """Some bytes that arrays hold, and some that are free."""

    def __init__(self, allocate=None, held=0, free=32):
        self.allocate, self.held, self.free = allocate, held, free

    def set_limit(self, size):
        assert size == 0

    def malloc(self, size):
        raise NotImplementedError

    def free_all_blocks(self):
        self.free = 0

    def total_bytes(self):
        return self.held + self.free


class Graph:
    def launch(self):
        pass


class Stream:
    """What CuPy's does; `log` has what was called."""

    ptr = 7
    log: ClassVar[list[str]] = []

    def __init__(self, non_blocking=False):
        pass

    __enter__ = __exit__ = synchronize = lambda self, *arguments: None

    def begin_capture(self):
        self.log.append("begin")

    def end_capture(self):
        self.log.append("end")
        return Graph()


class OutOfMemoryError(MemoryError):
    """CuPy's has this name."""


@pytest.fixture
def memory(monkeypatch):
    """The pools, while `capture_and_run("cuda", ..)` works on a stand-in."""
    cuda = types.SimpleNamespace(
        Stream=Stream,
        MemoryPool=Pool,
        get_current_stream=Stream,
        using_allocator=lambda malloc: contextlib.nullcontext(),
        runtime=types.SimpleNamespace(getDevice=lambda: 0),
    )
    default = types.SimpleNamespace(free_all_blocks=lambda: None)
    monkeypatch.setitem(sys.modules, "cupy", types.SimpleNamespace(cuda=cuda, get_default_memory_pool=lambda: default))
    monkeypatch.setattr(graphs, "allocate_cublas_workspace", object)
    monkeypatch.setattr(graphs, "bind_cublas_handle", lambda: 0)
    pools = MemoryOfGraphs()
    for module in (graphs, sys.modules["minidecode.device.out_of_memory"]):
        monkeypatch.setattr(module, "MEMORY", pools)
    monkeypatch.setattr(Stream, "log", [])
    return pools


class Ops:
    functions: ClassVar[dict] = {}

    def counted(self):
        return Counter()

    def counts_since(self, counted):
        return {}

    def count_again(self, held):
        pass


def test_the_pool_of_a_graph_that_is_gone_is_emptied_and_dropped():
    """Not while an array of it lives: its block is free, and goes, later."""
    pools, graph, used, unused = MemoryOfGraphs(), Graph(), Pool(held=8), Pool()
    pools.add(graph, used)
    pools.add(None, unused)  # of a capture that failed
    pools.give_back_unused()
    assert (len(pools), used.free, unused.free) == (1, 32, 0), "the graph works in it"
    del graph
    pools.give_back_unused()
    assert (len(pools), used.free) == (1, 0), "an array still lies in it"
    used.held, used.free = 0, 8
    pools.give_back_unused()
    assert len(pools) == 0 and used.free == 0


def test_a_launch_keeps_its_graph_and_the_pool(memory):
    """`capture_and_run(..)[0].launch` alone, as benchmarks use it."""
    launch = graphs.capture_and_run("cuda", lambda: None)[0].launch
    gc.collect()
    memory.give_back_unused()
    ((graph, pool),) = memory._pools
    assert graph() is not None and pool.free > 0
    del launch
    gc.collect()
    memory.give_back_unused()
    assert len(memory) == 0


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_whatever_ends_a_capture_the_stream_does_not_go_on_capturing(memory, error):
    def run():
        raise error

    with pytest.raises(error if error is KeyboardInterrupt else CaptureError):
        graphs.capture_and_run("cuda", run)
    assert Stream.log == ["begin", "end"]
    memory.give_back_unused()
    assert len(memory) == 0


@pytest.mark.parametrize("times", [1, 2])
def test_where_memory_ends_in_a_capture_it_is_tried_once_more(memory, times):
    """After that it runs as it is, and nothing of the failed captures lives beside it."""
    made, failed = [], []

    class Array:
        pass

    def run():
        if Stream.log.count("begin") == Stream.log.count("end"):  # not captured
            assert not [one for one in made if one() is not None]
            return "as it is"
        array = Array()
        made.append(weakref.ref(array))
        if len(failed) < times:
            failed.append(1)
            raise OutOfMemoryError("Out of memory allocating 8 bytes")
        return "captured"

    captured, counts = Captured("cuda"), GraphCounts()
    assert captured(Ops(), counts, run) == "as it is"
    is_captured = times == 1
    assert captured(Ops(), counts, run) == ("captured" if is_captured else "as it is")
    assert captured.can_be == is_captured and counts.captured == is_captured and len(made) == 2
    assert is_captured or "Out of memory" in captured.why_not
    assert captured.lacked_memory == (not is_captured)


@pytest.fixture
def work_ends(monkeypatch):
    """What is kept is not waited for."""
    for module in ("buckets", "passes"):
        monkeypatch.setattr(f"minidecode.runtime.{module}.mark_end_of_work", lambda device: None)


def failing(error, fails, tries):
    """What runs, but while it is captured raises this error as long as `fails` has anything."""

    def run():
        if Stream.log.count("begin") > Stream.log.count("end"):
            tries.append(1)
            if fails:
                raise error("refused")
        return np.zeros(1)

    return run


@pytest.mark.parametrize("error", [OutOfMemoryError, ValueError])
def test_a_step_that_lacked_memory_is_tried_again_by_the_next_generation(memory, work_ends, error):
    """Once in each, also if the other part of its steps was captured. Another reason holds for ever."""
    fails, tries, buckets = [True], [], Buckets("cuda")
    run = failing(error, fails, tries)

    def launches_of_a_generation():
        """How many parts of each of three steps were launched."""
        bucket, steps = buckets.acquire(Ops(), []), [GraphCounts() for _ in range(3)]
        for counts in steps:
            bucket.captured_part("step")(Ops(), counts, run)
            bucket.captured_part("other")(Ops(), counts, lambda: None)
        buckets.give_back(bucket)
        return [counts.launches for counts in steps]

    of_memory = error is OutOfMemoryError
    assert [launches_of_a_generation() for _ in range(2)] == [[0, 1, 1], [1, 1, 1]]
    assert len(tries) == (4 if of_memory else 1), "two for each generation"
    fails.clear()
    assert launches_of_a_generation() == ([1, 2, 2] if of_memory else [1, 1, 1])
    assert launches_of_a_generation() == ([2, 2, 2] if of_memory else [1, 1, 1]) and len(buckets.idle) == 1


@pytest.mark.parametrize("error", [OutOfMemoryError, ValueError])
def test_a_pass_that_lacked_memory_is_tried_again(memory, work_ends, monkeypatch, error):
    fails, tries, passes = [True], [], Passes("cuda")
    monkeypatch.setattr("minidecode.runtime.passes.wait_for_work", lambda event: None)

    def launches(times):
        counts = GraphCounts()
        for _ in range(times):
            passes("key", Ops(), counts, failing(error, fails, tries), [])
        return counts.passes

    assert launches(4) == 0 and len(tries) == (4 if error is OutOfMemoryError else 1)
    fails.clear()
    assert launches(3) == (2 if error is OutOfMemoryError else 0)


def test_kernels_go_to_the_stream_on_which_cupy_works(memory):
    """Else a stream of the caller's that does not wait for the default one would read what is not yet written."""
    streams, model = [], lambda device: types.SimpleNamespace(device=device, buckets=types.SimpleNamespace(idle=[]))
    for device in ("cuda", "emulator"):
        retry_after_freeing(lambda: streams.append(STREAM.get()), [model(device)], what=str)
    assert streams == [Stream.ptr, 0] and STREAM.get() == 0


def test_other_reasons_are_not_tried_again(memory):
    def run():
        if Stream.log.count("begin") > Stream.log.count("end"):
            raise ValueError("refused")

    captured = Captured("cuda")
    for _ in range(2):
        captured(Ops(), GraphCounts(), run)
    assert Stream.log == ["begin", "end"] and "refused" in captured.why_not


def test_memory_of_a_graph_is_refused_in_a_way_that_no_pool_tries_again(memory):
    """At a CUDARuntimeError a pool frees its idle blocks, which launches of the capture use, and tries again."""

    class CUDARuntimeError(RuntimeError):
        pass

    class NoRoomError(MemoryError):
        pass

    def take(size):
        if size > 8:
            raise CUDARuntimeError("cudaErrorMemoryAllocation: out of memory")
        return f"{size} bytes"

    cuda = sys.modules["cupy"].cuda
    cuda.Memory, cuda.MemoryPointer = take, lambda memory, offset: (memory, offset)
    cuda.runtime = types.SimpleNamespace(CUDARuntimeError=CUDARuntimeError, memGetInfo=lambda: (8, 80))
    cuda.memory = types.SimpleNamespace(OutOfMemoryError=NoRoomError)
    assert graphs.allocate_or_refuse(8) == ("8 bytes", 0)
    with pytest.raises(NoRoomError):
        graphs.allocate_or_refuse(9)
    graphs.capture_and_run("cuda", lambda: None)
    ((_, pool),) = memory._pools
    assert pool.allocate is graphs.allocate_or_refuse


def test_who_takes_a_kept_step_waits_for_the_work_of_its_last_user(memory):
    """On a stream of another thread nothing else would order the two."""
    log, stream = [], [1]

    class Event:
        def __init__(self, disable_timing):
            assert disable_timing

        def record(self, on):
            self.after = on.ptr
            log.append(f"{on.ptr} marks")

    class Current(Stream):
        @property
        def ptr(self):
            return stream[0]

        def wait_event(self, event):
            log.append(f"{self.ptr} waits for {event.after}")

    sys.modules["cupy"].cuda.Event, sys.modules["cupy"].cuda.get_current_stream = Event, Current
    ops = types.SimpleNamespace(functions={})
    buckets = Buckets("cuda")
    bucket = buckets.acquire(ops, [])
    bucket.captured_part("step").graph = types.SimpleNamespace(bytes=0)
    buckets.give_back(bucket)
    stream[0] = 2
    assert buckets.acquire(ops, []) is bucket
    assert log == ["1 marks", "2 waits for 1"]
    passes, log[:] = Passes("cuda"), []
    for stream[0] in (1, 2):
        passes("key", Ops(), GraphCounts(), lambda: np.zeros(1), [])
    assert log == ["1 marks", "2 waits for 1", "2 marks"]


# ---- what graphs read ------------------------------------------------------------------------------------------------


def owners_of_memory(start, but=()):
    """By id, what owns the memory of each array that can be reached from here, save through objects of type `but`."""
    found, seen, ahead = {}, {}, [start]
    while ahead:
        here = ahead.pop()
        if id(here) in seen or isinstance(here, but):
            continue
        seen[id(here)] = here  # so that no id recurs
        if isinstance(here, np.ndarray):
            while isinstance(here.base, np.ndarray):
                here = here.base
            found[id(here)] = here
        elif isinstance(here, types.FunctionType):
            ahead += [cell.cell_contents for cell in here.__closure__ or ()]
        elif isinstance(here, dict):
            ahead += here.values()
        elif isinstance(here, tuple | list):
            ahead += here
        elif type(here).__module__.startswith("minidecode.") and hasattr(here, "__dict__"):
            ahead += vars(here).values()
    return found


WAYS = {
    "greedy": {},
    "beams": {"num_beams": 3, "no_repeat_ngram_size": 2},
    "groups": {"num_beams": 4, "num_beam_groups": 2, "diversity_penalty": 0.5},
    "draws": {"do_sample": True, "top_k": 9, "top_p": 0.9, "num_return_sequences": 2},
    "el": {"num_beams": 2, "plan": "cuda,cache=el"},
    "processors": {"suppress_tokens": [5], "bad_words_ids": [[6, 8]], "repetition_penalty": 1.3, "min_new_tokens": 3,
                   "eos_token_id": 4, "exponential_decay_length_penalty": (1, 1.5)},
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", FORWARD_PASSES)
def test_what_kept_graphs_read_is_kept(kind, way, tmp_path, monkeypatch, references_on_tape):
    """By the model, beside the graph: a graph of CUDA keeps its own pool, and no array that was made before it.

    A tape keeps all, so wrong tokens would come on a GPU alone, where the memory has gone to another array.
    """
    made, note = {}, device_array._note_new_array

    def note_capture(array):
        if TAPE.get() is not None:
            made.update(owners_of_memory(array))
        return note(array)

    monkeypatch.setattr(device_array, "_note_new_array", note_capture)
    (tmp_path / "config.json").write_text(json.dumps(TOYS.toy_fields(kind)), encoding="utf-8")
    model = md.load(tmp_path, random_weights=True, device="emulator")
    try:
        for _ in range(3):
            model.generate(input_ids=[[3, 9, 12, 7, 9], [5, 6]], **{"max_new_tokens": 6} | WAYS[way])
    except MinidecodeError as refusal:
        pytest.skip(str(refusal))
    steps = [part for bucket in model.buckets.idle for part in bucket.parts.values()]
    graphs = [part.graph for part in (*steps, *model.passes.kept.values()) if part.graph is not None]
    kept = owners_of_memory([model.weights, model.buckets, model.passes], but=Tape)
    assert graphs and not set(owners_of_memory([graph.calls for graph in graphs])) - set(kept) - set(made)
