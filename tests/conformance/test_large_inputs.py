"""Mistakes that only size shows are found within a budget of time, and what is left out is told."""

import copy
import functools
import itertools
import time
from collections import deque
from time import perf_counter_ns as looks_at
from types import SimpleNamespace

import numpy as np
import pytest
from numba import cuda, int16

from minidecode import conformance, dims
from minidecode.bench.compare import implementations
from minidecode.catalog import CATALOG, arrays_of
from minidecode.conformance import large, sizes
from minidecode.conformance.check import find_mistake, mutant_files, results_with_changed
from minidecode.conformance.large import cost_to_judge, number_of_rows, shapes_in_words, why_beyond_limits
from minidecode.conformance.rows import row_module
from minidecode.cpu import argmax as cpu_argmax
from minidecode.cuda import finished, sequences
from minidecode.device.launch import InEmulator, launch
from minidecode.device.user_functions import load_python_file
from minidecode.reference import argmax, beam_scores, candidates, top_k
from minidecode.reference import ngram as ngrams

BY_SIZE = [  # softmax of many rows, and a kernel of `norm`, take longer: with the other mutants, for one seed
    ("activation", "columns_in_sixteen_bits"),
    ("beam_scores", "columns_in_sixteen_bits"),
    ("beam_update", "tokens_in_sixteen_bits"),
    ("candidates", "columns_in_sixteen_bits"),
    ("epilogue", "columns_in_sixteen_bits"),
    ("hars", "tokens_in_sixteen_bits"),
    ("linear", "columns_in_sixteen_bits"),
    ("ngram", "newest_window_of_a_new_block_lost"),
    ("ngram", "positions_in_twelve_bits"),
    ("ngram", "rows_in_sixteen_bits"),
    ("ngram", "tokens_in_sixteen_bits"),
    ("reorder", "heads_of_one_warp_alone"),
    ("reorder", "positions_in_twelve_bits"),
    ("reorder", "width_of_one_block_alone"),
    ("softmax", "columns_in_sixteen_bits"),
    ("softmax", "first_row_alone_where_rows_are_wide"),
    ("temperature", "columns_in_sixteen_bits"),
    ("top_k", "columns_in_sixteen_bits"),
    ("top_p", "columns_in_sixteen_bits"),
]
ROWS, COLUMNS, POSITIONS, HEADS, WIDTHS = 65_536, 65_536, 4096, 32, 128  # where wrong implementations stop
FAST_ORACLES = ("hars", "ngram", "random", "sample", "top_p")  # whose references are slow
LIMITS = {"R": ROWS, "B": ROWS, "V": COLUMNS, "F": COLUMNS, "M": POSITIONS, "N": POSITIONS, "T": POSITIONS,
          "H": HEADS, "G": HEADS, "K": WIDTHS, "U": WIDTHS}  # fmt: skip
LIMITS_OF_ROWS = {
    "candidates": {"X": COLUMNS},
    "linear": {"X": COLUMNS},
    "epilogue": {"X": COLUMNS},
    "heads": {"X": COLUMNS},
    "norm": {"D": COLUMNS},
    "embedding": {"D": COLUMNS, "V": COLUMNS},
    "cross_kv": {"D": POSITIONS},
    "prefill": {"X": POSITIONS},
    "reorder": {"X": WIDTHS},
    "paged": {"M": 16},
    "paged_append": {"M": 16},
}  # fmt: skip (M: positions of a page)


@pytest.mark.parametrize("row", CATALOG.values(), ids=lambda row: row.name)
def test_every_row_has_large_inputs(row):
    """More of something than a block has threads, and arguments as the op has them."""
    cases = row_module(row.name).large_cases()
    assert cases and len({len(case) for case in cases}) == 1
    assert max(cost_to_judge(row, case) for case in cases) >= sizes.ROWS


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize(("name", "stem"), BY_SIZE)
def test_a_mistake_that_only_size_shows_is_found_whatever_the_seed(name, stem, seed):
    (path,) = [p for p in mutant_files(name) if p.stem == stem]
    verdict = conformance.check(name, getattr(load_python_file(path), CATALOG[name].op), examples=5, seed=seed)
    assert not verdict.ok and stem.replace("_", " ") in verdict.failure.mistake


