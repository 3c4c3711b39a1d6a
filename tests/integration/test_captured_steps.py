"""Steps that are captured on the CPU: the same tokens, bit for bit, and what cannot be captured says why."""

import functools
import signal
import threading
import weakref
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from numba import config
from test_attention_settings import make

import minidecode as md
from minidecode.cache.split import SplitCache
from minidecode.cpu import append, argmax, embedding, linear, norm, rotation, split
from minidecode.cpu.common import atomics, panel_gemm, thread_pool
from minidecode.cpu.common.atomics import pause
from minidecode.cpu.common.graph import Graph
from minidecode.cpu.common.tasks import in_tasks
from minidecode.cpu.common.thread_pool import ALL_WORKERS, CALLER_ALONE, ThreadPool, parallel_for
from minidecode.cpu.common.tile import DOT
from minidecode.device.capture import CAPTURE
from minidecode.errors import WorkerError
from minidecode.model import Model
from minidecode.models import FAMILIES
from minidecode.ops import Heads, Norm, PositionBias
from minidecode.plan import Plan
from minidecode.runtime import cpu_graphs
from minidecode.runtime.engine import Engine

LLAMA = Path(__file__).parents[1] / "golden" / "llama" / "grouped"
PROMPTS = [[5, 9, 14, 2, 7], [11, 3]]
HOW = {"max_new_tokens": 9, "eos_token_id": None}
DYNAMIC = ["int8_dynamic"] if DOT is not None and DOT.x_bits >= 8 else []
load = functools.cache(md.load)


@pytest.fixture(autouse=True)
def compiled_products(monkeypatch):
    """Where weights are in no panels, products of small ones are the BLAS's, and no step is captured."""
    monkeypatch.setattr(linear, "SMALL", 0)


def counted(out):
    return {name: (c.calls, c.bytes, c.code_paths) for name, c in out.receipt.ops.items()}


def both(model, beside="", **options):
    """(captured, plain) of one generation. Equal tokens and scores, and equal counts of all that ran."""
    options = {"input_ids": PROMPTS} | HOW | options
    captured, plain = (model.generate(plan=f"fast,graphs={g}{beside}", **options) for g in ("auto", "off"))
    assert [ids.tolist() for ids in captured.token_ids] == [ids.tolist() for ids in plain.token_ids]
    assert captured.scores.tobytes() == plain.scores.tobytes()
    assert counted(captured) == counted(plain)
    assert plain.receipt.graphs.launches == 0 and plain.receipt.graphs.why_not == ""
    return captured, plain


@pytest.mark.parametrize(
    "options",
    [
        {}, {"no_repeat_ngram_size": 2, "repetition_penalty": 1.2}, {"num_beams": 3}, {"input_ids": [[3, 4]]},
        {"do_sample": True, "num_return_sequences": 3, "seed": 2}, {"guidance_scale": 1.5}, {"dialect": "fairseq"},
        {"dialect": "ctranslate2", "num_beams": 2, "repetition_penalty": 1.2, "patience": 2.0},
        {"dialect": "lightseq", "num_beams": 2},
        {"min_new_tokens": 3, "top_k": 9, "do_sample": True},
    ],
    ids=str,
)  # fmt: skip
def test_a_captured_step_gives_the_same_bits(options):
    receipt = both(load("tiny-gpt2", plan="fast"), **options)[0].receipt
    each = 2 if "guidance_scale" in options else 1  # the second engine captures its steps, too
    assert receipt.graphs.captured == each and receipt.graphs.launches == each * (receipt.steps - 3)  # all but three
    assert receipt.graphs.why_not == "" and f"{receipt.graphs.launches} launches of parts of steps" in str(receipt)


@pytest.mark.parametrize(
    ("name", "dtype", "beside"),
    [
        *(("tiny-gpt2", dtype, "") for dtype in ("float16", "int8", "int4", "int8_blocks", *DYNAMIC)),
        ("tiny-gpt2", "float32", ",cache=preallocated"), ("tiny-gpt2", "float32", ",cache_dtype=float16"),
        *((name, dtype, "") for name in ("llama", "tiny-bart") for dtype in ("float32", *DYNAMIC)),
        ("tiny-gpt2-mqa", "float32", ""),
    ],
)  # fmt: skip
@pytest.mark.parametrize("options", [{}, {"num_beams": 3}], ids=str)
def test_every_family_dtype_and_cache(name, dtype, beside, options):
    model = load(LLAMA if name == "llama" else name, plan="fast", dtype=dtype)
    graphs = both(model, beside, **options)[0].receipt.graphs
    is_numpy = "cache_dtype" in beside  # append_kv casts in NumPy
    assert (graphs.launches > 3) == (not is_numpy) == (graphs.why_not == "")
    assert not is_numpy or graphs.why_not == "append_kv: a part of it is computed by NumPy"


