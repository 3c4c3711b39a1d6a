"""How much memory it takes to load GPT-2 in float32 and generate a token, against the size of its file.

    python benchmarks/loading_memory.py            # GPT-2 124M: its true shapes, random numbers, 498 MB
    python benchmarks/loading_memory.py --layers 2 --vocabulary 20000 --json

The weights are mapped, not read, so the ratio should stay near 1. It is measured in a process of its own: the peak
of its resident memory, less what it held after `import minidecode`.

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
before = peak_bytes()
model = minidecode.load(sys.argv[1])
loaded = peak_bytes()
model.generate(input_ids=[[1, 2, 3]], max_new_tokens=1)
print(before, loaded, peak_bytes())
"""


def write_model(folder: Path, layers: int, vocabulary: int) -> int:
    """A GPT-2 folder of width 768 without a tokenizer -> bytes of its weights."""
    import numpy as np

    from minidecode.models.config import GPT2Config
    from minidecode.models.gpt2_tensors import tensor_shapes

    config = {"model_type": "gpt2", "n_layer": layers, "vocab_size": vocabulary}
    (folder / "config.json").write_text(json.dumps(config))
    header, end = {}, 0
    for name, shape in tensor_shapes(GPT2Config.from_json(config)).items():
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


def measure(layers: int, vocabulary: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        size = write_model(Path(folder), layers, vocabulary)
        ran = subprocess.run([sys.executable, "-c", MEASURE, folder], check=True, capture_output=True, text=True)
    before, loaded, generated = map(int, ran.stdout.split())
    return {
        "file_MB": size / 1e6, "import_MB": before / 1e6, "load_MB": (loaded - before) / 1e6,
        "load_and_one_token_MB": (generated - before) / 1e6, "ratio": (generated - before) / size,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=positive, default=12)
    parser.add_argument("--vocabulary", type=positive, default=50257)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    result = measure(arguments.layers, arguments.vocabulary)
    if arguments.json:
        print(json.dumps(result))
        return
    for name, value in result.items():
        print(f"{name:<24} {value:8.2f}")


if __name__ == "__main__":
    main()
