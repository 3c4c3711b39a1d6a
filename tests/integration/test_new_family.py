"""A family is one file and one row: with these two alone, a model loads, generates by any plan, and scores."""

import json

import numpy as np
import parallel_family
import pytest
from safetensors.numpy import save_file

import minidecode as md
from minidecode.models import FAMILIES, Family

SIZES = {"vocab_size": 19, "positions": 24, "hidden": 8, "depth": 2, "head_count": 2, "inner": 12}
IDS, NEW = [[3, 9, 12, 7], [5, 6]], 7


@pytest.fixture
def folder(tmp_path, monkeypatch):
    row = Family("parallel", parallel_family.ParallelConfig, parallel_family)
    monkeypatch.setitem(FAMILIES, "parallel", row)
    rng = np.random.default_rng(0)
    shapes = parallel_family.tensor_shapes(row.config.from_json(SIZES))
    save_file({name: rng.normal(0, 0.5, shape) for name, shape in shapes.items()}, tmp_path / "model.safetensors")
    fields = SIZES | {"model_type": "parallel", "eos_token_id": 18}
    (tmp_path / "config.json").write_text(json.dumps(fields), encoding="utf-8")
    return tmp_path


def naive_logits(t: dict[str, np.ndarray], ids: list[int]) -> np.ndarray:
    """logits_NV, token by token and head by head."""

    def norm(x, name):
        return (x - x.mean()) / np.sqrt(x.var() + 1e-5) * t[f"{name}.gain"] + t[f"{name}.bias"]

    D, H = SIZES["hidden"], SIZES["head_count"]
    K = D // H
    x_ND = [t["words"][token] + t["places"][n] for n, token in enumerate(ids)]
    for i in range(SIZES["depth"]):
        layer = f"layer.{i}"
        h_ND = [norm(x, f"{layer}.norm") for x in x_ND]
        qkv = [h @ t[f"{layer}.qkv"] + t[f"{layer}.qkv.bias"] for h in h_ND]
        for n, h in enumerate(h_ND):
            a_D = np.zeros(D)
            for head in (slice(g * K, (g + 1) * K) for g in range(H)):
                scores = np.array([qkv[n][:D][head] @ qkv[m][D : 2 * D][head] / K**0.5 for m in range(n + 1)])
                shares = np.exp(scores) / np.exp(scores).sum()
                a_D[head] = sum(share * qkv[m][2 * D :][head] for m, share in enumerate(shares))
            f_F = np.maximum(h @ t[f"{layer}.up"] + t[f"{layer}.up.bias"], 0)
            x_ND[n] = x_ND[n] + a_D @ t[f"{layer}.out"] + t[f"{layer}.out.bias"]
            x_ND[n] = x_ND[n] + f_F @ t[f"{layer}.down"] + t[f"{layer}.down.bias"]
    return np.array([norm(x, "norm") @ t["words"].T for x in x_ND])


@pytest.mark.parametrize("plan", ["numpy", "cache=none", "cache=split", "cache=el", "arena=planned"])
def test_a_family_of_one_file_generates(folder, plan):
    model = md.load(folder, dtype="float64", plan="numpy")
    for ids, logits_NV in zip(IDS, model.logits(IDS), strict=True):
        np.testing.assert_allclose(logits_NV, naive_logits(model.tensors, ids), rtol=0, atol=1e-9)
    expected = []
    for ids in IDS:
        text = list(ids)
        while len(text) < len(ids) + NEW and text[-1] != 18:
            text.append(int(naive_logits(model.tensors, text)[-1].argmax()))
        expected.append(text[len(ids) :])
    out = model.generate(input_ids=IDS, max_new_tokens=NEW, plan=plan)
    assert [ids.tolist() for ids in out.token_ids] == expected
    scores = model.score(input_ids=[a + b for a, b in zip(IDS, expected, strict=True)])
    np.testing.assert_allclose(scores.log_probs[0], sum_of_log_probs(model, IDS[0] + expected[0]), rtol=0, atol=1e-9)
    assert model.footprint(input_ids=IDS, max_new_tokens=NEW, plan=plan).total > 0


def sum_of_log_probs(model, ids: list[int]) -> float:
    logits_NV = naive_logits(model.tensors, ids)
    return sum(logits_NV[n, token] - np.log(np.exp(logits_NV[n]).sum()) for n, token in enumerate(ids[1:]))
