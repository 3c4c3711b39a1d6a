"""GGUF files -> their settings, and where their tensors lie: all of it checked against the file's size.

A GGUF file has a header (version, counts, settings by key, a line for each tensor), and the numbers behind it. The
header is read here, because the package `gguf` trusts its counts and takes seconds for the lists of a tokenizer. That
package knows the sizes of the block types, and how their numbers are dequantised.
"""

from __future__ import annotations

import contextlib
import mmap
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import CheckpointError, cut_words, pip_install, shown
from .stored import check_regular

VERSIONS = (2, 3)  # version 1 had other lengths
MOST_OF_HEADER = 3 * 2**23  # bytes; a tokenizer of 200,000 tokens takes about 10 million
MOST_OF_TEXT = 2**22  # bytes of a setting: in memory, a text may take four times as many
MOST_TEXTS = 2**19  # texts in all lists; the largest tokenizers have about 450,000 merges
DEEPEST = 8  # lists in lists
MOST_TENSORS, MOST_SETTINGS, LONGEST_NAME, MOST_DIMENSIONS = 2**16, 2**12, 2**16, 4
NUMBERS = {0: "<u1", 1: "<i1", 2: "<u2", 3: "<i2", 4: "<u4", 5: "<i4", 6: "<f4", 10: "<u8", 11: "<i8", 12: "<f8"}
BOOL, TEXT, ARRAY = 7, 8, 9


class UnusableError(Exception):
    """A file cannot be used: the message says why, and `remedy` what to do."""

    remedy = "use the file of another model"


class DamagedError(UnusableError):
    """The file does not say what its writer meant."""

    remedy = "download it again"


@contextlib.contextmanager
def naming_file_in_errors(path: Path) -> Iterator[None]:
    """Raises CheckpointError, which names the file, in place of what says what is wrong with it."""
    try:
        yield
    except UnusableError as reason:
        raise CheckpointError(f"{path} cannot be read: {cut_words(reason)}; {reason.remedy}") from None
    except FileNotFoundError:
        raise CheckpointError(f"{path} is missing: name a file that is there") from None
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error}") from None


def text_setting(settings: dict[str, Any], key: str, default: str | None = None) -> str | None:
    """A setting that is a text, or the default where the file has none."""
    value = settings.get(key, default)
    if value is not None and not isinstance(value, str):
        raise DamagedError(f"{key} must be a text, not {shown(value)}")
    return value


def whole_setting(settings: dict[str, Any], key: str, least: int, below: int, default: int | None = None) -> int:
    """A setting that is a whole number from `least` to `below` - 1."""
    value = settings.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value < below:
        raise DamagedError(f"{key} must be a whole number from {least} to {below - 1}, not {shown(value)}")
    return value


