"""Further schedules of a launch: where atomics or fences order accesses, one order of threads proves little.

An atomic passes on what its thread has fenced to the threads that use the same element later. Which thread is later
depends on the schedule, so a race may be hidden under one and show under another. Such a launch runs again from the
same arrays under other schedules, until one of them shows an error. Under the random ones, two blocks run side by side,
a thread may lose its turn by any atomic, and `activemask` may name fewer lanes than are there. Barriers order the same
accesses under every schedule, so a launch without atomics and fences runs once.

The further runs count no traffic, and note no access to an array of the arguments that the first run only read, or only
changed by atomics. One that finds an error, or touches such an array otherwise, runs once more in full. So twelve cost
some three to eight times as much as one (benchmarks/schedules.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

SCHEDULES = 12  # of a launch, the first run's among them
MOST_TIMES = 6  # the first run's time, that all schedules together may take
ALWAYS = 0.5  # seconds of processor time that they may take in any case, so that a small launch has all of them


@dataclass(frozen=True)
class Schedule:
    """An order in which blocks run, and in which the threads of a block take turns."""

    name: str
    blocks: list[int]
    step: int  # 1: threads in order; -1: the last one first; 0: drawn anew in every round
    seed: list[int]
    loses_turn: float = 0.0  # how probable it is that a thread loses its turn by an atomic
    beside: int = 1  # blocks that run side by side

    @property
    def separates_lanes(self) -> bool:
        """Whether `activemask` may name fewer lanes than have come to it."""
        return self.step == 0

    def threads(self, count: int, rng: np.random.Generator) -> list[int]:
        """The order in which `count` threads take their turns."""
        return list(range(count))[:: self.step] if self.step else rng.permutation(count).tolist()


def schedules_after_first(blocks: list[int], seed: int, count: int) -> Iterator[Schedule]:
    """Forward, backward, each block first (of many blocks, some), then random ones: `count` with the first run."""
    blocks = sorted(blocks)
    ends = [Schedule("forward", blocks, 1, [seed, 1]), Schedule("backward", blocks[::-1], -1, [seed, 2])]
    yield from ends[: count - 1]
    rng = np.random.default_rng([seed, 0])
    inner = blocks[1:-1]  # forward begins with the first block, and backward with the last
    for number in range(3, count):
        order = rng.permutation(blocks).tolist()
        name, loses_turn, beside = f"random order {number}", 1 - 0.5 * (number % 2), 2
        if inner and number < count - 3:  # at least three are random
            first = inner.pop(int(rng.integers(len(inner))))
            order.remove(first)
            order.insert(0, first)
            name, loses_turn, beside = f"block {first} first", 0, 1
        yield Schedule(name, order, 0, [seed, number], loses_turn, beside)


def run_further_schedules(
    first, finds_error: Callable[[Schedule], bool], in_full: Callable[[Schedule], object], seconds: float
):
    """Runs a clean launch under further schedules; the launch that found an error, or else the first.

    `schedules` of it says how many have run. finds_error: a fast run, without counts; one that finds an error is run
    again `in_full`. seconds: processor time of the first run.
    """
    used, ran = seconds, 1
    for schedule in schedules_after_first(first.block_numbers, first.settings.seed, first.settings.schedules):
        started = time.process_time()
        ran += 1
        if finds_error(schedule):
            launch = in_full(schedule)
            if any(f.severity == "error" for f in launch.findings):
                launch.schedules = ran
                return launch
        took = time.process_time() - started
        used += took
        if used + took > max(ALWAYS, MOST_TIMES * seconds):
            break
    first.schedules = ran
    return first
