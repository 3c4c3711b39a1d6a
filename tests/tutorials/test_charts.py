"""Figures that put numbers in places: charts, brackets, and what was recorded."""

import re
import tomllib
from pathlib import Path

import numpy as np
import pytest

from minidecode.bench.machines import Machine
from minidecode.course.brackets import draw_brackets
from minidecode.course.chart import Axis, Chart
from minidecode.course.fan import draw_fan, who_reads
from minidecode.course.recorded import Yours, recorded
from minidecode.course.roofline import Spot, draw_roofline, roof_at
from minidecode.course.slots import draw_slots
from minidecode.errors import InputError
from minidecode.reference import grouped


def test_places_on_a_chart_follow_the_values():
    chart = Chart(400, 300, Axis("x", 1, 100, (1, 10, 100)), Axis("y", 0, 4, (0, 2, 4), log=False))
    (x1, y1), (x10, y2), (x100, y4) = chart.to_pixels(1, 0), chart.to_pixels(10, 2), chart.to_pixels(100, 4)
    assert x10 - x1 == pytest.approx(x100 - x10) and y1 - y2 == pytest.approx(y2 - y4) and y4 < y1
    with pytest.raises(ValueError, match="outside of 1 to 100, the axis of 'x'"):
        chart.mark(101, 1, "a")
    chart.mark(10, 2, "a", tip="here")
    assert ">a<" in chart.canvas.svg() and "<title>here</title>" in chart.canvas.svg()


def test_words_stay_on_the_canvas():
    chart = Chart(400, 300, Axis("x", 1, 100, (1, 100)), Axis("y", 1, 10, (1, 10)))
    chart.word(100, 2, "a long name", anchor="start")
    assert float(chart.canvas.parts[-1].split('x="')[1].split('"')[0]) < 400 - 80


def test_both_brackets_show_the_same_scores():
    q_K, w_KD, h_ND = np.array([2.0, 1]), np.array([[1.0, 0, 2], [0, 3, 1]]), np.arange(12.0).reshape(4, 3)
    figure = draw_brackets(q_K, w_KD, h_ND, name="99-b", caption="Which?", alt="Two ways to put a pair of brackets.")
    scores = [f">{v:g}<" for v in h_ND @ w_KD.T @ q_K]
    assert all(word in svg for word in scores for svg in figure.files().values())
    assert "keys of 64 bytes" in figure.labels[0] and "8 multiplications" in figure.labels[0]
    assert "hidden states of 96 bytes" in figure.labels[1] and "18 multiplications" in figure.labels[1]


def test_recorded_results_are_read_and_the_readers_own_are_not_kept():
    assert recorded("skinny-gemm-cpu")["products"]
    with pytest.raises(InputError, match="there are no results"):
        recorded("no-such-thing")
    figure = draw_brackets(np.ones(1), np.ones((1, 1)), np.ones((1, 1)), name="99-b", caption="Which?", alt="x" * 30)
    assert Yours(figure)._repr_html_() == figure._repr_html_() and repr(Yours(figure)).startswith("Which?")


def test_a_roofline_has_its_corner_at_the_balance_and_spots_where_they_belong():
    machine = Machine("m", 10e9, 80e9, "made up")
    assert roof_at(machine, 4) == 40e9 and roof_at(machine, 8) == roof_at(machine, 99) == 80e9
    spots = [Spot("a", "measured", 0.5, 4e9), Spot("b", "by its counts", 16)]
    svg = draw_roofline(machine, spots, name="99-r", caption="Where?", alt="A roof, " + "x" * 30).files()["99-r.svg"]
    assert "8 a byte" in svg and "at most 80 G" in svg and ">a: measured<" in svg
    assert svg.count('class="strong edge"') == svg.count('class="paper edge"') == 1


def test_the_fan_is_found_by_asking():
    assert who_reads(grouped.attend, 8, 2) == [0, 0, 0, 0, 1, 1, 1, 1]
    assert who_reads(grouped.attend, 3, 3) == [0, 1, 2] and who_reads(grouped.attend, 4, 1) == [0] * 4

    def interleaved(q_RHK, k_RGMK, v_RGMU, *rest):  # h % G, a common mistake
        order = [0, 2, 1, 3]
        return grouped.attend(q_RHK[:, order], k_RGMK, v_RGMU, *rest).reshape(1, 4, 1)[:, order]

    assert who_reads(interleaved, 4, 2) == [0, 1, 0, 1]
    figure = draw_fan([("One.", [0, 0, 0])], name="99-f", caption="Who?", alt="Three lines into one cell, a fan.")
    svg = figure.files()["99-f.svg"]
    assert "3 query heads, 1 of keys and values" in svg and svg.count('class="line"') == 3


def test_slots_tell_what_went_over_what():
    log = [[0, None], [0, 1], [2, 1]]
    figure = draw_slots("abc", log, name="99-s", caption="What?", alt="Three letters above two slots, one by one.")
    assert figure.labels == (
        "Position 0: 0 into slot 0.", "Position 1: 1 into slot 1.", "Position 2: 2 into slot 0, over 0."
    )  # fmt: skip


def test_an_installed_package_has_the_results_that_chapters_draw():
    root = Path(__file__).parents[2]
    chapters = "".join(p.read_text(encoding="utf-8") for p in sorted((root / "tutorials").glob("*.md")))
    drawn = set(re.findall(r'recorded\("([^"]+)"\)', chapters))
    wheel = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    packed = {k: v for k, v in wheel["force-include"].items() if k.startswith("benchmarks/")}
    assert drawn and packed == {f"benchmarks/results/{n}.json": f"minidecode/results/{n}.json" for n in drawn}
