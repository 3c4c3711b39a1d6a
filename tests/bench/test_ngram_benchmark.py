"""FastSeq's Table 3: each step's ban is checked before it is timed; on a device tokens are fetched as in the paper."""

import copy
import json
from pathlib import Path

import numpy as np
import pytest
from test_compare import EmulatedCupy

from minidecode.cpu import ngram
from minidecode.device.arrays import fetch
from minidecode.device.user_functions import load_python_file

ROOT = Path(__file__).parents[2]
SIZES = ["--sentences", "2", "--beams", "2", "--longest", "12", "--runs", "1"]


class OnDevice(np.ndarray):
    """Stands in for an array of CuPy."""


class StandIn:
    """Stands in for CuPy: notes what comes back from the device."""

    def __init__(self):
        self.fetched = []

    def asarray(self, a):
        return np.array(a).view(OnDevice)

    def asnumpy(self, a):
        assert isinstance(a, OnDevice)
        self.fetched.append(a.shape)
        return np.asarray(a).view(np.ndarray)


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))  # as if it were run
    return load_python_file(ROOT / "benchmarks" / "ngram.py")


def test_it_runs_in_small_and_writes_json_and_the_table(script, tmp_path, monkeypatch, capsys):
    out, page = tmp_path / "ngram.json", tmp_path / "page.md"
    marks = (f"<!-- {name}: here -->\n<!-- end of {name} -->\n" for name in ("ngram", "ngram-gpu"))
    page.write_text("".join(marks), encoding="utf-8")
    given = [*SIZES, "--note", "a test", "--out", str(out), "--readme", str(page)]
    monkeypatch.setattr("sys.argv", ["ngram.py", *given])
    script.main()
    found = json.loads(out.read_text(encoding="utf-8"))
    assert {"reference naive", "reference", "cpu"} <= {r["way"] for r in found["ngram_ms"]} <= set(script.WAYS)
    assert script.table(found) in capsys.readouterr().out and script.table(found) in page.read_text(encoding="utf-8")
    assert found["shape"]["steps"] == 12 and found["machine"]["numpy"] == np.__version__


def test_the_page_says_what_was_recorded(script):
    recorded = json.loads((ROOT / "benchmarks" / "results" / "ngram-cpu.json").read_text(encoding="utf-8"))
    assert script.table(recorded) in (ROOT / "docs" / "tables.md").read_text(encoding="utf-8")


def test_from_a_gpu_the_kernel_is_held_against_both_loops(script):
    ways = {script.ROW_BY_ROW: 900.0, script.LOOP: 600.0, "cuda v1": 30.0, "cuda": 6.0}
    found = {
        "ngram_ms": [{"way": way, "milliseconds": [ms, ms, ms]} for way, ms in ways.items()], "note": "",
        "shape": {"sentences": 1, "beams": 1, "steps": 1, "vocabulary": 2_000},
        "machine": {"gpu": "a card", "cores": 2, "processor": "p", "numpy": "1", "numba": "2"},
    }  # fmt: skip
    says = "The fastest kernel, cuda, is 150.0x as fast as the baseline (target: 100x) and 100.0x as fast as the CPU"
    assert f"{says} kernel (target: 75x)." in script.table(found).splitlines()


def test_an_implementation_that_bans_too_little_is_not_timed(script, monkeypatch):
    monkeypatch.setattr("sys.argv", ["ngram.py", *SIZES])
    monkeypatch.setattr(ngram, "ban_ngrams", lambda scores_RV, *_: scores_RV)
    monkeypatch.setattr(script, "texts", lambda rows, longest: np.resize([1, 2, 3], (rows, longest)))
    monkeypatch.setattr(script, "time_by_turns", pytest.fail)
    with pytest.raises(SystemExit, match="cpu bans other tokens at length 5: nothing is timed"):
        script.main()


def test_a_vocabulary_without_room_for_the_texts_is_refused(script, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["ngram.py", "--vocabulary", "100"])
    with pytest.raises(SystemExit):
        script.main()
    assert "100 are too few" in capsys.readouterr().err


def test_kernels_ban_on_a_device_what_the_loop_bans_here(script):
    tokens_RM, lengths = np.resize([1, 2, 3], (3, 9)), [np.full(3, length) for length in (4, 9)]
    given = np.zeros((3, 5), np.float32), tokens_RM, lengths
    loop, here = script.calls_on_host(*given)[script.LOOP]
    right_RV = loop(*copy.deepcopy(here))
    calls = script.calls_on_gpu(EmulatedCupy(), *given)
    kernels = [label for label in calls if label.startswith("cuda")]
    assert kernels == [label for label in script.WAYS if label.startswith("cuda")] and np.isinf(right_RV).any()
    for label in kernels:
        run, arguments = calls[label]
        assert np.array_equal(fetch(run(*arguments)), right_RV), label
        arguments[0][...] = 0  # the array is the same for all


def test_on_a_device_the_loop_fetches_row_by_row_or_all_at_once(script, monkeypatch):
    """The kernels take no stand-in of this kind; all others ban what they ban without a device."""
    tokens_RM, lengths = np.resize([1, 2, 3], (3, 9)), [np.full(3, length) for length in (4, 9)]
    given = np.zeros((3, 5), np.float32), tokens_RM, lengths
    read, tolist = [], OnDevice.tolist
    monkeypatch.setattr(OnDevice, "tolist", lambda a: read.append(a.shape) or tolist(a), raising=False)
    cupy, (loop, here) = StandIn(), script.calls_on_host(*given)[script.LOOP]
    right_RV = loop(*copy.deepcopy(here))
    expected = {script.ROW_BY_ROW: (6, 0), script.LOOP: (0, 2), "reference": (0, 0), "cpu": (0, 0)}
    for label, (rows, whole) in expected.items():
        run, arguments = script.calls_on_gpu(cupy, *given)[label]
        read.clear(), cupy.fetched.clear()
        scores_RV = np.asarray(run(*copy.deepcopy(arguments))).view(np.ndarray)
        assert np.array_equal(scores_RV, right_RV) and np.isinf(right_RV).any()
        assert (len(read), len(cupy.fetched)) == (rows, whole), label
