"""A product's outputs dealt out to threads: right whoever takes them, and done before the product's owner goes on."""

import dataclasses
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from numba import config

from minidecode.cpu import dealing
from minidecode.cpu import linear as cpu_linear
from minidecode.ops import Weight
from minidecode.precision import narrowed

STORED = ("float32", "float16", "int8")


@pytest.fixture
def three_threads(monkeypatch):
    monkeypatch.setattr(config, "NUMBA_NUM_THREADS", 3)
    monkeypatch.setattr(cpu_linear, "WORTH_A_LOT", 2000)
    dealing._forget_helpers()
    yield
    dealing._forget_helpers()


def cases(rows, seed=0):
    """(x, weight) of weights stored in each way, and of float32 in the layout "io"."""
    rng = np.random.default_rng(seed)
    x_RX, matrix = rng.standard_normal((rows, 65)).astype(np.float32), rng.standard_normal((65, 73)).astype(np.float32)
    return [(x_RX, Weight(matrix)), *((x_RX, narrowed(stored, Weight(matrix))) for stored in STORED)]


def alone(x_RX, weight):
    """The same product in one lot, by this thread."""
    before, cpu_linear.WORTH_A_LOT = cpu_linear.WORTH_A_LOT, 2**60
    try:
        return cpu_linear.linear_few_rows(x_RX, weight)
    finally:
        cpu_linear.WORTH_A_LOT = before


def opened(x_RX, w_XX, y_RX, number):
    """A table with a product by outputs on it, as its owner lays it there; and what must outlive it."""
    table, scale_X = np.zeros(dealing.SIZE, np.int64), np.ones(len(w_XX), np.float32)
    for place, array in (("X", x_RX), ("W", w_XX), ("SCALE", scale_X), ("Y", y_RX)):
        table[getattr(dealing, place)] = array.ctypes.data
    table[dealing.ROWS], table[dealing.INPUTS], table[dealing.OUTPUTS] = *x_RX.shape, len(w_XX)
    table[dealing.IS_OI], table[dealing.LOT], table[dealing.WIDTH] = True, 6, w_XX.itemsize
    table[dealing.OPEN] = number
    return table, scale_X


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5, 48])
def test_lots_give_the_bits_that_one_thread_gives(rows, three_threads):
    expected = [alone(*case) for case in cases(rows)]
    for _ in range(50):  # helpers come sooner or later, and other products lie on the table each time
        for case, y_RX in zip(cases(rows), expected, strict=True):
            assert np.array_equal(cpu_linear.linear_few_rows(*case), y_RX)
    assert len(dealing._started) == 1


