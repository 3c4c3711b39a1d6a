"""Sampling: the random numbers, who draws which of them, what the filters leave, and how often each text comes.

Frequencies are held to exact probabilities by chi-square tests. Seeds are fixed, so a test that passes always passes;
each would fail by chance for one seed in a thousand.
"""

import functools
import itertools
import math
import warnings
from collections import Counter

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from scipy.special import chdtrc
from toy import Ops, ToyEngine

import minidecode as md
from minidecode.options.options import Options
from minidecode.reference.random import gumbel, philox
from minidecode.reference.top_k import top_k_filter
from minidecode.reference.top_p import top_p_filter
from minidecode.reference.typical import typical_filter
from minidecode.runtime.draws import Draws, sentence_keys
from minidecode.search import filters as no_ops
from minidecode.search.beam import beam_search
from minidecode.search.candidates import sample_candidates
from minidecode.search.greedy import greedy_search
from minidecode.search.result import Request

epsilon_filter, eta_filter, min_p_filter, top_h_filter = (
    functools.partial(vars(no_ops)[name], Ops())
    for name in ("epsilon_filter", "eta_filter", "min_p_filter", "top_h_filter")
)
EOS = 0
DIALECTS = ("hf", "hf4", "fairseq")
seeds = st.integers(0, 2**64 - 1)
distinct_prompts = st.lists(
    st.lists(st.integers(1, 4), min_size=1, max_size=4), min_size=1, max_size=4, unique_by=tuple
)


def run(engine, prompts, limit, copies=None, **options):
    """A search of do_sample=True; every sentence has the same limit."""
    options = Options(**{"eos_token_id": EOS, "do_sample": True} | options)
    search = greedy_search if options.num_beams == 1 else beam_search
    arrays = [np.array(p) for p in prompts]
    return search(engine, Request.make(arrays, np.full(len(prompts), limit), options, copies=copies), options)


def lists(tokens):
    return [text.tolist() for text in tokens]


def assert_same_sentence(one, b, other, c):
    assert lists(one.tokens[b]) == lists(other.tokens[c])
    assert np.array_equal(one.scores_BX[b], other.scores_BX[c])


def assert_drawn_from(probability: dict, drawn: list) -> None:
    """Pearson's chi-square test at 0.001, cells that expect fewer than 5 taken together; and nothing impossible."""
    counts, cells, rest = Counter(drawn), [], [0.0, 0]
    assert set(counts) <= set(probability), "drawn, and impossible"
    assert abs(math.fsum(probability.values()) - 1) < 1e-9
    for outcome, p in probability.items():
        if p * len(drawn) >= 5:
            cells.append((p * len(drawn), counts[outcome]))
        else:
            rest[0], rest[1] = rest[0] + p * len(drawn), rest[1] + counts[outcome]
    if rest[0] > 1:
        cells.append(rest)
    statistic = sum((seen - expected) ** 2 / expected for expected, seen in cells)
    assert len(cells) > 1 and chdtrc(len(cells) - 1, statistic) > 1e-3, cells


# ---- random numbers --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("counter", "key", "words"),
    [
        ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
    ],
)
def test_the_known_answers_of_philox(counter, key, words):
    """philox4x32-10 in the file kat_vectors of Random123. Two equal columns: neither touches the other."""
    counter, key, words = ([int(word, 16) for word in text.split()] for text in (counter, key, words))
    found = philox(np.array([counter, counter]).T, tuple(key))
    assert found.dtype == np.uint64 and found.T.tolist() == [words, words]


@settings(max_examples=50)
@given(seeds, st.lists(st.tuples(*[st.integers(0, 2**32 - 1)] * 3), min_size=1, max_size=5), st.integers(1, 30),
       st.randoms(use_true_random=False))  # fmt: skip
def test_a_number_depends_on_seed_key_step_and_token_alone(seed, rows, V, random):
    keys, steps = np.array([row[:2] for row in rows]), np.array([row[2] for row in rows])
    noise = gumbel(keys, steps, V, seed)
    assert (gumbel(keys, steps, V + 9, seed)[:, :V] == noise).all(), "a larger vocabulary"
    order = random.sample(range(len(rows)), len(rows))
    assert (gumbel(keys[order], steps[order], V, seed) == noise[order]).all(), "another order of rows"
    assert (gumbel(keys[:1], steps[:1], V, seed)[0] == noise[0]).all(), "no neighbours"


@pytest.mark.parametrize("other", [
    {"seed": 8}, {"seed": 7 + 2**32}, {"keys": [[2, 2]]}, {"keys": [[1, 3]]}, {"keys": [[2, 1]]}, {"steps": [4]},
])  # fmt: skip
def test_a_number_depends_on_each_of_them(other):
    """2 and 1 for 1 and 2: the halves of a key, and key and step, are not mixed up."""
    usual = {"keys": [[1, 2]], "steps": [3], "seed": 7}

    def draw(keys, steps, seed):
        return gumbel(np.array(keys), np.array(steps), 50, seed)[0]

    assert len({*draw(**usual), *draw(**usual | other)}) == 100


