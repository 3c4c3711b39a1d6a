"""Imports what an extra for a GPU brings, and compiles a kernel with it. Needs neither a GPU nor its driver."""

import platform

import cupy
import numba.cuda.cudaimpl
import numpy
import nvmath.bindings.cublas

from minidecode.conformance.kernel_build import compile_and_link
from minidecode.cuda import flags

kernel = flags.write_flag_by_block
registers = compile_and_link(kernel, flags.SIGNATURES[kernel][0], (7, 5)).registers
versions = ", ".join(f"{module.__name__} {module.__version__}" for module in (cupy, numpy, nvmath))
print(f"Python {platform.python_version()}, {versions}, {numba.cuda.__name__}: a kernel of {registers} registers")
