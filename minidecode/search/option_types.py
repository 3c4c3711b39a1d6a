"""The options of `generate` for type checkers: the names of `Options`, and every type that a call may give."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict

import numpy as np


class GenerateOptions(TypedDict, total=False):
    """What `options.Options` explains, field by field; and generation_config, which takes the model's place."""

    generation_config: dict[str, Any] | str | Path | bool | None
    dialect: Literal["hf", "hf4", "fairseq"]
    num_beams: int
    num_return_sequences: int
    max_new_tokens: int | None
    max_length: int | None
    max_len_a: float
    max_len_b: int | None
    match_source_len: bool
    min_new_tokens: int | None
    min_length: int
    length_penalty: float
    length_normalization: Literal["power", "gnmt"]
    early_stopping: bool | Literal["never"]
    num_beam_groups: int
    diversity_penalty: float
    sibling_penalty: float
    do_sample: bool
    temperature: float
    top_k: int | None
    top_p: float
    min_p: float | None
    top_h: float | None
    typical_p: float
    epsilon_cutoff: float
    eta_cutoff: float
    seed: int
    no_repeat_ngram_size: int
    encoder_no_repeat_ngram_size: int
    repetition_penalty: float
    encoder_repetition_penalty: float
    bad_words_ids: Sequence[Sequence[int]]
    suppress_tokens: Sequence[int] | None
    begin_suppress_tokens: Sequence[int] | None
    sequence_bias: Mapping[tuple[int, ...], float] | Sequence[Sequence[Any]]
    exponential_decay_length_penalty: tuple[int, float] | None
    guidance_scale: float
    remove_invalid_values: bool
    renormalize_logits: bool
    unk_penalty: float
    eos_token_id: int | Sequence[int] | None
    pad_token_id: int | None
    unk_token_id: int | None
    forced_bos_token_id: int | Sequence[int] | None
    forced_eos_token_id: int | Sequence[int] | None
    decoder_start_token_id: int | None
    prefix_allowed_tokens_fn: Callable[[int, np.ndarray], Sequence[int]] | None
    logits_processor: Callable[..., np.ndarray] | Sequence[Callable[..., np.ndarray]]
    stop_strings: str | Sequence[str]
    keep_stop_strings: bool
    stopping_criteria: Callable[..., Any] | Sequence[Callable[..., Any]]
    max_time: float | None
    regex: str | None
    json_schema: dict[str, Any] | str | Path | None
    return_dict_in_generate: Literal[False]
    output_scores: Literal[False]