def test_rows_that_leave_are_captured_again():
    """The second sentence ends after four tokens; the rest goes on over arrays of its own."""
    model = load("tiny-gpt2", plan="fast")
    short = [PROMPTS[0], np.resize(PROMPTS[0], 9).tolist()]
    receipt = both(model, input_ids=short, max_length=16, max_new_tokens=None)[0].receipt
    assert receipt.graphs.captured == 2 and receipt.rows < 2 * (receipt.steps - 1)


def test_caches_are_free_as_soon_as_rows_have_left(monkeypatch):
    """A graph keeps the arrays that it works on, and so the caches of all layers: it goes first."""
    right, left = SplitCache.keep_only, []

    def keep_only(self, ops, stays_B, stays_R):
        before = weakref.ref(self.k_RGTK)
        right(self, ops, stays_B, stays_R)
        left.append(before() is None)

    monkeypatch.setattr(SplitCache, "keep_only", keep_only)
    both(load("tiny-gpt2", plan="fast"), input_ids=[PROMPTS[0], [7] * 9], max_length=16, max_new_tokens=None)
    assert left and all(left)


def test_a_graph_is_dropped_when_steps_are_done(monkeypatch):
    graphs, right = [], Engine.give_back_bucket

    def give_back(self):
        graphs.append(self.on_cpu.graph)
        right(self)
        graphs.append(self.on_cpu.graph)

    monkeypatch.setattr(Engine, "give_back_bucket", give_back)
    load("tiny-gpt2", plan="fast").generate(input_ids=PROMPTS, plan="fast", logprobs=0, **HOW)
    assert graphs[0] is not None and graphs[1] is None


def test_steps_that_are_not_captured_are_told_beside_those_that_are():
    """Eighteen rows are too many; nine are left when the second sentence ends."""
    model, ids = load("tiny-gpt2", plan="fast"), [PROMPTS[0], [7] * 9]
    how = {"input_ids": ids, "max_length": 16, "eos_token_id": None, "do_sample": True, "num_return_sequences": 9}
    receipt = model.generate(plan="fast", **how).receipt
    assert receipt.graphs.launches > 0 and receipt.graphs.why_not.startswith("a step has 18 rows")
    assert "\nother parts of steps were not captured: a step has 18 rows" in str(receipt)


def test_logits_that_a_function_keeps_stay_as_they_are(monkeypatch):
    """A launch writes where the last one wrote; each step hands on logits of its own."""
    kept, right = [], argmax.argmax_tokens

    def keeping(scores_RV, logits_RV, **named):
        kept.extend((given_RV, given_RV.copy()) for given_RV in (scores_RV, logits_RV))
        return right(scores_RV, logits_RV, **named)

    monkeypatch.setattr(argmax, "argmax_tokens", keeping)
    receipt = both(load("tiny-gpt2", plan="fast"))[0].receipt
    assert receipt.graphs.launches and "keeping" in receipt.ops["argmax_tokens"].implementation
    assert all(np.array_equal(given_RV, at_the_time_RV) for given_RV, at_the_time_RV in kept)


@pytest.mark.parametrize("at_step", range(1, 6))
def test_a_token_that_is_none_is_the_same_error_in_every_step(at_step, monkeypatch):
    calls, right = [], argmax.argmax_tokens

    def wrong(*args, **named):
        chosen_R, *others = right(*args, **named)
        calls.append(chosen_R)
        return (np.full_like(chosen_R, 10**6) if len(calls) == at_step else chosen_R, *others)

    monkeypatch.setattr(argmax, "argmax_tokens", wrong)
    with pytest.raises(IndexError, match=r"^a token or a position is outside of its table: .*1000000"):
        load("tiny-gpt2", plan="fast").generate(input_ids=PROMPTS, plan="fast", **HOW)
    assert len(calls) == at_step


