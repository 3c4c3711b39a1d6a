"""Marian and mBART in use: tokenizers, languages, the command line, plans, and what is refused.

Golden files hold their numbers. Texts need the package sentencepiece; without it those tests are skipped.
"""

import dataclasses
import io
import json
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from taken_bytes import peak_of
from toy_folder import write_json, write_safetensors

import minidecode as md
from minidecode.loading import load_shapes
from minidecode.models import bart
from minidecode.models.marian import MarianConfig
from minidecode.models.mbart import MBartConfig
from minidecode.runtime.prompts import cut_before_closing, cut_sources, fit_sources

GOLDEN = Path(__file__).parents[1] / "golden"
SOURCES = [[5, 9, 14, 3, 7, 0], [11, 3, 0], [4, 6, 8, 10, 12, 13, 15, 16, 17, 0]]
OPTIONS = {"num_beams": 3, "max_new_tokens": 10, "eos_token_id": [0]}
FOLDERS = [GOLDEN / "marian" / "published", GOLDEN / "marian" / "two-vocabularies", GOLDEN / "mbart" / "gelu"]
WORDS = ("the", "cat", "sat", "on", "a", "mat", "die", "katze", "sass", "auf", "der", "matte", "le", "chat", "est")
TEXT = "the cat sat on the mat"


def generate(folder, plan="numpy", options=OPTIONS, sources=SOURCES, **how):
    model = md.load(folder, plan=plan, **how)
    out = model.generate(input_ids=sources, **options)
    return [ids.tolist() for ids in out.token_ids], out.receipt


# ---- plans -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("plan", [
    "fast", "fast,cache=indirect", "fast,cache=el", "naive", "cache=split,arena=planned", "fast,arena=planned",
    "cache=indirect,arena=separate", "fast,drop_finished=off", "hars=cpu",
])  # fmt: skip
@pytest.mark.parametrize("folder", FOLDERS, ids=lambda f: f.name)
def test_plans_give_the_same_tokens(folder, plan):
    assert generate(folder, plan)[0] == generate(folder)[0]


@pytest.mark.parametrize("folder", FOLDERS[::2], ids=lambda f: f.name)
def test_kernels_and_captured_steps_give_the_same_tokens(folder):
    short = {"options": {"num_beams": 2, "max_new_tokens": 4, "eos_token_id": None}, "sources": SOURCES[:2]}
    tokens, receipt = generate(folder, "emulator,cache=split,graphs=on", device="emulator", **short)
    assert tokens == generate(folder, **short)[0]
    attending = {op: c.implementation for op, c in receipt.ops.items() if op.startswith("attend")}
    assert attending and all("cuda" in where for where in attending.values()), attending
    assert receipt.graphs.launches > 0


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda f: f.name)
def test_el_and_hars_serve_them_as_they_serve_bart(folder):
    _, receipt = generate(folder, "cache=el,hars=reference")
    assert receipt.ops["attend_el"].calls and receipt.ops["hars_candidates"].calls
    assert "attend_shared" not in receipt.ops


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda f: f.name)
def test_the_footprint_is_an_upper_bound_of_the_caches(folder):
    model = md.load(folder, plan="cache=split")
    bound = model.footprint(input_ids=SOURCES, **OPTIONS)
    assert 0 < model.generate(input_ids=SOURCES, **OPTIONS).receipt.cache_peak_bytes <= bound.cache


@pytest.mark.parametrize("dtype", ["float16", "int8", "int8_dynamic"])
def test_stored_weights(dtype):
    """Equal in NumPy and compiled; and near what float32 says."""
    folder = FOLDERS[0]
    assert generate(folder, "fast", dtype=dtype)[0] == generate(folder, "numpy", dtype=dtype)[0]
    given = {"input_ids": SOURCES, "decoder_input_ids": [[36, 3, 4]] * 3}
    exact, stored = (md.load(folder, dtype=d).logits(**given) for d in ("float32", dtype))
    off = max(np.abs(a - b).max() for a, b in zip(exact, stored, strict=True))
    assert 0 < off < 0.1 * max(np.abs(a).max() for a in exact)


