"""What teachers use: the autograder's script as Gradescope runs it, the workflow's step, the readiness of a machine."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml

import minidecode
from minidecode.course.exercises import classroom, skeleton
from minidecode.course.exercises.exercise import seed_from_name
from minidecode.course.exercises.find import find
from minidecode.errors import InputError

ROOT = Path(__file__).resolve().parents[2]
posix_only = pytest.mark.skipif(os.name != "posix", reason="shell scripts, which graders run on Linux")


@pytest.fixture
def command(tmp_path) -> Path:
    """`minidecode` of this checkout, as an installed command beside its Python."""
    script = tmp_path / "bin" / "minidecode"
    script.parent.mkdir()
    (script.parent / "python").symlink_to(sys.executable)
    script.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" -m minidecode.commands.cli "$@"\n')
    script.chmod(0o755)
    return script


def hand_in(folder: Path, name: str, answer: str, seed: int = 0) -> None:
    exercise = find(name)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / exercise.file_name).write_text(exercise.vary_source(exercise.folder() / answer, seed), encoding="utf-8")


@posix_only
def test_the_autograder_writes_what_gradescope_reads(tmp_path, command):
    shutil.copytree(ROOT / "classroom" / "gradescope", tmp_path / "source")
    (tmp_path / "source" / "settings.sh").write_text('HIDDEN=7\nEXERCISES="1 15 2 3 19"\n')
    hand_in(tmp_path / "submission", "guard", "solution.py", seed=3)
    hand_in(tmp_path / "submission", "ngram_ban", "wrong/pads_count.py")
    hand_in(tmp_path / "submission", "when_arithmetic_binds", "wrong/unknown.py")
    begun = find("19")
    (tmp_path / "submission" / begun.file_name).write_text(begun.start(0), encoding="utf-8")
    told = autograded(tmp_path, command)
    by_name = {test["name"].split()[0]: test for test in told["tests"]}
    scores = {name: test["score"] for name, test in by_name.items()}
    assert scores == {"1": 1.0, "15": 0.0, "2": 0.0, "3": 1.0, "19": 0.0}, (
        "a wrong prediction counts, and None does not"
    )
    assert all(test["max_score"] == 1 for test in told["tests"])
    assert "Solved" in by_name["1"]["output"] and "pads count" in by_name["15"]["output"]
    assert by_name["2"]["output"] == "Nothing was handed in."


@posix_only
def test_the_autograder_of_an_empty_submission(tmp_path, command):
    shutil.copytree(ROOT / "classroom" / "gradescope", tmp_path / "source")
    (tmp_path / "submission").mkdir()
    told = autograded(tmp_path, command)
    assert told["score"] == 0 and "holds no file of an exercise" in told["output"]


@posix_only
def test_the_autograder_of_a_submission_in_folders(tmp_path, command):
    """A folder of notes beside the student's is nobody's; two with answers are refused, not added up."""
    shutil.copytree(ROOT / "classroom" / "gradescope", tmp_path / "source")
    (tmp_path / "source" / "settings.sh").write_text('HIDDEN=7\nEXERCISES="1"\n')
    (tmp_path / "submission" / "notes").mkdir(parents=True)
    hand_in(tmp_path / "submission" / "mine", "guard", "solution.py")
    assert [test["score"] for test in autograded(tmp_path, command)["tests"]] == [1.0]
    hand_in(tmp_path / "submission" / "older", "guard", "solution.py")
    told = autograded(tmp_path, command)
    assert told["score"] == 0 and "2 folders with files of exercises (mine, older)" in told["output"]


def autograded(root: Path, command: Path) -> dict:
    """results.json, after the script has run as Gradescope would run it."""
    environment = os.environ | {"AUTOGRADER": str(root), "MINIDECODE": str(command)}
    subprocess.run([str(root / "source" / "run_autograder")], env=environment, check=True, timeout=120)
    return json.loads((root / "results" / "results.json").read_text(encoding="utf-8"))


@posix_only
@pytest.mark.parametrize("answer, code", [("solution.py", 0), ("wrong/pads_count.py", 1)])
def test_the_workflow_checks_every_file(tmp_path, command, answer, code):
    workflow = yaml.safe_load((ROOT / "classroom" / "github" / "classroom.yml").read_text(encoding="utf-8"))
    (step,) = (s["run"] for s in workflow["jobs"]["check"]["steps"] if s.get("name") == "check")
    hand_in(tmp_path / "repository", "guard", "solution.py")
    hand_in(tmp_path / "repository", "ngram_ban", answer)
    environment = os.environ | {"PATH": f"{command.parent}{os.pathsep}{os.environ['PATH']}"}
    ran = subprocess.run(["bash", "-e", "-c", step], cwd=tmp_path / "repository", env=environment, timeout=120,
                         capture_output=True, text=True)  # fmt: skip
    assert ran.returncode == code, ran.stdout + ran.stderr
    assert re.findall(r"^::group::(\S+)", ran.stdout, re.MULTILINE) == ["01_guard.py", "15_ngram_ban.py"]


FROM = "git+https://example.org/you/minidecode@v1"


@pytest.fixture
def commands(tmp_path):
    """pip, apt-get and python3 on a path of their own: each notes its arguments, a line each."""
    folder = tmp_path / "commands"
    folder.mkdir()
    note = f'#!/bin/sh\necho "$(basename "$0") $*" >> "{tmp_path}/asked"\n'
    venv = 'mkdir -p "$3/bin" && cp "$(dirname "$0")/pip" "$3/bin/pip"\n'
    for name, more in (("pip", ""), ("apt-get", ""), ("python3", venv)):
        (folder / name).write_text(note + more)
        (folder / name).chmod(0o755)

    def run(script: str, **environment: str) -> tuple[int, str, list[str]]:
        (tmp_path / "asked").write_text("")
        path = f"{folder}{os.pathsep}{os.environ['PATH']}"
        ran = subprocess.run(["bash", "-e", "-c", script], env=os.environ | {"PATH": path} | environment, text=True,
                             capture_output=True, timeout=60)  # fmt: skip
        return ran.returncode, ran.stdout + ran.stderr, (tmp_path / "asked").read_text().splitlines()

    return run


@posix_only
def test_the_workflow_installs_from_where_it_is_told(commands):
    workflow = yaml.safe_load((ROOT / "classroom" / "github" / "classroom.yml").read_text(encoding="utf-8"))
    assert set(workflow["env"]) == {"MINIDECODE_FROM", "STUDENT", "STAGES"}
    (step,) = (s["run"] for s in workflow["jobs"]["check"]["steps"] if s.get("name") == "install")
    assert commands(step, MINIDECODE_FROM=FROM) == (0, "", [f"pip install minidecode @ {FROM}"])
    code, told, asked = commands(step, MINIDECODE_FROM="")
    assert code == 1 and "fill in MINIDECODE_FROM" in told and not asked, "there is no package index that has it"


@posix_only
def test_the_autograder_is_set_up_from_where_it_is_told(tmp_path, commands):
    shutil.copytree(ROOT / "classroom" / "gradescope", tmp_path / "source")
    setup, settings = str(tmp_path / "source" / "setup.sh"), tmp_path / "source" / "settings.sh"
    code, told, asked = commands(f"bash {setup}", AUTOGRADER=str(tmp_path))
    assert code == 1 and "fill in MINIDECODE_FROM" in told and not asked
    wheel = tmp_path / "source" / "wheels" / "minidecode-0.1.0-py3-none-any.whl"
    wheel.parent.mkdir()
    wheel.touch()
    code, told, asked = commands(f"bash {setup}", AUTOGRADER=str(tmp_path))
    assert code == 0 and asked[-1] == f"pip install --quiet --find-links {wheel.parent} {wheel}", told
    filled = settings.read_text().replace('MINIDECODE_FROM=""', f'MINIDECODE_FROM="{FROM}"')
    settings.write_text(filled)
    code, told, asked = commands(f"bash {setup}", AUTOGRADER=str(tmp_path))
    assert code == 0 and asked[-1] == f"pip install --quiet minidecode @ {FROM}", told


@pytest.mark.parametrize(
    ("noted", "due"),
    [({"url": "https://e.org/m", "vcs_info": {"vcs": "git", "commit_id": "ab1"}}, "minidecode @ git+https://e.org/m@ab1"),
     ({"url": "https://e.org/m.whl", "archive_info": {}}, "minidecode @ https://e.org/m.whl"),
     ({"url": "file:///no/such/wheel.whl", "archive_info": {}}, None), (None, None)],
    ids=["git", "wheel", "gone", "nothing"],
)  # fmt: skip
def test_wheels_come_from_where_minidecode_came_from(monkeypatch, tmp_path, noted, due):
    class Installed:
        def read_text(self, name):
            return None if noted is None else json.dumps(noted)

    monkeypatch.delenv("MINIDECODE_FROM", raising=False)
    monkeypatch.setattr(classroom, "__file__", str(tmp_path / "a" / "b" / "c.py"))
    monkeypatch.setattr(classroom.metadata, "distribution", lambda name: Installed())
    if due:
        assert classroom.pip_requirement() == due
    else:
        with pytest.raises(InputError, match="in no package index"):
            classroom.pip_requirement()
    monkeypatch.setenv("MINIDECODE_FROM", FROM)
    assert classroom.pip_requirement() == f"minidecode @ {FROM}"


def test_a_machine_that_is_ready(cli):
    ran = cli("doctor", "--class", "--json")
    told = {each["name"]: each for each in json.loads(ran.out)}
    assert list(told) == ["generation", "compiled code", "emulator", "exercises", "notebooks"]
    assert all(each["ok"] for name, each in told.items() if name != "notebooks"), told
    assert "race that is there" in told["emulator"]["message"] and "killed" in told["exercises"]["message"]
    assert ran.code == (0 if told["notebooks"]["ok"] else 1)


def test_a_machine_that_is_not(cli, monkeypatch):
    def broken() -> str:
        raise ImportError("no numba here")

    monkeypatch.setattr(classroom, "CHECKS", {"emulator": broken})
    ran = cli("doctor", "--class")
    assert ran.code == 1 and "NOT READY  emulator: ImportError: no numba here" in ran.out


def test_a_machine_that_may_keep_no_compiled_code(cli, monkeypatch):
    """A package and a home for reading alone, as rooms have them."""

    def nowhere(name):
        raise RuntimeError(f"cannot cache function 'f': no locator available for file '{name}'")

    monkeypatch.setattr("minidecode.plan.importlib.import_module", nowhere)
    monkeypatch.setattr(classroom, "CHECKS", {"compiled code": classroom.CHECKS["compiled code"]})
    ran = cli("doctor", "--class")
    assert ran.code == 1 and ran.out.startswith("NOT READY  compiled code: ") and "NUMBA_CACHE_DIR" in ran.out


def test_a_folder_of_wheels(cli, monkeypatch, tmp_path):
    """pip itself is not run: it would fetch what the wheels need."""
    asked = []

    def run(command, **how):
        asked.append(command)
        return subprocess.CompletedProcess(command, 0 if len(asked) == 1 else 1, "", "ERROR: no network\n")

    monkeypatch.delenv("MINIDECODE_FROM", raising=False)
    monkeypatch.setattr(classroom, "CHECKS", {})
    monkeypatch.setattr(classroom.subprocess, "run", run)
    ran = cli("doctor", "--class", "--wheels", tmp_path)
    assert ran.code == 0 and f"--find-links {tmp_path} minidecode" in ran.out
    assert asked[0][1:4] == ["-m", "pip", "wheel"] and str(tmp_path) in asked[0]
    assert any(str(ROOT) in word or word.startswith("minidecode @ file://") for word in asked[0]), asked[0]
    (tmp_path / "file").touch()
    for arguments, says in [(("--class", "--wheels", tmp_path), "ERROR: no network"),
                            (("--class", "--wheels", tmp_path / "file"), "is a file: --wheels names a folder"),
                            (("--wheels", tmp_path), "--wheels goes with --class")]:  # fmt: skip
        ran = cli("doctor", *arguments)
        assert ran.code == 1 and says in ran.err and ran.err.count("\n") == 1


@posix_only
def test_the_autograder_knows_the_student(tmp_path, command):
    """PER_STUDENT: of two answers to the same exercise, the one for this student's variation counts."""
    shutil.copytree(ROOT / "classroom" / "gradescope", tmp_path / "source")
    (tmp_path / "source" / "settings.sh").write_text('HIDDEN=7\nEXERCISES="1"\nPER_STUDENT="email"\n')
    hand_in(tmp_path / "submission", "guard", "solution.py", seed=seed_from_name("ada@example.org"))
    metadata = tmp_path / "submission_metadata.json"
    metadata.write_text(json.dumps({"users": [{"email": "ada@example.org", "name": "Ada"}]}))
    assert [test["score"] for test in autograded(tmp_path, command)["tests"]] == [1.0]
    metadata.write_text(json.dumps({"users": [{"email": "bob@example.org", "name": "Bob"}]}))
    (test,) = autograded(tmp_path, command)["tests"]
    assert test["score"] == 0.0 and f"and {seed_from_name('bob@example.org')} is due" in test["output"]
    metadata.unlink()
    told = autograded(tmp_path, command)
    assert told["score"] == 0 and told["output"].startswith("submission_metadata.json has no email")


