"""Planned memory on a device: NumPy's tokens out of a poisoned arena, next to nothing made beside it, and refusals.

The device is emulated, and models are toys, as in test_device.py.
"""

import dataclasses

import numpy as np
import pytest
from test_arena import Poisoned
from test_device import IDS, SEARCHES, make, prompts_by_the_library, same

import minidecode as md
from minidecode.cuda import activation, linear
from minidecode.device.arrays import address_of
from minidecode.emulator.device_array import counted_arrays
from minidecode.errors import OptionError
from minidecode.methods import memory as memory_file
from minidecode.runtime import arena as arena_file
from minidecode.runtime.arena import Places
from minidecode.search import dry_run as dry_run_file

__all__ = ["prompts_by_the_library"]  # a fixture
pytestmark = pytest.mark.usefixtures("prompts_by_the_library")
BEAM = {"num_beams": 2, "max_new_tokens": 5, "eos_token_id": None}


@pytest.fixture
def poisoned(monkeypatch):
    monkeypatch.setattr(arena_file, "Places", Poisoned)


def planned(plan):
    return ",".join(part for part in ("cuda", plan, "arena=planned") if part)


def on_the_host(plan):
    cache = "" if "cache=" in plan else "cache=split"
    return ",".join(part for part in ("numpy", cache, plan.replace("cuda", "reference")) if part)


@pytest.mark.parametrize(("kind", "plan", "options"), SEARCHES, ids=str)
def test_a_poisoned_arena_gives_the_tokens_of_numpy(kind, plan, options, poisoned, monkeypatch):
    """Captured parts are poisoned too: what is written there while one is captured is on its tape."""
    if options.get("num_beams") == 4:  # eight rows, which kernels multiply, or nothing would be captured
        monkeypatch.setattr(linear, "LIBRARY_FROM", dict.fromkeys(linear.LIBRARY_FROM, 9))
    how = {"input_ids": IDS, "max_new_tokens": 4} | options
    there = make(kind, "emulator").generate(plan=planned(plan), **how)
    same(make(kind, "cpu").generate(plan=on_the_host(plan), **how), there)
    assert there.receipt.arena_bytes > 0 and "arena=planned" in there.receipt.plan


def test_the_memory_of_local_attention(poisoned):
    here, there = (make("gpt2", device, attention_window=3) for device in ("cpu", "emulator"))
    same(here.generate(input_ids=IDS, plan="numpy,cache=rolling", **BEAM),
         there.generate(input_ids=IDS, plan="cuda,cache=rolling,arena=planned", **BEAM))  # fmt: skip


@pytest.mark.parametrize("dtype", ["float16", "int8"])
def test_products_of_the_library_widen_narrow_weights_in_the_arena(dtype, poisoned, monkeypatch):
    monkeypatch.setattr(linear, "LIBRARY_FROM", dict.fromkeys(linear.LIBRARY_FROM, 1))
    here, there = (make("gpt2", device, dtype=dtype) for device in ("cpu", "emulator"))
    out = there.generate(input_ids=IDS, plan="cuda,arena=planned", **BEAM)
    same(here.generate(input_ids=IDS, plan="numpy,linear=rounded", **BEAM), out)
    assert any(name.startswith("product of the library") for name in out.receipt.launches)


@pytest.mark.parametrize("graphs", ["off", "on"])
def test_the_dry_run_is_not_on_the_receipt(graphs):
    model, short = make("gpt2", "emulator"), BEAM | {"max_new_tokens": 3}
    how = [model.generate(input_ids=IDS, plan=f"cuda,graphs={graphs},arena={a}", **short).receipt
           for a in ("none", "planned", "separate")]  # fmt: skip
    assert how[0].launches == how[1].launches == how[2].launches
    assert all((receipt.graphs.launches > 0) == (graphs == "on") for receipt in how)
    assert how[1].graphs == how[2].graphs, "with an arena the parts of a step are captured, not the whole"
    assert [{name: count.calls for name, count in r.ops.items()} for r in how[1:]] == [
        {name: count.calls for name, count in how[0].ops.items()}] * 2  # fmt: skip
    assert 0 == how[0].arena_bytes < how[1].arena_bytes < how[2].arena_bytes


def test_functions_of_the_host_write_into_the_arena(poisoned, tmp_path):
    """On copies, as without one: no room of the device is lent to them."""
    (tmp_path / "mine.py").write_text("from minidecode.reference.norm import residual_norm as norm\n")
    how = BEAM | {"input_ids": IDS, "no_repeat_ngram_size": 2}
    plan = f"graphs=off,ngram=naive,candidates=reference,activation=cpu,norm={tmp_path / 'mine.py'}:norm"
    same(
        make("gpt2", "cpu").generate(plan="numpy", **how), make("gpt2", "emulator").generate(plan=planned(plan), **how)
    )


