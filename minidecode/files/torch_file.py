"""`pytorch_model.bin` -> where its tensors lie, without torch and without running anything that the file says.

torch.save writes a pickle, which torch_pickle.py reads, and the numbers beside it. Two containers hold both:

- zip (torch 1.6 and later): PREFIX/data.pkl is the pickle, PREFIX/data/KEY the numbers of one storage, uncompressed;
- a stream (before): five pickles (a magic number, a version, the machine's sizes, the tensors, the list of storage
  keys), then for each key the count of its numbers in 8 bytes, and the numbers.

Either way the numbers are found here, checked against the file's size, and mapped when they are read.
"""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ..errors import CheckpointError, cut_words
from .stored import Stored, check_regular
from .torch_pickle import Machine, Storage, Tensor, UnreadableError, damaged_error

LONGEST_PICKLE = 1 << 21  # bytes; 150 a tensor are usual. A hostile pickle's values take up to 80 times its length
MOST_VIEWS = 4  # numbers shown by all tensors, per byte of the file: 2 would do for fp16 embeddings stored 4 times over
CHUNK = 1 << 20  # bytes that are read at once for a checksum
HEADER = struct.Struct("<4s5H3I2H")  # of an entry of a zip file
HAS_DESCRIPTOR = 8  # among its flags: checksum and sizes stand behind the entry
MAGIC = 0x1950A86A20F9469CFC6C  # begins a stream


# --- the zip container ---


def zip_entries(file: BinaryIO) -> dict[str, zipfile.ZipInfo]:
    """The archive's directory. Nothing is unpacked: `zipfile` reads the list alone."""
    try:
        listed = zipfile.ZipFile(file).infolist()
    except (zipfile.BadZipFile, NotImplementedError, ValueError, OverflowError, struct.error) as error:
        raise damaged_error(f"its list of entries: {ascii(str(error))[1:-1]}") from None
    entries = {entry.filename: entry for entry in listed}
    if len(entries) < len(listed):
        raise damaged_error("two entries of the archive have the same name")
    return entries


def data_range(file: BinaryIO, file_size: int, entry: zipfile.ZipInfo) -> tuple[int, int]:
    """(start, stop) of an entry's bytes. It must be stored as it is, so that it can be mapped, and cannot swell."""
    name = ascii(entry.filename)
    if entry.flag_bits & 1:
        raise UnreadableError(f"has the entry {name} encrypted, which torch does not do: it cannot be read")
    if entry.compress_type != zipfile.ZIP_STORED or entry.compress_size != entry.file_size:
        raise UnreadableError(
            f"has the entry {name} compressed, which torch does not do: save it with torch.save again"
        )
    if not 0 <= entry.header_offset <= file_size - 30:
        raise damaged_error(f"{name} begins at byte {entry.header_offset} of {file_size}")
    file.seek(entry.header_offset)
    magic, _, flags, method, _, _, crc, *sizes, name_length, extra_length = HEADER.unpack(file.read(HEADER.size))
    encoding = "utf-8" if entry.flag_bits & 0x800 else "cp437"
    if magic != b"PK\3\4" or file.read(name_length) != entry.orig_filename.encode(encoding, "replace"):
        raise damaged_error(f"{name} is not where the list of entries says")
    extra, start = file.read(extra_length), file.tell()
    stop = start + entry.file_size
    if stop > file_size:
        raise damaged_error(f"{name} ends at byte {stop} of {file_size}")
    comes_behind = flags & HAS_DESCRIPTOR
    is_listed = (flags, method) == (entry.flag_bits, entry.compress_type)
    is_listed &= crc in ((entry.CRC, 0) if comes_behind else (entry.CRC,))
    is_listed &= all(size in (entry.file_size, 0xFFFFFFFF, 0 if comes_behind else entry.file_size) for size in sizes)
    if not is_listed or not is_whole_extra(extra):
        raise damaged_error(f"the header of {name} says something else than the list of entries")
    file.seek(stop)
    if not is_behind(file.read(24), entry):
        raise damaged_error(f"{name} does not end where the next entry begins")
    return start, stop


def check_crc(file: BinaryIO, start: int, stop: int, entry: zipfile.ZipInfo) -> None:
    """Raises UnreadableError if an entry's bytes are not those of its checksum."""
    file.seek(start)
    crc = 0
    for at in range(start, stop, CHUNK):
        crc = zlib.crc32(file.read(min(CHUNK, stop - at)), crc)
    if crc != entry.CRC:
        raise damaged_error(f"{entry.filename!a} has another checksum than the list of entries says")


