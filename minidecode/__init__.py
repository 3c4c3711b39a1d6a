"""minidecode: fast transformer decoding that can be read, checked and timed.

The first steps:

    import minidecode as md
    model = md.load("tiny-gpt2")
    out = model.generate(["Fellow citizens,"], num_beams=4, max_new_tokens=40, no_repeat_ngram_size=3)
    print(out.texts[0], out.receipt)

Importing it needs NumPy alone.
"""

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
    RefusedError,
    WorkerError,
)
from .files.folder import bundled_models
from .loading import load
from .model import Model
from .plan import Plan
from .runtime.arena import Arena
from .runtime.device import device_kind
from .runtime.output import Output
from .runtime.pipeline import generate_lines
from .runtime.scoring import Scores
from .search.option_types import GenerateOptions

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
    "RefusedError",
    "Scores",
    "WorkerError",
    "bundled_models",
    "compare",
    "conformance",
    "convert",
    "device_kind",
    "emulate",
    "explore",
    "generate_lines",
    "ladder",
    "load",
]


def __getattr__(name: str):
    """What needs more than NumPy is loaded when it is first asked for."""
    import importlib

    if name == "conformance":
        return importlib.import_module(".conformance", __name__)
    if name in LOADED_LATE:
        return getattr(importlib.import_module(LOADED_LATE[name], __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


LOADED_LATE = {
    "emulate": ".emulator",
    "explore": ".course.explore.exploration",
    "compare": ".bench.compare",
    "ladder": ".bench.ladder",
    "convert": ".files.head_pooling",
}
