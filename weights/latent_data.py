"""Sentences for the model with a latent: short, made from a grammar, some of them held out."""

from __future__ import annotations

import re
import zlib

import numpy as np

DETERMINERS = ("the", "a", "my", "our")
PEOPLE = (
    "baker", "sailor", "teacher", "farmer", "doctor", "painter", "singer", "driver", "student", "neighbor", "soldier",
    "gardener", "cook", "judge", "nurse", "pilot",
)  # fmt: skip
OF_PEOPLE = ("old", "young", "tall", "quiet", "happy", "tired", "clever", "kind")
THINGS = (
    "boat", "chair", "lamp", "book", "basket", "bottle", "clock", "coat", "drum", "key", "letter", "map", "mirror",
    "rope", "table", "wheel",
)  # fmt: skip
OF_THINGS = ("red", "blue", "green", "small", "large", "heavy", "broken", "wooden")
VERBS = {  # base -> past
    "buy": "bought", "sell": "sold", "find": "found", "lose": "lost", "carry": "carried", "paint": "painted",
    "hide": "hid", "break": "broke", "mend": "mended", "want": "wanted", "borrow": "borrowed", "bring": "brought",
}  # fmt: skip
PLACES = (
    "in the garden", "at the market", "near the river", "behind the house", "by the sea", "in the kitchen",
    "under the bridge", "on the hill", "at the station", "in the forest",
)  # fmt: skip
TIMES = (
    "in the morning", "at noon", "in the evening", "at night", "on monday", "on tuesday", "on wednesday", "on thursday",
    "on friday", "on saturday", "on sunday", "today",
)  # fmt: skip
FORMS = (
    "{who} {past} {what}{where}{when}.", "{who} {past} {what}{where}{when}.", "{first}{who} {past} {what}{where}.",
    "{who} will {base} {what}{where}{when}.", "{who} did not {base} {what}{where}{when}.",
    "did {who} {base} {what}{where}{when}?",
)  # fmt: skip


def is_held_out(sentence: str) -> bool:
    """One sentence in twenty, by its CRC-32."""
    return zlib.crc32(sentence.encode()) % 20 == 0


def words_of_grammar() -> list[str]:
    """Every word of the grammar."""
    forms = " ".join(FORMS).replace("{", " {").replace("}", "} ").replace(".", " ").replace("?", " ").split()
    plain = {word for word in forms if not word.startswith("{")}
    phrases = [*DETERMINERS, "an", *PEOPLE, *OF_PEOPLE, *THINGS, *OF_THINGS, *VERBS, *VERBS.values(), *PLACES, *TIMES]
    return sorted(plain | {word for phrase in phrases for word in phrase.split()})


def random_sentence(rng: np.random.Generator) -> str:
    """A sentence, held out or not: every choice is as likely as the others, and optional parts are there half the time.

    A time that comes first is always there.
    """

    def one_of(options) -> str:
        return options[rng.integers(len(options))]

    def noun(adjectives, nouns) -> str:
        rest = f"{one_of(adjectives)} {one_of(nouns)}" if rng.random() < 0.5 else one_of(nouns)
        determiner = one_of(DETERMINERS)
        return f"{'an' if determiner == 'a' and rest[0] in 'aeiou' else determiner} {rest}"

    base, time = one_of(list(VERBS)), one_of(TIMES)
    return one_of(FORMS).format(
        who=noun(OF_PEOPLE, PEOPLE), what=noun(OF_THINGS, THINGS), base=base, past=VERBS[base], first=f"{time}, ",
        when=f" {time}" if rng.random() < 0.5 else "", where=f" {one_of(PLACES)}" if rng.random() < 0.5 else "",
    )  # fmt: skip


def sentences(rng: np.random.Generator, count: int, held_out: bool) -> list[str]:
    """Random sentences, all held out or none."""
    found: list[str] = []
    while len(found) < count:
        sentence = random_sentence(rng)
        if is_held_out(sentence) == held_out:
            found.append(sentence)
    return found


def held_out_sentences(count: int, seed: int = 12345) -> list[str]:
    """Different held-out sentences."""
    rng, found = np.random.default_rng(seed), dict[str, None]()
    while len(found) < count:
        found |= dict.fromkeys(sentences(rng, 1, held_out=True))
    return list(found)


def follows_grammar(sentence: str) -> bool:
    """Whether the grammar can make the sentence."""
    noun = "(?:{}) (?:(?:{}) )?(?:{})"
    determiner = "|".join((*DETERMINERS, "an"))
    parts = {
        "who": noun.format(determiner, "|".join(OF_PEOPLE), "|".join(PEOPLE)),
        "what": noun.format(determiner, "|".join(OF_THINGS), "|".join(THINGS)),
        "base": f"(?:{'|'.join(VERBS)})", "past": f"(?:{'|'.join(VERBS.values())})",
        "where": f"(?: (?:{'|'.join(PLACES)}))?", "when": f"(?: (?:{'|'.join(TIMES)}))?",
        "first": f"(?:{'|'.join(TIMES)}), ",
    }  # fmt: skip
    patterns = (re.escape(form).replace(r"\{", "{").replace(r"\}", "}").format(**parts) for form in FORMS)
    articles = re.findall(r"\b(an?) (\w)", sentence)
    return any(re.fullmatch(p, sentence) for p in patterns) and all((a == "an") == (b in "aeiou") for a, b in articles)
