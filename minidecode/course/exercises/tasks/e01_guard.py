"""Exercise 1: a guard in two dimensions, to be mended."""

from __future__ import annotations

import ast
import itertools
import re

import numpy as np

from ..kernel_task import KernelTask
from ..results import make_unwritten_array


class Task(KernelTask):
    kernel = "scale"
    ranked = "sectors"
    shape = ""
    known = {
        "less-or-equal": "indices end one before the size: a guard with <= lets one more through than there are",
        "one-size-for-both": "rows and columns each have a size of their own: with one size for both axes the guard is"
                             " right for square arrays, leaves out part of others or lets too much through",
        "guard-lets-through": "the grid is rounded up to whole blocks in both directions, so a thread beyond the last"
                              " row or beyond the last column must do nothing",
        "thread-index-alone": "threadIdx counts within one block: every block works on the first tile, and none on"
                              " the others",
        "axes-swapped": "rows and columns have changed places: x runs along a row, which is the last axis: a[y, x],"
                        " with y < a.shape[0] and x < a.shape[1]",
    }  # fmt: skip

    def variation(self, rng):
        across, down = rng.permutation([4, 8, 16])[:2].tolist()
        return {"across": across, "down": down, "factor": rng.integers(2, 9)}

    def cases(self, v, rng):
        cases = []
        for blocks_down, blocks_across in ((1, 1), (1, 3), (3, 1), (2, 3)):
            rows = blocks_down * v.down - int(rng.integers(v.down // 2, v.down))
            columns = blocks_across * v.across - int(rng.integers(v.across // 2, v.across))
            cases.append({"out": make_unwritten_array((rows, columns), np.int32),
                          "a": rng.integers(1, 99, (rows, columns)).astype(np.int32)})  # fmt: skip
        full = (2 * v.down, v.across)
        cases.append({"out": make_unwritten_array(full, np.int32), "a": np.ones(full, np.int32)})
        return cases

    def blocks_and_threads(self, v, inputs):
        rows, columns = inputs["a"].shape
        return (-(-columns // v.across), -(-rows // v.down)), (v.across, v.down)

    def expected_outputs(self, v, inputs, mistake=None, ran=None):
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

    def recognise_mistake(self, v, tried):
        """The one mistake whose guards explain every trial; "less or equal" only where the file compares like that.

        "Axes swapped" only where the file says so, too: which index is the first to lie outside tells little.
        """
        if not all(t.ran for t in tried):
            return None
        wild = [_index_outside(t) for t in tried]
        if _has_changed_places(tried[0].ran.source):
            for guard, reads, writes in itertools.product(
                (_guard_in_order, _guard_with_swapped_axes),
                (_guard_in_order, _guard_with_swapped_axes),
                (_guard_in_order, _guard_with_swapped_axes),
            ):
                is_any = _guard_with_swapped_axes in (guard, reads, writes)
                if is_any and all(
                    self._fits_swaps(v, guard, reads, writes, *seen) for seen in zip(tried, wild, strict=True)
                ):
                    return "axes-swapped"
            return super().recognise_mistake(v, tried) if not any(wild) else None
        fits = {mistake for mistake, guards in GUARDS.items() for guard in guards
                if all(self._fits_guard(v, guard, t, index) for t, index in zip(tried, wild, strict=True))}  # fmt: skip
        if "less-or-equal" in fits:
            fits = {"less-or-equal"} if _lets_size_through(tried[0].ran.source) else fits - {"less-or-equal"}
        return fits.pop() if len(fits) == 1 else None if any(wild) else super().recognise_mistake(v, tried)

    def _fits_swaps(self, v, guard, reads, writes, trial, index):
        """Whether a trial did what a kernel does whose guard, reads and writes may each have exchanged their axes."""
        a, (across, down), blocks = trial.inputs["a"], trial.ran.threads[:2], trial.ran.blocks
        out, outside = trial.inputs["out"].copy(), set()
        for thread in itertools.product(range(blocks[1] * down), range(blocks[0] * across)):
            if not _is_within(guard(*thread), a.shape):
                continue
            source, place = reads(*thread), writes(*thread)
            if _is_within(source, a.shape) and _is_within(place, a.shape):
                out[place] = v.factor * a[source]
            else:
                outside.add(place if _is_within(source, a.shape) else source)
        if outside or index:
            return index in outside
        return trial.got is not None and np.array_equal(trial.got[0], out)

    def _fits_guard(self, v, guard, trial, index):
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


def _guard_in_order(y, x):
    return y, x


def _guard_with_swapped_axes(y, x):
    return x, y


def _is_within(place, shape):
    return place[0] < shape[0] and place[1] < shape[1]


def _has_changed_places(source: str) -> bool:
    """Whether the file holds x against the number of rows and y against that of columns, or has an index [x, y]."""
    axis, sizes, compared, indices = {}, {}, set(), set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Assign):
            for name, value, place in _list_assigned_names(node):
                axis |= {name: of_shape} if (of_shape := _axis_of_thread_index(value, place)) else {}
                sizes |= {name: size} if (size := _axis_of_size(value, place)) is not None else {}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            for one, two in ((node.left, node.comparators[0]), (node.comparators[0], node.left)):
                if isinstance(one, ast.Name) and one.id in axis:
                    sizes_of_pair = {
                        sizes.get(n.id) if isinstance(n, ast.Name) else _axis_of_size(n, None) for n in ast.walk(two)
                    }
                    compared |= {(axis[one.id], size) for size in sizes_of_pair - {None}}
        elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Tuple):
            indices.add(tuple(axis.get(n.id) for n in node.slice.elts if isinstance(n, ast.Name)))
    return compared == {("x", 0), ("y", 1)} or ("x", "y") in indices


def _list_assigned_names(node: ast.Assign):
    """(name, value, its place in the value, None if it is all of it) of each name that a statement assigns."""
    for target in node.targets:
        if isinstance(target, ast.Name):
            yield target.id, node.value, None
        elif isinstance(target, ast.Tuple):
            values = node.value.elts if isinstance(node.value, ast.Tuple) else None
            for k, name in enumerate(target.elts):
                if isinstance(name, ast.Name) and (values is None or len(values) == len(target.elts)):
                    yield name.id, values[k] if values else node.value, None if values else k


def _axis_of_thread_index(value: ast.expr, place: int | None) -> str | None:
    """ "x" or "y" of what cuda.grid(2) gives at this place, or of what is computed of threadIdx.x and its like."""
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr == "grid":
        return "xy"[place] if place in (0, 1) else None
    axes = {n.attr for n in ast.walk(value) if isinstance(n, ast.Attribute) and n.attr in ("x", "y")}
    return axes.pop() if len(axes) == 1 else None


def _axis_of_size(value: ast.expr, place: int | None) -> int | None:
    """The axis of `a.shape[0]`, or of a name that `a.shape` is unpacked into."""
    if isinstance(value, ast.Subscript) and isinstance(value.slice, ast.Constant):
        value, place = value.value, value.slice.value
    return place if isinstance(value, ast.Attribute) and value.attr == "shape" and place in (0, 1) else None


def _index_outside(trial) -> tuple[int, int] | None:
    """The index at which the emulator stopped this trial, if it did."""
    for f in trial.ran.findings:
        if f["kind"] == "outside" and (index := re.search(r"\[(\d+), (\d+)\] lies outside", f["message"])):
            return tuple(map(int, index.groups()))
    return None


def _lets_size_through(source: str) -> bool:
    """Whether the file has a comparison that lets the size itself through: `y <= rows`, `if y > rows: return`."""
    compared = [op for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Compare) for op in node.ops]
    return any(isinstance(op, ast.LtE | ast.GtE | ast.Gt) for op in compared)
