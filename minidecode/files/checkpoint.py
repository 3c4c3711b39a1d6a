"""Files -> config and weights: Hugging Face folders, safetensors in one file or sharded, memory-mapped.

Folders without safetensors have `pytorch_model.bin`, which torch_file.py reads.

The `safetensors` library validates a file's header (sizes, overlaps, offsets, dtypes); the numbers themselves are
mapped into memory here, because the library's NumPy door copies them and does not know bfloat16.
"""

from __future__ import annotations

import json
import math
import re
import warnings
from collections.abc import Callable, Collection
from pathlib import Path

import numpy as np

from ..errors import CheckpointError, MinidecodeWarning, shown, words_of
from .stored import STORED_DTYPES, Stored, check_regular, read_json
from .torch_file import read_torch_file


def read_header(path: Path) -> dict[str, Stored]:
    """The tensors of one safetensors file. Raises CheckpointError on a truncated or lying header.

    Allocates no more than the header's own length; nothing of the tensors is read.
    """
    from safetensors import SafetensorError, safe_open

    check_regular(path)
    try:
        with safe_open(path, framework="np"):
            pass
        with open(path, "rb") as f:
            length = int.from_bytes(f.read(8), "little")
            header = json.loads(f.read(length))
    except FileNotFoundError:
        raise CheckpointError(f"{path} is missing") from None
    except (SafetensorError, OSError, ValueError, RecursionError) as error:
        why = words_of(error)
        raise CheckpointError(f"{path} is not a whole safetensors file ({why}): download it again") from None
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        tensors[name] = Stored(path, 8 + length + entry["data_offsets"][0], entry["dtype"], tuple(entry["shape"]))
    return tensors


def find_tensors(folder: Path) -> dict[str, Stored]:
    """Every tensor of a model folder: one file, or the shards that its index lists; safetensors go first."""
    for file, read in [("model.safetensors", read_header), ("pytorch_model.bin", read_torch_file)]:
        whole, index = folder / file, folder / f"{file}.index.json"
        if whole.exists():
            return read(whole)
        if index.exists():
            return read_shards(index, read)
    others = [f.name for ending in ("bin", "h5", "msgpack") for f in sorted(folder.glob(f"*.{ending}"))]
    hint = f" ({', '.join(others)} cannot be read; convert with safetensors)" if others else ""
    raise CheckpointError(f"{folder} has neither model.safetensors nor pytorch_model.bin, nor an index of shards{hint}")


def read_index(path: Path) -> dict[str, str]:
    """Tensor -> the shard that it is in, from NAME.safetensors.index.json or NAME.bin.index.json.

    Raises CheckpointError on a shard that is not a file of this kind in the index's own folder.
    """
    weight_map, suffix = read_json(path).get("weight_map"), Path(path.name.removesuffix(".index.json")).suffix
    if not isinstance(weight_map, dict) or not all(isinstance(f, str) for f in weight_map.values()):
        raise CheckpointError(f"{path}: weight_map should give a file name for each tensor")
    for file in weight_map.values():
        is_a_name = Path(file).name == file and "\\" not in file and ":" not in file
        if not is_a_name or not file.endswith(suffix) or not file.isprintable():
            raise CheckpointError(f"{path}: {shown(file)} is not the name of a *{suffix} file in the same folder")
    return weight_map


def read_shards(index_path: Path, read: Callable[[Path], dict[str, Stored]]) -> dict[str, Stored]:
    """The tensors of the shards that an index lists, each read by `read`: files of the index's own folder alone.

    All that the shards hold is found, as in transformers: an index may leave a tensor out, or list one that no shard
    has. Whether a tensor is missed is for the model to say. Where two shards have it, the index decides.
    """
    weight_map = read_index(index_path)
    shards = {file: read(index_path.parent / file) for file in sorted(set(weight_map.values()))}
    tensors: dict[str, Stored] = {}
    for file, held in shards.items():
        for name, tensor in held.items():
            listed = weight_map.get(name)
            if name in tensors and (listed is None or name not in shards[listed]):
                raise CheckpointError(
                    f"{index_path}: {shown(name)} is in {tensors[name].path.name} and in {file}, and the index does "
                    "not say which of the two counts: add it there"
                )
            if name not in tensors or listed == file:
                tensors[name] = tensor
    return tensors


