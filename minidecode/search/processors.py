"""Score processors: what is done to a step's scores before tokens are chosen, as functions named after their options.

Each takes (ops, scores_RV, rows, options), may change scores_RV in place, and returns the scores. `acts` says when it
has anything to do; otherwise it leaves them alone. The dialect says in which order they run. Scores are
log-probabilities in beam search, and logits in greedy search and sampling under Hugging Face's dialects; -inf rules a
token out.

Nearly all work where the scores lie, by ops and array expressions that look at no number, so that a captured step can
hold them: lengths are read on the device, and token ids lie there in tables (tables.py). Users' functions, regex and
json_schema work on the host, and end a captured step.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ..device.arrays import fetch
from ..device.user_functions import call_user_option, describe_function
from ..errors import OptionError
from ..ops import FINE
from ..options.options import Options
from .filters import epsilon_filter, eta_filter, min_p_filter, top_h_filter
from .rows import OF_ROWS, Rows
from .tables import (
    banned_ngrams_of_sources,
    banned_tokens,
    banned_words,
    decay_growth,
    padded_sources,
    sequence_biases,
    unique_ids,
)

# The processors of each dialect, in the order in which they run.
HF = (
    "guidance_scale", "sequence_bias", "encoder_repetition_penalty", "repetition_penalty", "no_repeat_ngram_size",
    "encoder_no_repeat_ngram_size", "bad_words_ids", "min_new_tokens", "prefix_allowed_tokens_fn", "prefix_tokens",
    "forced_bos_token_id", "forced_eos_token_id", "remove_invalid_values", "exponential_decay_length_penalty",
    "suppress_tokens", "begin_suppress_tokens", "logits_processor", "regex", "json_schema", "temperature", "top_h",
    "top_k", "top_p", "min_p", "typical_p", "epsilon_cutoff", "eta_cutoff", "renormalize_logits",
)  # fmt: skip
FAIRSEQ = (
    "never_pad", "unk_penalty", "end_at_limit", "begin_with_bos", "prefix_tokens", "min_new_tokens",
    "no_repeat_ngram_size", "logits_processor", "regex", "json_schema", "top_k", "top_p",
)  # fmt: skip
UNILM = (
    "no_repeat_ngram_size", "min_new_tokens", "prefix_tokens", "forced_bos_token_id", "forced_eos_token_id",
    "logits_processor", "regex", "json_schema",
)  # fmt: skip
CTRANSLATE2 = (
    "min_new_tokens", "repetition_penalty", "no_repeat_ngram_size", "suppress_tokens", "bad_words_ids", "prefix_tokens",
    "logits_processor", "regex", "json_schema",
)  # fmt: skip
ORDER = {
    "hf": HF,
    "hf4": tuple(name for name in HF if name != "top_h"),
    "fairseq": FAIRSEQ,
    "unilm": UNILM,
    "ctranslate2": CTRANSLATE2,
    "lightseq": UNILM,
}


def apply_processors(
    ops: Any, scores_RV: np.ndarray, rows: Rows, options: Options, notes: dict | None = None
) -> np.ndarray:
    """All processors of the dialect, in its order. notes: filled with what each of them changed, for a trace."""
    for name in ORDER[options.dialect]:
        before_RV = scores_RV.copy() if notes is not None else None
        scores_RV = globals()[name](ops, scores_RV, rows, options)
        if notes is not None and (changed := np.argwhere(fetch(scores_RV != before_RV))).size:
            notes[name] = changed
    return scores_RV


def process_and_log_softmax(
    ops: Any, logits_RV: np.ndarray, rows: Rows, options: Options, notes: dict | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """(log-probabilities of what the processors leave of logits, what is wrong with each row).

    Where they leave no token, all stay ruled out: it is the options' fault, not the model's. logits_RV may change.
    """
    left_RV = apply_processors(ops, logits_RV, rows, options, notes)
    if not is_any_due(rows, options):
        return ops.log_softmax(left_RV)
    is_possible_R = (left_RV != -np.inf).any(axis=1)
    scores_RV, trouble_R = ops.log_softmax(left_RV)
    return np.where(is_possible_R[:, None], scores_RV, -np.inf), np.where(is_possible_R, trouble_R, FINE)


def acts(
    on: Callable[[Options], Any], at: Callable[[Rows, Options], np.ndarray] | None = None, by_host: bool = False,
    table: Callable[[Rows, Options], Any] | None = None, makes_arrays: bool = False,
) -> Callable:  # fmt: skip
    """Says when a processor has anything to do: where its option is `on`, at every step, or at those with rows `at`.

    Of rows that may go on, without a look at what lies on a device: it is asked at every step. One `by_host` gets
    scores and texts that lie on a device as the host's copies.

    table: makes what the processor reads at every step, an array or several (tables.py). makes_arrays: it calls ops
    whose results an arena lays out, so that a dry run has to see it.
    """

    def note_condition(function):
        @functools.wraps(function)
        def processor(ops, scores_RV, rows, o):
            if not noted.is_due(rows, o):
                return scores_RV
            if not by_host or isinstance(scores_RV, np.ndarray):
                return function(ops, scores_RV, rows, o)
            here = rows.on_host
            result_RV = function(ops, fetch(scores_RV), here, o)
            rows.certain_R[...] = np.asarray(here.certain_R, like=scores_RV)
            return np.asarray(result_RV, like=scores_RV)

        noted: Any = processor  # a function, which also says when it is due, and where it works
        noted.by_host, noted.is_on = by_host, lambda o: bool(on(o))
        noted.make_table, noted.makes_arrays = table, makes_arrays
        noted.is_always_due = lambda o: at is None and bool(on(o))
        noted.is_due = lambda rows, o: bool(on(o)) and (at is None or at(rows.rows_that_may_go_on, o).any())
        return noted

    return note_condition


def due_processors(rows: Rows, options: Options) -> tuple[str, ...]:
    """The processors that have anything to do at this step, in rows that may go on: what a captured step goes by."""
    return tuple(name for name in _processors_switched_on(rows, options) if globals()[name].is_due(rows, options))


def key_of_step(rows: Rows, options: Options) -> tuple[str, ...] | str:
    """What tells captured steps apart: the processors that are due; or which of them work on the host, in words."""
    due = due_processors(rows, options)
    by_host = [name for name in due if globals()[name].by_host]
    return host_work_in_words(by_host, options) if by_host else due


def why_in_parts(options: Options, notes: bool) -> str:
    """Why no step of a search can be one launch: what it does on the host at each step; empty if nothing.

    notes: whether every step is noted.
    """
    if notes:
        return "a trace is kept"
    asked = [name for name in ("stop_strings", "stopping_criteria", "max_time") if getattr(options, name)]
    return host_work_in_words(asked, options) if asked else ""


def host_work_in_words(names: Iterable[str], options: Options) -> str:
    """In words, that these options work on the host, with the functions that a caller gave."""
    named = []
    for name in names:
        value = getattr(options, name)
        functions = value if isinstance(value, tuple) else (value,)
        described = ", ".join(describe_function(function) for function in functions if callable(function))
        named.append(f"{name} ({described})" if described else name)
    return f"{', '.join(named)} on the host"


def is_any_due(rows: Rows, options: Options) -> bool:
    """Whether a processor of the dialect has anything to do at this step, in rows that may go on."""
    return bool(due_processors(rows, options))


def make_tables(rows: Rows, options: Options) -> dict[Any, Any]:
    """Makes all tables that the processors of these options will ask for -> rows.tables, which holds them.

    A captured step can make none, and those of a kept step are a part of its state.
    """
    names = _processors_switched_on(rows, options)
    if any(not globals()[name].by_host for name in names):
        for name in OF_ROWS:
            if name != "prefix_BP" or rows.prefix_BP is not None:
                rows.table_of_rows(name)
    for name in names:
        if globals()[name].make_table is not None:
            table_of_processor(name, rows, options)
    return rows.tables


def _processors_switched_on(rows: Rows, options: Options) -> list[str]:
    """The processors that may have something to do: by their options, and prefix_tokens where there is a prefix."""
    return [
        name
        for name in ORDER[options.dialect]
        if globals()[name].is_on(options) and (name != "prefix_tokens" or rows.prefix_BP is not None)
    ]


def table_of_processor(name: str, rows: Rows, options: Options) -> Any:
    """The table of the processor of this name, an array or several, where the texts lie."""
    return rows.table(name, lambda: globals()[name].make_table(rows, options))


def processors_that_make_arrays() -> list[str]:
    """The processors whose calls a dry run has to see, by their options' names."""
    return [name for name in HF if globals()[name].makes_arrays]


