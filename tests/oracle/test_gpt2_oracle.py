"""minidecode and transformers side by side, live: random GPT-2 models and batches, tokenizers, our bundled model.

Each run needs torch and transformers 5. Where they are missing, tests/golden holds numbers that they gave.
"""

import json
import os
import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from threadpoolctl import threadpool_limits

import minidecode as md
from minidecode.files.tokenizer import Tokenizer

NEEDED = "needs transformers itself: pip install '.[oracle]'"
torch = pytest.importorskip("torch", reason=NEEDED)
transformers = pytest.importorskip("transformers", minversion="5.0", reason=NEEDED)

pytest.register_assert_rewrite("hard_texts", "ties")

import make_gpt2 as oracle  # noqa: E402 (it imports torch, which may be missing above)
from hard_texts import awkward_texts, check_tokenizer  # noqa: E402
from making import STORED, draw_eos, draw_options, draw_prompts, oracle_generate  # noqa: E402
from ties import Ties, compare_generation  # noqa: E402
from tolerance import FLOAT32, FLOAT64, logit_bound  # noqa: E402

pytestmark = pytest.mark.oracle

MODELS, CASES_EACH = 80, 5
GOLDEN_TOKENIZER = Path(__file__).parents[1] / "golden" / "tokenizer"
REAL_VOCABULARY = os.environ.get("MINIDECODE_GPT2_VOCAB")
END = "<|endoftext|>"


@pytest.fixture(scope="module", autouse=True)
def quiet():
    """One thread (products this small are slower on two), no progress bars, no warnings about options that are off."""
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    with threadpool_limits(1):
        yield


# ---- random models ---------------------------------------------------------------------------------------------------


