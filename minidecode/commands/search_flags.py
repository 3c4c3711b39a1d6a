"""The generation options as flags of the command line, once for all commands that generate."""

from __future__ import annotations

import functools
import inspect
from typing import Annotated, Any

import typer

from ..errors import OptionError
from ..options.options import DEFAULT_NEW_TOKENS, check_values
from .completion import complete_dialect


def _flags(
    truncate: Annotated[bool, typer.Option("--truncate", help="Cut what is too long for the context: prompts on the"
                                           " left, sources on the right.")] = False,
    ignore_generation_config: Annotated[bool, typer.Option("--ignore-generation-config",
        help="Ignore the model's generation_config.json, but for its special tokens.")] = False,
    task: Annotated[str | None, typer.Option(help="Take the settings and prefix of a task in config.json.")]
    = None,
    source_lang: Annotated[str | None, typer.Option(help="The source's language, such as de, for translation models.")]
    = None,
    target_lang: Annotated[str | None, typer.Option(help="The target's language, such as en.")] = None,
    dialect: Annotated[str | None, typer.Option(autocompletion=complete_dialect,
        help="Whose rules: hf (transformers 5), hf4 (4.49), fairseq or unilm.")]
    = None,
    max_new_tokens: Annotated[int | None, typer.Option(
        help=f"At most this many tokens after the prompt.  [default: {DEFAULT_NEW_TOKENS}]")] = None,
    max_length: Annotated[int | None, typer.Option(help="The same, counted with the prompt.")] = None,
    max_len_a: Annotated[float | None, typer.Option(help="fairseq's limit: max-len-a * (tokens of the source)")] = None,
    max_len_b: Annotated[int | None, typer.Option(help="Tokens beside max-len-a * source; may be below 0.")] = None,
    match_source_len: Annotated[bool | None, typer.Option("--match-source-len",
        help="fairseq's other limit: as many tokens as the source has, and the end of text.")] = None,
    min_new_tokens: Annotated[int | None, typer.Option("--min-new-tokens", "--min-len",
        help="No end of text before this many tokens after the prompt.")] = None,
    min_length: Annotated[int | None, typer.Option(help="The same, counted with the prompt.")] = None,
    num_beams: Annotated[int | None, typer.Option("--num-beams", "--beam", help="Beam width; 1 is greedy.")] = None,
    num_return_sequences: Annotated[int | None, typer.Option("--num-return-sequences", "--nbest",
        help="Texts per prompt, best first.")] = None,
    length_penalty: Annotated[float | None, typer.Option("--length-penalty", "--lenpen",
        help="A finished text scores log-probability / length ** this.")] = None,
    length_normalization: Annotated[str | None, typer.Option(
        help="power, or gnmt: ((5 + length) / 6) ** length-penalty.")] = None,
    early_stopping: Annotated[str | None, typer.Option(help="When a beam search ends: true, false or never.")] = None,
    num_beam_groups: Annotated[int | None, typer.Option("--num-beam-groups", "--diverse-beam-groups",
        help="Groups of beams that choose in turn, each paying --diversity-penalty for a token chosen before.")] = None,
    diversity_penalty: Annotated[float | None, typer.Option("--diversity-penalty", "--diverse-beam-strength",
        help="See --num-beam-groups.")] = None,
    sibling_penalty: Annotated[float | None, typer.Option("--sibling-penalty", "--diversity-rate",
        help="A beam's k-th best continuation loses k times this.")] = None,
    do_sample: Annotated[bool | None, typer.Option("--do-sample/--no-sample", "--sampling",
        help="Sample tokens; the next eight options shape what is drawn.")] = None,
    temperature: Annotated[float | None, typer.Option(
        help="Divide scores by this: lower is less random.  [default: 1]")] = None,
    top_k: Annotated[int | None, typer.Option("--top-k", "--sampling-topk",
        help="Sample from the k likeliest tokens; 0: all.  [default: 50]")] = None,
    top_p: Annotated[float | None, typer.Option("--top-p", "--sampling-topp",
        help="Sample from the likeliest tokens that together have this probability.  [default: 1]")] = None,
    min_p: Annotated[float | None, typer.Option(help="Drop tokens below this share of the top probability.")] = None,
    top_h: Annotated[float | None, typer.Option(help="Keep the likeliest tokens of this share of the entropy.")] = None,
    typical_p: Annotated[float | None, typer.Option(
        help="Keep the tokens of about average surprise, with this much probability.")] = None,
    epsilon_cutoff: Annotated[float | None, typer.Option(help="Drop tokens below this probability.")] = None,
    eta_cutoff: Annotated[float | None, typer.Option(help="A cutoff that falls where the entropy is high.")] = None,
    seed: Annotated[int | None, typer.Option(help="Random seed: the same seed gives the same texts.")] = None,
    stop_strings: Annotated[list[str] | None, typer.Option("--stop", "--stop-strings", metavar="TEXT",
        help="End a text before this string; may repeat.")] = None,
    keep_stop_strings: Annotated[bool | None, typer.Option("--keep-stop", "--keep-stop-strings",
        help="Keep that string at the end of the text.")] = None,
    max_time: Annotated[float | None, typer.Option(help="End all texts after so many seconds.")] = None,
    regex: Annotated[str | None, typer.Option(metavar="PATTERN", help="Make all of the new text match this.")] = None,
    json_schema: Annotated[str | None, typer.Option(metavar="FILE", help="Make it JSON that this schema allows.")]
    = None,
    no_repeat_ngram_size: Annotated[int | None, typer.Option(help="Never repeat n tokens in a row; 0 allows it.")]
    = None,
    no_repeat_ngram_exempt_ids: Annotated[list[int] | None, typer.Option(
        help="Let n-grams with this token repeat (s2s-ft); may repeat.")] = None,
    encoder_no_repeat_ngram_size: Annotated[int | None, typer.Option(help="Never copy an n-gram of the source.")]
    = None,
    repetition_penalty: Annotated[float | None, typer.Option(help="Above 1: tokens of the text become less likely.")]
    = None,
    encoder_repetition_penalty: Annotated[float | None, typer.Option(help="Above 1: tokens of the source gain.")]
    = None,
    bad_words_ids: Annotated[list[str] | None, typer.Option(metavar="ID,ID,..",
        help="Token ids that must not follow each other; may repeat.")] = None,
    suppress_tokens: Annotated[list[int] | None, typer.Option(help="Never this token; may repeat.")] = None,
    begin_suppress_tokens: Annotated[list[int] | None, typer.Option(help="Not first; may repeat.")] = None,
    sequence_bias: Annotated[list[str] | None, typer.Option(metavar="ID,ID,..=BIAS",
        help="Add to the last token's score where the text ends with the others; may repeat.")] = None,
    exponential_decay_length_penalty: Annotated[str | None, typer.Option(metavar="START,FACTOR",
        help="Make the end likelier with each token after START.")] = None,
    guidance_scale: Annotated[float | None, typer.Option(
        help="Classifier-free guidance: above 1 strengthens the prompt.")] = None,
    remove_invalid_values: Annotated[bool | None, typer.Option("--remove-invalid-values",
        help="Go on with 0 where the model's scores are NaN.")] = None,
    renormalize_logits: Annotated[bool | None, typer.Option("--renormalize-logits",
        help="Renormalize scores after all rules.")] = None,
    unk_penalty: Annotated[float | None, typer.Option("--unk-penalty", "--unkpen",
        help="Taken off the score of --unk-token-id (fairseq).")] = None,
    eos_token_id: Annotated[list[int] | None, typer.Option(help="End of text, instead of the model's; may repeat.")]
    = None,
    ignore_eos: Annotated[bool, typer.Option("--ignore-eos", help="Ignore the end of text: generate up to the limit.")]
    = False,
    pad_token_id: Annotated[int | None, typer.Option(help="Instead of the model's.")] = None,
    unk_token_id: Annotated[int | None, typer.Option(help="Id of the unknown token.")] = None,
    forced_bos_token_id: Annotated[list[int] | None, typer.Option(help="Token forced at a target's start; may repeat.")]
    = None,
    forced_eos_token_id: Annotated[list[int] | None, typer.Option(help="Token forced at the length limit; may repeat.")]
    = None,
    decoder_start_token_id: Annotated[int | None, typer.Option(help="What targets begin with (BART).")] = None,
):  # fmt: skip
    """The flags, as a signature."""


