"""What the receipt counts, to the byte."""

import functools
import importlib
import itertools
import json
import re
import threading
from pathlib import Path

import numpy as np

from minidecode.cpu import linear as cpu_linear
from minidecode.device.low_precision import stored_weight
from minidecode.ops import Heads, Norm, Weight
from minidecode.plan import Plan
from minidecode.reference import linear as linear_file
from minidecode.runtime.receipt import CountedOps, Receipt, bytes_held_by

F = np.float32


def count(name, *arguments, **keywords):
    ops = CountedOps(Plan().resolve()[0])
    getattr(ops, name)(*arguments, **keywords)
    return ops.counts()[name]


def test_bytes_of_an_op_are_those_it_must_touch():
    ids, wte, wpe = np.array([1, 0, 1]), np.ones((50, 4), F), np.ones((9, 4), F)
    norm = Norm(np.ones(4, F), np.zeros(4, F), 1e-5)
    rows = 4 * (3 * 4 * 4 + 2 * 4)  # two of the tables, two written; gain and bias
    assert count("embed_norm", ids, ids, wte, wpe, 1.0, norm).bytes == 3 * 8 + rows, "not whole tables"
    assert count("gather_rows", wte, ids).bytes == 3 * 8 + 2 * 3 * 4 * 4
    x, weight = np.ones((3, 4), F), Weight(np.ones((4, 5), F), bias=np.ones(5, F))
    assert count("linear", x, weight).bytes == 4 * (3 * 4 + 4 * 5 + 3 * 5), "the bias belongs to the next op"
    target = np.ones((3, 5), F)
    assert count("linear", x, weight, add_to=target).bytes == 4 * (3 * 4 + 4 * 5 + 3 * 5), "each array once"
    tokens, length = np.zeros((2, 6), np.int64), np.array([6, 6])
    assert count("ban_ngrams", np.zeros((2, 50), F), tokens, length, 2).bytes == 8 * (2 * 6 + 2), "tokens, not scores"


def test_calls_and_seconds_add_up():
    ops = CountedOps(Plan().resolve()[0])
    for _ in range(3):
        ops.gather_rows(np.ones((1000, 1000), F), np.arange(1000))
    taken = ops.counts()["gather_rows"]
    once = count("gather_rows", np.ones((1000, 1000), F), np.arange(1000))
    assert taken.calls == 3 and taken.seconds > 0 and taken.bytes == 3 * once.bytes
    assert list(ops.counts()) == ["gather_rows"], "an op that was not called is not on the receipt"


def test_held_bytes_counts_whole_bases_once():
    base = np.zeros((10, 10), F)
    assert bytes_held_by([base[:2], base[5:, 1], base]) == base.nbytes
    assert bytes_held_by([base[:2], np.zeros(3, F)]) == base.nbytes + 12


def test_the_receipt_names_the_code_that_runs(monkeypatch):
    """Rebound in its own file, an op is replaced even if another file imported it before; a borrowed name shows."""
    from minidecode.reference.common import attention

    @functools.wraps(linear_file.linear)
    def disguised(*arguments, **keywords):
        return 0

    monkeypatch.setattr(attention, "linear", linear_file.linear, raising=False)
    monkeypatch.setattr(linear_file, "linear", disguised)
    functions = Plan().resolve()[0]
    assert functions["linear"] is disguised
    ops = CountedOps(functions)
    ops.linear(np.ones((1, 1), F), None)
    assert "test_receipt.py" in ops.counts()["linear"].implementation


def cpu_ops():
    return CountedOps({name: getattr(importlib.import_module(f"minidecode.cpu.{file}"), name)
                       for file, name in (("linear", "linear"), ("cross_kv", "project_cross_kv"),
                                           ("append", "append_kv"),
                                          ("epilogue", "linear_epilogue"), ("activation", "bias_activation"),
                                          ("top_k", "top_k_filter"))})  # fmt: skip


