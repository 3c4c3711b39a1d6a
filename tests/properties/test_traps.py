"""Traps that other libraries fell into, by their numbers there, and what holds under every dialect and method.

transformers #25455: padding counted in the length penalty. #22707: a batch gives other texts than its sentences alone.
#38778: one sentence's end stops another. #24407: diverse groups share their finished texts. fairseq #5206: the n-gram
ban counts padding as text.
"""

import itertools
import json
import math
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toy import ToyEngine, log_probability
from toy_folder import write_folder, write_json, write_safetensors

import minidecode as md
from minidecode.models.bart import BartConfig, tensor_shapes
from minidecode.options.options import Options
from minidecode.runtime.trace import FATES, Trace
from minidecode.search.beam import beam_search
from minidecode.search.greedy import greedy_search
from minidecode.search.result import Request

EOS = 0
DIALECTS = ("hf", "hf4", "fairseq")
METHODS = {
    "greedy": {},
    "beam": {"num_beams": 3, "num_return_sequences": 3},
    "groups": {"num_beams": 4, "num_return_sequences": 4, "num_beam_groups": 2, "diversity_penalty": 0.7},
    "siblings": {"num_beams": 3, "num_return_sequences": 3, "sibling_penalty": 0.4},
    "sampling": {"do_sample": True, "num_return_sequences": 2, "temperature": 1.5},
    "beam sampling": {"do_sample": True, "num_beams": 3, "num_return_sequences": 3, "temperature": 1.5},
}
every_method = pytest.mark.parametrize(
    ("dialect", "method"),
    [
        (d, m)
        for d, m in itertools.product(DIALECTS, METHODS)
        if (d, m) != ("fairseq", "beam sampling")  # which is refused
    ],
)
seeds = st.integers(0, 10**6)
prompt_lists = st.lists(st.lists(st.integers(1, 4), min_size=1, max_size=5), min_size=1, max_size=4, unique_by=tuple)
penalties = st.sampled_from([-1.0, 0.0, 0.7, 1.0, 2.0])
stopping = st.sampled_from([True, False, "never"])


def run(engine, prompts, limits, trace=None, search=None, prefixes=None, **options):
    options = Options(**{"eos_token_id": EOS} | options)
    search = search or (greedy_search if options.num_beams == 1 else beam_search)
    limits = np.full(len(prompts), limits) if np.isscalar(limits) else np.array(limits)
    request = Request.make([np.array(p) for p in prompts], limits, options, prefixes=prefixes)
    return search(engine, request, options, trace=trace)


def lists(tokens):
    return [text.tolist() for text in tokens]


# ---- through generate ------------------------------------------------------------------------------------------------

