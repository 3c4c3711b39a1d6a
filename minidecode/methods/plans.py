"""The plan of a call, settled for this model, and the engine that runs it."""

from __future__ import annotations

import dataclasses

import numpy as np

from ..errors import OptionError
from ..options.options import Options
from ..plan import Plan
from ..runtime.arena import Arena, Extent, Fresh, Places
from ..runtime.buckets import Buckets
from ..runtime.cpu_graphs import CapturedOnCpu
from ..runtime.engine import Engine
from ..runtime.guidance import GuidedEngine
from ..runtime.receipt import CostOf, CountedOps
from ..search.candidates import option_against_hars
from ..search.compiled import load_or_reason_for_numpy, rows_of_generation, work_of_search
from .drafts import PlannedDraft, check_context, with_drafts
from .loaded import LoadedModel


def with_arena(model: LoadedModel, plan: Plan, arena: Arena | None) -> Plan:
    """The plan, with arena=planned where a call brings an arena. Raises OptionError on one of another device."""
    if arena is None:
        return plan
    if not isinstance(arena, Arena):
        raise OptionError(f"arena must be an Arena, made of plans of plan_step, not {arena!r}")
    if arena.device != model.device:
        where = f"the arena is for device={arena.device}, and this model lies on device={model.device}"
        raise OptionError(f"{where}: make one of this model's plans")
    return dataclasses.replace(plan.on(model.device), arena="planned") if plan.arena == "none" else plan


def resolve_plan(model: LoadedModel, plan: Plan, options: Options, extent: Extent) -> tuple[Plan, str]:
    """The plan that a call runs, and for the plan `auto` why; hars=auto depends on the options alone."""
    chosen = ""
    plan = plan.on(model.device)
    if plan.base == "auto":
        reason = why_numpy(model, extent, options)
        plan = Plan("fast" if reason is None else "numpy")
        chosen = "auto: compiled code, which was on disk" if reason is None else f"auto: NumPy ({reason})"
    if options.tokens_ahead:
        plan = with_drafts(plan)
    return plan.resolve_auto(["hars"] if options.num_beams == 1 or option_against_hars(options) else []), chosen


def planned_draft(draft: LoadedModel | None, options: Options, extent: Extent) -> PlannedDraft | None:
    """The draft model of a call, if there is one. Raises InputError where it cannot read texts of this extent."""
    if draft is None:
        return None
    check_context(draft, extent)
    return PlannedDraft(draft, resolve_plan(draft, draft.plan, options, extent)[0])


def why_numpy(model: LoadedModel, extent: Extent, options: Options) -> str | None:
    """Why the plan `auto` runs NumPy's code in a generation; None where compiled code is there and pays."""
    work = work_of_search(model.parameters, model.weights, model.dtype, extent, options)
    rows = rows_of_generation(options, model.has_encoder, model.is_rotary)
    return load_or_reason_for_numpy(model.weights, model.dtype, work, rows)


def engine_of(
    model: LoadedModel, plan: Plan, places: Fresh | Places | None = None, costs: bool | CostOf = False,
    negatives: list[np.ndarray] | None = None, refused: str = "",
) -> Engine:  # fmt: skip
    """What runs a generation under this plan. refused: why no step is captured on the CPU."""
    functions, make_cache = plan.resolve(device=model.device, **model.plan_traits)
    ops, drop_finished = CountedOps(functions, places, costs), plan.drop_finished == "on"
    buckets = passes = None
    captures, on_cpu = plan.captures(model.device), None
    if model.device == "cpu" and plan.captures_on_cpu:
        of_plan = "memory is planned" if plan.arena != "none" else "costs are noted" if costs else ""
        on_cpu = CapturedOnCpu(of_plan or refused)
    elif captures and not costs:  # whose models look at lengths, at each step anew
        # A kept step writes into no arena of another call.
        buckets = Buckets(model.device) if plan.arena != "none" else model.buckets
        passes = model.passes if plan.arena == "none" else None
    args = model.network, model.weights, ops, make_cache, drop_finished, model.device, buckets, on_cpu, passes
    engine = GuidedEngine(*args, negative_prompts=negatives) if negatives else Engine(*args)
    if model.device != "cpu" and plan.graphs != "off" and buckets is None:
        engine.graphs.why_not = "costs are noted" if captures else f"cache={plan.cache} makes its arrays anew"
    return engine
