"""sends each text to its parent's place instead of fetching the parent's: a scatter where a gather is due."""


def update_sequences(text_BWM, parent_BW, token_BW, length_B, out=None):
    before_BWM = text_BWM.copy()
    for b, length in enumerate(length_B):
        for w, parent in enumerate(parent_BW[b]):
            text_BWM[b, parent, :length] = before_BWM[b, w, :length]
        text_BWM[b, :, length] = token_BW[b]
    return text_BWM
