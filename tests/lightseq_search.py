"""LightSeq's beam search as its published code does it, in lists: what the dialect `lightseq` is compared with.

Written from lightseq/inference at commit a7ab0da: model/decoder.cc.cu and kernels/transformerKernels.{cc.cu,h}. Left
out: its limits of numbers (a log-probability is at least -1999), and beams that are no power of two, which it refuses.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np


def lightseq_search(
    logits_of: Callable[[list[int]], np.ndarray], eos: int, W: int, limit: int, alpha: float
) -> list[tuple[list[int], float]]:
    """(new tokens, score) of the W beams, best first. logits_of(new tokens): the logits of the next one.

    A beam is (new tokens, sum of log-probabilities, score); one whose last token is EOS has finished.
    """
    beams = [([], 0.0, 0.0)]
    for step in range(limit):
        norm = ((5 + step + 1) / 6) ** -alpha
        candidates = []
        for tokens, total, score in beams:
            if tokens and tokens[-1] == eos:  # one candidate, whose score does not change
                candidates.append((tokens, total, score))
                continue
            logits_V = logits_of(tokens).astype(np.float64)
            log_probs_V = logits_V - np.log(np.exp(logits_V - logits_V.max()).sum()) - logits_V.max()
            candidates += [([*tokens, v], total + p, (total + p) * norm) for v, p in enumerate(log_probs_V.tolist())]
        beams = sorted(candidates, key=lambda beam: -beam[2])[:W]
        if all(tokens[-1] == eos for tokens, *_ in beams):
            break
    return [(tokens, score) for tokens, _, score in beams]
