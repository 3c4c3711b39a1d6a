"""Examples for the translator, numbers and dates: those that it is trained on, and those that are held out.

Two kinds are never trained on: values that `is_held_out` names, and answers of as many words as UNTRAINED_WORDS says.
"""

from __future__ import annotations

import datetime
import zlib

import numpy as np
from number_words import translate

TASKS = {"English": "translation_to_en", "French": "translation_to_fr"}  # their names in config.json
LANGUAGES = tuple(TASKS)
UNTRAINED_WORDS = (8, 12)  # no answer of so many words is trained on
DIGITS = (1, 2, 3, 3, *(4, 5, 6, 7, 8, 9) * 4)  # of a number: each entry is as likely as the others
FIRST_DAY, DAYS = datetime.date(1000, 1, 1).toordinal(), 730_485  # up to 2999-12-31
DATES = 0.25  # of the examples
KINDS = ("numbers", "numbers with commas", "dates", "untrained length")


def prefix(language: str) -> str:
    """What stands in front of a source: the task, as T5 says it."""
    return f"translate to {language}: "


def is_held_out(source: str) -> bool:
    """One value in twenty: a number from 100 on, or a date. "1,234" and "1234" are the same value."""
    value = source.replace(",", "")
    return len(value) > 2 and zlib.crc32(value.encode()) % 20 == 0


def number_of_words(answer: str) -> int:
    """How many words an answer has: "vingt-deux" has two."""
    return len(answer.replace("-", " ").split())


def random_number(rng: np.random.Generator, digits: int) -> int:
    """A number of so many digits. Three in ten have zeros in place of about half of their digits: round numbers."""
    n = [int(rng.integers(1 if digits > 1 else 0, 10)), *rng.integers(0, 10, digits - 1).tolist()]
    if rng.random() < 0.3:
        n[1:] = [digit * int(rng.random() < 0.5) for digit in n[1:]]
    return int("".join(map(str, n)))


def random_source(rng: np.random.Generator) -> str:
    """A date, YYYY-MM-DD, or a number, one in four with commas."""
    if rng.random() < DATES:
        return datetime.date.fromordinal(FIRST_DAY + int(rng.integers(DAYS))).isoformat()
    return f"{random_number(rng, rng.choice(DIGITS)):{',' if rng.random() < 0.25 else ''}}"


def kind_of(source: str, answer: str) -> str:
    """What an example is for: "training", or one of KINDS."""
    if number_of_words(answer) in UNTRAINED_WORDS:
        return "untrained length"
    if not is_held_out(source):
        return "training"
    return "dates" if "-" in source else "numbers with commas" if "," in source else "numbers"


def random_example(rng: np.random.Generator, language: str, kind: str) -> tuple[str, str]:
    """(source, answer) of a kind."""
    while True:
        source = random_source(rng)
        answer = translate(source, language)
        if kind_of(source, answer) == kind:
            return source, answer


def held_out_examples(kind: str, language: str, count: int, seed: int = 12345) -> list[tuple[str, str]]:
    """Different examples of one of KINDS, as likely as they would be in training."""
    rng, found = np.random.default_rng([seed, *kind.encode()]), dict[str, str]()
    while len(found) < count:
        found.update([random_example(rng, language, kind)])
    return list(found.items())
