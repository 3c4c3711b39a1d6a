"""Kernels, products and bytes of one layer, naive and fused (LightSeq, section 2.1 and Figure 2).

    python benchmarks/launches.py --out benchmarks/results/launches.json --readme benchmarks/README.md

A layer is what a model with one layer more does more. Fused: the kernels of the catalog, in the emulator, counted where
they are launched; products are the library's, counted there too, and those with weights at the proxy of the ops. Naive:
every operation on an array counts, as a framework without fusion would launch a kernel for it; the arrays count them.
Launches are counted with few numbers; bytes are those of BART-base and GPT-2. Fused bytes are the cost models',
with the scores of `within`, which its two products and its kernel hand to each other.

"Ended" is fused with epilogue=... in the plan: products end in bias, activation and residual, one kernel each, which is
counted as a product here.

Fusions are groups of ops, each with its launches and bytes in both forms. What one gains on an H100 is predicted: the
launches that it saves, at 1.07 us in a captured graph, and the bytes, at 2.4 TB/s.

A last table times the products that could add into the residual (LightSeq's GEMM with beta = 1) on this CPU, in one
thread, by that thread's own clock.

Takes about half a minute. Prints the table; writes all figures to --out, and the tables between the marks of --readme.
"""

from __future__ import annotations

import argparse
import inspect
import time

import numpy as np
from flags import check_heads, file_to_write, positive
from readme import with_marks, write_between_markers
from records import write_record
from threadpoolctl import threadpool_limits

from minidecode import ops as signatures
from minidecode.bench.compare import describe_machine, time_by_turns
from minidecode.bench.elementary import Counts, run_on_counting_arrays
from minidecode.catalog import CATALOG
from minidecode.cuda import prefill
from minidecode.device.launch import InEmulator, counted_launches
from minidecode.device.low_precision import map_weights, with_joined_matrices
from minidecode.device.matmul import PRODUCT
from minidecode.files.published import random_tensors
from minidecode.models import FAMILIES
from minidecode.ops import Norm, Weight
from minidecode.plan import Plan, is_called, ops_of_caches
from minidecode.reference import linear as linear_file
from minidecode.reference import norm as norm_file
from minidecode.runtime.engine import Engine
from minidecode.runtime.receipt import CountedOps, bytes_moved_by

LAYERS = ("BART encoder", "BART decoder", "GPT-2")
FUSED = "split"  # the cache of a step
NAIVE = "replicated"
FUSIONS = {  # what is fused -> the ops of both forms; products with weights are left alone, but by epilogue=...
    "bias, residual and norm": ("residual_norm",),
    "bias and activation": ("bias_activation",),
    "bias, heads and cache": ("split_heads", "append_kv", "concat_step", "pad_left"),
    "attention": ("attend_prefill", "attend", "attend_shared", "attend_split"),
}
FEW = 8, 2, 5  # width, heads and tokens that launches are counted with
LAUNCH_US, COPY = 1.07, 2.4e6  # of an H100: a kernel in a graph, and a copy's bytes a microsecond, both ways


# ---- what a layer does -----------------------------------------------------------------------------------------------


def difference_of_one_layer(layer: str, D: int, H: int, lengths: list[int], functions, cache: str, count) -> tuple:
    """What `count(ops, run)` finds in a model with two such layers beyond what it finds in one with one.

    run: an encoder's pass over texts of these lengths, or a decode step behind them with two beams each.
    """
    counts = []
    for layers in (1, 2):
        family, weights = model_of(layer, layers, D, H)
        ops = CountedOps(functions)
        engine = Engine(family.network, weights, ops, Plan(cache=cache).resolve(layer != "GPT-2")[1])
        counts.append(count(ops, run_of_layers(layer, engine, [np.zeros(n, np.int64) for n in lengths])))
    return tuple(two - one for one, two in zip(*counts, strict=True))


def counts_of_growth(totals):
    """A `count` for `difference_of_one_layer`: what the run adds to each of totals()."""

    def count(ops, run):
        before = totals()
        run()
        return tuple(b - a for a, b in zip(before, totals(), strict=True))

    return count


def model_of(layer: str, layers: int, D: int, H: int) -> tuple:
    """(family, random weights) of a model with so many of these layers, and one of each other kind."""
    fields = {"vocab_size": 40}
    if layer == "GPT-2":
        family = FAMILIES["gpt2"]
        fields |= {"n_layer": layers, "n_embd": D, "n_head": H}
    else:
        family, fields["d_model"] = FAMILIES["bart"], D
        for side in ("encoder", "decoder"):
            fields |= {f"{side}_layers": 1, f"{side}_ffn_dim": 4 * D, f"{side}_attention_heads": H}
        fields[f"{layer.split()[1]}_layers"] = layers
    config = family.config.from_json(fields)
    tensors = random_tensors(family.network.tensor_shapes(config), np.dtype(np.float32))
    return family, map_weights(family.network.bind(config, tensors), lambda place, weight: with_joined_matrices(weight))