def with_window():
    model = make("gpt2", attention_window=3)
    tensors = {name: data.astype(np.float32) for name, data in model.tensors.items()}
    return Model(FAMILIES["gpt2"], model.config, tensors, None, model.defaults, Plan("fast"), "float32")


def arena(model):
    return {"arena": md.Arena(model.plan_step(plan="fast", batch_size=2, input_length=8, max_new_tokens=9))}


REFUSED = {
    "a trace is kept": ("", {"trace": True}),
    "costs are noted": ("", {"costs": True}),
    "memory is planned": ("", arena),
    "a function of yours is given scores": ("", {"logits_processor": [lambda scores, rows: scores]}),
    "a function of yours is given": ("", {"stopping_criteria": [lambda ids, scores: False]}),
    "a step has 18 rows, and Python takes little": ("", {"num_return_sequences": 9, "do_sample": True}),
    "residual_norm is minidecode.reference.norm.residual_norm": (",norm=reference", {}),
    "bias_activation is minidecode.reference.activation.bias_activation_naive": (",activation=naive", {}),
    "linear_epilogue is minidecode.cpu.epilogue.linear_epilogue": (",epilogue=cpu", {}),
    "attend_indirect is minidecode.cpu.indirect.attend_indirect": (",cache=indirect", {}),
}


@pytest.mark.parametrize("why", REFUSED)
def test_what_is_not_captured_says_why(why):
    model, (beside, options) = load("tiny-gpt2", plan="fast"), REFUSED[why]
    options = {"input_ids": PROMPTS} | HOW | (options(model) if callable(options) else options)
    receipt = model.generate(plan=f"fast{beside}", **options).receipt
    assert receipt.graphs.launches == receipt.graphs.captured == 0 and receipt.graphs.why_not.startswith(why)
    assert f"\nsteps were not captured: {why}" in str(receipt)


def test_a_window_says_why():
    assert both(with_window())[0].receipt.graphs.why_not == "NumPy computes where an attention window begins"


def test_your_own_function_is_never_passed_over(tmp_path):
    mine = tmp_path / "mine.py"
    mine.write_text(
        "from minidecode.cpu.norm import residual_norm\ndef norm(*args, **named): return residual_norm(*args, **named)"
    )
    model, plan = load("tiny-gpt2", plan="fast"), f"fast,norm={mine}:norm"
    own, plain = (model.generate(input_ids=PROMPTS, plan=p, **HOW) for p in (plan, "fast"))
    assert [t.tolist() for t in own.token_ids] == [t.tolist() for t in plain.token_ids]
    assert own.receipt.graphs.launches == 0 and own.receipt.graphs.why_not.startswith("residual_norm is mine.norm")


STEP_OPS = ["embed_norm", "linear", "append_kv", "attend_split", "residual_norm", "bias_activation"]


@pytest.mark.parametrize("op", STEP_OPS)
def test_an_op_that_is_rebound_is_what_runs(op, monkeypatch):
    """Also one that borrows all names of the right one, and raises in the fifth step for the first time."""
    model, calls = load("tiny-gpt2", plan="fast"), Counter()
    receipt = model.generate(input_ids=PROMPTS, plan="fast", **HOW).receipt
    assert set(STEP_OPS) <= set(receipt.ops) and receipt.graphs.launches
    module = __import__(receipt.ops[op].implementation.split(" ")[0].rpartition(".")[0], fromlist=["it"])
    right, of_a_step = getattr(module, op), receipt.ops[op].calls // receipt.steps

    @functools.wraps(right)
    def rebound(*args, **named):
        calls[op] += 1
        if calls[op] > 5 * of_a_step:
            raise ZeroDivisionError("sabotage")
        return right(*args, **named)

    monkeypatch.setattr(module, op, rebound)
    with pytest.raises(ZeroDivisionError, match="sabotage"):
        model.generate(input_ids=PROMPTS, plan="fast", **HOW)


