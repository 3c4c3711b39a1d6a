"""What each head looks at, and with which queries, keys and values, computed again after a run: by the reference ops,
over the run's own tokens.

No op returns its softmax. But attention is a weighted sum of values: over values that are the unit vectors, the sum is
the weights themselves. So each call of attention is made a second time, with unit vectors in the place of its values.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ... import ops as signatures
from ...plan import Plan
from ...runtime.engine import Engine
from ...runtime.receipt import CountedOps
from .watch import Fed

PLAN = "numpy,cache=split"


class Heads(NamedTuple):
    """What the heads of all layers do, with the text itself, or with the source where there is an encoder.

    weights: weights_RLHM by step, of the newest token of each row over its text up to itself. They sum to 1 over M.
    q: q_RLHK by step, of the same tokens. In the first step, all rows are one.
    k, v: k_LGK and v_LGU by position of the source, or by entry of the text (see watch.py).
    """

    weights: list[np.ndarray]
    q: list[np.ndarray]
    k: list[np.ndarray]
    v: list[np.ndarray]


class _Looked(NamedTuple):
    """One call of attention."""

    weights_RHM: np.ndarray
    given: dict[str, Any]


def heads_by_step(
    model: Any, sources: Sequence[np.ndarray], prompt: np.ndarray, beams: int, fed: Sequence[Fed]
) -> Heads:
    """What the heads do in a generation whose tokens are known."""
    functions, make_cache = Plan.parse(PLAN).resolve(device=model.device, **model.plan_traits)
    noted: list[_Looked] = []  # of a step, by layer
    of_source = model.has_encoder
    for name in ("attend_prefill", "attend_shared" if of_source else "attend_split"):
        functions[name] = _wrap_op_to_note_attention(name, functions[name], noted, of_source)
    engine = Engine(model.network, model.weights, CountedOps(functions), make_cache, device=model.device)
    if of_source:
        engine.encode(list(sources))
    noted.clear()  # what the encoder looked at
    engine.prefill([prompt])
    k_NLGK, v_NLGU = (np.stack([looked.given[name] for looked in noted], axis=1) for name in ("k_XGK", "v_XGU"))
    heads = Heads([_weights_by_layer(noted)[-1:]], [_queries_by_layer(noted)[-1:]], [*k_NLGK], [*v_NLGU])
    engine.expand(beams, len(fed) + 1)
    for step in fed:
        noted.clear()
        engine.step(*step)
        heads.weights.append(_weights_by_layer(noted))
        heads.q.append(_queries_by_layer(noted))
        if not of_source:
            heads.k.extend(_newest_keys_or_values(noted, "k_RGTK"))
            heads.v.extend(_newest_keys_or_values(noted, "v_RGTU"))
    return heads


def _weights_by_layer(noted: list[_Looked]) -> np.ndarray:
    return np.stack([looked.weights_RHM for looked in noted], axis=1)


def _queries_by_layer(noted: list[_Looked]) -> np.ndarray:
    return np.stack([looked.given["q_RHK"] for looked in noted], axis=1)


def _newest_keys_or_values(noted: list[_Looked], name: str) -> np.ndarray:
    """What each row has just written into its cache: keys_RLGK or values_RLGU."""
    last_R = noted[0].given["end_R"] - 1
    return np.stack([looked.given[name][np.arange(len(last_R)), :, last_R] for looked in noted], axis=1)


def _wrap_op_to_note_attention(name: str, function: Callable[..., Any], noted: list[_Looked], of_source: bool):
    """The op, which also notes calls that look at what is asked for: a source, or the text itself."""
    signature = inspect.signature(getattr(signatures, name))

    @functools.wraps(function)
    def call_and_note(*args, **kwargs):
        given = signature.bind(*args, **kwargs).arguments
        if name != "attend_prefill" or given["causal"] is not of_source:
            q_RHK = given["q_RHK"]
            weights_RX = function(**given | unit_values(given))
            noted.append(_Looked(weights_RX.reshape(*q_RHK.shape[:2], -1), given))
        return function(*args, **kwargs)

    return call_and_note


def unit_values(given: dict[str, Any]) -> dict[str, np.ndarray]:
    """In place of the values of a call: position m has the m-th unit vector, in each group of heads."""
    if "k_XGK" in given:
        M, G, _ = given["k_XGK"].shape
        return {"v_XGU": np.repeat(np.eye(M, dtype=given["q_RHK"].dtype)[:, None], G, axis=1)}
    dtype = given["q_RHK"].dtype
    if "k_BGNK" in given:
        B, G, N, _ = given["k_BGNK"].shape
        return {"v_BGNU": np.broadcast_to(np.eye(N, dtype=dtype), (B, G, N, N))}
    B, G, N, _ = given["prompt_k_BGNK"].shape
    R, T = len(given["k_RGTK"]), int(given["end_R"].max())
    unit_MM = np.eye(N + T, dtype=dtype)
    return {
        "prompt_v_BGNU": np.broadcast_to(unit_MM[:N], (B, G, N, N + T)),
        "v_RGTU": np.broadcast_to(unit_MM[N:], (R, G, T, N + T)),
    }
