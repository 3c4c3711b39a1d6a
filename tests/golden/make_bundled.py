"""Remakes bundled-NAME.json: what transformers 5 generates from the bundled models.

    python tests/golden/make_bundled.py

Each prompt alone, float32, under the model's own generation_config.json and the options listed.
"""

import json
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoTokenizer

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
MODELS = {
    "tiny-gpt2": (AutoModelForCausalLM, BEGINNINGS),
    "tiny-bart": (AutoModelForSeq2SeqLM, CORRUPTED),
}


def main() -> None:
    for name, (kind, prompts) in MODELS.items():
        folder = ROOT / "weights" / name
        model, tokenizer = kind.from_pretrained(folder).float().eval(), AutoTokenizer.from_pretrained(folder)
        cases = []
        for prompt in prompts:
            inputs = tokenizer(prompt, return_tensors="pt", return_token_type_ids=False)
            given = 1 if model.config.is_encoder_decoder else inputs["input_ids"].shape[1]  # the start token
            for options in OPTIONS:
                with torch.no_grad():
                    ids = model.generate(**inputs, **options)[:, given:]
                texts = tokenizer.batch_decode(ids, skip_special_tokens=True)
                rows = [without_padding(row, model) for row in ids.tolist()]
                cases.append({"prompt": prompt, "options": options, "ids": rows, "texts": texts})
        path = Path(__file__).with_name(f"bundled-{name}.json")
        path.write_text(json.dumps(cases, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        print(f"{len(cases)} cases in {path.name}")


def without_padding(row: list[int], model) -> list[int]:
    """The row up to its EOS: transformers pads the shorter of several hypotheses behind it."""
    eos = model.generation_config.eos_token_id
    return row[: row.index(eos) + 1] if eos in row else row


if __name__ == "__main__":
    main()
