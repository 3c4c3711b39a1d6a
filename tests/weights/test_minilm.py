"""all-MiniLM-L6-v2 in use: golden vectors, transformers' rows, and texts of mixed lengths."""

from __future__ import annotations

import numpy as np
import pytest

import minidecode as md

pytestmark = pytest.mark.weights
TEXT = "A beam search keeps the best few texts."
IDS = [101, 1037, 7504, 3945, 7906, 1996, 2190, 2261, 6981, 1012, 102]
MEAN = [-0.003449, 0.014201, 0.012067, 0.013899, 0.034873]  # the first numbers of the vector, by transformers
POOLER = [-0.086917, 0.008055, 0.013063]
TEXTS = [TEXT, "Call me Ishmael.", "How old are you?", "What is your age?", "x", "The sea " * 60]


@pytest.fixture(scope="module")
def model():
    return md.load("minilm")


def test_the_tokens(model):
    assert model.tokenizer.encode(TEXT).tolist() == IDS


@pytest.mark.parametrize("plan", ["numpy", "fast", "auto"])
def test_golden_vectors(model, plan):
    assert np.abs(model.encode(TEXT, plan=plan)[0, :5] - MEAN).max() < 1e-5
    assert np.abs(model.encode(TEXT, plan=plan, pooling="pooler", normalize=False)[0, :3] - POOLER).max() < 1e-5


def test_the_files_say_how_texts_become_vectors(model):
    settings = model.sentences
    assert (settings.pooling, settings.normalize, settings.max_tokens) == ("mean", True, 256)
    assert np.allclose(np.linalg.norm(model.encode(TEXTS), axis=1), 1, atol=1e-6)


def test_a_text_alone_is_what_it_is_in_its_batch(model):
    together = model.encode(TEXTS)
    alone = np.concatenate([model.encode(text) for text in TEXTS])
    assert np.abs(together - alone).max() < 1e-5


def test_near_questions_are_near(model):
    x_BD = model.encode(TEXTS)
    near, far = x_BD[2] @ x_BD[3], x_BD[2] @ x_BD[1]
    assert near > 0.7 > 0.3 > far


def test_what_is_too_long_is_cut_as_asked(model):
    long = "the sea " * 200
    with pytest.raises(md.InputError, match="has 402 tokens, and the model reads 256: shorten it, or cut it with"):
        model.encode(long)
    assert np.abs(model.encode(long, truncate=True) - model.encode("the sea " * 127)).max() < 1e-6


def test_rows_are_those_of_transformers(model):
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    theirs = transformers.AutoModel.from_pretrained(model.loaded_from.folder, dtype=torch.float32).eval()
    for text, found in zip(TEXTS, model.encode_tokens(TEXTS), strict=True):
        with torch.inference_mode():
            ids = torch.tensor(model.tokenizer.encode(text))[None]
            right = theirs(ids).last_hidden_state[0].numpy()
        assert np.abs(found - right).max() < 2e-5


@pytest.mark.parametrize(("dtype", "least"), [("float16", 0.99999), ("int8", 0.99), ("int8_dynamic", 0.98)])
def test_narrow_weights(model, dtype, least):
    try:
        narrow = md.load("minilm", dtype=dtype)
    except md.OptionError as error:
        pytest.skip(str(error))
    assert (np.sum(narrow.encode(TEXTS) * model.encode(TEXTS), axis=1) > least).all()
