"""What weights/attention_variants.py trains, minidecode loads: both say the same for every kind of attention.

Each run needs torch and transformers 5.
"""

import numpy as np
import pytest

import minidecode as md

NEEDED = "needs transformers itself: pip install '.[oracle]'"
torch = pytest.importorskip("torch", reason=NEEDED)
transformers = pytest.importorskip("transformers", minversion="5.0", reason=NEEDED)
pytest.importorskip("tqdm", reason="the scripts that train need pip install '.[train]'")

from attention_variants import make_bart, make_gpt2  # noqa: E402 (it imports torch, which may be missing above)
from making import random_weights  # noqa: E402
from tokenizers import Tokenizer  # noqa: E402
from tolerance import FLOAT32, FLOAT64, logit_bound  # noqa: E402
from train_bart import bart_tokenizer  # noqa: E402
from train_variants import FAMILIES, VARIANTS, D, Variant, widened_feed_forward  # noqa: E402
from uptrain_gpt2 import multi_query_of  # noqa: E402

pytestmark = pytest.mark.oracle

TINY_GPT2 = md.bundled_models()["tiny-gpt2"]
# Beside what is trained: groups of heads, keys and values of different widths, windows of both.
SETTINGS = {name: (v.H, v.settings()) for name, v in VARIANTS.items()} | {
    "grouped": (4, {"num_key_value_heads": 2}),
    "uneven": (4, {"num_key_value_heads": 2, "key_width": 5, "value_width": 3, "attention_window": 7}),
    "plain": (4, {}),
}
GAINS = ("ln_1.weight", "ln_2.weight", "ln_f.weight", "layer_norm.weight", "layernorm_embedding.weight")


def toy(kind: str, H: int, settings: dict, seed: int = 0):
    """A random float64 model, 16 wide, with room for texts longer than the window of 32."""
    common = {"vocab_size": 40, "bos_token_id": 0, "eos_token_id": 1, "activation_function": "gelu_new"} | settings
    if kind == "gpt2":
        sizes = {"n_embd": 16, "n_layer": 2, "n_positions": 48, "n_head": H, "n_inner": 23}
        model = make_gpt2(transformers.GPT2Config(**sizes, **common))
    else:
        sizes = {"d_model": 16, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": H,
                 "decoder_attention_heads": H, "encoder_ffn_dim": 23, "decoder_ffn_dim": 19,
                 "max_position_embeddings": 48, "pad_token_id": 1, "decoder_start_token_id": 1}  # fmt: skip
        model = make_bart(transformers.BartConfig(**sizes, **common))
    weights = random_weights(model, GAINS, seed)
    model.load_state_dict(weights, strict=False)  # but for tied copies
    return model.double().eval()


@torch.no_grad()
def compare(model, folder) -> tuple[list[np.ndarray], list[np.ndarray], list[np.ndarray]]:
    """(torch's logits, minidecode's in float64, in float32) of two sources or texts, one with padding in torch."""
    model.save_pretrained(folder)
    rng = np.random.default_rng(1)
    long, short, target = rng.integers(2, 40, 44), rng.integers(2, 40, 19), rng.integers(2, 40, 45)
    ours = [md.load(folder, dtype=dtype) for dtype in ("float64", "float32")]
    if not ours[0].is_encoder_decoder:
        expected = [model(torch.tensor(ids)[None]).logits[0].numpy() for ids in (long, short)]
        return expected, *(m.logits([long, short]) for m in ours)
    source_BN, mask_BN = np.ones((2, 44), int), np.zeros((2, 44), int)
    for b, ids in enumerate((long, short)):
        source_BN[b, : len(ids)], mask_BN[b, : len(ids)] = ids, 1
    out = model(
        input_ids=torch.tensor(source_BN), attention_mask=torch.tensor(mask_BN),
        decoder_input_ids=torch.tensor(np.stack([target, target])),
    )  # fmt: skip
    return list(out.logits.numpy()), *(m.logits([long, short], None, [target, target]) for m in ours)


