"""A family is a forward pass (NAME.py) and a table of tensors (NAME_tensors.py). No plan, no cache is named here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from . import (
    bart,
    bart_tensors,
    bert,
    bert_tensors,
    fairseq,
    fairseq_tensors,
    gpt2,
    gpt2_latent,
    gpt2_latent_tensors,
    gpt2_tensors,
    gpt_bigcode_tensors,
    llama,
    llama_tensors,
    mbart,
    mbart_tensors,
    prophetnet,
    prophetnet_tensors,
    t5,
    t5_tensors,
    unilm,
    unilm_tensors,
)
from .config import (
    BartConfig,
    BertConfig,
    FairseqConfig,
    GPT2Config,
    GPT2LatentConfig,
    GPTBigCodeConfig,
    LlamaConfig,
    MarianConfig,
    MBartConfig,
    ProphetNetConfig,
    T5Config,
    UnilmConfig,
)


@dataclass(frozen=True)
class Family:
    """A kind of model: its config, its forward passes, and what its files hold."""

    name: str  # model_type in config.json
    config: type
    network: Any
    tensors: Any
    tokenizer: str = "tokenizer.json"  # a key of files/tokenizer_kinds.py
    # Of generation, where neither generation_config.json nor config.json says: as transformers' class of config has it.
    defaults: Mapping[str, Any] = field(default_factory=dict)


FSMT_DEFAULTS = {
    "bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2, "forced_eos_token_id": 2,
    "num_beams": 5, "max_length": 200,
}  # fmt: skip


FAMILIES = {
    "gpt2": Family("gpt2", GPT2Config, gpt2, gpt2_tensors),
    "gpt2_latent": Family("gpt2_latent", GPT2LatentConfig, gpt2_latent, gpt2_latent_tensors),
    "gpt_bigcode": Family("gpt_bigcode", GPTBigCodeConfig, gpt2, gpt_bigcode_tensors),
    "bart": Family("bart", BartConfig, bart, bart_tensors),
    "bert": Family("bert", BertConfig, bert, bert_tensors, "wordpiece"),
    "marian": Family("marian", MarianConfig, bart, bart_tensors, "marian"),
    "mbart": Family("mbart", MBartConfig, mbart, mbart_tensors, "mbart"),
    "prophetnet": Family("prophetnet", ProphetNetConfig, prophetnet, prophetnet_tensors, "prophetnet"),
    "xlm-prophetnet": Family("xlm-prophetnet", ProphetNetConfig, prophetnet, prophetnet_tensors),
    "unilm": Family("unilm", UnilmConfig, unilm, unilm_tensors, "wordpiece"),
    **{name: Family(name, T5Config, t5, t5_tensors) for name in ("t5", "mt5", "umt5")},
    "fairseq": Family("fairseq", FairseqConfig, fairseq, fairseq_tensors, "fairseq"),
    "fsmt": Family("fsmt", FairseqConfig, fairseq, fairseq_tensors, "fsmt", FSMT_DEFAULTS),
    **{name: Family(name, LlamaConfig, llama, llama_tensors) for name in ("llama", "mistral", "qwen2")},
}

# What users will try, and why it is not there: a part of an error.
REFUSED_ENCODERS = {
    "albert": "its layers share their weights, and its embeddings are narrower than its layers",
    "deberta-v2": "its attention adds terms of the distance between tokens, which depend on their content",
    "distilbert": "it is BERT without token types and pooler, and its tensors have other names",
    "mpnet": "it is BERT with a bias of scores by distance, and with positions from 2",
    "roberta": "it is BERT with positions from 2, another classifier and a byte-level tokenizer",
    "xlm-roberta": "it is BERT with positions from 2, another classifier and a SentencePiece tokenizer",
}
REFUSED = {
    "blenderbot": "it is mBART without a norm after the embeddings",
    "gemma": "its norms multiply by 1 + gain, and its embeddings are scaled",
    "gpt_neox": "attention and feed-forward layer run in parallel, and RoPE rotates a part of each head",
    "m2m_100": "it is mBART without a norm after the embeddings, and with sinusoidal positions",
    "opt": "its table of positions has an offset of 2, and some sizes are post-norm",
    "pegasus": "it is mBART without a norm after the embeddings, and with sinusoidal positions",
    "phi": "attention and feed-forward layer run in parallel, and RoPE rotates a part of each head",
    **REFUSED_ENCODERS,
}
