"""Scores of texts: against the logits, against what generate says of its own texts, and window by window."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from taken_bytes import peak_of
from toy_folder import BART_CONFIG, CONFIG, MERGES, toy_tensors, toy_vocabulary, write_bart_folder, write_folder

import minidecode as md
from minidecode.methods.scoring import cut_into_windows
from minidecode.reference import softmax
from minidecode.runtime import engine

CONTEXT = CONFIG["n_positions"]
FAMILIES = ["gpt2", "bart"]


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """float64, so that what should be equal is equal to the ninth digit."""
    root = tmp_path_factory.mktemp("toys")
    folders = {"gpt2": write_folder(root / "gpt2"), "bart": write_bart_folder(root / "bart")}
    return {name: md.load(folder, dtype="float64") for name, folder in folders.items()}


def log_softmax(logits):
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def rows(least, most, **size):
    return st.lists(st.lists(st.integers(3, 250), min_size=least, max_size=most), min_size=1, max_size=4, **size)


# ---- what generate says of its texts ---------------------------------------------------------------------------------

SEARCHES = [
    {}, {"num_beams": 3, "num_return_sequences": 3}, {"num_beams": 2, "length_penalty": 0.3, "early_stopping": True},
    {"num_beams": 4, "length_normalization": "gnmt", "length_penalty": 0.6}, {"no_repeat_ngram_size": 1},
    {"do_sample": True, "num_return_sequences": 2}, {"do_sample": True, "top_k": 5, "temperature": 0.5, "seed": 3},
    {"do_sample": True, "num_beams": 2, "top_k": 0}, {"num_beams": 2, "dialect": "hf4"},
]  # fmt: skip


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("search", SEARCHES, ids=str)
@settings(max_examples=8)
@given(prompts=rows(1, CONTEXT // 2), new=st.integers(1, CONTEXT // 2))
def test_the_scores_of_generate_come_out_again(models, family, search, prompts, new):
    """A score is the sum over the new tokens, by the length's norm; the end of the text is one of them."""
    model = models[family]
    out = model.generate(input_ids=prompts, max_new_tokens=new, **search)
    each = len(out.token_ids) // len(prompts)
    scores = model.score(input_ids=[p for p in prompts for _ in range(each)], target_ids=out.token_ids)
    norm = np.array([model.options(**search).length_norm(len(ids)) for ids in out.token_ids])
    np.testing.assert_allclose(scores.log_probs / norm, out.scores, rtol=1e-9)
    if not search:
        assert scores.accuracy == 1.0, "greedy search takes the model's first choice"


@pytest.mark.parametrize("family", FAMILIES)
def test_float32_too_and_to_the_last_position(tmp_path, family):
    """The last new token is never read, so prompt and new tokens may be one longer than the context."""
    folder = write_folder(tmp_path) if family == "gpt2" else write_bart_folder(tmp_path)
    model = md.load(folder)
    prompts = [[5] * (CONTEXT - 2), [7]]
    limits = {"max_length": CONTEXT + 1} if family == "gpt2" else {"max_new_tokens": CONTEXT}
    out = model.generate(input_ids=prompts, eos_token_id=None, **limits)
    assert max(map(len, out.token_ids)) == CONTEXT
    scores = model.score(input_ids=prompts, target_ids=out.token_ids)
    np.testing.assert_allclose(scores.log_probs / scores.tokens, out.scores, rtol=1e-5)
    assert scores.token_log_probs[0].dtype == np.float32


# ---- against the logits ----------------------------------------------------------------------------------------------


@settings(max_examples=30)
@given(texts=rows(2, CONTEXT + 1))
def test_every_token_after_the_first(models, texts):
    model = models["gpt2"]
    scores = model.score(input_ids=texts)
    assert [ids.tolist() for ids in scores.token_ids] == [text[1:] for text in texts]
    for text, found, first_choice in zip(texts, scores.token_log_probs, scores.likeliest_ids, strict=True):
        logits = model.logits([text[:-1]])[0]
        np.testing.assert_allclose(found, log_softmax(logits)[np.arange(len(text) - 1), text[1:]], rtol=1e-9)
        assert (first_choice == logits.argmax(axis=1)).all()


@settings(max_examples=30)
@given(pairs=st.lists(st.tuples(*[st.lists(st.integers(3, 250), min_size=1, max_size=CONTEXT)] * 2), min_size=1,
                      max_size=3))  # fmt: skip
def test_every_token_of_a_target_given_its_source(models, pairs):
    model, (sources, targets) = models["bart"], zip(*pairs, strict=True)
    scores = model.score(input_ids=sources, target_ids=targets)
    for source, target, found in zip(sources, targets, scores.token_log_probs, strict=True):
        logits = model.logits([source], decoder_input_ids=[[BART_CONFIG["decoder_start_token_id"], *target[:-1]]])[0]
        np.testing.assert_allclose(found, log_softmax(logits)[np.arange(len(target)), target], rtol=1e-9)


