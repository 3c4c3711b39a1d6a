"""Generation options: Hugging Face's names and meanings, read from a call and from generation_config.json."""

from __future__ import annotations

import dataclasses
import difflib
import math
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..device.user_functions import describe_function
from ..errors import MinidecodeWarning, OptionError, shown
from ..ops import BEST_BEAM, BEST_CANDIDATE, NOBODY, BeamRules
from . import checks
from .dialects import DIALECTS, Dialect
from .table import DEFAULTS, ROWS, OptionTable

DEFAULT_NEW_TOKENS = 64

# Options of transformers that minidecode has not, and what there is instead.
NOT_HERE = {
    "penalty_alpha": "contrastive search is not here, and not in transformers 5 either: sample with top_h or typical_p",
    "constraints": "words that a text must hold are not here: prefix_tokens says how it begins",
    "force_words_ids": "words that a text must hold are not here: prefix_tokens says how it begins",
    "dola_layers": "DoLa is not here: guidance_scale also contrasts two predictions",
    "watermarking_config": "watermarks are not here: a function of your own can make one (logits_processor)",
    "assistant_model": "give the model to generate as draft",
    "draft": "only generate, stream and generate_lines take it, as an argument beside the options",
    "negative_prompt_attention_mask": "give negative_prompt_ids without padding: lists may differ in length",
    "negative_prompt": "only generate, stream and footprint take it, as an argument beside the options",
    "negative_prompt_ids": "only generate, stream and footprint take it, as an argument beside the options",
    "tokenizer": "the model brings its tokenizer (model.tokenizer)",
    "max_tokens": "did you mean max_new_tokens?",
    "stop": "did you mean stop_strings?",
    "n": "did you mean num_return_sequences?",
    "best_of": "did you mean num_beams?",
    "beam_size": "did you mean num_beams?",
    "temp": "did you mean temperature?",
    "logit_bias": "did you mean sequence_bias?",
    "presence_penalty": "the nearest is repetition_penalty",
    "frequency_penalty": "the nearest is repetition_penalty",
    "stream": "call model.stream, or give a streamer",
    "use_cache": 'the plan chooses the cache: plan="cache=none" runs without one',
    "past_key_values": "a call keeps no caches for the next: give all of the text",
    "inputs": "give texts as prompts, or token ids as input_ids",
    "inputs_embeds": "give texts as prompts, or token ids as input_ids",
    "skip_special_tokens": "texts leave them out: model.tokenizer.decode(ids, keep_special=True) writes them",
}
# A file's seed stays: it changes nothing where nothing is drawn.
SAMPLING_ALONE = {name for name, row in ROWS.items() if row.needs == "do_sample"} - {"seed"}
# Settings that change nothing here: what transformers returns, caches and assists with.
HARMLESS = {
    "transformers_version", "bos_token_id", "use_cache",
    "output_attentions", "output_hidden_states", "output_scores", "output_logits", "return_dict_in_generate",
    "cache_implementation", "cache_config", "return_legacy_cache", "disable_compile", "compile_config",
    "num_assistant_tokens", "num_assistant_tokens_schedule", "assistant_confidence_threshold", "prefill_chunk_size",
    "assistant_early_exit", "assistant_lookbehind", "target_lookbehind", "max_matching_ngram_size", "low_memory",
    "is_assistant", "prompt_lookup_num_tokens",
}  # fmt: skip
# How tokens are drafted, which changes no text: a call says it, and no file.
OF_DRAFTS = ("prompt_lookup_num_tokens", "max_matching_ngram_size", "num_assistant_tokens")
# What goes by the steps of a search, or by one text after the other, and so not with drafts.
NOT_WITH_DRAFTS = (
    "guidance_scale", "prefix_allowed_tokens_fn", "logits_processor", "stopping_criteria", "max_time", "regex",
    "json_schema",
)  # fmt: skip
DRAFTED = 5  # tokens of a draft model's guess
# Dialects whose rule of stopping is fixed.
NO_EARLY_STOPPING = {
    "fairseq": "stops when num_beams texts have ended", "unilm": "stops when no text can still become the best",
    "ctranslate2": "stops when num_beams * patience texts have ended",
    "lightseq": "stops when the num_beams best texts have all ended",
}  # fmt: skip
# By a dialect's rule of stopping: a sentence goes on while the best score that this may still reach beats its worst
# finished text.
HOPE = {"running": BEST_BEAM, "limit": BEST_BEAM, "candidate": BEST_CANDIDATE, "full": NOBODY, "counted": NOBODY,
        "shared": NOBODY}  # fmt: skip
