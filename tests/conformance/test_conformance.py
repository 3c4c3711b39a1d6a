"""Every implementation of every optimization is right, every known mutant is not, and check says which is which."""

import copy
import functools
import subprocess
import sys

import numpy as np
import pytest
from numba import cuda, float32, int64

import minidecode as md
from minidecode import conformance, ops
from minidecode.bench.compare import implementations
from minidecode.catalog import CATALOG
from minidecode.conformance.check import (
    OnDevice,
    _is_same_answer,
    _try_on_copies,
    drop_unused_bias,
    find_mistake,
    find_mistake_with_out,
    mutant_files,
)
from minidecode.conformance.rows import row_module
from minidecode.device.launch import launch, traced_launches
from minidecode.device.user_functions import dtype_of_result, load_python_file
from minidecode.reference import arena, epilogue, ngram, random, sample, split, top_k, top_p
from minidecode.reference import norm as norm_file

EXAMPLES = 40  # random inputs; planted and large ones come on top


def implementations_and_places(*, older: bool):
    """Every implementation there is; kernels on the emulated device, and on the GPU where there is one.

    older: only kernels that a newer version has replaced; else all others. On a GPU `compare` checks the older ones,
    on planted and large inputs too, before it times them: tests/bench/test_compare.py.
    """
    for name, row in CATALOG.items():
        for label, function in implementations(row).items():
            test = f"{name}-{label.replace(' ', '-')}"
            if label.startswith("cuda ") != older:
                continue
            if label.startswith("cuda"):
                yield pytest.param(name, function, 8, "emulator", id=f"{test}-emulator")
                if not older:
                    yield pytest.param(name, function, 5 * EXAMPLES, "cuda", id=f"{test}-gpu", marks=pytest.mark.gpu)
            else:
                yield pytest.param(name, function, EXAMPLES, "cpu", id=test)


# Of the largest input that host code gets here, and kernels on a GPU: all but more than 65,535 rows. Host code gets
# those too, in test_every_large_input.py.
LARGE_NUMBERS = 140_000
EMULATED_NUMBERS = 100  # of the largest that is emulated here; wider rows: test_kernels_are_right_on_the_widest_rows
SHRINKS = 15  # enough that a mutant's answer is no other's; making inputs as small as they get takes most of the time
MUTANTS = [pytest.param(name, path, id=f"{name}-{path.stem}") for name in CATALOG for path in mutant_files(name)]


@pytest.mark.usefixtures("one_oracle")
@pytest.mark.parametrize(("name", "function", "examples", "device"), list(implementations_and_places(older=False)))
def test_every_implementation_is_right(name, function, examples, device, record_property):
    """On the same inputs on each machine: none is left out because time has run out."""
    check_implementation(name, function, examples, device, record_property)


@pytest.mark.usefixtures("one_oracle")
@pytest.mark.parametrize(("name", "function", "examples", "device"), list(implementations_and_places(older=True)))
def test_every_older_kernel_is_right(name, function, examples, device, record_property):
    """On all inputs, too: only `pytest --full` runs every one of them."""
    check_implementation(name, function, examples, device, record_property)


@pytest.mark.usefixtures("one_oracle")
@pytest.mark.parametrize(
    ("name", "function"),
    [pytest.param(*p.values[:2], id=p.id) for p in implementations_and_places(older=True)],
)
def test_every_older_kernel_is_right_on_some_inputs(name, function):
    """On one planted input in five, with races looked for."""
    row, on_device = CATALOG[name], OnDevice(function, "emulator")
    with traced_launches():
        for case in row_module(name).planted_cases()[::5]:
            mistake = find_mistake(row, on_device, drop_unused_bias(function, case))
            assert mistake is None, mistake.what


def check_implementation(name, function, examples, device, record_property):
    promised = function is not implementations(CATALOG[name])["reference naive"]
    numbers = EMULATED_NUMBERS if device == "emulator" else LARGE_NUMBERS
    verdict = conformance.check(
        name, function, examples=examples, promised=promised, large_numbers=numbers, device=device
    )
    assert verdict.ok and not verdict.warnings, str(verdict)
    if device == "emulator":  # conftest.py names them at the end of the run
        record_property("not_emulated", {name: [left.name for left in verdict.left_out]})
    place = {"cpu": "", "cuda": "lived on the GPU", "emulator": "lived on the emulated device"}[device]
    assert place in verdict.where and bool(place) == bool(verdict.where)
    assert verdict.inputs > examples


