"""Products that end in bias, activation and residual: the same texts as without, whatever runs, and nothing unasked."""

import numpy as np
import pytest
from test_arena import Poisoned
from test_attention_settings import make
from test_caches import tokens
from toy_folder import write_bart_folder

import minidecode as md
from minidecode.plan import CACHES, Plan
from minidecode.runtime import arena as arena_file

IDS = [[1, 2, 3, 4], [5, 6], [7, 8, 9]]
CHOICES = {"reference": "reference", "naive": "reference", "cpu": "cpu", "emulator": "cuda"}  # and where they stand
DTYPES = ("float32", "float16", "int8")
PROMPTS = ["The Congress of the United States", "Our army and our navy have"]


@pytest.fixture
def poisoned(monkeypatch):
    """All of an arena is NaN, but for what somebody will still read."""
    monkeypatch.setattr(arena_file, "Places", Poisoned)


@pytest.fixture(params=["gpt2", "bart"])
def folder(request, tiny_folder, tmp_path):
    return tiny_folder() if request.param == "gpt2" else write_bart_folder(tmp_path / "toy-bart")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("arena", ["none", "planned"])
def test_toys_say_the_same(folder, dtype, arena, poisoned):
    model, options = md.load(folder, dtype=dtype), {"input_ids": IDS[:2], "num_beams": 2, "max_new_tokens": 4}
    expected = model.generate(plan="cache=split", **options)
    for choice, place in CHOICES.items():
        out = model.generate(plan=f"cache=split,arena={arena},epilogue={choice},norm={choice}", **options)
        assert tokens(out) == tokens(expected) and np.abs(out.scores - expected.scores).max() < 1e-4, choice
        ran = out.receipt.ops["linear_epilogue"]
        assert ran.implementation.startswith(f"minidecode.{place}.epilogue.linear_epilogue")
        assert "bias_activation" not in out.receipt.ops and ran.calls > out.receipt.steps
        assert bool(out.receipt.launches) == (choice == "emulator")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["tiny-gpt2", "tiny-bart"])
def test_trained_models_say_the_same(name, dtype, poisoned):
    model, options = md.load(name, dtype=dtype), {"num_beams": 4, "max_new_tokens": 12, "no_repeat_ngram_size": 3}
    expected = model.generate(PROMPTS, **options)
    for plan in ("epilogue=reference", "epilogue=naive", "cache=split,epilogue=cpu,linear=cpu,norm=cpu",
                 "cache=none,epilogue=cpu", "cache=split,arena=planned,epilogue=cpu,linear=cpu,norm=cpu",
                 "cache=el,arena=planned,epilogue=reference"):  # fmt: skip
        assert tokens(model.generate(PROMPTS, plan=plan, **options)) == tokens(expected), plan


@pytest.mark.parametrize("kind", ["gpt2", "bart"])
@pytest.mark.parametrize("cache", CACHES)
def test_with_every_memory_and_arena(kind, cache, poisoned):
    """Nobody holds the residual stream where a product changes it: not the caches, and no call of a plan's."""
    model = make(kind, attention_window=4 if cache == "rolling" else None)
    options = {"input_ids": IDS, "num_beams": 3, "max_new_tokens": 8}
    expected = model.generate(plan=f"cache={cache}", **options)
    for choice in ("reference", "cpu"):
        outs = [
            model.generate(plan=f"cache={cache},arena={arena},epilogue={choice},norm={choice}", **options)
            for arena in ("none", "planned", "separate")
        ]
        assert all(tokens(out) == tokens(expected) for out in outs)
        assert all(np.array_equal(out.scores, outs[0].scores) for out in outs)


