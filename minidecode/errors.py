"""The errors that a user can mend. The command line prints them as one line; nothing else is caught there."""

from __future__ import annotations


class MinidecodeError(Exception):
    """Something a user can mend: the message names the cause and the remedy on one line."""


class CheckpointError(MinidecodeError, ValueError):
    """A model folder or one of its files cannot be used."""


class OptionError(MinidecodeError, ValueError):
    """A generation option, plan or argument breaks a rule; the message says which."""


class InputError(MinidecodeError, ValueError):
    """The text or the token ids to start from cannot be used."""


class NumericalError(MinidecodeError, ArithmeticError):
    """The model's scores turned NaN."""


class EmulationError(MinidecodeError, RuntimeError):
    """The emulator found a mistake in a kernel (with `strict=True`), or would take too long."""
