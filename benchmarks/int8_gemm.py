"""Integer products (dtype=int8_dynamic) beside what the processor and its memory allow.

    python benchmarks/int8_gemm.py --out benchmarks/results/int8-gemm-cpu.json --readme benchmarks/README.md

Two limits are measured in the same turns as the products: operations per second of the dot product on registers alone,
and bytes per second that as many threads read from memory. Products of 1 and 4 rows should come near the second,
products of many rows near the first. To see the limits, products are timed back to back, as a captured step runs them
(runtime/cpu_graphs.py): one compiled call for several matrices, without Python between. Of few rows, these are so many
matrices that each comes from memory, as in a model. Our own float32 is timed in the same way.

Then each way is called by itself, every time with another matrix: `int8_dynamic`; `int8`, `int8_blocks` and `int4`,
which round weights alone; and float32 by the BLAS. Rounding the rows counts as part of a product of int8_dynamic.

Each product is compared with NumPy's before it is timed; a wrong one ends the script. Everything runs on as many
threads as Numba is told (NUMBA_NUM_THREADS). Takes about three minutes. Prints the limits, and the ways for the last
product; writes both into --readme between the marks int8-gemm, and all figures to --out.
"""

from __future__ import annotations

import argparse
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import cycle

import numpy as np
from flags import file_to_write, positive
from numba import njit
from readme import with_marks, write_between_markers
from records import write_record
from registers import loop_of, operations_of
from threadpoolctl import threadpool_info, threadpool_limits

from minidecode.bench.compare import describe_machine
from minidecode.cpu.common.graph import Graph
from minidecode.cpu.common.panel_gemm import pack_floats, pack_int8
from minidecode.cpu.common.tile import DOT, FLOAT
from minidecode.cpu.linear import linear
from minidecode.cpu.linear_int8 import linear_int8
from minidecode.device.capture import CAPTURE
from minidecode.device.cores import worker_threads
from minidecode.device.low_precision import stored_weight
from minidecode.device.weight_blocks import BLOCKS, pack_in_panels
from minidecode.ops import Weight
from minidecode.reference.linear import linear_naive
from minidecode.reference.linear_int8 import linear_int8_naive

PRODUCTS = {"out": (768, 768), "qkv": (768, 2304), "down": (3072, 768), "up": (768, 3072)}  # GPT-2's
ROWS = (1, 4, 16, 64, 128, 512, 1024)
MANY = 16  # rows, from which on reading the weights is no limit
COLD = 2**26  # bytes of weights that go by
READ = 2**26  # numbers that are read to find how fast memory is
BACK_TO_BACK = 2**32  # operations of the products that are timed in one call: some 10 ms
BLAS_SPINS = 0.05  # seconds: a thread of the BLAS keeps a core for half as long after a product
TURNS_OF_REGISTERS = 2_000_000  # 15 ms: a thread that starts late counts for little


registers_alone = loop_of(DOT)


@njit(nogil=True, fastmath=True)
def total_of(numbers):
    total = np.float32(0)
    for i in range(len(numbers)):
        total += numbers[i]
    return total


def seconds_of(call) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def graph_of_products(multiply, x_RX: np.ndarray, weights: list[Weight], y_RX: np.ndarray) -> Graph:
    """Products of x by all weights, as a captured step keeps them: `launch` runs them in one compiled call.

    Ends the script if the last product is not the same, bit for bit, when it is launched.
    """
    graph = Graph()
    token = CAPTURE.set(graph)
    try:
        for weight in weights:
            multiply(x_RX, weight, out=y_RX)
    finally:
        CAPTURE.reset(token)
    called_RX, y_RX[...] = y_RX.copy(), 0
    graph.launch()
    if graph.why_not or not np.array_equal(y_RX, called_RX):
        raise SystemExit(f"a launched product of {x_RX.shape} is wrong ({graph.why_not}): nothing was timed")
    return graph


