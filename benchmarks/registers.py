"""What a processor multiplies on registers alone, and its clock meanwhile: limits for the scripts beside this one.

A loop multiplies and adds what is in registers, by as many sums as a tile has, so no instruction waits for the one
before. The clock comes from a chain of additions: each needs the one before, and takes one cycle. Such a chain, run in
the same loop as the multiplications, tells at which clock wide vectors run: processors may lower it for them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from minidecode.cpu.common import tile
from minidecode.cpu.common.tile import F32, FLOAT, GROUP, I32, I64, Kind, best_tile

CHAIN = 32  # additions, each of which needs the one before; one takes a cycle
TURN_SECONDS = 0.015  # a thread that starts late counts for little
MORE_FLOATS = (  # of processors whose float32 products are the BLAS's
    Kind("fma256", ("avx2", "fma"), 8, *best_tile(16), is_float=True),
    Kind("neon", ("neon",), 4, *best_tile(32), is_float=True),
)


def kind_of_floats() -> Kind | None:
    """The widest instruction that multiplies and adds float32 here."""
    return FLOAT or tile.best_of(MORE_FLOATS)


def loop_of(kind: Kind | None, times: int = 1, chain: int = 0) -> Callable[[int, int], int]:
    """A compiled function (turns, a number) -> a number that depends on all that was computed.

    A turn is `times` multiplications of each sum of a tile, and a chain of so many additions.
    """

    @intrinsic
    def written(typing_context, turns, word):
        def code(context, builder, signature, arguments):
            return _write_loop(kind, times, chain, builder, *arguments)

        return types.int64(types.int64, types.int64), code

    @njit(nogil=True)
    def run(turns, word):
        return written(turns, word)

    return run


def _write_loop(kind, times, chain, builder, turns, word):
    lanes, is_float = (kind.lanes, kind.is_float) if kind else (1, False)
    numbers, words = ir.VectorType(F32 if is_float else I32, lanes), ir.VectorType(I32, lanes)
    sums_of_tile = kind.rows * kind.registers if kind else 0
    w = tile.on_all_lanes(builder, builder.trunc(word, I32), words) if kind else None
    x = builder.xor(w, ir.Constant(words, [0x10001] * lanes)) if kind else None
    if is_float:
        w, x = builder.sitofp(w, numbers), builder.sitofp(x, numbers)
    multiply = tile.multiplication(kind, builder) if kind else None
    before, body, behind = builder.block, builder.append_basic_block(), builder.append_basic_block()
    builder.branch(body)
    builder.position_at_end(body)
    left, link, sums = builder.phi(I64), builder.phi(I64), [builder.phi(numbers) for _ in range(sums_of_tile)]
    following, next_link = list(sums), link
    for _ in range(times):
        following = [multiply(total, w, x) for total in following]
    for k in range(chain):  # in turn, or LLVM makes one instruction of several
        next_link = builder.add(next_link, word) if k % 2 else builder.xor(next_link, word)
    fewer = builder.sub(left, I64(1))
    for phi, first, then in ((left, turns, fewer), (link, word, next_link)):
        phi.add_incoming(first, before)
        phi.add_incoming(then, body)
    for k, (total, made) in enumerate(zip(sums, following, strict=True)):
        total.add_incoming(ir.Constant(numbers, [k] * lanes), before)
        total.add_incoming(made, body)
    builder.cbranch(builder.icmp_signed(">", fewer, I64(0)), body, behind)
    builder.position_at_end(behind)
    mixed = next_link
    for made in following:  # each in its own way, or LLVM computes one alone
        bits = builder.bitcast(builder.extract_element(made, I32(0)), I32)
        mixed = builder.xor(builder.mul(mixed, I64(3)), builder.sext(bits, I64))
    return mixed


class Registers:
    """Loops on `threads` threads. The first call of each compiles it, and finds how many turns take TURN_SECONDS."""

    def __init__(self, threads: int) -> None:
        self.threads, self._pool, self._together = threads, ThreadPoolExecutor(threads), threading.Barrier(threads)
        self._loops: dict[tuple, tuple[Callable, int]] = {}

    def turns_a_second(self, kind: Kind | None, times: int = 1, chain: int = 0) -> float:
        """Of each thread, while all run."""
        key = (kind, times, chain)
        if key not in self._loops:
            loop, turns = loop_of(*key), 1000
            loop(1, 1)
            while (took := _seconds(loop, turns)) < TURN_SECONDS / 3:
                turns *= 2
            self._loops[key] = loop, int(turns * TURN_SECONDS / took)
        loop, turns = self._loops[key]

        def run(_: int) -> float:
            self._together.wait()
            return _seconds(loop, turns)

        return turns / float(np.mean(list(self._pool.map(run, range(self.threads)))))

    def operations_a_second(self, kind: Kind) -> float:
        """Of all threads together."""
        return kind.rows * kind.registers * operations_of(kind) * self.threads * self.turns_a_second(kind)

    def hertz(self) -> float:
        """Cycles a second while additions of whole numbers run alone."""
        return CHAIN * self.turns_a_second(None, 0, CHAIN)

    def hertz_beside(self, kind: Kind) -> float:
        """Cycles a second while the multiplications of a tile run beside the chain, which takes longer than they do."""
        per_cycle = self.operations_a_second(kind) / self.threads / operations_of(kind) / self.hertz()
        times = max(1, round(per_cycle))
        chain = 4 * kind.rows * kind.registers // 3  # a third more cycles than the multiplications
        return chain * self.turns_a_second(kind, times, chain)


def operations_of(kind: Kind) -> int:
    """Of one instruction: a multiplication and an addition for each pair of numbers."""
    return 2 * kind.lanes * (1 if kind.is_float else GROUP)


def _seconds(loop: Callable, turns: int) -> float:
    """Of the thread's own processor time, so that other work on the machine counts for little."""
    started = time.thread_time()
    loop(turns, 0x01010101)
    return time.thread_time() - started
