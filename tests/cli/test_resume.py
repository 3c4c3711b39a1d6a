"""`minidecode generate --resume`: whatever ended a run, the next one writes the bytes of a run that nothing ended."""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_folder import CONFIG, toy_tensors, write_folder

import minidecode as md
from minidecode.commands.interrupts import Terminated
from minidecode.files.lines import RecordFile

PROMPTS = ["the", "a", "the", "sea the sea", "of", "xxxxxxxx", "the", "on", "a", "sea", "the", "b"]
LONG = "x" * 17  # of 16 positions


@pytest.fixture
def texts(tmp_path):
    path = tmp_path / "p.txt"
    path.write_text("\n".join(PROMPTS), encoding="utf-8")
    return path


@pytest.fixture
def objects(tmp_path):
    """Lines with options of their own; 2 and 6 cannot be done."""
    own = [{}, {"prompt": LONG}, {"seed": 5}, {"max_new_tokens": 2}, {}, {"seed": -1}, {"prefix": "x"}, {}, {"id": 7}]
    path = tmp_path / "p.jsonl"
    records = [{"prompt": prompt} | o for prompt, o in zip(PROMPTS, own * 2, strict=False)]
    path.write_text("".join(json.dumps(r) + "\n" for r in records), encoding="utf-8")
    return path


def command(path, toy, *flags):
    small = ["--batch-size", 2, "--sort-window", 4, "--max-new-tokens", 3, "-q"]
    return ["generate", "-i", path, "-m", toy, "-o", path.with_name("out"), *small, *flags]


@pytest.fixture
def unfinished(cli, monkeypatch, tmp_path):
    """Does all of a command but give the file its name -> the file's bytes, the journal's, and where they are."""

    def run(*arguments):
        replace = os.replace

        def fail(source, target):
            if Path(target).name == "out":
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            replace(source, target)

        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", fail)
            assert cli(*arguments).code == 1
        part, journal = tmp_path / "out.part", tmp_path / "out.part.journal"
        return part.read_bytes(), journal.read_bytes(), part, journal

    return run


WORK = {
    "texts": ("texts", ["--num-beams", 2, "--nbest", 2]), "samples": ("texts", ["--do-sample", "--seed", 3, "--json"]),
    "recorded": ("objects", ["--do-sample", "--json", "--on-error", "record"]),
    "left out": ("objects", ["--do-sample", "--on-error", "skip", "--no-pipeline"]),
}  # fmt: skip


@pytest.mark.parametrize("work", WORK)
def test_whatever_is_left_the_file_is_the_same(cli, toy, unfinished, request, tmp_path, work):
    """Cut at the end of a record, in one, in what the journal says of one, and where nothing was left at all."""
    path, flags = request.getfixturevalue(WORK[work][0]), WORK[work][1]
    arguments = command(path, toy, *flags)
    whole = cli(*arguments)
    expected = (tmp_path / "out").read_bytes()
    (tmp_path / "out").unlink()
    records, noted, part, journal = unfinished(*arguments)
    assert sorted(records.splitlines()) == sorted(expected.splitlines()) and whole.code == 0
    header, *entries = noted.splitlines(keepends=True)
    ends = [0, *(json.loads(entry)[1] for entry in entries)]
    for kept, more, half in [(0, 0, 0), (0, 5, 0), (1, 0, 0), (3, 3, 0), (4, 1, 9), (7, 0, 5), (len(entries), 0, 0)]:
        kept = min(kept, len(entries))
        behind = entries[kept][:half] if kept < len(entries) else b""
        part.write_bytes(records[: ends[kept] + more])
        journal.write_bytes(header + b"".join(entries[:kept]) + behind)
        ran = cli(*arguments, "--resume")
        assert (ran.code, ran.err) == (0, whole.err), "as many lines failed as in a whole run, and the same one first"
        assert (tmp_path / "out").read_bytes() == expected
        assert not part.exists() and not journal.exists()
        (tmp_path / "out").unlink()


