"""The module that stands in for `numba.cuda` inside a kernel: the same names, on the emulator's threads."""

from __future__ import annotations

import difflib
import operator
import sys

import numpy as np

from . import arithmetic
from .arithmetic import Undefined
from .arrays import Array
from .findings import Finding, Stop
from .source import place_of_instruction, user_frame
from .threads import ALL_LANES, GRID_BARRIER, Dim3

_getframe = sys._getframe


class UnknownNameError(AttributeError):
    """A kernel asks for something of numba.cuda that the emulator does not have."""


class FakeCuda:
    """`cuda` as one launch sees it. threadIdx and blockIdx are set anew whenever another thread runs."""

    def __init__(self, launch, grid: Dim3, block: Dim3):
        self.blockDim, self.gridDim, self.warpsize = block, grid, 32
        self._sizes = tuple(n * g for n, g in zip(block, grid, strict=True))
        self.threadIdx = self.blockIdx = Dim3(0, 0, 0)
        self.laneid = 0
        self.shared, self.local, self.const = Shared(launch), Local(launch), Constant(launch)
        self.cg = CooperativeGroups(launch)
        self.atomic = Atomics(launch)
        self.fp16 = arithmetic.half_functions()
        self.libdevice = LibDevice()
        self._wait, self._launch = launch.wait, launch
        for name in ("popc", "brev", "clz", "ffs", "fma", "cbrt", "selp"):
            setattr(self, name, getattr(arithmetic, name))

    def __getattr__(self, name: str):
        names = [n for n in (*vars(self), *dir(type(self))) if not n.startswith("_")]
        near = difflib.get_close_matches(name, names, 1, 0.8)
        hint = f"did you mean cuda.{near[0]}?" if near else "register_body gives a function a body"
        raise UnknownNameError(f"cuda.{name} is not emulated: {hint}")

    # Who am I

    def grid(self, ndim: int):
        t, b, n = self.threadIdx, self.blockIdx, self.blockDim
        x = b.x * n.x + t.x
        if ndim == 1:
            return x
        return (x, b.y * n.y + t.y, b.z * n.z + t.z)[:ndim]

    def gridsize(self, ndim: int):
        return self._sizes[0] if ndim == 1 else self._sizes[:ndim]

    # Barriers and fences

    def syncthreads(self):
        self._wait("syncthreads", 0, None, _getframe(1))

    def syncthreads_count(self, predicate):
        return self._vote("syncthreads_count", predicate, _getframe(1))

    def syncthreads_and(self, predicate):
        return self._vote("syncthreads_and", predicate, _getframe(1))

    def syncthreads_or(self, predicate):
        return self._vote("syncthreads_or", predicate, _getframe(1))

    def _vote(self, operation: str, predicate, frame):
        """Numba has these barriers for integers alone: a comparison does not compile."""
        if isinstance(predicate, bool | np.bool_ | float | np.floating):
            kind = "a bool" if isinstance(predicate, bool | np.bool_) else "a float"
            raise TypeError(f"cuda.{operation} takes an integer, not {kind}: write int32(...) around it")
        return self._wait(operation, 0, predicate, frame)

    def syncwarp(self, mask=ALL_LANES):
        self._warp("syncwarp", mask, None, _getframe(1))

    def threadfence(self):
        self._launch.fence(whole_device=True)

    threadfence_system = threadfence

    def threadfence_block(self):
        self._launch.fence(whole_device=False)

    def nanosleep(self, nanoseconds):
        """Time does not pass here."""

    # Operations of a warp

    def _warp(self, operation: str, mask, value, frame) -> dict:
        """Waits for the lanes of the mask; returns what each of them brought."""
        mask = int(mask) & ALL_LANES
        if not mask >> self.laneid & 1:
            place = place_of_instruction(frame.f_code, frame.f_lasti)
            raise Stop(Finding(
                "warp", f"cuda.{operation} at {place}: {self._launch.current().name} (lane {self.laneid}) calls it with"
                f" the mask {mask:#x}, which does not name its lane.", [place],
            ))  # fmt: skip
        return self._wait(operation, mask, value, frame)

    def _from_lane(self, lanes: dict, lane: int, operation: str, frame):
        if lane in lanes:
            return lanes[lane]
        place = place_of_instruction(frame.f_code, frame.f_lasti)
        name = self._launch.current().name
        return Undefined(f"cuda.{operation} at {place}: {name} asks lane {lane}, which does not take part")

    def shfl_sync(self, mask, value, source):
        frame = _getframe(1)
        return self._from_lane(self._warp("shfl_sync", mask, value, frame), int(source) & 31, "shfl_sync", frame)

    def shfl_up_sync(self, mask, value, delta):
        frame = _getframe(1)
        lanes, lane = self._warp("shfl_up_sync", mask, value, frame), self.laneid - int(delta)
        return value if lane < 0 else self._from_lane(lanes, lane, "shfl_up_sync", frame)

    def shfl_down_sync(self, mask, value, delta):
        frame = _getframe(1)
        lanes, lane = self._warp("shfl_down_sync", mask, value, frame), self.laneid + int(delta)
        return value if lane > 31 else self._from_lane(lanes, lane, "shfl_down_sync", frame)

    def shfl_xor_sync(self, mask, value, lane_mask):
        frame = _getframe(1)
        lanes, lane = self._warp("shfl_xor_sync", mask, value, frame), self.laneid ^ int(lane_mask)
        return value if lane > 31 else self._from_lane(lanes, lane, "shfl_xor_sync", frame)

    def all_lanes(self, operation, value):
        """What each lane of the warp brought, for bodies of instructions that a whole warp executes together."""
        return self._warp(operation, ALL_LANES, value, _getframe(1))

    def ballot_sync(self, mask, predicate):
        lanes = self._warp("ballot_sync", mask, bool(predicate), _getframe(1))
        return sum(1 << lane for lane, yes in lanes.items() if yes)

    def all_sync(self, mask, predicate):
        return all(self._warp("all_sync", mask, bool(predicate), _getframe(1)).values())

    def any_sync(self, mask, predicate):
        return any(self._warp("any_sync", mask, bool(predicate), _getframe(1)).values())

    def eq_sync(self, mask, predicate):
        return len(set(self._warp("eq_sync", mask, bool(predicate), _getframe(1)).values())) == 1

    def match_any_sync(self, mask, value):
        lanes = self._warp("match_any_sync", mask, value, _getframe(1))
        return sum(1 << lane for lane, other in lanes.items() if other == value)

    def match_all_sync(self, mask, value):
        lanes = self._warp("match_all_sync", mask, value, _getframe(1))
        same = all(other == value for other in lanes.values())
        return (sum(1 << lane for lane in lanes) if same else 0), same

    def activemask(self):
        self._launch.has_atomics_or_fences = True  # it depends on the schedule, as they do
        return sum(1 << lane for lane in self._wait("activemask", ALL_LANES, None, _getframe(1)))

    def lanemask_lt(self):
        return (1 << self.laneid) - 1


