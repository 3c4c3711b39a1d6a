"""dp4a: four products of signed bytes, added to a sum of 32 bits, in one instruction (from compute capability 6.1)."""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import int32
from numba.cuda.extending import intrinsic

from ...emulator import register_body


@intrinsic
def dp4a(typing_context, four, other_four, running_sum):
    """running_sum + the sum of the products of the signed bytes of two words."""

    def emit_dp4a(context, builder, signature, arguments):
        word = ir.IntType(32)
        instruction = ir.InlineAsm(
            ir.FunctionType(word, [word] * 3), "dp4a.s32.s32 $0, $1, $2, $3;", "=r,r,r,r", side_effect=False
        )
        return builder.call(instruction, arguments)

    return int32(int32, int32, int32), emit_dp4a


@register_body(dp4a)
def _emulate_dp4a(four, other_four, running_sum):
    bytes_, other_bytes = (
        np.array([int(word)], np.int32).view(np.int8).astype(np.int32) for word in (four, other_four)
    )
    return int32(int(running_sum) + int(bytes_ @ other_bytes))
