"""Launchers find no room of their own above 4 KiB if they are told where to write, and lent room for what lies between
their kernels: else a step on a GPU would allocate.

On a GPU by CuPy's memory hook. Without one the launchers run on NumPy's arrays with nothing launched, and tracemalloc
looks on: the same Python code asks for the same arrays. These are a step's ops; tests/integration/test_device_arena.py
looks at whole steps.
"""

import copy
import importlib
import inspect
import math
import pkgutil

import numpy as np
import pytest
from taken_bytes import peak_of

from minidecode import cuda, ops
from minidecode.bench.compare import copy_calls_to_device, implementations
from minidecode.catalog import CATALOG
from minidecode.conformance.rows import row_module
from minidecode.cuda.common import attention, warp_attention
from minidecode.cuda.common import rows as common_rows
from minidecode.device.launch import launch
from minidecode.device.matmul import matmul
from minidecode.plan import has_file_of_row

PAGE = 4096
ROWS = [
    name for name, row in CATALOG.items() if has_file_of_row(row, "cuda") and name not in ("prefill", "cross_kv")
]  # of a step
ASKS = {  # what these launchers keep between their kernels, at the sizes that the papers time
    "split": "softmaxes of ranges of positions, before they are merged",
    "shared": "the same",
    "el": "queries against hidden states, scores and sums, before and behind the library's products",
    "linear": "rows rounded to float16, for weights that lie input by input",
    "epilogue": "the same",
    "linear_int8": "rows in whole numbers, and what one of each stands for",
    "el_split": "queries against hidden states, and softmaxes of ranges",
    "candidates": "the scores that survive the threshold",
    "hars": "the same",
    "penalty": "what becomes of scores, before any is written",
    "sample": "the best of each slice of a row",
}


def told_where(row, function, arguments):
    """A call of the function that gives it its results' places; in place, if that is what the op does."""
    results = function(*arguments)
    if set(ops.RETURNS[row.op]) & set(row.changes):
        return lambda **lent: function(*arguments, **lent)
    assert "out" in inspect.signature(function).parameters
    return lambda **lent: function(*arguments, out=results, **lent)


def lender(function, like):
    """() -> what to call the function with: a workspace, if it takes one, that lends the same arrays at each call."""
    arrays = []

    def lent():
        free = iter(arrays)

        def workspace(shape, dtype):
            if (array := next(free, None)) is None:
                array = np.empty_like(like, dtype, order="C", shape=shape)
                arrays.append(array)
            return array

        return {"workspace": workspace}

    return lent if "workspace" in inspect.signature(function).parameters else dict


@pytest.mark.parametrize("name", ROWS)
@np.errstate(all="ignore")  # with nothing launched, NumPy computes with nonsense
def test_a_launcher_asks_for_no_large_array(name, monkeypatch):
    """Without a loan, what is said to ask for room finds it. Twice a page is let pass: objects of Python count too."""
    for info in pkgutil.walk_packages(cuda.__path__, "minidecode.cuda."):
        module = importlib.import_module(info.name)
        for launcher in (launch, matmul):
            if vars(module).get(launcher.__name__) is launcher:
                monkeypatch.setattr(module, launcher.__name__, lambda *_: None)
    row, arguments = CATALOG[name], row_module(name).make_paper_inputs()[0]
    function = implementations(row)["cuda"]
    call, lent = told_where(row, function, arguments), lender(function, np.empty(0))
    assert grown_by(call, lent) <= 2 * PAGE
    assert (grown_by(call, dict) > 2 * PAGE) == (name in ASKS)


def grown_by(call, lent) -> int:
    """Bytes that Python asks for in a call after the first one."""
    call(**lent())
    return peak_of(lambda: call(**lent()), 2 * PAGE)[1]


@pytest.mark.parametrize("name", [n for n in ROWS if lender(implementations(CATALOG[n])["cuda"], None) is not dict])
def test_room_may_hold_anything(name, monkeypatch):
    """What is lent comes full of nonsense; the answers are those over a launcher's own, in a few small cases."""
    for module in (attention, warp_attention):
        monkeypatch.setattr(module, "SHORTEST", 1)  # so that few positions are cut into ranges
    monkeypatch.setattr(common_rows, "LEAST", 1)  # and short rows into shares
    function, asked = implementations(CATALOG[name])["cuda"], 0

    def workspace(shape, dtype):
        nonlocal asked
        array = np.empty(shape, dtype)
        array.view(np.uint8)[...] = 0xFF  # of floats, a NaN
        asked += 1
        return array

    by_size = sorted(row_module(name).planted_cases(), key=lambda case: sum(getattr(a, "size", 0) for a in case))
    wide = [case for case in by_size if [np.shape(a)[3:] for a in case[1:3]] == [(16,), (16,)]]
    for arguments in by_size[:4] + by_size[6:7] + wide[:1]:  # softmax has shares from the seventh on
        expected = function(*copy.deepcopy(arguments))
        results = function(*copy.deepcopy(arguments), workspace=workspace)
        for mine, right in zip(*((r if isinstance(r, tuple) else (r,)) for r in (results, expected)), strict=True):
            np.testing.assert_array_equal(mine, right)
    assert asked


@pytest.mark.parametrize("positions", [100, 128, 1000, 40_000])
@pytest.mark.parametrize(("W", "H", "G"), [(1, 12, 12), (4, 12, 12), (4, 8, 1), (40, 3, 1)])
def test_room_for_a_batch_is_enough_for_what_is_left_of_it(positions, W, H, G):
    """Fewer caches are cut into more ranges each: what is asked for grows with their number all the same."""
    asked = [0]

    def workspace(shape, dtype):
        asked.append(math.prod(shape))
        return np.broadcast_to(np.float32(0), shape)

    def empty(*shape):
        return np.broadcast_to(np.float32(0), shape)

    for X in range(1, 600):
        k_XGMK, before = empty(X, G, positions, 8), asked[-1]
        partials_XRHX = attention.scratch_for_ranges(empty(X * W, H, 8), k_XGMK, k_XGMK, positions, workspace)
        assert asked[-1] >= before
        assert partials_XRHX is None or partials_XRHX.shape[1:] == (X * W, H, 10)
    assert (len(asked) > 1) == (positions >= 128)


@pytest.mark.gpu
@pytest.mark.parametrize("name", ROWS)
def test_no_block_above_4_kib_by_the_memory_hook(name):
    """Every request to CuPy's pool is seen, those too that it serves from blocks which it has."""
    cupy = pytest.importorskip("cupy")

    class Largest(cupy.cuda.MemoryHook):
        name, bytes = "largest", 0

        def malloc_preprocess(self, **asked):
            self.bytes = max(self.bytes, asked["size"])

    row = CATALOG[name]
    given = copy_calls_to_device({"cuda": implementations(row)["cuda"]}, row_module(name).make_paper_inputs()[0], cupy)
    call, lent = told_where(row, *given["cuda"]), lender(given["cuda"][0], cupy.empty(0))
    call(**lent())
    with Largest() as seen:
        call(**lent())
        cupy.cuda.get_current_stream().synchronize()
    assert seen.bytes <= PAGE
    with Largest() as seen:
        cupy.empty(PAGE + 1, cupy.uint8)
    assert seen.bytes > PAGE, "it sees what it should"
