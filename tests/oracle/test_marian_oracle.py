"""minidecode and transformers side by side, live: random Marian and mBART models, and their tokenizers.

Each run needs torch and transformers 5. Where they are missing, tests/golden holds numbers that they gave.
"""

import random

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import minidecode as md

NEEDED = "needs transformers itself: pip install '.[oracle]'"
torch = pytest.importorskip("torch", reason=NEEDED)
transformers = pytest.importorskip("transformers", minversion="5.0", reason=NEEDED)

pytest.register_assert_rewrite("ties")

import make_bart  # noqa: E402 (it imports torch, which may be missing above)
import make_marian  # noqa: E402
import make_mbart  # noqa: E402
from golden_suite import pad  # noqa: E402
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


class Random:
    """A random model of either family, stored in a random way."""

    def __init__(self, folder, seed: int):
        rng = random.Random(seed)
        self.is_marian = seed % 2 == 0
        layers = rng.randint(1, 3), rng.randint(1, 3)
        heads = rng.choice([(1, 2), (2, 3), (3, 1), (2, 2)])
        D = np.lcm(*heads) * rng.randint(3, 5)
        while D < 10:
            D += np.lcm(*heads)
        feeds = rng.randint(8, 30), rng.randint(8, 30)
        activation = rng.choice(["swish", "gelu", "relu"])
        sizes = make_bart.sizes(int(D), rng.randint(30, 50), layers, heads, feeds, activation_function=activation,
                                scale_embedding=rng.random() < 0.5)  # fmt: skip
        storage = {"dtype": rng.choice(list(STORED)), "shards": rng.choice([1, 1, 2])}
        make = make_marian if self.is_marian else make_mbart
        self.folder, self.fields = folder, make.config_fields(sizes)
        folder.mkdir(exist_ok=True)
        make.write_folder(folder, self.fields, seed, **storage)
        self.size = make_marian.generated_vocab_size(self.fields) if self.is_marian else self.fields["vocab_size"]

    def load(self, dtype):
        if self.is_marian:
            return make_marian.load_oracle(self.folder, self.fields, dtype)
        return make_mbart.load_oracle(self.folder, dtype)

    def logits(self, model, sources, targets):
        return [a[:, : self.size] for a in make_bart.oracle_logits(model, sources, targets)]


@pytest.mark.parametrize("seed", range(MODELS))
def test_logits(seed, tmp_path):
    """Random batches of sources and targets of mixed lengths, in float64 and in float32."""
    made, rng = Random(tmp_path, seed), random.Random(seed)
    sources = draw_prompts(rng, made.size)
    targets = [[rng.randrange(made.size) for _ in range(rng.randint(1, 14))] for _ in sources]
    expected = made.logits(made.load(torch.float64), sources, targets)
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
        made, rng = Random(tmp_path / str(seed), 10_000 + seed), random.Random(seed)
        plain, exact, start = made.load(torch.float32), made.load(torch.float64), made.fields["decoder_start_token_id"]
        samples = made.logits(exact, [[t] for t in range(made.size)], [[start, t] for t in range(made.size)])

        def next_logits(source, text, options, made=made, exact=exact, start=start):
            target = [options.get("decoder_start_token_id", start), *text]
            return made.logits(exact, [source], [target])[0][-1]

        ties = Ties(made.folder, max(np.abs(a).max() for a in samples), next_logits)
        for _ in range(CASES_EACH):
            sources = draw_prompts(rng, made.size)
            eos = draw_eos(rng, plain, sources)
            options = make_marian.draw_generated(rng, rng.choice([1, 2, 3, 4]), eos, plain)
            theirs, scores = generate_alone(plain, sources, options)
            excused += compare_generation(made.folder, sources, options, theirs, scores, ties)
    print(f"of {MODELS * CASES_EACH} cases {excused} excused as ties")
    assert excused < 0.02 * MODELS * CASES_EACH


@pytest.mark.parametrize("ban", [0, 1, 2])
@pytest.mark.parametrize("beams", [1, 3])
def test_a_banned_padding_renormalized_is_one_without_a_row(tmp_path, ban, beams):
    """What published settings ask of transformers, whose matrix has the padding's row, and of minidecode."""
    made = Random(tmp_path, 4)
    theirs = transformers.MarianMTModel.from_pretrained(tmp_path, dtype=torch.float64).eval()
    last = made.fields["pad_token_id"]
    asked = {"bad_words_ids": [[last]], "renormalize_logits": True, "num_beams": beams, "max_new_tokens": 8,
             "no_repeat_ngram_size": ban}  # fmt: skip
    source = [3, 7, 5, 0]
    theirs.generation_config = transformers.GenerationConfig()
    out = theirs.generate(torch.tensor([source]), return_dict_in_generate=True, output_scores=True, eos_token_id=0,
                          pad_token_id=last, decoder_start_token_id=last, **asked)  # fmt: skip
    ours = md.load(tmp_path, dtype="float64").generate(input_ids=[source], **asked)
    expected = out.sequences[0, 1:].tolist()
    assert ours.token_ids[0].tolist() == [t for t in expected if t != last]
    if beams > 1:
        assert abs(ours.scores[0] - float(out.sequences_scores[0])) < 1e-5


def test_marian_tokenizer(tmp_path):
    """Ids and texts are those of transformers' own tokenizer."""
    pytest.importorskip("sentencepiece", reason="needs SentencePiece: pip install '.[translate]'")
    from test_translators import TEXT, train, write_marian

    models = train("unigram", 40), train("unigram", 36)
    folder = write_marian(tmp_path / "m", models, codes=(">>fr<<", ">>de<<"))
    theirs, ours = transformers.MarianTokenizer.from_pretrained(folder), md.load(folder).tokenizer
    for text in (f">>fr<< {TEXT}", f">>de<<{TEXT}", ">>fr<< the  \u6f22 mat!", ">>fr<<"):
        assert ours.encode(text).tolist() == theirs(text)["input_ids"], text
    for ids in (ours.encode_target(TEXT), list(range(2, 20)), [5, 1, 6, 0]):
        assert ours.decode(ids) == theirs.decode(list(map(int, ids)), skip_special_tokens=True)
