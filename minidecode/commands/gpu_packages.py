"""What a GPU's packages and driver lack for minidecode, each in one line with its remedy: `doctor` prints them."""

from __future__ import annotations

import ctypes
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass

from ..device.arrays import why_kernels_do_not_compile
from ..device.matmul import why_not_nvmath
from ..errors import pip_install

OLDEST_CUPY, UNFIT_CUPY = "14.0", ("14.0.0", "14.1.0")  # as the extras cu12 and cu13 ask
LIBRARIES = ("nvidia-cuda-nvrtc", "nvidia-cublas")  # without these, or a toolkit, CuPy compiles and multiplies nothing


@dataclass(frozen=True)
class GpuPackages:
    """What was found on a machine."""

    driver: tuple[int, int] | None  # the newest CUDA that the driver runs; None where there is no driver
    cupy: dict[int, str]  # CUDA's major number -> the version of CuPy for it
    has_libraries: bool  # CUDA's, for each CuPy that is installed
    has_numba_cuda: bool
    bindings: str | None  # the version of cuda-bindings, whose CUDA compiles kernels
    unfit_nvmath: str  # what `why_not_nvmath` says
    unfit_kernels: str | None  # what `why_kernels_do_not_compile` says


def packages_found_here(version_of: Callable[[str], str | None]) -> GpuPackages:
    """version_of: the installed version of a package, or None."""
    cupy = {major: v for major in (12, 13) if (v := version_of(f"cupy-cuda{major}x"))}
    has_toolkit = bool(os.environ.get("CUDA_PATH") or shutil.which("nvcc"))
    names = [name + ("-cu12" if major == 12 else "") for major in cupy for name in LIBRARIES]
    has_numba_cuda, driver = version_of("numba-cuda") is not None, driver_version()
    if not cupy and (version := version_of("cupy")):  # Conda's, or built here: for the CUDA that it found
        cupy = {cuda_major_for_driver(driver): version}
    return GpuPackages(
        driver, cupy, has_toolkit or all(map(version_of, names)), has_numba_cuda, version_of("cuda-bindings"),
        why_not_nvmath(), why_kernels_do_not_compile() if has_numba_cuda else None,
    )  # fmt: skip


def driver_version() -> tuple[int, int] | None:
    """(major, minor) of the newest CUDA that the driver runs; None where no driver is installed."""
    try:
        driver = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
        number = ctypes.c_int()
        return divmod(number.value // 10, 100) if driver.cuDriverGetVersion(ctypes.byref(number)) == 0 else None
    except (OSError, AttributeError):
        return None


def extra_that_fits() -> str:
    """The extra for this machine's driver; the one for older drivers where there is none."""
    return f"cu{cuda_major_for_driver(driver_version())}"


def cuda_major_for_driver(driver: tuple[int, int] | None) -> int:
    """The major number of the CUDA whose packages fit a driver."""
    return 13 if driver and driver[0] >= 13 else 12


def what_does_not_fit(packages: GpuPackages) -> list[str]:
    """Each problem with its remedy, a line each. Without a driver, only what stops kernels from compiling."""
    lines = [packages.unfit_kernels] if packages.unfit_kernels else []
    if packages.driver is None:
        return lines
    major, minor = packages.driver
    if major < 12:
        return [*lines, f"the driver runs CUDA {major}.{minor} at most, minidecode needs 12: install a newer driver"]
    fits = [cuda for cuda in packages.cupy if cuda <= major]
    cuda = fits[0] if len(fits) == 1 else cuda_major_for_driver(packages.driver)
    whole, cupy = pip_install("numba-cuda", f"cu{cuda}"), pip_install(f"cupy-cuda{cuda}x")
    if not packages.cupy:
        return [*lines, f"CuPy is not installed, so no array can live on the GPU: {whole}"]
    if len(packages.cupy) > 1:
        lines.append(f"two CuPys are installed: pip uninstall cupy-cuda12x cupy-cuda13x, then {cupy}")
    elif not fits:
        lines.append(
            f"the driver runs CUDA {major}.{minor} at most, cupy-cuda13x needs 13: install a newer driver, or pip"
            f" uninstall cupy-cuda13x, then {whole}"
        )
    for version in packages.cupy.values():
        if version in UNFIT_CUPY:
            lines.append(f"CuPy {version} has errors that minidecode meets: {cupy}")
        elif int(version.partition(".")[0]) < int(OLDEST_CUPY.partition(".")[0]):
            lines.append(f"CuPy {version} is too old, minidecode needs {OLDEST_CUPY}: {cupy}")
    if not packages.has_libraries:
        lines.append(f"CuPy finds no CUDA libraries, for it was installed without [ctk]: {cupy}")
    if not packages.has_numba_cuda:
        lines.append(f"numba-cuda is not installed, and Numba's own CUDA target is out of date: {whole}")
    if packages.bindings and int(packages.bindings.partition(".")[0]) > major:
        lines.append(
            f"the driver runs CUDA {major}.{minor} at most, and kernels are compiled by that of cuda-bindings"
            f" {packages.bindings}: install a newer driver, or in a new environment only {whole}"
        )
    if packages.unfit_nvmath:
        lines.append(f"steps with many rows are not captured, for {packages.unfit_nvmath}")
    return lines
