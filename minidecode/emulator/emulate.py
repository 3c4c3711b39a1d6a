"""`md.emulate(kernel)[grid, block](*arguments)`: a CUDA kernel on the CPU, thread by thread."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterable
from functools import partial
from types import FunctionType

import numpy as np

from ..device.seen_kernels import DRY, note_kernel
from ..errors import EmulationError, OptionError
from .arrays import Unforeseen, arrays_in
from .binding import python_function
from .launch import Launch, Settings, TakesTooLongError
from .run import Run
from .schedules import SCHEDULES, Schedule, run_further_schedules
from .threads import Dim3, Greenlets

MOST_THREADS = 1024
MOST_SHARED = 227 * 1024  # bytes of dynamic shared memory, of an H100
noted_by: list[Callable[[Run], None]] = []  # each is called with every run of this process: see sanitize.py


def emulate(
    kernel: Callable[..., None],
    *,
    seed: int = 0,
    trace: bool = True,
    strict: bool = False,
    negative_indices: bool = False,
    empty: Iterable[str] = (),
    blocks: str | int | None = None,
    patience: float = 10.0,
    operations: bool = False,
    schedules: int = SCHEDULES,
) -> Emulated:
    """The kernel, ready to be launched as Numba launches it; what comes back is a `Run`.

    run = md.emulate(kernel)[4, 256](a, out)        # [grid, block], [grid, block, stream, dynamic_shared_bytes]

    kernel: a `@cuda.jit` kernel, or a plain function written like one. Arrays are NumPy's, changed in place.
    seed: threads and blocks take turns in an order drawn from it; the same seed gives the same run.
    trace: finds races and counts traffic. Without it only the checks that stop a kernel are made, which is faster.
    strict: raises EmulationError at the first error; otherwise the Run's verdict says what was found.
    negative_indices: lets a computed index below 0 count from the end, as Numba does; otherwise it is a mistake. One
    that is written so, as in a[-1], always counts from the end.
    empty: names of arrays that begin with nothing in them (as from `cuda.device_array`): reading first is a mistake.
    blocks: "all", or how many to run as a sample. By default all, unless that would take more than a minute.
    patience: seconds of processor time without any thread coming on, after which a loop is taken for endless.
    operations: counts the kernel's arithmetic operations and comparisons too, which makes it several times as slow.
    schedules: the most orders of blocks and threads to run, if the kernel uses atomics or fences and is traced. Which
    accesses those order depends on the schedule. They stop before they take six times the first one's time, if that is
    more than half a second.

    Arithmetic is NumPy's, except that integers come out of arrays as int64. Numba's own types can be wider:
    `float32 * 0.5` is float64 there, float32 here; every store rounds to the array's type in both. Numbers that come
    from no array (`cuda.grid(1)`, a counter) are Python's: they never wrap at 64 bits (begin a hash or a random
    generator from `np.int64(...)`), and a division of them by zero stops the kernel. Types are `check`'s business: here
    a shared array may have a size known at run time only.
    """
    if blocks is not None and blocks != "all" and not (isinstance(blocks, int) and blocks > 0):
        raise OptionError(f'blocks is "all" or a number of blocks to sample, not {blocks!r}')
    if isinstance(empty, str):
        raise OptionError(f"empty is a list of names, such as [{empty!r}]")
    if not isinstance(seed, int) or not patience > 0:
        raise OptionError(f"seed is an integer and patience a number of seconds above 0, not {seed!r}, {patience!r}")
    if not isinstance(schedules, int) or schedules < 1:
        raise OptionError(f"schedules must be an integer from 1 up, not {schedules!r}")
    settings = Settings(seed, trace, strict, negative_indices, tuple(empty), blocks, patience, operations, schedules)
    return Emulated(kernel, python_function(kernel), settings)


class Emulated:
    """A kernel that waits for its launch configuration."""

    def __init__(self, kernel, function: FunctionType, settings: Settings):
        self._kernel, self._function, self._settings = kernel, function, settings

    def __getitem__(self, configuration) -> _Configured:
        if not isinstance(configuration, tuple) or not 2 <= len(configuration) <= 4:
            raise OptionError("a launch is [grid, block] or [grid, block, stream, dynamic_shared_bytes]")
        grid, block = dim3(configuration[0], "grid"), dim3(configuration[1], "block")
        if block.x * block.y * block.z > MOST_THREADS:
            raise OptionError(f"a block has at most {MOST_THREADS} threads, not {block.x * block.y * block.z:,}")
        limits = [("block's z", block.z, 64)]
        limits += zip(("grid's x", "grid's y", "grid's z"), grid, (2**31 - 1, 65535, 65535), strict=True)
        for name, size, most in limits:
            if size > most:
                raise OptionError(f"the {name} is at most {most:,}, not {size:,}")
        dynamic = configuration[3] if len(configuration) == 4 else 0
        if not 0 <= int(dynamic) <= MOST_SHARED:
            raise OptionError(f"a block has 0 to {MOST_SHARED:,} bytes of dynamic shared memory, not {dynamic:,}")
        return _Configured(self._kernel, self._function, self._settings, grid, block, int(dynamic))

    def __call__(self, *_):
        raise OptionError("say how many blocks and threads: md.emulate(kernel)[grid, block](...)")


class _Configured:
    def __init__(self, kernel, function, settings: Settings, grid: Dim3, block: Dim3, dynamic: int):
        self._kernel, self._function, self._settings = kernel, function, settings
        self._table_of_machine, self._block, self._dynamic = grid, block, dynamic

    def __call__(self, *arguments) -> Run:
        """Runs the kernel. Wrong numbers of arguments and structured arrays are refused before anything runs."""
        try:
            names = list(inspect.signature(self._function).bind(*arguments).arguments)
        except TypeError as error:
            raise OptionError(f"{self._function.__name__}(): {error}") from None
        unknown = [name for name in self._settings.empty if name not in names]
        if unknown:
            raise OptionError(f"empty names {unknown[0]!r}, and the kernel's arguments are {', '.join(names)}")
        for name, argument in zip(names, arguments, strict=False):
            if isinstance(argument, list | dict | set):
                raise OptionError(f"{name} is a {type(argument).__name__}: a kernel takes NumPy arrays and numbers")
        for array in arrays_in(arguments):
            if array.dtype.kind not in "biufc":
                raise OptionError(f"arrays of {array.dtype} are not emulated: numbers and booleans only")
        greenlets = Greenlets()
        try:
            return self._run(arguments, greenlets)
        finally:
            greenlets.clear()

    def _run(self, arguments: tuple, greenlets: Greenlets) -> Run:
        launch = self._launch(greenlets)
        if DRY.get():
            note_kernel(self._kernel, arguments)
            return Run(launch)
        before, started = _copies_of_contents(arguments), time.process_time()
        try:
            launch.run(arguments)
        except TakesTooLongError as long:
            _restore_contents(before)
            raise EmulationError(long.in_words(self._table_of_machine)) from None
        run = Run(launch)
        if run.ok and run.traced and launch.has_atomics_or_fences and self._settings.schedules > 1:
            after, seconds = _copies_of_contents(arguments), time.process_time() - started
            try:
                again = partial(self._launch_again, arguments, before, greenlets)
                run = Run(run_further_schedules(launch, partial(_finds_error, again, launch), again, seconds))
            finally:
                _restore_contents(after)
        for note in noted_by:
            note(run)
        is_judged = note_kernel(self._kernel, arguments)  # within conformance.check, whatever launches
        if (self._settings.strict or is_judged) and not run.ok:
            raise EmulationError(str(run.errors[0]))
        return run

    def _launch(self, greenlets: Greenlets, schedule: Schedule | None = None, first: Launch | None = None) -> Launch:
        return Launch(
            self._function,
            self._table_of_machine,
            self._block,
            self._dynamic,
            self._settings,
            greenlets,
            schedule,
            first,
        )

    def _launch_again(
        self, arguments: tuple, before: list, greenlets: Greenlets, schedule: Schedule, first: Launch | None = None
    ) -> Launch:
        """Repeats a launch from the same arrays under another schedule; in full, or (with first) as fast as can be."""
        _restore_contents(before)
        launch = self._launch(greenlets, schedule, first)
        launch.run(arguments)
        return launch


def _finds_error(launch_again: Callable[..., Launch], first: Launch, schedule: Schedule) -> bool:
    """Whether a fast run finds an error, or something that it cannot judge."""
    try:
        return any(f.severity == "error" for f in launch_again(schedule, first).findings)
    except Unforeseen:
        return True


def _copies_of_contents(arguments: tuple) -> list[tuple[np.ndarray, np.ndarray]]:
    """The arrays that may be written, each with a copy of what it holds."""
    return [(a, a.copy()) for a in arrays_in(arguments) if a.flags.writeable]


def _restore_contents(contents: list[tuple[np.ndarray, np.ndarray]]) -> None:
    for array, content in contents:
        array[...] = content


def dim3(size, what: str) -> Dim3:
    sizes = size if isinstance(size, tuple | list) else (size,)
    if not 1 <= len(sizes) <= 3 or not all(hasattr(n, "__index__") and n >= 1 for n in sizes):
        raise OptionError(f"the {what} is an integer above 0, or up to three of them, not {size!r}")
    return Dim3(*(int(n) for n in sizes))