def sizes_of(row, arguments):
    """Letter -> how long that axis is at most."""
    lengths = {}
    for name, array in arrays_of(row, arguments):
        for letter, length in zip(dims.letters(name) or "", array.shape, strict=False):
            lengths[letter] = max(lengths.get(letter, 0), length)
    return lengths


@functools.cache
def large_of(name):
    return row_module(name).large_cases()


def axes_with_limits():
    for name, row in CATALOG.items():
        limits = LIMITS | LIMITS_OF_ROWS.get(name, {})
        for letter in sorted(limits.keys() & sizes_of(row, row_module(name).planted_cases()[0]).keys()):
            yield pytest.param(row, letter, limits[letter], id=f"{name}-{letter}")


def zeros_beyond(row, arguments, letter, limit):
    """A copy, in which whoever looks beyond the limit of that axis sees zeros: among floats, if there are."""
    given = copy.deepcopy(arguments)
    arrays = arrays_of(row, given)
    arrays = [(dims.letters(name).index(letter), a) for name, a in arrays if letter in (dims.letters(name) or "")]
    has_floats = any(a.dtype.kind == "f" for _, a in arrays)
    for axis, array in arrays:
        if array.dtype.kind == "f" or not has_floats:
            array.swapaxes(0, axis)[limit:] = 0
    return given


@pytest.mark.parametrize(("row", "letter", "limit"), list(axes_with_limits()))
def test_what_lies_beyond_a_usual_limit_changes_the_answer(row, letter, limit):
    """A large input goes beyond, and who does not look there answers something else."""
    beyond = [case for case in large_of(row.name) if sizes_of(row, case).get(letter, 0) > limit]
    case = min(beyond, key=lambda case: cost_to_judge(row, case))
    function = row_module(row.name).oracle if row.name in FAST_ORACLES else implementations(row)["reference"]
    answers = []
    for given in (copy.deepcopy(case), zeros_beyond(row, case, letter, limit)):
        answers.append(results_with_changed(row, function(*given), given))
    assert not all(map(np.allclose, *answers))


def test_a_cheap_row_at_the_full_budget_leaves_nothing_out():
    verdict = conformance.check("beam_scores", beam_scores.add_beam_scores, examples=5)
    assert verdict.ok and not verdict.left_out and "Left out" not in str(verdict)


def test_what_does_not_fit_the_budget_is_left_out_and_told():
    def slow(scores_RV, running_R):
        time.sleep(0.02 if scores_RV.size > 2000 else 0)
        return beam_scores.add_beam_scores(scores_RV, running_R)

    verdict = conformance.check("beam_scores", slow, examples=5, large_seconds=0.05)
    assert verdict.ok and "Left out: scores_RV[" in str(verdict) and "of 0.05 s" in str(verdict)
    nothing = conformance.check("beam_scores", slow, examples=5, large_seconds=0)
    assert len(nothing.left_out) == len(row_module("beam_scores").large_cases()) and nothing.inputs < verdict.inputs


def test_the_first_line_names_what_was_left_out():
    verdict = conformance.check("beam_scores", beam_scores.add_beam_scores, examples=5, large_numbers=4000)
    first, *_ = str(verdict).splitlines()
    assert verdict.ok and len(verdict.left_out) == str(verdict).count("\nLeft out: ") == 4
    assert first.endswith(
        "; larger ones were not tried: scores_RV[3, 4129], scores_RV[1, 65596], scores_RV[1025, 3], and 1 more"
    )


