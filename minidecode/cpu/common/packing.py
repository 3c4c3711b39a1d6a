"""A model's weights, packed for the compiled products of this processor (common/panel_gemm.py)."""

from __future__ import annotations

from typing import Any

from ...device.low_precision import DYNAMIC, map_weights, stored_weight, with_joined_matrices
from ...errors import OptionError
from ...ops import Weight
from .panel_gemm import pack_floats, pack_int8
from .tile import DOT, FLOAT, GROUP


def pack_weights(dtype: str, weights: Any, must: bool) -> Any:
    """`weights`, stored as `dtype` ("float32" or one of DYNAMIC) and packed where this processor has the instruction.

    The output matrix stays as it is: it is the table of embeddings too, and a copy of it would be large. Int8 weights
    whose inputs are no whole groups are packed at each call; no published model has such a width. must: OptionError if
    the dtype is one of DYNAMIC and there is no instruction; otherwise NumPy multiplies.
    """

    def pack_each(place: str, weight: Weight) -> Weight:
        if dtype not in DYNAMIC:
            as_it_is = FLOAT is None or place == "lm_head"
            return stored_weight(dtype, weight, place) if as_it_is else pack_floats(with_joined_matrices(weight))
        weight = stored_weight(dtype, weight, place)
        packs = weight.x_bits is not None and DOT is not None and weight.data.shape[1] % GROUP == 0
        return pack_int8(weight) if packs else weight

    if must and dtype in DYNAMIC:
        check_dot_product(DYNAMIC[dtype])
    return map_weights(weights, pack_each)


def check_dot_product(x_bits: int) -> None:
    """Raises OptionError where the processor has no dot product for rows of this many bits."""
    if DOT is not None and x_bits <= DOT.x_bits:
        return
    if DOT is not None:
        raise OptionError(
            f"this processor's dot product ({DOT.name}) takes rows of {DOT.x_bits} bits, not {x_bits}: load with"
            " dtype='int8_dynamic7', or 'int8', which rounds weights alone"
        )
    raise OptionError(
        "this processor has no integer dot product that compiled code could use: load with dtype='int8', which rounds"
        " weights alone"
    )
