"""Every kernel that a test of this folder launches in the emulator has a block as its file declares it."""

import copy
import functools
import hashlib
import importlib
import math
import pickle
import pkgutil

import pytest

from minidecode import cuda as kernels_package
from minidecode.conformance.rows import row_module
from minidecode.cuda.common.reduction import THREADS
from minidecode.device import launch


class Blocks(dict):
    """Kernel of cuda/ -> threads of its largest block: LARGEST_BLOCK of its file, else 128.

    Kernels that one factory makes may share a name. One that is made in a test with other constants is found by it.
    """

    def __missing__(self, kernel) -> int:
        of_name = [threads for k, threads in self.items() if named(k) == named(kernel)]
        return max(of_name, default=1024)


def named(kernel) -> tuple[str, str]:
    return kernel.py_func.__module__, kernel.py_func.__name__


def declared_blocks() -> Blocks:
    blocks = Blocks()
    for info in pkgutil.walk_packages(kernels_package.__path__, "minidecode.cuda."):
        module = importlib.import_module(info.name)
        declared = getattr(module, "LARGEST_BLOCK", {})
        blocks.update({kernel: declared.get(kernel, THREADS) for kernel in getattr(module, "SIGNATURES", {})})
    return blocks


@pytest.fixture(scope="session")
def largest_block():
    return declared_blocks()


@pytest.fixture(autouse=True)
def blocks_as_declared(monkeypatch, largest_block):
    """The build test multiplies these sizes by registers: what is launched must not be larger."""
    emulated = launch._emulated_kernel

    def checked(kernel, grid, block):
        threads = math.prod(block) if isinstance(block, tuple) else block
        if threads > largest_block[kernel]:
            raise AssertionError(
                f"{kernel.py_func.__name__}: {threads} threads, LARGEST_BLOCK: {largest_block[kernel]}"
            )
        return emulated(kernel, grid, block)

    monkeypatch.setattr(launch, "_emulated_kernel", checked)


@pytest.fixture
def one_oracle(name, monkeypatch):
    """A row's oracle and bound compute each input once: its implementations, or mutants, come one after the other."""
    module = row_module(name)
    if COMPUTED.get("row") != name:
        COMPUTED.clear()
        COMPUTED["row"] = name
    for part in ("oracle", "error_bound"):
        if hasattr(module, part):
            monkeypatch.setattr(module, part, functools.partial(computed_once, part, getattr(module, part)))


COMPUTED = {}  # the row, and of its inputs what was computed


def computed_once(part, compute, *arguments):
    key = part, hashlib.blake2b(pickle.dumps(arguments)).digest()
    if key not in COMPUTED:
        COMPUTED[key] = compute(*arguments)
    return copy.deepcopy(COMPUTED[key])