def kolmogorov_smirnov(x) -> float:
    """sqrt(n) times the largest distance between the distribution of x and Gumbel's, exp(-exp(-x)).

    Above 1.95 for one sample in a thousand.
    """
    cdf = np.exp(-np.exp(-np.sort(x)))
    n = len(x)
    return math.sqrt(n) * max(np.max(np.arange(1, n + 1) / n - cdf), np.max(cdf - np.arange(n) / n))


N = 2000
COUNT, SAME = np.arange(N), np.full(N, 2)
ALONG = {  # noise numbers that differ in one thing alone
    "tokens": lambda: gumbel(np.array([[1, 2]]), np.array([3]), 50 * N, 4)[0],
    "words of a block": lambda: gumbel(np.array([[1, 2]]), np.array([3]), 8 * N, 4)[0][3::4],
    "rows": lambda: gumbel(np.stack([COUNT, SAME], axis=1), SAME, 1, 4)[:, 0],
    "other halves of keys": lambda: gumbel(np.stack([SAME, COUNT], axis=1), SAME, 1, 4)[:, 0],
    "steps": lambda: gumbel(np.stack([SAME, SAME], axis=1), COUNT, 1, 4)[:, 0],
    "seeds": lambda: np.array([gumbel(np.array([[1, 2]]), np.array([3]), 1, seed)[0, 0] for seed in range(N)]),
}  # fmt: skip


@pytest.mark.parametrize("along", ALONG)
def test_the_noise_is_gumbels_in_every_direction(along):
    """Its distribution, and that neighbours know nothing of each other."""
    noise = ALONG[along]()
    assert kolmogorov_smirnov(noise) < 1.95
    for apart in (1, 2, 4):
        correlation = np.corrcoef(noise[:-apart], noise[apart:])[0, 1]
        assert abs(correlation) < 3.3 / math.sqrt(len(noise) - apart)


def test_the_smallest_and_the_largest_word_give_finite_noise(monkeypatch):
    """u is never 0 or 1, so that no noise is infinite."""
    for word in (0, 2**32 - 1):
        monkeypatch.setitem(gumbel.__globals__, "philox", lambda c, *_, w=word: np.full(np.shape(c), w, np.uint64))
        noise = gumbel(np.array([[1, 2]]), np.array([0]), 4, 0)
        assert np.isfinite(noise).all() and (noise < -3).all() == (word == 0)


# ---- who draws which -------------------------------------------------------------------------------------------------


def test_keys_tell_sources_copies_and_texts_apart():
    """3 sources that concatenate alike, 4 copies of each, 5 texts: no two keys are the same, in neither half."""
    sources = [np.array(s) for s in ([1], [1, 0], [0, 1])]
    keys = sentence_keys([s for s in sources for _ in range(4)], None, 5)
    assert keys.shape == (60, 2) and keys.dtype == np.uint32
    assert len({tuple(key) for key in keys.tolist()}) == 60
    assert len(set(keys[:, 0].tolist())) == len(set(keys[:, 1].tolist())) == 60


def test_a_key_hangs_on_the_numbers_of_the_source_and_not_on_how_they_are_stored():
    wide, narrow = sentence_keys([np.array([3, 4])], None, 2), sentence_keys([np.array([3, 4], np.int32)], None, 2)
    assert (wide == narrow).all()


def test_keys_are_the_same_in_every_session():
    """Written down: a hash that Python salts anew, or another layout of what is hashed, would change all samples."""
    keys = sentence_keys([np.array([15496, 11]), np.array([15496, 11])], None, 2)
    assert keys.tolist() == [
        [3442144636, 2670033928],
        [718742726, 1518123941],
        [657294864, 416170556],
        [1859434593, 2551522336],
    ]


@pytest.mark.parametrize("dialect", DIALECTS)
@settings(max_examples=40)
@given(seeds, distinct_prompts, st.integers(1, 3), st.integers(1, 3), st.integers(2, 7))
@example(0, [[1], [2], [1, 2]], 1, 2, 6)
@example(0, [[1], [2], [1, 2]], 3, 2, 6)
def test_the_same_seed_gives_a_sentence_the_same_text_in_any_batch(dialect, seed, prompts, W, S, limit):
    W = 1 if dialect == "fairseq" else W  # which refuses to sample with a beam
    options = dict(seed=seed, num_beams=W, num_return_sequences=S if W == 1 else min(S, W), dialect=dialect,
                   temperature=1.5)  # fmt: skip
    together = run(ToyEngine(1, 9), prompts, limit, **options)
    backwards = run(ToyEngine(1, 9), prompts[::-1], limit, **options)
    for b, prompt in enumerate(prompts):
        alone = run(ToyEngine(1, 9), [prompt], limit, **options)
        assert_same_sentence(together, b, alone, 0)
        assert_same_sentence(backwards, len(prompts) - 1 - b, alone, 0)


