"""How tests count the bytes that a call takes (tests/taken_bytes.py): what Python takes once is not the call's."""

from __future__ import annotations

import pytest
from taken_bytes import peak_of

LIMIT = 1_000_000


@pytest.mark.parametrize(("taken", "runs", "is_within"), [
    ([6 * LIMIT, 0], 2, True), ([6 * LIMIT, 6 * LIMIT], 2, False), ([2 * LIMIT, 6 * LIMIT], 2, False),
    ([LIMIT // 2], 1, True),
], ids=["once", "each time", "more the second time", "little"])  # fmt: skip
def test_a_peak_above_the_limit_is_measured_again(taken, runs, is_within):
    left = list(taken)

    def call():
        return len(bytearray(left.pop(0)))

    result, peak = peak_of(call, LIMIT)
    assert len(taken) - len(left) == runs and result == min(taken)
    assert (peak < LIMIT) == is_within and result <= peak < result + 50_000
