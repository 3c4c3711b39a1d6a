"""What a search hands back, and the check that every search makes of a model's scores."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..errors import NumericalError


@dataclass
class Found:
    """Per sentence, the hypotheses best first: new tokens alone (EOS included), and their scores."""

    tokens: list[list[np.ndarray]]
    scores_BX: np.ndarray
    steps: int


def check_scores(logits_RV: np.ndarray, sentence_R: np.ndarray, step: int) -> None:
    """Raises NumericalError if a row is NaN: a choice among NaNs would be token 0, in silence."""
    bad_R = np.isnan(logits_RV).any(axis=1)
    if bad_R.any():
        sentence = int(sentence_R[np.flatnonzero(bad_R)[0]])
        raise NumericalError(f"the model's scores are NaN at step {step}, sentence {sentence}")
