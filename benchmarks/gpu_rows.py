"""Attention of prompts and encoders, and the kernels that move rows, on a GPU: right, then how near to a copy.

    python benchmarks/gpu_rows.py --out benchmarks/results/gpu-rows-DEVICE.jsonl

Checks against float64 with computed bounds first. Then three tables, each line written as it comes: a layer's attention
at BART's and GPT-2's shapes, with other sizes of its blocks; row kernels on a gigabyte beside a copy of as many bytes;
and the same on the rows of a decode step, in a graph of LAUNCHES of them. Needs CuPy; under a minute with compiling.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

from minidecode.conformance.rows import asked_of
from minidecode.cuda import activation, embedding, heads, norm, prefill
from minidecode.ops import Heads, Norm
from minidecode.runtime.device import device_kind
from minidecode.runtime.graphs import capture

LAUNCHES, F, HALF = 64, np.float32, np.float16
SHAPES = {  # sentences, queries, keys, heads of 64 numbers, causal
    "BART-large encoder, 8 x 1024": (8, 1024, 1024, 16, False),
    "BART-large encoder, 32 x 1024": (32, 1024, 1024, 16, False),
    "BART-large first token, 8 x 1024": (8, 1, 1024, 16, False),
    "BART-large first token, 32 x 1024": (32, 1, 1024, 16, False),
    "GPT-2 prompt, 1 x 32": (1, 32, 32, 12, True),
    "GPT-2 prompts, 4 x 256": (4, 256, 256, 12, True),
    "GPT-2 prompts, 8 x 1024": (8, 1024, 1024, 12, True),
    "GPT-2 prompts, 32 x 64": (32, 64, 64, 12, True),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="file to write a line of JSON to for each figure")
    args = parser.parse_args()
    if device_kind() != "gpu":
        parser.error("there is no GPU here: run this where one is")
    import cupy

    def report(what: str, **figures) -> None:
        print(f"{what:<64}" + "  ".join(f"{name} {value:.4g}" for name, value in figures.items()), flush=True)
        if args.out:
            with args.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"what": what, **figures}) + "\n")

    check_planted(cupy, report)
    for dtype in (HALF, F):
        for name, shape in SHAPES.items():
            time_attention(cupy, f"{name}, {np.dtype(dtype)}", shape, dtype, report)
    copy_speed = time_rows(cupy, 2**30, report)
    report("a copy of a gigabyte, read and written", TB_s=copy_speed / 1e12)
    for R, D in [(1, 768), (4, 768), (32, 1024), (128, 1024), (128, 4096)]:
        for name, (run, moved) in row_kernels(cupy, R, D).items():
            graph, _ = capture("cuda", lambda run=run: [run() for _ in range(LAUNCHES)])
            report(f"{name}, {R} x {D}, in a graph", us=1e6 * seconds(cupy, graph.launch, 20) / LAUNCHES, bytes=moved)


def seconds(cupy, run, times: int = 10) -> float:
    """Of one call, by the device's clock, once all is compiled."""
    run(), run()
    begin, end = cupy.cuda.Event(), cupy.cuda.Event()
    begin.record()
    for _ in range(times):
        run()
    end.record()
    end.synchronize()
    return cupy.cuda.get_elapsed_time(begin, end) / 1e3 / times


def check_planted(cupy, report) -> None:
    """The conformance row's own inputs, position biases left out, by versions 3 and 4: errors over their bounds."""
    for function in (prefill.attend_prefill_v3, prefill.attend_prefill):
        worst = 0.0
        for case in asked_of("prefill").planted():
            if len(case) == 8 and len(case[0]) < 40:
                there = [cupy.asarray(a) if isinstance(a, np.ndarray) else a for a in case]
                off = np.abs(function(*there).get() - asked_of("prefill").oracle(*case))
                worst = max(worst, float((off / asked_of("prefill").bound(*case)).max()))
        report(f"{function.__name__}, planted inputs: error over bound", worst=worst, right=worst <= 1)


