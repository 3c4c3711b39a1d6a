"""What a loaded model does: generate, score, logits, and the plans and bounds of a call."""

from __future__ import annotations

import copy
import dataclasses
import functools
import inspect
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Unpack

import numpy as np

from .cache.factory import CacheFactory
from .cache.no_cache import NoCache
from .device.arrays import fetch, moved_to
from .device.blas_threads import few_blas_threads, products_are_small
from .device.launch import counted_launches
from .device.low_precision import DYNAMIC, LOW_PRECISION, each_weight, joined, read_only, stored_as
from .errors import CheckpointError, InputError, NumericalError, OptionError
from .files.chat import Message
from .files.folder import chosen_defaults
from .files.sentence_settings import SentenceSettings
from .files.tokenizer import TextStream, Tokenizer
from .files.tokenizer_kinds import TOKENIZER_KINDS
from .models import FAMILIES, Family
from .plan import Plan, file_of
from .runtime.arena import Arena, Extent, Fresh, Places, StepPlan
from .runtime.buckets import Buckets
from .runtime.compiled import compile_time, reason_for_numpy, reason_for_numpy_to_encode
from .runtime.cpu_graphs import CapturedOnCpu
from .runtime.dry_run import dry_run, search_of
from .runtime.encoding import (
    Classified,
    Read,
    TokenLabel,
    as_texts,
    classified,
    fitted,
    normalized,
    read_ids,
    read_texts,
    rows_of,
    scores_of,
    token_labels,
    vectors,
)
from .runtime.engine import Engine
from .runtime.footprint import Footprint, check_fits, footprint, read_budget
from .runtime.guidance import GuidedEngine
from .runtime.inputs import Inputs, Texts, extent_of, token_callback
from .runtime.latents import Posterior, between, chosen_latents
from .runtime.output import LogProbs, Output, check_logprobs
from .runtime.prompts import fit_prompts, ids_and_mask, token_rows
from .runtime.receipt import CostOf, CountedOps, Receipt
from .runtime.scoring import Piece, Scores, checked_stride, score_pieces, target_pieces, text_pieces
from .runtime.streaming import Stream, StreamOptions
from .search.beam import beam_search
from .search.candidates import never_straight
from .search.constraints import Constraint
from .search.draws import check_sample_ids
from .search.greedy import greedy
from .search.option_types import GenerateOptions
from .search.options import Options, refuse_unsupported, resolve
from .search.result import Request
from .search.stopping import NewText, Stopping
from .search.trace import Trace

# What callers of transformers ask to have returned, and what gives it here.
RETURNED = {
    "return_dict_in_generate": "leave it out, and read its token_ids, scores and texts",
    "output_scores": "ask for trace=True, which keeps the candidates and scores of each step",
    "output_logits": "ask for logprobs, or call model.logits",
    "output_attentions": "minidecode explore shows attention",
    "output_hidden_states": "they are not kept",
}


