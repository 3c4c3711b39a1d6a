"""A generation in three parts: what is asked is prepared, a search runs, and its outcome is reported."""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..device.blas_threads import few_blas_threads
from ..device.kernels import Loading, noted_loading
from ..device.launch import counted_launches
from ..errors import InputError, NumericalError, OptionError
from ..files.tokenizer import Tokenizer
from ..options.options import Options
from ..options.stop_strings import NewText
from ..plan import Plan
from ..runtime.arena import Arena, Extent, Fresh, Places
from ..runtime.draws import check_sample_ids
from ..runtime.engine import Engine
from ..runtime.guidance import GuidedEngine
from ..runtime.inputs import extent_of, token_callback
from ..runtime.kept import Kept
from ..runtime.output import Output, check_logprobs
from ..runtime.receipt import CostOf, DraftCounts, Receipt
from ..runtime.trace import Trace
from ..search.beam import beam_search
from ..search.compiled import timing_compilations
from ..search.constraints import Constraint
from ..search.greedy import greedy_search
from ..search.result import Found, Request
from ..search.speculative import speculative_search
from ..search.stopping import Stopping
from .drafts import PlannedDraft, drafted_engine, drafter_of, options_with_draft
from .latents import latents_of
from .loaded import LoadedModel, explain_nan
from .memory import check_memory, places_of
from .plans import engine_of, planned_draft, resolve_plan, with_arena
from .scoring import score_new_tokens


@dataclass(frozen=True)
class Call:
    """A generation that has been checked and may begin."""

    started: float  # by time.perf_counter
    options: Options
    request: Request
    sources: list[np.ndarray]  # of an encoder-decoder model
    prompts: list[np.ndarray]
    z_BZ: np.ndarray | None  # latents
    negatives: list[np.ndarray] | None  # negative prompts
    extent: Extent
    plan: Plan
    chosen: str  # for the plan `auto`, why it is this one
    on_token: Callable[[int, int], None] | None
    at_end: Callable[[], None] | None
    seconds: dict[str, float]  # by stage; the next stages add theirs
    kept: Kept | None  # what the output keeps of every step; the search fills it
    draft: PlannedDraft | None  # the model that guesses the next tokens


@dataclass(frozen=True)
class Outcome:
    """What a search has found, and what ran it."""

    texts: Found
    engine: Engine
    places: Fresh | Places
    launches: dict[str, int]
    compile_seconds: float
    trace: Trace | None
    loading: Loading


def prepare(
    model: LoadedModel, options: Options, started: float, *, prompts: Any, input_ids: Any, attention_mask: Any,
    prefix_tokens: Any, negative_prompt: Any, negative_prompt_ids: Any, latent: Any, latent_seed: int | None,
    plan: str | Plan | None, arena: Arena | None, truncate: bool, return_full_text: bool, logprobs: int | None,
    streamer: Any, sample_ids: Any, memory_budget: int | str | None, keep: Sequence[str], draft: LoadedModel | None,
    trace: bool,
) -> Call:  # fmt: skip
    """Reads and checks what `generate` is given, and settles the plan. The arguments are those of `Model.generate`."""
    options = options_with_draft(model, draft, options)
    if options.tokens_ahead and (trace or keep):
        raise OptionError("trace and keep note one token a step, and drafts give several: leave one out")
    if return_full_text:
        check_full_text(model)
    check_logprobs(logprobs, model.config.generated_vocab_size)
    sources, ids, limit_B = model.inputs.fit_call(prompts, input_ids, attention_mask, options, truncate)
    prefixes = model.inputs.prefixes(prefix_tokens, len(ids))
    if sample_ids is not None:
        check_sample_ids(sample_ids, len(ids))
    z_BZ = latents_of(model, latent, latent_seed, ids, sample_ids)
    stopping = make_stopping(model, options, started)
    constraint = constraint_of(model, options, ids, limit_B, prefixes)
    kept = Kept.make(keep, len(ids), options)
    request = Request.make(ids, limit_B, options, sources, prefixes, sample_ids, stopping, constraint)
    negatives = model.inputs.negative_prompts(negative_prompt, negative_prompt_ids, ids, limit_B, options, truncate)
    extent = extent_of(sources, ids, limit_B, negatives)
    on_token, at_end = token_callback(streamer, ids, options) if streamer is not None else (None, None)
    tokenized = time.perf_counter()

    plan = with_arena(model, model.plan if plan is None else Plan.parse(plan), arena)
    plan, chosen = resolve_plan(model, plan, options, extent)
    planned = planned_draft(draft, options, extent)
    if negatives and plan.arena != "none":
        raise OptionError("guidance_scale needs arena=none: a planned step has no place for the second prediction")
    seconds = {"prompts": tokenized - started}
    if chosen and plan.base == "fast":
        seconds["code"] = time.perf_counter() - tokenized
    check_memory(model, plan, extent, options, arena, memory_budget, logprobs, keep, planned)
    return Call(
        started, options, request, sources, ids, z_BZ, negatives, extent, plan, chosen, on_token, at_end, seconds, kept,
        planned,
    )  # fmt: skip


