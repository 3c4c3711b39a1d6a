"""Writes what the page that computes in a browser reads: its models, int8 matrices, and the parts of its picture.

    python docs/write_anatomy.py build/anatomy

The parts of the picture are those of `minidecode explore`. Of each model, NAME.json has its sizes, its vocabulary and
the place of each array in NAME.bin.gz. The build of the site writes them; the repository does not keep them. The
embedding is float16, as its file has it: the browser rounds the matrix of the logits itself.
"""

from __future__ import annotations

import gzip
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np

import minidecode as md
from minidecode.course import explore
from minidecode.device.low_precision import unpack_panels
from minidecode.ops import Norm, Weight

PICTURE = ("picture.js", "picture.css")
MODELS = ("tiny-gpt2", "tiny-gpt2-mqa")


class Places:
    """The bytes of all arrays, and where each begins."""

    def __init__(self) -> None:
        self.bytes = bytearray()

    def put(self, array: np.ndarray) -> list[Any]:
        """[dtype, offset, size], as the browser's typed arrays take them: offsets are multiples of 4."""
        self.bytes += bytes(-len(self.bytes) % 4)
        place = [str(array.dtype), len(self.bytes), array.size]
        self.bytes += np.ascontiguousarray(array).tobytes()
        return place

    def weight(self, weight: Weight) -> list[Any]:
        """The matrix by outputs, each output's scale, and the bias."""
        weight = unpack_panels(weight)
        assert weight.layout == "oi" and weight.data.dtype == np.int8 and weight.bias is not None
        return [self.put(weight.data), self.put(weight.scale), self.put(weight.bias)]

    def norm(self, norm: Norm) -> list[Any]:
        return [self.put(norm.gain_D), self.put(norm.bias_D)]


def write_model(name: str, folder: Path) -> int:
    """One model; the bytes of its two files."""
    model, places = md.load(name, dtype="int8", plan="numpy"), Places()
    weights, stored = (
        model.weights,
        json.loads((md.bundled_models()[name] / "tokenizer.json").read_text("utf-8"))["model"],
    )
    fields = json.loads((md.bundled_models()[name] / "config.json").read_text("utf-8"))
    heads, (V, D), (N, _) = weights.blocks[0].heads, weights.wte_VD.shape, weights.wpe_ND.shape
    header = {
        "sizes": {"S": len(weights.blocks), "D": D, "H": heads.H, "G": heads.G, "K": heads.K, "V": V, "N": N,
                  "F": weights.blocks[0].up.outputs},
        "eos": fields["eos_token_id"], "epsilon": fields["layer_norm_epsilon"],
        "vocabulary": sorted(stored["vocab"], key=stored["vocab"].get), 
        "merges": [pair if isinstance(pair, str) else " ".join(pair) for pair in stored["merges"]],
        "wte": places.put(weights.wte_VD.astype(np.float16)), "wpe": places.put(weights.wpe_ND.astype(np.float16)),
        "blocks": [
            {p: places.weight(getattr(block, p)) for p in ("qkv", "out", "up", "down")}
            | {p: places.norm(getattr(block, p)) for p in ("ln_1", "ln_2")}
            for block in weights.blocks
        ],
        "ln_f": places.norm(weights.blocks[-1].next_ln),
    }  # fmt: skip
    assert (weights.wte_VD.astype(np.float16) == weights.wte_VD).all(), "the file's embedding is no float16"
    files = {f"{name}.json": json.dumps(header, ensure_ascii=False).encode(), f"{name}.bin.gz": bytes(places.bytes)}
    files[f"{name}.bin.gz"] = gzip.compress(files[f"{name}.bin.gz"], mtime=0)
    for file, data in files.items():
        (folder / file).write_bytes(data)
    return sum(map(len, files.values()))


def write(folder: Path) -> int:
    """The picture's parts, and all models: the bytes of these."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in PICTURE:
        shutil.copy(Path(explore.__file__).with_name(file), folder)
    return sum(write_model(name, folder) for name in MODELS)


if __name__ == "__main__":
    print(f"{write(Path(sys.argv[1])):,} bytes")
