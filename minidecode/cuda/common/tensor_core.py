"""Tensor cores from Numba: words of two float16, how weights become such words, and the product of two tiles.

A tensor core multiplies a tile of 16 rows of x by 8 outputs of weights, 8 inputs at a time. The 32 lanes of a warp hold
the tiles together: lane 4 g + t has two inputs of row g, of row g + 8 and of output g, a word each; of the results it
has those of the rows g and g + 8 with the outputs 2 t and 2 t + 1.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import cuda, float32, types, uint32
from numba.cuda.extending import intrinsic

from ...emulator import register_body
from ...emulator.tensor_core import cut_off

FLOAT, HALF, BYTE, WORD = ir.FloatType(), ir.HalfType(), ir.IntType(8), ir.IntType(32)


def _address_of_words(context, builder, signature, arguments, words):
    """The address of array_XX[row, column], as one of `load_words` words."""
    array = context.make_array(signature.args[0])(context, builder, arguments[0])
    stride = builder.extract_value(array.strides, 0)
    start = builder.gep(builder.bitcast(array.data, BYTE.as_pointer()), [builder.mul(arguments[1], stride)])
    place = builder.mul(arguments[2], arguments[2].type(signature.args[0].dtype.bitwidth // 8))
    return builder.bitcast(builder.gep(start, [place]), words.as_pointer())


def make_words_loader(count):
    """A function that loads `count` words (1, 2 or 4), as they lie there, in one instruction."""

    @intrinsic
    def load_words(typing_context, numbers_XX, row, column):
        """The words from numbers_XX[row, column] on, which begin at a multiple of their bytes."""

        def emit_load(context, builder, signature, arguments):
            loaded = builder.load(_address_of_words(context, builder, signature, arguments, ir.VectorType(WORD, count)))
            loaded.align = 4 * count
            each = [builder.extract_element(loaded, WORD(k)) for k in range(count)]
            return context.make_tuple(builder, signature.return_type, each)

        return types.UniTuple(uint32, count)(numbers_XX, types.intp, types.intp), emit_load

    @register_body(load_words)
    def emulate_load(numbers_XX, row, column):
        kind = numbers_XX.dtype
        numbers_XX.require_alignment((row, column), 4 * count)
        numbers = [numbers_XX[row, column + k] for k in range(4 * count // kind.itemsize)]
        return tuple(uint32(word) for word in np.array(numbers, kind).view(np.uint32).tolist())

    return load_words


one_word, two_words, four_words = make_words_loader(1), make_words_loader(2), make_words_loader(4)


@intrinsic
def load_four_floats(typing_context, x_RX, row, column):
    """The float32 x_RX[row, column] and the three behind it: one 128-bit load."""

    def emit_load(context, builder, signature, arguments):
        loaded = builder.load(_address_of_words(context, builder, signature, arguments, ir.VectorType(FLOAT, 4)))
        loaded.align = 16
        each = [builder.extract_element(loaded, WORD(k)) for k in range(4)]
        return context.make_tuple(builder, signature.return_type, each)

    return types.UniTuple(float32, 4)(x_RX, types.intp, types.intp), emit_load


@register_body(load_four_floats)
def _emulate_load_four_floats(x_RX, row, column):
    x_RX.require_alignment((row, column), 16)
    return tuple(float32(x_RX[row, column + k]) for k in range(4))


@intrinsic
def floats_of_halves(typing_context, word):
    """The two float16 of a word as float32."""

    def emit_cast(context, builder, signature, arguments):
        both = builder.bitcast(arguments[0], ir.VectorType(HALF, 2))
        each = [builder.fpext(builder.extract_element(both, WORD(k)), FLOAT) for k in range(2)]
        return context.make_tuple(builder, signature.return_type, each)

    return types.UniTuple(float32, 2)(uint32), emit_cast


@register_body(floats_of_halves)
def _emulate_floats_of_halves(word):
    return tuple(float32(number) for number in np.array([int(word)], np.uint32).view(np.float16))


@intrinsic
def pack_halves(typing_context, low, high):
    """Two float32 as a word of two float16, rounded; what is beyond float16's range becomes an infinity."""

    def emit_cast(context, builder, signature, arguments):
        both = ir.VectorType(FLOAT, 2)(ir.Undefined)
        for k, number in enumerate(arguments):
            both = builder.insert_element(both, number, WORD(k))
        return builder.bitcast(builder.fptrunc(both, ir.VectorType(HALF, 2)), WORD)

    return uint32(float32, float32), emit_cast


