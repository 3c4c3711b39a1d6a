"""Remakes tests/golden/ctranslate2: what CTranslate2 finds by greedy and beam search, on models of gpt2 and bart.

    pip install '.[oracle]'
    python tests/golden/make_ctranslate2.py
    python tests/golden_files.py ctranslate2

Each model is read and converted by CTranslate2's own converter, and runs in float32. A line of cases.json is a case, as
in tests/golden/hf4; options are spelled as here. test_ctranslate2_oracle.py asks in the same way, live.
"""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Callable
from pathlib import Path

import ctranslate2
import torch
import transformers
from ctranslate2.converters import TransformersConverter
from making import draw_prompts, nudged, write_json
from transformers import BartForConditionalGeneration, GPT2LMHeadModel

GOLDEN = Path(__file__).parent
OUT = GOLDEN / "ctranslate2"
MODELS = ("gpt2/gelu-new", "gpt2/untied", "gpt2/deep", "bart/distilled")  # both stacks of the BART have as many heads
CASES_EACH = 7
# Our options of a search, and CTranslate2's.
NAMES = {
    "num_beams": "beam_size", "num_return_sequences": "num_hypotheses", "length_penalty": "length_penalty",
    "patience": "patience", "repetition_penalty": "repetition_penalty", "no_repeat_ngram_size": "no_repeat_ngram_size",
    "max_new_tokens": "max_length", "min_new_tokens": "min_length",
}  # fmt: skip
OF_A_TRANSLATOR = {"max_length": "max_decoding_length", "min_length": "min_decoding_length"}


# ---- models ----------------------------------------------------------------------------------------------------------


class Numbers:
    """In the place of a tokenizer: each token is its id, written out."""

    bos_token, eos_token, unk_token = "0", "1", "3"

    def __init__(self, vocab_size: int):
        self.vocab_size = vocab_size

    def get_vocab(self) -> dict[str, int]:
        return {str(i): i for i in range(self.vocab_size)}

    def convert_ids_to_tokens(self, i: int) -> str:
        return str(i)


class Converter(TransformersConverter):
    """CTranslate2's own, for folders without a tokenizer."""

    def load_model(self, model_class, path, **kwargs):
        model = model_class.from_pretrained(path, **kwargs).float()
        if model.config.model_type == "bart":
            model.config.normalize_before = False  # BART's published files say so; transformers 5 does not write it
        self.vocab_size = model.config.vocab_size
        return model

    def load_tokenizer(self, tokenizer_class, path, **kwargs):
        return Numbers(self.vocab_size)


def converted(folder: Path) -> ctranslate2.Generator | ctranslate2.Translator:
    """The model of a folder, run by CTranslate2 on one thread."""
    kind = json.loads((folder / "config.json").read_text(encoding="utf-8"))["model_type"]
    runs = ctranslate2.Translator if kind == "bart" else ctranslate2.Generator
    with tempfile.TemporaryDirectory() as there:
        Converter(str(folder)).convert(there, quantization="float32", force=True)
        return runs(there, device="cpu", compute_type="float32", inter_threads=1, intra_threads=1)


# ---- what CTranslate2 finds ------------------------------------------------------------------------------------------


def generate(runner, prompts: list[list[int]], options: dict) -> tuple[list[list[int]], list[float]]:
    """(tokens, score) of each hypothesis, EOS included. Each prompt is asked for alone: prompts in a batch share steps.

    A prompt is read at once (include_prompt_in_result=False), as here; prefix: what a target begins with.
    """
    asked = {NAMES[name]: value for name, value in options.items() if name in NAMES}
    asked |= {
        "end_token": [str(i) for i in options["eos_token_id"]], "return_end_token": True, "return_scores": True,
        "suppress_sequences": written([*options.get("bad_words_ids", []), *([i] for i in options["suppress_tokens"])]),
    }  # fmt: skip
    found, scores = [], []
    for prompt in prompts:
        if isinstance(runner, ctranslate2.Translator):
            of_targets = {OF_A_TRANSLATOR.get(name, name): value for name, value in asked.items()}
            prefix = written([options["prefix"]]) if options.get("prefix") else None
            out = runner.translate_batch(written([prompt]), prefix, **of_targets)[0]
            found += [[int(token) for token in tokens] for tokens in out.hypotheses]
        else:
            out = runner.generate_batch(written([prompt]), include_prompt_in_result=False, **asked)[0]
            found += out.sequences_ids
        scores += out.scores
    return found, scores


def written(rows: list[list[int]]) -> list[list[str]]:
    return [[str(i) for i in row] for row in rows]


