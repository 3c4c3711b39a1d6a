"""The optimizations: one row each. Implementations, inputs, mutants, chapters and benchmarks are found by file name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np


@dataclass(frozen=True)
class Cost:
    """What one call takes at the least: bytes moved to and from memory, and operations."""

    bytes: int
    operations: int


@dataclass(frozen=True)
class Row:
    """One optimization.

    contract: "exact" (bit-equal) or "tolerance" (within a bound computed from dtype and reduction length).
    changes: the argument that is changed in place, if any; memories: of a plan, those that call the op
    (None: all of them, or no memory at all); needs_encoder: whether only models with an encoder call it.
    """

    name: str  # the file in reference/, cpu/, cuda/, and the folder in tests/mutants/
    op: str  # the function there
    paper: str
    contract: Literal["exact", "tolerance"]
    cost: Callable[..., Cost]
    changes: str | None = None
    memories: tuple[str, ...] | None = None
    needs_encoder: bool = False


def _ngram_cost(scores_RV, tokens_RM, length_R, n) -> Cost:
    """Each token is read once; each of the R * (length - n + 1) windows compares one token, if n > 1."""
    windows = int(np.maximum(np.asarray(length_R) - n + 1, 0).sum())
    return Cost(int(np.sum(length_R)) * tokens_RM.dtype.itemsize, windows if n > 1 else 0)


def _norm_cost(x_RD, y_RD, bias_D, norm) -> Cost:
    """x and y are read, their sum and its norm written; per number two additions and eight operations of the norm."""
    return Cost(4 * x_RD.nbytes + 3 * norm.gain_D.nbytes, 10 * x_RD.size)


def _grouped_cost(q_RHK, k_RGMK, v_RGMU, begin_R, end_R, scale) -> Cost:
    """Each row reads the positions that it sees, once for all heads of a group."""
    seen = _seen(begin_R, end_R)
    return _attention_cost(seen, seen, q_RHK, k_RGMK, v_RGMU)


def _shared_cost(q_RHK, k_BGNK, v_BGNU, begin_B, scale) -> Cost:
    """A sentence's positions are read once; each of its rows scores and sums them all."""
    read = _seen(begin_B, k_BGNK.shape[2])
    return _attention_cost(read, read * len(q_RHK) // len(k_BGNK), q_RHK, k_BGNK, v_BGNU)


def _split_cost(q_RHK, prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B, k_RGTK, v_RGTU, begin_R, end_R, scale) -> Cost:
    """The prompt as if it were shared alone, and what each row has generated as if that were all."""
    prompt = _shared_cost(q_RHK, prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B, scale)
    own = _grouped_cost(q_RHK, k_RGTK, v_RGTU, begin_R, end_R, scale)
    return Cost(prompt.bytes + own.bytes, prompt.operations + own.operations)


def _attention_cost(read: int, seen: int, q_RHK, k_XGMK, v_XGMU) -> Cost:
    """read: positions, each once; seen: pairs of a row and a position, whose products are counted."""
    _, G, _, K = k_XGMK.shape
    U, H = v_XGMU.shape[3], q_RHK.shape[1]
    position = G * (K * k_XGMK.dtype.itemsize + U * v_XGMU.dtype.itemsize)
    return Cost(read * position, 2 * seen * H * (K + U))


def _seen(begin_X, end_X) -> int:
    return int(np.sum(end_X - np.asarray(begin_X)))


CATALOG = {
    row.name: row
    for row in [
        Row(
            "ngram",
            "ban_ngrams",
            "FastSeq, section 4.2, Algorithm 1",
            "exact",
            _ngram_cost,
            "scores_RV",
        ),
        Row("norm", "residual_norm", "LightSeq, section 2.1, Figure 2", "tolerance", _norm_cost),
        Row(
            "split",
            "attend_split",
            "FastSeq, section 4.1.1, Equation 3",
            "tolerance",
            _split_cost,
            memories=("split",),
        ),
        Row(
            "shared",
            "attend_shared",
            "FastSeq, section 4.1.2, Equation 4",
            "tolerance",
            _shared_cost,
            memories=("split",),
            needs_encoder=True,
        ),
        Row(
            "grouped",
            "attend",
            "MQA, sections 2.4 and 3.1",
            "tolerance",
            _grouped_cost,
            memories=("replicated", "preallocated"),
        ),
    ]
}


def find(name: str) -> Row:
    """The row of that name. Raises OptionError, which lists the names there are."""
    from .errors import OptionError

    if name not in CATALOG:
        raise OptionError(f"there is no optimization {name!r}: the names are {', '.join(CATALOG)}")
    return CATALOG[name]


def arguments_of(row: Row, arguments: tuple) -> dict[str, Any]:
    """The arguments by the names that ops.py gives them."""
    import inspect

    from . import ops

    return dict(zip(inspect.signature(getattr(ops, row.op)).parameters, arguments, strict=False))