VOCABULARY = 24
END = {"gpt2": 15, "bart": 3}  # tokens that the two models say, sooner or later
PROMPTS = [[5, 6, 7, 5, 6], [3], [9, 22, 8]]
BART = {
    "model_type": "bart", "vocab_size": VOCABULARY, "d_model": 8, "max_position_embeddings": 24, "encoder_layers": 1,
    "encoder_ffn_dim": 12, "encoder_attention_heads": 2, "decoder_layers": 2, "decoder_ffn_dim": 12,
    "decoder_attention_heads": 2, "decoder_start_token_id": 2,
}  # fmt: skip


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A toy GPT-2 and a toy BART, of random weights."""
    gpt2, bart = (tmp_path_factory.mktemp(name) for name in ("gpt2", "bart"))
    write_folder(gpt2, vocab_size=VOCABULARY, n_positions=VOCABULARY)
    rng = np.random.default_rng(4)
    shapes = tensor_shapes(BartConfig.from_json(BART))
    tensors = {name: rng.normal(0, 0.35, shape).astype(np.float32) for name, shape in shapes.items()}
    write_json(bart / "config.json", BART)
    write_safetensors(bart / "model.safetensors", tensors)
    return {"gpt2": md.load(gpt2), "bart": md.load(bart)}


def ask(model, ids, dialect, method, mask=None):
    """By sentence, the texts and their scores."""
    options = {"max_new_tokens": 8, "length_penalty": 0.5, "no_repeat_ngram_size": 2, **METHODS[method]}
    end = END["bart" if model.is_encoder_decoder else "gpt2"]
    out = model.generate(input_ids=ids, attention_mask=mask, dialect=dialect, eos_token_id=end, **options)
    each = options.get("num_return_sequences", 1)
    places = [slice(b * each, (b + 1) * each) for b in range(len(ids))]
    return [(lists(out.token_ids[p]), out.scores[p]) for p in places]


def assert_same(one, other):
    """Products of matrices of other sizes may round otherwise, so that scores agree to some digits alone."""
    for (texts, scores), (other_texts, other_scores) in zip(one, other, strict=True):
        assert texts == other_texts
        np.testing.assert_allclose(scores, other_scores, rtol=1e-4, atol=1e-5)


def padded(rows, left, right, pad):
    """(ids, mask): so many pads on each side of the longest row, and of the others what is left, by `left` first."""
    width = max(map(len, rows)) + left + right
    ids, mask = np.full((len(rows), width), pad), np.zeros((len(rows), width), int)
    for b, row in enumerate(rows):
        begin = width - right - len(row) if left else 0
        ids[b, begin : begin + len(row)], mask[b, begin : begin + len(row)] = row, 1
    return ids, mask


@every_method
@pytest.mark.parametrize("family", ["gpt2", "bart"])
def test_padding_changes_nothing(models, family, dialect, method):
    """transformers #25455 and fairseq #5206: on the left, on the right, on both sides, and of every kind of token.

    Pads that are EOS, or what the model says first, would end the text or be banned if they were read.
    """
    model = models[family]
    alone = ask(model, PROMPTS, dialect, method)
    said_first = alone[0][0][0][0]
    for left, right, pad in [
        (1, 0, 0),
        (0, 1, END[family]),
        (4, 0, said_first),
        (0, 4, said_first),
        (2, 3, END[family]),
    ]:
        ids, mask = padded(PROMPTS, left, right, pad)
        assert_same(ask(model, ids, dialect, method, mask), alone)


@every_method
@pytest.mark.parametrize("family", ["gpt2", "bart"])
def test_a_batch_is_its_sentences(models, family, dialect, method):
    """transformers #22707: alone, together, and together in another order."""
    together = ask(models[family], PROMPTS, dialect, method)
    assert_same(ask(models[family], PROMPTS[::-1], dialect, method), together[::-1])
    for b, prompt in enumerate(PROMPTS):
        assert_same(ask(models[family], [prompt], dialect, method), together[b : b + 1])


@pytest.mark.parametrize("family", ["gpt2", "bart"])
@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("method", ["greedy", "beam", "sampling"])
def test_a_score_is_the_models_and_its_length_that_of_the_new_text(models, family, dialect, method):
    """transformers #25455: the sum of log-probabilities over (new tokens, EOS included) ** length_penalty."""
    model, T = models[family], 1.5 if method == "sampling" and dialect == "fairseq" else 1.0
    lengths = Counter()
    for prompt, (texts, scores) in zip(PROMPTS, ask(model, PROMPTS, dialect, method), strict=True):
        for text, score in zip(texts, scores, strict=True):
            if family == "gpt2":
                logits_NV = model.logits([prompt + text[:-1]])[0]
            else:
                logits_NV = model.logits([prompt], decoder_input_ids=[[2, *text[:-1]]])[0]
            logits_NV = logits_NV[-len(text) :].astype(np.float64) / T
            logprobs_NV = logits_NV - np.log(np.exp(logits_NV).sum(axis=1, keepdims=True))
            total = logprobs_NV[np.arange(len(text)), text].sum()
            assert score == pytest.approx(total / len(text) ** 0.5, rel=1e-4)
            lengths[len(text)] += 1
    assert len(lengths) > 1 or method == "greedy"


