"""What the host reads of a decode step: one number, and the ids of tokens that are streamed.

Arrays that ops make, and those of a search's state, are `OnDevice` here: whatever looks at a number of theirs, or at a
shape that hangs on their numbers, is noted. Ops look as they like: on a device they are kernels. So arrays that lie
with the host must not be handed to them: those are noted too.
"""

import functools

import numpy as np
import pytest
from test_attention_settings import IDS, make
from toy import told

from minidecode.plan import Plan
from minidecode.runtime.engine import Engine
from minidecode.runtime.receipt import CountedOps
from minidecode.search.beam import beam_search
from minidecode.search.greedy import greedy
from minidecode.search.options import Options
from minidecode.search.result import Request

READS = []  # the bytes of each look
BROUGHT = []  # (op, shape) of each array that an op is handed from the host
OF_THEIR_SHAPE = {np.flatnonzero, np.nonzero, np.argwhere, np.unique, np.array_equal, np.ix_, np.allclose}


class OnDevice(np.lib.mixins.NDArrayOperatorsMixin):
    """An array that lies elsewhere: its shape is known, its numbers must be fetched."""

    base = None

    def __init__(self, there):
        self.there = there

    shape, dtype, nbytes, size, ndim, itemsize, flags = (
        property(lambda self, name=name: getattr(self.there, name))
        for name in ("shape", "dtype", "nbytes", "size", "ndim", "itemsize", "flags")
    )

    def __len__(self):
        return len(self.there)

    def __getitem__(self, key):
        return moved(self.there[unmoved(key)] if not is_mask(key) else fetched(self)[fetched(key)])

    def __setitem__(self, key, value):
        self.there[unmoved(key)] = unmoved(value)

    def __array_ufunc__(self, ufunc, method, *inputs, **named):
        return moved(getattr(ufunc, method)(*unmoved(inputs), **unmoved(named)))

    def __array_function__(self, function, types, args, kwargs):
        if function in OF_THEIR_SHAPE:
            READS.append(self.nbytes)
        return moved(function(*unmoved(args), **unmoved(kwargs)))

    def __array__(self, dtype=None, copy=None):
        return fetched(self)


for name in ("reshape", "copy", "astype", "any", "all", "max", "min", "sum", "argmax", "transpose"):
    setattr(OnDevice, name, lambda self, *a, name=name, **k: moved(getattr(self.there, name)(*unmoved(a), **k)))
for name in ("__bool__", "__int__", "__index__", "__float__", "__iter__", "tolist", "item"):
    setattr(OnDevice, name, lambda self, *a, name=name: getattr(fetched(self), name)(*a))


def fetched(array):
    """The numbers, which are a look at them; what lies here is no news."""
    if not isinstance(array, OnDevice):
        return array
    READS.append(array.nbytes)
    return np.asarray(array.there)


def moved(result):
    """Arrays and their numbers as they come from a device; several of them too."""
    if isinstance(result, tuple):
        return tuple(map(moved, result))
    return OnDevice(np.asarray(result)) if isinstance(result, np.ndarray | np.generic) else result


def unmoved(given):
    """What an op gets to see."""
    if isinstance(given, tuple | list):
        return type(given)(map(unmoved, given))
    if isinstance(given, dict):
        return {name: unmoved(value) for name, value in given.items()}
    return given.there if isinstance(given, OnDevice) else given


def is_mask(key):
    """Whether the shape of what is picked hangs on numbers that lie elsewhere."""
    return isinstance(key, OnDevice) and key.dtype == bool


def lying_here(given):
    """The arrays that an op is handed and that lie with the host: each would be brought over, at every step."""
    if isinstance(given, tuple | list):
        return [array for each in given for array in lying_here(each)]
    return [given] if isinstance(given, np.ndarray) else []


def on_device(function):
    @functools.wraps(function)
    def op(*args, **kwargs):
        BROUGHT.extend((function.__name__, array.shape) for array in lying_here([*args, *kwargs.values()]))
        return moved(function(*unmoved(args), **unmoved(kwargs)))

    return op


def searched(options, plan="auto", place=on_device, limits=(7, 4, 7), **called):
    """(what is found, of all steps but the last the looks between one forward pass and the next and what ops were
    handed from the host there, the ops' counts)"""
    model, options = make("gpt2"), Options(eos_token_id=1, **options)
    functions, make_memory = Plan.parse(f"memory=split,{plan}").resolve(False)
    ops = CountedOps({name: place(f) for name, f in functions.items()})
    engine, by_step = Engine(model.network, model.weights, ops, make_memory), []
    expand, step = engine.expand, engine.step

    def unnoticed(method, *args):
        """What comes before the first step, and a forward pass, are not what is counted."""
        result = method(*args)
        READS.clear()
        BROUGHT.clear()
        return result

    def noting(*args):
        by_step.append(READS + BROUGHT)
        return unnoticed(step, *args)

    engine.step, engine.expand = noting, functools.partial(unnoticed, expand)
    request = Request.make([np.array(p) for p in IDS], np.array(limits)[: len(IDS)], options)
    search = greedy if options.num_beams == 1 else beam_search
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
    assert {"tell_step", "extend_texts"} & set(counts) == {"tell_step" if "num_beams" in options else "extend_texts"}
    # Where arrays lie changes nothing.
    here, nothing, _ = searched(options, place=lambda function: function, limits=limits)
    assert texts(found) == texts(here) and np.array_equal(found.scores_BX, here.scores_BX) and not any(nothing)


def texts(found):
    return [[text.tolist() for text in sentence] for sentence in found.tokens]


def test_with_candidates_straight_from_the_logits_too():
    _, by_step, counts = searched({"num_beams": 3, "length_penalty": 0.0}, "hars=reference")
    assert len(by_step) >= 2 and by_step == [ONE_FLAG] * len(by_step)
    assert counts["search_candidates"].calls == len(by_step) + 1 and "log_softmax" not in counts


def test_where_texts_are_streamed_the_ids_too():
    told = {}
    found, by_step, _ = searched({}, on_token=lambda r, token: told.setdefault(r, []).append(token))
    assert len(by_step) >= 2 and by_step == [[*ONE_FLAG, 8 * len(IDS)]] * len(by_step)
    assert [[told[r]] for r in range(len(IDS))] == texts(found)


def test_what_is_handed_from_the_host_is_noted():
    BROUGHT.clear()
    there = OnDevice(np.zeros((2, 3)))
    on_device(np.add)(there, np.ones(3), out=None)
    assert BROUGHT == [("add", (3,))]


@pytest.mark.parametrize("options", [{"num_beams": 2, "min_new_tokens": 2}, {"min_new_tokens": 2}], ids=str)
def test_a_processor_that_is_no_op_looks_at_the_steps_at_which_it_is_due(options):
    _, by_step, _ = searched(options)
    assert all(len(reads) > 1 for reads in by_step[:2])
    assert len(by_step) >= 3 and by_step[2:] == [ONE_FLAG] * (len(by_step) - 2)


@pytest.mark.parametrize(
    "look", [bool, int, float, list, np.asarray, np.flatnonzero, lambda array: array[array == 0]], ids=told
)
def test_whatever_looks_is_noted(look):
    """Or else the stand-in would prove nothing."""
    READS.clear()
    look(OnDevice(np.zeros(())) if look in (bool, int, float) else OnDevice(np.zeros(1)))
    assert READS