def test_a_product_says_which_code_each_of_its_calls_ran(monkeypatch):
    """Few rows run compiled loops, many the BLAS; counted where either is called, so that no name vouches for it."""
    monkeypatch.setattr(cpu_linear, "SMALL", 0)
    ops, weight = cpu_ops(), Weight(np.ones((8, 9), F), layout="oi")
    for rows in (1, 4, 500, 500, 500):
        ops.linear(np.ones((rows, 9), F), weight)
    assert ops.counts()["linear"].code_paths == {"compiled": 2, "BLAS": 3}
    ops.linear(np.ones((500, 9), F), stored_weight("int8", Weight(np.ones((9, 8), F))))
    ops.linear(np.ones((0, 9), F), weight)  # runs neither
    assert ops.counts()["linear"].code_paths == {"compiled": 2, "BLAS": 3, "BLAS on cast weights": 1}
    receipt = Receipt("fast", ops=ops.counts())
    assert "(linear.py:" in str(receipt) and "): 2 compiled, 3 BLAS, 1 BLAS on cast weights" in str(receipt)
    assert json.loads(json.dumps(receipt.as_dict()))["ops"]["linear"]["code_paths"]["BLAS"] == 3

    monkeypatch.setattr(cpu_linear, "_is_few", lambda rows, weight: False)  # what decides is not asked
    ops.linear(np.ones((1, 9), F), weight)
    assert ops.counts()["linear"].code_paths["BLAS"] == 4


def test_ops_around_a_product_and_others_that_choose_say_so_too(monkeypatch):
    monkeypatch.setattr(cpu_linear, "SMALL", 0)
    ops, heads = cpu_ops(), Heads(2, 2, 2, 2, 1.0)
    for dtype in (F, np.float64):
        weight = Weight(np.ones((8, 9), dtype), np.ones(8, dtype), layout="oi")
        ops.linear_epilogue(np.ones((4, 9), dtype), weight)
        ops.bias_activation(np.ones((4, 8), dtype), None, "relu")
        memory = np.ones((4, 2, 3, 2), dtype)
        ops.append_kv(np.ones((4, 12), dtype), np.ones(12, dtype), heads, memory, memory, np.zeros(4, np.int64))
    ops.project_cross_kv(np.ones((500, 9), F), Weight(np.ones((8, 9), F), layout="oi"), heads)
    for k in (3, 300):
        ops.top_k_filter(np.zeros((2, 1000), F), k)
    paths = {name: count.code_paths for name, count in ops.counts().items()}
    both = {"compiled": 1, "NumPy": 1}
    assert paths == {"linear_epilogue": both, "bias_activation": both, "append_kv": both, "top_k_filter": both,
                     "project_cross_kv": {"BLAS": 1}}  # fmt: skip


def test_generations_in_several_threads_count_their_own_calls(monkeypatch):
    monkeypatch.setattr(cpu_linear, "SMALL", 0)
    weight, found = Weight(np.ones((8, 9), F), layout="oi"), {}

    def generate(n):
        ops = cpu_ops()
        for _ in range(50):
            ops.linear(np.ones((1 if n % 2 else 500, 9), F), weight)
        found[n] = ops.counts()["linear"].code_paths

    threads = [threading.Thread(target=generate, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {0: {"BLAS": 50}, 1: {"compiled": 50}, 2: {"BLAS": 50}, 3: {"compiled": 50}}


def test_outside_of_a_generation_nothing_is_counted():
    ops = cpu_ops()
    ops.linear(np.ones((500, 9), F), Weight(np.ones((8, 9), F), layout="oi"))
    cpu_linear.linear(np.ones((500, 9), F), Weight(np.ones((8, 9), F), layout="oi"))
    assert ops.counts()["linear"].code_paths == {"BLAS": 1}


def test_every_compiled_op_that_may_call_the_reference_counts_it():
    """Each call of an op of reference/ in cpu/ stands behind `count_call`."""
    for path in Path(cpu_linear.__file__).parent.glob("*.py"):
        lines = path.read_text(encoding="utf-8").splitlines()
        for before, line in itertools.pairwise(lines):
            if re.match(r" +(y_RX = |return )reference\.\w+\(", line):
                assert before.strip().startswith("count_call("), f"{path.name}: {line.strip()}"
