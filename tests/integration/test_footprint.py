"""Memory estimated from shapes before a generation: never below what it takes, not far above; what is over is told."""

from __future__ import annotations

import functools
import itertools

import numpy as np
import pytest
from latent_oracle import write_model as write_latent
from taken_bytes import peak_of
from toy_folder import write_bart_folder, write_folder

import minidecode as md
from minidecode.cpu import linear
from minidecode.cpu.common.tile import DOT
from minidecode.plan import CACHES
from minidecode.runtime import footprint as module
from minidecode.runtime.footprint import OBJECTS, available_bytes, format_bytes, parse_budget

# Beside what is counted by its shape stand upper bounds: four arrays of attention's scores where three are there at a
# time, nearly all of a layer's intermediates at once, the caches of prefill and steps together. A request whose
# largest part is one of these takes no less than this share of the estimate.
SHARE = 1 / 3


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    wide = {"n_positions": 200, "n_embd": 32, "n_head": 4}
    gpt2 = write_folder(folder / "gpt2", **wide)
    bart = write_bart_folder(
        folder / "bart", max_position_embeddings=200, d_model=32, encoder_attention_heads=4, decoder_attention_heads=4
    )
    return {
        "gpt2": md.load(gpt2), "int8": md.load(gpt2, dtype="int8"), "float64": md.load(gpt2, dtype="float64"),
        "multi-query": md.load(write_folder(folder / "mqa", **wide, num_key_value_heads=1)),
        "window": md.load(write_folder(folder / "window", **wide, attention_window=24)),
        "bart": md.load(bart), "bart int8": md.load(bart, dtype="int8"),
        "latent": md.load(write_latent(folder / "latent", "plain", **wide)),
    }  # fmt: skip


SEARCHES = {
    "greedy": {}, "beam": {"num_beams": 4}, "samples": {"do_sample": True, "num_return_sequences": 3, "top_p": 0.9},
    "rules": {"num_beams": 3, "no_repeat_ngram_size": 2, "repetition_penalty": 1.2},
}  # fmt: skip
CASES = [
    (name, cache, search)
    for name, cache, search in itertools.product(
        ("gpt2", "int8", "float64", "multi-query", "window", "bart", "bart int8"), CACHES, SEARCHES
    )
    if cache != "rolling" or name == "window"
] + [("latent", cache, "beam") for cache in ("none", "replicated", "split")]


@pytest.mark.parametrize(("name", "cache", "search"), CASES)
def test_the_estimate_holds_and_is_not_far_off(models, name, cache, search):
    """The held bytes are the receipt's to the last one, where texts go to their limit; the rest is an upper bound."""
    model, rng = models[name], np.random.default_rng(0)
    for B, N, T in ((4, 60, 9), (1, 8, 30)):
        ids = [rng.integers(5, 250, N) for _ in range(B)]
        options = SEARCHES[search] | {"max_new_tokens": T, "eos_token_id": None, "plan": f"cache={cache}"}
        needed = model.footprint(input_ids=ids, **options)
        model.generate(input_ids=ids[:1], **options | {"max_new_tokens": 2})  # what is imported once
        out, peak = peak_of(lambda ids=ids, options=options: model.generate(input_ids=ids, **options), needed.total)
        assert out.receipt.cache_peak_bytes == needed.cache, (B, N, T)
        assert peak <= needed.total, (B, N, T)
        assert peak >= SHARE * (needed.total - OBJECTS), (B, N, T)


@pytest.mark.parametrize("plan", ["cache=split", "naive"])
def test_it_holds_where_python_s_own_objects_are_little(tmp_path, plan):
    """What is allowed for them hides nothing here: the shapes' part alone is no less than what is taken."""
    model = md.load(write_folder(tmp_path, n_positions=200, n_embd=256, n_head=8))
    ids = [np.random.default_rng(b).integers(5, 250, 100) for b in range(4)]
    options = {"max_new_tokens": 4, "eos_token_id": None, "num_beams": 4, "plan": plan}
    model.generate(input_ids=ids[:1], **options)  # what is imported once
    needed = model.footprint(input_ids=ids, **options).total - OBJECTS
    assert peak_of(lambda: model.generate(input_ids=ids, **options), needed)[1] <= needed


