"""`minidecode generate`: what goes in, what comes out, and how it fails."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from toy_folder import CONFIG, newline_tensors, toy_tensors, write_folder, write_json

import minidecode as md
from minidecode.options.options import Options
from minidecode.runtime.prompts import fairseq_limit

PROMPTS = ["the sea", "a", "other things"]
FEW = ["--max-new-tokens", "3"]


@pytest.fixture
def expected(toy):
    """What the library says for PROMPTS, as the command line writes it: one text per line."""
    texts = md.load(toy).generate(PROMPTS, max_new_tokens=3).texts
    return "".join(text.replace("\n", "\\n") + "\n" for text in texts)


# --- inputs ---


def test_prompts_as_arguments(cli, toy, expected):
    assert cli("generate", *PROMPTS, "-m", toy, *FEW).out == expected


BOM = b"\xef\xbb\xbf"
LINES = "\n".join(PROMPTS).encode()
FILES = {
    "without a last line end": LINES,
    "with a last line end": LINES + b"\n",
    "of Windows": LINES.replace(b"\n", b"\r\n") + b"\r\n",
    "with a byte order mark": BOM + LINES,
}


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize("way", ["--input FILE", "--input -", "-"])
def test_one_prompt_per_line(cli, toy, expected, tmp_path, kind, way):
    path = tmp_path / "prompts.txt"
    path.write_bytes(FILES[kind])
    arguments = [path if a == "FILE" else a for a in way.split()]
    stdin = b"" if "FILE" in way else FILES[kind]
    ran = cli("generate", *arguments, "-m", toy, *FEW, stdin=stdin)
    assert (ran.code, ran.out) == (0, expected)


@pytest.mark.parametrize(("name", "flag"), [("p.jsonl", []), ("p.txt", ["--jsonl"])])
def test_jsonl(cli, toy, expected, tmp_path, name, flag):
    (tmp_path / name).write_text("".join(json.dumps({"prompt": p}) + "\n" for p in PROMPTS))
    assert cli("generate", "-i", tmp_path / name, *flag, "-m", toy, *FEW).out == expected


def test_fields_of_jsonl_are_carried_through(cli, toy):
    record = {"id": 7, "prompt": "the", "nested": {"é": [None, 1.5]}}
    ran = cli("generate", "-", "--jsonl", "--json", "-m", toy, *FEW, stdin=json.dumps(record).encode())
    written = json.loads(ran.out)
    assert {key: written[key] for key in record} == record


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_the_batch_size_changes_no_text(cli, toy, expected, size):
    assert cli("generate", *PROMPTS, "-m", toy, *FEW, "--batch-size", size).out == expected


# --- outputs ---


def test_json_of_every_hypothesis(cli, toy):
    ran = cli("generate", *PROMPTS, "-m", toy, *FEW, "--num-beams", 3, "--num-return-sequences", 2, "--json")
    out = md.load(toy).generate(PROMPTS, max_new_tokens=3, num_beams=3, num_return_sequences=2)
    records = [json.loads(line) for line in ran.out.splitlines()]
    assert [r["prompt"] for r in records] == PROMPTS
    found = [h for r in records for h in r["hypotheses"]]
    assert [h["text"] for h in found] == out.texts
    assert [h["token_ids"] for h in found] == [ids.tolist() for ids in out.token_ids]
    assert [h["score"] for h in found] == pytest.approx(out.scores)


def test_a_single_text_is_shown_as_it_is(cli, tmp_path):
    folder = write_folder(tmp_path / "newlines", newline_tensors(CONFIG))
    assert cli("generate", "the", "-m", folder, *FEW).out == "\n\n\n\n"


@pytest.mark.parametrize("arguments", [["the", "a"], ["the", "--num-beams", "2", "--nbest", "2"]])
def test_of_several_texts_each_has_one_line(cli, tmp_path, arguments):
    folder = write_folder(tmp_path / "newlines", newline_tensors(CONFIG))
    lines = cli("generate", *arguments, "-m", folder, *FEW).out.splitlines()
    assert len(lines) == 2 and lines[0] == "\\n\\n\\n"


def test_several_texts_by_generation_config_have_one_line_each(cli, tmp_path):
    folder = write_folder(tmp_path / "newlines", newline_tensors(CONFIG))
    write_json(folder / "generation_config.json", {"num_beams": 2, "num_return_sequences": 2, "max_new_tokens": 3})
    assert len(cli("generate", "the", "-m", folder).out.splitlines()) == 2


def test_the_text_goes_to_stdout_and_the_rate_to_stderr(cli, toy, expected):
    ran = cli("generate", PROMPTS[0], "-m", toy, *FEW)
    assert ran.out.rstrip("\n") == expected.splitlines()[0]
    assert ran.err.count("\n") == 1 and "3 tokens in" in ran.err and "toy-gpt2, auto]" in ran.err


def test_quiet(cli, toy):
    assert cli("generate", "the", "-m", toy, "--quiet").err == ""


def test_receipt(cli, toy):
    err = cli("generate", "the", "-m", toy, "--receipt", "--plan", "cache=none").err
    assert "plan cache=none" in err and "linear" in err


def test_output_file(cli, toy, expected, tmp_path):
    ran = cli("generate", *PROMPTS, "-m", toy, *FEW, "-o", tmp_path / "out.txt")
    assert (ran.code, ran.out) == (0, "")
    assert (tmp_path / "out.txt").read_text(encoding="utf-8") == expected


def test_output_replaces_what_a_link_points_to_and_keeps_its_rights(cli, toy, expected, tmp_path):
    target, link = tmp_path / "target.txt", tmp_path / "link.txt"
    target.write_text("old")
    target.chmod(0o640)
    link.symlink_to(target)
    cli("generate", *PROMPTS, "-m", toy, *FEW, "-o", link)
    assert link.is_symlink() and target.read_text(encoding="utf-8") == expected
    assert target.stat().st_mode & 0o777 == 0o640


def test_a_line_says_when_the_compiler_starts(cli, toy, monkeypatch, tmp_path):
    """It may take a minute, in which nothing else is printed."""
    from numba import njit

    def compiles(loaded, *_):
        njit(lambda x: x + 1)(1)
        njit(lambda x: x + 2)(1)
        return [], 1, None

    monkeypatch.setattr("minidecode.commands.generate._generate_alone", compiles)
    told = "minidecode: compiling code for this plan, once on this machine\n"
    for plan, more, times in (("fast", [], 1), ("fast", ["-q"], 0), ("numpy", [], 0)):
        assert cli("generate", "the", "-m", toy, "--plan", plan, *more).err.count(told) == times


def test_a_file_is_not_replaced_in_silence(cli, toy, tmp_path):
    path = tmp_path / "out.txt"
    for old, told in (("", 0), ("old", 1), ("older", 0)):
        path.write_text(old)
        err = cli("generate", *PROMPTS, "-m", toy, *FEW, "-o", path, *(["-q"] if old == "older" else [])).err
        assert err.count(f"minidecode: {path} is there already: it will be replaced at the end\n") == told


# --- options ---

ALIASES = [
    ("--beam", "--num-beams", 3, []),
    ("--lenpen", "--length-penalty", 0.0, ["--num-beams", 4]),
    ("--nbest", "--num-return-sequences", 2, ["--num-beams", 4]),
    ("--min-len", "--min-new-tokens", 5, ["--eos-token-id", "THE LIKELIEST"]),
    ("--sampling-topk", "--top-k", 3, ["--do-sample"]),
    ("--unkpen", "--unk-penalty", 9.0, ["--dialect", "fairseq", "--unk-token-id", "THE LIKELIEST"]),
]


@pytest.mark.parametrize(("alias", "original", "value", "others"), ALIASES)
def test_fairseq_spellings(cli, toy, alias, original, value, others):
    likeliest = md.load(toy).generate(PROMPTS[0], max_new_tokens=1).token_ids[0][0]
    others = [likeliest if word == "THE LIKELIEST" else word for word in others]
    common = ["generate", *PROMPTS, "-m", toy, "--json", *others]
    with_alias, with_original = cli(*common, alias, value), cli(*common, original, value)
    assert with_alias.code == with_original.code == 0
    assert with_alias.out == with_original.out
    assert with_alias.out != cli(*common).out


def test_the_limit_in_fairseqs_spelling_leaves_room_for_the_end(cli, toy):
    common = ["generate", *PROMPTS, "-m", toy, "--json", "--ignore-eos"]
    assert cli(*common, "--max-len-b", 5).out == cli(*common, "--max-new-tokens", 6).out


def test_a_limit_of_fairseq_that_shrinks_with_the_source(cli, fails, toy):
    """2 * 7 - 3 = 11 tokens and the end; of one token of source nothing is left, of two less than the least length."""
    limit = ["-m", toy, "--max-len-a", 2, "--max-len-b", -3]
    shrunk = md.load(toy).options(max_len_a=2.0, max_len_b=-3)
    assert fairseq_limit(np.arange(1, 8), shrunk) == 12
    ran = cli("generate", "xyzxy", "--json", "--ignore-eos", *limit)
    assert len(json.loads(ran.out)["hypotheses"][0]["token_ids"]) == 8
    assert "--max-len-a 2 and --max-len-b -3 leave prompt 1 of 1 no new token" in fails("generate", "x", *limit)
    fairseqs = [*limit, "--dialect", "fairseq", "--eos-token-id", 0, "--min-len", 2]
    assert "--min-new-tokens 2 is above what prompt 1" in fails("generate", "xy", *fairseqs)
    assert "--max-len-b must be an integer from 0 up" in fails("generate", "x", "-m", toy, "--max-len-b", -3)


def test_match_source_len(cli, fails, toy_bart):
    """The source's tokens beside </s>, and the end."""
    common = ["generate", "the sea", "-m", toy_bart, "--json", "--dialect", "fairseq", "--beam", 2, "--min-len", 4]
    size = len(md.load(toy_bart).tokenizer.encode("the sea"))
    ran = cli(*common, "--match-source-len")
    assert ran.code == 0 and ran.out == cli(*common, "--max-new-tokens", size).out
    assert ran.out != cli(*common, "--max-new-tokens", size + 1).out
    words = "--match-source-len and --max-new-tokens are two spellings"
    assert words in fails(*common, "--match-source-len", "--max-new-tokens", 5)
    assert cli("trace", "the sea", "-m", toy_bart, "--dialect", "fairseq", "--match-source-len").code == 0


