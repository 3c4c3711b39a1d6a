"""What the tests of the exercises share."""

from __future__ import annotations

import pytest

from minidecode.exercises import sandbox


@pytest.fixture(autouse=True, scope="module")
def one_judge():
    """One process for all kernels of a file of tests: starting it takes longest."""
    with sandbox.one_judge():
        yield
