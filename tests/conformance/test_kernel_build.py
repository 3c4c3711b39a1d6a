"""Every kernel becomes machine code without a GPU, for all its signatures: linked, unspilled, within its budget.

A T4 (sm_75) must load and run each: static shared memory, the registers of the largest block, no newer instruction.
What the machine code holds is counted for some of them: a disassembly takes half a second.
"""

import dataclasses
import functools
import importlib
import pkgutil
import re
from contextlib import contextmanager
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest
from numba import float64
from numba.core.types import float16

from minidecode import cuda as kernels_package
from minidecode.bench.predict import build_code, key_of_kernel, read_recorded_counts
from minidecode.conformance.kernel_build import ARCHITECTURES, compile_and_link
from minidecode.device.launch import launch
from minidecode.errors import OptionError

numba_cuda = pytest.importorskip("numba_cuda", reason="needs the toolkit: pip install '.[ptx]'")
pytest.importorskip("cuda.core", reason="needs the toolkit: pip install '.[ptx]'")

REGISTERS = 48  # a thread, where a kernel's file names no other budget: 1,365 threads share an SM's 65,536
REGISTERS_OF_A_BLOCK, REGISTERS_TOGETHER = 65_536, 8  # a thread gets a multiple of eight
STATIC_SHARED = 48 << 10  # bytes of a block that need no permission of the driver's, on every architecture
SHARED = {(7, 5): 64 << 10, (8, 0): 164 << 10, (9, 0): 228 << 10}  # bytes of a multiprocessor
RESERVED = {(7, 5): 0, (8, 0): 1 << 10, (9, 0): 1 << 10}  # of each block, by the driver
# PTX that sm_75 has not: asynchronous copies and barriers, bfloat16, TF32, FP8, larger tiles of tensor cores, two
# numbers converted at once, reductions of a warp in one instruction, clusters, hints to the cache.
NEWER_THAN_TURING = re.compile(
    r"cp\.async|mbarrier|\.(?:bf16|tf32|e4m3|e5m2)|m16n8k(?:16|32|64)|m8n8k128|wgmma|tcgen05|stmatrix|redux\.sync|"
    r"cvt\.\w+(?:\.\w+)*\.f16x2\.f32|(?:min|max)(?:\.\w+)*\.f16|\.relu|\.cluster|griddepcontrol|setmaxnreg|elect\.sync|"
    r"createpolicy|L2::|\.f32x2|multimem|tensormap|fence\.proxy"
)


def kernel_files() -> list[str]:
    """The modules of cuda/ and cuda/common/."""
    found = pkgutil.walk_packages(kernels_package.__path__, "minidecode.cuda.")
    return [info.name for info in found if not info.ispkg]


def our_kernels():
    for name in kernel_files():
        module = importlib.import_module(name)
        budgets = getattr(module, "REGISTERS", {})
        for kernel, signatures in getattr(module, "SIGNATURES", {}).items():
            for signature in signatures:
                for architecture in ARCHITECTURES:
                    label = "{}-{}-sm_{}{}".format(name.rpartition(".")[2], kernel.py_func.__name__, *architecture)
                    yield pytest.param(kernel, signature, architecture, budgets.get(kernel, REGISTERS), id=label)