@pytest.fixture(scope="module")
def many_layers(tmp_path_factory):
    folder = write_folder(tmp_path_factory.mktemp("deep"), n_positions=64, n_embd=128, n_head=4, n_layer=32)
    return functools.cache(lambda dtype: md.load(folder, plan="fast", dtype=dtype))


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("dtype", ["float32", *(["int8_dynamic"] if DOT is not None and DOT.x_bits >= 8 else [])])
def test_a_captured_step_is_part_of_the_estimate(many_layers, monkeypatch, dtype, search):
    """A graph keeps what all layers make: here, most of what a generation takes."""
    monkeypatch.setattr(linear, "SMALL", 0)  # so that no product is the BLAS's
    model, options = many_layers(dtype), SEARCHES[search] | {"eos_token_id": None, "plan": "fast"}
    rows = {"greedy": 8, "beam": 2, "samples": 2, "rules": 2}[search]
    ids = [np.random.default_rng(b).integers(5, 250, 4) for b in range(rows)]
    model.generate(input_ids=ids, max_new_tokens=5, **options)  # what is imported once
    needed = model.footprint(input_ids=ids, max_new_tokens=5, **options).total
    out, peak = peak_of(lambda: model.generate(input_ids=ids, max_new_tokens=5, **options), needed)
    assert out.receipt.graphs.launches > 0 and SHARE * (needed - OBJECTS) <= peak <= needed


@pytest.mark.parametrize("cache", CACHES)
def test_texts_of_different_lengths_take_no_more(models, cache):
    model = models["window"]
    prompts = ["x" * n for n in (3, 50, 20)]
    for options in SEARCHES.values():
        options = options | {"max_new_tokens": 10, "plan": f"cache={cache}"}
        held = model.generate(prompts, **options).receipt.cache_peak_bytes
        assert held <= model.footprint(prompts, **options).cache


@pytest.mark.parametrize("arena", ["planned", "separate"])
@pytest.mark.parametrize("name", ["gpt2", "bart"])
def test_an_arena_is_counted(models, name, arena):
    model = models[name]
    for options in SEARCHES.values():
        options = options | {"max_new_tokens": 9, "plan": f"cache=split,arena={arena}"}
        receipt = model.generate(["x" * 40, "y"], **options).receipt
        assert 0 < receipt.arena_bytes <= model.footprint(["x" * 40, "y"], **options).arena


@pytest.mark.parametrize(("plan", "size"), [
    ("cache=el,arena=planned", (2, 4, 16, 4)), ("cache=indirect,arena=planned", (3, 60, 3, 4)),
    ("cache=replicated,arena=planned", (60, 100, 3, 4)), ("cache=split,arena=planned", (2, 3, 12, 5)),
    ("naive,cache=split", (150, 3, 2, 1)),
])  # fmt: skip
@pytest.mark.parametrize("kind", ["gpt2", "bart"])
def test_what_one_plan_alone_makes_is_counted(tmp_path, kind, plan, size):
    """EL's rows are D wide for each head; a table gathers positions; dry runs hold a whole step; naive code is slow to
    let go."""
    if kind == "gpt2":
        model = md.load(write_folder(tmp_path, n_positions=200, n_embd=64, n_head=16))
    else:
        heads = {"encoder_attention_heads": 16, "decoder_attention_heads": 16}
        model = md.load(write_bart_folder(tmp_path, max_position_embeddings=200, d_model=64, **heads))
    N, T, B, W = size
    options = {"num_beams": W, "max_new_tokens": T, "eos_token_id": None, "plan": plan}
    needed = model.footprint(input_ids=[[7] * N] * B, **options)
    model.generate(input_ids=[[7, 7]], **options | {"max_new_tokens": 2})  # what is imported once
    out, peak = peak_of(lambda: model.generate(input_ids=[[7] * N] * B, **options), needed.total)
    assert peak <= needed.total
    assert (0 < out.receipt.arena_bytes <= needed.arena) == ("arena" in plan)


def test_naive_attention_copies_heads(models):
    plan = "cache=preallocated,grouped=naive"
    assert models["multi-query"].footprint("a", plan=plan).total > models["multi-query"].footprint("a", plan=plan.split(
        ",")[0]).total  # fmt: skip


def test_what_does_not_fit_is_refused_with_figures(models, monkeypatch):
    model = models["gpt2"]
    needed = model.footprint(["the sea"] * 3, num_beams=2, max_new_tokens=20).total
    monkeypatch.setattr("minidecode.methods.generation.engine_of", lambda *_: pytest.fail("something was computed"))
    options = {"num_beams": 2, "max_new_tokens": 20}
    for budget in (needed - 1, "1 MB", "1MiB"):
        with pytest.raises(md.MemoryBudgetError) as refused:
            model.generate(["the sea"] * 3, memory_budget=budget, **options)
        message = str(refused.value)
        assert "3 x (prompts of " in message and "20 new tokens" in message and "--memory-budget" in message
        assert format_bytes(needed) in message and format_bytes(parse_budget(budget)) in message
    monkeypatch.undo()
    assert len(model.generate(["the sea"] * 3, memory_budget=needed, **options).texts) == 3


def test_what_the_machine_has_left_is_the_default(models, monkeypatch):
    monkeypatch.setattr(module, "available_bytes", lambda: 1000)
    with pytest.raises(md.MemoryBudgetError, match=r"and 1 kB may be used"):
        models["gpt2"].generate("the")
    models["gpt2"].generate("the", max_new_tokens=2, memory_budget=None)
    monkeypatch.setattr(module, "available_bytes", lambda: None)  # a system that does not say
    models["gpt2"].generate("the", max_new_tokens=2)


