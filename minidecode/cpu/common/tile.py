"""The tile of a GEMM: some rows by some outputs, whose sums stay in registers until all inputs have gone by.

It is made of one kind of instruction. Of float32, each multiplies an activation by the weights of 16 outputs, and adds.
An integer dot product (VNNI, sdot) multiplies four activations by four weights for each of 16 outputs: 64
multiplications at once. NumPy and Numba have no word for it, and LLVM by itself keeps no such tile in registers. So the
tile is written in LLVM's language, by an intrinsic that compiled code calls.

Which instructions may be emitted is asked of Numba's code generator, not of the processor: Numba's cache on disk is
keyed on the same list, so code never meets a machine without them, and NUMBA_CPU_FEATURES is obeyed.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from llvmlite import binding, ir
from numba import types
from numba.core.registry import cpu_target
from numba.extending import intrinsic

I8, I16, I32, I64 = (ir.IntType(bits) for bits in (8, 16, 32, 64))
F32 = ir.FloatType()
GROUP = 4  # int8 inputs of a dot product, side by side in 32 bits
SECOND_LEVEL = 2  # of the cache: where weights are fetched to before they are read
LINES, LINE = 4, 64  # that a step of a tile fetches, and the bytes of one: a panel's of 64 outputs
MOST_ROWS = 6  # of a tile


@dataclass(frozen=True)
class Kind:
    """A kind of instruction, and the tile that suits its registers.

    is_float: it multiplies float32, one input at a time. Of the others, offset is what is added to each activation,
    because x86 multiplies unsigned by signed bytes; and x_bits is how many bits an activation may have: vpmaddubsw adds
    two products in 16 bits, which hold those of 7 bits at most.
    """

    name: str
    features: tuple[str, ...]  # all of them, as LLVM names them
    lanes: int  # outputs in a register
    rows: int  # of a tile
    registers: int  # of outputs in a tile
    offset: int = 128
    x_bits: int = 8
    is_float: bool = False

    @property
    def width(self) -> int:
        """Outputs of a tile, and of a panel of packed weights."""
        return self.lanes * self.registers


def loads_per_fma(rows: int, vectors: int) -> float:
    """Loads of a step of a tile, one for each register of weights and one for each row, over its multiplications."""
    return (rows + vectors) / (rows * vectors)


def registers_taken(rows: int, vectors: int, helpers: int = 0) -> int:
    """A tile's sums, a register for each of its weights, one for the activation, and what else an instruction needs."""
    return rows * vectors + vectors + 1 + helpers


def best_tile(registers: int, helpers: int = 0) -> tuple[int, int]:
    """(rows, registers of outputs) with the fewest loads for a multiplication, of the tiles that fit.

    Panels are one, two or four registers wide: then models' widths are whole panels. 5 x 5 has fewer loads than 6 x 4
    (0.40 against 0.42), but fills 768 outputs up to 800.
    """
    fits = [
        (rows, vectors) for vectors in (1, 2, 4) for rows in range(1, registers)
        if registers_taken(rows, vectors, helpers) <= registers
    ]  # fmt: skip
    return min(fits, key=lambda tile: loads_per_fma(*tile))


# vpmaddubsw's sums of pairs need a register, and the ones by which these are added up another.
DOT_PRODUCTS = (
    Kind("vnni512", ("avx512f", "avx512vnni"), 16, *best_tile(32)),
    Kind("vnni256", ("avxvnni",), 8, *best_tile(16)),
    Kind("sdot", ("dotprod",), 4, *best_tile(32), offset=0),
    Kind("maddubs512", ("avx512bw",), 16, *best_tile(32, helpers=2), offset=64, x_bits=7),
    Kind("maddubs256", ("avx2",), 8, *best_tile(16, helpers=2), offset=64, x_bits=7),
)
# Processors with fewer registers leave float32 to the BLAS, whose tiles are as good there.
FLOATS = (Kind("fma512", ("avx512f",), 16, *best_tile(32), is_float=True),)


