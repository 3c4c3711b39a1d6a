"""From how many rows the library's product is faster than the kernels for few rows, by how weights are stored.

Each product goes through more weights than a GPU's cache holds, in a captured graph, as in a decode step. Both ways run
by turns; the medians decide.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..cuda import linear
from ..device.arrays import copy_to_device
from ..device.graphs import capture_and_run
from ..device.low_precision import stored_weight
from ..device.matmul import cublas_functions
from ..ops import Weight
from .compare import time_by_turns

STORED = tuple(linear.LIBRARY_FROM)
WAYS = {"kernels": linear.multiply_by_kernels, "library": linear.multiply_by_library}


@dataclass(frozen=True)
class Sizes:
    """The products that are timed: rows of x, and a matrix as often as it takes to fill this many bytes."""

    rows: tuple[int, ...] = (1, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128)
    inputs: int = 1024
    outputs: int = 4096
    bytes: int = 128 << 20
    turns: int = 5


DECODING = Sizes()
TOYS = Sizes(rows=(1, 2), inputs=64, outputs=4, bytes=1, turns=1)  # for the emulator


@dataclass
class Crossing:
    """The number of rows from which the library is faster, for one way to store weights."""

    stored: str
    rows: int  # the smallest from which it is faster at all sizes measured; one more than these, if it is at none
    microseconds: dict[int, dict[str, float]]  # rows -> way -> a product
    captured: bool  # both ways in a graph; else by the host, launches included


def measure_crossing(stored: str, device: str, sizes: Sizes = DECODING) -> Crossing:
    """Measures one way to store weights, on a device: "cuda", or "emulator", whose times say nothing."""
    rng, wait = np.random.default_rng(0), _make_waiter(device)
    w_OI = rng.standard_normal((sizes.outputs, sizes.inputs), np.float32)
    weight = stored_weight(stored, Weight(w_OI, layout="oi"))
    copies = -(-sizes.bytes // weight.data.nbytes)
    weights = [copy_to_device(device, weight) for _ in range(copies)]
    captured = device != "cuda" or cublas_functions().name != "cupy"  # whose products no capture takes
    microseconds = {}
    for rows in sizes.rows:
        x_RX = copy_to_device(device, rng.standard_normal((rows, sizes.inputs), np.float32))
        calls, runs = {}, []
        for way, product in WAYS.items():
            run = _make_multiplier_by_all(product, x_RX, weights)
            run()  # compiles
            runs.append(run)  # with the array that a graph writes to
            calls[way] = (capture_and_run(device, run)[0].launch if captured else run), ()
        timed = time_by_turns(calls, sizes.turns, wait)
        microseconds[rows] = {t.implementation: round(1e6 * t.median / copies, 3) for t in timed}
    return Crossing(stored, first_faster_rows(microseconds), microseconds, captured)


def first_faster_rows(microseconds: dict[int, dict[str, float]]) -> int:
    """The smallest number of rows from which the library is faster, whatever more rows there are."""
    first = max(microseconds) + 1
    for rows in sorted(microseconds, reverse=True):
        if microseconds[rows]["library"] >= microseconds[rows]["kernels"]:
            break
        first = rows
    return first


def _make_multiplier_by_all(product: Callable[..., Any], x_RX: Any, weights: list[Weight]) -> Callable[[], Any]:
    """A product with each of the weights, into one array."""
    y_RX = np.empty((len(x_RX), weights[0].outputs), np.float32, like=x_RX)

    def multiply_by_each() -> None:
        for weight in weights:
            product(x_RX, weight, None, y_RX)

    return multiply_by_each


def _make_waiter(device: str) -> Callable[[], None]:
    if device != "cuda":
        return lambda: None
    import cupy

    return cupy.cuda.Device().synchronize
