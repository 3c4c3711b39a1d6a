"""num_key_value_heads, key_width, value_width and attention_window, in GPT-2 and BART.

transformers has no such GPT-2 or BART, so the proof goes by models that must agree: a grouped-query model and the
multi-head model whose key/value heads are copies of the groups'; a window as wide as the text and none; a cache and
none. And a narrow window hides what lies before it.
"""

import re

import numpy as np
import pytest
from tolerance import FLOAT64, logit_bound, score_bound

from minidecode.errors import CheckpointError
from minidecode.model import Model
from minidecode.models import FAMILIES
from minidecode.plan import CACHES, Plan

SIZES = {
    "gpt2": {"vocab_size": 40, "n_positions": 24, "n_embd": 12, "n_layer": 2, "n_head": 4},
    "bart": {
        "vocab_size": 40, "max_position_embeddings": 24, "d_model": 12, "encoder_layers": 2, "decoder_layers": 2,
        "encoder_attention_heads": 4, "decoder_attention_heads": 2, "encoder_ffn_dim": 9, "decoder_ffn_dim": 17,
    },
}  # fmt: skip
IDS = [[3, 9, 27, 11, 30, 7], [5, 6]]
TARGETS = [[2, 8, 14], [2, 33, 9, 4]]


def random_tensors(family, config, seed=0):
    rng = np.random.default_rng(seed)
    return {name: rng.normal(0, 0.35, shape) for name, shape in family.network.tensor_shapes(config).items()}


def make(kind, tensors=None, **settings):
    family = FAMILIES[kind]
    config = family.config.from_json(SIZES[kind] | settings)
    tensors = random_tensors(family, config) if tensors is None else tensors
    return Model(family, config, tensors, None, {"decoder_start_token_id": 2, "eos_token_id": 1}, Plan())


def caches_for(settings):
    """All caches; the rolling one only for a model with a window: others refuse it."""
    return [name for name in CACHES if name != "rolling" or "attention_window" in settings]


def logits(model):
    return model.logits(IDS, None, TARGETS) if model.is_encoder_decoder else model.logits(IDS)


def rounding(model):
    """How far the logits of two ways to compute them in float64 may lie apart."""
    return logit_bound(model.config, max(np.abs(a).max() for a in logits(model)), 2 * FLOAT64)


def repeat_heads(columns, G, times, width):
    """Columns of G heads -> columns of G*times heads, each head `times` times in a row."""
    rows = columns.reshape(-1, G, width)
    return np.repeat(rows, times, axis=1).reshape(*columns.shape[:-1], G * times * width)


def as_multi_head(kind, model):
    """The tensors of the multi-head model that a grouped-query model equals."""
    tensors, c = dict(model.tensors), model.config
    for name, data in model.tensors.items():
        stack = "encoder" if name.startswith("encoder.") else "decoder"
        h = c.heads(c.n_head if kind == "gpt2" else getattr(c, f"{stack}_attention_heads"))
        times = h.H // h.G
        if "c_attn" in name:
            q, k, v = np.split(data, [h.H * h.K, (h.H + h.G) * h.K], axis=-1)
            k, v = repeat_heads(k, h.G, times, h.K), repeat_heads(v, h.G, times, h.U)
            tensors[name] = np.concatenate([q, k, v], axis=-1)
        elif "k_proj" in name or "v_proj" in name:
            width = h.K if "k_proj" in name else h.U
            tensors[name] = repeat_heads(data.T, h.G, times, width).T
    return tensors


@pytest.mark.parametrize("kind", ["gpt2", "bart"])
@pytest.mark.parametrize("settings", [
    {"num_key_value_heads": 1}, {"num_key_value_heads": 2}, {"num_key_value_heads": 1, "key_width": 5},
    {"num_key_value_heads": 2, "key_width": 2, "value_width": 7}, {"value_width": 1},
])  # fmt: skip
def test_grouped_queries_equal_the_multi_head_model_with_copied_heads(kind, settings):
    grouped = make(kind, **settings)
    widths = {k: v for k, v in settings.items() if k != "num_key_value_heads"}
    spread = make(kind, as_multi_head(kind, grouped), **widths)
    for a, b in zip(logits(grouped), logits(spread), strict=True):
        assert np.abs(a - b).max() <= rounding(grouped)


