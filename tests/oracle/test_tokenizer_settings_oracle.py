"""Random tokenizer folders of every kind and class: ours and transformers' AutoTokenizer read the same tokens.

Left out is what we do otherwise on purpose: a GPT2Tokenizer keeps the splits of its tokenizer.json, and a token that
tokenizer.json marks as special stays so, whatever another file says of it. Of a file of ids alone, transformers takes
BERT's own tokens and those with a role of the model's own for text, which is lowered.
"""

import random

import pytest
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from toy_folder import write_json

from minidecode.files.gguf_tokenizer import QWEN2
from minidecode.files.tokenizer import Tokenizer as Ours

transformers = pytest.importorskip("transformers", reason="needs the extra oracle")
transformers.logging.set_verbosity_error()

BYTES = sorted(pre_tokenizers.ByteLevel.alphabet())
BYTE_MERGES = [("t", "h"), ("th", "e"), ("Ġ", "the"), ("1", "2"), ("Ġ", "a"), ("Ċ", "Ċ"), ("'", "s"), ("Ã", "©")]
SPECIAL = ["<s>", "</s>", "<unk>", "<pad>", "<mask>", "<|endoftext|>", "<|end|>", "<|user|>", "[CLS]", "[SEP]", "[PAD]"]
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "hello", "Hello", "##lo", "cafe", "café", "中", "国", "a", "the",
         "12", ".", "!", "'", "s", "<", ">", "|", "end", "user", "<|end|>", "<|user|>", "<s>"]  # fmt: skip
TEXTS = ["Hello the café 12!", "a<|end|> b", " the  the 12\n\n12 a's", "中国 Hello\u0301", "", " ", "<s> <s>\u2581a",
         "<s>a</s> the<mask> a [MASK]", "a <|user|>the <|endoftext|>a", "[CLS]a[SEP]b <pad>"]  # fmt: skip
CLASSES = {
    "byte": [None, "GPT2Tokenizer", "GPT2TokenizerFast", "BartTokenizer", "RobertaTokenizer", "LlamaTokenizer",
             "PreTrainedTokenizerFast", "TokenizersBackend"],
    "qwen2": [None, "Qwen2Tokenizer", "GPT2Tokenizer", "PreTrainedTokenizerFast"],
    "llama": [None, "LlamaTokenizer", "LlamaTokenizerFast", "PreTrainedTokenizerFast"],
    "bert": [None, "BertTokenizer", "BertTokenizerFast", "DistilBertTokenizer", "PreTrainedTokenizerFast"],
}  # fmt: skip
FAMILIES = {"byte": ["gpt2", "bart", "llama", "gpt_bigcode"], "qwen2": ["qwen2"], "llama": ["llama", "mistral"],
            "bert": ["bert"]}  # fmt: skip