@pytest.mark.parametrize("dialect", DIALECTS)
@settings(max_examples=20)
@given(seeds, st.integers(1, 5), st.integers(1, 5))
def test_asking_for_more_texts_leaves_the_first_ones_as_they_are(dialect, seed, few, more):
    for W in (1,) if dialect == "fairseq" else (1, 5):
        options = dict(seed=seed, num_beams=W, dialect=dialect, temperature=1.5)
        first = run(ToyEngine(2, 12), [[1, 2], [3]], 5, num_return_sequences=min(few, more), **options)
        all_of_them = run(ToyEngine(2, 12), [[1, 2], [3]], 5, num_return_sequences=max(few, more), **options)
        for b in range(2):
            assert lists(first.tokens[b]) == lists(all_of_them.tokens[b])[: min(few, more)]
            assert np.array_equal(first.scores_BX[b], all_of_them.scores_BX[b, : min(few, more)])


@pytest.mark.parametrize(("dialect", "W"), [("hf", 1), ("hf", 3), ("hf4", 1), ("hf4", 3), ("fairseq", 1)])
def test_other_seeds_other_texts(dialect, W):
    texts = [
        tuple(run(ToyEngine(3, 20, spread=0.3), [[1]], 8, seed=s, num_beams=W, dialect=dialect).tokens[0][0].tolist())
        for s in [*range(20), 2**32, 2**63]
    ]
    assert len(set(texts)) == 22


@pytest.mark.parametrize("W", [1, 3])
def test_equal_prompts_are_copies_with_texts_of_their_own(W):
    options = dict(num_beams=W, temperature=2.0)
    by_itself = run(ToyEngine(4, 12), [[1, 2]] * 6, 6, **options)
    assert len({tuple(t[0].tolist()) for t in by_itself.tokens}) == 6
    again = run(ToyEngine(4, 12), [[3], *[[1, 2]] * 6], 6, **options)
    numbered = run(ToyEngine(4, 12), [[1, 2]] * 6, 6, copies=[5, 4, 3, 2, 0, 0], **options)
    for b, copy in enumerate([5, 4, 3, 2, 0, 0]):
        assert_same_sentence(again, b + 1, by_itself, b)
        assert_same_sentence(numbered, b, by_itself, copy)


def test_sample_ids_of_generate(tiny_folder):
    """The same text for the same number, and it does not matter what else is in the call."""
    model = md.load(tiny_folder())
    options = dict(do_sample=True, top_k=0, max_new_tokens=6, seed=11)
    of_their_own = model.generate(input_ids=[[5, 6]] * 3, **options)
    assert len({tuple(t.tolist()) for t in of_their_own.token_ids}) == 3
    named = model.generate(input_ids=[[5, 6], [9], [5, 6], [5, 6]], sample_ids=[2, 0, 1, 2], **options)
    assert lists(named.token_ids[0::2]) == [of_their_own.token_ids[2].tolist(), of_their_own.token_ids[1].tolist()]
    assert named.token_ids[3].tolist() == named.token_ids[0].tolist()


@pytest.mark.parametrize("numbers", [[1], [1, 2, 3]])
def test_sample_ids_are_as_many_as_sentences(tiny_folder, numbers):
    """Neither an IndexError nor a number that nobody asked for."""
    with pytest.raises(md.MinidecodeError, match="sample_ids"):
        md.load(tiny_folder()).generate(input_ids=[[5], [6]], do_sample=True, max_new_tokens=2, sample_ids=numbers)


@pytest.mark.parametrize("numbers", [["a"], [2**70], [1.5], [None]])
def test_sample_ids_are_whole_numbers(tiny_folder, numbers):
    with pytest.raises(md.InputError, match="sample_ids must be integers"):
        md.load(tiny_folder()).generate(input_ids=[[5]], do_sample=True, max_new_tokens=2, sample_ids=numbers)


@pytest.mark.parametrize("kind", [int, np.int64, np.uint64, np.int32])
def test_a_seed_of_numpy_is_the_same_seed(kind):
    expected, found = (run(ToyEngine(3, 9), [[1]], 5, seed=s, temperature=2.0) for s in (7, kind(7)))
    assert_same_sentence(found, 0, expected, 0)


# ---- the filters -----------------------------------------------------------------------------------------------------

score_lists = st.lists(
    st.one_of(st.integers(-3, 3).map(float), st.floats(-9, 9), st.just(-math.inf)), min_size=1, max_size=9
).filter(lambda scores: max(scores) > -math.inf)


def kept(filter_rows, scores, *arguments):
    """Which scores stay, run between two other rows; they must be as they were, and the array the same."""
    other = [7.0, *[-1.0] * (len(scores) - 1)]
    given_scores = np.array([other, scores, other], np.float32)
    filtered = filter_rows(given_scores, *arguments)
    assert filtered is given_scores
    stays = [s for s in range(len(scores)) if filtered[1, s] > -math.inf]
    assert (filtered[1, stays] == np.array(scores, np.float32)[stays]).all()
    return stays


