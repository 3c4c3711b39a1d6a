"""`minidecode sanitize`: a Numba-CUDA script, run without a GPU, and what is wrong with its kernels."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from ..errors import OptionError, quoted
from .child_process import environment_of_child
from .flags import AsJson, Debug


def sanitize(
    script: Annotated[Path, typer.Argument(help="A Python script that launches kernels of numba.cuda.")],
    arguments: Annotated[list[str] | None, typer.Argument(help="What the script itself is given.",
                                                         show_default=False)] = None,
    traced: Annotated[int, typer.Option(min=0, help="Look for data races in the first launches of each kernel.")] = 5,
    blocks: Annotated[str | None, typer.Option(metavar="N|all", help="Blocks to run of each launch; by default all, if"
                                               " they take under a minute.", show_default=False)] = None,
    as_json: AsJson = False, debug: Debug = False,
):  # fmt: skip
    """Run a Numba-CUDA script without a GPU; report its mistakes.

    Options of this command stand before the script.

    Each error is printed when it is found: data races, accesses outside of arrays, barriers that some threads skip,
    reads of memory that nothing was written to. The exit code is the script's own, or 1 if there were errors.
    """
    if not script.is_file():
        raise OptionError(f"there is no script {quoted(script)}")
    if blocks is not None and blocks != "all" and not (blocks.isdecimal() and int(blocks) > 0):
        raise OptionError(f"--blocks is a number above 0, or all, and not {blocks!r}")
    wanted = int(blocks) if blocks and blocks != "all" else blocks
    asked = json.dumps({"traced": traced, "blocks": wanted, "as_json": as_json})
    command = [sys.executable, "-m", "minidecode.emulator.sanitize", asked, str(script), *(arguments or [])]
    done = subprocess.run(command, env=environment_of_child(NUMBA_ENABLE_CUDASIM="1"), check=False)
    if done.returncode:
        raise typer.Exit(done.returncode if done.returncode > 0 else 128 - done.returncode)
