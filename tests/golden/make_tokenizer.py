"""Remakes tests/golden/tokenizer: a small byte-level BPE vocabulary, hard texts, and the ids transformers 5 gives them.

    pip install '.[oracle]'
    python tests/golden/make_tokenizer.py
    python tests/golden_files.py tokenizer

GPT-2's own vocabulary takes 1.4 MB, so a vocabulary of 600 tokens is trained here on TRAINING. It is written in both
layouts, one_file/tokenizer.json and two_files/{vocab.json, merges.txt}; cases.json holds the texts and their ids.
tests/oracle compares the same texts under GPT-2's own vocabulary, if it is told where that lies.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import GPT2Tokenizer

OUT = Path(__file__).parent / "tokenizer"
VOCABULARY = 600
END = "<|endoftext|>"

TRAINING = """
The model reads a text, one token after another, and says which token may come next. Some tokens are whole words, and
others are parts of words; a space belongs to the word that follows it. There's no word that can't be written: what the
vocabulary doesn't know is spelled in bytes. I'm sure they've seen it, we'll see it, you're seeing it, he'd seen it.
In 1999 and in 2024 there were 12 months of 28, 30 or 31 days, and 365 days of 24 hours in most years.
    for token in tokens:
        if token == end:
            return text
Der Übersetzer grüßt die Köche. L'été dernier, le garçon a mangé des crêpes. El niño come mañana.
Привет, мир. Это небольшой текст. これは短い文章です。这是一个简短的句子。هذا نص قصير باللغة العربية
The quick brown fox jumps over the lazy dog, and the lazy dog sleeps through the whole of the afternoon.
""".strip()

HARD_TEXTS = [
    "", " ", "  ", "   a", "a   ", "   ", "a b", " a b ", "a  b   c    d", "\n", "\n\n", " \n ", "a\nb", "a\n\n\nb",
    "\t", "\t\tif x:\n\t\t\treturn", "\r\n", "a\r\nb\rc", "\u000b\u000c", "\u00a0", "a\u00a0b",
    "\u2003\u3000x\u200b",
    "\u2028\u2029", "\u0000", "a\u0000b\u0000\u0000", "\u0001\u001f\u007f\u0080\u009f", "\ufeffBOM first", "\ufffd",
    "Hello, world!", "The quick brown fox.", "don't can't I'm they've we'll you're he'd it's", "DON'T I'M THEY'VE",
    "'s 't 're 've 'm 'll 'd", "'", "''", "don\u2019t", "'S'T", "it's' 'tis",
    "0", "00", "007", "1234567890", "3.14159", "1,000,000", "x86_64", "2024-01-31T23:59:59Z", "\u0661\u0662\u0663",
    "\u00bd\u00b2",
    "...", "?!?!?!", "!@#$%^&*()_+-=[]{}|;':\",./<>?", "a.b.c", "http://example.org/a?b=c&d=%20#e", "\\n\\t\\0",
    END, f"{END}{END}", f"a{END}b", f"a {END} b", f" {END} ", f"{END}\n", "<|endoftext", "|endoftext|>",
    "<|ENDOFTEXT|>",
    "< |endoftext|>", "<|endoftext|", "<<|endoftext|>>", "<|startoftext|>", "<|endoftext|><|endof",
    "\u0000<|endoftext|>\u0000",
    "é", "e\u0301", "\u0301", "a\u0300\u0301\u0302\u0303", "Z\u0351\u036b\u0343a\u0329l\u0348g\u0317o\u0320",
    "ñ n\u0303", "ﬁ ﬂ", "ﷺ", "K\u212a Å\u212b",
    "\u0130\u0131iI", "ß ẞ SS", "\u01c5", "ΣσςΣ", "क्षत्रिय", "நி", "ที่", "각 \u1100\u1161\u11a8",
    "日本語のテキスト", "中文文本,没有空格", "한국어 텍스트", "日本 中国 한국", "ｆｕｌｌ ｗｉｄｔｈ １２３",
    "𠮷野家", "㍻",
    "العربية", "مرحبا بالعالم", "עברית שלום", "\u202eabc\u202c", "a\u200fb\u200e",
    "\u0627\u0644\u0633\u0651\u0644\u0627\u0645",
    "Привет, мир", "Ελληνικά", "հայերեն", "ქართული", "አማርኛ", "ᚠᛇᚻ",
    "😀", "😀😀😀", "a😀b", "👍🏽", "👩\u200d👩\u200d👧\u200d👦", "👨🏿\u200d🚀", "🏳\ufe0f\u200d🌈", "🇩🇪🇫🇷",
    "1\ufe0f\u20e3", "❤\ufe0f", "☺", "🧑🏻\u200d🤝\u200d🧑🏿",
    "𝔘𝔫𝔦𝔠𝔬𝔡𝔢", "𝟘𝟙𝟚", "𐍈", "𒀀", "\U0001f9ff", "\U0010ffff", "\U000e0041", "\ue000", "\uf8ff",
    "\U000f0000\U0010fffd", "\uffff", "\ufdd0",
    "ĠĊ", "Ġthe", "Â£ â€™", "£100", "€5", "¥", "naïve café", "a\u00adb",
    "    for i in range(10):\n        print(i)\n", "def f(x):\n\treturn x  # y\n\n\n",
    "{\"a\": [1, 2, {\"b\": null}]}",
    "word " * 20, "a" * 100, " " * 64, "\n" * 33, "ab" * 50, "😀" * 20, "The the THE tHe",
    "supercalifragilisticexpialidocious",
]  # fmt: skip


def train() -> Tokenizer:
    """A byte-level BPE as GPT-2's: 256 bytes, merges, and the end of text as the last token."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY - 1, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()), show_progress=False
    )
    tokenizer.train_from_iterator([TRAINING], trainer)
    return tokenizer


def write_two_files(tokenizer: Tokenizer, folder: Path) -> None:
    """vocab.json, in which the end of text comes last, and merges.txt."""
    folder.mkdir(parents=True)
    tokenizer.model.save(str(folder))
    vocab = json.loads((folder / "vocab.json").read_text(encoding="utf-8"))
    vocab[END] = len(vocab)
    (folder / "vocab.json").write_text(json.dumps(vocab, indent=0) + "\n", encoding="utf-8")


def write_one_file(two_files: Path, folder: Path) -> None:
    """tokenizer.json, as transformers writes it."""
    folder.mkdir(parents=True)
    GPT2Tokenizer.from_pretrained(two_files).backend_tokenizer.save(str(folder / "tokenizer.json"), pretty=False)


def case(oracle: GPT2Tokenizer, text: str) -> dict:
    """A text, its ids, and the text again: from all ids, and without the last one, which may split a character."""
    ids = oracle(text)["input_ids"]
    return {
        "text": text,
        "ids": ids,
        "decoded": oracle.decode(ids, skip_special_tokens=True),
        "decoded_but_last": oracle.decode(ids[:-1], skip_special_tokens=True),
    }


def main() -> None:
    shutil.rmtree(OUT, ignore_errors=True)
    one, two = OUT / "one_file", OUT / "two_files"
    write_two_files(train(), two)
    write_one_file(two, one)
    cases = [case(GPT2Tokenizer.from_pretrained(two), text) for text in HARD_TEXTS]
    if cases != [case(GPT2Tokenizer.from_pretrained(one), text) for text in HARD_TEXTS]:
        raise SystemExit("transformers reads the two layouts differently")
    lines = ",\n".join(json.dumps(c) for c in cases)
    (OUT / "cases.json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    print(f"{len(cases)} texts")


if __name__ == "__main__":
    main()
