"""Figures of the chapters on kernels, drawn from runs of the emulator."""

import numpy as np
from numba import cuda, float32

import minidecode as md
from minidecode.course.strips import draw_strips

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
