"""Exercise 16: the same ban by a kernel, a thread for each start."""

from __future__ import annotations

import numpy as np

from ..kernel_task import KernelTask
from ..verdict import Miss


class Task(KernelTask):
    kernel = "ban"
    ranked = "global_loads"
    out = ("banned_RV",)
    known = {
        "one-block": "starts beyond blockDim.x are never looked at",
        "n-off-by-one": "a window is compared with one token more than it should be, so only what repeats N + 1 tokens"
                        " is found",
        "last-window-lost": "the window that ends with the text is a window as well: `a a a` bans a fourth `a`"
                            " with N = 3",
        "one-thread-for-all": "one thread goes through the starts of a row one after the other; they do not depend on"
                              " each other, so each can have a thread",
        "row-stride": "rows lie `stride` apart, however long their text is: this reads row 0's tail as row 1",
    }  # fmt: skip

    def variation(self, rng):
        n = int(rng.choice([2, 3, 4]))
        return {"n": n, "threads": rng.choice([32, 64, 96]), "most": 4 * n + 4}

    def constants(self, v):
        return {"N": v.n, "THREADS": v.threads}

    def cases(self, v, rng):
        """Three that can be read at a glance, each with a mistake that it is the first to show; then drawn ones."""
        run = self._make_case(np.full((1, v.n), 3), [v.n])  # one window, which is the last one
        rows = np.stack([np.arange(v.n + 4), np.full(v.n + 4, 9)])  # the second row repeats itself, the first does not
        end = np.full((1, v.threads + v.n), 1)  # what the only start beyond a block's threads bans
        end[0, v.threads :] = 2
        cases = [run, self._make_case(rows, [v.n + 2, v.n + 1]), self._make_case(end, [v.threads + v.n])]
        beyond = (
            v.threads + rng.integers(30, 60),
            2 * v.threads + rng.integers(9, 40),
            12 * v.threads + rng.integers(9, 40),
        )
        for rows, longest in ((2, 3 * v.n + 2), (2, int(beyond[0])), (3, int(beyond[1])), (1, int(beyond[2]))):
            stride = longest + int(rng.integers(3, 9))
            length_R = rng.integers(longest // 2, longest, rows)
            length_R[0] = longest
            tokens = rng.integers(0, 5 if longest < v.threads else 12, (rows, stride))
            if longest < v.threads:  # a token said n times at the end: only the last window bans it
                tokens[0, longest - v.n : longest] = 15
            for r, length in enumerate(length_R):  # the newest tokens have been said in the middle and near the end
                for start in (length // 3, length - 2 * v.n):
                    if start >= 0:
                        tokens[r, start : start + v.n - 1] = tokens[r, length - v.n + 1 : length]
            cases.append(self._make_case(tokens, length_R))
        return sorted(cases, key=lambda case: case["tokens"].size)

    def _make_case(self, tokens, length_R):
        banned_RV = np.zeros((len(tokens), 16), np.int32)
        tokens_flat = tokens.astype(np.int32).reshape(-1)
        return {
            "banned_RV": banned_RV,
            "tokens": tokens_flat,
            "stride": tokens.shape[1],
            "length_R": np.array(length_R),
        }

    def disguise_inputs(self, v, inputs, rng):
        """Other names for the tokens: equal ones stay equal."""
        return inputs | {"tokens": rng.permutation(16).astype(np.int32)[inputs["tokens"]]}

    def shape_arguments(self, v, inputs):
        return [len(inputs["length_R"]), int(inputs["length_R"].max())]

    def expected_outputs(self, v, inputs, mistake=None, ran=None):
        tokens, stride, length_R = inputs["tokens"], inputs["stride"], inputs["length_R"]
        n = v.n + (mistake == "n-off-by-one")
        banned_RV = np.zeros_like(inputs["banned_RV"])
        for r, length in enumerate(length_R.tolist()):
            first = r * (length if mistake == "row-stride" else stride)
            text = tokens[first : first + length].tolist()
            ends = length - n + (mistake != "last-window-lost")
            for start in range(min(ends, ran.threads[0]) if mistake == "one-block" else ends):
                if text[start : start + n - 1] == text[length - n + 1 :]:
                    banned_RV[r, text[start + n - 1]] = 1
        return banned_RV

    def describe_difference(self, v, inputs, got, want):
        row, token = np.argwhere(got[0] != want[0])[0]
        due = "should be banned and is not" if want[0][row, token] else "is banned and should not be"
        return f"{self.call(inputs)} with N = {v.n}: row {row}, token {token} {due}."

    def find_excess_cost(self, v, trial):
        if (threads := int(np.prod(trial.ran.threads))) > v.threads:
            return Miss(f"launch_shape asks for {threads} threads a block; THREADS = {v.threads} are the most here.")
        starts_R = np.maximum(trial.inputs["length_R"] - v.n + 1, 1)
        most, busiest = v.most * -(-int(starts_R.max()) // 32) + 8, max(trial.ran.loads_of_threads, default=0)
        fewest, loading = int(np.minimum(starts_R, 32).sum()), len(trial.ran.loads_of_threads)
        message = f"{self.call(trial.inputs)}, where a row has {starts_R.max()} starts: "
        numbers = {"busiest": busiest, "limit": most, "threads": loading, "least": fewest}
        if busiest > most:
            message += f"one thread loads {busiest:,} numbers; {most:,} are the most."
            return Miss(message, "one-thread-for-all", numbers, shows_input=False)
        if loading < fewest:
            message += f"{loading:,} threads load numbers; {fewest:,} are the least, up to 32 for each row."
            mistake = "one-thread-for-all" if loading == len(starts_R) else None
            return Miss(message, mistake, numbers, shows_input=False, is_explained=True)
        return None

    def recognise_mistake(self, v, tried):
        """Not "row-stride" if the kernel looked at one row alone, which says nothing about how it finds others."""
        mistake = super().recognise_mistake(v, tried)
        return None if mistake == "row-stride" and self._reads_first_row_only(tried) else mistake

    def _reads_first_row_only(self, tried):
        several = [t for t in tried if t.ran and len(t.inputs["length_R"]) > 1]
        looked = [(t.ran.loaded["tokens"], t.inputs["length_R"][0]) for t in several]
        return any(at[:end].any() for at, end in looked) and not any(at[end:].any() for at, end in looked)

    def summarize_trials(self, v, tried):
        if self._reads_first_row_only(tried):
            return "No token of a row but the first is looked at, on any input."
        silent = all(not t.got[0].any() for t in tried if t.got)
        return f"Nothing is banned on any of the {len(tried)} inputs." if silent and any(t.got for t in tried) else ""

    def praise(self, v, tried):
        ran = tried[-1].ran
        return f"The longest rows took {ran.counts['global_loads']:,} loads; exercise 17 asks for fewer."
