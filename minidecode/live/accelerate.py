"""Drop-in acceleration: a live model of transformers generates through minidecode, after a proof on the user's inputs.

    model = md.accelerate(AutoModelForCausalLM.from_pretrained("gpt2"), prove=tokenizer(texts, ...))
    model.generate(**inputs, num_beams=4)     # transformers' signature, inputs and outputs
    print(model.generate.receipt)
    md.restore(model)

The same object comes back, with `generate` bound anew on it alone: no class is changed. What cannot be the same raises
with its reason; nothing falls back to the old `generate`. Neither torch nor transformers is imported before a model of
theirs is given.
"""

from __future__ import annotations

import copy
import dataclasses
import inspect
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..device.low_precision import COMPUTED_IN
from ..device.user_functions import FunctionError
from ..errors import CheckpointError, InputError, OptionError, RefusedError
from ..files.folder import read_settings
from ..files.tokenizer import Tokenizer
from ..loading import check_dtype
from ..model import Model
from ..options.options import HARMLESS, SAMPLING_ALONE
from ..plan import Plan
from ..runtime.output import Output
from .proof import compare_sides
from .weights import (
    LiveTensor,
    are_same_fingerprints,
    bound_tensors,
    check_live_model,
    check_same_scores,
    copied_bytes,
    fingerprint,
    live_tensors,
    refuse_other_than_live_model,
)

OF_BEAMS = {"length_penalty", "early_stopping"}  # options that greedy search has no use for
NO_DRAFTS = "live models have no speculative decoding here; greedy tokens are the same without it"
NOT_TAKEN = {
    "assistant_model": NO_DRAFTS,
    "negative_prompt_attention_mask": "give negative_prompt_ids without padding",
    "custom_generate": "a function of yours would generate in place of either",
    "inputs_embeds": "prompts are token ids here",
    "past_key_values": "a cache of transformers cannot be taken over",
    "encoder_outputs": "the encoder runs here, once for each source",
    "token_type_ids": "GPT-2 adds them to its embeddings, other families have none: call the tokenizer with "
    "return_token_type_ids=False",
    "decoder_input_ids": "targets begin with decoder_start_token_id; forced_bos_token_id chooses the next token",
}
READS_TEXTS = (
    "repetition_penalty", "encoder_repetition_penalty", "no_repeat_ngram_size", "encoder_no_repeat_ngram_size",
    "prefix_allowed_tokens_fn", "forced_bos_token_id", "bad_words_ids", "sequence_bias",
)  # fmt: skip
READS_SOURCES = ("encoder_repetition_penalty", "encoder_no_repeat_ngram_size")
NEEDLESS = {"use_cache", "logits_to_keep"}
REMEDY = "md.restore(model) gives the old generate back"
BEFORE = "_generate_before_accelerate"  # the attribute of a model that keeps a `generate` of its user's
NOT_RETURNED = ("output_attentions", "output_hidden_states")
# Settings that choose another search, and transformers' value of each that does not.
OTHER_SEARCHES = {
    "num_beam_groups": (1, "diverse beam search is not in transformers 5: md.load has it, in dialect hf4"),
    "prompt_lookup_num_tokens": (None, NO_DRAFTS),
    "assistant_early_exit": (None, NO_DRAFTS),
    "use_mtp": (False, NO_DRAFTS),
    "low_memory": (False, "transformers' beam search has it no more"),
    "token_healing": (False, "prompts are read as they are given"),
}


