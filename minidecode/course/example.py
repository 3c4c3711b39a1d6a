"""The course's running example: two beams over a prompt of four words, two heads of width two; enough for a pencil.

W = 2 beams, N = 4 prompt tokens, H = 2 heads of width K = 2, so D = 4. All numbers are small integers, so that keys,
values and scores before the softmax come out even.
"""

from __future__ import annotations

import numpy as np

W, N, H, K = 2, 4, 2, 2
D = H * K
WORDS = ("we", "meet", "again", "go", "on")  # the vocabulary; a token id is a place in it
PROMPT_N = np.array([0, 1, 2, 0])  # we meet again we
BEAMS_WT = np.array([[3, 4, 0], [1, 2, 3]])  # what the two beams say next: "go on we" and "meet again go"

EMBEDDING_VD = np.array([[1, 0, 2, 0], [0, 1, 0, 1], [1, 1, 0, 0], [2, 0, 1, 1], [0, 2, 1, 0]], dtype=float)
W_Q_DX = np.array([[1, 0, 0, 1], [0, 1, 1, 0], [0, 0, 1, 0], [1, 0, 0, 0]], dtype=float)
W_K_DX = np.array([[1, 0, 1, 0], [0, 1, 0, 0], [0, 1, 0, 1], [0, 0, 1, 0]], dtype=float)
W_V_DX = np.array([[0, 1, 0, 0], [1, 0, 0, 1], [0, 0, 1, 0], [1, 0, 0, -1]], dtype=float)


def say(ids) -> str:
    """Token ids as words."""
    return " ".join(WORDS[i] for i in ids)


def embed(ids_X, first: int = 0) -> np.ndarray:
    """Hidden states of tokens from position `first` on (positions are the last axis): a row of the table each, and in
    odd positions 1 added in the last column."""
    ids_X = np.asarray(ids_X)
    h_XD = EMBEDDING_VD[ids_X].copy()
    h_XD[..., -1] += (np.arange(ids_X.shape[-1]) + first) % 2
    return h_XD


def heads(x_RMX) -> np.ndarray:
    """x_RMX -> x_RHMK: rows cut into heads, the positions of a head side by side."""
    return x_RMX.reshape(*x_RMX.shape[:-1], H, K).swapaxes(-3, -2)
