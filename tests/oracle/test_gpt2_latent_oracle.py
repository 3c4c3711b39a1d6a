"""minidecode and transformers side by side, live: a GPT-2 whose cache begins with a latent's key and value.

latent_gpt2.py makes the model of what transformers has. Each run needs torch and transformers 5.
"""

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import minidecode as md

NEEDED = "needs transformers itself: pip install '.[oracle]'"
torch = pytest.importorskip("torch", reason=NEEDED)
transformers = pytest.importorskip("transformers", minversion="5.0", reason=NEEDED)

from latent_gpt2 import load_latent  # noqa: E402 (it imports torch, which may be missing above)
from latent_oracle import MODELS, write_model  # noqa: E402
from tolerance import FLOAT32, FLOAT64, logit_bound  # noqa: E402

pytestmark = pytest.mark.oracle

PROMPTS = [[0, 9, 2, 7], [3], [8, 8, 3, 11, 4, 6]]
# transformers' GPT-2 has as many key/value heads as query heads, of the model's width, and no window.
THEIRS = [name for name, f in MODELS.items() if not {"num_key_value_heads", "key_width", "attention_window"} & set(f)]


@pytest.fixture(scope="module", autouse=True)
def quiet():
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    with threadpool_limits(1):
        yield


@pytest.mark.parametrize("name", THEIRS)
@torch.no_grad()
def test_logits_and_latents(name, tmp_path):
    folder = write_model(tmp_path, name)
    decoder, encoder, linear = load_latent(folder)
    for dtype, unit in (("float32", FLOAT32), ("float64", 2 * FLOAT64)):
        model = md.load(folder, dtype=dtype)
        z_BZ = np.random.default_rng(1).standard_normal((len(PROMPTS), model.config.latent_size))
        posterior, found = model.encode_latent(input_ids=PROMPTS), model.logits(PROMPTS, latent=z_BZ)
        for b, ids in enumerate(PROMPTS):
            decoder.z_Z = torch.from_numpy(z_BZ[b])
            right_NV = decoder(torch.tensor([ids])).logits[0].numpy()
            assert np.abs(found[b] - right_NV).max() <= logit_bound(model.config, np.abs(right_NV).max(), unit)
            right_X = (linear @ encoder(torch.tensor([ids])).pooler_output[0]).numpy()
            found_X = np.concatenate([posterior.mean_BZ[b], posterior.log_variance_BZ[b]])
            bound = logit_bound(model.config.encoder, np.abs(right_X).max(), unit)
            assert np.abs(found_X - right_X).max() <= bound


@pytest.mark.parametrize("options", [
    {"num_beams": 1, "max_new_tokens": 8}, {"num_beams": 3, "max_new_tokens": 6, "num_return_sequences": 3},
    {"num_beams": 4, "max_new_tokens": 7, "no_repeat_ngram_size": 2, "length_penalty": 0.5, "early_stopping": True},
])  # fmt: skip
@pytest.mark.parametrize("name", ["plain", "untied", "wide-latent"])
@torch.no_grad()
def test_searches(name, options, tmp_path):
    """Float64 on both sides: no near tie in these cases."""
    folder = write_model(tmp_path, name)
    decoder, *_ = load_latent(folder)
    model = md.load(folder, dtype="float64")
    z_BZ = np.random.default_rng(2).standard_normal((len(PROMPTS), model.config.latent_size))
    for plan in ("cache=split", "cache=indirect", "cache=none"):
        out = model.generate(input_ids=PROMPTS, latent=z_BZ, plan=plan, **options)
        each = options.get("num_return_sequences", 1)
        for b, ids in enumerate(PROMPTS):
            decoder.z_Z = torch.from_numpy(z_BZ[b])
            right = decoder.generate(torch.tensor([ids]), do_sample=False, use_cache=False, **options)
            theirs = [row[len(ids) :].tolist() for row in right]
            ours = [row.tolist() for row in out.token_ids[b * each : (b + 1) * each]]
            padded = [row + [1] * (len(other) - len(row)) for row, other in zip(ours, theirs, strict=True)]
            assert padded == theirs
