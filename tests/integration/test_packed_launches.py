"""Launches that pack their arguments themselves: what the driver would get, without a driver."""

import re
import struct
from types import SimpleNamespace

import numpy as np
import pytest
from numba import cuda, float32
from taped_ops import references_on_tape
from test_device import make

import minidecode as md
from minidecode.cuda.norm import norm_block_per_row
from minidecode.device import kernels, launch
from minidecode.device.graphs import GraphCounts
from minidecode.device.kernels import SCALARS, type_of
from minidecode.runtime import engine

__all__ = ["references_on_tape"]  # a fixture


class _Pointer:
    def __init__(self, ptr):
        self.ptr = ptr


class Array:
    """What a launch asks of an array of CuPy's."""

    def __init__(self, array):
        self.dtype, self.shape, self.strides, self.flags = array.dtype, array.shape, array.strides, array.flags
        self.data, self.itemsize = _Pointer(array.ctypes.data), array.itemsize


Array.__module__ = "cupy"


@cuda.jit
def add(x_X, y_X, n, factor, flag):
    i = cuda.grid(1)
    if i < n and flag:
        y_X[i] += factor * x_X[i]


@pytest.fixture
def seen(monkeypatch):
    """What was launched: (grid, block, stream, numbers as the driver reads them), by a driver that does nothing."""
    launches = []

    class Loaded(kernels.Loaded):
        def __init__(self, kernel, types):
            self.types, self.form = types, "=" + "".join(f for kind in types for f in kernels._formats(kind))

        def launch(self, grid, block, stream, values):
            packed = struct.pack(self.form, *values)
            assert len(packed) == 8 * len(values)
            launches.append((self.types, grid, block, stream, struct.unpack(self.form, packed)))

    monkeypatch.setattr(kernels, "Loaded", Loaded)
    monkeypatch.setattr(kernels, "_LOADED", {})
    monkeypatch.setattr(kernels._THREAD, "ready", True, raising=False)
    return launches


def test_an_array_is_seven_numbers_and_a_scalar_is_one(seen):
    x, y = np.zeros((3, 5), np.float32), np.zeros(7, np.int64)
    launch.launch(add, 4, (32, 2), Array(x), Array(y), 6, np.float32(0.5), True)
    ((types, grid, block, stream, values),) = seen
    assert types == [("float32", 2, "C"), ("int64", 1, "C"), ("int64",), ("float32",), ("boolean",)]
    assert (grid, block, stream) == ((4, 1, 1), (32, 2, 1), 0)
    assert values[:9] == (0, 0, 15, 4, x.ctypes.data, 3, 5, 20, 4)
    assert values[9:] == (0, 0, 7, 8, y.ctypes.data, 7, 8, 6, 0.5, True)


@pytest.mark.parametrize(("view", "layout"), [
    (lambda a: a, "C"), (lambda a: a.T, "F"), (lambda a: a[:, ::2], "A"), (lambda a: a[:, :3], "A"),
    (lambda a: a[1:], "C"), (lambda a: a[:1], "C"), (lambda a: a[:, 0], "A"),
])  # fmt: skip
def test_the_layout_is_part_of_what_code_is_kept_by(seen, view, layout):
    """Code for C never reads strides: a view with gaps that ran it would be read at the wrong places."""
    whole = np.arange(24, dtype=np.float32).reshape(4, 6)
    part = view(whole)
    for array in (whole, part, part):
        launch.launch(add, 1, 1, Array(array))
    assert type_of(Array(part)) == ("float32", part.ndim, layout)
    assert [types[0] for types, *_ in seen] == [("float32", 2, "C"), *[("float32", part.ndim, layout)] * 2]
    assert seen[1][-1] == (0, 0, part.size, 4, part.ctypes.data, *part.shape, *part.strides)
    assert len(kernels._LOADED) == (1 if type_of(Array(part)) == ("float32", 2, "C") else 2)


@pytest.mark.parametrize(
    "scalar", [True, 3, 2.5, np.float32(2.5), np.int32(-3), np.int64(-3), np.bool_(True)], ids=repr
)
def test_scalars_keep_their_width(seen, scalar):
    launch.launch(add, 1, 1, Array(np.zeros(1)), scalar)
    ((types, *_, values),) = seen
    assert types[1] == (SCALARS[type(scalar)][0],) and values[-1] == scalar


def test_an_empty_grid_launches_nothing(seen):
    launch.launch(add, 0, 1, Array(np.zeros(1)))
    launch.launch(add, (3, 0), 1, Array(np.zeros(1)))
    assert seen == []


def made(rows):
    @cuda.jit
    def kernel(x_X):
        for r in range(rows):
            x_X[r] = r

    return kernel


def test_kernels_of_one_source_with_other_numbers_have_files_of_their_own():
    prints = [kernels._fingerprint(made(rows).py_func) for rows in (1, 2, 1)]
    assert prints[0] != prints[1] and prints[0] == prints[2]
    assert kernels._fingerprint(norm_block_per_row.py_func).startswith("minidecode.cuda.norm.")


