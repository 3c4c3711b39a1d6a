"""The catalog: one row per op. Implementations, inputs, mutants, chapters and benchmarks are found by file name."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from .dims import arrays_in


@dataclass(frozen=True)
class Cost:
    """What one call takes at least: bytes moved to and from memory, and operations.

    int8_operations: how many of the operations multiply or add up bytes, which many processors do faster than floats.
    """

    bytes: int
    operations: int
    int8_operations: int = field(default=0, repr=False)  # most ops have none


def sum_of_costs(costs: Iterable[Cost]) -> Cost:
    """Adds up the costs of several calls."""
    costs = list(costs)
    return Cost(*(sum(int(getattr(c, f.name)) for c in costs) for f in dataclasses.fields(Cost)))


@dataclass(frozen=True)
class Row:
    """One optimization.

    contract: "exact" (bit-equal) or "tolerance" (within a bound computed from dtype and reduction length).
    changes: the arguments that are changed in place, if any.
    may_be_off: without it, other ops do the work, and that is the default. instead_of: the rows that never run where
    this one does. spelled: the words that plans have for it, where they are not those of the other rows.
    with_dynamic: True for what only a model with dtype=int8_dynamic calls, False for what no such model calls.
    of_rotary: only a model that turns its queries and keys calls it.
    """

    name: str  # the file in reference/, cpu/, cuda/, and the folder in tests/mutants/
    op: str  # the function there
    paper: str
    contract: Literal["exact", "tolerance"]
    cost: Callable[..., Cost]
    changes: tuple[str, ...] = ()
    may_be_off: bool = False
    instead_of: tuple[str, ...] = ()
    spelled: Mapping[str, str] = field(default_factory=dict, hash=False)
    with_dynamic: bool | None = None
    of_rotary: bool = False


def _ngram_cost(scores_RV, tokens_RM, length_R, n) -> Cost:
    """Each token is read once; each of the R * (length - n + 1) windows compares one token, if n > 1."""
    windows = int(np.maximum(np.asarray(length_R) - n + 1, 0).sum())
    return Cost(int(np.sum(length_R)) * tokens_RM.dtype.itemsize, windows if n > 1 else 0)


def _bias_cost(scores_RV, tokens_RM, length_R, list_R, ids_XXX, bias_XX) -> Cost:
    """Each row reads its list, the end of its text, and at most a score for each sequence, which it writes."""
    rows, (_, sequences, longest) = int((np.asarray(list_R) >= 0).sum()), ids_XXX.shape
    read = 8 * (rows * (sequences * (longest + 1) + longest - 1) + 2 * len(list_R))
    return Cost(read, rows * sequences * longest)


def _penalty_cost(scores_RV, tokens_XM, length_X, list_R, penalty) -> Cost:
    """Each token of a row's list is read, and a score is read and written: a comparison and a product."""
    tokens = int(np.asarray(length_X)[np.asarray(list_R)].sum())
    return Cost(tokens * (tokens_XM.itemsize + 2 * scores_RV.itemsize) + 8 * len(list_R), 2 * tokens)


def _typical_cost(scores_RV, mass, least=1) -> Cost:
    """Each score is read once: a comparison, two differences, an exponential (counted as one), a product, two sums;
    what goes is written."""
    return Cost(2 * scores_RV.nbytes, 7 * scores_RV.size)


def _linear_cost(x_RX, weight) -> Cost:
    """Each row and each weight is read once, as it is stored; two operations for each row and weight."""
    (R, inputs), outputs = x_RX.shape, weight.outputs
    scale = 0 if weight.scale is None else weight.scale.nbytes
    return Cost(x_RX.itemsize * R * (inputs + outputs) + weight.data.nbytes + scale, 2 * R * inputs * outputs)


def _epilogue_cost(x_RX, weight, activation=None, add_to=None) -> Cost:
    """The product's; the bias and what is added to are read too. Per result an operation for each of the three."""
    product, bias, results = _linear_cost(x_RX, weight), weight.bias, len(x_RX) * weight.outputs
    moved = (0 if bias is None else bias.nbytes) + (0 if add_to is None else add_to.nbytes)
    each = (bias is not None) + (activation is not None) + (add_to is not None)
    return Cost(product.bytes + moved, product.operations + each * results)


