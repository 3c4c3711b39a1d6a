"""What a submission may try, and what comes of it. docs/EXERCISES.md has the threat model; each line there is a test.

None of these is a mistake that a student makes by accident: each tries to be graded as right, or to do harm.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from pathlib import Path

import pytest

from minidecode.course.exercises import sandbox
from minidecode.course.exercises.exercise import Submission
from minidecode.course.exercises.find import find

SEED = 3
NUMPY, KERNEL = find("15"), find("16")
SOLUTION = NUMPY.vary_source(NUMPY.folder() / "solution.py", SEED)
RIGHT_KERNEL = KERNEL.vary_source(KERNEL.folder() / "solution.py", SEED)


def judged(source: str, exercise=NUMPY, folder: Path | None = None, **how):
    submission = Submission(Path(exercise.file_name), source, folder)
    return exercise.task.check(submission, SEED, **how)


def honest(body: str, imports: str = "import numpy as np") -> str:
    """A submission with this body in the place of an answer."""
    lines = "\n".join(f"    {line}" for line in body.strip("\n").splitlines())
    return f"{imports}\n\n\ndef ban(tokens_RM, used_R, V):\n{lines}\n"


def fails(source: str, mistake: str | None = None, exercise=NUMPY, **how):
    verdict = judged(source, exercise, **how)
    assert not verdict.ok, "it was graded as right"
    assert "Traceback" not in str(verdict)
    if mistake:
        assert verdict.mistake == mistake, str(verdict)
    return verdict


def test_the_right_answers_of_this_file_are_right():
    """Otherwise nothing below could fail for the reason that it names."""
    assert judged(SOLUTION).ok
    assert judged(RIGHT_KERNEL, KERNEL).ok


# The reference's result


@pytest.mark.parametrize(
    "line", ["from minidecode.reference import ngram", "import minidecode.cpu.ngram", "from minidecode import *"]
)
def test_importing_the_reference_is_refused(line):
    assert "minidecode" in fails(honest("return None", line), "forbidden").message


@pytest.mark.parametrize(
    "way",
    [
        "__import__('minidecode.reference.ngram')",
        "__import__('importlib').import_module('minidecode')",
        "exec('import minidecode')",
        "m = __import__('sys'); m.path.insert(0, PLACE); __import__('minidecode')",
        "m = __import__('sys'); m.meta_path.clear(); m.path[:] = [PLACE]; __import__('minidecode.ops')",
        "exec(open(PLACE + '/minidecode/reference/ngram.py').read())",
        "exec(__import__('io').open_code(PLACE + '/minidecode/reference/ngram.py').read())",
    ],
)
def test_there_is_no_minidecode_in_the_students_process(way):
    """Whether it is caught or not: the student's code sees an exception, and can say so."""
    place = str(Path(sandbox.HERE).parents[1])
    source = honest(f"{way.replace('PLACE', repr(place))}\nreturn np.zeros((len(tokens_RM), V), bool)")
    verdict = fails(source)
    assert "raised" in verdict.message and ("PermissionError" in verdict.message or "ModuleNotFound" in verdict.message)


# Inputs


def test_a_changed_input_is_seen():
    fails(
        SOLUTION.replace("return banned_RV", "tokens_RM[0, 0] = 1 - tokens_RM[0, 0]\n    return banned_RV"),
        "mutates-input",
    )


def test_a_changed_input_cannot_be_declared_unchanged():
    """The outputs are compared with what the parent expects of the inputs that it sent."""
    fails(honest("tokens_RM[:] = 0\nused_R[:] = 0\nreturn np.zeros((len(tokens_RM), V), bool)"))


# Looking for what is expected


