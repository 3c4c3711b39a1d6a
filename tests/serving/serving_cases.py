"""Requests of all kinds of search, what `generate` answers to each alone, and a server in a process of its own."""

import contextlib
import functools
import re
import subprocess
import sys

import numpy as np
from tolerance import FLOAT32, logit_bound
from toy_folder import write_bart_folder, write_folder

import minidecode as md

BEAMS = dict(num_beams=3, num_return_sequences=2)
SAMPLE = dict(do_sample=True, top_k=0)
KINDS = {
    "greedy": [{}, dict(no_repeat_ngram_size=2), dict(repetition_penalty=1.3, min_new_tokens=2)],
    "sampling": [
        SAMPLE, dict(SAMPLE, seed=3, num_return_sequences=3), dict(SAMPLE, temperature=0.7, top_p=0.9),
        dict(SAMPLE, num_return_sequences=2, no_repeat_ngram_size=2),
    ],
    "beams": [
        BEAMS, dict(num_beams=2, length_penalty=2.0, early_stopping=True), dict(BEAMS, no_repeat_ngram_size=2),
        dict(num_beams=4, num_beam_groups=2, diversity_penalty=0.5), dict(num_beams=3, sibling_penalty=0.4),
        dict(num_beams=2, do_sample=True, top_k=0, seed=5), dict(num_beams=3, dialect="fairseq"),
        dict(num_beams=3, dialect="ctranslate2", patience=1.5, no_repeat_ngram_size=2),
        dict(num_beams=3, dialect="lightseq"),
    ],
    "stops": [dict(stop_strings="e"), dict(num_beams=2, stop_strings=["th", "a"]), dict(SAMPLE, stop_strings="t")],
    "biases": [dict(sequence_bias={(70,): 3.0}), dict(BEAMS, suppress_tokens=[5, 9]),
               dict(SAMPLE, bad_words_ids=[[7]])],
}  # fmt: skip
# Of 5, 7, 10 and 4 tokens. They begin with the same pages of two tokens; the second page of the first two is the same
# behind another first one; the last ends where a page of the first one does.
PROMPTS = ["the the the thea", "a the the thea b", "the the th otter", "the the the the"]


def requests(kinds=KINDS, each: int = 1) -> list[dict]:
    """Arguments of `Scheduler.submit`: each kind of options with prompts and lengths in turn."""
    options = [given for kind in kinds for given in KINDS[kind]] * each
    return [
        dict(prompt=PROMPTS[i % 4], max_new_tokens=2 + (i * 5) % 9, **given, **({"logprobs": 2} if i % 2 == 0 else {}))
        for i, given in enumerate(options)
    ]


@functools.cache
def model(family: str = "gpt2", plan: str = "numpy"):
    """A toy with random weights, whose texts differ from prompt to prompt."""
    return md.load(folder_of(family), plan=plan)


@functools.cache
def folder_of(family: str):
    import tempfile
    from pathlib import Path

    folder = Path(tempfile.mkdtemp()) / family
    if family == "bart":
        write_bart_folder(folder, max_position_embeddings=20)
    else:
        write_folder(folder, n_positions=20, **({"attention_window": 5} if family == "window" else {}))
    return folder


@functools.cache
def alone(family: str, number: int):
    """What `generate` answers to a request alone."""
    from minidecode.serving.scheduler import one_by_one

    return one_by_one(model(family), [requests()[number]])[0]


@functools.cache
def bound(loaded: md.Model) -> float:
    """How far rounding may carry a log-probability, or a score, which is a mean of them, from another sum's.

    Two answers round, and the softmax moves by what the logit moves and by what its normaliser moves.
    """
    kept = loaded.generate(["a", "the"], max_new_tokens=3, keep=("logits",)).kept
    largest = max(float(np.abs(logits_RV[np.isfinite(logits_RV)]).max()) for logits_RV in kept.logits)
    return 4 * logit_bound(loaded.config, largest, FLOAT32)


def assert_same(got, want, loaded: md.Model | None = None) -> None:
    """Tokens, scores, reasons and log-probabilities of an answer are those of another."""
    atol = bound(model() if loaded is None else loaded)
    assert [ids.tolist() for ids in got.token_ids] == [ids.tolist() for ids in want.token_ids]
    np.testing.assert_allclose(got.scores, want.scores, rtol=0, atol=atol)
    assert got.texts == want.texts and got.finish_reasons == want.finish_reasons
    assert (got.log_probs is None) == (want.log_probs is None)
    if want.log_probs is not None:
        for mine, theirs in zip(got.token_logprobs, want.token_logprobs, strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=0, atol=atol)
        for mine, theirs in zip(got.top_logprobs, want.top_logprobs, strict=True):
            assert [list(step) for step in mine] == [list(step) for step in theirs]


@contextlib.contextmanager
def serving(*arguments, model="tiny-gpt2"):
    """(process, address) of a `minidecode serve` that has begun to listen."""
    command = [sys.executable, "-m", "minidecode", "serve", str(model), "--port", "0", "--plan", "numpy", *arguments]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            for line in process.stderr:
                if found := re.search(r"at (http://127\.0\.0\.1:\d+)$", line.strip()):
                    break
            else:
                raise AssertionError("it ended")
            yield process, found[1]
        finally:
            process.kill()
