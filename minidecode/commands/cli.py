"""The command line: its commands, and the exit code of each way in which one can end.

Texts go to stdout, everything about them to stderr. Exit codes: 0 done; 1 an error that a user can mend, or an answer
that is no; 2 a command line that cannot be read; 130 interrupted; 143 terminated.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from ..errors import MinidecodeError, MinidecodeWarning, OptionError, pip_install
from .chat import chat
from .check import check
from .classify import classify
from .classroom import classroom
from .compare import compare
from .completion import join_words_of_bash
from .convert import convert
from .doctor import doctor
from .elsewhere import answer_for_option, replace_underscores_by_dashes
from .embed import embed
from .evaluate import evaluate
from .exercise import app as exercise_app
from .explore import explore
from .fairseq import fairseq_generate, fairseq_interactive
from .flags import error_in_flags
from .generate import generate
from .generate_files import Interrupted
from .help_text import GroupedCommands, GroupedOptions, show_help_alone
from .help_topics import help
from .import_file import import_file
from .interpolate import interpolate
from .interrupts import Terminated, raise_if_asked, raise_on_signals
from .ladder import ladder
from .models import models
from .plan import plan
from .precompile import precompile
from .predict import predict
from .project import app as project_app
from .prove import prove
from .sanitize import sanitize
from .score import score
from .serve import serve
from .trace import trace
from .tutorial import tutorial
from .version import version_line


class Commands(GroupedCommands, TyperGroup):
    """All commands."""


app = typer.Typer(
    cls=Commands, help="Fast transformer decoding you can read: load a model, generate, and see what ran.",
    rich_markup_mode=None, pretty_exceptions_enable=False,
    context_settings={"token_normalize_func": replace_underscores_by_dashes},
)  # fmt: skip
IN_ORDER_OF_HELP = {
    "Generate": (generate, chat, serve, interpolate, trace, explore, score),
    "Read": (embed, classify),
    "Measure": (plan, compare, ladder, evaluate, prove),
    "Check kernels": (check, sanitize, predict),
    "Learn": (help, tutorial, classroom),  # and exercise, project
    "This machine": (models, import_file, convert, precompile, doctor),
    "As fairseq": (fairseq_generate, fairseq_interactive),
}

HYPOTHESIS_FOLDER = "HYPOTHESIS_STORAGE_DIRECTORY"
SHARED_LIBRARY = re.compile(r"[\w.+-]+(?:\.so(?:\.\d+)*|\.dylib|\.dll|\.pyd)\b", re.IGNORECASE)


class OnceEach(GroupedOptions, TyperCommand):
    """A command that takes each option once: of two values, under one spelling or two, one would be lost silently.

    Its errors call options as they are typed.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if ctx.resilient_parsing:  # a shell completes a line that is not whole yet
            return super().parse_args(ctx, args)
        *_, given = self.make_parser(ctx).parse_args(args=list(args))
        for option, times in Counter(given).items():
            has_values = option.param_type_name == "option" and (not option.is_flag or option.secondary_opts)
            if times > 1 and has_values and not option.multiple:
                name, *others = option.opts
                also = f" ({', '.join(others)})" if others else ""
                raise OptionError(f"{name}{also} is given {'twice' if times == 2 else f'{times} times'}: give it once")
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except OptionError as error:
            if not str(error).startswith("plan: "):  # whose rows have names of options, too
                error.args = (error_in_flags(str(error), self._flags_by_parameter()),)
            raise

    def _flags_by_parameter(self) -> dict[str, str]:
        """Each option's name in Python -> its flag, the one of that name if it has several."""
        flags = {}
        for option in (p for p in self.params if p.param_type_name == "option"):
            of_its_name = f"--{option.name.replace('_', '-')}"
            flags[option.name] = of_its_name if of_its_name in option.opts else max(option.opts, key=len)
        return flags


for group, commands in IN_ORDER_OF_HELP.items():
    for command in commands:
        settings = {"allow_interspersed_args": command is not sanitize}  # what follows a script is the script's
        settings |= {"ignore_unknown_options": command in (fairseq_generate, fairseq_interactive)}  # read by themselves
        name = "import" if command is import_file else None  # which is a keyword
        app.command(name, cls=OnceEach, rich_help_panel=group, context_settings=settings)(command)
app.add_typer(exercise_app, name="exercise", rich_help_panel="Learn")
app.add_typer(project_app, name="project", rich_help_panel="Learn")


@app.callback(invoke_without_command=True)
def _global_options(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and the commit.")] = False,
):
    if version:
        print(version_line())
        raise typer.Exit
    show_help_alone(context)


