"""What students write on their way: no mistake's name without evidence, and the line of numbers says what was seen.

Each is a solution with an edit or two.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from minidecode.course.exercises.exercise import Submission
from minidecode.course.exercises.find import find


def judged(number: int, *edits: tuple[str, str], seed: int = 0, base: str = "solution"):
    exercise = find(str(number))
    source = exercise.vary_source(exercise.folder() / f"{base}.py", seed)
    for old, new in edits:
        assert old in source
        source = source.replace(old, new)
    return exercise.task.check(Submission(Path(exercise.file_name), source), seed)


# Exercise 1


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(
    ("guard", "mistake"),
    [
        ("y < a.shape[0] and x < a.shape[0]", "one-size-for-both"),
        ("y < a.shape[1] and x < a.shape[1]", "one-size-for-both"),
        ("y < a.shape[0] and x <= a.shape[1]", "less-or-equal"),
        ("not (y > a.shape[0] or x > a.shape[1])", "less-or-equal"),
        ("x < a.shape[1]", "guard-lets-through"),
        ("y < a.shape[0] - 1 and x < a.shape[1]", None),
        ("y < a.shape[0] + 2 and x < a.shape[1] + 1", "guard-lets-through"),
    ],
)
def test_guards(guard, mistake, seed):
    verdict = judged(1, ("y < a.shape[0] and x < a.shape[1]", guard), seed=seed)
    assert verdict.mistake == mistake and not verdict.ok, str(verdict)
    if "lies outside" in verdict.message and mistake is None:
        assert "none of the mistakes" not in verdict.message, "the index is said"


SWAPPED_GUARD = ("y < a.shape[0] and x < a.shape[1]", "x < a.shape[0] and y < a.shape[1]")
SWAPPED = {  # in the guard, in what is read, in what is written, by hand, by names
    "guard": [SWAPPED_GUARD],
    "guard that leaves": [("    if y < a.shape[0] and x < a.shape[1]:\n",
                           "    if not (y < a.shape[1] and x < a.shape[0]):\n        return\n    if True:\n")],
    "sizes": [("    if y < a.shape[0] and x < a.shape[1]",
               "    columns, rows = a.shape\n    if y < rows and x < columns")],
    "grid": [("x, y = cuda.grid(2)", "y, x = cuda.grid(2)")],
    "grid by hand": [("x, y = cuda.grid(2)", "x = cuda.blockIdx.y * cuda.blockDim.y + cuda.threadIdx.y\n    y ="
                      " cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x")],
    "places": [("out[y, x] = FACTOR * a[y, x]", "out[x, y] = FACTOR * a[x, y]")],
    "reads": [("a[y, x]", "a[x, y]")],
    "writes": [("out[y, x]", "out[x, y]")],
    "guard and writes": [SWAPPED_GUARD, ("out[y, x]", "out[x, y]")],
    "all": [SWAPPED_GUARD, ("out[y, x] = FACTOR * a[y, x]", "out[x, y] = FACTOR * a[x, y]")],
}  # fmt: skip


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("way", SWAPPED)
def test_rows_and_columns_that_have_changed_places(way, seed):
    verdict = judged(1, *SWAPPED[way], seed=seed)
    assert verdict.mistake == "axes-swapped" and "rows and columns have changed places" in verdict.message, str(verdict)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("guard", ["x <= a.shape[0] and y <= a.shape[1]", "x < a.shape[0] + 1 and y < a.shape[1]"])
def test_places_that_have_changed_beside_another_mistake_get_no_name(guard, seed):
    verdict = judged(1, (SWAPPED_GUARD[0], guard), seed=seed)
    assert verdict.mistake is None and not verdict.ok, str(verdict)


# Exercise 3


@pytest.mark.parametrize("seed", range(4))
def test_the_machine_alone_inverted_is_inverted_too(seed):
    machine = "GIGABYTES_PER_SECOND / GIGA_OPERATIONS_PER_SECOND * BYTES_PER_WEIGHT / 2"
    right = "GIGA_OPERATIONS_PER_SECOND * BYTES_PER_WEIGHT / (2 * GIGABYTES_PER_SECOND)"
    verdict = judged(3, (right, machine), seed=seed)
    assert verdict.mistake == "inverted", str(verdict)


# Exercise 5


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(
    ("edit", "mistake"),
    [
        (("(column_M >= begin_R[:, None])", "(tokens_RM != PAD)"), "mask-by-token"),
        ((" & (column_M < N)", ""), "sees-ahead"),
        (("    for step in range(steps):\n", "    for step in range(steps):\n        mask_RM[:, N + step] = True\n"),
         "sees-ahead"),
        (("FIRST + np.max", "np.max"), None),
    ],
    ids=["prompts-by-token", "all-columns", "next-column", "no-first"],
)  # fmt: skip
def test_what_is_masked_is_known_by_parts(edit, mistake, seed):
    verdict = judged(5, edit, seed=seed)
    if mistake is None and find("5").task.draw_variation(seed).first == 0:
        assert verdict.ok
    else:
        assert not verdict.ok and verdict.mistake == mistake, str(verdict)


# Exercise 14


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("name", ["x", "row"])
def test_lanes_may_begin_with_a_number_of_their_row(seed, name):
    verdict = judged(14, ("float32(-math.inf)", "x[r, 0]"), ("below_top(out, x)", f"below_top(out, {name})"),
                     ("x[r", f"{name}[r"), ("x.shape", f"{name}.shape"), seed=seed)  # fmt: skip
    assert verdict.ok, str(verdict)


def test_lanes_that_load_more_than_they_need_have_not_read_all():
    twice = ("top = max(top, x[r, k])", "top = max(top, x[r, k] + x[r, k] - x[r, k])")
    verdict = judged(14, twice)
    assert not verdict.ok and verdict.mistake is None and "loads for each" in verdict.message


# Exercise 16


@pytest.mark.parametrize("seed", range(4))
def test_rows_that_nobody_looks_at_are_not_found_by_a_wrong_stride(seed):
    verdict = judged(16, ("return rows, THREADS", "return 1, THREADS"), seed=seed)
    assert verdict.mistake is None and "No token of a row but the first" in verdict.message, str(verdict)


# Exercise 8


def test_an_atomic_into_an_output_is_not_said_to_write_nothing():
    verdict = judged(8, ("        out[r] = part[0]", "        cuda.atomic.add(out, r, part[0])"))
    assert verdict.message.startswith("total(a of shape (1, ") and "An atomic changes what is there" in verdict.message
    assert "1 places" not in verdict.message and verdict.mistake is None, str(verdict)


# Exercise 11


def test_a_barrier_that_was_passed_by_is_there():
    verdict = judged(11, ("    cuda.syncthreads()", "        cuda.syncthreads()"))
    assert "which this one passed by" in verdict.message and verdict.mistake is None, str(verdict)


def test_a_place_that_is_wrong_is_told_with_the_call():
    verdict = judged(11, ("out.shape[0]", "a.shape[0]"), ("out.shape[1]", "a.shape[1]"))
    assert verdict.message.startswith("transpose(a of shape ("), str(verdict)


# Exercise 14


def test_an_index_outside_loses_no_group():
    verdict = judged(14, ("    if r >= x.shape[0]:", "    if r < x.shape[0]:\n        out[r, lane] = x[r, lane]\n"
                          "    if r >= x.shape[0]:"))  # fmt: skip
    assert "lies outside x(1, 5)" in verdict.message and verdict.mistake is None, str(verdict)


# Exercise 26


def test_what_is_loaded_again_and_again_is_told_by_array():
    verdict = judged(26, ("length_R[r]", "length_R[r] + 0 * length_R[r] * length_R[r] * length_R[r] * length_R[r]"))
    assert verdict.mistake is None and " of length_R." in verdict.message, str(verdict)
    assert "none of the mistakes" not in verdict.message
    assert judged(26, base="wrong/reads_again").mistake == "reads-again"


# Exercise 28


def test_blocks_that_are_too_few_are_told():
    verdict = judged(28, ("(threads + THREADS - 1) // THREADS,", "1,"))
    assert "was never written" in verdict.message and "launch_shape asked for 1 block(s) of" in verdict.message


def test_a_module_that_is_not_imported_is_no_array():
    verdict = judged(28, ("(threads + THREADS - 1) // THREADS,", "np.ceil(threads / THREADS),"))
    assert verdict.mistake == "forbidden" and "np is not known there" in verdict.message, str(verdict)


# Exercise 9


def answered(**answers: str) -> str:
    """The verdict on the right answers but these, expressions over the right WITHIN and BETWEEN, and CELL."""
    return judged(9, ('BETWEEN = tuple(seen["edge"])', 'BETWEEN = tuple(seen["edge"])\nright = WITHIN, BETWEEN\n'
                      + "\n".join(f"{name} = {value}" for name, value in answers.items())), seed=4)  # fmt: skip


def test_each_answer_is_marked_and_each_mistake_named():
    program = find("9").task.draw_variation(4).program.splitlines()
    writes = next(number for number, text in enumerate(program, 1) if "edge[b + 1] =" in text)
    verdict = answered(WITHIN="()", THREADS_AT_CELL="(CELL, CELL)", BETWEEN=f"({writes}, {writes})")
    assert verdict.mistake == "order-of-lines"
    for name, mistake in (("WITHIN", "order of lines"), ("THREADS_AT_CELL", "place for thread"),
                          ("BETWEEN", "write alone")):  # fmt: skip
        assert f'\n{name} is what "{mistake}" gives' in verdict.message
        assert f"{name}: wrong, you said" in verdict.message
    assert "none of the mistakes" not in verdict.message


def test_a_right_answer_says_so_beside_a_wrong_one():
    verdict = answered(BETWEEN="(90, 91)")
    assert "WITHIN: right, it is (" in verdict.message and "BETWEEN: wrong, you said (90, 91), it is" in verdict.message
    assert verdict.mistake is None and "none of the mistakes" in verdict.message


def test_exchanged_races_are_one_mistake():
    verdict = answered(WITHIN="right[1]", BETWEEN="right[0]")
    assert verdict.mistake == "within-for-between" and verdict.message.count(" gives: ") == 1


# Exercise 23

NARROW = next(seed for seed in range(20) if find("23").task.draw_variation(seed).dtype == "float32")
DIVIDED = "            s_WN /= np.sqrt(K)\n"
PRODUCTS = [("@ w_k_XX[mine] @ h_BND[b].T", "@ w_k_XX[mine]"),
            ("p_WN @ h_BND[b] @", "np.einsum('wn,nd->wd', p_WN, h_BND[b]) @"),
            (DIVIDED, "            s_WN = np.einsum('wd,nd->wn', s_WN / np.sqrt(K), h_BND[b])\n"),
            ("np.empty((R, D), h_BND.dtype)", "np.empty((R, D), (h_BND[0, 0] / np.sqrt(K)).dtype)")]  # fmt: skip


@pytest.mark.parametrize(
    "divided",
    ["            s_WN = s_WN / np.sqrt(K)\n", "            scale = 1 / np.sqrt(K)\n            s_WN = s_WN * scale\n"],
    ids=["divided", "scaled"],
)
def test_a_root_that_widens_is_no_array_as_large_as_keys(divided):
    verdict = judged(23, (DIVIDED, divided), seed=NARROW)
    assert not verdict.ok and verdict.mistake is None, str(verdict)
    assert "With sqrt(K) as a Python number it would be" in verdict.message
    assert "np.sqrt(K) is a NumPy float64, so the float32 array that it divides becomes float64" in verdict.message
    assert judged(23, (DIVIDED, divided.replace("np.sqrt(K)", "K**0.5")), seed=NARROW).ok


def test_a_result_that_a_root_has_widened_is_told_of():
    verdict = judged(23, *PRODUCTS, seed=NARROW)
    assert verdict.ok, str(verdict)
    (note,) = verdict.notes
    assert note.startswith("out_RD is float64, although the inputs are float32: np.sqrt(K) is a NumPy float64")


@pytest.mark.parametrize("edit", [("np.empty((R, D), h_BND.dtype)", "np.empty((R, D))"), (DIVIDED, DIVIDED)])
def test_a_result_that_is_float64_for_another_reason_is_not_put_down_to_the_root(edit):
    verdict = judged(23, edit, seed=NARROW)
    assert verdict.ok and not verdict.notes, str(verdict)
    assert judged(23, seed=NARROW, base="wrong/as_large_as_keys").mistake == "as-large-as-keys"


# Exercise 25


def test_the_array_that_is_loaded_too_often_is_named():
    again = "float32(EPS))\n    twice = float32(0)\n    for d in range(WIDTH):\n        twice += gain[d]\n"
    verdict = judged(25, ("float32(EPS))\n", again))
    assert verdict.mistake is None and "from gain, where " in verdict.message and "from x" not in verdict.message
    assert "none of the mistakes" not in verdict.message
    verdict = judged(25, base="wrong/reads_again")
    assert verdict.mistake == "reads-again" and "from x, where " in verdict.message
    assert "gain, where" not in verdict.message


def test_a_place_that_nobody_fills_is_not_a_matter_of_barriers():
    """Behind the block's first barrier, or in an array of the thread's own."""
    filling = "        row[d] = x[r, d]\n        total += row[d]\n"
    less = "        total += x[r, d]\n        if d < WIDTH - 1:\n            row[d] = x[r, d]\n"
    verdict = judged(25, (filling, less), ("(row[d] - mean) * (row[d] - mean)", "(row[d] - mean) * row[WIDTH - 1]"))
    assert "nothing has written it" in verdict.message and verdict.mistake is None, str(verdict)
    verdict = judged(25, ("cuda.shared.array(WIDTH", "cuda.local.array(WIDTH"), ("(row[d] - mean) *", "row[0] *"))
    assert "A local array begins" in verdict.message and verdict.mistake is None, str(verdict)


def test_one_thread_for_all_is_solved_and_told_of():
    """What is measured is loads."""
    alone = [("range(t, WIDTH, THREADS)", "range(WIDTH if t == 0 else 0)")]
    verdict = judged(25, *alone)
    assert verdict.ok and "3% of the lanes take part" in verdict.message, str(verdict)
    assert "lanes" not in judged(25).message


def test_float64_is_accepted_and_said_to_be_slow():
    verdict = judged(25, ("total = float32(0)", "total = 0.0"))
    assert verdict.ok and "is no mistake" in verdict.notes[-1] and "float64" in verdict.notes[0]
    assert not judged(25).notes


# Exercise 12


def test_each_number_of_a_loaded_twice_is_no_matter_of_the_weights():
    twice = ("tile[r, k] = a[first + r, k]", "tile[r, k] = (a[first + r, k] + a[first + r, k]) * float32(0.5)")
    verdict = judged(12, twice)
    assert verdict.mistake is None and "from a, where " in verdict.message and "from w" not in verdict.message
    assert "none of the mistakes" not in verdict.message
    assert "from w, where " in judged(12, base="wrong/weights_not_staged").message


def test_places_that_are_written_again_are_no_copies():
    again = (
        "        for k in range(t, WIDTH, 32):\n",
        "        for k in range(t, WIDTH, 32):\n            tile[r, k] = 0\n",
    )
    verdict = judged(12, again)
    assert verdict.mistake is None and "shared memory" in verdict.message, str(verdict)
    assert "weight has" in judged(12, base="wrong/every_lane_stages_all").message
    assert "places and is written" not in judged(12, base="wrong/broadcast_avoided").message


def test_a_place_of_the_tile_that_nobody_fills_is_no_missing_barrier():
    verdict = judged(12, ("        for k in range(t, WIDTH, 32):", "        for k in range(t, WIDTH - 1, 32):"))
    assert "nothing has written it" in verdict.message and verdict.mistake is None, str(verdict)


@pytest.mark.parametrize(("shape", "remedy"), [
    ("(ROWS, WIDTH + 1)", ". WIDTH + 1 is computed: write PITCH = WIDTH + 1 above the kernel"),
    ("(ROWS, a.shape[1])", "or handed to it"),
])  # fmt: skip
def test_a_shape_that_is_computed_in_the_kernel_says_where_to_compute_it(shape, remedy):
    verdict = judged(12, ("(ROWS, PITCH)", shape))
    assert verdict.mistake == "types" and remedy in verdict.message


# Exercise 4


def test_rows_that_are_no_rows_of_earlier_steps_are_not_called_so():
    new = "k_RK, v_RK = project(layer, h_RTD[rows, length_R])"
    verdict = judged(4, (new, f"{new}\n        project(layer, h_RTD[rows, length_R] + 1000)"))
    assert verdict.mistake is None and "rows; " in verdict.message and "none of the mistakes" not in verdict.message


@pytest.mark.parametrize(
    ("called", "says"),
    [
        ("project(layer, h_RTD[rows])", "ValueError: project takes rows, an array X x 6, not the shape (1, 3, 6)."),
        ("project(layer, h_RTD[0], 3)", "raised TypeError: project(layer, h_XD) was called with 3 argument(s)."),
        ("project(layer=0, h=h_RTD[0])", "raised TypeError: project() got an unexpected keyword argument 'h'."),
        ("project(7, h_RTD[0])", "raised ValueError: project takes the number of a layer, 0 to 0, not 7."),
    ],
    ids=["shape", "arguments", "keyword", "layer"],
)
def test_what_a_function_of_the_judges_refuses_is_said_once_and_under_its_name(called, says):
    verdict = judged(4, ("project(layer, h_RTD[rows, length_R])", called))
    assert verdict.message.startswith("line 15: append(") and says in verdict.message, str(verdict)


def test_it_is_said_what_was_written_over():
    message = judged(4, base="wrong/overwrites_newest").message
    assert "is one of these, which had to stay as it was" in message
    message = judged(4, base="wrong/unknown").message
    assert "is its new one." in message


# Exercise 18


@pytest.mark.parametrize("seed", range(8))
def test_positions_that_are_not_written_lie_on_either_side(seed):
    verdict = judged(18, seed=seed, base="wrong/reads_unwritten")
    assert "positions that are not written" in verdict.message and "behind a row" not in verdict.message


# Exercise 32

HALVED_HERE = "range(BITS)"
RANGE = "np.full(R, -half), np.full(R, half - 1)"
FINITE = "np.full(R, -half) + 2 ** (22 if BITS == 32 else 9) * 2, np.full(R, half - 1)"
MIDDLE = "(low_R + high_R + 1) // 2"
ENOUGH = "kept_R >= p_R * total_R"


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "edits",
    [
        [(ENOUGH, "kept_R / total_R >= p_R")],
        [(ENOUGH, "total_R - kept_R <= (1 - p_R) * total_R")],
        [(MIDDLE, "high_R - (high_R - low_R) // 2")],
        [(MIDDLE, "(low_R + high_R) // 2"), (RANGE, "np.full(R, -half), np.full(R, half)"),
         ("np.where(enough_R, high_R, middle_R - 1)", "np.where(enough_R, high_R, middle_R)")],
        [(RANGE, FINITE)],
        [(f"for _ in {HALVED_HERE}", "while (low_R < high_R).any()")],
    ],
    ids=["shares", "what-goes", "from-above", "high-excluded", "finite-numbers", "while"],
)  # fmt: skip
def test_other_ways_to_halve_the_integers_pass(edits, seed):
    verdict = judged(32, *edits, seed=seed)
    assert verdict.ok, str(verdict)


TRUE_MIDDLE = """def threshold(p_R, weigh):
    R = len(p_R)
    total_R = weigh(np.full(R, -np.inf if SIDE == "reach" else np.inf, DTYPE))
    low_R, high_R = np.full(R, -MOST), np.full(R, MOST)
    for _ in range(STEPS):
        middle_R = low_R + (high_R - low_R) / 2
        weight_R = weigh(middle_R.astype(DTYPE))
        enough_R = (weight_R if SIDE == "reach" else total_R - weight_R) >= p_R * total_R
        low_R, high_R = np.where(enough_R, middle_R, low_R), np.where(enough_R, high_R, middle_R)
    return low_R.astype(DTYPE)
