"""Generation options: Hugging Face's names and meanings, read from a call and from generation_config.json."""

from __future__ import annotations

import dataclasses
import difflib
import numbers
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from ..errors import OptionError

DEFAULT_NEW_TOKENS = 64
UNSET = ("max_new_tokens", "max_length", "min_new_tokens", "pad_token_id", "decoder_start_token_id")  # may be None

# Settings of transformers that are off at this value.
NEUTRAL = {
    "do_sample": False, "num_beam_groups": 1, "repetition_penalty": 1.0, "encoder_repetition_penalty": 1.0,
    "diversity_penalty": 0.0, "encoder_no_repeat_ngram_size": 0, "guidance_scale": 1.0, "epsilon_cutoff": 0.0,
    "eta_cutoff": 0.0, "renormalize_logits": False, "remove_invalid_values": False,
}  # fmt: skip
# Settings that change nothing here: they shape sampling, which is off, or what transformers returns and caches.
HARMLESS = {
    "transformers_version", "bos_token_id", "use_cache", "temperature", "top_k", "top_p", "top_h", "min_p", "typical_p",
    "output_attentions", "output_hidden_states", "output_scores", "output_logits", "return_dict_in_generate",
    "cache_implementation", "cache_config", "return_legacy_cache", "disable_compile", "compile_config",
    "num_assistant_tokens", "num_assistant_tokens_schedule", "assistant_confidence_threshold", "prefill_chunk_size",
    "assistant_early_exit", "assistant_lookbehind", "target_lookbehind", "max_matching_ngram_size", "low_memory",
    "is_assistant", "prompt_lookup_num_tokens",
}  # fmt: skip


@dataclass(frozen=True)
class Options:
    """What `generate` takes. Lengths are in tokens.

    max_length and min_length count the prompt, each sentence its own; max_new_tokens and min_new_tokens do not, and
    go before them. With neither maximum given, up to 64 tokens are generated, or as many as the context still holds.
    A finished hypothesis scores (sum of its log-probabilities) / (its new tokens, EOS included) ** length_penalty.
    forced_bos_token_id comes right after a target of one token, forced_eos_token_id last of the most tokens allowed;
    decoder_start_token_id is what the targets of an encoder-decoder model begin with, as a prompt that is not returned.
    pad_token_id is checked and changes nothing: padding never reaches the model, and texts come back without it.
    early_stopping: True stops a sentence when num_beams hypotheses are finished; False when the best running beam,
    at its present length, cannot beat the worst of them; "never" when it could not even at the maximal length.
    """

    num_beams: int = 1
    num_return_sequences: int = 1
    max_new_tokens: int | None = None
    max_length: int | None = None
    min_new_tokens: int | None = None
    min_length: int = 0
    length_penalty: float = 1.0
    early_stopping: bool | Literal["never"] = False
    no_repeat_ngram_size: int = 0
    eos_token_id: int | tuple[int, ...] | None = None
    pad_token_id: int | None = None
    forced_bos_token_id: int | tuple[int, ...] | None = None
    forced_eos_token_id: int | tuple[int, ...] | None = None
    decoder_start_token_id: int | None = None

    def __post_init__(self):
        for name in ("eos_token_id", "forced_bos_token_id", "forced_eos_token_id"):
            object.__setattr__(self, name, _token_tuple(name, getattr(self, name)))
        for name, least in [("num_beams", 1), ("num_return_sequences", 1), ("max_new_tokens", 1), ("max_length", 1),
                            ("min_new_tokens", 0), ("min_length", 0), ("no_repeat_ngram_size", 0),
                            ("pad_token_id", 0), ("decoder_start_token_id", 0)]:  # fmt: skip
            value = getattr(self, name)
            if value is None and name in UNSET:
                continue
            if isinstance(value, bool) or not _is_whole(value) or value < least:
                raise OptionError(f"{name} must be a whole number from {least} up, not {value!r}")
        penalty = self.length_penalty
        if isinstance(penalty, bool) or not isinstance(penalty, numbers.Real) or not abs(penalty) <= 50:
            raise OptionError(f"length_penalty must be a number from -50 to 50, not {penalty!r}")
        object.__setattr__(self, "length_penalty", float(penalty))
        if not isinstance(self.early_stopping, bool) and self.early_stopping != "never":
            raise OptionError(f"early_stopping must be True, False or 'never', not {self.early_stopping!r}")
        if self.num_return_sequences > self.num_beams:
            raise OptionError(
                f"num_return_sequences {self.num_return_sequences} is above num_beams {self.num_beams}: "
                "a search returns at most as many texts as it has beams"
            )
        if self.max_new_tokens is not None and (self.min_new_tokens or 0) > self.max_new_tokens:
            raise OptionError(f"min_new_tokens {self.min_new_tokens} is above max_new_tokens {self.max_new_tokens}")
        if self.max_new_tokens is None and self.max_length is not None and self.min_length > self.max_length:
            raise OptionError(f"min_length {self.min_length} is above max_length {self.max_length}")

    def check_vocabulary(self, vocab_size: int) -> None:
        """Raises OptionError where the options ask for more than V tokens can give."""
        for name, ids in [("eos_token_id", self.eos_token_id), ("pad_token_id", (self.pad_token_id,)),
                          ("forced_bos_token_id", self.forced_bos_token_id),
                          ("forced_eos_token_id", self.forced_eos_token_id),
                          ("decoder_start_token_id", (self.decoder_start_token_id,))]:  # fmt: skip
            for i in ids:
                if i is not None and i >= vocab_size:
                    raise OptionError(f"{name} {i} is not in the vocabulary of {vocab_size} tokens")
        if self.num_beams > 1 and self.candidates > vocab_size:
            raise OptionError(
                f"num_beams {self.num_beams} needs {self.candidates} candidates from the first step, "
                f"and the vocabulary has {vocab_size} tokens: use fewer beams"
            )

    @property
    def candidates(self) -> int:
        """Continuations looked at per sentence and step: enough that num_beams remain if every beam could end."""
        return max(2, 1 + len(self.eos_token_id)) * self.num_beams