def test_a_beam_wider_than_the_vocabulary(cli, toy_bart):
    """fairseq cuts it to one less than the vocabulary."""
    common = ["generate", "the", "-m", toy_bart, "--json", "--dialect", "fairseq", "--max-new-tokens", 3]
    V = md.load(toy_bart).config.vocab_size
    ran = cli(*common, "--beam", 2 * V, "--nbest", 2 * V)
    assert ran.code == 0 and ran.out == cli(*common, "--beam", V - 1, "--nbest", V - 1).out
    assert len(json.loads(ran.out)["hypotheses"]) == V - 1


OPTIONS = [
    ("--max-length", 9, {"max_length": 9}),
    ("--min-length", 12, {"min_length": 12}),
    ("--no-repeat-ngram-size", 1, {"no_repeat_ngram_size": 1}),
    ("--eos-token-id", 65, {"eos_token_id": 65}),
    ("--pad-token-id", 3, {"pad_token_id": 3}),
    ("--early-stopping", "true", {"early_stopping": True}),
    ("--early-stopping", "False", {"early_stopping": False}),
    ("--early-stopping", "never", {"early_stopping": "never"}),
]


@pytest.mark.parametrize(("flag", "value", "options"), OPTIONS)
def test_an_option_reaches_the_search(cli, toy, flag, value, options):
    ran = cli("generate", "the", "-m", toy, "--num-beams", 2, "--json", flag, value)
    out = md.load(toy).generate("the", num_beams=2, **options)
    assert json.loads(ran.out)["hypotheses"][0]["token_ids"] == out.token_ids[0].tolist()


