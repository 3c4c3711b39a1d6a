"""minidecode and transformers side by side, live: random ProphetNet models, and its tokenizer.

Each run needs torch and transformers 5. Where they are missing, tests/golden holds numbers that they gave.
"""

import random

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import minidecode as md
from minidecode.files.tokenizer import Tokenizer

NEEDED = "needs transformers itself: pip install '.[oracle]'"
torch = pytest.importorskip("torch", reason=NEEDED)
transformers = pytest.importorskip("transformers", minversion="5.0", reason=NEEDED)

pytest.register_assert_rewrite("ties")

import make_prophetnet as oracle  # noqa: E402 (it imports torch, which may be missing above)
from golden_suite import pad  # noqa: E402
from make_bart import draw_pair_options  # noqa: E402
from making import STORED, draw_eos, draw_prompts, generate_alone  # noqa: E402
from ties import Ties, compare_generation  # noqa: E402
from tolerance import FLOAT32, FLOAT64, logit_bound  # noqa: E402

pytestmark = pytest.mark.oracle

MODELS, CASES_EACH = 12, 3


@pytest.fixture(scope="module", autouse=True)
def quiet():
    """One thread (products this small are slower on two), no progress bars, no warnings about options that are off."""
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    with threadpool_limits(1):
        yield


def write_random_model(folder, seed: int) -> dict:
    """A random model, stored in a random way -> the fields of its config.json.

    transformers 5 has one cache for as many layers as the encoder's: the decoder has no more of them.
    """
    rng = random.Random(seed)
    heads = rng.choice([(1, 2), (2, 3), (3, 1), (2, 2)])
    D = int(np.lcm(*heads)) * rng.randint(3, 5)
    D += -D % int(np.lcm(*heads)) + (int(np.lcm(*heads)) * 4 if D < 10 else 0)
    layers = rng.randint(1, 3)
    fields = oracle.config_fields(oracle.sizes(
        D, rng.randint(30, 50), (layers, rng.randint(1, layers)), heads,
        (rng.randint(8, 30), rng.randint(8, 30)), rng.randint(1, 3), rng.choice([(8, 12), (4, 3), (16, 64), (9, 20)]),
        activation_function=rng.choice(["gelu", "relu", "silu"]),
    ))  # fmt: skip
    storage = {"dtype": rng.choice(list(STORED)), "shards": rng.choice([1, 1, 2])}
    oracle.write_folder(folder, fields, seed, **storage, copies=rng.sample(oracle.COPIES, rng.randint(0, 3)))
    return fields


@pytest.mark.parametrize("seed", range(MODELS))
def test_logits(seed, tmp_path):
    """Random sources and targets of mixed lengths, in float64 and in float32; transformers goes step by step."""
    fields = write_random_model(tmp_path, seed)
    exact, rng = oracle.load_oracle(tmp_path, torch.float64), random.Random(seed)
    V, (_, longest) = fields["vocab_size"], oracle.longest(fields)
    sources = draw_prompts(rng, V)
    targets = [[rng.randrange(V) for _ in range(rng.randint(1, longest))] for _ in sources]
    expected = oracle.oracle_logits(exact, sources, targets)
    largest = max(np.abs(logits_NV).max() for logits_NV in expected)
    for dtype, unit in (("float64", 2 * FLOAT64), ("float32", FLOAT32)):  # float64: both sides round
        model = md.load(tmp_path, dtype=dtype)
        found = model.logits(*pad(sources, "strewn"), *pad(targets, "strewn"))
        error = max(np.abs(a - b).max() for a, b in zip(found, expected, strict=True))
        assert error <= logit_bound(model.config, largest, unit)


def test_generation(tmp_path):
    """Tokens are equal, up to ties; and ties are below 2 % of the cases."""
    excused = 0
    for seed in range(MODELS):
        folder = tmp_path / str(seed)
        fields, rng = write_random_model(folder, 10_000 + seed), random.Random(seed)
        plain, exact = (oracle.load_oracle(folder, dtype) for dtype in (torch.float32, torch.float64))
        V, start = fields["vocab_size"], fields["decoder_start_token_id"]
        samples = oracle.oracle_logits(exact, [[t] for t in range(V)], [[start, t] for t in range(V)])

        def next_logits(source, text, options, exact=exact, start=start):
            target = [options.get("decoder_start_token_id", start), *text]
            return oracle.oracle_logits(exact, [source], [target])[0][-1]

        ties = Ties(folder, max(np.abs(a).max() for a in samples), next_logits)
        for _ in range(CASES_EACH):
            sources = draw_prompts(rng, V)
            eos = draw_eos(rng, plain, sources)
            options = draw_pair_options(rng, rng.choice([1, 2, 3, 4]), eos, plain)
            theirs, scores = generate_alone(plain, sources, options)
            excused += compare_generation(folder, sources, options, theirs, scores, ties)
    print(f"of {MODELS * CASES_EACH} cases {excused} excused as ties")
    assert excused < 0.02 * MODELS * CASES_EACH


def test_a_forced_prefix_is_what_single_steps_say(tmp_path):
    """transformers' own logits of several tokens in one call are others: that is why steps are the oracle."""
    fields = write_random_model(tmp_path, 1)
    exact = oracle.load_oracle(tmp_path, torch.float64)
    source, prefix = [5, 9, 4], [6, 8, 7]
    target = [fields["decoder_start_token_id"], *prefix]
    by_steps = oracle.oracle_logits(exact, [source], [target])[0]
    with torch.no_grad():
        at_once = exact(input_ids=torch.tensor([source]), decoder_input_ids=torch.tensor([target])).logits[0].numpy()
    out = md.load(tmp_path, dtype="float64").generate(
        input_ids=[source], prefix_tokens=[prefix], max_new_tokens=4, eos_token_id=None, num_beams=1, logprobs=0
    )
    assert out.token_ids[0].tolist() == [*prefix, int(by_steps[-1].argmax())]
    logprobs = by_steps[:-1] - np.log(np.exp(by_steps[:-1]).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(out.log_probs[0].token_R[:3], logprobs[range(3), prefix], rtol=0, atol=1e-10)
    assert np.abs(at_once[-1] - by_steps[-1]).max() > 1e-3


def test_tokenizer(tmp_path):
    """Ids and texts are those of transformers' own tokenizer, [X_SEP] among them."""
    words = ["[PAD]", "[UNK]", "[SEP]", "[MASK]", "[X_SEP]", "the", "cat", "sat", "##s", "on", "mat", ".", "!", "caf"]
    words += ["##e", "a", "##b", "\u6f22"]
    write = tmp_path / "prophetnet.tokenizer"
    write.write_text("\n".join(words) + "\n", encoding="utf-8")
    theirs = transformers.ProphetNetTokenizer(str(write))
    ours = Tokenizer.from_folder(tmp_path, "prophetnet.tokenizer")
    for text in (
        "The cat sat on the mats.",
        "caf\u00e9 \u6f22!",
        "a ab  unknown",
        "the [X_SEP] mat",
        "cat[SEP]sat",
        "",
    ):
        assert ours.encode(text).tolist() == theirs(text)["input_ids"], text
    for ids in ([5, 6, 7, 9, 5, 10, 8, 11, 2], [5, 6, 4, 13, 14, 2, 0, 0], [1, 17, 15, 16]):
        assert ours.decode(ids) == theirs.decode(ids, skip_special_tokens=True)
