"""Greedy and beam search on a toy model whose every score is known."""

import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toy import NothingCaptured, Ops, ToyEngine, log_probability, told

from minidecode import reference
from minidecode.errors import NumericalError
from minidecode.options.options import Options
from minidecode.plan import functions_of_backend
from minidecode.runtime.trace import Trace
from minidecode.search.beam import Beams, beam_search
from minidecode.search.greedy import greedy_search
from minidecode.search.result import Request

EOS = 0
seeds = st.integers(0, 10**6)
prompt_lists = st.lists(st.lists(st.integers(1, 4), min_size=1, max_size=5), min_size=1, max_size=4)
penalties = st.sampled_from([-1.0, 0.0, 0.7, 1.0, 2.0])
stopping = st.sampled_from([True, False, "never"])


def arrays(prompts):
    return [np.array(p) for p in prompts]


def run(engine, prompts, limit, **options):
    options = Options(eos_token_id=EOS, **options)
    limits = np.full(len(prompts), limit) if np.isscalar(limit) else np.array(limit)
    search = greedy_search if options.num_beams == 1 else beam_search
    return search(engine, Request.make(arrays(prompts), limits, options), options)


@settings(max_examples=150)
@given(seeds, prompt_lists, st.integers(1, 5), st.integers(1, 7), penalties, stopping, st.integers(0, 3))
def test_a_sentence_is_the_same_alone_and_in_any_batch(seed, prompts, W, limit, penalty, early, n):
    """Traps of others: early stopping coupled across the batch, padding counted in the length penalty."""
    options = dict(num_beams=W, num_return_sequences=W, length_penalty=penalty, early_stopping=early,
                   no_repeat_ngram_size=n)  # fmt: skip
    limits = [1 + (limit + b) % 7 for b in range(len(prompts))]
    together = run(ToyEngine(seed, 12), prompts, limits, **options)
    backwards = run(ToyEngine(seed, 12), prompts[::-1], limits[::-1], **options)
    for b, prompt in enumerate(prompts):
        alone = run(ToyEngine(seed, 12), [prompt], [limits[b]], **options)
        for other, row in [(together, b), (backwards, len(prompts) - 1 - b)]:
            assert [t.tolist() for t in other.tokens[row]] == [t.tolist() for t in alone.tokens[0]]
            assert np.array_equal(other.scores_BX[row], alone.scores_BX[0])


@settings(max_examples=100)
@given(seeds, prompt_lists, st.integers(1, 8), st.integers(0, 3))
def test_a_beam_of_one_is_greedy(seed, prompts, limit, n):
    options = Options(eos_token_id=EOS, no_repeat_ngram_size=n)
    limits = np.full(len(prompts), limit)
    request = Request.make(arrays(prompts), limits, options)
    by_greedy = greedy_search(ToyEngine(seed, 9), request, options)
    by_beam = beam_search(ToyEngine(seed, 9), request, options)
    for a, b in zip(by_greedy.tokens, by_beam.tokens, strict=True):
        assert a[0].tolist() == b[0].tolist()
    np.testing.assert_allclose(by_greedy.scores_BX, by_beam.scores_BX, rtol=32 * 2.0**-24)


@settings(max_examples=100)
@given(
    seeds, prompt_lists, st.integers(1, 4), st.integers(1, 8), penalties, stopping, st.integers(0, 3), st.integers(0, 4)
)
def test_every_hypothesis_keeps_the_rules(seed, prompts, W, limit, penalty, early, n, least):
    """Lengths in bounds, EOS at the end alone, no n-gram twice, and the score is what the model gives the text."""
    least = min(least, limit)
    engine = ToyEngine(seed, 10)
    found = run(engine, prompts, limit, num_beams=W, num_return_sequences=W, length_penalty=penalty,
                early_stopping=early, no_repeat_ngram_size=n, min_new_tokens=least)  # fmt: skip
    for prompt, hypotheses, scores in zip(prompts, found.tokens, found.scores_BX, strict=True):
        assert list(scores) == sorted(scores, reverse=True)
        for tokens, score in zip(hypotheses, scores, strict=True):
            if score < -1e8:  # the rules left fewer than W texts: such a place holds no text of the model
                continue
            tokens = tokens.tolist()
            assert 1 <= len(tokens) <= limit
            assert EOS not in tokens[:-1]
            assert len(tokens) == limit or tokens[-1] == EOS
            if tokens[-1] == EOS:
                assert len(tokens) > least
            text = prompt + tokens
            if n and math.isfinite(score):
                grams = [tuple(text[i : i + n]) for i in range(len(text) - n + 1)]
                new = grams[max(0, len(prompt) - n + 1) :]
                assert all(grams.count(g) == 1 for g in new)
            if math.isfinite(score):
                exact = log_probability(engine, prompt, tokens) / len(tokens) ** penalty
                assert abs(score - exact) <= 64 * 2.0**-24 * len(tokens) * max(1, abs(exact))


