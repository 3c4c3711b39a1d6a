"""Figures that put numbers in places: charts, brackets, and what was recorded."""

import numpy as np
import pytest

from minidecode.course.brackets import draw_brackets
from minidecode.course.chart import Axis, Chart
from minidecode.course.recorded import Yours, recorded
from minidecode.errors import InputError


def test_places_on_a_chart_follow_the_values():
    chart = Chart(400, 300, Axis("x", 1, 100, (1, 10, 100)), Axis("y", 0, 4, (0, 2, 4), log=False))
    (x1, y1), (x10, y2), (x100, y4) = chart.place(1, 0), chart.place(10, 2), chart.place(100, 4)
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
    assert recorded("memory-bytes")["el_table_4"]
    with pytest.raises(InputError, match="is not there"):
        recorded("no-such-thing")
    figure = draw_brackets(np.ones(1), np.ones((1, 1)), np.ones((1, 1)), name="99-b", caption="Which?", alt="x" * 30)
    assert Yours(figure)._repr_html_() == figure._repr_html_() and repr(Yours(figure)).startswith("Which?")
