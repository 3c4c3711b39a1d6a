"""fairseq's Transformer in plans: every cache, kernels, arenas, stored weights, fewer heads; its errors; its words."""

import json
import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[1] / "golden"))
pytest.register_assert_rewrite("fairseq_cases")

from fairseq_cases import case_of, write_model  # noqa: E402
from torch_writer import TWO, pickled, tensor, zip_file  # noqa: E402

import minidecode as md  # noqa: E402
from minidecode.files.fairseq_folder import convert_fairseq, read_fairseq  # noqa: E402

SHARED, PRE, FREE = (
    "02-post-sin-shareall",
    "07-pre-learned-sharedec-lnemb-gelu",
    "09-pre-nopos-separate-noscale-nofinalnorm",
)
OPTIONS = {"num_beams": 3, "max_new_tokens": 10, "eos_token_id": [2], "dialect": "hf"}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Post-norm with one table and sinusoids; pre-norm with learned positions and two tables; neither positions nor
    a final norm."""
    return {name: write_model(name, tmp_path_factory.mktemp("fairseq")) for name in (SHARED, PRE, FREE)}


@pytest.fixture(params=[SHARED, PRE, FREE])
def name(request):
    return request.param


def generate(folders, name, plan="numpy", options=OPTIONS, sources=None, **how):
    model = md.load(folders[name], plan=plan, **how)
    out = model.generate(input_ids=sources or case_of(name)["src_tokens"], **options)
    return [ids.tolist() for ids in out.token_ids], out.receipt


@pytest.mark.parametrize("plan", [
    "cache=none", "cache=el", "cache=split", "cache=indirect", "cache=preallocated", "naive",
    "fast", "fast,cache=indirect", "fast,cache=preallocated", "fast,cache=el", "cache=split,arena=planned",
    "fast,arena=planned", "cache=indirect,arena=separate", "fast,drop_finished=off", "hars=cpu",
])  # fmt: skip
def test_plans_give_the_same_tokens(folders, name, plan):
    assert generate(folders, name, plan)[0] == generate(folders, name)[0]


def test_a_sentence_alone_gives_what_it_gives_in_a_batch(folders, name):
    tokens = generate(folders, name)[0]
    alone = [generate(folders, name, sources=[source])[0][0] for source in case_of(name)["src_tokens"]]
    assert alone == tokens


@pytest.mark.parametrize(("name", "cache"), [(SHARED, "split"), (PRE, "el")])
def test_kernels_and_captured_steps_give_the_same_tokens(folders, name, cache):
    short = {
        "options": {**OPTIONS, "num_beams": 2, "max_new_tokens": 4, "min_new_tokens": 4},
        "sources": case_of(name)["src_tokens"][2:],
    }
    tokens, receipt = generate(folders, name, f"emulator,cache={cache},graphs=on", device="emulator", **short)
    assert tokens == generate(folders, name, **short)[0]
    attending = {op: c.implementation for op, c in receipt.ops.items() if op.startswith("attend")}
    assert attending and all("cuda" in where for where in attending.values()), attending
    assert receipt.graphs.launches > 0


def test_el_keeps_the_source_once_for_all_layers(folders, name):
    """Positions are in the tokens, so EL is what it is for BART."""
    _, receipt = generate(folders, name, "cache=el")
    assert receipt.ops["attend_el"].calls and receipt.ops["attend_split"].calls and "attend_shared" not in receipt.ops


def test_hars_finds_the_candidates(folders, name):
    """Without processors, straight from the logits."""
    _, receipt = generate(folders, name, "hars=cpu")
    assert receipt.ops["hars_candidates"].calls


@pytest.mark.parametrize("dtype", ["float16", "int8", "int8_dynamic"])
def test_stored_weights(folders, name, dtype):
    """Equal in NumPy and compiled; and near what float32 says."""
    assert generate(folders, name, "fast", dtype=dtype)[0] == generate(folders, name, "numpy", dtype=dtype)[0]
    case = case_of(name)
    given = {"input_ids": case["src_tokens"], "decoder_input_ids": case["prev_output_tokens"]}
    exact, stored = (md.load(folders[name], dtype=d).logits(**given) for d in ("float32", dtype))
    off = max(np.abs(a - b).max() for a, b in zip(exact, stored, strict=True))
    assert 0 < off < 0.2 * max(np.abs(a).max() for a in exact)


def test_fewer_heads(folders, tmp_path):
    from minidecode.files.head_pooling import convert

    convert(folders[SHARED], tmp_path / "grouped", num_key_value_heads=1)
    folders = folders | {"grouped": tmp_path / "grouped"}
    sources = case_of(SHARED)["src_tokens"]
    model = md.load(tmp_path / "grouped")
    assert [block.heads.G for block in model.weights.blocks] == [1] and model.tokenizer is not None
    assert (
        generate(folders, "grouped", "fast,cache=indirect", sources=sources)[0]
        == generate(folders, "grouped", sources=sources)[0]
    )


def test_a_window_rolls(folders, tmp_path):
    """attention_window is ours: the decoder sees its last positions, in slots that are written over."""
    changed(folders[PRE], tmp_path / "model", attention_window=3)
    folders, sources = folders | {"rolling": tmp_path / "model"}, case_of(PRE)["src_tokens"]
    tokens = generate(folders, "rolling", "cache=none", sources=sources)[0]
    assert generate(folders, "rolling", "cache=rolling", sources=sources)[0] == tokens
    assert tokens != generate(folders, PRE)[0]


def test_scores_of_targets_are_those_of_generation(folders, name):
    model = md.load(folders[name])
    out = model.generate(input_ids=case_of(name)["src_tokens"], **OPTIONS)
    scored = model.score(
        input_ids=case_of(name)["src_tokens"], target_ids=out.token_ids, decoder_start_token_id=2
    )  # fmt: skip
    for log_prob_T, ids, score in zip(scored.log_probs, out.token_ids, out.scores, strict=True):
        assert abs(log_prob_T.sum() / len(ids) - score) < 1e-5


def test_the_footprint_holds_what_a_generation_keeps(folders, name):
    model = md.load(folders[name])
    how = {"input_ids": case_of(name)["src_tokens"], **OPTIONS}
    assert model.footprint(**how).cache >= model.generate(**how).receipt.cache_peak_bytes > 0


@pytest.mark.parametrize("published", ["transformer_iwslt_de_en", "transformer_vaswani_wmt_en_de_big"])
def test_published_shapes_plan_a_step(published):
    """Without their weights: published sizes bind, and say what a step takes."""
    from minidecode.loading import load_shapes

    model = load_shapes(published, vocab_size=64)
    step = model.plan_step(batch_size=2, input_length=16, num_beams=2, max_new_tokens=8)
    assert model.family == "fairseq" and step.bytes > 0


# ---- what is refused -------------------------------------------------------------------------------------------------


def changed(folder: Path, out: Path, **fields) -> Path:
    """A copy of a model with other fields in its config.json; None takes one away."""
    shutil.copytree(folder, out)
    config = json.loads((out / "config.json").read_text(encoding="utf-8")) | fields
    config = {name: value for name, value in config.items() if value is not None}
    (out / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return out


BAD_CONFIGS = {
    "adaptive_softmax_cutoff": ("10000,20000", r"adaptive_softmax_cutoff='10000,20000' is not supported: a head in"),
    "adaptive_input": (True, "adaptive_input=True is not supported"),
    "cross_self_attention": (True, "cross_self_attention=True is not supported"),
    "no_cross_attention": (True, "no_cross_attention=True is not supported"),
    "encoder_layers_to_keep": ("0,2", "encoder_layers_to_keep='0,2' is not supported: layers that are left out"),
    "decoder_layers_to_keep": ("0", "decoder_layers_to_keep='0' is not supported"),
    "decoder_input_dim": (24, "decoder_input_dim=24 with encoder_embed_dim=20 is not supported: all widths"),
    "src_vocab_size": (None, "src_vocab_size is missing .how many words its dictionary has, with the four"),
    "scale_fc": (True, "scale_fc=True is not supported: more norms and gains"),
    "base_layers": (1, "base_layers=1 is not supported: layers of experts"),
    "encoder_layers": ("two", "encoder_layers must be an integer from 1"),
    "decoder_normalize_before": ("yes", "decoder_normalize_before must be true or false, not 'yes'"),
    "activation_fn": ("swoosh", "activation_function 'swoosh' is not one of"),
    "encoder_attention_heads": (3, "encoder_embed_dim 20 is not a multiple of encoder_attention_heads 3"),
    "tgt_vocab_size": (39, "share_all_embeddings needs one dictionary, and src_vocab_size is 38 and tgt_vocab_size 39"),
}  # fmt: skip


@pytest.mark.parametrize("field", BAD_CONFIGS)
def test_a_config_that_is_not_supported(folders, tmp_path, field):
    value, message = BAD_CONFIGS[field]
    with pytest.raises(md.CheckpointError, match=message) as caught:
        md.load(changed(folders[SHARED], tmp_path / "model", **{field: value}))
    assert "\n" not in str(caught.value)


def test_an_unknown_architecture_needs_all_sizes(folders, tmp_path):
    """What the Namespace lacks has the default of its architecture, and nobody knows this one's."""
    with pytest.raises(md.CheckpointError, match=r"encoder_layers is missing .the architecture 'mine' is not known"):
        md.load(changed(folders[SHARED], tmp_path / "model", arch="mine", encoder_layers=None))
    md.load(changed(folders[SHARED], tmp_path / "whole", arch="mine"))


