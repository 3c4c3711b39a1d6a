"""Connections that end where a request does not come: a client that sends a byte a minute would hold one for ever."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol


class TimedProtocol(H11Protocol):
    """uvicorn's HTTP protocol with a time limit: a request, headers and body, must arrive in this many seconds."""

    seconds: ClassVar[float]
    late: asyncio.TimerHandle | None = None  # closes the connection, while a request is not there

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._wait_for_the_rest()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state in (h11.IDLE, h11.SEND_BODY):
            self._wait_for_the_rest()
        else:
            self._cancel()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel()
        super().connection_lost(exc)

    def _wait_for_the_rest(self) -> None:
        if self.late is None:
            self.late = self.loop.call_later(self.seconds, self.transport.close)

    def _cancel(self) -> None:
        if self.late is not None:
            self.late.cancel()
            self.late = None


def http_of(seconds: float | None) -> Any:
    """What uvicorn's Config takes as `http`. seconds: that a request may take to come; None: any number."""
    return H11Protocol if seconds is None else type("TimedProtocol", (TimedProtocol,), {"seconds": seconds})
