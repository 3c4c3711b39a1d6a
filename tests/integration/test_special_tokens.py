"""Which tokens are special, whichever file says so, and what the settings change in a tokenizer.json.

The expected tokens are those of transformers 5.24; tests/oracle/test_tokenizer_settings_oracle.py asks it anew.
"""

from __future__ import annotations

import json

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from toy_folder import write_json

from minidecode import CheckpointError
from minidecode.files.chat import ChatTemplate
from minidecode.files.tokenizer import Tokenizer as Ours
from minidecode.files.tokenizer import _add_tokens

BYTES = sorted(pre_tokenizers.ByteLevel.alphabet())
VOCABULARY = {token: i for i, token in enumerate([*BYTES, "12", "ĊĊ", "'S", "Ġa", "<|end|>", "<|user|>"])}
MERGES = [("1", "2"), ("Ċ", "Ċ"), ("'", "S"), ("Ġ", "a")]
END, USER = VOCABULARY["<|end|>"], VOCABULARY["<|user|>"]
FAST = {"tokenizer_class": "PreTrainedTokenizerFast"}


def byte_folder(folder, *added, **files):
    """A folder with a byte-level tokenizer.json, and with files of the settings by their names."""
    backend = Tokenizer(models.BPE(VOCABULARY, MERGES))
    backend.pre_tokenizer, backend.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    for token in added:
        (backend.add_special_tokens if token.special else backend.add_tokens)([token])
    backend.save(str(folder / "tokenizer.json"))
    for name, fields in ({"tokenizer_config": FAST} | files).items():
        write_json(folder / f"{name}.json", fields)
    return Ours.from_folder(folder)


NAMED = {
    "eos_token": {"tokenizer_config": FAST | {"eos_token": "<|end|>"}},
    "eos_token, described": {"tokenizer_config": FAST | {"eos_token": {"content": "<|end|>"}}},
    "a role of the model's own": {"tokenizer_config": FAST | {"image_token": "<|end|>"}},
    "additional_special_tokens": {"tokenizer_config": FAST | {"additional_special_tokens": ["<|end|>"]}},
    "extra_special_tokens": {"tokenizer_config": FAST | {"extra_special_tokens": ["<|end|>"]}},
    "extra_special_tokens by name": {"tokenizer_config": FAST | {"extra_special_tokens": {"x_token": "<|end|>"}}},
    "the other file": {"special_tokens_map": {"eos_token": {"content": "<|end|>", "normalized": True}}},
    "the other file's list": {"special_tokens_map": {"additional_special_tokens": ["<|end|>"]}},
    "added_tokens_decoder": {
        "tokenizer_config": FAST | {"added_tokens_decoder": {str(END): {"content": "<|end|>", "special": True}}}
    },
}


@pytest.mark.parametrize("files", NAMED.values(), ids=NAMED)
def test_a_token_that_a_settings_file_names_is_special(files, tmp_path):
    tokenizer = byte_folder(tmp_path, **files)
    ids = tokenizer.encode("hi<|end|>").tolist()
    assert ids == [VOCABULARY["h"], VOCABULARY["i"], END]
    assert tokenizer.decode(ids) == "hi" and tokenizer.special_ids == [END] and tokenizer.bytes_of_tokens(ids) == 2
    assert USER not in tokenizer.encode("<|user|>"), "what no file names is text"


def test_a_role_makes_an_ordinary_token_special_and_a_list_does_not(tmp_path):
    ordinary = AddedToken("<|end|>", special=False), AddedToken("<|user|>", special=False)
    settings = FAST | {"eos_token": "<|end|>", "additional_special_tokens": ["<|user|>"]}
    tokenizer = byte_folder(tmp_path, *ordinary, tokenizer_config=settings)
    assert tokenizer.special_ids == [END] and tokenizer.decode([END, USER]) == "<|user|>"


