"""A user's function beside ours: an honest one is timed, and what has cheated benchmarks of kernels is refused.

Each cheat is right wherever `check` looks at it: on small inputs, one call at a time.
"""

import json
import sys
import threading
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import minidecode as md
from minidecode import ops
from minidecode.bench import verified
from minidecode.bench.compare import Comparison, Timing, functions_by_label, implementations
from minidecode.bench.machines import MACHINES, Machine
from minidecode.bench.pictures import draw_roofline
from minidecode.bench.verified import (
    Submission,
    Watched,
    _distance_from_right,
    copy_into,
    roofline_alarm,
    time_verified,
)
from minidecode.catalog import CATALOG, Cost, arrays_of
from minidecode.conformance.check import changed_but_not_returned, results_with_changed
from minidecode.conformance.rows import row_module
from minidecode.ops import Norm
from minidecode.reference.arena import assign_offsets
from minidecode.reference.ngram import ban_ngrams
from minidecode.reference.norm import residual_norm

F = np.float32


def values_of_norm(n):
    rng = np.random.default_rng(n)
    x_RD, y_RD = rng.standard_normal((2, 64, 256)).astype(F)
    return x_RD, y_RD, None, Norm(np.ones(256, F), np.zeros(256, F), 1e-5)


def values_of_ngram(n):
    tokens_RM = np.random.default_rng(n).integers(0, 20, (16, 40))
    return np.zeros((16, 100), F), tokens_RM, np.full(16, 40), 2


def submit(function, values=values_of_norm, repeats=3, **how):
    row = CATALOG["norm" if values is values_of_norm else "ngram"]
    return time_verified(row, lambda _: {}, {"mine.py:f": function}, values, repeats, **how)[0]["mine.py:f"]


def refused(function, match, **how):
    with pytest.raises(md.RefusedError, match=f"^mine.py:f {match}.*: nothing is timed$"):
        submit(function, **how)


def test_honest_functions_are_timed():
    """In place too, and with a thread of their own whose work they wait for."""
    with ThreadPoolExecutor(1) as pool:

        def parallel(*given):
            return pool.submit(residual_norm, *given).result()

        for seconds in (submit(residual_norm), submit(parallel), submit(ban_ngrams, values_of_ngram)):
            assert len(seconds) == 3 and min(seconds) > 0


def test_a_result_kept_by_the_address_of_its_input():
    kept = {}

    def f(x_RD, *rest):
        if x_RD.ctypes.data not in kept:
            kept[x_RD.ctypes.data] = residual_norm(x_RD, *rest)
        return tuple(a.copy() for a in kept[x_RD.ctypes.data])

    refused(f, "returned the result of an earlier call")


def test_a_result_kept_by_the_content_of_its_input():
    """The values that it has seen: on new ones it is right, and as slow as it is."""
    kept = {}

    def f(x_RD, y_RD, bias_D, norm):
        key = x_RD[0, :8].tobytes()
        if key not in kept:
            for _ in range(20):  # slow
                kept[key] = residual_norm(x_RD, y_RD, bias_D, norm)
        return tuple(a.copy() for a in kept[key])

    refused(f, r"takes [\d,.]+ us for values that it has seen and [\d,.]+ us for new ones: it keeps results")


def test_an_array_that_was_returned_before():
    out = tuple(np.empty((64, 256), F) for _ in range(2))
    refused(lambda *given: residual_norm(*given, out=out), "returned an array that it had returned before")


@pytest.mark.parametrize("which", ["x_RD", "norm.gain_D"])
def test_a_changed_input(which):
    def f(x_RD, y_RD, bias_D, norm):
        result = residual_norm(x_RD, y_RD, bias_D, norm)
        (x_RD if which == "x_RD" else norm.gain_D)[...] = 0
        return result

    refused(f, f"changed its input {which.removeprefix('norm.')}")


def test_work_left_to_a_thread():
    threads = []

    def f(*given):
        out = tuple(np.empty((64, 256), F) for _ in range(2))
        threads.append(threading.Thread(target=lambda: (time.sleep(0.01), residual_norm(*given, out=out)), name="late"))
        threads[-1].start()
        return out

    # On a busy machine the work of the first call may be over before its result is looked at.
    still, left = "changed its result after it had returned: work was still running", "left a thread running when it"
    refused(f, rf"({still}|{left} returned \(late\))")
    for thread in threads:
        thread.join()


