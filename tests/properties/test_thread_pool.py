"""Work shared by the worker threads: right whoever takes it, and done before its owner goes on."""

import dataclasses
import inspect
import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from numba import config, njit

import minidecode as md
from minidecode.cpu import linear as cpu_linear
from minidecode.cpu import split
from minidecode.cpu.common import skinny_gemm, thread_pool
from minidecode.cpu.common.atomics import pause
from minidecode.cpu.common.tasks import in_tasks
from minidecode.device.low_precision import stored_weight
from minidecode.ops import Weight
from minidecode.reference import split as reference_split

STORED = ("float32", "float16", "int8")


@pytest.fixture
def three_threads(monkeypatch):
    """If the environment has changed, Numba reads it again when it compiles."""
    monkeypatch.setenv("NUMBA_NUM_THREADS", "3")
    monkeypatch.setattr(config, "NUMBA_NUM_THREADS", 3)
    monkeypatch.setattr(cpu_linear, "WORTH_A_LOT", 2000)
    thread_pool._forget_pool()
    yield
    thread_pool._forget_pool()


def cases(rows, seed=0):
    """(x, weight) of weights stored in each way, and of float32 in the layout "io"."""
    rng = np.random.default_rng(seed)
    x_RX, matrix = rng.standard_normal((rows, 65)).astype(np.float32), rng.standard_normal((65, 73)).astype(np.float32)
    return [(x_RX, Weight(matrix)), *((x_RX, stored_weight(stored, Weight(matrix))) for stored in STORED)]


def alone(x_RX, weight):
    """The same product in one task, by this thread."""
    before, cpu_linear.WORTH_A_LOT = cpu_linear.WORTH_A_LOT, 2**60
    try:
        return cpu_linear.linear_few_rows(x_RX, weight)
    finally:
        cpu_linear.WORTH_A_LOT = before


def opened(x_RX, w_XX, y_RX, number):
    """A table with a product by outputs on it, six in a task, as its owner lays it there; and what must outlive it."""
    table, scale_X = np.zeros(thread_pool.SIZE, np.int64), np.ones(len(w_XX), np.float32)
    table[thread_pool.ONLY_NOTED] = 1
    skinny_gemm._multiply_outputs(-(-len(w_XX) // 6), table, x_RX, w_XX, scale_X, True, y_RX, 6)
    table[thread_pool.ONLY_NOTED] = 0
    table[thread_pool.OPEN] = number
    return table, scale_X


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5, 48])
def test_lots_give_the_bits_that_one_thread_gives(rows, three_threads):
    expected = [alone(*case) for case in cases(rows)]
    for _ in range(50):  # workers come sooner or later, and other products lie on the table each time
        for case, y_RX in zip(cases(rows), expected, strict=True):
            assert np.array_equal(cpu_linear.linear_few_rows(*case), y_RX)
    assert thread_pool._shared_pool().threads == 2  # others than at first, if one was inside for a second


def test_four_threads_at_once_get_their_own_products(three_threads):
    """One has the workers, the others multiply alone."""
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
    x_RX, weight = cases(2)[1]
    y_RX, table = np.zeros((2, 73), np.float32), np.zeros(thread_pool.SIZE, np.int64)
    table[thread_pool.INSIDE] = 1
    arguments = x_RX, weight.data, cpu_linear._no_scale(73), True, y_RX, 6
    skinny_gemm._multiply_outputs(13, np.zeros_like(table), *arguments)  # compiles
    y_RX[:] = 0
    owner = threading.Thread(target=skinny_gemm._multiply_outputs, args=(13, table, *arguments))
    owner.start()
    while not (y_RX != 0).all():
        time.sleep(0.001)
    time.sleep(0.05)
    is_waiting = owner.is_alive()
    table[thread_pool.INSIDE] = 0
    owner.join(timeout=60)
    assert is_waiting and not owner.is_alive() and table[thread_pool.OPEN] == 0


