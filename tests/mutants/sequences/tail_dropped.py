"""moves whole groups of 32 positions only: what is left over stays where it was."""

from minidecode.reference.reorder import move_rows


def update_sequences(text_BWM, parent_BW, token_BW, length_B, out=None):
    for b, length in enumerate(length_B):
        move_rows(text_BWM[b, :, : length // 32 * 32], parent_BW[b], None)
        text_BWM[b, :, length] = token_BW[b]
    return text_BWM
