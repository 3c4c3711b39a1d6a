"""Every kernel becomes machine code without a GPU, for all its signatures: linked, unspilled, within its budget.

What the machine code holds is counted for some of them: a disassembly takes half a second.
"""

import dataclasses
import functools
import importlib
import pkgutil
from contextlib import contextmanager
from types import SimpleNamespace
from unittest import mock

import pytest
from numba import float64
from numba.core.types import float16

from minidecode import cuda as kernels_package
from minidecode.bench.predict import built, key_of, recorded_counts
from minidecode.conformance.kernel_build import ARCHITECTURES, build
from minidecode.errors import OptionError

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
    assert built.spill_bytes == built.local_bytes == 0
    assert not built.double_precision or any(getattr(a, "dtype", None) == float64 for a in signature), "by accident"


@functools.cache
def for_an_h100(module: str, name: str):
    """The counts of the first kernel of this name, for float16 where it has such a signature."""
    found = importlib.import_module(f"minidecode.cuda.{module}").SIGNATURES
    kernel = next(k for k in found if k.py_func.__name__ == name)
    halves = [s for s in found[kernel] if any(getattr(a, "dtype", None) == float16 for a in s)]
    return build(kernel, (halves or found[kernel])[0], (9, 0)).counts


# What a step of GPT-2 or BART launches, in float16, greedy or with beams.
STEP = [
    ("linear", "few_rows_float16_8_1_4"), ("linear", "few_rows_float16_8_2_4"), ("linear", "few_rows_float16_16_1_4"),
    ("common.warp_attention", "warps_64_float16_4"), ("norm", "norm_kept"), ("activation", "activation_of_fours"),
    ("softmax", "scores_of_rows"), ("argmax", "best_of_logits"), ("candidates", "retrieve_from_share"),
    ("candidates", "merge_shares"),
]  # fmt: skip


@pytest.mark.parametrize(("module", "name"), STEP)
def test_no_kernel_of_a_step_moves_registers_to_memory(module, name):
    counts = for_an_h100(module, name)
    assert counts.local_accesses == 0
    assert counts.loop_loads > 0


def test_guards_of_rows_cost_branches_and_waits():
    old, new = for_an_h100("linear", "warp_per_output_wide"), for_an_h100("linear", "few_rows_float16_8_1_4")
    assert old.branches > 2.5 * new.branches
    assert old.wide_compares > 4 * new.wide_compares
    assert old.instructions_per_wide_load > 7 * new.instructions_per_wide_load
    assert (new.first_loads, new.loop_waits) == (new.loop_loads, 1), "all loads of a turn are under way at once"
    assert old.loop_waits >= 8, "a wait for each row"


@pytest.mark.parametrize(("module", "name"), [STEP[1], *STEP[4:8]])
def test_the_recorded_counts_are_those_of_the_kernels(module, name):
    """`benchmarks/multiprocessor.py --counts --again` records them anew. Another assembler may count a little else."""
    found = importlib.import_module(f"minidecode.cuda.{module}").SIGNATURES
    keys = {key_of(k, types): (k, types) for k in found if k.py_func.__name__ == name for types in found[k]}
    recorded = {key: code for key, code in recorded_counts()["counts"].items() if key in keys}
    assert recorded, f"{name} is not in kernel_counts.json"
    for key, code in recorded.items():
        kernel, types = keys[key]
        now = dataclasses.astuple(built(kernel, types))
        assert now == pytest.approx(code, rel=0.1, abs=1), key


def test_a_missing_disassembler_is_named(monkeypatch):
    from minidecode.conformance import machine_code

    monkeypatch.setattr(machine_code, "PACKAGE", "nvidia-cuda-nvdisasm-that-is-not-there")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(OptionError, match=r"needs nvdisasm: pip install .?nvidia-cuda-nvdisasm"):
        machine_code.disassemble(b"")


def test_what_is_no_machine_code_is_refused():
    from minidecode.conformance import machine_code

    with pytest.raises(OptionError, match="nvdisasm cannot read this machine code"):
        machine_code.disassemble(b"not a cubin")


def test_double_precision_is_seen():
    from numba import cuda, float32

    @cuda.jit
    def half(x):
        x[0] = x[0] * 0.5 + 1.0

    assert build(half, (float32[::1],), (8, 0)).double_precision


def test_kernels_are_linked_for_what_runs_them():
    """numba-cuda compiles what it runs for sm_90a on Hopper: its own rule, and no other, is that of the build."""
    from numba.cuda.codegen import CUDACodeLibrary

    from minidecode.cuda import linear

    for architecture in ARCHITECTURES:
        with pretended_gpu(architecture):
            specific = CUDACodeLibrary._ensure_cc(None, None)
        built = build(linear.scale_rows, linear.SIGNATURES[linear.scale_rows][0], architecture)
        assert built.architecture == "sm_{}{}{}".format(*specific)
        assert f".target {built.architecture}" in built.ptx


@contextmanager
def pretended_gpu(capability):
    """numba-cuda's context of a GPU that has this compute capability."""
    from numba.cuda.cudadrv import devices

    context = SimpleNamespace(device=SimpleNamespace(compute_capability=capability))
    with mock.patch.object(devices, "get_context", lambda: context):
        yield


def test_shared_memory_is_counted():
    from minidecode.cuda import ngram

    built = build(ngram.block_per_row_staged, ngram.ARGUMENTS, (8, 0))
    assert built.shared_bytes >= 8 * (ngram.ROOM + ngram.MOST_N)
