"""The arrays that a kernel sees: every index is checked, and, when traced, every access goes into the journal."""

from __future__ import annotations

import operator
import sys
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from .arithmetic import Undefined, numpy_dtype_of, wrap_integer
from .findings import Finding, Stop
from .journal import Journal
from .memory import ATOMIC, LOAD, SHARED_BASE, SIZE_CODES, Memory
from .source import is_written_negative, numbers_of_names, place_of_instruction, text_of_instruction, user_frame
from .threads import Thread

_getframe = sys._getframe


MOST_PARTS = 4096  # of one array that are kept
SLICE_IS_ASSIGNED = "a slice is assigned, which Numba refuses in a kernel: assign element by element"


class Array:
    """A NumPy array behind checks: no index outside, no read of what nothing wrote.

    Integers narrower than 64 bits come out as int64, as Numba types their arithmetic; all else as it is stored. What
    is stored is rounded to the array's type.
    """

    __slots__ = (
        "_box", "_coded_base", "_coded_stride", "_length", "_parts",
        "base", "data", "dtype", "house", "itemsize", "memory", "ndim", "shape", "size", "strides",
        "written",
    )  # fmt: skip

    def __init__(self, house: House, memory: Memory, data: np.ndarray, base: int, written: np.ndarray | None):
        self.house, self.memory, self.data, self.base, self.written = house, memory, data, base, written
        self.shape, self.strides, self.size = data.shape, data.strides, data.size
        self.dtype, self.ndim, self.itemsize = data.dtype, data.ndim, data.itemsize
        self._length = data.shape[0] if data.ndim == 1 else -1  # -1: no plain number is an index
        self._coded_base = base * SIZE_CODES + data.itemsize.bit_length() - 1
        self._coded_stride = data.strides[0] * SIZE_CODES if data.ndim == 1 else 0
        narrow = data.dtype.kind in "iu" and data.dtype.itemsize < 8
        self._box = np.zeros(1, np.int64) if narrow else None  # the fastest way to widen one number
        self._parts: dict[Selection, Array] = {}  # that plain numbers select: each thread asks for the same ones

    # The two methods below run for every access of an untraced launch; `Traced` has its own.

    def __getitem__(self, index):
        if type(index) is not int or not 0 <= index < self._length:
            index = self.checked_index(index)
            if type(index) is Selection:
                return self.select_part(index)
        if self.written is not None and not self.written[index]:
            self.stop_at_unwritten(index)
        if self._box is None:
            return self.data[index]
        self._box[0] = self.data[index]
        return self._box[0]

    def __setitem__(self, index, value):
        if type(index) is not int or not 0 <= index < self._length:
            index = self.checked_index(index)
            if type(index) is Selection:
                raise TypeError(SLICE_IS_ASSIGNED)
        self.store(index, value)

    def value(self, index):
        if self._box is None:
            return self.data[index]
        self._box[0] = self.data[index]
        return self._box[0]

    def store(self, index, value) -> None:
        if type(value) is Undefined:
            value.stop(f"it is stored to {self.memory.element(self.address(index))}")
        try:
            self.data[index] = value
        except OverflowError:
            self.data[index] = wrap_integer(value, self.dtype)
        if self.written is not None:
            self.written[index] = True

    def address(self, index) -> int:
        return self.coded_address(index) // SIZE_CODES

    def coded_address(self, index) -> int:
        """The address of an element, as the journal keeps it."""
        if type(index) is int:
            return self._coded_base + index * self._coded_stride
        return self._coded_base + SIZE_CODES * sum(map(operator.mul, index, self.strides))

    def checked_index(self, index):
        """The index as plain numbers inside the bounds; or a Selection, where it names more than one element."""
        if type(index) is tuple and self.ndim > 1:
            for part, length in zip(index, self.shape, strict=False):
                if type(part) is not int or not 0 <= part < length:
                    break
            else:
                if len(index) <= self.ndim:
                    return index if len(index) == self.ndim else Selection(index)
        elif type(index) is np.int64 and 0 <= index < self._length:  # what comes out of an array of integers
            return int(index)
        parts = index if type(index) is tuple else (index,)
        if len(parts) != self.ndim or any(isinstance(p, slice) or p is Ellipsis or p is None for p in parts):
            return Selection(tuple(self._checked_index(p, k, index) for k, p in enumerate(parts)))
        settled = tuple([self._checked_index(p, k, index) for k, p in enumerate(parts)])
        return settled if self.ndim != 1 else settled[0]

    def _checked_index(self, part, axis: int, index):
        if isinstance(part, slice) or part is Ellipsis or part is None:
            return part
        if axis >= self.ndim:
            raise IndexError(f"{self.memory.name} has {self.ndim} axes, and the index {len(index)}")
        if type(part) is not int:
            part = operator.index(part)
        if 0 <= part < self.shape[axis]:
            return part
        if -self.shape[axis] <= part < 0 and (self.house.negative_indices or is_written_negative(user_frame(), axis)):
            return part + self.shape[axis]
        self.stop_outside(index)

    def select_part(self, selection: Selection) -> Array:
        """A part of the array, as an array: the same memory, the same checks."""
        if not all([type(number) is int for number in selection]):
            return self._selected(selection)
        if (kept := self._parts.get(selection)) is not None:
            return kept
        if len(self._parts) == MOST_PARTS:
            self._parts.clear()
        return self._parts.setdefault(selection, self._selected(selection))

    def _selected(self, selection: Selection) -> Array:
        return self._view_over(self.data[selection], None if self.written is None else self.written[selection])

    def _view_over(self, data: np.ndarray, written: np.ndarray | None) -> Array:
        base = self.base + pointer_to(data) - pointer_to(self.data) if data.size else self.base
        return type(self)(self.house, self.memory, data, base, written)

    def note_store(self, index, value, frame) -> None:
        """Here nothing is noted."""

    def __iter__(self):
        """The elements, each read as `self[i]` would read it (`Traced` sees the loop's own line)."""
        return map(self.__getitem__, range(self.shape[0]))

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def T(self) -> Array:  # NumPy's name
        return self._view_over(self.data.T, None if self.written is None else self.written.T)

    def reshape(self, *shape) -> Array:
        shape = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple) else shape
        return self._view_over(self.data.reshape(shape), None if self.written is None else self.written.reshape(shape))

    def ravel(self) -> Array:
        return self.reshape(self.size)

    flat = property(ravel)

    def transpose(self) -> Array:
        return self.T

    def view(self, dtype) -> Array:
        """A view of the bytes as elements of another type."""
        dtype = numpy_dtype_of(dtype)
        data = self.data.view(dtype)
        if self.written is not None and dtype.itemsize != self.itemsize:
            what = f"a view of {self.memory.name} as {dtype}"
            raise TypeError(f"{what} is not emulated: the array begins empty, and its elements have another size")
        if data.size:
            self.require_alignment((0,) * self.ndim, dtype.alignment)
        memory = self.house.retyped_memory(self.memory, data, self.base)
        return type(self)(self.house, memory, data, self.base, self.written)

    def __array_ufunc__(self, ufunc: np.ufunc, *_, **__):
        raise TypeError(f"np.{ufunc.__name__} of a whole array is not emulated: name one element of {self.memory.name}")

    def stop_outside(self, index) -> None:
        frame = user_frame()
        name, text = self.memory.name, text_of_instruction(frame.f_code, frame.f_lasti)
        # "a[i - 1] with i = 0: a[-1]" where the source can be had, else "a[-1]"
        numbers = numbers_of_names(text[text.find("[") :] if "[" in text else "", frame)
        shown = ", ".join(map(str, index)) if isinstance(index, tuple) else str(index)
        written_as = f"{text} with {numbers}: " if numbers else ""
        shape = ", ".join(map(str, self.shape))
        if self.memory.space == "shared" and self.memory.nbytes == 0:
            self._stop(
                "outside", f"{written_as}{name}[{shown}] lies outside {name}({shape})",
                "It has the launch's dynamic shared memory, which is 0 bytes.", frame,
                remedy="Say [grid, block, stream, bytes].",
            )  # fmt: skip
        negative = any(not isinstance(p, slice) and p is not None and p is not Ellipsis and p < 0
                       for p in (index if isinstance(index, tuple) else (index,)))  # fmt: skip
        at = index if isinstance(index, tuple) else (index,)
        why = "A GPU touches foreign memory there."
        if negative and all(not hasattr(p, "__index__") or -n <= p < n for p, n in zip(at, self.shape, strict=False)):
            why = "NumPy and Numba count it from the end, which is seldom meant where an index is computed."
        is_one = len(at) == self.ndim and all(hasattr(p, "__index__") for p in at)
        detail = {"at": tuple(map(int, at)), "shape": self.shape} if is_one else {}  # where it is no slice
        if is_one and self.ndim == 1:
            detail["index"] = int(index)
        self._stop("outside", f"{written_as}{name}[{shown}] lies outside {name}({shape})", why, frame, detail)

    def stop_at_unwritten(self, index) -> None:
        element, remedy, passed_by = self.memory.element(self.address(index)), "", ""
        if self.memory.space == "local":
            why = "A local array begins with whatever was there."
        elif self.memory.space == "shared":
            why, remedy = "Shared memory begins with whatever was there.", "Write first, then cuda.syncthreads()."
            passed_by = self.house.current().block.barrier_passed_by(user_frame())
            why += passed_by
        else:
            why = "The launch was told that this array begins empty."
        stored = np.flatnonzero(self.written)
        flat = int(np.ravel_multi_index(index, self.shape)) if isinstance(index, tuple) else int(index)
        detail = {
            "element": element, "index": flat, "passed_by": bool(passed_by),
            "shape": self.shape, "written": self.written.copy(),
            "at": tuple(map(int, index)) if isinstance(index, tuple) else (int(index),),
            "last_stored": int(stored[-1]) if len(stored) else -1,
        }  # fmt: skip
        self._stop("uninitialised", f"{element} is read, and nothing has written it", why, user_frame(), detail, remedy)

    def require_alignment(self, index, nbytes: int) -> None:
        """Stops the launch where an access of this many bytes does not begin at a multiple of them."""
        index = tuple(map(int, index)) if isinstance(index, tuple) else int(index)
        if (address := self.address(index)) % nbytes:
            element = self.memory.element(address)
            what = f"{nbytes} bytes at once from {element} on, which lies at no multiple of {nbytes}"
            remedy = "Look at the address and the strides in the launcher, and take narrower loads there."
            self._stop("misaligned", what, "A GPU ends the launch: misaligned address.", user_frame(), remedy=remedy)

    def _stop(self, kind: str, what: str, why: str, frame, detail: dict | None = None, remedy: str = "") -> None:
        place = place_of_instruction(frame.f_code, frame.f_lasti)
        message, where = f"{what} ({self.house.current().name}, {place}). {why}", self.memory
        thread = self.house.current()
        by = {"thread": thread.index, "block": thread.block.number, "epoch": thread.block.epoch}
        detail = {"array": where.name, "space": where.space} | by | (detail or {})
        raise Stop(Finding(kind, message, [place], detail=detail, remedy=remedy))


