"""Kernels on which the emulator once gave the wrong verdict or the wrong count."""

from __future__ import annotations

import helpers_module
import numpy as np
import pytest
from numba import cuda, float32, float64, int32

import minidecode as md
from minidecode.emulator import arrays

SEEDS = range(6)


def run(kernel, launch, *arguments, **options):
    return md.emulate(kernel, **options)[launch](*arguments)


@cuda.jit
def flag_set_after_reset(flag, tokens):
    i = cuda.grid(1)
    flag[0] = 0
    for j in range(i):
        if tokens[j] == tokens[i]:
            flag[0] = 1


@pytest.mark.parametrize("seed", SEEDS)
def test_a_later_store_of_another_value_races_too(seed):
    tokens = np.arange(32)
    tokens[20] = 3
    found = run(flag_set_after_reset, (32, 1), np.zeros(1, np.int32), tokens, seed=seed)
    assert not found.ok and found.errors[0].kind == "race"


@cuda.jit
def long_loop_of_atomics(best, x):
    for i in range(cuda.threadIdx.x, x.size, 32):
        cuda.atomic.max(best, 0, x[i])


@cuda.jit
def waits_for_ever_and_counts(lock, out):
    turns = 0
    while cuda.atomic.cas(lock, 0, 0, 1) != 0:
        turns += 1
    out[0] = turns


def test_a_long_loop_of_atomics_that_change_nothing_is_no_deadlock():
    best = np.zeros(1, np.float32)
    assert run(long_loop_of_atomics, (1, 32), best, np.arange(12_800, 0, -1).astype(np.float32)).ok
    assert best[0] == 12_800
    assert run(long_loop_of_atomics, (1, 32), best, np.zeros(12_800, np.float32)).ok
    stuck = run(waits_for_ever_and_counts, (1, 2), np.ones(1, np.int32), np.zeros(1, np.int32))
    assert [e.kind for e in stuck.errors] == ["deadlock"]


@cuda.jit
def last_block_resets(parts, total, count):
    b = cuda.blockIdx.x
    parts[b] = float32(b + 1)
    cuda.threadfence()
    if cuda.atomic.add(count, 0, 1) == cuda.gridDim.x - 1:
        cuda.threadfence()
        for k in range(cuda.gridDim.x):
            total[0] += parts[k]
        count[0] = 0  # ready for the next launch


@pytest.mark.parametrize("seed", SEEDS)
def test_the_last_block_may_reset_the_counter(seed):
    total, count = np.zeros(1, np.float32), np.zeros(1, np.int32)
    found = run(last_block_resets, (5, 1), np.zeros(5, np.float32), total, count, seed=seed)
    assert found.ok, found.verdict
    assert total[0] == 15 and count[0] == 0


@cuda.jit
def published_by_shared_memory(data, y):
    s = cuda.shared.array(1, int32)
    s[0] = 0
    if cuda.blockIdx.x == 0:
        data[0] = 42
        cuda.threadfence()
        cuda.atomic.add(s, 0, 1)
    else:
        cuda.atomic.add(s, 0, 1)
        y[0] = data[0]


@pytest.mark.parametrize("seed", SEEDS)
def test_shared_memory_publishes_to_its_own_block_alone(seed):
    found = run(published_by_shared_memory, (2, 1), np.zeros(1, np.int32), np.zeros(1, np.int32), seed=seed)
    assert [e.kind for e in found.errors] == ["race"]


@cuda.jit
def same_value_then_another(a):
    t = cuda.threadIdx.x
    a[0] = 5
    if t == 1:
        a[0] = 7


@pytest.mark.parametrize("seed", SEEDS)
def test_a_store_of_the_same_value_hides_no_writer(seed):
    found = run(same_value_then_another, (1, 2), np.zeros(1, np.int32), seed=seed)
    assert [e.kind for e in found.errors] == ["race"], found.verdict


@cuda.jit
def each_stores_its_own(values, y):
    y[0] = values[cuda.grid(1)]