def difference(a: list[np.ndarray], b: list[np.ndarray]) -> float:
    return max(np.abs(x - y).max() for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize("kind", ["gpt2", "bart"])
@pytest.mark.parametrize("name", SETTINGS)
def test_what_is_trained_is_what_is_loaded(kind, name, tmp_path):
    H, settings = SETTINGS[name]
    expected, exact, single = compare(toy(kind, H, settings), tmp_path)
    largest, config = max(np.abs(e).max() for e in expected), md.load(tmp_path).config
    assert difference(expected, exact) <= logit_bound(config, largest, 2 * FLOAT64)  # both sides round
    assert difference(expected, single) <= logit_bound(config, largest, FLOAT32)


@pytest.mark.parametrize("kind", ["gpt2", "bart"])
def test_another_window_says_something_else(kind, tmp_path):
    """The bound above would not hide a window that is not heeded, or is one position too wide."""
    expected, _, _ = compare(toy(kind, 8, VARIANTS["multi-query local"].settings()), tmp_path)
    bound = logit_bound(md.load(tmp_path).config, max(np.abs(e).max() for e in expected), FLOAT32)
    for window in (31, 33, None):
        other = toy(kind, 8, VARIANTS["multi-query local"].settings() | {"attention_window": window})
        assert difference(expected, compare(other, tmp_path)[0]) > 10 * bound


@pytest.mark.parametrize("kind", ["gpt2", "bart"])
def test_plain_attention_is_that_of_transformers(kind, tmp_path):
    """Without settings of its own, transformers loads the folder too, and says the same."""
    expected, _, _ = compare(toy(kind, 4, {}), tmp_path)
    bound = logit_bound(md.load(tmp_path).config, max(np.abs(e).max() for e in expected), 2 * FLOAT64)
    theirs = {"gpt2": transformers.GPT2LMHeadModel, "bart": transformers.BartForConditionalGeneration}[kind]
    found, _, _ = compare(theirs.from_pretrained(tmp_path, dtype=torch.float64).eval(), tmp_path / "again")
    assert difference(expected, found) <= bound


@pytest.mark.parametrize("kind", ["gpt2", "bart"])
@pytest.mark.parametrize("name", VARIANTS)
def test_all_variants_have_as_many_parameters(kind, name):
    """To half of what one more feed-forward column costs in every layer; minidecode counts the same."""
    family = FAMILIES[kind]
    plain = Tokenizer.from_file(str(TINY_GPT2 / "tokenizer.json"))
    tokenizer = plain if kind == "gpt2" else bart_tokenizer(TINY_GPT2)

    def count(variant: Variant) -> int:
        model = family.make(family.config(variant, widened_feed_forward(variant, family.attentions), tokenizer))
        return sum(p.numel() for p in model.parameters())

    assert abs(count(VARIANTS[name]) - count(VARIANTS["multi-head"])) <= 4 * (2 * D + 1) / 2


def test_one_head_of_equal_heads_changes_nothing():
    """Where all key and value heads of a layer are alike, their mean is each of them: the model says the same.

    To what float64 rounds: the weights are float32 numbers, of which a sum of four is exact there.
    """
    gpt2 = toy("gpt2", 4, {})
    for block in gpt2.transformer.h:
        for tensor in (block.attn.c_attn.weight.data, block.attn.c_attn.bias.data):
            for part in tensor.chunk(3, dim=-1)[1:]:
                heads = part.unflatten(-1, (4, 4))
                heads.copy_(heads[..., :1, :].clone().expand_as(heads))
    ids = torch.arange(2, 30)[None]
    same = multi_query_of(gpt2, [0, 1]).double().eval()
    fewer = multi_query_of(gpt2, [1]).double().eval()
    assert same.config.num_key_value_heads == 1 and gpt2.config.to_dict().get("num_key_value_heads") is None
    with torch.no_grad():
        expected, found, other = (model(ids).logits.numpy() for model in (gpt2, same, fewer))
    bound = logit_bound(gpt2.config, np.abs(expected).max(), 2 * FLOAT64)
    assert np.abs(found - expected).max() <= bound
    assert np.abs(other - expected).max() > 10 * bound
