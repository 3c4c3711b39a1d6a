"""How far rounding may carry logits and scores (runtime/rounding.py), by the sizes that a model's config says."""

from __future__ import annotations

import numpy as np

from minidecode.models.bart import BartConfig
from minidecode.models.bert import BertConfig
from minidecode.models.fairseq import FairseqConfig
from minidecode.models.llama import LlamaConfig
from minidecode.models.prophetnet import ProphetNetConfig
from minidecode.models.t5 import T5Config
from minidecode.runtime import rounding

FLOAT16, FLOAT32, FLOAT64, SAFETY = 2.0**-11, rounding.FLOAT32, rounding.FLOAT64, rounding.SAFETY


def logit_bound(config, largest_logit: float, unit: float, positions: int = 0) -> float:
    """`bound_of_sums` by a model's config: the widths are there, and the context; T5 has none, but `positions`."""
    return rounding.bound_of_sums(products(config), max(*widths(config), positions), largest_logit, unit)


def stored_bound(config, largest_logit: float, error: float, unit: float) -> float:
    """Bound on what is added to the error of a logit if both sides store keys and values with unit roundoff `unit`.

        SAFETY * sqrt(2 * unit * e * S) * largest |logit|, where e = error / largest |logit|

    Both round the same numbers, but for errors of about e. Such an error carries a number over the middle between two
    stored ones with probability e / (2 unit), and then changes it by 2 unit: on average, the square is 2 unit e. A
    number is stored once, so no sum of X terms adds to this. S and SAFETY are those of `logit_bound`.
    """
    return SAFETY * np.sqrt(2 * unit * error / largest_logit * products(config)) * largest_logit


def products(config) -> int:
    """Results that are added up between a token and a logit: 2 per layer, or 3 with cross attention, and the output.

    BART's encoder is on the way, because cross attention reads what it says.
    """
    if isinstance(config, BartConfig | FairseqConfig):
        return 2 * config.encoder_layers + 3 * config.decoder_layers + 1
    if isinstance(config, ProphetNetConfig):
        return 2 * config.num_encoder_layers + 3 * config.num_decoder_layers + 1
    if isinstance(config, T5Config):
        return 2 * config.num_layers + 3 * config.stacks["decoder"][0] + 1
    return 2 * getattr(config, "layers", getattr(config, "n_layer", 0)) + 1  # transformers' own has n_layer


def widths(config) -> list[int]:
    """How many terms the sums of a model have."""
    if isinstance(config, BartConfig):
        return [config.d_model, config.encoder_ffn_dim, config.decoder_ffn_dim, config.max_position_embeddings]
    if isinstance(config, ProphetNetConfig):
        return [config.hidden_size, config.encoder_ffn_dim, config.decoder_ffn_dim, config.max_position_embeddings]
    if isinstance(config, T5Config):
        return [config.d_model, config.d_ff, config.num_heads * config.d_kv]
    if isinstance(config, FairseqConfig):
        feeds = [config.encoder_ffn_embed_dim, config.decoder_ffn_embed_dim]
        return [config.width, *feeds, config.source_context, config.context]
    if isinstance(config, LlamaConfig | BertConfig):
        return [config.hidden_size, config.intermediate_size, config.max_position_embeddings]
    return [config.n_embd, config.n_inner, config.n_positions]


def score_bound(logit_error: float, tokens: int, length_penalty: float, score: float, unit: float) -> float:
    """Bound on the error of a hypothesis's score, if its logits are off by at most `logit_error`."""
    return rounding.score_bound(logit_error, tokens, score, tokens**length_penalty, unit)