def search(model: LoadedModel, call: Call, *, arena: Arena | None, trace: bool, costs: bool | CostOf) -> Outcome:
    """Runs the search. Raises NumericalError on NaN scores, with where they may come from."""
    plan, options, steps = call.plan, call.options, Trace() if trace else None
    try:
        with (
            few_blas_threads(model.is_small),
            timing_compilations(plan.may_compile) as compiling,
            places_of(model, plan, arena, call.extent, options) as places,
            counted_launches() as launches,
            noted_loading() as loading,
        ):
            if plan.arena != "none":
                call.seconds["plan"] = time.perf_counter() - call.started - call.seconds["prompts"]
            if options.tokens_ahead:
                engine, texts = _with_drafts(model, call, costs)
            else:
                engine, texts = _without_drafts(model, call, places, costs, steps)
            if call.at_end is not None:
                call.at_end()
    except NumericalError as error:
        raise NumericalError(f"{error}{explain_nan(model, plan)}") from None
    call.seconds.update(engine.seconds)
    call.seconds["search"] = time.perf_counter() - call.started - sum(call.seconds.values())
    return Outcome(texts, engine, places, dict(launches), sum(compiling), steps, loading)


def _with_drafts(model: LoadedModel, call: Call, costs: bool | CostOf) -> tuple[Engine, Found]:
    """(what ran it, what it found) of a search that checks several guessed tokens a step."""
    engine, drafter = drafted_engine(model, call.plan, costs), drafter_of(call.options, call.draft)
    return engine, speculative_search(engine, call.request, call.options, drafter, call.on_token)


def _without_drafts(
    model: LoadedModel, call: Call, places: Fresh | Places, costs: bool | CostOf, steps: Trace | None
) -> tuple[Engine, Found]:
    """(what ran it, what it found) of a search that chooses one token a step."""
    options, request = call.options, call.request
    has_functions = options.logits_processor or options.stopping_criteria
    refused = (
        "a trace is kept" if steps or call.kept else "a function of yours is given scores" if has_functions else ""
    )
    engine = engine_of(model, call.plan, places, costs, call.negatives, refused)
    if isinstance(engine, GuidedEngine):
        request = dataclasses.replace(request, guide=engine)
    if call.sources:
        engine.encode(call.sources)
    if call.z_BZ is not None:
        engine.read_latent(call.z_BZ)
    if options.num_beams == 1:
        texts = greedy_search(engine, request, options, call.on_token, steps, call.kept)
    else:
        texts = beam_search(engine, request, options, steps, call.kept)
    engine.give_back_bucket()
    return engine, texts


