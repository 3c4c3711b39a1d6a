"""Tables of what an H100 recorded: kernels beside goals, steps beside a prediction, the papers' ratios beside ours.

    python benchmarks/gpu_tables.py --readme benchmarks/README.md --papers docs/tables.md --front README.md

Reads benchmarks/results/gpu-h100.json, gpu-h100-kernels.json and launches.json, and needs no GPU. A figure that no file
has says "not measured"; shares of 1 GB are predicted too, as `minidecode predict` does, and what papers measured and no
GPU has run here. Takes a few seconds. Prints the tables; writes them between the marks of those pages.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterable
from pathlib import Path

from gpu_linear import SHAPES
from gpu_models import WORKS
from multi_query_speed import PAPER as MULTI_QUERY
from multi_query_speed import PAPERS_FIGURES
from ngram import PAPER_MS, ROW_BY_ROW, WAYS
from readme import with_marks, write_between_markers
from whole_models import PAPER as SPEEDUPS

from minidecode.bench.multiprocessor import H100, Product, combine_limits, seconds_of_product
from minidecode.bench.predict import predict

RESULTS = Path(__file__).parent / "results"
NOT_MEASURED = "not measured"
# TB/s of a copy, read and written: of the first one on that H100, which the goals' shares are of, and of the fastest.
GOALS_COPY, FASTEST_COPY = 2.48, H100.bandwidth / 1e12
BAN_IN_PAPER = PAPER_MS["baseline"] / PAPER_MS["GPU kernel"]


def load(name: str) -> dict:
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def markdown(head: tuple[str, ...], rows: Iterable[Iterable[str]]) -> str:
    lines = [f"| {' | '.join(cells)} |" for cells in (head, *rows)]
    return "\n".join([lines[0], "|---" * len(head) + "|", *lines[1:]])


# ---- what the kernels' scripts printed -------------------------------------------------------------------------------


class Kernels:
    """The recorded lines of the kernels' scripts, as numbers."""

    def __init__(self, record: dict):
        self.lines = record["lines"]

    def copy(self, script: str) -> float:
        """TB/s of the copy that the script's shares are of."""
        return float(re.search(r"([\d.]+) TB/s", self.lines[script][0])[1])

    def products(self, dtype: str, rows: int) -> list[dict]:
        """For each choice of constants: shares on 1 GB and of the models' shapes, and microseconds of each shape."""
        choices = []
        for line in self.lines["linear"]:
            if not line.startswith(f"dtype {dtype} rows {rows} "):
                continue
            shapes = re.findall(r"(gpt2|bart) (\w+) \((\d+), ([\d.]+)\)", line)
            figures = {name: int(re.search(rf"\b{name} (\d+)\b", line)[1]) for name in ("1 GB", "gpt2", "bart")}
            choices.append(figures | {(model, name): float(us) for model, name, _, us in shapes})
        return choices

    def attention(self, shape: str) -> tuple[float, int, int]:
        """Of the newest version: microseconds, its share, and the largest share of any setting that was tried."""
        found = [re.match(rf"{re.escape(shape)} {{2,}}(\S.*?) {{2,}}([\d.]+) us +(\d+)%", line)
                 for line in self.lines["attention"]]  # fmt: skip
        found = [match.groups() for match in found if match]
        newest = [(float(us), int(share)) for way, us, share in found if re.fullmatch(r"v\d", way)][-1]
        return *newest, max(int(share) for _, _, share in found)

    def vocabulary(self, op: str) -> tuple[list[float], int]:
        """Microseconds of the newest version for 1, 4, 32 and 128 rows, and its share on 1 GB."""
        (line,) = [line for line in self.lines["vocab"] if re.match(rf"{op} +cuda +\d", line)]
        *times, share, _ = line.split()[2:]
        return [float(us) for us in times], int(share[:-1])

    def chain(self, name: str, rows: int) -> float:
        (us,) = re.findall(rf"^{name}, {rows} rows: ([\d.]+) us$", "\n".join(self.lines["vocab"]), re.M)
        return float(us)

    def bans(self) -> dict[str, float]:
        """Way -> how many times as fast as the loop."""
        found = re.findall(r"^ban of n-grams, (.+): ([\d.]+) ms, ([\d,]+)x$", "\n".join(self.lines["vocab"]), re.M)
        return {way: float(times.replace(",", "")) for way, _, times in found}


# ---- kernels beside their goals --------------------------------------------------------------------------------------

WRITTEN, BY_HARS = r"softmax\+scores\+candidates(?:\+unravel)?\+update", r"hars(?:\+unravel)?\+update"  # as recorded
SHARED = ("BART-large, 8 x 4 beams", "BART-large, 32 x 4 beams", "1 GB")
OTHER_ATTENTION = (  # kernel, where, shape
    ("`split`", "GPT-2, 4 x 4 beams, 900 + 100 positions", "GPT-2, 4 x 4 beams, 900 + 100"),
    ("`split`", "GPT-2, 4 x 4 beams, 256 + 32 positions", "GPT-2, 4 x 4 beams, 256 + 32"),
    ("`indirect`", "GPT-2, 4 x 4 beams, 256 + 32 positions", "GPT-2, table, 4 x 4 beams, 256 + 32"),
    ("`grouped`", "Llama 8B, 16 rows, 2,048 positions", "Llama 8B, 16 rows, 2048"),
    ("`grouped`", "Llama 8B, 1 row, 2,048 positions", "Llama 8B, 1 row, 2048"),
    ("`grouped`", "multi-query, 128 rows, 128 positions", "multi-query, 128 rows, 128"),
)