@pytest.mark.parametrize("launch", [(1, 2), (2, 1)], ids=["threads", "blocks"])
@pytest.mark.parametrize(("one", "two", "same"), [
    (0.0, -0.0, False), (-0.0, -0.0, True), (np.nan, np.nan, True), (np.nan, -np.nan, False), (1.0, 1.0, True),
    (1.0, 1.0 + 2**-40, True),
], ids=str)  # fmt: skip
def test_two_stores_are_the_same_where_their_bits_are(launch, one, two, same):
    """As float32 holds them: -0.0 is not 0.0, a NaN is its copy, and what rounding takes away does not count."""
    found = run(each_stores_its_own, launch, np.array([one, two]), np.zeros(1, np.float32))
    assert [f.kind for f in found.findings] == ["same value" if same else "race"], found.verdict


@cuda.jit
def stores_what_wraps(y):
    y[0] = 5 + 256 * cuda.threadIdx.x


def test_numbers_that_wrap_are_compared_as_they_are_stored():
    assert run(stores_what_wraps, (1, 2), np.zeros(1, np.uint8)).ok


@cuda.jit
def adds_without_an_atomic(x, total):
    total[0] += x[cuda.threadIdx.x]


def test_a_lost_update_is_not_called_harmless():
    """Threads that add 0 write what others wrote; on a GPU the last of them undoes an addition."""
    found = run(adds_without_an_atomic, (1, 8), np.array([1, 0, 2, 0, 0, 1, 0, 2], np.float32), np.zeros(1, np.float32))
    assert "an update may be lost" in found.verdict and "No mistake" not in found.verdict
    assert not found.ok


@cuda.jit
def two_blocks_store_twice(a):
    for _ in range(2):
        a[0] = 5
        cuda.syncthreads()
    if cuda.blockIdx.x == 0:
        a[0] = 7


@pytest.mark.parametrize("seed", SEEDS)
def test_the_same_between_blocks(seed):
    assert not run(two_blocks_store_twice, (2, 1), np.zeros(1, np.int32), seed=seed).ok


@cuda.jit
def zeroes_then_races(many, z):
    for i in range(many.size):
        many[i] = 0
    z[0] = cuda.blockIdx.x


def test_what_is_too_much_to_look_at_is_said():
    found = run(zeroes_then_races, (2, 1), np.zeros(20_100, np.int8), np.zeros(1, np.int32))
    assert "not looked at for races" in found.verdict


@cuda.jit(device=True)
def put_and_sync(s, t):
    s[t] = t
    cuda.syncthreads()


@cuda.jit
def barrier_by_two_calls(s_out):
    s = cuda.shared.array(64, int32)
    t = cuda.threadIdx.x
    if t < 32:
        put_and_sync(s, t)
    else:
        put_and_sync(s, t)
    s_out[t] = s[63 - t]


def test_a_barrier_reached_by_two_calls_is_two_barriers():
    found = run(barrier_by_two_calls, (1, 64), np.zeros(64, np.int32))
    assert [e.kind for e in found.errors] == ["barrier"] and len(found.errors[0].places) == 2


@cuda.jit
def leaves_turn_by_turn(x):
    k = 0
    while True:
        cuda.syncthreads()
        x[cuda.threadIdx.x] = k
        k += 1
        if k > cuda.threadIdx.x:
            return


def test_a_return_written_after_the_barrier_of_its_loop_is_a_note():
    found = run(leaves_turn_by_turn, (1, 8), np.zeros(8, np.int32))
    assert found.ok, found.verdict


@cuda.jit
def returns_after_a_barrier_that_it_skipped(x):
    t = cuda.threadIdx.x
    if t < 4:
        cuda.syncthreads()
    if t >= 4:
        x[t] = 1
        return
    x[t] = 2


@pytest.mark.parametrize("seed", SEEDS)
def test_a_return_written_after_a_skipped_barrier_is_an_error(seed):
    """Threads that go round the barrier did not leave early, though they end at a written return."""
    found = run(returns_after_a_barrier_that_it_skipped, (1, 8), np.zeros(8, np.int32), seed=seed)
    assert [e.kind for e in found.errors] == ["barrier"], found.verdict
    assert "never come" in found.verdict


