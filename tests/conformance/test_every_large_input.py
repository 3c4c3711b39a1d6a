"""NumPy's and compiled code is right on every large input of every row, however long it takes.

`pytest` alone leaves these out, and `pytest --rest` runs them. Kernels have them on a GPU (test_conformance.py); of
those that the emulator leaves out, pytest names each at the end of its run.
"""

from __future__ import annotations

import pytest

from minidecode import conformance
from minidecode.bench.compare import implementations
from minidecode.catalog import CATALOG
from minidecode.conformance.rows import asked_of


def of_the_host():
    for name, row in CATALOG.items():
        for label, function in implementations(row).items():
            if not label.startswith("cuda"):
                yield pytest.param(name, function, label, id=f"{name}-{label.replace(' ', '-')}")


@pytest.mark.parametrize(("name", "function", "label"), list(of_the_host()))
def test_every_large_input_is_right(name, function, label):
    verdict = conformance.check(name, function, examples=1, promised=label != "reference naive")
    assert verdict.ok and not verdict.left_out, str(verdict)
    assert verdict.inputs >= len(asked_of(name).large()) + 1
