"""How many kernels a decode step launches, family by family: what a graph of a step holds, without the array code of
CuPy around it. On the emulated device, in toy sizes: sizes change which kernels run, seldom how many.
"""

import json
from pathlib import Path

import pytest
from test_gpu_families import FORWARD_PASSES, IDS, TOYS

import minidecode as md
from minidecode.cuda import linear
from minidecode.cuda.common.rows import LEAST

GREEDILY = {"llama": 15, "fairseq": 19, "t5": 19, "unilm": 24, "prophetnet": 28, "mbart": 21, "bart": 20, "gpt2": 14,
            "gpt2_latent": 16}  # fmt: skip
BY_BEAMS = {"llama": 22, "fairseq": 26, "t5": 26, "unilm": 31, "prophetnet": 35, "mbart": 28, "bart": 27, "gpt2": 21,
            "gpt2_latent": 23}  # fmt: skip
ANOTHER_LAYER = {"gpt2": 9, "llama": 10}  # 12 layers of GPT-2 make 113, as many as an H100's graph had

LAYERS = ("n_layer", "num_hidden_layers", "num_layers", "decoder_layers", "num_decoder_layers", "encoder_layers",
          "num_encoder_layers")  # fmt: skip


def kernels_of_a_step(kind, folder, beams=1, dtype="float32", **fields):
    (folder / "config.json").write_text(json.dumps(TOYS.toy_fields(kind) | fields), encoding="utf-8")
    model = md.load(folder, random_weights=True, device="emulator", dtype=dtype)
    model.generate(input_ids=IDS, max_new_tokens=3, eos_token_id=None, num_beams=beams)
    (bucket,) = model.buckets.idle
    (step,) = bucket.parts.values()  # the whole step, and nothing beside it
    return sum(step._kernels.values())


def layers_of(kind, number):
    return {name: number for name in TOYS.toy_fields(kind) if name in LAYERS}


@pytest.mark.parametrize("kind", FORWARD_PASSES)
def test_a_step_of_one_layer(kind, tmp_path):
    assert kernels_of_a_step(kind, tmp_path, **layers_of(kind, 1)) == GREEDILY[kind]


@pytest.mark.parametrize("kind", FORWARD_PASSES)
def test_a_step_of_one_layer_with_beams(kind, tmp_path):
    assert kernels_of_a_step(kind, tmp_path, beams=2, **layers_of(kind, 1)) == BY_BEAMS[kind]


@pytest.mark.parametrize("kind", ANOTHER_LAYER)
def test_each_further_layer_adds_as_many(kind, tmp_path):
    assert kernels_of_a_step(kind, tmp_path, **layers_of(kind, 2)) == GREEDILY[kind] + ANOTHER_LAYER[kind]


def test_bart_large_with_beams_has_as_many_as_the_guide_says(tmp_path, monkeypatch):
    """Of 32 rows each product is the library's, with a kernel that rounds and one that scales; 12 layers are alike."""
    monkeypatch.setattr(linear, "LIBRARY_FROM", dict.fromkeys(linear.LIBRARY_FROM, 1))
    wide = {"vocab_size": 2 * LEAST}  # several blocks share a row of scores
    one, two = (
        kernels_of_a_step("bart", tmp_path, beams=2, dtype="float16", decoder_layers=n, encoder_layers=1, **wide)
        for n in (1, 2)
    )
    assert one + 11 * (two - one) == 350
    guide = (Path(__file__).parents[2] / "docs" / "guide" / "gpu.md").read_text(encoding="utf-8")
    assert "with 32 rows, has 350 kernels" in guide