def test_what_is_done_is_not_generated_again(cli, toy, texts, unfinished, monkeypatch):
    records, _, part, _ = unfinished(*command(texts, toy))
    part.write_bytes(b"".join(records.splitlines(keepends=True)[:8]))
    generate, calls = md.Model.generate, []
    monkeypatch.setattr(md.Model, "generate", lambda *a, **k: calls.append(1) or generate(*a, **k))
    without_quiet = [a for a in command(texts, toy) if a != "-q"]
    ran = cli(*without_quiet, "--resume")
    assert ran.code == 0 and len(calls) == 2, "two batches hold the last four lines"
    assert ran.err.startswith(f"minidecode: {part} has 8 of 12 lines: continues with the others\n[")


@pytest.mark.parametrize("at", [0, 5])
def test_a_record_that_has_changed_is_made_again(cli, toy, texts, unfinished, at):
    """A disk or a hand has changed one byte of the sixth record, and no length: that record and all behind it go."""
    loud = [a for a in command(texts, toy, "--json") if a != "-q"]
    assert cli(*loud).code == 0
    expected = texts.with_name("out").read_bytes()
    texts.with_name("out").unlink()
    records, _, part, _ = unfinished(*loud)
    begin = sum(map(len, records.splitlines(keepends=True)[:5]))
    spoilt = bytearray(records)
    spoilt[begin + at] ^= 1
    part.write_bytes(spoilt)
    ran = cli(*loud, "--resume")
    assert ran.code == 0 and ran.err.startswith(f"minidecode: {part} has 5 of 12 lines: continues"), ran.err
    assert texts.with_name("out").read_bytes() == expected


@pytest.fixture
def refuses_z(fails_on_z, tmp_path, monkeypatch):
    """Flags of a model and a function of the user's, which raises an error of options for prompts with a z."""
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(
        "from minidecode.reference.argmax import argmax_tokens\n\n\n"
        "def refuses(scores_RV, *rest, **how):\n"
        "    assert (scores_RV == scores_RV).all(), 'no number'\n"
        "    return argmax_tokens(scores_RV, *rest, **how)\n"
    )
    return fails_on_z, "--json", "--on-error", "record", "--plan", "argmax=mine.py:refuses"


def test_lines_that_fail_beside_others_in_the_first_batch_are_recorded(cli, refuses_z, tmp_path):
    """The options cannot be to blame: the other line was done under them."""
    path = tmp_path / "p.txt"
    path.write_text("the\nzoo\na\nb", encoding="utf-8")
    ran = cli(*command(path, *refuses_z))
    assert ran.code == 0 and "1 of 4 lines with an error; the first: " in ran.err, ran.err
    records = (tmp_path / "out").read_bytes().splitlines()
    assert [("error" in json.loads(line)) for line in records] == [False, True, False, False]


def test_lines_that_fail_first_in_a_resumed_run_are_recorded(cli, refuses_z, tmp_path, unfinished):
    """The options cannot be to blame: lines before were done under them."""
    path = tmp_path / "p.txt"
    path.write_text("the\nsea\na\nb\nzoo\nz\noz\nzz\nof\non", encoding="utf-8")
    arguments = command(path, *refuses_z)
    whole = cli(*arguments)
    expected = (tmp_path / "out").read_bytes()
    (tmp_path / "out").unlink()
    assert [("error" in json.loads(line)) for line in expected.splitlines()] == [False] * 4 + [True] * 4 + [False] * 2
    records, _, part, _ = unfinished(*arguments)
    part.write_bytes(b"".join(records.splitlines(keepends=True)[:4]))
    ran = cli(*arguments, "--resume")
    assert (ran.code, ran.err) == (0, whole.err) and "4 of 10 lines with an error; the first: " in ran.err
    assert (tmp_path / "out").read_bytes() == expected


