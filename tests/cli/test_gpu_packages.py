"""What `doctor` says of a GPU's driver and packages: a line for each that does not fit, with the remedy."""

import dataclasses
import importlib
import json
import re
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

import minidecode as md
from minidecode import plan
from minidecode.commands import doctor, gpu_packages
from minidecode.commands.gpu_packages import (
    OLDEST_CUPY,
    UNFIT_CUPY,
    GpuPackages,
    driver_version,
    packages_found_here,
    what_does_not_fit,
)
from minidecode.conformance.kernel_types import check_types
from minidecode.cuda.append import SIGNATURES, append_kv, write_position
from minidecode.device import arrays as device

EXTRAS = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"][
    "optional-dependencies"
]
WHOLE = GpuPackages(
    (13, 0), {13: "14.2.0"}, has_libraries=True, has_numba_cuda=True, bindings="13.0.3", unfit_nvmath="",
    unfit_kernels=None,
)  # fmt: skip
LACKS = [
    ({"driver": (11, 8)}, "the driver runs CUDA 11.8 at most, minidecode needs 12: install a newer driver"),
    (
        {"driver": (12, 4), "bindings": "12.9.4"},
        "the driver runs CUDA 12.4 at most, cupy-cuda13x needs 13: install a newer driver, or pip un",
    ),
    (
        {"driver": (12, 4), "cupy": {12: "14.2.0"}},
        "the driver runs CUDA 12.4 at most, and kernels are compiled by that of cuda-bindings 13.0.3: install a newer",
    ),
    ({"cupy": {}}, "CuPy is not installed, so no array can live on the GPU: pip install"),
    ({"cupy": {13: "14.1.0"}}, "CuPy 14.1.0 has errors that minidecode meets: pip install 'cupy-cuda13x[ctk]"),
    ({"cupy": {13: "13.9.0"}}, "CuPy 13.9.0 is too old, minidecode needs 14.0: pip install 'cupy-cuda13x[ctk]"),
    ({"cupy": {12: "14.2.0", 13: "14.2.0"}}, "two CuPys are installed: pip uninstall cupy-cuda12x cupy-cuda13x, then"),
    ({"has_libraries": False}, "CuPy finds no CUDA libraries, for it was installed without [ctk]: pip install"),
    ({"has_numba_cuda": False}, "numba-cuda is not installed, and Numba's own CUDA target is out of date: pip install"),
    (
        {"unfit_nvmath": "nvmath is not installed: pip install nvmath-python"},
        "steps with many rows are not captured, for nvmath is not installed: pip install",
    ),
    ({"unfit_kernels": "numba-cuda 0.30.4 does not go with NumPy 2.5.2"}, "numba-cuda 0.30.4 does not go with NumPy"),
    ({"unfit_kernels": "numba-cuda 0.30.4 does not go with", "driver": None, "cupy": {}}, "numba-cuda 0.30.4 does not"),
]


@pytest.mark.parametrize(("lack", "says"), LACKS, ids=lambda value: str(value)[:40])
def test_each_lack_is_one_line(lack, says):
    (line,) = what_does_not_fit(dataclasses.replace(WHOLE, **lack))
    assert line.startswith(says) and "\n" not in line


def test_what_fits_is_no_line():
    for other in ({}, {"cupy": {12: "14.2.0"}}, {"bindings": "12.9.4"}, {"bindings": None}):
        assert what_does_not_fit(dataclasses.replace(WHOLE, **other)) == []
    nothing = GpuPackages(None, {}, has_libraries=False, has_numba_cuda=False, bindings=None, unfit_nvmath="no",
                          unfit_kernels=None)  # fmt: skip
    assert what_does_not_fit(nothing) == [], "a laptop needs none of it"


