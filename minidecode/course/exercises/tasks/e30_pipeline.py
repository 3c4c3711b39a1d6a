"""Exercise 30: a pipeline that loses a line, doubles another and sometimes never ends, to be mended."""

from __future__ import annotations

from collections import Counter

import numpy as np

from ..numpy_task import NumPyTask
from ..verdict import Miss
from ..wire import Callback

BREAK = 0  # the line at which reading fails
SECONDS = 5
SILENCE = 0.4  # seconds without a call, after which all have come as far as they can while the first line is written


class Task(NumPyTask):
    function = "run"
    gives = False
    imports = ("threading", "queue")
    seconds = float(SECONDS)
    known = {
        "line-lost": "lines that do not fill a batch wait for others that never come; they are not missed, for what is"
                     " there looks right",
        "line-doubled": "a batch that failed half way is tried again from its first line, though its first lines have"
                        " been handed on: the output has more lines than the input",
        "deadlock": "one thread waits for what another would have to send, and that one has gone, or waits as well: no"
                    " error, no output, no end",
        "batch-lost": "one line that cannot be done takes the others of its batch along",
        "not-joined": "`run` returns when its threads have ended, not when they have been told to end: its caller"
                      " finds the last lines missing",
        "one-after-the-other": "where one stage does another's work, the model waits for the disk, and the disk for the"
                               " model",
        "unbounded": "a queue without a bound holds whatever the fastest stage can make: a long input fills the memory",
        "out-of-order": "the k-th line of the output is taken for the answer to the k-th of the input",
    }  # fmt: skip

    def variation(self, rng):
        batch, room = int(rng.integers(3, 6)), int(rng.integers(1, 4))
        return {
            "batch": batch,
            "room": room,
            "results": batch * room,
            "limit": batch * (2 * room + 3),
            "a": rng.integers(2, 50),
            "seconds": SECONDS,
        }

    def constants(self, v):
        return {"BATCH": v.batch, "ROOM": v.room, "A": v.a}

    def cases(self, v, rng):
        """Lines: above 0 fine, below 0 no model can do them, BREAK ends the reading."""

        def draw_inputs(count, bad=(), broken=None, stall=0.0):
            line_X = rng.integers(1, 90, count)
            line_X[list(bad)] *= -1
            if broken is not None:
                line_X[broken] = BREAK
            write = Callback("write", lambda k, result: None, stall)  # the trial notes its calls
            return {"line_X": line_X, "read": Callback("read", _parse_line), "write": write}

        n = v.batch
        later = int(rng.integers(1, n))
        many = n * int(rng.integers(2 * v.room + 5, 2 * v.room + 8)) + later  # more than may be on their way
        bad = sorted({1, *rng.choice(many // n - 1, 3, replace=False) * n + n + int(rng.integers(1, n - 1))})
        return [
            draw_inputs(n), draw_inputs(n + 1), draw_inputs(2 * n, bad=[n + 1]), draw_inputs(2 * n, broken=n),
            draw_inputs(3 * n, broken=n + later), draw_inputs(many, bad=bad, stall=SILENCE),
            draw_inputs(many + n, bad=bad, broken=many - n - 1),
        ]  # fmt: skip

    def run(self, submission, v, trials, verdict):
        super().run(submission, v, trials, verdict)
        for trial in trials:
            if trial.miss and trial.miss.mistake == "time":
                asked, written = _count_calls(trial, "read"), _count_calls(trial, "write")
                message = f"in {SECONDS} seconds it asked for {asked} lines and wrote {written}, and nothing more came"
                message = f"{self._call_and_special_lines(v, trial.inputs)} does not end: {message}."
                trial.miss = Miss(message, "deadlock", {"asked": asked, "written": written})

    def find_wrong_output(self, v, trial):
        if trial.got is None:
            return None
        if trial.late:
            what = f"{trial.late[0]} is called by a thread when run has returned already"
            return Miss(f"{self._call_and_special_lines(v, trial.inputs)}: {what}.", "not-joined")
        due = dict(enumerate(self._expected_results(v, trial.inputs)))
        written = [arguments for name, arguments in trial.calls if name == "write"]
        if not all(len(a) == 2 and all(isinstance(n, int | np.integer) for n in a) for a in written):
            return Miss(f"{self.call(trial.inputs)}: write wants two integers, the line's and its result.")
        times, head = Counter(int(k) for k, _ in written), self._call_and_special_lines(v, trial.inputs)
        numbers = {"due": len(due), "written": len(written)}
        doubled, missing = [k for k in due if times[k] > 1], [k for k in due if not times[k]]
        if doubled:
            several = f" and {len(doubled) - 1} more" if len(doubled) > 1 else ""
            message = f"{head}: line {doubled[0]}{several} written {times[doubled[0]]} times"
            return Miss(
                f"{message}; {len(written)} lines were written, and {len(due)} are due.", "line-doubled", numbers
            )
        if missing:
            message = f"{head}: line {missing[0]} is never written; {len(written)} lines were, and {len(due)} are due."
            first = ", ".join(f"write({k}, {result})" for k, result in written[:3])
            message += f" It began with {first}." if written else ""
            return Miss(message, self._name_mistake_by_missing_lines(v, due, missing), numbers)
        for place, (k, result) in enumerate(written):
            if k not in due:
                message = f"{head}: write({k}, {result}) is called, and no line {k} was to be written."
                return Miss(message, None, numbers)
            if result != due[k]:
                with_bad = self._lines_in_bad_batches(v, due)
                fell = [j for j, r in written if j in due and r != due[j]]
                is_batch = result == -1 and set(fell) <= with_bad
                message = f"{head}: line {k} is written with {result}; right is {due[k]}."
                return Miss(message, "batch-lost" if is_batch else None, numbers)
            if k != place:
                return Miss(f"{head}: line {k} is written as number {place}.", "out-of-order", numbers)
        return None

    def find_excess_cost(self, v, trial):
        """All is written, and it is no pipeline: by whom it was done, and how far ahead."""
        by = {name: {c for (callee, _), c in zip(trial.calls, trial.callers, strict=False) if callee == name}
              for name in ("read", "write")}  # fmt: skip
        head, on_their_way = self._call_and_special_lines(v, trial.inputs), self._most_lines_in_flight(trial)
        for name, callers in by.items():
            if 0 in callers:
                message = (
                    f"{head}: all is written, but {name} is called by the thread that called run, which is to generate."
                )
                return Miss(message, "one-after-the-other")
        for name, callers in by.items():
            if len(callers) > 1:
                message = (
                    f"{head}: all is written, but {name} is called by {len(callers)} threads in turn; one is to do it."
                )
                return Miss(message, is_explained=True)
        if by["read"] & by["write"]:
            message = f"{head}: all is written, but one thread called both read and write."
            return Miss(message, "one-after-the-other")
        if on_their_way > v.limit:
            message = (
                f"{head}: {on_their_way} lines were read and not written yet, where writing is slow; {v.limit} are the"
            )
            return Miss(f"{message} most.", "unbounded", {"on_their_way": on_their_way, "limit": v.limit})
        if trial.left_running:
            return Miss(f"{head}: all is written, and {trial.left_running} of its threads did not end.")
        return None

    def _expected_results(self, v, inputs):
        results = []
        for line in inputs["line_X"].tolist():
            if line == BREAK:
                break
            results.append(-1 if line < 0 else line * v.a % 97)
        return results

    def _name_mistake_by_missing_lines(self, v, due, missing):
        tail = len(due) // v.batch * v.batch
        if tail < len(due) and missing == list(range(tail, len(due))):
            return "line-lost"
        return "batch-lost" if set(missing) <= self._lines_in_bad_batches(v, due) else None

    def _lines_in_bad_batches(self, v, due):
        """All lines of the batches in which there is one that cannot be done."""
        return {k for k in due for j in due if due[j] == -1 and j // v.batch == k // v.batch}

    def _call_and_special_lines(self, v, inputs):
        """The call, and what is special about its lines."""
        lines = inputs["line_X"].tolist()
        end = lines.index(BREAK) if BREAK in lines else len(lines)
        bad = [str(k) for k, line in enumerate(lines[:end]) if line < 0]
        special = [f"BATCH = {v.batch}"]
        if bad:
            special.append(f"line{'s' * (len(bad) > 1)} {', '.join(bad)} cannot be done")
        if end < len(lines):
            special.append(f"reading breaks off at line {end}")
        return f"run({len(lines)} lines; {'; '.join(special)})"

    def _most_lines_in_flight(self, trial):
        """Lines that were read and not written yet, at most."""
        ahead, most = 0, 0
        for name, _ in trial.calls:
            ahead += 1 if name == "read" else -1
            most = max(most, ahead)
        return most

    def praise(self, v, tried):
        most = max(map(self._most_lines_in_flight, tried))
        return f"This time {most} lines at the most were read and not written yet; {v.limit} may be."


def _parse_line(line):
    if line == BREAK:
        raise ValueError("the input breaks off here")
    return int(line)


def _count_calls(trial, name):
    return sum(callee == name for callee, _ in trial.calls)
