"""looks for NaN among the scores alone, where a forced token hides it."""

from minidecode.reference import weigh as reference


def weigh_tokens(token_R, scores_RV, logprobs_RV=None, out=None):
    logprob_R, _ = reference.weigh_tokens(token_R, scores_RV, logprobs_RV)
    _, trouble_R = reference.weigh_tokens(token_R, scores_RV)
    return logprob_R, trouble_R