def with_search_options(command):
    """Gives a command all these flags; it gets those that were set as the keyword argument `options`.

    What `load` takes of them, it gets as the keyword argument `defaults`: generation_config=False or None, task,
    source_lang and target_lang.
    """
    own, flags = inspect.signature(command, eval_str=True), inspect.signature(_flags, eval_str=True)
    parameters = [p for p in own.parameters.values() if p.name not in ("options", "defaults")]
    at = next((i for i, p in enumerate(parameters) if p.name == "debug"), len(parameters))

    @functools.wraps(command)
    def run(**arguments):
        given = {name: arguments.pop(name) for name in flags.parameters}
        ignored = given.pop("ignore_generation_config")
        loading = {name: given.pop(name) for name in ("task", "source_lang", "target_lang")}
        defaults = {"generation_config": False if ignored else None} | loading
        return command(**arguments, options=_read(given), defaults=defaults)

    parameters[at:at] = flags.parameters.values()
    parameters = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in parameters]
    run.__signature__ = own.replace(parameters=parameters)
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    return run


def _read(given: dict[str, Any]) -> dict[str, Any]:
    """What was set, as `generate` takes it."""
    for new, whole in (("max_new_tokens", "max_length"), ("min_new_tokens", "min_length")):
        if given[new] is not None and given[whole] is not None:
            raise OptionError(f"{new} and {whole} are two spellings of one limit: give one of them")
    given["early_stopping"] = _early_stopping(given["early_stopping"])
    given["bad_words_ids"] = [_token_ids(text) for text in given["bad_words_ids"] or []]
    given["sequence_bias"] = [_bias(text) for text in given["sequence_bias"] or []]
    given["exponential_decay_length_penalty"] = _decay(given["exponential_decay_length_penalty"])
    options = {name: value for name, value in given.items() if value is not None and value != []}
    check_values(options)  # before a model is loaded, which may take long
    if options.pop("ignore_eos"):
        options["eos_token_id"] = None
    return options


def _token_ids(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise OptionError(f"--bad-words-ids takes token ids with commas between them, not {text!r}") from None


def _bias(text: str) -> tuple[list[int], float]:
    ids, _, bias = text.partition("=")
    try:
        return [int(part) for part in ids.split(",")], float(bias)
    except ValueError:
        raise OptionError(f"--sequence-bias takes token ids and a number, such as 11,262=-2.5, not {text!r}") from None


def _decay(text: str | None) -> tuple[int, float] | None:
    if text is None:
        return None
    start, _, factor = text.partition(",")
    try:
        return int(start), float(factor)
    except ValueError:
        what = "a number of tokens and a factor, such as 15,1.05"
        raise OptionError(f"--exponential-decay-length-penalty takes {what}, not {text!r}") from None


def _early_stopping(text: str | None) -> bool | str | None:
    values = {None: None, "true": True, "false": False, "never": "never"}
    if text is not None and text.lower() not in values:
        raise OptionError(f"early_stopping must be true, false or never, not {text!r}")
    return values[text and text.lower()]