def features() -> set[str]:
    """What compiled code may use."""
    triple, processor, listed = cpu_target.target_context.codegen().magic_tuple()
    names = {part[1:] for part in listed.split(",") if part.startswith("+")}
    is_arm = triple.startswith(("aarch64", "arm64"))
    return names | {"dotprod"} if is_arm and has_sdot(triple, processor, listed) else names


def has_sdot(triple: str, processor: str, listed: str) -> bool:
    """Whether LLVM emits sdot for an ARM processor of that name and those features.

    LLVM lists few features of the ARM processor that it runs on, and none on macOS. The name implies the others, but no
    function tells which. So a sum of products is compiled: it becomes sdot where LLVM may emit it.
    """
    octets, words = ir.VectorType(I8, 16), ir.VectorType(I32, 16)
    module = ir.Module()
    function = ir.Function(module, ir.FunctionType(I32, [octets, octets]), "dot")
    builder = ir.IRBuilder(function.append_basic_block())
    products = builder.mul(*(builder.sext(argument, words) for argument in function.args))
    total = module.declare_intrinsic("llvm.vector.reduce.add.v16i32", (), ir.FunctionType(I32, [words]))
    builder.ret(builder.call(total, [products]))
    machine = binding.Target.from_triple(triple).create_target_machine(cpu=processor, features=listed, opt=3)
    return "sdot" in machine.emit_assembly(binding.parse_assembly(str(module)))


def best_of(kinds: tuple[Kind, ...]) -> Kind | None:
    """The fastest kind that may be emitted here; None if there is none."""
    available = features()
    return next((kind for kind in kinds if available.issuperset(kind.features)), None)


DOT, FLOAT = best_of(DOT_PRODUCTS), best_of(FLOATS)
HAS_HALVES = platform.machine().lower() not in ("x86_64", "amd64") or "f16c" in features()  # casts them by itself


def tile_of(kind: Kind | None, rows: int) -> Any:
    """The intrinsic that computes a tile of this many rows, for some of the inputs or all:

        tile(x, x_row, w, steps, head, scale, y, y_row, begins, ends, prefetch, prefetch_step)

    All arguments are whole numbers of 64 bits. x, w and y are addresses: of the first row's activations, of the
    panel's weights and of the results. x_row and y_row are the distances in bytes between rows. steps is how many
    inputs there are, of int8 groups of four; at least one. Of float32, y[r, o] = sum over k of x[r, k] w[o, k].

    A panel of int8 has a head, two numbers for each of its outputs: what its sums begin with, in 32 bits, and their
    scale, a float32. scale is the address of the first row's scale. Float32 has neither. There
    y[r, o] = (begin[o] + sum over k of x[r, k] w[o, k]) scale[r] scale[o].

    begins, ends: 1 if these are the first, and the last, of the sum's inputs. Otherwise y holds the sum so far, of int8
    as whole numbers of 32 bits. Each step fetches four cache lines from the address `prefetch` on, and adds
    prefetch_step to it.
    """

    @intrinsic
    def tile(typing_context, x, x_row, w, steps, head, scale, y, y_row, begins, ends, prefetch, prefetch_step):
        def emit_tile(context, builder, signature, arguments):
            if kind is not None:
                write_tile(kind, min(rows, kind.rows), builder, *arguments)
            return context.get_dummy_value()

        return types.none(*[types.int64] * 12), emit_tile

    return tile


