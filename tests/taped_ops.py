"""A plan of kernels whose ops are NumPy's references, on arrays of the emulated device: captured steps in milliseconds.

What is put on the tape is the reference's call, to be done again on the same arrays. So searches, processors, caches,
buckets and captures are those of a device, and only kernels are not: other tests run those, which takes seconds a step.
"""

import dataclasses
import functools

import pytest

from minidecode.device.launch import OnHost
from minidecode.emulator.device_array import EmulatorArray, _run_by_numpy
from minidecode.plan import Plan


def with_numbers(given):
    """The same with NumPy's arrays in place of the device's, whose memory they share."""
    if isinstance(given, EmulatorArray):
        return given.there
    if isinstance(given, tuple | list):
        return type(given)(map(with_numbers, given))
    if dataclasses.is_dataclass(given) and not isinstance(given, type):
        parts = {f.name: getattr(given, f.name) for f in dataclasses.fields(given)}
        return dataclasses.replace(given, **{name: with_numbers(part) for name, part in parts.items()})
    return given


@functools.cache
def on_tape(function):
    """The function on arrays of the device: one for each, since kept steps go by the functions that run."""

    def plainly(*args, **kwargs):
        return function(*with_numbers(args), **{name: with_numbers(value) for name, value in kwargs.items()})

    return functools.wraps(function)(lambda *args, **kwargs: _run_by_numpy(plainly, args, kwargs))


@pytest.fixture
def references_on_tape(monkeypatch):
    """Plans of kernels run the references on the emulated device; what a plan says of the host still runs there."""
    resolve = Plan.resolve

    def resolved(self, has_encoder=True, device="cpu", dtype="float32", **traits):
        traits["dtype"] = dtype
        functions, make_cache = resolve(self, has_encoder, device, **traits)
        if device == "emulator":
            numpy = f"numpy,cache={self.cache}" + (",hars=reference" if "hars_candidates" in functions else "")
            references = resolve(Plan.parse(numpy), has_encoder, "cpu", **traits)[0]
            functions = {
                name: function if isinstance(function, OnHost) else on_tape(references[name])
                for name, function in functions.items()
            }
        return functions, make_cache

    monkeypatch.setattr(Plan, "resolve", resolved)
