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


def gumbel(key_RX, step_R, V, seed, out=None):
    """One call of philox gives the numbers of four neighbouring tokens."""
    blocks = -(-V // 4)
    noise_RV = np.empty((len(key_RX), V)) if out is None else out
    block_X = np.arange(blocks, dtype=np.uint64)
    for r, ((low, high), step) in enumerate(zip(key_RX, step_R, strict=True)):
        counter_4X = np.stack([block_X, *(np.full(blocks, c, np.uint64) for c in (step, low, high))])
        words_V = philox(counter_4X, (seed & 0xFFFFFFFF, seed >> 32)).T.reshape(-1)[:V]
        uniform_V = (words_V + 0.5) * 2.0**-32
        noise_RV[r] = -np.log(-np.log(uniform_V))
    return noise_RV