def test_help_lists_every_generation_option(cli):
    ran = cli("generate", "--help")
    assert ran.code == 0 and ran.err == ""
    for field in dataclasses.fields(Options):
        if field.name in (
            "prefix_allowed_tokens_fn",
            "logits_processor",
            "stopping_criteria",
        ):  # functions, which no flag can hold
            continue
        assert "--" + field.name.replace("_", "-") in ran.out
    for alias, *_ in ALIASES:
        assert alias in ran.out


def test_truncate_cuts_on_the_left(cli, toy):
    long = "x" * 50 + "the end"
    ran = cli("generate", long, "-m", toy, *FEW, "--truncate", "--json")
    kept = md.load(toy).tokenizer.encode(long)[-13:]  # 16 of context, less 3 new ones
    out = md.load(toy).generate(input_ids=[kept], max_new_tokens=3)
    assert json.loads(ran.out)["hypotheses"][0]["token_ids"] == out.token_ids[0].tolist()


# --- failures ---

BAD_OPTIONS = [
    (["--num-beams", 0], 1, ["--num-beams", "from 1 up", "0"]),
    (["--batch-size", 0], 1, ["--batch-size", "from 1 up"]),
    (["--max-new-tokens", 0], 1, ["--max-new-tokens", "from 1 up"]),
    (["--num-beams", 1.5], 2, ["--num-beams", "--help"]),
    (["--num-beams", 2, "--nbest", 3], 1, ["--num-return-sequences 3", "--num-beams 2"]),
    (["--num-beams", 200], 1, ["--num-beams 200", "260 tokens", "fewer beams"]),
    (["--eos-token-id", 260], 1, ["--eos-token-id 260", "260 tokens"]),
    (["--eos-token-id", -1], 1, ["--eos-token-id", "-1"]),
    (["--lenpen", "nan"], 1, ["--length-penalty", "-10 to 10"]),
    (["--early-stopping", "maybe"], 1, ["--early-stopping", "true, false or never"]),
    (["--plan", "cache=magic"], 1, ["magic", "replicated"]),
    (["--plan", "fast-please"], 1, ["fast-please", "auto"]),
    (["--plan", "cache=rolling"], 1, ["cache=rolling needs a model with an attention_window"]),
    (["--plan", "reorder=cpu"], 1, ["no effect with cache=replicated", "say cache=preallocated or cache=split"]),
    (["--dtype", "int3"], 1, ["one of float32, float64, float16, int8"]),
    (["--jsonl"], 1, ["--jsonl is for files: the prompts here are arguments"]),
    (["--no-such-option"], 2, ["--no-such-option", "minidecode generate --help"]),
    (["--num-beam", 2], 2, ["--num-beams"]),
    (["--beam", 2, "--num-beams", 4], 1, ["--num-beams (--beam) is given twice: give it once"]),
    (["--seed", 1, "--do-sample", "--seed", 1, "--seed", 2], 1, ["--seed is given 3 times"]),
    (["--do-sample", "--no-sample"], 1, ["--do-sample (--sampling) is given twice"]),
    (
        ["--max-length", 9, "--max-new-tokens", 4],
        1,
        ["--max-new-tokens and --max-length are two spellings of one limit"],
    ),
    (["--min-length", 1, "--min-len", 1], 1, ["--min-new-tokens and --min-length are two spellings of one limit"]),
    (["--plan", ""], 1, ["plan is empty: say auto"]),
    (["--plan", " , "], 1, ["plan is empty: say auto"]),
    (["--num-beams"], 2, ["--num-beams"]),
    # advice in the spelling of the command line
    (["--temperature", 0.5], 1, ["temperature changes nothing without --do-sample: add it"]),
    (["--dialect", "fairseq", "--eos-token-id", 0, "--num-beams", 2, "--do-sample"], 1, ["use --num-beams 1 and"]),
]


