"""What a kernel's machine code (SASS) asks of a multiprocessor, counted without a GPU: loads, waits, branches.

NVIDIA's disassembler reads the cubin that `kernel_build.py` links. It comes with the extra `ptx`. A loop is what
lies between a conditional branch backward and its label: the other branches backward return from code that is kept
out of the way. The main loop is the one that loads the most bytes from global memory, the inner one of two that load
as much. In a kernel without such a loop, all of its code counts as the main loop.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from ..errors import OptionError, pip_install

PACKAGE, PROGRAM = "nvidia-cuda-nvdisasm", "nvdisasm"
LABEL = re.compile(r"^(\.L\w+):")
INSTRUCTION = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/\s+(@!?U?P\w+\s+)?([A-Z][\w.]*)\s*(.*?)\s*;")
# Units of which a scheduler has less than 32 lanes: cycles of an instruction (CUDA's programming guide, throughputs of
# compute capability 9.0), and what goes to them. All other instructions take a cycle.
UNITS = {
    "integers": (
        2,
        "IADD3 LOP3 ISETP SEL LEA SHF PRMT VIADD VIMNMX VIADDMNMX IMNMX FSETP FSEL FMNMX PLOP3 BMSK SGXT IABS",
    ),
    "memory": (4, "LD LDG LDS LDL ST STG STS STL SHFL ATOMS ATOMG ATOM RED"),
    "functions": (8, "MUFU F2F I2F F2I POPC FLO"),
}
OTHERS = ("LDS", "STS", "ATOMS", "SHFL", "STG", "ST", "VOTE", "REDUX", "ATOMG", "RED", "BAR")
TARGET, REGISTER = re.compile(r"\((\.L\w+)\)"), re.compile(r"\bR(\d+)\b")


@dataclass(frozen=True)
class Counts:
    """The counts of one kernel: in all of its code, and in its main loop.

    `loop_` counts instructions as they stand there. `turn_` and `rest_` estimate how many run, in a turn of the main
    loop and once through all other code, if half of the branches forward are taken, and inner loops have one turn.
    """

    instructions: int
    branches: int
    wide_compares: int  # of 64 bits: an index or a bound that is no int32
    local_accesses: int  # of memory that stands for registers
    has_loop: bool
    loop_instructions: int
    loop_loads: int  # from global memory
    loop_bytes: int  # that these loads bring to a thread
    loop_waits: int  # how often a loaded register is used while loads are under way
    first_loads: int  # that the loop issues before it first uses a register that one of them fills
    turn_instructions: float
    turn_cycles: float  # of a scheduler: its own, or those of the busiest of the units that it feeds
    turn_loads: float
    turn_bytes: float
    turn_waits: float
    turn_others: float  # accesses of shared memory, shuffles and stores
    rest_instructions: float
    rest_cycles: float
    rest_others: float  # the same in the other code, and loads from global memory


@dataclass(frozen=True)
class _Instruction:
    name: str  # with its suffixes, as in LDG.E.128
    operands: str
    is_conditional: bool

    @property
    def operation(self) -> str:
        return self.name.partition(".")[0]

    @property
    def loaded_bytes(self) -> int:
        """Bytes that it loads from global memory."""
        if self.operation not in ("LDG", "LD"):
            return 0
        bits = {"128": 128, "64": 64, "U8": 8, "S8": 8, "U16": 16, "S16": 16}
        return next((bits[part] for part in self.name.split(".") if part in bits), 32) // 8

    def registers(self) -> set[int]:
        return {int(number) for number in REGISTER.findall(self.operands)}


def disassemble(cubin: bytes) -> str:
    """The machine code as text. Raises OptionError where the disassembler is missing or cannot read it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "kernel.cubin")
        path.write_bytes(cubin)
        ended = subprocess.run([_find_disassembler(), "-c", str(path)], capture_output=True, text=True)
    if ended.returncode:
        raise OptionError(f"{PROGRAM} cannot read this machine code: {ended.stderr.strip() or 'it does not say why'}")
    return ended.stdout


def _find_disassembler() -> str:
    try:
        files = metadata.files(PACKAGE) or []
    except metadata.PackageNotFoundError:
        files = []
    installed = next((str(f.locate()) for f in files if f.stem == PROGRAM and f.suffix in ("", ".exe")), None)
    if program := installed or shutil.which(PROGRAM):
        return program
    raise OptionError(f"counting a kernel's instructions needs {PROGRAM}: {pip_install(PACKAGE)}")


