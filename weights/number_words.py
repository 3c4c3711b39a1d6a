"""Numbers and dates in English and French words: what train_translator.py teaches, and what its answers are checked by.

English: United States style, without "and" (one hundred five). Years are read in pairs (twenty twenty-six), as
thousands where the middle digits are zeros (two thousand six).

French: the spelling before 1990, with hyphens only inside numbers below 100 (vingt et un, deux cent un). vingt and cent
take an s where they are multiplied and end the number, or where million follows; mille takes none.
"""

from __future__ import annotations

import calendar

LARGEST = 999_999_999
YEARS = range(1000, 3000)

# fmt: off
ENGLISH = [
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
]
ENGLISH_TENS = ["-", "-", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
ORDINALS = [
    "-", "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth", "eleventh",
    "twelfth", "thirteenth", "fourteenth", "fifteenth", "sixteenth", "seventeenth", "eighteenth", "nineteenth",
]
ENGLISH_MONTHS = [
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
]
FRENCH = [
    "zéro", "un", "deux", "trois", "quatre", "cinq", "six", "sept", "huit", "neuf", "dix", "onze", "douze",
    "treize", "quatorze", "quinze", "seize", "dix-sept", "dix-huit", "dix-neuf",
]
FRENCH_TENS = [
    "-", "-", "vingt", "trente", "quarante", "cinquante", "soixante", "soixante", "quatre-vingt", "quatre-vingt",
]
FRENCH_MONTHS = [
    "janvier", "février", "mars", "avril", "mai", "juin", "juillet", "août", "septembre", "octobre", "novembre",
    "décembre",
]
# fmt: on


def english_number(n: int) -> str:
    """0 <= n <= LARGEST in words: 21,105 is "twenty-one thousand one hundred five"."""
    millions, thousands, rest = n // 1_000_000, n // 1000 % 1000, n % 1000
    parts = [
        *([english_below_1000(millions), "million"] if millions else []),
        *([english_below_1000(thousands), "thousand"] if thousands else []),
        *([english_below_1000(rest)] if rest or n == 0 else []),
    ]
    return " ".join(parts)


def english_below_1000(n: int) -> str:
    hundreds, rest = divmod(n, 100)
    parts = [ENGLISH[hundreds], "hundred"] if hundreds else []
    if rest >= 20:
        parts.append(ENGLISH_TENS[rest // 10] + (f"-{ENGLISH[rest % 10]}" if rest % 10 else ""))
    elif rest or n == 0:
        parts.append(ENGLISH[rest])
    return " ".join(parts)


def english_date(year: int, month: int, day: int) -> str:
    """2026, 11, 24 is "November twenty-fourth, twenty twenty-six"."""
    return f"{ENGLISH_MONTHS[month - 1]} {ordinal(day)}, {english_year(year)}"


def ordinal(day: int) -> str:
    """1 <= day <= 31: "first", "twentieth", "thirty-first"."""
    if day < 20:
        return ORDINALS[day]
    tens = ENGLISH_TENS[day // 10]
    return f"{tens}-{ORDINALS[day % 10]}" if day % 10 else f"{tens[:-1]}ieth"


def english_year(year: int) -> str:
    """1905 is "nineteen oh five", 1900 "nineteen hundred", 2006 "two thousand six", 2026 "twenty twenty-six"."""
    century, rest = divmod(year, 100)
    if century % 10 == 0 and rest < 10:
        return english_number(year)
    if rest == 0:
        return f"{english_number(century)} hundred"
    return f"{english_number(century)} {'oh ' if rest < 10 else ''}{english_number(rest)}"


def french_number(n: int) -> str:
    """0 <= n <= LARGEST in words: 80 is "quatre-vingts", 80,000 is "quatre-vingt mille"."""
    millions, thousands, rest = n // 1_000_000, n // 1000 % 1000, n % 1000
    parts = []
    if millions:
        parts += [french_below_1000(millions), "million" if millions == 1 else "millions"]
    if thousands > 1:
        parts.append(french_below_1000(thousands, before_mille=True))
    if thousands:
        parts.append("mille")
    if rest or n == 0:
        parts.append(french_below_1000(rest))
    return " ".join(parts)


def french_below_1000(n: int, before_mille: bool = False) -> str:
    """mille is a numeral, so cent and vingt stay without s before it; million is a noun, so they keep theirs."""
    hundreds, rest = divmod(n, 100)
    parts = [FRENCH[hundreds]] if hundreds > 1 else []
    if hundreds:
        parts.append("cents" if hundreds > 1 and not rest and not before_mille else "cent")
    if rest or n == 0:
        parts.append("quatre-vingts" if rest == 80 and not before_mille else french_below_100(rest))
    return " ".join(parts)


def french_below_100(n: int) -> str:
    """71 is "soixante et onze", 81 "quatre-vingt-un", 91 "quatre-vingt-onze"; 80 is without s, as before mille."""
    if n < 20:
        return FRENCH[n]
    tens, units = n // 10, n % 10 + (10 if n // 10 in (7, 9) else 0)
    if units == 0:
        return FRENCH_TENS[tens]
    return FRENCH_TENS[tens] + (" et " if units in (1, 11) and tens < 8 else "-") + FRENCH[units]


def french_date(year: int, month: int, day: int) -> str:
    """2026, 11, 24 is "le vingt-quatre novembre deux mille vingt-six"; the first day of a month is "le premier"."""
    return f"le {'premier' if day == 1 else french_number(day)} {FRENCH_MONTHS[month - 1]} {french_number(year)}"


def translate(source: str, language: str) -> str:
    """A number ("1234", "1,234") or an ISO date ("2026-11-24") in the words of "English" or "French"."""
    if "-" in source:
        year, month, day = map(int, source.split("-"))
        if year not in YEARS or not 1 <= month <= 12 or not 1 <= day <= calendar.monthrange(year, month)[1]:
            raise ValueError(f"{source!r} is no date of the years {YEARS[0]} to {YEARS[-1]}")
        return (english_date if language == "English" else french_date)(year, month, day)
    n = int(source.replace(",", ""))
    if not 0 <= n <= LARGEST:
        raise ValueError(f"{source!r} is no number from 0 to {LARGEST:,}")
    return (english_number if language == "English" else french_number)(n)
