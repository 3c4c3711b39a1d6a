"""The sentences that a model with a latent is trained on: a grammar, and what of it is held out."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[2] / "weights"))

from latent_data import follows_grammar, held_out_sentences, is_held_out, random_sentence, sentences, words_of_grammar


def test_sentences_follow_the_grammar_in_known_words():
    rng, known = np.random.default_rng(0), set(words_of_grammar())
    for _ in range(300):
        sentence = random_sentence(rng)
        assert follows_grammar(sentence), sentence
        assert set(sentence.replace(",", "").rstrip(".?").split()) <= known


@pytest.mark.parametrize("sentence", [
    "the the baker sold a boat.", "the baker a boat.", "the baker sold a boat", "a old baker sold a boat.",
    "an baker sold a boat.", "the baker sold a boat?", "did the baker sold a boat?", "the boat sold a baker.",
    "the baker sold a boat at noon in the garden.", "",
])  # fmt: skip
def test_what_the_grammar_cannot_make(sentence):
    assert not follows_grammar(sentence)


def test_one_sentence_in_twenty_is_held_out():
    rng = np.random.default_rng(1)
    share = np.mean([is_held_out(random_sentence(rng)) for _ in range(4000)])
    assert abs(share - 1 / 20) < 4 * np.sqrt(0.05 * 0.95 / 4000)
    assert not any(map(is_held_out, sentences(rng, 100, held_out=False)))
    found = held_out_sentences(50)
    assert all(map(is_held_out, found)) and len(set(found)) == 50 and found == held_out_sentences(50)