"""


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    ("edits", "mistake"),
    [
        ([(ENOUGH, "kept_R > p_R * total_R"), (RANGE, FINITE)], "more-than-p"),
        ([(MIDDLE, "(low_R + high_R) // 2"), (f"for _ in {HALVED_HERE}", "while (low_R < high_R).any()")],
         "rounded-down"),
        ([(HALVED_HERE, "range(BITS + 3)")], None),
        ([(HALVED_HERE, "range(BITS - 1)")], None),
    ],
    ids=["more-from-finite-numbers", "never-ends", "three-more", "one-less"],
)  # fmt: skip
def test_halvings_that_are_not_right(edits, mistake, seed):
    verdict = judged(32, *edits, seed=seed)
    assert not verdict.ok and verdict.mistake == mistake, str(verdict)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("most", "steps"), [("100.0", 40), ("60000.0", 40), ("30.0", 15), ("60000.0", 300)])
def test_halving_the_distance_of_scores_is_known_from_any_range(most, steps, seed):
    exercise = find("32")
    source = exercise.vary_source(exercise.folder() / "solution.py", seed)
    source = source[: source.index("def threshold")] + TRUE_MIDDLE.replace("MOST", most).replace("STEPS", str(steps))
    verdict = exercise.task.check(Submission(Path(exercise.file_name), source), seed)
    assert not verdict.ok and verdict.mistake == "halves-scores", str(verdict)


# Exercise 34: free pages may be taken in any order, so a mistake shows in other events, or at the end alone

FIRST_FREED = ("free.pop()", "free.pop(0)")
LOWEST_FREE = ("free.pop()", "free.pop(free.index(min(free)))")
LEAVES = "                references_P[page] -= 1\n                table"
GIVES_BACK = "                    if references_P[page] == 0:\n                        free"
CLEARS = "            table_RX[row], length_R[row] = -1, 0"
FORKED = "                    references_P[page] += 1\n        else"
COPIES = "copy(page, table_RX[row, nth])"


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    ("edits", "mistake"),
    [
        ([FIRST_FREED], "solved"),
        ([LOWEST_FREE], "solved"),
        ([FIRST_FREED, (GIVES_BACK, "                    free")], "freed-while-shared"),
        ([FIRST_FREED, (CLEARS, "            length_R[row] = 0")], "stale-table"),
        ([(CLEARS, "            table_RX[row] = -1")], "stale-table"),
        ([LOWEST_FREE, (LEAVES, "                table")], "departure-not-counted"),
        ([(FORKED, "                    pass\n        else")], "shared-page-written"),
        ([(COPIES, "copy(table_RX[row, nth], page)")], None),
        ([("references_P[page] > 1", "references_P[page] > 2")], "shared-page-written"),
        ([("write(table_RX[row, nth], slot", "write(page if slot else table_RX[row, nth], slot")], None),
        ([("write(table_RX[row, nth], slot, value)", "pass")], None),
    ],
    ids=["first-freed", "lowest", "freed", "not-cleared", "old-length", "not-left", "fork-not-counted", "backwards",
         "two-may-share", "writes-the-original", "never-writes"],
)  # fmt: skip
def test_any_free_page_will_do(edits, mistake, seed):
    verdict = judged(34, *edits, seed=seed)
    assert verdict.ok == (mistake == "solved"), str(verdict)
    assert verdict.ok or verdict.mistake == mistake, str(verdict)


def test_tables_alone_do_not_pass():
    """What is written decides; the arrays are compared with it."""
    verdict = judged(34, ("    length_R = [0]", "    write = copy = lambda *pages: None\n    length_R = [0]"))
    assert not verdict.ok and "no `write` came for this token" in verdict.message


# Exercise 35

SETS = "request_C[c], key_C[c], drawn_C[c], length_C[c] = q, key_Q[q], 0, N"
READS = "memory_CMD[c, :N], score_V = prefill(prompt_QN[q, :N])"


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    ("edits", "said"),
    [
        ([("np.flatnonzero(request_C < 0)[0]", "np.flatnonzero(request_C < 0)[-1]")], "Solved"),
        ([("    def take", "    memory_CMD[...] = 99\n\n    def take")], "Solved"),
        ([(READS, f"{READS}\n            prefill(prompt_QN[q, :N])")], "each to be read once"),
        ([("waiting.pop(0)", "waiting.pop()"), ("waiting[0]", "waiting[-1]")], "which is next"),
        ([(SETS, SETS.replace("key_Q[q]", "key_Q[c]"))], "Alone, request "),
        ([(SETS, SETS.replace("key_Q[q]", "c").replace(" 0, N", " steps, N"))], "Alone, request "),
        ([("step(token_C, length_C, memory_CMD)", "step(token_C[:1], length_C, memory_CMD)")], "step takes all"),
    ],
    ids=["last-slot", "left-behind", "twice", "newest-first", "key-of-the-slot", "slot-and-step", "one-row"],
)  # fmt: skip
def test_what_joins_otherwise_gets_no_name(edits, said, seed):
    verdict = judged(35, *edits, seed=seed)
    assert verdict.ok == (said == "Solved") and verdict.mistake is None and said in verdict.message, str(verdict)


# Two mistakes at once

TWO = {  # a mistake that shows on the first input that fails, and one that shows beside it elsewhere
    "penalty and parents": (
        6, "penalty too early", ("    if PARENTS ==", "    score_BW = score_BW / length**ALPHA\n    if PARENTS !="),
    ),
    "ends of any rank and parents": (
        6, "eos of any rank", ("ends_BC & (np.arange(2 * W) < W)", "ends_BC"), ("PARENTS ==", "PARENTS !="),
    ),
    "bias and sentences": (
        23, "bias of v lost", (" + b_v_D[mine]", ""), ("slice(b * (R // B), (b + 1) * (R // B))", "slice(b, None, B)"),
    ),
    "start and wide rows": (
        14, "starts at 0", ("float32(-math.inf)", "float32(0)"),
        ("x[r, k] - top", "x[r, k] - top + (k > 31) * float32(7)"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("two", TWO)
def test_of_two_mistakes_the_one_that_this_input_shows_is_told(two, seed):
    number, name, *edits = TWO[two]
    verdict = judged(number, *edits, seed=seed)
    assert not verdict.ok and verdict.mistake is None, str(verdict)
    told = f'On this input your output is what "{name}" gives: '
    assert told in verdict.message and verdict.message.endswith("Something else is wrong elsewhere."), str(verdict)
    assert "none of the mistakes" not in verdict.message


def test_two_mistakes_that_both_show_get_no_name():
    """Neither gives this output, and what gives it together has no name."""
    both = [("/= np.sqrt(K)", "/= np.sqrt(D)"), (" + b_v_D[mine]", "")]
    verdict = judged(23, *both)
    assert verdict.mistake is None and "none of the mistakes" in verdict.message, str(verdict)