@pytest.mark.parametrize("folder", [FOLDERS[0], FOLDERS[2]], ids=lambda f: f.name)
def test_fewer_key_value_heads(folder, tmp_path):
    md.convert(folder, tmp_path / "one", num_key_value_heads=1)
    assert md.load(tmp_path / "one").weights.blocks[0].heads.G == 1
    assert generate(tmp_path / "one", "cache=indirect")[0] == generate(tmp_path / "one")[0]


@pytest.mark.parametrize("name", ["opus-mt-en-de", "mbart-large-50"])
def test_published_shapes_plan_a_step(name):
    model = load_shapes(name, vocab_size=64)
    assert model.plan_step(batch_size=2, input_length=16, num_beams=2, max_new_tokens=8).bytes > 0


def test_opus_mt_has_the_published_sizes():
    c = load_shapes("opus-mt-en-de").config
    assert (c.vocab_size, c.generated_vocab_size, c.width, c.layers, c.context) == (58101, 58100, 512, 12, 512)


@pytest.mark.parametrize("plan", ["numpy", "fast"])
@pytest.mark.parametrize("beams", [1, 3])
def test_the_padding_that_targets_begin_with_has_no_score(plan, beams):
    """Marian's row of zeros is not in the output matrix, and rules look for all tokens of a text in its scores."""
    model = md.load(FOLDERS[0], plan=plan)
    pad, how = model.config.generated_vocab_size, {"num_beams": beams, "max_new_tokens": 8, "eos_token_id": None}
    assert model.options().decoder_start_token_id == pad == model.config.vocab_size - 1
    out = model.generate(input_ids=SOURCES, repetition_penalty=3.0, **how)
    assert [a.tolist() for a in out.token_ids] != generate(FOLDERS[0], plan, how)[0]
    sources = [[*source[:-1], pad, 0] for source in SOURCES]  # a source may hold it
    model.generate(input_ids=sources, encoder_repetition_penalty=2.0, **how)
    model.generate(input_ids=sources, encoder_no_repeat_ngram_size=1, **how)
    fairseq = {"dialect": "fairseq", "num_beams": beams, "max_new_tokens": 4}
    model.generate(input_ids=SOURCES, unk_penalty=1.0, unk_token_id=pad, **fairseq)
    out = model.generate(input_ids=SOURCES, no_repeat_ngram_size=1, **how)
    assert all(len(set(ids.tolist())) == len(ids) == 8 for ids in out.token_ids)
    model.generate(input_ids=SOURCES, no_repeat_ngram_size=1, decoder_start_token_id=4, **how)
    with pytest.raises(md.InputError, match=f"target 1 of 1: token id {pad} is never generated by this model"):
        model.score(input_ids=[[3, 0]], target_ids=[[4, pad]])
    with pytest.raises(md.InputError, match="input_ids must be an array"):
        model.logits(None, decoder_input_ids=[[pad]])


def test_a_source_beyond_the_positions_is_an_error():
    with pytest.raises(md.InputError, match=r"has 15 tokens.* 14"):
        md.load(FOLDERS[0]).generate(input_ids=[[3] * 15])


@pytest.mark.parametrize("model_type", ["blenderbot", "pegasus", "m2m_100"])
def test_others_with_norms_in_front_are_refused_for_what_they_lack(model_type, tmp_path):
    write_json(tmp_path / "config.json", {"model_type": model_type})
    with pytest.raises(md.CheckpointError, match=f"'{model_type}' is not supported .*without a norm after the embedd"):
        md.load(tmp_path)


@pytest.mark.parametrize(
    ("model_type", "lacks"), [("roberta", "positions from 2"), ("distilbert", "without token types"),
                              ("xlm-roberta", "SentencePiece"), ("mpnet", "a bias"), ("albert", "share their weights")]
)  # fmt: skip
def test_encoders_that_are_not_bert_are_refused_for_what_they_lack(model_type, lacks, tmp_path):
    write_json(tmp_path / "config.json", {"model_type": model_type})
    with pytest.raises(md.CheckpointError, match=f"'{model_type}' is not supported .*{lacks}.*bert, such as minilm$"):
        md.load(tmp_path)


