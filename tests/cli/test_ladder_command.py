"""`minidecode ladder`: tables, JSON, a picture; a file shown again; what is refused."""

import json
import re

import pytest
from toy_folder import write_folder

from minidecode.bench import ladder
from minidecode.bench.machines import Machine
from minidecode.bench.rungs import RUNGS

SIZES = ["--texts", 2, "--input-length", 5, "--max-new-tokens", 3, "--beam", 2, "--batch-size", 1, "--repeats", 1]


@pytest.fixture(autouse=True)
def known_machine(monkeypatch):
    monkeypatch.setattr(ladder, "this_machine", lambda **given: Machine("this", 10e9, 40e9, "for tests"))


def test_tables_json_and_a_picture_again_from_the_file(cli, tmp_path):
    pytest.importorskip("matplotlib")
    folder, file, plot = write_folder(tmp_path / "toy", n_positions=64), tmp_path / "ladder.json", tmp_path / "l.svg"
    more = ["--memory-budget", "1.3MB", "--cell-seconds", 0, "--machine", "v100"]
    ran = cli("ladder", "-m", folder, *SIZES, *more, "--json", "--quiet")
    assert (ran.code, ran.err) == (0, "")
    file.write_text(ran.out, encoding="utf-8")
    shown = cli("ladder", "--read", file, "--output", plot)
    assert (shown.code, shown.err) == (0, "")
    steps = json.loads(ran.out)["steps"]
    lines = shown.out.splitlines()
    for step in steps:
        assert any(line.startswith(step["name"]) for line in lines)
    assert re.search(r"^batch sizes on this machine: 1\.3 MB beside", shown.out, re.M)
    assert "OOM (needs " in shown.out and "fits (" in shown.out and "v100, predicted" in shown.out
    assert "Predicted, not measured" in shown.out and "samples/s, predicted             v100" in shown.out
    assert "<title" in plot.read_text(encoding="utf-8")
    assert json.loads(cli("ladder", "--read", file, "--json").out)["steps"] == steps


def test_off_a_terminal_each_rung_is_a_line_on_stderr(cli, tmp_path):
    """Minutes of silence look like a program that hangs."""
    ran = cli("ladder", "-m", write_folder(tmp_path / "toy", n_positions=64), *SIZES)
    told = [line for line in ran.err.splitlines() if not line.startswith("ladder: compiling for ")]
    assert ran.code == 0 and told[0].startswith(f"ladder: 1/{len(RUNGS) + 1} no cache: ")
    for number, (rung, line) in enumerate(zip(RUNGS, told[1:], strict=False), 2):
        assert line.startswith(f"ladder: {number}/{len(RUNGS) + 1} {rung.name}: ")
    assert told[len(RUNGS) + 1 :] == ["ladder: final timing, 1 round of all rungs"]


def test_sizes_that_are_not_given_are_made_smaller(cli, tmp_path, monkeypatch):
    monkeypatch.setattr(ladder, "RUNGS", RUNGS[:1])
    folder = write_folder(tmp_path / "toy", n_positions=128)
    ran = cli("ladder", "-m", folder, "--seconds", 1, "--texts", 3, "--beam", 2, "--repeats", 1)
    assert ran.code == 0 and ": 3 texts of about 16 tokens, 4 new, 2 beams\n" in ran.out
    assert "smaller than the defaults, to fit the time (--seconds). To choose them: --input-length, " in ran.out
    assert ran.err.startswith("ladder: choosing sizes that fit the time\n")


@pytest.mark.parametrize(("given", "seconds"), [([], 90), (["--texts", 3], None), (["--texts", 3, "--seconds", 9], 9)])
def test_work_that_is_given_is_done_whole(cli, toy, monkeypatch, given, seconds):
    asked = {}
    monkeypatch.setattr(ladder, "ladder", lambda model, **how: asked.update(how))
    cli("ladder", "-m", toy, *given)
    assert asked["seconds"] == (seconds and pytest.approx(seconds, abs=2))
    assert asked["may_shrink"] == {"texts", "input_length", "max_new_tokens", "batch_size"} - (
        {"texts"} if given else set()
    )


@pytest.mark.parametrize(("arguments", "says"), [
    (["--machine", "abacus"], "there is no machine 'abacus': say v100, t4, h100, h200"),
    (["--texts", 0], "texts must be an integer from 1 up, not 0"),
    (["--max-new-tokens", 2], "--max-new-tokens must be at least 3, not 2: a model may force"),
    (["--input-length", 15, "--max-new-tokens", 9], "beyond the context of 16"),
    (["--memory-budget", "much"], "--memory-budget must be bytes, at least one, a text such as 2GB"),
    (["--memory-budget", "none"], "--memory-budget none is no limit, so batches would never end: give bytes"),
    (["--random-weights", "-m", "gpt3"], "neither a bundled model"),
    (["-m", "bart-large"], "or time random weights of that shape: -m bart-large --random-weights"),
    (["-m", "t5-smal"], "or time random weights of that shape: -m t5-small --random-weights"),
    (["--random-weights", "-m", "t5-smal"], "did you mean t5-small?"),
    (["--cell-seconds", 4], "--cell-seconds has no effect without --memory-budget"),
    (["--read", "nowhere.json"], "nowhere.json cannot be read: No such file"),
])  # fmt: skip
def test_what_is_refused(fails, toy, arguments, says):
    assert says in fails("ladder", *([] if {"-m", "--read"} & {*arguments} else ["-m", toy]), *arguments)


@pytest.mark.parametrize("more", [[], ["--random-weights"]], ids=["texts", "random ids"])
def test_no_remedy_is_a_flag_that_there_is_not(fails, toy, more):
    for length, says in ((15, "ask for at most"), (99, "context holds 16")):
        message = fails("ladder", "-m", toy, "--input-length", length, "--max-new-tokens", 9, *more, "--quiet")
        assert f"--input-length {length} or --max-new-tokens 9 is too large, so lower one" in message
        assert says in message and "truncate" not in message and "shorten it" not in message
    message = fails("ladder", "-m", toy, "--max-new-tokens", 99, *more, "--quiet")
    assert "--input-length 64 or --max-new-tokens 99 is too large" in message, "no size that was only tried"


def test_default_sizes_become_smaller_where_the_model_holds_no_longer_ones(cli, toy):
    ran = cli("ladder", "-m", toy, "--max-new-tokens", 4, "--texts", 2, "--repeats", 1, "--seconds", 1)
    assert ran.code == 0 and "2 texts of about 8 tokens, 4 new" in ran.out
    assert "To choose them: --input-length" in ran.out
    assert "Rungs without time: " in ran.out and "give more --seconds, such as 90" in ran.out


def test_a_file_that_holds_something_else(fails, tmp_path):
    for text in ("{", "[1]", '{"steps": []}', "[" * 99_999):
        (tmp_path / "other.json").write_text(text, encoding="utf-8")
        assert "other.json holds no ladder" in fails("ladder", "--read", tmp_path / "other.json")


def test_no_flag_of_the_work_goes_with_a_file_that_is_shown_again(fails):
    """All but how it is shown."""
    from inspect import signature

    from minidecode.commands.ladder import WORK
    from minidecode.commands.ladder import ladder as command

    assert {*signature(command).parameters} == {*WORK, "context", "read", "output", "as_json", "quiet", "debug"}
    for flag in (["-m", "tiny-gpt2"], ["--random-weights"], ["--beam", 4], ["--machine", "v100"]):
        assert "has no effect with --read" in fails("ladder", "--read", "nowhere.json", *flag)
