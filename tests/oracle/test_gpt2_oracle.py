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
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

import minidecode as md
from minidecode.reference import candidates
from minidecode.tokenizer import Tokenizer

NEEDED = "needs transformers itself: pip install '.[oracle]'"
torch = pytest.importorskip("torch", reason=NEEDED)
transformers = pytest.importorskip("transformers", minversion="5.0", reason=NEEDED)

import make_gpt2 as oracle  # noqa: E402 (it imports torch, which may be missing above)
from tolerance import FLOAT32, FLOAT64, logit_bound, score_bound  # noqa: E402

pytestmark = pytest.mark.oracle

MODELS, CASES_EACH = 80, 5
PLANS = ("memory=replicated", "memory=none")
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
    storage = {"dtype": rng.choice(list(oracle.STORED)), "prefix": rng.choice(["", "transformer."]),
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
    ids_BN, mask_BN = strewn(rng, oracle.draw_prompts(rng, exact.config.vocab_size))
    expected = masked_logits(exact, ids_BN, mask_BN)
    largest = max(np.abs(logits_NV).max() for logits_NV in expected)
    for dtype, unit in (("float64", 2 * FLOAT64), ("float32", FLOAT32)):  # float64: both sides round
        model = md.load(tmp_path, dtype=dtype)
        found = model.logits(ids_BN, mask_BN)
        error = max(np.abs(a - b).max() for a, b in zip(found, expected, strict=True))
        assert error <= logit_bound(model.config, largest, unit)


# ---- ties ------------------------------------------------------------------------------------------------------------


class Ties:
    """Judges whether two outcomes of one search may differ by rounding alone, from float64.

    `bound` is what rounding may do to a logit in float32. Both sides round, so a choice between two tokens is open if
    their logits are closer than 2 * bound, and one between two hypotheses if their scores are closer than twice the
    bound of a score.
    """

    def __init__(self, folder: Path, exact, largest_logit: float):
        self.exact = exact
        self.model = md.load(folder, dtype="float64")
        self.bound = logit_bound(self.model.config, largest_logit, FLOAT32)

    def excuse(self, prompt: list[int], options: dict, ours: list[list[int]], theirs: list[list[int]]) -> bool:
        """ours, theirs: all hypotheses of one sentence."""
        if options["num_beams"] == 1:
            return self.token_margin(prompt, ours[0], theirs[0]) <= 2 * self.bound
        longest = max(len(tokens) for tokens in ours + theirs)
        allowed = 2 * score_bound(self.bound, longest, 0.0, 0.0, FLOAT32)
        return self.candidate_margin(prompt, options) <= allowed

    def token_margin(self, prompt, ours, theirs) -> float:
        """How far apart, in float64, the two tokens are at the first difference; infinite where one side has none."""
        common = [a == b for a, b in zip(ours, theirs, strict=False)]
        if all(common):
            return float("inf")  # one side stopped and the other went on: no rounding does that
        t = common.index(False)
        logits_V = masked_logits(self.exact, np.array([prompt + ours[:t]]), np.ones((1, len(prompt) + t), int))[0][-1]
        return abs(logits_V[ours[t]] - logits_V[theirs[t]])

    def candidate_margin(self, prompt, options) -> float:
        """The closest decision of the beam search in float64: the least gap between neighbours among the candidates.

        A beam that is dropped by a hair changes all that follows, so hypotheses that differ need not score alike;
        the decision that parted them is somewhere in the search, between neighbours among the candidates of a step.
        """
        gaps = []
        right = candidates.top_candidates

        def recording(scores_BX, C, out=None):
            best_C = np.sort(scores_BX[0])[::-1][: C + 1]
            best_C = best_C[best_C > -1e8]  # beams out of play score below
            gaps.extend(-np.diff(best_C))
            return right(scores_BX, C, out)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(candidates, "top_candidates", recording)
            self.model.generate(input_ids=[prompt], **options)
        return min(gaps)


def differing_sentences(prompts, ours, theirs):
    """(prompt, our hypotheses, their hypotheses) of each sentence whose tokens differ."""
    each = len(theirs) // len(prompts)
    for b, prompt in enumerate(prompts):
        places = slice(b * each, (b + 1) * each)
        if ours[places] != theirs[places]:
            yield prompt, ours[places], theirs[places]


def check_scores(bound, options, tokens, ours, theirs):
    """Both sides rounded: twice the bound."""
    for row, a, b in zip(tokens, ours, theirs, strict=True):
        assert abs(a - b) <= 2 * score_bound(bound, len(row), options["length_penalty"], b, FLOAT32)


def compare_generation(folder: Path, rng: random.Random, plain, ties: Ties) -> bool:
    """One random case under every plan. Returns whether it had to be excused as a tie."""
    prompts = oracle.draw_prompts(rng, plain.config.vocab_size)
    eos = oracle.draw_eos(rng, plain, prompts)
    options = oracle.draw_options(rng, rng.choice([1, 1, 2, 3, 4, 5]), eos, prompts)
    theirs, their_scores = oracle.oracle_generate(plain, prompts, options)
    excused = False
    for plan in PLANS:
        out = md.load(folder, plan=plan).generate(input_ids=prompts, **options)
        ours = [ids.tolist() for ids in out.token_ids]
        differing = list(differing_sentences(prompts, ours, theirs))
        for prompt, our_texts, their_texts in differing:
            assert ties.excuse(prompt, options, our_texts, their_texts), (plan, options, prompt, our_texts, their_texts)
        excused |= bool(differing)
        if not differing:
            check_scores(ties.bound, options, ours, out.scores, their_scores)
    return excused


def test_generation(tmp_path):
    """Tokens are equal, up to ties; and ties are below 2 % of the cases. transformers runs its own fast attention."""
    excused = 0
    for seed in range(MODELS):
        folder = tmp_path / str(seed)
        write_random_model(folder, 10_000 + seed)
        rng = random.Random(seed)
        exact = oracle.load_oracle(folder, torch.float64)
        plain = transformers.GPT2LMHeadModel.from_pretrained(folder, dtype=torch.float32).eval()
        samples = oracle.oracle_logits(exact, [[t] for t in range(exact.config.vocab_size)])
        ties = Ties(folder, exact, max(np.abs(logits_NV).max() for logits_NV in samples))
        for _ in range(CASES_EACH):
            excused += compare_generation(folder, rng, plain, ties)
    print(f"{excused} of {MODELS * CASES_EACH} cases excused as ties")
    assert excused < 0.02 * MODELS * CASES_EACH


def test_the_tie_rule_excuses_no_wrong_token(tmp_path):
    """A second-best token in place of the best is no tie, and neither is a text that goes on too long."""
    write_random_model(tmp_path, 1)
    exact = oracle.load_oracle(tmp_path, torch.float64)
    ties = Ties(tmp_path, exact, 10.0)
    options = {"num_beams": 1, "max_new_tokens": 8, "eos_token_id": None, "pad_token_id": 0, "length_penalty": 1.0}
    right = [ids.tolist() for ids in md.load(tmp_path).generate(input_ids=[[3, 4, 5]], **options).token_ids]
    logits_V = masked_logits(exact, np.array([[3, 4, 5]]), np.ones((1, 3), int))[0][-1]
    second = int(np.argsort(logits_V)[-2])
    assert not ties.excuse([3, 4, 5], options, [[second, *right[0][1:]]], right)
    assert not ties.excuse([3, 4, 5], options, [right[0][:-1]], right)


# ---- tokenizers ------------------------------------------------------------------------------------------------------

FRAGMENTS = [END, "<|endof", " ", "  ", "\n", "\t", "\u0000", "'s", "'LL", "don't", "12", "é", "e\u0301",
             "👩\u200d👧", "👍🏽", "日本", "مرحبا", "\ufeff", "\u200b", "\ue000", "\U0010ffff", "the", "The", "Ġ",
             "\ufffd", "."]  # fmt: skip
awkward_texts = st.lists(st.one_of(st.sampled_from(FRAGMENTS), st.text(max_size=3)), max_size=15).map("".join)


def check_tokenizer(ours: Tokenizer, theirs, text: str) -> None:
    """Equal ids, and equal texts from all of them and from all but the last, which may split a character."""
    ids = theirs(text)["input_ids"]
    assert ours.encode(text).tolist() == ids
    for kept in (ids, ids[:-1]):
        assert ours.decode(kept) == theirs.decode(kept, skip_special_tokens=True)


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
@given(awkward_texts)
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
