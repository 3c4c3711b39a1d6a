"""Exercise 1: a guard in two dimensions, to be mended."""

from __future__ import annotations

import re

import numpy as np

from ..exercise import KernelTask, unwritten


class Task(KernelTask):
    kernel = "scale"
    shape = ""
    known = {
        "less-or-equal": "indices end one before the size: a guard with <= lets one row and one column more through",
        "guard-lets-through": "the grid is rounded up to whole blocks in both directions, so a thread beyond the last"
                              " row or beyond the last column must do nothing",
        "thread-index-alone": "threadIdx counts within one block: every block works on the first tile, and nobody on"
                              " the others",
        "axes-swapped": "x runs along a row, which is the last axis: a[y, x]",
    }  # fmt: skip

    def variation(self, rng):
        across, down = rng.permutation([4, 8, 16])[:2].tolist()
        return {"across": across, "down": down, "factor": rng.integers(2, 9)}

    def cases(self, v, rng):
        cases = []
        for blocks_down, blocks_across in ((1, 1), (1, 3), (3, 1), (2, 3)):
            rows = blocks_down * v.down - int(rng.integers(v.down // 2, v.down))
            columns = blocks_across * v.across - int(rng.integers(v.across // 2, v.across))
            cases.append({"out": unwritten((rows, columns), np.int32),
                          "a": rng.integers(1, 99, (rows, columns)).astype(np.int32)})  # fmt: skip
        full = (2 * v.down, v.across)
        cases.append({"out": unwritten(full, np.int32), "a": np.ones(full, np.int32)})
        return cases

    def launch(self, v, inputs):
        rows, columns = inputs["a"].shape
        return (-(-columns // v.across), -(-rows // v.down)), (v.across, v.down)

    def expected(self, v, inputs, mistake=None, ran=None):
        a, out = inputs["a"], inputs["out"].copy()
        rows, columns = a.shape
        for y in range(rows):
            for x in range(columns):
                reached = True
                if mistake == "thread-index-alone":
                    reached = x < v.across and y < v.down
                elif mistake == "axes-swapped":
                    reached = y < ran.blocks[0] * v.across and x < ran.blocks[1] * v.down
                elif mistake is not None:
                    raise NotImplementedError  # told by the index at which the emulator stops
                if reached:
                    out[y, x] = v.factor * a[y, x]
        return out

    def recognise(self, v, tried):
        beyond = []  # by how much each wild index misses
        for trial in tried:
            for f in trial.ran.findings if trial.ran else ():
                if f["kind"] == "outside" and (index := re.search(r"\[(\d+), (\d+)\] lies outside", f["message"])):
                    beyond.append(max(int(i) - n for i, n in zip(index.groups(), trial.inputs["a"].shape, strict=True)))
        if not beyond:
            return super().recognise(v, tried)
        return "less-or-equal" if max(beyond) == 0 else "guard-lets-through"
