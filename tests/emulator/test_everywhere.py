"""The emulator's answers are the right ones: those of NumPy, of Numba's own simulator, and of a GPU where one is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from kernels_everywhere import CASES

import minidecode as md

HERE = Path(__file__).parent


def emulated(case, **options) -> np.ndarray:
    arguments = case.arguments()
    run = md.emulate(case.kernel, **options)[case.launch](*arguments)
    assert run.ok, run.verdict
    return arguments[-1]


def check(case, found: np.ndarray, wanted: np.ndarray) -> None:
    np.testing.assert_allclose(found, np.asarray(wanted).astype(found.dtype), rtol=case.rtol, atol=0)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_as_numpy_computes_it(case):
    for seed in range(3):
        check(case, emulated(case, seed=seed), case.expected(*case.arguments()))


@pytest.fixture(scope="module")
def simulated(tmp_path_factory):
    """What Numba's simulator makes of the same file, in a process of its own: it replaces numba.cuda for good."""
    out = tmp_path_factory.mktemp("simulator") / "outputs.npz"
    environment = os.environ | {"NUMBA_ENABLE_CUDASIM": "1"}
    subprocess.run(
        [sys.executable, str(HERE / "run_in_simulator.py"), "--small", str(out)], check=True, env=environment
    )
    return np.load(out)


@pytest.mark.parametrize("case", [c for c in CASES if c.simulator], ids=lambda c: c.name)
def test_as_numbas_simulator_computes_it(case, simulated):
    np.testing.assert_allclose(emulated(case), simulated[case.name], rtol=case.rtol or 0, atol=0)


def test_kernel_versions_run_in_numbas_simulator_or_say_what_it_lacks():
    """Two ops stand for all: run_in_simulator.py without --ops takes 25 seconds for the 82 versions there are."""
    command = [sys.executable, str(HERE / "run_in_simulator.py"), "--ops", "activation", "norm"]
    environment = os.environ | {"NUMBA_ENABLE_CUDASIM": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines() == [  # none is left out for want of time
        "norm cuda v3 cannot run: the simulator has no cuda.shfl_xor_sync",
        "norm cuda cannot run: the simulator has no cuda.shfl_xor_sync",
        "6 of 8 kernel versions ran and are right, 2 cannot run, 0 are wrong",
    ]


@pytest.mark.gpu
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_as_a_gpu_computes_it(case):
    arguments = case.arguments()
    case.kernel[case.launch](*arguments)
    np.testing.assert_allclose(emulated(case), arguments[-1], rtol=max(case.rtol, 1e-6), atol=0)