def due_at_every_step(options: Options) -> list[str]:
    """The processors that have something to do at every step."""
    return [name for name in ORDER[options.dialect] if globals()[name].is_always_due(options)]


def _add_biases(ops, scores_RV, rows, o, name: str, where_R: np.ndarray | None = None) -> np.ndarray:
    """Adds the biases of a table's sequences (-inf rules a token out) in all rows, or in those of where_R."""
    list_R = rows.table_of_rows("first_list_R") if where_R is None else where_R.astype(np.int64) - 1
    return ops.bias_sequences(scores_RV, rows.tokens_RM, rows.length_R, list_R, *table_of_processor(name, rows, o))


def _leave_only(scores_RV, where_R, ids_X):
    """In the rows of where_R only the tokens `ids` stay possible, with the scores that they have."""
    kept_RX = scores_RV[:, ids_X]
    scores_RV = np.where(where_R[:, None], -np.inf, scores_RV)
    scores_RV[:, ids_X] = kept_RX
    return scores_RV


def _make_certain(scores_RV, rows, where_R, ids_X):
    """In the rows of where_R the tokens `ids` score 0, that is, they are certain, and all others -inf."""
    np.logical_or(rows.certain_R, where_R, out=rows.certain_R)
    scores_RV = _leave_only(scores_RV, where_R, ids_X)
    scores_RV[:, ids_X] = np.where(where_R[:, None], 0.0, scores_RV[:, ids_X])
    return scores_RV


