"""How the end of a device's memory is recognised, and what is done first."""

from __future__ import annotations

import re

NAMES = ("cudaErrorMemoryAllocation", "CUDA_ERROR_OUT_OF_MEMORY", "CUBLAS_STATUS_ALLOC_FAILED")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether a device had no memory left: CuPy's error, or one of the driver's or a library's with such a name.

    The host's MemoryError is none.
    """
    if type(error).__name__ == "OutOfMemoryError" and isinstance(error, MemoryError):
        return True
    return any(name in str(error) for name in NAMES)


def asked_for(error: BaseException) -> int | None:
    """The bytes that were asked for, where the error says so, as CuPy's does."""
    match = re.search(r"allocating ([\d,]+) bytes", str(error))
    return int(match[1].replace(",", "")) if match else None


def give_back_unused(device: str) -> None:
    """What CuPy's pool holds unused goes back to the driver: pools of graphs cannot take it from there."""
    if device == "cuda":
        import cupy

        cupy.get_default_memory_pool().free_all_blocks()
