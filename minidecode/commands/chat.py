"""`minidecode chat`: a conversation, a line for each message."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import InputError, MinidecodeError, OptionError
from ..lines.records import decode_line
from .flags import Debug, Device, Dtype, ModelName, PlanText, Quiet, Revision, warn_of_files
from .generate import Printer
from .progress_bar import announce_compiling, progress_bar
from .search_flags import set_limit, with_search_options

if TYPE_CHECKING:
    import numpy as np

NEW_TOKENS = 256  # of an answer, where nothing says otherwise


@with_search_options
def chat(
    model: ModelName = "smollm2",
    system: Annotated[str | None, typer.Option(help="The system message, such as how to answer.")] = None,
    revision: Revision = None,
    plan: PlanText = "auto",
    dtype: Dtype = "float32",
    device: Device = "cpu",
    quiet: Quiet = False, debug: Debug = False,
    *, options: dict[str, Any], defaults: dict[str, Any],
):  # fmt: skip
    """Talk with a model: type a line, read its answer, and so on.

    The end of the input (Ctrl-D) ends it. The model sees the whole conversation; when that goes beyond its context,
    the oldest messages are left out, and a line says so. The chat template of the model's files runs in a sandbox.
    """
    import numpy as np

    from .. import load

    if options.pop("truncate"):
        raise OptionError("truncate has no effect in a chat, which leaves out its oldest messages: leave it out")
    set_limit(options, NEW_TOKENS)
    if not quiet:
        warn_of_files(plan)
    with np.errstate(all="ignore"):
        with progress_bar(f"loading {model}", quiet):
            loaded = load(model, plan=plan, dtype=dtype, device=device, revision=revision, **defaults)
        if loaded.options(**options).num_return_sequences != 1:
            raise OptionError("num_return_sequences must be 1 in a chat: leave it out")
        first = [{"role": "system", "content": system}] if system is not None else []
        loaded.inputs.encode_chat([*first, {"role": "user", "content": "a"}])  # a model that cannot chat says so now
        with announce_compiling(loaded.plan, quiet):
            _answer_each_line(Conversation(loaded, first, options))


class Conversation:
    """The messages so far, and the model that answers them."""

    def __init__(self, model: Any, first: list[dict[str, str]], options: dict[str, Any]):
        """first: what is never left out."""
        self.model, self.first, self.options = model, first, options
        self.resolved = model.options(**options)
        self.messages: list[dict[str, str]] = []

    def ids_that_fit(self) -> tuple[np.ndarray, int]:
        """(the token ids, how many of the oldest messages were left out), so that an answer fits.

        Raises InputError if the last message alone is too long, or if the template refuses the conversation.
        """
        left_out = 0
        while True:
            ids = self.model.inputs.encode_chat([*self.first, *self.messages], whole=True)
            try:
                self.model.check_chat(ids, self.resolved)
                return ids, left_out
            except InputError:
                if len(self.messages) == 1:
                    raise
            del self.messages[:2]  # what the user said and the answer to it
            left_out += 2

    def answer(self, text: str, out: Any) -> None:
        """Prints what the model answers, as it grows. After an error the message is no part of the conversation."""
        self.messages.append({"role": "user", "content": text})
        try:
            self._generate_answer(out)
        except MinidecodeError:
            self.messages.pop()  # two messages of the user in a row are what many templates refuse
            raise

    def _generate_answer(self, out: Any) -> None:
        ids, left_out = self.ids_that_fit()
        if left_out:
            print(
                f"minidecode: the context of {self.model.config.context:,} tokens is full: "
                f"the {left_out} oldest messages are left out",
                file=sys.stderr,
            )
        printer = Printer(self.model.tokenizer, self.resolved, ids, "", out) if self.resolved.num_beams == 1 else None
        result = self.model.generate(input_ids=[ids], streamer=printer, **self.options)
        if printer:
            printer.finish()
        else:
            print(result.texts[0], file=out, flush=True)
        self.messages.append({"role": "assistant", "content": result.texts[0]})


def _answer_each_line(conversation: Conversation) -> None:
    """Line after line until the input ends. On a terminal a message that cannot be used does not end it."""
    is_terminal = sys.stdin.isatty()
    while True:
        if is_terminal:
            print("> ", end="", file=sys.stderr, flush=True)
        line = sys.stdin.buffer.readline()
        if not line:
            break
        text = decode_line(line, "the input").strip()
        try:
            if text:
                conversation.answer(text, sys.stdout)
        except MinidecodeError as error:
            if not is_terminal:
                raise
            print(f"minidecode: {error}", file=sys.stderr)
    if is_terminal:
        print(file=sys.stderr)
