"""500 damaged GGUF files: one line each, with little work and little memory."""

from __future__ import annotations

import random
import shutil
import struct

import numpy as np
import pytest
from gguf_writer import as_gguf, joined, llama_settings, llama_tensors, pieces, text_pieces
from taken_bytes import peak_of

from minidecode import CheckpointError
from minidecode.files import gguf_file
from minidecode.files.gguf_folder import convert_gguf

pytest.importorskip("gguf", reason="needs the extra gguf")

RIGHT = pieces(llama_settings(), as_gguf(llama_tensors()))
FILES, CHUNK = 500, 20
LARGE = [0, 1, 2, 3, 31, 255, 2**16, 2**31 - 1, 2**32 - 1, 2**40, 2**61, 2**62, 2**63 - 1, 2**63, 2**64 - 1]


def where(kind: str) -> list[int]:
    return [i for i, (name, _) in enumerate(RIGHT) if name == kind]


def number(size: int, value: int) -> bytes:
    return (value % 2 ** (8 * size)).to_bytes(size, "little")


def replaced(rng: random.Random, kind: str) -> bytes:
    """One or two of the numbers of that kind are others."""
    file = list(RIGHT)
    for i in rng.sample(where(kind), min(len(where(kind)), rng.choice([1, 1, 2]))):
        old = int.from_bytes(file[i][1][:8], "little")
        value = rng.choice([*LARGE, old + 1, old - 1, old + 32, 2 * old, old ^ (1 << rng.randrange(8))])
        file[i] = kind, number(len(file[i][1]), value)
    return joined(file)


def cut(rng: random.Random) -> bytes:
    data = joined(RIGHT)
    head = len(data) - len(RIGHT[-1][1])
    return data[: rng.choice([rng.randrange(40), rng.randrange(head), rng.randrange(len(data))])]


def bits(rng: random.Random) -> bytes:
    """Bits of the header are others."""
    data = bytearray(joined(RIGHT))
    head = len(data) - len(RIGHT[-1][1])
    for _ in range(rng.choice([1, 1, 2, 5, 20])):
        data[rng.randrange(head)] ^= 1 << rng.randrange(8)
    return bytes(data)


def texts(rng: random.Random) -> bytes:
    """A key, a name or a token is another: not UTF-8, empty, with a line break, or that of another."""
    file, i = list(RIGHT), rng.choice(where("text"))
    others = [b"", b"\xff\xfe", b"a\nb", b"\0", file[rng.choice(where("text"))][1], b"x" * 70000]
    file[i] = "text", rng.choice(others)
    file[i - 1] = "length", struct.pack("<Q", len(file[i][1]))
    return joined(file)


def moved(rng: random.Random) -> bytes:
    """Pieces are left out, doubled or exchanged."""
    file = list(RIGHT)
    i, j = rng.randrange(len(file) - 1), rng.randrange(len(file) - 1)
    match rng.randrange(3):
        case 0:
            del file[i]
        case 1:
            file.insert(i, file[j])
        case _:
            file[i], file[j] = file[j], file[i]
    return joined(file)


def nested(rng: random.Random) -> bytes:
    """Lists in lists, one in the other without an end, or a list that says how large it is and is not."""
    depth = rng.choice([1, 2, 100, 5000])
    value = struct.pack("<IIQ", 9, 9, 1) + struct.pack("<IQ", 9, 1) * depth
    if rng.random() < 0.5:
        kind = rng.choice([0, 4, 7, 8, 10, 12, 13, 255])
        value = struct.pack("<IIQ", 9, kind, rng.choice(LARGE[4:])) + bytes(rng.randrange(2000))
    setting = [*text_pieces("more"), ("value", value)]
    file = list(RIGHT)
    count = int.from_bytes(file[3][1], "little")
    file[3] = "count", struct.pack("<Q", count + 1)
    return joined([*file[:4], *setting, *file[4:]])


def shared_bytes(rng: random.Random) -> bytes:
    """A tensor that lies where another one lies, or within the header."""
    file, (i, j) = list(RIGHT), rng.sample(where("offset"), 2)
    file[i] = file[j] if rng.random() < 0.7 else ("offset", struct.pack("<q", -32 * rng.randrange(1, 9)))
    return joined(file)


KINDS = [
    *((lambda rng, kind=kind: replaced(rng, kind)) for kind in
      ("magic", "version", "count", "length", "type", "type", "number", "numbers", "dimensions", "shape", "offset")),
    cut, cut, bits, bits, texts, moved, nested, shared_bytes,
]  # fmt: skip


def damaged(i: int) -> bytes:
    return KINDS[i % len(KINDS)](random.Random(i))


@pytest.fixture
def pieces_taken(monkeypatch):
    """How often a header went on to its next piece: what a file that says that it is large makes more of."""
    taken, take = [0], gguf_file._Header.take_bytes

    def counting(self, count, what):
        taken[0] += 1
        return take(self, count, what)

    monkeypatch.setattr(gguf_file._Header, "take_bytes", counting)
    return taken


