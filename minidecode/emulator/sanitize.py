"""Runs a Numba-CUDA script as it is, and reports what is wrong with its kernels: what `minidecode sanitize` starts.

    python -m minidecode.emulator.sanitize '{"traced": 5, "blocks": null, "as_json": false}' script.py ARGUMENTS

Numba's own simulator has everything around a kernel: device arrays, streams, events, explicit signatures. An
environment variable switches it on before Numba is imported, so this runs in a process of its own. Only its launch is
replaced: the emulator runs the kernel, and looks for data races, accesses outside of arrays and the like. A launch that
the script makes by `md.emulate` counts as well. What begins
with nothing in it on a GPU (`cuda.device_array`) may not be read before it is written.
"""

from __future__ import annotations

import copy
import json
import os
import runpy
import sys
import warnings
import weakref
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any

import numpy as np

from ..errors import EmulationError, MinidecodeError

PACKAGE = Path(__file__).parents[1]
THREADS_OF_FORALL = 128  # in a block, where a script leaves it to Numba
CUDA_ALONE = (
    "compile", "compile_all", "compile_for_current_device", "compile_ptx", "compile_ptx_for_current_device",
    "declare_device", "from_cuda_array_interface", "open_ipc_array",
)  # fmt: skip
MULTIPROCESSORS = 4  # of the device that scripts ask about; a cooperative launch may have two blocks on each


@dataclass
class Reported:
    """One mistake, however often it was made."""

    kind: str
    message: str
    remedy: str
    kernel: str
    launched_at: str  # script.py:12
    launches: int = 1  # in which it was found


@dataclass
class Report:
    """What was found in all launches of a script."""

    errors: list[Reported] = field(default_factory=list)
    launches: Counter[str] = field(default_factory=Counter)  # by kernel
    traced: int = 0  # launches in which races were looked for
    sampled: int = 0  # launches of which only some blocks ran

    def add(self, finding: Any, kernel: str, launched_at: str) -> Reported | None:
        """The entry, if it is a new one."""
        for known in self.errors:
            if (known.message, known.kernel, known.launched_at) == (finding.message, kernel, launched_at):
                known.launches += 1
                return None
        self.errors.append(Reported(finding.kind, finding.message, finding.remedy, kernel, launched_at))
        return self.errors[-1]

    def summary(self) -> str:
        """One line: "2 errors in 14 launches of 3 kernels"."""
        launches, kernels = sum(self.launches.values()), len(self.launches)
        words = [
            counted_noun(len(self.errors), "error"),
            f"in {counted_noun(launches, 'launch')} of {counted_noun(kernels, 'kernel')}",
        ]
        if self.traced < launches:
            words.append(f"(data races were looked for in {self.traced}: --traced)")
        if self.sampled:
            words.append(
                f"({counted_noun(self.sampled, 'launch')} ran as a sample of blocks, so results are not whole)"
            )
        return " ".join(words)


def counted_noun(number: int, noun: str) -> str:
    """ "1 error", "2 launches"."""
    return f"{number:,} {noun}{'' if number == 1 else 'es' if noun.endswith('ch') else 's'}"