def probabilities(scores):
    e = [math.exp(float(s) - max(scores)) for s in scores]
    return [x / math.fsum(e) for x in e]


@given(score_lists, st.integers(1, 12))
def test_top_k(scores, k):
    """A token stays if fewer than k others are above it: ties with the k-th stay, and above V all."""
    scores = np.array(scores, np.float32).tolist()
    expected = [i for i, s in enumerate(scores) if sum(x > s for x in scores) < k and s > -math.inf]
    assert kept(top_k_filter, scores, k) == expected


@given(score_lists, st.floats(0.01, 0.99), st.integers(1, 4))
def test_top_p(scores, p, least):
    """Of all sets of tokens that hold the mass p, the smallest; with equal scores only their number is settled."""
    scores = np.array(scores, np.float32).tolist()
    probability = probabilities(scores)
    falling = sorted(probability, reverse=True)
    masses = [math.fsum(falling[:n]) for n in range(1, len(scores) + 1)]
    assume(min(abs(mass - p) for mass in masses) > 1e-9)
    number = max(next(n for n, mass in enumerate(masses, 1) if mass >= p), least)
    stays = kept(top_p_filter, scores, p, least)
    possible = sum(s > -math.inf for s in scores)
    assert sorted((scores[i] for i in stays), reverse=True) == sorted(scores, reverse=True)[: min(number, possible)]


@pytest.mark.parametrize("n", [1, 2, 4, 8, 16])
def test_top_p_at_the_boundary(n):
    """n tokens of probability 1/n, exactly: j of them hold j/n, and for any more it takes one more."""
    for j in range(1, n):
        assert len(kept(top_p_filter, [0.0] * n, j / n)) == j
        assert len(kept(top_p_filter, [0.0] * n, j / n + 1e-9)) == j + 1
        assert len(kept(top_p_filter, [0.0] * n, j / n - 1e-9)) == j


@given(score_lists, st.floats(0.0, 1.0), st.integers(1, 4))
@example([1.0, 1.0, 0.0], 1.0, 1)
@example([0.0, 5.0, 5.0, 1.0], 1.0, 3)
def test_min_p(scores, p, least):
    """A token stays if it is p times as likely as the likeliest; equal scores stay together."""
    scores = np.array(scores, np.float32).tolist()
    ratios = [math.exp(s - max(scores)) for s in scores]
    assume(all(abs(ratio - p) > 1e-9 for ratio in ratios if 0 < ratio < 1))
    stays = kept(min_p_filter, scores, p, least)
    by_rule = [s for s, ratio in zip(scores, ratios, strict=True) if ratio >= p and s > -math.inf]
    best = [s for s in sorted(scores, reverse=True)[:least] if s > -math.inf]
    assert sorted(scores[i] for i in stays) == sorted(max(by_rule, best, key=len))


# ---- and those of later papers ----


def surprise(p: float) -> float:
    return -p * math.log(p) if p > 0 else 0.0


def by_rule_or_best(scores, is_kept, least):
    """The tokens that the rule keeps, and what is at least as likely as the `least`-th; none that is impossible."""
    kth = sorted(scores, reverse=True)[min(least, len(scores)) - 1]
    return [v for v, s in enumerate(scores) if (is_kept[v] or s >= kth) and s > -math.inf]


@given(score_lists, st.floats(0.001, 0.9), st.integers(1, 4))
def test_epsilon(scores, epsilon, least):
    """A token stays if its probability is at least epsilon."""
    scores = np.array(scores, np.float32).tolist()
    probability = probabilities(scores)
    assume(all(abs(p - epsilon) > 1e-9 for p in probability))
    expected = by_rule_or_best(scores, [p >= epsilon for p in probability], least)
    assert kept(epsilon_filter, scores, epsilon, least) == expected


@given(score_lists, st.floats(0.001, 0.9), st.integers(1, 4))
def test_eta(scores, epsilon, least):
    """A token stays if its probability is at least epsilon, or at least sqrt(epsilon) exp(-entropy)."""
    scores = np.array(scores, np.float32).tolist()
    probability = probabilities(scores)
    eta = min(epsilon, math.sqrt(epsilon) * math.exp(-math.fsum(map(surprise, probability))))
    assume(all(abs(p - eta) > 1e-9 for p in probability))
    assert kept(eta_filter, scores, epsilon, least) == by_rule_or_best(scores, [p >= eta for p in probability], least)


