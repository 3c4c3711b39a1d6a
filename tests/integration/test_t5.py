"""T5 in plans: every cache, kernels, arenas, stored weights, fewer heads, tasks. Golden files hold its numbers."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import minidecode as md
from minidecode.conformance.attention import make_bucket_table
from minidecode.models.t5 import T5Config

GOLDEN = Path(__file__).parents[1] / "golden" / "t5"
SOURCES = [[5, 9, 14, 2, 7, 1], [11, 3, 1], [4, 6, 8, 10, 12, 13, 15, 16, 17, 1]]
OPTIONS = {"num_beams": 3, "max_new_tokens": 12, "eos_token_id": [1]}


def generate(folder, plan="numpy", options=OPTIONS, sources=SOURCES, **how):
    model = md.load(folder, plan=plan, **how)
    out = model.generate(input_ids=sources, **options)
    return [ids.tolist() for ids in out.token_ids], out.receipt


@pytest.fixture(scope="module", params=["relu", "gated-untied", "umt5"])
def folder(request):
    return GOLDEN / request.param


@pytest.mark.parametrize("plan", [
    "fast", "fast,cache=indirect", "fast,cache=preallocated", "fast,cache=el", "naive",
    "cache=split,arena=planned", "fast,arena=planned", "cache=indirect,arena=separate", "fast,drop_finished=off",
    "hars=cpu", 
])  # fmt: skip
def test_plans_give_the_same_tokens(folder, plan):
    assert generate(folder, plan)[0] == generate(folder)[0]


@pytest.mark.parametrize("cache", ["split", "indirect", "preallocated", "el"])
def test_kernels_and_captured_steps_give_the_same_tokens(cache):
    short = {"options": {"num_beams": 2, "max_new_tokens": 4, "eos_token_id": None}, "sources": SOURCES[:2]}
    tokens, receipt = generate(GOLDEN / "gated-untied", f"emulator,cache={cache},graphs=on", device="emulator", **short)
    assert tokens == generate(GOLDEN / "gated-untied", **short)[0]
    attending = {op: c.implementation for op, c in receipt.ops.items() if op.startswith("attend")}
    assert attending and all("cuda" in where for where in attending.values()), attending
    assert receipt.graphs.launches > 0


def test_el_keeps_the_source_once_for_all_layers():
    """Cross attention has no position bias, so EL is what it is for BART."""
    _, receipt = generate(GOLDEN / "relu", "cache=el")
    assert receipt.ops["attend_el"].calls and receipt.ops["attend_split"].calls and "attend_shared" not in receipt.ops


@pytest.mark.parametrize("dtype", ["float16", "int8", "int8_dynamic"])
def test_stored_weights(dtype):
    """Equal in NumPy and compiled; and near what float32 says."""
    folder = GOLDEN / "gated-untied"
    assert generate(folder, "fast", dtype=dtype)[0] == generate(folder, "numpy", dtype=dtype)[0]
    given = {"input_ids": SOURCES, "decoder_input_ids": [[0, 3, 4]] * 3}
    exact, stored = (md.load(folder, dtype=d).logits(**given) for d in ("float32", dtype))
    off = max(np.abs(a - b).max() for a, b in zip(exact, stored, strict=True))
    assert 0 < off < 0.1 * max(np.abs(a).max() for a in exact)


def test_fewer_heads_keep_the_bias_of_each_query_head(tmp_path):
    folder = GOLDEN / "relu"
    md_out = tmp_path / "grouped"
    from minidecode.files.head_pooling import convert

    convert(folder, md_out, num_key_value_heads=1)
    model = md.load(md_out)
    block = model.weights.blocks[0]
    assert (block.heads.G, block.heads.H) == (1, 3) and block.heads.bias.bias_XHP.shape[1] == 3
    assert generate(md_out, "fast,cache=indirect")[0] == generate(md_out)[0]


def test_a_window_rolls_with_its_bias(tmp_path):
    """attention_window is ours: the decoder sees its last positions, in slots that are written over."""
    shutil.copytree(GOLDEN / "relu", tmp_path / "t5")
    path = tmp_path / "t5" / "config.json"
    path.write_text(
        json.dumps(json.loads(path.read_text(encoding="utf-8")) | {"attention_window": 3}), encoding="utf-8"
    )
    tokens = generate(tmp_path / "t5", "cache=none")[0]
    assert all(generate(tmp_path / "t5", plan)[0] == tokens for plan in ("cache=rolling", "fast,cache=split"))
    assert tokens != generate(GOLDEN / "relu")[0]


def test_buckets_are_those_that_conformance_has():
    """Two codes of one equation, T5's own sizes."""
    for two_sided in (False, True):
        ours, theirs = T5Config().bucket_of_distance(two_sided), make_bucket_table(32, 128, two_sided)
        assert np.array_equal(ours[0], theirs[0]) and ours[1] == theirs[1]


