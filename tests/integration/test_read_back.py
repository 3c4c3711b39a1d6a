"""What the host reads of a decode step: one number, and the ids of tokens that are streamed.

Everything lies on the emulated device (emulator/device_array.py): whatever looks at numbers there, or makes a shape
that hangs on them, is counted, and an array of the host's that is handed to an op, or mixed with one of the device's,
is an error. Ops look as they like: on a device they are kernels. (Here they are NumPy's, which are quick.)
"""

import dataclasses
import functools

import numpy as np
import pytest
from test_attention_settings import IDS, make
from toy import told

from minidecode.device.arrays import copy_to_device, put
from minidecode.emulator.device_array import EmulatorArray, counted_looks, data_on_device
from minidecode.options.options import Options
from minidecode.plan import Plan
from minidecode.runtime.engine import Engine
from minidecode.runtime.receipt import CountedOps
from minidecode.search.beam import beam_search
from minidecode.search.greedy import greedy_search
from minidecode.search.result import Request


def lifted(function):
    """An op of NumPy's as one of the device's."""

    @functools.wraps(function)
    def op(*args, **kwargs):
        return on_device(function(*numbers_of(args), **numbers_of(kwargs)), args)

    return op


def numbers_of(given):
    """What a kernel gets; `data_on_device` refuses arrays of the host's."""
    if isinstance(given, tuple | list) and not hasattr(given, "_fields"):
        return type(given)(map(numbers_of, given))
    if isinstance(given, dict):
        return {name: numbers_of(value) for name, value in given.items()}
    if dataclasses.is_dataclass(given):
        parts = {f.name: numbers_of(getattr(given, f.name)) for f in dataclasses.fields(given)}
        return dataclasses.replace(given, **parts)
    return data_on_device(given)


def on_device(result, args):
    """An op's result; an argument that it changed and returned is itself."""
    if isinstance(result, tuple):
        return tuple(on_device(part, args) for part in result)
    same = [a for a in args if isinstance(a, EmulatorArray) and a.there is result]
    return same[0] if same else EmulatorArray(result) if isinstance(result, np.ndarray) else result


def searched(options, plan="auto", device="emulator", limits=(7, 4, 7), drop_finished=False, **called):
    """(what is found, of all steps but the last the looks, its forward pass included, the ops' counts)"""
    model, options = make("gpt2"), Options(eos_token_id=1, **options)
    functions, make_cache = Plan.parse(f"cache=split,{plan}").resolve(False)
    place = lifted if device == "emulator" else lambda function: function
    ops = CountedOps({name: place(f) for name, f in functions.items()})
    engine = Engine(model.network, copy_to_device(device, model.weights), ops, make_cache, drop_finished, device)
    by_step, (expand, step) = [], (engine.expand, engine.step)

    with counted_looks() as looks:

        def expanded(*args):
            """What comes before the first step is not what is counted."""
            expand(*args)
            looks.clear()

        def noting(*args):
            logits_RV = step(*args)
            by_step.append(list(looks))
            looks.clear()
            return logits_RV

        engine.step, engine.expand = noting, expanded
        request = Request.make([np.array(p) for p in IDS], np.array(limits)[: len(IDS)], options)
        search = greedy_search if options.num_beams == 1 else beam_search
        return search(engine, request, options, **called), by_step, ops.counts()


ONE_FLAG = [8]
SEARCHES = [
    {"num_beams": 3},
    {"num_beams": 3, "no_repeat_ngram_size": 2},
    {"num_beams": 3, "dialect": "hf4", "early_stopping": True},
    {"num_beams": 2, "dialect": "fairseq", "temperature": 0.7, "min_new_tokens": 0},
    {"num_beams": 4, "num_beam_groups": 2, "diversity_penalty": 0.5},
    {"num_beams": 4, "num_beam_groups": 2, "diversity_penalty": 0.5, "dialect": "fairseq", "min_new_tokens": 0},
    {"num_beams": 3, "sibling_penalty": 0.3},
    {"num_beams": 2, "do_sample": True, "temperature": 1.5},
    {"num_beams": 2, "do_sample": True, "top_k": 5, "dialect": "hf4"},
    {},
    {"no_repeat_ngram_size": 2},
    {"dialect": "fairseq", "temperature": 0.7, "min_new_tokens": 0},
    {"do_sample": True},
    {"do_sample": True, "temperature": 0.7, "top_k": 8, "top_p": 0.9, "num_return_sequences": 2},
    {"do_sample": True, "dialect": "fairseq", "top_p": 0.9, "min_new_tokens": 0},
]