@register_body(pack_halves)
def _emulate_pack_halves(low, high):
    with np.errstate(over="ignore"):
        return uint32(int(np.array([low, high], np.float32).astype(np.float16).view(np.uint32)[0]))


@intrinsic
def store_four_words(typing_context, x16_RX, row, column, first, second, third, fourth):
    """Eight float16 from x16_RX[row, column] on: one 128-bit store."""

    def emit_store(context, builder, signature, arguments):
        kind = ir.VectorType(WORD, 4)
        words = kind(ir.Undefined)
        for k, word in enumerate(arguments[3:]):
            words = builder.insert_element(words, word, WORD(k))
        builder.store(words, _address_of_words(context, builder, signature, arguments, kind), align=16)
        return context.get_dummy_value()

    return types.void(x16_RX, types.intp, types.intp, *[uint32] * 4), emit_store


@register_body(store_four_words)
def _emulate_store_four_words(x16_RX, row, column, *words):
    x16_RX.require_alignment((row, column), 16)
    for k, number in enumerate(np.array([int(word) for word in words], np.uint32).view(np.float16)):
        x16_RX[row, column + k] = number


def _emit_assembly(builder, text, constraints, result, arguments):
    instruction = ir.InlineAsm(ir.FunctionType(result, [a.type for a in arguments]), text, constraints)
    return builder.call(instruction, arguments)


@intrinsic
def halves_of_bytes(typing_context, four):
    """A word of four int8 as two words of two float16, exactly.

    A byte b behind the byte 0x64 is the float16 1024 + b: four integers take two permutations of bytes and two
    subtractions, where conversions would take four instructions at a quarter of the rate.
    """

    def emit_cast(context, builder, signature, arguments):
        unsigned = builder.xor(arguments[0], WORD(0x80808080))  # b + 128
        each = []
        for selector in (0x4140, 0x4342):
            both = _emit_assembly(
                builder, f"prmt.b32 $0, $1, $2, {selector};", "=r,r,r", WORD, [unsigned, WORD(0x64646464)]
            )
            each.append(
                _emit_assembly(builder, "sub.f16x2 $0, $1, $2;", "=r,r,r", WORD, [both, WORD(0x64806480)])
            )  # 1152
        return context.make_tuple(builder, signature.return_type, each)

    return types.UniTuple(uint32, 2)(uint32), emit_cast


@register_body(halves_of_bytes)
def _emulate_halves_of_bytes(four):
    both = np.array([int(four)], np.uint32).view(np.int8).astype(np.float16).view(np.uint32)
    return uint32(int(both[0])), uint32(int(both[1]))


@intrinsic
def halves_of_nibbles(typing_context, eight):
    """A word of int4 (device/weight_blocks.py) as four words of float16, exactly: bytes (0, 2) and (1, 3), the lower
    halves of both first.

    Four bits n below 0x6400 are the float16 1024 + n, those above them 1024 + 16 n: one mask makes two numbers.
    """

    def emit_cast(context, builder, signature, arguments):
        each, shifted = [], builder.lshr(arguments[0], WORD(8))
        for mask in (0x000F000F, 0x00F000F0):
            for word in (arguments[0], shifted):
                both = builder.or_(builder.and_(word, WORD(mask)), WORD(0x64006400))
                if mask == 0x000F000F:  # 1024 + n - 1032
                    each.append(
                        _emit_assembly(builder, "sub.f16x2 $0, $1, $2;", "=r,r,r", WORD, [both, WORD(0x64086408)])
                    )
                else:  # (1024 + 16 n) / 16 - 72
                    factors = [both, WORD(0x2C002C00), WORD(0xD480D480)]
                    each.append(_emit_assembly(builder, "fma.rn.f16x2 $0, $1, $2, $3;", "=r,r,r,r", WORD, factors))
        return context.make_tuple(builder, signature.return_type, each)

    return types.UniTuple(uint32, 4)(uint32), emit_cast


