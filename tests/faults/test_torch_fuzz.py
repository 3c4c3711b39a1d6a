"""Damaged torch files at random: the reader refuses them, or reads what Python's own unpickler finds in them.

`damaged_file` and `outcome` are also what benchmarks/fuzz_torch_file.py runs 100,000 times.
"""

from __future__ import annotations

import io
import pickle
import pickletools
import random
import struct
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from taken_bytes import peak_of
from torch_writer import (
    EVERYTHING,
    ODICT,
    RIGHT,
    SIZES,
    STORAGES,
    TWO,
    called,
    emit,
    named,
    pickled,
    storage,
    stream,
    zip_file,
)

from minidecode import CheckpointError
from minidecode.files.stored import STORED_DTYPES
from minidecode.files.torch_file import named_tensors, read_torch_file
from minidecode.files.torch_pickle import GLOBALS, Storage, Tensor

# --- damage: (contents of the file, its pickle if only that is damaged) ---

LARGE = [0, 1, 12, 255, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**62, 2**63 - 1, 2**63, 2**64 - 1]
PIECES = [
    b"", b".", b"(", b"t", b"u", b"s", b"e", b"a", b"R", b"b", b"Q", b")", b"}", b"]", b"N", b"\x88", b"\x85", b"\x86",
    b"\x87", b"q\x00", b"q\x01", b"h\x00", b"h\x01", b"\x94", b"r\xff\xff\xff\xff", b"\x95" + bytes(8), b"\x80\x04",
    b"0", b"2", b"\x81", b"\x8f", b"G" + struct.pack(">d", 1.5), b"X\xff\xff\xff\xff", b"\x8a\xff", b"U\x010",
    *(emit(n) for n in [*LARGE, -1, 2, 3, 4, 6]), *map(emit, ["0", "1", "2", "3", "5", "storage", "state_dict"]),
    *map(named, GLOBALS), named("os.system"), emit("os") + emit("system") + b"\x93", ODICT, TWO,
    storage("0", "Float", 12), storage("3", "Double", 3), storage("2", "BFloat16", 3), emit((2, 3)), emit((3, 1)),
    called("torch.Size", (2, 3)), called("torch._utils._rebuild_parameter", TWO, True, ODICT),
    called("torch._utils._rebuild_tensor", storage("1", "Half", 6), 2, (2, 2), (1, 1)),
]  # fmt: skip
REMEMBERED = pickled({"a": TWO})[2:-1] + b"q\x00" + emit("b") + TWO + b"q\x01s" + emit("c") + b"h\x01s."


def split(pickle_bytes: bytes) -> list[bytes]:
    """A pickle's opcodes, each with its argument."""
    starts = [at for _, _, at in pickletools.genops(pickle_bytes)] + [len(pickle_bytes)]
    return [pickle_bytes[a:b] for a, b in pairwise(starts)]


PROGRAMS = [split(EVERYTHING), split(REMEMBERED)]


def contain(rng: random.Random, pickle_bytes: bytes, storages: dict[str, bytes]) -> bytes:
    """The pickle and its storages in one of the two containers, which is right itself."""
    if rng.random() < 0.5:
        return zip_file(pickle_bytes, storages)
    return stream(pickle_bytes, storages, SIZES | {"6": 1})


def opcodes_changed(rng: random.Random) -> tuple[bytes, bytes]:
    """Opcodes removed, doubled, exchanged or replaced by others, in a container that is right."""
    everything = rng.random() < 0.7
    program = list(PROGRAMS[0 if everything else 1])
    for _ in range(rng.choice([1, 1, 1, 2, 3, 6])):
        i, j = rng.randrange(len(program)), rng.randrange(len(program))
        match rng.randrange(5):
            case 0:
                program[i] = rng.choice(PIECES)
            case 1:
                program.insert(i, rng.choice(PIECES))
            case 2:
                del program[i]
            case 3:
                program[i], program[j] = program[j], program[i]
            case _:
                program[i] = program[j]
        program = program or [b"."]
    damaged = b"".join(program)
    return contain(rng, damaged, STORAGES if everything else {"0": STORAGES["0"]}), damaged


def numbers_changed(rng: random.Random) -> tuple[bytes, bytes]:
    """Other sizes, strides, offsets and counts: the opcodes stay right, so that the checks behind them are reached."""
    program = list(PROGRAMS[0])
    places = [i for i, piece in enumerate(program) if piece[:1] in (b"K", b"M", b"J", b"\x8a")]
    for i in rng.sample(places, rng.choice([1, 1, 2, 4])):
        program[i] = emit(rng.choice(LARGE) if rng.random() < 0.3 else rng.randrange(-2, 14))
    damaged = b"".join(program)
    return contain(rng, damaged, STORAGES), damaged


def storages_changed(rng: random.Random) -> tuple[bytes, None]:
    """Storages missing, added, shorter or longer than the pickle says."""
    storages = dict(STORAGES)
    key = rng.choice(list(storages))
    match rng.randrange(3):
        case 0:
            del storages[key]
        case 1:
            storages["6"] = storages.pop(key)
        case _:
            storages[key] = (storages[key] * 2)[: rng.randrange(100)]
    return contain(rng, EVERYTHING, storages), None


def bits_flipped(rng: random.Random) -> tuple[bytes, None]:
    contents = bytearray(rng.choice(list(RIGHT.values())))
    for _ in range(rng.randrange(1, 5)):
        contents[rng.randrange(len(contents))] ^= 1 << rng.randrange(8)
    return bytes(contents), None


