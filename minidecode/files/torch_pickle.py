"""The pickle inside a torch file -> plain values and descriptions of tensors, without running anything it says.

A pickle is a program: pushes, pops, and calls of any Python function by name, which is how a downloaded file can run
commands. So it is not given to Python's `pickle` here, but to a machine of our own (`Machine`) that knows the few
opcodes that torch writes. It builds plain values (numbers, texts, tuples, lists, dicts) and three kinds of description
(`Dtype`, `Storage`, `Tensor`). The names that it may look up are the keys of GLOBALS; each stands for a function of
this file that checks its arguments and makes a description. Any other name is refused. No module is imported for a
file, no attribute is set, nothing else can be called.

Training checkpoints (fairseq's) hold objects of any class beside their tensors. A machine that `describes` takes every
other name as an inert description (`Unknown`): what is made by it is its name and what the file keeps in it
(`Described`). Still no module is imported, and nothing is called.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType
from typing import Any

LONGEST_NUMBER = 16  # bytes of an integer; the largest that torch writes is the magic number's 10
MOST_DIMENSIONS = 64  # NumPy's own limit, and torch's


class UnreadableError(Exception):
    """Why a file is not read: the rest of a sentence that begins with its path."""


def damaged_error(reason: str) -> UnreadableError:
    return UnreadableError(f"is not a whole torch file ({reason}): download it again")


# --- what a pickle can describe ---


@dataclass(frozen=True)
class Dtype:
    """A kind of numbers, by its name in safetensors files, and the bytes of one."""

    name: str
    size: int


@dataclass(frozen=True)
class Storage:
    """Numbers side by side in the file, which any number of tensors may show."""

    key: str
    dtype: Dtype
    count: int


@dataclass(frozen=True)
class Tensor:
    """A storage seen through a shape: element (i, j) is number offset + i * strides[0] + j * strides[1]."""

    storage: Storage
    dtype: Dtype
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def count(self) -> int:
        return math.prod(self.shape)

    @property
    def span(self) -> int:
        """How many numbers lie from its first to its last, both included."""
        return 1 + sum((n - 1) * s for n, s in zip(self.shape, self.strides, strict=True)) if self.count else 0

    @property
    def is_contiguous(self) -> bool:
        """Whether its numbers lie in the order in which they are shown, without gaps."""
        expected = 1
        for n, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if n != 1 and stride != expected:
                return self.count == 0
            expected *= n
        return True


@dataclass(frozen=True)
class Unknown:
    """A name of code that is not looked for."""

    name: str


@dataclass(eq=False)
class Described:
    """What a pickle makes by code that is not run: the name of the code, and the attributes that follow."""

    name: str
    state: Any = None

    def __repr__(self) -> str:
        return f"an object of {ascii(self.name)[1:-1][:100]}"


# --- the names that a pickle may look up; each function takes the tuple of arguments that the pickle calls it with ---


def is_dimensions(value: object) -> bool:
    return (
        isinstance(value, tuple)
        and len(value) <= MOST_DIMENSIONS
        and all(type(n) is int and 0 <= n < 1 << 63 for n in value)
    )


def make_tensor(storage: object, dtype: object, offset: object, shape: object, strides: object) -> Tensor:
    """Makes a tensor, and checks the types of its parts; the size of its storage is checked when it is used."""
    if not isinstance(storage, Storage) or not isinstance(dtype, Dtype) or dtype is BYTES:
        raise damaged_error("a tensor is made of something that is no storage of numbers")
    if not is_dimensions(shape) or not is_dimensions((offset,)):
        raise damaged_error("a tensor's shape or offset is not made of integers from 0 to 2**63 - 1")
    if not is_dimensions(strides) or len(strides) != len(shape):
        raise damaged_error("a tensor's strides do not go with its shape")
    return Tensor(storage, dtype, offset, shape, strides)


def refuse_metadata(metadata: list) -> None:
    """What may follow a tensor: bits of a view that changes its numbers, such as a negated one's."""
    if any(m not in (None, {}) for m in metadata):
        raise UnreadableError("holds a tensor that is a negated or conjugate view: save what .resolve_neg() gives")


