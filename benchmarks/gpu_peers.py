"""minidecode beside transformers on a GPU: the same random weights in float16, the same inputs, as many new tokens.

    pip install '.[cu13]' 'transformers>=5,<6' 'torch>=2.5'
    python benchmarks/gpu_peers.py --out benchmarks/results/gpu-peers-DEVICE.json --readme benchmarks/README.md

The GPU's side of peers.py, with its way: each system in a process of its own, loaded once; asked by turns; loading,
compiling, capturing and WARM_UPS generations are not timed; what is timed is generation from token ids to token ids,
until the device has done all that it was given. Nobody can stop early, for there is no EOS; which tokens are chosen is
another matter (`pytest -m gpu` holds ours to what the emulator says).

- GPT-2, greedy, one prompt: milliseconds a token, the prompt's share included. All systems are on the card at once.
- BART-large, beams: each system at its best batch. A system has the card to itself, doubles its batch until it is out
  of memory, or twice has gained nothing, and its best rate counts; then the next one is loaded. So these are no turns.

Ours has --plan, and weights and caches stored as float16; its arithmetic is float32, but for large products, and it
may take all memory there is (memory_budget=None), as the others do. transformers computes in float16, with SDPA
attention, in inference mode: "eager" with its default cache; "static" with cache_implementation="static", whose steps
it compiles by itself on a GPU, in its default mode, reduce-overhead, which has CUDA graphs; "static kept" with one
StaticCache for all calls, so that graphs need not be recorded for a new one's addresses; "static kept, max-autotune" in
that mode. The best of them stands in the table. With beams the static cache says the same tokens, but transformers 5
compiles nothing then, and moves the whole room of the cache at each step: so there BART's peer is "eager" alone.

Targets are those of the project for an H200. Has not run on a GPU yet: by reckoning it takes some ten minutes, and
--only does one of the two works. Prints the tables; writes them into --readme between the marks gpu-peers, and all
figures to --out, work by work. What fails is a cell, and does not end the run.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing as mp
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np
from flags import positive, to_write
from peers import complete_config, made, make_checkpoint, prompts_of, started, versions
from readme import with_marks, write_between_markers

from minidecode.bench.compare import where_it_ran
from minidecode.errors import OptionError
from minidecode.runtime.device import chosen_device, device_kind

OURS, EAGER, STATIC = "minidecode", "transformers, eager", "transformers, static"
WORKS = {  # without a batch: each system at its best one
    "gpt2, greedy, 1 x 32, 256 new": {
        "model": "gpt2", "batch": 1, "length": 32, "new": 256, "beams": 1,
        "targets": {"milliseconds": 0.35, EAGER: 5.0, STATIC: 1.0},
    },
    "bart-large, beam 4, source 1024, 64 new": {
        "model": "bart-large", "length": 1024, "new": 64, "beams": 4, "targets": {EAGER: 3.0},
    },
}  # fmt: skip
SYSTEMS = {  # name -> (function that loads it, what it is given)
    OURS: ("ours", {}),
    EAGER: ("transformers", {}),
    STATIC: ("transformers", {"static": "new"}),
    f"{STATIC} kept": ("transformers", {"static": "kept"}),
    f"{STATIC} kept, max-autotune": ("transformers", {"static": "kept", "mode": "max-autotune"}),
}
PLAN = "cuda,cache_dtype=float16"
WARM_UPS = 2  # of which the first compiles, and the second records graphs at the addresses that stay
NO_MEMORY = "out of memory"


def ours(folder: Path, device: str, plan: str = PLAN) -> Callable[[dict], Callable[[], list]]:
    import minidecode as md

    model = md.load(folder, plan=plan, dtype="float16", device=device)

    def synchronize() -> None:
        if device == "cuda":
            import cupy

            cupy.cuda.Device().synchronize()

    def prepare(setting: dict) -> Callable[[], list]:
        ids = prompts_of(setting)
        model.buckets.clear()  # what was kept for another batch
        if device == "cuda":
            import cupy

            cupy.get_default_memory_pool().free_all_blocks()

        def run() -> list:
            out = model.generate(
                input_ids=ids, num_beams=setting["beams"], max_new_tokens=setting["new"], eos_token_id=None,
                memory_budget=None,
            )  # fmt: skip
            synchronize()
            return [t.tolist() for t in out.token_ids]

        return run

    return prepare


def transformers(
    folder: Path, device: str, static: str | None = None, mode: str = "reduce-overhead"
) -> Callable[[dict], Callable[[], list]]:
    """static: None is the default cache, "new" a static one for each call, "kept" one for all of them."""
    import torch
    from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM, CompileConfig, StaticCache

    is_gpt2 = json.loads((folder / "config.json").read_text(encoding="utf-8"))["model_type"] == "gpt2"
    kind = AutoModelForCausalLM if is_gpt2 else AutoModelForSeq2SeqLM
    model = kind.from_pretrained(folder, dtype=torch.float16, attn_implementation="sdpa").to(device).eval()
    model.generation_config.eos_token_id = model.generation_config.forced_eos_token_id = None

    def prepare(setting: dict) -> Callable[[], list]:
        torch.cuda.empty_cache()
        ids = torch.tensor(prompts_of(setting), device=device)
        options, kept = {}, None
        if static == "new":
            options["cache_implementation"] = "static"
        if static == "kept":
            kept = StaticCache(config=model.config, max_cache_len=setting["length"] + setting["new"])
            options["past_key_values"] = kept
        if static:
            options["compile_config"] = CompileConfig(mode=mode)

        def run() -> list:
            with torch.inference_mode():
                if kept is not None:
                    kept.reset()
                out = model.generate(
                    ids, attention_mask=torch.ones_like(ids), num_beams=setting["beams"], do_sample=False,
                    max_new_tokens=setting["new"], pad_token_id=1, **options,
                )  # fmt: skip
                if device == "cuda":
                    torch.cuda.synchronize()
            return out[:, setting["length"] if is_gpt2 else 1 :].tolist()

        return run

    return prepare


def make_checkpoint_for_torch(name: str, folder: Path, shrink: bool) -> None:
    """A folder with random weights that ours and transformers load."""
    make_checkpoint(name, folder, shrink, for_peers=False)
    complete_config(json.loads((folder / "config.json").read_text(encoding="utf-8")), folder)


def why(error: Exception) -> str:
    """The failure in a few words for a cell; whatever a library calls it, being out of memory is told apart."""
    summary = f"{type(error).__name__}: {error}"
    plain = summary.replace("_", " ").lower()
    if isinstance(error, MemoryError) or "out of memory" in plain or "alloc failed" in plain:
        return NO_MEMORY
    return (summary.splitlines()[0] if summary.strip() else "")[:200].replace("|", "/")


def serve(pipe, load: str, folder: Path, device: str, given: dict) -> None:
    """A system's process: loads once, then answers each setting with its tokens and seconds, or why there are none."""
    try:
        prepare, run, prepared = globals()[load](folder, device, **given), None, None
    except Exception as error:
        pipe.send({"failed": why(error)})
        return
    pipe.send({})
    while (setting := pipe.recv()) is not None:
        try:
            if setting != prepared:
                run, prepared = prepare(setting), setting
            begun = time.perf_counter()
            tokens = run()
            pipe.send({"tokens": tokens, "seconds": time.perf_counter() - begun})
        except Exception as error:
            pipe.send({"failed": why(error)})


