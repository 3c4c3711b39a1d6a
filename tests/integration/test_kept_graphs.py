"""Captured steps that later generations launch: the same texts as NumPy's, whoever had the bucket before.

On the emulated device, whose tape does on the same arrays what a CUDA graph does.
"""

import json
import threading
from types import SimpleNamespace

import pytest
from taped_ops import references_on_tape
from test_device import IDS, make, prompts_by_the_library, same
from test_gpu_families import TOYS

import minidecode as md
from minidecode.cache.split import SplitCache
from minidecode.cuda import linear, norm
from minidecode.device import graphs
from minidecode.device.matmul import PRODUCT
from minidecode.emulator.device_array import counted_looks
from minidecode.errors import MemoryBudgetError
from minidecode.options.table import ROWS
from minidecode.runtime import buckets, engine
from minidecode.runtime.buckets import Buckets, arrays_of_state, rounded_capacity

__all__ = ["prompts_by_the_library", "references_on_tape"]  # fixtures
pytestmark = pytest.mark.usefixtures("prompts_by_the_library")
OTHERS = [[7, 3, 4], [8, 8, 1, 2, 6, 5]]  # other texts of other lengths, with as much room
SHORT = {"max_new_tokens": 3, "eos_token_id": None}
SAMPLES = {"do_sample": True, "top_k": 5, "num_return_sequences": 2, "seed": 4}


@pytest.fixture(scope="module")
def here():
    """kind, options -> what NumPy says, in a plan without any of this."""
    models = {}

    def say(kind, ids, settings=(), cache="split", **options):
        if (kind, settings) not in models:
            models[kind, settings] = make(kind, "cpu", **dict(settings))
        as_devices = ",linear=rounded" if "float16" in dict(settings).values() else ""
        plan = f"numpy,cache={cache}{as_devices}"
        return models[kind, settings].generate(input_ids=ids, plan=plan, **options)

    return say


def counted(receipt):
    g = receipt.graphs
    return g.captured, g.reused, g.launches


@pytest.mark.parametrize(
    ("kind", "cache", "options", "settings"),
    [
        ("gpt2", "split", {}, {}),
        ("gpt2", "split", {"num_beams": 2, "no_repeat_ngram_size": 2}, {}),
        ("gpt2", "split", SAMPLES, {}),
        ("gpt2", "split", {}, {"attention_window": 3}),
        ("gpt2", "rolling", {"num_beams": 2}, {"attention_window": 3}),
        ("gpt2", "preallocated", {"num_beams": 2}, {}),
        ("gpt2", "indirect", {"num_beams": 2}, {}),
        ("gpt2", "el", {"num_beams": 2}, {}),
        ("gpt2", "split,cache_dtype=float16", {}, {}),
        ("gpt2", "el", {}, {"dtype": "float16"}),
        ("bart", "split", {"num_beams": 2}, {}),
        ("bart", "el", {"num_beams": 2}, {"decoder_layers": 2}),
        ("bart", "preallocated", {}, {}),
    ],
    ids=str,
)  # fmt: skip
def test_a_second_generation_launches_what_the_first_one_captured(here, kind, cache, options, settings):
    there, how = make(kind, "emulator", **settings), SHORT | options
    first = there.generate(input_ids=IDS, plan=f"cuda,cache={cache}", **how)
    second = there.generate(input_ids=OTHERS, plan=f"cuda,cache={cache}", **how)
    for ids, out in ((IDS, first), (OTHERS, second)):
        same(here(kind, ids, tuple(settings.items()), cache, **how), out)
        foreseen = there.footprint(input_ids=ids, plan=f"cuda,cache={cache}", **how).cache
        assert out.receipt.cache_peak_bytes <= foreseen, "with the room that was made"
    captured, reused, launches = counted(first.receipt)
    assert captured > 0 == reused and launches == captured, "in the second step, which is the last"
    captured, reused, launches = counted(second.receipt)
    assert reused > 0 and launches >= second.receipt.steps - 1, "each step from the first on"
    assert captured + reused <= (1 if options.get("num_beams", 1) == 1 else 2), "what moves beams may be new"
    assert f"({captured} captured, {reused} kept from earlier calls)" in str(second.receipt)


