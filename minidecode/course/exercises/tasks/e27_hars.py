"""Exercise 27: hierarchical auto-regressive search, the threshold first and then the ranking."""

from __future__ import annotations

import itertools

import numpy as np

from ..numpy_task import NumPyTask
from ..results import are_same
from ..verdict import Miss
from ..wire import Callback

OTHER = {"interleaved": "blocks", "blocks": "interleaved"}
TOLD_BY_RANKING = ("other-grouping", "too-many-at-once", "ranks-everything")


class Task(NumPyTask):
    function = "search"
    returns = ("score_BC", "index_BC")
    known = {
        "strict-threshold": "the smallest maximum is itself one of the best where each group has one of them, and `>`"
                            " leaves it out",
        "w-groups": "the smallest of W maxima promises that W survive; where all the best continue one beam, 2 W must",
        "overflow-dropped": "what came after the first ROOM survivors was dropped, and the best may be behind them",
        "sum-of-survivors": "a probability is a share of all V tokens: of the survivors alone it is too large, in each"
                            " beam by another factor",
        "not-normalised": "logits of different beams lie on different scales, until each is less its log-sum",
        "base-lost": "a beam that has been bad so far must not win by its next token alone",
        "exp-overflows": "exp of a logit is beyond what a float can hold as soon as a model says so; less the largest"
                         " one it is at most 1",
        "other-grouping": "a beam's threshold is as low as its poorest group, and which group is poor depends on how"
                          " they are cut: on the other cut nearly all tokens pass",
        "too-many-at-once": "survivors are few on average and sometimes many; a kernel that makes room for the average"
                            " fails on the other day",
        "ranks-everything": "ranking is what costs; the threshold is there so that few numbers need it",
    }  # fmt: skip

    def variation(self, rng):
        w, grouping = int(rng.integers(2, 5)), str(rng.choice(["interleaved", "blocks"]))
        apart = grouping == "interleaved"
        return {
            "w": w, "grouping": grouping, "room": 4 * w * w + 4 * int(rng.integers(2, 5)),
            "dtype": str(rng.choice(["float32", "float64"])),
            "groups": f"token v belongs to group v % G of G (GROUPING = \"{grouping}\")" if apart
            else f"V / G neighbours to each of G (GROUPING = \"{grouping}\")",
            "hint_shape": "-1, G" if apart else "G, -1", "hint_axis": 0 if apart else 1,
        }  # fmt: skip

    def constants(self, v):
        return {"W": v.w, "GROUPING": v.grouping, "ROOM": v.room}

    def cases(self, v, rng):
        C = 2 * v.w
        big, bigger = (C * int(rng.integers(*at)) for at in ((3 * C, 4 * C), (6 * C, 7 * C)))
        cases = [self._draw_distinct(v, rng, 1, 2 * C, ["plain"]), self._draw_distinct(v, rng, 1, 4 * C, ["spread"])]
        cases += [self._draw_distinct(v, rng, 1, 4 * C, ["large"]), self._draw_distinct(v, rng, 1, big, ["overflow"])]
        cases.append(self._draw_distinct(v, rng, 1, bigger, ["poor neighbours"]))
        cases.append(self._draw_distinct(v, rng, 3, bigger, ["plain", "spread", "overflow"]))
        return [
            *cases,
            self._draw_distinct(v, rng, 2, bigger, ["rising"]),
            self._draw_distinct(v, rng, 2, bigger, ["falling"]),
        ]

    def _draw_distinct(self, v, rng, B, V, kinds):
        """Until the best differ by more than rounding, and named mistakes from each other where they can be."""
        for _ in range(500):
            inputs = self._draw_candidate_inputs(v, rng, B, V, kinds)
            ways = [
                self._expected_candidates(v, inputs, C=2 * v.w + 1),
                *(self._expected_candidates(v, inputs, m) for m in self._mistakes_by_value()),
            ]
            clear = all((np.diff(-score_BC) > 4 * self.error_bound(v, inputs)[0]).all() for score_BC, _ in ways)
            due = {"plain": ["not-normalised", "sum-of-survivors"], "spread": ["strict-threshold", "w-groups"],
                   "overflow": ["overflow-dropped"], "large": ["exp-overflows"]}  # fmt: skip
            ways = [
                self.expected_outputs(v, inputs, m) for m in [None, *(m for kind in kinds for m in due.get(kind, ()))]
            ]
            pairs = itertools.combinations(ways, 2)
            if (
                "poor neighbours" in kinds
                and self._count_survivors(v, inputs, of_other=True) <= self._rank_limit(v, inputs) + 2
            ):
                continue
            if clear and not any(are_same(one, two, self.error_bound(v, inputs)) for one, two in pairs):
                return inputs
        raise ValueError(f"nothing was drawn for {kinds}")

    def _mistakes_by_value(self):
        return [m for m in self.known if m not in TOLD_BY_RANKING]

    def _draw_candidate_inputs(self, v, rng, B, V, kinds):
        C = 2 * v.w
        logits_RV = rng.uniform(0, 12, (B * v.w, V))
        logits_RV += rng.integers(-3, 4, (B * v.w, 1))
        base_BW = -rng.integers(8, 16, (B, v.w)) / 4
        for b in range(B):
            kind, r = kinds[b % len(kinds)], b * v.w + int(rng.integers(v.w))
            if kind == "spread":  # all the best continue one beam, one of them in each group
                group_V = _group_of_columns(v.grouping, V, C)
                places = [int(rng.choice(np.flatnonzero(group_V == g))) for g in range(C)]
                logits_RV[r, places] = logits_RV[r].max() + 1 + rng.permutation(C) / 4
                base_BW[b, r % v.w] = 0
            if kind == "large":
                logits_RV[r] += 800  # exp(800) is beyond float64, too
                base_BW[b, r % v.w] = 0
            if kind == "poor neighbours":  # one group of the other grouping is poor, and none of this one
                poor = _group_of_columns(OTHER[v.grouping], V, C) == int(rng.integers(C))
                logits_RV[b * v.w : b * v.w + v.w, poor] -= 20
            if kind in ("rising", "falling"):  # one poor group, and token by token ever better ones, or ever worse ones
                logits_RV[b * v.w : b * v.w + v.w].sort()
                group_V = _group_of_columns(v.grouping, V, C)
                logits_RV[b * v.w : b * v.w + v.w, group_V == int(rng.integers(C - 1))] -= 40
                if kind == "falling":
                    logits_RV[b * v.w : b * v.w + v.w] = logits_RV[b * v.w : b * v.w + v.w, ::-1]
            if kind == "overflow":  # one poor group, and the best at the end
                group_V = _group_of_columns(v.grouping, V, C)
                poor = group_V == int(rng.integers(C - 1))
                rows = slice(b * v.w, b * v.w + v.w)
                logits_RV[rows, poor] -= 20
                logits_RV[rows, -1] += 6 + np.arange(v.w)
        return {"logits_RV": logits_RV.astype(v.dtype), "base_BW": base_BW.astype(v.dtype),
                "rank": Callback("rank", lambda score_X: _check_and_rank(score_X, v.room))}  # fmt: skip

    def run(self, submission, v, trials, verdict):
        """Each input once more, with a `rank` that says the worst first: who ranks with it then gives other outputs."""
        super().run(submission, v, trials, verdict)
        worst_first = Callback("rank", lambda score_X: _check_and_rank(score_X, v.room)[::-1])
        self.try_again(submission, v, trials, lambda inputs: inputs | {"rank": worst_first})
        if all(
            t.got is not None and not (t.miss or self.find_wrong_output(v, t) or self.find_excess_cost(v, t))
            for t in trials
        ):
            trials[0].miss = self._find_choice_without_rank(v, trials) or self._find_choice_before_rank(v, trials)

    def expected_outputs(self, v, inputs, mistake=None, ran=None):
        if mistake in TOLD_BY_RANKING:
            raise NotImplementedError  # told by what is ranked
        return self._expected_candidates(v, inputs, mistake)

    def _expected_candidates(self, v, inputs, mistake=None, C=None):
        logits_RV, base_BW = inputs["logits_RV"].astype(np.float64), inputs["base_BW"].astype(np.float64)
        (B, W), V, C = base_BW.shape, logits_RV.shape[1], C or 2 * v.w
        score_BC, index_BC = np.zeros((B, C)), np.zeros((B, C), np.int64)
        for b in range(B):
            pool = []  # (score, index), in the order of the index
            for w in range(W):
                logits_V = logits_RV[b * W + w]
                kept_V = self._survivors(
                    v, logits_V, W if mistake == "w-groups" else 2 * W, mistake == "strict-threshold"
                )
                summed = logits_V[kept_V] if mistake == "sum-of-survivors" else logits_V
                largest = summed.max()
                less = 0 if mistake == "not-normalised" else largest + np.log(np.exp(summed - largest).sum())
                if mistake == "exp-overflows" and largest > np.log(np.finfo(v.dtype).max):
                    less = np.inf
                base = 0 if mistake == "base-lost" else base_BW[b, w]
                pool += [(logits_V[t] - less + base, w * V + t) for t in np.flatnonzero(kept_V)]
            if mistake == "overflow-dropped":
                pool = pool[: v.room]
            best = sorted(pool, key=lambda p: -p[0])[:C]
            score_BC[b, : len(best)], index_BC[b, : len(best)] = zip(*best, strict=True)
        return score_BC, index_BC

    def _survivors(self, v, logits_V, groups, is_strict=False, grouping=None):
        group_V = _group_of_columns(grouping or v.grouping, len(logits_V), groups)
        threshold = min(logits_V[group_V == g].max() for g in range(groups))
        return logits_V > threshold if is_strict else logits_V >= threshold

    def error_bound(self, v, inputs):
        """A sum of V exponentials, its logarithm, three additions of numbers up to the largest; indices are exact."""
        largest = max(64.0, float(np.abs(inputs["logits_RV"]).max()))
        return (8 * largest + inputs["logits_RV"].shape[1]) * np.finfo(v.dtype).eps, 0

    def _count_survivors(self, v, inputs, of_other=False):
        """How many numbers of the call reach their beam's threshold, in this grouping or in the other one."""
        grouping = OTHER[v.grouping] if of_other else v.grouping
        return sum(int(self._survivors(v, row, 2 * v.w, grouping=grouping).sum()) for row in inputs["logits_RV"])

    def _rank_limit(self, v, inputs):
        return 2 * self._count_survivors(v, inputs) + v.room

    def describe_difference(self, v, inputs, got, want):
        W, V = inputs["base_BW"].shape[1], inputs["logits_RV"].shape[1]
        wrong_BC = (got[1] != want[1]) | ~(np.abs(got[0] - want[0]) <= self.error_bound(v, inputs)[0])
        b, c = np.argwhere(wrong_BC)[0].tolist()
        mine, due = int(got[1][b, c]), int(want[1][b, c])
        message = (
            f"{self.call(inputs)}: sentence {b}, place {c} holds beam {mine // V}, token {mine % V} with the score"
        )
        message += f" {float(got[0][b, c]):.6g}; right is beam {due // V}, token {due % V} with {want[0][b, c]:.6g}"
        survivors = [int(self._survivors(v, row, 2 * W).sum()) for row in inputs["logits_RV"][b * W : b * W + W]]
        survivors = " + ".join(map(str, survivors))
        return f"{message}. Of {W} x {V:,} scores of this sentence {survivors} reach their thresholds."

    def find_excess_cost(self, v, trial):
        ranked = sum(np.size(arguments[0]) for _, arguments in trial.calls)
        reach, limit = self._count_survivors(v, trial.inputs), self._rank_limit(v, trial.inputs)
        sentences = len(trial.inputs["base_BW"])
        numbers = {"ranked": ranked, "survivors": reach, "limit": limit}
        if not trial.calls:
            message = f"{self.call(trial.inputs)} ranks without `rank`: what is ranked cannot be counted."
            return Miss(message, None, numbers, shows_input=False, is_explained=True)
        if (sentence := self._sentence_without_rank(trial)) is not None:
            message = f"{self.call(trial.inputs)} ranks sentence {sentence} without `rank`: a `rank` that returns the"
            message += " worst first does not change its results. Only what `rank` ranks can be counted."
            return Miss(message, None, numbers, shows_input=False, is_explained=True)
        if ranked <= limit:
            return None
        message = f"{self.call(trial.inputs)} had {ranked:,} numbers ranked for {sentences} sentence(s);"
        total = trial.inputs["logits_RV"].size
        different = len(np.unique(np.concatenate([np.ravel(arguments[0]) for _, arguments in trial.calls])))
        message += (
            f" {reach:,} of {total:,} reach their beam's threshold, and {limit:,} are the most. {different:,} different"
        )
        message += " ones were among them."
        mistake = None
        if abs(different - self._count_survivors(v, trial.inputs, of_other=True)) <= 2:  # two may be alike
            mistake = "other-grouping"
        elif different >= total - 2:
            mistake = "ranks-everything"
        return Miss(message, mistake, numbers, shows_input=False, is_explained=True)

    def _sentence_without_rank(self, trial):
        """The first sentence whose results do not depend on what `rank` says."""
        turned = trial.again.got
        if turned is None or len(turned) != 2 or np.shape(turned[1]) != trial.got[1].shape:
            return None  # it could make nothing of the worst
        same_B = (trial.got[1] == turned[1]).all(axis=1)
        return int(np.argmax(same_B)) if same_B.any() else None

    def _find_choice_without_rank(self, v, trials):
        """Whether the best are chosen before `rank` is asked: then one that says the worst first finds the same ones.

        Where no more than C reach their thresholds there is nothing to choose.
        """
        for trial in trials:
            turned, W = trial.again.got, v.w
            if turned is None or len(turned) != 2 or np.shape(turned[1]) != trial.got[1].shape:
                return None  # it could make nothing of the worst
            for b, (mine_C, theirs_C) in enumerate(zip(trial.got[1].tolist(), turned[1].tolist(), strict=True)):
                kept = sum(
                    int(self._survivors(v, row, 2 * W).sum()) for row in trial.inputs["logits_RV"][b * W : b * W + W]
                )
                if kept > 2 * W and set(mine_C) != set(theirs_C):
                    return None
        message = f"{self.call(trials[0].inputs)} is right, and so are the others; but in each sentence the best are"
        message += " chosen without `rank`: one that says the worst first changes their order, and finds the same ones."
        return Miss(f"{message} Only what `rank` ranks can be counted.", None, shows_input=False, is_explained=True)

    def _find_choice_before_rank(self, v, trials):
        """Whether `rank` was given chosen numbers alone, by two inputs that no choice fits both of.

        An answer that goes through the tokens upwards, and leaves out what is beaten already, ranks all of the rising
        ones; downwards, all of the falling ones. And where `rank` says the worst first, the result is among the worse
        half of one of the two.
        """
        two = [t for t in trials if self._is_mirrored(t.inputs)]
        due = [sum(max(sizes) for sizes in self._count_survivors_by_beam(v, t.inputs)) for t in two]
        ranked = [len(np.unique(np.concatenate([np.ravel(a[0]) for _, a in t.calls]))) for t in two]
        if not any(mine >= 0.95 * all_of for mine, all_of in zip(ranked, due, strict=True)):
            message = (
                f"{self.call(two[0].inputs)} and its mirror image are right; but of {due[0]:,} and more numbers that"
            )
            message += (
                f" reach their beams' thresholds, {ranked[0]:,} and {ranked[1]:,} are ranked. The others were chosen"
            )
            return Miss(f"{message} away before `rank` could.", None, shows_input=False, is_explained=True)
        turned = [t.again.got for t in two]
        if not all(got is not None and len(got) == 2 and np.shape(got[1]) == t.got[1].shape
                   for got, t in zip(turned, two, strict=True)):  # fmt: skip
            return None  # it could make nothing of the worst
        if any(self._chooses_worse_survivors(v, t.inputs, got[1]) for t, got in zip(two, turned, strict=True)):
            return None
        message = (
            f"{self.call(two[0].inputs)} chooses by itself: a `rank` that says the worst first is given better ones"
        )
        message = f"{message} alone. All that reaches its beam's threshold is for `rank` to choose from."
        return Miss(message, None, shows_input=False, is_explained=True)

    def _is_mirrored(self, inputs):
        """Whether the input's scores rise, or fall, with the token, the poor group aside."""
        logits_V = inputs["logits_RV"][0]
        rich_V = logits_V[logits_V > logits_V.max() - 30]
        steps = np.diff(rich_V)
        return len(rich_V) < len(logits_V) and bool((steps > 0).all() or (steps < 0).all())

    def _count_survivors_by_beam(self, v, inputs):
        """How many numbers of each beam reach the threshold of their sentence."""
        survivors = [int(self._survivors(v, row, 2 * v.w).sum()) for row in inputs["logits_RV"]]
        return [survivors[r : r + v.w] for r in range(0, len(survivors), v.w)]

    def _chooses_worse_survivors(self, v, inputs, index_BC):
        """Whether for each sentence some of these are among the worse half of a beam's survivors."""
        V = inputs["logits_RV"].shape[1]
        for b, index_C in enumerate(index_BC.tolist()):
            rows = [(b * v.w + i // V, i % V) for i in index_C if 0 <= i < v.w * V]
            better = [int((inputs["logits_RV"][r] > inputs["logits_RV"][r, t]).sum()) for r, t in rows]
            halves = [int(self._survivors(v, inputs["logits_RV"][r], 2 * v.w).sum()) // 2 for r, _ in rows]
            if not any(place > half for place, half in zip(better, halves, strict=True)):
                return False
        return True

    def _describe_raised_error(self, inputs, error):
        miss = super()._describe_raised_error(inputs, error)
        if "rank has room for" in str(error.get("message")):
            problem = str(error["message"]).rpartition(": ")[2]
            return Miss(f"line {error.get('line')}: {problem}, in {self.call(inputs)}.", "too-many-at-once")
        return miss

    def praise(self, v, tried):
        last = tried[-1]
        ranked = sum(np.size(arguments[0]) for _, arguments in last.calls)
        return f"Of {last.inputs['logits_RV'].size:,} scores of the last one, {ranked:,} were ranked."


def _group_of_columns(grouping, V, groups):
    return np.arange(V) % groups if grouping == "interleaved" else np.arange(V) // (V // groups)


def _check_and_rank(score_X, room):
    score_X = np.asarray(score_X, np.float64)
    if score_X.ndim != 1:
        raise ValueError(f"rank wants one row of scores, not an array of shape {score_X.shape}")
    if len(score_X) > room:
        raise ValueError(f"rank has room for {room} scores, and {len(score_X)} came")
    return np.argsort(-score_X, kind="stable")
