"""Remakes bundled/NAME.json: what transformers 5 generates from the bundled models.

    python tests/golden/make_bundled.py
    python tests/golden_files.py bundled

Each prompt alone, float32, under the model's own generation_config.json and the options listed. transformers' GPT-2
has as many key/value heads as query heads; the multi-query one runs there as the same network under another name. Each
prompt of the model with a latent has one of its own.
"""

import json
from pathlib import Path

import numpy as np
import torch
from latent_gpt2 import LatentGPT2, load_latent
from safetensors.torch import load_file
from transformers import (
    AutoModelForCausalLM,
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    GenerationConfig,
    GPT2Config,
    GPTBigCodeConfig,
    GPTBigCodeForCausalLM,
)

ROOT = Path(__file__).parents[2]
OPTIONS = [
    {"max_new_tokens": 24},
    {"max_new_tokens": 24, "no_repeat_ngram_size": 0},
    {"max_new_tokens": 24, "num_beams": 4},
    {"max_new_tokens": 16, "num_beams": 3, "length_penalty": 2.0, "early_stopping": True, "num_return_sequences": 2},
]
BEGINNINGS = [
    "Fellow citizens,",
    "The Congress of the United States",
    "Our army and our navy",
    "Call me",
    "“Peace” — 1°",
]
CORRUPTED = [
    "The Congress of the <mask> States has <mask> to provide for the common defense.",
    "Our army and <mask> navy.",
    "<mask>",
    "I have the honor<mask> to transmit a report of the Secretary of War, with<mask> accompanying papers.",
    "“Peace” — 1°",
]
SENTENCES = ["the", "did my", "on monday, a young", "our baker will", "a"]
NUMBERS_AND_DATES = [
    "translate to English: 1,234",
    "translate to French: 80080",
    "translate to French: 999999999",
    "translate to English: 2026-11-24",
    "translate to French: 1789-07-14",
]


def multi_query_gpt2(folder: Path) -> GPTBigCodeForCausalLM:
    """GPT-2 with one key/value head, as StarCoder's family has it: matrices lie there the other way round."""
    gpt2 = GPT2Config.from_pretrained(folder)
    sizes = {
        name: getattr(gpt2, name) for name in ("vocab_size", "n_positions", "n_embd", "n_layer", "n_head", "n_inner")
    }
    config = GPTBigCodeConfig(
        **sizes, bos_token_id=0, eos_token_id=0, multi_query=True, activation_function="gelu_pytorch_tanh"
    )
    model = GPTBigCodeForCausalLM(config)
    tensors = {name.removeprefix("transformer."): t for name, t in load_file(folder / "model.safetensors").items()}
    model.transformer.load_state_dict({name: t.T if t.ndim == 2 and "h." in name else t for name, t in tensors.items()})
    model.generation_config = GenerationConfig.from_pretrained(folder)
    return model


MODELS = {
    "tiny-gpt2": (AutoModelForCausalLM.from_pretrained, BEGINNINGS),
    "tiny-gpt2-mqa": (multi_query_gpt2, BEGINNINGS),
    "tiny-bart": (AutoModelForSeq2SeqLM.from_pretrained, CORRUPTED),
    "tiny-translator": (AutoModelForSeq2SeqLM.from_pretrained, NUMBERS_AND_DATES),
    "tiny-latent": (lambda folder: load_latent(folder, torch.float32)[0], SENTENCES),
}


def main() -> None:
    for name, (read, prompts) in MODELS.items():
        folder = ROOT / "weights" / name
        model, tokenizer = read(folder).float().eval(), AutoTokenizer.from_pretrained(folder)
        cases, rng = [], np.random.default_rng(0)
        for prompt in prompts:
            latent, how = {}, {}
            if isinstance(model, LatentGPT2):
                z_Z = rng.standard_normal(model.addend.shape[1]).round(3)
                model.z_Z, latent, how = torch.tensor(z_Z).float(), {"latent": z_Z.tolist()}, {"use_cache": False}
            inputs = tokenizer(prompt, return_tensors="pt", return_token_type_ids=False)
            given = 1 if model.config.is_encoder_decoder else inputs["input_ids"].shape[1]  # the start token
            for options in OPTIONS:
                with torch.no_grad():
                    ids = model.generate(**inputs, **options, **how)[:, given:]
                texts = tokenizer.batch_decode(ids, skip_special_tokens=True)
                if not model.config.is_encoder_decoder:  # as pipelines do: the whole text less the prompt's
                    prompt_ids = inputs["input_ids"][0].tolist()
                    before = len(tokenizer.decode(prompt_ids, skip_special_tokens=True))
                    wholes = [[*prompt_ids, *row] for row in ids.tolist()]
                    texts = [text[before:] for text in tokenizer.batch_decode(wholes, skip_special_tokens=True)]
                rows = [without_padding(row, model) for row in ids.tolist()]
                cases.append({"prompt": prompt, "options": options | latent, "ids": rows, "texts": texts})
        path = Path(__file__).with_name("bundled") / f"{name}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(cases, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        print(f"{len(cases)} cases in {path.name}")


def without_padding(row: list[int], model) -> list[int]:
    """The row up to its EOS: transformers pads the shorter of several hypotheses behind it."""
    eos = model.generation_config.eos_token_id
    return row[: row.index(eos) + 1] if eos in row else row


if __name__ == "__main__":
    main()
