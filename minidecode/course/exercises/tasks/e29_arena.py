"""Exercise 29: places for arrays in one block of memory. Right answers are many: the plan itself is judged."""

from __future__ import annotations

import numpy as np

from ..numpy_task import NumPyTask
from ..results import find_fault_of_kind
from ..verdict import Miss

FAR = 2**40  # bytes: no block of these arrays is so large, and sums of such offsets still fit in 64 bits
MOST = 1.1  # times the peak of the worst of several greedy planners that all begin with what is large


class Task(NumPyTask):
    function = "plan"
    returns = ("offset_X",)
    known = {
        "frees-early": "an array's bytes are given away while its last reader still reads: the result of that call is"
                       " written over its own argument",
        "frees-late": "an array keeps its bytes for one call more than anybody needs them",
        "unaligned": "wide loads, and rows of whole sectors, want every array to begin at a multiple",
        "no-reuse": "each array has bytes of its own, as if no memory were ever free again",
        "first-come": "small arrays that happen to come early lie where a large one should have gone later",
    }  # fmt: skip

    def variation(self, rng):
        is_last = bool(rng.integers(2))
        text = "the last call that reads it" if is_last else "the first call that does not need it any more"
        return {"aligned": rng.choice([32, 64, 128, 256]), "end_is_needed": is_last, "end_text": text}

    def constants(self, v):
        return {"ALIGNED": v.aligned, "END_IS_NEEDED": v.end_is_needed}

    def cases(self, v, rng):
        unit = v.aligned

        def inputs(arrays):
            """From (bytes, first call, last call) of each, in an order of no meaning."""
            bytes_X, first_X, last_X = np.array(arrays)[rng.permutation(len(arrays))].T.copy()
            return {"bytes_X": bytes_X, "first_X": first_X, "end_X": last_X + (not v.end_is_needed)}

        size = int(rng.integers(2, 6)) * unit
        cases = [
            inputs([(size, 0, 0), (size, 1, 1)]),  # no two meet: one place
            inputs([(size, 0, 1), (size, 1, 2), (size, 2, 3), (size, 3, 4)]),  # a chain: two places
            inputs([(unit + 1, 0, 2), (2 * unit - 1, 0, 2), (3, 1, 2), (size, 3, 4)]),  # sizes beside multiples
            inputs([(unit, 0, 2), (2 * unit, 0, 0), (4 * unit, 1, 1), (size, 3, 3)]),
        ]
        for count in (int(rng.integers(16, 24)), int(rng.integers(30, 50))):
            cases.append(self._draw_order_sensitive_case(v, rng, inputs, count))
        return cases

    def _draw_order_sensitive_case(self, v, rng, inputs, count):
        """Drawn until a planner that takes arrays in order, or frees them late, needs more than is allowed."""
        for _ in range(2000):
            first_X = rng.integers(0, count, count)
            last_X = first_X + rng.geometric(0.35, count)
            bytes_X = rng.choice([1, 1, 2, 5, 9, 16], count) * v.aligned - rng.integers(0, 7, count)
            case = inputs(np.stack([bytes_X, first_X, last_X], axis=1))
            size_X, first_X, last_X = _sizes_and_lifetimes(v, case)
            come = _plan_in_order_of_writes(v, size_X, first_X, last_X)
            late = [_greedy_plan(order, size_X, first_X, last_X + 1, v.aligned, fit)
                    for order, fit in _orders_large_first(v, size_X, first_X, last_X)[:2]]  # fmt: skip
            if min(_peak_bytes(offset_X, size_X) for offset_X in (*come, *late)) > self._peak_limit(v, case):
                return case
        raise ValueError("no input was drawn on which the order matters")

    def _peak_limit(self, v, inputs):
        size_X, first_X, last_X = _sizes_and_lifetimes(v, inputs)
        plans = [_greedy_plan(order, size_X, first_X, last_X, v.aligned, fit)
                 for order, fit in _orders_large_first(v, size_X, first_X, last_X)]  # fmt: skip
        return int(MOST * max(_peak_bytes(offset_X, size_X) for offset_X in plans))

    def call(self, inputs):
        return f"plan({len(inputs['bytes_X'])} arrays, {int(inputs['bytes_X'].sum()):,} bytes)"

    def find_wrong_output(self, v, trial):
        if trial.got is None:
            return None
        if problem := self._find_unreadable_plan(trial):
            return problem
        offset_X, (size_X, first_X, last_X) = trial.got[0].astype(np.int64), _sizes_and_lifetimes(v, trial.inputs)
        meet_XX = _live_together(first_X, last_X)
        if (offset_X < 0).any():
            x = int((offset_X < 0).argmax())
            return Miss(f"{self.call(trial.inputs)}: offset_X[{x}] is {offset_X[x]}, before the block begins.")
        pairs = np.argwhere(np.triu(meet_XX & _share_bytes(offset_X, size_X), 1))
        if len(pairs):
            return Miss(self._overlap_message(trial, pairs, offset_X, size_X, first_X))
        if (offset_X % v.aligned).any():
            x = int((offset_X % v.aligned > 0).argmax())
            message = (
                f"offset_X[{x}] is {offset_X[x]:,}, {offset_X[x] % v.aligned} bytes behind a multiple of {v.aligned}"
            )
            return Miss(f"{self.call(trial.inputs)}: {message}.", "unaligned")
        return self._find_peak_beyond_limit(v, trial, offset_X, size_X, first_X, last_X)

    def _find_unreadable_plan(self, trial):
        """What cannot be read as a plan: another kind of result, or offsets that sums of 64 bits may not hold."""
        count = len(trial.inputs["bytes_X"])
        if problem := find_fault_of_kind(self.returns, trial.got, (np.zeros(count, np.int64),)):
            return problem
        far = [(x, offset) for x, offset in enumerate(trial.got[0].tolist()) if offset > FAR]
        if not far:
            return None
        x, offset = far[0]
        reason = (
            f"offset_X[{x}] is {offset:,}, and all {count} arrays have {int(trial.inputs['bytes_X'].sum()):,} bytes"
        )
        return Miss(f"{self.call(trial.inputs)}: {reason}.")

    def _overlap_message(self, trial, pairs, offset_X, size_X, first_X):
        x, y = pairs[0].tolist()
        begin, end = max(offset_X[x], offset_X[y]), min(offset_X[x] + size_X[x], offset_X[y] + size_X[y])
        more = f"; {len(pairs) - 1} more pairs do so" if len(pairs) > 1 else ""
        return (
            f"{self.call(trial.inputs)}: arrays {x} and {y} share the bytes {begin:,} to {end - 1:,}, and call"
            f" {max(first_X[x], first_X[y])} needs both{more}."
        )

    def _find_peak_beyond_limit(self, v, trial, offset_X, size_X, first_X, last_X):
        peak, limit = _peak_bytes(offset_X, size_X), self._peak_limit(v, trial.inputs)
        if peak <= limit:
            return None
        alive, separate = _bytes_alive(size_X, first_X, last_X), int(_align_size(size_X, v.aligned).sum())
        message = f"{self.call(trial.inputs)}: the block has {peak:,} bytes, and {limit:,} are the most. At one call"
        message += f" {alive:,} are needed; a buffer for each takes {separate:,}."
        numbers = {"peak": peak, "limit": limit, "alive": alive}
        return Miss(message, None, numbers)

    def recognise_mistake(self, v, tried):
        """All plans together: two arrays of a small one may share bytes, or not, for many reasons."""
        tried = [t for t in tried if t.got is not None]
        if any(self._find_unreadable_plan(t) for t in tried):
            return None
        plans = [(t.got[0].astype(np.int64), *_sizes_and_lifetimes(v, t.inputs)) for t in tried]
        shares = [np.triu(_share_bytes(offset_X, size_X), 1) for offset_X, size_X, _, _ in plans]
        together = list(zip(shares, plans, strict=True))
        if any((share_XX & _live_together(first_X, last_X)).any() for share_XX, (_, _, first_X, last_X) in together):
            shorter = [share_XX & _live_together(first_X, np.maximum(last_X - 1, first_X))
                       for share_XX, (_, _, first_X, last_X) in together]  # fmt: skip
            return None if any(s_XX.any() for s_XX in shorter) else "frees-early"
        if not any(share_XX.any() for share_XX in shares):
            return "no-reuse"
        for fit in (0, 1):
            if all(np.array_equal(offset_X, _plan_in_order_of_writes(v, *arrays)[fit]) for offset_X, *arrays in plans):
                return "first-come"
        longer = [share_XX & _live_together(first_X, last_X + 1) for share_XX, (_, _, first_X, last_X) in together]
        return None if any(s_XX.any() for s_XX in longer) else "frees-late"

    def praise(self, v, tried):
        last = tried[-1]
        size_X, first_X, last_X = _sizes_and_lifetimes(v, last.inputs)
        peak, alive = _peak_bytes(last.got[0].astype(np.int64), size_X), _bytes_alive(size_X, first_X, last_X)
        return f"The last block has {peak:,} bytes for {int(size_X.sum()):,}; {alive:,} are alive at one call."


