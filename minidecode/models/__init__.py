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
    """A kind of model: its file in this folder, and what it can do. Nothing else asks which family a model is of."""

    name: str  # model_type in config.json
    config: type
    # Its file: `forward`, with `encode` if there is an encoder, and `lm_head` or `classify`. Of a checkpoint PREFIX,
    # LAYER, OPTIONAL, `ignored`, `tied` and `tensor_shapes` say what it holds, and `bind` makes the weights of it.
    network: Any
    tokenizer: str = "tokenizer.json"  # a key of files/tokenizer_kinds.py
    writes: bool = True  # texts; otherwise its rows are the result
    has_encoder: bool = False  # a decoder looks at what an encoder makes of sources
    reads_in_front: bool = False  # the layers of a target read its source in front of it: both share one context
    has_latent: bool = False  # a latent stands in front of each text
    is_rotary: bool = False  # queries and keys are turned by their positions
    sep_ends_texts: bool = False  # the tokenizer's [SEP], which its files do not say
    is_whole: bool = False  # a tensor that is unknown is of another model: each takes part in the answers
    # Of generation, where neither generation_config.json nor config.json says: as transformers' class of config has it.
    defaults: Mapping[str, Any] = field(default_factory=dict)


FAMILIES = {
    "gpt2": Family("gpt2", gpt2.GPT2Config, gpt2),
    "gpt2_latent": Family("gpt2_latent", gpt2_latent.GPT2LatentConfig, gpt2_latent, has_latent=True),
    "gpt_bigcode": Family("gpt_bigcode", gpt_bigcode.GPTBigCodeConfig, gpt_bigcode),
    "bart": Family("bart", bart.BartConfig, bart, has_encoder=True),
    "bert": Family("bert", bert.BertConfig, bert, "wordpiece", writes=False),
    "marian": Family("marian", marian.MarianConfig, marian, "marian", has_encoder=True),
    "mbart": Family("mbart", mbart.MBartConfig, mbart, "mbart", has_encoder=True),
    "prophetnet": Family("prophetnet", prophetnet.ProphetNetConfig, prophetnet, "prophetnet", has_encoder=True),
    "xlm-prophetnet": Family("xlm-prophetnet", prophetnet.ProphetNetConfig, prophetnet, has_encoder=True),
    "unilm": Family("unilm", unilm.UnilmConfig, unilm, "wordpiece", reads_in_front=True, sep_ends_texts=True),
    **{name: Family(name, t5.T5Config, t5, has_encoder=True) for name in ("t5", "mt5", "umt5")},
    "fairseq": Family("fairseq", fairseq.FairseqConfig, fairseq, "fairseq", has_encoder=True, is_whole=True),
    "fsmt": Family(
        "fsmt", fairseq.FairseqConfig, fairseq, "fsmt", has_encoder=True, is_whole=True, defaults=fairseq.FSMT_DEFAULTS
    ),
    **{name: Family(name, llama.LlamaConfig, llama, is_rotary=True) for name in ("llama", "mistral", "qwen2")},
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
