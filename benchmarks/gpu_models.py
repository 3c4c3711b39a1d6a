"""Parts of gpu.py about whole models: a smoke test, and GPT-2 and BART-large on each system.

All systems have the same random weights in float16, the same inputs and as many new tokens: no text ends early, for
there is no EOS. A system runs in a process of its own, with the card to itself. What is timed is generation
from token ids to token ids, until the device has done all that it was given; the first calls, which load, compile and
capture, are recorded apart.

- ours: minidecode with float16 weights and caches; memory_budget=None, as the others have none.
- eager: transformers with its default cache, SDPA attention, in inference mode.
- static: the same with one static cache that is kept, and steps compiled in the mode reduce-overhead, which has CUDA
  graphs. transformers 5 compiles nothing for beams, so it runs the greedy works alone.
- narrow: minidecode's GPT-2 at one row, with weights of fewer and fewer bits.
- ctranslate2: in float16, if its package is installed.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from gpu_timing import Record, seconds_of, spread, waiter

WORKS = {  # goals in milliseconds a call: the first, and a harder one; one for encoder and prefill together
    "gpt2, greedy, 1 x 32, 64 new":
        {"model": "gpt2", "batch": 1, "length": 32, "new": 64, "beams": 1, "ngram": 0, "goals": [0.8 * 64]},
    "gpt2, greedy, 1 x 32, 256 new":
        {"model": "gpt2", "batch": 1, "length": 32, "new": 256, "beams": 1, "ngram": 0, "goals": [0.35 * 256]},
    "gpt2, beam 4, 4 x 256, 32 new, n-gram 3":
        {"model": "gpt2", "batch": 4, "length": 256, "new": 32, "beams": 4, "ngram": 3, "goals": [46, 28]},
    "bart-large, beam 4, 8 x 1024, 32 new":
        {"model": "bart-large", "batch": 8, "length": 1024, "new": 32, "beams": 4, "ngram": 0, "goals": [120, 70],
         "passes_goal": 40},
    "bart-large, beam 4, 32 x 1024, 32 new, n-gram 3":
        {"model": "bart-large", "batch": 32, "length": 1024, "new": 32, "beams": 4, "ngram": 3, "goals": [260, 155],
         "passes_goal": 130},
}  # fmt: skip
PLANS = {"cuda": "cuda,cache_dtype=float16", "emulator": "cuda,cache_dtype=float16", "cpu": "numpy,cache_dtype=float16"}
NARROW = ("float16", "int8", "int8_blocks", "int4")  # how weights are stored
WARM_UPS, TURNS = 2, 5  # the first call compiles, the second captures
TOYS = {  # for quick runs: an emulator gets through them in seconds
    "gpt2": {"vocab_size": 16, "n_positions": 64, "n_embd": 8, "n_layer": 1, "n_head": 2,
             "bos_token_id": None, "eos_token_id": None},
    "bart-large": {"vocab_size": 16, "max_position_embeddings": 64, "d_model": 8, "encoder_layers": 1,
                   "decoder_layers": 1, "encoder_ffn_dim": 16, "decoder_ffn_dim": 16, "encoder_attention_heads": 2,
                   "decoder_attention_heads": 2},
}  # fmt: skip


def setting_of(work: str, quick: bool) -> dict:
    """The sizes of a work, or toy ones."""
    setting = dict(WORKS[work])
    if quick:
        setting |= {"batch": 1, "length": 4, "new": 2, "beams": min(2, setting["beams"])}
    return setting | {"largest_id": 16 if quick else 50_000}


def prompts_of(setting: dict) -> list[list[int]]:
    """Different prompts of the same length, without special tokens."""
    rng = np.random.default_rng(0)
    return rng.integers(3, setting["largest_id"], (setting["batch"], setting["length"])).tolist()


# ---- weights ---------------------------------------------------------------------------------------------------------


def model_folder(name: str, record: Record, **wider: int) -> Path:
    """A folder in the Hugging Face layout with random float16 weights and no tokenizer, made once for all systems.

    A thread for each tensor draws it: 406 million numbers of BART-large take seconds. wider: of a toy, other sizes.
    """
    from minidecode.files.checkpoint import write_safetensors
    from minidecode.files.folder import read_settings
    from minidecode.files.published import published_config, random_tensors

    folder = record.models / ("-".join([name, "toy", *map(str, wider.values())]) if record.quick else name)
    if folder.exists():
        return folder
    fields = published_config(name) | (TOYS[name] | wider if record.quick else {})
    family, config, _ = read_settings(None, fields)
    shapes = family.network.tensor_shapes(config)
    unfinished = folder.with_name(f"{folder.name}-unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    (unfinished / "config.json").write_text(json.dumps(fields), encoding="utf-8")
    with ThreadPoolExecutor() as threads:
        drawn = {
            tensor: threads.submit(random_tensors, {tensor: shape}, np.dtype(np.float16), seed)
            for seed, (tensor, shape) in enumerate(shapes.items())
        }
        stored = {tensor: ("F16", shape) for tensor, shape in shapes.items()}
        write_safetensors(unfinished / "model.safetensors", stored, lambda tensor: drawn.pop(tensor).result()[tensor])
    return unfinished.rename(folder)


# ---- systems ---------------------------------------------------------------------------------------------------------

# A system: function(folder, device) loads it, and returns a function of a setting that returns a function that
# generates: its token ids, without the prompt's, and what else is worth recording.
Generate = Callable[[], tuple[list[list[int]], dict]]
System = Callable[[dict], Generate]


def load_ours(name: str, record: Record, dtype: str = "float16", **wider: int) -> Any:
    import minidecode as md

    return md.load(model_folder(name, record, **wider), plan=PLANS[record.device], dtype=dtype, device=record.device)


def ours(name: str, record: Record, dtype: str = "float16", **wider: int) -> System:
    model = load_ours(name, record, dtype, **wider)

    def prepare(setting: dict) -> Generate:
        ids = prompts_of(setting)

        def generate() -> tuple[list[list[int]], dict]:
            out = model.generate(
                input_ids=ids, num_beams=setting["beams"], max_new_tokens=setting["new"], eos_token_id=None,
                no_repeat_ngram_size=setting["ngram"], memory_budget=None,
            )  # fmt: skip
            return [t.tolist() for t in out.token_ids], receipt_in_figures(out.receipt)

        return generate

    return prepare


def receipt_in_figures(receipt: Any) -> dict:
    """What a call did, by stage; times are the host's, and a stage that reads results waits for the stages before."""
    graphs = receipt.graphs
    return {
        "stages_ms": {stage: round(1e3 * s, 3) for stage, s in receipt.seconds.items()},
        "host_us_a_step": round(1e6 * receipt.seconds.get("steps", 0) / max(receipt.steps, 1), 1),
        "graphs": {"captured": graphs.captured, "reused": graphs.reused, "launches": graphs.launches,
                   "why_not": graphs.why_not},
        "cache_mb": round(receipt.cache_peak_bytes / 1e6, 1), "kernels": dict(receipt.launches),
        "ops": {name: {"calls": op.calls, "ran": op.implementation} for name, op in receipt.ops.items()},
    }  # fmt: skip


