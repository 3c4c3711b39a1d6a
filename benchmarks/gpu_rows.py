"""Attention of prompts and encoders, and the kernels that move rows, on a GPU: right, then how near to a copy.

    python benchmarks/gpu_rows.py --out benchmarks/results/gpu-rows-DEVICE.jsonl

A layer's attention, compared with float64; row kernels on a gigabyte, and in a graph on rows of a decode step. Takes
about a minute. Prints a line for each figure, and writes it to --out as JSON.
"""

from __future__ import annotations

import argparse
import json

import numpy as np
from flags import file_to_write
from gpu_timing import check_cupy

from minidecode.cuda import activation, append, embedding, heads, norm, prefill
from minidecode.cuda import reorder as move
from minidecode.device.graphs import capture_and_run
from minidecode.ops import Heads, Norm

LAUNCHES, F, HALF = 64, np.float32, np.float16
SIZES, BY_TILES = [{"SCORES": 2**n} for n in (21, 22, 23, 25)], {"attend_prefill": prefill.attend_prefill_v4}
SHAPES = {  # sentences, queries, keys, heads of 64 numbers, causal; and settings to try
    "BART-large encoder, 8 x 1024": (8, 1024, 1024, 16, False, [*SIZES, BY_TILES, {"WORTH_PRODUCTS": 2**30}]),
    "BART-large encoder, 32 x 1024": (32, 1024, 1024, 16, False, []),
    "BART-large first token, 32 x 1024": (32, 1, 1024, 16, False, [{"WORTH_PRODUCTS": 0}]),
    "GPT-2 prompt, 1 x 32": (1, 32, 32, 12, True, [{"WORTH_PRODUCTS": 0}]),
    "GPT-2 prompts, 4 x 256": (4, 256, 256, 12, True, [BY_TILES, {"WORTH_PRODUCTS": 2**30}]),
    "GPT-2 prompts, 8 x 1024": (8, 1024, 1024, 12, True, [{"CAUSAL_ROWS": n} for n in (256, 1024)]),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=file_to_write, help="file to write a line of JSON to for each figure")
    args = parser.parse_args()
    check_cupy()
    import cupy

    def report(what: str, **figures) -> None:
        print(f"{what:<64}" + "  ".join(f"{name} {value:.4g}" for name, value in figures.items()), flush=True)
        if args.out:
            with args.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"what": what, **figures}) + "\n")

    for dtype in (HALF, F):
        for name, shape in SHAPES.items():
            time_attention(cupy, f"{name}, {np.dtype(dtype)}", shape, dtype, report)
    time_rows(cupy, 2**30, report)
    for R, D in [(1, 768), (4, 768), (32, 1024), (128, 1024), (128, 4096)]:
        for name, (run, _) in row_kernels(cupy, R, D).items():
            report(f"{name}, {R} x {D}, in a graph", us=us_in_a_graph(cupy, run))
    for R in (4, 32, 128):
        run, _ = reorder(cupy, R, 64)
        report(f"reorder_cache, {R} rows, 64 positions, in a graph", us=us_in_a_graph(cupy, run))


def us_in_a_graph(cupy, run) -> float:
    """Microseconds of a launch, of many in one captured graph."""
    run()  # compiled before it is captured
    graph, _ = capture_and_run("cuda", lambda: [run() for _ in range(LAUNCHES)])
    return 1e6 * seconds(cupy, graph.launch, 20) / LAUNCHES


def seconds(cupy, run, times: int = 5) -> float:
    """Of one call, by the device's clock, once all is compiled."""
    begin, end = cupy.cuda.Event(), cupy.cuda.Event()
    for turn in range(times + 2):
        if turn == 2:
            begin.record()
        run()
    end.record()
    end.synchronize()
    return cupy.cuda.get_elapsed_time(begin, end) / 1e3 / times


