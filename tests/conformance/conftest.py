"""Every kernel that a test of this folder launches in the emulator has a block as its file declares it."""

import importlib
import math
import pkgutil

import pytest

from minidecode import cuda as kernels_package
from minidecode.cuda.common.reduction import THREADS
from minidecode.device import launch


def declared_blocks() -> dict:
    """Kernel of cuda/ -> threads of its largest block: LARGEST_BLOCK of its file, else 128."""
    blocks = {}
    for info in pkgutil.walk_packages(kernels_package.__path__, "minidecode.cuda."):
        module = importlib.import_module(info.name)
        declared = getattr(module, "LARGEST_BLOCK", {})
        blocks |= {kernel: declared.get(kernel, THREADS) for kernel in getattr(module, "SIGNATURES", {})}
    return blocks


@pytest.fixture(scope="session")
def largest_block():
    return declared_blocks()


@pytest.fixture(autouse=True)
def blocks_as_declared(monkeypatch, largest_block):
    """The build test multiplies these sizes by registers: what is launched must not be larger."""
    emulated = launch._emulated

    def checked(kernel, grid, block):
        threads = math.prod(block) if isinstance(block, tuple) else block
        if threads > largest_block.get(kernel, threads):
            raise AssertionError(
                f"{kernel.py_func.__name__}: {threads} threads, LARGEST_BLOCK: {largest_block[kernel]}"
            )
        return emulated(kernel, grid, block)

    monkeypatch.setattr(launch, "_emulated", checked)
