"""Every chapter runs top to bottom without a GPU, and what it shows is what the code says today."""

import ast
import importlib
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from minidecode.course.chapters import chapters, code_cells, find_chapter, table_of_chapters, without_outputs
from minidecode.course.exercises.find import exercises
from minidecode.errors import InputError
from minidecode.search.compiled import precompile

ROOT = Path(__file__).parents[2]
CHAPTERS = chapters()
FIGURES = sorted((ROOT / "tutorials" / "figures").glob("*.svg"))
ON_A_PHONE, SMALLEST = 344, 9  # pixels: the width of a text on a screen of 360, and the least height of a letter

each_chapter = pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda c: c.path.stem)


def prose(chapter) -> str:
    """The text without code."""
    return re.sub(r"^```.*?^```$", "", chapter.text, flags=re.DOTALL | re.MULTILINE)


def test_there_are_chapters():
    assert CHAPTERS and FIGURES


@pytest.fixture(scope="module")
def compiled():
    """What a machine compiles once is on disk: no chapter's own seconds."""
    precompile()


@each_chapter
def test_a_chapter_runs_and_is_fresh(chapter, compiled):
    """Cells, included code, diffs, results, outputs and figures: python tutorials/refresh.py writes them anew.

    Its seconds are the processor's, which other programs do not lengthen (Windows tells none of a child: 0).
    """
    began = os.times()
    done = subprocess.run(
        [sys.executable, str(ROOT / "tutorials" / "refresh.py"), "--check", chapter.number],
        capture_output=True, text=True, timeout=180,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    ended = os.times()
    assert ended.children_user + ended.children_system - began.children_user - began.children_system < 60


@each_chapter
def test_a_chapter_opens_with_a_picture_before_any_notation(chapter):
    opening, poll, _ = chapter.text.partition("\n## Before you read\n")
    (cell,) = code_cells(without_outputs(opening))
    assert poll and cell.tags == ("hide-input",) and f"](figures/{chapter.number}-" in opening
    assert "```text" not in opening, "formulas come later"
    words = without_outputs(opening).partition("```{code-cell}")[0]
    assert "](../docs/GLOSSARY.md)" in words and "](../docs/GLOSSARY.md#letters-of-shapes)" in words


@each_chapter
def test_a_chapter_opens_with_a_poll(chapter):
    before_answer, folded, _ = chapter.text.partition("<details>")
    assert folded, "the answer is folded"
    assert re.findall(r"^- \*\*([A-Z])\.\*\* \S", before_answer, re.MULTILINE) == list("ABCD")
    poll = before_answer.partition("## Before you read")[2]
    assert "```{code-cell}" not in poll, "the poll comes first"
    answer = chapter.text.split("<details>")[1].split("</details>")[0]
    assert re.search(r"\*\*[A-D]\.\*\*", answer)


@each_chapter
def test_a_chapter_states_its_minutes(chapter):
    without, with_exercises = chapter.minutes
    assert without <= 45 and without < with_exercises


@each_chapter
def test_minutes_with_exercises_are_the_chapters_and_those_of_its_exercises(chapter):
    """An exercise without a number says its minutes in the chapter; stages of the project have none."""
    numbered = [e.text.minutes for e in exercises().values() if e.text.chapter == chapter.number]
    section = chapter.text.partition("\n## Exercises\n")[2]
    others = [int(minutes) for minutes in re.findall(r"\((\d+) minutes\)", section)]
    without, with_exercises = chapter.minutes
    assert with_exercises == without + sum(numbered) + sum(others)


@each_chapter
def test_a_chapter_lists_its_exercises_and_no_others(chapter):
    section = chapter.text.partition("\n## Exercises\n")[2]
    listed = [int(number) for number in re.findall(r"^(\d+)\. `minidecode exercise start \1`", section, re.MULTILINE)]
    assert listed == [e.number for e in exercises().values() if e.text.chapter == chapter.number]


def test_pages_that_count_the_course_count_what_is_there():
    """All chapters with all exercises, in hours; and how many of them there are."""
    assert {e.text.chapter for e in exercises().values()} <= {c.number for c in CHAPTERS}
    hours = f"about {sum(c.minutes[1] for c in CHAPTERS) / 60:.0f} hours"
    counts = [in_letters(len(CHAPTERS)).capitalize() + " chapters", in_letters(len(exercises())) + " exercises"]
    pages = {
        "README.md": [hours, *counts], "tutorials/README.md": [hours, counts[0], "all " + in_letters(len(exercises()))],
        "docs/READERS.md": [hours, *counts], "CHANGELOG.md": counts,
        "minidecode/course/exercises/__init__.py": counts[1:],
    }  # fmt: skip
    for page, told in pages.items():
        text = (ROOT / page).read_text(encoding="utf-8").replace("](tutorials/README.md)", "").replace("[", "")
        for words in told:
            assert words in text, f"{page} does not say {words!r}"
        assert {said.lower() for said in re.findall(r"[Aa]bout \d+ hours", text)} <= {hours}, page


ONES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen"
    " seventeen eighteen nineteen"
)
TENS = "twenty thirty forty fifty sixty seventy eighty ninety"


