"""Every family of the zoo on a GPU, in toy sizes: the tokens of NumPy's code on the CPU, whatever cache and search.

Toys are those of docs/write_models.py. What a family refuses on the CPU is skipped. Without a GPU the same runs on the
emulated device, with captured steps, where NumPy's ops stand for the kernels (taped_ops.py).
"""

import contextlib
import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
from taped_ops import references_on_tape
from tolerance import FLOAT16, FLOAT32, logit_bound, score_bound, stored_bound

import minidecode as md
from minidecode.device.user_functions import load_python_file
from minidecode.errors import MinidecodeError
from minidecode.model import Model
from minidecode.models import FAMILIES
from minidecode.plan import Plan

__all__ = ["references_on_tape"]  # a fixture
TOYS = load_python_file(Path(__file__).parents[2] / "docs" / "write_models.py")
IDS = [[3, 9, 12, 7, 9], [5, 6]]
OTHERS = [[8, 7, 6], [9, 9, 9, 5]]  # as much room, other lengths
DEVICES = ["emulator", pytest.param("cuda", marks=pytest.mark.gpu)]
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
    ("paged", {"num_beams": 2, "max_new_tokens": 20}),
    ("split,hars=cuda", {"num_beams": 3}),
    ("split,cache_dtype=float16", {"num_beams": 2}),
]
CASES = [(kind, *way) for kind in FORWARD_PASSES for way in WAYS]
CASES += [(kind, *WAYS[1]) for kind in FAMILIES if kind not in (*FORWARD_PASSES, "bert")]  # other settings of a pass
ROUNDED = dict.fromkeys(("float16", "int8", "int8_blocks", "int4"), FLOAT16) | {  # what meets weights: unit roundoff
    "float32": 0.0,  # not rounded
    "int8_dynamic": 32**0.5 / 254,  # of a row's largest number, at most sqrt(32) times the root mean square of its 32
}


@pytest.fixture(scope="module")
def folder_of(tmp_path_factory):
    folders = {}

    def make(kind):
        if kind not in folders:
            folders[kind] = tmp_path_factory.mktemp(kind)
            (folders[kind] / "config.json").write_text(json.dumps(TOYS.toy_fields(kind)), encoding="utf-8")
        return folders[kind]

    return make


@pytest.fixture
def model_of(folder_of, request):
    """kind, device, dtype -> a model; on the emulated device NumPy's ops are on the tape."""
    if request.getfixturevalue("device") == "emulator":
        request.getfixturevalue("references_on_tape")
    return lambda kind, device, dtype="float32": md.load(
        folder_of(kind), random_weights=True, device=device, dtype=dtype
    )


def here_or_skip(call):
    try:
        return call()
    except MinidecodeError as refusal:
        pytest.skip(f"refused on the CPU, too: {refusal}")