@pytest.mark.parametrize("flags", [[], ["--json", "--do-sample"]])
def test_interrupted_twice(cli, toy, texts, monkeypatch, flags):
    arguments, generate = command(texts, toy, *flags), md.Model.generate
    cli(*arguments)
    expected = texts.with_name("out").read_bytes()
    texts.with_name("out").unlink()
    for after, resume in ((1, []), (2, ["--resume"])):
        calls = []

        def interrupted(*given, calls=calls, after=after, **how):
            if len(calls) == after:
                raise KeyboardInterrupt
            calls.append(1)
            return generate(*given, **how)

        with monkeypatch.context() as patch:
            patch.setattr(md.Model, "generate", interrupted)
            assert cli(*arguments, *resume).code == 130
        assert not texts.with_name("out").exists()
    assert cli(*arguments, "--resume").code == 0
    assert texts.with_name("out").read_bytes() == expected


@pytest.mark.parametrize("flag", ["--pipeline", "--no-pipeline"])
@pytest.mark.parametrize(("signal", "code", "word"), [(KeyboardInterrupt, 130, "interrupted"),
                                                      (Terminated, 143, "terminated")])  # fmt: skip
def test_what_is_finished_in_a_window_that_is_not_is_kept(cli, toy, tmp_path, monkeypatch, signal, code, word, flag):
    """The first line is short, so its batch would be the last of 64 lines."""
    path, out, batches = tmp_path / "p.txt", tmp_path / "out", iter(range(99))
    path.write_text("".join(f"{'x' * (1 + n * 7 % 13)}\n" for n in range(64)), encoding="utf-8")
    arguments = "generate", "-i", path, "-m", toy, "-o", out, "--max-new-tokens", 2, "--batch-size", 2, "-q", flag
    assert cli(*arguments).code == 0
    expected, generate = out.read_bytes(), md.Model.generate
    out.unlink()

    def interrupted(*given, **how):
        if next(batches) == 16:
            raise signal
        return generate(*given, **how)

    with monkeypatch.context() as patch:
        patch.setattr(md.Model, "generate", interrupted)
        ran = cli(*arguments)
    says = f"minidecode: {word}; 32 of 64 lines are done, in {out}.part: --resume continues it\n"
    assert (ran.code, ran.err) == (code, says)
    assert Path(f"{out}.part").read_text().count("\n") == 32
    assert cli(*arguments, "--resume").code == 0 and out.read_bytes() == expected
    assert not list(tmp_path.glob("out.*"))


def test_a_line_that_stops_a_run_takes_no_finished_line_with_it(cli, fails_on_z, tmp_path):
    """The long lines are done first: line 8 fails, and 9 and 10 of its batch are finished."""
    path = tmp_path / "p.txt"
    path.write_text("\n".join(["a"] * 7 + ["ozo", "sea", "the"]), encoding="utf-8")
    ran = cli(
        "generate", "-i", path, "-m", fails_on_z, "-o", tmp_path / "out", "--max-new-tokens", 2, "--batch-size", 3
    )
    assert ran.code == 1 and "line 8" in ran.err
    assert ran.err.endswith(f"; 2 of 10 lines are done, in {tmp_path / 'out.part'}: --resume continues it\n")


def test_one_changed_number_of_the_journal_costs_records_and_no_line(cli, toy, texts, unfinished, tmp_path):
    """13 for 15 among the lines: these are done again."""
    records, noted, _, journal = unfinished(*command(texts, toy))
    expected = sorted(records.splitlines())
    *before, last = noted.splitlines(keepends=True)[:9]
    line, *others = json.loads(last)
    journal.write_bytes(b"".join([*before, json.dumps([line + 2, *others]).encode() + b"\n"]))
    assert cli(*command(texts, toy), "--resume").code == 0
    assert sorted((tmp_path / "out").read_bytes().splitlines()) == expected


ODD = [-1, 2**63, 10**30, "13", None, True, 1.5, float("nan")]