@pytest.mark.parametrize("named", [{}, {"eos_token": "<|end|>"}])
def test_a_file_of_ids_takes_no_mark_away(named, tmp_path):
    special = AddedToken("<|end|>", special=True, normalized=False, lstrip=True)
    ids = {"<|end|>": END, "<|user|>": USER}
    tokenizer = byte_folder(tmp_path, special, added_tokens=ids, tokenizer_config=FAST | named)
    marked = {t["id"]: t for t in json.loads(tokenizer.as_json())["added_tokens"]}
    assert tokenizer.special_ids == [END] and tokenizer.bytes_of_tokens([END, USER]) == len("<|user|>")
    assert marked[END]["special"] and marked[END]["lstrip"] and not marked[END]["normalized"]
    assert tokenizer.encode("a <|end|>").tolist() == [VOCABULARY["a"], END]


def test_described_tokens_take_the_place_of_the_older_file(tmp_path):
    """transformers 4.34 and later write `added_tokens_decoder`, and read no special_tokens_map.json beside it."""
    settings = FAST | {"added_tokens_decoder": {str(END): {"content": "<|end|>", "special": False}}}
    tokenizer = byte_folder(tmp_path, tokenizer_config=settings, special_tokens_map={"eos_token": "<|user|>"})
    assert tokenizer.special_ids == [] and tokenizer.encode("<|end|>").tolist() == [END]


def test_a_named_token_that_is_new_gets_the_next_id(tmp_path):
    tokenizer = byte_folder(tmp_path, tokenizer_config=FAST | {"pad_token": "[PAD]", "eos_token": None})
    assert tokenizer.encode("[PAD]").tolist() == tokenizer.special_ids == [len(VOCABULARY)]


class Counting:
    """A tokenizer of the library that counts how often tokens are added: each time, it makes its table of them anew."""

    def __init__(self, backend):
        self.backend, self.calls = backend, 0

    def __getattr__(self, name):
        return getattr(self.backend, name)

    def add_tokens(self, tokens):
        self.calls += 1
        return self.backend.add_tokens(tokens)


def test_thousands_of_tokens_are_added_at_once(tmp_path):
    """One by one, 4,000 took 9 s."""
    many = {f"<t{i}>": len(VOCABULARY) + i for i in range(4000)}
    settings = FAST | {"additional_special_tokens": list(many)[:2000], "pad_token": "<t1>"}
    write_json(tmp_path / "added_tokens.json", many)
    counting = Counting(Tokenizer(models.BPE(VOCABULARY, MERGES)))
    _add_tokens(counting, tmp_path, settings, "")
    assert counting.calls == 2
    assert [token.special for token in counting.get_added_tokens_decoder().values()].count(True) == 2000


def test_split_special_tokens_are_text(tmp_path):
    tokenizer = byte_folder(tmp_path, tokenizer_config=FAST | {"eos_token": "<|end|>", "split_special_tokens": True})
    assert END not in tokenizer.encode("<|end|>") and tokenizer.decode([END]) == ""


def test_a_template_may_name_every_special_token(tmp_path):
    every = "{{ bos_token }}|{{ eos_token }}|{{ cls_token }}|{{ image_token }}|{{ x_token }}|{{ pad_token is defined }}"
    settings = {"chat_template": every, "cls_token": "[C]", "image_token": "<i>", "pad_token": None,
                "extra_special_tokens": {"x_token": "<x>"}}  # fmt: skip
    write_json(tmp_path / "tokenizer_config.json", settings)
    write_json(tmp_path / "special_tokens_map.json", {"eos_token": {"content": "</s>", "special": True}})
    write_json(tmp_path / "config.json", {"model_type": "gpt2"})  # whose tokenizer's class has a first token
    found = ChatTemplate.from_folder(tmp_path)
    pytest.importorskip("jinja2", reason="needs the extra chat")
    assert found.render([{"role": "user", "content": "hi"}]) == "<|endoftext|>|</s>|[C]|<i>|<x>|False"


# ---- what a class of tokenizers reads of the settings ----------------------------------------------------------------

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "hello", "Hello", "cafe", "café", "中", "国", "中国"]


