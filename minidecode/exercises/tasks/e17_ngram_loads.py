"""Exercise 17: the n-gram ban with few loads: tiles of tokens in shared memory."""

from __future__ import annotations

import numpy as np

from ..exercise import KernelTask, rows_alike
from ..verdict import Miss

MOST = 1.5  # loads for each token


class Task(KernelTask):
    kernel = "ban"
    shape = ""
    out = ("banned_RV",)
    known = {
        "nothing-staged": "each window loads its own tokens from global memory, so each token is loaded by all the"
                          " windows that it is in",
        "context-not-staged": "the windows come from the tile, but the newest N - 1 tokens, to which all are compared,"
                              " are loaded again for each of them",
        "stages-again": "tokens are put into the tile more than once: tiles overlap by far more than the N - 1 tokens"
                        " that a window needs beyond its start",
        "no-halo": "windows that begin in one tile and end in the next one are never looked at",
        "halo-not-filled": "the last windows of a tile need N - 1 tokens beyond it, and nobody has put them there",
        "no-barrier": "a window is read from the tile before other threads have put its tokens there",
        "no-barrier-before-refilling": "a thread that is ahead fills the tile with the next tokens while others still"
                                       " look at these",
        "whole-row-in-shared": "shared memory does not grow with the text: a block gets 48 KB, and the more it takes,"
                               " the fewer blocks run at once",
    }  # fmt: skip

    def variation(self, rng):
        n, threads = int(rng.choice([3, 4])), int(rng.choice([32, 64]))
        return {"n": n, "threads": threads, "room": 2 * threads + 2 * n}

    def cases(self, v, rng):
        cases = []
        for rows, low in ((1, v.n), (1, v.room // 2), (2, 3 * v.room), (3, 4 * v.room)):
            length = low + (int(rng.integers(1, 9)) if rows > 1 else 0)
            tokens_RM = rng.integers(0, 8, (rows, length + int(rng.integers(2, 9))), dtype=np.int32)
            if low == v.n:
                tokens_RM[:] = 5  # a run: the only window is the newest one
            else:
                self._plant(v, tokens_RM[:, :length])
            cases.append({"banned_RV": np.zeros((rows, 128), np.int32), "tokens_RM": tokens_RM, "length": length})
        return cases

    def _plant(self, v, tokens_RM):
        """The newest tokens once more at many places, so that some windows lie across the ends of any tiles."""
        newest = [20, 21, 22][: v.n - 1]  # said nowhere else
        rows, length = tokens_RM.shape
        tokens_RM[:, length - v.n + 1 :] = newest
        for r in range(rows):
            for k, start in enumerate(range(r % 3, length - 2 * v.n, 2 * v.n - 1)):
                tokens_RM[r, start : start + v.n] = [*newest, 24 + (k * rows + r) % 100]

    def launch(self, v, inputs):
        return len(inputs["tokens_RM"]), v.threads

    def expected(self, v, inputs, mistake=None, ran=None):
        if mistake is not None:
            raise NotImplementedError  # told by the emulator, by counts, or by `recognise`
        banned_RV = np.zeros_like(inputs["banned_RV"])
        for r, _, token in self._repeats(v, inputs):
            banned_RV[r, token] = 1
        return banned_RV

    def _repeats(self, v, inputs):
        """(row, start, last token) of each window that repeats the newest tokens."""
        length = inputs["length"]
        for r, row in enumerate(inputs["tokens_RM"].tolist()):
            for start in range(length - v.n + 1):
                *context, last = row[start : start + v.n]
                if context == row[length - v.n + 1 : length]:
                    yield r, start, last

    def altered(self, v, inputs):
        return {"row-0-for-all": rows_alike(inputs, "tokens_RM")}

    def recognise(self, v, tried):
        """Without a halo windows are lost at the ends of tiles, of whatever size the tiles are."""
        judged = [(t.got[0], t.inputs, list(self._repeats(v, t.inputs))) for t in tried if t.got]
        if not all(t.got for t in tried) or not any(t.miss and t.miss.is_of_value for t in tried):
            return super().recognise(v, tried)
        for tile in range(v.n + 1, v.room + 1):
            if all(np.array_equal(got, self._within(v, inputs, repeats, tile)) for got, inputs, repeats in judged):
                return "no-halo"
        return super().recognise(v, tried)

    def _within(self, v, inputs, repeats, tile):
        """The bans of windows that lie in one tile."""
        banned_RV = np.zeros_like(inputs["banned_RV"])
        for r, start, token in repeats:
            if start % tile + v.n <= tile:
                banned_RV[r, token] = 1
        return banned_RV

    def of_finding(self, v, trial, finding):
        waits = any(name.startswith("syncthreads") for name in trial.ran.names)
        if finding["kind"] == "race":
            return "no-barrier-before-refilling" if waits else "no-barrier"
        if finding["kind"] == "uninitialised":
            return "halo-not-filled" if trial.ran.counts["barriers"] else "no-barrier"
        return None

    def tell(self, v, inputs, got, want):
        row, token = np.argwhere(got[0] != want[0])[0]
        due = "should be banned and is not" if want[0][row, token] else "is banned and should not be"
        return f"{self.call(inputs)} with N = {v.n}: row {row}, token {token} {due}."

    def miss(self, v, trial):
        counts, rows, length = trial.ran.counts, len(trial.inputs["tokens_RM"]), trial.inputs["length"]
        held = sum(int(np.prod(shape)) for shape in trial.ran.shared.values())
        if held > v.room:
            told = f"The shared arrays of a block hold {held:,} numbers; ROOM = {v.room} is the most."
            return Miss(told, "whole-row-in-shared", {"held": held, "limit": v.room}, shows_input=False)
        tokens = rows * length
        loads, stores, limit = counts["global_loads"], counts["shared_stores"], int(MOST * tokens) + 2 * rows * v.n
        if loads <= limit:
            return None
        told = (
            f"{self.call(trial.inputs)} with N = {v.n} loads {loads:,} numbers for {tokens:,} tokens"
            f" ({loads / tokens:.1f} for each); {limit:,} are the most."
        )
        line = max((a for a in trial.ran.accesses if not a["shared"] and a["kind"] == "load"),
                   key=lambda a: a["accesses"])  # fmt: skip
        told += f" Line {line['line']} loads {line['accesses']:,} of them."
        mistake = "context-not-staged" if stores >= tokens // 2 else "nothing-staged"
        mistake = "stages-again" if stores > limit else mistake
        return Miss(told, mistake, {"global_loads": loads, "shared_stores": stores, "limit": limit}, shows_input=False)

    def praise(self, v, tried):
        last = tried[-1]
        tokens = len(last.inputs["tokens_RM"]) * last.inputs["length"]
        return f"{last.ran.counts['global_loads'] / tokens:.2f} loads for each token."
