"""Exercise 23: attention straight on hidden states."""

from __future__ import annotations

import dataclasses
import re

import numpy as np

from ..exercise import draw_telling_input, set_to_whole_width
from ..numpy_task import NumPyTask
from ..results import are_same, find_fault_of_kind
from ..verdict import Miss

LONG, HUGE = 500, 20_000  # positions from which on bytes tell keys from hidden states, and the system sees them
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
        "keys-in-pieces": "keys are built after all, some numbers at a time: few bytes are held, and every step"
                          " multiplies all positions by W_k again",
        "values-in-pieces": "values are built after all, some numbers at a time: few bytes are held, and every step"
                            " multiplies all positions by W_v again",
    }  # fmt: skip

    def variation(self, rng):
        layout, padding = str(rng.choice(["oi", "io"])), str(rng.choice(["left", "right"]))
        keys = "h @ w_k_DD.T + b_k_D" if layout == "oi" else "h @ w_k_DD + b_k_D"
        return {"layout": layout, "padding": padding, "dtype": str(rng.choice(["float32", "float64"])), "keys": keys}

    def constants(self, v):
        return {"LAYOUT": v.layout, "PADDING": v.padding}

    def cases(self, v, rng):
        def draw_inputs(B, W, N, H, K):
            D = H * K
            arrays = {"q_RHK": rng.normal(0, 1, (B * W, H, K)), "h_BND": rng.normal(0, 1, (B, N, D))}
            length_B = np.maximum(N - np.arange(B) * (N // 4) - int(N > 2), 1)
            for h_ND, length in zip(arrays["h_BND"], length_B, strict=True):
                h_ND[~_mask_of_text(v, length, N)] += 3  # pads would be seen
            w = {n: rng.normal(0, 2 / np.sqrt(D), (D, D) if n[0] == "w" else D)
                 for n in ("w_k_DD", "b_k_D", "w_v_DD", "b_v_D")}  # fmt: skip
            w["b_v_D"] += 1
            arrays = {name: a.astype(v.dtype) for name, a in (arrays | w).items()}
            return {"q_RHK": arrays.pop("q_RHK"), "h_BND": arrays.pop("h_BND"), "length_B": length_B, **arrays}

        cases = [draw_inputs(1, 1, 2, 2, 2), draw_inputs(1, 2, 4, 2, 2)]
        cases.append(draw_telling_input(self, v, lambda: draw_inputs(2, 3, 5, 2, 3)))
        cases.append(draw_inputs(3, int(rng.integers(2, 5)), int(rng.integers(9, 30)), 4, 4))
        cases.append(draw_inputs(2, 2, int(rng.integers(1000, 1200)), 2, 64))  # here the bytes are counted
        return [*cases, draw_inputs(1, 2, HUGE + int(rng.integers(999)), 1, 64)]  # and here from outside

    def is_huge(self, inputs):
        return inputs["h_BND"].shape[1] >= HUGE

    def run(self, submission, v, trials, verdict):
        """Once more with numbers that keys lose in rounding, and with such that values lose. Where something is too
        large, or float64 without need, once more with roots that are plain numbers."""
        super().run(submission, v, trials, verdict)
        long = [trial for trial in trials if _is_long(trial) and not self.is_huge(trial.inputs)]
        for mistake, (probe, _) in PROBES.items():
            self.try_again(submission, v, long, lambda inputs, probe=probe: probe(v, inputs)[0])
            for trial in long:
                trial.probes[mistake], trial.again = trial.again, None
        plain = re.sub(r"\b(np|numpy)\.sqrt\(", r"(lambda n: \1.sqrt(n).tolist() if \1.ndim(n) == 0 else \1.sqrt(n))(",
                       submission.source)  # fmt: skip
        is_large = [t.got is not None and (self._is_large(t) or _is_wide(v, t)) for t in trials]
        if v.dtype == "float64" or plain == submission.source or not any(is_large):
            return
        self.try_again(dataclasses.replace(submission, source=plain), v, trials, lambda inputs: inputs)
        if any(_is_wide(v, t) and t.again.got and not _is_wide(v, t.again) for t in trials):
            verdict.notes.append(f"out_RD is float64, although the inputs are float32: {WIDENS}.")

    def expected_outputs(self, v, inputs, mistake=None, ran=None):
        return self._attend_with_bound(v, inputs, mistake)[0]

    def _attend_with_bound(self, v, inputs, mistake=None):
        """(out_RD, bound_RD), in float64; the bound sums what rounding can do on the way."""
        if mistake == "as-large-as-keys" or mistake in PROBES:
            raise NotImplementedError  # told by bytes, or by what keys and values lose in rounding
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
            h_ND = h_BND[b, _mask_of_text(v, inputs["length_B"][b], N)]
            for head in range(H):
                mine = slice(head * K, head * K + K)
                q_K = q_RHK[r, head]
                s_N = (h_ND @ (w_k[:, mine] @ q_K) + b_k[mine] @ q_K) / root
                p_N = np.exp(s_N - s_N.max())
                p_N /= p_N.sum()
                out_RD[r, mine] = p_N @ h_ND @ w_v[:, mine] + b_v[mine]
                largest_N = np.abs(h_ND) @ (np.abs(w_k[:, mine]) @ np.abs(q_K)) + np.abs(b_k[mine]) @ np.abs(q_K)
                of_weights = np.expm1(4 * (D + K + 8) * eps * largest_N.max() / root) + 2 * (N + 16) * eps
                through = p_N @ np.abs(h_ND) @ np.abs(w_v[:, mine]) + np.abs(b_v[mine])
                bound_RD[r, mine] = through * (of_weights + (N + D + 8) * eps)
        return out_RD, bound_RD

    def error_bound(self, v, inputs):
        """D and K terms in a score, N in a softmax, N and D in a result: each sum rounded, the sizes added up."""
        return self._attend_with_bound(v, inputs)[1]

    def alter_inputs(self, v, inputs):
        return {"reads-the-tail": set_to_whole_width(inputs, "length_B", inputs["h_BND"].shape[1])}

    def call(self, inputs):
        return super().call({name: inputs[name] for name in ("q_RHK", "h_BND")})

    def describe_difference(self, v, inputs, got, want):
        bound_RD = self.error_bound(v, inputs)
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
        return _is_long(trial) and _peak_held_bytes(trial) >= _bytes_of_head_keys(trial.inputs)

    def find_excess_cost(self, v, trial):
        limit = _bytes_of_head_keys(trial.inputs)
        if not self._is_large(trial):
            return self._find_miss_of_probes(v, trial)
        message = f"{self.call(trial.inputs)} holds {_peak_held_bytes(trial):,} bytes at its peak;"
        message = f"{message} the keys of one head of one sentence"
        h_bytes = trial.inputs["h_BND"].nbytes
        message = f"{message} would be {limit:,}, and all hidden states are {h_bytes:,}."
        numbers = {"peak": _peak_held_bytes(trial), "limit": limit}
        if trial.again and trial.again.peak is not None and not self._is_large(trial.again):
            message += (
                f" With sqrt(K) as a Python number it would be {trial.again.peak:,}: {WIDENS}. To multiply that with"
            )
            return Miss(
                f"{message} a float32 array, NumPy first makes a float64 copy of it.", None, numbers, shows_input=False
            )
        return Miss(message, "as-large-as-keys", numbers, shows_input=False)

    def _find_miss_of_probes(self, v, trial):
        """How far results miss whose keys or values lose in rounding what the other brackets keep."""
        for mistake, (probe, why) in PROBES.items():
            again = trial.probes.get(mistake)
            if again and again.miss:
                return dataclasses.replace(again.miss, shows_input=False)
            if again is None or again.got is None:
                continue
            want_RD, bound_RD = self._attend_with_bound(v, probe(v, trial.inputs)[1])
            if are_same(again.got, (want_RD,), bound_RD):
                continue
            if problem := find_fault_of_kind(self.returns, again.got, (want_RD,), 0):
                return problem
            off_RD = np.abs(again.got[0].astype(np.float64) - want_RD) - bound_RD
            r, d = np.unravel_index(np.argmax(off_RD), off_RD.shape)  # a NaN, if there is one
            message = f"out_RD[{r}, {d}] is {float(again.got[0][r, d]):.4g}, right is {want_RD[r, d]:.4g}"
            message = (
                f"{self.call(trial.inputs)} is right. But {why.format(huge=_exponent_of_large(v), sample=message)}"
            )
            return Miss(message, mistake, shows_input=False)
        return None

    def praise(self, v, tried):
        last = tried[-1]
        both = 2 * last.inputs["h_BND"].nbytes
        return f"The longest input took {last.peak:,} bytes at the peak; its keys and values would be {both:,}."


def _make_key_probe(v, inputs):
    """Inputs on which keys lose what counts, and inputs that are right to give the same: what cancels is 0 in them.

    In half of the columns, one row of W_k is huge for each head, and another one its negative. The query is 4 for these
    two rows and 0 for the others, so the columns are exactly 0 in q W_k. In the keys they are not, and of all that is
    added to them nothing remains: it would take more than 100 bits.
    """
    inputs, columns, rng = _narrow_inputs(inputs)
    K, huge = inputs["q_RHK"].shape[2], 2.0 ** _exponent_of_large(v)
    one, other = rng.choice(K, 2, replace=False)
    inputs["q_RHK"][:] = 0
    inputs["q_RHK"][:, :, [one, other]] = 4
    rows_XD, cancelled = _cancel_columns(v, inputs, "w_k_DD", columns)
    rows_XD[one::K, columns] = huge
    rows_XD[other::K, columns] = -huge
    return inputs, cancelled


def _make_value_probe(v, inputs):
    """Inputs on which values lose what counts, and inputs that are right to give the same.

    Half of the columns of W_v are huge. In each of them, h is 1 at one position, -1 at the next one and 0 elsewhere.
    All positions weigh the same, for the query is 0. So p h is exactly 0 there, and the values are not.
    """
    inputs, columns, _ = _narrow_inputs(inputs)
    h_BND, length = inputs["h_BND"], 2 * len(columns)
    inputs["q_RHK"][:] = 0
    inputs["length_B"][:] = length
    (text,) = np.nonzero(_mask_of_text(v, length, h_BND.shape[1]))
    h_BND[:, text[:, None], columns] = 0
    h_BND[:, text[::2], columns] = 1
    h_BND[:, text[1::2], columns] = -1
    rows_XD, cancelled = _cancel_columns(v, inputs, "w_v_DD", columns)
    rows_XD[:, columns] = 2.0 ** _exponent_of_large(v)
    return inputs, cancelled


def _narrow_inputs(inputs):
    """(a copy of the inputs with heads 16 wide and an even N, half of the columns, random numbers).

    The roots of 16 are powers of 2, so that scores may be scaled anywhere without rounding.
    """
    H, N = inputs["q_RHK"].shape[1], inputs["h_BND"].shape[1] // 2 * 2
    K, D, rng = 16, 16 * H, np.random.default_rng(inputs["h_BND"].shape[1])
    cut = {"q_RHK": np.s_[:, :, :K], "h_BND": np.s_[:, :N, :D], "length_B": np.s_[:],
           "w_k_DD": np.s_[:D, :D], "w_v_DD": np.s_[:D, :D], "b_k_D": np.s_[:D], "b_v_D": np.s_[:D]}  # fmt: skip
    narrow = {name: np.ascontiguousarray(array[cut[name]]).copy() for name, array in inputs.items()}
    narrow["length_B"] = np.minimum(narrow["length_B"], N)
    return narrow, rng.permutation(D)[: D // 2], rng


def _cancel_columns(v, inputs, name, columns):
    """(the weight seen as (out, in), the inputs with these columns of it at 0)."""
    cancelled = inputs | {name: inputs[name].copy()}
    rows_XD, zeros_XD = (a[name] if v.layout == "oi" else a[name].T for a in (inputs, cancelled))
    zeros_XD[:, columns] = 0
    return rows_XD, cancelled


def _exponent_of_large(v):
    """The exponent of a power of 2 so large that a sum with it keeps nothing of a number near 1, in long doubles
    either.
    """
    return np.finfo(v.dtype).maxexp * 7 // 8


PROBES = {
    "keys-in-pieces": (
        _make_key_probe,
        "where W_k has entries 2**{huge} and -2**{huge}, which cancel in q W_k, {sample}: in h W_k they do not cancel,"
        " and rounding to them loses the rest. (q W_k) h loses nothing.",
    ),
    "values-in-pieces": (
        _make_value_probe,
        "where W_v has entries 2**{huge}, and the hidden states that they multiply cancel in p h, {sample}: in h W_v"
        " they do not cancel, and rounding to them loses the rest. (p h) W_v loses nothing.",
    ),
}


def _is_long(trial):
    return trial.inputs["h_BND"].shape[1] >= LONG


def _peak_held_bytes(trial):
    """The most bytes held, by what the process says and, where the system tells it, by what it grew."""
    return max(trial.peak, trial.grown or 0)


def _is_wide(v, trial):
    return bool(trial.got) and v.dtype == "float32" and getattr(trial.got[0], "dtype", None) == np.float64


def _mask_of_text(v, length, N):
    place = np.arange(N)
    return place < length if v.padding == "right" else place >= N - length


def _bytes_of_head_keys(inputs):
    return inputs["h_BND"].shape[1] * inputs["q_RHK"].shape[2] * inputs["h_BND"].itemsize
