"""Shapes of published models, for timing with random weights and without a download."""

from __future__ import annotations

import numpy as np

GATED = {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}  # T5 from version 1.1 on
STARCODER_TOKENS = {"bos_token_id": 0, "eos_token_id": 0}
# The fields of the published config.json files that differ from their family's defaults.
PUBLISHED = {
    "gpt2": {"model_type": "gpt2"},
    "gpt2-medium": {"model_type": "gpt2", "n_embd": 1024, "n_layer": 24, "n_head": 16},
    "tiny_starcoder_py": {
        "model_type": "gpt_bigcode", "vocab_size": 49152, "n_positions": 8192, "n_layer": 20, **STARCODER_TOKENS,
    },
    "starcoder": {
        "model_type": "gpt_bigcode", "vocab_size": 49152, "n_positions": 8192, "n_embd": 6144, "n_layer": 40,
        "n_head": 48, **STARCODER_TOKENS,
    },
    "bert-base-uncased": {"model_type": "bert", "has_pooler": True},
    "all-MiniLM-L6-v2": {
        "model_type": "bert", "hidden_size": 384, "num_hidden_layers": 6, "intermediate_size": 1536, "has_pooler": True,
    },
    "unilm1.2-base-uncased": {"model_type": "unilm", "vocab_size": 30522},
    "unilm1-large-cased": {
        "model_type": "unilm", "hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16,
        "intermediate_size": 4096,
    },
    "bart-base": {
        "model_type": "bart", "d_model": 768, "encoder_layers": 6, "decoder_layers": 6, "encoder_ffn_dim": 3072,
        "decoder_ffn_dim": 3072, "encoder_attention_heads": 12, "decoder_attention_heads": 12,
    },
    "bart-large": {"model_type": "bart"},
    "opus-mt-en-de": {
        "model_type": "marian", "vocab_size": 58101, "max_position_embeddings": 512, "d_model": 512,
        "encoder_layers": 6, "decoder_layers": 6, "encoder_ffn_dim": 2048, "decoder_ffn_dim": 2048,
        "encoder_attention_heads": 8, "decoder_attention_heads": 8, "activation_function": "swish",
        "scale_embedding": True, "pad_token_id": 58100,
    },
    "mbart-large-50": {
        "model_type": "mbart", "vocab_size": 250054, "activation_function": "relu", "scale_embedding": True,
    },
    "distilbart-12-6": {"model_type": "bart", "decoder_layers": 6, "vocab_size": 50264},
    "prophetnet-large-uncased-cnndm": {"model_type": "prophetnet"},
    "t5-small": {"model_type": "t5"},
    "t5-base": {"model_type": "t5", "d_model": 768, "d_ff": 3072, "num_layers": 12, "num_heads": 12},
    "flan-t5-small": {"model_type": "t5", "d_ff": 1024, "num_layers": 8, "num_heads": 6, **GATED},
    "flan-t5-base": {"model_type": "t5", "d_model": 768, "num_layers": 12, "num_heads": 12, **GATED},
    "mt5-small": {"model_type": "mt5", **GATED},
    "transformer_iwslt_de_en": {
        "model_type": "fairseq", "arch": "transformer_iwslt_de_en", "src_vocab_size": 8848, "tgt_vocab_size": 6632,
        "share_decoder_input_output_embed": True,
    },
    "transformer_vaswani_wmt_en_de_big": {
        "model_type": "fairseq", "arch": "transformer_vaswani_wmt_en_de_big", "src_vocab_size": 32768,
        "tgt_vocab_size": 32768, "share_all_embeddings": True,
    },
    "SmolLM2-135M": {
        "model_type": "llama", "vocab_size": 49152, "hidden_size": 576, "intermediate_size": 1536,
        "num_hidden_layers": 30, "num_attention_heads": 9, "num_key_value_heads": 3, "max_position_embeddings": 8192,
        "rms_norm_eps": 1e-5, "rope_theta": 100000.0, "tie_word_embeddings": True, "bos_token_id": 0, "eos_token_id": 0,
    },
    "Llama-3.2-1B": {
        "model_type": "llama", "vocab_size": 128256, "hidden_size": 2048, "intermediate_size": 8192, "head_dim": 64,
        "num_hidden_layers": 16, "num_attention_heads": 32, "num_key_value_heads": 8,
        "max_position_embeddings": 131072, "rms_norm_eps": 1e-5, "tie_word_embeddings": True,
        "rope_theta": 500000.0, "bos_token_id": 128000, "eos_token_id": 128001,
        "rope_scaling": {"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                         "original_max_position_embeddings": 8192},
    },
}  # fmt: skip
# Special tokens as published, so that searches run as they would.
SPECIAL_TOKENS = {
    "gpt2": {"bos_token_id": 50256, "eos_token_id": 50256},
    **{name: {"pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0} for name in ("t5", "mt5")},
    **{
        name: {"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2}
        for name in ("bart", "mbart", "fairseq")
    },
    "prophetnet": {"bos_token_id": 102, "pad_token_id": 0, "eos_token_id": 102, "decoder_start_token_id": 102},
    "unilm": {"pad_token_id": 0, "eos_token_id": 102, "decoder_start_token_id": 102},
    "marian": {"pad_token_id": 58100, "eos_token_id": 0, "decoder_start_token_id": 58100},
}


def published_config(name: str) -> dict | None:
    """config.json of a published model, as far as it matters here; None for another name."""
    fields = PUBLISHED.get(name)
    return None if fields is None else fields | SPECIAL_TOKENS.get(fields["model_type"], {})


def random_tensors(shapes: dict[str, tuple[int, ...]], dtype: np.dtype, seed: int = 0) -> dict[str, np.ndarray]:
    """Matrices from a normal distribution of deviation 0.02, gains 1, biases 0: what training starts from."""
    rng = np.random.default_rng(seed)
    tensors = {}
    for name, shape in shapes.items():
        if len(shape) == 1 or name == "final_logits_bias":
            tensors[name] = np.full(shape, 1 if name.endswith(".weight") else 0, dtype)
        else:
            tensors[name] = (rng.standard_normal(shape, np.float32) * np.float32(0.02)).astype(dtype, copy=False)
    return tensors
