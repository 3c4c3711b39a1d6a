"""Which tile of a product is fastest: a model of registers and loads, and measurement; and whether packing rows pays.

    python benchmarks/tiles.py --out benchmarks/results/tiles-cpu.json --readme benchmarks/README.md

A tile is some rows by some registers of outputs (cpu/common/tile.py). The model counts the registers that it takes, and
the loads for each multiplication. Each tile multiplies 48 rows or so by a panel of weights: of 64 inputs, which lies in
the first level of the cache, and of 768, which lies in the second. Beside it stands what the same instruction does on
registers alone. Sums are checked before anything is timed.

Then whole products by the tile that is used, twice: as they are, and with the rows of a tile in one stream of memory.
The second reads one number after the other, whatever the row, and gives wrong sums. It bounds what packed rows could
gain: packed rows are read in one stream too, but are more bytes, and must be written first.

One thread, in its processor time, so other work on the machine counts for little. Takes a minute. Prints the tables;
writes them into --readme between the marks tiles, and all figures to --out.
"""

from __future__ import annotations

import os

os.environ["NUMBA_NUM_THREADS"] = "1"  # before Numba is loaded

import argparse
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from flags import file_to_write, positive
from numba import njit
from readme import with_marks, write_between_markers
from records import write_record
from registers import MORE_FLOATS, Registers

from minidecode.bench.compare import describe_machine
from minidecode.cpu.common import panel_gemm, tile
from minidecode.cpu.common.tasks import in_tasks
from minidecode.cpu.common.tile import FLOAT, Kind
from minidecode.ops import Weight
from minidecode.reference.activation import PLAIN

TILES = {  # registers -> (rows, registers of outputs)
    32: ((6, 4), (5, 5), (4, 6), (9, 3), (14, 2), (4, 4), (6, 2), (30, 1), (7, 4), (8, 4)),
    16: ((6, 2), (4, 3), (3, 4), (5, 2), (4, 2), (2, 4), (14, 1), (7, 2), (8, 2)),
}
ROWS = 48
LEVELS = {"first": 64, "second": 768}  # of the cache -> inputs of a panel that lies there
PRODUCTS = {"gpt2": (768, 2304), "bart-large": (1024, 4096)}  # the second: rows a page apart, in the same few sets
ROWS_OF_PRODUCTS = (64, 1024)
SECONDS = 0.01  # of a loop


def loop_over(kind: Kind) -> Callable[..., None]:
    """A compiled loop: all tiles of the rows by one panel, so many times."""
    multiply = tile.tile_of(kind, kind.rows)
    rows, nothing = kind.rows, 0

    @njit(nogil=True)
    def run(times, tiles, x, x_row, w, steps, y, y_row):
        for _ in range(times):
            for t in range(tiles):
                at, to = x + t * rows * x_row, y + t * rows * y_row
                multiply(at, x_row, w, steps, nothing, nothing, to, y_row, 1, 1, x, nothing)

    return run


def measure_tiles(base: Kind, shapes: tuple, turns: int) -> dict:
    """Shares of the registers' speed, by tile and level of the cache: median, lower and upper quartile."""
    registers, calls, kept = Registers(1), {}, []
    for shape in shapes:
        kind = replace(base, rows=shape[0], registers=shape[1])
        run, tiles = loop_over(kind), ROWS // shape[0]
        for level, steps in LEVELS.items():
            x_RX, w_XW = np.ones((tiles * kind.rows, steps), np.float32), np.ones((steps, kind.width), np.float32)
            y_RW = np.zeros((len(x_RX), kind.width), np.float32)
            kept += [x_RX, w_XW, y_RW]
            given = tiles, x_RX.ctypes.data, x_RX.strides[0], w_XW.ctypes.data, steps, y_RW.ctypes.data, y_RW.strides[0]
            run(1, *given)
            if not (y_RW == steps).all():
                raise SystemExit(f"a tile of {shape} is wrong: nothing was timed")
            calls[shape, level] = run, given, 2 * x_RX.size * kind.width
    shares: dict[tuple, list[float]] = {key: [] for key in calls}
    peaks, rng = [], np.random.default_rng(0)
    for _ in range(turns):
        peaks.append(registers.operations_a_second(base))
        for k in rng.permutation(len(calls)):
            key, (run, given, operations) = list(calls.items())[k]
            times = max(1, int(SECONDS * peaks[-1] / operations))
            took = seconds_of(lambda run=run, times=times, given=given: run(times, *given))
            shares[key].append(times * operations / took / peaks[-1])
    rows = [
        {
            "rows": r, "registers": v, "taken": tile.registers_taken(r, v),
            "loads_per_fma": round(tile.loads_per_fma(r, v), 3),
            "of_registers": {level: quartiles(shares[(r, v), level]) for level in LEVELS},
        }
        for r, v in shapes
    ]  # fmt: skip
    peak = round(float(np.median(peaks)) / 1e9, 1)
    return {"kind": base.name, "lanes": base.lanes, "gigaoperations": peak, "tiles": rows}


def seconds_of(call: Callable[[], object]) -> float:
    started = time.thread_time()
    call()
    return time.thread_time() - started


def quartiles(numbers: list[float]) -> list[float]:
    return [round(float(x), 3) for x in np.quantile(numbers, (0.5, 0.25, 0.75))]


