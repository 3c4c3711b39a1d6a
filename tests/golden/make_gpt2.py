"""Remakes tests/golden/gpt2: small random GPT-2 models, and what transformers 5 computes with them.

    pip install '.[oracle]'
    python tests/golden/make_gpt2.py

Every seed is fixed, so a second run writes the same files. Each model is one folder:

    config.json, model.safetensors   the model, in the Hugging Face layout; the way it is stored differs
    generation_config.json           for some: defaults of `generate`
    cases.json                       prompts, generation options, expected tokens and scores
    logits.npz                       expected logits in float64, one array (N, V) per prompt

The expected numbers come from transformers in float64, from the weights as they lie on disk. A generation case is
kept only if it is far from a tie: see `settled`.
"""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import numpy as np
import torch
import transformers
from safetensors.torch import save_file
from transformers import GenerationConfig, GPT2Config, GPT2LMHeadModel

OUT = Path(__file__).parent / "gpt2"
STORED = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
SPREAD = 0.35  # standard deviation of the weights: wide enough that choices are clear, see make_weights
BEAMS = (1, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5)  # num_beams of the generation cases of one model, in turn

# Name -> the fields of config.json that differ from transformers' own, then how write_folder stores the weights.
# The model "defaults" also gets a generation_config.json.
MODELS = {
    "gelu-new": (dict(n_embd=12, n_head=3, n_layer=2, vocab_size=37), dict()),
    "gelu": (dict(n_embd=10, n_head=2, n_layer=2, vocab_size=31, activation_function="gelu", n_inner=13), dict()),
    "relu": (dict(n_embd=9, n_head=1, n_layer=3, vocab_size=41, activation_function="relu"), dict(prefix="")),
    "silu": (dict(n_embd=14, n_head=2, n_layer=2, vocab_size=33, activation_function="silu", n_inner=40),
             dict(dtype="bfloat16")),
    "tanh": (dict(n_embd=20, n_head=4, n_layer=1, vocab_size=53, activation_function="tanh"), dict(dtype="float16")),
    "untied": (dict(n_embd=15, n_head=5, n_layer=2, vocab_size=35, tie_word_embeddings=False), dict()),
    "untied-unprefixed": (dict(n_embd=8, n_head=4, n_layer=3, vocab_size=29, tie_word_embeddings=False, n_inner=7),
                          dict(prefix="", dtype="float16")),
    "unscaled": (dict(n_embd=6, n_head=2, n_layer=2, vocab_size=34, scale_attn_weights=False), dict()),
    "inverse-layer": (dict(n_embd=15, n_head=3, n_layer=4, vocab_size=30, scale_attn_by_inverse_layer_idx=True,
                           n_inner=11), dict(dtype="bfloat16", prefix="")),
    "inverse-layer-unscaled": (dict(n_embd=7, n_head=1, n_layer=3, vocab_size=43, scale_attn_weights=False,
                                    scale_attn_by_inverse_layer_idx=True, activation_function="silu"), dict()),
    "deep": (dict(n_embd=12, n_head=2, n_layer=4, vocab_size=39, n_inner=17, activation_function="gelu"), dict()),
    "large-epsilon": (dict(n_embd=11, n_head=1, n_layer=2, vocab_size=47, layer_norm_epsilon=0.1), dict()),
    "small-epsilon": (dict(n_embd=18, n_head=3, n_layer=1, vocab_size=32, layer_norm_epsilon=1e-12,
                           activation_function="relu"), dict(dtype="float16", prefix="")),
    "five-heads": (dict(n_embd=35, n_head=5, n_layer=1, vocab_size=36, n_inner=9, layer_norm_epsilon=1e-3), dict()),
    "sharded": (dict(n_embd=12, n_head=4, n_layer=3, vocab_size=38, tie_word_embeddings=False,
                     activation_function="tanh", n_inner=19), dict(shards=3)),
    "old-file": (dict(n_embd=10, n_head=5, n_layer=2, vocab_size=40, activation_function="gelu_pytorch_tanh"),
                 dict(prefix="", old=True)),
    "defaults": (dict(n_embd=12, n_head=2, n_layer=2, vocab_size=45, n_inner=21), dict()),
}  # fmt: skip