@contextmanager
def running(systems: dict, folder: Path, device: str) -> Iterator[dict]:
    """System -> a pipe to its process, all loaded; the processes end, and so give the card back, on the way out."""
    context, pipes, processes = mp.get_context("spawn"), {}, []
    for name, (load, given) in systems.items():
        pipes[name], theirs = context.Pipe()
        processes.append(started(context, serve, (theirs, load, folder, device, given), {}))
        theirs.close()
    try:
        yield pipes
    finally:
        for pipe in pipes.values():
            with suppress(OSError):  # it has ended
                pipe.send(None)
        for process in processes:
            process.join()


def heard(pipe) -> dict:
    """What a system's process says; that it has ended is an answer too."""
    try:
        return pipe.recv()
    except (EOFError, OSError):
        return {"failed": "its process ended: see what it printed"}


def asked(pipe, setting: dict) -> dict:
    """Tokens and seconds of a setting, or why there are none; fewer tokens than were asked for are a failure."""
    try:
        pipe.send(setting)
    except OSError:
        return heard(pipe)
    answer = heard(pipe)
    if any(len(t) != setting["new"] for t in answer.get("tokens", ())):
        return {"failed": f"{min(map(len, answer['tokens']))} tokens, and not {setting['new']}"}
    return answer


def by_turns(setting: dict, pipes: dict, runs: int) -> dict[str, dict]:
    """System -> the seconds of its turns, sorted, or why it has none; and, beside "eager", how long texts are alike."""
    rows: dict[str, dict] = {name: {"tokens": setting["batch"] * setting["new"], "seconds": []} for name in pipes}
    last, rng = {}, np.random.default_rng(0)
    for turn in range(-WARM_UPS, runs):
        for name in rng.permutation([n for n in pipes if "failed" not in rows[n]]).tolist():
            answer = asked(pipes[name], setting)
            if "failed" in answer:
                rows[name] = answer
            else:
                last[name] = answer["tokens"]
                rows[name]["seconds"] += [answer["seconds"]] * (turn >= 0)
    for name, row in rows.items():
        if "failed" not in row:
            row["seconds"] = sorted(round(s, 5) for s in row["seconds"])
            if EAGER in last and name != EAGER:
                pairs = zip(last[name], last[EAGER], strict=True)
                row["tokens_as_eager"] = statistics.median(leading(mine, theirs) for mine, theirs in pairs)
    return rows


