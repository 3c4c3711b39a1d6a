"""The dialect `lightseq` against a search in lists, written from LightSeq's code (tests/lightseq_search.py)."""

import dataclasses

import numpy as np
import pytest
from lightseq_search import lightseq_search
from toy import Ops, ToyEngine

from minidecode.options.dialects import DIALECTS
from minidecode.options.options import Options
from minidecode.search.beam import beam_search
from minidecode.search.greedy import greedy_search
from minidecode.search.result import Request

EOS, V = 0, 11


class LikelyEnd(ToyEngine):
    """A toy model whose texts end about as often as they go on. It also tells the logits behind a text."""

    def scores(self, text) -> np.ndarray:
        logits_V = super().scores(text)
        logits_V[EOS] += 1.0
        return logits_V


def both(seed: int, W: int, limit: int, alpha: float, plan: str = "auto"):
    """((tokens, score) here, in lists), best first."""
    engine, prompt = LikelyEnd(seed, V), [3, 5]
    engine.ops = Ops(plan)
    options = Options(dialect="lightseq", num_beams=W, num_return_sequences=W, eos_token_id=EOS, length_penalty=alpha)
    request = Request.make([np.array(prompt)], [limit], options)
    found = (beam_search if W > 1 else greedy_search)(engine, request, options)
    ours = [(ids.tolist(), float(score)) for ids, score in zip(found.tokens[0], found.scores_BX[0], strict=True)]
    return ours, lightseq_search(lambda new: engine.scores([*prompt, *new]), EOS, W, limit, alpha)


@pytest.mark.parametrize("W", [1, 2, 4])
def test_texts_and_scores_are_those_of_lightseqs_rules(W):
    lengths = set()
    for seed in range(100):
        limit, alpha = 1 + seed % 7, (0.0, 0.6, 1.0, 2.0)[seed % 4]
        ours, theirs = both(seed, W, limit, alpha)
        assert [ids for ids, _ in ours] == [ids for ids, _ in theirs], (seed, limit, alpha)
        np.testing.assert_allclose([s for _, s in ours], [s for _, s in theirs], rtol=1e-5)
        lengths |= {(len(ids), ids[-1] == EOS) for ids, _ in theirs}
    assert len(lengths) >= 8, "texts that end, and that do not, of many lengths"


@pytest.mark.parametrize("plan", ["naive", "emulator"])
def test_whoever_does_the_bookkeeping_it_is_the_same(plan):
    for seed in range(3):
        ours, theirs = both(seed, 3, 5, 1.0, f"beam_update={plan},finished={plan}")
        assert [ids for ids, _ in ours] == [ids for ids, _ in theirs]


@pytest.mark.parametrize("wrong", [{"stop": "full"}, {"stop": "running"}, {"norm": "asked"}])
def test_each_rule_is_seen(wrong, monkeypatch):
    monkeypatch.setitem(DIALECTS, "lightseq", dataclasses.replace(DIALECTS["lightseq"], **wrong))
    with pytest.raises(AssertionError):
        test_texts_and_scores_are_those_of_lightseqs_rules(4)