def _sizes_and_lifetimes(v, inputs):
    """(bytes, first call, last call), the ends included."""
    last_X = inputs["end_X"] - (not v.end_is_needed)
    return inputs["bytes_X"], inputs["first_X"], last_X


def _align_size(size, unit):
    return -(-size // unit) * unit


def _live_together(first_X, last_X):
    return (first_X[:, None] <= last_X) & (first_X <= last_X[:, None])


def _share_bytes(offset_X, size_X):
    end_X = offset_X + size_X
    return np.maximum(offset_X[:, None], offset_X) < np.minimum(end_X[:, None], end_X)


def _peak_bytes(offset_X, size_X):
    return int((offset_X + size_X).max())


def _bytes_alive(size_X, first_X, last_X):
    return int((size_X @ ((first_X[:, None] <= first_X) & (first_X <= last_X[:, None]))).max())


def _orders_large_first(v, size_X, first_X, last_X):
    """Orders that begin with what is large, in bytes, in units or in bytes times calls; and both ways to take a gap."""
    ties = (np.arange(len(size_X)), -np.arange(len(size_X)), first_X - last_X, first_X)
    orders = [np.lexsort((tie, -large_X)) for large_X in (size_X, _align_size(size_X, v.aligned)) for tie in ties]
    orders.append(np.argsort(-size_X * (1 + last_X - first_X), kind="stable"))
    return [(order, fit) for order in orders for fit in ("lowest", "tightest")]


def _plan_in_order_of_writes(v, size_X, first_X, last_X):
    """Two plans of who takes arrays in the order in which they are written."""
    order = np.argsort(first_X, kind="stable")
    return [_greedy_plan(order, size_X, first_X, last_X, v.aligned, fit) for fit in ("lowest", "tightest")]


def _greedy_plan(order, size_X, first_X, last_X, unit, fit):
    """Each in turn takes the lowest or the tightest gap between those that it meets, or goes on top of them."""
    offset_X, placed = np.zeros(len(size_X), np.int64), []
    for x in order.tolist():
        meets = sorted((offset_X[y], offset_X[y] + size_X[y]) for y in placed
                       if first_X[x] <= last_X[y] and first_X[y] <= last_X[x])  # fmt: skip
        at, gaps = 0, []
        for begin, end in meets:
            if begin - at >= size_X[x]:
                gaps.append((begin - at, at))
            at = max(at, _align_size(end, unit))
        offset_X[x] = at if not gaps else gaps[0][1] if fit == "lowest" else min(gaps)[1]
        placed.append(x)
    return offset_X
