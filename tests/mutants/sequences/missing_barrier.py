"""reads what moves and writes it in one go, text by text: no barrier between the last read and the first write."""

from numba import cuda

from minidecode.device.launch import launch


def update_sequences(text_BWM, parent_BW, token_BW, length_B, out=None):
    B, W, M = text_BWM.shape
    launch(refresh_without_a_barrier, (M, B), W, text_BWM, parent_BW, token_BW, length_B)
    return text_BWM


@cuda.jit
def refresh_without_a_barrier(text_BWM, parent_BW, token_BW, length_B):
    m, b, w = cuda.blockIdx.x, cuda.blockIdx.y, cuda.threadIdx.x
    if m < length_B[b] and parent_BW[b, w] != w:
        text_BWM[b, w, m] = text_BWM[b, parent_BW[b, w], m]
    if m == length_B[b]:
        text_BWM[b, w, m] = token_BW[b, w]
