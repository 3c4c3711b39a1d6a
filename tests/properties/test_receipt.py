"""What the receipt counts, to the byte."""

import functools

import numpy as np

from minidecode.ops import Norm, Weight
from minidecode.plan import Plan
from minidecode.reference import linear as linear_file
from minidecode.runtime.receipt import CountedOps, held_bytes

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
    assert count("take", wte, ids).bytes == 3 * 8 + 2 * 3 * 4 * 4
    x, weight = np.ones((3, 4), F), Weight(np.ones((4, 5), F), bias=np.ones(5, F))
    assert count("linear", x, weight).bytes == 4 * (3 * 4 + 4 * 5 + 3 * 5), "the bias belongs to the next op"
    target = np.ones((3, 5), F)
    assert count("linear", x, weight, add_to=target).bytes == 4 * (3 * 4 + 4 * 5 + 3 * 5), "each array once"
    tokens, length = np.zeros((2, 6), np.int64), np.array([6, 6])
    assert count("ban_ngrams", np.zeros((2, 50), F), tokens, length, 2).bytes == 8 * (2 * 6 + 2), "tokens, not scores"


def test_calls_and_seconds_add_up():
    ops = CountedOps(Plan().resolve()[0])
    for _ in range(3):
        ops.take(np.ones((1000, 1000), F), np.arange(1000))
    taken = ops.counts()["take"]
    once = count("take", np.ones((1000, 1000), F), np.arange(1000))
    assert taken.calls == 3 and taken.seconds > 0 and taken.bytes == 3 * once.bytes
    assert list(ops.counts()) == ["take"], "an op that was not called is not on the receipt"


def test_held_bytes_counts_whole_bases_once():
    base = np.zeros((10, 10), F)
    assert held_bytes([base[:2], base[5:, 1], base]) == base.nbytes
    assert held_bytes([base[:2], np.zeros(3, F)]) == base.nbytes + 12


def test_the_receipt_names_the_code_that_runs(monkeypatch):
    """Rebound in its own file, an op is replaced even if another file imported it before; a borrowed name shows."""
    from minidecode.reference import attention

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