# ---- models ----------------------------------------------------------------------------------------------------------


def config_fields(changes: dict) -> dict:
    """The content of a config.json: a context of 24 tokens, EOS and pad inside the small vocabulary."""
    fields = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_positions": 24, "bos_token_id": 0}
    return fields | {"eos_token_id": 1, "pad_token_id": 1} | changes


def make_weights(fields: dict, seed: int) -> dict[str, torch.Tensor]:
    """Name -> normal random tensor; the gains of the norms lie around 1, everything else around 0.

    transformers' own start (standard deviation 0.02) makes all tokens nearly as likely: every choice would be a tie.
    """
    generator = torch.Generator().manual_seed(seed)
    model = GPT2LMHeadModel(GPT2Config(**fields))
    weights = {}
    for name, shape in ((name, p.shape) for name, p in model.named_parameters()):
        centre = 1.0 if name.endswith((".ln_1.weight", ".ln_2.weight", ".ln_f.weight")) else 0.0
        weights[name] = centre + SPREAD * torch.randn(shape, generator=generator)
    return weights


def write_folder(
    folder: Path, fields: dict, weights: dict, dtype="float32", prefix="transformer.", shards=1, old=False
):
    """config.json and the weights.

    prefix: "" leaves `transformer.` out of the names, as OpenAI's file does. shards: in how many files.
    old: adds what old versions stored too, the causal mask of each layer and a copy of the tied output matrix.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(fields, indent=1) + "\n", encoding="utf-8")
    stored = {n.replace("transformer.", prefix, 1): t.to(STORED[dtype]).contiguous() for n, t in weights.items()}
    if old:
        N = fields["n_positions"]
        for i in range(fields["n_layer"]):
            stored[f"{prefix}h.{i}.attn.bias"] = torch.tril(torch.ones(1, 1, N, N)).to(STORED[dtype])
        stored["lm_head.weight"] = stored[f"{prefix}wte.weight"].clone()
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
    index = {"metadata": {"total_size": size}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=1) + "\n", encoding="utf-8")


def load_oracle(folder: Path, dtype: torch.dtype) -> GPT2LMHeadModel:
    """The folder as transformers loads it, attention written out ("eager"); raises if it did not use every tensor."""
    model, info = GPT2LMHeadModel.from_pretrained(
        folder, dtype=dtype, attn_implementation="eager", output_loading_info=True
    )
    unused = [name for name in info["unexpected_keys"] if not name.endswith(".attn.bias")]
    if info["missing_keys"] or info["mismatched_keys"] or unused:
        raise RuntimeError(f"{folder}: transformers did not load it whole: {info}")
    return model.eval()


def nudged(model: GPT2LMHeadModel, seed: int) -> GPT2LMHeadModel:
    """A float64 copy whose weights are off by about one part in a million, ten times the rounding of float32."""
    generator = torch.Generator().manual_seed(seed)
    copy = GPT2LMHeadModel(model.config).double().eval()
    copy.load_state_dict(model.state_dict())
    with torch.no_grad():
        for p in copy.parameters():
            p.mul_(1 + 1e-6 * torch.randn(p.shape, generator=generator, dtype=p.dtype))
    return copy


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


@torch.no_grad()
def oracle_logits(model, prompts: list[list[int]], left: bool = True) -> list[np.ndarray]:
    """Logits (N, V) of each prompt, from one padded batch with attention mask and positions that skip the padding."""
    ids_BN, mask_BN = pad(prompts, 1, left, extra=2)
    pos_BN = np.maximum(mask_BN.cumsum(axis=1) - 1, 0)
    logits_BNV = model(
        torch.tensor(ids_BN), attention_mask=torch.tensor(mask_BN), position_ids=torch.tensor(pos_BN)
    ).logits.numpy()
    return [logits_BNV[b, mask_BN[b] == 1] for b in range(len(prompts))]


def depends_on_padding(prompts: list[list[int]], options: dict) -> bool:
    """Whether transformers gives a sentence something else in a padded batch than alone.

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
    """(new tokens, score) of each hypothesis, as minidecode returns them: EOS included, no padding."""
    rows = [[p] for p in prompts] if depends_on_padding(prompts, options) else [prompts]
    tokens, scores = [], []
    for batch in rows:
        new_tokens, new_scores = _generate_batch(model, batch, options)
        tokens += new_tokens
        scores += new_scores
    return tokens, scores


