"""Matrix products by the library: cuBLAS on a GPU, NumPy on the host and on the emulated device.

CuPy refuses its own products while a stream is captured. nvmath's bindings of cuBLAS do not, if the library has a
workspace of ours: then a whole step is one graph. Without nvmath, or where it finds no cuBLAS, CuPy's own bindings are
used, and steps with products are not captured; the receipt names the bindings and the reason.

Sums are in float32. Products of float16 run on tensor cores, which cut off the ends of partial sums: their error is
that of a sum with a unit of 2^-23. NumPy, in their place, cuts off where the emulated instruction does
(emulator/tensor_core.py). TF32 is never used. int8 by int8 is summed in int32, exactly.
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Any, NamedTuple

import numpy as np

from ..errors import pip_install, words_of
from ..within import set_within
from .arrays import address_of
from .launch import LAUNCHES, RECORDED, STREAM, Recorded, is_on_emulated_device

PRODUCT = "product of the library"
BY_CUPY = f"{PRODUCT} (cupy)"  # the one that no captured step takes
WORKSPACE = 32 << 20  # bytes: what cuBLAS asks for on Hopper
KINDS = {np.dtype(np.float32): 0, np.dtype(np.float16): 2, np.dtype(np.int8): 3, np.dtype(np.int32): 10}  # CUDA_R_32F
BEST_ALGORITHM = -1  # CUBLAS_GEMM_DEFAULT
WORD = 4  # bytes: of integers as many are multiplied together
SCALARS = {kind: np.array([0, 1], kind) for kind in (np.float32, np.int32)}  # read where they lie: by dtype of sums
OWN_WORKSPACE: ContextVar[Any] = ContextVar("own_workspace", default=None)  # of the step that is being captured


class Sums(NamedTuple):
    """How cuBLAS adds up, by the dtype of results."""

    compute: int
    zero: int  # addresses of what it multiplies by
    one: int


SUMS = {
    np.dtype(kind): Sums(compute, two.ctypes.data, two.ctypes.data + two.itemsize)
    for (kind, two), compute in zip(SCALARS.items(), (68, 72), strict=True)  # CUBLAS_COMPUTE_32F, CUBLAS_COMPUTE_32I
}


def matmul(stacks: Iterable[tuple[Any, Any, Any]], adds: bool = False) -> None:
    """out = a @ b for each (a, b, out), or, if it adds, out + a @ b: matrices, or stacks of them.

    a, b: float32, or float16 both, and out float32; or int8 both, and out int32 (see `can_multiply_int8`). In each
    matrix rows or columns lie side by side: no copy is made. cuBLAS has a call for stacks of different shapes (its
    grouped batched product), and NumPy, stack by stack, stands for that one. On a GPU each stack is a call, and is
    counted as one. While launches are recorded, nothing is multiplied: the list gets an entry for each stack.
    """
    if (recorded := RECORDED.get()) is not None:
        recorded.extend(Recorded(PRODUCT, 0, 0, (*stack, adds)) for stack in stacks)
        return
    calls, place = 0, "numpy"
    for a, b, out in stacks:
        if isinstance(out, np.ndarray):
            multiply_by_numpy(a, b, out, adds)
            calls = 1
        elif is_on_emulated_device(out):
            _multiply_on_emulated_device(a, b, out, adds)
            calls = 1
        else:
            multiply_by_cublas(a, b, out, adds)
            calls, place = calls + 1, cublas_functions().name
    if (launches := LAUNCHES.get()) is not None and calls:
        launches[f"{PRODUCT} ({place})"] += calls


def can_multiply_int8(q_RX: Any, w_XX: Any) -> bool:
    """Whether cuBLAS multiplies these rows of int8 by each other, q_RX @ w_XX.T, on tensor cores.

    Addresses, inputs, outputs and what lies from row to row must be multiples of four. On newer GPUs it has nothing for
    others, and refuses them.
    """
    fitting = (array.flags.c_contiguous and address_of(array) % WORD == 0 for array in (q_RX, w_XX))
    outputs, inputs = w_XX.shape
    return inputs > 0 and inputs % WORD == outputs % WORD == 0 and all(fitting)


def multiply_by_numpy(a: Any, b: Any, out: Any, adds: bool = False) -> None:
    """What cuBLAS computes, slowly; float16 as tensor cores add up."""
    if a.dtype == np.float16:
        from ..emulator import tensor_core

        product = tensor_core.tensor_core_product(a, b)
    elif a.dtype == np.int8:
        product = _integer_product(a, b)
    elif not adds:
        np.matmul(a, b, out=out, dtype=out.dtype)
        return
    else:
        product = np.matmul(a, b, dtype=out.dtype)
    if adds:
        out += product
    else:
        out[...] = product


def _integer_product(a: Any, b: Any) -> Any:
    """Sums of products of int8: float64 holds them exactly, in whatever order the BLAS adds them."""
    return np.matmul(a.astype(np.float64), b.astype(np.float64)).astype(np.int32)


def _multiply_on_emulated_device(a: Any, b: Any, out: Any, adds: bool) -> None:
    from ..emulator.device_array import data_on_device, run_and_record

    here, other, result = data_on_device((a, b, out))
    run_and_record(lambda: multiply_by_numpy(here, other, result, adds))


def multiply_by_cublas(a: Any, b: Any, out: Any, adds: bool = False) -> None:
    """The product of CuPy's arrays in one call of cuBLAS.

    It counts columns first: a b as it is stored here is b^T a^T to it. It reads either order by its strides.
    """
    if out.ndim > 3:
        for each in zip(a, b, out, strict=True):
            multiply_by_cublas(*each, adds)
        return
    cublas, handle = cublas_functions(), bind_cublas_handle()
    (a_transposed, *of_a), (b_transposed, *of_b), (_, *of_out) = (
        _layout_for_cublas(a),
        _layout_for_cublas(b),
        _layout_for_cublas(out),
    )
    rows, columns = out.shape[-2:]
    sums = SUMS[out.dtype]
    begin = handle, b_transposed, a_transposed, columns, rows, a.shape[-1], sums.one
    end = sums.compute, BEST_ALGORITHM
    before = sums.one if adds else sums.zero
    if out.ndim == 3:
        cublas.batched(*begin, *of_b, *of_a, before, *of_out, out.shape[0], *end)
    else:
        cublas.single(*begin, *of_b, *of_a, before, *of_out, *end)


def _layout_for_cublas(array: Any) -> tuple[int, ...]:
    """(transposed, address, type, numbers from row to row), and of a stack the numbers from matrix to matrix."""
    size, strides = array.itemsize, array.strides
    per_row, per_column = strides[-2] // size, strides[-1] // size
    transposed = int(per_column != 1)
    between = max(per_column, array.shape[-2]) if transposed else max(per_row, array.shape[-1])
    return transposed, array.data.ptr, KINDS[array.dtype], between, *(stride // size for stride in strides[:-2])


class CublasFunctions(NamedTuple):
    """Two functions of cuBLAS, which take the same arguments through nvmath and through CuPy."""

    name: str
    single: Callable[..., None]
    batched: Callable[..., None]


@functools.cache
def cublas_functions() -> CublasFunctions:
    """nvmath's bindings if they can be used, else CuPy's."""
    if why_not_nvmath():
        from cupy_backends.cuda.libs import cublas

        return CublasFunctions("cupy", cublas.gemmEx, cublas.gemmStridedBatchedEx)
    from nvmath.bindings import cublas

    return CublasFunctions("nvmath", cublas.gemm_ex, cublas.gemm_strided_batched_ex)


@functools.cache
def why_not_nvmath() -> str:
    """Why products do not go through nvmath's bindings, and the remedy; empty where they do."""
    try:
        from nvmath.bindings import cublas

        cublas.get_cudart_version()  # an import loads no library: the first call does
    except ImportError:
        return f"nvmath is not installed: {pip_install('nvmath-python')}"
    except (OSError, RuntimeError) as error:  # RuntimeErrors of its own, and of its loader of libraries
        return (
            f"nvmath cannot use cuBLAS ({words_of(error)}): if it is not installed, pip install nvidia-cublas,"
            " or for CUDA 12 nvidia-cublas-cu12"
        )
    return ""


