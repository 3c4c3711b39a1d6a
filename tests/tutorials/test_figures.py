"""Figures drawn from what ran."""

import numpy as np
import pytest
from numba import cuda, float32

import minidecode as md
from minidecode.course import canvas as canvases
from minidecode.course.accesses import draw_epochs, traced_accesses
from minidecode.course.bars import draw_bars
from minidecode.course.windows import draw_windows
from minidecode.course.work import draw_work
from minidecode.cuda.ngram import block_per_row, thread_per_row
from minidecode.errors import InputError

TOLD = {"caption": "What is read?", "alt": "Cells of which some are dark, because they are read."}


@cuda.jit
def shifted(a, out):
    s = cuda.shared.array(4, float32)
    t = cuda.threadIdx.x
    s[t] = a[cuda.grid(1)]
    cuda.syncthreads()
    out[cuda.grid(1)] = s[(t + 1) % 4]


@cuda.jit
def shifted_too_soon(a, out):
    s = cuda.shared.array(4, float32)
    t = cuda.threadIdx.x
    s[t] = a[cuda.grid(1)]
    cuda.syncthreads()
    s[t] = s[(t + 1) % 4]
    out[cuda.grid(1)] = s[t]


def run_of(kernel):
    return md.emulate(kernel)[2, 4](np.arange(8, dtype=np.float32), np.zeros(8, np.float32))


def fills(canvas) -> list[str]:
    """The roles of the cells, without the legend."""
    cells = [p.split('class="')[1].split()[0] for p in canvas.parts if p.startswith("<g>")]
    return cells


def test_accesses_are_those_of_one_block():
    run = run_of(shifted)
    for block in (0, 1):
        done = traced_accesses(run, "s", block)
        assert sorted(a.index[0] for a in done if a.writes) == [0, 1, 2, 3]
        assert {(a.thread, a.index[0]) for a in done if not a.writes} == {(t, (t + 1) % 4) for t in range(4)}
        assert {a.epoch for a in done if a.writes} == {0} and {a.epoch for a in done if not a.writes} == {1}
        assert {a.index[0] for a in traced_accesses(run, "a", block)} == set(range(4 * block, 4 * block + 4))
    with pytest.raises(InputError, match="touched no array called b"):
        traced_accesses(run, "b")
    with pytest.raises(InputError, match="trace=False"):
        traced_accesses(md.emulate(shifted, trace=False)[2, 4](np.ones(8, np.float32), np.zeros(8, np.float32)), "s")


def test_epochs_show_written_then_read_and_a_race_where_both_meet():
    clean = draw_epochs(run_of(shifted), "s", name="99-x", **TOLD)
    assert clean.labels == (
        "Before the first barrier: 4 elements written by 4 threads.", "After barrier 1: 4 elements read by 4 threads.",
    )  # fmt: skip
    assert [fills(c)[:4] for c in clean.canvases] == [["mark"] * 4, ["mid"] * 4]
    raced = draw_epochs(run_of(shifted_too_soon), "s", name="99-x", **TOLD)
    assert [fills(c)[:4] for c in raced.canvases] == [["mark"] * 4, ["bad"] * 4]
    assert all(">race<" in svg for svg in raced.files().values())


def test_windows_show_what_each_thread_read_and_banned():
    tokens_RM, words = np.array([[0, 1, 2, 0, 1]]), ["we", "meet", "again"]
    text = [words[i] for i in tokens_RM[0]]
    found = {}
    for kernel in (thread_per_row, block_per_row):
        run = md.emulate(kernel)[1, 8](np.zeros((1, 3), np.float32), tokens_RM, np.array([5]), 3)
        found[kernel] = draw_windows(run, text, words, name="99-x", **TOLD)
    assert found[thread_per_row].labels == ("Thread 0: 9 loads of 5 tokens; it bans again.",)
    assert [label.split(":")[1] for label in found[block_per_row].labels] == [
        " 5 loads of 5 tokens; it bans again.", " 2 loads of 2 tokens; it bans nothing.",
        " 2 loads of 2 tokens; it bans nothing.",
    ]  # fmt: skip
    assert fills(found[block_per_row].canvases[1])[:5] == ["paper", "mid", "paper", "mid", "paper"]


def test_a_row_without_a_ban_is_drawn_too():
    run = md.emulate(block_per_row)[1, 8](np.zeros((1, 3), np.float32), np.array([[0, 1, 2]]), np.array([3]), 2)
    assert "it bans nothing" in draw_windows(run, "abc", "abc", name="99-x", **TOLD).labels[0]


def test_work_is_counted_and_what_is_done_again_is_told():
    figure = draw_work({"all": [range(2), range(3)], "new": [range(2), [2]]}, name="99-x", **TOLD)
    assert figure.labels[1] == "Step 2, positions computed: all 3, new 1."
    cells = fills(figure.canvases[1])
    assert cells[:6] == ["strong", "strong", "paper", "pale", "pale", "strong"]
    assert cells[6:12] == ["strong", "strong", "paper", "paper", "paper", "strong"]


def test_bars_are_as_long_as_their_values_and_stay_inside():
    values = {"keys": 1e9, "values": 5e8, "nothing": 0}
    canvas = draw_bars(values, name="99-x", point="values", say=lambda v: f"{v / 1e6:,.0f} MB", **TOLD).canvases[0]
    widths = [float(p.split('width="')[1].split('"')[0]) for p in canvas.parts if p.startswith("<g>")]
    assert widths[1] == pytest.approx(widths[0] / 2, rel=1e-4) and widths[2] == 0 and fills(canvas)[1] == "strong"
    assert 10 + widths[0] + 6 + len("1,000 MB") * canvases.LETTER <= canvas.width
