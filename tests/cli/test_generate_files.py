"""`minidecode generate` for many lines: flags of the pipeline, errors of lines, what is told and what is drawn."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import threading
import time
from xml.etree import ElementTree

import pytest

import minidecode as md
from minidecode.commands import generate_files
from minidecode.commands.progress_bar import progress_bar
from minidecode.files import lines
from minidecode.lines.worker_threads import Worker

FEW = ["--max-new-tokens", "3"]
GOOD = ["the sea", "a", "other things", "of", "on", "x" * 12]
LONG = "x" * 17  # of 16 positions


@pytest.fixture(autouse=True)
def no_thread_is_left():
    yield
    assert not [t for t in threading.enumerate() if isinstance(t, Worker)]


@pytest.fixture
def mixed(tmp_path):
    """Good lines, and three that cannot be done: 2 is blank, 5 too long, 7 not UTF-8."""
    path = tmp_path / "mixed.txt"
    lines = [g.encode() for g in GOOD]
    path.write_bytes(b"\n".join([lines[0], b" ", *lines[1:3], LONG.encode(), lines[3], b"caf\xe9", *lines[4:]]))
    return path


def texts_of(toy, prompts=GOOD):
    return [t.replace("\n", "\\n") for t in md.load(toy).generate(prompts, max_new_tokens=3).texts]


@pytest.mark.parametrize("flags", [
    [], ["--no-pipeline"], ["--batch-size", 2, "--sort-window", 1], ["--batch-size", 2, "--no-pipeline"],
    ["--sort-window", 100, "--batch-size", 3],
])  # fmt: skip
@pytest.mark.parametrize("way", ["file", "stdin"])
def test_order_is_kept_whatever_the_batches(cli, toy, tmp_path, flags, way):
    path = tmp_path / "prompts.txt"
    path.write_text("\n".join(GOOD))
    given = ["-i", path] if way == "file" else ["-"]
    ran = cli("generate", *given, "-m", toy, *FEW, *flags, stdin=path.read_bytes())
    assert (ran.code, ran.out.splitlines()) == (0, texts_of(toy))


@pytest.mark.parametrize("on_error", ["stop", "skip"])
def test_a_file_as_standard_input_loses_no_line(cli, toy, tmp_path, on_error):
    """`minidecode generate - < FILE`: whoever reads it a second time reads what the first would have got."""
    path = tmp_path / "prompts.txt"
    path.write_text("\n".join(GOOD))
    with open(path) as stdin:
        ran = cli("generate", "-", "-m", toy, *FEW, "--on-error", on_error, stdin=stdin)
    assert (ran.code, ran.out.splitlines()) == (0, texts_of(toy))


@pytest.mark.parametrize("flag", ["--pipeline", "--no-pipeline"])
@pytest.mark.parametrize("way", ["file", "stdin"])
def test_stop_names_the_line(cli, toy, tmp_path, mixed, flag, way):
    """A file is looked through first, and nothing is generated; of a pipe, what came before is done."""
    given = ["-i", mixed] if way == "file" else ["-"]
    out = tmp_path / "out.txt"
    ran = cli("generate", *given, "-m", toy, *FEW, "-o", out, flag, stdin=mixed.read_bytes())
    name = str(mixed) if way == "file" else "standard input"
    done = "" if way == "file" else f"; the first line is done, in {out}.part"
    assert (ran.code, ran.out) == (1, "")
    says = "is blank: each line is a prompt; delete it, or say --on-error skip"
    assert ran.err == f"minidecode: {name}, line 2 {says}{done}\n"
    assert not out.exists()
    if way == "file":
        assert sorted(os.listdir(tmp_path)) == ["mixed.txt", "toy-gpt2"]
    else:
        assert (tmp_path / "out.txt.part").read_text().splitlines() == texts_of(toy)[:1]


@pytest.mark.parametrize("end", ["\n", "\n\n", "\r\n \r\n\t\n"])
@pytest.mark.parametrize("way", ["file", "stdin"])
def test_blank_lines_at_the_end_are_no_prompts(cli, toy, tmp_path, end, way):
    path = tmp_path / "prompts.txt"
    path.write_bytes(("\n".join(GOOD) + end).encode())
    given = ["-i", path] if way == "file" else ["-"]
    ran = cli("generate", *given, "-m", toy, *FEW, stdin=path.read_bytes())
    assert (ran.code, ran.out.splitlines()) == (0, texts_of(toy))


@pytest.mark.parametrize("flag", ["--pipeline", "--no-pipeline"])
def test_skip_leaves_lines_out_and_counts_them(cli, toy, mixed, flag):
    ran = cli("generate", "-i", mixed, "-m", toy, *FEW, "--on-error", "skip", "--quiet", flag)
    assert (ran.code, ran.out.splitlines()) == (0, texts_of(toy))
    first = f"{mixed}, line 2 is blank: each line is a prompt; delete it"
    assert ran.err == f"minidecode: 3 of 9 lines left out; the first: {first}\n"


@pytest.mark.parametrize("flag", ["--pipeline", "--no-pipeline"])
def test_record_puts_the_error_in_the_lines_place(cli, toy, mixed, flag):
    ran = cli("generate", "-i", mixed, "-m", toy, *FEW, "--on-error", "record", "--json", flag)
    records = [json.loads(line) for line in ran.out.splitlines()]
    assert ran.code == 0 and len(records) == 9
    errors = {n: r for n, r in enumerate(records, 1) if "error" in r}
    assert set(errors) == {2, 5, 7}
    assert [r["line"] for r in errors.values()] == [2, 5, 7]
    assert errors[2]["error"] == f"{mixed}, line 2 is blank: each line is a prompt; delete it"
    assert errors[5]["error"].startswith(f"{mixed}, line 5: the prompt has 17 tokens and the model's context holds 16")
    assert errors[5]["prompt"] == LONG and "hypotheses" not in errors[5]
    assert "line 7 is not UTF-8: byte 0xe9" in errors[7]["error"]
    assert [r["hypotheses"][0]["text"].replace("\n", "\\n") for n, r in enumerate(records, 1) if n not in errors] == (
        texts_of(toy)
    )
    assert "3 of 9 lines with an error; the first: " in ran.err


def test_a_record_with_an_error_is_tried_again(cli, toy, tmp_path):
    """What was too long goes through once it may be cut, and what was said of it then is no more said."""
    (tmp_path / "p.jsonl").write_text(json.dumps({"prompt": LONG, "id": 3}) + "\n", encoding="utf-8")
    run = ["generate", "-m", toy, *FEW, "--on-error", "record", "--json", "-q"]
    (tmp_path / "out.jsonl").write_text(cli(*run, "-i", tmp_path / "p.jsonl").out, encoding="utf-8")
    assert "error" in json.loads((tmp_path / "out.jsonl").read_text(encoding="utf-8"))
    again = json.loads(cli(*run, "-i", tmp_path / "out.jsonl", "--truncate").out)
    assert list(again) == ["prompt", "id", "line", "hypotheses"] and again["id"] == 3


def test_every_record_ends_with_its_line_and_what_came_of_it(cli, toy, tmp_path):
    """In one order of keys, whatever the fields of the input are called."""
    given = [{"line": 9, "prompt": "the"}, {"hypotheses": [], "prompt": LONG, "error": "old"}, {"id": 1, "prompt": "a"}]
    (tmp_path / "p.jsonl").write_text("".join(json.dumps(g) + "\n" for g in given), encoding="utf-8")
    ran = cli("generate", "-i", tmp_path / "p.jsonl", "-m", toy, *FEW, "--json", "--on-error", "record", "-q")
    records = [json.loads(line) for line in ran.out.splitlines()]
    assert [list(r) for r in records] == [
        ["prompt", "line", "hypotheses"], ["prompt", "line", "error"], ["id", "prompt", "line", "hypotheses"],
    ]  # fmt: skip
    assert [r["line"] for r in records] == [1, 2, 3]


# --- options of a line ---


@pytest.fixture
def jsonl(tmp_path):
    """Writes objects, one a line -> the path."""

    def write(*records):
        path = tmp_path / "p.jsonl"
        path.write_text("".join(json.dumps(r) + "\n" for r in records), encoding="utf-8")
        return path

    return write


@pytest.mark.parametrize(("own", "says"), [
    ({"max_new_tokens": 0}, '"max_new_tokens" is 0: give an integer from 1 to 16'),
    ({"max_new_tokens": 17}, '"max_new_tokens" is 17: give an integer from 1 to 16'),
    ({"max_new_tokens": True}, '"max_new_tokens" is True: give an integer from 1 to 16'),
    ({"max_new_tokens": 16}, "the prompt has 3 tokens, and 16 new ones go beyond the context of 16: ask for at most"),
    ({"seed": -1}, '"seed" is -1: give an integer from 0 to 18446744073709551615'),
    ({"seed": "7"}, "\"seed\" is '7': give an integer from 0 to 18446744073709551615"),
    ({"seed": 7}, "seed changes nothing without do_sample=True: add it, or leave seed out"),
    ({"stop": ""}, "\"stop\" is ['']: give a text, or a list of texts, none of them empty"),
    ({"stop": [3]}, '"stop" is [3]: give a text, or a list of texts, none of them empty'),
    ({"prefix": 3}, '"prefix" is 3: give the text that the new text begins with'),
    ({"prefix": "xyz"}, '"prefix" has 3 tokens, and 3 new ones are allowed: give one of at most 2, or a larger'
                        " max_new_tokens"),
    ({"prefix": "x<|endoftext|>"}, '"prefix" holds the end of text: leave it out there'),
])  # fmt: skip
def test_a_bad_option_of_a_line_names_line_key_and_range(cli, fails, toy, jsonl, own, says):
    path = jsonl({"prompt": "the"}, {"prompt": "sea"} | own, {"prompt": "a"})
    where = f"{path}, line 2"
    assert fails("generate", "-i", path, "-m", toy, *FEW).startswith(f"minidecode: {where}: {says}")
    ran = cli("generate", "-i", path, "-m", toy, *FEW, "--on-error", "record", "--json", "-q")
    records = [json.loads(line) for line in ran.out.splitlines()]
    assert ran.code == 0 and [("error" in r) for r in records] == [False, True, False]
    assert records[1]["error"].startswith(f"{where}: {says}")


def test_options_of_a_line_hold_for_it_alone(cli, toy, jsonl):
    """Whatever spelling of a limit the command has; null leaves an option to it."""
    path = jsonl({"prompt": "sea"}, {"prompt": "sea", "max_new_tokens": 5}, {"prompt": "sea", "prefix": "xy"},
                 {"prompt": "sea", "max_new_tokens": None, "seed": None, "prefix": None})  # fmt: skip
    common = ["generate", "-i", path, "-m", toy, "--json", "-q"]
    for limit, tokens in ((["--max-new-tokens", 3], 3), (["--max-length", 7], 4), (["--max-len-b", 2], 3)):
        ran = cli(*common, *limit)
        best = [json.loads(line)["hypotheses"][0] for line in ran.out.splitlines()]
        assert [len(b["token_ids"]) for b in best] == [tokens, 5, tokens, tokens], ran
        assert best[2]["text"].startswith("xy") and best[0] == best[3]


@pytest.mark.parametrize("on_error", ["stop", "skip"])
def test_stops_of_lines_are_kept_too(cli, fails, toy, jsonl, on_error):
    """--keep-stop is for the lines that have a stop string; without one anywhere it would do nothing."""
    text = md.load(toy).generate(["sea"], max_new_tokens=6).texts[0]
    stop = text[2]
    path = jsonl({"prompt": "sea", "stop": stop}, {"prompt": "sea"}, {"prompt": "sea", "stop": [], "max_new_tokens": 5})
    common = "-m", toy, "--max-new-tokens", 6, "-q", "--on-error", on_error
    kept = cli("generate", "-i", path, *common, "--json", "--keep-stop")
    first, second, third = map(json.loads, kept.out.splitlines())
    assert first["hypotheses"][0]["text"] == text[: text.index(stop) + 1]
    assert second["hypotheses"][0]["text"] == text and len(third["hypotheses"][0]["token_ids"]) == 5
    cut = cli("generate", "-i", path, *common, "--json")
    assert json.loads(cut.out.splitlines()[0])["hypotheses"][0]["text"] == text[: text.index(stop)]
    for line, kept in (({"prompt": "sea", "stop": stop}, text[: text.index(stop) + 1]), ({"prompt": "sea"}, text)):
        assert cli("generate", "-i", jsonl(line), *common, "--keep-stop").out.rstrip("\n") == kept.rstrip("\n")
    assert "--keep-stop-strings needs --stop-strings" in fails("generate", "sea", *common, "--keep-stop")


def test_an_option_that_lines_cannot_set_is_warned_of_once(cli, toy, jsonl):
    """A line's temperature was ignored in silence; what is no option at all is the line's own business."""
    common = "generate", "-m", toy, "--max-new-tokens", 2, "-i"
    plain = cli(*common, jsonl(*[{"prompt": "the"}] * 3), "-q")
    ran = cli(*common, jsonl(*[{"prompt": "the", "temperature": 0.1, "max_tokens": 3, "weather": "fair"}] * 3))
    assert ran.code == 0 and ran.out == plain.out
    warned = [line.partition(": give")[0] for line in ran.err.splitlines() if "warning" in line]
    assert warned == [f'minidecode: warning: "{n}" in a line changes nothing' for n in ("max_tokens", "temperature")]


def test_a_single_line_has_its_options_too(cli, toy, jsonl):
    """The one text that is shown as it grows."""
    model = md.load(toy)
    expected = model.generate(["the"], max_new_tokens=5, prefix_tokens=[model.tokenizer.encode("xy")]).texts[0]
    ran = cli("generate", "-i", jsonl({"prompt": "the", "max_new_tokens": 5, "prefix": "xy"}), "-m", toy, *FEW, "-q")
    assert (ran.code, ran.out) == (0, expected + "\n") and expected.startswith("xy")


def test_a_bad_option_of_a_single_line_of_standard_input(fails, toy):
    """Which nobody has looked at before."""
    given = "generate", "-", "--jsonl", "-m", toy
    message = fails(*given, stdin=b'{"prompt": "a", "seed": 3}')
    assert message.startswith("minidecode: standard input, line 1: seed changes nothing without do_sample")
    assert 'standard input, line 1: "prefix" is 3: give' in fails(*given, stdin=b'{"prompt": "a", "prefix": 3}')


@pytest.mark.parametrize("flags", [[], ["--ignore-eos"], ["--dialect", "fairseq"]])
def test_a_prefix_of_an_encoder_decoder_model(cli, tmp_path, jsonl, flags):
    """Its tokenizer ends each text: the prefix goes on."""
    path = jsonl({"prompt": "The army of the United States", "prefix": " has been", "max_new_tokens": 6})
    ran = cli("generate", "-i", path, "-m", "tiny-bart", "--json", "-q", "--num-beams", 1, *flags)
    (best,) = json.loads(ran.out)["hypotheses"]
    assert best["text"].startswith(" has been") and 4098 not in best["token_ids"][:4]


def test_one_line_that_fails_in_the_model(cli, fails_on_z, tmp_path):
    (tmp_path / "p.txt").write_text("the\nsea\nzoo\nof\n")
    arguments = ["-i", tmp_path / "p.txt", "-m", fails_on_z, *FEW]
    ran = cli("generate", *arguments, "--on-error", "skip", "--quiet")
    assert ran.code == 0 and ran.out.count("\n") == 3
    assert ran.err.startswith(f"minidecode: 1 of 4 lines left out; the first: {tmp_path / 'p.txt'}, line 3: ")
    assert "NaN" in ran.err and ran.err.count("\n") == 1
    ran = cli("generate", *arguments)
    assert (ran.code, ran.out.count("\n")) == (1, 2), "what came before is told"
    assert re.search(r"p.txt, line 3: .*NaN.*; the first 2 lines are done\n$", ran.err)


@pytest.mark.parametrize("blank", ["  ", "\n"])
def test_a_blank_argument_is_no_line(cli, fails, toy, blank):
    says = "minidecode: prompt 2 is blank: give it some text, or leave it out\n"
    assert fails("generate", "the sea", blank, "-m", toy) == says, "before the first is generated"
    ran = cli("generate", "the sea", blank, "-m", toy, *FEW, "--on-error", "skip", "--quiet")
    assert ran.code == 0 and ran.err.startswith("minidecode: 1 of 2 lines left out; the first: prompt 2 is blank: give")
    assert "text 1 is blank: give it some text" in fails("score", blank, "-m", toy)


def test_all_lines_left_out(cli, toy, tmp_path):
    (tmp_path / "p.txt").write_text(f"{LONG}\n{LONG}\n")
    (tmp_path / "out.txt").write_text("of an earlier run\n")
    how = "generate", "-i", tmp_path / "p.txt", "-m", toy, "-o", tmp_path / "out.txt", "-q"
    ran = cli(*how, "--on-error", "skip")
    assert ran.code == 1 and ran.err.startswith("minidecode: 2 of 2 lines left out; the first: ")
    assert ran.err.count("\n") == 1
    assert (tmp_path / "out.txt").read_text() == "of an earlier run\n" and not (tmp_path / "out.txt.part").exists()
    ran = cli(*how, "--on-error", "record", "--json")
    assert ran.code == 1 and ran.err.startswith("minidecode: 2 of 2 lines with an error; the first: ")
    assert [json.loads(line)["line"] for line in (tmp_path / "out.txt").read_text().splitlines()] == [1, 2]


def test_log_probabilities_come_with_the_text_of_each_token(cli):
    """`transformers` reads these ids of the bundled vocabulary as these texts."""
    ran = cli("generate", "Fellow citizens,", "--max-new-tokens", 2, "--json", "--logprobs", 1, "-q")
    (found,) = json.loads(ran.out)["hypotheses"]
    assert (found["token_ids"], found["token_texts"]) == ([284, 260], [" and", " the"])
    assert [[(i, text) for i, _, text in step] for step in found["top_logprobs"]] == [[(284, " and")], [(260, " the")]]
    assert found["text"] == "".join(found["token_texts"]) and len(found["token_logprobs"]) == 2


@pytest.mark.parametrize("drafts", [["--prompt-lookup", 4], ["--draft", "tiny-gpt2-mqa", "--num-assistant-tokens", 3]])
def test_drafts_change_no_text_and_are_counted(cli, drafts, tmp_path):
    how = ["generate", "Fellow citizens,", "--max-new-tokens", 8, "--plan", "numpy", "-q"]
    plain, text, receipt = cli(*how), cli(*how, *drafts), cli(*how, *drafts, "--receipt", "-o", tmp_path / "out.txt")
    assert text.out == plain.out and " drafted tokens accepted (" in receipt.err
    (found,) = json.loads(cli(*how, *drafts, "--json").out)["hypotheses"]
    assert found["drafts"]["accepted"] + found["drafts"]["steps"] + 1 >= len(found["token_ids"]) == 8
    assert f"{found['drafts']['accepted']} of {found['drafts']['drafted']} drafted" in receipt.err


@pytest.mark.parametrize("flag", ["--batch-size", "--sort-window"])
def test_more_at_a_time_than_a_machine_can_count_is_all_of_them(cli, toy, flag):
    ran = cli("generate", "the sea", "a", "-m", toy, *FEW, flag, 10**20, "-q")
    assert (ran.code, ran.out.splitlines(), ran.err) == (0, texts_of(toy, ["the sea", "a"]), "")


def test_arguments_can_be_skipped_too(cli, toy):
    ran = cli("generate", "the sea", "", "a", "-m", toy, *FEW, "--on-error", "skip", "-q")
    assert (ran.code, ran.out.splitlines()) == (0, texts_of(toy, ["the sea", "a"]))
    assert ran.err.startswith("minidecode: 1 of 3 lines left out; the first: prompt 2 is blank")


@pytest.mark.parametrize(("arguments", "named"), [
    (["--on-error", "ignore"], ["--on-error", "stop, skip, record"]), (["--on-error", "record"], ["--json"]),
    (["--sort-window", 0], ["--sort-window", "from 1 up"]), (["--memory-budget", "lots"], ["--memory-budget", "2GB"]),
    (["--trace", "/no/such/folder/t.json"], ["no folder"]), (["--timeline", "/"], ["it is a folder"]),
])  # fmt: skip
def test_bad_flags(fails, toy, arguments, named):
    message = fails("generate", "the", "a", "-m", toy, *arguments)
    assert all(part in message for part in named), message


def test_an_output_that_a_run_before_has_left(fails, toy, tmp_path):
    (tmp_path / "out.txt.part").write_text("hours of work")
    assert "out.txt.part is there" in fails("generate", "the", "a", "-m", toy, "-o", tmp_path / "out.txt")
    assert (tmp_path / "out.txt.part").read_text() == "hours of work"


# --- memory ---


def test_a_budget_of_memory(cli, fails, toy):
    model = md.load(toy)
    one, all_of_them = (model.footprint(p, max_new_tokens=3).total for p in ("other things", GOOD))
    assert one < all_of_them
    common = ["generate", *GOOD, "-m", toy, *FEW]
    cut = cli(*common, "--memory-budget", (one + all_of_them) // 2, "--receipt")
    assert (cut.code, cut.out.splitlines()) == (0, texts_of(toy))
    assert re.search(r"6 lines in [2-9] batches \([1-9] cut to fit the memory\)", cut.err)
    whole = cli(*common, "--memory-budget", "1 GB", "--receipt")
    assert "6 lines in 1 batch (0 cut to fit the memory)" in whole.err
    message = fails(*common, "--memory-budget", "1kB")
    assert "prompt 1: 1 x (prompts of 5 and 3 new tokens) may take" in message and "1 kB may be used" in message
    assert "may take" in fails("generate", "the", "-m", toy, "--memory-budget", "1kB"), "a single text too"
    assert cli("generate", "the", "-m", toy, *FEW, "--memory-budget", "none").code == 0


def test_a_file_that_loses_lines_while_it_is_read_is_told_of(cli, toy, tmp_path, monkeypatch):
    """It was looked through before: what is missing now was lost on the way, and the output is not called whole."""
    path, output, check = tmp_path / "prompts.jsonl", tmp_path / "out.txt", generate_files.check_prompts
    line = json.dumps({"prompt": "the sea", "note": "x" * 5000}) + "\n"  # so long that no buffer holds the file
    path.write_text(line * 60)

    def check_and_shorten(*given):
        check(*given)
        path.write_text(line * 40)

    monkeypatch.setattr("minidecode.commands.generate.check_prompts", check_and_shorten)
    ran = cli("generate", "-i", path, "-o", output, "-m", toy, *FEW)
    assert ran.code == 1 and not output.exists()
    assert f"{path} had 60 lines when it was checked and 40 when" in ran.err
    assert (tmp_path / "out.txt.part").read_text().splitlines() == texts_of(toy, ["the sea"]) * 40


@pytest.mark.parametrize("way", ["file", "pipe"])
def test_a_line_without_an_end_does_not_fill_the_memory(cli, toy, tmp_path, monkeypatch, way):
    monkeypatch.setattr(lines, "LONGEST", 16)
    text = b"the sea\n" + b"x" * 17 + b"\na\n"
    path = tmp_path / "prompts.txt"
    path.write_bytes(text)
    ran = cli("generate", *(["-i", path] if way == "file" else ["-"]), "-m", toy, *FEW, stdin=text)
    assert ran.code == 1 and "line 2 is longer than 16 bytes" in ran.err
    path.write_bytes(b"the sea\n" + b"x" * 15 + b"\na\n")  # as long as may be, with its end
    assert cli("generate", "-i", path, "-m", toy, "--max-new-tokens", 1).code == 0


# --- what is drawn ---


def test_trace_and_timeline(cli, toy, tmp_path):
    ran = cli("generate", *GOOD, "-m", toy, *FEW, "--batch-size", 2, "--trace", tmp_path / "t.json", "--timeline",
              tmp_path / "t.svg")  # fmt: skip
    assert ran.code == 0 and ran.out.splitlines() == texts_of(toy)
    trace = json.loads((tmp_path / "t.json").read_text())
    events = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    assert {e["name"] for e in events} == {"read", "tokenize", "generate", "post-process", "write"}
    assert sum(e["args"]["lines"] for e in events if e["name"] == "generate") == len(GOOD)
    svg = ElementTree.fromstring((tmp_path / "t.svg").read_text())
    name = "{http://www.w3.org/2000/svg}"
    assert svg.find(f"{name}title") is not None and "by the clock" in svg.find(f"{name}desc").text


def test_a_run_that_breaks_off_is_drawn_too(cli, fails_on_z, tmp_path):
    ran = cli("generate", "the", "zoo", "-m", fails_on_z, *FEW, "--trace", tmp_path / "t.json")
    assert ran.code == 1 and json.loads((tmp_path / "t.json").read_text())["traceEvents"]


def test_the_receipt_ends_with_the_stages(cli, toy):
    ran = cli("generate", *GOOD, "-m", toy, *FEW, "--batch-size", 4, "--receipt")
    assert "batch 1 of 2\n" in ran.err and "batch 2 of 2\n" in ran.err
    last = ran.err.splitlines()[-1]
    assert last.startswith("6 lines in 2 batches") and "overlap both: busy read" in last


def test_the_help_names_the_flags(cli):
    out = cli("generate", "--help").out
    for flag in ("--sort-window", "--pipeline", "--no-pipeline", "--on-error", "--memory-budget", "--trace",
                 "--timeline", "OUTPUT.part", "--resume"):  # fmt: skip
        assert flag in out


# --- the progress bar ---


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("total", [8, None])
def test_the_bar_shows_lines_rate_and_time_left(monkeypatch, total):
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("TERM", "xterm")
    with progress_bar("generating", quiet=False, unit="lines") as report:
        for done in (1, 2, 3):
            time.sleep(0.15)
            report(done, total)
        time.sleep(0.15)
    shown = screen.getvalue()
    assert f"3/{total or '?'}" in shown
    assert re.search(r"\d+\.\d lines/s", shown)
    assert bool(re.search(r"0:00:0\d", shown)) == (total is not None), "what is left, where it can be known"


def test_no_bar_where_there_is_no_terminal(cli, toy):
    ran = cli("generate", *GOOD, "-m", toy, *FEW)
    assert ran.err.count("\n") == 1 and "lines/s" not in ran.err


# --- as a process ---


def test_lines_come_out_while_others_are_still_to_come(toy):
    """A pipe that stays open: what is done is told, and a `call_off` is not needed to end the run."""
    process = subprocess.Popen(
        [sys.executable, "-m", "minidecode.commands.cli", "generate", "-", "-m", str(toy), *FEW, "-q", "--batch-size",
         "1", "--sort-window", "1"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    process.stdin.write("the sea\na\n")
    process.stdin.flush()
    expected = texts_of(toy, ["the sea", "a", "of"])
    assert [process.stdout.readline().rstrip("\n") for _ in range(2)] == expected[:2]
    out, _ = process.communicate("of\n", timeout=60)
    assert (process.returncode, out.splitlines()) == (0, expected[2:])


@pytest.mark.skipif(sys.platform == "win32", reason="no named pipes there")
def test_a_named_pipe_as_input(toy, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    process = subprocess.Popen(
        [sys.executable, "-m", "minidecode.commands.cli", "generate", "-i", str(pipe), "-m", str(toy), *FEW, "-q"],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    pipe.write_text("\n".join(GOOD))
    out, _ = process.communicate(timeout=60)
    assert (process.returncode, out.splitlines()) == (0, texts_of(toy))
