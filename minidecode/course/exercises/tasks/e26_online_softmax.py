"""Exercise 26: a softmax that finds the largest score and the sum in one go."""

from __future__ import annotations

import numpy as np

from ..exercise import repeat_first_row
from ..kernel_task import KernelTask, reads_global
from ..results import POISON, are_same
from ..verdict import Miss

U = 2.0**-24  # half a unit in the last place of float32
ROOM = 512  # bytes of shared memory: a few for each warp, and no row
REGISTERS = 255  # that a thread may have on any GPU


class Task(KernelTask):
    kernel = "softmax"
    ranked = "sectors"
    shape = ""
    known = {
        "no-rescale": "the sum holds exp(score - largest so far): once a larger score comes, what is in the sum"
                      " already is too large",
        "lanes-not-rescaled": "each lane's sum goes by that lane's largest, so they cannot be added as they are:"
                              " exp(score - top) means another thing in each",
        "lanes-apart": "each lane makes a softmax of its own numbers: what the lanes have found is never put together",
        "starts-at-0": "a row may hold scores far below zero only: exp(score - 0) is then 0 in float32, and so is the"
                       " sum",
        "nothing-less-nothing": "a lane that has seen no score holds -inf, and -inf less -inf is no number; the"
                                " exchange then hands it to all lanes",
        "tail-not-masked": "what lies at and behind a row's length is no score: it takes part in nothing, and its"
                           " probability is 0",
        "tail-in-sum": "the tail gets probability 0, as it should, but its numbers were in the sum (or the largest)",
        "no-scale": "scores are x times SCALE, in the sum and in what is written",
        "row-in-shared": "rows can be longer than shared memory; that is what going by the largest so far is good for",
        "row-in-local": "a local array has the size that the code says, and rows can be longer; on a GPU a large one"
                        " is in global memory, so keeping the row there saves no load",
        "one-lane-works": "one lane goes through the row score by score, while the other lanes of its warp stand by",
        "reads-again": "the largest, the sum and the result each go through the row, and each time it is loaded again",
    }  # fmt: skip

    def variation(self, rng):
        return {"warps": rng.choice([1, 2, 4]), "scale": float(rng.choice([0.125, 0.25, 0.5]))}

    def cases(self, v, rng):
        cases = []
        sizes = (1, 9), (2, 40), (v.warps + 1, 70), (v.warps + 2, 100), (1, 32 * REGISTERS + 64)
        for rows, low in sizes:
            width = low + int(rng.integers(1, 20))
            length_R = rng.integers(width // 2 + 1, width, rows)
            if low > 32 * REGISTERS:  # no row that a warp can keep
                length_R[:] = rng.integers(32 * REGISTERS + 1, width)
            x = rng.normal(0, 2 / v.scale, (rows, width))
            if rows > 1:
                x -= 160 / v.scale  # exp(score) is 0 in float32
                length_R[1] = rng.integers(3, 17)  # fewer than lanes
                place = np.arange(width)
                x[0] += 12 * place / (width * v.scale)  # larger ones come late
            for r in range(rows):
                x[r, length_R[r] :] = x[r, : length_R[r]].max() + 1 / v.scale  # a tail that would count
            out = np.full(x.shape, POISON, np.float32)  # no NaN: what is divided by 0 is one
            cases.append({"out": out, "x": x.astype(np.float32), "length_R": length_R.astype(np.int64)})
        return cases

    def disguise_inputs(self, v, inputs, rng):
        """What a length leaves out stays behind it."""
        x = inputs["x"].copy()
        for row, length in zip(x, inputs["length_R"], strict=True):
            row[:length] = rng.permutation(row[:length])
        return inputs | {"x": x}

    def blocks_and_threads(self, v, inputs):
        return -(-len(inputs["x"]) // v.warps), 32 * v.warps

    def expected_outputs(self, v, inputs, mistake=None, ran=None):
        x, out = inputs["x"].astype(np.float64), np.zeros(inputs["x"].shape)
        for r, length in enumerate(inputs["length_R"].tolist()):
            scores = x[r] * (1.0 if mistake == "no-scale" else v.scale)
            seen = len(scores) if mistake in ("tail-not-masked", "tail-in-sum") else length
            written = len(scores) if mistake in ("tail-not-masked", "tail-written") else length
            lanes = [scores[lane:seen:32] for lane in range(32)]
            top = max(scores[:seen])
            if mistake in (None, "no-scale", "tail-not-masked", "tail-in-sum", "tail-written"):
                tops, totals = [top] * 32, [sum(np.exp(scores[:seen] - top))] * 32
            elif mistake == "lanes-apart":
                tops = [max(mine, default=top) for mine in lanes]
                totals = [sum(np.exp(mine - t)) for mine, t in zip(lanes, tops, strict=True)]
            elif mistake == "lanes-not-rescaled":
                tops, totals = [top] * 32, [sum(sum(np.exp(mine - max(mine))) for mine in lanes if len(mine))] * 32
            elif mistake == "starts-at-0":
                with np.errstate(all="ignore"):
                    top = max(top, 0.0)
                    parts = np.exp((scores[:length] - top).astype(np.float32))
                    out[r, :length] = parts / np.sum(parts)
                continue
            elif mistake == "no-rescale":
                so_far = [np.maximum.accumulate(mine) for mine in lanes]
                each = [sum(np.exp(mine - tops)) * np.exp(tops[-1] - top)
                        for mine, tops in zip(lanes, so_far, strict=True) if len(mine)]  # fmt: skip
                tops, totals = [top] * 32, [sum(each)] * 32
            else:
                raise NotImplementedError  # told by counts, or by `recognise_mistake`
            for k in range(written):
                out[r, k] = np.exp(scores[k] - tops[k % 32]) / totals[k % 32]
        return out

    def error_bound(self, v, inputs):
        """The error of a probability, which is 1 at most.

        Two scores and their difference round by U of the score each, and exp makes a relative error of that; exp itself
        and the steps of a sum, with its shrinking, round by a few U, in whatever order the sum is taken.
        """
        scores = np.abs(inputs["x"].astype(np.float64) * v.scale).max()
        return (3 * scores + 3 * inputs["x"].shape[1] + 16) * U

    def alter_inputs(self, v, inputs):
        return {"row-0-for-all": repeat_first_row(inputs, "x", "length_R")}

    def recognise_mistake(self, v, tried):
        if mistake := super().recognise_mistake(v, tried):
            return mistake
        if not next(t for t in tried if t.miss).miss.is_of_value:
            return None
        judged = [t for t in tried if t.got is not None]
        if self._matches_all_trials(
            v, tried, lambda t: self.expected_outputs(v, t.inputs, "tail-written")
        ):  # it is not in the sum
            return "tail-not-masked"
        if self._only_short_rows_are_no_numbers(v, judged):
            return "nothing-less-nothing"
        return "no-rescale" if self._sums_too_large(v, judged) else None

    def _only_short_rows_are_no_numbers(self, v, judged):
        """Rows with fewer numbers than lanes, and no others."""
        some = False
        for t in judged:
            want, bound = self.expected_outputs(v, t.inputs), self.error_bound(v, t.inputs)
            for r, length in enumerate(t.inputs["length_R"]):
                if are_same((t.got[0][r],), (want[r],), bound):
                    continue
                if length >= 32 or not np.isnan(t.got[0][r]).any():
                    return False
                some = True
        return some

    def _sums_too_large(self, v, judged):
        """All probabilities of a row too small by the same factor: the sum lacks some shrinking, by whatever path."""
        factors = []
        for t in judged:
            want = self.expected_outputs(v, t.inputs)
            for r, length in enumerate(t.inputs["length_R"]):
                got = t.got[0][r].astype(np.float64)
                if np.isnan(got).any() or got[length:].any() or not (got[:length] > 0).all():
                    return False
                ratio = got[:length] / want[r, :length]
                if np.ptp(ratio) > 1e-3 * ratio[0]:
                    return False
                factors.append(ratio[0])
        # Where each lane has one number, nothing can go wrong in the lanes; a factor of one for all rows is no mistake.
        return bool(factors) and max(factors) <= 1.001 and min(factors) < 0.99 and max(factors) > 0.999

    def describe_difference(self, v, inputs, got, want):
        off = ~(np.abs(got[0] - want[0]) <= self.error_bound(v, inputs))
        r, k = (int(i) for i in np.argwhere(off)[0])
        mine, length = got[0][r, k], int(inputs["length_R"][r])
        seen = "is no number" if np.isnan(mine) else "was never written" if mine == POISON else f"is {mine:.6g}"
        row = got[0][r, :length]
        whole = (
            "" if np.isnan(row).any() else f", and the row's first {length} add up to {row.sum(dtype=np.float64):.4g}"
        )
        return (
            f"{self.call(inputs)}: out[{r}, {k}] {seen}; right is {want[0][r, k]:.6g}{whole} (length {length}, largest"
            f" score {float(inputs['x'][r, :length].max()) * v.scale:.4g})."
        )

    def find_excess_cost(self, v, trial):
        held, rows = trial.ran.shared_bytes, len(trial.inputs["x"])
        if held > ROOM:
            message = f"The shared arrays of a block hold {held:,} bytes; {ROOM} are the most."
            return Miss(message, "row-in-shared", {"held": held, "limit": ROOM}, shows_input=False)
        if "local" in trial.ran.names:
            return Miss("The result is right, with numbers kept in a local array.", "row-in-local", shows_input=False)
        for name, most in (("votes", 0), ("shuffles", 40 * rows)):
            if (count := trial.ran.counts[name]) > most:
                message = f"{self.call(trial.inputs)} makes {count:,} {name} for {rows} row(s); {most} are the most."
                return Miss(message, None, {name: count, "limit": most}, shows_input=False, is_explained=True)
        seen = int(trial.inputs["length_R"].sum())
        loads, limit = (
            trial.ran.counts["global_loads"],
            2 * seen + 2 * 32 * rows,
        )  # and each lane its row's length, twice
        numbers = {"global_loads": loads, "limit": limit}
        by_array = {name: trial.ran.touched[name][0] for name in ("x", "length_R", "out")}
        of_rows, most_of_rows = by_array["x"] + by_array["out"], 2 * seen + 32 * rows  # each lane may begin with one
        if loads > limit or of_rows > most_of_rows:
            message = (
                f"{self.call(trial.inputs)} loads {loads:,} numbers for {seen:,} scores ({loads / seen:.1f} for each);"
                f" {limit:,} are the most, {most_of_rows:,} of them of x and out."
            )
            message += f" They are {by_array['x']:,} of x, {by_array['out']:,} of out"
            message += f" and {by_array['length_R']:,} of length_R."
            mistake = "reads-again" if by_array["x"] > 2 * seen else None
            return Miss(message, mistake, numbers, shows_input=False, is_explained=True)
        requests = sum(a["requests"] for a in trial.ran.accesses if a["kind"] == "load" or reads_global(a))
        if requests > (most := int(sum(2 * -(-trial.inputs["length_R"] // 32))) + 6 * rows):
            message = f"{self.call(trial.inputs)}: warps ask for numbers {requests:,} times, where whole warps ask"
            return Miss(f"{message} {most:,} times at the most.", "one-lane-works", numbers, shows_input=False)
        return None

    def praise(self, v, tried):
        last = tried[-1]
        return f"{last.ran.counts['global_loads'] / int(last.inputs['length_R'].sum()):.2f} loads for each score."