@pytest.mark.parametrize(
    "look",
    [
        "open('/etc/passwd')",
        "__import__('os').listdir('/')",
        "__import__('os').scandir(__import__('os').sep)",
        "__import__('glob').glob('/*')",
        "list(__import__('pathlib').Path('/').iterdir())",
        "np.load('/tmp/expected.npy')",
        "np.fromfile('/proc/self/maps', np.uint8)",
        "open('/proc/%d/mem' % __import__('os').getppid(), 'rb')",
        "__import__('ctypes').CDLL(None)",
        "__import__('gc').get_objects()",
        "__import__('socket').socket()",
        "__import__('subprocess').run(['ls'])",
        "__import__('os').system('ls')",
        "__import__('os').fork()",
        "__import__('os').kill(__import__('os').getppid(), 9)",
        "open('left_behind', 'w')",
        "__import__('os').open('left_behind', 1 | 64)",
    ],
)
@pytest.mark.skipif(os.name == "nt", reason="the paths are POSIX's")
def test_nothing_outside_of_the_process_is_in_reach(look):
    verdict = fails(honest(f"{look}\nreturn np.zeros((len(tokens_RM), V), bool)"), "forbidden")
    assert "PermissionError" in verdict.message


AROUND_THE_HOOK = {  # what Python's own functions call, or what the hook is asked about, says that all is well
    "its lists": "m = __import__('sys').modules['__main__']; m.REFUSED = m.LOOKING = ('none',)",
    "builtins": "b, old = __import__('builtins'), isinstance\n"
                "b.isinstance = lambda value, kind: kind is int or old(value, kind)",
    "os.path": "p, numpys = __import__('os').path, np.__file__\n"
               "p.realpath.__globals__['_joinrealpath'] = lambda *a, **k: (numpys, True)\n"
               "p.realpath = p.abspath = lambda path: np.__file__",
    "a text that lies": "class Place(str):\n"
                        "    def __getattribute__(self, name):\n"
                        "        mine = ('split', 'startswith', 'rfind')\n"
                        "        return getattr(np.__file__ if name in mine else '', name)\n"
                        "    def __getitem__(self, k):\n        return np.__file__[k]",
    "the frame that refuses": "try:\n    open(PLACE)\nexcept PermissionError as error:\n"
                              "    frame = error.__traceback__.tb_next.tb_frame\n"
                              "    frame.f_globals['may_read'] = frame.f_locals['may_read'] = lambda *a, **k: True\n"
                              "    frame.f_locals['refused'] = frame.f_locals['closed'] = ()",
    "functions of that frame": "try:\n    open(PLACE)\nexcept PermissionError as error:\n"
                               "    for held in error.__traceback__.tb_next.tb_frame.f_locals.values():\n"
                               "        if getattr(held, '__kwdefaults__', None):\n"
                               "            held.__kwdefaults__.update(numpys=('/',), closed=('none',))",
}  # fmt: skip


@pytest.mark.parametrize(
    "reach", ["open({place}).read()", "__import__('subprocess').run(['true'])"], ids=["read", "run"]
)
@pytest.mark.parametrize("way", AROUND_THE_HOOK)
def test_there_is_no_way_around_the_hook(way, reach):
    place = repr(str(NUMPY.folder() / "solution.py"))
    at = f"Place({place})" if "lies" in way else place
    body = f"{AROUND_THE_HOOK[way].replace('PLACE', place)}\n{reach.format(place=at)}\nraise SystemExit"
    assert "PermissionError: an exercise" in fails(honest(body), "forbidden").message, "the hook, not Linux alone"


@pytest.mark.skipif(os.name == "nt", reason="the calls are POSIX's")
@pytest.mark.parametrize(
    "call",
    ["__import__('sqlite3').connect(PLACE)", "o.utime(PLACE, (1, 1))", "o.mkfifo(PLACE + '.new')",
     "__import__('importlib.machinery').machinery.ExtensionFileLoader('x', PLACE).create_module("
     "__import__('importlib.util').util.spec_from_file_location('x', PLACE))"],
    ids=["sqlite", "utime", "mkfifo", "compiled"],
)  # fmt: skip
def test_a_neighbours_file_is_not_touched(call, tmp_path):
    """Calls that Python's list of audited events leaves out, or tells of late."""
    neighbour = tmp_path / "neighbour.so"
    neighbour.write_bytes(b"")
    before = neighbour.stat().st_mtime_ns
    fails(honest(f"o = __import__('os')\n{call.replace('PLACE', repr(str(neighbour)))}\nreturn None"), "forbidden")
    assert [f.name for f in tmp_path.iterdir()] == ["neighbour.so"] and neighbour.stat().st_mtime_ns == before


