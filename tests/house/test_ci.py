"""The parts of .ci/run that can be tried alone: the browser of the site, and the lowest versions."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.skipif(not (CHECKOUT / ".ci").exists(), reason="the scripts of .ci are only in a checkout")


def programs(folder: Path, **scripts: str) -> Path:
    """A folder with these programs of one line, and bash."""
    folder.mkdir()
    (folder / "bash").symlink_to(shutil.which("bash"))
    for name, line in scripts.items():
        path = folder / name.replace("_", "-")
        path.write_text(f"#!{shutil.which('bash')}\n{line}\n", encoding="utf-8")
        path.chmod(0o755)
    return folder


def chromium(path: Path, **environment: str) -> subprocess.CompletedProcess:
    environment = {"PATH": str(path)} | environment
    script = str(CHECKOUT / ".ci/chromium")
    return subprocess.run([shutil.which("bash"), script], env=environment, capture_output=True, text=True, timeout=30)


def test_a_browser_that_is_there_is_not_installed_again(tmp_path):
    assert chromium(programs(tmp_path / "bin", google_chrome="exit 0", apt_get="exit 9")).returncode == 0
    path = programs(tmp_path / "other", mine="exit 0", apt_get="exit 9")
    assert chromium(path, CHROMIUM=str(path / "mine")).returncode == 0


def test_chromium_is_installed_where_no_browser_is(tmp_path):
    path = tmp_path / "bin"
    apt_get = f"""echo "$@" >> {tmp_path}/asked; [ "$1" = install ] && echo 'echo Chromium 1' > {path}/chromium
    [ "$1" = update ] || {shutil.which("chmod")} +x {path}/chromium"""
    ran = chromium(programs(path, id="echo 0", apt_get=apt_get))
    assert (ran.returncode, ran.stdout) == (0, "Chromium 1\n"), ran
    asked = (tmp_path / "asked").read_text(encoding="utf-8").splitlines()
    assert asked[0].startswith("update") and asked[1].startswith("install") and asked[1].endswith("chromium")


@pytest.mark.parametrize(
    ("scripts", "environment", "named"),
    [
        ({"id": "echo 0"}, {}, "there is no apt-get"),
        ({"id": "echo 1000", "apt_get": "exit 0"}, {}, "only root may install packages"),
        ({"id": "echo 0", "apt_get": "exit 100"}, {}, "apt-get update failed"),
        ({"id": "echo 0", "apt_get": '[ "$1" = update ]'}, {}, "apt-get install chromium failed"),
        ({"chromium": "exit 0"}, {"CHROMIUM": "/no/such/browser"}, "CHROMIUM=/no/such/browser is no program"),
    ],
)
def test_where_it_cannot_be_installed_the_reason_and_the_remedy_are_named(tmp_path, scripts, environment, named):
    ran = chromium(programs(tmp_path / "bin", **scripts), **environment)
    assert ran.returncode == 1 and ran.stdout == ""
    assert named in ran.stderr and "let" in ran.stderr and ran.stderr.count("\n") == 1


def test_the_lowest_versions_are_those_of_pyproject():
    script = [sys.executable, CHECKOUT / ".ci/lowest.py", "test"]
    printed = subprocess.run(script, cwd=CHECKOUT, capture_output=True, text=True, check=True, timeout=30).stdout
    pins = printed.split()
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    required = {r.replace(" ", "").replace(">=", "==") for r in project["dependencies"]}
    assert required <= set(pins) and all("==" in pin for pin in pins)
    assert len({pin.split("==")[0] for pin in pins}) == len(pins), "each package once"
    assert any(pin.startswith("pytest==") for pin in pins)


def test_colab_has_what_the_course_asks_for():
    """docs/colab.txt pins versions that pyproject.toml allows; what it leaves out, Colab has to install."""
    pinned = dict(
        line.split("==") for line in (CHECKOUT / "docs/colab.txt").read_text("utf-8").splitlines() if "#" not in line
    )
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    asked = dict(re.split(r"\s*>=\s*", requirement) for requirement in project["dependencies"])
    assert set(asked) - set(pinned) == {"hypothesis"}
    for name, lowest in asked.items():
        if name in pinned:
            assert as_numbers(pinned[name]) >= as_numbers(lowest), name


def as_numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]


def test_each_extra_for_a_gpu_is_resolved_for_three_pythons():
    script = (CHECKOUT / ".ci/run").read_text(encoding="utf-8")
    pythons, extras = (re.search(rf"for {name} in (.*); do", script)[1].split() for name in ("python", "extras"))
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    of_gpu = {name for name, asked in project["optional-dependencies"].items() if "numba-cuda" in " ".join(asked)}
    assert project["requires-python"] == f">={pythons[0]}" and pythons == ["3.11", "3.12", "3.13"]
    assert of_gpu == set(",".join(extras).split(",")) and "cu13,ptx" in extras  # what fits both fits either alone


def test_each_extra_with_cupy_is_installed_and_imported():
    """By the oldest and the newest Python; what goes together is imported together too."""
    script = (CHECKOUT / ".ci/run").read_text(encoding="utf-8")
    pythons, extras = zip(*re.findall(r'^    imports_with "\$(\w+)" (\S+)$', script, flags=re.MULTILINE), strict=True)
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    with_cupy = [extra for extra, asked in project["optional-dependencies"].items() if "cupy" in " ".join(asked)]
    assert sorted(extras) == sorted([*with_cupy, "cu13,ptx"])
    assert dict(zip(extras, pythons, strict=True)) == {"cu12": "colab", "cu13,ptx": "colab", "cu13": "python"}


def test_what_runs_at_once_is_all_printed_and_fails_if_one_fails(tmp_path):
    """Also where a command before a function's last one fails, and where another function is done long after it."""
    script = (CHECKOUT / ".ci/run").read_text(encoding="utf-8")
    (at_once,) = re.findall(r"^at_once\(\) \{.*?^\}$", script, flags=re.DOTALL | re.MULTILINE)
    functions = "good() { sleep 0.3; echo late; }\nbad() { false; echo unreached; }\n"
    for asked, code, said in (("good", 0, "late\n"), ("bad good", 1, "bad failed:\nlate\n")):
        lines = f"set -euo pipefail\nscratch={tmp_path}\n{at_once}\n{functions}at_once {asked}\necho goes on\n"
        ran = subprocess.run(["bash", "-c", lines], capture_output=True, text=True, timeout=30)
        assert (ran.returncode, ran.stdout, ran.stderr) == (code, said + "goes on\n" * (not code), "")


@pytest.mark.skipif(not (CHECKOUT / ".git").exists(), reason="only a clone can be archived")
def test_the_whole_tree_has_at_most_58_mib():
    """What a clone unpacks to: recorded outputs are packed, and weights are float16."""
    archive = subprocess.run(["git", "archive", "HEAD"], cwd=CHECKOUT, capture_output=True, check=True).stdout
    assert len(archive) <= 58 * 2**20
