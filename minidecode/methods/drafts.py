"""Drafts in a call of `generate`: which models and plans have them, and what runs them."""

from __future__ import annotations

import dataclasses
import hashlib
import weakref
from typing import NamedTuple

from ..cache.drafted import DraftedCache
from ..cache.factory import CacheFactory
from ..cache.queries import rows_per_token
from ..errors import InputError, OptionError
from ..files.tokenizer import Tokenizer
from ..options.options import Options
from ..plan import BASES, Plan
from ..runtime.arena import Extent
from ..runtime.drafted import DraftCheckingEngine
from ..runtime.receipt import CostOf, CountedOps
from ..search.drafts import Drafter, DraftModel, PromptLookup
from .loaded import LoadedModel

_hashes: weakref.WeakKeyDictionary[Tokenizer, bytes] = weakref.WeakKeyDictionary()


class PlannedDraft(NamedTuple):
    """A draft model, and the plan that it runs under."""

    model: LoadedModel
    plan: Plan

    def __str__(self) -> str:
        return f"{self.model.family} of {self.model.parameters / 1e6:.1f} million parameters, plan {self.plan}"


def options_with_draft(model: LoadedModel, draft: LoadedModel | None, options: Options) -> Options:
    """The options of a call that may have drafts. Raises OptionError where they cannot be."""
    if draft is None:
        if options.num_assistant_tokens:
            raise OptionError("num_assistant_tokens changes nothing without a draft model: give draft, or leave it out")
        if options.tokens_ahead:
            _check_kind(model, "this model")
        return options
    if not isinstance(draft, LoadedModel):
        raise OptionError(f"draft must be a loaded model, such as load('tiny-gpt2-mqa'), not {draft!r:.80}")
    options = options.with_draft_model()
    for one, name in ((model, "this model"), (draft, "the draft")):
        _check_kind(one, name)
    if not have_same_tokens(model, draft):
        raise OptionError(
            "the draft has another vocabulary than the model, so its ids mean other texts: choose a draft with the "
            "model's tokenizer"
        )
    return options


def _check_kind(model: LoadedModel, name: str) -> None:
    """Raises OptionError on a model that cannot read several new tokens behind a cache."""
    reason = ""
    if model.device != "cpu":
        reason = f"lies on device={model.device}, where each step has the same number of rows"
    elif model.is_encoder:
        reason = "is an encoder, and writes no text"
    elif model.is_encoder_decoder:
        reason = "answers a source, and drafts are for models that continue texts"
    elif model.has_latent:
        reason = "has a latent in front of each text"
    elif rows_per_token(model.weights) == 2:
        reason = "predicts by query rows"
    if reason:
        raise OptionError(f"drafts cannot be used, for {name} ({model.family}) {reason}: leave them out")


def have_same_tokens(model: LoadedModel, draft: LoadedModel) -> bool:
    """Whether ids mean the same to both: as many of them, and the same texts, as far as both have tokenizers."""
    if model.config.generated_vocab_size != draft.config.generated_vocab_size:
        return False
    if model.tokenizer is None or draft.tokenizer is None:
        return True
    return _hash_of_vocabulary(model.tokenizer) == _hash_of_vocabulary(draft.tokenizer)


def _hash_of_vocabulary(tokenizer: Tokenizer) -> bytes:
    """A hash of what all ids stand for. It takes a tenth of a second for GPT-2, once."""
    if tokenizer not in _hashes:
        texts = (tokenizer.token_bytes(i) or tokenizer.decode([i], keep_special=True) for i in range(tokenizer.size))
        _hashes[tokenizer] = hashlib.blake2b(repr(list(texts)).encode("utf-8", "replace")).digest()
    return _hashes[tokenizer]


def check_context(draft: LoadedModel, extent: Extent) -> None:
    """Raises InputError where a text may become longer than what the draft can read."""
    if extent.text_tokens > draft.config.context + 1:  # the last token is not read
        raise InputError(
            f"a text may have {extent.text_tokens} tokens, and the draft reads {draft.config.context}: ask for fewer "
            "new tokens, or choose another draft"
        )


def with_drafts(plan: Plan) -> Plan:
    """The plan where tokens are drafted: over pages, which the rows of one text share. Raises OptionError."""
    if plan.cache != BASES[plan.base]["cache"] and not plan.cache_kind(has_encoder=False).shares_pages:
        raise OptionError(
            f"plan: cache={plan.cache} has no effect with drafts, whose rows share pages: say cache=paged"
        )
    if plan.arena != "none":
        raise OptionError(
            f"plan: arena={plan.arena} has no effect with drafts, whose steps differ in rows: leave it out"
        )
    return dataclasses.replace(plan, cache="paged", graphs="off")


def drafted_engine(model: LoadedModel, plan: Plan, costs: bool | CostOf = False) -> DraftCheckingEngine:
    """What reads drafts under this plan."""
    functions, factory = plan.resolve(device=model.device, **model.plan_traits)
    make_cache = CacheFactory(DraftedCache, factory.stored_as)
    return DraftCheckingEngine(model.network, model.weights, CountedOps(functions, None, costs), make_cache)


def drafter_of(options: Options, draft: PlannedDraft | None) -> Drafter:
    """What drafts: the model under its plan, or a lookup."""
    return PromptLookup(options) if draft is None else DraftModel(drafted_engine(*draft), options)
