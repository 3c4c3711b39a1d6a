"""Numba's `njit`, whose code on disk is used as long as no source file changes that it may be compiled from.

Numba compares the file of the compiled function alone. But the code of functions that it calls is compiled into it, and
so are numbers that it finds in other files: after an update of one of those, old code would run on.

And loops run on vectors of 512 bits where the processor has them. LLVM takes half of it on an Intel, whose first such
processors slowed down for it. On an Emerald Rapids (2.8 GHz in place of 2.95), the products of skinny_gemm.py go from
78 to 122 x 10^9 operations a second on one thread, GPT-2 with 8 x 128 tokens gains 3 %, BART's int8 11 %.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import register_pass
from numba.core.lowering import Lower
from numba.core.typed_passes import NativeLowering

from ...device.sources import hash_of_sources

REORDER = {"reassoc", "contract"}  # as `fastmath`: sums in any order, so that they run on vectors
SOURCES = (
    "cpu/**/*.py",
    "reference/**/*.py",
    "errors.py",
    "ops.py",
    "device/capture.py",
    "device/cores.py",
    "device/low_precision.py",
    "device/sources.py",
    "device/weight_blocks.py",
)  # of functions, and of numbers in them


class _LowerWide(Lower):
    """Writes a function's code for LLVM, with one attribute more, for which llvmlite has no word."""

    def setup_function(self, fndesc: Any) -> None:
        super().setup_function(fndesc)
        set.add(self.function.attributes, '"prefer-vector-width"="512"')


@register_pass(mutates_CFG=True, analysis_only=False)
class _WideLowering(NativeLowering):
    _name = "wide_lowering"
    lowering_class = _LowerWide


class _WideCompiler(CompilerBase):
    """Numba's own passes, of which the last to write code is ours."""

    def define_pipelines(self) -> list[Any]:
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.passes = [(_WideLowering if one is NativeLowering else one, why) for one, why in passes.passes]
        passes.finalize()
        return [passes]


def njit(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """The decorator; with cache=True the index of the compiled-code cache also holds a hash of all `SOURCES`."""

    def decorate(function: Callable[..., Any]) -> Any:
        dispatcher = numba.njit(**options, pipeline_class=_WideCompiler)(function)
        if options.get("cache") and hasattr(dispatcher, "_cache"):  # NUMBA_DISABLE_JIT=1 leaves plain functions
            cache = dispatcher._cache
            cache._cache_file._source_stamp = cache._cache_file._source_stamp, hash_of_sources(SOURCES)
            if function.__closure__:  # Numba's key holds what it encloses, which in each process is another object
                cache._index_key = lambda types, codegen: (types, codegen.magic_tuple())
        return dispatcher

    return decorate