def test_an_object_without_a_hash_may_stand_in_an_ops_place(monkeypatch):
    from minidecode.cpu import norm

    right = norm.residual_norm

    class Mine:
        __hash__ = None

        def __call__(self, *args, **named):
            return right(*args, **named)

    model = load("tiny-gpt2", plan="fast")
    wanted = model.generate(input_ids=PROMPTS, plan="fast", **HOW)
    monkeypatch.setattr(norm, "residual_norm", Mine())
    found = model.generate(input_ids=PROMPTS, plan="fast", **HOW)
    assert found.receipt.graphs.launches == 0 and "residual_norm is" in found.receipt.graphs.why_not
    assert all(np.array_equal(a, b) for a, b in zip(found.token_ids, wanted.token_ids, strict=True))


def test_what_an_op_of_yours_calls_is_not_captured(monkeypatch):
    """Nor what it starts in another thread, which has the context of the op."""
    right, seen = norm.residual_norm, []

    def mine(*args, **named):
        seen.append(CAPTURE.get())
        return right(*args, **named)

    monkeypatch.setattr(norm, "residual_norm", mine)
    receipt = both(load("tiny-gpt2", plan="fast"))[0].receipt
    assert receipt.graphs.why_not.startswith("residual_norm is ") and seen and not any(seen)


def test_an_interrupt_as_a_capture_begins_leaves_nothing_behind(monkeypatch):
    class Interrupted:
        get = CAPTURE.get

        def set(self, graph):
            CAPTURE.set(graph)
            if graph is not None:
                raise KeyboardInterrupt

    monkeypatch.setattr(cpu_graphs, "CAPTURE", Interrupted())
    with pytest.raises(KeyboardInterrupt):
        load("tiny-gpt2", plan="fast").generate(input_ids=PROMPTS, plan="fast", **HOW)
    assert CAPTURE.get() is None


@pytest.mark.parametrize("mistake", ["a count stands still", "a launch is missing", "old tokens"])
def test_these_tests_see_a_graph_that_is_wrong(mistake, monkeypatch):
    original = Graph.launch

    def launch(self):
        if mistake == "a launch is missing" and not len(self._launches_X):
            del self.launches[5]
        original(self)

    monkeypatch.setattr(Graph, "launch", launch)
    if mistake == "a count stands still":
        monkeypatch.setattr(Graph, "add_one", lambda self, count_R: None)
    if mistake == "old tokens":
        monkeypatch.setattr(cpu_graphs, "zip", lambda *both, **strict: (), raising=False)
    with pytest.raises(AssertionError):
        both(load("tiny-gpt2", plan="fast"))


def told(run):
    """The graph of what this calls."""
    graph = Graph()
    token = CAPTURE.set(graph)
    try:
        run()
    finally:
        CAPTURE.reset(token)
    return graph


def test_a_launch_writes_nothing_outside_of_a_table():
    """Python checks positions before a call; a launch looks at them itself."""
    F = np.float32
    ids_R, at_R = np.zeros(1, np.int64), np.zeros(1, np.int64)
    table, gain, q_RX, k_RGMK = np.ones((3, 8), F), np.ones(8, F), np.ones((1, 24), F), np.zeros((1, 1, 4, 8), F)
    heads, scale = Heads(H=1, G=1, K=8, U=8, scale=1.0), Norm(gain, gain, 1e-5)
    cases = [
        (ids_R, 3, lambda: embedding.embed_norm(ids_R, at_R, table, table, 1.0, scale)),
        (at_R, 4, lambda: append.append_kv(q_RX, None, heads, k_RGMK, k_RGMK.copy(), at_R)),
        (at_R, 3, lambda: rotation.rotate_heads(q_RX, None, heads, at_R, table)),
    ]
    for place, outside, run in cases:
        graph = told(run)
        assert len(graph.launches) == 1 and graph.why_not == ""
        graph.launch()
        for wrong in (outside, -1):
            place[0] = wrong
            with pytest.raises(IndexError, match="a token or a position is outside of its table"):
                graph.launch()
        place[0] = 0
    assert not k_RGMK[0, 0, 1:].any()


COPIES = "NumPy copies an array that does not lie in order"


def test_a_copy_that_numpy_makes_is_told():
    x_RD = np.asfortranarray(np.ones((3, 8), np.float32))
    graph = told(lambda: norm.residual_norm(x_RD, x_RD, None, Norm(x_RD[0], x_RD[0], 1e-5)))
    assert graph.why_not == COPIES