class Quick(ToyEngine):
    """A text that begins with 9 ends as soon as it may; the others never do."""

    def scores(self, text):
        scores_V = super().scores(text)
        scores_V[EOS] = 30.0 if text[0] == 9 else -30.0
        return scores_V


@every_method
@pytest.mark.parametrize("early", [True, False, "never"])
def test_a_sentence_that_is_done_stops_no_other(dialect, method, early):
    """transformers #38778: the first is done in a few steps; the second goes on to its limit, the third to its own."""
    prompts, limits = [[9], [1, 2], [3]], [5, 9, 6]
    options = {"dialect": dialect, "early_stopping": early, "length_penalty": 1.0, **METHODS[method]}
    traced = Trace()
    together = run(Quick(1, 16), prompts, limits, trace=traced, **options)
    steps_of = [len({s.step for s in traced.steps if s.sentence == b}) for b in range(3)]
    assert steps_of[0] <= 5 and steps_of[2] == 6 and steps_of[1] == 9 == together.steps
    for b, prompt in enumerate(prompts):
        alone = run(Quick(1, 16), [prompt], limits[b], **options)
        assert lists(alone.tokens[0]) == lists(together.tokens[b])
        assert np.array_equal(alone.scores_BX[0], together.scores_BX[b])
        assert alone.steps == steps_of[b]


@every_method
@settings(max_examples=8)
@given(seeds, prompt_lists, st.integers(1, 7), penalties, stopping, st.integers(0, 3))
def test_every_step_of_a_sentence_is_the_same_in_any_batch(dialect, method, seed, prompts, limit, penalty, early, n):
    """transformers #22707 and #38778, step by step: the same candidates with the same scores and fates."""
    options = dict(dialect=dialect, length_penalty=penalty, early_stopping=early, no_repeat_ngram_size=n,
                   **METHODS[method] | ({"num_return_sequences": 1} if method == "sampling" else {}))  # fmt: skip
    limits = [2 + (limit + b) % 7 for b in range(len(prompts))]
    together, engine = Trace(), ToyEngine(seed, 14)
    run(engine, prompts, limits, trace=together, **options)
    for b, prompt in enumerate(prompts):
        alone = Trace()
        run(engine, [prompt], limits[b], trace=alone, **options)
        assert [(s.step, s.group, s.running, s.candidates, s.changed) for s in together.of(b)] == [
            (s.step, s.group, s.running, s.candidates, s.changed) for s in alone.steps
        ]


@pytest.mark.parametrize("dialect", ["hf", "hf4"])
def test_groups_share_no_finished_texts(dialect):
    """transformers #24407: what the groups return are the best texts of each, by its own steps, and not of all."""
    for seed in range(12):
        traced = Trace()
        options = dict(num_beams=6, num_beam_groups=3, diversity_penalty=0.3, num_return_sequences=6)
        found = run(ToyEngine(seed, 20), [[1, 2]], 6, trace=traced, dialect=dialect, **options)
        by_group = {g: [s for s in traced.steps if s.group == g] for g in range(3)}
        texts = [text for steps in by_group.values() for text in replayed(steps, 2, dialect, 6)]
        assert sorted(t for t, _ in texts) == sorted(lists(found.tokens[0]))


