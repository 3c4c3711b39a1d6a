"""A text that grows token by token: of each tokenizer the same pieces as where the whole is read for each token."""

import functools
import io
import tempfile
from pathlib import Path

import numpy as np
import pytest
import tokenizers
from tokenizers import AddedToken, decoders, models
from toy_folder import write_json

from minidecode.files import tokenizer as files
from minidecode.files.fairseq_tokenizer import Dictionary, FairseqTokenizer
from minidecode.files.sentencepiece_tokenizer import CC25, MarianTokenizer, MBartTokenizer
from minidecode.files.tokenizer import TextStream, Tokenizer

GOLDEN = Path(__file__).parents[1] / "golden" / "tokenizer"
SPACE = "\u2581"
BYTES = [f"<0x{byte:02X}>" for byte in [*chr(0x1F600).encode(), *"é".encode(), ord("A"), ord(" "), 0xFF]]
SPECIAL = ["<|end|>", "<|user|>"]
WORDS = ["do", "n't", ".", "'", "s", "'s", "!", ",", "re", "I", "##ing", "##s", "a", "'m", "ox", "\ufffd"]
PIECES = [SPACE, SPACE * 2, f"{SPACE}a", "b", "th", f"{SPACE}of", "é", "\ufffd", "."]
JOINS = [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
CLEANS = {"clean_up_tokenization_spaces": True}


def of_words(words, decoder, **settings):
    """A vocabulary of words, of which each is a token."""
    vocabulary = {word: i for i, word in enumerate(words)}
    backend = tokenizers.Tokenizer(models.WordLevel(vocabulary, unk_token=words[0]))
    if decoder is not None:
        backend.decoder = decoder
    backend.add_special_tokens([AddedToken(word, special=True) for word in SPECIAL])
    folder = Path(tempfile.mkdtemp())
    backend.save(str(folder / "tokenizer.json"))
    write_json(folder / "tokenizer_config.json", settings)
    made = Tokenizer.from_folder(folder)
    often = [word for word in words if word in ("<0xC3>", "<0xA9>", "b", "th")] * 5  # which belong together
    return made, [*range(len(words)), *made.special_ids, *map(made.token_to_id, often)]


def of_bytes():
    """GPT-2's kind, with a second special token."""
    made = Tokenizer.from_folder(GOLDEN / "one_file")
    made._backend.add_special_tokens([AddedToken("<|user|>", special=True)])
    return made, [*range(300), *made.special_ids, 10_000]


def of_fairseq():
    path = Path(tempfile.mkdtemp()) / "dict.txt"
    path.write_text("lear@@ 9\nn 8\nsmall 7\n@@ 3\n@ 2\n", encoding="utf-8")
    made = FairseqTokenizer(*[Dictionary.from_file(path)] * 2)
    return made, range(9)


def sentencepiece_model():
    sentencepiece, model = pytest.importorskip("sentencepiece"), io.BytesIO()
    texts = ["the cat sat on the mat", "die katze sass auf der matte", "le chat est ici 12 é"] * 20
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts), model_writer=model, vocab_size=310, byte_fallback=True, hard_vocab_limit=False,
        minloglevel=2,
    )  # fmt: skip
    return sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())


def of_marian():
    model = sentencepiece_model()
    pieces = ["</s>", "<unk>", *(model.id_to_piece(i) for i in range(3, model.get_piece_size())), "<pad>"]
    made = MarianTokenizer([model, model], {piece: i for i, piece in enumerate(pieces)}, None)
    return made, [*range(len(pieces) + 1), *range(258, len(pieces))]


def of_mbart():
    made = MBartTokenizer(sentencepiece_model(), CC25, {})
    return made, [*range(made.size), *range(260, made.size)]


TOKENIZERS = {
    "bytes": of_bytes,
    "llama": lambda: of_words([*PIECES, *BYTES], decoders.Sequence([*JOINS, decoders.Strip(" ", 1, 0)])),
    "gemma": lambda: of_words([*PIECES, *BYTES], decoders.Sequence(JOINS)),
    "replaces": lambda: of_words([*PIECES, *BYTES], decoders.Sequence([*JOINS, decoders.Replace("bth", "c")])),
    "t5": lambda: of_words(PIECES, decoders.Metaspace()),
    "suffixes": lambda: of_words(["a</w>", "b", "c</w>", "</w>"], decoders.BPEDecoder()),
    "bert": lambda: of_words(WORDS, decoders.WordPiece(prefix="##", cleanup=True)),
    "cleans": lambda: of_words(WORDS, decoders.WordPiece(prefix="##", cleanup=False), **CLEANS),
    "words": lambda: of_words(WORDS, None, **CLEANS),
    "apart": lambda: of_words(WORDS, None),
    "fairseq": of_fairseq, "marian": of_marian, "mbart": of_mbart,
}  # fmt: skip
made = functools.cache(lambda kind: TOKENIZERS[kind]())
kinds = pytest.mark.parametrize("kind", TOKENIZERS)


