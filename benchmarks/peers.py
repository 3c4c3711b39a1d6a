"""minidecode beside transformers and CTranslate2: the same random weights, the same inputs, the same number of tokens.

    pip install '.[peers]'
    python benchmarks/peers.py --out benchmarks/results/peers-cpu.json --readme README.md

Each system runs in a process of its own, loaded once, with the same number of threads; they are asked by turns, so that
a slow moment of the machine hits them all, and who is not asked sleeps. The number of new tokens is forced (no end of
text before it), so that nobody wins by stopping early; which tokens are chosen is another matter (tests hold ours to
transformers'), since random weights are full of near ties. Peers run at their best settings that are known here:
CTranslate2 once with MKL and once with its own products, transformers in inference mode with SDPA attention and its
default cache; ours with plan=fast, and with the kernels of OpenBLAS that `minidecode doctor` recommends for the
processor (--blas-kernels). What is timed is generation from token ids to token ids; loading, converting and a warm-up
are not.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing as mp
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np
from flags import positive, to_read, to_write
from readme import write_between_markers

SETTINGS = {
    "gpt2, greedy, 1 x 32, 64 new": {"model": "gpt2", "batch": 1, "length": 32, "new": 64, "beams": 1, "ngram": 0},
    "gpt2, greedy, 8 x 128, 32 new": {"model": "gpt2", "batch": 8, "length": 128, "new": 32, "beams": 1, "ngram": 0},
    "gpt2, beam 4, 4 x 256, 32 new, n-gram 3":
        {"model": "gpt2", "batch": 4, "length": 256, "new": 32, "beams": 4, "ngram": 3},
    "bart-base, beam 4, 4 x 512, 32 new, n-gram 3":
        {"model": "bart-base", "batch": 4, "length": 512, "new": 32, "beams": 4, "ngram": 3},
}  # fmt: skip
SYSTEMS = {  # name -> (function that loads it, what it is given, environment)
    "minidecode fp32": ("ours", {"dtype": "float32"}, {}),
    "minidecode int8": ("ours", {"dtype": "int8"}, {}),
    "CTranslate2 fp32, MKL": ("ctranslate2", {"compute_type": "float32"}, {"CT2_USE_MKL": "1"}),
    "CTranslate2 fp32, own": ("ctranslate2", {"compute_type": "float32"}, {"CT2_USE_MKL": "0"}),
    "CTranslate2 int8, MKL": ("ctranslate2", {"compute_type": "int8"}, {"CT2_USE_MKL": "1"}),
    "CTranslate2 int8, own": ("ctranslate2", {"compute_type": "int8"}, {"CT2_USE_MKL": "0"}),
    "transformers": ("transformers", {}, {}),
}
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


def make_checkpoint(name: str, folder: Path, shrink: bool) -> None:
    """A folder in the Hugging Face layout, and CTranslate2's form of it, with the random weights of `load`.

    CTranslate2 wants a tokenizer with as many tokens as the model has: one is made whose tokens are numbers.
    """
    import tokenizers
    import transformers
    from ctranslate2.converters import TransformersConverter
    from safetensors.numpy import save_file

    from minidecode.model import read_settings
    from minidecode.published import published_config, random_tensors

    fields = published_config(name)
    if shrink:
        small = {"n_embd": 64, "n_layer": 2, "n_head": 2} if name == "gpt2" else {
            "d_model": 64, "encoder_layers": 1, "decoder_layers": 1, "encoder_ffn_dim": 128, "decoder_ffn_dim": 128,
            "encoder_attention_heads": 2, "decoder_attention_heads": 2,
        }  # fmt: skip
        fields = fields | small
    family, config, _ = read_settings(None, fields)
    tensors = random_tensors(family.tensors.tensor_shapes(config), np.float32)
    kind = {"gpt2": transformers.GPT2Config, "bart": transformers.BartConfig}[fields["model_type"]]
    written = kind(**{k: v for k, v in fields.items() if k != "model_type"}).to_dict()
    written |= {"architectures": [kind.__name__.replace("Config", "LMHeadModel" if name == "gpt2" else
                                                        "ForConditionalGeneration")]}  # fmt: skip
    if name != "gpt2":  # as CTranslate2's converter asks for them
        written |= {"normalize_before": False, "normalize_embedding": True, "add_final_layer_norm": False,
                    "static_position_embeddings": False, "extra_pos_embeddings": 2,
                    "add_bias_logits": False}  # fmt: skip
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(written), encoding="utf-8")
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({f"t{i}": i for i in range(config.vocab_size)}, "t0"))
    special = dict.fromkeys(("bos_token", "eos_token", "unk_token", "pad_token"), "t0")
    if name != "gpt2":
        special = {"bos_token": "t0", "pad_token": "t1", "eos_token": "t2", "unk_token": "t3"}
    transformers.PreTrainedTokenizerFast(tokenizer_object=words, **special).save_pretrained(folder)
    TransformersConverter(str(folder)).convert(str(folder / "ct2"), quantization="float32")


def prompts_of(setting: dict) -> list[list[int]]:
    """Different prompts of the same length, without special tokens."""
    rng = np.random.default_rng(0)
    return rng.integers(100, 50_000, (setting["batch"], setting["length"])).tolist()


def ours(folder: Path, threads: int, dtype: str) -> Callable[[dict], Callable[[], list]]:
    import minidecode as md

    model = md.load(folder, plan="fast", dtype=dtype)

    def prepare(setting: dict) -> Callable[[], list]:
        ids = prompts_of(setting)

        def run() -> list:
            out = model.generate(
                input_ids=ids, num_beams=setting["beams"], max_new_tokens=setting["new"],
                min_new_tokens=setting["new"], no_repeat_ngram_size=setting["ngram"],
            )  # fmt: skip
            return [t.tolist() for t in out.token_ids]

        return run

    return prepare


def transformers(folder: Path, threads: int) -> Callable[[dict], Callable[[], list]]:
    import torch
    from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM

    torch.set_num_threads(threads)
    is_gpt2 = json.loads((folder / "config.json").read_text(encoding="utf-8"))["model_type"] == "gpt2"
    model = (AutoModelForCausalLM if is_gpt2 else AutoModelForSeq2SeqLM).from_pretrained(folder).eval()

    def prepare(setting: dict) -> Callable[[], list]:
        ids = torch.tensor(prompts_of(setting))

        def run() -> list:
            with torch.inference_mode():
                out = model.generate(
                    ids, attention_mask=torch.ones_like(ids), num_beams=setting["beams"], do_sample=False,
                    max_new_tokens=setting["new"], min_new_tokens=setting["new"], pad_token_id=1,
                    no_repeat_ngram_size=setting["ngram"], early_stopping=False,
                )  # fmt: skip
            return out[:, setting["length"] if is_gpt2 else 1 :].tolist()

        return run

    return prepare


def ctranslate2(folder: Path, threads: int, compute_type: str) -> Callable[[dict], Callable[[], list]]:
    import ctranslate2

    is_gpt2 = json.loads((folder / "config.json").read_text(encoding="utf-8"))["model_type"] == "gpt2"
    kind = ctranslate2.Generator if is_gpt2 else ctranslate2.Translator
    model = kind(str(folder / "ct2"), "cpu", compute_type=compute_type, inter_threads=1, intra_threads=threads)

    def prepare(setting: dict) -> Callable[[], list]:
        tokens = [[f"t{i}" for i in prompt] for prompt in prompts_of(setting)]
        common = {"beam_size": setting["beams"], "no_repeat_ngram_size": setting["ngram"], "max_batch_size": 0}

        def run() -> list:
            if is_gpt2:
                found = model.generate_batch(tokens, max_length=setting["new"], min_length=setting["new"],
                                             include_prompt_in_result=False, **common)  # fmt: skip
                return [r.sequences_ids[0] for r in found]
            found = model.translate_batch(tokens, max_decoding_length=setting["new"],
                                          min_decoding_length=setting["new"], **common)  # fmt: skip
            return [[int(t[1:]) for t in r.hypotheses[0]] for r in found]

        return run

    return prepare


def work(pipe, load: str, folder: Path, threads: int, given: dict, environment: dict) -> None:
    """A system's process: loads once, then answers each setting with its tokens and seconds."""
    os.environ.update(environment | dict.fromkeys(THREADS, str(threads)) | {"OMP_WAIT_POLICY": "PASSIVE"})
    prepare, runs = globals()[load](folder, threads, **given), {}
    while (setting := pipe.recv()) is not None:
        key = json.dumps(setting)
        runs.setdefault(key, None)
        runs[key] = runs[key] or prepare(setting)
        started = time.perf_counter()
        tokens = runs[key]()
        pipe.send((tokens, time.perf_counter() - started))


