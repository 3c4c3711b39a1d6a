"""What a loaded model is: weights, tokenizer and defaults, what kind of model it is, and the options of a call."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self, TypeVar, Unpack

import numpy as np

from ..device.arrays import copy_to_device
from ..device.blas_threads import has_small_products
from ..device.low_precision import (
    DYNAMIC,
    LOW_PRECISION,
    map_weights,
    read_only_weights,
    weights_stored_as,
    with_joined_matrices,
)
from ..errors import CheckpointError, OptionError, shown
from ..files.folder import chosen_defaults
from ..files.sentence_settings import SentenceSettings
from ..files.tokenizer import Tokenizer
from ..files.tokenizer_kinds import TOKENIZER_KINDS
from ..models import FAMILIES, Family
from ..options.options import Options, refuse_unsupported, resolve
from ..options.typed_dict import GenerateOptions
from ..plan import Plan, import_backend_file
from ..runtime.buckets import Buckets
from ..runtime.inputs import Inputs
from ..runtime.model_on_device import ModelOnDevice
from ..runtime.passes import Passes

Loaded = TypeVar("Loaded", bound="LoadedModel")
# What callers of transformers ask to have returned, and what gives it here.
RETURNED = {
    "return_dict_in_generate": "leave it out, and read its token_ids, scores and texts",
    "output_scores": "ask for keep=('scores',)",
    "output_logits": "ask for keep=('logits',)",
    "output_attentions": "minidecode explore shows attention",
    "output_hidden_states": "they are not kept",
}


class LoadedModel(ModelOnDevice):
    """Weights, tokenizer and defaults, which no generation changes; and captured steps, which one has at a time."""

    config: Any  # with the fields of its family, as the weights have: some methods are for one family alone
    weights: Any

    def __new__(cls, family: object = None, *rest: Any, **named: Any) -> Self:
        if not isinstance(family, Family):
            raise OptionError(f"md.load makes a Model, and {cls.__name__} takes no {shown(family)}: call md.load")
        return super().__new__(cls)

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
        self.weights = family.network.bind(config, tensors)
        self.parameters = sum(t.size for t in tensors.values())  # numbers in the weights, tied ones once
        self.dtype = dtype or str(next(iter(tensors.values())).dtype)  # as given to `load`
        if dtype in LOW_PRECISION:
            check_finite(self)
        by_outputs = dtype == "float32" and (plan.linear == "cpu" or device != "cpu")
        # EL reads the matrices of keys and values themselves, which packed ones would have to be copied for.
        reads_matrices = plan.cache_kind(family.has_encoder).reads_hidden_states
        packs_floats = dtype == "float32" and plan.base == "fast" and plan.linear == "cpu" and not reads_matrices
        if device == "cpu" and (dtype in DYNAMIC or packs_floats):
            must = plan.base == "auto" or plan.linear_int8 == "cpu"
            self.weights = import_backend_file("cpu.common", "packing").pack_weights(dtype, self.weights, must)
        elif dtype is not None and (dtype in LOW_PRECISION or by_outputs):
            self.weights = weights_stored_as(dtype, self.weights, packs=device == "cpu")
        else:
            self.weights = map_weights(self.weights, lambda place, weight: with_joined_matrices(weight))
        if dtype in LOW_PRECISION:
            self.tensors = {}  # the wide ones are dropped
        self.weights = read_only_weights(self.weights) if device == "cpu" else copy_to_device(device, self.weights)
        self.inputs = self._inputs(family)
        self.is_small = has_small_products(self.weights)
        self.buckets, self.passes = Buckets(device), Passes(device)

    def __repr__(self) -> str:
        return (
            f"Model({self.config.layers} layers of width {self.config.width}, {self.parameters / 1e6:.1f} million "
            f"parameters, dtype {self.dtype}, plan {self.plan}, on {self.device})"
        )

    def __copy__(self) -> Self:
        """A model on the same weights, which nothing changes, with defaults and captured steps of its own."""
        return _from_state(type(self), self._state() | {"defaults": copy.deepcopy(self.defaults)})

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.__copy__()

    def __reduce__(self) -> tuple[Callable[..., LoadedModel], tuple]:
        """Pickles by reference what was loaded of files that are still the same (see LoadedFrom), the rest by value."""
        if self.loaded_from is not None and self.loaded_from.is_unchanged():
            return self.loaded_from.load_again, (self.plan, self.defaults, self.defaults_from)
        return _from_state, (type(self), self._state())

    def _state(self) -> dict[str, Any]:
        """All that another model can take over: `_from_state` makes the rest anew."""
        derived = {"network", "buckets", "passes", "inputs"}
        return {name: value for name, value in vars(self).items() if name not in derived}

    @property
    def is_encoder(self) -> bool:
        """Whether it reads texts and writes none (BERT)."""
        return not FAMILIES[self.family].writes

    @property
    def plan_traits(self) -> dict[str, Any]:
        """What plans depend on, beside the device."""
        return {
            "has_encoder": self.has_encoder, "dtype": self.dtype, "is_rotary": self.is_rotary,
            "has_latent": self.has_latent, "reads_in_front": self.reads_in_front,
        }  # fmt: skip

    def options(self, **given: Unpack[GenerateOptions]) -> Options:
        """The options that a call of `generate` with these would run under: generation_config.json fills the gaps.

        generation_config: a dict, the path of a JSON file, or False, in place of the model's defaults; as in `load`.
        Raises OptionError on an unknown name, a value that breaks a rule, or one that this model cannot serve.
        """
        refuse_encoder_alone(self)
        defaults, source = self.defaults, self.defaults_from
        chosen: dict[str, Any] = dict(given)
        if (config := chosen.pop("generation_config", None)) is not None:
            defaults, source = chosen_defaults(None, defaults, config)
        for name, instead in RETURNED.items():
            if chosen.pop(name, None):
                raise OptionError(f"{name}=True: generate always returns an Output; {instead}")
        if chosen.get("use_cache") is True:  # as every plan does that does not say cache=none
            del chosen["use_cache"]
        options = resolve(defaults, chosen, source)
        refuse_unsupported(defaults, options.do_sample, source)
        self._check_vocabularies(options)
        options = options.for_vocabulary(self.config.generated_vocab_size)
        options.check_vocabulary(self.config.vocab_size)
        if self.config.generated_vocab_size < self.config.vocab_size:
            options = options.for_head(self.config.generated_vocab_size)
            options.check_beams(self.config.generated_vocab_size)
        return options

    def _check_vocabularies(self, options: Options) -> None:
        """Raises OptionError on rules that look for the source's tokens in the target, where their ids differ."""
        off = {"encoder_repetition_penalty": 1.0, "encoder_no_repeat_ngram_size": 0}
        used = [name for name, value in off.items() if getattr(options, name) != value]
        if used and not self.config.shares_vocabulary:
            raise OptionError(
                f"{used[0]} needs one vocabulary of sources and targets, and this model has two: leave it out"
            )

    def _inputs(self, family: Family) -> Inputs:
        files = TOKENIZER_KINDS[family.tokenizer].files
        kinds = self.is_encoder_decoder, self.reads_in_front
        return Inputs(self.config, self.tokenizer, self.defaults, *kinds, self.prefix, files)