def count_instructions(sass: str) -> Counts:
    """Counts the text that `disassemble` returns. Raises OptionError if it holds no instruction."""
    code, labels = _parse_instructions(sass.splitlines())
    if not code:
        raise OptionError(f"{PROGRAM} printed no instruction: its text is not as it was")
    loop = _main_loop(code, labels)
    body = code[loop] if loop else code
    waits, first = _waits_for_loads(body)
    begin, end = (loop.start, loop.stop) if loop else (0, len(code))
    share = _shares_of_instructions(code, labels, 0, len(code))
    turn = dict(enumerate(_shares_of_instructions(code, labels, begin, end), begin))
    rest = {i: p for i, p in enumerate(share) if i not in turn}
    loads = [i.loaded_bytes for i in body if i.loaded_bytes]
    return Counts(
        instructions=len(code),
        branches=sum(i.operation == "BRA" for i in code),
        wide_compares=sum(i.operation == "ISETP" and ".EX" in i.name for i in code),
        local_accesses=sum(i.operation in ("LDL", "STL") for i in code),
        has_loop=loop is not None, loop_instructions=len(body), loop_loads=len(loads), loop_bytes=sum(loads),
        loop_waits=len(waits), first_loads=first,
        turn_instructions=sum(turn.values()), turn_cycles=_issue_cycles(code, turn),
        turn_loads=sum(p for i, p in turn.items() if code[i].loaded_bytes),
        turn_bytes=sum(p * code[i].loaded_bytes for i, p in turn.items()),
        turn_waits=sum(turn[begin + i] for i in waits),
        turn_others=sum(p for i, p in turn.items() if code[i].operation in OTHERS),
        rest_instructions=sum(rest.values()), rest_cycles=_issue_cycles(code, rest),
        rest_others=sum(p for i, p in rest.items() if code[i].operation in OTHERS or code[i].loaded_bytes),
    )  # fmt: skip


def _parse_instructions(lines: Iterable[str]) -> tuple[list[_Instruction], dict[str, int]]:
    """All instructions, without those that fill up the end, and label -> number of the instruction behind it."""
    code: list[_Instruction] = []
    labels: dict[str, int] = {}
    for line in lines:
        if label := LABEL.match(line):
            labels[label[1]] = len(code)
        elif (match := INSTRUCTION.match(line)) and match[2] != "NOP":
            code.append(_Instruction(match[2], match[3], match[1] is not None))
    return code, labels


def _main_loop(code: list[_Instruction], labels: dict[str, int]) -> slice | None:
    loops = []
    for end, instruction in enumerate(code):
        is_branch = instruction.operation == "BRA" and instruction.is_conditional
        target = TARGET.search(instruction.operands) if is_branch else None
        begin = labels.get(target[1]) if target else None
        if begin is not None and begin < end:
            loops.append(slice(begin, end + 1))
    loading = [loop for loop in loops if any(i.loaded_bytes for i in code[loop])]
    return max(
        loading, key=lambda loop: (sum(i.loaded_bytes for i in code[loop]), loop.start - loop.stop), default=None
    )


def _shares_of_instructions(code: list[_Instruction], labels: dict[str, int], begin: int, end: int) -> list[float]:
    """How often each of these instructions runs in one pass, if half of the branches forward are taken.

    No branch leads to an exit: that is for threads that have nothing to do, and the others go on. BRA.DIV leads to code
    for warps whose lanes have parted, and is not taken.
    """

    def leaves_kernel(i: int) -> bool:
        return i < len(code) and code[i].operation == "EXIT" and not code[i].is_conditional

    share = [0.0] * (end - begin + 1)
    share[0] = 1.0
    for i in range(begin, end):
        instruction, here = code[i], share[i - begin]
        target = TARGET.search(instruction.operands) if instruction.name == "BRA" else None
        to = labels.get(target[1], end) if target else i
        if leaves_kernel(i) or (instruction.operation == "RET" and not instruction.is_conditional):
            continue  # nothing goes on behind it
        taken = 0.0
        if to > i:
            taken = (
                here
                if leaves_kernel(i + 1) or not instruction.is_conditional
                else 0.0
                if leaves_kernel(to)
                else here / 2
            )
            share[min(to, end) - begin] += taken
        share[i + 1 - begin] += here - taken
    return share[:-1]


def _issue_cycles(code: list[_Instruction], share: dict[int, float]) -> float:
    of_units = [
        cycles * sum(p for i, p in share.items() if code[i].operation in names.split())
        for cycles, names in UNITS.values()
    ]
    return max(sum(share.values()), *of_units)


def _waits_for_loads(body: list[_Instruction]) -> tuple[list[int], int]:
    """(which instructions of a turn wait for loads, how many loads it issues before it waits first).

    The second of two turns is counted: loads at the end of a turn may be used in the next.
    """
    pending: set[int] = set()
    waits: list[int] = []
    first, issued = 0, 0
    for _ in range(2):
        waits, first, issued = [], 0, len(pending) and issued
        for i, instruction in enumerate(body):
            if pending & instruction.registers():
                waits, first, issued, pending = [*waits, i], first or issued, 0, set()
            if instruction.loaded_bytes and (destination := REGISTER.search(instruction.operands)):
                begin = int(destination[1])
                pending |= set(range(begin, begin + max(1, instruction.loaded_bytes // 4)))
                issued += 1
        first = first or issued
    return waits, first