def is_whole_extra(extra: bytes) -> bool:
    """Whether an extra field is made of parts that each say their length. A wrong length of it moves all numbers."""
    at = 0
    while at + 4 <= len(extra):
        at += 4 + int.from_bytes(extra[at + 2 : at + 4], "little")
    return at == len(extra)


def is_behind(data: bytes, entry: zipfile.ZipInfo) -> bool:
    """Whether this stands behind an entry: what comes next in an archive, or first the entry's checksum and sizes."""
    if not entry.flag_bits & HAS_DESCRIPTOR:
        return data[:2] == b"PK"
    sizes = "IQ" if entry.file_size < 2**32 else "Q"  # in 4 bytes each, or in 8
    numbers = entry.CRC, entry.file_size, entry.file_size
    return data.startswith(tuple(struct.pack(f"<4sI2{size}", b"PK\7\x08", *numbers) for size in sizes))


def read_zip(file: BinaryIO, file_size: int, describes: bool = False) -> tuple[Any, dict[str, int]]:
    """The value that a zip file describes, and where each of its storages begins; describes: see `Machine`.

    Of a file with descriptions, which is imported once, checksums are compared: torch.load leaves them out, so that a
    changed bit of a setting would become another model. torch.save can leave them out, too, but not from fairseq.
    """
    entries = zip_entries(file)
    prefixes = [name.removesuffix("data.pkl") for name in entries if name.endswith("/data.pkl")]
    if len(prefixes) != 1:
        raise damaged_error(f"it has {len(prefixes)} entries called data.pkl and should have one")
    prefix = prefixes[0]

    def read_entry(entry: zipfile.ZipInfo, limit: int) -> bytes:
        start, stop = data_range(file, file_size, entry)
        if stop - start > limit:
            raise damaged_error(f"{entry.filename!a} has {stop - start} bytes; no model needs more than {limit}")
        if describes:
            check_crc(file, start, stop, entry)
        file.seek(start)
        return file.read(stop - start)

    order = entries.get(prefix + "byteorder")  # files from before torch 2.1 do not say, and are little-endian
    if order is not None and read_entry(order, limit=100) != b"little":
        raise UnreadableError(
            "was saved on a big-endian machine, or does not say in which order its bytes are: cannot be read"
        )
    machine = Machine(read_entry(entries[prefix + "data.pkl"], LONGEST_PICKLE), describes=describes)
    value = machine.load_value()
    starts = {}
    for key, stored in machine.storages.items():
        entry = entries.get(f"{prefix}data/{key}")
        if entry is None:
            raise damaged_error(f"it has no entry for the storage {key!a}")
        starts[key], stop = data_range(file, file_size, entry)
        if stop - starts[key] != stored.count * stored.dtype.size:
            raise damaged_error(
                f"storage {key!a} has {stop - starts[key]} bytes and should have "
                f"{stored.count} numbers of {stored.dtype.size}"
            )
        if describes:
            check_crc(file, starts[key], stop, entry)
    return value, starts


# --- the stream container ---


def read_stream(file: BinaryIO, file_size: int, describes: bool = False) -> tuple[Any, dict[str, int]]:
    """The value that a stream describes, and where each of its storages begins; describes: see `Machine`."""
    head = file.read(min(LONGEST_PICKLE, file_size))
    magic, end = load_at(head, 0)
    if magic != MAGIC:
        raise damaged_error("it begins neither like a zip archive nor with torch's magic number")
    version, end = load_at(head, end)
    if version != 1001:
        raise damaged_error("it has another version than 1001")
    sizes, end = load_at(head, end)
    if not isinstance(sizes, dict) or sizes.get("little_endian") is not True:
        raise UnreadableError(
            "was saved on a big-endian machine, or does not say in which order its bytes are: cannot be read"
        )
    machine = Machine(head, end, describes)
    value = machine.load_value()
    keys, end = load_at(head, machine.at)
    is_texts = isinstance(keys, list) and all(isinstance(key, str) for key in keys)
    if not is_texts or sorted(keys) != sorted(machine.storages):
        raise damaged_error("its list of storages is not that of its tensors")
    return value, dict(storage_starts(file, file_size, end, [machine.storages[key] for key in keys]))


def load_at(data: bytes, at: int) -> tuple[Any, int]:
    """The value of the pickle that begins there, and where it ends."""
    machine = Machine(data, at)
    return machine.load_value(), machine.at