# ---- wishes for tokens -----------------------------------------------------------------------------------------------


@acts(lambda o: o.guidance_scale != 1.0)
def guidance_scale(ops, scores_RV, rows, o):
    """u + scale * (c - u): c, u the log-probabilities behind the prompt and the negative one (Sanchez et al. 2023)."""
    with_RV, _ = ops.log_softmax(scores_RV)
    without_RV, _ = ops.log_softmax(rows.unconditional_RV)
    return without_RV + scores_RV.dtype.type(o.guidance_scale) * (with_RV - without_RV)


@acts(lambda o: o.sequence_bias, table=lambda rows, o: sequence_biases(o.sequence_bias))
def sequence_bias(ops, scores_RV, rows, o):
    """Adds each sequence's bias to the score of its last token, where the text ends with its other tokens."""
    return _add_biases(ops, scores_RV, rows, o, "sequence_bias")


def _texts_for_penalties(rows: Rows, o: Options) -> tuple[np.ndarray, np.ndarray]:
    """(tokens_RM, length_R): what bans and penalties look at. In CTranslate2 it is what is new in each text."""
    return (rows.tokens_RM, rows.length_R) if o.rules.bans_see_prompts else rows.new_texts


# ---- repetition ------------------------------------------------------------------------------------------------------


@acts(lambda o: o.repetition_penalty != 1.0, makes_arrays=True)
def repetition_penalty(ops, scores_RV, rows, o):
    """Divides the positive scores of tokens in the text by the penalty, multiplies the negative ones (Keskar 2019)."""
    return ops.penalize_tokens(
        scores_RV, *_texts_for_penalties(rows, o), rows.table_of_rows("every_R"), o.repetition_penalty
    )


