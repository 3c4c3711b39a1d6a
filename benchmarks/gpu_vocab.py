"""Kernels over a vocabulary on a GPU: right on fresh inputs, their share of a copy's bandwidth, microseconds a step.

    python benchmarks/gpu_vocab.py --out benchmarks/results/gpu-vocab-DEVICE.json

Each version is checked against float64 on new random logits, its results and workspace poisoned; then it is timed on
1 GB, and in a graph that holds it twenty times, on the logits of a step of GPT-2: 1, 4, 32 and 128 rows, which lie in
the L2 cache as they do behind the product that wrote them. top_k writes into another array, and its copy of the scores
counts: in place it would filter what the run before has left. Chains are a step's ops, one behind the other. The last
lines are FastSeq's Table 3 (the paper: 4477.1 ms / 7.8 ms, 575x). Takes about a minute, compiling included. Prints a
line for each version, and writes all of them to --out.
"""

import argparse
import inspect
import time

import numpy as np
from flags import file_to_write
from gpu_timing import check_cupy
from records import write_record

from minidecode.bench.compare import implementations
from minidecode.catalog import CATALOG
from minidecode.conformance.rows import row_module
from minidecode.device.graphs import capture_and_run

V, C, ROWS = 50257, 8, (1, 4, 32, 128)
OPS = ("softmax", "argmax", "candidates", "hars", "beam_scores", "temperature", "top_k", "beam_update")
WRITTEN = ("softmax", "beam_scores", "temperature", "top_k")  # they write as much as they read