@torch.no_grad()
def _generate_batch(model, prompts, options):
    """One call of transformers' generate, in which the options given are all the options there are."""
    ids_BN, mask_BN = pad(prompts, options["pad_token_id"])
    asked = dict(options)
    if options["num_beams"] == 1:  # greedy search has no use for these, and transformers says so
        asked = {k: v for k, v in asked.items() if k not in ("early_stopping", "length_penalty")}
    model.generation_config = GenerationConfig()
    out = model.generate(
        torch.tensor(ids_BN), attention_mask=torch.tensor(mask_BN), do_sample=False,
        return_dict_in_generate=True, output_scores=True, output_logits=True, **asked,
    )  # fmt: skip
    new_RT = out.sequences[:, ids_BN.shape[1] :].numpy()
    tokens = [until_eos(row.tolist(), options["eos_token_id"] or []) for row in new_RT]
    if options["num_beams"] > 1:
        return tokens, out.sequences_scores.tolist()
    return tokens, [greedy_score(out.logits, b, row, options) for b, row in enumerate(tokens)]


def until_eos(row: list[int], eos: list[int]) -> list[int]:
    """The row up to its first EOS: what transformers puts behind it is padding."""
    ends = [t for t, token in enumerate(row) if token in eos]
    return row[: ends[0] + 1] if ends else row


def greedy_score(logits_TBV, b: int, tokens: list[int], options: dict) -> float:
    """Sum of the log-probabilities / length ** length_penalty: what transformers leaves out for greedy search."""
    logp_TV = [torch.log_softmax(logits_BV[b].double(), -1) for logits_BV in logits_TBV]
    return float(sum(logp_TV[t][token] for t, token in enumerate(tokens))) / len(tokens) ** options["length_penalty"]


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
    """Options of `generate` for a beam of W."""
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


def settled(models: list, prompts, options: dict) -> bool:
    """Whether all these models give the same tokens: float64, float32, and float64 with weights nudged twice.

    If they do, then neither rounding nor the order of sums decides the tokens, on this machine or on another.
    """
    found = [oracle_generate(m, prompts, options)[0] for m in models]
    return all(tokens == found[0] for tokens in found[1:])


def generation_case(models: list, prompts, options: dict) -> dict | None:
    """What cases.json keeps of one call, or None near a tie."""
    if not settled(models, prompts, options):
        return None
    tokens, scores = oracle_generate(models[0], prompts, options)
    return {"prompts": prompts, "options": options, "tokens": tokens, "scores": scores}


def plain_cases(rng: random.Random, models: list) -> list[dict | None]:
    """One case for each entry of BEAMS, all options given."""
    cases = []
    for W in BEAMS:
        prompts = draw_prompts(rng, models[0].config.vocab_size)
        eos = draw_eos(rng, models[0], prompts)
        cases.append(generation_case(models, prompts, draw_options(rng, W, eos, prompts)))
    return cases


