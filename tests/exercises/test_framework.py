"""What the exercises are built on, where no exercise shows it yet."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from toy import told

from minidecode.course.exercises import wire
from minidecode.course.exercises.as_code import inputs_as_code
from minidecode.course.exercises.exercise import Submission, draw_telling_input
from minidecode.course.exercises.numpy_task import NumPyTask
from minidecode.course.exercises.verdict import Miss
from minidecode.course.exercises.wire import Callback


class Doubles(NumPyTask):
    """A task with all that NumPyTask can do: a counted callback, an array changed in place, bytes measured."""

    function = "double"
    changes = ("out",)
    gives = False
    imports = ("threading",)
    measure = True
    returns = ("out",)
    known = {"adds-two": "x + 2 is 2 x for 2 alone"}  # noqa: RUF012

    def cases(self, v, rng):
        return [{"x": np.arange(n), "out": np.zeros(n, np.int64), "plus": Callback("plus", np.add)}
                for n in (32, 33, 64, 65)]  # fmt: skip

    def expected_outputs(self, v, inputs, mistake=None, ran=None):
        return inputs["x"] + (2 if mistake == "adds-two" else inputs["x"])

    def size_for_multiples(self, v, inputs):
        return len(inputs["x"])

    def find_excess_cost(self, v, trial):
        return Miss(f"{len(trial.calls)} calls; 1 is the most", "calls-twice") if len(trial.calls) > 1 else None


def judged(body: str):
    source = f"import numpy as np\n\n\ndef double(x, out, plus):\n    {body}\n"
    return Doubles().check(Submission(Path("double.py"), source), 0)


@pytest.mark.parametrize(
    ("body", "mistake"),
    [
        ("out[:] = plus(x, x)", "solved"),
        ("out[:] = plus(x, 2)", "adds-two"),
        ("plus(x, x); out[:] = plus(x, x)", "calls-twice"),
        ("n = len(x) // 32 * 32; out[:n] = 2 * x[:n]", "only-multiples-of-32"),
        ("out[:] = 2 * x; x[0] = 7", "mutates-input"),
        ("out[:] = 3 * x", None),
        ("out[:] = plus(x, 'no number')", None),
        ("pass", None),
        ("import threading; out[:] = 2 * x", "solved"),
        ("import queue; out[:] = 2 * x", "forbidden"),
    ],
)
def test_a_task(body, mistake):
    verdict = judged(body)
    assert (verdict.ok, verdict.mistake) == ((True, None) if mistake == "solved" else (False, mistake)), str(verdict)


@pytest.mark.parametrize(
    ("sizes", "body", "mistake"),
    [
        ((3, 40, 50), "out[:] = x + 2 if len(x) == 3 else x[99:]", None),
        ((3, 4, 50), "out[:] = x + 2 if len(x) < 5 else x[99:]", "adds-two"),
        ((40, 50), "out[:] = x + 2 if len(x) == 40 else x[99:]", "adds-two"),
        ((3, 40, 50), "out[:] = x[99:] if len(x) == 3 else x + 2", None),
        ((3,), "out[:] = x + 2", "adds-two"),
    ],
)
def test_a_name_needs_more_than_one_small_output_where_others_are_missing(sizes, body, mistake):
    class Sized(Doubles):
        def cases(self, v, rng):
            return [{"x": np.arange(n), "out": np.zeros(n, np.int64), "plus": Callback("plus", np.add)} for n in sizes]

    source = f"import numpy as np\n\n\ndef double(x, out, plus):\n    {body}\n"
    verdict = Sized().check(Submission(Path("double.py"), source), 0)
    assert not verdict.ok and verdict.mistake == mistake, str(verdict)
    if "raised" in verdict.message.splitlines()[0]:
        assert "none of the mistakes" not in verdict.message, "the exception says it all"


def test_an_input_is_drawn_until_it_tells_mistakes_apart():
    task, numbers = Doubles(), iter([2, 2, 5, 7])  # 2 + 2 is 2 * 2
    assert draw_telling_input(task, task.draw_variation(0), lambda: {"x": np.array([next(numbers)])})["x"] == 5
    with pytest.raises(ValueError, match="no input was drawn"):
        draw_telling_input(task, task.draw_variation(0), lambda: {"x": np.array([2])})


@pytest.mark.parametrize(
    ("array", "begins"),
    [(np.repeat(np.int32([1, 2]), [64, 3]), "np.repeat("), (np.full((2, 3), -1.5, np.float32), "np.full("),
     (np.full(3, np.nan), "np.full("), (np.array([], np.int32), "np.array("), (np.arange(30), "np.array("),
     (np.array([np.inf, np.nan, 1.0]), "np.array("), (np.arange(6).reshape(2, 3), "np.array(")],
    ids=["runs", "one-number", "nan", "empty", "all-differ", "no-numbers", "rows"],
)  # fmt: skip
def test_code_that_is_shown_makes_the_input(array, begins):
    names: dict = {}
    exec(code := inputs_as_code({"x": array, "n": 3}), names)
    assert f"x = {begins}" in code and names["n"] == 3 and names["x"].dtype == array.dtype
    np.testing.assert_array_equal(names["x"], array)


def peaks_of(source: str) -> list[int]:
    peaks = []

    class Measured(Doubles):
        def find_excess_cost(self, v, trial):
            peaks.append(trial.peak)

    assert Measured().check(Submission(Path("double.py"), source), 0).ok
    return peaks


DOUBLE = "import numpy as np\n\n\ndef double(x, out, plus):\n    big = np.ones({})\n    out[:] = 2 * x\n"


def test_bytes_are_measured():
    assert all(8e6 < peak < 9e6 for peak in peaks_of(DOUBLE.format("10**6")))


def test_python_s_own_table_of_names_is_no_memory_of_the_file():
    """At one of so many names, Python would enlarge it by 400 kB."""
    names = "\n".join(
        f"def unused{k}(x):\n    " + "; ".join(f"x.n{k}_{i}" for i in range(1000)) + "\n" for k in range(5)
    )
    assert max(peaks_of(DOUBLE.format(1) + names)) < 50_000


THREADED = """
import threading
import time


