"""The guide's pages "Coming from ...": what stands in our column runs, and changes what it says."""

import pytest
from guide_pages import literal, two_columns

import minidecode as md


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    return md.load("tiny-gpt2")


def test_every_option_of_ctranslate2_is_one_of_generate(toy):
    """tests/oracle holds both columns to each other."""
    rows = two_columns("ctranslate2.md")
    assert len(rows) == 13
    for _, (ours, _) in rows:
        asked = {"num_beams": 2, "max_new_tokens": 3, "dialect": "ctranslate2", "generation_config": False}
        out = toy.generate(input_ids=[[5, 6, 7]], **asked | literal(ours))
        assert len(out.token_ids) == literal(ours).get("num_return_sequences", 1), ours
