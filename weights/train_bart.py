"""Trains a small BART to restore corrupted paragraphs, and writes it in the Hugging Face layout.

    pip install '.[train]'
    python weights/train_bart.py TEXTS --gpt2 weights/tiny-gpt2 --out my-bart --steps 2200

BART's text infilling: spans of the source are replaced by one <mask> each, about 30 % of its tokens; the target is
the original. The vocabulary is that of the GPT-2 named by --gpt2 and <s>, <pad>, </s>, <mask> behind it. The weights
start from that model's too (see `start_from_gpt2`): from random weights, a run of this size learns to copy and little
else. Optimizers, schedule and checkpoints are those of train_gpt2.py.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import torch
from corpus import encode_stream, infill, read_text, split_files
from tokenizers import AddedToken, Tokenizer, processors
from torch import nn
from training import add_training_options, train
from transformers import BartConfig, BartForConditionalGeneration, GenerationConfig, GPT2LMHeadModel

SPECIALS = ["<s>", "<pad>", "</s>", "<mask>"]
LENGTHS = (64, 128, 256)  # of the targets, batch by batch
FIRST_LENGTHS = (32, 64)  # in the first part of the run: where to look is learned soonest where there is little to see


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


def residual_sizes(gpt2: GPT2LMHeadModel, ids: np.ndarray, windows: int = 16) -> dict[nn.Module, float]:
    """Typical standard deviation of what each norm of the GPT-2 reads: the median over tokens of real text."""
    sizes: dict[nn.Module, float] = {}

    def note(norm: nn.Module, inputs: tuple[torch.Tensor], _) -> None:
        sizes[norm] = float(inputs[0].std(dim=-1, correction=0).median())

    norms = [n for block in gpt2.transformer.h for n in (block.ln_1, block.ln_2)]
    hooks = [n.register_forward_hook(note) for n in norms]
    length = min(gpt2.config.n_positions, len(ids) // windows)
    with torch.no_grad():
        gpt2(torch.from_numpy(ids[: windows * length].reshape(windows, length)))
    for hook in hooks:
        hook.remove()
    return sizes


def copy_linear(to: nn.Linear, weight: torch.Tensor, bias: torch.Tensor, norm: nn.LayerNorm | None = None) -> None:
    """to(x) = norm(x) @ weight + bias for normalized x: the norm's gain and bias move into the product."""
    gain, shift = (norm.weight, norm.bias) if norm else (torch.ones(len(weight)), torch.zeros(len(weight)))
    to.weight.copy_((gain[:, None] * weight).T)
    to.bias.copy_(bias + shift @ weight)


@torch.no_grad()
def start_from_gpt2(model: BartForConditionalGeneration, gpt2: GPT2LMHeadModel, ids: np.ndarray) -> None:
    """The BART's layers compute nearly what the GPT-2's do.

    GPT-2 adds to a residual that grows, x + f(norm(x)); BART keeps it normalized, norm(x + f(x)). With s the standard
    deviation of GPT-2's x, norm(x + f(norm(x))) = norm(norm(x) + f(norm(x)) / s): the same numbers, if each branch is
    divided by s. s differs from token to token; its median stands for it. Cross-attention starts as a copy of the
    layer's self-attention whose output is zero.
    """
    sizes = residual_sizes(gpt2, ids)
    old, new = gpt2.transformer, model.model
    rows = len(old.wte.weight)
    new.shared.weight[:rows] = old.wte.weight
    new.shared.weight[rows:] = old.wte.weight.mean(0) + 0.02 * torch.randn_like(new.shared.weight[rows:])
    for stack in (new.encoder, new.decoder):
        table = stack.embed_positions
        count = min(len(old.wpe.weight), len(table.weight) - table.offset)
        table.weight[table.offset :][:count] = old.wpe.weight[:count]
        for layer, block in zip(stack.layers, old.h, strict=False):
            s = sizes[block.ln_1]
            attentions = [layer.self_attn, layer.encoder_attn] if stack is new.decoder else [layer.self_attn]
            for attention in attentions:
                qkv = zip(block.attn.c_attn.weight.chunk(3, dim=1), block.attn.c_attn.bias.chunk(3), strict=True)
                for to, (weight, bias) in zip((attention.q_proj, attention.k_proj, attention.v_proj), qkv, strict=True):
                    copy_linear(to, weight, bias, block.ln_1)
                scale = 1 / s if attention is layer.self_attn else 0.0
                copy_linear(attention.out_proj, block.attn.c_proj.weight * scale, block.attn.c_proj.bias * scale)
            s = sizes[block.ln_2]
            copy_linear(layer.fc1, block.mlp.c_fc.weight, block.mlp.c_fc.bias, block.ln_2)
            copy_linear(layer.fc2, block.mlp.c_proj.weight / s, block.mlp.c_proj.bias / s)
    last = new.decoder.layers[-1].final_layer_norm
    last.weight.copy_(old.ln_f.weight)
    last.bias.copy_(old.ln_f.bias)


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_training_options(p, steps=2200, muon_lr=2e-3, adam_lr=2e-3)
    p.add_argument("--gpt2", type=Path, required=True, help="GPT-2 folder whose vocabulary and weights are taken")
    p.add_argument("--encoder-layers", type=int, default=4, help="at most those of the GPT-2, whose first they copy")
    p.add_argument("--tokens", type=int, default=4096, help="of the targets of a batch; half of it in the first part")
    p.add_argument("--first-part", type=float, default=0.25, help="of the steps")
    p.add_argument("--gpt2-lr", type=float, default=4e-4, help="learning rate of what comes from the GPT-2 (AdamW)")
    p.add_argument("--context", type=int, default=512)
    p.add_argument("--dropout", type=float, default=0.1)
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

    gpt2 = GPT2LMHeadModel.from_pretrained(a.gpt2, dtype=torch.float32).eval()
    D, H, layers = gpt2.config.n_embd, gpt2.config.n_head, gpt2.config.n_layer
    config = BartConfig(
        vocab_size=tokenizer.get_vocab_size(), d_model=D, encoder_layers=a.encoder_layers, decoder_layers=layers,
        encoder_attention_heads=H, decoder_attention_heads=H, encoder_ffn_dim=4 * D, decoder_ffn_dim=4 * D,
        activation_function=gpt2.config.activation_function, max_position_embeddings=a.context, dropout=a.dropout,
        attention_dropout=0.0, activation_dropout=0.0, bos_token_id=start, pad_token_id=pad, eos_token_id=end,
        decoder_start_token_id=end, forced_eos_token_id=end,
    )  # fmt: skip
    model = BartForConditionalGeneration(config)
    start_from_gpt2(model, gpt2, ids)
    model.to("cuda" if torch.cuda.is_available() else "cpu")

    def batch_at(step: int) -> dict[str, torch.Tensor]:
        rng = np.random.default_rng([a.seed, step])
        is_first = step < a.first_part * a.steps
        lengths = FIRST_LENGTHS if is_first else LENGTHS
        length = lengths[step % len(lengths)]
        tokens = a.tokens // 2 if is_first else a.tokens
        return make_batch(rng, ids, length, tokens // length, tokenizer)

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

    def comes_from_gpt2(name: str) -> bool:
        return "encoder." not in name and "encoder_attn" not in name

    train(model, batch_at, evaluate, a, is_trained=comes_from_gpt2, trained_lr=a.gpt2_lr)

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