@register_body(halves_of_nibbles)
def _emulate_halves_of_nibbles(eight):
    numbers = np.array([(int(eight) >> shift & 15) - 8 for shift in (0, 16, 8, 24, 4, 20, 12, 28)], np.float16)
    return tuple(uint32(word) for word in numbers.view(np.uint32).tolist())


@intrinsic
def small_halves_of_nibbles(typing_context, eight):
    """The numbers of `halves_of_nibbles` times 2**-9, exactly, in fewer instructions.

    Four bits n alone are the subnormal float16 n * 2**-24, those above them n * 2**-20: one mask, one product and sum.
    """

    def emit_cast(context, builder, signature, arguments):
        each, shifted = [], builder.lshr(arguments[0], WORD(8))
        for mask, factor in ((0x000F000F, 0x78007800), (0x00F000F0, 0x68006800)):  # 2**15, 2**11
            for word in (arguments[0], shifted):
                factors = [builder.and_(word, WORD(mask)), WORD(factor), WORD(0xA400A400)]  # -8 * 2**-9
                each.append(_emit_assembly(builder, "fma.rn.f16x2 $0, $1, $2, $3;", "=r,r,r,r", WORD, factors))
        return context.make_tuple(builder, signature.return_type, each)

    return types.UniTuple(uint32, 4)(uint32), emit_cast


@register_body(small_halves_of_nibbles)
def _emulate_small_halves_of_nibbles(eight):
    words = [np.array([int(word)], np.uint32).view(np.float16) for word in _emulate_halves_of_nibbles(eight)]
    return tuple(uint32(int((two * np.float16(2**-9)).view(np.uint32)[0])) for two in words)


@intrinsic
def multiply_tiles(typing_context, x_low, x_high, w, a, b, c, d):
    """(a, b, c, d) plus the products: of row g with the outputs 2 t and 2 t + 1, and of row g + 8 with them.

    Products are exact, sums float32 whose last digits are cut off. All 32 lanes take part. From Turing on.
    """

    def emit_mma(context, builder, signature, arguments):
        text = "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {$0,$1,$2,$3}, {$4,$5}, {$6}, {$7,$8,$9,$10};"
        four = ir.LiteralStructType([FLOAT] * 4)
        kinds = ir.FunctionType(four, [WORD] * 3 + [FLOAT] * 4)
        instruction = ir.InlineAsm(kinds, text, "=f,=f,=f,=f,r,r,r,f,f,f,f", side_effect=True)
        results = builder.call(instruction, arguments)
        each = [builder.extract_value(results, k) for k in range(4)]
        return context.make_tuple(builder, signature.return_type, each)

    return types.UniTuple(float32, 4)(uint32, uint32, uint32, float32, float32, float32, float32), emit_mma


@register_body(multiply_tiles)
def _emulate_multiply_tiles(x_low, x_high, w, a, b, c, d):
    lanes = cuda.all_lanes("mma", (int(x_low), int(x_high), int(w)))
    lane = cuda.laneid
    words = np.array([lanes[n] for n in range(32)], np.uint32)
    halves = words.view(np.float16).reshape(8, 4, 3, 2).astype(np.float64)  # group, its lane, which word, its number
    g, t = lane // 4, lane % 4
    outputs = halves[2 * t : 2 * t + 2, :, 2].reshape(2, 8)
    sums = np.array([a, b, c, d], np.float64)
    with np.errstate(invalid="ignore"):
        for k in range(2):
            sums[2 * k : 2 * k + 2] += outputs @ halves[g, :, k].reshape(8)
    return tuple(map(float32, cut_off(sums)))
