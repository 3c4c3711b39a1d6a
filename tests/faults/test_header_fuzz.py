"""Damaged safetensors files at random: the reader refuses them, or reads numbers that the file could hold."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from taken_bytes import peak_of
from toy_folder import entries, pack

from minidecode import CheckpointError
from minidecode.files.checkpoint import read_header
from minidecode.files.stored import STORED_DTYPES

NUMBERS = {name: np.arange(24.0) for name in ("wte.weight", "h.0.ln_1.bias", "h.0.attn.c_attn.weight", "ln_f.bias")}
NUMBERS["wte.weight"] = NUMBERS["wte.weight"].reshape(2, 3, 4)
HEADER, DATA = entries(NUMBERS, dict(zip(NUMBERS, ("F32", "F16", "BF16", "F64"), strict=True)))
HEADER["__metadata__"] = {"format": "pt"}
VALID = pack(HEADER, DATA)
TEXT = json.dumps(HEADER)
DIGITS = [m.span() for m in re.finditer(r"\d+", TEXT)]
VALUES = [re.escape(json.dumps(v)) for v in ("F32", "F16", "BF16", "F64", "wte.weight", "ln_f.bias")]
QUOTED = [m.span() for m in re.finditer("|".join(VALUES), TEXT)]

large = st.sampled_from([0, 1, 2**31, 2**32, 2**62, 2**63 - 1, 2**63, 2**64 - 1, 2**64, 10**30])
position = st.integers(0, len(VALID) - 1)


@st.composite
def numbers_replaced(draw) -> bytes:
    """Other numbers in shapes and offsets; the header's length stays right, so that they are reached."""
    text = TEXT
    for start, end in sorted(draw(st.lists(st.sampled_from(DIGITS), min_size=1, max_size=3, unique=True)))[::-1]:
        text = text[:start] + str(draw(large | st.integers(-50, 200))) + text[end:]
    return pack(text.encode(), DATA)


@st.composite
def values_replaced(draw) -> bytes:
    """Other dtypes and names, right and wrong ones."""
    start, end = draw(st.sampled_from(QUOTED))
    value = draw(st.sampled_from(["F64", "F32", "BF16", "I8", "F8_E4M3", "BOOL", "", "wte.weight", None, [], {}, 7]))
    return pack((TEXT[:start] + json.dumps(value) + TEXT[end:]).encode(), DATA)


@st.composite
def bits_flipped(draw) -> bytes:
    damaged = bytearray(VALID)
    for at, bit in draw(st.lists(st.tuples(position, st.integers(0, 7)), min_size=1, max_size=4)):
        damaged[at] ^= 1 << bit
    return bytes(damaged)


@st.composite
def spliced(draw) -> bytes:
    """A piece of the file replaced by other bytes, or by another piece of it."""
    start, end = sorted([draw(position), draw(position)])
    at, count = draw(position), draw(st.integers(0, 40))
    return VALID[:start] + draw(st.binary(max_size=20) | st.just(VALID[at : at + count])) + VALID[end:]


truncated = position.map(lambda end: VALID[:end])
length_changed = (large | st.integers(0, len(VALID) + 9)).map(lambda n: pack(TEXT.encode(), DATA, n % 2**64))
damaged_files = st.one_of(numbers_replaced(), values_replaced(), bits_flipped(), spliced(), truncated, length_changed)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzz") / "model.safetensors"


def read_all(path) -> list[np.ndarray]:
    stored = [s for s in read_header(path).values() if s.dtype in STORED_DTYPES]
    return [s.read(np.dtype("float32")) for s in stored]


def test_the_undamaged_file_is_read(path):
    path.write_bytes(VALID)
    assert all(np.array_equal(array.ravel(), np.arange(24)) for array in read_all(path))


@settings(max_examples=400, deadline=None)
@given(damaged=damaged_files)
def test_a_damaged_file_is_refused_or_read_within_its_size(path, damaged):
    path.unlink(missing_ok=True)  # a new file: arrays of the last example may still be mapped from the old one
    path.write_bytes(damaged)

    def read():
        try:
            arrays = read_all(path)
            assert sum(a.nbytes for a in arrays) <= 2 * len(damaged)  # 2: 16-bit numbers become 32-bit ones
        except CheckpointError as error:
            assert "model.safetensors" in str(error)

    most = 100_000 + 20 * len(damaged)
    assert peak_of(read, most)[1] < most
