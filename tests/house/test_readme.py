"""The README keeps its word: its links lead somewhere, and its table is the benchmark's."""

import json
import re
from pathlib import Path

import pytest

from minidecode import conformance
from minidecode.bench.ladder import read_ladder
from minidecode.runtime.user_functions import find_function

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
LINKS = re.findall(r"\]\(([^)#:]+)\)", README)


@pytest.mark.parametrize("link", sorted(set(LINKS)))
def test_a_link_leads_somewhere(link):
    assert (ROOT / link).exists()


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("*.md")), ids=lambda page: page.name)
def test_the_links_of_a_page_lead_somewhere(page):
    text = re.sub(r"`[^`]*`", "", page.read_text(encoding="utf-8"))  # code is no link
    links = re.findall(r"\]\((?!https?:)([^)#]+)", text)
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_the_function_that_the_readme_shows_is_right(tmp_path):
    (code,) = [block for block in re.findall(r"```python\n(.*?)```", README, re.DOTALL) if "def ban(" in block]
    (tmp_path / "mine.py").write_text(code, encoding="utf-8")
    verdict = conformance.check("ngram", find_function(f"{tmp_path / 'mine.py'}:ban"), examples=10)
    assert verdict.ok and not verdict.warnings, str(verdict)


def test_the_table_is_the_one_that_the_benchmark_wrote():
    results = json.loads((ROOT / "benchmarks" / "results" / "first-rungs-cpu.json").read_text(encoding="utf-8"))
    table = README.split("first_rungs.py -->")[1].split("<!-- end of first-rungs")[0]
    for row in results["rows"]:
        assert f"| {row['plan']} | {row['tokens_per_second']:,.0f} (" in table
        assert f"| {row['speedup']}x |" in table


def test_the_ladder_is_the_one_that_was_measured():
    found = read_ladder(ROOT / "benchmarks" / "results" / "ladder-cpu.json")
    table = README.split("benchmarks/ladder.py -->")[1].split("<!-- end of ladder")[0]
    for s in found.measured:
        assert f"| {s.name} | {s.samples_per_second:,.1f} (" in table and f"| {s.speedup_total:.1f}x |" in table


def test_the_readme_names_the_texts_that_the_cards_name():
    models = README.split("## Models\n")[1].split("\n## ")[0]
    for text in ("messages of US presidents", "*Moby-Dick*"):
        assert all(text in " ".join(words.split()) for words in (models, card("tiny-gpt2"), card("tiny-gpt2-mqa")))


def card(model: str) -> str:
    return (ROOT / "weights" / model / "README.md").read_text(encoding="utf-8")
