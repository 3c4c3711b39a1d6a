"""A family is a forward pass (NAME.py) and a table of tensors (NAME_tensors.py). No plan, no cache is named here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from . import (
    bart,
    bart_tensors,
    bert,
    bert_tensors,
    fairseq,
    fairseq_tensors,
    gpt2,
    gpt2_tensors,
    gpt_bigcode_tensors,
    llama,
    llama_tensors,
    mbart,
    mbart_tensors,
    t5,
    t5_tensors,
)
from .config import (
    BartConfig,
    BertConfig,
    FairseqConfig,
    GPT2Config,
    GPTBigCodeConfig,
    LlamaConfig,
    MarianConfig,
    MBartConfig,
    T5Config,
)


@dataclass(frozen=True)
class Family:
    """A kind of model: its config, its forward passes, and what its files hold."""

    name: str  # model_type in config.json
    config: type
    network: Any
    tensors: Any


FAMILIES = {
    "gpt2": Family("gpt2", GPT2Config, gpt2, gpt2_tensors),
    "gpt_bigcode": Family("gpt_bigcode", GPTBigCodeConfig, gpt2, gpt_bigcode_tensors),
    "bart": Family("bart", BartConfig, bart, bart_tensors),
    "bert": Family("bert", BertConfig, bert, bert_tensors),
    "marian": Family("marian", MarianConfig, bart, bart_tensors),
    "mbart": Family("mbart", MBartConfig, mbart, mbart_tensors),
    **{name: Family(name, T5Config, t5, t5_tensors) for name in ("t5", "mt5", "umt5")},
    **{name: Family(name, FairseqConfig, fairseq, fairseq_tensors) for name in ("fairseq", "fsmt")},
    **{name: Family(name, LlamaConfig, llama, llama_tensors) for name in ("llama", "mistral", "qwen2")},
}

# What users will try, and why it is not there: the end of an error.
REFUSED = {
    "blenderbot": "it is mBART without a norm behind the embeddings",
    "gemma": "its norms multiply by 1 + gain, and its embeddings are scaled",
    "gpt_neox": "its attention and feed-forward layer run side by side, and a part of each head is turned",
    "m2m_100": "it is mBART without a norm behind the embeddings, and with positions of sines",
    "opt": "its positions and its norms lie elsewhere than GPT-2's",
    "pegasus": "it is mBART without a norm behind the embeddings, and with positions of sines",
    "phi": "its attention and feed-forward layer run side by side, and a part of each head is turned",
}
