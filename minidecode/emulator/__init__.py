"""Runs a CUDA kernel on the CPU, thread by thread: right answers, races, memory traffic, pictures. No op is here."""

from .binding import register_body
from .emulate import emulate
from .findings import Finding
from .run import Run

__all__ = ["Finding", "Run", "emulate", "register_body"]
