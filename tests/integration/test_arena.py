"""Planned memory: the same texts from a poisoned arena, no array allocated in a step, and refusals before a start."""

import dataclasses
import inspect
import json
import sys
import tracemalloc
from collections import Counter

import numpy as np
import pytest
from taken_bytes import lesser
from test_attention_settings import IDS, SIZES, make, random_tensors
from test_caches import SEARCHES, tokens
from test_gpu_families import FORWARD_PASSES, TOYS
from test_gpu_families import IDS as IDS_OF_TOYS

import minidecode as md
from minidecode.cache import queries
from minidecode.methods import memory as memory_file
from minidecode.models import FAMILIES
from minidecode.plan import CACHES
from minidecode.reference.common import attention
from minidecode.runtime import arena as arena_file
from minidecode.runtime.arena import Places
from minidecode.runtime.engine import Engine
from minidecode.runtime.planner import find_collision
from minidecode.search import dry_run as dry_run_file

MORE = [*IDS, [17], [8, 9, 10, 11, 12, 13, 14, 15]]  # of different lengths; EOS is 1, and some end early
GREEDY, BEAM = {}, {"num_beams": 4, "no_repeat_ngram_size": 3}
NARROW = [f"{name},cache_dtype=float16" for name in CACHES if name != "none"]  # as plans say it, behind "cache="


def made_for(kind, cache, **fields):
    """A model that this cache is for: the rolling one needs a window."""
    return make(kind, attention_window=4 if cache.startswith("rolling") else None, **fields)


class Poisoned(Places):
    """All is NaN when a step begins, and each array again when the next op begins after its last read."""

    def begin_section(self, section, reads=None):
        super().begin_section(section, reads)
        if section == "reorder":
            self.buffer[...] = 255  # of floats, a NaN

    def run_op(self, name, function, args, kwargs):
        if self._section is not None:
            layout = self.plan.layout
            for a, offset in zip(layout.lifetimes, layout.offsets, strict=True):
                if a.last == self.now:  # of the op before: NumPy may have read it until now
                    self.buffer[offset : offset + a.bytes] = 255
        return super().run_op(name, function, args, kwargs)


@pytest.fixture
def poisoned(monkeypatch):
    monkeypatch.setattr(arena_file, "Places", Poisoned)


def same(a, b) -> bool:
    return tokens(a) == tokens(b) and np.array_equal(a.scores, b.scores)


@pytest.mark.parametrize("kind", ["gpt2", "bart"])
@pytest.mark.parametrize("cache", CACHES)
@pytest.mark.parametrize("options", [GREEDY, BEAM, *SEARCHES], ids=str)
def test_a_poisoned_arena_gives_the_same_texts(kind, cache, options, poisoned):
    """To the last bit: the same ops run, elsewhere."""
    model = made_for(kind, cache)
    settings = {"input_ids": MORE, "max_new_tokens": 11, "length_penalty": 0.4} | options
    expected = model.generate(plan=f"cache={cache}", **settings)
    for choice in ("planned", "separate"):
        out = model.generate(plan=f"cache={cache},arena={choice}", **settings)
        assert same(out, expected)
        assert out.receipt.steps == expected.receipt.steps
        assert {n: c.calls for n, c in out.receipt.ops.items()} == {n: c.calls for n, c in expected.receipt.ops.items()}


@pytest.mark.parametrize(("kind", "cache"), [
    (kind, cache) for kind in FORWARD_PASSES for cache in CACHES
    if cache != "rolling" and (kind, cache) not in (("llama", "el"), ("gpt2_latent", "el"))  # which are refused
])  # fmt: skip
def test_a_poisoned_arena_gives_the_same_texts_in_every_family(kind, cache, poisoned, tmp_path, monkeypatch):
    """To the last bit, too. NumPy reads what ops have made in some forward passes: plans must know."""
    for name in ("layers", "n_layer"):
        monkeypatch.setitem(TOYS.SIZES, name, 2)  # what the first makes lives when the second one begins
    (tmp_path / "config.json").write_text(json.dumps(TOYS.toy_fields(kind)), encoding="utf-8")
    model = md.load(tmp_path, random_weights=True)
    for most_keys in {queries.MOST_KEYS, 5} if model.weights.query_ND is not None else {1}:  # 5: copied in groups
        monkeypatch.setattr(queries, "MOST_KEYS", most_keys)
        for options in (GREEDY, {"num_beams": 2}):
            settings = {"input_ids": IDS_OF_TOYS, "max_new_tokens": 4, "no_repeat_ngram_size": 0} | options
            expected = model.generate(plan=f"cache={cache}", **settings)
            assert same(model.generate(plan=f"cache={cache},arena=planned", **settings), expected)


