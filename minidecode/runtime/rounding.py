"""How far rounding may carry logits and scores: bounds computed from a model's sizes, not fitted to a result."""

from __future__ import annotations

import math

from ..device.weight_blocks import count_numbers
from .model_on_device import ModelOnDevice

FLOAT32, FLOAT64 = 2.0**-24, 2.0**-53  # unit roundoff: the largest relative error of one rounded operation
SAFETY = 6.0


def bound_of_sums(sums: int, longest: int, largest: float, unit: float) -> float:
    """Bound on the error of a logit that this many sums lead to, computed in a format of unit roundoff `unit`.

        SAFETY * unit * sqrt(S * X) * largest |logit|

    A sum of X terms carries an error of about sqrt(X) * unit times its size, because rounding errors have random
    signs (the worst case, X * unit, needs all signs alike). X is the longest sum in the model: over the width D, over
    the feed-forward width F, or over the N positions that a softmax adds up. The residual stream takes in S - 1 such
    sums on the way, and the output product is one more; their errors too are independent, so they add up as sqrt(S).
    The norms keep h at the scale of their gains, so an error in h reaches a logit in proportion to the logit's scale,
    for which the largest one stands. SAFETY covers what this leaves out: one layer can amplify the error of the one
    before it, and the largest of thousands of random errors counts.

    The golden tests check that it is of use: it is at most 32 times the error seen, and mistakes break it.
    """
    return SAFETY * unit * math.sqrt(sums * longest) * largest


def logit_bound(model: ModelOnDevice, largest: float, positions: int, unit: float = FLOAT32) -> float:
    """`bound_of_sums` of a model with this many positions in its softmax: 2 sums a layer, 3 with cross attention."""
    decoder, encoder = model.weights.blocks, model.weights.encoder.blocks if model.has_encoder else ()
    sums = 2 * len(encoder) + (3 if model.has_encoder else 2) * len(decoder) + 1
    blocks = (*decoder, *encoder)  # gates double the outputs of `up`, and zeros in panels add to the numbers of `down`
    feeds = [min(block.up.outputs, -(-count_numbers(block.down) // block.down.outputs)) for block in blocks]
    return bound_of_sums(sums, max(model.config.width, positions, *feeds), largest, unit)


def score_bound(logit_error: float, tokens: int, score: float = 0.0, norm: float = 1.0, unit: float = FLOAT32) -> float:
    """Bound on the error of a text's score, the sum of this many log-probabilities over a norm.

    log softmax moves by at most twice what the logits move (once for the token, once for the normaliser). Adding up
    rounds once per token.
    """
    return 2 * tokens * (logit_error / norm + unit * abs(score))