@cuda.jit
def waits_for_all_blocks(count, x):
    cuda.atomic.add(count, 0, 1)
    while cuda.atomic.add(count, 0, 0) < cuda.gridDim.x:
        pass
    x[cuda.blockIdx.x] = 1


def test_a_sample_that_waits_for_the_rest_says_so():
    counts = np.zeros(1, np.int32), np.zeros(4, np.int32)
    assert run(waits_for_all_blocks, (4, 1), *counts).ok
    found = run(waits_for_all_blocks, (4, 1), np.zeros(1, np.int32), np.zeros(4, np.int32), blocks=2)
    assert 'give emulate() blocks="all"' in found.verdict


@cuda.jit
def square(n, y):
    y[0] = n * n


def test_narrow_scalars_are_wide_inside():
    y = np.zeros(1, np.int64)
    run(square, (1, 1), np.int32(70_000), y)
    assert y[0] == 4_900_000_000


@cuda.jit(device=True)
def load(a, i):
    return a[i]


@cuda.jit
def loads_of_two_kinds(x, y):
    s = cuda.shared.array(32, float32)
    t = cuda.threadIdx.x
    s[t] = load(x, t)
    cuda.syncthreads()
    y[t] = load(s, 31 - t)


def test_a_function_used_on_global_and_shared_memory_counts_as_both():
    found = run(loads_of_two_kinds, (1, 32), np.ones(32, np.float32), np.zeros(32, np.float32))
    assert (found.global_loads_per_thread, found.shared_loads_per_thread, found.bank_conflicts) == (1, 1, 0)


@cuda.jit
def dynamic_every_other(x, y):
    s = cuda.shared.array(0, float32)
    wide = cuda.shared.array(0, float64)  # the same bytes, seen as something else
    t = cuda.threadIdx.x
    s[2 * t] = x[t]
    cuda.syncthreads()
    y[t] = s[2 * t]
    if wide.size < 0:
        y[t] = 0


def test_sizes_of_elements_are_those_of_the_array_that_was_used():
    found = md.emulate(dynamic_every_other)[1, 32, 0, 256](np.ones(32, np.float32), np.zeros(32, np.float32))
    assert found.bank_conflicts == 2


@cuda.jit
def asks_a_module(x, y):
    i = cuda.grid(1)
    y[i] = abs(helpers_module.twice_plus_one(x[i]))


def test_operations_of_a_function_of_a_module_count():
    found = run(asks_a_module, (1, 4), np.ones(4, np.float32), np.zeros(4, np.float32), operations=True)
    assert found.operations == 4 * (2 + 1)


@cuda.jit
def writes_a_tuple(arrays):
    arrays[0][cuda.grid(1)] = 7


def test_arrays_in_tuples_are_put_back_after_a_refusal(monkeypatch):
    from minidecode.emulator import launch

    monkeypatch.setattr(launch, "LONG", 0.0)
    a = np.zeros(8, np.int32)
    with pytest.raises(md.EmulationError, match="the arrays are as they were"):
        run(writes_a_tuple, (8, 1), (a,))
    assert (a == 0).all()


@cuda.jit
def histogram_without_atomics(x, h):
    h[x[cuda.grid(1)]] += 1


@cuda.jit
def barrier_in_an_if(a):
    s = cuda.shared.array(64, int32)
    t = cuda.threadIdx.x
    s[t] = a[t]
    if t < 32:
        cuda.syncthreads()
    a[t] = s[63 - t]


@cuda.jit(device=True)
def put(s, value):
    s[0] = value


@cuda.jit
def puts(out):
    s = cuda.shared.array(1, int32)
    put(s, cuda.threadIdx.x)
    cuda.syncthreads()
    out[cuda.threadIdx.x] = s[0]


@cuda.jit
def last_warp_alone(a):
    s = cuda.shared.array(64, int32)
    t = cuda.threadIdx.x
    s[t] = a[t]
    cuda.syncthreads()
    mine = t % 32
    if t < 32:
        half = 32
        while half > 0:
            if mine < half:
                s[t] += s[t + half]
            half //= 2