class _Handles(threading.local):
    """A thread's handle of nvmath, and the stream and the workspace that it has at the moment."""

    handle: int | None = None
    workspace: Any = None
    bound: tuple[int, int] = -1, -1  # stream, address of the workspace


_HANDLES = _Handles()


def bind_cublas_handle() -> int:
    """This thread's handle, for the stream that kernels go to now. Setting a stream takes the workspace away."""
    if cublas_functions().name == "cupy":
        from cupy.cuda import device

        return device.get_cublas_handle()
    from nvmath.bindings import cublas

    if _HANDLES.handle is None:
        _HANDLES.handle, _HANDLES.workspace = cublas.create(), allocate_cublas_workspace()
        # It goes when the thread has gone; at the end of the process the driver may be gone before.
        weakref.finalize(threading.current_thread(), cublas.destroy, _HANDLES.handle).atexit = False
    room = OWN_WORKSPACE.get() or _HANDLES.workspace
    if _HANDLES.bound != (wanted := (STREAM.get(), room.ptr)):
        cublas.set_stream(_HANDLES.handle, STREAM.get())
        cublas.set_workspace(_HANDLES.handle, room.ptr, WORKSPACE)
        _HANDLES.bound = wanted
    return _HANDLES.handle


def allocate_cublas_workspace() -> Any:
    """Memory for cuBLAS, from CuPy's pool."""
    import cupy

    return cupy.cuda.alloc(WORKSPACE)


def using_cublas_workspace(memory: Any) -> AbstractContextManager[Any]:
    """Within it cuBLAS works in this workspace: a graph that is launched later must have one for itself."""
    return set_within(OWN_WORKSPACE, memory)