def backend_of(kind: str, rng: random.Random) -> Tokenizer:
    if kind == "bert":
        made = Tokenizer(models.WordPiece({w: i for i, w in enumerate(WORDS)}, unk_token="[UNK]"))
        made.normalizer = normalizers.BertNormalizer(True, rng.random() < 0.5, None, rng.random() < 0.5)
        made.pre_tokenizer, made.decoder = pre_tokenizers.BertPreTokenizer(), decoders.WordPiece()
        if rng.random() < 0.6:
            made.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
        return made
    if kind == "llama":
        pieces = [*SPECIAL[2::-1], *(f"<0x{i:02X}>" for i in range(256)), "\u2581", *"abcdehlost12", *SPECIAL[3:], "th"]
        vocabulary = {piece: i for i, piece in enumerate([*pieces, "\u2581a"])}
        merges = [("\u2581", "a"), ("t", "h")]
        made = Tokenizer(models.BPE(vocabulary, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
        puts_space = [normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")]
        made.normalizer = normalizers.Sequence(puts_space)
        joins = [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
        made.decoder = decoders.Sequence(joins)
    else:
        tokens = [*BYTES, *(a + b for a, b in BYTE_MERGES), *SPECIAL]
        made = Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, BYTE_MERGES))
        made.pre_tokenizer, made.decoder = pre_tokenizers.ByteLevel(rng.random() < 0.5), decoders.ByteLevel()
        if kind == "qwen2":
            words, apart = (
                pre_tokenizers.Split(Regex(QWEN2), "isolated"),
                pre_tokenizers.ByteLevel(False, use_regex=False),
            )
            made.normalizer, made.pre_tokenizer = normalizers.NFC(), pre_tokenizers.Sequence([words, apart])
    if rng.random() < 0.5:
        first = ("<s>", made.token_to_id("<s>"))
        made.post_processor = processors.TemplateProcessing("<s> $A", "<s> $A <s> $B", [first])
    return made


def flags(rng: random.Random) -> dict[str, bool]:
    return {name: True for name in ("lstrip", "rstrip", "single_word") if rng.random() < 0.2}


def write_folder(folder, rng: random.Random) -> None:
    """tokenizer.json and the settings files, each with some of what it may say."""
    kind = rng.choice(list(CLASSES))
    named, known = (
        rng.choice(CLASSES[kind]),
        [t for t in (WORDS if kind == "bert" else SPECIAL) if len(t) > 2 and t[0] in "<["],
    )
    backend = backend_of(kind, rng)
    for token in rng.sample(known, rng.randint(0, 3)):
        described = AddedToken(token, special=rng.random() < 0.7, normalized=False, **flags(rng))
        (backend.add_special_tokens if described.special else backend.add_tokens)([described])
    backend.save(str(folder / "tokenizer.json"))
    ids, there = backend.get_vocab(), backend.get_added_tokens_decoder()
    said = {} if named is None else {"tokenizer_class": named}
    said |= {f"{role}_token": rng.choice(known) for role in ("bos", "eos", "sep", "pad", "cls") if rng.random() < 0.25}
    switches = ["legacy", "do_lower_case", "tokenize_chinese_chars", "clean_up_tokenization_spaces", "add_bos_token"]
    switches += [] if kind == "qwen2" else ["add_prefix_space"]
    said |= {name: rng.random() < 0.5 for name in switches if rng.random() < 0.3}
    if rng.random() < 0.2:
        said["additional_special_tokens"] = rng.sample(known, 2)
    if rng.random() < 0.2:
        said |= {"image_token": rng.choice(known), "pad_token": "<new>"}
    if rng.random() < 0.2:  # as newer versions write it: all of tokenizer.json's, and more
        said["added_tokens_decoder"] = {str(i): {"content": t.content, "special": t.special} for i, t in there.items()}
        more = [t for t in rng.sample(known, 2) if ids[t] not in there]
        said["added_tokens_decoder"] |= {str(ids[t]): {"content": t, "special": True} | flags(rng) for t in more}
    elif rng.random() < 0.3 and kind != "bert" and "image_token" not in said:
        write_json(folder / "added_tokens.json", {token: ids[token] for token in rng.sample(known, 2)})
    if rng.random() < 0.3:
        described = {"content": rng.choice(known), "normalized": False} | flags(rng)
        write_json(folder / "special_tokens_map.json", {"eos_token": described, "pad_token": rng.choice(known)})
    write_json(folder / "tokenizer_config.json", said)
    write_json(folder / "config.json", {"model_type": rng.choice(FAMILIES[kind])})


@pytest.mark.parametrize("seed", range(40))
def test_random_folders(seed, tmp_path):
    rng = random.Random(seed)
    for number in range(5):
        folder = tmp_path / str(number)
        folder.mkdir()
        write_folder(folder, rng)
        ours, theirs = Ours.from_folder(folder), transformers.AutoTokenizer.from_pretrained(folder)
        said = {
            path.name: path.read_text(encoding="utf-8") for path in folder.iterdir() if path.name != "tokenizer.json"
        }
        for text in TEXTS:
            wanted = theirs(text)["input_ids"]
            assert ours.encode(text).tolist() == wanted, (text, said)
            decoded = theirs.decode(wanted, skip_special_tokens=True)
            assert ours.decode(wanted) == decoded or "[cls]" in decoded, (text, said)  # its own [CLS], lowered