def test_a_journal_that_lies_loses_no_line(cli, toy, texts, unfinished, tmp_path):
    """Each number of an entry is another one, bits are others: a line of words, or the bytes of a whole run."""
    records, noted, part, journal = unfinished(*command(texts, toy, "--json"))
    assert cli(*command(texts, toy, "--json"), "--resume").code == 0
    expected = (tmp_path / "out").read_bytes()
    header, *entries = noted.splitlines(keepends=True)
    lies, rng = [], np.random.default_rng(0)
    for field in range(len(json.loads(entries[4]))):
        for value in ODD:
            entry = json.loads(entries[4])
            entry[field] = value
            lies.append([header, *entries[:4], json.dumps(entry).encode() + b"\n", *entries[5:]])
        lies.append([header, *entries[:4], json.dumps(entry[:field]).encode() + b"\n", *entries[5:]])
    lies += [
        [header, b"[" * 100_000 + b"\n"],
        [header, b"[" + b"9" * 5000 + b"]\n"],
        [b'{"depends_on": [1]}\n', *entries],
        [b'{"depends_on": {}}\n', *entries],
    ]
    lies += [
        [header, *entries[:3], *entries[4:]],
        [header, *entries[::-1]],
        [header, *entries, entries[-1]],
        [b"\xff\n"],
    ]
    for _ in range(12):
        data = bytearray(noted)
        data[rng.integers(len(noted))] ^= 1 << rng.integers(8)
        lies.append([bytes(data)])
    refused = 0
    for lie in lies:
        (tmp_path / "out").unlink(missing_ok=True)
        part.write_bytes(records)
        journal.write_bytes(b"".join(lie))
        ran = cli(*command(texts, toy, "--json"), "--resume")
        if ran.code == 0:
            assert (tmp_path / "out").read_bytes() == expected, lie
        else:
            refused += 1
            assert ran.code == 1 and ran.err.count("\n") == 1 and len(ran.err) < 900 and part.read_bytes() == records, (
                lie
            )
    assert 20 < refused < len(lies)


def as_process(arguments):
    return subprocess.Popen([sys.executable, "-m", "minidecode.commands.cli", *map(str, arguments)])


@pytest.fixture(scope="module")
def long_work(tmp_path_factory):
    """A command of a second or so, but for its output, and what it writes."""
    folder = tmp_path_factory.mktemp("long")
    toy, path = write_folder(folder / "toy"), folder / "p.txt"
    path.write_text("\n".join(PROMPTS * 25), encoding="utf-8")
    arguments = command(path, toy, "--json", "--do-sample")
    assert as_process(arguments).wait() == 0
    return [a for a in arguments if a not in ("-o", folder / "out")], (folder / "out").read_bytes()


@pytest.mark.skipif(sys.platform == "win32", reason="no such signal there")
@pytest.mark.parametrize("records", np.random.default_rng(0).integers(1, 120, 4).tolist())
def test_killed(cli, long_work, tmp_path, records):
    """SIGKILL, which no program can handle, once so many records are there."""
    arguments, part = [*long_work[0], "-o", tmp_path / "out"], tmp_path / "out.part"
    process, deadline = as_process(arguments), time.monotonic() + 30
    while not (part.exists() and part.read_bytes().count(b"\n") >= records) and time.monotonic() < deadline:
        time.sleep(0.001)
    process.kill()
    assert process.wait() == -signal.SIGKILL, "it was under way, or the test shows nothing"
    assert cli(*arguments, "--resume").code == 0
    assert (tmp_path / "out").read_bytes() == long_work[1]


# --- another run ---


