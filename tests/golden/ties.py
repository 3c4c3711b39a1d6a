"""Comparing texts that two programs generated: tokens are equal unless rounding alone may have parted them.

What tests/oracle/test_gpt2_oracle.py and test_bart_oracle.py share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from golden_suite import PLANS
from tolerance import FLOAT32, logit_bound, score_bound

import minidecode as md
from minidecode.reference import candidates

Texts = list[list[int]]


class Ties:
    """Judges whether two outcomes of one search may differ by rounding alone, from float64.

    `bound` is what rounding may do to a logit in float32. Both sides round, so a choice between two tokens is open if
    their logits are closer than 2 * bound, and one between two hypotheses if their scores are closer than twice the
    bound of a score. next_logits(prompt, text, options) gives the exact logits (V,) of the token after both.
    """

    def __init__(self, folder: Path, largest_logit: float, next_logits: Callable[..., np.ndarray]):
        self.next_logits = next_logits
        self.model = md.load(folder, dtype="float64")
        self.bound = logit_bound(self.model.config, largest_logit, FLOAT32)

    def excuse(self, prompt: list[int], options: dict, ours: Texts, theirs: Texts) -> bool:
        """ours, theirs: all hypotheses of one sentence."""
        if options["num_beams"] == 1:
            return self.token_margin(prompt, options, ours[0], theirs[0]) <= 2 * self.bound
        longest = max(len(tokens) for tokens in ours + theirs)
        allowed = 2 * score_bound(self.bound, longest, 0.0, 0.0, FLOAT32)
        return self.candidate_margin(prompt, options) <= allowed

    def token_margin(self, prompt, options, ours, theirs) -> float:
        """How far apart, in float64, the two tokens are at the first difference; infinite where one side has none."""
        common = [a == b for a, b in zip(ours, theirs, strict=False)]
        if all(common):
            return float("inf")  # one side stopped and the other went on: no rounding does that
        t = common.index(False)
        logits_V = self.next_logits(prompt, ours[:t], options)
        return abs(logits_V[ours[t]] - logits_V[theirs[t]])

    def candidate_margin(self, prompt, options) -> float:
        """The closest decision of the beam search in float64: the least gap between neighbours among the candidates.

        A beam that is dropped by a hair changes all that follows, so hypotheses that differ need not score alike;
        the decision that parted them is somewhere in the search, between neighbours among the candidates of a step.
        """
        gaps = []
        right = candidates.top_candidates

        def recording(scores_BX, C, out=None):
            best_C = np.sort(scores_BX[0])[::-1][: C + 1]
            best_C = best_C[best_C > -1e8]  # beams out of play score below
            gaps.extend(-np.diff(best_C))
            return right(scores_BX, C, out)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(candidates, "top_candidates", recording)
            self.model.generate(input_ids=[prompt], **options)
        return min(gaps)


def differing_sentences(prompts: Texts, ours: Texts, theirs: Texts) -> Iterator[tuple[list[int], Texts, Texts]]:
    """(prompt, our hypotheses, their hypotheses) of each sentence whose tokens differ."""
    each = len(theirs) // len(prompts)
    for b, prompt in enumerate(prompts):
        places = slice(b * each, (b + 1) * each)
        if ours[places] != theirs[places]:
            yield prompt, ours[places], theirs[places]


def check_scores(bound, options, tokens, ours, theirs) -> None:
    """Both sides rounded: twice the bound."""
    for row, a, b in zip(tokens, ours, theirs, strict=True):
        assert abs(a - b) <= 2 * score_bound(bound, len(row), options["length_penalty"], b, FLOAT32)


def compare_generation(
    folder: Path,
    prompts: Texts,
    options: dict,
    theirs: Texts,
    their_scores: list[float],
    ties: Ties,
    plans: tuple[str, ...] = PLANS,
) -> bool:
    """One call under every plan, held to what transformers gave. Returns whether it had to be excused as a tie."""
    excused = False
    for plan in plans:
        out = md.load(folder, plan=plan).generate(input_ids=prompts, **options)
        ours = [ids.tolist() for ids in out.token_ids]
        differing = list(differing_sentences(prompts, ours, theirs))
        for prompt, our_texts, their_texts in differing:
            assert ties.excuse(prompt, options, our_texts, their_texts), (plan, options, prompt, our_texts, their_texts)
        excused |= bool(differing)
        if not differing:
            check_scores(ties.bound, options, ours, out.scores, their_scores)
    return excused
