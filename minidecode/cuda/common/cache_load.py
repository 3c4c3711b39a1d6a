"""128-bit loads and stores of a cache. Its numbers become float32 when they are used: until then they take half the
registers. And exp2 in one instruction.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import float32, int32, types
from numba.cuda.extending import intrinsic

from ...emulator import register_body

GLOBAL = 1  # the number of global memory: without it, hardware looks up at each load where an address lies
TINY = np.finfo(np.float32).tiny
WORD, HALF, FLOAT = ir.IntType(32), ir.HalfType(), ir.FloatType()


@intrinsic
def load_16_bytes(typing_context, cache_XXXX, place):
    """The four words from number `place` of the cache on, counted through all of its axes."""

    def emit_load(context, builder, signature, arguments):
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        four = ir.VectorType(WORD, 4)
        address = builder.bitcast(builder.gep(data, [arguments[1]]), four.as_pointer())
        loaded = builder.load(builder.addrspacecast(address, four.as_pointer(GLOBAL)))
        loaded.align = 16
        words = [builder.extract_element(loaded, WORD(k)) for k in range(4)]
        return context.make_tuple(builder, signature.return_type, words)

    return types.UniTuple(int32, 4)(cache_XXXX, types.intp), emit_load


@register_body(load_16_bytes)
def _emulate_load_16_bytes(cache_XXXX, place):
    numbers, together = cache_XXXX.ravel(), np.empty(16 // cache_XXXX.itemsize, cache_XXXX.dtype)
    numbers.require_alignment(place, 16)
    for k in range(together.size):
        together[k] = numbers[place + k]
    return together.view(np.int32)


@intrinsic
def store_16_bytes(typing_context, cache_XXXX, place, first, second, third, fourth):
    """Puts four words where `load_16_bytes` reads them, by one store."""

    def emit_store(context, builder, signature, arguments):
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        four = ir.VectorType(WORD, 4)
        words = four(ir.Undefined)
        for k, word in enumerate(arguments[2:]):
            words = builder.insert_element(words, word, WORD(k))
        address = builder.bitcast(builder.gep(data, [arguments[1]]), four.as_pointer())
        builder.store(words, builder.addrspacecast(address, four.as_pointer(GLOBAL)), align=16)
        return context.get_dummy_value()

    return types.void(cache_XXXX, types.intp, *[int32] * 4), emit_store


@register_body(store_16_bytes)
def _emulate_store_16_bytes(cache_XXXX, place, *words):
    numbers = cache_XXXX.ravel()
    numbers.require_alignment(place, 16)
    for k, number in enumerate(np.array(words, np.int32).view(numbers.dtype)):
        numbers[place + k] = number


@intrinsic
def floats_of_halves(typing_context, word):
    """The two float16 of a word, as float32."""

    def emit_cast(context, builder, signature, arguments):
        halves = builder.bitcast(arguments[0], ir.VectorType(HALF, 2))
        numbers = [builder.fpext(builder.extract_element(halves, WORD(k)), FLOAT) for k in range(2)]
        return context.make_tuple(builder, signature.return_type, numbers)

    return types.UniTuple(float32, 2)(int32), emit_cast


@register_body(floats_of_halves)
def _emulate_floats_of_halves(word):
    return np.array([word], np.int32).view(np.float16).astype(np.float32)


@intrinsic
def float_of_bits(typing_context, word):
    """The float32 of a word, as a tuple of one."""

    def emit_bitcast(context, builder, signature, arguments):
        return context.make_tuple(builder, signature.return_type, [builder.bitcast(arguments[0], FLOAT)])

    return types.UniTuple(float32, 1)(int32), emit_bitcast


@register_body(float_of_bits)
def _emulate_float_of_bits(word):
    return np.array([word], np.int32).view(np.float32)


@intrinsic
def power_of_two(typing_context, exponent):
    """2 to this power, within 2 units in the last place; 0 where that is below the smallest normal number."""

    def emit_exp2(context, builder, signature, arguments):
        name, kind = "llvm.nvvm.ex2.approx.ftz.f", ir.FunctionType(FLOAT, [FLOAT])
        function = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
        return builder.call(function, arguments)

    return float32(float32), emit_exp2


@register_body(power_of_two)
def _emulate_power_of_two(exponent):
    power = np.exp2(np.float32(exponent))
    return power if power >= TINY else np.float32(0)