# ---- what holds under every dialect ----------------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", DIALECTS)
@settings(max_examples=50)
@given(seeds, prompt_lists, st.integers(2, 7), st.data())
def test_a_beam_of_one_is_greedy(dialect, seed, prompts, limit, data):
    """The same texts, scores and steps, whatever is ruled out or forced."""
    some = st.lists(st.integers(1, 8), max_size=2, unique=True)
    options = {
        "no_repeat_ngram_size": data.draw(st.integers(0, 3)), "min_new_tokens": data.draw(st.integers(0, limit - 1)),
        "length_penalty": data.draw(penalties), "forced_bos_token_id": data.draw(some),
        "length_normalization": data.draw(st.sampled_from(["power", "gnmt"])),
    }  # fmt: skip
    if dialect != "fairseq":
        bad = st.lists(st.lists(st.integers(1, 8), min_size=1, max_size=2), max_size=2)
        options |= {"bad_words_ids": data.draw(bad), "eos_token_id": data.draw(st.sampled_from([0, (0, 5), None]))}
        options |= {"forced_eos_token_id": data.draw(st.sampled_from([None, 0, 7])), "begin_suppress_tokens": (2, 0)}
    prefix = st.lists(st.integers(-1, 8), max_size=3)
    options["prefixes"] = data.draw(st.none() | st.lists(prefix, min_size=len(prompts), max_size=len(prompts)))
    outcomes = [
        outcome(ToyEngine(seed, 12), prompts, limit, search=search, dialect=dialect, **options)
        for search in (greedy_search, beam_search)
    ]
    assert outcomes[0][0] == outcomes[1][0]
    np.testing.assert_allclose(outcomes[0][1], outcomes[1][1], rtol=32 * 2.0**-24, atol=1e-6)


def test_a_beam_of_one_is_greedy_in_its_score_too():
    """fairseq has no greedy search: its score holds unk_penalty whatever the beam."""
    options = dict(dialect="fairseq", unk_token_id=3, unk_penalty=-20.0)
    by_greedy, by_beam = (
        run(ToyEngine(0, 9), [[1]], 4, search=search, **options) for search in (greedy_search, beam_search)
    )
    assert lists(by_greedy.tokens[0]) == lists(by_beam.tokens[0]) == [[3, 3, 3, 0]]
    np.testing.assert_allclose(by_greedy.scores_BX, by_beam.scores_BX, rtol=1e-5)


def test_fairseqs_beams_without_an_eos_do_not_come_back_empty():
    """They cannot finish: that is to be said, or their texts at the limit returned as greedy search does."""
    try:
        found = run(ToyEngine(0, 9), [[1]], 4, dialect="fairseq", num_beams=2, eos_token_id=None)
    except md.OptionError as error:
        assert "eos_token_id" in str(error)
    else:
        assert len(found.tokens[0][0])


def outcome(*args, **options):
    """(texts and steps, scores), or that no token was left."""
    try:
        found = run(*args, **options)
    except md.OptionError as error:
        return str(error), []
    return ([lists(texts) for texts in found.tokens], found.steps), found.scores_BX


class Wide(ToyEngine):
    """Four tokens that can be chosen among 200: the others are next to impossible, so that there are candidates."""

    def __init__(self, seed):
        super().__init__(seed, 4, spread=1.0)

    def scores(self, text):
        return np.concatenate([super().scores(text), np.full(196, -1e6, np.float32)])


def every_text(engine, limit, dialect):
    """All texts of up to `limit` tokens that end in EOS or, but for fairseq, at the limit; their log-probabilities."""
    for length in range(1, limit + 1):
        for tokens in itertools.product(range(4), repeat=length):
            may_end_here = tokens[-1] == EOS or (length == limit and dialect != "fairseq")
            if EOS not in tokens[:-1] and may_end_here:
                yield list(tokens), log_probability(engine, [1], tokens)


@pytest.mark.parametrize("dialect", DIALECTS)
@settings(max_examples=12)
@given(seeds, st.integers(2, 4), st.sampled_from([0.0, 1.0]), st.sampled_from(["power", "gnmt"]))
def test_a_beam_as_wide_as_the_tree_finds_the_best_text(dialect, seed, limit, penalty, normalization):
    """fairseq too: with 81 beams all 40 texts of 4 tokens finish before there are 81."""
    norm = {"power": lambda n: n**penalty, "gnmt": lambda n: ((5 + n) / 6) ** penalty}[normalization]
    texts = {tuple(t): p / norm(len(t)) for t, p in every_text(ToyEngine(seed, 4, spread=1.0), limit, dialect)}
    best = max(texts, key=texts.get)
    wide = run(Wide(seed), [[1]], limit, num_beams=81, length_penalty=penalty, length_normalization=normalization,
               dialect=dialect, min_new_tokens=0)  # fmt: skip
    assert tuple(wide.tokens[0][0].tolist()) == best or abs(wide.scores_BX[0, 0] - texts[best]) < 1e-6
    assert wide.scores_BX[0, 0] == pytest.approx(texts[best], rel=1e-5)


