"""The rules of a search in words, under a call's options: what `minidecode trace` says where two searches part."""

from __future__ import annotations

from ..ops import BEST_CANDIDATE
from .options import Options


def rules_in_words(o: Options) -> dict[str, str]:
    """What each kind of rule says, by its kind."""
    rules, W = o.rules, o.num_beams
    order = "processors change logits, and what they leave is normalized"
    if rules.softmax == "first":
        order = "log-probabilities come first, and processors change them"
    if W == 1:
        order = order if rules.softmax == "last" else f"processors change {rules.greedy_scores}"
    who_ends = "any candidate" if rules.ends_behind_prefix == "all" else "only the best candidate"
    kept = f"the best {W} texts of all stay" if rules.finished == "best" else f"the first {W} texts that finish stay"
    return {
        "scores": order,
        "bans": "bans and penalties see " + ("the whole text" if rules.bans_see_prompts else "new tokens alone"),
        "candidates": _candidates_in_words(o),
        "finished": kept,
        "prefix": f"right behind a prefix, {who_ends} may end",
        "limit": _limit_in_words(o),
        "stop": f"a sentence stops when {_stop_in_words(o)}",
        "norm": f"a text's score is divided by {_norm_in_words(o)}",
    }


def _candidates_in_words(o: Options) -> str:
    if o.num_beams == 1:
        return "the likeliest token is chosen"
    place = "leaves its place to another"
    if o.rules.stop == "shared":
        place = f"keeps its place as long as it is among the {o.num_beams} best"
    elif not o.rules.all_go_on:
        place = "takes the place of one that would go on"
    return f"a step looks at {o.candidates} candidates, and one that ends {place}"


def _limit_in_words(o: Options) -> str:
    if o.rules.at_limit == "eos":
        return "at the limit, EOS is forced"
    if o.num_beams == 1:
        return "at the limit, a text is cut"
    if o.rules.at_limit == "running":
        return f"at the limit, the {o.num_beams} running beams count as finished"
    return f"at the limit, the {o.num_beams} best candidates count as finished"


def _stop_in_words(o: Options) -> str:
    """The rest of "a sentence stops when ..."."""
    W = o.num_beams
    if W == 1:
        return "its text ends"
    if (stop := o.counted_stop) is not None:
        if stop.behind_best:
            return f"the best candidate of a step has finished, and at least {stop.texts} of all texts"
        return f"num_beams * patience = {stop.texts} texts have finished"
    if o.rules.stop == "shared":
        return f"the {W} best texts, by their scores at each step, have all finished"
    rules = o.beam_rules
    if rules.full_is_done:
        return f"{W} texts have finished"
    who = "the best candidate" if rules.hope == BEST_CANDIDATE else "the best running beam"
    length = "however long it gets" if rules.hope_at_limit else "as long as it is now"
    return f"{who}, {length}, cannot beat the worst of {W} finished texts"


def _norm_in_words(o: Options) -> str:
    if o.divides_as_gnmt:
        return f"((5 + length) / 6) ** {o.length_penalty:g}"
    return f"length ** {o.length_penalty:g}"
