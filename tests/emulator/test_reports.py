"""What a run shows: text, SVG, HTML; and how it is asked for."""

from __future__ import annotations

import math
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from types import SimpleNamespace

import helpers_module
import numpy as np
import pytest
from kernels_buggy import CASES as BUGGY
from kernels_correct import CASES as CORRECT
from numba import cuda, float32
from numba.core import types
from numba.cuda import grid, libdevice
from numba.extending import intrinsic

import minidecode as md
from minidecode.emulator import register_body


def run_of(name, **options):
    case = next(c for c in [*CORRECT, *BUGGY] if c.name == name)
    return md.emulate(case.kernel, **case.options, **options)[case.launch](*case.arguments())


def test_text_holds_verdict_counts_and_source():
    text = str(run_of("tree"))
    assert text.startswith("tree[4, 256]\nclean\n")
    assert "per thread: 1 global loads" in text and "| " in text
    assert "s[t] += s[t + half]" in text
    assert " ms" not in text and "second" not in text


def test_a_race_is_told_as_the_course_tells_it():
    run = run_of("tree_without_barriers")
    assert run.verdict.startswith("error: s[")
    assert "no barrier between" in run.verdict and "more like it" in run.verdict
    finding = run.errors[0]
    assert finding.kind == "race" and len(finding.places) == 2


def test_notes_are_no_errors():
    run = run_of("early_return_before_a_barrier")
    assert run.ok and run.verdict.startswith("clean\nnote: ")
    assert "returned at line" in run.verdict and "before the barrier at line" in run.verdict
    same = run_of("everybody_sets_the_same_flag")
    assert same.ok and "both the same value" in same.verdict


@pytest.mark.parametrize("case", [*CORRECT, *BUGGY], ids=lambda c: c.name)
def test_every_run_can_be_shown(case):
    run = md.emulate(case.kernel, **case.options)[case.launch](*case.arguments())
    ElementTree.fromstring(run.to_svg())
    ElementTree.fromstring(run.show(0, 0).to_svg())
    ElementTree.fromstring(run._repr_html_())  # well-formed, so everything in it is escaped
    assert str(run) and str(run.show(0, 0))


def test_the_cell_of_a_race_is_red():
    assert '#cf222e" stroke' in run_of("tree_without_barriers").to_svg()
    assert run_of("reads_what_a_neighbour_block_writes").to_svg().count("epoch 0 of block") >= 1


@cuda.jit
def takes_the_next(out, tile):
    t = cuda.threadIdx.x
    tile[t] = t
    out[t] = tile[(t + 1) % 64]


def test_all_cells_that_race_are_red():
    run = md.emulate(takes_the_next, seed=3)[1, 64](np.zeros(64, np.float32), np.zeros(64, np.float32))
    assert run.errors[0].kind == "race"
    cells = [part for part in run.to_svg().split("<title>") if "read and written" in part]
    assert len(cells) > 3 and run.to_svg().count('#cf222e" stroke') == len(cells) + 1, "each of them, and the legend's"


def test_control_characters_are_escaped():
    source = 'def kernel(x):\n    x[0] = x[1] + 0 * len("<&\x07\x1b")\n'
    run = md.emulate(function_from(source, "control.py"))[1, 1](np.zeros(2))
    for text in (run.to_svg(), run._repr_html_()):
        ElementTree.fromstring(text)
    assert "\x07" not in run._repr_html_()


def function_from(source, name):
    import linecache

    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    names = {}
    exec(compile(source, name, "exec"), names)
    return names["kernel"]


def test_a_kernel_without_source_still_runs():
    names = {}
    exec("def kernel(x):\n    x[5] = 1\n", names)
    run = md.emulate(names["kernel"])[1, 1](np.zeros(2))
    assert "x[5] lies outside x(2)" in run.verdict
    assert "x" in str(run) and run._repr_html_()


@cuda.jit
def at_a_place(a, place):
    a[1, place] = a[0, 0]


