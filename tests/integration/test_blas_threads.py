"""Small products have one BLAS thread while they last; large ones keep all; what was there before comes back."""

import threading

import numpy as np
import pytest
from test_attention_settings import make

from minidecode.bench import ladder
from minidecode.device import blas_threads
from minidecode.errors import OptionError

IDS = [[3, 9, 27], [5, 6]]


@pytest.fixture(autouse=True)
def three_threads():
    """More than one, whatever the machine and the other tests have."""
    before = [library.get_num_threads() for library in blas_threads._blas_libraries()]
    blas_threads._set_threads([3] * len(before))
    if numbers() != {3}:
        pytest.skip("this BLAS does not let itself be told")
    yield
    assert numbers() == {3}, "what was there is given back"
    blas_threads._set_threads(before)


def numbers() -> set[int]:
    return {library.get_num_threads() for library in blas_threads._blas_libraries()}


def asking(told: list):
    """A logits processor that notes how many threads there are while the model is at work."""

    def ask(scores_RV, rows):
        told.append(numbers())
        return scores_RV

    return ask


@pytest.mark.parametrize("kind", ["gpt2", "bart"])
@pytest.mark.parametrize("plan", ["numpy", "fast", "naive", "fast,arena=planned"])
def test_a_small_models_generation_has_one(kind, plan):
    told = []
    make(kind).generate(input_ids=IDS, plan=plan, max_new_tokens=3, logits_processor=[asking(told)])
    assert told and set().union(*told) == {1}


def test_logits_and_scores_have_one(monkeypatch):
    model, told = make("gpt2"), []
    forward = model.network.forward
    monkeypatch.setattr(model.network, "forward", lambda *a: told.append(numbers()) or forward(*a))
    model.logits(IDS)
    model.score(input_ids=IDS)
    assert len(told) >= 2 and set().union(*told) == {1}


@pytest.mark.parametrize("kind", ["gpt2", "bart"])
def test_a_large_models_generation_keeps_all(kind, monkeypatch):
    model = make(kind)
    sizes = [w.data.size for block in model.weights.blocks for w in vars(block).values() if hasattr(w, "layout")]
    monkeypatch.setattr(blas_threads, "SMALL", max(sizes) - 1)
    told = []
    make(kind).generate(input_ids=IDS, max_new_tokens=3, logits_processor=[asking(told)])
    assert told and set().union(*told) == {3}


def test_a_ladder_says_how_many_its_model_had():
    model = make("gpt2")
    assert "1" in ladder.blas_threads(model).split(", ")
    model.is_small = False
    assert "1" not in ladder.blas_threads(model).split(", ")


def test_what_was_there_comes_back_after_an_error():
    def fail(scores_RV, rows):
        raise ZeroDivisionError

    with pytest.raises(OptionError, match="ZeroDivisionError"):
        make("gpt2").generate(input_ids=IDS, max_new_tokens=3, logits_processor=[fail])
    assert numbers() == {3}


def test_of_two_at_once_the_last_gives_back_what_was_there():
    first_is_in, first_may_go = threading.Event(), threading.Event()

    def first():
        with blas_threads.few_blas_threads(True):
            first_is_in.set()
            first_may_go.wait()

    thread = threading.Thread(target=first)
    thread.start()
    first_is_in.wait()
    with blas_threads.few_blas_threads(True):
        first_may_go.set()
        thread.join()
        assert numbers() == {1}  # the first one's going does not end it
    assert numbers() == {3}


def test_the_bundled_models_are_small_and_published_ones_are_not():
    import minidecode as md
    from minidecode.files.folder import bundled_models
    from minidecode.loading import load_shapes

    assert all(md.load(name).is_small for name in bundled_models())
    assert not load_shapes("gpt2").is_small and not load_shapes("bart-base").is_small
    assert np.all([not load_shapes(name, dtype="int8").is_small for name in ("gpt2", "bart-base")])