def draw_fields(rng: random.Random) -> dict:
    """A random config.json.

    The vocabulary is larger than the candidates of any beam, 4 * 5 with three EOS ids. The model is at least 6 wide:
    a layer norm leaves D - 2 directions free, so that below, a text's order hardly matters and beams tie by nature.
    """
    H = rng.randint(1, 5)
    return oracle.config_fields({
        "n_head": H, "n_embd": H * rng.randint(-(-6 // H), 8), "n_layer": rng.randint(1, 4),
        "vocab_size": rng.randint(30, 70), "n_positions": rng.randint(24, 40),
        "n_inner": rng.choice([None, None, 7, 13, 40]),
        "activation_function": rng.choice(["gelu", "gelu_new", "relu", "silu", "tanh", "gelu_pytorch_tanh", "swish"]),
        "scale_attn_weights": rng.random() < 0.7, "scale_attn_by_inverse_layer_idx": rng.random() < 0.4,
        "tie_word_embeddings": rng.random() < 0.6, "layer_norm_epsilon": rng.choice([1e-12, 1e-5, 1e-3, 0.1]),
    })  # fmt: skip


def write_random_model(folder: Path, seed: int) -> None:
    """A random model, stored in a random way."""
    rng = random.Random(seed)
    fields = draw_fields(rng)
    storage = {"dtype": rng.choice(list(STORED)), "prefix": rng.choice(["", "transformer."]),
               "shards": rng.choice([1, 1, 2])}  # fmt: skip
    oracle.write_folder(folder, fields, oracle.make_weights(fields, seed), **storage)


def strewn(rng: random.Random, prompts: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    """(ids_BN, mask_BN) with the padding anywhere, between tokens too."""
    N = max(map(len, prompts)) + rng.randint(0, 3)
    ids_BN, mask_BN = np.zeros((len(prompts), N), int), np.zeros((len(prompts), N), int)
    for b, prompt in enumerate(prompts):
        places = sorted(rng.sample(range(N), len(prompt)))
        ids_BN[b, places], mask_BN[b, places] = prompt, 1
    return ids_BN, mask_BN


@torch.no_grad()
def masked_logits(model, ids_BN, mask_BN) -> list[np.ndarray]:
    """transformers' logits (N, V) of each sentence, positions counted over the tokens that the mask leaves."""
    pos_BN = np.maximum(mask_BN.cumsum(axis=1) - 1, 0)
    ids_BN, mask, pos_BN = (torch.tensor(array) for array in (ids_BN, mask_BN, pos_BN))
    logits_BNV = model(ids_BN, attention_mask=mask, position_ids=pos_BN).logits.numpy()
    return [logits_BNV[b, mask_BN[b] == 1] for b in range(len(mask_BN))]


@pytest.mark.parametrize("seed", range(MODELS))
def test_logits(seed, tmp_path):
    """Random batches with padding anywhere, in float64 and in float32."""
    write_random_model(tmp_path, seed)
    rng = random.Random(seed)
    exact = oracle.load_oracle(tmp_path, torch.float64)
    ids_BN, mask_BN = strewn(rng, draw_prompts(rng, exact.config.vocab_size))
    expected = masked_logits(exact, ids_BN, mask_BN)
    largest = max(np.abs(logits_NV).max() for logits_NV in expected)
    for dtype, unit in (("float64", 2 * FLOAT64), ("float32", FLOAT32)):  # float64: both sides round
        model = md.load(tmp_path, dtype=dtype)
        found = model.logits(ids_BN, mask_BN)
        error = max(np.abs(a - b).max() for a, b in zip(found, expected, strict=True))
        assert error <= logit_bound(model.config, largest, unit)


# ---- generation ------------------------------------------------------------------------------------------------------


def make_ties(folder: Path) -> Ties:
    """The judge of one model: largest logit from single tokens."""
    exact = oracle.load_oracle(folder, torch.float64)
    samples = oracle.oracle_logits(exact, [[t] for t in range(exact.config.vocab_size)])

    def next_logits(prompt, text, options):
        return oracle.oracle_logits(exact, [[*prompt, *text]])[0][-1]

    return Ties(folder, max(np.abs(logits_NV).max() for logits_NV in samples), next_logits)


def test_generation(tmp_path):
    """Tokens are equal, up to ties; and ties are below 2 % of the cases. transformers runs its own fast attention."""
    excused = 0
    for seed in range(MODELS):
        folder = tmp_path / str(seed)
        write_random_model(folder, 10_000 + seed)
        rng = random.Random(seed)
        plain = transformers.GPT2LMHeadModel.from_pretrained(folder, dtype=torch.float32).eval()
        ties = make_ties(folder)
        for _ in range(CASES_EACH):
            prompts = draw_prompts(rng, plain.config.vocab_size)
            eos = draw_eos(rng, plain, prompts)
            options = draw_options(rng, rng.choice([1, 1, 2, 3, 4, 5]), eos, prompts)
            theirs = oracle_generate(plain, prompts, options)
            excused += compare_generation(folder, prompts, options, *theirs, ties)
    print(f"{excused} of {MODELS * CASES_EACH} cases excused as ties")
    assert excused < 0.02 * MODELS * CASES_EACH


def test_the_tie_rule_excuses_no_wrong_token(tmp_path):
    """A second-best token in place of the best is no tie, and neither is a text that goes on too long."""
    write_random_model(tmp_path, 1)
    ties = make_ties(tmp_path)
    options = {"num_beams": 1, "max_new_tokens": 8, "eos_token_id": None, "pad_token_id": 0, "length_penalty": 1.0}
    right = [ids.tolist() for ids in md.load(tmp_path).generate(input_ids=[[3, 4, 5]], **options).token_ids]
    second = int(np.argsort(ties.next_logits([3, 4, 5], [], options))[-2])
    assert not ties.excuse([3, 4, 5], options, [[second, *right[0][1:]]], right)
    assert not ties.excuse([3, 4, 5], options, [right[0][:-1]], right)


# ---- tokenizers ------------------------------------------------------------------------------------------------------


def vocabularies() -> list:
    """Where vocabularies lie, GPT-2's own among them if MINIDECODE_GPT2_VOCAB says where."""
    told = pytest.mark.skipif(
        not REAL_VOCABULARY, reason="MINIDECODE_GPT2_VOCAB names no folder with GPT-2's vocab.json"
    )
    return [
        pytest.param(GOLDEN_TOKENIZER / "one_file", id="one_file"),
        pytest.param(GOLDEN_TOKENIZER / "two_files", id="two_files"),
        pytest.param(Path(REAL_VOCABULARY or "."), id="gpt2", marks=told),
    ]


@pytest.fixture(scope="module", params=vocabularies())
def tokenizer_pair(request):
    """(ours, transformers') of one vocabulary."""
    return Tokenizer.from_folder(request.param), transformers.GPT2Tokenizer.from_pretrained(request.param)


def test_tokenizer_on_hard_texts(tokenizer_pair):
    for case in json.loads((GOLDEN_TOKENIZER / "cases.json").read_text(encoding="utf-8")):
        check_tokenizer(*tokenizer_pair, case["text"])


@settings(max_examples=300, deadline=None)
@given(awkward_texts(END, "<|endof"))
@example(f" {END} a{END}\n")
def test_tokenizer_on_any_text(tokenizer_pair, text):
    check_tokenizer(*tokenizer_pair, text)


# ---- the bundled model -----------------------------------------------------------------------------------------------

PROMPTS = ["Fellow citizens,", "The Congress of the United States", "I", "Our army and our navy have"]


@pytest.fixture(scope="module")
def bundled():
    """(our model, transformers' model, transformers' tokenizer), each loaded as its users load it."""
    folder = md.bundled_models()["tiny-gpt2"]
    theirs = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    return md.load("tiny-gpt2"), theirs, transformers.AutoTokenizer.from_pretrained(folder)


@pytest.mark.parametrize("text", [*PROMPTS, END, f"a{END} b", "It's 1863.\n\n  Café 👍🏽\t"])
def test_the_bundled_tokenizer(bundled, text):
    ours, _, tokenizer = bundled
    check_tokenizer(ours.tokenizer, tokenizer, text)


@pytest.mark.parametrize("prompt", PROMPTS)
@pytest.mark.parametrize(
    "options", [{}, {"num_beams": 4, "num_return_sequences": 2}, {"num_beams": 3, "no_repeat_ngram_size": 3}], ids=str
)
def test_the_bundled_model(bundled, prompt, options):
    """The same continuations from text to text, with the defaults of generation_config.json."""
    ours, theirs, tokenizer = bundled
    inputs = tokenizer(prompt, return_tensors="pt")
    sequences = theirs.generate(**inputs, do_sample=False, max_new_tokens=24, **options)
    expected = tokenizer.batch_decode(sequences[:, inputs["input_ids"].shape[1] :], skip_special_tokens=True)
    assert ours.generate(prompt, max_new_tokens=24, **options).texts == expected
