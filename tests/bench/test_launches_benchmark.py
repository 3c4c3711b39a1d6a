"""A layer takes as many kernels and products as LightSeq says, where kernels are launched and products called."""

import json
from pathlib import Path

import numpy as np
import pytest

from minidecode.device.user_functions import load_file

launches = load_file(Path(__file__).parents[2] / "benchmarks" / "launches.py")


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


def test_arrays_count_what_is_done_to_them():
    counts = launches.Counts()

    def steps(x_RD, w_DD):
        y_RD = x_RD @ w_DD  # a product
        y_RD += 1  # and from here on 7 kernels
        z_RD = np.exp(y_RD - y_RD.mean(axis=1, keepdims=True))
        z_RD[:, :2] = y_RD[:, :2]
        return np.concatenate([z_RD.T.copy().T, x_RD], axis=1)

    x_RD, w_DD = np.ones((3, 4), np.float32), np.eye(4, dtype=np.float32)
    result = launches.elementary(steps, counts)(x_RD, w_DD)
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
