"""A generation whose text comes piece by piece: a thread generates, and hands over what is ready."""

from __future__ import annotations

import asyncio
import contextvars
import queue
import threading
import weakref
from collections.abc import Callable
from typing import Any

from ..errors import InputError
from ..files.tokenizer import TextStream
from ..runtime.engine import CALLED_OFF, CalledOff
from ..runtime.output import Output

END = object()  # comes last, whatever happened


class Stream:
    """The pieces of text of one generation, in the order in which they are ready; `output` when all are read.

    For one prompt a piece is a text; for several texts it is (index, text), index as in the output's texts. A piece
    never ends within a character, nor holds part of a stop string. The pieces of an index together are its text.
    Without beams they come token by token; a beam's texts come whole when the search ends. `close`, the end of a
    `with`, or dropping the stream ends the generation within a step. It runs ahead of the reader.
    """

    def __init__(
        self, generate: Callable[..., Output], text_stream: Callable[[int], TextStream] | None, is_single: bool
    ):
        """text_stream: makes that of a text, for a generation that tells its tokens; None where texts come whole."""
        self._pieces: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._is_single, self._is_closed, self._output = is_single, False, None
        called_off, context = threading.Event(), contextvars.copy_context()
        context.run(CALLED_OFF.set, called_off)
        # Not this object, which is to end the thread once it is dropped.
        arguments = _generate_into_queue, generate, text_stream, self._pieces
        self._thread = threading.Thread(target=context.run, args=arguments, name="stream", daemon=True)
        self._call_off = weakref.finalize(self, called_off.set)
        self._thread.start()

    @property
    def output(self) -> Output:
        """What `generate` returns. Raises InputError before the last piece was read, or after `close`."""
        if self._output is None:
            raise InputError("the stream has no output before its last piece was read: read on, or call generate")
        return self._output

    def __iter__(self) -> Stream:
        return self

    def __next__(self) -> str | tuple[int, str]:
        if self._is_closed:
            raise StopIteration
        piece = self._pieces.get()
        if isinstance(piece, tuple):
            return piece[1] if self._is_single else piece
        if piece is END:
            self._pieces.put(END)  # for another thread that reads
            raise StopIteration
        self.close()
        if isinstance(piece, BaseException):
            raise piece
        self._output = piece
        raise StopIteration

    def close(self) -> None:
        """Ends the generation, if it has not ended, and waits for that: a step at most."""
        self._is_closed = True
        self._call_off()
        self._thread.join()

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __aiter__(self) -> Stream:
        return self

    async def __anext__(self) -> str | tuple[int, str]:
        piece = await asyncio.to_thread(next, self, None)
        if piece is None:
            raise StopAsyncIteration
        return piece

    async def __aenter__(self) -> Stream:
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.close)


def _generate_into_queue(
    generate: Callable[..., Output], text_stream: Callable[[int], TextStream] | None, pieces: queue.SimpleQueue[Any]
) -> None:
    """The thread's work: (index, text) of each piece, then the output, or what was raised."""
    growing: dict[int, TextStream] = {}

    def put(index: int, text: str) -> None:
        if text:
            pieces.put((index, text))

    def push(index: int, token_id: int) -> None:
        if index not in growing:
            assert text_stream is not None  # else nothing calls this
            growing[index] = text_stream(index)
        put(index, growing[index].push(token_id))

    try:
        output = generate(streamer=push) if text_stream else generate()
        for index in range(len(output.token_ids)):
            put(index, growing[index].finish() if text_stream else output.texts[index])
        pieces.put(output)
    except CalledOff:
        pass  # the stream was closed; who still waits for a piece gets the end
    except BaseException as error:
        pieces.put(error)
    pieces.put(END)
