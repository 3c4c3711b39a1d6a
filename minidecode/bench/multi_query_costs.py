"""What the listings of the multi-query paper compute and move: its performance analyses, counted.

The paper gives orders of growth (sections 2.3.1, 2.4.1 and 3.1). Here the einsums of each listing stand once more as
data, and the counts follow from their shapes: two operations for each product of an einsum (all of its letters), and
one number for each element of a tensor that an einsum reads or writes, each tensor once. The softmax and the
concatenations are no einsums: the first computes little, and a memory that grows in place needs no others.

The analyses assume m = n, k = v = d/h and n <= d; so does `cost_of_n_positions`. Two errata:

- Section 2.4.1 gives the size of K and V as b h m k = b n^2. It is b n d, for h k = d and m = n; the term b n^2 d of
  n calls, a line above, is right.
- Section 3.1 leaves out the logits and weights, b h n^2 numbers over n calls. They hide behind K and V (b n^2 k)
  where h is at most about k, as in the paper (8 and 128). Where it is much more, they are what a multi-query step
  moves, unless one kernel does logits, softmax and sum and never writes them.
"""

from __future__ import annotations

import math
import re

from ..catalog import Cost

EINSUMS = {
    "multihead_attention_batched": (
        "Q[bhnk] = X[bnd] P_q[hdk]",
        "K[bhmk] = M[bmd] P_k[hdk]",
        "V[bhmv] = M[bmd] P_v[hdv]",
        "logits[bhnm] = Q[bhnk] K[bhmk]",
        "O[bhnv] = weights[bhnm] V[bhmv]",
        "Y[bnd] = O[bhnv] P_o[hdv]",
    ),
    "multihead_self_attention_incremental": (
        "q[bhk] = x[bd] P_q[hdk]",
        "key[bhk] = x[bd] P_k[hdk]",
        "value[bhv] = x[bd] P_v[hdv]",
        "logits[bhm] = q[bhk] new_K[bhmk]",
        "o[bhv] = weights[bhm] new_V[bhmv]",
        "y[bd] = o[bhv] P_o[hdv]",
    ),
    "multiquery_attention_batched": (
        "Q[bhnk] = X[bnd] P_q[hdk]",
        "K[bmk] = M[bmd] P_k[dk]",
        "V[bmv] = M[bmd] P_v[dv]",
        "logits[bhnm] = Q[bhnk] K[bmk]",
        "O[bhnv] = weights[bhnm] V[bmv]",
        "Y[bnd] = O[bhnv] P_o[hdv]",
    ),
    "multiquery_self_attention_incremental": (
        "q[bhk] = x[bd] P_q[hdk]",
        "key[bk] = x[bd] P_k[dk]",
        "value[bv] = x[bd] P_v[dv]",
        "logits[bhm] = q[bhk] new_K[bmk]",
        "o[bhv] = weights[bhm] new_V[bmv]",
        "y[bd] = o[bhv] P_o[hdv]",
    ),
}

# The ratios of memory access to arithmetic that the paper comes to; it has none for the batched multi-query listing.
PAPER_RATIOS = {
    "multihead_attention_batched": lambda b, n, d, h: h / d + 1 / (b * n),  # section 2.3.1; 1/k = h/d
    "multihead_self_attention_incremental": lambda b, n, d, h: n / d + 1 / b,  # section 2.4.1
    "multiquery_self_attention_incremental": lambda b, n, d, h: 1 / d + n / (d * h) + 1 / b,  # section 3.1
}


def cost_of_listing(listing: str, number_bytes: int = 4, **sizes: int) -> Cost:
    """Bytes and operations of one call of a listing, from the size of each of its letters.

    number_bytes: of one number; with 1, numbers are counted. In an incremental listing m counts the new position too.
    """
    operations, numbers = 0, {}
    for einsum in EINSUMS[listing]:
        tensors = re.findall(r"(\w+)\[(\w+)\]", einsum)
        every_letter = set("".join(letters for _, letters in tensors))
        operations += 2 * math.prod(sizes[letter] for letter in every_letter)
        for name, letters in tensors:
            numbers[name] = math.prod(sizes[letter] for letter in letters)
    return Cost(number_bytes * sum(numbers.values()), operations)


def cost_of_n_positions(listing: str, b: int, n: int, d: int, h: int, number_bytes: int = 4) -> Cost:
    """Bytes and operations for n positions, as the paper assumes them: one call of a batched listing, else n calls."""
    sizes = {"b": b, "n": n, "d": d, "h": h, "k": d // h, "v": d // h}
    if listing.endswith("_batched"):
        return cost_of_listing(listing, number_bytes, m=n, **sizes)
    calls = [cost_of_listing(listing, number_bytes, m=position, **sizes) for position in range(1, n + 1)]
    return Cost(sum(c.bytes for c in calls), sum(c.operations for c in calls))