@acts(lambda o: o.encoder_repetition_penalty != 1.0, table=padded_sources, makes_arrays=True)
def encoder_repetition_penalty(ops, scores_RV, rows, o):
    """The reverse for tokens of the source: above 1, the text keeps to them."""
    source_BN, length_B = table_of_processor("encoder_repetition_penalty", rows, o)
    return ops.penalize_tokens(
        scores_RV, source_BN, length_B, rows.on_device.sentence_R, 1 / o.encoder_repetition_penalty
    )


@acts(lambda o: o.no_repeat_ngram_size, table=lambda rows, o: unique_ids(o.exempt_from_ngrams))
def no_repeat_ngram_size(ops, scores_RV, rows, o):
    """Rules out what would complete an n-gram of the text for the second time (FastSeq, section 4.2).

    N-grams that hold an exempt token may repeat: it is never ruled out, and nothing is behind one. A first token that
    is never generated, such as Marian's padding, has no score: 1-grams begin behind it.
    """
    n, exempt = o.no_repeat_ngram_size, o.exempt_from_ngrams
    tokens_RM, length_R = _texts_for_penalties(rows, o)
    if n == 1 and o.rules.bans_see_prompts and (o.decoder_start_token_id or 0) >= scores_RV.shape[1]:
        tokens_RM, length_R = tokens_RM[:, 1:].copy(), length_R - 1
    if not exempt:
        return ops.ban_ngrams(scores_RV, tokens_RM, length_R, n)
    exempt_X, every_R1 = table_of_processor("no_repeat_ngram_size", rows, o), rows.table_of_rows("every_R")[:, None]
    tail_RX = tokens_RM[every_R1, length_R[:, None] - np.arange(1, n, like=scores_RV)]
    is_behind_R = (tail_RX[:, :, None] == exempt_X).any(axis=(1, 2))
    kept_RX = scores_RV[:, exempt_X]
    scores_RV = ops.ban_ngrams(scores_RV, tokens_RM, np.where(is_behind_R, 0, length_R), n)
    scores_RV[:, exempt_X] = kept_RX
    return scores_RV


@acts(lambda o: o.encoder_no_repeat_ngram_size, table=banned_ngrams_of_sources)
def encoder_no_repeat_ngram_size(ops, scores_RV, rows, o):
    """Rules out what would complete an n-gram of the source."""
    lists = table_of_processor("encoder_no_repeat_ngram_size", rows, o)
    return ops.bias_sequences(scores_RV, rows.tokens_RM, rows.length_R, rows.on_device.sentence_R, *lists)


@acts(lambda o: o.bad_words_ids, table=banned_words)
def bad_words_ids(ops, scores_RV, rows, o):
    """Rules out the last token of each word whose other tokens the text ends with.

    EOS alone is let pass, unless the dialect bans it.
    """
    tokens_RM, length_R = _texts_for_penalties(rows, o)
    lists = rows.table_of_rows("first_list_R"), *table_of_processor("bad_words_ids", rows, o)
    return ops.bias_sequences(scores_RV, tokens_RM, length_R, *lists)


# ---- lengths and forced tokens ---------------------------------------------------------------------------------------


def _rows_too_short_to_end(rows, o) -> np.ndarray:
    """Rows whose text may not end yet, by min_new_tokens or else by min_length.

    In fairseq a forced prefix goes before it: no least length holds while a text's prefix lasts.
    """
    too_early_R = rows.length_R < o.min_length if o.min_new_tokens is None else rows.new_R < o.min_new_tokens
    if o.dialect == "fairseq" and rows.prefix_BP is not None:
        too_early_R &= rows.new_R >= prefix_length(rows.prefix_BP)[rows.sentence_R]
    return too_early_R