def test_what_a_kept_graph_holds_is_counted(here):
    """As if Python had called it, in the receipt of whoever launches it."""
    there, how = make("gpt2", "emulator"), SHORT | {"num_beams": 2}
    there.generate(input_ids=IDS, **how)
    kept, apart = (there.generate(input_ids=OTHERS, plan=f"cuda,graphs={graphs}", **how) for graphs in ("on", "off"))
    assert kept.receipt.launches == apart.receipt.launches and kept.receipt.graphs.captured == 0
    calls = [{name: count.calls for name, count in out.receipt.ops.items()} for out in (kept, apart)]
    assert calls[0] == calls[1] and list(calls[0]) == list(calls[1])


@pytest.mark.parametrize("beside", ["", "cache=el", "cache=indirect"])
def test_costs_are_those_of_the_same_calls_without_a_device(beside):
    """Cost models look at lengths, at each step anew: no graph holds that."""
    here, there = (
        make("gpt2", "cpu", plan=f"numpy,{beside or 'cache=split'}"),
        make("gpt2", "emulator", plan=beside or "auto"),
    )
    how = SHORT | {"num_beams": 2, "costs": True}
    receipts = [model.generate(input_ids=IDS, **how).receipt for model in (here, there)]
    assert receipts[1].graphs.launches == 0
    for name in ("linear", "attend_split", "attend_el_split", "attend_indirect"):
        counts = [receipt.ops.get(name) for receipt in receipts]
        assert counts[0] is counts[1] is None or (counts[0].costs == counts[1].costs and counts[1].costs)


LEAVING = {  # the first sentence ends with its third token, the second three later
    "gpt2": {"input_ids": [[4, 4, 4, 2], [3]], "max_length": 7, "eos_token_id": None},
    "bart": {"input_ids": [[3, 9, 2], [4, 4]], "max_new_tokens": 6, "eos_token_id": 5,
             "prefix_tokens": [[4, 6, 5], [4, 7, 6, 6, 6, 8]]},
}  # fmt: skip


@pytest.mark.parametrize(("kind", "cache"), [("gpt2", "split"), ("bart", "el")])
def test_those_who_stay_find_the_smaller_bucket(here, kind, cache):
    """The second generation captures nothing, neither before a sentence leaves nor after."""
    settings, how = ({"decoder_layers": 2} if kind == "bart" else {}), dict(LEAVING[kind])
    there = make(kind, "emulator", **settings)
    outs = [there.generate(plan=f"cuda,cache={cache},drop_finished=on", **how) for _ in range(2)]
    right = here(kind, how.pop("input_ids"), tuple(settings.items()), **how)
    for out, expected in zip(outs, ((2, 0, 3), (0, 2, 5)), strict=True):
        same(right, out)
        assert counted(out.receipt) == expected and out.receipt.rows == 2 + 2 + 3


def test_other_sentences_that_stay_are_not_those_of_the_last_generation(here):
    """The kept state of who stays holds their numbers: finds would go to the sentences of the generation before."""
    there = make("gpt2", "emulator")
    how = {"max_length": 7, "eos_token_id": None, "num_beams": 2}
    for ids in ([[4, 4, 4, 2], [3]], [[3], [4, 4, 4, 2]]):  # the longer prompt ends first: sentence 1, then sentence 2
        out = there.generate(input_ids=ids, plan="cuda,drop_finished=on", **how)
        same(here("gpt2", ids, **how), out)
    assert out.receipt.graphs.reused > 0


@pytest.mark.parametrize("beams", [1, 2])
def test_what_is_given_back_is_read_no_more(here, monkeypatch, beams):
    """Where sentences leave, their kept step may go to another thread at once: here its arrays hold other numbers."""
    there, give, given = make("gpt2", "emulator"), Buckets.give_back, []

    def give_to_another(buckets, bucket):
        give(buckets, bucket)
        given.append(bucket)
        holders = bucket.state.groups if beams > 1 else [bucket.state]
        for array in [a for h in holders for a in h.result_arrays()] + [
            a for cache in bucket.caches for a in cache.arrays()
        ]:
            array[...] = 1

    monkeypatch.setattr(Buckets, "give_back", give_to_another)
    how = LEAVING["gpt2"] | {"num_beams": beams}
    out = there.generate(plan="cuda,drop_finished=on", **how)
    assert len(given) == 2
    ids = how.pop("input_ids")
    same(here("gpt2", ids, **how), out)


