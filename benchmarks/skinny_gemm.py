"""Products of 1 to 64 rows with cold weights: BLAS, and ours with weights of float32, float16 and int8.

    python benchmarks/skinny_gemm.py --out benchmarks/results/skinny-gemm-cpu.json

The weights have the shapes of tiny-gpt2's, GPT-2 small's and BART-large's. Each call gets another matrix than the one
before, as in a decode step, in which all of a model's weights go by before the first is needed again. Ours are the
compiled loops of cpu/common/skinny_gemm.py whatever the number of rows; "blocks" casts narrow weights by blocks for
BLAS, which is what cpu/linear.py does with many rows: `FEW` in that file is where it overtakes. GB/s are the weights'
bytes, as they are stored, by the median time; beside them what one pass over as many bytes reads, and what NumPy
copies. With one thread the clock is that thread's own, which stands still while other programs have its core.

With --ends it times instead what follows the products of GPT-2's feed-forward layer: bias and activation, residual and
norm by ops of their own, or at the end of the products (cpu/epilogue.py).

"layout" is where float32 weights lie in a model's file; narrow ones, and those "by outputs", lie in "oi".

Where ours lose, and why: with many rows the arithmetic counts, and what our loops compute is then no faster than BLAS:
from about 12 rows on for float32 in the layout "io", where sums go through the cache once for every four inputs; in
"oi" a tile of 24 sums stays in registers, and BLAS overtakes at 50 to 100 rows where a processor has 32 vector
registers, at 24 to 32 where it has 16. Small float32 weights: what BLAS copies stays in a cache, and costs little. And
with many rows int8 is little faster than float32: reading is no longer what takes the time.

Takes about two minutes. Prints the tables; writes all figures to --out.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import cycle

import numpy as np
from flags import file_to_write, positive, positive_number
from numba import config, njit
from records import write_record
from threadpoolctl import threadpool_limits

from minidecode.bench.compare import describe_machine
from minidecode.cpu import linear as ours
from minidecode.cpu.activation import bias_activation
from minidecode.cpu.common.low_precision import cast_all
from minidecode.cpu.epilogue import linear_epilogue
from minidecode.cpu.norm import residual_norm
from minidecode.device.low_precision import stored_weight
from minidecode.ops import Norm, Weight
from minidecode.reference.linear import linear, product_by_blocks

ROWS = (1, 2, 4, 8, 12, 16, 24, 32, 64)
COLD = 2**28  # bytes of float32 matrices that go by; of a smaller model as many as it has
MODELS = {  # (bytes in float32, layout, {product: (inputs, outputs)}); the output's layout is always "oi"
    "tiny-gpt2": (24e6, "io", {"qkv": (256, 768), "out": (256, 256), "up": (256, 1024), "down": (1024, 256),
                               "lm_head": (256, 4096)}),
    "gpt2": (500e6, "io", {"qkv": (768, 2304), "out": (768, 768), "up": (768, 3072), "down": (3072, 768),
                           "lm_head": (768, 50257)}),
    "bart-large": (1600e6, "oi", {"qkv": (1024, 3072), "out": (1024, 1024), "up": (1024, 4096), "down": (4096, 1024),
                                  "lm_head": (1024, 50265)}),
}  # fmt: skip
WAYS = {
    "BLAS float32": ("float32", linear),
    "ours float32": ("float32", ours.linear_few_rows),
    "ours float32 by outputs": ("by outputs", ours.linear_few_rows),
    "ours float16": ("float16", ours.linear_few_rows),
    "ours int8": ("int8", ours.linear_few_rows),
    "blocks float16": ("float16", lambda x_RX, weight: product_by_blocks(x_RX, weight, None, cast_all, None)),
    "blocks int8": ("int8", lambda x_RX, weight: product_by_blocks(x_RX, weight, None, cast_all, None)),
}


def seconds_of(
    calls: dict[str, Callable[[], None]], repeats: int, clock: Callable[[], float]
) -> dict[str, list[float]]:
    """Each once to warm up, then all by turns in an order that changes, so that a slow moment hits them all."""
    seconds: dict[str, list[float]] = {label: [] for label in calls}
    rng = np.random.default_rng(0)
    for turn in range(repeats + 1):
        for label in rng.permutation(list(calls)).tolist():
            started = clock()
            calls[label]()
            if turn > 0:
                seconds[label].append(clock() - started)
    return seconds


def time_product(inputs: int, outputs: int, layout: str, cold: float, rows: tuple, *timing) -> list[dict]:
    """Milliseconds (median, fastest, slowest) and GB/s of each way, for each number of rows."""
    rng = np.random.default_rng(0)
    shape = (inputs, outputs) if layout == "io" else (outputs, inputs)
    copies = max(2, int(cold / (4 * inputs * outputs)))
    first = Weight(0.02 * rng.standard_normal(shape, np.float32), layout=layout)
    stored = {
        dtype: [replace(w, data=w.data.copy()) for _ in range(copies)]
        for dtype, w in [("float32", first), *((d, stored_weight(d, first)) for d in ("float16", "int8"))]
    }
    stored["by outputs"] = [stored_weight("float32", w) for w in stored["float32"]]
    timed = []
    for R in rows:
        x_RX = rng.standard_normal((R, inputs), np.float32)
        calls = {}
        for label, (dtype, multiply) in WAYS.items():
            weights = cycle(stored[dtype])
            calls[label] = lambda multiply=multiply, weights=weights, x_RX=x_RX: multiply(x_RX, next(weights))
        for label, s in seconds_of(calls, *timing).items():
            size, three = stored[WAYS[label][0]][0].data.nbytes, (statistics.median(s), min(s), max(s))
            timed.append({"rows": R, "way": label, "milliseconds": [round(1e3 * t, 4) for t in three],
                          "gigabytes_per_second": round(size / three[0] / 1e9, 2)})  # fmt: skip
    return timed


def product_then_ops(up: bool, x_RX, weight, x_RD, norm):
    """The product, and what follows it, as two ops."""
    if up:
        return bias_activation(ours.linear(x_RX, weight), weight.bias, "gelu_new")
    return residual_norm(x_RD, ours.linear(x_RX, weight), weight.bias, norm)


def product_with_epilogue(up: bool, x_RX, weight, x_RD, norm):
    """The product that ends in bias and activation, or in bias and residual; then the norm alone is left."""
    if up:
        return linear_epilogue(x_RX, weight, "gelu_new")
    return residual_norm(linear_epilogue(x_RX, weight, None, x_RD), None, None, norm)


def time_ends(width: int, rows: tuple, dtypes: tuple, cold: float, *timing) -> list[dict]:
    """Milliseconds (median, fastest, slowest) of a feed-forward layer's halves, both ways, in GPT-2's layout."""
    rng, timed = np.random.default_rng(0), []
    norm = Norm(*np.ones((2, width), np.float32), 1e-5)
    for product, (inputs, outputs) in {"up": (width, 4 * width), "down": (4 * width, width)}.items():
        first = Weight(0.02 * rng.standard_normal((inputs, outputs), np.float32), np.ones(outputs, np.float32))
        for dtype in dtypes:
            weight = first if dtype == "float32" else stored_weight(dtype, first)
            copies = max(2, int(cold / (4 * inputs * outputs)))
            stored = cycle([replace(weight, data=weight.data.copy()) for _ in range(copies)])
            for R in rows:
                x_RX, x_RD = rng.standard_normal((R, inputs), np.float32), np.zeros((R, width), np.float32)
                calls = {
                    way.__name__: lambda way=way, x=x_RX, y=x_RD, up=product == "up", w=stored: way(
                        up, x, next(w), y, norm
                    )
                    for way in (product_then_ops, product_with_epilogue)
                }
                times = {
                    way: [round(1e3 * t, 4) for t in (statistics.median(s), min(s), max(s))]
                    for way, s in seconds_of(calls, *timing).items()
                }
                timed.append({"product": product, "inputs": inputs, "stored": dtype, "rows": R, "milliseconds": times})
    return timed


@njit(nogil=True, fastmath={"reassoc"})
def _sum(numbers_X):
    total = np.float32(0)
    for i in range(len(numbers_X)):
        total += numbers_X[i]
    return total


def memory_speed(cold: float, *timing) -> dict[str, float]:
    """GB/s of one thread: reading, and copying (read and written bytes)."""
    source = np.ones(int(cold) // 4, np.float32)
    target = np.empty_like(source)
    seconds = seconds_of({"read": lambda: _sum(source), "copy": lambda: np.copyto(target, source)}, *timing)
    best = {label: min(s) for label, s in seconds.items()}
    return {
        "read": round(source.nbytes / best["read"] / 1e9, 2),
        "copy": round(2 * source.nbytes / best["copy"] / 1e9, 2),
    }


HEAD = "\n".join(["| model | product | layout | rows | " + " | ".join(WAYS) + " |", "|---" * (4 + len(WAYS)) + "|"])


def table(results: list[dict]) -> str:
    """A line for each product and number of rows: milliseconds, and GB/s of the weights."""
    lines = []
    for r in results:
        for R in dict.fromkeys(t["rows"] for t in r["times"]):
            cells = [
                f"{t['milliseconds'][0]:.3f} ({t['gigabytes_per_second']:.1f})" for t in r["times"] if t["rows"] == R
            ]
            name = f"{r['product']} {r['inputs']} x {r['outputs']}"
            lines.append(f"| {r['model']} | {name} | {r['layout']} | {R} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    p.add_argument("--rows", nargs="+", type=positive, default=ROWS)
    p.add_argument("--repeats", type=positive, default=9, help="turns that are timed")
    p.add_argument("--threads", type=positive, default=1, help="of BLAS and of ours")
    p.add_argument("--cold", type=positive_number, default=COLD, help="bytes of float32 matrices that go by")
    p.add_argument("--ends", type=positive, metavar="WIDTH", help="time what follows products instead; GPT-2's is 768")
    p.add_argument("--note", default="", help="what else ran on the machine meanwhile")
    p.add_argument("--out", type=file_to_write, help="JSON file to write")
    a = p.parse_args()
    config.NUMBA_NUM_THREADS = a.threads
    timing = a.repeats, time.thread_time if a.threads == 1 else time.perf_counter
    with threadpool_limits(a.threads):
        memory = memory_speed(a.cold, *timing)
        print(f"one thread reads {memory['read']} GB/s, copies {memory['copy']} GB/s; threads: {a.threads}\n")
        results = []
        if a.ends:
            results = time_ends(a.ends, tuple(a.rows), ("float32", "int8"), a.cold, *timing)
            print("\n".join(map(str, results)))
        else:
            print(HEAD)
        for model in a.models if not a.ends else ():
            size, layout, products = MODELS[model]
            for product, (inputs, outputs) in products.items():
                lies = "oi" if product == "lm_head" else layout
                times = time_product(inputs, outputs, lies, min(size, a.cold), tuple(a.rows), *timing)
                results.append({"model": model, "product": product, "inputs": inputs, "outputs": outputs,
                                "layout": lies, "times": times})  # fmt: skip
                print(table(results[-1:]), flush=True)
    machine = describe_machine() | {"note": a.note}
    if a.out:
        whole = {"machine": machine, "threads": a.threads, "gigabytes_per_second": memory, "products": results}
        write_record(a.out, whole)


if __name__ == "__main__":
    main()