def test_a_helper_takes_all_lots_that_are_left_once_and_leaves():
    x_RX, weight = cases(5)[1]
    y_RX = np.full((5, 73), np.nan, np.float32)
    table, _held = opened(x_RX, weight.data, y_RX, number=7)
    table[thread_pool.NEXT] = 2
    thread_pool._work(table, 1000)
    assert np.isnan(y_RX[:, :12]).all() and np.array_equal(y_RX[:, 12:], alone(x_RX, weight)[:, 12:])
    assert table[thread_pool.INSIDE] == 0
    assert table[thread_pool.NEXT] == 14  # the 13th task, which is not there, was asked for once


def test_a_helper_takes_no_lot_of_what_it_has_seen():
    """Work that is closed, and left on the table, is not done again."""
    x_RX, weight = cases(5)[1]
    y_RX = np.full((5, 73), np.nan, np.float32)
    table, _held = opened(x_RX, weight.data, y_RX, number=0)
    thread_pool._work(table, 1000)
    assert np.isnan(y_RX).all() and table[thread_pool.INSIDE] == table[thread_pool.NEXT] == 0


def attention(seed, beams=2, stored=np.float32):
    """Two sentences of unlike lengths, whose beams have generated unlike numbers of tokens; two heads share a key."""
    rng = np.random.default_rng(seed)
    numbers = [rng.standard_normal(shape).astype(np.float32) for shape in [(2 * beams, 4, 8), (2, 2, 40, 8)]]
    numbers += [rng.standard_normal(shape).astype(np.float32) for shape in [(2, 2, 40, 5), (2 * beams, 2, 9, 8)]]
    q_RHK, *memory = *numbers, rng.standard_normal((2 * beams, 2, 9, 5)).astype(np.float32)
    k_BGNK, v_BGNU, k_RGTK, v_RGTU = (array.astype(stored) for array in memory)
    begin_R, end_R = np.arange(2 * beams) % 2, 9 - np.arange(2 * beams) % 6
    return q_RHK, k_BGNK, v_BGNU, np.array([0, 33]), k_RGTK, v_RGTU, begin_R, end_R, 0.3


@pytest.mark.parametrize("stored", [np.float32, np.float16])
@pytest.mark.parametrize("beams", [1, 2, 3, 5])
def test_attention_is_dealt_out_among_products(beams, stored, three_threads, monkeypatch):
    """Workers that a product has called find a head of a sentence on the table, and then a product again."""
    inputs, product = attention(beams, beams, stored), cases(2)[1]
    expected, alone_RX = alone(*product), split.attend_split(*inputs)  # so little is not dealt out
    np.testing.assert_allclose(alone_RX, reference_split.attend_split(*inputs), rtol=0, atol=3e-6)
    monkeypatch.setattr(split, "WORTH_WORKERS", 0)
    asked, deadline = 0, time.perf_counter() + 60
    while asked < 20:
        assert time.perf_counter() < deadline, "workers that are awake are not asked"
        assert np.array_equal(cpu_linear.linear_few_rows(*product), expected)
        (pool,) = thread_pool._started
        pool.away, number = 0, pool.table[thread_pool.NUMBER]
        assert np.array_equal(split.attend_split(*inputs), alone_RX)
        asked += pool.table[thread_pool.NUMBER] > number


def test_attention_wakes_nobody(three_threads, monkeypatch):
    """Between products of the BLAS, whose own threads have the cores."""
    inputs = attention(0)
    monkeypatch.setattr(split, "WORTH_WORKERS", 0)
    expected = split.attend_split(*inputs)
    (pool,) = thread_pool._started
    deadline = time.perf_counter() + 60
    while len(pool.sleeping) < 2 and time.perf_counter() < deadline:
        time.sleep(0.01)
    assert np.array_equal(split.attend_split(*inputs), expected)
    assert pool.table[thread_pool.NUMBER] == 0 and len(pool.sleeping) == 2


LIE_OTHERWISE = {
    "numbers apart": lambda x: np.repeat(x, 2, axis=-1)[..., ::2],
    "by columns": np.asfortranarray,
    "axes changed": lambda x: np.ascontiguousarray(x.swapaxes(0, -1)).swapaxes(0, -1),
}


