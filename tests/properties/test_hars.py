"""How many scores HARS retrieves, and how often the paper's two weak points lose a candidate: measured, and by the law.

Scores in random order are drawn without replacement from groups of one size, best first, until each group has been
drawn: that one is the least of the groups' maxima, the threshold. So the number that reach it is the coupon
collector's.
"""

import math
from fractions import Fraction

import numpy as np
import pytest

from minidecode.reference.candidates import LANES, group_maxima, kth_largest


def chance_that_all_are_drawn(draws: int, groups: int, size: int) -> Fraction:
    """That so many draws hit every one of `groups` groups of `size` scores: by inclusion and exclusion."""
    ways = sum((-1) ** j * math.comb(groups, j) * math.comb((groups - j) * size, draws) for j in range(groups + 1))
    return Fraction(ways, math.comb(groups * size, draws))


def mean_and_spread(groups: int, size: int) -> tuple[float, float]:
    """Of the number of draws, exactly: sums of the chance that it is above t, and of 2t + 1 times that."""
    above = [1 - chance_that_all_are_drawn(t, groups, size) for t in range(groups * (size - 1) + 1)]
    mean, mean_square = sum(above), sum((2 * t + 1) * a for t, a in enumerate(above))
    return float(mean), math.sqrt(mean_square - mean**2)


def harmonic(n: int) -> float:
    return sum(1 / k for k in range(1, n + 1))


def rows(trials: int, X: int, seed: int):
    return np.random.default_rng(seed).standard_normal((trials, X))


@pytest.mark.parametrize(("C", "size"), [(1, 40), (2, 100), (4, 100), (8, 40), (16, 30), (32, 32)])
def test_as_many_survive_as_a_collector_draws(C, size):
    """About C (1 + 1/2 + ... + 1/C), the law for groups without end; finite ones are drawn out a little sooner."""
    trials = 400
    mean, spread = mean_and_spread(C, size)
    kept = [(scores_X >= group_maxima(scores_X, C).min()).sum() for scores_X in rows(trials, C * size, seed=C)]
    assert abs(np.mean(kept) - mean) <= 4 * spread / math.sqrt(trials)
    assert 0.9 * C * harmonic(C) <= mean <= C * harmonic(C)


def test_of_many_groups_hardly_more_survive_than_are_asked_for():
    """The C-th largest maximum of G groups: C of them have been drawn, which takes sum G/(G-i) draws, i below C."""
    trials, X = 200, 8 * LANES
    for C in (4, 32):
        expected = sum(LANES / (LANES - i) for i in range(C))
        variance = sum(LANES * i / (LANES - i) ** 2 for i in range(C))
        kept = [
            (scores_X >= kth_largest(group_maxima(scores_X, LANES), C)).sum() for scores_X in rows(trials, X, seed=C)
        ]
        assert abs(np.mean(kept) - expected) <= 4 * math.sqrt(variance / trials) + 1e-12
        assert expected < C + 0.6 < C * harmonic(C)


def assert_as_often(lost: list[bool], chance: float):
    assert abs(np.mean(lost) - chance) <= 4 * math.sqrt(chance * (1 - chance) / len(lost))


@pytest.mark.parametrize(("K", "at_least"), [(1, 1.0), (2, 0.5), (4, 0.09), (8, 0.002)])
def test_above_the_threshold_one_of_the_best_is_lost(K, at_least):
    """A strict `>` keeps one fewer: fewer than K where the K best lie in K different groups."""
    size = 50
    chance = size**K / math.comb(K * size, K)
    assert chance >= at_least
    scores = rows(3000, K * size, seed=K)
    assert_as_often([(s > group_maxima(s, K).min()).sum() < K for s in scores], chance)


@pytest.mark.parametrize(("K", "about"), [(1, 1.0), (2, 0.75), (4, 0.51), (8, 0.25)])
def test_as_many_groups_as_beams_lose_some_of_twice_as_many_candidates(K, about):
    """K groups let at least K through; a beam search needs 2K. K = 1 keeps the one maximum, and never two."""
    size = 200
    chance = float(chance_that_all_are_drawn(2 * K - 1, K, size))
    assert abs(chance - about) < 0.01
    scores = rows(1500, K * size, seed=K)
    assert_as_often([(s >= group_maxima(s, K).min()).sum() < 2 * K for s in scores], chance)


def test_as_many_groups_as_candidates_lose_none_whatever_the_scores():
    rng = np.random.default_rng(0)
    for C in (1, 2, 8, 30):
        for scores_X in (rng.integers(0, 3, 300), np.sort(rng.standard_normal(300)), np.zeros(300), np.arange(300) % C):
            assert (scores_X >= group_maxima(scores_X.astype(float), C).min()).sum() >= C


def test_all_large_scores_in_one_group_let_everything_through_that_is_larger_than_another_groups_best():
    scores_X = np.random.default_rng(0).random(1000)
    scores_X[::8] += 10  # 125 of them, in group 0 of 8
    assert (scores_X >= group_maxima(scores_X, 8).min()).sum() >= 125 + 7
    interleaved_X = np.random.default_rng(0).random(1000)
    interleaved_X[:125] += 10  # side by side they fall into all groups alike
    assert (interleaved_X >= group_maxima(interleaved_X, 8).min()).sum() < 60
    assert (np.zeros(1000) >= group_maxima(np.zeros(1000), 8).min()).all()
