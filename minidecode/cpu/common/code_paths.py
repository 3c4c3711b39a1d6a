"""Which code the calls of an op ran, where an op chooses: its own compiled loops, the BLAS, or NumPy.

An op calls `count_call` where it calls that code, and nowhere else; so the receipt counts what ran, and not what was
meant to.
"""

from __future__ import annotations

from contextvars import ContextVar

from ...device.capture import refuse_capture

CODE_PATHS = COMPILED, BLAS, BLAS_CAST, NUMPY = "compiled", "BLAS", "BLAS on cast weights", "NumPy"
SUMS_MOVE = "NumPy moves the sums of a product to where they belong"  # why a step is not captured
COUNTS: ContextVar[dict[str, int] | None] = ContextVar("code_paths", default=None)  # of the op that runs in a thread


def count_call(path: str) -> None:
    """Counts a call of that code for the op that is running in this thread."""
    if path in (BLAS, BLAS_CAST, NUMPY):
        refuse_capture(f"a part of it is computed by {path}")
    counts = COUNTS.get()
    if counts is not None:
        counts[path] = counts.get(path, 0) + 1