@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=20)
@given(texts=rows(2, CONTEXT), side=st.booleans(), data=st.data())
def test_batch_and_padding_change_nothing(models, family, texts, side, data):
    model = models[family]
    targets = None if family == "gpt2" else data.draw(rows(1, 9).filter(lambda t: len(t) == len(texts)))
    N = max(map(len, texts)) + 2
    padded, mask = np.full((len(texts), N), 9), np.zeros((len(texts), N), int)
    for b, text in enumerate(texts):
        where = slice(N - len(text), None) if side else slice(0, len(text))
        padded[b, where], mask[b, where] = text, 1
    together = model.score(input_ids=padded, attention_mask=mask, target_ids=targets)
    for b, text in enumerate(texts):
        alone = model.score(input_ids=[text], target_ids=targets and [targets[b]])
        assert alone.token_ids[0].tolist() == together.token_ids[b].tolist()
        np.testing.assert_allclose(alone.token_log_probs[0], together.token_log_probs[b], rtol=1e-9)


# ---- texts longer than the context -----------------------------------------------------------------------------------


@given(count=st.integers(1, 90), context=st.integers(1, 20), data=st.data())
def test_windows_score_each_token_once_after_enough_context(count, context, data):
    stride, first = data.draw(st.integers(1, context)), data.draw(st.integers(1, 90))
    found = list(cut_into_windows(count, first, context, stride))
    scored = [p for start, begin, end in found for p in range(begin, end)]
    assert scored == list(range(first, count))
    for start, begin, end in found:
        assert end - 1 - start <= context, "no window reads more than the context"
        assert begin - start >= min(begin, context - stride + 1), "tokens before a scored one"
    for (a, *_), (b, *_) in pairwise(found):
        assert (b - a) % stride == 0 and b > a


@settings(max_examples=10)
@given(text=st.lists(st.integers(3, 250), min_size=CONTEXT + 2, max_size=4 * CONTEXT), cut=st.integers(1, 60))
def test_a_stride_of_one_gives_every_token_the_whole_context(models, text, cut):
    """With the text whole, and cut into prompt and target: then only the target's tokens are scored."""
    model = models["gpt2"]
    expected = []
    for p in range(1, len(text)):
        logits = model.logits([text[max(0, p - CONTEXT) : p]])[0][-1]
        expected.append(log_softmax(logits)[text[p]])
    found = model.score(input_ids=[text], stride=1).token_log_probs[0]
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    cut = min(cut, len(text) - 1)
    tail = model.score(input_ids=[text[:cut]], target_ids=[text[cut:]], stride=1).token_log_probs[0]
    np.testing.assert_allclose(tail, expected[cut - 1 :], rtol=1e-9)


def test_by_default_windows_overlap_by_half(models):
    model, text = models["gpt2"], np.arange(3, 3 + 3 * CONTEXT)
    half = CONTEXT // 2
    expected = log_softmax(model.logits([text[:CONTEXT]])[0])[np.arange(CONTEXT), text[1 : CONTEXT + 1]].tolist()
    for start in range(half, len(text) - CONTEXT + half, half):
        window = text[start : start + CONTEXT]
        logprobs = log_softmax(model.logits([window])[0])[half:]
        targets = text[start + half + 1 : start + CONTEXT + 1]
        expected += logprobs[np.arange(len(targets)), targets].tolist()
    found = model.score(input_ids=[text]).token_log_probs[0]
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    np.testing.assert_array_equal(found, model.score(input_ids=[text], stride=half).token_log_probs[0])


# ---- what it takes, and what runs ------------------------------------------------------------------------------------


