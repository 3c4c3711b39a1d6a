"""A part of gpu.py: from how many rows cuBLAS is faster than the kernels for few rows, by how weights are stored.

What `minidecode precompile --device cuda` measures and keeps. The parts behind this one follow it.
"""

from __future__ import annotations

from dataclasses import asdict

from gpu_timing import Record

from minidecode.bench.library_rows import DECODING, STORED, TOYS, measure_crossing
from minidecode.device.library_rows import save_library_rows


def run(record: Record) -> None:
    sizes = TOYS if record.quick else DECODING
    for stored in STORED:
        record.ask(stored, lambda stored=stored: asdict(measure_crossing(stored, record.device, sizes)))
    rows = {stored: record.figures[stored]["rows"] for stored in STORED if "rows" in record.figures.get(stored, ())}
    if record.device == "cuda" and not record.quick and len(rows) == len(STORED):
        save_library_rows(rows)
        record["kept"] = "yes"
