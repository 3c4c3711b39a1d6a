"""What `minidecode predict` reads: counts of kernels and blocks; and its predictions beside an H100's figures.

    python benchmarks/multiprocessor.py --counts        # minidecode/bench/kernel_counts.json: after kernels changed
    python benchmarks/multiprocessor.py --measured      # benchmarks/results/multiprocessor-h100.json
    python benchmarks/multiprocessor.py                 # predicts anew, after the model changed, and prints the table

With a flag it needs the extra `ptx`: kernels are compiled and disassembled, and blocks are emulated. What is there
already is kept, unless --again. The measured shares are those of gpu-h100-kernels.json, and eight of earlier kernels.
Takes half an hour for all, without a flag seconds. Prints each launch, and writes these files.
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import itertools
import json
import re
from functools import partial
from pathlib import Path

import gpu_attention
import numpy as np
from gpu_linear import BYTES, LARGE, LARGE_INPUTS, OF_5, SHAPES, kernel_with
from records import in_short

from minidecode.bench import predict
from minidecode.bench.compare import implementations, ways_to_store
from minidecode.bench.multiprocessor import H100, Code, bandwidth_by_littles_law, bytes_moved
from minidecode.catalog import CATALOG
from minidecode.cuda import linear, shared
from minidecode.emulator.one_block import Asked
from minidecode.errors import EmulationError
from minidecode.ops import Weight

RESULTS = Path(__file__).with_name("results")
OUT, KERNELS = RESULTS / "multiprocessor-h100.json", RESULTS / "gpu-h100-kernels.json"
# Shares in %, 1 GB, of the kernels of commit dc527bcc (2026-11-26), which are versions today.
BEFORE = {
    ("linear", "cuda v3"): 14, ("split", "cuda v4"): 14, ("shared", "cuda v4"): 15, ("candidates", "cuda v3"): 10,
    ("softmax", "cuda v2"): 23, ("argmax", "cuda v2"): 29, ("norm", "cuda v3"): 39, ("activation", "cuda v3"): 48,
}  # fmt: skip
ATTENTION = ("1 GB", "BART-large, 32 x 4 beams, float32")
FILLED = 2_000_000  # numbers of an array that are drawn: the first rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--counts", action="store_true", help="write kernel_counts.json")
    parser.add_argument("--measured", action="store_true", help="write multiprocessor-h100.json")
    parser.add_argument("--again", action="store_true", help="count again what was counted before")
    args = parser.parse_args()
    if args.counts:
        write_counts(args.again)
    if args.measured:
        write_measured(args.again)
    book = with_predictions(json.loads(OUT.read_text(encoding="utf-8")))
    write(OUT, book)
    print(table(book))


def write_counts(again: bool) -> None:
    """Every op that has kernels: of products all ways to store weights, else the one that `predict` takes."""
    book = {"counts": {}, "works": {}} if again else predict.read_recorded_counts()
    predict.read_recorded_counts.cache_clear()
    predict.read_recorded_counts = lambda: book  # what is counted on the way is not counted twice
    for name, row in CATALOG.items():
        if not (versions := predict.kernel_versions(row)):
            continue
        for stored in ways_to_store(name) if name == "linear" else [predict.usual_way_to_store(name)]:
            kept = book["works"].get(f"{name} {stored}")
            if kept and {*kept["versions"], *kept.get("left_out", ())} == set(versions):
                continue
            counted = predict.count_versions(row, predict.MEGABYTES, stored)
            for launched in counted.versions.values():
                book["counts"] |= {one.kernel: round_fields(one.code) for one in launched if one.code}
            works = {k: [[one.kernel, round_fields(one.work)] for one in v] for k, v in counted.versions.items()}
            work = {"shape": counted.shape, "useful": counted.useful, "versions": works}
            book["works"][f"{name} {stored}"] = work | ({"left_out": counted.left_out} if counted.left_out else {})
            print(name, stored, works, counted.left_out, flush=True)
            write(predict.COUNTS, book | {"works": {name: in_groups(work) for name, work in book["works"].items()}})


def in_groups(work: dict) -> dict:
    """The same work, with equal launches that follow one another as one, and their number."""
    versions = {
        label: [[*one, len(list(group))] for one, group in itertools.groupby(launches)]
        for label, launches in work["versions"].items()
    }
    return work | {"versions": versions}


def write(path: Path, book: dict) -> None:
    """A line for each kernel, op and case, so that a change shows as one; no blanks, for there are many."""
    parts = []
    for name, value in book.items():
        if isinstance(value, dict) and name != "machine":
            inner = ",\n".join(f"{in_short(k)}:{in_short(v)}" for k, v in sorted(value.items()))
            parts.append(f"{in_short(name)}:{{\n{inner}\n}}")
        elif isinstance(value, list):
            inner = ",\n".join(map(in_short, value))
            parts.append(f"{in_short(name)}:[\n{inner}\n]")
        else:
            parts.append(f"{in_short(name)}:{in_short(value)}")
    path.write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")


def round_fields(counted: Code | Asked | predict.Product) -> list:
    """Its numbers, of fractions five digits."""
    return [n if isinstance(n, int) else whole_or_fraction(float(f"{n:.5g}")) for n in dataclasses.astuple(counted)]


def whole_or_fraction(number: float) -> int | float:
    return int(number) if number.is_integer() else number


def write_measured(again: bool) -> None:
    """Every measured launch that can be made again here, with its counts."""
    there = json.loads(KERNELS.read_text(encoding="utf-8"))
    book = {
        "machine": there["machine"], "date": there["date"],
        "what": "shares of a copy's bandwidth in %, measured; and the counts that multiprocessor.py predicts them by:"
        " kernels by their fields of Code, launches by those of Asked. 'before': the kernels of commit dc527bcc",
        "counts": {}, "cases": [],
    }  # fmt: skip
    if OUT.exists() and not again:
        book = json.loads(OUT.read_text(encoding="utf-8"))
    known = {(case["set"], case["name"]) for case in book["cases"]}
    for group, name, share, useful, call in measured_cases(there["lines"]):
        if (group, name) in known:
            continue
        try:
            launched = predict.record_launches_of_call(call)
        except EmulationError as error:  # a variant that was measured before it was found to be wrong
            print(group, name, error, flush=True)
            continue
        book["counts"] |= {one.kernel: round_fields(one.code) for one in launched}
        launches = [[one.kernel, round_fields(one.work)] for one in launched]
        book["cases"].append({"set": group, "name": name, "share": share, "useful": useful, "launches": launches})
        write(OUT, book)
        print(group, name, flush=True)


def measured_cases(lines: dict[str, list[str]]):
    """(set, name, share in %, bytes that must move, the call)."""
    for (name, label), share in BEFORE.items():
        row = CATALOG[name]
        stored = "float16" if name == "linear" else None
        arguments, _, useful = predict.enlarge_paper_inputs(row, predict.MEGABYTES, stored)
        yield "before", f"{name} {label}", share, int(useful), partial(implementations(row)[label], *arguments)
    yield from products(lines["linear"][1:])
    yield from vocabularies(lines["vocab"][1:])
    yield from attentions(lines["attention"][1:])


def products(lines: list[str]):
    pattern = rf"dtype (\w+) rows (\d+) tiles, steps (\(\d, \d\)|{OF_5}) warps \d+ off \S+ 1 GB (\d+) (.*)"
    for line in lines:
        dtype, rows, constants, share, others = re.match(pattern, line).groups()
        rows = int(rows)
        made = kernel_with(dtype, rows, constants if constants == OF_5 else ast.literal_eval(constants))
        shapes = {"1 GB": (LARGE_INPUTS, int(LARGE / BYTES[dtype] / LARGE_INPUTS), int(share))}
        for model, layer in (("gpt2", "qkv"), ("gpt2", "head")):
            shapes[f"{model} {layer}"] = (
                *SHAPES[model][layer][:2],
                int(re.search(rf"{model} {layer} \((\d+)", others)[1]),
            )
        for shape, (inputs, outputs, measured) in shapes.items():
            x_RX, y_RX = drawn_array((rows, inputs)), np.empty((rows, outputs), np.float32)
            call = partial(linear.launch_few_rows, made, x_RX, random_weight(dtype, outputs, inputs), None, y_RX)
            name = f"{dtype}, {rows} rows, {constants}, {shape}"
            yield "linear", name, measured, int(inputs * outputs * BYTES[dtype]), call


def random_weight(dtype: str, outputs: int, inputs: int) -> Weight:
    if dtype in ("float32", "float16"):
        return Weight(drawn_array((outputs, inputs), dtype), layout="oi")
    data = drawn_array((outputs, inputs // 2), np.uint8) if dtype == "int4" else drawn_array((outputs, inputs), np.int8)
    scale = drawn_array((outputs,)) if dtype == "int8" else drawn_array((outputs, inputs // 32), np.float16)
    return Weight(data, scale=scale, layout="oi")


def drawn_array(shape: tuple, dtype=np.float32) -> np.ndarray:
    """An array whose first rows hold random numbers, and the others zeros that take no memory."""
    array, rng = np.zeros(shape, dtype), np.random.default_rng(0)
    first = array[: max(1, FILLED // max(1, array[:1].size))]
    if array.size:
        first[...] = rng.standard_normal(first.shape) if array.dtype.kind == "f" else rng.integers(0, 100, first.shape)
    return array


def vocabularies(lines: list[str]):
    vocabulary, tokens = 50257, 8
    for line in lines:
        found = re.match(r"(\w+) +(cuda(?: v\d)?) +[\d.]+ +[\d.]+ +[\d.]+ +[\d.]+ +(\d+)%", line)
        if found is None or found[1] in ("beam_update", "top_k"):
            continue
        name, rows = found[1], 2672 if found[1] in ("softmax", "beam_scores", "temperature") else 5340
        x_RV = drawn_array((rows, vocabulary))
        arguments = {
            "candidates": (x_RV.reshape(rows // 4, -1), tokens), "argmax": (x_RV, x_RV), "softmax": (x_RV,),
            "hars": (x_RV, -np.abs(drawn_array((rows // 4, 4))), tokens), "temperature": (x_RV, 0.7),
            "beam_scores": (x_RV, x_RV[:, 0].copy()),
        }[name]  # fmt: skip
        call = partial(implementations(CATALOG[name])[found[2]], *arguments)
        yield "vocabulary", f"{name} {found[2]}", int(found[3]), int(CATALOG[name].cost(*arguments).bytes), call


def attentions(lines: list[str]):
    """Of large caches; in small ones a launch counts for most."""
    versions = {**gpu_attention.VERSIONS["shared"], "v3": shared.attend_shared_v3}
    for line in lines:
        name, label = line[:36].strip(), line[37:67].strip()
        if name not in ATTENTION or label not in versions:
            continue
        _, B, W, H, G, K, N, _, dtype = gpu_attention.SHAPES[name]
        cache = drawn_array((B, G, N, K), dtype), drawn_array((B, G, N, K), dtype), np.zeros(B, np.int64)
        q_RHK, out = drawn_array((B * W, H, K)), np.empty((B * W, H * K), np.float32)
        call = partial(versions[label], q_RHK, *cache, K**-0.5, out)
        share = int(re.search(r" (\d+)%", line)[1])
        yield "attention", f"{name}: {label}", share, 2 * B * N * G * K * np.dtype(dtype).itemsize, call


def predict_case(book: dict, case: dict) -> predict.Prediction:
    launched = [predict.Launched(key, Code(*book["counts"][key]), Asked(*work)) for key, work in case["launches"]]
    return predict.predict_call(H100, case["name"], launched, case["useful"])


def by_flight_alone(book: dict, case: dict) -> float:
    """The share that bytes in flight would allow, if nothing else were a limit."""
    seconds = 0.0
    for key, counted in case["launches"]:
        code, work = Code(*book["counts"][key]), Asked(*counted)
        seconds += min(case["useful"], bytes_moved(work)) / bandwidth_by_littles_law(H100, code, work)
    return case["useful"] / H100.bandwidth / seconds


def rank_correlation(x: list[float], y: list[float]) -> float:
    """Spearman's: the correlation of ranks, equal numbers sharing theirs."""

    def ranks(numbers: list[float]) -> np.ndarray:
        _, which, times = np.unique(numbers, return_inverse=True, return_counts=True)
        return (np.cumsum(times) - (times - 1) / 2)[which]

    return float(np.corrcoef(ranks(x), ranks(y))[0, 1])