def test_the_solutions_of_a_checkout_are_not_in_reach():
    place = NUMPY.folder() / "solution.py"
    fails(honest(f"return open({str(place)!r}).read()"), "forbidden", folder=place.parents[2])


def test_nothing_that_is_expected_is_in_the_process():
    """What is sent are inputs alone: the switches of the oracle and its outputs never leave the parent."""
    sent = []
    ask = sandbox.Sandbox.ask

    def noting(self, do, **what):
        sent.append((do, set(what) - {"callbacks"}))
        return ask(self, do, **what)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sandbox.Sandbox, "ask", noting)
        assert judged(SOLUTION).ok
    assert {do for do, _ in sent} == {"load", "call"}
    assert {frozenset(names) for do, names in sent if do == "call"} == {
        frozenset({"function", "arguments", "changes", "measure"})
    }


def test_the_environment_is_not_handed_on(monkeypatch):
    monkeypatch.setenv("SECRET_OF_THE_TEACHER", "42")
    verdict = fails(honest("print(sorted(__import__('os').environ))\nreturn None"))
    assert "SECRET_OF_THE_TEACHER" not in verdict.printed and "OMP_NUM_THREADS" in verdict.printed


# Time, memory, exit


@pytest.fixture
def ended(monkeypatch):
    """Shortens the time for an answer; at the end of the test no process lives, and nothing was asked after a silence.

    So a submission takes that time once, on a machine of any speed: what is counted is questions, not seconds.
    """
    made, answered, ask = [], [], sandbox.Sandbox.ask

    def asking(self, *given, **what):
        assert False not in answered, "another question after one that had no answer"
        if self not in made:
            made.append(self)
        answered.append(False)
        reply = ask(self, *given, **what)
        answered[-1] = True
        return reply

    def within(source, mistake=None, exercise=NUMPY, limit=2.0):
        monkeypatch.setattr(sandbox, "SECONDS", limit)
        answered.clear()
        return fails(source, mistake, exercise)

    monkeypatch.setattr(sandbox.Sandbox, "ask", asking)
    yield within
    assert made and not any(box.is_alive for box in made)


@pytest.mark.parametrize(
    "loop",
    ["while True:\n    pass", "try:\n    while True:\n        pass\nfinally:\n    while True:\n        pass",
     "__import__('time').sleep(1000)", "while True:\n    print('x' * 100000)"],
)  # fmt: skip
def test_an_endless_loop_is_ended(loop, ended):
    verdict = ended(honest(loop), "time")
    assert len(verdict.printed) <= sandbox.MOST_PRINTED


def test_an_endless_loop_while_the_file_is_read_is_ended(ended):
    ended("while True:\n    pass\n", "time")


def test_seconds_of_waiting_for_a_core_are_not_counted(monkeypatch):
    """On a busy machine a right answer comes late. What the system counts as waiting is not the student's."""
    late = SOLUTION.replace("\ndef ", "\n__import__('time').sleep(1.5)\n\n\ndef ", 1)
    assert late != SOLUTION
    monkeypatch.setattr(sandbox, "SECONDS", 1.0)
    assert fails(late, "time").message
    started = time.monotonic()
    monkeypatch.setattr(sandbox, "_seconds_waited_for_a_core", lambda process: time.monotonic() - started)
    assert judged(late).ok
    monkeypatch.setattr(sandbox, "MOST_WAITED", 0.0)
    fails(late, "time")


