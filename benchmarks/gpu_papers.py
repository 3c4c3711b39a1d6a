"""Parts of gpu.py about the papers: FastSeq, EL, LightSeq and multi-query decoding.

- ngram: the ban of every step of a batch, in the ways of ngram.py.
- el: attention of one decode step over an input (EL, Figure 4): a cache per beam, a cache per sentence, and EL, each
  version of the kernels; then BART-large with cache=split and with cache=el.
- whole_models: whole_models.py on a device, FastSeq's seven models (its Table 1; EL's Table 2).
- rungs: one technique after the other on BART-large (FastSeq's Table 2), in the same way.
- shares: of a call without captured steps, the share of each stage (FastSeq's Figure 1); the driver waits for each
  kernel, so that the host's clock sees it.
- quality: texts of tiny-bart on the device that differ from the CPU's in float32 (FastSeq's Table 4; EL's Table 5).
- el_figures: the three groups of EL's Figure 3 by the rates measured here, and Figure 4 over lengths and beams.
- batch_sizes: BART-large with each cache while the batch doubles, until memory ends (EL's Tables 3 and 4).
- lightseq: lightseq.py on a device (Figures 5 and 6).
- multi_query: BART of the multi-query paper's shape, many heads and one key/value head: a step, greedy and with beams.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

import el_attention
import lightseq
import multi_query_speed
import ngram
import numpy as np
import whole_models
from gpu_models import PLANS, TOYS, Generate, load_ours, measure_setting, model_folder, prompts_of, setting_of
from gpu_timing import Record, is_failure, seconds_of, spread, waiter

import minidecode as md
from minidecode.bench.compare import implementations
from minidecode.bench.el_costs import Sizes
from minidecode.bench.ladder import STAGES
from minidecode.bench.machines import Machine
from minidecode.bench.rungs import make_texts_of_length
from minidecode.catalog import CATALOG
from minidecode.device.arrays import copy_to_device
from minidecode.device.graphs import capture_and_run
from minidecode.device.matmul import matmul

LAUNCHES, TURNS = 20, 9
ATTENTION = {"B": 32, "W": 4, "N": 1024, "H": 16, "K": 64}  # EL, section 4.1, and FastSeq's batch
TOY_ATTENTION = {"B": 1, "W": 2, "N": 5, "H": 2, "K": 3}
TOY_SHAPE = {"width": 16, "heads": 2, "ffn": 32, "layers": 1, "vocabulary": 40}


def run_ngram(record: Record) -> None:
    sizes = {"sentences": 1, "beams": 2, "longest": 4, "vocabulary": ngram.WORDS} if record.quick else {}

    if ngram.ROW_BY_ROW in record or ngram.LOOP in record:
        return
    record_of_run = ngram.measure_ways(**sizes, runs=1 if record.quick else 3)
    timed = {row["way"]: row["milliseconds"] for row in record_of_run["ngram_ms"]}
    loop = timed.get(ngram.ROW_BY_ROW, timed[ngram.LOOP])[0]
    for way, ms in timed.items():
        paper = ngram.PAPER_MS.get(ngram.WAYS[way][0])
        record[way] = {"milliseconds": ms, "times_as_fast": round(loop / ms[0], 1), "paper_ms": paper}


# ---- EL --------------------------------------------------------------------------------------------------------------


def run_el(record: Record) -> None:
    for name, ready in ways_to_attend(record).items():
        record.ask(name, lambda ready=ready: time_of(ready(), record))
    work = "bart-large, beam 4, 8 x 1024, 32 new"
    loaded: list[Any] = []

    def with_cache(cache: str) -> dict:
        if not loaded:
            loaded.append(load_ours("bart-large", record))
        plan = f"{PLANS[record.device]},cache={cache}"
        setting = setting_of(work, record.quick)
        return measure_setting(system_of_model(loaded[0], plan), setting, waiter(record.device), *turns_of(record))

    for cache in ("split", "el"):
        record.ask(f"{work}, cache={cache}", lambda cache=cache: with_cache(cache))


def turns_of(record: Record) -> tuple[int, int]:
    """Of a call, and of its first token."""
    return (1, 1) if record.quick else (3, 2)


def system_of_model(model: Any, plan: str) -> Callable[[dict], Generate]:
    """A model as one of the systems of gpu_models.py."""

    def prepare(setting: dict) -> Generate:
        ids = prompts_of(setting)

        def generate() -> tuple[list[list[int]], dict]:
            out = model.generate(
                input_ids=ids, num_beams=setting["beams"], max_new_tokens=setting["new"], eos_token_id=None,
                no_repeat_ngram_size=setting["ngram"], memory_budget=None, plan=plan,
            )  # fmt: skip
            return [t.tolist() for t in out.token_ids], {"cache_mb": round(out.receipt.cache_peak_bytes / 1e6, 1)}

        return generate

    return prepare


def ways_to_attend(record: Record, sizes: dict | None = None) -> dict[str, Callable[[], Callable[[], Any]]]:
    """Way and version of the kernel -> a function that brings its inputs over, and returns one call."""
    s = sizes or (TOY_ATTENTION if record.quick else ATTENTION)
    B, W, N, H, K = (s[size] for size in "BWNHK")
    rng = np.random.default_rng(0)

    def normal(*shape: int, dtype: type = np.float32) -> np.ndarray:
        return rng.standard_normal(shape, np.float32).astype(dtype, copy=False)

    def per_beam() -> tuple:
        cache = (normal(B * W, H, N, K, dtype=np.float16) for _ in range(2))
        return normal(B * W, H, K), *cache, np.zeros(B * W, np.int64), np.full(B * W, N), K**-0.5

    def per_sentence() -> tuple:
        cache = (normal(B, H, N, K, dtype=np.float16) for _ in range(2))
        return normal(B * W, H, K), *cache, np.zeros(B, np.int64), K**-0.5

    def of_hidden_states() -> tuple:
        D = H * K
        hidden, weights = normal(B, N, D, dtype=np.float16), (normal(H, K, D), normal(H, K)) * 2
        return normal(B * W, H, K), hidden, np.zeros(B, np.int64), *weights, K**-0.5

    ready_ways = {}
    ways = {"cache per beam": ("grouped", per_beam), "cache per sentence": ("shared", per_sentence),
            "EL": ("el", of_hidden_states)}  # fmt: skip
    backend = "reference" if record.device == "cpu" else "cuda"
    for way, (row, inputs) in ways.items():
        for label, function in implementations(CATALOG[row]).items():
            if label == backend or label.startswith(f"{backend} v"):

                def ready(function: Callable = function, inputs: Callable = inputs) -> Callable[[], Any]:
                    there = copy_to_device(record.device, inputs())
                    return lambda: function(*there)

                ready_ways[f"{way}, {label}"] = ready
    return ready_ways


def time_of(run: Callable[[], Any], record: Record) -> dict:
    """Milliseconds a call: of a graph of LAUNCHES calls where they can be captured, else of calls by the host."""
    wait, times = waiter(record.device), 1 if record.quick else LAUNCHES
    run()
    wait()
    by_host = {"by_host_ms": spread(seconds_of(run, wait, 1 if record.quick else 3, times), 1e3)}
    if record.device == "cpu":
        return by_host
    try:
        graph, _ = capture_and_run(record.device, lambda: [run() for _ in range(times)])
    except Exception as error:
        return by_host | {"not_captured": str(error)[:100]}
    seconds = [s / times for s in seconds_of(graph.launch, wait, 1 if record.quick else TURNS)]
    return by_host | {"in_a_graph_ms": spread(seconds, 1e3)}


# ---- multi-query -----------------------------------------------------------------------------------------------------


def run_multi_query(record: Record) -> None:
    shape = TOY_SHAPE if record.quick else multi_query_speed.PAPER
    sizes = {"batch": 1, "length": 4, "new": 2} if record.quick else {"batch": 32, "length": 128, "new": 64}
    setting = sizes | {"ngram": 0, "largest_id": shape["vocabulary"]}
    loaded: dict[str, Any] = {}

    def timed(variant: str, beams: int) -> dict:
        if variant not in loaded:
            loaded.clear()
            how = {"dtype": "float16", "device": record.device}
            loaded[variant] = multi_query_speed.make_model(variant, shape, sizes["length"] + sizes["new"] + 2, **how)
        prepare = system_of_model(loaded[variant], PLANS[record.device])
        return measure_setting(prepare, setting | {"beams": beams}, waiter(record.device), *turns_of(record))

    for variant in ("multi-head", "multi-query"):
        for beams in (1, 2 if record.quick else 4):
            record.ask(f"{variant}, beam {beams}", lambda variant=variant, beams=beams: timed(variant, beams))


# ---- the papers' tables of whole models ------------------------------------------------------------------------------

# (batch, input tokens, new tokens): the papers' lengths as far as a model has positions, and a batch of theirs.
SIZES = {
    "bart-large": (32, 1024, 32), "gpt2": (32, 512, 32), "t5-base": (32, 512, 32), "distilbart-12-6": (32, 1024, 32),
    "unilm1.2-base-uncased": (32, 448, 32), "prophetnet-large-uncased-cnndm": (32, 448, 32),
    "transformer_vaswani_wmt_en_de_big": (128, 32, 32),
}  # fmt: skip
TOY_SIZES = {name: (1, 2, 2) for name in TOYS}
AS_THE_PAPER = whole_models.ON_DEVICE["baseline"]
ON_RUNGS = {  # each with the techniques before it, but for EL, which takes the place of the shared cache
    "baseline": AS_THE_PAPER,
    "n-gram ban by a kernel": AS_THE_PAPER.replace("ngram=naive,", ""),
    "cache de-duplication": whole_models.ON_DEVICE["FastSeq"],
    "EL": whole_models.ON_DEVICE["EL"],
    "fused kernels": "cuda,cache_dtype=float16,graphs=off",
    "captured steps": "cuda,cache_dtype=float16",
}


def run_whole_models(record: Record) -> None:
    for name, sizes in (TOY_SIZES if record.quick else SIZES).items():
        record.ask(name, lambda name=name, sizes=sizes: plans_on(record, name, sizes, whole_models.ON_DEVICE))


def run_rungs(record: Record) -> None:
    name = "bart-large"
    sizes = (TOY_SIZES if record.quick else SIZES)[name]
    record.ask(f"{name}, rung by rung", lambda: plans_on(record, name, sizes, ON_RUNGS))


def plans_on(record: Record, name: str, sizes: tuple[int, int, int], plans: dict[str, str]) -> dict:
    """whole_models.py's comparison, on the device; each plan's speed over the first stands in the figure, too."""
    ids, model = ids_of(record, *sizes[:2]), load_ours(name, record)
    how = {"num_beams": beams_of(record), "eos_token_id": None, "memory_budget": None}
    runs = 1 if record.quick else 3
    found = whole_models.compare_plans(name, model, ids, sizes[2], device_plans(record, plans), runs, False, **how)
    return found | {f"{label}, speed": plan["speedup"] for label, plan in found["plans"].items()}


def beams_of(record: Record) -> int:
    return 2 if record.quick else 4


def device_plans(record: Record, plans: dict[str, str]) -> dict[str, str]:
    """The plans, for NumPy's code where there is no device: --device cpu shows that a part runs."""
    if record.device != "cpu":
        return plans
    kept = ("cache=", "cache_dtype=")
    choices = {label: [c for c in plan.split(",") if c.startswith(kept)] for label, plan in plans.items()}
    return {label: ",".join(["numpy", *chosen]) for label, chosen in choices.items()}


