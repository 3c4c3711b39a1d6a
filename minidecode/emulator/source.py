"""What a kernel's byte code says about its source: lines, names, loops, and where a thread left."""

from __future__ import annotations

import ast
import dis
import linecache
import os
import sys
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType, FrameType

import numpy as np

_HERE = os.path.dirname(__file__) + os.sep


def user_frame() -> FrameType:
    """The frame of the code that called into the emulator: the innermost one whose file is not the emulator's."""
    frame = sys._getframe(1)
    while frame.f_code.co_filename.startswith(_HERE):
        frame = frame.f_back
    return frame


@dataclass(frozen=True)
class Place:
    """A place in somebody's source, as a reader would name it."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"line {self.line}"

    def in_words(self, kernel: CodeType | None) -> str:
        """The line in words, with the function if it is not the kernel, and with the file if it is another one."""
        if kernel is None or self.function == kernel.co_name:
            return str(self)
        file = "" if self.file == kernel.co_filename else f", {os.path.basename(self.file)}"
        return f"{self} of {self.function}{file}"


@lru_cache(maxsize=1024)
def _instructions(code: CodeType) -> dict[int, dis.Instruction]:
    return {instruction.offset: instruction for instruction in dis.get_instructions(code)}


@lru_cache(maxsize=1024)
def instruction_starts(code: CodeType) -> np.ndarray:
    """Offset -> where its instruction starts. A frame may point behind it, into the interpreter's inline cache."""
    offsets = np.arange(len(code.co_code) + 2)
    starts = np.array(sorted(_instructions(code)))
    return starts[np.searchsorted(starts, offsets, side="right") - 1]


def instruction_start(code: CodeType, offset: int) -> int:
    return int(instruction_starts(code)[offset])


def place_of_instruction(code: CodeType, offset: int) -> Place:
    """The line of the instruction at this offset."""
    return Place(code.co_filename, line_of(code, offset), code.co_name)


@lru_cache(maxsize=4096)
def line_of(code: CodeType, offset: int) -> int:
    for start, end, line in code.co_lines():
        if start <= offset < end and line is not None:
            return line
    return code.co_firstlineno


def is_written_negative(frame: FrameType, axis: int) -> bool:
    """Whether the index of this axis stands in the source as a number below 0: `a[-1]`, but not `a[i - 1]`."""
    try:
        subscript = ast.parse(text_of_instruction(frame.f_code, frame.f_lasti), mode="eval").body
    except SyntaxError:
        return False
    if not isinstance(subscript, ast.Subscript):
        return False
    parts = subscript.slice.elts if isinstance(subscript.slice, ast.Tuple) else [subscript.slice]
    part = parts[axis] if axis < len(parts) else None
    return isinstance(part, ast.UnaryOp) and isinstance(part.op, ast.USub) and isinstance(part.operand, ast.Constant)


def text_of_instruction(code: CodeType, offset: int) -> str:
    """The expression that this instruction computes, as it is written; "" where the source is not to be had."""
    instruction = _instructions(code).get(instruction_start(code, offset))
    p = instruction.positions if instruction else None
    if p is None or p.lineno is None or p.lineno != p.end_lineno or p.col_offset is None:
        return ""
    line = linecache.getline(code.co_filename, p.lineno).encode()  # columns count bytes
    return line[p.col_offset : p.end_col_offset].decode(errors="replace").strip()


@lru_cache(maxsize=1024)  # each thread of a launch asks
def assigned_name(code: CodeType, offset: int, default: str) -> str:
    """The variable that takes the result of the call at this offset: `tile` in `tile = cuda.shared.array(...)`."""
    following = (i for o, i in sorted(_instructions(code).items()) if o > offset)
    instruction = next(following, None)
    is_name = (
        instruction is not None and instruction.opname.startswith("STORE_") and isinstance(instruction.argval, str)
    )
    return instruction.argval if is_name else default


def numbers_of_names(text: str, frame: FrameType) -> str:
    """The whole numbers behind the names in an expression, as "i = 0, j = 7"."""
    try:
        names = [n.id for n in ast.walk(ast.parse(text, mode="eval")) if isinstance(n, ast.Name)]
    except SyntaxError:
        return ""
    values = {name: frame.f_locals.get(name) for name in dict.fromkeys(names)}
    return ", ".join(f"{name} = {value}" for name, value in values.items() if _is_whole(value))


