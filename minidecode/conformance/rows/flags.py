"""The flag that a step of beam search returns to the host: inputs that find mistakes, and what is right."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from ...ops import ALL_DONE, FINE, MOVED, NONE_LEFT, NOT_A_NUMBER, PENALTY_TOO_STRONG, SOME_DONE, TROUBLE
from ..sizes import BOUNDARIES, MANY_ROWS, ROWS


def make_arguments(done: list, trouble: list, parents: list, model_trouble: list | None = None) -> tuple:
    """(done_X, trouble_X, parent_BW, model_trouble_R)"""
    model_trouble_R = None if model_trouble is None else np.array(model_trouble)
    return np.array(done), np.array(trouble), np.array(parents), model_trouble_R


@st.composite
def draw_inputs(draw):
    """One or two groups of beams of each sentence; mostly nothing is wrong, and hardly a beam moves."""
    B, W, groups = draw(st.integers(1, 3)), draw(st.integers(1, 3)), draw(st.integers(1, 2))
    trouble = st.sampled_from([FINE] * 9 + [NOT_A_NUMBER, NONE_LEFT, PENALTY_TOO_STRONG])
    sentences = groups * B
    parents = np.tile(np.arange(groups * W), (B, 1))
    if draw(st.booleans()):
        beam = st.integers(0, groups * W - 1)
        parents[draw(st.integers(0, B - 1)), draw(beam)] = draw(beam)
    rows = parents.size
    noted = st.lists(st.sampled_from([FINE] * 19 + [NOT_A_NUMBER]), min_size=rows, max_size=rows)
    return make_arguments(
        draw(st.lists(st.sampled_from([True, True, False]), min_size=sentences, max_size=sentences)),
        draw(st.lists(trouble, min_size=sentences, max_size=sentences)), parents.tolist(), draw(st.none() | noted),
    )  # fmt: skip


def planted_cases() -> list[tuple]:
    same, moved = [[0, 1], [0, 1]], [[0, 1], [1, 1]]
    fine = [FINE, FINE]
    cases = [
        make_arguments([False, False], fine, same),
        make_arguments([True, False], fine, same),
        make_arguments([True, True], fine, same),
        make_arguments([False, False], fine, moved),  # the last sentence's alone
        make_arguments([False, True], fine, [[0, 0], [0, 1]], [FINE] * 4),  # beam 0 twice
        make_arguments([False, False], [FINE, NONE_LEFT], same),
        make_arguments([False, True], [PENALTY_TOO_STRONG, FINE], same, [FINE] * 4),
        make_arguments([False, False], [NOT_A_NUMBER, FINE], same),
        make_arguments([False, False], fine, same, [FINE, FINE, FINE, NOT_A_NUMBER]),  # that a processor has hidden
        make_arguments([True, True], [NONE_LEFT, NOT_A_NUMBER], moved, [NOT_A_NUMBER] * 4),  # all at once
        make_arguments([True], fine[:1], [[0]]),
        make_arguments([True] * 3 + [False], [FINE] * 4, [[0, 1, 3, 2]] * 2, [FINE] * 8),  # two groups
    ]
    for B, W in [(33, 2), (129, 1), (2, 70), (300, 4)]:  # past warps and blocks, in sentences and beams
        parents = np.tile(np.arange(W), (B, 1))
        parents[-1, -1] = 0
        last = np.arange(B) == B - 1
        cases += [
            make_arguments(~last, [FINE] * B, parents),
            make_arguments(~last | True, NONE_LEFT * last, np.tile(np.arange(W), (B, 1))),
            make_arguments(last, FINE * last, parents, np.repeat(NOT_A_NUMBER * last, W)),
        ]
    return cases


def large_cases() -> list[tuple]:
    """Many sentences, and counts of them at the edges of blocks: only the last one is done, moves or is in trouble."""
    cases = []
    for B in (*BOUNDARIES, ROWS, MANY_ROWS):
        last, parents = np.arange(B) == B - 1, np.tile(np.arange(2), (B, 1))
        moved = np.where(last[:, None], 0, parents)
        cases += [make_arguments(last, [FINE] * B, parents), make_arguments(~last, NONE_LEFT * last, parents),
                  make_arguments(last, FINE * last, moved, np.repeat(NOT_A_NUMBER * last, 2))]  # fmt: skip
    return cases


def oracle(done_X, trouble_X, parent_BW, model_trouble_R):
    """Said by sets."""
    W = parent_BW.shape[1]
    troubles = set(trouble_X.tolist()) | set([] if model_trouble_R is None else model_trouble_R.tolist())
    stays = all(row == list(range(W)) for row in parent_BW.tolist())
    bits = {
        ALL_DONE: set(done_X.tolist()) == {True},
        SOME_DONE: True in done_X.tolist(),
        TROUBLE: troubles != {FINE},
        MOVED: not stays,
    }
    return np.array([sum(bit for bit, holds in bits.items() if holds)])


REPEATED = {}  # one block does all: it is predicted at the size of a step


def make_paper_inputs(*, seed: int = 0) -> tuple[tuple, str]:
    """A step of 32 sentences of 4 beams in which nothing is wrong; in every other one some are done, so the flag is
    never the one before.
    """
    rng = np.random.default_rng(seed)
    parents, done = rng.integers(0, 4, (32, 4)), (seed % 2 == 1) & (rng.random(32) < 0.25)
    done[seed % 32] = seed % 2 == 1
    return make_arguments(done, [FINE] * 32, parents, [FINE] * 128), "32 sentences of 4 beams"
