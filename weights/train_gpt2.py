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
import os
import time
from pathlib import Path

import numpy as np
import torch
from corpus import END_OF_TEXT, encode_stream, read_text, split_files
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from tqdm import trange
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


def batch_at(step: int, ids: np.ndarray, rows: int, window: int, seed: int) -> torch.Tensor:
    """Batch number `step`: each epoch cuts the stream at a new random offset and shuffles the windows."""
    windows = (len(ids) - window) // window
    per_epoch = windows // rows
    epoch, k = divmod(step, per_epoch)
    rng = np.random.default_rng([seed, epoch])
    offset = rng.integers(window)
    starts = offset + window * rng.permutation(windows)[k * rows : (k + 1) * rows]
    return torch.from_numpy(np.stack([ids[s : s + window] for s in starts]))


def learning_rate_factor(step: int, steps: int, warmup: int = 100) -> float:
    """Up for `warmup` steps, flat, then linearly down to 0 over the second half."""
    return min(1.0, (step + 1) / warmup, 2.0 * (steps - step) / steps)


def make_optimizers(model: torch.nn.Module, muon_lr: float, adam_lr: float) -> list[torch.optim.Optimizer]:
    matrices, rest = [], []
    for name, p in model.named_parameters():
        (matrices if p.ndim == 2 and ".h." in name else rest).append(p)
    return [
        torch.optim.Muon(matrices, lr=muon_lr, weight_decay=0.1, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(rest, lr=adam_lr, betas=(0.9, 0.95), weight_decay=0.0),
    ]


@torch.no_grad()
def held_out_nats(model, ids: np.ndarray, window: int, most: int = 64) -> float:
    """Mean loss per token over the first windows of the held-out stream (no overlap: for the log alone)."""
    model.eval()
    count = min(most, (len(ids) - 1) // window)
    losses = []
    for i in range(count):
        x = torch.from_numpy(ids[i * window : (i + 1) * window])[None]
        losses.append(model(x, labels=x).loss.item())
    model.train()
    return float(np.mean(losses))


def save_whole(save, path: Path) -> None:
    """Writes beside `path`, then renames: a checkpoint is whole or not there."""
    partial = path.with_name(path.name + ".partial")
    save(partial)
    os.replace(partial, path)


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("texts", type=Path, help="folder of *.txt files")
    p.add_argument("--also", type=Path, nargs="*", default=[], help="more files, trained on whole")
    p.add_argument("--held-out", default="12/25", help="REMAINDER/MODULUS of the files never trained on")
    p.add_argument("--out", type=Path, required=True, help="folder of the finished model")
    p.add_argument("--steps", type=int, default=2000)
    p.add_argument("--rows", type=int, default=8, help="windows in a batch")
    p.add_argument("--context", type=int, default=512)
    p.add_argument("--vocab", type=int, default=4096)
    p.add_argument("--width", type=int, default=256)
    p.add_argument("--layers", type=int, default=6)
    p.add_argument("--heads", type=int, default=8)
    p.add_argument("--dropout", type=float, default=0.1)
    p.add_argument("--muon-lr", type=float, default=4e-3)
    p.add_argument("--adam-lr", type=float, default=3e-3)
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--threads", type=int, default=0, help="0: torch's own choice")
    p.add_argument("--compile", action="store_true", help="torch.compile: about 1.2 times as fast, needs a C compiler")
    a = p.parse_args()

    if a.threads:
        torch.set_num_threads(a.threads)
    torch.manual_seed(a.seed)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    remainder, modulus = map(int, a.held_out.split("/"))
    train_files, held_out_files = split_files(a.texts, remainder, modulus)
    train_texts = [read_text(f) for f in [*train_files, *a.also]]
    held_out_texts = [read_text(f) for f in held_out_files]

    a.out.mkdir(parents=True, exist_ok=True)
    tokenizer_path = a.out / "tokenizer.json"
    if tokenizer_path.exists():
        tokenizer = Tokenizer.from_file(str(tokenizer_path))
    else:
        tokenizer = train_tokenizer(train_texts, a.vocab)
        save_whole(lambda path: tokenizer.save(str(path)), tokenizer_path)
    ids = encode_stream(tokenizer, train_texts)
    held_out_ids = encode_stream(tokenizer, held_out_texts)
    bytes_per_token = sum(len(t.encode()) for t in held_out_texts) / len(held_out_ids)
    print(f"{len(train_texts)} texts, {len(ids):,} tokens to train on; {bytes_per_token:.2f} bytes a token held out")

    end = tokenizer.token_to_id(END_OF_TEXT)
    config = GPT2Config(
        vocab_size=tokenizer.get_vocab_size(), n_positions=a.context, n_embd=a.width, n_layer=a.layers, n_head=a.heads,
        resid_pdrop=a.dropout, embd_pdrop=a.dropout, attn_pdrop=0.0, bos_token_id=end, eos_token_id=end,
    )  # fmt: skip
    model = GPT2LMHeadModel(config).to(device)
    optimizers = make_optimizers(model, a.muon_lr, a.adam_lr)
    base_lrs = [o.param_groups[0]["lr"] for o in optimizers]
    print(f"{sum(x.numel() for x in model.parameters()):,} parameters on {device}")

    checkpoint = a.out / "checkpoint.pt"
    first, seconds = 0, 0.0
    if checkpoint.exists():
        state = torch.load(checkpoint, map_location=device, weights_only=True)
        model.load_state_dict(state["model"])
        for o, s in zip(optimizers, state["optimizers"], strict=True):
            o.load_state_dict(s)
        first, seconds = state["step"], state["seconds"]
        print(f"going on from step {first}")

    def loss_of(x):
        with torch.autocast(device, dtype=torch.bfloat16):
            return model(x, labels=x).loss

    loss_fn = torch.compile(loss_of) if a.compile else loss_of

    def save_checkpoint(step: int) -> None:
        state = {
            "model": model.state_dict(), "optimizers": [o.state_dict() for o in optimizers],
            "step": step, "seconds": seconds + time.time() - started,
        }  # fmt: skip
        save_whole(lambda path: torch.save(state, path), checkpoint)

    started = last_saved = time.time()
    smooth = None
    for step in (bar := trange(first, a.steps, initial=first, total=a.steps, mininterval=5)):
        for o, lr in zip(optimizers, base_lrs, strict=True):
            o.param_groups[0]["lr"] = lr * learning_rate_factor(step, a.steps)
        loss = loss_fn(batch_at(step, ids, a.rows, a.context, a.seed).to(device))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for o in optimizers:
            o.step()
            o.zero_grad(set_to_none=True)
        smooth = loss.item() if smooth is None else 0.98 * smooth + 0.02 * loss.item()
        bar.set_postfix(loss=f"{smooth:.3f}", refresh=False)
        if (step + 1) % 250 == 0 and held_out_files:
            bits = held_out_nats(model, held_out_ids, a.context) / math.log(2) / bytes_per_token
            row = {"step": step + 1, "tokens": (step + 1) * a.rows * a.context, "train_loss": round(smooth, 4),
                   "held_out_bits_per_byte_roughly": round(bits, 4),
                   "seconds": round(seconds + time.time() - started)}  # fmt: skip
            with open(a.out / "log.jsonl", "a") as f:
                f.write(json.dumps(row) + "\n")
        if time.time() - last_saved > 180:
            save_checkpoint(step + 1)
            last_saved = time.time()
    save_checkpoint(a.steps)

    model.to(torch.float16).save_pretrained(a.out)
    GenerationConfig(bos_token_id=end, eos_token_id=end, pad_token_id=end).save_pretrained(a.out)
    (a.out / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "GPT2TokenizerFast", "model_max_length": a.context,
                    "bos_token": END_OF_TEXT, "eos_token": END_OF_TEXT, "unk_token": END_OF_TEXT,
                    "add_prefix_space": False}, indent=1) + "\n"
    )  # fmt: skip
    minutes = (seconds + time.time() - started) / 60
    print(f"trained {a.steps} steps, {a.steps * a.rows * a.context:,} tokens, in {minutes:.0f} minutes; in {a.out}")


if __name__ == "__main__":
    main()