def test_languages_are_refused_where_no_text_has_one():
    with pytest.raises(
        md.OptionError, match="target_lang='de': this model has no tokenizer that knows languages: leave it out, or add"
    ):
        md.load(FOLDERS[0], target_lang="de")


def test_the_files_of_a_missing_tokenizer_are_named():
    with pytest.raises(md.InputError, match=r"no tokenizer: add its source\.spm, target\.spm and vocab\.json, or pass"):
        md.load(FOLDERS[0]).generate("a")
    with pytest.raises(md.InputError, match=r"no tokenizer: add its sentencepiece\.bpe\.model or tokenizer\.json, or"):
        md.load(FOLDERS[2]).generate("a")


# ---- toy folders with SentencePiece models ---------------------------------------------------------------------------


def sentencepiece():
    return pytest.importorskip("sentencepiece", reason="needs SentencePiece: pip install '.[translate]'")


def train(kind: str, size: int, words=WORDS) -> bytes:
    """A SentencePiece model of a few words."""
    rng, file = np.random.default_rng(0), io.BytesIO()
    lines = (" ".join(rng.choice(words, 6)) for _ in range(300))
    sentencepiece().SentencePieceTrainer.train(
        sentence_iterator=lines, model_writer=file, vocab_size=size, model_type=kind, minloglevel=2,
        hard_vocab_limit=False,
    )  # fmt: skip
    return file.getvalue()


@pytest.fixture(scope="module")
def models():
    """(a source's and a target's model, of kind unigram, and one of kind BPE)."""
    return train("unigram", 40), train("unigram", 36, WORDS[6:]), train("bpe", 44)


def write_marian(folder: Path, models, codes=(), **settings) -> Path:
    """A Marian whose vocab.json has an order of its own: </s>, <unk>, pieces backwards, codes, <pad>."""
    folder.mkdir()
    pieces = []
    for name, data in zip(("source.spm", "target.spm"), models, strict=False):
        (folder / name).write_bytes(data)
        processor = sentencepiece().SentencePieceProcessor(model_proto=data)
        pieces += [processor.id_to_piece(i) for i in range(3, processor.get_piece_size())]
    tokens = ["</s>", "<unk>", *reversed(list(dict.fromkeys(pieces))), *codes, "<pad>"]
    write_json(folder / "vocab.json", {token: i for i, token in enumerate(tokens)})
    write_json(folder / "tokenizer_config.json", settings)
    last = len(tokens) - 1
    write_toy(folder, MarianConfig, "marian", vocab_size=len(tokens), pad_token_id=last, decoder_start_token_id=last,
              eos_token_id=0, activation_function="swish")  # fmt: skip
    return folder


def write_mbart(folder: Path, model: bytes, codes: int, **fields) -> Path:
    folder.mkdir()
    (folder / "sentencepiece.bpe.model").write_bytes(model)
    pieces = sentencepiece().SentencePieceProcessor(model_proto=model).get_piece_size()
    special = {"eos_token_id": 2, "bos_token_id": 0, "pad_token_id": 1}
    write_toy(folder, MBartConfig, "mbart", vocab_size=pieces + codes + 2, **special | fields)
    return folder


def write_toy(folder: Path, config: type, kind: str, **fields) -> None:
    """config.json and random weights."""
    fields = {
        "model_type": kind, "max_position_embeddings": 32, "d_model": 8, "encoder_layers": 1, "encoder_ffn_dim": 12,
        "encoder_attention_heads": 2, "decoder_layers": 1, "decoder_ffn_dim": 10, "decoder_attention_heads": 2,
    } | fields  # fmt: skip
    rng = np.random.default_rng(3)
    shapes = bart.tensor_shapes(config.from_json(fields))
    write_safetensors(folder / "model.safetensors", {n: rng.normal(0, 0.4, s).astype("f4") for n, s in shapes.items()})
    write_json(folder / "config.json", fields)


def change(folder: Path, file: str, **fields) -> None:
    path = folder / file
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    write_json(path, {name: v for name, v in (known | fields).items() if v is not None})


# ---- Marian ----------------------------------------------------------------------------------------------------------