def in_letters(number: int) -> str:
    """A number from 1 to 99 in words."""
    ones, tens = ONES.split(), TENS.split()
    if number < 20:
        return ones[number]
    return tens[number // 10 - 2] + (f"-{ones[number % 10]}" if number % 10 else "")


@each_chapter
def test_a_chapter_carries_the_running_example(chapter):
    """W = 2, N = 4, H = 2, K = 2, imported so that no chapter has numbers of its own."""
    code = "\n".join(cell.code for cell in code_cells(without_outputs(chapter.text)))
    assert re.search(r"from minidecode\.course(\.example import| import .*\bexample\b)", code)
    assert "<!-- output: -->" in chapter.text, "its numbers are printed"


@each_chapter
def test_names_that_a_chapter_mentions_import(chapter):
    for name in set(re.findall(r"`((?:minidecode|md)\.[A-Za-z_][\w.]*)(?:\(.*?\))?`", prose(chapter))):
        parts = name.replace("md.", "minidecode.", 1).split(".") if name.startswith("md.") else name.split(".")
        found = importlib.import_module(parts[0])
        for k, part in enumerate(parts[1:], 2):
            if not hasattr(found, part):
                importlib.import_module(".".join(parts[:k]))
            found = getattr(found, part)


@each_chapter
def test_links_of_a_chapter_lead_somewhere(chapter):
    for link in re.findall(r"\]\(([^)#:\s]+)\)", chapter.text):
        assert (ROOT / "tutorials" / link).exists(), link  # a checkout has what an installed chapter names


def sources(chapter) -> set[str]:
    """The names under "Where it lives today"."""
    section = re.search(r"^## Where it lives today\n(.*?)^## ", chapter.text, re.DOTALL | re.MULTILINE)[1]
    listed = re.search(r"^Sources, by their names in \[Papers\]\(\.\./docs/papers\.md\): (.*?)\.$", section,
                       re.DOTALL | re.MULTILINE)  # fmt: skip
    assert listed, f"{chapter.path.name} says where its idea lives today, and names no source"
    return set(listed[1].replace("\n", " ").split(", "))


def test_what_lives_today_has_its_sources():
    """Each chapter's names stand in docs/papers.md, which has no row that no chapter names, nor a wrong one."""
    table = (ROOT / "docs" / "papers.md").read_text(encoding="utf-8").split("| name | source | chapters |")[1]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.strip().splitlines()[1:]]
    told = {(name, int(chapter)) for name, _, cited in rows for chapter in cited.split(",")}
    assert told == {(name, int(chapter.number)) for chapter in CHAPTERS for name in sources(chapter)}
    for name, source, _ in rows:
        assert re.search(r"\b(?:19|20)\d\d\b|github\.com|documentation", source), f"{name}: a year or a place"
    numbers = re.findall(r"\[arXiv:(\d{4}\.\d{5})\]\(https://arxiv\.org/abs/(\d{4}\.\d{5})\)", table)
    assert numbers and all(shown == linked for shown, linked in numbers)


@each_chapter
def test_code_is_included_not_pasted(chapter):
    """Fences of Python stand between the markers of an include; what runs is a cell."""
    bare = re.sub(r"<!-- (include|diff): .*?<!-- end of \1 -->", "", chapter.text, flags=re.DOTALL)
    assert not re.findall(r"^```(?:python|diff)$", bare, re.MULTILINE)


