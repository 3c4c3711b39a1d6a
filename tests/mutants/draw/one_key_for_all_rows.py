"""draws the first row's numbers for all rows."""

from minidecode.reference import draw as reference


def draw_tokens(scores_RV, key_RX, step_R, seed, out=None):
    return reference.draw_tokens(scores_RV, key_RX[:1].repeat(len(key_RX), axis=0), step_R, seed)