def rebuild_tensor(arguments: tuple) -> Tensor:
    """torch._utils._rebuild_tensor and _v2: (storage, offset, shape, strides, and what training needs)."""
    match arguments:
        case (Storage() as storage, offset, shape, strides, *training):
            refuse_metadata(training[2:])
            return make_tensor(storage, storage.dtype, offset, shape, strides)
    raise damaged_error("a tensor is rebuilt from the wrong arguments")


def rebuild_tensor_of_bytes(arguments: tuple) -> Tensor:
    """torch._utils._rebuild_tensor_v3, for dtypes that have no storage class: the dtype comes last."""
    match arguments:
        case (storage, offset, shape, strides, _, _, dtype, *metadata):
            refuse_metadata(metadata)
            return make_tensor(storage, dtype, offset, shape, strides)
    raise damaged_error("a tensor is rebuilt from the wrong arguments")


def rebuild_parameter(arguments: tuple) -> Tensor:
    """torch._utils._rebuild_parameter: (tensor, and what training needs). A parameter is its tensor."""
    match arguments:
        case (Tensor() as tensor, *_):
            return tensor
    raise damaged_error("a parameter is made of something that is no tensor")


def rebuild_ordered_dict(arguments: tuple) -> dict:
    if arguments:
        raise damaged_error("an OrderedDict is made with arguments")
    return {}


def rebuild_size(arguments: tuple) -> tuple:
    match arguments:
        case (tuple() as shape,):
            return shape
    raise damaged_error("a torch.Size is made of something that is no tuple")


BYTES = Dtype("bytes", 1)  # an untyped storage: its tensors say what the bytes are
STORAGES = {
    "Double": Dtype("F64", 8), "Float": Dtype("F32", 4), "Half": Dtype("F16", 2), "BFloat16": Dtype("BF16", 2),
    "Long": Dtype("I64", 8), "Int": Dtype("I32", 4), "Short": Dtype("I16", 2), "Char": Dtype("I8", 1),
    "Byte": Dtype("U8", 1), "Bool": Dtype("BOOL", 1),
    "ComplexFloat": Dtype("C64", 8), "ComplexDouble": Dtype("C128", 16),
}  # fmt: skip
DTYPES = {
    "float64": Dtype("F64", 8), "float32": Dtype("F32", 4), "float16": Dtype("F16", 2), "bfloat16": Dtype("BF16", 2),
    "uint16": Dtype("U16", 2), "uint32": Dtype("U32", 4), "uint64": Dtype("U64", 8),
    "float8_e4m3fn": Dtype("F8_E4M3", 1), "float8_e5m2": Dtype("F8_E5M2", 1),
}  # fmt: skip
GLOBALS: dict[str, Dtype | Callable[[tuple], Any]] = {
    "collections.OrderedDict": rebuild_ordered_dict,
    "torch.Size": rebuild_size,
    "torch._utils._rebuild_tensor": rebuild_tensor,
    "torch._utils._rebuild_tensor_v2": rebuild_tensor,
    "torch._utils._rebuild_tensor_v3": rebuild_tensor_of_bytes,
    "torch._utils._rebuild_parameter": rebuild_parameter,
    "torch._utils._rebuild_parameter_with_state": rebuild_parameter,
    "torch.storage.UntypedStorage": BYTES,
    **{f"torch.{name}Storage": dtype for name, dtype in STORAGES.items()},
    **{f"torch.{name}": dtype for name, dtype in DTYPES.items()},
}


# --- the machine ---