@pytest.mark.parametrize(("name", "path"), MUTANTS)
def test_every_mutant_dies(name, path):
    """By a planted input, most of them: random ones take twenty times as long."""
    row, mutant = CATALOG[name], getattr(load_python_file(path), CATALOG[name].op)
    with traced_launches():
        by_planted = any(
            find_mistake(row, mutant, drop_unused_bias(mutant, case)) for case in row_module(name).planted_cases()
        )
    assert by_planted or not conformance.check(name, mutant, examples=EXAMPLES, shrinks=0).ok


@pytest.mark.parametrize(("name", "path"), MUTANTS)
def test_every_mutant_is_named(name, path):
    """On the smallest input found, the answer is the mutant's own and nobody else's, so that it can be named."""
    verdict = conformance.check(
        name, getattr(load_python_file(path), CATALOG[name].op), examples=EXAMPLES, shrinks=SHRINKS
    )
    assert not verdict.ok
    if "It raised" not in verdict.failure.what:
        assert verdict.failure.mistake, str(verdict)


@pytest.mark.parametrize("seed", range(20))
def test_the_missing_barrier_is_found_whatever_the_order_of_threads(seed):
    """Not by luck: in each order of the threads, on one row, whether or not the answer comes out right."""
    (path,) = [p for p in mutant_files("ngram") if p.stem == "missing_barrier"]
    kernel = load_python_file(path).staged_without_a_barrier
    scores, tokens = np.zeros((1, 9), np.float32), np.array([[1, 2, 3, 1, 2] * 20])
    run = md.emulate(kernel, seed=seed)[1, 64](scores, tokens, np.array([100]), 3)
    assert not run.ok and "row" in run.verdict, run.verdict


@pytest.mark.parametrize("name", CATALOG)
def test_there_are_enough_mutants_and_each_says_its_mistake(name):
    files = mutant_files(name)
    assert len(files) >= 5
    assert all(load_python_file(path).__doc__.strip() for path in files)


def test_each_planted_case_bans_or_not_what_it_should():
    """The oracle is not vacuous: most planted cases change something, and a function that does nothing fails."""
    row, planted = CATALOG["ngram"], row_module("ngram").planted_cases()
    changing = [c for c in planted if find_mistake(row, lambda scores_RV, *rest: scores_RV, c)]
    assert len(changing) > len(planted) / 2


def several(result):
    return result if isinstance(result, tuple) else (result,)


@pytest.mark.parametrize("row", [r for r in CATALOG.values() if r.contract == "tolerance"], ids=lambda r: r.name)
def test_tolerances_mean_something(row):
    """Errors that plain float32 makes come within a factor of 32 of the bound; a factor of 1.001 breaks it."""
    naive, worst = implementations(row)["reference naive"], []
    for arguments in row_module(row.name).planted_cases():
        asked = row_module(row.name)
        results, exact, bounds = (
            several(f(*copy.deepcopy(arguments))) for f in (naive, asked.oracle, asked.error_bound)
        )
        floats, off = [k for k, e in enumerate(exact) if e.dtype.kind == "f"], []
        for k in floats:
            finite = np.isfinite(exact[k])
            off.append((np.abs(results[k][finite] - exact[k][finite]) / np.maximum(bounds[k][finite], 1e-30)).max())
            scaled = [r * np.float32(1.001) if i == k else r for i, r in enumerate(results)]
            assert find_mistake(
                row, lambda *_, scaled=scaled: tuple(scaled) if len(scaled) > 1 else scaled[0], arguments
            )
        worst.append(off)
    assert (np.max(worst, axis=0) >= 1 / 32).all() and np.max(worst) <= 1


@pytest.mark.parametrize(
    ("name", "function", "first", "most"),
    [("ngram", lambda s, *_: s, "scores_RV", 4), ("norm", lambda x, y, *_: (x + y, x + y), "x_RD", 1)],
)
def test_a_failure_is_small_and_runs_as_it_is_printed(name, function, first, most):
    verdict = conformance.check(name, function)
    assert not verdict.ok and verdict.failure.arguments[first].size <= most
    code = str(verdict).split("The smallest input found:\n")[1]
    ran = subprocess.run([sys.executable, "-c", "f = lambda s, *_: s\n" + code], capture_output=True, text=True)
    assert ran.returncode == 0 and ran.stderr == "", ran.stderr


