"""exchanges the two halves of a key."""

from minidecode.reference import sample as reference


def sample_tokens(scores_RV, key_RX, step_R, seed, out=None):
    return reference.sample_tokens(scores_RV, key_RX[:, ::-1], step_R, seed)