def test_what_is_left_out_is_the_architectures():
    from minidecode.models.fairseq import FairseqConfig

    sizes = {"src_vocab_size": 9, "tgt_vocab_size": 9}
    c = FairseqConfig.from_json(sizes | {"arch": "transformer_iwslt_de_en"})
    assert (c.encoder_embed_dim, c.encoder_ffn_embed_dim, c.decoder_ffn_embed_dim) == (512, 1024, 1024)
    assert (c.encoder_attention_heads, c.decoder_attention_heads, c.encoder_layers) == (4, 4, 6)
    c = FairseqConfig.from_json(sizes | {"arch": "transformer_wmt_en_de_big_t2t"})
    assert (c.width, c.decoder_ffn_embed_dim, c.decoder_attention_heads) == (1024, 4096, 16)
    assert c.is_pre_norm("encoder") and c.is_pre_norm("decoder")
    c = FairseqConfig.from_json(sizes | {"decoder_layers": 2, "encoder_ffn_embed_dim": 64})
    assert (c.encoder_layers, c.decoder_layers, c.decoder_ffn_embed_dim) == (6, 2, 64)


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [("relu", "relu"), ("gelu", "gelu"), ("gelu_accurate", "gelu_new"), ("gelu_fast", "gelu_fast"), ("swish", "swish"),
     ("relu_squared", "relu2"), ("tanh", "tanh"), ("linear", "linear")],
)  # fmt: skip
def test_activations_have_fairseqs_names(theirs, ours):
    from minidecode.models.fairseq import FairseqConfig

    fields = {"src_vocab_size": 9, "tgt_vocab_size": 9, "activation_fn": theirs}
    assert FairseqConfig.from_json(fields).activation_function == ours