class Machine:
    """Runs one pickle out of `data`, from `at` on: `load_value` returns the value that it describes.

    Every opcode makes at most one value, and copies no more bytes than the pickle has there: time and memory grow
    with the pickle's length alone. No value is ever hashed, compared or printed as a whole, because a short pickle
    can make a value whose parts are shared so often that going through it would take for ever.
    """

    def __init__(self, data: bytes, at: int = 0, describes: bool = False):
        """describes: whether names that are not in GLOBALS become descriptions; else they are refused."""
        self.data, self.at, self.describes = data, at, describes
        self.opcodes = OPCODES | DESCRIBING if describes else OPCODES
        self.stack: list[Any] = []
        self.below: list[list[Any]] = []  # the stacks put aside by MARK
        self.memo: dict[int, Any] = {}
        self.storages: dict[str, Storage] = {}

    def load_value(self) -> Any:
        while True:
            opcode = self.take_bytes(1)
            if opcode == b".":
                return self.pop()
            if opcode not in self.opcodes:
                raise damaged_error(f"its pickle has the opcode {opcode!r}, which torch does not write")
            self.opcodes[opcode](self)

    def take_bytes(self, count: int) -> bytes:
        """The next bytes of the pickle. A lying count takes nothing: bytes are copied only if all are there."""
        if count > len(self.data) - self.at:
            raise damaged_error("its pickle is cut short, or longer than the weights of any model need")
        self.at += count
        return self.data[self.at - count : self.at]

    def read_number(self, layout: str) -> Any:
        return struct.unpack(layout, self.take_bytes(struct.calcsize(layout)))[0]

    def read_text(self, count: int) -> str:
        try:
            return self.take_bytes(count).decode("utf-8")
        except UnicodeDecodeError:
            raise damaged_error("its pickle has a text that is not UTF-8") from None

    def read_line(self) -> str:
        end = self.data.find(b"\n", self.at)
        if end < 0:
            raise damaged_error("its pickle is cut short in a name")
        line = self.read_text(end - self.at)
        self.at = end + 1
        return line

    def find_global(self, module: str, name: str) -> Dtype | Unknown | Callable[[tuple], Any]:
        """What stands for a name; see `find_global`."""
        is_known = f"{module}.{name}" in GLOBALS or not self.describes
        return find_global(module, name) if is_known else Unknown(f"{module}.{name}")

    def push(self, value: Any) -> None:
        self.stack.append(value)

    def pop(self, kind: type = object) -> Any:
        self.top(kind)
        return self.stack.pop()

    def top(self, kind: type = object) -> Any:
        """The last value of the stack, which must be of this kind."""
        if not self.stack or not isinstance(self.stack[-1], kind):
            kind_there = type(self.stack[-1]).__name__ if self.stack else "nothing"
            raise damaged_error(f"its pickle needs a {kind.__name__} and has {kind_there}")
        return self.stack[-1]

    def pop_to_mark(self) -> list[Any]:
        """Everything pushed since the last MARK."""
        if not self.below:
            raise damaged_error("its pickle closes what it did not open")
        values, self.stack = self.stack, self.below.pop()
        return values


def find_global(module: str, name: str) -> Dtype | Callable[[tuple], Any]:
    """What stands for a name, or the refusal that names it. The only place where a file could ask for code."""
    full = f"{module}.{name}"
    if full not in GLOBALS:
        raise UnreadableError(
            f"asks for {ascii(full)[1:-1][:100]}, which no tensor needs: refused, nothing was run; if the file is from "
            "somebody you trust, ask for the plain tensors of model.state_dict(), and if not, do not use it"
        )
    return GLOBALS[full]


def push_constant(value: Any) -> Callable[[Machine], None]:
    return lambda machine: machine.push(value)


def push_new(kind: type) -> Callable[[Machine], None]:
    return lambda machine: machine.push(kind())


def push_number(layout: str) -> Callable[[Machine], None]:
    return lambda machine: machine.push(machine.read_number(layout))


def push_text(length: str) -> Callable[[Machine], None]:
    """A text that follows its length in bytes."""
    return lambda machine: machine.push(machine.read_text(machine.read_number(length)))


