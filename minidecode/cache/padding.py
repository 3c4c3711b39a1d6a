"""Sentences of different lengths in one array: one behind the other, or padded on the left to end together."""

from __future__ import annotations

import numpy as np


def offsets_from_lengths(lengths) -> np.ndarray:
    """The first row of each of several sequences in one array, and the end of the last one."""
    return np.concatenate([[0], np.cumsum(lengths)])


def longest_sentence_length(offsets_X) -> int:
    """Positions of the longest sentence."""
    return int(np.diff(offsets_X).max())


def padding_lengths(offsets_X, N: int):
    """padding_B: how many of N positions in front of each sentence hold nothing."""
    return N - np.diff(offsets_X)


def replicate_prompts(ops, k_RGK, v_RGU, offsets_X, beams: int, N: int):
    """(k_RGMK, v_RGMU, begin_R): N positions per beam, padded on the left; row r's positions count from begin[r]."""
    sentence_R = np.repeat(np.arange(len(offsets_X) - 1, like=offsets_X), beams)
    k_RGMK = ops.gather_rows(ops.pad_left(k_RGK, offsets_X, N), sentence_R)
    v_RGMU = ops.gather_rows(ops.pad_left(v_RGU, offsets_X, N), sentence_R)
    return k_RGMK, v_RGMU, padding_lengths(offsets_X, N)[sentence_R]


def copy_with_free_positions(k_RGNX, steps: int):
    """A copy of the positions, with `steps` more behind them."""
    R, G, N, X = k_RGNX.shape
    k_RGMX = np.zeros((R, G, N + steps, X), k_RGNX.dtype, like=k_RGNX)
    k_RGMX[:, :, :N] = k_RGNX
    return k_RGMX
