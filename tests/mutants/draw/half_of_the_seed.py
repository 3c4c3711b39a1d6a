"""reads the lower 32 bits of the seed alone."""

from minidecode.reference import draw as reference


def draw_tokens(scores_RV, key_RX, step_R, seed, out=None):
    return reference.draw_tokens(scores_RV, key_RX, step_R, seed & 0xFFFFFFFF)
