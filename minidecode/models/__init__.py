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
    # Its file: `forward`, with `encode` if there is an encoder, and `lm_head` or `label_logits`. PREFIX, LAYER,
    # OPTIONAL, `ignored_tensors`, `tied_tensors` and `tensor_shapes` say what a checkpoint holds; `bind` makes weights.
    network: Any
    tokenizer: str = "tokenizer.json"  # a key of files/tokenizer_kinds.py
    tokenizer_class: str = ""  # of transformers, where no file names one: it says how texts are split
    is_class_fixed: bool = False  # it is this one, whatever a file names
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
    "gpt2": Family("gpt2", gpt2.GPT2Config, gpt2, tokenizer_class="GPT2"),
    "gpt2_latent": Family(
        "gpt2_latent", gpt2_latent.GPT2LatentConfig, gpt2_latent, tokenizer_class="GPT2", has_latent=True
    ),
    "gpt_bigcode": Family("gpt_bigcode", gpt_bigcode.GPTBigCodeConfig, gpt_bigcode, is_class_fixed=True),
    "bart": Family("bart", bart.BartConfig, bart, tokenizer_class="Bart", has_encoder=True),
    "bert": Family("bert", bert.BertConfig, bert, "wordpiece", tokenizer_class="Bert", writes=False),
    "marian": Family("marian", marian.MarianConfig, marian, "marian", has_encoder=True),
    "mbart": Family("mbart", mbart.MBartConfig, mbart, "mbart", tokenizer_class="MBart", has_encoder=True),
    "prophetnet": Family(
        "prophetnet", prophetnet.ProphetNetConfig, prophetnet, "prophetnet", tokenizer_class="ProphetNet",
        has_encoder=True,
    ),
    "xlm-prophetnet": Family("xlm-prophetnet", prophetnet.ProphetNetConfig, prophetnet, has_encoder=True),
    "unilm": Family(
        "unilm", unilm.UnilmConfig, unilm, "wordpiece", tokenizer_class="Bert", reads_in_front=True,
        sep_ends_texts=True,
    ),
    **{name: Family(name, t5.T5Config, t5, tokenizer_class="T5", has_encoder=True) for name in ("t5", "mt5")},
    "umt5": Family("umt5", t5.T5Config, t5, is_class_fixed=True, has_encoder=True),
    "fairseq": Family("fairseq", fairseq.FairseqConfig, fairseq, "fairseq", has_encoder=True, is_whole=True),
    "fsmt": Family(
        "fsmt", fairseq.FairseqConfig, fairseq, "fsmt", has_encoder=True, is_whole=True, defaults=fairseq.FSMT_DEFAULTS
    ),
    "llama": Family("llama", llama.LlamaConfig, llama, is_rotary=True),
    "mistral": Family("mistral", llama.LlamaConfig, llama, is_class_fixed=True, is_rotary=True),
    "qwen2": Family("qwen2", llama.LlamaConfig, llama, tokenizer_class="Qwen2", is_class_fixed=True, is_rotary=True),
}  # fmt: skip

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