def main() -> None:
    """Runs a command; an error that a user can mend is one line on stderr and exit code 1, or 2 for bad usage."""
    try:
        with raise_on_signals():
            code = _run_with_cleanup()
    except (KeyboardInterrupt, Terminated) as error:  # in the clean-up
        code = 130 if isinstance(error, KeyboardInterrupt) else 143
    sys.exit(code)


def _run_with_cleanup() -> int:
    """The exit code of the command, with what stands around it made ready and cleaned up."""
    _ready_streams()
    in_bash = os.environ.get("_MINIDECODE_COMPLETE") == "complete_bash"
    completing = join_words_of_bash(os.environ) if in_bash else contextlib.nullcontext()
    quiet = not {"--quiet", "-q"}.isdisjoint(sys.argv[1:])
    if quiet:  # read when the hub's client is imported, and before a file is converted
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    with completing, _private_folder(), _warnings_in_one_line(quiet):
        return _run_command_line(debug="--debug" in sys.argv[1:])


@contextlib.contextmanager
def _private_folder() -> Iterator[None]:
    """A temporary folder that only this user can open, gone at the end: hypothesis keeps its data there.

    Without it that would go into the working directory; and in a place known beforehand, others could put data for it.
    """
    if HYPOTHESIS_FOLDER in os.environ:
        yield
        return
    try:
        folder = tempfile.TemporaryDirectory(prefix="minidecode-", ignore_cleanup_errors=True)
    except OSError:  # nowhere to write: hypothesis does without, too
        yield
        return
    with folder:
        os.environ[HYPOTHESIS_FOLDER] = folder.name
        try:
            yield
        finally:
            del os.environ[HYPOTHESIS_FOLDER]


@contextlib.contextmanager
def _warnings_in_one_line(quiet: bool) -> Iterator[None]:
    """Prints our own warnings to stderr without the line of source that raised them, each text once."""
    shown, usual = set(), warnings.showwarning

    def show_in_one_line(message: Any, category: type[Warning], *where: Any) -> None:
        if not issubclass(category, MinidecodeWarning):
            usual(message, category, *where)
        elif str(message) not in shown:
            shown.add(str(message))
            print(f"minidecode: warning: {' '.join(str(message).split())}", file=sys.stderr)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore" if quiet else "always", MinidecodeWarning)
        warnings.showwarning = show_in_one_line
        yield


def _ready_streams() -> None:
    """Makes sure that all three standard streams exist, and that they write UTF-8 as --output does."""
    for name, mode in [("stdin", "r"), ("stdout", "w"), ("stderr", "w")]:
        if getattr(sys, name) is None:  # closed by the program that started us
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 (it stays open to the end)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")


def _run_command_line(debug: bool) -> int:
    """Runs the command that sys.argv names -> exit code. Raises what is no user error."""
    try:
        return _run_to_its_end()
    except MinidecodeError as error:
        return _print_error_and_exit(str(error), 1, debug)
    except BrokenPipeError:  # the reader of our output has gone: not our error, and nothing to say
        _give_up_stdout()
        return 1
    except (OSError, ImportError) as error:
        if (message := _load_error_in_words(error)) is not None:
            return _print_error_and_exit(message, 1, debug)
        if isinstance(error, ImportError):  # a bug, shown whole
            raise
        # With a number and no name it comes from writing our output.
        code = _print_error_and_exit(
            f"{error.filename or 'the output cannot be written'}: {error.strerror or error}", 1, debug
        )
        _give_up_stdout()
        return code
    except Terminated as terminated:
        return _print_error_and_exit(str(terminated) or "terminated", 143, debug)
    except Interrupted as interrupted:
        return _print_error_and_exit(str(interrupted), 130, debug)
    except (KeyboardInterrupt, typer.Abort):
        return _print_error_and_exit("interrupted", 130, debug)
    except MemoryError as error:
        return _print_error_and_exit(f"not enough memory: {error}; use a smaller --batch-size or --num-beams", 1, debug)
    except Exception as error:
        if not hasattr(error, "format_message"):  # not the command-line library's own complaint: a bug, shown whole
            raise
        command = error.ctx.command_path if getattr(error, "ctx", None) else "minidecode"
        message = _number_error(error.format_message().rstrip("."), sys.argv[1:])
        if "No such option" in message:
            message = _unknown_option_error(message, error)
        return _print_error_and_exit(f"{message} (see {command} --help)", 2, debug)


def _run_to_its_end() -> int:
    """The exit code of the command. A signal is raised as such, whatever a library has made of it."""
    try:
        code = typer.main.get_command(app)(prog_name="minidecode", standalone_mode=False)
    except (KeyboardInterrupt, Terminated, Interrupted):
        raise
    except BaseException:
        raise_if_asked()
        raise
    if code == 130:  # what the command-line library makes of an interrupt, without a word
        raise KeyboardInterrupt
    sys.stdout.flush()  # here, where a full disk or a closed pipe can still be told
    return code or 0