@settings(max_examples=40)
@given(seeds, st.integers(1, 4), st.sampled_from([0.0, 1.0]), st.sampled_from([False, "never"]))
def test_a_beam_as_wide_as_the_tree_finds_the_best_text(seed, limit, penalty, early):
    """Against all texts there are: 3 tokens besides EOS, at most 4 long."""
    engine = ToyEngine(seed, 4, spread=1.0)
    best, best_score = None, -math.inf
    for length in range(1, limit + 1):
        for tokens in itertools.product(range(4), repeat=length):
            if EOS in tokens[:-1] or (length < limit and tokens[-1] != EOS):
                continue
            score = log_probability(engine, [1], tokens) / length**penalty
            if score > best_score:
                best, best_score = list(tokens), score
    wide = run(_Wide(seed), [[1]], limit, num_beams=81, length_penalty=penalty, early_stopping=early)
    assert wide.tokens[0][0].tolist() == best or abs(wide.scores_BX[0, 0] - best_score) < 1e-6


class _Wide(ToyEngine):
    """Four tokens that can be chosen among 200: the others are impossible, so that 162 candidates exist."""

    def __init__(self, seed):
        super().__init__(seed, 4, spread=1.0)

    def scores(self, text):
        return np.concatenate([super().scores(text), np.full(196, -1e6, np.float32)])


def test_the_three_meanings_of_early_stopping_differ():
    """Over many models, "never" finds texts at least as good as False, and True stops no later than either."""
    differ = 0
    for seed in range(40):
        found = {
            e: run(ToyEngine(seed, 8), [[1, 2]], 12, num_beams=3, early_stopping=e, length_penalty=2.0)
            for e in (True, False, "never")
        }
        assert found[True].steps <= found["never"].steps
        assert found[False].steps <= found["never"].steps
        assert found["never"].scores_BX[0, 0] >= found[False].scores_BX[0, 0]
        differ += found[True].steps < found["never"].steps
    assert differ > 10


def test_nan_stops_the_search_with_step_and_sentence():
    class Broken(ToyEngine):
        def scores(self, text):
            return super().scores(text) * (np.nan if len(text) == 4 and text[0] == 2 else 1)

    for W in (1, 2):
        with pytest.raises(NumericalError, match="step 3, sentence 2"):
            run(Broken(0, 9), [[1, 1], [2, 2]], 6, num_beams=W, min_new_tokens=6)


def unchanged(scores_RV, rows):
    return scores_RV


STRAIGHT = [{"num_beams": 3}, {"num_beams": 2, "dialect": "hf4"}, {"num_beams": 2, "dialect": "fairseq"},
            {"num_beams": 2, "dialect": "ctranslate2"}]  # fmt: skip
OTHERS = [
    {"num_beams": 3, "no_repeat_ngram_size": 2}, {"num_beams": 3, "logits_processor": unchanged},
    {"num_beams": 4, "num_beam_groups": 2, "diversity_penalty": 0.5}, {"num_beams": 2, "sibling_penalty": 0.5},
    {"num_beams": 2, "do_sample": True}, {}, {"no_repeat_ngram_size": 2}, {"do_sample": True, "top_p": 0.9},
    {"dialect": "fairseq"}, {"logits_processor": unchanged}, {"forced_eos_token_id": EOS},
    {"do_sample": True, "logits_processor": unchanged},
]  # fmt: skip


