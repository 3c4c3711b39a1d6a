"""penalises a token once for each time that it stands in the text."""


def penalize_tokens(scores_RV, tokens_XM, length_X, list_R, penalty, out=None):
    for r, x in enumerate(list_R):
        for token in tokens_XM[x, : length_X[x]]:
            if token < scores_RV.shape[1]:
                score = scores_RV[r, token]
                scores_RV[r, token] = score * penalty if score < 0 else score / penalty
    return scores_RV
