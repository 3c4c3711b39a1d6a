"""The README, the guide and the page of benchmarks are true: links, outputs, tables, figures, words."""

import json
import re
import shlex
import statistics
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from minidecode import conformance
from minidecode.bench.ladder import read_ladder
from minidecode.commands.cli import app
from minidecode.course.chapters import chapters
from minidecode.device.user_functions import find_function, load_python_file

ROOT = Path(__file__).parents[2]
LAUNCHES = ROOT / "benchmarks" / "launches.py"
RESULTS = ROOT / "benchmarks" / "results"
README = (ROOT / "README.md").read_text(encoding="utf-8")
BENCHMARKS = (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8")
GUIDE = sorted((ROOT / "docs" / "guide").glob("*.md"))
PAGES = [ROOT / "README.md", ROOT / "benchmarks" / "README.md", ROOT / "tutorials" / "README.md", *GUIDE]
COMPILES = {"low_precision.md", "plans.md"}  # their blocks take half a minute where no compiled code is on disk
PHRASES = (
    "whoever · nobody · is told why · are told · is told · held against · hold against · holds against · "
    "stands here several times · short of memory traffic · in a hundred · a fifth of · some hundred · lots of work · "
    "hangs on · hang on how · of one's own · is to hold · what is slower · what it comes to · beside others · "
    "comes whole · goes through it · meets what was asked · by turns with · quiet machine · looked through · "
    "asked for by the project"
)  # where docs/GLOSSARY.md does not list them

every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def in_words(text: str) -> str:
    return " ".join(text.split())


# Links and words


def test_the_readme_is_short():
    assert len(README.splitlines()) <= 130


@pytest.mark.parametrize(
    "page", [*PAGES, *sorted((ROOT / "docs").glob("*.md"))], ids=lambda p: str(p.relative_to(ROOT))
)
def test_the_links_of_a_page_lead_somewhere(page):
    text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)  # code is no link
    links = re.findall(r"\]\((?!https?:)([^)#]+)\)", text) + re.findall(r'(?:src|srcset)="([^"]+)"', text)
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize(
    "page", [*PAGES, *sorted((ROOT / "docs" / "ops").glob("*.md"))], ids=lambda p: str(p.relative_to(ROOT))
)
def test_an_anchor_is_a_heading(page):
    for link, anchor in re.findall(r"\]\((?!https?:)([^)#]*)#([^)]+)\)", page.read_text(encoding="utf-8")):
        target = (page.parent / link) if link else page
        headings = re.findall(r"^#+ (.+)$", target.read_text(encoding="utf-8"), re.MULTILINE)
        assert anchor in {re.sub(r"[^\w\- ]", "", h).strip().lower().replace(" ", "-") for h in headings}, anchor


def test_every_guide_page_is_in_the_index():
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    assert all(f"(guide/{page.name})" in index and f"\nguide/{page.stem}\n" in index for page in GUIDE)


def phrases() -> list[str]:
    """Those of the glossary's second list, or the ones above."""
    glossary = ROOT / "docs" / "GLOSSARY.md"
    text = glossary.read_text(encoding="utf-8") if glossary.exists() else ""
    listed = re.search(r"^## 2\. Phrases[^\n]*\n+(.*?)\n(?=\n|## |\Z)", text, re.DOTALL | re.MULTILINE)
    found = re.sub(r"\([^)]*\)", "", listed[1] if listed else PHRASES)
    return [in_words(phrase) for phrase in found.split("·")]


@every_page
def test_a_page_is_in_plain_english(page):
    text = in_words(page.read_text(encoding="utf-8")).lower()
    assert len(phrases()) > 20
    assert [phrase for phrase in phrases() if re.search(rf"\b{re.escape(phrase)}\b", text)] == []


# What the README's blocks print


def without_times(line: str) -> str:
    """A line with its seconds and speeds, and what stands in columns, made alike."""
    line = re.sub(r"\b[\d.,]+ tokens/s", "N tokens/s", line)
    line = re.sub(r"\b\d+\.\d+ s\b", "N s", line)
    line = re.sub(r"(?<=\d) +\d+\.\d{3} +(?=\d)", " N ", line)  # seconds in a receipt's table
    return re.sub(r" {2,}", "  ", line)


