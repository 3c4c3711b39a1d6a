"""Remakes tiny_gpt2.json: what transformers 5 generates from the bundled model.

    python tests/golden/make_tiny_gpt2.py

Each prompt alone, float32, under the model's own generation_config.json and the options listed.
"""

import json
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

ROOT = Path(__file__).parents[2]
PROMPTS = ["Fellow citizens,", "The Congress of the United States", "Our army and our navy", "Call me", "“Peace” — 1°"]
OPTIONS = [
    {"max_new_tokens": 24},
    {"max_new_tokens": 24, "no_repeat_ngram_size": 0},
    {"max_new_tokens": 24, "num_beams": 4},
    {"max_new_tokens": 16, "num_beams": 3, "length_penalty": 2.0, "early_stopping": True, "num_return_sequences": 2},
]


def main() -> None:
    folder = ROOT / "weights" / "tiny-gpt2"
    model, tokenizer = (
        AutoModelForCausalLM.from_pretrained(folder).float().eval(),
        AutoTokenizer.from_pretrained(folder),
    )
    cases = []
    for prompt in PROMPTS:
        inputs = tokenizer(prompt, return_tensors="pt")
        count = inputs["input_ids"].shape[1]
        for options in OPTIONS:
            with torch.no_grad():
                ids = model.generate(**inputs, **options)[:, count:]
            texts = tokenizer.batch_decode(ids, skip_special_tokens=True)
            cases.append({"prompt": prompt, "options": options, "ids": ids.tolist(), "texts": texts})
    path = Path(__file__).with_name("tiny_gpt2.json")
    path.write_text(json.dumps(cases, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"{len(cases)} cases in {path.name}")


if __name__ == "__main__":
    main()
