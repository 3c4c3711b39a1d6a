"""What a launch takes the host, beside a driver that does nothing: Numba's way, minidecode's, and a kept list.

    python benchmarks/launches_null_driver.py --out benchmarks/results/launches-null-driver.json

Needs no GPU, but a C compiler and the extra ptx. `null_driver.c` becomes the CUDA driver of a process of its own. It
answers and runs no kernel, so what is left is the host's work. A real driver adds about 1.6 microseconds a launch.
Arrays are stand-ins with what launches ask of CuPy's. Each way launches one kernel with 3 or 7 arrays and a number; the
driver tells how many launches arrived, and with which first array.

Arrays that recur are the same objects at each launch; new ones are launched once, and their end is timed, too. A kept
list is prepared arguments that one compiled loop hands to the driver. No part of minidecode has such a list: a step
whose arrays stay is a CUDA graph, and any other step makes arrays anew.

Takes about a minute. Prints the table; writes all figures to --out and the table to --readme.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from flags import file_to_write, positive
from readme import with_marks, write_between_markers
from records import write_record

from minidecode.bench.compare import describe_machine

HERE = Path(__file__).resolve().parent
ARRAYS = (3, 7)
LAUNCHES = 10  # in a row; the fastest turn counts, for other programs can only add to it
LIST = 100  # launches in a kept list
GRID, BLOCK, WIDTH = 8, 128, 1024
WAYS = {
    "numba": "Numba, CuPy's arrays",
    "numba_converted_each_time": "Numba, arrays converted at each launch",
    "numba_converted_once": "Numba, arrays converted once",
    "new": "`launch`, new arrays",
    "recur": "`launch`, arrays that recur",
    "driver": "the driver's call alone, from Python",
    "list": "a kept list, in one compiled loop",
}


# ---- with the driver that does nothing -------------------------------------------------------------------------------


class Pointer:
    __slots__ = ("ptr",)

    def __init__(self, ptr: int):
        self.ptr = ptr


class Array:
    """What launches ask of an array of CuPy's."""

    __slots__ = ("__weakref__", "data", "dtype", "flags", "itemsize", "memory", "shape", "strides")

    def __init__(self, memory: np.ndarray):
        self.memory, self.data, self.dtype = memory, Pointer(memory.ctypes.data), memory.dtype
        self.shape, self.strides, self.flags, self.itemsize = (
            memory.shape,
            memory.strides,
            memory.flags,
            memory.itemsize,
        )

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {"shape": self.shape, "typestr": self.dtype.str, "data": (self.data.ptr, False), "version": 3,
                "strides": None, "stream": None}  # fmt: skip


Array.__module__ = "cupy"


class Driver:
    """The driver that does nothing, and what has arrived there."""

    def __init__(self, library: str):
        self.library = ctypes.CDLL(library)
        self.library.null_launches.restype = self.library.null_first_address.restype = ctypes.c_uint64

    def timed(self, run: Callable[[], Any], launches: int, turns: int, first: int) -> float:
        """Microseconds of one launch. Ends the script where one did not arrive, or another array did."""
        run()
        arrived, seconds = self.library.null_launches(), []
        for _ in range(turns):
            started = time.perf_counter()
            run()
            seconds.append(time.perf_counter() - started)
        arrived = self.library.null_launches() - arrived
        if arrived != launches * turns or self.library.null_first_address() != first:
            raise SystemExit(
                f"{arrived} launches of {launches * turns} arrived, or with other arrays: nothing was timed"
            )
        return round(min(seconds) / launches * 1e6, 4)


def kernel_of(arrays: int) -> Any:
    from numba import cuda

    if arrays == 3:

        @cuda.jit
        def add(a_X, b_X, out_X, n):
            i = cuda.grid(1)
            if i < n:
                out_X[i] = a_X[i] + b_X[i]

    else:

        @cuda.jit
        def add(a_X, b_X, c_X, d_X, e_X, f_X, out_X, n):
            i = cuda.grid(1)
            if i < n:
                out_X[i] = a_X[i] + b_X[i] + c_X[i] + d_X[i] + e_X[i] + f_X[i]

    return add


def figures_of_launches(library: str, turns: int) -> dict[str, dict[str, float]]:
    """Way -> microseconds of a launch by the number of arrays. In a process whose driver is `library`."""
    from cuda.bindings.driver import cuLaunchKernel
    from numba import cuda

    from minidecode.device import kernels
    from minidecode.device.launch import launch
    from minidecode.device.packing import packed_form

    driver, found = Driver(library), {}
    kernels._THREAD.ready = True  # CuPy, which would make the context, is not there
    for count in ARRAYS:
        kernel, memory = kernel_of(count), [np.zeros(WIDTH, np.float32) for _ in range(count)]
        first = memory[0].ctypes.data
        arrays = [Array(m) for m in memory]
        converted = [cuda.as_cuda_array(a, sync=False) for a in arrays]

        def one_by_one(one: Callable[[], Any]) -> Callable[[], None]:
            def many() -> None:
                for _ in range(LAUNCHES):
                    one()

            return many

        def with_numba(arrays=arrays, kernel=kernel) -> None:
            kernel[GRID, BLOCK](*arrays, WIDTH)

        def with_conversion(arrays=arrays, kernel=kernel) -> None:
            kernel[GRID, BLOCK](*[cuda.as_cuda_array(a, sync=False) for a in arrays], WIDTH)

        def with_converted(arrays=converted, kernel=kernel) -> None:
            kernel[GRID, BLOCK](*arrays, WIDTH)

        def with_recurring(arrays=arrays, kernel=kernel) -> None:
            for _ in range(LAUNCHES):
                launch(kernel, GRID, BLOCK, *arrays, WIDTH)

        waiting = [[Array(m) for m in memory] for _ in range(LAUNCHES * (turns + 1))]

        def with_new(waiting=waiting, kernel=kernel) -> None:
            for _ in range(LAUNCHES):
                launch(kernel, GRID, BLOCK, *waiting.pop(), WIDTH)

        row = {
            "new": driver.timed(with_new, LAUNCHES, turns, first),
            "recur": driver.timed(with_recurring, LAUNCHES, turns, first),
        }
        for name, one in {
            "numba": with_numba, "numba_converted_each_time": with_conversion,
            "numba_converted_once": with_converted,
        }.items():  # fmt: skip
            row[name] = driver.timed(one_by_one(one), LAUNCHES, turns, first)
        room, table = kernels.argument_buffer(8 * (7 * count + 1))
        room[:] = b"".join([packed_form(a)[1] for a in (*arrays, WIDTH)])
        row["driver"] = driver.timed(
            one_by_one(lambda t=table: cuLaunchKernel(0, GRID, 1, 1, BLOCK, 1, 1, 0, 0, t, 0)), LAUNCHES, turns, first
        )
        row["list"] = driver.timed(replay_of_list(driver, table), LIST, turns, first)
        for name, microseconds in row.items():
            found.setdefault(name, {})[str(count)] = microseconds
    return found


