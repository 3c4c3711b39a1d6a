"""minidecode and transformers side by side, live: random FSMT models (fairseq's post-norm Transformer) and batches.

Each run needs torch and transformers 5. tests/golden/fairseq_models holds what fairseq itself computed, for all flags.
"""

import dataclasses
import json
import random
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import minidecode as md

NEEDED = "needs transformers itself: pip install '.[oracle]'"
torch = pytest.importorskip("torch", reason=NEEDED)
transformers = pytest.importorskip("transformers", minversion="5.0", reason=NEEDED)

pytest.register_assert_rewrite("ties")

from golden_suite import pad  # noqa: E402 (it imports torch, which may be missing above)
from making import generate_alone, random_weights  # noqa: E402
from ties import Ties, compare_generation  # noqa: E402
from tolerance import FLOAT32, FLOAT64, logit_bound  # noqa: E402
from transformers import FSMTConfig, FSMTForConditionalGeneration  # noqa: E402
from transformers.models.fsmt import modeling_fsmt  # noqa: E402

pytestmark = pytest.mark.oracle

MODELS, CASES_EACH = 8, 3


@pytest.fixture(scope="module", autouse=True)
def quiet():
    """One thread (products this small are slower on two), no progress bars, no warnings about options that are off.

    transformers fills masks in float32, which cannot hold the least number of float64: here in their own dtype.
    """
    right = modeling_fsmt.fill_with_neg_inf
    modeling_fsmt.fill_with_neg_inf = lambda mask: mask.fill_(torch.finfo(mask.dtype).min)
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    with threadpool_limits(1):
        yield
    modeling_fsmt.fill_with_neg_inf = right


def write_random_model(folder: Path, seed: int):
    """A random model, saved as transformers saves it, and transformers' own copy of it in float64."""
    rng = random.Random(seed)
    heads, tied = (rng.randint(1, 3), rng.randint(1, 3)), rng.random() < 0.4
    source, target = rng.randint(20, 40), rng.randint(20, 40)
    config = FSMTConfig(
        langs=["de", "en"], src_vocab_size=target if tied else source, tgt_vocab_size=target,
        d_model=4 * heads[0] * heads[1], encoder_layers=rng.randint(1, 3), decoder_layers=rng.randint(1, 3),
        encoder_attention_heads=heads[0], decoder_attention_heads=heads[1], encoder_ffn_dim=rng.randint(5, 30),
        decoder_ffn_dim=rng.randint(5, 30), max_position_embeddings=40, scale_embedding=rng.random() < 0.7,
        activation_function=rng.choice(["relu", "gelu"]), tie_word_embeddings=tied,
    )  # fmt: skip
    model = FSMTForConditionalGeneration(config)
    weights = {
        name: tensor
        for name, tensor in random_weights(model, ("layer_norm.weight",), seed).items()
        if "embed_positions" not in name  # computed, although they are parameters until the first long text
    }
    model.load_state_dict(weights, strict=False)
    model.save_pretrained(folder)
    (folder / "generation_config.json").write_text('{"decoder_start_token_id": 2}', encoding="utf-8")  # no forced EOS
    return FSMTForConditionalGeneration.from_pretrained(folder, dtype=torch.float64).eval()


def random_sources(rng: random.Random, V: int) -> list[list[int]]:
    """One to four sources of mixed lengths, EOS last; transformers takes the token 1 for padding anywhere."""
    return [[rng.randrange(3, V) for _ in range(rng.randint(1, 9))] + [2] for _ in range(rng.choice([1, 2, 3, 4]))]


@torch.no_grad()
def logits_of(model, source: list[int], target: list[int]) -> np.ndarray:
    out = model(input_ids=torch.tensor([source]), decoder_input_ids=torch.tensor([target]), use_cache=False)
    return out.logits[0].double().numpy()


def with_their_positions(model: md.Model, theirs) -> md.Model:
    """In float64, with transformers' table of sinusoids, which is computed in float32."""
    sides = {}
    for side in ("encoder", "decoder"):
        stack, table = getattr(model.weights, side), getattr(theirs.model, side).embed_positions.weight
        wpe_ND = table.detach().double().numpy()[2 : 2 + len(stack.wpe_ND)]
        assert np.abs(wpe_ND - stack.wpe_ND).max() < 1e-5
        sides[side] = dataclasses.replace(stack, wpe_ND=wpe_ND)
    model.weights = dataclasses.replace(model.weights, **sides)
    return model


@pytest.mark.parametrize("seed", range(MODELS))
def test_logits(seed, tmp_path):
    """Random batches of sources and targets of mixed lengths, in float64 and in float32."""
    exact = write_random_model(tmp_path, seed)
    rng, fields = random.Random(seed), json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    sources = [*random_sources(rng, fields["src_vocab_size"]), [5] * 39 + [2]]
    targets = [[2, *(rng.randrange(3, fields["tgt_vocab_size"]) for _ in range(rng.randint(0, 30)))] for _ in sources]
    expected = [logits_of(exact, source, target) for source, target in zip(sources, targets, strict=True)]
    largest = max(np.abs(logits_NV).max() for logits_NV in expected)
    for dtype, unit in (("float64", 2 * FLOAT64), ("float32", FLOAT32)):  # float64: both sides round
        model = md.load(tmp_path, dtype=dtype)
        if dtype == "float64":
            with_their_positions(model, exact)
        found = model.logits(*pad(sources, "strewn"), *pad(targets, "strewn"))
        error = max(np.abs(a - b).max() for a, b in zip(found, expected, strict=True))
        assert error <= logit_bound(model.config, largest, unit), dtype


def test_generation(tmp_path):
    """Tokens are equal, up to ties; and ties are below 2 % of the cases."""
    excused = 0
    for seed in range(MODELS):
        folder, rng = tmp_path / str(seed), random.Random(seed)
        exact = write_random_model(folder, 10_000 + seed)
        plain = FSMTForConditionalGeneration.from_pretrained(folder, dtype=torch.float32).eval()
        every = [logits_of(exact, [t, 2], [2, 4]) for t in range(3, exact.config.src_vocab_size)]
        ties = Ties(
            folder, max(np.abs(logits_NV).max() for logits_NV in every),
            lambda source, text, options, exact=exact: logits_of(exact, source, [2, *text])[-1],
        )  # fmt: skip
        for _ in range(CASES_EACH):
            sources, beams = random_sources(rng, exact.config.src_vocab_size), rng.choice([1, 2, 3, 4])
            options = {
                "num_beams": beams, "max_new_tokens": rng.randint(2, 12), "eos_token_id": [2], "pad_token_id": 1,
                "length_penalty": rng.choice([0.0, 1.0, 1.5]), "early_stopping": beams > 1 and rng.random() < 0.5,
            }  # fmt: skip
            theirs, scores = generate_alone(plain, sources, options)
            excused += compare_generation(folder, sources, options, theirs, scores, ties)
    print(f"of {MODELS * CASES_EACH} cases {excused} excused as ties")
    assert excused <= 0.02 * MODELS * CASES_EACH
