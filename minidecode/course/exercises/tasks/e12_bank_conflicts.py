"""Exercise 12: a pad against bank conflicts."""

from __future__ import annotations

import numpy as np

from ..kernel_task import KernelTask
from ..results import make_unwritten_array
from ..verdict import Miss

ROWS = 32


class Task(KernelTask):
    kernel = "product"
    ranked = "shared_loads"
    shape = ""
    mistake_of = {"race": "no-barrier", "uninitialised": "no-barrier"}
    known = {
        "no-pad": "rows lie a multiple of 32 words apart, so a column of the tile lies in one bank, which serves its 32"
                  " lanes one after the other",
        "wrong-axis": "a row more does not change how far rows lie apart: it is the last axis that says so",
        "even-pad": "with the pad, rows lie an even number of words apart: two times that, and so on, share banks; only"
                    " odd distances go round all 32",
        "conflict-moved": "the reads no longer conflict, but now the lanes that fill the tile write down a column",
        "loads-down-columns": "the tile is there, but neighbouring lanes fill it from numbers of `a` that lie a row"
                              " apart: each of them moves a sector of its own",
        "every-lane-stages-all": "the lanes of a block share what one of them stages: each weight is to be brought by"
                                 " one lane, not by all 32",
        "broadcast-avoided": "that all lanes read the same word is no conflict: one pass serves them all, so copies of"
                             " it for each lane cost stores and room, and gain nothing",
        "weights-not-staged": "the lanes that read one shared word at once are served in one pass: there was no reason"
                              " to go back to global memory for it",
        "tile-taken-out": "each thread reads a row of its own from global memory, where neighbours lie a row apart:"
                          " no bank conflicts, but many times the sectors",
        "shuffles-for-a-tile": "numbers that go from lane to lane in registers need no tile, and a row that is added up"
                               " by shuffles takes five of them; what is to be mended here is the tile",
        "no-barrier": "a thread reads what another one has put into the tile, with nothing that makes it wait",
    }  # fmt: skip

    def variation(self, rng):
        return {"width": rng.choice([32, 64, 96])}

    def cases(self, v, rng):
        cases = []
        for blocks in (1, 2, 3):
            a = (rng.integers(-99, 100, (ROWS * blocks, v.width)) / 16).astype(np.float32)
            w = (rng.choice([-1, 1], v.width) * rng.integers(1, 40, v.width) / 8).astype(np.float32)
            cases.append({"out": make_unwritten_array((len(a),)), "a": a, "w": w})
        return cases

    def blocks_and_threads(self, v, inputs):
        return len(inputs["a"]) // ROWS, ROWS

    def expected_outputs(self, v, inputs, mistake=None, ran=None):
        if mistake is not None:
            raise NotImplementedError  # told by counts, or by the emulator
        # Multiples of 1 / 128, sums far below 2**24 of them: float32 is exact, in any order.
        return np.array(
            [sum(float(x) * float(y) for x, y in zip(row, inputs["w"], strict=True)) for row in inputs["a"]]
        )

    def find_excess_cost(self, v, trial):
        ran, a = trial.ran, trial.inputs["a"]
        staged = a.size + len(a) // ROWS * v.width  # each number of `a` once, the weights once a block
        numbers = {name: ran.counts[name] for name in ("bank_conflicts", "shared_stores", "global_loads")}
        numbers["limit"] = staged
        if numbers["bank_conflicts"]:
            message = f"{self.call(trial.inputs)}: {numbers['bank_conflicts']:,} passes of shared memory too many."
            return Miss(" ".join([message, *(c for c in ran.costs if "pass" in c)]), self._name_cause(v, ran), numbers,
                        ran.picture, shows_input=False)  # fmt: skip
        if numbers["shared_stores"] > staged:
            message = f"writes {numbers['shared_stores']:,} numbers into shared memory; {staged:,} are needed."
            message, mistake = (
                f"{message}{self._describe_repeated_stores(trial)}",
                self._name_mistake_by_stores(v, trial),
            )
            return Miss(f"No conflicts. But {self.call(trial.inputs)} {message}", mistake, numbers, shows_input=False)
        if numbers["global_loads"] > staged:
            message = f"loads {numbers['global_loads']:,} numbers from global memory; {staged:,} are needed."
            due, loaded = {"a": a.size, "w": staged - a.size}, {name: ran.touched[name][0] for name in ("a", "w")}
            often = [name for name in due if loaded[name] > due[name]]
            message = " ".join(
                [message, *(f"It loads {loaded[n]:,} from {n}, where {due[n]:,} would do." for n in often)]
            )
            mistake = "weights-not-staged" if often == ["w"] and numbers["shared_stores"] <= a.size else None
            return Miss(f"No conflicts. But {self.call(trial.inputs)} {message}", mistake, numbers, shows_input=False)
        fewest = 4 * (staged + len(a)) // 32
        if ran.counts["sectors"] > 2 * fewest:
            message = f"{self.call(trial.inputs)} moves {ran.counts['sectors']:,} sectors; {fewest:,} hold the numbers."
            mistake = "tile-taken-out" if numbers["shared_stores"] < a.size else "loads-down-columns"
            return Miss(" ".join(["No conflicts. But", message, *ran.costs]), mistake, numbers, shows_input=False)
        if moved := {name: ran.counts[name] for name in ("shuffles", "votes", "atomics") if ran.counts[name]}:
            message = " and ".join(f"{count:,} {name}" for name, count in moved.items())
            mistake = "shuffles-for-a-tile" if "shuffles" in moved else None
            message = f"No conflicts. But {self.call(trial.inputs)} is right by {message}; the tile is to be kept."
            return Miss(message, mistake, numbers | moved, shows_input=False, is_explained=True)
        if ran.handed_over < (due := a.size * 31 // 32):
            message = f"hands {ran.handed_over:,} numbers to other threads by shared memory; {due:,} of `a` are due."
            numbers["handed_over"] = ran.handed_over
            return Miss(f"No conflicts. But {self.call(trial.inputs)} {message}", None, numbers, shows_input=False,
                        is_explained=True)  # fmt: skip
        return None

    def _describe_repeated_stores(self, trial):
        """In words: shared arrays whose places are written more than once each."""
        blocks, ran = trial.ran.blocks[0], trial.ran
        places = {name: blocks * int(np.prod(shape)) for name, shape in ran.shared.items()}
        again = [name for name in places if ran.touched_shared[name][1] > places[name]]
        return "".join(f" {name} has {places[name]:,} places and is written {ran.touched_shared[name][1]:,} times."
                       for name in again)  # fmt: skip

    def _name_mistake_by_stores(self, v, trial):
        """Names the mistake by the array of the weights: written by all lanes, or holding a copy for each."""
        blocks, ran = trial.ran.blocks[0], trial.ran
        for name, shape in ran.shared.items():
            size, stores = int(np.prod(shape)), ran.touched_shared[name][1]
            if size < 2 * v.width and stores == ran.touched["w"][0] == blocks * ROWS * v.width:
                return "every-lane-stages-all"
        large = [name for name, shape in ran.shared.items() if np.prod(shape) >= ROWS * v.width]
        copied = [name for name in large if ran.touched_shared[name][1] == blocks * ROWS * v.width]
        return "broadcast-avoided" if len(large) == len(copied) == 2 else None

    def _name_cause(self, v, ran):
        """Names the mistake by which accesses conflict, and by how the shared arrays lie."""
        queued = {"load": 0, "store": 0}
        for access in ran.accesses:
            if access["shared"] and access["kind"] in queued:
                queued[access["kind"]] += access["passes"] - access["requests"]
        if not queued["load"]:
            return "conflict-moved"
        tiles = [shape for shape in ran.shared.values() if len(shape) == 2]
        if any(down == ROWS and across == v.width for down, across in tiles):
            return "no-pad"
        if any(down > ROWS and across % 32 == 0 for down, across in tiles):
            return "wrong-axis"
        if any(down == ROWS and across > v.width and across % 2 == 0 for down, across in tiles):
            return "even-pad"
        return None

    def praise(self, v, tried):
        return f"No conflicts in {tried[-1].ran.counts['shared_loads']:,} shared loads."
