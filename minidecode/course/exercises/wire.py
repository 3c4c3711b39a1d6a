"""What goes over the pipe between a judge and a process that runs foreign code: numbers, texts and arrays, no pickles.

A frame is its length, a word that both ends know, and a payload: JSON, then the bytes of its arrays. Everything that
is read is checked before room is made for it. The student's process loads this file by itself, without the package.
"""

from __future__ import annotations

import inspect
import json
import math
import re
import struct
from typing import Any, BinaryIO

import numpy as np

MOST_BYTES = 64 * 2**20
_DTYPE = re.compile(r"[<|][biufc](1|2|4|8|16)")


class WireError(ValueError):
    """What came over the pipe is no message."""


class TooLargeError(WireError):
    """A message of more bytes than are read."""


class Callback:
    """Stands for a function that stays on the judge's side: the student's process asks for each call.

    stall: the first call lasts until nothing was called for this many seconds, as if a disk were slow. parameters:
    those of the function, by which the student may name its arguments.
    """

    def __init__(self, name: str, function: Any = None, stall: float = 0.0, parameters: tuple[str, ...] = ()):
        self.name, self.function, self.stall = name, function, stall
        self.parameters = tuple(inspect.signature(function).parameters) if function else parameters


def pack_message(value: Any) -> bytes:
    """Raises TypeError for what cannot be sent."""
    blobs: list[bytes] = []
    text = json.dumps(_plain_value(value, blobs)).encode()
    return struct.pack("<I", len(text)) + text + b"".join(blobs)


def _plain_value(value: Any, blobs: list[bytes]) -> Any:
    if value is None or (isinstance(value, bool | str | int | float) and not isinstance(value, np.generic)):
        return value
    if isinstance(value, np.ndarray | np.generic):
        array = np.asarray(value)
        if array.dtype.kind not in "biufc":
            raise TypeError(f"an array of {array.dtype} is not sent: numbers and booleans only")
        array = array.astype(array.dtype.newbyteorder("<"))
        blobs.append(array.tobytes())
        kind = "array" if isinstance(value, np.ndarray) else "scalar"
        return {"$": kind, "dtype": array.dtype.str, "shape": list(array.shape)}
    if isinstance(value, list):
        return [_plain_value(v, blobs) for v in value]
    if isinstance(value, tuple):
        return {"$": "tuple", "items": [_plain_value(v, blobs) for v in value]}
    if isinstance(value, dict):
        return {"$": "dict", "items": {str(k): _plain_value(v, blobs) for k, v in value.items()}}
    if isinstance(value, Callback):
        return {"$": "callback", "name": value.name, "stall": value.stall, "parameters": list(value.parameters)}
    raise TypeError(f"a {type(value).__name__} is no result: arrays, numbers, texts and tuples of them are")


def unpack_message(payload: bytes) -> Any:
    """Raises WireError for anything but what `pack_message` makes."""
    try:
        (length,) = struct.unpack_from("<I", payload)
        plain, blobs = json.loads(payload[4 : 4 + length]), _Blobs(payload, 4 + length)
        return _restore_value(plain, blobs)
    except (ValueError, TypeError, KeyError, AttributeError, IndexError, struct.error, RecursionError) as error:
        raise WireError(f"no message: {error}") from None


class _Blobs:
    """The bytes of the arrays, taken one after the other."""

    def __init__(self, payload: bytes, at: int):
        self._payload, self._at = payload, at

    def array(self, dtype: str, shape: list[int]) -> np.ndarray:
        if not _DTYPE.fullmatch(dtype) or len(shape) > 16 or not all(type(n) is int and n >= 0 for n in shape):
            raise WireError("no array")
        kind = np.dtype(dtype)
        nbytes = math.prod(shape) * kind.itemsize
        if nbytes > len(self._payload) - self._at:
            raise WireError("an array with fewer bytes than its shape wants")
        array = np.frombuffer(self._payload, kind, math.prod(shape), self._at).reshape(shape).copy()
        self._at += nbytes
        return array


def _restore_value(plain: Any, blobs: _Blobs) -> Any:
    if isinstance(plain, list):
        return [_restore_value(v, blobs) for v in plain]
    if not isinstance(plain, dict):
        return plain
    kind = plain["$"]
    if kind == "array":
        return blobs.array(plain["dtype"], plain["shape"])
    if kind == "scalar":
        return blobs.array(plain["dtype"], [])[()]
    if kind == "tuple":
        return tuple(_restore_value(v, blobs) for v in plain["items"])
    if kind == "dict":
        return {str(k): _restore_value(v, blobs) for k, v in plain["items"].items()}
    if kind == "callback":
        return Callback(str(plain["name"]), None, float(plain["stall"]), tuple(map(str, plain["parameters"])))
    raise WireError(f"no {kind} is known")


def write_message(pipe: BinaryIO, word: bytes, value: Any) -> None:
    payload = pack_message(value)
    pipe.write(struct.pack("<Q", len(payload)) + word + payload)
    pipe.flush()


def read_message(pipe: BinaryIO, word: bytes) -> Any:
    """The next message. Raises EOFError at the end of the pipe, WireError for what is none."""
    head = _read_exactly(pipe, 8 + len(word))
    (length,) = struct.unpack_from("<Q", head)
    if head[8:] != word:
        raise WireError("something else than an answer was written into the pipe")
    if length > MOST_BYTES:
        raise TooLargeError(f"an answer of {length:,} bytes; {MOST_BYTES:,} are the most")
    return unpack_message(_read_exactly(pipe, length))


def _read_exactly(pipe: BinaryIO, count: int) -> bytes:
    parts = []
    while count:
        part = pipe.read(min(count, 2**20))
        if not part:
            raise EOFError
        parts.append(part)
        count -= len(part)
    return b"".join(parts)
