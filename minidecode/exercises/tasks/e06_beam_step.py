"""Exercise 6: one step of a beam search, from scores to the beams that run on."""

from __future__ import annotations

import numpy as np

from ..exercise import NumPyTask, rows_alike, told_apart


class Task(NumPyTask):
    function = "step"
    returns = ("parent_BW", "token_BW", "score_BW", "finished_BC")
    known = {
        "w-candidates": "each of the W best may end, and then there are fewer than W to run on; among the 2W best there"
                        " are always enough, for each beam has one end",
        "ended-runs-on": "a text that has said EOS is finished: nothing comes behind it",
        "divided-by-w": "the candidates of a sentence lie in rows of V, so W says nothing about whose they are",
        "penalty-too-early": "scores that run on stay sums: divided in each step, they are divided again and again",
        "eos-of-any-rank": "only what is among the W best finishes; a text from behind them takes the place of a better"
                           " one that still runs",
    }  # fmt: skip

    def variation(self, rng):
        return {"eos": rng.integers(0, 4), "alpha": rng.choice([0.5, 1.0, 2.0]),
                "parents": str(rng.choice(["in sentence", "in batch"]))}  # fmt: skip

    def cases(self, v, rng):
        def one(B, W, V, length):
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

        first = one(1, 2, 6, 1)
        first["score_BW"][:] = 0, -np.inf  # at the start all beams are one
        cases = [one(1, 2, 5, 2), first, one(2, 2, 6, 3), one(2, 3, 7, 5)]
        B, V = int(rng.integers(3, 5)), int(rng.integers(11, 31))
        return [*cases, told_apart(self, v, lambda: one(B, 4, V, int(rng.integers(4, 9))))]

    def expected(self, v, inputs, mistake=None, ran=None):
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
                parent_BW[b, w] += b * W if v.parents == "in batch" else 0
                token_BW[b, w] = place % V
                next_BW[b, w] = score / norm if mistake == "penalty-too-early" else score
        return parent_BW, token_BW, next_BW, finished_BC

    def bound(self, v, inputs):
        """Sums are exact, for all are multiples of 1/64; a power and a quotient in float32 are off by a few units."""
        finite = [a[np.isfinite(a)] for a in (inputs["score_BW"], inputs["log_p_BWV"])]
        return 8 * np.finfo(np.float32).eps * sum(float(np.abs(a).max()) for a in finite)

    def altered(self, v, inputs):
        return {"row-0-for-all": rows_alike(inputs, "score_BW", "log_p_BWV")}

    def wrong(self, v, trial):
        miss = super().wrong(v, trial)
        if miss and not miss.is_of_value and np.shape(trial.got[-1]) == trial.inputs["score_BW"].shape:
            miss.mistake = "w-candidates"
        return miss

    def tell(self, v, inputs, got, want):
        wrong = {}
        for name, mine, right in zip(self.returns, got, want, strict=True):
            with np.errstate(invalid="ignore"):
                off = ~((mine == right) | (np.abs(mine - right) <= self.bound(v, inputs)))
            if off.any():
                s, place = np.argwhere(off)[0].tolist()
                wrong[name] = s, f"{name}[{s}, {place}] is {mine[s, place]:.6g}, right is {right[s, place]:.6g}"
        sentence = min(s for s, _ in wrong.values())
        return f"{self.call(inputs)}: {'; '.join(told for s, told in wrong.values() if s == sentence)}."
