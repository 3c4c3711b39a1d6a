"""Low-precision storage: weights as float16, or as integers with scales; caches as float16.

A decode step reads every weight of every product once, and does little with it: it takes as long as the reading. So
weights of half or a quarter of the bytes may take half or a quarter of the time, though every sum is float32 as before.

On a device, rows that meet such weights are rounded to float16 at every product, however many they are, since tensor
cores multiply float16. Sums stay float32. `round_rows_to_float16` is that rule; on a CPU, activations stay float32
unless a plan says linear=rounded.

Only the matrices of products are stored in fewer bits, each output's weights side by side. The output's matrix is one
of them. Gains, biases and positions are small. Of the embedding table a step reads one row for each of its own:
fewer bits would save nothing there, and cost digits. So where the output is tied to the embedding, the table stays
as it is (in a float32 file: where it is, in the file), and the output has a low-precision copy of it.

What steps read of their caches is as much again, where texts are long: keys and values (of EL: hidden states) that
are stored as float16 are half of it (LightSeq, section 3.2). Queries, scores, softmax and sums stay float32. A number
beyond float16's range becomes the largest there is, 65,504, in every backend: an infinity would make NaN of its row or
hide its position, and to refuse it would mean that a GPU reports back at every step. A weight is refused, for that is
known when a model is loaded.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..errors import CheckpointError
from ..ops import Weight
from . import weight_blocks
from .weight_blocks import BLOCKS, is_in_blocks

COMPUTED_IN = {"float32": np.float32, "float64": np.float64, "float16": np.float32, "int8": np.float32,
               "int8_dynamic": np.float32, "int8_dynamic7": np.float32, "int8_blocks": np.float32,
               "int4": np.float32}  # fmt: skip
STORED = ("float16", "int8")  # what a weight of `linear` may be stored as, beside what is computed with, and BLOCKS
DYNAMIC = {"int8_dynamic": 8, "int8_dynamic7": 7}  # int8, and the bits that rows of x are rounded to
LOW_PRECISION = (*STORED, *DYNAMIC, *BLOCKS)
PANEL_HEADER = 2  # numbers of 32 bits that a panel has in front of each output's weights
ROUNDED_AT_ONCE = 2**18  # weights
BEYOND_HALF = 65520  # and what is larger rounds to an infinity of float16
LARGEST = 127  # of the integers that int8 holds; -128 would make the range lopsided


def weights_stored_as(dtype: str, weights: Any, packs: bool = False) -> Any:
    """`weights`, a tree of dataclasses and tuples, with every product's matrix stored as one of LOW_PRECISION.

    Each output's numbers lie side by side then; "float32" changes that order alone. They must be finite. With a dtype
    in DYNAMIC the output matrix, "lm_head", gets none of its rows rounded: its logits decide between tokens. packs:
    weights in blocks lie in panels, as the CPU reads them. Raises CheckpointError, which names the matrix, on one that
    float16 or blocks cannot hold.
    """

    def store_one(place: str, weight: Weight) -> Weight:
        weight = stored_weight(dtype, weight, place)
        return weight_blocks.pack_in_panels(weight) if packs and is_in_blocks(weight) else weight

    return map_weights(weights, store_one)


def map_weights(weights: Any, function: Callable[[str, Weight], Weight], place: str = "") -> Any:
    """A tree of dataclasses and tuples with function(place, weight) in place of each product's weight."""
    if isinstance(weights, Weight):
        return function(place, weights)
    if isinstance(weights, tuple):
        return tuple(map_weights(part, function, f"{place}[{i}]") for i, part in enumerate(weights))
    if not dataclasses.is_dataclass(weights):
        return weights
    parts = {f.name: getattr(weights, f.name) for f in dataclasses.fields(weights)}
    return dataclasses.replace(
        weights, **{name: map_weights(part, function, f"{place}.{name}".strip(".")) for name, part in parts.items()}
    )