class CooperativeGroups:
    """`cuda.cg`: the group of all threads of the grid is the only one that Numba has."""

    def __init__(self, launch):
        self._launch = launch

    def this_grid(self):
        return Grid(self._launch)


class Grid:
    """All threads of the launch. `sync()` lets none of them go on until each has come, of every block."""

    def __init__(self, launch):
        self._launch = launch

    def sync(self):
        self._launch.wait(GRID_BARRIER, 0, None, _getframe(1))


class Shared:
    """`cuda.shared`: one array per call site and block, whichever thread asks first."""

    def __init__(self, launch):
        self._launch = launch

    def array(self, shape, dtype, alignment=None):
        frame = _getframe(1)
        return self._launch.shared_array(frame.f_code, frame.f_lasti, shape, dtype)


class Local:
    """`cuda.local`: an array per thread."""

    def __init__(self, launch):
        self._launch = launch

    def array(self, shape, dtype, alignment=None):
        frame = _getframe(1)
        return self._launch.local_array(frame.f_code, frame.f_lasti, shape, dtype)


class Constant:
    """`cuda.const`: a copy that is never written."""

    def __init__(self, launch):
        self._launch = launch

    def array_like(self, array):
        return array if isinstance(array, Array) else self._launch.constant_array(np.asarray(array), "the constant")


class Atomics:
    """`cuda.atomic`: each reads, computes and writes in one go, and gives back what was there."""

    def __init__(self, launch):
        self._atomic = launch.atomic

    def add(self, array, index, value):
        return self._atomic(array, index, operator.add, value)

    def sub(self, array, index, value):
        return self._atomic(array, index, operator.sub, value)

    def min(self, array, index, value):
        return self._atomic(array, index, lambda old, value: value if value < old else old, value)

    def max(self, array, index, value):
        return self._atomic(array, index, lambda old, value: value if value > old else old, value)

    def nanmin(self, array, index, value):
        return self._atomic(array, index, np.fmin, value)

    def nanmax(self, array, index, value):
        return self._atomic(array, index, np.fmax, value)

    def inc(self, array, index, value):
        return self._atomic(array, index, lambda old, value: 0 if old >= value else old + 1, value)

    def dec(self, array, index, value):
        return self._atomic(array, index, lambda old, value: value if old == 0 or old > value else old - 1, value)

    def exch(self, array, index, value):
        return self._atomic(array, index, lambda old, value: value, value)

    def and_(self, array, index, value):
        return self._atomic(array, index, operator.and_, value)

    def or_(self, array, index, value):
        return self._atomic(array, index, operator.or_, value)

    def xor(self, array, index, value):
        return self._atomic(array, index, operator.xor, value)

    def cas(self, array, index, expected, value):
        return self._atomic(array, index, lambda old, value: value if old == expected else old, value)

    def compare_and_swap(self, array, expected, value):
        index = 0 if array.ndim == 1 else (0,) * array.ndim
        return self._atomic(array, index, lambda old, value: value if old == expected else old, value)


class LibDevice:
    """`numba.cuda.libdevice`: what Python's mathematics has under another name. Nothing is silently None."""

    def __getattr__(self, name: str):
        function = arithmetic.float_function(name)
        if function is None:
            frame = user_frame()
            place = place_of_instruction(frame.f_code, frame.f_lasti)
            raise Stop(Finding(
                "unknown", f"libdevice.{name} ({place}) is not emulated: give it a body with"
                f" minidecode.emulator.register_body(libdevice.{name}).", [place],
            ))  # fmt: skip
        setattr(self, name, function)
        return function


class Reader:
    """`threadIdx` and its like where a kernel imported the name itself: reads the running thread's."""

    def __init__(self, cuda: FakeCuda, name: str):
        self._cuda, self._name = cuda, name

    def __getattr__(self, axis: str):
        return getattr(getattr(self._cuda, self._name), axis)