@pytest.mark.parametrize("kind", ["gpt2", "bart"])
@pytest.mark.parametrize("settings", [
    {"num_key_value_heads": 1, "attention_window": 3}, {"attention_window": 1}, {"key_width": 5, "value_width": 2},
])  # fmt: skip
@pytest.mark.parametrize("num_beams", [1, 3])
def test_the_memories_agree(kind, settings, num_beams):
    """The caches under every setting: recomputing everything says the same."""
    model = make(kind, **settings)
    options = {"num_beams": num_beams, "max_new_tokens": 12, "eos_token_id": None}
    expected = model.generate(input_ids=IDS, plan="cache=none", **options)
    bound_X = [score_bound(rounding(model), 12, 1.0, score, 2 * FLOAT64) for score in expected.scores]
    for cache in caches_for(settings):
        out = model.generate(input_ids=IDS, plan=f"cache={cache}", **options)
        assert [t.tolist() for t in out.token_ids] == [t.tolist() for t in expected.token_ids]
        assert (np.abs(out.scores - expected.scores) <= bound_X).all()


@pytest.mark.parametrize("kind", ["gpt2", "bart"])
def test_a_window_wider_than_the_text_changes_nothing(kind):
    tensors = make(kind).tensors
    wide, whole = make(kind, tensors, attention_window=20), make(kind, tensors)
    assert all(np.array_equal(a, b) for a, b in zip(logits(wide), logits(whole), strict=True))
    narrow = make(kind, tensors, attention_window=1)
    assert np.abs(logits(narrow)[1] - logits(whole)[1]).max() > 10 * rounding(whole)


def test_a_window_hides_what_lies_before_it():
    """With one layer and a window of 3, a change three positions back cannot reach a row; two back, it does."""
    model = make("gpt2", n_layer=1, attention_window=3)
    text = np.array([3, 9, 27, 11, 30, 7])
    for back, reaches in [(2, True), (3, False), (4, False)]:
        changed = text.copy()
        changed[len(text) - 1 - back] = 35
        a, b = model.logits([text])[0][-1], model.logits([changed])[0][-1]
        assert np.array_equal(a, b) != reaches


def test_the_window_leaves_encoder_and_cross_attention_alone():
    model = make("bart", attention_window=1)
    changed = [[35, *IDS[0][1:]], IDS[1]]
    difference = model.logits(IDS, None, TARGETS)[0][-1] - model.logits(changed, None, TARGETS)[0][-1]
    assert np.abs(difference).max() > 10 * rounding(model)


@pytest.mark.parametrize(("kind", "heads"), [
    ("gpt2", "n_head"), ("bart", "encoder_attention_heads"), ("bart", "decoder_attention_heads"),
])  # fmt: skip
@pytest.mark.parametrize("given", [{}, {"key_width": 3}, {"value_width": 3}], ids=str)
def test_every_stack_needs_heads_that_divide_the_width(kind, heads, given):
    """5 heads do not divide a width of 12; only key_width and value_width together make that right."""
    width = "n_embd" if kind == "gpt2" else "d_model"
    with pytest.raises(CheckpointError, match=re.escape(f"{width} 12 is not a multiple of {heads} 5")):
        make(kind, **{heads: 5}, **given)
    config = make(kind, **{heads: 5}, key_width=3, value_width=4).config
    stack = config.stacks["encoder" if heads.startswith("encoder") else "decoder"][1]
    assert (stack.H, stack.K, stack.U) == (5, 3, 4)


@pytest.mark.parametrize("heads", ["encoder_attention_heads", "decoder_attention_heads"])
def test_every_stack_needs_heads_that_its_groups_divide(heads):
    others = {"encoder_attention_heads": 4, "decoder_attention_heads": 4} | {heads: 3}
    with pytest.raises(CheckpointError, match=f"{heads} 3 is not a multiple of num_key_value_heads 2"):
        make("bart", num_key_value_heads=2, **others)
