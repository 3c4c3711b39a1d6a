"""The speller that the translator is trained and checked by: values that a grammar or a dictionary gives."""

import re
import sys
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[2] / "weights"))

import number_words
import translator_data
from number_words import translate

NUMBERS = [
    ("0", "zero", "zéro"),
    ("1", "one", "un"),
    ("16", "sixteen", "seize"),
    ("17", "seventeen", "dix-sept"),
    ("20", "twenty", "vingt"),
    ("21", "twenty-one", "vingt et un"),
    ("22", "twenty-two", "vingt-deux"),
    ("61", "sixty-one", "soixante et un"),
    ("70", "seventy", "soixante-dix"),
    ("71", "seventy-one", "soixante et onze"),
    ("77", "seventy-seven", "soixante-dix-sept"),
    ("80", "eighty", "quatre-vingts"),
    ("81", "eighty-one", "quatre-vingt-un"),
    ("90", "ninety", "quatre-vingt-dix"),
    ("91", "ninety-one", "quatre-vingt-onze"),
    ("99", "ninety-nine", "quatre-vingt-dix-neuf"),
    ("100", "one hundred", "cent"),
    ("101", "one hundred one", "cent un"),
    ("180", "one hundred eighty", "cent quatre-vingts"),
    ("200", "two hundred", "deux cents"),
    ("201", "two hundred one", "deux cent un"),
    ("1000", "one thousand", "mille"),
    ("1,001", "one thousand one", "mille un"),
    ("1,100", "one thousand one hundred", "mille cent"),
    ("2000", "two thousand", "deux mille"),
    ("21000", "twenty-one thousand", "vingt et un mille"),
    ("71000", "seventy-one thousand", "soixante et onze mille"),
    ("80000", "eighty thousand", "quatre-vingt mille"),
    ("80080", "eighty thousand eighty", "quatre-vingt mille quatre-vingts"),
    ("200,000", "two hundred thousand", "deux cent mille"),
    ("200200", "two hundred thousand two hundred", "deux cent mille deux cents"),
    ("1000000", "one million", "un million"),
    ("1,001,000", "one million one thousand", "un million mille"),
    ("2000000", "two million", "deux millions"),
    ("80000000", "eighty million", "quatre-vingts millions"),
    ("200000001", "two hundred million one", "deux cents millions un"),
    ("301000000", "three hundred one million", "trois cent un millions"),
    ("999,999,999", "{0} million {0} thousand {0}".format("nine hundred ninety-nine"),
     "{0} millions {0} mille {0}".format("neuf cent quatre-vingt-dix-neuf")),
]  # fmt: skip
DATES = [
    ("2026-11-24", "November twenty-fourth, twenty twenty-six", "le vingt-quatre novembre deux mille vingt-six"),
    ("1789-07-14", "July fourteenth, seventeen eighty-nine", "le quatorze juillet mille sept cent quatre-vingt-neuf"),
    ("2000-01-01", "January first, two thousand", "le premier janvier deux mille"),
    ("2006-08-30", "August thirtieth, two thousand six", "le trente août deux mille six"),
    ("1905-12-31", "December thirty-first, nineteen oh five", "le trente et un décembre mille neuf cent cinq"),
    ("1900-02-20", "February twentieth, nineteen hundred", "le vingt février mille neuf cents"),
    ("1010-06-02", "June second, ten ten", "le deux juin mille dix"),
    ("2980-03-12", "March twelfth, twenty-nine eighty", "le douze mars deux mille neuf cent quatre-vingts"),
]


@pytest.mark.parametrize(("source", "english", "french"), NUMBERS + DATES)
def test_a_value_in_words(source, english, french):
    assert translate(source, "English") == english
    assert translate(source, "French") == french


@pytest.mark.parametrize("source", ["1000000000", "-1", "1.5", "2026-13-01", "2026-02-29", "0999-12-31", "3000-01-01"])
def test_what_has_no_words_here_is_an_error(source):
    with pytest.raises(ValueError):
        translate(source, "English")


VALUES = {
    "English": {w: n for n, w in enumerate(number_words.ENGLISH)}
    | {w: 10 * n for n, w in enumerate(number_words.ENGLISH_TENS[2:], 2)},
    "French": {w: n for n, w in enumerate(number_words.FRENCH[:17])}
    | {w: 10 * n for n, w in enumerate(number_words.FRENCH_TENS[2:7], 2)}
    | {"et": 0},
}
SCALES = {"hundred": 100, "cent": 100, "cents": 100, "thousand": 1000, "mille": 1000}
SCALES |= {"million": 10**6, "millions": 10**6}


def value_of(text: str, language: str) -> int:
    """Reads number words back: the other way round than the speller, so a mistake must be made twice to pass."""
    total = group = 0
    for word in re.split("[ -]", text):
        scale = SCALES.get(word, 0)
        if scale >= 1000:
            total, group = total + max(group, 1) * scale, 0
        elif scale:
            group = max(group, 1) * scale
        elif word in ("vingt", "vingts") and group % 100 == 4:
            group += 76
        else:
            group += VALUES[language][word]
    return total + group


@pytest.mark.parametrize("language", translator_data.LANGUAGES)
def test_words_are_read_back_as_the_number(language):
    rng = np.random.default_rng(0)
    numbers = [
        *range(2000),
        *(translator_data.random_number(rng, digits) for digits in (4, 5, 6, 7, 8, 9) for _ in range(300)),
    ]
    texts = [translate(str(n), language) for n in numbers]
    assert [value_of(text, language) for text in texts] == numbers
    assert len(set(texts)) == len(set(numbers))


@pytest.mark.parametrize("language", translator_data.LANGUAGES)
def test_two_days_never_read_the_same(language):
    days = [date(1899, 1, 1) + timedelta(n) for n in range(0, 60_000, 7)]
    assert len({translate(str(day), language) for day in days}) == len(days)


def test_training_never_sees_what_is_held_out():
    rng = np.random.default_rng(0)
    for language in translator_data.LANGUAGES:
        trained = [translator_data.random_example(rng, language, "training") for _ in range(500)]
        assert all(translator_data.number_of_words(answer) not in (8, 12) for _, answer in trained)
        assert not any(translator_data.is_held_out(source) for source, _ in trained)
        for kind in translator_data.KINDS:
            held_out = translator_data.held_out_examples(kind, language, 40)
            assert len(set(held_out)) == 40 and not set(held_out) & set(trained)
    assert translator_data.is_held_out("1451") and translator_data.is_held_out("1,451"), "a comma makes no other value"
