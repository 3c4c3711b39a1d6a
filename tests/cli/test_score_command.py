"""`minidecode score`: thin over Model.score, and how it fails."""

from __future__ import annotations

import json
import math
import re

import pytest
from toy_folder import BART_CONFIG, toy_tensors, write_bart_folder

import minidecode as md

TEXTS = ["the sea", "<|endoftext|>other things", "a\\nb"]


def as_lines(records) -> str:
    return "".join(json.dumps(r) + "\n" for r in records)


def test_a_table_of_texts_and_all_of_them(cli, toy):
    ran = cli("score", *TEXTS, "-m", toy)
    scores = md.load(toy).score(TEXTS)
    head, *lines, last = ran.out.splitlines()
    assert head.split() == ["tokens", "log-prob", "perplexity", "bits/byte", "text"]
    for line, s in zip([*lines, last], [*scores, scores], strict=True):
        numbers = [f"{s.tokens.sum()}", f"{s.log_probs.sum():.3f}", f"{s.perplexity:.3f}", f"{s.bits_per_byte:.4f}"]
        assert line.split()[:4] == numbers
    assert lines[0].endswith("  the sea") and last.endswith("  all 3 texts")
    assert ran.code == 0 and ran.err.count("\n") == 1 and "tokens scored in" in ran.err and str(toy) in ran.err


def test_one_text_has_one_line_and_long_ones_are_cut(cli, toy):
    _, line = cli("score", "x" * 60, "-m", toy).out.splitlines()
    assert line.endswith("  " + "x" * 45 + "...")


def test_line_breaks_are_shown_as_one_line(cli, toy):
    _, line = cli("score", "a\nb", "-m", toy).out.splitlines()
    assert line.endswith("  a\\nb")


def test_json(cli, toy):
    found = json.loads(cli("score", *TEXTS, "-m", toy, "--json").out)
    scores = md.load(toy).score(TEXTS)
    assert [text["prompt"] for text in found["texts"]] == TEXTS
    for text, s in zip([*found["texts"], found["all"]], [*scores, scores], strict=True):
        assert text["tokens"] == s.tokens.sum() and text["bytes"] == sum(s.bytes)
        assert text["log_prob"] == pytest.approx(s.log_probs.sum())
        assert text["perplexity"] == pytest.approx(s.perplexity)
        assert text["bits_per_byte"] == pytest.approx(s.bits_per_byte)
    assert [text["token_ids"] for text in found["texts"]] == [ids.tolist() for ids in scores.token_ids]
    assert all("".join(text["token_texts"]) and text["prompt"].endswith("".join(text["token_texts"]))
               for text in found["texts"])  # fmt: skip
    assert found["texts"][1]["token_log_probs"] == pytest.approx(scores.token_log_probs[1].tolist())


@pytest.mark.parametrize("way", ["--input FILE", "--input -", "-"])
def test_texts_from_a_file_or_standard_input(cli, toy, tmp_path, way):
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(TEXTS) + "\n")
    arguments = [path if a == "FILE" else a for a in way.split()]
    stdin = b"" if "FILE" in way else path.read_bytes()
    assert cli("score", *arguments, "-m", toy, stdin=stdin).out == cli("score", *TEXTS, "-m", toy).out


def test_fields_of_jsonl_are_carried_through(cli, toy):
    record = {"id": 7, "prompt": "the sea"}
    found = json.loads(cli("score", "-", "--jsonl", "--json", "-m", toy, stdin=json.dumps(record).encode()).out)
    assert {key: found["texts"][0][key] for key in record} == record


PAIRS = [{"prompt": "the sea", "target": " and"}, {"prompt": "a", "target": "b"}]


