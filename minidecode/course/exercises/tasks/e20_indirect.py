"""Exercise 20: a table that says where a beam's positions lie, to be mended."""

from __future__ import annotations

import numpy as np

from ..exercise import draw_telling_input
from ..numpy_task import NumPyTask
from ..results import are_same
from ..verdict import Miss


class Task(NumPyTask):
    function = "search"
    returns = ("tokens_WT", "score_W", "source_WT", "memory_WTD")
    changes = ("memory_WTD",)
    known = {
        "one-generation": "the parent's own positions need not lie in the parent's row: it has a parent too, and its"
                          " line of the table says where they are",
        "table-inverted": "the table is to say where a beam's positions come from; this says where they go to, and a"
                          " parent of two beams passes its line to one of them only",
        "new-position-moved": "what comes next is written into the beam's own row; a line that was taken whole from"
                              " the parent looks it up in the parent's row",
        "not-followed": "beam w goes on from its parent's text and reads the positions of the text that stood at w"
                        " before",
        "over-itself": "a line that was overwritten in this loop is copied to a later one as if it were still the old"
                       " one",
        "only-newest": "only where the newest position lies is taken over from the parent; where the others lie is"
                       " still told as of another text",
        "only-older": "the newest position is the parent's, too: it lies in the parent's row, and not in one's own",
        "memory-moved": "the table is there so that the memory stays where it is: it is thousands of numbers for each"
                        " one of the table's",
    }  # fmt: skip

    def variation(self, rng):
        return {"beams": rng.integers(3, 6), "mix": rng.integers(2, 5)}

    def cases(self, v, rng):
        def draw_inputs(vocabulary, width, steps):
            return {"E_VD": rng.integers(1, 10, (vocabulary, width)), "O_DV": rng.integers(0, 50, (width, vocabulary)),
                    "memory_WTD": np.zeros((v.beams, steps, width), np.int64)}  # fmt: skip

        cases = [draw_inputs(v.beams + 1, 2, 2), draw_inputs(v.beams + 1, 2, 3), draw_inputs(v.beams + 2, 3, 4)]
        steps = int(rng.integers(6, 10))
        return [*cases, draw_telling_input(self, v, lambda: draw_inputs(v.beams + 3, 3, steps))]

    def expected_outputs(self, v, inputs, mistake=None, ran=None):
        if mistake == "memory-moved":
            raise NotImplementedError  # told by the memory, whatever else is right
        E_VD, O_DV = inputs["E_VD"].tolist(), inputs["O_DV"].T.tolist()
        steps, beams = inputs["memory_WTD"].shape[1], range(v.beams)
        texts = [[0] for _ in beams]
        table = [[w] * steps for w in beams]
        lines = [[0] * steps for _ in beams]  # what stands in the memory: tokens, for their rows of E_VD
        scores = [0] + [None] * (v.beams - 1)  # at the start all beams are one
        for step in range(steps):
            for w in beams:
                lines[w][step] = texts[w][-1]
            candidates = []
            for w, score in enumerate(scores):
                if score is not None:
                    tokens = [lines[table[w][t]][t] for t in range(step + 1)]
                    read = [sum((1 + t % v.mix) * E_VD[token][d] for t, token in enumerate(tokens))
                            for d in range(len(E_VD[0]))]  # fmt: skip
                    for token, weights in enumerate(O_DV):
                        gain = sum(r * o for r, o in zip(read, weights, strict=True)) % 97
                        candidates.append((score - gain, w, token))
            best = sorted(candidates, key=lambda c: -c[0])[: v.beams]
            scores, parents, tokens = (list(column) for column in zip(*best, strict=True))
            texts = [[*texts[parent], token] for parent, token in zip(parents, tokens, strict=True)]
            table = self._followed(table, parents, step + 1, mistake)
        memory_WTD = inputs["E_VD"][np.array(lines)]
        return np.array(texts), np.array(scores), np.array(table), memory_WTD

    def _followed(self, table, parents, written, mistake):
        old = [list(line) for line in table]
        for w, parent in enumerate(parents):
            if mistake == "table-inverted":
                table[parent][:written] = old[w][:written]
            elif mistake == "only-newest":
                table[w][written - 1] = old[parent][written - 1]
            elif mistake == "only-older":
                table[w][: written - 1] = old[parent][: written - 1]
            elif mistake == "one-generation":
                table[w][:written] = [parent] * written
            elif mistake == "new-position-moved":
                table[w] = list(old[parent])
            elif mistake == "over-itself":
                table[w][:written] = table[parent][:written]
            elif mistake != "not-followed":
                table[w][:written] = old[parent][:written]
        return table

    def find_wrong_output(self, v, trial):
        miss = super().find_wrong_output(v, trial)
        if miss is None or not miss.is_of_value:
            return miss
        want = self.expected_outputs(v, trial.inputs)
        if not are_same(trial.got[:2], want[:2]):
            return miss
        (mine_WT, mine_WTD), (source_WT, memory_WTD) = trial.got[2:], want[2:]
        if not are_same((mine_WTD,), (memory_WTD,)):
            row, t = np.argwhere((mine_WTD != memory_WTD).any(axis=-1))[0]
            message = (
                f"{self.call(trial.inputs)}: the texts are right, but row {row} of memory_WTD holds at position {t}"
            )
            message += f" {mine_WTD[row, t].tolist()}; beam {row} wrote {memory_WTD[row, t].tolist()} there."
            return Miss(message, "memory-moved")
        w, t = np.argwhere(mine_WT != source_WT)[0]
        message = (
            f"{self.call(trial.inputs)}: the texts are right, but source_WT[{w}, {t}] is {mine_WT[w, t]}: what beam"
        )
        return Miss(f"{message} {w} says comes, at position {t}, from row {source_WT[w, t]}.", is_of_value=True)

    def describe_difference(self, v, inputs, got, want):
        if are_same(got[:2], want[:2]):
            return ""  # the memory or the table alone is wrong: `find_wrong_output` says so
        w = int(np.argwhere((got[0] != want[0]).any(axis=1) | (got[1] != want[1]))[0, 0])
        mine, right = got[0][w].tolist(), want[0][w].tolist()
        return (
            f"{self.call(inputs)}: beam {w} says {mine} with the score {got[1][w]}; right is {right} with {want[1][w]}."
        )
