"""The process in which a student's engine runs: `python -m minidecode.course.project.run TASK ENGINE FOLDER STAGES`.

TASK is check or race. Prints a line of JSON for each result, on a pipe of its own; what the engine prints goes to
stderr. One process for all stages, so that the model is loaded once; the command that started it ends it if it takes
too long.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import time
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

from .race import race
from .stages import STAGES, Kit, Miss, Stage


def load_engine(path: Path) -> ModuleType:
    """The student's file as a module. Raises Miss if it cannot be run."""
    spec = importlib.util.spec_from_file_location("engine", path)
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        raise Miss(f"line {error.lineno}: {error.msg}") from None
    except Exception as error:
        raise Miss(line_of(error, path)) from None
    return module


def verdict(stage: Stage, kit: Kit, path: Path) -> dict[str, Any]:
    """What is said of one stage: passed, not begun, or what is wrong."""
    missing = [name for name in stage.functions if not hasattr(kit.engine, name)]
    if missing:
        return stage_result(stage, "missing", f"there is no {' and no '.join(missing)} in {path.name}")
    began, kit.numbers = time.perf_counter(), {}
    try:
        stage.check(kit)
    except Miss as miss:
        return stage_result(stage, "wrong", str(miss))
    except NotImplementedError as error:
        return stage_result(stage, "not begun", line_of(error, path))
    except Exception as error:
        return stage_result(stage, "wrong", line_of(error, path))
    return stage_result(stage, "passed", "", kit.numbers, time.perf_counter() - began)


def stage_result(
    stage: Stage, state: str, message: str, numbers: dict[str, Any] | None = None, seconds: float = 0.0
) -> dict:
    judged = {"state": state, "message": message, "numbers": numbers or {}, "seconds": round(seconds, 2)}
    return {"stage": stage.number, "title": stage.title, "chapter": stage.chapter, **judged}


def line_of(error: BaseException, path: Path) -> str:
    """`line 12, in step: ValueError: ...`: the last line of the student's own file."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if Path(f.filename).resolve() == path.resolve()]
    where = f"line {frames[-1].lineno}, in {frames[-1].name}: " if frames else ""
    what = str(error) or type(error).__name__
    notes = "".join(f" ({note})" for note in getattr(error, "__notes__", ()))
    return f"{where}{what if isinstance(error, NotImplementedError) else f'{type(error).__name__}: {error}{notes}'}"


def main() -> None:
    task, path, folder = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
    stages = [STAGES[int(number)] for number in sys.argv[4].split(",")]
    results = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def tell(result: dict[str, Any]) -> None:
        results.write(json.dumps(result) + "\n")
        results.flush()

    try:
        kit = Kit(load_engine(path), folder)
    except Miss as miss:
        for stage in stages:
            tell(stage_result(stage, "wrong", f"{path.name} cannot be run: {miss}"))
        return
    if task == "race":
        race(kit, stages, tell)
        return
    for stage in stages:
        tell(verdict(stage, kit, path))


if __name__ == "__main__":
    main()
