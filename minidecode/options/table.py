"""The options of a generation, one row each: name, type, default, check, help, dialects, flags and what it needs.

From these rows come `Options`, which checks them; the flags of the commands (commands/search_flags.py); and what
docs/write_options.py writes: the types of a call (typed_dict.py) and docs/options.md. An option that is a processor of
scores is a row here, and a function of the same name in search/processors.py.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from .checks import (
    BIASES,
    DECAY,
    FUNCTION,
    FUNCTIONS,
    ID_LISTS,
    REGEX,
    SCHEMA,
    STRINGS,
    TOKEN_ID,
    TOKEN_IDS,
    TRUE_OR_FALSE,
    Number,
    OneOf,
    Whole,
)
from .dialects import DIALECTS

MOST_TEXTS = 2**20  # of a prompt: each has a key of its own, and rows
TO_1 = Number(lambda x: 0 < x <= 1, "above 0 and at most 1")
PENALTY = Number(lambda x: 0 < x <= 1e6, "above 0 and at most 1e6")
COST = Number(lambda x: 0 <= x <= 1e6, "from 0 to 1e6")
CUTOFF = Number(lambda x: 0 <= x < 1, "from 0 to below 1")
HF = ("hf", "hf4")
NOT_CTRANSLATE2 = tuple(name for name in DIALECTS if name != "ctranslate2")


@dataclass(frozen=True)
class Row:
    """All that is known of an option except its name, type and default."""

    group: str  # the title under which help and docs show it
    check: Any  # called with the name and the value; see checks.py
    help: str
    more: str  # what help() and the docs add to it
    flags: str  # other spellings on the command line; "a/b" for the one that turns it on and the one that turns it off
    shown: str  # what the help of the flag shows for its value
    dialects: tuple[str, ...]  # that have a rule for it
    needs: str  # another option without which it changes nothing, and why: "name: why"
    given: str  # the type of what a call may give, where it is not the field's


def option(
    group: str, default: Any, check: Any, help: str, more: str = "", *, flags: str = "", shown: str = "",
    dialects: tuple[str, ...] = tuple(DIALECTS), needs: str = "", given: str = "",
) -> Any:  # fmt: skip
    """A field of the table, with its row."""
    row = Row(group, check, help, more, flags, shown, dialects, needs, given or check.given)
    return dataclasses.field(default=default, metadata={"row": row})


search = functools.partial(option, "Search")
length = functools.partial(option, "Length and stops")
sampling = functools.partial(option, "Sampling", needs="do_sample")
rule = functools.partial(option, "Rules for tokens")
token = functools.partial(option, "Special tokens")


# fmt: off
@dataclass(frozen=True)
class OptionTable:
    """A field per option, in the order in which errors, receipts and records name them."""
    dialect: str = search("hf", OneOf(tuple(DIALECTS), ", ".join(DIALECTS)),
        "Whose rules: hf (transformers 5), hf4 (4.49), fairseq, unilm, ctranslate2 or lightseq.",
        "fairseq is 0.10.2, unilm is s2s-ft, ctranslate2 is 4.8.5, lightseq is 3.0.",
        given=f"Literal[{', '.join(map(repr, DIALECTS))}]")
    num_beams: int = search(1, Whole(1), "Beam width; 1 is greedy.", flags="--beam")
    num_return_sequences: int = search(1, Whole(1, most=MOST_TEXTS), "Texts per prompt, best first.",
        flags="--nbest -n")
    max_new_tokens: int | None = length(None, Whole(1, True),
        "At most this many tokens after the prompt.", "With no limit: 64, or as many as the context holds.",
        flags="--max-tokens")
    max_length: int | None = length(None, Whole(1, True), "The same limit, counted with the prompt.")
    max_len_a: float = length(0.0, Number(lambda x: 0 <= x <= 1e6, "from 0 to 1e6"),
        "fairseq's limit: max_len_a * (tokens of the source) + max_len_b.", "EOS is not counted.",
        needs="max_len_b: the limit is max_len_a * (tokens of the source) + max_len_b")
    max_len_b: int | None = length(None, Whole(-(2**31), True), "Tokens added to max_len_a * (tokens of the source);"
        " may be below 0.")
    match_source_len: bool = length(False, TRUE_OR_FALSE,
        "fairseq's other limit: as many tokens as the source has, and the end of text.", dialects=("fairseq",))
    min_new_tokens: int | None = length(None, Whole(0, True),
        "No end of text before this many tokens after the prompt.", flags="--min-len")
    min_length: int = length(0, Whole(), "The same limit, counted with the prompt.")
    length_penalty: float = search(1.0, Number(lambda x: abs(x) <= 10, "from -10 to 10"),
        "A finished text scores log-probability / length ** this.", flags="--lenpen")
    length_normalization: Literal["power", "gnmt"] = search("power", OneOf(("power", "gnmt"), "'power' or 'gnmt'"),
        "power, or gnmt: ((5 + length) / 6) ** length_penalty.", dialects=NOT_CTRANSLATE2)
    patience: float = search(1.0, Number(lambda x: 0 < x <= 1e6, "above 0 and at most 1e6"),
        "A sentence ends when num_beams * this texts are finished (ctranslate2).", dialects=("ctranslate2",))
    early_stopping: bool | Literal["never"] = search(False, OneOf((True, False, "never"), "True, False or 'never'"),
        "When a sentence's beam search ends: true, false or never.",
        "True: when num_beams texts are finished; False: when the best running beam, as long as it is now, cannot beat"
        " the worst of them; \"never\": when it could not at the maximal length either.")
    num_beam_groups: int = search(1, Whole(1),
        "Groups of beams that choose in turn, each paying diversity_penalty for a token chosen before.",
        "This is diverse beam search.", flags="--diverse-beam-groups")
    diversity_penalty: float = search(0.0, COST,
        "What a token costs for each time that a group before has chosen it.", flags="--diverse-beam-strength")
    sibling_penalty: float = search(0.0, COST, "A beam's k-th best continuation loses k times this.",
        flags="--diversity-rate")
    prompt_lookup_num_tokens: int | None = search(None, Whole(1, True),
        "Draft this many tokens a step from earlier places in the text.",
        "The model checks them in one forward pass: texts are the same, and often come in fewer steps.",
        flags="--prompt-lookup")
    max_matching_ngram_size: int = search(2, Whole(1), "The longest n-gram that prompt_lookup_num_tokens looks up.",
        needs="prompt_lookup_num_tokens: the lookup of n-grams")
    num_assistant_tokens: int | None = search(None, Whole(1, True),
        "Tokens that a draft model guesses for each step; 5 if not given.")
    do_sample: bool = option("Sampling", False, TRUE_OR_FALSE,
        "Sample tokens; the options behind this one shape what is drawn.",
        flags="--do-sample/--no-sample --sampling")
    temperature: float = sampling(1.0,
        Number(lambda x: 1e-30 <= x <= 1e6, "from 1e-30 to 1e6 (for the likeliest token, leave out do_sample)"),
        "Divide scores by this: lower is less random.")
    top_k: int | None = sampling(None, Whole(0, True), "Sample from the k likeliest tokens; 0: all.",
        "With do_sample it is 50 if not given, as in transformers.",
        flags="--sampling-topk", dialects=(*HF, "fairseq"))
    top_p: float = sampling(1.0, TO_1, "Sample from the likeliest tokens that together have this probability.",
        flags="--sampling-topp", dialects=(*HF, "fairseq"))
    min_p: float | None = sampling(None, Number(lambda x: 0 <= x <= 1, "from 0 to 1", True),
        "Drop tokens below this share of the top probability.", dialects=HF)
    top_h: float | None = sampling(None, Number(TO_1.keeps, TO_1.words, True),
        "Keep the likeliest tokens of this share of the entropy.", dialects=("hf",))
    typical_p: float = sampling(1.0, TO_1,
        "Keep the tokens of about average surprise, with this much probability.", dialects=HF)
    epsilon_cutoff: float = sampling(0.0, CUTOFF, "Drop tokens below this probability.", dialects=HF)
    eta_cutoff: float = sampling(0.0, CUTOFF, "A cutoff that falls where the entropy is high.", dialects=HF)
    seed: int = sampling(0, Whole(), "Random seed: the same seed gives a prompt the same text in any batch.")
    no_repeat_ngram_size: int = rule(0, Whole(), "Never repeat n tokens in a row; 0 allows it.")
    no_repeat_ngram_exempt_ids: tuple[int, ...] = rule((), TOKEN_IDS,
        "Let n-grams with this token repeat, such as the full stop (s2s-ft).", dialects=NOT_CTRANSLATE2,
        needs="no_repeat_ngram_size: the ban that they are exempt from")
    encoder_no_repeat_ngram_size: int = rule(0, Whole(), "Never copy n tokens in a row of the source.", dialects=HF)
    repetition_penalty: float = rule(1.0, PENALTY, "Above 1: tokens of the text become less likely.",
        dialects=(*HF, "ctranslate2"))
    encoder_repetition_penalty: float = rule(1.0, PENALTY, "Above 1: tokens of the source gain.", dialects=HF)
    bad_words_ids: tuple[tuple[int, ...], ...] = rule((), ID_LISTS, "Token ids that must not follow each other.",
        "Such as [[5, 6], [7]].", shown="ID,ID,..", dialects=(*HF, "ctranslate2"))
    suppress_tokens: tuple[int, ...] = rule((), TOKEN_IDS, "Never this token.", dialects=(*HF, "ctranslate2"))
    begin_suppress_tokens: tuple[int, ...] = rule((), TOKEN_IDS, "Not this token first.", dialects=HF)
    sequence_bias: tuple[tuple[tuple[int, ...], float], ...] = rule((), BIASES,
        "Add to the last token's score where the text ends with the others.",
        "Give {ids: bias}, or a list of [ids, bias].", shown="ID,ID,..=BIAS", dialects=HF)
    exponential_decay_length_penalty: tuple[int, float] | None = rule(None, DECAY,
        "Make the end likelier with each token after START.", "A pair (start, factor).",
        shown="START,FACTOR", dialects=HF)
    guidance_scale: float = rule(1.0,
        Number(lambda x: abs(x) <= 1e6, "between -1e6 and 1e6 (1 leaves scores as they are)"),
        "Classifier-free guidance: above 1 strengthens the prompt.",
        "Texts keep away from negative_prompt; it costs twice the time.", dialects=HF, given="float | None")
    remove_invalid_values: bool = rule(False, TRUE_OR_FALSE, "Go on with 0 where the model's scores are NaN.",
        dialects=HF)
    renormalize_logits: bool = rule(False, TRUE_OR_FALSE, "Renormalize scores after all rules.", dialects=HF)
    unk_penalty: float = rule(0.0, Number(lambda x: abs(x) <= 1e6, "between -1e6 and 1e6"),
        "Taken off the score of unk_token_id (fairseq).", flags="--unkpen", dialects=("fairseq",),
        needs="unk_token_id: the token that it comes off")
    eos_token_id: tuple[int, ...] = token((), TOKEN_IDS, "End of text, instead of the model's.",
        "None: texts go on to their limit.")
    pad_token_id: int | None = token(None, TOKEN_ID, "Padding, instead of the model's; texts come back without it.")
    unk_token_id: int | None = token(None, TOKEN_ID, "Id of the unknown token.")
    forced_bos_token_id: tuple[int, ...] = token((), TOKEN_IDS, "Token forced at a target's start.",
        dialects=NOT_CTRANSLATE2)
    forced_eos_token_id: tuple[int, ...] = token((), TOKEN_IDS, "Token forced at the length limit.",
        dialects=NOT_CTRANSLATE2)
    decoder_start_token_id: int | None = token(None, TOKEN_ID, "What targets begin with (BART).")
    prefix_allowed_tokens_fn: Callable[[int, np.ndarray], Sequence[int]] | None = rule(None, FUNCTION,
        "f(sentence, ids) returns the ids that may follow.", dialects=HF,
        given="Callable[[int, np.ndarray], Iterable[int]] | None")
    logits_processor: tuple[Callable[..., np.ndarray], ...] = rule((), FUNCTIONS,
        "Functions f(scores_RV, rows) that return new scores; see search/rows.py.",
        given="Callable[..., np.ndarray] | Sequence[Callable[..., np.ndarray]] | None")
    stop_strings: tuple[str, ...] = length((), STRINGS, "End a text before this string.",
        "It may name special tokens, such as <|im_end|>.", flags="--stop", shown="TEXT")
    keep_stop_strings: bool = length(False, TRUE_OR_FALSE, "Keep that string at the end of the text.",
        flags="--keep-stop", needs="stop_strings: the strings that are kept")
    stopping_criteria: tuple[Callable[..., Any], ...] = length((), FUNCTIONS,
        "Functions f(ids, scores) that return True, or a truth value for each text.",
        given="Callable[..., Any] | Sequence[Callable[..., Any]] | None")
    max_time: float | None = length(None, Number(lambda x: 0 < x <= 1e9, "of seconds above 0 and at most 1e9", True),
        "End all texts with their next token after this many seconds.")
    regex: str | None = rule(None, REGEX, "Make all of the new text match this.",
        "It needs the extra `constrain`.", shown="PATTERN")
    json_schema: dict[str, Any] | str | Path | None = rule(None, SCHEMA,
        "Make the new text JSON that this schema allows.", "A dict, JSON text or the path of a file.", shown="FILE")

# fmt: on

ROWS: dict[str, Row] = {f.name: f.metadata["row"] for f in dataclasses.fields(OptionTable)}
DEFAULTS: dict[str, Any] = {f.name: f.default for f in dataclasses.fields(OptionTable)}