@pytest.mark.parametrize("first", range(0, FILES, CHUNK))
def test_a_damaged_file_is_refused_in_one_line_or_harmless(tmp_path, first, pieces_taken):
    """Some damage cannot be seen: another number in a setting that may have it. Then a whole folder is written."""
    refused, path, out = 0, tmp_path / "a.gguf", tmp_path / "out"
    convert_gguf_once(tmp_path)  # what is imported and made once is no part of a file's memory
    most = 2 * pieces_taken[0]
    for i in range(first, first + CHUNK):
        path.write_bytes(damaged(i))
        is_refused, peak = peak_of(lambda i=i: refuses(path, out, pieces_taken, i), 2**26)  # 64 MB
        refused += is_refused
        assert pieces_taken[0] <= most, i
        assert peak < 2**26, (i, peak)
    assert refused > CHUNK // 2


def refuses(path, out, pieces_taken, i) -> bool:
    """Whether that file is refused, in one line. What is written instead is deleted."""
    pieces_taken[0] = 0
    try:
        with np.errstate(all="ignore"):
            convert_gguf(path, out)
    except CheckpointError as error:
        message = str(error)
        assert "\n" not in message and len(message) < 400 and message.startswith(str(path)), (i, message)
        assert not out.exists(), i
        return True
    assert (out / "model.safetensors").exists(), i
    shutil.rmtree(out)
    return False


def convert_gguf_once(folder) -> None:
    (folder / "right.gguf").write_bytes(joined(RIGHT))
    convert_gguf(folder / "right.gguf", folder / "right")


def test_a_large_file_that_is_all_texts_is_refused_at_once(tmp_path, pieces_taken):
    """60 MB of empty texts would be 7 million: the list is refused by its count, before it is read."""
    head = b"GGUF" + struct.pack("<IQQ", 3, 0, 1)
    key = b"".join(piece for _, piece in text_pieces("many"))
    with open(tmp_path / "a.gguf", "wb") as file:
        file.write(head + key + struct.pack("<IIQ", 9, 8, 7 * 2**20))
        file.truncate(60 * 2**20)
    assert peak_of_refusal(tmp_path, "many says that it has 7340032 texts", 2**24) < 2**24
    assert pieces_taken[0] < 20


def peak_of_refusal(folder, says: str, limit: int) -> int:
    def refused():
        with pytest.raises(CheckpointError, match=says):
            convert_gguf(folder / "a.gguf", folder / "out")

    return peak_of(refused, limit)[1]


WIDE = "\N{GRINNING FACE}"  # with it, each letter of a text takes four bytes in memory


def setting(key: str, value: bytes) -> bytes:
    return b"".join(piece for _, piece in text_pieces(key)) + value


def text_setting(key: str, size: int) -> bytes:
    text = b"x" * size + WIDE.encode()
    return setting(key, struct.pack("<IQ", 8, len(text)) + text)


def many_texts(size: int) -> bytes:
    text = WIDE.encode() + b"x" * size
    return setting("many", struct.pack("<IIQ", 9, 8, 2**19) + (struct.pack("<Q", len(text)) + text) * 2**19)


@pytest.mark.parametrize(
    ("settings", "says"),
    [([text_setting("a", 2**26)], "a at byte .* has 67,108,868 bytes, and 4,194,304 are allowed; use the file of"),
     ([text_setting(f"t{i}", 2**22 - 4) for i in range(8)], "its header takes more than 25,165,824 bytes, with t5 at"),
     ([setting("a", struct.pack("<IIQ", 9, 0, 2**25) + bytes(2**25))], "its header takes more than 25,165,824 bytes"),
     ([many_texts(110)], "its header takes more than 25,165,824 bytes, with many at"),
     ([many_texts(30)], "its architecture is None")],
    ids=["text", "texts", "numbers", "list", "largest-list"],
)  # fmt: skip
def test_settings_that_would_fill_the_memory_are_refused(tmp_path, settings, says):
    (tmp_path / "a.gguf").write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, len(settings)) + b"".join(settings))
    most = 3 * 2**26
    assert peak_of_refusal(tmp_path, says, most) < most  # the package gguf and its like take about 50 MB more


def test_lists_of_lists_are_read_as_the_format_allows_them(tmp_path):
    """They are of no use here, and no reason to refuse a file; lists without an end are."""
    numbers, head = struct.pack("<IQ", 4, 2) + struct.pack("<II", 1, 2), struct.pack("<IQQ", 3, 0, 1)
    (tmp_path / "a.gguf").write_bytes(b"GGUF" + head + setting("a", struct.pack("<IIQ", 9, 9, 2) + numbers * 2))
    assert [part.tolist() for part in gguf_file.read_gguf(tmp_path / "a.gguf").settings["a"]] == [[1, 2], [1, 2]]
    deep = setting("a", struct.pack("<I", 9) + struct.pack("<IQ", 9, 1) * 5000 + numbers)
    (tmp_path / "b.gguf").write_bytes(b"GGUF" + head + deep)
    with pytest.raises(CheckpointError, match=r"a has lists more than 8 deep; use the file"):
        gguf_file.read_gguf(tmp_path / "b.gguf")


@pytest.mark.parametrize("kind", ["folder", "pipe", "missing", "empty"])
def test_what_is_no_file(tmp_path, kind):
    import os

    path = tmp_path / "a.gguf"
    if kind == "folder":
        path.mkdir()
    elif kind == "empty":
        path.touch()
    elif kind == "pipe":
        if not hasattr(os, "mkfifo"):
            pytest.skip("no pipes with names here")
        os.mkfifo(path)
    with pytest.raises(CheckpointError) as caught:
        convert_gguf(path, tmp_path / "out")
    assert "\n" not in str(caught.value)
