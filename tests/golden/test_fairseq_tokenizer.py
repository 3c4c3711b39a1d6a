"""Dictionaries and BPE codes: pieces as subword-nmt 0.3.8 made them, lines that are refused, FSMT's vocabularies."""

import json
from pathlib import Path

import numpy as np
import pytest

import minidecode as md
from minidecode.files.fairseq_tokenizer import ENDS, Codes, Dictionary, FairseqTokenizer
from minidecode.files.tokenizer import TextStream

GOLDEN = json.loads((Path(__file__).parent / "fairseq_models" / "subword_nmt.json").read_text(encoding="utf-8"))


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("codes", "lines", "pieces"),
    [("codes", "lines", "pieces"), ("old_codes", "lines", "old_pieces"), ("odd_codes", "odd_lines", "odd_pieces")],
)  # fmt: skip
def test_pieces_are_subword_nmts(tmp_path, codes, lines, pieces):
    """Version 0.2, version 0.1 (the end of a word is a symbol of its own), and codes in an odd order."""
    read = Codes.from_file(write(tmp_path / "codes", GOLDEN[codes]))
    for line, expected in zip(GOLDEN[lines], GOLDEN[pieces], strict=True):
        words = [word for word in line.strip("\r\n ").split(" ") if word]
        assert [piece for word in words for piece in read.split_word(word)] == [p for p in expected.split(" ") if p]


def test_codes_with_counts_are_read_as_version_2(tmp_path):
    """fastBPE's files, and FSMT's merges.txt."""
    body = GOLDEN["codes"].split("\n", 1)[1]
    counted = "".join(f"{line} {9 + i}\n" for i, line in enumerate(body.splitlines()))
    expected = Codes.from_file(write(tmp_path / "codes", GOLDEN["codes"]))
    for name in ("bpecodes", "merges.txt"):
        found = Codes.from_file(write(tmp_path / name, counted))
        assert (found.rank, found.ends_apart) == (expected.rank, False)


@pytest.fixture
def tokenizer(tmp_path) -> FairseqTokenizer:
    source = Dictionary.from_file(
        write(tmp_path / "dict.de.txt", "lern@@ 9\nen 8\nklein 7\nzeit 3\nmadeupword0000 0\n")
    )
    target = Dictionary.from_file(write(tmp_path / "dict.en.txt", "lear@@ 9\nn 8\nsmall 7\n"))
    return FairseqTokenizer(source, target, Codes.from_file(write(tmp_path / "bpecodes", GOLDEN["codes"])))


def test_a_text_goes_in_pieces_and_comes_out_joined(tokenizer):
    assert tokenizer.encode("  lernen  klein \n").tolist() == [4, 5, 6, 2]
    assert tokenizer.encode("lernen klein").tolist() == [4, 5, 6, 2]
    assert tokenizer.encode("lernen klein", add_special_tokens=False).tolist() == [4, 5, 6]
    assert tokenizer.encode("").tolist() == [2] and tokenizer.encode("zebra")[0] == 3
    assert tokenizer.decode([0, 4, 5, 3, 6, 2, 1]) == "learn <unk> small"
    assert tokenizer.decode([4, 2], keep_special=True) == "lear</s>"
    assert tokenizer.decode(np.array([4])) == "lear" and tokenizer.decode([]) == ""
    assert tokenizer.token_to_id("small") == 6 and tokenizer.token_to_id("klein") is None


def test_a_text_grows_as_a_stream(tokenizer):
    stream = TextStream(tokenizer)
    said = [stream.push(i) for i in (4, 5, 6)] + [stream.finish()]
    assert said == ["lear", "n", " small", ""]


@pytest.mark.parametrize(
    ("lines", "message"),
    [("the 3\nthe 2\n", r"line 2 has 'the' again: add #fairseq:overwrite"),
     ("the\n", r"line 1 is 'the', not a word, a space and its count"),
     ("the 3\n\nof 2\n", r"line 2 is '', not a word"),
     ("the many\n", r"line 1 is 'the many', not a word"),
     ("the #fairseq:overwrite\n", r"line 1 is 'the #fairseq:overwrite', not a word")],
)  # fmt: skip
def test_a_line_that_no_dictionary_has(tmp_path, lines, message):
    with pytest.raises(md.CheckpointError, match=message):
        Dictionary.from_file(write(tmp_path / "dict.de.txt", lines))


def test_a_word_may_hold_spaces_and_be_there_twice(tmp_path):
    """A line is split at its last space; an overwritten word has two ids, and a text gets the second."""
    d = Dictionary.from_file(
        write(tmp_path / "dict.de.txt", "a b 3\nthe 2\nthe 2 #fairseq:overwrite\n<unk> 1 #fairseq:overwrite\n")
    )
    assert d.words[4:] == ["a b", "the", "the", "<unk>"] and d.index["the"] == 6 and len(d) == 8


def test_files_that_are_no_text(tmp_path):
    (tmp_path / "dict.de.txt").write_bytes(b"\xff\xfe 3\n")
    with pytest.raises(md.CheckpointError, match="cannot be read as text in UTF-8"):
        Dictionary.from_file(tmp_path / "dict.de.txt")
    with pytest.raises(md.CheckpointError, match="'one' is not two pieces to merge"):
        Codes.from_file(write(tmp_path / "codes", "#version: 0.2\na b\none\n"))


def test_words_that_are_too_long(tokenizer):
    """Merging takes a time that grows with the square."""
    with pytest.raises(md.InputError, match="a word of 2,001 characters is too long for BPE: at most 2,000 are"):
        tokenizer.encode("x" * 2001)
    with pytest.raises(md.InputError, match="not valid UTF-8"):
        tokenizer.encode("a\ud800b")


# ---- FSMT ------------------------------------------------------------------------------------------------------------


def test_fsmts_vocabularies_are_the_same_words(tmp_path):
    pieces = {"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3, "lern": 4, f"en{ENDS}": 5, f"klein{ENDS}": 6}
    d = Dictionary.from_vocabulary(write(tmp_path / "vocab-src.json", json.dumps(pieces)))
    assert d.words == ["<s>", "<pad>", "</s>", "<unk>", "lern@@", "en", "klein"]
    pieces["klein</w>"] = 9
    with pytest.raises(md.CheckpointError, match="the ids are not 0 to 6, each once"):
        Dictionary.from_vocabulary(write(tmp_path / "vocab-src.json", json.dumps(pieces)))
    with pytest.raises(md.CheckpointError, match=r"ids 0 to 3 are \['<pad>'"):
        Dictionary.from_vocabulary(write(tmp_path / "vocab-src.json", json.dumps({"<pad>": 0})))
