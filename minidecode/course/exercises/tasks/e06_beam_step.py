"""Exercise 6: one step of a beam search, from scores to the beams that run on."""

from __future__ import annotations

import re

import numpy as np

from ..exercise import draw_telling_input, repeat_first_row
from ..numpy_task import NumPyTask
from ..results import are_same


class Task(NumPyTask):
    function = "step"
    returns = ("parent_BW", "token_BW", "score_BW", "finished_BC")
    known = {
        "w-candidates": "each of the W best may end, and then there are fewer than W to run on; among the 2W best there"
                        " are always enough, for each beam has one end",
        "ended-runs-on": "a text that has said EOS is finished: nothing comes behind it",
        "divided-by-w": "the candidates of a sentence lie in rows of V, so W says nothing about whose they are",
        "parents-counted-otherwise": "in sentence a parent is a row of its sentence, in batch one of all B * W rows:"
                                     " the memory of another beam is looked up with the wrong one of the two",
        "penalty-too-early": "scores that run on stay sums: divided in each step, they are divided again and again",
        "eos-of-any-rank": "only what is among the W best finishes; a text from behind them takes the place of a better"
                           " one that still runs",
    }  # fmt: skip

    def variation(self, rng):
        return {"eos": rng.integers(0, 4), "alpha": rng.choice([0.5, 1.0, 2.0]),
                "parents": str(rng.choice(["in sentence", "in batch"]))}  # fmt: skip

    def cases(self, v, rng):
        def draw_inputs(B, W, V, length):
            room, score_BW = 40 * W, np.empty((B, W))
            log_p_BWV = np.empty((B, W, V))
            for b in range(B):
                score_BW[b] = -np.sort(rng.choice(room, W, replace=False))
                total_WV = -(room + rng.permutation(W * V) + 1.0).reshape(W, V)  # no two alike
                ends = rng.permutation(W * V)[:W]
                ends[0], ends[-1] = rng.integers(0, W), rng.integers(W, 2 * W)  # one ends among the W best, one behind
                for w, rank in enumerate(rng.permutation(ends)):
                    there = np.argwhere(total_WV == -(room + rank + 1.0))[0]
                    total_WV[w, v.eos], total_WV[tuple(there)] = total_WV[tuple(there)], total_WV[w, v.eos]
                log_p_BWV[b] = total_WV - score_BW[b][:, None]
            score_BW, log_p_BWV = (score_BW / 64).astype(np.float32), (log_p_BWV / 64).astype(np.float32)
            return {"score_BW": score_BW, "log_p_BWV": log_p_BWV, "length": length}

        first = draw_inputs(1, 2, 6, 1)
        first["score_BW"][:] = 0, -np.inf  # at the start all beams are one
        cases = [draw_inputs(1, 2, 5, 2), first, draw_inputs(2, 2, 6, 3), draw_inputs(2, 3, 7, 5)]
        B, V = int(rng.integers(3, 5)), int(rng.integers(11, 31))
        return [*cases, draw_telling_input(self, v, lambda: draw_inputs(B, 4, V, int(rng.integers(4, 9))))]

    def expected_outputs(self, v, inputs, mistake=None, ran=None):
        score_BW, log_p_BWV = inputs["score_BW"].astype(np.float64), inputs["log_p_BWV"].astype(np.float64)
        (B, W), V, norm = score_BW.shape, log_p_BWV.shape[2], inputs["length"] ** v.alpha
        parent_BW, token_BW = np.zeros((B, W), int), np.zeros((B, W), int)
        next_BW, finished_BC = np.zeros((B, W)), np.full((B, 2 * W), -np.inf)
        for b in range(B):
            candidates = [(score_BW[b, w] + log_p_BWV[b, w, t], w * V + t) for w in range(W) for t in range(V)]
            best = sorted(candidates, key=lambda c: -c[0])[: W if mistake == "w-candidates" else 2 * W]
            for rank, (score, place) in enumerate(best):
                if place % V == v.eos and (rank < W or mistake == "eos-of-any-rank"):
                    finished_BC[b, rank] = score / norm
            running = best if mistake == "ended-runs-on" else sorted(best, key=lambda c: c[1] % V == v.eos)
            for w, (score, place) in enumerate(running[:W]):
                parent_BW[b, w] = place // (W if mistake == "divided-by-w" else V)
                is_in_batch = (v.parents == "in batch") != (mistake == "parents-counted-otherwise")
                parent_BW[b, w] += b * W if is_in_batch else 0
                token_BW[b, w] = place % V
                next_BW[b, w] = score / norm if mistake == "penalty-too-early" else score
        return parent_BW, token_BW, next_BW, finished_BC

    def error_bound(self, v, inputs):
        """Sums are exact, for all are multiples of 1/64; a power and a quotient in float32 are off by a few units."""
        finite = [a[np.isfinite(a)] for a in (inputs["score_BW"], inputs["log_p_BWV"])]
        return 8 * np.finfo(np.float32).eps * sum(float(np.abs(a).max()) for a in finite)

    def alter_inputs(self, v, inputs):
        return {"row-0-for-all": repeat_first_row(inputs, "score_BW", "log_p_BWV")}

    def recognise_mistake(self, v, tried):
        """W candidates leave fewer than W to run on; what is put into the places that are left is up to the code."""
        raised = [t for t in tried if t.raised]
        if raised and all(self._ranks_only_w(t) for t in raised):
            return "w-candidates"
        wrong = [self._wrong_places_behind_w(v, t) for t in tried if t.got is not None]
        if any(wrong) and None not in wrong and all(map(all, wrong)):
            return "w-candidates"
        return super().recognise_mistake(v, tried)

    def _ranks_only_w(self, trial):
        """Whether W met 2W where the code raised, and nothing that was ranked there has more than W places."""
        W = trial.inputs["score_BW"].shape[1]
        numbers = re.findall(r"[0-9]+", trial.miss.message.partition(" raised ")[2].partition(" There ")[0])
        ranked = {shape[-1] for kind, shape in trial.arrays.values() if kind in "iu" and shape}
        return {str(W), str(2 * W)} <= set(numbers) and W in ranked and 2 * W not in ranked

    def _wrong_places_behind_w(self, v, trial):
        """For each place that only a candidate behind the first W can fill: whether it is wrong. None: another is."""
        W, want = trial.inputs["score_BW"].shape[1], self.expected_outputs(v, trial.inputs)
        if len(trial.got) != 4 or any(np.shape(g) != np.shape(w) for g, w in zip(trial.got[:3], want[:3], strict=True)):
            return None
        finished = np.asarray(trial.got[3])
        if finished.shape not in ((len(finished), W), want[3].shape):
            return None
        bound, wrong = self.error_bound(v, trial.inputs), []
        if not are_same((finished[:, :W],), (want[3][:, :W],), bound) or not np.isneginf(finished[:, W:]).all():
            return None
        for b, ended in enumerate(self._count_ends_among_w_best(v, trial.inputs)):
            for w in range(W):
                fits = are_same([g[b, w] for g in trial.got[:3]], [a[b, w] for a in want[:3]], bound)
                if w >= W - ended:
                    wrong.append(not fits)
                elif not fits:
                    return None
        return wrong

    def _count_ends_among_w_best(self, v, inputs):
        """How many of each sentence's W best end."""
        total_BWV = inputs["score_BW"][:, :, None] + inputs["log_p_BWV"]
        B, W, V = total_BWV.shape
        best_BW = np.argsort(-total_BWV.reshape(B, W * V), axis=1, kind="stable")[:, :W]
        return (best_BW % V == v.eos).sum(axis=1).tolist()

    def summarize_trials(self, v, tried):
        """What the input asks of the code, where there is no output to compare; else ""."""
        first = next(t for t in tried if t.miss)
        if first.miss.is_of_value or first.miss.mistake:
            return ""
        ended, W = self._count_ends_among_w_best(v, first.inputs)[0], first.inputs["score_BW"].shape[1]
        return f"Of the {W} best of sentence 0, {ended} end{'s' * (ended == 1)}; {W} are to run on."

    def describe_difference(self, v, inputs, got, want):
        wrong = {}
        for name, mine, right in zip(self.returns, got, want, strict=True):
            with np.errstate(invalid="ignore"):
                off = ~((mine == right) | (np.abs(mine - right) <= self.error_bound(v, inputs)))
            if off.any():
                s, place = np.argwhere(off)[0].tolist()
                wrong[name] = s, f"{name}[{s}, {place}] is {mine[s, place]:.6g}, right is {right[s, place]:.6g}"
        sentence = min(s for s, _ in wrong.values())
        return f"{self.call(inputs)}: {'; '.join(message for s, message in wrong.values() if s == sentence)}."
