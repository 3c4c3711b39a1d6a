"""`md.convert`: a model with fewer key/value heads says what the means of the old model's keys and values say."""

from __future__ import annotations

import json
from fractions import Fraction

import numpy as np
import pytest
from safetensors import safe_open
from test_attention_settings import as_multi_head, make, random_tensors
from tolerance import FLOAT64, logit_bound
from torch_writer import written
from toy_folder import STORE, write_bpe, write_json, write_safetensors, write_shards, write_tokenizer

import minidecode as md
from minidecode.files import head_pooling
from minidecode.files.checkpoint import read_header
from minidecode.files.checkpoint import write_safetensors as write_tensors
from minidecode.models import FAMILIES
from minidecode.reference import cross_kv as cross_file
from minidecode.reference import heads as heads_file

BASE = {
    "gpt2": {"model_type": "gpt2", "vocab_size": 40, "n_positions": 24, "n_embd": 16, "n_layer": 2, "n_head": 8},
    "bart": {
        "model_type": "bart", "vocab_size": 40, "max_position_embeddings": 24, "d_model": 16, "encoder_layers": 2,
        "decoder_layers": 3, "encoder_attention_heads": 8, "decoder_attention_heads": 4, "encoder_ffn_dim": 9,
        "decoder_ffn_dim": 17, "decoder_start_token_id": 2, "eos_token_id": 1,
    },
}  # fmt: skip
IDS = [[3, 9, 27, 11, 30, 7], [5, 6]]
TARGETS = [[2, 8, 14], [2, 33, 9, 4]]


@pytest.fixture
def folder(tmp_path):
    """Writes a folder without a tokenizer: `folder(kind, tensors, dtype, config changes)`."""

    def write(kind, tensors=None, dtype="F64", **changes):
        fields, path = BASE[kind] | changes, tmp_path / f"toy-{kind}"
        path.mkdir()
        write_json(path / "config.json", fields)
        if tensors is None:
            tensors = random_tensors(FAMILIES[kind], FAMILIES[kind].config.from_json(fields))
        write_safetensors(path / "model.safetensors", tensors, dtype)
        return path

    return write


@pytest.fixture
def out(tmp_path):
    return tmp_path / "converted"


def logits(model):
    return model.logits(IDS, None, TARGETS) if model.is_encoder_decoder else model.logits(IDS)


def stored(path):
    """name -> (dtype, shape) as the library reads them."""
    with safe_open(path / "model.safetensors", framework="np") as f:
        return {name: (f.get_slice(name).get_dtype(), tuple(f.get_slice(name).get_shape())) for name in f.keys()}  # noqa: SIM118