def _no_arithmetic(self, *_):
    raise TypeError(f"a part of {self.memory.name} of shape {self.shape} is used as a number: name one element of it")


for _name in ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lt", "le", "gt", "ge", "neg", "float", "int"]:
    for _form in (f"__{_name}__", f"__r{_name}__", f"__i{_name}__"):
        setattr(Array, _form, _no_arithmetic)


class WrittenBytes:
    """Which elements have been written, all bytes of each, where the bytes belong to other arrays too."""

    def __init__(self, by_byte: np.ndarray):
        self._by_byte = by_byte  # the array's shape, and the bytes of an element as the last axis

    def __getitem__(self, index) -> bool | WrittenBytes:
        written = self._by_byte[index]
        return bool(written.all()) if written.ndim == 1 else WrittenBytes(written)

    def __setitem__(self, index, value: bool) -> None:
        self._by_byte[index] = value

    def __array__(self, dtype=None, copy=None) -> np.ndarray:
        return self._by_byte.all(-1)

    def copy(self) -> np.ndarray:
        return np.array(self)

    def reshape(self, shape) -> WrittenBytes:
        sizes = shape if isinstance(shape, tuple) else (shape,)
        return WrittenBytes(self._by_byte.reshape(*sizes, self._by_byte.shape[-1]))

    @property
    def T(self) -> WrittenBytes:  # NumPy's name
        axes = range(self._by_byte.ndim - 1)
        return WrittenBytes(self._by_byte.transpose(*reversed(axes), -1))


