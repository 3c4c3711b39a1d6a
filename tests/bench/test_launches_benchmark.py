"""A layer takes as many kernels and products as LightSeq says, where kernels are launched and products called."""

import json
from pathlib import Path

import numpy as np
import pytest

from minidecode.device.user_functions import load_python_file

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(str(BENCHMARKS))  # as if it were run
    launches = load_python_file(BENCHMARKS / "launches.py")


@pytest.mark.parametrize(
    ("layer", "kernels", "products"),
    [("BART encoder", 6, 6),  # the paper's numbers
     ("BART decoder", 8, 6),  # attention of one row is one kernel, its two products included
     ("GPT-2", 5, 4)],
)  # fmt: skip
def test_kernels_and_products_of_a_fused_layer(layer, kernels, products):
    fused = launches.fused_launches(layer)
    assert fused == {"kernels": kernels, "products": products, "without": 0}
    naive = launches.naive_launches(layer, 8, 2, 5)
    assert naive["kernels"] > 4 * kernels, "more than four times less than in common frameworks"
    assert naive["products"] >= products
    ended = launches.fused_launches(layer, ended=True)
    assert ended == {"kernels": kernels - 1, "products": products, "without": 0}, "no kernel of bias and activation"


@pytest.mark.parametrize(("layer", "in_attention"), [("BART encoder", 2), ("GPT-2", 0)])
def test_fusions_are_the_launches_and_bytes_of_their_ops(layer, in_attention):
    """Together they are the fused layer's kernels, and the library's products inside attention."""
    found = launches.fusions(layer, 8, 2, 5)
    fused = launches.fused_launches(layer)
    assert sum(f["fused"]["launches"] for f in found) == fused["kernels"] + in_attention
    naive, by_op = launches.naive_launches(layer, 8, 2, 5), launches.naive_by_op(layer, 8, 2, 5)
    left = by_op["linear"]  # products with weights are in no fusion
    assert sum(f["naive"]["launches"] for f in found) == sum(naive[k] - left[k] for k in ("kernels", "products"))
    assert sum(f["naive"]["bytes"] for f in found) == naive["bytes"] - left["bytes"]
    assert all(f["fused"]["launches"] < f["naive"]["launches"] for f in found)


def test_launches_do_not_depend_on_the_size_of_a_text():
    """NumPy's activation goes over large arrays in pieces, which are no launches."""
    few, many = (launches.naive_launches("BART encoder", *sizes) for sizes in ((8, 2, 5), (64, 2, 600)))
    assert few["kernels"] == many["kernels"] and few["bytes"] < many["bytes"]


def test_a_gain_is_launches_and_bytes():
    found = {"layer": "GPT-2", "fusions": [{"fusion": "two in one", "naive": {"launches": 12, "bytes": 4_400_000},
                                            "fused": {"launches": 2, "bytes": 2_000_000}}],
             "fused": {"kernels": 5, "products": 4, "bytes": 10_000_000},
             "ended": {"kernels": 4, "products": 4, "bytes": 7_600_000}}  # fmt: skip
    lines = launches.table_of_fusions({"layers": [found]}).splitlines()
    assert lines[2] == "| GPT-2, a step | two in one | 12 | 2 | 4.40 | 2.00 | 11.7 |"
    assert lines[3] == "| GPT-2, a step | products ended by `epilogue`, whole layer | 9 | 8 | 10.00 | 7.60 | 2.1 |"


def test_arrays_count_what_is_done_to_them():
    counts = launches.Counts()

    def steps(x_RD, w_DD):
        y_RD = x_RD @ w_DD  # a product
        y_RD += 1  # and from here on 7 kernels
        z_RD = np.exp(y_RD - y_RD.mean(axis=1, keepdims=True))
        z_RD[:, :2] = y_RD[:, :2]
        return np.concatenate([z_RD.T.copy().T, x_RD], axis=1)

    x_RD, w_DD = np.ones((3, 4), np.float32), np.eye(4, dtype=np.float32)
    result = launches.run_on_counting_arrays(steps, counts)(x_RD, w_DD)
    assert type(result) is np.ndarray and np.array_equal(result, steps(x_RD, w_DD))
    whole, mean, part = 48, 12, 24  # bytes
    moved = [2 * whole + 64, 2 * whole, whole + mean, 2 * whole + mean, 2 * whole, 2 * part, 2 * whole, 4 * whole]
    assert tuple(counts) == (7, 1, sum(moved))


def test_it_runs_in_small_and_writes_json(tmp_path, monkeypatch, capsys):
    out = tmp_path / "launches.json"
    monkeypatch.setattr(launches, "LAYERS", ("BART encoder",))
    sizes = ["--width", "16", "--heads", "2", "--length", "7", "--repeats", "1"]
    monkeypatch.setattr("sys.argv", ["launches.py", *sizes, "--out", str(out)])
    launches.main()
    results, printed = json.loads(out.read_text(encoding="utf-8")), capsys.readouterr().out
    assert [row["layer"] for row in results["layers"]] == ["BART encoder"]
    assert all(row["naive"]["bytes"] > row["fused"]["bytes"] > row["ended"]["bytes"] > 0 for row in results["layers"])
    assert all(r["apart"] < 1e-4 for r in results["residual_ms"]) and "encoder" in printed