def test_what_launches_differently_is_not_shared():
    there = make("gpt2", "emulator")
    there.generate(input_ids=IDS, **SHORT)
    for how in (  # one step each, but for the first
        {"max_new_tokens": 9, "input_ids": [[5, 6], [4]]}, {"input_ids": [[3] * 9, [5, 6]]}, {"input_ids": [[5, 6]]},
        {"num_beams": 2}, {"plan": "cache=preallocated"}, {"plan": "cache_dtype=float16"}, {"plan": "epilogue=cuda"},
    ):  # fmt: skip
        how = {"input_ids": IDS} | SHORT | {"max_new_tokens": 2} | how
        if "plan" in how:
            how["plan"] = f"cuda,{how['plan']}"
        assert there.generate(**how).receipt.graphs.reused == 0, how
    assert there.generate(input_ids=OTHERS, **SHORT).receipt.graphs.reused == 1


DRAWS, BEAMS, ENDS_EARLY = {"do_sample": True, "top_k": 0, "seed": 3}, {"num_beams": 2}, {"eos_token_id": 4}
CT2, FAIRSEQ = ({"num_beams": 2, "dialect": dialect} | ENDS_EARLY for dialect in ("ctranslate2", "fairseq"))
GROUPS = {"num_beams": 4, "num_return_sequences": 4, "num_beam_groups": 2, "diversity_penalty": 0.1}
CHANGES = {  # of an option two values, and what they stand beside; "source" where it asks for an encoder
    "dialect": ("hf", "lightseq", BEAMS | ENDS_EARLY),
    "num_beams": (2, 3, {}),
    "num_return_sequences": (2, 3, DRAWS),
    "max_new_tokens": (4, 5, {}),
    "max_length": (8, 9, {"max_new_tokens": None}),
    "max_len_a": (0.5, 1.0, {"max_len_b": 2, "max_new_tokens": None}),
    "max_len_b": (4, 5, {"max_new_tokens": None}),
    "match_source_len": (True, False, FAIRSEQ | {"max_new_tokens": None, "source": True}),
    "min_new_tokens": (4, 0, {"eos_token_id": 15}),
    "min_length": (7, 0, {"eos_token_id": 15}),
    "length_penalty": (0.1, 4.0, BEAMS | ENDS_EARLY),
    "length_normalization": ("gnmt", "power", BEAMS | ENDS_EARLY),
    "patience": (1.0, 3.0, CT2),
    "early_stopping": (True, "never", BEAMS | ENDS_EARLY),
    "num_beam_groups": (2, 4, GROUPS),
    "diversity_penalty": (0.1, 9.0, GROUPS),
    "sibling_penalty": (0.1, 5.0, BEAMS),
    "do_sample": (True, False, {}),
    "temperature": (0.5, 1.7, DRAWS),
    "top_k": (2, 5, DRAWS),
    "top_p": (0.3, 0.9, DRAWS),
    "min_p": (0.9, 0.1, DRAWS),
    "top_h": (0.1, 0.9, DRAWS),
    "typical_p": (0.1, 0.9, DRAWS),
    "epsilon_cutoff": (0.2, 0.01, DRAWS),
    "eta_cutoff": (0.5, 0.01, DRAWS),
    "seed": (1, 2, DRAWS),
    "no_repeat_ngram_size": (1, 2, {}),
    "no_repeat_ngram_exempt_ids": ((), tuple(range(16)), {"no_repeat_ngram_size": 1}),
    "encoder_no_repeat_ngram_size": (1, 0, {"source": True}),
    "repetition_penalty": (1.1, 50.0, {}),
    "encoder_repetition_penalty": (1.1, 50.0, {"source": True}),
    "bad_words_ids": ([[3]], [[7]], {}),
    "suppress_tokens": ([3], [7], {}),
    "begin_suppress_tokens": ([3], [7], {}),
    "sequence_bias": ({(3,): 9.0}, {(7,): 9.0}, {}),
    "exponential_decay_length_penalty": ((1, 1.01), (1, 1.6), {"eos_token_id": 6}),
    "renormalize_logits": (True, False, BEAMS | {"suppress_tokens": list(range(8))}),
    "unk_penalty": (0.1, 9.0, FAIRSEQ | {"unk_token_id": 3}),
    "eos_token_id": (3, 9, {}),
    "pad_token_id": (3, 7, FAIRSEQ),
    "unk_token_id": (3, 7, FAIRSEQ | {"unk_penalty": 9.0}),
    "forced_bos_token_id": (5, 6, {"source": True}),
    "forced_eos_token_id": (5, 6, {}),
    "decoder_start_token_id": (5, 6, {"source": True}),
}  # fmt: skip
NO_ROW = {  # of these no step is captured whole, or a value at which tokens differ would need another model
    **dict.fromkeys(
        ["prefix_allowed_tokens_fn", "logits_processor", "stopping_criteria", "stop_strings", "keep_stop_strings",
         "max_time", "regex", "json_schema"], "works on the host, at each step",
    ),
    **dict.fromkeys(
        ["prompt_lookup_num_tokens", "max_matching_ngram_size", "num_assistant_tokens"], "drafts are not captured",
    ),
    "guidance_scale": "asks the model twice a step, which is captured in parts",
    "remove_invalid_values": "changes nothing without NaN; test_captured_processors.py has them",
}  # fmt: skip