def test_what_may_be_given_several_times(cli, toy):
    again = ["--suppress-tokens", 3, "--suppress-tokens", 4, "--quiet", "--quiet"]
    assert cli("generate", "the", "-m", toy, "--max-new-tokens", 2, *again).code == 0


@pytest.mark.parametrize(("arguments", "code", "named"), BAD_OPTIONS)
def test_a_bad_option(fails, toy, tmp_path, arguments, code, named):
    message = fails("generate", "the", "-m", toy, "-o", tmp_path / "out.txt", *arguments, code=code)
    assert all(part in message for part in named), message
    assert sorted(os.listdir(tmp_path)) == ["toy-gpt2"]


@pytest.mark.parametrize(
    "error", [MemoryError("Unable to allocate 9 GiB"), OSError(errno.ENOMEM, "Cannot allocate memory")], ids=repr
)
def test_no_memory_for_the_weights(fails, toy, monkeypatch, error):
    """A smaller batch would not help."""

    def read(*_):
        raise error

    monkeypatch.setattr("minidecode.files.stored.Stored.read", read)
    message = fails("generate", "the", "-m", toy)
    assert f"not enough memory to load {toy} with dtype=float32" in message and "a smaller model" in message
    assert "batch" not in message and "beams" not in message


@pytest.mark.parametrize("model", ["no-such-model", "/no/such/folder"])
def test_an_unknown_model(fails, model):
    message = fails("generate", "the", "-m", model)
    assert model in message and "config.json" in message


