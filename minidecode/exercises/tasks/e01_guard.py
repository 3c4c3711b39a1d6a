"""Exercise 1: a guard in two dimensions, to be mended."""

from __future__ import annotations

import ast
import re

import numpy as np

from ..exercise import KernelTask, unwritten


class Task(KernelTask):
    kernel = "scale"
    shape = ""
    known = {
        "less-or-equal": "indices end one before the size: a guard with <= lets one more through than there are",
        "one-size-for-both": "rows and columns each have a size of their own: with one size for both axes the guard is"
                             " right for square arrays, leaves out part of others or lets too much through",
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
        """The one mistake whose guards explain every trial; "less or equal" only where the file compares like that."""
        if not all(t.ran for t in tried):
            return None
        wild = [_wild_index(t) for t in tried]
        fits = {mistake for mistake, guards in GUARDS.items() for guard in guards
                if all(self._explains(v, guard, t, index) for t, index in zip(tried, wild, strict=True))}  # fmt: skip
        if "less-or-equal" in fits:
            fits = {"less-or-equal"} if _counts_the_size_in(tried[0].ran.source) else fits - {"less-or-equal"}
        return fits.pop() if len(fits) == 1 else None if any(wild) else super().recognise(v, tried)

    def _explains(self, v, guard, trial, index):
        """Whether `a[y, x]` behind this guard does what was seen: the wild index, or the output."""
        a, (across, down), blocks = trial.inputs["a"], trial.ran.threads[:2], trial.ran.blocks
        passed = [(y, x) for y in range(blocks[1] * down) for x in range(blocks[0] * across) if guard(y, x, *a.shape)]
        outside = {(y, x) for y, x in passed if y >= a.shape[0] or x >= a.shape[1]}
        if outside or index:
            return index in outside
        out = trial.inputs["out"].copy()
        for place in passed:
            out[place] = v.factor * a[place]
        return trial.got is not None and np.array_equal(trial.got[0], out)


GUARDS = {  # mistake -> what may stand in the place of y < rows and x < columns
    "less-or-equal": (
        lambda y, x, rows, columns: y <= rows and x <= columns,
        lambda y, x, rows, columns: y <= rows and x < columns,
        lambda y, x, rows, columns: y < rows and x <= columns,
    ),
    "guard-lets-through": (
        lambda y, x, rows, columns: True,
        lambda y, x, rows, columns: y < rows,
        lambda y, x, rows, columns: x < columns,
    ),
    "one-size-for-both": (
        lambda y, x, rows, columns: max(x, y) < rows,
        lambda y, x, rows, columns: max(x, y) < columns,
    ),
}


def _wild_index(trial) -> tuple[int, int] | None:
    """The index at which the emulator stopped this trial, if it did."""
    for f in trial.ran.findings:
        if f["kind"] == "outside" and (index := re.search(r"\[(\d+), (\d+)\] lies outside", f["message"])):
            return tuple(map(int, index.groups()))
    return None


def _counts_the_size_in(source: str) -> bool:
    """Whether the file has a comparison that lets the size itself through: `y <= rows`, `if y > rows: return`."""
    compared = [op for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Compare) for op in node.ops]
    return any(isinstance(op, ast.LtE | ast.GtE | ast.Gt) for op in compared)
