"""Exercise 21: attention whose query heads share keys and values in groups."""

from __future__ import annotations

import numpy as np

from ..exercise import draw_telling_input, repeat_first_row, set_to_whole_width
from ..numpy_task import NumPyTask


class Task(NumPyTask):
    function = "attend"
    returns = ("out_RHU",)
    known = {
        "h-mod-g": "neighbours share: query head h reads group h // (H / G); by turns, most heads read keys that they"
                   " were not trained with",
        "scaled-by-width": "a score is a sum of K products, so sqrt(K) keeps its spread at 1; the width of all heads"
                           " together has nothing to do with it",
        "not-scaled": "a score is a sum of K products and grows with K; undivided, the softmax picks one position",
        "averaged-queries": "keys and values are shared, queries are not: each head asks a question of its own",
    }  # fmt: skip

    def variation(self, rng):
        layouts, sides = ["RGMK", "RMGK"], ["left", "right"]
        layout, padding = (str(rng.choice(of)) for of in (layouts, sides))
        return {"layout": layout, "padding": padding, "dtype": str(rng.choice(["float32", "float64"]))}

    def cases(self, v, rng):
        def draw_inputs(R, G, heads, M, K):
            length_R = rng.integers(1, M + 1, R)
            length_R[0] = M - 1
            k_RGMK, v_RGMK = (rng.integers(-8, 9, (R, G, M, K)) / 4 for _ in range(2))
            q_RHK = rng.integers(-8, 9, (R, G * heads, K)) / 4
            for r, length in enumerate(length_R):
                k_RGMK[r][:, ~_is_written(v, length, M)] += 2.0  # what is not written would be seen
                v_RGMK[r][:, ~_is_written(v, length, M)] += 9.0
            if v.layout == "RMGK":
                k_RGMK, v_RGMK = (a.swapaxes(1, 2).copy() for a in (k_RGMK, v_RGMK))
            arrays = {"q_RHK": q_RHK, "keys": k_RGMK, "values": v_RGMK}
            return {name: a.astype(v.dtype) for name, a in arrays.items()} | {"length_R": length_R}

        cases = [draw_inputs(1, 1, 2, 2, 3), draw_inputs(1, 2, 2, 3, 3), draw_inputs(2, 2, 3, 4, 5)]
        R, M, K = (int(rng.integers(low, high)) for low, high in ((3, 5), (6, 14), (4, 9)))
        return [*cases, draw_telling_input(self, v, lambda: draw_inputs(R, 3, int(rng.integers(2, 4)), M, K))]

    def expected_outputs(self, v, inputs, mistake=None, ran=None):
        q_RHK, keys, values = (inputs[name].astype(np.float64) for name in ("q_RHK", "keys", "values"))
        if v.layout == "RMGK":
            keys, values = keys.swapaxes(1, 2), values.swapaxes(1, 2)
        (R, H, K), G = q_RHK.shape, keys.shape[1]
        scale = {"scaled-by-width": np.sqrt(H * K), "not-scaled": 1.0}.get(mistake, np.sqrt(K))
        out_RHU = np.zeros((R, H, values.shape[3]))
        for r, h in np.ndindex(R, H):
            g = h % G if mistake == "h-mod-g" else h // (H // G)
            written = _is_written(v, inputs["length_R"][r], keys.shape[2])
            query = q_RHK[r, h]
            if mistake == "averaged-queries":
                query = q_RHK[r, g * (H // G) : (g + 1) * (H // G)].mean(axis=0)
            scores = keys[r, g, written] @ query / scale
            weights = np.exp(scores - scores.max())
            out_RHU[r, h] = weights @ values[r, g, written] / weights.sum()
        return out_RHU

    def error_bound(self, v, inputs):
        """Scores are at most 8 sqrt(K) and K + 3 roundings off, weights twice as far; values are at most 2."""
        K, M = inputs["q_RHK"].shape[2], max(inputs["keys"].shape[1:3])
        return 2 * (2 * (K + 3) * 8 * np.sqrt(K) + 2 * M + 16) * np.finfo(v.dtype).eps

    def alter_inputs(self, v, inputs):
        M = inputs["keys"].shape[2 if v.layout == "RGMK" else 1]
        return {"row-0-for-all": repeat_first_row(inputs, "keys", "values", "length_R"),
                "reads-the-tail": set_to_whole_width(inputs, "length_R", M)}  # fmt: skip

    def describe_difference(self, v, inputs, got, want):
        off = np.abs(got[0].astype(np.float64) - want[0])
        wrong = ~(off <= self.error_bound(v, inputs))
        r, h, u = np.argwhere(wrong)[0].tolist()
        mine = f"{got[0][r, h, u]:.6g}" if np.isfinite(got[0][r, h, u]) else "no number"
        heads = ", ".join(map(str, np.flatnonzero(wrong.any(axis=(0, 2)))))
        H, G = wrong.shape[1], inputs["keys"].shape[1 if v.layout == "RGMK" else 2]
        return (
            f"{self.call(inputs)}, H = {H} heads in G = {G} group(s): row {r}, head {h}, number {u} is {mine}, right is"
            f" {want[0][r, h, u]:.6g}; rounding explains {self.error_bound(v, inputs):.1g}. Wrong are heads {heads}."
        )


def _is_written(v, length, M):
    place = np.arange(M)
    return place < length if v.padding == "right" else place >= M - length