BAD_FILES = [
    ("p.txt", b"", ["p.txt is empty"]),
    ("p.txt", BOM, ["p.txt is empty"]),
    ("p.txt", b"a\n\nb\n", ["p.txt, line 2 is blank"]),
    ("p.txt", b"a\r\n\r\nb\r\n", ["p.txt, line 2 is blank"]),
    ("p.txt", b"a\nb\n \t\nc", ["p.txt, line 3 is blank: each line is a prompt; delete it, or say --on-error skip"]),
    ("p.txt", b" \n\n", ["p.txt is empty"]),
    ("p.txt", b"a\nb\xff\n", ["p.txt, line 2 is not UTF-8", "0xff"]),
    ("p.txt", b"\xff\n", ["line 1", "0xff"]),
    ("p.txt", BOM + b"a\nb\nc\n\xe9", ["line 4", "0xe9"]),
    ("p.txt", "wide".encode("utf-16"), ["line 1", "0xff"]),
    ("p.jsonl", b'{"prompt": "a"}\n{"prompt": \n', ["p.jsonl, line 2", "JSON"]),
    ("p.jsonl", b'{"prompt": "a"}\n["a"]\n', ["line 2", '"prompt"']),
    ("p.jsonl", b'{"text": "a"}\n', ["line 1", '"prompt"']),
    ("p.jsonl", b'{"prompt": 3}\n', ["line 1", '"prompt"']),
    ("p.jsonl", b'{"prompt": "a", "x": NaN}\n', ["line 1", "NaN"]),
    ("p.jsonl", b'{"prompt": "a", "x": "\\ud800"}\n', ["line 1", "surrogate"]),
    ("p.jsonl", b'{"prompt": "a"}\n{"prompt": ""}\n', ["p.jsonl, line 2: the prompt is empty"]),
    ("p.jsonl", b"[" * 100_000, ["line 1", "JSON"]),
]


@pytest.mark.parametrize(("name", "content", "named"), BAD_FILES)
def test_a_bad_input_file(fails, toy, tmp_path, name, content, named):
    (tmp_path / name).write_bytes(content)
    message = fails("generate", "-i", tmp_path / name, "-m", toy, "-o", tmp_path / "out.txt")
    assert all(part in message for part in named), message
    assert sorted(os.listdir(tmp_path)) == [name, "toy-gpt2"]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [([], "give a prompt"), (["a", "-i", "p.txt"], "not both"), (["-", "-i", "p.txt"], "alone"), (["a", "-"], "alone"),
     ([""], "prompt 1 of 1 is empty"),
     (["the", ""], "prompt 2 of 2 is empty"), (["-i", "no-file"], "No such file"), (["-i", "."], "directory"),
     (["a\udcffb"], "not valid UTF-8: byte 0xff")],
)  # fmt: skip
def test_bad_prompts(fails, toy, arguments, named):
    assert named in fails("generate", *arguments, "-m", toy)


def test_an_empty_standard_input(fails, toy):
    assert "standard input is empty" in fails("generate", "-", "-m", toy)


def test_a_prompt_longer_than_the_context(fails, toy):
    message = fails("generate", "a", "x" * 20, "-m", toy)
    assert "prompt 2 of 2 has 20 tokens" in message and "holds 16" in message and "--truncate" in message


def test_more_new_tokens_than_the_context_holds(fails, toy):
    message = fails("generate", "xxxx", "-m", toy, "--max-new-tokens", 14)
    assert "4 tokens" in message and "context of 16" in message and "at most 13" in message


@pytest.mark.parametrize("beams", [1, 2])
def test_nan_weights_are_named(fails, toy, tiny_folder, tmp_path, beams):
    tensors = toy_tensors(CONFIG)
    tensors["h.1.mlp.c_fc.weight"][2, 2] = np.nan
    folder = tiny_folder(tensors=tensors)
    message = fails("generate", "the", "-m", folder, "--num-beams", beams, "-o", tmp_path / "out.txt")
    assert "h.1.mlp.c_fc.weight" in message and "NaN" in message
    assert sorted(os.listdir(tmp_path)) == ["toy-gpt2"]


# --- warnings ---


def test_a_warning_is_one_line_and_quiet_leaves_it_out(cli, tiny_folder):
    folder = tiny_folder(tensors=toy_tensors(CONFIG) | {"v_head.summary.weight": np.zeros(3)})
    ran = cli("generate", "the", "-m", folder, *FEW)
    warning, rate = ran.err.splitlines()
    assert ran.code == 0 and "tokens" in rate
    assert warning.startswith(f"minidecode: warning: {folder}: ") and warning.endswith("ignored: v_head.summary.weight")
    assert cli("generate", "the", "-m", folder, *FEW, "--quiet").err == ""