def read_only_weights(weights: Any) -> Any:
    """The tree over read-only views: no code should write, and code is compiled for one kind alone.

    (A mapped file's tensors are read-only anyway, copies are not: two types to Numba.)
    """

    def read_only_view(array: np.ndarray) -> np.ndarray:
        view = array.view()
        view.flags.writeable = False
        return view

    return map_arrays(weights, read_only_view)


def map_arrays(weights: Any, function: Callable[[np.ndarray], Any]) -> Any:
    """A tree of dataclasses and tuples with function(array) in place of each array."""
    if isinstance(weights, np.ndarray):
        return function(weights)
    if isinstance(weights, tuple):
        return tuple(map_arrays(part, function) for part in weights)
    if not dataclasses.is_dataclass(weights):
        return weights
    parts = {f.name: map_arrays(getattr(weights, f.name), function) for f in dataclasses.fields(weights)}
    return dataclasses.replace(weights, **parts)


def arrays_in_weights(weights: Any) -> Iterator[np.ndarray]:
    """The arrays of a tree of dataclasses and tuples."""
    if isinstance(weights, np.ndarray):
        yield weights
    elif isinstance(weights, tuple):
        for part in weights:
            yield from arrays_in_weights(part)
    elif dataclasses.is_dataclass(weights):
        for f in dataclasses.fields(weights):
            yield from arrays_in_weights(getattr(weights, f.name))


def stored_weight(dtype: str, weight: Weight, place: str = "the matrix") -> Weight:
    """One weight, stored as one of LOW_PRECISION, by outputs; with "float32" it is as it was, but by outputs."""
    if dtype == "int8" or (dtype in DYNAMIC and place == "lm_head"):
        return weight_by_output(quantize_weight(weight))
    if dtype in DYNAMIC:
        return dataclasses.replace(weight_by_output(quantize_weight(weight)), x_bits=DYNAMIC[dtype])
    weight = weight_by_output(with_joined_matrices(weight))
    if dtype == "float32":
        return weight
    if dtype in BLOCKS:
        return weight_blocks.quantize_in_blocks(dtype, weight, place)
    with np.errstate(over="ignore"):
        data = weight.data.astype(np.float16)
    if not np.isfinite(data).all():
        largest = np.abs(weight.data).max()
        raise CheckpointError(f"{place} holds {largest:.3g}, more than float16 can: load it as float32 or int8")
    return dataclasses.replace(weight, data=data)


def with_joined_matrices(weight: Weight) -> Weight:
    """The weight with one matrix where it had a tuple of them."""
    if not isinstance(weight.data, tuple):
        return weight
    return dataclasses.replace(weight, data=np.concatenate(weight.data))


def weight_by_output(weight: Weight) -> Weight:
    """The weight with each output's numbers side by side ("oi"): few rows are multiplied faster so (cpu/linear.py)."""
    if weight.layout == "oi":
        return weight
    return dataclasses.replace(weight, data=np.ascontiguousarray(weight.data.T), layout="oi")


def quantize_weight(weight: Weight) -> Weight:
    """int8 and a scale for each output: w = scale * q with q from -127 to 127.

    scale = max |w| / 127 over the output's weights, q = w / scale, rounded. So each weight is off by scale / 2 at the
    most, and a product by scale / 2 times the sum of |x|: an outlier among an output's weights costs the others their
    digits, but not those of other outputs. An output of zeros has scale 0.

    Some outputs are rounded at a time: float copies of a whole vocabulary's matrix would be larger than the rest of the
    model. Matrices that are one weight are joined when they are small, as int8.
    """
    parts = weight.data if isinstance(weight.data, tuple) else (weight.data,)
    pairs = [_quantize_matrix(w_XX if weight.layout == "oi" else w_XX.T) for w_XX in parts]
    q_XX, scale_X = pairs[0] if len(pairs) == 1 else map(np.concatenate, zip(*pairs, strict=True))
    return dataclasses.replace(weight, data=q_XX if weight.layout == "oi" else q_XX.T, scale=scale_X)


