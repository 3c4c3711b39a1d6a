"""The tools that chapters are written with."""

import importlib.util
import itertools
import sys
import textwrap
from pathlib import Path

import pytest

from minidecode import course
from minidecode.course import canvas as canvases
from minidecode.course.chapters import Chapter, code_cells, without_outputs
from minidecode.course.markers import fill_between_markers
from minidecode.errors import InputError

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("refresh", ROOT / "tutorials" / "refresh.py")
    module = importlib.util.module_from_spec(spec)
    before = list(sys.path)
    spec.loader.exec_module(module)
    sys.path[:] = before
    return module


CHAPTER = textwrap.dedent("""\
    # A title

    <!-- include: minidecode/device/launch.py:launch docstring=none -->
    <!-- end of include -->

    It is <!-- result: benchmarks/results/first-rungs-cpu.json data["machine"]["cores"] --><!-- end of result --> cores.

    ```{code-cell} python
    a = 6
    a * 7
    ```

    ```{code-cell} python
    :tags: [volatile]
    print("secret")
    ```

    ```{code-cell} python
    from minidecode import course
    c = course.Canvas(100, 40)
    c.cell(5, 5, "mark", a)
    course.single("99-six", c, caption="What is in the cell?", alt="One cell with the number six in it.")
    ```
    """)


@pytest.fixture
def chapter(tmp_path):
    path = tmp_path / "99_test.md"
    path.write_text(CHAPTER, encoding="utf-8")
    return Chapter(path)


def test_a_refreshed_chapter_is_fresh_and_a_changed_one_is_not(script, chapter):
    assert script.refresh(chapter, check=True), "nothing is written yet"
    assert chapter.text == CHAPTER, "a check writes nothing"
    script.refresh(chapter, check=False)
    assert script.refresh(chapter, check=True) == []
    text = chapter.text
    assert "def launch(" in text and "It is <!-- result:" in text and "-->2<!-- end of result --> cores" in text
    assert "```text\n42\n```" in text and "\nsecret\n" not in text
    assert "![One cell with the number six in it.](figures/99-six.svg)" in text
    for old, new in (("\n42\n", "\n43\n"), ("def launch(", "def lunch("), ("-->2<!--", "-->3<!--")):
        chapter.path.write_text(text.replace(old, new), encoding="utf-8")
        assert script.refresh(chapter, check=True), old
    chapter.path.write_text(text, encoding="utf-8")
    figure = chapter.path.parent / "figures" / "99-six.svg"
    figure.write_text(figure.read_text(encoding="utf-8").replace(">6<", ">7<"), encoding="utf-8")
    assert script.refresh(chapter, check=True)
    (figure.parent / "99-old.svg").write_text("", encoding="utf-8")
    assert any("99-old.svg" in s for s in script.refresh(chapter, check=True))
    script.refresh(chapter, check=False)
    assert script.refresh(chapter, check=True) == [] and not (figure.parent / "99-old.svg").exists()


def test_outputs_come_off_without_a_trace(script, chapter):
    script.refresh(chapter, check=False)
    bare = without_outputs(chapter.text)
    assert "<!-- output" not in bare and [c.code for c in code_cells(bare)] == [c.code for c in code_cells(CHAPTER)]
    assert [c.tags for c in code_cells(bare)] == [(), ("volatile",), ()]
    assert CHAPTER.splitlines()[code_cells(CHAPTER)[0].line - 1] == "a = 6"


def test_a_cell_that_fails_ends_the_run(script, chapter):
    chapter.path.write_text(CHAPTER.replace("a * 7", "a * b"), encoding="utf-8")
    with pytest.raises(NameError):
        script.refresh(chapter, check=True)


def test_a_result_that_would_break_its_paragraph_is_refused(script, chapter):
    chapter.path.write_text(CHAPTER.replace("It is <!--", "It is\n<!--"), encoding="utf-8")
    with pytest.raises(ValueError, match="begins a line of a sentence"):
        script.refresh(chapter, check=True)


def test_code_is_found_by_its_name(script):
    place = "minidecode/cache/prompt.py:PromptCache.expand"
    code = script.source_of(place)
    assert code.startswith('def expand(self, ops, beams: int, steps: int):\n    """Ends the prefill')
    assert '"""' not in script.source_of(place, docstring="none")
    long = "minidecode/catalog.py:Row"
    assert script.source_of(long).startswith('@dataclass(frozen=True)\nclass Row:\n    """One optimization."""\n')
    assert "contract: " in script.source_of(long, docstring="whole")
    assert script.source_of("minidecode/cuda/ngram.py:TILE").startswith("TILE = 256")
    with pytest.raises(ValueError, match="has no nothing"):
        script.source_of("minidecode/cuda/ngram.py:nothing")


