"""A step's end in greedy search and sampling: inputs that find mistakes, and what is right."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st

from ...ops import ALL_DONE, FINE, NONE_LEFT, NOT_A_NUMBER, SOME_DONE, TROUBLE
from ..sizes import MANY_ROWS, POSITIONS, ROWS

LONGEST = 8  # texts of the random inputs, and room for one token more


class Text(NamedTuple):
    """One row's part of the arguments."""

    token: int
    gained: float = -0.5
    is_certain: bool = False
    trouble: int = FINE
    total: float = -1.0
    new: int = 1  # tokens behind the prompt so far
    is_done: bool = False
    prompt: int = 2
    limit: int = 4


def make_arguments(texts: list[Text], eos: tuple[int, ...] = (0,), model_trouble: list | None = None) -> tuple:
    """The op's. No token of the texts stands twice."""
    column = {name: np.array([getattr(t, name) for t in texts]) for name in Text._fields}
    room = max(LONGEST, *(t.prompt + t.new for t in texts)) + 1
    tokens_RM = 100 + np.arange(len(texts) * room).reshape(len(texts), room)
    return (
        tokens_RM, column["token"], column["gained"].astype(np.float32), column["is_certain"], column["trouble"],
        column["total"].astype(np.float64), column["prompt"] + column["new"], column["is_done"], column["prompt"],
        column["limit"], np.array(eos, np.int64), None if model_trouble is None else np.array(model_trouble),
    )  # fmt: skip


@st.composite
def draw_inputs(draw):
    """Any state of a row; mostly nothing is wrong."""
    texts = []
    for _ in range(draw(st.integers(1, 4))):
        limit = draw(st.integers(1, 5))
        texts.append(Text(
            draw(st.integers(0, 4)), draw(st.sampled_from([-0.5, -1.25, 0.0, -1e-3])), draw(st.booleans()),
            draw(st.sampled_from([FINE] * 8 + [NOT_A_NUMBER, NONE_LEFT])), draw(st.sampled_from([0.0, -2.0, -0.1])),
            draw(st.integers(0, limit - 1)), draw(st.sampled_from([False, False, True])), draw(st.integers(0, 3)),
            limit,
        ))  # fmt: skip
    noted = st.lists(st.sampled_from([FINE] * 9 + [NOT_A_NUMBER]), min_size=len(texts), max_size=len(texts))
    return make_arguments(texts, draw(st.sampled_from([(0,), (), (2, 0)])), draw(st.none() | noted))


def planted_cases() -> list[tuple]:
    cases = [
        make_arguments([Text(3), Text(4)]),
        make_arguments([Text(0), Text(3)]),  # EOS is written too
        make_arguments([Text(0), Text(3, is_done=True)]),  # so all are done
        make_arguments([Text(3, new=3), Text(4, new=2)]),  # the last token that fits, and the one before
        make_arguments([Text(3, is_certain=True), Text(0, is_certain=True)]),
        make_arguments([Text(5), Text(2), Text(0)], (2, 5)),  # several EOS, and 0 is none of them
        make_arguments([Text(0), Text(1)], ()),  # no EOS
        make_arguments([Text(3, trouble=NONE_LEFT), Text(4)]),
        make_arguments([Text(3, trouble=NONE_LEFT, is_done=True), Text(4)]),  # who is done needs no token
        make_arguments([Text(0, gained=np.nan, trouble=NOT_A_NUMBER), Text(4)]),
        make_arguments(
            [Text(0, gained=np.nan, trouble=NOT_A_NUMBER, is_done=True), Text(4)]
        ),  # but the model is broken
        make_arguments([Text(3), Text(4)], model_trouble=[FINE, NOT_A_NUMBER]),  # that a processor has hidden
        make_arguments([Text(3), Text(4)], model_trouble=[FINE, FINE]),
        make_arguments([Text(0, is_done=True), Text(3, is_done=True)]),
        make_arguments([Text(3, prompt=0, new=0, limit=1), Text(3, prompt=3, new=0, limit=5)]),
        make_arguments([Text(3, gained=-1e-6, total=-4096.0)]),  # too little for float32
        make_arguments([Text(3, gained=-np.inf)]),
        make_arguments([Text(3, gained=-np.inf, is_certain=True)]),  # forced, though the model held it impossible
    ]
    rng = np.random.default_rng(0)
    for R in (33, 129, 300):  # past warps and blocks
        for trouble in (FINE, NONE_LEFT):
            texts = [_random_text(rng) for _ in range(R)]
            texts[-1] = Text(3, trouble=trouble)  # the only one that goes on, or that is in trouble
            cases.append(make_arguments(texts, (0, 2)))
        cases.append(make_arguments([Text(0)] * (R - 1) + [Text(3)], model_trouble=[FINE] * R))
    return cases


