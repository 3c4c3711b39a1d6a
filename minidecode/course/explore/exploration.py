"""Runs a prompt under several plans, and records each step for the page (format: docs/guide/explore.md)."""

from __future__ import annotations

import base64
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from ...cache.queries import rows_per_token
from ...errors import InputError, OptionError
from ...methods.loaded import refuse_other_than_model
from ...options.options import Options
from ...options.typed_dict import GenerateOptions
from ...plan import Plan
from ...runtime.engine import watched_by
from ...runtime.output import Output
from .attention import Heads, heads_by_step
from .boxes import boxes_of_parts, costs_of_calls, count_layers, names_of_weights, sum_costs_by_op
from .page import html_page
from .watch import Watch

if TYPE_CHECKING:
    from ...model import Model

FORMAT = 2
PLANS = ("cache=replicated", "cache=split")
LIKELIEST = 5  # of a step without beams: this many of the model's first choices are candidates
INSIDE_BYTES = 1_200_000  # one for each number inside the heads; layers are left out, evenly, until the rest fits


@dataclass(frozen=True)
class Exploration:
    """A recorded generation: `data` as the page reads it, and `html()`, the page."""

    data: dict[str, Any]

    def html(self) -> str:
        """One page without network or other files. Raises InputError if it would have more than 3 MB."""
        return html_page(self.data)


def explore(
    model: Model, prompt: str, *, plans: str | Sequence[str] = PLANS, truncate: bool = False,
    **options: Unpack[GenerateOptions],
) -> Exploration:  # fmt: skip
    """Generates from one prompt under each plan, and records every step: for a page to look at, or as data.

        seen = md.explore(md.load("tiny-gpt2"), "Fellow citizens,", num_beams=4, max_new_tokens=16)
        pathlib.Path("out.html").write_text(seen.html(), encoding="utf-8")

    plans: what is compared, such as ("cache=replicated", "cache=split"). truncate, options: those of `generate`.

    Each plan runs once. Bytes and operations are those of the receipt, by cost models. Attention is computed again
    after the runs. Raises InputError on a prompt that cannot be used, OptionError on options, plans and models.
    """
    plans = [plans] if isinstance(plans, str) else list(plans)
    resolved = _checked_options(model, prompt, plans, options)
    sources, (start,), _ = model.inputs.fit_call(prompt, None, None, resolved, truncate)
    ran = [_run_plan(model, prompt, plan, start, truncate, resolved, options) for plan in plans]
    runs: list[dict[str, Any]] = []
    watches, run_of = [], []
    for run, watch, _ in ran:
        chosen = _choices_of_search(run)
        same = next((i for i, other in enumerate(runs) if _choices_of_search(other) == chosen), len(runs))
        if same == len(runs):
            runs.append(run)
            watches.append(watch)
        run_of.append(same)
    word, R = _make_token_decoder(model), ran[0][1].R
    steps = sum(len(w.fed) + 1 for w in watches)
    for run, watch in zip(runs, watches, strict=True):
        looked = heads_by_step(model, sources, start, R, watch.fed)
        run["attention"] = _encode_heads_in_base64(looked, INSIDE_BYTES * (len(watch.fed) + 1) / steps)
    return Exploration({
        "format": FORMAT, "model": _describe_model(model), "prompt": prompt,
        "search": _kind_of_search(resolved), "options": _plain_options(resolved.changed()),
        "rows": R, "start": [word(i) for i in start], "source": [word(i) for s in sources for i in s],
        "runs": runs,
        "plans": [
            _record_of_plan(model, plan, run, w, out) for plan, run, (_, w, out) in zip(plans, run_of, ran, strict=True)
        ],
    })  # fmt: skip


def _checked_options(model: Model, prompt: Any, plans: list[str], options: dict[str, Any]) -> Options:
    """The options of the call. Raises on what no page is made of."""
    refuse_other_than_model("explore", model)
    resolved = model.options(**options)
    if not isinstance(prompt, str):
        raise InputError(f"explore takes one prompt, a text, not {type(prompt).__name__}")
    if model.tokenizer is None:
        raise InputError("explore needs a tokenizer, and this model folder has none")
    if model.device != "cpu":
        raise OptionError(f"explore needs device=cpu, not {model.device}")
    if rows_per_token(model.weights) == 2 or model.reads_in_front or model.has_latent:
        raise OptionError(f"explore does not show {model.family} models: use GPT-2, Llama, BART, T5 or Marian")
    if resolved.guidance_scale != 1.0:
        raise OptionError("explore shows one prediction a token: leave out guidance_scale")
    if not plans:
        raise OptionError("explore needs a plan, such as cache=split")
    for i, plan in enumerate(plans):
        if plan in plans[:i]:
            raise OptionError(f"the plan {plan} is given twice: give it once")
        Plan.parse(plan)
    return resolved