def test_fairseq_keeps_the_first_texts_that_finish_and_transformers_the_best():
    """So with a narrow beam fairseq misses texts that transformers, given as many steps, goes on to find."""
    missed = 0
    for seed in range(30):
        found = {
            dialect: run(ToyEngine(seed, 8), [[1]], 9, dialect=dialect, num_beams=2, num_return_sequences=2,
                         length_penalty=3.0, min_new_tokens=1, early_stopping="never")
            for dialect in ("hf", "fairseq")
        }  # fmt: skip
        assert found["fairseq"].steps <= found["hf"].steps
        missed += found["hf"].scores_BX[0, 0] > found["fairseq"].scores_BX[0, 0] + 1e-4
    assert missed > 10


@pytest.mark.parametrize("method", ["greedy", "beam", "siblings", "groups"])
def test_fairseqs_temperature_is_part_of_the_model(method):
    """Also where nothing is sampled: a temperature of 1/2 is a model twice as decided."""
    for seed in range(5):
        engines = ToyEngine(seed, 12, spread=2.0), ToyEngine(seed, 12, spread=4.0)
        options = [METHODS[method] | {"temperature": 0.5}, METHODS[method]]
        warm, plain = (run(e, [[1], [2]], 6, dialect="fairseq", **o) for e, o in zip(engines, options, strict=True))
        assert [lists(t) for t in warm.tokens] == [lists(t) for t in plain.tokens]
        np.testing.assert_allclose(warm.scores_BX, plain.scores_BX, rtol=1e-6)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_places_that_no_text_filled_are_empty(dialect):
    """Only EOS may be said: there is one text of it, and two places hold neither a text nor a score."""
    found = run(ToyEngine(0, 9), [[1]], 4, dialect=dialect, num_beams=3, num_return_sequences=3, min_new_tokens=0,
                logits_processor=lambda scores_RV, rows: np.where(np.arange(9) == EOS, scores_RV, -np.inf))  # fmt: skip
    assert lists(found.tokens[0]) == [[EOS], [], []]
    assert found.scores_BX[0, 0] == pytest.approx(log_probability(ToyEngine(0, 9), [1], [EOS]))
    assert found.scores_BX[0, 1:].tolist() == [-math.inf] * 2


@pytest.mark.parametrize("dialect", DIALECTS)
@settings(max_examples=15)
@given(seeds, st.lists(st.integers(-1, 8).filter(lambda v: v != EOS), min_size=1, max_size=3))
def test_every_beam_begins_with_the_prefix(dialect, seed, prefix):
    """All places are filled, with different texts that the model scores so, for the beams part behind the prefix."""
    engine, free, traced = ToyEngine(seed, 12), [3] * 3, Trace()
    found = run(engine, [[1], [2]], 6, dialect=dialect, num_beams=3, num_return_sequences=3, prefixes=[prefix, free],
                min_new_tokens=4, trace=traced)  # fmt: skip
    assert all(c.score > -math.inf for s in traced.steps for c in s.candidates if c.fate == "ends")
    for b, (prompt, begin) in enumerate([([1], prefix), ([2], free)]):
        texts = lists(found.tokens[b])
        assert len(set(map(tuple, texts))) == 3
        for text, score in zip(texts, found.scores_BX[b], strict=True):
            assert all(wanted in (-1, v) for wanted, v in zip(begin, text, strict=False))
            assert len(text) > 4 or (dialect == "fairseq" and -1 in begin), "fairseq: no least length in a prefix"
            assert is_score_of(score, engine, prompt, text, len(text))


