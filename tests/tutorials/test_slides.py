"""Slides from the chapters, and the teachers' page: what they say is what the chapters and exercises say."""

import re
import subprocess
import sys
import tomllib
from html import escape
from pathlib import Path

import pytest

from minidecode.course.chapters import chapters
from minidecode.course.exercises.find import exercises

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tutorials"))

import deck  # noqa: E402
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
    text = out.read_text(encoding="utf-8")
    assert text.count("<section>") == 2 * len(chapters())
    assert "http" not in text.replace("http-equiv", ""), "nothing is fetched"


LECTURES = ["key_value_cache", "beams", "kernels_one", "deduplication", "el_attention"]


@pytest.mark.parametrize("chapter", [c for c in chapters() if c.path.stem[3:] in LECTURES], ids=lambda c: c.path.stem)
def test_a_lecture_shows_what_its_chapter_shows(chapter):
    """Every section, picture, table and recorded output, in an order that is the chapter's; nothing else is fetched."""
    found = deck.deck(chapter)
    assert 20 <= len(found) <= 80
    text = re.sub(r"<!--.*?-->", "", chapter.text, flags=re.DOTALL)
    titles = [title for title in re.findall(r"^## (.+)$", text, re.MULTILINE) if title != "Before you read"]
    assert list(dict.fromkeys(slide.title for slide in found)) == [f"{chapter.number} {chapter.title}", *titles]
    shown = "\n".join(part for slide in found for part in slide.shown)
    pictures = re.findall(r"\((figures/.*?\.svg)\)", text)
    assert shown.count("data:image/svg+xml;base64,") == len(pictures) > 0
    assert all(int(lines) <= deck.LINES for lines in re.findall(r'data-lines="(\d+)"', shown)), (
        "letters too small to read"
    )
    for output in re.findall(r"^```text\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        assert all(escape(line) in shown for line in output.splitlines())
    page = slides.page("x", slides.of_lecture(chapter))
    assert page.count("<section") == len(found) + 2 and "http" not in page.replace("http-equiv", "")
    assert "{code-cell}" not in page and "](" not in re.sub(r"<pre.*?</pre>|<code.*?</code>", "", page, flags=re.DOTALL)


def test_all_five_lectures_are_there():
    assert {c.path.stem[3:] for c in chapters()} >= set(LECTURES)


def test_a_lecture_of_no_chapter_is_an_error(tmp_path):
    script = [sys.executable, str(ROOT / "tutorials" / "slides.py"), "--deck", "77", "--out", str(tmp_path / "x.html")]
    ran = subprocess.run(script, capture_output=True, text=True)
    assert ran.returncode == 1 and ran.stderr.startswith("there is no chapter '77'") and not list(tmp_path.iterdir())


def test_hours_are_told_as_estimates(cli):
    page = (ROOT / "docs" / "teaching.md").read_text(encoding="utf-8")
    assert "authors' estimates until a class has run" in page and "Times are estimates." in cli("exercise", "list").err


def test_the_tables_of_syllabi_and_stages_are_fresh():
    assert refresh.syllabi() in (ROOT / "docs" / "teaching.md").read_text(encoding="utf-8")
    assert refresh.table_of_stages() in (ROOT / "docs" / "PROJECT.md").read_text(encoding="utf-8")


SYLLABI = tomllib.loads((ROOT / "tutorials" / "syllabi.toml").read_text(encoding="utf-8"))["syllabus"]


@pytest.mark.parametrize("syllabus", SYLLABI, ids=lambda s: f"{s['hours']} hours")
def test_a_syllabus_fits_its_hours(syllabus):
    """Its minutes in class fill most of its hours, and each exercise of the course belongs to a chapter of it."""
    names = {c.path.stem[3:]: c for c in chapters()}
    taught = list(names) if syllabus["chapters"] == "all" else syllabus["chapters"]
    assert set(taught) <= set(names)
    due = {n: e for n, e in exercises().items() if e.text.hours is not None and e.text.hours <= syllabus["hours"]}
    assert {e.text.chapter for e in due.values()} <= {names[name].number for name in taught}
    assert set(syllabus["in_class"]) <= set(due)
    minutes = sum(names[n].minutes[0] for n in taught) + sum(due[n].text.minutes for n in syllabus["in_class"])
    assert 0.85 * 60 * syllabus["hours"] <= minutes <= 60 * syllabus["hours"]
    assert refresh.table_of_syllabus(**syllabus).startswith(
        f"**{syllabus['hours']} hours**: {minutes} minutes in class, "
    )


def test_there_are_three_syllabi():
    assert [syllabus["hours"] for syllabus in SYLLABI] == [3, 8, 15]