# ---- what a step makes beside the arena ------------------------------------------------------------------------------

OF_A_ROW = 16  # bytes of each row: positions, parents, keys; for 256 rows that is 4 KiB


def made_in_steps(monkeypatch, model, plan, options) -> list[int]:
    """Bytes of the arrays that a generation makes on the device from its first step on."""

    def watched(kind):
        class Watched(kind):
            def begin_section(self, section, reads=None):
                super().begin_section(section, reads)
                if section == "reorder" and not self.has_begun:
                    made.clear()
                    self.has_begun = True

            has_begun = False

        return Watched

    for name in ("Places", "Fresh"):
        monkeypatch.setattr(arena_file, name, watched(getattr(arena_file, name)))
    monkeypatch.setattr(memory_file, "Fresh", arena_file.Fresh)
    with counted_arrays() as made:
        model.generate(input_ids=IDS, plan=plan, **options)
    monkeypatch.undo()
    return made


WIDE = {"gpt2": {"n_embd": 16}, "bart": {"d_model": 16}}  # so that every intermediate is more than that


SEARCHES_IN_ARENAS = [
    ("gpt2", "cache=split", {}),
    ("gpt2", "cache=split", {"num_beams": 2, "no_repeat_ngram_size": 2}),
    ("gpt2", "cache=split,hars=cuda", {"num_beams": 2}),
    ("gpt2", "cache=split,epilogue=cuda", {"do_sample": True, "temperature": 0.7, "top_k": 5, "top_p": 0.9}),
    ("gpt2", "cache=indirect", {"num_beams": 2}),
    ("gpt2", "cache=preallocated", {"num_beams": 2}),
    ("gpt2", "cache=el", {"num_beams": 2, "do_sample": True}),
    ("bart", "cache=split", {"num_beams": 2}),
    ("bart", "cache=el,cache_dtype=float16", {"num_beams": 2}),
]


@pytest.mark.parametrize(
    ("kind", "plan", "options", "graphs"),
    [
        *((*case, "off") for case in SEARCHES_IN_ARENAS),
        *(
            (*SEARCHES_IN_ARENAS[at], "on") for at in (1, 7)
        ),  # captured once, which hides nothing: they are the same calls
    ],
    ids=str,
)
def test_next_to_nothing_is_made_beside_the_arena(kind, plan, options, graphs, monkeypatch):
    """What is kept for each row apart."""
    model, plan = make(kind, "emulator", **WIDE[kind]), f"cuda,{plan},graphs={graphs}"
    options = {"max_new_tokens": 4, "eos_token_id": None} | options
    made = made_in_steps(monkeypatch, model, f"{plan},arena=planned", options)
    assert made and max(made) <= OF_A_ROW * len(IDS) * options.get("num_beams", 1), sorted(set(made))


@pytest.mark.parametrize("kind", ["gpt2", "bart"])
@pytest.mark.parametrize("graphs", ["off", "on"])
def test_without_an_arena_the_same_watch_sees_the_logits(kind, graphs, monkeypatch):
    model, options = make(kind, "emulator", **WIDE[kind]), {"num_beams": 2, "max_new_tokens": 3, "eos_token_id": None}
    made = made_in_steps(monkeypatch, model, f"cuda,graphs={graphs}", options)
    assert len(IDS) * 2 * model.config.vocab_size * 4 in made


def test_a_launcher_that_finds_room_of_its_own_is_seen(monkeypatch):
    model, right = make("gpt2", "emulator", **WIDE["gpt2"]), activation.bias_activation

    def with_a_copy(f_RF, bias_F, activation, out=None):
        return right(f_RF.copy(), bias_F, activation, out)

    options = {"max_new_tokens": 4, "eos_token_id": None}
    with monkeypatch.context() as patch:
        with_a_copy.__module__ = right.__module__
        patch.setattr(activation, "bias_activation", with_a_copy)
        made = made_in_steps(patch, model, "cuda,graphs=off,arena=planned", options)
    assert max(made) > OF_A_ROW * len(IDS)


