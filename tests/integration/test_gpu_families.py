"""Every family of the zoo on a GPU, in toy sizes: the tokens of NumPy's code on the CPU, whatever cache and search.

Toys are those of docs/write_models.py. What a family refuses on the CPU is skipped.
"""

import json
from pathlib import Path

import numpy as np
import pytest
from tolerance import FLOAT16, FLOAT32, logit_bound, score_bound, stored_bound

import minidecode as md
from minidecode.device.user_functions import load_file
from minidecode.errors import MinidecodeError
from minidecode.models import FAMILIES

TOYS = load_file(Path(__file__).parents[2] / "docs" / "write_models.py")
IDS = [[3, 9, 12, 7, 9], [5, 6]]
FORWARD_PASSES = list(
    {family.network.forward: kind for kind, family in reversed(FAMILIES.items()) if kind != "bert"}.values()
)
WAYS = [
    ("split", {}),
    ("split", {"num_beams": 3, "no_repeat_ngram_size": 2}),
    ("split", {"num_beams": 4, "num_beam_groups": 2, "diversity_penalty": 0.5}),
    ("split", {"do_sample": True, "temperature": 0.7, "top_k": 9, "top_p": 0.9, "num_return_sequences": 2}),
    ("indirect", {"num_beams": 3}),
    ("preallocated", {"num_beams": 2}),
    ("replicated", {"num_beams": 2}),
    ("el", {"num_beams": 2}),
    ("split,hars=cuda", {"num_beams": 3}),
    ("split,cache_dtype=float16", {"num_beams": 2}),
]


@pytest.fixture(scope="module")
def folder_of(tmp_path_factory):
    folders = {}

    def make(kind):
        if kind not in folders:
            folders[kind] = tmp_path_factory.mktemp(kind)
            (folders[kind] / "config.json").write_text(json.dumps(TOYS.toy_fields(kind)), encoding="utf-8")
        return folders[kind]

    return make


def here_or_skip(call):
    try:
        return call()
    except MinidecodeError as refusal:
        pytest.skip(f"refused on the CPU, too: {refusal}")


def largest_logit(model, texts):
    """Of the positions before each token of these texts, with their prompts or sources."""
    prompts = [IDS[b * len(IDS) // len(texts)] for b in range(len(texts))]
    if model.is_encoder_decoder:
        logits = model.logits(prompts, None, [[0, *text] for text in texts])
    else:
        logits = model.logits([[*ids, *text] for ids, text in zip(prompts, texts, strict=True)])
    return max(np.abs(logits_NV).max() for logits_NV in logits)


def rounding(config, largest, cache="split"):
    """How far logits of two machines may lie apart. Both compute in float32, and no sum has more than 32 positions."""
    error = logit_bound(config, largest, 2 * FLOAT32, 32)
    return error + stored_bound(config, largest, error, FLOAT16) if "float16" in cache else error


@pytest.mark.gpu
@pytest.mark.parametrize(("cache", "options"), WAYS, ids=str)
@pytest.mark.parametrize("kind", FORWARD_PASSES)
def test_a_family_generates_the_tokens_of_the_cpu(kind, cache, options, folder_of):
    here, there = (md.load(folder_of(kind), random_weights=True, device=device) for device in ("cpu", "cuda"))
    how = {"input_ids": IDS, "max_new_tokens": 5} | options
    expected = here_or_skip(lambda: here.generate(**how, plan=f"numpy,cache={cache}".replace("=cuda", "=reference")))
    tokens = [ids.tolist() for ids in expected.token_ids]
    bound = rounding(here.config, largest_logit(here, tokens) / options.get("temperature", 1.0), cache)
    for _ in range(2):  # the second time by the graph that was kept
        found = there.generate(**how, plan=f"cuda,cache={cache}")
        assert [ids.tolist() for ids in found.token_ids] == tokens
        for text, score, other in zip(tokens, expected.scores, found.scores, strict=True):
            assert abs(other - score) <= score_bound(bound, len(text), 1.0, score, 2 * FLOAT32)


@pytest.mark.gpu
@pytest.mark.parametrize("kind", FAMILIES)
def test_a_family_scores_and_encodes_as_on_the_cpu(kind, folder_of):
    here, there = (md.load(folder_of(kind), random_weights=True, device=device) for device in ("cpu", "cuda"))
    if here.is_encoder:
        mine, theirs = (model.encode(input_ids=IDS) for model in (here, there))
        np.testing.assert_allclose(theirs, mine, rtol=0, atol=rounding(here.config, np.abs(mine).max()))
        return
    targets = [[4, 5], [6]]
    both = [here_or_skip(lambda m=m: m.score(input_ids=IDS, target_ids=targets)) for m in (here, there)]
    bound = rounding(here.config, largest_logit(here, targets))
    for mine, theirs in zip(*(found.token_log_probs for found in both), strict=True):
        for log_prob, other in zip(mine, theirs, strict=True):
            assert abs(other - log_prob) <= score_bound(bound, 1, 1.0, log_prob, 2 * FLOAT32)
