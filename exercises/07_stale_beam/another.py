"""A beam is one thing: its text, its score, and its cache go together."""

import numpy as np

# --- variation
BEAMS = 4
MIX = 3
# --- end


def search(E_VD, O_DV, steps):
    beams = [(0, (0,), ())]
    for t in range(steps):
        candidates = []
        for score, text, cache in beams:
            cache = (*cache, (1 + t % MIX) * E_VD[text[-1]])
            cost_V = sum(cache) @ O_DV % 97
            candidates += [(score - cost, (*text, token), cache) for token, cost in enumerate(cost_V.tolist())]
        beams = sorted(candidates, key=lambda c: -c[0])[:BEAMS]
    return np.array([text for _, text, _ in beams]), np.array([score for score, _, _ in beams])
