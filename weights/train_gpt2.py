"""Trains a small GPT-2 on a folder of texts and writes it in the Hugging Face layout.

    pip install '.[train]'
    python weights/train_gpt2.py TEXTS --out my-gpt2 --steps 2000
    minidecode generate --model my-gpt2 "Once upon a time"

TEXTS is a folder of UTF-8 *.txt files; every 25th file is held out and never trained on. The script makes a
byte-level BPE of its own, then trains: Muon for the matrices inside the blocks, AdamW for everything else, a
constant learning rate that falls linearly to zero over the second half. It writes a checkpoint every few minutes;
run the same command again to go on where it stopped. The last step's weights are kept, whatever the held-out loss
was before.
"""

from __future__ import annotations

import argparse
import json
import math

import numpy as np
import torch
from corpus import END_OF_TEXT, encode_stream
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from training import add_training_options, read_texts, save_whole, train, windows_at
from transformers import GenerationConfig, GPT2Config, GPT2LMHeadModel


def train_tokenizer(texts: list[str], vocab_size: int) -> Tokenizer:
    """Byte-level BPE as GPT-2's: no unknown tokens, any Unicode text survives the round trip."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(vocab_size=vocab_size, special_tokens=[END_OF_TEXT], initial_alphabet=alphabet)
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def held_out_bits(model, ids: np.ndarray, window: int, bytes_per_token: float, most: int = 64) -> float:
    """Bits per byte over the first windows of the held-out stream, without overlap: for the log alone."""
    losses = []
    for i in range(min(most, len(ids) // window)):
        x = torch.from_numpy(ids[i * window : (i + 1) * window])[None].to(model.device)
        losses.append(model(x, labels=x).loss.item())
    return float(np.mean(losses)) / math.log(2) / bytes_per_token


def train_and_write(
    model, tokenizer: Tokenizer, ids: np.ndarray, held_out_ids: np.ndarray, a: argparse.Namespace
) -> float:
    """Trains the GPT-2 on the stream `ids` and writes the folder a.out -> seconds of training.

    Beside what `train` reads, a says how many rows a batch has. A window is the model's whole context.
    """
    context = model.config.n_positions
    if len(ids) < context * (a.rows + 1):
        raise SystemExit(f"{len(ids)} tokens are too few for a batch of {a.rows} x {context}: give more text")
    bytes_per_token = len(tokenizer.decode(held_out_ids.tolist()).encode()) / max(1, len(held_out_ids))

    def batch_at(step: int) -> dict[str, torch.Tensor]:
        x = torch.from_numpy(windows_at(step, ids, a.rows, context, a.seed))
        return {"input_ids": x, "labels": x}

    def evaluate() -> dict[str, float]:
        if len(held_out_ids) < context:
            return {}
        bits = held_out_bits(model, held_out_ids, context, bytes_per_token)
        return {"held_out_bits_per_byte_roughly": round(bits, 4)}

    a.out.mkdir(parents=True, exist_ok=True)
    seconds = train(model, batch_at, evaluate, a)

    model.to(torch.float16).save_pretrained(a.out)
    end = tokenizer.token_to_id(END_OF_TEXT)
    # A small model that always takes the likeliest token soon repeats itself.
    GenerationConfig(bos_token_id=end, eos_token_id=end, pad_token_id=end, no_repeat_ngram_size=3).save_pretrained(
        a.out
    )
    save_whole(lambda path: tokenizer.save(str(path)), a.out / "tokenizer.json")
    settings = {"tokenizer_class": "GPT2Tokenizer", "model_max_length": context, "bos_token": END_OF_TEXT,
                "eos_token": END_OF_TEXT, "unk_token": END_OF_TEXT, "add_prefix_space": False}  # fmt: skip
    (a.out / "tokenizer_config.json").write_text(json.dumps(settings, indent=1) + "\n", encoding="utf-8")
    return seconds


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_training_options(p, steps=2000, muon_lr=4e-3, adam_lr=3e-3)
    p.add_argument("--rows", type=int, default=8, help="windows in a batch")
    p.add_argument("--context", type=int, default=512)
    p.add_argument("--vocab", type=int, default=4096)
    p.add_argument("--width", type=int, default=256)
    p.add_argument("--layers", type=int, default=6)
    p.add_argument("--heads", type=int, default=8)
    p.add_argument("--dropout", type=float, default=0.1)
    a = p.parse_args()

    if a.threads:
        torch.set_num_threads(a.threads)
    torch.manual_seed(a.seed)
    train_texts, held_out_texts = read_texts(a)
    a.out.mkdir(parents=True, exist_ok=True)
    tokenizer_path = a.out / "tokenizer.json"
    if tokenizer_path.exists():
        tokenizer = Tokenizer.from_file(str(tokenizer_path))
    else:
        tokenizer = train_tokenizer(train_texts, a.vocab)
        save_whole(lambda path: tokenizer.save(str(path)), tokenizer_path)
    ids, held_out_ids = encode_stream(tokenizer, train_texts), encode_stream(tokenizer, held_out_texts)
    print(f"{len(train_texts)} texts, {len(ids):,} tokens to train on; held out: {len(held_out_texts)}")

    end = tokenizer.token_to_id(END_OF_TEXT)
    config = GPT2Config(
        vocab_size=tokenizer.get_vocab_size(), n_positions=a.context, n_embd=a.width, n_layer=a.layers, n_head=a.heads,
        resid_pdrop=a.dropout, embd_pdrop=a.dropout, attn_pdrop=0.0, bos_token_id=end, eos_token_id=end,
    )  # fmt: skip
    model = GPT2LMHeadModel(config).to("cuda" if torch.cuda.is_available() else "cpu")
    train_and_write(model, tokenizer, ids, held_out_ids, a)
    print(f"the model is in {a.out}: minidecode generate --model {a.out} 'Once upon a time'")


if __name__ == "__main__":
    main()
