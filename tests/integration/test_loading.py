"""Files on disk -> right numbers, without reading or copying more than is needed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tolerance import FLOAT32, logit_bound
from toy_folder import CONFIG, bfloat16, toy_tensors, write_bpe, write_json, write_safetensors, write_shards

import minidecode as md
from minidecode.cpu.common.tile import DOT

ROOT = Path(__file__).resolve().parents[2]

# dtype on disk -> the float32 numbers that it keeps of a float32 array
KEPT = {
    "F64": lambda a: a,
    "F32": lambda a: a,
    "F16": lambda a: a.astype(np.float16).astype(np.float32),
    "BF16": lambda a: (bfloat16(a).astype(np.uint32) << 16).view(np.float32),
}


@pytest.mark.parametrize("compute", ["float32", "float64"])
@pytest.mark.parametrize("stored", KEPT)
def test_every_stored_dtype_gives_its_numbers(tiny_folder, stored, compute):
    model = md.load(tiny_folder(dtype=stored), dtype=compute)
    for name, array in toy_tensors(CONFIG).items():
        loaded = model.tensors[name]
        assert loaded.dtype == compute
        assert np.array_equal(loaded, KEPT[stored](array)), name


def test_bfloat16_of_known_numbers(tiny_folder):
    """Bits from the definition: sign, 8 bits of exponent, 7 of mantissa."""
    known = {0x3F80: 1.0, 0xBF80: -1.0, 0x4049: 3.140625, 0x0000: 0.0, 0x7F7F: 3.3895313892515355e38, 0x0080: 2.0**-126}
    tensors = toy_tensors(CONFIG)
    tensors["ln_f.bias"][: len(known)] = (np.array(list(known), np.uint32) << 16).view(np.float32)
    model = md.load(tiny_folder(tensors=tensors, dtype="BF16"))
    assert model.tensors["ln_f.bias"][: len(known)].tolist() == list(known.values())


def memory_under(array: np.ndarray):
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array.base


def test_float32_weights_are_views_of_the_mapped_file(tiny_folder):
    import mmap

    model = md.load(tiny_folder())
    assert all(isinstance(memory_under(tensor), mmap.mmap) for tensor in model.tensors.values())
    assert not any(tensor.flags.writeable for tensor in model.tensors.values())


def test_a_file_whose_numbers_lie_unaligned_is_read_all_the_same(tiny_folder):
    """Nothing in the format pads the header; NumPy wants floats at multiples of 4."""
    folder = tiny_folder()
    path = folder / "model.safetensors"
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    for blanks in range(4):
        path.unlink()  # the arrays of the last round are still mapped from the old file
        path.write_bytes(
            (length + blanks).to_bytes(8, "little") + data[8 : 8 + length] + b" " * blanks + data[8 + length :]
        )
        assert np.array_equal(md.load(folder).tensors["ln_f.bias"], toy_tensors(CONFIG)["ln_f.bias"])


def generated(folder) -> list[int]:
    return md.load(folder).generate("the sea", num_beams=3, max_new_tokens=6).token_ids[0].tolist()


def test_prefixed_names_are_the_same_model(tiny_folder):
    folder = tiny_folder()
    expected = generated(folder)
    (folder / "model.safetensors").unlink()
    prefixed = {f"transformer.{name}": array for name, array in toy_tensors(CONFIG).items()}
    write_safetensors(folder / "model.safetensors", prefixed)
    assert generated(folder) == expected


@pytest.mark.parametrize("shards", [1, 2, 5])
def test_shards_are_the_same_model(tiny_folder, shards):
    folder = tiny_folder()
    expected = generated(folder)
    (folder / "model.safetensors").unlink()
    write_shards(folder, toy_tensors(CONFIG), shards)
    assert generated(folder) == expected


def test_both_layouts_of_the_tokenizer_are_the_same(tiny_folder):
    folder = tiny_folder()
    texts = ["the other", " then\nthe  ", "日本 🙂 é\u0301", "a<|endoftext|>the", "\x00\x7f"]
    whole = md.load(folder).tokenizer
    (folder / "tokenizer.json").unlink()
    write_bpe(folder)
    halves = md.load(folder).tokenizer
    for text in texts:
        ids = whole.encode(text)
        assert ids.tolist() == halves.encode(text).tolist()
        assert whole.decode(ids) == halves.decode(ids) == text.replace("<|endoftext|>", "")


FLAGS = [
    {"scale_attn_weights": False}, {"scale_attn_by_inverse_layer_idx": True}, {"activation_function": "relu"},
    {"layer_norm_epsilon": 0.1}, {"n_head": 4},
]  # fmt: skip


@pytest.mark.parametrize("flag", FLAGS)
def test_every_flag_of_the_config_changes_what_is_computed(tiny_folder, flag):
    """That it changes it rightly is for the comparison with transformers to say."""
    ids = [[1, 2, 3, 4]]
    model = md.load(tiny_folder(tensors=toy_tensors(CONFIG)))
    plain = model.logits(ids)[0]
    flagged = md.load(tiny_folder(tensors=toy_tensors(CONFIG), **flag)).logits(ids)[0]
    assert np.abs(plain - flagged).max() > 10 * logit_bound(model.config, np.abs(plain).max(), 2 * FLOAT32)


def test_untied_embeddings_and_an_inner_width(tiny_folder):
    model = md.load(tiny_folder(tie_word_embeddings=False, n_inner=20))
    assert model.tensors["lm_head.weight"].shape == model.tensors["wte.weight"].shape
    assert model.tensors["h.0.mlp.c_fc.weight"].shape == (8, 20)
    assert np.shares_memory(model.weights.lm_head.data, model.tensors["lm_head.weight"])


def test_generation_config_fills_in_what_a_call_leaves_open(tiny_folder):
    folder = tiny_folder()
    write_json(folder / "generation_config.json", {"num_beams": 3, "max_new_tokens": 2, "transformers_version": "5"})
    model = md.load(folder)
    assert len(model.generate("the", eos_token_id=[]).token_ids[0]) == 2
    assert model.options().num_beams == 3
    assert model.options(num_beams=1).num_beams == 1
    assert model.options(max_length=9).max_new_tokens is None


def test_the_config_gives_the_end_of_text_where_generation_config_is_silent(tiny_folder):
    folder = tiny_folder(eos_token_id=7)
    assert md.load(folder).options().eos_token_id == (7,)
    write_json(folder / "generation_config.json", {"eos_token_id": [5, 6]})
    assert md.load(folder).options().eos_token_id == (5, 6)


def test_loading_and_one_token_peak_below_the_file_and_a_third():
    """The script of the full-size measurement, on 120 MB."""
    command = [sys.executable, ROOT / "benchmarks" / "loading_memory.py", "--layers", "2", "--vocabulary", "20000"]
    measured = json.loads(subprocess.run([*command, "--json"], check=True, capture_output=True, text=True).stdout)
    assert measured["file_MB"] > 120
    assert 0.5 < measured["ratio"] < 1.3  # below a half, the weights were not touched and nothing was measured


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="Linux reports it")
@pytest.mark.parametrize("model", ["gpt2", "bart-base"])
@pytest.mark.parametrize("dtype", ["int8_dynamic", "int8", "float16", "float32"])
def test_weights_are_copied_a_matrix_at_a_time(model, dtype):
    """After loading, at most 1.1 times the stored matrices; two layers of float32 more meanwhile. At true widths."""
    if dtype == "int8_dynamic" and (DOT is None or DOT.x_bits < 8):
        pytest.skip("this processor has no dot product for int8_dynamic")
    command = [sys.executable, ROOT / "benchmarks" / "loading_memory.py", "--model", model, "--layers", "3", "--json"]
    command += ["--dtype", dtype, "--plan", "fast"]
    measured = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    most = 1.1 * measured["matrices_MB"]
    assert 0.7 * measured["matrices_MB"] < measured["anonymous_MB"] < most  # less, and nothing was measured
    assert 0.9 * measured["matrices_MB"] < measured["peak_MB"] < most + 2 * measured["layer_MB"]


HEAVY = ["numba", "scipy", "tokenizers", "typer", "rich", "safetensors", "huggingface_hub", "torch", "threadpoolctl"]


def python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.strip()


def test_importing_loads_nothing_heavier_than_numpy():
    code = f"import sys, minidecode; print([name for name in {HEAVY} if name in sys.modules])"
    assert python(code) == "[]"


def test_importing_works_with_numpy_alone():
    code = f"""
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {HEAVY}:
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Absent())
import minidecode
print(minidecode.Plan.parse("auto"))
"""
    assert python(code) == "auto"