@pytest.mark.parametrize("keep", ["logits", "scores", "token_scores"])
@pytest.mark.parametrize("arena", ["planned", "separate"])
def test_what_is_kept_is_no_part_of_a_planned_step(keep, arena, poisoned):
    """Candidates come straight from the logits: log-probabilities are computed for the caller alone."""
    model, settings = make("gpt2"), {"input_ids": MORE, "max_new_tokens": 6, "num_beams": 2, "keep": keep}
    out = model.generate(plan=f"cache=split,hars=reference,arena={arena}", **settings)
    expected = model.generate(plan="cache=split,hars=reference", **settings)
    assert same(out, expected)
    mine, other = getattr(out.kept, keep), getattr(expected.kept, keep)
    assert len(mine) == len(other) > 0 and all(map(np.array_equal, mine, other))
    assert "log_softmax" not in out.receipt.ops


@pytest.mark.parametrize("dialect", ["hf4", "fairseq"])
@pytest.mark.parametrize("options", [
    {"no_repeat_ngram_size": 2}, {"num_beams": 3}, {"num_beams": 4, "num_beam_groups": 2, "diversity_penalty": 0.7},
    {"num_beams": 3, "sibling_penalty": 0.3}, {"do_sample": True, "num_return_sequences": 2},
], ids=str)  # fmt: skip
def test_in_other_dialects(dialect, options, poisoned):
    model = make("gpt2")
    settings = {"input_ids": MORE, "max_new_tokens": 9, "dialect": dialect} | options
    out = model.generate(plan="cache=split,arena=planned", trace=True, **settings)
    expected = model.generate(plan="cache=split", trace=True, **settings)
    assert same(out, expected) and out.trace.as_list() == expected.trace.as_list()


@pytest.mark.parametrize("options", [
    {}, {"min_new_tokens": 4}, {"forced_eos_token_id": 1}, {"dialect": "fairseq"}, {"max_new_tokens": 2},
    {"dialect": "ctranslate2", "min_new_tokens": 4},
    {"dialect": "fairseq", "temperature": 0.7}, {"eos_token_id": None, "max_new_tokens": 3},
], ids=str)  # fmt: skip
@pytest.mark.parametrize("kind", ["gpt2", "bart"])
@pytest.mark.parametrize("hars", ["reference", "cpu"])
def test_a_search_that_goes_straight_at_some_steps(kind, hars, options, poisoned):
    """Candidates straight from the logits where no processor has anything to do: two ways to go on from a step."""
    model, plan = make(kind), f"cache=split,hars={hars}"
    settings = {"max_new_tokens": 9, "num_beams": 3} | options
    expected = model.generate(input_ids=MORE, plan=plan, **settings)
    for choice in ("planned", "separate"):
        out = model.generate(input_ids=MORE, plan=f"{plan},arena={choice}", **settings)
        assert same(out, expected)
        assert {n: c.calls for n, c in out.receipt.ops.items()} == {n: c.calls for n, c in expected.receipt.ops.items()}
    both = {"hars_candidates", "log_softmax"} <= set(out.receipt.ops)
    assert both == any(name in options for name in ("min_new_tokens", "forced_eos_token_id", "dialect"))
    step = model.plan_step(plan=plan, input_length=8, batch_size=4, **settings)
    begin = 1 if "temperature" in options else 0  # which both ways have in common
    assert [way[begin].op for way in step.calls["search"]] == ["log_softmax", "hars_candidates"]
    assert find_collision(step.layout) is None


