"""An interrupt while the command line is still being imported: it ends with exit code 130, and prints nothing.

`minidecode/__init__.py` imports this first. From `commands/interrupts.py` on, an interrupt is an exception like others.
"""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType


def end_on_interrupt() -> None:
    """Lets an interrupt end the process at once, if it is the command line's and takes interrupts at all.

    An exception would do that too late, or with a traceback: some imports catch what is raised within them.
    """
    if _is_command_line() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _exit_at_signal)


def _is_command_line() -> bool:
    """Whether this process was started as `minidecode` or as `python -m minidecode`, and does not only import it."""
    if sys.argv[:1] == ["-m"]:  # what Python puts there while it looks for the module
        return "minidecode" in sys.orig_argv
    return bool(sys.argv) and os.path.basename(sys.argv[0]).removesuffix(".exe") == "minidecode"


def _exit_at_signal(number: int, frame: FrameType | None) -> None:
    os._exit(128 + number)


end_on_interrupt()