@njit(inline="always")
def _in_one_stream(rows, x, x_row, w, steps, head, scale, y, y_row, begins, ends, prefetch, prefetch_step):
    """The tile that is used; the numbers of its rows lie side by side."""
    panel_gemm.float_tile(rows, x, 4, w, steps, head, scale, y, y_row, begins, ends, prefetch, prefetch_step)


@in_tasks()
def _multiply_in_one_stream(task, x_RX, w_PSW, bias_X, y_RX, adds, ends, panels_of_task, rows_of_task, steps_of_block):
    """As panel_gemm._multiply_floats."""
    no_scale = np.int64(0)
    return panel_gemm._panels_for_rows(
        task, _in_one_stream, panel_gemm.FLOAT_WIDTH, panel_gemm.FLOAT_ROWS, 0, x_RX, w_PSW, no_scale, bias_X, y_RX,
        PLAIN, adds, ends, panels_of_task, rows_of_task, steps_of_block,
    )  # fmt: skip


def measure_packing(inputs: int, outputs: int, rows: int, turns: int) -> dict:
    """Milliseconds of a product, and how many times as fast it is with its rows in one stream."""
    rng = np.random.default_rng(0)
    weight = panel_gemm.pack_floats(Weight(rng.standard_normal((inputs, outputs), np.float32)))
    x_RX = rng.standard_normal((rows + 1, inputs), np.float32)[:rows]  # the last tile reads a few numbers behind it
    y_RX, bias_X = np.empty((rows, outputs), np.float32), panel_gemm.no_bias(outputs)
    times = max(1, int(SECONDS * 1e11 / (2 * rows * inputs * outputs)))

    def run(function) -> None:
        for _ in range(times):
            panel_gemm._multiply_panels(function, weight, (x_RX, weight.data, bias_X, y_RX, False, False))

    ways = {"as it is": panel_gemm._multiply_floats, "one stream": _multiply_in_one_stream}
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    for turn in range(turns + 1):
        for way in rng.permutation(list(ways)).tolist():
            took = seconds_of(lambda way=way: run(ways[way]))
            if turn:
                seconds[way].append(took / times)
    ratios = [a / b for a, b in zip(seconds["as it is"], seconds["one stream"], strict=True)]
    milliseconds = {way: round(1e3 * float(np.median(s)), 3) for way, s in seconds.items()}
    return {"rows": rows, "inputs": inputs, "outputs": outputs, "milliseconds": milliseconds, "gain": quartiles(ratios)}


def table(record: dict) -> str:
    """Tiles by their loads; whole products with rows in one stream."""
    lines = []
    for measured in record["tiles"]:
        bits = 32 * measured["lanes"]
        head = "registers taken | loads per FMA | of registers alone, weights in the first level | in the second"
        lines += [f"| tile of {bits} bits, rows x registers | {head} |", "|---|---|---|---|---|"]
        for row in measured["tiles"]:
            shares = [cell_of_three(row["of_registers"][level], "{:.0%}") for level in LEVELS]
            name = f"{row['rows']} x {row['registers']}"
            lines.append(f"| {name} | {row['taken']} | {row['loads_per_fma']:.2f} | {' | '.join(shares)} |")
        lines.append("")
    if record["packing"]:
        lines += ["| product, float32 | rows | as it is | rows in one stream, at most a gain of |", "|---|---|---|---|"]
    for row in record["packing"]:
        ms = row["milliseconds"]["as it is"]
        gain = cell_of_three([x - 1 for x in row["gain"]], "{:+.1%}", " to ")
        lines.append(f"| {row['inputs']} x {row['outputs']} | {row['rows']} | {ms:.2f} ms | {gain} |")
    m = record["machine"]
    peaks = ", ".join(f"{t['kind']} {t['gigaoperations']:.0f}" for t in record["tiles"])
    where = f"Medians of {record['turns']} turns and quartiles, processor time of 1 thread ({m['processor']})"
    return "\n".join([*lines, "", f"{where}; on registers alone, 10^9 operations a second: {peaks}."]).strip()


def cell_of_three(three: list[float], form: str, between: str = "-") -> str:
    median, lower, upper = (form.format(number) for number in three)
    return f"{median} ({lower}{between}{upper})"


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--turns", type=positive, default=15)
    p.add_argument("--note", default="", help="what a reader should know of the machine")
    p.add_argument("--out", type=file_to_write, help="JSON file to write")
    p.add_argument("--readme", type=with_marks("tiles"), help="file whose table between these marks is replaced")
    a = p.parse_args()
    narrow = tile.best_of(MORE_FLOATS)
    kinds = [(kind, 32 if kind.name != "fma256" else 16) for kind in (FLOAT, narrow) if kind]
    if not kinds:
        raise SystemExit("this processor has no instruction that multiplies and adds vectors of float32")
    tiles = [measure_tiles(kind, TILES[registers], a.turns) for kind, registers in kinds]
    products = [(*shape, rows) for shape in PRODUCTS.values() for rows in ROWS_OF_PRODUCTS] if FLOAT else []
    packing = [measure_packing(*product, a.turns) for product in products]
    machine = describe_machine() | {"threads": 1, "note": a.note}
    result = {"machine": machine, "turns": a.turns, "tiles": tiles, "packing": packing}
    print(table(result))
    if a.out:
        write_record(a.out, result)
    if a.readme:
        write_between_markers(a.readme, "tiles", table(result))


if __name__ == "__main__":
    main()