def test_with_functions_of_the_users_own_and_rules_that_narrow_the_rows(poisoned, tmp_path):
    """A processor that returns arrays of its own; renormalize_logits, which leaves out rows with nothing possible."""
    (tmp_path / "mine.py").write_text("from minidecode.reference.ngram import ban_ngrams as ban\n", encoding="utf-8")
    model, kept = make("gpt2"), []

    def mine(scores_RV, rows):
        kept.append(np.where(np.arange(40) == 7, scores_RV + 1, scores_RV))
        return kept[-1]

    settings = {"input_ids": MORE, "max_new_tokens": 9, "no_repeat_ngram_size": 1, "renormalize_logits": True,
                "logits_processor": mine}  # fmt: skip
    for options in (GREEDY, {"num_beams": 3}):
        expected = model.generate(**settings, **options)
        before = [k.copy() for k in kept]
        kept.clear()
        for norm in ("reference", "naive", "cpu"):
            plan = f"arena=planned,norm={norm},ngram={tmp_path / 'mine.py'}:ban"
            out = model.generate(plan=plan, **settings, **options)
            assert tokens(out) == tokens(expected)
        assert all(np.array_equal(a, b) for a, b in zip(before, kept, strict=False)), "what a user keeps stays as it is"
        kept.clear()


def test_kernels_write_into_the_arena(poisoned):
    """In the emulator, which looks at every access."""
    model = md.load("tiny-gpt2")
    options = {"max_new_tokens": 3, "no_repeat_ngram_size": 2}
    prompt = "Our army and our navy"
    out = model.generate(prompt, plan="arena=planned,norm=emulator,ngram=emulator", **options)
    assert tokens(out) == tokens(model.generate(prompt, plan="norm=emulator,ngram=emulator", **options))
    assert out.receipt.launches == {"norm_kept (emulator)": 36, "block_per_row_staged (emulator)": 3}


@pytest.mark.parametrize("cache", CACHES)
def test_long_prompts_beside_short_ones_that_grow(cache, poisoned):
    """The longest prompt and the most new tokens are not those of one text: together they go beyond the context."""
    model, ids = made_for("gpt2", cache), [list(range(22)), [5], [7] * 12]
    for options in (GREEDY, {"num_beams": 3}):
        settings = {"input_ids": ids, "eos_token_id": None} | options  # up to the context, by default
        out = model.generate(plan=f"cache={cache},arena=planned", **settings)
        assert same(out, model.generate(plan=f"cache={cache}", **settings))
        assert [len(t) for t in out.token_ids] == [3, 24, 13]


# ---- a plan made once, and its arena ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["gpt2", "bart"])
@pytest.mark.parametrize("cache", [*CACHES, *NARROW])
@pytest.mark.parametrize("options", [GREEDY, BEAM], ids=str)
def test_requests_within_a_plan_keep_to_it(kind, cache, options, poisoned, monkeypatch):
    """Fewer and shorter texts than planned, and fewer new tokens: no other dry run, and the same texts.

    A narrow cache is widened by blocks, here by tiny ones: how many there are changes with every step.
    """
    monkeypatch.setattr(attention, "CACHED", 50)
    model, plan = made_for(kind, cache), f"cache={cache}"
    step = model.plan_step(batch_size=5, input_length=9, max_new_tokens=12, plan=plan, **options)
    assert find_collision(step.layout) is None
    arena = md.Arena(step)
    for ids, new in [(MORE, 11), (IDS, 12), ([[5, 6, 7]], 3), ([[5]], 1), ([*MORE, [9] * 9], 2)]:
        settings = {"input_ids": ids, "max_new_tokens": new, "plan": plan} | options
        out = model.generate(arena=arena, **settings)
        assert same(out, model.generate(**settings))
        assert out.receipt.arena_bytes == arena.bytes == step.bytes
    assert arena.plans == [step]


def test_models_share_an_arena_in_turn(poisoned):
    """As eight do on one card in the paper: it is as large as the largest of them."""
    models = [make("gpt2"), make("bart"), make("gpt2", n_layer=1), make("bart", num_key_value_heads=1)]
    plans = [m.plan_step(batch_size=4, input_length=9, max_new_tokens=8, num_beams=3) for m in models]
    arena = md.Arena(*plans)
    assert arena.bytes == max(p.bytes for p in plans) < sum(p.bytes for p in plans)
    for model in models * 2:
        settings = {"input_ids": MORE, "num_beams": 3, "max_new_tokens": 8}
        assert same(model.generate(arena=arena, **settings), model.generate(**settings))
    assert arena.plans == plans


