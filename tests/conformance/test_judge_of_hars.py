"""What the judge of `hars_candidates` refuses, each for its reason, and what it lets pass."""

import copy

import numpy as np
import pytest

from minidecode.catalog import CATALOG
from minidecode.conformance.check import find_mistake, find_mistake_with_out
from minidecode.conformance.rows import row_module
from minidecode.reference.hars import hars_candidates_naive

ROW, ASKED = CATALOG["hars"], row_module("hars")
# The exact scores of columns 0 to 7, two beams of four tokens, of which 4 and 5 are equal.
ARGUMENTS = ASKED.make_arguments([[3, 1, 0, 2], [2, 2, -1, 1]], [[-1.0, -1.2]], 4)


def judged(change, arguments=ARGUMENTS) -> str | None:
    """What is said of the right answer after change(scores_C, index_C) of the first sentence; index: w*V + v."""

    def answer(*given):
        best_BC, parent_BC, token_BC = hars_candidates_naive(*given)
        V = given[0].shape[1]
        index_BC = parent_BC * V + token_BC
        change(best_BC[0], index_BC[0])
        return best_BC, *np.divmod(index_BC, V)

    mistake = find_mistake(ROW, answer, copy.deepcopy(arguments))
    return mistake and mistake.what


def test_the_right_answer_passes():
    assert judged(lambda scores, index: None) is None


def swap(i, j):
    def change(scores_C, index_C):
        for a in (scores_C, index_C):
            a[[i, j]] = a[[j, i]]

    return change


def put(c, x, score=None):
    """Column x in the place c, with its own score unless another is given."""

    def change(scores_C, index_C):
        exact_BX, _ = ASKED.compute_scores_and_error_bounds(*ARGUMENTS[:2])
        index_C[c], scores_C[c] = x, exact_BX[0, x % 8] if score is None else score

    return change


@pytest.mark.parametrize(
    ("change", "says"),
    [(put(0, 8), "parent_BC is [[2 "), (put(0, -8), "right is anything from 0 to 1"),
     (put(3, 0), "right are 4 different ones below 8"),
     (put(0, 0, score=-1.5), "column 0 scores -1.5; right is -1.44"),
     (swap(0, 1), "do not fall"), (swap(1, 2), "with the lower column first where they are equal"),
     (put(3, 2), "column 1 is left out; its -3.4401897 beats"),
     (put(0, 0, score=np.nan), "column 0 scores nan"), (put(3, 2, score=-np.inf), "column 2 scores -inf")],
)  # fmt: skip
def test_a_mistake_is_refused_for_its_reason(change, says):
    assert says in judged(change)


def test_of_equal_logits_of_a_row_the_lower_token_may_not_be_left_out():
    arguments = ASKED.make_arguments([[3, 1, 1, 0]], [[0.0]], 2)

    def later(scores_C, index_C):
        index_C[1] = 2

    assert "column 1 is left out for column 2, an equal logit of the same row" in judged(later, arguments)


def test_candidates_within_rounding_may_change_places_and_one_stand_for_the_other():
    """Logits a rounding apart, in rows of their own: which of them is the last is open."""
    close = np.nextafter(np.float32(2), np.float32(3))
    for C, change in [(2, swap(0, 1)), (1, None)]:
        arguments = ASKED.make_arguments([[2, 0, 0], [close, 0, 0]], [[-1.0, -1.0]], C)

        def other(scores_C, index_C, change=change):
            if change:
                index_C[[0, 1]] = index_C[[1, 0]]
                scores_C[:] = sorted(scores_C)[0]
                index_C.sort()
            else:
                index_C[0] = 3 - index_C[0]

        assert judged(other, arguments) is None
    far = ASKED.make_arguments([[2, 0, 0], [2.00001, 0, 0]], [[-1.0, -1.0]], 1)
    assert judged(lambda scores_C, index_C: index_C.__setitem__(0, 0), far) is not None


def test_nan_is_due_where_a_row_has_no_probabilities_and_nowhere_else():
    for row in ([np.nan, 0], [np.inf, 0], [-np.inf, -np.inf]):
        arguments = ASKED.make_arguments([[1, 0], row, [0, 1], [1, 1]], [[0.0, -1.0], [-1.0, 0.0]], 2)
        assert judged(lambda scores_C, index_C: None, arguments) is None
        assert "right is NaN" in judged(lambda scores_C, index_C: scores_C.__setitem__(0, -1.0), arguments)


def test_the_types_of_all_results_are_held():
    def narrow(*given):
        best_BC, parent_BC, token_BC = hars_candidates_naive(*given)
        return best_BC, parent_BC, token_BC.astype(np.int32)

    assert "token_BC is int32(1, 4) where int64(1, 4) is due" in find_mistake(ROW, narrow, ARGUMENTS).what

    def fills_scores_alone(logits_RV, base_BW, C, out=None):
        out[0][...], *_ = hars_candidates_naive(logits_RV, base_BW, C)
        return out

    assert "parent_BC is [[-7777" in find_mistake_with_out(ROW, fills_scores_alone, ARGUMENTS).what