class Model:
    """Weights, tokenizer and defaults, which no generation changes; and captured steps, which one has at a time.

    So threads may share a model.
    """

    def __init__(
        self, family: Family, config: Any, tensors: dict[str, np.ndarray], tokenizer: Tokenizer | None,
        defaults: dict[str, Any], plan: Plan,
        dtype: str | None = None, device: str = "cpu", defaults_from: str = "generation_config.json", prefix: str = "",
    ):  # fmt: skip
        self.device, self.defaults_from = device, defaults_from
        self.prefix = prefix  # what stands in front of each text: T5's "summarize: "
        self.config, self.tokenizer, self.defaults, self.plan = config, tokenizer, defaults, plan
        self.tensors, self.network, self.family = tensors, family.network, family.name
        self.sentences = SentenceSettings()  # how texts become vectors, of an encoder alone
        self.loaded_from: Any = None  # a loading.LoadedFrom, by which it is pickled
        self.weights = family.tensors.bind(config, tensors)
        self.parameters = sum(t.size for t in tensors.values())  # numbers in the weights, tied ones once
        self.dtype = dtype or str(next(iter(tensors.values())).dtype)  # as given to `load`
        if dtype in LOW_PRECISION:
            self._check_finite()
        by_outputs = dtype == "float32" and (plan.linear == "cpu" or device != "cpu")
        # EL reads the matrices of keys and values themselves, which packed ones would have to be copied for.
        packs_floats = dtype == "float32" and plan.base == "fast" and plan.linear == "cpu" and plan.cache != "el"
        if device == "cpu" and (dtype in DYNAMIC or packs_floats):
            must = plan.base == "auto" or plan.linear_int8 == "cpu"
            self.weights = file_of("cpu.common", "packing").packed(dtype, self.weights, must)
        elif dtype is not None and (dtype in LOW_PRECISION or by_outputs):
            self.weights = stored_as(dtype, self.weights, packs=device == "cpu")
        else:
            self.weights = each_weight(self.weights, lambda place, weight: joined(weight))
        if dtype in LOW_PRECISION:
            self.tensors = {}  # the wide ones are dropped
        self.weights = read_only(self.weights) if device == "cpu" else moved_to(device, self.weights)
        self.inputs = self._inputs(family)
        self.is_small = products_are_small(self.weights)
        self.buckets = Buckets(device)

    def __repr__(self) -> str:
        return (
            f"Model({self.config.layers} layers of width {self.config.width}, {self.parameters / 1e6:.1f} million "
            f"parameters, dtype {self.dtype}, plan {self.plan}, on {self.device})"
        )

    def __copy__(self) -> Model:
        """A model on the same weights, which nothing changes, with defaults and captured steps of its own."""
        return _from_state(self._state() | {"defaults": copy.deepcopy(self.defaults)})

    def __deepcopy__(self, memo: dict[int, Any]) -> Model:
        return self.__copy__()

    def __reduce__(self) -> tuple[Callable[..., Model], tuple]:
        """Pickles by reference what was loaded of files that are still the same (see LoadedFrom), the rest by value."""
        if self.loaded_from is not None and self.loaded_from.is_unchanged():
            return self.loaded_from.load_again, (self.plan, self.defaults, self.defaults_from)
        return _from_state, (self._state(),)

    def _state(self) -> dict[str, Any]:
        """All that another model can take over: `_from_state` makes the rest anew."""
        own = {"network", "buckets", "inputs"}
        return {name: value for name, value in vars(self).items() if name not in own}

    @property
    def is_encoder_decoder(self) -> bool:
        """Whether texts given are sources that another text is generated from (BART, UniLM), or beginnings (GPT-2)."""
        return self.has_encoder or self.config.reads_in_front

    @property
    def has_encoder(self) -> bool:
        """Whether a decoder looks at what an encoder makes of sources (BART, T5)."""
        return hasattr(self.network, "encode")

    @property
    def is_encoder(self) -> bool:
        """Whether it reads texts and writes none (BERT)."""
        return not hasattr(self.network, "lm_head")

    @property
    def is_rotary(self) -> bool:
        """Whether queries and keys are turned by their positions (Llama)."""
        return hasattr(self.weights, "turns_NK")

    @property
    def has_latent(self) -> bool:
        """Whether a latent stands in front of each text (gpt2_latent)."""
        return hasattr(self.network, "latent")

    @property
    def traits(self) -> dict[str, Any]:
        """What plans depend on, beside the encoder and the device."""
        return {
            "dtype": self.dtype, "is_rotary": self.is_rotary, "has_latent": self.has_latent,
            "reads_in_front": self.config.reads_in_front,
        }  # fmt: skip

    def options(self, **given: Unpack[GenerateOptions]) -> Options:
        """The options that a call of `generate` with these would run under: generation_config.json fills the gaps.

        generation_config: a dict, the path of a JSON file, or False, in place of the model's defaults; as in `load`.
        Raises OptionError on an unknown name, a value that breaks a rule, or one that this model cannot serve.
        """
        self._check_it_writes()
        defaults, source = self.defaults, self.defaults_from
        own: dict[str, Any] = dict(given)
        if (config := own.pop("generation_config", None)) is not None:
            defaults, source = chosen_defaults(None, defaults, config)
        for name, instead in RETURNED.items():
            if own.pop(name, None):
                raise OptionError(f"{name}=True: generate always returns an Output; {instead}")
        if own.get("use_cache") is True:  # as every plan does that does not say cache=none
            del own["use_cache"]
        options = resolve(defaults, own, source)
        refuse_unsupported(defaults, options.do_sample, source)
        self._check_vocabularies(options)
        options = options.for_vocabulary(self.config.head_size)
        options.check_vocabulary(self.config.vocab_size)
        if self.config.head_size < self.config.vocab_size:
            options = options.for_head(self.config.head_size)
            options.check_beams(self.config.head_size)
        return options

    def _check_vocabularies(self, options: Options) -> None:
        """Raises OptionError on rules that look for the source's tokens in the target, where their ids differ."""
        off = {"encoder_repetition_penalty": 1.0, "encoder_no_repeat_ngram_size": 0}
        used = [name for name, value in off.items() if getattr(options, name) != value]
        if used and not self.config.shares_vocabulary:
            raise OptionError(
                f"{used[0]} needs one vocabulary of sources and targets, and this model has two: leave it out"
            )

    def tokenize(
        self, prompt: str, options: Options, *, truncate: bool | None = False, chat: bool = False
    ) -> np.ndarray:
        """The token ids of one prompt (or source) as `generate` would start from them, checked and cut.

        options: made by `options`. truncate: None where a caller cannot ask for it, so that errors do not name it.
        chat: the prompt is what a user says in a conversation. Raises InputError on a prompt that cannot be used.
        """
        ids = [self.inputs.encode_chat([{"role": "user", "content": prompt}])] if chat else None
        sources, prompts, limit_B = self.inputs.fitted(None if chat else prompt, ids, None, options, truncate)
        constraint = Constraint.make(options, self.tokenizer, self.config.head_size)
        if constraint is not None:
            try:
                constraint.check_limits(limit_B, map(len, prompts))
            except OptionError as error:
                raise InputError(str(error)) from None
        return (sources or prompts)[0]

    def check(
        self, prompts: Texts, *, truncate: bool = False, chat: bool = False, **options: Unpack[GenerateOptions]
    ) -> None:
        """Raises what `generate` would raise on these prompts and options, without computing anything.

        chat: each prompt is what a user says in a conversation.
        """
        resolved, ids = self.options(**options), None
        if chat:
            ids = [self.inputs.encode_chat([{"role": "user", "content": prompt}]) for prompt in prompts]
        _, prompts_ids, limit_B = self.inputs.fitted(None if chat else prompts, ids, None, resolved, truncate)
        self._constraint(resolved, prompts_ids, limit_B)
        self.inputs.negatives(None, None, prompts_ids, limit_B, resolved, truncate)

    def generate(
        self,
        prompts: Texts | None = None,
        *,
        input_ids: Any = None,
        attention_mask: Any = None,
        prefix_tokens: Sequence[Sequence[int]] | np.ndarray | None = None,
        negative_prompt: Texts | None = None,
        negative_prompt_ids: Any = None,
        latent: Any = None,
        latent_seed: int | None = None,
        plan: str | Plan | None = None,
        arena: Arena | None = None,
        truncate: bool = False,
        return_full_text: bool = False,
        logprobs: int | None = None,
        streamer: Callable[[int, int], None] | None = None,
        trace: bool = False,
        sample_ids: Sequence[int] | None = None,
        memory_budget: int | str | None = "available",
        costs: bool | CostOf = False,
        **options: Unpack[GenerateOptions],
    ) -> Output:
        """Continues each prompt, or for an encoder-decoder model answers each source.

            out = model.generate("Fellow citizens,", num_beams=4, max_new_tokens=40)
            print(out.texts[0], out.receipt)

        options: beams, sampling, lengths, stops. `help(minidecode.GenerateOptions)` lists them all.
            What is not given comes from generation_config.json.

        prompts: one text or several, or what a tokenizer of transformers returned. A sentence gives
            the same tokens alone and in any batch.
        input_ids, attention_mask: instead of prompts, lists of token ids, or an array (B, N) whose
            padding the mask (B, N) marks with 0.
        prefix_tokens: for each sentence the ids that its new text must begin with; -1 leaves a
            place free.
        negative_prompt, negative_prompt_ids: with guidance_scale, what texts shall not sound like:
            one for all, or one for each prompt; by default the prompt's last token alone.
        latent: for a model with a latent, Z numbers for all prompts, or an array (B, Z); by default
            zeros.
        latent_seed: draw a latent for each prompt instead.
        plan: overrides the one given to `load`.
        arena: where the steps keep what they compute, made of `plan_step`'s plans. Without it, a
            plan with arena=planned makes one for this call.
        truncate: cut what is too long for the context, prompts at their beginning, sources at their
            end.
        return_full_text: put the prompt, as the model read it, in front of each text; for
            decoder-only models.
        logprobs: note the log-probability of each new token, and of so many likeliest ones beside
            it (0: of none), by the model itself, before options change its scores. It takes one
            forward pass more over each text, as `score` does.
        streamer: called with (text number, token id) as tokens are chosen, or an object with put
            and end such as transformers' TextStreamer; not with a beam.
        trace: keep every step's candidates, scores, bans and parents in the output
            (search/trace.py).
        sample_ids: numbers that tell equal prompts apart when sampling; by default each copy in the
            call is another.
        memory_budget: bytes, or a text such as "2GB", that the call may take beside the weights;
            None sets no limit. By default it is what the machine has left, where it says so
            (Linux). What may take more (`footprint`) is refused before anything is computed.
        costs: note in the receipt what each call of an op takes at the least, by its cost model; or
            what your function of (op, implementation, arguments by name) says, a Cost. No step is
            captured then.

        Raises InputError on prompts that cannot be used, OptionError on options, MemoryBudgetError
        on what does not fit, NumericalError on NaN scores.
        """
        started = time.perf_counter()
        resolved = self.options(**options)
        if return_full_text:
            self._check_full_text()
        check_logprobs(logprobs, self.config.head_size)
        sources, prompts_ids, limit_B = self.inputs.fitted(prompts, input_ids, attention_mask, resolved, truncate)
        prefixes = self.inputs.prefixes(prefix_tokens, len(prompts_ids))
        if sample_ids is not None:
            check_sample_ids(sample_ids, len(prompts_ids))
        z_BZ = self._latents(latent, latent_seed, prompts_ids, sample_ids)
        stopping = self._stopping(resolved, started)
        constraint = self._constraint(resolved, prompts_ids, limit_B, prefixes)
        request = Request.make(prompts_ids, limit_B, resolved, sources, prefixes, sample_ids, stopping, constraint)
        negatives = self.inputs.negatives(
            negative_prompt, negative_prompt_ids, prompts_ids, limit_B, resolved, truncate
        )
        extent = extent_of(sources, prompts_ids, limit_B, negatives)
        on_token, at_end = token_callback(streamer, prompts_ids, resolved) if streamer is not None else (None, None)
        tokenized = time.perf_counter()

        plan = self._with_arena(self.plan if plan is None else Plan.parse(plan), arena)
        plan, chosen = self._settled(plan, resolved, extent)
        if negatives and plan.arena != "none":
            raise OptionError("guidance_scale needs arena=none: a planned step has no place for the second prediction")
        stages = {"prompts": tokenized - started}
        if chosen and plan.base == "fast":
            stages["code"] = time.perf_counter() - tokenized
        self._check_memory(plan, extent, resolved, arena, memory_budget, logprobs)

        steps = Trace() if trace else None
        try:
            with (
                few_blas_threads(self.is_small),
                compile_time(plan.is_compiled) as compiling,
                self._places(plan, arena, extent, resolved) as places,
                counted_launches() as launches,
            ):
                if plan.arena != "none":
                    stages["plan"] = time.perf_counter() - tokenized
                own = resolved.logits_processor or resolved.stopping_criteria
                refused = "a trace is kept" if trace else "a function of yours is given scores" if own else ""
                engine = self._engine(plan, places, costs, negatives, refused)
                if isinstance(engine, GuidedEngine):
                    request = dataclasses.replace(request, guide=engine)
                if sources:
                    engine.encode(sources)
                if z_BZ is not None:
                    engine.read_latent(z_BZ)
                if resolved.num_beams == 1:
                    found = greedy(engine, request, resolved, on_token, steps)
                else:
                    found = beam_search(engine, request, resolved, steps)
                engine.give_back()
                if at_end is not None:
                    at_end()
        except NumericalError as error:
            raise NumericalError(f"{error}{self._nan_tensors(plan)}") from None
        stages |= engine.seconds
        stages["search"] = time.perf_counter() - started - sum(stages.values())

        token_ids = [hypothesis for sentence in found.tokens for hypothesis in sentence]
        log_probs = None
        if logprobs is not None:
            goes_on = resolved.remove_invalid_values  # where the model's scores are NaN
            log_probs = self._log_probs(sources, prompts_ids, token_ids, plan, logprobs, goes_on, z_BZ)
            stages["logprobs"] = time.perf_counter() - started - sum(stages.values())
        receipt = Receipt(
            plan=str(plan), chosen=chosen, dtype=self.dtype, ops=engine.ops.counts(),
            cache=engine.make_cache.name(self.has_encoder),
            cache_peak_bytes=engine.cache_peak_bytes, arena_bytes=places.bytes, arena_placed_by=places.placed_by,
            prompt_tokens=sum(map(len, sources or prompts_ids)),
            new_tokens=sum(map(len, token_ids)), steps=found.steps, rows=engine.rows,
            graphs=engine.graphs,
            constraint=None if constraint is None else constraint.counts,
            search=resolved.changed(), seconds=stages, compile_seconds=sum(compiling), launches=dict(launches),
        )  # fmt: skip
        if stopping and stopping.cut_at is not None:
            limit_B = np.minimum(limit_B, stopping.cut_at)
        return Output(
            token_ids, found.scores_BX.reshape(-1), receipt, self.tokenizer, np.asarray(limit_B), steps,
            log_probs=log_probs,
            stop_strings=resolved.stop_strings, keep_stop_strings=resolved.keep_stop_strings,
            eos_token_id=resolved.eos_token_id, prompt_ids=None if sources else prompts_ids, full_text=return_full_text,
        )  # fmt: skip

    def chat(self, messages: Sequence[Message], **options: Unpack[StreamOptions]) -> Output:
        """Answers a conversation, which the chat template of the model's files puts into words.

            out = model.chat([{"role": "user", "content": "What is the capital of France?"}])
            print(out.texts[0])

        messages: each with a "role" ("system", "user", "assistant") and a "content". options: those of `generate`.
        The template is a program in the model's files. It runs in Jinja's sandbox, in a process of its own that may
        take a second and 256 MB; it needs the package jinja2.

        Raises InputError on a model without a template, on a template that fails, and on a conversation that goes
        beyond the context: leave out its oldest messages then.
        """
        self._check_it_writes()
        if "streamer" in options or options.get("truncate"):
            raise OptionError("chat takes no streamer and no truncate: leave out the oldest messages instead")
        ids = self.inputs.encode_chat(messages)
        of_generation: dict[str, Any] = {name: value for name, value in options.items() if name not in OF_A_CALL}
        self.check_chat(ids, self.options(**of_generation))
        return self.generate(input_ids=[ids], **options)

    def _latents(self, latent: Any, seed: int | None, sentences, copies: Sequence[int] | None = None):
        """z_BZ of a call; None of a model without a latent. Raises OptionError where it has none to give."""
        if self.has_latent:
            computed_in = self.weights.memory.computed_in
            return chosen_latents(latent, seed, sentences, self.config.latent_size, computed_in, copies)
        for name, value in (("latent", latent), ("latent_seed", seed)):
            if value is not None:
                raise OptionError(f"{name}: a {self.family} model has no latent: leave it out")
        return None

    def shared_latent(self, latent: Any, seed: int | None) -> np.ndarray | None:
        """z_Z that many texts share, checked; None where none is given. Raises as `generate` does."""
        z_BZ = self._latents(latent, seed, [np.zeros(1, np.int64)])
        return None if latent is None else z_BZ[0]

    def encode_latent(
        self, texts: Texts | None = None, *, input_ids: Any = None, attention_mask: Any = None,
        plan: str | Plan | None = None,
    ) -> Posterior:  # fmt: skip
        """What the encoder of a model with a latent reads from texts: mean and log variance of their latents.

            z_BZ = model.encode_latent(["the old baker sold a boat."]).mean_BZ
            print(model.generate("the", latent=z_BZ).texts)

        Raises InputError on texts that cannot be used, OptionError on a model without a latent.
        """
        if not self.has_latent:
            raise OptionError(f"encode_latent: a {self.family} model has no latent: use one of type gpt2_latent")
        most = self.config.n_positions
        ids = self.inputs.given(texts, input_ids, attention_mask, "text", most)
        ids = fitted(ids, most, None, self.inputs.closing(ids))
        plan = (self.plan if plan is None else Plan.parse(plan)).on(self.device)
        functions, _ = plan.resolve(device=self.device, **self.traits)
        ops, bert = CountedOps(functions), FAMILIES["bert"].network
        read, encoder = Read(ids, [np.zeros_like(row) for row in ids]), self.weights.encoder
        with few_blas_threads(self.is_small):
            rows = rows_of(bert, encoder, ops, read, most, self.device, first_alone=True)
            found = [fetch(self.network.posterior(self.weights, x_RD, ops)) for x_RD, _ in rows]
        mean_BZ, log_variance_BZ = np.split(np.concatenate(found), 2, axis=1)
        self._check_numbers(mean_BZ)
        self._check_numbers(log_variance_BZ)
        return Posterior(mean_BZ, log_variance_BZ)

    def interpolate(
        self, first: str, last: str, *, steps: int = 5, plan: str | Plan | None = None,
        **options: Unpack[GenerateOptions],
    ) -> Output:  # fmt: skip
        """Texts on the way from one to another, by a model with a latent: `steps` of them, the two ends included.

            for text in model.interpolate("the baker lost a key.", "my neighbor will buy a red boat.").texts:
                print(text)

        Latents are z = (1 - t) a + t b for t from 0 to 1, where a and b are the means that the encoder reads from the
        two texts. Each text is generated from bos_token_id alone. options: those of `generate`.
        """
        for name in ("latent", "latent_seed"):
            if name in options:
                raise OptionError(f"{name}: interpolate reads its latents from the two texts: leave it out")
        a_Z, b_Z = self.encode_latent([first, last], plan=plan).mean_BZ
        if (bos := self.defaults.get("bos_token_id")) is None:
            raise OptionError("bos_token_id is set nowhere: put it into generation_config.json")
        z_BZ = between(a_Z, b_Z, steps)
        return self.generate(input_ids=[[bos]] * len(z_BZ), latent=z_BZ, plan=plan, **options)

    def check_chat(self, ids: np.ndarray, options: Options) -> None:
        """Raises InputError if a conversation and the answer to it go beyond the context."""
        try:
            self.inputs.fitted(None, [ids], None, options, None)
        except InputError as error:
            message = str(error).replace("prompt 1 of 1", "the conversation").replace("shorten it", "leave out some")
            raise InputError(message) from None

    def stream(self, prompts: Texts, **options: Unpack[StreamOptions]) -> Stream:
        """The new text of one prompt or several, piece by piece as it is generated; then `output` is what it became.

            for piece in model.stream("Fellow citizens,"):
                print(piece, end="", flush=True)

        One text (and one answer to it) gives pieces of text; otherwise each is (index, text). options: those of
        `generate`. Bad generation options and prompts raise here, at once; all else that `generate` raises comes with
        the first piece. See `Stream`.
        """
        if "streamer" in options:
            raise OptionError("stream takes no streamer: read its pieces in a for loop")
        of_generation: dict[str, Any] = {name: value for name, value in options.items() if name not in OF_A_CALL}
        resolved = self.options(**of_generation)
        if self.tokenizer is None:
            raise InputError(self.inputs.no_tokenizer("use generate's streamer"))
        full_text = options.get("return_full_text", False)
        if full_text:
            self._check_full_text()
        sources, before, _ = self.inputs.fitted(prompts, None, None, resolved, options.get("truncate", False))
        is_single = isinstance(prompts, str) and resolved.num_return_sequences == 1
        stops = resolved.stop_strings, resolved.keep_stop_strings

        tokenizer = self.tokenizer

        def text_stream(index: int) -> TextStream:
            ids = () if sources else before[index // resolved.num_return_sequences]
            return TextStream(tokenizer, *stops, ids, full_text)

        generate = functools.partial(self.generate, prompts, **options)
        return Stream(generate, text_stream if resolved.num_beams == 1 else None, is_single)

    def _inputs(self, family: Family) -> Inputs:
        files = TOKENIZER_KINDS[family.tokenizer].files
        return Inputs(self.config, self.tokenizer, self.defaults, self.is_encoder_decoder, self.prefix, files)

    def _check_it_writes(self) -> None:
        """Raises OptionError on an encoder alone."""
        if self.is_encoder:
            raise OptionError(
                f"a {self.family} model reads texts and writes none: use encode or classify (commands embed, classify)"
            )

    def _check_full_text(self) -> None:
        """Raises on return_full_text where no prompt is part of the text, or no tokenizer can write it."""
        if self.is_encoder_decoder:
            raise OptionError("return_full_text is for decoder-only models: a source is no part of the new text")
        if self.tokenizer is None:
            raise InputError("return_full_text needs a tokenizer, and this model folder has none: read token_ids")

    def _stopping(self, options: Options, began: float) -> Stopping | None:
        """What ends texts beside EOS and limits, if the options ask for any of it."""
        if options.stop_strings and self.tokenizer is None:
            raise InputError(
                f"stop_strings needs a tokenizer, and this model folder has none: add its {self.inputs.tokenizer_files}"
            )
        if not (options.stop_strings or options.stopping_criteria or options.max_time):
            return None
        if self.tokenizer is None:
            return Stopping(options, None, began=began)
        tail = self.tokenizer.most_tokens(max(map(len, (s.encode() for s in options.stop_strings)), default=0))
        if self.config.vocab_size > self.tokenizer.size:  # ids that stand for no text may lie in between
            tail = None
        new_text = self.tokenizer.new_text
        if self.is_encoder_decoder:  # a target's text stands behind nothing
            new_text = functools.partial(_text_alone, self.tokenizer)
        named = self.tokenizer.named_in(options.stop_strings, self.tokenizer.special_ids)
        textless = [i for i in self.tokenizer.special_ids if i not in named]
        return Stopping(options, new_text, textless, tail, began)

    def _constraint(self, options: Options, prompts_ids, limit_B, prefixes=None) -> Constraint | None:
        """What new texts must match, if the options ask for it. Raises OptionError where no match fits into a limit."""
        constraint = Constraint.make(options, self.tokenizer, self.config.head_size)
        if constraint is not None:
            constraint.check_limits(limit_B, map(len, prompts_ids))
            constraint.check_prefixes(prefixes or (), limit_B)
        return constraint

    def _with_arena(self, plan: Plan, arena: Arena | None) -> Plan:
        """The plan, with arena=planned where a call brings an arena. Raises OptionError on one of another device."""
        if arena is None:
            return plan
        if not isinstance(arena, Arena):
            raise OptionError(f"arena must be an Arena, made of plans of plan_step, not {arena!r}")
        if arena.device != self.device:
            where = f"the arena is for device={arena.device}, and this model lies on device={self.device}"
            raise OptionError(f"{where}: make one of this model's plans")
        return dataclasses.replace(plan.on(self.device), arena="planned") if plan.arena == "none" else plan

    def _check_memory(
        self, plan: Plan, extent: Extent, options: Options, arena: Arena | None, memory_budget: int | str | None,
        logprobs: int | None,
    ) -> None:  # fmt: skip
        """Raises MemoryBudgetError if a call may take more than its budget; steps kept for later calls go first."""
        if (budget := read_budget(memory_budget, self.device)) is None:
            return
        needed = footprint(self, plan, extent, options, arena is not None, logprobs)
        if needed.total > budget and self.buckets.idle:
            self.buckets.clear()
            budget = read_budget(memory_budget, self.device)
            assert budget is not None  # there was one before
        check_fits(needed, budget, extent)

    def footprint(
        self,
        prompts: Texts | None = None,
        *,
        input_ids: Any = None,
        attention_mask: Any = None,
        negative_prompt: Texts | None = None,
        negative_prompt_ids: Any = None,
        plan: str | Plan | None = None,
        truncate: bool | None = False,
        logprobs: int | None = None,
        **options: Unpack[GenerateOptions],
    ) -> Footprint:
        """The bytes that `generate` may take with these arguments, beside the weights: upper bounds from shapes alone.

        The formula stands in runtime/footprint.py. Raises InputError and OptionError as `generate` does.
        """
        resolved = self.options(**options)
        check_logprobs(logprobs, self.config.head_size)
        plan = self.plan if plan is None else Plan.parse(plan)
        sources, prompts_ids, limit_B = self.inputs.fitted(prompts, input_ids, attention_mask, resolved, truncate)
        negatives = self.inputs.negatives(
            negative_prompt, negative_prompt_ids, prompts_ids, limit_B, resolved, truncate
        )
        extent = extent_of(sources, prompts_ids, limit_B, negatives)
        return footprint(self, self._settled(plan, resolved, extent)[0], extent, resolved, logprobs=logprobs)

    def plan_step(
        self,
        *,
        batch_size: int = 1,
        input_length: int = 1,
        plan: str | Plan | None = None,
        **options: Unpack[GenerateOptions],
    ) -> StepPlan:
        """Where a decode step's intermediates lie in an arena, learnt from a dry run (LightSeq, section 2.3).

        For requests of up to batch_size prompts (sources, for an encoder-decoder model) of up to input_length tokens,
        under these options, whose max_new_tokens is the most that a request may ask for. plan: arena=separate lays
        them out one behind the other; anything else means planned. `Arena` makes room for it.

        Raises OptionError on options, InputError on lengths that the model cannot hold.
        """
        for name, number in (("batch_size", batch_size), ("input_length", input_length)):
            if number < 1:
                raise OptionError(f"{name} must be an integer from 1 up, not {number}")
        resolved = self.options(**options)
        plan = self.plan if plan is None else Plan.parse(plan)
        if plan.arena == "none":
            plan = dataclasses.replace(plan.on(self.device), arena="planned")
        not_words = {*resolved.eos_token_id, resolved.pad_token_id}  # what match_source_len does not count
        word = next((i for i in range(self.config.vocab_size) if i not in not_words), 0)
        ids = np.full((batch_size, input_length), word)
        extent = extent_of(*self.inputs.fitted(None, ids, None, resolved, truncate=None))
        return self._plan_step(self._settled(plan, resolved, extent)[0], extent, search_of(resolved))

    def _settled(self, plan: Plan, options: Options, extent: Extent) -> tuple[Plan, str]:
        """What a plan comes to in a call, and for the plan `auto` why; hars=auto depends on the options alone."""
        chosen = ""
        plan = plan.on(self.device)
        if plan.base == "auto":
            reason = reason_for_numpy(self, extent, options)
            plan = Plan("fast" if reason is None else "numpy")
            chosen = "auto: compiled code, which was on disk" if reason is None else f"auto: NumPy ({reason})"
        return plan.settled(["hars"] if options.num_beams == 1 or never_straight(options) else []), chosen

    def _plan_step(self, plan: Plan, extent: Extent, search: Options) -> StepPlan:
        functions, make_cache = plan.resolve(self.has_encoder, self.device, **self.traits)
        with np.errstate(all="ignore"):
            made_for, captured = (self, plan, search), plan.captures(self.device)
            return dry_run(
                self.network, self.weights, functions, make_cache, extent, search, made_for, self.device, captured
            )

    @contextmanager
    def _places(self, plan: Plan, arena: Arena | None, extent: Extent, options: Options) -> Iterator[Fresh | Places]:
        """Where a generation's steps keep what they make. Raises MemoryBudgetError if the arena is too small."""
        if plan.arena == "none":
            yield Fresh()
            return
        search = search_of(options)
        make = functools.partial(self._plan_step, plan, extent, search)
        arena = Arena(make()) if arena is None else arena
        with arena.lent(arena.plan_for(extent, (self, plan, search), make)) as places:
            yield places

    def logits(
        self, input_ids: Any, attention_mask: Any = None, decoder_input_ids: Any = None,
        decoder_attention_mask: Any = None, latent: Any = None,
    ) -> list[np.ndarray]:  # fmt: skip
        """The scores before softmax of every position, one array (N, V) per sentence, padding left out.

        An encoder-decoder model takes its sources as input_ids and its targets as decoder_input_ids, which must begin
        with decoder_start_token_id to mean what they do in training; the scores are those of the targets' positions.
        latent: as for `generate`.
        """
        self._check_it_writes()
        if _is_text(input_ids) or _is_text(decoder_input_ids):
            raise InputError(
                "logits takes token ids, not texts: pass [model.tokenizer.encode(text)], or call score(text) for the "
                "log-probabilities of its tokens"
            )
        if self.is_encoder_decoder != (decoder_input_ids is not None):
            what = "needs" if self.is_encoder_decoder else "takes no"
            raise InputError(f"this model {what} decoder_input_ids beside input_ids")
        if decoder_input_ids is None and decoder_attention_mask is not None:
            raise InputError("decoder_attention_mask goes with decoder_input_ids, which this model does not take")
        ids, context = self.inputs.checked(token_rows(input_ids, attention_mask)), self.config.context
        engine, sources = self._engine(self.plan.on(self.device)), []
        if self.is_encoder_decoder:
            sources, ids = ids, self.inputs.checked(token_rows(decoder_input_ids, decoder_attention_mask), "target")
            if len(sources) != len(ids):
                raise InputError(
                    f"there are {len(sources)} sources and {len(ids)} decoder_input_ids: give each source one target"
                )
            sources = self.inputs.beside(sources, ids, ids[0], truncate=None)
        ids, _ = fit_prompts(ids, context, Options(), truncate=None)
        z_BZ = self._latents(latent, None, ids)
        with few_blas_threads(self.is_small):
            if sources:
                engine.encode(sources)
            if z_BZ is not None:
                engine.read_latent(z_BZ)
            logits_RV = fetch(engine.prefill(ids, every_row=True))
        return np.split(logits_RV, np.cumsum([len(i) for i in ids])[:-1])

    def score(
        self,
        texts: Texts | None = None,
        *,
        input_ids: Any = None,
        attention_mask: Any = None,
        targets: str | Sequence[str] | None = None,
        target_ids: Any = None,
        stride: int | None = None,
        truncate: bool = False,
        decoder_start_token_id: int | None = None,
        latent: Any = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> Scores:
        """How likely the model finds texts: the log-probability of each token after those before it; see `Scores`.

        texts, or input_ids and attention_mask: as for `generate`. The first token of a text comes after nothing, so it
        is not scored; begin the text with <|endoftext|> to have all of it scored.
        targets (texts) or target_ids: one for each text; these alone are scored, after their text, or for an
        encoder-decoder model given their source, and it needs them. `generate`'s token_ids as target_ids score what
        `generate` says (before length_penalty), where no option changed the model's own probabilities of them.
        stride: a text longer than the context is read in windows that start so many tokens apart, half a context by
        default. Each token is scored once, by the first window that reaches it; so all but those of the first window
        come after at least context - stride tokens. truncate: cut sources that are too long at their end.
        decoder_start_token_id: instead of the model's. latent: as for `generate`, of all texts or of each.
        progress: called with (tokens scored, of how many).

        Logits exist for a few rows at a time, so long texts and large vocabularies take no more memory than a
        forward pass does. Raises InputError on texts that cannot be used, NumericalError on NaN scores.
        """
        self.check_scoring(stride, truncate)
        most = self.inputs.most if self.is_encoder_decoder else None  # other texts are read window by window
        ids = self.inputs.given(texts, input_ids, attention_mask, "text", most, truncate)
        target_rows = None
        if targets is not None or target_ids is not None:
            target_rows = self.inputs.given(targets, target_ids, None, "target")
            self.inputs.check_generated(target_rows)
            if len(target_rows) != len(ids):
                raise InputError(f"there are {len(ids)} texts and {len(target_rows)} targets: give each text its own")
        pieces = self._pieces(ids, target_rows, stride, truncate, decoder_start_token_id)
        z_BZ = self._latents(latent, None, ids)
        functions, _ = self.plan.on(self.device).resolve(device=self.device, **self.traits)
        # Nothing comes after the scored tokens, so no keys and values are kept.
        cache = CacheFactory(NoCache)
        engine = Engine(self.network, self.weights, CountedOps(functions), cache, device=self.device)
        try:
            with few_blas_threads(self.is_small):
                context = self.config.context
                log_probs, best, _ = score_pieces(engine, pieces, len(ids), context, progress, z_BZ=z_BZ)
        except NumericalError as error:
            raise NumericalError(f"{error}{self._nan_tensors(self.plan)}") from None
        scored = [row[1:] for row in ids] if target_rows is None else target_rows
        sizes = [] if self.tokenizer is None else [self.tokenizer.count_bytes(row) for row in scored]
        known = [size for size in sizes if size is not None]
        likeliest = [best_RK[:, 0] for best_RK in best]
        return Scores(scored, log_probs, likeliest, known if len(known) == len(scored) else None)

    def encode(
        self, texts: Texts | None = None, *, input_ids: Any = None, attention_mask: Any = None,
        token_type_ids: Any = None, pooling: str | None = None, normalize: bool | None = None, truncate: bool = False,
        plan: str | Plan | None = None, progress: Callable[[int, int], None] | None = None,
    ) -> np.ndarray:  # fmt: skip
        """One vector for each text, x_BD: for search and for comparing texts, by an encoder such as BERT.

            model = md.load("minilm")
            a, b = model.encode(["How old are you?", "What is your age?"])
            print(a @ b)

        texts: one or several; or input_ids and attention_mask (and token_type_ids, by default 0).
        pooling: "mean" of a text's rows, [CLS] and [SEP] included, "cls" (the first row), "max" (of each
            number), or "pooler" (tanh of a product of the first row). By default what the files of
            sentence-transformers say, and without them the mean.
        normalize: divide each vector by its length, so that products are cosines; by default as the files say.
        truncate: cut texts that are too long, in front of their last token, as sentence-transformers does unasked.
        The files' default prompt is put in front of texts, and texts are lowered, where the files say so.
        plan: overrides the one given to `load`. progress: called with (texts done, of how many).

        The tokens of all texts are rows of one batch: padding costs nothing, as there is none. A text gives the same
        vector alone and in any batch, up to rounding. Raises InputError on texts that cannot be used, OptionError on
        options and on models that are no encoders.
        """
        self._check_it_reads()
        pooling, normalize = self.sentences.chosen(pooling, normalize)
        if pooling == "pooler" and self.weights.pooler is None:
            raise OptionError("pooling=pooler: the model's files hold no pooler.dense.weight: choose mean, cls or max")
        if texts is not None and not isinstance(texts, Mapping):
            texts = [self.sentences.prepared(text) for text in as_texts(texts, "texts")]
        read = self._read(texts, None, input_ids, attention_mask, token_type_ids, truncate)
        ops = self._ops_to_encode(read, plan)
        with few_blas_threads(self.is_small), np.errstate(all="ignore"):
            rows = self._rows(ops, read, pooling in ("cls", "pooler"), progress)
            x_BD = vectors(rows, self.network, self.weights, ops, pooling)
        self._check_numbers(x_BD)
        return (normalized(x_BD) if normalize else x_BD).astype(self.weights.wte_VD.dtype, copy=False)

    def encode_tokens(
        self, texts: Texts | None = None, *, text_pairs: str | Sequence[str] | None = None, input_ids: Any = None,
        attention_mask: Any = None, token_type_ids: Any = None, truncate: bool = False, plan: str | Plan | None = None,
    ) -> list[np.ndarray]:  # fmt: skip
        """The last layer's row of each token, an array (N, D) for each text. Arguments as for `encode`.

        text_pairs: of each text the one that is read behind it, as the other type of tokens.
        """
        self._check_it_reads()
        read = self._read(texts, text_pairs, input_ids, attention_mask, token_type_ids, truncate)
        ops, found = self._ops_to_encode(read, plan), []
        with few_blas_threads(self.is_small):
            for x_RD, offsets_X in self._rows(ops, read):
                found += np.split(fetch(x_RD), offsets_X[1:-1])
        return found

    def classify(
        self, texts: Texts | None = None, *, text_pairs: str | Sequence[str] | None = None, input_ids: Any = None,
        attention_mask: Any = None, token_type_ids: Any = None, truncate: bool = False, plan: str | Plan | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> list[Classified]:  # fmt: skip
        """The label of each text, by an encoder with a classifier; arguments as for `encode` and `encode_tokens`.

        Scores are a softmax; a sigmoid each, if config.json's problem_type says that several labels may hold or there
        is one label; and the numbers themselves of a regression. For labels of tokens: `classify_tokens`.
        """
        self._check_classifies("classify", of_tokens=False)
        read = self._read(texts, text_pairs, input_ids, attention_mask, token_type_ids, truncate)
        ops, found = self._ops_to_encode(read, plan), []
        with few_blas_threads(self.is_small), np.errstate(all="ignore"):
            for x_RD, _ in self._rows(ops, read, True, progress):
                pooled_RD = x_RD if self.weights.pooler is None else self.network.pooled(self.weights, x_RD, ops)
                found.append(fetch(self.network.classify(self.weights, pooled_RD, ops)))
        logits_XX = np.concatenate(found)
        self._check_numbers(logits_XX)
        return [classified(row, self.config.labels) for row in scores_of(logits_XX, self.config.problem_type)]

    def classify_tokens(
        self, texts: str | Sequence[str], *, truncate: bool = False, plan: str | Plan | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> list[list[TokenLabel]]:  # fmt: skip
        """The label of each token of each text, special tokens left out; for instance names of people and places.

        Arguments as for `encode`. A label's score is a softmax over all labels.
        """
        self._check_classifies("classify_tokens", of_tokens=True)
        texts = as_texts(texts, "texts")
        read = self._read(texts, None, None, None, None, truncate, with_places=True)
        ops, found = self._ops_to_encode(read, plan), []
        with few_blas_threads(self.is_small), np.errstate(all="ignore"):
            for x_RD, offsets_X in self._rows(ops, read, False, progress):
                logits_RX = fetch(self.network.classify(self.weights, x_RD, ops))
                self._check_numbers(logits_RX)
                found += np.split(scores_of(logits_RX, "single_label_classification"), offsets_X[1:-1])
        assert read.places is not None  # they were texts
        parts = zip(texts, found, read.places, strict=True)
        return [token_labels(text, score_NX, self.config.labels, places) for text, score_NX, places in parts]

    def _read(
        self, texts, text_pairs, input_ids, attention_mask, token_type_ids, truncate: bool, with_places: bool = False
    ) -> Read:
        """What an encoder is given, as rows of tokens that fit."""
        most, types = self.sentences.max_tokens or self.config.context, self.config.type_vocab_size
        most = min(most, self.config.context)
        if isinstance(texts, Mapping) and input_ids is None:  # of a tokenizer of transformers
            token_type_ids = texts.get("token_type_ids", token_type_ids)
            (input_ids, attention_mask), texts = ids_and_mask(texts, attention_mask, "texts"), None
            if token_type_ids is not None and len(token_type_ids) and np.ndim(token_type_ids[0]) == 0:
                token_type_ids = [token_type_ids]
        if (texts is None) == (input_ids is None):
            raise InputError("give either texts or input_ids (token ids)")
        if texts is not None:
            if attention_mask is not None or token_type_ids is not None:
                raise InputError("attention_mask and token_type_ids go with input_ids: texts bring their own")
            return read_texts(self.inputs, texts, text_pairs, most, types, truncate, with_places)
        if text_pairs is not None:
            raise InputError("text_pairs go with texts: with input_ids, token_type_ids say which token is of which")
        return read_ids(self.inputs, input_ids, attention_mask, token_type_ids, most, types, truncate)

    def _ops_to_encode(self, read: Read, plan: str | Plan | None) -> CountedOps:
        """The functions of a plan, of which an encoder calls some."""
        plan = self.plan if plan is None else Plan.parse(plan)
        plan.check_of_encoder()
        plan = plan.on(self.device)
        if plan.base == "auto":
            plan = Plan("fast" if reason_for_numpy_to_encode(self, sum(map(len, read.ids))) is None else "numpy")
        return CountedOps(plan.resolve(False, self.device, self.dtype)[0])

    def _rows(self, ops: CountedOps, read: Read, first_alone: bool = False, progress=None):
        positions = self.config.max_position_embeddings
        return rows_of(self.network, self.weights, ops, read, positions, self.device, first_alone, progress)

    def _check_it_reads(self) -> None:
        """Raises OptionError on a model that generates."""
        if not self.is_encoder:
            raise OptionError(
                f"this {self.family} writes texts, and has no vectors or labels of them: use a model of type bert, "
                "such as minilm"
            )

    def _check_classifies(self, what: str, of_tokens: bool) -> None:
        """Raises OptionError on a model without the classifier that is asked for."""
        self._check_it_reads()
        if self.weights.classifier is None:
            raise OptionError(f"{what}: the model's files hold no classifier.weight: use encode, or another model")
        if self.config.labels_tokens != of_tokens:
            other = "tokens, not texts: use classify_tokens" if not of_tokens else "texts, not tokens: use classify"
            raise OptionError(f"{what}: this model's classifier is one of {other}")

    def _check_numbers(self, x_XX: np.ndarray) -> None:
        """Raises NumericalError on NaN and infinity."""
        if not np.isfinite(x_XX).all():
            raise NumericalError(f"the model's numbers are not finite{self._nan_tensors(self.plan)}")

    def _log_probs(
        self, sources, prompts, new_ids: list[np.ndarray], plan: Plan, best: int, may_be_nan: bool, z_BZ
    ) -> list[LogProbs]:
        """The model's own log-probabilities of new tokens, hypothesis by hypothesis, in a forward pass of their own."""
        each, context = len(new_ids) // len(prompts), self.config.context
        spoken = [i for i, ids in enumerate(new_ids) if len(ids)]  # the rules may leave a place empty
        ids = [new_ids[i] for i in spoken]
        if sources:
            pieces = target_pieces([sources[i // each] for i in spoken], ids, prompts[0], context)
        else:
            pieces = text_pieces([prompts[i // each] for i in spoken], ids, context, checked_stride(None, context))
        functions, _ = plan.resolve(device=self.device, **self.traits)
        engine = Engine(self.network, self.weights, CountedOps(functions), CacheFactory(NoCache), device=self.device)
        if z_BZ is not None:
            z_BZ = z_BZ[[i // each for i in spoken]]
        with few_blas_threads(self.is_small):
            found = score_pieces(engine, pieces, len(spoken), context, None, max(1, best), may_be_nan, z_BZ)
        each_text = zip(spoken, *found, strict=True)
        by_place = {i: LogProbs(token_R, ids_RK, logprob_RK, best) for i, token_R, ids_RK, logprob_RK in each_text}
        return [by_place.get(i, LogProbs.of_nothing(best)) for i in range(len(new_ids))]

    def check_scoring(self, stride: int | None, truncate: bool) -> None:
        """Raises OptionError on what `score` would refuse whatever the texts."""
        self._check_it_writes()
        if self.is_encoder_decoder and stride is not None:
            raise OptionError("stride is for decoder-only models: a target is read whole")
        if truncate and not self.is_encoder_decoder:
            raise OptionError("truncate is for sources: a decoder-only model scores all of a text, window after window")
        checked_stride(stride, self.config.context)

    def tokenize_scored(
        self, text: str, target: str | None, *, stride: int | None = None, truncate: bool = False
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """The token ids of one text, and of its target if it has one, checked as `score` would.

        Raises InputError on texts that cannot be used.
        """
        most = self.inputs.most if self.is_encoder_decoder else None
        ids = self.inputs.given(text, None, None, "text", most, truncate)
        targets = None if target is None else self.inputs.given(target, None, None, "target")
        self.inputs.check_generated(targets or [])
        self._pieces(ids, targets, stride, truncate)
        return ids[0], None if targets is None else targets[0]

    def _pieces(self, ids, target_rows, stride: int | None, truncate: bool, decoder_start_token_id=None) -> list[Piece]:
        """What forward passes do of these texts and targets."""
        context = self.config.context
        if not self.is_encoder_decoder:
            return text_pieces(ids, target_rows, context, checked_stride(stride, context))
        if target_rows is None:
            raise InputError("this model scores targets given their sources: give targets (texts) or target_ids beside")
        start = self.inputs.decoder_start(self._scoring_options(decoder_start_token_id))
        return target_pieces(self.inputs.beside(ids, target_rows, start, truncate), target_rows, start, context)

    def _scoring_options(self, decoder_start_token_id: int | None) -> Options:
        """Options of which only decoder_start_token_id matters, in a call or else in generation_config.json."""
        if decoder_start_token_id is None:
            decoder_start_token_id = self.defaults.get("decoder_start_token_id")
        options = Options(decoder_start_token_id=decoder_start_token_id)
        options.check_vocabulary(self.config.vocab_size)
        return options

    def _engine(
        self, plan: Plan, places: Fresh | Places | None = None, costs: bool | CostOf = False,
        negatives: list[np.ndarray] | None = None, refused: str = "",
    ) -> Engine:  # fmt: skip
        """refused: why no step is captured on the CPU."""
        functions, make_cache = plan.resolve(self.has_encoder, self.device, **self.traits)
        ops, drop_finished, buckets = CountedOps(functions, places, costs), plan.drop_finished == "on", None
        captures, on_cpu = plan.captures(self.device), None
        if self.device == "cpu" and plan.captures_on_cpu:
            of_plan = "memory is planned" if plan.arena != "none" else "costs are noted" if costs else ""
            on_cpu = CapturedOnCpu(of_plan or refused)
        elif captures and not costs:  # whose models look at lengths, at each step anew
            # A kept step writes into no arena of another call.
            buckets = Buckets(self.device) if plan.arena != "none" else self.buckets
        args = self.network, self.weights, ops, make_cache, drop_finished, self.device, buckets, on_cpu
        return GuidedEngine(*args, negative_prompts=negatives) if negatives else Engine(*args)

    def _check_finite(self) -> None:
        """Raises CheckpointError on weights that low precision cannot store."""
        if bad := self._not_finite():
            raise CheckpointError(f"the weights hold NaN or infinity, first in {bad[0]}: use another file")

    def _not_finite(self) -> list[str]:
        return [name for name, tensor in self.tensors.items() if not np.isfinite(tensor).all()]

    def _nan_tensors(self, plan: Plan) -> str:
        """Where NaN may come from: the weights, what is computed of them, or functions of the user's."""
        bad = self._not_finite()
        if not bad:
            own = "".join(f", or {choice} made it" for choice in plan.own_functions)
            return f": the weights are all finite, so a value overflowed on the way{own}"
        count = f"{len(bad)} of {len(self.tensors)} tensors"
        return f": the weights themselves hold NaN or infinity, first in {bad[0]} ({count}): use another file"


OF_A_CALL = {  # what `generate` takes beside the options of generation
    name for name, p in inspect.signature(Model.generate).parameters.items() if p.kind is p.KEYWORD_ONLY
}


def _is_text(given: Any) -> bool:
    """Whether a text stands where token ids do, or a list of texts."""
    return isinstance(given, str) or (isinstance(given, list | tuple) and any(isinstance(row, str) for row in given))


def _text_alone(tokenizer: Tokenizer, before: np.ndarray, ids: np.ndarray, stops: Sequence[str]) -> NewText:
    """The text of a target's ids."""
    return tokenizer.new_text((), ids, stops)


def _from_state(state: dict[str, Any]) -> Model:
    """A model of these fields; see `Model._state`."""
    model = Model.__new__(Model)
    vars(model).update(state)
    model.network, model.buckets = FAMILIES[model.family].network, Buckets(model.device)
    model.inputs = model._inputs(FAMILIES[model.family])
    if model.device == "cpu":
        model.weights = read_only(model.weights)
    return model