@dataclass(frozen=True)
class Blocks:
    """A tensor's place in a GGUF file, as blocks of one type."""

    path: Path
    offset: int
    size: int  # bytes
    type: int  # of GGMLQuantizationType
    type_name: str
    shape: tuple[int, ...]  # (out, in): the file says it the other way round

    def read(self) -> np.ndarray:
        """The numbers in float32, as `gguf.quants.dequantize` gives them."""
        from gguf.constants import GGMLQuantizationType
        from gguf.quants import dequantize

        flat = np.memmap(self.path, np.uint8, "r", self.offset, (self.size,)).view(np.ndarray)
        rows = flat.reshape(-1, self.size // max(1, int(np.prod(self.shape[:-1]))))
        return dequantize(rows, GGMLQuantizationType(self.type)).reshape(self.shape)

    def check_type(self, name: str) -> None:
        """Raises UnusableError where the package cannot dequantise blocks of this type."""
        from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType
        from gguf.quants import dequantize

        kind = GGMLQuantizationType(self.type)
        try:
            dequantize(np.zeros((1, GGML_QUANT_SIZES[kind][1]), np.uint8), kind)
        except NotImplementedError:
            raise UnusableError(f"{name} is stored as {self.type_name}, which cannot be dequantised") from None


@dataclass(frozen=True)
class GGUF:
    """What a file's header says: settings by key, and tensors by name."""

    path: Path
    settings: dict[str, Any]  # lists of numbers are arrays
    tensors: dict[str, Blocks]


def read_gguf(path: Path) -> GGUF:
    """The header of a GGUF file. Nothing of the tensors is read.

    Raises CheckpointError on a file that is cut off or damaged, on one of another version, and without `gguf`.
    """
    check_regular(path)
    try:
        from gguf.constants import GGML_QUANT_SIZES
    except ImportError as error:
        raise CheckpointError(
            f"reading {path} needs the package gguf ({error}): {pip_install('gguf', 'gguf')}"
        ) from None
    sizes = {int(kind): (kind.name, *size) for kind, size in GGML_QUANT_SIZES.items()}
    with naming_file_in_errors(path), open(path, "rb") as file:
        if file.seek(0, 2) < 24:
            raise DamagedError("it has fewer than 24 bytes")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _Header(path, data, sizes).read()


class _Header:
    """Reads the bytes of a header one after the other."""

    def __init__(self, path: Path, data: mmap.mmap, sizes: dict[int, tuple[str, int, int]]):
        self.path, self.data, self.sizes = path, data, sizes
        self.at, self.end, self.texts = 0, len(data), 0

    def read(self) -> GGUF:
        if self.data[:4] != b"GGUF":
            raise DamagedError("it does not begin with GGUF")
        self.at = 4
        version = self.read_number("<u4", "the version")
        if version & 0xFFFF == 0:
            raise UnusableError("it was written on a big-endian machine")
        if version not in VERSIONS:
            raise UnusableError(f"its version is {version}, and {' and '.join(map(str, VERSIONS))} can be read")
        tensors = self.read_number("<u8", "the number of tensors")
        settings = self.read_number("<u8", "the number of settings")
        if tensors > MOST_TENSORS or settings > MOST_SETTINGS:
            raise DamagedError(f"it says that it has {tensors} tensors and {settings} settings")
        fields: dict[str, Any] = {}
        for _ in range(settings):
            key = self.read_text("the key of a setting")
            if not key.isprintable() or not key or key in fields:
                raise DamagedError(f"the key {key!a:.80} {'is there twice' if key in fields else 'is no key'}")
            fields[key] = self.read_value(self.read_number("<u4", f"the type of {key}"), key)
        described = [self.read_tensor_line() for _ in range(tensors)]
        return GGUF(self.path, fields, self.locate_blocks(described, fields.get("general.alignment", 32)))

    def take_bytes(self, count: int, what: str) -> int:
        """Goes on by `count` bytes -> where they begin."""
        at = self.at
        if count > self.end - at:
            raise DamagedError(f"{what} at byte {at} needs {count} bytes, and the file ends at byte {self.end}")
        if count > MOST_OF_HEADER - at:
            raise UnusableError(f"its header takes more than {MOST_OF_HEADER:,} bytes, with {what} at byte {at}")
        self.at = at + count
        return at

    def read_number(self, dtype: str, what: str) -> Any:
        """One number of a NumPy type, as Python's."""
        size = int(dtype[2])
        value = np.frombuffer(self.data[self.take_bytes(size, what) : self.at], dtype)[0]
        return float(str(value)) if dtype == "<f4" else value.item()  # a float32 by its shortest decimal

    def read_text(self, what: str, longest: int = LONGEST_NAME) -> str:
        data, at = self.data, self.take_bytes(8, what)
        (length,) = struct.unpack_from("<Q", data, at)
        if longest < length <= self.end - self.at:
            raise UnusableError(f"{what} at byte {at} has {length:,} bytes, and {longest:,} are allowed")
        at = self.take_bytes(length, what)
        try:
            return data[at : at + length].decode("utf-8")
        except UnicodeDecodeError:
            raise DamagedError(f"{what} at byte {at} is not UTF-8") from None

    def read_value(self, kind: int, key: str) -> Any:
        if kind in NUMBERS:
            return self.read_number(NUMBERS[kind], key)
        if kind == BOOL:
            flag = self.data[self.take_bytes(1, key)]
            if flag > 1:
                raise DamagedError(f"{key} is {flag}, and should be 0 or 1")
            return bool(flag)
        if kind == TEXT:
            return self.read_text(key, MOST_OF_TEXT)
        if kind == ARRAY:
            return self.read_array(key)
        raise DamagedError(f"{key} is of type {kind}, and types go from 0 to 12")

    def read_array(self, key: str, depth: int = 1) -> Any:
        """A list of texts or of lists, or an array of numbers."""
        kind, count = self.read_number("<u4", key), self.read_number("<u8", key)
        if kind in NUMBERS or kind == BOOL:
            dtype = np.dtype(NUMBERS.get(kind, "<u1"))
            begin = self.take_bytes(count * dtype.itemsize, key)
            return np.frombuffer(self.data[begin : self.at], dtype)
        if kind not in (TEXT, ARRAY):
            raise DamagedError(f"{key} is a list of type {kind}, and types go from 0 to 12")
        self.texts += count
        if count > (self.end - self.at) // 8:
            raise DamagedError(f"{key} says that it has {count} texts")
        if self.texts > MOST_TEXTS:
            raise UnusableError(f"{key} says that it has {count} texts, and {MOST_TEXTS:,} in all lists are allowed")
        if depth > DEEPEST:
            raise UnusableError(f"{key} has lists more than {DEEPEST} deep")
        return [self.read_text(key) if kind == TEXT else self.read_array(key, depth + 1) for _ in range(count)]

    def read_tensor_line(self) -> tuple[str, tuple[int, ...], int, int]:
        """(name, shape, type, offset) of the next line of the list of tensors."""
        name = self.read_text("the name of a tensor")
        if not name.isprintable() or not name:
            raise DamagedError(f"a tensor is called {name!a:.80}")
        axes = self.read_number("<u4", f"the dimensions of {name}")
        if not 1 <= axes <= MOST_DIMENSIONS:
            raise DamagedError(f"{name} has {axes} dimensions")
        shape = tuple(self.read_number("<u8", f"the shape of {name}") for _ in range(axes))[::-1]
        kind, offset = self.read_number("<u4", f"the type of {name}"), self.read_number("<u8", f"the offset of {name}")
        return name, shape, kind, offset

    def locate_blocks(
        self, described: list[tuple[str, tuple[int, ...], int, int]], alignment: Any
    ) -> dict[str, Blocks]:
        """The tensors, each within the file and apart from the others."""
        is_whole = isinstance(alignment, int) and not isinstance(alignment, bool)
        if not is_whole or not 1 <= alignment <= 2**20 or alignment & (alignment - 1):
            raise DamagedError(f"general.alignment is {alignment!r:.40}, and should be a power of two up to 2**20")
        begin, tensors = -(-self.at // alignment) * alignment, {}
        for name, shape, kind, offset in described:
            if name in tensors:
                raise DamagedError(f"the tensor {name} is there twice")
            if kind not in self.sizes:
                raise UnusableError(f"{name} is of type {kind}, which this version of the package gguf does not know")
            type_name, numbers, block = self.sizes[kind]
            count = 1
            for n in shape:  # integers of Python never overflow
                count *= n
            if not 0 < count < 2**48 or shape[-1] % numbers:
                raise DamagedError(f"{name} has shape {shape}, and {type_name} has blocks of {numbers} numbers")
            size = count // numbers * block
            if offset % alignment or begin + offset + size > self.end:
                raise DamagedError(
                    f"{name} has {size} bytes from byte {begin + offset} on, and the file ends at byte {self.end}"
                )
            tensors[name] = Blocks(self.path, begin + offset, size, kind, type_name, shape)
        last = None
        for tensor in sorted(tensors.values(), key=lambda t: t.offset):
            if last is not None and last.offset + last.size > tensor.offset:
                raise DamagedError(f"two tensors share the bytes from byte {tensor.offset} on")
            last = tensor
        return tensors
