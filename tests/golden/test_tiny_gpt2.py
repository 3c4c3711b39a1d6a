"""The bundled model says exactly what transformers 5 says from the same folder (make_tiny_gpt2.py remakes the file)."""

import json
from pathlib import Path

import pytest

import minidecode as md

CASES = json.loads(Path(__file__).with_name("tiny_gpt2.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def model():
    return md.load("tiny-gpt2")


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c['prompt'][:12]}-{len(c['options'])}")
def test_the_bundled_model_says_what_transformers_says(model, case):
    out = model.generate(case["prompt"], **case["options"])
    assert out.texts == case["texts"]
    assert [ids.tolist() for ids in out.token_ids] == case["ids"]


def test_a_first_sentence_anyone_can_check(model):
    assert model.generate("Fellow citizens,", max_new_tokens=12).texts == [
        " and the United States have been in the same manner in the"
    ]
