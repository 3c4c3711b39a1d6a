"""The guide's pages "Coming from ...": what stands in our column runs, and means something.

tests/oracle holds both columns of transformers and of CTranslate2 to each other.
"""

import re

import numpy as np
import pytest
from guide_pages import GUIDE, literal, two_columns

import minidecode as md

IDS = [[5, 6, 7]]


@pytest.fixture(scope="module")
def model():
    return md.load("tiny-gpt2")


def is_option(code: str) -> bool:
    return re.match(r"\w+=", code) is not None


def rows_of(page: str, options: bool) -> list[tuple[str, str]]:
    """(their code, ours) of the tables of calls, or of options."""
    return [(theirs, ours) for (theirs, _), (ours, _) in two_columns(page) if is_option(ours) == options]


@pytest.mark.parametrize(("page", "calls", "options"), [
    ("from_transformers.md", 10, 12), ("ctranslate2.md", 0, 13), ("vllm.md", 7, 16),
])  # fmt: skip
def test_what_stands_in_our_column_runs(page, calls, options, model):
    assert (len(rows_of(page, False)), len(rows_of(page, True))) == (calls, options)
    known = {
        "md": md, "model": model, "text": "Fellow", "prompts": ["Fellow", "The"], "ids": IDS[0],
        "input_ids": np.array(IDS), "mask": np.ones_like(IDS), "out": model.generate("Fellow", max_new_tokens=2),
    }  # fmt: skip
    for _, ours in rows_of(page, False):
        found = eval(ours.replace('"gpt2"', '"tiny-gpt2"'), known)
        assert found is not None, ours
    base = {"max_new_tokens": 6, "eos_token_id": [0]}
    if page == "ctranslate2.md":
        base |= {"dialect": "ctranslate2", "num_beams": 2}
    for theirs, ours in rows_of(page, True):
        asked = base | literal(ours)
        out = model.generate(**{"input_ids": IDS} | asked)
        assert len(out.token_ids) == asked.get("num_return_sequences", 1), ours
        for name, value in literal(theirs).items():  # what both call the same is the same
            assert name not in literal(ours) or literal(ours)[name] == value, (theirs, ours)


def test_what_the_page_says_is_not_there_is_refused_by_name(model):
    text = (GUIDE / "from_transformers.md").read_text(encoding="utf-8").partition("## What is not there")[2]
    options = [name for cell in re.findall(r"^\| (`.+?`) \| ", text, re.M) for name in re.findall(r"`(\w+)`", cell)]
    assert len(options) == 7
    for option in options:
        with pytest.raises(md.OptionError, match=f"no option '{option}': ."):
            model.generate(input_ids=IDS, **{option: 1})


def test_penalties_of_vllm_are_refused_and_name_the_nearest(model):
    page = (GUIDE / "vllm.md").read_text(encoding="utf-8").partition("## What is not there")[2]
    for name in ("presence_penalty", "frequency_penalty"):
        assert name in page
        with pytest.raises(md.OptionError, match="the nearest is repetition_penalty"):
            model.generate(input_ids=IDS, **{name: 0.5})
