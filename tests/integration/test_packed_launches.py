"""Launches that pack their arguments themselves: what the driver would get, without a driver."""

import ctypes
import errno
import gc
import os
import re
import struct
import subprocess
import sys
import threading
import weakref
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from numba import cuda, float32
from taped_ops import references_on_tape
from test_device import make

import minidecode as md
from minidecode.cuda.linear_int8 import round_rows
from minidecode.cuda.norm import norm_block_per_row
from minidecode.device import arrays, kernels, launch, library_rows, packing, sources
from minidecode.device.arrays import fetch, put
from minidecode.device.graphs import GraphCounts
from minidecode.device.packing import KEPT, SCALARS, pack_and_unpack, packed_length_of_type, type_of_argument
from minidecode.errors import DeviceError, EmulationError, OptionError
from minidecode.methods.out_of_memory import retry_after_freeing
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


FORMS = {"boolean": "?7x", "int64": "q", "int32": "i4x", "float32": "f4x", "float64": "d"}


@cuda.jit
def add(x_X, y_X, n, factor, flag):
    i = cuda.grid(1)
    if i < n and flag:
        y_X[i] += factor * x_X[i]


@pytest.fixture
def seen(monkeypatch):
    """What was launched: (grid, block, stream, numbers as the driver reads them), by a driver that does nothing."""
    launches = []

    def loaded(kernel, types):
        size = 8 * sum(map(packed_length_of_type, types))
        form = "=" + "".join("q" * packed_length_of_type(k) if len(k) == 3 else FORMS[k[0]] for k in types)

        def call(function, *given):
            *sizes, shared, stream, table, extra = given
            assert (function, len(sizes), shared, extra) == ("the function", 6, 0, 0)
            places = list((ctypes.c_void_p * (size // 8)).from_address(table))
            assert places == [places[0] + 8 * k for k in range(size // 8)], "a pointer for every eight bytes"
            read = struct.unpack(form, ctypes.string_at(places[0], size))
            launches.append((types, tuple(sizes[:3]), tuple(sizes[3:]), stream, read))
            return (0,)

        return kernels.make_launcher(call, "the function", "add", size)

    monkeypatch.setattr(kernels, "load_kernel", loaded)
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
    assert type_of_argument(Array(part)) == ("float32", part.ndim, layout)
    assert [types[0] for types, *_ in seen] == [("float32", 2, "C"), *[("float32", part.ndim, layout)] * 2]
    assert seen[1][-1] == (0, 0, part.size, 4, part.ctypes.data, *part.shape, *part.strides)
    assert len(kernels._LOADED) == (1 if type_of_argument(Array(part)) == ("float32", 2, "C") else 2)


@pytest.mark.parametrize(
    "scalar", [True, 3, 2.5, np.float32(2.5), np.int32(-3), np.int64(-3), np.bool_(True)], ids=repr
)
def test_scalars_keep_their_width(seen, scalar):
    launch.launch(add, 1, 1, Array(np.zeros(1)), scalar)
    ((types, *_, values),) = seen
    assert types[1] == (SCALARS[type(scalar)][0],) and values[-1] == scalar


def test_a_second_gpu_in_one_process_is_refused(seen, monkeypatch):
    """When a model is loaded, when one is called and at a thread's first launch: code is loaded onto the first GPU."""
    current = [1]
    runtime = SimpleNamespace(getDevice=lambda: current[0], free=lambda address: None)
    stream = SimpleNamespace(ptr=5)
    cuda_of_cupy = SimpleNamespace(runtime=runtime, get_current_stream=lambda: stream)
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=cuda_of_cupy))
    monkeypatch.setattr(arrays, "_why_no_cuda", lambda: None)
    monkeypatch.delattr(kernels._THREAD, "ready")
    model = SimpleNamespace(device="cuda", buckets=SimpleNamespace(idle=[]))
    doors = {
        "load": lambda: arrays.chosen_device("cuda"),
        "auto": lambda: arrays.chosen_device("auto"),
        "call": lambda: retry_after_freeing(launch.STREAM.get, [model], what=str),
        "launch": lambda: launch.launch(add, 1, 1, Array(np.zeros(1))),
    }
    for door in doors.values():
        with pytest.raises(DeviceError, match=r"GPU 1 is current in this thread, .* by CUDA_VISIBLE_DEVICES$"):
            door()
    assert seen == []
    current[0] = 0
    assert [door() for door in doors.values()] == ["cuda", "cuda", 5, None] and len(seen) == 1


def test_an_empty_grid_launches_nothing(seen):
    launch.launch(add, 0, 1, Array(np.zeros(1)))
    launch.launch(add, (3, 0), 1, Array(np.zeros(1)))
    assert seen == []


# ---- packed forms that are kept --------------------------------------------------------------------------------------


def test_an_array_that_recurs_is_packed_once(seen, monkeypatch):
    x = Array(np.zeros(3, np.float32))
    launch.launch(add, 1, 1, x)
    monkeypatch.setattr(kernels, "packed_form", None)
    launch.launch(add, 1, 1, x)
    assert seen[0] == seen[1]


def test_a_packed_form_keeps_no_array_alive(seen):
    x = Array(np.zeros(3, np.float32))
    launch.launch(add, 1, 1, x)
    gone = weakref.ref(x)
    assert KEPT[id(x)][0] is gone
    del x
    gc.collect()
    assert gone() is None


def test_forms_of_arrays_that_are_gone_are_thrown_away(seen, monkeypatch):
    monkeypatch.setattr(packing, "KEPT", kept := {})
    monkeypatch.setattr(kernels, "KEPT", kept)
    monkeypatch.setattr(packing, "_limit", [packing.MANY_FORMS])
    stays = [Array(np.zeros(3, np.float32)) for _ in range(10)]
    for array in stays:
        launch.launch(add, 1, 1, array)
    for _ in range(3 * packing.MANY_FORMS // 100):
        for array in [Array(np.zeros(3, np.float32)) for _ in range(100)]:
            launch.launch(add, 1, 1, array)
        assert len(kept) <= packing.MANY_FORMS
    assert all(kept[id(array)][0]() is array for array in stays)


def test_an_array_of_another_ones_id_is_packed_anew(seen):
    """As where an id recurs; and where the array's own shape was assigned."""
    x, y = (Array(np.zeros((2, 2), np.float32)) for _ in range(2))
    launch.launch(add, 1, 1, x)
    KEPT[id(y)] = KEPT[id(x)]
    launch.launch(add, 1, 1, y)
    assert seen[1][-1] == (0, 0, 4, 4, y.data.ptr, 2, 2, 8, 4)
    y.shape, y.strides, y.flags = (4,), (4,), np.zeros(4).flags
    launch.launch(add, 1, 1, y)
    assert seen[2][0] == [("float32", 1, "C")] and seen[2][-1] == (0, 0, 4, 4, y.data.ptr, 4, 4)


def test_ids_that_recur_never_meet_an_old_form(seen):
    for k in range(2000):
        shape = (k % 7 + 1, k % 3 + 1)
        array = Array(np.zeros(shape, np.float32))
        launch.launch(add, 1, 1, array)
        assert seen[-1][-1][4:7] == (array.data.ptr, *shape)
        del array


def test_threads_launch_beside_each_other(seen):
    """Every thread with arrays of its own and some that all share; each launch reads what its own thread handed in."""
    shared, wrong = [Array(np.zeros(k + 1, np.float32)) for k in range(4)], []

    def work(rows):
        kernels._THREAD.ready = True
        try:
            for k in range(300):
                mine = Array(np.zeros((rows, k + 1), np.float32))
                launch.launch(add, rows, k + 1, mine, shared[k % 4], k)
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(rows,)) for rows in (1, 2, 3, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and len(seen) == 1200
    for _, (rows, *_), (length, *_), _, values in seen:
        assert values[5:7] == (rows, length) and values[-1] == length - 1
        assert values[13:15] == (shared[(length - 1) % 4].data.ptr, (length - 1) % 4 + 1)


def test_no_two_types_have_one_number():
    numbers = [
        packing.number_of_type(("float32", ndim, layout)) for ndim in range(6) for layout in "CFA" for _ in range(2)
    ]
    assert len(set(numbers)) == 18 and all(packing.TYPES[n][0] == "float32" for n in numbers)


# ---- what the emulated device reads ----------------------------------------------------------------------------------

VIEWS = {
    "whole": lambda a: a,
    "a row": lambda a: a[2],
    "rows": lambda a: a[1:3],
    "columns": lambda a: a[:, 1:4],
    "every second": lambda a: a[:, ::2],
    "backwards": lambda a: a[::-1, ::-1],
    "turned": lambda a: a.T,
    "one number": lambda a: a[3, 4],
    "none": lambda a: a[4:],
    "one row, wide": lambda a: a[2:3, 1:3],
    "repeated": lambda a: np.broadcast_to(a[0], (3, 6)),
}


def numbers(order="C"):
    return np.array(np.arange(24, dtype=np.float32).reshape(4, 6), order=order)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_kernels_of_the_emulated_device_read_what_was_packed(view, order):
    there = view(put(numbers(order), "emulator"))
    want = view(numbers(order))
    (read,) = pack_and_unpack(add, (there,))
    assert read.shape == want.shape and read.dtype == want.dtype and np.array_equal(read, want)
    assert read.flags.c_contiguous == want.flags.c_contiguous
    if read.size and there.there.flags.writeable:
        read[...] = -1
        assert (fetch(there) == -1).all(), "it is the same memory"


def test_scalars_are_read_with_their_types():
    given = (True, 3, 2.5, np.float32(0.1), np.int32(-3), np.int64(2**40), np.bool_(False))
    read = pack_and_unpack(add, (put(np.zeros(1), "emulator"), *given))[1:]
    assert read == given and list(map(type, read)) == list(map(type, given))
    with pytest.raises(OptionError, match="no float16 by itself"):
        pack_and_unpack(add, (np.float16(1),))


def repacked(monkeypatch, change):
    """From now on numbers are packed so: (number of the type, the form's numbers) -> its numbers."""
    form = packing.packed_form

    def wrong(argument):
        number, packed = form(argument)
        values = list(struct.unpack(f"={len(packed) // 8}q", packed))
        KEPT.clear()
        if len(values) > 1:
            change(values)
        return number, struct.pack(f"={len(values)}q", *values)

    monkeypatch.setattr(packing, "packed_form", wrong)


def test_a_wrong_offset_is_found_without_a_gpu(monkeypatch):
    """Inside the memory by wrong numbers, beyond it by an error."""
    x = put(numbers(), "emulator")
    with monkeypatch.context() as patch:
        repacked(patch, lambda values: values.__setitem__(4, values[4] + 4))
        with pytest.raises(EmulationError, match="beyond the array's memory, from byte 4 of 96 on"):
            pack_and_unpack(add, (x,))
        assert pack_and_unpack(add, (x[0],))[0].tolist() == [1, 2, 3, 4, 5, 6]
        with pytest.raises(EmulationError, match="beyond the array's memory"):
            repacked(patch, lambda values: values.__setitem__(4, x.data.ptr - 8))
            pack_and_unpack(add, (x[0],))


@pytest.mark.parametrize("at", [5, 6, 7, 8, 2, 3], ids=["rows", "columns", "stride", "last stride", "size", "itemsize"])
@pytest.mark.parametrize("view", [lambda a: a, lambda a: a[:, :4], lambda a: a.T], ids=["C", "A", "F"])
def test_a_wrong_shape_or_stride_is_found_without_a_gpu(monkeypatch, at, view):
    there, want = view(put(numbers(), "emulator")), view(numbers())
    repacked(monkeypatch, lambda values: values.__setitem__(at, values[at] - values[at] // 2))
    try:
        (read,) = pack_and_unpack(add, (there,))
    except EmulationError:
        return
    assert not np.array_equal(read, want), "it went unnoticed"


def test_a_layout_that_is_not_the_arrays_is_found_without_a_gpu(monkeypatch):
    """Compiled code for C never reads the strides: a view with gaps would be read at the wrong places."""
    monkeypatch.setattr(packing, "type_of_argument", lambda array: (array.dtype.name, array.ndim, "C"))
    monkeypatch.setattr(packing, "_DESCRIBED", {})
    x = put(numbers(), "emulator")
    pack_and_unpack(add, (x,))
    with pytest.raises(EmulationError, match=r"strides \(24, 8\) was packed as float32 in layout C"):
        pack_and_unpack(add, (x[:, ::2],))


@pytest.mark.parametrize("device", ["emulator", "cpu"])
def test_gaps_that_a_signature_forbids_are_refused_on_a_device(device):
    big = put(np.ones((2, 16), np.float32), device)
    rest = np.float32(127), put(np.zeros((2, 8), np.int8), device), put(np.ones(2, np.float32), device)
    launch.launch(round_rows, 2, 128, big[:, :8].copy(), *rest)
    assert fetch(rest[1]).tolist() == [[127] * 8] * 2
    if device == "cpu":  # an array of the host's may lie anyhow
        return launch.launch(round_rows, 2, 128, big[:, ::2], *rest)
    says = r"round_rows: x_RX has gaps .* array\(float32, 2d, C\): make it contiguous first"
    with pytest.raises(EmulationError, match=says):
        launch.launch(round_rows, 2, 128, big[:, ::2], *rest)


# ---- machine code ----------------------------------------------------------------------------------------------------


def made(rows):
    @cuda.jit
    def kernel(x_X):
        for r in range(rows):
            x_X[r] = r

    return kernel


def test_kernels_of_one_source_with_other_numbers_have_files_of_their_own():
    prints = [kernels._fingerprint_of_closure(made(rows).py_func) for rows in (1, 2, 1)]
    assert prints[0] != prints[1] and prints[0] == prints[2]
    assert kernels._fingerprint_of_closure(norm_block_per_row.py_func).startswith("minidecode.cuda.norm.")


@pytest.fixture
def copied_sources(tmp_path, monkeypatch):
    """The files that kernels are compiled from, elsewhere."""
    for path in (path for pattern in kernels.SOURCES for path in sources.PACKAGE.glob(pattern)):
        copy = tmp_path / path.relative_to(sources.PACKAGE)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(path.read_bytes())
    monkeypatch.setattr(sources, "PACKAGE", tmp_path)
    forget_sources()
    yield tmp_path
    forget_sources()


def forget_sources():
    """As in a new process."""
    sources.hash_of_sources.cache_clear()
    sources._stamps_at_first.cache_clear()


@pytest.mark.parametrize("file", ["cuda/norm.py", "cuda/common/rows.py", "reference/__init__.py", "ops.py"])
def test_other_sources_have_other_machine_code(copied_sources, file):
    """Of one letter in a comment, or of a name: a kernel of today would run for one that was compiled before."""
    path, before = copied_sources / file, sources.hash_of_sources(kernels.SOURCES)
    source = path.read_bytes()
    for change in (lambda: path.write_bytes(source.swapcase()), lambda: path.rename(path.with_name("other.py"))):
        path.write_bytes(source)
        change()
        sources.hash_of_sources.cache_clear()
        assert sources.hash_of_sources(kernels.SOURCES) != before
    path.with_name("other.py").rename(path)
    sources.hash_of_sources.cache_clear()
    assert sources.hash_of_sources(kernels.SOURCES) == before


@pytest.mark.parametrize("file", ["cuda/norm.py", "cuda/common/rows.py", "reference/__init__.py", "ops.py"])
@pytest.mark.parametrize("change", [
    lambda path: path.write_bytes(path.read_bytes().swapcase()), lambda path: path.write_bytes(b""),
    lambda path: path.unlink(), lambda path: os.utime(path, ns=(1, 1)),
], ids=["edited", "emptied", "gone", "replaced by an older file"])  # fmt: skip
def test_a_process_with_changed_sources_keeps_no_machine_code(copied_sources, monkeypatch, change, file):
    """It runs what it imported. Under the name of today's files the next process would run that, too."""
    monkeypatch.setattr(kernels, "versions_of_compilers", lambda: "one")
    sources.hash_of_sources(kernels.SOURCES)
    for _ in range(2):
        assert kernels._file_of_machine_code(norm_block_per_row, []) is not None
    change(copied_sources / file)
    assert kernels._file_of_machine_code(norm_block_per_row, []) is None
    forget_sources()
    assert kernels._file_of_machine_code(norm_block_per_row, []) is not None, "of a new process"


def test_sources_are_looked_at_before_kernels_are_imported():
    """What is edited between that and the first launch has changed."""
    code = (
        "import sys; from minidecode.device import kernels, sources; import minidecode.cuda;"
        "sys.exit(not sources._stamps_at_first.cache_info().currsize or 'minidecode.cuda.norm' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_machine_code_is_named_by_all_that_it_depends_on(monkeypatch):
    """Argument types, options of the compiler, versions and the architecture."""
    monkeypatch.setattr(kernels, "versions_of_compilers", lambda: "one")
    a, b = ([(float32[:, ::1],) * n] for n in (2, 3))
    named = kernels._file_of_machine_code(norm_block_per_row, a)
    assert named is not None and kernels._file_of_machine_code(norm_block_per_row, a) == named
    others = [kernels._file_of_machine_code(norm_block_per_row, b)]
    with monkeypatch.context() as patch:
        patch.setattr(kernels, "versions_of_compilers", lambda: "two")
        others.append(kernels._file_of_machine_code(norm_block_per_row, a))
    with monkeypatch.context() as patch:
        patch.setitem(norm_block_per_row.targetoptions, "max_registers", 17)
        others.append(kernels._file_of_machine_code(norm_block_per_row, a))
    with monkeypatch.context() as patch:
        patch.setattr(kernels, "hash_of_sources", lambda patterns: "other")
        others.append(kernels._file_of_machine_code(norm_block_per_row, a))
    assert len({named, *others}) == 5
    assert kernels._file_of_machine_code(made(1), a) is None, "whose file is not ours: its sources are not known"


def test_machine_code_is_written_whole_or_not_at_all(tmp_path):
    kernels.write_whole(tmp_path / "folder" / "a.cubin", b"name\ncode")
    assert (tmp_path / "folder" / "a.cubin").read_bytes() == b"name\ncode"
    (tmp_path / "file").write_text("")
    kernels.write_whole(tmp_path / "file" / "b.cubin", b"name\ncode")  # no folder can be made there: no error
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["a.cubin", "file", "folder"]


@pytest.mark.parametrize("stop", [OSError(errno.ENOSPC, "no space left on device"), KeyboardInterrupt()], ids=repr)
def test_what_was_half_written_goes(tmp_path, monkeypatch, stop):
    """On a full disk, each kernel of each process would leave a piece."""
    write = Path.write_bytes

    def write_half(path, content):
        write(path, content[: len(content) // 2])
        raise stop

    monkeypatch.setattr(Path, "write_bytes", write_half)
    with pytest.raises(KeyboardInterrupt) if isinstance(stop, KeyboardInterrupt) else nullcontext():
        kernels.write_whole(tmp_path / "a.cubin", b"name\ncode")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform == "win32", reason="no modes")
def test_others_may_read_what_one_user_compiled(tmp_path):
    """As all new files, by the umask: root compiles or measures while an image is built, and another user runs."""
    (tmp_path / "new").write_bytes(b"")
    kernels.write_whole(tmp_path / "a.cubin", b"name\ncode")
    assert (tmp_path / "a.cubin").stat().st_mode == (tmp_path / "new").stat().st_mode


# ---- Numba's own way -------------------------------------------------------------------------------------------------


def said_both_ways(model, **how):
    """What a generation of each way of launching says."""
    plans = [f"cuda,graphs=off,launch={way}" for way in ("packed", "numba")]
    return [model.generate(plan=plan, **how) for plan in plans]


def test_numbas_way_is_a_choice_of_the_plan(monkeypatch):
    """On the emulated device, kernels then see arrays as they are: nothing is packed."""
    packs, form = [], packing.packed_form
    monkeypatch.setattr(packing, "packed_form", lambda a: packs.append(launch.WAY.get()) or form(a))
    packed, numba = said_both_ways(make("gpt2", "emulator"), input_ids=[[5, 6]], max_new_tokens=1)
    assert set(packs) == {"packed"} and packed.token_ids[0].tolist() == numba.token_ids[0].tolist()
    assert "launch=numba" in str(numba.receipt.plan) and "launch" not in str(packed.receipt.plan)
    assert packed.receipt.launches == numba.receipt.launches


def test_numba_is_handed_cupys_arrays_as_its_own_and_the_stream(monkeypatch):
    handed = []

    class Kernel:
        def __getitem__(self, configuration):
            return lambda *arguments: handed.append((configuration, arguments))

    monkeypatch.setattr(cuda, "as_cuda_array", lambda array, sync: ("converted", array, sync))
    monkeypatch.setattr(cuda, "external_stream", lambda number: ("stream", number))
    x, kernel = Array(np.zeros(3)), Kernel()
    op = launch.with_numba_launches(lambda: launch.launch(kernel, 4, 32, x, 6))
    token = launch.STREAM.set(17)
    try:
        op()
    finally:
        launch.STREAM.reset(token)
    assert handed == [((4, 32, ("stream", 17)), (("converted", x, False), 6))]
    assert launch.WAY.get() == "packed"


def test_a_kept_step_finds_the_functions_of_numbas_way_again():
    first, second = (md.Plan.parse("cuda,launch=numba").resolve(device="emulator")[0] for _ in range(2))
    assert first == second and all(isinstance(f, launch.ByNumba | launch.OnHost) for f in first.values())


@pytest.mark.gpu
def test_both_ways_of_launching_say_the_same_on_a_gpu():
    packed, numba = said_both_ways(make("gpt2", "cuda"), input_ids=[[5, 6]], max_new_tokens=8, num_beams=2)
    assert packed.token_ids[0].tolist() == numba.token_ids[0].tolist()
    assert np.array_equal(packed.scores, numba.scores)


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
    assert re.search(r"\nkernels: \d\.\d{3} s loaded 1 kernel; later calls have them", str(first))
    assert "kernels:" not in str(second)


def test_without_a_folder_nothing_is_kept_and_all_runs(monkeypatch):
    def refuse(function):
        raise RuntimeError("cannot cache function: no locator available for file")

    monkeypatch.setattr("numba.cuda.dispatcher.CUDACache", refuse)
    monkeypatch.setattr("numba.cuda.get_current_device", lambda: SimpleNamespace(name="a GPU"))
    monkeypatch.setattr(kernels, "versions_of_compilers", lambda: "")
    monkeypatch.setattr(library_rows, "versions_of_compilers", lambda: "")
    assert kernels._file_of_machine_code(norm_block_per_row, []) is None
    library_rows.measured_library_rows.cache_clear()
    assert library_rows.measured_library_rows() == {} and library_rows.save_library_rows({"float16": 3}) is None
    library_rows.measured_library_rows.cache_clear()


def test_what_was_compiled_is_noted_beside_what_was_on_disk(monkeypatch, tmp_path):
    built = SimpleNamespace(entry_name="add", _codelibrary=SimpleNamespace(get_cubin=lambda: b"code"))
    monkeypatch.setattr("numba.cuda.dispatcher._Kernel", lambda *args, **options: built)
    monkeypatch.setattr(kernels, "numba_types", lambda types: types)
    monkeypatch.setattr(kernels, "_file_of_machine_code", lambda kernel, types: tmp_path / "add.cubin")
    with kernels.noted_loading() as loading:
        assert [kernels.machine_code(add, []) for _ in range(2)] == [(b"code", "add")] * 2
    for damaged in (b"", b"add", (tmp_path / "add.cubin").read_bytes()[:-1]):  # as a power cut leaves it
        (tmp_path / "add.cubin").write_bytes(damaged)
        assert [kernels.machine_code(add, []) for _ in range(2)] == [(b"code", "add")] * 2
        assert (tmp_path / "add.cubin").read_bytes().endswith(b"\ncode")
    assert loading.compiled == 1 and loading.compile_seconds > 0
    assert "0 kernels, 0." in str(loading) and str(loading).endswith("s of it to compile 1; later calls have them")
