"""The dialect `fairseq`, replayed on searches that fairseq 0.10.2 ran itself.

tests/golden/fairseq holds 200 of its searches on a toy model that a few arrays define: logits for the next token are
A[last] + 0.7 Bm[last but one] + 0.5 P[step % 8] + S[sentence], in float32 and in this order. Every decision in them
has a margin of 1e-4 at least, so tokens must be equal; scores within what float32 sums to.
"""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
from toy import NothingCaptured, Ops

from minidecode.errors import OptionError
from minidecode.options.options import Options
from minidecode.runtime.prompts import fairseq_limit, fit_prompts
from minidecode.search.beam import beam_search
from minidecode.search.greedy import greedy_search
from minidecode.search.result import Request

FOLDER = Path(__file__).parent / "fairseq"
CASES = [json.loads(line) for line in (FOLDER / "cases.jsonl").read_text(encoding="utf-8").splitlines()]
PAD, EOS, UNK = 1, 2, 3


class ArrayModel(NothingCaptured):
    """Stands in for runtime.engine.Engine. `sentences` are the rows of S that its sentences use."""

    def __init__(self, seed: int, sentences: list[int]):
        with np.load(FOLDER / "arrays.npz") as arrays:
            self.A, self.Bm, self.P, self.S = (arrays[f"{name}_{seed:02}"] for name in ("A", "Bm", "P", "S"))
        self.sentence_R, self.ops = np.array(sentences), Ops()

    def prefill(self, prompts):
        return self._logits(np.stack(prompts), np.ones(len(prompts), np.int64))

    def expand(self, beams, steps):
        self.sentence_R = np.repeat(self.sentence_R, beams)

    def keep_only(self, stays_B, beams):
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
    check(replay(case, list(range(len(case["sentences"]))), search=greedy_search), case["sentences"])


# ---- limits, and beams about as wide as the vocabulary ---------------------------------------------------------------

LIMITS = [json.loads(line) for line in (FOLDER / "limits.jsonl").read_text(encoding="utf-8").splitlines()]


def limit_options(case: dict) -> Options:
    theirs = {name: case["options"][name] for name in ("max_len_a", "max_len_b", "match_source_len")}
    return dataclasses.replace(options_of(case), **theirs, min_new_tokens=case["options"]["min_len"])


def whole_width(case: dict) -> list[int]:
    """The sentences without padding: to fairseq the others' sources are as long as the longest one's, too."""
    return [b for b, row in enumerate(case["src_tokens"]) if PAD not in row]


@pytest.mark.parametrize("case", [c for c in CASES + LIMITS if whole_width(c)], ids=lambda c: c["id"])
def test_the_limit_of_new_tokens(case):
    """Also where max_len_b is below 0, and where match_source_len goes before both."""
    options, start = limit_options(case), np.array([EOS])
    sources = [np.array(case["src_tokens"][b]) for b in whole_width(case)]
    _, limits = fit_prompts([start] * len(sources), case["max_decoder_positions"], options, None, sources)
    assert limits.tolist() == [case["max_len"] + 1] * len(sources)


MATCHED = [c for c in LIMITS if c["options"]["match_source_len"]]


@pytest.mark.parametrize("case", MATCHED, ids=lambda c: c["id"])
def test_match_source_len_of_the_longest_sources(case):
    """Those of shorter sources fairseq lets grow as long, and then scores them -inf: here each is as if alone."""
    for b in whole_width(case):
        limit = fairseq_limit(np.array(case["src_tokens"][b]), limit_options(case))
        check(replay(case | {"max_len": limit - 1}, [b]), [case["sentences"][b]])


