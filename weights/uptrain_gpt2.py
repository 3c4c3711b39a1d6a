"""Makes a smaller multi-query GPT-2 of a multi-head one, and trains on: uptraining (Ainslie et al. 2023, "GQA").

    pip install '.[train]'
    python weights/uptrain_gpt2.py TEXTS --gpt2 weights/tiny-gpt2 --out my-gpt2-mqa --steps 1500

Some layers are kept, and of each the key and value heads become one, their mean. What comes of it is a bad model that
is soon mended: all of it is trained as in train_gpt2.py, at half that rate. The folder is for minidecode: transformers
has this network under another name, GPTBigCode, with matrices the other way round (tests/golden/make_bundled.py).
"""

from __future__ import annotations

import argparse
import copy
from pathlib import Path

import torch
from attention_variants import make_gpt2
from corpus import encode_stream
from tokenizers import Tokenizer
from train_gpt2 import train_and_write
from training import add_training_options, read_texts
from transformers import GPT2LMHeadModel


def with_one_head(qkv: torch.Tensor, H: int) -> torch.Tensor:
    """(..., 3 H K) of H query, key and value heads -> (..., (H + 2) K): of keys and values the mean head."""
    q, k, v = qkv.chunk(3, dim=-1)
    return torch.cat([q, *(heads.unflatten(-1, (H, -1)).mean(dim=-2) for heads in (k, v))], dim=-1)


@torch.no_grad()
def multi_query_of(gpt2: GPT2LMHeadModel, keep: list[int]) -> GPT2LMHeadModel:
    """The multi-query GPT-2 of these layers."""
    config = copy.deepcopy(gpt2.config)
    config.n_layer, config.num_key_value_heads = len(keep), 1
    model = make_gpt2(config)
    old, new = gpt2.transformer, model.transformer
    for name in ("wte", "wpe", "ln_f"):
        getattr(new, name).load_state_dict(getattr(old, name).state_dict())
    for block, i in zip(new.h, keep, strict=True):
        tensors = old.h[i].state_dict()
        for name in ("attn.c_attn.weight", "attn.c_attn.bias"):
            tensors[name] = with_one_head(tensors[name], config.n_head)
        block.load_state_dict(tensors)
    return model


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_training_options(p, steps=1500, muon_lr=2e-3, adam_lr=1.5e-3)
    p.add_argument("--gpt2", type=Path, required=True, help="folder of the multi-head GPT-2 to start from")
    p.add_argument("--keep", type=int, nargs="+", default=[0, 2, 3, 5], help="its layers that are kept")
    p.add_argument("--rows", type=int, default=8, help="windows in a batch")
    a = p.parse_args()

    if a.threads:
        torch.set_num_threads(a.threads)
    torch.manual_seed(a.seed)
    tokenizer = Tokenizer.from_file(str(a.gpt2 / "tokenizer.json"))
    ids, held_out_ids = (encode_stream(tokenizer, texts) for texts in read_texts(a))
    model = multi_query_of(GPT2LMHeadModel.from_pretrained(a.gpt2, dtype=torch.float32), a.keep)
    model.to("cuda" if torch.cuda.is_available() else "cpu")
    train_and_write(model, tokenizer, ids, held_out_ids, a)
    print(f"the model is in {a.out}: minidecode generate --model {a.out} 'Once upon a time'")


if __name__ == "__main__":
    main()