class Selection(tuple):
    """An index that names more than one element."""

    __slots__ = ()


class Traced(Array):
    """An array that notes every access: its address and its site."""

    __slots__ = ("_addresses", "_bases", "_sites", "_values")

    def __init__(self, house: House, memory: Memory, data: np.ndarray, base: int, written: np.ndarray | None):
        super().__init__(house, memory, data, base, written)
        journal = house.journal
        self._addresses, self._sites, self._values = journal.addresses, journal.sites, journal.values
        self._bases = journal.bases

    def __getitem__(self, index):
        if type(index) is not int or not 0 <= index < self._length:
            index = self.checked_index(index)
            if type(index) is Selection:
                return self.select_part(index)
        if self.written is not None and not self.written[index]:
            self.stop_at_unwritten(index)
        frame = _getframe(1)
        code = frame.f_code
        if type(index) is int:
            self._addresses.append(self._coded_base + index * self._coded_stride)
        else:
            self._addresses.append(self.coded_address(index))
        self._sites.append(frame.f_lasti + (self._bases.get(id(code)) or self._bases.base_of_code(code)))
        if self._box is None:
            return self.data[index]
        self._box[0] = self.data[index]
        return self._box[0]

    def __setitem__(self, index, value):
        if type(index) is not int or not 0 <= index < self._length:
            index = self.checked_index(index)
            if type(index) is Selection:
                raise TypeError(SLICE_IS_ASSIGNED)
        self.store(index, value)
        self.note_store(index, value, _getframe(1))

    def note_store(self, index, value, frame) -> None:
        code = frame.f_code
        if type(index) is int:
            self._addresses.append(self._coded_base + index * self._coded_stride)
        else:
            self._addresses.append(self.coded_address(index))
        self._sites.append(frame.f_lasti + (self._bases.get(id(code)) or self._bases.base_of_code(code)) + 1)
        self._values.append(value)