def test_a_thread_that_is_left():
    """Though the result is right: the work of the next call may have begun there."""
    over = threading.Event()

    def f(*given):
        threading.Thread(target=over.wait, name="next").start()
        return residual_norm(*given)

    try:
        refused(f, r"left a thread running when it returned \(next\)")
    finally:
        over.set()


@pytest.mark.parametrize("late", [0.0, 0.01])
def test_work_left_to_a_pool_that_was_there_before(late):
    """Their number is the same before and after: the result changes behind the return."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(time.sleep, 0).result()

        def f(*given):
            out = tuple(np.zeros((64, 256), F) for _ in range(2))
            pool.submit(lambda: (time.sleep(0.001 + late), residual_norm(*given, out=out)))
            return out

        refused(f, "changed its result after it had returned: work was still running")


def test_a_result_that_computes_when_it_is_read():
    class Lazy(np.ndarray):
        pass

    refused(lambda *given: tuple(a.view(Lazy) for a in residual_norm(*given)), "returned a Lazy and no NumPy array")


def test_zeros_at_the_size_that_is_timed():
    refused(lambda x_RD, *_: (np.zeros_like(x_RD), np.zeros_like(x_RD)), "returned zeros in a timed call")


def test_an_old_result_where_none_was_written():
    """As what NumPy's allocator hands out again, with the last call's numbers still there."""
    old = []

    def f(*given):
        old.append(residual_norm(*given))
        return tuple(a.copy() for a in old[-2 if len(old) > 2 else -1])

    refused(f, "returned the result of an earlier call, whose input had other values")


def test_something_else_is_wrong():
    refused(lambda x, y, bias, norm: (x + y, x - y), "was wrong in a timed call")
    refused(lambda x, y, bias, norm: x + y, "returned 1 results in a timed call, where 2 are due")
    refused(lambda x, y, bias, norm: 1 / 0, "raised ZeroDivisionError: division by zero")
    refused(lambda scores, *_: scores, "returned zeros|was wrong", values=values_of_ngram)


@pytest.mark.parametrize("bits", ["float16", "bfloat16"])
def test_arithmetic_in_fewer_bits(bits):
    def narrow(a):
        if bits == "float16":
            return a.astype(np.float16).astype(F)
        return (a.view(np.uint32) & np.uint32(0xFFFF0000)).view(F)

    def f(x_RD, y_RD, bias_D, norm):
        return tuple(narrow(a) for a in residual_norm(narrow(x_RD), narrow(y_RD), bias_D, norm))

    refused(f, r"was off by \d+ times what float32 allows in a timed call: it computes in fewer bits")


def test_a_timer_that_was_replaced(tmp_path, monkeypatch):
    """Ours is taken before the file runs; so the time is right, and the function is refused for what it tried."""
    mine = tmp_path / "mine.py"
    mine.write_text(
        "import time\nfrom minidecode.reference.norm import residual_norm as f\ntime.perf_counter = lambda: 0.0\n"
    )
    monkeypatch.setattr(time, "perf_counter", time.perf_counter)  # and back at the end
    with pytest.raises(md.RefusedError, match=r"^mine.py:f replaced time.perf_counter, by which it is timed"):
        md.compare("norm", functions=[f"{mine}:f"], repeats=1)


def test_a_timer_that_is_replaced_when_the_function_first_runs(monkeypatch):
    def stops_the_clock(*arguments, **named):
        time.perf_counter = lambda: 0.0
        return ban_ngrams(*arguments, **named)

    monkeypatch.setattr(time, "perf_counter", time.perf_counter)  # put back afterwards
    with pytest.raises(md.RefusedError, match=r"replaced time.perf_counter, by which it is timed"):
        md.compare("ngram", functions=[stops_the_clock], repeats=1)


def test_what_is_timed_of_the_ngram_ban_bans_a_token_in_each_row():
    for seed in (0, 1, 7):
        (scores_RV, tokens_RM, length_R, n), _ = row_module("ngram").make_paper_inputs(seed=seed)
        banned_RV = np.isneginf(ban_ngrams(scores_RV.copy(), tokens_RM, length_R, n))
        assert (banned_RV.sum(axis=1) >= 1).all()


@pytest.mark.parametrize(
    "module, name", [(np, "array_equal"), (verified, "_distance_from_right"), (threading, "enumerate")]
)
def test_what_compares_was_replaced(monkeypatch, module, name):
    watched = Watched(CATALOG["norm"])
    watched.refuse_replaced("mine.py:f")
    monkeypatch.setattr(module, name, lambda *_: True)
    with pytest.raises(md.RefusedError, match=f"replaced {module.__name__}.{name}"):
        watched.refuse_replaced("mine.py:f")


def test_a_timer_that_was_replaced_before(monkeypatch):
    monkeypatch.setattr(time, "perf_counter_ns", lambda: 0)
    with pytest.raises(md.RefusedError, match=r"replaced time.perf_counter_ns"):
        Watched(CATALOG["norm"]).refuse_replaced("mine.py:f")


def test_a_time_that_no_machine_reaches():
    """Whatever made it look so: a clock that stands still, work that was never there."""
    row, values, ticks = CATALOG["norm"], values_of_norm(0), iter(range(10**6))
    cost, submission = row.cost(*values), Submission(row, "mine.py:f", residual_norm)
    machine = Machine("this", 1e9, 1e9, "measured now")
    seconds = submit(residual_norm, clock=lambda: next(ticks) * 1e-10)
    with pytest.raises(md.RefusedError, match=r"took 0\.0 us, where no machine with \d+ cores moves these bytes"):
        submission.refuse_impossible(max(seconds), cost, machine)
    submission.refuse_impossible(min(submit(residual_norm)), cost, machine)
    with pytest.raises(md.RefusedError, match="the time cannot be right"):
        submission.refuse_impossible(1e-3, Cost(0, 10**15), machine)


def test_a_time_above_the_measured_roofline_is_an_alarm_and_no_refusal():
    """Arrays may lie in a cache, and the machine may have been busy while it was measured."""
    machine, cost = Machine("this", 1e9, 1e9, "measured now"), Cost(10**6, 10**3)
    assert roofline_alarm("mine.py:f", 1.1e-3, cost, machine) is None
    assert roofline_alarm("mine.py:f", 0.5e-3, cost, machine).startswith(
        "alarm: mine.py:f reaches 200% of the roofline: "
    )


@pytest.mark.parametrize("name", CATALOG)
def test_each_row_has_other_values_of_the_same_shapes(name):
    first, second = (row_module(name).make_paper_inputs(seed=n)[0] for n in (1, 2))
    arrays = [[array for _, array in arrays_of(CATALOG[name], v)] for v in (first, second)]
    assert [(a.shape, a.dtype) for a in arrays[0]] == [(a.shape, a.dtype) for a in arrays[1]]
    assert any(not np.array_equal(a, b) for a, b in zip(*arrays, strict=True))


def test_arrays_stay_where_they_are_and_get_the_fresh_values():
    first, second = values_of_norm(0), values_of_norm(1)
    given = copy_into(None, first)
    x_RD, gain_D = given[0], given[3].gain_D
    assert x_RD is not first[0]
    given = copy_into(given, second)
    assert given[0] is x_RD and given[3].gain_D is gain_D and np.array_equal(x_RD, second[0])
    both = copy_into(None, (x_RD, x_RD))
    assert both[0] is both[1]


@pytest.mark.parametrize("row", CATALOG.values(), ids=lambda row: row.name)
def test_no_constant_is_right_for_the_values_of_two_turns(row):
    """Each output of each row is another one, by more than is allowed: also flags, and what is in trouble."""
    answers = []
    for seed in (1, 2):
        given, _ = row_module(row.name).make_paper_inputs(seed=seed)
        answers.append(results_with_changed(row, implementations(row)["reference"](*given), given))
    names = (*ops.RETURNS[row.op], *changed_but_not_returned(row))
    assert not [
        name
        for name, first, second in zip(names, *answers, strict=True)
        if _distance_from_right(first, second, row.contract) <= 1
    ]


def stolen(due):
    """The answer, if a frame on the stack holds it: an array that `due` says is as it must be, and is no argument."""
    frame = sys._getframe(1)
    while frame := frame.f_back:
        for value in frame.f_locals.values():
            for each in value if isinstance(value, (list, tuple, deque)) else [value]:
                for array in each if isinstance(each, tuple) else [each]:
                    if isinstance(array, np.ndarray) and due(array):
                        return array.copy()
    return None


@pytest.mark.parametrize("ours", [{}, {"reference": ban_ngrams}], ids=["alone", "beside ours"])
def test_a_result_read_in_the_frame_of_whoever_calls(ours):
    """Three turns suffice: whichever runs first in a turn, the answer must not lie where the other one looks."""

    def f(scores_RV, *rest):
        kept = np.isneginf(scores_RV)
        found = stolen(lambda a: a.shape == scores_RV.shape and a.dtype == F and (np.isneginf(a) != kept).any())
        if found is not None:
            scores_RV[...] = found
        return scores_RV

    def calls(arguments):
        return {label: (function, arguments) for label, function in ours.items()}

    with pytest.raises(md.RefusedError, match=r"returned zeros|was wrong in a timed call"):
        time_verified(CATALOG["ngram"], calls, {"mine.py:f": f}, values_of_ngram, 3)


def test_our_results_are_wiped_before_another_function_runs():
    """NumPy hands out the same memory again: who returns it as it is would be right."""
    seen = []

    def keeps(*given):
        seen.append(residual_norm(*given))
        return seen[-1]

    def calls(arguments):
        return {"reference": (keeps, arguments)}

    time_verified(CATALOG["norm"], calls, {"mine.py:f": residual_norm}, values_of_norm, 1)
    assert seen and not any(np.any(array) for result in seen for array in result)


def test_functions_have_names_of_their_own(tmp_path):
    assert list(functions_by_label([ban_ngrams])) == ["minidecode.reference.ngram.ban_ngrams"]
    with pytest.raises(md.OptionError, match="is given twice"):
        functions_by_label([ban_ngrams, ban_ngrams])


def test_compare_times_a_function_beside_ours(cli, tmp_path):
    """By its file; one that is wrong is told before ours are checked."""
    mine, wrong = tmp_path / "mine.py", tmp_path / "wrong.py"
    mine.write_text("from minidecode.reference.gather import gather_logprobs as f\n")
    wrong.write_text("def f(token_R, scores_RV, logprobs_RV=None, out=None):\n    return None\n")
    ran = cli("compare", "gather", f"{mine}:f", "--repeats", 2, "--json", "-q")
    *ours, timing = json.loads(ran.out)["timings"]
    assert ran.code == 0 and timing["implementation"] == "mine.py:f" and timing["median"] > 0 and len(ours) == 2
    ran = cli("compare", "gather", f"{wrong}:f", "--repeats", 2, "-q")
    assert ran.code == 1 and ran.out == "" and "wrong.py:f is wrong, so nothing is timed" in ran.err
    ran = cli("compare", "gather", f"{mine}:f", "--read", tmp_path / "x.json")
    assert ran.code == 1 and "functions has no effect with --read" in ran.err


def test_what_is_compared_in_bytes_takes_functions_too():
    """As they are; several answers are right here, and a judge looks at each."""
    found = md.compare("arena", functions=[assign_offsets], repeats=1)
    label = "minidecode.reference.arena.assign_offsets"
    assert found.timings[-1].implementation == label and found.amounts[label] == found.amounts["reference"]


def test_a_kernel_is_not_timed_in_the_emulator(tmp_path):
    mine = tmp_path / "mine.py"
    mine.write_text("from minidecode.cuda.gather import gather_logprobs as f\n")
    with pytest.raises(md.OptionError, match=r"^mine.py:f launches kernels, which run in the emulator here"):
        md.compare("gather", functions=[f"{mine}:f"], repeats=1)


def test_a_roofline_has_a_place_for_it(tmp_path):
    """Beside ours, by a marker of its own."""
    timings = [Timing(label, 1.0, 1.0, 1.0) for label in ("reference", "mine.py:f")]
    found = Comparison("norm", "2 rows", Cost(1000, 500), timings, MACHINES["v100"], [])
    (legend,) = draw_roofline({"here": [found]}).legends
    assert {"reference", "yours"} <= {text.get_text() for text in legend.get_texts()}