def is_score_of(score, engine, prompt, tokens, norm) -> bool:
    exact = log_probability(engine, prompt, tokens) / norm
    return abs(score - exact) <= 64 * 2.0**-24 * len(tokens) * max(1, abs(exact))


@every_method
@settings(max_examples=12)
@given(seeds, prompt_lists, st.integers(2, 8), penalties, stopping, st.integers(0, 3), st.integers(0, 3),
       st.sampled_from(["power", "gnmt"]))  # fmt: skip
def test_every_text_keeps_the_rules(dialect, method, seed, prompts, limit, penalty, early, n, least, normalization):
    """Lengths in bounds, EOS at the end alone, no n-gram twice, best first, and the score by the norm asked for."""
    least, engine = min(least, limit - 1), ToyEngine(seed, 14)
    found = run(engine, prompts, limit, dialect=dialect, length_penalty=penalty, early_stopping=early,
                no_repeat_ngram_size=n, min_new_tokens=least, length_normalization=normalization,
                **METHODS[method] | {"temperature": 1.0})  # fmt: skip
    for prompt, texts, scores in zip(prompts, found.tokens, found.scores_BX, strict=True):
        assert method == "sampling" or all(a >= b for a, b in pairwise(scores))
        for tokens, score in zip(lists(texts), scores, strict=True):
            if score == -math.inf:
                assert tokens == [], "a place that no text filled"
                continue
            assert 1 <= len(tokens) <= limit and EOS not in tokens[:-1]
            assert tokens[-1] == EOS or (len(tokens) == limit and dialect != "fairseq")
            assert tokens[-1] != EOS or len(tokens) > least
            grams = [tuple((prompt + tokens)[i : i + n]) for i in range(len(prompt + tokens) - n + 1)] if n else []
            assert all(grams.count(g) == 1 for g in grams[max(0, len(prompt) - n + 1) :])
            if method not in ("groups", "siblings"):  # there the penalties stay in the score
                norm = len(tokens) ** penalty if normalization == "power" else ((5 + len(tokens)) / 6) ** penalty
                assert is_score_of(score, engine, prompt, tokens, norm)


@pytest.mark.parametrize(("length", "penalty", "norm"), [(1, 0.6, 1.0), (7, 1.0, 2.0), (13, 2.0, 9.0), (19, 0.5, 2.0)])
def test_gnmts_norm(length, penalty, norm):
    """((5 + length) / 6) ** penalty (Wu et al. 2016): 1 for a text of one token, whatever the penalty."""
    o = Options(length_penalty=penalty, length_normalization="gnmt")
    assert o.length_norm(length) == pytest.approx(norm)
    assert o.length_norm(np.array([length]))[0] == pytest.approx(norm)


# ---- the trace -------------------------------------------------------------------------------------------------------


def continued(step, candidate):
    return [*step.running[candidate.parent], candidate.token]


def replayed(steps, W, dialect, limit) -> list[tuple[list[int], float]]:
    """The texts that finish by the fates of one group's steps, with their sums of log-probabilities.

    The W best of them, or fairseq's first W. Where transformers 4 comes to the limit, what runs finishes as it is.
    Every step must begin with the beams that the one before it left.
    """
    finished, beams = [], None
    for s in steps:
        assert dialect != "fairseq" or len(finished) < W, "fairseq stops as soon as there are W"
        assert beams is None or s.running == [beams[w][0] for w in range(W)]
        for c in s.candidates:
            may_end = c.token == EOS or (dialect == "hf" and s.step == limit - 1)
            assert may_end or c.fate not in ("ends", "refused")
            assert not may_end or c.fate != "dropped"
        ends = [(continued(s, c), c.score) for c in s.candidates if c.fate == "ends"]
        beams = {c.beam: (continued(s, c), c.score) for c in s.candidates if c.beam is not None}
        assert all((c.fate == "runs") == (c.beam is not None) for c in s.candidates)
        if dialect == "hf4" and s.step == limit - 1:
            ends += [beams[w] for w in range(W)]
        finished += ends
        key = len if dialect == "fairseq" else (lambda text: -text[1] / len(text[0]))
        finished = sorted(finished, key=key)[:W]
    return finished