def test_a_failure_too_large_to_print_says_where_it_is():
    def narrow(x, y, bias, norm):
        return norm_file.residual_norm(x, y, bias, norm) if x.shape[1] < 2000 else None

    text = str(conformance.check("norm", narrow, examples=5))
    assert "It must return x_RD and h_RD, arrays, not None." in text
    assert "x_RD[7, 4100]" in text and "Verdict.failure.arguments has it" in text and len(text) < 600


@pytest.mark.parametrize(
    ("function", "says"),
    [(lambda s, t, length, n: s.copy(), "in place"),
     (lambda s, t, length, n: 1 / 0, "It raised ZeroDivisionError: division by zero"),
     (lambda s, t, length, n: (ngram.ban_ngrams(s, t, length, n), t.fill(7))[0], "It changed its input tokens_RM"),
     (lambda s, t, length, n: None, "in place")],
)  # fmt: skip
def test_broken_contracts_are_told(function, says):
    assert says in str(conformance.check("ngram", function))


@pytest.mark.parametrize(
    ("function", "says"),
    [(lambda x, y, b, norm: norm_file.residual_norm(x, y, b, norm)[0], "must return x_RD and h_RD"),
     (lambda x, y, b, norm: norm_file.residual_norm(x, y, b, norm, out=(x, y.copy())), "changed its input x_RD"),
     (lambda x, y, b, norm: tuple(a.astype(float) for a in norm_file.residual_norm(x, y, b, norm)), "x_RD is float64"),
     (lambda x, y, b, norm: (norm_file.residual_norm(x, y, b, norm), norm.gain_D.fill(2))[0], "its input gain_D")],
)  # fmt: skip
def test_broken_contracts_of_two_results_are_told(function, says):
    assert says in str(conformance.check("norm", function))


@pytest.mark.parametrize(
    ("function", "says"),
    [(lambda x, w, a=None, to=None: epilogue.linear_epilogue(x, w, a) + (0 if to is None else to),
      "It must change add_to in place and return it"),
     (lambda x, w, a=None, to=None: epilogue.linear_epilogue(x, w, a, to).copy(), "change add_to in place and return"),
     (lambda x, w, a=None, to=None: (epilogue.linear_epilogue(x, w, a, to), x.fill(9))[0], "changed its input x_RX")],
)  # fmt: skip
def test_what_is_added_to_an_array_is_in_it_and_returned(function, says):
    assert says in str(conformance.check("epilogue", function))


@pytest.mark.parametrize("second", [None, 7.0, np.zeros((9, 9), np.float32)])
def test_an_answer_that_cannot_be_compared_is_no_known_mistake(second):
    """It may be right shapes and wrong numbers that are judged, and something else on another input."""
    row, arguments = CATALOG["norm"], row_module("norm").planted_cases()[0]
    right = _try_on_copies(row, norm_file.residual_norm, arguments)
    mine = _try_on_copies(row, lambda *_: (right[0], second), arguments)
    assert not _is_same_answer(row, mine, right, arguments) and not _is_same_answer(row, right, mine, arguments)
    assert _is_same_answer(row, right, right, arguments)


def test_weights_that_float32_has_not_may_be_zero():
    """exp(-128) is 2.6e-56: nobody is wrong who says 0, in any row that attends; nor who says the smallest number."""
    q, k, v = np.full((1, 1, 2), 8.0), np.array([[[[0.0, 0.0], [8.0, 8.0]]]]), np.array([[[[1.0], [0.0]]]])
    q, k, v = (a.astype(np.float32) for a in (q, k, v))
    arguments = (q, k, v, np.array([0]), np.array([2]), 1.0)
    for answer in (0.0, 2.0**-126):
        assert find_mistake(CATALOG["grouped"], lambda *_, a=answer: np.full((1, 1), a, np.float32), arguments) is None
    assert find_mistake(CATALOG["grouped"], lambda *_: np.full((1, 1), 1e-30, np.float32), arguments)
    eye_GDD, none_GD = np.eye(2, dtype=np.float32)[None], np.zeros((1, 2), np.float32)
    # of hidden states (16, 0) and (0, 16), the first has no weight left
    h_BND = np.array([[[16.0, 0.0], [0.0, 16.0]]], np.float32)
    q = np.array([[[0.0, 16.0]]], np.float32)
    arguments = (q, h_BND, np.array([0]), eye_GDD, none_GD, eye_GDD, none_GD, 1.0)
    assert find_mistake(CATALOG["el"], lambda *_: np.array([[0.0, 16.0]], np.float32), arguments) is None
    assert conformance.check("split", split.attend_split_naive, examples=100, promised=False).ok


