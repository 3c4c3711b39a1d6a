"""minidecode and transformers side by side, live: random Llama, Qwen2 and Mistral models and batches.

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

import make_llama as oracle  # noqa: E402 (it imports torch, which may be missing above)
from golden_suite import pad  # noqa: E402
from making import STORED, draw_eos, draw_options, draw_prompts, generate_alone  # noqa: E402
from ties import Ties, compare_generation  # noqa: E402
from tolerance import FLOAT32, FLOAT64, logit_bound  # noqa: E402

pytestmark = pytest.mark.oracle

MODELS, CASES_EACH, CONTEXT = 16, 3, 40
PLANS = tuple(f"cache={m}" for m in ("none", "replicated", "preallocated", "split", "indirect"))
ROPES = [{}, {}, {"rope_scaling": {"rope_type": "linear", "factor": 3.0}}, {"rope_scaling": oracle.LLAMA3}]


@pytest.fixture(scope="module", autouse=True)
def quiet():
    """One thread (products this small are slower on two), no progress bars, no warnings about options that are off."""
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    with threadpool_limits(1):
        yield


def write_random_model(folder: Path, seed: int) -> dict:
    """A random model, stored in a random way -> the fields of its config.json."""
    rng = random.Random(seed)
    kind = rng.choice(["llama", "llama", "mistral", "qwen2"])
    G, group, K = rng.randint(1, 3), rng.randint(1, 3), 2 * rng.randint(2, 5)
    H = G * group
    D = H * (K if kind == "qwen2" else rng.randint(-(-10 // H), -(-30 // H)))  # elsewhere H * K may be another width
    fields = oracle.config_fields({
        "model_type": kind, "num_attention_heads": H, "num_key_value_heads": G, "hidden_size": D,
        "head_dim": None if kind == "qwen2" else K, "num_hidden_layers": rng.randint(1, 3),
        "vocab_size": rng.randint(30, 70), "intermediate_size": rng.randint(10, 40),
        "hidden_act": rng.choice(["silu", "silu", "gelu", "relu"]), "tie_word_embeddings": rng.random() < 0.5,
        "rms_norm_eps": rng.choice([1e-6, 1e-5, 1e-3]), "rope_theta": rng.choice([50.0, 1e4, 1e6]),
        "max_position_embeddings": CONTEXT, **rng.choice(ROPES),
        **({"attention_bias": rng.random() < 0.5, "mlp_bias": rng.random() < 0.5} if kind == "llama" else {}),
        **({"sliding_window": rng.choice([None, 3, 5, 8])} if kind == "mistral" else {}),
    })  # fmt: skip
    if kind == "mistral":  # which config_fields leaves out where it is None: transformers' default is 4096
        fields.setdefault("sliding_window", None)
    storage = {"dtype": rng.choice(list(STORED)), "shards": rng.choice([1, 1, 2])}
    oracle.write_folder(folder, fields, oracle.make_weights(fields, seed), **storage)
    return fields


@torch.no_grad()
def oracle_logits(model, prompts: list[list[int]]) -> list[np.ndarray]:
    """The logits of each prompt, asked alone."""
    return [model(torch.tensor([prompt])).logits[0].numpy() for prompt in prompts]


@pytest.mark.parametrize("seed", range(MODELS))
def test_logits(seed, tmp_path):
    """Random batches with padding anywhere, in float64 and in float32; one prompt as long as the context."""
    fields = write_random_model(tmp_path, seed)
    rng = random.Random(seed)
    exact = oracle.load_oracle(tmp_path, fields, torch.float64)
    V = exact.config.vocab_size
    prompts = [*draw_prompts(rng, V), [rng.randrange(V) for _ in range(CONTEXT)]]
    expected = oracle_logits(exact, prompts)
    largest = max(np.abs(logits_NV).max() for logits_NV in expected)
    for dtype, unit in (("float64", 2 * FLOAT64), ("float32", FLOAT32)):  # float64: both sides round
        model = md.load(tmp_path, dtype=dtype)
        found = model.logits(*pad(prompts, "strewn"))
        error = max(np.abs(a - b).max() for a, b in zip(found, expected, strict=True))
        assert error <= logit_bound(model.config, largest, unit), fields


def make_ties(folder: Path, fields: dict) -> Ties:
    """The judge of one model: largest logit from single tokens."""
    exact = oracle.load_oracle(folder, fields, torch.float64)
    samples = oracle_logits(exact, [[t] for t in range(exact.config.vocab_size)])

    def next_logits(prompt, text, options):
        return oracle_logits(exact, [[*prompt, *text]])[0][-1]

    return Ties(folder, max(np.abs(logits_NV).max() for logits_NV in samples), next_logits)


def test_generation(tmp_path):
    """Tokens are equal, up to ties, with every cache; and ties are below 2 % of the cases."""
    excused = windows = 0
    for seed in range(MODELS):
        folder = tmp_path / str(seed)
        fields = write_random_model(folder, 10_000 + seed)
        rng = random.Random(seed)
        plain = oracle.load_oracle(folder, fields, torch.float32)
        ties = make_ties(folder, fields)
        plans = (*PLANS, "cache=rolling") if fields.get("sliding_window") else PLANS
        windows += len(plans) > len(PLANS)
        for _ in range(CASES_EACH):
            prompts = draw_prompts(rng, plain.config.vocab_size)
            options = draw_options(rng, rng.choice([1, 2, 3, 4]), draw_eos(rng, plain, prompts), prompts)
            theirs = generate_alone(plain, prompts, options)
            excused += compare_generation(folder, prompts, options, *theirs, ties, plans)
    print(f"of {MODELS * CASES_EACH} cases {excused} excused as ties; {windows} models with a window")
    assert excused < 0.02 * MODELS * CASES_EACH and windows


def test_the_angles_of_transformers_are_ours_at_every_position():
    """Plain, linear and llama3, for the sizes of Llama 3.2: our table is float64's, theirs float32's."""
    from minidecode.models.llama import LlamaConfig

    for rope in ({}, {"rope_type": "linear", "factor": 4.0},
                 {"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                  "original_max_position_embeddings": 8192}):  # fmt: skip
        parameters = {"rope_theta": 500000.0, "rope_type": "default"} | rope
        fields = {"model_type": "llama", "head_dim": 64, "hidden_size": 128, "num_attention_heads": 2,
                  "rope_parameters": parameters}  # fmt: skip
        theirs = transformers.models.llama.modeling_llama.LlamaRotaryEmbedding(transformers.LlamaConfig(**fields))
        ours_X = LlamaConfig.from_json(fields).frequencies(64)
        np.testing.assert_allclose(ours_X, theirs.inv_freq.double().numpy(), rtol=1e-6)
