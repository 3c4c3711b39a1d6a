"""What a search did, step by step: for looking at it, and for finding where two searches part (parting.py)."""

from __future__ import annotations

import dataclasses
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