def check(x_RX: np.ndarray, plain: Weight) -> None:
    """Ends the script where a way that is timed makes other numbers than NumPy."""
    weights = {"int8_dynamic": pack_int8(plain), "int8": replace(plain, x_bits=None)}
    weights |= {
        dtype: pack_in_panels(stored_weight(dtype, Weight(plain.data.T.astype(np.float32)))) for dtype in BLOCKS
    }
    for dtype, weight in weights.items():
        multiply, right = (linear_int8, linear_int8_naive) if dtype == "int8_dynamic" else (linear, linear_naive)
        found_RX, right_RX = multiply(x_RX, weight), right(x_RX, weight)
        close = 0 if dtype == "int8_dynamic" else 1e-5 * np.abs(right_RX).max()
        if not (np.abs(found_RX - right_RX) <= close).all():
            raise SystemExit(f"{dtype} is wrong for {x_RX.shape} x {plain.data.shape[::-1]}: nothing was timed")


def measure(rows: int, inputs: int, outputs: int, turns: int, pool: ThreadPoolExecutor, threads: int, numbers) -> dict:
    """Medians of one product and of both limits, by turns. threads: of the pool, which all meet at a barrier."""
    rng = np.random.default_rng(0)
    copies = max(2, COLD // (inputs * outputs))
    plain = [
        stored_weight("int8_dynamic", Weight(rng.standard_normal((inputs, outputs), np.float32))) for _ in range(copies)
    ]
    x_RX, y_RX = rng.standard_normal((rows, inputs), np.float32), np.empty((rows, outputs), np.float32)
    wide = [w.data.T.astype(np.float32) for w in plain[: max(2, COLD // (4 * inputs * outputs))]]
    in_panels_of = {"int8_dynamic": [pack_int8(w) for w in plain]}
    if FLOAT is not None:
        in_panels_of["float32"] = [pack_floats(Weight(w.T, layout="oi")) for w in wide]
    packed, weights, wides = cycle(in_panels_of["int8_dynamic"]), cycle(plain), cycle(wide)
    in_blocks = {}
    for dtype in BLOCKS:
        each = [pack_in_panels(stored_weight(dtype, Weight(w.data.T.astype(np.float32)))) for w in plain]
        in_blocks[dtype] = cycle(each)
    parts, together = np.array_split(numbers, threads), threading.Barrier(threads)

    def on_registers(_):
        together.wait()
        return registers_alone(TURNS_OF_REGISTERS, 0x01010101)

    calls = {
        "int8_dynamic": lambda: linear_int8(x_RX, next(packed), out=y_RX),
        "int8": lambda: linear(x_RX, next(weights), out=y_RX),
        "int8_blocks": lambda: linear(x_RX, next(in_blocks["int8_blocks"]), out=y_RX),
        "int4": lambda: linear(x_RX, next(in_blocks["int4"]), out=y_RX),
        "float32": lambda: np.matmul(x_RX, next(wides), out=y_RX),
        "registers": lambda: list(pool.map(on_registers, range(threads))),
        "reading": lambda: list(pool.map(total_of, parts)),
    }
    check(x_RX, plain[0])
    operations, of_each = 2 * rows * inputs * outputs, {}
    at_once = max(2, BACK_TO_BACK // operations)
    for dtype, its_weights in in_panels_of.items():
        graph = graph_of_products(linear_int8 if dtype == "int8_dynamic" else linear, x_RX, its_weights[:at_once], y_RX)
        calls[f"{dtype}, back to back"], of_each[dtype] = graph.launch, len(its_weights[:at_once])
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(turns + 1):
        for name in rng.permutation(list(calls)).tolist():
            took = min(seconds_of(calls[name]) for _ in range(3))
            if name in ("float32", "int8"):  # int8 of many rows is the BLAS's too
                time.sleep(BLAS_SPINS)
            if turn:
                seconds[name].append(took)
    of_registers = threads * TURNS_OF_REGISTERS * DOT.rows * DOT.registers * operations_of(DOT)
    peaks, reads = of_registers / np.array(seconds["registers"]), numbers.nbytes / np.array(seconds["reading"])
    limits = {}
    for dtype, count in of_each.items():
        of_one = np.array(seconds.pop(f"{dtype}, back to back")) / count
        speeds = in_panels_of[dtype][0].data.nbytes / of_one
        limits[dtype] = {
            "milliseconds": median(1e3 * of_one, 4), "gigabytes_a_second": median(speeds / 1e9, 1),
            "of_reading": median(speeds / reads, 3), "gigaoperations": median(operations / of_one / 1e9, 1),
        }  # fmt: skip
        if dtype == "int8_dynamic":
            limits[dtype]["of_registers"] = median(operations / of_one / peaks, 3)
    return {
        "rows": rows, "inputs": inputs, "outputs": outputs,
        "milliseconds": {name: median(1e3 * np.array(s), 4) for name, s in seconds.items()},
        "int8_over_int4": median(np.divide(seconds["int8"], seconds["int4"]), 2),
        "reading_gigabytes_a_second": median(reads / 1e9, 1), "back_to_back": limits,
    }  # fmt: skip


def median(numbers: np.ndarray, digits: int) -> float:
    return round(float(np.median(numbers)), digits)


def table(record: dict, products: set[str]) -> str:
    """Few rows beside reading, many beside registers; then each way called by itself, for `products`."""
    m, rows = record["machine"], record["products"]
    names = {r["product"]: f"{r['product']}, {r['inputs']} x {r['outputs']}" for r in rows}
    lines = ["| product, back to back | rows | int8_dynamic | GB/s | of reading | float32 | GB/s | of reading |",
             "|---|---|---|---|---|---|---|---|"]  # fmt: skip
    for row in (r for r in rows if r["rows"] < MANY):
        each = [row["back_to_back"].get(dtype) for dtype in ("int8_dynamic", "float32")]
        cells = [
            f"{of['milliseconds']:.3f} ms | {of['gigabytes_a_second']:.0f} | {of['of_reading']:.0%}" if of else " | | "
            for of in each
        ]
        lines.append(f"| {names[row['product']]} | {row['rows']} | {' | '.join(cells)} |")
    many = {(r["product"], r["rows"]): r["back_to_back"]["int8_dynamic"] for r in rows if r["rows"] >= MANY}
    lines += ["", f"| rows, of registers alone | {' | '.join(names.values())} |", "|---" * (1 + len(names)) + "|"]
    for number in dict.fromkeys(number for _, number in many):
        shares = [many[name, number]["of_registers"] for name in names]
        lines.append(f"| {number} | {' | '.join(f'{share:.0%}' for share in shares)} |")
    lines += ["", "| product, called by itself | rows | int8_dynamic | int8 | float32, BLAS |", "|---|---|---|---|---|"]
    for row in (r for r in rows if r["product"] in products):
        ms = row["milliseconds"]
        lines.append(
            f"| {names[row['product']]} | {row['rows']} | {ms['int8_dynamic']:.3f} ms | {ms['int8']:.3f}"
            f" | {ms['float32']:.3f} |"
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
    p.add_argument("--out", type=file_to_write, help="JSON file to write")
    p.add_argument("--readme", type=with_marks("int8-gemm"), help="file whose table between these marks is replaced")
    a = p.parse_args()
    if DOT is None:
        raise SystemExit("this processor has no integer dot product that compiled code could use")
    numbers, measured, threads = np.ones(READ, np.float32), [], worker_threads().number
    with ThreadPoolExecutor(threads) as pool, threadpool_limits(threads):
        for name in a.products:
            for rows in a.rows:
                row = {"product": name} | measure(rows, *PRODUCTS[name], a.turns, pool, threads, numbers)
                measured.append(row)
                print(name, rows, row["milliseconds"], f"int8 / int4 {row['int8_over_int4']}x", flush=True)
    blas = ", ".join(sorted({f"{b['internal_api']} {b.get('architecture', '')}".strip() for b in threadpool_info()}))
    machine = describe_machine() | {"kind": DOT.name, "threads": threads, "blas": blas, "note": a.note}
    result = {"machine": machine, "products": measured}
    print(table(result, set(a.products)))
    if a.out:
        write_record(a.out, result)
    if a.readme:
        write_between_markers(a.readme, "int8-gemm", table(result, {a.products[-1]}))


if __name__ == "__main__":
    main()