def test_an_arena_is_made_of_plans():
    with pytest.raises(md.OptionError, match="made of plans of plan_step, not 3"):
        md.Arena(3)


def test_two_at_once_are_refused():
    model = make("gpt2")
    arena = md.Arena(model.plan_step(input_length=6, max_new_tokens=4))

    def again(row, token):
        with pytest.raises(md.OptionError, match="another generation is using this arena"):
            model.generate(input_ids=IDS[:1], max_new_tokens=4, arena=arena)

    settings = {"input_ids": IDS[:1], "max_new_tokens": 4, "arena": arena}
    first = model.generate(streamer=again, **settings)
    assert same(first, model.generate(**settings)), "afterwards it is free again"


def test_a_request_beyond_the_plan_is_refused_before_it_starts(monkeypatch):
    model = make("gpt2")
    arena = md.Arena(model.plan_step(batch_size=2, input_length=6, max_new_tokens=8, num_beams=2))
    needed = model.plan_step(batch_size=4, input_length=8, max_new_tokens=11, num_beams=2).bytes
    says = rf"a step of 4 x \(prompts of 8 and 11 new tokens\) needs {needed:,} bytes .* has {arena.bytes:,} available"
    with monkeypatch.context() as patch:
        ran = []
        for stage in ("prefill", "expand", "step"):
            method = getattr(Engine, stage)
            patch.setattr(Engine, stage, lambda self, *a, _method=method: (ran.append(self), _method(self, *a))[1])
        with pytest.raises(md.MemoryBudgetError, match=says):
            model.generate(input_ids=MORE, max_new_tokens=11, num_beams=2, arena=arena)
    assert all(isinstance(engine.network, dry_run_file._Hollow) or engine.caches for engine in ran)
    assert len({id(engine) for engine in ran}) == 1, "the dry run's, and no other"
    settings = {"input_ids": IDS, "max_new_tokens": 8, "num_beams": 2}
    assert same(model.generate(arena=arena, **settings), model.generate(**settings))


def test_what_is_not_planned_but_fits_is_planned_and_remembered():
    """Another search, another cache: what counts is the bytes."""
    model = make("gpt2")
    arena = md.Arena(model.plan_step(batch_size=4, input_length=8, max_new_tokens=11, num_beams=4))
    for _ in range(2):
        settings = {"input_ids": IDS, "max_new_tokens": 5, "plan": "cache=split"}
        out = model.generate(arena=arena, **settings)
        assert same(out, model.generate(**settings))
        assert out.receipt.plan == "cache=split,arena=planned"
    assert len(arena.plans) == 2


def test_the_plan_on_the_receipt():
    model = make("gpt2")
    settings = {"input_ids": MORE, "max_new_tokens": 5, "num_beams": 2}
    planned, separate = (model.generate(plan=f"arena={a}", **settings).receipt for a in ("planned", "separate"))
    step = model.plan_step(batch_size=4, input_length=8, max_new_tokens=5, num_beams=2)
    assert planned.arena_bytes == step.layout.bytes and separate.arena_bytes == step.layout.separate_bytes
    assert f"arena of {step.bytes:,} bytes" in str(planned) and "plan" in planned.seconds
    without = model.generate(**settings).receipt
    assert without.arena_bytes == 0 and "arena" not in str(without) and "plan" not in without.seconds


@pytest.mark.parametrize("wrong", [{"batch_size": 0}, {"input_length": 0}, {"input_length": 30}, {"plan": "arena=big"}])
def test_plans_that_cannot_be(wrong):
    with pytest.raises(md.MinidecodeError):
        make("gpt2").plan_step(**{"max_new_tokens": 4} | wrong)


def test_a_step_that_does_something_else_than_planned_says_so(monkeypatch):
    """Places handed to the wrong call would be silent nonsense."""
    model = make("gpt2")
    monkeypatch.setattr(dry_run_file, "options_of_step", lambda options: dataclasses.replace(options, max_new_tokens=2))
    monkeypatch.setattr(
        memory_file, "options_of_step", lambda options: memory_file.Options(max_new_tokens=2, min_new_tokens=1)
    )
    with pytest.raises(RuntimeError, match="a step calls ban_ngrams in its search where argmax_tokens is planned"):
        model.generate(input_ids=IDS, max_new_tokens=5, no_repeat_ngram_size=2, plan="arena=planned")


