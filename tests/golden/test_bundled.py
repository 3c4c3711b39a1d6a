"""The bundled models say exactly what transformers 5 says from the same folders (make_bundled.py remakes the files)."""

import json
from functools import cache
from pathlib import Path

import pytest

import minidecode as md

CASES = [
    pytest.param(path.stem, case, id=f"{path.stem}-{i}")
    for path in sorted(Path(__file__).with_name("bundled").glob("*.json"))
    for i, case in enumerate(json.loads(path.read_text(encoding="utf-8")))
]
load = cache(md.load)


@pytest.mark.parametrize(("name", "case"), CASES)
def test_a_bundled_model_says_what_transformers_says(name, case):
    out = load(name).generate(case["prompt"], **case["options"])
    assert out.texts == case["texts"]
    assert [ids.tolist() for ids in out.token_ids] == case["ids"]


def test_every_bundled_model_has_cases():
    bundled = set(md.bundled_models())
    assert bundled and {p.values[0] for p in CASES} == bundled


def test_a_first_sentence_anyone_can_check():
    assert load("tiny-gpt2").generate("Fellow citizens,", max_new_tokens=12).texts == [
        " and the United States have been in the same manner in the"
    ]


def test_all_bundled_weights_together_are_small():
    """A wheel that a class downloads: at most 52 MB."""
    assert sum(f.stat().st_size for folder in md.bundled_models().values() for f in folder.iterdir()) <= 52e6