@cuda.jit
def each_warp_its_own(a, levels):
    s = cuda.shared.array(64, int32)
    t = cuda.threadIdx.x
    s[63 - t] = 0
    cuda.syncthreads()
    if levels > 0:
        s[t] = a[t]
        a[t] = s[t ^ 1]
    if levels > 1:
        a[t] += s[t ^ 63]


@pytest.mark.parametrize(
    ("kernel", "arguments", "says"),
    [
        (last_warp_alone, (), "cuda.syncwarp() is missing: some threads"),
        (each_warp_its_own, (1,), "cuda.syncthreads() is missing, or, for one warp alone, cuda.syncwarp()."),
        (each_warp_its_own, (2,), "cuda.syncthreads() is missing."),
    ],
    ids=["in-an-if", "either", "block"],
)
def test_of_two_barriers_the_one_is_named_that_is_right_there(kernel, arguments, says):
    """Within an `if` that some threads skip, or where other warps touch the array as well, only one of them is."""
    for seed in SEEDS:
        found = run(kernel, (1, 64), np.ones(64, np.int32), *arguments, seed=seed)
        races = [f.remedy for f in found.errors if f.kind == "race"]
        assert races and all(remedy.startswith(says) for remedy in races), found.verdict
        assert all("missing" not in f.message for f in found.errors), "what to do is the remedy's"


def test_what_is_said_names_the_remedy_and_the_function():
    said = run(histogram_without_atomics, (1, 8), np.zeros(8, np.int32), np.zeros(4, np.int32)).verdict
    assert "To add up, use cuda.atomic.add" in said
    said = run(barrier_in_an_if, (1, 64), np.zeros(64, np.int32)).verdict
    assert "at the barrier of line" in said and "which this one passed by" in said
    assert "counts hold what ran until then" in said
    found = run(puts, (1, 4), np.zeros(4, np.int32))
    assert "of put)" in found.verdict
    assert "put, of test_hard_cases.py:" in str(found) and "s[0] = value" in str(found)


@cuda.jit
def halves_and_wholes(halves, wholes, half, whole):
    if cuda.grid(1) == 0:
        halves[half] = 1
    else:
        wholes[whole] = 1


