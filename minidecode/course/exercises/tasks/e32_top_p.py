"""Exercise 32: the threshold of top-p, found by halving a range of integers: no score is sorted, or even seen."""

from __future__ import annotations

import itertools

import numpy as np

from ..exercise import draw_telling_input
from ..numpy_task import MOST_CALLS, NumPyTask
from ..verdict import Miss
from ..wire import Callback

UNITS = 2**24  # the weight of a row's likeliest token: sums times p, in steps of 1 / PARTS, are exact in float64
PARTS = 1024
TOLD_BY_CALLS = ("halves-scores", "row-by-row")
SHOWN = 12  # scores of a row, in a message


class Task(NumPyTask):
    function = "threshold"
    returns = ("threshold_R",)
    known = {
        "more-than-p": "tokens that weigh exactly p are enough; with p = 1 no threshold leaves more than all there is",
        "first-that-fails": "the range ends at the last threshold that keeps enough; the next number above it keeps too"
                            " little",
        "bits-as-they-are": "read as integers, the bits of negative numbers have the reverse order: of two negative"
                            " numbers, the one with the larger integer is the smaller",
        "begins-at-0": "half of all numbers lie below 0, and half of the integers: the threshold may be one of these",
        "not-of-the-total": "p is a share of what all tokens weigh, not of the likeliest token's weight",
        "overflows": "low + high is up to twice as large as an integer of BITS bits can be, and wraps round to a"
                     " negative one",
        "rounded-down": "where two integers are left, a middle that is rounded down is `low` again: what was asked last"
                        " is asked once more, and the upper one never",
        "halves-scores": "a guess in the middle between two scores halves their distance and not the numbers that lie"
                         " between them: most of these are close to 0",
        "row-by-row": "a call reads all rows: with a threshold for each, all of them are halved by the same call",
        "other-side": "SIDE says on which side of the threshold the tokens lie that `weigh` adds up",
    }  # fmt: skip

    def variation(self, rng):
        bits, side = int(rng.choice([16, 32])), str(rng.choice(["reach", "below"]))
        return {
            "bits": bits, "dtype": f"float{bits}", "side": side, "most": bits + 1,
            "which": "that reach it: score >= threshold" if side == "reach" else "below it: score < threshold",
            "all_of": "-np.inf" if side == "reach" else "np.inf",
            "kept": "weigh(...)" if side == "reach" else "total_R - weigh(...)",
        }  # fmt: skip

    def constants(self, v):
        return {"BITS": v.bits, "DTYPE": v.dtype, "SIDE": v.side}

    def cases(self, v, rng):
        def draw_inputs(V, *kinds):
            scores_RV = np.stack([draw_scores(kind, V, v.bits, rng) for kind in kinds])
            p_R = rng.integers(1, PARTS, len(kinds)) / PARTS
            for r, kind in enumerate(kinds):
                p_R[r] = {"all": 1, "little": 1 / PARTS}.get(kind, p_R[r])
            return make_inputs(p_R, Rows(scores_RV, v.side))

        some = int(rng.integers(6, 10))
        cases = [draw_inputs(5, "large"), draw_inputs(some, "small", "all")]
        kinds = ["small", "large", "all", "close", "ties"]
        cases.append(draw_telling_input(self, v, lambda: draw_inputs(some + 3, *rng.permutation(kinds))))
        kinds += ["one", "little", "spread", "equal"]
        cases.append(draw_inputs(30 + some, *rng.permutation(kinds)))
        return [*cases, draw_inputs(50_257, *rng.permutation([*kinds, "small", "all"]))]

    def expected_outputs(self, v, inputs, mistake=None, ran=None):
        if mistake in TOLD_BY_CALLS:
            raise NotImplementedError  # told by what `weigh` was asked
        rows, p_R = rows_behind_weigh(inputs), inputs["p_R"]
        if mistake:
            return halve_threshold(rows, p_R, v, mistake)
        threshold_R = []
        for scores_V, weight_V, p in zip(rows.scores_RV, rows.weight_RV, p_R, strict=True):
            order_V = np.argsort(-scores_V, kind="stable")  # the likeliest first
            is_enough_V = PARTS * np.cumsum(weight_V[order_V]) >= round(p * PARTS) * int(weight_V.sum())
            threshold_R.append(scores_V[order_V[np.argmax(is_enough_V)]])
        return np.array(threshold_R)

    def alter_inputs(self, v, inputs):
        rows = rows_behind_weigh(inputs)
        alike = Rows(np.broadcast_to(rows.scores_RV[:1], rows.scores_RV.shape).copy(), v.side)
        return {"row-0-for-all": make_inputs(np.full_like(inputs["p_R"], inputs["p_R"][0]), alike)}

    def describe_difference(self, v, inputs, got, want):
        rows, p_R = rows_behind_weigh(inputs), inputs["p_R"]
        r = int(np.flatnonzero(got[0].astype(np.float64) != want[0])[0])
        scores_V, weight_V = rows.scores_RV[r], rows.weight_RV[r]

        def keeps(threshold):
            kept_V = scores_V >= threshold
            share = weight_V[kept_V].sum() / weight_V.sum()
            return f"{kept_V.sum():,} of {len(scores_V):,} tokens, which weigh {share:.6g} of the total"

        mine = float(got[0][r])
        message = "is not a number" if np.isnan(mine) else f"is {mine:.9g} and keeps {keeps(got[0][r])}"
        message = (
            f"{self.call(inputs)}: with p = {p_R[r]:.6g}, threshold_R[{r}] {message}; right is {want[0][r]:.9g}, which"
        )
        message += f" keeps {keeps(want[0][r])}."
        if len(scores_V) <= SHOWN:
            message += (
                f" The scores of row {r}, sorted for you: {', '.join(f'{s:.9g}' for s in np.sort(scores_V)[::-1])}."
            )
        return message

    def find_excess_cost(self, v, trial):
        calls, R = len(trial.calls), len(trial.inputs["p_R"])
        numbers = {"calls": calls, "limit": v.most}
        if calls <= v.most:
            return None
        mistake = (
            "halves-scores" if guesses_halve_scores(trial) else "row-by-row" if guesses_go_row_by_row(trial) else None
        )
        message = (
            f"{self.call(trial.inputs)} is right after {calls:,} calls of `weigh`. For {R} row(s) at once, BITS + 1"
        )
        message += f" = {v.most} are the most: one for the total, and one for each halving."
        return Miss(message, mistake, numbers, shows_input=False, is_explained=True)

    def recognise_mistake(self, v, tried):
        wrong = [t for t in tried if t.miss]
        if all(guesses_halve_scores(t) for t in wrong):
            return "halves-scores"
        if wrong[0].raised and len(wrong[0].calls) >= MOST_CALLS and repeats_last_guess(wrong[0]):
            return "rounded-down"
        return super().recognise_mistake(v, tried) or ("more-than-p" if self._only_all_is_wrong(v, tried) else None)

    def _only_all_is_wrong(self, v, tried):
        """Whether only rows with p = 1 are wrong, and keep too much: what then comes out is where the range began."""
        wrong = []
        for t in tried:
            if t.got is None or not t.miss or not t.miss.is_of_value:
                if t.miss:
                    return False
                continue
            if np.shape(t.got[0]) != t.inputs["p_R"].shape:
                return False
            want_R, got_R = self.expected_outputs(v, t.inputs), np.asarray(t.got[0])
            wrong_R = got_R != want_R
            wrong += [(p == 1, not got >= want) for p, got, want in zip(
                t.inputs["p_R"][wrong_R], got_R[wrong_R], want_R[wrong_R], strict=True)]  # fmt: skip
        return bool(wrong) and all(is_all and is_low for is_all, is_low in wrong)

    def praise(self, v, tried):
        R, V = rows_behind_weigh(tried[-1].inputs).scores_RV.shape
        return (
            f"The last one has {R} rows of {V:,} scores: each was read {len(tried[-1].calls)} times, and none sorted."
        )


