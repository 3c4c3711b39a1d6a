"""CUDA kernels compiled to machine code without a GPU, and what the assembler says of them.

Needs the extra `ptx` (numba-cuda, cuda-core, and the CUDA toolkit's compilers and disassembler as Python packages;
Linux or Windows), or `cu12` or `cu13`, which have no disassembler. The way is numba-cuda's own: NVVM makes LTO-IR,
nvJitLink links it to a cubin. machine_code.py counts what the cubin holds.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ..device.arrays import why_kernels_do_not_compile
from ..errors import OptionError, pip_install
from .machine_code import Counts, count_instructions, disassemble

ARCHITECTURES = ((7, 5), (9, 0))  # the oldest and the newest: T4, H100; A100 (8.0) lies between
FLAGS = ("fastmath", "lineinfo", "debug", "opt", "launch_bounds")


@dataclass(frozen=True)
class Built:
    """One kernel for one architecture."""

    architecture: str
    registers: int  # a thread
    spill_bytes: int  # a thread: what did not fit into registers
    local_bytes: int  # a thread: its stack, of arrays that the compiler could not keep in registers
    shared_bytes: int  # a block
    ptx: str
    cubin: bytes

    @cached_property
    def counts(self) -> Counts:
        """What its machine code holds. Raises OptionError where NVIDIA's disassembler is missing."""
        return count_instructions(disassemble(self.cubin))


def compile_and_link(kernel: Callable[..., Any], argument_types: tuple, architecture: tuple[int, int]) -> Built:
    """Compiles and links a kernel. Raises OptionError where the extra `ptx` is missing."""
    try:
        from cuda.core import Linker, LinkerOptions, ObjectCode
        from numba import cuda
    except ImportError:
        raise OptionError(f"compiling kernels needs the extra ptx: {pip_install('cuda.core', 'ptx')}") from None
    if getattr(cuda, "implementation", "") != "NVIDIA":
        remedy = pip_install("numba_cuda", "ptx")
        raise OptionError(f"compiling kernels needs numba-cuda of the extra ptx, not Numba's own target: {remedy}")

    if unfit := why_kernels_do_not_compile():
        raise OptionError(f"kernels cannot be compiled: {unfit}")

    from .kernel_types import pretend_gpu

    flags = {k: v for k, v in kernel.targetoptions.items() if k in FLAGS}
    specific = (*architecture, "a" if architecture >= (9, 0) else "")  # as numba-cuda compiles what it runs
    with pretend_gpu(architecture):
        codes, _ = cuda.compile_all(
            kernel.py_func, argument_types, device=False, abi="numba", cc=specific, output="ltoir", **flags
        )
    objects = [ObjectCode.from_ltoir(c) if isinstance(c, bytes) else c for c in codes]
    name = "sm_{}{}{}".format(*specific)

    def link_as(kind: str, **options) -> tuple[bytes, str]:
        linker = Linker(*objects, options=LinkerOptions(
            arch=name, link_time_optimization=True, verbose=True, ptxas_options=["-v"], **options))  # fmt: skip
        try:
            return linker.link(kind).code, linker.get_info_log()
        finally:
            linker.close()

    cubin, log = link_as("cubin")
    ptx, _ = link_as("ptx", ptx=True)
    text = ptx.decode() if isinstance(ptx, bytes) else ptx
    return Built(
        name, _number_in_log(r"Used (\d+) registers", log), _number_in_log(r"(\d+) bytes spill stores", log)
        + _number_in_log(r"(\d+) bytes spill loads", log), _number_in_log(r"(\d+) bytes stack frame", log),
        _number_in_log(r"(\d+) bytes smem", log, default=0), text, bytes(cubin),
    )  # fmt: skip


def _number_in_log(pattern: str, log: str, default: int | None = None) -> int:
    match = re.search(pattern, log)
    if match is None and default is None:
        raise OptionError(f"the assembler's log is not as it was: no {pattern!r} in it")
    return int(match[1]) if match else default