def accelerate(
    model: Any, tokenizer: Any = None, *, plan: str | Plan = "fast", dtype: str | None = None, prove: Any = None
) -> Any:
    """Returns the model, whose `generate` runs here from now on; `restore` undoes it.

        model = md.accelerate(model)

    model: a live transformers model of a family that minidecode has, in evaluation mode, on the CPU.
    tokenizer: transformers' fast tokenizer, for stop_strings and for `prove` with texts. One that a
        call of `generate` is given counts in its place for that call.
    plan, dtype: as in `load`. dtype: by default float32, and float64 for a model of float64.
    prove: texts, token ids (B, N), or what a tokenizer returned: both sides generate first, and on the
        first difference a RefusedError says the step, both tokens and the gap of their scores; the
        model is then left as it was.

    float32 weights are shared where the layout allows; `model.generate.copied` has the bytes of the
    others. Weights that are changed in place are noticed at the next call, and taken over; a module that
    was changed is an error there.
    Raises CheckpointError on a model that cannot be the same here, OptionError on a plan or a dtype.
    """
    refuse_other_than_live_model("accelerate", model)
    accelerated = Accelerated(model, tokenizer, plan, dtype)
    if prove is not None:
        try:
            accelerated.prove(prove)
        except RefusedError as error:
            raise RefusedError(f"{error}; the model is as it was") from None
    attributes = vars(restore(model))
    if "generate" in attributes:
        attributes[BEFORE] = attributes["generate"]
    accelerated.bind()
    return model


def restore(model: Any) -> Any:
    """The model as it was before `accelerate`: its class's `generate` counts again, or one that was bound on it.

    A model that is not accelerated stays as it is.
    """
    refuse_other_than_live_model("restore", model)
    attributes = vars(model)
    if isinstance(attributes.get("generate"), Accelerated):
        del attributes["generate"], attributes["__reduce_ex__"]
        if BEFORE in attributes:
            attributes["generate"] = attributes.pop(BEFORE)
    return model