def _linear_int8_cost(x_RX, weight, bias_X=None, activation=None, add_to=None) -> Cost:
    """Rows, int8 weights and scales are read once, results written. Rounded rows and their scales are written and read.

    Of operations, rounding takes three for each number: the largest of the row, a product, the nearest integer. A
    sum of products of bytes ends in two scales and, one operation each, bias, activation and residual.
    """
    (R, inputs), outputs = x_RX.shape, weight.outputs
    of_products = 2 * R * inputs * outputs
    of_floats = R * (3 * inputs + (2 + sum(a is not None for a in (bias_X, activation, add_to))) * outputs)
    moved = x_RX.itemsize * R * (inputs + outputs) + inputs * outputs + 2 * R * (inputs + x_RX.itemsize)
    moved += sum(a.nbytes for a in (weight.scale, bias_X, add_to) if a is not None)
    return Cost(moved, of_products + of_floats, of_products)


def _norm_cost(x_RD, y_RD, bias_D, norm) -> Cost:
    """x and y are read, their sum and its norm written; per number two additions and eight operations of the norm.

    Of the norm alone, x is read and h written.
    """
    if y_RD is None:
        return Cost(2 * x_RD.nbytes + 2 * norm.gain_D.nbytes, 8 * x_RD.size)
    return Cost(4 * x_RD.nbytes + 3 * norm.gain_D.nbytes, 10 * x_RD.size)


def _heads_cost(qkv_RX, bias_X, heads) -> Cost:
    """The product and the bias are read, as many numbers written; one addition each."""
    return Cost(2 * qkv_RX.nbytes + (0 if bias_X is None else bias_X.nbytes), qkv_RX.size)


def _rotation_cost(qkv_RX, bias_X, heads, pos_R, turns_NK) -> Cost:
    """The product is read and as much written, and a row of the table for each row; three operations a number."""
    R, K = len(qkv_RX), heads.K
    cost = _heads_cost(qkv_RX, bias_X, heads)
    return Cost(cost.bytes + pos_R.nbytes + R * K * turns_NK.itemsize, 3 * R * (heads.H + heads.G) * K + qkv_RX.size)


def _append_cost(qkv_RX, bias_X, heads, k_RGMK, v_RGMU, at_R) -> Cost:
    """The cost of split_heads, with keys and values as narrow as the cache."""
    cost, kv = _heads_cost(qkv_RX, bias_X, heads), qkv_RX.size - len(qkv_RX) * heads.H * heads.K
    return Cost(cost.bytes + kv * (k_RGMK.itemsize - qkv_RX.itemsize) + at_R.nbytes, cost.operations)


def _paged_append_cost(qkv_RX, bias_X, heads, k_XGMK, v_XGMU, table_RX, at_R) -> Cost:
    """The cost of append_kv, and a page number for each row."""
    cost = _append_cost(qkv_RX, bias_X, heads, k_XGMK, v_XGMU, at_R)
    return Cost(cost.bytes + len(at_R) * table_RX.itemsize, cost.operations)


def _prefill_cost(q_RHK, k_XGK, v_XGU, q_offsets_X, k_offsets_X, scale, causal, window=None) -> Cost:
    """Queries, keys and values are read, results written, and no score is: two operations for each number of a key and
    of a value, for each query head that sees it."""
    (R, H, K), U = q_RHK.shape, v_XGU.shape[2]
    ends = zip(pairwise(q_offsets_X.tolist()), pairwise(k_offsets_X.tolist()), strict=True)
    sizes = [(q_last - q_first, k_last - k_first) for (q_first, q_last), (k_first, k_last) in ends]
    seen = sum(sum(min(M - n, window or M) for n in range(N)) if causal else N * M for N, M in sizes)
    moved = q_RHK.nbytes + k_XGK.nbytes + v_XGU.nbytes + R * H * U * q_RHK.itemsize
    return Cost(moved, 2 * seen * H * (K + U))


def _cross_kv_cost(h_RD, weight, heads) -> Cost:
    """The product's, and the bias behind it. What is between the two need not be written or read."""
    product = (_linear_cost if weight.x_bits is None else _linear_int8_cost)(h_RD, weight)
    results, bias = len(h_RD) * weight.outputs, 0 if weight.bias is None else weight.bias.nbytes
    return Cost(product.bytes + bias, product.operations + results, product.int8_operations)


