"""EL's Table 1 as numbers: what attention over an input moves and computes in one decode step, group by group.

The three groups are those of section 3.3. Softmax and biases are left out, as in the paper: they are small beside the
products. An operation is a multiplication or an addition, so that a product of (m, k) and (k, n) takes 2*m*k*n.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..catalog import Cost

GROUPS = ("build keys and values", "build queries and results", "attend")
METHODS = ("no cache", "cache per beam", "cache per sentence", "el")


@dataclass(frozen=True)
class Sizes:
    """One layer: W beams for each of B sentences, N positions of input, H heads that are as wide together as D."""

    B: int
    W: int
    N: int
    H: int
    D: int
    itemsize: int = 2  # bytes of a number

    @property
    def R(self) -> int:
        return self.B * self.W


def costs_of_groups(s: Sizes, method: str, one_op: bool = False) -> dict[str, Cost]:
    """Group -> its cost.

    By default every product is a kernel of its own, as in the paper: scores go to memory and come back, and EL reads
    the hidden states once as keys and once as values. With one_op, attention is one op, as in ops.py, that moves what
    it is given and what it returns once: scores and, for EL, q' and the weighted sums stay inside.
    """
    nothing = Cost(0, 0)
    # q W_Q, and the result's W_O
    project = _add_costs(_product_cost(s, s.R, s.D, s.D), _product_cost(s, s.R, s.D, s.D))
    if method == "el":
        return {
            GROUPS[0]: nothing,
            GROUPS[1]: _add_costs(project, _el_projection_costs(s, one_op)),
            GROUPS[2]: _el_attention_costs(s, one_op),
        }
    build = _product_cost(s, s.R * s.N, s.D, 2 * s.D) if method == "no cache" else nothing
    copies = s.B if method == "cache per sentence" else s.R
    return {GROUPS[0]: build, GROUPS[1]: project, GROUPS[2]: _multi_head_costs(s, copies, one_op)}


def held_input_bytes(s: Sizes, method: str, layers: int) -> int:
    """Bytes of the input that are held between steps (Table 4): keys and values by layer, or the hidden states."""
    hidden = s.N * s.D * s.itemsize
    return {"no cache": s.R * hidden, "cache per beam": 2 * layers * s.R * hidden,
            "cache per sentence": 2 * layers * s.B * hidden, "el": s.B * hidden}[method]  # fmt: skip


def _product_cost(s: Sizes, m: int, k: int, n: int) -> Cost:
    """(m, k) times (k, n): both read, the result written."""
    return Cost((m * k + k * n + m * n) * s.itemsize, 2 * m * k * n)


def _multi_head_costs(s: Sizes, copies: int, one_op: bool) -> Cost:
    """`copies` of keys and values, of a sentence for its beams, or of each beam."""
    numbers = 2 * copies * s.N * s.D + 2 * s.R * s.D
    if not one_op:
        numbers += 2 * s.R * s.H * s.N  # scores written, weights read
    return Cost(numbers * s.itemsize, 4 * s.R * s.N * s.D)


def _el_projection_costs(s: Sizes, one_op: bool) -> Cost:
    """q W_K of each head to the width of h, and W_V x of each head back from it."""
    numbers = 2 * s.D * s.D
    if not one_op:
        numbers += 2 * s.R * s.D + 2 * s.R * s.H * s.D  # q read, q' written; x read, the result written
    return Cost(numbers * s.itemsize, 4 * s.R * s.D * s.D)


def _el_attention_costs(s: Sizes, one_op: bool) -> Cost:
    """The hidden states of a sentence for all of its heads and beams."""
    if one_op:
        numbers = s.B * s.N * s.D + 2 * s.R * s.D
    else:
        numbers = 2 * s.B * s.N * s.D + 2 * s.R * s.H * s.D + 2 * s.R * s.H * s.N
    return Cost(numbers * s.itemsize, 4 * s.R * s.H * s.N * s.D)


def _add_costs(a: Cost, b: Cost) -> Cost:
    return Cost(a.bytes + b.bytes, a.operations + b.operations)
