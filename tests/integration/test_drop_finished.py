"""Sentences that are done leave the batch: fewer rows, the same texts, whoever leaves first.

Toys with clear choices (see `random_tensors`), in float64: whatever a search says must be the same to the last token.
"""

import dataclasses
import functools
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_attention_settings import make

import minidecode as md
from minidecode.cache.indirect import IndirectCache
from minidecode.cache.source import Source
from minidecode.cache.split import SplitCache
from minidecode.catalog import CATALOG
from minidecode.plan import CACHES
from minidecode.reference import sample
from minidecode.runtime import engine
from minidecode.runtime.engine import Engine
from minidecode.runtime.receipt import bytes_held_by
from minidecode.search import beam, greedy
from minidecode.search.beam import Beams

PROMPTS = [[5, 9, 2, 7, 7], [3], [8, 8, 3, 11, 4, 6, 2], [4, 4], [9, 1, 2]]
SEARCHES = {
    "greedy": {},
    "greedy of fairseq": {"dialect": "fairseq"},
    "samples": {"do_sample": True, "top_k": 9, "seed": 3, "num_return_sequences": 2},
    "beams": {"num_beams": 3, "num_return_sequences": 2, "early_stopping": True},
    "beams, n-grams": {"num_beams": 3, "no_repeat_ngram_size": 2, "early_stopping": True},
    "beams of hf4": {"num_beams": 2, "dialect": "hf4", "early_stopping": True},
    "groups of hf4": {
        "num_beams": 4,
        "num_beam_groups": 2,
        "diversity_penalty": 0.5,
        "dialect": "hf4",
        "early_stopping": True,
    },
    "beams of fairseq": {"num_beams": 2, "dialect": "fairseq"},
    "groups of fairseq": {"num_beams": 4, "num_beam_groups": 2, "diversity_penalty": 0.5, "dialect": "fairseq"},
    "siblings": {"num_beams": 2, "sibling_penalty": 0.3, "early_stopping": True},
    "beams that sample": {"num_beams": 2, "do_sample": True, "seed": 5, "early_stopping": True},
}
KINDS = {"gpt2": ("gpt2", {}), "window": ("gpt2", {"attention_window": 4}), "bart": ("bart", {})}


@functools.cache
def toy(kind):
    name, settings = KINDS[kind]
    return make(name, **settings)


def run(model, plan, search, prompts=PROMPTS, **more):
    """A generation whose texts do not go the same way: each has a limit or, where limits are alike, its own prefix."""
    mine = {"max_length": 13}
    if model.is_encoder_decoder:
        mine = {"max_new_tokens": 10, "prefix_tokens": [[p[0], len(p) + 20] for p in prompts]}
    return model.generate(input_ids=prompts, plan=plan, **mine | search | more)


@functools.cache
def ending_apart(kind, name):
    """The search, with an EOS by which sentences end at different steps: at three, but for BART's toy at two."""
    model = toy(kind)
    for eos in range(40):
        search = SEARCHES[name] | {"eos_token_id": eos}
        out = run(model, "cache=none,drop_finished=off", search, trace=True)
        if len({max(step.step for step in out.trace.of(b)) for b in range(len(PROMPTS))}) > 1 + (kind != "bart"):
            return search
    raise AssertionError("no such search")


def said(out):
    return [t.tolist() for t in out.token_ids], out.scores.tolist()


def rows_needed(out, sentences, rows):
    """Each sentence's rows for as many steps as its search had, the first of which needs no step of the model."""
    return sum(rows * max(step.step for step in out.trace.of(b)) for b in range(sentences))


@pytest.mark.parametrize("name", SEARCHES)
@pytest.mark.parametrize("kind", KINDS)
def test_the_same_is_said_with_fewer_rows(kind, name):
    model, search = toy(kind), ending_apart(kind, name)
    rows = search.get("num_beams") or search.get("num_return_sequences", 1)
    right = run(model, "cache=none,drop_finished=off", search, trace=True)
    alone = [said(run(model, "cache=split,drop_finished=on", search, [p], sample_ids=[0])) for p in PROMPTS]
    for cache in CACHES:
        if cache == "rolling" and kind != "window":
            continue
        off = run(model, f"cache={cache},drop_finished=off", search)
        assert off.receipt.rows == rows * len(PROMPTS) * (off.receipt.steps - 1)
        for arena in CATALOG["arena"].spelled:
            out = run(model, f"cache={cache},drop_finished=on,arena={arena}", search, trace=arena == "none")
            assert said(out)[0] == said(right)[0], (cache, arena)
            np.testing.assert_allclose(out.scores, right.scores, rtol=1e-9)
            assert out.receipt.rows == rows_needed(right, len(PROMPTS), rows) < off.receipt.rows
            assert out.receipt.cache_peak_bytes <= off.receipt.cache_peak_bytes
            if arena == "none":
                noted, told = ([dataclasses.replace(s, candidates=[]) for s in o.trace.steps] for o in (right, out))
                assert noted == told
    assert said(right)[0] == [text for texts, _ in alone for text in texts]


