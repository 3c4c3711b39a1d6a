"""Exercise 5: a batch of prompts, padded on the left, that must say what each of them says alone."""

from __future__ import annotations

import numpy as np

from ..exercise import draw_telling_input
from ..numpy_task import NumPyTask


class Task(NumPyTask):
    function = "generate"
    returns = ("tokens_RM",)
    known = {
        "positions-count-pads": "the first token of a text is at position FIRST, however many pads stand before it;"
                                " counted with them, a prompt means something else in each batch",
        "stale-mask": "the mask was made for the prompts: what has been generated since is never seen",
        "both-at-once": "positions count the pads, and the mask knows the prompts alone; either would be enough to make"
                        " a text depend on its neighbours, or forget what it said",
        "pads-are-seen": "without a mask, attention reads the pads as if they had been said",
        "mask-by-token": "whether a column is a pad does not show in its token: PAD may also be said, and then it is to"
                         " be seen",
        "sees-ahead": "a column behind the prompts holds PAD until a token is said there; seen earlier, it gives"
                      " a word that is not in the text",
    }  # fmt: skip
    likewise = {"prompts-by-token": "mask-by-token", "sees-next": "sees-ahead"}  # the same mistake, made in part

    def variation(self, rng):
        return {"first": rng.integers(0, 3), "pad": rng.integers(0, 3)}

    def cases(self, v, rng):
        def draw_inputs(rows, width, vocabulary, steps):
            length_R = rng.integers(1, width + 1, rows)
            length_R[0], length_R[-1] = width, 1  # the last one has pads
            tokens_RN = rng.integers(0, vocabulary, (rows, width))
            tokens_RN[np.arange(width) < width - length_R[:, None]] = v.pad
            if rows > 1:
                tokens_RN[0, width // 2] = v.pad  # said, in a row without pads
            return {
                "tokens_RN": tokens_RN, "length_R": length_R, "E_VD": rng.integers(1, 10, (vocabulary, 3)),
                "P_XD": rng.integers(1, 10, (v.first + width + steps, 3)),
                "O_DV": rng.integers(0, 50, (3, vocabulary)), "steps": steps,
            }  # fmt: skip

        cases = [draw_inputs(1, 2, 5, 2), draw_inputs(2, 2, 5, 2), draw_inputs(2, 3, 6, 3)]
        rows, width, steps = int(rng.integers(3, 6)), int(rng.integers(4, 8)), int(rng.integers(4, 7))

        def last():
            while True:
                inputs = draw_inputs(rows, width, 9, steps)
                if not np.array_equal(
                    self.expected_outputs(v, inputs), self.expected_outputs(v, inputs, "prompts-by-token")
                ):
                    return inputs

        return [*cases, draw_telling_input(self, v, last)]

    def recognise_mistake(self, v, tried):
        recognised = super().recognise_mistake(v, tried)
        for mistake in self.likewise if recognised is None else ():
            if self._matches_all_trials(v, tried, lambda t, m=mistake: self.expected_outputs(v, t.inputs, m)):
                return self.likewise[mistake]
        return recognised

    def expected_outputs(self, v, inputs, mistake=None, ran=None):
        rows = zip(inputs["tokens_RN"].tolist(), inputs["length_R"].tolist(), strict=True)
        return np.array([self._continue_prompt_alone(v, inputs, row, length, mistake) for row, length in rows])

    def _continue_prompt_alone(self, v, inputs, row, length, mistake):
        """What a prompt says by itself; its pads play a part only where a mistake lets them."""
        E_VD, P_XD, O_DV = (inputs[k].tolist() for k in ("E_VD", "P_XD", "O_DV"))
        pads = len(row) - length
        text, lines = row[pads:], []
        for _ in range(inputs["steps"]):
            shift = pads if mistake in ("positions-count-pads", "both-at-once") else 0
            seen = list(enumerate(text, v.first + shift))
            if mistake in ("stale-mask", "both-at-once"):
                seen = seen[:length]
            if mistake == "mask-by-token":
                seen = [(place, token) for place, token in seen if token != v.pad]
            if mistake == "prompts-by-token":
                seen = [pair for k, pair in enumerate(seen) if k >= length or pair[1] != v.pad]
            ahead = {"sees-ahead": inputs["steps"] - len(lines), "sees-next": 1}.get(mistake, 0)
            seen += [(v.first + len(text) + k, v.pad) for k in range(ahead)]
            if mistake == "pads-are-seen":
                seen += [(v.first, v.pad)] * pads
            read = [sum(E_VD[token][d] * P_XD[place][d] for place, token in seen) for d in range(3)]
            score = [sum(r * weights[t] for r, weights in zip(read, O_DV, strict=True)) % 97 for t in range(len(E_VD))]
            lines.append(score.index(max(score)))
            text = [*text, lines[-1]]
        return lines

    def describe_difference(self, v, inputs, got, want):
        row, step = np.argwhere(got[0] != want[0])[0].tolist()
        pads = inputs["tokens_RN"].shape[1] - inputs["length_R"][row]
        return (
            f"{self.call(inputs)}: row {row}, which has {pads} pad(s), says {got[0][row, step]} at step {step}; alone,"
            f" without pads, it says {want[0][row, step]}."
        )
