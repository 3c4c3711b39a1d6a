"""Weights in blocks: integers of 4 or 8 bits, and a float16 scale for every 32 inputs of each output.

These are GGUF's Q4_0 and Q8_0, bit for bit. A scale per output (int8 in low_precision.py) suits 8 bits. Four bits have
15 steps, of which an outlier among hundreds of inputs would leave the others two or three; among 32 it does less harm.

    Q4_0 ("int4"):        d = m / -8, m the number of the block that is farthest from 0, with its sign;
                          w = d (n - 8), n = min(15, floor(w / d + 8.5)), from 0 to 15
    Q8_0 ("int8_blocks"): d = max |w| / 127; w = d q, q = w / d, rounded half away from 0

d is divided by in float32, and stored as float16. So a float32 copy of weights that were stored so gives them back.

In rows (layout "oi") data of int4 is uint8 (outputs, inputs / 2), as in a file: byte j of a block's 16 holds n of its
input j in the lower half, and of input j + 16 in the upper half. Data of int8_blocks is int8 (outputs, inputs). The
scale is (outputs, inputs / 32). In panels, which the CPU's tiles read (cpu/common/block_gemm.py), 32 outputs lie side
by side: data is (panels, inputs / 8, 32, 4) and (panels, inputs, 32), and the scale (panels, inputs / 32, 32). Four
bytes hold eight inputs of an output, the first in the lowest bits, each as a signed number of four bits: n - 8.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from ..errors import CheckpointError
from ..ops import ALIGNED, Weight

BLOCKS = ("int4", "int8_blocks")  # what `load` calls them
BLOCK = 32  # inputs that share a scale
PANEL_OUTPUTS = 32
STEP = 8  # inputs of int4 in four bytes
BYTES_OF_SCALE = 2
NIBBLES = np.array([0, 4], np.uint8)  # where the two numbers of a byte begin
TOGETHER = 2**20  # numbers that are rounded together
LEAST = np.float32(2**-125)  # scales below it are zero as float16, and 1 divided by them may be none of float32


def quantize_in_blocks(dtype: str, weight: Weight, place: str = "the matrix") -> Weight:
    """A weight of floats in the layout "oi", stored as one of BLOCKS.

    Raises CheckpointError, which names the matrix, if inputs are no whole blocks or float16 cannot hold a scale.
    """
    outputs, inputs = weight.data.shape
    if inputs % BLOCK:
        raise CheckpointError(
            f"{place} has {inputs} inputs, and {dtype} needs a multiple of {BLOCK}: load it as float16 or int8"
        )
    is_int4 = dtype == "int4"
    data = np.empty((outputs, inputs // 2), np.uint8) if is_int4 else np.empty((outputs, inputs), np.int8)
    scale_XX = np.empty((outputs, inputs // BLOCK), np.float16)
    some = max(1, TOGETHER // inputs)
    for first in range(0, outputs, some):
        here = slice(first, first + some)
        w_XXX = weight.data[here].astype(np.float32, copy=False).reshape(-1, inputs // BLOCK, BLOCK)
        with np.errstate(over="ignore"):
            data[here], scale_XX[here] = (_quantize_to_four_bits if is_int4 else _quantize_to_eight_bits)(w_XXX)
    if not np.isfinite(scale_XX).all():
        largest = np.abs(weight.data).max()
        raise CheckpointError(f"{place} holds {largest:.3g}, more than {dtype} can: load it as float32 or int8")
    return dataclasses.replace(weight, data=data, scale=scale_XX)


def _quantize_to_four_bits(w_XXX):
    """(numbers from 0 to 15, two in a byte; scales in float32) of blocks, as GGUF's Q4_0 rounds."""
    farthest_XX1 = np.abs(w_XXX).argmax(2, keepdims=True)
    scale_XX1 = np.take_along_axis(w_XXX, farthest_XX1, 2) / np.float32(-8)
    n_XXX = np.minimum(np.trunc(w_XXX * _inverse_of_scale(scale_XX1) + np.float32(8.5)), 15).astype(np.uint8)
    return _pack_nibbles(n_XXX.reshape(len(w_XXX), -1)), scale_XX1[..., 0]


def _quantize_to_eight_bits(w_XXX):
    """(numbers from -127 to 127, scales in float32) of blocks, as GGUF's Q8_0 rounds."""
    scale_XX1 = np.abs(w_XXX).max(2, keepdims=True) / np.float32(127)
    size_XXX = np.abs(w_XXX * _inverse_of_scale(scale_XX1))
    whole_XXX = np.floor(size_XXX)
    whole_XXX += np.floor(2 * (size_XXX - whole_XXX))  # not floor(size + 0.5), whose sum may round up
    return np.copysign(whole_XXX, w_XXX).astype(np.int8).reshape(len(w_XXX), -1), scale_XX1[..., 0]