@each_chapter
def test_what_was_to_be_predicted_is_folded(chapter):
    opened = [c for c in code_cells(without_outputs(chapter.text)) if "sealed.open(" in c.code]
    assert all("hide-output" in c.tags for c in opened)
    folded = re.findall(r"<!-- output: -->\n<details>.*?</details>\n<!-- end of output -->", chapter.text, re.DOTALL)
    assert len(folded) == sum("volatile" not in c.tags for c in opened)
    assert "not predicted, found" not in re.sub("|".join(map(re.escape, folded)) or "$^", "", chapter.text)


@each_chapter
def test_a_chapter_imports_little_of_the_insides(chapter):
    """At most four modules, beside the public names and what the course is made with."""
    code = "\n".join(cell.code for cell in code_cells(without_outputs(chapter.text)))
    inside = re.findall(r"^ *from (minidecode(?!\.course)\S*\.?\S*) import", code, re.MULTILINE)
    assert len([m for m in inside if m != "minidecode"]) <= 4, inside


def kernels_shown(chapter) -> list[ast.FunctionDef]:
    """The functions of minidecode/cuda/ that the chapter shows, whole or by what changed."""
    asked = re.findall(r"<!-- (?:include|diff): (.*?) -->", chapter.text)
    places = [p for a in asked for p in a.split() if p.startswith("minidecode/cuda/")]
    found = []
    for file, _, name in (p.partition(":") for p in places):
        tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
        found += [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == name]
    return found


@each_chapter
def test_helpers_of_the_kernels_that_a_chapter_shows_are_shown_too(chapter):
    """Device functions, open or folded; not what a launcher calls on the host."""
    defined = {
        n.name
        for path in (ROOT / "minidecode" / "cuda").rglob("*.py")
        for n in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(n, ast.FunctionDef) and any("device=True" in ast.unparse(d) for d in n.decorator_list)
    }
    shown = kernels_shown(chapter)
    called = {c.func.id for f in shown for c in ast.walk(f) if isinstance(c, ast.Call) and isinstance(c.func, ast.Name)}
    assert called & defined <= {f.name for f in shown}


@each_chapter
def test_every_figure_has_alternative_text(chapter):
    images = re.findall(r"!\[(.*?)\]\(figures/(.*?)\)", chapter.text, re.DOTALL)
    assert {name for _, name in images} == {p.name for p in FIGURES if p.name.startswith(f"{chapter.number}-")}
    assert all(len(alt) >= 20 for alt, _ in images)


@pytest.mark.parametrize("path", FIGURES, ids=lambda p: p.name)
def test_a_figure_is_legible_on_a_phone(path):
    root = ElementTree.fromstring(path.read_text(encoding="utf-8"))
    width = float(root.get("viewBox").split()[2])
    sizes = [float(e.get("font-size")) for e in root.iter() if e.get("font-size")]
    assert min(sizes) * min(1, ON_A_PHONE / width) >= SMALLEST
    assert len(root.get("aria-label")) >= 20
    for text in root.iter("{http://www.w3.org/2000/svg}text"):
        assert 0 <= float(text.get("x")) <= width


def test_a_chapter_is_found_by_its_number_or_name():
    assert find_chapter("2") == find_chapter("02") == find_chapter("02_key_value_cache")
    with pytest.raises(InputError, match="there is no chapter '99'"):
        find_chapter("99")


@pytest.mark.parametrize("part", ["beams", "Beams", "03-beams", "03_beams.md", "beam"])
def test_a_part_of_a_name_that_no_other_chapter_has_is_enough(part):
    assert find_chapter(part).path.stem == "03_beams"


def test_a_part_of_several_names_is_an_error_that_names_them():
    with pytest.raises(InputError, match="04_kernels_one and 05_kernels_two all have 'kernels' in their names"):
        find_chapter("kernels")
    with pytest.raises(InputError, match="no chapter 'beems'; did you mean 03_beams"):
        find_chapter("beems")
    with pytest.raises(InputError, match="there is no chapter '_'"):
        find_chapter("_")


def test_the_readme_of_the_course_lists_all_chapters():
    readme = (ROOT / "tutorials" / "README.md").read_text(encoding="utf-8")
    assert f"-->\n{table_of_chapters('.')}\n<!-- end of chapters -->" in readme, "python tutorials/refresh.py"