@pytest.mark.parametrize("launch", [(1, 2), (2, 1)], ids=["threads", "blocks"])
@pytest.mark.parametrize(("half", "whole"), [(0, 0), (3, 1), (2, 0), (3, 2)])
def test_elements_of_two_sizes_race_where_they_share_bytes(launch, half, whole):
    wholes = np.zeros(3, np.float64)
    for seed in SEEDS:
        found = run(halves_and_wholes, launch, wholes.view(np.int32), wholes, half, whole, seed=seed)
        assert found.ok == (half // 2 != whole), found.verdict
        words = [f"halves[{half}]", f"wholes[{whole}]", "which share bytes"]
        assert found.ok or all(word in found.errors[0].message for word in words)


@cuda.jit
def last_but_one(x, y, i):
    y[0] = x[-2] - x[i]


def test_an_index_below_0_counts_from_the_end_if_it_is_written_so():
    y = np.zeros(1)
    assert run(last_but_one, (1, 1), np.arange(4.0), y, 0).ok and y[0] == 2
    assert "x[-1] lies outside x(4)" in run(last_but_one, (1, 1), np.arange(4.0), y, -1).verdict
    assert run(last_but_one, (1, 1), np.arange(4.0), y, -1, negative_indices=True).ok
    assert "foreign memory" in run(last_but_one, (1, 1), np.arange(1.0), y, 0).verdict


@cuda.jit
def misspelt(x):
    x[cuda.threadidx.x] = 1


@cuda.jit
def row_as_a_number(x):
    x[0] += 1


@cuda.jit
def dynamic_without_bytes(x):
    s = cuda.shared.array(0, int32)
    s[cuda.threadIdx.x] = x[cuda.threadIdx.x]


@cuda.jit
def rows_read_and_written(x, out):
    t = cuda.threadIdx.x
    row = x[t % 2, 0]
    row[t // 2] = t
    cuda.syncthreads()
    again = x[t % 2, 0]
    out[t] = again[1 - t // 2]


@cuda.jit
def row_by_a_float(x):
    x[0][0] = 1
    x[0.0][0] = 2


def test_a_part_shows_what_others_store_in_it_and_a_float_selects_none():
    """The emulator keeps parts: the second thread that selects one gets the first one's."""
    x, out = np.full((2, 1, 2), -1), np.zeros(4, int)
    assert run(rows_read_and_written, (1, 4), x, out).ok
    assert x[:, 0].tolist() == [[0, 2], [1, 3]] and out.tolist() == [2, 3, 0, 1]
    assert "'float' object cannot be interpreted as an integer" in run(row_by_a_float, (1, 1), np.zeros((2, 2))).verdict


@pytest.mark.parametrize("most", [1, 4096])
def test_parts_that_are_given_up_are_made_again(most, monkeypatch):
    monkeypatch.setattr(arrays, "MOST_PARTS", most)
    x, out = np.full((2, 1, 2), -1), np.zeros(4, int)
    assert run(rows_read_and_written, (1, 4), x, out).ok and out.tolist() == [2, 3, 0, 1]


def test_messages_inside_of_kernels_say_what_to_do():
    assert "did you mean cuda.threadIdx?" in run(misspelt, (1, 1), np.zeros(3)).verdict
    assert "a part of x of shape (2,) is used as a number" in run(row_as_a_number, (1, 1), np.zeros((2, 2))).verdict
    assert "[grid, block, stream, bytes]" in run(dynamic_without_bytes, (1, 4), np.zeros(4, np.int32)).verdict


@pytest.mark.parametrize(
    ("options", "launch", "arguments", "says"),
    [({"empty": ["outt"]}, (1, 4), (np.zeros(4, np.int32),), "the kernel's arguments are out"),
     ({"empty": "out"}, (1, 4), (np.zeros(4, np.int32),), "empty is a list of names"),
     ({"patience": -1}, (1, 4), (np.zeros(4, np.int32),), "seconds above 0"),
     ({"seed": "x"}, (1, 4), (np.zeros(4, np.int32),), "seed is an integer"),
     ({}, (1, (1, 1, 65)), (np.zeros(4, np.int32),), "block's z is at most 64"),
     ({}, ((1, 70_000), 1), (np.zeros(4, np.int32),), "grid's y is at most 65,535"),
     ({}, (1, 4, 0, -5), (np.zeros(4, np.int32),), "bytes of dynamic shared memory"),
     ({}, (1, 4), ([0, 0, 0, 0],), "out is a list")],
)  # fmt: skip
def test_what_no_launch_takes_is_refused(options, launch, arguments, says):
    with pytest.raises(md.OptionError, match=says):
        run(puts, launch, *arguments, **options)


@cuda.jit
def vote_of_bools(x, y):
    y[cuda.threadIdx.x] = cuda.syncthreads_count(x[cuda.threadIdx.x] > 0)


@cuda.jit
def vote_of_floats(x, y):
    y[cuda.threadIdx.x] = cuda.syncthreads_or(x[cuda.threadIdx.x])


@cuda.jit
def vote_of_integers(x, y):
    y[cuda.threadIdx.x] = cuda.syncthreads_count(int32(x[cuda.threadIdx.x] > 0))


def test_a_barrier_counts_integers_alone():
    """Numba compiles no other."""
    x, y = np.array([1, 0, 2, 3], np.float32), np.zeros(4, np.int32)
    for kernel, kind in ((vote_of_bools, "bool"), (vote_of_floats, "float")):
        found = run(kernel, (1, 4), x, y)
        assert not found.ok and f"takes an integer, not a {kind}: write int32(...) around it" in found.verdict
    assert run(vote_of_integers, (1, 4), x, y).ok and y.tolist() == [3] * 4
