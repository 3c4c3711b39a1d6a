"""A Qwen2 out of a GGUF file beside transformers' own, on the same dequantised numbers; and its tokenizer."""

import random

import numpy as np
import pytest
from gguf_writer import QWEN2, qwen2_settings, qwen2_tensors, tokenizer_settings, write_qwen2
from tolerance import FLOAT32, logit_bound

import minidecode as md

NEEDED = "needs transformers itself: pip install '.[oracle]'"
torch = pytest.importorskip("torch", reason=NEEDED)
transformers = pytest.importorskip("transformers", minversion="5.0", reason=NEEDED)
pytest.importorskip("gguf", reason="needs the extra gguf")

pytestmark = pytest.mark.oracle


@torch.no_grad()
@pytest.mark.parametrize("kind", ["F32", "F16", "BF16", "Q8_0", "Q5_0", "Q4_0", "Q4_1"])
@pytest.mark.parametrize("tied", [False, True])
def test_logits(tmp_path, monkeypatch, kind, tied):
    monkeypatch.setenv("MINIDECODE_CACHE", str(tmp_path / "cache"))
    tokenizer = tokenizer_settings()
    fields = QWEN2 | {"vocab_size": len(tokenizer["tokenizer.ggml.tokens"]), "tie_word_embeddings": tied}
    tensors = qwen2_tensors(fields, seed=len(kind))
    held = write_qwen2(tmp_path / "toy.gguf", fields, tensors, tokenizer, kind)
    theirs = transformers.Qwen2ForCausalLM(transformers.Qwen2Config(**fields)).double().eval()
    names = {name: name if name == "lm_head.weight" else f"model.{name}" for name in held}
    state = {names[name]: torch.from_numpy(tensor).double() for name, tensor in held.items()}
    missing, unknown = theirs.load_state_dict(state, strict=False)
    assert not unknown and missing == (["lm_head.weight"] if tied else [])
    theirs.tie_weights()
    prompt = np.random.default_rng(0).integers(0, fields["vocab_size"], 40)
    wanted_NV = theirs(torch.from_numpy(prompt)[None]).logits[0].numpy()
    model = md.load(tmp_path / "toy.gguf")
    (found_NV,) = model.logits([prompt.tolist()])
    assert np.abs(found_NV - wanted_NV).max() <= logit_bound(model.config, np.abs(wanted_NV).max(), FLOAT32)


PARTS = ["the", " ", "  ", "\n", "\r\n", "\t", "I'LL", "don't", "'S", "12", "3.5", "...", "(", ")", "!?", "_", "x",
         "\u00e9", "e\u0301", "\u4e2d\u6587", "\N{GRINNING FACE}", "\u00bd", "\u0663", "\u00a0", "\u3000",
         "<|im_end|>"]  # fmt: skip


def test_texts_have_their_tokens():
    """On 2,000 texts of words, spaces, digits, accents and marks in any order."""
    from transformers import Qwen2Tokenizer

    from minidecode.files.gguf_tokenizer import make_tokenizer

    settings = qwen2_settings()
    tokens, merges = settings["tokenizer.ggml.tokens"], settings["tokenizer.ggml.merges"]
    theirs = Qwen2Tokenizer(vocab={t: i for i, t in enumerate(tokens)}, merges=[tuple(m.split(" ")) for m in merges])
    theirs.add_tokens([t for t in tokens if t.startswith("<|")], special_tokens=True)
    (ours, _), rng = make_tokenizer(settings, "qwen2"), random.Random(0)
    for _ in range(2000):
        text = "".join(rng.choice(PARTS) for _ in range(rng.randint(1, 12)))
        assert ours.encode(text).ids == theirs(text, add_special_tokens=False)["input_ids"], text
