"""Diverse beam search in its three kinds: groups side by side (transformers), interleaved (fairseq), and siblings."""

import math
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toy import Ops, ToyEngine, log_probability

import minidecode as md
from minidecode.options.options import Options
from minidecode.search.beam import beam_search
from minidecode.search.candidates import best_candidates, diverse_siblings, interleaved_diverse_groups
from minidecode.search.result import Request

EOS, OUT = 0, np.float32(-1e9)
DIALECTS = ("hf", "hf4", "fairseq")
seeds = st.integers(0, 10**6)


def run(engine, prompts, limit, **options):
    """A beam search that returns all its beams."""
    W = options["num_beams"]
    options = Options(**{"eos_token_id": EOS, "num_return_sequences": W} | options)
    limits = np.full(len(prompts), limit) if np.isscalar(limit) else np.array(limit)
    return beam_search(engine, Request.make([np.array(p) for p in prompts], limits, options), options)


def found_of(found, b=0) -> list[tuple[list[int], float]]:
    """The texts that there are, with their scores."""
    return [(t.tolist(), float(s)) for t, s in zip(found.tokens[b], found.scores_BX[b], strict=True) if s > -np.inf]


# ---- groups side by side ---------------------------------------------------------------------------------------------


class SlowGroup:
    """One group of `width` beams in lists: (tokens, score) that run, and that have finished."""

    def __init__(self, width):
        self.width, self.running, self.finished, self.is_done = width, [([], np.float32(0))], [], False
        self.running += [([], OUT)] * (width - 1)

    def step(self, engine, prompt, taken: Counter, o: Options, limit: int):
        """Chooses among all continuations; tokens lose diversity_penalty for each time that `taken` has them."""
        if self.is_done:
            taken[EOS if o.pad_token_id is None else o.pad_token_id] += self.width
            return
        candidates = []
        for beam, (tokens, score) in enumerate(self.running):
            logprob_V = Ops().log_softmax(engine.scores([*prompt, *tokens])[None])[0][0]
            for v, logprob in enumerate(logprob_V):
                own = logprob - np.float32(o.diversity_penalty) * np.float32(taken[v])
                candidates.append((-float(score + own), beam, v))
        candidates.sort()
        texts = [(self.running[beam][0] + [v], np.float32(-minus)) for minus, beam, v in candidates[: 2 * self.width]]
        new = len(texts[0][0])
        at_end = o.dialect == "hf" and new == limit  # transformers 5: there every text counts as finished
        for tokens, score in texts[: self.width]:
            if tokens[-1] == EOS or at_end:
                self.finish(tokens, score, o)
        self.running = [(tokens, score) for tokens, score in texts if tokens[-1] != EOS][: self.width]
        self.is_done = self.cannot_improve(texts[0][1] if o.dialect == "hf4" else self.running[0][1], new, o, limit)
        if o.dialect == "hf4" and new == limit and not self.is_done:
            for tokens, score in self.running:
                self.finish(tokens, score, o)
        self.is_done |= new == limit
        taken.update(tokens[-1] for tokens, _ in self.running)

    def finish(self, tokens, score, o):
        """The best `width` are kept; of equal ones the first."""
        self.finished.append((tokens, score / np.float32(o.length_norm(len(tokens)))))
        self.finished = sorted(self.finished, key=lambda text: -text[1])[: self.width]

    def cannot_improve(self, hope, new, o, limit):
        """With "never", hope is measured at the length at which it is greatest."""
        if len(self.finished) < self.width:
            return False
        if o.early_stopping == "never" and o.length_penalty > 0:
            new = limit
        return o.early_stopping is True or hope / np.float32(o.length_norm(new)) <= self.finished[-1][1]


@dataclass
class SlowFound:
    texts: list[tuple[list[int], float]]
    steps: int = 0