@pytest.mark.parametrize(("kernel", "signature", "architecture", "registers"), list(our_kernels()))
def test_a_kernel_becomes_machine_code(kernel, signature, architecture, registers, largest_block):
    built = compile_and_link(kernel, signature, architecture)
    assert 0 < built.registers <= registers
    assert built.spill_bytes == built.local_bytes == 0
    assert ".f64" not in built.ptx or any(getattr(a, "dtype", None) == float64 for a in signature), "by accident"
    assert built.shared_bytes <= STATIC_SHARED
    of_a_thread = -(-built.registers // REGISTERS_TOGETHER) * REGISTERS_TOGETHER
    assert of_a_thread * largest_block[kernel] <= REGISTERS_OF_A_BLOCK
    if bounds := kernel.targetoptions.get("launch_bounds"):
        threads, blocks = bounds if isinstance(bounds, tuple) else (bounds, 1)
        assert largest_block[kernel] <= threads
        assert of_a_thread * threads * blocks <= REGISTERS_OF_A_BLOCK
        assert architecture < (8, 0) or fitting(built.shared_bytes, architecture) >= blocks
    if architecture == (7, 5):
        assert ".target sm_75" in built.ptx
        assert not NEWER_THAN_TURING.findall(built.ptx)


def fitting(shared_bytes: int, architecture: tuple[int, int]) -> int:
    """Blocks of a multiprocessor by their shared memory."""
    return SHARED[architecture] // (shared_bytes + RESERVED[architecture])


def test_attention_says_how_many_blocks_fit():
    """The comment at BOUNDS in cuda/common/attention.py."""
    from minidecode.cuda.common import attention, cache_attention

    kernel = next(k for k in cache_attention.SIGNATURES if k.targetoptions.get("launch_bounds") == attention.BOUNDS)
    shared_bytes = compile_and_link(kernel, cache_attention.SIGNATURES[kernel][0], (7, 5)).shared_bytes
    assert {architecture: fitting(shared_bytes, architecture) for architecture in SHARED} == {
        (7, 5): 1, (8, 0): 4, (9, 0): 6,
    }  # fmt: skip


def test_a_block_beyond_the_declared_one_is_seen():
    from minidecode.cuda.move import copy_rows

    with pytest.raises(AssertionError, match="copy_rows: 256 threads, LARGEST_BLOCK: 128"):
        words_XX = np.zeros((1, 4), np.uint32)
        launch(copy_rows, (1, 1), 256, words_XX, np.zeros(1, int), words_XX.copy())


def test_newer_instructions_are_refused():
    """By the assembler, where a kernel has one written out; the list of names sees what the compiler makes."""
    from llvmlite import ir
    from numba import cuda, float32, types
    from numba.cuda.extending import intrinsic

    @intrinsic
    def wait(typing_context):
        def code(context, builder, signature, arguments):
            nothing = ir.FunctionType(ir.VoidType(), [])
            builder.call(ir.InlineAsm(nothing, "cp.async.wait_all;", "", side_effect=True), [])
            return context.get_dummy_value()

        return types.void(), code

    @cuda.jit
    def waits(x):
        wait()
        x[0] = 1

    assert "cp.async" in NEWER_THAN_TURING.findall(compile_and_link(waits, (float32[::1],), (8, 0)).ptx)
    with pytest.raises(Exception, match=r"nvJitLink|ptxas|PTX"):
        compile_and_link(waits, (float32[::1],), (7, 5))


@pytest.mark.parametrize(
    ("instruction", "is_newer"),
    [("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", True), ("cvt.rn.f16x2.f32 %r1, %f1, %f2;", True),
     ("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32", False), ("cvt.rn.f16.f32 %rs1, %f1;", False),
     ("max.f16x2 %r1, %r2, %r3;", True), ("max.f32 %f1, %f2, %f3;", False), ("ldmatrix.sync.aligned.m8n8.x4", False)],
)  # fmt: skip
def test_the_list_of_newer_instructions(instruction, is_newer):
    assert bool(NEWER_THAN_TURING.search(instruction)) == is_newer


@functools.cache
def for_an_h100(module: str, name: str):
    """The counts of the first kernel of this name, for float16 where it has such a signature."""
    found = importlib.import_module(f"minidecode.cuda.{module}").SIGNATURES
    kernel = next(k for k in found if k.py_func.__name__ == name)
    halves = [s for s in found[kernel] if any(getattr(a, "dtype", None) == float16 for a in s)]
    return compile_and_link(kernel, (halves or found[kernel])[0], (9, 0)).counts


# What a step of GPT-2 or BART launches, in float16, greedy or with beams.
STEP = [
    ("linear", "few_rows_float16_8_1_4"), ("linear", "few_rows_float16_8_2_4"), ("linear", "few_rows_float16_16_1_4"),
    ("common.warp_attention", "warps_64_float16_4"), ("norm", "norm_kept"), ("activation", "activation_of_fours"),
    ("softmax", "scores_of_rows"), ("argmax", "best_of_logits"), ("candidates", "retrieve_from_share"),
    ("candidates", "merge_shares"), ("linear", "few_bits_int4_1_2_2"),
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
    old_of_a_byte, new_of_a_byte = (each.loop_instructions / each.loop_bytes for each in (old, new))
    assert old_of_a_byte > 7 * new_of_a_byte
    assert (new.first_loads, new.loop_waits) == (new.loop_loads, 1), "all loads of a turn are under way at once"
    assert old.loop_waits >= 8, "a wait for each row"


def test_version_5_needs_less_than_half_the_instructions_for_int4():
    """For 16 bytes of weights: version 4 loads 16 words of them in a turn, version 5 eight times four."""
    old, new = for_an_h100("linear", "few_rows_int4_8_4_4"), for_an_h100("linear", "few_bits_int4_1_2_2")
    assert old.loop_instructions / 4 > 2 * new.loop_instructions / 8
    assert (new.first_loads, new.loop_waits) == (new.loop_loads, 1), "all loads of a turn are under way at once"


@pytest.mark.parametrize(("module", "name", "waits"), [("norm", "norm_kept", 2), ("embedding", "embedding_kept", 3)])
def test_a_row_in_registers_is_loaded_as_a_whole(module, name, waits):
    """All loads of x, and of what is added to it, are under way at once; so are gains and shifts, four fours each."""
    counts = for_an_h100(module, name)
    assert counts.turn_waits < waits, "15 and 12.5 where each four was used before the next was asked for"
    assert name == "embedding_kept" or counts.first_loads == 16, "an embedding waits for its token first"


@pytest.mark.parametrize(("module", "name"), [STEP[1], *STEP[4:8]])
def test_the_recorded_counts_are_those_of_the_kernels(module, name):
    """`benchmarks/multiprocessor.py --counts --again` records them anew. Another assembler may count a little else."""
    found = importlib.import_module(f"minidecode.cuda.{module}").SIGNATURES
    keys = {key_of_kernel(k, types): (k, types) for k in found if k.py_func.__name__ == name for types in found[k]}
    recorded = {key: code for key, code in read_recorded_counts()["counts"].items() if key in keys}
    assert recorded, f"{name} is not in kernel_counts.json"
    for key, code in recorded.items():
        kernel, types = keys[key]
        now = dataclasses.astuple(build_code(kernel, types))
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

    assert ".f64" in compile_and_link(half, (float32[::1],), (8, 0)).ptx


def test_kernels_are_linked_for_what_runs_them():
    """numba-cuda compiles what it runs for sm_90a on Hopper: its own rule, and no other, is that of the build."""
    from numba.cuda.codegen import CUDACodeLibrary

    from minidecode.cuda import linear

    for architecture in ARCHITECTURES:
        with pretended_gpu(architecture):
            specific = CUDACodeLibrary._ensure_cc(None, None)
        built = compile_and_link(linear.scale_rows, linear.SIGNATURES[linear.scale_rows][0], architecture)
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

    built = compile_and_link(ngram.block_per_row_staged, ngram.ARGUMENTS, (8, 0))
    assert built.shared_bytes >= 8 * (ngram.ROOM + ngram.MOST_N)
