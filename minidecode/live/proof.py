"""A proof on the user's own inputs: transformers and minidecode generate, and are compared."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import InputError, RefusedError

UNIT = 2.0**-24  # of float32: the largest relative error of one rounded operation
SAFETY = 6.0  # as the tests' bound of logits has it


def compare_sides(side: Any, inputs: Any, options: dict[str, Any], exact: Callable[[], Any]) -> str:
    """Both sides generate: what was compared, in one line. Raises RefusedError on the first difference.

    side: what stands in place of a live model's `generate`; exact: makes the model in float64, for the scores of what
    differs. inputs: texts (the side then needs its tokenizer), ids (B, N), or a mapping such as a tokenizer returns.
    """
    given = _given(side, inputs)
    theirs, ours = type(side.live).generate(side.live, **given, **options), side(**given, **options)
    theirs, ours = (np.asarray(getattr(each, "sequences", each)) for each in (theirs, ours))
    before = 1 if side.own().has_encoder else given["input_ids"].shape[1]
    if theirs.shape == ours.shape and (theirs == ours).all():
        return f"{len(given['input_ids'])} inputs, {ours[:, before:].size} new tokens: the same on both sides"
    row = _first_row(theirs, ours)
    raise RefusedError(_difference(exact(), given, row, theirs[row, before:], ours[row, before:], len(ours)))


def _given(side: Any, inputs: Any) -> dict[str, Any]:
    """The arguments of both sides' `generate`."""
    if isinstance(inputs, str) or (isinstance(inputs, list | tuple) and inputs and isinstance(inputs[0], str)):
        if side.tokenizer is None:
            raise InputError("texts need the tokenizer: md.accelerate(model, tokenizer, prove=texts)")
        texts = [inputs] if isinstance(inputs, str) else list(inputs)
        return dict(side.tokenizer(texts, return_tensors="pt", padding=len(texts) > 1))
    if hasattr(inputs, "keys"):
        return {name: inputs[name] for name in inputs if name in ("input_ids", "attention_mask")}
    return {"input_ids": sys.modules["torch"].as_tensor(inputs)}


def _first_row(a: np.ndarray, b: np.ndarray) -> int:
    width = min(a.shape[1], b.shape[1])
    differs = (a[:, :width] != b[:, :width]).any(axis=1)
    return int(np.argmax(differs)) if differs.any() else 0


def _difference(exact: Any, given: dict[str, Any], row: int, theirs, ours, rows: int) -> str:
    """Which step, which tokens, how far apart their scores are in float64, and whether rounding explains that."""
    width = min(len(theirs), len(ours))
    differs = np.flatnonzero(theirs[:width] != ours[:width])
    if not len(differs):
        return f"row {row}: transformers' text has {len(theirs)} new tokens, and minidecode's {len(ours)}"
    step = int(differs[0])
    sentence = row // (rows // len(given["input_ids"]))
    kept = np.asarray(given["attention_mask"][sentence]) != 0 if "attention_mask" in given else slice(None)
    prompt = np.asarray(given["input_ids"][sentence])[kept].tolist()
    shared, found = theirs[:step].tolist(), []
    for token in (int(theirs[step]), int(ours[step])):
        scores = exact.score(input_ids=[prompt], target_ids=[[*shared, token]])
        found.append(float(scores.token_log_probs[0][-1]))
    gap = abs(found[0] - found[1])
    bound = tie_bound(exact, max(map(abs, found)), step + 1)
    verdict = "a tie: rounding explains it" if gap <= bound else "rounding does not explain it"
    return (
        f"row {row}, new token {step}: transformers says {int(theirs[step])}, minidecode {int(ours[step])}; their "
        f"log-probabilities in float64 are {found[0]:.7g} and {found[1]:.7g}, {gap:.2g} apart, and rounding may make "
        f"{bound:.2g}: {verdict}; the model is as it was"
    )


def tie_bound(exact: Any, largest: float, tokens: int) -> float:
    """How far two sums of log-probabilities may change places by float32's rounding.

    2 * SAFETY * UNIT * sqrt(layers' results * longest sum) * largest |log-probability| * tokens
    """
    longest = max(4 * exact.config.width, tokens)
    return 2 * SAFETY * UNIT * float(np.sqrt((3 * exact.config.layers + 1) * longest)) * max(largest, 1.0) * tokens
