"""Memory-bound kernels on large arrays: the inputs are the papers', repeated; kernels take them on a device."""

import copy
import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
from test_compare import EmulatedCupy

from minidecode.bench.compare import copy_calls_to_device, implementations
from minidecode.catalog import CATALOG
from minidecode.conformance.rows import row_module
from minidecode.device.arrays import fetch
from minidecode.device.seen_kernels import seen_kernels
from minidecode.device.user_functions import load_python_file

ROOT = Path(__file__).parents[2]


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))  # as if it were run
    return load_python_file(ROOT / "benchmarks" / "bandwidth.py")


NAMES = ("norm", "activation", "heads", "append", "reorder", "linear", "split", "shared", "softmax", "beam_scores",
         "temperature", "argmax", "candidates")  # fmt: skip


def test_every_op_of_the_script_is_tested_here(script):
    assert script.NAMES == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_twice_the_inputs_must_move_twice_the_bytes(script, name):
    once, twice = (CATALOG[name].cost(*script.repeat_inputs(name, times)[0]).bytes for times in (1, 2))
    assert 1.9 * once < twice <= 2 * once
    assert script.times_for(name, once) == 1 and script.times_for(name, once + 1) == 2


def numbers_of(result) -> list[np.ndarray]:
    parts = result if isinstance(result, tuple) else (result,)
    return [fetch(part) for part in parts]


@pytest.mark.parametrize("name", NAMES)
def test_kernels_take_repeated_inputs_on_a_device(script, name, monkeypatch):
    """Toy inputs in the place of the paper's; what NumPy's code says of the same is right."""
    planted = row_module(name).planted_cases()[0]
    monkeypatch.setattr(row_module(name), "make_paper_inputs", lambda **_: (planted, "a toy"))
    arguments, shape = script.repeat_inputs(name, 3)
    functions = {label: f for label, f in implementations(CATALOG[name]).items() if label == "cuda"}
    ((kernel, given),) = copy_calls_to_device(functions, arguments, EmulatedCupy()).values()
    found = numbers_of(kernel(*given))
    right = numbers_of(implementations(CATALOG[name])["reference"](*copy.deepcopy(arguments)))
    assert shape == "a toy, 3 times" and len(found) == len(right)
    for mine, theirs in zip(found, right, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-5)


def test_what_stands_in_two_places_goes_on_doing_so(script):
    (scores_RV, logits_RV), _ = script.repeat_inputs("argmax", 2)
    assert scores_RV is logits_RV and len(scores_RV) == 16


def test_weights_are_repeated_and_the_rows_are_not(script):
    (x_RX, weight), _ = script.repeat_inputs("linear", 2)
    assert x_RX.shape == (4, 768) and weight.data.dtype == np.float16
    assert sorted(weight.data.shape) == [768, 2 * 3072] and dataclasses.is_dataclass(weight)


def test_it_runs_in_small_and_writes_json(script, tmp_path, monkeypatch, capsys):
    out = tmp_path / "bandwidth.json"
    given = ["--only", "norm", "argmax", "--megabytes", "4", "--runs", "1", "--note", "a test", "--out", str(out)]
    monkeypatch.setattr("sys.argv", ["bandwidth.py", *given])
    monkeypatch.setattr(script, "device_kind", lambda: "none")
    script.main()
    found = json.loads(out.read_text(encoding="utf-8"))
    assert script.table(found) in capsys.readouterr().out and found["note"] == "a test"
    for row, name in zip(found["ops"], ("norm", "argmax"), strict=True):
        assert row["name"] == name and row["bytes"] >= 4e6 and row["implementation"] == "cpu"
        assert row["share"] == pytest.approx(row["copy_milliseconds"][0] / row["milliseconds"][0], rel=0.01, abs=1e-3)


def test_what_is_wrong_is_not_timed(script, monkeypatch):
    monkeypatch.setattr(script, "implementations", lambda row: {"reference": lambda x, *_: (x, x)})
    monkeypatch.setattr(script, "time_by_turns", pytest.fail)
    with pytest.raises(SystemExit, match="norm, reference is wrong, so nothing is timed"):
        script.time_op("norm", 1000, 1)


def test_a_cache_is_repeated_so_that_its_rows_stay_few(script):
    """More rows would take another version of the kernel."""
    (k_RGMX, parent_R, length_R), _ = script.repeat_inputs("reorder", 3)
    assert k_RGMX.shape == (128, 36, 64, 64) and len(parent_R) == 128 and set(length_R) == {64}
    assert np.array_equal(k_RGMX[:, :12], k_RGMX[:, 24:])


NEWEST = {"norm_kept", "activation_of_fours", "add_and_cut_fours", "add_and_append_fours", "embedding_kept",
          "move_in_registers"}  # fmt: skip


def test_gpu_rows_times_the_newest_version_of_each_kernel(script):
    rows = load_python_file(ROOT / "benchmarks" / "gpu_rows.py")
    kernels = rows.row_kernels(np, 4, 64) | {"reorder_cache": rows.reorder(np, 4, 16)}
    for name, (run, moved) in kernels.items():
        with seen_kernels() as seen:
            run()
        ((kernel, _),) = seen
        assert kernel.py_func.__name__ in NEWEST and moved > 4 * 64, name
