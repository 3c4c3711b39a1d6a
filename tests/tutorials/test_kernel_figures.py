"""Figures of the chapters on kernels, drawn from runs of the emulator."""

import numpy as np
import pytest
from numba import cuda, float32

import minidecode as md
from minidecode.conformance.kernel_types import check_types
from minidecode.course.dram import Launch, draw_launches, launch_of, number_of_arrows
from minidecode.course.lanes import draw_requests
from minidecode.course.strips import draw_strips
from minidecode.course.survivors import draw_survivors, draw_ways
from minidecode.course.transpose import draw_turn, turn_by_padded_tiles, turn_by_tiles
from minidecode.errors import InputError

TOLD = {"caption": "What is read?", "alt": "Cells of which some are dark, because they are read."}


def fills(canvas) -> list[str]:
    """The roles of the cells, legends included."""
    return [p.split('class="')[1].split()[0] for p in canvas.parts if p.startswith("<g>")]


def lines(canvas) -> int:
    return sum(p.startswith('<path class="line"') for p in canvas.parts)


@cuda.jit
def pairs(a, out):
    s = cuda.shared.array(4, float32)
    t = cuda.threadIdx.x
    s[t] = a[t]
    cuda.syncthreads()
    if t < 2:
        s[t] += s[t + 2]
    cuda.syncthreads()
    out[t] = s[0]


@cuda.jit
def pairs_too_soon(a, out):
    s = cuda.shared.array(4, float32)
    t = cuda.threadIdx.x
    s[t] = a[t]
    cuda.syncthreads()
    s[t] += s[t ^ 2]
    cuda.syncthreads()
    out[t] = s[0]


def strips_of(kernel):
    run = md.emulate(kernel)[1, 4](np.arange(4, dtype=np.float32), np.zeros(4, np.float32))
    return draw_strips(run, "s", name="99-x", **TOLD)


def test_a_strip_for_each_epoch_and_an_arrow_from_what_is_read_to_what_is_written():
    figure = strips_of(pairs)
    assert figure.labels == (
        "Epoch 0, before the first barrier, 4 threads: 4 written.",
        "Epoch 1, after barrier 1, 2 threads: 4 read, 2 written.",
        "Epoch 2, after barrier 2, 4 threads: 1 read.",
    )
    last = fills(figure.canvases[-1])
    assert last[:4] == ["mark"] * 4
    assert last[4:8] == ["strong", "strong", "mid", "mid"]
    assert last[8:12] == ["mid", "paper", "paper", "paper"]
    assert [lines(c) for c in figure.canvases] == [0, 6, 6], "0 to 0, 2 to 0 with a head, and the same for 1 and 3"


def test_a_race_is_crossed_where_one_writes_and_another_reads():
    figure = strips_of(pairs_too_soon)
    assert figure.labels[1].endswith("a race on 4.")
    assert fills(figure.canvases[1])[4:8] == ["bad"] * 4 and fills(figure.canvases[0])[:4] == ["mark"] * 4