class Quiet(Array):
    """An array of which a clean run had only loads, or only atomics: such accesses race with none, and go unnoted.

    An access of another kind ends the launch by `Unforeseen`.
    """

    __slots__ = ("_numbers",)
    kind = LOAD

    def __init__(self, house: House, memory: Memory, data: np.ndarray, base: int, written: np.ndarray | None):
        super().__init__(house, memory, data, base, written)
        self._numbers = (
            data if self._box is None else data.astype(np.int64)
        )  # widened once, for no schedule changes them

    def __getitem__(self, index):
        if type(index) is not int or not 0 <= index < self._length:
            index = self.checked_index(index)
            if type(index) is Selection:
                return self.select_part(index)
        if self.written is not None and not self.written[index]:
            self.stop_at_unwritten(index)
        return self._numbers[index]

    def __setitem__(self, index, value):
        raise Unforeseen


class QuietAtomics(Quiet):
    """An array of which there were only atomics."""

    __slots__ = ()
    kind = ATOMIC

    def __getitem__(self, index):
        index = self.checked_index(index)
        if type(index) is Selection:
            return self.select_part(index)
        raise Unforeseen


class Unforeseen(BaseException):
    """Under this schedule, a thread touches an array in a way in which none did in the first run."""


class House:
    """The memory of a launch's arrays: gives each its addresses, and knows which thread is running."""

    def __init__(self, journal: Journal, traced: bool, negative_indices: bool):
        self.journal, self.negative_indices = journal, negative_indices
        self.kind = Traced if traced else Array
        self.current: Callable[[], Thread] = lambda: None  # set by the launch
        self._shared_end = SHARED_BASE
        self._retyped: dict[tuple, Memory] = {}
        self._pieces: list[Piece] = []  # by where they begin in this process
        self.quiet: dict[int, type[Quiet]] = {}  # start of a root -> the kind of its arrays

    def place_arguments(self, arrays: list[np.ndarray], empty: list[np.ndarray]) -> None:
        """Gives the memory of all arguments its addresses. Arrays that share bytes get the same ones.

        Those that begin empty are given once more; what shares their bytes begins empty too.
        """
        pieces, by_begin = (
            self._pieces,
            sorted({_bounds_of_bytes(a) for data in arrays for a in (_root_array(data), data)}),
        )
        for begin, end in by_begin:
            if pieces and begin < pieces[-1].end:
                pieces[-1].end = max(pieces[-1].end, end)
            else:
                pieces.append(Piece(begin, end))
        next_start = 0
        for data in arrays:
            piece = self._piece_of(data)
            piece.arrays += 1
            if piece.start < 0:
                # As the allocator of a GPU aligns. A launcher looked at the address in this process: it counts, too.
                piece.start = _align_address(next_start, 512) + piece.begin % 16
                next_start = piece.start + piece.end - piece.begin + 512
        for data in empty:
            self._piece_of(data).is_empty = True

    def _piece_of(self, data: np.ndarray) -> Piece:
        return self._pieces[bisect_right(self._pieces, _bounds_of_bytes(data)[0], key=lambda piece: piece.begin) - 1]

    def kernel_argument(self, name: str, data: np.ndarray) -> Array:
        """An argument of the kernel, after `place_arguments` of all of them."""
        piece = self._piece_of(data)
        base = piece.start + pointer_to(data) - piece.begin
        memory = self._add_memory(name, "global", base, data)
        kind = self.quiet.get(piece.start, self.kind)
        return kind(self, memory, data, base, self._written_mask(piece, data))

    def _written_mask(self, piece: Piece, data: np.ndarray) -> np.ndarray | WrittenBytes | None:
        """What has been written of an argument: all of it is taken to be, unless it begins empty."""
        if not piece.is_empty or piece.arrays == 1:
            return np.zeros(data.shape, bool) if piece.is_empty else None
        if piece.written is None:
            piece.written = np.zeros(piece.end - piece.begin, bool)
        from_first = piece.written[pointer_to(data) - piece.begin :]
        return WrittenBytes(
            np.lib.stride_tricks.as_strided(from_first, (*data.shape, data.itemsize), (*data.strides, 1))
        )

    def roots_without_races(self, counts: dict[str, dict[int, int]]) -> dict[int, type[Quiet]]:
        """Start of each root whose arrays had accesses of one kind that race with none. counts: `Traffic.arrays`."""
        starts = sorted(piece.start for piece in self._pieces)
        kinds: dict[int, set[int]] = {start: set() for start in starts}
        for memory in self.journal.memories:
            if memory.space == "global":
                root = starts[bisect_right(starts, memory.start) - 1]
                kinds[root] |= {kind for kind, count in counts.get(memory.name, {}).items() if count}
        quiet = {frozenset([kind.kind]): kind for kind in (Quiet, QuietAtomics)}
        return {root: quiet[frozenset(seen)] for root, seen in kinds.items() if frozenset(seen) in quiet}

    def constant_array(self, data: np.ndarray, name: str) -> Array:
        """An array that the kernel closes over: a copy that no thread writes, and that no race concerns."""
        data = data.copy()
        data.flags.writeable = False
        memory = Memory(name, "constant", 0, data.dtype, data.shape, data.strides, data.nbytes)
        return Array(self, memory, data, 0, None)

    def make_local_array(self, name: str, shape: tuple[int, ...], dtype: np.dtype) -> Array:
        """A thread's own array: checked, but neither raced for nor counted."""
        data = np.zeros(shape, dtype)
        memory = Memory(name, "local", 0, data.dtype, data.shape, data.strides, data.nbytes)
        return Array(self, memory, data, 0, np.zeros(shape, bool))

    def make_shared_array(
        self, name: str, data: np.ndarray, written: np.ndarray, like: Memory | None
    ) -> tuple[Memory, Array]:
        """A block's array. The same call site in another block gets the addresses of `like`: it is the same code."""
        if like is None:
            start = _align_address(self._shared_end, 128)
            self._shared_end = start + data.nbytes
            like = self._add_memory(name, "shared", start, data)
        return like, self.kind(self, like, data, like.start, written)

    def retyped_memory(self, memory: Memory, data: np.ndarray, base: int) -> Memory:
        """The memory as a view of another type has it, for the names of its elements."""
        if memory.space not in ("global", "shared"):
            return memory
        key = memory.name, base, data.dtype, data.shape, data.strides
        if key not in self._retyped:
            self._retyped[key] = self._add_memory(memory.name, memory.space, base, data)
        return self._retyped[key]

    def _add_memory(self, name: str, space: str, base: int, data: np.ndarray) -> Memory:
        below = sum(min(0, stride * (n - 1)) for stride, n in zip(data.strides, data.shape, strict=True))
        above = sum(max(0, stride * (n - 1)) for stride, n in zip(data.strides, data.shape, strict=True))
        nbytes = above - below + data.itemsize if data.size else 0
        memory = Memory(name, space, base + below, data.dtype, data.shape, data.strides, nbytes)
        self.journal.memories.append(memory)
        return memory


