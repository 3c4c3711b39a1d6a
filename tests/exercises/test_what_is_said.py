"""A mistake's name is given where what it speaks of was seen; else what was seen is said, and no name.

Each answer here is a solution with a few lines changed.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from minidecode.course.exercises.exercise import Submission
from minidecode.course.exercises.find import find


def changed(number: int, seed: int, *edits: tuple[str, str], of: str = "solution", **how):
    """The verdict on a solution, or on a wrong answer, with these texts replaced."""
    exercise = find(str(number))
    source = _without_markers(exercise.vary_source(exercise.folder() / f"{of}.py", seed))
    for old, new in edits:
        assert source.count(old) >= 1, f"{old!r} does not stand in {of}.py"
        source = source.replace(old, new)
    return exercise.task.check(Submission(Path(exercise.file_name), source), seed, **how)


def _without_markers(source: str) -> str:
    inside = ("#|", "# --- was", "# --- your turn", "# --- end")
    return "\n".join(line for line in source.splitlines() if not line.strip().startswith(inside)) + "\n"


def seeds_where(number: int, count: int = 2, **due):
    """The first seeds whose variation has these values."""
    task, found = find(str(number)).task, []
    for seed in range(1, 200):
        v = vars(task.draw_variation(seed))
        if all(v[name] == value for name, value in due.items()):
            found.append(seed)
        if len(found) == count:
            return found
    raise AssertionError(f"exercise {number} never draws {due}")


NOT_JOINED = ("    for thread in threads:\n        thread.join()\n", "")


@pytest.mark.parametrize(
    ("edits", "mistake", "said"),
    [
        ([NOT_JOINED], "not-joined", "is called by a thread when run has returned already"),
        ([("queue.Queue(ROOM), queue.Queue(ROOM * BATCH)", "queue.Queue(), queue.Queue(ROOM * BATCH)")],
         "unbounded", "lines were read and not written yet"),
        ([("write(*result)", "write(result[1], result[0])")], None, "It began with write("),
        ([("write(*result)", "pass"), ("done.put((k, result))", "write(k, result)")],
         "one-after-the-other", "write is called by the thread that called run"),
        ([("done.put(END)", "done.join()"), ("write(*result)", "write(*result); done.task_done()"), NOT_JOINED],
         None, "1 of its threads did not end"),
    ],
)  # fmt: skip
def test_a_pipeline_is_one(edits, mistake, said):
    verdict = changed(30, 3, *edits)
    assert not verdict.ok and verdict.mistake == mistake and said in verdict.message, str(verdict)
    assert "Traceback" not in str(verdict) and "child.py" not in str(verdict)


def test_what_a_thread_dies_of_is_told_in_a_line():
    verdict = changed(30, 3, ("write(*result)", "write(*result) + 1"))
    assert "in a thread: TypeError" in verdict.printed and "Traceback" not in str(verdict), str(verdict)
    verdict = changed(30, 3, ("write(*result)", "write(*result, 3)"))
    assert "TypeError: write(k, result) was called with 3 argument(s)" in verdict.printed, str(verdict)


UNNAMED = "none of the mistakes"
WAIT = "cuda.syncthreads()"
BARRIER = "        cuda.syncthreads()\n"
BOTH = "        cuda.syncthreads()\n        out[r, first + t] = tile[(t + SHIFT) % TILE]\n        cuda.syncthreads()\n"


@pytest.mark.parametrize(
    ("edits", "mistake", "said"),
    [
        ([(BOTH, BOTH[: -len(BARRIER)] + "        out[r, first + (t + 1) % TILE] += 0\n" + BARRIER)], None, "out["),
        ([(BOTH, BOTH.replace("syncthreads", "threadfence_block"))], "fence-for-a-barrier", "tile["),
        ([(BOTH, BOTH.replace("syncthreads", "syncwarp", 1))], "syncwarp-for-a-block", "tile["),
        ([(BOTH, "        out[r, first + (t - SHIFT) % TILE] = tile[t]\n")], "tile-for-oneself", "take 0 out of"),
    ],
)
def test_a_race_is_named_by_the_array_and_the_barriers_about_it(edits, mistake, said):
    verdict = changed(10, 3, *edits)
    assert verdict.mistake == mistake and said in verdict.message and UNNAMED not in verdict.message, str(verdict)
    if mistake != "tile-for-oneself":
        assert verdict.input.startswith("one of this size: out of shape (") and len(verdict.input) < 100


FILL = "    if t < N - 1:\n        last[t] = tokens_RM[r, starts + t]\n"
LOOP_END = "                banned_RV[r, tile[start + N - 1]] = 1\n        cuda.syncthreads()\n"
READ = "            tile[k] = tokens_RM[r, first + k]\n        cuda.syncthreads()\n"
INTO_REGISTERS = [
    ("last = cuda.shared.array(N, int32)", "last = cuda.local.array(N, int32)"),
    (FILL, "    for k in range(N - 1):\n        last[k] = tokens_RM[r, starts + k]\n"),
]


@pytest.mark.parametrize(
    ("edits", "mistake", "said"),
    [
        # One tile, never filled again: nothing waits before it is read.
        ([(READ, READ.replace(WAIT, "pass"))], "no-barrier", "tile["),
        # What is missing is for the student to find: the remedy of the emulator's report is left out.
        ([(READ, READ.replace(WAIT, "pass"))], "no-barrier", "no barrier between. A right answer is luck"),
        # The other array, filled after the barrier.
        ([(FILL, ""), (READ, READ + FILL.replace("    ", "        ", 1).replace("\n        l", "\n            l"))],
         "no-barrier", "last["),
        # Threads that leave before they have filled.
        ([(FILL, "    if t >= 2:\n        return\n" + FILL)], None, "tile[2] is read"),
        # Shared arrays that are too large, but no whole row.
        ([("HELD = ROOM - N", "HELD = 2 * ROOM - N")], None, "ROOM ="),
        # The whole row into an array of ROOM numbers.
        ([("TILE = ROOM - 2 * N", "TILE = 4096")], "whole-row-in-shared", "has room for"),
        # A tile without room for its halo, which is no whole row.
        ([("TILE = ROOM - 2 * N", "TILE = ROOM - N - 1")], None, "has room for"),
        # A barrier between these lines that nobody comes by.
        ([(READ, READ.replace(WAIT, "if length < 0:\n            cuda.syncthreads()"))], "no-barrier", "tile["),
        # One barrier, at the loop's beginning: between reading and refilling, and none before the reading.
        ([(READ, READ.replace(WAIT, "pass")), (LOOP_END, LOOP_END.replace(WAIT, "pass")),
          ("        here = min(", "        cuda.syncthreads()\n        here = min(")], "no-barrier", "tile["),
        (INTO_REGISTERS, None, "loads"),
        ([("THREADS = 64", "THREADS = 32")], None, "This variation has THREADS = 64"),
        ([("]] = 1\n", "]] = 4\n")], None, "4 stands there, and 1 is right"),
    ],
)  # fmt: skip
def test_loads_and_barriers_are_named_by_what_they_concern(edits, mistake, said):
    seed = seeds_where(17, 1, threads=64, n=3)[0]
    verdict = changed(17, seed, *edits)
    assert not verdict.ok and verdict.mistake == mistake and said in verdict.message, str(verdict)
    assert (UNNAMED in verdict.message) == ("4 stands there" in said)


def test_a_barrier_that_some_threads_skip_is_told_without_the_remedy():
    verdict = changed(17, 3, (READ, "            tile[k] = tokens_RM[r, first + k]\n            cuda.syncthreads()\n"))
    assert "wait at different barriers: threads 0" in verdict.message and "`if`" not in verdict.message, str(verdict)


def test_a_search_says_what_was_ranked_and_names_what_it_saw():
    many = [("reshape(-1, C).T", "reshape(-1, 2 * C).T"), ("reshape(C, -1)", "reshape(2 * C, -1)")]
    for seed in (1, 2):
        verdict = changed(27, seed, *many, hidden=9)
        assert verdict.ok or verdict.mistake in (None, "only-public-inputs"), str(verdict)
        verdict = changed(27, seed, ("rank(score_X[lot])", "np.argsort(-score_X[lot])"))
        assert "ranks without `rank`" in verdict.message and UNNAMED not in verdict.message
        verdict = changed(27, seed, ("return score_BC, index_BC", "return index_BC, score_BC"))
        assert "score_BC holds int64 where floating-point numbers are due" in verdict.message


def predicted(number, seed, **values):
    exercise = find(str(number))
    source = exercise.start(seed)
    for name, value in values.items():
        source = source.replace(f"{name} = None", f"{name} = {value}")
    return exercise.task.check(Submission(Path(exercise.file_name), source), seed)


def test_lines_that_have_nothing_to_do_with_each_other_are_judged_each_for_itself():
    seed = seeds_where(13, 1, width=4, stride=5, size=8, share=4)[0]
    right = find("13").task.expected_outputs(find("13").task.draw_variation(seed))
    verdict = predicted(13, seed, NEIGHBOURS=4, APART=32, SHARED=2)
    assert verdict.mistake == "alignment-forgotten" and UNNAMED not in verdict.message, str(verdict)
    assert 'NEIGHBOURS is what "alignment forgotten"' in verdict.message and "factor" not in verdict.message
    assert 'APART is what "one per lane"' in verdict.message and "SHARED is what" in verdict.message
    verdict = predicted(13, seed, NEIGHBOURS=4, APART=right["APART"], SHARED=77)
    assert verdict.mistake is None and "SHARED is none of the mistakes" in verdict.message
    assert 'NEIGHBOURS is what "alignment forgotten"' in verdict.message


def test_other_variations_have_other_sectors():
    task = find("13").task
    found = [task.expected_outputs(task.draw_variation(seed)) for seed in range(10)]
    assert all(len({one[name] for one in found}) > 2 for name in ("NEIGHBOURS", "APART", "SHARED"))


TWICE = "[:, : 2 * W]"
RETURN = "return parent_BW, token_BW, score_BW, finished_BC"
INTO_ROOM = ("np.where(finishes_BC", "np.full((B, 2 * W), -np.inf)\n    finished_BC[:] = np.where(finishes_BC")


@pytest.mark.parametrize(
    ("edits", "mistake", "said"),
    [
        ([(RETURN, "return parent_BW, token_BW, score_BW")], None, "4 results are due, and 3 came back"),
        ([(RETURN, "return parent_BW, token_BW, score_BW, finished_BC[:, :W]")], None, "finished_BC has the shape"),
        # W candidates, and the shapes of what is returned made right in one way or the other.
        ([(TWICE, "[:, :W]"), ("np.arange(2 * W) < W", "True")], "w-candidates", "finished_BC has the shape"),
        ([(TWICE, "[:, :W]"), ("np.arange(2 * W) < W", "True"),
          (RETURN, "ended_BW = token_BW == EOS; score_BW[ended_BW] = -np.inf; parent_BW[ended_BW] = 0; "
           "token_BW[ended_BW] = 0; finished_BC = np.pad(finished_BC, ((0, 0), (0, W)), constant_values=-np.inf)\n"
           "    " + RETURN)], "w-candidates", "right is"),
        ([(TWICE, "[:, :W]")], "w-candidates", "best_BC is (1, 2), score_BC is (1, 2)"),
        ([(TWICE, "[:, :W]"), ("ends_BC & (np.arange(2 * W) < W)", "ends_BC"), INTO_ROOM], "w-candidates", "to run on"),
        # 2W candidates, and a shape that is wrong for another reason.
        ([("(np.arange(2 * W) < W)", "(np.arange(W) < W)")], None, "ends_BC is (1, 4). Of the 2 best"),
        ([('PARENTS == "in batch"', "False")], "parents-counted-otherwise", "parent_BW[1, 0]"),
    ],
)  # fmt: skip
def test_a_beam_step_is_named_by_what_it_gives(edits, mistake, said):
    for seed in seeds_where(6, 2, parents="in batch"):
        verdict = changed(6, seed, *edits)
        assert not verdict.ok and verdict.mistake == mistake and said in verdict.message, str(verdict)


def test_results_are_counted_without_what_is_changed_in_place():
    verdict = changed(20, 1, ("return tokens_WT, score_W, source_WT", "return tokens_WT"))
    assert "3 results are due, and 1 came back" in verdict.message, str(verdict)


def test_a_file_of_predictions_that_raises_says_its_line():
    verdict = predicted(2, 1, BYTES_PER_TOKEN="LAYERS * WIDHT")
    line = find("2").start(1).splitlines().index("BYTES_PER_TOKEN = None") + 1
    assert verdict.message.startswith(f"line {line}: NameError: name 'WIDHT' is not defined"), str(verdict)


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (("def ban(", "def my_ban("), "there is no function ban in 16_ngram_kernel.py: it is the kernel"),
        (("@cuda.jit\n", ""), ": ban is a function and no kernel yet: above a kernel stands @cuda.jit alone"),
        (("@cuda.jit\n", "@cuda.jit(debug=True)\n"), ": ban is a function and no kernel yet"),
        (("from numba import cuda\n", ""), "and at the file's top `from numba import cuda`"),
    ],
    ids=["another-name", "no-decorator", "options", "no-import"],
)
def test_where_no_kernel_is_found_it_is_said_what_was(edit, said):
    verdict = changed(16, 1, edit)
    assert verdict.mistake == "cannot-run" and said in verdict.message, str(verdict)
