"""A text is cut at a border without a change of tokens on either side, and a long one is not read whole."""

from __future__ import annotations

import functools
import json
import random
import shutil
from pathlib import Path

import pytest
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers
from toy_folder import write_folder

import minidecode as md
from minidecode.files.gguf_tokenizer import QWEN2
from minidecode.files.long_texts import LLAMA3, SHORT, Borders, find_borders, longest_token
from minidecode.files.tokenizer import Tokenizer as Ours

LETTERS = [*"abcdeABΣσİé12٣中国", "\u0301", "e\u0301", "\U0001f44d", "ﬁ", "Ⅷ", "½", "が"]
MARKS = [*".,!?'-_<>|/", "'s", "'S", "…", "<|end|>", "<s>", "[MASK]", "tok", "new york"]
SPACES = [*[" "] * 8, "  ", "\n", "\n\n", "\t", "\r\n", "\u00a0", "\u3000", "\u2581"]


def awkward_text(rng: random.Random) -> str:
    kinds = rng.choices((LETTERS, MARKS, SPACES, [" "]), (5, 1, 2, 3), k=60)
    return "".join(map(rng.choice, kinds))


@functools.cache
def corpus() -> list[str]:
    rng = random.Random(0)
    return [awkward_text(rng) for _ in range(600)]


def trained(kind: str, normalizer=None, split=None) -> Tokenizer:
    """A tokenizer whose vocabulary has learned what these splits leave together."""
    special = {"vocab_size": 400, "special_tokens": ["<unk>"], "show_progress": False}
    alphabet = pre_tokenizers.ByteLevel.alphabet() if kind == "bytes" else []
    made = Tokenizer(models.Unigram() if kind == "unigram" else models.BPE(unk_token="<unk>"))
    made.normalizer, made.pre_tokenizer = normalizer, split
    of_words = trainers.UnigramTrainer(unk_token="<unk>", **special)
    of_bytes = trainers.BpeTrainer(initial_alphabet=sorted(alphabet), **special)
    made.train_from_iterator(corpus(), of_words if kind == "unigram" else of_bytes)
    return made


def unsplit(normalizer: dict | None, split: dict | None) -> Tokenizer:
    """Llama's: merges alone keep words apart."""
    fields = json.loads(trained("pieces", None, pre_tokenizers.Metaspace(prepend_scheme="first")).to_str())
    return Tokenizer.from_str(json.dumps(fields | {"normalizer": normalizer, "pre_tokenizer": split}))


def by_expression(expression: str):
    apart = pre_tokenizers.ByteLevel(False, use_regex=False)
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(expression), "isolated"), apart])


