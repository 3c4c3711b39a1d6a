"""Exercise 14: the largest of a row by the lanes of a warp, without shared memory."""

from __future__ import annotations

import numpy as np

from ..exercise import repeat_first_row
from ..kernel_task import KernelTask, reads_global
from ..results import make_unwritten_array
from ..verdict import Miss


class Task(KernelTask):
    kernel = "below_top"
    ranked = "shuffles"
    shape = ""
    mistake_of = {"warp": "absent-lanes"}
    known = {
        "starts-at-0": "a row may hold numbers below zero only; the largest of nothing is -inf",
        "lane-0-only": "with shfl_down each lane looks at those above it, so after the last step lane 0 alone has seen"
                       " all; the others subtract what they happen to hold",
        "lane-0-writes-alone": "lane 0 writes the numbers that it has read itself; the others' stay unwritten",
        "lanes-apart": "each lane takes off the largest of its own numbers: what the lanes have found is never put"
                       " together",
        "half-a-warp": "the first exchange must reach across 16 lanes; without it each half has a largest of"
                       " its own",
        "absent-lanes": "an exchange waits for, or asks, every lane that its mask names: lanes that have left or stay"
                        " outside of the `if` hand over nothing",
        "shared-memory": "a warp needs none: lanes can read each other's registers by a shuffle, with no barrier and no"
                         " bank",
        "votes-by-halving": "a vote asks one question of all lanes: it takes dozens of them to find a number, which is"
                            " exact only as far as the halving goes; five shuffles bring the number itself",
        "shuffles-in-turn": "one shuffle after the other brings one lane's number each: 32 steps, where a tree takes 5",
        "every-lane-reads-all": "each lane goes through the whole row, so each number is asked for 32 times instead of"
                                " once",
        "one-lane-works": "one lane goes through the row number by number, while the other lanes of its warp stand by",
    }  # fmt: skip

    def variation(self, rng):
        return {"warps": rng.choice([1, 2, 4])}

    def cases(self, v, rng):
        cases = []
        """Numbers with all their binary digits. The last row is wider than registers that anybody writes down."""
        wide, widest = 64 + int(rng.integers(5, 27)), 32 * 40 + int(rng.integers(5, 27))
        sizes = (1, 5), (v.warps, int(rng.integers(17, 31))), (v.warps + 1, 32), (v.warps + 1, wide), (1, widest)
        for rows, columns in sizes:
            x = -3.0 - rng.permutation(rows * columns).reshape(rows, columns)  # all different, all below zero
            x = (x - rng.uniform(0, 0.9, x.shape)).astype(np.float32)
            if rows > 1:
                x[1:] += int(rng.integers(columns, 3 * columns))
                x[1:, rng.integers(columns // 2, columns)] += 500  # not in the lower half
            cases.append({"out": make_unwritten_array((rows, columns)), "x": x.astype(np.float32)})
        return cases

    def blocks_and_threads(self, v, inputs):
        return -(-len(inputs["x"]) // v.warps), 32 * v.warps

    def expected_outputs(self, v, inputs, mistake=None, ran=None):
        x, out = inputs["x"].astype(np.float64), inputs["out"].astype(np.float64)
        rows, columns = x.shape
        for r in range(rows):
            tops = [max(x[r, lane::32], default=-np.inf) for lane in range(32)]
            if mistake == "starts-at-0":
                tops = [max(0.0, *tops)] * 32
            elif mistake in ("lane-0-only", "lane-0-writes-alone"):
                for apart in (16, 8, 4, 2, 1):
                    tops = [max(t, tops[k + apart]) if k + apart < 32 else t for k, t in enumerate(tops)]
            elif mistake == "half-a-warp":
                tops = [max(tops[:16])] * 16 + [max(tops[16:])] * 16
            elif mistake is None:
                tops = [max(tops)] * 32
            elif mistake != "lanes-apart":
                raise NotImplementedError  # told by the emulator, or by counts
            for k in range(columns):
                if mistake != "lane-0-writes-alone" or k % 32 == 0:
                    out[r, k] = x[r, k] - tops[k % 32]
        return out.astype(np.float32)  # one subtraction, rounded once

    def alter_inputs(self, v, inputs):
        return {"row-0-for-all": repeat_first_row(inputs, "x")}

    def size_for_multiples(self, v, inputs):
        return inputs["x"].shape[1]

    def find_excess_cost(self, v, trial):
        counts, (rows, columns) = trial.ran.counts, trial.inputs["x"].shape
        size, loads = rows * columns, counts["global_loads"]
        shared = counts["shared_loads"] + counts["shared_stores"]
        limit = 2 * size + 32 * rows + 64  # each lane may begin with a number of its row
        numbers = {"shared": shared, "global_loads": loads, "limit": limit}
        if shared:
            message = f"{self.call(trial.inputs)} goes to shared memory {shared:,} times; 0 are allowed here."
            return Miss(message, "shared-memory", numbers, shows_input=False)
        if counts["atomics"]:
            message = (
                f"{self.call(trial.inputs)} is right by {counts['atomics']:,} atomics: its lanes meet in memory, which"
            )
            return Miss(f"{message} they need not.", None, numbers, shows_input=False, is_explained=True)
        for name, most, mistake in (("votes", 0, "votes-by-halving"), ("shuffles", 12 * rows, "shuffles-in-turn")):
            if (count := counts[name]) > most:
                message = f"{self.call(trial.inputs)} makes {count:,} {name} for {rows} row(s); {most} are the most."
                return Miss(message, mistake, numbers | {name: count}, shows_input=False)
        if loads > limit:
            message = f"{self.call(trial.inputs)} loads {loads:,} numbers where the rows hold {size:,}:"
            message += f" {loads / size:.1f} loads for each; {limit:,} are the most."
            each = trial.ran.loaded["x"]
            mistake = "every-lane-reads-all" if np.min(each) >= 32 else None
            return Miss(message, mistake, numbers, shows_input=False, is_explained=True)
        requests = sum(a["requests"] for a in trial.ran.accesses if a["kind"] == "load" or reads_global(a))
        if requests > (most := rows * (2 * -(-columns // 32) + 4)):
            message = f"{self.call(trial.inputs)}: warps ask for numbers {requests:,} times, where whole warps ask"
            return Miss(f"{message} {most:,} times at the most.", "one-lane-works", numbers, shows_input=False)
        return None

    def praise(self, v, tried):
        return f"{tried[-1].ran.counts['global_loads']:,} loads on the last one, and no shared memory."
