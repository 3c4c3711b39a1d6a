"""The process in which a student's kernel runs: Numba's type inference and the emulator, over the kernel as data.

Run as a script by `sandbox.py`. It knows no expected values; what it says is what the emulator saw.
"""

from __future__ import annotations

import io
import json
import math
import os
import sys
from collections.abc import Iterator
from typing import Any

WORD_BYTES = 16
PATIENCE = 4.0  # seconds of a loop that leads nowhere


def main() -> None:
    sys.path[:] = json.loads(sys.argv[1])
    questions, answers = os.fdopen(os.dup(0), "rb"), io.BufferedWriter(io.FileIO(os.dup(1), "wb"))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    from minidecode.course.exercises import wire

    word = questions.read(WORD_BYTES)
    _limit_resources(int(sys.argv[2]))
    judge = Judge()
    while True:
        try:
            question = wire.read_message(questions, word)
        except EOFError:
            os._exit(0)
        wire.write_message(answers, word, judge.answer(question))


def _limit_resources(memory: int) -> None:
    try:
        import resource
    except ImportError:
        return
    for name, most in (("RLIMIT_AS", memory), ("RLIMIT_CORE", 0), ("RLIMIT_FSIZE", 0)):
        try:
            resource.setrlimit(getattr(resource, name), (most, most))
        except (AttributeError, ValueError, OSError):
            continue


class Judge:
    """Takes a kernel out of a file and launches it on what it is given."""

    def __init__(self):
        self._taken, self._kernel, self._shape = None, "", None
        self._typed: dict[tuple, list[dict]] = {}

    def answer(self, question: dict) -> dict:
        from minidecode.course.exercises.kernel_source import Refused
        from minidecode.errors import MinidecodeError

        try:
            return getattr(self, "do_" + question["do"])(**question["with"])
        except Refused as refused:
            return {"refused": refused.mistake, "message": refused.message}
        except MinidecodeError as error:
            return {"refused": "cannot-run", "message": str(error)}
        except MemoryError:
            return {"refused": "memory", "message": "more memory than it may have"}
        except Exception as error:
            return {"refused": "cannot-run", "message": f"{type(error).__name__}: {str(error)[:300]}"}

    def do_load(self, source: str, file: str, kernel: str, shape: str) -> dict:
        from minidecode.course.exercises.kernel_source import take_kernel

        self._taken = take_kernel(source, file, kernel, [shape] if shape else [])
        self._kernel, self._shape = kernel, shape
        self._typed = {}
        return {"ok": True}

    def do_run(self, arguments: list, shape_arguments: list, launch: Any, options: dict, picture: bool) -> dict:
        from numba import typeof

        from minidecode.course.exercises.kernel_source import Refused
        from minidecode.emulator import emulate
        from minidecode.errors import EmulationError

        kernel = self._taken.functions[self._kernel]
        if self._shape:
            try:
                launch = self._taken.functions[self._shape](*shape_arguments)
            except Exception as error:
                raise Refused("cannot-run", f"{self._shape} raised {type(error).__name__}: {error}") from None
        blocks, threads = _check_launch_shape(launch, self._shape)
        types = self._check_types_once(kernel, tuple(map(typeof, arguments)))
        try:
            run = emulate(kernel, patience=PATIENCE, **options)[blocks, threads](*arguments)
        except EmulationError:  # more blocks than the emulator gets through
            size = f"the launch has {math.prod(blocks):,} blocks of {math.prod(threads):,} threads"
            raise Refused("time", f"{size}, which would take minutes: the input needs far fewer.") from None
        return {
            "launch": [list(blocks), list(threads)],
            "arrays": [a for a in arguments if hasattr(a, "shape") and getattr(a, "ndim", 0)],
            "findings": [_finding_as_dict(f, run) for f in run.findings],
            "counts": _counts_of_run(run),
            "lines": {str(place.line): {k: int(v) for k, v in vars(c).items()} for place, c in run.lines.items()},
            "accesses": _accesses_by_line(run),
            "costs": run.costs,
            "shared": {m.name: list(m.shape) for m in run._launch.journal.memories if m.space == "shared"},
            "names": sorted({name for f in self._taken.functions.values() for name in _names_used(f)}),
            "waits": {str(line): name for line, name in self._taken.waits.items()},
            "written": self._taken.written,
            "loaded": _loads_of_elements(run, kernel),
            "exchanged": _count_exchanged(run),
            "handed_over": _count_handed_over(run),
            "loads_of_threads": _loads_of_threads(run),
            "shared_bytes": sum(m.nbytes for m in run._launch.journal.memories if m.space == "shared"),
            "types": types,
            "arrays_touched": _arrays_touched(run, kernel),
            "picture": run.to_svg() if picture and _shows_the_mistake(run) else None,
        }  # fmt: skip

    def _check_types_once(self, kernel: Any, argument_types: tuple) -> list[dict]:
        """Numba's remarks on the kernel, once for each set of types. Raises Refused for what cannot be compiled."""
        from minidecode.conformance.kernel_types import check_types
        from minidecode.course.exercises.kernel_source import Refused

        if argument_types not in self._typed:
            notes = check_types(kernel, argument_types)
            self._typed[argument_types] = [{"kind": n.kind, "line": n.line, "message": n.message} for n in notes]
        notes = self._typed[argument_types]
        if refused := [n for n in notes if n["kind"] == "error"]:
            where = f"line {refused[0]['line']}: " if refused[0]["line"] else ""
            raise Refused("types", f"{where}Numba's compiler would refuse this: {refused[0]['message']}")
        return notes


