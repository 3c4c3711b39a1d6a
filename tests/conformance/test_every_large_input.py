"""NumPy's and compiled code is right on every large input of every row, however long it takes.

`pytest` alone leaves these out, and `pytest --rest` runs them. Kernels have them on a GPU (test_conformance.py); of
those that the emulator leaves out, pytest names each at the end of its run.
"""

from __future__ import annotations

import numpy as np
import pytest

from minidecode import conformance
from minidecode.bench.compare import implementations
from minidecode.catalog import CATALOG
from minidecode.conformance.check import find_mistake
from minidecode.conformance.rows import row_module
from minidecode.device.launch import InEmulator

LARGEST = 2**18 + 60  # columns: a little more than the largest vocabularies have, Gemma's and mT5's


def of_the_host(*, naive: bool):
    for name, row in CATALOG.items():
        for label, function in implementations(row).items():
            if not label.startswith("cuda") and (label == "reference naive") == naive:
                yield pytest.param(name, function, id=f"{name}-{label.replace(' ', '-')}")


def check_all_of_them(name, function, *, promised):
    verdict = conformance.check(name, function, examples=1, promised=promised)
    assert verdict.ok and not verdict.left_out, str(verdict)
    assert verdict.inputs >= len(row_module(name).large_cases()) + 1


@pytest.mark.usefixtures("one_oracle")
@pytest.mark.parametrize(("name", "function"), list(of_the_host(naive=False)))
def test_every_large_input_is_right(name, function):
    check_all_of_them(name, function, promised=True)


@pytest.mark.parametrize(("name", "function"), list(of_the_host(naive=True)))
def test_every_large_input_is_right_naively(name, function):
    check_all_of_them(name, function, promised=False)


def kernels_that_sum():
    for name in ("argmax", "softmax", "hars"):
        for label, function in implementations(CATALOG[name]).items():
            if label.startswith("cuda"):
                yield pytest.param(name, function, id=f"{name}-{label.replace(' ', '-')}")


@pytest.mark.parametrize(("name", "function"), list(kernels_that_sum()))
def test_kernels_lose_no_digits_on_the_largest_vocabularies(name, function):
    """Of equal logits, and of many so small beside the sum that each loses digits if they are added one by one."""
    for small in (9.0, -1.0):
        logits_RV = np.where(np.arange(LARGEST) % 1000, small, 9.0)[None].astype(np.float32)
        given = {"argmax": (logits_RV,) * 2, "softmax": (logits_RV,), "hars": (logits_RV, np.zeros((1, 1), "f4"), 4)}
        mistake = find_mistake(CATALOG[name], InEmulator(function), given[name])
        assert mistake is None, mistake.what
