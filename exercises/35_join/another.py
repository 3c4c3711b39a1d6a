"""Each request is an object of its own; arrays are put together for a step, from the last slot on."""

import numpy as np

# --- variation
SLOTS = 3
WIDTH = 3
# --- end


class Request:
    def __init__(self, tokens, key, limit):
        self.tokens, self.key, self.limit, self.prompt = tokens, key, limit, len(tokens)
        self.memory = []

    @property
    def said(self):
        return self.tokens[self.prompt :]

    def goes_on(self, score_V, draw):
        share_V = np.cumsum(score_V) / score_V.sum()
        self.tokens.append(int(np.searchsorted(share_V, draw(self.key, len(self.said)), side="right")))
        return len(self.said) < self.limit


def serve(prompt_QN, length_Q, arrives_Q, limit_Q, key_Q, prefill, step, draw):
    prompts = [row[:n].tolist() for row, n in zip(prompt_QN, length_Q, strict=True)]
    requests = [Request(*each) for each in zip(prompts, key_Q, limit_Q, strict=True)]
    room, slots, later, clock = max(len(r.tokens) + r.limit for r in requests), {}, requests[:], 0
    while later or slots:
        free = [c for c in reversed(range(SLOTS)) if c not in slots]
        while later and free and (arrives_Q[len(requests) - len(later)] <= clock or not slots):
            request = later.pop(0)
            memory_ND, score_V = prefill(np.array(request.tokens))
            request.memory = list(memory_ND)
            request.goes_on(score_V, draw)
            slots[free.pop(0)] = request
        memory_CMD = np.full((SLOTS, room, WIDTH), 77)
        token_C, length_C = np.full(SLOTS, 1), np.full(SLOTS, 1)
        for c, request in slots.items():
            token_C[c], length_C[c] = request.tokens[-1], len(request.tokens)
            memory_CMD[c, : len(request.memory)] = request.memory
        new_CD, score_CV = step(token_C, length_C, memory_CMD)
        clock += 1
        for c, request in list(slots.items()):
            request.memory.append(new_CD[c])
            if not request.goes_on(score_CV[c], draw):
                del slots[c]
    longest = max(limit_Q)
    return np.array([r.said + [-1] * (longest - len(r.said)) for r in requests])
