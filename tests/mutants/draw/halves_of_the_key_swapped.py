"""exchanges the two halves of a key."""

from minidecode.reference import draw as reference


def draw_tokens(scores_RV, key_RX, step_R, seed, out=None):
    return reference.draw_tokens(scores_RV, key_RX[:, ::-1], step_R, seed)