def test_no_frame_holds_the_answer_while_a_function_runs():
    """Who is given `out` could copy it from there: what is right is computed after the return."""
    found, row, arguments = [], CATALOG["norm"], row_module("norm").planted_cases()[4]

    def residual_norm(x_RD, y_RD, bias_D, norm, out=None):
        right = norm_file.residual_norm(x_RD, y_RD, bias_D, norm)
        frame = sys._getframe(0)
        while frame := frame.f_back:
            for value in frame.f_locals.values():
                for each in value if isinstance(value, list | tuple) else [value]:
                    for array in several(each):
                        if isinstance(array, np.ndarray) and array.shape == x_RD.shape:
                            found.append(_is_same_answer(row, (array, right[1]), right, arguments))
        return norm_file.residual_norm(x_RD, y_RD, bias_D, norm, out)

    assert find_mistake(row, residual_norm, arguments) is None
    assert find_mistake_with_out(row, residual_norm, arguments) is None
    assert found and not any(found)


def no_nan(function):
    """The function, but it raises what NumPy raises where nothing is left to look at."""

    def strict(scores_RV, *rest):
        if np.isnan(scores_RV).any():
            raise ValueError("attempt to get argmax of an empty sequence")
        return function(scores_RV, *rest)

    return strict


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("sample", sample.sample_tokens),
        ("top_k", top_k.top_k_filter),
        ("top_p", top_p.top_p_filter),
        ("ngram", ngram.ban_ngrams),
    ],
)
def test_ops_that_may_meet_nan_must_survive_it(name, function):
    """They stand in front of the end of a step, where NaN is told."""
    assert "It raised ValueError: attempt" in str(conformance.check(name, no_nan(function), examples=5))


def test_of_a_row_with_nan_a_token_is_drawn_that_there_is():
    def beyond(scores_RV, *rest):
        return np.where(np.isnan(scores_RV).all(axis=1), scores_RV.shape[1], sample.sample_tokens(scores_RV, *rest))

    def other(scores_RV, *rest):
        return np.where(
            (scores_RV < np.inf).all(axis=1), sample.sample_tokens(scores_RV, *rest), scores_RV.shape[1] - 1
        )

    assert "token_R[0] is 7" in str(conformance.check("sample", beyond, examples=5))
    assert conformance.check("sample", other, examples=5).ok


def test_rows_beside_one_with_nan_are_right():
    def spoilt(scores_RV, k):
        has_nan = int(np.isnan(scores_RV).any())
        top_k.top_k_filter(scores_RV, k)
        scores_RV[has_nan:] += has_nan
        return scores_RV

    assert "scores_RV[1, " in str(conformance.check("top_k", spoilt, examples=5))