def resolve(defaults: dict[str, Any], given: dict[str, Any]) -> Options:
    """`given` over `defaults` (generation_config.json) over transformers' own defaults.

    A length that is given goes before the same limit in its other spelling in the file (transformers lets a file's
    max_new_tokens go before a call's max_length). None in `given` means "not given", except that eos_token_id=None
    turns EOS off. Raises OptionError on a name that is no option, naming the closest one.
    """
    names = {f.name for f in dataclasses.fields(Options)}
    for name in given:
        if name not in names:
            close = difflib.get_close_matches(name, names, 1)
            hint = f"did you mean {close[0]}?" if close else f"the options are {', '.join(sorted(names))}"
            raise OptionError(f"generate has no option {name!r}: {hint}")
    given = {k: v for k, v in given.items() if v is not None or k == "eos_token_id"}
    # Padding never reaches the model here, so which token a file names for it is no matter.
    merged = {k: v for k, v in defaults.items() if k in names and v is not None and k != "pad_token_id"} | given
    for one, other in [("max_new_tokens", "max_length"), ("min_new_tokens", "min_length")]:
        for asked, unasked in [(one, other), (other, one)]:
            if asked in given and unasked not in given:
                merged.pop(unasked, None)
    try:
        return Options(**merged)
    except OptionError as error:
        Options(**given)  # a rule that the call breaks by itself is told as it is
        raise OptionError(f"with the defaults of generation_config.json: {error}") from None


def refuse_unsupported(defaults: dict[str, Any]) -> None:
    """Raises OptionError if generation_config.json asks for what would change the answer and is not there yet.

    A setting that is unknown here is refused unless it is unset, off, or among those known not to matter.
    """
    known = {f.name for f in dataclasses.fields(Options)} | HARMLESS
    for name, value in defaults.items():
        neutral = NEUTRAL.get(name)
        if name not in known and value not in (None, False, [], {}) and value != neutral:
            remedy = f"set it to {neutral!r} there" if name in NEUTRAL else "delete it there"
            raise OptionError(f"generation_config.json asks for {name}={value!r}, which is not supported: {remedy}")


def _is_whole(value: object) -> bool:
    return isinstance(value, numbers.Integral)


def _token_tuple(name: str, value) -> tuple[int, ...]:
    if value is None:
        return ()
    ids = tuple(value) if isinstance(value, Iterable) and not isinstance(value, str) else (value,)
    for i in ids:
        if isinstance(i, bool) or not _is_whole(i) or i < 0:
            raise OptionError(f"{name} must be token ids from 0 up, not {i!r}")
    return ids