def test_what_the_machine_says(monkeypatch, tmp_path):
    meminfo, group = tmp_path / "meminfo", tmp_path / "cgroup"
    monkeypatch.setattr(module, "MEMINFO", meminfo)
    monkeypatch.setattr(module, "CGROUP", group)
    assert available_bytes() is None
    meminfo.write_text("MemTotal:       4000 kB\nMemFree:         100 kB\nMemAvailable:    3000 kB\n")
    assert available_bytes() == 3000 * 1024
    group.mkdir()
    (group / "memory.max").write_text("max\n")
    (group / "memory.current").write_text("900000\n")
    (group / "memory.stat").write_text("anon 5\ninactive_file 100000\n")
    assert available_bytes() == 3000 * 1024
    (group / "memory.max").write_text("1000000\n")  # a container's limit
    assert available_bytes() == 200_000
    (group / "memory.current").write_text("1900000\n")
    assert available_bytes() == 0


def test_budgets():
    expected = {"2GB": 2 * 10**9, "512 MiB": 512 * 2**20, "1.5kb": 1500, "7": 7, "3 b": 3}
    assert {text: parse_budget(text) for text in expected} == expected
    assert parse_budget(None) is None and parse_budget(12) == 12
    for bad in ("much", "2 TB", "-1GB", "", 0, -5, True, 1.5, "0GB", "GB"):
        with pytest.raises(md.OptionError, match="memory_budget"):
            parse_budget(bad)
    assert [format_bytes(n) for n in (1, 1500, 2_500_000, 3 * 10**9)] == ["1 byte", "1.5 kB", "2.5 MB", "3 GB"]


@pytest.mark.parametrize("overlap", ["both", "none"])
def test_a_batch_that_does_not_fit_is_cut(models, monkeypatch, overlap):
    """Into halves until each fits; texts are those of the whole batch, and no batch ever takes more than it may."""
    model, lines = models["gpt2"], ["x" * n for n in (60, 3, 50, 7, 40, 9, 5, 20)]
    options = {"max_new_tokens": 12, "num_beams": 2}
    expected = model.generate(lines, **options).texts
    budget = model.footprint([lines[0]], **options).total + 1000
    sizes, generate = [], model.generate

    def watched(**arguments):
        ids = arguments["input_ids"]
        out = generate(**arguments)  # refuses what does not fit
        sizes.append(len(ids))
        assert model.footprint(input_ids=ids, **options).total <= budget
        return out

    monkeypatch.setattr(model, "generate", watched)
    run = md.generate_lines(model, lines, memory_budget=budget, batch_size=8, overlap=overlap, **options)
    assert [line.texts[0] for line in run] == expected
    assert sum(sizes) == 8 and 1 in sizes and max(sizes) > 1
    assert run.receipt.splits == len(sizes) - 1


def test_a_line_that_does_not_fit_alone_is_its_own_error(models):
    model, options = models["gpt2"], {"max_new_tokens": 12}
    budget = model.footprint(["x" * 30], **options).total
    run = md.generate_lines(model, ["x", "x" * 100, "xx"], memory_budget=budget, on_error="record", **options)
    errors = [line.error for line in run]
    assert errors[0] is errors[2] is None
    assert isinstance(errors[1].__cause__, md.MemoryBudgetError) and str(errors[1]).startswith("line 2: 1 x (prompts")


@pytest.mark.parametrize("name", ["gpt2", "int8", "bart"])
@pytest.mark.parametrize("search", ["greedy", "samples"])
def test_log_probabilities_are_part_of_the_estimate(models, name, search):
    """A long text goes once more through the model as a whole, and each token may keep many numbers."""
    model = models[name]
    for best in (0, 200):
        how = {
            "input_ids": [[5, 6, 7]] * 2,
            "eos_token_id": None,
            "plan": "numpy",
            "logprobs": best,
            **SEARCHES[search],
        }
        model.generate(**how | {"max_new_tokens": 2})
        how["max_new_tokens"] = 90
        needed = model.footprint(**how).total
        out, peak = peak_of(lambda how=how: model.generate(**how), needed)
        assert len(out.token_logprobs[0]) == 90 and peak <= needed
        assert peak >= SHARE * (needed - OBJECTS)
        with pytest.raises(md.MemoryBudgetError):
            model.generate(**how, memory_budget=needed - 1)


def test_a_long_negative_prompt_is_part_of_the_estimate(models):
    how = {"input_ids": [[5]], "guidance_scale": 1.5, "max_new_tokens": 4}
    short, long = (models["gpt2"].footprint(**how, negative_prompt_ids=[[5] * n]).cache for n in (1, 100))
    out = models["gpt2"].generate(**how, negative_prompt_ids=[[5] * 100], eos_token_id=None)
    assert short < out.receipt.cache_peak_bytes <= long