@pytest.mark.parametrize("options", SEARCHES, ids=str)
def test_a_step_reads_back_one_flag(options):
    limits = (7, 7, 7) if options.get("dialect") == "fairseq" else (7, 4, 7)  # where each limit makes EOS due
    found, by_step, counts = searched(options, limits=limits)
    assert len(by_step) >= 2 and by_step == [ONE_FLAG] * len(by_step)
    assert {"step_flags", "extend_sequences"} & set(counts) == {
        "step_flags" if "num_beams" in options else "extend_sequences"
    }
    # Where arrays lie changes nothing.
    here, nothing, _ = searched(options, device="cpu", limits=limits)
    assert texts(found) == texts(here) and np.array_equal(found.scores_BX, here.scores_BX) and not any(nothing)


def texts(found):
    return [[text.tolist() for text in sentence] for sentence in found.tokens]


@pytest.mark.parametrize("options", [{"num_beams": 2}, {}], ids=str)
def test_who_is_done_is_looked_at_when_somebody_leaves(options):
    """The first sentence of two has two new tokens, the other seven: after the second step it goes."""
    found, by_step, _ = searched(options, limits=(2, 7), drop_finished=True)
    done = len(IDS)  # a byte for each
    at_the_end = by_step[1][2:]  # what it has found is handed over on the device; no step looks at it
    assert by_step[0] == ONE_FLAG and by_step[1][:2] == [*ONE_FLAG, done] and not at_the_end
    assert len(by_step) >= 4 and by_step[2:] == [ONE_FLAG] * (len(by_step) - 2)
    assert texts(found) == texts(searched(options, device="cpu", limits=(2, 7))[0])


def test_with_candidates_straight_from_the_logits_too():
    _, by_step, counts = searched({"num_beams": 3, "length_penalty": 0.0}, "hars=reference")
    assert len(by_step) >= 2 and by_step == [ONE_FLAG] * len(by_step)
    assert counts["hars_candidates"].calls == len(by_step) + 1 and "log_softmax" not in counts


def test_where_texts_are_streamed_the_ids_too():
    told = {}
    found, by_step, _ = searched({}, on_token=lambda r, token: told.setdefault(r, []).append(token))
    assert len(by_step) >= 2 and by_step == [[*ONE_FLAG, 8 * len(IDS)]] * len(by_step)
    assert [[told[r]] for r in range(len(IDS))] == texts(found)


def unchanged(scores_RV, rows):
    return scores_RV


@pytest.mark.parametrize("search", [{}, {"num_beams": 2}], ids=str)
def test_a_processor_that_is_code_of_the_host_looks_at_every_step(search):
    _, by_step, _ = searched(search | {"logits_processor": unchanged})
    assert len(by_step) >= 3 and all(len(reads) > 1 for reads in by_step)


@pytest.mark.parametrize("search", [{}, {"num_beams": 2}], ids=str)
def test_all_other_processors_look_at_nothing(search):
    rules = {"min_new_tokens": 4, "repetition_penalty": 1.2, "bad_words_ids": [[3, 4]], "forced_eos_token_id": 1}
    _, by_step, _ = searched(search | rules)
    assert len(by_step) >= 3 and by_step == [ONE_FLAG] * len(by_step)


@pytest.mark.parametrize(
    "look", [bool, int, float, np.flatnonzero, lambda array: array.get(), lambda array: array[array == 0]], ids=told
)
def test_whatever_looks_is_noted(look):
    """Or else the device would prove nothing."""
    with counted_looks() as looks:
        look(put(np.zeros(() if look in (bool, int, float) else 1), "emulator"))
    assert looks
