"""What a loaded model does: `Model`, whose methods generate, score and encode."""

from __future__ import annotations

import functools
import inspect
import time
from collections.abc import Callable, Sequence
from typing import Any, Unpack

import numpy as np

from .errors import InputError, OptionError, shown
from .files.chat import Message
from .files.tokenizer import TextStream
from .methods import encoding, latents, memory, scoring
from .methods.generation import check_full_text, constraint_of, prepare, report, search
from .methods.latents import interpolate_latents
from .methods.loaded import LoadedModel, refuse_encoder_alone
from .methods.out_of_memory import retry_after_freeing
from .options.options import Options
from .options.typed_dict import GenerateOptions
from .plan import Plan
from .runtime.arena import Arena, Extent
from .runtime.inputs import Texts
from .runtime.output import Output
from .runtime.receipt import CostOf
from .search.constraints import Constraint
from .search.streaming import Stream


class StreamOptions(GenerateOptions, total=False):
    """What `stream` takes beside its prompts, and `chat` beside its messages: as in `Model.generate`."""

    prefix_tokens: Sequence[Sequence[int]] | np.ndarray | None
    negative_prompt: Texts | None
    negative_prompt_ids: Any
    latent: Any
    latent_seed: int | None
    plan: str | Plan | None
    arena: Arena | None
    truncate: bool
    return_full_text: bool
    logprobs: int | None
    trace: bool
    keep: Sequence[str]
    sample_ids: Sequence[int] | None
    memory_budget: int | str | None
    costs: bool | CostOf
    draft: Model | None