def test_a_least_length_of_the_file_out_of_reach_is_one_line(cli, toy):
    write_json(toy / "generation_config.json", {"min_length": 12})
    ran = cli("generate", *PROMPTS, "-m", toy, *FEW, "--batch-size", 1)
    assert ran.code == 0 and len(ran.out.splitlines()) == 3
    assert ran.err.count("minidecode: warning: min_length=12 of the model's defaults is out of reach") == 1


@pytest.mark.parametrize("command", ["generate", "trace"])
def test_ignore_generation_config(cli, fails, toy, command):
    write_json(toy / "generation_config.json", {"penalty_alpha": 0.6})
    message = fails(command, "the", "-m", toy)
    assert f"{toy / 'generation_config.json'} asks for penalty_alpha=0.6" in message
    assert "--ignore-generation-config" in message
    assert cli(command, "the", "-m", toy, "--ignore-generation-config", "--max-new-tokens", 2).code == 0


# --- unwritable output ---


def test_output_in_a_missing_folder(fails, toy, tmp_path):
    message = fails("generate", "the", "-m", toy, "-o", tmp_path / "no" / "out.txt")
    assert f"no folder {tmp_path / 'no'}" in message and "make it" in message


@pytest.mark.parametrize("name", ["overlap.png", "overlap"])
def test_a_picture_that_is_to_be_no_svg(fails, toy, tmp_path, name):
    """Told before a model is loaded: what is drawn would not be what the name says."""
    for command in [("generate", "the", "--timeline"), ("trace", "the", "--output"), ("plan", "--output")]:
        assert "is drawn as SVG: name it overlap.svg" in fails(*command, tmp_path / name)
    for command in ("compare", "ladder"):
        assert "is drawn as SVG: name it overlap.svg" in fails(command, "--output", tmp_path / name)
    assert os.listdir(tmp_path) == ["toy-gpt2"]


def test_a_file_of_prompts_in_the_place_of_a_prompt(fails, toy, tmp_path):
    path = tmp_path / "prompts.txt"
    path.write_text("the\n")
    assert f"say --input {path}" in fails("generate", path, "-m", toy)


def test_output_is_a_folder(fails, toy, tmp_path):
    assert "it is a folder" in fails("generate", "the", "-m", toy, "-o", tmp_path)


def test_output_is_write_protected(fails, toy, tmp_path, monkeypatch):
    """By a stand-in for the question, since for root every file is writable."""
    path = tmp_path / "out.txt"
    path.write_text("old")
    monkeypatch.setattr(os, "access", lambda file, mode: Path(file) != path)
    assert "it is write-protected" in fails("generate", "the", "-m", toy, "-o", path)
    assert path.read_text() == "old"


def test_output_on_a_full_disk(fails, toy, tmp_path, monkeypatch):
    replace = os.replace

    def full(source, target):
        if Path(target).name == "out.txt":
            raise OSError(28, "No space left on device")
        replace(source, target)

    monkeypatch.setattr(os, "replace", full)
    assert "No space left" in fails("generate", "the", "-m", toy, "-o", tmp_path / "out.txt")
    left = ["out.txt.part", "out.txt.part.journal", "toy-gpt2"]
    assert sorted(os.listdir(tmp_path)) == left, "what was generated is not thrown away"


def test_an_existing_output_survives_a_failure_half_way(fails, fails_on_z, tmp_path):
    path = tmp_path / "out.txt"
    path.write_text("old")
    message = fails("generate", "the", "z", "other", "-m", fails_on_z, "--batch-size", 1, "-o", path, "-q")
    assert "prompt 2: " in message and "NaN" in message and "wte.weight" in message
    assert f"2 of 3 lines are done, in {path}.part" in message
    assert path.read_text() == "old"
    assert (tmp_path / "out.txt.part").read_text().count("\n") == 2
    assert sorted(os.listdir(tmp_path)) == ["out.txt", "out.txt.part", "out.txt.part.journal", "toy-gpt2"]


def test_debug_shows_the_traceback(cli, toy):
    ran = cli("generate", "the", "-m", toy, "--num-beams", 0, "--debug")
    assert ran.code == 1
    assert ran.err.startswith("Traceback") and ran.err.splitlines()[-1].startswith("minidecode: --num-beams")


