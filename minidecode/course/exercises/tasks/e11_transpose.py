"""Exercise 11: a transpose that moves few sectors."""

from __future__ import annotations

import numpy as np

from ..kernel_task import KernelTask
from ..results import make_unwritten_array
from ..verdict import Miss

MOST = 1.25  # times the fewest sectors


class Task(KernelTask):
    kernel = "transpose"
    ranked = "bank_conflicts"
    shape = ""
    mistake_of = {"race": "no-barrier", "uninitialised": "no-barrier"}
    known = {
        "strided-writes": "neighbouring threads write to places a whole row apart, so each write moves a sector of its"
                          " own for 4 bytes",
        "strided-reads": "neighbouring threads read from places a whole row apart: the cost has moved from the writes"
                         " to the reads",
        "indices-not-swapped": "each tile is at its new place, but nothing inside of it is turned",
        "no-barrier": "a thread reads what another one has put into the tile, with nothing that makes it wait",
    }  # fmt: skip

    def variation(self, rng):
        return {"tile": rng.choice([16, 32])}

    def cases(self, v, rng):
        cases = []
        for down, across in ((1, 2), (2, 1), (2, 3)):
            rows, columns = v.tile * down, v.tile * across
            if down == 2:  # a tail, but whole sectors: multiples of 8 floats
                rows, columns = rows + 8 * int(rng.integers(1, 3)), columns + 8
            a = rng.integers(-999, 999, (rows, columns)).astype(np.float32)
            cases.append({"out": make_unwritten_array((columns, rows)), "a": a})
        return cases

    def blocks_and_threads(self, v, inputs):
        rows, columns = inputs["a"].shape
        return (-(-columns // v.tile), -(-rows // v.tile)), (v.tile, v.tile)

    def expected_outputs(self, v, inputs, mistake=None, ran=None):
        a, out = inputs["a"], inputs["out"].copy()
        for y in range(a.shape[0]):
            for x in range(a.shape[1]):
                if mistake == "indices-not-swapped":
                    left, top = x // v.tile * v.tile, y // v.tile * v.tile
                    if left + y - top < out.shape[0] and top + x - left < out.shape[1]:
                        out[left + y - top, top + x - left] = a[y, x]
                elif mistake is None:
                    out[x, y] = a[y, x]
                else:
                    raise NotImplementedError  # told by sectors, or by the emulator
        return out

    def find_excess_cost(self, v, trial):
        counts, fewest = trial.ran.counts, 2 * trial.inputs["a"].nbytes // 32
        numbers = {"sectors": counts["sectors"], "limit": int(MOST * fewest)}
        if counts["sectors"] <= MOST * fewest:
            return None
        names = {"store": "strided-writes", "load": "strided-reads", "atomic": None}
        wasted = dict.fromkeys(names.values(), 0)
        for access in trial.ran.accesses:
            wasted[names[access["kind"]]] += access["sectors"] - access["least_sectors"]
        message = f"{self.call(trial.inputs)} moves {counts['sectors']:,} sectors; {numbers['limit']:,} are allowed."
        mistake = max(wasted, key=wasted.get)
        return Miss(" ".join([message, *trial.ran.costs]), mistake, numbers, trial.ran.picture, shows_input=False)

    def praise(self, v, tried):
        return f"The last one moved {tried[-1].ran.counts['sectors']:,} sectors."