def noise_by(counter):
    """`gumbel`, whose groups of four tokens are counted in another way."""

    def gumbel(key_RX, step_R, V, seed):
        noise_RV = random.gumbel(key_RX, step_R, V, seed)
        return noise_RV[:, 4 * counter(np.arange(V) // 4) + np.arange(V) % 4]

    return gumbel


@pytest.mark.parametrize("mask", [0xFF, 0x3FF, 0x3FFF, 0xFFFF], ids=hex)
def test_noise_that_comes_again_at_true_vocabularies_is_seen(mask):
    """Groups counted in ten bits would repeat GPT-2's noise, those in sixteen bits that of its beams side by side."""
    gumbel = noise_by(lambda group: group & mask)

    def sample_tokens(scores_RV, key_RX, step_R, seed):
        return (scores_RV + gumbel(key_RX, step_R, scores_RV.shape[1], seed)).argmax(axis=1)

    assert "noise_RV[0, " in str(conformance.check("random", gumbel, examples=5))
    assert "token_R[0] is" in str(conformance.check("sample", sample_tokens, examples=5))


def test_tokens_and_steps_that_are_counted_in_too_few_bits_are_seen():
    def narrow_tokens(key_RX, step_R, V, seed):
        return random.gumbel(key_RX, step_R, V, seed)[:, np.arange(V) & 0xFFFF]

    assert "noise_RV[0, 6" in str(conformance.check("random", narrow_tokens, examples=5))
    for mask in (0xFFFFF, 0x7FFFFFFF):
        narrow = lambda key, step, V, seed, m=mask: random.gumbel(key, step & m, V, seed)  # noqa: E731
        assert "noise_RV[" in str(conformance.check("random", narrow, examples=5))
        narrow = lambda scores, key, step, seed, m=mask: sample.sample_tokens(scores, key, step & m, seed)  # noqa: E731
        assert "token_R[" in str(conformance.check("sample", narrow, examples=5))


@pytest.mark.parametrize("below", [12, 20, 24.5])
def test_a_draw_that_passes_over_tokens_too_soon_is_seen(below):
    def hasty(scores_RV, *rest):
        scores_RV = np.where(scores_RV < scores_RV.max(axis=1, keepdims=True) - below, -np.inf, scores_RV)
        return sample.sample_tokens(scores_RV.astype(np.float32), *rest)

    assert "token_R[0] is" in str(conformance.check("sample", hasty, examples=5))


def pool(bytes_X, first_X, last_X):
    """Buffers that are handed out whole: right, and larger than it need be."""
    buffers, offset_X = [], np.zeros_like(bytes_X)
    for x in np.argsort(first_X, kind="stable"):
        free = [b for b in buffers if b[1] >= bytes_X[x] and b[2] < first_X[x]]
        if not free:
            begin = sum(-(-size // 64) * 64 for _, size, _ in buffers)
            buffers.append(free := [begin, bytes_X[x], -1])
            free = [free]
        best = min(free, key=lambda b: b[1])
        offset_X[x], best[2] = best[0], last_X[x]
    return offset_X


def test_a_planner_that_is_right_and_too_large_is_not_called_wrong():
    verdict = conformance.check("arena", pool)
    assert not verdict.ok and verdict.failure.is_right
    assert "gives a right answer that breaks a promise. The block is larger than it need be" in str(verdict)
    assert "is wrong" not in str(verdict)
    assert conformance.check("arena", pool, promised=False).ok


def test_arrays_of_no_bytes_make_no_block_larger():
    bytes_X, first_X, last_X = (np.array(a) for a in ([1, 0], [0, 0], [0, 0]))
    assert find_mistake(CATALOG["arena"], lambda *_: np.array([0, 64]), (bytes_X, first_X, last_X)) is None
    empty = tuple(np.zeros(2, np.int64) for _ in range(3))
    assert find_mistake(CATALOG["arena"], lambda *_: np.array([0, 64]), empty) is None


@pytest.mark.parametrize("row", CATALOG.values(), ids=lambda row: row.name)
def test_the_names_of_results_say_their_dtypes(row):
    """What a plan asks of a function of the user's is what `check` asks."""
    arguments = row_module(row.name).planted_cases()[0]
    results = several(implementations(row)["reference naive"](*copy.deepcopy(arguments)))
    assert [r.dtype for r in results] == [dtype_of_result(name, arguments) for name in ops.RETURNS[row.op]]


def test_what_no_plan_hands_to_a_planner_is_not_asked_of_it():
    def first_fit(bytes_X, first_X, last_X, out=None):
        return arena.assign_offsets_first_come(bytes_X, first_X, last_X)

    assert conformance.check("arena", first_fit).ok


@pytest.mark.parametrize("asked", [{"examples": 0}, {"planted": 0}, {"planted": -1}], ids=str)
def test_nothing_is_right_on_no_inputs(asked):
    with pytest.raises(md.OptionError, match="examples and planted are above 0"):
        conformance.check("ngram", ngram.ban_ngrams, **asked)


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(md.OptionError, match=r"did you mean ngram\? The names are ngram, bias, penalty, linear"):
        conformance.check("ngrams", np.copy)


@cuda.jit
def ban_with_a_dict(scores_RV, tokens_RM, length_R, n):
    r, seen = cuda.blockIdx.x, {}
    for i in range(length_R[r]):
        seen[i] = tokens_RM[r, i]
    tail = length_R[r] - n + 1
    for start in range(tail):
        if all(seen[start + k] == seen[tail + k] for k in range(n - 1)):
            scores_RV[r, seen[start + n - 1]] = float32(-np.inf)


@cuda.jit
def ban_in_double_precision(scores_RV, tokens_RM, length_R, n):
    r = cuda.blockIdx.x
    tail = length_R[r] - n + 1
    for start in range(tail):
        same = 0
        while same < n - 1 and tokens_RM[r, start + same] == tokens_RM[r, tail + same]:
            same += 1
        if same == n - 1:
            scores_RV[r, tokens_RM[r, start + n - 1]] = n * 0.5 - np.inf


def launched(kernel):
    def ban(scores_RV, tokens_RM, length_R, n):
        launch(kernel, len(length_R), 1, scores_RV, tokens_RM, length_R, n)
        return scores_RV

    return ban


def test_a_kernel_that_no_compiler_takes_is_wrong_though_its_answers_are_right():
    verdict = conformance.check("ngram", launched(ban_with_a_dict), examples=5)
    assert not verdict.ok and "would refuse ban_with_a_dict: error: line" in str(verdict), str(verdict)
    assert "smallest input" not in str(verdict)


def test_double_precision_by_accident_is_a_warning():
    verdict = conformance.check("ngram", launched(ban_in_double_precision), examples=5)
    assert verdict.ok and "ban_in_double_precision: warning: line" in str(verdict), str(verdict)


def test_kernels_that_are_launched_by_emulate_are_judged_too():
    """Races and types count whoever launches: as the README shows it, or by our helper."""

    @cuda.jit
    def racing(scores_RV, tokens_RM, length_R, n):
        s = cuda.shared.array(1, int64)
        s[0] = cuda.threadIdx.x

    def ban(scores_RV, tokens_RM, length_R, n):
        md.emulate(racing)[len(length_R), 4](scores_RV, tokens_RM, length_R, n)
        return ngram.ban_ngrams(scores_RV, tokens_RM, length_R, n)

    assert "It raised EmulationError: s[0]" in str(conformance.check("ngram", ban, examples=3))


def test_a_kernel_that_never_ends_is_tried_once():
    @cuda.jit
    def endless(scores_RV, tokens_RM, length_R, n):
        k = 0
        while k >= 0:
            k += 1

    verdict = conformance.check("ngram", launched(endless))
    assert verdict.inputs == 1 and "does not come out of" in str(verdict)


@pytest.mark.parametrize(
    ("function", "says"),
    [(lambda *a: sys.exit(), "It raised SystemExit"), (lambda s, *a: s.copy(), "in place"),
     (functools.partial(ngram.ban_ngrams), "is right")],
)  # fmt: skip
def test_what_functions_do_that_are_none(function, says):
    text = str(conformance.check("ngram", function, examples=5))
    assert says in text and "Your output is" not in text


def test_a_buffer_that_is_used_twice_is_seen():
    buffers = {}

    def lazy(x, y, bias, norm):
        out = buffers.setdefault(x.shape, (np.empty_like(x), np.empty_like(x)))
        return norm_file.residual_norm(x, y, bias, norm, out=out)

    assert "what it returned before has changed" in str(conformance.check("norm", lazy))


def test_an_answer_that_is_wrong_now_and_then_is_wrong():
    calls = []

    def moody(*arguments):
        calls.append(1)
        scores_RV = ngram.ban_ngrams(*arguments)
        if len(calls) % 7 == 0:
            scores_RV[:] = 1
        return scores_RV

    assert not conformance.check("ngram", moody).ok


def test_out_is_poisoned_and_must_be_filled():
    def ignores(scores_RV, tokens_RM, length_R, n, out=None):
        return ngram.ban_ngrams(scores_RV, tokens_RM, length_R, n)

    def fills_half(x, y, bias, norm, out=None):
        summed, h = norm_file.residual_norm(x, y, bias, norm)
        if out is None:
            return summed, h
        out[0][...] = summed
        out[1][:1] = h[:1]
        return out

    assert "must write into it" in str(conformance.check("ngram", ignores, examples=5))
    assert "h_RD[1, 0] is nan" in str(conformance.check("norm", fills_half, examples=5))