@given(score_lists, st.floats(0.01, 0.99), st.integers(1, 4))
def test_typical(scores, mass, least):
    """Tokens in the order of |-log p - entropy|, until their mass is reached; what ties with the last one too."""
    scores = np.array(scores, np.float32).tolist()
    probability = probabilities(scores)
    entropy = math.fsum(map(surprise, probability))
    distance = [abs(-math.log(p) - entropy) if p > 0 else math.inf for p in probability]
    order = sorted(range(len(scores)), key=distance.__getitem__)
    masses = [math.fsum(probability[v] for v in order[:n]) for n in range(1, len(scores) + 1)]
    assume(min(abs(m - mass) for m in masses) > 1e-9)
    gaps = [abs(distance[a] - distance[b]) for a, b in itertools.combinations(range(len(scores)), 2)
            if distance[a] < math.inf > distance[b]]  # fmt: skip
    assume(all(gap > 1e-9 for gap in gaps))
    number = max(next(n for n, m in enumerate(masses, 1) if m >= mass), least)
    assert kept(typical_filter, scores, mass, least) == sorted(v for v in order[:number] if scores[v] > -math.inf)


@given(score_lists, st.floats(0.01, 1.0))
def test_top_h(scores, h):
    """The likeliest tokens whose surprise sums to at most h times the entropy, and the likeliest in any case."""
    scores = np.array(scores, np.float32).tolist()
    falling = sorted(probabilities(scores), reverse=True)
    sums = [math.fsum(map(surprise, falling[:n])) for n in range(1, len(scores) + 1)]
    assume(h == 1.0 or all(abs(x - h * sums[-1]) > 1e-9 for x in sums))
    possible = sum(p > 0 for p in falling)
    number = possible if h == 1.0 else max(1, sum(x <= h * sums[-1] for x in sums[:possible]))
    stays = kept(top_h_filter, scores, h)
    assert sorted((scores[v] for v in stays), reverse=True) == sorted(scores, reverse=True)[:number]


def test_top_h_looks_at_the_hundred_likeliest():
    assert kept(top_h_filter, [0.0] * 50 + [0.1] * 70 + [-1.0] * 80, 1.0) == [*range(30), *range(50, 120)]


def test_a_token_that_is_too_likely_is_not_typical():
    """p = 0.4 has a surprise of 0.92 at an entropy of 1.75; those of 0.1 have 2.30 and are nearer to it."""
    scores = np.log([0.4, *[0.1] * 6]).tolist()
    assert kept(typical_filter, scores, 0.3) == [1, 2, 3, 4, 5, 6]


def test_where_the_model_is_unsure_less_likely_tokens_may_come():
    """sqrt(0.04) exp(-log 50) = 0.004, below the probability of 0.02 that epsilon alone would rule out."""
    flat = [0.0] * 50
    assert len(kept(eta_filter, flat, 0.04)) == 50
    assert kept(epsilon_filter, [*flat[1:], 0.1], 0.04) == [49]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("arguments", [
    (top_k_filter, 2), (top_p_filter, 0.5, 2),
    (min_p_filter, 0.5, 2), (epsilon_filter, 0.3, 2), (eta_filter, 0.3, 2), (typical_filter, 0.5, 2),
    (top_h_filter, 0.999),
])  # fmt: skip
def test_a_row_that_nothing_is_left_of_stays_so(arguments):
    """A beam that may not go on, beside one that may; a warning would be a line on the screen that nobody can mend."""
    function, *rest = arguments
    filtered = function(np.array([[-np.inf] * 4, [0, 9, 9, 0]], np.float32), *rest)
    assert filtered.tolist() == [[-np.inf] * 4, [-np.inf, 9, 9, -np.inf]]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("function", "threshold"), [
    (top_p_filter, 0.6), (min_p_filter, 0.6), (epsilon_filter, 0.3), (eta_filter, 0.3), (typical_filter, 0.6),
    (top_h_filter, 1.0),
])  # fmt: skip
def test_large_logits_do_not_overflow(function, threshold):
    assert kept(function, [9999.0, 9998.9, 9000.0], threshold)[:2] == [0, 1]
    assert 2 in kept(function, [-9999.0, -9999.0, -9990.0], threshold)


@given(score_lists, st.floats(-30, 30), st.floats(0.05, 0.95))
def test_logits_and_log_probabilities_are_filtered_alike(scores, shift, p):
    """A constant added to all scores changes no probability."""
    probability = probabilities(scores)
    falling = sorted(probability, reverse=True)
    assume(min(abs(math.fsum(falling[:n]) - p) for n in range(1, len(scores) + 1)) > 1e-4)
    assume(all(abs(x / falling[0] - p) > 1e-4 for x in probability))
    assume(min((abs(a - b) for a, b in itertools.combinations(scores, 2)), default=1) > 1e-3)
    for function in (top_p_filter, min_p_filter):
        assert kept(function, scores, p) == kept(function, [s + shift for s in scores], p)


@pytest.mark.parametrize("name", ["top_k_filter", "top_p_filter"])
def test_filters_keep_all_that_they_may(name):
    """k from V on; p = 1 where every token weighs something; k = 1 and a tiny p leave the likeliest."""
    scores = [0.5, -1.0, 3.0, -9.0]
    function = {"top_k_filter": top_k_filter, "top_p_filter": top_p_filter}[name]
    everything, one = ([4, 5, 10**9], 1) if name == "top_k_filter" else ([1.0], 1e-12)
    assert all(kept(function, scores, most) == [0, 1, 2, 3] for most in everything)
    assert kept(function, scores, one) == [2]


