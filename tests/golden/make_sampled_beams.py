"""Remakes tests/golden/sampled_beams/VERSION.json: how often transformers draws each text with several beams.

    pip install transformers torch                 the newest, or ==5.23.0 for the older file
    python tests/golden/make_sampled_beams.py
    python tests/golden_files.py sampled_beams

Until 5.23, `generate(do_sample=True, num_beams=W)` kept the candidates of a step in the order of the draw, and the
first W of them could end; since 5.24 they are sorted by score first. So each version that draws otherwise has a file of
its own. A case: a model of tests/golden, a prompt, options, and the counts of the best texts of N draws.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

GOLDEN = Path(__file__).parent
OUT = GOLDEN / "sampled_beams"
N = 2000
# (model, prompt, options); few tokens are left to each step, so that texts come often enough to be counted
CASES = [
    ("gpt2/gelu-new", [5, 9, 2], {"num_beams": 2, "top_k": 5, "max_new_tokens": 1, "eos_token_id": None}),
    ("gpt2/gelu-new", [5, 9, 2], {"num_beams": 3, "top_k": 4, "max_new_tokens": 2, "eos_token_id": None}),
    ("gpt2/untied", [3, 3, 8], {"num_beams": 2, "top_k": 6, "max_new_tokens": 3, "temperature": 2.0, "eos": 2}),
    ("gpt2/deep", [7, 1], {"num_beams": 4, "top_p": 0.7, "max_new_tokens": 2, "temperature": 1.5, "eos": 1,
                           "length_penalty": 0.5, "early_stopping": True}),
    ("bart/gelu", [6, 4, 11, 2], {"num_beams": 2, "top_k": 5, "max_new_tokens": 2, "temperature": 2.0, "eos": 1,
                                  "length_penalty": 2.0}),
]  # fmt: skip


def options_of(options: dict, likely: list[int]) -> dict:
    """The options of a case; `eos`: so many of the likeliest first tokens, from the third on, end a text."""
    eos = options.get("eos")
    given = {name: value for name, value in options.items() if name != "eos"}
    return given if eos is None else given | {"eos_token_id": likely[2 : 2 + eos]}


def cut(text: list[int], eos: list[int] | None) -> str:
    """A text up to its end, which it names."""
    for i, token in enumerate(text):
        if token in (eos or ()):
            return " ".join(map(str, [*text[:i], "end"]))
    return " ".join(map(str, text))


def drawn(model, prompt: list[int], options: dict, seed: int) -> Counter:
    """What transformers draws: the best text of each of N copies of the prompt -> how often it came."""
    import torch

    torch.manual_seed(seed)
    ids = torch.tensor([prompt] * N)
    with torch.no_grad():
        found = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=True, pad_token_id=0,
                               **{"top_k": 0} | options)  # fmt: skip
    begin = 1 if model.config.is_encoder_decoder else len(prompt)
    return Counter(cut(text, options["eos_token_id"]) for text in found[:, begin:].tolist())


def likeliest(model, prompt: list[int]) -> list[int]:
    """The first tokens of a text, the likeliest first."""
    import torch

    ids = torch.tensor([prompt])
    start = {} if not model.config.is_encoder_decoder else {
        "decoder_input_ids": torch.tensor([[model.config.decoder_start_token_id]])
    }  # fmt: skip
    with torch.no_grad():
        return model(ids, **start).logits[0, -1].argsort(descending=True).tolist()


def loaded(name: str):
    from transformers import BartForConditionalGeneration, GenerationConfig, GPT2LMHeadModel

    kind = BartForConditionalGeneration if name.startswith("bart") else GPT2LMHeadModel
    model = kind.from_pretrained(GOLDEN / name).eval()
    start = model.config.decoder_start_token_id if name.startswith("bart") else None
    model.generation_config = GenerationConfig(decoder_start_token_id=start)
    return model


def main() -> None:
    import transformers

    cases = []
    for i, (name, prompt, options) in enumerate(CASES):
        model = loaded(name)
        options = options_of(options, likeliest(model, prompt))
        counts = drawn(model, prompt, options, seed=i)
        cases.append({"model": name, "prompt": prompt, "options": options, "counts": dict(counts.most_common())})
        print(name, len(counts), counts.most_common(3))
    OUT.mkdir(exist_ok=True)
    (OUT / f"{transformers.__version__}.json").write_text(json.dumps(cases, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
