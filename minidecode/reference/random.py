"""Random numbers by counter: each is a function of its place alone, so nobody's turn changes anybody's numbers."""

from __future__ import annotations

import numpy as np

MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
WEYL = (0x9E3779B9, 0xBB67AE85)  # added to the two halves of the key after each round
LOW = np.uint64(0xFFFFFFFF)
HALF = np.uint64(32)


def philox(counter_4X: np.ndarray, key: tuple[int, int]) -> np.ndarray:
    """Philox4x32-10 (Salmon et al. 2011): four 32-bit counters -> four random 32-bit words, (4, X) uint32.

    Each of ten rounds multiplies two counters by constants and mixes the halves of the products into the other two.
    """
    c0, c1, c2, c3 = (c.astype(np.uint64) for c in counter_4X)
    k0, k1 = key
    for _ in range(10):
        product0, product1 = MULTIPLIERS[0] * c0, MULTIPLIERS[1] * c2
        c0, c1 = (product1 >> HALF) ^ c1 ^ np.uint64(k0), product1 & LOW
        c2, c3 = (product0 >> HALF) ^ c3 ^ np.uint64(k1), product0 & LOW
        k0, k1 = (k0 + WEYL[0]) & 0xFFFFFFFF, (k1 + WEYL[1]) & 0xFFFFFFFF
    return np.stack([c0, c1, c2, c3]).astype(np.uint32)


def gumbel_naive(key_RX, step_R, V, seed, out=None):
    """A call of philox for each token, which takes one of the four words."""
    noise_RV, token_V = np.empty((len(key_RX), V)) if out is None else out, np.arange(V)
    for r, (key, step) in enumerate(zip(key_RX, step_R, strict=True)):
        noise_RV[r] = noise_of(words_of_blocks(token_V // 4, key, step, seed)[token_V % 4, token_V])
    return noise_RV


def gumbel(key_RX, step_R, V, seed, out=None):
    """One call of philox gives the numbers of four neighbouring tokens."""
    blocks = np.arange(-(-V // 4))
    noise_RV = np.empty((len(key_RX), V)) if out is None else out
    for r, (key, step) in enumerate(zip(key_RX, step_R, strict=True)):
        words_V = words_of_blocks(blocks, key, step, seed).T.reshape(-1)[:V]
        noise_RV[r] = noise_of(words_V)
    return noise_RV


def words_of_blocks(block_X, key, step, seed):
    """The four random words of each block of four neighbouring tokens, (4, X)."""
    counter_4X = np.stack([np.full(len(block_X), c, np.uint64) for c in (0, step, *key)])
    counter_4X[0] = block_X
    return philox(counter_4X, (seed & 0xFFFFFFFF, seed >> 32))


def noise_of(words):
    """-log(-log(u)) for u in the middle of the 2**-32 that a word stands for, so that it is never 0 or 1."""
    return -np.log(-np.log((words + 0.5) * 2.0**-32))