def write_tile(kind, rows, builder, x, x_row, w, steps, head, scale, y, y_row, begins, ends, prefetch, prefetch_step):
    """Writes the tile's code. Every sum has a register of its own until all inputs have gone by.

    A step loads a register of weights for each of the panel's, and an activation of each row (of int8, four), which it
    copies to all lanes. So six rows and four registers are 10 loads for 24 multiplications.
    """
    words, floats, size = ir.VectorType(I32, kind.lanes), ir.VectorType(F32, kind.lanes), 4 * kind.lanes
    number, numbers = (F32, floats) if kind.is_float else (I32, words)
    multiply, registers, each = multiplication(kind, builder), range(kind.registers), range(rows)
    x_addresses = [builder.add(x, builder.mul(x_row, I64(r))) for r in each]
    y_addresses = [
        [builder.add(builder.add(y, builder.mul(y_row, I64(r))), I64(v * size)) for v in registers] for r in each
    ]
    fresh, carried, body, end = (builder.append_basic_block(name) for name in ("fresh", "carried", "step", "end"))
    builder.cbranch(builder.icmp_signed("!=", begins, I64(0)), fresh, carried)

    builder.position_at_end(fresh)
    for row in y_addresses:  # a sum that ends must not wait for where it goes
        for address in row:
            fetch(builder, address, to_write=1)
    if kind.is_float:
        begin_V = [ir.Constant(floats, None)] * kind.registers
    else:
        begin_V = [load_from(builder, builder.add(head, I64(v * size)), words, 4) for v in registers]
    builder.branch(body)

    builder.position_at_end(carried)
    sofar_RV = [[load_from(builder, address, numbers, 4) for address in row] for row in y_addresses]
    builder.branch(body)

    builder.position_at_end(body)
    step, w_address, prefetch_at = (builder.phi(I64) for _ in range(3))
    sums_RV = [[builder.phi(numbers) for _ in registers] for _ in each]
    w_V = [load_from(builder, builder.add(w_address, I64(v * size)), numbers, 4) for v in registers]
    for line in range(LINES):  # a model's weights are in no cache when their turn comes
        fetch(builder, builder.add(prefetch_at, I64(LINE * line)))
    at = builder.mul(step, I64(4))
    next_RV = []
    for r in each:
        activations = on_all_lanes(builder, load_from(builder, builder.add(x_addresses[r], at), number, 4), numbers)
        next_RV.append([multiply(sums_RV[r][v], w_V[v], activations) for v in registers])
    for r in each:
        for v in registers:
            sums_RV[r][v].add_incoming(begin_V[v], fresh)
            sums_RV[r][v].add_incoming(sofar_RV[r][v], carried)
            sums_RV[r][v].add_incoming(next_RV[r][v], body)
    next_step = builder.add(step, I64(1))
    for value, first, following in (
        (step, I64(0), next_step),
        (w_address, w, builder.add(w_address, I64(kind.registers * size))),
        (prefetch_at, prefetch, builder.add(prefetch_at, prefetch_step)),
    ):
        value.add_incoming(first, fresh)
        value.add_incoming(first, carried)
        value.add_incoming(following, body)
    builder.cbranch(builder.icmp_signed("<", next_step, steps), body, end)

    builder.position_at_end(end)
    if kind.is_float:
        _store(builder, next_RV, y_addresses, numbers)
        return
    whole, scaled, done = (builder.append_basic_block(name) for name in ("whole", "scaled", "done"))
    builder.cbranch(builder.icmp_signed("!=", ends, I64(0)), scaled, whole)
    builder.position_at_end(whole)
    _store(builder, next_RV, y_addresses, words)
    builder.branch(done)
    builder.position_at_end(scaled)
    scale_V = [load_from(builder, builder.add(head, I64((kind.registers + v) * size)), floats, 4) for v in registers]
    ended_RV = []
    for r in each:
        of_row = on_all_lanes(builder, load_from(builder, builder.add(scale, I64(4 * r)), F32, 4), floats)
        ended_RV.append(
            [builder.fmul(builder.sitofp(next_RV[r][v], floats), builder.fmul(of_row, scale_V[v])) for v in registers]
        )
    _store(builder, ended_RV, y_addresses, floats)
    builder.branch(done)
    builder.position_at_end(done)


def _store(builder, values_RV, addresses_RV, vector):
    for values_V, addresses_V in zip(values_RV, addresses_RV, strict=True):
        for value, address in zip(values_V, addresses_V, strict=True):
            builder.store(value, builder.inttoptr(address, vector.as_pointer())).align = 4


def load_from(builder, address, type_, align):
    """What lies at an address. align: of one number, for a copy of packed weights may begin at no cache line.

    Of aligned addresses the same instruction is as fast.
    """
    value = builder.load(builder.inttoptr(address, type_.as_pointer()))
    value.align = align
    return value