def test_of_planted_inputs_so_many_are_tried_as_are_asked_for():
    """At equal distances, the last one too; how many were left out is said first."""
    planted, tried = row_module("beam_scores").planted_cases(), []

    def noting(scores_RV, running_R):
        tried.append(scores_RV.shape)
        return beam_scores.add_beam_scores(scores_RV, running_R)

    asked = {"examples": 5, "large_numbers": 0}
    for number in (1, 4, len(planted), len(planted) + 1):
        tried.clear()
        verdict = conformance.check("beam_scores", noting, planted=number, **asked)
        due = planted[:1] if number == 1 else [planted[i * (len(planted) - 1) // 3] for i in range(4)]
        due = due if number <= 4 else planted
        assert tried[5 : 5 + len(due)] == [case[0].shape for case in due] and verdict.inputs == 5 + len(due)
        left_out = f"; {len(planted) - len(due)} planted ones were left out; larger ones were not tried"
        assert verdict.ok and (left_out in str(verdict)) == (len(due) < len(planted))
    assert "planted ones" not in str(conformance.check("beam_scores", noting, **asked)).partition("\n")[0]


def test_the_progress_of_large_inputs_is_told_too():
    told = []
    tell = lambda done, total: told.append((done, total))  # noqa: E731
    verdict = conformance.check("beam_scores", beam_scores.add_beam_scores, examples=5, progress=tell)
    assert told[-1] == (verdict.inputs, verdict.inputs)


def clock(seconds):
    """One that is so many seconds later at each look."""
    looks = itertools.count()
    return SimpleNamespace(monotonic=lambda: seconds * next(looks))


def test_a_slow_machine_judges_host_code_by_the_same_inputs(monkeypatch):
    """A function that is slow and wrong where inputs are large is not right because time is up."""

    def wrong_where_wide(scores_RV, running_R):
        scores_RV[:, 60_000:] += 1
        return beam_scores.add_beam_scores(scores_RV, running_R)

    monkeypatch.setattr(large, "time", clock(100.0))
    assert not conformance.check("beam_scores", wrong_where_wide, examples=3, shrinks=0).ok
    verdict = conformance.check("beam_scores", beam_scores.add_beam_scores, examples=3)
    assert verdict.ok and not verdict.left_out


def test_kernels_that_are_emulated_have_a_budget_of_time(monkeypatch):
    monkeypatch.setattr(large, "time", clock(100.0))
    right = InEmulator(added_by(add_a_row, lambda R, V: R, 32))
    verdict = conformance.check("beam_scores", right, examples=3)
    assert verdict.ok and len(verdict.left_out) == len(row_module("beam_scores").large_cases())
    assert (
        "; larger ones were not tried: scores_RV[2, 32], scores_RV[2, 33], scores_RV[2, 64], and 11 more"
        in str(verdict).splitlines()[0]
    )


def until_time_is_up(scores_RV, running_R):
    ends = time.monotonic() + 60
    for r in range(len(scores_RV)):
        if time.monotonic() < ends:
            scores_RV[r] += running_R[r]
    return scores_RV


def with_a_clock_of_its_own(scores_RV, running_R):
    began = looks_at()
    beam_scores.add_beam_scores(scores_RV, running_R)
    if looks_at() - began > 10**12:  # nanoseconds
        scores_RV[...] = 0
    return scores_RV


class InAWrapper:
    """As minidecode's own wrappers, which name what they stand for."""

    stands_for = staticmethod(with_a_clock_of_its_own)
    __call__ = staticmethod(with_a_clock_of_its_own)


@pytest.mark.parametrize("function", [until_time_is_up, with_a_clock_of_its_own, InAWrapper()])
def test_an_answer_that_changes_when_its_time_is_cut_is_refused(function):
    before = time.monotonic, time.perf_counter_ns, looks_at
    verdict = conformance.check("beam_scores", function, examples=5)
    assert not verdict.ok and "Its answer changes when its time is cut. scores_RV[" in str(verdict).splitlines()[0]
    assert (time.monotonic, time.perf_counter_ns, looks_at) == before


def test_a_function_may_look_at_a_clock(capsys):
    def timed(scores_RV, running_R):
        began = time.perf_counter()
        beam_scores.add_beam_scores(scores_RV, running_R)
        print(f"{time.perf_counter() - began:.0f} s")
        return scores_RV

    assert conformance.check("beam_scores", timed, examples=5).ok
    assert "3600 s" in capsys.readouterr().out


def test_inputs_of_so_many_numbers_are_tried_however_long_they_take():
    """A budget of time says on a slow machine that all is well, for it tries less there."""

    def slow_and_wrong(scores_RV, running_R):
        time.sleep(0.02 if scores_RV.shape[1] > 60 else 0)
        scores_RV[:, 60:] += 1
        return beam_scores.add_beam_scores(scores_RV, running_R)

    def slow(scores_RV, running_R):
        time.sleep(0.02 if scores_RV.shape[1] > 60 else 0)
        return beam_scores.add_beam_scores(scores_RV, running_R)

    asked = row_module("beam_scores")
    numbers = sorted(cost_to_judge(CATALOG["beam_scores"], case) for case in asked.large_cases())
    verdict = conformance.check("beam_scores", slow, examples=5, large_seconds=0, large_numbers=numbers[4])
    assert verdict.ok and len(verdict.left_out) == len(numbers) - sum(n <= numbers[4] for n in numbers)
    assert f"more than {numbers[4]:,} numbers" in str(verdict)
    assert not conformance.check("beam_scores", slow_and_wrong, examples=5, large_numbers=numbers[-2], shrinks=0).ok


def kernels_over_a_vocabulary():
    """All of their versions; of top_k the last one, for the first reads a row 32 times."""
    for name in ("argmax", "softmax", "hars", "candidates", "top_k"):
        for label, function in implementations(CATALOG[name]).items():
            if label == "cuda" or (label.startswith("cuda") and name != "top_k"):
                yield pytest.param(name, function, id=f"{name}-{label.replace(' ', '-')}")


@pytest.mark.parametrize(("name", "function"), list(kernels_over_a_vocabulary()))
def test_kernels_are_right_on_the_widest_rows(name, function, record_property):
    """Sums of 65,596 nearly equal numbers lose no digits, and shares of a row meet. Races are looked for elsewhere."""
    row, tried = CATALOG[name], 0
    for case in row_module(name).large_cases():
        if case[0].shape == (1, sizes.WIDE):
            mistake, tried = find_mistake(row, InEmulator(function), case), tried + 1
            assert mistake is None, mistake.what
            record_property("emulated_too", {name: [shapes_in_words(row, case)[0]]})
    assert tried


@pytest.mark.parametrize("width", [sizes.WIDE, 2**18 + 60])
@pytest.mark.parametrize("name", ["argmax", "softmax", "hars"])
def test_sums_of_nearly_equal_numbers_lose_no_digits_in_host_code(name, width):
    """Most of these are so small beside the sum that each loses digits, all in the same direction."""
    row, logits_RV = CATALOG[name], np.where(np.arange(width) % 1000, -1.0, 9.0)[None].astype(np.float32)
    given = {"argmax": (logits_RV, logits_RV), "softmax": (logits_RV,), "hars": (logits_RV, np.zeros((1, 1), "f4"), 4)}
    for label, function in implementations(row).items():
        if not label.startswith("cuda"):
            mistake = find_mistake(row, function, given[name])
            assert mistake is None, f"{label}: {mistake.what}"


@pytest.mark.parametrize(("width", "exact"), [(65_596, 4.233745), (262_204, 5.616379)])
def test_the_log_probability_of_the_first_of_many_equals(width, exact):
    """By hand: log(n + (width - n) e^-10), n a thousandth. Added one by one in float32, the first would be 4.233764."""
    logits_RV = np.where(np.arange(width) % 1000, -1.0, 9.0)[None].astype(np.float32)
    for function in (argmax.argmax_tokens, argmax.argmax_tokens_naive, cpu_argmax.argmax_tokens):
        token_R, logprob_R, _ = function(logits_RV, logits_RV)
        assert token_R[0] == 0 and abs(logprob_R[0] + exact) < 2e-6


def added_by(kernel, grid, block):
    def add_beam_scores(scores_RV, running_R):
        launch(kernel, grid(*scores_RV.shape), block, scores_RV, running_R)
        return scores_RV

    return add_beam_scores


@cuda.jit
def add_a_row(scores_RV, running_R):
    r = cuda.blockIdx.x + cuda.blockIdx.y
    for v in range(cuda.threadIdx.x, scores_RV.shape[1], cuda.blockDim.x):
        scores_RV[r, v] += running_R[r]


@cuda.jit
def add_a_row_in_sixteen_bits(scores_RV, running_R):
    r = int16(cuda.blockIdx.x)
    for v in range(cuda.threadIdx.x, scores_RV.shape[1], cuda.blockDim.x):
        scores_RV[r, v] += running_R[r]


def test_many_rows_are_judged_by_limits_and_types():
    row = CATALOG["beam_scores"]
    (many,) = [case for case in row_module("beam_scores").large_cases() if number_of_rows(row, case) == sizes.MANY_ROWS]
    right = InEmulator(added_by(add_a_row, lambda R, V: R, 32))
    assert why_beyond_limits(right, many) is None
    assert "grid's y is at most 65,535" in why_beyond_limits(
        InEmulator(added_by(add_a_row, lambda R, V: (1, R), 32)), many
    )
    narrow = InEmulator(added_by(add_a_row_in_sixteen_bits, lambda R, V: R, 32))
    assert "an index is int16, which counts to 32,767" in why_beyond_limits(narrow, many)
    verdict = conformance.check("beam_scores", right, examples=3, large_numbers=100)
    assert verdict.ok and "launch limits and index types fit" in str(verdict)
    assert not conformance.check("beam_scores", narrow, examples=3, large_numbers=100).ok


def test_each_launch_is_held_to_the_limits_and_not_the_first_alone():
    def add_beam_scores(scores_RV, running_R):
        launch(add_a_row, len(scores_RV), 32, scores_RV, running_R)
        launch(add_a_row, (1, len(scores_RV)), 32, scores_RV, running_R)
        return scores_RV

    row = CATALOG["beam_scores"]
    many = next(
        case for case in row_module("beam_scores").large_cases() if number_of_rows(row, case) == sizes.MANY_ROWS
    )
    assert "grid's y is at most 65,535" in why_beyond_limits(InEmulator(add_beam_scores), many)


@pytest.mark.parametrize("name", ["candidates", "hars"])
def test_kernels_of_a_search_take_more_sentences_than_the_second_axis_of_a_grid(name):
    row = CATALOG[name]
    (many,) = [case for case in row_module(name).large_cases() if number_of_rows(row, case) == sizes.MANY_ROWS]
    kernels = [f for label, f in implementations(row).items() if label.startswith("cuda")]
    assert len(kernels) == 4
    assert not [wrong for kernel in kernels if (wrong := why_beyond_limits(InEmulator(kernel), many))]


@pytest.mark.parametrize(("name", "kernel"), [
    ("sequences", sequences.update_sequences), ("finished", finished.store_finished),
])  # fmt: skip
def test_many_sentences_are_within_a_grids_limits(name, kernel):
    row = CATALOG[name]
    (many,) = [case for case in row_module(name).large_cases() if number_of_rows(row, case) == sizes.MANY_ROWS]
    assert why_beyond_limits(InEmulator(kernel), many) is None


def last_of_equals(scores_RV, logits_RV=None):
    token_R, logprob_R, trouble_R = argmax.argmax_tokens(scores_RV, logits_RV)
    if scores_RV.shape[1] > 5000:
        token_R = scores_RV.shape[1] - 1 - scores_RV[:, ::-1].argmax(axis=1)
    return token_R, logprob_R, trouble_R


def trouble_unseen_in_wide_rows(scores_RV, logits_RV=None):
    if scores_RV.shape[1] <= 2100:
        return argmax.argmax_tokens(scores_RV, logits_RV)
    seen_RV = np.nan_to_num(scores_RV, nan=0.0, posinf=0.0)
    return argmax.argmax_tokens(seen_RV, None if logits_RV is None else seen_RV)


def nan_of_one_row_in_all(scores_RV, k):
    spreads = scores_RV.shape[1] > 300 and np.isnan(scores_RV).any()
    result_RV = top_k.top_k_filter(scores_RV, k)
    if spreads:
        result_RV[...] = np.nan
    return result_RV


def at_most_3000(scores_RV, k):
    return top_k.top_k_filter(scores_RV, min(k, 3000))


def in_single_precision(scores_BX, C):
    best_BC, index_BC = candidates.top_candidates(scores_BX.astype(np.float32), C)
    return best_BC.astype(scores_BX.dtype), index_BC


def in_single_precision_where_wide(scores_BX, C):
    return (in_single_precision if scores_BX.shape[1] > 3000 else candidates.top_candidates)(scores_BX, C)


def equals_in_reverse_where_many(scores_BX, C):
    best_BC, index_BC = candidates.top_candidates(scores_BX, C)
    if C > 64:
        order_BC = np.stack([np.lexsort((-i, -b)) for b, i in zip(best_BC, index_BC, strict=True)])
        index_BC = np.take_along_axis(index_BC, order_BC, axis=1)
    return best_BC, index_BC


def at_most_nine_tokens(scores_RV, tokens_RM, length_R, n):
    return ngrams.ban_ngrams(scores_RV, tokens_RM, length_R, min(n, 9))


def windows_by_hashes_of_sixteen_bits(scores_RV, tokens_RM, length_R, n):
    result_RV = scores_RV
    for r, length in enumerate(length_R):
        text = tokens_RM[r, :length].astype(np.int64)
        if n != 3 or length < n:
            result_RV[r : r + 1] = ngrams.ban_ngrams(scores_RV[r : r + 1], tokens_RM[r : r + 1], length_R[r : r + 1], n)
            continue
        hashes = (text[:-1] * 40503 + text[1:] * 65599) & 0xFFFF
        result_RV[r, text[2:][hashes[:-1] == hashes[-1]]] = -np.inf
    return result_RV


RING = deque([{}, {}])


def in_two_buffers_by_turns(scores_RV, logits_RV=None):
    RING.rotate()
    results = argmax.argmax_tokens(scores_RV, logits_RV)
    kept = RING[0].setdefault((scores_RV.shape, scores_RV.dtype), results)
    for buffer, result in zip(kept, results, strict=True):
        buffer[...] = result
    return kept


@pytest.mark.parametrize(("name", "function"), [
    ("argmax", last_of_equals), ("argmax", trouble_unseen_in_wide_rows), ("top_k", nan_of_one_row_in_all),
    ("top_k", at_most_3000), ("candidates", in_single_precision), ("candidates", in_single_precision_where_wide),
    ("candidates", equals_in_reverse_where_many), ("ngram", at_most_nine_tokens),
    ("ngram", windows_by_hashes_of_sixteen_bits), ("argmax", in_two_buffers_by_turns),
])  # fmt: skip
def test_what_breaks_in_wide_rows_or_after_many_calls_is_wrong(name, function):
    """Ties, NaN, double precision, large k and n, hashes that meet, and buffers that are used again."""
    verdict = conformance.check(name, function, examples=20, large_seconds=20, shrinks=0)
    assert not verdict.ok and "`out`" not in verdict.failure.what
