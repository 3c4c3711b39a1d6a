"""copies text by text, in order: who comes later reads what has been overwritten."""


def update_sequences(text_BWM, parent_BW, token_BW, length_B, out=None):
    for b, length in enumerate(length_B):
        for w, parent in enumerate(parent_BW[b]):
            text_BWM[b, w, :length] = text_BWM[b, parent, :length]
            text_BWM[b, w, length] = token_BW[b, w]
    return text_BWM
