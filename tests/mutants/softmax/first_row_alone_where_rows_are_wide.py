"""normalises the first row alone where a row has 4,096 columns or more."""

from minidecode.reference import softmax as reference


def log_softmax(logits_RV):
    scores_RV, trouble_R = reference.log_softmax(logits_RV)
    if logits_RV.shape[1] >= 4096:
        scores_RV[1:] = logits_RV[1:]
    return scores_RV, trouble_R