class Naive(TextStream):
    """The whole text is read for each token, and searched for stop strings."""

    def _forget(self):
        pass


def check_pieces(kind, texts=60):
    """The pieces of random texts are those of the naive way. A text has tokens of a few kinds, so that runs occur."""
    tokenizer, ids = made(kind)
    rng, forgot = np.random.default_rng(0), 0
    for number in range(texts):
        some = rng.choice(ids, rng.integers(1, 2 + len(ids) // (1 + number % 3))).tolist()
        before, new = (rng.choice(some, n).tolist() for n in (rng.integers(0, 12), 90))
        before = before if tokenizer.__class__ is Tokenizer and number % 2 else ()
        whole, stops = tokenizer.decode(new), ()
        if number % 4 == 1:
            stops = ("x<|end|>", "<|user|>", SPACE, "a" * 9, whole[70:76] or "q")
        elif number % 4 == 3:
            stops = ("zzz", whole[40:43] + "<|end|>")
        how = (stops, bool(number % 8 > 4), before, bool(number % 5 == 1 and before))
        mine, naive = TextStream(tokenizer, *how), Naive(tokenizer, *how)
        for token in new:
            assert mine.push(token) == naive.push(token), (kind, number)
        assert mine.finish() == naive.finish(), (kind, number)
        forgot += len(mine._ids) < len(new)
    return forgot


@kinds
def test_pieces_are_those_of_the_whole_text(kind):
    """And in many of the texts only an end of them is read. Where a decoder rewrites a text, none is cut."""
    assert (check_pieces(kind) > 10) == (kind != "replaces")


@pytest.mark.parametrize("kind", ["bytes", "llama", "marian", "fairseq"])
def test_a_long_text_costs_no_more_for_each_token(kind, monkeypatch):
    """Tokens that are decoded, for each that is pushed; the whole text took half of all tokens for each."""
    tokenizer, ids = made(kind)
    word = next(i for i in ids if tokenizer.settled_end([i, i]))
    decode, count = tokenizer.decode, 0

    def counted(ids, **how):
        nonlocal count
        count += len(ids)
        return decode(ids, **how)

    monkeypatch.setattr(tokenizer, "decode", counted)
    stream = TextStream(tokenizer, ["zz"], before=[word] * 20 if kind == "bytes" else ())
    said = [stream.push(word) for _ in range(600)]
    assert "".join([*said, stream.finish()]) == decode([word] * 620)[len(decode([word] * 20)) :] or kind != "bytes"
    assert count < 60 * 600


def bytes_of_a_character_are_cut_apart(patch):
    patch.setattr(Tokenizer, "_piece", lambda self, i: "x")


def cleaning_goes_across_the_cut(patch):
    patch.setattr(files, "MAY_JOIN", "")


def a_stop_string_may_not_begin_before_the_cut(patch):
    def forget(self):
        settled = self._tokenizer.settled_end(self._ids)
        if settled is not None:
            self._before, self._ids = settled, []
            self._shown -= len(self._text)
            self._settled = self._text = ""
            self._special = []

    patch.setattr(TextStream, "_forget", forget)


def a_decoder_that_rewrites_is_not_seen(patch):
    patch.setattr(made("replaces")[0], "_rewrites", False)


def nothing_is_known_of_what_is_before(patch):
    settled = Tokenizer.settled_end
    patch.setattr(Tokenizer, "settled_end", lambda self, ids: None if settled(self, ids) is None else [])


MISTAKES = {
    bytes_of_a_character_are_cut_apart: "llama", cleaning_goes_across_the_cut: "words",
    a_stop_string_may_not_begin_before_the_cut: "bytes", a_decoder_that_rewrites_is_not_seen: "replaces",
    nothing_is_known_of_what_is_before: "llama",
}  # fmt: skip


@pytest.mark.parametrize(("mistake", "kind"), MISTAKES.items(), ids=lambda each: getattr(each, "__name__", each))
def test_known_mistakes_are_found(mistake, kind, monkeypatch):
    made(kind)
    mistake(monkeypatch)
    with pytest.raises(AssertionError, match=kind):
        check_pieces(kind)
