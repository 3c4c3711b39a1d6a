"""The options of `generate` for type checkers; docs/write_options.py writes this file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict

import numpy as np


class GenerateOptions(TypedDict, total=False):
    """The options of `generate`: keywords of a call, or one dict.

        model.generate("Fellow citizens,", num_beams=4, no_repeat_ngram_size=3)
        options: md.GenerateOptions = {"num_beams": 4, "no_repeat_ngram_size": 3}
        model.generate("Fellow citizens,", **options)

    What a call leaves out comes from the model's generation_config.json, and then from here. Names
    and meanings are Hugging Face's. `help(minidecode.options.options.Options)` explains more.

    Length and stops:

    max_new_tokens: int | None = None
        At most this many tokens after the prompt. With no limit: 64, or as many as the context
        holds.
    max_length: int | None = None
        The same limit, counted with the prompt.
    max_len_a: float = 0.0
        fairseq's limit: max_len_a * (tokens of the source) + max_len_b. EOS is not counted.
    max_len_b: int | None = None
        Tokens added to max_len_a * (tokens of the source); may be below 0.
    match_source_len: bool = False
        fairseq's other limit: as many tokens as the source has, and the end of text.
    min_new_tokens: int | None = None
        No end of text before this many tokens after the prompt.
    min_length: int = 0
        The same limit, counted with the prompt.
    stop_strings: str | Sequence[str] | None = ()
        End a text before this string. It may name special tokens, such as <|im_end|>.
    keep_stop_strings: bool = False
        Keep that string at the end of the text.
    stopping_criteria: Callable[..., Any] | Sequence[Callable[..., Any]] | None = ()
        Functions f(ids, scores) that return True, or a truth value for each text.
    max_time: float | None = None
        End all texts with their next token after this many seconds.

    Search:

    dialect: Literal["hf", "hf4", "fairseq", "unilm", "ctranslate2", "lightseq"] = "hf"
        Whose rules: hf (transformers 5), hf4 (4.49), fairseq, unilm, ctranslate2 or lightseq.
        fairseq is 0.10.2, unilm is s2s-ft, ctranslate2 is 4.8.5, lightseq is 3.0.
    num_beams: int = 1
        Beam width; 1 is greedy.
    num_return_sequences: int = 1
        Texts per prompt, best first.
    length_penalty: float = 1.0
        A finished text scores log-probability / length ** this.
    length_normalization: Literal["power", "gnmt"] = "power"
        power, or gnmt: ((5 + length) / 6) ** length_penalty.
    patience: float = 1.0
        A sentence ends when num_beams * this texts are finished (ctranslate2).
    early_stopping: bool | Literal["never"] = False
        When a sentence's beam search ends: true, false or never. True: when num_beams texts are
        finished; False: when the best running beam, as long as it is now, cannot beat the worst
        of them; "never": when it could not at the maximal length either.
    num_beam_groups: int = 1
        Groups of beams that choose in turn, each paying diversity_penalty for a token chosen
        before. This is diverse beam search.
    diversity_penalty: float = 0.0
        What a token costs for each time that a group before has chosen it.
    sibling_penalty: float = 0.0
        A beam's k-th best continuation loses k times this.
    prompt_lookup_num_tokens: int | None = None
        Draft this many tokens a step from earlier places in the text. The model checks them in
        one forward pass: texts are the same, and often come in fewer steps.
    max_matching_ngram_size: int = 2
        The longest n-gram that prompt_lookup_num_tokens looks up.
    num_assistant_tokens: int | None = None
        Tokens that a draft model guesses for each step; 5 if not given.

    Sampling:

    do_sample: bool = False
        Sample tokens; the options behind this one shape what is drawn.
    temperature: float = 1.0
        Divide scores by this: lower is less random.
    top_k: int | None = None
        Sample from the k likeliest tokens; 0: all. With do_sample it is 50 if not given, as in
        transformers.
    top_p: float = 1.0
        Sample from the likeliest tokens that together have this probability.
    min_p: float | None = None
        Drop tokens below this share of the top probability.
    top_h: float | None = None
        Keep the likeliest tokens of this share of the entropy.
    typical_p: float = 1.0
        Keep the tokens of about average surprise, with this much probability.
    epsilon_cutoff: float = 0.0
        Drop tokens below this probability.
    eta_cutoff: float = 0.0
        A cutoff that falls where the entropy is high.
    seed: int = 0
        Random seed: the same seed gives a prompt the same text in any batch.

    Rules for tokens:

    no_repeat_ngram_size: int = 0
        Never repeat n tokens in a row; 0 allows it.
    no_repeat_ngram_exempt_ids: int | Sequence[int] | None = ()
        Let n-grams with this token repeat, such as the full stop (s2s-ft).
    encoder_no_repeat_ngram_size: int = 0
        Never copy n tokens in a row of the source.
    repetition_penalty: float = 1.0
        Above 1: tokens of the text become less likely.
    encoder_repetition_penalty: float = 1.0
        Above 1: tokens of the source gain.
    bad_words_ids: Sequence[Sequence[int]] | None = ()
        Token ids that must not follow each other. Such as [[5, 6], [7]].
    suppress_tokens: int | Sequence[int] | None = ()
        Never this token.
    begin_suppress_tokens: int | Sequence[int] | None = ()
        Not this token first.
    sequence_bias: Mapping[tuple[int, ...], float] | Sequence[Sequence[Any]] | None = ()
        Add to the last token's score where the text ends with the others. Give {ids: bias}, or
        a list of [ids, bias].
    exponential_decay_length_penalty: Sequence[float] | None = None
        Make the end likelier with each token after START. A pair (start, factor).
    guidance_scale: float | None = 1.0
        Classifier-free guidance: above 1 strengthens the prompt. Texts keep away from
        negative_prompt; it costs twice the time.
    remove_invalid_values: bool = False
        Go on with 0 where the model's scores are NaN.
    renormalize_logits: bool = False
        Renormalize scores after all rules.
    unk_penalty: float = 0.0
        Taken off the score of unk_token_id (fairseq).
    prefix_allowed_tokens_fn: Callable[[int, np.ndarray], Iterable[int]] | None = None
        f(sentence, ids) returns the ids that may follow.
    logits_processor: Callable[..., np.ndarray] | Sequence[Callable[..., np.ndarray]] | None = ()
        Functions f(scores_RV, rows) that return new scores; see search/rows.py.
    regex: str | None = None
        Make all of the new text match this. It needs the extra `constrain`.
    json_schema: dict[str, Any] | str | Path | None = None
        Make the new text JSON that this schema allows. A dict, JSON text or the path of a file.

    Special tokens:

    eos_token_id: int | Sequence[int] | None = ()
        End of text, instead of the model's. None: texts go on to their limit.
    pad_token_id: int | None = None
        Padding, instead of the model's; texts come back without it.
    unk_token_id: int | None = None
        Id of the unknown token.
    forced_bos_token_id: int | Sequence[int] | None = ()
        Token forced at a target's start.
    forced_eos_token_id: int | Sequence[int] | None = ()
        Token forced at the length limit.
    decoder_start_token_id: int | None = None
        What targets begin with (BART).

    For one call alone:

    generation_config: dict[str, Any] | str | Path | Literal[False] | None = None
        Defaults, or their file, in place of the model's; False: none.
    return_dict_in_generate, output_scores: False
        As callers of transformers may pass them; they change nothing.
    """

    generation_config: dict[str, Any] | str | Path | Literal[False] | None
    dialect: Literal["hf", "hf4", "fairseq", "unilm", "ctranslate2", "lightseq"]
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
    patience: float
    early_stopping: bool | Literal["never"]
    num_beam_groups: int
    diversity_penalty: float
    sibling_penalty: float
    prompt_lookup_num_tokens: int | None
    max_matching_ngram_size: int
    num_assistant_tokens: int | None
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
    no_repeat_ngram_exempt_ids: int | Sequence[int] | None
    encoder_no_repeat_ngram_size: int
    repetition_penalty: float
    encoder_repetition_penalty: float
    bad_words_ids: Sequence[Sequence[int]] | None
    suppress_tokens: int | Sequence[int] | None
    begin_suppress_tokens: int | Sequence[int] | None
    sequence_bias: Mapping[tuple[int, ...], float] | Sequence[Sequence[Any]] | None
    exponential_decay_length_penalty: Sequence[float] | None
    guidance_scale: float | None
    remove_invalid_values: bool
    renormalize_logits: bool
    unk_penalty: float
    eos_token_id: int | Sequence[int] | None
    pad_token_id: int | None
    unk_token_id: int | None
    forced_bos_token_id: int | Sequence[int] | None
    forced_eos_token_id: int | Sequence[int] | None
    decoder_start_token_id: int | None
    prefix_allowed_tokens_fn: Callable[[int, np.ndarray], Iterable[int]] | None
    logits_processor: Callable[..., np.ndarray] | Sequence[Callable[..., np.ndarray]] | None
    stop_strings: str | Sequence[str] | None
    keep_stop_strings: bool
    stopping_criteria: Callable[..., Any] | Sequence[Callable[..., Any]] | None
    max_time: float | None
    regex: str | None
    json_schema: dict[str, Any] | str | Path | None
    return_dict_in_generate: Literal[False]
    output_scores: Literal[False]