def ids_of(record: Record, batch: int, length: int) -> list[np.ndarray]:
    lowest, highest = (3, 16) if record.quick else whole_models.KNOWN_IDS
    return list(np.random.default_rng(0).integers(lowest, highest, (batch, length)))


def run_shares(record: Record) -> None:
    os.environ["CUDA_LAUNCH_BLOCKING"] = "1"  # before the driver is asked for anything: this part has its own process
    name = "bart-large"
    batch, length, new = (TOY_SIZES if record.quick else SIZES)[name]
    loaded: list[Any] = []

    def shares(plan: str) -> dict:
        if not loaded:
            loaded.append(load_ours(name, record))
        how = {"num_beams": beams_of(record), "no_repeat_ngram_size": 3, "max_new_tokens": new, "eos_token_id": None,
               "plan": plan, "memory_budget": None}  # fmt: skip
        ids = ids_of(record, batch, length)
        for _ in range(1 if record.quick else 2):  # the first one compiles
            receipt = loaded[0].generate(input_ids=ids, **how).receipt
        seconds: dict[str, float] = {}
        for op, calls in receipt.ops.items():
            stage = STAGES.get(op, "other ops")
            seconds[stage] = seconds.get(stage, 0.0) + calls.seconds
        whole = sum(receipt.seconds.values())
        seconds["no op"] = max(0.0, whole - sum(seconds.values()))
        return {"seconds": round(whole, 4), **{stage: round(100 * s / whole, 1) for stage, s in seconds.items()}}

    for label, plan in device_plans(record, ON_RUNGS).items():
        if label != "captured steps":  # their ops are not called one by one
            record.ask(f"{label}, %", lambda plan=plan: shares(plan))


