"""The pages of the ops, as they are written and as the site shows them, without building it."""

import re
import sys
from pathlib import Path

import pytest

from minidecode.catalog import CATALOG

ROOT = Path(__file__).parents[2]
OPS = ROOT / "docs" / "ops"


@pytest.fixture(scope="module", autouse=True)
def docs():
    """docs/ is where the site's scripts find each other."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "docs"))
        yield


def test_the_script_writes_what_is_stale_and_removes_what_is_no_row(tmp_path, monkeypatch, capsys):
    import write_ops

    (tmp_path / "ops").mkdir()
    (left := tmp_path / "ops" / "gone.md").write_text("", encoding="utf-8")
    monkeypatch.setattr(write_ops, "DOCS", tmp_path)
    monkeypatch.setattr(write_ops, "pages", lambda: {(tmp_path / "ops" / "split.md"): "as it should be"})
    monkeypatch.setattr(sys, "argv", ["write_ops.py", "--check"])
    monkeypatch.setattr(write_ops, "ROOT", tmp_path)
    with pytest.raises(SystemExit, match=r"ops/split\.md, ops/gone\.md: stale"):
        write_ops.main()
    monkeypatch.setattr(sys, "argv", ["write_ops.py"])
    write_ops.main()
    assert (tmp_path / "ops" / "split.md").read_text(encoding="utf-8") == "as it should be" and not left.exists()


def test_an_op_page_names_the_section_that_first_links_to_it(tmp_path, monkeypatch):
    import write_ops

    monkeypatch.setattr(write_ops, "DOCS", tmp_path / "docs")
    (tmp_path / "tutorials").mkdir()
    path = tmp_path / "tutorials" / "01_a.md"
    text = "# Title\n\n{}\n\n## Who wins?\n\n```python\n# a comment\n```\n\n{}\n\n## Exercises\n\n{}\n"
    for links, where in [
        (("", "", ""), None),
        (("", "", "[s](../docs/ops/split.md)"), "[Title](../../tutorials/01_a.md)"),
        (("[s](../docs/ops/split.md)", "", ""), "[Title](../../tutorials/01_a.md)"),
        (("[e](../docs/ops/el_split.md)", "[s](../docs/ops/split.md)", "[s](../docs/ops/split.md)"),
         "[Title: Who wins?](../../tutorials/01_a.md#who-wins)"),
    ]:  # fmt: skip
        path.write_text(text.format(*links), encoding="utf-8")
        assert write_ops.explained_in(path, CATALOG["split"]) == where


@pytest.mark.parametrize("path", sorted(OPS.glob("*.md")), ids=lambda p: p.stem)
def test_links_of_an_op_page_lead_somewhere(path):
    text = re.sub(r"```.*?```|`[^`]*`", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", text)
    assert len(links) >= 5
    for link in links:
        assert (path.parent / link).exists(), link


# A line of each version's function, as it stands in the code; the last of CUDA's versions, and what a mistake gives.
SHOWN = {
    "top_k": {
        "naive": "def top_k_filter_naive(", "numpy": "def top_k_filter(", "compiled": "@njit", "cuda": "@cuda.jit",
        "versions": 3, "mistakes": ("kth_goes_too", "ties_cut"), "recorded": "| v1 | 2031.63 |",
    },
    "gather": {
        "naive": "def gather_logprobs_naive(", "numpy": "def gather_logprobs(", "compiled": "There is none",
        "cuda": "@cuda.jit", "versions": 1, "mistakes": ("row_zero_for_all",), "recorded": "| reference naive |",
    },
    "shared": {
        "naive": "def attend_shared_naive(", "numpy": "def attend_shared(", "compiled": "def attend_shared(",
        "cuda": "def attend_shared(", "versions": 5, "mistakes": ("begin_ignored",),
        "recorded": "| 1 GB | v5 | 413.15 us |",
    },
}  # fmt: skip


@pytest.mark.parametrize("name", SHOWN)
def test_a_page_on_the_site_has_every_version_beside_the_others(name):
    import pages

    source, shown = [(OPS / f"{name}.md").read_text(encoding="utf-8")], SHOWN[name]
    pages.complete(None, f"docs/ops/{name}", source)
    page = source[0]
    assert "<!--" not in page and "The [site]" not in page
    for version in ("naive", "numpy", "compiled", "cuda"):
        column = page.split(f"````{{container}} version {version}\n")[1].split("\n````\n")[0]
        assert shown[version] in column, column
    assert len(re.findall(r"^\*\*Version \d+\.\*\* \w", page, re.MULTILINE)) == shown["versions"]
    assert page.count("```diff\n") == shown["versions"] - 1
    assert "| bytes moved |" in page and f"minidecode compare {name}" in page and shown["recorded"] in page
    for mistake in shown["mistakes"]:
        text = page.split(f"<details><summary><code>{mistake}</code>")[1].split("</details>")[0]
        assert "right is" in text and ("print(f(" in text or "Input: " in text)
    assert page.count("<details>") == page.count("</details>")


def test_every_op_has_recorded_times():
    import recorded

    assert [row.name for row in CATALOG.values() if not recorded.times_of(row.name, row.op)] == []


def test_the_boxes_of_the_anatomy_lead_to_pages_that_there_are():
    import pages

    links = re.findall(r"ops/(\w+)\.html", pages.anatomy())
    assert len(links) > 5 and all((OPS / f"{name}.md").exists() for name in links)


def test_every_kernel_version_has_its_sentence_and_every_sentence_its_version():
    import op_pages

    for row in CATALOG.values():
        if not (path := op_pages.file_of(row, "cuda")).exists():
            continue
        found = op_pages.kernel_versions(row)
        assert list(found) == list(range(1, len(found) + 1)) and found, row.name
        named = [f for f in op_pages.functions(path) if re.fullmatch(rf"{row.op}(_v\d+)?", f)]
        assert sorted(function for function, _ in found.values()) == sorted(named), row.name


def test_an_excerpt_has_what_a_function_needs_and_nothing_else(tmp_path):
    import excerpt

    (tmp_path / "other.py").write_text("def far():\n    return 1\n", encoding="utf-8")
    (file := tmp_path / "file.py").write_text(
        "from .other import far\nSIZE, MORE = 1, 2\nLEFT = 3\n\n\ndef first():\n    return 0\n\n\n@wraps(inner)\n"
        "def asked():\n    return inner() + SIZE\n\n\ndef inner():\n    return far() + first()\n\n\ndef not_needed():\n"
        "    return LEFT\n\n\nTABLE = {}\nTABLE[inner] = LEFT\n",
        encoding="utf-8",
    )
    code = excerpt.code_of(file, ["asked"], others=["first"])
    assert code == (
        "SIZE, MORE = 1, 2\n\n\n@wraps(inner)\ndef asked():\n    return inner() + SIZE\n\n\n"
        "def inner():\n    return far() + first()"
    )
    assert excerpt.borrowed(file, code) == {tmp_path / "other.py": ["far"]}


def test_text_as_markdown_keeps_its_words_and_its_code():
    import excerpt

    assert excerpt.as_markdown("2*R*a_b <x> `c*d` |") == r"2\*R\*a_b \<x> `c*d` \|"