# ---- planners that are wrong, each in its own way --------------------------------------------------------------------


def one_step_early(a):
    """Its bytes are free one call before its last reader."""
    return dataclasses.replace(a, last=max(a.first, a.last - 1))


def on_top_of_arguments(a):
    """A result may lie on what its own call still reads."""
    return a if a.name.endswith("workspace") else dataclasses.replace(a, first=min(a.first + 1, a.last))


def workspace_of_nobody(a):
    """What an op needs in between may lie anywhere."""
    return dataclasses.replace(a, first=-1, last=-1) if a.name.endswith("workspace") else a


def nothing_for_the_search(a):
    """Logits are free when the last op has read them, though the search looks at them too."""
    return dataclasses.replace(a, last=a.first + 1) if a.name.startswith(("linear", "add_bias")) else a


def all_at_once(a):
    """Nothing meets anything."""
    return dataclasses.replace(a, first=a.first * 1000, last=a.first * 1000)


MUTANTS = [one_step_early, on_top_of_arguments, workspace_of_nobody, nothing_for_the_search, all_at_once]


@pytest.mark.parametrize("kind", ["gpt2", "bart"])
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: m.__name__)
def test_a_wrong_planner_is_caught_by_poison(kind, mutant, poisoned, monkeypatch):
    """In sampling, which looks at scores and log-probabilities without any op; greedy search has one for that."""
    model, settings = make(kind), {"input_ids": MORE, "max_new_tokens": 6, "plan": "cache=split,arena=planned"}
    settings |= {"do_sample": True}
    expected = model.generate(**settings)
    right = dry_run_file.lay_out

    def wrong(lifetimes, place):
        layout = right([mutant(a) for a in lifetimes], place)
        keep_true = lifetimes if mutant in (on_top_of_arguments, workspace_of_nobody, all_at_once) else layout.lifetimes
        return dataclasses.replace(layout, lifetimes=tuple(keep_true))

    monkeypatch.setattr(dry_run_file, "lay_out", wrong)
    try:
        out = model.generate(**settings)
    except (md.NumericalError, IndexError, ValueError):  # NaN scores, of which none is drawn; a poisoned index
        return
    assert not same(out, expected)


# ---- a planner of the user's own -------------------------------------------------------------------------------------

PLANNERS = """
import numpy as np
from minidecode.reference.arena import assign_offsets_first_come, assign_offsets_naive

def first_come(bytes_X, first_X, last_X):
    return assign_offsets_first_come(bytes_X, first_X, last_X)

def all_at_the_beginning(bytes_X, first_X, last_X):
    return np.zeros_like(bytes_X)

def beside_the_lines(bytes_X, first_X, last_X):
    return assign_offsets_naive(bytes_X, first_X, last_X) + 8

def with_a_hole(bytes_X, first_X, last_X):
    return 2 * assign_offsets_naive(bytes_X, first_X, last_X)

def for_fewer(bytes_X, first_X, last_X):
    return assign_offsets_naive(bytes_X, first_X, last_X)[1:]

def in_floats(bytes_X, first_X, last_X):
    return assign_offsets_naive(bytes_X, first_X, last_X) * 1.0

def narrow(bytes_X, first_X, last_X):
    return assign_offsets_naive(bytes_X, first_X, last_X).astype(np.int32)

def unsigned(bytes_X, first_X, last_X):
    return assign_offsets_naive(bytes_X, first_X, last_X).astype(np.uint64)

def objects(bytes_X, first_X, last_X):
    return assign_offsets_naive(bytes_X, first_X, last_X).astype(object)

def complex_numbers(bytes_X, first_X, last_X):
    return assign_offsets_naive(bytes_X, first_X, last_X) * 1j

def rounds_its_inputs(bytes_X, first_X, last_X):
    bytes_X += -bytes_X % 64 + 64
    return assign_offsets_naive(bytes_X, first_X, last_X) * 0

def raises(bytes_X, first_X, last_X):
    raise KeyError("gap")
"""


