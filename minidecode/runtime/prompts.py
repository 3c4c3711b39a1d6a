"""What a generation starts from: token ids without padding, cut to what the model can hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import InputError, OptionError, counted
from ..options.options import DEFAULT_NEW_TOKENS, Options, warn_of_minimum

# What tokenizers of transformers return beside input_ids and attention_mask: of no use to GPT-2 and BART.
UNUSED_OF_TOKENIZERS = {
    "token_type_ids", "special_tokens_mask", "offset_mapping", "length", "overflow_to_sample_mapping",
    "overflowing_tokens", "num_truncated_tokens",
}  # fmt: skip


def split_ids_and_mask(encoded: Mapping[str, Any], attention_mask: Any, what: str) -> tuple[Any, Any]:
    """(input_ids, attention_mask) of what a tokenizer returned, a dict or a BatchEncoding; of one text as one row.

    what: the name of the argument, for errors. Raises InputError on a mapping that holds anything else.
    """
    names = ", ".join(map(repr, encoded)) or "nothing"
    if "input_ids" not in encoded:
        raise InputError(f"{what} is a mapping of {names}: one from a tokenizer holds 'input_ids'")
    unknown = [name for name in encoded if name not in {"input_ids", "attention_mask"} | UNUSED_OF_TOKENIZERS]
    if unknown:
        raise InputError(f"{what} holds {unknown[0]!r} beside 'input_ids', which would have no effect: leave it out")
    ids, mask = encoded["input_ids"], encoded.get("attention_mask")
    if mask is not None and attention_mask is not None:
        raise InputError(f"attention_mask is given twice, once inside of {what}: leave one of them out")
    mask = attention_mask if mask is None else mask
    if hasattr(ids, "__len__") and len(ids) and np.ndim(ids[0]) == 0:  # the ids of one text
        return [ids], None if mask is None else [mask]
    return ids, mask


def token_rows(input_ids: Any, attention_mask: Any, name: str = "input_ids") -> list[np.ndarray]:
    """Rows of token ids as int64 arrays, the positions that the mask marks with 0 left out.

    input_ids: an array (B, N), a list of rows, or a mapping that a tokenizer returned.
    """
    if isinstance(input_ids, Mapping):
        input_ids, attention_mask = split_ids_and_mask(input_ids, attention_mask, name)
    for what, rows in [(name, input_ids), ("attention_mask", attention_mask)]:
        if (rows is not None or what == name) and not hasattr(rows, "__len__"):
            raise InputError(f"{what} must be an array (B, N) or a list of rows, not {rows!r}")
    rows = []
    masks = [None] * len(input_ids) if attention_mask is None else attention_mask
    if len(masks) != len(input_ids):
        raise InputError(f"attention_mask has {counted(len(masks), 'row')} and input_ids has {len(input_ids)}")
    for b, (row, mask) in enumerate(zip(input_ids, masks, strict=True)):
        array = np.asarray(row)
        if array.ndim != 1 or not (np.issubdtype(array.dtype, np.integer) or array.size == 0):
            raise InputError(f"{name} must be rows of integers, an array (B, N) or a list of lists; row {b} is {row!r}")
        if mask is not None:
            mask = np.asarray(mask)
            if mask.shape != array.shape:
                raise InputError(f"attention_mask row {b} has shape {mask.shape} and input_ids row {b} {array.shape}")
            if not np.isin(mask, (0, 1)).all():
                raise InputError(f"attention_mask row {b} must be 1 for tokens and 0 for padding, not {mask.tolist()}")
            array = array[mask == 1]
        rows.append(array.astype(np.int64))
    return rows


def fit_prompts(
    ids: list[np.ndarray], contexts: int | Sequence[int], options: Options, truncate: bool | None,
    sources: list[np.ndarray] | None = None,
) -> tuple[list[np.ndarray], np.ndarray]:  # fmt: skip
    """(prompts, most new tokens of each) that fit the context. Raises InputError naming both lengths.

    contexts: one for all prompts, or one for each. With truncate, the beginnings of prompts go until the new tokens
    fit; None: the caller has no such choice, so errors do not offer it. sources: what max_len_a counts the tokens of,
    if not the prompts, which are then the beginnings of targets.
    """
    kind, has = ("prompt", "has") if sources is None else ("target", "begins with")
    each = [contexts] * len(ids) if isinstance(contexts, int) else contexts
    fitting, limits = [], []
    for b, (row, context) in enumerate(zip(ids, each, strict=True), 1):
        # The last new token is never read, so it needs no position: prompt and new tokens may be one longer.
        whole = context + 1
        if options.max_new_tokens is None and options.max_length is not None:
            if options.max_length > whole:
                raise InputError(f"max_length {options.max_length} goes beyond the context: ask for at most {whole}")
            whole = options.max_length
        wanted = options.max_new_tokens or min(DEFAULT_NEW_TOKENS, whole // 2)
        if truncate and len(row) + (options.max_new_tokens or 1) > whole:
            row = row[-max(1, whole - wanted) :]
        which, count = f"{kind} {b} of {len(ids)}", f"{len(row)} token{'s' * (len(row) != 1)}"
        who = f"{which} {has} {count}"
        room = whole - len(row)
        if len(row) > context:
            raise InputError(
                f"{who} and the model's context holds {context}: shorten it{advise_truncate(truncate, 'it')}"
            )
        if room < 1:
            raise InputError(f"{who}, and max_length {options.max_length} counts them: raise it")
        limit = min(DEFAULT_NEW_TOKENS, room)
        if options.max_new_tokens is not None:
            limit = options.max_new_tokens
        elif options.max_length is not None:
            limit = room
        elif options.match_source_len or options.max_len_b is not None:  # fairseq's, which fit the context themselves
            limit = min(fairseq_limit(row if sources is None else sources[b - 1], options), room)
            if limit < 1:
                raise OptionError(
                    f"max_len_a {options.max_len_a:g} and max_len_b {options.max_len_b} leave {which} no new "
                    "token: raise one of them"
                )
        if limit > room:
            if sources is not None:
                raise InputError(
                    f"{limit} new tokens go beyond the decoder's context of {context}: ask for at most {room}"
                )
            cut = "" if limit > context else advise_truncate(truncate, "the prompt")
            raise InputError(
                f"{who}, and {limit} new ones go beyond the context of {context}: ask for at most {room}{cut}"
            )
        fitting.append(row)
        limits.append(limit)
        least = options.min_length - len(row) if options.min_new_tokens is None else options.min_new_tokens
        ends = options.dialect == "fairseq" and bool(options.eos_token_id)  # of its limit, the last token is EOS
        if least > limit - ends:
            name = "min_length" if options.min_new_tokens is None else "min_new_tokens"
            if options.has_default_minimum:
                warn_of_minimum(name, getattr(options, name), f"{limit} new tokens", stacklevel=4)
                continue
            raise OptionError(
                f"{name} {getattr(options, name)} is above what {which} may come to: "
                f"{count} and {limit} new ones{', EOS the last' * ends}; lower it, or allow more"
            )
    return fitting, np.array(limits)


def fairseq_limit(source: np.ndarray, options: Options) -> int:
    """The most new tokens that fairseq allows for a source of its own, with EOS; it may be below 1."""
    if options.match_source_len:
        pad = [] if options.pad_token_id is None else [options.pad_token_id]
        return 1 + int((~np.isin(source, [*options.eos_token_id, *pad])).sum())
    assert options.max_len_b is not None  # else another option says the limit
    return 1 + int(options.max_len_a * len(source) + options.max_len_b)


def fit_sources_in_front(
    ids: list[np.ndarray], context: int, options: Options, truncate: bool | None, closing: Sequence[int]
) -> list[np.ndarray]:
    """Sources that leave room for their targets, where both share one context. Raises InputError.

    With truncate, ends of sources go until the new tokens fit. What is asked for fits; without a limit, texts have up
    to 64 new tokens, or as many as the context still holds. closing: as in `cut_sources`.
    """
    asked = options.max_new_tokens or (options.max_length and options.max_length - 1)
    room = asked or (min(DEFAULT_NEW_TOKENS, context // 2) if truncate else 1)
    return cut_sources(ids, [room] * len(ids), context, truncate, closing)


def cut_sources(
    ids: list[np.ndarray], rooms: list[int], context: int, truncate: bool | None, closing: Sequence[int]
) -> list[np.ndarray]:
    """Sources that leave room for this many tokens of their targets. With truncate, their ends go.

    closing: how many tokens close each, and stay. Raises InputError on sources that do not fit.
    """
    fitting = []
    for b, (row, room, kept) in enumerate(zip(ids, rooms, closing, strict=True), 1):
        most = context - room
        if truncate and len(row) > most > 0:
            row = cut_before_closing(row, most, kept)
        if len(row) > most:
            remedy = (
                f"shorten one of them{advise_truncate(truncate, 'the source')}"
                if most > 0
                else "ask for a shorter target"
            )
            raise InputError(
                f"source {b} of {len(ids)} has {len(row)} tokens, and with {room} of its target they go beyond the "
                f"context of {context}: {remedy}"
            )
        fitting.append(row)
    return fitting


def advise_truncate(truncate: bool | None, what: str) -> str:
    """The other remedy against too many tokens, where there is a choice that was not made."""
    return f", or cut {what} with --truncate (truncate=True)" if truncate is False else ""


def cut_before_closing(row: Any, most: int, closing: int) -> Any:
    """An array or a list with one entry a token, cut to this many: entries go in front of those that close the text.

    An end of text, and with mBART a language behind it, are what models know the end of a source by.
    """
    if len(row) <= most:
        return row
    kept = min(closing, most)
    first, last = row[: most - kept], row[len(row) - kept :]
    return np.concatenate([first, last]) if isinstance(row, np.ndarray) else [*first, *last]


def fit_sources(ids: list[np.ndarray], context: int, truncate: bool | None, closing: Sequence[int]) -> list[np.ndarray]:
    """Sources that fit the encoder. With truncate, their ends go, but for the tokens that close each.

    None: as in `fit_prompts`.
    """
    fitting = []
    for b, (row, kept) in enumerate(zip(ids, closing, strict=True), 1):
        if truncate:
            row = cut_before_closing(row, context, kept)
        if len(row) > context:
            raise InputError(
                f"source {b} of {len(ids)} has {len(row)} tokens and the encoder holds {context}: "
                f"shorten it{advise_truncate(truncate, 'it')}"
            )
        fitting.append(row)
    return fitting
