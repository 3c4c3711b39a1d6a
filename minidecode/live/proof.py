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
    settings = side.live.generation_config
    greedy = (options.get("num_beams") or settings.num_beams or 1) == 1
    start = settings.decoder_start_token_id if side.own().has_encoder else None
    new = theirs[row, before:], ours[row, before:]
    raise RefusedError(_difference(exact(), given, row, *new, len(ours), greedy, start))


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


def _difference(
    exact: Any, given: dict[str, Any], row: int, theirs, ours, rows: int, greedy: bool, start: int | None
) -> str:
    """Which step, which tokens, how far apart their scores are in float64, and whether rounding explains that."""
    width = min(len(theirs), len(ours))
    differs = np.flatnonzero(theirs[:width] != ours[:width])
    if not len(differs):
        return f"row {row}: transformers' text has {len(theirs)} new tokens, and minidecode's {len(ours)}"
    step = int(differs[0])
    sentence = row // (rows // len(given["input_ids"]))
    kept = np.asarray(given["attention_mask"][sentence]) != 0 if "attention_mask" in given else slice(None)
    prompt = np.asarray(given["input_ids"][sentence])[kept].tolist()
    # Greedy search chose by the token alone, a beam by the whole text.
    ends = (step + 1,) * 2 if greedy else (len(theirs), len(ours))
    texts = [side[:end].tolist() for side, end in zip((theirs, ours), ends, strict=True)]
    logprobs = exact.score(input_ids=[prompt] * 2, target_ids=texts, decoder_start_token_id=start).token_log_probs
    found = [float(each[-1] if greedy else each.sum()) for each in logprobs]
    gap = abs(found[0] - found[1])
    bound = tie_bound(exact, max(map(abs, found)), max(ends))
    verdict = "a tie: rounding explains it" if gap <= bound else "rounding does not explain it"
    return (
        f"row {row}, new token {step}: transformers says {int(theirs[step])}, minidecode {int(ours[step])}; the "
        f"log-probabilities of {'the two tokens' if greedy else 'the two texts'} in float64 are {found[0]:.7g} and "
        f"{found[1]:.7g}, {gap:.2g} apart, and rounding may make {bound:.2g}: {verdict}; the model is as it was"
    )


def tie_bound(exact: Any, largest: float, tokens: int) -> float:
    """How far two sums of log-probabilities may change places by float32's rounding.

    2 * SAFETY * UNIT * sqrt(layers' results * longest sum) * largest |log-probability| * tokens
    """
    longest = max(4 * exact.config.width, tokens)
    return 2 * SAFETY * UNIT * float(np.sqrt((3 * exact.config.layers + 1) * longest)) * max(largest, 1.0) * tokens
