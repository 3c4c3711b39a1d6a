"""One launch: blocks and threads take turns in a seeded, adversarial order until all are done or one has to stop."""

from __future__ import annotations

import contextlib
import contextvars
import inspect
import sys
import time
from dataclasses import dataclass, replace
from functools import partial
from types import CodeType, FunctionType

import numpy as np
from greenlet import GreenletExit, getcurrent

from .analysis import BATCH, Analysis
from .arithmetic import Undefined, numpy_dtype_of
from .arrays import Array, House, Quiet, Traced, Unforeseen, WrittenBytes, arrays_in
from .binding import Binder, code_with_marked_exits
from .clocks import Known, Publications, merge_knowledge
from .cuda_module import FakeCuda
from .findings import Finding, Stop
from .journal import Journal
from .operations import Operations
from .schedules import SCHEDULES, Schedule
from .source import Place, assigned_name, instruction_start, loop_around_line, place_of_instruction
from .threads import Block, Dim3, Greenlets, Thread, Wait
from .watchdog import Interrupted, Watchdog

START_ANOTHER = 20  # rounds in which nothing changes, until another block is started beside those that wait
LONG = 60.0  # seconds; a launch that would take longer is not run unasked
JUDGED, SURE = 3, 2.0  # this many blocks decide about that; seconds of one block that decide at once
MANY = 2**20  # blocks; more of them take that long, however little they do, and their order alone fills the memory
GIVE_UP = 200  # such rounds until it is a deadlock, if the threads that wait do nothing but ask
GIVE_UP_COUNTING = 50_000  # and if they count while they ask, or go through a long loop of atomics
_new_tuple = tuple.__new__  # half as long as a named tuple's own
STATIC_SHARED = 48 * 1024  # bytes of shared memory that a block may have without asking


@dataclass
class Settings:
    """How a kernel is emulated; see `emulate`."""

    seed: int = 0
    trace: bool = True
    strict: bool = False
    negative_indices: bool = False
    empty: tuple[str, ...] = ()
    blocks: str | int | None = None
    patience: float = 10.0
    operations: bool = False
    schedules: int = SCHEDULES