def test_a_marian_reads_and_writes_by_its_own_vocabulary(models, tmp_path):
    folder = write_marian(tmp_path / "m", models)
    model, vocabulary = md.load(folder), json.loads((folder / "vocab.json").read_text(encoding="utf-8"))
    pieces = sentencepiece().SentencePieceProcessor(model_proto=models[0]).encode(TEXT, out_type=str)
    assert model.tokenizer.encode(TEXT).tolist() == [*(vocabulary[p] for p in pieces), 0]
    assert model.tokenizer.decode(model.tokenizer.encode(TEXT)) == TEXT
    german = "die katze sass auf der matte"
    assert model.tokenizer.decode(model.tokenizer.encode_target(german)) == german
    assert model.tokenizer.encode("the \u6f22")[-2:].tolist() == [1, 0], "what is in no vocabulary is <unk>"
    out = model.generate([TEXT, "a mat"], num_beams=2, max_new_tokens=6)
    assert all(vocabulary["<pad>"] not in ids for ids in out.token_ids) and len(out.texts) == 2
    score = model.score(TEXT, targets=german)
    assert len(score.token_ids[0]) == len(model.tokenizer.encode_target(german))
    assert "".join(model.stream(TEXT, max_new_tokens=6)) == model.generate(TEXT, max_new_tokens=6).texts[0]


def test_a_marian_of_several_languages_takes_one_from_the_text_or_the_call(models, tmp_path):
    folder = write_marian(tmp_path / "m", models, codes=(">>fr<<", ">>de<<"))
    model = md.load(folder)
    code = model.tokenizer.token_to_id(">>fr<<")
    ids = model.tokenizer.encode(f">>fr<<{TEXT}").tolist()
    assert ids[0] == code and model.tokenizer.encode(f">>fr<< {TEXT}").tolist() == ids
    assert md.load(folder, target_lang="fr").tokenizer.encode(TEXT).tolist() == ids
    chosen = md.load(folder, target_lang="fr")
    assert chosen.tokenizer.encode(f">>de<<{TEXT}")[0] == chosen.tokenizer.token_to_id(">>de<<"), "the text goes first"
    assert pickle.loads(pickle.dumps(chosen)).tokenizer.encode(TEXT).tolist() == ids
    with pytest.raises(
        md.InputError, match=r"several languages, and the text says no language: .*>>fr<<.*or give target"
    ):
        model.generate(TEXT)
    with pytest.raises(md.InputError, match="begins with >>xx<<, which is none of its languages"):
        model.generate(f">>xx<< {TEXT}")
    with pytest.raises(md.OptionError, match="target_lang 'it' is none of this model's: fr, de"):
        md.load(folder, target_lang="it")


def test_a_marian_of_two_languages_checks_them(models, tmp_path):
    folder = write_marian(tmp_path / "m", models, source_lang="en", target_lang="de")
    plain = md.load(folder).tokenizer.encode(TEXT).tolist()
    assert md.load(folder, source_lang="en", target_lang="de").tokenizer.encode(TEXT).tolist() == plain
    with pytest.raises(md.OptionError, match="target_lang 'fr': this model translates into 'de': leave it out"):
        md.load(folder, target_lang="fr")
    with pytest.raises(md.OptionError, match="source_lang 'fr': this model translates from 'en': leave it out"):
        md.load(folder, source_lang="fr")


def test_languages_that_nothing_can_check_are_refused(models, tmp_path):
    """Not passed over: the text would come in another language than was asked for."""
    folder = write_marian(tmp_path / "m", models)
    with pytest.raises(md.OptionError, match="target_lang 'xx': its files do not say into which it translates: leave"):
        md.load(folder, target_lang="xx")
    with pytest.raises(md.OptionError, match="source_lang 'xx': its files do not say from which it translates: leave"):
        md.load(folder, source_lang="xx")
    folder = write_marian(tmp_path / "several", models, codes=(">>fr<<", ">>de<<"), source_lang="en")
    with pytest.raises(md.OptionError, match="source_lang 'it': this model translates from 'en': leave it out"):
        md.load(folder, source_lang="it", target_lang="fr")
    assert md.load(folder, source_lang="en", target_lang="fr").tokenizer.code == ">>fr<<"


