"""What the CUDA engine assumes of a GPU: what a launch costs in each style, and what a captured stream takes.

Assumptions of docs/INTERNALS.md ("Devices and captured steps"): a kernel of Numba's with CuPy's arrays, with
arrays converted once, and in a graph of LAUNCHES of them; a product by CuPy under capture (refused, as far as is
known), by nvmath's bindings of cuBLAS under capture, and both kinds in one graph. Each answer is a number in
microseconds, or the error that came.

Then about graphs that are kept for later generations (minidecode/runtime/buckets.py): whether one sees numbers that
are copied into its arrays later, also when all that CuPy's pool could give back was given back, and in another thread;
what capturing costs beside copying a cache; and GENERATIONS of GPT-2 with steps launched one by one, captured anew and
kept, which must say the same tokens.

    python benchmarks/graph_spike.py --out benchmarks/results/graph-spike-gpu.json

Needs a GPU, CuPy and Numba (extra cu13 or cu12), and nvmath-python for its rows. Takes some minutes, by reckoning: it
has not run yet. Prints a table, and writes the same to --out.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from flags import to_write

import minidecode as md
from minidecode import device_kind
from minidecode.bench.compare import where_it_ran
from minidecode.runtime.graphs import capture

LAUNCHES, TURNS, WIDTH = 100, 20, 1024
MEMORY = 64 << 20  # bytes: GPT-2's keys and values of 900 positions
GENERATIONS, NEW_TOKENS = 8, 64


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=to_write, help="JSON file to write")
    args = parser.parse_args()
    if device_kind() != "gpu":
        parser.error("there is no GPU here: the questions are a GPU's to answer")
    answers = asked()
    for name, answer in answers.items():
        print(f"{name:<62} {answer if isinstance(answer, str) else f'{answer:9.2f} us'}")
    kept = about_kept_graphs()
    for name, answer in kept.items():
        print(f"{name:<62} {answer if isinstance(answer, str) else f'{answer:9.2f}'}")
    if args.out:
        record = {"machine": where_it_ran(), "microseconds_a_launch": answers, "launches": LAUNCHES, "turns": TURNS,
                  "kept_graphs": kept}  # fmt: skip
        args.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def asked() -> dict[str, float | str]:
    """Name of a style -> microseconds a launch (or a product), or what went wrong."""
    import cupy
    from numba import cuda

    @cuda.jit
    def add_one(x_X, y_X):
        i = cuda.grid(1)
        if i < x_X.size:
            y_X[i] = x_X[i] + 1

    x_X, y_X = cupy.zeros(WIDTH, cupy.float32), cupy.zeros(WIDTH, cupy.float32)
    converted = [cuda.as_cuda_array(array, sync=False) for array in (x_X, y_X)]
    a_XX, b_XX, c_XX = (cupy.ones((WIDTH, WIDTH), cupy.float32) for _ in range(3))

    def kernel(*arrays, stream=0):
        add_one[WIDTH // 128, 128, stream](*arrays)

    def by_nvmath(stream=None):
        nvmath_product(a_XX, b_XX, c_XX, stream)

    answers: dict[str, float | str] = {}
    styles: dict[str, Callable[[], object]] = {
        "a kernel, CuPy's arrays": lambda: kernel(x_X, y_X),
        "a kernel, arrays converted at each launch, sync=False": lambda: kernel(
            *(cuda.as_cuda_array(a, sync=False) for a in (x_X, y_X))
        ),
        "a kernel, arrays converted once": lambda: kernel(*converted),
        "an elementwise operation of CuPy's, out given": lambda: cupy.add(x_X, 1, out=y_X),
        "a product by CuPy": lambda: cupy.matmul(a_XX, b_XX, out=c_XX),
        "a product by nvmath": by_nvmath,
    }
    for name, run in styles.items():
        answers[name] = answer(lambda run=run: microseconds(run, LAUNCHES))
    graphs: dict[str, Callable[[object], None]] = {
        "a kernel in a graph": lambda stream: kernel(*converted, stream=cuda.external_stream(stream.ptr)),
        "an elementwise operation of CuPy's in a graph": lambda stream: cupy.add(x_X, 1, out=y_X),
        "a product by CuPy in a graph": lambda stream: cupy.matmul(a_XX, b_XX, out=c_XX),
        "a product by nvmath in a graph": by_nvmath,
    }
    for name, run in graphs.items():
        answers[name] = answer(lambda run=run: in_a_graph([run]))
    both = [graphs["a kernel in a graph"], graphs["a product by nvmath in a graph"]]
    answers["kernel and nvmath's product by turns in one graph"] = answer(lambda: in_a_graph(both))
    return answers


def about_kept_graphs() -> dict[str, float | str]:
    """Question -> "yes", a figure in the unit that it names, or what went wrong."""
    import cupy

    x_X = cupy.zeros(WIDTH, cupy.float32)
    cache, other = (cupy.zeros(MEMORY // 4, cupy.float32) for _ in range(2))

    def three_operations() -> object:
        return (x_X * 2 + 1) * 3  # with arrays in between, which lie in the graph's own pool

    def is_seen(number: int) -> str:
        x_X[...] = number
        graph.launch()
        found, right = float(y_X[0]), (number * 2 + 1) * 3
        return "yes" if found == right else f"no: {found} instead of {right}"

    def is_seen_after_others(number: int) -> str:
        for size in range(WIDTH, 64 * WIDTH, WIDTH):
            cupy.full(size, 7, cupy.float32)
        cupy.get_default_memory_pool().free_all_blocks()
        return is_seen(number)

    def copied() -> None:
        cache[...] = other

    three_operations()
    graph, y_X = capture("cuda", three_operations)
    with ThreadPoolExecutor(1) as thread:
        answers = {
            "a kept graph sees what is copied into its arrays": answer(lambda: is_seen(1)),
            "and when CuPy's pool has given back all that is free": answer(lambda: is_seen_after_others(2)),
            "and launched by another thread than captured it": answer(lambda: thread.submit(is_seen, 3).result()),
            "capturing three operations, us": answer(
                lambda: microseconds(lambda: capture("cuda", three_operations), 1)
            ),
            f"copying {MEMORY >> 20} MiB into a kept cache, us": answer(lambda: microseconds(copied, 1)),
        }
    return answers | generations()


def generations() -> dict[str, float | str]:
    """Milliseconds of a generation of GPT-2's shapes in each way, the median; and whether all say the same."""
    answers_by_way, answers = {}, {}
    model = md.load("gpt2", random_weights=True, device="cuda")

    def generate(way: str, n: int) -> object:
        if way == "captured anew":
            model.buckets.clear()
        return model.generate(
            input_ids=[list(range(100 + n, 130 + n))] * 4, num_beams=4, max_new_tokens=NEW_TOKENS, eos_token_id=None,
            plan=f"cuda,graphs={'off' if way == 'one by one' else 'on'}",
        )  # fmt: skip

    def median(way: str) -> float:
        generate(way, 0)
        turns, answers_by_way[way] = [], []
        for n in range(GENERATIONS):
            started = time.perf_counter()
            out = generate(way, n)
            turns.append((time.perf_counter() - started) * 1e3)
            answers_by_way[way].append([ids.tolist() for ids in out.token_ids])
        graphs = out.receipt.graphs
        expected = {"one by one": (False, False), "captured anew": (True, False), "kept": (False, True)}[way]
        if (graphs.captured > 0, graphs.reused > 0) != expected:
            raise RuntimeError(f"{graphs.captured} captured, {graphs.reused} reused")
        return statistics.median(turns)

    for way in ("one by one", "captured anew", "kept"):
        answers[f"{NEW_TOKENS} tokens of GPT-2, launches {way}, ms"] = answer(lambda way=way: median(way))
    answers["all three say the same tokens"] = (
        "yes" if all(s == answers_by_way["one by one"] for s in answers_by_way.values()) else "no"
    )
    return answers