@pytest.mark.parametrize("kind", LIE_OTHERWISE)
@pytest.mark.parametrize("number", range(8))
def test_attention_over_views_is_right_too(number, kind, three_threads, monkeypatch):
    """Whatever lies otherwise than workers expect is copied first."""
    inputs = list(attention(1))
    expected, known = split.attend_split(*inputs), len(split._attend_head.signatures)
    inputs[number] = LIE_OTHERWISE[kind](inputs[number])
    monkeypatch.setattr(split, "WORTH_WORKERS", 0)
    for _ in range(10):
        cpu_linear.linear_few_rows(*cases(2)[1])
        assert np.array_equal(split.attend_split(*inputs), expected)
    assert len(split._attend_head.signatures) == known  # no code for each order


@pytest.mark.parametrize("numbers", [(3,), (6, 7), (3, 6, 7)])
def test_attention_takes_places_in_other_whole_numbers(numbers):
    inputs = list(attention(1))
    expected = split.attend_split(*inputs)
    for number in numbers:
        inputs[number] = inputs[number].astype(np.int32)
    assert np.array_equal(split.attend_split(*inputs), expected)


@pytest.mark.parametrize("stored", [(np.float16, np.float32), (np.float32, np.float16), (np.float64, np.float64)])
def test_attention_over_memories_of_two_kinds(stored):
    inputs = list(attention(1))
    for number in (1, 2, 4, 5):
        inputs[number] = inputs[number].astype(np.float16).astype(stored[number > 3])
    right = reference_split.attend_split(*(x.astype(np.float64) if x.dtype.kind == "f" else x for x in inputs[:8]), 0.3)
    np.testing.assert_allclose(split.attend_split(*inputs), right, rtol=0, atol=3e-6)


def test_a_score_far_below_the_others_has_no_weight():
    """Not even beside a value at the end of its range."""
    q_RHK, nothing = np.ones((1, 1, 1), np.float32), np.zeros(1, np.int64)
    k_RGTK, v_RGTU = (np.array(x, np.float32).reshape(1, 1, 3, 1) for x in ([0, -200, -np.inf], [1, 3e38, 3e38]))
    none = k_RGTK[:, :, :0]
    assert split.attend_split(q_RHK, none, none, nothing, k_RGTK, v_RGTU, nothing, nothing + 3, 1.0) == 1


@in_tasks()
def no_room(task, numbers):
    if task == 3:
        raise MemoryError
    return thread_pool.DONE


def test_a_lot_without_room_is_an_error(three_threads):
    for workers in (thread_pool.ALL_WORKERS, thread_pool.CALLER_ALONE):
        with pytest.raises(MemoryError, match="no room"):
            thread_pool.parallel_for(no_room, 7, ((0,),), workers)
    case = cases(1)[1]
    assert np.array_equal(cpu_linear.linear_few_rows(*case), alone(*case))  # the table is free again


TOO_MANY = tuple(range(thread_pool.MOST_ARGS + 1))


def test_work_of_too_many_arguments_is_an_error(three_threads):
    """They would be written over what else lies on a table."""
    for workers in (thread_pool.ALL_WORKERS, thread_pool.CALLER_ALONE):
        with pytest.raises(ValueError, match="more arguments than a table has places for"):
            thread_pool.parallel_for(no_room, 1, (TOO_MANY,), workers)
    case = cases(1)[1]
    assert np.array_equal(cpu_linear.linear_few_rows(*case), alone(*case))  # the table is free


@in_tasks()
def write_number(task, y_X, number):
    y_X[task] = number
    return thread_pool.DONE


@in_tasks()
def write_opposite(task, y_X, number):
    y_X[task] = -number
    return thread_pool.DONE


def noted(function, *arguments):
    """(the function's address, its arguments), as `queue_and_run_tasks` takes them."""
    table = np.zeros(thread_pool.SIZE, np.int64)
    table[thread_pool.ONLY_NOTED] = 1
    function(1, table, *arguments)
    return table[thread_pool.FUNCTION], table[thread_pool.ARGS :][: table[thread_pool.LENGTH]]


@njit(nogil=True)
def some_time():
    """Mostly none, and now and then as long as a few tasks."""
    if np.random.randint(0, 6) == 0:
        for _ in range(np.random.randint(0, 1000)):
            pause()