def replay_of_list(driver: Driver, table: int) -> Callable[[], None]:
    """One compiled call, which launches a kept list."""
    from numba import njit

    word, number = ctypes.c_void_p, ctypes.c_uint
    of_driver = ctypes.CFUNCTYPE(ctypes.c_int, word, *[number] * 7, word, word, word)
    launch = of_driver(ctypes.cast(driver.library.cuLaunchKernel, word).value)
    functions_X, tables_X = np.zeros(LIST, np.uintp), np.full(LIST, table, np.uintp)
    grids_X, blocks_X = np.full(LIST, GRID, np.uint32), np.full(LIST, BLOCK, np.uint32)

    @njit
    def replay(functions_X, grids_X, blocks_X, tables_X):
        for i in range(functions_X.size):
            launch(functions_X[i], grids_X[i], 1, 1, blocks_X[i], 1, 1, 0, 0, tables_X[i], 0)

    return lambda: replay(functions_X, grids_X, blocks_X, tables_X)


# ---- without it ------------------------------------------------------------------------------------------------------


def measure_in_process(turns: int) -> dict[str, dict[str, float]]:
    """The figures, from a process that finds the driver that does nothing. Raises SystemExit where there is none."""
    compiler = os.environ.get("CC") or shutil.which("gcc") or shutil.which("cc")
    if compiler is None or shutil.which(compiler) is None:
        raise SystemExit("no C compiler is found: install gcc, or set CC")
    if find_spec("cuda") is None:
        raise SystemExit("cuda-bindings is not installed, which Numba launches with: pip install '.[ptx]'")
    with tempfile.TemporaryDirectory() as folder:
        library = str(Path(folder) / "libcuda.so.1")
        options = ["-shared", "-fPIC", "-O2", "-w", "-o", library]
        subprocess.run([compiler, *options, str(HERE / "null_driver.c")], check=True)
        paths = {name: os.pathsep.join([first, os.environ.get(name, "")]).rstrip(os.pathsep) for name, first in
                 (("LD_LIBRARY_PATH", folder), ("PYTHONPATH", str(HERE)))}  # fmt: skip
        code = f"import json, launches_null_driver as l; print(json.dumps(l.figures_of_launches({library!r}, {turns})))"
        done = subprocess.run(
            [sys.executable, "-c", code], env=os.environ | paths | {"NUMBA_CUDA_DRIVER": library}, capture_output=True,
            text=True, check=False,
        )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"nothing was timed: {(done.stderr.strip() or 'no word').splitlines()[-1]}")
    return json.loads(done.stdout.splitlines()[-1])


def table(record: dict) -> str:
    m, found = record["machine"], record["microseconds"]
    lines = [
        f"| microseconds of the host for a launch | {' | '.join(f'{n} arrays' for n in ARRAYS)} |",
        "|---|---|---|",
    ]
    for name, words in WAYS.items():
        lines.append(f"| {words} | {' | '.join(f'{found[name][str(n)]:.3g}' for n in ARRAYS)} |")
    packages = f"numba {m['numba']}, numba-cuda {m['numba-cuda']}, cuda-bindings {m['cuda-bindings']}"
    where = f"The fastest of {record['turns']} turns on {m['processor']}, Python {m['python']}, {packages}."
    return "\n".join([*lines, "", f"{where} {m['note']}".strip()])


def main() -> None:
    from importlib.metadata import version

    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--turns", type=positive, default=2000)
    p.add_argument("--note", default="", help="what a reader should know of the machine")
    p.add_argument("--out", type=file_to_write, help="JSON file to write")
    p.add_argument("--readme", type=with_marks("null-driver"), help="file whose table between these marks is replaced")
    a = p.parse_args()
    found = measure_in_process(a.turns)
    packages = {name: version(name) for name in ("numba-cuda", "cuda-bindings", "cuda-core")}
    result = {"machine": describe_machine() | packages | {"note": a.note}, "turns": a.turns, "microseconds": found}
    print(table(result))
    if a.out:
        write_record(a.out, result)
    if a.readme:
        write_between_markers(a.readme, "null-driver", table(result))


if __name__ == "__main__":
    main()