def transformers(name: str, record: Record, static: bool = False) -> System:
    import torch
    from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM, CompileConfig, StaticCache

    folder, device = model_folder(name, record), "cuda" if record.device == "cuda" else "cpu"
    kind = AutoModelForCausalLM if name == "gpt2" else AutoModelForSeq2SeqLM
    model = kind.from_pretrained(folder, dtype=torch.float16, attn_implementation="sdpa").to(device).eval()
    model.generation_config.eos_token_id = model.generation_config.forced_eos_token_id = None
    caches: dict[int, Any] = {}  # positions -> a cache that stays, and with it what was compiled and recorded for it

    def prepare(setting: dict) -> Generate:
        ids = torch.tensor(prompts_of(setting), device=device)
        options, kept = {}, None
        if static:
            room = setting["room"]
            if room not in caches:
                caches[room] = StaticCache(config=model.config, max_cache_len=room)
            kept = caches[room]
            options = {"past_key_values": kept, "compile_config": CompileConfig(mode="reduce-overhead")}

        def generate() -> tuple[list[list[int]], dict]:
            with torch.inference_mode():
                if kept is not None:
                    kept.reset()
                out = model.generate(
                    ids, attention_mask=torch.ones_like(ids), num_beams=setting["beams"], do_sample=False,
                    max_new_tokens=setting["new"], no_repeat_ngram_size=setting["ngram"], pad_token_id=1, **options,
                )  # fmt: skip
            return out[:, setting["length"] if name == "gpt2" else 1 :].tolist(), {}

        return generate

    return prepare