def words_replaced(rng: random.Random) -> tuple[bytes, None]:
    """Other numbers of 2, 4 or 8 bytes: half of them in the last quarter, where a zip file has its directory."""
    contents = bytearray(rng.choice(list(RIGHT.values())))
    for _ in range(rng.randrange(1, 4)):
        size = rng.choice([2, 4, 8])
        at = rng.randrange(len(contents) * rng.choice([0, 3]) // 4, len(contents) - size)
        contents[at : at + size] = (rng.choice(LARGE) % 256**size).to_bytes(size, "little")
    return bytes(contents), None


def spliced(rng: random.Random) -> tuple[bytes, None]:
    """A piece of the file replaced by noise, or by another piece of it, or by nothing."""
    contents = rng.choice(list(RIGHT.values()))
    start, at, length = rng.randrange(len(contents)), rng.randrange(len(contents)), rng.randrange(60)
    noise = bytes(rng.randrange(256) for _ in range(length))
    piece = rng.choice([noise, contents[at : at + length], b""])
    return contents[:start] + piece + contents[start + rng.choice([len(piece), rng.randrange(60)]) :], None


def cut(rng: random.Random) -> tuple[bytes, None]:
    contents = rng.choice(list(RIGHT.values()))
    return contents[: rng.randrange(len(contents))], None


KINDS = [
    opcodes_changed, opcodes_changed, numbers_changed, storages_changed, bits_flipped, words_replaced, spliced, cut,
]  # fmt: skip


def damaged_file(rng: random.Random) -> tuple[str, bytes, bytes | None]:
    """(kind of damage, contents, the pickle if only that is damaged)."""
    kind = rng.choice(KINDS)
    return kind.__name__, *kind(rng)


# --- what must come of it ---


class PythonsUnpickler(pickle._Unpickler):
    """Python's own reader, in its slow and plain version, given our descriptions for the names that are allowed."""

    def find_class(self, module, name):
        found = GLOBALS[f"{module}.{name}"]
        return (lambda *arguments: found(arguments)) if callable(found) else found

    def persistent_load(self, saved_id):
        _, dtype, key, _, count = saved_id[:5]
        return Storage(key, dtype, count)

    def load_build(self):
        self.stack.pop()  # the state: Python sets it as attributes, which dicts do not have

    def load_frame(self):
        self.read(8)

    dispatch = pickle._Unpickler.dispatch | {pickle.BUILD[0]: load_build, pickle.FRAME[0]: load_frame}


def numbers_of(tensor: Tensor) -> np.ndarray:
    """The tensor's numbers, picked one by one."""
    kind = STORED_DTYPES[tensor.dtype.name]
    kept = STORAGES[tensor.storage.key]
    flat = np.frombuffer(kept[: len(kept) // tensor.dtype.size * tensor.dtype.size], kind)
    if tensor.dtype.name == "BF16":
        flat = (flat.astype("<u4") << 16).view("<f4")
    picked = [flat[tensor.offset + np.dot(at, tensor.strides).astype(int)] for at in np.ndindex(tensor.shape)]
    with np.errstate(over="ignore"):
        return np.array(picked).astype("<f4").reshape(tensor.shape)


def outcome(path: Path, contents: bytes, damaged_pickle: bytes | None) -> str:
    """ "refused" or "read"; AssertionError if what is read is not right or takes too much, or any other exception."""
    path.unlink(missing_ok=True)  # a new file: arrays of the last example may still be mapped from the old one
    path.write_bytes(contents)
    most = 200_000 + 100 * len(contents)
    read, peak = peak_of(lambda: read_or_refused(path), most)
    assert peak < most
    assert list(path.parent.iterdir()) == [path]
    if read is not None:
        found, arrays = read
        assert all(array.shape == found[name].shape for name, array in arrays.items())
        assert sum(array.size for array in arrays.values()) <= 4 * len(contents)
        if damaged_pickle is not None:
            compare(arrays, damaged_pickle)
    return "refused" if read is None else "read"


def read_or_refused(path: Path) -> tuple[dict, dict[str, np.ndarray]] | None:
    """(what the file says of each array, the arrays); None if it is refused, in one line."""
    try:
        found = {name: s for name, s in read_torch_file(path).items() if s.dtype in STORED_DTYPES and 0 not in s.shape}
        return found, {name: s.read(np.dtype("float32")) for name, s in found.items()}
    except CheckpointError as error:
        assert path.name in str(error) and str(error).isprintable() and len(str(error)) < len(str(path)) + 400
        return None


def compare(arrays: dict[str, np.ndarray], damaged_pickle: bytes) -> None:
    """What was read is what Python's unpickler finds, and its numbers are those of the storages."""
    expected = named_tensors(PythonsUnpickler(io.BytesIO(damaged_pickle), encoding="utf-8").load())
    expected = {name: t for name, t in expected.items() if t.dtype.name in STORED_DTYPES and t.count}
    assert set(arrays) == set(expected)
    for name, tensor in expected.items():
        np.testing.assert_array_equal(arrays[name], numbers_of(tensor))


# --- the tests ---


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzz") / "pytorch_model.bin"


@pytest.mark.parametrize("program", PROGRAMS, ids=["everything", "remembered"])
def test_undamaged_files_are_read(path, program):
    whole = b"".join(program)
    storages = STORAGES if program is PROGRAMS[0] else {"0": STORAGES["0"]}
    for contents in (zip_file(whole, storages), stream(whole, storages, SIZES)):
        assert outcome(path, contents, whole) == "read"


@settings(max_examples=500, deadline=None)
@given(rng=st.randoms(use_true_random=False))
def test_a_damaged_file_is_refused_or_read_right(path, rng):
    _, contents, damaged_pickle = damaged_file(rng)
    outcome(path, contents, damaged_pickle)
