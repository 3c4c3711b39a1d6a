"""Every benchmark refuses sizes of 0 and folders that are not there in one line, before it does any work."""

import re
import sys
from pathlib import Path

import pytest

from minidecode.device.user_functions import load_python_file

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
SCRIPTS = sorted(p for p in BENCHMARKS.glob("*.py") if "__main__" in p.read_text(encoding="utf-8"))  # others are parts
FLAG = re.compile(r'add_argument\(\s*"(-?-?[a-z0-9-]+)".*?type=(\w+)')
WRONG = {"positive": ["0", "-1", "1.5", "many"], "positive_number": ["0", "-1", "inf", "nan"],
         "file_to_write": ["no/such/folder/x.json", "."], "file_to_read": ["no_such_file"],
         "with_marks": ["no_such_file", "empty.md"]}  # fmt: skip
OTHERS = {
    "fuzz_torch_file.py": {"--seed", "--only"},  # of which 0 is one
    "gpu.py": {"--models"},  # a folder that is made
    "precision_quality.py": {"texts", "--held-out"},
    "smollm2_perplexity.py": {"text"},
}


def flags_of(path: Path) -> list[tuple[str, str]]:
    return FLAG.findall(path.read_text(encoding="utf-8"))


CASES = [pytest.param(path, flag, text, id=f"{path.stem} {flag} {text}") for path in SCRIPTS
         for flag, kind in flags_of(path) for text in WRONG.get(kind, [])]  # fmt: skip


@pytest.fixture
def run(monkeypatch, tmp_path):
    """Calls a script's `main` as if it were run in an empty folder with these arguments."""
    monkeypatch.chdir(tmp_path)
    Path("empty.md").write_text("no marks", encoding="utf-8")
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    monkeypatch.setattr(sys, "path", list(sys.path))  # some scripts add to it

    def call(path, *arguments):
        script = load_python_file(path)
        monkeypatch.setattr(sys, "argv", [path.name, *arguments])
        script.main()

    return call


@pytest.mark.parametrize(("path", "flag", "text"), CASES)
def test_what_cannot_be_is_told_before_any_work(path, flag, text, run, capsys):
    arguments = [f"{flag}={text}"] if flag.startswith("-") else [text]
    with pytest.raises(SystemExit) as ended:
        run(path, *arguments)
    assert ended.value.code == 2
    last = capsys.readouterr().err.strip().splitlines()[-1]
    assert last.startswith(f"{path.name}: error: argument ") and text.split("/")[0] in last


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda p: p.stem)
def test_no_script_takes_numbers_or_files_unseen(path):
    others = {flag for flag, kind in flags_of(path) if kind not in WRONG}
    assert others == OTHERS.get(path.name, set())


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda p: p.stem)
def test_help_says_what_it_measures_how_long_it_takes_and_what_it_writes(path, run, capsys):
    with pytest.raises(SystemExit) as ended:
        run(path, "--help")
    said = " ".join(capsys.readouterr().out.split())
    assert ended.value.code == 0 and f"python benchmarks/{path.name}" in said
    assert re.search(r"[Tt]akes (about|some|a|six|seven|half)\b", said) and re.search(r"Prints .*(writes|keeps)", said)


@pytest.mark.parametrize("name", ["ladder.py", "multi_query_quality.py", "plots.py"])
@pytest.mark.parametrize("text", ["{}", "[]", "5", '{"machine": "any"}', "no JSON"])
def test_a_file_of_another_kind_ends_it_in_one_line(name, text, run):
    Path("other.json").write_text(text, encoding="utf-8")
    with pytest.raises(SystemExit, match=r"^other\.json .*(holds no|cannot be read)[^\n]*$"):
        run(BENCHMARKS / name, "other.json")


@pytest.mark.parametrize("name", ["el_attention.py", "launches.py"])
def test_a_width_that_heads_cannot_share_is_told(name, run, capsys):
    with pytest.raises(SystemExit):
        run(BENCHMARKS / name, "--width", "10", "--heads", "4")
    assert "--width 10 is no multiple of --heads 4" in capsys.readouterr().err


def test_a_file_that_can_be_written_is_taken(run, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    flags = load_python_file(BENCHMARKS / "flags.py")
    assert flags.file_to_write("new.json") == Path("new.json") and flags.positive("3") == 3
    (tmp_path / "old.json").write_text("{}", encoding="utf-8")
    assert flags.file_to_write("old.json") == flags.file_to_read("old.json") == Path("old.json")