def run_of_layers(layer: str, engine: Engine, texts: list[np.ndarray]):
    """All that comes before is done; the call that is left runs the layers in question."""
    if layer == "BART encoder":
        return lambda: engine.encode(texts)
    if layer == "BART decoder":
        engine.encode(texts)
        texts = [np.zeros(1, np.int64)] * len(texts)
    engine.prefill(texts)
    engine.expand(beams=2, steps=2)
    rows = 2 * len(texts)
    length_R = np.repeat([len(text) + 1 for text in texts], 2)
    tokens_RM = np.zeros((rows, length_R.max()), np.int64)
    return lambda: engine.step(tokens_RM, length_R, None)


def rows_of(layer: str) -> list[str]:
    """The rows of the catalog that such a model calls, under the cache of the fused side; products are no kernels."""
    return [
        row.name
        for row in CATALOG.values()
        if not row.may_be_off
        and not row.spelled
        and row.op != "linear"
        and not row.with_dynamic
        and not row.of_rotary
        and is_called(row, FUSED, layer != "GPT-2")
    ]


def fused_launches(layer: str, ended: bool = False) -> dict:
    """{"kernels", "products"} of a layer, in the emulator, over texts of different lengths.

    Attention inside texts is version 2, as in LightSeq: two products for all texts. Newer ones have a kernel for short
    texts, and go text by text through long ones.

    ended: products end in bias, activation and residual; a kernel that multiplies is a product.
    "without": calls of ops that have no kernel, so that nothing is left out in silence.
    """
    rows = [name for name in rows_of(layer) if not (ended and name in CATALOG["epilogue"].instead_of)]
    plan = Plan(cache=FUSED, epilogue="emulator" if ended else "off", **dict.fromkeys(rows, "emulator"))
    functions = plan.resolve(layer != "GPT-2")[0] | {"attend_prefill": InEmulator(prefill.attend_prefill_v2)}

    def count(ops, run):
        before = {name: c.calls for name, c in ops.counts().items()}
        with counted_launches() as launched:
            run()
        calls = {name: c.calls - before.get(name, 0) for name, c in ops.counts().items()}
        products = sum(n for kernel, n in launched.items() if kernel.startswith(PRODUCT))
        plain = sum(n for op, n in calls.items() if op != "linear" and not isinstance(functions[op], InEmulator))
        endings = calls.get("linear_epilogue", 0)
        return sum(launched.values()) - products - endings, products + calls["linear"] + endings, plain

    counts = difference_of_one_layer(layer, 4, 2, [1, 2], functions, FUSED, count)
    return dict(zip(("kernels", "products", "without"), counts, strict=True))


def naive_launches(layer: str, D: int, H: int, length: int) -> dict:
    """{"kernels", "products", "bytes"} of a layer, over one text: each operation on an array by itself."""
    by_op = naive_by_op(layer, D, H, length)
    return {what: sum(counts[what] for counts in by_op.values()) for what in ("kernels", "products", "bytes")}


def naive_by_op(layer: str, D: int, H: int, length: int) -> dict[str, dict]:
    """Op -> {"kernels", "products", "bytes"} of all its calls in a layer.

    Launches are counted with few numbers: NumPy's code goes over large arrays in pieces, where a framework would not.
    """
    few, whole = (counted_by_op(layer, *sizes) for sizes in (FEW, (D, H, length)))
    return {op: few[op] | {"bytes": whole[op]["bytes"]} for op in few}


def counted_by_op(layer: str, D: int, H: int, length: int) -> dict[str, dict]:
    """The same, as they are counted at these sizes."""
    plan = Plan(**{name: "naive" for name in rows_of(layer) if CATALOG[name].op not in ops_of_caches()}, cache=NAIVE)
    functions, _ = plan.resolve(layer != "GPT-2")
    counts = {op: Counts() for op in functions}
    counted = {op: run_on_counting_arrays(function, counts[op]) for op, function in functions.items()}

    added = counts_of_growth(lambda: [number for each in counts.values() for number in each])
    numbers = iter(difference_of_one_layer(layer, D, H, [length], counted, plan.cache, added))
    by_op = zip(counts, zip(numbers, numbers, numbers, strict=True), strict=True)
    return {op: dict(zip(("kernels", "products", "bytes"), three, strict=True)) for op, three in by_op}