def fill(size_X, add):
    threads = [threading.Thread(target=many, args=(k, size_X, add), daemon=True) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads[:JOINED]:
        thread.join()


def many(k, size_X, add):
    for n in range(50):
        if k == 3 and n == 25:
            time.sleep(LATE)
        assert add(k, n) == k + n
"""


class Threaded(NumPyTask):
    """Answers with threads, which all call back."""

    function = "fill"
    gives = False
    imports = ("threading", "time")
    seconds = 5.0

    def cases(self, v, rng):
        return [{"size_X": np.arange(n), "add": Callback("add", lambda k, n: k + n)} for n in (1, 2)]

    def find_wrong_output(self, v, trial):
        if trial.got is not None and len({arguments for _, arguments in trial.calls}) == 200 == len(trial.calls):
            return None
        return Miss(f"{len(trial.calls)} calls; 200 are due")


@pytest.mark.parametrize(("joined", "late", "ok"), [(4, 0, True), (3, 2, False)])
def test_threads_may_call_back_while_the_function_runs(joined, late, ok):
    """One that comes later gets no answer: it would be taken for a call of the next input's."""
    source = THREADED.replace("JOINED", str(joined)).replace("LATE", str(late))
    verdict = Threaded().check(Submission(Path("fill.py"), source), 0)
    assert verdict.ok == ok, str(verdict)
    assert ok or "calls; 200 are due" in verdict.message


class Pair(NumPyTask):
    """Two numbers of a given sum: many answers are right."""

    function = "pair"

    def cases(self, v, rng):
        return [{"total": n} for n in (1, 5)]

    def find_wrong_output(self, v, trial):
        fine = isinstance(trial.got[0], np.ndarray) and trial.got[0].sum() == trial.inputs["total"]
        return None if fine else Miss(f"{self.call(trial.inputs)} gives another sum")


@pytest.mark.parametrize(("body", "ok"), [("[total - 3, 3]", True), ("[1, total]", False), ("[[1], []]", False)])
def test_where_many_answers_are_right_a_task_judges_them(body, ok):
    source = f"def pair(total):\n    return {body}\n"
    assert Pair().check(Submission(Path("pair.py"), source), 0).ok == ok


VALUES = [
    None, True, 3, -2.5, "text", [1, [2]], (1, (2, 3)), {"a": {"b": 1}}, np.arange(6).reshape(2, 3), np.float32(1.5),
    np.zeros((0, 4)), np.array([True, False]), np.array(3), np.array([1 + 2j]), float("inf"), np.zeros(3, ">i4"),
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_what_is_sent_comes_out(value):
    found = wire.unpack_message(wire.pack_message(value))
    assert type(found) is type(value)
    assert np.array_equal(found, value) if isinstance(value, np.ndarray) else found == value


@pytest.mark.parametrize("value", [object(), {1, 2}, np.array([object()]), np.array(["a"]), lambda: 0], ids=told)
def test_what_is_no_data_is_not_sent(value):
    with pytest.raises(TypeError):
        wire.pack_message(value)


@pytest.mark.parametrize(
    "text",
    [
        '{"$": "array", "dtype": "<f8", "shape": [1000000000000]}', '{"$": "array", "dtype": "|O8", "shape": [1]}',
        '{"$": "array", "dtype": "<f8", "shape": [-1]}', '{"$": "pickle"}', '{"no": 1}', "[" * 100_000, "nothing",
        '{"$": "array", "dtype": "<f8,<f8", "shape": []}', '{"$": "dict", "items": 3}', '{"$": "array"}',
        '{"$": "array", "dtype": "<f8", "shape": [2, 0, 99999999999999999999]}',
    ],
)  # fmt: skip
def test_what_is_no_message_is_refused(text):
    """Before room is made for it."""
    with pytest.raises(wire.WireError):
        wire.unpack_message(len(text).to_bytes(4, "little") + text.encode())


def test_bytes_at_random_are_refused():
    rng = np.random.default_rng(0)
    good = wire.pack_message({"result": np.arange(5.0), "changed": [1]})
    for _ in range(2000):
        bad = bytearray(good)
        for place in rng.integers(0, len(bad), 3):
            bad[place] = rng.integers(0, 256)
        try:
            wire.unpack_message(bytes(bad[: rng.integers(0, len(bad) + 1)]))
        except wire.WireError:
            continue


def test_a_frame_without_the_word_is_refused():
    pipe = io.BytesIO()
    wire.write_message(pipe, b"w" * 16, 1)
    assert wire.read_message(io.BytesIO(pipe.getvalue()), b"w" * 16) == 1
    with pytest.raises(wire.WireError, match="something else"):
        wire.read_message(io.BytesIO(pipe.getvalue()), b"x" * 16)
    with pytest.raises(EOFError):
        wire.read_message(io.BytesIO(pipe.getvalue()[:-1]), b"w" * 16)
