"""BLEU of token ids as fairseq-generate's default scoring counts it, over all sentences."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

PAD, EOS, UNKNOWN = 1, 2, 3
NO_WORD = -999  # in place of an unknown word of a reference: nothing matches it


class Bleu4:
    """Counts of n-grams up to four, and of those that a reference has too."""

    def __init__(self) -> None:
        self.counted, self.matched = Counter[int](), Counter[int]()
        self.predicted_tokens = self.reference_tokens = 0

    def add(self, reference: Sequence[int], predicted: Sequence[int]) -> None:
        """A sentence. What ends it is left out, and an unknown word of the reference is like no other."""
        reference = [NO_WORD if token == UNKNOWN else token for token in trim_ids(reference)]
        predicted = trim_ids(predicted)
        self.predicted_tokens += len(predicted)
        self.reference_tokens += len(reference)
        for n in range(1, 5):
            ours, theirs = (
                Counter(tuple(ids[i : i + n]) for i in range(len(ids) - n + 1)) for ids in (predicted, reference)
            )
            self.counted[n] += sum(ours.values())
            self.matched[n] += sum((ours & theirs).values())

    def __str__(self) -> str:
        ratio = self.predicted_tokens / self.reference_tokens if self.reference_tokens else 0.0
        brevity = min(1.0, math.exp(1 - 1 / ratio)) if ratio else 0.0
        precisions = [self.matched[n] / self.counted[n] if self.counted[n] else 0.0 for n in range(1, 5)]
        mean = math.exp(sum(map(math.log, precisions)) / 4) if all(precisions) else 0.0
        each = "/".join(f"{100 * p:2.1f}" for p in precisions)
        return (
            f"BLEU4 = {100 * brevity * mean:2.2f}, {each} (BP={brevity:.3f}, ratio={ratio:.3f}, "
            f"syslen={self.predicted_tokens}, reflen={self.reference_tokens})"
        )


def trim_ids(ids: Sequence[int]) -> list[int]:
    """The ids without padding in front, and without padding and </s> behind; the first always stays."""
    kept = list(ids)
    while kept and kept[0] == PAD:
        del kept[0]
    while len(kept) > 1 and kept[-1] in (EOS, PAD):
        del kept[-1]
    return kept