def _embedding_cost(ids_R, pos_R, wte_VD, wpe_ND, scale, norm) -> Cost:
    """A row of each table is read, the sum and its norm written; two operations per number, and eight of the norm."""
    R, D = len(ids_R), wte_VD.shape[1]
    moved = ids_R.nbytes + (1 + (norm.bias_D is not None)) * norm.gain_D.nbytes
    if wpe_ND is None:
        return Cost(3 * R * D * wte_VD.itemsize + moved, 9 * R * D)
    return Cost(4 * R * D * wte_VD.itemsize + moved + pos_R.nbytes, 10 * R * D)


def _activation_cost(f_RX, bias_X, activation) -> Cost:
    """f is read once and as much written, of pairs half. Of operations only the sum is counted, and the activation."""
    written = f_RX.nbytes // 2 if activation.startswith("gated-") else f_RX.nbytes
    return Cost(f_RX.nbytes + written + (0 if bias_X is None else bias_X.nbytes), 2 * f_RX.size)


def _grouped_cost(q_RHK, k_RGMK, v_RGMU, begin_R, end_R, scale) -> Cost:
    """Each row reads the positions that it sees, once for all heads of a group."""
    seen = _positions_seen(begin_R, end_R)
    return _attention_cost(q_RHK, k_RGMK, v_RGMU, seen, seen)