@pytest.fixture
def planners(tmp_path):
    (tmp_path / "mine.py").write_text(PLANNERS, encoding="utf-8")
    return tmp_path / "mine.py"


@pytest.mark.parametrize("kind", ["gpt2", "bart"])
def test_a_planner_of_the_users_own_runs_and_the_receipt_says_so(kind, planners, poisoned):
    model, settings = make(kind), {"input_ids": MORE, "num_beams": 3, "max_new_tokens": 7}
    plan = f"cache=split,arena={planners}:first_come"
    out, expected = model.generate(plan=plan, **settings), model.generate(plan="cache=split", **settings)
    assert same(out, expected) and expected.receipt.arena_placed_by == ""
    assert out.receipt.arena_placed_by == "mine.first_come (mine.py:5)" and out.receipt.plan == plan
    assert "by mine.first_come (mine.py:5)" in str(out.receipt)
    ours = model.generate(plan="cache=split,arena=planned", **settings).receipt
    assert ours.arena_placed_by.startswith("minidecode.reference.arena.assign_offsets (")
    assert out.receipt.arena_bytes >= ours.arena_bytes


@pytest.mark.parametrize(
    ("function", "says"),
    [("all_at_the_beginning", "puts .* and .* on top of each other, and some call needs both: minidecode check arena"),
     ("beside_the_lines", "at 8, which is no multiple of 64 from 0 up"), ("with_a_hole", "where a buffer for each"),
     ("for_fewer", r"gives \d+ places for \d+ arrays"), ("in_floats", "offset_X in float64 where int64 is due"),
     ("narrow", "offset_X in int32 where int64 is due"), ("unsigned", "offset_X in uint64 where int64 is due"),
     ("objects", "offset_X in object where int64 is due"),
     ("complex_numbers", "offset_X in complex128 where int64 is due"),
     ("rounds_its_inputs", "changes its inputs: minidecode check arena"),
     ("raises", "run as assign_offsets, raised KeyError: 'gap'")],
)  # fmt: skip
def test_a_planner_that_is_wrong_is_refused_before_anything_is_computed(function, says, planners, monkeypatch):
    """No prefill is run but the dry run's own, which computes nothing."""
    ran, prefill = [], Engine.prefill
    monkeypatch.setattr(Engine, "prefill", lambda self, *a: (ran.append(self.network), prefill(self, *a))[1])
    with pytest.raises(md.OptionError, match=says):
        make("gpt2").generate(input_ids=IDS, max_new_tokens=5, plan=f"arena={planners}:{function}")
    assert all(isinstance(network, dry_run_file._Hollow) for network in ran), ran