class Launch:
    """Runs a kernel's threads. What the threads call (`wait`, `atomic`, `shared_array`, ...) stands at the end."""

    def __init__(
        self, function: FunctionType, grid: Dim3, block: Dim3, dynamic_shared: int, settings: Settings,
        greenlets: Greenlets, schedule: Schedule | None = None, first: Launch | None = None,
    ):  # fmt: skip
        """first: the clean run, if this one is to show only whether there is an error at all, as fast as can be."""
        self._greenlets = greenlets
        self.schedule = schedule  # None: an order drawn from the seed
        self.schedules = 1  # that have run; see schedules.py
        self.has_atomics_or_fences = False
        self.block_numbers: list[int] = []  # of all blocks that are to run
        self.function, self.grid, self.block, self.settings = function, grid, block, settings
        self.dynamic_shared = dynamic_shared
        self.journal = Journal()
        self.house = House(self.journal, settings.trace, settings.negative_indices)
        self.house.current = self.current
        self.analysis = Analysis(self.journal, grid, block, counts=first is None) if settings.trace else None
        if first is not None:
            self.house.quiet = first.house.roots_without_races(first.analysis.traffic.arrays)
        self.findings: list[Finding] = []
        self.operations: Operations | None = None  # where they are counted
        self.blocks_begun = self.blocks_run = self.barriers_passed = self.shuffles = self.votes = 0
        self._rng = np.random.default_rng(schedule.seed if schedule else settings.seed)
        self._loses_turn = schedule.loses_turn if schedule else 0.0
        self._thread: Thread | None = None
        self._publications = Publications()
        self._moves = 0  # turns that led somewhere
        self._steps = 0  # turns in which a thread came on by itself, if only in its own variables
        self._is_looking = False  # the analysis is at work
        self.was_stopped = False  # by an error, before its end
        self._cuda = FakeCuda(self, grid, block)
        self._codes: set[CodeType] = set()
        self._atomic_sites: set[int] = set()  # of atomics, before they are led back to their instruction
        self._shared_sites: dict[object, object] = {}  # call site -> its Memory, the same for every block
        self._local_names: dict[tuple[int, int], str] = {}  # call site -> the variable that takes the array

    def run(self, arguments: tuple) -> None:
        """All blocks, or those of the sample. Findings that end the launch are among the findings afterwards."""
        binder = Binder(self._cuda, self.house.constant_array)
        kernel = code_with_marked_exits(self.function)
        bound = binder.bind(self.function, kernel)
        self._kernel = self.journal.kernel = kernel
        self._codes = binder.codes
        self.operations = Operations(binder.codes) if self.settings.operations else None
        with np.errstate(all="ignore"), self.operations or contextlib.nullcontext():
            self._context = contextvars.copy_context()  # greenlets begin without; this one keeps NumPy silent
            self._call = partial(
                self._counting_kernel(bound) if self.operations else bound, *self._wrap_arguments(arguments)
            )
            resident: list[Block] = []
            try:
                Watchdog(self.settings.patience, self._progress).run_watched(partial(self._run_blocks, resident))
            except Stop as stop:
                self.was_stopped = True
                self.findings.append(stop.finding)
            except TakesTooLongError:
                raise
            except _Enough:
                pass  # what was found is in the analysis
            except Interrupted as interruption:
                self.was_stopped = True
                self.journal.trim()
                self.findings.append(self._endless_finding(interruption))
            except Exception as error:
                self.was_stopped = True
                self.findings.append(self._kernel_error_finding(error))
            finally:
                for block in resident:
                    self.findings += block.notes
                    _end_threads(block)
            if self._thread is not None:
                self.journal.close_segment(self._thread)  # of a turn that did not come to its end
            if self.analysis:
                self.findings += self.analysis.findings()

    def _progress(self) -> object:
        """What the watchdog looks at: something new each time while the analysis is at work, which is no loop."""
        return time.monotonic() if self._is_looking else (self._moves, self._steps)

    def _counting_kernel(self, kernel: FunctionType):
        """The kernel for a greenlet, in which Python's tracing has to be switched on anew."""

        def run(*arguments):
            sys.settrace(self.operations.count_in_function)
            return kernel(*arguments)

        return run

    # Blocks and turns

    def _run_blocks(self, resident: list[Block]) -> None:
        """One block after the other; beside a block that spins, waiting for another, the next one is started too."""
        self._hub, started = getcurrent(), time.process_time()  # not of other programs, on a busy machine
        spent: list[float] = []  # seconds, on each of the first blocks
        waiting = self.schedule.blocks[::-1] if self.schedule else self.blocks_to_run()
        self.block_numbers = list(waiting)
        beside = self.schedule.beside if self.schedule else 1
        while waiting or resident:
            while waiting and len(resident) < beside:
                resident.append(self._start_block(waiting.pop()))
            running = [b for b in resident if not b.is_at_grid_barrier]
            if waiting and all(b.idle_rounds > START_ANOTHER for b in running):
                resident.append(self._start_block(waiting.pop()))
                running.append(resident[-1])
            elif not running:
                running = self._pass_grid_barrier(resident)
            elif all(b.idle_rounds > GIVE_UP_COUNTING or b.asking_rounds > GIVE_UP for b in running):
                running[0].stop_at_spinning()
            for block in running:
                self._run_round(block)
                if not block.live:
                    self._finish_block(block)
                    resident.remove(block)
                    if self.settings.blocks is None and self.schedule is None and self.blocks_run <= JUDGED:
                        spent.append(time.process_time() - started - sum(spent))
                        self._refuse_if_long(spent, len(waiting))

    def _pass_grid_barrier(self, resident: list[Block]) -> list[Block]:
        """Lets all blocks go on; what each did before is ordered before what any does afterwards (see clocks.py)."""
        if len(resident) < self._block_count:
            wait, count = resident[0].live[0].waits, len(resident)
            is_sample = resident[0].is_sample
            absent = (
                f"{self._block_count - count} {'do not run in this sample' if is_sample else 'have ended before it'}"
            )
            raise Stop(Finding(
                "barrier", f"cuda.{wait.operation}() at {wait.place}: {count} of {self._block_count} blocks wait there,"
                f" and {absent}. This barrier is for the whole grid.", [wait.place],
                remedy='Give emulate() blocks="all".' if is_sample else "Let every block come to it equally often.",
            ))  # fmt: skip
        for block in resident:
            block.pass_barrier(self._kernel)
            block.knows = True
        past = Known({block.number: block.epoch for block in resident})
        for thread in [t for block in resident for t in block.live]:
            thread.known = merge_knowledge([thread.known, past])
        self.barriers_passed += len(resident)
        self._analyse_if_much()
        return list(resident)

    def _refuse_if_long(self, spent: list[float], waiting: int) -> None:
        """Ends a launch of which all blocks would take more than LONG seconds; `spent` on each of the first ones.

        The fastest of JUDGED blocks decides, for one may be slow by chance: Python may collect its garbage meanwhile.
        A block that took over SURE seconds decides alone.
        """
        is_one_of_many = self._block_count > MANY
        seconds = min(spent) * (self._block_count - 1 if is_one_of_many else waiting)
        is_clear = is_one_of_many or len(spent) == JUDGED or min(spent) > SURE
        if is_clear and (is_one_of_many or seconds > LONG):
            raise TakesTooLongError(seconds)

    def blocks_to_run(self) -> list[int]:
        """Numbers of the blocks, in the order (from the end) in which they start."""
        count, wanted = self._block_count, self.settings.blocks
        if count > MANY and wanted is None:  # one, by which the others are estimated
            return [int(self._rng.integers(count))]
        if count > MANY and isinstance(wanted, int):
            order = self._rng.choice(count, min(wanted + 2, count), replace=False).tolist()
        else:
            order = self._rng.permutation(count).tolist()
        if isinstance(wanted, int) and wanted < count:
            ends = [0, count - 1][:wanted]  # the first and the last block are those that differ
            order = [b for b in order if b not in ends][: wanted - len(ends)] + ends
        return order

    @property
    def _block_count(self) -> int:
        return self.grid.x * self.grid.y * self.grid.z

    def _start_block(self, number: int) -> Block:
        y, x = divmod(number, self.grid.x)
        z, y = divmod(y, self.grid.y)
        self.blocks_begun += 1
        is_sample = isinstance(self.settings.blocks, int) and self.settings.blocks < self._block_count
        block = Block(number, Dim3(x, y, z), self.block, self.grid, self._greenlets, is_sample)
        for thread in block.threads:
            thread.glet.gr_context = self._context
        if self.schedule and self.schedule.separates_lanes:
            block.rng = self._rng
        return block

    def _run_round(self, block: Block) -> None:
        """Every thread that can run has a turn, in a new order; then those are let go whose wait is over."""
        self._cuda.blockIdx = block.index
        ready = [t for t in block.live if t.waits is None]
        moves, steps = self._moves, self._steps
        drawn = self.schedule is None
        order = self._rng.permutation(len(ready)).tolist() if drawn else self.schedule.threads(len(ready), self._rng)
        cuda, journal, call = self._cuda, self.journal, self._call
        for k in order:
            self._thread = thread = ready[k]
            cuda.threadIdx, cuda.laneid = thread.thread_index, thread.lane
            result = thread.glet.switch(call)  # which the first turn runs; until the thread waits or ends
            if len(journal.addresses) > journal.closed:
                journal.close_segment(thread)
            waits = thread.waits
            if waits is None:
                thread.done, thread.exit = True, result
                self._greenlets.give_back(thread.glet)
                thread.glet = None
            if waits is None or waits.operation != "spin":
                self._moves += 1
        epoch = block.epoch
        if not block.release(self._kernel):
            block.stop_at_deadlock()
        if block.epoch != epoch:
            self.barriers_passed += 1
            self._analyse_if_much()
        spun_only = moves == self._moves and block.epoch == epoch
        block.idle_rounds = block.idle_rounds + 1 if spun_only else 0
        block.asking_rounds = block.asking_rounds + 1 if spun_only and steps == self._steps else 0

    def _finish_block(self, block: Block) -> None:
        self.blocks_run += 1
        self.shuffles += block.shuffles
        self.votes += block.votes
        self.findings += block.notes
        self._analyse_if_much()

    def _analyse_if_much(self) -> None:
        if self.analysis and len(self.journal.addresses) >= BATCH:
            self._is_looking = True
            self.analysis.analyse_ended_epochs()
            self._is_looking = False
            if self.settings.strict and self.analysis.has_found_errors():
                raise _Enough

    # What ends a launch

    def _endless_finding(self, interruption: BaseException) -> Finding:
        place = self._user_place(interruption)
        loop = loop_around_line(*self._code_and_line(interruption))
        lines = f"the loop of lines {loop[0]}-{loop[1]}" if loop and loop[0] != loop[1] else f"the loop at {place}"
        return Finding(
            "endless",
            f"{self._thread.name} does not come out of {lines} (stopped at {place} after {self.settings.patience:g}"
            " seconds).", [place], remedy="If it waits for another thread, it must ask by an atomic; if it only takes"
            " long, give emulate() more `patience`.",
        )  # fmt: skip

    def _kernel_error_finding(self, error: Exception) -> Finding:
        place = self._user_place(error)
        text = str(error) or "(no message)"
        return Finding("python", f"{place}: {type(error).__name__}: {text} ({self._thread.name}).", [place])

    def _code_and_line(self, error: BaseException) -> tuple[CodeType, int]:
        """The code and the line of an exception, in the kernel or in a function that it calls."""
        place, trace = (self._kernel, self._kernel.co_firstlineno), error.__traceback__
        while trace is not None:
            if trace.tb_frame.f_code in self._codes or trace.tb_frame.f_code is self._kernel:
                place = trace.tb_frame.f_code, trace.tb_lineno
            trace = trace.tb_next
        return place

    def _user_place(self, error: BaseException) -> Place:
        code, line = self._code_and_line(error)
        return Place(code.co_filename, line, code.co_name)

    # What the threads call

    def current(self) -> Thread:
        return self._thread

    def wait(self, operation: str, mask: int, value: object, frame) -> object:
        """Gives the turn back until the barrier or the warp operation lets go; what the others brought."""
        thread = self._thread
        thread.waits = _new_tuple(Wait, (operation, mask, value, frame.f_code, frame.f_lasti))
        self._hub.switch()
        return thread.answer

    def fence(self, whole_device: bool) -> None:
        thread = self._thread
        self.has_atomics_or_fences = True
        self.journal.close_segment(thread)
        thread.block.knows = True
        self._publications.fence(thread, whole_device)

    def atomic(self, array: Array, index, change, value) -> object:
        """Reads, computes and writes as one; an atomic that changes nothing gives the turn back (it may be a spin)."""
        thread = self._thread
        if type(index) is not int or not 0 <= index < array._length:
            index = array.checked_index(index)
        if array.written is not None and not array.written[index]:
            array.stop_at_unwritten(index)
        if array.memory.space != "local":
            self.has_atomics_or_fences = True
            if self._publications.has_fences and self._publications.atomic_synchronizes(thread, array.address(index)):
                self.journal.close_segment(thread)
                if self._publications.publish_by_atomic(thread, array.address(index)):
                    thread.block.knows = True
                    thread.clock += 1
        before = array.data[index]
        if (box := array._box) is None:
            old = before
        else:
            box[0] = before
            old = box[0]
        new = change(old, value)
        if type(new) is Undefined:
            new.stop(f"it goes into {array.memory.element(array.address(index))}")
        array.store(index, new)
        if type(array) is Traced:
            self._note_atomic(array.coded_address(index), sys._getframe(2))
        elif type(array) is Quiet:
            raise Unforeseen
        if array.data[index] == before:
            frame = sys._getframe(2)
            state = _state_of_thread(frame, self._kernel)
            self._steps += state != thread.asked
            thread.asked = state
            thread.waits = Wait("spin", 0, None, frame.f_code, frame.f_lasti)
            self._hub.switch()
        else:
            self._moves += 1
            if self._loses_turn and self._rng.random() < self._loses_turn:
                frame = sys._getframe(2)
                thread.waits = Wait("spin", 0, None, frame.f_code, frame.f_lasti)
                self._hub.switch()
        return old

    def _note_atomic(self, coded_address: int, frame) -> None:
        code = frame.f_code
        site = frame.f_lasti + (self.journal.bases.get(id(code)) or self.journal.bases.base_of_code(code))
        if site not in self._atomic_sites:
            self._atomic_sites.add(site)
            base = self.journal.bases.base_of_code(code)
            self.journal.atomic_sites.add(instruction_start(code, frame.f_lasti) + base)
        self.journal.addresses.append(coded_address)
        self.journal.sites.append(site)

    def shared_array(self, code: CodeType, offset: int, shape, dtype) -> Array:
        """The block's array of this call site; of shape 0, the dynamic shared memory, which all sites share."""
        block, site = self._thread.block, (id(code), offset)  # `codes` keeps them alive
        if (made := block.shared.get(site)) is not None:
            return made[1]
        shape, dtype = shape_of(shape), numpy_dtype_of(dtype)
        if shape == (0,):
            return self._dynamic_array(code, offset, dtype)
        name = assigned_name(code, offset, "shared")
        data, written = np.zeros(shape, dtype), np.zeros(shape, bool)
        block.shared[site] = self.house.make_shared_array(name, data, written, self._shared_sites.get(site))
        self._shared_sites[site] = block.shared[site][0]
        self._check_shared_size(block, code, offset)
        return block.shared[site][1]

    def _dynamic_array(self, code: CodeType, offset: int, dtype: np.dtype) -> Array:
        """Dynamic shared memory as an array; two types laid over each other differ by their first bytes."""
        block = self._thread.block
        if "dynamic" not in block.shared:
            name, size = assigned_name(code, offset, "shared"), self.dynamic_shared
            raw, written = np.zeros(size, np.uint8), np.zeros(size, bool)
            like = self._shared_sites.get("dynamic")
            block.shared["dynamic"] = self.house.make_shared_array(name, raw, written, like)
            self._shared_sites["dynamic"] = block.shared["dynamic"][0]
        site = ("dynamic", dtype)
        if site not in block.shared:
            memory, raw = block.shared["dynamic"]
            count = raw.size // dtype.itemsize
            data = raw.data[: count * dtype.itemsize].view(dtype)
            typed = replace(memory, dtype=dtype, shape=data.shape, strides=data.strides)
            self.journal.memories.append(typed)
            written = raw.written[: data.nbytes]
            if dtype.itemsize > 1:
                written = WrittenBytes(written.reshape(count, dtype.itemsize))
            block.shared[site] = typed, self.house.kind(self.house, typed, data, memory.start, written)
        return block.shared[site][1]

    def _check_shared_size(self, block: Block, code: CodeType, offset: int) -> None:
        taken = sum(memory.nbytes for site, (memory, _) in block.shared.items() if "dynamic" not in (site, site[0]))
        if taken > STATIC_SHARED:
            place = place_of_instruction(code, offset)
            raise Stop(Finding(
                "limit", f"The shared arrays of a block take {taken:,} bytes with the one at {place}; a GPU gives"
                f" {STATIC_SHARED:,} without asking (more only as dynamic shared memory).", [place],
            ))  # fmt: skip

    def local_array(self, code: CodeType, offset: int, shape, dtype) -> Array:
        site = id(code), offset
        if (name := self._local_names.get(site)) is None:
            name = self._local_names[site] = assigned_name(code, offset, "local")
        return self.house.make_local_array(name, shape_of(shape), numpy_dtype_of(dtype))

    def constant_array(self, data: np.ndarray, name: str) -> Array:
        return self.house.constant_array(data, name)

    def _wrap_arguments(self, arguments: tuple) -> list:
        names = list(inspect.signature(self.function).parameters)
        empty = [a for a, name in zip(arguments, names, strict=True) if name in self.settings.empty]
        self.house.place_arguments(list(arrays_in(arguments)), list(arrays_in(tuple(empty))))
        return [self._wrap_argument(a, n) for a, n in zip(arguments, names, strict=True)]

    def _wrap_argument(self, argument, name: str):
        if isinstance(argument, np.ndarray):
            return self.house.kernel_argument(name, argument)
        if isinstance(argument, tuple):
            return tuple(self._wrap_argument(a, f"{name}[{k}]") for k, a in enumerate(argument))
        if isinstance(argument, np.integer) and argument.itemsize < 8:  # Numba computes with it in 64 bits
            return np.int64(argument) if argument.dtype.kind == "i" else np.uint64(argument)
        return argument