def run_quality(record: Record) -> None:
    """Beam search of a trained model over texts: another text is one that rounding parted, or a mistake.

    Quick runs take a toy: a trained model would take the emulator half an hour.
    """
    name = model_folder("bart-large", record) if record.quick else "tiny-bart"
    here = md.load(name)
    if record.quick:
        given = {"input_ids": ids_of(record, 1, 4), "max_new_tokens": 2, "eos_token_id": None}
    else:
        given = {"prompts": make_texts_of_length(here, 32, 64), "max_new_tokens": 60}
    given |= {"num_beams": beams_of(record), "no_repeat_ngram_size": 3}
    expected = [t.tolist() for t in here.generate(**given).token_ids]
    models: dict[str, md.Model] = {}

    def compared(dtype: str, plan: str) -> dict:
        if dtype not in models:
            models.clear()
            models[dtype] = md.load(name, device=record.device, dtype=dtype)
        out = models[dtype].generate(plan=plan, memory_budget=None, **given)
        other = [a != b for a, b in zip(expected, (t.tolist() for t in out.token_ids), strict=True)]
        return {"texts": len(other), "other_than_the_cpus": sum(other)}

    plans = device_plans(record, whole_models.ON_DEVICE)
    for dtype in ("float32", "float16"):
        for label, plan in plans.items():
            stored = plan.replace(",cache_dtype=float16", "") if dtype == "float32" else plan
            record.ask(f"{label}, {dtype}", lambda dtype=dtype, plan=stored: compared(dtype, plan))


