"""A field of `Plan` for each row of the catalog; docs/write_ops.py writes this file."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class PlanRows:
    """What runs for each row; None leaves it to the plan's base."""

    ngram: str | None = None
    bias: str | None = None
    penalty: str | None = None
    linear: str | None = None
    epilogue: str | None = None
    linear_int8: str | None = None
    norm: str | None = None
    heads: str | None = None
    rotation: str | None = None
    append: str | None = None
    prefill: str | None = None
    cross_kv: str | None = None
    embedding: str | None = None
    activation: str | None = None
    split: str | None = None
    shared: str | None = None
    grouped: str | None = None
    el: str | None = None
    el_split: str | None = None
    reorder: str | None = None
    indirect: str | None = None
    indirection: str | None = None
    paged_append: str | None = None
    paged: str | None = None
    pages: str | None = None
    sequences: str | None = None
    beam_update: str | None = None
    finished: str | None = None
    flags: str | None = None
    extend: str | None = None
    softmax: str | None = None
    beam_scores: str | None = None
    rolling: str | None = None
    candidates: str | None = None
    hars: str | None = None
    temperature: str | None = None
    top_k: str | None = None
    top_p: str | None = None
    typical: str | None = None
    argmax: str | None = None
    sample: str | None = None
    gather: str | None = None
    random: str | None = None
    arena: str | None = None