@pytest.mark.skipif(os.name != "posix", reason="no signal stops a process there")
def test_a_process_that_is_ended_for_being_late_is_called_late(monkeypatch):
    """Even where we notice its end before its lateness, as on a machine that gives us no time."""
    with sandbox.numpy_sandbox(None, seconds=0.3) as box:
        get = box._replies.get
        monkeypatch.setattr(box._replies, "get", lambda timeout: (time.sleep(1.5), get(timeout=1))[1])
        os.kill(box._process.pid, signal.SIGSTOP)
        with pytest.raises(sandbox.Failed, match=r"no answer within 0\.3 seconds") as failed:
            box.ask("limits")
    assert failed.value.kind == "time"


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="this system does not count it")
def test_the_system_counts_the_waiting():
    with sandbox.numpy_sandbox(None) as box:
        box.ask("limits")
        assert 0 <= sandbox._seconds_waited_for_a_core(box._process.pid) < 60
    assert sandbox._seconds_waited_for_a_core(box._process.pid) == 0, "it is gone"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere memory is watched, not limited")
@pytest.mark.parametrize(
    "take", ["np.ones(100 * 2**30, np.uint8)", "bytearray(100 * 2**30)", "[bytearray(2**28) for _ in range(400)]"]
)
def test_a_hundred_gigabytes_are_not_to_be_had(take, ended):
    verdict = ended(honest(f"keep = {take}\nreturn None"), "memory", limit=20.0)
    assert "MemoryError" in verdict.message


def test_an_answer_that_is_far_too_large_is_no_forgery():
    verdict = fails(honest("return np.zeros((len(tokens_RM), 10**8), np.uint8)"), "memory")
    assert "67,108,864 are the most" in verdict.message


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere memory is watched, not limited")
def test_the_limits_cannot_be_lifted_from_inside():
    fails(honest("r = __import__('resource')\nr.setrlimit(r.RLIMIT_AS, (-1, -1))"), "forbidden")


@pytest.mark.skipif(not shutil.which("ps"), reason="memory is watched through ps, where RLIMIT_AS does not hold")
def test_memory_is_watched_where_the_system_has_no_limit(monkeypatch):
    """As on macOS, here: the limit of the system is set far away."""
    monkeypatch.setattr(sandbox, "_is_memory_watched", lambda: True)
    monkeypatch.setattr(sandbox, "MEMORY", 64 * 2**30)
    plain = sandbox.Sandbox.__init__

    def watched(self, command, **how):
        plain(self, command, **(how | {"memory": 300 * 2**20}))

    monkeypatch.setattr(sandbox.Sandbox, "__init__", watched)
    greedy = "keep = np.ones(10**8)\n__import__('time').sleep(5)\nreturn None"
    assert "more memory" in fails(honest(greedy), "memory").message
    assert "watched" in " ".join(sandbox.limits_in_words())


@pytest.mark.parametrize(
    ("leave", "mistake"),
    [("raise SystemExit(0)", "exit"), ("__import__('sys').exit(0)", "exit"), ("__import__('os')._exit(0)", "ended"),
     ("__import__('os').abort()", "ended"), ("raise KeyboardInterrupt", None)],
)  # fmt: skip
def test_leaving_is_no_answer(leave, mistake):
    fails(honest(leave), mistake)


def test_leaving_while_the_file_is_read_is_no_answer():
    fails("raise SystemExit(0)\n", "exit")


# Forged results


def test_what_is_printed_is_shown_and_not_read():
    forged = '{"result": "solved", "ok": true, "changed": [], "after": {}}'
    verdict = fails(honest(f"print({forged!r}, flush=True)\nreturn None"))
    assert forged in verdict.printed


@pytest.mark.parametrize("descriptor", range(1, 8))
def test_what_is_written_into_the_pipe_is_no_answer(descriptor):
    """A frame without the word of this process is refused; one with it would be an output, and compared as such."""
    body = (
        f"try:\n    __import__('os').write({descriptor}, b'\\x02' + bytes(7) + b'forged forged fo' + b'{{}}')\n"
        "except OSError:\n    pass\nreturn np.zeros((len(tokens_RM), V), bool)"
    )
    fails(honest(body))