TOKEN_IDS = tuple(name for name, row in ROWS.items() if row.check is checks.TOKEN_IDS)
TOKEN_ID = tuple(name for name, row in ROWS.items() if row.check is checks.TOKEN_ID)
MAXIMA = ("max_new_tokens", "max_length", "max_len_b", "match_source_len")  # spellings of one limit
MINIMA = ("min_new_tokens", "min_length")
IGNORE_DEFAULTS = "ignore the defaults with --ignore-generation-config (generation_config=False)"
# What tokens are in a vocabulary, which is no matter of taste: kept where the other defaults are ignored.
TOKENS = ("bos_token_id", "eos_token_id", "pad_token_id", "unk_token_id", "decoder_start_token_id")
FORCED = ("forced_bos_token_id", "forced_eos_token_id")
# Tokens that scores are changed for, or that are looked for in a text: without effect beyond the vocabulary.
NEVER_SAID = ("eos_token_id", "unk_token_id", "suppress_tokens", "begin_suppress_tokens")


class CountedStop(NamedTuple):
    """A sentence is done when this many texts have finished; behind_best: and a step's best candidate among them."""

    texts: int
    behind_best: bool


@dataclass(frozen=True)
class Options(OptionTable):
    """The options of a generation, checked. Names and meanings are Hugging Face's where it has the option.

    The fields are those of `OptionTable` (table.py), whose rows say what each option does. Here is what concerns
    several of them, and what transformers does differently.

    **Lengths** are in tokens. A prompt counts in max_length and min_length; max_new_tokens and min_new_tokens take
    precedence over these. match_source_len takes precedence over max_len_a and max_len_b. The end of text comes on top
    of fairseq's limits.

    **Scores.** A finished text scores (sum of its log-probabilities) / norm(its new tokens, EOS included);
    length_normalization says which norm. "gnmt" is that of Wu et al. (2016). Groups of beams are diverse beam search
    (Vijayakumar et al. 2018); sibling_penalty is diverse siblings search (Li et al. 2016), the "diverse" search of
    LightSeq, and one of fairseq's two. search/processors.py has the order of the rules that change scores.

    **Sampling.** With several beams, each draws its continuations without replacement. Every filter but top_h leaves
    1 + (EOS ids) tokens to draw from, or more. Equal prompts in one call get different draws, by their order or by
    sample_ids.

    **Special tokens.** forced_bos_token_id comes right after a target of one token. decoder_start_token_id is a prompt
    that is not returned. pad_token_id never reaches the model; fairseq never generates it, and a diverse group of
    transformers that is done counts as choosing it.

    **Functions.** transformers gives a logits_processor other arguments: input_ids and scores. stopping_criteria get
    the ids of each text so far, with its prompt and its newest token, and the step's scores; a beam search asks for
    each candidate, and gives None as scores.

    **Stops.** A text ends where one of stop_strings is complete in it; the string may span several tokens.

    **Drafts.** Greedy texts are the same without drafts, up to ties. So are samples with prompt_lookup_num_tokens; with
    a draft model they are others, from the same distribution.

    **Constraints.** regex has the syntax of Rust's regex crate. JSON is spaced as json.dumps does. Give one of the two;
    each needs an EOS. Texts are complete at their limit at the latest. Where other rules leave no token, the constraint
    takes precedence over them. See search/constraints.py.
    """

    # No option: whether the least length is a default of the model's, and the limit is the caller's. Then a limit
    # below it is only warned of.
    has_default_minimum = False

    def __post_init__(self):
        object.__setattr__(self, "dialect", ROWS["dialect"].check("dialect", self.dialect))
        for name, value in self.rules.defaults.items():
            if getattr(self, name) is None and not (name == "min_new_tokens" and self.min_length):
                object.__setattr__(self, name, value)
        self._check_values()
        self._check_agreement()

    def changed(self) -> dict[str, Any]:
        """The options that are not at their defaults, for people and JSON: a function by its name."""
        given = {name: getattr(self, name) for name in ROWS}
        changed = {name: value for name, value in given.items() if value not in (DEFAULTS[name], ())}
        if not self.do_sample:  # a dialect's default top_k touches nothing then
            changed = {name: value for name, value in changed.items() if name not in SAMPLING_ALONE}
        if self.prefix_allowed_tokens_fn:
            changed["prefix_allowed_tokens_fn"] = describe_function(self.prefix_allowed_tokens_fn)
        if self.logits_processor:
            changed["logits_processor"] = [describe_function(function) for function in self.logits_processor]
        if self.stopping_criteria:
            changed["stopping_criteria"] = [describe_function(function) for function in self.stopping_criteria]
        return changed

    def _check_values(self) -> None:
        """Each option by itself."""
        for name, row in ROWS.items():
            object.__setattr__(self, name, row.check(name, checks.as_python(getattr(self, name))))

    def _check_agreement(self) -> None:
        """Options that contradict each other, and options that the dialect has no rule for."""
        W, G = self.num_beams, self.num_beam_groups
        if self.num_return_sequences > W and not (self.do_sample and W == 1):
            raise OptionError(
                f"num_return_sequences {self.num_return_sequences} is above num_beams {W}: "
                "a search returns at most as many texts as it has beams; raise num_beams, or say do_sample=True"
            )
        if self.max_new_tokens is not None and (self.min_new_tokens or 0) > self.max_new_tokens:
            raise OptionError(
                f"min_new_tokens {self.min_new_tokens} is above max_new_tokens {self.max_new_tokens}: lower it"
            )
        if self.max_new_tokens is None and self.max_length is not None and self.min_length > self.max_length:
            raise OptionError(f"min_length {self.min_length} is above max_length {self.max_length}: lower it")
        mine = "match_source_len" if self.match_source_len else "max_len_b"
        if (self.match_source_len or self.max_len_b is not None) and (self.max_new_tokens or self.max_length):
            other = "max_new_tokens" if self.max_new_tokens else "max_length"
            raise OptionError(f"{mine} and {other} are two spellings of one limit: give one of them")
        if self.max_len_b is not None and self.max_len_b < 0 and not self.max_len_a:
            raise OptionError(f"max_len_b must be an integer from 0 up without max_len_a, not {self.max_len_b}")
        if W % G:
            raise OptionError(f"num_beam_groups {G} does not divide num_beams {W}: groups are of one size")
        if (G > 1) != (self.diversity_penalty > 0):
            raise OptionError(
                f"num_beam_groups {G} and diversity_penalty {self.diversity_penalty} do not go together: diverse beam "
                "search needs several groups and a penalty above 0, or else its groups would all find the same"
            )
        if G > 1 and (self.do_sample or self.sibling_penalty):
            raise OptionError("num_beam_groups, do_sample and sibling_penalty do not go together: choose one")
        if G > 1 and self.guidance_scale != 1.0:
            raise OptionError("guidance_scale and num_beam_groups do not go together: choose one")
        if self.sibling_penalty and (self.do_sample or W == 1):
            raise OptionError("sibling_penalty needs num_beams above 1, and no do_sample: it is for beams")
        if self.do_sample and W > 1 and self.temperature < 1e-4:
            raise OptionError(
                f"temperature {self.temperature} is too low for a beam: its scores would sink below those out of play; "
                "use one of at least 1e-4, or leave out do_sample"
            )
        if self.regex is not None and self.json_schema is not None:
            raise OptionError("regex and json_schema do not go together: give one of them")
        if (name := self.constraint) and not self.eos_token_id:
            raise OptionError(f"{name} needs an eos_token_id, for a text ends with it where it is complete: give one")
        if self.tokens_ahead:
            self._check_drafts()
        for name, row in ROWS.items():
            if getattr(self, name) in (DEFAULTS[name], ()):
                continue
            needed, _, why = row.needs.partition(": ")
            if why and getattr(self, needed) == DEFAULTS[needed]:
                raise OptionError(f"{name} needs {needed}: {why}")
            if self.dialect not in row.dialects:
                systems = " or ".join(row.dialects)
                raise OptionError(f"{name} is no rule of dialect {self.dialect!r}: leave it out, or use {systems}")
        if self.dialect == "fairseq":
            self._check_fairseq()
        if self.dialect in ("unilm", "lightseq", "ctranslate2"):
            self._check_plain_search()
        if self.dialect in ("unilm", "lightseq"):
            self._check_unilm_or_lightseq()
        if self.dialect == "ctranslate2":
            self._check_ctranslate2()

    def _check_drafts(self) -> None:
        """What drafts do not go with."""
        if self.prompt_lookup_num_tokens and self.num_assistant_tokens:
            raise OptionError("prompt_lookup_num_tokens and a draft model both draft: give one of them")
        if self.num_beams > 1:
            raise OptionError(
                "drafts guess how one text goes on, and beams change places at every step: use num_beams=1, or leave "
                "prompt_lookup_num_tokens and the draft model out"
            )
        for name in NOT_WITH_DRAFTS:
            if getattr(self, name) not in (DEFAULTS[name], ()):
                raise OptionError(
                    f"{name} is asked once for each token, and drafts need several at once: leave one out"
                )

    def _check_fairseq(self) -> None:
        """What fairseq cannot do."""
        if len(self.eos_token_id) > 1:
            raise OptionError("fairseq knows one EOS: give one eos_token_id, or use dialect hf")
        if self.num_beams > 1 and not self.eos_token_id:
            raise OptionError("fairseq's beam search ends texts by EOS alone: it needs an eos_token_id")
        if self.forced_eos_token_id not in ((), self.eos_token_id):
            raise OptionError("fairseq's last token is EOS, always: leave forced_eos_token_id out")
        most = self.max_new_tokens if self.max_len_b is None else self.max_len_b + 1
        limit = f"max_new_tokens={most}" if self.max_len_b is None else f"max_len_b={self.max_len_b}"
        varies = self.max_len_a or self.match_source_len  # with the source
        if self.eos_token_id and most is not None and not varies and (self.min_new_tokens or 0) >= most:
            raise OptionError(
                f"min_new_tokens={self.min_new_tokens} leaves no room for EOS with {limit}: fairseq ends each text with"
                " it, so lower the one or raise the other"
            )
        if self.do_sample and self.num_beams > 1:
            raise OptionError("fairseq's beams sample each by itself: use num_beams=1 and num_return_sequences, or hf")
        if self.do_sample and self.top_k and self.top_p < 1:
            raise OptionError("fairseq samples by top_k or by top_p, not by both: use dialect hf for both")

    def _check_plain_search(self) -> None:
        """Three dialects search greedily or with beams. (LightSeq's siblings lose their penalty again after a step.)"""
        if self.do_sample or self.num_beam_groups > 1 or self.sibling_penalty:
            raise OptionError(
                f"dialect {self.dialect} has greedy and beam search alone: use dialect hf for other searches"
            )

    def _check_unilm_or_lightseq(self) -> None:
        """What s2s-ft and LightSeq cannot do."""
        name = self.dialect
        if len(self.eos_token_id) > 1:
            raise OptionError(f"dialect {name} knows one EOS: give one eos_token_id, or use dialect hf")
        if self.length_penalty < 0:
            meant = "0" if name == "unilm" else "another rule"
            raise OptionError(
                f"length_penalty {self.length_penalty:g} means {meant} in dialect {name}: give 0 or more, or use "
                "dialect hf"
            )

    def _check_ctranslate2(self) -> None:
        """What CTranslate2 cannot do, or does at random."""
        if self.num_beams > 1 and len(self.eos_token_id) > 1:
            raise OptionError(
                "with several EOS, CTranslate2 may continue a text past its end: give one, or use dialect hf"
            )
        if self.num_return_sequences > self.texts_to_stop:
            raise OptionError(
                f"num_return_sequences {self.num_return_sequences} is above num_beams * patience, "
                f"{self.num_beams} * {self.patience:g}: raise one of these"
            )

    def check_vocabulary(self, vocab_size: int) -> None:
        """Raises OptionError where the options ask for more than V tokens can give."""
        named = [(name, getattr(self, name)) for name in TOKEN_IDS]
        named += [(name, (getattr(self, name),)) for name in TOKEN_ID]
        named += [("bad_words_ids", word) for word in self.bad_words_ids]
        named += [("sequence_bias", ids) for ids, _ in self.sequence_bias]
        for name, ids in named:
            for i in ids:
                if i is not None and i >= vocab_size:
                    raise OptionError(
                        f"{name} {shown(i)} is not in the vocabulary of {vocab_size} tokens: give an id below "
                        f"{vocab_size}"
                    )
        self.check_beams(vocab_size)

    def check_beams(self, vocab_size: int) -> None:
        """Raises OptionError on more beams than V tokens that can be generated are enough for."""
        if self.dialect == "fairseq":
            self._check_wide_beam(vocab_size)
        elif self.num_beams > 1 and self.candidates > vocab_size:
            raise OptionError(
                f"num_beams {self.num_beams} needs {self.candidates} candidates from the first step, "
                f"and the vocabulary has {vocab_size} tokens: use fewer beams"
            )

    def for_head(self, size: int) -> Options:
        """Options for a model that generates only the first `size` tokens of its vocabulary.

        A ban of another token is met anyway, and is left out. Raises OptionError where such a token would be forced.
        """
        for name in FORCED:
            if bad := [i for i in getattr(self, name) if i >= size]:
                raise OptionError(f"{name} {bad[0]} is a token that this model never generates: choose another one")
        of_head: dict[str, Any] = {
            name: tuple(i for i in getattr(self, name) if i < size)
            for name in ("eos_token_id", "suppress_tokens", "begin_suppress_tokens", "no_repeat_ngram_exempt_ids")
        }
        of_head["bad_words_ids"] = tuple(word for word in self.bad_words_ids if max(word) < size)
        of_head["sequence_bias"] = tuple(pair for pair in self.sequence_bias if max(pair[0]) < size)
        if (self.pad_token_id or 0) >= size:
            of_head["pad_token_id"] = None
        if (self.unk_token_id or 0) >= size:
            of_head["unk_penalty"] = 0.0
        return self._replaced(**of_head)

    def for_vocabulary(self, vocab_size: int) -> Options:
        """Options for a vocabulary; fairseq cuts num_beams to V - 1, for it never says the padding token."""
        if self.dialect != "fairseq" or self.num_beams < max(2, vocab_size):
            return self
        W = max(1, vocab_size - 1)
        return self._replaced(num_beams=W, num_return_sequences=min(self.num_return_sequences, W))

    def _replaced(self, **changes: Any) -> Options:
        """These options with some others. Where the minimum came from is no field, and stays."""
        options = dataclasses.replace(self, **changes)
        object.__setattr__(options, "has_default_minimum", self.has_default_minimum)
        return options

    def _check_wide_beam(self, vocab_size: int) -> None:
        """Raises OptionError on beams for which a row of V scores has too few candidates."""
        if self.sibling_penalty and self.candidates > vocab_size:  # fairseq fails, too
            raise OptionError(
                f"num_beams {self.num_beams} with sibling_penalty needs {self.candidates} candidates of each beam, "
                f"and the vocabulary has {vocab_size} tokens: use fewer beams"
            )
        may_end_at_once = not (self.min_length if self.min_new_tokens is None else self.min_new_tokens)
        others = vocab_size - len({*self.eos_token_id, self.pad_token_id} - {None})  # that a text can go on with
        if may_end_at_once and 1 < self.num_beams > others:
            raise OptionError(
                f"num_beams {self.num_beams} is above the {others} tokens that go on at the first step, where fairseq "
                "continues a text past its end: use fewer beams, or min_new_tokens of at least 1"
            )

    @property
    def divides_as_gnmt(self) -> bool:
        """Whether the length penalty is that of GNMT: as asked, or because the dialect has no other."""
        return "gnmt" in (self.length_normalization, self.rules.norm)

    def length_norm(self, length):
        """What a sum of log-probabilities is divided by for a text of this many new tokens."""
        if self.divides_as_gnmt:
            return ((5 + length) / 6) ** self.length_penalty
        return length**self.length_penalty

    @property
    def exempt_from_ngrams(self) -> tuple[int, ...]:
        """The tokens whose n-grams may repeat. s2s-ft does not see the EOS that targets begin with as one of them."""
        begins = self.eos_token_id if self.dialect == "unilm" and self.no_repeat_ngram_size == 1 else ()
        return (*self.no_repeat_ngram_exempt_ids, *begins)

    @property
    def tokens_ahead(self) -> int:
        """The most tokens that are drafted for a step; 0: no token is."""
        return self.prompt_lookup_num_tokens or self.num_assistant_tokens or 0

    def with_draft_model(self) -> Options:
        """These options where a model drafts."""
        return self if self.num_assistant_tokens else self._replaced(num_assistant_tokens=DRAFTED)

    @property
    def constraint(self) -> str | None:
        """The option that constrains texts, if one does."""
        return "regex" if self.regex is not None else "json_schema" if self.json_schema is not None else None

    @property
    def rules(self) -> Dialect:
        """The dialect's."""
        return DIALECTS[self.dialect]

    @property
    def beam_rules(self) -> BeamRules:
        """The dialect's rules for when texts finish and sentences are done, as kernels take them."""
        rules = self.rules
        may_stop_early = rules.stop in ("running", "candidate")
        goes_to_limit = rules.stop == "limit" or self.early_stopping == "never"
        return BeamRules(
            out_of_play=rules.out_of_play,
            first_stay=rules.finished == "first",
            full_is_done=rules.stop == "full" or (self.early_stopping is True and may_stop_early),
            hope=HOPE[rules.stop],
            hope_at_limit=goes_to_limit and self.length_penalty > 0,
            candidates_at_limit=rules.at_limit == "candidates",
            beams_at_limit=rules.at_limit == "running",
            in_order=rules.groups == "interleaved" or rules.stop == "counted",
        )

    @property
    def texts_to_stop(self) -> int:
        """num_beams * patience in float32, rounded as C++ rounds: halves go up."""
        return math.floor(float(np.float32(self.num_beams) * np.float32(self.patience)) + 0.5)

    @property
    def counted_stop(self) -> CountedStop | None:
        """When a dialect that counts all texts that have finished stops. None in the others."""
        if self.rules.stop != "counted":
            return None
        if self.length_penalty == 0:  # then no text that still runs can pass the best one
            return CountedStop(self.num_return_sequences, True)
        return CountedStop(self.texts_to_stop, False)

    @property
    def padding(self) -> int:
        """The padding token; the first EOS if there is none, as in transformers."""
        return self.pad_token_id if self.pad_token_id is not None else (*self.eos_token_id, 0)[0]

    @property
    def least_kept(self) -> int:
        """Tokens that every filter keeps: in a beam search one that does not end the text must be among them."""
        return 1 if self.num_beams == 1 else max(2, 1 + len(self.eos_token_id))

    @property
    def candidates(self) -> int:
        """Continuations looked at per sentence and step: enough that num_beams remain if every beam could end.

        In unilm, as many as there are beams.
        """
        if not self.rules.all_go_on:
            return self.num_beams
        return max(2, 1 + len(self.eos_token_id)) * self.num_beams