def leading(mine: list[int], theirs: list[int]) -> int:
    """How many tokens from the first are the same."""
    differ = (n for n, (a, b) in enumerate(zip(mine, theirs, strict=True)) if a != b)
    return next(differ, len(mine))


def doubled(setting: dict, name: str, pipe, runs: int, first: int, largest: int) -> list[dict]:
    """A row for each batch, from `first` on: until one fails, two in a row gain nothing, or `largest` is done."""
    rows, batch, most, idle = [], first, 0.0, 0
    while batch <= largest and idle < 2:
        row = {"batch": batch} | by_turns(setting | {"batch": batch}, {name: pipe}, runs)[name]
        rows.append(row)
        print(f"{name}, batch {batch}: {row.get('failed') or f'{rates(row)[0]:,.0f} tokens/s'}", flush=True)
        if "failed" in row:
            break
        idle = 0 if rates(row)[0] > most else idle + 1
        most, batch = max(most, rates(row)[0]), 2 * batch
    return rows


def rates(row: dict) -> tuple[float, float, float]:
    """Tokens per second: the median turn, the slowest, the fastest."""
    seconds = row["seconds"]
    return tuple(row["tokens"] / s for s in (statistics.median(seconds), seconds[-1], seconds[0]))


def best(rows: list[dict]) -> dict | None:
    """The row with the highest rate, or, where none has one, the first failure; None without rows."""
    done = [row for row in rows if "failed" not in row]
    return max(done, key=lambda row: rates(row)[0]) if done else next(iter(rows), None)


def over(mine: dict | None, theirs: dict | None) -> str:
    """How much faster: by the medians, and from our slowest turn beside their fastest to the reverse."""
    if not mine or not theirs or "failed" in mine or "failed" in theirs:
        return ""
    (m, m_slow, m_fast), (t, t_slow, t_fast) = rates(mine), rates(theirs)
    return f"{m / t:.2f}x ({m_slow / t_fast:.2f}-{m_fast / t_slow:.2f})"


def cell(row: dict | None, is_one_text: bool) -> str:
    """What a system reached, in milliseconds a token for one text, else in tokens per second."""
    if not row or "failed" in row:
        return row["failed"] if row else ""
    median, slow, fast = rates(row)
    if is_one_text:
        return f"{1e3 / median:.3f} ms ({1e3 / fast:.3f}-{1e3 / slow:.3f})"
    return f"{median:,.0f} tokens/s at batch {row['batch']}"


def table(found: dict) -> str:
    """Ours and the best of each peer, with the targets; then the rates of all batches, where there are several."""
    lines = ["| work | minidecode | transformers, eager | transformers, static cache + compile | over eager |"
             " over static + compile | targets |", "|---|---|---|---|---|---|---|"]  # fmt: skip
    for name, rows in found["work"].items():
        mine, eager = best(rows.get(OURS, [])), best(rows.get(EAGER, []))
        static = best([row for system, of_it in rows.items() if system.startswith(STATIC) for row in of_it])
        cells = [cell(row, "batch" in WORKS[name]) for row in (mine, eager, static)]
        asked_for = "; ".join(f"{goal} ms" if to == "milliseconds" else f"{goal}x over {to.split(', ')[1]}"
                              for to, goal in WORKS[name]["targets"].items())  # fmt: skip
        lines.append(f"| {name} | {' | '.join(cells)} | {over(mine, eager)} | {over(mine, static)} | {asked_for} |")
    for name, rows in found["work"].items():
        if "batch" not in WORKS[name]:
            lines += ["", f"{name}, tokens per second by batch, each system alone on the card:", "", *batches(rows)]
        elif alike := [f"{system} {row['tokens_as_eager']:.0f}" for system, (row,) in rows.items()
                       if "tokens_as_eager" in row]:  # fmt: skip
            lines += ["", f"{name}: tokens as eager's, before the first other one: {', '.join(alike)}."]
    m, v, turns = found["machine"], found["versions"], found["runs"]
    packages = ", ".join(f"{name} {v[name]}" for name in v if v[name])
    summary = f"Medians of {turns} turns; in brackets, the fastest and the slowest of them. Ours: plan={found['plan']}."
    lines += ["", summary, f"{m.get('gpu', 'no GPU')}, {m['cores']} cores ({m['processor']}); {packages}."]
    return "\n".join([*lines, *([found["note"]] if found["note"] else [])])