def _check_launch_shape(launch: Any, name: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(blocks, threads), each as a tuple of integers. Raises Refused for anything else."""
    from minidecode.course.exercises.kernel_source import Refused

    def check_shape(part: Any) -> tuple[int, ...] | None:
        part = tuple(part) if isinstance(part, tuple | list) else (part,)
        whole = all(isinstance(n, int) and not isinstance(n, bool) and 0 < n < 2**31 for n in part)
        return tuple(map(int, part)) if whole and 1 <= len(part) <= 3 else None

    if isinstance(launch, tuple | list) and len(launch) == 2:
        blocks, threads = map(check_shape, launch)
        if blocks and threads:
            return blocks, threads
    raise Refused("cannot-run", f"{name} must return (blocks, threads), integers above 0, not {str(launch)[:60]}")


def _shows_the_mistake(run: Any) -> bool:
    """Whether the picture of this run shows what went wrong: an access, or, where nothing did, what costs most."""
    return run.ok or run.errors[0].kind == "race" or "at" in run.errors[0].detail


def _arrays_touched(run: Any, kernel: Any) -> dict:
    """Loads and stores by array: of the kernel's arguments in their order, and of shared arrays by name.

    An atomic counts as a load and as a store.
    """

    def count_accesses(name: str) -> list[int]:
        counted = arrays.get(name, {})
        atomics = counted.get("atomics", 0)
        return [counted.get("loads", 0) + atomics, counted.get("stores", 0) + atomics]

    arrays = run.arrays
    shared = {m.name for m in run._launch.journal.memories if m.space == "shared"}
    return {"arguments": [count_accesses(name) for name in _argument_names(kernel)],
            "shared": {name: count_accesses(name) for name in sorted(shared)}}  # fmt: skip


def _argument_names(kernel: Any) -> tuple[str, ...]:
    """What the student calls them."""
    code = getattr(kernel, "py_func", kernel).__code__
    return code.co_varnames[: code.co_argcount]


def _accesses_by_line(run: Any) -> list[dict]:
    """What each instruction did that reads or writes memory, line by line."""
    from minidecode.emulator.memory import LOAD, STORE

    kinds, atomics = {LOAD: "load", STORE: "store"}, _traffic_of_atomics(run)
    return [
        {"line": run.place_of(key[0]).line, "kind": kinds.get(c.kind, "atomic"), "shared": bool(c.shared),
         **{name: int(getattr(c, name)) for name in ("accesses", "requests", "passes", "sectors", "least_sectors")},
         **atomics.get(key, {})}
        for key, c in sorted(run.sites.items())
    ]  # fmt: skip


def _traffic_of_atomics(run: Any) -> dict[tuple[int, bool], dict[str, int]]:
    """What atomics move, by instruction: the emulator leaves that out, and who measures traffic must not.

    In global memory the sectors of a request are read and written, so each counts twice. In shared memory a request
    takes as many passes as one bank has different words to change.
    """
    import numpy as np

    from minidecode.emulator.memory import ATOMIC, SHARED_BASE
    from minidecode.emulator.traffic import BANK_BYTES, BANKS, SECTOR

    traffic: dict[tuple[int, bool], dict[str, int]] = {}
    if not run.atomics:
        return traffic
    for kept in run._launch.analysis.traffic.kept:
        is_atomic, is_shared = run._launch.journal.access_kinds(kept.site) == ATOMIC, kept.address >= SHARED_BASE
        for site in np.unique(kept.site[is_atomic]).tolist():
            for shared in (False, True):
                at = is_atomic & (kept.site == site) & (is_shared == shared)
                if not at.any():
                    continue
                of_site = traffic.setdefault((site, shared), {"sectors": 0, "passes": 0})
                unit = BANK_BYTES if shared else SECTOR
                request, place = np.unique(np.stack([kept.request[at], kept.address[at] // unit]), axis=1)
                if shared:
                    banks, words = np.unique(np.stack([request, place % BANKS]), axis=1, return_counts=True)
                    first = np.unique(banks[0], return_index=True)[1]
                    of_site["passes"] += int(np.maximum.reduceat(words, first).sum())
                else:
                    of_site["sectors"] += 2 * len(request)
    return traffic


_OF_AN_ACCESS = ("index", "last_stored", "element", "thread", "epoch", "passed_by")


def _finding_as_dict(f: Any, run: Any) -> dict:
    """A finding in plain words and numbers.

    array and space: what it is about; reads: the lines that read there; turns: see `_turns_in_words`. Of an access that
    ended the launch also its index (in an array of one axis), the thread with the barriers passed (epoch), and of a
    read of what nothing has written element and last_stored, the last place that was written, and whether its thread
    had passed by a barrier at which others wait.
    """
    from minidecode.emulator.memory import LOAD

    array, race = f.detail.get("array"), f.detail.get("race")
    spaces = {m.name: m.space for m in run._launch.journal.memories}
    space = f.detail.get("space", spaces.get(array))  # a thread's own arrays are in no journal
    reads = [p.line for p in f.places] if f.kind == "uninitialised" else []
    if race is not None:
        reads = [run.place_of(a.site).line for a in (race.first, race.second) if a.kind == LOAD]
    return {"kind": f.kind, "message": f.message, "severity": f.severity, "lines": sorted({p.line for p in f.places}),
            "array": array, "space": space, "reads": reads,
            "turns": _turns_in_words(run, f.detail, race),
            **{name: f.detail[name] for name in _OF_AN_ACCESS if name in f.detail}}  # fmt: skip


def _turns_in_words(run: Any, detail: dict, race: Any) -> list[str]:
    """The order in which threads wrote and read a finding's array, with no barrier of the block between, in words.

    "written, read" where some thread did so in this order, "read, written" where in the other one; "written" where
    anything was written.
    """
    import numpy as np

    from minidecode.emulator.memory import LOAD

    block, epoch = (
        (race.first.thread.block.number, race.first.epoch) if race else (detail.get("block"), detail.get("epoch"))
    )
    memory = next((m for m in run._launch.journal.memories if m.name == detail.get("array")), None)
    kept = run._launch.analysis.traffic.kept_of_block(block) if memory is not None and block is not None else None
    if kept is None:
        return []
    here = (kept.epoch == epoch) & (kept.address >= memory.start) & (kept.address < memory.start + memory.nbytes)
    is_read, thread = run._launch.journal.access_kinds(kept.site[here]) == LOAD, kept.thread[here]
    turns = {"written"} if not is_read.all() else set()
    for t in np.unique(thread):
        reads = is_read[thread == t].tolist()
        if True in reads and False in reads:
            last_read = len(reads) - 1 - reads[::-1].index(True)
            last_write = len(reads) - 1 - reads[::-1].index(False)
            turns |= {"written, read"} if reads.index(False) < last_read else set()
            turns |= {"read, written"} if reads.index(True) < last_write else set()
    return sorted(turns)


def _loads_of_elements(run: Any, kernel: Any) -> list[Any]:
    """How often each element of each of the kernel's arguments was loaded, as far as the accesses were kept."""
    import numpy as np

    from minidecode.emulator.memory import STORE

    counts = {m.name: np.zeros(m.nbytes // m.dtype.itemsize, np.int64) for m in run._launch.journal.memories
              if m.space == "global"}  # fmt: skip
    for kept in run._launch.analysis.traffic.kept:
        loads = run._launch.journal.access_kinds(kept.site) != STORE  # an atomic loads, too
        for m in run._launch.journal.memories:
            at = (kept.address[loads] - m.start) // m.dtype.itemsize
            if m.space == "global":
                np.add.at(counts[m.name], at[(at >= 0) & (at < len(counts[m.name]))], 1)
    return [counts.get(name) for name in _argument_names(kernel)]


def _count_exchanged(run: Any) -> int:
    """How many loads from shared memory took what another thread had put there."""
    last: dict[tuple[int, int], int] = {}
    exchanged = 0
    for place, thread, reads, writes in _shared_accesses(run):
        if reads:
            exchanged += last.get(place, thread) != thread
        if writes:
            last[place] = thread
    return exchanged


def _count_handed_over(run: Any) -> int:
    """How many numbers were put into shared memory by one thread and taken out by another, each once."""
    waiting: dict[tuple[int, int], int] = {}  # place -> who has put there what no other thread has taken yet
    handed_over = 0
    for place, thread, reads, writes in _shared_accesses(run):
        if reads and waiting.get(place, thread) != thread:
            handed_over += 1
            del waiting[place]
        if writes:
            waiting[place] = thread
    return handed_over


def _shared_accesses(run: Any) -> Iterator[tuple[tuple[int, int], int, bool, bool]]:
    """((block, address), thread, whether it reads, whether it writes) of each access to shared memory, in order."""
    from minidecode.emulator.memory import LOAD, SHARED_BASE, STORE

    for kept in run._launch.analysis.traffic.kept:
        kinds, shared = run._launch.journal.access_kinds(kept.site), kept.address >= SHARED_BASE
        columns = (kept.block, kept.address, kept.thread, kinds)
        for block, address, thread, kind in zip(*(column[shared].tolist() for column in columns), strict=True):
            yield (block, address), thread, kind != STORE, kind != LOAD


def _loads_of_threads(run: Any) -> list[int]:
    """How often each thread loads from global memory that does so at all."""
    import numpy as np

    from minidecode.emulator.memory import SHARED_BASE, STORE

    pairs = [np.empty((2, 0), np.int64)]
    for kept in run._launch.analysis.traffic.kept:
        loads = (run._launch.journal.access_kinds(kept.site) != STORE) & (kept.address < SHARED_BASE)
        pairs.append(np.stack([kept.block[loads], kept.thread[loads]]))
    return np.unique(np.concatenate(pairs, axis=1), axis=1, return_counts=True)[1].tolist()


def _names_used(function: Any) -> tuple[str, ...]:
    """What a function of the file names of cuda and of the file's constants."""
    return getattr(function, "py_func", function).__code__.co_names


def _counts_of_run(run: Any) -> dict[str, int]:
    """The launch in numbers. An atomic reads and writes: it counts as a load and as a store, with what both move."""
    names = ("global_loads", "global_stores", "shared_loads", "shared_stores", "atomics", "sectors", "bank_conflicts")
    counts = {name: int(run.total(name)) for name in names}
    moved = wanted = 0
    for (site, shared), traffic in _traffic_of_atomics(run).items():
        count = run.sites[site, shared]
        where = "shared" if shared else "global"
        counts[f"{where}_loads"] += count.accesses
        counts[f"{where}_stores"] += count.accesses
        counts["sectors"] += traffic["sectors"]
        counts["bank_conflicts"] += traffic["passes"] - count.requests if shared else 0
        wanted += 0 if shared else 2 * count.bytes
        moved += 32 * traffic["sectors"]
    return counts | {"bytes_wanted": int(run.bytes_wanted) + wanted, "bytes_moved": int(run.bytes_moved) + moved,
                     "barriers": run.barriers, "shuffles": run.shuffles, "votes": run.votes}  # fmt: skip


if __name__ == "__main__":
    main()