def with_predictions(book: dict) -> dict:
    """The book with what is predicted now: of each case its share and limit; of each set how well they are ranked."""
    for case in book["cases"]:
        one = predict_case(book, case)
        case |= {"predicted": round(100 * one.share), "limit": one.limit}
    book["ranks"] = {}
    for group in ["all", *dict.fromkeys(case["set"] for case in book["cases"])]:
        cases = [case for case in book["cases"] if group in ("all", case["set"])]
        measured = [case["share"] for case in cases]
        model = rank_correlation([predict_case(book, case).share for case in cases], measured)
        flight = rank_correlation([by_flight_alone(book, case) for case in cases], measured)
        book["ranks"][group] = {"launches": len(cases), "model": round(model, 2), "in flight alone": round(flight, 2)}
    return book


def table(book: dict) -> str:
    lines = ["| measured | predicted | limited by | launch |", "|---|---|---|---|"]
    for case in book["cases"]:
        lines.append(f"| {case['share']} % | {case['predicted']} % | {case['limit']} | {case['set']}: {case['name']} |")
    for group, r in book["ranks"].items():
        words = f"rank correlation {r['model']:.2f}, of bytes in flight alone {r['in flight alone']:.2f}"
        lines.append(f"\n{group}: {r['launches']} launches, {words}")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
