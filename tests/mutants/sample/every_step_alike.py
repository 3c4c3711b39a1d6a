"""draws the same numbers at every step."""

from minidecode.reference import sample as reference


def sample_tokens(scores_RV, key_RX, step_R, seed, out=None):
    return reference.sample_tokens(scores_RV, key_RX, 0 * step_R, seed)