def push_tuple(count: int) -> Callable[[Machine], None]:
    return lambda machine: machine.push(tuple([machine.pop() for _ in range(count)][::-1]))


def store_in_memo(index: str) -> Callable[[Machine], None]:
    """The last value gets a number, under which `push_from_memo` finds it again."""

    def run(machine: Machine) -> None:
        machine.memo[machine.read_number(index)] = machine.top()

    return run


def push_from_memo(index: str) -> Callable[[Machine], None]:
    def run(machine: Machine) -> None:
        i = machine.read_number(index)
        if i not in machine.memo:
            raise damaged_error(f"its pickle recalls value {i}, which it did not remember")
        machine.push(machine.memo[i])

    return run


def memoize(machine: Machine) -> None:
    machine.memo[len(machine.memo)] = machine.top()


def push_long_number(machine: Machine) -> None:
    count = machine.read_number("<B")
    if count > LONGEST_NUMBER and not machine.describes:
        raise damaged_error(f"its pickle has a number of {count} bytes")
    machine.push(int.from_bytes(machine.take_bytes(count), "little", signed=True))


def push_mark(machine: Machine) -> None:
    machine.below.append(machine.stack)
    machine.stack = []


def add_to_list(machine: Machine, values: list[Any]) -> None:
    machine.top(list).extend(values)


def add_to_dict(machine: Machine, values: list[Any]) -> None:
    """Keys and values in turn. Keys are texts or integers, whose hashes are quick to compute."""
    target = machine.top(dict)
    if len(values) % 2:
        raise damaged_error("its pickle has a key without a value")
    for key, value in zip(values[::2], values[1::2], strict=True):
        if type(key) not in (str, int) or (type(key) is int and abs(key) >= 1 << 60):  # larger ones can share a hash
            raise damaged_error(f"a {type(key).__name__} is used as a name")
        if key in target:
            raise damaged_error("its pickle sets a name twice")
        target[key] = value


def push_global_by_lines(machine: Machine) -> None:
    machine.push(machine.find_global(machine.read_line(), machine.read_line()))


def push_global_by_stack(machine: Machine) -> None:
    name, module = machine.pop(str), machine.pop(str)
    machine.push(machine.find_global(module, name))


def call_function(machine: Machine) -> None:
    """The only functions that a stack can hold are those of GLOBALS."""
    arguments, function = machine.pop(tuple), machine.pop(FunctionType)
    machine.push(function(arguments))


def drop_state(machine: Machine) -> None:
    """BUILD sets an object's attributes. torch does it for one: a state_dict's `_metadata`, which nothing needs."""
    machine.pop()
    machine.top(dict)


# --- what a machine that describes knows besides ---


def call_or_describe(machine: Machine) -> None:
    """Pops a function and its arguments; pushes the call's result, or a description if the name is unknown."""
    arguments, function = machine.pop(tuple), machine.pop()
    if isinstance(function, Unknown):
        machine.push(Described(function.name))
    elif isinstance(function, FunctionType):
        machine.push(function(arguments))
    else:
        raise damaged_error(f"its pickle calls a {type(function).__name__}")


def describe_state(machine: Machine) -> None:
    """BUILD: the attributes of a description are kept, but not set."""
    state = machine.pop()
    target = machine.top()
    if not isinstance(target, Described):
        machine.top(dict)
    elif target.state is not None:
        raise damaged_error("its pickle gives an object its attributes twice")
    else:
        target.state = state


def describe_entries(machine: Machine, values: list[Any]) -> None:
    """Entries of a dict whose keys are texts or integers; others, and those of a description, are passed over."""
    if len(values) % 2:
        raise damaged_error("its pickle has a key without a value")
    if isinstance(machine.top(), Described):
        return
    pairs = zip(values[::2], values[1::2], strict=True)
    add_to_dict(machine, [part for pair in pairs if type(pair[0]) in (str, int) for part in pair])


