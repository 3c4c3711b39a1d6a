"""How far rounding may carry logits and scores: bounds computed from the model's sizes, not fitted to a result."""

from __future__ import annotations

import numpy as np

from minidecode.models.bart import BartConfig
from minidecode.models.bert import BertConfig
from minidecode.models.fairseq import FairseqConfig
from minidecode.models.llama import LlamaConfig
from minidecode.models.prophetnet import ProphetNetConfig
from minidecode.models.t5 import T5Config

FLOAT16, FLOAT32, FLOAT64 = 2.0**-11, 2.0**-24, 2.0**-53  # unit roundoff: an operation's largest relative error
SAFETY = 6.0


def logit_bound(config, largest_logit: float, unit: float, positions: int = 0) -> float:
    """Bound on the error of a logit computed in a format of unit roundoff `unit`.

        SAFETY * unit * sqrt(S * X) * largest |logit|

    A sum of X terms carries an error of about sqrt(X) * unit times its size, because rounding errors have random
    signs (the worst case, X * unit, needs all signs alike). X is the longest sum in the model: over the width D, over
    the feed-forward width F, or over the N positions that a softmax adds up: the context, or for T5, which has none,
    `positions`. The residual stream takes in S - 1 such results on the way, and the output product is one more; their
    errors too are independent, so they add up as sqrt(S). The norms keep h at the scale of their gains, so an error in
    h reaches a logit in proportion to the logit's scale, for which the largest one stands. SAFETY covers what this
    leaves out: that one layer can amplify the error of the one before it, and that of thousands of random errors we ask
    for the largest.

    golden_suite.py holds it to be of use: it is at most 32 times the error seen, and mistakes break it.
    """
    return SAFETY * unit * np.sqrt(products(config) * max(*widths(config), positions)) * largest_logit


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
    """Bound on the error of a hypothesis's score, if its logits are off by at most `logit_error`.

    log softmax moves by at most twice what the logits move (once for the token, once for the normaliser). A score
    sums `tokens` of them and divides by tokens ** length_penalty; adding up rounds once per token.
    """
    return 2 * tokens * logit_error / tokens**length_penalty + 2 * tokens * unit * abs(score)