def _from_state(kind: type[Loaded], state: dict[str, Any]) -> Loaded:
    """A model of these fields; see `LoadedModel._state`."""
    model = object.__new__(kind)
    vars(model).update(state)
    model.network = FAMILIES[model.family].network
    model.buckets, model.passes = Buckets(model.device), Passes(model.device)
    model.inputs = model._inputs(FAMILIES[model.family])
    if model.device == "cpu":
        model.weights = read_only_weights(model.weights)
    return model


def refuse_other_than_model(function: str, model: object) -> None:
    """Raises OptionError on what `load` has not made, such as a model's name."""
    if not isinstance(model, LoadedModel):
        name = str(model) if isinstance(model, str | Path) else "tiny-gpt2"
        raise OptionError(f"{function} takes a model that md.load made, not {shown(model)}: give md.load({name!r})")


def refuse_encoder_alone(model: LoadedModel) -> None:
    """Raises OptionError on an encoder alone."""
    if model.is_encoder:
        raise OptionError(
            f"a {model.family} model reads texts and writes none: use encode or classify (commands embed, classify)"
        )


def check_finite(model: LoadedModel) -> None:
    """Raises CheckpointError on weights that low precision cannot store."""
    if bad := names_of_nonfinite_tensors(model):
        raise CheckpointError(f"the weights hold NaN or infinity, first in {bad[0]}: use another file")


def names_of_nonfinite_tensors(model: LoadedModel) -> list[str]:
    """The tensors that hold NaN or infinity."""
    return [name for name, tensor in model.tensors.items() if not np.isfinite(tensor).all()]


def explain_nan(model: LoadedModel, plan: Plan) -> str:
    """Says where NaN may come from: the weights, what is computed from them, or the user's functions."""
    bad = names_of_nonfinite_tensors(model)
    if not bad:
        suspects = "".join(f", or {choice} made it" for choice in plan.own_functions)
        return f": the weights are all finite, so a value overflowed on the way{suspects}"
    count = f"{len(bad)} of {len(model.tensors)} tensors"
    return f": the weights themselves hold NaN or infinity, first in {bad[0]} ({count}): use another file"