@pytest.mark.parametrize(
    ("made", "said", "text", "words"),
    [
        ({"lowercase": True}, {"do_lower_case": False}, "Hello", ["Hello"]),
        ({"lowercase": False}, {"do_lower_case": True}, "Hello", ["hello"]),
        ({"lowercase": True}, {"do_lower_case": True, "strip_accents": False}, "café", ["café"]),
        ({"lowercase": False}, {"do_lower_case": False, "strip_accents": True}, "café", ["cafe"]),
        ({"lowercase": True}, {"do_lower_case": True, "tokenize_chinese_chars": False}, "中国", ["中国"]),
        ({"lowercase": True, "handle_chinese_chars": False}, {}, "中国", ["中", "国"]),
        (
            {"lowercase": False},
            {"tokenizer_class": "PreTrainedTokenizerFast", "do_lower_case": True},
            "Hello",
            ["Hello"],
        ),
    ],
)
def test_berts_settings_go_before_its_normalizer(made, said, text, words, tmp_path):
    backend = Tokenizer(models.WordPiece({w: i for i, w in enumerate(WORDS)}, unk_token="[UNK]"))
    backend.normalizer, backend.pre_tokenizer = normalizers.BertNormalizer(**made), pre_tokenizers.BertPreTokenizer()
    backend.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    backend.save(str(tmp_path / "tokenizer.json"))
    write_json(tmp_path / "config.json", {"model_type": "bert"})
    write_json(tmp_path / "tokenizer_config.json", {"tokenizer_class": "BertTokenizer"} | said)
    ids = Ours.from_folder(tmp_path).encode(text)
    assert [WORDS[i] for i in ids] == ["[CLS]", *words, "[SEP]"]


PIECES = ["<unk>", "<s>", "</s>", "\u2581", "a", "b", "\u2581a"]