def test_a_long_text_under_a_large_vocabulary_takes_little_memory(tmp_path, monkeypatch):
    """1,024 rows x 50,257 tokens of logits would be 206 MB; with all rows at once, they are (the measure measures)."""
    rows, V = 1024, 50257
    model = md.load(write_folder(tmp_path, n_positions=rows, vocab_size=V, n_layer=1))
    text = np.random.default_rng(0).integers(V, size=3 * rows // 2)
    table = rows * V * 4
    assert peak_of(lambda: model.score(input_ids=[text]), table / 6)[1] < table / 6
    monkeypatch.setattr(engine, "LOGITS_ROWS", rows)
    assert peak_of(lambda: model.score(input_ids=[text[: rows + 1]]), table)[1] > table


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("rows", [1, 3, 10])
def test_the_rows_of_logits_at_a_time_change_nothing(models, monkeypatch, family, rows):
    """10 rows are those of one text here, so that there are blocks that end where a text does, and elsewhere."""
    given = {"input_ids": [[5, 6, 7], [8]], "target_ids": [range(20, 30), range(40, 53)]}
    expected = models[family].score(**given)
    monkeypatch.setattr(engine, "LOGITS_ROWS", rows)
    found = models[family].score(**given)
    for a, b in [*zip(expected.token_log_probs, found.token_log_probs, strict=True),
                 *zip(expected.likeliest_ids, found.likeliest_ids, strict=True)]:  # fmt: skip
        np.testing.assert_allclose(a, b, rtol=1e-9)


@pytest.mark.parametrize("family", FAMILIES)
def test_no_table_of_log_probabilities_is_written(models, monkeypatch, family):
    def sabotaged(*args, **kwargs):
        raise ZeroDivisionError("sabotage")

    score = {"input_ids": [[5, 6, 7]], "target_ids": [[8, 9]]}
    expected = models[family].score(**score).log_probs
    monkeypatch.setattr(softmax, "log_softmax", sabotaged)
    assert (models[family].score(**score).log_probs == expected).all()
    monkeypatch.setattr(softmax, "token_logprobs", sabotaged)
    with pytest.raises(ZeroDivisionError, match="sabotage"):
        models[family].score(**score)


def test_progress_counts_the_tokens(models):
    seen = []
    models["gpt2"].score(input_ids=[[5] * 40, [6] * 3], progress=lambda done, of: seen.append((done, of)))
    assert [of for _, of in seen] == [41] * len(seen) and len(seen) > 2
    assert seen[-1][0] == 41 and all(a < b for (a, _), (b, _) in pairwise(seen))


# ---- sums ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def undecided(tmp_path_factory):
    """A model to which all tokens are equally likely."""
    tensors = {name: np.zeros_like(t) for name, t in toy_tensors(CONFIG).items()}
    return md.load(write_folder(tmp_path_factory.mktemp("undecided"), tensors))


def test_perplexity_and_bits_of_an_undecided_model(undecided):
    """By hand: every token costs ln V; "the sea" is <|endoftext|> the, and four bytes more, as tokens 1 + 4."""
    V = CONFIG["vocab_size"]
    scores = undecided.score(["<|endoftext|>the sea", "<|endoftext|>xyz"])
    assert scores.tokens.tolist() == [5, 3] and scores.bytes == [7, 3]
    assert scores.log_probs == pytest.approx([-5 * math.log(V), -3 * math.log(V)])
    assert scores.perplexity == pytest.approx(V)
    assert scores.bits_per_byte == pytest.approx(8 * math.log2(V) / 10)
    first, second = scores
    assert len(scores) == 2 and len(first) == 1 and first.bytes == [7]
    assert first.bits_per_byte == pytest.approx(5 * math.log2(V) / 7)
    assert second.bits_per_byte == pytest.approx(math.log2(V)) and second.perplexity == pytest.approx(V)


def test_the_first_token_is_not_scored_unless_something_comes_before(undecided):
    alone, begun = undecided.score("the sea"), undecided.score("<|endoftext|>the sea")
    assert alone.tokens.tolist() == [4] and begun.tokens.tolist() == [5]
    assert alone.bytes == [4] and begun.bytes == [7]
    assert begun.token_ids[0][1:].tolist() == alone.token_ids[0].tolist()


@settings(max_examples=50)
@given(text=st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=9), target=st.text(max_size=9))
def test_bytes_are_those_of_the_text(models, text, target):
    """Tokens may split a character; special tokens are no text."""
    assert models["gpt2"].score("<|endoftext|>" + text).bytes == [len(text.encode())]
    cut = target.encode("utf-8", "ignore").decode()
    if len(models["bart"].tokenizer.encode(cut)) <= CONTEXT and not any(t in cut for t in ("<s>", "</s>", "<mask>")):
        scores = models["bart"].score("the", targets=cut)
        assert scores.bytes == [len(cut.encode())]
        assert scores.tokens[0] >= 2, "<s> and </s> at least"


def test_an_impossible_token_is_infinitely_surprising(tmp_path):
    tensors = toy_tensors(BART_CONFIG)
    tensors["final_logits_bias"][0, 5] = -np.inf
    model = md.load(write_bart_folder(tmp_path, tensors))
    scores = model.score(input_ids=[[4], [4]], target_ids=[[5, 6], [6]])
    assert scores.log_probs[0] == -np.inf and scores.perplexity == np.inf
    assert np.isfinite(scores[1].perplexity)


def test_nothing_but_special_tokens_has_no_bits_per_byte(models):
    assert math.isnan(models["bart"].score("the", targets="").bits_per_byte)


# ---- what is refused -------------------------------------------------------------------------------------------------


def refused(model, words, error=md.InputError, **arguments):
    with pytest.raises(error, match=words):
        model.score(**arguments)


