"""What two rows a beam save ProphetNet: operations and CPU seconds of a decode step, beside transformers.

    pip install '.[oracle]'
    python benchmarks/query_rows.py --out benchmarks/results/query-rows-cpu.json

transformers carries the rows of all predict streams along, and so ngram + 1 rows a beam; generation needs two. Its
operations are counted by torch, ours by the cost models of the catalog. A step is what 12 new tokens take beyond 6.
The model has the published widths and 3 + 3 layers with random weights. 2 sources of 128 tokens, 4 beams, one thread.
Takes about two minutes. Prints a line for each and writes all figures to --out.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import numpy as np  # noqa: E402 (behind the number of threads)
from flags import file_to_write  # noqa: E402
from records import write_record  # noqa: E402

import minidecode as md  # noqa: E402
from minidecode.bench.compare import describe_machine  # noqa: E402

LAYERS, SENTENCES, BEAMS, SOURCE, NEW = 3, 2, 4, 128, 12
FIELDS = {"model_type": "prophetnet", "num_encoder_layers": LAYERS, "num_decoder_layers": LAYERS, "pad_token_id": 0,
          "bos_token_id": 102, "eos_token_id": 102, "decoder_start_token_id": 102}  # fmt: skip


def cost_of_step(measure: Callable[[int], float], repeats: int) -> float:
    """What a step takes: the best of several runs of NEW tokens, less the best of half as many."""
    whole, half = (min(measure(tokens) for _ in range(repeats)) for tokens in (NEW, NEW // 2))
    return (whole - half) / (NEW - NEW // 2)


def cpu_seconds(generate: Callable[[int], object]) -> Callable[[int], float]:
    """A measure: CPU seconds of a call."""

    def measure(tokens: int) -> float:
        started = time.process_time()
        generate(tokens)
        return time.process_time() - started

    return measure


def measure_transformers(ids_BN: np.ndarray) -> dict[str, float]:
    """Operations and CPU seconds of a step of transformers."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode
    from transformers import ProphetNetConfig, ProphetNetForConditionalGeneration

    torch.set_num_threads(1)
    model = ProphetNetForConditionalGeneration(ProphetNetConfig(**FIELDS)).eval()

    @torch.no_grad()
    def generate(tokens: int) -> None:
        lengths = {"max_new_tokens": tokens, "min_new_tokens": tokens}
        model.generate(torch.tensor(ids_BN), num_beams=BEAMS, do_sample=False, **lengths)

    def operations(tokens: int) -> int:
        with FlopCounterMode(display=False) as counter:
            generate(tokens)
        return counter.get_total_flops()

    return {"operations": cost_of_step(operations, 1), "cpu_seconds": cost_of_step(cpu_seconds(generate), 2)}


def measure_minidecode(ids_BN: np.ndarray, plan: str) -> dict[str, float]:
    """Operations (of products and attention) and CPU seconds of a step under a plan."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.json").write_text(json.dumps(FIELDS), encoding="utf-8")
        model = md.load(folder, random_weights=True, plan=plan)

    def generate(tokens: int, **how) -> md.Output:
        lengths = {"max_new_tokens": tokens, "min_new_tokens": tokens}
        return model.generate(input_ids=ids_BN, num_beams=BEAMS, **lengths, **how)

    def operations(tokens: int) -> float:
        ops = generate(tokens, costs=True).receipt.ops
        return sum(c.operations for name, op in ops.items() if name.startswith(("linear", "attend")) for c in op.costs)

    generate(2)  # what is compiled or loaded once
    return {"operations": cost_of_step(operations, 1), "cpu_seconds": cost_of_step(cpu_seconds(generate), 2)}


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--out", type=file_to_write, help="JSON file to write")
    a = p.parse_args()
    ids_BN = np.random.default_rng(0).integers(200, 30000, (SENTENCES, SOURCE))
    rows = {"transformers": measure_transformers(ids_BN)}
    rows |= {f"minidecode, plan {plan}": measure_minidecode(ids_BN, plan) for plan in ("cache=split", "fast")}
    for name, row in rows.items():
        print(f"{name:<29}{row['operations'] / 1e9:8.2f} G operations{1000 * row['cpu_seconds']:8.1f} ms of CPU")
    if a.out:
        write_record(a.out, {"machine": describe_machine(), "a_step": rows})


if __name__ == "__main__":
    main()
