"""How much memory it takes to load a model and generate a token, against the size of its file.

    python benchmarks/loading_memory.py            # GPT-2 124M: its true shapes, random numbers, 498 MB
    python benchmarks/loading_memory.py --layers 2 --vocabulary 20000 --json

The weights are mapped, not read, so the ratio should stay near 1. It is measured in a process of its own: the peak
of its resident memory, less what it held after the import of `md.load` and `md.Model`.

    python benchmarks/loading_memory.py --dtype int8_dynamic --plan fast --model bart-base

measures what is copied beside the mapped file: the anonymous memory of the process after loading, as Linux reports it,
the peak of NumPy's arrays while loading, what the matrices take when stored so, and one layer of float32.

Takes some seconds, and room for the file in the folder for temporary files. Prints the figures; keeps nothing.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from flags import positive

MEASURE = """
import sys, resource
from pathlib import Path

def peak_bytes():
    # Linux hands the parent's peak down to a child through getrusage; VmHWM is this process's own.
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)

import minidecode
minidecode.load, minidecode.Model  # names come late: NumPy and the package's own files are loaded here
before = peak_bytes()
model = minidecode.load(sys.argv[1])
loaded = peak_bytes()
model.generate(input_ids=[[1, 2, 3]], max_new_tokens=1)
print(before, loaded, peak_bytes())
"""

MEASURE_COPIES = """
import sys, tracemalloc
from pathlib import Path
import minidecode

def anonymous_bytes():
    line = next(x for x in Path("/proc/self/status").read_text().splitlines() if x.startswith("RssAnon"))
    return int(line.split()[1]) * 1024

folder, small, dtype, plan = sys.argv[1:]
minidecode.load(small, dtype=dtype, plan=plan)  # what loading imports
before = anonymous_bytes()
tracemalloc.start()
model = minidecode.load(folder, dtype=dtype, plan=plan)
peak = tracemalloc.get_traced_memory()[1]
tracemalloc.stop()
print(anonymous_bytes() - before, peak)
"""
NUMBER_BYTES = {"float32": 4, "float16": 2, "int8": 1, "int8_dynamic": 1, "int8_dynamic7": 1}


def shapes_of(fields: dict) -> dict[str, tuple[int, ...]]:
    from minidecode.files.folder import read_settings

    family, config, _ = read_settings(None, fields)
    return family.network.tensor_shapes(config)


def write_model(folder: Path, fields: dict) -> int:
    """A folder of random numbers without a tokenizer -> bytes of its weights. fields: of config.json."""
    import numpy as np

    (folder / "config.json").write_text(json.dumps(fields))
    header, end = {}, 0
    for name, shape in shapes_of(fields).items():
        start, end = end, end + 4 * int(np.prod(shape))
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    block = np.random.default_rng(0).normal(0, 0.02, 1 << 18).astype("<f4").tobytes()
    with open(folder / "model.safetensors", "wb") as f:
        f.write(len(text).to_bytes(8, "little") + text)
        for start in range(0, end, len(block)):
            f.write(block[: end - start])
    return end


def fields_of(model: str, layers: int | None, vocabulary: int | None) -> dict:
    """Of config.json: a published model's, with another number of layers (of each stack) or tokens."""
    from minidecode.files.published import published_config

    fields = {k: v for k, v in published_config(model).items() if not k.endswith("token_id")}  # they may lie beyond
    names = ("n_layer",) if fields["model_type"] == "gpt2" else ("encoder_layers", "decoder_layers")
    fields |= dict.fromkeys(names, layers) if layers else {}
    return fields | ({"vocab_size": vocabulary} if vocabulary else {})


def matrix_bytes(fields: dict, dtype: str) -> tuple[int, int]:
    """(bytes of all products' matrices stored so, with a float32 scale for each output of int8; of one float32 layer).

    Float32 leaves the output's matrix in the file; of narrower ones there is a copy, as the embedding stays as it is.
    """
    import re

    stored, layers, size = 0, {}, NUMBER_BYTES[dtype]
    for name, shape in shapes_of(fields).items():
        layer = re.match(r"(?:encoder\.layers|decoder\.layers|h)\.\d+", name)
        is_output = name in ("wte.weight", "shared.weight")
        if len(shape) < 2 or not (layer or is_output):
            continue
        count = shape[0] * shape[1]
        if layer:
            layers[layer[0]] = layers.get(layer[0], 0) + 4 * count
        if layer or size < 4:
            outputs = shape[1] if name.startswith("h.") else shape[0]
            stored += size * count + (4 * outputs if size == 1 else 0)
    return stored, max(layers.values())


def measure_copies(fields: dict, dtype: str, plan: str) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        write_model(Path(folder), fields)
        command = [sys.executable, "-c", MEASURE_COPIES, folder, f"tiny-{fields['model_type']}", dtype, plan]
        ran = subprocess.run(command, check=True, capture_output=True, text=True)
    anonymous, peak = map(int, ran.stdout.split())
    stored, layer = matrix_bytes(fields, dtype)
    return {
        "matrices_MB": stored / 1e6, "layer_MB": layer / 1e6, "anonymous_MB": anonymous / 1e6, "peak_MB": peak / 1e6,
        "ratio": anonymous / stored,
    }  # fmt: skip


def measure(fields: dict) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        size = write_model(Path(folder), fields)
        ran = subprocess.run([sys.executable, "-c", MEASURE, folder], check=True, capture_output=True, text=True)
    before, loaded, generated = map(int, ran.stdout.split())
    return {
        "file_MB": size / 1e6, "import_MB": before / 1e6, "load_MB": (loaded - before) / 1e6,
        "load_and_one_token_MB": (generated - before) / 1e6, "ratio": (generated - before) / size,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=("gpt2", "bart-base"), default="gpt2")
    parser.add_argument("--layers", type=positive, help="of each stack; the model's own by default")
    parser.add_argument("--vocabulary", type=positive, help="the model's own by default")
    parser.add_argument("--dtype", choices=NUMBER_BYTES, help="measure what is copied when weights are stored so")
    parser.add_argument("--plan", default="fast", help="with --dtype; fast by default")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    fields = fields_of(arguments.model, arguments.layers, arguments.vocabulary)
    result = measure_copies(fields, arguments.dtype, arguments.plan) if arguments.dtype else measure(fields)
    if arguments.json:
        print(json.dumps(result))
        return
    for name, value in result.items():
        print(f"{name:<24} {value:8.2f}")


if __name__ == "__main__":
    main()
