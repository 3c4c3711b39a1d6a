"""gives four neighbouring tokens the same random word."""

from minidecode.reference.random import gumbel


def sample_tokens(scores_RV, key_RX, step_R, seed, out=None):
    noise_RV = gumbel(key_RX, step_R, scores_RV.shape[1], seed)
    for v in range(noise_RV.shape[1]):
        noise_RV[:, v] = noise_RV[:, v // 4 * 4]
    return (noise_RV + scores_RV).argmax(axis=1)
