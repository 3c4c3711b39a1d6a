"""What the site is made of, without building it (`sphinx-build` and docs/check_site.py do that)."""

import importlib.util
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

import minidecode
from minidecode.course.chapters import chapters

ROOT = Path(__file__).parents[2]
SIZES = re.compile(r"font(?:-size)?: ?(?:[a-z0-9]+ )*(\d+(?:\.\d+)?)px")  # of a style


def script(name: str):
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def pages():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "docs"))  # as the site's configuration has it
        return script("pages")


def test_the_results_page_has_every_recorded_file(pages):
    page = pages.results()
    for path in (ROOT / "benchmarks" / "results").iterdir():
        assert f"(../benchmarks/results/{path.name})" in page


def test_the_results_page_names_the_machine_of_every_record(pages):
    page = pages.results()
    for path in (ROOT / "benchmarks" / "results").glob("*.json"):
        if path.stem not in ("quality", "translator-quality", "latent-quality"):  # scores of texts
            assert re.search(rf"^- \[{path.name}\]\(.*\): (machine: processor \w+|any machine)", page, re.MULTILINE), (
                path
            )


def test_the_results_page_has_every_table_that_a_script_wrote(pages):
    text = "".join((ROOT / p).read_text(encoding="utf-8") for p in ("benchmarks/README.md", "docs/tables.md"))
    page, marks = pages.results(), re.findall(r"<!-- ([\w-]+): written by (benchmarks/\w+\.py) -->\n(.*)\n", text)
    assert {"peers", "ladder", "ngram", "whole-models"} <= {name for name, *_ in marks}
    for _, script, first_line in marks:
        assert (ROOT / script).exists() and first_line in page


@pytest.mark.parametrize("path", sorted((ROOT / "benchmarks" / "results").glob("*.svg")), ids=lambda p: p.name)
def test_a_recorded_picture_can_be_read_on_a_phone(pages, path):
    """Its letters are 9 pixels high at the width that it is shown with; and it is offered alone."""
    root = ElementTree.fromstring(path.read_text(encoding="utf-8"))
    sizes = [
        float(size) for e in root.iter() for size in SIZES.findall(f"{e.get('style')};font-size:{e.get('font-size')}px")
    ]
    shown = "\n".join(pages.shown(path))
    told = re.search(r":width: (\d+)px", shown)
    assert sizes and min(sizes) * (int(told[1]) if told else 344) / float(root.get("viewBox").split()[2]) >= 9
    assert f"[The full picture: {path.name}](../benchmarks/results/{path.name})" in shown and shown in pages.results()


def test_the_api_page_has_every_public_name(pages):
    assert all(f":: minidecode.{name}\n" in pages.api() for name in minidecode.__all__)


def test_every_chapter_is_in_the_side_bar_and_generated_pages_are_filled(pages):
    for c in chapters():
        assert f"<../tutorials/{c.path.stem}>" in pages.list_of_chapters()
    for name in (*pages.GENERATED, "docs/catalog"):
        source = [(ROOT / f"{name}.md").read_text(encoding="utf-8")]
        before = source[0]
        pages.complete(None, name, source)
        assert source[0] != before and "<!-- here" not in source[0]


@pytest.mark.parametrize("path", sorted((ROOT / "docs").glob("*.md")), ids=lambda p: p.name)
def test_links_of_a_page_lead_somewhere(path):
    text = re.sub(r"```.*?```|`[^`]*`", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    for link in re.findall(r"\]\((?!https?:)([^)#\s]+)\)", text):
        assert (path.parent / link).exists(), link


def test_docstrings_are_shown_as_they_stand(pages):
    lines = ["One *sentence* of a_b.", "", "    x = y  (eq. 1)", "", "`code` | more"]
    pages.plain_docstring(None, "function", "f", None, None, lines)
    assert lines == [r"One \*sentence\* of a\_b.", "", "::", "", "        x = y  (eq. 1)", "", r"``code`` \| more", ""]


def test_the_link_checker_finds_what_is_broken(tmp_path):
    check = script("check_site")
    (tmp_path / "a.html").write_text(
        '<h1 id="here">A</h1><a href="b.html#there">x</a><a href="#here">y</a><a href="c.html">z</a>'
        '<a href="https://example.org">out</a><img src="b.html"><script src="https://example.org/x.js"></script>',
        encoding="utf-8",
    )
    (tmp_path / "b.html").write_text('<p id="there"></p><a href="a.html#nowhere">x</a>', encoding="utf-8")
    wrong, outside = check.check_links(tmp_path)
    assert outside == 2 and sorted(wrong) == [
        "a.html: an image without alternative text: b.html",
        "a.html: leads nowhere: c.html",
        "a.html: loads from outside: https://example.org/x.js",
        "b.html: no such place: a.html#nowhere",
    ]
