"""The dialect `fairseq`, replayed on searches that fairseq 0.10.2 ran itself.

tests/golden/fairseq holds 200 of its searches on a toy model that a few arrays define: logits for the next token are
A[last] + 0.7 Bm[last but one] + 0.5 P[step % 8] + S[sentence], in float32 and in this order. Every decision in them
has a margin of 1e-4 at least, so tokens must be equal; scores within what float32 sums to.
"""

import json
from pathlib import Path

import numpy as np
import pytest
from toy import Ops

from minidecode.search.beam import beam_search
from minidecode.search.greedy import greedy
from minidecode.search.options import Options
from minidecode.search.result import Request

FOLDER = Path(__file__).parent / "fairseq"
CASES = [json.loads(line) for line in (FOLDER / "cases.jsonl").read_text(encoding="utf-8").splitlines()]
PAD, EOS, UNK = 1, 2, 3


class ArrayModel:
    """Stands in for runtime.engine.Engine. `sentences` are the rows of S that its sentences use."""

    leaving = True

    def __init__(self, seed: int, sentences: list[int]):
        with np.load(FOLDER / "arrays.npz") as arrays:
            self.A, self.Bm, self.P, self.S = (arrays[f"{name}_{seed:02}"] for name in ("A", "Bm", "P", "S"))
        self.sentence_R, self.ops = np.array(sentences), Ops()

    def prefill(self, prompts):
        return self._logits(np.stack(prompts), np.ones(len(prompts), np.int64))

    def expand(self, beams, steps):
        self.sentence_R = np.repeat(self.sentence_R, beams)

    def leave(self, stays_B, beams):
        self.sentence_R = self.sentence_R.reshape(-1, beams)[stays_B].reshape(-1)

    def step(self, tokens_RM, length_R, parent_R):
        same = parent_R is None or np.array_equal(self.sentence_R, self.sentence_R[parent_R])
        assert same, "a beam's parent is of another sentence"
        return self._logits(tokens_RM, length_R)

    def _logits(self, tokens_RM, length_R):
        every_R = np.arange(len(length_R))
        last_R = tokens_RM[every_R, length_R - 1]
        before_R = np.where(length_R >= 2, tokens_RM[every_R, length_R - 2], 0)
        logits_RV = (self.A[last_R] + np.float32(0.7) * self.Bm[before_R]) + np.float32(0.5) * self.P[
            (length_R - 1) % 8
        ]
        return logits_RV + self.S[self.sentence_R]


def options_of(case: dict) -> Options:
    """fairseq's arguments under our names."""
    theirs, search = case["options"], case["search"]
    ours = {
        "num_beams": theirs["beam_size"], "num_return_sequences": theirs["beam_size"],
        "min_new_tokens": theirs["min_len"],
        "length_penalty": theirs["len_penalty"] if theirs["normalize_scores"] else 0.0,
        "unk_penalty": theirs["unk_penalty"], "temperature": theirs["temperature"],
        "no_repeat_ngram_size": theirs["no_repeat_ngram_size"],
    }  # fmt: skip
    if search["name"] == "DiverseBeamSearch" and search["num_groups"] > 1:
        ours |= {"num_beam_groups": search["num_groups"], "diversity_penalty": search["diversity_strength"]}
    if search["name"] == "DiverseSiblingsSearch" and search["diversity_rate"]:
        ours |= {"sibling_penalty": search["diversity_rate"]}
    return Options(dialect="fairseq", eos_token_id=EOS, pad_token_id=PAD, unk_token_id=UNK, **ours)


def replay(case: dict, sentences: list[int], search=beam_search):
    """Our search on these sentences of a case."""
    start = EOS if case["bos_token"] is None else case["bos_token"]
    prompts = [np.array([start]) for _ in sentences]
    prefixes = case["prefix_tokens"] and [
        [-1 if token == PAD else token for token in case["prefix_tokens"][b]] for b in sentences
    ]
    options = options_of(case)
    request = Request.make(prompts, [case["max_len"] + 1] * len(sentences), options, prefixes=prefixes)
    return search(ArrayModel(case["seed"], sentences), request, options)


def check(found, expected_sentences):
    for tokens, scores, expected in zip(found.tokens, found.scores_BX, expected_sentences, strict=True):
        filled = np.isfinite(scores)
        assert [t.tolist() for t, there in zip(tokens, filled, strict=True) if there] == [h["tokens"] for h in expected]
        for score, hypothesis in zip(scores[filled], expected, strict=True):
            theirs = float(hypothesis["score"])
            assert abs(score - theirs) <= 64 * 2.0**-24 * max(1.0, abs(theirs)) * len(hypothesis["tokens"])


@pytest.mark.parametrize("case", CASES, ids=lambda c: c["id"])
def test_the_same_texts_as_fairseq(case):
    check(replay(case, list(range(len(case["sentences"])))), case["sentences"])


@pytest.mark.parametrize("case", [c for c in CASES if len(c["sentences"]) > 1], ids=lambda c: c["id"])
def test_each_sentence_alone(case):
    for b, expected in enumerate(case["sentences"]):
        check(replay(case, [b]), [expected])


def test_what_the_cases_cover():
    groups = {case["group"] for case in CASES}
    assert len(CASES) >= 150 and len(groups) >= 18, (len(CASES), groups)
    assert {c["options"]["beam_size"] for c in CASES} >= {1, 2, 3, 4, 5, 6}
    assert {c["options"]["len_penalty"] for c in CASES} >= {-0.5, 0.0, 0.6, 1.0, 2.0}


@pytest.mark.parametrize("case", [c for c in CASES if c["options"]["beam_size"] == 1], ids=lambda c: c["id"])
def test_a_beam_of_one_is_what_greedy_search_finds(case):
    """fairseq has no greedy search; ours runs instead of a beam of one."""
    check(replay(case, list(range(len(case["sentences"]))), search=greedy), case["sentences"])