def report(model: LoadedModel, call: Call, outcome: Outcome, *, logprobs: int | None, return_full_text: bool) -> Output:
    """What `generate` returns: the texts, their log-probabilities if they were asked for, and the receipt."""
    options, request, engine, places, seconds = call.options, call.request, outcome.engine, outcome.places, call.seconds
    token_ids = [hypothesis for sentence in outcome.texts.tokens for hypothesis in sentence]
    counts, log_probs = outcome.texts.drafts, None
    if logprobs is not None:
        goes_on = options.remove_invalid_values  # where the model's scores are NaN
        log_probs = score_new_tokens(
            model, call.sources, call.prompts, token_ids, call.plan, logprobs, goes_on, call.z_BZ
        )
        seconds["logprobs"] = time.perf_counter() - call.started - sum(seconds.values())
    receipt = Receipt(
        plan=str(call.plan), chosen=call.chosen, dtype=model.dtype, ops=engine.ops.counts(),
        cache=engine.make_cache.name(model.has_encoder),
        cache_peak_bytes=engine.cache_peak_bytes, arena_bytes=places.bytes, arena_placed_by=places.placed_by,
        prompt_tokens=sum(map(len, call.sources or call.prompts)),
        new_tokens=sum(map(len, token_ids)), steps=outcome.texts.steps, rows=engine.rows,
        graphs=engine.graphs,
        constraint=None if request.constraint is None else request.constraint.counts,
        drafts=None if counts is None else DraftCounts.sum(counts),
        drafted_by="" if counts is None else str(call.draft or "prompt lookup"),
        search=options.changed(), seconds=seconds, compile_seconds=outcome.compile_seconds, launches=outcome.launches,
        loading=outcome.loading,
    )  # fmt: skip
    limit_B, stopping = request.limit_B, request.stopping
    if stopping and stopping.cut_at is not None:
        limit_B = np.minimum(limit_B, stopping.cut_at)
    return Output(
        token_ids, outcome.texts.scores_BX.reshape(-1), receipt, model.tokenizer, limit_B, outcome.trace,
        log_probs=log_probs, kept=call.kept, drafts=counts,
        stop_strings=options.stop_strings, keep_stop_strings=options.keep_stop_strings,
        eos_token_id=options.eos_token_id, prompt_ids=None if call.sources else call.prompts,
        full_text=return_full_text,
    )  # fmt: skip


def check_full_text(model: LoadedModel) -> None:
    """Raises on return_full_text where no prompt is part of the text, or no tokenizer can write it."""
    if model.is_encoder_decoder:
        raise OptionError("return_full_text is for decoder-only models: a source is no part of the new text")
    if model.tokenizer is None:
        raise InputError("return_full_text needs a tokenizer, and this model folder has none: read token_ids")


def make_stopping(model: LoadedModel, options: Options, began: float) -> Stopping | None:
    """What ends texts beside EOS and limits, if the options ask for any of it."""
    if options.stop_strings and model.tokenizer is None:
        raise InputError(
            f"stop_strings needs a tokenizer, and this model folder has none: add its {model.inputs.tokenizer_files}"
        )
    if not (options.stop_strings or options.stopping_criteria or options.max_time):
        return None
    if model.tokenizer is None:
        return Stopping(options, None, began=began)
    tail = model.tokenizer.most_tokens(max(map(len, (s.encode() for s in options.stop_strings)), default=0))
    if model.config.vocab_size > model.tokenizer.size:  # ids that stand for no text may lie in between
        tail = None
    new_text = model.tokenizer.new_text
    if model.is_encoder_decoder:  # a target's text stands behind nothing
        new_text = functools.partial(_text_alone, model.tokenizer)
    named = model.tokenizer.special_tokens_named_in(options.stop_strings, model.tokenizer.special_ids)
    textless = [i for i in model.tokenizer.special_ids if i not in named]
    return Stopping(options, new_text, textless, tail, began)


def _text_alone(tokenizer: Tokenizer, before: np.ndarray, ids: np.ndarray, stops: Sequence[str]) -> NewText:
    """The text of a target's ids."""
    return tokenizer.new_text((), ids, stops)


def constraint_of(model: LoadedModel, options: Options, prompts_ids, limit_B, prefixes=None) -> Constraint | None:
    """What new texts must match, if the options ask for it. Raises OptionError where no match fits into a limit."""
    constraint = Constraint.make(options, model.tokenizer, model.config.generated_vocab_size)
    if constraint is not None:
        constraint.check_limits(limit_B, map(len, prompts_ids))
        constraint.check_prefixes(prefixes or (), limit_B)
    return constraint