def with_delays(name, **others):
    """The function of thread_pool.py, with some time before each of its lines."""
    lines = inspect.getsource(getattr(thread_pool, name).py_func).split('"""')[2].splitlines()  # behind the docstring
    header = inspect.getsource(getattr(thread_pool, name).py_func).split("\n")[1]
    delayed = [f"{line[: len(line) - len(line.lstrip())]}some_time()\n{line}" for line in lines if line.strip()]
    scope = vars(thread_pool) | {"some_time": some_time} | others
    exec("\n".join([header, *delayed]), scope)
    return njit(nogil=True)(scope[name])


def works_of(queue_and_run_tasks):
    @njit(nogil=True)
    def works(write, write_opposite, how_many, y_NX, args_NX, table):
        """Works one after the other, by turns of two kinds: (how many were not done, how many after their end)."""
        undone = late = 0
        for work in range(1, how_many + 1):
            y_X, before_X = y_NX[work % len(y_NX)], y_NX[(work - 1) % len(y_NX)]
            function, sign, tasks = (write, 1, 8) if work % 2 else (write_opposite, -1, 5)
            args_X = args_NX[work % len(y_NX)]
            args_X[-1] = work  # behind the array
            while queue_and_run_tasks(tasks, function, args_X, table) < 0:
                pass
            undone += (y_X[:tasks] != sign * work).any() or y_X[tasks:].any()
            late += before_X.any()
            y_X[:] = 0
        return undone, late

    return works


def test_no_lot_is_done_after_the_end_or_for_another_work():
    """A worker that comes as work ends and the next is laid out writes nothing that is over and reads no half of it.

    Whoever is late, between whichever lines.
    """
    y_NX, table = np.zeros((4, 8), np.int64), np.zeros(thread_pool.SIZE, np.int64)
    take = with_delays("_run_tasks")
    help_, works = with_delays("_work", _run_tasks=take), works_of(with_delays("queue_and_run_tasks", _run_tasks=take))
    help_(np.zeros_like(table), 1)  # compiles
    over, threads = threading.Event(), []
    for _ in range(2):
        threads.append(threading.Thread(target=lambda: [help_(table, 10_000) for _ in iter(over.is_set, True)]))
        threads[-1].start()
    try:
        args_NX = np.array([noted(write_number, y_X, 0)[1] for y_X in y_NX])
        addresses = (noted(write, y_NX[0], 0)[0] for write in (write_number, write_opposite))
        assert works(*addresses, 10_000, y_NX, args_NX, table) == (0, 0)
        assert not y_NX.any()
    finally:
        over.set()
        for thread in threads:
            thread.join()


def test_who_waited_long_goes_on_without_helpers_for_as_long(three_threads, monkeypatch):
    case = cases(1)[1]
    expected, opened_so_far = alone(*case), []
    for n in range(7):
        assert np.array_equal(cpu_linear.linear_few_rows(*case), expected)
        (pool,) = thread_pool._started
        if n == 0:
            pool.adapt_to_wait(int(0.9 * thread_pool.PATIENCE * pool.looks_a_second), seconds=0)
            assert pool.away == 0
            long = int(100 * thread_pool.TASK_TAKES * pool.looks_a_second)
            pool.adapt_to_wait(long, seconds=200 * thread_pool.TASK_TAKES)  # tasks that take long are no stall
            assert pool.away == 0
            pool.adapt_to_wait(long, seconds=101 * thread_pool.TASK_TAKES)
            assert 98 <= pool.away <= 100
            pool.away = 100
            for seconds, left in ((0, 99), (8.5 * thread_pool.TASK_TAKES, 91), (1, 0)):
                pool.adapt_to_lone_run(seconds)
                assert pool.away == left
            pool.away = 3
            monkeypatch.setattr(thread_pool, "TASK_TAKES", 60)  # each of the next counts as one
        opened_so_far.append(int(pool.table[thread_pool.NUMBER]))
    assert opened_so_far == [1, 1, 1, 1, 2, 3, 4]


def test_a_table_that_another_thread_has_is_left_to_it(three_threads):
    case = cases(1)[1]
    expected = cpu_linear.linear_few_rows(*case)
    (pool,) = thread_pool._started
    pool.table[thread_pool.WANTED], number = 1, pool.table[thread_pool.NUMBER]
    assert np.array_equal(cpu_linear.linear_few_rows(*case), expected)
    assert pool.table[thread_pool.WANTED] == 1 and pool.table[thread_pool.NUMBER] == number


