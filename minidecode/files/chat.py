"""A conversation -> the text that a model continues, by the Jinja template of its files.

A template is a program that somebody else wrote. So Jinja's immutable sandbox runs it, in a process of its own
(chat_process.py), which may take a second of processor time and 256 MB. Nothing of it runs unless a caller asks.
"""

from __future__ import annotations

import importlib.util
import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypedDict

from ..errors import InputError, pip_install
from .special_tokens import SpecialTokens, token_settings
from .stored import MOST_OF_TEXT, check_regular
from .tokenizer_classes import default_tokens, find_tokenizer_class

PROCESS = Path(__file__).with_name("chat_process.py")
SECONDS, BYTES, CHARACTERS = 1, 2**28, 2**24
SECONDS_AT_MOST = 30  # with the start of the process, on a busy machine
OUT_OF_TIME, OUT_OF_MEMORY = 3, 4  # exit codes of the process


class Message(TypedDict):
    """One message of a conversation."""

    role: str  # such as "system", "user" or "assistant"
    content: str


class ChatTemplate:
    """A template, and the special tokens that it may name."""

    def __init__(self, text: str, tokens: dict[str, str]):
        self.text, self.tokens = text, tokens

    @classmethod
    def from_folder(cls, folder: Path) -> ChatTemplate | None:
        """The template of chat_template.jinja, or of tokenizer_config.json; None if the folder has neither."""
        settings = token_settings(folder)
        text: Any = settings.get("chat_template")
        if isinstance(text, list):  # several, by name
            named = {t.get("name"): t.get("template") for t in text if isinstance(t, dict)}
            text = named.get("default")
        if (path := folder / "chat_template.jinja").exists():
            check_regular(path, MOST_OF_TEXT)
            text = path.read_text(encoding="utf-8", errors="replace")
        if not isinstance(text, str):
            return None
        older, defaults = (
            token_settings(folder, "special_tokens_map.json"),
            default_tokens(find_tokenizer_class(folder, settings)),
        )
        return cls(text, SpecialTokens.from_settings(settings, older, defaults).texts_by_role)

    def render(self, messages: Sequence[Message]) -> str:
        """The text of a conversation, up to where the answer begins.

        Raises InputError on messages that are none, on a template that fails, does not end or takes too much memory,
        and without the package jinja2.
        """
        if importlib.util.find_spec("jinja2") is None:
            raise InputError(f"a chat template needs the package jinja2: {pip_install('jinja2', 'chat')}")
        job = {"template": self.text, "messages": check_messages(messages), "tokens": self.tokens,
               "seconds": SECONDS, "bytes": BYTES, "codes": [OUT_OF_TIME, OUT_OF_MEMORY]}  # fmt: skip
        command = [sys.executable, "-P", str(PROCESS)]
        try:
            done = subprocess.run(
                command, input=json.dumps(job).encode(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                timeout=SECONDS_AT_MOST, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise _template_timeout_error() from None
        except OSError as error:
            raise InputError(f"the process for the chat template cannot be started ({error})") from None
        if done.returncode == OUT_OF_MEMORY:
            raise InputError(f"the chat template takes more than {BYTES // 2**20} MB: use another model's")
        if done.returncode in (OUT_OF_TIME, -getattr(signal, "SIGPROF", 0)):
            raise _template_timeout_error()
        try:
            answer = json.loads(done.stdout)
        except ValueError:
            raise InputError(
                f"the chat template ended its process (code {done.returncode}): use another model's"
            ) from None
        if "error" in answer:
            raise InputError(f"the chat template refuses this conversation: {answer['error']}")
        if len(answer["text"]) > CHARACTERS:
            raise InputError(
                f"the chat template makes {len(answer['text']):,} characters of this conversation, and {CHARACTERS:,} "
                "are allowed: shorten it, or use another model's"
            )
        return answer["text"]


def check_messages(messages: Any) -> list[Message]:
    """Returns the messages, if they are some. Raises InputError on anything else."""
    if isinstance(messages, str):
        raise InputError('a conversation is a list of messages: give [{"role": "user", "content": TEXT}]')
    listed = list(messages)
    for number, m in enumerate(listed, 1):
        if not isinstance(m, dict) or not all(isinstance(m.get(key), str) for key in ("role", "content")):
            raise InputError(f'message {number} is {m!r:.80}: give {{"role": "user", "content": TEXT}}')
    if not listed:
        raise InputError("the conversation is empty: give at least one message")
    # As in transformers: templates ask whether a message has a name, and null would be one.
    return [{key: value for key, value in m.items() if value is not None} for m in listed]


def _template_timeout_error() -> InputError:
    return InputError(f"the chat template takes more than {SECONDS} s: use another model's")
