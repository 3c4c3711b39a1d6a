"""Answers in OpenAI's words: whole ones, and the chunks of a stream."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..files.tokenizer import TextStream
from .jobs import Job

Noted = tuple[float, np.ndarray, np.ndarray]  # a token's log-probability, the likeliest ids, theirs


@dataclass
class Reply:
    """What all parts of one answer say about themselves."""

    model: str
    is_chat: bool
    tokenizer: Any
    shown_logprobs: int | None = None
    usage_chunk: bool = False
    number: str = field(default_factory=lambda: secrets.token_hex(12))
    created: int = field(default_factory=lambda: int(time.time()))

    def common_fields(self, of_chunk: bool = False) -> dict[str, Any]:
        kind = ("chat.completion" + ".chunk" * of_chunk) if self.is_chat else "text_completion"
        name = "chatcmpl" if self.is_chat else "cmpl"
        return {"id": f"{name}-{self.number}", "object": kind, "created": self.created, "model": self.model}

    def make_response(self, choices: list[dict[str, Any]], usage: dict[str, int]) -> dict[str, Any]:
        return self.common_fields() | {"choices": choices, "usage": usage}

    def make_choice(
        self, index: int, text: str, reason: str | None, ids: Sequence[int], noted: Sequence[Noted | None] | None
    ) -> dict[str, Any]:
        """A whole text. noted: by token; None of a first one, which comes after nothing."""
        choice: dict[str, Any] = {"index": index, "finish_reason": reason}
        choice["logprobs"] = None if noted is None else self.logprobs(ids, noted)
        if self.is_chat:
            return choice | {"message": {"role": "assistant", "content": text, "refusal": None}}
        return choice | {"text": text}

    def make_chunk(self, index: int, text: str | None, reason: str | None = None, logprobs: Any = None, first=False):
        """A piece of a text; without one, its end."""
        choice: dict[str, Any] = {"index": index, "finish_reason": reason, "logprobs": logprobs}
        if self.is_chat:
            delta = {"role": "assistant", "content": ""} if first else {} if text is None else {"content": text}
            choice["delta"] = delta
        else:
            choice["text"] = text or ""
        return self.common_fields(True) | {"choices": [choice]} | ({"usage": None} if self.usage_chunk else {})

    def make_usage_chunk(self, usage: dict[str, int]) -> dict[str, Any]:
        return self.common_fields(True) | {"choices": [], "usage": usage}

    def logprobs(self, ids: Sequence[int], noted: Sequence[Noted | None], offset: int = 0) -> dict[str, Any]:
        """The log-probabilities of tokens, in the form of the interface. offset: characters before the first."""
        words = [text_of_token(self.tokenizer, int(i)) for i in ids]
        if self.is_chat:
            return {"content": [self._chat_logprobs(*both) for both in zip(ids, noted, strict=True)], "refusal": None}
        offsets = np.cumsum([offset, *map(len, words)])[:-1].tolist()
        tops = [
            None if n is None else {text_of_token(self.tokenizer, i): p for i, p in self._best_tokens(n)} for n in noted
        ]
        return {
            "tokens": words, "token_logprobs": [None if n is None else n[0] for n in noted],
            "top_logprobs": tops if self.shown_logprobs else None, "text_offset": offsets,
        }  # fmt: skip

    def _chat_logprobs(self, token: int, noted: Noted | None) -> dict[str, Any]:
        assert noted is not None
        best = [self._describe_token(i, p) for i, p in self._best_tokens(noted)]
        return self._describe_token(int(token), noted[0]) | {"top_logprobs": best}

    def _describe_token(self, token: int, logprob: float) -> dict[str, Any]:
        word = text_of_token(self.tokenizer, token)
        return {"token": word, "logprob": logprob, "bytes": list(bytes_of(word))}

    def _best_tokens(self, noted: Noted) -> Iterator[tuple[int, float]]:
        K = self.shown_logprobs or 0
        return zip(noted[1][:K].tolist(), map(float, noted[2][:K]), strict=True)


class Pieces:
    """The chunks of one text that grows. Log-probabilities wait for the piece of text that their token ends in."""

    def __init__(self, reply: Reply, index: int, stream: TextStream):
        self.reply, self.index, self.stream = reply, index, stream
        self.ids: list[int] = []
        self.noted: list[Noted] = []
        self.shown = 0

    def push(self, token: int, noted: Noted | None) -> Iterator[dict[str, Any]]:
        """What this token completes."""
        if noted is not None:
            self.ids.append(token)
            self.noted.append(noted)
        yield from self._take_chunk(self.stream.push(token))

    def end(self, reason: str | None) -> Iterator[dict[str, Any]]:
        """What was held back, and then the reason with nothing."""
        rest = self.stream.finish()
        if rest or self.noted:
            yield from self._take_chunk(rest, at_end=True)
        yield self.reply.make_chunk(self.index, None, reason)

    def _take_chunk(self, text: str, at_end: bool = False) -> Iterator[dict[str, Any]]:
        if text or at_end:
            logprobs = None
            if self.noted:
                logprobs = self.reply.logprobs(self.ids, self.noted, self.shown)
            self.shown += len(text)
            self.ids, self.noted = [], []
            yield self.reply.make_chunk(self.index, text, None, logprobs)


def count_usage(jobs: Sequence[Job], prompt_tokens: int) -> dict[str, Any]:
    """Tokens of prompts and of answers; of answers that did not end, those that have."""
    made = sum(len(ids) for job in jobs for ids, _ in job.texts.values())
    return {"prompt_tokens": prompt_tokens, "completion_tokens": made, "total_tokens": prompt_tokens + made,
            "prompt_tokens_details": {"cached_tokens": sum(job.reused_tokens for job in jobs)}}  # fmt: skip


def text_of_token(tokenizer: Any, token: int) -> str:
    """A token as text, special ones too; of one that is no whole character its bytes, as OpenAI writes them."""
    text = tokenizer.decode([token], keep_special=True)
    if "\ufffd" in text:
        piece = tokenizer.token_bytes(token)
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in piece) if piece else f"token:{token}"
    return text


def bytes_of(word: str) -> bytes:
    if word.startswith("bytes:\\x"):
        return bytes(int(two, 16) for two in word[len("bytes:\\x") :].split("\\x"))
    return word.encode()


def error_body(message: str, kind: str, param: str | None = None) -> dict[str, Any]:
    """An error as OpenAI's clients read it."""
    return {"error": {"message": message, "type": kind, "param": param, "code": None}}