def answer(ask: Callable[[], float]) -> float | str:
    """The figure, or the error in a line: one style that fails does not hide the others."""
    try:
        return ask()
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"


def microseconds(run: Callable[[], object], times: int) -> float:
    """The median of TURNS turns, by the launch, waits included."""
    import cupy

    run()
    cupy.cuda.Device().synchronize()
    turns = []
    for _ in range(TURNS):
        started = time.perf_counter()
        for _ in range(times):
            run()
        cupy.cuda.Device().synchronize()
        turns.append((time.perf_counter() - started) / times * 1e6)
    return statistics.median(turns)


def in_a_graph(runs: list[Callable[[object], None]]) -> float:
    """Microseconds a launch of a graph that holds LAUNCHES of each of them by turns."""
    import cupy

    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        for run in runs:
            run(stream)
        stream.synchronize()
        stream.begin_capture()
        try:
            for _ in range(LAUNCHES):
                for run in runs:
                    run(stream)
        finally:
            graph = stream.end_capture()
        return microseconds(graph.launch, 1) / LAUNCHES


def nvmath_product(a_XX, b_XX, c_XX, stream=None) -> None:
    """c = a b of square float32 matrices by cuBLAS, handed raw addresses; it counts columns first."""
    import numpy as np
    from nvmath.bindings import cublas

    if "handle" not in _CUBLAS:
        _CUBLAS["handle"], _CUBLAS["one"], _CUBLAS["zero"] = cublas.create(), np.ones(1, "f4"), np.zeros(1, "f4")
    handle, n = _CUBLAS["handle"], len(a_XX)
    cublas.set_stream(handle, stream.ptr if stream else 0)
    cublas.sgemm(
        handle, 0, 0, n, n, n, _CUBLAS["one"].ctypes.data, b_XX.data.ptr, n, a_XX.data.ptr, n,
        _CUBLAS["zero"].ctypes.data, c_XX.data.ptr, n,
    )  # fmt: skip


_CUBLAS: dict[str, object] = {}

if __name__ == "__main__":
    main()