def _run_plan(model: Model, prompt: str, plan: str, start, truncate: bool, resolved: Options, options: dict[str, Any]):
    """(run, watch, output) of one generation."""
    watch = Watch(resolved.num_beams if resolved.num_beams > 1 else resolved.num_return_sequences, len(start))
    logprobs = LIKELIEST if resolved.num_beams == 1 else None
    with watched_by(watch):
        out = model.generate(
            prompt, plan=plan, truncate=truncate, trace=True, costs=watch.cost_of, logprobs=logprobs, **options
        )
    word = _make_token_decoder(model)
    chosen, steps = _record_steps(out, watch.R, resolved, word)
    texts = [
        {
            "text": h.text,
            "token_ids": h.token_ids.tolist(),
            "score": _number_or_none(h.score),
            "finish_reason": h.finish_reason,
        }
        for h in out
    ]
    return {"texts": texts, "tokens": _tokens_by_place(chosen, watch, word), "steps": steps}, watch, out


def _choices_of_search(run: dict[str, Any]) -> list[Any]:
    """What a search decided. Scores under two plans may differ in their last bits."""
    decided = [[(c["token"], c["parent"], c["fate"], c["row"]) for c in step["candidates"]] for step in run["steps"]]
    return [decided, run["tokens"], [text["token_ids"] for text in run["texts"]]]


def _record_steps(out: Output, R: int, options: Options, word: Callable[[int], str]):
    """(the candidates that became rows, {row: candidate} by step; what the page shows of each step)."""
    assert out.trace is not None
    W = R // options.num_beam_groups if options.num_beams > 1 and options.rules.groups == "apart" else R
    W = W if options.num_beams > 1 else 1  # rows of a group: each text of a sampling is a group of one
    chosen: list[dict[int, dict[str, Any]]] = [{} for _ in range(out.receipt.steps)]
    shown: list[dict[str, Any]] = [{"candidates": [], "changed": {}} for _ in range(out.receipt.steps)]
    for step in out.trace.of(0):
        first = step.group * W
        candidates = [
            {"token": c.token, "text": word(c.token), "parent": first + c.parent, "score": _number_or_none(c.score),
             "fate": c.fate, "row": None if c.beam is None else first + c.beam}
            for c in step.candidates
        ]  # fmt: skip
        for candidate in candidates:
            if candidate["row"] is not None:
                chosen[step.step][candidate["row"]] = candidate
        if out.log_probs is not None:
            candidates = _likeliest_tokens(candidates[0], out.log_probs[step.group], step.step, word)
        shown[step.step]["candidates"] += candidates
        for name, pairs in step.changed.items():
            seen = shown[step.step]["changed"].setdefault(name, {"count": 0, "examples": []})
            seen["count"] += len(pairs)
            seen["examples"] = (seen["examples"] + [[first + w, word(v)] for w, v in pairs[:3]])[:3]
    return chosen, shown


def _likeliest_tokens(taken: dict[str, Any], log_probs, step: int, word: Callable[[int], str]) -> list[dict[str, Any]]:
    """The model's first choices in a step, each with its log-probability, and the token that was taken."""
    first = dict(zip(log_probs.best_RK[step].tolist(), log_probs.best_logprob_RK[step].tolist(), strict=True))
    first.setdefault(taken["token"], float(log_probs.token_R[step]))
    others = {"parent": taken["parent"], "fate": "dropped", "row": None}
    return [
        {
            **(taken if token == taken["token"] else others),
            "token": token,
            "text": word(token),
            "score": _number_or_none(score),
        }
        for token, score in sorted(first.items(), key=lambda pair: -pair[1])
    ]


def _tokens_by_place(chosen: list[dict[int, dict[str, Any]]], watch: Watch, word: Callable[[int], str]) -> list[Any]:
    """What row r took in step s, at place s*R + r; None where it took nothing. parent: the entry that it follows.

    A row whose text is done goes through the model with the others: what it repeats is marked idle.
    """
    R, N, tokens = watch.R, watch.N, []
    for s, rows in enumerate(chosen):
        fed = watch.fed[s] if s < len(watch.fed) else None
        for r in range(R):
            taken = rows.get(r)
            parent = taken["parent"] if taken else int(fed.parent_R[r]) if fed else 0
            follows = N - 1 if s == 0 else N + (s - 1) * R + parent
            if taken:
                tokens.append({"token": taken["token"], "text": taken["text"], "parent": follows})
            elif fed:
                token = int(fed.tokens_RM[r, fed.length_R[r] - 1])
                tokens.append({"token": token, "text": word(token), "parent": follows, "idle": True})
            else:
                tokens.append(None)
    return tokens