def test_helpers_stay_awake_for_as_long_on_every_processor(three_threads):
    """However long a look takes: it is a pause of many cycles here, and none there."""
    cpu_linear.linear_few_rows(*cases(1)[1])
    (pool,) = thread_pool._started
    looks = int(20 * thread_pool.AWAKE * pool.looks_a_second)
    began = time.perf_counter()
    thread_pool._work(np.zeros(thread_pool.SIZE, np.int64), looks)
    assert time.perf_counter() - began > 10 * thread_pool.AWAKE  # at least: this thread may have to wait for a core


def test_threads_that_begin_together_share_their_helpers(three_threads):
    case, barrier = cases(1)[1], threading.Barrier(8)
    threads = [threading.Thread(target=lambda: (barrier.wait(), cpu_linear.linear_few_rows(*case))) for _ in range(8)]
    before = threading.active_count()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert threading.active_count() == before + 2 and len(thread_pool._started) == 1


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


INTERRUPTED_AS_IT_WAKES = """
import sys, time
from numba import config
from minidecode.cpu.common import thread_pool
config.NUMBA_NUM_THREADS = 2
pool, interrupts = thread_pool._shared_pool(), 0
def interrupt(frame, event, arg):
    global returns
    returns -= "return" in event
    if returns == 0:
        raise KeyboardInterrupt
for returns_before in range(1, 20):
    while not pool.sleeping:
        time.sleep(0.001)
    returns = returns_before
    sys.setprofile(interrupt)
    try:
        pool.wake_sleeping()
    except KeyboardInterrupt:
        interrupts += 1
    finally:
        sys.setprofile(None)
    pool.wake_sleeping()
assert interrupts > 1
"""


def test_an_interrupt_as_workers_are_woken_leaves_no_lock_behind():
    """At every return of a function; a signal's handler may run there."""
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_NUM_THREADS"}
    ran = subprocess.run([sys.executable, "-c", INTERRUPTED_AS_IT_WAKES], env=environment, timeout=120)
    assert ran.returncode == 0


INTERRUPTED = """
import _thread, random, signal, threading, time
import numpy as np
from numba import config, njit
from minidecode.cpu import linear
from minidecode.cpu.common import thread_pool
from minidecode.ops import Weight
config.NUMBA_NUM_THREADS, linear.WORTH_A_LOT = 2, 1000
x, w = np.ones((3, 64), np.float32), Weight(np.ones((96, 64), np.float32), layout="oi")
linear.linear_few_rows(x, w)
(workers,), came, is_multiplying = thread_pool._started, 0, False
def once(*_):  # no second one comes where the first is caught
    global is_multiplying
    if is_multiplying:
        is_multiplying = False
        raise KeyboardInterrupt
signal.signal(signal.SIGINT, once)
def interrupt():
    while came < 100:  # several may come as one on a busy machine
        time.sleep(random.uniform(0, 0.004))
        _thread.interrupt_main()
interrupting = threading.Thread(target=interrupt, daemon=True)
interrupting.start()
while came < 100:
    try:
        is_multiplying = True
        while True:
            assert (linear.linear_few_rows(x, w) == 64).all()
            time.sleep(0.0004)
    except KeyboardInterrupt:
        came += 1
interrupting.join()
before = workers.table[thread_pool.NUMBER]
for _ in range(3):
    workers.away = 0
    assert (linear.linear_few_rows(x, w) == 64).all()
assert workers.table[thread_pool.NUMBER] == before + 3 and workers.table[thread_pool.WANTED] == 0
"""


def test_an_interrupt_leaves_the_helpers_free():
    assert subprocess.run([sys.executable, "-c", INTERRUPTED], timeout=120).returncode == 0


def test_a_worker_that_dies_is_an_error_and_the_next_call_has_others(three_threads, monkeypatch):
    """By an exception: what it was, and no traceback beside it."""
    case = cases(1)[1]
    expected = alone(*case)
    assert np.array_equal(cpu_linear.linear_few_rows(*case), expected)
    (pool,) = thread_pool._started

    def die(table, looks):
        raise SystemExit("enough")

    with monkeypatch.context() as patched:
        patched.setattr(thread_pool, "_work", die)
        deadline = time.perf_counter() + 60
        with pytest.raises(md.WorkerError, match=r"worker thread minidecode-\d died \(SystemExit: enough\): run again"):
            while time.perf_counter() < deadline:
                pool.away = 0
                assert np.array_equal(cpu_linear.linear_few_rows(*case), expected)
    assert np.array_equal(cpu_linear.linear_few_rows(*case), expected)
    assert thread_pool._started[0] is not pool and not thread_pool._started[0].died