def _is_whole(value) -> bool:
    return hasattr(value, "__index__") and getattr(value, "shape", ()) == ()


def loop_around_line(code: CodeType, line: int) -> tuple[int, int] | None:
    """First and last line of the innermost loop that holds this line."""
    loops = []
    for instruction in _instructions(code).values():
        if instruction.opcode in dis.hasjrel and instruction.argval < instruction.offset:
            lines = [line_of(code, o) for o in _instructions(code) if instruction.argval <= o <= instruction.offset]
            loops.append((max(lines) - min(lines), min(lines), max(lines)))
    inner = sorted((span, first, last) for span, first, last in loops if first <= line <= last)
    return inner[0][1:] if inner else None


def is_guarded_by_thread_index(code: CodeType, *offsets: int) -> bool:
    """Whether an `if` that asks for the thread's index, and that no loop repeats, holds all these instructions."""
    instructions = _instructions(code)
    jumps = [i for i in instructions.values() if i.opcode in dis.hasjrel]
    back = [(i.argval, i.offset) for i in jumps if i.argval < i.offset]
    for jump in jumps:
        follows = min(o for o in instructions if o > jump.offset)
        is_repeated = any(first <= jump.offset < last or first == follows for first, last in back)  # or a `while`
        holds_them = "_IF_" in jump.opname and all(jump.offset < o < jump.argval for o in offsets)
        asked = _reads_of_line(code, line_of(code, jump.offset)) if holds_them and not is_repeated else set()
        if asked & _names_of_threads(code):
            return True
    return False


@lru_cache(maxsize=1024)
def _names_of_threads(code: CodeType) -> frozenset[str]:
    """`threadIdx` and its like, and the variables that are computed from them."""
    names, known = {"threadIdx", "laneid", "grid"}, 0
    lines = {line for _, _, line in code.co_lines() if line}
    while len(names) > known:
        known = len(names)
        for line in lines:
            if _reads_of_line(code, line) & names:
                names |= _names_of_line(code, line, "STORE_FAST")
    return frozenset(names)


def _reads_of_line(code: CodeType, line: int) -> set[str]:
    return _names_of_line(code, line, "LOAD_")


def _names_of_line(code: CodeType, line: int, operation: str) -> set[str]:
    instructions = [
        i for o, i in _instructions(code).items() if i.opname.startswith(operation) and line_of(code, o) == line
    ]
    several = [i.argval if isinstance(i.argval, tuple) else (i.argval,) for i in instructions]  # Python 3.13 joins two
    return {name for names in several for name in names if isinstance(name, str)}


def with_marked_exits(code: CodeType) -> CodeType:
    """A copy of the code in which each `return` gives back the offset of its own instruction instead of None.

    A kernel returns nothing, so the result is free to say where a thread left: at a `return` that is written out, or
    at the end.
    """
    raw, constants = bytearray(code.co_code), list(code.co_consts)
    instructions = [i for _, i in sorted(_instructions(code).items())]
    for instruction, following in zip(instructions, [*instructions[1:], None], strict=True):
        returns = instruction.opname == "RETURN_CONST" or (
            instruction.opname == "LOAD_CONST" and following is not None and following.opname == "RETURN_VALUE"
        )
        if returns and instruction.argval is None and len(constants) < 256:  # a longer number would need more room
            raw[instruction.offset + 1] = len(constants)
            constants.append(instruction.offset)
    return code.replace(co_code=bytes(raw), co_consts=tuple(constants))


def is_written_return(code: CodeType, offset: int) -> bool:
    """Whether this exit is a `return` that somebody wrote, not the end of the function."""
    return text_of_instruction(code, offset).startswith("return")


def source_lines(code: CodeType) -> dict[int, str]:
    """The function's lines by number; empty where the source is not to be had."""
    numbers = [line for _, _, line in code.co_lines() if line]
    numbers += [line for c in code.co_consts if isinstance(c, CodeType) for _, _, line in c.co_lines() if line]
    last = max(numbers, default=code.co_firstlineno)
    lines = {n: linecache.getline(code.co_filename, n).rstrip("\n") for n in range(code.co_firstlineno, last + 1)}
    return lines if any(lines.values()) else {}