@pytest.mark.parametrize(
    ("place", "cells"),
    [(-1, [-1, 0, 1]), (5, [3, 4, 5]), (40, [4, 5, 40]), (-40, [-40, -12, 0])],
    ids=["before", "end", "beyond", "far"],
)
def test_an_index_outside_is_drawn_beside_the_end_that_it_leaves(place, cells):
    drawn = md.emulate(at_a_place)[1, 1](np.zeros((2, 5)), place).to_svg()
    ElementTree.fromstring(drawn)
    assert f"<title>a[1, {place}]: asked for" in drawn and drawn.count(": asked for") == 1
    for cell in cells:
        assert cell == place or f"a[1, {cell}]: {'in the array' if 0 <= cell < 5 else 'outside'}" in drawn


@cuda.jit
def reads_ahead(a):
    s = cuda.shared.array((2, 33), float32)
    s[1, 0] = s[1, 1] = a[0]
    a[0] = s[1, 2]


def test_a_read_of_what_nothing_has_written_is_drawn_among_what_was():
    drawn = md.emulate(reads_ahead)[1, 1](np.zeros(1, np.float32)).to_svg()
    ElementTree.fromstring(drawn)
    for cell, state in ((0, "written"), (1, "written"), (2, "asked for"), (3, "not written")):
        assert f"<title>s[1, {cell}]: {state}" in drawn


def test_show_says_what_a_warp_touched():
    shown = str(run_of("tiled_transpose").show(block=1, warp=1))
    assert "loads x[1, 32] to x[1, 63] by lanes 0-31: 128 bytes, 4 sectors" in shown
    assert "1 pass" in shown
    assert "nothing was recorded" in str(run_of("tree").show(block=99))


def test_comparison():
    one, two = run_of("transpose_in_two_dimensions"), run_of("tiled_transpose")
    table = one.compare(two)
    assert "transpose_in_two_dimensions" in table and "sectors" in table
    assert "not clean" in one.compare(run_of("tree_without_barriers"))


# How it is asked for


@cuda.jit
def plus_one(x):
    x[cuda.grid(1)] += 1


def test_importing_minidecode_loads_neither_numba_nor_greenlet():
    code = "import sys, minidecode; print({'numba', 'greenlet'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "set()\n"


def test_emulate_is_on_the_public_surface():
    assert "emulate" in md.__all__ and callable(md.emulate)
    with pytest.raises(AttributeError):
        md.no_such_name  # noqa: B018


def test_a_plain_function_is_a_kernel_too():
    x = np.zeros(64)
    assert md.emulate(plus_one.py_func)[2, 32](x).ok
    assert (x == 1).all()


def test_the_kernel_itself_stays_as_it_was():
    before = plus_one.py_func.__code__, plus_one.py_func.__globals__["cuda"]
    md.emulate(plus_one)[1, 1](np.zeros(1))
    assert (plus_one.py_func.__code__, plus_one.py_func.__globals__["cuda"]) == before


def test_the_same_seed_gives_the_same_run_and_another_seed_another():
    def order(seed):
        x, y = np.zeros(64), np.zeros(1)
        md.emulate(last_writer, seed=seed)[1, 64](x, y)
        return y[0]

    assert order(3) == order(3)
    assert len({order(s) for s in range(8)}) > 1


@cuda.jit
def last_writer(x, y):
    y[0] = cuda.threadIdx.x


def test_strict_raises_at_the_first_error():
    with pytest.raises(md.EmulationError, match="no barrier between"):
        run_of("tree_without_barriers", strict=True)
    with pytest.raises(md.EmulationError, match="lies outside"):
        run_of("no_guard", strict=True)
    assert run_of("tree", strict=True).ok


def test_negative_indices_can_be_meant():
    case = next(c for c in BUGGY if c.name == "negative_index")
    arguments = case.arguments()
    assert md.emulate(case.kernel, negative_indices=True)[case.launch](*arguments).ok
    assert arguments[1][0] == arguments[0][0] - arguments[0][-1]


@pytest.mark.parametrize(("place", "is_inside"), [(-2, True), (-3, False), (-4, False), (2, False)])
@pytest.mark.parametrize("trace", [True, False])
def test_negative_indices_have_an_end_too(place, is_inside, trace):
    """a[1, -2] is the first of two elements; a[1, -3] lies before them, also where negative indices are meant."""
    a = np.arange(4.0).reshape(2, 2)
    run = md.emulate(at_a_place, negative_indices=True, trace=trace)[1, 1](a, place)
    assert run.ok == is_inside, run.verdict
    assert [e.kind for e in run.errors] == ([] if is_inside else ["outside"])
    assert a.tolist() == [[0, 1], [0 if is_inside else 2, 3]]


