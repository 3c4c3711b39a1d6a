"""minidecode and transformers side by side, live: random StarCoder-like models of both layouts, and batches.

Each run needs torch and transformers 5. Where they are missing, tests/golden holds numbers that they gave.
"""

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

import make_gpt_bigcode as oracle  # noqa: E402 (it imports torch, which may be missing above)
from golden_suite import pad  # noqa: E402
from make_gpt2 import oracle_logits  # noqa: E402
from making import STORED, draw_eos, draw_options, draw_prompts, oracle_generate  # noqa: E402
from ties import Ties, compare_generation  # noqa: E402
from tolerance import FLOAT32, FLOAT64, logit_bound  # noqa: E402

pytestmark = pytest.mark.oracle

MODELS, CASES_EACH = 16, 3


@pytest.fixture(scope="module", autouse=True)
def quiet():
    """One thread (products this small are slower on two), no progress bars, no warnings about options that are off."""
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    with threadpool_limits(1):
        yield


def write_random_model(folder: Path, seed: int) -> None:
    """A random model, stored in a random way, with its keys and values shared or not."""
    rng = random.Random(seed)
    H = rng.randint(1, 5)
    fields = oracle.config_fields({
        "n_head": H, "n_embd": H * rng.randint(-(-6 // H), 8), "n_layer": rng.randint(1, 4),
        "vocab_size": rng.randint(30, 70), "n_inner": rng.choice([None, 7, 13, 40]), "multi_query": seed % 2 == 0,
        "activation_function": rng.choice(["gelu", "gelu_pytorch_tanh", "relu", "silu"]),
        "scale_attn_weights": rng.random() < 0.7, "tie_word_embeddings": rng.random() < 0.6,
        "layer_norm_epsilon": rng.choice([1e-12, 1e-5, 1e-3]),
    })  # fmt: skip
    storage = {"dtype": rng.choice(list(STORED)), "prefix": rng.choice(["", "transformer."]),
               "shards": rng.choice([1, 1, 2])}  # fmt: skip
    oracle.write_folder(folder, fields, oracle.make_weights(fields, seed), **storage)


@pytest.mark.parametrize("seed", range(MODELS))
def test_logits(seed, tmp_path):
    """Random batches with padding anywhere, in float64 and in float32."""
    write_random_model(tmp_path, seed)
    rng = random.Random(seed)
    exact = oracle.load_oracle(tmp_path, torch.float64)
    prompts = draw_prompts(rng, exact.config.vocab_size)
    expected = oracle_logits(exact, prompts)
    largest = max(np.abs(logits_NV).max() for logits_NV in expected)
    for dtype, unit in (("float64", 2 * FLOAT64), ("float32", FLOAT32)):  # float64: both sides round
        model = md.load(tmp_path, dtype=dtype)
        found = model.logits(*pad(prompts, "strewn"))
        error = max(np.abs(a - b).max() for a, b in zip(found, expected, strict=True))
        assert error <= logit_bound(model.config, largest, unit)


def make_ties(folder: Path) -> Ties:
    """The judge of one model: largest logit from single tokens."""
    exact = oracle.load_oracle(folder, torch.float64)
    samples = oracle_logits(exact, [[t] for t in range(exact.config.vocab_size)])

    def next_logits(prompt, text, options):
        return oracle_logits(exact, [[*prompt, *text]])[0][-1]

    return Ties(folder, max(np.abs(logits_NV).max() for logits_NV in samples), next_logits)


def test_generation(tmp_path):
    """Tokens are equal, up to ties; and ties are below 2 % of the cases."""
    excused = 0
    for seed in range(MODELS):
        folder = tmp_path / str(seed)
        write_random_model(folder, 10_000 + seed)
        rng = random.Random(seed)
        plain = transformers.GPTBigCodeForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
        ties = make_ties(folder)
        for _ in range(CASES_EACH):
            prompts = draw_prompts(rng, plain.config.vocab_size)
            options = draw_options(rng, rng.choice([1, 2, 3, 4]), draw_eos(rng, plain, prompts), prompts)
            theirs = oracle_generate(plain, prompts, options)
            excused += compare_generation(folder, prompts, options, *theirs, ties)
    print(f"{excused} of {MODELS * CASES_EACH} cases excused as ties")
    assert excused < 0.02 * MODELS * CASES_EACH


def test_a_converted_model_is_one_that_transformers_reads(tmp_path):
    """Heads pooled into one: transformers computes the same logits from our folder."""
    fields = oracle.config_fields({"n_head": 4, "n_embd": 20, "vocab_size": 37, "multi_query": False})
    oracle.write_folder(tmp_path / "old", fields, oracle.make_weights(fields, 5))
    md.convert(tmp_path / "old", tmp_path / "new", num_key_value_heads=1)
    theirs = oracle.load_oracle(tmp_path / "new", torch.float64)
    expected = oracle_logits(theirs, [[3, 4, 5, 6]])
    model = md.load(tmp_path / "new", dtype="float64")
    error = np.abs(model.logits([[3, 4, 5, 6]])[0] - expected[0]).max()
    assert error <= logit_bound(model.config, np.abs(expected[0]).max(), 2 * FLOAT64)