# ---- cases -----------------------------------------------------------------------------------------------------------


def draw_options(rng: random.Random, V: int, said: Callable[[], list[int]], is_pair: bool) -> dict:
    """Options of a search. said(): tokens that the model says soon, so that texts end."""
    W, new = rng.choice([1, 2, 2, 3, 4, 5]), rng.randint(2, 12)
    patience = rng.choice([1.0, 1.0, 1.0, 0.5, 1.5, 2.0, 2.6]) if W > 1 else 1.0
    eos = rng.choice(said())
    options = {
        "num_beams": W, "max_new_tokens": new, "eos_token_id": [eos], "patience": patience,
        "length_penalty": rng.choice([1, 1, 0, 0, -1, 0.6]),
        "num_return_sequences": rng.randint(1, min(W, int(W * patience))),
        "min_new_tokens": rng.choice([0, 0, 1, new // 2]), "no_repeat_ngram_size": rng.choice([0, 0, 1, 2, 3]),
        "repetition_penalty": rng.choice([1.0, 1.0, 0.8, 1.3]), "suppress_tokens": [],
    }  # fmt: skip
    if rng.random() < 0.3:
        others = [i for i in range(V) if i != eos]
        options["suppress_tokens"] = rng.sample(others, 2)
        options["bad_words_ids"] = [rng.sample(others, 2), [rng.choice(said()), rng.choice(said())]]
    if is_pair and rng.random() < 0.3:
        others = [i for i in range(V) if i != eos]
        options["prefix"] = [rng.choice(others) for _ in range(rng.randint(1, min(2, new - 1)))]
    return options


def second_ends(rng: random.Random, V: int, runner, prompt: list[int]) -> dict:
    """Options of a search in which the second-best token right behind a prefix is EOS."""
    prefix = [rng.randrange(V)]
    wide = {"num_beams": 5, "num_return_sequences": 5, "max_new_tokens": 2, "eos_token_id": [0],
            "suppress_tokens": [0], "prefix": prefix}  # fmt: skip
    eos = generate(runner, [prompt], wide)[0][1][-1]
    return {"num_beams": 4, "num_return_sequences": 4, "max_new_tokens": 8, "eos_token_id": [eos],
            "suppress_tokens": [], "prefix": [i if i != eos else (i + 1) % V for i in prefix]}  # fmt: skip


def said_by(runner, prompts: list[list[int]]) -> list[int]:
    """Tokens that the model says if nothing ends a text but its length."""
    plain = {"num_beams": 1, "max_new_tokens": 6, "eos_token_id": [0], "suppress_tokens": [0]}
    return sorted({i for text in generate(runner, prompts, plain)[0] for i in text})


def cases_of(name: str, seed: int) -> list[dict | None]:
    """All cases of one model; None stands for one that is near a tie: weights nudged twice must give the same texts."""
    rng, folder, is_pair = random.Random(seed), GOLDEN / name, name.startswith("bart")
    runners = [converted(folder)]
    model = (BartForConditionalGeneration if is_pair else GPT2LMHeadModel).from_pretrained(folder, dtype=torch.float32)
    for i in range(2):
        with tempfile.TemporaryDirectory() as there:
            nudged(model, seed + i).save_pretrained(there)
            runners.append(converted(Path(there)))
    cases, V = [], model.config.vocab_size
    for k in range(CASES_EACH + 3 * is_pair):
        prompts = draw_prompts(rng, V)
        if k < CASES_EACH:
            options = draw_options(rng, V, lambda prompts=prompts: said_by(runners[0], prompts), is_pair)
        else:
            options = second_ends(rng, V, runners[0], prompts[0])
        found = [generate(runner, prompts, options) for runner in runners]
        is_near_a_tie = any(tokens != found[0][0] for tokens, _ in found)
        tokens, scores = found[0]
        case = {"model": name, "prompts": prompts, "options": options, "tokens": tokens, "scores": scores}
        cases.append(None if is_near_a_tie else case)
    return cases


def make() -> None:
    OUT.mkdir(exist_ok=True)
    drawn = [case for i, name in enumerate(MODELS) for case in cases_of(name, 5000 + 10 * i)]
    kept = [case for case in drawn if case]
    lines = ",\n".join(json.dumps(case) for case in kept)
    (OUT / "cases.json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    summary = {"ctranslate2": ctranslate2.__version__, "transformers": transformers.__version__,
               "cases": len(kept), "dropped": len(drawn) - len(kept)}  # fmt: skip
    write_json(OUT / "summary.json", summary)
    print(summary)


if __name__ == "__main__":
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    make()
