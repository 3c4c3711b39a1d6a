"""A family is one file: its forward pass, its config and its tensors. No plan, no cache is named here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from . import (
    bart,
    bert,
    fairseq,
    gpt2,
    gpt2_latent,
    gpt_bigcode,
    llama,
    marian,
    mbart,
    prophetnet,
    t5,
    unilm,
)


@dataclass(frozen=True)
class Family:
    """A kind of model: its config, its forward passes, and what its files hold."""

    name: str  # model_type in config.json
    config: type
    network: Any  # its file: the forward passes, and which tensors a file of it holds
    tokenizer: str = "tokenizer.json"  # a key of files/tokenizer_kinds.py
    # Of generation, where neither generation_config.json nor config.json says: as transformers' class of config has it.
    defaults: Mapping[str, Any] = field(default_factory=dict)


FSMT_DEFAULTS = {
    "bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2, "forced_eos_token_id": 2,
    "num_beams": 5, "max_length": 200,
}  # fmt: skip


FAMILIES = {
    "gpt2": Family("gpt2", gpt2.GPT2Config, gpt2),
    "gpt2_latent": Family("gpt2_latent", gpt2_latent.GPT2LatentConfig, gpt2_latent),
    "gpt_bigcode": Family("gpt_bigcode", gpt_bigcode.GPTBigCodeConfig, gpt_bigcode),
    "bart": Family("bart", bart.BartConfig, bart),
    "bert": Family("bert", bert.BertConfig, bert, "wordpiece"),
    "marian": Family("marian", marian.MarianConfig, marian, "marian"),
    "mbart": Family("mbart", mbart.MBartConfig, mbart, "mbart"),
    "prophetnet": Family("prophetnet", prophetnet.ProphetNetConfig, prophetnet, "prophetnet"),
    "xlm-prophetnet": Family("xlm-prophetnet", prophetnet.ProphetNetConfig, prophetnet),
    "unilm": Family("unilm", unilm.UnilmConfig, unilm, "wordpiece"),
    **{name: Family(name, t5.T5Config, t5) for name in ("t5", "mt5", "umt5")},
    "fairseq": Family("fairseq", fairseq.FairseqConfig, fairseq, "fairseq"),
    "fsmt": Family("fsmt", fairseq.FairseqConfig, fairseq, "fsmt", FSMT_DEFAULTS),
    **{name: Family(name, llama.LlamaConfig, llama) for name in ("llama", "mistral", "qwen2")},
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