@pytest.mark.parametrize(("dialect", "method"), [
    (d, m) for d in DIALECTS for m in METHODS if "num_beams" in METHODS[m] and (d, m) != ("fairseq", "beam sampling")
])  # fmt: skip
@settings(max_examples=12)
@given(seeds, st.integers(2, 7), st.integers(0, 2))
def test_the_trace_tells_how_the_result_came_about(dialect, method, seed, limit, n):
    """Its steps, replayed from their fates and parents alone, end in the texts that are returned."""
    traced, options = Trace(), METHODS[method] | {"no_repeat_ngram_size": n}
    W, limits = options["num_beams"], [limit, 2 + (limit + 3) % 6]
    found = run(ToyEngine(seed, 14), [[1, 2], [3]], limits, trace=traced, dialect=dialect, **options)
    G = options.get("num_beam_groups", 1) if dialect != "fairseq" else 1
    for b in range(2):
        texts = []
        for g in range(G):
            texts += replayed([s for s in traced.of(b) if s.group == g], W // G, dialect, limits[b])
        texts = sorted(((t, total / len(t)) for t, total in texts if total > -1e6), key=lambda text: -text[1])
        returned = [t for t in lists(found.tokens[b]) if t]
        assert [t for t, _ in texts] == returned
        np.testing.assert_allclose([s for _, s in texts], found.scores_BX[b, : len(texts)], rtol=1e-6)


@pytest.mark.parametrize("method", ["greedy", "sampling"])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_trace_of_a_row_spells_its_text(dialect, method):
    traced, options = Trace(), METHODS[method] | {"num_return_sequences": 1}
    found = run(ToyEngine(2, 12), [[1, 2], [3], [4]], [3, 7, 9], trace=traced, dialect=dialect, **options)
    for b in range(3):
        steps, text = traced.of(b), found.tokens[b][0].tolist()
        assert [s.step for s in steps] == [*range(len(text))]
        assert [s.running for s in steps] == [[text[:t]] for t in range(len(text))]
        assert [continued(s, s.candidates[0]) for s in steps] == [text[: t + 1] for t in range(len(text))]
        assert steps[-1].candidates[0].score / len(text) == pytest.approx(found.scores_BX[b, 0])


@every_method
def test_a_trace_changes_nothing(dialect, method):
    options = dict(dialect=dialect, no_repeat_ngram_size=2, min_new_tokens=2, **METHODS[method])
    for seed in range(4):
        traced = Trace()
        with_trace = run(ToyEngine(seed, 14), [[1, 2], [3]], [7, 4], trace=traced, **options)
        without = run(ToyEngine(seed, 14), [[1, 2], [3]], [7, 4], **options)
        assert [lists(t) for t in with_trace.tokens] == [lists(t) for t in without.tokens]
        assert np.array_equal(with_trace.scores_BX, without.scores_BX) and with_trace.steps == without.steps
        assert {c.fate for s in traced.steps for c in s.candidates} <= set(FATES)
        assert len(json.loads(json.dumps(traced.as_list()))) == len(traced.steps), "it can be written down"


@pytest.mark.parametrize("method", ["greedy", "sampling"])
def test_the_last_token_of_a_row_ends_its_text(method):
    traced = Trace()
    run(ToyEngine(2, 12), [[1, 2], [3]], [3, 7], trace=traced, **METHODS[method] | {"num_return_sequences": 1})
    for b in range(2):
        *others, last = (s.candidates[0].fate for s in traced.of(b))
        assert last == "ends" and set(others) <= {"runs"}


def test_the_steps_of_a_sentence_are_those_of_its_texts():
    """With several texts a sentence, `sentence` is still the number of the sentence."""
    traced = Trace()
    run(ToyEngine(2, 12), [[1, 2], [3]], 4, trace=traced, **METHODS["sampling"])
    assert {(s.sentence, s.group) for s in traced.steps} == {(0, 0), (0, 1), (1, 0), (1, 1)}


def test_no_more_texts_of_fairseqs_end_than_there_is_room_for():
    """Of those that end in one step the last may find all places taken: then they did not count."""
    for seed in range(30):
        traced = Trace()
        found = run(ToyEngine(seed, 8), [[1]], 6, trace=traced, dialect="fairseq", num_beams=2, num_return_sequences=2)
        ends = [continued(s, c) for s in traced.steps for c in s.candidates if c.fate == "ends"]
        assert sorted(ends) == sorted(lists(found.tokens[0]))


def test_the_trace_names_the_beams_that_run_where_few_tokens_are_left():
    """An ended text may take the place of a beam out of play; then it runs, or the trace has the wrong beams."""
    traced = Trace()
    run(ToyEngine(0, 9), [[1]], 3, trace=traced, num_beams=3, prefix_allowed_tokens_fn=lambda b, ids: [0, 5])
    replayed(traced.steps, 3, "hf", 3)


def test_the_trace_says_which_scores_were_changed():
    """Sentence 1 has said 3; its beams may not say 3 again, nor anything that they said since."""
    traced = Trace()
    run(ToyEngine(0, 14), [[1, 2], [3]], 4, trace=traced, num_beams=2, no_repeat_ngram_size=1)
    for s in traced.of(1):
        expected = {(w, v) for w, tokens in enumerate(s.running) for v in [3, *tokens]}
        assert set(s.changed) == {"no_repeat_ngram_size"} and set(s.changed["no_repeat_ngram_size"]) == expected


@pytest.mark.parametrize("W", [1, 2])
def test_the_users_functions_never_see_a_text_that_is_done(W):
    """A trie has no child behind its end: in a batch, too, it is not asked for one."""

    def children(sentence, ids):
        assert EOS not in ids, "the text is done"
        return [EOS] if ids[0] == 1 and len(ids) >= 3 else [5, 6, 7]

    def watching(scores_RV, rows):
        assert all(EOS not in rows.text(r) for r in range(len(scores_RV)))
        return scores_RV

    prompts, options = [[1, 2], [2, 2]], {"num_beams": W, "prefix_allowed_tokens_fn": children}
    together = run(ToyEngine(0, 14), prompts, 6, logits_processor=watching, **options)
    for b, prompt in enumerate(prompts):
        assert lists(run(ToyEngine(0, 14), [prompt], 6, **options).tokens[0]) == lists(together.tokens[b])


def test_scores_that_sink_below_what_is_out_of_play_are_told():
    """Not an empty text: a negative penalty multiplies the sums of long texts."""
    with pytest.raises(md.OptionError, match=r"length_penalty -9.0 takes scores at .* tokens below"):
        run(ToyEngine(0, 14), [[1]], 20, num_beams=2, length_penalty=-9.0, eos_token_id=None)
    with pytest.raises(md.OptionError, match="temperature 1e-08 is too low for a beam"):
        run(ToyEngine(0, 14), [[1]], 20, num_beams=2, do_sample=True, temperature=1e-8)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_text_that_has_finished_stands_where_nothing_may_follow(dialect):
    """EOS or 2 at first, and nothing after 2: the text that ended is returned, not thrown away with an error."""

    def then_nothing(scores_RV, rows):
        allowed = np.isin(np.arange(scores_RV.shape[1]), [EOS, 2])
        return np.where((rows.new_R == 0)[:, None] & allowed, scores_RV, -np.inf)

    found = run(ToyEngine(0, 9), [[1]], 4, dialect=dialect, num_beams=2, num_return_sequences=2, min_new_tokens=0,
                logits_processor=then_nothing)  # fmt: skip
    assert lists(found.tokens[0]) == [[EOS], []]