def test_lengths_are_those_of_either_side(folders, tmp_path):
    """max_source_positions for sources, max_target_positions for targets."""
    model = md.load(folders[SHARED])  # 24 and 30
    with pytest.raises(md.InputError, match="source 1 of 1 has 25 tokens and the encoder holds 24: shorten it, or cut"):
        model.generate(input_ids=[[5] * 24 + [2]], max_new_tokens=2)
    cut = model.generate(input_ids=[[5] * 24 + [2]], truncate=True, **OPTIONS).token_ids[0].tolist()
    assert cut == model.generate(input_ids=[[5] * 23 + [2]], **OPTIONS).token_ids[0].tolist()
    out = model.generate(input_ids=[[5, 2]], max_new_tokens=30, eos_token_id=(), num_beams=1, dialect="hf")
    assert len(out.token_ids[0]) == 30
    with pytest.raises(md.InputError, match="31 new tokens go beyond the decoder's context of 30"):
        model.generate(input_ids=[[5, 2]], max_new_tokens=31)


def test_ids_are_those_of_either_dictionary(tmp_path):
    """30 words of the source, 40 of the target."""
    model = md.load(write_model("03-post-sin-sharedec", tmp_path))
    with pytest.raises(md.InputError, match="prompt 1 of 1: token id 30 is not in the vocabulary of 30 tokens"):
        model.generate(input_ids=[[30, 2]])
    assert model.logits([[29, 2]], decoder_input_ids=[[2, 39]])[0].shape == (2, 40)
    with pytest.raises(md.InputError, match="target 1 of 1: token id 40 is not in the vocabulary of 40 tokens"):
        model.logits([[29, 2]], decoder_input_ids=[[2, 40]])