def test_attention_that_is_not_shared_out_says_so():
    """Beside a position bias that is copied; in float64 it is a launch as any other."""
    none, places = np.zeros((1, 1, 0, 8)), (np.zeros(1, np.int64), np.ones(1, np.int64))
    x_RGTK, bias = np.ones((1, 1, 1, 8)), PositionBias(np.asfortranarray(np.ones((1, 1, 3))), np.arange(3), 0)
    for dtype, beside, why in ((np.float64, None, ""), (np.float32, bias, COPIES)):
        cache = x_RGTK.astype(dtype)
        arrays = x_RGTK[0].astype(dtype), none.astype(dtype), none.astype(dtype), places[0], cache, cache, *places
        graph = told(lambda arrays=arrays, beside=beside: split.attend_split(*arrays, 1.0, beside))
        assert graph.why_not == why


@pytest.fixture
def three_threads(monkeypatch):
    """And products that they share, however small. Numba reads the environment again when it compiles."""
    monkeypatch.setenv("NUMBA_NUM_THREADS", "3")
    monkeypatch.setattr(config, "NUMBA_NUM_THREADS", 3)
    monkeypatch.setattr(linear, "WORTH_A_LOT", 2000)
    monkeypatch.setattr(panel_gemm, "WORTH_TWO_TASKS", 2000)
    thread_pool._forget_pool()
    yield
    thread_pool._forget_pool()


JOBS = [{}, {"num_beams": 2}, {"do_sample": True, "seed": 3}, {"input_ids": [[3]]}, {"input_ids": [[4, 4, 4]] * 5}]


