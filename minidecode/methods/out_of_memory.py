"""When the memory of a device ends in the middle of a call: kept steps go, and the call is tried once more."""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from ..device.launch import on_current_stream
from ..device.out_of_memory import bytes_asked_for, give_back_unused_memory, is_out_of_memory
from ..errors import MemoryBudgetError
from ..runtime.footprint import format_bytes, free_on_device
from .loaded import LoadedModel

NARROWER = {"float32": "float16", "float16": "int8"} | dict.fromkeys(("int8", "int8_dynamic", "int8_blocks"), "int4")
Result = TypeVar("Result")
Function = TypeVar("Function", bound=Callable[..., Any])


def free_kept_steps(model: LoadedModel) -> bool:
    """Frees the steps, encoders and prefills that are kept for later calls. Whether there were any."""
    steps, passes = model.buckets.clear(), model.passes.clear()
    return steps or passes


def retry_after_freeing(
    run: Callable[[], Result], models: Sequence[LoadedModel], *, what: Callable[[], str], may_repeat: bool = True
) -> Result:
    """run(); and where the device's memory ends, run() again, if steps were kept for later calls: these go first.

    models: whose kept steps go. what: says what needs the memory. may_repeat: whether the caller has got nothing yet.
    Raises MemoryBudgetError where the memory does not suffice. The models stay as they were: what the call has made is
    freed, as soon as no traceback holds it, and the error has none of it.
    """
    model, tries, kept = models[0], 0, any(m.buckets.idle for m in models)
    while True:
        try:
            with on_current_stream(model.device):
                return run()
        except Exception as error:
            if model.device == "cpu" or not is_out_of_memory(error):
                raise
            asked = bytes_asked_for(error)
        tries += 1
        for one in models:
            kept = free_kept_steps(one) or kept
        gc.collect()  # ops and engines refer to each other
        give_back_unused_memory(model.device)
        if tries == 2 or not (kept and may_repeat):
            break
    free, narrower = free_on_device(model.device), NARROWER.get(model.dtype)
    raise MemoryBudgetError(
        f"the memory of device={model.device} is too small for {what()}: "
        + ("it took all of it" if free is None else f"it needs more than the {format_bytes(free)} that are free")
        + (f", and an array of {format_bytes(asked)} did not fit" if asked is not None else "")
        + (". Kept steps are given up now: call again, or" if kept and not may_repeat else ":")
        + " ask for fewer or shorter texts or fewer beams (--batch-size, --num-beams), set a memory budget"
        " (--memory-budget, memory_budget=)" + (f", or load the model with dtype={narrower}" if narrower else "")
    )


def retries_after_freeing(function: Function) -> Function:
    """A function of a model, by `retry_after_freeing`."""

    @functools.wraps(function)
    def call(model: LoadedModel, *args: Any, **kwargs: Any) -> Any:
        run = functools.partial(function, model, *args, **kwargs)
        return retry_after_freeing(run, [model], what=lambda: f"`{function.__name__}` of these texts")

    return call  # type: ignore[return-value]
