"""The pictures with which chapters open say what their numbers say."""

import numpy as np
import pytest

from minidecode.course.attention import draw_attention
from minidecode.course.busy import draw_lanes, spans_of_schedule
from minidecode.course.filling import draw_filling
from minidecode.course.following import draw_following
from minidecode.course.halving import draw_halving
from minidecode.course.lifetimes import draw_lifetimes, layout_of
from minidecode.course.order import draw_order
from minidecode.course.reuse import draw_reuse
from minidecode.course.rounding import draw_rounding
from minidecode.course.windows import draw_matches

TOLD = {
    "name": "99-x",
    "caption": "What is to be seen?",
    "alt": "Cells, some of them dark, with a word in each of them.",
}


def fills(canvas) -> list[str]:
    """The roles of cells, in the order in which they are drawn."""
    return [p.split('class="')[1].split()[0] for p in canvas.parts if p.startswith("<g>")]


def test_attention_shows_each_share():
    figure = draw_attention(["we", "go"], [[1, 0], [0.25, 0.75]], **TOLD)
    assert figure.labels == ("Word 1, we, takes from we 100%.", "Word 2, go, takes from we 25%, go 75%.")
    assert [sum('stroke-width="' in p for p in c.parts) for c in figure.canvases] == [1, 2]


@pytest.mark.parametrize("seed", range(20))
def test_halving_ends_at_the_kth_largest(seed):
    rng = np.random.default_rng(seed)
    scores, k = rng.integers(0, 16, 9).tolist(), int(rng.integers(1, 10))
    figure = draw_halving(scores, k, 15, **TOLD)
    kth = sorted(scores, reverse=True)[k - 1]
    assert figure.labels[-1] == f"Only {kth} is left, and {sum(s >= kth for s in scores)} scores reach it."
    assert len(figure.labels) == 5, "four guesses for 16 values, whatever they are"
    assert fills(figure.canvases[-1])[1 : 1 + len(scores)] == ["mark" if s >= kth else "mid" for s in scores]


def test_threads_read_too_soon_without_a_barrier_alone():
    without, with_one = draw_order((1, 3, 2), **TOLD).canvases
    assert fills(without).count("bad") == 2 and "bad" not in fills(with_one)
    assert draw_order((2, 2, 2), **TOLD).labels[0].startswith("No barrier: 0 of 3 reads")


def test_a_cache_fills_by_one_position_a_step():
    figure = draw_filling(["we", "go"], ["on", "we"], **TOLD)
    assert [fills(c)[:4] for c in figure.canvases] == [
        ["mark", "mark", "paper", "paper"], ["mid", "mid", "mark", "paper"], ["mid", "mid", "mid", "mark"],
    ]  # fmt: skip


def test_rows_of_the_cache_follow_their_beams():
    figure = draw_following([["meet", "go"], ["on", "again"]], [[0, 0], [1, 0]], **TOLD)
    assert figure.labels[1] == "Step 2: beam 0 continues beam 1 by on, beam 1 continues beam 0 by again."
    assert fills(figure.canvases[1])[:10] == ["pale", "pale", "strong", "strong", "mark"] * 2


def test_a_weight_is_read_once_for_any_number_of_rows():
    figure = draw_reuse(2, 3, (1, 5), **TOLD)
    assert figure.labels == (
        "1 row: 6 weights are read, 6 multiplications are done.",
        "5 rows: 6 weights are read, 30 multiplications are done.",
    )


def test_weights_of_a_small_output_need_a_scale_of_their_own():
    figure = draw_rounding({"a": [-8.0, 4.0], "b": [-0.1, 0.1]}, 7, **TOLD)
    assert figure.labels[0].endswith("a 2 different values, b 1 different values.")
    assert figure.labels[1].endswith("a 2 different values, b 2 different values.")


def test_the_end_of_a_text_bans_what_followed_it_before():
    figure = draw_matches(["we", "go", "on", "we", "go"], 3, **TOLD)
    assert [fills(c)[:5].index("strong") if "strong" in fills(c)[:5] else None for c in figure.canvases] == [
        2,
        None,
        None,
    ]


def test_layouts_and_schedules_by_hand():
    layout = layout_of("by hand", {"A": (64, 0, 1, 0), "B": (128, 1, 2, 64)})
    assert layout.bytes == 192 and draw_lifetimes({"x": layout}, **TOLD).canvases
    spans = spans_of_schedule({"caller": [("read", 1, 0, 1), ("generate", 1, 1, 4)]})
    assert [(s.thread, s.begin, s.end) for s in spans] == [("caller", 0, 1), ("caller", 1, 4)]
    assert any(
        "caller" not in p and "4 ticks" in p for p in draw_lanes({"x": spans}, unit="ticks", **TOLD).canvases[0].parts
    )
