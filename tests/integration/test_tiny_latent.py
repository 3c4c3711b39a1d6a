"""The bundled model with a latent: it ships because interpolation works and because it reads its latent."""

import json
import re
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import minidecode as md

sys.path.append(str(Path(__file__).parents[2] / "weights"))

from evaluate_latent import equal_words, figures, interpolations, table, turns_into_last
from latent_data import held_out_sentences

ROOT = Path(__file__).parents[2]
FOLDER = md.bundled_models()["tiny-latent"]
RECORD = json.loads((ROOT / "benchmarks" / "results" / "latent-quality.json").read_text(encoding="utf-8"))
load = cache(md.load)


def test_what_anyone_can_check():
    texts = load("tiny-latent").interpolate("the baker lost a key.", "my cook will buy a boat.", steps=5).texts
    assert texts == [
        "the baker lost a key.",
        "the baker mended a key.",
        "my teacher broke a coat.",
        "my teacher will break a coat.",
        "my cook will buy a boat.",
    ]


def test_interpolations_go_from_one_sentence_to_another():
    """By at least three different texts; nearly all words of both ends are right, and some ends to the letter."""
    texts = held_out_sentences(40, seed=1)
    firsts, lasts = texts[:20], texts[20:]
    paths = interpolations(load("tiny-latent"), firsts, lasts)
    assert all(len({*path[1:-1]} - {path[0], path[-1]}) >= 3 for path in paths)
    given = zip(paths, firsts, lasts, strict=True)
    ends = [pair for path, *two in given for pair in zip((path[0], path[-1]), two, strict=True)]
    assert np.mean([right for pair in ends for right in equal_words(*pair)]) > 0.85
    assert sum(turns_into_last(*path) for path in zip(paths, firsts, lasts, strict=True)) >= 2


def test_what_a_turn_is():
    assert turns_into_last(["a", "b", "c", "d", "e"], "a", "e")
    assert not turns_into_last(["a", "b", "b", "d", "e"], "a", "e")  # two texts between
    assert not turns_into_last(["a", "b", "c", "d", "e"], "a", "f") and not turns_into_last(
        ["x", "b", "c", "d", "e"], "a", "e"
    )
    assert not turns_into_last(["a", "a", "c", "d", "e", "e"], "a", "e")


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_it_reads_its_latent(dtype):
    """Bits per byte of held-out sentences: less with the sentence's latent than with another's, or with none."""
    found = figures(load("tiny-latent", dtype=dtype), 64, 1, 8)
    own, shuffled, zeros = (found[f"bits per byte, {name}"] for name in ("own", "shuffled", "zeros"))
    assert own < 0.5 * zeros < 0.5 * shuffled


def test_the_card_has_the_record():
    card = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert "\n".join(table(RECORD)) in card
    assert f"{load('tiny-latent').parameters:,}" in card
    assert sum(file.stat().st_size for file in FOLDER.iterdir()) <= 4e6


@pytest.mark.parametrize(("name", "remedy"), [("tiny-latent", "input_ids=[[1]]"), ("tiny-gpt2", '"<|endoftext|>"')])
def test_an_empty_prompt_is_told_what_texts_begin_with(name, remedy):
    with pytest.raises(md.InputError, match=re.escape(f"to start from nothing, give {remedy}") + "$"):
        load(name).generate(input_ids=[[]])