def test_a_generation_ends_with_the_error_of_a_worker_that_died(three_threads, monkeypatch):
    """And the next one is served by others."""
    monkeypatch.setattr(cpu_linear, "SMALL", 0)
    cpu_linear.linear_few_rows(*cases(1)[1])
    thread_pool._started[0].died = "worker thread minidecode-1 died (MemoryError: )"
    model = md.load("tiny-gpt2")
    with pytest.raises(md.WorkerError, match=r"^worker thread minidecode-1 died \(MemoryError: \): run again"):
        model.generate(["Fellow citizens"], plan="linear=cpu", max_new_tokens=2)
    assert model.generate(["Fellow citizens"], plan="linear=cpu", max_new_tokens=2).token_ids[0].size


def test_a_worker_that_cannot_start_is_an_error(three_threads, monkeypatch):
    def raise_trouble(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", raise_trouble)
    with pytest.raises(md.WorkerError, match=r"minidecode-0 cannot be started \(can't start new thread\): run again"):
        cpu_linear.linear_few_rows(*cases(1)[1])


def test_an_owner_waits_on_for_a_worker_that_lives(three_threads, monkeypatch):
    """It is only slow: the result is whole, and others serve the next call."""
    monkeypatch.setattr(thread_pool, "STALL", 1e-4)
    case = cases(1)[1]
    expected = cpu_linear.linear_few_rows(*case)
    (pool,) = thread_pool._started
    pool.table[thread_pool.INSIDE] += 1
    pool.away, began = 0, time.perf_counter()
    threading.Timer(0.1, lambda: pool.table.__setitem__(thread_pool.INSIDE, 0)).start()
    assert np.array_equal(cpu_linear.linear_few_rows(*case), expected) and time.perf_counter() - began > 0.09
    assert np.array_equal(cpu_linear.linear_few_rows(*case), expected) and thread_pool._started[0] is not pool


ENDED = """
import ctypes, platform, threading, time
import numpy as np
from numba import cfunc, config, njit
import minidecode as md
from minidecode.cpu.common import thread_pool
from minidecode.cpu.common.atomics import pause
config.NUMBA_NUM_THREADS, thread_pool.STALL = 2, 0.01
number = {"x86_64": (186, 60), "aarch64": (178, 93)}[platform.machine()]
GETTID, EXIT = number
syscall = ctypes.CDLL(None).syscall
syscall.argtypes, syscall.restype = [ctypes.c_long, ctypes.c_long], ctypes.c_long
@cfunc("int64(CPointer(int64), int64)")
def end_unless_owner(owner, task):
    if syscall(GETTID, 0) != owner[0]:
        syscall(EXIT, 0)
    for _ in range(100_000):
        pause()
    return thread_pool.DONE
ENDS = end_unless_owner.address
@njit(nogil=True)  # a worker that wakes needs the interpreter's lock before it comes
def lay(tasks, table, owner):
    return thread_pool.queue_and_run_tasks(tasks, ENDS, np.full(1, owner), table)
owner = threading.get_native_id()
for _ in range(100):
    try:
        thread_pool.parallel_for(lay, 50, (owner,), thread_pool.ALL_WORKERS)
    except md.WorkerError as error:
        print(error)
        break
else:
    print("in 100 pieces of work no worker came")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="system calls of Linux")
def test_a_worker_that_ends_inside_of_compiled_code_is_an_error_and_no_hang():
    """Killed alone, as by a sandbox: Python believes that it lives, and it never says that it is done."""
    done = subprocess.run([sys.executable, "-c", ENDED], capture_output=True, text=True, timeout=60)
    assert done.stdout.startswith("worker thread minidecode-0 died inside of compiled code: run again"), done


IN_A_CHILD = """
import os, signal
import numpy as np
from numba import config, njit
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