@pytest.mark.parametrize("stored", ["computed", "float16"])
@pytest.mark.parametrize("cache", CACHES)
@pytest.mark.parametrize("kind", KINDS)
def test_the_most_that_is_held_is_counted_to_the_byte(kind, cache, stored, monkeypatch):
    """As if all layers were walked through at every step, which they are only where something has changed."""
    if (cache == "rolling" and kind != "window") or (cache == "none" and stored != "computed"):
        pytest.skip("no such plan")
    search = ending_apart(kind, "beams")  # generates itself, where no test before has asked for it
    walked, most, note = [], [], Engine._note_cache_bytes

    def note_and_walk(self):
        note(self)
        arrays = [a for m in self.caches for a in m.arrays()]
        most.append(bytes_held_by([*arrays, *(self.source.arrays() if self.source is not None else ())]))
        assert self.cache_peak_bytes == max(most)

    monkeypatch.setattr(Engine, "_note_cache_bytes", note_and_walk)
    monkeypatch.setattr(engine, "bytes_held_by", lambda arrays: walked.append(1) or bytes_held_by(arrays))
    out = run(toy(kind), f"cache={cache},drop_finished=on,cache_dtype={stored}", search)
    assert out.receipt.cache_peak_bytes == max(most)
    leaves = len(PROMPTS)  # at the most
    if cache not in ("none", "replicated"):  # whose arrays are others at every step
        assert len(walked) <= 3 + leaves, "in the prefill, when it ends, perhaps in the first step, after each leave"


@pytest.mark.parametrize("plan", ["fast", "cache=split,cache_dtype=float16", "cache=el,cache_dtype=float16"])
@pytest.mark.parametrize("kind", ["gpt2", "bart"])
def test_compiled_and_low_precision_caches(kind, plan):
    model = make(kind, {name: data.astype(np.float32) for name, data in toy(kind).tensors.items()})
    for search in (ending_apart(kind, name) for name in SEARCHES):
        on, off = run(model, f"{plan},drop_finished=on", search), run(model, f"{plan},drop_finished=off", search)
        assert said(on)[0] == said(off)[0] and on.receipt.rows < off.receipt.rows
        assert md.Plan.parse(plan).drop_finished == "on"


@given(data=st.data())
@settings(max_examples=60)
def test_whoever_ends_first(data):
    """Random sentences, limits and ends: what each says alone, it says in a batch that others leave."""
    kind = data.draw(st.sampled_from(sorted(KINDS)))
    cache = data.draw(st.sampled_from([m for m in CACHES if m != "rolling" or kind == "window"]))
    prompts = data.draw(st.lists(st.lists(st.integers(4, 11), min_size=1, max_size=6), min_size=2, max_size=5))
    search = data.draw(st.sampled_from(list(SEARCHES.values())))
    several = 1 if search.get("dialect") == "fairseq" else 4
    search = search | {
        "eos_token_id": data.draw(st.lists(st.integers(0, 39), min_size=1, max_size=several, unique=True))
    }
    prefixes = data.draw(st.none() | st.just([[4, -1, 5][: 1 + b % 3] for b in range(len(prompts))]))
    more = {} if prefixes is None else {"prefix_tokens": prefixes}

    def one(b):
        mine = {} if prefixes is None else {"prefix_tokens": [prefixes[b]]}
        return run(toy(kind), "cache=none,drop_finished=off", search, [prompts[b]], sample_ids=[b], **mine)

    try:
        together = run(
            toy(kind), f"cache={cache},drop_finished=on", search, prompts, sample_ids=range(len(prompts)), **more
        )
    except md.OptionError as error:  # a ban that leaves a sentence no token is told of that sentence alone as well
        stuck = int(re.search(r"no token is left for sentence (\d+)", str(error))[1]) - 1
        with pytest.raises(md.OptionError, match="no token is left"):
            one(stuck)
        return
    texts = len(together.token_ids) // len(prompts)
    for b in range(len(prompts)):
        alone = one(b)
        here = slice(b * texts, (b + 1) * texts)
        assert [t.tolist() for t in together.token_ids[here]] == [t.tolist() for t in alone.token_ids]
        np.testing.assert_allclose(together.scores[here], alone.scores, rtol=1e-9)


