"""Later options against transformers 5, live: filters on rows of any size, biases, guidance, invalid values."""

import random
from functools import partial

import numpy as np
import pytest
from toy import Ops

import minidecode as md
from minidecode.reference.typical import typical_filter
from minidecode.search import filters

pytestmark = pytest.mark.oracle
torch = pytest.importorskip("torch", reason="needs transformers itself: pip install '.[oracle]'")
transformers = pytest.importorskip(
    "transformers", minversion="5.0", reason="needs transformers: pip install '.[oracle]'"
)

PROMPTS = ["Fellow citizens,", "I have", "It was the", "A whale"]


@pytest.fixture(scope="module")
def both():
    folder = str(md.bundled_models()["tiny-gpt2"])
    theirs = transformers.AutoModelForCausalLM.from_pretrained(folder).double().eval()
    return md.load("tiny-gpt2", dtype="float64"), theirs


def theirs_says(theirs, ids, **options):
    with torch.no_grad():
        found = theirs.generate(
            torch.tensor([ids]), attention_mask=torch.ones(1, len(ids), dtype=torch.long), pad_token_id=0, **options
        )
    return found[0, len(ids) :].tolist()


def warpers():
    T = transformers.generation.logits_process
    return {
        "top_h": (T.TopHLogitsWarper, partial(filters.top_h_filter, Ops()), (0.1, 0.4, 0.9), False),
        "typical_p": (T.TypicalLogitsWarper, typical_filter, (0.2, 0.5, 0.95), True),
        "epsilon_cutoff": (T.EpsilonLogitsWarper, partial(filters.epsilon_filter, Ops()), (3e-4, 9e-4, 0.05), True),
        "eta_cutoff": (T.EtaLogitsWarper, partial(filters.eta_filter, Ops()), (3e-4, 4e-3, 0.05), True),
    }


@pytest.mark.parametrize("name", ["top_h", "typical_p", "epsilon_cutoff", "eta_cutoff"])
def test_filters_leave_what_those_of_transformers_leave(name):
    """Rows without ties: 3 to 2,000 scores, flat and peaked, some impossible; 1 to 3 tokens kept in any case."""
    theirs, ours, thresholds, has_least = warpers()[name]
    rng = np.random.default_rng(11)
    for i in range(300):
        V, spread = int(rng.choice([3, 20, 150, 2000])), float(rng.choice([0.1, 1.0, 3.0, 10.0]))
        scores_V = rng.normal(0, spread, V)
        if i % 3 == 0:
            scores_V[rng.choice(V, V // 3, replace=False)] = -np.inf
        least = int(rng.integers(1, 4)) if has_least else 1
        threshold = float(rng.choice(thresholds))
        kept_in_any_case = {"min_tokens_to_keep": least} if has_least else {}
        expected_V = theirs(threshold, **kept_in_any_case)(None, torch.tensor(scores_V[None]))[0].numpy()
        found_V = ours(scores_V[None].copy(), threshold, *([least] if has_least else []))[0]
        np.testing.assert_array_equal(found_V, expected_V, err_msg=f"{V=} {spread=} {threshold=} {least=}")


@pytest.mark.parametrize("scale", [0.0, 1.5, 3.0])
def test_guidance_in_greedy_search(both, scale):
    """In beams transformers lets the second cache stay with beams that have changed, so only greedy is compared."""
    ours, theirs = both
    rng = random.Random(3)
    for prompt in PROMPTS:
        ids = ours.tokenizer.encode(prompt).tolist()
        negative = [rng.randrange(500) for _ in range(rng.randint(1, 5))]
        for own in ({}, {"negative_prompt_ids": [negative]}):
            them = {name: torch.tensor(value) for name, value in own.items()}
            expected = theirs_says(theirs, ids, guidance_scale=scale, max_new_tokens=12, do_sample=False, **them)
            found = ours.generate(input_ids=[ids], guidance_scale=scale, max_new_tokens=12, **own)
            assert found.token_ids[0].tolist() == expected


@pytest.mark.parametrize("search", [{}, {"num_beams": 3}], ids=str)
@pytest.mark.parametrize("options", [
    {"sequence_bias": [[[13], -5.0], [[284, 262], 3.0], [[290], -1.5]]},
    {"exponential_decay_length_penalty": (3, 1.4)},
    {"exponential_decay_length_penalty": (1, 2.0), "sequence_bias": [[[11], 2.0]], "repetition_penalty": 1.2},
], ids=str)  # fmt: skip
def test_biases_and_decay(both, options, search):
    ours, theirs = both
    for prompt in PROMPTS:
        ids = ours.tokenizer.encode(prompt).tolist()
        expected = theirs_says(theirs, ids, max_new_tokens=12, do_sample=False, **options, **search)
        found = ours.generate(input_ids=[ids], max_new_tokens=12, **options, **search).token_ids[0].tolist()
        assert found + [0] * (len(expected) - len(found)) == expected


@pytest.mark.parametrize(("bad", "search"), [
    (float("nan"), {}), (float("inf"), {}), (float("-inf"), {}), (float("-inf"), {"num_beams": 3}),
], ids=str)  # fmt: skip
def test_invalid_values_are_removed_alike(bad, search):
    """One logit of every step is no number. (NaN makes all scores of a beam equal: then nothing settles the token.)"""
    theirs = transformers.AutoModelForCausalLM.from_pretrained(str(md.bundled_models()["tiny-gpt2"])).double().eval()
    ours = md.load("tiny-gpt2", dtype="float64")
    ids = ours.tokenizer.encode(PROMPTS[0]).tolist()
    head = theirs.lm_head.forward

    def spoiled(h):
        logits = head(h).clone()
        logits[..., 290] = bad
        return logits

    theirs.lm_head.forward = spoiled
    ours.network = Spoiled(ours.network, bad)
    how = {"max_new_tokens": 6, **search}
    expected = theirs_says(theirs, ids, remove_invalid_values=True, do_sample=False, **how)
    found = ours.generate(input_ids=[ids], remove_invalid_values=True, plan="numpy", **how).token_ids[0].tolist()
    assert found + [0] * (len(expected) - len(found)) == expected
    if bad != float("-inf"):
        with pytest.raises(md.NumericalError):
            ours.generate(input_ids=[ids], plan="numpy", **how)


class Spoiled:
    """A family's module whose head gives one logit that is no number."""

    def __init__(self, network, bad):
        self.network, self.bad = network, bad

    def __getattr__(self, name):
        return getattr(self.network, name)

    def lm_head(self, *args):
        logits_RV = self.network.lm_head(*args)
        logits_RV[:, 290] = self.bad
        return logits_RV
