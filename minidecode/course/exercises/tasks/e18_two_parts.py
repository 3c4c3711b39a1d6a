"""Exercise 18: one softmax over two caches that are not laid side by side."""

from __future__ import annotations

import numpy as np

from ..exercise import draw_telling_input, repeat_first_row
from ..numpy_task import NumPyTask
from ..verdict import Miss

LONG = 9000  # positions of a prompt whose values are so many bytes that all else is little


class Task(NumPyTask):
    function = "attend"
    returns = ("out_RU",)
    measure = True
    known = {
        "two-softmaxes": "each part has a softmax of its own, so the weights of a row sum to 2, and what a part weighs"
                         " against the other is lost",
        "averaged": "both parts count for one half each, however much better one of them fits",
        "maxima-that-differ": "e^(s - m) of the two parts may be added only where m is the same; here they stand on"
                              " different scales",
        "no-maximum": "e^s leaves the range of the dtype for large scores, which the largest score, subtracted first,"
                      " prevents",
        "prompts-maximum": "the prompt's largest score says nothing about the row's own scores: where these are far"
                           " larger, e^s still leaves the range",
        "maximum-of-all-rows": "a row far below the largest of all has nothing but zeros left, and is divided by their"
                               " sum",
        "wrong-sentence": "the beams of a sentence lie side by side: row r belongs to sentence r // W, not r % B",
        "reads-unwritten": "the scores and values of positions that are not written are taken for data",
        "laid-side-by-side": "the prompt's values are copied, beside a row's own ones or for each beam, which is what"
                             " the split is there to save",
        "masks-the-wrong-side": "PADDING says on which side the positions lie that are not written; here those of the"
                                " other side are left out",
    }  # fmt: skip

    def variation(self, rng):
        layouts, sides, dtypes = ["RTU", "TRU"], ["left", "right"], ["float32", "float64"]
        layout, padding, dtype = (str(rng.choice(of)) for of in (layouts, sides, dtypes))
        return {"w": rng.integers(2, 5), "layout": layout, "padding": padding, "dtype": dtype}

    def cases(self, v, rng):
        too_much = 200.0 if v.dtype == "float32" else 1600.0  # e^ of that is infinite, and of as much below 0 it is 0

        def draw_inputs(B, N, T, U, prompts=0.0, owns=0.0):
            R, level = B * v.w, (np.resize(prompts, B * v.w)[:, None], np.resize(owns, B * v.w)[:, None])
            # multiples of 1/16, so that a score less the largest is exact
            score_RN, score_RT = (rng.integers(-32, 33, (R, X)) / 16 + up for X, up in zip((N, T), level, strict=True))
            score_RT += rng.integers(1, 4, (R, 1)) * rng.choice([-1, 1], (R, 1))  # the maxima differ
            length_R = rng.integers(1, T + 1, R)
            length_R[0] = T - (T > 1)
            for score_T, length in zip(score_RT, length_R, strict=True):
                score_T[~_is_written(v, length, T)] += 4  # what is not written would be seen
            v_BNU, own_v = rng.integers(-9, 10, (B, N, U)), rng.integers(-9, 10, (R, T, U))
            own_v = own_v if v.layout == "RTU" else own_v.swapaxes(0, 1).copy()
            arrays = {"score_RN": score_RN, "score_RT": score_RT, "v_BNU": v_BNU, "own_v": own_v}
            return {k: a.astype(v.dtype) for k, a in arrays.items()} | {"length_R": length_R}

        cases = [draw_inputs(*sizes, 2) for sizes in ((1, 2, 1), (1, 3, 2), (2, 4, 3))]
        cases.append(draw_inputs(2, 4, 3, 2, too_much, too_much))
        apart = [0, 0, too_much, too_much], [0, too_much, too_much, 0]  # rows by turns: which part is far above
        N, T = int(rng.integers(7, 20)), int(rng.integers(5, 12))
        cases.append(draw_telling_input(self, v, lambda: draw_inputs(3, N, T, 4, *apart)))
        return [*cases, draw_inputs(1, LONG + int(rng.integers(999)), T, 128)]  # here the bytes are counted

    def is_huge(self, inputs):
        return inputs["v_BNU"].shape[1] >= LONG

    def expected_outputs(self, v, inputs, mistake=None, ran=None):
        if mistake == "laid-side-by-side":
            raise NotImplementedError  # told by bytes
        score_RN, score_RT, v_BNU = (inputs[k].astype(np.float64) for k in ("score_RN", "score_RT", "v_BNU"))
        own_RTU = inputs["own_v"].astype(np.float64)
        own_RTU = own_RTU if v.layout == "RTU" else own_RTU.swapaxes(0, 1)
        out_RU, range_of_e = np.zeros((len(score_RN), v_BNU.shape[2])), np.log(np.finfo(v.dtype).max)
        tops = [max(one.max(), two[_is_written(v, n, len(two))].max())
                for one, two, n in zip(score_RN, score_RT, inputs["length_R"], strict=True)]  # fmt: skip
        for r, length in enumerate(inputs["length_R"]):
            b = r % len(v_BNU) if mistake == "wrong-sentence" else r // v.w
            written = _is_written(v, length, score_RT.shape[1])
            if mistake == "reads-unwritten":
                written[:] = True
            if mistake == "masks-the-wrong-side":
                written = written[::-1]
            one, two, one_v, two_v = score_RN[r], score_RT[r, written], v_BNU[b], own_RTU[r, written]
            first, second = one.max(), two.max()
            if mistake in ("two-softmaxes", "averaged"):
                parts = [np.exp(s - s.max()) / np.exp(s - s.max()).sum() for s in (one, two)]
                out_RU[r] = (parts[0] @ one_v + parts[1] @ two_v) / (2 if mistake == "averaged" else 1)
                continue
            exponent = {"no-maximum": max(first, second), "prompts-maximum": second - first,
                        "maximum-of-all-rows": max(tops) - tops[r]}  # fmt: skip
            if exponent.get(mistake, 0) > range_of_e:
                out_RU[r] = np.nan
                continue
            if mistake != "maxima-that-differ":
                first = second = max(first, second)
            one, two = np.exp(one - first), np.exp(two - second)
            out_RU[r] = (one @ one_v + two @ two_v) / (one.sum() + two.sum())
        return out_RU

    def error_bound(self, v, inputs):
        """The error of a weighted mean of values up to 9 with rounded weights and sums; twice that for merged parts.

        Weights may be exp(score - log of the sum of exp): that logarithm is as large as a score, and is rounded with
        each term that it is made of.
        """
        terms = inputs["score_RN"].shape[1] + inputs["score_RT"].shape[1]
        largest = max(float(np.abs(inputs[name]).max()) for name in ("score_RN", "score_RT"))
        return 9 * (2 * (terms + 16) + (terms + 2) * largest) * np.finfo(v.dtype).eps

    def alter_inputs(self, v, inputs):
        own_v = inputs["own_v"] if v.layout == "RTU" else inputs["own_v"].swapaxes(0, 1)
        alike = repeat_first_row(inputs | {"own_v": own_v}, "score_RN", "score_RT", "v_BNU", "own_v", "length_R")
        if v.layout == "TRU":
            alike["own_v"] = alike["own_v"].swapaxes(0, 1).copy()
        return {"row-0-for-all": alike}

    def describe_difference(self, v, inputs, got, want):
        r, u = np.argwhere(~(np.abs(got[0].astype(np.float64) - want[0]) <= self.error_bound(v, inputs)))[0].tolist()
        mine, own_T = float(got[0][r, u]), inputs["score_RT"][r]
        one, two = inputs["score_RN"][r].max(), own_T[_is_written(v, inputs["length_R"][r], len(own_T))].max()
        if not np.isfinite(mine):
            return (
                f"{self.call(inputs)}: out_RU[{r}, {u}] is no number. The largest scores of row {r} are {one:g} in the"
                f" prompt and {two:g} of its own; in {v.dtype}, {_range_of_scores(v)}."
            )
        message = f"{self.call(inputs)}: out_RU[{r}, {u}] is {mine:.6g}, right is {want[0][r, u]:.6g}"
        off, bound = abs(mine - want[0][r, u]), self.error_bound(v, inputs)
        return f"{message}: off by {off:.2g}, where rounding explains {bound:.1g}."

    def find_excess_cost(self, v, trial):
        if not self.is_huge(trial.inputs):
            return None
        limit, held = trial.inputs["v_BNU"][0].nbytes, max(trial.peak, trial.grown or 0)
        if held < limit:
            return None
        message = f"{self.call(trial.inputs)} holds {held:,} bytes at its peak; the prompt's values of a sentence are"
        message = f"{message} {limit:,}."
        return Miss(message, "laid-side-by-side", {"peak": held, "limit": limit}, shows_input=False)

    def praise(self, v, tried):
        last = tried[-1]
        return (
            f"The longest prompt took {last.peak:,} bytes at the peak; its values are {last.inputs['v_BNU'].nbytes:,}."
        )


def _range_of_scores(v):
    return "e^89 is infinite and e^-104 is 0" if v.dtype == "float32" else "e^710 is infinite and e^-746 is 0"


def _is_written(v, length, T):
    place = np.arange(T)
    return place < length if v.padding == "right" else place >= T - length