@pytest.mark.parametrize(("change", "says"), [
    (["--max-new-tokens", 4], "max_new_tokens was 3, now 4"), (["--num-beams", 2], "num_beams was 1, now 2"),
    (["--json"], "json was False, now True"), (["--batch-size", 3], "batch_size was 2, now 3"),
    (["--plan", "cache=split"], "plan was 'auto', now 'cache=split'"), (["--truncate"], "truncate was False, now"),
    (["--dtype", "float64"], "dtype was 'float32', now 'float64', the model has changed"),
    (["--do-sample", "--seed", 4], "do_sample was False, now True, seed was 0, now 4"),
])  # fmt: skip
def test_a_changed_option_is_refused(fails, toy, texts, unfinished, change, says):
    records, noted, part, journal = unfinished(*command(texts, toy))
    given = command(texts, toy)
    if change[0] in given:  # each is given once
        at = given.index(change[0])
        given[at : at + 2] = []
    message = fails(*given, *change, "--resume")
    assert f"{part} was begun with other settings ({says}" in message
    assert "repeat them, or delete the file to start anew" in message
    assert (part.read_bytes(), journal.read_bytes()) == (records, noted), "nothing is lost"


def last_weight(toy):
    tensors = toy_tensors(CONFIG)
    tensors["wte.weight"][-1, -1] += 1
    write_folder(toy, tensors=tensors)


def last_merge(toy):
    path = toy / "tokenizer.json"
    fields = json.loads(path.read_text(encoding="utf-8"))
    del fields["model"]["merges"][-1]
    path.write_text(json.dumps(fields), encoding="utf-8")


CHANGES = {  # what has changed, as the error says it; and how: of the texts, the model's folder and the user's file
    "a line": ("input", lambda texts, toy, mine: texts.write_text("\n".join([*PROMPTS[:-1], "c"]))),
    "where a line ends": ("input", lambda texts, toy, mine: texts.write_text("\n".join([*PROMPTS[:-2], "th", "eb"]))),
    "the last weight": ("model", lambda texts, toy, mine: last_weight(toy)),
    "the last merge": ("model", lambda texts, toy, mine: last_merge(toy)),
    "a setting": ("model", lambda texts, toy, mine: write_folder(toy, layer_norm_epsilon=0.1)),
    "a function": ("file mine.py", lambda texts, toy, mine: mine.write_text(f"{mine.read_text()}\n")),
}


@pytest.mark.parametrize(("what", "change"), CHANGES.values(), ids=CHANGES)
def test_a_changed_file_is_refused(fails, tiny_folder, tmp_path, texts, unfinished, monkeypatch, what, change):
    toy, mine = tiny_folder(), tmp_path / "mine.py"
    monkeypatch.chdir(tmp_path)
    mine.write_text("from minidecode.reference.argmax import argmax_tokens as mine\n", encoding="utf-8")
    arguments = command(texts, toy, "--plan", "argmax=mine.py:mine")
    _, _, part, _ = unfinished(*arguments)
    change(texts, toy, mine)
    assert f"{part} was begun with other settings (the {what} has changed): " in fails(*arguments, "--resume")


@pytest.mark.parametrize("package", ["minidecode", "numpy"])
def test_another_version_is_refused(fails, toy, texts, unfinished, monkeypatch, package):
    """Its last digits, and with them its texts, may be others."""
    from minidecode.lines import depends

    arguments = command(texts, toy)
    unfinished(*arguments)
    monkeypatch.setattr(depends.np if package == "numpy" else depends.PACKAGE, "__version__", "9.9")
    assert f"{package} was " in fails(*arguments, "--resume")


def test_the_same_input_under_another_name_is_no_change(cli, toy, texts, unfinished):
    records, *_ = unfinished(*command(texts, toy))
    texts = texts.rename(texts.with_name("q.txt"))
    assert cli(*command(texts, toy, "--memory-budget", "1GB", "--no-pipeline"), "--resume").code == 0
    assert texts.with_name("out").read_bytes() == records