def run_el_figures(record: Record) -> None:
    """Figure 3: EL's three groups by this device's own rates. Figure 4: milliseconds of attention a sentence."""
    record.ask("rates", lambda: rates_of(record))
    if "bytes_per_second" in record.figures.get("rates", {}):
        rates = record.figures["rates"]
        products_rate = rates["float16_operations_per_second"]
        here = Machine("here", rates["bytes_per_second"], products_rate, "measured", products_rate)
        paper = Sizes(B=ATTENTION["B"], W=ATTENTION["W"], N=ATTENTION["N"], H=ATTENTION["H"], D=1024)
        for row in el_attention.figure_3(paper, here):
            record[f"Figure 3: {row['method']}, {row['group']}"] = {
                "us": round(1e6 * row["seconds"], 2), "operations_per_byte": row["operations_per_byte"],
                "bound_by": row["bound_by"],
            }  # fmt: skip
    whole, H, K = ATTENTION["B"] * ATTENTION["W"] * ATTENTION["N"], ATTENTION["H"], ATTENTION["K"]
    settings = [(N, 4) for N in (64, 128, 256, 512, 1024)] + [(1024, W) for W in (1, 2, 8)]
    for N, W in [(4, 2)] if record.quick else settings:
        sizes = {"B": 1 if record.quick else el_attention.batch_of(N, W, whole), "W": W, "N": N, "H": H, "K": K}
        if record.quick:
            sizes |= {"H": 2, "K": 3}
        for name, ready in ways_to_attend(record, sizes).items():
            if name.endswith((", cuda", ", reference")):  # the plan's own choice, of each way
                record.ask(
                    f"Figure 4: N = {N}, beam {W}, {name}",
                    functools.partial(milliseconds_per_sentence, ready, record, sizes["B"]),
                )


def milliseconds_per_sentence(ready: Callable[[], Callable[[], Any]], record: Record, batch: int) -> dict:
    times = time_of(ready(), record)
    return {"batch": batch} | {
        name: [x / batch for x in ms] if isinstance(ms, list) else ms for name, ms in times.items()
    }


