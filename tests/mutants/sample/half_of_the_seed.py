"""reads the lower 32 bits of the seed alone."""

from minidecode.reference import sample as reference


def sample_tokens(scores_RV, key_RX, step_R, seed, out=None):
    return reference.sample_tokens(scores_RV, key_RX, step_R, seed & 0xFFFFFFFF)
