"""Trains a small T5 that writes numbers and dates in English and French words.

    pip install '.[train]'
    python weights/train_translator.py --out my-translator

The layers are those of T5 1.1 (gated GELU, relative positions), and the output is tied to the embedding.
translator_data.py makes the examples, each batch when it is needed. It says which values and which length training
never sees; evaluate_translator.py asks for those. Optimizers, schedule and checkpoints are those of train_gpt2.py. A
run that was interrupted goes on from its last checkpoint.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import torch
from number_words import ENGLISH, ENGLISH_MONTHS, ENGLISH_TENS, FRENCH, FRENCH_MONTHS, FRENCH_TENS, ORDINALS
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from training import train
from transformers import GenerationConfig, T5Config, T5ForConditionalGeneration
from translator_data import KINDS, LANGUAGES, TASKS, held_out_examples, prefix, random_example

LONGEST = 32  # tokens of a target
SPECIALS = ("<pad>", "</s>", "<unk>")


def make_tokenizer() -> Tokenizer:
    """Each character of a number is a token, and so is each word of an answer, with the space or hyphen before it.

    A unigram model with T5's mark for spaces. All pieces score the same, so a text becomes the fewest pieces.
    """
    numerals = (*ENGLISH, *ENGLISH_TENS, *ORDINALS, *FRENCH, *FRENCH_TENS)
    words = {part for word in numerals for part in word.split("-")}
    words |= {"million", "thousand", "hundred", "oh", "twentieth", "thirtieth", *ENGLISH_MONTHS}
    words |= {"millions", "mille", "cent", "cents", "et", "le", "premier", *FRENCH_MONTHS}
    words = sorted(words - {""})
    after_hyphens = sorted({*ENGLISH[1:10], *ORDINALS[1:10], "vingt", "vingts", *"-".join(FRENCH[1:]).split("-")})
    pieces = [
        *SPECIALS, *"▁0123456789,-:", *(f"▁{w}" for w in ("translate", "to", *LANGUAGES)),
        *(f"▁{w}" for w in words), *(f"-{w}" for w in after_hyphens),
    ]  # fmt: skip
    tokenizer = Tokenizer(models.Unigram([(piece, -1.0) for piece in pieces], unk_id=SPECIALS.index("<unk>")))
    tokenizer.add_special_tokens(list(SPECIALS))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    end = ("</s>", SPECIALS.index("</s>"))
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[end])
    return tokenizer


def pad_sequences(sequences: list[list[int]], padding: int) -> torch.Tensor:
    out = np.full((len(sequences), max(map(len, sequences))), padding)
    for row, ids in zip(out, sequences, strict=True):
        row[: len(ids)] = ids
    return torch.from_numpy(out)


def encode_sources(tokenizer: Tokenizer, texts: list[str]) -> dict[str, torch.Tensor]:
    ids = pad_sequences([e.ids for e in tokenizer.encode_batch(texts)], 0)
    return {"input_ids": ids, "attention_mask": (ids != 0).long()}


def make_batch(rng: np.random.Generator, rows: int, tokenizer: Tokenizer) -> dict[str, torch.Tensor]:
    """`rows` examples, half of them in each language."""
    examples = [(x, *random_example(rng, x, "training")) for x in LANGUAGES for _ in range(rows // len(LANGUAGES))]
    asked = [prefix(language) + source for language, source, _ in examples]
    answers = [answer for *_, answer in examples]
    labels = pad_sequences([e.ids for e in tokenizer.encode_batch(answers)], -100)
    return {**encode_sources(tokenizer, asked), "labels": labels}


@torch.no_grad()
def exact_match(model: T5ForConditionalGeneration, tokenizer: Tokenizer, kind: str, count: int) -> float:
    """Which share of a kind's answers greedy search gets right to the letter: `count` examples in each language."""
    right = 0
    for language in LANGUAGES:
        sources, answers = zip(*held_out_examples(kind, language, count, seed=777), strict=True)
        batch = encode_sources(tokenizer, [prefix(language) + source for source in sources])
        out = model.generate(**batch, max_new_tokens=LONGEST, num_beams=1, do_sample=False)
        right += sum(text == answer for text, answer in zip(tokenizer.decode_batch(out.tolist()), answers, strict=True))
    return right / (len(LANGUAGES) * count)


def write_folder(model: T5ForConditionalGeneration, tokenizer: Tokenizer, out: Path) -> None:
    """The model in float16, its tokenizer, its tasks, and how it generates."""
    pad, end, _ = range(len(SPECIALS))
    model.config.task_specific_params = {task: {"prefix": prefix(language)} for language, task in TASKS.items()}
    model.to(torch.float16).save_pretrained(out)
    tokenizer.save(str(out / "tokenizer.json"))
    GenerationConfig(
        pad_token_id=pad, eos_token_id=end, decoder_start_token_id=pad, num_beams=1, max_length=LONGEST,
    ).save_pretrained(out)  # fmt: skip
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 64, "eos_token": "</s>",
                "pad_token": "<pad>", "unk_token": "<unk>"}  # fmt: skip
    (out / "tokenizer_config.json").write_text(json.dumps(settings, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--out", type=Path, required=True, help="folder of the finished model")
    p.add_argument("--steps", type=int, default=6000)
    p.add_argument("--rows", type=int, default=96, help="examples of a batch, half of them English")
    p.add_argument("--width", type=int, default=128)
    p.add_argument("--feed-forward", type=int, default=384)
    p.add_argument("--layers", type=int, default=3, help="of the encoder, and of the decoder")
    p.add_argument("--heads", type=int, default=4)
    p.add_argument("--muon-lr", type=float, default=2e-3)
    p.add_argument("--adam-lr", type=float, default=3e-3)
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--threads", type=int, default=0, help="0: torch's own choice")
    p.add_argument("--compile", action="store_true", help="torch.compile: needs a C compiler")
    p.add_argument("--evaluate-every", type=int, default=250, help="steps")
    a = p.parse_args()

    if a.threads:
        torch.set_num_threads(a.threads)
    torch.manual_seed(a.seed)
    tokenizer = make_tokenizer()
    pad, end, _ = range(len(SPECIALS))
    config = T5Config(
        vocab_size=tokenizer.get_vocab_size(), d_model=a.width, d_kv=a.width // a.heads, d_ff=a.feed_forward,
        num_layers=a.layers, num_decoder_layers=a.layers, num_heads=a.heads, feed_forward_proj="gated-gelu",
        relative_attention_num_buckets=64, relative_attention_max_distance=64, dropout_rate=0.0,
        tie_word_embeddings=True, pad_token_id=pad, eos_token_id=end, decoder_start_token_id=pad,
    )  # fmt: skip
    model = T5ForConditionalGeneration(config)
    a.out.mkdir(parents=True, exist_ok=True)

    def evaluate() -> dict[str, float]:
        return {kind: exact_match(model, tokenizer, kind, 100) for kind in KINDS}

    def batch_at(step: int) -> dict[str, torch.Tensor]:
        return make_batch(np.random.default_rng([a.seed, step]), a.rows, tokenizer)

    train(model, batch_at, evaluate, a, evaluate_every=a.evaluate_every)
    write_folder(model, tokenizer, a.out)
    print(f"the model is in {a.out}")


if __name__ == "__main__":
    main()
