"""Fills the slots when all of them are free."""

import numpy as np

# --- variation
SLOTS = 3
WIDTH = 3
# --- end


def serve(prompt_QN, length_Q, arrives_Q, limit_Q, key_Q, prefill, step, draw):
    token_QX = np.full((len(limit_Q), limit_Q.max()), -1)
    said_Q = np.zeros(len(limit_Q), np.int64)
    request_C = np.full(SLOTS, -1)
    key_C, drawn_C, length_C, token_C = np.zeros((4, SLOTS), np.int64)
    memory_CMD = np.zeros((SLOTS, prompt_QN.shape[1] + limit_Q.max(), WIDTH), np.int64)

    def take(c, score_V):
        q = request_C[c]
        sum_V = np.cumsum(score_V)
        token_C[c] = np.argmax(sum_V > draw(key_C[c], drawn_C[c]) * sum_V[-1])
        token_QX[q, said_Q[q]] = token_C[c]
        said_Q[q] += 1
        drawn_C[c] += 1
        length_C[c] += 1
        if said_Q[q] == limit_Q[q]:
            request_C[c] = -1

    waiting, steps = list(range(len(limit_Q))), 0
    while waiting or (request_C >= 0).any():
        were_free = (request_C < 0).all()
        while waiting and were_free and (request_C < 0).any():
            if arrives_Q[waiting[0]] > steps and (request_C >= 0).any():
                break
            q, c = waiting.pop(0), np.flatnonzero(request_C < 0)[0]
            N = length_Q[q]
            memory_CMD[c, :N], score_V = prefill(prompt_QN[q, :N])
            request_C[c], key_C[c], drawn_C[c], length_C[c] = q, key_Q[q], 0, N
            take(c, score_V)
        new_CD, score_CV = step(token_C, length_C, memory_CMD)
        steps += 1
        for c in np.flatnonzero(request_C >= 0):
            memory_CMD[c, length_C[c] - 1] = new_CD[c]
            take(c, score_CV[c])
    return token_QX
