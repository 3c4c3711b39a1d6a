"""What the make_*.py share: storing random models, asking transformers 5, keeping clear cases.

Each model is one folder:

    config.json, model.safetensors   the model, in the Hugging Face layout; the way it is stored differs
    generation_config.json           for some: defaults of `generate`
    cases.json                       prompts, generation options, expected tokens and scores
    logits.npz                       expected logits in float64, one array (N, V) per prompt: an eighth, see `sample`

The expected numbers come from transformers in float64, from the weights as they lie on disk. A generation case is
kept only if it is far from a tie: see `settled`.
"""

from __future__ import annotations

import copy
import json
import random
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from safetensors.torch import save_file
from transformers import GenerationConfig

STORED = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
SPREAD = 0.35  # standard deviation of the weights: wide enough that choices are clear, see random_weights
STEP = SPREAD / 5  # between two values of weights, see on_grid

# ---- models ----------------------------------------------------------------------------------------------------------


def on_grid(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor in about 40 values, which an archive holds in less than a byte each; a 0 stays.

    They are the odd multiples of STEP / 2. None of them is exact in 16 bits: a weight that is rounded on its way shows.
    """
    return torch.where(tensor == 0, 0.0, STEP * (torch.floor(tensor / STEP) + 0.5))


def random_tensor(shape: Iterable[int], generator: torch.Generator) -> torch.Tensor:
    return on_grid(SPREAD * torch.randn(tuple(shape), generator=generator))


def random_weights(model: torch.nn.Module, gains: tuple[str, ...], seed: int) -> dict[str, torch.Tensor]:
    """Name -> normal random tensor for every parameter; those whose names end in `gains` lie around 1, others around 0.

    transformers' own start (standard deviation 0.02) makes all tokens nearly as likely: every choice would be a tie.
    """
    generator = torch.Generator().manual_seed(seed)
    return {
        name: (1.0 if name.endswith(gains) else 0.0) + random_tensor(p.shape, generator)
        for name, p in model.named_parameters()
    }


def write_model(folder: Path, fields: dict, stored: dict[str, torch.Tensor], shards: int) -> None:
    """config.json, and the tensors under the names given, in that many files."""
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "config.json", fields)
    if shards == 1:
        save_file(stored, folder / "model.safetensors", metadata={"format": "pt"})
        return
    weight_map = {}
    for s in range(shards):
        file = f"model-{s + 1:05}-of-{shards:05}.safetensors"
        part = {name: stored[name] for name in sorted(stored)[s::shards]}
        save_file(part, folder / file, metadata={"format": "pt"})
        weight_map |= dict.fromkeys(part, file)
    size = sum(t.numel() * t.element_size() for t in stored.values())
    write_json(folder / "model.safetensors.index.json", {"metadata": {"total_size": size}, "weight_map": weight_map})


def write_json(path: Path, value: dict) -> None:
    path.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")


def load_whole(model_class: type, folder: Path, dtype: torch.dtype, ignored: tuple[str, ...]):
    """The folder as transformers loads it, attention written out ("eager"); raises if it did not use every tensor.

    Names that end in `ignored` may stay unused: old files hold them, and they bear on nothing.
    """
    model, info = model_class.from_pretrained(
        folder, dtype=dtype, attn_implementation="eager", output_loading_info=True
    )
    unused = [name for name in info["unexpected_keys"] if not name.endswith(ignored)]
    if info["missing_keys"] or info["mismatched_keys"] or unused:
        raise RuntimeError(f"{folder}: transformers did not load it whole: {info}")
    return model.eval()


@torch.no_grad()
def nudged(model, seed: int):
    """A copy whose weights are off by about one part in a million, ten times the rounding of float32."""
    generator = torch.Generator().manual_seed(seed)
    other = copy.deepcopy(model)
    for p in other.parameters():
        p.mul_(1 + 1e-6 * torch.randn(p.shape, generator=generator, dtype=p.dtype))
    return other


# ---- what transformers computes --------------------------------------------------------------------------------------


def pad(prompts: list[list[int]], pad_id: int, left: bool = True, extra: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """(ids_BN, mask_BN) of prompts of mixed lengths; `extra` adds that many columns of nothing but padding."""
    N = max(map(len, prompts)) + extra
    ids_BN = np.full((len(prompts), N), pad_id)
    mask_BN = np.zeros((len(prompts), N), np.int64)
    for b, prompt in enumerate(prompts):
        where = slice(N - len(prompt), N) if left else slice(0, len(prompt))
        ids_BN[b, where], mask_BN[b, where] = prompt, 1
    return ids_BN, mask_BN


def depends_on_padding(prompts: list[list[int]], options: dict) -> bool:
    """Whether transformers gives a prompt something else in a padded batch than alone.

    It counts padding in min_length and max_length, and a ban of n-grams sees padding as text, which does no harm only
    where the padding token cannot stand inside a text. minidecode treats every sentence as if it were alone.
    """
    if len({len(p) for p in prompts}) == 1:
        return False
    pad_id = options["pad_token_id"]
    pad_may_be_text = pad_id not in (options["eos_token_id"] or []) or any(pad_id in p for p in prompts)
    banned = options.get("no_repeat_ngram_size", 0)
    return "min_length" in options or "max_length" in options or (banned > 0 and (pad_may_be_text or banned == 1))


def oracle_generate(model, prompts: list[list[int]], options: dict) -> tuple[list[list[int]], list[float]]:
    """(new tokens, score) of each hypothesis, as minidecode returns them: EOS included, no padding.

    The padding of sources is never counted: targets begin with one token each, whatever the sources.
    """
    alone = not model.config.is_encoder_decoder and depends_on_padding(prompts, options)
    return generate_alone(model, prompts, options) if alone else generate_batch(model, prompts, options)


def generate_alone(model, prompts: list[list[int]], options: dict) -> tuple[list[list[int]], list[float]]:
    """As `oracle_generate`, each sentence in a call of its own."""
    tokens, scores = [], []
    for prompt in prompts:
        new_tokens, new_scores = generate_batch(model, [prompt], options)
        tokens += new_tokens
        scores += new_scores
    return tokens, scores


@torch.no_grad()
def generate_batch(model, prompts, options) -> tuple[list[list[int]], list[float]]:
    """One call of transformers' generate, in which the options given are all the options there are.

    Prompts are padded on the left, so that their ends meet; sources on the right, where transformers looks for it.
    """
    is_pair = model.config.is_encoder_decoder
    ids_BN, mask_BN = pad(prompts, options["pad_token_id"], left=not is_pair)
    asked = {"decoder_start_token_id": model.config.decoder_start_token_id} | options if is_pair else dict(options)
    if options["num_beams"] == 1:  # greedy search has no use for these, and transformers says so
        asked = {k: v for k, v in asked.items() if k not in ("early_stopping", "length_penalty")}
    model.generation_config = GenerationConfig()
    out = model.generate(
        torch.tensor(ids_BN), attention_mask=torch.tensor(mask_BN), do_sample=False,
        return_dict_in_generate=True, output_scores=True, output_logits=True, **asked,
    )  # fmt: skip
    new_RT = out.sequences[:, 1 if is_pair else ids_BN.shape[1] :].numpy()
    tokens = [until_eos(row.tolist(), options["eos_token_id"]) for row in new_RT]
    if options["num_beams"] > 1:
        return tokens, out.sequences_scores.tolist()
    return tokens, [greedy_score(out, b, row, options["length_penalty"]) for b, row in enumerate(tokens)]


def until_eos(row: list[int], eos: list[int] | int | None) -> list[int]:
    """The row up to its first EOS: what transformers puts behind it is padding."""
    ends = np.flatnonzero(np.isin(row, [] if eos is None else eos))
    return row[: ends[0] + 1] if len(ends) else row


def greedy_score(out, b: int, tokens: list[int], length_penalty: float) -> float:
    """Sum of the log-probabilities / length ** length_penalty: what transformers leaves out for greedy search.

    A forced token is certain and adds nothing, as in transformers' beam search; its processed scores say so.
    """
    total = 0.0
    for logits_BV, processed_BV, token in zip(out.logits, out.scores, tokens, strict=False):
        possible = processed_BV[b][processed_BV[b] > -torch.inf]
        if (possible != 0).any():
            total += float(torch.log_softmax(logits_BV[b].double(), -1)[token])
    return total / len(tokens) ** length_penalty


# ---- cases -----------------------------------------------------------------------------------------------------------


def draw_prompts(rng: random.Random, V: int) -> list[list[int]]:
    """One to four prompts of mixed lengths; some use few tokens, so that n-grams repeat."""
    prompts = []
    for _ in range(rng.choice([1, 2, 3, 3, 4])):
        few = rng.sample(range(2, V), 3) if rng.random() < 0.5 else range(2, V)
        prompts.append([rng.choice(few) for _ in range(rng.randint(1, 9))])
    return prompts


def draw_eos(rng: random.Random, model, prompts: list[list[int]]) -> list[int] | None:
    """None to three EOS ids. One of them is a token that the model says early, so that texts end."""
    V = model.config.vocab_size
    number = rng.choice([0, 1, 1, 1, 2, 3])
    if number == 0:
        return None
    free = dict(num_beams=1, max_new_tokens=6, eos_token_id=None, pad_token_id=0, length_penalty=1.0)
    said, _ = oracle_generate(model, prompts, free)
    first = rng.choice(rng.choice(said)[1:])
    return [first, *rng.sample([t for t in range(V) if t != first], number - 1)]


def draw_options(rng: random.Random, W: int, eos: list[int] | None, prompts: list[list[int]]) -> dict:
    """Options of `generate` for a beam of W; prompts: what the new tokens come after, which lengths may count."""
    longest = max(map(len, prompts))
    options = {"num_beams": W, "eos_token_id": eos, "pad_token_id": eos[0] if eos else 0}
    new = rng.randint(3, 14)
    if rng.random() < 0.25:
        options["max_length"] = longest + new
    else:
        options["max_new_tokens"] = new
    least = rng.choice([None, None, "min_new_tokens", "min_length"])
    if least == "min_new_tokens" and "max_new_tokens" in options:
        options[least] = rng.randint(1, new)
    if least == "min_length":
        options[least] = min(map(len, prompts)) + rng.randint(1, new)
    options["no_repeat_ngram_size"] = rng.choice([0, 0, 2, 3])
    options["length_penalty"] = rng.choice([1.0, 0.0, 2.0, -1.0, 0.7]) if W > 1 else 1.0
    if W > 1:
        options["early_stopping"] = rng.choice([True, False, "never"])
        options["num_return_sequences"] = rng.randint(1, W)
    return options


def settled(models: list, prompts, options: dict, generate: Callable = oracle_generate) -> bool:
    """Whether all these models give the same tokens: float64, float32, and float64 with weights nudged twice.

    If they do, then neither rounding nor the order of sums decides the tokens, on this machine or on another.
    """
    found = [generate(m, prompts, options)[0] for m in models]
    return all(tokens == found[0] for tokens in found[1:])


def generation_case(models: list, prompts, options: dict, generate: Callable = oracle_generate) -> dict | None:
    """What cases.json keeps of one call, or None near a tie."""
    if not settled(models, prompts, options, generate):
        return None
    tokens, scores = generate(models[0], prompts, options)
    return {"prompts": prompts, "options": options, "tokens": tokens, "scores": scores}


def default_cases(
    folder: Path, defaults: dict, calls: Iterable[dict], case: Callable, rng: random.Random, models: list
) -> list[dict | None]:
    """Cases that leave options to generation_config.json, which this writes: each call overrules one of them.

    transformers is asked with all of them spelled out: what is tested is that minidecode fills in the same.
    """
    write_json(folder / "generation_config.json", defaults)
    cases = []
    for given in calls:
        merged = defaults | given
        if "max_length" in given:
            merged.pop("max_new_tokens", None)
        if "max_new_tokens" in given:
            merged.pop("max_length", None)
        found = case(models, draw_prompts(rng, models[0].config.vocab_size), merged)
        cases.append(found and found | {"options": given})
    return cases


# ---- files -----------------------------------------------------------------------------------------------------------


def sample(rows_NV: np.ndarray) -> np.ndarray:
    """The rows with every eighth number kept, one column further left from row to row, and NaN for the others.

    A row of logits has only as many independent numbers as the model is wide: a mistake in it shows in those kept too.
    """
    row_N1, column_V = np.arange(len(rows_NV))[:, None], np.arange(rows_NV.shape[1])
    return np.where((row_N1 + column_V) % 8 == 0, rows_NV, np.nan)


def write_expected(folder: Path, inputs: dict[str, list], logits: list[np.ndarray], cases: list[dict]) -> None:
    """cases.json, one case per line behind the inputs of the logits; and logits.npz."""
    lines = ",\n".join(json.dumps(case) for case in cases)
    named = ",\n".join(f"{json.dumps(name)}: {json.dumps(rows)}" for name, rows in inputs.items())
    (folder / "cases.json").write_text(f'{{{named},\n"generation": [\n{lines}\n]}}\n', encoding="utf-8")
    np.savez(folder / "logits.npz", **{f"prompt_{b}_NV": sample(rows) for b, rows in enumerate(logits)})


def write_cases(
    folder: Path, load: Callable[[torch.dtype], Any], seed: int, logits_of: Callable, cases: Callable
) -> tuple[int, int]:
    """What transformers computes with a folder's model -> generation cases kept, and dropped as near ties.

    load: the model, as transformers loads it. logits_of(rng, model): inputs, and their logits. cases(rng, models).
    """
    exact = load(torch.float64)
    models = [exact, load(torch.float32), nudged(exact, seed), nudged(exact, seed + 1)]
    rng = random.Random(seed)
    inputs, logits = logits_of(rng, exact)
    drawn = cases(rng, models)
    kept = [case for case in drawn if case]
    write_expected(folder, inputs, logits, kept)
    return len(kept), len(drawn) - len(kept)


def make_all(out: Path, names: Iterable[str], make: Callable[[str, int], tuple[int, int]]) -> None:
    """Calls make(name, seed), which returns how many cases it kept and how many it dropped; writes summary.json."""
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    shutil.rmtree(out, ignore_errors=True)
    kept = dropped = 0
    for i, name in enumerate(names):
        new_kept, new_dropped = make(name, 1000 + 10 * i)
        kept, dropped = kept + new_kept, dropped + new_dropped
        print(f"{name}: {new_kept} generation cases, {new_dropped} near ties dropped", flush=True)
    summary = {"transformers": transformers.__version__, "torch": torch.__version__.split("+")[0],
               "cases": kept, "dropped": dropped}  # fmt: skip
    write_json(out / "summary.json", summary)
    print(f"{kept} cases, {dropped} dropped")
    if dropped > 0.05 * (kept + dropped):
        raise SystemExit("more than 5 % of the cases are near ties: widen SPREAD")
