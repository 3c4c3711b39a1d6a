"""A running batch: rows of many requests that share the forward pass of each step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..cache.cross import DecoderCache
from ..cache.factory import CacheFactory
from ..cache.padding import offsets_from_lengths
from ..cache.parts import Part, PartCache
from ..cache.preallocated import PreallocatedCache
from ..cache.running import RunningCache, RunningRows
from ..plan import Plan
from ..runtime.cpu_graphs import CapturedByRows
from ..runtime.engine import Engine
from ..runtime.receipt import CountedOps

if TYPE_CHECKING:
    from ..model import Model


class Batch:
    """The rows of all requests. A request has one per beam, or per text that it samples, one behind the other.

    Rows are tokens: a step computes one token of each row that runs, whatever request the row belongs to. What a row
    attends to is its own, so no answer depends on who its neighbours are, up to the last bits of sums.
    """

    def __init__(self, model: Model, plan: Plan, rows: int, pages: int | None, captured: int):
        """rows: how many may run at most, of texts, and sources, as long as the model holds.

        pages: of 16 positions, which all rows share, with cache=paged; by default enough for a quarter of all rows.
        captured: rows of the largest step that is captured.
        """
        positions, source_positions = model.config.context, model.config.source_context if model.has_encoder else 0
        self.model = model
        functions, factory = plan.resolve(device=model.device, **model.plan_traits)
        self.ops, self.make_cache = CountedOps(functions), CacheFactory(PreallocatedCache, factory.stored_as)
        kind = factory.kind.running_kind  # `plan_of_running_batch` has chosen a cache that has one
        self.rows: RunningRows = kind.rows_kind(rows, positions, source_positions, pages)
        self.caches: list[RunningCache] = [kind(block, self.rows) for block in model.weights.blocks]
        self.captured = CapturedByRows("" if plan.graphs != "off" else "the plan says graphs=off", captured)
        self.steps = self.rows_computed = self.most_rows = self.most_requests = 0
        self.tokens_read = self.tokens_reused = 0

    def read(self, parts: list[Part], sources: list[np.ndarray]) -> np.ndarray:
        """logits_XV after each part of a text: all parts in one forward pass, without padding.

        sources: of each part, in a model with an encoder. There a part is a whole text.
        """
        model, lengths = self.model, [part.last - part.first for part in parts]
        ids_R = np.concatenate([part.ids[part.first : part.last] for part in parts])
        pos_R = np.concatenate([np.arange(part.first, part.last) for part in parts])
        caches: list[Any] = [
            PartCache(block, cache, parts, self.make_cache.stored_as)
            for block, cache in zip(model.weights.blocks, self.caches, strict=True)
        ]
        if sources:
            caches = self._with_sources(caches, sources, parts)
        h_XD = model.network.forward(
            model.weights, ids_R, pos_R, caches, self.ops, offsets_from_lengths(lengths)[1:] - 1
        )
        for part in parts:
            self.rows.note_read(part)
        self.tokens_read += len(ids_R)
        return model.network.lm_head(model.weights, h_XD, self.ops)

    def _with_sources(self, caches: list[Any], sources: list[np.ndarray], parts: list[Part]) -> list[Any]:
        """Each layer's cache and that of the sources, which the encoder reads here."""
        engine = Engine(self.model.network, self.model.weights, self.ops, self.make_cache)
        engine.encode(sources)
        crosses = self.make_cache.make_source_caches(self.ops, self.model.weights, engine.source, caches[0].offsets_X)
        for cache, cross in zip(self.caches, crosses, strict=True):
            cross.cast_to_stored()
            assert cache.cross is not None
            cache.cross.write(cross, parts)
        return [DecoderCache(*both) for both in zip(caches, crosses, strict=True)]

    def keep_only(self, stays_R: np.ndarray) -> None:
        """Keeps these rows alone, in this order."""
        if not np.array_equal(stays_R, np.arange(self.rows.number)):
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
        self.rows.begin_step(length_R)
        for cache in self.caches:
            cache.copy_shared_pages(self.ops)
        self.steps += 1
        self.rows_computed += len(token_R)
        return self.captured(self.ops, self._forward, token_R, self.rows.last_R[: len(token_R)])

    def _forward(self, token_R: np.ndarray, pos_R: np.ndarray) -> np.ndarray:
        weights, network = self.model.weights, self.model.network
        return network.lm_head(weights, network.forward(weights, token_R, pos_R, self.caches, self.ops), self.ops)