SAMPLED = "top_k={0},top_p={0},sample={0}"


@pytest.mark.parametrize("how", ["naive", "cpu", "emulator"])
@pytest.mark.parametrize("options", [
    {"top_k": 0}, {"top_k": 7, "top_p": 0.8, "temperature": 1.3}, {"top_p": 0.5, "min_p": 0.02},
    {"num_beams": 2, "top_k": 5, "top_p": 0.9}, {"dialect": "fairseq", "top_p": 0.6},
], ids=str)  # fmt: skip
def test_every_backend_draws_the_same_tokens(tiny_folder, how, options):
    """The receipt says who ran: a plan that was not followed would pass too."""
    model = md.load(tiny_folder())
    call = dict(input_ids=[[5, 6], [9]], do_sample=True, max_new_tokens=4, seed=2**40 + 3, **options)
    expected, found = model.generate(**call), model.generate(**call, plan=SAMPLED.format(how))
    assert lists(found.token_ids) == lists(expected.token_ids) and np.array_equal(found.scores, expected.scores)
    ran = {name: found.receipt.ops[name] for name in ("top_k_filter", "top_p_filter", "sample_tokens")
           if name in found.receipt.ops}  # fmt: skip
    place = {"naive": "_naive", "emulator": "cuda"}.get(how, how)
    assert ran and all(place in count.implementation for count in ran.values())
    assert ("sample_tokens" in ran) == ("num_beams" not in options)


@pytest.mark.parametrize("how", ["reference", "naive", "cpu", "emulator"])
def test_scores_that_are_nan_are_refused_before_anything_is_drawn(how):
    engine = ToyEngine(0, 9)
    engine.ops = Ops(SAMPLED.format(how))
    engine.scores = lambda text: np.full(9, np.nan, np.float32)
    with pytest.raises(md.MinidecodeError, match="NaN at step 1"):
        run(engine, [[1]], 2)


@pytest.mark.parametrize("how", ["reference", "naive", "cpu", "emulator"])
@pytest.mark.parametrize("options", [
    {"top_k": 3, "top_p": 0.9, "temperature": 1.3}, {"top_p": 0.5, "min_p": 0.02},
    {"top_k": 3, "renormalize_logits": True}, {"forced_bos_token_id": 3},
    {"dialect": "fairseq", "top_k": 3}, {"num_beams": 2, "top_k": 5, "top_p": 0.9},
], ids=str)  # fmt: skip
@pytest.mark.parametrize("bad", [[np.nan], [0.0, np.inf], [np.nan] * 9, [-np.inf] * 9], ids=str)
def test_whatever_ops_make_of_no_scores_it_is_told_at_the_end_of_the_step(how, options, bad):
    """A filter or a draw that meets them ends, and stays within its arrays; a forced token does not hide them."""
    engine = ToyEngine(0, 9)
    engine.ops, right = Ops(f"{SAMPLED.format(how)},softmax={how}"), engine.scores

    def spoilt(text):
        scores_V = right(text)
        scores_V[: len(bad)] = bad
        return scores_V

    engine.scores = spoilt
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(md.NumericalError, match="NaN at step 1, sentence 1"):
            run(engine, [[1], [2]], 2, **options)


# ---- how often each token comes --------------------------------------------------------------------------------------


def next_probabilities(logits, temperature=1.0, top_k=None, top_p=1.0, min_p=None, least=1):
    """token -> probability after the filters, by their definitions, one token at a time."""
    scores = {v: float(s) / temperature for v, s in enumerate(logits)}
    if top_k:
        scores = {v: s for v, s in scores.items() if sum(x > s for x in scores.values()) < max(top_k, least)}
    probability = dict(zip(scores, probabilities(scores.values()), strict=True))
    if top_p < 1:
        nucleus = []
        for v in sorted(probability, key=probability.get, reverse=True):
            if len(nucleus) < least or math.fsum(probability[w] for w in nucleus) < top_p:
                nucleus.append(v)
        probability = {v: probability[v] for v in nucleus}
    if min_p is not None:
        most = max(probability.values())
        falling = sorted(probability.values(), reverse=True)
        bound = min(min_p * most, falling[min(least, len(falling)) - 1])
        probability = {v: p for v, p in probability.items() if p >= bound}
    total = math.fsum(probability.values())
    return {v: p / total for v, p in probability.items()}


class Fixed(ToyEngine):
    """Tokens of these probabilities, whatever came before; EOS is 0."""

    def __init__(self, probability):
        super().__init__(0, len(probability))
        self.logits_V = np.log(np.array(probability)).astype(np.float32)

    def scores(self, text):
        return self.logits_V


