"""The training loop that the scripts share: two optimizers, one schedule, checkpoints that survive an interruption."""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from corpus import read_text, split_files
from tqdm import trange


def add_training_options(p: argparse.ArgumentParser, steps: int, muon_lr: float, adam_lr: float) -> None:
    """The options that every training script takes."""
    p.add_argument("texts", type=Path, help="folder of UTF-8 *.txt files")
    p.add_argument("--also", type=Path, nargs="*", default=[], help="more files, trained on whole")
    p.add_argument("--held-out", default="12/25", help="REMAINDER/MODULUS of the files never trained on")
    p.add_argument("--out", type=Path, required=True, help="folder of the finished model")
    p.add_argument("--steps", type=int, default=steps)
    p.add_argument("--muon-lr", type=float, default=muon_lr)
    p.add_argument("--adam-lr", type=float, default=adam_lr)
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--threads", type=int, default=0, help="0: torch's own choice")
    p.add_argument("--compile", action="store_true", help="torch.compile: about 1.2 times as fast, needs a C compiler")


def read_texts(a: argparse.Namespace) -> tuple[list[str], list[str]]:
    """(trained on, held out) of what the options name."""
    train_files, held_out_files = split_files(a.texts, *map(int, a.held_out.split("/")))
    return [read_text(f) for f in [*train_files, *a.also]], [read_text(f) for f in held_out_files]


def windows_at(step: int, ids: np.ndarray, rows: int, window: int, seed: int) -> np.ndarray:
    """Batch number `step`, (rows, window): each epoch cuts the stream at a new random offset and shuffles the cuts."""
    windows = (len(ids) - window) // window
    epoch, k = divmod(step, windows // rows)
    rng = np.random.default_rng([seed, epoch])
    offset = rng.integers(window)
    starts = offset + window * rng.permutation(windows)[k * rows : (k + 1) * rows]
    return np.stack([ids[s : s + window] for s in starts])


def learning_rate_factor(step: int, steps: int, warmup: int = 100) -> float:
    """Up for `warmup` steps, flat, then linearly down to 0 over the second half."""
    return min(1.0, (step + 1) / warmup, 2.0 * (steps - step) / steps)


def make_optimizers(
    model: torch.nn.Module, muon_lr: float, adam_lr: float, is_trained: Callable[[str], bool], trained_lr: float
) -> list[torch.optim.Optimizer]:
    """Muon for the matrices inside the layers, AdamW for embeddings, norms and biases.

    What `is_trained` names, by its parameter name, gets AdamW at the rate trained_lr: it is good already.
    """
    matrices, rest, trained = [], [], []
    for name, p in model.named_parameters():
        is_matrix = p.ndim == 2 and any(part in name for part in (".h.", ".layers.", ".layer."))
        is_matrix &= "relative_attention_bias" not in name  # a table, as an embedding
        (trained if is_trained(name) else matrices if is_matrix else rest).append(p)
    groups = [{"params": rest}, *([{"params": trained, "lr": trained_lr}] if trained else [])]
    return [
        torch.optim.Muon(matrices, lr=muon_lr, weight_decay=0.1, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(groups, lr=adam_lr, betas=(0.9, 0.95), weight_decay=0.0),
    ]


def save_whole(save: Callable[[Path], None], path: Path) -> None:
    """Writes beside `path`, then renames: a file is whole or not there."""
    partial = path.with_name(path.name + ".partial")
    save(partial)
    os.replace(partial, path)


def train(
    model: torch.nn.Module,
    batch_at: Callable[[int], dict[str, torch.Tensor]],
    evaluate: Callable[[], dict[str, float]],
    a: argparse.Namespace,
    evaluate_every: int = 250,
    is_trained: Callable[[str], bool] = lambda name: False,
    trained_lr: float = 0.0,
) -> float:
    """Runs steps up to a.steps -> seconds it took; goes on from a.out/checkpoint.pt if it is there.

    The last step's weights are kept.

    batch_at(step) gives the model's keyword arguments, labels included. evaluate() is for the log alone
    (a.out/log.jsonl): nothing is selected by it. is_trained, trained_lr: see make_optimizers.
    """
    optimizers = make_optimizers(model, a.muon_lr, a.adam_lr, is_trained, trained_lr)
    base_lrs = [[group["lr"] for group in o.param_groups] for o in optimizers]
    device = next(model.parameters()).device
    print(f"{sum(x.numel() for x in model.parameters()):,} parameters on {device}")

    checkpoint = a.out / "checkpoint.pt"
    first, seconds = 0, 0.0
    if checkpoint.exists():
        state = torch.load(checkpoint, map_location=device, weights_only=True)
        shapes = {n: tuple(t.shape) for n, t in model.state_dict().items()}
        if shapes != {n: tuple(t.shape) for n, t in state["model"].items()}:
            raise SystemExit(f"{checkpoint} is of a model of other sizes: give the same options, or another --out")
        model.load_state_dict(state["model"])
        for o, s in zip(optimizers, state["optimizers"], strict=True):
            o.load_state_dict(s)
        first, seconds = state["step"], state["seconds"]
        print(f"going on from step {first}")

    def loss_of(batch):
        with torch.autocast(device.type, dtype=torch.bfloat16):
            return model(**batch).loss

    loss_fn = torch.compile(loss_of) if a.compile else loss_of
    started = last_saved = time.time()

    def save_checkpoint(step: int) -> None:
        state = {
            "model": model.state_dict(), "optimizers": [o.state_dict() for o in optimizers],
            "step": step, "seconds": seconds + time.time() - started,
        }  # fmt: skip
        save_whole(lambda path: torch.save(state, path), checkpoint)

    smooth = None
    for step in (bar := trange(first, a.steps, initial=first, total=a.steps, mininterval=5)):
        for o, lrs in zip(optimizers, base_lrs, strict=True):
            for group, lr in zip(o.param_groups, lrs, strict=True):
                group["lr"] = lr * learning_rate_factor(step, a.steps)
        loss = loss_fn({name: t.to(device) for name, t in batch_at(step).items()})
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for o in optimizers:
            o.step()
            o.zero_grad(set_to_none=True)
        smooth = loss.item() if smooth is None else 0.98 * smooth + 0.02 * loss.item()
        bar.set_postfix(loss=f"{smooth:.3f}", refresh=False)
        if (step + 1) % evaluate_every == 0:
            model.eval()
            with torch.no_grad():
                row = {"step": step + 1, "train_loss": round(smooth, 4), **evaluate(),
                       "seconds": round(seconds + time.time() - started)}  # fmt: skip
            model.train()
            with open(a.out / "log.jsonl", "a") as f:
                f.write(json.dumps(row) + "\n")
        if time.time() - last_saved > 180:
            save_checkpoint(step + 1)
            last_saved = time.time()
    save_checkpoint(a.steps)
    seconds += time.time() - started
    print(f"{a.steps} steps in {seconds / 60:.0f} minutes")
    return seconds