@acts(lambda o: o.eos_token_id, _rows_too_short_to_end, table=lambda rows, o: banned_tokens(o.eos_token_id))
def min_new_tokens(ops, scores_RV, rows, o):
    """Rules out EOS that comes too early."""
    return _add_biases(ops, scores_RV, rows, o, "min_new_tokens", _rows_too_short_to_end(rows.on_device, o))


@acts(
    lambda o: o.forced_bos_token_id,
    lambda rows, o: rows.length_R == 1,
    table=lambda rows, o: unique_ids(o.forced_bos_token_id),
)
def forced_bos_token_id(ops, scores_RV, rows, o):
    """Makes BOS certain where a text holds one token."""
    return _make_certain(scores_RV, rows, rows.length_R == 1, table_of_processor("forced_bos_token_id", rows, o))


@acts(
    lambda o: o.forced_eos_token_id,
    lambda rows, o: rows.last_R,
    table=lambda rows, o: unique_ids(o.forced_eos_token_id),
)
def forced_eos_token_id(ops, scores_RV, rows, o):
    """Makes EOS certain where only one more token may follow."""
    return _make_certain(scores_RV, rows, rows.on_device.last_R, table_of_processor("forced_eos_token_id", rows, o))


@acts(lambda o: o.eos_token_id, lambda rows, o: rows.last_R, table=lambda rows, o: unique_ids(o.eos_token_id))
def end_at_limit(ops, scores_RV, rows, o):
    """fairseq's end: the last token that fits is EOS. It keeps its log-probability."""
    return _leave_only(scores_RV, rows.on_device.last_R, table_of_processor("end_at_limit", rows, o))


@acts(lambda o: o.remove_invalid_values)
def remove_invalid_values(ops, scores_RV, rows, o):
    """NaN becomes 0, an infinity the largest number of its sign: so what is ruled out can be chosen, if all else is."""
    largest = float(np.finfo(scores_RV.dtype).max)
    return np.clip(np.where(np.isnan(scores_RV), 0.0, scores_RV), -largest, largest)


def _beyond_decay_start(rows, o) -> np.ndarray:
    return rows.new_R > o.exponential_decay_length_penalty[0]


@acts(lambda o: o.exponential_decay_length_penalty and o.eos_token_id, _beyond_decay_start, table=decay_growth)
def exponential_decay_length_penalty(ops, scores_RV, rows, o):
    """From more than `start` new tokens on, EOS gains |score| * (factor ** (new tokens - start) - 1)."""
    start, _ = o.exponential_decay_length_penalty
    growth_X, eos_X = table_of_processor("exponential_decay_length_penalty", rows, o)
    eos_RX, new_R = scores_RV[:, eos_X], rows.on_device.new_R
    largest = float(np.sqrt(np.finfo(scores_RV.dtype).max))  # so that sums with it are numbers
    growth_R1 = np.minimum(growth_X[np.clip(new_R - start, 0, len(growth_X) - 1)], largest)[:, None]
    is_number_RX = np.isfinite(eos_RX)
    known_RX = np.where(is_number_RX, eos_RX, 0.0).astype(np.float64)
    gained_RX = np.minimum(known_RX + np.abs(known_RX) * growth_R1, largest).astype(scores_RV.dtype)
    scores_RV[:, eos_X] = np.where((new_R > start)[:, None] & is_number_RX, gained_RX, eos_RX)
    return scores_RV


def _rows_of_one_token(rows, o) -> np.ndarray:
    return (rows.length_R == 1) & ~rows.last_R


@acts(lambda o: o.forced_bos_token_id, _rows_of_one_token, table=lambda rows, o: unique_ids(o.forced_bos_token_id))
def begin_with_bos(ops, scores_RV, rows, o):
    """fairseq's forced BOS is the first token of a prefix: it keeps its log-probability."""
    return _leave_only(scores_RV, _rows_of_one_token(rows.on_device, o), table_of_processor("begin_with_bos", rows, o))


