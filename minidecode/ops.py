"""The ops: what happens between two matrix products, as signatures that every backend implements.

A backend (`reference/`, `cpu/` for some, `cuda/`) has these functions under these names, with these positional
parameters; a test compares them. It may add keyword-only ones, such as `workspace` (see reference/). The body here is
the docstring: the equation, the contract and the cost stand once, beside no implementation. Shapes are in the names
(see dims.py); `returns` names the results. The file is long because it is the one list of all ops.

Costs are per call, with s bytes per number: "moves" counts each array once, read or written. A cache (keys, values,
hidden states that steps read) may be float16, with an s of its own: it is read as it is, and computed with in the
dtype of the queries.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

Array = Any  # a NumPy array here; backends bring their own

ALIGNED = 64  # bytes: a cache line; every array in an arena begins on one

RETURNS: dict[str, tuple[str, ...]] = {}
TABLES: dict[str, tuple[str, ...]] = {}
# Results by their names: these are int64 and bool; all others are floats, of the dtype of the floats handed in.
WHOLE = ("indirection_RT", "text_BWM", "finished_BWM", "kept_BW", "parent_BW", "token_BW", "slot_BW", "at_B",
         "trouble_B", "flag", "token_R", "trouble_R", "index_BC", "parent_BC", "token_BC", "offset_X")  # fmt: skip
TRUTHS = ("finishes_BC",)


def returns(*names: str, tables: tuple[str, ...] = ()) -> Callable:
    """Names an op's results, so that the dimension checker can hold them to their shapes.

    tables: the arguments that are touched here and there, so that receipts do not count them whole.
    """

    def note(function: Callable) -> Callable:
        RETURNS[function.__name__], TABLES[function.__name__] = names, tables
        return function

    return note


@dataclass(frozen=True)
class Weight:
    """A matrix as it lies in the file, and what belongs to it.

    layout "io": data is (in, out), as GPT-2 stores it; "oi": (out, in), as PyTorch's Linear and the embedding do.
    data may be narrower than what is computed with: float16, or int8 with one `scale` per output, which stands for
    scale * data (device/low_precision.py makes them); floats have none. A scale of two axes is one for every block of
    32 inputs: (out, blocks) in float16, of int8 or of two four-bit numbers a byte (device/weight_blocks.py); such a
    weight is "oi" or "panels". bias is added by the op *after* the product,
    fused with what follows (LightSeq, section 2.1), or by `linear_epilogue`, never by `linear` itself.

    x_bits: 8 or 7 where the rows that meet an int8 weight are rounded to this many bits (`linear_int8`); None where
    they stay floats.

    layout "panels": packed for the CPU's compiled products, as panel_gemm.py or block_gemm.py have it;
    `packed_outputs` is how many outputs the panels hold. device/low_precision.py lays them out in rows again
    (`unpack_panels`).

    While a model is loaded, data may be a tuple of matrices in "oi", whose outputs follow each other.
    `with_joined_matrices` makes one matrix of them when it is their turn to be stored: not all layers at once.
    """

    data: Array
    bias: Array | None = None
    scale: Array | None = None
    layout: str = "io"
    x_bits: int | None = None
    packed_outputs: int | None = None

    @property
    def outputs(self) -> int:
        """How many there are; panels may hold more, which are zeros."""
        if self.packed_outputs is not None:
            return self.packed_outputs
        return self.data.shape[0 if self.layout == "oi" else 1]

    @property
    def computed_in(self) -> Any:
        """The dtype of products: float32 for weights that are stored in fewer bits, else their own."""
        return np.result_type(self.data.dtype, np.float32)

    def of_outputs(self, outputs: slice) -> Weight:
        """Some of its outputs: views of its arrays, not copies. Raises ValueError if these are not whole panels."""
        bias = None if self.bias is None else self.bias[outputs]
        if self.layout != "panels":
            scale = None if self.scale is None else self.scale[outputs]
            return replace(self, data=self.data[outputs] if self.layout == "oi" else self.data[:, outputs],
                           bias=bias, scale=scale)  # fmt: skip
        (first, last, _), width = outputs.indices(self.outputs), self.data.shape[2]
        if first % width or (last % width and last < self.outputs):
            raise ValueError(f"outputs {first} to {last} are not whole panels of {width}")
        panels, scale = slice(first // width, -(-last // width)), self.scale
        if scale is not None:
            scale = scale[panels] if scale.ndim == 3 else scale[outputs]
        return replace(self, data=self.data[panels], bias=bias, scale=scale, packed_outputs=last - first)


@dataclass(frozen=True)
class Norm:
    """Gain, bias and epsilon of a layer normalisation; without a bias, of an RMS norm, which takes no mean off."""

    gain_D: Array
    bias_D: Array | None
    eps: float


@dataclass(frozen=True)
class PositionBias:
    """What attention adds to its scores by how far a key is from its query (T5): a number by query head and bucket.

    bias_XHP: one for all rows of a call (X = 1), or one for each (X = R). bucket_L: int64; a query at position t and a
    key at position m have the bucket in entry t - m + zero, and beyond either end of the table that of the end. Scores
    get it after their scale. Positions count within a sentence, so padding in front of it does not matter.
    """

    bias_XHP: Array
    bucket_L: Array
    zero: int = 0

    def of_rows(self, rows: slice) -> PositionBias:
        """The bias of some rows of the call."""
        return self if len(self.bias_XHP) == 1 else PositionBias(self.bias_XHP[rows], self.bucket_L, self.zero)


@dataclass(frozen=True)
class Heads:
    """How the width of an attention layer is cut: H query heads over G key/value heads; scores are times `scale`.

    window: a row sees that many positions, its own the last of them (local attention, MQA section 4.1); None sees all.
    bias: what self-attention adds to its scores by distance, if anything.
    """

    H: int
    G: int
    K: int
    U: int
    scale: float
    window: int | None = None
    bias: PositionBias | None = None

    @property
    def biases(self) -> dict[str, PositionBias]:
        """The argument `bias` of an attention op: none where there is no bias, so that such calls stay as they are."""
        return {} if self.bias is None else {"bias": self.bias}


# Whose hope keeps a sentence going after W texts have finished, and what can go wrong in a step of one.
NOBODY, BEST_BEAM, BEST_CANDIDATE = range(3)
FINE, NOT_A_NUMBER, NONE_LEFT, PENALTY_TOO_STRONG, NO_ROOM = range(5)

# What the host reads back of a step: bits of one number.
ALL_DONE, TROUBLE, MOVED, SOME_DONE = 1, 2, 4, 8


@dataclass(frozen=True)
class BeamRules:
    """When a text finishes and when a sentence is done, as numbers that a kernel takes: a dialect and its options.

    out_of_play: what a beam without a text scores, and what is added to one that should have ended.
    first_stay: the first W texts that finish stay, if they are possible at all; otherwise the best W of all do.
    full_is_done: W finished texts end a sentence.
    hope: whether it ends too when the best that runs (BEST_BEAM), or once W have finished the step's best candidate
    (BEST_CANDIDATE), cannot beat the worst of those; hope_at_limit: not even as long as it may get.
    candidates_at_limit: the last candidates finish whatever their token; beams_at_limit: those that run then do.
    in_order: beams keep the order of their candidates, which says to which group they belong.
    """

    out_of_play: float
    first_stay: bool = False
    full_is_done: bool = False
    hope: int = BEST_BEAM
    hope_at_limit: bool = False
    candidates_at_limit: bool = False
    beams_at_limit: bool = False
    in_order: bool = False


@returns("x_RD", "h_RD", tables=("wte_VD", "wpe_ND"))
def embed_norm(
    ids_R: Array, pos_R: Array, wte_VD: Array, wpe_ND: Array | None, scale: float, norm: Norm, out: Any = None
) -> tuple[Array, Array]:
    """x[r] = scale * wte[ids[r]] + wpe[pos[r]], h = layer_norm(x): token plus position, normalised.

    layer_norm(x) = gain * (x - mean(x)) / sqrt(var(x) + eps) + bias, over each row; var is the mean squared deviation,
    and the mean is taken off before squaring: E[x^2] - mean^2 loses everything on rows far from 0. A norm whose bias is
    None is an RMS norm: gain * x / sqrt(mean(x^2) + eps). Without wpe_ND no position is added, whatever pos_R is.
    GPT-2 goes on with both, BART, which may scale the token by sqrt(D), with h alone. One of LightSeq's fused kernels
    (section 2.1).

    Contract: tolerance. ids_R, pos_R: int64, inside their tables; a kernel would read whatever lies outside of them.
    Moves 4*R*D*s bytes; about 10*R*D operations.
    """


@returns("y_RX")
def linear(x_RX: Array, weight: Weight, add_to: Array | None = None, out: Array | None = None) -> Array:
    """y = x W, without the bias; with `add_to`, y is added into that array and it is returned (GEMM with beta = 1).

    X is the number of inputs, and in the result of outputs. W may be stored as float16, or as int8 with a scale for
    each output, or as int8 or int4 with one for each block of 32 inputs: products, sums and y are of x's dtype, and the
    scale is applied to the weights or to the sum (of a block, or a part of it). On a device, x is rounded to float16
    where it meets a W of fewer bits than float32 (device/low_precision.py).
    Contract: tolerance, for the weights that are stored; the sum runs over the inputs of W.
    Moves R*(in + out)*s bytes, and in*out times the bytes of a weight; 2*R*in*out operations.
    """


@returns("y_RX")
def linear_epilogue(
    x_RX: Array, weight: Weight, activation: str | None = None, add_to: Array | None = None, out: Array | None = None
) -> Array:
    """y = act(x W + bias), with all of it done where each sum ends; with `add_to`, that plus y, in place, is returned.

    The order is: product, scale of int8 weights, bias (if the weight has one), activation (by its name, as in
    `bias_activation`; None for none), residual. So a feed-forward layer is two ops, and adds itself into the residual
    stream. LightSeq (section 2.1) goes half of the way: its products add into the residual (GEMM with beta = 1), and
    its kernels between them add the bias. X is the number of inputs, and in the result of outputs.
    Contract: tolerance, for the weights that are stored; see `linear`.
    Moves R*(in + out)*s bytes, R*out*s more with `add_to`, and in*out times the bytes of a weight; 2*R*in*out
    operations. A product, `bias_activation` and a sum by themselves move 2*R*out*s and 2*R*out*s bytes more.
    """


@returns("y_RX")
def linear_int8(
    x_RX: Array, weight: Weight, bias_X: Array | None = None, activation: str | None = None,
    add_to: Array | None = None, out: Array | None = None,
) -> Array:  # fmt: skip
    """y = act(s_R (q W) s_X + bias): integers times integers; with `add_to`, that plus y, in place.

    Each row of x is rounded as it comes (dynamic quantization): s_R = max |x| / L and q = x / s_R, rounded to the
    nearest integer, ties to even. L is 127, or 63 where the weight's x_bits is 7. W is int8 in the layout "oi" or
    "panels", s_X its scale for each output. bias_X is an argument, since products of attention get theirs later.
    Contract: tolerance. The sums q W are exact in every backend; their ending rounds. A row that holds an infinity or
    NaN becomes NaN, that row alone; one with all |x| below 1e-35 counts as zeros. Raises OptionError beyond 66,000
    inputs, where a sum of 32 bits could overflow. Float32 alone.
    Moves R*(in + out)*4 bytes, R*out*4 more with `add_to`, in*out of weights, and 2*R*in of rounded rows, which are
    written and read; 2*R*in*out operations with bytes, and 3*R*in with floats to round.
    """


@returns("q_RHK", "k_RGK", "v_RGU")
def split_heads(
    qkv_RX: Array, bias_X: Array | None, heads: Heads, dtype: Any = None, out: Any = None
) -> tuple[Array, Array, Array]:
    """(q, k, v) = qkv + bias, cut into heads: X is H*K query columns, then G*K key and G*U value columns.

    dtype: float16 rounds each sum once; what is beyond its range becomes its largest number. None: as qkv is.

    LightSeq's `ker_arrange_encself_qkv` (section 2.1). Either side may be empty: of a source there are no queries
    (H = 0), of a target that looks at it queries alone (G = 0). qkv may be some columns of a wider product.
    Contract: exact (one addition). Moves 2*R*X*s bytes; R*X additions.
    """


@returns("y_RX", tables=("turns_NK",))
def rotate_heads(
    qkv_RX: Array, bias_X: Array | None, heads: Heads, pos_R: Array, turns_NK: Array, out: Array | None = None
) -> Array:
    """y = qkv + bias, with each query and key turned by its position (rotary embedding, Su et al. 2021).

    The halves (a, b) of a head become (a cos - b sin, b cos + a sin), number by number. turns_NK has the cosines of
    position n in its first K/2 columns and the sines in the others. Columns are those of `split_heads`, which comes
    next, without a bias; values stay as they are. Keys lie in a cache as they were turned: what is done with a cache
    does not depend on it. pos_R: int64, 0 <= pos < N. K is even.
    Contract: tolerance. Moves 2*R*X*s + R*K*s bytes; about 3*R*(H+G)*K operations.
    """


@returns("q_RHK", tables=("k_RGMK", "v_RGMU"))
def append_kv(
    qkv_RX: Array, bias_X: Array | None, heads: Heads, k_RGMK: Array, v_RGMU: Array, at_R: Array,
    out: Array | None = None,
) -> Array:  # fmt: skip
    """`split_heads` of a decode step, whose keys and values go straight into the cache: only the queries come back.

    k[r, :, at[r]] and v[r, :, at[r]] become the row's keys and values, in place: the sum with the bias, rounded once to
    the cache's dtype. What is beyond float16's range becomes 65,504 or -65,504. All else stays. LightSeq's
    `ker_arrange_decself_qkv` (section 2.1). at_R: int64, 0 <= at < M (a kernel writes nothing where at is M or more).
    qkv may be some columns of a wider product.
    Contract: exact (one addition). Moves 2*R*X*s bytes, whatever the length; R*X additions.
    """


@returns("q_RHK", tables=("k_XGMK", "v_XGMU"))
def append_paged(
    qkv_RX: Array, bias_X: Array | None, heads: Heads, k_XGMK: Array, v_XGMU: Array, table_RX: Array, at_R: Array,
    out: Array | None = None,
) -> Array:  # fmt: skip
    """`append_kv` into pages: position at[r] of row r lies in slot at[r] % M of page table[r, at[r] // M].

    k[page, :, slot] and v[page, :, slot] become the row's keys and values, in place: the sum with the bias, rounded
    once to the cache's dtype. What is beyond float16's range becomes 65,504 or -65,504. All else stays. There are X
    pages of M positions. table_RX: int64, the pages of each row; no two rows write the same page in one call. at_R:
    int64, below M times the length of the table (a kernel writes nothing beyond that).
    Contract: exact (one addition). Moves 2*R*X*s bytes, whatever the length, and a page number a row; R*X additions.
    """


@returns("k_SRGK", "v_SRGU")
def project_cross_kv(
    h_RD: Array, weight: Weight, heads: Heads, dtype: Any = None, out: Any = None
) -> tuple[Array, Array]:
    """Keys and values of a source for all decoder layers: k[s], v[s] = h W_s + bias_s, cut into heads.

    dtype: of keys and values, as in `split_heads`.

    The weight's outputs are those of S layers side by side, in each G*K columns of keys before G*U of values; of
    `heads`, H does not matter. LightSeq has one product for them all in place of one a layer, and the kernel behind it
    (`ker_arrange_encdec_kv`, section 2.1, Figure 2). W may be low-precision, as in `linear`; the bias comes last.
    Contract: tolerance, for the weights that are stored; the sum runs over the inputs of W.
    Moves R*(D + X)*s bytes for X outputs, and D*X times the bytes of a weight; 2*R*D*X operations. What stands between
    product and kernel is written and read besides, 2*R*X*s bytes; a product for each layer reads h S times.
    """


@returns("a_RX")
def attend_prefill(
    q_RHK: Array, k_XGK: Array, v_XGU: Array, q_offsets_X: Array, k_offsets_X: Array, scale: float, causal: bool,
    window: int | None = None, bias: PositionBias | None = None, out: Array | None = None,
) -> Array:  # fmt: skip
    """Attention inside each sentence, over rows without padding: prompts, encoders, and sources seen from targets.

    Sentence b owns query rows q_offsets[b] to q_offsets[b+1] and key rows k_offsets[b] to k_offsets[b+1]. A query
    sees all keys of its sentence, or, if causal, those up to itself, of which a window leaves the last `window`:
    a[r, h] = sum_m softmax_m(scale * q[r, h] . k[m, g]) v[m, g],  g = h // (H/G).
    The queries of a causal sentence are its last positions: all of them, or, where keys and values of the first ones
    are known already, fewer. A position bias is added to the scores; positions count from where a sentence begins.
    Where q, k and v are float16, all three, the weights of the softmax may be rounded to float16 too; sums, and the
    result, are float32.
    Returns the heads side by side, X = H*U columns. LightSeq's two products of an encoder layer and what is between and
    behind them, `ker_correlation_softmax_encself` and `ker_arrange_atten_output` (section 2.1). Raises ValueError where
    a sentence has queries and no keys.

    Contract: tolerance. Moves (R*H*(K+U) + X*G*(K+U))*s bytes for X key rows; about 2*H*(K+U) operations for each
    pair of a query and a key of one sentence.
    """


@returns("a_RX")
def attend(
    q_RHK: Array, k_RGMK: Array, v_RGMU: Array, begin_R: Array, end_R: Array, scale: float,
    bias: PositionBias | None = None, out: Array | None = None,
) -> Array:  # fmt: skip
    """One new row per sequence against that sequence's own keys and values (the replicated cache).

    a[r, h] = sum_m softmax_m(scale * q[r, h] . k[r, g, m]) v[r, g, m], over begin[r] <= m < end[r]; g = h // (H/G).
    Positions before begin[r] are left padding, those from end[r] on are not written yet; at least one is neither.
    A position bias is added to the scores; the row's own position is end[r] - 1.
    Returns the heads side by side, X = H*U columns.

    Contract: tolerance. Moves R*M*G*(K+U)*s bytes (the whole cache, each step); 2*R*M*H*(K+U) operations.
    """


@returns("a_RX")
def attend_shared(
    q_RHK: Array, k_BGNK: Array, v_BGNU: Array, begin_B: Array, scale: float, out: Array | None = None
) -> Array:
    """The beams of a sentence against one copy of its keys and values (FastSeq, section 4.1.2, Equation 4).

    a[r, h] = sum_n softmax_n(scale * q[r, h] . k[b, g, n]) v[b, g, n], over begin[b] <= n < N, for the sentence
    b = r // (R/B) of the row; g = h // (H/G). Returns the heads side by side, X = H*U columns.

    Contract: tolerance. Moves B*N*G*(K+U)*s bytes, a W-th of `attend`'s; 2*R*N*H*(K+U) operations.
    """


@returns("a_RX")
def attend_split(
    q_RHK: Array, prompt_k_BGNK: Array, prompt_v_BGNU: Array, prompt_begin_B: Array, k_RGTK: Array, v_RGTU: Array,
    begin_R: Array, end_R: Array, scale: float, bias: PositionBias | None = None, out: Array | None = None,
) -> Array:  # fmt: skip
    """A sentence's prompt is kept once, what its beams have generated once each (FastSeq, Equation 3).

    One softmax runs over both parts: over prompt_begin[b] <= n < N of the prompt of sentence b = r // (R/B), and over
    begin[r] <= t < end[r] of the row's own positions, of which there is at least one. The prompt part may be empty
    (prompt_begin[b] = N), as under a window. g = h // (H/G). A position bias is added to the scores: own position t is
    position N + t, and the row's own is N + end[r] - 1. Returns the heads side by side, X = H*U columns.

    Contract: tolerance. Moves (B*N + R*T)*G*(K+U)*s bytes; 2*R*(N+T)*H*(K+U) operations.
    """


@returns("a_RX")
def attend_el(
    q_RHK: Array, h_BND: Array, begin_B: Array, w_k_GKD: Array, b_k_GK: Array, w_v_GUD: Array, b_v_GU: Array,
    scale: float, out: Array | None = None,
) -> Array:  # fmt: skip
    """The beams of a sentence straight against its hidden states, with no key or value built (EL, Equations 5 and 9).

    The layer's own weights, views into them, say what key and value of position n would be: k = W_k h + b_k and
    v = W_v h + b_v. They go to the query and to the result instead, so that all heads and beams share h:
    q'[r, h] = q[r, h] W_k[g],  p = softmax_n(scale * (q'[r, h] . h[b, n] + q[r, h] . b_k[g])) over begin[b] <= n < N,
    a[r, h] = W_v[g] (sum_n p_n h[b, n]) + b_v[g],  for the sentence b = r // (R/B) of the row; g = h // (H/G).
    `scale` is 1/sqrt(K), whatever the width D of h. q . b_k is the same at all positions, so softmax takes no notice
    of it, and it need not be computed. Padding may hold any finite numbers. h may be float16: it is read as it is, and
    computed with in q's dtype. Returns the heads side by side, X = H*U columns.

    Contract: tolerance. Moves B*N*D*s bytes for h and G*(K+U)*D*s for the weights; 4*R*H*N*D operations, H times
    those of multi-head attention, and 2*R*H*D*(K+U) for q' and the result.
    """


@returns("a_RX")
def attend_el_split(
    q_RHK: Array, prompt_h_BND: Array, prompt_begin_B: Array, w_k_GKD: Array, b_k_GK: Array, w_v_GUD: Array,
    b_v_GU: Array, k_RGTK: Array, v_RGTU: Array, begin_R: Array, end_R: Array, scale: float, out: Array | None = None,
) -> Array:  # fmt: skip
    """`attend_el` over a sentence's prompt, multi-head attention over what its beams have generated (EL, section 3.2).

    One softmax runs over both parts: over prompt_begin[b] <= n < N of the prompt of sentence b = r // (R/B), with
    scores scale * (q W_k[g] . h[b, n] + q . b_k[g]), and over begin[r] <= t < end[r] of the row's own positions, of
    which there is at least one, with scores scale * q . k[r, g, t]. q . b_k is the same within the prompt but not in
    the other part, so here it counts; and b_v counts as much as the prompt's share of the softmax:
    a[r, h] = W_v[g] (sum_n p_n h[b, n]) + (sum_n p_n) b_v[g] + sum_t p_t v[r, g, t].
    The prompt part may be empty (prompt_begin[b] = N), as under a window. g = h // (H/G). Returns the heads side by
    side, X = H*U columns.

    Contract: tolerance. Moves (B*N*D + G*(K+U)*D + R*T*G*(K+U))*s bytes; 4*R*H*N*D operations for the prompt,
    2*R*H*D*(K+U) for q' and the result, 2*R*H*T*(K+U) for the rest.
    """


@returns("a_RX")
def attend_indirect(
    q_RHK: Array, prompt_k_BGNK: Array, prompt_v_BGNU: Array, prompt_begin_B: Array, k_RGTK: Array, v_RGTU: Array,
    indirection_RT: Array, begin_R: Array, end_R: Array, scale: float, bias: PositionBias | None = None,
    out: Array | None = None,
) -> Array:  # fmt: skip
    """Attends as `attend_split`, to own positions that may lie in other rows: a table says where (FasterTransformer).

    Row r's own position t is k[source[r, t], :, t], v[source[r, t], :, t], for begin[r] <= t < end[r]; there is at
    least one. indirection_RT: int64, rows of the same sentence. The rest is as in `attend_split`: one softmax over the
    prompt, prompt_begin[b] <= n < N, and the row's own positions, and a position bias is added as there. Returns the
    heads side by side, X = H*U columns.

    Contract: tolerance. Moves at most (B*N + R*T)*G*(K+U)*s bytes, less where beams share what they have generated,
    and a table of R*T numbers; 2*R*(N+T)*H*(K+U) operations.
    """


@returns("a_RX")
def attend_paged(
    q_RHK: Array, k_XGMK: Array, v_XGMU: Array, table_RX: Array, begin_R: Array, end_R: Array, scale: float,
    bias: PositionBias | None = None, out: Array | None = None,
) -> Array:  # fmt: skip
    """One new row per sequence against positions that lie in pages: a table says in which (vLLM's PagedAttention).

    Row r's position m is k[p, :, m % M], v[p, :, m % M] for p = table[r, m // M] and begin[r] <= m < end[r]; there is
    at least one. There are X pages of M positions, and rows may share pages. table_RX: int64; entries for pages of
    which a row sees nothing may name any page. g = h // (H/G). A position bias is added to the scores; the row's own
    position is end[r] - 1. Returns the heads side by side, X = H*U columns.

    Contract: tolerance. Moves G*(K+U)*s bytes for each position that is seen, once for all rows that share its page,
    and 8 for each page of each row; 2*H*(K+U) operations for each position that a row sees.
    """


@returns("a_RX")
def attend_rolling(
    q_RHK: Array, k_RGMK: Array, v_RGMU: Array, begin_R: Array, end_R: Array, scale: float,
    bias: PositionBias | None = None, out: Array | None = None,
) -> Array:  # fmt: skip
    """One new row per sequence against the last M positions of its own: local attention (MQA, section 4.1).

    Position p lies in slot p % M. Row r sees max(begin[r], end[r] - M) <= p < end[r]: positions before begin[r] are
    left padding, end[r] - 1 is the newest; at least one is seen. Slots whose position is not seen may hold anything.
    g = h // (H/G). A position bias is added to the scores; the row's own position is end[r] - 1. Returns the heads
    side by side, X = H*U columns.

    Contract: tolerance. Moves R*M*G*(K+U)*s bytes, however long the text; 2*R*M*H*(K+U) operations.
    """


@returns("x_RD", "h_RD")
def residual_norm(
    x_RD: Array, y_RD: Array | None, bias_D: Array | None, norm: Norm, out: Any = None
) -> tuple[Array, Array]:
    """x' = x + y + bias, h = layer_norm(x'): the residual stream, and what the next product reads (see embed_norm).

    Where y is None (`linear_epilogue` has added it already), so is the bias: x' is x itself, returned as it is, and of
    `out` h's alone is written to.
    LightSeq's `ker_norm_layer_resual` (section 2.1). Contract: tolerance.
    Moves 4*R*D*s bytes, 2*R*D*s without y; about 10*R*D operations.
    """


@returns("x_RX")
def add_bias(x_RX: Array, bias_X: Array, out: Array | None = None) -> Array:
    """y = x + bias, for the one product that nothing follows: BART's final_logits_bias.

    Contract: exact (one addition). Moves 2*R*X*s bytes; R*X additions.
    """


@returns("y_RX")
def bias_activation(f_RX: Array, bias_X: Array | None, activation: str, out: Array | None = None) -> Array:
    """act(f + bias), with the activation by its name in config.json: LightSeq's `ker_bias_gelu`, `ker_bias_relu`.

    gelu: f/2 (1 + erf(f/sqrt 2)); gelu_new: f/2 (1 + tanh(sqrt(2/pi) (f + 0.044715 f^3))), also called
    gelu_fast and gelu_pytorch_tanh; quick_gelu: f / (1 + exp(-1.702 f)); relu; silu, also called swish; tanh.
    gelu_python is gelu; gelu_10: gelu, at most 10; mish: f tanh(log(1 + exp f)); relu2: relu(f)^2;
    laplace: (1 + erf((f - 0.707107) / (0.282095 sqrt 2))) / 2; linear: f.
    gated-NAME: act(f[2j] + bias[2j]) * (f[2j+1] + bias[2j+1]), half as many results: columns are pairs of gate and up
    (Llama, T5 1.1), so that one thread ends a pair.
    Contract: tolerance. Moves 2*R*X*s bytes, of pairs 1.5*R*X*s.
    """


@returns("x_RX", tables=("x_RX",))
def gather_rows(x_RX: Array, pick_R: Array, out: Array | None = None) -> Array:
    """Copies of the rows named by pick_R: x[pick]. X is whatever a row holds; the caches reorder with it.

    pick_R: int64, each from 0 to len(x) - 1. No backend need look: with another number NumPy raises or counts from the
    end, and a kernel reads what is not x's.

    Contract: exact. Moves 2 * len(pick) * (bytes of a row).
    """


@returns("k_BGNX")
def pad_left(k_RGX: Array, offsets_X: Array, N: int | None = None, out: Array | None = None) -> Array:
    """Prompt rows without padding -> one block per sentence, all ending at the same position N.

    Sentence b owns rows offsets[b] to offsets[b+1]; the padding in front is zeros. N: as many positions as the longest
    has, which is what None stands for, or more. Contract: exact.
    Moves R*G*X*s bytes in, B*G*N*X*s out.
    """


def concat_step(k_RGMX: Array, k_RGX: Array, out: Array | None = None) -> Array:
    """The cache with one position more, as a new array: everything is copied, each step.

    The new position in the cache's dtype, as `append_kv` writes it.
    Contract: exact. Moves about 2*R*G*M*X*s bytes to add R*G*X*s.
    """


@returns("k_RGMX")
def reorder_cache(k_RGMX: Array, parent_R: Array, length_R: Array, out: Array | None = None) -> Array:
    """Row r goes on from what row parent[r] held, in its first length[r] positions; in place, k_RGMX is returned.

    k[r, :, t] = k[parent[r], :, t] for t < length[r], all at once: rows may change places, and each gets what the
    other held before the call. All rows are as long; positions from there on stay as they were. `out`, if given, gets
    the whole result instead. The "cache refreshing" of LightSeq (section 3.2).

    Contract: exact. Moves 2*G*X*length*s bytes for each row whose parent is another.
    """


@returns("indirection_RT")
def update_indirection(indirection_RT: Array, parent_R: Array, length_R: Array, out: Array | None = None) -> Array:
    """`reorder_cache` for the table of `attend_indirect`: a row's positions lie where its parent's lie; no key moves.

    source[r, t] = source[parent[r], t] for t < length[r], all at once, in place; indirection_RT is returned. All rows
    are as long; positions from there on, not written yet, stay the row's own. `out`, if given, gets the whole result.

    Contract: exact. Moves 16*length bytes for each row whose parent is another; its keys and values would be
    2*G*(K+U)*length*s.
    """


@returns("k_XGMX", tables=("k_XGMX",))
def copy_pages(k_XGMX: Array, source_R: Array, target_R: Array, out: Array | None = None) -> Array:
    """Copy on write: k[target[r]] = k[source[r]] where the two differ; in place, k_XGMX is returned.

    A row that stays in its page has target[r] = source[r], and copies nothing. No page that is copied to is copied
    from, and none is copied to twice, so the order is free. source_R, target_R: int64, pages. `out`, if given, gets
    the whole result instead.

    Contract: exact. Moves 2*(bytes of a page) for each row that gets another page, and 16 a row.
    """


@returns("text_BWM")
def update_sequences(
    text_BWM: Array, parent_BW: Array, token_BW: Array, length_B: Array, out: Array | None = None
) -> Array:
    """The table of running texts after a step of beam search: each follows its parent, and gets its new token.

    text[b, w, m] = text[b, parent[b, w], m] for m < length[b], all at once, and text[b, w, length[b]] = token[b, w]; in
    place, text_BWM is returned. Positions behind the new one stay as they were. parent_BW: beams of the same sentence;
    all texts of a sentence are as long, and 0 <= length < M. `out`, if given, gets the whole result instead. LightSeq's
    `ker_refresh_result`.

    Contract: exact. Moves 16*length bytes for each text whose parent is another, and 16 for each token.
    """


@returns("kept_BW", "parent_BW", "token_BW", "finishes_BC", "slot_BW", "at_B", "trouble_B")
def update_beams(
    score_BC: Array, parent_BC: Array, token_BC: Array, running_score_BW: Array, finished_score_BW: Array,
    finished_length_BW: Array, done_B: Array, length_B: Array, prompt_B: Array, limit_B: Array, norm_X: Array,
    eos_X: Array, rules: BeamRules, out: Any = None,
) -> tuple[Array, Array, Array, Array, Array, Array, Array]:  # fmt: skip
    """What a step of beam search makes of its candidates: who finishes, who runs on, and which sentences are done.

    Candidate c continues beam parent[b, c] by token[b, c]; the whole then has new = length + 1 - prompt new tokens and
    scores score[b, c]. One ends if its token is among eos_X. W places hold what has finished, best first: the score,
    divided by norm_X[new] (for Wu et al. 2016, ((5 + new) / 6) ** penalty), and the number of new tokens; an empty
    place holds rules.out_of_play and 0. In order:
    1. those of the first W candidates that end finish (finishes_BC), if the sentence was not done, and take their
       places among what has finished, behind equals;
    2. W run on: those that do not end, best first (kept_BW; their parents and tokens; running_score_BW), and if there
       are too few, those that do, with rules.out_of_play added;
    3. the sentence may be done by the rules of BeamRules, and is at limit[b] new tokens;
    4. at_B says where the step's tokens go, and lengths grow by one where a sentence goes on.
    slot[b, w] is where finished text w comes from: a place below W, or W + (a candidate). A sentence all of whose
    candidates are impossible (-inf) is done, and trouble[b] is NONE_LEFT if nothing has finished; if the first is NaN,
    as all are then, NOT_A_NUMBER; if the norm takes a score that is in play below rules.out_of_play,
    PENALTY_TOO_STRONG; else FINE. (On a device, where nothing can raise, a sentence that goes on beyond norm_X is done,
    and its trouble NO_ROOM.) C is at least W; of equal scores the first goes first. The scores that run, the
    scores and lengths that have finished, done_B and length_B are changed in place. LightSeq's `ker_refresh_result`
    decides as much.

    Contract: exact. Moves B*(C*(s + 17) + W*(3*s + 48)) bytes and some; about B*C*(C + W) comparisons.
    """


@returns("finished_BWM")
def store_finished(
    finished_BWM: Array, running_BWM: Array, slot_BW: Array, parent_BC: Array, token_BC: Array, at_B: Array,
    out: Array | None = None,
) -> Array:  # fmt: skip
    """The table of finished texts after a step of beam search: slot[b, w] says who stands in place w.

    Below W it is the text that stood in that place; otherwise that of candidate c = slot - W, which is
    running[b, parent[b, c], :at[b]] and then token[b, c]. In place, finished_BWM is returned; positions behind at[b]
    stay as they were. A text never moves to a better place: slot[b, w] <= w, or it is a candidate. `out`, if given,
    gets the whole result instead.

    Contract: exact. Moves 16*(at + 1) bytes for each place that changes, and 8*B*W for the slots.
    """


@returns("flag")
def step_flags(
    done_X: Array, trouble_X: Array, parent_BW: Array, model_trouble_R: Array | None = None, out: Array | None = None
) -> Array:
    """What the host must know of a step of beam search, as one number: an array of one, int64.

    flag = ALL_DONE if all sentences are done + SOME_DONE if any is (it may leave the batch) + TROUBLE if anything but
    FINE is noted of one (trouble_X, of `update_beams`) or of a row of the model's scores (model_trouble_R, of
    `log_softmax`) + MOVED if a beam continues another, parent[b, w] != w, so that caches must follow. X: sentences,
    those of one group of beams behind those of another; parent_BW: of all groups side by side. Of what is wrong, and
    where, the host then asks the arrays.

    Contract: exact. Reads 9 bytes for each sentence and 8 for each beam, and writes 8.
    """


@returns("flag")
def extend_sequences(
    tokens_RM: Array, token_R: Array, gained_R: Array, certain_R: Array, trouble_R: Array, total_R: Array,
    length_R: Array, done_R: Array, prompt_R: Array, limit_R: Array, eos_X: Array, model_trouble_R: Array | None = None,
    out: Array | None = None,
) -> Array:  # fmt: skip
    """A step's end in greedy search and sampling: each text gets its token, and the host reads one number.

    A row goes on if it was not done and nothing is wrong with it (trouble[r] is FINE). If so, tokens[r, length[r]]
    becomes token[r]; total[r] grows by gained[r], or by nothing where the token was certain; length[r] grows by one;
    and the row is done if the token is among eos_X, or if the text now has limit[r] new tokens behind the prompt[r]
    of its prompt. All other rows stay as they are. flag, an array of one number: ALL_DONE if all rows are done now +
    SOME_DONE if any is + TROUBLE if a row that is not done is in trouble, or any row NOT_A_NUMBER, or if
    model_trouble_R (of `log_softmax`, where processors may have hidden it since) is not FINE. Texts, total_R (float64),
    length_R and done_R are changed in place. LightSeq's `ker_topk_sample` and `ker_topp_sample` end with as much.
    On a device, where nothing can raise, a row that goes on and has no room for its token stays as it is, and its
    trouble becomes NO_ROOM.

    Contract: exact. Moves R*(s + 68) bytes and some; 2 operations and a comparison with each EOS for each row.
    """


@returns("scores_RV")
def apply_temperature(scores_RV: Array, temperature: float, out: Array | None = None) -> Array:
    """scores / temperature: below 1 the likely tokens gain, above 1 the unlikely ones.

    scores_RV is changed in place and returned; the temperature is rounded to its dtype first.
    Contract: exact (one division). Moves 2*R*V*s bytes; R*V divisions.
    """


@returns("scores_RV")
def add_beam_scores(scores_RV: Array, running_R: Array, out: Array | None = None) -> Array:
    """scores[r, v] + running[r]: a row's log-probabilities become scores of whole texts, in place, and are returned.

    Contract: exact (one addition). Moves 2*R*V*s bytes; R*V additions. `hars_candidates` moves none of them.
    """


@returns("scores_RV", "trouble_R")
def log_softmax(logits_RV: Array, out: Any = None) -> tuple[Array, Array]:
    """scores = logits - log(sum_v exp(logits)), row by row, with the row's maximum taken off first.

    A row without probabilities (one logit is NaN or plus infinity, or all are minus infinity) is NaN throughout, and
    trouble[r] is NOT_A_NUMBER: so it is known whatever processors make of the scores. Else trouble[r] is FINE.
    Contract: tolerance; trouble is exact. Moves 2*R*V*s bytes; about 4*R*V operations, R*V exponentials.
    """


@returns("score_R")
def token_logprobs(logits_RV: Array, token_R: Array, out: Array | None = None) -> Array:
    """score[r] = logits[r, token[r]] - log(sum_v exp(logits[r, v])): the log-probability of one token of each row.

    What log_softmax would write for the other tokens is not needed: LightSeq's output layer outside of a search
    (section 2.2). token_R: int64, inside the vocabulary.
    Contract: tolerance. Reads R*V*s bytes and writes R*s; about 3*R*V operations, R*V exponentials.
    """


@returns("token_R", "logprob_R", "trouble_R")
def argmax_tokens(scores_RV: Array, logits_RV: Array | None = None, out: Any = None) -> tuple[Array, Array, Array]:
    """token[r] = argmax_v scores[r, v], the lower one of equals, and logprob[r] = log_softmax(logits)[r, token[r]].

    A step of greedy search: scores are what the processors made of the model's logits, or those logits themselves.
    Without logits the scores are log-probabilities, and logprob[r] = scores[r, token[r]]. trouble[r] is NOT_A_NUMBER
    where a score is NaN or the logits have no probabilities (one is NaN or plus infinity, or all are minus infinity):
    then the token is 0 and logprob NaN. It is NONE_LEFT where all scores are minus infinity, and else FINE.

    Contract: tolerance, for logprob; tokens and trouble are exact. Reads R*V*s bytes, twice if both arrays are given;
    about 4*R*V operations, R*V exponentials.
    """


@returns("logprob_R", "trouble_R", tables=("scores_RV", "logprobs_RV"))
def gather_logprobs(
    token_R: Array, scores_RV: Array, logprobs_RV: Array | None = None, out: Any = None
) -> tuple[Array, Array]:
    """logprob[r] = logprobs[r, token[r]]: of tokens that were drawn, what `argmax_tokens` says of those it chooses.

    Scores are what the tokens were drawn from; without logprobs they are log-probabilities themselves. trouble[r] is
    NOT_A_NUMBER where either number is NaN (as the whole row is that `log_softmax` finds no probabilities in),
    NONE_LEFT where the score is minus infinity, for such a token is drawn only where all are, and else FINE.
    token_R: int64, inside the vocabulary.
    Contract: exact. Moves R*(16 + 3*s) bytes; two comparisons for each row.
    """


@returns("scores_RV", tables=("scores_RV",))
def ban_ngrams(scores_RV: Array, tokens_RM: Array, length_R: Array, n: int, out: Array | None = None) -> Array:
    """-inf for every token that would complete an n-gram that its row already holds (FastSeq, Algorithm 1).

    Row r's history is tokens[r, :length[r]], prompt included and padding not. A history shorter than n bans
    nothing; n = 1 bans every token seen. scores_RV is changed in place and returned.
    Contract: exact. Reads R*M tokens; writes at most R*M scores.
    """


@returns("scores_RV", tables=("scores_RV", "tokens_RM"))
def bias_sequences(
    scores_RV: Array, tokens_RM: Array, length_R: Array, list_R: Array, ids_XXX: Array, bias_XX: Array,
    out: Array | None = None,
) -> Array:  # fmt: skip
    """scores[r, v] += the biases of the sequences in the row's list that v would complete; -inf rules v out.

    ids_XXX: lists of sequences of tokens, int64. Row r takes list[r], none where that is below 0. A sequence's last
    token is its last number; it is biased where the text tokens[r, :length[r]] ends with the others. Shorter sequences
    are right-aligned: a number below 0 in front of the last token is none. Sequences whose last token is no column of
    the scores are left out (-2 fills a list up). In a list, those with the same last token stand side by side: their
    biases, each rounded to the scores' dtype, are added up in that order, and then to the score. A sum of -inf makes
    any score -inf. scores_RV is changed in place and returned. bias_XX: float64.
    Contract: exact. Reads 8 bytes of each token of the rows' sequences, and as many of the texts; writes a score for
    each that fits.
    """


@returns("scores_RV", tables=("scores_RV", "tokens_XM"))
def penalize_tokens(
    scores_RV: Array, tokens_XM: Array, length_X: Array, list_R: Array, penalty: float, out: Array | None = None
) -> Array:
    """scores[r, v] / penalty where it is at least 0, else scores[r, v] * penalty, for tokens v that the row's list has.

    Row r's tokens are tokens[x, :length[x]], x = list[r]: its own text, or the source of its sentence. A token that
    stands there several times counts once, and one that is no column of the scores does not count. The penalty is
    rounded to the scores' dtype. scores_RV is changed in place and returned (Keskar et al. 2019, section 4.1).
    Contract: exact. Reads and writes at most a score for each token of a row's list.
    """


@returns("scores_RV")
def typical_filter(scores_RV: Array, mass: float, least: int = 1, out: Array | None = None) -> Array:
    """-inf for all but the fewest tokens of at least this share of the probability whose surprise is nearest to its
    mean (Meister et al. 2022, equation 9).

    x[v] = max(scores) - scores[v] and weight[v] = floor(2**44 exp(-x[v])), with exp in float64; the mean is
    sum(floor(weight * x)) / sum(weight): whole numbers, whose sums are exact in any order. A token stays if the weights
    of all that are nearer to the mean, |x - mean|, sum to less than ceil(mass * sum(weight)); so what ties with the
    last one stays. The `least` nearest ones stay in any case, of equal ones the lower column first. mass is above 0
    and at most 1; V is below 2**19. scores_RV is changed in place and returned; what comes of a row that holds NaN
    or plus infinity means nothing, but it comes, and other rows are right.
    Contract: exact, for equal exponentials; see top_p_filter.
    Reads R*V*s bytes and writes at most as many; R*V exponentials and about 5*R*V operations.
    """


@returns("scores_RV")
def top_k_filter(scores_RV: Array, k: int, out: Array | None = None) -> Array:
    """-inf for every score that is below the k-th largest of its row; what ties with that one stays.

    The filter of LightSeq's `ker_topk_sample` (2.2 there is a rough one; here it is exact). k is at least 1; from V on
    nothing goes. scores_RV is changed in place and returned; what comes of a row that holds NaN means nothing,
    but it comes, and other rows are right.
    Contract: exact. Reads R*V*s bytes and writes at most as many; R*V comparisons.
    """


@returns("scores_RV")
def top_p_filter(scores_RV: Array, p: float, least: int = 1, out: Array | None = None) -> Array:
    """-inf for all but the fewest tokens, likeliest first, that hold a share p of the row's probability.

    weight[v] = floor(2**44 exp(scores[v] - max(scores))), with exp in float64: whole numbers, whose sums are exact in
    any order. A token goes if it and all that come before it weigh at most floor((1 - p) * (sum of all)), in the order
    from the unlikeliest on, of equal scores the lower column first; the last `least` stay in any case (Holtzman et al.
    2020; the filter of LightSeq's `ker_topp_sample`). p is above 0 and at most 1; V is below 2**19. scores_RV is
    changed in place and returned; what comes of a row that holds NaN or plus infinity means nothing, but it comes,
    and other rows are right.
    Contract: exact, for equal exponentials: libraries differ in the last bit of one in 100,000, and a share p that
    falls between two such sums parts the answers by a token.
    Reads R*V*s bytes and writes at most as many; R*V exponentials and about 3*R*V operations.
    """


@returns("token_R")
def sample_tokens(scores_RV: Array, key_RX: Array, step_R: Array, seed: int, out: Array | None = None) -> Array:
    """token[r] = argmax_v(scores[r, v] + noise[r, v]), with the noise of `gumbel`: a draw from softmax(scores[r]).

    The Gumbel-max trick: no sum over V, and no noise is written. Of equal sums the lower token; token 0 where all
    scores are -inf; of a row that holds NaN or plus infinity any token, but one below V. The sums are in float64, so
    that every backend draws the same token for the same scores, key, step and seed (save where two sums agree in their
    first 50 bits).
    Contract: exact. Reads R*V*s bytes and writes 8*R; about 25 integer operations and two logarithms for each token
    whose score is less than 26 below its row's largest, for no noise makes up for more.
    """


@returns("scores_BC", "index_BC")
def top_candidates(scores_BX: Array, C: int, out: Any = None) -> tuple[Array, Array]:
    """The C largest scores of each row in falling order, with their columns; of equal scores the lower column first.

    X is W*V: all continuations of all beams of a sentence; C is at most X. Scores are float32, or float64, as the sums
    by which a beam's samples are drawn: they are compared as they are. -inf counts as a score, so it fills the last
    places where fewer than C are above it. A row that holds NaN scores NaN, in columns 0 to C-1: no choice among NaNs
    is made in silence. LightSeq's search retrieves and reranks (section 2.2).
    Contract: exact. Reads B*X*s bytes; B*X comparisons.
    """


@returns("scores_BC", "parent_BC", "token_BC")
def hars_candidates(logits_RV: Array, base_BW: Array, C: int, out: Any = None) -> tuple[Array, Array, Array]:
    """The C best of base[b, w] + log_softmax(logits)[b*W + w, v] in falling order: scores, beams w and tokens v.

    What log_softmax, an addition, top_candidates and a division by V find, without writing a log-probability that is
    not returned: LightSeq's hierarchical auto-regressive search (section 2.2), for steps at which nothing touches the
    scores in between. base_BW: the scores of the texts so far, finite or minus infinity. A sentence one of whose rows
    has no probabilities (a logit is NaN or plus infinity, or all are minus infinity) scores NaN; its beams and tokens
    then mean nothing, but are some that there are.

    Contract: tolerance in the scores; the candidates are the best up to ties within it, and of equal scores the lower
    column w*V + v comes first. Reads R*V*s bytes; about 5*R*V operations, R*V exponentials.
    """


@returns("noise_RV")
def gumbel(key_RX: Array, step_R: Array, V: int, seed: int, out: Array | None = None) -> Array:
    """noise[r, v] = -log(-log(u)), float64, u in (0, 1) the number that Philox4x32-10 gives for (seed, key, step, v).

    The largest of scores + noise is a draw from softmax(scores), and the C largest are C draws without replacement
    (the Gumbel-max trick): one draw needs no sum over V, and each number depends on its own place alone, so that
    batch, order and device change none of them. key_RX: two 32-bit numbers (X = 2) that stand for the text; step_R:
    which of its tokens. u is a multiple of 2**-32, so probabilities under about 1e-9 are not drawn faithfully.

    Contract: exact in u; the logarithms are tolerance. Moves 8*R*V bytes; about 25 integer operations a number.
    """


@returns("offset_X")
def assign_offsets(bytes_X: Array, first_X: Array, last_X: Array, out: Array | None = None) -> Array:
    """Where each of X arrays begins in one block of memory, those that no call needs together sharing it.

    Array x has the bytes from offset[x] to offset[x] + bytes[x], and needs them in all calls from first[x], which
    writes it, to last[x], which reads it last. A call writes while it reads, so both ends count: two meet if
    first[x] <= last[y] and first[y] <= last[x]. LightSeq, section 2.3 ("dynamic GPU memory reuse"), for one step.
    All are int64, and there is at least one array; bytes[x] may be 0. It runs on the host, before anything else does:
    no plan hands it `out`.

    Contract: exact, but several answers are right. No two that meet share a byte; each offset is a multiple of ALIGNED,
    from 0 up. Two promises are of size, and every greedy planner keeps them, whatever its order: the block, the largest
    offset + bytes of those that have bytes, is no larger than one buffer behind the other, each up to a multiple of
    ALIGNED; and moving one array elsewhere, all others staying where they are, never makes it smaller.
    Moves 32*X bytes; a comparison for each pair that meets.
    """
