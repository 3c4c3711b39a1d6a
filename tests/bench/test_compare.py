"""What `compare` times: on a GPU each implementation gets its arrays where it needs them."""

import copy
import json

import numpy as np
import pytest

import minidecode as md
from minidecode.bench.compare import calls_on_device, implementations, time_by_turns
from minidecode.catalog import CATALOG
from minidecode.conformance.rows import asked_of
from minidecode.ops import Norm


class OnDevice(np.ndarray):
    """Stands in for an array of CuPy."""


class StandIn:
    """Stands in for CuPy: notes what comes back from the device."""

    def __init__(self):
        self.fetched = []

    def asarray(self, a):
        return np.array(a).view(OnDevice)

    def asnumpy(self, a):
        assert isinstance(a, OnDevice)
        self.fetched.append(a.shape)
        return np.asarray(a).view(np.ndarray)


@pytest.mark.parametrize("name", CATALOG)
def test_paper_inputs_fit_the_op(name):
    row, (arguments, shape) = CATALOG[name], asked_of(name).paper_inputs()
    assert row.cost(*arguments).bytes > 0 and shape
    assert implementations(row)["reference"](*copy.deepcopy(arguments)) is not None


@pytest.mark.parametrize("name", CATALOG)
def test_the_naive_code_comes_first_and_the_best_of_a_backend_last(name):
    """Ratios are to the first."""
    labels = list(implementations(CATALOG[name]))
    assert labels[0] == "reference naive"
    for backend in {label.split()[0] for label in labels}:
        assert [label for label in labels if label.startswith(backend)][-1] == backend


def test_on_a_device_scores_stay_and_tokens_are_fetched_by_the_naive_code_alone():
    row = CATALOG["ngram"]
    arguments = (np.zeros((2, 9), np.float32), np.array([[1, 2, 1, 2], [3, 4, 3, 4]]), np.array([4, 4]), 2)
    for label, transfers in (("reference naive", 2), ("reference", 2), ("cuda", 0), ("cpu", 0)):
        cupy = StandIn()
        calls = calls_on_device(row, {label: implementations(row)[label]}, arguments, cupy)
        ((shown, (function, given)),) = calls.items()
        assert shown == ("cpu on the host" if label == "cpu" else label)
        assert isinstance(given[0], OnDevice) == (label != "cpu")
        if label != "cuda":  # kernels take no stand-in
            assert np.array_equal(function(*copy.deepcopy(given)), asked_of("ngram").oracle(*arguments))
        assert cupy.fetched == [(2, 4), (2,)][:transfers]


def test_attention_on_a_device_fetches_where_rows_begin_and_end():
    row, arguments = CATALOG["split"], asked_of("split").planted()[0]
    for label in ("reference naive", "reference merged", "reference"):
        cupy = StandIn()
        ((function, given),) = calls_on_device(row, {label: implementations(row)[label]}, arguments, cupy).values()
        a_RX = np.asarray(function(*given)).view(np.ndarray)
        assert (np.abs(a_RX - asked_of("split").oracle(*arguments)) <= asked_of("split").bound(*arguments)).all()
        assert cupy.fetched == [(2,), (4,), (4,)]


def test_arrays_inside_of_dataclasses_go_to_the_device_too():
    x, norm = np.ones((2, 3), np.float32), Norm(np.ones(3, np.float32), np.ones(3, np.float32), 1e-5)
    row = CATALOG["norm"]
    calls = calls_on_device(row, implementations(row), (x, x, None, norm), StandIn())
    _, given = calls["reference naive"]
    assert isinstance(given[3].gain_D, OnDevice) and given[2] is None and given[3].eps == 1e-5


def test_each_call_gets_arrays_of_its_own_and_the_first_turn_does_not_count():
    seen, waits = [], []
    x = np.zeros(3)
    timings = time_by_turns({"a": (lambda a: (seen.append(a[0]), a.fill(7)), (x,))}, 4, lambda: waits.append(1))
    assert seen == [0.0] * 5 and (x == 0).all() and len(waits) == 10
    assert 0 < timings[0].fastest <= timings[0].median <= timings[0].slowest


@pytest.mark.gpu
@pytest.mark.parametrize("name", CATALOG)
def test_on_a_gpu_every_implementation_is_timed(name):
    timed = {t.implementation.removesuffix(" on the host") for t in md.compare(name, repeats=2).timings}
    assert timed == set(implementations(CATALOG[name]))


def test_what_beats_main_memory_is_explained(cli):
    result = json.loads(cli("compare", "norm", "--repeats", 1, "--json").out)
    fast = min(t["median"] for t in result["timings"]) < min(result["least_seconds"].values())
    assert fast == any("stay in a cache" in note for note in result["notes"])