def check_values(given: dict[str, Any]) -> None:
    """Raises OptionError on a value that is wrong whatever the model and the other options are."""
    for name, value in given.items():
        if name in ROWS:
            ROWS[name].check(name, checks.as_python(value))


def check_names(names: Iterable[str]) -> None:
    """Raises OptionError on a name that is no option, naming the closest one."""
    for name in names:
        if name not in ROWS:
            if name in NOT_HERE:
                raise OptionError(f"generate has no option {name!r}: {NOT_HERE[name]}")
            close = difflib.get_close_matches(name, ROWS, 1)
            hint = f"did you mean {close[0]}?" if close else f"the options are {', '.join(sorted(ROWS))}"
            raise OptionError(f"generate has no option {name!r}: {hint}")


def resolve(defaults: dict[str, Any], given: dict[str, Any], source: str = "generation_config.json") -> Options:
    """`given` over `defaults` (generation_config.json, or else `source`) over transformers' own defaults.

    A length that is given goes before the same limit in its other spelling in the file (transformers lets a file's
    max_new_tokens go before a call's max_length). None in `given` means "not given", except that eos_token_id=None
    turns EOS off. Raises OptionError on a name that is no option, naming the closest one.
    """
    check_names(given)
    given = {k: checks.as_python(v) for k, v in given.items() if v is not None or k == "eos_token_id"}
    merged = {k: v for k, v in defaults.items() if k in ROWS and v is not None} | given
    if not merged.get("do_sample"):  # then a file's settings for sampling are meant for another day
        merged = {k: v for k, v in merged.items() if k in given or k not in SAMPLING_ALONE}
    merged = {k: v for k, v in merged.items() if k in given or k not in OF_DRAFTS}
    if "pad_token_id" not in given and merged.get("dialect") != "fairseq" and merged.get("num_beam_groups", 1) == 1:
        merged.pop("pad_token_id", None)  # then which token a file names for it is no matter
    if merged.get("dialect") == "ctranslate2":  # which reads no forced tokens from a model's files
        merged = {k: v for k, v in merged.items() if k in given or k not in FORCED}
    for spellings in (MAXIMA, MINIMA):
        if _is_limit_given(given, spellings):
            for name in set(spellings) - set(given):
                merged.pop(name, None)
    dialect = merged.get("dialect", "hf")
    dialect = dialect if isinstance(dialect, str) else ""  # what is no dialect is refused with the other values
    for name in sorted((SAMPLING_ALONE | {"seed"}) & set(given)):
        if not merged.get("do_sample") and not (name == "temperature" and dialect == "fairseq"):
            raise OptionError(f"{name} changes nothing without do_sample=True: add it, or leave {name} out")
    stops_early = given.get("early_stopping") is True or given.get("early_stopping") == "never"
    if stops_early and merged.get("num_beams", 1) == 1 and dialect not in NO_EARLY_STOPPING:
        raise OptionError("early_stopping changes nothing with one beam: add num_beams, or leave early_stopping out")
    rules = DIALECTS.get(dialect)
    if given.get("length_normalization") == "power" and rules and rules.norm == "gnmt":
        raise OptionError(
            f"length_normalization is always gnmt in dialect {rules.name!r}: leave it out, or use dialect hf"
        )
    if "early_stopping" in given and dialect in NO_EARLY_STOPPING:
        raise OptionError(f"early_stopping is no rule of dialect {dialect!r}, which {NO_EARLY_STOPPING[dialect]}")
    has_default_minimum = _is_limit_given(given, MAXIMA) and not _is_limit_given(given, MINIMA)
    if has_default_minimum:
        for least, most in (("min_new_tokens", "max_new_tokens"), ("min_length", "max_length")):
            both = checks.is_whole(merged.get(least)) and checks.is_whole(merged.get(most))
            if both and merged[least] > merged[most] > 0:
                warn_of_minimum(least, merged[least], f"{most}={merged[most]}", stacklevel=4)
                merged[least] = merged[most]
    _check_fairseq_limits(given, merged)
    try:
        options = Options(**merged)
    except OptionError as error:
        tokens = {name: value for name, value in merged.items() if name in TOKENS and name not in given}
        if _is_valid(tokens):
            Options(**tokens | given)  # a rule that the call breaks by itself is reported as it is
        raise OptionError(f"with the defaults of {source}: {error}; change that option, or {IGNORE_DEFAULTS}") from None
    object.__setattr__(options, "has_default_minimum", has_default_minimum)
    return options


