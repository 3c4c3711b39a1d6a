"""Exercise 17: the n-gram ban with few loads: tiles of tokens in shared memory."""

from __future__ import annotations

import numpy as np

from ..exercise import repeat_first_row
from ..kernel_task import KernelTask, reads_global
from ..verdict import Miss

MOST = 1.5  # loads for each token


class Task(KernelTask):
    kernel = "ban"
    ranked = "global_loads"
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
        "halo-not-filled": "the last windows of a tile need N - 1 tokens beyond it, and no thread has put them there",
        "no-barrier": "tokens are read from shared memory before other threads have put them there",
        "no-barrier-before-refilling": "a thread that is ahead fills the tile with the next tokens while others still"
                                       " look at these",
        "one-thread-works": "one thread goes through the row token by token, while all others stand by",
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
                self._plant_repeats(v, tokens_RM[:, :length])
            cases.append({"banned_RV": np.zeros((rows, 128), np.int32), "tokens_RM": tokens_RM, "length": length})
        return cases

    def _plant_repeats(self, v, tokens_RM):
        """The newest tokens once more at many places, so that some windows lie across the ends of any tiles."""
        newest = [20, 21, 22][: v.n - 1]  # said nowhere else
        rows, length = tokens_RM.shape
        tokens_RM[:, length - v.n + 1 :] = newest
        for r in range(rows):
            for k, start in enumerate(range(r % 3, length - 2 * v.n, 2 * v.n - 1)):
                tokens_RM[r, start : start + v.n] = [*newest, 24 + (k * rows + r) % 100]

    def disguise_inputs(self, v, inputs, rng):
        """Other names for the tokens: equal ones stay equal."""
        return inputs | {"tokens_RM": rng.permutation(128).astype(np.int32)[inputs["tokens_RM"]]}

    def blocks_and_threads(self, v, inputs):
        return len(inputs["tokens_RM"]), v.threads

    def expected_outputs(self, v, inputs, mistake=None, ran=None):
        if mistake is not None:
            raise NotImplementedError  # told by the emulator, by counts, or by `recognise_mistake`
        banned_RV = np.zeros_like(inputs["banned_RV"])
        for r, _, token in self._list_repeats(v, inputs):
            banned_RV[r, token] = 1
        return banned_RV

    def _list_repeats(self, v, inputs):
        """(row, start, last token) of each window that repeats the newest tokens."""
        length = inputs["length"]
        for r, row in enumerate(inputs["tokens_RM"].tolist()):
            for start in range(length - v.n + 1):
                *context, last = row[start : start + v.n]
                if context == row[length - v.n + 1 : length]:
                    yield r, start, last

    def alter_inputs(self, v, inputs):
        return {"row-0-for-all": repeat_first_row(inputs, "tokens_RM")}

    def recognise_mistake(self, v, tried):
        """Without a halo windows are lost at the ends of tiles, of whatever size the tiles are."""
        first = next(t for t in tried if t.miss)
        if "held" in first.miss.numbers:
            longest = max(t.inputs["length"] for t in tried)
            return "whole-row-in-shared" if first.miss.numbers["largest"] >= longest else None
        if "global_loads" in first.miss.numbers:
            return self._name_mistake_by_loads(v, max(tried, key=lambda t: t.inputs["tokens_RM"].size))
        judged = [(t.got[0], t.inputs, list(self._list_repeats(v, t.inputs))) for t in tried if t.got]
        if not all(t.got for t in tried) or not any(t.miss and t.miss.is_of_value for t in tried):
            return super().recognise_mistake(v, tried)
        for tile in range(v.n + 1, v.room + 1):
            if all(
                np.array_equal(got, self._bans_within_tiles(v, inputs, repeats, tile))
                for got, inputs, repeats in judged
            ):
                return "no-halo"
        return super().recognise_mistake(v, tried)

    def _bans_within_tiles(self, v, inputs, repeats, tile):
        """The bans of windows that lie in one tile."""
        banned_RV = np.zeros_like(inputs["banned_RV"])
        for r, start, token in repeats:
            if start % tile + v.n <= tile:
                banned_RV[r, token] = 1
        return banned_RV

    def mistake_of_finding(self, v, trial, finding):
        ran = trial.ran
        if finding["space"] != "shared":
            return None
        is_tile = finding["array"] == self._largest_shared_array(ran)
        if finding["kind"] == "outside":
            return "whole-row-in-shared" if is_tile and self._stages_whole_row(v, trial, finding) else None
        if finding["kind"] == "race":
            if "written, read" in finding["turns"]:
                return "no-barrier"
            return "no-barrier-before-refilling" if is_tile and "read, written" in finding["turns"] else None
        if finding["kind"] != "uninitialised" or finding["passed_by"]:
            return None
        if "written" in finding["turns"] or (finding["epoch"] == 0 and finding["last_stored"] < 0):
            return "no-barrier"
        has_early_exit = any(f["kind"] == "early exit" for f in ran.findings)
        is_behind = is_tile and finding["index"] > finding["last_stored"] >= 0
        return "halo-not-filled" if is_behind and not has_early_exit else None

    def _stages_whole_row(self, v, trial, finding):
        """Before any barrier a place is filled that lies further behind the array than a halo would."""
        size = int(np.prod(trial.ran.shared[finding["array"]]))
        is_written = set(finding["lines"]) <= set(trial.ran.written.get(finding["array"], ()))
        return is_written and finding["epoch"] == 0 and size + v.n - 1 <= finding["index"] < trial.inputs["length"]

    def explain_finding(self, v, trial, finding):
        shape = trial.ran.shared.get(finding["array"] or "")
        if finding["kind"] != "outside" or shape is None or trial.inputs["length"] <= int(np.prod(shape)):
            return ""
        return f"{finding['array']} has room for {int(np.prod(shape))} of the row's {trial.inputs['length']} tokens."

    def _largest_shared_array(self, ran):
        """The name of the largest shared array."""
        return max(ran.shared, key=lambda name: int(np.prod(ran.shared[name])))

    def describe_difference(self, v, inputs, got, want):
        row, token = np.argwhere(got[0] != want[0])[0]
        mine, right = int(got[0][row, token]), int(want[0][row, token])
        due = "should be banned and is not" if right else "is banned and should not be"
        message = f"{self.call(inputs)} with N = {v.n}: row {row}, token {token} {due}"
        return f"{message}." if mine in (0, 1) else f"{message}: {mine} stands there, and {right} is right."

    def find_excess_cost(self, v, trial):
        counts, rows, length = trial.ran.counts, len(trial.inputs["tokens_RM"]), trial.inputs["length"]
        held = sum(int(np.prod(shape)) for shape in trial.ran.shared.values())
        if held > v.room:
            message = f"The shared arrays of a block hold {held:,} numbers; ROOM = {v.room} are allowed."
            largest = max(int(np.prod(shape)) for shape in trial.ran.shared.values())
            numbers = {"held": held, "largest": largest, "limit": v.room}
            return Miss(message, None, numbers, shows_input=False, is_explained=True)
        tokens = rows * length
        loads, stores, limit = counts["global_loads"], counts["shared_stores"], int(MOST * tokens) + 2 * rows * v.n
        if loads <= limit:
            return self._find_requests_by_few_lanes(trial)
        message = (
            f"{self.call(trial.inputs)} with N = {v.n} loads {loads:,} numbers for {tokens:,} tokens"
            f" ({loads / tokens:.1f} for each); {limit:,} are allowed."
        )
        line = max(filter(reads_global, trial.ran.accesses), key=lambda a: a["accesses"])
        message += f" Line {line['line']} loads {line['accesses']:,} of them."
        numbers = {"global_loads": loads, "shared_stores": stores, "limit": limit}
        return Miss(message, None, numbers, shows_input=False, is_explained=True)

    def _find_requests_by_few_lanes(self, trial):
        """Whether few lanes take part in most requests: eight of 32, with a few for what is left over, are enough."""
        rows, length = len(trial.inputs["tokens_RM"]), trial.inputs["length"]
        requests, most = sum(a["requests"] for a in filter(reads_global, trial.ran.accesses)), rows * (length // 8 + 16)
        if requests <= most:
            return None
        message = f"{self.call(trial.inputs)}: warps ask for tokens {requests:,} times, where whole warps ask {most:,}"
        numbers = {"requests": requests, "most_requests": most}
        return Miss(f"{message} times at the most.", "one-thread-works", numbers, shows_input=False)

    def _name_mistake_by_loads(self, v, trial):
        """Names the mistake by how often the newest tokens were loaded, and the others in the middle."""
        length, ran = trial.inputs["length"], trial.ran
        loaded_RM = ran.loaded["tokens_RM"].reshape(trial.inputs["tokens_RM"].shape)
        newest, others = loaded_RM[:, length - v.n + 1 : length], loaded_RM[:, v.n : length - v.n]
        starts, once = length - v.n + 1, 1.25  # tiles share a few
        if (newest >= starts).any(axis=1).all():  # the first of them, for every window
            if others.sum() <= once * others.size and ran.counts["shared_stores"] >= others.size:
                return "context-not-staged"
            return "nothing-staged" if not ran.shared else None
        return "stages-again" if ran.counts["shared_stores"] > MOST * length * len(loaded_RM) else None

    def praise(self, v, tried):
        last = tried[-1]
        tokens = len(last.inputs["tokens_RM"]) * last.inputs["length"]
        return f"{last.ran.counts['global_loads'] / tokens:.2f} loads for each token."