def _within_prefix(rows, o) -> np.ndarray:
    return rows.new_R < (0 if rows.prefix_BP is None else rows.prefix_BP.shape[1])


@acts(lambda o: True, _within_prefix)
def prefix_tokens(ops, scores_RV, rows, o):
    """The tokens that a text must begin with, behind its prompt. The last place is EOS's.

    They keep their scores; where the softmax comes last, nothing else has any, so that they are certain.
    """
    there, every_V = rows.on_device, np.arange(scores_RV.shape[1], like=scores_RV)
    at_R = np.minimum(there.new_R, there.prefix_BP.shape[1] - 1)
    wanted_R = there.prefix_BP[there.sentence_R, at_R]
    is_fixed_R = _within_prefix(there, o) & ~there.last_R & (wanted_R >= 0)
    if o.rules.softmax == "last":  # and possible, whatever has been ruled out before
        scores_RV = np.where(is_fixed_R[:, None], scores_RV.dtype.type(0), scores_RV)
    return np.where(is_fixed_R[:, None] & (every_V != wanted_R[:, None]), -np.inf, scores_RV)


def prefix_length(prefix_BP: np.ndarray) -> np.ndarray:
    """Columns of each sentence's prefix, free ones (-1) before its last included; -2 marks what lies behind it."""
    return (prefix_BP >= -1).sum(axis=1)


@acts(lambda o: o.prefix_allowed_tokens_fn is not None, by_host=True)
def prefix_allowed_tokens_fn(ops, scores_RV, rows, o):
    """Leaves what the user's function(sentence, text so far) returns, a list of token ids.

    Where other rules have ruled all of that out, for every beam of a sentence, the function wins: what it allows is
    certain (score 0).
    """
    allowed_RV = np.full_like(scores_RV, False, bool)
    for r, sentence in enumerate(rows.sentence_R):
        how = "f(sentence, ids)"
        ids = call_user_option(
            "prefix_allowed_tokens_fn", how, o.prefix_allowed_tokens_fn, int(sentence), rows.text(r).copy()
        )
        ids = np.asarray([] if ids is None else list(ids))
        if ids.size and ids.dtype.kind not in "iu":
            raise OptionError(f"prefix_allowed_tokens_fn must return token ids, not {ids[0]!r}")
        ids = ids.astype(np.int64)
        if ids.size == 0 or ids.min() < 0 or ids.max() >= scores_RV.shape[1]:
            what = "no token" if ids.size == 0 else "ids outside the vocabulary"
            raise OptionError(f"prefix_allowed_tokens_fn returned {what} for sentence {sentence + 1}")
        allowed_RV[r, ids] = True
    scores_RV = np.where(allowed_RV, scores_RV, scores_RV.dtype.type(-np.inf))
    nothing_left_R = np.isneginf(scores_RV).all(axis=1)
    for sentence in np.unique(rows.sentence_R):
        mine_R = rows.sentence_R == sentence
        if nothing_left_R[mine_R].all():
            scores_RV[mine_R] = np.where(allowed_RV[mine_R], 0.0, -np.inf)
            rows.certain_R[mine_R] = True
    return scores_RV


# ---- tokens ruled out ------------------------------------------------------------------------------------------------


@acts(lambda o: o.suppress_tokens, table=lambda rows, o: banned_tokens(o.suppress_tokens))
def suppress_tokens(ops, scores_RV, rows, o):
    """Rules these out everywhere."""
    return _add_biases(ops, scores_RV, rows, o, "suppress_tokens")


def _begins_new_text(rows, o) -> np.ndarray:
    """Rows whose next token is the first new one, or the first after a forced BOS."""
    return rows.new_R == (rows.prompt_R == 1) & bool(o.forced_bos_token_id)


