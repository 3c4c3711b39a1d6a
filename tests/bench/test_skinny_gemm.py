"""The benchmark of products runs, in small, and writes what it prints."""

import json
from pathlib import Path

import numpy as np

from minidecode.device.user_functions import load_python_file
from minidecode.ops import Norm, Weight

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "skinny_gemm.py"


def test_what_follows_products_is_timed_both_ways(tmp_path, monkeypatch):
    out = tmp_path / "ends.json"
    sizes = ["--ends", "16", "--rows", "1", "4", "--repeats", "2", "--cold", "1e5"]
    monkeypatch.setattr("sys.argv", ["skinny_gemm.py", *sizes, "--out", str(out)])
    script = load_python_file(SCRIPT)
    monkeypatch.setattr("numba.config.NUMBA_NUM_THREADS", 1)  # which the script sets
    script.main()
    results = json.loads(out.read_text(encoding="utf-8"))["products"]
    assert [(r["product"], r["stored"], r["rows"]) for r in results] == [
        (product, stored, R) for product in ("up", "down") for stored in ("float32", "int8") for R in (1, 4)
    ]
    assert all(set(r["milliseconds"]) == {"product_then_ops", "product_with_epilogue"} for r in results)


def test_both_ways_are_one():
    script, rng = load_python_file(SCRIPT), np.random.default_rng(0)
    norm = Norm(*np.ones((2, 8), np.float32), 1e-5)
    for up, (inputs, outputs) in ((True, (8, 32)), (False, (32, 8))):
        weight = Weight(*(rng.standard_normal(s, np.float32) for s in ((inputs, outputs), outputs)))
        x_RX, x_RD = rng.standard_normal((4, inputs), np.float32), rng.standard_normal((4, 8), np.float32)
        both = [
            way(up, x_RX, weight, x_RD.copy(), norm) for way in (script.product_then_ops, script.product_with_epilogue)
        ]
        assert all(np.allclose(a, b, atol=1e-5) for a, b in zip(*both, strict=True))


def test_it_runs_in_small_and_writes_json(tmp_path, monkeypatch, capsys):
    out = tmp_path / "few-rows.json"
    sizes = ["--models", "tiny-gpt2", "--rows", "1", "5", "--repeats", "1", "--cold", "1e6"]
    monkeypatch.setattr("sys.argv", ["skinny_gemm.py", *sizes, "--out", str(out)])
    script = load_python_file(SCRIPT)
    monkeypatch.setattr("numba.config.NUMBA_NUM_THREADS", 1)  # which the script sets
    script.main()
    results, printed = json.loads(out.read_text(encoding="utf-8")), capsys.readouterr().out
    assert results["gigabytes_per_second"]["read"] > 0 and "reads" in printed
    assert [(r["product"], r["layout"]) for r in results["products"]][-1] == ("lm_head", "oi")
    for r in results["products"]:
        assert [(t["rows"], t["way"]) for t in r["times"]] == [(R, way) for R in (1, 5) for way in script.WAYS]
        for t in r["times"]:
            size = {"float32": 4, "float16": 2, "int8": 1}[t["way"].split()[1]] * r["inputs"] * r["outputs"]
            expected = size / t["milliseconds"][0] / 1e6
            assert abs(t["gigabytes_per_second"] - expected) < 0.01 + 0.1 * expected
