"""Llama in plans: every cache, kernels, arenas, fewer heads, ladder and planner. Golden files hold its numbers."""

from pathlib import Path

import pytest

import minidecode as md
from minidecode.bench import ladder
from minidecode.bench.machines import Machine
from minidecode.loading import load_shapes

GOLDEN = Path(__file__).parents[1] / "golden"
PROMPTS = [[5, 9, 14, 2, 7], [11, 3], [4, 6, 8, 10, 12, 13, 15]]
OPTIONS = {"num_beams": 3, "max_new_tokens": 8}


def generate(folder, plan="numpy", prompts=PROMPTS, device="cpu", **options):
    model = md.load(folder, plan=plan, device=device)
    out = model.generate(input_ids=prompts, **OPTIONS | options)
    return [ids.tolist() for ids in out.token_ids], out.receipt


@pytest.fixture(scope="module", params=["grouped", "wide-heads", "mistral", "qwen2", "llama3"])
def folder(request):
    return GOLDEN / "llama" / request.param


@pytest.mark.parametrize("plan", [
    "fast", "fast,cache=indirect", "fast,cache=preallocated", "naive", "cache=split,arena=planned",
    "fast,arena=planned", "cache=indirect,arena=separate", "fast,drop_finished=off", "hars=cpu", "fast,epilogue=cpu",
])  # fmt: skip
def test_plans_give_the_same_tokens(folder, plan):
    tokens, receipt = generate(folder, plan)
    assert tokens == generate(folder)[0]
    assert "rotate_heads" in receipt.ops and ("hars" not in plan or receipt.ops["hars_candidates"].calls)


@pytest.mark.parametrize("kind", ["llama/mistral", "t5/gated-untied"])
@pytest.mark.parametrize("plan", [
    "cuda,cache=indirect,arena=planned", "cuda,cache=preallocated,graphs=on,hars=cuda",
])  # fmt: skip
def test_kernels_give_the_same_tokens(kind, plan):
    """On an emulated device: captured steps, planned memory, candidates straight from the logits."""
    short = {"prompts": PROMPTS[:2], "num_beams": 2, "max_new_tokens": 3}
    tokens, receipt = generate(GOLDEN / kind, plan, device="emulator", **short)
    assert tokens == generate(GOLDEN / kind, **short)[0]
    assert receipt.launches and ("arena" not in plan or receipt.arena_bytes)
    assert "graphs=on" not in plan or receipt.graphs.launches
    assert "hars" not in plan or "hars_candidates" in receipt.ops


def test_fewer_heads_in_compiled_code(tmp_path):
    """Two key/value heads become one; the rotation of what is shared is still each row's own."""
    md.convert(GOLDEN / "llama" / "grouped", tmp_path / "one", num_key_value_heads=1)
    tokens = generate(tmp_path / "one")[0]
    assert tokens != generate(GOLDEN / "llama" / "grouped")[0]
    assert all(generate(tmp_path / "one", plan)[0] == tokens for plan in ("fast", "fast,cache=indirect"))


def test_published_shapes_plan_a_step():
    """Without their weights: published sizes bind, and say what a step takes."""
    model = load_shapes("SmolLM2-135M", vocab_size=64)
    step = model.plan_step(batch_size=2, input_length=16, num_beams=2, max_new_tokens=8)
    assert model.family == "llama" and 0 < step.bytes < step.layout.separate_bytes


@pytest.mark.parametrize(("kind", "el"), [
    ("llama/grouped", "rotates its keys by their positions (RoPE)"), ("t5/gated-untied", None),
])  # fmt: skip
def test_the_ladder_climbs_all_rungs_that_there_are(kind, el, monkeypatch):
    """EL is a rung of T5's cross attention; on Llama it says why it is none. Every other rung gives equal tokens."""
    monkeypatch.setattr(ladder, "this_machine", lambda **given: Machine("this", 10e9, 40e9, "for tests"))
    found = ladder.ladder(
        md.load(GOLDEN / kind), name=kind, texts=2, input_length=5, max_new_tokens=4, num_beams=2, batch_size=1,
        no_repeat_ngram_size=2, repeats=1,
    )  # fmt: skip
    steps = {step.name: step for step in found.steps}
    shown = str(found)
    assert (el is None) == ("RoPE" not in shown) and (el is None or el in shown)
    assert {"cache", "cache de-duplication", "fused kernels", "planned memory", "larger batch"} <= set(steps)