@pytest.mark.parametrize("name", ["t5-small", "flan-t5-small", "t5-base"])
def test_published_shapes_plan_a_step(name):
    """Without their weights: published sizes bind, and say what a step takes."""
    from minidecode.loading import load_shapes

    model = load_shapes(name, vocab_size=64)
    assert (
        model.family == "t5" and model.plan_step(batch_size=2, input_length=16, num_beams=2, max_new_tokens=8).bytes > 0
    )


# ---- tasks -----------------------------------------------------------------------------------------------------------

TASKS = {
    "summarization": {"prefix": "summarize: ", "num_beams": 3, "max_length": 9, "min_length": 4},
    "translation_en_to_de": {"prefix": "translate English to German: ", "num_beams": 2, "max_length": 6},
}


@pytest.fixture
def with_tasks(tmp_path):
    shutil.copytree(GOLDEN / "relu", tmp_path / "t5")
    path = tmp_path / "t5" / "config.json"
    fields = json.loads(path.read_text(encoding="utf-8")) | {"task_specific_params": TASKS}
    path.write_text(json.dumps(fields), encoding="utf-8")
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = ["<pad>", "</s>", "summarize", ":", "translate", "English", "to", "German", "hello"]
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<pad>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(tmp_path / "t5" / "tokenizer.json"))
    return tmp_path / "t5"


def test_a_task_brings_its_settings_and_its_prefix(with_tasks):
    model = md.load(with_tasks, task="summarization")
    options = model.options()
    assert (options.num_beams, options.max_length, options.min_length) == (3, 9, 4)
    assert model.tokenize("hello", options).tolist() == [2, 3, 8]
    out = model.generate("hello")
    same = md.load(with_tasks).generate(input_ids=[[2, 3, 8]], num_beams=3, max_length=9, min_length=4)
    assert out.token_ids[0].tolist() == same.token_ids[0].tolist()
    assert model.options(num_beams=1).num_beams == 1, "a call's own options go first"
    assert md.load(with_tasks).tokenize("hello", options).tolist() == [8]


def test_a_target_has_no_prefix(with_tasks):
    model = md.load(with_tasks, task="translation_en_to_de")
    assert [row.tolist() for row in model.inputs.read_texts_or_ids(["hello"], None, None, "target")] == [[8]]


def test_a_copy_of_the_model_keeps_the_task(with_tasks):
    import copy
    import pickle

    model = md.load(with_tasks, task="summarization")
    for other in (copy.copy(model), pickle.loads(pickle.dumps(model))):
        assert other.tokenize("hello", other.options()).tolist() == [2, 3, 8] and other.options().num_beams == 3


def test_an_unknown_task_is_an_error_that_names_those_there_are(with_tasks):
    with pytest.raises(md.OptionError, match=r"task='poetry' is not in .*: choose summarization or translation"):
        md.load(with_tasks, task="poetry")
    with pytest.raises(md.OptionError, match=r"config\.json has no task_specific_params: leave task out"):
        md.load("tiny-gpt2", task="summarization")


def test_the_command_takes_a_task(with_tasks):
    import subprocess
    import sys

    command = [sys.executable, "-m", "minidecode", "generate", "-m", str(with_tasks), "--json", "hello"]
    said = [
        json.loads(subprocess.run([*command, *more], capture_output=True, text=True, check=True).stdout)
        for more in (["--task", "summarization"], [])
    ]
    assert said[0] != said[1]