class Model(LoadedModel):
    """Weights, tokenizer and defaults, which no generation changes; and captured steps, which one has at a time.

    So threads may share a model. What it holds stands in methods/loaded.py.
    """

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
        keep: Sequence[str] = (),
        sample_ids: Sequence[int] | None = None,
        memory_budget: int | str | None = "available",
        costs: bool | CostOf = False,
        draft: Model | None = None,
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
        logprobs: note the log-probability of each new token, and of this many likeliest tokens at
            its place (0: of none), by the model itself, before options change its scores. It takes
            one more forward pass over each text, as `score` does.
        streamer: called with (text number, token id) as tokens are chosen, or an object with put
            and end such as transformers' TextStreamer; not with a beam.
        trace: keep every step's candidates, scores, bans and parents in the output
            (runtime/trace.py).
        keep: of "scores", "logits", "beam_indices" and "token_scores", what the output keeps of
            every step (runtime/kept.py), the first three as transformers' outputs do. A step's
            scores have a row for each beam and a column for each token, so they take memory;
            token_scores are those of the texts' own tokens alone.
        sample_ids: numbers that tell equal prompts apart when sampling; by default each copy in the
            call is another.
        memory_budget: bytes, or a text such as "2GB", that the call may take beside the weights;
            None sets no limit. By default it is what the machine has left, where it says so
            (Linux). What may take more (`footprint`) is refused before anything is computed.
        costs: note in the receipt what each call of an op takes at least, by its cost model; or
            what your function of (op, implementation, arguments by name) says, a Cost. No step is
            captured then.
        draft: a smaller model with the same tokenizer, which guesses tokens that this one checks
            together (speculative decoding); transformers' assistant_model. It runs under the plan
            that it was loaded with. For guesses without a model, see prompt_lookup_num_tokens.

        Raises InputError on prompts that cannot be used, OptionError on options, MemoryBudgetError
        on what does not fit (a device is tried once more, without steps kept for later calls),
        NumericalError on NaN scores.
        """
        started, resolved = time.perf_counter(), self.options(**options)
        asked: list[Extent] = []

        def run() -> Output:
            call = prepare(
                self, resolved, started, prompts=prompts, input_ids=input_ids, attention_mask=attention_mask,
                prefix_tokens=prefix_tokens, negative_prompt=negative_prompt, negative_prompt_ids=negative_prompt_ids,
                latent=latent, latent_seed=latent_seed, plan=plan, arena=arena, truncate=truncate,
                return_full_text=return_full_text, logprobs=logprobs, streamer=streamer, sample_ids=sample_ids,
                memory_budget=memory_budget, keep=keep, draft=draft, trace=trace,
            )  # fmt: skip
            asked.append(call.extent)
            outcome = search(self, call, arena=arena, trace=trace, costs=costs)
            return report(self, call, outcome, logprobs=logprobs, return_full_text=return_full_text)

        # The caller's functions would get the same texts again.
        functions = resolved.logits_processor, resolved.stopping_criteria, resolved.prefix_allowed_tokens_fn
        may_repeat = streamer is None and not any(functions)
        models = [self, draft] if isinstance(draft, Model) else [self]  # what else a draft may be is refused
        return retry_after_freeing(
            run, models, what=lambda: str(asked[-1]) if asked else "this call", may_repeat=may_repeat
        )

    def check(
        self, prompts: Texts, *, truncate: bool = False, chat: bool = False, **options: Unpack[GenerateOptions]
    ) -> None:
        """Raises what `generate` would raise on these prompts and options, without computing anything.

        chat: each prompt is what a user says in a conversation.
        """
        resolved, ids = self.options(**options), None
        if chat:
            texts = encoding.list_texts(prompts, "prompts")
            ids = [self.inputs.encode_chat([{"role": "user", "content": text}]) for text in texts]
        _, prompts_ids, limit_B = self.inputs.fit_call(None if chat else prompts, ids, None, resolved, truncate)
        constraint_of(self, resolved, prompts_ids, limit_B)
        self.inputs.negative_prompts(None, None, prompts_ids, limit_B, resolved, truncate)

    def tokenize(
        self, prompt: str, options: Options, *, truncate: bool | None = False, chat: bool = False
    ) -> np.ndarray:
        """The token ids of one prompt (or source) as `generate` would start from them, checked and cut.

        options: made by `options`. truncate: None where a caller cannot ask for it, so that errors do not name it.
        chat: the prompt is what a user says in a conversation. Raises InputError on a prompt that cannot be used.
        """
        if not isinstance(options, Options):
            raise OptionError(f"tokenize takes the options that Model.options made, not {shown(options)}")
        ids = [self.inputs.encode_chat([{"role": "user", "content": prompt}])] if chat else None
        sources, prompts, limit_B = self.inputs.fit_call(None if chat else prompt, ids, None, options, truncate)
        constraint = Constraint.make(options, self.tokenizer, self.config.generated_vocab_size)
        if constraint is not None:
            try:
                constraint.check_limits(limit_B, map(len, prompts))
            except OptionError as error:
                raise InputError(str(error)) from None
        return (sources or prompts)[0]

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
            raise InputError(self.inputs.no_tokenizer_message("use generate's streamer"))
        full_text = options.get("return_full_text", False)
        if full_text:
            check_full_text(self)
        sources, before, _ = self.inputs.fit_call(prompts, None, None, resolved, options.get("truncate", False))
        is_single = isinstance(prompts, str) and resolved.num_return_sequences == 1
        stops = resolved.stop_strings, resolved.keep_stop_strings

        tokenizer = self.tokenizer

        def text_stream(index: int) -> TextStream:
            ids = () if sources else before[index // resolved.num_return_sequences]
            return TextStream(tokenizer, *stops, ids, full_text)

        generate = functools.partial(self.generate, prompts, **options)
        return Stream(generate, text_stream if resolved.num_beams == 1 else None, is_single)

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
        refuse_encoder_alone(self)
        if "streamer" in options or options.get("truncate"):
            raise OptionError("chat takes no streamer and no truncate: leave out the oldest messages instead")
        ids = self.inputs.encode_chat(messages)
        of_generation: dict[str, Any] = {name: value for name, value in options.items() if name not in OF_A_CALL}
        self.check_chat(ids, self.options(**of_generation))
        return self.generate(input_ids=[ids], **options)

    def check_chat(self, ids: np.ndarray, options: Options) -> None:
        """Raises InputError if a conversation and the answer to it go beyond the context."""
        try:
            self.inputs.fit_call(None, [ids], None, options, None)
        except InputError as error:
            message = str(error).replace("prompt 1 of 1", "the conversation").replace("shorten it", "leave out some")
            raise InputError(message) from None

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
        z_BZ = interpolate_latents(a_Z, b_Z, steps)
        return self.generate(input_ids=[[bos]] * len(z_BZ), latent=z_BZ, plan=plan, **options)

    # Methods that are functions of a model, each with what it needs in a file of its own.

    logits, score = scoring.logits, scoring.score
    check_scoring, tokenize_scored = scoring.check_scoring, scoring.tokenize_scored
    encode, encode_tokens = encoding.encode, encoding.encode_tokens
    classify, classify_tokens = encoding.classify, encoding.classify_tokens
    encode_latent, shared_latent = latents.encode_latent, latents.shared_latent
    footprint, plan_step = memory.footprint, memory.plan_step


OF_A_CALL = {  # what `generate` takes beside the options of generation
    name for name, p in inspect.signature(Model.generate).parameters.items() if p.kind is p.KEYWORD_ONLY
}
