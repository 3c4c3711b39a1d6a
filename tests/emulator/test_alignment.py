"""A GPU ends a launch that loads or stores several bytes at no multiple of them: so does the emulator."""

import numpy as np
import pytest
from numba import cuda, float64, uint32

import minidecode as md
from minidecode.cuda.common.cache_load import load_16_bytes, store_16_bytes
from minidecode.cuda.common.rows import load_four
from minidecode.cuda.common.tensor_core import four_words, load_four_floats, one_word, store_four_words, two_words
from minidecode.cuda.common.vector_load import wide_load, wide_store


@cuda.jit
def load_wide(x, row, column):
    wide_load(x[row], column)


@cuda.jit
def store_wide(x, row, column):
    wide_store(x[row], column, 1.0, 2.0, 3.0, 4.0)


@cuda.jit
def load_of_row(x, row, column):
    load_four(x[row], column)


@cuda.jit
def load_of_cache(x, row, column):
    load_16_bytes(x, row * x.shape[1] + column)


@cuda.jit
def store_of_cache(x, row, column):
    store_16_bytes(x, row * x.shape[1] + column, 1, 2, 3, 4)


@cuda.jit
def load_floats(x, row, column):
    load_four_floats(x, row, column)


@cuda.jit
def load_one_word(x, row, column):
    one_word(x, row, column)


@cuda.jit
def load_two_words(x, row, column):
    two_words(x, row, column)


@cuda.jit
def load_four_words(x, row, column):
    four_words(x, row, column)


@cuda.jit
def store_words(x, row, column):
    store_four_words(x, row, column, uint32(1), uint32(2), uint32(3), uint32(4))


@cuda.jit
def view_as_double(x, row, column):
    x[row][column : column + 2].view(float64)


AT_ONCE = [  # kernel, the array's dtype, the bytes that it moves at once
    (load_wide, np.float32, 16), (load_wide, np.float16, 16), (load_wide, np.int8, 16), (load_wide, np.uint8, 16),
    (store_wide, np.float32, 16), (store_wide, np.float16, 8), (load_of_row, np.float32, 16),
    (load_of_cache, np.float32, 16), (load_of_cache, np.float16, 16), (store_of_cache, np.float32, 16),
    (load_floats, np.float32, 16), (load_one_word, np.float16, 4), (load_two_words, np.float16, 8),
    (load_four_words, np.int8, 16), (store_words, np.float16, 16), (view_as_double, np.float32, 8),
]  # fmt: skip


def launched(kernel, x, row, column):
    return md.emulate(kernel)[1, 1](x, row, column)


@pytest.mark.parametrize(("kernel", "dtype", "nbytes"), AT_ONCE)
def test_what_begins_at_no_multiple_of_its_bytes_is_found(kernel, dtype, nbytes):
    together = nbytes // np.dtype(dtype).itemsize
    x = np.zeros((2, 6 * together), dtype)
    assert launched(kernel, x, 1, 2 * together).ok
    for column in (1, together // 2, together + 1):
        (finding,) = launched(kernel, x, 1, column).errors
        assert finding.kind == "misaligned"
        assert f"{nbytes} bytes at once from x[1, {column}] on, which lies at no multiple of {nbytes}" in str(finding)


def test_rows_whose_width_is_no_multiple_are_found():
    (finding,) = launched(load_floats, np.zeros((2, 5), np.float32), 1, 0).errors
    assert finding.kind == "misaligned" and launched(load_floats, np.zeros((2, 8), np.float32), 1, 4).ok


@pytest.mark.parametrize("first", range(4))
def test_the_address_in_this_process_counts_for_it_is_what_a_launcher_looks_at(first):
    """Also where the memory is not NumPy's, such as that of a file."""
    memory = np.zeros(68, np.float32)
    start = -memory.ctypes.data % 16 // 4 + first
    x = np.frombuffer(memoryview(memory)[start : start + 32], np.float32).reshape(2, 16)
    assert x.ctypes.data % 16 == 4 * first
    found = [launched(load_floats, x, 1, column).ok for column in range(4)]
    assert found == [(first + column) % 4 == 0 for column in range(4)]
