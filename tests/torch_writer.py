"""Writes pytorch_model.bin by hand, opcode by opcode, so that the tests of its reader need no torch."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib

import numpy as np
from toy_folder import bfloat16

from minidecode.files.torch_file import MAGIC

# --- a pickle, written by hand ---


class Opcodes(bytes):
    """A piece of a pickle, as it stands."""


def emit(value: object) -> bytes:
    """The opcodes that push a value, as Python chooses them."""
    match value:
        case Opcodes():
            return bytes(value)
        case None:
            return b"N"
        case bool():
            return b"\x88" if value else b"\x89"
        case int():
            for opcode, layout, bits in ((b"K", "<B", 8), (b"M", "<H", 16), (b"J", "<i", 31)):
                if (-(2**31) if opcode == b"J" else 0) <= value < 2**bits:
                    return opcode + struct.pack(layout, value)
            number = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
            return b"\x8a" + bytes([len(number)]) + number
        case str():
            return b"X" + struct.pack("<I", len(value.encode())) + value.encode()
        case ():
            return b")"
        case tuple() if len(value) <= 3:
            return b"".join(map(emit, value)) + b"\x84\x85\x86\x87"[len(value) :][:1]
        case tuple():
            return b"(" + b"".join(map(emit, value)) + b"t"
        case list():
            return b"](" + b"".join(map(emit, value)) + b"e"
        case dict():
            return b"}(" + b"".join(emit(part) for pair in value.items() for part in pair) + b"u"
    raise TypeError(value)


def pickled(value: object) -> bytes:
    return b"\x80\x02" + emit(value) + b"."


def called(name: str, *arguments: object) -> Opcodes:
    return Opcodes(named(name) + emit(arguments) + b"R")


def named(name: str) -> Opcodes:
    module, _, attribute = name.rpartition(".")
    return Opcodes(f"c{module}\n{attribute}\n".encode())


def storage(key: str, kind: str, count: object) -> Opcodes:
    return Opcodes(emit(("storage", named(f"torch.{kind}Storage"), key, "cpu", count)) + b"Q")


def tensor(key, kind, count, offset, shape, strides) -> Opcodes:
    stored = storage(key, kind, count)
    return called("torch._utils._rebuild_tensor_v2", stored, offset, shape, strides, False, ODICT)


ODICT = called("collections.OrderedDict")


# --- the two containers, around it ---


def zip_file(pickle_bytes: bytes, storages: dict[str, bytes], prefix="archive/", compression=0, **more: bytes) -> bytes:
    """What torch.save writes; `more` are further entries, or other contents for those that it has."""
    entries = {"data.pkl": pickle_bytes, "byteorder": b"little"} | {f"data/{k}": v for k, v in storages.items()} | more
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        for name, contents in entries.items():
            archive.writestr(prefix + name, contents)
    return file.getvalue()


def aligned_zip(pickle_bytes: bytes, storages: dict[str, bytes]) -> tuple[bytes, int]:
    """(what torch.save writes since 2.0, byte by byte, where the header of the last storage begins).

    A local header says neither checksum nor sizes, which stand behind the numbers, and is padded by a field "FB", so
    that all numbers begin at multiples of 64.
    """
    entries = {"data.pkl": pickle_bytes, "byteorder": b"little"} | {f"data/{k}": v for k, v in storages.items()}
    found, listed, begin = b"", b"", 0
    for name, contents in ((f"archive/{name}".encode(), contents) for name, contents in entries.items()):
        begin, numbers = len(found), (zlib.crc32(contents), len(contents), len(contents))
        padding = -(begin + 34 + len(name)) % 64
        found += struct.pack("<4s5H3I2H", b"PK\3\4", 0, 0x808, 0, 0, 0, 0, 0, 0, len(name), 4 + padding) + name
        found += struct.pack("<2sH", b"FB", padding) + b"Z" * padding + contents
        found += struct.pack("<4s3I", b"PK\7\x08", *numbers)
        listed += struct.pack("<4s6H3I5H2I", b"PK\1\2", 0, 0, 0x808, 0, 0, 0, *numbers, len(name), 0, 0, 0, 0, 0, begin)
        listed += name
    ends = struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, len(entries), len(entries), len(listed), len(found), 0)
    return found + listed + ends, begin


def stream(pickle_bytes: bytes, storages: dict[str, bytes], sizes: dict[str, int], **changes) -> bytes:
    """What torch.save wrote before: `sizes` are the bytes of one number, by storage; `changes` replace its pickles."""
    system = {"protocol_version": 1001, "little_endian": True, "type_sizes": {"short": 2, "int": 4, "long": 4}}
    parts = {"magic": MAGIC, "version": 1001, "system": system, "keys": list(storages)} | changes
    head = pickled(parts["magic"]) + pickled(parts["version"]) + pickled(parts["system"]) + pickle_bytes
    data = [struct.pack("<q", len(numbers) // sizes[key]) + numbers for key, numbers in storages.items()]
    return head + pickled(parts["keys"]) + b"".join(data)


def written(tensors: dict[str, np.ndarray], kind: str = "Float") -> bytes:
    """A zip file of float32 tensors, which may say that they are of another kind."""
    described = {}
    for i, (name, array) in enumerate(tensors.items()):
        strides = tuple(s // array.itemsize for s in array.strides)
        described[name] = tensor(str(i), kind, array.size, 0, array.shape, strides)
    return zip_file(pickled(described), {str(i): array.tobytes() for i, array in enumerate(tensors.values())})


# --- a file with one of everything: names, what is expected, and the tensors' pickles ---

FLOATS = np.arange(12, dtype="<f4") - 3
HALVES = np.arange(6, dtype="<f2") / 4
BRAINS = np.array([1.5, -2.0, 0.25])
DOUBLES = np.array([1e-3, 2.0, 7.0])
STORAGES = {
    "0": FLOATS.tobytes(), "1": HALVES.tobytes(), "2": bfloat16(BRAINS).tobytes(), "3": DOUBLES.tobytes(),
    "4": np.arange(4, dtype="<i8").tobytes(), "5": b"",
}  # fmt: skip
SIZES = {"0": 4, "1": 2, "2": 2, "3": 8, "4": 8, "5": 4}
CASES = {
    "whole": (FLOATS.reshape(3, 4), tensor("0", "Float", 12, 0, (3, 4), (4, 1))),
    "transposed": (FLOATS.reshape(3, 4).T, tensor("0", "Float", 12, 0, (4, 3), (1, 4))),
    "rows from 1": (FLOATS.reshape(3, 4)[1:], tensor("0", "Float", 12, 4, (2, 4), (4, 1))),
    "columns 1 to 2": (FLOATS.reshape(3, 4)[:, 1:3], tensor("0", "Float", 12, 1, (3, 2), (4, 1))),
    "every other": (FLOATS[::2], tensor("0", "Float", 12, 0, (6,), (2,))),
    "one number": (FLOATS[11], tensor("0", "Float", 12, 11, (), ())),
    "expanded": (np.full((2, 3), FLOATS[5]), tensor("0", "Float", 12, 5, (2, 3), (0, 0))),
    "strides of single rows": (FLOATS[None, :, None], tensor("0", "Float", 12, 0, (1, 12, 1), (2**62, 1, 2**62))),
    "three axes": (FLOATS.reshape(2, 3, 2), tensor("0", "Float", 12, 0, (2, 3, 2), (6, 2, 1))),
    "halves": (HALVES.reshape(2, 3), tensor("1", "Half", 6, 0, (2, 3), (3, 1))),
    "halves transposed": (HALVES.reshape(2, 3).T, tensor("1", "Half", 6, 0, (3, 2), (1, 3))),
    "bfloat16": (BRAINS, tensor("2", "BFloat16", 3, 0, (3,), (1,))),
    "bfloat16 backwards columns": (BRAINS[:2, None], tensor("2", "BFloat16", 3, 0, (2, 1), (1, 5))),
    "doubles": (DOUBLES, tensor("3", "Double", 3, 0, (3,), (1,))),
    "halves from 2": (HALVES[2:], tensor("1", "Half", 6, 2, (4,), (1,))),
    "halves from 1, every other": (HALVES[1::2], tensor("1", "Half", 6, 1, (3,), (2,))),
    "bfloat16 from 1": (BRAINS[1:], tensor("2", "BFloat16", 3, 1, (2,), (1,))),
    "doubles from 1": (DOUBLES[1:], tensor("3", "Double", 3, 1, (2,), (1,))),
    "parameter": (FLOATS[:2], called("torch._utils._rebuild_parameter", tensor("0", "Float", 12, 0, (2,), (1,)), True)),
    "integers": (None, tensor("4", "Long", 4, 0, (4,), (1,))),
    "empty": (None, tensor("5", "Float", 0, 0, (0, 3), (3, 1))),
}
EVERYTHING = pickled({name: written for name, (_, written) in CASES.items()})
RIGHT = {"zip": zip_file(EVERYTHING, STORAGES), "stream": stream(EVERYTHING, STORAGES, SIZES)}
TWO = tensor("0", "Float", 12, 0, (2,), (1,))
