"""What the records of `minidecode generate` depend on, by name, so that --resume goes on with no others."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import sys
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from .. import __version__
from ..device.arrays import fetch, is_array
from ..files.journal import HASH
from ..lines.records import merged_options
from .prompts import Prompts

# What `generate_lines` takes and a resumed run may change. Another budget cuts batches elsewhere, as less free memory
# does: the last digits of scores may change with it.
MAY_CHANGE = {"memory_budget", "overlap", "trace", "on_batch"}


def records_depend_on(model: Any, prompts: Prompts, how: dict[str, Any], as_json: bool) -> dict[str, Any]:
    """Name -> value, as JSON holds it, or a hash of it. how: what `generate_lines` takes."""
    if "draft" in how:
        how = how | {"draft": _hash_of_model(how["draft"])}
    fields = {field.name for field in dataclasses.fields(model.options())}
    given = {name: value for name, value in how.items() if name in fields}
    options = dataclasses.asdict(model.options(**merged_options(model, given, {})))
    on_error = how["on_error"]
    depends_on = {
        "input": _hash_of_lines(prompts), "jsonl": prompts.is_jsonl, "dtype": model.dtype,
        "model": _hash_of_model(model), "device": model.device, "plan": str(model.plan), "json": as_json,
        "prefix": model.prefix,
        **{name: value for name, value in how.items() if name not in fields | MAY_CHANGE},
        # A recorded error names the file.
        "on_error": f"record ({prompts.source})" if on_error == "record" else on_error,
        "minidecode": __version__, "numpy": np.__version__,
    }  # fmt: skip
    for name in _files_of(str(model.plan)):
        path = name if name.endswith(".py") else sys.modules[name].__file__  # the plan has imported it
        depends_on[f"file {path}"] = _hash([Path(path).read_bytes()])
    kept = {"keep_stop_strings": given.get("keep_stop_strings", options["keep_stop_strings"])}  # of lines
    return depends_on | {name: value for name, value in (options | kept).items() if not callable(value)}


def _hash(parts: Iterable[bytes]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        digest.update(b"%d " % len(part))
        digest.update(part)
    return HASH + digest.hexdigest()


def _hash_of_lines(prompts: Prompts) -> str:
    if prompts.again is None:
        return _hash(str(line).encode("utf-8", "surrogatepass") for line in prompts.lines)
    with contextlib.closing(prompts.again()) as lines:
        return _hash(lines)


def _hash_of_model(model: Any) -> str:
    """Of the weights' checksums, which take a tenth of a second for GPT-2, of the shapes and of the tokenizer."""
    arrays = _arrays(tuple(model.tensors.values()) or model.weights)
    weights = (f"{a.dtype} {a.shape} {zlib.crc32(np.ascontiguousarray(a).data)}" for a in arrays)
    return _hash(text.encode() for text in (repr(model.config), model.tokenizer.as_json(), *weights))


def _arrays(weights: Any) -> Iterator[np.ndarray]:
    """The arrays of a tree of dataclasses and tuples."""
    if is_array(weights):
        yield fetch(weights)
    elif isinstance(weights, tuple):
        for part in weights:
            yield from _arrays(part)
    elif dataclasses.is_dataclass(weights):
        for field in dataclasses.fields(weights):
            yield from _arrays(getattr(weights, field.name))


def _files_of(plan: str) -> list[str]:
    """Files and modules of the user's functions that a plan names."""
    values = [part.partition("=")[2] for part in plan.split(",")]
    return list(dict.fromkeys(value.rpartition(":")[0] for value in values if ":" in value))