NO_WHOLE_NUMBER = re.compile(r"not a valid int|valid integer")  # words of several versions of the library
NO_NUMBER = re.compile(r"not a valid float|valid number")
TOO_SMALL = re.compile(r"(?:in the range x>=|greater than or equal to )(\S+)")
TOO_LARGE = re.compile(r"(?:in the range x<=|less than or equal to )(\S+)")
OUTSIDE = re.compile(r"in the range (\S+)<=x<=(\S+)")


def _number_error(message: str, given: list[str]) -> str:
    """A complaint of the command-line library about a number, in plain words; any other as it is.

    given: the command line. The library does not always repeat the value.
    """
    match = re.match(r"Invalid value for (.+?): ", message)
    flags = re.findall(r"'(-[^']+)'", match[1]) if match else []
    values = [
        value.removeprefix("=")
        for word, behind in zip(given, [*given[1:], ""], strict=True)
        for flag in flags
        for value in ([behind] if word == flag else [word.removeprefix(flag)] if word.startswith(f"{flag}=") else [])
    ]
    if not values:
        return message
    named = f"{' / '.join(flags)} "
    if NO_WHOLE_NUMBER.search(message):
        return f"{named}takes an integer, such as 4, not {values[-1]!r}"
    if NO_NUMBER.search(message):
        return f"{named}takes a number, such as 0.5, not {values[-1]!r}"
    if outside := OUTSIDE.search(message):
        bound = f"least {outside[1]}" if float(values[-1]) < float(outside[1]) else f"most {outside[2]}"
        return f"{named}must be at {bound}, not {values[-1]}"
    if least := TOO_SMALL.search(message):
        return f"{named}must be at least {least[1]}, not {values[-1]}"
    if most := TOO_LARGE.search(message):
        return f"{named}must be at most {most[1]}, not {values[-1]}"
    return message


def _load_error_in_words(error: OSError | ImportError) -> str | None:
    """What cannot be loaded, and what to do: a package or a shared library. None if the error is another one.

    The system's loader gives an OSError no number; each package that passes the error on may name its own file instead.
    """
    if isinstance(error, ImportError) and (error.name or "").startswith("minidecode"):
        return None
    if isinstance(error, ModuleNotFoundError):
        return f"the package {error.name} is missing: {pip_install(error.name)}"
    if isinstance(error, OSError) and error.errno is not None:
        return None
    first, library = error, ""
    while first is not None:
        if match := SHARED_LIBRARY.search(str(first)):
            library, why = match[0], str(first)
        first = first.__cause__ or first.__context__
    if library:
        return f"the shared library {library} cannot be loaded ({why}): reinstall the package that it belongs to"
    if isinstance(error, ImportError) and error.name:
        from importlib import metadata

        package = error.name.partition(".")[0]
        (known,) = metadata.packages_distributions().get(package, [package])[:1]  # pip's name for it
        return f"the package {package} cannot be imported ({error}): pip install --force-reinstall {known}"
    return None if isinstance(error, ImportError) else str(error)


def _unknown_option_error(message: str, error: Any) -> str:
    """The complaint about an option that there is not, with what to type in its place where that is known."""
    known = {name for p in error.ctx.command.params for name in (*p.opts, *p.secondary_opts)} if error.ctx else set()
    if instead := answer_for_option(getattr(error, "option_name", ""), known):
        return f"there is no option {error.option_name} here: {instead}"
    if "(Possible options" in message or "Did you mean" in message:
        return message
    return message + _dash_hint(message, error.ctx)


def _dash_hint(message: str, context: Any) -> str:
    """What may have been meant by a word with a dash that is no option here: a text, an exercise, another command."""
    if "--random-weights" in message:
        return ": they are for timing, in minidecode ladder --random-weights"
    arguments = {p.name for p in context.command.params if p.param_type_name == "argument"} if context else set()
    for name, what in (("prompts", "prompt"), ("prompt", "prompt"), ("texts", "text")):
        if name in arguments:
            return f"; put -- before a {what} that begins with -"
    if "exercise" in arguments and re.search(r" -\d", message):
        return "; an exercise is one of the numbers or names of minidecode exercise list"
    return ""


def _print_error_and_exit(message: str, code: int, debug: bool) -> int:
    if debug:
        import traceback

        traceback.print_exc()
    print(f"minidecode: {' '.join(message.split())}", file=sys.stderr)
    return code


def _give_up_stdout() -> None:
    """Lets Python's last flush go nowhere: it would fail as the writing did, and say so in its own words."""
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()
