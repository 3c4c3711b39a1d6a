"""moves whole rows, with the room behind the texts."""


def update_sequences(text_BWM, parent_BW, token_BW, length_B, out=None):
    for b, length in enumerate(length_B):
        text_BWM[b] = text_BWM[b, parent_BW[b]]
        text_BWM[b, :, length] = token_BW[b]
    return text_BWM