def _quantize_matrix(w_XX: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(int8, scales) of a matrix whose outputs are rows."""
    (outputs, inputs), one = w_XX.shape, w_XX.dtype.type
    q_XX, scale_X = np.empty_like(w_XX, np.int8), np.empty(outputs, w_XX.dtype)  # in the order that w lies in
    for first in range(0, outputs, at_once := max(1, ROUNDED_AT_ONCE // max(1, inputs))):
        some = slice(first, first + at_once)
        scale_X[some] = np.abs(w_XX[some]).max(axis=1) / one(LARGEST)
        steps = np.where(scale_X[some] > 0, scale_X[some], 1)[:, None]
        q_XX[some] = np.rint(w_XX[some] / steps).clip(-LARGEST, LARGEST)
    return q_XX, scale_X


def dequantize_weight(weight: Weight, dtype: np.dtype) -> np.ndarray:
    """The whole matrix as it is computed with: a view where it is stored so, else a new array.

    In its own layout; one that is packed comes with its outputs in rows.
    """
    if is_in_blocks(weight):
        return weight_blocks.dequantize_blocks(weight, dtype)
    weight = unpack_panels(weight)
    data = weight.data.astype(dtype, copy=False)
    if weight.scale is None:
        return data
    return data * (weight.scale if weight.layout == "io" else weight.scale[:, None])


def unpack_panels(weight: Weight) -> Weight:
    """The weight with its outputs in rows again ("oi"), if it was packed in panels; a copy."""
    if weight.layout != "panels":
        return weight
    if is_in_blocks(weight):
        return weight_blocks.unpack_block_panels(weight)
    data = weight.data[:, PANEL_HEADER:] if weight.data.dtype == np.int8 else weight.data[..., None]
    panels, steps, width, group = data.shape
    data = data.transpose(0, 2, 1, 3).reshape(panels * width, steps * group)[: weight.outputs]
    return dataclasses.replace(weight, data=data, layout="oi", packed_outputs=None)


def is_narrow(weight: Weight) -> bool:
    """Whether it has fewer bits than float32. Rows that meet it on a device are rounded to float16."""
    return weight.data.dtype not in (np.float32, np.float64)


def rounding(function: Callable) -> Callable:
    """Marks an op's function that rounds rows to float16 where weights are narrow; conformance judges it so."""
    function.rounds_x = True  # type: ignore[attr-defined]
    return function


def round_rows_to_float16(x_RX: np.ndarray) -> np.ndarray:
    """x, each number rounded to float16; a row that float16 cannot hold is divided by a power of two meanwhile.

    That is the smallest one that brings the row below 32,768. A row with an infinity or NaN has none.
    """
    size_R = np.abs(x_RX).max(axis=1, initial=0)
    is_beyond_R = (size_R >= BEYOND_HALF) & np.isfinite(size_R)
    power_R = np.ldexp(x_RX.dtype.type(1), np.where(is_beyond_R, np.frexp(size_R)[1] - 15, 0))[:, None]
    with np.errstate(over="ignore"):
        return (x_RX / power_R).astype(np.float16).astype(x_RX.dtype) * power_R


def largest_stored_number(dtype: Any) -> np.float32:
    """The number beyond which what is stored in a dtype is cut off: float16's largest, infinity for larger types."""
    return np.float32(np.finfo(np.float16).max if dtype == np.float16 else np.inf)


def dtype_for_heads(x_RX: Any, *stored: Any) -> dict[str, Any]:
    """The argument `dtype` with which heads are cut for attention of many rows to each other; none on the CPU.

    On a device that is float16 where one of `stored`, the dtypes of a cache or of weights, is: tensor cores multiply
    such numbers, and a cache gets them as it stores them.
    """
    on_device = not isinstance(x_RX, np.ndarray)
    return {"dtype": np.dtype(np.float16)} if on_device and np.float16 in stored else {}


def cast_for_cache(dtype: Any, x_RX: np.ndarray) -> np.ndarray:
    """x in the dtype that a cache stores (None: its own), each number rounded once; twice changes nothing.

    What is beyond float16's range becomes 65,504 or -65,504; NaN stays NaN.
    """
    if dtype is None or x_RX.dtype == dtype:
        return x_RX
    largest = largest_stored_number(dtype)
    return np.clip(x_RX, -largest, largest).astype(dtype)
