"""What the records of a run over many lines depend on, by name, so that a later run goes on with no others."""

from __future__ import annotations

import dataclasses
import hashlib
import sys
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ..device.arrays import fetch, is_array
from ..files.journal import HASH
from ..methods.loaded import refuse_other_than_model
from ..plan import Plan
from .records import merge_options

PACKAGE = sys.modules[__name__.partition(".")[0]]  # not imported: it is a layer above, and loaded by now
# What `generate_lines` takes and a resumed run may change. Another budget cuts batches elsewhere, as less free memory
# does: the last digits of scores may change with it.
MAY_CHANGE = {"memory_budget", "overlap", "trace", "on_batch", "arena", "costs"}


def records_depend_on(model: Any, how: dict[str, Any]) -> dict[str, Any]:
    """Name -> value, as JSON holds it, or a hash of it; all but the lines. how: what `generate_lines` takes."""
    refuse_other_than_model("ShardGenerator", model)
    if how.get("draft") is not None:
        how = how | {"draft": _hash_of_model(how["draft"])}
    plan = model.plan
    if how.get("plan") is not None:
        plan = Plan.parse(how["plan"])
        plan.resolve(device=model.device, **model.plan_traits)
    fields = {field.name for field in dataclasses.fields(model.options())}
    given = {name: value for name, value in how.items() if name in fields}
    options = dataclasses.asdict(model.options(**merge_options(model, given, {})))
    depends_on = {
        "dtype": model.dtype, "model": _hash_of_model(model), "device": model.device, "prefix": model.prefix,
        **{name: value for name, value in how.items() if name not in fields | MAY_CHANGE}, "plan": str(plan),
        "minidecode": PACKAGE.__version__, "numpy": np.__version__,
    }  # fmt: skip
    for name in _files_of(str(plan)):
        path = name if name.endswith(".py") else sys.modules[name].__file__  # the plan has imported it
        depends_on[f"file {path}"] = hash_parts([Path(path).read_bytes()])
    kept = {"keep_stop_strings": given.get("keep_stop_strings", options["keep_stop_strings"])}  # of lines
    return depends_on | {name: value for name, value in (options | kept).items() if not callable(value)}


def hash_parts(parts: Iterable[bytes]) -> str:
    """A hash of these, which tells where each of them ends."""
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        digest.update(b"%d " % len(part))
        digest.update(part)
    return HASH + digest.hexdigest()


def _hash_of_model(model: Any) -> str:
    """A hash of the weights' checksums, which take a tenth of a second for GPT-2, of the shapes and the tokenizer."""
    arrays = _arrays_of_tree(tuple(model.tensors.values()) or model.weights)
    weights = (f"{a.dtype} {a.shape} {zlib.crc32(np.ascontiguousarray(a).data)}" for a in arrays)
    return hash_parts(text.encode() for text in (repr(model.config), model.tokenizer.as_json(), *weights))


def _arrays_of_tree(weights: Any) -> Iterator[np.ndarray]:
    """The arrays of a tree of dataclasses and tuples."""
    if is_array(weights):
        yield fetch(weights)
    elif isinstance(weights, tuple):
        for part in weights:
            yield from _arrays_of_tree(part)
    elif dataclasses.is_dataclass(weights):
        for field in dataclasses.fields(weights):
            yield from _arrays_of_tree(getattr(weights, field.name))


def _files_of(plan: str) -> list[str]:
    """Files and modules of the user's functions that a plan names."""
    values = [part.partition("=")[2] for part in plan.split(",")]
    return list(dict.fromkeys(value.rpartition(":")[0] for value in values if ":" in value))