def test_a_dictionary_that_is_not_the_models(folders, tmp_path):
    out = changed(folders[SHARED], tmp_path / "model")
    words = (out / "dict.src.txt").read_text(encoding="utf-8")
    (out / "dict.src.txt").write_text(words + "more 1\n", encoding="utf-8")
    with pytest.raises(md.CheckpointError, match=r"dict\.src\.txt has 39 words, .* table has 38: use the dictionary"):
        md.load(out)
    (out / "dict.src.txt").unlink()
    with pytest.raises(md.CheckpointError, match=r"dict\.src\.txt is missing: put it there"):
        md.load(out)


def test_a_folder_without_dictionaries_takes_ids(folders, tmp_path):
    out = changed(folders[SHARED], tmp_path / "model")
    for file in out.glob("dict.*.txt"):
        file.unlink()
    model = md.load(out)
    assert model.tokenizer is None and model.generate(input_ids=[[5, 2]], max_new_tokens=2).token_ids
    with pytest.raises(md.InputError, match="has no tokenizer"):
        model.generate("is to")


def test_languages_are_those_of_the_folder(folders):
    """config.json names src and tgt: the languages of the checkpoint."""
    md.load(folders[SHARED], source_lang="src", target_lang="tgt")
    with pytest.raises(md.OptionError, match="target_lang='fr' is unknown to this model, which translates src to tgt"):
        md.load(folders[SHARED], target_lang="fr")
    with pytest.raises(md.OptionError, match=r"source_lang='de': this model's config\.json names no source_lang"):
        md.load("tiny-gpt2", source_lang="de")


def test_the_command_imports_a_translator(tmp_path, cli):
    from fairseq_cases import write_checkpoint

    path, out = write_checkpoint("05-old-zip", tmp_path / "training"), tmp_path / "model"
    ran = cli("import", path, "--output", out, "--source-lang", "src")
    assert ran.code == 0 and ran.out.startswith(f"{out}\nsrc to tgt, 18,512 parameters\nno BPE codes")
    text = cli("generate", "-m", out, "--target-lang", "tgt", "--quiet", "the ing", "--beam", 2, "--max-len-b", 5)
    assert text.code == 0 and text.out.strip() == md.load(out).generate("the ing", num_beams=2, max_len_b=5).texts[0]
    refused = cli("generate", "-m", out, "--target-lang", "fr", "--quiet", "the")
    assert refused.code == 1 and "target_lang='fr' is unknown to this model" in refused.err