MIXED = [0.05, 0.4, 0.08, 0.15, 0.2, 0.07, 0.05]
FILTERS = [
    {}, {"temperature": 0.5}, {"temperature": 2.0}, {"top_k": 3}, {"top_k": 6}, {"top_k": 99}, {"top_k": 1},
    {"top_p": 0.7}, {"top_p": 0.61}, {"top_p": 0.59}, {"top_p": 0.01}, {"min_p": 0.19}, {"min_p": 0.3},
    {"temperature": 2.0, "top_p": 0.6}, {"temperature": 2.0, "min_p": 0.5}, {"top_k": 3, "top_p": 0.75},
    {"top_k": 4, "min_p": 0.2, "temperature": 0.7}, {"top_p": 0.9, "min_p": 0.25},
]  # fmt: skip
FAIRSEQ_FILTERS = [f for f in FILTERS if "min_p" not in f and len(f.keys() & {"top_k", "top_p"}) < 2]


@pytest.mark.parametrize(
    ("dialect", "filters"), [*[("hf", f) for f in FILTERS], *[("fairseq", f) for f in FAIRSEQ_FILTERS]], ids=str
)
def test_the_first_token_comes_as_often_as_it_should(dialect, filters):
    """1000 texts: top_k=3 draws three tokens and no others (lightseq #36), top_p the fewest of that mass."""
    expected = next_probabilities(np.log(MIXED), **filters)
    all_of_them = {"top_k": 0} if dialect == "hf" else {"min_new_tokens": 0}
    found = run(Fixed(MIXED), [[1]], 1 if dialect == "hf" else 2, num_return_sequences=1000, seed=5, dialect=dialect,
                **all_of_them | filters)  # fmt: skip
    drawn = [text[0] for text in lists(found.tokens[0])]
    assert set(drawn) == set(expected)
    if len(expected) > 1:
        assert_drawn_from(expected, drawn)


def test_top_k_is_50_where_it_is_not_given():
    """As in transformers; fairseq keeps all."""
    logits = -0.01 * np.arange(60)
    engine = Fixed(np.exp(logits))
    for dialect, number in [("hf", 50), ("hf4", 50), ("fairseq", 60)]:
        found = run(engine, [[1]], 2, num_return_sequences=1000, dialect=dialect, eos_token_id=None)
        assert len({text[0] for text in lists(found.tokens[0])}) == number


def test_tokens_of_a_text_are_drawn_independently():
    """Pairs of the first two tokens of 2000 texts, against the product of what the model says of each."""
    engine = ToyEngine(5, 5, spread=1.0)
    found = run(engine, [[1]], 2, num_return_sequences=2000, eos_token_id=None, top_k=0)
    first = next_probabilities(engine.scores([1]))
    second = {v: next_probabilities(engine.scores([1, v])) for v in first}
    expected = {(v, w): first[v] * second[v][w] for v in first for w in second[v]}
    assert_drawn_from(expected, [tuple(text) for text in lists(found.tokens[0])])


def test_sentences_of_a_batch_are_drawn_independently():
    """Two prompts, whose tokens are equally likely, over 800 seeds: the pairs too come as often as they should."""
    engine, pairs = Fixed([0.5, 0.3, 0.2]), []
    for seed in range(800):
        found = run(engine, [[1], [2]], 1, seed=seed, eos_token_id=None)
        pairs.append((int(found.tokens[0][0][0]), int(found.tokens[1][0][0])))
    assert_drawn_from(
        {(v, w): p * q for v, p in enumerate([0.5, 0.3, 0.2]) for w, q in enumerate([0.5, 0.3, 0.2])}, pairs
    )


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_sampled_text_scores_what_the_model_gives_it(dialect):
    """Not what the filters made of it; fairseq's temperature is part of its model."""
    probability, T = [0.1, 0.5, 0.3, 0.1], 0.5
    least = 3 if dialect == "fairseq" else 4  # fairseq's limit is for EOS
    found = run(Fixed(probability), [[1]], 4, num_return_sequences=20, temperature=T, top_k=2, min_new_tokens=least,
                length_penalty=2.0, dialect=dialect)  # fmt: skip
    by_dialect = probabilities(np.log(probability) / T) if dialect == "fairseq" else probability
    for text, score in zip(lists(found.tokens[0]), found.scores_BX[0], strict=True):
        assert score == pytest.approx(sum(math.log(by_dialect[v]) for v in text) / 4**2, rel=1e-5)


@pytest.mark.parametrize("T", [1e-3, 1e-30])
def test_a_temperature_next_to_0_leaves_the_likeliest_token(T):
    """Below that it is refused: scores that overflow are no choice."""
    with pytest.raises(md.OptionError, match="temperature"):
        run(ToyEngine(0, 9), [[1]], 5, temperature=1e-40)
    for seed in range(5):
        likeliest = run(ToyEngine(seed, 9), [[1]], 5, do_sample=False)
        assert_same_sentence(run(ToyEngine(seed, 9), [[1]], 5, temperature=T), 0, likeliest, 0)


