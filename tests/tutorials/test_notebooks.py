"""Chapters as notebooks: their cells, exercises that are judged inside, and runs by nbclient."""

from __future__ import annotations

import json
import re
import sys
import types
from pathlib import Path

import pytest

from minidecode import course
from minidecode.course.chapters import chapters, code_cells, without_outputs
from minidecode.course.exercises import sandbox
from minidecode.course.exercises.exercise import seed_from_name
from minidecode.course.exercises.find import exercises, find
from minidecode.course.notebook import notebook
from minidecode.errors import InputError, OptionError

sys.path.insert(0, str(Path(__file__).parent))
EXERCISES = Path(__file__).resolve().parents[2] / "exercises"  # with solutions, which an installed package has not
each_chapter = pytest.mark.parametrize("chapter", chapters(), ids=lambda c: c.path.stem)


def source(cell) -> str:
    return "".join(cell["source"])


@each_chapter
def test_a_notebook_has_the_cells_of_its_chapter_and_of_its_exercises(chapter):
    book = json.loads(notebook(chapter))
    assert (book["nbformat"], book["nbformat_minor"]) == (4, 5)
    ids = [cell["id"] for cell in book["cells"]]
    assert len(set(ids)) == len(ids) and all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name) for name in ids)
    text = without_outputs(chapter.text)
    code = [cell for cell in book["cells"] if cell["cell_type"] == "code"][2 if chapter.number == "00" else 0 :]
    own = [e for e in exercises().values() if e.text.chapter == chapter.number]
    due = [cell.code.strip("\n") for cell in code_cells(text)]
    for exercise in own:
        due += [exercise.start(0).strip("\n"), f"from minidecode import course\n\ncourse.check({exercise.number})"]
    assert [source(cell) for cell in code] == due
    hidden = [cell["metadata"].get("jupyter") == {"source_hidden": True} for cell in code]
    assert hidden[: len(code_cells(text))] == ["hide-input" in cell.tags for cell in code_cells(text)]
    prose = "\n".join(source(cell) for cell in book["cells"] if cell["cell_type"] == "markdown")
    assert "<!-- output" not in prose and "{code-cell}" not in prose and "file_format:" not in prose
    assert all(
        line in prose for line in re.findall(r"^#+ .+$", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S), re.M)
    )


def test_the_first_notebook_begins_on_colab(monkeypatch, capsys):
    """The first cell installs what is missing and runs doctor; the second, with a GPU, brings its packages."""
    (chapter,) = [c for c in chapters() if c.number == "00"]
    install, t4, *_ = [source(cell) for cell in json.loads(notebook(chapter))["cells"] if cell["cell_type"] == "code"]
    assert "HOST/YOU" not in chapter.text and [n for n in chapters() if "HOST/YOU" in notebook(n)] == [chapter]

    def asked(is_installed: bool, has_gpu: bool, code: int = 0) -> list[str]:
        began: list[str] = []

        def begin(words: list[str], **how: object) -> types.SimpleNamespace:
            began.append(" ".join(words[1:]))
            return types.SimpleNamespace(stdout="", stderr="", returncode=code)

        monkeypatch.setattr("subprocess.run", begin)
        monkeypatch.setattr("importlib.util.find_spec", lambda name: is_installed or None)
        monkeypatch.setattr("shutil.which", lambda name: "nvidia-smi" if has_gpu else None)
        names: dict[str, object] = {}
        exec(install, names)
        exec(t4, names)
        return began

    repository = "git+https://HOST/YOU/minidecode"
    assert asked(True, False) == ["-m minidecode doctor"]
    assert asked(False, True) == [
        f"-m pip install --quiet minidecode @ {repository}",
        "-m minidecode doctor",
        f"-m pip install --quiet minidecode[cu12] @ {repository}",
        "-m minidecode generate Fellow citizens, --device cuda --receipt",
        "-m minidecode compare ngram",
    ]
    with pytest.raises(SystemExit, match="pip failed"):
        asked(False, False, code=1)


def test_every_exercise_is_in_one_notebook():
    found = [number for chapter in chapters() for number in re.findall(r"course\.check\((\d+)\)", notebook(chapter))]
    assert sorted(map(int, found)) == sorted(exercises())


def test_a_student_gets_a_variation():
    (chapter,) = [c for c in chapters() if c.number == find("15").text.chapter]
    mine = notebook(chapter, "ada")
    assert f"# --- variation {seed_from_name('ada')} of exercise 15" in mine and mine != notebook(chapter)


