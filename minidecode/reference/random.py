"""Random numbers by counter: each number depends on its counter alone, not on the order of the draws."""

from __future__ import annotations

import numpy as np

from . import scratch

MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
WEYL = (0x9E3779B9, 0xBB67AE85)  # added to the two halves of the key after each round
LOW = np.uint64(0xFFFFFFFF)
HALF = np.uint64(32)


def philox(counter_4X: np.ndarray, key: tuple[int, int], product_2X: np.ndarray | None = None) -> np.ndarray:
    """Philox4x32-10 (Salmon et al. 2011): four 32-bit counters -> four random 32-bit words, (4, X) uint64.

    Each of ten rounds multiplies two counters by constants and mixes the halves of the products into the other two.
    Counters that are uint64 become the words in place; product_2X, uint64 too, is room for the products.
    """
    c0, c1, c2, c3 = words_4X = counter_4X.astype(np.uint64, copy=False)
    product0, product1 = np.empty((2, *c0.shape), np.uint64) if product_2X is None else product_2X
    k0, k1 = key
    for _ in range(10):
        np.multiply(c0, MULTIPLIERS[0], out=product0)
        np.multiply(c2, MULTIPLIERS[1], out=product1)
        # c0, c1 = high half of product1 ^ c1 ^ k0, its low half; c2, c3 = that of product0 ^ c3 ^ k1, its low half
        np.right_shift(product1, HALF, out=c0)
        np.right_shift(product0, HALF, out=c2)
        c0 ^= c1
        c2 ^= c3
        c0 ^= np.uint64(k0)
        c2 ^= np.uint64(k1)
        np.bitwise_and(product1, LOW, out=c1)
        np.bitwise_and(product0, LOW, out=c3)
        k0, k1 = (k0 + WEYL[0]) & 0xFFFFFFFF, (k1 + WEYL[1]) & 0xFFFFFFFF
    return words_4X


def gumbel_naive(key_RX, step_R, V, seed, out=None):
    """A call of philox for each token, which takes one of the four words."""
    noise_RV, token_V = np.empty((len(key_RX), V)) if out is None else out, np.arange(V)
    for r, (key, step) in enumerate(zip(key_RX, step_R, strict=True)):
        noise_RV[r] = noise_of_words(words_of_blocks(token_V // 4, key, step, seed)[token_V % 4, token_V])
    return noise_RV


def gumbel(key_RX, step_R, V, seed, out=None, *, workspace=None):
    """One call of philox gives the numbers of four neighbouring tokens; what is in between is changed in place."""
    noise_RV = np.empty((len(key_RX), V)) if out is None else out
    counter_4X, product_2X = (scratch(workspace, (n, -(-V // 4)), key_RX, np.uint64) for n in (4, 2))
    for r, (key, step) in enumerate(zip(key_RX, step_R, strict=True)):
        counter_4X[0] = 1
        np.cumsum(counter_4X[0], out=counter_4X[0])
        counter_4X[0] -= np.uint64(1)  # 0, 1, 2, ...
        counter_4X[1], counter_4X[2], counter_4X[3] = step, *key
        words_4X = philox(counter_4X, key_of_seed(seed), product_2X)
        for k in range(4):
            noise_RV[r, k::4] = words_4X[k, : len(noise_RV[r, k::4])]
        noise_of_words(noise_RV[r], out=noise_RV[r])
    return noise_RV


def words_of_blocks(block_X, key, step, seed):
    """The four random words of each block of four neighbouring tokens, (4, X)."""
    counter_4X = np.stack([np.full(len(block_X), c, np.uint64) for c in (0, step, *key)])
    counter_4X[0] = block_X
    return philox(counter_4X, key_of_seed(seed))


def key_of_seed(seed: int) -> tuple[int, int]:
    """The key of philox."""
    return seed & 0xFFFFFFFF, seed >> 32


def noise_of_words(words, out=None):
    """-log(-log(u)) for u in the middle of the 2**-32 that a word stands for, so that it is never 0 or 1."""
    noise = np.add(words, 0.5, out=out)
    noise *= 2.0**-32
    for _ in range(2):
        np.negative(np.log(noise, out=noise), out=noise)
    return noise