def test_a_line_that_stopped_a_run_can_be_left_out_by_the_next(cli, fails_on_z, tmp_path):
    path = tmp_path / "p.txt"
    path.write_text("the\nsea\na\nb\nzoo\nof\nzoo\non", encoding="utf-8")
    skip = command(path, fails_on_z, "--on-error", "skip")
    whole = cli(*skip)
    expected = (tmp_path / "out").read_bytes()
    (tmp_path / "out").unlink()
    stopped = cli(*command(path, fails_on_z))
    assert stopped.code == 1 and "line 5" in stopped.err
    said = re.sub("the first 4 lines", "4 of 8 lines", stopped.err)  # of two batches, the second may have ended first
    assert said.endswith(f"; 4 of 8 lines are done, in {tmp_path / 'out.part'}: --resume continues it\n")
    again = cli(*command(path, fails_on_z), "--resume").err
    assert "line 5" in again and again.partition("; ")[0] == stopped.err.partition("; ")[0], "it stops there again"
    ran = cli(*skip, "--resume")
    assert (ran.code, ran.err) == (0, whole.err) and (tmp_path / "out").read_bytes() == expected


def test_lines_that_were_left_out_can_be_recorded_by_the_next(cli, fails, toy, objects, unfinished):
    skip = command(objects, toy, "--do-sample", "--json", "--on-error", "skip")
    record = command(objects, toy, "--do-sample", "--json", "--on-error", "record")
    whole, out = cli(*record), objects.with_name("out")
    expected = out.read_bytes()
    out.unlink()
    unfinished(*skip)
    ran = cli(*record, "--resume")
    assert (ran.code, ran.err) == (0, whole.err) and out.read_bytes() == expected
    out.unlink()
    unfinished(*record)  # the other way there are records already
    assert f"on_error was 'record ({objects}, line)', now 'skip'" in fails(*skip, "--resume")


def test_a_part_without_a_journal(fails, toy, texts, tmp_path):
    (tmp_path / "out.part").write_text("hours of work")
    says = "out.part has no journal (out.part.journal) that can be read, so a run cannot go on with it: rename it or"
    assert says in fails(*command(texts, toy), "--resume")
    assert (tmp_path / "out.part").read_text() == "hours of work"
    assert "did not end; rename it or delete it first" in fails(*command(texts, toy))


def test_without_the_flag_the_error_names_it(fails, toy, texts, unfinished):
    records, _, part, _ = unfinished(*command(texts, toy))
    says = f"{part} is there: the records of a run that did not end; go on with it by --resume, or rename it or delete"
    assert says in fails(*command(texts, toy))
    assert part.read_bytes() == records


# --- where there is nothing to go on with ---


def test_with_nothing_to_go_on_with_it_starts(cli, toy, texts, tmp_path):
    """A script can always say it."""
    loud = [a for a in command(texts, toy) if a != "-q"]
    ran = cli(*loud, "--resume")
    assert ran.code == 0 and (tmp_path / "out").read_text().count("\n") == len(PROMPTS)
    assert ran.err.startswith(f"minidecode: {tmp_path / 'out.part'} has no line yet: starting with the first\n[")
    expected = (tmp_path / "out").read_bytes()
    (tmp_path / "out.part").touch()  # a run that ended before it wrote a record, and before its journal
    assert cli(*command(texts, toy), "--resume").err == "" and (tmp_path / "out").read_bytes() == expected


def test_arguments_can_be_gone_on_with(cli, toy, tmp_path, unfinished):
    arguments = ["generate", "the", "a", "-m", toy, "--max-new-tokens", 3, "-o", tmp_path / "out", "-q"]
    records, _, part, _ = unfinished(*arguments)
    part.write_bytes(records[:-1])
    assert cli(*arguments, "--resume").code == 0 and (tmp_path / "out").read_bytes() == records