def static_transformers(name: str, record: Record) -> System:
    return transformers(name, record, static=True)


def ctranslate2(name: str, record: Record) -> System:
    import ctranslate2 as ct2
    from peers import complete_for_peers

    from minidecode.files.published import published_config

    folder = model_folder(name, record)
    if not (folder / "ct2").exists():
        fields = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        vocabulary = fields.get("vocab_size", 50_257 if name == "gpt2" else 50_265)
        complete_for_peers(published_config(name) | fields, vocabulary, folder)
    kind = ct2.Generator if name == "gpt2" else ct2.Translator
    computed_in = {"cuda": "float16"}.get(record.device, "float32")
    model = kind(str(folder / "ct2"), "cuda" if record.device == "cuda" else "cpu", compute_type=computed_in)

    def prepare(setting: dict) -> Generate:
        tokens = [[f"t{i}" for i in prompt] for prompt in prompts_of(setting)]
        common = {"beam_size": setting["beams"], "no_repeat_ngram_size": setting["ngram"], "max_batch_size": 0}

        def generate() -> tuple[list[list[int]], dict]:
            if name == "gpt2":
                results = model.generate_batch(tokens, max_length=setting["new"], min_length=setting["new"],
                                             include_prompt_in_result=False, **common)  # fmt: skip
                return [r.sequences_ids[0] for r in results], {}
            results = model.translate_batch(tokens, max_decoding_length=setting["new"],
                                          min_decoding_length=setting["new"], **common)  # fmt: skip
            return [[int(t[1:]) for t in r.hypotheses[0]] for r in results], {}

        return generate

    return prepare


# ---- parts -----------------------------------------------------------------------------------------------------------


def smoke(record: Record) -> None:
    """Whether the device gives the CPU's tokens: of the bundled models, or in a quick run of toys."""
    import minidecode as md

    beams = {"num_beams": 4, "no_repeat_ngram_size": 3}
    works = {"tiny-gpt2, greedy": ("tiny-gpt2", {}), "tiny-gpt2, beam 4, n-gram 3": ("tiny-gpt2", beams),
             "tiny-bart, beam 4": ("tiny-bart", {"num_beams": 4})}  # fmt: skip
    if record.quick:
        works = {"gpt2, beam 2": ("gpt2", {"num_beams": 2})}

    def tokens(name: str, device: str, options: dict) -> list[int]:
        if record.quick:
            model = md.load(model_folder(name, record), device=device)
            given = {"input_ids": [[3, 4, 5]], "eos_token_id": None}
        else:
            model, given = md.load(name, device=device), {"prompts": "Fellow citizens,"}
        out = model.generate(**given, max_new_tokens=2 if record.quick else 24, **options)
        return out.token_ids[0].tolist()

    def compared(name: str, options: dict) -> str:
        here, there = (tokens(name, device, options) for device in ("cpu", record.device))
        if here != there:
            raise ValueError(f"{there[:8]}... instead of the CPU's {here[:8]}...")
        return "the CPU's tokens"

    for work, (name, options) in works.items():
        record.ask(work, lambda name=name, options=options: compared(name, options))


