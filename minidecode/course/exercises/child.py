"""The process in which a student's NumPy code runs. It gets inputs and gives outputs; it has no minidecode.

Run as a script, by `sandbox.py`, with Python's -I and -S. What the limits do here they do before the first line of
foreign code runs: limits of the system (`lock.py`, where it is Linux), which cannot be taken back from inside, and an
audit hook of Python, which says in words what is refused and is all there is elsewhere.
"""

from __future__ import annotations

import builtins
import importlib.util
import io
import numbers
import os
import sys
import threading
import time
from types import SimpleNamespace

WORD_BYTES = 16
MOST_ARRAYS = 20  # that are reported, where code raised
NAMES = 2**18  # more strings than Python interns before it enlarges their table
LARGE = 100_000  # bytes of an object, such as a bytearray, that an array may be made over
GRACE = 0.2  # seconds for threads that are about to end when the function returns
REFUSED = (
    "os.exec", "os.fork", "os.forkpty", "os.kill", "os.killpg", "os.posix_spawn", "os.spawn", "os.startfile",
    "os.system", "os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.link", "os.symlink", "os.chmod", "os.chown",
    "os.truncate", "os.putenv", "os.unsetenv", "os.chdir", "os.add_dll_directory", "subprocess.", "socket.", "ctypes.",
    "shutil.", "tempfile.", "winreg.", "msvcrt.", "pty.", "fcntl.", "resource.", "syslog.", "urllib.", "http.",
    "ftplib.", "smtplib.", "gc.get_", "sys.set", "sys.addaudithook", "code.__new__", "mmap.", "webbrowser.", "signal.",
    "sys._current_", "sys.monitoring", "_winapi.", "cpython.run_", "sqlite3.", "os.utime", "os.setxattr",
    "os.removexattr", "os.lockf",
)  # fmt: skip
MEASURING = ("tracemalloc", "_tracemalloc")  # it counts the bytes of a call, and can reset the count
LOOKING = ("os.listdir", "os.scandir", "os.walk", "os.fwalk", "glob.glob", "pathlib.Path.glob")


def main(serves=lambda: Student) -> None:
    """serves: gives the class that answers; called while everything can still be imported."""
    numpy_home, root, forbidden, memory = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
    questions, answers = _keep_channel_to_judge()
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:0] = [here, numpy_home]
    import _tracemalloc

    import lock
    import numpy
    import numpy.lib.stride_tricks
    import wire

    kind = serves()
    for place in (here, numpy_home):
        sys.path.remove(place)
    for name in MEASURING:
        sys.modules.pop(name, None)  # to be imported anew, which the hook refuses
    if root:
        sys.path.insert(0, root)
    sys.dont_write_bytecode = True
    word = questions.read(WORD_BYTES)
    _limit_resources(memory)
    inside = [os.path.dirname(os.__file__), os.path.dirname(numpy.__file__), root]
    more, closed = [os.path.dirname(numpy.__file__) + ".libs"], forbidden.split(os.pathsep)
    held = lock.lock_process([folder for folder in [*inside, *more] if os.path.isdir(folder)], closed)
    _forbid_access(inside, more, closed)
    serve = kind(wire, numpy, _tracemalloc, questions, answers, word, held)
    while True:
        try:
            question = wire.read_message(questions, word)
        except EOFError:
            os._exit(0)
        wire.write_message(answers, word, serve.answer(question))


def _keep_channel_to_judge() -> tuple[io.BufferedReader, io.BufferedWriter]:
    """The pipe to the judge, kept apart from what print() and input() use."""
    questions, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    sys.stderr.reconfigure(encoding="utf-8", errors="replace")
    sys.stdout = sys.stderr
    return questions, answers


def _limit_resources(memory: int) -> None:
    """What POSIX can hold a process to; elsewhere the judge watches from outside."""
    try:
        import resource
    except ImportError:
        return
    wanted = {"RLIMIT_AS": memory, "RLIMIT_FSIZE": 0, "RLIMIT_CORE": 0, "RLIMIT_NOFILE": 64, "RLIMIT_CPU": 120}
    for name, most in wanted.items():
        try:
            _, hard = resource.getrlimit(getattr(resource, name))
            most = most if hard == resource.RLIM_INFINITY else min(most, hard)
            resource.setrlimit(getattr(resource, name), (most, most))
        except (AttributeError, ValueError, OSError):
            continue  # sandbox.limits_in_words() says which of them this system has


