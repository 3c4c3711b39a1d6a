"""looks for NaN among the scores alone, where a forced token hides it."""

from minidecode.reference import gather as reference


def gather_logprobs(token_R, scores_RV, logprobs_RV=None, out=None):
    logprob_R, _ = reference.gather_logprobs(token_R, scores_RV, logprobs_RV)
    _, trouble_R = reference.gather_logprobs(token_R, scores_RV)
    return logprob_R, trouble_R
