"""The process in which an engine races: `python -m minidecode.course.project.run ENGINE FOLDER STAGES`.

Prints a line of JSON for each result, on a pipe of its own; what the engine prints goes to stderr. Nothing is judged
here, so the engine runs as it is, with Numba. The command that started it ends it if it takes too long.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from .race import race_engines


def load_engine(path: Path) -> ModuleType:
    """The student's file as a module."""
    spec = importlib.util.spec_from_file_location("engine", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main() -> None:
    path, folder, stages = Path(sys.argv[1]), sys.argv[2], {int(number) for number in sys.argv[3].split(",")}
    results = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def tell(result: dict[str, Any]) -> None:
        results.write(json.dumps(result) + "\n")
        results.flush()

    race_engines(load_engine(path), folder, stages, tell)


if __name__ == "__main__":
    main()