@acts(lambda o: o.begin_suppress_tokens, _begins_new_text, table=lambda rows, o: banned_tokens(o.begin_suppress_tokens))
def begin_suppress_tokens(ops, scores_RV, rows, o):
    """Rules these out as the first token."""
    return _add_biases(ops, scores_RV, rows, o, "begin_suppress_tokens", _begins_new_text(rows.on_device, o))


@acts(
    lambda o: o.pad_token_id is not None and o.pad_token_id not in o.eos_token_id,
    table=lambda rows, o: banned_tokens([int(o.pad_token_id or 0)]),
)
def never_pad(ops, scores_RV, rows, o):
    """fairseq never says the padding token, unless it is EOS as well."""
    return _add_biases(ops, scores_RV, rows, o, "never_pad")


@acts(lambda o: o.unk_penalty, table=lambda rows, o: sequence_biases([((int(o.unk_token_id or 0),), -o.unk_penalty)]))
def unk_penalty(ops, scores_RV, rows, o):
    """Takes this off the score of unk_token_id."""
    return _add_biases(ops, scores_RV, rows, o, "unk_penalty")


# ---- filters before sampling -----------------------------------------------------------------------------------------


@acts(lambda o: o.do_sample and o.temperature != 1.0)
def temperature(ops, scores_RV, rows, o):
    """Divides scores: below 1 the likely tokens gain, above 1 the unlikely ones."""
    return ops.apply_temperature(scores_RV, o.temperature)


@acts(lambda o: o.do_sample and o.top_h is not None, makes_arrays=True)
def top_h(ops, scores_RV, rows, o):
    return top_h_filter(ops, scores_RV, o.top_h)


@acts(lambda o: o.do_sample and o.top_k)
def top_k(ops, scores_RV, rows, o):
    """Leaves the k likeliest tokens of each row, and what ties with the k-th (Fan et al. 2018)."""
    return ops.top_k_filter(scores_RV, max(o.top_k, o.least_kept))


@acts(lambda o: o.do_sample and o.top_p < 1.0)
def top_p(ops, scores_RV, rows, o):
    """Leaves the fewest tokens, likeliest first, whose probabilities sum to at least p (Holtzman et al. 2020)."""
    return ops.top_p_filter(scores_RV, o.top_p, o.least_kept)


@acts(lambda o: o.do_sample and o.min_p is not None, makes_arrays=True)
def min_p(ops, scores_RV, rows, o):
    return min_p_filter(ops, scores_RV, o.min_p, o.least_kept)


@acts(lambda o: o.do_sample and o.typical_p < 1.0, makes_arrays=True)
def typical_p(ops, scores_RV, rows, o):
    """Leaves the fewest tokens of this mass whose surprise is nearest to its mean (Meister et al. 2022)."""
    return ops.typical_filter(scores_RV, o.typical_p, o.least_kept)


@acts(lambda o: o.do_sample and o.epsilon_cutoff, makes_arrays=True)
def epsilon_cutoff(ops, scores_RV, rows, o):
    return epsilon_filter(ops, scores_RV, o.epsilon_cutoff, o.least_kept)


@acts(lambda o: o.do_sample and o.eta_cutoff, makes_arrays=True)
def eta_cutoff(ops, scores_RV, rows, o):
    return eta_filter(ops, scores_RV, o.eta_cutoff, o.least_kept)


# ---- and last --------------------------------------------------------------------------------------------------------


