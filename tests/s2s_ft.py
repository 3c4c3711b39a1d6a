"""The search of s2s-ft, the code of UniLM, written from its description: frames of W tokens, and back pointers."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np


def log_softmax(logits_V) -> np.ndarray:
    s = np.asarray(logits_V, np.float64)
    return s - s.max() - np.log(np.exp(s - s.max()).sum())


def banned(text: list[int], n: int, ignored: tuple[int, ...] = ()) -> list[int]:
    """Tokens that would repeat an n-gram of the new text; n-grams with one of the ignored tokens may repeat."""
    if n == 0 or len(text) < n:
        return []
    tail = text[len(text) - n + 1 :]
    found = [text[i + n - 1] for i in range(len(text) - n + 1) if text[i : i + n - 1] == tail]
    return [token for token in found if not {*tail, token} & {*ignored}]


def s2s_ft(
    logits_of: Callable[[list[int]], np.ndarray],
    eos: int,
    W: int,
    limit: int,
    alpha: float,
    n: int,
    least: int,
    ignored: tuple[int, ...] = (),
) -> tuple[list[int], float, float]:
    """(tokens, score, the score of the second best) of one sentence; logits_of: those behind a new text.

    A step takes the W best of the W best continuations of each beam. What follows EOS loses 10,000. At the end, the
    best of all tokens EOS, and of the last frame, is traced back. The last frame is the first one of EOS alone, if any.
    """
    frames: list[list[tuple[float, int, int]]] = []  # of each frame (score, token, the beam in front)
    texts: list[list[int]] = [[]]
    for step in range(limit):
        found = []
        for beam, text in enumerate(texts):
            before, token, _ = frames[-1][beam] if frames else (0.0, None, 0)
            if token == eos:  # whatever follows is never the best
                found.append((before - 10_000, eos + 1, beam))
                continue
            scores = log_softmax(logits_of(text))
            scores[banned(text, n, ignored)] -= 10_000
            if step + 1 <= least:
                scores[eos] = -10_000
            best = np.argsort(-scores, kind="stable")[:W]
            found += [(before + scores[t], int(t), beam) for t in best]
        frame = sorted(found, key=lambda entry: -entry[0])[:W]
        texts = [[*texts[beam], token] for _, token, beam in frame]
        frames.append(frame)
        if all(token == eos for _, token, _ in frame):
            break
    ends = []
    for i, frame in enumerate(frames):
        for w, (score, token, _) in enumerate(frame):
            if token == eos or i == len(frames) - 1:
                ends.append((score / ((5 + i + 1) / 6) ** alpha, i, w))
    ends.sort(key=lambda end: -end[0])
    score, i, w = ends[0]
    tokens = []
    for frame in reversed(frames[: i + 1]):
        tokens.append(frame[w][1])
        w = frame[w][2]
    return tokens[::-1], score, ends[1][0] if len(ends) > 1 else -math.inf
