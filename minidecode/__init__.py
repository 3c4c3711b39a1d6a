"""minidecode: fast transformer decoding that can be read, checked and timed.

The first steps:

    import minidecode as md
    model = md.load("tiny-gpt2")
    out = model.generate(["Fellow citizens,"], num_beams=4, max_new_tokens=40, no_repeat_ngram_size=3)
    print(out.texts[0], out.receipt)

Importing it needs NumPy alone, and loads only the errors: each other name is loaded when it is first asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .commands import startup  # noqa: F401 (first: it is about the imports that follow)
from .errors import (
    CheckpointError,
    CompiledCodeError,
    EmulationError,
    InputError,
    LineError,
    MemoryBudgetError,
    MinidecodeError,
    MinidecodeWarning,
    NumericalError,
    OptionError,
    PipelineError,
    QueueFullError,
    RefusedError,
    WorkerError,
)

if TYPE_CHECKING:
    from . import conformance
    from .bench.compare import compare
    from .bench.ladder import ladder
    from .course.explore.exploration import explore
    from .device.arrays import device_kind
    from .device.launch import launch
    from .emulator import emulate
    from .files.folder import bundled_models
    from .files.head_pooling import convert
    from .lines.pipeline import generate_lines
    from .lines.shards import ShardGenerator, cut_shards, join_shards
    from .live.accelerate import accelerate, restore
    from .loading import load
    from .methods.scoring import Scores
    from .model import Model
    from .options.typed_dict import GenerateOptions
    from .plan import Plan
    from .runtime.arena import Arena
    from .runtime.output import Output
    from .serving.scheduler import Scheduler

__version__ = "0.1.0"
__all__ = [
    "Arena",
    "CheckpointError",
    "CompiledCodeError",
    "EmulationError",
    "GenerateOptions",
    "InputError",
    "LineError",
    "MemoryBudgetError",
    "MinidecodeError",
    "MinidecodeWarning",
    "Model",
    "NumericalError",
    "OptionError",
    "Output",
    "PipelineError",
    "Plan",
    "QueueFullError",
    "RefusedError",
    "Scheduler",
    "Scores",
    "ShardGenerator",
    "WorkerError",
    "accelerate",
    "bundled_models",
    "compare",
    "conformance",
    "convert",
    "cut_shards",
    "device_kind",
    "emulate",
    "explore",
    "generate_lines",
    "join_shards",
    "ladder",
    "launch",
    "load",
    "restore",
]
LOADED_LATE = {  # as above: what runs, and what type checkers read
    "Arena": "runtime.arena",
    "GenerateOptions": "options.typed_dict",
    "Model": "model",
    "Output": "runtime.output",
    "Plan": "plan",
    "Scheduler": "serving.scheduler",
    "Scores": "methods.scoring",
    "ShardGenerator": "lines.shards",
    "accelerate": "live.accelerate",
    "bundled_models": "files.folder",
    "compare": "bench.compare",
    "convert": "files.head_pooling",
    "cut_shards": "lines.shards",
    "device_kind": "device.arrays",
    "emulate": "emulator",
    "explore": "course.explore.exploration",
    "generate_lines": "lines.pipeline",
    "join_shards": "lines.shards",
    "ladder": "bench.ladder",
    "launch": "device.launch",
    "load": "loading",
    "restore": "live.accelerate",
}


def __getattr__(name: str) -> Any:
    """A name is loaded when it is first asked for, and stays."""
    if name == "conformance":
        return import_module(".conformance", __name__)
    if name not in LOADED_LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value = getattr(import_module(f".{LOADED_LATE[name]}", __name__), name)
    return value


def __dir__() -> list[str]:
    """The public names, whether loaded yet or not, and Python's own (`__version__`): no imports, no helpers."""
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