def rates_of(record: Record) -> dict:
    """What the device copies and multiplies, by large arrays: the roofline of Figure 3."""
    size, side = (10**4, 8) if record.quick else (10**9, 8192)
    wait, turns = waiter(record.device), 1 if record.quick else 5
    a, b = (copy_to_device(record.device, np.zeros(size // 4, np.float32)) for _ in range(2))
    x, w = (copy_to_device(record.device, np.ones((side, side), np.float16)) for _ in range(2))
    y = copy_to_device(record.device, np.zeros((side, side), np.float32))

    def copied() -> None:
        b[...] = a

    def multiplied() -> None:
        matmul([(x, w, y)])

    seconds = {}
    for name, run in (("copy", copied), ("product", multiplied)):
        run()
        seconds[name] = spread(seconds_of(run, wait, turns), 1.0)[0] or 1e-9
    return {"bytes_per_second": 2 * size / seconds["copy"],
            "float16_operations_per_second": 2 * side**3 / seconds["product"]}  # fmt: skip


def run_batch_sizes(record: Record) -> None:
    """A cache takes the larger batch, the less it keeps of a sentence. Each batch is generated once to warm up."""
    name, (_, length, new) = "bart-large", (TOY_SIZES if record.quick else SIZES)["bart-large"]
    caches = {"cache per beam": "replicated", "de-duplicated": "split", "EL": "el"}
    loaded: list[Any] = []

    def timed(batch: int, cache: str) -> dict:
        if not loaded:
            loaded.append(load_ours(name, record))
        plan = PLANS[record.device].replace(",cache_dtype=float16", "" if cache == "el" else ",cache_dtype=float16")
        setting = {"batch": batch, "length": length, "new": new, "beams": beams_of(record), "ngram": 3,
                   "largest_id": 16 if record.quick else 50_000}  # fmt: skip
        generate = system_of_model(loaded[0], f"{plan},cache={cache}")(setting)
        generate()
        seconds = min(seconds_of(lambda: details.update(generate()[1]), waiter(record.device), 1))
        return {"texts_per_second": round(batch / seconds, 3), "seconds": round(seconds, 4), **details}

    details: dict[str, Any] = {}
    for label, cache in caches.items():
        for batch in (1, 2) if record.quick else (32, 64, 128, 256, 512, 1024):
            figure = f"{label}, batch {batch}"
            record.ask(figure, functools.partial(timed, batch, cache))
            found = record.figures.get(figure, {})
            if is_failure(found) or found.get("seconds", 0.0) > 6.0:  # no room, or twice as much takes too long
                break


def run_lightseq(record: Record) -> None:
    """Beam search and sampling at the paper's sizes: all that is fast over launches one by one."""
    shape = lightseq.SMALL if record.quick else lightseq.BASE
    settings = [(1, 4)] if record.quick else lightseq.SETTINGS
    works = {f"beam 4, {B} x {N}": ("bart", B, N, {"num_beams": 4}) for B, N in settings}
    for sampling in lightseq.SAMPLING[:1] if record.quick else lightseq.SAMPLING:
        how = f"top-k {sampling['top_k']}" if sampling["top_k"] else f"top-p {sampling['top_p']}"
        works |= {f"{how}, {B} x {N}": ("gpt2", B, N, {"do_sample": True, "seed": 1} | sampling) for B, N in settings}
    loaded: dict[str, Any] = {}

    def timed(kind: str, B: int, N: int, options: dict) -> dict:
        if kind not in loaded:
            how = {"dtype": "float16", "device": record.device, "plan": PLANS[record.device]}
            loaded[kind] = lightseq.make_model(kind, shape, 2 * max(n for _, n in settings) + 2, **how)
        plans = device_plans(record, lightseq.ON_DEVICE)
        options = options | {"memory_budget": None}
        found = lightseq.time_setting(loaded[kind], plans, B, N, options, 1 if record.quick else 3)
        return {"seconds": found["seconds"], "equal_tokens": found["equal_tokens"],
                **{f"{plan}, speed": ratios for plan, ratios in found["speedup"].items()}}  # fmt: skip

    for name, work in works.items():
        record.ask(name, functools.partial(timed, *work))
