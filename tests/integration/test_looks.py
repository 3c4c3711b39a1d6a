"""A host that looks at a captured search every few steps: the texts, pieces and errors of one that looks at each.

On the emulated device, with NumPy's references as its kernels (taped_ops.py).
"""

import numpy as np
import pytest
from taped_ops import references_on_tape
from test_device import IDS, make

from minidecode.emulator.device_array import counted_looks
from minidecode.errors import MinidecodeError
from minidecode.ops import FINE, NONE_LEFT, NOT_A_NUMBER, PENALTY_TOO_STRONG
from minidecode.reference import argmax, beam_update, gather, softmax
from minidecode.runtime.buckets import Buckets
from minidecode.search import looks
from minidecode.search.looks import MOST, Looks, Past, steps_between_looks

__all__ = ["references_on_tape"]  # a fixture
pytestmark = pytest.mark.usefixtures("references_on_tape")
SETTINGS = {"n_positions": 64}
NEW = 21  # tokens: two looks of eight steps, and one of five
SEARCHES = {
    "greedy": {},
    "samples": {"do_sample": True, "top_k": 5, "num_return_sequences": 2, "seed": 4},
    "beams": {"num_beams": 3, "num_return_sequences": 2},
    "groups": {"num_beams": 4, "num_beam_groups": 2, "diversity_penalty": 0.5},
    "processors": {"min_new_tokens": 5, "no_repeat_ngram_size": 2, "forced_eos_token_id": 1},
    "beams of fairseq": {"num_beams": 2, "dialect": "fairseq", "min_new_tokens": 0},
    "beams of ctranslate2": {"num_beams": 2, "dialect": "ctranslate2"},
    "beams of lightseq": {"num_beams": 2, "dialect": "lightseq"},
}


def every(steps):
    """Looks that are so many steps apart, however texts may end."""
    return lambda *_: steps


@pytest.fixture(scope="module")
def there():
    return make("gpt2", "emulator", **SETTINGS)


def generate(there, between, monkeypatch, **options):
    """(tokens, steps and what was streamed; scores; the receipt), with so many steps between two looks."""
    monkeypatch.setattr(looks, "steps_between_looks", every(between))
    told = []
    if options.get("num_beams", 1) == 1:
        options["streamer"] = lambda row, token: told.append((row, token))
    out = there.generate(**{"input_ids": IDS, "max_new_tokens": NEW} | options)
    return ([ids.tolist() for ids in out.token_ids], out.receipt.steps, told), out.scores, out.receipt