def test_what_can_be_read_once_is_refused(fails, toy, tmp_path, texts):
    says = "--resume reads all prompts again, and standard input can be read once: give them by --input FILE"
    assert says in fails("generate", "-", "-m", toy, "-o", tmp_path / "out", "--resume", stdin=b"the\nsea\na\n")
    assert "say --output FILE" in fails("generate", "-i", texts, "-m", toy, "--resume")
    if sys.platform != "win32":
        message = fails("generate", "-i", texts, "-m", toy, "-o", "/dev/null", "--resume")
        assert "/dev/null is no file that a run could go on with: leave out --resume" in message


def test_the_guide_shows_what_is_printed(cli, tmp_path, unfinished, monkeypatch):
    page = (Path(__file__).parents[2] / "docs" / "guide" / "files.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```console\n\$ minidecode (.*?)\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "prompts.txt").write_text("Fellow citizens,\nOur army\nPeace\nThe Congress", encoding="utf-8")
    given = block[0].replace("texts.txt", "out").split()
    records, _, part, _ = unfinished(*given[:-1])
    part.write_bytes(b"".join(records.splitlines(keepends=True)[:2]))
    ran = cli(*given)

    def without_times(text):
        return re.sub(r"[\d.]+ s, [\d.]+ tokens/s", "", text)

    assert without_times(ran.err) == without_times(block[1].replace("/home/me/texts.txt", str(tmp_path / "out")))
    assert (tmp_path / "out").read_bytes() == records


# --- the file of records ---


@pytest.mark.skipif(sys.platform == "win32", reason="no such locks there")
def test_two_runs_do_not_write_one_file(tmp_path):
    with RecordFile(tmp_path / "out", dict) as out:
        out.write("one\n", 1)
        with pytest.raises(md.InputError, match=r"out\.part is written by another run just now: wait for its end"):
            RecordFile(tmp_path / "out", dict, resume=True)
        out.write("two\n", 2)
    assert (tmp_path / "out").read_text() == "one\ntwo\n"


@settings(max_examples=40)
@given(records=st.lists(st.text("é\n", max_size=3).map(lambda t: t + "\n"), max_size=6), data=st.data())
def test_of_any_two_beginnings_whole_records_are_kept(tmp_path_factory, records, data):
    """Of the part and of its journal: more is kept of one or of the other, never a record that is half."""
    folder = tmp_path_factory.mktemp("records")
    order = data.draw(st.permutations(range(1, len(records) + 1)))

    def write_rest(out):
        for number in order:
            if number not in out.done:
                out.write(records[number - 1], number)

    with pytest.raises(ZeroDivisionError), RecordFile(folder / "out", dict) as out:
        write_rest(out)
        out.done[0] = 0, 0  # also where there is none
        raise ZeroDivisionError
    for name in ("out.part", "out.part.journal"):
        whole = (folder / name).read_bytes()
        least = whole.index(b"\n") + 1 if name.endswith("journal") else 0  # its first line appears whole
        (folder / name).write_bytes(whole[: data.draw(st.integers(least, len(whole)))])
    left = (folder / "out.part").stat().st_size
    with RecordFile(folder / "out", dict, resume=True) as out:
        kept = "".join(records[number - 1] for number in out.done).encode()
        assert (folder / "out.part").read_bytes() == kept and len(kept) <= left
        write_rest(out)
    assert (folder / "out").read_bytes() == "".join(records).encode()


def test_a_journal_that_finds_no_room(tmp_path):
    """The record that it cannot note is cut off, too."""

    class Full:
        def __init__(self, file):
            self.file = file

        def write(self, data):
            if len(data) > 3:
                return self.file.write(data[:3])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        def __getattr__(self, name):
            return getattr(self.file, name)

    with pytest.raises(md.InputError, match="No space left"), RecordFile(tmp_path / "out", dict) as out:
        out.write("one\n", 1)
        noted = (tmp_path / "out.part.journal").read_bytes()
        out._journal._file = Full(out._journal._file)
        out.write("two\n", 2)
    assert (tmp_path / "out.part").read_text() == "one\n" and list(out.done) == [1]
    assert (tmp_path / "out.part.journal").read_bytes() == noted
