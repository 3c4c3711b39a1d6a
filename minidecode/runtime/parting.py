"""Where two searches of one sentence part, and why, in words: from their traces, and the rules of both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..options.options import Options
from ..options.rules_in_words import rules_in_words
from .rounding import FLOAT32
from .trace import FATES, TraceStep

OUT_OF_PLAY = -1e8  # what scores below is no text in play


@dataclass
class Parting:
    """The first step at which two searches do not do the same; step: from 1, None if they never part.

    kind: candidates, order (of candidates: a tie), fates, end (of one search), groups, texts (the steps agree, and what
    they end in does not), or nothing. rules: by kind of rule, what it says in either, where that may be the reason.
    """

    kind: str
    step: int | None
    what: str
    rules: dict[str, tuple[str, str]]

    def in_words(self, names: tuple[str, str]) -> str:
        """One or two sentences a rule, behind what happened."""
        said = [f" {name}: {words}." for both in self.rules.values() for name, words in zip(names, both, strict=True)]
        return self.what + "".join(said)


def find_parting(
    searches: tuple[list[TraceStep], list[TraceStep]], options: tuple[Options, Options], names: tuple[str, str],
    same_texts: bool, word: Callable[[int], str] = str,
) -> Parting:  # fmt: skip
    """The first step at which two searches of one sentence part. word(id): what to write for a token.

    They agree on a step if the same texts go on and the same texts finish, whatever else they have looked at.
    """
    a, b = names
    one, other = searches

    def make_parting(kind: str, step: int | None, what: str, *about: str) -> Parting:
        mine, theirs = map(rules_in_words, options)
        if not any("prefix_tokens" in each.changed for search in searches for each in search):
            about = tuple(rule for rule in about if rule != "prefix")
        return Parting(kind, step, what, {r: (mine[r], theirs[r]) for r in about if mine[r] != theirs[r]})

    for mine, theirs in zip(one, other, strict=False):
        step = mine.step + 1
        where = f"step {step}" + (f", group {mine.group + 1}" if mine.group or theirs.group else "")
        if mine.group != theirs.group:
            return make_parting("groups", step, f"{where}: {a} and {b} do not have the same groups of beams.")
        if _going_and_finished(mine) == _going_and_finished(theirs):
            continue
        if [(c.parent, c.token) for c in mine.candidates] == [(c.parent, c.token) for c in theirs.candidates]:
            what, *about = _describe_other_fates(mine, theirs, options, names, word)
            return make_parting("fates", step, f"{where}: {what}", *about)
        kind, what, *about = _describe_other_candidates(mine, theirs, names, options)
        return make_parting(kind, step, f"{where}: {what}", *about)
    if len(one) != len(other):
        (longer, _), (shorter, steps) = sorted(zip(names, searches, strict=True), key=lambda pair: -len(pair[1]))
        last, ended = steps[-1].step + 1, sum(len(_going_and_finished(step)[1]) for step in steps)
        what = f"step {last} is the last of {shorter}, and {longer} goes on. Texts that have finished by then: {ended}."
        return make_parting("end", last, what, "stop", "limit")
    if same_texts:
        return make_parting("nothing", None, f"all {len(one)} steps agree, and so do the texts: they never part.")
    what = f"all {len(one)} steps agree, and the texts do not: they are scored or kept in other ways."
    return make_parting("texts", None, what, "norm", "finished", "limit", "stop")


def _going_and_finished(step: TraceStep) -> tuple[list[list[int]], list[list[int]]]:
    """(texts that go on, texts that finish), sorted."""
    fates: dict[str, list[list[int]]] = {"runs": [], "ends": []}
    for c in step.candidates:
        if c.fate in fates and c.score > OUT_OF_PLAY:
            fates[c.fate].append([*step.running[c.parent], c.token])
    return sorted(fates["runs"]), sorted(fates["ends"])


def _describe_other_fates(
    one: TraceStep, other: TraceStep, options: tuple[Options, Options], names: tuple[str, str],
    word: Callable[[int], str],
) -> tuple[str, ...]:  # fmt: skip
    """(what happened, the kinds of rules that may be why): the same candidates, which do not fare alike."""
    x, y = next((x, y) for x, y in zip(one.candidates, other.candidates, strict=True) if x.fate != y.fate)
    which = f"{word(x.token)!r} after beam {x.parent}"
    what = f"{which}: {FATES[x.fate]} in {names[0]}, {FATES[y.fate]} in {names[1]}."
    is_eos = any(x.token in o.eos_token_id for o in options)
    return what, *(("finished", "candidates", "prefix") if is_eos else ("limit", "candidates"))


def _describe_other_candidates(
    one: TraceStep, other: TraceStep, names: tuple[str, str], options: tuple[Options, Options]
) -> tuple[str, ...]:
    """(kind, what happened, the kinds of rules that may be why).

    Processors changed other candidates, or there are more of them, or their scores are apart.
    """
    a, b = names
    mine, theirs = ({(c.parent, c.token): c.score for c in step.candidates} for step in (one, other))
    for name in sorted(set(one.changed) | set(other.changed)):
        here, there = (set(step.changed.get(name, ())) & {*mine, *theirs} for step in (one, other))
        if here != there:
            what = f"other candidates. {name} changed {len(here)} of these in {a} and {len(there)} in {b}."
            return "candidates", what, *(("limit",) if name == "end_at_limit" else ("bans", "scores"))
    both = [(mine[place], theirs[place]) for place in mine.keys() & theirs.keys()]
    apart = max((abs(x - y) for x, y in both if min(x, y) > OUT_OF_PLAY), default=0.0 if both else None)
    if mine.keys() == theirs.keys() and apart <= _rounding_bound(one):
        return "order", f"a tie: the same candidates in another order, with scores up to {apart:.3g} apart."
    if len(mine) != len(theirs):
        what = f"other candidates. {len(mine)} are looked at in {a}, {len(theirs)} in {b}."
    elif apart is None:
        what = "other candidates. None is common to both."
    elif apart <= _rounding_bound(one):
        what = "other candidates. The scores of those that both have agree."
        beams = {parent for parent, _ in mine.keys() ^ theirs.keys()}
        changed = {n for step in (one, other) for n, places in step.changed.items() if beams & {p for p, _ in places}}
        if changed and options[0].rules.softmax != options[1].rules.softmax:
            return "candidates", f"{what} {', '.join(sorted(changed))} changed the beams of the others.", "scores"
        if any(o.num_beam_groups > 1 or o.do_sample for o in options):
            what = f"{what} Their groups, or the ways to draw, differ."
    else:
        what = f"other candidates. The scores of those that both have are up to {apart:.3g} apart."
    return "candidates", what, "scores", "bans", "candidates"


def _rounding_bound(step: TraceStep) -> float:
    """How far rounding may carry scores of a step apart: either search adds up the tokens of a text."""
    largest = max((abs(c.score) for c in step.candidates if c.score > OUT_OF_PLAY), default=0.0)
    return 4 * (len(step.running[0]) + 1) * FLOAT32 * largest
