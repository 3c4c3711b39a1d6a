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


def fitted(pages, body: str) -> str:
    context = {"body": body, "pathto": lambda page: f"../{page}.html"}
    pages.fit(None, "tutorials/02_key_value_cache", "page.html", context, None)
    return context["body"]


def table(*cells: str) -> str:
    heads = "".join(f"<th>head{k}</th>" for k in range(len(cells)))
    row = "".join(f"<td>{cell}</td>" for cell in cells)
    return f'<table class="docutils"><thead><tr>{heads}</tr></thead><tbody><tr>{row}</tr></tbody></table>'


def test_a_table_breaks_names_at_their_marks_and_no_words(pages):
    body = fitted(pages, table("attend_split(q, 1,024 or 0.5) of FastSeq", '<a href="a_b.html">x</a>'))
    assert "<td>attend_<wbr>split(<wbr>q, 1,024 or 0.5) of FastSeq</td>" in body
    assert '<a href="a_b.html">x</a>' in body


def test_a_table_that_is_too_wide_for_a_phone_names_the_column_of_each_cell(pages):
    narrow, long = fitted(pages, table("one", "2", "3")), fitted(pages, table("one", "x" * 20, "y" * 20))
    assert "data-label" not in narrow
    assert "many-columns" in long and f'<td data-label="head1">{"x" * 20}</td>' in long
    assert "many-columns" in fitted(pages, table(*"1234")) and "most-columns" in fitted(pages, table(*"12345678"))


def test_a_printed_receipt_is_a_table_whose_ops_lead_to_their_pages(pages):
    from minidecode.runtime.receipt import OpCount, Receipt

    ops = {"attend_split": OpCount("minidecode.cpu.split.attend_split (split.py:32)", 1200, 0.25, 3_500_000)}
    receipt = Receipt(plan="fast", ops=ops | {"gather_rows": OpCount("mine.py:f", 7)}, chosen="auto came to fast")
    body = fitted(pages, f'<div class="highlight"><pre><span></span>before\n{receipt}\n</pre></div>')
    assert '<a class="reference internal" href="../docs/ops/split.html">attend_<wbr>split</a></td>' in body
    assert '<td data-label="calls">1200</td><td data-label="seconds">0.250</td><td data-label="MB">3.5</td>' in body
    assert '<td data-label="op">gather_<wbr>rows</td>' in body
    assert body.index("before") < body.index("plan fast") < body.index("<table") < body.index("auto came to fast")
    assert body.count("<pre>") == body.count("</pre>") == 2 and "seconds         MB" not in body


def test_what_differs_between_machines_is_said_to_be_the_builders(pages):
    cell = '<div class="cell {}docutils container">in <div class="cell_output docutils container">0.5 s</div></div>\n'
    silent = '<div class="cell tag_volatile docutils container">in</div>\n'
    body = fitted(pages, silent + cell.format("") + cell.format("tag_volatile tag_hide-output "))
    assert body.count(pages.BUILDERS) == 1
    assert body.endswith(f'<div class="cell_output docutils container"><p>{pages.BUILDERS}</p>0.5 s</div></div>\n')