@pytest.fixture
def copied_sources(tmp_path, monkeypatch):
    """The files that kernels are compiled from, elsewhere."""
    for path in (path for pattern in kernels.SOURCES for path in kernels.PACKAGE.glob(pattern)):
        copy = tmp_path / path.relative_to(kernels.PACKAGE)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(path.read_bytes())
    monkeypatch.setattr(kernels, "PACKAGE", tmp_path)
    kernels.hash_of_sources.cache_clear()
    yield tmp_path
    kernels.hash_of_sources.cache_clear()


@pytest.mark.parametrize("file", ["cuda/norm.py", "cuda/common/rows.py", "reference/__init__.py", "ops.py"])
def test_other_sources_have_other_machine_code(copied_sources, file):
    """Of one letter in a comment, or of a name: a kernel of today would run for one that was compiled before."""
    path, before = copied_sources / file, kernels.hash_of_sources()
    source = path.read_bytes()
    for change in (lambda: path.write_bytes(source.swapcase()), lambda: path.rename(path.with_name("other.py"))):
        path.write_bytes(source)
        change()
        kernels.hash_of_sources.cache_clear()
        assert kernels.hash_of_sources() != before
    path.with_name("other.py").rename(path)
    kernels.hash_of_sources.cache_clear()
    assert kernels.hash_of_sources() == before


def test_machine_code_is_named_by_all_that_it_depends_on(monkeypatch):
    """Argument types, options of the compiler, versions and the architecture."""
    monkeypatch.setattr(kernels, "_versions", lambda: "one")
    a, b = ([(float32[:, ::1],) * n] for n in (2, 3))
    named = kernels._file_of(norm_block_per_row, a)
    assert named is not None and kernels._file_of(norm_block_per_row, a) == named
    others = [kernels._file_of(norm_block_per_row, b)]
    with monkeypatch.context() as patch:
        patch.setattr(kernels, "_versions", lambda: "two")
        others.append(kernels._file_of(norm_block_per_row, a))
    with monkeypatch.context() as patch:
        patch.setitem(norm_block_per_row.targetoptions, "max_registers", 17)
        others.append(kernels._file_of(norm_block_per_row, a))
    with monkeypatch.context() as patch:
        patch.setattr(kernels, "hash_of_sources", lambda: "other")
        others.append(kernels._file_of(norm_block_per_row, a))
    assert len({named, *others}) == 5
    assert kernels._file_of(made(1), a) is None, "whose file is not ours: its sources are not known"


def test_machine_code_is_written_whole_or_not_at_all(tmp_path):
    kernels._write(tmp_path / "folder" / "a.cubin", b"name\ncode")
    assert (tmp_path / "folder" / "a.cubin").read_bytes() == b"name\ncode"
    (tmp_path / "file").write_text("")
    kernels._write(tmp_path / "file" / "b.cubin", b"name\ncode")  # no folder can be made there: no error
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["a.cubin", "file", "folder"]


@pytest.mark.gpu
def test_both_ways_of_launching_say_the_same_on_a_gpu():
    import cupy

    how = {"max_new_tokens": 8, "num_beams": 2, "plan": "cuda,graphs=off"}
    model, said = md.load("tiny-gpt2", device="cuda"), []
    for way in ("packed", "numba"):
        token = launch.WAY.set(way)
        try:
            said.append(model.generate("Fellow citizens,", **how))
        finally:
            launch.WAY.reset(token)
    cupy.cuda.Device().synchronize()
    assert said[0].token_ids[0].tolist() == said[1].token_ids[0].tolist()
    assert np.array_equal(said[0].scores, said[1].scores)


def test_first_launches_are_noted_in_the_receipt(seen, monkeypatch, references_on_tape):
    """Each kernel once for each tuple of types, in the call that launched it first; on the CPU there are none."""
    x, y = (Array(np.zeros(3, np.float32)) for _ in range(2))
    right = GraphCounts

    def launching(*args, **named):  # in the middle of a generation
        launch.launch(add, 1, 1, x, y, 3, np.float32(1), True)
        return right(*args, **named)

    monkeypatch.setattr(engine, "GraphCounts", launching)
    there = make("gpt2", "emulator")
    first, second = (there.generate(input_ids=[[3]], max_new_tokens=1).receipt for _ in range(2))
    assert first.loading.kernels == 1 and first.loading.seconds > 0 == second.loading.kernels
    assert re.search(r"\nkernels: \d\.\d{3} s loaded 1 kernels; later calls have them", str(first))
    assert "kernels:" not in str(second)


def test_what_was_compiled_is_noted_beside_what_was_on_disk(monkeypatch, tmp_path):
    built = SimpleNamespace(entry_name="add", _codelibrary=SimpleNamespace(get_cubin=lambda: b"code"))
    monkeypatch.setattr("numba.cuda.dispatcher._Kernel", lambda *args, **options: built)
    monkeypatch.setattr(kernels, "numba_types", lambda types: types)
    monkeypatch.setattr(kernels, "_file_of", lambda kernel, types: tmp_path / "add.cubin")
    with kernels.noted_loading() as loading:
        assert [kernels.machine_code(add, []) for _ in range(2)] == [(b"code", "add")] * 2
    assert loading.compiled == 1 and loading.compile_seconds > 0
    assert "0 kernels, 0." in str(loading) and str(loading).endswith("s of it to compile 1; later calls have them")