PREPEND = {"type": "Prepend", "prepend": "\u2581"}
REPLACE = {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}
FIRST = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first", "split": False}
DIGITS = pre_tokenizers.Digits(individual_digits=True)
KINDS = {
    "gpt2": lambda: trained("bytes", None, pre_tokenizers.ByteLevel(False)),
    "gpt2 with a space": lambda: trained("bytes", None, pre_tokenizers.ByteLevel(True)),
    "smollm": lambda: trained("bytes", None, pre_tokenizers.Sequence([DIGITS, pre_tokenizers.ByteLevel(False)])),
    "qwen2": lambda: trained("bytes", normalizers.NFC(), by_expression(QWEN2)),
    "llama3": lambda: trained("bytes", None, by_expression(LLAMA3)),
    "bert": lambda: trained("pieces", normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()),
    "t5": lambda: trained(
        "unigram", normalizers.NFKC(),
        pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()]),
    ),
    "metaspace": lambda: trained("unigram", normalizers.Replace(Regex(" {2,}"), " "), pre_tokenizers.Metaspace()),
    "never": lambda: trained("pieces", None, pre_tokenizers.Metaspace(prepend_scheme="never")),
    "llama": lambda: unsplit(None, FIRST),
    "llama of old": lambda: unsplit({"type": "Sequence", "normalizers": [PREPEND, REPLACE]}, None),
}  # fmt: skip
ADDED = [
    [],
    [AddedToken("<|end|>"), AddedToken("tok", normalized=False), AddedToken("new york", normalized=False)],
    [AddedToken("<s>", lstrip=True, rstrip=True), AddedToken("a1", normalized=False, rstrip=True),
     AddedToken("ab", normalized=False, single_word=True)],
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_both_sides_of_a_border_have_the_tokens_of_the_whole(kind):
    rng, made, seen = random.Random(1), KINDS[kind]().to_str(), 0
    for added in ADDED:
        backend = Tokenizer.from_str(made)
        backend.add_tokens(added)
        if (borders := find_borders(backend)) is None:
            assert backend.normalizer is not None and any(t.normalized for t in added)
            continue
        for text in (awkward_text(rng) for _ in range(60)):
            whole = backend.encode(text).ids
            for match in filter(borders._is_clear_border, borders.pattern.finditer(text)):
                first, last = text[: match.start()], text[match.end() if borders.drops else match.start() :]
                assert backend.encode(first).ids + backend.encode(last).ids == whole, (text, match)
                seen += 1
    assert seen > 200


@pytest.mark.parametrize(
    ("normalizer", "split"),
    [
        (None, None),  # merges may go from one word into the next
        (None, pre_tokenizers.ByteLevel(use_regex=False)),
        (None, pre_tokenizers.Split(Regex(r"\s\w+|."), "isolated")),  # an expression of its own
        (normalizers.Replace(Regex("a b"), "c"), pre_tokenizers.Whitespace()),
        (normalizers.Replace("a b", "c"), pre_tokenizers.Whitespace()),
    ],
)
def test_where_it_is_not_known_a_text_is_read_whole(normalizer, split):
    backend = Tokenizer(models.BPE({"a": 0, "b": 1, "\u2581": 2, "a\u2581": 3}, [("a", "\u2581")]))
    if normalizer is not None:
        backend.normalizer = normalizer
    if split is not None:
        backend.pre_tokenizer = split
    assert find_borders(backend) is None
    text = "a b " * SHORT
    assert Ours(backend).cut_to_beginning(text, 3) == Ours(backend).cut_to_ending(text, 3) == text


def test_a_part_has_as_many_tokens_as_are_asked_for():
    text, borders, read = "ab cd " * 4 * SHORT, Borders(), []

    def tokens_of(part: str) -> list[str]:
        read.append(len(part))
        return part.split()

    for count in (1, 3000, 50_000):
        del read[:]
        first, last = borders.cut_to_beginning(text, count, tokens_of), borders.cut_to_ending(text, count, tokens_of)
        assert text.startswith(first) and text.endswith(last) and max(len(first), len(last)) < len(text)
        assert min(len(first.split()), len(last.split())) >= count and sum(read) <= 2.1 * max(SHORT, 16 * count)
    assert (
        borders.cut_to_beginning("a" * 10**6, 3, tokens_of)
        == borders.cut_to_ending("a" * 10**6, 3, tokens_of)
        == "a" * 10**6
    )


# ---- in use ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def read(monkeypatch):
    """How many characters tokenizers were given."""
    counted = []
    encoding = Ours._encoding
    monkeypatch.setattr(
        Ours, "_encoding", lambda self, text, *a: (counted.append(len(text)), encoding(self, text, *a))[1]
    )
    return counted


LONG = "Four score and seven years ago our fathers brought forth. " * 20_000


def test_a_long_prompt_that_is_cut_is_read_from_its_end(read):
    model = md.load("tiny-gpt2")
    options = model.options(max_new_tokens=4)
    short = LONG[-58 * 200 :]
    wanted = model.tokenize(short, options, truncate=True).tolist()
    del read[:]
    assert model.tokenize(LONG, options, truncate=True).tolist() == wanted and sum(read) < len(LONG) / 5
    del read[:]
    with pytest.raises(
        md.InputError, match=r"^prompt 1 of 1 has more than 512 tokens, and the model holds 512: shorten"
    ):
        model.tokenize(LONG, options)
    assert sum(read) < len(LONG) / 5


def test_a_long_prompt_without_a_space_is_refused_unread(read):
    """10 MB of it took 30 s to be refused. A byte is a token, or a part of one no longer than the longest."""
    model = md.load("tiny-gpt2")
    longest = max(map(len, Tokenizer.from_str(model.tokenizer.as_json()).get_vocab()))
    assert longest_token(Tokenizer.from_str(model.tokenizer.as_json())) == longest
    with pytest.raises(md.InputError, match=r"^prompt 1 of 1 has more than 512 tokens"):
        model.tokenize("x" * (SHORT + 514 * longest), model.options(max_new_tokens=4))
    assert not read


@pytest.mark.parametrize("change", ["NFC", "strips", "a byte is missing"])
def test_where_a_token_may_take_more_its_length_says_nothing(change):
    made = trained("bytes", None, pre_tokenizers.ByteLevel(False))
    assert longest_token(made) == max(map(len, made.get_vocab()))
    if change == "strips":
        made.add_special_tokens([AddedToken("<x>", lstrip=True)])
    elif change == "NFC":
        made.normalizer = normalizers.NFC()
    else:
        made = trained("pieces", None, pre_tokenizers.ByteLevel(False))
    assert longest_token(made) is None


def test_a_long_source_is_read_from_its_beginning(read):
    model = md.load("tiny-bart")
    options = model.options(max_new_tokens=4)
    wanted = model.tokenize(LONG[: 58 * 200], options, truncate=True).tolist()
    assert model.tokenize(LONG, options, truncate=True).tolist() == wanted
    assert tuple(wanted[-1:]) == model.tokenizer.closing_ids
    with pytest.raises(md.InputError, match=r"^source 1 of 1 has more than"):
        model.tokenize(LONG, options)
    with pytest.raises(md.InputError, match=r"^source 1 of 1 has more than"):
        model.score(LONG, targets="a")
    assert sum(read) < len(LONG)


def test_a_long_text_is_read_from_its_beginning(read, tmp_path):
    folder = shutil.copytree(Path(__file__).parents[1] / "golden" / "bert" / "plain", tmp_path / "bert")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "four", "score", "and", "seven", "years"]
    (folder / "vocab.txt").write_text("\n".join([*words, *map(str, range(37 - len(words)))]) + "\n", encoding="utf-8")
    model = md.load(folder)
    found = [model.encode(text, truncate=True).tolist() for text in (LONG[: 58 * 200], LONG)]
    assert found[0] == found[1]
    with pytest.raises(md.InputError, match=r"^text 1 of 1 has more than .* tokens, and the model holds .* --truncate"):
        model.encode(LONG)
    assert sum(read) < len(LONG)


def test_a_long_conversation_is_refused_after_its_beginning(read, tmp_path):
    pytest.importorskip("jinja2", reason="needs the extra chat")
    folder = write_folder(tmp_path / "toy", n_positions=64)
    (folder / "chat_template.jinja").write_text("{{ messages[0].content }}", encoding="utf-8")
    with pytest.raises(
        md.InputError, match=r"^the conversation has more than 64 tokens, and the model holds 64: leave"
    ):
        md.load(folder).chat([{"role": "user", "content": LONG}])
    assert sum(read) < len(LONG) / 5