@pytest.mark.parametrize("drop", ["off", "on"])
@pytest.mark.parametrize("name", SEARCHES)
def test_the_same_is_said_however_seldom_the_host_looks(name, drop, there, monkeypatch):
    """By two of the EOS all texts end after 8 to 20 steps: those that were launched after that change nothing."""
    apart = set()
    for eos in (0, 9, 2):
        how = {"eos_token_id": eos, "plan": f"cuda,drop_finished={drop}"} | SEARCHES[name]
        right, scores, each = generate(there, 1, monkeypatch, **how)
        for between in (4, MOST):
            said, others, receipt = generate(there, between, monkeypatch, **how)
            assert said == right
            np.testing.assert_allclose(others, scores, rtol=0 if drop == "off" else 1e-6)
            assert receipt.graphs.looks == -(-receipt.steps // between) or drop == "on"
            apart.add(receipt.rows - each.rows)
    assert max(apart) > 0 and (min(apart) == 0 or drop == "on"), "too many where texts end early, none at the limit"


def test_a_step_is_one_launch_and_an_eighth_of_a_look(there):
    """Beside it, the host reads the texts at the end."""
    how = {"input_ids": IDS, "num_beams": 2, "max_new_tokens": NEW, "eos_token_id": None}
    there.generate(**how)
    with counted_looks() as read:
        out = there.generate(**how)
    graphs = out.receipt.graphs
    assert graphs.launches == out.receipt.steps - 1 == NEW - 1
    assert read.count(8) == graphs.looks == -(-NEW // MOST) and len(read) <= graphs.looks + 12
    assert f"the host read the flags of {NEW} steps in {graphs.looks} reads" in str(out.receipt)


def test_a_stream_is_read_as_seldom(there):
    how = {"input_ids": IDS, "max_new_tokens": NEW, "eos_token_id": None, "streamer": lambda row, token: None}
    there.generate(**how)
    with counted_looks() as read:
        there.generate(**how)
    assert [read.count(8), read.count(8 * 8 * len(IDS)), read.count(8 * 5 * len(IDS))] == [3, 2, 1]


def test_where_texts_may_end_looks_get_rarer():
    """Of 8 K * K steps, K - 1 too many are at most one in 32."""
    assert [steps_between_looks(steps, False) for steps in (1, 9, 1000)] == [MOST] * 3
    assert [steps_between_looks(steps, True) for steps in (1, 31, 32, 127, 128, 511, 512, 9999)] == [
        1,
        1,
        2,
        2,
        4,
        4,
        8,
        8,
    ]


def unchanged(scores_RV, rows):
    return scores_RV


@pytest.mark.parametrize(
    "how",
    [{"logits_processor": [unchanged]}, {"max_time": 1000}, {"trace": True}, {"keep": ["scores"]},
     {"plan": "cuda,cache=replicated"}, {"plan": "cuda,graphs=off"}, {"guidance_scale": 1.5}],
    ids=["processor", "time", "trace", "kept scores", "replicated", "no graphs", "guidance"],
)  # fmt: skip
@pytest.mark.parametrize("search", [{}, {"num_beams": 2}], ids=str)
def test_the_host_looks_at_each_step_where_it_has_to(how, search, there):
    receipt = there.generate(
        input_ids=IDS, max_new_tokens=4, eos_token_id=None, **{"plan": "cuda"} | how | search
    ).receipt
    assert receipt.steps == 4 and receipt.graphs.looks in (0, 4), "none is counted where none can be left out"


@pytest.mark.parametrize("options", [{}, {"num_beams": 2}], ids=str)
def test_nothing_is_launched_beyond_the_longest_limit(options, there, monkeypatch):
    """The limits of texts lie apart: 7 and 10 new tokens."""
    how = {"max_new_tokens": None, "max_length": 12, "eos_token_id": None} | options
    right, _, _ = generate(there, 1, monkeypatch, **how)
    said, _, receipt = generate(there, MOST, monkeypatch, **how)
    assert said == right and receipt.steps == 10 and receipt.graphs.looks == 2
    assert receipt.rows == 9 * len(IDS) * options.get("num_beams", 1)


def test_a_launch_beyond_the_limit_would_be_seen(there, monkeypatch):
    monkeypatch.setattr(Looks, "are_due", lambda self, past, rows, key: rows.step - self.steps >= MOST)
    with pytest.raises(AssertionError):
        test_nothing_is_launched_beyond_the_longest_limit({}, there, monkeypatch)


PLANTED = {  # an op of a search, where its result's troubles stand, and options that make it run
    "the choice": (argmax, "argmax_tokens", 2, {"eos_token_id": None}),
    "a drawn one": (gather, "gather_logprobs", 1, {"eos_token_id": None, "do_sample": True, "top_k": 0}),
    "the model's scores": (softmax, "log_softmax", 1, {"eos_token_id": None, "do_sample": True, "top_k": 0}),
    "beams": (beam_update, "update_beams", 6, {"eos_token_id": None, "num_beams": 2}),
    "groups": (beam_update, "update_beams", 6, {"eos_token_id": None} | SEARCHES["groups"]),
    "the model's scores, beams": (softmax, "log_softmax", 1, {"eos_token_id": None, "num_beams": 2}),
}
BY_CALL = {4: {1: NONE_LEFT}, 5: {1: NOT_A_NUMBER}, 6: {0: NOT_A_NUMBER, 1: NOT_A_NUMBER}}  # of rows, what is wrong
OTHERS = {3: {0: NOT_A_NUMBER, 1: NONE_LEFT}, 4: {0: NONE_LEFT}}
OF_BEAMS = {5: {1: PENALTY_TOO_STRONG}, 6: {0: NOT_A_NUMBER}}


PLANS = {"cpu": "numpy,cache=split", "emulator": "cuda"}


def plant(monkeypatch, name, by_call):
    """The op notes these troubles at these calls, and none at any other."""
    module, op, place, _ = PLANTED[name]
    right, calls = getattr(module, op), []

    def spoilt(*args, **kwargs):
        results = right(*args, **kwargs)
        results[place][...] = FINE
        for row, trouble in by_call.get(len(calls), {}).items():
            results[place][row] = trouble
        calls.append(op)
        return results

    monkeypatch.setattr(module, op, spoilt)


def error_of(name, by_call, device, between, monkeypatch):
    """(its text, what was streamed before it)"""
    options, told = {"input_ids": IDS, "max_new_tokens": NEW} | PLANTED[name][3], []
    if "num_beams" not in options:
        options["streamer"] = lambda row, token: told.append((row, token))
    with monkeypatch.context() as here:
        here.setattr(looks, "steps_between_looks", every(between))
        plant(here, name, by_call)
        with pytest.raises(MinidecodeError) as error:
            make("gpt2", device, **SETTINGS).generate(plan=PLANS[device], **options)
    return f"{type(error.value).__name__}: {error.value}", told


@pytest.mark.parametrize("name", PLANTED)
@pytest.mark.parametrize("by_call", [BY_CALL, OTHERS, OF_BEAMS], ids=["at 5", "at 4", "at 6"])
def test_the_first_trouble_is_the_error(name, by_call, monkeypatch):
    """Its step, its row and its kind; not one that comes later, by a text before it."""
    right, pieces = error_of(name, by_call, "cpu", 1, monkeypatch)
    step = 1 + min(by_call) // (2 if name == "groups" else 1)
    assert f"at step {step}" in right or f"at {step} tokens" in right
    for between in (1, 4, MOST):
        assert error_of(name, by_call, "emulator", between, monkeypatch) == (right, pieces)


@pytest.mark.parametrize("name", ["the choice", "the model's scores", "beams"])
def test_trouble_that_is_overwritten_would_be_seen(name, monkeypatch):
    note = Past.note

    def forgets(self, *told):
        self.history_X[...] = 0
        note(self, *told)

    monkeypatch.setattr(Past, "note", forgets)
    with pytest.raises(BaseException, match="DID NOT RAISE"):
        test_the_first_trouble_is_the_error(name, BY_CALL, monkeypatch)


def test_rows_leave_by_halves_so_that_no_departure_captures(there, monkeypatch):
    """Five sentences that end in other orders, by one plan: kept steps are those of 5, 3, 2 and 1 sentences."""
    kept, acquire = [], Buckets.acquire

    def noting(self, ops, caches, state=None, *said):
        kept.append(len(state))
        return acquire(self, ops, caches, state, *said)

    monkeypatch.setattr(Buckets, "acquire", noting)
    how = {"plan": "cuda,drop_finished=on", "max_length": 14, "max_new_tokens": None, "eos_token_id": None}
    for lengths in ((9, 7, 5, 3, 1), (1, 9, 8, 3, 5), (4, 9, 2, 8, 1)):
        ids = [[3 + n] * n for n in lengths]
        out = there.generate(input_ids=ids, **how)
        alone = [there.generate(input_ids=[one], **how).token_ids[0] for one in ids]
        assert all(np.array_equal(*both) for both in zip(out.token_ids, alone, strict=True))
    assert set(kept) <= {5, 3, 2, 1} and out.receipt.graphs.captured == 0