def test_streams_and_callbacks_know_their_sentence():
    """By the numbers that they had when the batch was whole."""
    told, seen = {"on": [], "off": []}, {"on": set(), "off": set()}
    for drop_finished in told:

        def note(scores_RV, rows, drop_finished=drop_finished):
            seen[drop_finished] |= {
                (int(b), tuple(rows.text(r)), int(rows.prompt_R[r])) for r, b in enumerate(rows.sentence_R)
            }
            return scores_RV

        streamer = lambda text, token, drop_finished=drop_finished: told[drop_finished].append((text, token))  # noqa: E731
        search = ending_apart("gpt2", "samples") | {"logits_processor": note}
        run(toy("gpt2"), f"drop_finished={drop_finished}", search, streamer=streamer)
    assert told["on"] == told["off"] and len(told["on"]) > 30
    assert seen["on"] <= seen["off"] and {b for b, *_ in seen["on"]} == set(range(len(PROMPTS)))


@pytest.mark.parametrize("beams", [1, 2])
def test_an_error_names_the_sentence_as_the_caller_counts(beams):
    """The last sentence runs into a dead end when others have left."""

    def forbid(sentence, ids):
        return [2] if sentence < 4 else ([] if len(ids) > 8 else [5])

    for drop_finished in ("on", "off"):
        with pytest.raises(md.OptionError, match="for sentence 5"):
            run(toy("gpt2"), f"drop_finished={drop_finished}", {
                "num_beams": beams, "prefix_allowed_tokens_fn": forbid, "eos_token_id": 2, "early_stopping": beams > 1,
            })  # fmt: skip


def with_the_first(function):
    """The function, which is handed a way to get as much of the first array that it was ever called with."""
    kept = []

    def first(array):
        kept.append(array)
        return kept[0][: len(array)]

    return lambda *args, **kwargs: function(first, *args, **kwargs)


MISTAKES = {  # as they might be made: in each the sentences that stay are mixed up with those that were there
    "prompts of those that left": ("gpt2", "split", "beams", SplitCache, "keep_only_prompts",
                                   lambda right: lambda self, ops, stays_B: right(self, ops, np.arange(len(stays_B)))),
    "tables that point to where rows were": (
        "gpt2", "indirect", "beams", IndirectCache, "keep_only",
        lambda right: lambda self, ops, stays_B, stays_R: (
            SplitCache.keep_only(self, ops, stays_B, stays_R),
            setattr(self, "indirection_RT", self.indirection_RT[stays_R] % 3))),
    "sources of the first sentences": (
        "bart", "el", "beams", Source, "keep_only",
        lambda right: lambda self, ops, stays_B: right(self, ops, np.arange(len(stays_B)))),
    "limits of the first sentences": (
        "gpt2", "split", "beams", Beams, "of_sentences",
        lambda right: lambda self, stays_B: dataclasses.replace(
            right(self, stays_B), limit_B=self.limit_B[: len(stays_B)])),
    "scores of the first sentences": (
        "gpt2", "split", "beams", Beams, "of_sentences",
        lambda right: lambda self, stays_B: dataclasses.replace(
            right(self, stays_B), running_score_BW=self.running_score_BW[: len(stays_B)].copy())),
    "nothing handed over, of beams": ("gpt2", "split", "beams", beam, "copy_results", lambda right: lambda *_: None),
    "nothing handed over, of greedy texts": (
        "gpt2", "split", "greedy", greedy, "copy_results", lambda right: lambda *_: None),
    "handed over to the first places": (
        "gpt2", "split", "greedy", greedy, "copy_results",
        lambda right: lambda found, to, which_X, number_X: right(found, to, which_X, np.arange(len(number_X)))),
    "keys of the first texts": (
        "gpt2", "split", "samples", sample, "sample_tokens",
        lambda right: with_the_first(
            lambda first, scores_RV, key_RX, *rest, **more: right(scores_RV, first(key_RX), *rest, **more))),
    "keys of the first sentences": (
        "gpt2", "split", "beams that sample", beam, "find_candidates",
        lambda right: with_the_first(
            lambda first, ops, total_BWV, C, step, draws, options: right(
                ops, total_BWV, C, step, dataclasses.replace(draws, keys_R2=first(draws.keys_R2)), options))),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_seen(monkeypatch, mistake):
    """What the tests above compare does change if rows are mixed up."""
    kind, cache, search, owner, name, wrong = MISTAKES[mistake]
    search = ending_apart(kind, search)
    right = said(run(toy(kind), f"cache={cache},drop_finished=off", search))
    monkeypatch.setattr(owner, name, wrong(getattr(owner, name)))
    try:
        found = said(run(toy(kind), f"cache={cache},drop_finished=on", search))
    except (md.MinidecodeError, IndexError, ValueError):
        return
    assert found != right


def test_the_plan_says_it():
    assert [md.Plan(base).drop_finished for base in ("numpy", "fast", "naive", "emulator")] == [
        "on",
        "on",
        "off",
        "off",
    ]
    assert str(md.Plan.parse("drop_finished=off")) == "cache=replicated,drop_finished=off"
    with pytest.raises(md.OptionError, match="drop_finished='maybe' is not one of off, on"):
        md.Plan.parse("drop_finished=maybe")
