"""`minidecode tutorial`: the chapters listed, and one of them as a notebook."""

import json
import sys

import pytest


def test_the_chapters_are_listed(cli):
    ran = cli("tutorial")
    assert ran.code == 0 and any(line.startswith("02  The key/value cache") for line in ran.out.splitlines())
    assert len({line.index(" minutes") for line in ran.out.splitlines()}) == 1, "one column"
    rows = json.loads(cli("tutorial", "--json").out)
    assert [r["chapter"] for r in rows] == sorted(r["chapter"] for r in rows)
    assert all(r["minutes"] < r["with_exercises"] for r in rows)


def test_a_notebook_is_written_and_never_over_another(cli, tmp_path):
    path = tmp_path / "mine.ipynb"
    assert cli("tutorial", "2", "--output", str(path)).code == 0
    written = path.read_text(encoding="utf-8")
    assert json.loads(written)["nbformat"] == 4
    ran = cli("tutorial", "2", "--output", str(path))
    assert ran.code == 1 and "is there already" in ran.err and path.read_text(encoding="utf-8") == written


@pytest.mark.skipif(sys.platform == "win32", reason="its shells quote otherwise")
def test_the_notebooks_name_can_be_pasted(cli, tmp_path):
    (tmp_path / "my notes").mkdir()
    path = tmp_path / "my notes" / "mine.ipynb"
    assert cli("tutorial", "2", "--output", str(path)).out == f"wrote '{path}'\n"
    assert json.loads(cli("tutorial", "2", "--output", f"{path}2", "--json").out)["file"] == f"{path}2"


def test_a_notebook_that_cannot_be_written_leaves_nothing(cli, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    ran = cli("tutorial", "2", "--output", str(tmp_path / "x.ipynb"))
    assert ran.code == 1 and "x.ipynb cannot be written: No space left" in ran.err and not list(tmp_path.iterdir())


def test_a_chapter_that_is_not_there(cli):
    ran = cli("tutorial", "77")
    assert ran.code == 1 and "there is no chapter '77'" in ran.err and "Traceback" not in ran.err


def test_a_file_without_a_chapter(cli, tmp_path):
    ran = cli("tutorial", "--output", str(tmp_path / "x.ipynb"))
    assert ran.code == 1 and "--output has no effect without a chapter" in ran.err and not list(tmp_path.iterdir())