def test_no_option_is_forgotten():
    assert set(CHANGES) | set(NO_ROW) == set(ROWS) and not set(CHANGES) & set(NO_ROW)


@pytest.mark.parametrize("name", CHANGES)
def test_an_option_that_changes_is_not_what_was_captured(here, name, references_on_tape):
    """A captured step has every number of its options in it. What is due in one step is captured by the second call."""
    first, other, beside = CHANGES[name]
    how = {"max_new_tokens": 5, "eos_token_id": None} | beside
    kind = "bart" if how.pop("source", False) else "gpt2"
    there, said = make(kind, "emulator"), []
    for value in (first, first, other, first):
        expected = here(kind, IDS, **how | {name: value})
        out = there.generate(input_ids=IDS, **how | {name: value})
        same(expected, out)
        assert out.receipt.graphs.launches > 0 or out.receipt.steps < 3, out.receipt.graphs.why_not
        said.append(([ids.tolist() for ids in expected.token_ids], expected.scores.tolist()))
    assert said[0] != said[2], "it does something"
    assert out.receipt.graphs.captured == 0 and (out.receipt.graphs.reused > 0 or out.receipt.steps < 3)


@pytest.mark.parametrize("name", [
    "diversity_penalty", "early_stopping", "encoder_repetition_penalty", "epsilon_cutoff", "eta_cutoff", "min_p",
    "no_repeat_ngram_size", "patience", "repetition_penalty", "seed", "sibling_penalty", "temperature", "top_h",
    "top_k", "top_p", "typical_p",
])  # fmt: skip
def test_a_number_that_is_not_in_the_key_would_be_seen(here, monkeypatch, references_on_tape, name):
    """Of the other options the numbers lie in arrays, which each generation writes, or other processors are due."""
    monkeypatch.setattr(Buckets, "acquire", whatever_was_said(Buckets.acquire))
    with pytest.raises(AssertionError):
        test_an_option_that_changes_is_not_what_was_captured(here, name, None)


def test_where_sources_end_is_each_generations_own(tmp_path):
    """UniLM's texts stand behind their sources: a kept step reads where these end from an array that stays."""
    (tmp_path / "config.json").write_text(json.dumps(TOYS.toy_fields("unilm")), encoding="utf-8")
    here, there = (md.load(tmp_path, random_weights=True, device=device) for device in ("cpu", "emulator"))
    for ids in ([[3, 9, 12, 7, 9], [5, 6]], [[3, 9, 12, 7, 9], [5, 6]], [[8, 7, 6], [9, 9, 9, 5]]):
        how = {"input_ids": ids, "max_new_tokens": 4}
        out = there.generate(**how)
        same(here.generate(**how, plan="numpy,cache=split"), out)
    assert out.receipt.graphs.reused == 1


def test_a_captured_step_is_one_launch_and_eight_are_one_look():
    """Beside them, the host reads the texts at the end."""
    there, how = make("gpt2", "emulator"), {"num_beams": 2, "max_new_tokens": 8, "eos_token_id": None}
    there.generate(input_ids=IDS, **how)
    with counted_looks() as looks:
        out = there.generate(input_ids=IDS, **how)
    assert out.receipt.graphs.launches == out.receipt.steps - 1 == 7
    assert looks.count(8) == out.receipt.graphs.looks == 1 and len(looks) <= 13