def storage_starts(file: BinaryIO, file_size: int, at: int, storages: list[Storage]) -> Iterator[tuple[str, int]]:
    """Goes through the storages that follow each other to the end of a stream: key, where its numbers begin."""
    for stored in storages:
        file.seek(at)
        count = int.from_bytes(file.read(8), "little")
        start, at = at + 8, at + 8 + stored.count * stored.dtype.size
        if at > file_size or count != stored.count:
            raise damaged_error(
                f"storage {stored.key!a} should have {stored.count} numbers of {stored.dtype.size} bytes, "
                f"says {count}, and ends at byte {at} of {file_size}"
            )
        yield stored.key, start
    if at != file_size:
        raise damaged_error(f"{file_size - at} bytes follow its last storage")


# --- tensors ---


@dataclass(frozen=True)
class Strided(Stored):
    """A tensor whose numbers are not side by side in their order: transposed, a slice, or one number shown often."""

    span: int
    strides: tuple[int, ...]

    def read(self, dtype: np.dtype) -> np.ndarray:
        """The tensor as `dtype`, copied into order."""
        flat = Stored(self.path, self.offset, self.dtype, (self.span,)).read(dtype)
        steps = tuple(flat.itemsize * s if n > 1 else 0 for n, s in zip(self.shape, self.strides, strict=True))
        return np.ndarray(self.shape, flat.dtype, flat, 0, steps).copy()


def named_tensors(value: Any) -> dict[str, Tensor]:
    """The tensors of a state_dict, or of one that is wrapped as {"state_dict": ...}; other values are passed over."""

    def tensors(candidate: Any) -> dict[str, Tensor]:
        items = candidate.items() if isinstance(candidate, dict) else ()
        return {name: tensor for name, tensor in items if isinstance(tensor, Tensor)}

    wrapped = value.get("state_dict") if isinstance(value, dict) else None
    named = tensors(value) or tensors(wrapped)
    if not named:
        raise UnreadableError(
            f"holds no names with tensors, but a {type(value).__name__}: save model.state_dict() with torch.save"
        )
    for name in named:
        if not isinstance(name, str) or not name.isprintable():
            raise damaged_error(f"a tensor is called {ascii(name)[:100]}")
    return named


def tensor_in_file(path: Path, name: str, tensor: Tensor, start: int) -> Stored:
    """A tensor's place in the file, checked to lie within its storage."""
    dtype, kept = tensor.dtype, tensor.storage.count * tensor.storage.dtype.size
    if tensor.count and (tensor.offset + tensor.span) * dtype.size > kept:
        raise damaged_error(
            f"{name} shows numbers {tensor.offset} to {tensor.offset + tensor.span - 1} of {dtype.size} bytes, "
            f"and its storage has {kept} bytes"
        )
    begin = start + tensor.offset * dtype.size
    if tensor.is_contiguous:
        return Stored(path, begin, dtype.name, tensor.shape)
    return Strided(path, begin, dtype.name, tensor.shape, tensor.span, tensor.strides)


def read_torch_file(path: Path) -> dict[str, Stored]:
    """The tensors of one file that torch.save made. Raises CheckpointError on a damaged, lying or hostile one.

    Nothing of the tensors is read. All of them together show at most MOST_VIEWS numbers per byte of the file, so that
    few bytes shown again and again cannot fill the memory when they are.
    """
    return read_torch_value(path, named_tensors)[1]


def read_torch_value(
    path: Path, tensors_of: Callable[[Any], dict[str, Tensor]], describes: bool = False
) -> tuple[Any, dict[str, Stored]]:
    """(the value that a file describes, where those of its tensors lie that `tensors_of` finds in it).

    describes: whether objects of unknown classes become inert descriptions; see `Machine`. Raises as `read_torch_file`.
    """
    check_regular(path)
    try:
        with open(path, "rb") as file:
            file_size = file.seek(0, 2)
            file.seek(0)
            is_zip = file.read(4) == b"PK\3\4"
            file.seek(0)
            value, starts = (read_zip if is_zip else read_stream)(file, file_size, describes)
        tensors, room = {}, MOST_VIEWS * file_size
        for name, tensor in tensors_of(value).items():
            tensors[name] = tensor_in_file(path, name, tensor, starts[tensor.storage.key])
            room -= tensor.count
            if room < 0:
                raise damaged_error(
                    f"its tensors up to {name} show more than {MOST_VIEWS} numbers per byte that it has"
                )
    except UnreadableError as reason:
        raise CheckpointError(f"{path} {cut_words(reason)}") from None
    except FileNotFoundError:
        raise CheckpointError(f"{path} is missing: name a file that is there") from None
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error}") from None
    return value, tensors
