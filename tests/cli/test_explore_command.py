"""`minidecode explore`: the page, its name, the same as JSON, and nothing left where it fails."""

import json

import pytest

import minidecode as md

FEW = ["explore", "a story", "--max-new-tokens", 3]


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def test_without_options_it_compares_two_plans_under_four_beams(cli, toy, here):
    ran = cli(*FEW, "-m", toy)
    assert ran.code == 0 and ran.err.startswith("minidecode: out.html (0.") and ran.err.count("\n") == 1
    data = md.explore(md.load(toy), "a story", num_beams=4, max_new_tokens=3)
    assert (here / "out.html").read_text(encoding="utf-8") == data.html()
    assert ran.out.strip() == data.data["runs"][0]["texts"][0]["text"].strip()
    assert [plan["asked"] for plan in data.data["plans"]] == ["cache=replicated", "cache=split"]


def test_json_is_the_same_data(cli, toy, here):
    given = ["--plan", "cache=split", "--plan", "cache=indirect", "--beam", 2]
    ran = cli(*FEW, *given, "-m", toy, "--json")
    seen = md.explore(md.load(toy), "a story", plans=["cache=split", "cache=indirect"], num_beams=2, max_new_tokens=3)
    assert json.loads(ran.out) == json.loads(json.dumps(seen.data))
    assert ran.err == "" and not list(here.iterdir())
    both = cli(*FEW, *given, "-m", toy, "--json", "--output", "x.html")
    assert both.out == ran.out and "x.html" in both.err and (here / "x.html").exists()


def test_sampling_has_no_beams(cli, toy):
    assert json.loads(cli(*FEW, "-m", toy, "--do-sample", "--nbest", 2, "--json").out)["search"] == "sampling"


def test_a_failure_leaves_the_old_page(cli, fails, toy, here, monkeypatch):
    (here / "out.html").write_text("old", encoding="utf-8")
    monkeypatch.setattr("minidecode.course.explore.page.MOST_BYTES", 1000)
    assert "the page would have" in fails(*FEW, "-m", toy)
    assert "there is no folder" in fails(*FEW, "-m", toy, "--output", "no/such/x.html")
    assert [p.read_text(encoding="utf-8") for p in here.iterdir()] == ["old"]


def test_a_plan_may_not_be_given_twice(fails, toy):
    assert "cache=split is given twice" in fails(*FEW, "-m", toy, "--plan", "cache=split", "--plan", "cache=split")