L2_COPY = H100.l2_bandwidth / 1e6  # bytes a microsecond


def search_us(launches: int, waits: int, passes: int, rows: int) -> float:
    """Microseconds by the rules of cuda/: launches, loads that wait, passes over logits that lie in the L2 cache."""
    return 1.1 * launches + 0.5 * waits + passes * rows * 50_257 * 4 / L2_COPY


def kernels_table(kernels: Kernels) -> str:
    """Each kernel's goal, the recorded and the predicted figure, and whether the first reached the goal."""
    lines = []

    def row(kernel: str, where: str, goal: str, recorded: str, reached: bool | None, predicted: str = "") -> None:
        state = {True: "reached", False: "**missed**", None: NOT_MEASURED}[reached]
        lines.append((kernel, where, goal, recorded, predicted, state))

    for dtype in ("float16", "float32", "int8", "int8_blocks", "int4"):
        best = [max(c["1 GB"] for c in kernels.products(dtype, rows)) for rows in (1, 4, 8)]
        row(f"`linear`, {dtype}", "1 GB; 1, 4, 8 rows", "80 %", range_in_percent(best), min(best) >= 80,
            f"4 rows: {predicted_percent('linear', kernels.copy('linear'), dtype)} %")  # fmt: skip
    for dtype in ("float16", "float32", "int8", "int8_blocks", "int4"):
        for model, name in (("gpt2", "GPT-2"), ("bart", "BART-large")):
            best = [max(c[model] for c in kernels.products(dtype, rows)) for rows in (1, 4, 8)]
            row(
                f"`linear`, {dtype}", f"shapes of {name}; 1, 4, 8 rows", "55 %", range_in_percent(best), min(best) >= 55
            )
    for shape in SHARED:
        _, share, _ = kernels.attention(shape)
        row("`shared`", shape, "75 %", range_in_percent([share]), share >= 75)
    for kernel, where, shape in OTHER_ATTENTION:
        _, share, best = kernels.attention(shape)
        tried = f" (best setting tried: {best} %)" if best > share else ""
        row(kernel, where, "75 %", range_in_percent([share]) + tried, share >= 75)
    # Tiles read shared memory five times for four products of a score, and three times for those of a weighted sum.
    reads = (5 / 4 + 3 / 4) * 16 * 1024**2 * 64 / 32
    one_pass = 1e3 * reads / (H100.count * H100.clock)
    row("`prefill`", "encoder, 1,024 positions", "distance to cuBLAS", "", None,
        f"one pass by tiles {one_pass:.1f} ms, by cuBLAS {ATTENTION_MS:.1f}")  # fmt: skip
    el, per_beam, shared = el_us(32, 4, 1024), per_beam_us(32, 4, 1024), kernels.attention(SHARED[1])[0]
    row("`el`, version 3", "32 x 4 beams, 1,024 positions", "EL's Figure 3", "", None,
        f"{per_beam / el:.1f}x a cache per beam, {shared / el:.1f}x `shared`")  # fmt: skip
    for op in ("softmax", "argmax", "candidates", "hars"):
        _, share = kernels.vocabulary(op)
        row(f"`{op}`", "1 GB, V = 50,257", "70 %", range_in_percent([share]), share >= 70,
            f"{predicted_percent(op, kernels.copy('vocab'))} %")  # fmt: skip
    for rows, goal in ((4, 6), (32, 10)):
        us, where = kernels.chain(WRITTEN, rows), f"{rows} rows in a graph"
        written, by_hars = search_us(7, 7, 6, rows), search_us(3, 4, 1, rows)
        row("log-softmax to update", where, f"{goal} us", f"{us:.1f} us", us <= goal, f"{written:.1f} us")
        state = state_by_prediction(by_hars <= goal)
        older = f"{kernels.chain(BY_HARS, rows):.1f} us, with a launch more"
        lines.append(("HARS to update", where, f"{goal} us", older, f"{by_hars:.1f} us", state))
    for op in ("norm", "activation", "embedding", "heads", "append", "reorder"):
        shares = {copy: predicted_percent(op, copy) for copy in (GOALS_COPY, FASTEST_COPY)}
        states = [f"{'reached' if share >= 85 else '**missed**'} beside {copy:g}" for copy, share in shares.items()]
        predicted = ", ".join(f"{share} % of {copy:g} TB/s" for copy, share in shares.items())
        lines.append((f"`{op}`", "1 GB", "85 %", "", predicted, f"{NOT_MEASURED}; by prediction {', '.join(states)}"))
    bans, paper = kernels.bans(), PAPER_MS["baseline"] / PAPER_MS["GPU kernel"]
    row(
        "`ngram`",
        "128 rows of 140 tokens, over the loop",
        f"{paper:.0f}x",
        f"{bans['cuda']:,.0f}x",
        bans["cuda"] >= paper,
    )
    float16 = products_us(kernels, "float16", 1)
    for dtype in ("int8", "int4"):
        us = products_us(kernels, dtype, 1)
        lines.append((dtype, "GPT-2 at one row, over float16", "faster", "", f"products: {us:.0f} us for {float16:.0f}",
                      state_by_prediction(us < float16)))  # fmt: skip
    return markdown(("kernel", "on", "goal", "recorded", "predicted", "state"), lines)


