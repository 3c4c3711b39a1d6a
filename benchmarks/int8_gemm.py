"""Integer products (dtype=int8_dynamic) beside what the processor and its memory allow.

    python benchmarks/int8_gemm.py --out benchmarks/results/int8-gemm-cpu.json --readme benchmarks/README.md

Two limits are measured in the same turns as the products: operations per second of the dot product on registers alone,
and bytes per second that as many threads read from memory. Products of 1, 4 and 16 rows should come near the second,
products of many rows near the first. Each call gets another matrix than the one before, so that weights come from
memory, as in a model. Rounding the rows counts as part of a product. Beside them: `int8`, `int8_blocks` and `int4`,
which round weights alone, and float32 by the BLAS. Everything runs on as many threads as Numba is told
(NUMBA_NUM_THREADS); what is recorded ran on one. Each product is compared with NumPy's before it is timed; a wrong one
ends the script.

Takes about two minutes. Prints a table; writes that of the last product into --readme between the marks int8-gemm, and
all figures to --out.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import cycle

import numpy as np
from flags import positive, to_write
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic
from readme import with_marks, write_between_markers
from threadpoolctl import threadpool_info, threadpool_limits

from minidecode.bench.compare import where_it_ran
from minidecode.cpu.common import tile
from minidecode.cpu.common.panel_gemm import pack_int8
from minidecode.cpu.common.tile import DOT, GROUP, I32, I64
from minidecode.cpu.linear import linear
from minidecode.cpu.linear_int8 import linear_int8
from minidecode.ops import Weight
from minidecode.reference.linear import linear_naive
from minidecode.reference.linear_int8 import linear_int8_naive
from minidecode.runtime.cores import worker_threads
from minidecode.runtime.low_precision import stored_weight
from minidecode.runtime.weight_blocks import BLOCKS, in_panels

PRODUCTS = {"out": (768, 768), "qkv": (768, 2304), "down": (3072, 768), "up": (768, 3072)}  # GPT-2's
ROWS = (1, 4, 16, 64, 128, 512, 1024)
COLD = 2**26  # bytes of weights that go by
READ = 2**26  # numbers that are read to find how fast memory is
SUMS = 24  # registers: as many as a tile has, so that no instruction waits for the one before
TURNS_OF_REGISTERS = 200_000


@intrinsic
def _registers_alone(typing_context, n, word):
    """n turns of SUMS dot products of what is in registers -> a number that depends on each of them."""

    def code(context, builder, signature, arguments):
        n, word = arguments
        words, dot = ir.VectorType(I32, DOT.lanes), tile.multiplication(DOT, builder)
        w = tile.on_all_lanes(builder, builder.trunc(word, I32), words)
        x = builder.xor(w, ir.Constant(words, [0x10001] * DOT.lanes))
        before, body, behind = builder.block, builder.append_basic_block(), builder.append_basic_block()
        builder.branch(body)
        builder.position_at_end(body)
        left, sums = builder.phi(I64), [builder.phi(words) for _ in range(SUMS)]
        following = [dot(total, w, x) for total in sums]
        fewer = builder.sub(left, I64(1))
        left.add_incoming(n, before)
        left.add_incoming(fewer, body)
        for k, (total, made) in enumerate(zip(sums, following, strict=True)):
            total.add_incoming(ir.Constant(words, [k] * DOT.lanes), before)
            total.add_incoming(made, body)
        builder.cbranch(builder.icmp_signed(">", fewer, I64(0)), body, behind)
        builder.position_at_end(behind)
        mixed = following[0]
        for made in following[1:]:  # each in its own way, or LLVM computes one alone
            mixed = builder.xor(builder.mul(mixed, ir.Constant(words, [3] * DOT.lanes)), made)
        return builder.sext(builder.extract_element(mixed, I32(0)), I64)

    return types.int64(types.int64, types.int64), code


@njit(nogil=True)
def registers_alone(n, word):
    return _registers_alone(n, word)


@njit(nogil=True, fastmath=True)
def total_of(numbers):
    found = np.float32(0)
    for i in range(len(numbers)):
        found += numbers[i]
    return found


def seconds_of(call) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def check(x_RX: np.ndarray, plain: Weight) -> None:
    """Ends the script where a way that is timed makes other numbers than NumPy."""
    weights = {"int8_dynamic": pack_int8(plain), "int8": replace(plain, x_bits=None)}
    weights |= {dtype: in_panels(stored_weight(dtype, Weight(plain.data.T.astype(np.float32)))) for dtype in BLOCKS}
    for dtype, weight in weights.items():
        multiply, right = (linear_int8, linear_int8_naive) if dtype == "int8_dynamic" else (linear, linear_naive)
        found_RX, right_RX = multiply(x_RX, weight), right(x_RX, weight)
        close = 0 if dtype == "int8_dynamic" else 1e-5 * np.abs(right_RX).max()
        if not (np.abs(found_RX - right_RX) <= close).all():
            raise SystemExit(f"{dtype} is wrong for {x_RX.shape} x {plain.data.shape[::-1]}: nothing was timed")


def measure(rows: int, inputs: int, outputs: int, turns: int, pool, numbers) -> dict:
    """Medians of one product and of both limits, by turns."""
    rng, threads = np.random.default_rng(0), worker_threads().number
    copies = max(2, COLD // (inputs * outputs))
    plain = [
        stored_weight("int8_dynamic", Weight(rng.standard_normal((inputs, outputs), np.float32))) for _ in range(copies)
    ]
    x_RX, y_RX = rng.standard_normal((rows, inputs), np.float32), np.empty((rows, outputs), np.float32)
    wide = [w.data.T.astype(np.float32) for w in plain[: max(2, COLD // (4 * inputs * outputs))]]
    packed, weights, wides = cycle([pack_int8(w) for w in plain]), cycle(plain), cycle(wide)
    in_blocks = {}
    for dtype in BLOCKS:
        each = [in_panels(stored_weight(dtype, Weight(w.data.T.astype(np.float32)))) for w in plain]
        in_blocks[dtype] = cycle(each)
    parts = np.array_split(numbers, threads)
    calls = {
        "int8_dynamic": lambda: linear_int8(x_RX, next(packed), out=y_RX),
        "int8": lambda: linear(x_RX, next(weights), out=y_RX),
        "int8_blocks": lambda: linear(x_RX, next(in_blocks["int8_blocks"]), out=y_RX),
        "int4": lambda: linear(x_RX, next(in_blocks["int4"]), out=y_RX),
        "float32": lambda: np.matmul(x_RX, next(wides), out=y_RX),
        "registers": lambda: list(pool.map(registers_alone, [TURNS_OF_REGISTERS] * threads, [0x01010101] * threads)),
        "reading": lambda: list(pool.map(total_of, parts)),
    }
    check(x_RX, plain[0])
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(turns + 1):
        for name in rng.permutation(list(calls)).tolist():
            took = min(seconds_of(calls[name]) for _ in range(3))
            if turn:
                seconds[name].append(took)
    operations = 2 * rows * inputs * outputs
    of_registers = 2 * threads * TURNS_OF_REGISTERS * SUMS * DOT.lanes * GROUP
    peaks = [of_registers / s for s in seconds["registers"]]
    reads = [numbers.nbytes / s for s in seconds["reading"]]
    mine = seconds["int8_dynamic"]
    return {
        "rows": rows, "inputs": inputs, "outputs": outputs,
        "milliseconds": {name: round(1e3 * statistics.median(s), 4) for name, s in seconds.items()},
        "of_registers": round(statistics.median(operations / s / p for s, p in zip(mine, peaks, strict=True)), 3),
        "of_reading": round(statistics.median(inputs * outputs / s / r for s, r in zip(mine, reads, strict=True)), 3),
        "int8_over_int4": round(statistics.median(np.divide(seconds["int8"], seconds["int4"]).tolist()), 2),
        "gigaoperations": round(operations / statistics.median(mine) / 1e9, 1),
    }  # fmt: skip


def table(found: dict, products: set[str]) -> str:
    """Milliseconds of each way, and ours in int8_dynamic over both limits."""
    m = found["machine"]
    lines = ["| product | rows | int8_dynamic | int8 | float32, BLAS | G/s | of registers alone | of reading |",
             "|---|---|---|---|---|---|---|---|"]  # fmt: skip
    for row in (r for r in found["products"] if r["product"] in products):
        ms = row["milliseconds"]
        lines.append(
            f"| {row['product']}, {row['inputs']} x {row['outputs']} | {row['rows']} | {ms['int8_dynamic']:.3f} ms"
            f" | {ms['int8']:.3f} | {ms['float32']:.3f} | {row['gigaoperations']:,.0f} | {row['of_registers']:.0%}"
            f" | {row['of_reading']:.0%} |"
        )
    threads = f"{m['threads']} thread{'s' * (m['threads'] > 1)} on {m['cores']} cores ({m['processor']})"
    where = f"Medians, {threads}, {m['kind']}; BLAS: {m['blas']}; numba {m['numba']}."
    return "\n".join([*lines, "", f"{where} {m['note']}".strip()])


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--turns", type=positive, default=7)
    p.add_argument("--rows", type=positive, nargs="+", default=list(ROWS))
    p.add_argument("--products", nargs="+", default=list(PRODUCTS), choices=list(PRODUCTS))
    p.add_argument("--note", default="", help="what a reader should know of the machine")
    p.add_argument("--out", type=to_write, help="JSON file to write")
    p.add_argument("--readme", type=with_marks("int8-gemm"), help="file whose table between these marks is replaced")
    a = p.parse_args()
    if DOT is None:
        raise SystemExit("this processor has no integer dot product that compiled code could use")
    numbers, found, threads = np.ones(READ, np.float32), [], worker_threads().number
    with ThreadPoolExecutor(threads) as pool, threadpool_limits(threads):
        for name in a.products:
            for rows in a.rows:
                row = {"product": name} | measure(rows, *PRODUCTS[name], a.turns, pool, numbers)
                found.append(row)
                print(name, rows, row["milliseconds"], f"int8 / int4 {row['int8_over_int4']}x", flush=True)
    blas = ", ".join(sorted({f"{b['internal_api']} {b.get('architecture', '')}".strip() for b in threadpool_info()}))
    machine = where_it_ran() | {"kind": DOT.name, "threads": threads, "blas": blas, "note": a.note}
    result = {"machine": machine, "products": found}
    print(table(result, set(a.products)))
    if a.out:
        a.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    if a.readme:
        write_between_markers(a.readme, "int8-gemm", table(result, {a.products[-1]}))


if __name__ == "__main__":
    main()
