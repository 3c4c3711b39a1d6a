"""Exercise 7: a beam search whose memory does not follow its beams, to be mended."""

from __future__ import annotations

import numpy as np

from ..exercise import draw_telling_input
from ..numpy_task import NumPyTask


class Task(NumPyTask):
    function = "search"
    returns = ("tokens_WT", "score_W")
    known = {
        "memory-not-reordered": "beam w goes on from its parent's text and reads the memory of the text that stood at w"
                                " before: a text and a memory that belong to different beams",
        "in-place-over-itself": "a row that was overwritten in this loop is copied to a later one as if it were still"
                                " the old one",
        "in-place-from-the-last": "from the last row to the first it is the same: a row that was overwritten in this"
                                  " loop is copied to an earlier one as if it were still the old one",
        "reordered-twice": "the second time moves rows that are at their places already: beam w reads what belongs to"
                           " the beam that now stands at its parent's place",
        "tokens-not-reordered": "the memory has moved, the texts have not: what is returned was never said by any beam",
    }  # fmt: skip

    def variation(self, rng):
        return {"beams": rng.integers(3, 6), "mix": rng.integers(2, 5)}

    def cases(self, v, rng):
        def draw_inputs(vocabulary, width, steps):
            return {"E_VD": rng.integers(0, 10, (vocabulary, width)), "O_DV": rng.integers(0, 50, (width, vocabulary)),
                    "steps": steps}  # fmt: skip

        cases = [draw_inputs(v.beams + 1, 2, 2), draw_inputs(v.beams + 1, 2, 3), draw_inputs(v.beams + 2, 3, 4)]
        steps = int(rng.integers(6, 10))
        return [*cases, draw_telling_input(self, v, lambda: draw_inputs(v.beams + 3, 3, steps))]

    def expected_outputs(self, v, inputs, mistake=None, ran=None):
        E_VD, O_DV = inputs["E_VD"].tolist(), inputs["O_DV"].T.tolist()
        texts = [[0] for _ in range(v.beams)]
        caches = [[] for _ in range(v.beams)]  # tokens, which stand for their rows of E_VD
        scores = [0] + [None] * (v.beams - 1)  # at the start all beams are one
        for _ in range(inputs["steps"]):
            for cache, text in zip(caches, texts, strict=True):
                cache.append(text[-1])
            candidates = []
            for w, score in enumerate(scores):
                if score is not None:
                    read = [sum((1 + t % v.mix) * E_VD[m][d] for t, m in enumerate(caches[w]))
                            for d in range(len(E_VD[0]))]  # fmt: skip
                    for token, weights in enumerate(O_DV):
                        gain = sum(r * o for r, o in zip(read, weights, strict=True)) % 97
                        candidates.append((score - gain, w, token))
            best = sorted(candidates, key=lambda c: -c[0])[: v.beams]
            scores, parents, tokens = (list(column) for column in zip(*best, strict=True))
            caches = self._reorder_caches(caches, parents, mistake)
            kept = range(v.beams) if mistake == "tokens-not-reordered" else parents
            texts = [[*texts[parent], token] for parent, token in zip(kept, tokens, strict=True)]
        return np.array(texts), np.array(scores)

    def _reorder_caches(self, caches, parents, mistake):
        if mistake == "memory-not-reordered":
            return caches
        if mistake in ("in-place-over-itself", "in-place-from-the-last"):
            beams = range(len(parents))
            for w in beams if mistake == "in-place-over-itself" else reversed(beams):
                caches[w] = list(caches[parents[w]])
            return caches
        moved = [list(caches[parent]) for parent in parents]
        return [list(moved[parent]) for parent in parents] if mistake == "reordered-twice" else moved

    def describe_difference(self, v, inputs, got, want):
        w = int(np.argwhere((got[0] != want[0]).any(axis=1) | (got[1] != want[1]))[0, 0])
        mine, right = got[0][w].tolist(), want[0][w].tolist()
        return (
            f"{self.call(inputs)}: beam {w} says {mine} with the score {got[1][w]}; right is {right} with {want[1][w]}."
        )
