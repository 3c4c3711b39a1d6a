"""Which tokens each head looks at, computed again after a run: by the reference ops, over the run's own tokens.

No op returns its softmax. But attention is a weighted sum of values: over values that are the unit vectors, the sum is
the weights themselves. So each call of attention is made a second time, with unit vectors in the place of its values.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ... import ops as signatures
from ...plan import Plan
from ...runtime.engine import Engine
from ...runtime.receipt import CountedOps
from .watch import Fed

PLAN = "numpy,cache=split"


def attention_by_step(
    model: Any, sources: Sequence[np.ndarray], prompt: np.ndarray, beams: int, fed: Sequence[Fed]
) -> list[np.ndarray]:
    """weights_RLHM for each step: of the newest token of each row, by layer and head, over its text up to itself.

    With an encoder, over the source. In the first step, all rows are one. Each sums to 1 over M.
    """
    functions, make_cache = Plan.parse(PLAN).resolve(model.has_encoder, model.device, **model.traits)
    noted: list[np.ndarray] = []
    of_source = model.has_encoder
    for name in ("attend_prefill", "attend_shared" if of_source else "attend_split"):
        functions[name] = _with_weights(name, functions[name], noted, of_source)
    engine = Engine(model.network, model.weights, CountedOps(functions), make_cache, device=model.device)
    if of_source:
        engine.encode(list(sources))
    noted.clear()  # what the encoder looked at
    engine.prefill([prompt])
    found = [np.stack([weights_RHM[-1:] for weights_RHM in noted], axis=1)]
    engine.expand(beams, len(fed) + 1)
    for step in fed:
        noted.clear()
        engine.step(*step)
        found.append(np.stack(noted, axis=1))
    return found


def _with_weights(name: str, function: Callable[..., Any], noted: list[np.ndarray], of_source: bool):
    """The op, which also notes weights_RHM of calls that look at what is asked for: a source, or the text itself."""
    signature = inspect.signature(getattr(signatures, name))

    @functools.wraps(function)
    def call(*args, **kwargs):
        given = signature.bind(*args, **kwargs).arguments
        if name != "attend_prefill" or given["causal"] is not of_source:
            q_RHK = given["q_RHK"]
            weights_RX = function(**given | unit_values(given))
            noted.append(weights_RX.reshape(*q_RHK.shape[:2], -1))
        return function(*args, **kwargs)

    return call


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