@pytest.mark.parametrize(
    "reply",
    [
        "{}", "{'result': 1}", "{'error': 3}", "{'error': {'type': []}}", "[]", "{'ask': 'expected', 'arguments': []}",
        "{'ask': 3}", "{'result': [], 'changed': 'x', 'after': 0}", "{'ok': True, 'mistake': None}",
    ],
)  # fmt: skip
@pytest.mark.parametrize("loop", ["if True", "while True"])
def test_whoever_finds_the_word_can_forge_outputs_alone(reply, loop, ended):
    """The frames of our own code lead to the pipe and its word. What comes over it is still no verdict."""
    body = (
        "me = __import__('sys')._getframe(1).f_locals['self']\n"
        f"{loop}:\n    me._wire.write_message(me._answers, me._word, {reply})\n"
        "return np.zeros((len(tokens_RM), V), bool)"
    )
    ended(honest(body), limit=3.0)


@pytest.mark.parametrize(
    "value",
    ["None", "'solved'", "True", "object()", "{'ok': True}", "np.array([object()])", "[[1]]", "np.zeros((0, 0), bool)",
     "np.full((len(tokens_RM), V), np.nan)", "np.ma.masked_all((len(tokens_RM), V))", "(1, 2, 3)", "lambda: 0"],
)  # fmt: skip
def test_a_result_of_another_kind_is_wrong(value):
    fails(honest(f"return {value}"))


def test_a_result_that_says_that_it_equals_everything_is_wrong():
    body = (
        "class Yes(np.ndarray):\n    def __eq__(self, other):\n        return np.ones(self.shape, bool)\n"
        "    __ne__ = __array_ufunc__ = None\nreturn np.zeros((len(tokens_RM), V), bool).view(Yes)"
    )
    fails(honest(body))


# Kernels

TOP = "from numba import cuda\n\n"


def with_line(line: str, before: str = "") -> str:
    """The right kernel with one line more at its start."""
    head = "    r = cuda.blockIdx.x\n"
    assert head in RIGHT_KERNEL
    return before + RIGHT_KERNEL.replace(head, f"    {line}\n{head}")


@pytest.mark.parametrize(
    "line",
    [
        "tokens._length = 0", "x = tokens.data", "x = tokens.house.journal", "cuda._launch.findings.clear()",
        "cuda.__class__", "x = tokens.__class__.__mro__", "import minidecode", "x = open('/etc/passwd')",
        "x = __import__('os')", "x = getattr(tokens, 'house')", "x = (lambda: 0)()", "x = [k for k in range(3)]",
        "x = eval('1')", "x = type(tokens)", "global N", "x = vars(tokens)", "cuda.jit", "x = cuda", "del tokens",
        "x = 'a'.format(tokens)", "x = tokens.shape.__class__", "cuda.atomic._atomic(banned_RV, (0, 0), 1)",
        "x = cuda.shared._launch", "x = tokens.written",
    ],
)  # fmt: skip
def test_a_kernel_says_nothing_that_is_not_on_the_list(line):
    verdict = fails(with_line(line), "forbidden", KERNEL)
    assert verdict.message.startswith("line ")


def test_what_would_patch_the_counters_is_not_run():
    """Statements that are no constants, kernels or the named function are left out: the judge never runs them."""
    patch = (
        "import minidecode.emulator.run as run\nimport minidecode.emulator.launch as launch\n"
        "run.Run.ok = True\nrun.Run.total = lambda self, name: 0\nlaunch.Launch.findings = []\n"
        "raise SystemExit(0)\n"
    )
    assert judged(patch + RIGHT_KERNEL, KERNEL).ok  # it had no effect, and neither has it here:
    wrong = KERNEL.folder() / "wrong" / "one_block.py"
    fails(patch + KERNEL.vary_source(wrong, SEED), "one-block", KERNEL)


