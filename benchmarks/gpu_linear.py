"""Products of few rows on a GPU: the share of a copy's bandwidth, by dtype, rows and the constants of a kernel.

    python benchmarks/gpu_linear.py --seconds 60 --out $OUT/gpu-linear.jsonl

1 GB of weights in one product; the shapes of GPT-2 and BART-large, each in a captured graph that goes through at least
100 MB of weights. Each variant's answers are compared with float64 before it is timed: "off" is the largest error, in
sqrt(inputs) * 2**-23 * |x| |w|. Takes about a minute, on a GPU with CuPy. Prints each line as it comes, and
writes it to --out.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import time
from functools import partial
from pathlib import Path

import numpy as np
from flags import file_to_write, positive_number
from gpu_timing import check_cupy

from minidecode.cuda import linear
from minidecode.device.graphs import capture_and_run
from minidecode.device.low_precision import dequantize_weight
from minidecode.ops import Weight

try:
    import cupy
except ImportError:  # then --help alone works
    cupy = None

SHAPES = {  # (inputs, outputs, how often in a decode step)
    "gpt2": {"qkv": (768, 2304, 12), "out": (768, 768, 12), "up": (768, 3072, 12), "down": (3072, 768, 12),
             "head": (768, 50257, 1)},
    "bart": {"qkv": (1024, 3072, 12), "out": (1024, 1024, 36), "up": (1024, 4096, 12), "down": (4096, 1024, 12),
             "head": (1024, 50265, 1)},
}  # fmt: skip
LARGE, CYCLED, TURNS, LARGE_INPUTS = 10**9, 128 * 2**20, 5, 1024
OF_5 = "version 5"  # with the constants of cuda/linear.py
VARIANTS = {  # of version 4: (tiles of outputs, steps loaded at once)
    "float16": [(1, 4), (2, 4)], "int8": [(1, 2), OF_5, (4, 2)], "int4": [(1, 4), OF_5, (4, 4)],
    "float32": [(4, 1), (4, 2)], "int8_blocks": [(1, 4), OF_5, (4, 4)],
}  # fmt: skip
BYTES = {"float32": 4, "float16": 2, "int8": 1, "int8_blocks": 34 / 32, "int4": 18 / 32}  # of a weight, with its scale


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=positive_number, default=60)
    parser.add_argument("--rows", default="1,4,8,16")
    parser.add_argument("--dtypes", default=",".join(VARIANTS))
    parser.add_argument("--warps", default="2112")
    parser.add_argument("--out", type=file_to_write, default=Path("gpu-linear.jsonl"))
    args = parser.parse_args()
    check_cupy()
    started, copy = time.perf_counter(), copy_bandwidth()
    print(f"a copy: {copy / 1e12:.2f} TB/s, read and written. Shares in % of it; of each shape microseconds too")
    ways = itertools.product(map(int, args.rows.split(",")), range(3), args.dtypes.split(","), args.warps.split(","))
    for rows, number, dtype, warps in ways:
        if number < (1 if rows > 8 else len(VARIANTS[dtype])) and time.perf_counter() - started < args.seconds:
            figures = measure_variant(rows, dtype, VARIANTS[dtype][number], int(warps), copy)
            print(*(f"{name} {value}" for name, value in figures.items()), flush=True)
            with args.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(figures) + "\n")


def measure_variant(rows, dtype, constants, warps, copy) -> dict:
    """Shares in %, of one variant; of each shape (share, microseconds)."""
    linear.ENOUGH_WARPS = warps
    made, outputs = kernel_with(dtype, rows, constants), int(LARGE / BYTES[dtype] / LARGE_INPUTS)
    x_RX, weight = random_rows(rows, LARGE_INPUTS), random_weights(dtype, 1, outputs, LARGE_INPUTS)[0]
    y_RX = linear.launch_few_rows(made, x_RX, weight)
    off = largest_error(y_RX, x_RX, weight, dtype)
    seconds = seconds_of_run(partial(linear.launch_few_rows, made, x_RX, weight, None, y_RX))
    figures = {"dtype": dtype, "rows": rows, "tiles, steps": constants, "warps": warps, "off": round(off, 2)}
    figures["1 GB"] = round(100 * LARGE / seconds / copy)
    for model, shapes in SHAPES.items():
        all_bytes = all_seconds = 0.0
        for name, (inputs, outputs, times) in shapes.items():
            size = inputs * outputs * BYTES[dtype]
            weights = random_weights(dtype, max(2, -(-CYCLED // int(size))), outputs, inputs)
            x_RX = random_rows(rows, inputs)
            y_RX = linear.launch_few_rows(made, x_RX, weights[0])

            def run(weights=weights, x_RX=x_RX, y_RX=y_RX):
                for weight in weights:
                    linear.launch_few_rows(made, x_RX, weight, None, y_RX)

            seconds = seconds_of_run(capture_and_run("cuda", run)[0].launch) / len(weights)
            figures[f"{model} {name}"] = round(100 * size / seconds / copy), round(1e6 * seconds, 2)
            all_bytes, all_seconds = all_bytes + times * size, all_seconds + times * seconds
        figures[model] = round(100 * all_bytes / all_seconds / copy)
    return figures


def kernel_with(dtype, rows, constants):
    """The kernel of few rows with these constants, for as many rows."""
    if constants == OF_5:
        return next(made for made in linear.FEW_BITS[dtype] if made.rows >= rows)
    return linear.make_few_rows_kernel(
        dtype, min(rows, 8) if dtype == "float32" else 8 if rows <= 8 else 16, *constants
    )


def random_rows(rows, inputs):
    return cupy.random.standard_normal((rows, inputs), dtype=np.float32)


def random_weights(dtype, count, outputs, inputs) -> list[Weight]:
    """`count` matrices of one buffer, whose bits are random."""
    size = count * outputs * inputs // (2 if dtype == "int4" else 1)
    bits = cupy.random.randint(0, 2**31 - 1, -(-size // 2), dtype=np.int32).view(np.uint16)[:size].astype(np.uint8)
    bits = bits.reshape(count, outputs, -1)
    if dtype in ("float16", "float32"):
        return [Weight((w_XX.view(np.int8) * np.float32(2**-12)).astype(dtype), layout="oi") for w_XX in bits]
    shape, kind = ((count, outputs), np.float32) if dtype == "int8" else ((count, outputs, inputs // 32), np.float16)
    scales = cupy.random.uniform(2**-13, 2**-12, shape).astype(kind)
    bits = bits if dtype == "int4" else bits.view(np.int8)
    return [Weight(w_XX, scale=scale, layout="oi") for w_XX, scale in zip(bits, scales, strict=True)]


def largest_error(y_RX, x_RX, weight, dtype) -> float:
    """The largest error among the first and the last 512 outputs."""
    x, worst = x_RX.astype(np.float32 if dtype == "float32" else np.float16).astype(np.float64), 0.0
    for some in (slice(0, 512), slice(weight.outputs - 512, None)):
        w = dequantize_weight(weight.of_outputs(some), np.dtype(np.float64))
        unit = 2.0**-23 * len(w[0]) ** 0.5 * cupy.sqrt(x**2 @ w.T**2)
        worst = max(worst, float((cupy.abs(y_RX[:, some] - x @ w.T) / unit).max()))
    return worst


def copy_bandwidth() -> float:
    """Bytes a second of a copy of 1 GB, read and written."""
    a, b = (cupy.ones(LARGE // 4, np.float32) for _ in range(2))
    return 2 * LARGE / seconds_of_run(lambda: cupy.copyto(b, a))


def seconds_of_run(run) -> float:
    """Seconds of the device, the median of TURNS after a first call."""
    run()
    pairs = [(cupy.cuda.Event(), cupy.cuda.Event()) for _ in range(TURNS)]
    for begin, end in pairs:
        begin.record()
        run()
        end.record()
    cupy.cuda.Device().synchronize()
    return statistics.median(cupy.cuda.get_elapsed_time(*pair) for pair in pairs) / 1e3


if __name__ == "__main__":
    main()