def _forbid_access(folders: list[str], more: list[str], forbidden: list[str]) -> None:
    """Makes Python refuse files, processes and the network to all code that runs in this process.

    That code may patch what it likes, and sees the frame of what refuses it. So the hook calls nothing that can be
    patched, hands no one a path of his own making, and has all that it needs as defaults, which no frame leads to.
    """
    real, separator = _copy_realpath(), os.sep
    allowed = tuple(real(f) + separator for f in [*folders, *more] if f)
    numpys = tuple(real(f) + separator for f in [folders[1], *more])
    closed = tuple(real(f) + separator for f in forbidden if f)
    dlls = os.path.join(sys.base_exec_prefix, "DLLs")  # where Windows has Python's compiled modules
    pythons = tuple(real(f) + separator for f in [*folders[:2], *more, dlls])
    writing = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
    coding = sys.getfilesystemencoding(), sys.getfilesystemencodeerrors()

    def may_read(path, below, *, real=real, end=separator, numpys=numpys, closed=closed, coding=coding, type=type,
                 text=str, raw=bytes) -> bool:  # fmt: skip
        if type(path) is raw:
            path = path.decode(*coding)
        elif type(path) is not text:
            return False
        place = real(path) + end
        if place.startswith(numpys):
            return True
        if place.startswith(closed) or "site-packages" in place or "dist-packages" in place:
            return False
        return place.startswith(below)

    def refuse_forbidden_event(event, arguments, *, may_read=may_read, allowed=allowed, pythons=pythons,
             looking=LOOKING, refused=REFUSED, measuring=MEASURING, writing=writing, letters=frozenset("wax+"),
             type=type, text=str, number=int, wrong=BaseException, error=PermissionError) -> None:  # fmt: skip
        why = None
        try:
            if event == "open":
                path, mode, flags = arguments
                if type(path) is number:
                    pass  # it is open already
                elif (type(flags) is number and flags & writing) or (
                    type(mode) is text and not letters.isdisjoint(mode)
                ):
                    why = "an exercise writes no files"
                elif not may_read(path, allowed):
                    why = f"an exercise reads no files: {path}" if type(path) is text else "an exercise reads no files"
            elif event in looking:
                if not (arguments and arguments[0] is not None and may_read(arguments[0], allowed)):
                    why = "an exercise does not look around on the disk"
            elif event == "import":
                is_compiled = arguments[1] is not None
                if arguments[0] in measuring or (is_compiled and not may_read(arguments[1], pythons)):
                    why = f"an exercise does not need {arguments[0]}"
            elif event.startswith(refused):
                why = f"an exercise does not need {event}"
        except wrong:
            why = "an exercise reads no files"
        may_read = None  # who catches what follows sees this frame
        if why is not None:
            raise error(why)

    sys.addaudithook(refuse_forbidden_event)


def _copy_realpath():
    """`os.path.realpath` with all that it calls, copied: what is patched later is not what the hook asks."""
    spec = importlib.util.find_spec(os.path.__name__)
    copy = importlib.util.module_from_spec(spec)
    copy.__dict__["__builtins__"] = dict(vars(builtins))
    spec.loader.exec_module(copy)
    for name, value in list(vars(copy).items()):
        if isinstance(value, type(os)):
            setattr(copy, name, SimpleNamespace(**vars(value)))
    return copy.realpath