def time_attention(cupy, name: str, shape: tuple, dtype, report) -> None:
    """One layer, held to float64 in its first and its last sentence; with other settings too."""
    B, N, M, H, causal, tried = shape
    rng = cupy.random.default_rng(0)
    q, k, v = (rng.standard_normal((B * n, H, 64), dtype=F).astype(dtype) for n in (N, M, M))
    offsets = cupy.arange(B + 1) * N, cupy.arange(B + 1) * M
    for settings in [{}, *tried]:
        before = {key: getattr(prefill, key) for key in settings}
        vars(prefill).update(settings)
        a_RX, worst = prefill.attend_prefill(q, k, v, *offsets, 0.125, causal), 0.0
        ms = 1e3 * seconds(cupy, lambda: prefill.attend_prefill(q, k, v, *offsets, 0.125, causal))
        vars(prefill).update(before)
        for b in {0, B - 1}:
            mine = ((q, N), (k, M), (v, M))
            q64, k64, v64 = (x[b * n : (b + 1) * n].astype(float).transpose(1, 0, 2) for x, n in mine)
            scores = 0.125 * q64 @ k64.transpose(0, 2, 1)
            scores = cupy.where(causal & (cupy.arange(N)[:, None] < cupy.arange(M)), -np.inf, scores)
            weights = cupy.exp(scores - scores.max(axis=2, keepdims=True))
            weights /= weights.sum(axis=2, keepdims=True)
            unit, least = (2.0**-11, 2.0**-25) if dtype == HALF else (0, 0)
            bound = ((unit + 2e-5) * weights + least) @ cupy.abs(v64)
            off = cupy.abs(a_RX[b * N : (b + 1) * N].reshape(N, H, 64).transpose(1, 0, 2) - weights @ v64)
            worst = max(worst, float((off / bound).max()))
        in_words = ", ".join(f"{key} {getattr(value, '__name__', value)}" for key, value in settings.items())
        report(f"{name} {in_words}", ms=ms, error_over_bound=worst)


def row_kernels(cupy, R: int, D: int) -> dict:
    """Name -> (call, bytes that it moves at the least)."""
    x, y, s, h, gain = (*(cupy.ones((R, D), F) for _ in range(4)), cupy.ones(D, F))
    ids, cut = cupy.arange(R) % 1000, Heads(D // 64, D // 64, 64, 64, 1.0)
    wte, layer = cupy.ones((1000, D), F), Norm(gain, gain, 1e-5)
    qkv, bias, four = cupy.ones((R, 3 * D), F), cupy.ones(3 * D, F), 4 * R * D
    parts, q = tuple(cupy.ones((R, D // 64, 64), HALF) for _ in range(3)), cupy.ones((R, D // 64, 64), F)
    caches, at = tuple(cupy.ones((R, D // 64, 2, 64), HALF) for _ in range(2)), cupy.ones(R, np.int64)
    return {
        "residual_norm": (lambda: norm.residual_norm(x, y, gain, layer, (s, h)), 4 * four),
        "gelu": (lambda: activation.bias_activation(x, gain, "gelu", h), 2 * four),
        "gelu_new": (lambda: activation.bias_activation(x, gain, "gelu_new", h), 2 * four),
        "split_heads to float16": (lambda: heads.split_heads(qkv, bias, cut, HALF, parts), 9 * four // 2),
        "append_kv, cache in float16": (lambda: append.append_kv(qkv, bias, cut, *caches, at, q), 5 * four),
        "embed_norm": (lambda: embedding.embed_norm(ids, ids, wte, wte, 1.0, layer, (s, h)), 2 * four),
    }


def reorder(cupy, R: int, positions: int) -> tuple:
    """(call, bytes that it moves): each beam of GPT-2's float16 keys goes on from its neighbour, four to a sentence."""
    k, parents = cupy.ones((R, 12, positions, 64), HALF), np.arange(R) // 4 * 4 + (np.arange(R) + 1) % 4
    given = cupy.asarray(np.minimum(parents, R - 1)), cupy.full(R, positions)
    return lambda: move.reorder_cache(k, *given), 2 * k.nbytes


def time_rows(cupy, size: int, report) -> None:
    """Each kernel where it moves about `size` bytes, beside a copy of as many, read and written."""
    both = [cupy.zeros(size // 8, F) for _ in range(2)]
    copied = size / seconds(cupy, lambda: cupy.copyto(*both))
    report("a copy", TB_s=copied / 1e12)
    for D in (768, 1024, 4096):
        for name, (_, of_row) in row_kernels(cupy, 1, D).items():
            run, moved = row_kernels(cupy, size // of_row, D)[name]
            report(f"{name}, {size // of_row} x {D}", share_of_a_copy=moved / seconds(cupy, run) / copied)
    run, moved = reorder(cupy, 128, size // reorder(cupy, 128, 1)[1])
    report("reorder_cache, 128 rows", share_of_a_copy=moved / seconds(cupy, run) / copied)


if __name__ == "__main__":
    main()