def arrays_in(arguments: tuple) -> Iterator[np.ndarray]:
    """The arrays among the arguments, those in tuples too."""
    for argument in arguments:
        if isinstance(argument, np.ndarray):
            yield argument
        elif isinstance(argument, tuple):
            yield from arrays_in(argument)


@dataclass
class Piece:
    """Memory of one argument, or of several that share bytes."""

    begin: int  # in this process
    end: int
    start: int = -1  # where the emulator has it
    arrays: int = 0
    is_empty: bool = False
    written: np.ndarray | None = None  # by byte, if it begins empty and belongs to several arrays


def _root_array(data: np.ndarray) -> np.ndarray:
    while isinstance(data.base, np.ndarray):
        data = data.base
    return data


def _bounds_of_bytes(data: np.ndarray) -> tuple[int, int]:
    """The bytes in this process from which on, and up to which, an array lies."""
    reach = [stride * (n - 1) for stride, n in zip(data.strides, data.shape, strict=True)] if data.size else []
    first = pointer_to(data) + sum(min(0, r) for r in reach)
    return first, first + max(1, data.itemsize + sum(map(abs, reach)) if data.size else 0)


def _align_address(address: int, to: int) -> int:
    return -(-address // to) * to


def pointer_to(data: np.ndarray) -> int:
    """The address of the data in this process."""
    return data.__array_interface__["data"][0]