def test_four_threads_at_once_get_their_own_products(three_threads):
    """One has the helpers, the others multiply alone."""
    wrong = []

    def multiply(seed):
        work = [*cases(2, seed), *cases(9, seed)]
        expected = [alone(*case) for case in work]
        barrier.wait()
        for _ in range(100):
            for case, y_RX in zip(work, expected, strict=True):
                if not np.array_equal(cpu_linear.linear_few_rows(*case), y_RX):
                    wrong.append(seed)

    barrier = threading.Barrier(1)
    multiply(0)  # compiles
    barrier = threading.Barrier(4)
    threads = [threading.Thread(target=multiply, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_results_go_where_the_caller_wants_them(three_threads):
    for x_RX, weight in cases(3):
        wide_RX = np.zeros((3, 2 * 73), np.float32)
        expected = alone(x_RX, weight)
        for out in (wide_RX[:, :73], wide_RX[:, ::2], np.empty((3, 73), np.float32)):
            assert cpu_linear.linear_few_rows(x_RX, weight, out=out) is out
            assert np.array_equal(out, expected)


def test_the_owner_waits_for_who_is_inside():
    (x_RX, weight), *_ = cases(2)[1:]
    y_RX, table = np.zeros((2, 73), np.float32), np.zeros(dealing.SIZE, np.int64)
    table[dealing.INSIDE] = 1
    arguments = (x_RX, weight.data, cpu_linear._no_scale(73), True, y_RX, 6, table)
    dealing._own(*arguments[:-1], np.zeros_like(table))  # compiles
    y_RX[:] = 0
    owner = threading.Thread(target=dealing._own, args=arguments)
    owner.start()
    while not (y_RX != 0).all():
        time.sleep(0.001)
    time.sleep(0.05)
    is_waiting = owner.is_alive()
    table[dealing.INSIDE] = 0
    owner.join(timeout=60)
    assert is_waiting and not owner.is_alive() and table[dealing.OPEN] == 0


def test_a_helper_takes_all_lots_that_are_left_once_and_leaves():
    x_RX, weight = cases(5)[1]
    y_RX = np.full((5, 73), np.nan, np.float32)
    table, _held = opened(x_RX, weight.data, y_RX, number=7)
    table[dealing.NEXT] = 2
    assert dealing._help(table, np.float32(0), 4, 1000) == 0
    assert np.isnan(y_RX[:, :12]).all() and np.array_equal(y_RX[:, 12:], alone(x_RX, weight)[:, 12:])
    assert (
        table[dealing.INSIDE] == 0 and table[dealing.NEXT] == 14
    )  # the 13th lot, which is not there, was asked for once


def test_a_helper_leaves_weights_of_another_width_to_other_code():
    x_RX, weight = cases(5)[3]
    y_RX = np.full((5, 73), np.nan, np.float32)
    table, _held = opened(x_RX, weight.data, y_RX, number=7)
    assert dealing._help(table, np.float32(0), 4, 1000) == 1  # byte
    assert np.isnan(y_RX).all() and table[dealing.INSIDE] == table[dealing.NEXT] == 0


def test_who_waited_long_goes_on_without_helpers_for_as_long(three_threads):
    case = cases(1)[1]
    expected, opened_so_far = alone(*case), []
    for n in range(7):
        assert np.array_equal(cpu_linear.linear_few_rows(*case), expected)
        (helpers,) = dealing._started
        if n == 0:
            helpers.were_waited_for(int(0.9 * dealing.PATIENCE * helpers.looks_a_second))
            assert helpers.away == 0
            helpers.were_waited_for(int(100 * dealing.LOT_TAKES * helpers.looks_a_second))
            assert 98 <= helpers.away <= 100
            helpers.away = 3
        opened_so_far.append(int(helpers.table[dealing.NUMBER]))
    assert opened_so_far == [1, 1, 1, 1, 2, 3, 4]


def test_a_table_that_another_thread_has_is_left_to_it(three_threads):
    case = cases(1)[1]
    expected = cpu_linear.linear_few_rows(*case)
    (helpers,) = dealing._started
    helpers.table[dealing.WANTED], number = 1, helpers.table[dealing.NUMBER]
    assert np.array_equal(cpu_linear.linear_few_rows(*case), expected)
    assert helpers.table[dealing.WANTED] == 1 and helpers.table[dealing.NUMBER] == number


def test_helpers_stay_awake_for_as_long_on_every_processor(three_threads):
    """However long a look takes: it is a pause of many cycles here, and none there."""
    cpu_linear.linear_few_rows(*cases(1)[1])
    (helpers,) = dealing._started
    looks = int(20 * dealing.AWAKE * helpers.looks_a_second)
    began = time.perf_counter()
    dealing._help(np.zeros(dealing.SIZE, np.int64), np.float32(0), 4, looks)
    assert time.perf_counter() - began > 10 * dealing.AWAKE  # at least: this thread may have to wait for a core


def test_a_helper_is_called_for_the_weights_that_there_are(three_threads, monkeypatch):
    """And never runs, or compiles, what is for others."""
    called, original = set(), dealing._help
    monkeypatch.setattr(dealing, "_help", lambda *given: (called.add(given[2]), original(*given))[1])
    (x_RX, weight) = cases(5)[3]
    for _ in range(20):
        cpu_linear.linear_few_rows(x_RX, weight)
        time.sleep(0.002)  # they sleep, and are called again
    assert called == {1}


def test_threads_that_begin_together_share_their_helpers(three_threads):
    case, barrier = cases(1)[1], threading.Barrier(8)
    threads = [threading.Thread(target=lambda: (barrier.wait(), cpu_linear.linear_few_rows(*case))) for _ in range(8)]
    before = threading.active_count()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert threading.active_count() == before + 2 and len(dealing._started) == 1


@pytest.mark.parametrize("number", range(4))
def test_no_rows_give_no_rows(number, three_threads):
    x_RX, weight = cases(1)[number]
    assert cpu_linear.linear_few_rows(x_RX[:0], weight).shape == (0, 73)
    assert np.array_equal(cpu_linear.linear_few_rows(x_RX, weight), alone(x_RX, weight))  # nobody is left inside


def test_arrays_of_other_kinds_are_right_too(three_threads):
    for x_RX, weight in cases(3):
        expected, out = alone(x_RX, weight), np.empty((3, 73))
        assert cpu_linear.linear_few_rows(x_RX.astype(np.float64), weight, out=out) is out
        assert np.array_equal(out, expected)
        with pytest.raises(ValueError, match="broadcast"):
            cpu_linear.linear_few_rows(x_RX, weight, out=np.empty((2, 73), np.float32))
    scale_X = np.repeat(weight.scale, 2).astype(np.float64)
    for scale in (scale_X[::2], np.repeat(weight.scale, 2)[::2]):
        assert np.array_equal(cpu_linear.linear_few_rows(x_RX, dataclasses.replace(weight, scale=scale)), expected)


INTERRUPTED = """
import _thread, random, threading, time
import numpy as np
from numba import config
from minidecode.cpu import dealing, linear
from minidecode.ops import Weight
config.NUMBA_NUM_THREADS, linear.WORTH_A_LOT = 2, 1000
x, w = np.ones((3, 64), np.float32), Weight(np.ones((96, 64), np.float32), layout="oi")
linear.linear_few_rows(x, w)
(helpers,), came = dealing._started, 0
def interrupt():
    for _ in range(200):
        time.sleep(random.uniform(0, 0.004))
        _thread.interrupt_main()
threading.Thread(target=interrupt, daemon=True).start()
while came < 100:
    try:
        while True:
            assert (linear.linear_few_rows(x, w) == 64).all()
            time.sleep(0.0004)
    except KeyboardInterrupt:
        came += 1
import signal
signal.signal(signal.SIGINT, signal.SIG_IGN)
before = helpers.table[dealing.NUMBER]
helpers.away = 0
for _ in range(3):
    assert (linear.linear_few_rows(x, w) == 64).all()
assert helpers.table[dealing.NUMBER] == before + 3 and helpers.table[dealing.WANTED] == 0
"""


def test_an_interrupt_leaves_the_helpers_free():
    assert subprocess.run([sys.executable, "-c", INTERRUPTED], timeout=120).returncode == 0


IN_A_CHILD = """
import os, signal
import numpy as np
from numba import config
from minidecode.cpu import linear
from minidecode.ops import Weight
config.NUMBA_NUM_THREADS, linear.WORTH_A_LOT = 2, 1
x, w = np.ones((3, 8), np.float32), Weight(np.ones((8, 8), np.float32))
linear.linear_few_rows(x, w)
child = os.fork()
if not child:
    signal.alarm(60)  # ends a child that waits for threads that are not there
    os._exit(0 if (linear.linear_few_rows(x, w) == 8).all() else 1)
raise SystemExit(os.waitpid(child, 0)[1])
"""


@pytest.mark.skipif(not hasattr(sys, "getdlopenflags"), reason="no fork on Windows")
def test_a_forked_process_starts_threads_of_its_own():
    assert subprocess.run([sys.executable, "-W", "ignore", "-c", IN_A_CHILD]).returncode == 0