def _state_of_thread(frame, kernel: CodeType) -> tuple:
    """A thread's place and the numbers in its variables: a thread that only polls comes back to the same state."""
    state = []
    while frame is not None:
        numbers = [v for v in frame.f_locals.values() if isinstance(v, int | float | np.generic)]
        state.append((frame.f_lasti, *map(str, numbers)))
        if frame.f_code is kernel:
            break
        frame = frame.f_back
    return tuple(state)


def shape_of(shape) -> tuple[int, ...]:
    """The shape that a kernel gives a new array: a tuple, or one number."""
    return tuple([int(n) for n in shape]) if isinstance(shape, tuple | list) else (int(shape),)


class TakesTooLongError(Exception):
    """After the first blocks it is clear that all of them would take more than LONG seconds."""

    def __init__(self, seconds: float):
        super().__init__(seconds)
        self.seconds = seconds

    def in_words(self, grid: Dim3) -> str:
        count = grid.x * grid.y * grid.z
        return (
            f"all {count:,} blocks would take about {max(1, round(self.seconds / 60))} minutes to emulate here; give"
            f' emulate() blocks=8 for a sample, or blocks="all" to wait (the arrays are as they were)'
        )


class _Enough(Exception):  # noqa: N818
    """Strict, and an error was found."""


def _end_threads(block: Block) -> None:
    """Threads that are still in the middle of the kernel leave it."""
    for thread in block.threads:
        if thread.glet is not None and not thread.glet.dead:
            thread.glet.throw(GreenletExit)
