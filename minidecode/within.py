"""A context variable's value for the length of a block."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

Value = TypeVar("Value")


@contextmanager
def set_within(variable: ContextVar[Any], value: Value) -> Iterator[Value]:
    """Within it the variable has this value, in this thread; afterwards the one that it had before."""
    token = variable.set(value)
    try:
        yield value
    finally:
        variable.reset(token)