def arguments_for(name: str, rows: int, xp) -> tuple:
    """Fresh logits of so many rows, four of them a sentence."""
    logits_RV, W = xp.random.standard_normal((rows, V), dtype=np.float32) * np.float32(3), min(rows, 4)
    if name == "beam_update":
        given, _ = row_module(name).make_paper_inputs(seed=int(time.time()) % 1000)
        several = [np.resize(a, (rows // W, *a.shape[1:])) if np.shape(a)[:1] == (32,) else a for a in given]
        return tuple(xp.asarray(a) if isinstance(a, np.ndarray) else a for a in several)
    return {"candidates": (logits_RV.reshape(rows // W, W * V), C), "argmax": (logits_RV, logits_RV),
            "hars": (logits_RV, -xp.random.random((rows // W, W), dtype=np.float32), C), "softmax": (logits_RV,),
            "temperature": (logits_RV, 0.7), "beam_scores": (logits_RV, logits_RV[:, 0].copy()),
            "top_k": (logits_RV, 50)}[name]  # fmt: skip


def what_is_wrong(name: str, function, rows: int, xp) -> str:
    """What is wrong with the answer to fresh inputs; nothing if it is right."""

    def poisoned(shape, dtype=np.float32):
        return xp.full(shape, np.nan if np.dtype(dtype).kind == "f" else -7777, dtype)

    given = arguments_for(name, rows, xp)
    host = [a.get() if hasattr(a, "get") else np.array(a) if isinstance(a, np.ndarray) else a for a in given]
    right = implementations(CATALOG[name])["reference"](
        *[np.array(a) if isinstance(a, np.ndarray) else a for a in host]
    )
    right = right if isinstance(right, tuple) else (right,)
    more = {"out": tuple(poisoned(a.shape, a.dtype) for a in right), "workspace": poisoned}
    more["out"] = more["out"] if len(right) > 1 else more["out"][0]
    mine = function(*given, **{k: v for k, v in more.items() if k in inspect.signature(function).parameters})
    mine = [a.get() if hasattr(a, "get") else a for a in (mine if isinstance(mine, tuple) else (mine,))]
    if CATALOG[name].contract == "exact":
        return "" if all(map(np.array_equal, mine, right)) else "not what NumPy says"
    logprobs_RV = host[0].astype(np.float64)
    logprobs_RV -= logprobs_RV.max(1, keepdims=True)
    logprobs_RV -= np.log(np.exp(logprobs_RV).sum(1, keepdims=True))
    if name == "softmax":
        off, other = np.abs(mine[0] - logprobs_RV).max(), mine[1].any()
    elif name == "argmax":
        off, other = np.abs(mine[1] - logprobs_RV.max(1)).max(), (mine[0] != host[0].argmax(1)).any()
    else:
        total_BX = (logprobs_RV + host[1].reshape(-1, 1)).reshape(len(host[1]), -1)
        off = np.abs(mine[0] + np.sort(-total_BX, axis=1)[:, :C]).max()
        other = np.abs(np.take_along_axis(total_BX, mine[1], 1) - mine[0]).max() > 1e-5
    return "" if off < 1e-5 and not other else f"off by {off:.1e}, or another token"


def microseconds(run, cupy, times: int = 20) -> float:
    """Of one run, where a graph holds so many of them, one behind the other: the median of seven launches."""
    run()
    graph, _ = capture_and_run("gpu", lambda: [run() for _ in range(times)][-1])
    times_us = []
    for _ in range(7):
        begin, end = cupy.cuda.Event(), cupy.cuda.Event()
        begin.record()
        graph.launch()
        end.record()
        end.synchronize()
        times_us.append(1e3 * cupy.cuda.get_elapsed_time(begin, end) / times)
    return float(np.median(times_us))


def run_of(name: str, function, given: tuple, xp):
    """One run, the same each time."""
    more = {"out": xp.empty_like(given[0])} if name == "top_k" else {}
    return lambda: function(*given, **more)


def chains_of_kernels(rows: int, xp) -> dict:
    """What a step does behind the model: with every log-probability written, by HARS, greedily."""
    op = {name: implementations(CATALOG[name])["cuda"] for name in OPS}
    logits_RV, W, state = arguments_for("softmax", rows, xp)[0], min(rows, 4), arguments_for("beam_update", rows, xp)
    running_BW, room = state[3].reshape(-1)[:rows].reshape(-1, W), [xp.empty_like(logits_RV), xp.empty(rows, np.int64)]

    def written():
        scores_RV = op["beam_scores"](op["softmax"](logits_RV, room)[0], running_BW.reshape(-1))
        best_BC, index_BC = op["candidates"](scores_RV.reshape(rows // W, -1), C)
        op["beam_update"](best_BC, *np.divmod(index_BC, V), *state[3:])

    def by_hars():
        op["beam_update"](*op["hars"](logits_RV, running_BW, C), *state[3:])

    return {"softmax+scores+candidates+update": written, "greedy": lambda: op["argmax"](logits_RV, logits_RV),
            "hars+update": by_hars}  # fmt: skip


def table_3(cupy) -> dict:
    """Milliseconds of a ban, 128 rows of 140 tokens: by a loop that fetches row after row, by kernels in a graph."""
    given, _ = row_module("ngram").make_paper_inputs()
    scores_RV, tokens_RM, length_R, n = (cupy.asarray(a) if isinstance(a, np.ndarray) else a for a in given)
    begun, milliseconds = time.perf_counter(), {}
    for r, length in enumerate(length_R.get().tolist()):
        text = tokens_RM[r].get().tolist()
        for start in range(length - n + 1):
            if text[start : start + n - 1] == text[length - n + 1 : length]:
                scores_RV[r, text[start + n - 1]] = -np.inf
    cupy.cuda.get_current_stream().synchronize()
    milliseconds["loop with transfers"], banned_RV = 1e3 * (time.perf_counter() - begun), scores_RV.get()
    for label, function in implementations(CATALOG["ngram"]).items():
        if label.startswith("cuda"):
            scores_RV[...] = 0
            milliseconds[label] = microseconds(lambda f=function: f(scores_RV, tokens_RM, length_R, n), cupy) / 1e3
            milliseconds[label] = milliseconds[label] if np.array_equal(scores_RV.get(), banned_RV) else np.nan
    return milliseconds


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--only", nargs="+", choices=OPS, default=OPS, metavar="OP", help=", ".join(OPS))
    p.add_argument("--out", type=file_to_write, help="JSON file to write")
    a = p.parse_args()
    check_cupy()
    import cupy

    begun, half, into = time.monotonic(), *cupy.ones((2, 1 << 29), np.uint8)
    bandwidth = 2 * half.nbytes / microseconds(lambda: cupy.copyto(into, half), cupy, 1) / 1e6  # TB/s
    record: dict = {"copy_TBs": bandwidth, "ops": {}, "chains": {}}
    print(f"A copy: {bandwidth:.2f} TB/s, both ways. Microseconds in a graph at {ROWS} rows; share of a copy on 1 GB.")
    for name in a.only:
        for label, function in implementations(CATALOG[name]).items():
            if not label.startswith("cuda"):
                continue
            bad = [what for rows in (1, 4, 12) if (what := what_is_wrong(name, function, rows, cupy))]
            inputs = [arguments_for(name, rows, cupy) for rows in ROWS]
            us, share = [microseconds(run_of(name, function, g, cupy), cupy) for g in inputs], 0.0
            if name != "beam_update":
                large = arguments_for(
                    name, 2_672 if name in ("softmax", "beam_scores", "temperature", "top_k") else 5_340, cupy
                )
                took = microseconds(run_of(name, function, large, cupy), cupy, 1)
                bytes_per_us = CATALOG[name].cost(*large).bytes / took
                share = bytes_per_us / 1e6 / bandwidth
            record["ops"][f"{name} {label}"] = {"us": us, "share": share, "wrong": bad}
            columns = "  ".join(f"{u:8.2f}" for u in us)
            print(f"{name:12} {label:8} {columns}  {share:5.0%}  {'WRONG: ' + bad[0] if bad else 'right'}", flush=True)
    for rows in ROWS:
        for label, run in chains_of_kernels(rows, cupy).items():
            record["chains"][f"{label}, {rows} rows"] = us = microseconds(run, cupy)
            print(f"{label}, {rows} rows: {us:.2f} us", flush=True)
    record["table_3"] = ms = table_3(cupy)
    for label, each in ms.items():
        print(f"ban of n-grams, {label}: {each:.4f} ms, {ms['loop with transfers'] / each:,.0f}x")
    print(f"{time.monotonic() - begun:.0f} s in all")
    if a.out:
        write_record(a.out, record)


if __name__ == "__main__":
    main()
