"""Caches that are moved, looked up or rolled over: each against one that keeps everything and copies whole rows.

Beams change places step by step, as a search lets them; and the order of a sentence's beams makes no difference, nor
where in its slots a window begins. For every implementation, kernels in the emulator.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import minidecode as md
from minidecode.bench.compare import implementations
from minidecode.catalog import CATALOG
from minidecode.conformance.rows import indirect as indirect_row
from minidecode.conformance.rows import reorder as reorder_row
from minidecode.conformance.rows import rolling as rolling_row
from minidecode.cuda import indirect as indirect_kernels
from minidecode.cuda import reorder as reorder_kernels
from minidecode.cuda import rolling as rolling_kernels
from minidecode.device.launch import InEmulator
from minidecode.reference.append import write_positions
from minidecode.reference.grouped import attend
from minidecode.reference.indirect import attend_indirect
from minidecode.reference.indirection import update_indirection
from minidecode.reference.reorder import reorder_cache
from minidecode.reference.rolling import attend_rolling
from minidecode.reference.split import attend_split

seeds = st.integers(0, 2**32 - 1)
METAMORPHIC = settings(max_examples=15)


def emulated(function, label):
    return InEmulator(function) if label.startswith("cuda") else function


def every(name):
    """All implementations of a row of the catalog."""
    return [pytest.param(emulated(f, label), id=label) for label, f in implementations(CATALOG[name]).items()]


def histories(seed, B, W, steps):
    """(rng, rows, parents of each step): the beams of a sentence change places at random."""
    rng, R = np.random.default_rng(seed), B * W
    first_row_R = np.repeat(np.arange(B), W) * W
    return rng, R, [first_row_R + rng.integers(0, W, R) for _ in range(steps)]


@settings(max_examples=40)
@given(seeds, st.integers(1, 3), st.integers(1, 4), st.integers(1, 9), st.integers(1, 4))
def test_a_table_that_follows_is_as_good_as_a_memory_that_does(seed, B, W, steps, N):
    """The same bits: what is gathered through the table is what `reorder_cache` would have moved there."""
    rng, R, parents = histories(seed, B, W, steps)
    prompt = rng.standard_normal((B, 2, N, 3)), rng.standard_normal((B, 2, N, 5)), rng.integers(0, N + 1, B)
    moved = [np.full((R, 2, steps, X), 1e4) for X in (3, 5)]
    kept, source = [m.copy() for m in moved], np.tile(np.arange(R)[:, None], steps)
    begin = np.zeros(R, np.int64)
    for step, parent in enumerate(parents):
        at = np.full(R, step)
        update_indirection(source, parent, at)
        for ours, theirs in zip(kept, moved, strict=True):
            reorder_cache(theirs, parent, at)
            new = rng.standard_normal((R, 2, theirs.shape[3]))
            write_positions(theirs, new, at)
            write_positions(ours, new, at)
        q = rng.standard_normal((R, 4, 3))
        looked_up = attend_indirect(q, *prompt, *kept, source, begin, at + 1, 0.6)
        assert (looked_up == attend_split(q, *prompt, *moved, begin, at + 1, 0.6)).all()
        assert (source // W == np.arange(R)[:, None] // W).all(), "a row looks into another sentence"


@settings(max_examples=40)
@given(seeds, st.integers(1, 2), st.integers(1, 3), st.integers(1, 12), st.integers(1, 5), st.integers(0, 3))
def test_slots_that_are_used_again_are_as_good_as_a_memory_that_keeps_all(seed, B, W, steps, window, padding):
    rng, R, parents = histories(seed, B, W, steps)
    begin = rng.integers(0, padding + 1, R)
    whole = [np.full((R, 1, padding + steps, X), 1e4) for X in (3, 2)]
    slots = [np.full((R, 1, window, X), 1e4) for X in (3, 2)]
    for step, parent in enumerate(parents):
        end = np.full(R, padding + step)
        begin = begin[parent]
        for all_of_it, rolled in zip(whole, slots, strict=True):
            reorder_cache(all_of_it, parent, end)
            reorder_cache(rolled, parent, np.minimum(end, window))
            new = rng.standard_normal((R, 1, all_of_it.shape[3]))
            write_positions(all_of_it, new, end)
            write_positions(rolled, new, end % window)
        q, first = rng.standard_normal((R, 2, 3)), np.maximum(begin, padding)
        expected = attend(q, *whole, np.maximum(first, end + 1 - window), end + 1, 0.6)
        np.testing.assert_allclose(attend_rolling(q, *slots, first, end + 1, 0.6), expected, rtol=1e-12, atol=1e-14)


# What must make no difference. Each row's answer lies within its bound, so two of one row within twice that.


def within(result, expected, bound):
    return (np.abs(result - expected) <= 2 * bound).all()


@pytest.mark.parametrize("attend_it", every("indirect"))
@METAMORPHIC
@given(seed=st.integers(0, 99), B=st.integers(1, 2), W=st.integers(2, 4))
def test_the_order_of_the_beams_changes_their_answers_order_alone(attend_it, seed, B, W):
    arguments = indirect_row.make_arguments(B, W, 3, 5, K=3, seed=seed)
    q, prompt_k, prompt_v, prompt_begin, k, v, source, begin, end, scale = arguments
    rng = np.random.default_rng(seed)
    order = np.concatenate([b * W + rng.permutation(W) for b in range(B)])
    new_place = np.argsort(order)
    result = attend_it(*arguments)
    moved = attend_it(
        q[order], prompt_k, prompt_v, prompt_begin, k[order], v[order], new_place[source[order]], begin, end, scale
    )
    assert within(moved, result[order], indirect_row.error_bound(*arguments)[order])


@pytest.mark.parametrize("attend_it", every("rolling"))
@METAMORPHIC
@given(seed=st.integers(0, 99), rounds=st.integers(1, 5))
def test_where_in_its_slots_a_window_begins_changes_nothing(attend_it, seed, rounds):
    """The same positions some rounds later lie in the same slots; one position later, each in the next slot."""
    M = 5
    arguments = rolling_row.make_arguments([0, 4], [7, 6], M, K=3, seed=seed)
    q, k, v, begin, end, scale = arguments
    result, bound = attend_it(*arguments), rolling_row.error_bound(*arguments)
    assert within(attend_it(q, k, v, begin + M * rounds, end + M * rounds, scale), result, bound)
    k, v = (np.roll(a, rounds, axis=2) for a in (k, v))
    assert within(attend_it(q, k, v, begin + rounds, end + rounds, scale), result, bound)


@pytest.mark.parametrize("follow_it", every("reorder"))
@METAMORPHIC
@given(seed=st.integers(0, 99), R=st.integers(1, 5))
def test_following_twice_is_following_once_by_the_grandparents(follow_it, seed, R):
    rng = np.random.default_rng(seed)
    first, second = rng.integers(0, R, R), rng.integers(0, R, R)
    k, _, length = reorder_row.make_arguments([0] * R, 2, 3, 2, 2)
    once = follow_it(k.copy(), first[second], length)
    assert (follow_it(follow_it(k.copy(), first, length), second, length) == once).all()


# Other types than float32.


@pytest.mark.parametrize("follow_it", every("reorder"))
@pytest.mark.parametrize("dtype", [np.float16, np.float64, np.int64])
@pytest.mark.parametrize("X", [1, 3, 4])
def test_numbers_of_any_type_move(follow_it, dtype, X):
    """An odd number of halves too, which fill no whole words of 32 bits."""
    k, parent, length = reorder_row.make_arguments([1, 2, 0, 3, 3], 2, 3, 2, X)
    k = (k * 3).astype(dtype)
    expected = reorder_row.oracle(k, parent, length)
    assert follow_it(k, parent, length) is k and k.dtype == dtype and (k == expected).all()


@pytest.mark.parametrize("name", ["indirect", "rolling"])
def test_kernels_read_halves_and_compute_in_float32(name):
    """The answers to the rounded keys and values, within the bound of float32."""
    row = {"indirect": indirect_row, "rolling": rolling_row}[name]
    for label, function in implementations(CATALOG[name]).items():
        if label.startswith("cuda"):
            for arguments in row.planted_cases()[:5]:
                arguments = tuple(a.astype(np.float16) if np.ndim(a) == 4 else a for a in arguments)
                result = InEmulator(function)(*arguments)
                assert result.dtype == np.float32
                assert (np.abs(result - row.oracle(*arguments)) <= row.error_bound(*arguments)).all()


@pytest.mark.parametrize(
    ("kernels", "op", "row"),
    [(indirect_kernels, "attend_indirect", indirect_row), (rolling_kernels, "attend_rolling", rolling_row)],
)
def test_kernels_refuse_double_precision(kernels, op, row):
    arguments = tuple(a.astype(np.float64) if np.ndim(a) > 2 else a for a in row.planted_cases()[0])
    for version in (op, f"{op}_v1"):
        with pytest.raises(md.OptionError, match="not float64"):
            getattr(kernels, version)(*arguments)


def test_kernels_refuse_to_move_a_part_of_an_array():
    """They would move a copy of it, and change nothing."""
    k, parent, length = reorder_row.planted_cases()[7]
    for version in (reorder_kernels.reorder_cache_v1, reorder_kernels.reorder_cache_v2, reorder_kernels.reorder_cache):
        with pytest.raises(md.OptionError, match="lies in one piece"):
            version(k[:, :2], parent, length)


@pytest.mark.parametrize("skipped", [0, 2])
def test_128_bits_are_moved_where_they_lie_so(monkeypatch, skipped):
    """A GPU faults where an address is no multiple of 16, the emulator does not. `out` decides, not what is read."""
    launch, launched = reorder_kernels.launch, []
    monkeypatch.setattr(reorder_kernels, "launch", lambda *given: launched.append(given[0]) or launch(*given))
    k_RGMX = np.arange(3 * 5 * 4, dtype=np.float32).reshape(3, 1, 5, 4)
    memory = np.zeros(k_RGMX.size + 6, np.float32)
    first = -memory.ctypes.data % 16 // 4 + skipped
    out = memory[first : first + k_RGMX.size].reshape(k_RGMX.shape)
    reorder_kernels.reorder_cache(k_RGMX, np.array([2, 0, 1]), np.full(3, 4), out)
    wide, narrow = reorder_kernels.move_in_registers, reorder_kernels.move_in_place
    assert launched == [narrow if skipped else wide]
    assert np.array_equal(out[:, :, :4], k_RGMX[[2, 0, 1], :, :4]) and np.array_equal(out[:, :, 4], k_RGMX[:, :, 4])