@pytest.mark.parametrize(
    ("said", "text", "pieces"),
    [
        ({}, "a</s>a", ["\u2581a", "</s>", "a"]),
        ({"legacy": True}, "a</s>a", ["\u2581a", "</s>", "\u2581a"]),
        ({"add_prefix_space": False}, "a a", ["a", "\u2581a"]),
        ({"add_prefix_space": True, "legacy": False}, "a</s>b", ["\u2581a", "</s>", "b"]),
        ({"tokenizer_class": "CodeLlamaTokenizer", "legacy": True}, "a</s>a", ["\u2581a", "</s>", "a"]),
        (FAST | {"add_prefix_space": False}, "a</s>a",
         ["\u2581a", "</s>", "\u2581a"]),
    ],
)  # fmt: skip
def test_llamas_settings_say_where_a_space_is_put(said, text, pieces, tmp_path):
    backend = Tokenizer(models.BPE({p: i for i, p in enumerate(PIECES)}, [("\u2581", "a")], unk_token="<unk>"))
    puts_space = [normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")]
    backend.normalizer, backend.decoder = normalizers.Sequence(puts_space), decoders.Metaspace()
    backend.add_special_tokens([AddedToken(p, special=True) for p in PIECES[:3]])
    backend.save(str(tmp_path / "tokenizer.json"))
    write_json(tmp_path / "config.json", {"model_type": "llama"})
    write_json(tmp_path / "tokenizer_config.json", {"tokenizer_class": "LlamaTokenizer"} | said)
    assert [PIECES[i] for i in Ours.from_folder(tmp_path).encode(text)] == pieces


@pytest.mark.parametrize(("model", "text"), [("WordPiece", "do n't ."), ("WordLevel", "don't.")])
def test_spaces_before_punctuation_go_where_the_settings_ask(model, text, tmp_path):
    words = {"[UNK]": 0, "do": 1, "n't": 2, ".": 3}
    backend = Tokenizer(getattr(models, model)(words, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    backend.save(str(tmp_path / "tokenizer.json"))
    write_json(tmp_path / "tokenizer_config.json", {"clean_up_tokenization_spaces": model == "WordLevel"})
    assert Ours.from_folder(tmp_path).decode([1, 2, 3]) == text


# ---- vocab.json and merges.txt ---------------------------------------------------------------------------------------


def two_files(folder, model_type, **settings):
    write_json(folder / "vocab.json", VOCABULARY | {"<|endoftext|>": len(VOCABULARY)})
    lines = "".join(f"{a} {b}\n" for a, b in MERGES)
    (folder / "merges.txt").write_text("#version: 0.2\n" + lines, encoding="utf-8")
    write_json(folder / "config.json", {"model_type": model_type})
    write_json(folder / "tokenizer_config.json", settings)
    return folder


@pytest.mark.parametrize(
    ("model_type", "said", "text", "tokens"),
    [
        ("qwen2", {}, "12\n\nA'S", ["1", "2", "ĊĊ", "A", "'S"]),
        ("gpt2", {"tokenizer_class": "Qwen2Tokenizer"}, "12", ["1", "2"]),
        ("qwen2", {"tokenizer_class": "GPT2Tokenizer"}, "12", ["1", "2"]),
        ("qwen2", {}, "e\u0301", ["Ã", "©"]),  # one character, after NFC
        ("gpt2", {}, "12\n\nA'S", ["12", "Ċ", "Ċ", "A", "'", "S"]),
        ("gpt2", {}, "e\u0301", ["e", "Ì", "ģ"]),
        ("gpt2", {"add_bos_token": True}, "12", ["<|endoftext|>", "12"]),
        ("qwen2", {"add_prefix_space": False, "eos_token": "<|end|>"}, " a<|end|>", ["Ġa", "<|end|>"]),
    ],
)
def test_two_files_are_split_as_their_family_does(model_type, said, text, tokens, tmp_path):
    tokenizer = Ours.from_folder(two_files(tmp_path, model_type, **said))
    names = {i: token for token, i in (VOCABULARY | {"<|endoftext|>": len(VOCABULARY)}).items()}
    assert [names[i] for i in tokenizer.encode(text)] == tokens


def test_a_frame_that_the_library_cannot_write_is_an_error(tmp_path):
    folder = two_files(tmp_path, "gpt2", add_bos_token=True, bos_token="a:b")
    with pytest.raises(
        CheckpointError, match=r"^a text cannot be framed by 'a:b' .*: add the model's tokenizer\.json$"
    ):
        Ours.from_folder(folder)


@pytest.mark.parametrize(
    ("model_type", "said"),
    [("llama", {}), ("llama", {"tokenizer_class": "GPT2Tokenizer"}), ("mistral", {}), ("gpt_bigcode", {}), ("t5", {}),
     ("gpt2", {"tokenizer_class": "PreTrainedTokenizerFast"})],
)  # fmt: skip
def test_two_files_that_do_not_say_how_to_split_are_refused(model_type, said, tmp_path):
    folder = two_files(tmp_path, model_type, **said)
    with pytest.raises(
        CheckpointError, match=r"do not say how a text of this model is split.*: add its tokenizer\.json$"
    ):
        Ours.from_folder(folder)


@pytest.mark.parametrize(
    ("said", "named"),
    [({}, None), ({"tokenizer_class": "BertTokenizerFast"}, None), ({"tokenizer_class": "DPRReaderTokenizer"}, None),
     ({"tokenizer_class": "BertJapaneseTokenizer"}, "a BertJapaneseTokenizer"), ({"tokenizer_class": "Own"}, "a Own")],
)  # fmt: skip
def test_a_list_of_words_is_not_all_that_other_classes_split_by(said, named, tmp_path):
    """Japanese needs a dictionary first; BERT's splits would give other tokens without a word."""
    (tmp_path / "vocab.txt").write_text("\n".join(["[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]", "a"]))
    write_json(tmp_path / "config.json", {"model_type": "bert"} | said)
    if named is None:
        assert Ours.from_folder(tmp_path).encode("a").tolist() == [3, 5, 1]
        return
    with pytest.raises(CheckpointError, match=rf"vocab\.txt is not all that {named} splits .* tokenizer\.json"):
        Ours.from_folder(tmp_path)
