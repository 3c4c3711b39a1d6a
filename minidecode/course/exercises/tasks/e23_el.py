"""Exercise 23: attention straight on hidden states."""

from __future__ import annotations

import dataclasses
import re

import numpy as np

from ..exercise import told_apart, whole_width
from ..numpy_task import NumPyTask
from ..verdict import Miss

LONG = 500  # positions from which on bytes tell keys from hidden states
WIDENS = "np.sqrt(K) is a NumPy float64, so the float32 array that it divides becomes float64"


class Task(NumPyTask):
    function = "attend"
    returns = ("out_RD",)
    measure = True
    known = {
        "scaled-by-width": "the products of queries and keys have K terms, even where W_k has been moved over to the"
                           " queries and D terms are added: sqrt(K) it remains",
        "wk-not-transposed": "q takes W_k from its other side than h does; both fit, and one is right",
        "wv-not-transposed": "this head's values come from the other side of w_v, which fits as well, and is another"
                             " matrix",
        "bias-of-v-lost": "the weights of a row sum to 1, so b_v comes through whole; it is b_k that falls away",
        "wrong-sentence": "the beams of a sentence lie side by side: row r belongs to sentence r // W, not r % B",
        "as-large-as-keys": "keys, values or another array as long as the input came into being, which is what moving"
                            " the brackets is there to save",
        "keys-in-pieces": "keys are built after all, some positions at a time: few bytes are held, and every step"
                          " multiplies all positions by W_k again",
        "values-in-pieces": "values are built after all, some positions at a time: few bytes are held, and every step"
                            " multiplies all positions by W_v again",
    }  # fmt: skip

    def variation(self, rng):
        layout, padding = str(rng.choice(["oi", "io"])), str(rng.choice(["left", "right"]))
        keys = "h @ w_k_DD.T + b_k_D" if layout == "oi" else "h @ w_k_DD + b_k_D"
        return {"layout": layout, "padding": padding, "dtype": str(rng.choice(["float32", "float64"])), "keys": keys}

    def constants(self, v):
        return {"LAYOUT": v.layout, "PADDING": v.padding}

    def cases(self, v, rng):
        def one(B, W, N, H, K):
            D = H * K
            arrays = {"q_RHK": rng.normal(0, 1, (B * W, H, K)), "h_BND": rng.normal(0, 1, (B, N, D))}
            length_B = np.maximum(N - np.arange(B) * (N // 4) - int(N > 2), 1)
            for h_ND, length in zip(arrays["h_BND"], length_B, strict=True):
                h_ND[~_text(v, length, N)] += 3  # pads would be seen
            w = {n: rng.normal(0, 2 / np.sqrt(D), (D, D) if n[0] == "w" else D)
                 for n in ("w_k_DD", "b_k_D", "w_v_DD", "b_v_D")}  # fmt: skip
            w["b_v_D"] += 1
            arrays = {name: a.astype(v.dtype) for name, a in (arrays | w).items()}
            return {"q_RHK": arrays.pop("q_RHK"), "h_BND": arrays.pop("h_BND"), "length_B": length_B, **arrays}

        cases = [one(1, 1, 2, 2, 2), one(1, 2, 4, 2, 2), told_apart(self, v, lambda: one(2, 3, 5, 2, 3))]
        cases.append(one(3, int(rng.integers(2, 5)), int(rng.integers(9, 30)), 4, 4))
        return [*cases, one(2, 2, int(rng.integers(1000, 1200)), 2, 64)]  # here the bytes are counted

    def run(self, submission, v, trials, verdict):
        """Once more with keys that overflow, and with values that do. Where something is too large, or float64 without
        need, once more with roots that are plain numbers."""
        super().run(submission, v, trials, verdict)
        for mistake, with_large in LARGE.items():
            self.try_again(submission, v, trials, lambda inputs, with_large=with_large: with_large(v, inputs))
            for trial in trials:
                trial.probes[mistake], trial.again = trial.again, None
        plain = re.sub(r"\b(np|numpy)\.sqrt\(", r"(lambda n: \1.sqrt(n).tolist() if \1.ndim(n) == 0 else \1.sqrt(n))(",
                       submission.source)  # fmt: skip
        is_large = [t.got is not None and (self._is_large(t) or _is_wide(v, t)) for t in trials]
        if v.dtype == "float64" or plain == submission.source or not any(is_large):
            return
        self.try_again(dataclasses.replace(submission, source=plain), v, trials, lambda inputs: inputs)
        if any(_is_wide(v, t) and t.again.got and not _is_wide(v, t.again) for t in trials):
            verdict.notes.append(f"out_RD is float64, although the inputs are float32: {WIDENS}.")

    def expected(self, v, inputs, mistake=None, ran=None):
        return self._attend(v, inputs, mistake)[0]

    def _attend(self, v, inputs, mistake=None):
        """(out_RD, bound_RD): by keys and values, in float64; the bound sums what rounding can do on the way."""
        if mistake == "as-large-as-keys" or mistake in LARGE:
            raise NotImplementedError  # told by bytes, or by keys and values that overflow
        q_RHK, h_BND, w_k, b_k, w_v, b_v = (
            inputs[n].astype(np.float64) for n in ("q_RHK", "h_BND", "w_k_DD", "b_k_D", "w_v_DD", "b_v_D")
        )
        (R, H, K), (B, N, D), eps = q_RHK.shape, h_BND.shape, np.finfo(v.dtype).eps
        w_k = w_k.T if (v.layout == "oi") != (mistake == "wk-not-transposed") else w_k
        w_v = w_v.T if (v.layout == "oi") != (mistake == "wv-not-transposed") else w_v
        b_v = b_v * (mistake != "bias-of-v-lost")
        root = np.sqrt(D if mistake == "scaled-by-width" else K)
        out_RD, bound_RD = np.zeros((R, D)), np.zeros((R, D))
        for r in range(R):
            b = r % B if mistake == "wrong-sentence" else r // (R // B)
            h_ND = h_BND[b, _text(v, inputs["length_B"][b], N)]
            for head in range(H):
                mine = slice(head * K, head * K + K)
                s_N = (h_ND @ w_k[:, mine] + b_k[mine]) @ q_RHK[r, head] / root
                p_N = np.exp(s_N - s_N.max())
                p_N /= p_N.sum()
                out_RD[r, mine] = p_N @ (h_ND @ w_v[:, mine] + b_v[mine])
                largest_N = (np.abs(h_ND) @ np.abs(w_k[:, mine]) + np.abs(b_k[mine])) @ np.abs(q_RHK[r, head]) / root
                of_weights = np.expm1(4 * (D + K + 8) * eps * largest_N.max()) + 2 * (N + 16) * eps
                through = p_N @ (np.abs(h_ND) @ np.abs(w_v[:, mine])) + np.abs(b_v[mine])
                bound_RD[r, mine] = through * (of_weights + (N + D + 8) * eps)
        return out_RD, bound_RD

    def bound(self, v, inputs):
        """D and K terms in a score, N in a softmax, N and D in a result: each sum rounded, the sizes added up."""
        return self._attend(v, inputs)[1]

    def altered(self, v, inputs):
        return {"reads-the-tail": whole_width(inputs, "length_B", inputs["h_BND"].shape[1])}

    def call(self, inputs):
        return super().call({name: inputs[name] for name in ("q_RHK", "h_BND")})

    def tell(self, v, inputs, got, want):
        bound_RD = self.bound(v, inputs)
        r, d = np.argwhere(~(np.abs(got[0].astype(np.float64) - want[0]) <= bound_RD))[0].tolist()
        mine, head = float(got[0][r, d]), d // inputs["q_RHK"].shape[2]
        off = f"off by {abs(mine - want[0][r, d]):.2g}, where rounding explains {bound_RD[r, d]:.1g}"
        if not np.isfinite(mine):
            mine, off = "not finite", "off beyond all measure"
        else:
            mine = f"{mine:.6g}"
        return f"{self.call(inputs)}: out_RD[{r}, {d}] (head {head}) is {mine}, right is {want[0][r, d]:.6g}: {off}."

    def _is_large(self, trial):
        """Beside short inputs, everything is."""
        return trial.inputs["h_BND"].shape[1] >= LONG and trial.peak >= _keys_of_a_head(trial.inputs)

    def miss(self, v, trial):
        limit = _keys_of_a_head(trial.inputs)
        if not self._is_large(trial):
            return self._miss_of_pieces(trial)
        told = f"{self.call(trial.inputs)} holds {trial.peak:,} bytes at its peak; the keys of one head of one sentence"
        h_bytes = trial.inputs["h_BND"].nbytes
        told = f"{told} would be {limit:,}, and all hidden states are {h_bytes:,}."
        numbers = {"peak": trial.peak, "limit": limit}
        if trial.again and trial.again.peak is not None and not self._is_large(trial.again):
            told += (
                f" With sqrt(K) as a Python number it would be {trial.again.peak:,}: {WIDENS}. To multiply that with"
            )
            return Miss(
                f"{told} a float32 array, NumPy first makes a float64 copy of it.", None, numbers, shows_input=False
            )
        return Miss(told, "as-large-as-keys", numbers, shows_input=False)

    def _miss_of_pieces(self, trial):
        """Of keys or values that overflow where the other brackets do not."""
        for mistake, why in WHY_LARGE.items():
            got = trial.probes[mistake].got if mistake in trial.probes else None
            if trial.inputs["h_BND"].shape[1] >= LONG and got is not None and not np.isfinite(got[0]).all():
                why = why.format(dtype=trial.inputs["h_BND"].dtype)
                return Miss(f"{self.call(trial.inputs)} is right. But {why}", mistake, shows_input=False)
        return None

    def praise(self, v, tried):
        last = tried[-1]
        both = 2 * last.inputs["h_BND"].nbytes
        return f"The longest input took {last.peak:,} bytes at the peak; its keys and values would be {both:,}."


def _with_large_keys(v, inputs):
    """The first number of a head's keys overflows where the numbers of a hidden state sum to more than 1, and the query
    has a 0 there."""
    q_RHK, w_k_DD, K = inputs["q_RHK"].copy(), inputs["w_k_DD"].copy(), inputs["q_RHK"].shape[2]
    q_RHK[:, :, 0] = 0
    of_keys_XD = w_k_DD if v.layout == "oi" else w_k_DD.T
    of_keys_XD[::K] = np.finfo(v.dtype).max
    return inputs | {"q_RHK": q_RHK, "w_k_DD": w_k_DD}


def _with_large_values(v, inputs):
    """The first number of a head's values overflows at each position, where a hidden state begins with 2 or -2.

    All positions of a text weigh the same, for the queries are 0; and those numbers sum to 0.
    """
    h_BND, w_v_DD, K = inputs["h_BND"].copy(), inputs["w_v_DD"].copy(), inputs["q_RHK"].shape[2]
    for h_ND, length in zip(h_BND, inputs["length_B"], strict=True):
        text = np.flatnonzero(_text(v, length, len(h_ND)))
        h_ND[text, 0] = np.where(np.arange(len(text)) % 2, 2, -2)
        h_ND[text[len(text) // 2 * 2 :], 0] = 0  # the last of an odd number
    of_values_XD = w_v_DD if v.layout == "oi" else w_v_DD.T
    of_values_XD[::K, 0] = np.finfo(v.dtype).max
    return inputs | {"q_RHK": np.zeros_like(inputs["q_RHK"]), "h_BND": h_BND, "w_v_DD": w_v_DD}


LARGE = {"keys-in-pieces": _with_large_keys, "values-in-pieces": _with_large_values}
WHY_LARGE = {
    "keys-in-pieces": "where one column of W_k for each head is as large as {dtype} allows, and the query has a 0 for"
                      " it, out_RD is not finite: h W_k overflows, and (q W_k) h does not.",
    "values-in-pieces": "where one number of W_v for each head is as large as {dtype} allows, and what it multiplies"
                        " sums to 0 over the positions, out_RD is not finite: h W_v overflows, and (p h) W_v does not.",
}  # fmt: skip


def _is_wide(v, trial):
    return bool(trial.got) and v.dtype == "float32" and getattr(trial.got[0], "dtype", None) == np.float64


def _text(v, length, N):
    place = np.arange(N)
    return place < length if v.padding == "right" else place >= N - length


def _keys_of_a_head(inputs):
    return inputs["h_BND"].shape[1] * inputs["q_RHK"].shape[2] * inputs["h_BND"].itemsize
