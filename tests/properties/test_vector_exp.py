"""exp on vectors, and the softmax that is made of it, against float64."""

import numpy as np
import pytest
from numba import njit

from minidecode.cpu.common.softmax import softmax_in_place
from minidecode.cpu.common.vector_exp import LEAST, exp

EPS = float(np.finfo(np.float32).eps)


@njit
def of_all(x_X, y_X):
    for i in range(len(x_X)):
        y_X[i] = exp(x_X[i])


def exps(x_X):
    y_X = np.empty_like(x_X)
    of_all(x_X, y_X)
    return y_X


def test_every_number_of_its_range_is_within_rounding():
    """f = x - k ln 2 is off by the roundings of two differences and of ln 2, of which exp makes a relative error."""
    x_X = np.linspace(-87, 87, 1_000_001).astype(np.float32)
    right_X = np.exp(x_X.astype(np.float64))
    assert (np.abs(exps(x_X) - right_X) <= (4 + np.abs(x_X) / 32) * EPS / 2 * right_X).all()


def test_what_is_below_and_what_is_none():
    assert not exps(np.array([-1e30, -np.inf, -88, np.nextafter(LEAST, -np.inf)], np.float32)).any()
    assert np.isnan(exps(np.array([np.nan], np.float32))).all() and exps(np.zeros(1, np.float32)) == 1


@pytest.mark.parametrize("M", [1, 2, 15, 16, 17, 255, 100_000])
def test_weights_sum_to_one_and_are_right(M):
    scores_M = np.random.default_rng(M).normal(0, 8, M).astype(np.float32)
    right_M = np.exp(scores_M.astype(np.float64) - scores_M.max())
    right_M /= right_M.sum()
    lowest = scores_M.min() - scores_M.max()
    softmax_in_place(scores_M)
    # Roundings: of score - largest, in exp, of each addition (on vectors of at least four numbers), of the division.
    roundings = -lowest + (4 - lowest / 32) + M / 4 + 1
    np.testing.assert_allclose(scores_M, right_M, rtol=float(roundings * EPS / 2), atol=2e-38)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("place", [0, 3, 16, 39])
def test_a_score_that_is_none_leaves_no_weight(bad, place):
    scores_M = np.zeros(40, np.float32)
    scores_M[place] = bad
    softmax_in_place(scores_M)
    assert np.isnan(scores_M).all()


def test_minus_infinity_has_no_weight_beside_others():
    scores_M = np.array([-np.inf, 0, -np.inf, 0], np.float32)
    softmax_in_place(scores_M)
    np.testing.assert_allclose(scores_M, [0, 0.5, 0, 0.5], atol=2e-38)
    only_M = np.full(3, -np.inf, np.float32)
    softmax_in_place(only_M)
    assert np.isnan(only_M).all()


def test_scores_that_are_all_far_below_zero():
    """The largest counts, wherever it lies: exp of each of them is 0."""
    scores_M = np.array([-200, -201], np.float32)
    softmax_in_place(scores_M)
    np.testing.assert_allclose(scores_M, [1 / (1 + np.exp(-1)), 1 / (1 + np.e)], rtol=8 * EPS)


def test_float64_stays_float64():
    scores_M = np.linspace(-3, 5, 50)
    right_M = np.exp(scores_M - 5) / np.exp(scores_M - 5).sum()
    softmax_in_place(scores_M)
    np.testing.assert_allclose(scores_M, right_M, rtol=1e-14)
