"""Part `launches` of gpu.py: what a launch costs in each style, what capture accepts, and whether kept graphs hold.

Microseconds are by the launch: LAUNCHES in a row, then a wait. CuPy's and nvmath's rows need a GPU, and are left out
elsewhere; the others run on the emulated device too, where their time says nothing about a GPU.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from gpu_models import PLANS, load_ours, prompts_of, setting_of
from gpu_timing import Record, seconds_of, spread, waiter
from numba import cuda

from minidecode.device.arrays import put
from minidecode.device.graphs import capture_and_run
from minidecode.device.launch import launch

LAUNCHES, TURNS, WIDTH = 100, 20, 1024
CACHE_BYTES = 64 << 20  # GPT-2's keys and values of 900 positions
STEPS, GENERATIONS = 8, 2  # of GPT-2, for launches one by one, captured anew, and kept


@cuda.jit
def add_one(x_X, y_X):
    i = cuda.grid(1)
    if i < x_X.size:
        y_X[i] = x_X[i] + 1


def run(record: Record) -> None:
    wait = waiter(record.device)
    times, turns = (2, 1) if record.quick else (LAUNCHES, TURNS)

    def microseconds(function: Callable[[], Any], per_turn: int, held: int = 1) -> dict[str, list[float]]:
        """Of each of the `held` launches that one call of the function makes."""
        function()
        return {"microseconds": spread([s / held for s in seconds_of(function, wait, turns, per_turn)], 1e6)}

    size = 64 if record.quick else WIDTH
    x_X, y_X = (put(np.zeros(size, np.float32), record.device) for _ in range(2))

    def by_launch() -> None:
        launch(add_one, (-(-size // 128),), (min(size, 128),), x_X, y_X)

    def many_by_launch() -> None:
        for _ in range(times):
            by_launch()

    def captured() -> dict[str, list[float]]:
        by_launch()
        graph, _ = capture_and_run(record.device, many_by_launch)
        return microseconds(graph.launch, 1, times)

    record.ask("a kernel by launch()", lambda: microseconds(by_launch, times))
    record.ask("a kernel by launch(), in a graph", captured)
    if record.device == "cuda":
        for name, style in styles().items():
            record.ask(name, lambda style=style: microseconds(style(), times))
        for name, ready in held_styles().items():
            record.ask(name, lambda ready=ready: microseconds(in_a_graph(ready(), times), 1, times))
    about_kept_graphs(record, microseconds)
    for name, figure in generations(record).items():
        record.ask(name, figure)


# ---- launches one by one ---------------------------------------------------------------------------------------------


def styles() -> dict[str, Callable[[], Callable[[], Any]]]:
    """Style -> a function that gets ready for it, and returns one launch."""

    def arrays() -> tuple:
        import cupy

        return tuple(cupy.zeros(WIDTH, cupy.float32) for _ in range(2))

    def kernel_on_cupy() -> Callable[[], None]:
        x_X, y_X = arrays()
        return lambda: add_one[WIDTH // 128, 128](x_X, y_X)

    def kernel_converted_each_time() -> Callable[[], None]:
        x_X, y_X = arrays()
        return lambda: add_one[WIDTH // 128, 128](*(cuda.as_cuda_array(a, sync=False) for a in (x_X, y_X)))

    def kernel_converted_once() -> Callable[[], None]:
        converted = [cuda.as_cuda_array(a, sync=False) for a in arrays()]
        return lambda: add_one[WIDTH // 128, 128](*converted)

    def elementwise() -> Callable[[], Any]:
        import cupy

        x_X, y_X = arrays()
        return lambda: cupy.add(x_X, 1, out=y_X)

    return {
        "a kernel by Numba, CuPy's arrays": kernel_on_cupy,
        "a kernel by Numba, arrays converted at each launch": kernel_converted_each_time,
        "a kernel by Numba, arrays converted once": kernel_converted_once,
        "an elementwise operation of CuPy's": elementwise,
        "a product by CuPy, 1024 x 1024 x 1024": lambda: matmul_by_cupy()(None),
        "a product by nvmath, 1024 x 1024 x 1024": lambda: matmul_by_nvmath()(None),
    }


# ---- launches in a graph ---------------------------------------------------------------------------------------------


def held_styles() -> dict[str, Callable[[], Callable[[Any], Callable[[], Any]]]]:
    """Style -> a function that gets ready for it, and returns stream -> one launch on it."""
    return {
        "an elementwise operation of CuPy's, in a graph": elementwise_on,
        "a product by CuPy, in a graph": matmul_by_cupy,
        "a product by nvmath, in a graph": matmul_by_nvmath,
    }


def elementwise_on() -> Callable[[Any], Callable[[], Any]]:
    import cupy

    x_X, y_X = (cupy.zeros(WIDTH, cupy.float32) for _ in range(2))
    return lambda stream: lambda: cupy.add(x_X, 1, out=y_X)


def matmul_by_cupy() -> Callable[[Any], Callable[[], Any]]:
    import cupy

    a_XX, b_XX, c_XX = (cupy.ones((WIDTH, WIDTH), cupy.float32) for _ in range(3))
    return lambda stream: lambda: cupy.matmul(a_XX, b_XX, out=c_XX)


def matmul_by_nvmath() -> Callable[[Any], Callable[[], Any]]:
    """By cuBLAS, which is handed raw addresses and counts columns first."""
    import cupy
    from nvmath.bindings import cublas

    a_XX, b_XX, c_XX = (cupy.ones((WIDTH, WIDTH), cupy.float32) for _ in range(3))
    one, zero, n = np.ones(1, np.float32), np.zeros(1, np.float32), WIDTH
    handle, workspace = cublas.create(), cupy.empty(32 << 20, cupy.uint8)

    def on(stream: Any) -> Callable[[], None]:
        cublas.set_stream(handle, stream.ptr if stream else 0)
        cublas.set_workspace(handle, workspace.data.ptr, workspace.nbytes)
        return lambda: cublas.sgemm(handle, 0, 0, n, n, n, one.ctypes.data, b_XX.data.ptr, n, a_XX.data.ptr, n,
                                    zero.ctypes.data, c_XX.data.ptr, n)  # fmt: skip

    return on


def in_a_graph(on_stream: Callable[[Any], Callable[[], Any]], times: int) -> Callable[[], None]:
    """The launch of a graph that holds so many of them."""
    import cupy

    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        one = on_stream(stream)
        one()
        stream.synchronize()
        stream.begin_capture()
        try:
            for _ in range(times):
                one()
        finally:
            graph = stream.end_capture()

    def launch_it() -> None:
        with stream:
            graph.launch()

    return launch_it


# ---- kept graphs -----------------------------------------------------------------------------------------------------


def about_kept_graphs(record: Record, microseconds: Callable) -> None:
    """Whether a kept graph sees numbers that are copied into its arrays later, and what capturing and copying cost."""
    wait = waiter(record.device)
    x_X = put(np.zeros(WIDTH, np.float32), record.device)
    size = WIDTH if record.quick else CACHE_BYTES // 4
    cache, other = (put(np.zeros(size, np.float32), record.device) for _ in range(2))

    def three_operations() -> Any:
        return (x_X * 2 + 1) * 3  # with arrays in between, which lie in the graph's own pool

    def copy() -> None:
        cache[...] = other

    three_operations()
    graph, y_X = capture_and_run(record.device, three_operations)

    def is_seen(number: int) -> str:
        x_X[...] = number
        graph.launch()
        wait()
        seen, right = float(y_X[0]), (number * 2 + 1) * 3
        return "yes" if seen == right else f"no: {seen} instead of {right}"

    def is_seen_after_others() -> str:
        import cupy

        for n in range(WIDTH, 64 * WIDTH, WIDTH):
            cupy.full(n, 7, cupy.float32)
        cupy.get_default_memory_pool().free_all_blocks()
        return is_seen(2)

    with ThreadPoolExecutor(1) as thread:
        record.ask("a kept graph sees what is copied into its arrays", lambda: is_seen(1))
        if record.device == "cuda":
            record.ask("and when CuPy's pool has given back all that is free", is_seen_after_others)
        record.ask("and launched by another thread", lambda: thread.submit(is_seen, 3).result())
    record.ask(
        "capturing three operations", lambda: microseconds(lambda: capture_and_run(record.device, three_operations), 1)
    )
    record.ask(f"copying {size * 4 / 2**20:.3g} MiB into a kept cache", lambda: microseconds(copy, 1))


def generations(record: Record) -> dict[str, Callable[[], dict]]:
    """Way -> milliseconds of a generation with GPT-2 that launches its steps so. All ways must give the same tokens."""
    setting = setting_of("gpt2, beam 4, 4 x 256, 32 new, n-gram 3", record.quick)
    setting |= {"length": min(setting["length"], 32), "new": min(setting["new"], STEPS)}
    ids, loaded, first = prompts_of(setting), [], []

    def generate(way: str) -> Callable[[], Any]:
        model = loaded[0]

        def once() -> Any:
            if way == "captured anew":
                model.buckets.clear()
            graphs = "off" if way == "one by one" else "on"
            plan = f"{PLANS[record.device]},graphs={graphs}"
            return model.generate(
                input_ids=ids, num_beams=setting["beams"], max_new_tokens=setting["new"], eos_token_id=None, plan=plan
            )

        return once

    def timed(way: str) -> dict:
        if record.device == "cpu":
            raise ValueError("the CPU has no graphs")
        if not loaded:
            loaded.append(load_ours("gpt2", record))
        run, seconds = generate(way), []
        run()
        if not record.quick:
            run()
        for _ in range(1 if record.quick else GENERATIONS):
            started = time.perf_counter()
            out = run()
            seconds.append(time.perf_counter() - started)
        tokens = [ids.tolist() for ids in out.token_ids]
        first[:] = first or [tokens]
        graphs = out.receipt.graphs
        return {"milliseconds": spread(seconds, 1e3), "captured": graphs.captured, "reused": graphs.reused,
                "same_tokens": tokens == first[0]}  # fmt: skip

    ways = ("one by one", "captured anew", "kept")
    return {f"{setting['new']} tokens of GPT-2, launches {way}": lambda way=way: timed(way) for way in ways}
