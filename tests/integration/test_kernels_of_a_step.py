"""How many kernels a decode step launches, family by family: what a graph of a step holds, without the array code of
CuPy around it. On the emulated device, greedily, in toy sizes: sizes change which kernels run, seldom how many.
"""

import json

import pytest
from test_gpu_families import FORWARD_PASSES, IDS, TOYS

import minidecode as md

ONE_LAYER = {"llama": 15, "fairseq": 19, "t5": 19, "unilm": 24, "prophetnet": 28, "mbart": 21, "bart": 20, "gpt2": 14,
             "gpt2_latent": 16}  # fmt: skip
ANOTHER_LAYER = {"gpt2": 9, "llama": 10}  # 12 layers of GPT-2 make 113, as many as an H100's graph had

LAYERS = ("n_layer", "num_hidden_layers", "num_layers", "decoder_layers", "num_decoder_layers", "encoder_layers",
          "num_encoder_layers")  # fmt: skip


def kernels_of_a_step(kind, folder, **fields):
    (folder / "config.json").write_text(json.dumps(TOYS.toy_fields(kind) | fields), encoding="utf-8")
    model = md.load(folder, random_weights=True, device="emulator")
    model.generate(input_ids=IDS, max_new_tokens=3, eos_token_id=None)
    (bucket,) = model.buckets.idle
    (step,) = bucket.parts.values()  # the whole step, and nothing beside it
    return sum(step._kernels.values())


@pytest.mark.parametrize("kind", FORWARD_PASSES)
def test_a_step_of_one_layer(kind, tmp_path):
    layers = {name: 1 for name in TOYS.toy_fields(kind) if name in LAYERS}
    assert kernels_of_a_step(kind, tmp_path, **layers) == ONE_LAYER[kind]


@pytest.mark.parametrize("kind", ANOTHER_LAYER)
def test_each_further_layer_adds_as_many(kind, tmp_path):
    layers = {name: 2 for name in TOYS.toy_fields(kind) if name in LAYERS}
    assert kernels_of_a_step(kind, tmp_path, **layers) == ONE_LAYER[kind] + ANOTHER_LAYER[kind]