def batches(rows: dict[str, list[dict]]) -> list[str]:
    """A line for each system, a column for each batch."""
    columns = sorted({row["batch"] for of_it in rows.values() for row in of_it})
    lines = [f"| system | {' | '.join(map(str, columns))} |", "|---" * (len(columns) + 1) + "|"]
    for system, of_it in rows.items():
        reached = {row["batch"]: row.get("failed") or f"{rates(row)[0]:,.0f}" for row in of_it}
        lines.append(f"| {system} | {' | '.join(reached.get(column, '') for column in columns)} |")
    return lines


def all_at_once(setting: dict, systems: dict, folder: Path, device: str, runs: int) -> dict[str, list[dict]]:
    """System -> its one row, of turns with all others."""
    with running(systems, folder, device) as pipes:
        loaded = {name: heard(pipe) for name, pipe in pipes.items()}
        there = {name: pipes[name] for name, answer in loaded.items() if "failed" not in answer}
        rows = by_turns(setting, there, runs)
    return {name: [{"batch": setting["batch"]} | rows.get(name, loaded[name])] for name in systems}


def one_after_another(
    setting: dict, systems: dict, folder: Path, device: str, runs: int, first: int, largest: int
) -> dict[str, list[dict]]:
    """System -> a row for each batch, with the card to itself."""
    found = {}
    for name, system in systems.items():
        with running({name: system}, folder, device) as pipes:
            loaded = heard(pipes[name])
            if "failed" in loaded:
                found[name] = [{"batch": first} | loaded]
            else:
                found[name] = doubled(setting, name, pipes[name], runs, first, largest)
    return found


def of_work(setting: dict, systems: dict, plan: str) -> dict:
    """The systems that a work is for: with beams transformers compiles nothing. Ours with its plan."""
    mine = {name: s for name, s in systems.items() if setting["beams"] == 1 or not name.startswith(STATIC)}
    return {name: (load, given | ({"plan": plan} if load == "ours" else {})) for name, (load, given) in mine.items()}


def all_versions() -> dict[str, str | None]:
    """Those of peers.py but CTranslate2's, and what runs on the device."""
    found = {name: number for name, number in versions().items() if name != "ctranslate2"}
    for package in ("numba-cuda", "cupy-cuda13x", "cupy-cuda12x", "triton"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = None
    return found


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--runs", type=positive, default=5, help="turns that are timed")
    p.add_argument("--only", nargs="+", default=list(WORKS), metavar="WORK", help="works whose name begins so")
    p.add_argument("--systems", nargs="+", default=list(SYSTEMS), metavar="NAME", help="systems whose name begins so")
    p.add_argument("--plan", default=PLAN, help="of ours")
    p.add_argument("--first-batch", type=positive, default=8, help="that is doubled")
    p.add_argument("--largest-batch", type=positive, default=1024, help="where doubling ends at the latest")
    p.add_argument("--shrink", action="store_true", help="toy shapes: to see that it runs")
    p.add_argument("--note", default="", help="what a reader should know of the machine")
    p.add_argument("--out", type=to_write, help="JSON file to write")
    p.add_argument(
        "--readme", type=with_marks("gpu-peers"), help="file whose table between the marks gpu-peers is replaced"
    )
    a = p.parse_args()
    works = {n: s for n, s in WORKS.items() if any(n.startswith(o) for o in a.only)}
    systems = {n: s for n, s in SYSTEMS.items() if any(n.startswith(o) for o in a.systems)}
    if not works or not systems:
        raise SystemExit(f"nothing to do: works are {'; '.join(WORKS)}; systems are {'; '.join(SYSTEMS)}")
    if device_kind() != "gpu":
        raise SystemExit("Numba finds no GPU here: on a machine without one, run peers.py")
    try:
        device = chosen_device("cuda")
    except OptionError as error:
        raise SystemExit(f"{error}") from None
    context = mp.get_context("spawn")
    note = f"{'Toy shapes. ' * a.shrink}{a.note}".strip()
    found = {"machine": where_it_ran(), "versions": all_versions(), "note": note, "plan": a.plan, "runs": a.runs}
    found["work"] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for name, setting in works.items():
            folder = Path(scratch) / setting["model"]
            made(context, make_checkpoint_for_torch, (setting["model"], folder, a.shrink), {}, name)
            given = ({k: v for k, v in setting.items() if k != "targets"}, of_work(setting, systems, a.plan), folder,
                     device, a.runs)  # fmt: skip
            if "batch" in setting:
                found["work"][name] = all_at_once(*given)
            else:
                found["work"][name] = one_after_another(*given, a.first_batch, a.largest_batch)
            print(f"\n{table(found)}\n", flush=True)
            if a.out:
                a.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    if a.readme:
        write_between_markers(a.readme, "gpu-peers", table(found))


if __name__ == "__main__":
    main()
