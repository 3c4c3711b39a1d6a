"""Handles and workspaces of cuBLAS, by stand-ins for nvmath and CuPy: one of each for a thread, a graph's own in it.

What cuBLAS's manual says of them: cublasSetStream takes the workspace away, and a handle, or a workspace, serves one
thread at a time.
"""

import contextlib
import gc
import itertools
import sys
import threading
import types
from typing import NamedTuple

import numpy as np
import pytest

from minidecode.device import graphs, matmul
from minidecode.device.graphs import CaptureError, capture_and_run
from minidecode.device.launch import STREAM, counted_launches
from minidecode.device.out_of_memory import MemoryOfGraphs
from minidecode.within import set_within


class Product(NamedTuple):
    handle: int
    stream: int
    workspace: tuple[int, int] | None  # address and bytes; None: cuBLAS's own, which no capture takes


class Cublas(types.ModuleType):
    """nvmath.bindings.cublas: what each handle has, and what each product ran with."""

    def __init__(self):
        super().__init__("nvmath.bindings.cublas")
        self.streams, self.workspaces, self.destroyed = {}, {}, []
        self.said, self.products = [], []
        self.numbers = itertools.count(1)

    def get_cudart_version(self):
        return 13000

    def create(self):
        handle = next(self.numbers)
        self.streams[handle], self.workspaces[handle] = 0, None
        return handle

    def destroy(self, handle):
        del self.streams[handle], self.workspaces[handle]
        self.destroyed.append(handle)

    def set_stream(self, handle, stream):
        self.said.append("stream")
        self.streams[handle], self.workspaces[handle] = stream, None

    def set_workspace(self, handle, address, size):
        self.said.append("workspace")
        self.workspaces[handle] = address, size

    def gemm_ex(self, handle, *_):
        self.said.append("product")
        self.products.append(Product(handle, self.streams[handle], self.workspaces[handle]))

    gemm_strided_batched_ex = gemm_ex


class Block:
    """CuPy's memory: its pool has it again when it goes."""

    def __init__(self, pool, address, size):
        self.pool, self.ptr, self.size = pool, address, size

    def __del__(self):
        self.pool.held.remove((self.ptr, self.size))
        self.pool.free.append((self.ptr, self.size))


class Pool:
    """CuPy's pool of memory: what is free in it is lent again. No address stands for two memories in a test."""

    addresses = itertools.count(1 << 30, 1 << 30)

    def __init__(self, allocate=None):
        self.held, self.free = [], []

    def set_limit(self, size):
        assert size == 0

    def malloc(self, size):
        fitting = [block for block in self.free if block[1] == size]
        block = fitting[0] if fitting else (next(self.addresses), size)
        if fitting:
            self.free.remove(block)
        self.held.append(block)
        return Block(self, *block)

    def free_all_blocks(self):
        self.free.clear()

    def total_bytes(self):
        return sum(size for _, size in self.held + self.free)


class Stream:
    numbers = itertools.count(100)

    def __init__(self, non_blocking=False):
        self.ptr = next(self.numbers)

    __enter__ = __exit__ = synchronize = begin_capture = lambda self, *_: None

    def end_capture(self):
        return types.SimpleNamespace(launch=lambda: None)


class Cupy(types.ModuleType):
    """The part of CuPy that graphs and workspaces use."""

    def __init__(self):
        super().__init__("cupy")
        self.default, self.allocator = Pool(), []
        self.cuda = types.SimpleNamespace(
            alloc=lambda size: (self.allocator or [self.default.malloc])[-1](size),
            using_allocator=self.using_allocator,
            Stream=Stream,
            MemoryPool=Pool,
            get_current_stream=Stream,
        )

    @contextlib.contextmanager
    def using_allocator(self, malloc):
        self.allocator.append(malloc)
        try:
            yield
        finally:
            self.allocator.pop()

    def get_default_memory_pool(self):
        return self.default


