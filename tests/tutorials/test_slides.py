"""Slides from the chapters, and the teachers' page: what they say is what the chapters and exercises say."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from minidecode.course.chapters import chapters

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tutorials"))

import refresh  # noqa: E402
import slides  # noqa: E402


@pytest.mark.parametrize("chapter", chapters(), ids=lambda c: c.path.stem)
def test_a_poll_keeps_its_answer_back(chapter):
    question, answer = slides.poll(chapter)
    assert all(f"**{letter}.**" in question for letter in "ABCD")
    assert answer and answer not in question and "<!--" not in question + answer


@pytest.mark.parametrize("chapter", chapters(), ids=lambda c: c.path.stem)
def test_a_slide_stands_alone(chapter):
    """It is shown without its chapter: what is below or above there is nowhere here, and no heading leads to it."""
    for text in slides.poll(chapter):
        assert not re.findall(r"\b(?:below|above|see where|next section)\b", text, re.IGNORECASE)
        assert "](#" not in text and "```" not in text


def test_two_slides_for_each_chapter(tmp_path):
    out = tmp_path / "slides.html"
    subprocess.run([sys.executable, str(ROOT / "tutorials" / "slides.py"), "--out", str(out)], check=True)
    page = out.read_text(encoding="utf-8")
    assert page.count("<section>") == 2 * len(chapters())
    assert "http" not in page.replace("http-equiv", ""), "nothing is fetched"


def test_hours_are_told_as_estimates(cli):
    page = (ROOT / "docs" / "teaching.md").read_text(encoding="utf-8")
    assert "authors' estimates until a class has run" in page and "Times are estimates." in cli("exercise", "list").err


def test_the_teachers_table_is_fresh():
    assert refresh.table_of_cores() in (ROOT / "docs" / "teaching.md").read_text(encoding="utf-8")