def fits(shown: str, printed: str) -> bool:
    """Whether the printed lines are those shown, where `...` stands for any number of lines."""
    pattern = "".join(r"(?:.*\n)*?" if line == "..." else re.escape(line) + r"\n"
                      for line in map(without_times, shown.splitlines()))  # fmt: skip
    return bool(re.fullmatch(pattern, "".join(without_times(line) + "\n" for line in printed.splitlines())))


def test_blocks_are_compared_line_by_line():
    assert fits("a\n...\nb in 0.1 s\n", "a\nx\ny\nb in 0.25 s")
    assert fits("op  3  0.001  2.0 z", "op  3   19.123   2.0 z")
    assert not fits("a\n...\nb", "a\nx") and not fits("a", "b") and not fits("a\n...", "x\na") and not fits("1", "2")


def test_the_console_blocks_print_what_they_show(tmp_path):
    shown = blocks(README, "console")
    assert shown
    for block in shown:
        command, _, output = block.removeprefix("$ ").partition("\n")
        program, *given = shlex.split(command)
        assert program == "minidecode"
        run = [sys.executable, "-m", "minidecode.commands.cli", *given]
        done = subprocess.run(
            run, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True
        )
        assert fits(output, done.stdout), done.stdout


def test_the_python_blocks_print_what_they_show(tmp_path):
    pairs = re.findall(r"^```python\n(.*?)^```\n```text\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
    assert len(pairs) == len(blocks(README, "python")) == 2
    for k, (code, output) in enumerate(pairs):
        path = tmp_path / f"block{k}.py"
        path.write_text(code, encoding="utf-8")
        done = subprocess.run([sys.executable, path], capture_output=True, text=True, check=True)
        assert fits(output, done.stdout), done.stdout


def test_the_command_of_the_course_starts_an_exercise(tmp_path):
    assert README.count("`minidecode exercise start 1`") == 2
    run = [sys.executable, "-m", "minidecode.commands.cli", "exercise", "start", "1"]
    subprocess.run(run, cwd=tmp_path, capture_output=True, check=True)
    assert (tmp_path / "my_exercises" / "01_guard.py").exists()


@pytest.mark.parametrize("page", [p for p in GUIDE if p.name not in COMPILES], ids=lambda page: page.name)
def test_the_python_blocks_of_the_guide_run(page, tmp_path):
    names = {}
    for k, code in enumerate(blocks(page.read_text(encoding="utf-8"), "python")):
        if "json_schema=" in code:
            pytest.importorskip("llguidance", reason="the extra `constrain` is not installed")
        path = tmp_path / f"block{k}.py"
        path.write_text(code, encoding="utf-8")  # the emulator shows a kernel's lines
        exec(compile(code, str(path), "exec"), names)


def test_the_function_that_the_guide_shows_is_right(tmp_path):
    text = (ROOT / "docs" / "guide" / "kernels.md").read_text(encoding="utf-8")
    (code,) = [block for block in blocks(text, "python") if "def ban(" in block]
    (tmp_path / "mine.py").write_text(code, encoding="utf-8")
    verdict = conformance.check("ngram", find_function(f"{tmp_path / 'mine.py'}:ban"), examples=10)
    assert verdict.ok and not verdict.warnings, str(verdict)


@every_page
def test_the_commands_that_a_page_shows_exist(page):
    """Each `minidecode ...` of a block has a command of that name, which has these options."""
    root = typer.main.get_command(app)
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    fences = [block for language, block in fenced if language in ("", "console")]
    shown = [line for fence in fences for line in re.findall(r"\bminidecode (\w[^\n#]*)", fence)]
    shown += re.findall(r"`minidecode ([^`]+)`", text)
    for line in shown:
        words = line.split()
        command = root.commands[words.pop(0)]
        if hasattr(command, "commands") and words:
            command = command.commands[words.pop(0)]
        known = {"--help"} | {name for p in command.params for name in (*p.opts, *p.secondary_opts)}
        assert [w for w in re.findall(r"(?<!\S)--?[a-z][a-z-]*", " ".join(words)) if w not in known] == [], line


# Tables and figures


def test_the_table_is_the_one_that_the_benchmark_wrote():
    results = json.loads((RESULTS / "first-rungs-cpu.json").read_text(encoding="utf-8"))
    table = BENCHMARKS.split("first_rungs.py -->")[1].split("<!-- end of first-rungs")[0]
    for row in results["rows"]:
        assert f"| {row['plan']} | {row['tokens_per_second']:,.0f} (" in table
        assert f"| {row['speedup']}x |" in table


def test_the_ladder_is_the_one_that_was_measured():
    found = read_ladder(RESULTS / "ladder-cpu.json")
    table = BENCHMARKS.split("benchmarks/ladder.py -->")[1].split("<!-- end of ladder")[0]
    for s in found.measured:
        assert f"| {s.name} | {s.samples_per_second:,.1f} (" in table and f"| {s.speedup_total:.1f}x |" in table


def test_the_picture_is_drawn_from_what_was_measured(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    script = load_python_file(ROOT / "benchmarks" / "ladder.py")
    found = read_ladder(RESULTS / "ladder-gpt2.json")
    for theme in script.THEMES:
        drawn = (ROOT / "docs" / "static" / f"ladder-{theme}.svg").read_text(encoding="utf-8")
        assert drawn == script.bars(found, theme)
        shown = [s for s in found.measured if f">{s.name}</text>" in drawn]
        assert len(shown) > 5 and all(s.differing == 0 and not s.other_precision for s in shown)
    assert (
        f"`{found.work['model']}`, {found.work['num_beams']} beams, {found.where['cores']} {found.where['processor']}"
        in README
    )


def test_the_speeds_are_those_that_were_measured():
    work = json.loads((RESULTS / "peers-cpu.json").read_text(encoding="utf-8"))["work"]
    table = README.split("## Speed")[1].split("\n\n")[2].splitlines()[2:]
    assert len(table) == len(work) == 4
    for row, (name, systems) in zip(table, work.items(), strict=True):
        ours = systems["minidecode fp32"]
        share = 100 * ours["limits"]["seconds"] / statistics.median(ours["seconds"])
        speeds = [best(systems, start) for start in ("minidecode fp32", "CTranslate2 fp32", "transformers")]
        assert row == f"| {name} | {speeds[0]} | {speeds[1]} | {speeds[2]} | {share:.0f} % |"


def best(systems: dict, start: str) -> float:
    return max(s["tokens_per_second"] for name, s in systems.items() if name.startswith(start))


def test_the_readme_says_what_int8_gains():
    work = json.loads((RESULTS / "peers-cpu.json").read_text(encoding="utf-8"))["work"]
    ratios = [best(systems, "minidecode int8") / best(systems, "CTranslate2 int8") for systems in work.values()]
    assert min(ratios) > 1
    assert f"`int8_dynamic` is {min(ratios):.1f} to {max(ratios):.1f} times as fast as CTranslate2's int8" in in_words(
        README
    )


def test_the_readme_names_the_first_chapters_and_the_hours_of_all():
    for c in chapters()[:3]:
        assert f"- [{c.number} {c.title}](tutorials/{c.path.name}), {c.minutes[1]} minutes with exercises" in README
    assert f"about {sum(c.minutes[1] for c in chapters()) / 60:.0f} hours" in README


def test_the_layers_are_as_they_were_counted(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    recorded, script = json.loads((RESULTS / "launches.json").read_text(encoding="utf-8")), load_python_file(LAUNCHES)
    for name, table in (("layers", script.table(recorded)), ("fusions", script.table_of_fusions(recorded))):
        assert f"<!-- {name}: written by benchmarks/launches.py -->\n{table}\n<!-- end of {name} -->" in BENCHMARKS


def test_the_benchmarks_say_how_much_faster_whole_models_are():
    models = json.loads((RESULTS / "whole-models-cpu.json").read_text(encoding="utf-8"))["whole_models"]
    ranges = []
    for name in ("all", "FastSeq"):
        factors = [model["plans"][name]["speedup"] for model in models]
        ranges.append(f"{min(factors):.2f} to {max(factors):.2f}")
    assert "everything {} times the baseline, FastSeq's techniques alone {};".format(*ranges) in BENCHMARKS


def test_the_page_of_low_precision_says_what_was_measured():
    text = (ROOT / "docs" / "guide" / "low_precision.md").read_text(encoding="utf-8")
    caches = json.loads((RESULTS / "low-precision-caches-cpu.json").read_text(encoding="utf-8"))["rows"]
    for op, shown in (("split, cpu", "takes {float16} ms a layer instead of {float32}."),
                      ("split, reference", "takes {float16} ms instead of {float32},")):  # fmt: skip
        (row,) = [r["milliseconds"] for r in caches if (r["op"], r["positions"]) == (op, 1024)]
        assert shown.format(**{k: f"{v[0]:.2f}" for k, v in row.items()}) in in_words(text)
    products = json.loads((RESULTS / "skinny-gemm-cpu.json").read_text(encoding="utf-8"))["products"]
    (times,) = [p["times"] for p in products if (p["model"], p["product"]) == ("gpt2", "up")]
    medians = {(t["rows"], t["way"]): t["milliseconds"][0] for t in times}
    for rows in (1, 4, 16):
        shown = [f"{medians[rows, way]:.2f}" for way in ("BLAS float32", "ours float32 by outputs", "ours int8")]
        assert f"| {rows} | {' | '.join(shown)} |\n" in text
    whole = json.loads((RESULTS / "int8-gemm-cpu.json").read_text(encoding="utf-8"))["products"]
    with_64 = [r["milliseconds"] for r in whole if r["rows"] == 64]
    with_more = [r["milliseconds"] for r in whole if r["rows"] > 64]
    assert "With 64 rows, `int8_dynamic` is three to four times as fast as `int8`." in in_words(text)
    assert 3 <= statistics.median(ms["int8"] / ms["int8_dynamic"] for ms in with_64) <= 4
    assert "With more rows it is about four times as fast as float32 by the BLAS," in in_words(text)
    assert round(statistics.median(ms["float32"] / ms["int8_dynamic"] for ms in with_more)) == 4


def test_the_page_of_low_precision_says_what_quality_was_measured():
    text = (ROOT / "docs" / "guide" / "low_precision.md").read_text(encoding="utf-8")
    rows = json.loads((RESULTS / "precision-quality.json").read_text(encoding="utf-8"))["rows"]
    of_gpt2 = {(r["variant"], r["dtype"]): r for r in rows if r["model"] == "tiny-gpt2"}
    for dtype in dict.fromkeys(r["dtype"] for r in rows):
        cells = []
        for variant in ("as it is", "outliers, divided back"):
            found = of_gpt2[variant, dtype]
            agrees = "" if dtype == "float32" else f"{found['agreement']:.1%}".replace("%", " %")
            cells += [f"{found['bits_per_byte']:.4f}", agrees]
        assert f"| {dtype} | {' | '.join(cells)} |".replace("  ", " ") in text
    restored = [r for r in rows if "scores" in r]
    scores = sorted(f"{r['scores']['rougeL']:.1f}" for r in restored)
    assert f"ROUGE-L is {scores[0]} to {scores[-1]}, and no difference from float32 is larger than chance" in in_words(
        text
    )
    assert all(low <= 0 <= high for r in restored if r["intervals"] for low, high in [r["intervals"]["rougeL"]])


def test_the_guide_names_the_texts_that_the_cards_name():
    models = (ROOT / "docs" / "guide" / "models.md").read_text(encoding="utf-8")
    for text in ("messages of US presidents", "*Moby-Dick*"):
        assert all(text in in_words(words) for words in (models, card("tiny-gpt2"), card("tiny-gpt2-mqa")))


def card(model: str) -> str:
    return (ROOT / "weights" / model / "README.md").read_text(encoding="utf-8")