@pytest.fixture
def cupy(monkeypatch):
    module = Cupy()
    monkeypatch.setitem(sys.modules, "cupy", module)
    return module


@pytest.fixture
def cublas(cupy, monkeypatch):
    module = Cublas()
    bindings = types.SimpleNamespace(cublas=module)
    for name, each in (("", types.ModuleType("nvmath")), (".bindings", bindings), (".bindings.cublas", module)):
        monkeypatch.setitem(sys.modules, f"nvmath{name}", each)
    monkeypatch.setattr(matmul, "_HANDLES", type(matmul._HANDLES)())
    monkeypatch.setattr(graphs, "MEMORY", MemoryOfGraphs())
    for cached in (matmul.cublas_functions, matmul.why_not_nvmath):
        cached.cache_clear()
    yield module
    for cached in (matmul.cublas_functions, matmul.why_not_nvmath):
        cached.cache_clear()


OPS = types.SimpleNamespace(functions={}, counted=dict, counts_since=lambda counted: {})


def multiply(shape=(2, 2)):
    """A product of what has the attributes of CuPy's arrays that are asked for."""
    array = np.zeros(shape, np.float32)
    like = {name: getattr(array, name) for name in ("shape", "strides", "itemsize", "dtype", "ndim")}
    on_device = types.SimpleNamespace(**like, data=types.SimpleNamespace(ptr=array.ctypes.data))
    matmul.matmul([(on_device, on_device, on_device)])


@pytest.mark.parametrize("shape", [(2, 2), (3, 2, 2)])
def test_a_product_has_the_stream_of_kernels_and_a_workspace_of_ours(cublas, shape):
    """The stream is set first, since that takes the workspace away; and again only where something else is wanted."""
    for stream in (0, 0, 7, 7, 0):
        with set_within(STREAM, stream):
            multiply(shape)
    assert [product.stream for product in cublas.products] == [0, 0, 7, 7, 0]
    (workspace,) = {product.workspace for product in cublas.products}
    assert workspace is not None and workspace[1] == matmul.WORKSPACE == 32 << 20
    assert len({product.handle for product in cublas.products}) == 1
    assert cublas.said == [*["stream", "workspace", "product", "product"] * 2, "stream", "workspace", "product"]


@pytest.mark.parametrize(
    ("lack", "says"),
    [
        (ImportError("No module named 'nvmath'"), "nvmath is not installed: pip install"),
        # what nvmath 1.0 raises without the library and without a driver: classes of its own, both RuntimeErrors
        (RuntimeError('Failure finding "libcublasLt.so.13"'), "nvmath cannot use cuBLAS (Failure finding"),
        (
            RuntimeError("CUDA driver is not found"),
            "nvmath cannot use cuBLAS (CUDA driver is not found): if it is not",
        ),
        (OSError("libcublas.so.13: invalid ELF header"), "nvmath cannot use cuBLAS (libcublas.so.13: invalid"),
    ],
    ids=str,
)
def test_where_nvmath_cannot_be_used_products_go_through_cupy_and_the_reason_is_said(
    cublas, cupy, monkeypatch, lack, says
):
    """nvmath's import loads no library: its first call looks for one."""

    def refuse():
        raise lack

    of_cupy = Cublas()
    of_cupy.gemmEx, of_cupy.gemmStridedBatchedEx = of_cupy.gemm_ex, of_cupy.gemm_strided_batched_ex
    of_cupy.streams[77], of_cupy.workspaces[77] = 0, None
    libs = types.SimpleNamespace(cublas=of_cupy)
    for name, module in {"": libs, ".cuda": libs, ".cuda.libs": libs, ".cuda.libs.cublas": of_cupy}.items():
        monkeypatch.setitem(sys.modules, f"cupy_backends{name}", module)
    cupy.cuda.device = types.SimpleNamespace(get_cublas_handle=lambda: 77)
    monkeypatch.setitem(sys.modules, "cupy.cuda", cupy.cuda)
    monkeypatch.setattr(cublas, "get_cudart_version", refuse)
    with counted_launches() as launches:
        multiply()
        multiply((3, 2, 2))
    assert dict(launches) == {matmul.BY_CUPY: 2} and cublas.said == [] and len(of_cupy.products) == 2
    captured, counts = graphs.Captured("cuda"), graphs.GraphCounts()
    with counted_launches():
        for _ in range(2):
            captured(OPS, counts, multiply)
    assert counts.captured == 0 and f"(cupy), which no graph can hold, and {says}" in counts.why_not


