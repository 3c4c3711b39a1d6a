"""The tokenizer against ids that transformers 5 gave for hard texts, from both layouts of a vocabulary.

tests/golden/make_tokenizer.py remakes the ids.
"""

import json
import unicodedata
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import minidecode as md
from minidecode.files.tokenizer import TextStream, Tokenizer

FOLDER = Path(__file__).parent / "tokenizer"
CASES = json.loads((FOLDER / "cases.json").read_text(encoding="utf-8"))
END = "<|endoftext|>"
TOKENIZERS = {layout: Tokenizer.from_folder(FOLDER / layout) for layout in ("one_file", "two_files")}

layouts = pytest.mark.parametrize("layout", list(TOKENIZERS))
cases = pytest.mark.parametrize("case", CASES, ids=lambda case: ascii(case["text"][:20]))
texts = st.text().filter(lambda text: END not in text)


@layouts
@cases
def test_ids(layout, case):
    ids = TOKENIZERS[layout].encode(case["text"])
    assert ids.dtype == "int64" and ids.tolist() == case["ids"]


@layouts
@cases
def test_decoding(layout, case):
    """The text comes back, the end of text left out; a character that is cut in half becomes U+FFFD."""
    tokenizer = TOKENIZERS[layout]
    assert tokenizer.decode(case["ids"]) == case["decoded"] == case["text"].replace(END, "")
    assert tokenizer.decode(case["ids"][:-1]) == case["decoded_but_last"]


@layouts
@settings(max_examples=300)
@given(texts)
@example("\u0000")
@example("e\u0301 \U0010ffff\u200d")
@example(" \n\t ")
def test_any_text_survives_the_round_trip(layout, text):
    ids = TOKENIZERS[layout].encode(text)
    assert TOKENIZERS[layout].decode(ids) == text
    assert all(0 <= i < 600 for i in ids)


@settings(max_examples=200)
@given(texts)
def test_both_layouts_give_the_same_ids(text):
    one, two = TOKENIZERS.values()
    assert one.encode(text).tolist() == two.encode(text).tolist()


@given(st.lists(st.integers(0, 599), max_size=40))
def test_any_ids_make_a_text_and_a_stream_shows_all_of_it(ids):
    """Whatever a model says, the pieces shown one by one add up to the whole."""
    tokenizer = TOKENIZERS["one_file"]
    stream = TextStream(tokenizer)
    pieces = [stream.push(i) for i in ids]
    assert "".join(pieces) + stream.finish() == tokenizer.decode(ids)


@layouts
@pytest.mark.parametrize("text", ["\ud800", "a\udfffb", "\udc80"])
def test_half_a_surrogate_pair_is_refused(layout, text):
    with pytest.raises(md.InputError, match="not valid UTF-8"):
        TOKENIZERS[layout].encode(text)


def test_the_end_of_text_is_one_token():
    for tokenizer in TOKENIZERS.values():
        assert tokenizer.token_to_id(END) == 599
        assert tokenizer.encode(END).tolist() == [599]


def test_the_texts_are_hard():
    """They hold characters of at least 20 general categories of Unicode, from 1 to 4 bytes."""
    characters = set("".join(case["text"] for case in CASES))
    assert len(CASES) >= 100
    assert len({unicodedata.category(c) for c in characters}) >= 20
    assert {len(c.encode("utf-8")) for c in characters} == {1, 2, 3, 4}