def float_of_half(builder, bits):
    """The float32 numbers of the bits of float16 ones: of one number, or of a vector.

    Processors without an instruction for it (x86 without F16C) would call a function that compiled code cannot find. So
    there the bits move to where a float32 has them, and 2^112 makes up for the exponent, which counts from elsewhere.
    """
    count = bits.type.count if isinstance(bits.type, ir.VectorType) else None

    def type_of(number):
        return number if count is None else ir.VectorType(number, count)

    def constant(number, type_=I32):
        return ir.Constant(type_of(type_), number if count is None else [number] * count)

    if HAS_HALVES:
        return builder.fpext(builder.bitcast(bits, type_of(ir.HalfType())), type_of(F32))
    word = builder.zext(bits, type_of(I32))
    size = builder.shl(builder.and_(word, constant(0x7FFF)), constant(13))
    number = builder.fmul(builder.bitcast(size, type_of(F32)), constant(2.0**112, F32))
    is_finite = builder.icmp_unsigned("<", size, constant(0x7C00 << 13))
    of_others = builder.or_(size, constant(0x7F800000))  # infinity and NaN
    magnitude = builder.select(is_finite, builder.bitcast(number, type_of(I32)), of_others)
    sign = builder.shl(builder.and_(word, constant(0x8000)), constant(16))
    return builder.bitcast(builder.or_(magnitude, sign), type_of(F32))


def on_all_lanes(builder, value, vector):
    nothing, first = ir.Constant(vector, ir.Undefined), ir.VectorType(I32, vector.count)
    return builder.shuffle_vector(
        builder.insert_element(nothing, value, I32(0)), nothing, ir.Constant(first, [0] * vector.count)
    )


def fetch(builder, address, to_write=0):
    """Asks for a cache line."""
    byte = I8.as_pointer()
    kind = ir.FunctionType(ir.VoidType(), [byte, I32, I32, I32])
    prefetch = builder.module.declare_intrinsic("llvm.prefetch.p0", (), kind)
    builder.call(prefetch, [builder.inttoptr(address, byte), I32(to_write), I32(SECOND_LEVEL), I32(1)])


def multiplication(kind: Kind, builder) -> Callable[..., ir.Value]:
    """A function (sums, weights, activations) -> sums, which writes the instruction for one register of outputs.

    LLVM changed what types vpdpbusd's operands have. The types here are the older ones, which newer versions read too.
    """
    words, halves = ir.VectorType(I32, kind.lanes), ir.VectorType(I16, 2 * kind.lanes)
    octets, bits = ir.VectorType(I8, 4 * kind.lanes), 32 * kind.lanes

    def named(name, result, *operands):
        function = builder.module.declare_intrinsic(name, (), ir.FunctionType(result, operands))
        return lambda *values: builder.call(
            function, [builder.bitcast(v, t) for v, t in zip(values, operands, strict=True)]
        )

    if kind.is_float:
        floats = ir.VectorType(F32, kind.lanes)
        fused = named(f"llvm.fma.v{kind.lanes}f32", floats, floats, floats, floats)
        return lambda sums, w, x: fused(w, x, sums)
    if kind.name.startswith("vnni"):  # that of AVX-VNNI has the same name; features choose
        dot = named(f"llvm.x86.avx512.vpdpbusd.{bits}", words, words, words, words)
        return lambda sums, w, x: dot(sums, x, w)
    if kind.name == "sdot":
        return named("llvm.aarch64.neon.sdot.v4i32.v16i8", words, words, octets, octets)
    is_wide = bits == 512
    pairs = named("llvm.x86." + ("avx512.pmaddubs.w.512" if is_wide else "avx2.pmadd.ub.sw"), halves, octets, octets)
    fours = named("llvm.x86." + ("avx512.pmaddw.d.512" if is_wide else "avx2.pmadd.wd"), words, halves, halves)
    ones = ir.Constant(halves, [1] * 2 * kind.lanes)
    return lambda sums, w, x: builder.add(sums, fours(pairs(x, w), ones))
