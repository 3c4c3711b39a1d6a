"""Right kernels pass with right answers; wrong ones are found, at every seed, by name."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from kernels_buggy import CASES as BUGGY
from kernels_buggy import block_maximum
from kernels_correct import CASES as CORRECT

import minidecode as md


def run(case, seed, **options):
    arguments = case.arguments()
    before = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
    return md.emulate(case.kernel, seed=seed, **case.options, **options)[case.launch](*arguments), arguments, before


def test_there_are_enough_of_both():
    assert len(CORRECT) >= 25 and len(BUGGY) >= 25
    assert len({c.name for c in CORRECT + BUGGY}) == len(CORRECT) + len(BUGGY)


@pytest.mark.parametrize("trace", [True, False], ids=["traced", "untraced"])
@pytest.mark.parametrize("case", CORRECT, ids=lambda c: c.name)
def test_a_right_kernel_passes(case, trace):
    for seed in range(4):
        result, arguments, before = run(case, seed, trace=trace)
        assert result.ok, result.verdict
        np.testing.assert_array_equal(arguments[-1], case.expected(*before).astype(arguments[-1].dtype))


@pytest.mark.parametrize("case", BUGGY, ids=lambda c: c.name)
def test_a_wrong_kernel_is_found_at_every_seed(case):
    for seed in range(6):
        result, _, _ = run(case, seed)
        assert not result.ok, "not found"
        found = [e for e in result.errors if e.kind == case.kind]
        assert found, f"expected {case.kind}, got: {result.verdict}"
        text = "\n".join(map(str, found))
        for words in case.says:
            assert lines_named(words, case.kernel) in text, text


def lines_named(words, kernel):
    """`{some code}` becomes the number of the line of the kernel, or of what it calls, on which that code stands."""
    if not words.startswith("{"):
        return words
    numbered = [
        (number, line)
        for function in (kernel.py_func, block_maximum.py_func)
        for number, line in enumerate(*inspect.getsourcelines(function))
    ]
    body = numbered[next(k for k, (_, line) in enumerate(numbered) if line.startswith("def ")) :]
    return next(f"line {number}" for number, line in body if words[1:-1] in line)