@acts(lambda o: o.logits_processor, by_host=True)
def logits_processor(ops, scores_RV, rows, o):
    """The user's own functions, called as f(scores_RV, rows), each of which returns the new scores."""
    shape, dtype = scores_RV.shape, scores_RV.dtype
    for function in o.logits_processor:
        bad_before_R = ~(scores_RV < np.inf).all(axis=1)  # only of texts that are done: the search has looked at others
        returned = np.asarray(call_user_option("logits_processor", "f(scores_RV, rows)", function, scores_RV, rows))
        scores_RV = returned if returned is scores_RV else returned.copy()  # the search goes on to change them
        if scores_RV.shape != shape or scores_RV.dtype.kind != "f":
            raise OptionError(
                f"logits_processor must return scores, floats of shape {shape}; it is called as f(scores_RV, rows)"
            )
        bad_R = ~(scores_RV < np.inf).all(axis=1) & ~bad_before_R
        if bad_R.any():
            r = int(np.flatnonzero(bad_R)[0])
            where = f"step {rows.new_R[r] + 1}, sentence {rows.sentence_R[r] + 1}"
            raise OptionError(f"logits_processor must return scores, no NaN or infinity as at {where}")
    return scores_RV.astype(dtype, copy=False)  # the state of a search is of the model's precision


def _leave_matches(scores_RV, rows, o):
    """Leaves (the others score -inf) what continues a match and leaves enough tokens for its end.

    Where other rules have ruled out all that is left, for every beam of a sentence, the constraint wins: the next
    token of the known end is certain (score 0), unless prefix_tokens says another.
    """
    constraint, stuck = rows.constraint, []
    constraint.forget_older_steps(int(rows.new_R.max()) if rows.step is None else rows.step)
    for r, new in enumerate(rows.new_R):
        if rows.step is not None and new < rows.step:  # this text is done
            continue
        ids = tuple(rows.text(r)[rows.prompt_R[r] :].tolist())
        if rows.prompt_R[r] == 1 and constraint.skipped:
            if not ids:
                continue  # the forced BOS comes first
            ids = ids[1:] if ids[0] in constraint.skipped else ids
        stays = constraint.continuations(ids, scores_RV[r], int(rows.limit_R[r] - new))
        kept = scores_RV[r, stays].copy()
        scores_RV[r] = -np.inf
        scores_RV[r, stays] = kept
        if not (kept > -np.inf).any():
            stuck.append((r, ids))
    for r, ids in stuck:
        mine_R = np.arange(len(scores_RV)) == r if o.num_beams == 1 else rows.sentence_R == rows.sentence_R[r]
        is_lost = not (scores_RV[mine_R] > -np.inf).any() and not _has_prefix(rows, r)
        if is_lost and (token := constraint.token_towards_end(ids)) is not None:
            scores_RV[r, token] = 0.0
            rows.certain_R[r] = True
    return scores_RV


def _has_prefix(rows, r: int) -> bool:
    """Whether prefix_tokens says the next token."""
    prefix_BP, new = rows.prefix_BP, rows.new_R[r]
    return prefix_BP is not None and new < prefix_BP.shape[1] and prefix_BP[rows.sentence_R[r], new] >= 0


@acts(lambda o: o.regex is not None, by_host=True)
def regex(ops, scores_RV, rows, o):
    """Leaves what continues a match of the new text, and lets it end in time; EOS where it is complete."""
    return _leave_matches(scores_RV, rows, o)


@acts(lambda o: o.json_schema is not None, by_host=True)
def json_schema(ops, scores_RV, rows, o):
    """Leaves what continues a JSON text that the schema allows, and lets it end in time; EOS where it is complete."""
    return _leave_matches(scores_RV, rows, o)


@acts(lambda o: o.renormalize_logits)
def renormalize_logits(ops, scores_RV, rows, o):
    """Log-probabilities again, of what the processors left; a row in which they left nothing stays so."""
    if isinstance(scores_RV, np.ndarray) and (np.fmax.reduce(scores_RV, axis=1) > -np.inf).all():
        return ops.log_softmax(scores_RV)[0]  # the host may look, and needs no second array then
    possible_R1 = (scores_RV > -np.inf).any(axis=1)[:, None]
    return np.where(possible_R1, ops.log_softmax(scores_RV)[0], scores_RV)
