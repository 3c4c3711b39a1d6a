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
    (None: all of them, or no memory at all). may_be_off: without it, other ops do the work, and that is the default.
    """

    name: str  # the file in reference/, cpu/, cuda/, and the folder in tests/mutants/
    op: str  # the function there
    paper: str
    contract: Literal["exact", "tolerance"]
    cost: Callable[..., Cost]
    changes: str | None = None
    memories: tuple[str, ...] | None = None
    may_be_off: bool = False


def _ngram_cost(scores_RV, tokens_RM, length_R, n) -> Cost:
    """Each token is read once; each of the R * (length - n + 1) windows compares one token, if n > 1."""
    windows = int(np.maximum(np.asarray(length_R) - n + 1, 0).sum())
    return Cost(int(np.sum(length_R)) * tokens_RM.dtype.itemsize, windows if n > 1 else 0)


def _norm_cost(x_RD, y_RD, bias_D, norm) -> Cost:
    """x and y are read, their sum and its norm written; per number two additions and eight operations of the norm."""
    return Cost(4 * x_RD.nbytes + 3 * norm.gain_D.nbytes, 10 * x_RD.size)


def _candidates_cost(scores_BX, C) -> Cost:
    """Each score is read once and compared once; C scores and their columns are written."""
    written = len(scores_BX) * C * (scores_BX.dtype.itemsize + 8)
    return Cost(scores_BX.nbytes + written, scores_BX.size)


def _hars_cost(logits_RV, base_BW, C) -> Cost:
    """Each logit is read once: a comparison, a subtraction, an exponential (counted as one), a sum, a comparison."""
    written = len(base_BW) * C * (logits_RV.dtype.itemsize + 8)
    return Cost(logits_RV.nbytes + base_BW.nbytes + written, 5 * logits_RV.size)


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
        Row("candidates", "top_candidates", "LightSeq, section 2.2", "exact", _candidates_cost),
        Row("hars", "search_candidates", "LightSeq, section 2.2, Figure 3", "tolerance", _hars_cost, may_be_off=True),
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