def default_cases(rng: random.Random, models: list, folder: Path) -> list[dict | None]:
    """Cases that leave options to generation_config.json, which this writes: each call overrules one of them.

    transformers is asked with all of them spelled out: what is tested is that minidecode fills in the same.
    """
    defaults = {"num_beams": 3, "eos_token_id": [5, 8], "pad_token_id": 5, "max_new_tokens": 8,
                "no_repeat_ngram_size": 2, "length_penalty": 0.7, "early_stopping": True,
                "num_return_sequences": 2}  # fmt: skip
    (folder / "generation_config.json").write_text(json.dumps(defaults, indent=1) + "\n", encoding="utf-8")
    cases = []
    for given in [{}, {"num_beams": 4}, {"max_length": 13}, {"eos_token_id": [7]}, {"length_penalty": 2.0},
                  {"no_repeat_ngram_size": 0}, {"early_stopping": "never"}, {"num_return_sequences": 3}]:  # fmt: skip
        merged = defaults | given
        if "max_length" in given:
            del merged["max_new_tokens"]
        case = generation_case(models, draw_prompts(rng, models[0].config.vocab_size), merged)
        cases.append(case and case | {"options": given})
    return cases


def logits_of(rng: random.Random, model) -> tuple[list[list[int]], list[np.ndarray]]:
    """Prompts of mixed lengths, one of a single token and one as long as the context, and their logits.

    Padded on the left and padded on the right, transformers has to say the same.
    """
    V, N = model.config.vocab_size, model.config.n_positions
    prompts = [[rng.randrange(V) for _ in range(length)] for length in (5, 1, N - 2)]
    expected = oracle_logits(model, prompts)
    for a, b in zip(expected, oracle_logits(model, prompts, left=False), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)
    full = [rng.randrange(V) for _ in range(N)]
    with torch.no_grad():
        expected.append(model(torch.tensor([full])).logits[0].numpy())
    return [*prompts, full], expected


def write_cases(folder: Path, logit_prompts: list[list[int]], cases: list[dict]) -> None:
    """cases.json, one case per line."""
    lines = ",\n".join(json.dumps(case) for case in cases)
    text = f'{{"logit_prompts": {json.dumps(logit_prompts)},\n"generation": [\n{lines}\n]}}\n'
    (folder / "cases.json").write_text(text, encoding="utf-8")


def make(name: str, seed: int) -> tuple[int, int]:
    """One folder. Returns how many generation cases were kept and how many dropped as near ties."""
    changes, storage = MODELS[name]
    folder, fields = OUT / name, config_fields(changes)
    write_folder(folder, fields, make_weights(fields, seed), **storage)
    exact = load_oracle(folder, torch.float64)
    models = [exact, load_oracle(folder, torch.float32), nudged(exact, seed), nudged(exact, seed + 1)]
    rng = random.Random(seed)
    logit_prompts, logits = logits_of(rng, exact)
    drawn = default_cases(rng, models, folder) if name == "defaults" else plain_cases(rng, models)
    kept = [case for case in drawn if case]
    write_cases(folder, logit_prompts, kept)
    np.savez_compressed(folder / "logits.npz", **{f"prompt_{b}_NV": array for b, array in enumerate(logits)})
    return len(kept), len(drawn) - len(kept)


def main() -> None:
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    shutil.rmtree(OUT, ignore_errors=True)
    kept = dropped = 0
    for i, name in enumerate(MODELS):
        new_kept, new_dropped = make(name, seed=1000 + 10 * i)
        kept, dropped = kept + new_kept, dropped + new_dropped
        print(f"{name}: {new_kept} generation cases, {new_dropped} near ties dropped", flush=True)
    summary = {"transformers": transformers.__version__, "torch": torch.__version__.split("+")[0],
               "cases": kept, "dropped": dropped}  # fmt: skip
    (OUT / "summary.json").write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")
    print(f"{kept} cases, {dropped} dropped")
    if dropped > 0.05 * (kept + dropped):
        raise SystemExit("more than 5 % of the cases are near ties: widen SPREAD")


if __name__ == "__main__":
    main()