def time_setting(setting: dict, pipes: dict, runs: int) -> dict[str, dict]:
    """System -> tokens/s and seconds, by turns, after one run that does not count."""
    seconds, tokens = {name: [] for name in pipes}, {}
    rng = np.random.default_rng(0)
    for turn in range(runs + 1):
        for name in rng.permutation(list(pipes)).tolist():
            pipes[name].send(setting)
            tokens[name], took = pipes[name].recv()
            if any(len(t) < setting["new"] - 1 for t in tokens[name]):
                raise SystemExit(f"{name} made {min(map(len, tokens[name]))} tokens, and not {setting['new']}")
            if turn > 0:
                seconds[name].append(took)
    new = setting["batch"] * setting["new"]
    return {
        name: {"tokens_per_second": round(new / statistics.median(s), 1), "seconds": [round(x, 4) for x in sorted(s)],
               "same_tokens_as_transformers": None if "transformers" not in tokens else
               sum(a == b for a, b in zip(tokens[name], tokens["transformers"], strict=True))}
        for name, s in seconds.items()
    }  # fmt: skip


def versions() -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for package in ("minidecode", "numpy", "numba", "transformers", "torch", "ctranslate2"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = None
    return found


def table(found: dict) -> str:
    """Tokens per second, and ours over the best of each peer."""
    lines = ["| work | minidecode fp32 | int8 | CTranslate2 fp32 | int8 | transformers | ours / CTranslate2: fp32,"
             " int8 | ours / transformers |", "|---|---|---|---|---|---|---|---|"]  # fmt: skip
    for name, rows in found["work"].items():

        def best(start: str, rows: dict = rows) -> float | None:
            return max((r["tokens_per_second"] for n, r in rows.items() if n.startswith(start)), default=None)

        ours_fp32, ours_int8 = best("minidecode fp32"), best("minidecode int8")
        theirs, theirs_int8, torch = best("CTranslate2 fp32"), best("CTranslate2 int8"), best("transformers")
        shown = [f"{x:,.1f}" if x else "" for x in (ours_fp32, ours_int8, theirs, theirs_int8, torch)]
        pairs = [(ours_fp32, theirs), (ours_int8, theirs_int8), (ours_fp32, torch)]
        first, second, third = (f"{a / b:.2f}x" if a and b else "" for a, b in pairs)
        lines.append(f"| {name} | {' | '.join(shown)} | {first}, {second} | {third} |")
    m, v = found["machine"], found["versions"]
    packages = ", ".join(f"{k} {v[k]}" for k in ("numpy", "numba", "transformers", "torch", "ctranslate2") if v[k])
    machine = f"{m['threads']} threads on {m['cores']} cores ({m['processor']}); kernels of our OpenBLAS:"
    lines.append(f"\nTokens per second, {machine} {m['blas_kernels']}; {packages}.")
    return "\n".join(lines + ([found["note"]] if found["note"] else []))


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--runs", type=positive, default=5)
    p.add_argument("--threads", type=positive, default=os.cpu_count(), help="of every system")
    p.add_argument("--only", nargs="+", default=list(SETTINGS), metavar="WORK", help="works whose name begins so")
    p.add_argument("--systems", nargs="+", default=list(SYSTEMS), metavar="NAME", help="systems whose name begins so")
    p.add_argument(
        "--blas-kernels", default="", metavar="NAME", help="OPENBLAS_CORETYPE of ours; see minidecode doctor"
    )
    p.add_argument("--shrink", action="store_true", help="toy shapes: to see that it runs")
    p.add_argument("--note", default="", help="what a reader should know of the machine")
    p.add_argument("--out", type=to_write, help="JSON file to write")
    p.add_argument("--readme", type=to_read, help="file whose table between the marks peers is replaced")
    a = p.parse_args()
    works = {n: s for n, s in SETTINGS.items() if any(n.startswith(o) for o in a.only)}
    systems = {n: s for n, s in SYSTEMS.items() if any(n.startswith(o) for o in a.systems)}
    if not works or not systems:
        raise SystemExit(f"nothing to do: works are {'; '.join(SETTINGS)}; systems are {'; '.join(SYSTEMS)}")
    if a.blas_kernels:
        systems = {n: (load, given, environment | ({"OPENBLAS_CORETYPE": a.blas_kernels} if load == "ours" else {}))
                   for n, (load, given, environment) in systems.items()}  # fmt: skip
    context, found = mp.get_context("spawn"), {}
    with tempfile.TemporaryDirectory() as scratch:
        for name in dict.fromkeys(s["model"] for s in works.values()):
            folder = Path(scratch) / name
            maker = context.Process(target=make_checkpoint, args=(name, folder, a.shrink))
            maker.start()
            maker.join()
            if maker.exitcode:
                raise SystemExit(f"no checkpoint could be made for {name}: see above")
            pipes, workers = {}, []
            for system, (load, given, environment) in systems.items():
                pipes[system], theirs = context.Pipe()
                workers.append(context.Process(target=work, args=(theirs, load, folder, a.threads, given, environment),
                                               daemon=True))  # fmt: skip
                workers[-1].start()
            for label, setting in works.items():
                if setting["model"] == name:
                    found[label] = time_setting(setting, pipes, a.runs)
                    print(label, {n: r["tokens_per_second"] for n, r in found[label].items()}, flush=True)
            for pipe, worker in zip(pipes.values(), workers, strict=True):
                pipe.send(None)
                worker.join()
    machine = {"processor": platform.processor() or platform.machine(), "cores": os.cpu_count(), "threads": a.threads,
               "blas_kernels": a.blas_kernels or "as OpenBLAS chooses"}  # fmt: skip
    result = {"machine": machine, "versions": versions(), "note": a.note, "work": found}
    print(table(result))
    if a.out:
        a.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    if a.readme:
        write_between_markers(a.readme, "peers", table(result))


if __name__ == "__main__":
    main()