def test_a_rebound_op_is_what_runs(monkeypatch):
    there = make("gpt2", "emulator")
    there.generate(input_ids=IDS, **SHORT)

    def sabotage(x_RD, *rest, **named):
        of_two_rows.append(len(x_RD) == 2)
        if sum(of_two_rows) > 2:  # in a step: of a prefill the last block's two, where the last tokens alone are left
            raise RuntimeError("sabotage")
        return right(x_RD, *rest, **named)

    right, of_two_rows = norm.residual_norm, []
    monkeypatch.setattr(norm, "residual_norm", sabotage)
    sabotage.__module__, sabotage.__signature__ = right.__module__, None
    with pytest.raises(RuntimeError, match="sabotage"):
        there.generate(input_ids=IDS, **SHORT)


def one_inside_the_other(there):
    """A generation, within which at its second token another one runs, of other texts: (outer, inner)."""
    inner = []

    def on_token(row, token, told=[]):  # noqa: B006
        told.append(token)
        if len(told) == 3:
            inner.append(there.generate(input_ids=OTHERS, **SHORT))

    return there.generate(input_ids=IDS, streamer=on_token, **SHORT), inner[0]


def test_two_at_once_have_a_bucket_each(here):
    there = make("gpt2", "emulator")
    there.generate(input_ids=[[1], [2, 3]], **SHORT)
    outer, inner = one_inside_the_other(there)
    same(here("gpt2", IDS, **SHORT), outer)
    same(here("gpt2", OTHERS, **SHORT), inner)
    assert counted(outer.receipt) == (0, 1, 2) and counted(inner.receipt) == (1, 0, 1)
    assert len(there.buckets.idle) == 2


