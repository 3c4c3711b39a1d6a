"""The memory of a call: what it may take at most, and where a step's intermediates lie in an arena."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Unpack

import numpy as np

from ..errors import MemoryBudgetError, OptionError
from ..options.checks import Whole
from ..options.options import Options
from ..options.typed_dict import GenerateOptions
from ..plan import Plan
from ..runtime.arena import Arena, Extent, Fresh, Places, StepPlan
from ..runtime.footprint import Footprint, check_fits, format_bytes, parse_budget
from ..runtime.footprint import footprint as upper_bounds
from ..runtime.inputs import Texts, extent_of
from ..runtime.output import check_logprobs
from ..search.dry_run import dry_run, options_of_step
from .drafts import PlannedDraft, options_with_draft
from .loaded import LoadedModel
from .out_of_memory import free_kept_steps
from .plans import planned_draft, resolve_plan


def footprint(
    model: LoadedModel,
    prompts: Texts | None = None,
    *,
    input_ids: Any = None,
    attention_mask: Any = None,
    negative_prompt: Texts | None = None,
    negative_prompt_ids: Any = None,
    plan: str | Plan | None = None,
    truncate: bool | None = False,
    logprobs: int | None = None,
    keep: Sequence[str] = (),
    draft: LoadedModel | None = None,
    **options: Unpack[GenerateOptions],
) -> Footprint:
    """The bytes that `generate` may take with these arguments, beside the weights: upper bounds from shapes alone.

    The formula stands in runtime/footprint.py. Raises InputError and OptionError as `generate` does.
    """
    resolved = options_with_draft(model, draft, model.options(**options))
    check_logprobs(logprobs, model.config.generated_vocab_size)
    plan = model.plan if plan is None else Plan.parse(plan)
    sources, prompts_ids, limit_B = model.inputs.fit_call(prompts, input_ids, attention_mask, resolved, truncate)
    negative = negative_prompt, negative_prompt_ids
    negatives = model.inputs.negative_prompts(*negative, prompts_ids, limit_B, resolved, truncate)
    extent = extent_of(sources, prompts_ids, limit_B, negatives)
    plan, _ = resolve_plan(model, plan, resolved, extent)
    needed = upper_bounds(model, plan, extent, resolved, False, logprobs, keep)
    return _with_draft(needed, planned_draft(draft, resolved, extent), extent, resolved)


def _with_draft(needed: Footprint, draft: PlannedDraft | None, extent: Extent, options: Options) -> Footprint:
    """What a call needs, and what its draft model needs beside that."""
    return needed if draft is None else needed.add(upper_bounds(*draft, extent, options))


def check_memory(
    model: LoadedModel, plan: Plan, extent: Extent, options: Options, arena: Arena | None,
    memory_budget: int | str | None, logprobs: int | None, keep: Sequence[str],
    draft: PlannedDraft | None,
) -> None:  # fmt: skip
    """Raises MemoryBudgetError if a call may take more than its budget; steps kept for later calls go first."""
    if (budget := parse_budget(memory_budget, model.device)) is None:
        return
    needed = upper_bounds(model, plan, extent, options, arena is not None, logprobs, keep)
    needed = _with_draft(needed, draft, extent, options)
    if needed.total > budget and free_kept_steps(model):
        budget = parse_budget(memory_budget, model.device)
        assert budget is not None  # there was one before
    check_fits(needed, budget, extent)


def plan_step(
    model: LoadedModel,
    *,
    batch_size: int = 1,
    input_length: int = 1,
    plan: str | Plan | None = None,
    **options: Unpack[GenerateOptions],
) -> StepPlan:
    """Plans the offsets of a decode step's intermediates in an arena, by a dry run (LightSeq, section 2.3).

    For requests of up to batch_size prompts (sources, for an encoder-decoder model) of up to input_length tokens,
    under these options, whose max_new_tokens is the most that a request may ask for. plan: arena=separate lays
    them out one behind the other; anything else means planned. `Arena` makes room for it.

    Raises OptionError on options, InputError on lengths that the model cannot hold, MemoryBudgetError where a dry run
    may take more memory than is left.
    """
    resolved = model.options(**options)
    Whole(1)("batch_size", batch_size)
    Whole(1, most=model.inputs.most_tokens)("input_length", input_length)
    if model.config.vocab_size < (least := len(resolved.eos_token_id) + 2):
        raise OptionError(f"vocab_size must be at least {least}: a step is planned with two tokens that end no text")
    plan = model.plan if plan is None else Plan.parse(plan)
    if plan.arena == "none":
        plan = dataclasses.replace(plan.on(model.device), arena="planned")
    not_words = {*resolved.eos_token_id, resolved.pad_token_id}  # what match_source_len does not count
    word = next((i for i in range(model.config.vocab_size) if i not in not_words), 0)
    one = extent_of(*model.inputs.fit_call(None, np.full((1, input_length), word), None, resolved, truncate=None))
    extent = dataclasses.replace(one, sentences=batch_size)
    plan = resolve_plan(model, plan, resolved, extent)[0]
    needed, free = upper_bounds(model, plan, extent, resolved).planning, parse_budget("available", model.device)
    if free is not None and needed > free:
        raise MemoryBudgetError(
            f"planning a step of {extent} may take {format_bytes(needed)}, and {format_bytes(free)} are left: plan for"
            " fewer or shorter texts or fewer beams"
        )
    return step_plan(model, plan, extent, options_of_step(resolved))


def step_plan(model: LoadedModel, plan: Plan, extent: Extent, search: Options) -> StepPlan:
    """The plan of a step's arena, by a dry run of this search."""
    functions, make_cache = plan.resolve(device=model.device, **model.plan_traits)
    with np.errstate(all="ignore"):
        made_for, captured = (model, plan, search), plan.captures(model.device)
        return dry_run(
            model.network, model.weights, functions, make_cache, extent, search, made_for, model.device, captured
        )


@contextmanager
def places_of(
    model: LoadedModel, plan: Plan, arena: Arena | None, extent: Extent, options: Options
) -> Iterator[Fresh | Places]:
    """The places for what a generation's steps compute. Raises MemoryBudgetError if the arena is too small."""
    if plan.arena == "none":
        yield Fresh()
        return
    search = options_of_step(options)
    make = functools.partial(step_plan, model, plan, extent, search)
    arena = Arena(make()) if arena is None else arena
    with arena.lend(arena.plan_for(extent, (model, plan, search), make)) as places:
        yield places