def run_ours(record: Record) -> None:
    timed_works(record, ours, list(WORKS))


def run_eager(record: Record) -> None:
    timed_works(record, transformers, list(WORKS))


def run_static(record: Record) -> None:
    timed_works(record, static_transformers, [work for work, setting in WORKS.items() if setting["beams"] == 1])


def run_narrow(record: Record) -> None:
    """GPT-2, one prompt, greedy. The fewer bits, the fewer bytes a step reads: integers should be faster."""
    work = "gpt2, greedy, 1 x 32, 256 new"

    def timed(dtype: str) -> dict:
        turns = (1, 1) if record.quick else (TURNS, 3)
        prepare = ours("gpt2", record, dtype, n_embd=32)  # toys too: a block has 32 weights
        found = measure_setting(prepare, setting_of(work, record.quick), waiter(record.device), *turns)
        first = record.figures.get(NARROW[0], {})
        if "call_ms" in first:
            found["over_float16"] = round(first["call_ms"][0] / found["call_ms"][0], 3)
        return found

    for dtype in NARROW:
        record.ask(dtype, lambda dtype=dtype: timed(dtype))


def run_ctranslate2(record: Record) -> None:
    if importlib.util.find_spec("ctranslate2") is None:
        record["ctranslate2"] = "not installed"
        return
    timed_works(record, ctranslate2, list(WORKS))


def timed_works(record: Record, load: Callable[[str, Record], System], works: list[str]) -> None:
    """Each work on a system; a model is loaded when its first work is due."""
    loaded: dict[str, tuple[System, float]] = {}

    def timed(work: str) -> dict:
        setting = setting_of(work, record.quick)
        name = setting["model"]
        if name not in loaded:
            loaded.clear()  # a model beside it would take its memory
            model_folder(name, record)
            started = time.perf_counter()
            loaded[name] = load(name, record), time.perf_counter() - started
        prepare, seconds = loaded[name]
        turns = (1, 1) if record.quick else (TURNS, 3)
        return {"load_s": round(seconds, 2)} | measure_setting(prepare, setting, waiter_of(record, load), *turns)

    for work in works:
        record.ask(work, lambda work=work: timed(work))


def waiter_of(record: Record, load: Callable) -> Callable[[], None]:
    """What waits for the device: torch's own wait where CuPy need not be installed."""
    if load is ours or record.device != "cuda" or load is ctranslate2:
        return waiter(record.device if load is ours else "cpu")  # CTranslate2's calls return when they are done
    import torch

    return torch.cuda.synchronize


def measure_setting(prepare: System, setting: dict, wait: Callable[[], None], turns: int, first_turns: int) -> dict:
    """Milliseconds of a call and of its first token, what a step takes by the difference, and the first tokens."""
    setting = setting | {"room": setting["length"] + setting["new"]}
    tokens, more = [], {}

    def timed(new: int, turns: int) -> tuple[list[float], list[float]]:
        generate = prepare(setting | {"new": new})

        def run() -> None:
            texts, details = generate()
            tokens[:], more["of"] = texts, details
            if any(len(t) != new for t in texts):
                raise ValueError(f"{min(map(len, texts))} tokens, and not {new}")

        first = [s for _ in range(WARM_UPS if turns > 1 else 1) for s in seconds_of(run, wait, 1)]
        return first, seconds_of(run, wait, turns)

    new = setting["new"]
    warm_ups, calls = timed(new, turns)
    figures = {"call_ms": spread(calls, 1e3), "warm_ups_s": [round(s, 3) for s in warm_ups], **more["of"],
               "tokens": [t[:32] for t in tokens[:4]]}  # fmt: skip
    first_token = spread(timed(1, first_turns)[1], 1e3)
    step = (figures["call_ms"][0] - first_token[0]) / (new - 1)
    return figures | {"first_token_ms": first_token, "step_ms": round(step, 4)}
