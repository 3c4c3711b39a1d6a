"""What a search hands back, and the check that every search makes of a model's scores."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..errors import NumericalError, OptionError


@dataclass
class Found:
    """Per sentence, the hypotheses best first: new tokens alone (EOS included), and their scores.

    Where the rules allow fewer texts than were asked for, the places left are empty and score -inf.
    """

    tokens: list[list[np.ndarray]]
    scores_BX: np.ndarray
    steps: int


def check_choice(best_score_B: np.ndarray, done_B: np.ndarray, step: int) -> None:
    """Raises OptionError if the rules of the call leave a sentence that goes on no token at all."""
    stuck_B = np.isneginf(best_score_B) & ~done_B
    if stuck_B.any():
        sentence = int(np.flatnonzero(stuck_B)[0])
        raise OptionError(
            f"no token is left for sentence {sentence + 1} at step {step + 1}: the options forbid all of them; "
            "relax no_repeat_ngram_size, or ask for fewer new tokens"
        )


def check_scores(scores_RV: np.ndarray, sentence_R: np.ndarray, step: int) -> None:
    """Raises NumericalError if a row's log-probabilities hold NaN: a choice among NaNs would be token 0, in silence.

    They do if a logit was NaN or plus infinity, or all were minus infinity.
    """
    bad_R = np.isnan(scores_RV).any(axis=1)
    if bad_R.any():
        sentence = int(sentence_R[np.flatnonzero(bad_R)[0]])
        raise NumericalError(f"the model's scores are NaN at step {step + 1}, sentence {sentence + 1}")