class Accelerated:
    """What stands in place of a model's `generate`: it is called as transformers' is, and returns what that returns.

    receipt: of the last call. copied: bytes of the weights that are not the live model's own.
    """

    def __init__(
        self, live: Any, tokenizer: Any = None, plan: str | Plan = "fast", dtype: str | None = None,
        of_files: Model | None = None,
    ):  # fmt: skip
        """of_files: the model here, where it was read from the live one's files; else it is made of its weights."""
        if dtype is not None:
            check_dtype(dtype)
        self.live, self.tokenizer, self.plan, self.dtype = live, tokenizer, Plan.parse(plan), dtype
        self.of_files = of_files
        self.receipt: Any = None
        self.copied = 0
        self._built: tuple[Any, Model] | None = None
        self._spoken: tuple[Any, Model, Model] | None = None  # a call's tokenizer, the model here, one that has both
        self.convert()  # what cannot be is said now

    # ---- Copies -----------------------------------------------------------------------------------------------------

    def bind(self) -> None:
        """Makes this the live model's `generate`; copies and pickles of the model get one of their own."""
        vars(self.live).update({"generate": self, "__reduce_ex__": self.reduce_live})

    def reduce_live(self, protocol: int) -> tuple[Any, ...]:
        """What copy and pickle make the live model of again."""
        _, _, state, *rest = type(self.live).__reduce_ex__(self.live, max(protocol, 2))
        unpatched = {name: value for name, value in state.items() if name not in ("generate", "__reduce_ex__")}
        return _copy_of_live, (type(self.live), self), unpatched, *rest

    def __getstate__(self) -> dict[str, Any]:
        """A copy's model and weights are its own."""
        return {**vars(self), "live": None, "receipt": None, "_built": None, "_spoken": None}

    # ---- The model here ---------------------------------------------------------------------------------------------

    def convert(self) -> Model:
        """The model here, made again if a weight or a module of the live one has changed."""
        check_live_model(self.live)
        if self.of_files is not None:
            return self.of_files
        state = live_tensors(self.live)
        now = fingerprint(self.live, state)
        if self._built is None or not are_same_fingerprints(self._built[0], now):
            self._built = now, self._model_of(state)
        return self._built[1]

    def _model_of(self, live_tensors: dict[str, LiveTensor]) -> Model:
        family, config, _ = read_settings(None, self.live.config.to_dict())
        config = config.for_live_model()
        stored = {tensor.dtype for tensor in live_tensors.values()}
        if stored & {"F16", "BF16"} and self.dtype is None:
            raise CheckpointError(
                f"{type(self.live).__name__}: transformers computes in its 16 bits and minidecode in float32, so "
                "tokens would differ: load it in float32, or say dtype='float32' here if they may"
            )
        dtype = self.dtype or ("float64" if "F64" in stored else "float32")
        tensors, config = bound_tensors(family, config, live_tensors, np.dtype(COMPUTED_IN[dtype]))
        words, source = _convert_tokenizer(self.tokenizer), "the model's generation_config"
        model = Model(family, config, tensors, words, {}, self.plan, dtype, "cpu", source)
        self.copied = copied_bytes(model.weights, live_tensors.values())
        if model.dtype in ("float32", "float64"):
            check_same_scores(self.live, model)
        return model

    def _with_own_tokenizer(self, model: Model, tokenizer: Any) -> Model:
        """The model with a call's own tokenizer in place of that of `accelerate`, where the call has one."""
        if tokenizer is None:
            return model
        if self._spoken is None or self._spoken[0] is not tokenizer or self._spoken[1] is not model:
            other, words = copy.copy(model), _convert_tokenizer(tokenizer)
            other.tokenizer, other.inputs = words, dataclasses.replace(model.inputs, tokenizer=words)
            self._spoken = tokenizer, model, other
        return self._spoken[2]

    # ---- A call -----------------------------------------------------------------------------------------------------

    def __call__(
        self, inputs: Any = None, generation_config: Any = None, logits_processor: Any = None,
        stopping_criteria: Any = None, prefix_allowed_tokens_fn: Any = None, synced_gpus: bool | None = None,
        assistant_model: Any = None, streamer: Any = None, negative_prompt_ids: Any = None,
        negative_prompt_attention_mask: Any = None, custom_generate: Any = None, **kwargs: Any,
    ) -> Any:  # fmt: skip
        """transformers' `generate`: LongTensors, or its outputs where return_dict_in_generate asks for them."""
        model, torch = self._with_own_tokenizer(self.convert(), kwargs.pop("tokenizer", None)), sys.modules["torch"]
        refused = {"assistant_model": assistant_model, "custom_generate": custom_generate,
                   "negative_prompt_attention_mask": negative_prompt_attention_mask}  # fmt: skip
        _refuse_argument(refused | kwargs)
        settings, rest = self._resolve_settings(generation_config, kwargs)
        given = inputs if inputs is not None else rest.pop("input_ids", None)
        mask, positions = rest.pop("attention_mask", None), None
        if not model.has_encoder:
            positions = rest.pop("position_ids", None)
        if unknown := sorted(name for name, value in rest.items() if value is not None and name not in NEEDLESS):
            raise OptionError(f"{', '.join(unknown)}: not known here; {REMEDY}")
        ids_BN = _read_prompt_ids(given, settings, torch)
        mask_BN = _read_mask(mask, ids_BN, settings, model.has_encoder)
        _check_positions(positions, mask_BN, self.live)
        prompts = _without_padding(ids_BN, mask_BN, model.has_encoder)
        options = self._options_of_settings(settings, ids_BN.shape[1])
        if {len(prompt) for prompt in prompts} != {ids_BN.shape[1]}:
            readers = READS_SOURCES if model.has_encoder else READS_TEXTS
            _check_padding(options | {"prefix_allowed_tokens_fn": prefix_allowed_tokens_fn}, readers, settings)
        eos_ids = _eos_ids(settings)
        eos, waits = next(iter(eos_ids), 0), not eos_ids and options.get("num_beams", 1) == 1
        pad = settings.get("pad_token_id", eos)
        plan = model.plan
        if logits_processor or stopping_criteria:  # they may know a text by its row: no text leaves the batch
            plan = dataclasses.replace(plan, drop_finished="off")
            left_B = [0 if model.has_encoder else ids_BN.shape[1] - len(prompt) for prompt in prompts]
            batch = TorchBatch([ids[:n] for ids, n in zip(ids_BN, left_B, strict=True)], pad, torch)
            options["logits_processor"] = [batch.processor(each) for each in logits_processor or ()]
            if stopping_criteria:
                options["stopping_criteria"] = [batch.criterion(stopping_criteria, waits)]
        if options.get("stop_strings") and waits and len(ids_BN) * options.get("num_return_sequences", 1) > 1:
            raise InputError(
                "stop_strings: without eos_token_id, transformers writes on in a text that has one until all have: "
                "give one prompt at a time"
            )
        if options.get("stop_strings") and model.tokenizer is None:
            raise InputError("stop_strings are found by a fast tokenizer of transformers: pass it as tokenizer=")
        if prefix_allowed_tokens_fn is not None:
            options["prefix_allowed_tokens_fn"] = lambda b, ids: prefix_allowed_tokens_fn(b, torch.from_numpy(ids))
        if negative_prompt_ids is not None:
            options["negative_prompt_ids"] = negative_prompt_ids.tolist()
        if options.get("do_sample"):  # torch.manual_seed decides, as it does for transformers
            options["seed"] = int(torch.randint(2**62, ()).item())
        is_beam, keep = options.get("num_beams", 1) > 1, []
        if settings.get("return_dict_in_generate"):
            keep = [name for name in ("scores", "logits") if settings.get(f"output_{name}")]
            keep += ["beam_indices"] * is_beam
        raised = None
        try:
            out = model.generate(input_ids=prompts, streamer=streamer, keep=keep, plan=plan, **options)
        except FunctionError as error:
            raised = error.__cause__
        if raised is not None:  # a script catches its own exceptions; here, outside `except`, they stay as they are
            raise raised
        self.receipt = out.receipt
        start = settings.get("decoder_start_token_id") if model.has_encoder else None
        if is_beam:  # transformers' beam search takes token 0 for none
            pad = pad or eos
        sequences = _make_sequences(out.token_ids, ids_BN, start, pad, torch)
        if not settings.get("return_dict_in_generate"):
            return sequences
        return _make_output(sequences, out, model.has_encoder, is_beam, torch)

    def _resolve_settings(
        self, generation_config: Any, kwargs: dict[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """(the settings of this call as transformers resolves them, arguments that are none)."""
        configs = (self.live.generation_config, generation_config)
        lengths = [getattr(of, "max_length", None) for of in configs] + [kwargs.get("max_length")]
        config, rest = self.live._prepare_generation_config(generation_config, **kwargs)
        settings = {name: value for name, value in config.to_dict().items() if value is not None}
        settings |= {name: value.tolist() for name, value in settings.items() if hasattr(value, "tolist")}
        if self.live.config.is_encoder_decoder and "bos_token_id" in settings:
            settings.setdefault("decoder_start_token_id", settings["bos_token_id"])
        if all(length is None for length in lengths) and "max_new_tokens" not in settings:
            settings |= {"max_new_tokens": settings["max_length"], "is_default_length": True}  # it counts new tokens
        for name in NOT_RETURNED:
            if settings.get(name):
                raise OptionError(f"{name}: it is not kept here; {REMEDY}")
        for name, (off, why) in OTHER_SEARCHES.items():
            if settings.get(name, off) != off:
                raise OptionError(f"{name}: {why}; {REMEDY}")
        if settings.get("guidance_scale", 1) != 1 and settings.get("num_beams", 1) > 1:
            raise OptionError(
                "guidance_scale: transformers' cache of it does not follow beams, so that each beam gets another's "
                f"scores: leave it out, or num_beams; {REMEDY}"
            )
        uses_cache = settings.get("use_cache", True) and getattr(self.live.config, "use_cache", True)
        if self.live.config.model_type == "prophetnet" and not uses_cache:
            raise OptionError(
                "use_cache=False: transformers' ProphetNet gives other scores without its cache: leave it on"
            )
        return settings, rest

    def _options_of_settings(self, settings: dict[str, Any], N: int) -> dict[str, Any]:
        """transformers' settings as options of ours: those that count, with lengths of new tokens."""
        dropped = {*HARMLESS, *OTHER_SEARCHES, "max_length", "min_length", "is_default_length"}
        dropped |= set() if settings.get("do_sample") else SAMPLING_ALONE
        dropped |= OF_BEAMS if settings.get("num_beams", 1) == 1 else set()
        dropped |= {"pad_token_id"} if settings.get("pad_token_id", 0) < 0 else set()
        options = {name: value for name, value in settings.items() if name not in dropped and not name.startswith("_")}
        before = 1 if self.live.config.is_encoder_decoder else N
        most = options.setdefault("max_new_tokens", settings["max_length"] - before)
        context = getattr(self.live.config, "max_position_embeddings", None)
        if settings.get("is_default_length") and context is not None:
            most = options["max_new_tokens"] = min(most, context - before)
        if most < 1 and settings.get("is_default_length"):
            raise InputError(f"the prompt has {N} tokens, and the context {context}: shorten it")
        if most < 1:
            raise InputError(f"the prompt has {N} tokens, and max_length is {settings['max_length']}: raise it")
        if settings.get("min_length", 0) > before:
            options.setdefault("min_new_tokens", settings["min_length"] - before)
        if "min_new_tokens" in options:  # beyond the limit transformers only warns
            options["min_new_tokens"] = min(options["min_new_tokens"], most)
        return options | {"eos_token_id": [token for token in _eos_ids(settings) if token >= 0] or None}

    # ---- The proof --------------------------------------------------------------------------------------------------

    def prove(self, inputs: Any, **options: Any) -> str:
        """Both sides generate; what was compared, in one line. Raises RefusedError on the first difference."""
        return compare_sides(self, inputs, options)

    def convert_in_float64(self) -> Model:
        """The live model's weights in float64: the scores of what differs."""
        return Accelerated(self.live, self.tokenizer, "numpy", "float64").convert()

    def arguments(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """A call's arguments by name, those that are not None; the prompts are input_ids."""
        bound = inspect.signature(self.__call__).bind(*args, **kwargs).arguments
        named = bound.pop("kwargs", {}) | bound
        if named.get("inputs") is not None:
            named["input_ids"] = named.pop("inputs")
        return {name: value for name, value in named.items() if value is not None}

    def settings_of(self, **call: Any) -> dict[str, Any]:
        """The settings of a call as transformers resolves them."""
        return self._resolve_settings(call.pop("generation_config", None), call)[0]

    def is_sampled(self, **call: Any) -> bool:
        """Whether a call chooses tokens at random."""
        return bool(self.settings_of(**call).get("do_sample"))


def _copy_of_live(kind: type, accelerated: Accelerated) -> Any:
    """A live model without its state, with a `generate` of its own: the first step of a copy and of an unpickling."""
    accelerated = copy.copy(accelerated)
    accelerated.live = kind.__new__(kind)
    accelerated.bind()
    return accelerated.live


def _convert_tokenizer(tokenizer: Any) -> Tokenizer | None:
    """The tokenizer here, of transformers' fast one."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    return None if backend is None else Tokenizer(backend)


def _refuse_argument(given: dict[str, Any]) -> None:
    """Raises OptionError on an argument that changes what is computed in a way that is not here."""
    for name, value in given.items():
        if name in NOT_TAKEN and value is not None:
            raise OptionError(f"{name}: {NOT_TAKEN[name]}; {REMEDY}")


def _eos_ids(settings: dict[str, Any]) -> list[int]:
    """The tokens that end a text, as transformers' settings have them: a negative one is never said."""
    eos = settings.get("eos_token_id")
    return eos if isinstance(eos, list) else [] if eos is None else [eos]


def _read_prompt_ids(given: Any, settings: dict[str, Any], torch: Any) -> np.ndarray:
    """The prompts (B, N). Raises InputError on what are no token ids."""
    if given is None:
        if settings.get("bos_token_id") is None:
            raise InputError("generate needs input_ids: the model has no bos_token_id to begin with")
        given = torch.tensor([[settings["bos_token_id"]]])
    ids_BN = np.asarray(given)
    if ids_BN.ndim != 2 or ids_BN.dtype.kind not in "iu":
        raise InputError(f"input_ids must be whole numbers of shape (B, N), not {ids_BN.dtype} of {ids_BN.shape}")
    return ids_BN.astype(np.int64, copy=False)


def _read_mask(mask: Any, ids_BN: np.ndarray, settings: dict[str, Any], has_encoder: bool) -> np.ndarray:
    """True where a token is no padding. Without a mask, transformers takes pad_token_id for it, unless it is an EOS.

    In sources, transformers 5.0 did so and 5.24 reads them as text: here they raise InputError.
    """
    if mask is not None:
        return np.asarray(mask) != 0
    pad = settings.get("pad_token_id")
    if pad is None or pad in _eos_ids(settings):
        return np.ones_like(ids_BN, bool)
    if has_encoder and (ids_BN == pad).any():
        raise InputError(
            f"input_ids hold the padding token {pad} and no attention_mask comes with them: versions of transformers "
            "differ there, so give attention_mask"
        )
    return ids_BN != pad


def _check_positions(positions: Any, mask_BN: np.ndarray, live: Any) -> None:
    """Raises OptionError on positions that do not count the tokens that are no padding, as they do here.

    Before 5.2, transformers gives all new tokens but the first the last of these positions.
    """
    if positions is None:
        return
    positions, counted_BN = np.asarray(positions), mask_BN.cumsum(axis=1) - 1
    if positions.shape != mask_BN.shape or (positions != counted_BN)[mask_BN].any():
        raise OptionError(f"position_ids: positions count the tokens that are no padding; {REMEDY}")
    if not hasattr(live, "_prepare_position_ids_for_generation"):
        raise OptionError(
            "position_ids: transformers before 5.2 does not count on from them: leave them out, or upgrade transformers"
        )


def _without_padding(ids_BN: np.ndarray, mask_BN: np.ndarray, has_encoder: bool) -> list[list[int]]:
    """The tokens of each row that its mask keeps. Raises InputError where padding changes what transformers does.

    transformers counts positions of a decoder's prompt from its first token, and of a source from its row's begin.
    """
    if mask_BN.shape != ids_BN.shape:
        raise InputError(f"attention_mask has shape {mask_BN.shape}, and input_ids {ids_BN.shape}: give both alike")
    if mask_BN.all():
        return ids_BN.tolist()
    counts = mask_BN.sum(axis=1)
    if not counts.all():
        raise InputError(f"attention_mask keeps no token of row {int(counts.argmin())}: leave the row out")
    padding = (row[n:] if has_encoder else row[: len(row) - n] for row, n in zip(mask_BN, counts, strict=True))
    if any(each.any() for each in padding):
        whose, where = ("an encoder's sources", "right") if has_encoder else ("a decoder's prompts", "left")
        raise InputError(f"{whose} are padded on the {where}: set tokenizer.padding_side = '{where}'")
    return [row[kept].tolist() for row, kept in zip(ids_BN, mask_BN, strict=True)]


def _check_padding(given: dict[str, Any], readers: Sequence[str], settings: dict[str, Any]) -> None:
    """Raises InputError on options that read padded inputs: transformers counts padding, and minidecode does not."""
    is_end = settings.get("pad_token_id") in (None, *_eos_ids(settings))
    harmless = {"no_repeat_ngram_size": (0,) if not is_end else (0, *range(2, 1000)), "repetition_penalty": (1.0,),
                "encoder_repetition_penalty": (1.0,), "encoder_no_repeat_ngram_size": (0,)}  # fmt: skip
    for name in readers:
        if given.get(name) is not None and given[name] not in harmless.get(name, ([], ())):
            raise InputError(
                f"transformers counts padding as text for {name}, and minidecode does not: give prompts of one length, "
                "or one at a time"
            )


def _make_sequences(tokens: list[np.ndarray], ids_BN: np.ndarray, start: int | None, pad: int, torch: Any) -> Any:
    """Rows as transformers returns them: the prompt, or a target's start, then new tokens, padded on the right."""
    before = (
        np.repeat(ids_BN, len(tokens) // len(ids_BN), axis=0) if start is None else np.full((len(tokens), 1), start)
    )
    new = np.full((len(tokens), max(map(len, tokens))), pad, np.int64)
    for row, ids in zip(new, tokens, strict=True):
        row[: len(ids)] = ids
    return torch.from_numpy(np.concatenate([before, new], axis=1))


def _make_output(sequences: Any, out: Output, has_encoder: bool, is_beam: bool, torch: Any) -> Any:
    """transformers' output of that kind. Its numbers are of float32, whatever the model computes in."""
    kinds = sys.modules["transformers"].generation.utils
    name = f"Generate{'Beam' if is_beam else ''}{'EncoderDecoder' if has_encoder else 'DecoderOnly'}Output"
    outputs: dict[str, Any] = {}
    if (kept := out.kept) is not None:
        steps = {"scores": kept.scores, "logits": kept.logits}
        for kind in set(kept.what) & set(steps):
            outputs[kind] = tuple(torch.from_numpy(each.astype(np.float32)) for each in steps[kind])
    if is_beam:
        outputs["beam_indices"] = torch.full((len(sequences), max(map(len, out.token_ids))), -1, dtype=torch.int32)
        for row, indices in zip(outputs["beam_indices"], kept.beam_indices if kept else (), strict=True):
            row[: len(indices)] = torch.from_numpy(indices)
        if "scores" in outputs:
            outputs["sequences_scores"] = torch.from_numpy(np.asarray(out.scores, np.float32))
    return getattr(kinds, name)(sequences=sequences, **outputs)


@dataclasses.dataclass
class TorchBatch:
    """Texts as functions of torch know them: a row for each, of one length.

    left_B: the padding in front of each prompt. pad: what follows a text that is over.
    """

    left_B: list[np.ndarray]
    pad: int
    torch: Any

    def rows(self, texts: Sequence[np.ndarray]) -> Any:
        """input_ids of these texts, which are of the prompts in turn, as many of each."""
        each = len(texts) // len(self.left_B)
        padded = [np.concatenate([self.left_B[r // each], text]) for r, text in enumerate(texts)]
        ids_RM = np.full((len(padded), max(map(len, padded))), self.pad, np.int64)
        for row, ids in zip(ids_RM, padded, strict=True):
            row[: len(ids)] = ids
        return self.torch.from_numpy(ids_RM)

    def processor(self, function: Callable[..., Any]) -> Callable[..., np.ndarray]:
        """A LogitsProcessor: scores are handed over without a copy, and its result back."""

        def processed(scores_RV: np.ndarray, rows: Any) -> np.ndarray:
            each = len(rows.length_R) // len(self.left_B)
            end_R = rows.length_R + np.repeat([len(left) for left in self.left_B], each)
            length_R = rows.length_R + (end_R < end_R.max())  # a text that is over: its last token, too
            texts = [ids[:length] for ids, length in zip(rows.tokens_RM, length_R, strict=True)]
            return function(self.rows(texts), self.torch.from_numpy(scores_RV)).numpy()

        return processed

    def criterion(self, functions: Sequence[Callable[..., Any]], waits: bool) -> Callable[..., Any]:
        """What some StoppingCriteria say together: which texts end.

        waits: no text ends before all have, and those that have are written on. So does transformers without an EOS.
        """
        ended: Any = False

        def ends(texts: list[np.ndarray], scores_RV: np.ndarray | None) -> Any:
            nonlocal ended
            scores = None if scores_RV is None else self.torch.from_numpy(scores_RV)
            now = np.logical_or.reduce([np.asarray(function(self.rows(texts), scores)) for function in functions])
            if not waits:
                return now
            ended = np.logical_or(ended, now)
            return bool(ended.all())

        return ends
