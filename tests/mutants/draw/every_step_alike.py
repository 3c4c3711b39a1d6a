"""draws the same numbers at every step."""

from minidecode.reference import draw as reference


def draw_tokens(scores_RV, key_RX, step_R, seed, out=None):
    return reference.draw_tokens(scores_RV, key_RX, 0 * step_R, seed)
