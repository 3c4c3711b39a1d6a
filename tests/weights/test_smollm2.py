"""SmolLM2-135M-Instruct in use: golden logits, greedy texts beside transformers, and what each dtype costs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from test_smollm2_file import FRANCE, assert_golden

import minidecode as md

pytestmark = pytest.mark.weights
PROMPTS = ["The capital of France is", "In 1969, the first man on the moon", "a  12 x\n\n3"]
MOBY_DICK = Path(__file__).with_name("moby_dick.txt")
TOKENS = 512
# How much more perplex each dtype may be than float32.
MOST = {"float16": 0.001, "int8": 0.02, "int8_dynamic": 0.05}


@pytest.fixture(scope="module")
def model():
    return md.load("smollm2", plan="fast")


def test_golden_logits(model):
    assert_golden(model.logits([FRANCE])[0][-1])


@pytest.mark.parametrize("prompt", PROMPTS)
def test_greedy_texts_are_those_of_transformers_up_to_ties(model, prompt):
    import torch
    import transformers

    folder = model.loaded_from.folder
    theirs = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    ids = model.tokenizer.encode(prompt)
    with torch.inference_mode():
        whole = theirs.generate(torch.tensor(ids)[None], max_new_tokens=64, do_sample=False)[0].numpy()
        logits = theirs(torch.tensor(whole)[None]).logits[0].numpy()
    ours = model.generate(prompt, max_new_tokens=64).token_ids[0]
    wanted = whole[len(ids) :]
    differ = np.nonzero(ours[: len(wanted)] != wanted[: len(ours)])[0]
    if not len(differ):
        assert len(ours) == len(wanted)
        return
    at = logits[len(ids) + differ[0] - 1]  # the first difference must be between equally likely tokens
    assert at[wanted[differ[0]]] - at[ours[differ[0]]] < 1e-3


def test_the_same_tokens_with_the_other_caches_and_beams(model):
    wanted = model.generate(PROMPTS[0], max_new_tokens=8, num_beams=4, plan="fast,cache=split").token_ids[0]
    for plan in ("fast,cache=indirect", "fast,cache=preallocated"):
        assert np.array_equal(model.generate(PROMPTS[0], max_new_tokens=8, num_beams=4, plan=plan).token_ids[0], wanted)


def test_it_answers(model):
    out = model.chat([{"role": "user", "content": "What is the capital of France? One word."}], max_new_tokens=24)
    assert "Paris" in out.texts[0]


def perplexity(dtype: str) -> float:
    loaded = md.load("smollm2", plan="fast", dtype=dtype)
    ids = loaded.tokenizer.encode(MOBY_DICK.read_text(encoding="utf-8"))[:TOKENS]
    assert len(ids) == TOKENS
    return float(loaded.score(input_ids=[ids]).perplexity)


def test_what_dtypes_cost():
    plain = perplexity("float32")
    over = {dtype: perplexity(dtype) / plain - 1 for dtype in MOST}
    print(json.dumps({"float32": plain} | over))
    assert all(over[dtype] < MOST[dtype] for dtype in MOST), over


def test_a_new_process_loads_it_in_less_than_two_seconds():
    """Of processor time: a busy machine does not count."""
    program = "import time, minidecode as md; md.load('smollm2', plan='numpy'); print(time.process_time())"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert float(ran.stdout) < 2, ran.stdout