@pytest.mark.parametrize(
    ("change", "message"),
    [({"source_lang": "xx"}, "source_lang='xx' is not this model's, which is 'src': leave it out"),
     ({"out": "."}, "exists already, and nothing is overwritten")],
)  # fmt: skip
def test_a_conversion_that_cannot_be(tmp_path, change, message):
    from fairseq_cases import write_checkpoint

    path = write_checkpoint("10-oldest-version-2", tmp_path / "training")
    out = tmp_path / change.pop("out", "model")
    with pytest.raises(md.MinidecodeError, match=message):
        convert_fairseq(path, out, **change)
    assert not (tmp_path / "model").exists()


def test_dictionaries_of_a_conversion(tmp_path):
    from fairseq_cases import write_checkpoint

    path = write_checkpoint("10-oldest-version-2", tmp_path / "training")
    words = path.with_name("dict.tgt.txt")
    words.write_text(words.read_text(encoding="utf-8") + "more 1\n", encoding="utf-8")
    with pytest.raises(md.CheckpointError, match=r"dict\.tgt\.txt has 40 words, .* checkpoint's table has 39: use the"):
        convert_fairseq(path, tmp_path / "model")
    words.unlink()
    with pytest.raises(md.CheckpointError, match=r"dict\.tgt\.txt is missing .dictionaries there: dict\.src\.txt"):
        convert_fairseq(path, tmp_path / "model")
    assert not (tmp_path / "model").exists()


KINDS = {"Double": np.float64, "Float": np.float32, "Half": np.float16, "BFloat16": None}