def test_libraries_are_those_of_the_cupy_that_is_installed(monkeypatch, tmp_path):
    monkeypatch.delenv("CUDA_PATH", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    for suffix, has in (("", False), ("-cu12", True)):
        packages = {"cupy-cuda12x": "14.2.0", f"nvidia-cublas{suffix}": "1", f"nvidia-cuda-nvrtc{suffix}": "1"}
        assert packages_found_here(packages.get).has_libraries == has


@pytest.mark.parametrize(("driver", "cuda"), [((12, 8), 12), ((13, 0), 13), (None, 12)])
def test_a_cupy_without_cuda_in_its_name_is_one(monkeypatch, driver, cuda):
    """As Conda's; beside it another one is what was meant."""
    monkeypatch.setattr(gpu_packages, "driver_version", lambda: driver)
    packages = {"cupy": "14.2.0"}
    found = packages_found_here(packages.get)
    assert found.cupy == {cuda: "14.2.0"} and found.has_libraries
    assert packages_found_here((packages | {"cupy-cuda13x": "14.1.0"}).get).cupy == {13: "14.1.0"}


def test_the_extras_ask_for_what_the_doctor_wants():
    for extra in ("cu12", "cu13", "ptx"):
        assert device.NUMPY_OF_KERNELS in EXTRAS[extra]
    for extra in ("cu12", "cu13"):
        (cupy,) = (needed for needed in EXTRAS[extra] if needed.startswith("cupy"))
        assert f"[ctk]>={OLDEST_CUPY}," in cupy and all(f"!={version}" in cupy for version in UNFIT_CUPY)
        assert "nvmath-python>=1.0" in EXTRAS[extra]


@pytest.mark.parametrize(("driver", "cuda"), [(None, 12), ((12, 9), 12), ((13, 0), 13)])
def test_all_lines_name_the_same_packages(driver, cuda, cli, monkeypatch):
    monkeypatch.setattr(gpu_packages, "driver_version", lambda: driver)
    if device.device_kind() != "gpu":
        assert set(re.findall(r"cupy-cuda(\d+)x", cli("doctor").out)) == {str(cuda)}


def test_the_driver_of_this_machine():
    assert (driver_version() is not None) >= (md.device_kind() == "gpu")


@pytest.fixture
def newer_numpy(monkeypatch):
    """As NumPy 2.5 meets numba-cuda 0.30.4."""
    load = importlib.import_module

    def load_or_fail(name, package=None):
        if name == "numba.cuda.cudaimpl":
            raise AttributeError("module 'numpy' has no attribute 'row_stack'")
        return load(name, package)

    monkeypatch.setattr(importlib, "import_module", load_or_fail)
    device.why_kernels_do_not_compile.cache_clear()
    yield
    device.why_kernels_do_not_compile.cache_clear()


def test_a_numpy_that_the_compiler_cannot_take_is_one_line_everywhere(newer_numpy, monkeypatch, cli):
    says = f"does not go with NumPy {np.__version__} .*row_stack.*: pip install '?numpy<2.5"
    with pytest.raises(md.OptionError, match=says):
        check_types(write_position, SIGNATURES[write_position][0])
    monkeypatch.setattr(device, "device_kind", lambda: "gpu")
    monkeypatch.setitem(sys.modules, "cupy", sys)
    with pytest.raises(md.OptionError, match=f"device=cuda: .*{says}"):
        md.load("tiny-gpt2", device="cuda")
    for module in (sys.modules["minidecode.conformance.check"], plan):
        monkeypatch.setattr(module, "device_kind", lambda: "gpu")
    with pytest.raises(md.OptionError, match=f"kernels cannot be checked on this GPU: .*{says}"):
        md.conformance.check("append", append_kv)
    with pytest.raises(md.OptionError, match=f"plan: ngram=cuda: .*{says}"):
        md.load("tiny-gpt2").generate(["a"], plan="ngram=cuda", no_repeat_ngram_size=2, max_new_tokens=1)
    monkeypatch.setattr(doctor, "_version_of_package", {"numba-cuda": "0.30.4"}.get)
    (line,) = json.loads(cli("doctor", "--json").out)["gpu"]
    assert "does not go with NumPy" in line
    assert any(text.startswith("GPU") and line in text for text in cli("doctor").out.splitlines())
