"""takes parents for rows of the whole table: every sentence goes on from the texts of the first."""


def update_sequences(text_BWM, parent_BW, token_BW, length_B, out=None):
    first_WM = text_BWM[0].copy()
    for b, length in enumerate(length_B):
        text_BWM[b, :, :length] = first_WM[parent_BW[b], :length]
        text_BWM[b, :, length] = token_BW[b]
    return text_BWM
