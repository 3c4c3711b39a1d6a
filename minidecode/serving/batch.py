"""A running batch: rows of many requests that share the forward pass of each step."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..cache.factory import CacheFactory
from ..cache.pages import pages_for
from ..cache.preallocated import PreallocatedCache
from ..cache.queries import rows_a_token
from ..cache.running import RunningCache, RunningRows
from ..cache.running_pages import PagedRows, PagedRunningCache
from ..errors import OptionError
from ..methods.loaded import check_writes
from ..methods.plans import why_numpy
from ..options.options import Options
from ..plan import BASES, Plan
from ..runtime.arena import Extent
from ..runtime.engine import Engine
from ..runtime.receipt import CountedOps

if TYPE_CHECKING:
    from ..model import Model

LONG_USE = Extent(8, 256, 256, 256, 512)  # what a batch computes at the least, for the plan `auto` to choose by


class Batch:
    """The rows that run. A request has one row per beam, or per text that it samples, one behind the other.

    Rows are tokens: a step computes one token of each row, whatever request the row belongs to. What a row attends to
    is its own, so no answer depends on who its neighbours are, up to the last bits of sums.
    """

    def __init__(
        self, model: Model, plan: Plan, rows: int, positions: int, source_positions: int, pages: int | None = None
    ):
        """rows: how many may run at most; positions: tokens of a text at most; source_positions: of a source.

        pages: of 16 positions, which all rows share, with cache=paged; by default enough for a quarter of all rows.
        """
        refuse_unsupported_model(model)
        self.model, self.plan = model, plan
        functions, factory = plan.resolve(device=model.device, **model.traits)
        self.ops, self.make_cache = CountedOps(functions), CacheFactory(PreallocatedCache, factory.stored_as)
        self.rows: RunningRows
        if plan.cache == "paged":
            each = pages_for(positions, PagedRows.page) + 1
            pages = max(each, rows * each // 4) if pages is None else pages
            self.rows = PagedRows(rows, positions, source_positions, pages)
            self.caches = [PagedRunningCache(block, self.rows) for block in model.weights.blocks]
        elif pages is None:
            self.rows = RunningRows(rows, positions, source_positions)
            self.caches = [RunningCache(block, self.rows) for block in model.weights.blocks]
        else:
            raise OptionError("pages changes nothing without cache=paged: add it to the plan, or leave pages out")
        self.steps = self.rows_computed = self.most_rows = self.most_requests = 0

    def engine(self) -> Engine:
        """Reads prompts and sources before they join."""
        return Engine(self.model.network, self.model.weights, self.ops, self.make_cache)

    def read(self, texts: list[np.ndarray], sources: list[np.ndarray]) -> tuple[np.ndarray, Engine]:
        """(logits after each text, the engine that has read them): all in one forward pass, without padding."""
        engine = self.engine()
        if sources:
            engine.encode(sources)
        return engine.prefill(texts), engine

    def join(self, engine: Engine, which: Sequence[int], lengths: list[int], source_lengths: list[int]) -> slice:
        """The texts `which` that an engine has read become rows -> these rows. A text may be named several times.

        lengths: tokens of the texts, row by row, which the next step reads one more of.
        """
        rows = self.rows.join(list(which), lengths, source_lengths)
        for cache, read in zip(self.caches, engine.caches, strict=True):
            cache.join(read, list(which), rows.start)
        self.most_rows = max(self.most_rows, self.rows.number)
        return rows

    def keep_only(self, stays_R: np.ndarray) -> None:
        """From here on there are these rows alone, in this order, which is that of the batch."""
        if len(stays_R) < self.rows.number:
            for cache in self.caches:
                cache.keep_only(stays_R)
            self.rows.keep_only(stays_R)

    def reorder(self, rows: slice, parent_X: np.ndarray) -> None:
        """The rows of one request go on from these of its rows, counted from its first."""
        self.rows.reorder(rows, parent_X)
        for cache in self.caches:
            cache.reorder(self.ops, rows, parent_X)

    def step(self, token_R: np.ndarray, length_R: np.ndarray) -> np.ndarray:
        """logits_RV after each row's newest token, which makes its text so long."""
        self.rows.step(length_R)
        weights = self.model.weights
        h_RD = self.model.network.forward(weights, token_R, length_R - 1, self.caches, self.ops)
        self.steps += 1
        self.rows_computed += len(token_R)
        return self.model.network.lm_head(weights, h_RD, self.ops)


def refuse_unsupported_model(model: Model) -> None:
    """Raises OptionError on a model whose rows cannot join a running batch."""
    check_writes(model)
    reason = ""
    if model.device != "cpu":
        reason = f"on device={model.device}"
    elif model.has_latent:
        reason = "with a latent"
    elif model.reads_in_front:
        reason = "that reads its sources in front of its texts"
    elif rows_a_token(model.weights) == 2:
        reason = "that predicts by query rows"
    if reason:
        raise OptionError(f"a {model.family} model {reason} cannot join a running batch: call generate instead")


def settled_plan(model: Model, plan: str | Plan | None) -> Plan:
    """The plan of a running batch, whose cache is its own. Raises OptionError on choices that have no effect there."""
    plan = model.plan if plan is None else Plan.parse(plan)
    if plan.base == "auto":
        plan = Plan("fast" if why_numpy(model, LONG_USE, Options(max_new_tokens=1)) is None else "numpy")
    if plan.cache not in (BASES[plan.base]["cache"], "preallocated", "paged") or plan.base == "naive":
        raise OptionError(f"plan: cache={plan.cache} has no effect in a running batch, which has its own: leave it out")
    if plan.arena != "none":
        raise OptionError(f"plan: arena={plan.arena} has no effect in a running batch: leave it out")
    choices = {f.name: getattr(plan, f.name) for f in dataclasses.fields(plan) if f.name != "base"}
    choices = {name: choice for name, choice in choices.items() if choice != plan._of_base(name)}
    cache = "paged" if plan.cache == "paged" else "preallocated"
    return Plan(plan.base, **choices | {"cache": cache, "graphs": "off"}).settled([])
