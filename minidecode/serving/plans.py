"""What can run in a running batch: models, plans and requests, each refused with the reason."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..cache.queries import rows_per_token
from ..errors import MemoryBudgetError, OptionError, shown
from ..methods.loaded import refuse_encoder_alone, refuse_other_than_model
from ..methods.plans import why_numpy
from ..options.checks import Whole
from ..options.options import Options
from ..plan import BASES, Plan
from ..runtime.arena import Extent
from ..runtime.footprint import footprint, format_bytes
from .jobs import Job

if TYPE_CHECKING:
    from ..model import Model

LONG_USE = Extent(8, 256, 256, 256, 512)  # what a batch computes at least, for the plan `auto` to choose by


def check_limits(max_rows: int, max_prefill_tokens: int, max_waiting: int | None) -> None:
    """Raises OptionError on what is no number of rows, tokens or requests."""
    Whole(1)("max_rows", max_rows)
    Whole(1)("max_prefill_tokens", max_prefill_tokens)
    Whole(may_be_none=True)("max_waiting", max_waiting)


def checked_requests(function: str, jobs: Sequence[Job]) -> Sequence[Job]:
    """The requests as they are given. Raises OptionError on what is no list of them."""
    wrong = [job for job in jobs if not isinstance(job, Job)] if isinstance(jobs, Sequence) else [jobs]
    if wrong:
        raise OptionError(f"{function} takes requests that submit or make_job returned, not {shown(wrong[0])}")
    return jobs


def refuse_unsupported_model(model: Model) -> None:
    """Raises OptionError on a model whose rows cannot join a running batch."""
    refuse_other_than_model("Scheduler", model)
    refuse_encoder_alone(model)
    reason = ""
    if model.device != "cpu":
        reason = f"on device={model.device}"
    elif model.has_latent:
        reason = "with a latent"
    elif model.reads_in_front:
        reason = "that reads its sources in front of its texts"
    elif rows_per_token(model.weights) == 2:
        reason = "that predicts by query rows"
    if reason:
        raise OptionError(f"a {model.family} model {reason} cannot join a running batch: call generate instead")


def plan_of_running_batch(model: Model, plan: str | Plan | None, pages: int | None) -> Plan:
    """The plan of a running batch, whose cache is its own.

    Raises OptionError on choices that have no effect there, and on a model whose rows cannot join it.
    """
    refuse_unsupported_model(model)
    plan = model.plan if plan is None else Plan.parse(plan)
    if plan.base == "auto":
        plan = Plan("fast" if why_numpy(model, LONG_USE, Options(max_new_tokens=1)) is None else "numpy")
    kind = plan.cache_kind(model.has_encoder)
    has_running_kind = "running_kind" in vars(kind)  # of its own: a cache derived from another holds something else
    if (not has_running_kind and plan.cache != BASES[plan.base]["cache"]) or plan.base == "naive":
        raise OptionError(f"plan: cache={plan.cache} has no effect in a running batch, which has its own: leave it out")
    Whole(1, may_be_none=True)("pages", pages)
    if pages is not None and not kind.shares_pages:
        raise OptionError("pages changes nothing without cache=paged: add it to the plan, or leave pages out")
    if plan.arena != "none":
        raise OptionError(f"plan: arena={plan.arena} has no effect in a running batch: leave it out")
    if not has_running_kind:
        plan = dataclasses.replace(plan, cache="preallocated")
    return plan.resolve_auto([])


def budget_of_requests(model: Model, plan: Plan, budget: int | None, captured: int) -> int | None:
    """What captured steps leave of a budget for requests.

    Raises MemoryBudgetError if not even one new token behind a prompt of one fits.
    """
    if budget is None:
        return None
    smallest = Extent(1, int(model.has_encoder), 1, 1, 2)
    needed = footprint(model, plan, smallest, Options(max_new_tokens=1)).total
    if needed > budget - captured:
        raise MemoryBudgetError(
            f"no request fits: the smallest may take {format_bytes(needed)}, and"
            f" {format_bytes(budget - captured)} may be used:"
            " raise the memory budget (--memory-budget, memory_budget=)"
        )
    return budget - captured