def test_six_threads_of_mixed_generations(three_threads):
    models = [load("tiny-gpt2", plan="fast"), load(LLAMA, plan="fast")]
    jobs = [(model, {"input_ids": PROMPTS} | HOW | job) for model in models for job in JOBS]
    expected = [model.generate(plan="fast,graphs=off", **job).token_ids for model, job in jobs]
    wrong, launches = [], Counter()

    def work(first):
        for n in range(first, first + 20):
            model, job = jobs[n % len(jobs)]
            out = model.generate(plan="fast", **job)
            launches[first] += out.receipt.graphs.launches
            if [t.tolist() for t in out.token_ids] != [t.tolist() for t in expected[n % len(jobs)]]:
                wrong.append((first, n))

    threads = [threading.Thread(target=work, args=(first,)) for first in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and all(launches[first] > 80 for first in range(6))


@pytest.mark.parametrize("trouble", ["the table is taken", "no patience", "away"])
def test_workers_that_are_late_change_nothing(trouble, three_threads):
    model = load("tiny-gpt2", plan="fast")
    expected = model.generate(input_ids=PROMPTS, plan="fast,graphs=off", **HOW).token_ids
    (pool,) = thread_pool._started
    if trouble == "the table is taken":
        pool.table[thread_pool.WANTED] = 1
    elif trouble == "no patience":
        pool.patience = -1  # each shared launch ends the call
    else:
        pool.away = 10**6
    out = model.generate(input_ids=PROMPTS, plan="fast", **HOW)
    assert out.receipt.graphs.launches and [t.tolist() for t in out.token_ids] == [t.tolist() for t in expected]


def test_a_worker_that_dies_is_an_error(three_threads):
    model, steps = load("tiny-gpt2", plan="fast"), []

    def streamer(number, token):
        steps.append(token)
        if len(steps) == 12:  # both texts are in their sixth step
            (pool,) = thread_pool._started
            pool.died = "worker thread minidecode-0 died (RuntimeError: here)"

    with pytest.raises(WorkerError, match="worker thread minidecode-0 died"):
        model.generate(input_ids=PROMPTS, plan="fast", streamer=streamer, **HOW)
    assert both(model)[0].receipt.graphs.launches, "the next generation starts others"


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers of Unix here")
def test_an_interrupt_ends_a_generation_and_harms_no_other(three_threads):
    model, how = load("tiny-gpt2", plan="fast"), HOW | {"max_new_tokens": 200, "input_ids": [[5, 9, 14]]}
    right, came, runs = model.generate(plan="fast,graphs=off", **how).token_ids[0].tolist(), 0, []

    def interrupt(*_):
        if runs:
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for milliseconds in range(2, 60, 3):
            signal.setitimer(signal.ITIMER_REAL, milliseconds / 1000)
            try:
                runs.append(milliseconds)
                assert model.generate(plan="fast", **how).token_ids[0].tolist() == right
                runs.clear()
            except KeyboardInterrupt:
                came += 1
                runs.clear()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert came > 3 and model.generate(plan="fast", **how).token_ids[0].tolist() == right


def test_caches_of_a_graph_on_the_cpu_need_no_more_room():
    """On a device, they get room for more positions, so that later generations fit."""
    model, how = load("tiny-gpt2", plan="fast"), {"input_ids": PROMPTS} | HOW
    captured, plain = (model.footprint(plan=f"fast,graphs={g}", **how) for g in ("auto", "off"))
    assert captured.cache == plain.cache and captured.stepping > plain.stepping
    plans = [model.plan_step(plan=f"fast,graphs={g}", batch_size=2, input_length=5, **HOW) for g in ("auto", "off")]
    assert plans[0].bytes == plans[1].bytes


def test_a_refused_piece_of_work_is_not_noted():
    """What raises in Python raises while a step is captured, and leaves no launch behind."""
    q_RX, at_R = np.ones((1, 24), np.float32), np.array([7])
    k_RGMK, heads = np.zeros((1, 1, 4, 8), np.float32), Heads(H=1, G=1, K=8, U=8, scale=1.0)
    graph = Graph()
    token = CAPTURE.set(graph)
    try:
        with pytest.raises(IndexError):
            append.append_kv(q_RX, None, heads, k_RGMK, k_RGMK.copy(), at_R)
    finally:
        CAPTURE.reset(token)
    assert graph.launches == [] and graph.why_not == "a part of it is computed by NumPy"
    no_bias = np.zeros(24, np.float32)
    arrays = q_RX, no_bias, k_RGMK, k_RGMK.copy(), at_R, np.empty((1, 1, 8), np.float32)
    assert parallel_for(append._append_kv, 1, arrays, CALLER_ALONE) is False


@in_tasks()
def meet(task, here):
    """Both tasks are here at once, or this fails after minutes."""
    atomics.add(here, 0, 1)
    for _ in range(2**33):
        if atomics.load(here, 0) >= 2:
            return thread_pool.DONE
        pause()
    return thread_pool.FAILED


@in_tasks()
def until_asleep(task, table):
    """Work of the caller alone that takes until a worker sleeps."""
    for _ in range(2**33):
        if atomics.load(table, thread_pool.ASLEEP):
            return thread_pool.DONE
        pause()
    return thread_pool.FAILED


@in_tasks()
def nothing(task, array):
    return thread_pool.DONE


def launches_of(*pieces):
    """What `launch_all` takes: for each (function, array, whether workers take its two tasks)."""
    graph = Graph()
    for function, array, is_shared in pieces:
        graph.note(function, 1 + is_shared, (array,), ALL_WORKERS if is_shared else CALLER_ALONE)
    return np.concatenate(graph.launches)


@pytest.mark.parametrize("away", [0, 3])
def test_workers_that_fell_asleep_in_a_launch_are_woken(away, three_threads):
    """After long work of the caller alone; and after pieces that they stayed away from."""
    here, again, pool = np.zeros(1, np.int64), np.zeros(1, np.int64), thread_pool._shared_pool()
    pool.away = away
    alone = [(until_asleep, pool.table, False), (nothing, here, False)]
    launches_X = launches_of(*[(nothing, here, True)] * 3, *alone, (meet, here, True), *alone, (meet, again, True))
    thread_pool.launch_all(launches_X, (here, again))
    assert here[0] == again[0] == 2 and pool.away == 0


def test_a_wait_counts_by_its_share_of_the_time(three_threads, monkeypatch):
    """As in `parallel_for`: tasks that take long are no stall."""
    noted, here = [], np.zeros(1, np.int64)
    monkeypatch.setattr(ThreadPool, "adapt_to_wait", lambda self, looks, seconds: noted.append(seconds))
    thread_pool._shared_pool().patience = -1  # each shared launch ends the call
    thread_pool.launch_all(launches_of(*[(nothing, here, True)] * 3), (here,))
    assert len(noted) == 3 and all(seconds > 0 for seconds in noted)
