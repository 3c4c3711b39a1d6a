"""The dialect unilm against a search written from s2s-ft's description."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from s2s_ft import s2s_ft
from toy import ToyEngine

import minidecode as md
from minidecode.options import dialects
from minidecode.options.options import Options
from minidecode.search.beam import beam_search
from minidecode.search.result import Request

EOS, V = 0, 12


def theirs(seed, prompt, W, limit, alpha, n, least, vocab=V, exempt=()):
    engine = ToyEngine(seed, vocab)
    return s2s_ft(lambda text: engine.scores([*prompt, *text]), EOS, W, limit, alpha, n, least, exempt)


def ours(seed, prompts, W, limit, alpha, n, least, vocab=V, exempt=()):
    options = Options(dialect="unilm", eos_token_id=EOS, num_beams=W, length_penalty=alpha, no_repeat_ngram_size=n,
                      min_new_tokens=least, no_repeat_ngram_exempt_ids=exempt if n else ())  # fmt: skip
    arrays = [np.array(p) for p in prompts]
    return beam_search(ToyEngine(seed, vocab), Request.make(arrays, np.full(len(prompts), limit), options), options)


cases = (
    st.integers(0, 10**6), st.lists(st.integers(1, 4), min_size=1, max_size=4), st.integers(2, 5),
    st.integers(1, 9), st.sampled_from([0.0, 0.7, 1.0, 2.0]), st.sampled_from([0, 1, 2, 3]), st.integers(0, 3),
    st.lists(st.integers(1, V - 1), max_size=4, unique=True),
)  # fmt: skip


@settings(max_examples=150)
@given(*cases)
def test_the_best_text_is_that_of_s2s_ft(seed, sizes, W, limit, alpha, n, least, exempt):
    """Prompts are of EOS alone, which no text goes on behind: our ban of n-grams looks at prompts, too."""
    prompts = [[EOS] * size for size in sizes]
    least = min(max(least, int(max(sizes) > 1)), limit)
    found = ours(seed, prompts, W, limit, alpha, n, least, exempt=tuple(exempt))
    for b, prompt in enumerate(prompts):
        tokens, score, second = theirs(seed, prompt, W, limit, alpha, n, least, exempt=tuple(exempt))
        if score < -5_000:  # bans left fewer than W tokens
            continue
        bound = 64 * 2.0**-24 * len(tokens) * max(1, abs(score))
        assert abs(found.scores_BX[b, 0] - score) <= bound
        if score - second > bound:
            assert found.tokens[b][0].tolist() == tokens


@pytest.mark.parametrize("wrong", [{"all_go_on": True}, {"norm": "asked"}, {"stop": "full"}, {"stop": "running"}])
def test_each_rule_matters(wrong, monkeypatch):
    """A dialect with one rule changed finds another text or another score."""
    monkeypatch.setitem(dialects.DIALECTS, "unilm", dataclasses.replace(dialects.UNILM, **wrong))
    differ = 0
    for seed in range(120):
        asked = 2, 8, 2.0, 0, 1, 6  # a token in six is EOS
        _, score, _ = theirs(seed, [EOS], *asked)
        differ += abs(ours(seed, [[EOS]], *asked).scores_BX[0, 0] - score) > 1e-3
    assert differ > 2


@pytest.mark.parametrize(("options", "words"), [
    ({"do_sample": True}, "greedy and beam search alone: use dialect hf"),
    ({"num_beams": 4, "num_beam_groups": 2, "diversity_penalty": 1.0}, "greedy and beam search alone"),
    ({"num_beams": 2, "sibling_penalty": 0.5}, "greedy and beam search alone"),
    ({"eos_token_id": [1, 2]}, "one EOS"),
    ({"length_penalty": -1.0}, "length_penalty -1 means 0 in dialect unilm: give 0"),
    ({"repetition_penalty": 1.2}, "repetition_penalty is no rule of dialect 'unilm'"),
])  # fmt: skip
def test_what_s2s_ft_has_not_is_an_error(options, words):
    with pytest.raises(md.OptionError, match=words):
        Options(dialect="unilm", **options)
