"""The verdict on an engine, stage by stage. The engine runs in processes of its own (engine.py), the judge is here."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from ...device.blas_threads import few_blas_threads
from ...errors import InputError, quoted
from ..exercises import sandbox
from ..exercises.kernel_source import Refused
from .engine import Engine, EngineError
from .stages import STAGES, Kit, Miss, Stage


def results_of(
    engine: Path, checkpoint: Path, stages: list[int], seed: int | None = None, known: dict | None = None
) -> Iterator[dict[str, Any]]:
    """One result for each stage. seed: of what is drawn; known: our logits, shared by engines that have one seed."""
    if not (checkpoint / "config.json").is_file():
        raise InputError(f"there is no checkpoint in {quoted(checkpoint)}: minidecode project start writes one")
    seed = secrets.randbits(32) if seed is None else seed
    with few_blas_threads(True), sandbox.keep_one_judge(), closing(Engine(engine, checkpoint)) as judged:
        kit = Kit(judged, seed, _known={} if known is None else known)
        for number in stages:
            yield verdict_on_stage(STAGES[number], kit)


def verdict_on_stage(stage: Stage, kit: Kit) -> dict[str, Any]:
    """The result of one stage: passed, not begun, or the mistake."""
    name, began = kit.engine.path.name, time.perf_counter()
    try:
        names = kit.engine.function_names
    except EngineError as error:
        return stage_result(stage, "wrong", f"{name} cannot be run: {error}")
    if missing := [function for function in stage.functions if function not in names]:
        return stage_result(stage, "missing", f"there is no {' and no '.join(missing)} in {name}")
    try:
        kit.begin_stage(stage.number)
        stage.check(kit)
    except (Miss, Refused) as miss:
        return stage_result(stage, "wrong", getattr(miss, "message", str(miss)))
    except EngineError as error:
        return stage_result(stage, "not begun" if error.kind == "NotImplementedError" else "wrong", str(error))
    except Exception as error:  # whatever else it gives must not end a class
        return stage_result(stage, "wrong", f"what the engine gives is of another kind than is wanted: {error}")
    return stage_result(stage, "passed", "", kit.numbers, time.perf_counter() - began)


def stage_result(
    stage: Stage, state: str, message: str, numbers: dict[str, Any] | None = None, seconds: float = 0.0
) -> dict[str, Any]:
    judged = {"state": state, "message": message, "numbers": numbers or {}, "seconds": round(seconds, 2)}
    return {"stage": stage.number, "title": stage.title, "chapter": stage.chapter, **judged}