def _random_text(rng: np.random.Generator) -> Text:
    is_certain, is_done = (rng.random(2) < 0.3).tolist()
    token, new = rng.integers(0, (5, 4)).tolist()
    return Text(token, -float(rng.random()), is_certain, new=new, is_done=is_done)


def large_cases() -> list[tuple]:
    """Tokens that sixteen bits do not count, some equal to EOS in sixteen; long texts; many."""
    rng, wide = np.random.default_rng(1), [Text(50_256), Text(2**16), Text(2**16 + 2), Text(250_111)]
    cases = [make_arguments(wide, eos) for eos in [(0, 2), (50_256,), (250_111 - 2**16, 2**16)]]
    cases.append(make_arguments([Text(3, prompt=POSITIONS), Text(4)]))
    for R in (ROWS, MANY_ROWS):
        texts = [_random_text(rng) for _ in range(64)] * (R // 64)
        cases.append(make_arguments([*texts, Text(3)], (0, 2)))
        cases.append(make_arguments([Text(0)] * (R - 1) + [Text(3)], model_trouble=[FINE] * R))
    return cases


def oracle(
    tokens_RM, token_R, gained_R, certain_R, trouble_R, total_R, length_R, done_R, prompt_R, limit_R, eos_X,
    model_trouble_R,
):  # fmt: skip
    """Texts as lists, which grow by a token."""
    tokens_RM, total_R, length_R, done_R = (a.copy() for a in (tokens_RM, total_R, length_R, done_R))
    troubles = [t for t, done in zip(trouble_R.tolist(), done_R.tolist(), strict=True) if t != FINE and
                (not done or t == NOT_A_NUMBER)]  # fmt: skip
    troubles += [] if model_trouble_R is None else [t for t in model_trouble_R.tolist() if t != FINE]
    for r in np.flatnonzero(~done_R & (trouble_R == FINE)).tolist():
        text = [*tokens_RM[r, : length_R[r]].tolist(), int(token_R[r])]
        tokens_RM[r, : len(text)], length_R[r] = text, len(text)
        total_R[r] += 0 if certain_R[r] else float(gained_R[r])
        done_R[r] = text[-1] in eos_X.tolist() or len(text) == prompt_R[r] + limit_R[r]
    done = set(done_R.tolist())
    flag = np.array([ALL_DONE * (done == {True}) + SOME_DONE * (True in done) + TROUBLE * bool(troubles)])
    return flag, tokens_RM, total_R, length_R, done_R


REPEATED = {}  # one block does all: it is predicted at the size of a step


def make_paper_inputs(*, seed: int = 0) -> tuple[tuple, str]:
    """A step of 128 texts. For even seeds a fourth is done, for odd ones none, so that the flag differs."""
    texts = [Text(3 + r + seed, -0.5 - (r + seed) % 9, is_done=seed % 2 == 0 and r % 4 == 0) for r in range(128)]
    return make_arguments(texts, model_trouble=[FINE] * 128), "128 texts"