def turned(kernel, rows=64, columns=64):
    a_RC = np.arange(rows * columns, dtype=np.float32).reshape(rows, columns)
    b_CR = np.zeros((columns, rows), np.float32)
    run = md.emulate(kernel)[(-(-columns // 32), -(-rows // 32)), (32, 32)](a_RC, b_CR)
    assert run.ok and np.array_equal(b_CR, a_RC.T)
    return run


@pytest.mark.parametrize("kernel", [draw_turn, turn_by_tiles, turn_by_padded_tiles])
def test_matrices_of_any_size_are_turned_round(kernel):
    turned(kernel, 33, 5), turned(kernel, 7, 40)
    assert check_types(kernel, (float32[:, ::1], float32[:, ::1])) == []


def test_tiles_save_sectors_and_padding_saves_passes():
    counts = [(r.sectors, r.bank_conflicts) for r in map(turned, (draw_turn, turn_by_tiles, turn_by_padded_tiles))]
    assert counts == [(512 + 4096, 0), (1024, 128 * 31), (1024, 0)]


def test_a_request_is_drawn_over_its_sectors():
    figure = draw_requests(turned(draw_turn), name="99-x", **TOLD)
    assert figure.labels == (
        "Loads a_RC[0, 0] to a_RC[0, 31], global memory: 128 bytes wanted, 4 sectors (128 bytes) moved.",
        "Stores b_CR[0, 0] to b_CR[31, 0], global memory: 128 bytes wanted, 32 sectors (1,024 bytes) moved.",
    )
    row, column = (fills(c)[32:-3] for c in figure.canvases)  # without lanes and legend
    assert row == ["mid"] * 32
    assert column == (["mid"] + ["pale"] * 7) * 32
    assert len({c.height for c in figure.canvases}) == 1


def test_a_request_is_drawn_over_the_banks():
    for kernel, passes in ((turn_by_tiles, 32), (turn_by_padded_tiles, 1)):
        figure = draw_requests(turned(kernel), name="99-x", array="tile", **TOLD)
        assert figure.labels[1].endswith(f"128 bytes wanted, {passes} pass{'es' * (passes > 1)}.")
        assert fills(figure.canvases[1])[32:-3].count("mark") == passes - 1


@cuda.jit
def same(a, out):
    out[cuda.threadIdx.x] = a[3]


def test_what_several_lanes_want_is_told_and_only_what_was_asked_for_is_drawn():
    run = md.emulate(same)[1, 8](np.zeros(8), np.zeros(8, np.float32))
    figure = draw_requests(run, name="99-x", array="a", **TOLD)
    assert len(figure.labels) == 1 and "8 bytes wanted, 1 sector (32 bytes)" in figure.labels[0]
    assert fills(figure.canvases[0])[32:40] == ["pale"] * 6 + ["strong"] * 2, "a float64 is two words"
    with pytest.raises(InputError, match="asked b for nothing"):
        draw_requests(run, name="99-x", array="b", **TOLD)


@cuda.jit
def squares(a, b, gain, out):
    k = cuda.grid(1)
    if k < a.size:
        b[k] = a[k] * a[k]
        out[k] = b[k] + gain[0]


def test_passes_are_counted_for_arrays_of_full_size_and_once_a_line():
    a, b, gain, out = np.ones(100), np.ones(100), np.ones(2), np.ones(100, np.float32)
    run = md.emulate(squares)[4, 32](a, b, gain, out)
    assert launch_of(run, 100) == Launch("squares", {"a": 1, "b": 1}, {"b": 1, "out": 1})


def test_each_pass_is_an_arrow_and_each_launch_a_box():
    log = [Launch("add", {"x": 1, "y": 1}, {"s": 1}), Launch("root", {}, {}), Launch("twice", {"s": 2}, {})]
    figure = draw_launches({"apart": log, "fused": [Launch("all", {"x": 1, "y": 1}, {"s": 1})]}, name="99-x", **TOLD)
    assert number_of_arrows(log) == 5
    assert figure.labels == (
        "apart: 3 launches, 5 passes over whole arrays.", "fused: 1 launch, 3 passes over whole arrays.",
    )  # fmt: skip
    assert [fills(c) for c in figure.canvases] == [["pale", "mid", "mid", "mid"], ["pale", "mid"]]
    assert [lines(c) for c in figure.canvases] == [5 * 3, 3 * 3], "a line in two pieces, and a head"
    assert len({c.height for c in figure.canvases}) == 1


TEN = [4, 1, 2, 6, 1, 3, 5, 4, 4, 5]


def test_survivors_are_shown_group_by_group():
    figure = draw_survivors(TEN, 4, name="99-x", **TOLD)
    assert figure.labels == (
        "10 scores in 4 groups.", "The maxima of the groups: 4, 5, 5, 6.", "The least of them is 4, and 6 scores pass.",
        "6 survivors; the best 4 are among them.",
    )  # fmt: skip
    maxima, survive = fills(figure.canvases[1])[:10], fills(figure.canvases[2])[:10]
    assert [k for k, fill in enumerate(maxima) if fill == "strong"] == [0, 3, 6, 9]
    assert [k for k, fill in enumerate(survive) if fill == "mark"] == [0, 3, 6, 7, 8, 9]


@pytest.mark.parametrize("way", [(4, np.greater), (2, np.greater_equal)])
def test_one_of_the_best_that_is_lost_is_crossed(way):
    figure = draw_ways(TEN, 4, {"right": (4, np.greater_equal), "wrong": way}, name="99-x", **TOLD)
    assert figure.labels[0] == "right: 6 survivors; the best 4 are among them."
    assert figure.labels[1] == "wrong: 3 survivors; 1 of the best 4 lost."
    right, wrong = (fills(c) for c in figure.canvases)
    assert "bad" not in right and wrong[0] == "bad" and wrong[10:14] == ["strong"] * 3 + ["bad"]


def test_a_row_too_long_to_draw_is_refused():
    with pytest.raises(InputError, match="11 groups of 8"):
        draw_survivors(np.arange(100), 4, name="99-x", **TOLD)
