"""What the tests of the exercises share."""

from __future__ import annotations

from pathlib import Path

import pytest

from minidecode.course.exercises import sandbox, skeleton


@pytest.fixture(autouse=True, scope="module")
def one_judge():
    """One process for all kernels of a file of tests: starting it takes longest."""
    with sandbox.keep_one_judge():
        yield


@pytest.fixture(autouse=True)
def solutions(monkeypatch):
    """Those of this checkout, wherever the package is installed and whatever folder a test stands in."""
    monkeypatch.setattr(skeleton, "CHECKOUT", Path(__file__).resolve().parents[2])