@pytest.mark.parametrize(("options", "plan"), [
    *itertools.product(STRAIGHT + OTHERS, ["auto", "naive", "emulator"]),
    *itertools.product(STRAIGHT, ["hars=reference", "hars=cpu", "hars=emulator"]),
], ids=told)  # fmt: skip
@pytest.mark.filterwarnings("error")
def test_a_sentence_that_is_done_is_nobodys_trouble_any_more(options, plan):
    """It stays in the batch, and the model makes NaN of it: the other one finishes as it would."""

    def texts(broken_length):
        class Broken(ToyEngine):
            drop_finished = False

            def step(self, tokens_RM, length_R, parent_R):
                logits_RV = super().step(tokens_RM, length_R, parent_R)
                if length_R[-1] >= broken_length:
                    logits_RV[: len(logits_RV) // 2] = np.nan
                return logits_RV

        engine = Broken(9, 9)
        engine.ops = Ops(plan)
        found = run(engine, [[1, 1], [2, 2]], [1, 5], min_new_tokens=0, **options)
        assert found.steps >= 3
        return [[text.tolist() for text in sentence] for sentence in found.tokens], found.scores_BX.tolist()

    assert texts(4) == texts(99)


def test_several_eos_ids():
    """Any of them ends a text, and the beam looks at enough candidates that W can still go on."""
    options = Options(num_beams=3, eos_token_id=(0, 5, 6), num_return_sequences=3)
    assert options.candidates == 12
    for seed in range(30):
        request = Request.make(arrays([[1, 2]]), [9], options)
        found = beam_search(ToyEngine(seed, 12), request, options)
        for tokens in found.tokens[0]:
            assert not set(tokens[:-1].tolist()) & {0, 5, 6}
            assert len(tokens) == 9 or tokens[-1] in (0, 5, 6)


SEARCHES = [
    {"num_beams": 3},
    {"num_beams": 2, "early_stopping": True, "num_return_sequences": 2},
    {"num_beams": 3, "early_stopping": "never", "length_penalty": 2.0},
    {"num_beams": 3, "length_penalty": -1.0, "length_normalization": "gnmt", "eos_token_id": (0, 3)},
    {"num_beams": 2, "do_sample": True},
    {"num_beams": 4, "num_beam_groups": 2, "diversity_penalty": 1.0},
    {"num_beams": 3, "dialect": "hf4"},
    {"num_beams": 3, "dialect": "hf4", "early_stopping": True, "num_return_sequences": 3},
    {"num_beams": 3, "dialect": "hf4", "early_stopping": "never", "eos_token_id": (0, 3)},
    {"num_beams": 4, "dialect": "hf4", "num_beam_groups": 2, "diversity_penalty": 1.0},
    {"num_beams": 3, "dialect": "fairseq", "num_return_sequences": 3},
    {"num_beams": 4, "dialect": "fairseq", "num_beam_groups": 2, "diversity_penalty": 1.0},
    {"num_beams": 3, "dialect": "fairseq", "sibling_penalty": 0.5},
    {"num_beams": 3, "dialect": "ctranslate2", "patience": 1.7, "repetition_penalty": 1.2},
    {"num_beams": 3, "dialect": "ctranslate2", "length_penalty": 0.0, "num_return_sequences": 2},
    {"num_beams": 3, "dialect": "lightseq", "num_return_sequences": 3},
]


@pytest.mark.parametrize("choice", ["naive", "cpu", "emulator"])
@pytest.mark.parametrize("options", SEARCHES, ids=str)
def test_whoever_does_the_bookkeeping_a_search_finds_the_same(choice, options):
    """In all dialects, for sentences that end at different steps, to the last bit; traces tell the same."""
    options = Options(**({"eos_token_id": EOS} | options))
    limits = [6, 3, 2]
    for seed in range(2 if choice == "emulator" else 8):
        found = []
        for plan in ("auto", f"beam_update={choice},finished={choice}"):
            request, trace = Request.make(arrays([[1, 2], [3], [2, 2, 4]]), limits, options), Trace()
            engine = ToyEngine(seed, 13)
            engine.ops = Ops(plan)
            found.append((beam_search(engine, request, options, trace), trace.as_list()))
        (one, one_trace), (other, other_trace) = found
        assert np.array_equal(one.scores_BX, other.scores_BX) and one.steps == other.steps
        assert [[t.tolist() for t in ts] for ts in one.tokens] == [[t.tolist() for t in ts] for ts in other.tokens]
        assert one_trace == other_trace


@pytest.mark.parametrize("choice", ["naive", "cpu", "emulator"])
@pytest.mark.parametrize("options", [
    {}, {"min_new_tokens": 3}, {"no_repeat_ngram_size": 2, "forced_eos_token_id": 0}, {"repetition_penalty": 1.3},
    {"dialect": "hf4", "forced_bos_token_id": 3}, {"dialect": "fairseq"}, {"dialect": "fairseq", "temperature": 0.5},
    {"dialect": "ctranslate2", "no_repeat_ngram_size": 1},
], ids=str)  # fmt: skip
def test_whoever_chooses_the_tokens_greedy_search_finds_the_same(choice, options):
    """Whether processors have something to do at every step, at some or at none; scores agree within rounding."""
    options, limits = Options(eos_token_id=EOS, **options), [6, 3, 2]
    for seed in range(2 if choice == "emulator" else 8):
        found = []
        for plan in ("auto", f"argmax={choice}"):
            request, engine = Request.make(arrays([[1, 2], [3], [2, 2, 4]]), limits, options), ToyEngine(seed, 13)
            engine.ops = Ops(plan)
            found.append(greedy_search(engine, request, options))
        one, other = found
        assert [[t.tolist() for t in ts] for ts in one.tokens] == [[t.tolist() for t in ts] for ts in other.tokens]
        np.testing.assert_allclose(other.scores_BX, one.scores_BX, rtol=1e-5)
        assert one.steps == other.steps


def test_greedy_search_scores_texts_by_the_models_own_probabilities():
    """Of logits before any processor, whether or not one has touched the scores of a step."""
    for options in ({}, {"repetition_penalty": 2.0}, {"min_new_tokens": 2}):
        engine = ToyEngine(3, 11)
        found = run(engine, [[1, 2], [4]], 5, length_penalty=0.0, **options)
        for prompt, tokens, score in zip([[1, 2], [4]], found.tokens, found.scores_BX[:, 0], strict=True):
            assert score == pytest.approx(log_probability(engine, prompt, tokens[0]), rel=1e-5)


def test_nan_logits_are_told_though_a_token_is_forced():
    """And though the user's function would be handed them."""

    class Broken(ToyEngine):
        def scores(self, text):
            return super().scores(text) * np.nan

    for options in ({"forced_bos_token_id": 3}, {"logits_processor": lambda scores_RV, rows: scores_RV}):
        with pytest.raises(NumericalError, match="step 1, sentence 1"):
            run(Broken(0, 9), [[1]], 4, **options)


@pytest.mark.parametrize(
    ("early", "penalty", "improves"),
    [(False, 1.0, False), ("never", 1.0, True), (False, -1.0, False), ("never", -1.0, False), ("never", 0.0, False)],
)
def test_how_long_a_running_beam_may_hope_to_become(early, penalty, improves):
    """A beam at -6 after 2 steps of at most 4, against a worst finished score that only -6/4 would beat.

    With a positive penalty and "never" the greatest length counts; else the present one, for a longer text would
    only score worse (penalty -1: -12 now, -24 at the end) or the same (penalty 0).
    """
    options = Options(num_beams=2, early_stopping=early, length_penalty=penalty)
    now, at_most = -6 / 2**penalty, -6 / 4**penalty
    worst = (now + max(now, at_most)) / 2 if penalty > 0 else now
    for is_free in (False, True):
        request, logits_RV = Request.make(arrays([[1]]), [4], options), np.zeros((1, 9), np.float32)
        beams = Beams.start(request, 2, logits_RV, options, NothingCaptured())
        beams.finished_score_BW[...] = worst + 1, -1e9 if is_free else worst
        beams.finished_length_BW[...], beams.length_B[...] = (1, 0 if is_free else 1), 2
        scores, parents, tokens = np.array([[-6, -7, -8, -9]], np.float32), np.zeros((1, 4), int), np.arange(4)[None]
        beams.advance(SimpleNamespace(**functions_of_backend(reference)), (scores, parents, tokens))
        assert beams.done_B[0] == (not improves and not is_free), "a place is free" if is_free else "both are taken"