def _is_valid(options: dict[str, Any]) -> bool:
    try:
        Options(**options)
    except OptionError:
        return False
    return True


def _check_fairseq_limits(given: dict[str, Any], merged: dict[str, Any]) -> None:
    """Raises OptionError where the call's own least number of tokens is above its own max_len_b, and the end of text.

    A least number that comes from the model's defaults is only warned of.
    """
    least, most = given.get("min_new_tokens"), given.get("max_len_b")
    if merged.get("max_len_a") or merged.get("match_source_len"):  # then the limit varies with the source
        return
    if not (checks.is_whole(least) and checks.is_whole(most)):
        return
    if least > most + 1 > 0:
        raise OptionError(
            f"min_new_tokens={least} is above max_len_b={most} and the end of text: lower the one, or raise the other"
        )


def _is_limit_given(given: dict[str, Any], spellings: Iterable[str]) -> bool:
    """Whether a limit is given in one of its spellings; False is match_source_len's word for none."""
    return any(given.get(name) is not None and given[name] is not False for name in spellings)


def warn_of_minimum(name: str, least: int, limit: str, stacklevel: int) -> None:
    """Warns of a least length that a model's defaults ask for, and that a caller's limit does not let texts reach."""
    warnings.warn(
        f"{name}={least} of the model's defaults is out of reach with {limit}: texts go on to that limit; "
        f"give a lower {name} to let them end before it",
        MinidecodeWarning,
        stacklevel=stacklevel + 1,
    )


def refuse_unsupported(defaults: dict[str, Any], do_sample: bool, source: str = "generation_config.json") -> None:
    """Raises OptionError if `source` asks for what would change the answer and is not there yet.

    A setting that is unknown here is refused unless it is unset, off, or among those known not to matter. Names that
    begin with _ are transformers' notes to itself (_from_model_config).
    """
    known = {*ROWS} | HARMLESS | (set() if do_sample else SAMPLING_ALONE)
    for name, value in defaults.items():
        if name not in known and not name.startswith("_") and value not in (None, False, [], {}):
            raise OptionError(
                f"{source} asks for {shown(name)[1:-1]}={shown(value)}, which is not supported: delete it there, or "
                f"{IGNORE_DEFAULTS}"
            )
