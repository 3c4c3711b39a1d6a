"""What the scripts of this folder take as arguments: what cannot be is told in one line, before any work is done."""

from __future__ import annotations

import argparse
import os
from pathlib import Path


def positive(text: str) -> int:
    """An integer from 1 up: sizes, and how often something is done."""
    return _above_zero(text, int, "an integer from 1 up")


def positive_number(text: str) -> float:
    """A number above 0."""
    return _above_zero(text, float, "a number above 0")


def _above_zero(text: str, kind: type, what: str):
    try:
        number = kind(text)
    except ValueError:
        number = 0
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not {what}")
    return number


def file_to_write(text: str) -> Path:
    """A file that can be written: hours of work should not end in a folder that is not there."""
    path = Path(text)
    if not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"there is no folder {path.parent}: make it first")
    if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        raise argparse.ArgumentTypeError(f"{path} cannot be written")
    return path


def file_to_read(text: str) -> Path:
    """A file that is there."""
    path = Path(text)
    if not path.is_file():
        raise argparse.ArgumentTypeError(f"there is no file {path}")
    return path


def check_heads(parser: argparse.ArgumentParser, given: argparse.Namespace) -> None:
    """Ends the script where a width cannot be dealt out to so many heads."""
    if given.width % given.heads:
        parser.error(f"--width {given.width} is no multiple of --heads {given.heads}")
