"""`minidecode/page.py` finds the tokens that `Model.generate` finds."""

import subprocess
import sys

import numpy as np
import pytest

import minidecode as md
from minidecode.page import GPT2, beam_search, greedy_search

CASES, PARTS = 200, 20


@pytest.fixture(scope="module")
def both():
    """float64, so that no two scores are equal but for rounding."""
    return GPT2(md.bundled_models()["tiny-gpt2"], np.float64), md.load("tiny-gpt2", dtype="float64", plan="numpy")


@pytest.mark.parametrize("part", range(PARTS))
def test_tokens_are_those_of_generate(both, part):
    page, model = both
    draw, ended = np.random.default_rng(part), 0
    for _ in range(CASES // PARTS):
        prompt = draw.integers(1, 4096, draw.integers(1, 13)).tolist()
        W, new, n = (int(draw.integers(low, high)) for low, high in [(1, 5), (1, 13), (0, 4)])
        first = greedy_search(page, prompt, new)
        options = {"eos_token_id": int(draw.choice(first)), "no_repeat_ngram_size": n}  # texts end, so that ends count
        page.config["eos_token_id"] = options["eos_token_id"]
        if W == 1:
            tokens = greedy_search(page, prompt, new, n)
        else:
            options["length_penalty"] = draw.normal()
            tokens = beam_search(page, prompt, new, W, n, options["length_penalty"])
        out = model.generate(input_ids=[prompt], num_beams=W, max_new_tokens=new, **options)
        assert tokens == out.token_ids[0].tolist(), (prompt, W, new, options)
        ended += len(tokens) < new
    assert ended


def test_the_command_prints_the_text_of_generate():
    command = [sys.executable, "-m", "minidecode.page", "Fellow citizens,", "--beams", "4", "--new-tokens", "8"]
    text = md.load("tiny-gpt2").generate("Fellow citizens,", num_beams=4, max_new_tokens=8).texts[0]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == text + "\n"
    refused = subprocess.run([*command[:3], ""], capture_output=True, text=True)
    assert refused.returncode == 2 and "prompt (0 tokens): at least 1; prompt + new: at most 513" in refused.stderr


def test_it_is_one_page():
    import minidecode.page

    with open(minidecode.page.__file__, encoding="utf-8") as file:
        assert len(file.readlines()) <= 150
