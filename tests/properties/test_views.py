"""Arrays in pieces: read where they lie, copied where sums need it, and refused where results would be lost."""

import numpy as np
import pytest

from minidecode.conformance.rows import norm as norm_row
from minidecode.cpu import norm as cpu_norm
from minidecode.cpu import sequences as cpu_refresh
from minidecode.ops import Heads, Norm
from minidecode.reference import norm, sequences
from minidecode.reference.append import append_kv


def test_what_would_be_written_into_a_copy_is_refused():
    """Results go where `out` says or nowhere: rows in pieces cannot be written through."""
    heads = Heads(2, 2, 3, 3, 1.0)
    qkv_RX, cache = np.ones((2, 18), np.float32), np.zeros((2, 2, 4, 3), np.float32)
    pieces = np.zeros((2, 2, 6), np.float32)[:, :, ::2]
    with pytest.raises(ValueError, match="must have each row in one piece"):
        append_kv(qkv_RX, None, heads, cache, cache.copy(), np.zeros(2, np.int64), out=pieces)
    spaced = np.zeros((4, 2, 3), np.float32)[::2]  # whole rows, with others between them
    append_kv(qkv_RX, None, heads, cache, cache.copy(), np.zeros(2, np.int64), out=spaced)
    assert (spaced == 1).all()


def test_rows_of_a_norm_may_lie_anywhere():
    """Equal numbers in long rows, of arrays in Fortran's order and of columns: sums lose no digits by it."""
    of_rows = Norm(np.ones(4100, np.float32), np.zeros(4100, np.float32), 1e-5)
    x_RD, wide = np.full((3, 4100), 0.1, np.float32), np.full((3, 8200), np.nan, np.float32)
    x_RD[:, 0] = 3
    wide[:, ::2] = x_RD
    for y_RD in (x_RD, None):
        right, bound = norm_row.oracle(x_RD, y_RD, None, of_rows)[1], norm_row.error_bound(x_RD, y_RD, None, of_rows)[1]
        for function in (norm.residual_norm, norm.residual_norm_naive, cpu_norm.residual_norm):
            for there in (np.asfortranarray(x_RD), wide[:, ::2]):
                h_RD = function(there, None if y_RD is None else there, None, of_rows)[1]
                assert (np.abs(h_RD - right) <= bound).all()


@pytest.mark.parametrize("bias_D", [None, np.zeros(4, np.float32)])
def test_a_row_of_zeros_without_an_epsilon_spoils_itself_alone(bias_D):
    """A config may have an eps of 0, or one that float32 rounds to it: 0 / 0 is NaN in every backend, and no error."""
    x_RD = np.float32([[0, 0, 0, 0], [1, -1, 1, -1]])
    for function in (norm.residual_norm, norm.residual_norm_naive, cpu_norm.residual_norm):
        for y_RD in (None, np.zeros_like(x_RD)):
            with np.errstate(invalid="ignore"):
                h_RD = function(x_RD, y_RD, None, Norm(np.ones(4, np.float32), bias_D, 1e-50))[1]
            assert np.isnan(h_RD[0]).all() and (h_RD[1] == x_RD[1]).all()


@pytest.mark.parametrize("function", [sequences.update_sequences, cpu_refresh.update_sequences])
def test_texts_may_be_every_second_column(function):
    texts = np.arange(2 * 2 * 8).reshape(2, 2, 8)
    arguments = np.array([[1, 0], [0, 0]]), np.array([[90, 91], [92, 93]]), np.array([2, 3])
    right = function(texts[:, :, ::2].copy(), *arguments)
    assert (function(texts[:, :, ::2], *arguments) == right).all() and (texts[:, :, ::2] == right).all()