def time_attention(cupy, name: str, shape: tuple, dtype, report) -> None:
    """One layer, first against float64 in its first and last sentence."""
    B, N, M, H, causal = shape
    rng = cupy.random.default_rng(0)
    q, k, v = (rng.standard_normal((B * n, H, 64), dtype=F).astype(dtype) for n in (N, M, M))
    offsets = cupy.arange(B + 1) * N, cupy.arange(B + 1) * M
    a_RX, worst = prefill.attend_prefill(q, k, v, *offsets, 0.125, causal), 0.0
    for b in {0, B - 1}:
        q64, k64, v64 = (x[b * n : (b + 1) * n].astype(float).transpose(1, 0, 2) for x, n in ((q, N), (k, M), (v, M)))
        scores = 0.125 * q64 @ k64.transpose(0, 2, 1)
        scores = cupy.where(causal & (cupy.arange(N)[:, None] < cupy.arange(M)), -np.inf, scores)
        weights = cupy.exp(scores - scores.max(axis=2, keepdims=True))
        weights /= weights.sum(axis=2, keepdims=True)
        rounding = 2.0**-11 * weights + 2.0**-25 if dtype == HALF else 0 * weights
        bound = (rounding + 2e-5 * weights) @ cupy.abs(v64)
        off = cupy.abs(a_RX[b * N : (b + 1) * N].reshape(N, H, 64).transpose(1, 0, 2) - weights @ v64)
        worst = max(worst, float((off / bound).max()))
    tried = {"": {}}
    if N >= 256:
        tried |= {f" SCORES=2**{n}": {"SCORES": 2**n} for n in (22, 23, 25)}
        tried |= {f" CAUSAL_ROWS={n}": {"CAUSAL_ROWS": n} for n in (128, 256, 1024)} if causal else {}
    for label, settings in tried.items():
        before = {key: getattr(prefill, key) for key in settings}
        vars(prefill).update(settings)
        ms = 1e3 * seconds(cupy, lambda: prefill.attend_prefill(q, k, v, *offsets, 0.125, causal), 5)
        vars(prefill).update(before)
        report(f"{name}{label}", ms=ms, error_over_bound=worst, right=worst <= 1)


def row_kernels(cupy, R: int, D: int) -> dict:
    """Name -> (call, bytes that it moves at the least)."""
    x, y, s, h = (cupy.ones((R, D), F) for _ in range(4))
    gain, ids, cut = cupy.ones(D, F), cupy.arange(R) % 1000, Heads(D // 64, D // 64, 64, 64, 1.0)
    wte, layer = cupy.ones((1000, D), F), Norm(gain, gain, 1e-5)
    qkv, bias, four = cupy.ones((R, 3 * D), F), cupy.ones(3 * D, F), 4 * R * D
    parts = {t: tuple(cupy.ones((R, D // 64, 64), t) for _ in range(3)) for t in (F, HALF)}
    return {
        "residual_norm": (lambda: norm.residual_norm(x, y, gain, layer, (s, h)), 4 * four),
        "norm alone": (lambda: norm.residual_norm(x, None, None, layer, (x, h)), 2 * four),
        "gelu": (lambda: activation.bias_activation(x, gain, "gelu", h), 2 * four),
        "gelu_new": (lambda: activation.bias_activation(x, gain, "gelu_new", h), 2 * four),
        "relu": (lambda: activation.bias_activation(x, gain, "relu", h), 2 * four),
        "add_bias": (lambda: activation.add_bias(x, gain, h), 2 * four),
        "split_heads": (lambda: heads.split_heads(qkv, bias, cut, None, parts[F]), 6 * four),
        "split_heads to float16": (lambda: heads.split_heads(qkv, bias, cut, HALF, parts[HALF]), 9 * four // 2),
        "embed_norm": (lambda: embedding.embed_norm(ids, ids, wte, wte, 1.0, layer, (s, h)), 2 * four),
    }


def time_rows(cupy, size: int, report) -> float:
    """Each kernel where it moves about `size` bytes -> bytes a second of a copy."""
    source = cupy.zeros(size // 8, F)
    target = cupy.empty_like(source)
    speed = size / seconds(cupy, lambda: cupy.copyto(target, source))
    for D in (768, 1024, 4096):
        for name in row_kernels(cupy, 1, D):
            R = size // row_kernels(cupy, 1, D)[name][1]
            run, moved = row_kernels(cupy, R, D)[name]
            rate = moved / seconds(cupy, run, 5)
            report(f"{name}, {R} x {D}", share_of_a_copy=rate / speed, TB_s=rate / 1e12)
    return speed


if __name__ == "__main__":
    main()