def test_a_damaged_model_of_many_fields_takes_no_memory():
    """Many fields of two bytes, as of a file that is something else."""
    from minidecode.files.sentencepiece_tokenizer import model_kind

    data = b"\x18\x01" * 2**15
    kind, peak = peak_of(lambda: model_kind(data), 2**16)
    assert kind is None and peak < 2**16, peak


def test_a_plan_takes_the_languages_that_load_takes(models, tmp_path):
    folder = write_mbart(tmp_path / "m", models[2], 52, decoder_start_token_id=2)
    assert load_shapes(folder, source_lang="de", target_lang="en").config.d_model == 8
    with pytest.raises(md.OptionError, match="target_lang 'xx' is none of this model's"):
        load_shapes(folder, target_lang="xx")


def test_separate_vocabularies(models, tmp_path):
    """Ids of a target's pieces are the target's own; and its own model joins them."""
    folder = write_marian(tmp_path / "m", models, separate_vocabs=True)
    vocabulary = json.loads((folder / "vocab.json").read_text(encoding="utf-8"))
    target = dict(zip(vocabulary, [0, 1, *range(len(vocabulary) - 2, 1, -1), len(vocabulary) - 1], strict=True))
    write_json(folder / "target_vocab.json", target)
    tokenizer = md.load(folder).tokenizer
    german = "die katze sass"
    assert tokenizer.decode(tokenizer.encode_target(german)) == german
    assert tokenizer.encode_target(german).tolist() != tokenizer.encode(german).tolist()


