"""Exercise 10: a race in a tile, to be mended; each input runs in another order of the threads."""

from __future__ import annotations

import numpy as np

from ..kernel_task import KernelTask, waits_between
from ..results import are_same, as_tuple, make_unwritten_array
from ..verdict import Miss


class Task(KernelTask):
    kernel = "rotate"
    ranked = "barriers"
    shape = ""
    known = {
        "no-barrier": "nothing orders what one thread writes into the tile and another one reads from it",
        "only-after-filling": "the tile is full before it is read, but a thread that is ahead fills it for the next"
                              " round while others still read this one's numbers",
        "only-before-refilling": "no thread refills the tile too early, but it is read before others have filled it",
        "syncwarp-for-a-block": "cuda.syncwarp() orders the 32 threads of a warp, and the tile belongs to all warps of"
                                " the block: it hides the race from small blocks, and leaves it",
        "barrier-inside-if": "a barrier is for the whole block: all threads must come by it, as often as each other",
        "fence-for-a-barrier": "a fence makes sure in which order others see what one thread has written, and waits for"
                               " no thread: the others need not have come that far",
        "tile-for-oneself": "each thread takes out of the tile what it has put in itself: nothing goes through the tile"
                            " from one to the other, and with nothing to wait for there is nothing to mend",
        "tile-taken-out": "the numbers no longer go through shared memory; the tile is what is to be mended, for other"
                          " kernels cannot do without one",
    }  # fmt: skip

    def variation(self, rng):
        tile = rng.choice([64, 96, 128])
        return {"tile": tile, "shift": rng.integers(2, 30)}

    def cases(self, v, rng):
        cases = []
        for rounds, rows in ((1, 1), (2, 1), (2, 2), (3, 2), (3, 3), (13, 1)):
            a = rng.integers(100, 999, (rows, rounds * v.tile)).astype(np.int32)
            cases.append({"out": make_unwritten_array(a.shape, np.int32), "a": a})
        return cases

    def blocks_and_threads(self, v, inputs):
        return len(inputs["a"]), v.tile

    def emulator_options(self, v, inputs):
        return {"seed": int(inputs["a"].sum())}  # each input in its own order of threads

    def expected_outputs(self, v, inputs, mistake=None, ran=None):
        if mistake is not None:
            raise NotImplementedError  # told by the emulator
        a, out = inputs["a"], inputs["out"].copy()
        for r in range(a.shape[0]):
            for k in range(a.shape[1]):
                out[r, k] = a[r, k // v.tile * v.tile + (k + v.shift) % v.tile]
        return out

    def recognise_mistake(self, v, tried):
        """Names the mistake by all orders of the threads together: what goes wrong first differs between them."""
        errors = [f for t in tried if t.ran for f in t.ran.findings if f["severity"] == "error"]
        if not errors:
            return super().recognise_mistake(v, tried)
        if any(f["kind"] == "barrier" or "this one passed by" in f["message"] for f in errors):
            return "barrier-inside-if"
        if not all(f["kind"] in ("race", "uninitialised") and f["space"] == "shared" for f in errors):
            return None  # another array than the tile
        return self._name_missing_wait(next(t.ran for t in tried if t.ran), errors)

    def _name_missing_wait(self, ran, errors):
        """Names the mistake by what stands between filling and reading, and between reading and filling again."""
        waits = [waits_between(ran, f) for f in errors]
        if None in waits:
            return None  # the array is filled below the line that reads it: which round that was is not seen
        filled = all(any(name.startswith("syncthreads") for name in between) for between, _ in waits)
        refilled = all(any(name.startswith("syncthreads") for name in elsewhere) for _, elsewhere in waits)
        if filled and refilled:
            return None
        missing = set().union(*(elsewhere if filled else between for between, elsewhere in waits))
        if not filled and not refilled:
            missing = set(ran.waits.values())
        if "syncwarp" in missing:
            return "syncwarp-for-a-block"
        if any(name.startswith("threadfence") for name in ran.names):
            return "fence-for-a-barrier"
        if filled:
            return "only-after-filling"
        return "only-before-refilling" if refilled else "no-barrier"

    def summarize_trials(self, v, tried):
        raced = [t for t in tried if t.ran and any(f["kind"] == "race" for f in t.ran.findings)]
        lucky = [t for t in raced if are_same(t.left, as_tuple(self.expected_outputs(v, t.inputs)))]
        if not raced:
            return ""
        return f"Threads race on {len(raced)} of {len(tried)} inputs; on {len(lucky)} of those the numbers are right."

    def find_excess_cost(self, v, trial):
        counts, size = trial.ran.counts, trial.inputs["a"].size
        if trial.ran.exchanged >= size:
            if (stored := counts["shared_stores"]) >= size:
                return None
            message = f"{self.call(trial.inputs)} is right, and puts {stored:,} of {size:,} numbers into shared memory."
            return Miss(message, "tile-taken-out", {"shared_stores": stored}, shows_input=False)
        if counts["shared_loads"] >= size:
            message = (
                f"{self.call(trial.inputs)} is right; of {size:,} numbers threads take {trial.ran.exchanged:,} out of"
            )
            message += " the tile that another thread has put there."
            return Miss(message, "tile-for-oneself", {"exchanged": trial.ran.exchanged}, shows_input=False)
        message = (
            f"{self.call(trial.inputs)} is right, and reads {counts['shared_loads']:,} numbers from shared memory."
        )
        return Miss(message, "tile-taken-out", {"shared_loads": counts["shared_loads"]}, shows_input=False)

    def praise(self, v, tried):
        return f"{tried[-1].ran.counts['barriers']:,} barriers on the last one, and no race in {len(tried)} orders."
