"""A multi-head checkpoint made into a grouped-query one, or with one key/value head into a multi-query one.

The heads of a group give way to one whose key and value projections are the means of theirs, as Ainslie et al. 2023
(GQA, section 2.1) begin. That is a different model: it says other things, and worse, until it has been trained on.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import re
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from ..errors import OptionError
from ..models.config import Config
from ..models.gpt2_latent import MEMORY
from ..models.gpt_bigcode import GPTBigCodeConfig, deinterleave_qkv
from ..ops import Heads
from .checkpoint import write_safetensors
from .fairseq_tokenizer import CODES
from .folder import find_folder, read_settings, stored_tensors
from .hub import SETTINGS, VOCABULARIES
from .new_folder import path_of_new, whole_folder
from .stored import read_json

COPIED = (
    *SETTINGS, "tokenizer.json", "vocab.txt", "vocab.json", "vocab-src.json", "vocab-tgt.json", *CODES, *VOCABULARIES
)  # fmt: skip


@dataclass(frozen=True)
class Conversion:
    """What `convert` wrote; each list is before and after."""

    folder: str
    different_model: str  # what config.json says of it
    key_value_heads: dict[str, list[int]]  # by stack, the encoder or the decoder
    bytes_per_token: list[int]  # of the keys and values of all layers

    def as_dict(self) -> dict:
        return asdict(self)

    def __str__(self) -> str:
        heads = "; ".join(f"{stack} {a} -> {b}" for stack, (a, b) in self.key_value_heads.items())
        before, after = self.bytes_per_token
        return (
            f"{self.folder}\n"
            f"key/value heads: {heads}\n"
            f"keys and values of a token: {before:,} -> {after:,} bytes in float32\n"
            f"different model: {self.different_model}"
        )


def convert(
    name: str | Path, out: str | Path, *, num_key_value_heads: int, revision: str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Conversion:  # fmt: skip
    """Writes into the new folder `out` the model `name` with fewer key/value heads, each the mean of several.

    k'[g] = mean of k[h] over the heads h of group g, the H/G next to each other that will share it; so for values.
    Keys are linear in their projection, so the mean of the projections, biases included, gives the mean of the keys.
    Every attention is converted: the encoder's, the decoder's, and that over the source.

    name, revision: as for `load`. num_key_value_heads must divide the number that each stack has. Other tensors,
    the tokenizer and the settings are copied, dtypes kept; the folder appears whole or not at all, and nothing that
    exists is overwritten. progress: called with (tensors written, of how many).

    Contract: different model; config.json says so under "different_model". Raises OptionError on a number of heads
    that cannot be had, CheckpointError on a folder that cannot be read or written.
    """
    out = path_of_new(out)
    source = find_folder(name, revision)
    fields = read_json(source / "config.json")
    family, config, _ = read_settings(source, None)
    _check_heads(config, num_key_value_heads)
    heads = {stack: [h.G, num_key_value_heads] for stack, (_, h) in config.stacks.items()}
    before = " and ".join(f"{old} of the {stack}" for stack, (old, _) in heads.items())
    label = (
        f"key/value heads ({before}) mean-pooled into {num_key_value_heads}; "
        "its texts differ from those of the model that it was made from, and it needs training"
    )
    fields |= {"num_key_value_heads": num_key_value_heads, "different_model": label}
    if isinstance(config, GPTBigCodeConfig) and num_key_value_heads == 1:
        fields["multi_query"] = True  # as transformers says it
    stored, config = stored_tensors(source, family, config)
    converted = dataclasses.replace(config, num_key_value_heads=num_key_value_heads)
    shapes = family.network.tensor_shapes(converted)
    count = itertools.count(1)

    def numbers_of_tensor(name: str) -> np.ndarray:
        tensor = stored[name].read(np.dtype(np.float64 if stored[name].dtype == "F64" else np.float32))
        pooled = pool_tensor(config, name, tensor, num_key_value_heads)
        if progress:
            progress(next(count), len(stored))
        return pooled

    with whole_folder(out) as partial:
        dictionaries = sorted(path.name for path in source.glob("dict.*.txt"))  # fairseq's
        for file in [*COPIED, *dictionaries]:
            if (source / file).exists():
                shutil.copyfile(source / file, partial / file)
        (partial / "config.json").write_text(json.dumps(fields, indent=2) + "\n", encoding="utf-8")
        layout = {name: (tensor.dtype, shapes[name]) for name, tensor in stored.items()}
        write_safetensors(partial / "model.safetensors", layout, numbers_of_tensor)
    return Conversion(str(out), label, heads, [bytes_per_token(config), bytes_per_token(converted)])


def pool_tensor(c: Config, name: str, tensor: np.ndarray, G: int) -> np.ndarray:
    """The tensor of that name in the model with G key/value heads: another one only if it projects keys or values."""
    side = c.stack_of_tensor(name)
    if side not in c.stacks:  # what reads latents keeps its heads
        return tensor
    layers, h = c.stacks[side]
    if isinstance(c, GPTBigCodeConfig) and ".attn.c_attn." in name:  # q, k and v are rows of one matrix
        rows = deinterleave_qkv(c, tensor) if c.is_interleaved else tensor
        return pool_columns(rows.T, h, G).T
    if ".attn.c_attn." in name:  # GPT-2: they are its columns
        return pool_columns(tensor, h, G)
    if name == MEMORY:  # keys and values of the latent, layer after layer
        return pool_heads(tensor.T, layers * h.G, layers * G).T
    if name.endswith("self.qkv_linear.weight"):  # UniLM: they may be rows of one matrix
        return pool_columns(tensor.T, h, G).T
    # BART, ProphetNet, T5, UniLM: a matrix each, of which they are rows.
    if re.search(r"(_attn\.(k|v|key|value)_proj|Attention\.[kv]|attention\.self\.(key|value))\.|self\.v_bias$", name):
        return pool_heads(tensor.T, h.G, G).T
    return tensor


def pool_columns(columns: np.ndarray, h: Heads, G: int) -> np.ndarray:
    """Columns of all queries, keys and values -> the same with G key/value heads."""
    q, k, v = np.split(columns, [h.H * h.K, (h.H + h.G) * h.K], axis=-1)
    return np.concatenate([q, pool_heads(k, h.G, G), pool_heads(v, h.G, G)], axis=-1)


def pool_heads(columns: np.ndarray, heads: int, G: int) -> np.ndarray:
    """Columns of `heads` heads, of equal width -> those of G heads, each the mean of heads/G neighbours."""
    groups = columns.reshape(*columns.shape[:-1], G, heads // G, -1)
    return groups.mean(axis=-2, dtype=np.float64).reshape(*columns.shape[:-1], -1)


def bytes_per_token(c: Config) -> int:
    """What the keys and values of one token take in float32, in all layers that decoding keeps a cache for.

    The token may be one of the text, or for BART one of the source: a decoder layer keeps as much of either.
    """
    layers, h = c.stacks["decoder"]
    return 4 * layers * h.G * (h.K + h.U)


def _check_heads(c: Config, G: int) -> None:
    if "decoder" not in c.stacks:
        raise OptionError("an encoder alone keeps no cache of keys and values: there is nothing to make smaller")
    before = {stack: h.G for stack, (_, h) in c.stacks.items()}
    counts = " and ".join(f"{heads} in the {stack}" for stack, heads in before.items())
    if isinstance(G, bool) or not isinstance(G, int) or G < 1 or any(heads % G for heads in before.values()):
        shared = math.gcd(*before.values())
        choices = [str(g) for g in range(1, shared + 1) if shared % g == 0 and any(g < b for b in before.values())]
        raise OptionError(
            f"key/value heads: {G!r} is no divisor of those that the model has ({counts})"
            + (f"; choose {' or '.join(choices)}" if choices else ", and nothing that is less does")
        )
    if all(heads == G for heads in before.values()):
        raise OptionError(f"the model has {G} key/value heads ({counts}): there is nothing to convert")