# --- from a terminal ---


@pytest.fixture
def types():
    """Runs a command with a terminal as its standard input, where somebody types after half a second.

    -> (what ran, whether the end had to be typed twice, seconds beside the half).
    """
    pty = pytest.importorskip("pty", reason="no terminals of this kind here")

    def run(cli, typed: bytes, *arguments: object):
        keyboard, terminal = pty.openpty()
        done, again = threading.Event(), threading.Event()

        def type_in() -> None:
            time.sleep(0.5)
            os.write(keyboard, typed)
            if not done.wait(60):
                again.set()
                os.write(keyboard, b"\x04\x04")

        typist = threading.Thread(target=type_in)
        started = time.perf_counter()
        with open(terminal, encoding="utf-8") as stdin:
            typist.start()
            ran = cli(*arguments, stdin=stdin)
            seconds = time.perf_counter() - started - 0.5
            done.set()
            typist.join()
        os.close(keyboard)
        return ran, again.is_set(), seconds

    return run


@pytest.mark.parametrize("typed", [b"the sea\n\x04", b"the sea\x04\x04"], ids=["a line", "half a line"])
@pytest.mark.parametrize("command", ["generate", "score"])
def test_the_end_is_typed_once(cli, types, toy, command, typed):
    """A terminal that was ended can be read again: whoever reads on asks for the end again."""
    ran, again, _ = types(cli, typed, command, "-", "-m", toy)
    assert ran.code == 0 and ran.out, ran
    assert not again


def test_the_time_to_the_first_token_does_not_count_the_typing(cli, types, toy):
    ran, _, seconds = types(cli, b"the sea\n\x04", "generate", "-", "-m", toy)
    assert float(re.search(r"first token ([\d.]+) s", ran.err)[1]) <= seconds + 0.01


# --- what is to blame ---


@pytest.mark.parametrize(("least", "most", "dialect"), [
    (9, ["--max-len-b", 5], "hf"), (9, ["--max-len-b", 5], "fairseq"), (6, ["--max-len-b", 5], "fairseq"),
    (5, ["--max-new-tokens", 5], "fairseq"),
])  # fmt: skip
def test_two_flags_that_exclude_each_other_are_both_named(fails, toy, least, most, dialect):
    """The end of text is the model's, and its generation_config.json is not to blame."""
    message = fails("generate", "the", "-m", toy, "--min-len", least, *most, "--dialect", dialect)
    assert f"--min-new-tokens {least}" in message and f"{most[0]} {most[1]}" in message
    assert "generation_config" not in message and "prompt" not in message


def test_a_least_number_within_a_limit_of_fairseqs_is_none_to_blame(cli, toy):
    assert cli("generate", "the", "-m", toy, "--min-len", 5, "--max-len-b", 5, "--dialect", "fairseq").code == 0


def test_a_tokenizer_that_is_null(fails, toy):
    (toy / "tokenizer.json").write_text("null")
    message = fails("generate", "the", "-m", toy)
    assert f"{toy / 'tokenizer.json'} should hold a JSON object, and holds null, which is nothing: download" in message


@pytest.mark.parametrize("vocabulary", [{}, []])
def test_a_tokenizer_without_a_vocabulary_is_to_blame_and_not_the_prompt(fails, toy, vocabulary):
    path = toy / "tokenizer.json"
    fields = json.loads(path.read_text(encoding="utf-8"))
    fields["model"] |= {"vocab": vocabulary, "merges": []}
    path.write_text(json.dumps(fields), encoding="utf-8")
    assert f"{path}: its vocabulary is empty: download the file again" in fails("generate", "the", "-m", toy)


def test_an_adapter_beside_a_whole_model_is_warned_of(cli, toy):
    assert cli("generate", "the", "-m", toy, *FEW, "-o", os.devnull).err.count("warning") == 0
    (toy / "adapter_config.json").write_text("{}")
    err = cli("generate", "the", "-m", toy, *FEW, "-o", os.devnull).err
    assert f"minidecode: warning: {toy} also holds a PEFT adapter (adapter_config.json), which is not applied" in err


# --- as a process of its own ---

# An interrupt is ignored in processes that a shell has put in the background, and their children inherit that.
START = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    "from minidecode.commands.cli import main; main()"
)


def start(*arguments: object, **options) -> subprocess.Popen:
    command = [sys.executable, "-c", START, *map(str, arguments)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, **options)


