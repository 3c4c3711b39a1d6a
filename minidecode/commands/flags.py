"""Flags that several commands share."""

from __future__ import annotations

import re
import sys
from typing import Annotated, Any

import typer

from ..errors import InputError, OptionError
from .completion import complete_dtype, complete_model, complete_plan

PLAN_HELP = (
    "auto, fast, numpy, naive, cuda or emulator, and choices separated by commas, such as cache=split,ngram=cpu."
    " KEY=FILE.py:FUNCTION executes the file. All keys and values: minidecode help plan."
)
DEVICE_HELP = "cpu; cuda (a GPU, with CuPy); auto (cuda where there is one); emulator (the same code for toys)."
DTYPE_HELP = (
    "float32 or float64; float16, int8, int8_dynamic, int8_dynamic7, int8_blocks, int4: storage of the weight matrices"
    " (minidecode help dtype)."
)

MODEL_HELP = "A bundled model, a model folder or a hub id."
ModelName = Annotated[str, typer.Option("--model", "-m", autocompletion=complete_model, help=MODEL_HELP)]
Revision = Annotated[str | None, typer.Option(help="Branch, tag or commit of a model on the hub.  [default: main]")]
PlanText = Annotated[str, typer.Option(autocompletion=complete_plan, help=PLAN_HELP)]
Dtype = Annotated[str, typer.Option(autocompletion=complete_dtype, help=DTYPE_HELP)]
Device = Annotated[str, typer.Option(help=DEVICE_HELP)]
LatentNumbers = Annotated[str | None, typer.Option(metavar="NUMBERS", help="The latent of all texts (gpt2_latent):"
                                                   " numbers with commas between them, or a .npy file.")]  # fmt: skip
LatentSeed = Annotated[int | None, typer.Option(help="Draw a latent for each text: the same seed, the same ones.")]
Jsonl = Annotated[bool, typer.Option("--jsonl", help="Read the input as JSONL whatever its name.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Nothing on stderr but errors.")]
NoBar = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]


def output_flag(help: str) -> Any:
    """The flag of the file, or folder, that a command writes."""
    return typer.Option("--output", "-o", readable=False, help=help)


def warn_of_files(plan: str, option: str = "--plan") -> None:
    """Warns on stderr, in one line, if a plan names the user's functions: their files are executed."""
    places = [
        value for _, equals, value in (part.partition("=") for part in plan.split(",")) if equals and ":" in value
    ]
    if files := list(dict.fromkeys(place.rpartition(":")[0].strip() for place in places)):
        print(f"minidecode: {option} executes {', '.join(files)}: name only code that you trust", file=sys.stderr)


def latent_options(latent: str | None, seed: int | None) -> dict[str, Any]:
    """What the command line gives of `latent` and `latent_seed`. Raises InputError on what is no latent."""
    given = {"latent": None if latent is None else _read_latent(latent), "latent_seed": seed}
    return {name: value for name, value in given.items() if value is not None}


def _read_latent(text: str) -> list:
    """Numbers with commas between them, or those of a .npy file. Raises InputError."""
    import numpy as np

    if text.endswith(".npy"):
        try:
            with open(text, "rb") as file:
                return np.lib.format.read_array(file, allow_pickle=False).tolist()
        except (OSError, ValueError, MemoryError) as error:  # MemoryError: a header may lie
            raise InputError(f"--latent: {text} cannot be read ({error}): write it with numpy.save") from None
    try:
        return [float(number) for number in text.split(",")]
    except ValueError:
        raise InputError(f"--latent takes numbers with commas between them, or a .npy file, not {text!r:.80}") from None


def error_in_flags(message: str, flags: dict[str, str]) -> str:
    """An error of Python's options in the words of the command line: do_sample=True as --do-sample, top_k as --top-k.

    flags: an option's name in Python -> its flag. A name without an underscore may be an ordinary word: it is replaced
    where a value follows, and where the message begins with it.
    """

    def flag_of_match(match: re.Match) -> str:
        name, value = match["name"], match["value"]
        if name not in flags or not (value or "_" in name or match.start() == 0):
            return match[0]
        return flags[name] + (f" {value}" if value and value != "True" else "")

    return re.sub(r"""(?<![\w"'./:-])(?P<name>[a-z_]+)(?:=(?P<value>[\w.]+)|(?![\w"'=(/]))""", flag_of_match, message)


def refuse_given_options(context: typer.Context, names: tuple[str, ...], reason: str) -> None:
    """Raises OptionError if one of these parameters stands on the command line, where it would have no effect."""
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name)
        if parameter.name in names and source is not None and source.name == "COMMANDLINE":
            raise OptionError(f"{max(parameter.opts, key=len)} has no effect {reason}: leave it out")
