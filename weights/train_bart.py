"""Trains a small BART to restore corrupted paragraphs, and writes it in the Hugging Face layout.

    pip install '.[train]'
    python weights/train_bart.py TEXTS --gpt2 weights/tiny-gpt2 --out my-bart --steps 3000

BART's text infilling: spans of the source are replaced by one <mask> each, about 30 % of its tokens; the target is
the original. The vocabulary is that of the GPT-2 named by --gpt2 and <s>, <pad>, </s>, <mask> behind it. The decoder
starts as that model (`start_from_gpt2`) and with heads that find their place in the source (`start_with_copying`):
from random weights, a run of this size learns to copy and little else. Optimizers, schedule and checkpoints are those
of train_gpt2.py.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import torch
from corpus import corrupt_by_infilling, encode_stream
from tokenizers import AddedToken, Tokenizer, processors
from torch import nn
from training import add_training_options, read_texts, train
from transformers import BartConfig, BartForConditionalGeneration, GenerationConfig, GPT2LMHeadModel

SPECIALS = ["<s>", "<pad>", "</s>", "<mask>"]
LENGTHS = (16, 32, 64, 128, 256)  # of the targets, batch by batch
SPANS = (1.0, 2.0, 3.0)  # mean lengths of what one <mask> hides, window by window; BART's is 3


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
            corrupted, _ = corrupt_by_infilling(rng, window, mask, rng.choice(SPANS))
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
    """The BART's decoder computes nearly what the GPT-2 does; cross-attention adds nothing at first.

    GPT-2 adds to a residual that grows, x + f(norm(x)); BART keeps it normalized, norm(x + f(x)). With s the standard
    deviation of GPT-2's x, norm(x + f(norm(x))) = norm(norm(x) + f(norm(x)) / s): the same numbers, if each branch is
    divided by s. s differs from token to token; its median stands for it.
    """
    sizes = residual_sizes(gpt2, ids)
    old, new = gpt2.transformer, model.model
    rows = len(old.wte.weight)
    new.shared.weight[:rows] = old.wte.weight
    new.shared.weight[rows:] = old.wte.weight.mean(0) + 0.02 * torch.randn_like(new.shared.weight[rows:])
    for table in (new.encoder.embed_positions, new.decoder.embed_positions):
        count = min(len(old.wpe.weight), len(table.weight) - table.offset)
        table.weight[table.offset :][:count] = old.wpe.weight[:count]
    for layer, block in zip(new.decoder.layers, old.h, strict=True):
        s, attention = sizes[block.ln_1], layer.self_attn
        qkv = zip(block.attn.c_attn.weight.chunk(3, dim=1), block.attn.c_attn.bias.chunk(3), strict=True)
        for to, (weight, bias) in zip((attention.q_proj, attention.k_proj, attention.v_proj), qkv, strict=True):
            copy_linear(to, weight, bias, block.ln_1)
        copy_linear(attention.out_proj, block.attn.c_proj.weight / s, block.attn.c_proj.bias / s)
        layer.encoder_attn.out_proj.weight.zero_()
        s = sizes[block.ln_2]
        copy_linear(layer.fc1, block.mlp.c_fc.weight, block.mlp.c_fc.bias, block.ln_2)
        copy_linear(layer.fc2, block.mlp.c_proj.weight / s, block.mlp.c_proj.bias / s)
    last = new.decoder.layers[-1].final_layer_norm
    last.weight.copy_(old.ln_f.weight)
    last.bias.copy_(old.ln_f.bias)


LOOK_BACK = (1, 2, 3)  # how many tokens back the first heads of both first layers look
LOOK_AHEAD = (-1, -2)  # and the next two heads of the encoder


@torch.no_grad()
def start_with_copying(model: BartForConditionalGeneration, ids: np.ndarray, rng: np.random.Generator) -> None:
    """The first cross-attention finds, before any training, the token of the source that comes next.

    Whoever copies a text looks for the place where his own last tokens stand in it, and reads on. A transformer does
    it with two heads in a row (induction heads, Olsson et al. 2022): one writes what stood before into each position,
    one looks for it. That both fit to one another is what training finds last; here they are set by hand.

    1. Positions get a code: C / 2 circles, position t at the angle theta t, in the C directions that the embeddings
       use least (C: a head's width). The scalar product of the codes of t and u is large only where t = u.
    2. Heads of the first layers look d tokens back (or ahead): a query's circles are turned back by theta d.
       Those that look back write C directions of what they find into a room of their own, `rooms[d]`.
    3. In the first cross-attention a query is what the decoder reads at its last three tokens, a key what the encoder
       found one, two and three tokens before.
    """
    wte, new = model.model.shared.weight, model.model
    D, H = wte.shape[1], model.config.decoder_attention_heads
    C = D // H
    tokens = wte[torch.from_numpy(rng.choice(ids, 20_000))]
    directions = torch.linalg.svd(tokens - tokens.mean(0), full_matrices=False).Vh.flip(0).T  # (D, D), least used first
    circles, *rooms = directions[:, : C * (1 + len(LOOK_BACK))].split(C, dim=1)

    def random_turn(n: int) -> torch.Tensor:
        return torch.linalg.qr(torch.from_numpy(rng.standard_normal((n, n))).float()).Q

    rest = directions[:, C * (1 + len(LOOK_BACK)) :]
    content = rest @ random_turn(rest.shape[1])[:, :C]  # (D, C): what of a token is written and compared
    theta = torch.from_numpy(rng.uniform(0, np.pi, C // 2)).float()

    for stack, looks in ((new.encoder, (*LOOK_BACK, *LOOK_AHEAD)), (new.decoder, LOOK_BACK)):
        table, attention = stack.embed_positions.weight, stack.layers[0].self_attn
        angle = torch.arange(len(table))[:, None] * theta
        table += 2 * wte.std() * torch.stack([angle.cos(), angle.sin()], dim=2).flatten(1) @ circles.T
        read = stack.layernorm_embedding(tokens[:256] + table[2:258]) @ circles
        gain = (16 * C**0.5 / read.square().sum(1).mean()) ** 0.5  # a head's score is 16 where it looks
        for h, d in enumerate(looks):
            rows = slice(h * C, (h + 1) * C)
            turn = torch.block_diag(*(torch.tensor([[c, s], [-s, c]]) for c, s in zip(
                (theta * d).cos().tolist(), (theta * d).sin().tolist(), strict=True)))  # fmt: skip
            for linear, weight in ((attention.q_proj, turn @ circles.T), (attention.k_proj, circles.T)):
                linear.weight[rows], linear.bias[rows] = gain * weight, 0.0
            if d in LOOK_BACK:
                attention.v_proj.weight[rows], attention.v_proj.bias[rows] = content.T, 0.0
                attention.out_proj.weight[:, rows] = rooms[d - 1]

    cross = new.decoder.layers[0].encoder_attn
    widths = [len(part) for part in torch.arange(C).tensor_split(len(LOOK_BACK))]
    gain = (20 / C**0.5) ** 0.5
    for h in range(H):
        rows = slice(h * C, (h + 1) * C)
        views = [random_turn(C)[:width] for width in widths]  # each head compares other directions
        asked, stored = [content, *rooms[:-1]], rooms
        cross.q_proj.weight[rows] = gain * torch.cat([v @ x.T for v, x in zip(views, asked, strict=True)])
        cross.k_proj.weight[rows] = gain * torch.cat([v @ x.T for v, x in zip(views, stored, strict=True)])


def held_out_right(model, ids: np.ndarray, tokenizer: Tokenizer, length: int) -> dict[str, float]:
    """How many tokens of held-out windows are the likeliest, teacher-forced: copied and hidden ones apart."""
    start, _, end, mask = (tokenizer.token_to_id(s) for s in SPECIALS)
    rng = np.random.default_rng(12345)
    right, count = {True: 0, False: 0}, {True: 0, False: 0}
    for _ in range(24):
        first = rng.integers(len(ids) - length)
        window = ids[first : first + length]
        corrupted, hidden = corrupt_by_infilling(rng, window, mask)
        source = torch.tensor([[start, *corrupted, end]], device=model.device)
        target = torch.tensor([[end, start, *window]], device=model.device)
        logits = model(input_ids=source, decoder_input_ids=target).logits[0, 1:-1]
        hits = logits.argmax(-1).cpu().numpy() == window
        for kind in (True, False):
            right[kind] += int(hits[hidden == kind].sum())
            count[kind] += int((hidden == kind).sum())
    return {"held_out_hidden_right": round(right[True] / count[True], 4),
            "held_out_copied_right": round(right[False] / count[False], 4)}  # fmt: skip


def write_folder(model: BartForConditionalGeneration, tokenizer: Tokenizer, out: Path) -> None:
    """The model in float16, its tokenizer, and how it generates."""
    start, pad, end, _ = (tokenizer.token_to_id(s) for s in SPECIALS)
    context = model.config.max_position_embeddings
    model.to(torch.float16).save_pretrained(out)
    tokenizer.save(str(out / "tokenizer.json"))
    GenerationConfig(
        bos_token_id=start, pad_token_id=pad, eos_token_id=end, decoder_start_token_id=end, forced_bos_token_id=start,
        forced_eos_token_id=end, num_beams=4, max_length=context, early_stopping=True,
    ).save_pretrained(out)  # fmt: skip
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": context, "bos_token": "<s>",
                "eos_token": "</s>", "pad_token": "<pad>", "mask_token": "<mask>", "cls_token": "<s>",
                "sep_token": "</s>"}  # fmt: skip
    (out / "tokenizer_config.json").write_text(json.dumps(settings, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_training_options(p, steps=3000, muon_lr=2e-3, adam_lr=2e-3)
    p.add_argument("--gpt2", type=Path, required=True, help="GPT-2 folder whose vocabulary and weights are taken")
    p.add_argument("--encoder-layers", type=int, default=3)
    p.add_argument("--tokens", type=int, default=4096, help="of the targets of a batch")
    p.add_argument("--gpt2-lr", type=float, default=8e-4, help="learning rate of what comes from the GPT-2 (AdamW)")
    p.add_argument("--context", type=int, default=512)
    p.add_argument("--dropout", type=float, default=0.15, help="a text this small is soon learned by heart")
    a = p.parse_args()

    if a.threads:
        torch.set_num_threads(a.threads)
    torch.manual_seed(a.seed)
    tokenizer = bart_tokenizer(a.gpt2)
    start, pad, end, _ = (tokenizer.token_to_id(s) for s in SPECIALS)
    plain = Tokenizer.from_file(str(a.gpt2 / "tokenizer.json"))  # without the frame, for one long stream
    ids, held_out_ids = (encode_stream(plain, texts) for texts in read_texts(a))
    a.out.mkdir(parents=True, exist_ok=True)

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
    start_with_copying(model, ids, np.random.default_rng(a.seed))
    model.to("cuda" if torch.cuda.is_available() else "cpu")

    def batch_at(step: int) -> dict[str, torch.Tensor]:
        rng = np.random.default_rng([a.seed, step])
        length = LENGTHS[step % len(LENGTHS)]
        return make_batch(rng, ids, length, a.tokens // length, tokenizer)

    def evaluate() -> dict[str, float]:
        return held_out_right(model, held_out_ids, tokenizer, length=256)

    def comes_from_gpt2(name: str) -> bool:
        return "encoder." not in name and "encoder_attn" not in name

    train(model, batch_at, evaluate, a, is_trained=comes_from_gpt2, trained_lr=a.gpt2_lr)

    write_folder(model, tokenizer, a.out)
    print(f"the model is in {a.out}")


if __name__ == "__main__":
    main()