def replay_by_hand(case: dict, W: int, min_len: int) -> list[tuple[list[int], float]]:
    """fairseq's plain search of a sentence, written from its code: (tokens, score), best first.

    Step 0 has one row, so a beam about as wide as the vocabulary finds too few candidates there: then a text that has
    ended stays and goes on, and in the next step EOS does not count at the rank that has its number.
    """
    model, max_len = ArrayModel(case["seed"], [0]), case["max_len"]
    V = len(model.A)
    W = min(W, V - 1)
    beams, ignored, finished = [([EOS], np.float32(0))], set(), []
    for step in range(max_len + 1):
        flat = []
        for text, total in beams:
            logits_V = model._logits(np.array([text]), np.array([len(text)]))[0]
            scores_V = logits_V - logits_V.max() - np.log(np.exp(logits_V - logits_V.max()).sum())
            scores_V[PAD] = -np.inf
            if step >= max_len:
                scores_V[np.arange(V) != EOS] = -np.inf
            elif step < min_len:
                scores_V[EOS] = -np.inf
            flat.append(total + scores_V)
        flat = np.concatenate(flat)
        order = np.argsort(-flat, kind="stable")[: min(2 * W, len(flat) - 1)]
        ends = [x % V == EOS and flat[x] > -np.inf for x in order]
        for rank, x in enumerate(order[:W]):
            if ends[rank] and rank not in ignored and len(finished) < W:
                finished.append(([*beams[x // V][0][1:], EOS], flat[x] / (step + 1)))
        if len(finished) == W:
            break
        out = [end or rank in ignored for rank, end in enumerate(ends)]
        stay = sorted(range(len(order)), key=lambda rank: (out[rank], rank))[:W]
        ignored = {slot for slot, rank in enumerate(stay) if out[rank]}
        beams = [([*beams[order[rank] // V][0], int(order[rank] % V)], flat[order[rank]]) for rank in stay]
    return sorted(finished, key=lambda found: -found[1])


WIDE = next(c for c in LIMITS if c["group"] == "edge_beam_wider_than_vocab")


def test_the_replay_by_hand_finds_what_fairseq_found():
    for case in [WIDE, *(c for c in CASES if c["group"] == "plain")]:
        found = replay_by_hand(case, case["options"]["beam_size"], case["options"]["min_len"])
        assert [text for text, _ in found] == [h["tokens"] for h in case["sentences"][0]], case["id"]


@pytest.mark.parametrize("beams", ["half + 1", "all but three", "all but two", "all but one", "twice as many"])
@pytest.mark.parametrize("seed", [3, 9, 16])
def test_beams_about_as_wide_as_the_vocabulary(seed, beams):
    case = WIDE | {"seed": seed}
    V = len(ArrayModel(seed, [0]).A)
    W = {"half + 1": V // 2 + 1, "all but three": V - 3, "all but two": V - 2, "all but one": V - 1}.get(beams, 2 * V)
    options = dataclasses.replace(options_of(case), num_beams=W, num_return_sequences=W, min_new_tokens=1)
    options = options.for_vocabulary(V)
    options.check_vocabulary(V)
    assert options.num_beams == options.num_return_sequences == min(W, V - 1)
    found = beam_search(ArrayModel(seed, [0]), Request.make([np.array([EOS])], [case["max_len"] + 1], options), options)
    expected = replay_by_hand(case, W, min_len=1)
    filled = np.isfinite(found.scores_BX[0])
    assert [t.tolist() for t, there in zip(found.tokens[0], filled, strict=True) if there] == [t for t, _ in expected]
    np.testing.assert_allclose(found.scores_BX[0][filled], [s for _, s in expected], rtol=1e-5)


def test_where_fairseq_would_continue_past_the_end_a_beam_is_refused():
    V = len(ArrayModel(WIDE["seed"], [0]).A)
    options = options_of(WIDE).for_vocabulary(V)
    with pytest.raises(OptionError, match=r"num_beams 13 is above the 12 tokens .* at least 1"):
        options.check_vocabulary(V)
    dataclasses.replace(options, num_beams=12, num_return_sequences=12).check_vocabulary(V)
    siblings = dataclasses.replace(options, num_beams=8, num_return_sequences=8, sibling_penalty=0.5)
    with pytest.raises(OptionError, match="num_beams 8 with sibling_penalty needs 16 candidates of each beam"):
        siblings.check_vocabulary(V)
