"""Trains a small BART to restore corrupted paragraphs, and writes it in the Hugging Face layout.

    pip install '.[train]'
    python weights/train_bart.py TEXTS --gpt2 weights/tiny-gpt2 --out my-bart --steps 8000

BART's text infilling: spans of the source are replaced by one <mask> each, about 30 % of its tokens; the target is
the original. The vocabulary is that of the GPT-2 named by --gpt2 and <s>, <pad>, </s>, <mask> behind it; the token
embeddings start from that model's too. Optimizers, schedule and checkpoints are those of train_gpt2.py.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import torch
from corpus import encode_stream, infill, read_text, split_files
from safetensors.torch import load_file
from tokenizers import AddedToken, Tokenizer, processors
from training import add_training_options, train
from transformers import BartConfig, BartForConditionalGeneration, GenerationConfig

SPECIALS = ["<s>", "<pad>", "</s>", "<mask>"]
TOKENS_PER_BATCH = 4096
LENGTHS = (64, 128, 256)  # of the targets, drawn batch by batch: short ones teach copying soonest


def bart_tokenizer(gpt2_folder) -> Tokenizer:
    """The GPT-2 vocabulary, four special tokens more, and BART's frame: <s> text </s>."""
    tokenizer = Tokenizer.from_file(str(gpt2_folder / "tokenizer.json"))
    # <mask> takes the space before it, as RoBERTa's and BART's does.
    tokenizer.add_special_tokens([AddedToken(t, special=True, lstrip=t == "<mask>") for t in SPECIALS])
    frame = [(t, tokenizer.token_to_id(t)) for t in ("<s>", "</s>")]
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=frame)
    return tokenizer


def make_batch(rng: np.random.Generator, ids: np.ndarray, length: int, rows: int, t: Tokenizer) -> dict:
    """`rows` windows of `length` tokens: corrupted sources, padded to one width, and the originals as labels."""
    start, pad, end, mask = (t.token_to_id(s) for s in SPECIALS)
    sources = np.full((rows, length + 2), pad)
    labels = np.empty((rows, length + 2), np.int64)
    for r in range(rows):
        first = rng.integers(len(ids) - length)
        window = ids[first : first + length]
        while True:
            corrupted, _ = infill(rng, window, mask)
            if len(corrupted) <= length:
                break
        sources[r, : len(corrupted) + 2] = [start, *corrupted, end]
        labels[r] = [start, *window, end]
    decoder_inputs = np.concatenate([np.full((rows, 1), end), labels[:, :-1]], axis=1)
    return {
        "input_ids": torch.from_numpy(sources), "attention_mask": torch.from_numpy((sources != pad).astype(np.int64)),
        "decoder_input_ids": torch.from_numpy(decoder_inputs), "labels": torch.from_numpy(labels),
    }  # fmt: skip


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_training_options(p, steps=8000, muon_lr=2e-3, adam_lr=2e-3)
    p.add_argument("--gpt2", type=Path, required=True, help="GPT-2 folder whose vocabulary and embeddings are taken")
    p.add_argument("--encoder-layers", type=int, default=3)
    p.add_argument("--decoder-layers", type=int, default=3)
    p.add_argument("--heads", type=int, default=8)
    p.add_argument("--context", type=int, default=512)
    p.add_argument("--dropout", type=float, default=0.05)
    a = p.parse_args()

    if a.threads:
        torch.set_num_threads(a.threads)
    torch.manual_seed(a.seed)
    tokenizer = bart_tokenizer(a.gpt2)
    start, pad, end, mask = (tokenizer.token_to_id(s) for s in SPECIALS)
    train_files, held_out_files = split_files(a.texts, *map(int, a.held_out.split("/")))
    plain = Tokenizer.from_file(str(a.gpt2 / "tokenizer.json"))  # without the frame, for one long stream
    ids = encode_stream(plain, [read_text(f) for f in [*train_files, *a.also]])
    held_out_ids = encode_stream(plain, [read_text(f) for f in held_out_files])
    a.out.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(a.out / "tokenizer.json"))

    embeddings = load_file(a.gpt2 / "model.safetensors")["transformer.wte.weight"].float()
    V, D = tokenizer.get_vocab_size(), embeddings.shape[1]
    config = BartConfig(
        vocab_size=V, d_model=D, encoder_layers=a.encoder_layers, decoder_layers=a.decoder_layers,
        encoder_attention_heads=a.heads, decoder_attention_heads=a.heads, encoder_ffn_dim=4 * D, decoder_ffn_dim=4 * D,
        max_position_embeddings=a.context, dropout=a.dropout, attention_dropout=0.0, activation_dropout=0.0,
        bos_token_id=start, pad_token_id=pad, eos_token_id=end, decoder_start_token_id=end, forced_eos_token_id=end,
    )  # fmt: skip
    model = BartForConditionalGeneration(config).to("cuda" if torch.cuda.is_available() else "cpu")
    with torch.no_grad():
        model.model.shared.weight[: len(embeddings)] = embeddings * (config.init_std / embeddings.std())

    def batch_at(step: int) -> dict[str, torch.Tensor]:
        rng = np.random.default_rng([a.seed, step])
        length = LENGTHS[step % len(LENGTHS)]
        return make_batch(rng, ids, length, TOKENS_PER_BATCH // length, tokenizer)

    def evaluate() -> dict[str, float]:
        """Loss and accuracy on held-out windows, teacher-forced: copied tokens and hidden ones apart."""
        rng = np.random.default_rng(12345)
        right, count = {True: 0, False: 0}, {True: 0, False: 0}
        for _ in range(24):
            first = rng.integers(len(held_out_ids) - 256)
            window = held_out_ids[first : first + 256]
            corrupted, hidden = infill(rng, window, mask)
            source = torch.tensor([[start, *corrupted, end]], device=model.device)
            target = torch.tensor([[end, start, *window]], device=model.device)
            logits = model(input_ids=source, decoder_input_ids=target).logits[0, 1:-1]
            hits = logits.argmax(-1).cpu().numpy() == window
            for kind in (True, False):
                right[kind] += int(hits[hidden == kind].sum())
                count[kind] += int((hidden == kind).sum())
        return {"held_out_hidden_right": round(right[True] / count[True], 4),
                "held_out_copied_right": round(right[False] / count[False], 4)}  # fmt: skip

    train(model, batch_at, evaluate, a)

    model.to(torch.float16).save_pretrained(a.out)
    GenerationConfig(
        bos_token_id=start, pad_token_id=pad, eos_token_id=end, decoder_start_token_id=end, forced_bos_token_id=start,
        forced_eos_token_id=end, num_beams=4, max_length=a.context, early_stopping=True,
    ).save_pretrained(a.out)  # fmt: skip
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": a.context, "bos_token": "<s>",
                "eos_token": "</s>", "pad_token": "<pad>", "mask_token": "<mask>", "cls_token": "<s>",
                "sep_token": "</s>"}  # fmt: skip
    (a.out / "tokenizer_config.json").write_text(json.dumps(settings, indent=1) + "\n", encoding="utf-8")
    print(f"the model is in {a.out}")


if __name__ == "__main__":
    main()