def test_errors_name_the_cause(models):
    gpt2, bart = models["gpt2"], models["bart"]
    refused(gpt2, "either texts or input_ids")
    refused(gpt2, "either texts or input_ids", texts="a b", input_ids=[[1]])
    refused(gpt2, "either targets or target_ids", texts="a", targets="b", target_ids=[[1]])
    refused(gpt2, "no text", texts=[])
    refused(gpt2, "text 2 of 2 has one token.*endoftext", texts=["a b", "a"])
    refused(gpt2, "text 2 of 2 is empty", texts=["a b", ""])
    refused(gpt2, "target 2 of 2 is empty", texts=["a", "b"], targets=["a", ""])
    refused(gpt2, "2 texts and 1 target: give", texts=["a", "b"], targets=["a"])
    refused(gpt2, "target 1 of 1: token id 260 is not in the vocabulary", texts="a", target_ids=[[260]])
    refused(gpt2, "target_ids must be rows of integers", texts="a", target_ids=[[2.5]])
    refused(gpt2, "targets must be texts; pass token ids as target_ids", texts="a", targets=[[2]])
    for stride in (0, CONTEXT + 1, 2.0, True):
        refused(gpt2, f"stride must be an integer from 1 to the context, {CONTEXT}", md.OptionError,
                texts="a b", stride=stride)  # fmt: skip
    refused(bart, "targets given their sources", texts="a")
    refused(bart, "a target is read whole", md.OptionError, texts="a", targets="b", stride=3)
    refused(bart, f"source 1 of 1 has 22 tokens and the encoder holds {CONTEXT}", texts="x" * 20, targets="b")
    refused(bart, f"target 2 of 2 has 22 tokens and the decoder holds {CONTEXT}", texts=["a"] * 2,
            targets=["b", "x" * 20])  # fmt: skip
    refused(bart, "decoder_start_token_id 264 is not in the vocabulary", md.OptionError, texts="a", targets="b",
            decoder_start_token_id=264)  # fmt: skip


def test_what_comes_first_in_a_target(models, tmp_path):
    model = models["bart"]
    given = {"input_ids": [[5, 6]], "target_ids": [[7, 8]]}
    other = model.score(**given, decoder_start_token_id=9).log_probs
    assert other != model.score(**given).log_probs
    elsewhere = md.load(write_bart_folder(tmp_path / "nine", decoder_start_token_id=9), dtype="float64")
    assert other == elsewhere.score(**given).log_probs
    nowhere = md.load(write_bart_folder(tmp_path / "none", decoder_start_token_id=None))
    refused(nowhere, "decoder_start_token_id is set nowhere", md.OptionError, **given)


def test_long_sources_are_cut_if_asked(models):
    model, long = models["bart"], [*range(3, 3 + CONTEXT + 4), 2]
    cut = model.score(input_ids=[long], target_ids=[[7, 8]], truncate=True)
    assert cut.log_probs == model.score(input_ids=[[*long[: CONTEXT - 1], 2]], target_ids=[[7, 8]]).log_probs


def test_a_folder_without_a_tokenizer(tmp_path):
    folder = write_folder(tmp_path)
    (folder / "tokenizer.json").unlink()
    model = md.load(folder)
    refused(model, "no tokenizer.*or pass input_ids", texts="a b")
    refused(model, "no tokenizer.*or pass target_ids", input_ids=[[5]], targets="b")
    scores = model.score(input_ids=[[5, 6]])
    assert scores.bytes is None and scores[0].bytes is None and scores.perplexity > 1
    with pytest.raises(md.InputError, match="no byte-level tokenizer"):
        _ = scores.bits_per_byte


def test_a_tokenizer_that_is_not_made_of_bytes(tmp_path):
    from tokenizers import Tokenizer, models, pre_tokenizers

    folder = write_folder(tmp_path)
    words = Tokenizer(models.WordLevel({"the": 1, "sea": 2}, unk_token="the"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    words.save(str(folder / "tokenizer.json"))
    scores = md.load(folder).score("the sea")
    assert scores.tokens.tolist() == [1] and scores.bytes is None


def test_nan_weights_are_named(tmp_path):
    tensors = toy_tensors(CONFIG | {"tie_word_embeddings": False})
    tensors["wte.weight"][toy_vocabulary()["z"]] = np.nan
    model = md.load(write_folder(tmp_path, tensors, tie_word_embeddings=False))
    assert np.isfinite(model.score(["a b"]).perplexity)
    refused(model, "NaN in text 2 of 2.*wte.weight", md.NumericalError, texts=["a b", "a z b"])


def test_tokens_beyond_the_tokenizer_stand_for_no_bytes(tmp_path):
    model = md.load(write_folder(tmp_path, vocab_size=CONFIG["vocab_size"] + 8))
    assert model.score(input_ids=[[5, 6, CONFIG["vocab_size"] + 3]]).bytes == [1]
    assert len(MERGES) == 3 and model.score("xthe").bytes == [3]