def describe_items(machine: Machine, values: list[Any]) -> None:
    """Items of a list; those of a description are passed over."""
    if not isinstance(machine.top(), Described):
        add_to_list(machine, values)


def describe_set(machine: Machine) -> None:
    """A frozenset of what is since the last MARK, which is not kept: nothing is hashed."""
    machine.pop_to_mark()
    machine.push(Described("builtins.frozenset"))


def pass_over_items(machine: Machine) -> None:
    """Items of a set."""
    machine.pop_to_mark()
    machine.top(Described)


def push_storage(machine: Machine) -> None:
    """A persistent id: what stands outside the pickle, ("storage", dtype, key, device, count)."""
    match machine.pop(tuple):
        case ("storage", Dtype() as dtype, str(key), _, int(count)) if 0 <= count < 1 << 63:
            pass
        case ("storage", Dtype() as dtype, str(key), _, int(count), None) if 0 <= count < 1 << 63:
            pass  # the stream has a sixth part, for views of storages: torch has written None for years
        case _:
            raise damaged_error("its pickle points at something that is no storage")
    stored = Storage(key, dtype, count)
    if machine.storages.setdefault(key, stored) != stored:
        raise damaged_error("its pickle describes a storage in two ways")
    machine.push(stored)


OPCODES: dict[bytes, Callable[[Machine], None]] = {
    b"\x80": lambda machine: machine.read_number("<B"),  # PROTO: the version of pickle
    b"\x95": lambda machine: machine.read_number("<Q"),  # FRAME: bytes to read at once, of no use here
    b"N": push_constant(None), b"\x88": push_constant(True), b"\x89": push_constant(False), b")": push_constant(()),
    b"}": push_new(dict), b"]": push_new(list),
    b"K": push_number("<B"), b"M": push_number("<H"), b"J": push_number("<i"), b"G": push_number(">d"),
    b"\x8a": push_long_number, b"X": push_text("<I"), b"U": push_text("<B"), b"\x8c": push_text("<B"),  # U: Python 2's
    b"(": push_mark, b"t": lambda machine: machine.push(tuple(machine.pop_to_mark())),
    b"\x85": push_tuple(1), b"\x86": push_tuple(2), b"\x87": push_tuple(3),
    b"q": store_in_memo("<B"), b"r": store_in_memo("<I"), b"\x94": memoize, b"h": push_from_memo("<B"),
    b"j": push_from_memo("<I"), b"a": lambda machine: add_to_list(machine, [machine.pop()]),
    b"e": lambda machine: add_to_list(machine, machine.pop_to_mark()),
    b"s": lambda machine: add_to_dict(machine, [machine.pop(), machine.pop()][::-1]),
    b"u": lambda machine: add_to_dict(machine, machine.pop_to_mark()),
    b"c": push_global_by_lines, b"\x93": push_global_by_stack, b"R": call_function, b"b": drop_state,
    b"Q": push_storage,
}  # fmt: skip
DESCRIBING: dict[bytes, Callable[[Machine], None]] = {
    b"R": call_or_describe, b"\x81": call_or_describe, b"b": describe_state,
    b"a": lambda machine: describe_items(machine, [machine.pop()]),
    b"e": lambda machine: describe_items(machine, machine.pop_to_mark()),
    b"s": lambda machine: describe_entries(machine, [machine.pop(), machine.pop()][::-1]),
    b"u": lambda machine: describe_entries(machine, machine.pop_to_mark()),
    b"B": lambda machine: machine.push(machine.take_bytes(machine.read_number("<I"))),  # bytes
    b"C": lambda machine: machine.push(machine.take_bytes(machine.read_number("<B"))),
    b"\x96": lambda machine: machine.push(machine.take_bytes(machine.read_number("<Q"))),  # a bytearray
    b"\x8f": lambda machine: machine.push(Described("builtins.set")), b"\x91": describe_set,
    b"\x90": pass_over_items,
}  # fmt: skip