class Sanitizer:
    """Numba's simulator, whose launches are the emulator's."""

    def __init__(self, script: Path, traced: int, blocks: str | int | None):
        self.report, self._script, self._traced, self._blocks = Report(), script, traced, blocks
        self._unwritten: dict[int, weakref.ref] = {}  # id of an array that holds nothing yet -> the array

    def patch_simulator(self) -> None:
        """Replaces, in the simulator, what launches a kernel and what makes arrays without contents."""
        import numba
        from numba import config, cuda

        if not config.ENABLE_CUDASIM:
            raise RuntimeError("NUMBA_ENABLE_CUDASIM must be 1 before Numba is imported")
        from numba.cuda.simulator import kernel as simulated
        from numba.cuda.simulator.cudadrv import devicearray, devices

        from .emulate import noted_by

        sanitizer = self
        noted_by.append(self.report_launch)

        def launch_in_emulator(kernel: Any, *arguments: Any) -> None:
            sanitizer.launch(kernel, arguments, sys._getframe(1))

        def forall(kernel: Any, ntasks: int, tpb: int = 0, stream: int = 0, sharedmem: int = 0) -> Any:
            threads = tpb or THREADS_OF_FORALL
            return kernel[max(1, -(-ntasks // threads)), threads, stream, sharedmem]

        simulated.FakeCUDAKernel.__call__ = launch_in_emulator
        simulated.FakeCUDAKernel.__getitem__ = _configure_kernel
        simulated.FakeCUDAKernel.forall = forall
        simulated.FakeOverload.max_cooperative_grid_blocks = lambda *_: 2 * MULTIPROCESSORS
        _complete_simulator(cuda, devices, devicearray)
        numba.vectorize, numba.guvectorize = _compile_for_cpu(numba.vectorize), _compile_for_cpu(numba.guvectorize)
        cuda.jit = _make_jit(simulated.FakeCUDAKernel)
        for name in ("device_array", "device_array_like"):
            setattr(cuda, name, self._wrap_maker(getattr(cuda, name)))
        array = devicearray.FakeCUDAArray
        for name in ("copy_to_device", "__setitem__"):
            setattr(array, name, self._wrap_writer(getattr(array, name)))

    def launch(self, kernel: Any, arguments: tuple, frame: FrameType) -> None:
        """Runs one launch in the emulator, which calls `report_launch`."""
        from .emulate import emulate

        name, where = kernel.py_func.__name__, self._place_of_launch(frame)
        if kernel.grid_dim is None:
            raise EmulationError(f"{where}: {name} is launched without a grid: write {name}[blocks, threads](...)")
        arrays = [_numpy_array_in(argument) for argument in arguments]
        names = kernel.py_func.__code__.co_varnames
        empty = [names[k] for k, (a, b) in enumerate(zip(arguments, arrays, strict=True)) if self._holds_nothing(a, b)]
        is_traced = self.report.launches[name] < self._traced
        emulated = emulate(kernel.py_func, trace=is_traced, empty=empty, blocks=self._blocks)
        try:
            emulated[kernel.grid_dim, kernel.block_dim, 0, kernel.dynshared_size](*arrays)
        except EmulationError as error:
            remedy = "run the script on a smaller input, or add --blocks 8 for a sample or --blocks all to wait"
            what = str(error).partition("; give emulate()")[0]
            raise EmulationError(f"{where}: {name}: {what}: {remedy}") from None
        except MinidecodeError as error:
            raise type(error)(f"{where}: {name}: {error}") from None
        for array in arrays:
            self._mark_written(array)

    def report_launch(self, run: Any) -> None:
        """Counts a launch and reports what was found in it."""
        self.report.launches[run.name] += 1
        self.report.traced += run.traced
        self.report.sampled += run.partial
        where = self._place_of_launch(sys._getframe(1))
        for finding in run.errors:
            if new := self.report.add(finding, run.name, where):
                print_error(new)

    def _place_of_launch(self, frame: FrameType | None) -> str:
        """The place of a launch in the script, or in a module that it imports."""
        while frame is not None and _is_library_file(Path(frame.f_code.co_filename)):
            frame = frame.f_back
        if frame is None:
            return self._script.name
        file = Path(frame.f_code.co_filename)
        return f"{self._script if file.resolve() == self._script.resolve() else file}:{frame.f_lineno}"

    # Arrays that hold nothing yet

    def _holds_nothing(self, argument: Any, array: Any) -> bool:
        from numba.cuda import Out

        return isinstance(argument, Out) or (
            isinstance(array, np.ndarray) and id(_root_array(array)) in self._unwritten
        )

    def _wrap_maker(self, make: Callable) -> Callable:
        def make_and_note(*args: Any, **kwargs: Any) -> Any:
            array = make(*args, **kwargs)
            root = _root_array(array._ary)
            self._unwritten[id(root)] = weakref.ref(root, partial(self._forget_id, id(root)))
            return array

        return make_and_note

    def _wrap_writer(self, write: Callable) -> Callable:
        def mark_and_write(array: Any, *args: Any, **kwargs: Any) -> Any:
            self._mark_written(array._ary)
            return write(array, *args, **kwargs)

        return mark_and_write

    def _forget_id(self, key: int, _: Any) -> None:
        self._unwritten.pop(key, None)  # another array may get the same id

    def _mark_written(self, array: Any) -> None:
        if isinstance(array, np.ndarray):
            self._unwritten.pop(id(_root_array(array)), None)


def _is_library_file(file: Path) -> bool:
    return "numba" in file.parts or PACKAGE in file.parents


def _configure_kernel(kernel: Any, configuration: tuple) -> Any:
    """`kernel[grid, block]`: a copy, for the simulator's own keeps the bytes of shared memory for later launches."""
    from numba.cuda.errors import normalize_kernel_dimensions

    if not isinstance(configuration, tuple) or not 2 <= len(configuration) <= 4:
        raise EmulationError("a launch is kernel[grid, block] or kernel[grid, block, stream, dynamic_shared_bytes]")
    launched = copy.copy(kernel)
    launched.grid_dim, launched.block_dim = normalize_kernel_dimensions(*configuration[:2])
    launched.dynshared_size = configuration[3] if len(configuration) == 4 else 0
    return launched


def _compile_for_cpu(vectorize: Callable) -> Callable:
    """`vectorize` or `guvectorize`: what has target="cuda" is compiled for the CPU. It has no threads, and no races."""

    def compile_function(*args: Any, target: str = "cpu", **options: Any) -> Any:
        decorator = vectorize(*args, target="cpu" if target == "cuda" else target, **options)
        return (lambda function: UfuncOfArrays(decorator(function))) if target == "cuda" else decorator

    return compile_function


class UfuncOfArrays:
    """A ufunc of the CPU that takes arrays of the simulated device, and gives one back where it got one."""

    def __init__(self, ufunc: Any):
        self._ufunc = ufunc

    def __call__(self, *arguments: Any, out: Any = None, stream: Any = None) -> Any:
        from numba import cuda

        is_on_device = any(hasattr(a, "_ary") for a in arguments)
        keywords = {} if out is None else {"out": _numpy_array_in(out)}
        result = self._ufunc(*map(_numpy_array_in, arguments), **keywords)
        if out is not None:
            return out
        return cuda.to_device(result) if is_on_device and isinstance(result, np.ndarray) else result

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ufunc, name)


class Event:
    """An event: all that comes before it is done."""

    def __init__(self, timing: bool = True):
        self.timing = timing

    def record(self, stream: Any = None) -> None:
        """Does nothing: launches have ended when they return."""

    wait = synchronize = record

    def query(self) -> bool:
        return True

    def elapsed_time(self, end: Any) -> float:
        return 0.0  # the emulator never tells a time


class NameOfKernels:
    """What a script imports from numba.cuda and only a kernel may use; the emulator puts its own in its place."""

    def __init__(self, name: str):
        self._name = name

    def __call__(self, *_: Any) -> None:
        raise EmulationError(f"cuda.{self._name} is called outside of a kernel")


def _complete_simulator(cuda: Any, devices: Any, devicearray: Any) -> None:
    """Adds names of numba.cuda that the simulator lacks."""
    from .cuda_module import FakeCuda
    from .threads import Dim3

    of_kernels = FakeCuda(SimpleNamespace(wait=None, atomic=None), Dim3(1), Dim3(1))
    for name in [*vars(of_kernels), *vars(FakeCuda)]:
        if not name.startswith("_") and not hasattr(cuda, name):
            setattr(cuda, name, NameOfKernels(name))
    for name in CUDA_ALONE:
        setattr(cuda, name, partial(_refuse_call, name))
    cuda.event = Event
    warnings.filterwarnings("ignore", module=r".*numba.cuda.random")  # of functions that the simulator cannot compile
    if not hasattr(devicearray, "DeviceNDArray"):
        devicearray.DeviceNDArray = devicearray.FakeCUDAArray
    device = devices.FakeCUDADevice
    device.MULTIPROCESSOR_COUNT, device.MAX_THREADS_PER_BLOCK, device.WARP_SIZE = MULTIPROCESSORS, 1024, 32
    device.name, device.id = b"emulated", 0
    on_host = {
        "get_current_device": device,
        "event_elapsed_time": lambda begin, end, synchronize=True: begin.elapsed_time(end),
        "managed_array": cuda.mapped_array, "mapped_array_like": lambda array, **_: np.empty_like(array),
        "as_cuda_array": _as_cuda_array, "profile_start": lambda: None, "profile_stop": lambda: None,
        "is_cuda_array": lambda value: hasattr(value, "__cuda_ndarray__"),
    }  # fmt: skip
    streams = ("default_stream", "legacy_default_stream", "per_thread_default_stream", "external_stream")
    for name, value in (on_host | dict.fromkeys(streams, lambda *_: cuda.stream())).items():
        if not hasattr(cuda, name):
            setattr(cuda, name, value)


def _as_cuda_array(array: Any, sync: bool = True) -> Any:
    if not hasattr(array, "_ary"):
        raise EmulationError(f"cuda.as_cuda_array takes arrays of numba.cuda here, not {type(array).__name__}")
    return array


def _refuse_call(name: str, *_: Any, **__: Any) -> None:
    raise EmulationError(f"cuda.{name} needs a compiler or a device of CUDA: leave it out here")


def _make_jit(kernel_type: Any) -> Callable:
    """`cuda.jit` with all of its options. Signatures and the options of the compiler change no result here."""

    def jit(function_or_signature: Any = None, device: bool = False, link: Any = (), **_: Any) -> Any:
        if link:
            raise EmulationError(f"link={link!r}: code in CUDA C cannot be emulated: write the function in Python")
        if callable(function_or_signature) and hasattr(function_or_signature, "__code__"):
            return kernel_type(function_or_signature, device=device)
        return lambda function: kernel_type(function, device=device)

    return jit


def _numpy_array_in(argument: Any) -> Any:
    """The NumPy array in an array of the simulator's or in cuda.In, Out, InOut; anything else as it is."""
    from numba.cuda import In, InOut, Out

    if isinstance(argument, In):
        return np.array(getattr(argument.value, "_ary", argument.value))  # what is written to it does not come back
    if isinstance(argument, Out | InOut):
        argument = argument.value
    return getattr(argument, "_ary", argument)


def _root_array(array: np.ndarray) -> np.ndarray:
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def print_error(error: Reported) -> None:
    """Prints one mistake when it is found."""
    print(f"{error.launched_at}: error: {error.kind} in {error.kernel}: {error.message}", file=sys.stderr, flush=True)
    if error.remedy:
        print(f"    {error.remedy}", file=sys.stderr, flush=True)


def main() -> int:
    """Runs the script, and returns its exit code, or 1 if there were errors."""
    asked, script = json.loads(sys.argv[1]), Path(sys.argv[2])
    sanitizer, as_json = Sanitizer(script, asked["traced"], asked["blocks"]), asked["as_json"]
    report_to = os.dup(1)
    if as_json:
        os.dup2(2, 1)  # what the script prints must not stand between
    sys.argv, code, failure = sys.argv[2:], 0, ""
    sys.path[0] = str(script.resolve().parent)
    sanitizer.patch_simulator()
    try:
        runpy.run_path(str(script), run_name="__main__")
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
        failure = end.code if isinstance(end.code, str) else ""
    except KeyboardInterrupt:
        code, failure = 130, "minidecode: interrupted"
    except MinidecodeError as error:
        code, failure = 1, str(error)
    except Exception as error:
        remedy = ": CuPy is not supported here; use NumPy's arrays or cuda.to_device" if _misses_cupy(error) else ""
        code, failure = 1, f"{_line_of(error, script)}: {type(error).__name__}: {error}{remedy}"
    sys.stdout.flush()
    if failure:
        print(failure, file=sys.stderr)
    report = sanitizer.report
    if as_json:
        record = {"errors": [asdict(e) for e in report.errors], "launches": dict(report.launches),
                 "traced": report.traced, "sampled": report.sampled, "script_ended_with": code}  # fmt: skip
        with os.fdopen(report_to, "w", encoding="utf-8") as out:
            out.write(json.dumps(record, indent=1) + "\n")
    else:
        ended = f"; {script} ended with exit code {code}" if code else ""
        print(f"{report.summary()}{ended}", file=sys.stderr)
    return code or int(bool(report.errors))


def _misses_cupy(error: Exception) -> bool:
    return isinstance(error, ModuleNotFoundError) and (error.name or "").split(".")[0] == "cupy"


def _line_of(error: Exception, script: Path) -> str:
    """The line of the script from which an error came."""
    line, trace = None, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(script):
            line = trace.tb_lineno
        trace = trace.tb_next
    if isinstance(error, SyntaxError):
        line = error.lineno
    return f"{script}:{line}" if line else str(script)


if __name__ == "__main__":
    sys.exit(main())
