"""`minidecode check` judges a user's function, and `minidecode compare` ours, from the shell."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = str(Path(__file__).parents[2])

RIGHT = """
from minidecode.reference.ngram import ban_ngrams as ban
"""
WRONG = """
import numpy as np

def ban(scores, tokens, length, n):
    for r in range(len(length)):
        text = tokens[r, : length[r]]
        for i in range(len(text) - n):
            if (text[i : i + n - 1] == text[len(text) - n + 1 :]).all():
                scores[r, text[i + n - 1]] = -np.inf
    return scores
"""


@pytest.fixture
def mine(tmp_path):
    def write(source: str):
        path = tmp_path / "mine.py"
        path.write_text(source, encoding="utf-8")
        return f"{path}:ban"

    return write


def test_right_is_exit_code_0(cli, mine):
    ran = cli("check", "ngram", mine(RIGHT), "--examples", 20)
    assert ran.code == 0 and "is right on all" in ran.out
    assert cli("check", "ngram", "minidecode.cpu.ngram:ban_ngrams", "--examples", 20).code == 0


def test_wrong_is_exit_code_1_with_the_mistake_and_an_input(cli, mine):
    ran = cli("check", "ngram", mine(WRONG))
    assert ran.code == 1
    assert "last window lost" in ran.out and "import numpy as np" in ran.out
    as_json = json.loads(cli("check", "ngram", mine(WRONG), "--json").out)
    assert not as_json["ok"] and "last window lost" in as_json["mistake"]


def test_without_a_function_it_says_what_it_is_for_and_what_to_type(fails):
    judges = "check top_k judges a function of yours, and none is given: write top_k_filter(scores_RV, k) into mine.py"
    assert f"minidecode: {judges}, then type minidecode check top_k mine.py:top_k_filter\n" == fails("check", "top_k")
    assert "did you mean ngram? The names are ngram" in fails("check", "ngrams")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [(["ngrams", "x.py:f"], "did you mean ngram? The names are"), (["ngram", "x.py:f"], "there is no file x.py"),
     (["ngram", "x.py"], "there is no file x.py"), (["ngram", "x"], "FILE.py:FUNCTION"),
     (["ngram", "no_such_module:f"], "cannot be imported"),
     (["ngram", "/etc/passwd:f"], "/etc/passwd is neither a Python file (FILE.py) nor a module: name the function as"),
     (["ngram", "./:f"], "./ is neither a Python file"), (["ngram", "a..b:f"], "a..b is neither a Python file"),
     (["ngram", "minidecode.cpu.ngram:bann"], "has no function 'bann': it has ban_ngrams")],
)  # fmt: skip
def test_bad_names_are_one_line(fails, arguments, says):
    assert says in fails("check", *arguments)


def test_a_file_alone_is_taken_if_it_says_which_function(cli, fails, mine):
    path = mine("from minidecode.reference.ngram import ban_ngrams as theirs\n"
                "def ban(*given): return theirs(*given)\n").removesuffix(":ban")  # fmt: skip
    ran = cli("check", "ngram", path, "--examples", 5)
    assert ran.code == 0 and ran.out.startswith("ngram: mine.ban")
    two = "def {}(*given): return None\ndef other(): pass\n"
    ran = cli("check", "ngram", mine(two.format("ban_ngrams")).removesuffix(":ban"), "--examples", 5)
    assert ran.code == 1 and ran.out.startswith("ngram: mine.ban_ngrams"), "the one that has the op's name"
    mine(two.format("ban"))
    assert f"{path} has ban, other: name one of them, as in {path}:ban" in fails("check", "ngram", path)
    mine("from minidecode.reference.ngram import ban_ngrams")
    assert f"{path} defines no function" in fails("check", "ngram", path)


@pytest.mark.parametrize("parameters", ["scores_RV, ids", "", "a, b, c, d, e"])
def test_other_parameters_are_answered_with_the_right_ones(cli, mine, toy, parameters):
    ran = cli("check", "ngram", mine(f"def ban({parameters}): return 1"), "--examples", 5)
    says = f"It takes ({parameters}); give it the parameters of ban_ngrams(scores_RV, tokens_RM, length_R, n)."
    assert ran.code == 1 and says in ran.out and "smallest input" not in ran.out, "it is no input's fault"
    in_a_plan = "--no-repeat-ngram-size", 2, "--plan", f"ngram={mine(f'def ban({parameters}): return 1')}"
    says = f"run as ban_ngrams, takes ({parameters}); give it the parameters of ban_ngrams(scores_RV, "
    assert says in cli("generate", "the", "the", "-m", toy, *in_a_plan).err
    raises = "def ban(scores_RV, tokens_RM, length_R, n): return len(n)"
    assert "It raised TypeError: object of type 'int' has no len()" in cli("check", "ngram", mine(raises)).out


@pytest.mark.parametrize(("code", "what"), [("def ban(:", "SyntaxError"), ("1 / 0", "ZeroDivisionError")])
def test_a_file_or_module_that_cannot_be_run(fails, mine, tmp_path, monkeypatch, code, what):
    monkeypatch.chdir(tmp_path)
    assert f"cannot be run: {what}" in fails("check", "ngram", mine(code))
    (tmp_path / "module_with_mistake.py").write_text(code)
    assert f"module_with_mistake cannot be run: {what}" in fails("check", "ngram", "module_with_mistake:ban")


def test_compare_times_what_runs_here_and_says_what_does_not(cli):
    ran = cli("compare", "ngram", "--repeats", 1, "--machine", "t4", "--json")
    result = json.loads(ran.out)
    assert [t["implementation"] for t in result["timings"]][:3] == ["reference naive", "reference", "cpu"]
    assert all(0 < t["fastest"] <= t["median"] <= t["slowest"] for t in result["timings"])
    assert [m["name"] for m in (result["machine"], *result["predicted"])] == ["this", "t4"]


def test_compare_refuses_to_time_a_wrong_implementation(cli, monkeypatch):
    from minidecode.reference import ngram

    monkeypatch.setattr(ngram, "ban_ngrams", lambda scores_RV, *rest: scores_RV)
    ran = cli("compare", "ngram", "--repeats", 1, "--json")
    assert ran.code == 1 and ran.out == "" and "Traceback" not in ran.err
    first, verdict, _, blank, *code = ran.err.splitlines()
    assert first == "minidecode: reference is wrong, so nothing is timed." and verdict.startswith("ngram: ")
    assert blank == "" and code[0] == "The smallest input found:", "as check prints it"
    assert [line.partition(" = ")[0] for line in code[2:-1]] == ["scores_RV", "tokens_RM", "length_R", "n"]


def test_the_command_writes_what_it_reads(cli, fails, tmp_path):
    path = tmp_path / "redirect.json"
    path.write_text(cli("compare", "indirection", "--repeats", 1, "--json").out, encoding="utf-8")
    shown = cli("compare", "--read", path, "--output", tmp_path / "roof.svg")
    assert "indirection" in shown.out and "reference naive" in shown.out
    assert (tmp_path / "roof.svg").read_text(encoding="utf-8").count("<svg") == 1
    assert "holds no comparison of norm" in fails("compare", "norm", "--read", path)
    assert "different names" in fails("compare", "--read", path, "--read", path)
    assert "did you mean indirection" in fails("compare", "indirecton")
    assert "no machine 'v1000'" in fails("compare", "indirection", "--machine", "v1000")


@pytest.mark.parametrize("flag", [["--machine", "v100"], ["--repeats", 9], ["--stored", "float16"]])
def test_a_file_that_is_shown_again_is_not_timed_otherwise(fails, tmp_path, flag):
    (tmp_path / "any.json").write_text("[]", encoding="utf-8")
    assert f"{flag[0]} has no effect with --read" in fails("compare", "--read", tmp_path / "any.json", *flag)


def test_what_cannot_be_predicted_is_told(cli):
    ran = cli("compare", "arena", "--repeats", 1, "--machine", "v100")
    assert ran.code == 0 and ran.out.count("nothing is predicted for v100: bytes are the same on every machine") == 1


def test_what_buys_bytes_alone_has_no_roofline(cli, fails, tmp_path):
    pytest.importorskip("matplotlib")
    of_bytes, of_time, plot = (tmp_path / name for name in ("arena.json", "redirect.json", "roof.svg"))
    says = "has no roofline, for what it buys is bytes: leave out --output"
    assert f"compare arena {says}" in fails("compare", "arena", "--output", plot)
    arena, redirect = (
        json.loads(cli("compare", name, "--repeats", 1, "--json").out) for name in ("arena", "indirection")
    )
    of_bytes.write_text(json.dumps(arena), encoding="utf-8")
    of_time.write_text(json.dumps([arena, redirect]), encoding="utf-8")
    assert "arena compares bytes alone" in fails("compare", "--read", of_bytes, "--output", plot)
    assert not plot.exists()
    shown = cli("compare", "--read", of_time, "--output", plot)
    assert shown.code == 0 and "arena" in shown.out and plot.exists(), "what has a place is drawn"


def test_nothing_is_left_in_the_folder_where_it_runs(tmp_path):
    """Hypothesis keeps files of its own, in .hypothesis of the working directory if nobody says otherwise."""
    command = [
        sys.executable,
        "-m",
        "minidecode.commands.cli",
        "check",
        "indirection",
        "minidecode.cpu.indirection:update_indirection",
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": ROOT})
    assert done.returncode == 0 and "is right" in done.stdout, done.stderr
    assert list(tmp_path.iterdir()) == []


def test_what_is_kept_for_a_run_lies_in_a_folder_that_only_its_user_can_open(cli, tmp_path, monkeypatch):
    """Its name is not known beforehand, and it is gone at the end."""
    scratch, mine = tmp_path / "scratch", tmp_path / "mine.py"
    scratch.mkdir()
    mine.write_text(
        "import os, pathlib, stat\n"
        "from minidecode.reference.ngram import ban_ngrams\n"
        "folder = pathlib.Path(os.environ['HYPOTHESIS_STORAGE_DIRECTORY'])\n"
        f"told = pathlib.Path({str(tmp_path / 'told')!r})\n"
        "told.write_text(f'{folder} {stat.S_IMODE(folder.stat().st_mode):o}')\n"
    )
    monkeypatch.delenv("HYPOTHESIS_STORAGE_DIRECTORY", raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    folders = []
    for _ in range(2):
        assert cli("check", "ngram", f"{mine}:ban_ngrams", "--examples", 1, "-q").code == 0
        folder, mode = (tmp_path / "told").read_text().split()
        assert mode == "700" and folder.startswith(str(scratch))
        folders.append(folder)
    assert folders[0] != folders[1] and not list(scratch.iterdir())
    assert "HYPOTHESIS_STORAGE_DIRECTORY" not in os.environ