def state_by_prediction(reached: bool) -> str:
    """Of a goal that no GPU measured."""
    return f"{NOT_MEASURED}; {'reached' if reached else '**missed**'}, by prediction"


def predicted_percent(op: str, copy: float, stored: str | None = None) -> int:
    """The share of a copy of so many TB/s that `minidecode predict` gives the newest version."""
    return round(100 * predict(op, stored=stored).versions[-1].share * FASTEST_COPY / copy)


def range_in_percent(shares: list[int]) -> str:
    return f"{', '.join(map(str, shares))} %"


# ---- steps beside a prediction ---------------------------------------------------------------------------------------

# Microseconds that the headers of minidecode/cuda/ predict for few rows.
SMALL = {"norm_kept": 1.8, "activation_of_fours": 1.7, "activation_per_column": 1.7, "add_and_append": 1.6,
         "add_and_append_fours": 1.6, "move_in_registers": 2.1,
         "add_and_cut": 1.6, "embedding_kept": 2.3, "extend_rows": 2.3, "move_in_place": 2.1, "refresh_in_place": 2.3,
         "move_finished_down": 1.6, "write_flag_by_block": 1.8}  # fmt: skip
ROUND_AND_SCALE = 2 * 1.6  # around a product of the library with float16 weights
COPY = H100.copy / 1e6  # bytes a microsecond
SHORT = "gpt2, greedy, 1 x 32, 64 new"
GREEDY, BEAMS = "gpt2, greedy, 1 x 32, 256 new", "gpt2, beam 4, 4 x 256, 32 new, n-gram 3"
BART_8, BART_32 = "bart-large, beam 4, 8 x 1024, 32 new", "bart-large, beam 4, 32 x 1024, 32 new, n-gram 3"

BY_HAND = {BEAMS: 461, BART_8: 493, BART_32: 777}  # ms of transformers 5.17, eager, on that day, noted by hand


def products_us(kernels: Kernels, dtype: str, rows: int) -> float:
    """All products of a step of GPT-2: of the layers with the constants that are fastest for them, and the head."""
    choices, times = kernels.products(dtype, rows), {name: n for name, (*_, n) in SHAPES["gpt2"].items()}
    layers = min(sum(n * c["gpt2", name] for name, n in times.items() if name != "head") for c in choices)
    return layers + min(c["gpt2", "head"] for c in choices)


def library_us(rows: int, shapes: Iterable[tuple[int, int, int]] = SHAPES["bart"].values()) -> float:
    """All products of a step by the library, with float16 weights: rows come from the L2 cache, and count no bytes."""
    products = ((Product(1, 2 * inputs * outputs, 2 * rows * inputs * outputs), n) for inputs, outputs, n in shapes)
    return sum(n * (product_us(product) + ROUND_AND_SCALE) for product, n in products)


def product_us(product: Product) -> float:
    """The rule that `minidecode predict` has for the library."""
    return 1e6 * (product.calls * H100.product_launch + combine_limits(seconds_of_product(H100, product)))


