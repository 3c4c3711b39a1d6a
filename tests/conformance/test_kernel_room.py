"""Launchers that are told where to write find no room of their own above 4 KiB: else a step on a GPU would allocate.

On a GPU by CuPy's memory hook. Without one the launchers run on NumPy's arrays with nothing launched, and tracemalloc
looks on: the same Python code asks for the same arrays. A whole step on a GPU does not exist yet; these are its ops.
"""

import importlib
import inspect
import pkgutil
import tracemalloc

import pytest

from minidecode import cuda, launch, ops
from minidecode.bench.compare import calls_on_device, implementations
from minidecode.catalog import CATALOG
from minidecode.conformance.rows import asked_of
from minidecode.plan import is_there

PAGE = 4096
ROWS = [name for name, row in CATALOG.items() if is_there(row, "cuda") and name not in ("within", "cross")]  # of a step
FINDS_ROOM = {  # what these launchers ask for between their kernels, at the sizes that the papers time
    "split": "softmaxes of ranges of positions, before they are merged",
    "shared": "the same",
    "grouped": "the same",
    "el": "queries against hidden states, scores and sums, before and behind the library's products",
    "el_split": "queries against hidden states, and softmaxes of ranges",
    "candidates": "the scores that survive the threshold",
    "hars": "the same",
    "draw": "the best of each slice of a row",
}


def told_where(row, function, arguments):
    """A call of the function that gives it its results' places; in place, if that is what the op does."""
    results = function(*arguments)
    if set(ops.RETURNS[row.op]) & set(row.changes):
        return lambda: function(*arguments)
    assert "out" in inspect.signature(function).parameters
    return lambda: function(*arguments, out=results)


@pytest.mark.parametrize("name", ROWS)
def test_a_launcher_asks_for_no_large_array(name, monkeypatch):
    """Both ways: what is said to find room does. Objects of Python count too, so twice a page is let pass."""
    for info in pkgutil.iter_modules(cuda.__path__):
        module = importlib.import_module(f"minidecode.cuda.{info.name}")
        for launcher in (launch.launch, launch.products):
            if vars(module).get(launcher.__name__) is launcher:
                monkeypatch.setattr(module, launcher.__name__, lambda *_: None)
    row = CATALOG[name]
    call = told_where(row, implementations(row)["cuda"], asked_of(name).paper_inputs()[0])
    call()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        call()
        grown = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    assert (grown > 2 * PAGE) == (name in FINDS_ROOM), f"{grown} bytes"


@pytest.mark.gpu
@pytest.mark.parametrize("name", [name for name in ROWS if name not in FINDS_ROOM])
def test_no_block_above_4_kib_by_the_memory_hook(name):
    """Every request to CuPy's pool is seen, those too that it serves from blocks which it has."""
    cupy = pytest.importorskip("cupy")

    class Largest(cupy.cuda.MemoryHook):
        name, bytes = "largest", 0

        def malloc_preprocess(self, **asked):
            self.bytes = max(self.bytes, asked["size"])

    row = CATALOG[name]
    given = calls_on_device(row, {"cuda": implementations(row)["cuda"]}, asked_of(name).paper_inputs()[0], cupy)
    call = told_where(row, *given["cuda"])
    call()
    with Largest() as seen:
        call()
        cupy.cuda.get_current_stream().synchronize()
    assert seen.bytes <= PAGE
    with Largest() as seen:
        cupy.empty(PAGE + 1, cupy.uint8)
    assert seen.bytes > PAGE, "it sees what it should"
