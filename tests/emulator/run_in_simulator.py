"""Runs kernels in Numba's own simulator: NUMBA_ENABLE_CUDASIM must be 1.

    NUMBA_ENABLE_CUDASIM=1 python tests/emulator/run_in_simulator.py                  # every kernel version in cuda/
    NUMBA_ENABLE_CUDASIM=1 python tests/emulator/run_in_simulator.py --ops norm heads
    NUMBA_ENABLE_CUDASIM=1 python tests/emulator/run_in_simulator.py --small OUT.npz  # the small kernels of the tests

Every version gets the smallest of its op's planted inputs, for the simulator gives each CUDA thread a thread of the
operating system. Its answer is judged as `conformance.check` judges it. Prints how many versions ran, and for each that
cannot run, which feature the simulator lacks. Exit status 1: an answer was wrong.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

LONGEST = 60  # seconds of one version, of the processor: a busy machine leaves none out
TRIES = 5
# The simulator puts its module into a device function's file while one thread runs it. Another thread that is still in
# there then finds Numba's own, which lacks everything: a race of the simulator, not of the kernel.
LOST_ITS_MODULE = "module 'numba.cuda' has no attribute"
LAUNCHED: list[object] = []  # the kernels of the version that runs
MISSING = {
    r"'FakeCUDAModule' object has no attribute '(\w+)'": "cuda.{}",
    r"jit\(\) got an unexpected keyword argument '(\w+)'": "cuda.jit({}=)",
    r"module '([\w.]+)' has no attribute '(\w+)'": "{}.{}",
    r"cannot import name '(\w+)' from '([\w.]+)'": "{1}.{0}",
    r"No module named '([\w.]+)'": "{}",
    r"'(\w+)' object is not callable": "calls of {}",
}  # what an error says -> the feature that the simulator lacks


class TooSlowError(BaseException):
    """A version took longer than LONGEST."""


def run_small(out: str) -> None:
    """Writes what the kernels of kernels_everywhere.py compute."""
    from kernels_everywhere import CASES

    outputs = {}
    for case in (c for c in CASES if c.simulator):
        arguments = case.arguments()
        case.kernel[case.launch](*arguments)
        outputs[case.kernel.fn.__name__] = arguments[-1]
    np.savez(out, **outputs)


def versions(names: list[str]) -> Iterator[tuple[str, str, Callable | Exception]]:
    """(op, version, function) of all kernels; the error of an import, where a file cannot be imported."""
    from minidecode.bench.compare import implementations
    from minidecode.catalog import CATALOG

    for name, row in CATALOG.items():
        if names and name not in names:
            continue
        try:
            for label, function in implementations(row).items():
                if label.startswith("cuda"):
                    yield name, label, function
        except (ImportError, AttributeError, TypeError) as error:
            yield name, "cuda", error


def wrong_answer(name: str, function: Callable) -> str:
    """What is wrong with the answer to the op's smallest planted input that launches a kernel; "" if it is right."""
    from minidecode.catalog import CATALOG
    from minidecode.conformance.check import find_mistake
    from minidecode.conformance.rows import row_module

    inputs = sorted(row_module(name).planted_cases(), key=lambda a: sum(x.size for x in a if isinstance(x, np.ndarray)))
    LAUNCHED.clear()
    signal.setitimer(signal.ITIMER_PROF, LONGEST)
    try:
        for arguments in inputs:
            mistake = find_mistake(CATALOG[name], function, arguments)
            if LAUNCHED or mistake:
                break
        else:
            return "none of its inputs launches a kernel"
    except TooSlowError:
        return f"too slow: over {LONGEST} seconds"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return mistake.what if mistake else ""


def missing_feature(text: str) -> str:
    """The simulator's feature whose absence an error tells; "" if it is another error."""
    for pattern, feature in MISSING.items():
        if found := re.search(pattern, text):
            return feature.format(*found.groups())
    return ""


def prepare() -> None:
    """Launches go to the simulator; `cuda.jit` takes launch_bounds, which limits registers and changes no result."""
    from numba import cuda

    from minidecode.device import launch

    def too_slow(*_):
        raise TooSlowError

    def jit(*arguments, launch_bounds=None, **options):
        return simulated_jit(*arguments, **options)

    def emulated(kernel, grid, block):
        LAUNCHED.append(kernel)
        return kernel[grid, block]

    simulated_jit, cuda.jit = cuda.jit, jit
    launch._emulated_kernel = emulated
    signal.signal(signal.SIGPROF, too_slow)


def run_all(names: list[str]) -> int:
    """Every version; prints a line for each that cannot run or is wrong, then the numbers. Returns the exit status."""
    prepare()
    right, cannot, wrong = 0, 0, 0
    for name, label, function in versions(names):
        if isinstance(function, Exception):
            text = str(function)
        else:
            for _ in range(TRIES):
                text = wrong_answer(name, function)
                if LOST_ITS_MODULE not in text:
                    break
        if not text:
            right += 1
        elif (feature := missing_feature(text)) or text.startswith("too slow"):
            cannot += 1
            print(f"{name} {label} cannot run: " + (f"the simulator has no {feature}" if feature else text), flush=True)
        else:
            wrong += 1
            print(f"{name} {label} is wrong: {text}", flush=True)
    print(
        f"{right} of {right + cannot + wrong} kernel versions ran and are right, {cannot} cannot run, {wrong} are wrong"
    )
    return int(wrong > 0)


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--small", metavar="OUT", help="run the small kernels of the tests, and write what came out")
    p.add_argument("--ops", nargs="*", default=[], help="files in cuda/, without .py (default: all)")
    a = p.parse_args()
    if os.environ.get("NUMBA_ENABLE_CUDASIM") != "1":
        p.error("NUMBA_ENABLE_CUDASIM is not 1: set it, as Numba reads it when it is imported")
    if a.small:
        run_small(a.small)
        return
    status = run_all(a.ops)
    sys.stdout.flush()
    os._exit(status)  # threads of a version that was too slow may still wait for each other


if __name__ == "__main__":
    main()