@posix_only
def test_the_autograder_grades_the_project(tmp_path, command):
    shutil.copytree(ROOT / "classroom" / "gradescope", tmp_path / "source")
    (tmp_path / "source" / "settings.sh").write_text('STAGES="6 7"\nPER_STUDENT="name"\n')
    (tmp_path / "submission_metadata.json").write_text(json.dumps({"users": [{"name": "Ada L."}]}))
    (tmp_path / "submission").mkdir()
    shutil.copy(ROOT / "exercises" / "engine" / "solution.py", tmp_path / "submission" / "engine.py")
    told = autograded(tmp_path, command)["tests"]
    assert [(test["name"].split(":")[0], test["score"]) for test in told] == [("stage 6", 1), ("stage 7", 1)]


@posix_only
def test_the_workflow_checks_an_engine_and_refuses_nothing_at_all(tmp_path, command):
    workflow = yaml.safe_load((ROOT / "classroom" / "github" / "classroom.yml").read_text(encoding="utf-8"))
    steps = {step.get("name"): step["run"] for step in workflow["jobs"]["check"]["steps"] if "run" in step}
    repository = tmp_path / "repository"
    repository.mkdir()
    path = f"{command.parent}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "RUNNER_TEMP": str(tmp_path), "STAGES": "6", "STUDENT": "ada"}

    def run(name: str) -> subprocess.CompletedProcess:
        return subprocess.run(["bash", "-e", "-c", steps[name]], cwd=repository, env=environment, timeout=120,
                              capture_output=True, text=True)  # fmt: skip

    assert run("check").returncode == 1 and "there is no file of an exercise" in run("check").stdout
    shutil.copy(ROOT / "exercises" / "engine" / "solution.py", repository / "engine.py")
    assert run("check").returncode == 0
    ran = run("project")
    assert ran.returncode == 0 and "no n-gram twice (chapter" in ran.stdout, ran.stdout + ran.stderr


def test_the_instructors_package_brings_the_solutions(tmp_path, monkeypatch):
    """Where the package is installed alone, nothing has them; with minidecode_instructor on the path, exercises do."""
    monkeypatch.setattr(skeleton, "CHECKOUT", tmp_path)
    monkeypatch.chdir(tmp_path)
    assert find("15").folder() is None
    wheel = tmp_path / "site" / "minidecode_instructor"
    shutil.copytree(ROOT / "exercises" / "15_ngram_ban", wheel / "exercises" / "15_ngram_ban")
    monkeypatch.syspath_prepend(str(wheel.parent))
    assert find("15").folder() == wheel / "exercises" / "15_ngram_ban"


def test_the_instructors_package_is_built_from_the_exercises(tmp_path):
    pytest.importorskip("hatchling", reason="the builder of the wheel is not installed")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path], cwd=ROOT / "exercises",
                   check=True, capture_output=True)  # fmt: skip
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    due = {path.relative_to(ROOT / "exercises").as_posix() for path in (ROOT / "exercises").glob("*/**/*.py")}
    assert names == {f"minidecode_instructor/exercises/{name}" for name in due}
    project = tomllib.loads((ROOT / "exercises" / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["version"] == minidecode.__version__