def test_a_transpose_cannot_lower_its_sectors_by_patching():
    transpose = find("11")
    wasteful = transpose.start(SEED)
    patch = "import minidecode.emulator.traffic as t\nt.SECTOR = 10**9\n"
    for source in (patch + wasteful, wasteful.replace("from numba", "import minidecode\nfrom numba", 1)):
        fails(source, "strided-writes", transpose)


def test_a_decorator_of_ones_own_is_no_kernel():
    fails(RIGHT_KERNEL.replace("@cuda.jit", "@print"), "cannot-run", KERNEL)
    fails(RIGHT_KERNEL.replace("@cuda.jit", "@cuda.jit(print(1))"), "cannot-run", KERNEL)


def test_an_endless_kernel_is_ended():
    """By the emulator, which says which loop it is; the limit of time stands behind it."""
    verdict = fails(with_line("k = 0\n    while k < 1:\n        k = 0"), None, KERNEL)
    by_the_clock = "no answer within"  # on a machine so busy that the emulator gets no time to lose its patience
    assert "does not come out of the loop" in verdict.message or by_the_clock in verdict.message
    assert "patience" not in verdict.message, "a student launches nothing, so has no options to give"


def test_an_endless_constant_or_launch_shape_is_ended(ended):
    huge = "BIG = 9 ** 9 ** 9 ** 9\n"
    ended(RIGHT_KERNEL.replace("from numba", f"{huge}from numba"), None, KERNEL)
    endless = RIGHT_KERNEL.replace(
        "    return rows, THREADS", "    while rows:\n        pass\n    return rows, THREADS"
    )
    ended(endless, "time", KERNEL)


def test_a_launch_of_a_billion_blocks_is_ended():
    many = with_line("if cuda.blockIdx.x >= length_R.shape[0]:\n        return")
    verdict = fails(many.replace("return rows, THREADS", "return 2**30, THREADS"), "time", KERNEL)
    assert "1,073,741,824 blocks" in verdict.message and "Error" not in verdict.message
    astray = fails(RIGHT_KERNEL.replace("return rows, THREADS", "return 2**30, THREADS"), None, KERNEL)
    assert "lies outside" in astray.message, "the block that was tried says it sooner"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere memory is watched, not limited")
def test_a_kernel_with_a_huge_local_array_is_ended(monkeypatch):
    line = "big = cuda.local.array(100000000000, int64)"
    source = with_line(line).replace("import cuda", "import cuda, int64")
    fails(source, None, KERNEL)


# Inputs that are known


def knows_the_sizes(exercise) -> str:
    """Right on the public inputs of this variation, by their shapes; nothing elsewhere."""
    v = exercise.task.draw_variation(SEED)
    shapes = {case["tokens_RM"].shape for case in exercise.task.cases(v, exercise.task.make_rng(SEED))}
    unknown = f"    if tokens_RM.shape not in {shapes!r}:\n        return np.zeros((len(tokens_RM), V), bool)\n"
    return SOLUTION.replace("    banned_RV = ", f"{unknown}    banned_RV = ")


def test_code_that_recognises_the_public_sizes_fails_on_the_teachers_inputs():
    source = knows_the_sizes(NUMPY)
    assert judged(source).ok
    verdict = fails(source, "only-public-inputs", hidden=77)
    assert verdict.input is None, "the teacher's inputs are not shown"


def test_a_kernel_that_recognises_the_public_sizes_fails_on_the_teachers_inputs():
    v = KERNEL.task.draw_variation(SEED)
    sizes = [case["tokens"].size for case in KERNEL.task.cases(v, KERNEL.task.make_rng(SEED))]
    known = " and ".join(f"tokens.size != {size}" for size in sizes)
    source = with_line(f"if {known}:\n        return")
    assert judged(source, KERNEL).ok
    fails(source, "only-public-inputs", KERNEL, hidden=77)


def test_a_prediction_cannot_look_at_the_answer():
    predict = find("2")
    source = predict.start(SEED).replace("= None", "= __import__('minidecode').exercises")
    verdict = fails(source, None, predict)
    assert verdict.score is None