@pytest.mark.parametrize("kind", KINDS)
def test_joined_projections_of_any_width_are_taken_apart(tmp_path, kind):
    """The oldest files store q, k and v as one matrix: here in each width of number, behind others of its storage."""
    from fairseq_cases import write_checkpoint

    path = write_checkpoint("02-old-legacy", tmp_path / "training")
    fields, found = read_fairseq(path)
    dtype = KINDS[kind]
    rounded = {name: stored.read(np.dtype(np.float32)) for name, stored in found.items()}
    if dtype is None:
        rounded = {name: (a.view(np.uint32) >> 16 << 16).view(np.float32) for name, a in rounded.items()}
    else:
        rounded = {name: a.astype(dtype) for name, a in rounded.items()}
    joined = {}
    for name, a in rounded.items():
        joined.setdefault(re.sub(r"_attn\.[qkv]_proj\.", "_attn.in_proj_", name), []).append((name, a))
    described, storages = {}, {}
    for key, (name, parts) in enumerate(joined.items()):
        parts = [a for _, a in sorted(parts, key=lambda part: "qkv".find(part[0].rpartition("_proj")[0][-1:]))]
        whole = np.concatenate(parts)
        before = np.ones((5, *whole.shape[1:]), whole.dtype)  # of the storage, in front of the tensor
        numbers = np.concatenate([before, whole])
        storages[str(key)] = numbers.tobytes() if dtype else (numbers.view(np.uint32) >> 16).astype("<u2").tobytes()
        strides = tuple(s // whole.itemsize for s in whole.strides)
        described[name] = tensor(str(key), kind, numbers.size, before.size, whole.shape, strides)
    assert any("in_proj" in name for name in described)
    path.write_bytes(zip_file(pickled({"args": fields, "model": described}), storages))
    again = read_fairseq(path)[1]
    for name, a in rounded.items():
        assert np.array_equal(again[name].read(np.dtype(np.float64)), a.astype(np.float64)), name
    convert_fairseq(path, tmp_path / "model")
    model, expected = md.load(tmp_path / "model", dtype="float64"), case_of(SHARED)
    assert model.generate(input_ids=expected["src_tokens"], max_new_tokens=3).token_ids


def test_codes_come_along(tmp_path):
    from fairseq_cases import write_checkpoint

    path = write_checkpoint("04-new-namespace", tmp_path / "training")
    path.with_name("bpecodes").write_text("#version: 0.2\nt h\nt o</w>\n", encoding="utf-8")
    assert convert_fairseq(path, tmp_path / "model").codes == "bpecodes"
    model = md.load(tmp_path / "model")
    assert model.tokenizer.encode("to be").tolist() == [19, 3, 3, 2], "b@@ and e are not in the dictionary"


def test_a_checkpoint_is_no_folder(tmp_path):
    (tmp_path / "checkpoint_best.pt").write_bytes(b"PK")
    with pytest.raises(md.CheckpointError, match=r"is a file, not a folder: if .* make a .* minidecode import "):
        md.load(tmp_path / "checkpoint_best.pt")


def test_rules_that_need_one_vocabulary(folders):
    model = md.load(folders[PRE])
    with pytest.raises(
        md.OptionError, match="encoder_no_repeat_ngram_size needs one vocabulary of sources and targets"
    ):
        model.generate(input_ids=[[5, 2]], encoder_no_repeat_ngram_size=2, dialect="hf")
    md.load(folders[SHARED]).generate(
        input_ids=[[5, 2]], encoder_no_repeat_ngram_size=2, dialect="hf", max_new_tokens=2
    )


def test_a_folder_of_fsmt_is_the_same_model(folders, tmp_path):
    """Its own names in config.json, `model.` before those of tensors, two vocabularies and merges with counts."""
    from minidecode.files.checkpoint import read_header, write_safetensors

    source, out = folders[SHARED], tmp_path / "fsmt"
    out.mkdir()
    theirs = json.loads((source / "config.json").read_text(encoding="utf-8"))
    fields = {
        "model_type": "fsmt", "langs": ["src", "tgt"], "d_model": 20, "src_vocab_size": 38, "tgt_vocab_size": 38,
        "max_position_embeddings": 24, "tie_word_embeddings": True, "scale_embedding": True,
        "activation_function": "relu", "decoder_start_token_id": 2, "decoder": {"vocab_size": 38},
        "forced_eos_token_id": None,
    } | {
        f"{side}_{ours}": theirs[f"{side}_{name}"]
        for side in ("encoder", "decoder")
        for ours, name in (("layers", "layers"), ("attention_heads", "attention_heads"), ("ffn_dim", "ffn_embed_dim"))
    }  # fmt: skip
    (out / "config.json").write_text(json.dumps(fields), encoding="utf-8")
    stored = read_header(source / "model.safetensors")
    stored |= {"decoder.output_projection.weight": stored["encoder.embed_tokens.weight"]}
    write_safetensors(
        out / "model.safetensors", {f"model.{name}": ("F32", tensor.shape) for name, tensor in stored.items()},
        lambda name: stored[name.removeprefix("model.")].read(np.dtype(np.float32)),
    )  # fmt: skip
    ours = md.load(source)
    for side, dictionary in (("src", ours.tokenizer.source), ("tgt", ours.tokenizer.target)):
        pieces = [w if i < 4 else w[:-2] if w.endswith("@@") else f"{w}</w>" for i, w in enumerate(dictionary.words)]
        (out / f"vocab-{side}.json").write_text(json.dumps({p: i for i, p in enumerate(pieces)}), encoding="utf-8")
    (out / "merges.txt").write_text("t o</w> 9\ni s</w> 8\n", encoding="utf-8")
    fsmt = md.load(out, source_lang="src")
    assert fsmt.family == "fsmt" and fsmt.tokenizer.source.words == ours.tokenizer.source.words
    assert fsmt.tokenizer.encode("is to").tolist() == ours.tokenizer.encode("is to").tolist()
    assert generate({"fsmt": out}, "fsmt", sources=case_of(SHARED)["src_tokens"])[0] == generate(folders, SHARED)[0]


def write_fsmt(source: Path, out: Path, **fields) -> Path:
    """FSMT's folder of a model with two dictionaries whose head is the target's table, as transformers 4 saves it."""
    from minidecode.files.checkpoint import read_header, write_safetensors

    out.mkdir()
    theirs = json.loads((source / "config.json").read_text(encoding="utf-8"))
    names = (("layers", "layers"), ("attention_heads", "attention_heads"), ("ffn_dim", "ffn_embed_dim"))
    fields = {
        "model_type": "fsmt", "langs": ["src", "tgt"], "d_model": theirs["encoder_embed_dim"],
        "src_vocab_size": theirs["src_vocab_size"], "tgt_vocab_size": theirs["tgt_vocab_size"],
        "max_position_embeddings": 210, "tie_word_embeddings": False, "scale_embedding": True,
        **{f"{side}_{ours}": theirs[f"{side}_{name}"] for side in ("encoder", "decoder") for ours, name in names},
    } | fields  # fmt: skip
    (out / "config.json").write_text(json.dumps(fields), encoding="utf-8")
    stored = read_header(source / "model.safetensors")
    layout = {f"model.{name}": ("F32", tensor.shape) for name, tensor in stored.items() if "output" not in name}
    write_safetensors(
        out / "model.safetensors", layout, lambda name: stored[name.removeprefix("model.")].read(np.dtype(np.float32))
    )
    return out


def test_fsmt_without_settings_of_generation_has_those_of_transformers(tmp_path):
    """Published ones (wmt19) have no generation_config.json, and a config.json without decoder_start_token_id."""
    source = write_model("03-post-sin-sharedec", tmp_path / "training")
    model = md.load(write_fsmt(source, tmp_path / "fsmt", bos_token_id=0, eos_token_id=2, num_beams=3))
    options = model.options()
    assert options.decoder_start_token_id == 2, "not <s>, bos_token_id"
    assert (options.forced_eos_token_id, options.max_length, options.num_beams) == ((2,), 200, 3)
    assert md.load(tmp_path / "fsmt", generation_config=False).options().decoder_start_token_id == 2
    sources = case_of("03-post-sin-sharedec")["src_tokens"]
    how = {"input_ids": sources, "max_new_tokens": 6, "num_beams": 2, "dialect": "hf"}
    ours = md.load(source).generate(**how, eos_token_id=[2], forced_eos_token_id=[2])
    assert [a.tolist() for a in model.generate(**how).token_ids] == [b.tolist() for b in ours.token_ids]


def test_the_head_of_fsmt_is_the_targets_table_where_it_is_not_stored(tmp_path):
    """transformers 4 has one matrix for both, and stores it once."""
    source = write_model("03-post-sin-sharedec", tmp_path / "training")
    model = md.load(write_fsmt(source, tmp_path / "fsmt"))
    given = {"input_ids": [[4, 5, 2]], "decoder_input_ids": [[2, 6, 7]]}
    assert np.array_equal(model.logits(**given)[0], md.load(source).logits(**given)[0])


def test_a_tensor_that_is_not_this_kind_of_models_is_refused(folders, tmp_path):
    """As of a non-autoregressive Transformer, which has all names of this one and more."""
    from minidecode.files.checkpoint import read_header, write_safetensors

    out = changed(folders[SHARED], tmp_path / "model")
    stored = read_header(folders[SHARED] / "model.safetensors")
    layout = {name: ("F32", tensor.shape) for name, tensor in stored.items()}
    for name in ("decoder.embed_length.weight", "decoder.layers.0.ffn_layernorm.weight"):
        write_safetensors(
            out / "model.safetensors", layout | {name: ("F32", (3, 4))},
            lambda n: stored[n].read(np.dtype(np.float32)) if n in stored else np.ones((3, 4), np.float32),
        )  # fmt: skip
        with pytest.raises(md.CheckpointError, match=f"{name} is no part of this kind of model"):
            md.load(out)


@pytest.mark.parametrize("form", ["args", "cfg"])
def test_a_task_that_puts_codes_into_texts_is_refused(tmp_path, form):
    task = "translation_from_pretrained_bart"
    cfg = {"model": {"arch": "transformer"}, "task": {"_name": task}}
    settings = {"args": {"task": task}} if form == "args" else {"args": None, "cfg": cfg}
    path = tmp_path / "model.pt"
    path.write_bytes(zip_file(pickled(settings | {"model": {"encoder.embed_tokens.weight": TWO}}), {"0": b"\0" * 48}))
    with pytest.raises(md.CheckpointError, match=f"was trained with the task {task}, which puts codes of languages"):
        convert_fairseq(path, tmp_path / "out", source_lang="de", target_lang="en")


def test_a_version_is_one_number(tmp_path):
    """A tensor of many is not read: it may be a few bytes shown over and over."""
    from minidecode.files.fairseq_folder import version_of_side
    from minidecode.files.stored import Stored

    (tmp_path / "f").write_bytes(np.full(4, 3.0, "<f4").tobytes())
    for shape in (1,), ():
        assert version_of_side(Stored(tmp_path / "f", 0, "F32", shape)) == 3
    assert version_of_side(Stored(tmp_path / "f", 0, "F32", (4,))) == 1 == version_of_side(None)


def test_dictionaries_without_languages_are_named(folders, tmp_path):
    out = changed(folders[SHARED], tmp_path / "model", source_lang=None, target_lang=None)
    with pytest.raises(md.CheckpointError, match=r"has dict\.src\.txt, dict\.tgt\.txt, and its config\.json names oth"):
        md.load(out)
    for path in out.glob("dict.*.txt"):
        path.unlink()
    with pytest.raises(md.InputError, match=r"has no tokenizer: add its dict\.SRC\.txt and dict\.TGT\.txt, or pass"):
        md.load(out).generate("is to")


@pytest.mark.parametrize("language", ["a" * 5000, "a\0", "../de", ["de"]])
def test_a_language_that_is_no_name_is_one_line(folders, tmp_path, language):
    with pytest.raises(md.CheckpointError, match=r"config\.json: .* is no name of a language, such as de$") as caught:
        md.load(changed(folders[SHARED], tmp_path / "model", target_lang=language))
    assert len(str(caught.value)) < 300


def test_an_architecture_that_is_no_name_is_one_line(folders, tmp_path):
    assert md.load(changed(folders[SHARED], tmp_path / "model", arch=["x"])).config.encoder_layers == 3


def test_a_ladders_texts_are_words_of_the_source(tmp_path):
    """Not of the target, whose dictionary alone decodes."""
    from minidecode.bench.rungs import TEXT, Work

    out = write_model("03-post-sin-sharedec", tmp_path)
    fields = json.loads((out / "config.json").read_text(encoding="utf-8")) | {"source_lang": "de", "target_lang": "en"}
    (out / "config.json").write_text(json.dumps(fields), encoding="utf-8")
    words = dict.fromkeys(TEXT.split())
    for language, size, first in (("de", 26, list(words)[:9]), ("en", 36, [])):
        lines = [*first, *(f"{language}{i}" for i in range(size - len(first)))]
        (out / f"dict.{language}.txt").write_text("".join(f"{word} 1\n" for word in lines), encoding="utf-8")
    model = md.load(out)
    work = Work.make(model, texts=3, input_length=6, num_beams=2, max_new_tokens=4)
    assert set(" ".join(work.texts).split()) <= set(words) and len(set(work.texts)) == 3
    assert all(5 <= len(ids) <= 8 for ids in work.ids) and any((ids > 3).any() for ids in work.ids)


def test_a_ladder_takes_the_rules_of_hf(folders):
    """A converted folder searches as fairseq does, whose search cannot do without an EOS; a ladder has none."""
    from minidecode.bench.rungs import Work

    work = Work.make(md.load(folders[SHARED]), texts=2, input_length=5, num_beams=2, max_new_tokens=4)
    out = work.model.generate(work.texts, **work.options) if work.texts else work.model.generate(input_ids=work.ids)
    assert [len(ids) for ids in out.token_ids] == [4, 4]
