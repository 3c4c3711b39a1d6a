"""minidecode and transformers side by side, live: random BART models and batches, and BART's kind of tokenizer.

Each run needs torch and transformers 5. Where they are missing, tests/golden holds numbers that they gave.
"""

import json
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

import make_bart as oracle  # noqa: E402 (it imports torch, which may be missing above)
from golden_suite import pad  # noqa: E402
from hard_texts import awkward_texts, check_tokenizer  # noqa: E402
from making import STORED, draw_eos, draw_prompts, generate_alone, oracle_generate  # noqa: E402
from ties import Ties, compare_generation  # noqa: E402
from tolerance import FLOAT32, FLOAT64, logit_bound  # noqa: E402

pytestmark = pytest.mark.oracle

MODELS, CASES_EACH = 60, 4
GOLDEN_TOKENIZER = Path(__file__).parents[1] / "golden" / "tokenizer"


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

    The vocabulary is larger than the candidates of any beam, 4 * 5 with three EOS ids. The heads of both stacks
    divide the width, which is at least 6: a layer norm leaves D - 2 directions free.
    """
    D = rng.choice([6, 8, 10, 12, 15, 16, 18, 20, 24])
    heads = [H for H in range(1, 9) if D % H == 0]
    return oracle.config_fields(oracle.sizes(
        D, rng.randint(30, 70), (rng.randint(1, 3), rng.randint(1, 3)), (rng.choice(heads), rng.choice(heads)),
        (rng.randint(5, 40), rng.randint(5, 40)), max_position_embeddings=rng.randint(16, 30),
        activation_function=rng.choice(["gelu", "gelu_new", "relu", "silu", "tanh", "gelu_pytorch_tanh", "swish"]),
        scale_embedding=rng.random() < 0.5, tie_word_embeddings=rng.random() < 0.6,
        decoder_start_token_id=rng.choice([2, 2, 0, 9]),
    ))  # fmt: skip


def write_random_model(folder: Path, seed: int) -> None:
    """A random model, stored in a random way."""
    rng = random.Random(seed)
    fields = draw_fields(rng)
    storage = {"dtype": rng.choice(list(STORED)), "bias": rng.random() < 0.7, "shards": rng.choice([1, 1, 2])}
    if fields["tie_word_embeddings"]:
        storage["copies"] = rng.sample(oracle.TIED, rng.randint(0, 3))
    if not storage["bias"]:  # a head of its own, or a bias, only a file of the whole model has
        storage["prefix"] = "" if fields["tie_word_embeddings"] and rng.random() < 0.5 else "model."
    oracle.write_folder(folder, fields, oracle.make_weights(fields, seed), **storage)


@pytest.mark.parametrize("seed", range(MODELS))
def test_logits(seed, tmp_path):
    """Random batches of sources and targets of mixed lengths, in float64 and in float32."""
    write_random_model(tmp_path, seed)
    rng = random.Random(seed)
    exact = oracle.load_oracle(tmp_path, torch.float64)
    V = exact.config.vocab_size
    sources = draw_prompts(rng, V)
    targets = [[rng.randrange(V) for _ in range(rng.randint(1, 12))] for _ in sources]
    expected = oracle.oracle_logits(exact, sources, targets)
    largest = max(np.abs(logits_NV).max() for logits_NV in expected)
    for dtype, unit in (("float64", 2 * FLOAT64), ("float32", FLOAT32)):  # float64: both sides round
        model = md.load(tmp_path, dtype=dtype)
        found = model.logits(*pad(sources, "strewn"), *pad(targets, "strewn"))
        error = max(np.abs(a - b).max() for a, b in zip(found, expected, strict=True))
        assert error <= logit_bound(model.config, largest, unit)


def make_ties(folder: Path) -> Ties:
    """The judge of one model: largest logit from short targets, one for each token."""
    exact = oracle.load_oracle(folder, torch.float64)
    start = exact.config.decoder_start_token_id
    every = [[t] for t in range(exact.config.vocab_size)]
    samples = oracle.oracle_logits(exact, every, [[start, *token] for token in every])

    def next_logits(source, text, options):
        target = [options.get("decoder_start_token_id", start), *text]
        return oracle.oracle_logits(exact, [source], [target])[0][-1]

    return Ties(folder, max(np.abs(logits_NV).max() for logits_NV in samples), next_logits)


def test_generation(tmp_path):
    """Tokens are equal, up to ties; and ties are below 2 % of the cases. transformers runs its own fast attention.

    In rare cases transformers gives a sentence other tokens in a batch than alone: then alone is what counts.
    """
    excused = coupled = 0
    for seed in range(MODELS):
        folder = tmp_path / str(seed)
        write_random_model(folder, 10_000 + seed)
        rng = random.Random(seed)
        plain = transformers.BartForConditionalGeneration.from_pretrained(folder, dtype=torch.float32).eval()
        ties = make_ties(folder)
        for _ in range(CASES_EACH):
            sources = draw_prompts(rng, plain.config.vocab_size)
            eos = draw_eos(rng, plain, sources)
            options = oracle.draw_pair_options(rng, rng.choice([1, 1, 2, 3, 4, 5]), eos, plain)
            theirs, scores = generate_alone(plain, sources, options)
            coupled += theirs != oracle_generate(plain, sources, options)[0]
            excused += compare_generation(folder, sources, options, theirs, scores, ties)
    print(f"of {MODELS * CASES_EACH} cases {excused} excused as ties; {coupled} that differ in transformers' batch")
    assert excused < 0.02 * MODELS * CASES_EACH
    assert coupled < 0.02 * MODELS * CASES_EACH


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

SPECIAL = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
WITH_SPECIAL = ["a<s>b", "a </s> b", "<pad>", "<unk>", "the <mask> of", "  <mask>  the", "<mask><mask>", "<s></s>",
                "<mas", "<S>"]  # fmt: skip


def write_bart_tokenizer(folder: Path) -> None:
    """tokenizer.json as BART's: the golden merges, BART's special tokens in their places, a frame around each text.

    <mask> takes in the space before it, so that it stands for a word.
    """
    two_files = GOLDEN_TOKENIZER / "two_files"
    learned = json.loads((two_files / "vocab.json").read_text(encoding="utf-8"))
    del learned["<|endoftext|>"]
    tokens = [*SPECIAL[:4], *sorted(learned, key=learned.get), "<mask>"]
    lines = (two_files / "merges.txt").read_text(encoding="utf-8").splitlines()
    merges = [tuple(line.split(" ")) for line in lines if not line.startswith("#version")]
    mask = transformers.AddedToken("<mask>", lstrip=True, special=True)
    vocab = {token: i for i, token in enumerate(tokens)}
    transformers.RobertaTokenizer(vocab=vocab, merges=merges, mask_token=mask).save_pretrained(folder)


@pytest.fixture(scope="module")
def tokenizer_pair(tmp_path_factory):
    """(ours, transformers') of one folder."""
    folder = tmp_path_factory.mktemp("bart")
    write_bart_tokenizer(folder)
    (folder / "config.json").write_text('{"model_type": "bart"}')
    return Tokenizer.from_folder(folder), transformers.AutoTokenizer.from_pretrained(folder)


def test_tokenizer_on_hard_texts(tokenizer_pair):
    golden = json.loads((GOLDEN_TOKENIZER / "cases.json").read_text(encoding="utf-8"))
    for text in [*(case["text"] for case in golden), *WITH_SPECIAL]:
        check_tokenizer(*tokenizer_pair, text)


@settings(max_examples=300, deadline=None)
@given(awkward_texts(*SPECIAL))
@example(" <mask> a</s>\n")
def test_tokenizer_on_any_text(tokenizer_pair, text):
    check_tokenizer(*tokenizer_pair, text)


def test_texts_come_in_a_frame(tokenizer_pair):
    """What the comparison would not see, should transformers itself leave the frame out."""
    ours, _ = tokenizer_pair
    ids = ours.encode("the <mask> of").tolist()
    assert ids[0] == 0 and ids[-1] == 2 and ours.token_to_id("<mask>") in ids
    assert ours.decode(ids) == "the of"


SPACED = {"content": "<sep2>", "lstrip": True, "rstrip": False, "normalized": False, "single_word": False,
          "special": True}  # fmt: skip
MORE_TEXTS = ["new <sep2> tok", "custom<sep2>x", " <sep2> ", "The Union", " lead", "", "a\n b <|endoftext|> c"]


@pytest.mark.parametrize("layout", ["one_file", "two_files"])
@pytest.mark.parametrize(("file", "content"), [
    ("added_tokens.json", {"<sep2>": 600}),
    ("tokenizer_config.json", {"added_tokens_decoder": {"600": SPACED}}),
    ("tokenizer_config.json", {"add_prefix_space": True}),
    ("special_tokens_map.json", {"eos_token": SPACED | {"content": "<|endoftext|>"}}),
])  # fmt: skip
def test_what_other_files_say_of_the_tokenizer(tmp_path, layout, file, content):
    """GPT-2 folders whose tokens, and the spaces around them, are not all told by the vocabulary."""
    for source in (GOLDEN_TOKENIZER / layout).iterdir():
        (tmp_path / source.name).write_bytes(source.read_bytes())
    (tmp_path / "config.json").write_text('{"model_type": "gpt2"}')
    named = {"tokenizer_class": "GPT2Tokenizer"} if file == "tokenizer_config.json" else {}
    (tmp_path / file).write_text(json.dumps(named | content))
    ours, theirs = Tokenizer.from_folder(tmp_path), transformers.AutoTokenizer.from_pretrained(tmp_path)
    for text in MORE_TEXTS:
        assert ours.encode(text).tolist() == theirs(text)["input_ids"], text


def test_a_folder_of_save_pretrained_generates(tmp_path):
    """All of it, with the generation_config.json that transformers makes up beside the model."""
    config = transformers.BartConfig(
        vocab_size=50, d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=8, decoder_ffn_dim=8, max_position_embeddings=20, init_std=0.3,
    )  # fmt: skip
    model = transformers.BartForConditionalGeneration(config).eval()
    model.save_pretrained(tmp_path)
    theirs = model.generate(torch.tensor([[5, 6, 7]]), max_new_tokens=6)[0].tolist()
    ours = md.load(tmp_path).generate(input_ids=[[5, 6, 7]], max_new_tokens=6).token_ids[0].tolist()
    assert ours == theirs[1 : 1 + len(ours)]
