"""Encoders and prefills that are captured when texts of the same lengths come again, on the emulated device."""

import json

import numpy as np
import pytest
from test_device import IDS, make, prompts_by_the_library, same
from test_gpu_families import FORWARD_PASSES, TOYS

import minidecode as md
from minidecode.device import graphs
from minidecode.device.arrays import fetch, put
from minidecode.device.graphs import CaptureError, GraphCounts
from minidecode.emulator.device_array import Tape
from minidecode.errors import MemoryBudgetError
from minidecode.runtime.passes import Passes
from minidecode.runtime.receipt import CountedOps

__all__ = ["prompts_by_the_library"]  # a fixture
pytestmark = pytest.mark.usefixtures("prompts_by_the_library")
TWO = {"max_new_tokens": 2, "eos_token_id": None}


def others(seed):
    """Other texts, as long as IDS."""
    rng = np.random.default_rng(seed)
    return [rng.integers(3, 10, len(text)).tolist() for text in IDS]


@pytest.mark.parametrize(
    ("kind", "cache", "options", "settings"),
    [
        ("gpt2", "split", {}, {}),
        ("gpt2", "split", {"num_beams": 2}, {}),
        ("gpt2", "split,cache_dtype=float16", {}, {}),
        ("gpt2", "rolling", {"num_beams": 2}, {"attention_window": 3}),
        ("gpt2", "preallocated", {}, {}),
        ("gpt2", "indirect", {"num_beams": 2}, {}),
        ("gpt2", "el", {}, {"dtype": "float16"}),
        ("bart", "split", {"num_beams": 2}, {}),
        ("bart", "el", {"num_beams": 2}, {}),
        ("bart", "preallocated", {}, {"dtype": "float16"}),
    ],
    ids=str,
)  # fmt: skip
def test_passes_of_the_same_lengths_are_launched_whole(kind, cache, options, settings):
    """From the second call on. Tokens, scores, counts of launches and of calls are those of launches one by one."""
    model, alone = (make(kind, "emulator", **settings) for _ in range(2))
    how = TWO | options
    whole = 2 if kind == "bart" else 1
    for call in range(3):
        together = model.generate(input_ids=others(call), plan=f"cuda,cache={cache}", **how)
        apart = alone.generate(input_ids=others(call), plan=f"cuda,cache={cache},graphs=off", **how)
        same(apart, together)
        assert together.receipt.graphs.passes == (whole if call else 0)
    assert together.receipt.launches == apart.receipt.launches


def test_what_is_captured_serves_texts_of_its_lengths_and_nobody_else():
    """As many rows of other lengths, another cache, another op, another dtype of the cache: each is captured anew."""
    model, how = make("gpt2", "emulator"), {"max_new_tokens": 1}
    model.generate(input_ids=IDS, plan="cuda", **how)
    ways = [
        ([IDS[1], IDS[0]], ""), (IDS[:1], ""), (IDS, ",cache=preallocated"), (IDS, ",cache_dtype=float16"),
        (IDS, ",norm=minidecode.cuda.norm:residual_norm_v1"),
    ]  # fmt: skip
    for ids, plan in ways:
        assert model.generate(input_ids=ids, plan=f"cuda{plan}", **how).receipt.graphs.passes == 0, plan
    swapped = model.generate(input_ids=ways[0][0], plan="cuda", **how)
    same(model.generate(input_ids=ways[0][0], plan="cuda,graphs=off", **how), swapped)
    assert swapped.receipt.graphs.passes == 1
    assert "1 of encoder and prefill launched whole" in str(swapped.receipt)


def counted():
    """Ops that a pass calls; here it calls none."""
    return CountedOps({})


def test_what_a_pass_has_computed_is_the_callers_own():
    """A later launch of the graph changes no array of an earlier one, nor those that it was given."""
    passes, results, inputs = Passes("emulator"), [], []
    for number in range(4):
        inputs.append(put(np.full(3, number), "emulator"))
        results.append(passes("twice", counted(), GraphCounts(), lambda x: x * 2, inputs[-1:]))
    assert [fetch(r).tolist() for r in results] == [[2 * n] * 3 for n in range(4)]
    assert [fetch(x).tolist() for x in inputs] == [[n] * 3 for n in range(4)]


def test_passes_that_were_not_used_for_long_or_take_too_much_are_given_up(monkeypatch):
    passes, x = Passes("emulator", most=2, most_bytes=100), put(np.arange(3), "emulator")
    monkeypatch.setattr(Tape, "bytes", 60)

    def launched(key):
        counts = GraphCounts()
        passes(key, counted(), counts, lambda x: x + 1, [x])
        return counts.passes

    assert [launched(key) for key in "aaa"] == [0, 1, 1]
    assert [launched(key) for key in "bb"] == [0, 1], "two graphs of 60 bytes are more than 100"
    assert launched("a") == 0 and list(passes.kept) == ["b", "a"]
    monkeypatch.setattr(Tape, "bytes", 101)
    assert [launched(key) for key in "ccc"] == [0, 1, 0], "one that is too large is not captured again and again"
    passes.clear()
    assert not passes.kept


def test_a_pass_that_cuda_refuses_to_capture_runs_as_it_is(monkeypatch):
    """And the receipt says why."""

    def refuse(device, run):
        run()
        raise CaptureError("it could not be captured (a reason)")

    model, how = make("gpt2", "emulator"), {"input_ids": IDS, "max_new_tokens": 1}
    expected = model.generate(**how, plan="cuda,graphs=off")
    monkeypatch.setattr(graphs, "capture_and_run", refuse)
    for _ in range(3):
        out = model.generate(**how, plan="cuda")
        same(expected, out)
        assert out.receipt.graphs.passes == 0
    assert [part.can_be for part in model.passes.kept.values()] == [False]


def test_a_memory_budget_gives_up_what_is_kept():
    model, how = make("gpt2", "emulator"), {"input_ids": IDS, "max_new_tokens": 1}
    model.generate(**how)
    assert model.passes.kept
    with pytest.raises(MemoryBudgetError):
        model.generate(**how, memory_budget=1)
    assert not model.passes.kept


@pytest.mark.parametrize("kind", [kind for kind in FORWARD_PASSES if kind not in ("gpt2", "bart")])
def test_every_family(kind, tmp_path):
    """Those that read sources in their texts, latents or query rows launch their prefills one by one."""
    (tmp_path / "config.json").write_text(json.dumps(TOYS.toy_fields(kind)), encoding="utf-8")
    here, there = (md.load(tmp_path, random_weights=True, device=device) for device in ("cpu", "emulator"))
    for call in range(3):
        how = {"input_ids": others(call), "max_new_tokens": 2, "eos_token_id": None}
        out = there.generate(**how)
        same(here.generate(**how, plan="numpy,cache=split"), out)
    one_by_one = kind in ("unilm", "gpt2_latent", "prophetnet")
    assert out.receipt.graphs.passes == (0 if one_by_one else 1 + there.has_encoder)