class Student:
    """Loads the student's file and calls its functions."""

    def __init__(self, wire, numpy, memory, questions, answers, word, held):
        self._wire, self._numpy, self._memory, self._word, self._held = wire, numpy, memory, word, held
        self._questions, self._answers = questions, answers
        self._names: dict = {}
        self._file = ""
        self._kept = 0  # bytes of arrays that the file and its earlier calls hold on to, where they are counted
        self._one_asks, self._is_called = threading.Lock(), False  # the student's code may have threads
        self._held_inputs: tuple | None = None  # with copies of them, where they came ahead of the call
        self._callers: list = []  # the thread of each call of a callback
        self._time_limit_message: list = []  # callbacks that a thread called when the function had returned
        threading.excepthook = self._thread_raised

    def answer(self, question: dict) -> dict:
        try:
            return getattr(self, "do_" + question["do"])(**question["with"])
        except BaseException as error:
            return {"error": self._error_record(error)}

    def do_limits(self) -> dict:
        return {"held": self._held}

    def do_load(self, source: str, file: str, package: str, measure: bool) -> dict:
        self._file = file
        module = type(sys)("submission")
        module.__file__, module.__package__ = file, package
        sys.modules["submission"] = module
        if package:
            __import__(package)
        self._names = module.__dict__
        if measure:
            self._memory.start()
            self._enlarge_table_of_names()
            self._memory.clear_traces()
        exec(compile(source, file, "exec"), self._names)
        if measure:
            self._kept = self._bytes_of_arrays()
        return {"ok": True}

    def _enlarge_table_of_names(self) -> None:
        """Makes Python enlarge its table of interned strings now, so that it has room for the file's names.

        Python does so when the entries are used up, and those of deleted strings count. At one of the file's own names
        it would take hundreds of kilobytes, which count as arrays of the file.
        """
        for number in range(NAMES):
            self._memory.reset_peak()
            before = self._memory.get_traced_memory()[0]
            sys.intern(f"name {number}")
            if self._memory.get_traced_memory()[1] - before > LARGE:
                return

    def do_constants(self, names: list) -> dict:
        return {"values": [self._check_number(self._names.get(name)) for name in names]}

    def _check_number(self, value):
        if isinstance(value, self._numpy.generic):
            value = value.item()
        if isinstance(value, numbers.Rational) and not isinstance(value, int):  # a fraction
            value = int(value) if value.denominator == 1 else float(value)
        return value if isinstance(value, int | float | str | list | tuple | type(None)) else repr(value)[:80]

    def do_hold(self, arguments: list) -> dict:
        """Takes inputs for the next call, so that what the process grows by in it is the call's alone."""
        given = [self._make_callback(a) if isinstance(a, self._wire.Callback) else a for a in arguments]
        self._held_inputs = given, [a.copy() if isinstance(a, self._numpy.ndarray) else None for a in given]
        return {"ok": True}

    def do_call(self, function: str, arguments: list | None, changes: list, measure: bool) -> dict:
        callee = self._names.get(function)
        if not callable(callee):
            return {"missing": True}
        if arguments is not None:
            self.do_hold(arguments)
        (given, before), self._held_inputs = self._held_inputs, None
        peak = None
        if measure:
            began, held = self._memory.get_traced_memory()[0], self._bytes_of_arrays()  # with the inputs
            self._memory.reset_peak()
        self._callers, self._time_limit_message, others = [threading.current_thread()], [], set(threading.enumerate())
        self._is_called = True
        try:
            result = callee(*given)
        finally:
            with self._one_asks:
                self._is_called = False
        left = self._wait_and_count_running(set(threading.enumerate()) - others)
        if measure:
            peak = self._memory.get_traced_memory()[1] - began + self._kept
            self._kept = max(0, self._kept + self._bytes_of_arrays() - held - self._bytes_of(result))
        changed = [k for k, b in enumerate(before) if b is not None and not self._is_unchanged(b, given[k])]
        after = {str(k): given[k] for k in changes}
        self._wire.pack_message(result)  # told as a mistake of the student's, if it cannot be sent
        distinct = list(dict.fromkeys(self._callers))
        return {
            "result": result,
            "changed": changed,
            "after": after,
            "peak": peak,
            "late": list(self._time_limit_message),
            "left": left,
            "callers": [distinct.index(thread) for thread in self._callers[1:]],
        }

    def _bytes_of_arrays(self) -> int:
        """The bytes of all arrays that were made since the file was read, and of what else is so large that it may
        serve as one.
        """
        numpys = self._numpy.lib.tracemalloc_domain
        return sum(size for domain, size, *_ in self._memory._get_traces() if domain == numpys or size >= LARGE)

    def _bytes_of(self, result) -> int:
        several = result if isinstance(result, tuple | list) else (result,)
        return sum(a.nbytes for a in several if isinstance(a, self._numpy.ndarray))

    def _wait_and_count_running(self, threads) -> int:
        """How many of them are still there after a moment; one that calls back now is noted as late."""
        end = time.monotonic() + GRACE
        for thread in threads:
            thread.join(max(0.0, end - time.monotonic()))
        return sum(thread.is_alive() for thread in threads)

    def _is_unchanged(self, before, after) -> bool:
        if before.shape != after.shape or before.dtype != after.dtype:
            return False
        one, two = before.reshape(-1), after.reshape(-1)
        pieces = (slice(k, k + LARGE) for k in range(0, one.size, LARGE))  # a whole copy would count as the call's
        return all(one[piece].tobytes() == two[piece].tobytes() for piece in pieces)

    def _make_callback(self, callback):
        """A function of the judge's: it computes and counts on its side of the pipe."""
        name, stalled = callback.name, []

        def ask_judge(*arguments, **named):
            for parameter in callback.parameters[len(arguments) :]:
                if parameter not in named:
                    break
                arguments = (*arguments, named.pop(parameter))
            if named:
                raise TypeError(f"{name}() got an unexpected keyword argument {next(iter(named))!r}")
            with self._one_asks:
                if not self._is_called:
                    self._time_limit_message.append(name)
                    raise ValueError(f"{name} is called by a thread when the function has returned already")
                self._callers.append(threading.current_thread())
                reply = self._ask_and_read_reply(name, *arguments)
            if callback.stall and not stalled:
                stalled.append(True)
                self._wait_for_silence(callback.stall)
            if "error" in reply:
                kind = getattr(builtins, reply["error"]["type"], ValueError)  # what the function raised
                raise kind(reply["error"]["message"])
            return reply["result"]

        ask_judge.__name__ = ask_judge.__qualname__ = name
        return ask_judge

    def _ask_and_read_reply(self, name: str, *arguments) -> dict:
        """What the judge answers to a question of ours."""
        self._wire.write_message(self._answers, self._word, {"ask": name, "arguments": list(arguments)})
        return self._wire.read_message(self._questions, self._word)

    def _wait_for_silence(self, seconds: float) -> None:
        """Waits until no thread has called for this long: they have come as far as they can."""
        calls = -1
        while calls != len(self._callers):
            calls = len(self._callers)
            time.sleep(seconds)

    def _thread_raised(self, args) -> None:
        """What a thread died of, in a line; the verdict reports a late call."""
        if self._is_called and args.exc_value is not None:
            record = self._error_record(args.exc_value)
            where = f"line {record['line']}, " if record["line"] else ""
            print(f"{where}in a thread: {record['type']}: {record['message']}", file=sys.stderr, flush=True)

    def _error_record(self, error: BaseException) -> dict:
        line, function, arrays, trace = None, "", {}, error.__traceback__
        while trace is not None:
            if trace.tb_frame.f_code.co_filename == self._file:
                line, function = trace.tb_lineno, trace.tb_frame.f_code.co_name
                arrays |= self._arrays_in(trace.tb_frame)
            trace = trace.tb_next
        if isinstance(error, SyntaxError) and error.filename == self._file:
            line = error.lineno
        return {"type": type(error).__name__, "message": str(error)[:300], "line": line, "function": function,
                "arrays": arrays}  # fmt: skip

    def _arrays_in(self, frame) -> dict:
        """Variable -> the dtype's kind and the shape of each array in a student's function."""
        if frame.f_code.co_name == "<module>":
            return {}
        arrays = [(n, a) for n, a in frame.f_locals.items() if type(a) is self._numpy.ndarray][:MOST_ARRAYS]
        return {name: [array.dtype.kind, *array.shape] for name, array in arrays}


if __name__ == "__main__":
    main()