def launches_of_step(work: dict) -> dict[str, int]:
    """Kernel -> its launches in a captured step, of those that the first pass launches as often, or never."""
    steps = work["graphs"]["launches"]
    counts = {name.partition(" (")[0]: n for name, n in work["kernels"].items()}
    return {name: n // steps if n % steps == 0 else n // (steps + 1) for name, n in counts.items()}


def mean_attention_us(kernels: Kernels) -> float:
    """A greedy step's, on average over 256 new tokens behind 32: between the two lengths that were timed."""
    short, long = (kernels.attention(f"GPT-2, greedy, 32 + {n}")[0] for n in (16, 256))
    return short + (long - short) * (128 - 16) / (256 - 16)


def steps_table(kernels: Kernels, models: dict) -> str:
    """A decode step as the sum of its kernels' figures, beside what was measured; and GPT-2's by int8 and int4."""
    works, ban = models["parts"]["ours"]["figures"], 1e3 * ban_ms(kernels)
    short, gpt2 = kernels.attention("GPT-2, greedy, 32 + 16")[0], "GPT-2, 4 x 4 beams, 256 + 32"
    crossed = [short + kernels.attention(shape)[0] for shape in SHARED[:2]]
    parts = {  # products, attention of a layer, search
        GREEDY: (products_us(kernels, "float16", 1), mean_attention_us(kernels), kernels.vocabulary("argmax")[0][0]),
        BEAMS: (products_us(kernels, "float16", 8), kernels.attention(gpt2)[0], kernels.chain(WRITTEN, 32) + ban),
        BART_8: (library_us(32), crossed[0], kernels.chain(WRITTEN, 32)),
        BART_32: (library_us(128), crossed[1], kernels.chain(WRITTEN, 128) + ban),
    }
    lines = []
    for work, (products, attention, search) in parts.items():
        small = sum(n * SMALL.get(name, 0) for name, n in launches_of_step(works[work]).items())
        shown = [products, 12 * attention, small, search]
        measured = 1e3 * works[work]["step_ms"]
        lines.append((f"{work}, float16", *(f"{us:.0f}" for us in shown), f"{sum(shown):.0f}", f"{measured:.0f}"))
    measured, float16 = 1e3 * works[GREEDY]["step_ms"], products_us(kernels, "float16", 1)
    for dtype in ("int8", "int4"):
        mine = products_us(kernels, dtype, 1)
        sum_of = f"{measured:.0f} - {float16:.0f} + {mine:.0f} = {measured - float16 + mine:.0f}"
        lines.append((f"{GREEDY}, {dtype}", f"{mine:.0f}", "", "", "", sum_of, NOT_MEASURED))
    head = ("a step, us", "products", "attention", "small launches", "search", "predicted", "measured")
    return markdown(head, lines)


def ban_ms(kernels: Kernels, way: str = "cuda") -> float:
    (ms,) = re.findall(rf"^ban of n-grams, {way}: ([\d.]+) ms", "\n".join(kernels.lines["vocab"]), re.M)
    return float(ms)


# ---- calls, with captured passes -------------------------------------------------------------------------------------

KERNEL_MS = 0.004  # of a kernel in a captured pass: a captured step of 113 kernels took 0.467 ms
HOST_MS = 0.02  # of a launch by Python around it: 12 us of the launch were measured, the rest is assumed
AROUND = 26 + 60  # of GPT-2: copies of what the graph computed, launches that make room for the steps
TENSOR_CORES = H100.float16_products / 1e15  # TFLOP a millisecond
ATTENTION_MS = 0.1  # of a source of 1,024 tokens and a layer (cuda/prefill.py)


def pass_ms(work: str) -> float:
    """What encoder and prefill of a call should take, captured: kernels, products and bytes.

    GPT-2's are short, so that the launches around the graph come on top. BART-large's device is busy meanwhile.
    """
    setting = WORKS[work]
    tokens = setting["batch"] * setting["length"]
    if setting["model"] == "gpt2":
        kernels = 205 if tokens < 512 else 335  # the longer prompts attend by products
        return kernels * KERNEL_MS + AROUND * HOST_MS + 2 * 85e6 * tokens / 1e12 / TENSOR_CORES
    encoder = 12 * (2 * 12.6e6 * tokens / 1e12 / TENSOR_CORES + setting["batch"] * ATTENTION_MS)
    each = 32 + 32 + 18 + 42 + 72  # bytes of a hidden number: norms, activation, heads, rows rounded, sums scaled
    arrays = 12 * tokens * 1024 * each / COPY / 1e3
    source = 12 * (2 * 1024 * 2048 * tokens / 1e12 / TENSOR_CORES + 2048 * 14 * tokens / COPY / 1e3)
    return encoder + arrays + source + 250 * KERNEL_MS


def calls_table(models: dict) -> str:
    """Each call as it was measured, with its passes launched one by one, and as it should be with captured ones."""
    lines = []
    for work in WORKS:
        ours = models["parts"]["ours"]["figures"][work]
        by_host = sum(ours["stages_ms"].get(stage, 0) for stage in ("encoder", "prefill"))
        call, captured = ours["call_ms"][0], pass_ms(work)
        predicted = call - by_host + captured
        goals = ", ".join(f"{goal:g}" + " **missed**" * (predicted > goal) for goal in WORKS[work]["goals"])
        goal = WORKS[work].get("passes_goal")
        of_passes = f"{goal} **missed**" if goal and by_host > goal else f"{goal} reached" if goal else ""
        cells = (f"{call:.1f}", f"{by_host:.1f}", of_passes, f"{captured:.1f}", f"{predicted:.1f}")
        lines.append((work, *cells, goals))
    head = ("a call, ms", "measured", "its passes", "their goal", "captured, predicted", "the call, predicted",
            "goals, by prediction")  # fmt: skip
    return markdown(head, lines)


# ---- what papers measured and no GPU has run here --------------------------------------------------------------------

CUPY_US = 8.9  # of an elementwise operation of CuPy's (tutorials/10_fusion.md)
GRAPH_US, DRIVER_US = 1.07, 1.6  # of a kernel in a graph; what the driver adds to a launch
BAN_TOKENS, LAYERS = 140, 12  # of a row, where the ban was timed; of a decoder
MULTI_QUERY_STEP = {"rows": 128, "source": 128, "own": 64}  # of one of the paper's eight cores, half way


def rungs_ms(kernels: Kernels, models: dict) -> dict[str, float]:
    """A call of BART-large by each technique: its passes as measured, and the steps.

    A step without a graph takes as long as its launches take the host, or the device, if that is longer. The device's
    is the measured step with another attention to the source. FairSeq's loop bans over texts that grow.
    """
    ours, new = models["parts"]["ours"]["figures"][BART_32], WORKS[BART_32]["new"]
    passes, shared = sum(ours["stages_ms"][stage] for stage in ("encoder", "prefill")), kernels.attention(SHARED[1])[0]

    def call(attention_us: float) -> float:
        device = ours["step_ms"] + LAYERS * (attention_us - shared) / 1e3
        return passes + new * max(HOST_MS * launches_of_bart(ours), device)

    per_beam, loop = call(per_beam_us(32, 4, 1024)), new * ban_ms(kernels, "loop with transfers") * (new + 1) / 2
    return {
        "baseline": per_beam + loop / BAN_TOKENS, "n-gram ban by a kernel": per_beam,
        "cache de-duplication": call(shared), "EL": call(el_us(32, 4, 1024)), "EL, version 2": call(el_version_2_us()),
        "captured steps": ours["call_ms"][0],
    }  # fmt: skip


def distilbart_times(kernels: Kernels, models: dict) -> float:
    """How many times as fast as FairSeq's way a call of BART-large with half of its decoder should be, all captured.

    Passes are those measured with all of it; head, search and ban do not depend on the layers.
    """
    ours, setting, rungs = models["parts"]["ours"]["figures"][BART_32], WORKS[BART_32], rungs_ms(kernels, models)
    passes = sum(ours["stages_ms"][stage] for stage in ("encoder", "prefill"))
    search = kernels.chain(WRITTEN, 4 * setting["batch"]) / 1e3 + ban_ms(kernels)
    beyond_layers = library_us(4 * setting["batch"], [SHAPES["bart"]["head"]]) / 1e3 + search
    step = beyond_layers + (ours["step_ms"] - beyond_layers) / 2
    per_beam = step + LAYERS / 2 * (per_beam_us(32, 4, 1024) - kernels.attention(SHARED[1])[0]) / 1e3
    loop = rungs["baseline"] - rungs["n-gram ban by a kernel"]
    by_host = HOST_MS * launches_of_bart(ours) / 2
    return (passes + setting["new"] * max(by_host, per_beam) + loop) / (passes + setting["new"] * step)


def launches_of_bart(work: dict) -> int:
    """Launches of a step: products of the library, with the kernels that round and scale, and all others."""
    around = ("product of the library", "round_rows", "scale_rows")
    others = sum(n for name, n in launches_of_step(work).items() if name not in around)
    return others + len(around) * sum(n for *_, n in SHAPES["bart"].values())


def per_beam_us(B: int, W: int, N: int, D: int = 1024) -> float:
    """Attention to a source whose float16 keys and values each beam has for itself: a launch, and their bytes."""
    return 1e6 * H100.launch + 2 * 2 * B * W * N * D / COPY


def el_us(B: int, W: int, N: int, D: int = 1024, H: int = 16) -> float:
    """The same by version 3 of cuda/el.py with `half`: four products, and a softmax that goes over 10 bytes a score."""
    heads = B * W * H
    by_weights = Product(1, 4 * (D * D + B * W * D + heads * D), 2 * B * W * D * D, 4)
    queries = Product(1, 2 * (B * N * D + heads * D) + 4 * heads * N, 2 * heads * N * D)
    values = Product(1, 2 * (B * N * D + heads * N) + 4 * heads * D, 2 * heads * N * D)
    softmax = 1e6 * H100.launch + 10 * heads * N / COPY
    return 2 * product_us(by_weights) + product_us(queries) + product_us(values) + softmax


def el_version_2_us(sentences: int = 32) -> float:
    """The same by version 2, which plans run, as `minidecode predict el` has it for many more sentences."""
    found = predict("el")
    each, times = re.match(r"(\d+) sentences .* (\d+) times", found.shape).groups()
    (newest,) = [version for version in found.versions if version.label == "cuda"]
    return 1e6 * newest.seconds * sentences / (int(each) * int(times))


def el_batches(kernels: Kernels, models: dict) -> tuple[float, float]:
    """Texts a second by EL over those of a cache per beam with 32 texts: with 32, and with ten times as many.

    Of ten times as many, passes and all but products and attention to the source take ten times as long.
    """
    ours, new, times = models["parts"]["ours"]["figures"][BART_32], WORKS[BART_32]["new"], 10
    rungs, shared = rungs_ms(kernels, models), LAYERS * kernels.attention(SHARED[1])[0]
    passes = sum(ours["stages_ms"][stage] for stage in ("encoder", "prefill"))
    others = 1e3 * ours["step_ms"] - shared - library_us(128)
    step = (times * others + library_us(times * 128) + LAYERS * el_us(times * 32, 4, 1024)) / 1e3
    large = times * passes + new * max(HOST_MS * launches_of_bart(ours), step)
    per_beam = rungs["n-gram ban by a kernel"]
    return per_beam / rungs["EL"], times * per_beam / large


def multi_query_us(kernels: Kernels, heads: int, beams: int) -> float:
    """A step of the paper's model with so many key/value heads: products by the library, and two attentions a layer.

    They read at the shares of a copy that `grouped` reached with many heads and with one. Beams share the source. Of
    small launches only those around products count.
    """
    D, F, width = MULTI_QUERY["width"], MULTI_QUERY["ffn"], MULTI_QUERY["width"] // MULTI_QUERY["heads"]
    rows = beams * MULTI_QUERY_STEP["rows"]
    F += 3 * (D - heads * width) // 2  # as many weights in all
    layer = [(D, D + 2 * heads * width, 1), (D, D, 3), (D, F, 1), (F, D, 1)]
    head = [(D, MULTI_QUERY["vocabulary"], 1)]
    _, share, _ = kernels.attention("multi-query, 128 rows, 128" if heads == 1 else "Llama 8B, 16 rows, 2048")
    positions = MULTI_QUERY_STEP["rows"] * MULTI_QUERY_STEP["source"] + rows * MULTI_QUERY_STEP["own"]
    attention = 2 * 2 * positions * heads * width / COPY / (share / 100)
    return MULTI_QUERY["layers"] * (library_us(rows, layer) + attention) + library_us(rows, head)


def bounds_table(models: dict) -> str:
    """What two other systems need for a token of GPT-2 at the least; neither was measured."""
    call = models["parts"]["ours"]["figures"][GREEDY]["call_ms"][0]
    ours = f"{call / WORKS[GREEDY]['new']:.2f}"
    products = [(2e6 * inputs * outputs / H100.bandwidth, n) for inputs, outputs, n in SHAPES["gpt2"].values()]
    kernels = sum(n for _, n in products) + LAYERS  # no norm, no activation, no search
    in_a_graph = sum(n * max(us, GRAPH_US) for us, n in products) + LAYERS * GRAPH_US
    read = sum(n * us for us, n in products)
    by_host = max(read, kernels * DRIVER_US)
    rate = f"at {H100.bandwidth / 1e12:.1f} TB/s"
    lines = [
        ("transformers, static cache, torch.compile (reduce-overhead)", f"{in_a_graph / 1e3:.2f}",
         f"{kernels} kernels in a graph, each {GRAPH_US} us or its weights {rate}", ours, NOT_MEASURED),
        ("CTranslate2, float16", f"{by_host / 1e3:.2f}",
         f"{kernels} launches at {DRIVER_US} us, or all weights {rate}, {read / 1e3:.2f}", ours, NOT_MEASURED),
    ]  # fmt: skip
    head = (f"{GREEDY}, float16", "a token at the least, ms", "how", "minidecode, recorded", "the system")
    return markdown(head, lines)


# ---- the papers ------------------------------------------------------------------------------------------------------


def over_eager(models: dict, work: str) -> float:
    """How many times as fast as transformers in eager mode."""
    figures = {system: models["parts"][system]["figures"].get(work) for system in ("ours", "eager")}
    theirs = figures["eager"]["call_ms"][0] if figures["eager"] else BY_HAND[work]
    return theirs / figures["ours"]["call_ms"][0]


NOTHING = "GPU: not measured"
ONE_BY_ONE = f"launches one by one take the host {1e3 * HOST_MS:.0f} us each, longer than the device works"


def predicted(figures: str) -> str:
    return f"{figures} (predicted, not measured)"


SAME_BYTES = ("as on a CPU", "bytes do not depend on the device")


def fastseq(kernels: Kernels, models: dict) -> list[tuple]:
    whole, smoke = {"bart-large": BART_32, "gpt2": BEAMS}, models["parts"]["smoke"]["figures"]
    there = ", ".join(f"{SPEEDUPS[m][0]} {SPEEDUPS[m][1]}x" for m in whole)
    here = ", ".join(f"{SPEEDUPS[m][0]} {over_eager(models, work):.1f}x" for m, work in whole.items())
    bans, same = kernels.bans(), sum(said == "the CPU's tokens" for said in smoke.values())
    by_version = ", ".join(f"{bans[way]:,.0f}x" for way in ("cuda v1", "cuda v2", "cuda"))
    others = {m: row for m, row in SPEEDUPS.items() if m not in (*whole, "distilbart-12-6")}
    on_cpu = [row for row in load("whole-models-cpu")["whole_models"] if row["model"] in others]
    rungs = rungs_ms(kernels, models)
    baseline, banned, shared, captured = (rungs[rung] for rung in (
        "baseline", "n-gram ban by a kernel", "cache de-duplication", "captured steps"))  # fmt: skip
    factors = f"{baseline / banned:.1f}x ban by a kernel, {banned / shared:.1f}x shared cache"
    by_kernel = 100 * WORKS[BART_32]["new"] * ban_ms(kernels) / captured
    return [
        ("Table 1, whole models", there, here,
         "over transformers 5.17 in eager mode, whose times were noted by hand, not over the baselines of 2021"),
        ("Table 1, DistilBART", f"{SPEEDUPS['distilbart-12-6'][1]}x",
         predicted(f"{distilbart_times(kernels, models):.1f}x"),
         "as BART-large in Table 2, with half of the decoder; encoder and prefill as BART-large's"),
        ("Table 1, four other models", ", ".join(f"{name} {times}x" for name, times in others.values()), NOTHING,
         "no prediction: an H100 recorded no kernel with their widths and lengths. On a CPU, measured: "
         + ", ".join(f"{others[row['model']][0]} {row['plans']['all']['speedup']:.2f}x" for row in on_cpu)),
        ("Table 2, one technique after another", "1.6x ban by a kernel, 1.4x shared cache; 10.2x in all",
         predicted(f"{factors}, {shared / captured:.1f}x captured steps; {baseline / captured:.1f}x in all"),
         f"BART-large, 32 texts throughout, 32 new tokens: {baseline:.0f}, {banned:.0f}, {shared:.0f} and, recorded,"
         f" {captured:.0f} ms a call; {ONE_BY_ONE}"),
        ("Figure 1, the share of the ban", "25 %, then 1 %",
         predicted(f"{100 - 100 * banned / baseline:.0f} %, then {by_kernel:.2f} %"),
         "the same calls: a loop that takes as long for each token as in Table 3, then a kernel"),
        ("Table 3, the n-gram ban", f"{BAN_IN_PAPER:.0f}x", f"{by_version} (versions 1 to 3)",
         "one step of 128 rows of 140 tokens in a graph, over a loop that fetches row after row"),
        ("Table 4, quality", "the same ROUGE", f"the CPU's tokens in {same} of {len(smoke)} works",
         "tokens, not ROUGE"),
        ("section 4.3, the pipeline", "1.5x", NOTHING,
         "no prediction: it hides the host's work on texts, which no record of a GPU has"),
    ]  # fmt: skip


def el(kernels: Kernels, models: dict) -> list[tuple]:
    rungs = rungs_ms(kernels, models)
    over, over_2 = (rungs["baseline"] / rungs[way] for way in ("EL", "EL, version 2"))
    same, ten_times = el_batches(kernels, models)
    attention = {(W, N): per_beam_us(B, W, N) / el_us(B, W, N)
                 for B, W, N in ((512, 4, 64), (32, 4, 1024), (128, 1, 1024), (16, 8, 1024))}  # fmt: skip
    return [
        ("Table 2, whole models", "5.0x BART-large in float16", predicted(f"{over:.1f}x"),
         f"BART-large as in FastSeq's Table 2, by version 3 of `cuda/el.py`; by version 2, which plans run,"
         f" {over_2:.2f}x. The ban by a kernel gives all of it: {ONE_BY_ONE}"),
        ("Table 3, the largest batch", "1.4x at batch 32, 5.0x at 320",
         predicted(f"{same:.1f}x at batch 32, {ten_times:.1f}x at 320"),
         "by version 3, over a cache per beam at batch 32; encoder and prefill take ten times as long for ten times the"
         " texts. In 80 GB a cache per beam has room for 320 texts too"),
        ("Table 4, bytes", "96 times fewer", *SAME_BYTES),
        ("Table 5, quality", "the same ROUGE", NOTHING,
         "no prediction: which of two near tokens wins depends on roundings, so texts must be generated"),
        ("Figures 3 and 4, attention alone", "1.4x to 5x over lengths, 2x to 5x over beams",
         predicted(f"{attention[4, 64]:.1f}x to {attention[4, 1024]:.1f}x; {attention[1, 1024]:.1f}x to"
                   f" {attention[8, 1024]:.1f}x"),
         "version 3 with `half` over a cache per beam, 131,072 positions of all beams as in the paper: 64 and 1,024"
         f" positions, 1 and 8 beams. 32 texts: {el_us(32, 4, 1024):.0f} us for {per_beam_us(32, 4, 1024):.0f}. Short"
         " texts are many rows, whose products with W_k and W_v are in float32"),
    ]  # fmt: skip


def lightseq(kernels: Kernels, models: dict) -> list[tuple]:
    naive = next(layer for layer in load("launches")["layers"] if layer["layer"] == "GPT-2")["naive"]["kernels"]
    of_layer = sum(n // 12 for n in layer_launches(models).values())
    step = 1e3 * models["parts"]["ours"]["figures"][GREEDY]["step_ms"]
    products = products_us(kernels, "float16", 1)
    half, share = products_us(kernels, "float32", 1) / products, 100 * products / step
    unfused = LAYERS * naive * CUPY_US
    hars = ", ".join(f"{kernels.chain(WRITTEN, n) / kernels.chain(BY_HARS, n):.2f}x" for n in (4, 32, 128))
    return [
        ("Figure 2, kernels of a layer", "more than 4 times fewer", f"{naive / of_layer:.1f} times fewer",
         f"GPT-2: {of_layer} kernels a layer beside its GEMMs in the receipt of a recorded step, {naive} without"
         " fusion"),
        ("section 2.2, HARS", "", f"{hars} at 4, 32 and 128 rows",
         "HARS to update, over log-softmax to update; both find candidates by shares of a row"),
        ("section 2.3, planned memory", "8 times less", *SAME_BYTES),
        ("section 3.2, half precision", "", f"{half:.2f}x",
         "the products of a step of GPT-2 with one row, float16 over float32"),
        ("Figure 4, the share of products", "87 % in float16", f"{share:.0f} %",
         "of a greedy step of GPT-2 with one row; products timed alone"),
        ("Figures 5 and 6, speed", "up to 14x over TensorFlow", predicted(f"{unfused / step:.1f}x"),
         f"a greedy step of GPT-2 over one of {LAYERS} x {naive} kernels at {CUPY_US} us, as CuPy launches them one by"
         f" one; a call over transformers in eager mode, recorded: {over_eager(models, SHORT):.1f}x"),
    ]  # fmt: skip


def multi_query(kernels: Kernels, models: dict) -> list[tuple]:
    us, share, _ = kernels.attention("multi-query, 128 rows, 128")
    greedy, beams = (
        h[1] / q[1] for h, q in zip(PAPERS_FIGURES["multi-head"], PAPERS_FIGURES["multi-query"], strict=True)
    )
    here = {W: [multi_query_us(kernels, heads, W) for heads in (MULTI_QUERY["heads"], 1)] for W in (1, 4)}
    in_words = "; ".join(f"beam {W}: {heads:,.0f} and {one:,.0f} us a step" for W, (heads, one) in here.items())
    return [
        ("Table 2, time per token", f"{greedy:.1f}x greedy, {beams:.1f}x beam 4",
         predicted("{:.1f}x greedy, {:.1f}x beam 4".format(*(heads / one for heads, one in here.values()))),
         f"{in_words}: 128 texts, 128 tokens of source, 64 of their own; products of the library, and bytes of caches"
         f" at recorded shares. Attention of multi-query alone, recorded: {us:.1f} us, {share} % of a copy's"
         " bandwidth"),
        ("Tables 1 and 3, quality", "", NOTHING, "no prediction: trained on CPUs, and no device changes a loss"),
    ]  # fmt: skip


PAPERS = {"gpu-fastseq": fastseq, "gpu-el": el, "gpu-lightseq": lightseq, "gpu-multi-query": multi_query}


def paper_table(rows: list[tuple]) -> str:
    return markdown(("of the paper", "ratio there", "ratio on an H100", "what differs"), rows)


def bans_table(kernels: Kernels) -> str:
    """FastSeq's Table 3, as far as an H100 recorded it."""
    ways = {"loop with transfers": ROW_BY_ROW, "cuda v1": "cuda v1", "cuda v2": "cuda v2", "cuda": "cuda"}
    times = dict(re.findall(r"^ban of n-grams, (.+): ([\d.]+) ms", "\n".join(kernels.lines["vocab"]), re.M))
    lines = []
    for way, label in ways.items():
        row, what = WAYS[label]
        paper = f"{PAPER_MS[row]:,.1f} ({PAPER_MS['baseline'] / PAPER_MS[row]:,.0f}x)" if row else ""
        lines.append((row, what, times[way], f"{kernels.bans()[way]:,.0f}x", paper))
    return markdown(("of the paper", "here, one step", "ms on an H100", "speed", "ms on a V100, paper"), lines)


def layer_launches(models: dict) -> dict[str, int]:
    """Kernel -> launches of all layers of a greedy step of GPT-2, of those that are no product."""
    counts = launches_of_step(models["parts"]["ours"]["figures"][GREEDY])
    return {name: n for name, n in counts.items() if n >= 12 and not name.startswith("few_rows")}


# ---- the front page --------------------------------------------------------------------------------------------------


def front_table(models: dict) -> str:
    """A call of minidecode beside transformers'."""
    rows = []
    for work, setting in WORKS.items():
        if setting["new"] == 256:
            continue
        ours = models["parts"]["ours"]["figures"][work]["call_ms"][0]
        ratio = over_eager(models, work)
        rows.append((work, f"{ours:.0f} ms", f"{ours * ratio:.0f} ms", f"{ratio:.1f}x"))
    return markdown(("on an H100, float16", "minidecode", "transformers, eager", "faster"), rows)


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument(
        "--readme",
        type=with_marks("gpu-kernels", "gpu-steps", "gpu-calls", "gpu-bounds"),
        help="page of the goals and predictions",
    )
    p.add_argument("--papers", type=with_marks("gpu-ban", *PAPERS), help="page of the papers' tables")
    p.add_argument("--front", type=with_marks("gpu-speed"), help="the project's README")
    a = p.parse_args()
    for (name, table), page in zip(tables().items(), [a.readme] * 4 + [a.papers] * 5 + [a.front], strict=True):
        print(f"{name}\n{table}\n")
        if page:
            write_between_markers(page, name, table)


def tables() -> dict[str, str]:
    """Mark -> the table that stands there."""
    kernels, models = Kernels(load("gpu-h100-kernels")), load("gpu-h100")
    return {
        "gpu-kernels": kernels_table(kernels),
        "gpu-steps": steps_table(kernels, models),
        "gpu-calls": calls_table(models),
        "gpu-bounds": bounds_table(models),
        "gpu-ban": bans_table(kernels),
        **{name: paper_table(rows(kernels, models)) for name, rows in PAPERS.items()},
        "gpu-speed": front_table(models),
    }


if __name__ == "__main__":
    main()