@pytest.mark.parametrize("options", [{"top_k": 1, "renormalize_logits": True}, {}], ids=str)
def test_a_token_that_nobody_forced_is_not_certain(options):
    """Not for being the only one that a filter left; nor for having, like all others, a logit of 0."""
    found = run(Fixed([0.5, 0.25, 0.25] if options else [1.0] * 3), [[1]], 3, eos_token_id=None, **options)
    assert found.scores_BX[0, 0] == pytest.approx(math.log(0.5 if options else 1 / 3))


# ---- beam sampling ---------------------------------------------------------------------------------------------------


def draws_without_replacement(probability: dict, C: int) -> dict:
    """set of C outcomes -> probability, over all orders in which they may be drawn one after the other."""
    chance = Counter()
    for order in itertools.permutations(probability, C):
        p, left = 1.0, 1.0
        for outcome in order:
            p, left = p * probability[outcome] / left, left - probability[outcome]
        chance[frozenset(order)] += p
    return dict(chance)


def at(step, keys_B2):
    return Draws(keys_B2, np.full(len(keys_B2), step))


@pytest.mark.parametrize("C", [1, 2, 3, 4])
def test_beam_sampling_draws_without_replacement(C):
    """2 beams of 3 tokens, of which one is forbidden: all sets of C continuations, in 2000 sentences."""
    total_WV = np.log(np.array([[0.3, 0.1, 0.15], [0.25, 0.0, 0.2]], np.float64) + 1e-300).astype(np.float32)
    total_WV[1, 1] = -np.inf
    keys = np.stack([np.arange(2000), np.full(2000, 9)], axis=1)
    score, parent, token = sample_candidates(Ops(), np.repeat(total_WV[None], 2000, axis=0), C, at(3, keys), 12)
    assert (score == total_WV[parent, token]).all() and (np.diff(score, axis=1) <= 0).all()
    possible = {(w, v): math.exp(total_WV[w, v]) for w in range(2) for v in range(3) if (w, v) != (1, 1)}
    total = math.fsum(possible.values())
    expected = draws_without_replacement({pair: p / total for pair, p in possible.items()}, C)
    drawn = [frozenset(zip(p, t, strict=True)) for p, t in zip(parent.tolist(), token.tolist(), strict=True)]
    assert_drawn_from(expected, drawn)


@pytest.mark.parametrize("dialect", ["hf", "hf4"])
@pytest.mark.parametrize("filters", [{"top_k": 0}, {"temperature": 0.5}, {"top_k": 1, "temperature": 2.0},
                                     {"top_p": 0.1}, {"min_p": 1.0}], ids=str)  # fmt: skip
def test_which_of_the_candidates_that_a_beam_drew_end(dialect, filters):
    """One step of 2 beams, which draws 4 of 6 tokens: pairs of texts by the exact chances, in 1000 copies.

    At the limit the best two of the four end. Both beams begin alike, so the first draws alone; top_k=1, a low top_p
    and a high min_p leave it the two tokens that a beam needs.
    """
    probability = [0.3, 0.25, 0.15, 0.12, 0.1, 0.08]
    found = run(Fixed(probability), [[1]] * 1000, 1, num_beams=2, num_return_sequences=2, eos_token_id=None,
                dialect=dialect, **filters)  # fmt: skip
    left = next_probabilities(np.log(probability), least=2, **filters)
    if len(left) == 2:
        expected = {(0, 1): 1.0}
    else:
        expected = Counter()
        for some, p in draws_without_replacement(left, 4).items():
            expected[tuple(sorted(some)[:2])] += p  # the lower ids are the likelier tokens
    drawn = [(int(best[0]), int(second[0])) for best, second in found.tokens]
    assert set(drawn) == set(expected)
    if len(expected) > 1:
        assert_drawn_from(expected, drawn)


def test_every_step_of_a_beam_draws_anew():
    total_BWV, keys = np.zeros((1, 2, 50), np.float32), np.array([[1, 2]])
    drawn = [sample_candidates(Ops(), total_BWV, 4, at(step, keys), 0)[2][0].tolist() for step in range(20)]
    assert len(set(map(tuple, drawn))) == 20


def test_beams_draw_numbers_of_their_own():
    """Two beams with the same scores would else draw the same tokens, and one token's pair would come every time."""
    total_BWV = np.zeros((2000, 2, 4), np.float32)
    keys = np.stack([np.arange(2000), np.zeros(2000, int)], axis=1)
    _, parent, token = sample_candidates(Ops(), total_BWV, 2, at(0, keys), 0)
    drawn = [frozenset(zip(p, t, strict=True)) for p, t in zip(parent.tolist(), token.tolist(), strict=True)]
    assert_drawn_from(draws_without_replacement({(w, v): 1 / 8 for w in range(2) for v in range(4)}, 2), drawn)
