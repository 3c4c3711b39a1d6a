"""Attention of a decode step on a GPU: each version checked against float64, then timed beside a copy.

    python benchmarks/gpu_attention.py [--only shared split grouped indirect]

Launches go into one CUDA graph, each over a cache of its own, 200 MB together, so that no cache of the GPU serves them.
The newest version is also timed with other numbers of warps and queries a block and ranges of positions (KNOBS). Takes
about a minute, on a GPU with CuPy. Prints a line for each version, and writes nothing.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import math

import numpy as np
from gpu_timing import check_cupy

from minidecode.cuda import grouped, indirect, shared, split
from minidecode.cuda.common.warp_attention import launch_warps
from minidecode.device.graphs import capture_and_run

try:
    import cupy
except ImportError:  # then --help alone works
    cupy = None

BYTES = 200e6  # of all caches of a graph
KNOBS = list(itertools.product((8, 16), (1, 2, 8), (1, 4)))  # warps of a block, ranges of positions, queries of a block
# name: kind, sentences, beams, H, G, K, prompt positions, own positions, type of the caches
SHAPES = {
    "BART-large, 8 x 4 beams": ("shared", 8, 4, 16, 16, 64, 1024, 0, "float16"),
    "BART-large, 32 x 4 beams": ("shared", 32, 4, 16, 16, 64, 1024, 0, "float16"),
    "BART-large, 32 x 4 beams, float32": ("shared", 32, 4, 16, 16, 64, 1024, 0, "float32"),
    "1 GB": ("shared", 256, 4, 16, 16, 64, 1024, 0, "float16"),
    "GPT-2, 4 x 4 beams, 256 + 32": ("split", 4, 4, 12, 12, 64, 256, 32, "float16"),
    "GPT-2, 4 x 4 beams, 900 + 100": ("split", 4, 4, 12, 12, 64, 900, 100, "float16"),
    "GPT-2, table, 4 x 4 beams, 256 + 32": ("indirect", 4, 4, 12, 12, 64, 256, 32, "float16"),
    "GPT-2, greedy, 32 + 16": ("split", 1, 1, 12, 12, 64, 32, 16, "float16"),
    "GPT-2, greedy, 32 + 256": ("split", 1, 1, 12, 12, 64, 32, 256, "float16"),
    "Llama 8B, 1 row, 2048": ("grouped", 1, 1, 32, 8, 128, 0, 2048, "float16"),
    "Llama 8B, 16 rows, 2048": ("grouped", 16, 1, 32, 8, 128, 0, 2048, "float16"),
    "multi-query, 128 rows, 128": ("grouped", 128, 1, 8, 1, 128, 0, 128, "float16"),
}


VERSIONS = {  # the one before, and the newest
    "shared": {"v4": shared.attend_shared_v4, "v5": shared.attend_shared},
    "split": {"v4": split.attend_split_v4, "v5": split.attend_split},
    "grouped": {"v4": grouped.attend_v4, "v5": grouped.attend},
    "indirect": {"v2": indirect.attend_indirect_v2, "v3": indirect.attend_indirect},
}


def inputs(kind, B, W, H, G, K, N, T, dtype, seed):
    """(the op's arguments, prompt, own, table): parts of a few million fresh random numbers, over and over."""
    R, rng = B * W, np.random.default_rng(seed)
    numbers = cupy.asarray(rng.standard_normal(4_000_037 if seed else 1_000_003, np.float32))

    def cache(*shape):
        return cupy.resize(cupy.roll(numbers, int(rng.integers(numbers.size))).astype(dtype), shape)

    q_RHK = cupy.resize(numbers, (R, H, K))
    prompt = cache(B, G, N, K), cache(B, G, N, K), cupy.zeros(B, np.int64)
    generated = cache(R, G, T, K), cache(R, G, T, K), cupy.zeros(R, np.int64), cupy.full(R, T, np.int64)
    table_RT = cupy.asarray(np.arange(R)[:, None] // W * W + rng.integers(0, W, (R, T)))
    arguments = {"shared": prompt, "split": (*prompt, *generated), "grouped": generated,
                 "indirect": (*prompt, *generated[:2], table_RT, *generated[2:])}[kind]  # fmt: skip
    if kind == "shared":  # what the kernel is given in place of own positions, and does not read
        generated = prompt[0][:, :, :0], prompt[1][:, :, :0], prompt[2], prompt[2]
    return (q_RHK, *arguments, K**-0.5), prompt, generated, table_RT if kind == "indirect" else None


def oracle(q_RHK, prompt, generated, table_RT, scale, rows):
    """These rows in float64."""
    (R, H, _), B, T = q_RHK.shape, len(prompt[0]), generated[0].shape[2]
    rows_of_result = []
    for r in rows:
        at = cupy.full(T, r) if table_RT is None else table_RT[r], slice(None), cupy.arange(T)
        parts = ([p[r // (R // B)], o[at].transpose(1, 0, 2)] for p, o in zip(prompt[:2], generated[:2], strict=True))
        k, v = (cupy.concatenate(p, 1).astype(np.float64).repeat(H // p[0].shape[0], axis=0) for p in parts)
        scores = scale * (q_RHK[r].astype(np.float64)[:, None] * k).sum(-1)
        weights = cupy.exp(scores - scores.max(-1, keepdims=True))
        rows_of_result.append(((weights[..., None] * v).sum(1) / weights.sum(-1)[:, None]).ravel())
    return cupy.stack(rows_of_result)


def microseconds(run, launches: int) -> float:
    """Of one of the launches that `run` does, the least of five graphs' launches."""
    run()
    graph, _ = capture_and_run("cuda", run)
    begin, end, times = cupy.cuda.Event(), cupy.cuda.Event(), []
    for _ in range(5):
        begin.record()
        graph.launch()
        end.record()
        end.synchronize()
        times.append(1e3 * cupy.cuda.get_elapsed_time(begin, end) / launches)
    return min(times)


def ways(kind, out, with_knobs):
    """Name -> how to do it for one of the inputs."""
    calls = {label: functools.partial(by_version, function, out) for label, function in VERSIONS[kind].items()}
    for knobs in KNOBS if with_knobs else ():
        calls["{} warps, {} ranges, {} queries".format(*knobs)] = functools.partial(by_knobs, *knobs, out)
    return calls


def by_version(function, out, arguments, *_):
    function(*arguments, out=out)


def by_knobs(warps, ranges, tile, out, arguments, prompt, generated, table_RT):
    q_RHK, *_, scale = arguments
    launch_warps(q_RHK, prompt, generated, scale, out, None, table_RT, warps=warps, ranges=ranges, tile=tile)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kinds = {"nargs": "+", "choices": tuple(VERSIONS), "default": tuple(VERSIONS), "metavar": "KIND"}
    parser.add_argument("--only", help=", ".join(VERSIONS), **kinds)
    only = parser.parse_args().only
    check_cupy()
    source, target = cupy.ones(2**27, np.float32), cupy.empty(2**27, np.float32)
    copy = 2 * source.nbytes / microseconds(lambda: cupy.copyto(target, source), 1)  # bytes a microsecond
    print(f"a copy moves {copy / 1e6:.2f} TB/s")
    for name, (kind, B, W, H, G, K, N, T, dtype) in SHAPES.items():
        if kind not in only:
            continue
        moved = 2 * (B * N + B * W * T) * G * K * np.dtype(dtype).itemsize
        several = [inputs(kind, B, W, H, G, K, N, T, dtype, seed) for seed in range(min(64, math.ceil(BYTES / moved)))]
        rows, out = sorted({0, B * W // 2, B * W - 1}), cupy.empty((B * W, H * K), np.float32)
        right = oracle(several[0][0][0], *several[0][1:], K**-0.5, rows)
        for label, way in ways(kind, out, dtype == "float16" and moved < BYTES).items():
            out[...] = np.nan
            way(*several[0])
            error = float(abs(out[rows] - right).max())
            verdict = "" if error < 1e-5 and not bool(cupy.isnan(out).any()) else "  WRONG"
            took = microseconds(lambda way=way, several=several: [way(*case) for case in several], len(several))
            share = moved / took / copy
            print(f"{name:<36} {label:<30} {took:9.2f} us {share:5.0%}  error {error:.0e}{verdict}", flush=True)


if __name__ == "__main__":
    main()
