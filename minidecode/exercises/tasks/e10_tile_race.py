"""Exercise 10: a race in a tile, to be mended; each input runs in another order of the threads."""

from __future__ import annotations

import numpy as np

from ..exercise import KernelTask, same, several, unwritten
from ..verdict import Miss


class Task(KernelTask):
    kernel = "rotate"
    shape = ""
    known = {
        "no-barrier": "nothing orders what one thread writes into the tile and another one reads from it",
        "only-after-filling": "the tile is full before it is read, but a thread that is ahead fills it for the next"
                              " round while others still read this one's numbers",
        "only-before-refilling": "nobody refills the tile too early, but it is read before others have filled it",
        "syncwarp-for-a-block": "cuda.syncwarp() orders the 32 threads of a warp, and the tile belongs to all warps of"
                                " the block: it hides the race from small blocks, and leaves it",
        "barrier-inside-if": "a barrier is for the whole block: all threads must come by it, as often as each other",
        "tile-taken-out": "the numbers no longer go through shared memory; the tile is what is to be mended, for other"
                          " kernels cannot do without one",
    }  # fmt: skip

    def variation(self, rng):
        tile = rng.choice([64, 96, 128])
        return {"tile": tile, "shift": rng.integers(2, 30)}

    def cases(self, v, rng):
        cases = []
        for rounds, rows in ((1, 1), (2, 1), (2, 2), (3, 2), (3, 3), (4, 3)):
            a = rng.integers(100, 999, (rows, rounds * v.tile)).astype(np.int32)
            cases.append({"out": unwritten(a.shape, np.int32), "a": a})
        return cases

    def launch(self, v, inputs):
        return len(inputs["a"]), v.tile

    def options(self, v, inputs):
        return {"seed": int(inputs["a"].sum())}  # each input in its own order of threads

    def expected(self, v, inputs, mistake=None, ran=None):
        if mistake is not None:
            raise NotImplementedError  # told by the emulator
        a, out = inputs["a"], inputs["out"].copy()
        for r in range(a.shape[0]):
            for k in range(a.shape[1]):
                out[r, k] = a[r, k // v.tile * v.tile + (k + v.shift) % v.tile]
        return out

    def recognise(self, v, tried):
        """By all orders of the threads together: what goes wrong first differs from one to the other."""
        found = [f for t in tried if t.ran for f in t.ran.findings if f["severity"] == "error"]
        kinds = {f["kind"] for f in found}
        if not kinds & {"race", "uninitialised", "barrier"}:
            return super().recognise(v, tried)
        if "barrier" in kinds or any("this one passed by" in f["message"] for f in found):
            return "barrier-inside-if"
        names = next(t.ran.names for t in tried if t.ran)
        if "syncwarp" in names:
            return "syncwarp-for-a-block"
        if not any(name.startswith("syncthreads") for name in names):
            return "no-barrier"
        # Read before it was ever written, or written for the next round before it was read.
        return "only-before-refilling" if "uninitialised" in kinds else "only-after-filling"

    def overall(self, v, tried):
        raced = [t for t in tried if t.ran and any(f["kind"] == "race" for f in t.ran.findings)]
        lucky = [t for t in raced if same(t.left, several(self.expected(v, t.inputs)))]
        if not raced:
            return ""
        return f"Threads race on {len(raced)} of {len(tried)} inputs; on {len(lucky)} of those the numbers are right."

    def miss(self, v, trial):
        counts = trial.ran.counts
        if counts["shared_loads"] >= trial.inputs["a"].size:
            return None
        told = f"{self.call(trial.inputs)} is right, and reads {counts['shared_loads']:,} numbers from shared memory."
        return Miss(told, "tile-taken-out", {"shared_loads": counts["shared_loads"]}, shows_input=False)

    def praise(self, v, tried):
        return f"{tried[-1].ran.counts['barriers']:,} barriers on the last one, and no race in {len(tried)} orders."