def test_a_real_process(toy, expected):
    command = [sys.executable, "-m", "minidecode.commands.cli", "generate", "-", "-m", toy, *FEW]
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}  # a terminal that knows no UTF-8
    ran = subprocess.run(command, input=LINES, capture_output=True, env=environment)
    assert (ran.returncode, ran.stdout.decode()) == (0, expected)
    assert ran.stderr.count(b"\n") == 1


INTERRUPTS_ITSELF = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
class Finder:
    def find_spec(name, *_):
        if name == os.environ["AT_IMPORT_OF"]:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Finder)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no signals of this kind here")
@pytest.mark.parametrize("module", ["numpy", "typer"])
def test_an_interrupt_of_the_imports_says_nothing(tmp_path, module):
    (tmp_path / "sitecustomize.py").write_text(INTERRUPTS_ITSELF)
    environment = os.environ | {"PYTHONPATH": str(tmp_path), "AT_IMPORT_OF": module}
    ran = subprocess.run(
        [sys.executable, "-m", "minidecode", "models"], capture_output=True, text=True, env=environment
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (130, "", "")


def test_to_import_minidecode_changes_no_handler():
    script = "import signal; before = signal.getsignal(2); import minidecode; assert signal.getsignal(2) is before"
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0


def test_an_argument_that_is_not_utf8(toy):
    command = [sys.executable, "-m", "minidecode.commands.cli", "generate", b"caf\xe9", "-m", toy]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == 1 and ran.stdout == ""
    assert ran.stderr == "minidecode: the text is not valid UTF-8: byte 0xe9 at character 3\n"


@pytest.fixture
def long_input(tmp_path):
    """Minutes of work, one prompt at a time."""
    path = tmp_path / "long.txt"
    path.write_text("the sea\n" * 5000)
    return path


@pytest.mark.parametrize(
    ("how", "code", "word"), [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")], ids=str
)
def test_an_interrupt_keeps_what_is_done_and_says_how_much(toy, long_input, tmp_path, how, code, word):
    arguments = ["generate", "-i", long_input, "-m", toy, "--batch-size", 1, "-o", tmp_path / "out.txt", *FEW]
    process = start(*arguments, stdout=subprocess.PIPE)
    part = tmp_path / "out.txt.part"
    text = md.load(toy).generate("the sea", max_new_tokens=3).texts[0].replace("\n", "\\n") + "\n"
    deadline = time.monotonic() + 60
    # Two records: one that is just written, and not counted yet, is cut off again by an interrupt.
    while not (part.exists() and part.stat().st_size >= 2 * len(text.encode())) and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(how)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err.count("\n")) == (code, "", 1), err
    written = part.read_text(encoding="utf-8")
    done = written.count("\n")
    assert written == text * done and done < 5000, "whole records alone"
    err = err.replace("the first line is", "the first 1 lines are")
    err = re.sub(r"the first (\d+) lines", r"\1 of 5000 lines", err)  # or others: two threads end lines in any order
    assert err == f"minidecode: {word}; {done} of 5000 lines are done, in {part}: --resume continues it\n"
    assert sorted(os.listdir(tmp_path)) == ["long.txt", "out.txt.part", "out.txt.part.journal", "toy-gpt2"]


def test_a_closed_pipe_is_no_error_to_talk_about(toy, long_input):
    """As in `minidecode generate ... | head -1`."""
    process = start("generate", "-i", long_input, "-m", toy, "--batch-size", 1, stdout=subprocess.PIPE)
    assert process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait(timeout=30) != 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize("arguments", [["generate", "the", "-m"], ["generate", "the", "a", "-m"], ["models"]])
def test_a_full_disk_behind_standard_output(toy, arguments):
    with open("/dev/full", "w") as full:
        process = start(*arguments, *([toy] if arguments[-1] == "-m" else []), stdout=full)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert err == "minidecode: the output cannot be written: No space left on device\n"


def test_infinite_weights_end_in_one_line(tiny_folder):
    """In a process of its own, where NumPy's warnings would reach stderr."""
    tensors = toy_tensors(CONFIG)
    tensors["h.0.mlp.c_fc.weight"][:] = np.inf
    process = start("generate", "the", "-m", tiny_folder(tensors=tensors), stdout=subprocess.PIPE)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (1, "")
    assert err.startswith("minidecode: ") and err.count("\n") == 1, err
