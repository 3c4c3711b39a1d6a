"""What benchmarks/results has of one op: tables of times, each with the machine that it ran on."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
MEDIAN = 0  # of [median, fastest, slowest]
MEASURED = ("name", "source", "bandwidth", "operations", "int8_operations", "least_seconds")  # no word about a machine


def times_of(name: str, op: str) -> list[tuple[str, str, str]]:
    """(file, what was timed, a Markdown table) of each record that has this op."""
    tables = []
    for file, read in READERS.items():
        what, head, rows = read(load(file), name, op)
        if rows:
            tables.append((f"{file}.json", what, table(head, rows)))
    return tables


def load(file: str) -> dict | list:
    return json.loads((RESULTS / f"{file}.json").read_text(encoding="utf-8"))


def table(head: Iterable[str], rows: Iterable[Iterable]) -> str:
    lines = [list(head), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in [lines[0], ["---"] * len(lines[0]), *lines[1:]])


def machine_of(path: Path) -> str:
    """The machine of a result, as its file says it: what it was, with which versions, and what else ran there."""
    record = load(path.stem)
    record = record[0] if isinstance(record, list) else record  # of several ops, timed in one run
    machine = record["machine"]
    if isinstance(machine, str):
        return f"{machine}."
    fields = machine | record.get("where", {}) | record.get("versions", {})
    note = fields.pop("note", "") or record.get("note", "")
    fields = {k: v for k, v in fields.items() if v is not None and k not in MEASURED}
    listed = "machine: " + ", ".join(f"{k.replace('_', ' ')} {v}" for k, v in fields.items())
    return f"{listed}. {note}".strip()


# On CPUs


def compared(data: list, name: str, op: str) -> tuple:
    """What benchmarks/ops.py wrote of all ops."""
    timed = [record for record in data if record["name"] == name]
    head = ("version", *SPREAD, "of this machine's limit")
    times = [t for record in timed for t in record["timings"]]
    rows = [(t["implementation"], *(f"{1e6 * t[w]:,.2f} us" for w in SPREAD), f"{t['share']:.1%}") for t in times]
    return timed[0]["shape"] if timed else "", head, rows


SPREAD = ("median", "fastest", "slowest")


def ngram(data: dict, name: str, op: str) -> tuple:
    rows = [(t["way"], f"{t['milliseconds'][MEDIAN]:,.2f} ms") for t in data["ngram_ms"]] if name == "ngram" else []
    shape = data["shape"]
    what = f"all {shape['steps']} steps of {shape['sentences']} sentences with {shape['beams']} beams, n = {shape['n']}"
    return what, ("version", "time"), rows


def hars(data: dict, name: str, op: str) -> tuple:
    timed = [t for t in data.get(f"{name}_ms", []) if t["vocabulary"] == 50257 and t["beams"] in (1, 4, 32)]
    ways = list(timed[0]["milliseconds"]) if timed else []
    rows = [(way, *(f"{t['milliseconds'][way][MEDIAN]:,.3f} ms" for t in timed)) for way in ways]
    return "one sentence, V = 50,257", ("version", *(f"beams: {t['beams']}" for t in timed)), rows


def skinny_gemm(data: dict, name: str, op: str) -> tuple:
    product = next(p for p in data["products"] if (p["model"], p["product"]) == ("gpt2", "up"))
    sizes, times = (1, 4, 32), {(t["way"], t["rows"]): t["milliseconds"][MEDIAN] for t in product["times"]}
    ways = dict.fromkeys(way for way, _ in times) if name == "linear" else ()
    rows = [(way, *(f"{times[way, n]:.3f} ms" for n in sizes)) for way in ways]
    return "GPT-2's product of 768 x 3072, one thread", ("code", *(f"rows: {n}" for n in sizes)), rows


def int8_gemm(data: dict, name: str, op: str) -> tuple:
    timed = [p for p in data["products"] if p["product"] == "up" and p["rows"] in (1, 16, 128)]
    ways = ("int8_dynamic", "int8", "float32") if name == "linear_int8" else ()
    rows = [(f"`dtype={way}`", *(f"{p['milliseconds'][way]:.3f} ms" for p in timed)) for way in ways]
    return "GPT-2's product of 768 x 3072", ("code", *(f"rows: {p['rows']}" for p in timed)), rows


def caches(data: dict, name: str, op: str) -> tuple:
    timed = [t for t in data["rows"] if t["op"].startswith(f"{name}, ")]
    rows = [
        (t["op"].split(", ")[1], t["positions"], *(f"{t['milliseconds'][d][MEDIAN]:.3f} ms" for d in HALVES))
        for t in timed
    ]
    shape = data["shape"]
    what = f"{shape['beams']} beams, {shape['heads']} heads of {shape['width']}, {shape['generated']} generated"
    return what, ("version", "positions", *(f"cache in {d}" for d in HALVES)), rows


HALVES = ("float32", "float16")


def el_attention(data: dict, name: str, op: str) -> tuple:
    timed = [t for t in data["figure_4"] if t["W"] == 4] if name == "el" else []
    ways = ("cache per beam", "cache per sentence", "el")
    rows = [(t["N"], *(f"{t['ms_per_sentence'][way][MEDIAN]:.2f} ms" for way in ways)) for t in timed]
    return "a step's attention at BART-large's sizes, a sentence of 4 beams", ("positions", *ways), rows


def step_profile(data: dict, name: str, op: str) -> tuple:
    rows = [
        (s["model"], s["dtype"], s["launches"][op], f"{s['ops_ms'][op]:.3f} ms", f"{s['plain_ms']:.2f} ms")
        for s in data["steps"]
        if op in s["ops_ms"]
    ]
    return "all its calls in one decode step", ("model", "dtype", "calls", "this op", "the step"), rows


# On an H100


def kernels(data: dict, name: str, op: str) -> tuple:
    """The lines that the scripts for GPUs printed."""
    for read in (vocabulary, attention, products, bans):
        what, head, rows = read(data["lines"], name)
        if rows:
            return f"{what}. {data['date']}", head, rows
    return "", (), []


def vocabulary(lines: dict, name: str) -> tuple:
    rows = found(rf"{name} +cuda( v\d)? +(\S+) +(\S+) +(\S+) +(\S+) +(\d+%)", lines["vocab"])
    head = ("kernel", *(f"rows: {n}" for n in (1, 4, 32, 128)), "of a copy's speed, on 1 GB")
    return "microseconds of a call in a graph", head, [(v.strip() or "newest", *more) for v, *more in rows]


def attention(lines: dict, name: str) -> tuple:
    script = ast.parse((ROOT / "benchmarks" / "gpu_attention.py").read_text(encoding="utf-8"))
    shapes = next(ast.literal_eval(n.value) for n in script.body if ast.unparse(n).startswith("SHAPES = "))
    rows = found(r"(.+?) {2,}(v\d) +(\S+ us) +(\d+%)", lines["attention"])
    head = ("shape", "kernel", "time", "of a copy's speed")
    return "attention of one step, in a graph", head, [r for r in rows if shapes[r[0]][0] == name]


def products(lines: dict, name: str) -> tuple:
    best: dict = {}
    for dtype, n, us in found(r"dtype (\S+) rows (\d+) .*gpt2 head \(\d+, (\S+)\)", lines["linear"]):
        best[dtype, int(n)] = min(best.get((dtype, int(n)), 1e9), float(us))
    dtypes, sizes = dict.fromkeys(d for d, _ in best), sorted({n for _, n in best})
    rows = [(d, *(f"{best[d, n]:.1f}" for n in sizes)) for d in dtypes] if name == "linear" else []
    what = "microseconds of the product with GPT-2's vocabulary, before the last change of that day"
    return what, ("weights", *(f"rows: {n}" for n in sizes)), rows


def bans(lines: dict, name: str) -> tuple:
    rows = found(r"ban of n-grams, (.+): (\S+ ms), ", lines["vocab"]) if name == "ngram" else []
    return "one call with FastSeq's sizes", ("kernel", "time"), rows


def found(pattern: str, lines: Iterable[str]) -> list[tuple[str, ...]]:
    return [match.groups(default="") for line in lines if (match := re.match(pattern, line))]


READERS = {
    "ops-cpu": compared, "ngram-cpu": ngram, "hars-cpu": hars, "skinny-gemm-cpu": skinny_gemm,
    "int8-gemm-cpu": int8_gemm, "low-precision-caches-cpu": caches, "el-attention-cpu": el_attention,
    "step-profile-cpu": step_profile, "gpu-h100-kernels": kernels,
}  # fmt: skip
