"""Remakes tests/golden/hf4: what transformers 4.49 finds by beam search and by group (diverse) beam search.

    pip install transformers==4.49.0 torch safetensors 'numpy<2.3'     in an environment of its own
    python tests/golden/make_hf4.py                                    with transformers 4.49: the cases
    python tests/golden/make_hf4.py                                    with transformers 5: "differs_from_5"
    python tests/golden_files.py hf4

The models are those of tests/golden/gpt2 and tests/golden/bart, in float64; every seed is fixed. A line of cases.json
is a case: model, prompts, options, and tokens and scores as in the other folders. Plain cases say whether transformers
5 finds something else. For all of them:

- Every sentence was asked for alone: 4.49 counts padding as text, and in `generate` it forgets which tokens of a source
  are padding, so that BART attends to it. Between sentences of one length its search couples nothing.
- 4.49 stores a finished text without its EOS, and gives it back with the first of the EOS ids, whichever it had. The
  score is that of the EOS it had.
- No place is filled by a beam that was out of play (-1e9).
"""

from __future__ import annotations

import json
import random
from pathlib import Path

import make_bart
import numpy as np
import torch
import transformers
from making import draw_eos, draw_options, draw_prompts, generate_alone, generation_case, nudged, sample, write_json
from transformers import BartForConditionalGeneration, GPT2LMHeadModel

GOLDEN = Path(__file__).parent
OUT = GOLDEN / "hf4"
MODELS = ("gpt2/gelu-new", "gpt2/untied", "gpt2/deep", "gpt2/silu", "bart/gelu", "bart/scaled", "bart/distilled")
# (num_beams, num_beam_groups) of the cases of one model
GROUPED = [(2, 2), (3, 3), (4, 2), (4, 2), (4, 4), (5, 5), (6, 2), (6, 3), (6, 6)] * 3
PLAIN = [(W, 1) for W in (2, 3, 4, 5, 6)] * 6

# ---- models ----------------------------------------------------------------------------------------------------------


def load(name: str) -> torch.nn.Module:
    """The model in float64, held to the logits of its folder: 4.49 has to read it as transformers 5 does.

    While BART runs in float64 this has to be torch's default: 4.49 makes its causal mask in the default, where the
    least number of float64 does not fit.
    """
    folder, is_pair = GOLDEN / name, name.startswith("bart")
    model_class = BartForConditionalGeneration if is_pair else GPT2LMHeadModel
    model, info = model_class.from_pretrained(folder, attn_implementation="eager", output_loading_info=True)
    if info["missing_keys"] or info["mismatched_keys"] or info["unexpected_keys"]:
        raise RuntimeError(f"{folder}: transformers did not load it whole: {info}")
    model = model.to(torch.float64).eval()
    model.register_forward_pre_hook(lambda module, args: torch.set_default_dtype(module.dtype))
    model.register_forward_hook(lambda module, args, out: torch.set_default_dtype(torch.float32))
    cases = json.loads((folder / "cases.json").read_text(encoding="utf-8"))
    if is_pair:
        found = make_bart.oracle_logits(model, cases["logit_prompts"], cases["logit_targets"])
    else:
        found = [model(torch.tensor([prompt])).logits[0].detach().numpy() for prompt in cases["logit_prompts"]]
    with np.load(folder / "logits.npz") as expected:
        for b, logits_NV in enumerate(found):
            np.testing.assert_allclose(sample(logits_NV), expected[f"prompt_{b}_NV"], rtol=1e-9, atol=1e-9)
    model.register_forward_hook(round_logits)
    return model


def round_logits(module, args, out):
    """Logits in float32. Every search rounds them first of all; 4.49's with groups fails to store scores if it does."""
    out.logits = out.logits.float()
    return out


# ---- cases -----------------------------------------------------------------------------------------------------------


def draw_pad(rng: random.Random, model, prompts: list[list[int]], eos: list[int] | None) -> int:
    """An EOS id, or a token that the model says early: groups that are done choose it, and later ones pay for it."""
    likely = draw_eos(rng, model, prompts) or [0]
    return rng.choice(eos) if eos and rng.random() < 0.5 else likely[0]