@pytest.fixture
def ran(monkeypatch, tmp_path, capsys):
    """Runs cells: `ran(SOURCE, 15)` is what the check prints; `ran.offered` are new cells, `ran.drawn` pictures."""
    monkeypatch.chdir(tmp_path)
    shell = types.SimpleNamespace(history_manager=types.SimpleNamespace(input_hist_raw=[""]))
    offered, drawn = [], []
    shell.set_next_input = offered.append
    display = types.SimpleNamespace(SVG=lambda filename: filename, display=drawn.append)
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell, display=display))
    monkeypatch.setitem(sys.modules, "IPython.display", display)

    def run(cell: str, number: int) -> str:
        history = shell.history_manager.input_hist_raw
        history += [*([cell] if cell else []), f"from minidecode import course\n\ncourse.check({number})"]
        course.check(number)
        return capsys.readouterr().out

    with sandbox.keep_one_judge():
        run.offered, run.drawn = offered, drawn
        yield run


@pytest.mark.parametrize(
    ("number", "mistake"), [(15, "last_window_lost"), (10, "no_barrier")], ids=["in NumPy", "a kernel"]
)
def test_a_cell_gets_the_verdict_of_the_command(ran, cli, number, mistake):
    """Not begun, a known mistake, a solution: the same words, and the picture is drawn in place of named."""
    exercise = find(str(number))
    folder = EXERCISES / Path(exercise.file_name).stem
    answers = [exercise.start(5)]
    answers += [exercise.vary_source(folder / file, 5) for file in (f"wrong/{mistake}.py", "solution.py")]
    told = []
    for answer in answers:
        told.append(ran(answer, number))
        command, _, picture = cli("exercise", "check", number).out.partition("\nA picture: ")
        assert told[-1] == command and [Path(d) for d in ran.drawn] == [Path(p) for p in picture.split()]
        ran.drawn.clear()
    assert told[0].startswith("Not begun") and mistake.replace("_", " ") in told[1] and told[2].startswith("Solved")
    assert not ran.offered and not list(Path("my_exercises").glob("*.bak*"))


def test_the_cell_that_was_run_last_is_judged(ran):
    exercise = find("15")
    solved = exercise.vary_source(EXERCISES / Path(exercise.file_name).stem / "solution.py", 5)
    assert ran(solved, 15).startswith("Solved")
    assert ran("x = 1", 15).startswith("Solved")
    assert ran(exercise.start(5), 15).startswith("Not begun")


def test_after_a_prediction_that_missed_a_fresh_one_is_offered(ran):
    exercise = find("2")
    missed = exercise.start(5).replace("= None", "= 12345")
    told = ran(missed, 2)
    assert "wrong, you said 12,345" in told and told.rstrip().endswith("02_bytes_per_token.py` in a new cell.")
    (fresh,) = ran.offered
    assert "= None" in fresh and "variation 5: BYTES_PER_TOKEN = 12345" in fresh and "# --- variation 5 of" not in fresh
    assert Path("my_exercises/02_bytes_per_token.py").read_text(encoding="utf-8") == fresh
    assert "has been told: predict the new one" in ran(missed, 2) and len(ran.offered) == 2


def test_a_file_that_no_cell_has_written_is_kept(ran, cli):
    assert cli("exercise", "start", 15).code == 0
    file = Path("my_exercises/15_ngram_ban.py")
    file.write_text(mine := "# hours of work\n", encoding="utf-8")
    for answer in ("# one\n", "# two\n"):
        ran(answer + find("15").start(5), 15)
    assert Path("my_exercises/15_ngram_ban.py.bak").read_text(encoding="utf-8") == mine
    assert len(list(file.parent.glob("*.bak*"))) == 1 and file.read_text(encoding="utf-8").startswith("# two\n")


def test_what_cannot_be_judged_is_said(ran, monkeypatch):
    assert ran("x = 1", 15).startswith("No cell with exercise 15 has been run here: run the cell")
    with pytest.raises(OptionError, match="there is no exercise '99'"):
        course.check(99)
    monkeypatch.setitem(sys.modules, "IPython", None)
    with pytest.raises(InputError, match="minidecode exercise check 15 judges a file"):
        course.check(15)


# By nbclient, as Jupyter runs them


@pytest.fixture(scope="module")
def run_notebooks():
    pytest.importorskip("nbclient", reason="notebooks are run by the extra `notebook`")
    import run_notebooks

    return run_notebooks


def test_a_notebook_runs(run_notebooks):
    """One that compiles nothing. CI runs four more from the wheel, and the site every chapter."""
    (chapter,) = [c for c in chapters() if c.path.stem[3:] == "key_value_cache"]
    assert chapter.path.stem in run_notebooks.run_chapter(chapter)


@pytest.mark.parametrize("number", ["15", "16", "2"])
def test_an_exercise_is_judged_in_a_notebook(run_notebooks, number):
    assert "Solved" in run_notebooks.run_answers(number, run_notebooks.ANSWERED[number])