class Rows:
    """Rows of scores, which answer how much tokens weigh on one side of a threshold."""

    def __init__(self, scores_RV, side):
        self.scores_RV, self.side = scores_RV, side
        wide_RV = scores_RV.astype(np.float64)
        self.weight_RV = np.rint(UNITS * np.exp(wide_RV - wide_RV.max(axis=1, keepdims=True))).astype(np.int64)
        order_RV = np.argsort(scores_RV, axis=1)
        self.sorted_RV = np.take_along_axis(scores_RV, order_RV, axis=1)
        self.below_RV = np.zeros((len(scores_RV), scores_RV.shape[1] + 1), np.int64)  # what the lowest weigh
        np.cumsum(np.take_along_axis(self.weight_RV, order_RV, axis=1), axis=1, out=self.below_RV[:, 1:])

    def weigh(self, threshold_R):
        """What reaches a threshold that is no number, or is below it: nothing."""
        kind = f"{getattr(threshold_R, 'dtype', type(threshold_R).__name__)} of shape {np.shape(threshold_R)}"
        due = f"{self.scores_RV.dtype} of shape ({len(self.scores_RV)},)"
        if kind != due:
            raise TypeError(f"weigh takes {due}, a threshold for each row, and got {kind}")
        weight_R = np.zeros(len(threshold_R), np.int64)
        for r, threshold in enumerate(threshold_R):
            if not np.isnan(threshold):
                below = self.below_RV[r, np.searchsorted(self.sorted_RV[r], threshold)]
                weight_R[r] = below if self.side == "below" else self.below_RV[r, -1] - below
        return weight_R


def make_inputs(p_R, rows):
    return {"p_R": p_R, "weigh": Callback("weigh", rows.weigh)}