def _shared_cost(q_RHK, k_BGNK, v_BGNU, begin_B, scale) -> Cost:
    """Each sentence's positions are read once, and each of its rows scores and sums all of them."""
    read = _positions_seen(begin_B, k_BGNK.shape[2])
    return _attention_cost(q_RHK, k_BGNK, v_BGNU, read, read * len(q_RHK) // len(k_BGNK))


def _split_cost(q_RHK, prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B, k_RGTK, v_RGTU, begin_R, end_R, scale) -> Cost:
    """The prompt is read once for all beams of its sentence, what a row has generated once."""
    prompt, generated = _positions_seen(prompt_begin_B, prompt_k_BGNK.shape[2]), _positions_seen(begin_R, end_R)
    beams = len(q_RHK) // len(prompt_k_BGNK)
    return _attention_cost(q_RHK, k_RGTK, v_RGTU, prompt + generated, prompt * beams + generated)


def _positions_seen(begin_X, end_X) -> int:
    return int(np.sum(end_X - np.asarray(begin_X)))


def _el_cost(q_RHK, h_BND, begin_B, w_k_GKD, b_k_GK, w_v_GUD, b_v_GU, scale) -> Cost:
    """Queries, weights and the hidden states that are no padding are read once; h is at hand for the sums.

    q . b_k is not counted, since the softmax does not need it.
    """
    (R, H, K), (_, N, D), U = q_RHK.shape, h_BND.shape, w_v_GUD.shape[1]
    B, seen = len(h_BND), _positions_seen(begin_B, N)
    moved = q_RHK.nbytes + seen * D * h_BND.itemsize + w_k_GKD.nbytes + w_v_GUD.nbytes + b_v_GU.nbytes
    result = R * H * U * q_RHK.itemsize
    return Cost(moved + begin_B.nbytes + result, 4 * R // B * seen * H * D + 2 * R * H * D * (K + U))


def _el_split_cost(
    q_RHK, prompt_h_BND, prompt_begin_B, w_k_GKD, b_k_GK, w_v_GUD, b_v_GU, k_RGTK, v_RGTU, begin_R, end_R, scale
) -> Cost:
    """EL's cost for the prompt, with q . b_k; of the rows' own keys and values, what is written so far."""
    prompt = _el_cost(q_RHK, prompt_h_BND, prompt_begin_B, w_k_GKD, b_k_GK, w_v_GUD, b_v_GU, scale)
    (R, H, K), U, G = q_RHK.shape, v_RGTU.shape[3], len(w_k_GKD)
    positions = int((np.asarray(end_R) - np.asarray(begin_R)).sum())  # positions of all rows
    moved = positions * G * (K + U) * k_RGTK.itemsize + b_k_GK.nbytes + begin_R.nbytes + end_R.nbytes
    return Cost(prompt.bytes + moved, prompt.operations + 2 * positions * H * (K + U) + 2 * R * H * K)


def _reorder_cost(k_RGMX, parent_R, length_R) -> Cost:
    """Each row whose parent is another is read there and written here, as far as it is filled; nothing is computed."""
    _, G, _, X = k_RGMX.shape
    moved = int((parent_R != np.arange(len(parent_R))).sum())
    return Cost(2 * moved * G * X * int(length_R.max()) * k_RGMX.itemsize, 0)


def _indirection_cost(indirection_RT, parent_R, length_R) -> Cost:
    """Each row whose parent is another is read there and written here, as far as it is filled; nothing is computed."""
    moved = int((parent_R != np.arange(len(parent_R))).sum())
    return Cost(2 * moved * int(length_R.max()) * indirection_RT.itemsize, 0)


def _sequences_cost(text_BWM, parent_BW, token_BW, length_B) -> Cost:
    """Each text whose parent is another is read there and written here, as far as it is filled, with its new token."""
    moved_B = (parent_BW != np.arange(parent_BW.shape[1])).sum(axis=1)
    return Cost(2 * (int((moved_B * length_B).sum()) + token_BW.size) * text_BWM.itemsize, 0)


def _beam_update_cost(
    score_BC, parent_BC, token_BC, running_score_BW, finished_score_BW, finished_length_BW, done_B, length_B, prompt_B,
    limit_B, norm_X, eos_X, rules,
) -> Cost:  # fmt: skip
    """Candidates are read once and the state is read and written; a candidate is compared with every other one, with
    each place and with each EOS."""
    (B, C), W = score_BC.shape, running_score_BW.shape[1]
    candidates = score_BC.nbytes + parent_BC.nbytes + token_BC.nbytes + B * C
    beams = running_score_BW.nbytes + 2 * (finished_score_BW.nbytes + finished_length_BW.nbytes) + 4 * 8 * B * W
    sentences = 2 * (done_B.nbytes + length_B.nbytes) + prompt_B.nbytes + limit_B.nbytes + 2 * 8 * B
    return Cost(candidates + beams + sentences + eos_X.nbytes, B * C * (C + W + len(eos_X)))


def _finished_cost(finished_BWM, running_BWM, slot_BW, parent_BC, token_BC, at_B) -> Cost:
    """The slots are read; what is written of each text whose place changes is read and written; nothing is computed."""
    changed_B = (slot_BW != np.arange(slot_BW.shape[1])).sum(axis=1)
    return Cost(slot_BW.nbytes + 2 * int((changed_B * (at_B + 1)).sum()) * finished_BWM.itemsize, 0)


def _flags_cost(done_X, trouble_X, parent_BW, model_trouble_R=None) -> Cost:
    """The notes are read and one number is written, with a comparison for each note."""
    noted = [done_X, trouble_X, parent_BW, *(() if model_trouble_R is None else (model_trouble_R,))]
    return Cost(sum(a.nbytes for a in noted) + 8, sum(a.size for a in noted))


def _extend_cost(
    tokens_RM, token_R, gained_R, certain_R, trouble_R, total_R, length_R, done_R, prompt_R, limit_R, eos_X,
    model_trouble_R=None,
) -> Cost:  # fmt: skip
    """What the step says of each row is read, its state read and written, and a token; each meets each EOS."""
    R, noted = len(token_R), 0 if model_trouble_R is None else model_trouble_R.nbytes
    inputs = token_R.nbytes + gained_R.nbytes + certain_R.nbytes + trouble_R.nbytes + noted
    state = 2 * (total_R.nbytes + length_R.nbytes + done_R.nbytes) + prompt_R.nbytes + limit_R.nbytes
    return Cost(inputs + state + R * tokens_RM.itemsize + eos_X.nbytes + 8, R * (2 + len(eos_X)))


def _softmax_cost(logits_RV) -> Cost:
    """Each logit is read once and its score written: a comparison, two subtractions, an exponential (counted as one)
    and a sum."""
    return Cost(2 * logits_RV.nbytes + 8 * len(logits_RV), 5 * logits_RV.size)


def _beam_scores_cost(scores_RV, running_R) -> Cost:
    """Each score is read and written once, with an addition."""
    return Cost(2 * scores_RV.nbytes + running_R.nbytes, scores_RV.size)


def _temperature_cost(scores_RV, temperature) -> Cost:
    """Each score is read and written once, with a division."""
    return Cost(2 * scores_RV.nbytes, scores_RV.size)


def _random_cost(key_RX, step_R, V, seed) -> Cost:
    """Each number is written once: a quarter of Philox, and two logarithms."""
    return Cost(8 * len(key_RX) * V + key_RX.nbytes + step_R.nbytes, 28 * len(key_RX) * V)


def _gather_cost(token_R, scores_RV, logprobs_RV=None) -> Cost:
    """One number of each row and table is read, and one is written with the row's error; two comparisons each."""
    tables = 1 if logprobs_RV is None else 2
    return Cost(len(token_R) * (16 + (tables + 1) * scores_RV.itemsize), 2 * len(token_R))


def _indirect_cost(
    q_RHK, prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B, k_RGTK, v_RGTU, indirection_RT, begin_R, end_R, scale
) -> Cost:
    """Each position is read once, however many beams of its sentence see it; and the table."""
    R, B, N = len(q_RHK), len(prompt_k_BGNK), prompt_k_BGNK.shape[2]
    prompt = B * N - int(prompt_begin_B.sum())
    slots = [(indirection_RT[r, t], t) for r in range(R) for t in range(begin_R[r], end_R[r])]
    cost = _attention_cost(q_RHK, k_RGTK, v_RGTU, prompt + len(set(slots)), R // B * prompt + len(slots))
    return Cost(cost.bytes + len(slots) * indirection_RT.itemsize, cost.operations)


def _paged_cost(q_RHK, k_XGMK, v_XGMU, table_RX, begin_R, end_R, scale) -> Cost:
    """Each position is read once, however many rows hold its page; and of each row the numbers of its pages."""
    M, pages, read = k_XGMK.shape[2], 0, set()
    for row_X, begin, end in zip(table_RX.tolist(), begin_R.tolist(), end_R.tolist(), strict=True):
        read |= {(row_X[m // M], m % M) for m in range(begin, end)}
        pages += (end - 1) // M - begin // M + 1
    cost = _attention_cost(q_RHK, k_XGMK, v_XGMU, len(read), _positions_seen(begin_R, end_R))
    return Cost(cost.bytes + pages * table_RX.itemsize, cost.operations)


def _pages_cost(k_XGMX, source_R, target_R) -> Cost:
    """Each page that becomes another is read and written; nothing is computed."""
    copied = int((source_R != target_R).sum())
    return Cost(2 * copied * (k_XGMX.nbytes // len(k_XGMX)) + source_R.nbytes + target_R.nbytes, 0)


def _rolling_cost(q_RHK, k_RGMK, v_RGMU, begin_R, end_R, scale) -> Cost:
    """Each row reads the slots that it sees."""
    seen = int(np.minimum(end_R - begin_R, k_RGMK.shape[2]).sum())
    return _attention_cost(q_RHK, k_RGMK, v_RGMU, seen, seen)


def _attention_cost(q_RHK, k_XGMK, v_XGMU, read: int, seen: int) -> Cost:
    """Queries and results, and the positions that are read; two operations for each number of a key and a value, for
    each of the `seen` pairs of a row and a position, and each query head."""
    (R, H, K), G, U = q_RHK.shape, k_XGMK.shape[1], v_XGMU.shape[3]
    moved = R * H * (K + U) * q_RHK.itemsize + read * G * (K + U) * k_XGMK.itemsize
    return Cost(moved, 2 * seen * H * (K + U))


def _candidates_cost(scores_BX, C) -> Cost:
    """Each score is read once and compared once; C scores and their columns are written."""
    written = len(scores_BX) * C * (scores_BX.dtype.itemsize + 8)
    return Cost(scores_BX.nbytes + written, scores_BX.size)


def _hars_cost(logits_RV, base_BW, C) -> Cost:
    """Each logit is read once: a comparison, a subtraction, an exponential (counted as one), a sum, a comparison."""
    written = len(base_BW) * C * (logits_RV.dtype.itemsize + 16)
    return Cost(logits_RV.nbytes + base_BW.nbytes + written, 5 * logits_RV.size)


def _top_k_cost(scores_RV, k) -> Cost:
    """Each score is read once and compared once; what goes is written, and that is nearly all."""
    return Cost(2 * scores_RV.nbytes, scores_RV.size)


def _top_p_cost(scores_RV, p, least=1) -> Cost:
    """Each score is read once: a comparison, a subtraction, an exponential (counted as one), a sum; what goes is
    written."""
    return Cost(2 * scores_RV.nbytes, 4 * scores_RV.size)


def _argmax_cost(scores_RV, logits_RV=None) -> Cost:
    """Each score is read once and compared; of logits a comparison, a subtraction, an exponential and a sum."""
    written = len(scores_RV) * (scores_RV.itemsize + 16)
    if logits_RV is None:
        return Cost(scores_RV.nbytes + written, scores_RV.size)
    both = 1 if logits_RV is scores_RV else 2
    return Cost(both * scores_RV.nbytes + written, 5 * scores_RV.size)


def _sample_cost(scores_RV, key_RX, step_R, seed) -> Cost:
    """Each score is read once and compared; a token that is possible takes a quarter of Philox, and two logarithms."""
    possible = int((scores_RV > -np.inf).sum())
    return Cost(scores_RV.nbytes + key_RX.nbytes + 16 * len(step_R), scores_RV.size + 28 * possible)


def _arena_cost(bytes_X, first_X, last_X) -> Cost:
    """Three numbers of each array are read and one is written; each is compared with those that it meets."""
    meets_XX = (first_X[:, None] <= last_X) & (first_X <= last_X[:, None])
    return Cost(4 * bytes_X.nbytes, (int(meets_XX.sum()) - len(bytes_X)) // 2)


CATALOG = {
    row.name: row
    for row in [
        Row("ngram", "ban_ngrams", "FastSeq, section 4.2, Algorithm 1", "exact", _ngram_cost, ("scores_RV",)),
        Row("bias", "bias_sequences", "transformers' banned and biased words", "exact", _bias_cost, ("scores_RV",)),
        Row("penalty", "penalize_tokens", "Keskar et al. 2019, section 4.1", "exact", _penalty_cost, ("scores_RV",)),
        Row("linear", "linear", "LightSeq, section 2.1: the products between its kernels", "tolerance", _linear_cost),
        Row(
            "epilogue",
            "linear_epilogue",
            "LightSeq, section 2.1: products that add into the residual, and the kernels behind them",
            "tolerance",
            _epilogue_cost,
            ("add_to",),
            may_be_off=True,
            instead_of=("activation",),
            with_dynamic=False,
        ),
        Row(
            "linear_int8",
            "linear_int8",
            "LightSeq, section 2.1: the products between its kernels, here of integers",
            "tolerance",
            _linear_int8_cost,
            ("add_to",),
            with_dynamic=True,
        ),
        Row("norm", "residual_norm", "LightSeq, section 2.1, Figure 2", "tolerance", _norm_cost),
        Row("heads", "split_heads", "LightSeq, section 2.1, Figure 2", "exact", _heads_cost),
        Row(
            "rotation", "rotate_heads", "Su et al. 2021: rotary embedding", "tolerance", _rotation_cost, of_rotary=True
        ),
        Row("append", "append_kv", "LightSeq, section 2.1", "exact", _append_cost, ("k_RGMK", "v_RGMU")),
        Row("prefill", "attend_prefill", "LightSeq, section 2.1, Figure 2", "tolerance", _prefill_cost),
        Row("cross_kv", "project_cross_kv", "LightSeq, section 2.1, Figure 2", "tolerance", _cross_kv_cost),
        Row("embedding", "embed_norm", "LightSeq, section 2.1", "tolerance", _embedding_cost),
        Row(
            "activation", "bias_activation", "LightSeq, section 2.1", "tolerance", _activation_cost, with_dynamic=False
        ),
        Row("split", "attend_split", "FastSeq, section 4.1.1, Equation 3", "tolerance", _split_cost),
        Row("shared", "attend_shared", "FastSeq, section 4.1.2, Equation 4", "tolerance", _shared_cost),
        Row("grouped", "attend", "MQA, sections 2.4 and 3.1", "tolerance", _grouped_cost),
        Row("el", "attend_el", "EL, sections 3.1 and 3.2, Equation 9", "tolerance", _el_cost),
        Row("el_split", "attend_el_split", "EL, section 3.2", "tolerance", _el_split_cost),
        Row(
            "reorder",
            "reorder_cache",
            "LightSeq, section 3.2; FastSeq, section 2.2",
            "exact",
            _reorder_cost,
            ("k_RGMX",),
        ),
        Row(
            "indirect",
            "attend_indirect",
            "FasterTransformer's cache indirection; FastSeq, section 4.1.1",
            "tolerance",
            _indirect_cost,
        ),
        Row(
            "indirection",
            "update_indirection",
            "FasterTransformer's cache indirection",
            "exact",
            _indirection_cost,
            ("indirection_RT",),
        ),
        Row(
            "paged_append",
            "append_paged",
            "PagedAttention (Kwon et al. 2023), section 4.1",
            "exact",
            _paged_append_cost,
            ("k_XGMK", "v_XGMU"),
        ),
        Row(
            "paged",
            "attend_paged",
            "PagedAttention (Kwon et al. 2023), section 4.1, Equation 4",
            "tolerance",
            _paged_cost,
        ),
        Row(
            "pages",
            "copy_pages",
            "PagedAttention (Kwon et al. 2023), section 4.4: copy on write",
            "exact",
            _pages_cost,
            ("k_XGMX",),
        ),
        Row("sequences", "update_sequences", "LightSeq's ker_refresh_result", "exact", _sequences_cost, ("text_BWM",)),
        Row(
            "beam_update",
            "update_beams",
            "LightSeq's ker_refresh_result",
            "exact",
            _beam_update_cost,
            ("running_score_BW", "finished_score_BW", "finished_length_BW", "done_B", "length_B"),
        ),
        Row("finished", "store_finished", "LightSeq's ker_refresh_result", "exact", _finished_cost, ("finished_BWM",)),
        Row("flags", "step_flags", "LightSeq's ker_refresh_result", "exact", _flags_cost),
        Row(
            "extend",
            "extend_sequences",
            "LightSeq's ker_topk_sample and ker_topp_sample",
            "exact",
            _extend_cost,
            ("tokens_RM", "total_R", "length_R", "done_R"),
        ),
        Row("softmax", "log_softmax", "LightSeq, section 2.2", "tolerance", _softmax_cost),
        Row("beam_scores", "add_beam_scores", "LightSeq, section 2.2", "exact", _beam_scores_cost, ("scores_RV",)),
        Row("rolling", "attend_rolling", "MQA, section 4.1 and footnote 1", "tolerance", _rolling_cost),
        Row("candidates", "top_candidates", "LightSeq, section 2.2", "exact", _candidates_cost),
        Row("hars", "hars_candidates", "LightSeq, section 2.2, Figure 3", "tolerance", _hars_cost, may_be_off=True),
        Row("temperature", "apply_temperature", "LightSeq, section 2.2", "exact", _temperature_cost, ("scores_RV",)),
        Row("top_k", "top_k_filter", "LightSeq's ker_topk_sample, exact", "exact", _top_k_cost, ("scores_RV",)),
        Row("top_p", "top_p_filter", "LightSeq's ker_topp_sample, exact", "exact", _top_p_cost, ("scores_RV",)),
        Row("typical", "typical_filter", "Meister et al. 2022, equation 9", "exact", _typical_cost, ("scores_RV",)),
        Row("argmax", "argmax_tokens", "LightSeq, section 2.2", "tolerance", _argmax_cost),
        Row("sample", "sample_tokens", "LightSeq's ker_topk_sample and ker_topp_sample", "exact", _sample_cost),
        Row("gather", "gather_logprobs", "LightSeq's ker_topk_sample and ker_topp_sample", "exact", _gather_cost),
        Row("random", "gumbel", "LightSeq, section 2.2: sampling, by counter", "tolerance", _random_cost),
        Row(
            "arena",
            "assign_offsets",
            "LightSeq, section 2.3",
            "exact",
            _arena_cost,
            spelled={"none": "off", "separate": "naive", "planned": "reference"},
        ),
    ]
}


def find(name: str) -> Row:
    """The row of that name. Raises OptionError, which lists the names there are."""
    from .errors import OptionError, did_you_mean

    if not isinstance(name, str) or name not in CATALOG:
        near = did_you_mean(name, CATALOG)
        raise OptionError(
            f"there is no optimization {name!r}{f'{near} The' if near else ': the'} names are {', '.join(CATALOG)}"
        )
    return CATALOG[name]


def arguments_of(row: Row, arguments: tuple) -> dict[str, Any]:
    """The arguments by the names that ops.py gives them."""
    import inspect

    from . import ops

    return dict(zip(inspect.signature(getattr(ops, row.op)).parameters, arguments, strict=False))


def arrays_of(row: Row, arguments: tuple) -> list[tuple[str, Any]]:
    """The arrays among the arguments, and those in the fields of dataclasses, by their names."""
    return list(arrays_in(list(arguments_of(row, arguments).items())))