def test_a_workspace_within_which_cublas_works_is_set_and_taken_back(cublas, cupy):
    for workspace in (None, other := matmul.allocate_cublas_workspace(), None):
        with matmul.using_cublas_workspace(workspace):
            multiply()
    own, lent, again = (product.workspace for product in cublas.products)
    assert lent == (other.ptr, matmul.WORKSPACE) and own == again not in (None, lent)


def test_threads_have_a_handle_and_a_workspace_each(cublas, cupy):
    """Two that multiply at the same time; what a thread had goes with it."""
    both = threading.Barrier(2, timeout=60)
    multiply()

    def work():
        for _ in range(3):
            both.wait()
            multiply()

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    handles = {product.handle for product in cublas.products}
    workspace_of = {product.handle: product.workspace for product in cublas.products}
    assert len(handles) == len(set(workspace_of.values()) - {None}) == 3
    assert all(product.workspace == workspace_of[product.handle] for product in cublas.products)
    del thread, threads
    gc.collect()
    (mine,) = cublas.streams
    assert sorted(cublas.destroyed) == sorted(handles - {mine}) and mine == cublas.products[0].handle
    assert cupy.default.held == [workspace_of[mine]]


def test_a_graph_that_is_kept_has_a_workspace_of_its_own(cublas, cupy):
    """No other allocation gets it while the graph is there; it goes with the graph."""
    multiply()
    kept = [capture_and_run("cuda", multiply)[0] for _ in range(2)]
    multiply()
    before, *captured, after = cublas.products
    assert before == after and after.stream == 0
    assert len({product.stream for product in cublas.products}) == 3
    assert len({product.workspace for product in cublas.products} - {None}) == 3
    later = [matmul.allocate_cublas_workspace() for _ in range(4)]
    assert not {(block.ptr, block.size) for block in later} & {product.workspace for product in captured}
    graphs.MEMORY.give_back_unused()
    assert all(holds(graph.pool, product) for graph, product in zip(kept, captured, strict=True))
    pool = kept.pop().pool
    gc.collect()
    graphs.MEMORY.give_back_unused()
    assert pool.total_bytes() == 0 and len(graphs.MEMORY) == 1 and holds(kept[0].pool, captured[0])


def holds(pool, product):
    return product.workspace in pool.held + pool.free


def test_the_handle_is_there_before_a_capture_begins(cublas, monkeypatch):
    """The workspace of a thread is no graph's: it does not lie in the pool of the first one."""
    monkeypatch.setattr(Stream, "begin_capture", lambda _: cublas.said.append("capture begins"))
    graph, _ = capture_and_run("cuda", multiply)
    assert cublas.said[:3] == ["stream", "workspace", "capture begins"]
    multiply()
    assert not holds(graph.pool, cublas.products[-1])


def test_a_capture_that_fails_gives_its_workspace_back(cublas, cupy):
    pools = []

    def run():
        pools.append(cupy.allocator[-1].__self__)
        multiply()
        raise ValueError("refused")

    multiply()
    with pytest.raises(CaptureError):
        capture_and_run("cuda", run)
    multiply()
    before, captured, after = cublas.products
    assert before == after != captured
    gc.collect()
    graphs.MEMORY.give_back_unused()
    assert pools[0].total_bytes() == len(graphs.MEMORY) == 0
