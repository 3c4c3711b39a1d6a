"""From how many rows the library is faster: measured on a device, kept for a GPU, followed by products."""

import json

import numpy as np
import pytest

from minidecode.bench import library_rows as measuring
from minidecode.cuda import linear
from minidecode.device import library_rows as table
from minidecode.device.arrays import copy_to_device
from minidecode.device.launch import counted_launches
from minidecode.device.low_precision import stored_weight
from minidecode.ops import Weight


@pytest.mark.parametrize("stored", measuring.STORED)
def test_both_ways_are_timed_on_the_emulated_device(stored, monkeypatch):
    """What ran in each way: kernels for few rows alone, and a product of the library."""
    ran = {}

    def counted(way, product):
        def run(*given):
            with counted_launches() as launches:
                product(*given)
            ran[way] = set(launches)

        return run

    monkeypatch.setattr(measuring, "WAYS", {way: counted(way, f) for way, f in measuring.WAYS.items()})
    found = measuring.measure_crossing(stored, "emulator", measuring.TOYS)
    assert found.captured and found.stored == stored and list(found.microseconds) == [1, 2]
    assert all(times["kernels"] > 0 and times["library"] > 0 for times in found.microseconds.values())
    assert found.rows == measuring.first_faster_rows(found.microseconds)
    assert any(name.startswith("product of the library") for name in ran["library"])
    assert not any(name.startswith("product of the library") for name in ran["kernels"])


@pytest.mark.parametrize(
    ("faster", "first"), [("kkk", 33), ("kkl", 32), ("kll", 8), ("lkl", 32), ("lll", 1), ("llk", 33)]
)
def test_the_first_is_one_behind_which_the_library_always_wins(faster, first):
    times = {"k": {"kernels": 1.0, "library": 2.0}, "l": {"kernels": 2.0, "library": 1.0}}
    assert (
        measuring.first_faster_rows({rows: times[who] for rows, who in zip((1, 8, 32), faster, strict=True)}) == first
    )


@pytest.fixture
def file(monkeypatch, tmp_path):
    """Where the table of a GPU would lie."""
    monkeypatch.setattr(table, "file_of_library_rows", lambda: tmp_path / "rows.json")
    table.measured_library_rows.cache_clear()
    yield tmp_path / "rows.json"
    table.measured_library_rows.cache_clear()


def test_a_table_is_kept_and_followed_on_a_gpu_alone(file):
    class OnGpu:
        pass

    OnGpu.__module__ = "cupy"
    assert linear.rows_for_library("float16", OnGpu()) == linear.LIBRARY_FROM["float16"], "nothing was measured"
    assert table.save_library_rows({"float16": 25}) == file
    assert linear.rows_for_library("float16", OnGpu()) == 25
    assert linear.rows_for_library("int8", OnGpu()) == linear.LIBRARY_FROM["int8"]
    assert linear.rows_for_library("float16", np.zeros(1)) == linear.LIBRARY_FROM["float16"]
    x_RX = copy_to_device("emulator", np.zeros((2, 4), np.float32))
    assert linear.rows_for_library("float16", x_RX) == linear.LIBRARY_FROM["float16"]


@pytest.mark.parametrize("content", ["", "[1]", '{"float16": 0}', '{"float16": "many"}', '{"float16": true}'])
def test_a_damaged_table_is_none(file, content):
    file.write_text(content, encoding="utf-8")
    assert table.measured_library_rows() == {}


def test_products_go_where_the_number_says(monkeypatch):
    weight = copy_to_device("emulator", stored_weight("float16", Weight(np.ones((4, 64), np.float32), layout="oi")))
    x_RX = copy_to_device("emulator", np.ones((3, 64), np.float32))
    for rows, by_library in ((3, True), (4, False)):
        monkeypatch.setitem(linear.LIBRARY_FROM, "float16", rows)
        with counted_launches() as launches:
            linear.linear(x_RX, weight)
        assert any(name.startswith("product of the library") for name in launches) == by_library


def test_the_command_measures_on_the_emulated_device_and_keeps_nothing(cli, monkeypatch, file):
    monkeypatch.setattr(measuring, "STORED", ("float32", "int4"))
    report = json.loads(cli("precompile", "--device", "emulator", "--json").out)
    assert report["device"] == "emulator" and report["kept"] is None and not file.exists()
    assert [p["stored"] for p in report["products"]] == ["float32", "int4"]
    found = iter(
        [measuring.Crossing("float32", 24, {16: {}, 24: {}}, True), measuring.Crossing("int4", 25, {24: {}}, True)]
    )
    monkeypatch.setattr(measuring, "measure_crossing", lambda *_: next(found))
    out = cli("precompile", "--device", "emulator", "-q").out
    assert out.startswith("float32: the library from 24 rows on\nint4: kernels up to 24 rows\nnot kept")
    assert "device='tpu' is not one of" in cli("precompile", "--device", "tpu").err


def test_the_command_keeps_what_a_gpu_measures(cli, monkeypatch, file):
    """A GPU's part is played by what it would find."""
    monkeypatch.setattr("minidecode.device.arrays.chosen_device", lambda name: "cuda")
    monkeypatch.setattr(measuring, "STORED", ("float16",))
    asked = []

    def crossing(stored, device, sizes):
        asked.append((stored, device, sizes))
        return measuring.Crossing(stored, 33, {32: {"kernels": 1.0, "library": 2.0}}, True)

    monkeypatch.setattr(measuring, "measure_crossing", crossing)
    run = cli("precompile", "--device", "cuda", "-q")
    out = run.out
    assert not run.err and asked == [("float16", "cuda", measuring.DECODING)]
    assert out == f"float16: kernels up to 32 rows\nkept in {file}\n"
    assert json.loads(file.read_text(encoding="utf-8")) == {"float16": 33} == table.measured_library_rows()