@pytest.mark.parametrize("family", ["toy", "toy_bart"])
def test_targets_are_scored_given_their_prompts(cli, family, request, tmp_path):
    folder = request.getfixturevalue(family)
    (tmp_path / "pairs.jsonl").write_text(as_lines(PAIRS))
    found = json.loads(cli("score", "-i", tmp_path / "pairs.jsonl", "-m", folder, "--json").out)
    scores = md.load(folder).score([p["prompt"] for p in PAIRS], targets=[p["target"] for p in PAIRS])
    assert [text["log_prob"] for text in found["texts"]] == pytest.approx(scores.log_probs.tolist())
    table = cli("score", "-i", tmp_path / "pairs.jsonl", "-m", folder).out
    assert table.splitlines()[1].endswith("   and"), "the text of the table is what was scored"


@pytest.mark.parametrize(("arguments", "options"), [
    (["--stride", 1], {"stride": 1}), (["--dtype", "float64"], {}),
])  # fmt: skip
def test_an_option_reaches_the_model(cli, toy, arguments, options):
    long = "the other sea " * 4
    found = json.loads(cli("score", long, "-m", toy, "--json", *arguments).out)["all"]
    model = md.load(toy, dtype="float64" if "--dtype" in arguments else "float32")
    assert found["log_prob"] == model.score(long, **options).log_probs.sum()
    assert found["log_prob"] != json.loads(cli("score", long, "-m", toy, "--json").out)["all"]["log_prob"]


def test_truncate_cuts_sources(cli, fails, toy_bart, tmp_path):
    (tmp_path / "long.jsonl").write_text(as_lines([{"prompt": "x" * 30, "target": "b"}]))
    assert "long.jsonl, line 1: the source has 32 tokens" in fails(
        "score", "-i", tmp_path / "long.jsonl", "-m", toy_bart
    )
    assert cli("score", "-i", tmp_path / "long.jsonl", "-m", toy_bart, "--truncate").code == 0


def test_quiet(cli, toy):
    assert cli("score", "a b", "-m", toy, "--quiet").err == ""


def test_numbers_that_json_does_not_know_are_null(cli, tmp_path):
    """An impossible token, and a text without bytes."""
    tensors = toy_tensors(BART_CONFIG)
    tensors["final_logits_bias"][0, 2] = -math.inf
    folder = write_bart_folder(tmp_path / "b", tensors)
    (tmp_path / "p.jsonl").write_text(as_lines([{"prompt": "a", "target": ""}]))
    found = json.loads(cli("score", "-i", tmp_path / "p.jsonl", "-m", folder, "--json").out)["all"]
    assert found["log_prob"] is found["perplexity"] is found["bits_per_byte"] is None
    assert "nan" in cli("score", "-i", tmp_path / "p.jsonl", "-m", folder).out


