"""Atomic loads, stores and additions on an array, for compiled code.

Numba has none of these for CPUs; LLVM has. All are sequentially consistent: every thread sees the same order of them.
What else only LLVM has is here too: a fetch of what is read soon, the bits of a float, a call of an address.
"""

from __future__ import annotations

import platform

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from . import tile
from .jit import njit

HAS_PAUSE = platform.machine().lower() in ("x86_64", "amd64")


def _address(context, builder, signature, arguments):
    array = context.make_array(signature.args[0])(context, builder, arguments[0])
    return builder.gep(array.data, [arguments[1]])


@intrinsic
def load(typing_context, array, index):
    """array[index], as the last thread has left it."""

    def emit_load(context, builder, signature, arguments):
        return builder.load_atomic(_address(context, builder, signature, arguments), "seq_cst", 8)

    return types.int64(array, types.intp), emit_load


@intrinsic
def store(typing_context, array, index, number):
    """array[index] = number. A thread that sees the number sees what this one has written before."""

    def emit_store(context, builder, signature, arguments):
        builder.store_atomic(arguments[2], _address(context, builder, signature, arguments), "seq_cst", 8)
        return context.get_dummy_value()

    return types.none(array, types.intp, types.int64), emit_store


@intrinsic
def add(typing_context, array, index, number):
    """array[index] += number -> what was there before; no other thread comes between."""

    def emit_add(context, builder, signature, arguments):
        return builder.atomic_rmw("add", _address(context, builder, signature, arguments), arguments[2], "seq_cst")

    return types.int64(array, types.intp, types.int64), emit_add


@intrinsic
def pause(typing_context):
    """Tells the processor that this thread only waits, so that another on the same core is served."""

    def emit_pause(context, builder, signature, arguments):
        if HAS_PAUSE:
            nothing = ir.FunctionType(ir.VoidType(), [])
            builder.call(builder.module.declare_intrinsic("llvm.x86.sse2.pause", (), nothing), [])
        return context.get_dummy_value()

    return types.none(), emit_pause


@intrinsic
def _fetch_line(typing_context, address):
    def emit_prefetch(context, builder, signature, arguments):
        tile.fetch(builder, arguments[0])
        return context.get_dummy_value()

    return types.none(types.int64), emit_prefetch


@njit(inline="always")
def fetch(address, size):
    """Asks for the cache lines of this many bytes, which are read soon."""
    for line in range(0, size, 64):
        _fetch_line(address + line)


@njit(inline="always")
def are_inside(place_R, end):
    """Whether all of these are places of an array that is so long."""
    inside = True
    for r in range(len(place_R)):
        inside = inside and 0 <= place_R[r] < end
    return inside


@intrinsic
def bits_of(typing_context, number):
    """The bits of a float32, as an int32."""

    def emit_bitcast(context, builder, signature, arguments):
        return builder.bitcast(arguments[0], ir.IntType(32))

    return types.int32(types.float32), emit_bitcast


@intrinsic
def float_of(typing_context, bits):
    """The float32 that has these bits."""

    def emit_bitcast(context, builder, signature, arguments):
        return builder.bitcast(arguments[0], ir.FloatType())

    return types.float32(types.int32), emit_bitcast


@intrinsic
def call(typing_context, function, args, task):
    """The whole number that the function at that address makes of two."""

    def emit_call(context, builder, signature, arguments):
        number = ir.IntType(64)
        kind = ir.FunctionType(number, [number, number]).as_pointer()
        return builder.call(builder.inttoptr(arguments[0], kind), arguments[1:])

    return types.int64(types.int64, types.int64, types.int64), emit_call
