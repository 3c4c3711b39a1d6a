"""Figures of plans in space and time: what they show is what was planned."""

import re

import pytest

from minidecode.bench.ladder import Ladder
from minidecode.course.busy import draw_lanes
from minidecode.course.lifetimes import draw_lifetimes
from minidecode.course.race import draw_race, moments_to_show
from minidecode.course.recorded import recorded
from minidecode.course.stairs import draw_ladder
from minidecode.errors import InputError
from minidecode.lines.pipeline import Span
from minidecode.runtime.planner import Layout, Lifetime

TOLD = {"caption": "What lies where?", "alt": "Rectangles side by side and above each other, with letters."}
ARRAYS = (Lifetime("a", 64, 0, 1), Lifetime("b", 128, 1, 2), Lifetime("c", 60, 2, 2))


def boxes(canvas) -> dict[str, tuple]:
    """Tip -> (role, x, y, width, height)."""
    found = {}
    for part in canvas.parts:
        if tip := re.search(r"<title>(.*?)</title>", part):
            role = re.search(r'class="(\w+) edge"', part)[1]
            found[tip[1]] = (
                role,
                *(float(re.search(rf' {k}="([\d.]+)"', part)[1]) for k in ("x", "y", "width", "height")),
            )
    return found


def test_bricks_lie_where_the_layout_says():
    figure = draw_lifetimes({"p": Layout(ARRAYS, (128, 0, 128), "x")}, name="99-b", calls=["f", "g", "h"], **TOLD)
    assert figure.labels[1] == "Call 1, g: writes b; a must stay; 192 bytes alive."
    assert figure.labels[2] == "Call 2, h: writes c; b must stay; 192 bytes alive."
    for frame, roles in zip(figure.canvases, (["mark", "paper", "paper"], ["mid", "mark", "paper"],
                                              ["pale", "mid", "mark"]), strict=True):  # fmt: skip
        a, b, c = (next(v for tip, v in boxes(frame).items() if tip.startswith(f"{x}:")) for x in "abc")
        assert [a[0], b[0], c[0]] == roles
        assert a[4] == c[4] == b[4] / 2, "60 bytes fill a line"
        assert a[2] + a[4] == b[2] == c[2] + c[4], "a and c stand on b"
        assert a[3] == b[3] == pytest.approx(2 * c[3], abs=0.01) and a[1] < b[1] < c[1]


def test_layouts_side_by_side_have_one_scale():
    low, high = Layout(ARRAYS, (128, 0, 128), "x"), Layout(ARRAYS, (0, 64, 192), "x")
    (canvas,) = draw_lifetimes({"low": low, "high": high}, name="99-b", **TOLD).canvases
    b = [v for tip, v in boxes(canvas).items() if tip.startswith("b:")]
    assert len(b) == 2 and b[0][4] == b[1][4] and all(v[0] == "mid" for v in b)


def test_lanes_are_to_one_scale_and_say_how_busy_a_thread_was():
    slow = [Span("caller", "generate", 1, 0, 0, 0.0, 6.0), Span("caller", "post-process", 1, 0, 0, 6.0, 8.0)]
    fast = [Span("caller", "generate", 1, 0, 0, 0.0, 3.0), Span("text 1", "post-process", 1, 0, 0, 3.0, 4.0)]
    (canvas,) = draw_lanes({"slow": slow, "fast": fast}, name="99-l", unit="ticks", **TOLD).canvases
    found = boxes(canvas)
    assert found["generate 1: 0 to 6 ticks"][3] == 2 * found["generate 1: 0 to 3 ticks"][3]
    words = " ".join(canvas.parts)
    for said in ("slow: 8 ticks", "fast: 4 ticks", "calling thread: busy 75%", "text 1: busy 25%"):
        assert said in words


def test_a_race_shows_what_was_printed_by_then():
    runs = {"slow": [(4.0, "we"), (8.0, " go"), (16.0, " on")], "fast": [(1.0, "we"), (1.5, " go"), (2.0, " on")]}
    assert moments_to_show(runs, 3) == [1.0, 2.0, 16.0]
    assert moments_to_show(runs, 4) == pytest.approx([1.0, 2.0, 32**0.5, 16.0])
    figure = draw_race(runs, name="99-r", unit="ticks", most=3, **TOLD)
    assert figure.labels[1] == "After 2 ticks: slow 0 of 3 tokens; fast 3 of 3 tokens."
    first, last = (" ".join(f.parts) for f in (figure.canvases[0], figure.canvases[-1]))
    assert ">we<" in first and "we go" not in first and last.count(">we go on<") == 2
    assert len({f.height for f in figure.canvases}) == 1


def test_a_ladder_is_drawn_by_what_its_seconds_go_to():
    ladder = Ladder.from_dict(recorded("ladder-cpu"))
    (canvas,) = draw_ladder(ladder, name="99-s", **TOLD).canvases
    bars = [p for p in canvas.parts if "<title>" in p]
    assert len(bars) == 5 * len(ladder.measured)
    wide = [sum(float(re.search(r'width="([\d.]+)"', b)[1]) for b in bars[k : k + 5]) for k in range(0, len(bars), 5)]
    seconds = [s.seconds[0] for s in ladder.measured]
    assert wide[0] == pytest.approx(max(wide), abs=0.1), "the first is cut"
    for k in range(1, len(wide)):
        assert wide[k] / wide[1] == pytest.approx(seconds[k] / seconds[1], rel=1e-3)
    products = [float(re.search(r'width="([\d.]+)"', b)[1]) for b in bars[::5]]
    of_products = [s.seconds[0] * s.shares["products"] / sum(s.shares.values()) for s in ladder.measured]
    room = wide[0]
    for k in range(len(wide)):  # of the first, too: it is cut, not made smaller
        assert products[k] == pytest.approx(min(room, products[1] * of_products[k] / of_products[1]), rel=1e-3, abs=0.1)
    words = " ".join(canvas.parts)
    assert words.count("not carried on") == sum(not s.carried for s in ladder.measured) > 0
    assert words.count(", cut") == 1


def test_a_result_that_was_not_recorded_is_said_so():
    with pytest.raises(InputError, match="no results 'nothing'"):
        recorded("nothing")