def test_untraced_runs_still_stop_at_wild_indices_and_say_what_they_did_not_look_for():
    run = run_of("no_guard", trace=False)
    assert not run.ok and "lies outside" in run.verdict
    run = run_of("tree", trace=False)
    assert "Races were not looked for" in run.verdict
    with pytest.raises(md.OptionError, match="trace=False"):
        run.sectors  # noqa: B018


def test_a_sample_of_blocks_says_so():
    x = np.zeros(32 * 100)
    run = md.emulate(plus_one, blocks=5)[100, 32](x)
    assert run.partial and run.ok
    assert "as far as the sample goes" in run.verdict and "5 of 100 blocks" in run.verdict
    assert x.sum() == 5 * 32 and x[0] == 1 and x[-1] == 1  # the first and the last block are in it
    assert run.global_loads_per_thread == 1


def test_a_long_launch_is_not_run_unasked(monkeypatch):
    from minidecode.emulator import launch

    monkeypatch.setattr(launch, "LONG", 0.0)
    x = np.zeros(128)
    with pytest.raises(md.EmulationError, match="blocks=8"):
        md.emulate(plus_one)[4, 32](x)
    assert (x == 0).all(), "the arrays are as they were"
    assert md.emulate(plus_one, blocks="all")[4, 32](x).ok


@pytest.mark.parametrize(("slow", "is_refused"), [((0,), False), ((0, 1, 2), True)])
def test_a_launch_is_long_if_all_of_the_first_blocks_are(monkeypatch, slow, is_refused):
    """One of them is slow where Python collects its garbage meanwhile. Here the clock is played."""
    from minidecode.emulator import launch

    ends = iter(np.cumsum([0.0, *(1.0 if k in slow else 0.01 for k in range(200))]).tolist())
    monkeypatch.setattr(launch, "time", SimpleNamespace(process_time=lambda: next(ends), monotonic=time.monotonic))
    x = np.zeros(6400)
    if is_refused:
        with pytest.raises(md.EmulationError, match="about 3 minutes"):
            md.emulate(plus_one)[200, 32](x)
    else:
        assert md.emulate(plus_one)[200, 32](x).ok


@pytest.mark.parametrize("grid", [2**30, (2, 60_000, 60_000)])
def test_more_blocks_than_can_be_put_in_order_are_estimated_by_one(grid):
    @cuda.jit
    def first_alone(a):
        if cuda.blockIdx.x == 0 and cuda.blockIdx.y == 0 and cuda.blockIdx.z == 0:
            a[cuda.threadIdx.x] += 1

    x = np.zeros(32, np.float32)
    with pytest.raises(md.EmulationError, match="minutes to emulate here"):
        md.emulate(first_alone)[grid, 32](x)
    assert md.emulate(first_alone, blocks=3)[grid, 32](x).partial


@pytest.mark.parametrize(
    "configuration", [(1,), (0, 32), (1, 2048), (1, (32, 33)), (1, 32.0), ("1", 32), (1, (1, 1, 1, 1))]
)
def test_a_wrong_launch_configuration_is_refused(configuration):
    with pytest.raises(md.OptionError):
        md.emulate(plus_one)[configuration](np.zeros(32))


def test_wrong_arguments_are_refused():
    with pytest.raises(md.OptionError, match="plus_one"):
        md.emulate(plus_one)[1, 1](np.zeros(1), 2)
    with pytest.raises(md.OptionError, match="numbers and booleans"):
        md.emulate(plus_one)[1, 1](np.zeros(1, [("a", "f4")]))
    with pytest.raises(TypeError, match="takes a kernel"):
        md.emulate(3)
    with pytest.raises(md.OptionError, match="blocks"):
        md.emulate(plus_one, blocks=0)


def test_too_much_shared_memory_is_refused():
    @cuda.jit
    def greedy(x):
        s = cuda.shared.array(20_000, float32)
        s[0] = x[0]

    run = md.emulate(greedy)[1, 1](np.zeros(1))
    assert not run.ok and "80,000 bytes" in run.verdict