def largest_logit(model, texts, ids=IDS):
    """Of the positions before each token of these texts, with their prompts or sources."""
    prompts = [ids[b * len(ids) // len(texts)] for b in range(len(texts))]
    if model.is_encoder_decoder:
        logits = model.logits(prompts, None, [[0, *text] for text in texts])
    else:
        logits = model.logits([[*ids, *text] for ids, text in zip(prompts, texts, strict=True)])
    return max(np.abs(logits_NV).max() for logits_NV in logits)


def rounding(config, largest, cache="split", dtype="float32"):
    """How far logits of two machines may lie apart. Both compute in float32, and no sum has more than 32 terms.

    Both round the numbers of a float16 cache, and those that meet narrow weights (`ROUNDED`).
    """
    error = logit_bound(config, largest, 2 * FLOAT32, 32)
    units = FLOAT16 if "float16" in cache else 0.0, ROUNDED[dtype]
    return error + sum(stored_bound(config, largest, error, unit) for unit in units)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("kind", "cache", "options"), CASES, ids=str)
def test_a_family_generates_the_tokens_of_the_cpu(kind, cache, options, device, model_of):
    """Each text twice, the second time by the graph that was kept, and then others of other lengths."""
    here, there = (model_of(kind, place) for place in ("cpu", device))
    is_captured = cache not in ("replicated", "paged")
    for ids in (IDS, IDS, OTHERS):
        how = {"input_ids": ids, "max_new_tokens": 5} | options
        expected = here_or_skip(lambda how=how: here.generate(**how, plan=on_numpy(cache)))
        found = there.generate(**how, plan=f"cuda,cache={cache}")
        same(here, expected, found, ids, cache, options)
        graphs = found.receipt.graphs
        assert bool(graphs.launches) == is_captured or found.receipt.steps < 3, graphs.why_not
    assert bool(graphs.reused) == is_captured or found.receipt.steps < 3, "by lengths that came before"


def on_numpy(cache, beside=""):
    return f"numpy,cache={cache}{beside}".replace("=cuda", "=reference")


def same(here, expected, found, ids, cache="split", options={}, dtype="float32"):  # noqa: B006
    """The same tokens, and scores as far apart as rounding allows."""
    tokens = [text.tolist() for text in expected.token_ids]
    assert [text.tolist() for text in found.token_ids] == tokens
    bound = rounding(here.config, largest_logit(here, tokens, ids) / options.get("temperature", 1.0), cache, dtype)
    for text, score, other in zip(tokens, expected.scores, found.scores, strict=True):
        assert abs(other - score) <= score_bound(bound, len(text), 1.0, score, 2 * FLOAT32)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("options", [{}, {"num_beams": 2}], ids=str)
@pytest.mark.parametrize("dtype", ["float16", "int8", "int8_dynamic", "int8_blocks", "int4"])
@pytest.mark.parametrize("kind", ["gpt2", "bart", "llama", "t5"])
def test_narrow_weights_generate_the_tokens_of_the_cpu(kind, dtype, options, device, model_of):
    here, there = (model_of(kind, place, dtype) for place in ("cpu", device))
    rounded = "" if dtype == "int8_dynamic" else ",linear=rounded"
    for ids in (IDS, OTHERS):
        how = {"input_ids": ids, "max_new_tokens": 4} | options
        expected, found = here.generate(**how, plan=on_numpy("split", rounded)), there.generate(**how)
        same(here, expected, found, ids, options=options, dtype=dtype)
        assert found.receipt.graphs.launches or found.receipt.steps < 3


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("options", [{}, {"num_beams": 2}], ids=str)
def test_a_rolling_cache(options, device, model_of, folder_of):
    here, there = (windowed(model_of("gpt2", place)) for place in ("cpu", device))
    for ids in (IDS, OTHERS):
        how = {"input_ids": ids, "max_new_tokens": 5} | options
        expected, found = (m.generate(**how, plan=f"{p},cache=rolling") for m, p in ((here, "numpy"), (there, "cuda")))
        same(here, expected, found, ids)


def windowed(model):
    """The model with local attention of three positions."""
    config = dataclasses.replace(model.config, attention_window=3)
    return Model(FAMILIES["gpt2"], config, model.tensors, None, model.defaults, Plan("numpy"), "float32", model.device)


WITH_TEXTS = {  # of a model with a tokenizer
    "regex": {"regex": "[a-e]{2,6}", "eos_token_id": 0},
    "regex and beams": {"regex": "(the|a)+", "num_beams": 2, "eos_token_id": 0},
    "schema": {"json_schema": {"type": "integer", "minimum": 0, "maximum": 99}, "eos_token_id": 0},
    "stop strings": {"stop_strings": ["th", "a"]},
    "a logits processor": {"logits_processor": [lambda scores_RV, rows: -scores_RV]},
}


@pytest.fixture
def texts_of(tiny_folder, request):
    """device -> a toy that reads and writes texts."""
    if request.getfixturevalue("device") == "emulator":
        request.getfixturevalue("references_on_tape")
    folder = tiny_folder()
    return lambda device: md.load(folder, device=device)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", WITH_TEXTS)
def test_what_works_on_the_host_beside_a_device(name, device, texts_of):
    here, there = texts_of("cpu"), texts_of(device)
    for prompts in (["the a", "b"], ["a", "c c c"]):
        how = {"max_new_tokens": 6} | WITH_TEXTS[name]
        expected, found = here.generate(prompts, **how, plan="numpy,cache=split"), there.generate(prompts, **how)
        assert found.texts == expected.texts and found.receipt.graphs.why_not.endswith("on the host")


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("options", [{}, {"do_sample": True, "seed": 2}, {"num_beams": 2}], ids=str)
def test_a_stream_comes_to_the_text(options, device, texts_of):
    here, there = texts_of("cpu"), texts_of(device)
    for prompt in ("the a", "b c the"):
        how = {"max_new_tokens": 6, "eos_token_id": None} | options
        with contextlib.closing(there.stream(prompt, **how)) as stream:
            pieces = list(stream)
        expected = here.generate(prompt, **how, plan="numpy,cache=split").texts[0]
        assert "".join(pieces) == expected == stream.output.texts[0]
        assert len(pieces) > 1 or options.get("num_beams") or not expected


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("overlap", ["none", "both"])
def test_lines_are_those_of_the_cpu(overlap, device, texts_of):
    here, there = texts_of("cpu"), texts_of(device)
    lines, how = ["the a", "b", "c the b", "", "a a a", "b c", "c"], {"max_new_tokens": 4, "on_error": "record"}
    runs = []
    for model, plan in ((here, "numpy,cache=split"), (there, "cuda,cache=split")):
        with contextlib.closing(
            md.generate_lines(model, lines, batch_size=2, overlap=overlap, plan=plan, **how)
        ) as run:
            runs.append([(line.number, line.texts, str(line.error or "")) for line in run])
    assert runs[0] == runs[1] and [bool(error) for *_, error in runs[1]] == [not line for line in lines]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", FAMILIES)
def test_a_family_scores_and_encodes_as_on_the_cpu(kind, device, model_of):
    here, there = (model_of(kind, place) for place in ("cpu", device))
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
