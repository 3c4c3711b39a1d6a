"""Counts against numbers worked out by hand."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest
from numba import cuda, float32, float64

import minidecode as md


@cuda.jit
def copy_with_stride(x, y, stride):
    i = cuda.grid(1)
    y[i] = x[i * stride]


@cuda.jit
def copy_from(x, y, first):
    i = cuda.grid(1)
    y[i] = x[i + first]


@cuda.jit
def broadcast(x, y):
    y[cuda.grid(1)] = x[0]


@cuda.jit
def column(x, y):
    t = cuda.threadIdx.x
    s = cuda.shared.array((32, 32), float32)
    for k in range(32):
        s[k, t] = x[k, t]
    cuda.syncthreads()
    y[t] = s[t, 3]


@cuda.jit
def padded_column(x, y):
    t = cuda.threadIdx.x
    s = cuda.shared.array((32, 33), float32)
    for k in range(32):
        s[k, t] = x[k, t]
    cuda.syncthreads()
    y[t] = s[t, 3]


@cuda.jit
def every_other_word(x, y):
    t = cuda.threadIdx.x
    s = cuda.shared.array(64, float32)
    s[t] = x[t]
    s[t + 32] = x[t]
    cuda.syncthreads()
    y[t] = s[2 * t]


@cuda.jit
def one_word_for_all(x, y):
    t = cuda.threadIdx.x
    s = cuda.shared.array(32, float32)
    s[t] = x[t]
    cuda.syncthreads()
    y[t] = s[7]


@cuda.jit
def doubles(x, y):
    t = cuda.threadIdx.x
    s = cuda.shared.array(32, float64)
    s[t] = x[t]
    cuda.syncthreads()
    y[t] = s[31 - t]


@cuda.jit
def half_of_the_lanes(x, y):
    t = cuda.threadIdx.x
    if t % 2 == 0:
        y[t] = x[t]


@cuda.jit
def loop(x, y):
    t = cuda.threadIdx.x
    total = float32(0)
    for k in range(t % 4 + 1):
        total += x[k * 32 + t]
    y[t] = total


@cuda.jit
def counting(y):
    cuda.atomic.add(y, 0, 1)


def f32(*shape):
    return np.zeros(shape, np.float32)


def launch(kernel, *arguments, block=32, grid=1):
    run = md.emulate(kernel)[grid, block](*arguments)
    assert run.ok, run.verdict
    return run


def count(run, text):
    """The LineCount of the line that holds this text."""
    line = next(n for n, source in run.source.items() if text in source)
    return next(c for place, c in run.lines.items() if place.line == line)


@pytest.mark.parametrize(
    "stride, sectors",
    [(1, 4), (2, 8), (3, 12), (8, 32), (16, 32)],
)
def test_sectors_of_a_stride(stride, sectors):
    run = launch(copy_with_stride, f32(32 * stride), f32(32), stride)
    assert run.sectors == sectors + 4  # the stores are side by side
    assert run.bytes_wanted == 256
    assert run.bytes_moved == 32 * run.sectors


@pytest.mark.parametrize("first, sectors", [(0, 4), (1, 5), (7, 5), (8, 4)])
def test_sectors_of_an_offset(first, sectors):
    assert launch(copy_from, f32(64), f32(32), first).sectors == sectors + 4


def test_a_view_that_begins_elsewhere_is_aligned_as_it_lies():
    assert launch(copy_from, f32(64)[1:], f32(32), 0).sectors == 5 + 4


def test_a_broadcast_moves_one_sector():
    run = launch(broadcast, f32(8), f32(32))
    assert run.sectors == 1 + 4
    assert run.bytes_wanted == 4 + 128


def test_requests_of_several_warps_and_blocks_add_up():
    run = launch(copy_with_stride, f32(256), f32(256), 1, grid=4, block=64)
    assert (run.global_loads_per_thread, run.global_stores_per_thread) == (1, 1)
    assert run.sectors == 2 * 256 * 4 // 32


def test_narrow_and_wide_elements():
    assert launch(copy_with_stride, np.zeros(32, np.int8), np.zeros(32, np.float64), 1).sectors == 1 + 8


def test_a_column_of_32_floats_lies_in_one_bank():
    run = launch(column, f32(32, 32), f32(32))
    assert run.bank_conflicts == 31
    assert any("32 lanes, one bank, 32 passes" in cost for cost in run.costs)


def test_padding_takes_the_conflicts_away():
    run = launch(padded_column, f32(32, 32), f32(32))
    assert run.bank_conflicts == 0 and not run.costs


def test_every_other_word_is_a_conflict_of_two():
    assert launch(every_other_word, f32(32), f32(32)).bank_conflicts == 1


def test_a_broadcast_within_shared_memory_is_free():
    assert launch(one_word_for_all, f32(32), f32(32)).bank_conflicts == 0


def test_doubles_side_by_side_have_no_conflicts():
    assert launch(doubles, np.zeros(32), np.zeros(32)).bank_conflicts == 0


def test_loads_and_stores_by_line():
    run = launch(column, f32(32, 32), f32(32))
    filling, reading = count(run, "s[k, t] = x[k, t]"), count(run, "y[t] = s[t, 3]")
    assert (filling.global_loads, filling.shared_stores, filling.sectors) == (1024, 1024, 128)
    assert (reading.shared_loads, reading.global_stores, reading.bank_conflicts) == (32, 32, 31)
    assert run.shared_loads_per_thread == 1 and run.shared_stores_per_thread == 32


def test_loads_and_stores_by_array():
    def of(loads, stores):
        return {"loads": loads, "stores": stores, "atomics": 0}

    run = launch(column, f32(32, 32), f32(32))
    assert run.arrays == {"x": of(1024, 0), "s": of(32, 1024), "y": of(0, 32)}


def test_active_lanes():
    assert count(launch(half_of_the_lanes, f32(32), f32(32)), "y[t] = x[t]").active == 0.5


def test_a_loop_of_different_lengths_makes_a_request_per_turn():
    run = launch(loop, f32(128), f32(32))
    line = count(run, "total +=")
    assert line.global_loads == 8 * (1 + 2 + 3 + 4)
    assert line.lanes_there == 4 * 32 and line.lanes == 80
    assert line.sectors == 4 * 4  # a quarter of the lanes still touches every sector of its row


def test_atomics_are_counted():
    run = launch(counting, np.zeros(1, np.int32), grid=2)
    assert run.atomics == 64 and run.sectors == 0


def test_the_report_says_how_far_apart_neighbours_lie():
    run = launch(copy_with_stride, f32(32 * 768), f32(32), 768)
    assert any("wanted 128 bytes and moved 1,024 (12 %): neighbours lie 768 elements apart" in c for c in run.costs)


@cuda.jit(device=True)
def half_of(x):
    return x * float32(0.5)


@cuda.jit
def some_arithmetic(x, y):
    i = cuda.grid(1)
    if i >= x.size:
        return
    total = float32(0)
    for _ in range(3):
        total += half_of(x[i]) - 1
    y[i] = math.sqrt(-total) if i % 2 else abs(total)


@cuda.jit
def two_barriers(y):
    cuda.syncthreads()
    if cuda.blockIdx.x == 0:
        cuda.syncthreads()
    cuda.syncwarp()
    y[cuda.grid(1)] = 1


def test_barriers_are_counted_by_block():
    assert md.emulate(two_barriers)[3, 64](np.zeros(192)).barriers == 3 + 1


def test_operations_are_those_that_ran():
    x, y = np.ones(40, np.float32), np.zeros(40, np.float32)
    run = md.emulate(some_arithmetic, operations=True)[2, 32](x, y)
    # 64 comparisons; 40 threads: 3 turns of product, difference and sum, then i % 2; 20 a minus and sqrt, 20 an abs
    assert run.operations == 64 + 40 * (3 * 3 + 1) + 20 * 2 + 20
    by_text = {run.source.get(p.line, "").strip(): n.operations for p, n in run.lines.items()}
    assert by_text["if i >= x.size:"] == 64 and by_text["total += half_of(x[i]) - 1"] == 40 * 3 * 2
    device = [n.operations for p, n in run.lines.items() if p.function == "half_of"]
    assert device == [40 * 3]
    assert "524 operations" in str(run) and "operations" in run.compare(run)


def test_counting_operations_changes_nothing_else():
    x = np.arange(40, dtype=np.float32)
    plain, counted = np.zeros(40, np.float32), np.zeros(40, np.float32)
    outer = sys.gettrace()
    one = md.emulate(some_arithmetic, seed=3)[2, 32](x, plain)
    two = md.emulate(some_arithmetic, seed=3, operations=True)[2, 32](x, counted)
    assert sys.gettrace() is outer
    np.testing.assert_array_equal(plain, counted)
    assert one.sectors == two.sectors and one.verdict == two.verdict
    with pytest.raises(md.OptionError, match=r"emulate\(kernel, operations=True\)"):
        _ = one.operations


@cuda.jit
def exchanges(x, y):
    i = cuda.grid(1)
    value = x[i]
    for apart in (16, 8, 4):
        value += cuda.shfl_xor_sync(0xFFFFFFFF, value, apart)
    if cuda.any_sync(0xFFFFFFFF, value > 0):
        value += cuda.popc(cuda.ballot_sync(0xFFFFFFFF, value > 1))
    y[i] = value + cuda.syncthreads_count(int(value))


def test_shuffles_and_votes_of_warps_are_counted():
    """2 blocks of 3 warps: three shuffles each, two votes of their lanes, and one at the block's barrier."""
    x = np.ones(192, np.float32)
    run = md.emulate(exchanges)[2, 96](x, np.zeros_like(x))
    assert run.ok and run.shuffles == 2 * 3 * 3 and run.votes == 2 * 3 * 3