def fused_bytes(layer: str, D: int, H: int, length: int, ended: bool = False) -> int:
    """By the cost models of the catalog."""
    return sum(bytes_by_op(layer, D, H, length, ended).values())


def bytes_by_op(layer: str, D: int, H: int, length: int, ended: bool = False) -> dict[str, int]:
    """Op -> bytes of all its calls in a layer, by the cost models of the catalog."""
    functions, _ = Plan(cache=FUSED, epilogue="reference" if ended else "off").resolve(layer != "GPT-2")
    rows, total = {row.op: row for row in CATALOG.values()}, dict.fromkeys(functions, 0)

    def modelled(op, function):
        tables = {i for i, p in enumerate(inspect.signature(function).parameters) if p in signatures.TABLES.get(op, ())}

        def call(*args, **more):
            result = function(*args, **more)
            in_row = op in rows
            total[op] += rows[op].cost(*args, **more).bytes if in_row else bytes_moved_by(args, more, result, tables)
            if op == "attend_prefill":  # the scores: written, read and written again, read; the result head by head
                (R, heads, _), longest = args[0].shape, int(np.diff(args[4]).max())
                total[op] += 4 * R * heads * longest * result.itemsize + 2 * result.nbytes
            return result

        return call

    counted = {op: modelled(op, function) for op, function in functions.items()}
    added = counts_of_growth(lambda: list(total.values()))
    return dict(zip(total, difference_of_one_layer(layer, D, H, [length], counted, FUSED, added), strict=True))


def launches_by_op(layer: str) -> dict[str, int]:
    """Op -> launches of all its calls in a fused layer, in the emulator; the library's products among them."""
    plan = Plan(cache=FUSED, **dict.fromkeys(rows_of(layer), "emulator"))
    functions = plan.resolve(layer != "GPT-2")[0] | {"attend_prefill": InEmulator(prefill.attend_prefill_v2)}
    total = dict.fromkeys(functions, 0)

    def counted(op, function):
        def call(*args, **more):
            with counted_launches() as launched:
                result = function(*args, **more)
            total[op] += sum(launched.values())
            return result

        return call

    by_op = {op: counted(op, function) for op, function in functions.items()}
    added = counts_of_growth(lambda: list(total.values()))
    return dict(zip(total, difference_of_one_layer(layer, 4, 2, [1, 2], by_op, FUSED, added), strict=True))


def fusions(layer: str, D: int, H: int, length: int) -> list[dict]:
    """Of each fusion the launches and bytes of both forms."""
    naive, launched, moved_bytes = (
        naive_by_op(layer, D, H, length),
        launches_by_op(layer),
        bytes_by_op(layer, D, H, length),
    )
    found = []
    for fusion, ops in FUSIONS.items():
        apart = [naive[op] for op in ops if op in naive]
        launches = sum(c["kernels"] + c["products"] for c in apart), sum(launched.get(op, 0) for op in ops)
        all_bytes = sum(c["bytes"] for c in apart), sum(moved_bytes.get(op, 0) for op in ops)
        sides = ({"launches": n, "bytes": b} for n, b in zip(launches, all_bytes, strict=True))
        found.append({"fusion": fusion} | dict(zip(("naive", "fused"), sides, strict=True)))
    return found


# ---- tables ----------------------------------------------------------------------------------------------------------


def gain_us(launches: int, saved_bytes: int) -> float:
    """What an H100 should save by so many launches and bytes less."""
    return launches * LAUNCH_US + saved_bytes / COPY


def table(record: dict) -> str:
    """A line for each layer: launches and bytes of the three forms."""
    lines = [
        "| layer | kernels, naive | fused | ended | GEMMs, naive | fused | MB, naive | fused | ended |",
        "|---" * 9 + "|",
    ]
    for found in record["layers"]:
        naive, fused, ended = (found[side] for side in ("naive", "fused", "ended"))
        counts = [naive["kernels"], fused["kernels"], ended["kernels"], naive["products"], fused["products"]]
        megabytes = [f"{side['bytes'] / 1e6:.0f}" for side in (naive, fused, ended)]
        lines.append(f"| {counts_in_words(found)} | {' | '.join(map(str, [*counts, *megabytes]))} |")
    return "\n".join(lines)


