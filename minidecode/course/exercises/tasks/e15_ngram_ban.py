"""Exercise 15: which tokens would repeat an n-gram."""

from __future__ import annotations

import numpy as np

from ..exercise import repeat_first_row
from ..numpy_task import NumPyTask


class Task(NumPyTask):
    function = "ban"
    returns = ("banned_RV",)
    known = {
        "bans-first-token": "of a window that repeats, the last token is the one that would come again, not the first",
        "pads-count": "pads are no text: a window over them bans what the text does not say",
        "pads-by-value": "a text may hold PAD's id as well, as GPT-2's do, which are padded with their end token:"
                         " used_R says where the text lies, not the value",
        "last-window-lost": "the newest window, which ends with the newest token, is never looked at: a run such as"
                            " 'very very very' needs it",
    }  # fmt: skip

    def variation(self, rng):
        return {"n": rng.choice([2, 3, 4]), "padding": str(rng.choice(["left", "right"])), "pad": rng.integers(0, 3)}

    def cases(self, v, rng):
        cases = []
        for rows, width in ((1, v.n), (1, v.n + 2), (2, 11), (3, 14), (5, 33 + int(rng.integers(1, 9)))):
            used_R = rng.integers(v.n - 1, width + 1, rows)
            used_R[0] = width - int(rows > 1)
            if rows > 1:
                used_R[1] = 0 if rows == 2 else width
            tokens_RM = np.full((rows, width), v.pad)
            for r, used in enumerate(used_R):
                text = rng.permutation(used) % 9 + 3
                if rows < 3 and r == 0:
                    text[:] = 3  # a run: all windows are one
                elif used >= 2 * v.n:
                    if r % 2:  # PAD's id as the token of the text that lies at the pads
                        text[used - v.n + 1 if v.padding == "left" else used - 1] = v.pad
                    text[: v.n - 1] = text[used - v.n + 1 :]  # what the newest tokens say has been said at the start
                if used > v.n and r % 2 == 0 and (rows, r) != (2, 0):
                    text[v.n - 1] = v.pad  # PAD's id as a token of the text
                tokens_RM[r, self._slice_of_text(v, width, used)] = text
            cases.append({"tokens_RM": tokens_RM, "used_R": used_R, "V": 12})
        return cases

    def _slice_of_text(self, v, width, used):
        """The slice of a row's tokens without its padding."""
        return slice(width - used, width) if v.padding == "left" else slice(0, used)

    def expected_outputs(self, v, inputs, mistake=None, ran=None):
        tokens_RM, used_R = inputs["tokens_RM"], inputs["used_R"]
        banned_RV = np.zeros((len(tokens_RM), inputs["V"]), bool)
        for r, used in enumerate(used_R):
            place = slice(None) if mistake == "pads-count" else self._slice_of_text(v, tokens_RM.shape[1], used)
            text = tokens_RM[r, place].tolist()
            if mistake == "pads-by-value":
                text = [token for token in tokens_RM[r].tolist() if token != v.pad]
            end = len(text) - v.n + 1 - (mistake == "last-window-lost")
            for start in range(max(0, end)):
                *context, last = text[start : start + v.n]
                if context == text[len(text) - v.n + 1 :]:
                    banned_RV[r, context[0] if mistake == "bans-first-token" else last] = True
        return banned_RV

    def alter_inputs(self, v, inputs):
        return {"row-0-for-all": repeat_first_row(inputs, "tokens_RM", "used_R")}

    def size_for_multiples(self, v, inputs):
        return inputs["tokens_RM"].shape[1]

    def describe_difference(self, v, inputs, got, want):
        row, token = np.argwhere(got[0] != want[0])[0]
        due = "should be banned and is not" if want[0][row, token] else "is banned and should not be"
        return f"{self.call(inputs)} with N = {v.n}: row {row}, token {token} {due}."