# ---- captured steps --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "cache"), [("gpt2", "split"), ("bart", "el")])
def test_a_call_has_the_same_place_at_every_step(kind, cache, monkeypatch):
    """So a part of a step that was captured once goes on writing where its plan says."""
    places, steps = {}, []

    class Noted(Places):
        def begin_section(self, section, reads=None):
            super().begin_section(section, reads)
            steps.append(section)

        def run_op(self, name, function, args, kwargs):
            def called(*given, workspace=None, **named):
                lent = []

                def noted(shape, dtype):
                    lent.append(workspace(shape, dtype))
                    return lent[-1]

                out = named.get("out", ())
                result = function(*given, **named, **({"workspace": noted} if workspace else {}))
                for i, array in enumerate([*(out if isinstance(out, tuple) else (out,)), *lent]):
                    if array is not None:
                        places.setdefault((steps[-1], self.now, i), set()).add(address_of(array))
                return result

            return super().run_op(name, called, args, kwargs)

    monkeypatch.setattr(arena_file, "Places", Noted)
    make(kind, "emulator").generate(input_ids=IDS, plan=f"cuda,graphs=off,cache={cache},arena=planned", **BEAM)
    assert steps.count("forward") == 4 and len(places) > 20
    assert all(len(addresses) == 1 for addresses in places.values())


def test_sentences_that_leave_take_the_beginnings_of_places(poisoned):
    """Parts are captured anew then, over fewer rows of the same arena."""
    how = {"input_ids": [*IDS, [7]], "num_beams": 2, "max_length": 8, "eos_token_id": None}
    here, there = make("gpt2", "cpu"), make("gpt2", "emulator")
    out = there.generate(plan="cuda,drop_finished=on,arena=planned", **how)
    same(here.generate(plan="numpy,cache=split", **how), out)
    assert out.receipt.rows < 2 * 3 * (out.receipt.steps - 1) and out.receipt.graphs.launches > 0


# ---- an arena for several requests and models ------------------------------------------------------------------------


def test_models_share_an_arena_in_turn(poisoned):
    """And requests within a plan keep to it: no other dry run."""
    models = [make("gpt2", "emulator"), make("bart", "emulator")]
    plans = [m.plan_step(batch_size=2, input_length=5, **BEAM) for m in models]
    arena = md.Arena(*plans)
    assert arena.device == "emulator" and arena.bytes == max(plan.bytes for plan in plans)
    for ids in (IDS, IDS[1:]):
        for model, kind in zip(models, ("gpt2", "bart"), strict=True):
            out = model.generate(input_ids=ids, arena=arena, **BEAM)
            same(make(kind, "cpu").generate(input_ids=ids, plan="numpy,cache=split", **BEAM), out)
            assert out.receipt.plan == "cuda,cache=split,arena=planned"
    assert arena.plans == plans


@pytest.mark.parametrize(("arenas", "models"), [("cpu", "emulator"), ("emulator", "cpu")])
def test_an_arena_of_elsewhere_is_refused(arenas, models):
    arena = md.Arena(make("gpt2", arenas).plan_step(input_length=5, max_new_tokens=3))
    with pytest.raises(OptionError, match=f"the arena is for device={arenas}, and this model lies on device={models}"):
        make("gpt2", models).generate(input_ids=IDS, max_new_tokens=3, arena=arena)


def test_plans_of_two_devices_share_no_arena():
    plans = [make("gpt2", device).plan_step(input_length=5, max_new_tokens=3) for device in ("cpu", "emulator")]
    with pytest.raises(OptionError, match="device=cpu and device=emulator share no buffer"):
        md.Arena(*plans)


# ---- planners that are wrong -----------------------------------------------------------------------------------------


def test_a_planner_that_lets_two_live_arrays_overlap_is_refused(tmp_path):
    (tmp_path / "mine.py").write_text("def place(bytes_X, first_X, last_X):\n    return 0 * bytes_X\n")
    with pytest.raises(OptionError, match="on top of each other, and some call needs both"):
        make("gpt2", "emulator").generate(input_ids=IDS, max_new_tokens=3, plan=f"cuda,arena={tmp_path}/mine.py:place")


@pytest.mark.parametrize("graphs", ["off", "on"])
def test_lifetimes_that_end_too_early_are_caught_by_poison(graphs, poisoned, monkeypatch):
    """Nobody can refuse them: by what the planner is told, no two that live together overlap."""
    model, right = make("gpt2", "emulator"), dry_run_file.lay_out
    how = {"input_ids": IDS, "plan": f"cuda,graphs={graphs},arena=planned"} | BEAM
    expected = model.generate(**how)

    def one_step_early(lifetimes, place):
        return right([dataclasses.replace(a, last=max(a.first, a.last - 1)) for a in lifetimes], place)

    monkeypatch.setattr(dry_run_file, "lay_out", one_step_early)
    try:
        out = model.generate(**how)
    except (md.NumericalError, IndexError, ValueError):  # NaN scores; a poisoned index
        return
    assert not np.array_equal(out.scores, expected.scores)