# Where `cuda` hides


@intrinsic
def load2(typing_context, array, index):
    return types.float32(array, index), None


@register_body(load2)
def _load2(array, index):
    return array[index], array[index + 1]


def test_intrinsics_run_their_registered_body():
    @cuda.jit
    def kernel(x, y):
        a, b = load2(x, 2 * cuda.threadIdx.x)
        y[cuda.threadIdx.x] = a + b

    x, y = np.arange(8, dtype=np.float32), np.zeros(4, np.float32)
    assert md.emulate(kernel)[1, 4](x, y).ok
    assert y.tolist() == [1, 5, 9, 13]


def test_names_imported_by_themselves_closures_and_functions_of_modules():
    from numba import cuda as c
    from numba.cuda import syncthreads, threadIdx

    weight = 3

    def kernel(x, y):
        s = c.shared.array(4, float32)
        i = grid(1)
        s[threadIdx.x] = weight * x[i]
        syncthreads()
        y[i] = helpers_module.neighbour(s) + libdevice.sqrtf(float32(4))

    x, y = np.arange(4, dtype=np.float32), np.zeros(4, np.float32)
    run = md.emulate(kernel)[1, 4](x, y)
    assert run.ok, run.verdict
    assert y.tolist() == [3 * ((k + 1) % 4) + 2 for k in range(4)]


def test_what_is_not_emulated_says_so():
    def unknown(x):
        x[0] = libdevice.j0f(x[0])

    run = md.emulate(unknown)[1, 1](np.zeros(1, np.float32))
    assert "libdevice.j0f" in run.verdict and "register_body" in run.verdict

    def clusters(x):
        cuda.cluster(x)

    run = md.emulate(clusters)[1, 1](np.zeros(1))
    assert not run.ok and "cuda.cluster is not emulated" in run.verdict


def test_an_error_of_the_kernel_names_its_line_and_shows_no_traceback():
    def kernel(x):
        x[0] = x[0] + undefined_name  # noqa: F821

    run = md.emulate(kernel)[1, 1](np.zeros(1))
    assert run.errors[0].kind == "python" and "NameError" in run.verdict and "Traceback" not in str(run)
    assert run.errors[0].places[0].line == kernel.__code__.co_firstlineno + 1


def test_no_warning_of_numpy_leaks(recwarn):
    def kernel(x, n):
        x[0] = x[1] * x[1]
        x[2] = x[1] / (x[3] - x[3])
        n[0] = n[1] + n[1]

    n = np.array([0, 2**63 - 1])
    assert md.emulate(kernel)[1, 1](np.array([0, 3e38, 0, 1], np.float32), n).ok
    assert not recwarn.list and n[0] == -2


def test_two_views_of_one_array_are_one_memory():
    def kernel(a, b):
        i = cuda.threadIdx.x
        a[i] = b[i]

    whole = np.zeros(33)
    run = md.emulate(kernel)[1, 32](whole[1:], whole[:32])
    assert run.errors and run.errors[0].kind == "race"


def test_it_runs_in_another_thread_than_the_main_one():
    import threading

    x, runs = np.zeros(32), []
    worker = threading.Thread(target=lambda: runs.append(md.emulate(plus_one)[1, 32](x)))
    worker.start()
    worker.join()
    assert runs[0].ok and (x == 1).all()


def test_it_runs_under_a_debugger_and_a_profiler():
    """And no launch leaves anything behind in the interpreter that would trip them later."""
    import cProfile

    x, calls = np.zeros(32), []

    def trace(frame, event, argument):
        calls.append(event)
        return trace

    assert md.emulate(plus_one)[1, 32](x).ok
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        run = md.emulate(plus_one)[1, 32](x)
    finally:
        sys.settrace(before)
    profiler = cProfile.Profile()
    profiler.runcall(lambda: md.emulate(plus_one)[1, 32](x))
    assert run.ok and (x == 3).all() and calls


def test_a_python_with_its_mathematics_built_in(monkeypatch):
    """As Debian's: the module's loader is a class there, and so may be called, but is none of its functions."""
    monkeypatch.setattr(math, "__loader__", type(math))
    case = CORRECT[0]
    md.emulate(case.kernel, **case.options)[case.launch](*case.arguments())
