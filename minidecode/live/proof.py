"""A proof on the user's own inputs: transformers and minidecode generate, and are compared."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from ..errors import InputError, RefusedError, counted
from ..runtime.rounding import logit_bound, score_bound


def compare_sides(side: Any, inputs: Any, options: dict[str, Any]) -> str:
    """Both sides generate: what was compared, in one line. Raises RefusedError on the first difference.

    side: what stands in place of a live model's `generate`. inputs: texts (the side then needs its tokenizer), ids
    (B, N), or a mapping such as a tokenizer returns. options: of `generate`; nothing is drawn at random unless they say
    so, and the model's own settings fill the gaps.
    """
    call = {"do_sample": False} | options | _arguments_of(side, inputs)
    ours = side(**call)  # first, since its errors are one line
    return compare_results(side, type(side.live).generate(side.live, **call), ours, call)


def compare_results(side: Any, theirs: Any, ours: Any, call: dict[str, Any]) -> str:
    """What was compared of two answers, in one line, as `compare_sides` says it. call: the arguments by name."""
    theirs, ours = (np.asarray(getattr(each, "sequences", each)) for each in (theirs, ours))
    ids_BN = call["input_ids"]
    before = 1 if side.convert().has_encoder else ids_BN.shape[1]
    if theirs.shape == ours.shape and (theirs == ours).all():
        return f"{counted(len(ids_BN), 'input')}, {counted(ours[:, before:].size, 'new token')}: the same on both sides"
    row = _first_row(theirs, ours)
    new = theirs[row, before:], ours[row, before:]
    raise RefusedError(_difference(side.convert_in_float64(), call, row, new, len(ours), side.settings_of(**call)))


def _arguments_of(side: Any, inputs: Any) -> dict[str, Any]:
    """The arguments of both sides' `generate`."""
    if isinstance(inputs, str) or (isinstance(inputs, list | tuple) and inputs and isinstance(inputs[0], str)):
        if side.tokenizer is None:
            raise InputError("texts need the tokenizer: md.accelerate(model, tokenizer, prove=texts)")
        texts = [inputs] if isinstance(inputs, str) else list(inputs)
        if len(texts) > 1 and side.tokenizer.pad_token is None:
            raise InputError("the tokenizer has no padding token: set tokenizer.pad_token = tokenizer.eos_token")
        return dict(side.tokenizer(texts, return_tensors="pt", padding=len(texts) > 1))
    given = {name: inputs[name] for name in inputs} if hasattr(inputs, "keys") else {"input_ids": inputs}
    try:
        given = {name: sys.modules["torch"].as_tensor(value) for name, value in given.items()}
        is_batch = given["input_ids"].ndim == 2 and given["input_ids"].numel() > 0
    except (KeyError, TypeError, ValueError, RuntimeError):
        is_batch = False
    if not is_batch:
        raise InputError("prove needs texts, token ids (B, N) of one length, or what a tokenizer returned: give one")
    return given


def _first_row(a: np.ndarray, b: np.ndarray) -> int:
    width = min(a.shape[1], b.shape[1])
    differs = (a[:, :width] != b[:, :width]).any(axis=1)
    return int(np.argmax(differs)) if differs.any() else 0


def _difference(
    exact: Any, given: dict[str, Any], row: int, new: tuple[np.ndarray, np.ndarray], rows: int, settings: dict[str, Any]
) -> str:
    """Which step, which tokens, how far apart their scores are in float64, and whether rounding explains that.

    new: the new tokens of that row, of transformers and of minidecode.
    """
    theirs, ours = new
    width = min(len(theirs), len(ours))
    differs = np.flatnonzero(theirs[:width] != ours[:width])
    if not len(differs):
        return f"row {row}: transformers' text has {len(theirs)} new tokens, and minidecode's {len(ours)}"
    step = int(differs[0])
    sentence = row // (rows // len(given["input_ids"]))
    mask = given.get("attention_mask")
    kept = slice(None) if mask is None else np.asarray(mask[sentence]) != 0
    prompt = np.asarray(given["input_ids"][sentence])[kept].tolist()
    is_greedy = settings.get("num_beams", 1) == 1
    # Greedy search chose by the token alone, a beam by the whole text.
    ends = (step + 1,) * 2 if is_greedy else (len(theirs), len(ours))
    texts = [side[:end].tolist() for side, end in zip(new, ends, strict=True)]
    start = settings.get("decoder_start_token_id") if exact.has_encoder else None
    logprobs = exact.score(input_ids=[prompt] * 2, target_ids=texts, decoder_start_token_id=start).token_log_probs
    errors = [logit_bound(exact, *_largest_logit(exact, prompt, text, start)) for text in texts]
    if is_greedy:
        sums, bound = [float(each[-1]) for each in logprobs], sum(errors)
    else:
        norms = [len(text) ** settings.get("length_penalty", 1.0) for text in texts]
        sums = [float(each.sum()) / norm for each, norm in zip(logprobs, norms, strict=True)]
        bound = sum(map(score_bound, errors, ends, sums, norms))
    gap = abs(sums[0] - sums[1])
    verdict = "a tie: rounding explains it" if gap <= bound else "rounding does not explain it"
    return (
        f"row {row}, new token {step}: transformers says {int(theirs[step])}, minidecode {int(ours[step])}; the "
        f"{'log-probabilities of the two tokens' if is_greedy else 'scores of the two texts'} in float64 are "
        f"{sums[0]:.7g} and {sums[1]:.7g}, {gap:.2g} apart, and rounding may make {bound:.2g}: {verdict}"
    )


def _largest_logit(exact: Any, prompt: list[int], text: list[int], start: int | None) -> tuple[float, int]:
    """(the largest |logit| from which a token of the text was chosen, positions that a softmax adds up)."""
    if exact.has_encoder:
        logits_NV = exact.logits([prompt], decoder_input_ids=[[start, *text[:-1]]])[0]
    else:
        logits_NV = exact.logits([prompt + text[:-1]])[0][len(prompt) - 1 :]
    return float(np.abs(logits_NV).max()), len(prompt) + len(text)