def _record_of_plan(model: Model, asked: str, run: int, watch: Watch, out: Output) -> dict[str, Any]:
    """What a plan does with memory and arithmetic: by step, and by op."""
    receipt = out.receipt
    ops = list(receipt.ops)
    costs = costs_of_calls(watch.calls, receipt)
    bounds = [0, *watch.begins, len(watch.calls)]
    names, layers = names_of_weights(model.weights), count_layers(model.weights)
    done = [
        {"ops": sum_costs_by_op(watch.calls[a:b], costs[a:b], ops),
         "parts": boxes_of_parts(watch.calls[a:b], costs[a:b], ops, names, layers)}
        for a, b in itertools.pairwise(bounds)
    ]  # fmt: skip

    steps = []
    for s, (strips, held) in enumerate(zip(watch.strips, watch.held, strict=True)):
        before = {e for strip in watch.strips[s - 1] for e in _own_bytes(strip)} if s else set()
        dropped = before - {e for strip in strips for e in _own_bytes(strip)}
        steps.append({
            "held": held, "used": held - sum(strip.room * strip.brick for strip in strips),
            **done[s + 1], "strips": [asdict(strip) for strip in strips],
            "dropped": sorted(dropped),
        })  # fmt: skip
    return {
        "asked": asked, "plan": receipt.plan, "run": run, "cache": receipt.cache,
        "cache_peak_bytes": receipt.cache_peak_bytes, "rows_computed": receipt.rows, "ops": ops,
        "implementations": [receipt.ops[name].implementation for name in ops],
        "prefill": done[0], "steps": steps,
    }  # fmt: skip


def _own_bytes(strip: Any) -> list[int]:
    return [entry for entry in strip.cells if entry >= 0] if strip.part == "own" else []


def _encode_heads_in_base64(heads: Heads, most_bytes: float) -> dict[str, Any]:
    """What the heads do, in base64 by step and row, or by position: layer after layer, head after head.

    Attention is bytes, 255 for a weight of 1. Queries, keys and values are bytes with a sign, 127 for a head's largest.
    most_bytes: of base64's input. Layers are left out until the rest fits; if one is too much, all but attention.
    """
    weights, of_layer = heads.weights, sum(w.size for w in heads.weights) // heads.weights[0].shape[1]
    states = sum(x.size for x in (*heads.q, *heads.k, *heads.v)) // weights[0].shape[1]
    has_states = of_layer + states <= most_bytes
    of_layer += states * has_states
    layers = list(range(L := weights[0].shape[1]))
    while len(layers) > 1 and of_layer * len(layers) > most_bytes:
        layers = sorted({round(x) for x in np.linspace(0, L - 1, len(layers) - 1)}) if len(layers) > 2 else [L - 1]
    packed = {
        "layers": layers, "of_layers": L, "heads": weights[0].shape[2],
        "weights": [
            [_base64_text(np.rint(255 * w_LHM[layers]).astype(np.uint8)) for w_LHM in w_RLHM] for w_RLHM in weights
        ],
    }  # fmt: skip
    if has_states:
        packed |= {
            "groups": heads.k[0].shape[1],
            "queries": [[_base64_text(_encode_signed(q_LHK[layers])) for q_LHK in q_RLHK] for q_RLHK in heads.q],
            "keys": [_base64_text(_encode_signed(k_LGK[layers])) for k_LGK in heads.k],
            "values": [_base64_text(_encode_signed(v_LGU[layers])) for v_LGU in heads.v],
        }  # fmt: skip
    return packed


def _encode_signed(x_LHX: np.ndarray) -> np.ndarray:
    most_LHX = np.abs(x_LHX).max(axis=2, keepdims=True)
    return np.rint(127 * x_LHX / np.maximum(most_LHX, np.finfo(np.float32).tiny)).astype(np.int8)


def _base64_text(array: np.ndarray) -> str:
    return base64.b64encode(array.tobytes()).decode("ascii")


def _describe_model(model: Model) -> dict[str, Any]:
    config = model.config
    name = model.family if model.loaded_from is None else Path(model.loaded_from.name).name
    return {"name": name, "family": model.family, "layers": config.layers, "width": config.width, "dtype": model.dtype}


def _kind_of_search(options: Options) -> str:
    return "beam" if options.num_beams > 1 else "sampling" if options.do_sample else "greedy"


def _plain_options(options: dict[str, Any]) -> dict[str, Any]:
    """Options as JSON can hold them."""
    return {
        name: value if isinstance(value, str | int | float | bool) else str(value) for name, value in options.items()
    }


def _number_or_none(score: float) -> float | None:
    """A score as JSON knows it, which has no infinity."""
    return float(score) if math.isfinite(score) else None


def _make_token_decoder(model: Model) -> Callable[[int], str]:
    assert model.tokenizer is not None
    decode = model.tokenizer.decode
    return lambda token: decode([token], keep_special=True)
