"""Every kernel becomes machine code without a GPU, for all its signatures: linked, unspilled, within its budget."""

import importlib
import pkgutil

import pytest
from numba import float64

from minidecode import cuda as kernels_package
from minidecode.conformance.kernel_build import ARCHITECTURES, build

numba_cuda = pytest.importorskip("numba_cuda", reason="needs the toolkit: pip install '.[ptx]'")
pytest.importorskip("cuda.core", reason="needs the toolkit: pip install '.[ptx]'")

REGISTERS = 48  # a thread, where a kernel's file names no other budget: 1,365 threads share an SM's 65,536


def kernel_files() -> list[str]:
    """The modules of cuda/ and cuda/common/."""
    found = pkgutil.walk_packages(kernels_package.__path__, "minidecode.cuda.")
    return [info.name for info in found if not info.ispkg]


def our_kernels():
    for name in kernel_files():
        module = importlib.import_module(name)
        budgets = getattr(module, "REGISTERS", {})
        for kernel, signatures in module.SIGNATURES.items():
            for signature in signatures:
                for architecture in ARCHITECTURES:
                    label = "{}-{}-sm_{}{}".format(name.rpartition(".")[2], kernel.py_func.__name__, *architecture)
                    yield pytest.param(kernel, signature, architecture, budgets.get(kernel, REGISTERS), id=label)


@pytest.mark.parametrize(("kernel", "signature", "architecture", "registers"), list(our_kernels()))
def test_a_kernel_becomes_machine_code(kernel, signature, architecture, registers):
    built = build(kernel, signature, architecture)
    assert 0 < built.registers <= registers
    assert built.spill_bytes == 0
    assert not built.double_precision or any(getattr(a, "dtype", None) == float64 for a in signature), "by accident"


def test_double_precision_is_seen():
    from numba import cuda, float32

    @cuda.jit
    def half(x):
        x[0] = x[0] * 0.5 + 1.0

    assert build(half, (float32[::1],), (8, 0)).double_precision


def test_shared_memory_is_counted():
    from minidecode.cuda import ngram

    built = build(ngram.block_per_row_staged, ngram.ARGUMENTS, (8, 0))
    assert built.shared_bytes >= 8 * (ngram.ROOM + ngram.MOST_N)