def test_a_diff_shows_what_changes_and_what_stays(script):
    lines = script.diff("minidecode/cuda/ngram.py:thread_per_row minidecode/cuda/ngram.py:block_per_row").splitlines()
    assert lines[0] == "```diff" and " @cuda.jit" in lines
    assert "-    r = cuda.grid(1)" in lines and "+    r = cuda.blockIdx.x" in lines
    assert not any(line.startswith(("---", "+++", "@@")) for line in lines)


def test_tables_of_results(script):
    rows = [{"plan": "a", "s": 0.1234}, {"plan": "b", "s": 2.0}]
    assert script.table(script.pick(rows, plan="a"), the_plan="plan", seconds="{s:.2f}").splitlines() == [
        "| the plan | seconds |", "| --- | --- |", "| a | 0.12 |",
    ]  # fmt: skip
    with pytest.raises(ValueError, match="no row"):
        script.pick(rows, plan="c")


@pytest.mark.parametrize("text", ["<!-- x: a -->", "<!-- end of x -->", "<!-- end of x --><!-- x: a -->"])
def test_a_broken_pair_of_markers_is_told(text):
    with pytest.raises(ValueError, match="a pair is broken"):
        fill_between_markers(text, "x", lambda asked: asked)


def test_markers_are_filled_on_their_line_or_on_lines_of_their_own():
    text = (
        "one <!-- x: a --><!-- end of x --> two\n<!-- x: b -->\nold\n<!-- end of x -->\n<!-- y: c --><!-- end of y -->"
    )
    filled, count = fill_between_markers(text, "x", str.upper)
    assert count == 2
    assert filled.startswith(
        "one <!-- x: a -->A<!-- end of x --> two\n<!-- x: b -->\nB\n<!-- end of x -->\n<!-- y: c -->"
    )


# Figures


def luminance(colour: str) -> float:
    """Of sRGB, as WCAG 2 defines it."""
    parts = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return sum(w * p for w, p in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(a: str, b: str) -> float:
    low, high = sorted((luminance(a), luminance(b)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_fills_differ_in_grey_and_words_on_them_can_be_read(theme):
    fills = {role: colours[theme] for role, colours in canvases.FILLS.items()}
    for (one, a), (two, b) in itertools.combinations(fills.items(), 2):
        assert contrast(a[0], b[0]) >= 1.25, (one, two)
    for role, (ground, text) in fills.items():
        assert contrast(ground, text) >= 4.5, role
    for ink in (canvases.INK, canvases.FAINT):
        assert contrast(ink[theme], fills["paper"][0]) >= 4.5


def small():
    canvas = course.Canvas(120, 40)
    canvas.cell(4, 4, "bad", "<&>", tip="wrong")
    canvas.line(0, 0, 40, 40, dashed=True, arrow=True)
    return canvas


def test_a_scrubbed_figure_has_a_frame_a_step_and_all_stand_there_without_javascript():
    frames = [(f"Step {k}.", small()) for k in (1, 2, 3)]
    figure = course.scrub("99-x", frames, caption="What moves?", alt="Three equal frames with one cell in each.")
    html = figure._repr_html_()
    assert html.count("<svg ") == html.count('class="md-frame"') == 3
    assert "display:none" not in html.split("<script>")[0]
    assert list(figure.files()) == ["99-x-1.svg", "99-x-2.svg", "99-x-3.svg"]
    assert figure.alts()[1] == "Frame 2 of 3: Step 2."
    assert figure.files() == course.scrub("99-x", frames, caption="What moves?", alt=figure.alt).files()
    assert "&lt;&amp;&gt;" in html and "http" not in html.replace("http://www.w3.org/2000/svg", "")


def test_a_figure_without_a_question_or_alternative_text_is_refused():
    with pytest.raises(ValueError, match="a caption is a question"):
        course.single("99-x", small(), caption="A picture", alt="One cell, crossed out, in a corner.")
    with pytest.raises(ValueError, match="a caption is a question"):
        course.single("99-x", small(), caption="What is it?", alt="a cell")
    with pytest.raises(ValueError, match="at most"):
        course.Canvas(900, 10)


def test_a_sealed_prediction(capsys):
    sealed = course.seal(rows=10, seconds=None)
    assert repr(sealed) == "sealed: rows"
    sealed.open(rows=40, seconds=2)
    assert capsys.readouterr().out.splitlines() == [
        "rows: predicted 10, found 40 (off by 4x)", "seconds: not predicted, found 2",
    ]  # fmt: skip
    for wrong in (0, -1, True, "many"):
        with pytest.raises(InputError, match="above 0"):
            course.seal(rows=wrong)
    with pytest.raises(InputError, match="was not asked for"):
        sealed.open(bytes=3)
