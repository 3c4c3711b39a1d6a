"""Inputs and values as text: as code that can be pasted, or in words where they are long."""

from __future__ import annotations

from typing import Any

import numpy as np

from .wire import Callback

LONGEST_CODE = 2500  # characters of an input that are shown


def shown_value(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return f"{value:,.6g}" if isinstance(value, float) else str(value)


def inputs_in_words(inputs: dict[str, Any]) -> str:
    """The inputs by name: numbers as they are, arrays by their shapes."""

    def describe_input(name: str, value: Any) -> str:
        if isinstance(value, np.ndarray) and value.ndim:
            return f"{name} of shape {value.shape}"
        return name if isinstance(value, Callback) else f"{name}={value}"

    return ", ".join(describe_input(name, value) for name, value in inputs.items())


def inputs_as_code(inputs: dict[str, Any]) -> str:
    """Python code that makes the inputs; their sizes alone where they are large."""
    lines = ["import numpy as np"]
    for name, value in inputs.items():
        if isinstance(value, np.ndarray):
            lines.append(f"{name} = {_array_as_code(value)}")
        elif not isinstance(value, Callback):
            lines.append(f"{name} = {value!r}" if not isinstance(value, np.generic) else f"{name} = {value.item()!r}")
    code = "\n".join(lines)
    return code if len(code) <= LONGEST_CODE else describe_size(inputs)


def describe_size(inputs: dict[str, Any]) -> str:
    return f"one of this size: {inputs_in_words(inputs)}"


def _array_as_code(array: np.ndarray) -> str:
    """One number once, few runs of equal numbers by their lengths, all else number by number."""
    if array.size > 1 and np.array_equal(
        array, np.full_like(array, array.flat[0]), equal_nan=array.dtype.kind == "f"
    ):  # fmt: skip
        one = "np.nan" if np.isnan(float(array.flat[0])) else array.flat[0].item()
        return f"np.full({array.shape}, {one}, np.{array.dtype})"
    if array.ndim == 1 and array.dtype.kind in "iu":
        starts = np.flatnonzero(np.append(True, array[1:] != array[:-1]))
        if 10 * len(starts) < array.size:
            times = np.diff(np.append(starts, array.size)).tolist()
            return f"np.repeat(np.array({array[starts].tolist()}, np.{array.dtype}), {times})"
    text = np.array2string(array, separator=", ", threshold=10**6, max_line_width=110)
    return f"np.array({text.replace('inf', 'np.inf').replace('nan', 'np.nan')}, np.{array.dtype})"