def test_a_tokenizer_that_is_not_made_of_bytes(cli, toy):
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = Tokenizer(models.WordLevel({"the": 1, "sea": 2}, unk_token="the"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    words.save(str(toy / "tokenizer.json"))
    assert cli("score", "the sea", "-m", toy).out.splitlines()[1].split()[3] == "-"
    assert json.loads(cli("score", "the sea", "-m", toy, "--json").out)["all"]["bits_per_byte"] is None


def test_help(cli):
    for command in ("score", "evaluate"):
        ran = cli(command, "--help")
        assert (ran.code, ran.err) == (0, "") and ran.out.startswith(f"Usage: minidecode {command}")


@pytest.mark.parametrize("arguments", [[], ["--stride", 3]])
def test_texts_of_one_length_go_together_and_come_out_in_their_order(cli, toy, tmp_path, monkeypatch, arguments):
    monkeypatch.setattr("minidecode.lines.score_lines.TOGETHER", 2)
    texts = ["the sea", "a b", "the other sea " * 3, "b a", "other things the"] * 9  # more than a window
    (tmp_path / "t.txt").write_text("\n".join(texts), encoding="utf-8")
    found = json.loads(cli("score", "-i", tmp_path / "t.txt", "-m", toy, "--json", *arguments).out)
    scores = md.load(toy).score(texts, stride=3 if arguments else None)
    assert [text["prompt"] for text in found["texts"]] == texts
    assert [text["log_prob"] for text in found["texts"]] == pytest.approx(scores.log_probs.tolist())
    assert found["all"]["tokens"] == scores.tokens.sum() and found["all"]["bytes"] == sum(scores.bytes)


# --- failures ---


BAD_LINES = ["a b", "x", "the sea", "a zoo"]  # one token alone, and a letter that makes this model's scores NaN


def test_errors_are_their_lines(cli, fails, fails_on_z, tmp_path):
    path = tmp_path / "t.txt"
    path.write_text("\n".join(BAD_LINES), encoding="utf-8")
    alone = json.loads(cli("score", "a b", "the sea", "-m", fails_on_z, "--json").out)
    assert "t.txt, line 2: the text has one token" in fails("score", "-i", path, "-m", fails_on_z)
    skipped = cli("score", "-i", path, "-m", fails_on_z, "--on-error", "skip", "--json")
    assert skipped.code == 0 and json.loads(skipped.out) == alone
    assert re.search(r"2 of 4 lines left out; the first: .*t.txt, line 2: the text has one token", skipped.err)
    told = json.loads(cli("score", "-i", path, "-m", fails_on_z, "--on-error", "record", "--json").out)["texts"]
    assert [text for text in told if "error" not in text] == alone["texts"]
    assert [(text["prompt"], text["line"]) for text in told if "error" in text] == [("x", 2), ("a zoo", 4)]
    assert "NaN in the text" in told[3]["error"]
    for on_error, says in (("record", "say --json too"), ("ignore", "--on-error must be one of stop, skip, record")):
        assert says in fails("score", "a b", "-m", fails_on_z, "--on-error", on_error)
    assert "line 1: the text has one" in fails("score", "-", "-m", fails_on_z, "--on-error", "skip", stdin=b"x\n")


@pytest.mark.parametrize(("arguments", "named"), [
    ([], "give a text"), (["a b", "-i", "p.txt"], "not both"), (["a b", "x"], "text 2: the text has one token"),
    (["a b", "--stride", 17], "from 1 to the context, 16"), (["a b", "--dtype", "half"], "dtype must be one of"),
    (["a b", ""], "text 2 is blank"), (["a b", " "], "text 2 is blank"),
    (["a b", "--truncate"], "truncate is for sources"),
    (["a b", "--jsonl"], "--jsonl is for files: the texts here are arguments"),
])  # fmt: skip
def test_what_cannot_be_scored(fails, toy, arguments, named):
    assert named in fails("score", "-m", toy, *arguments)


def test_a_blank_line_and_a_dash_are_told_of_texts(cli, fails, toy, tmp_path):
    (tmp_path / "t.txt").write_text("a b\n \nc\n", encoding="utf-8")
    says = "line 2 is blank: each line is a text; delete it, or say --on-error skip\n"
    assert says in fails("score", "-i", tmp_path / "t.txt", "-m", toy)
    assert "; put -- before a text that begins with -" in fails("score", "-5", code=2)
    assert "; put -- before a prompt that begins with -" in fails("generate", "-5", code=2)
    assert "goes behind" not in fails("doctor", "-5", code=2)


def test_an_encoder_decoder_needs_targets(fails, toy_bart):
    message = fails("score", "a b", "-m", toy_bart)
    assert "targets given their sources" in message and '"target"' in message


def test_every_record_has_a_target_or_none(fails, toy, tmp_path):
    (tmp_path / "p.jsonl").write_text(as_lines([PAIRS[0], {"prompt": "a"}]))
    assert 'p.jsonl, line 2 has no text under "target": give all lines one, or none' in fails(
        "score", "-i", tmp_path / "p.jsonl", "-m", toy
    )


def test_nan_weights_are_named(fails, fails_on_z):
    assert "text 2: the model's scores are NaN in the text: the weights" in fails(
        "score", "a b", "a zoo", "-m", fails_on_z
    )
