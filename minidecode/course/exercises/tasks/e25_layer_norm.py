"""Exercise 25: layer normalisation that reads each number once."""

from __future__ import annotations

import numpy as np

from ..exercise import repeat_first_row
from ..kernel_task import KernelTask, reads_global
from ..results import POISON, are_same
from ..verdict import Miss

U = 2.0**-24  # half a unit in the last place of float32
FAR = 8000.0  # where rows lie that are far from zero


class Task(KernelTask):
    kernel = "layer_norm"
    ranked = "barriers"
    shape = ""
    mistake_of = {"race": "no-barrier", "uninitialised": "no-barrier"}
    known = {
        "squares-minus-square": "E[x^2] - mean^2 takes one large number from another: on rows far from zero what is"
                                " left of the variance is rounding",
        "epsilon-outside": "epsilon is added to the variance, inside of the root: outside it counts for far more or far"
                           " less than it should on rows that hardly vary",
        "epsilon-forgotten": "without epsilon, rows that hardly vary are blown up until they vary like all others",
        "one-less": "the variance here is the mean of WIDTH squares: it is divided by WIDTH, not by one less",
        "not-centred": "the mean comes off what is written, too, not only off what is squared",
        "reads-again": "the row comes from global memory more than once, and that is what costs: a norm computes little"
                       " for each number that it moves",
        "tail-not-left-out": "WIDTH is no multiple of THREADS: in the last round the last threads have no number of the"
                             " row, and what lies in their place is whatever was there",
        "no-barrier": "a thread reads what another one has staged, with nothing that makes it wait",
    }  # fmt: skip

    def variation(self, rng):
        return {
            "width": rng.choice([110, 120, 150]),
            "threads": rng.choice([32, 64]),
            "eps": float(rng.choice([1e-5, 1e-4, 1e-3])),
        }

    def cases(self, v, rng):
        cases = []
        for rows in (1, 2, 5):
            x = rng.standard_normal((rows, v.width))
            if rows > 1:
                x[1] = np.sqrt(v.eps) * x[1] / 2  # hardly varies: epsilon decides
            if rows > 2:
                x[2:] += np.array([[FAR], [-FAR], [1.5 * FAR]]) * rng.uniform(1, 1.3)
            gain, shift = rng.uniform(0.5, 2, v.width), rng.uniform(-3, 3, v.width)
            out = np.full(x.shape, POISON, np.float32)  # no NaN: a root of what is below zero is one
            x, gain, shift = (a.astype(np.float32) for a in (x, gain, shift))
            cases.append({"out": out, "x": x, "gain": gain, "shift": shift})
        return cases

    def blocks_and_threads(self, v, inputs):
        return len(inputs["x"]), v.threads

    def expected_outputs(self, v, inputs, mistake=None, ran=None):
        x, gain, shift = (inputs[name].astype(np.float64) for name in ("x", "gain", "shift"))
        out = np.zeros(x.shape)
        for r in range(len(x)):
            mean = sum(x[r]) / v.width
            variance = sum((n - mean) ** 2 for n in x[r]) / (v.width - (mistake == "one-less"))
            if mistake == "epsilon-outside":
                spread = np.sqrt(variance) + v.eps
            elif mistake == "epsilon-forgotten":
                spread = np.sqrt(variance)
            elif mistake in (None, "one-less", "not-centred"):
                spread = np.sqrt(variance + v.eps)
            else:
                raise NotImplementedError  # told by the emulator, by loads, or by `recognise_mistake`
            out[r] = (x[r] - (0 if mistake == "not-centred" else mean)) / spread * gain + shift
        return out

    def error_bound(self, v, inputs):
        """The error of float32 sums in any order: the mean is off by width * U * |x| at most, less the row's first
        number.

        All else that rounds (a difference, a root, a division, two products, a sum) is a few U of what is computed;
        that a sum of squares is off by width * U of itself moves the spread by half as much.
        """
        x, gain = inputs["x"].astype(np.float64), inputs["gain"].astype(np.float64)
        want = self.expected_outputs(v, inputs)
        most = np.abs(x).max(axis=1, keepdims=True)
        spread = np.sqrt(x.var(axis=1, keepdims=True) + v.eps)
        mean_is_off = (v.width + 2) * U * most
        normed = np.abs((x - x.mean(axis=1, keepdims=True)) / spread)
        return mean_is_off / spread * (1 + normed) * gain + (v.width + 8) * U * (normed * gain + np.abs(want) + 3)

    def alter_inputs(self, v, inputs):
        return {"row-0-for-all": repeat_first_row(inputs, "x")}

    def recognise_mistake(self, v, tried):
        """E[x^2] - mean^2: only the rows far from zero are wrong, for what is left of their variance is rounding."""
        if mistake := super().recognise_mistake(v, tried):
            return mistake
        near, far = [], []
        for t in tried:
            if t.got is None or not t.miss or not t.miss.is_of_value:
                continue
            want, bound = self.expected_outputs(v, t.inputs), self.error_bound(v, t.inputs)
            for r, row in enumerate(t.inputs["x"]):
                fine = are_same((t.got[0][r],), (want[r],), bound[r])
                (far if abs(float(row[0])) > FAR / 2 else near).append(fine)
        return "squares-minus-square" if all(near) and far and not all(far) else None

    def describe_difference(self, v, inputs, got, want):
        off = ~(np.abs(got[0] - want[0]) <= self.error_bound(v, inputs))
        r, d = (int(i) for i in np.argwhere(off)[0])
        mine = got[0][r, d]
        seen = "is no number" if np.isnan(mine) else "was never written" if mine == POISON else f"is {mine:.6g}"
        row = inputs["x"][r].astype(np.float64)
        return (
            f"{self.call(inputs)}: out[{r}, {d}] {seen}; right is {want[0][r, d]:.6g} ({int(off[r].sum())} of {v.width}"
            f" of this row are wrong; its mean is {row.mean():.4g}, its variance {row.var():.3g}; EPS = {v.eps:g})."
        )

    def mistake_of_finding(self, v, trial, finding):
        """A thread's own array of one number per round: in the last round, a thread that has none."""
        if finding["kind"] == "uninitialised" and finding["space"] == "local":
            is_last_round = finding["element"].endswith(f"[{v.width // v.threads}]")
            return "tail-not-left-out" if is_last_round and finding["thread"] >= v.width % v.threads else None
        return super().mistake_of_finding(v, trial, finding)

    def find_excess_cost(self, v, trial):
        size, loads = trial.inputs["x"].size, trial.ran.counts["global_loads"]
        most = {"x": size + size // 10 + v.threads * len(trial.inputs["x"]), "gain": size, "shift": size}
        limit = sum(most.values())  # of x, a number more by each thread
        if loads <= limit:
            return None
        loaded = {name: trial.ran.touched[name][0] for name in most}
        often = [name for name in most if loaded[name] > most[name]]
        message = (
            f"{self.call(trial.inputs)} loads {loads:,} numbers, {loads / size:.1f} for each that it writes; once"
            f" each of x, gain and shift would be 3, and {limit:,} loads are allowed."
        )
        message = " ".join(
            [message, *(f"It loads {loaded[name]:,} from {name}, where {size:,} would do." for name in often)]
        )
        return Miss(message, "reads-again" if "x" in often else None, {"global_loads": loads, "limit": limit},
                    shows_input=False)  # fmt: skip

    def praise(self, v, tried):
        last = tried[-1]
        message = f"{last.ran.counts['global_loads'] / last.inputs['x'].size:.2f} loads for each number written."
        loads = list(filter(reads_global, last.ran.accesses))
        part = sum(a["accesses"] for a in loads) / (32 * sum(a["requests"] for a in loads))
        return (
            message
            if part > 1 / 2
            else f"{message} But {part:.0%} of the lanes take part in them, and the others wait."
        )
