"""The emulator is right about every kernel of the labelled suite, and the guide's table is what was recorded."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from labelled_kernels import KERNELS, KINDS

from minidecode.device.user_functions import load_python_file

ROOT = Path(__file__).parents[2]
RECORDED = json.loads((ROOT / "benchmarks" / "results" / "kernel-suite.json").read_text(encoding="utf-8"))


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))  # as if it were run
    return load_python_file(ROOT / "benchmarks" / "kernel_suite.py")


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_the_emulator_is_right_about_a_kernel(kernel, script):
    assert script.judge_kernel(kernel, seeds=2)["wrong about"] == {}


def test_the_suite_has_enough_of_both_for_each_kind():
    assert len(KERNELS) >= 100 and len({k.name for k in KERNELS}) == len(KERNELS)
    for kind in KINDS:
        labels = [k.is_right for k in KERNELS if k.kind == kind]
        assert min(labels.count(True), labels.count(False)) >= 3, kind
    assert 0.4 < sum(k.is_right for k in KERNELS) / len(KERNELS) < 0.6
    assert all(k.why.endswith(".") for k in KERNELS)


def test_a_miss_and_a_false_alarm_are_counted(script):
    right, wrong = (next(k for k in KERNELS if k.kind == "global" and k.is_right is label) for label in (True, False))
    exchanged = [dataclasses.replace(right, is_right=False), dataclasses.replace(wrong, is_right=True)]
    found = [script.judge_kernel(kernel, seeds=1) for kernel in [*exchanged, right]]
    rows = [line.split(" | ")[1:] for line in script.table(found, 1).splitlines() if line.startswith("| ")]
    assert rows[-1] == ["1", "0", "2", "1 |"]
    assert found[0]["why"] in script.table(found, 1)
    other = dataclasses.replace(right, expected=lambda x, y: x + 1)
    assert "the results are not" in script.judge_kernel(other, seeds=1)["wrong about"][0]


def test_the_page_says_what_was_recorded_of_these_kernels(script):
    assert script.table(RECORDED["kernels"], RECORDED["seeds"]) in (ROOT / "docs/guide/kernels.md").read_text("utf-8")
    labels = [(k["kernel"], k["kind"], k["right"], k["why"]) for k in RECORDED["kernels"]]
    assert labels == [(k.name, k.kind, k.is_right, k.why) for k in KERNELS]
