"""What a search did, step by step: for looking at it, and for finding the first step where two searches part."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..device.arrays import fetch

FATES = {"runs": "goes on", "ends": "finished", "refused": "ended, not kept", "dropped": "not among the best"}


@dataclass
class Candidate:
    """One continuation that a step looked at. score: of the whole text, before any length penalty."""

    token: int
    parent: int  # which running beam it continues
    score: float
    fate: str  # one of FATES
    beam: int | None = None  # which running beam it becomes


@dataclass
class TraceStep:
    """One step of one sentence: `running` are the new tokens of its beams before it.

    group: which diverse group; in sampling, which of the sentence's texts.
    """

    step: int
    sentence: int
    group: int
    running: list[list[int]]
    candidates: list[Candidate]
    changed: dict[str, list[tuple[int, int]]]  # processor -> (beam, token) of the scores that it changed


@dataclass
class Trace:
    """All steps, in order."""

    steps: list[TraceStep] = field(default_factory=list)

    def of(self, sentence: int) -> list[TraceStep]:
        """One sentence's steps."""
        return [s for s in self.steps if s.sentence == sentence]

    def as_list(self) -> list[dict[str, Any]]:
        return [dataclasses.asdict(s) for s in self.steps]

    def note_tokens(self, step, rows, chosen_R, total_R, going_R, done_R, notes) -> None:
        """A step of greedy search or sampling, after it: one candidate per text, which goes on or ends."""
        for r in np.flatnonzero(going_R):
            sentence = int(rows.sentence_R[r])
            text = int(r - np.flatnonzero(rows.sentence_R == sentence)[0])
            changed = {name: [(0, int(v)) for row, v in pairs if row == r] for name, pairs in notes.items()}
            candidate = Candidate(int(chosen_R[r]), 0, float(total_R[r]), "runs", 0)
            if done_R[r]:
                candidate.fate, candidate.beam = "ends", None
            running = [rows.text(r)[rows.prompt_R[r] :].tolist()]
            changed = {name: pairs for name, pairs in changed.items() if pairs}
            self.steps.append(TraceStep(step, sentence, text, running, [candidate], changed))

    def note_candidates(self, step, group, before, candidates, chosen, sentence_B, options, notes) -> None:
        """A step of beam search, after it; `before` are the beams that the candidates continue, of these sentences."""
        names = "running_BWM", "length_B", "prompt_B", "limit_B", "done_B"
        before = dataclasses.replace(before, **{name: fetch(getattr(before, name)) for name in names})
        candidates, chosen = tuple(map(fetch, candidates)), type(chosen)(*map(fetch, chosen))
        W = before.running_BWM.shape[1]
        for b in np.flatnonzero(~before.done_B):
            score_C, parent_C, token_C = (part[b] for part in candidates)
            noted = []
            for c, (score, parent, token) in enumerate(zip(score_C, parent_C, token_C, strict=True)):
                at_limit = step + 1 >= before.limit_B[b] and options.rules.at_limit == "candidates"
                may_end = at_limit or token in options.eos_token_id
                candidate = Candidate(int(token), int(parent), float(score), "refused" if may_end else "dropped")
                beams = np.flatnonzero(chosen.kept_BW[b] == c)
                if chosen.finishes_BC[b, c]:
                    candidate.fate = "ends"
                elif len(beams) and not may_end:
                    candidate.fate, candidate.beam = "runs", int(beams[0])
                noted.append(candidate)
                if len(beams) and may_end and not at_limit:  # too few others: it fills a beam that is out of play
                    out_of_play = float(score) + options.rules.out_of_play
                    noted.append(Candidate(int(token), int(parent), out_of_play, "runs", int(beams[0])))
            prompt, length = before.prompt_B[b], before.length_B[b]
            running = [before.running_BWM[b, w, prompt:length].tolist() for w in range(W)]
            mine = range(b * W, (b + 1) * W)
            changed = {name: [(int(r - b * W), int(v)) for r, v in pairs if r in mine] for name, pairs in notes.items()}
            changed = {name: pairs for name, pairs in changed.items() if pairs}
            self.steps.append(TraceStep(step, int(sentence_B[b]), group, running, noted, changed))


def first_difference(
    one: list[TraceStep], other: list[TraceStep], names: tuple[str, str], word: Callable[[int], str] = str
) -> str | None:
    """Where two searches of one sentence part, and why, in words; None if all their steps agree.

    They agree on a step if the same candidates come in the same order and meet the same fates. word(id): what to write
    for a token.
    """
    a, b = names
    for mine, theirs in zip(one, other, strict=False):
        where = f"step {mine.step + 1}" + (f", group {mine.group + 1}" if mine.group or theirs.group else "")
        if mine.group != theirs.group:
            return f"{where}: {a} and {b} do not have the same groups of beams."
        if [(c.parent, c.token) for c in mine.candidates] != [(c.parent, c.token) for c in theirs.candidates]:
            return f"{where}: other candidates. {_why_other_candidates(mine, theirs, names)}"
        for x, y in zip(mine.candidates, theirs.candidates, strict=True):
            if x.fate != y.fate:
                which = f"{word(x.token)!r} after beam {x.parent}"
                why = "they differ in when a text ends, or in what counts at the limit"
                return f"{where}: {which}: {FATES[x.fate]} in {a}, {FATES[y.fate]} in {b}; {why}."
    if len(one) != len(other):
        longer = a if len(one) > len(other) else b
        last = min(one[-1].step, other[-1].step)
        return f"step {last + 1} is the last of one, and {longer} goes on; they differ in when a sentence is done."
    return None


def _why_other_candidates(one: TraceStep, other: TraceStep, names: tuple[str, str]) -> str:
    """By what processors did to candidates of either, by how many there are, or by how far their scores are apart."""
    a, b = names
    candidates = {(c.parent, c.token) for c in [*one.candidates, *other.candidates]}
    for name in sorted(set(one.changed) | set(other.changed)):
        mine, theirs = (set(s.changed.get(name, ())) & candidates for s in (one, other))
        if mine != theirs:
            return f"{name} changed {len(mine)} of these in {a} and {len(theirs)} in {b}."
    if len(one.candidates) != len(other.candidates):
        return f"{len(one.candidates)} are looked at in {a}, {len(other.candidates)} in {b}."
    scores = {(c.parent, c.token): c.score for c in one.candidates}
    shared = [(c, scores[c.parent, c.token]) for c in other.candidates if (c.parent, c.token) in scores]
    if not shared:
        return "None is common to both."
    apart = max(abs(c.score - score) for c, score in shared)
    if apart == 0:
        return "The scores of those that both have agree: their groups, or the ways to draw, differ."
    return f"The scores of those that both have are up to {apart:.3g} apart."
