"""Mistakes that only size shows are found within a budget of time, and what is left out is told."""

import time

import pytest
from numba import cuda, int16

from minidecode import conformance
from minidecode.catalog import CATALOG
from minidecode.conformance import sizes
from minidecode.conformance.check import mutant_files
from minidecode.conformance.large import cost, rows_of, wrong_by_limits
from minidecode.conformance.rows import asked_of
from minidecode.cuda import finished, sequences
from minidecode.reference import beam_scores
from minidecode.runtime.launch import InEmulator, launch
from minidecode.runtime.user_functions import load_file

BY_SIZE = {  # and one of `norm`, a kernel, which takes longer: with the other mutants, for one seed
    "candidates": "columns_in_sixteen_bits",
    "beam_update": "tokens_in_sixteen_bits",
    "ngram": "newest_window_of_a_new_block_lost",
}


@pytest.mark.parametrize("row", CATALOG.values(), ids=lambda row: row.name)
def test_every_row_has_large_inputs(row):
    """More of something than a block has threads, and arguments as the op has them."""
    cases = asked_of(row.name).large()
    assert cases and len({len(case) for case in cases}) == 1
    assert max(cost(row, case) for case in cases) >= sizes.ROWS


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize(("name", "stem"), BY_SIZE.items())
def test_a_mistake_that_only_size_shows_is_found_whatever_the_seed(name, stem, seed):
    (path,) = [p for p in mutant_files(name) if p.stem == stem]
    verdict = conformance.check(name, getattr(load_file(path), CATALOG[name].op), examples=5, seed=seed)
    assert not verdict.ok and stem.replace("_", " ") in verdict.failure.mistake


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
    assert len(nothing.left_out) == len(asked_of("beam_scores").large()) and nothing.inputs < verdict.inputs


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
    (many,) = [case for case in asked_of("beam_scores").large() if rows_of(row, case) == sizes.MANY_ROWS]
    right = InEmulator(added_by(add_a_row, lambda R, V: R, 32))
    assert wrong_by_limits(row, right, many) is None
    assert "grid's y is at most 65,535" in wrong_by_limits(
        row, InEmulator(added_by(add_a_row, lambda R, V: (1, R), 32)), many
    )
    narrow = InEmulator(added_by(add_a_row_in_sixteen_bits, lambda R, V: R, 32))
    assert "an index is int16, which counts to 32,767" in wrong_by_limits(row, narrow, many)
    verdict = conformance.check("beam_scores", right, examples=3, large_seconds=0.3)
    assert verdict.ok and "launch limits and index types fit" in str(verdict)
    assert not conformance.check("beam_scores", narrow, examples=3, large_seconds=0.1).ok


@pytest.mark.parametrize(("name", "kernel"), [
    ("sequences", sequences.update_sequences), ("finished", finished.store_finished),
])  # fmt: skip
def test_many_sentences_are_within_a_grids_limits(name, kernel):
    row = CATALOG[name]
    (many,) = [case for case in asked_of(name).large() if rows_of(row, case) == sizes.MANY_ROWS]
    assert wrong_by_limits(row, InEmulator(kernel), many) is None
