"""A line of the table grows by one's own row in each step."""

import numpy as np

# --- variation
BEAMS = 4
MIX = 3
# --- end


def search(E_VD, O_DV, memory_WTD):
    texts, scores, table = [[0]] * BEAMS, [0], [[w] for w in range(BEAMS)]
    for t in range(memory_WTD.shape[1]):
        for w in range(BEAMS):
            memory_WTD[w, t] = E_VD[texts[w][-1]]
        candidates = []
        for w, score in enumerate(scores):
            read_D = sum((1 + place % MIX) * memory_WTD[row, place] for place, row in enumerate(table[w]))
            candidates += [(score - cost, w, token) for token, cost in enumerate((read_D @ O_DV % 97).tolist())]
        best = sorted(candidates, key=lambda c: -c[0])[:BEAMS]
        table = [[*table[parent], w] for w, (_, parent, _) in enumerate(best)]
        texts = [[*texts[parent], token] for _, parent, token in best]
        scores = [score for score, _, _ in best]
    return np.array(texts), np.array(scores), np.array(table)[:, :-1]