def spoil(folder: Path, models, how: str) -> None:
    source = folder / "source.spm"
    if how == "truncated":
        source.write_bytes(models[0][: len(models[0]) * 2 // 3])
    if how == "empty":
        source.write_bytes(b"")
    if how == "text":
        source.write_bytes(b"#version: 0.2\na b\n")
    if how == "kind":
        source.write_bytes(models[2])
    if how == "no target":
        (folder / "target.spm").unlink()
    if how == "size":
        change(folder, "vocab.json", more=1000)
    if how == "ids":
        change(folder, "vocab.json", **{"<unk>": "1"})
    if how == "one id":
        change(folder, "vocab.json", **{"<unk>": 0})


@pytest.mark.parametrize(
    ("how", "say"),
    [("truncated", "source.spm is no SentencePiece model, or is cut short: download"),
     ("empty", "source.spm is no SentencePiece model"), ("text", "source.spm is no SentencePiece model"),
     ("kind", "source.spm is a SentencePiece model of kind BPE, and this model needs unigram"),
     ("no target", "has no target.spm: a Marian needs source.spm, target.spm, vocab.json"),
     ("size", "pieces and the model's table has .* rows: use the vocabulary"),
     ("ids", "the id of '<unk>' must be an integer from 0 up, not '1'"),
     ("one id", "vocab.json: '</s>' and '<unk>' have the same id 0: use the tokenizer")],
)  # fmt: skip
def test_files_that_are_not_this_models(how, say, models, tmp_path):
    folder = write_marian(tmp_path / "m", models)
    spoil(folder, models, how)
    with pytest.raises(md.CheckpointError, match=say):
        md.load(folder)


def test_without_the_package_the_error_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "sentencepiece", None)
    shutil.copytree(FOLDERS[0], tmp_path / "m")
    for name in ("source.spm", "target.spm", "vocab.json"):
        (tmp_path / "m" / name).write_bytes(b"{}")
    with pytest.raises(md.OptionError, match=r"the package sentencepiece is missing: pip install .*sentencepiece"):
        md.load(tmp_path / "m")


def test_a_special_token_of_marian_stands_for_itself(models, tmp_path):
    """As in transformers: SentencePiece sees what is between them. Settings may name more, and codes may follow."""
    folder = write_marian(tmp_path / "m", models, codes=(">>fr<<",), additional_special_tokens=[">>fr<<"])
    vocabulary = json.loads((folder / "vocab.json").read_text(encoding="utf-8"))
    t = md.load(folder, target_lang="fr").tokenizer
    spm = sentencepiece().SentencePieceProcessor(model_proto=models[0])

    def pieces(*parts: str) -> list[int]:
        each = [[part] if part[0] in "<>" else spm.encode(part, out_type=str) for part in parts]
        return [vocabulary.get(piece, 1) for part in each for piece in part]

    assert t.encode("the cat</s> sat").tolist() == pieces(">>fr<<", "the cat", "</s>", "sat", "</s>")
    assert t.encode("a <unk> mat<pad>").tolist() == pieces(">>fr<<", "a", "<unk>", "mat", "<pad>", "</s>")
    assert t.encode(">>fr<<the </s>>>fr<< cat").tolist() == pieces(">>fr<<", "the", "</s>", ">>fr<<", "cat", "</s>")
    assert t.token_to_id(">>fr<<") in t.special_ids and ">>fr<<" not in t.decode(pieces(">>fr<<", "the"))
    assert t.encode_target("<unk>").tolist() == [1, 0]


# ---- mBART -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codes", [25, 52])
def test_a_special_token_of_mbart_stands_for_itself(codes, models, tmp_path):
    folder = write_mbart(tmp_path / "m", models[0], codes, decoder_start_token_id=2 if codes == 52 else None)
    change(folder, "tokenizer_config.json", additional_special_tokens=["cat"])
    t = md.load(folder, source_lang="de", target_lang="en").tokenizer
    spm, mask, fr = sentencepiece().SentencePieceProcessor(model_proto=models[0]), t.token_to_id("<mask>"), "fr_XX"

    def pieces(text: str) -> list[int]:
        return [i + 1 if i else 3 for i in spm.encode(text)]

    assert t.piece_ids("the <mask> sat") == [*pieces("the"), mask, *pieces("sat")]
    assert t.piece_ids("the</s>mat <unk>fr_XX") == [*pieces("the"), 2, *pieces("mat"), 3, t.token_to_id(fr)]
    assert t.encode_target("<mask> a").tolist()[-len(pieces("a")) - 2 :] == [mask, *pieces("a"), 2]
    assert t.decode([mask, *pieces("the mat"), 2, t.token_to_id(fr)]) == "the mat"


@pytest.mark.parametrize("codes", [25, 52])
def test_a_cut_source_keeps_what_closes_it(codes, models, tmp_path):
    """mBART ends in </s> and a language; mBART-50 has its language in front. Token ids of a caller are cut so too."""
    folder = write_mbart(tmp_path / "m", models[0], codes, decoder_start_token_id=2 if codes == 52 else None)
    model = md.load(folder, source_lang="de", target_lang="en")
    text, context = " ".join(WORDS * 5), model.config.source_context
    whole = model.tokenizer.encode(text).tolist()
    wanted = [*whole[: context - 1], 2] if codes == 52 else whole[: context - 2] + whole[-2:]
    assert len(whole) > context and whole[-2:][codes == 52] == 2
    options = model.options(max_new_tokens=2)
    assert model.tokenize(text, options, truncate=True).tolist() == wanted
    for tokenizer in (model.tokenizer, None):
        inputs = dataclasses.replace(model.inputs, tokenizer=tokenizer)
        (cut,), *_ = inputs.fit_call(None, [whole], None, options, True)
        assert cut.tolist() == wanted


@pytest.mark.parametrize(
    ("row", "most", "closing", "cut"),
    [([1, 2, 3, 4, 5], 3, 2, [1, 4, 5]), ([1, 2, 3, 4, 5], 3, 0, [1, 2, 3]), ([1, 2, 3, 4, 5], 1, 2, [5]),
     ([1, 2, 3], 3, 2, [1, 2, 3]), ([1, 2, 3, 4], 2, 2, [3, 4])],
)  # fmt: skip
def test_what_goes_stands_in_front_of_what_closes_a_row(row, most, closing, cut):
    assert cut_before_closing(np.array(row), most, closing).tolist() == cut_before_closing(row, most, closing) == cut
    context = most + 4  # of which a target takes four
    assert cut_sources([np.array(row)], [4], context, True, [closing])[0].tolist() == cut
    assert fit_sources([np.array(row)], most, True, [closing])[0].tolist() == cut


@pytest.mark.parametrize("kind", ["marian", "mbart"])
def test_a_lines_prefix_is_read_as_a_target(kind, models, tmp_path):
    """A Marian's target.spm makes its pieces; no language stands behind an mBART's."""
    folder = tmp_path / "m"
    if kind == "marian":
        model = md.load(write_marian(folder, models))
    else:
        model = md.load(write_mbart(folder, models[0], 25), source_lang="de", target_lang="en")
    wanted = model.tokenizer.encode_target("katze")[:-1].tolist()
    line = {"prompt": "the cat", "prefix": "katze", "max_new_tokens": len(wanted) + 2}
    (done,) = md.generate_lines(model, [line])
    assert done.token_ids[0][: len(wanted)].tolist() == wanted


@pytest.mark.parametrize("codes", [25, 52])
def test_mbart_puts_codes_where_its_kind_has_them(codes, models, tmp_path):
    folder = write_mbart(tmp_path / "m", models[2], codes, decoder_start_token_id=2 if codes == 52 else None)
    model = md.load(folder, source_lang="de", target_lang="en_XX")
    t = model.tokenizer
    pieces = [i + 1 for i in sentencepiece().SentencePieceProcessor(model_proto=models[2]).encode(TEXT)]
    de, en = t.token_to_id("de_DE"), t.token_to_id("en_XX")
    assert (de, en) == (t.first + 2, t.first + 3) and t.token_to_id("<mask>") == model.config.vocab_size - 1
    assert t.encode(TEXT).tolist() == ([de, *pieces, 2] if codes == 52 else [*pieces, 2, de])
    assert t.encode_target(TEXT).tolist() == ([en, *pieces, 2] if codes == 52 else [*pieces, 2])
    assert t.decode(t.encode(TEXT)) == TEXT and t.encode("\u6f22").tolist().count(3) == 1
    options = model.options()
    assert options.decoder_start_token_id == (2 if codes == 52 else en)
    assert options.forced_bos_token_id == ((en,) if codes == 52 else ())
    out = model.generate(TEXT, max_new_tokens=4)
    assert len(out.texts) == 1 and (codes == 25 or out.token_ids[0][0] == en)
    if codes == 52:  # the call's own language goes first
        fr = t.token_to_id("fr_XX")
        assert model.generate(TEXT, max_new_tokens=4, forced_bos_token_id=fr).token_ids[0][0] == fr


@pytest.mark.parametrize("codes", [25, 52])
def test_each_id_of_an_mbart_has_its_piece(codes, models, tmp_path):
    """fairseq's order: four special tokens, then SentencePiece's pieces from its third on, the codes and the mask."""
    from minidecode.files.sentencepiece_tokenizer import CC25, MBART50

    t = md.load(write_mbart(tmp_path / "m", models[2], codes, decoder_start_token_id=2)).tokenizer
    model = sentencepiece().SentencePieceProcessor(model_proto=models[2])
    own = [model.id_to_piece(i) for i in range(3, model.get_piece_size())]
    pieces = ["<s>", "<pad>", "</s>", "<unk>", *own, *(CC25 if codes == 25 else MBART50), "<mask>"]
    assert [t.token_to_id(piece) for piece in pieces] == list(range(len(pieces))) and t.size == len(pieces)
    assert [t.token_to_id(piece) for piece in model.encode(TEXT, out_type=str)] == t.piece_ids(TEXT)
    assert t.token_to_id("\u6f22") is None and t.token_to_id("xx_XX") is None
    assert t.decode([len(pieces) - 1], keep_special=True) == "<mask>"
    assert t.decode(range(len(pieces))) == model.decode_pieces(own).strip()


def test_each_id_of_a_marian_has_its_piece(models, tmp_path):
    """Ids of targets; the sources' own, where each side has a vocabulary."""
    folder = write_marian(tmp_path / "m", models, separate_vocabs=True)
    vocabulary = json.loads((folder / "vocab.json").read_text(encoding="utf-8"))
    target = dict(zip(vocabulary, [0, 1, *range(len(vocabulary) - 2, 1, -1), len(vocabulary) - 1], strict=True))
    write_json(folder / "target_vocab.json", target)
    t = md.load(folder).tokenizer
    assert {piece: t.token_to_id(piece) for piece in target} == target and t.token_to_id("\u6f22") is None


@pytest.mark.parametrize("codes", [25, 52])
def test_missing_and_unknown_languages(codes, models, tmp_path):
    folder = write_mbart(tmp_path / "m", models[2], codes, decoder_start_token_id=2 if codes == 52 else None)
    with pytest.raises(md.InputError, match="mBART needs the language of its sources: give source_lang, one of ar_AR"):
        md.load(folder, target_lang="en").generate(TEXT)
    with pytest.raises(md.OptionError, match=r"source_lang 'de_DD' is none of this model's: .*did you mean de_DE"):
        md.load(folder, source_lang="de_DD")
    missing = (
        "mBART-50 needs the language of its targets" if codes == 52 else "decoder_start_token_id is set nowhere: .*t"
    )
    with pytest.raises(md.OptionError, match=f"{missing}.*give target_lang"):
        md.load(folder, source_lang="de").generate(TEXT)


def test_a_vocabulary_of_another_size_and_a_damaged_model(models, tmp_path):
    folder = write_mbart(tmp_path / "m", models[2], 30)
    with pytest.raises(md.CheckpointError, match="with 2 more and 25 or 52 codes of languages they should agree"):
        md.load(folder)
    (folder / "sentencepiece.bpe.model").write_bytes(models[2][:200])
    with pytest.raises(
        md.CheckpointError, match=r"sentencepiece\.bpe\.model is no SentencePiece model, or is cut short"
    ):
        md.load(folder)


def test_the_command_line_takes_languages(models, tmp_path):
    folder = write_mbart(tmp_path / "m", models[2], 52, decoder_start_token_id=2)
    command = [sys.executable, "-m", "minidecode", "generate", "-m", str(folder), "--source-lang", "de",
               "--max-new-tokens", "4", "--json", "--quiet", TEXT, "--target-lang"]  # fmt: skip
    t = md.load(folder).tokenizer
    for language, code in (("en", "en_XX"), ("fr_XX", "fr_XX")):
        run = subprocess.run([*command, language], capture_output=True, text=True, check=True)
        assert t.token_to_id(code) in json.loads(run.stdout)["hypotheses"][0]["token_ids"][:1], run.stdout
    run = subprocess.run([*command, "xx"], capture_output=True, text=True)
    assert run.returncode == 1 and "--target-lang 'xx' is none of this model's: ar_AR" in run.stderr


def test_a_tokenizer_json_has_the_codes_too(tmp_path):
    """transformers 5 writes mBART's pieces so, with the languages of its own last call."""
    from tokenizers import Tokenizer, pre_tokenizers
    from tokenizers import models as kinds

    from minidecode.files.sentencepiece_tokenizer import CC25

    tokens = ["<s>", "<pad>", "</s>", "<unk>", *dict.fromkeys(WORDS), *CC25, "<mask>"]
    tokenizer = Tokenizer(kinds.WordLevel({token: i for i, token in enumerate(tokens)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.add_special_tokens([*CC25, "</s>"])
    write_toy_folder(tmp_path / "m", len(tokens))
    tokenizer.save(str(tmp_path / "m" / "tokenizer.json"))
    model = md.load(tmp_path / "m", source_lang="de", target_lang="en")
    words = [tokens.index(word) for word in TEXT.split()]
    assert model.tokenizer.encode(TEXT).tolist() == [*words, 2, tokens.index("de_DE")]
    assert model.options().decoder_start_token_id == tokens.index("en_XX")
    write_toy_folder(tmp_path / "none", 40)
    Tokenizer(kinds.WordLevel({"a": 0}, unk_token="a")).save(str(tmp_path / "none" / "tokenizer.json"))
    with pytest.raises(md.CheckpointError, match=r"tokenizer\.json lacks codes of mBART's languages"):
        md.load(tmp_path / "none")


def write_toy_folder(folder: Path, size: int) -> None:
    folder.mkdir()
    write_toy(folder, MBartConfig, "mbart", vocab_size=size, eos_token_id=2)
