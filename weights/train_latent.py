"""Trains a small GPT-2 with a latent on short sentences: a variational autoencoder in Optimus's form (Li et al. 2020).

    pip install '.[train]'
    python weights/train_latent.py --out my-latent

A BERT reads a sentence and gives the mean and the log variance of its latent z. A GPT-2 writes the sentence again from
z, which it gets in two ways: as one more key and value in front of each layer's, and added to each embedding.

The loss is the sentence's negative log-likelihood given a sampled z, plus beta times the divergence of z from the
prior. Three means keep the GPT-2 from ignoring z: beta rises from 0 to less than 1, so much divergence of each number
of z is free, and some of the words that the GPT-2 has written are hidden from it.

latent_data.py makes the sentences, each batch when it is needed. Optimizers, schedule and checkpoints are those of
train_gpt2.py. A run that was interrupted goes on from its last checkpoint.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch
from latent_data import held_out_sentences, sentences, words_of_grammar
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from training import train
from transformers import BertConfig, BertModel, DynamicCache, GPT2Config, GPT2LMHeadModel

SPECIALS = ("<pad>", "<s>", "</s>", "<unk>")
PAD, START, END, UNKNOWN = range(len(SPECIALS))
LONGEST = 32  # tokens of a sentence, <s> among them


def make_tokenizer() -> Tokenizer:
    """A token for each word of the grammar, with the space before it, and for each mark. <s> stands before a text."""
    pieces = [*SPECIALS, "▁", ".", ",", "?", *(f"▁{word}" for word in words_of_grammar())]
    tokenizer = Tokenizer(models.Unigram([(piece, -1.0) for piece in pieces], unk_id=UNKNOWN))
    tokenizer.add_special_tokens(list(SPECIALS))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", START)])
    return tokenizer


def pad_rows(rows: list[list[int]]) -> torch.Tensor:
    """Rows of token ids, padded on the right."""
    out = np.full((len(rows), max(map(len, rows))), PAD)
    for row, ids in zip(out, rows, strict=True):
        row[: len(ids)] = ids
    return torch.from_numpy(out)


class SentenceVae(torch.nn.Module):
    """The BERT, the GPT-2, and what is between them. Tensors have the names of Optimus."""

    def __init__(self, a: argparse.Namespace, vocab_size: int):
        super().__init__()
        plain = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "type_vocab_size": 1}
        self.encoder = BertModel(
            BertConfig(
                vocab_size=vocab_size, hidden_size=a.width, num_hidden_layers=a.encoder_layers,
                num_attention_heads=a.heads, intermediate_size=4 * a.width, max_position_embeddings=LONGEST,
                hidden_act="gelu_new", layer_norm_eps=1e-5, pad_token_id=PAD, **plain,
            )
        )  # fmt: skip
        self.encoder.linear = torch.nn.Linear(a.width, 2 * a.latent, bias=False)
        self.decoder = GPT2LMHeadModel(
            GPT2Config(
                vocab_size=vocab_size, n_positions=LONGEST, n_embd=a.width, n_layer=a.layers, n_head=a.heads,
                resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=START, eos_token_id=END,
            )
        )  # fmt: skip
        self.decoder.transformer.linear = torch.nn.Linear(a.latent, a.width * a.layers, bias=False)
        self.decoder.transformer.linear_emb = torch.nn.Linear(a.latent, a.width, bias=False)
        self.free_nats = a.free_nats

    def posterior(self, input_ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """(mean, log variance) of z, of each sentence."""
        pooled = self.encoder(input_ids, attention_mask=(input_ids != PAD).long()).pooler_output
        return self.encoder.linear(pooled).float().chunk(2, dim=1)

    def nats(self, z: torch.Tensor, read: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """-log p(sentence | z), of each sentence. read: what the GPT-2 sees of it."""
        transformer = self.decoder.transformer
        config, B = transformer.config, len(z)
        heads = config.n_head, config.n_embd // config.n_head
        memory = transformer.linear(z).view(B, config.n_layer, *heads)
        cache = DynamicCache([(kv[:, :, None], kv[:, :, None]) for kv in memory.unbind(1)])
        embedded = transformer.wte(read) + transformer.linear_emb(z)[:, None]
        positions = torch.arange(1, read.shape[1] + 1)[None]
        h = transformer(inputs_embeds=embedded, position_ids=positions, past_key_values=cache, use_cache=True)[0]
        logits = self.decoder.lm_head(h).float()
        return torch.nn.functional.cross_entropy(
            logits.transpose(1, 2), targets, ignore_index=PAD, reduction="none"
        ).sum(1)

    def forward(self, input_ids, read, targets, noise, beta):
        mean, log_variance = self.posterior(input_ids)
        z = mean + torch.exp(log_variance / 2) * noise
        divergence = self.divergence(mean, log_variance).mean(0)
        loss = self.nats(z, read, targets).mean() + beta * torch.clamp(divergence, min=self.free_nats).sum()
        return SimpleNamespace(loss=loss / 16)  # about the number of tokens

    @staticmethod
    def divergence(mean: torch.Tensor, log_variance: torch.Tensor) -> torch.Tensor:
        """KL(N(mean, variance) || N(0, 1)), of each number of each z."""
        return 0.5 * (mean**2 + log_variance.exp() - 1 - log_variance)


def shift_targets(input_ids: torch.Tensor) -> torch.Tensor:
    """What each position of a sentence is to say: the next token, and </s> at last."""
    targets = torch.nn.functional.pad(input_ids[:, 1:], (0, 1), value=PAD)
    targets[torch.arange(len(input_ids)), (input_ids != PAD).sum(1) - 1] = END
    return targets


def write_folder(model: SentenceVae, tokenizer: Tokenizer, a: argparse.Namespace) -> None:
    """The model in float16, its tokenizer, and how it generates."""
    tensors = {name: t.detach().to(torch.float16).contiguous() for name, t in model.state_dict().items()}
    del tensors["decoder.lm_head.weight"]  # the embedding
    buffers = [name for name in tensors if name.endswith(("position_ids", ".attn.bias", ".attn.masked_bias"))]
    save_file({n: t for n, t in tensors.items() if n not in buffers}, a.out / "model.safetensors", {"format": "pt"})
    config = {
        "model_type": "gpt2_latent", "vocab_size": tokenizer.get_vocab_size(), "n_positions": LONGEST,
        "n_embd": a.width, "n_layer": a.layers, "n_head": a.heads, "encoder_layers": a.encoder_layers,
        "latent_size": a.latent, "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5,
        "tie_word_embeddings": True, "dtype": "float16",
    }  # fmt: skip
    defaults = {"bos_token_id": START, "eos_token_id": END, "pad_token_id": PAD, "num_beams": 1, "max_length": LONGEST}
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": LONGEST, "bos_token": "<s>",
                "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}  # fmt: skip
    files = {"config": config, "generation_config": defaults, "tokenizer_config": settings}
    for name, fields in files.items():
        (a.out / f"{name}.json").write_text(json.dumps(fields, indent=2) + "\n", encoding="utf-8")
    tokenizer.save(str(a.out / "tokenizer.json"))


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--out", type=Path, required=True, help="folder of the finished model")
    p.add_argument("--steps", type=int, default=4000)
    p.add_argument("--rows", type=int, default=64, help="sentences of a batch")
    p.add_argument("--width", type=int, default=128)
    p.add_argument("--layers", type=int, default=2, help="of the GPT-2")
    p.add_argument("--encoder-layers", type=int, default=2, help="of the BERT")
    p.add_argument("--heads", type=int, default=4)
    p.add_argument("--latent", type=int, default=32, help="numbers of z")
    p.add_argument("--beta", type=float, default=0.1, help="at last; it rises over the first half of the steps")
    p.add_argument("--free-nats", type=float, default=0.7, help="divergence of each number of z that costs the same")
    p.add_argument("--hidden-words", type=float, default=0.3, help="share of the words that the GPT-2 does not see")
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
    model = SentenceVae(a, tokenizer.get_vocab_size())
    a.out.mkdir(parents=True, exist_ok=True)

    def encoded(texts: list[str]) -> torch.Tensor:
        return pad_rows([e.ids for e in tokenizer.encode_batch(texts)])

    def batch_at(step: int) -> dict[str, torch.Tensor]:
        rng = np.random.default_rng([a.seed, step])
        input_ids = encoded(sentences(rng, a.rows, held_out=False))
        hidden = torch.from_numpy(rng.random(input_ids.shape) < a.hidden_words) & (input_ids > UNKNOWN)
        noise = torch.from_numpy(rng.standard_normal((a.rows, a.latent), np.float32))
        beta = torch.tensor(a.beta * min(1.0, 2 * step / a.steps))
        read = input_ids.masked_fill(hidden, UNKNOWN)
        return {"input_ids": input_ids, "read": read, "targets": shift_targets(input_ids), "noise": noise, "beta": beta}

    held_out = held_out_sentences(256)
    held_out_ids, size = encoded(held_out), sum(len(text.encode()) for text in held_out)

    def evaluate() -> dict[str, float]:
        """Bits per byte, </s> included, with z the mean of each sentence's own, and with those of the sentences next
        to it; and nats of divergence."""
        mean, log_variance = model.posterior(held_out_ids)
        bits = [
            model.nats(z, held_out_ids, shift_targets(held_out_ids)).sum().item() / math.log(2) / size
            for z in (mean, mean.roll(1, 0))
        ]
        nats = model.divergence(mean, log_variance).sum(1).mean().item()
        return {"bits_per_byte": round(bits[0], 4), "shuffled": round(bits[1], 4), "divergence": round(nats, 2)}

    train(model, batch_at, evaluate, a, evaluate_every=a.evaluate_every)
    write_folder(model, tokenizer, a)
    print(f"the model is in {a.out}")


if __name__ == "__main__":
    main()
