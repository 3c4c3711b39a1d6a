"""Which continuations of a sentence's beams are looked at: the ways to find C candidates among W x V scores.

Each returns (score_BC, parent_BC, token_BC), best first. total_BWV are the scores of whole texts;
`candidates_from_logits` needs none.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import OptionError
from ..options.options import Options
from ..runtime.draws import Draws
from .processors import due_at_every_step

Candidates = tuple[np.ndarray, np.ndarray, np.ndarray]


def find_candidates(
    ops: Any, total_BWV: np.ndarray, C: int, step: int, draws: Draws | None, options: Options
) -> Candidates:
    """Finds candidates as the options ask for; draws: of the sentences, for sampling."""
    if options.do_sample:
        return sample_candidates(ops, total_BWV, C, draws, options.seed)
    if options.sibling_penalty and step > 0:  # at the first step all candidates are siblings
        return diverse_siblings(ops, total_BWV, C, options.sibling_penalty)
    if options.num_beam_groups > 1 and options.rules.groups == "interleaved":
        return interleaved_diverse_groups(ops, total_BWV, C, options.num_beam_groups, options.diversity_penalty)
    return best_candidates(ops, total_BWV, C)


def may_use_hars(ops: Any, options: Options) -> bool:
    """Whether the plan has hars_candidates, for the steps at which nothing touches scores on their way.

    Raises OptionError if there can be no such step: what was asked for would silently not run.
    """
    if not hasattr(ops, "hars_candidates"):
        return False
    if reason := option_against_hars(options):
        raise OptionError(
            f"plan: hars takes candidates straight from the logits, and {reason} (dialect {options.dialect}) comes "
            "between them at every step: leave out one of the two, or say hars=auto"
        )
    return True


def option_against_hars(options: Options) -> str | None:
    """The option, if there is one, that comes between logits and candidates at every step."""
    searches = [name for name, off in [("do_sample", False), ("num_beam_groups", 1), ("sibling_penalty", 0.0)]
                if getattr(options, name) != off]  # fmt: skip
    return next(iter(searches or due_at_every_step(options)), None)


def candidates_from_logits(ops, logits_RV, running_score_BW, C) -> Candidates:
    """The C highest scores, all beams together, where nothing comes between logits and candidates (LightSeq, 2.2)."""
    return ops.hars_candidates(logits_RV, running_score_BW, C)


def best_candidates(ops, total_BWV, C) -> Candidates:
    """The C highest scores, all beams together."""
    B, W, V = total_BWV.shape
    score_BC, index_BC = ops.top_candidates(total_BWV.reshape(B, W * V), C)
    return score_BC, *np.divmod(index_BC, V)


def sample_candidates(ops, total_BWV, C, draws, seed) -> Candidates:
    """C continuations drawn without replacement, each as likely as exp(score); then ordered by score.

    Beam w draws the numbers of "tokens" w*V to (w+1)*V, so that no two beams share one.
    """
    B, W, V = total_BWV.shape
    total_BX = total_BWV.reshape(B, W * V)
    noise_BX = ops.gumbel(draws.keys_R2, draws.step_R, W * V, seed)
    noise_BX += total_BX
    _, drawn_BC = ops.top_candidates(noise_BX, C)
    score_BC, order_BC = ops.top_candidates(np.take_along_axis(total_BX, drawn_BC, axis=1), C)
    return score_BC, *np.divmod(np.take_along_axis(drawn_BC, order_BC, axis=1), V)


def demote_other_ends(score_BC, parent_BC, token_BC, where_B, eos: tuple[int, ...]) -> Candidates:
    """CTranslate2, right behind a prefix: a candidate that ends, and is not the best, becomes another far out of play.

    It keeps its place among the candidates, so that fewer beams run on.
    """
    is_out_BC = (token_BC[:, :, None] == np.asarray(eos, like=token_BC)).any(axis=2) & np.asarray(
        where_B, like=token_BC
    )[:, None]
    is_out_BC[:, 0] = False
    return np.where(is_out_BC, score_BC.dtype.type(-1e10), score_BC), parent_BC * ~is_out_BC, token_BC * ~is_out_BC


def diverse_siblings(ops, total_BWV, C, rate) -> Candidates:
    """Diverse siblings search (Li et al. 2016; LightSeq, fairseq): a beam's k-th best continuation loses rate * k.

    k counts from 1. Each beam offers its C best; what it loses stays in the score.
    """
    B, W, V = total_BWV.shape
    score_RC, token_RC = ops.top_candidates(total_BWV.reshape(B * W, V), min(C, V))
    rank_C = np.arange(1, score_RC.shape[1] + 1, like=score_RC)
    score_RC = score_RC - (rate * rank_C).astype(score_RC.dtype)
    score_BC, index_BC = ops.top_candidates(score_RC.reshape(B, -1), C)
    token_BC = np.take_along_axis(token_RC.reshape(B, -1), index_BC, axis=1)
    return score_BC, index_BC // score_RC.shape[1], token_BC


def interleaved_diverse_groups(ops, total_BWV, C, G, penalty) -> Candidates:
    """fairseq's diverse beam search: beam w belongs to group w mod G, and the groups choose in turn.

    A token costs `penalty` for every candidate of an earlier group that chose it; the cost stays in the score. The
    groups' candidates, best first, are dealt out in turn.
    """
    B, W, V = total_BWV.shape
    chosen_BX, chosen_by_group = np.empty_like(total_BWV, np.int64, shape=(B, 0)), []
    for g in range(G):
        mine_R = (W * np.arange(B, like=total_BWV)[:, None] + np.arange(g, W, G, like=total_BWV)).reshape(-1)
        group_BWV = ops.gather_rows(total_BWV.reshape(B * W, V), mine_R).reshape(B, -1, V)
        if g:  # in front of the first group none was chosen
            # A token that stands among them twice costs twice, and gets its new score twice: no harm.
            times_BX = (chosen_BX[:, :, None] == chosen_BX[:, None]).sum(axis=2).astype(total_BWV.dtype)
            at_BWX = np.broadcast_to(chosen_BX[:, None], (B, W // G, chosen_BX.shape[1]))
            costs_BWX = total_BWV.dtype.type(penalty) * times_BX[:, None]
            np.put_along_axis(group_BWV, at_BWX, np.take_along_axis(group_BWV, at_BWX, axis=2) - costs_BWX, axis=2)
        score, parent, token = best_candidates(ops, group_BWV, C // G)
        chosen_BX = np.concatenate([chosen_BX, token], axis=1)
        chosen_by_group.append((score, parent * G + g, token))
    score_BC, parent_BC, token_BC = (
        np.stack(part, axis=2).reshape(B, C) for part in zip(*chosen_by_group, strict=True)
    )
    return score_BC, parent_BC, token_BC
