"""Exercise 8: a sum by a tree, with a barrier at each level."""

from __future__ import annotations

import math

import numpy as np

from ..kernel_task import KernelTask
from ..results import make_unwritten_array
from ..verdict import Miss


class Task(KernelTask):
    kernel = "total"
    ranked = "barriers"
    shape = ""
    mistake_of = {"barrier": "barrier-inside-if"}
    known = {
        "no-barrier": "a thread reads the partial sum of another one, and nothing makes it wait until that is written",
        "one-barrier-for-all-levels": "the block waits once, before the first level; but each level reads what the"
                                      " level before has written",
        "barrier-inside-if": "a barrier is for the whole block: the threads that have nothing to add must come by too",
        "odd-tail-lost": "a level with an odd number of partial sums is halved rounding down, and its last one is"
                         " left out",
        "row-tail-lost": "only whole rounds of THREADS numbers are read: what is left of the row is missing",
        "one-thread-adds": "one thread adds up what all should, one number after the other, while the others wait: as"
                           " many steps as numbers, where a tree has as many as it has levels",
        "atomic-adds": "atomic adds to one place take turns: as many steps as there are partial sums, in an order that"
                       " changes from run to run",
        "shuffles-in-turn": "one shuffle after the other brings one partial sum each: as many steps as lanes, where a"
                            " tree has as many as it has levels",
        "waits-twice": "each level waits more than once: one barrier orders all that lies before it and all behind it",
    }  # fmt: skip

    def variation(self, rng):
        return {"threads": rng.choice([48, 80, 96, 112])}

    def cases(self, v, rng):
        """No whole numbers, and the last row is too long for its rounds to be written down one by one."""
        t = v.threads
        widths = (
            5,
            t + int(rng.integers(1, 9)),
            2 * t,
            3 * t - int(rng.integers(1, 20)),
            40 * t + int(rng.integers(1, t)),
        )
        return [{"out": make_unwritten_array((rows,)), "a": rng.uniform(1, 999, (rows, width)).astype(np.float32)}
                for rows, width in zip((1, 1, 2, 3, 1), widths, strict=True)]  # fmt: skip

    def blocks_and_threads(self, v, inputs):
        return len(inputs["a"]), v.threads

    def levels(self, v):
        return math.ceil(math.log2(v.threads))

    def expected_outputs(self, v, inputs, mistake=None, ran=None):
        a = inputs["a"]
        out = np.zeros(len(a))
        for r in range(len(a)):
            width = a.shape[1] // v.threads * v.threads if mistake == "row-tail-lost" else a.shape[1]
            parts = [0.0] * v.threads
            for k in range(width):
                parts[k % v.threads] += float(a[r, k])
            if mistake == "odd-tail-lost":
                while len(parts) > 1:
                    half = len(parts) // 2
                    parts = [parts[k] + parts[k + half] for k in range(half)]
            elif mistake not in (None, "row-tail-lost"):
                raise NotImplementedError  # told by the emulator, or by counts
            out[r] = sum(parts)
        return out

    def error_bound(self, v, inputs):
        """All numbers are above 0, so each of the additions rounds by U of the sum at most, in any order."""
        a = inputs["a"].astype(np.float64)
        return a.sum(axis=1) * (-(-a.shape[1] // v.threads) + v.threads) * 2.0**-24

    def mistake_of_finding(self, v, trial, finding):
        if finding["kind"] == "race" and trial.ran.counts["barriers"]:
            return "one-barrier-for-all-levels"
        is_of_waiting = finding["kind"] in ("race", "uninitialised") and not finding.get("passed_by")
        return "no-barrier" if is_of_waiting else super().mistake_of_finding(v, trial, finding)

    def find_excess_cost(self, v, trial):
        blocks, width = trial.inputs["a"].shape
        levels, warps, ran = self.levels(v), -(-v.threads // 32), trial.ran
        barriers, asked, loaded = ran.counts["barriers"] // blocks, 0, 0
        for access in ran.accesses:
            if access["kind"] == "load" and access["shared"]:
                asked += access["requests"] // blocks
            elif access["kind"] == "load":
                loaded += access["requests"] // blocks
        rounds = -(-width // v.threads)
        most = (2 * levels + rounds) * warps + 4  # by each warp: two loads a level, and one a round to add to
        most_loaded = 2 * warps * rounds + 4
        numbers = {"barriers": barriers, "most_barriers": levels + 2, "shared_requests": asked, "most_requests": most}
        if ran.counts["atomics"]:
            message = f"{self.call(trial.inputs)} is right by {ran.counts['atomics']:,} atomic adds; a tree needs none."
            return Miss(message, "atomic-adds", numbers, shows_input=False)
        if ran.counts["votes"]:
            message = f"{self.call(trial.inputs)} is right by {ran.counts['votes']:,} votes; a tree needs none."
            return Miss(message, None, numbers, shows_input=False, is_explained=True)
        if (shuffles := ran.counts["shuffles"] // blocks) > 2 * levels * warps:
            message = f"{self.call(trial.inputs)}: the warps of each block shuffle {shuffles:,} times;"
            message = f"{message} {2 * levels * warps} are the most, two of each warp for each of {levels} levels."
            return Miss(message, "shuffles-in-turn", numbers | {"shuffles": shuffles}, shows_input=False)
        if barriers > levels + 2:
            message = (
                f"{self.call(trial.inputs)}: each block waits at {barriers} barriers; a tree over {v.threads} threads"
                f" has {levels} levels, and {levels + 2} barriers are the most."
            )
            return Miss(message, "waits-twice", numbers, shows_input=False)
        for requests, limit, where in ((asked, most, "shared memory"), (loaded, most_loaded, "global memory")):
            if requests > limit:
                message = (
                    f"{self.call(trial.inputs)}: warps ask {where} {requests:,} times in each block, one after the"
                    f" other; {limit} are the most that whole warps and a tree of {levels} levels need."
                )
                return Miss(message, "one-thread-adds", numbers, shows_input=False)
        if (busiest := max(ran.loads_of_threads)) > rounds + 1:
            message = (
                f"{self.call(trial.inputs)}: one thread loads {busiest:,} numbers of the row; {rounds} are the share"
                f" of each of {v.threads} threads."
            )
            numbers |= {"busiest": busiest, "share": rounds}
            return Miss(message, None, numbers, shows_input=False, is_explained=True)
        return None

    def praise(self, v, tried):
        blocks = len(tried[-1].inputs["a"])
        return f"{tried[-1].ran.counts['barriers'] // blocks} barriers a block for {self.levels(v)} levels."
