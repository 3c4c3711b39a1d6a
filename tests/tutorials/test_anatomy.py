"""The anatomy of a step: its engine in JavaScript has Python's tokens, and the catalog's costs.

docs/check_anatomy.py asks the same of the page in a browser, with more cases.
"""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from test_live import NODE, needs_node

from minidecode.catalog import CATALOG
from minidecode.ops import Heads, Norm, Weight

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "docs"))

import check_anatomy  # noqa: E402
import write_anatomy  # noqa: E402

CASES = 15


def hollow(*shape: int, dtype: type = np.float32) -> np.ndarray:
    """An array that takes no memory: cost models ask for shapes alone."""
    return np.broadcast_to(np.zeros((), dtype), shape)


def costs_of_boxes(draw: np.random.Generator) -> tuple[list, list]:
    """(what the browser's formulas are asked, the catalog's costs) of all ops for a step of random sizes."""
    R, N, T, G, K, D, F, V = (int(draw.integers(1, most)) for most in (9, 50, 20, 5, 40, 90, 200, 999))
    parent_R = draw.integers(0, R, R)
    copied = int((parent_R != np.arange(R)).sum()) * T
    H = G * int(draw.integers(1, 5))
    X, own, begin_R = (H + 2 * G) * K, R * T, np.zeros(R, np.int64)
    heads, norm = Heads(H, G, K, K, 1.0), Norm(hollow(D), hollow(D), 1e-5)
    q_RHK, kv_RGTK, table_VD = hollow(R, H, K), hollow(R, G, T, K), hollow(V, D)
    weight = Weight(hollow(F, D, dtype=np.int8), None, hollow(F), "oi")
    prompt_BGNK, begin_B, w_GKD, b_GK = hollow(1, G, N, K), np.zeros(1, np.int64), hollow(G, K, D), hollow(G, K)
    qkv_RX, bias_X = hollow(R, X), hollow(X)
    cost = {name: row.cost for name, row in CATALOG.items()}
    pairs = [
        (("embedding", R, D), cost["embedding"](begin_R, begin_R, table_VD, table_VD, 1.0, norm)),
        (("linear", R, D, F), cost["linear"](hollow(R, D), weight)),
        (("heads", R, X), cost["heads"](qkv_RX, bias_X, heads)),
        (("reorder", copied, G * K), cost["reorder"](kv_RGTK, parent_R, begin_R + T)),
        (("append", R, X), cost["append"](qkv_RX, bias_X, heads, kv_RGTK, kv_RGTK, begin_R)),
        (
            ("attention", N, N, N * (N + 1) // 2, H, G, K),
            cost["prefill"](hollow(N, H, K), hollow(N, G, K), hollow(N, G, K), *[np.array([0, N])] * 2, 1.0, True),
        ),
        (("attention", R, own, own, H, G, K), cost["grouped"](q_RHK, kv_RGTK, kv_RGTK, begin_R, begin_R + T, 1.0)),
        (
            ("attention", R, N + own, R * N + own, H, G, K),
            cost["split"](q_RHK, prompt_BGNK, prompt_BGNK, begin_B, kv_RGTK, kv_RGTK, begin_R, begin_R + T, 1.0),
        ),
        (
            ("el_split", R, N, own, H, G, K, D),
            cost["el_split"](
                q_RHK, hollow(1, N, D), begin_B, w_GKD, b_GK, w_GKD, b_GK, kv_RGTK, kv_RGTK, begin_R, begin_R + T, 1.0
            ),
        ),
        (("norm", R, D), cost["norm"](hollow(R, D), hollow(R, D), hollow(D), norm)),
        (("activation", R, F), cost["activation"](hollow(R, F), hollow(F), "gelu_new")),
        (("softmax", R, V), cost["softmax"](hollow(R, V))),
    ]
    return [list(asked) for asked, _ in pairs], [{"bytes": c.bytes, "operations": c.operations} for _, c in pairs]


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    assert write_anatomy.write(folder) <= 12e6
    return folder


def in_node(models: Path, cases: list, costs: list) -> dict:
    asked = json.dumps({"models": str(models), "cases": cases, "costs": costs})
    script = Path(__file__).with_name("anatomy_in_node.js")
    done = subprocess.run([NODE, script], input=asked, capture_output=True, text=True, encoding="utf-8", check=True)
    return json.loads(done.stdout)


@needs_node
def test_costs_are_the_catalogs(models):
    draw = np.random.default_rng(0)
    asked, expected = [], []
    for _ in range(50):
        some, costs = costs_of_boxes(draw)
        asked += some
        expected += costs
    assert in_node(models, [], asked)["costs"] == expected


@needs_node
def test_tokens_are_those_of_generate(models):
    """Of these cases each plan has each search; the rows of "no cache" are all rows of all texts."""
    cases = check_anatomy.cases(CASES, seed=1)
    for case, answer in zip(cases, in_node(models, cases, [])["answers"], strict=True):
        assert answer["result"] == check_anatomy.tokens_of(case), case
        if case["options"]["plan"] == "none":
            assert answer["total"] == {**answer["without"], "copied": 0}
        else:
            assert answer["total"]["rows"] < answer["without"]["rows"] or len(answer["result"]) == 1


@needs_node
@pytest.mark.parametrize("W", [1, 3])
@pytest.mark.parametrize("plan", ["cache", "split", "el", "mqa"])
def test_the_boxes_of_a_step_take_what_the_receipt_says(models, plan, W):
    """Every step behind the prompt: how often each op is called, and its bytes and operations."""
    name = "tiny-gpt2-mqa" if plan == "mqa" else "tiny-gpt2"
    options = {"plan": plan, "newTokens": 5, "ngram": 0, "W": W}
    case = {"name": name, "text": "The war of", "options": options}
    steps = in_node(models, [case], [])["answers"][0]["steps"][1:]
    model = check_anatomy.model(name)
    asked = {"num_beams": W, "max_new_tokens": 5, "no_repeat_ngram_size": 0}
    asked["plan"] = f"numpy,{check_anatomy.PLANS[plan]}"
    ops = model.generate(case["text"], costs=True, **asked).receipt.ops
    assert len(steps) == 4
    for row in ("linear", "append", "grouped", "split", "el_split", "norm", "activation"):
        if row not in steps[0]:
            assert CATALOG[row].op not in ops and not any(row in step for step in steps)
            continue
        calls = steps[0][row]["calls"]
        of_steps = ops[CATALOG[row].op].costs[-4 * calls :]
        for k, step in enumerate(steps):
            costs = of_steps[k * calls : (k + 1) * calls]
            expected = {"bytes": sum(int(c.bytes) for c in costs), "operations": sum(int(c.operations) for c in costs)}
            assert step[row] == {"calls": len(costs)} | expected, row
    layers = 2 * len(model.weights.blocks)
    of_steps = ops["reorder_cache"].costs if "reorder_cache" in ops else []
    moved = [sum(int(c.bytes) for c in of_steps[k : k + layers]) for k in range(0, len(of_steps), layers)]
    assert [step["reorder"]["bytes"] for step in steps if "reorder" in step] == [b for b in moved if b]
    assert any(moved) == (W > 1)
