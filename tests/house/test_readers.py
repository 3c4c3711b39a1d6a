"""docs/READERS.md: ten questions for each page, whose answers stand on that page."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
READERS = ROOT / "docs" / "READERS.md"
HEADING = re.compile(r"^## (\S+), ([\d,]+) words$", re.MULTILINE)
SECTIONS = re.split(r"^(?=## )", READERS.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]


def in_one_line(text: str) -> str:
    return " ".join(text.replace("\\\n", " ").split())


def keys(answer: str) -> list[str]:
    """What must stand on the page word for word: code, and numbers outside of it."""
    code = re.findall(r"`([^`]+)`", answer)
    return code + re.findall(r"(?<![\w.])\d[\d,.]*\d|(?<![\w.])\d", re.sub(r"`[^`]+`|\]\([^)]*\)", "", answer))


def test_the_keys_of_an_answer_are_its_code_and_its_numbers():
    assert keys("`a=b` takes 1.4 ms, 2 [x](07_y.md).") == ["a=b", "1.4", "2"]


def test_every_page_for_readers_has_its_questions():
    listed = {ROOT / path for path, _ in HEADING.findall(READERS.read_text(encoding="utf-8"))}
    pages = {*(ROOT / "docs" / "guide").glob("*.md"), *(ROOT / "tutorials").glob("[0-9]*.md")}
    assert pages | {ROOT / "README.md", ROOT / "CONTRIBUTING.md"} <= listed
    assert len(listed) == len(SECTIONS) == 49


@pytest.mark.parametrize("section", SECTIONS, ids=lambda s: s.partition(",")[0].removeprefix("## "))
def test_a_page_has_ten_questions_and_answers_them(section):
    path, words = HEADING.match(section).groups()
    page = (ROOT / path).read_text(encoding="utf-8")
    assert abs(int(words.replace(",", "")) / len(page.split()) - 1) <= 0.15, len(page.split())
    found = re.findall(r"^(\d+)\. \*\*(.+?\?)\*\* (.+)$", section, re.MULTILINE)
    assert [int(number) for number, *_ in found] == list(range(1, 11))
    text = in_one_line(page)
    missing = {question: [key for key in keys(answer) if key not in text] for _, question, answer in found}
    assert not {question: keys for question, keys in missing.items() if keys}
