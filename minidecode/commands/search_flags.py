"""The generation options as flags of the command line, made of the table of options, for all commands that generate."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import re
from collections.abc import Callable
from typing import Annotated, Any

import typer

from ..errors import OptionError
from ..options.options import check_values
from ..options.table import ROWS, OptionTable
from .completion import complete_dialect


def _extra_flags(
    truncate: Annotated[bool, typer.Option("--truncate", help="Cut what is too long for the context: prompts on the"
                                           " left, sources on the right.")] = False,
    ignore_generation_config: Annotated[bool, typer.Option("--ignore-generation-config",
        help="Ignore the model's generation_config.json, but for its special tokens.")] = False,
    task: Annotated[str | None, typer.Option(help="Take the settings and prefix of a task in config.json.")]
    = None,
    source_lang: Annotated[str | None, typer.Option(help="The source's language, such as de, for translation models.")]
    = None,
    target_lang: Annotated[str | None, typer.Option(help="The target's language, such as en.")] = None,
    ignore_eos: Annotated[bool, typer.Option("--ignore-eos", help="Ignore the end of text: generate up to the limit.")]
    = False,
):  # fmt: skip
    """The flags beside the options, as a signature."""


def _make_flag_parameter(name: str) -> inspect.Parameter:
    """An option's flag: None, or no value, where it is not set."""
    row = ROWS[name]
    names = row.flags.split()
    if not any("/" in spelled for spelled in names):
        names.insert(0, _flag_name(name))
    text = re.sub(r"\b[a-z]+_[a-z_]+\b", lambda match: _flag_name(match[0]) if match[0] in ROWS else match[0], row.help)
    kind = row.check.flag
    if kind in (list[int], list[str]):
        text = f"{text.removesuffix('.')}; may repeat."
    completes = complete_dialect if name == "dialect" else None
    flag = typer.Option(*names, help=text, metavar=row.shown or None, autocompletion=completes)
    annotation = Annotated[kind | None, flag]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _flag_name(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _all_flags() -> list[inspect.Parameter]:
    """Returns the flags of a search: those beside the options, then each option that a command line can say."""
    extra = inspect.signature(_extra_flags, eval_str=True).parameters.values()
    names = [f.name for f in dataclasses.fields(OptionTable) if ROWS[f.name].check.flag is not None]
    return [*extra, *map(_make_flag_parameter, names)]


def with_search_options(command):
    """Gives a command all these flags; it gets those that were set as the keyword argument `options`.

    What `load` takes of them, it gets as the keyword argument `defaults`: generation_config=False or None, task,
    source_lang and target_lang.
    """
    signature, flags = inspect.signature(command, eval_str=True), _all_flags()
    parameters = [p for p in signature.parameters.values() if p.name not in ("options", "defaults")]
    at = next((i for i, p in enumerate(parameters) if p.name == "debug"), len(parameters))

    @functools.wraps(command)
    def run_with_options(**arguments):
        given = {flag.name: arguments.pop(flag.name) for flag in flags}
        ignored = given.pop("ignore_generation_config")
        loading = {name: given.pop(name) for name in ("task", "source_lang", "target_lang")}
        defaults = {"generation_config": False if ignored else None} | loading
        return command(**arguments, options=_options_from_flags(given), defaults=defaults)

    parameters[at:at] = flags
    parameters = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in parameters]
    run_with_options.__signature__ = signature.replace(parameters=parameters)
    run_with_options.__annotations__ = {p.name: p.annotation for p in parameters}
    return run_with_options


def set_limit(options: dict[str, Any], new_tokens: int) -> None:
    """Sets max_new_tokens where no option limits the length."""
    if all(options.get(name) is None for name in ("max_new_tokens", "max_length", "max_len_b", "match_source_len")):
        options["max_new_tokens"] = new_tokens


def _options_from_flags(given: dict[str, Any]) -> dict[str, Any]:
    """What was set, as `generate` takes it."""
    for new, whole in (("max_new_tokens", "max_length"), ("min_new_tokens", "min_length")):
        if given[new] is not None and given[whole] is not None:
            raise OptionError(f"{new} and {whole} are two spellings of one limit: give one of them")
    given = {name: value for name, value in given.items() if value is not None and value != []}
    options = {name: READ[name](value) if name in READ else value for name, value in given.items()}
    check_values(options)  # before a model is loaded, which may take long
    if options.pop("ignore_eos"):
        options["eos_token_id"] = None
    return options


def _parse_token_ids(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise OptionError(f"--bad-words-ids takes token ids with commas between them, not {text!r}") from None


def _parse_bias(text: str) -> tuple[list[int], float]:
    ids, _, bias = text.partition("=")
    try:
        return [int(part) for part in ids.split(",")], float(bias)
    except ValueError:
        raise OptionError(f"--sequence-bias takes token ids and a number, such as 11,262=-2.5, not {text!r}") from None


def _parse_decay(text: str) -> tuple[int, float]:
    start, _, factor = text.partition(",")
    try:
        return int(start), float(factor)
    except ValueError:
        what = "a number of tokens and a factor, such as 15,1.05"
        raise OptionError(f"--exponential-decay-length-penalty takes {what}, not {text!r}") from None


def _parse_early_stopping(text: str) -> bool | str:
    values = {"true": True, "false": False, "never": "never"}
    if text.lower() not in values:
        raise OptionError(f"early_stopping must be true, false or never, not {text!r}")
    return values[text.lower()]


READ: dict[str, Callable[[Any], Any]] = {  # options whose text on the command line is not the value itself
    "bad_words_ids": lambda texts: [_parse_token_ids(text) for text in texts],
    "sequence_bias": lambda texts: [_parse_bias(text) for text in texts],
    "exponential_decay_length_penalty": _parse_decay,
    "early_stopping": _parse_early_stopping,
}