# ---- what it says ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "heads"), [("gpt2", 1), ("gpt2", 2), ("gpt2", 4), ("bart", 1), ("bart", 2)])
@pytest.mark.parametrize("widths", [{}, {"key_width": 3, "value_width": 5}], ids=str)
def test_it_says_what_the_means_of_keys_and_values_say(kind, heads, widths, folder, out, monkeypatch):
    """The old model, in whose every attention each key and value is the mean of its group's: no weight is touched."""
    path = folder(kind, **widths)
    md.convert(path, out, num_key_value_heads=heads)
    old, found = md.load(path, dtype="float64"), logits(md.load(out, dtype="float64"))
    bound = logit_bound(old.config, max(np.abs(a).max() for a in found), 2 * FLOAT64)  # both sides round
    assert all(np.abs(a - b).max() > 10 * bound for a, b in zip(logits(old), found, strict=True))
    split_heads, project_cross_kv = heads_file.split_heads, cross_file.project_cross_kv

    def averaged(rows_RGX):
        G = rows_RGX.shape[1]
        means = [rows_RGX[:, g : g + G // heads].sum(axis=1) / (G // heads) for g in range(0, G, G // heads)]
        return np.stack([means[g * heads // G] for g in range(G)], axis=1)

    def with_means(qkv_RX, bias_X, cut, out=None):
        q_RHK, k_RGK, v_RGU = split_heads(qkv_RX, bias_X, cut)
        return (q_RHK, averaged(k_RGK), averaged(v_RGU)) if cut.G else (q_RHK, k_RGK, v_RGU)

    def source_with_means(*given, **how):
        return tuple(np.stack([averaged(x_RGX) for x_RGX in x_SRGX]) for x_SRGX in project_cross_kv(*given, **how))

    monkeypatch.setattr(heads_file, "split_heads", with_means)
    monkeypatch.setattr(cross_file, "project_cross_kv", source_with_means)
    for a, b in zip(logits(old), found, strict=True):
        assert np.abs(a - b).max() <= bound


@pytest.mark.parametrize("kind", ["gpt2", "bart"])
@pytest.mark.parametrize("dtype", ["F32", "F16", "BF16"])
@pytest.mark.parametrize("heads", [1, 2])
def test_means_of_equal_heads_change_nothing(kind, dtype, heads, folder, out):
    """The multi-head model whose heads are copies of a grouped one's comes back as that one, bit for bit."""
    grouped = make(kind, **{k: v for k, v in BASE[kind].items() if k != "model_type"}, num_key_value_heads=heads)
    copied = folder(kind, as_multi_head(kind, grouped), dtype)
    md.convert(copied, out, num_key_value_heads=heads)
    converted = md.load(out)
    for name, array in grouped.tensors.items():
        assert np.array_equal(STORE[dtype](converted.tensors[name]), STORE[dtype](array)), name
    texts = [m.generate(input_ids=IDS, max_new_tokens=9).token_ids for m in (md.load(copied), converted)]
    assert [t.tolist() for t in texts[0]] == [t.tolist() for t in texts[1]]


@pytest.mark.parametrize("kind", ["gpt2", "bart"])
def test_halved_twice_is_quartered(kind, folder, out, tmp_path):
    """Bit for bit: the weights are small multiples of 2^-10, so that no sum and no halving of them rounds."""
    family = FAMILIES[kind]
    tensors = random_tensors(family, family.config.from_json(BASE[kind]))
    path = folder(kind, {name: np.round(1024 * a) / 1024 for name, a in tensors.items()})
    md.convert(path, tmp_path / "half", num_key_value_heads=4 if kind == "gpt2" else 2)
    md.convert(tmp_path / "half", tmp_path / "twice", num_key_value_heads=1)
    md.convert(path, out, num_key_value_heads=1)
    twice, once = (md.load(folder, dtype="float64").tensors for folder in (tmp_path / "twice", out))
    assert all(np.array_equal(twice[name], once[name]) for name in once)


def test_the_encoder_is_converted_alone_where_the_decoder_has_so_many_already(folder, out):
    path = folder("bart")
    result = md.convert(path, out, num_key_value_heads=4)
    assert result.key_value_heads == {"encoder": [8, 4], "decoder": [4, 4]}
    before, after = md.load(path).tensors, md.load(out).tensors
    changed = {name for name in before if not np.array_equal(before[name], after[name])}
    assert changed == {f"encoder.layers.{i}.self_attn.{p}_proj.{kind}" for i in (0, 1) for p in "kv"
                       for kind in ("weight", "bias")}  # fmt: skip


@pytest.mark.parametrize("kind", ["gpt2", "bart"])
def test_the_bytes_that_it_tells_are_those_that_decoding_holds(kind, folder, out):
    path = folder(kind)
    result = md.convert(path, out, num_key_value_heads=2)
    steps = 14  # so many that a cache that grows holds more at its end than the prefill's rows of q, k and v
    for place, told in zip((path, out), result.bytes_per_token, strict=True):
        receipt = md.load(place).generate(input_ids=[IDS[0]], max_new_tokens=steps, eos_token_id=[]).receipt
        own = len(IDS[0]) + steps - 1 if kind == "gpt2" else steps  # the last token is never read
        source = len(IDS[0]) if kind == "bart" else 0
        assert receipt.cache_peak_bytes == told * (own + source)


# ---- what is written -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["gpt2", "bart"])
@pytest.mark.parametrize("dtype", ["F64", "F32", "F16", "BF16"])
def test_dtypes_are_kept_and_other_tensors_are_the_same(kind, dtype, folder, out):
    path = folder(kind, dtype=dtype)
    md.convert(path, out, num_key_value_heads=2)
    shapes = FAMILIES[kind].network.tensor_shapes(md.load(out).config)
    assert stored(out) == {name: (dtype, shape) for name, shape in shapes.items()}
    before, after = md.load(path, dtype="float64").tensors, md.load(out, dtype="float64").tensors
    same = {name for name in shapes if np.array_equal(before[name], after[name])}
    assert set(shapes) - same == {n for n in shapes if "c_attn" in n or "k_proj" in n or "v_proj" in n}


def test_dtypes_may_be_mixed(folder, out):
    config = FAMILIES["gpt2"].config.from_json(BASE["gpt2"])
    names = list(random_tensors(FAMILIES["gpt2"], config))
    dtypes = {name: ["F16", "F32", "BF16", "F64"][i % 4] for i, name in enumerate(names)}
    path = folder("gpt2", dtype=dtypes)
    md.convert(path, out, num_key_value_heads=4)
    assert {name: dtype for name, (dtype, _) in stored(out).items()} == dtypes
    assert np.isfinite(md.load(out).logits(IDS)[0]).all()


def test_every_number_lies_where_it_can_be_mapped(tmp_path):
    """Three numbers of 2 bytes would push those of 4 and 8 off their places."""
    layout = {"halves": ("F16", (3,)), "singles": ("F32", (1, 3)), "upper": ("BF16", (1,)), "doubles": ("F64", (2,))}
    write_tensors(tmp_path / "t.safetensors", layout, lambda name: np.full(layout[name][1], 1.5))
    for name, tensor in read_header(tmp_path / "t.safetensors").items():
        assert tensor.offset % {"F64": 8, "F32": 4}.get(tensor.dtype, 2) == 0
        assert (tensor.read(np.dtype(np.float64)) == np.full(layout[name][1], 1.5)).all()


def test_names_with_a_prefix_copies_of_tied_tensors_and_old_buffers(folder, out, tmp_path):
    tensors = random_tensors(FAMILIES["gpt2"], FAMILIES["gpt2"].config.from_json(BASE["gpt2"]))
    file = {f"transformer.{name}": array for name, array in tensors.items()}
    file |= {"lm_head.weight": tensors["wte.weight"], "transformer.h.0.attn.bias": np.ones((1, 1, 24, 24))}
    md.convert(folder("gpt2", file), out, num_key_value_heads=2)
    assert set(stored(out)) == set(tensors)


def test_what_a_file_leaves_out_stays_out(folder, out):
    tensors = random_tensors(FAMILIES["bart"], FAMILIES["bart"].config.from_json(BASE["bart"]))
    del tensors["final_logits_bias"]
    md.convert(folder("bart", tensors), out, num_key_value_heads=2)
    assert set(stored(out)) == set(tensors)
    assert not md.load(out).tensors["final_logits_bias"].any()


def test_shards_become_one_file(folder, out, tmp_path):
    path = folder("gpt2", dtype="F32")
    md.convert(path, tmp_path / "whole", num_key_value_heads=2)
    tensors = md.load(path, dtype="float64").tensors
    (path / "model.safetensors").unlink()
    write_shards(path, tensors, 3)
    md.convert(path, out, num_key_value_heads=2)
    assert (out / "model.safetensors").read_bytes() == (tmp_path / "whole" / "model.safetensors").read_bytes()
    assert sorted(p.name for p in out.iterdir()) == ["config.json", "model.safetensors"]


def test_a_file_of_torch_becomes_safetensors(folder, out, tmp_path):
    path = folder("gpt2", dtype="F32")
    md.convert(path, tmp_path / "whole", num_key_value_heads=2)
    tensors = md.load(path).tensors
    (path / "pytorch_model.bin").write_bytes(written(tensors))
    (path / "model.safetensors").unlink()
    md.convert(path, out, num_key_value_heads=2)
    assert (out / "model.safetensors").read_bytes() == (tmp_path / "whole" / "model.safetensors").read_bytes()


def test_settings_and_tokenizer_go_along_and_the_label_is_in_the_config(folder, out):
    path = folder("gpt2", summary_type="cls_index", num_key_value_heads=4)
    write_tokenizer(path)
    write_bpe(path)
    write_json(path / "generation_config.json", {"max_new_tokens": 3, "eos_token_id": []})
    write_json(path / "tokenizer_config.json", {"add_prefix_space": False})
    (path / "README.md").write_text("A card of the old model.")
    md.convert(path, out, num_key_value_heads=2)
    copied = ["generation_config.json", "merges.txt", "tokenizer.json", "tokenizer_config.json", "vocab.json"]
    assert sorted(p.name for p in out.iterdir()) == sorted([*copied, "config.json", "model.safetensors"])
    assert all((out / name).read_bytes() == (path / name).read_bytes() for name in copied)
    before, after = (json.loads((p / "config.json").read_text()) for p in (path, out))
    assert "needs training" in after.pop("different_model")
    assert after == before | {"num_key_value_heads": 2}
    assert md.load(out).options().max_new_tokens == 3


@pytest.mark.parametrize(("number", "kept"), [
    (1 + 2**-8, 0x3F80), (1 + 3 * 2**-8, 0x3F82), (1 + 2**-8 + 2**-20, 0x3F81), (-(1 + 3 * 2**-8), 0xBF82),
    (float("inf"), 0x7F80), (3.4e38, 0x7F80), (0.0, 0), (-0.0, 0x8000), (2.0**-133, 1),
])  # fmt: skip
def test_bfloat16_to_the_nearest_and_ties_to_even(number, kept, tmp_path):
    write_tensors(tmp_path / "t.safetensors", {"a": ("BF16", (1,))}, lambda name: np.array([number]))
    assert (tmp_path / "t.safetensors").read_bytes()[-2:] == kept.to_bytes(2, "little")


def test_means_are_the_nearest_that_the_dtype_has(folder, out):
    """float16 means of four, worked out in fractions."""
    path = folder("gpt2", dtype="F16")
    md.convert(path, out, num_key_value_heads=2)
    old, new = (md.load(p).tensors["h.0.attn.c_attn.bias"] for p in (path, out))
    for g in range(2):
        for i in range(2):
            exact = sum(Fraction(float(old[16 + 2 * h + i])) for h in range(4 * g, 4 * g + 4)) / 4
            found = np.float16(new[16 + 2 * g + i])
            others = [np.nextafter(found, np.float16(side)) for side in (-9, 9)]
            assert all(abs(Fraction(float(found)) - exact) <= abs(Fraction(float(o)) - exact) for o in others)


# ---- what is refused -------------------------------------------------------------------------------------------------


def nothing_is_left(out):
    return not [p for p in out.parent.iterdir() if out.name in p.name]


@pytest.mark.parametrize(("kind", "heads", "told"), [
    ("gpt2", 3, "choose 1 or 2 or 4"), ("gpt2", 0, "choose 1"), ("gpt2", -2, "choose 1"), ("gpt2", 16, "choose 1"),
    ("gpt2", 2.0, "choose 1"), ("gpt2", True, "choose 1"), ("gpt2", 8, "nothing to convert"),
    ("bart", 8, "choose 1 or 2 or 4"), ("bart", 3, "8 in the encoder and 4 in the decoder"),
])  # fmt: skip
def test_numbers_of_heads_that_cannot_be_had(kind, heads, told, folder, out):
    with pytest.raises(md.OptionError, match=told):
        md.convert(folder(kind), out, num_key_value_heads=heads)
    assert nothing_is_left(out)


def test_a_model_with_one_key_value_head_has_nothing_to_pool(folder, out):
    path = folder("gpt2", num_key_value_heads=1)
    with pytest.raises(md.OptionError, match="nothing to convert"):
        md.convert(path, out, num_key_value_heads=1)
    with pytest.raises(md.OptionError, match="nothing that is less does"):
        md.convert(path, out, num_key_value_heads=2)


@pytest.mark.parametrize("there", ["folder", "file", "link into nothing"])
def test_nothing_is_overwritten(there, folder, out):
    if there == "folder":
        out.mkdir()
    elif there == "file":
        out.write_text("mine")
    else:
        out.symlink_to("nowhere")
    with pytest.raises(md.CheckpointError, match="exists already"):
        md.convert(folder("gpt2"), out, num_key_value_heads=2)
    assert out.is_symlink() or out.is_dir() or out.read_text() == "mine"


def test_places_that_cannot_be_written(folder, tmp_path):
    path = folder("gpt2")
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "no" / "such", tmp_path / "file" / "below"):
        with pytest.raises(md.CheckpointError, match="there is no folder"):
            md.convert(path, place, num_key_value_heads=2)
    with pytest.raises(md.CheckpointError, match="cannot be written"):
        md.convert(path, tmp_path / ("x" * 250), num_key_value_heads=2)  # with what is put in front, too long a name


@pytest.mark.parametrize("damage", ["no weights", "cut short", "another shape", "two embeddings", "no config"])
def test_a_damaged_folder_is_refused_as_it_is_by_load(damage, folder, out):
    tensors = random_tensors(FAMILIES["gpt2"], FAMILIES["gpt2"].config.from_json(BASE["gpt2"]))
    if damage == "another shape":
        tensors["wte.weight"] = np.zeros((41, 16))
    if damage == "two embeddings":
        tensors["lm_head.weight"] = tensors["wte.weight"] + 1
    path = folder("gpt2", tensors)
    file = path / "model.safetensors"
    if damage == "cut short":
        file.write_bytes(file.read_bytes()[:-8])
    if damage.startswith("no "):
        (file if damage == "no weights" else path / "config.json").unlink()
    refusals = []
    for attempt in (lambda: md.load(path), lambda: md.convert(path, out, num_key_value_heads=2)):
        with pytest.raises(md.CheckpointError) as refused:
            attempt()
        refusals.append(str(refused.value))
    assert refusals[0] == refusals[1]
    assert nothing_is_left(out)


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt(), MemoryError()])
def test_broken_off_half_way_nothing_is_left(error, folder, out, monkeypatch):
    def breaks(*_):
        raise error

    monkeypatch.setattr(head_pooling, "pool_heads", breaks)
    expected = md.CheckpointError if isinstance(error, OSError) else type(error)
    with pytest.raises(expected, match="No space left" if isinstance(error, OSError) else None):
        md.convert(folder("gpt2"), out, num_key_value_heads=2)
    assert nothing_is_left(out)


def test_progress_is_told_tensor_by_tensor(folder, out):
    told = []
    md.convert(folder("gpt2"), out, num_key_value_heads=2, progress=lambda done, total: told.append((done, total)))
    assert told == [(i, 28) for i in range(1, 29)]
