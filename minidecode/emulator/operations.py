"""How many operations a kernel does: every arithmetic operation and comparison of its Python code, as it runs.

Counted are the operators of the source, those in indices and loop conditions included, and each call of a mathematical
function as one. Not counted are conversions, reads, stores and what `range` does. Python's own tracing tells which
instruction runs next; that is slow, so it is done only where it is asked for.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable, Set
from types import CodeType, FrameType

from . import arithmetic
from .source import Place, place_of_instruction

UNARY = {"UNARY_NEGATIVE", "UNARY_INVERT", "UNARY_NOT"}
_MATHEMATICS = arithmetic.__file__
_NO_OPERATION = {"__call__", "wrapped"}  # of that file: casts


class Operations:
    """Counts within `with Operations(codes) as operations:`, in functions that have one of these code objects.

    `codes` may grow meanwhile.
    """

    def __init__(self, codes: Set[CodeType]):
        self._codes = codes
        self._executed: dict[CodeType, list[int]] = {}  # by offset
        self._callees: dict[CodeType, list[int]] = {}  # mathematical functions, by offset
        self._local: dict[CodeType, Callable] = {}

    def _begin(self, code: CodeType) -> None:
        self._executed[code], self._callees[code] = ([0] * (len(code.co_code) + 2) for _ in range(2))
        self._local[code] = _make_opcode_tracer(self._executed[code])

    def __enter__(self) -> Operations:
        self._outer = sys.gettrace()
        sys._getframe().f_trace_opcodes = True  # Python 3.12 heeds it only if a frame asked before tracing begins
        sys.settrace(self.count_in_function)
        return self

    def __exit__(self, *_) -> None:
        sys.settrace(self._outer)

    def count_in_function(self, frame: FrameType, event: str, _):
        """What Python calls for every function that begins. A greenlet has to be told of it by `sys.settrace` too."""
        code = frame.f_code
        if code in self._codes:
            if code not in self._local:
                self._begin(code)
            frame.f_trace = self._local[code]  # set first: Python 3.13 heeds the next line only in a traced frame
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
            return self._local[code]
        if code.co_filename == _MATHEMATICS and code.co_name not in _NO_OPERATION:
            caller = frame.f_back
            if caller is not None and caller.f_code in self._callees:
                self._callees[caller.f_code][caller.f_lasti] += 1
        return None

    def by_place(self) -> dict[Place, int]:
        """Operations by line of source."""
        counts: dict[Place, int] = {}
        for code, executed in self._executed.items():
            callees = self._callees[code]
            operators = {i.offset for i in dis.get_instructions(code) if _is_operation(i)}
            for offset, calls in enumerate(callees):
                count = calls + (executed[offset] if offset in operators else 0)
                if count:
                    place = place_of_instruction(code, offset)
                    counts[place] = counts.get(place, 0) + count
        return counts


def _make_opcode_tracer(executed: list[int]):
    def count_opcode(frame: FrameType, event: str, _):
        if event == "opcode":
            executed[frame.f_lasti] += 1
        return count_opcode

    return count_opcode


def _is_operation(instruction: dis.Instruction) -> bool:
    name = instruction.opname
    if name == "BINARY_OP":
        return instruction.argrepr != "[]"  # Python 3.14 reads an element by it
    return name == "COMPARE_OP" or name in UNARY