def _inverse_of_scale(scale_XX1):
    with np.errstate(divide="ignore", over="ignore"):
        return np.where(np.abs(scale_XX1) < LEAST, np.float32(0), np.float32(1) / scale_XX1)


def aligned_zeros(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Zeros that begin at a cache line."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.zeros(size + ALIGNED, np.uint8)
    first = -raw.ctypes.data % ALIGNED
    return raw[first : first + size].view(dtype).reshape(shape)


def is_in_blocks(weight: Weight) -> bool:
    """Whether it has a scale for every block of inputs."""
    return weight.scale is not None and weight.scale.ndim > 1


def count_numbers(weight: Weight) -> int:
    """How many numbers any weight's data stands for: two of int4 in a byte."""
    return weight.data.size * (2 if weight.data.dtype == np.uint8 else 1)


def unpack_integers(weight: Weight) -> np.ndarray:
    """int8 (outputs, inputs) of a block weight, with the outputs that fill its last panel up."""
    data, is_int4 = weight.data, weight.data.dtype == np.uint8
    if weight.layout == "panels":
        data = data.swapaxes(1, 2)
        if is_int4:
            data = (data[..., None] >> NIBBLES & 15 ^ 8).astype(np.int8) - np.int8(8)
        return data.reshape(data.shape[0] * PANEL_OUTPUTS, -1)
    if not is_int4:
        return data
    by_block = data.reshape(len(data), -1, BLOCK // 2)
    return np.concatenate([by_block & 15, by_block >> 4], axis=2).reshape(len(data), -1).view(np.int8) - np.int8(8)


def unpack_scales(weight: Weight) -> np.ndarray:
    """The weight's scales, (outputs, blocks), with those of the outputs that pad its last panel."""
    assert weight.scale is not None
    if weight.layout != "panels":
        return weight.scale
    return weight.scale.swapaxes(1, 2).reshape(-1, weight.scale.shape[1])


def dequantize_blocks(weight: Weight, dtype: np.dtype) -> np.ndarray:
    """(outputs, inputs), the numbers that a block weight stands for: each rounds once if float32 does not hold it."""
    scale_XX, q_XX = unpack_scales(weight), unpack_integers(weight)
    float_XXX = q_XX.reshape(*scale_XX.shape, BLOCK) * scale_XX.astype(dtype)[..., None]
    return float_XXX.reshape(q_XX.shape)[: weight.outputs]


def pack_in_panels(weight: Weight) -> Weight:
    """A block weight in rows, as the CPU's tiles read it. The outputs that fill the last panel up are zeros."""
    assert weight.scale is not None
    (outputs, blocks), is_int4 = weight.scale.shape, weight.data.dtype == np.uint8
    panels, inputs = -(-outputs // PANEL_OUTPUTS), blocks * BLOCK
    shape = (panels, inputs // STEP, PANEL_OUTPUTS, STEP // 2) if is_int4 else (panels, inputs, PANEL_OUTPUTS)
    data = aligned_zeros(shape, weight.data.dtype)
    scale = aligned_zeros((panels, blocks, PANEL_OUTPUTS), np.float16)
    for p in range(panels):
        here = slice(p * PANEL_OUTPUTS, min((p + 1) * PANEL_OUTPUTS, outputs))
        q_XX, some = unpack_integers(weight.of_outputs(here)), here.stop - here.start
        if is_int4:
            both = (q_XX.view(np.uint8) & 15).reshape(some, inputs // STEP, STEP // 2, 2)
            data[p, :, :some] = (both[..., 0] | both[..., 1] << 4).swapaxes(0, 1)
        else:
            data[p, :, :some] = q_XX.T
        scale[p, :, :some] = weight.scale[here].T
    return dataclasses.replace(weight, data=data, scale=scale, layout="panels", packed_outputs=outputs)


def unpack_block_panels(weight: Weight) -> Weight:
    """A block weight in panels with its outputs in rows again; a copy."""
    q_XX, outputs = unpack_integers(weight)[: weight.outputs], weight.outputs
    data = q_XX if weight.data.dtype == np.int8 else _pack_nibbles((q_XX + np.int8(8)).view(np.uint8))
    scale_XX = np.ascontiguousarray(unpack_scales(weight)[:outputs])
    return dataclasses.replace(weight, data=data, scale=scale_XX, layout="oi", packed_outputs=None)


def _pack_nibbles(n_XX):
    """Bytes of numbers from 0 to 15 in the order of Q4_0: input j of a block, and input j + 16 in the upper half."""
    by_block, half = n_XX.reshape(len(n_XX), -1, BLOCK), BLOCK // 2
    return (by_block[..., :half] | by_block[..., half:] << 4).reshape(len(n_XX), -1)
