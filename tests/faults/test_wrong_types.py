"""What is public refuses values of wrong types in words of its own, and names the argument and the remedy."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import minidecode as md

FEW = {"max_new_tokens": 1}
NO_MODELS = ["tiny-gpt2", None, 5, Path("no/such/folder"), md.Plan()]


@pytest.fixture(scope="module")
def model():
    return md.load("tiny-gpt2")


@pytest.mark.parametrize("given", NO_MODELS, ids=str)
@pytest.mark.parametrize("function", [
    md.Scheduler, md.ShardGenerator, md.ladder, lambda x: md.explore(x, "the"), lambda x: md.generate_lines(x, ["the"]),
], ids=["Scheduler", "ShardGenerator", "ladder", "explore", "generate_lines"])  # fmt: skip
def test_what_is_no_model_is_answered_with_how_to_get_one(function, given):
    name = str(given) if isinstance(given, str | Path) else "tiny-gpt2"
    with pytest.raises(md.OptionError, match=rf"takes a model that md\.load made, not .*: give md\.load\('{name}'\)$"):
        function(given)


@pytest.mark.parametrize("function", [md.accelerate, md.restore])
def test_a_live_model_is_one_of_transformers(function, model):
    with pytest.raises(md.OptionError, match="this one runs here already: call its generate"):
        function(model)
    for given in NO_MODELS:
        with pytest.raises(md.OptionError, match=r"takes a model of transformers, not .* that from_pretrained made"):
            function(given)


def test_a_text_is_no_plan_but_is_parsed_into_one():
    for text in ("cache=split", "fast,ngram=cpu"):
        with pytest.raises(md.OptionError, match=re.escape(f"give the text to Plan.parse({text!r})")):
            md.Plan(text)
        assert md.Plan.parse(text)
    for field in ("base", "cache", "cache_dtype", "graphs", "ngram"):
        with pytest.raises(md.OptionError, match=rf"plan: {field}=\['fast'\] is not one of"):
            md.Plan(**{field: ["fast"]})


WRONG = {
    "max_rows": lambda m, x: md.Scheduler(m, max_rows=x),
    "max_prefill_tokens": lambda m, x: md.Scheduler(m, max_prefill_tokens=x),
    "max_waiting": lambda m, x: md.Scheduler(m, max_waiting=x),
    "pages": lambda m, x: md.Scheduler(m, pages=x, plan="cache=paged"),
    "batch_size": lambda m, x: m.plan_step(batch_size=x, **FEW),
    "input_length": lambda m, x: m.plan_step(input_length=x, **FEW),
    "repeats": lambda m, x: md.compare("ngram", repeats=x),
    "functions": lambda m, x: md.compare("ngram", functions=[5 if isinstance(x, str) else x]),
    "name the function": lambda m, x: md.compare("ngram", functions=str(x)),
    "there is no machine": lambda m, x: md.compare("ngram", machine=x),
    "there is no machine ": lambda m, x: md.ladder(m, machine=x),
    "seconds": lambda m, x: md.ladder(m, seconds=x),
    "cell_seconds": lambda m, x: md.ladder(m, cell_seconds=x),
    "there is no optimization": lambda m, x: md.compare(x),
    "there is no optimization ": lambda m, x: md.conformance.check(x, print),
    "check takes a function": lambda m, x: md.conformance.check("ngram", x),
    "examples": lambda m, x: md.conformance.check("ngram", print, examples=x),
    "dtype": lambda m, x: md.load("tiny-gpt2", dtype=x),
    "done": lambda m, x: md.generate_lines(m, ["a"], done="3" if isinstance(x, list) else x),
    "keep": lambda m, x: m.generate("a", keep=x, **FEW),
    "sample_ids": lambda m, x: m.generate("a", sample_ids=x, **FEW),
    "costs": lambda m, x: m.generate("a", costs=x, **FEW),
    "no folder": lambda m, x: list(md.join_shards(x)),
    "Model takes no": lambda m, x: md.Model(x),
    "cancel takes requests": lambda m, x: md.Scheduler(m).cancel(x),
    "preempt takes requests": lambda m, x: md.Scheduler(m).preempt(x),
    "enqueue takes requests": lambda m, x: md.Scheduler(m).enqueue(x),
    "tokenize takes the options": lambda m, x: m.tokenize("the", x),
    "key/value heads": lambda m, x: md.convert("tiny-gpt2", "not_made", num_key_value_heads=x),
}


@pytest.mark.parametrize("given", ["name", ["name"], -0.5, object()], ids=lambda x: type(x).__name__)
@pytest.mark.parametrize("named", WRONG)
def test_values_of_wrong_types_are_errors_of_their_arguments(model, named, given):
    with pytest.raises((md.OptionError, md.InputError), match=named.strip()):
        WRONG[named](model, given)


@pytest.mark.parametrize("given", [None, 5, ["out"]], ids=str)
def test_a_new_folder_is_named_by_a_path(given):
    with pytest.raises(md.CheckpointError, match="the new folder is named by a text or a Path, not "):
        md.convert("tiny-gpt2", given, num_key_value_heads=1)


def test_requests_are_those_of_the_scheduler(model):
    ours, others = md.Scheduler(model), md.Scheduler(model)
    job = others.submit("the", max_new_tokens=3)
    others.step()
    with pytest.raises(
        md.OptionError, match="preempt takes a request that runs here, and this one is running, or elsewhere"
    ):
        ours.preempt(job)
    with pytest.raises(md.OptionError, match="enqueue takes requests that submit or make_job returned, not Job"):
        ours.enqueue(job)
    with pytest.raises(md.OptionError, match=r"call md\.load"):
        md.Model()


@pytest.mark.parametrize("given", [None, 5, md.Plan()], ids=str)
def test_lines_are_several(model, given):
    for function in (lambda x: md.generate_lines(model, x), lambda x: list(md.cut_shards(x))):
        with pytest.raises(md.InputError, match="lines must be "):
            function(given)
    with pytest.raises(md.InputError, match="line 2 must be a text, UTF-8 bytes or an object, not "):
        list(md.cut_shards(["a", given]))
