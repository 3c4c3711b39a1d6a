"""Each beam for itself first, then the winners of the beams; a tournament where they are too many."""

import numpy as np

# --- variation
W = 3
GROUPING = "interleaved"
ROOM = 44
# --- end

C = 2 * W


def threshold(logits_V):
    if GROUPING == "interleaved":
        return min(logits_V[g::C].max() for g in range(C))
    return min(group.max() for group in np.split(logits_V, C))


def best_of(pairs, rank):
    """The C best of (score, index), of any number, by ranking ROOM at a time."""
    while len(pairs) > ROOM:
        lots = [pairs[i : i + ROOM] for i in range(0, len(pairs), ROOM)]
        pairs = [lot[i] for lot in lots for i in sorted(rank(scores_of(lot))[:C])]
    return [pairs[i] for i in rank(scores_of(pairs))[:C]]


def scores_of(pairs):
    return np.array([score for score, _ in pairs])


def search(logits_RV, base_BW, rank):
    best = []
    for b, base_W in enumerate(base_BW):
        winners = []
        for w, base in enumerate(base_W):
            logits_V = logits_RV[b * W + w]
            log_V = logits_V - np.logaddexp.reduce(logits_V) + base
            keeps = np.nonzero(logits_V >= threshold(logits_V))[0].tolist()
            winners += best_of([(log_V[t], w * len(log_V) + t) for t in keeps], rank)
        best.append(best_of(winners, rank))
    return np.array([[score for score, _ in row] for row in best]), np.array([[i for _, i in row] for row in best])