def table_of_fusions(record: dict) -> str:
    """A line for each fusion of each layer, with what it should gain; the last of a layer ends products."""
    lines = ["| layer | fusion | launches, naive | fused | MB, naive | fused | predicted gain, us |", "|---" * 7 + "|"]

    def add(layer: str, fusion: str, before: dict, after: dict) -> None:
        gain = gain_us(before["launches"] - after["launches"], before["bytes"] - after["bytes"])
        cells = [
            before["launches"],
            after["launches"],
            f"{before['bytes'] / 1e6:.2f}",
            f"{after['bytes'] / 1e6:.2f}",
            f"{gain:.1f}",
        ]
        lines.append(f"| {layer} | {fusion} | {' | '.join(map(str, cells))} |")

    for found in record["layers"]:
        for fusion in found["fusions"]:
            if fusion["naive"]["launches"]:
                add(counts_in_words(found), fusion["fusion"], fusion["naive"], fusion["fused"])
        sides = [
            {"launches": found[s]["kernels"] + found[s]["products"], "bytes": found[s]["bytes"]}
            for s in ("fused", "ended")
        ]
        add(counts_in_words(found), "products ended by `epilogue`, whole layer", *sides)
    return "\n".join(lines)


def counts_in_words(found: dict) -> str:
    return found["layer"] if "encoder" in found["layer"] else f"{found['layer']}, a step"


# ---- a product that adds into the residual ---------------------------------------------------------------------------


def into_the_residual(rows: int, width: int, repeats: int) -> dict:
    """Milliseconds of a product and the norm behind it: the product by itself, or added into the residual.

    Either way five arrays of rows x width move: y is written and read, or x read and written once more by the product.
    """
    rng = np.random.default_rng(0)
    x_RD, a_RX = (rng.standard_normal((rows, n)).astype(np.float32) for n in (width, 4 * width))
    weight = Weight(rng.standard_normal((4 * width, width)).astype(np.float32))
    gain_D, shift_D, bias_D = rng.standard_normal((3, width)).astype(np.float32)
    norm = Norm(gain_D, shift_D, 1e-5)

    def by_itself(x_RD):
        return norm_file.residual_norm(x_RD, linear_file.linear(a_RX, weight), bias_D, norm)

    def added(x_RD):
        linear_file.linear(a_RX, weight, add_to=x_RD)
        return norm_file.residual_norm(x_RD, np.broadcast_to(bias_D, x_RD.shape), None, norm)

    apart = max(float(np.abs(a - b).max()) for a, b in zip(by_itself(x_RD.copy()), added(x_RD.copy()), strict=True))
    calls = {"by itself": (by_itself, (x_RD,)), "added": (added, (x_RD,))}
    timings = time_by_turns(calls, repeats, clock=time.thread_time)
    return {t.implementation: round(1e3 * t.median, 3) for t in timings} | {"rows": rows, "apart": apart}


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--width", type=positive, default=768)
    p.add_argument("--heads", type=positive, default=12)
    p.add_argument("--length", type=positive, default=512, help="tokens of the text that bytes are counted for")
    p.add_argument("--repeats", type=positive, default=9, help="turns that are timed")
    p.add_argument("--note", default="", help="what else ran on the machine meanwhile")
    p.add_argument("--out", type=file_to_write, help="JSON file to write")
    p.add_argument("--readme", type=with_marks("layers", "fusions"), help="page whose two tables are replaced")
    a = p.parse_args()
    check_heads(p, a)
    size, layers = (a.width, a.heads, a.length), []
    print(f"{'layer':<14}{'':<8}{'kernels':>8}{'products':>10}{'MB':>9}")
    with threadpool_limits(1):
        for layer in LAYERS:
            fused = fused_launches(layer) | {"bytes": fused_bytes(layer, *size)}
            ended = fused_launches(layer, ended=True) | {"bytes": fused_bytes(layer, *size, ended=True)}
            layers.append({"layer": layer, "naive": naive_launches(layer, *size), "fused": fused, "ended": ended,
                           "fusions": fusions(layer, *size)})  # fmt: skip
            for side in ("naive", "fused", "ended"):
                c = layers[-1][side]
                left = f"  (and {c['without']} without a kernel)" if c.get("without") else ""
                print(f"{layer:<14}{side:<8}{c['kernels']:>8}{c['products']:>10}{c['bytes'] / 1e6:>9.2f}{left}")
        residual = [into_the_residual(rows, a.width, a.repeats) for rows in (8, 512)]
    for r in residual:
        print(f"{r['rows']} rows: product and norm {r['by itself']} ms; added into the residual {r['added']} ms")
    if a.out:
        settings = {
            "machine": describe_machine() | {"note": a.note},
            "width": a.width,
            "heads": a.heads,
            "length": a.length,
        }
        write_record(a.out, {**settings, "layers": layers, "residual_ms": residual})
    print(f"\n{table({'layers': layers})}\n\n{table_of_fusions({'layers': layers})}")
    if a.readme:
        write_between_markers(a.readme, "layers", table({"layers": layers}))
        write_between_markers(a.readme, "fusions", table_of_fusions({"layers": layers}))


if __name__ == "__main__":
    main()