def draw_stop(rng: random.Random, W: int) -> dict:
    """Options with which the rules of when to stop often tell 4.49 and 5 apart, and for a third of the cases nothing.

    With "never", or False and no positive penalty, both stop only where nothing better can come, and agree.
    """
    if rng.random() < 0.35:
        return {}
    options = {"length_penalty": rng.choice([0.7, 1.0, 2.0, 3.0]), "early_stopping": rng.choice([False, False, True])}
    return options | {"num_return_sequences": rng.randint((W + 1) // 2, W)}


def draw_hf4_options(rng: random.Random, W: int, G: int, model, prompts: list[list[int]]) -> dict:
    """Options of `generate` for W beams in G groups."""
    is_pair = model.config.is_encoder_decoder
    eos = draw_eos(rng, model, prompts)
    if not eos and G == 1:  # most plain cases are about when to stop
        eos = draw_eos(rng, model, prompts)
    options = draw_options(rng, W, eos, [[model.config.decoder_start_token_id]] if is_pair else prompts)
    options["pad_token_id"] = draw_pad(rng, model, prompts, eos)
    options["length_penalty"] = rng.choice([-1.0, 0.0, 0.7, 1.0, 2.0, 3.0])
    if rng.random() < 0.2:
        options["repetition_penalty"] = rng.choice([0.8, 1.3, 1.7])
    if G > 1:
        options |= {"num_beam_groups": G, "diversity_penalty": rng.choice([0.2, 0.5, 1.0, 5.0])}
    else:
        options |= draw_stop(rng, W)
    if is_pair and rng.random() < 0.15:
        options["forced_bos_token_id"] = rng.choice([t for t in range(model.config.vocab_size) if t not in (eos or [])])
    if is_pair and eos and rng.random() < 0.15:
        options["forced_eos_token_id"] = eos[0]
    return options


def cases_of(name: str, seed: int) -> list[dict | None]:
    """All cases of one model; None stands for one that is near a tie."""
    exact = load(name)
    single = load(name).float()
    models = [exact, single, nudged(exact, seed), nudged(exact, seed + 1)]
    rng = random.Random(seed)
    cases = []
    for W, G in GROUPED + PLAIN:
        prompts = draw_prompts(rng, exact.config.vocab_size)
        options = draw_hf4_options(rng, W, G, exact, prompts)
        case = generation_case(models, prompts, options, generate_alone)
        cases.append(case and {"model": name} | case | {"scores": shortened(case["scores"])})
    return cases


def shortened(scores: list[float]) -> list[float]:
    """As decimals that give back the same float32, which is what transformers computes scores in."""
    return [float(f"{score:.9g}") for score in scores]


# ---- transformers 5 --------------------------------------------------------------------------------------------------


def differs(model, case: dict) -> bool:
    """Whether the transformers at hand finds other tokens or scores; which EOS ends a text does not count."""
    tokens, scores = generate_alone(model, case["prompts"], case["options"])
    same_scores = np.allclose(scores, case["scores"], rtol=1e-4, atol=1e-5)
    return [with_first_eos(row, case["options"]["eos_token_id"]) for row in tokens] != case["tokens"] or not same_scores


def with_first_eos(tokens: list[int], eos: list[int] | None) -> list[int]:
    return [*tokens[:-1], eos[0]] if eos and tokens[-1] in eos else tokens


# ---- files -----------------------------------------------------------------------------------------------------------


def write_cases(cases: list[dict]) -> None:
    lines = ",\n".join(json.dumps(case) for case in cases)
    (OUT / "cases.json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")


def make() -> None:
    """cases.json and summary.json, with transformers 4.49."""
    OUT.mkdir(exist_ok=True)
    drawn = [case for i, name in enumerate(MODELS) for case in cases_of(name, 4000 + 10 * i)]
    kept = [case for case in drawn if case]
    dropped = len(drawn) - len(kept)
    summary = {"transformers": transformers.__version__, "torch": torch.__version__.split("+")[0],
               "cases": len(kept), "dropped": dropped}  # fmt: skip
    write_cases(kept)
    write_json(OUT / "summary.json", summary)
    print(f"{len(kept)} cases, {dropped} near ties dropped")
    if dropped > 0.05 * len(drawn):
        raise SystemExit("more than 5 % of the cases are near ties: draw others")


def compare() -> None:
    """Adds "differs_from_5" to the plain cases, with transformers 5."""
    cases = json.loads((OUT / "cases.json").read_text(encoding="utf-8"))
    models = {name: load(name) for name in MODELS}
    plain = [case for case in cases if "num_beam_groups" not in case["options"]]
    for case in plain:
        case["differs_from_5"] = differs(models[case["model"]], case)
    write_cases(cases)
    print(f"transformers {transformers.__version__} differs in {sum(case['differs_from_5'] for case in plain)}"
          f" of {len(plain)} plain cases")  # fmt: skip


if __name__ == "__main__":
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    major = transformers.__version__.split(".")[0]
    {"4": make, "5": compare}[major]()