def test_a_plan_has_one_residual_stream_where_products_add_to_it():
    """GPT-2's x stays in one place from the embedding to the last layer; else each norm makes another."""
    model = make("gpt2")
    plans = [
        model.plan_step(plan=f"cache=split,arena=planned,epilogue={choice}", batch_size=2, input_length=4, num_beams=2)
        for choice in ("off", "reference")
    ]
    streams = [[a for a in plan.layout.lifetimes if a.name.endswith(": x_RD")] for plan in plans]
    layers = model.config.layers
    assert [len(found) for found in streams] == [1 + 2 * layers, 1]
    assert streams[1][0].last - streams[1][0].first > 4 * layers


@pytest.mark.parametrize("kind", ["gpt2", "bart"])
def test_what_runs_in_a_layer_is_counted(kind):
    """A layer's ops, from what a model of two layers calls beyond one of one."""
    counts = []
    for layers in (1, 2):
        settings = {"n_layer": layers} if kind == "gpt2" else {"decoder_layers": layers, "encoder_layers": 1}
        receipt = make(kind, **settings).generate(input_ids=IDS[:1], plan="epilogue=cpu", max_new_tokens=1).receipt
        counts.append({name: c.calls for name, c in receipt.ops.items()})
    more = {name: counts[1][name] - counts[0][name] for name in ("linear", "linear_epilogue", "residual_norm")}
    assert more == ({"linear": 1, "linear_epilogue": 3, "residual_norm": 2} if kind == "gpt2" else
                    {"linear": 2, "linear_epilogue": 4, "residual_norm": 3})  # fmt: skip


def test_it_is_off_unless_it_is_asked_for():
    assert Plan().epilogue == "off" and "linear_epilogue" not in Plan().resolve()[0]
    receipt = make("gpt2").generate(input_ids=IDS, max_new_tokens=2).receipt
    assert "linear_epilogue" not in receipt.ops and "bias_activation" in receipt.ops


@pytest.mark.parametrize("choice", ["cpu", "naive", "emulator", "mine.py:f"])
def test_an_activation_that_would_never_run_is_refused(choice):
    with pytest.raises(md.OptionError, match=f"activation={choice} has no effect with epilogue=cpu: leave one of the"):
        Plan.parse(f"epilogue=cpu,activation={choice}")
    assert Plan.parse(f"epilogue=off,activation={choice}").activation == choice


def test_a_function_of_the_users_own_runs_as_the_epilogue(tmp_path):
    path = tmp_path / "mine.py"
    source = "from minidecode.reference.epilogue import linear_epilogue_naive as {}\n"
    path.write_text(source.format("mine"), encoding="utf-8")
    model, options = make("bart"), {"input_ids": IDS, "max_new_tokens": 4}
    out = model.generate(plan=f"epilogue={path}:mine", **options)
    assert tokens(out) == tokens(model.generate(**options))
    path.write_text("def mine(x_RX, weight, activation=None, add_to=None):\n    raise KeyError('no')\n", "utf-8")
    with pytest.raises(md.OptionError, match=r"mine.py:mine, run as linear_epilogue, raised KeyError"):
        model.generate(plan=f"epilogue={path}:mine", **options)


@pytest.mark.parametrize("kind", ["gpt2", "bart"])
def test_the_logits_of_whole_texts_are_the_same(kind):
    """Many rows, and no step: `logits` and `score` go through the same forward passes."""
    model = make(kind)
    given = {"input_ids": IDS} | ({"decoder_input_ids": IDS} if kind == "bart" else {})
    plain = model.logits(**given)
    model.plan = Plan.parse("epilogue=reference")
    for mine, theirs in zip(model.logits(**given), plain, strict=True):
        assert np.allclose(mine, theirs, rtol=1e-9, atol=1e-9)


def test_forward_changes_nothing_that_it_was_given():
    """The tables that x is made from stay as they are, though products add into x."""
    model = make("gpt2")
    before = {name: t.copy() for name, t in model.tensors.items()}
    model.generate(input_ids=IDS, plan="epilogue=cpu", max_new_tokens=4)
    assert all(np.array_equal(t, before[name]) for name, t in model.tensors.items())