def match_tensors(
    folder: Path, in_file: dict[str, Stored], shapes: dict[str, tuple[int, ...]], prefix: str, ignored: str,
    layer: str, tied: dict[str, str], optional: Collection[str], is_whole: bool = False,
) -> dict[str, Stored]:  # fmt: skip
    """The tensors that `shapes` asks for, by its names, out of those `in_file`, of `folder`.

    Names may carry `prefix` or not. Names that match `ignored` (buffers of old files) are passed over; a name in
    `tied` may be stored too, as an equal copy of the tensor it is tied to, or instead of it. Names in `optional` may
    be missing, here and in the result. A name that begins with `layer` is a part of one layer.

    Other tensors (a value head, a classification head) are not used, and a MinidecodeWarning names them. But those of a
    layer that `shapes` has not are an error, since config.json must be wrong then; with is_whole, all others are.
    Raises CheckpointError naming each such tensor and each that is missing, of another shape (with both shapes), or of
    a dtype that cannot be read.
    """
    stored: dict[str, Stored] = {}
    for name, tensor in in_file.items():
        short = name.removeprefix(prefix)
        if short in stored:
            raise CheckpointError(f"{folder}: {short:.80} is stored twice, with and without {prefix!r}")
        if not re.fullmatch(ignored, short):
            stored[short] = tensor
    for copy, original in tied.items():
        if copy in stored and original not in stored:
            stored[original] = stored[copy]

    copies = {copy: original for copy, original in tied.items() if copy in stored}
    expected = shapes | {copy: shapes[original] for copy, original in copies.items()}
    problems = []
    for name, shape in expected.items():
        if name not in stored:
            if name not in optional:
                problems.append(f"{name} is missing, expected shape {shape}")
        elif stored[name].shape != shape:
            problems.append(f"{name} has shape {stored[name].shape}, expected {shape}")
        elif stored[name].dtype not in STORED_DTYPES:
            problems.append(f"{name} is stored as {stored[name].dtype:.20}; {', '.join(STORED_DTYPES)} can be read")
    extra = [name for name in stored if name not in expected]
    layers = {match.group() for name in expected if (match := re.match(layer, name))}
    problems += [
        f"{name:.80} is of a layer that config.json does not have, found shape {stored[name].shape}"
        for name in extra
        if (match := re.match(layer, name)) and match.group() not in layers
    ]
    if is_whole and not problems:
        problems = [f"{name:.80} is no part of this kind of model, whose answers would be others" for name in extra]
    if problems:
        more = f"; and {len(problems) - 4} more" if len(problems) > 4 else ""
        raise CheckpointError(f"{folder}: the weights do not fit config.json: {'; '.join(problems[:4])}{more}")

    if extra:
        named = ", ".join(name[:80] for name in extra[:4])
        more = f" and {len(extra) - 4} more" if len(extra) > 4 else ""
        warnings.warn(
            f"{folder}: tensors that this model does not use are ignored: {named}{more}",
            MinidecodeWarning,
            stacklevel=5,  # what called `load`
        )
    for copy, original in copies.items():
        if stored[copy] != stored[original] and not same_numbers(stored[copy], stored[original]):
            raise CheckpointError(
                f"{folder}: {copy} differs from {original}, but config.json ties them: set tie_word_embeddings to false"
            )
    return {name: stored[name] for name in shapes if name in stored}


def same_numbers(a: Stored, b: Stored) -> bool:
    """Whether two tensors of one shape are equal: as bits, so that a NaN equals its copy.

    As float32, unless both have more.
    """
    dtype = np.dtype(np.float64 if a.dtype == b.dtype == "F64" else np.float32)
    bits = f"u{dtype.itemsize}"
    return np.array_equal(a.read(dtype).view(bits), b.read(dtype).view(bits))


def write_safetensors(
    path: Path, stored: dict[str, tuple[str, tuple[int, ...]]], numbers: Callable[[str], np.ndarray]
) -> None:
    """A safetensors file, tensor after tensor: `stored` gives the dtype and shape of each, `numbers` what it holds.

    Only one tensor is held at a time: the library's own NumPy door would want all of them at once, and knows no
    bfloat16. Numbers are rounded to the nearest that the dtype has, for bfloat16 by way of float32.
    """
    header, end = {"__metadata__": {"format": "pt"}}, 0
    names = sorted(stored, key=lambda name: -np.dtype(STORED_DTYPES[stored[name][0]]).itemsize)  # so that all align
    for name in names:
        dtype, shape = stored[name]
        begin, end = end, end + np.dtype(STORED_DTYPES[dtype]).itemsize * math.prod(shape)
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name in names:
            dtype, shape = stored[name]
            array = numbers(name)
            if array.shape != shape:
                raise ValueError(f"{name} has shape {array.shape} and should have {shape}")
            file.write((_bfloat16(array) if dtype == "BF16" else array.astype(STORED_DTYPES[dtype])).tobytes())


def _bfloat16(array: np.ndarray) -> np.ndarray:
    """The upper halves of float32 numbers, rounded to the nearest, ties to the even one."""
    bits = array.astype("<f4").view("<u4")
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("<u2")
