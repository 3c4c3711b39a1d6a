"""minidecode and transformers side by side, live: random UniLMs, as BERTs with UniLM's mask, and s2s-ft's search.

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

import make_unilm as oracle  # noqa: E402 (it imports torch, which may be missing above)
from golden_suite import PLANS  # noqa: E402
from making import STORED, settled  # noqa: E402
from tolerance import FLOAT32, FLOAT64, logit_bound, score_bound  # noqa: E402
from unilm_oracle import logits  # noqa: E402

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


def write_random_model(folder: Path, seed: int):
    """A random model, stored in a random way -> (the fields of its config.json, transformers' in two precisions)."""
    rng = random.Random(seed)
    H, kinds = rng.randint(1, 5), rng.randint(1, 6)
    fields = oracle.config_fields({
        "num_attention_heads": H, "hidden_size": H * rng.randint(-(-6 // H), 8), "vocab_size": 37,
        "num_hidden_layers": rng.randint(1, 4), "intermediate_size": rng.randint(5, 40),
        "hidden_act": rng.choice(["gelu", "gelu_new", "relu", "silu"]), "type_vocab_size": kinds,
        "source_type_id": rng.randrange(kinds), "target_type_id": rng.randrange(kinds), "pos_shift": seed % 3 == 0,
    })  # fmt: skip
    storage = {"dtype": rng.choice(list(STORED)), "shards": rng.choice([1, 1, 2]), "old": rng.random() < 0.3,
               "pooler": rng.random() < 0.3}  # fmt: skip
    weights = oracle.make_weights(fields, seed)
    weights["cls.predictions.bias"][oracle.SEP] += 1.5
    oracle.write_folder(folder, fields, weights, **storage)
    return fields, *(oracle.load_oracle(fields, weights, d, storage["dtype"]) for d in (torch.float64, torch.float32))


@pytest.mark.parametrize("seed", range(MODELS))
def test_logits(seed, tmp_path):
    """Sources and targets of mixed lengths, in float64 and in float32; and the oracle in NumPy."""
    fields, exact, _ = write_random_model(tmp_path, seed)
    rng = random.Random(seed)
    sources = [oracle.draw_source(rng) for _ in range(4)]
    targets = [[oracle.SEP, *(rng.randrange(4, 37) for _ in range(rng.randint(0, 10)))] for _ in sources]
    read = [source[:-1] if fields["pos_shift"] else source for source in sources]
    right = [oracle.oracle_logits(exact, s, t) for s, t in zip(read, targets, strict=True)]
    largest = max(np.abs(x).max() for x in right)
    for dtype, unit in (("float64", 2 * FLOAT64), ("float32", FLOAT32)):  # float64: both sides round
        model = md.load(tmp_path, dtype=dtype)
        found = model.logits(sources, decoder_input_ids=targets)
        error = max(np.abs(a - b).max() for a, b in zip(found, right, strict=True))
        assert error <= logit_bound(model.config, largest, unit)
    tensors = md.load(tmp_path, dtype="float64").tensors
    for source, target, x in zip(read, targets, right, strict=True):
        error = np.abs(logits(fields, tensors, source, target) - x).max()
        assert error <= logit_bound(model.config, largest, 2 * FLOAT64)


def test_generation(tmp_path):
    """Texts of s2s-ft's search, under every cache, where float32 and float64 give the same."""
    unsettled = 0
    for seed in range(MODELS):
        folder = tmp_path / str(seed)
        fields, *both = write_random_model(folder, 10_000 + seed)
        rng = random.Random(seed)
        for _ in range(CASES_EACH):
            sources = [oracle.draw_source(rng) for _ in range(rng.randint(1, 3))]
            options = oracle.draw_options(rng)
            if not settled(both, sources, options, oracle.generate):
                unsettled += 1
                continue
            tokens, scores = oracle.generate(both[0], sources, options)
            config, allowed = md.load(folder).config, []
            for source, text, score in zip(sources, tokens, scores, strict=True):
                read = source[:-1] if fields["pos_shift"] else source
                largest = np.abs(oracle.oracle_logits(both[0], read, [oracle.SEP, *text])).max()
                bound = logit_bound(config, largest, FLOAT32)
                allowed.append(score_bound(bound, len(text), 0.0, score, FLOAT32))  # GNMT's norm is at least 1
            for plan in PLANS:
                out = md.load(folder, plan=plan).generate(input_ids=sources, **options)
                assert [ids.tolist() for ids in out.token_ids] == tokens, (seed, plan, options)
                assert (np.abs(out.scores - scores) <= allowed).all(), (seed, plan, options)
    assert unsettled < 0.05 * MODELS * CASES_EACH