def rows_behind_weigh(inputs):
    return inputs["weigh"].function.__self__


def draw_scores(kind, V, bits, rng):
    """A row of scores, of one kind."""
    dtype = np.dtype(f"float{bits}")
    if kind == "close":  # neighbours among the numbers
        return float_of_key(int(rng.integers(2 ** (bits - 3), 2 ** (bits - 2))) + rng.permutation(V) % 1000, bits)
    scores_V = 3 * rng.standard_normal(V)
    if kind == "large":
        scores_V = 20 + np.abs(scores_V)
    if kind == "small":
        scores_V = -20 - np.abs(scores_V)
    if kind == "spread":
        scores_V = np.sign(scores_V) * 10.0 ** rng.uniform(-4, 4, V)
    if kind == "equal":
        scores_V[:] = scores_V[0]
    if kind == "ties":
        scores_V = rng.integers(-2, 3, V)
    scores_V = scores_V.astype(dtype)
    if kind in ("all", "little", "one"):  # some tokens are ruled out, or all but one
        out = V - 1 if kind == "one" else V // 4
        scores_V[rng.permutation(V)[:out]] = -np.inf
    return scores_V


def float_of_key(key_X, bits, is_turned=True):
    """The number that an integer stands for: larger integers for larger numbers."""
    key_X = np.asarray(key_X, f"int{bits}")
    bits_X = np.where(key_X < 0, key_X ^ np.iinfo(key_X.dtype).max, key_X) if is_turned else key_X
    return bits_X.view(f"float{bits}")


def halve_threshold(rows, p_R, v, mistake=None):
    """The threshold that is found by halving, with a mistake in it."""
    side = v.side if mistake != "other-side" else {"reach": "below", "below": "reach"}[v.side]
    kind = np.dtype(f"int{v.bits}") if mistake == "overflows" else np.dtype(np.int64)
    half, is_turned = 2 ** (v.bits - 1), mistake != "bits-as-they-are"
    low_R = np.full(len(p_R), 0 if mistake == "begins-at-0" else -half, kind)
    high_R = np.full(len(p_R), half - 1, kind)
    total_R = rows.weigh(np.full(len(p_R), -np.inf if side == "reach" else np.inf, v.dtype))
    due_R = p_R * (UNITS if mistake == "not-of-the-total" else total_R)
    for _ in range(v.bits):
        middle_R = (low_R + high_R + kind.type(mistake != "rounded-down")) // kind.type(2)
        weight_R = rows.weigh(float_of_key(middle_R, v.bits, is_turned))
        kept_R = weight_R if side == "reach" else total_R - weight_R
        is_enough_R = kept_R > due_R if mistake == "more-than-p" else kept_R >= due_R
        low_R, high_R = np.where(is_enough_R, middle_R, low_R), np.where(is_enough_R, high_R, middle_R - kind.type(1))
    return float_of_key(high_R + 1 if mistake == "first-that-fails" else low_R, v.bits, is_turned)


def thresholds_of_calls(trial):
    """The thresholds of each call that had one for each row."""
    return [a[0] for _, a in trial.calls if np.shape(a[0]) == trial.inputs["p_R"].shape]


def guesses_halve_scores(trial, steps=6):
    """Whether one of the first guesses at row 0 begins a run in which each lies half as far from the last one."""
    guess_X = np.array([threshold_R[0] for threshold_R in thresholds_of_calls(trial)], np.float64)
    guess_X = guess_X[np.isfinite(guess_X)][: 4 + steps]
    eps = float(np.finfo(rows_behind_weigh(trial.inputs).scores_RV.dtype).eps)
    away_X, size_X = np.abs(np.diff(guess_X)), np.abs(guess_X)
    off_X = np.abs(2 * away_X[1:] - away_X[:-1]) <= 4 * eps * (size_X[:-2] + size_X[1:-1] + size_X[2:])
    is_half_X = off_X & (away_X[1:] > 0)
    return any(len(run) == steps and run.all() for run in (is_half_X[at : at + steps] for at in range(3)))


def guesses_go_row_by_row(trial):
    """Whether guesses change one row's threshold at a time, and those of all rows in turn."""
    asked = thresholds_of_calls(trial)
    if len(trial.inputs["p_R"]) < 2 or len(asked) < 3:
        return False
    steps = itertools.pairwise(asked[1:])
    changed_XR = np.array([(one != two) & ~(np.isnan(one) & np.isnan(two)) for one, two in steps])
    return bool((changed_XR.sum(axis=1) <= 1).mean() > 0.8 and changed_XR.any(axis=0).all())


def repeats_last_guess(trial):
    """Whether the last guess is the one before it."""
    (_, (last, *_)), (_, (before, *_)) = trial.calls[-1], trial.calls[-2]
    return np.array_equal(last, before, equal_nan=True)