def test_a_planner_that_raises_is_not_passed_over(monkeypatch):
    """Sabotage: what is rebound is what runs."""
    from minidecode.reference import arena

    monkeypatch.setattr(arena, "assign_offsets", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        make("gpt2").generate(input_ids=IDS, max_new_tokens=5, plan="arena=planned")


# ---- nothing is allocated --------------------------------------------------------------------------------------------


class Watched(Places):
    """Notes by how much the traced memory grows at most within each op, and between one op and the next."""

    growth: dict[str, int] = {}  # noqa: RUF012 (one for all, emptied by the test)

    def begin_section(self, section, reads=None):
        self._between(f"before {section}")
        super().begin_section(section, reads)
        self._mark()

    def run_op(self, name, function, args, kwargs):
        if self._section is None:
            return super().run_op(name, function, args, kwargs)
        self._between(f"before {name}")
        self._mark()
        result = super().run_op(name, function, args, kwargs)
        self._note(name)
        self._mark()
        return result

    def _mark(self):
        tracemalloc.reset_peak()
        self.marked = tracemalloc.get_traced_memory()[0]

    def _between(self, where):
        if hasattr(self, "marked"):
            self._note(where)

    def _note(self, where):
        grown = tracemalloc.get_traced_memory()[1] - self.marked
        self.growth[where] = max(self.growth.get(where, 0), grown)


WIDE = {
    "gpt2": {"vocab_size": 8000, "n_positions": 120, "n_embd": 512},
    "bart": {"vocab_size": 8000, "max_position_embeddings": 120, "d_model": 512, "decoder_ffn_dim": 1024},
}
SLACK = 16 * 1024  # NumPy's iterators and sorts, Python's objects and what tracemalloc itself notes of them


def wide(kind, **settings):
    """A model of float32, as models are, large enough that every intermediate shows."""
    settings = WIDE[kind] | settings
    config = FAMILIES[kind].config.from_json(SIZES[kind] | settings)
    tensors = {name: data.astype(np.float32) for name, data in random_tensors(FAMILIES[kind], config).items()}
    return make(kind, tensors, **settings)


GROUPS = {"num_beams": 4, "num_beam_groups": 2, "diversity_penalty": 0.5}
INTERLEAVED = GROUPS | {"dialect": "fairseq", "eos_token_id": 1, "min_new_tokens": 7}


@pytest.mark.parametrize("kind", ["gpt2", "bart"])
@pytest.mark.parametrize("cache", ["preallocated", "split"])
@pytest.mark.parametrize("options", [GREEDY, BEAM, GROUPS], ids=str)
def test_no_array_is_allocated_in_a_step(kind, cache, options, monkeypatch):
    """Every intermediate is larger than what is let pass. Without an arena the same watch sees each of them."""
    model = wide(kind)
    sentences = 12 // options.get("num_beams", 1)
    ids = [list(range(3, 3 + n)) for n in (60, 9, 33)] * (sentences // 3)
    settings = {"input_ids": ids, "max_new_tokens": 14, "eos_token_id": None} | options
    plan = f"cache={cache},arena=planned"
    shapes = {"batch_size": sentences, "input_length": 60, "max_new_tokens": 14, "eos_token_id": None}
    step = model.plan_step(plan=plan, **shapes, **options)
    small = [a.name for a in step.layout.lifetimes if 0 < a.bytes < 1.25 * SLACK and not a.name.endswith("trouble_R")]
    # numbers for each row or candidate; the texts, where there are few and short ones
    of_rows = {"top_candidates", "update_beams", "argmax_tokens"}
    assert {name.split()[0] for name in small} <= {*of_rows, "update_sequences"}, small
    monkeypatch.setattr(arena_file, "Places", Watched)
    monkeypatch.setattr(Watched, "growth", {})

    def watched(arena):
        Watched.growth = {}
        tracemalloc.start(1)
        try:
            model.generate(plan=plan, arena=arena, **settings)
        finally:
            tracemalloc.stop()
        return (arena, Watched.growth), max(Watched.growth.values())

    buffer_size = np.setbufsize(16)  # what ufuncs copy through; no array, but in tracemalloc's peak like one
    try:
        (arena, grown), _ = lesser(lambda: watched(md.Arena(step)), SLACK)
        (unplanned, without), _ = watched(OutOfPlan(step))
    finally:
        np.setbufsize(buffer_size)
    assert len(arena.plans) == len(unplanned.plans) == 1
    assert max(grown.values()) <= SLACK, {where: n for where, n in grown.items() if n > SLACK}
    calls = [call for ways in step.calls.values() for way in ways for call in way]
    placed = {call.op for call in calls if call.results} - of_rows
    # Greedy search copies its logits where a processor is due: planned for, and here at no step.
    assert all(without[op] > SLACK for op in placed - ({"gather_rows"} - without.keys())), without


def blocks_of_arrays() -> Counter:
    """Data of arrays that are there now and hold more than 4 KiB: (bytes, file, line)."""
    only = tracemalloc.DomainFilter(True, np.lib.tracemalloc_domain)
    traces = tracemalloc.take_snapshot().filter_traces([only]).traces
    return Counter((t.size, t.traceback[0].filename, t.traceback[0].lineno) for t in traces if t.size > 4096)


@pytest.mark.parametrize("kind", ["gpt2", "bart"])
@pytest.mark.parametrize(("cache", "options"), [
    ("preallocated", BEAM), ("split", BEAM), ("indirect", BEAM), ("el", BEAM), ("rolling", BEAM),
    ("split,hars=reference", {"num_beams": 4}), ("split", {"do_sample": True}), ("split,cache_dtype=float16", BEAM),
    ("split", BEAM | {"renormalize_logits": True}), ("split", INTERLEAVED),
    ("split", {"do_sample": True, "top_p": 0.9}), ("split", {"do_sample": True, "top_k": 50, "min_p": 0.1}),
    ("split", BEAM | {"do_sample": True}),
    ("el,cache_dtype=float16", BEAM), ("indirect,cache_dtype=float16", BEAM), ("rolling,cache_dtype=float16", BEAM),
    ("split,epilogue=reference", BEAM), ("split,epilogue=cpu,linear=cpu,norm=cpu", BEAM),
], ids=str)  # fmt: skip
def test_no_block_above_4_kib_in_numpys_own_domain(kind, cache, options, monkeypatch):
    """Looked at whenever a function of C or Python has returned and memory has grown: nothing new of that size.

    What lives and dies within one function of NumPy is not seen here, and in the test above.
    """
    new, state = Counter(), {"steps": 0, "base": None}

    def look(frame, event, argument):
        if state["base"] is None or event not in ("c_call", "c_return", "return"):
            return
        if tracemalloc.get_traced_memory()[0] - state["base"] > 3500:
            state["base"] = None
            new.update((blocks_of_arrays() - state["before"]).keys())
            state["base"] = tracemalloc.get_traced_memory()[0] - 2000

    class Steps(Places):
        def begin_section(self, section, reads=None):
            state["base"] = None
            super().begin_section(section, reads)
            state["steps"] += section == "reorder"
            if "before" not in state:
                state["before"] = blocks_of_arrays()
            if 1 < state["steps"] < 6:
                state["base"] = tracemalloc.get_traced_memory()[0]

    monkeypatch.setattr(arena_file, "Places", Steps)
    model = wide(kind, attention_window=40 if cache.startswith("rolling") else None)
    ids = [list(range(3, 3 + n)) for n in (60, 9, 33)]
    tracemalloc.start(1)
    sys.setprofile(look)
    try:
        plan = f"cache={cache},arena=planned"
        model.generate(input_ids=ids, plan=plan, **{"max_new_tokens": 8, "eos_token_id": None} | options)
    finally:
        sys.setprofile(None)
        tracemalloc.stop()
    assert state["steps"] == 7
    assert not new


class OutOfPlan(md.Arena):
    """An arena whose calls get no places: NumPy finds room, as without one."""

    def __init__(self, step):
        calls = {
            section: tuple(tuple(dataclasses.replace(c, results=(), workspace=None) for c in way) for way in ways)
            for section, ways in step.calls.items()
        }
        super().__init__(dataclasses.replace(step, calls=calls))


def test_every_reference_op_of_a_step_takes_a_workspace_or_needs_none():
    """By name: to be looked at before another is added."""
    from minidecode import reference
    from minidecode.plan import functions_of_backend

    takes = {
        name for name, f in functions_of_backend(reference).items() if "workspace" in inspect.signature(f).parameters
    }
    assert takes == {"append_kv", "linear", "linear_epilogue", "linear_int8", "project_cross_kv", "attend",
                     "attend_shared", "attend_split", "attend_indirect", "attend_rolling", "attend_el",
                     "attend_paged", "append_paged",
                     "attend_el_split", "bias_activation", "rotate_heads", "reorder_cache", "update_indirection",
                     "update_sequences", "log_softmax", "argmax_tokens",
                     "top_candidates", "hars_candidates", "top_k_filter", "top_p_filter", "sample_tokens",
                     "gumbel"}  # fmt: skip


@pytest.mark.parametrize("beams", [1, 2])
def test_a_dry_run_forbids_no_end_of_text_by_its_own_texts(beams):
    """fairseq, which forces an EOS at the limit, and a ban of single tokens: the dry run's texts hold no EOS."""
    model = make("gpt2")
    options = {"dialect": "fairseq", "no_repeat_ngram_size": 1, "num_beams": beams, "max_new_tokens": 5}
    plain, planned = (model.generate(input_ids=[[3, 9, 27]], plan=plan, **options) for plan in
                      ("cache=split", "cache=split,arena=planned"))  # fmt: skip
    assert [t.tolist() for t in plain.token_ids] == [t.tolist() for t in planned.token_ids]