def slow_groups(engine, prompt, limit, o: Options) -> SlowFound:
    """The texts of all groups that are no beam out of play's, best first."""
    groups, found = [SlowGroup(o.num_beams // o.num_beam_groups) for _ in range(o.num_beam_groups)], SlowFound([])
    while not all(group.is_done for group in groups):
        taken: Counter = Counter()
        for group in groups:
            group.step(engine, prompt, taken, o, limit)
        found.steps += 1
    texts = [(tokens, float(s)) for group in groups for tokens, s in group.finished if s > -1e6]
    found.texts = sorted(texts, key=lambda text: -text[1])
    return found


class Brief(ToyEngine):
    """A model that likes to end."""

    def scores(self, text):
        scores_V = super().scores(text)
        scores_V[EOS] += 2
        return scores_V


@pytest.mark.parametrize("dialect", ["hf", "hf4"])
@settings(max_examples=50)
@given(seeds, st.sampled_from([(2, 2), (3, 3), (4, 2), (6, 2), (6, 3)]), st.sampled_from([0.3, 2.0, 100.0]),
       st.integers(1, 7), st.sampled_from([True, False, "never"]), st.sampled_from([-1.0, 0.0, 1.0, 2.0]),
       st.sampled_from([None, 3]), st.sampled_from([ToyEngine, Brief]))  # fmt: skip
def test_groups_against_lists(dialect, seed, widths, penalty, limit, early, lenpen, pad, model):
    """The same texts and, bit for bit, the same scores as a slow search of each group."""
    (W, G), engine = widths, model(seed, 13)
    options = dict(dialect=dialect, num_beams=W, num_beam_groups=G, diversity_penalty=penalty, early_stopping=early,
                   length_penalty=lenpen, pad_token_id=pad)  # fmt: skip
    prompts, limits = [[1, 2], [3]], [limit, 1 + (limit + 2) % 7]
    found = run(engine, prompts, limits, **options)
    for b, prompt in enumerate(prompts):
        slow = slow_groups(engine, prompt, limits[b], Options(eos_token_id=EOS, **options))
        assert found_of(found, b) == slow.texts


@pytest.mark.parametrize("dialect", ["hf", "hf4"])
@pytest.mark.parametrize("early", [True, False, "never"])
@pytest.mark.parametrize("lenpen", [-1.0, 0.0, 2.0])
@pytest.mark.parametrize("G", [1, 3])
def test_a_model_that_likes_to_end_against_lists(dialect, early, lenpen, G):
    """Where the rules of when a sentence is done decide: the same texts, scores and number of steps; over 16 models."""
    groups = {"num_beam_groups": G, "diversity_penalty": 1.0, "pad_token_id": 4} if G > 1 else {}
    options = dict(dialect=dialect, num_beams=2 * G, early_stopping=early, length_penalty=lenpen, **groups)
    for seed in range(16):
        found = run(Brief(seed, 13), [[1, 2]], 9, **options)
        slow = slow_groups(Brief(seed, 13), [1, 2], 9, Options(eos_token_id=EOS, **options))
        assert (found_of(found), found.steps) == (slow.texts, slow.steps)


@pytest.mark.parametrize("dialect", DIALECTS)
@settings(max_examples=25)
@given(seeds, st.integers(2, 5))
def test_a_huge_penalty_makes_groups_of_one_beam_choose_different_tokens(dialect, seed, G):
    """At every step; fairseq's limit is left out, where all must end."""
    found = run(ToyEngine(seed, 16), [[1], [2, 3]], 6, dialect=dialect, num_beams=G, num_beam_groups=G,
                diversity_penalty=1e5, min_new_tokens=5 if dialect == "fairseq" else 6)  # fmt: skip
    for texts in found.tokens:
        for tokens in list(zip(*texts, strict=True))[:5]:
            assert len(set(map(int, tokens))) == G


@pytest.mark.parametrize("dialect", DIALECTS)
@settings(max_examples=25)
@given(seeds, st.integers(1, 3), st.integers(2, 3), st.integers(1, 6))
def test_groups_that_pay_next_to_nothing_all_find_what_plain_beam_search_finds(dialect, seed, width, G, limit):
    """Each on its own, G times the same; so they share neither beams nor finished texts.

    In fairseq rows change groups after an EOS, so that there none may come before the limit.
    """
    options = dict(dialect=dialect) | ({"min_new_tokens": limit - 1} if dialect == "fairseq" else {})
    if dialect == "fairseq" and limit == 1:
        return
    plain = run(ToyEngine(seed, 20), [[1], [2, 3]], limit, num_beams=width, **options)
    groups = run(ToyEngine(seed, 20), [[1], [2, 3]], limit, num_beams=width * G, num_beam_groups=G,
                 diversity_penalty=1e-30, **options)  # fmt: skip
    for b in range(2):
        assert found_of(groups, b) == [text for text in found_of(plain, b) for _ in range(G)]


@pytest.mark.parametrize("dialect", ["hf", "hf4"])
@settings(max_examples=25)
@given(seeds, st.integers(1, 2), st.integers(1, 3), st.integers(2, 7), st.sampled_from([0.5, 5.0]))
def test_a_group_does_not_know_of_those_that_choose_after_it(dialect, seed, width, G, limit, penalty):
    """With one group more the others find the same: they share no finished texts (transformers #24407)."""
    fewer = {"num_beam_groups": G, "diversity_penalty": penalty} if G > 1 else {}
    more = {"num_beam_groups": G + 1, "diversity_penalty": penalty}
    few = run(ToyEngine(seed, 20), [[1], [2]], limit, dialect=dialect, num_beams=width * G, **fewer)
    many = run(ToyEngine(seed, 20), [[1], [2]], limit, dialect=dialect, num_beams=width * (G + 1), **more)
    for b in range(2):
        less = Counter(str(text) for text in found_of(few, b))
        assert not less - Counter(str(text) for text in found_of(many, b))


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_penalty_stays_in_the_score(dialect):
    """What a text scores is what the model gives it, less the penalty for tokens that a group before had taken."""
    penalty, paid = 0.25, []
    for seed in range(5):
        engine = ToyEngine(seed, 12)
        found = run(engine, [[1]], 4, dialect=dialect, num_beams=3, num_beam_groups=3, diversity_penalty=penalty,
                    length_penalty=0.0, min_new_tokens=3)  # fmt: skip
        paid += [(log_probability(engine, [1], tokens) - score) / penalty for tokens, score in found_of(found)]
    assert np.abs(paid - np.round(paid)).max() < 1e-3
    assert min(paid) > -0.5 and max(paid) > 1.5


@pytest.mark.parametrize("groups", [{"num_beam_groups": 2}, {"diversity_penalty": 1.0},
                                    {"num_beam_groups": 1, "diversity_penalty": 0.5},
                                    {"num_beam_groups": 2, "diversity_penalty": 0.0}], ids=str)  # fmt: skip
@pytest.mark.parametrize("dialect", DIALECTS)
def test_groups_without_a_penalty_and_a_penalty_without_groups_are_refused(dialect, groups):
    with pytest.raises(md.OptionError, match="do not go together"):
        Options(dialect=dialect, num_beams=4, **groups)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_one_group_is_plain_beam_search(dialect):
    for seed in range(10):
        plain, one = (
            run(ToyEngine(seed, 12), [[1], [2]], 6, dialect=dialect, num_beams=3, **options)
            for options in ({}, {"num_beam_groups": 1})
        )
        assert [found_of(plain, b) for b in range(2)] == [found_of(one, b) for b in range(2)]


# ---- interleaved groups (fairseq) ------------------------------------------------------------------------------------


@st.composite
def totals(draw, widths):
    """Scores (B, W, V) with many ties, and some forbidden; the number of groups."""
    W, G = draw(st.sampled_from(widths))
    B, V = draw(st.integers(1, 3)), draw(st.integers(4, 7))
    rng = np.random.default_rng(draw(seeds))
    total_BWV = rng.integers(-6, 0, size=(B, W, V)).astype(np.float32)
    total_BWV[rng.random((B, W, V)) < 0.1] = -np.inf
    return total_BWV, G


@settings(max_examples=60)
@given(totals([(2, 2), (4, 2), (6, 2), (3, 3), (6, 3)]), st.sampled_from([0.5, 2.0, 7.0]))
def test_interleaved_groups_against_lists(case, penalty):
    """Group g has the beams g, g + G, ...; every candidate of it makes its token dearer for the groups after it."""
    (total_BWV, G), before = case, case[0].copy()
    B, W, V = total_BWV.shape
    C = 2 * W
    score_BC, parent_BC, token_BC = interleaved_diverse_groups(Ops(), total_BWV, C, G, penalty)
    assert (total_BWV == before).all()
    for b in range(B):
        taken, dealt = Counter(), [None] * C
        for g in range(G):
            choices = [
                (-(total_BWV[b, w, v] - penalty * taken[v]), w, v) for w in range(g, W, G) for v in range(V)
            ]  # fmt: skip
            chosen = sorted(choices)[: C // G]
            taken.update(v for _, _, v in chosen)
            dealt[g::G] = chosen
        assert [tuple(c) for c in zip(-score_BC[b], parent_BC[b], token_BC[b], strict=True)] == dealt


@given(totals([(1, 1), (3, 1), (4, 1)]), st.sampled_from([0.5, 100.0]))
def test_one_interleaved_group_is_no_group(case, penalty):
    total_BWV, _ = case
    C = min(2 * total_BWV.shape[1], total_BWV[0].size)
    for mine, plain in zip(
        interleaved_diverse_groups(Ops(), total_BWV, C, 1, penalty), best_candidates(Ops(), total_BWV, C), strict=True
    ):  # fmt: skip
        assert (mine == plain).all()


# ---- siblings --------------------------------------------------------------------------------------------------------


@settings(max_examples=60)
@given(totals([(1, 1), (2, 1), (3, 1), (4, 1)]), st.sampled_from([0.0, 0.5, 1.0, 2.5]))
def test_siblings_against_lists(case, rate):
    """The k-th best continuation of a beam, counted from 1, loses k times the rate: of equal ones the lower token is
    the better, of equal candidates the lower beam's."""
    total_BWV, _ = case
    B, W, V = total_BWV.shape
    C = min(2 * W, W * V)
    score_BC, parent_BC, token_BC = diverse_siblings(Ops(), total_BWV, C, rate)
    for b in range(B):
        offers = []
        for w in range(W):
            ranked = sorted(range(V), key=lambda v, w=w: (-total_BWV[b, w, v], v))
            offers += [(-(total_BWV[b, w, v] - rate * k), w, k, v) for k, v in enumerate(ranked, 1)]
        expected = [(score, w, v) for score, w, _, v in sorted(offers)[:C]]
        assert [tuple(c) for c in zip(-score_BC[b], parent_BC[b], token_BC[b], strict=True)] == expected


@given(totals([(1, 1), (3, 1), (4, 1)]))
def test_siblings_that_lose_nothing_are_plain_candidates(case):
    total_BWV, _ = case
    C = min(2 * total_BWV.shape[1], total_BWV[0].size)
    for mine, plain in zip(
        diverse_siblings(Ops(), total_BWV, C, 0.0), best_candidates(Ops(), total_BWV, C), strict=True
    ):
        assert (mine == plain).all()


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_small_sibling_penalty_is_plain_beam_search_and_a_larger_one_is_not(dialect):
    differ = 0
    for seed in range(12):
        plain, small, large = (
            run(ToyEngine(seed, 12), [[1], [2, 3]], 6, dialect=dialect, num_beams=3, **options)
            for options in ({}, {"sibling_penalty": 1e-30}, {"sibling_penalty": 3.0})
        )
        assert [found_of(plain, b) for b in range(2)] == [found_of(small, b) for b in range(2)]
        differ += found_of(plain) != found_of(large)
    assert differ > 6


@pytest.mark.parametrize("dialect", DIALECTS)
def test_with_a_huge_sibling_penalty_every_beam_keeps_its_own_best_continuation(dialect):
    """The first step's candidates are all siblings, and pay nothing; from then on every beam has one child.

    Its rank is 1, and costs the penalty once a step.
    """
    engine, W, limit, penalty = ToyEngine(5, 12), 4, 5, 1e4
    found = run(engine, [[2]], limit, dialect=dialect, num_beams=W, sibling_penalty=penalty, length_penalty=0.0,
                min_new_tokens=limit - 1 if dialect == "fairseq" else limit)  # fmt: skip
    first = np.argsort(-engine.scores([2])[1:])[:W] + 1
    assert sorted(text[0] for text, _ in found_of(found)) == sorted(first.tolist())
    for tokens, score in found_of(found):
        for t in range(1, limit - (dialect == "fairseq")):
            assert tokens[t] == np.argmax(engine.scores([2, *tokens[:t]])[1:]) + 1
        exact = log_probability(engine, [2], tokens) - (limit - 1) * penalty
        assert math.isclose(score, exact, rel_tol=1e-6)
    scores = [score for _, score in found_of(found)]
    assert all(a >= b for a, b in pairwise(scores))