def test_threads_say_what_each_would_say_alone(here):
    there, said = make("gpt2", "emulator"), {}

    def work(i, ids):
        said[i] = [there.generate(input_ids=ids, **SHORT) for _ in range(2)]

    threads = [threading.Thread(target=work, args=job) for job in enumerate((IDS, OTHERS))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for i, ids in enumerate((IDS, OTHERS)):
        for out in said[i]:
            same(here("gpt2", ids, **SHORT), out)


@pytest.mark.parametrize("stop", [RuntimeError, KeyboardInterrupt])
def test_one_that_was_stopped_gives_nothing_back(here, stop):
    there = make("gpt2", "emulator")

    def on_token(row, token, told=[]):  # noqa: B006
        told.append(token)
        if len(told) == 3:
            raise stop

    there.generate(input_ids=OTHERS, **SHORT)
    assert len(there.buckets.idle) == 1
    with pytest.raises(stop):
        there.generate(input_ids=IDS, streamer=on_token, **SHORT)
    assert there.buckets.idle == []
    same(here("gpt2", OTHERS, **SHORT), there.generate(input_ids=OTHERS, **SHORT))


def test_one_that_fails_while_it_is_captured_leaves_nothing_behind(here, monkeypatch):
    there, right, steps = make("gpt2", "emulator"), SplitCache.attend_step, []

    def attend_step(self, ops, q_RHK):
        steps.append(1)
        if len(steps) == 2:
            raise RuntimeError("in the middle of a capture")
        return right(self, ops, q_RHK)

    with monkeypatch.context() as patch, pytest.raises(RuntimeError, match="in the middle"):
        patch.setattr(SplitCache, "attend_step", attend_step)
        there.generate(input_ids=IDS, **SHORT)
    out = there.generate(input_ids=IDS, **SHORT)
    same(here("gpt2", IDS, **SHORT), out)
    assert counted(out.receipt) == (1, 0, 1)


def test_a_step_of_the_host_stays_as_it_is(here):
    """No graph holds a function that looks at numbers; the other part of the step is captured all the same."""
    there, how = make("gpt2", "emulator"), SHORT | {"num_beams": 2, "max_new_tokens": 4}
    for ids, captured in ((IDS, 1), (OTHERS, 0)):
        out = there.generate(input_ids=ids, plan="cuda,norm=reference", **how)
        same(here("gpt2", ids, **how), out)
        assert out.receipt.graphs.captured <= captured
        assert out.receipt.ops["residual_norm"].implementation.startswith("minidecode.reference.")


def test_room_is_for_as_many_or_more_and_seldom_another():
    rounded = {0: 0, 1: 8, 8: 8, 9: 16, 33: 64, 64: 64, 65: 128, 128: 128, 129: 256, 1000: 1024}
    assert {n: rounded_capacity(n) for n in rounded} == rounded
    assert all(rounded_capacity(n) >= n for n in range(2000))
    assert len({rounded_capacity(n) for n in range(1, 1025)}) == 12


def stand_in(key, size):
    return SimpleNamespace(key=key, bytes=size, graphs=[1], parts={})


def test_those_that_were_used_longest_ago_go():
    some = Buckets("emulator", most=3, most_bytes=100)
    for key in "abcd":
        some.give_back(stand_in(key, 10))
    assert [kept.key for kept in some.idle] == ["b", "c", "d"]
    some.give_back(stand_in("large", 85))
    assert [kept.key for kept in some.idle] == ["d", "large"]
    some.give_back(stand_in("too large", 101))
    assert some.idle == []
    some.give_back(SimpleNamespace(key="nothing captured", bytes=1, graphs=[], parts={}))
    assert some.idle == []


def test_what_is_kept_goes_before_a_generation_is_refused():
    there = make("gpt2", "emulator")
    there.generate(input_ids=IDS, **SHORT)
    with pytest.raises(MemoryBudgetError):
        there.generate(input_ids=IDS, memory_budget=10, **SHORT)
    assert there.buckets.idle == []


def forgets(name):
    """Copies all but the arrays of this name."""

    def overwrite(right):
        def wrong(kept, caches):
            stale = [getattr(cache, name).copy() for cache in kept]
            right(kept, caches)
            for cache, array in zip(kept, stale, strict=True):
                getattr(cache, name)[...] = array

        return wrong

    return overwrite


def with_the_last_search(right):
    """Copies nothing of the state: the texts, their lengths, the scores."""

    def wrong(self, ops, caches, state, said, places_R):
        stale = [array.copy() for kept in self.idle for _, array in arrays_of_state(kept.state)]
        bucket = right(self, ops, caches, state, said, places_R)
        for (_, array), old in zip(arrays_of_state(bucket.state), stale, strict=False):
            array[...] = old
        return bucket

    return wrong


def whatever_was_said(right):
    return lambda self, ops, caches, state, said, places_R: right(self, ops, caches, state, "", places_R)


def stays_in_the_pool(right):
    def wrong(self, ops, caches, *search):
        bucket = right(self, ops, caches, *search)
        if bucket not in self.idle:
            self.idle.append(bucket)
        return bucket

    return wrong


def whatever_the_functions(right):
    return lambda ops, *held: right(SimpleNamespace(functions={}), *held)


def whatever_the_shapes(right):
    return lambda ops, *held: right(ops, *held)[0]


def run_two(there, kind, plan, how):
    there.generate(input_ids=IDS, plan=plan, **how)
    return [(OTHERS, there.generate(input_ids=OTHERS, plan=plan, **how))]


def run_nested(there, kind, plan, how):
    there.generate(input_ids=[[1], [2, 3]], **how)
    return list(zip((IDS, OTHERS), one_inside_the_other(there), strict=True))


def run_two_seeds(there, kind, plan, how):
    """The other seed is given to NumPy by `how` as well."""
    there.generate(input_ids=IDS, plan=plan, **how)
    how["seed"] += 1
    return [(OTHERS, there.generate(input_ids=OTHERS, plan=plan, **how))]


def run_two_sizes(there, kind, plan, how):
    there.generate(input_ids=IDS, plan=plan, **how)
    ids = [[3] * 9, [5, 6]]
    return [(ids, there.generate(input_ids=ids, plan=plan, **how))]


MISTAKES = {  # what a kept step would do wrong, each in its own way
    "keys of the last prompts": ("split", {}, buckets, "overwrite_caches", forgets("prompt_k_BGNK"), run_two),
    "where the last prompts began": ("split", {}, buckets, "overwrite_caches", forgets("prompt_begin_B"), run_two),
    "lengths of the last texts": ("split", {}, buckets, "overwrite_caches", forgets("end_R"), run_two),
    "hidden states of the last prompts": ("el", {}, buckets, "overwrite_caches", forgets("prompt_h_BND"), run_two),
    "the last table": ("indirect", {"num_beams": 2}, buckets, "overwrite_caches", forgets("indirection_RT"), run_two),
    "the state of the last search": ("split", {}, Buckets, "acquire", with_the_last_search, run_two),
    "the numbers of other options": ("split", SAMPLES, Buckets, "acquire", whatever_was_said, run_two_seeds),
    "one bucket for two": ("split", {}, Buckets, "acquire", stays_in_the_pool, run_nested),
    "a key without shapes": ("split", {}, buckets, "key_of_steps", whatever_the_shapes, run_two_sizes),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_seen(here, monkeypatch, mistake):
    cache, options, owner, name, wrong, run = MISTAKES[mistake]
    how = SHORT | {"max_new_tokens": 4 if cache == "indirect" else 3} | options
    monkeypatch.setattr(owner, name, wrong(getattr(owner, name)))
    try:
        found = run(make("gpt2", "emulator"), "gpt2", f"cuda,cache={cache}", how)
    except (ValueError, IndexError, RuntimeError):
        return
    with pytest.raises(AssertionError):
        for ids, out in found:
            same(here("gpt2", ids, **how), out)


def test_memories_that_leave_without_a_copy_would_be_seen(here, monkeypatch):
    """Then the bucket's caches are those of fewer rows, and no one like the first fits into it any more."""
    monkeypatch.setattr(engine, "caches_over_same_arrays", lambda caches: caches)
    with pytest.raises((AssertionError, ValueError)):
        test_those_who_stay_find_the_smaller_bucket(here, "gpt2", "split")


def test_a_key_without_functions_would_be_seen(monkeypatch):
    monkeypatch.setattr(buckets, "key_of_steps", whatever_the_functions(buckets.key_of_steps))
    with pytest.raises(BaseException, match="DID NOT RAISE"):
        test_a_rebound_op_is_what_runs(monkeypatch)


def keeps_scores(scores_RV, rows):
    return scores_RV


def never(ids, scores):
    return False


ENDS = {  # what ends a captured step: how it is asked for, and what the receipt says of it
    "logits_processor (test_kept_graphs.keeps_scores (": {"logits_processor": [keeps_scores]},
    "stopping_criteria (test_kept_graphs.never (": {"stopping_criteria": [never], "num_beams": 2},
    "max_time on the host": {"max_time": 1000},
    "residual_norm is minidecode.reference.norm.residual_norm (": {"plan": "cuda,norm=reference"},
    "cache=replicated makes its arrays anew": {"plan": "cuda,cache=replicated"},
    "prefix_tokens on the host": {"prefix_tokens": [[3], []], "num_beams": 2},
    "a trace is kept": {"trace": True},
    "costs are noted": {"costs": True},
    "a step asks the model twice": {"guidance_scale": 1.5},
}


@pytest.mark.parametrize("why", ENDS)
def test_what_ends_a_captured_step_is_named(why, references_on_tape):
    """In the receipt, by the option or the op and by the function."""
    there = make("gpt2", "emulator")
    how = {"plan": "cuda"} | SHORT | ENDS[why]
    receipt = there.generate(input_ids=IDS, **how).receipt
    assert receipt.graphs.why_not.startswith(why) and f"were not captured: {why}" in str(receipt)
    off = there.generate(input_ids=IDS, **how | {"plan": f"{how['plan']},graphs=off", "max_new_tokens": 2}).receipt
    assert off.graphs.why_not == "", "nobody wants it to be"


def test_products_by_cupy_are_named_with_the_remedy(monkeypatch):
    monkeypatch.setattr(linear, "LIBRARY_FROM", dict.fromkeys(linear.LIBRARY_FROM, 1))
    monkeypatch.setattr(graphs, "BY_CUPY", f"{PRODUCT} (numpy)")  # the emulated device's products stand for CuPy's
    monkeypatch.setattr(graphs, "why_not_nvmath", lambda: "so it is")
    receipt = make("gpt2", "emulator").generate(input_ids=IDS[:1], **SHORT).receipt
    assert "not captured: a product of the library (numpy), which no graph can hold, and so it is" in str(receipt)


def test_a_step_that_is_captured_whole_has_no_reason(references_on_tape):
    receipt = make("gpt2", "emulator").generate(input_ids=IDS[:1], **SHORT).receipt
    assert receipt.graphs.why_not == "" and "not captured" not in str(receipt)
