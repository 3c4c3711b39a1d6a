"""Where CUDA kernels can run on this machine."""

from __future__ import annotations

from typing import Literal


def device_kind() -> Literal["gpu", "emulator", "none"]:
    """Says "gpu" if Numba finds a CUDA device, "emulator" under Numba's own simulator, else "none".

    `numba.cuda.is_available()` alone would call the simulator a GPU.
    """
    from numba import config, cuda

    if config.ENABLE_CUDASIM:
        return "emulator"
    return "gpu" if cuda.is_available() else "none"
