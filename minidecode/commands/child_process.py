"""Processes of ours that run a user's code: which package they import."""

from __future__ import annotations

import os
from pathlib import Path


def environment_of_child(**more: str) -> dict[str, str]:
    """This process's environment, in which `import minidecode` finds this package, wherever it was started from."""
    package = str(Path(__file__).parents[2])
    path = os.pathsep.join(p for p in (package, os.environ.get("PYTHONPATH")) if p)
    return {**os.environ, "PYTHONPATH": path, **more}
