"""Shards of lines: generated for in any order, by several generators, they give the bytes of one run over all lines."""

from __future__ import annotations

import collections
import json
import os
import random
import re

import numpy as np
import pytest
from toy_folder import write_folder

import minidecode as md

PLAN = "numpy"
OBJECTS = [
    {"prompt": "the"}, {"prompt": "a", "max_new_tokens": 2, "id": "é"}, {"prompt": "the", "seed": 5}, {"prompt": " "},
    {"prompt": "sea the sea"}, {"prompt": "the", "line": 99, "note": None}, {"prompt": "the", "seed": 3},
    {"prompt": "x" * 17}, {"prompt": "the", "max_new_tokens": 10**9}, {"prompt": "the", "stop": ["a"]},
]  # fmt: skip
BAD = [b"", b"{", b'{"prompt": 1}', b'{"prompt": "the\xff"}']
LINES = [*([json.dumps(o, ensure_ascii=False).encode() for o in OBJECTS] + BAD) * 3, b'{"prompt": "a sea"}']
OPTIONS = {
    "greedy": {},
    "beams": {"num_beams": 2, "num_return_sequences": 2},
    "samples": {"do_sample": True, "seed": 3},
}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return md.load(write_folder(tmp_path_factory.mktemp("models") / "toy"), plan=PLAN)


@pytest.fixture
def prompts(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "prompts.jsonl").write_bytes(b"".join(line + b"\n" for line in LINES))
    return tmp_path / "prompts.jsonl"


def one_machine(cli, model, prompts, options, output="whole.jsonl") -> bytes:
    """The records that the command line writes for all lines."""
    flags = [f"--{name.replace('_', '-')}" + ("" if value is True else f"={value}") for name, value in options.items()]
    ran = cli("generate", "--model", model.loaded_from.folder, "--plan", PLAN, "--input", prompts, "--output", output,
              "--batch-size", 2, "--max-new-tokens", 4, "--on-error", "record", "--json", "-q", *flags)  # fmt: skip
    assert ran.code == 0, ran.err
    return (prompts.parent / output).read_bytes()


def as_batches(shards, each=1):
    """As Ray hands shards over: a few at a time, each column an array."""
    shards = list(shards)
    for i in range(0, len(shards), each):
        part = shards[i : i + each]
        batch = {name: np.empty(len(part), object) for name in part[0]}
        for name, column in batch.items():
            column[:] = [np.array(shard[name]) if name == "sample_ids" else shard[name] for shard in part]
        yield batch


def how(prompts, options):
    return {"batch_size": 2, "max_new_tokens": 4, "source": f"{prompts}, line"} | options


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_shards_in_any_order_give_the_bytes_of_one_run(cli, model, prompts, tmp_path, options):
    """Own options, blank lines, lines that are no JSON, no text, too long: all are there, in their order."""
    whole = one_machine(cli, model, prompts, options)
    shards = list(md.cut_shards(prompts, size=16, seed=options.get("seed")))
    assert [shard["line"] for shard in shards] == [1, 17, 33] and whole.count(b'"error"') >= 15
    random.Random(1).shuffle(shards)
    batches = list(as_batches(shards, 2))
    told = [md.ShardGenerator(model, tmp_path / "out", **how(prompts, options))(batch) for batch in batches]
    assert "".join(md.join_shards(tmp_path / "out")).encode() == whole
    assert sum(sum(rows["lines"]) for rows in told) == len(LINES) == sum(sum(rows["generated"]) for rows in told)
    assert sum(sum(rows["failed"]) for rows in told) == whole.count(b'"error"')
    rows = [md.ShardGenerator(model, **how(prompts, options))(batch) for batch in batches]
    back = dict(
        zip(np.concatenate([r["line"] for r in rows]), np.concatenate([r["record"] for r in rows]), strict=True)
    )
    assert "".join(back[n] + "\n" for n in sorted(back)).encode() == whole


def test_samples_need_the_copies_of_the_whole_input(cli, model, prompts, tmp_path):
    """Numbered within each shard, equal prompts would get equal samples: other bytes than one run's."""
    options = OPTIONS["samples"]
    whole = one_machine(cli, model, prompts, options)
    generate = md.ShardGenerator(model, tmp_path / "out", **how(prompts, options))
    for shard in md.cut_shards(prompts, size=16):
        with pytest.raises(md.OptionError, match="give cut_shards the seed of the samples"):
            generate(next(as_batches([shard])))
        (of_shard,) = md.cut_shards(shard["lines"].split(b"\n"), jsonl=True, seed=3)
        generate(next(as_batches([of_shard | {"line": shard["line"]}])))
    assert "".join(md.join_shards(tmp_path / "out")).encode() != whole


def test_copies_are_those_that_a_naive_count_finds():
    texts = random.Random(2).choices(["a", "b", "the"], k=40)
    lines = [{"prompt": text, "seed": seed} for text, seed in zip(texts, [None, 3, 4, 3] * 10, strict=True)]
    seen, expected = collections.Counter(), []
    for line in lines:
        key = line["prompt"], 3 if line["seed"] is None else line["seed"]
        expected.append(seen[key])
        seen[key] += 1
    assert [n for shard in md.cut_shards(lines, size=7, seed=3) for n in shard["sample_ids"]] == expected
    assert max(expected) > 5 and "sample_ids" not in next(md.cut_shards(lines))


def test_a_second_run_generates_what_is_missing(model, prompts, tmp_path, monkeypatch):
    shards, out = list(md.cut_shards(prompts, size=16)), tmp_path / "out"
    generate = md.ShardGenerator(model, out, **how(prompts, {}))
    for batch in as_batches(shards):
        generate(batch)
    whole, names = "".join(md.join_shards(out)), sorted(os.listdir(out))
    assert [name[:25] for name in names] == [f"{a:012d}-{b:012d}" for a, b in ((1, 16), (17, 32), (33, 43))]
    half = (out / names[1]).read_bytes()[:50]
    (out / names[1]).unlink()
    (out / f".{names[1]}.0123.part").write_bytes(half)  # what a killed actor leaves
    with pytest.raises(md.InputError, match=r"lines 17 to 32 are missing, before 000000000033"):
        md.join_shards(out)
    again = [md.ShardGenerator(model, out, **how(prompts, {}))(batch) for batch in as_batches(shards)]
    assert [row["generated"].tolist() for row in again] == [[0], [16], [0]]
    assert "".join(md.join_shards(out)) == whole


def test_a_file_has_no_name_before_it_is_whole(model, prompts, tmp_path, monkeypatch):
    def killed(*_):
        raise KeyboardInterrupt

    out = tmp_path / "out"
    generate = md.ShardGenerator(model, out, **how(prompts, {}))
    monkeypatch.setattr(os, "fsync", killed)
    with pytest.raises(KeyboardInterrupt):
        generate(next(as_batches(md.cut_shards(prompts, size=16))))
    assert [re.sub(r"\w{12,32}", "ID", name) for name in os.listdir(out)] == [".ID-ID-ID.jsonl.ID.part"]
    assert list(md.join_shards(out)) == []


CHANGES = {
    "options": lambda model: (16, LINES, {"num_beams": 2}), "lines": lambda model: (16, LINES[::-1], {}),
    "size": lambda model: (32, LINES, {}), "batch size": lambda model: (16, LINES, {"batch_size": 1}),
    "source": lambda model: (16, LINES, {"source": "row"}), "format": lambda model: (16, LINES, {"parquet": True}),
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_folder_takes_no_records_of_another_run(model, prompts, tmp_path, change):
    out = tmp_path / "out"
    shards = list(md.cut_shards(prompts, size=16))
    md.ShardGenerator(model, out, **how(prompts, {}))(next(as_batches(shards[1:2])))
    size, lines, options = change(model)
    other = md.ShardGenerator(model, out, **how(prompts, options))
    shard = next(s for s in md.cut_shards(lines, size=size, jsonl=True) if s["line"] + size > 17)
    with pytest.raises(md.OptionError, match=r"holds 000000000017-000000000032-\w{12}.jsonl, of other lines, options"):
        other(next(as_batches([shard])))
    assert len(os.listdir(out)) == 1


def test_shards_are_whole_windows(model):
    """Cut elsewhere, a line would be computed in another batch, and its score's last bits could differ."""
    generate = md.ShardGenerator(model, batch_size=2, max_new_tokens=1)
    first, second = list(as_batches(md.cut_shards(["the"] * 16, size=8)))
    assert len(generate(first)["record"]) == 8
    with pytest.raises(md.OptionError, match=r"line 9, within a window of 16 lines: give cut_shards a size"):
        generate(second)
    assert len(md.ShardGenerator(model, batch_size=2, sort_window=4, max_new_tokens=1)(second)["line"]) == 8


FUNCTION = "from minidecode.reference.argmax import argmax_tokens as best\n"


def test_a_folder_takes_whatever_options_generate_lines_takes(model, prompts, tmp_path):
    """Arrays, a plan, functions. A function of the plan is part of what records depend on."""
    (tmp_path / "mine.py").write_text(FUNCTION)
    plan = f"argmax={tmp_path / 'mine.py'}:best"
    options = how(prompts, {
        "plan": md.Plan.parse(plan), "batch_size": np.int64(2), "eos_token_id": np.array([7]), "draft": None,
        "logits_processor": [lambda scores_RV, *_: scores_RV], "arena": None,
    })  # fmt: skip
    batch = next(as_batches(md.cut_shards(prompts, size=16)))
    assert md.ShardGenerator(model, tmp_path / "out", **options)(batch)["generated"] == [16]
    spelled = options | {"plan": plan, "batch_size": 2, "eos_token_id": [7], "costs": True}
    assert md.ShardGenerator(model, tmp_path / "out", **spelled)(batch)["generated"] == [0]
    (tmp_path / "mine.py").write_text(f"{FUNCTION}\n")
    with pytest.raises(md.OptionError, match="of other lines, options"):
        md.ShardGenerator(model, tmp_path / "out", **options)(batch)


def test_wrong_options_are_named_before_the_first_shard(model, tmp_path):
    for options, words in (
        ({"batch_size": 0}, "batch_size must be"), ({"sort_window": 1.5}, "sort_window must be"),
        ({"plan": "cache=none,split=cpu"}, "has no effect"),
    ):  # fmt: skip
        with pytest.raises(md.OptionError, match=words):
            md.ShardGenerator(model, tmp_path / "out", **options)


def test_one_line_names_what_cannot_be_cut():
    for lines, words in (
        (["a\nb"], "line 1 holds a line break"), ([{"prompt": "a", "at": {1, 2}}], "line 1 holds a value that JSON"),
        ([{"prompt": "a", "x": float("nan")}], "line 1 holds a value"), (["a", {"prompt": "a"}], "lines 1 to 2 are"),
    ):  # fmt: skip
        with pytest.raises(md.InputError, match=words):
            list(md.cut_shards(lines))
    with pytest.raises(md.OptionError, match="size must be an integer from 1 up, not 0"):
        list(md.cut_shards(["a"], size=0))


def test_records_that_are_there_twice_are_named(tmp_path):
    for name in ("000000000001-000000000004-0123456789ab.jsonl", "000000000003-000000000006-0123456789ab.jsonl"):
        (tmp_path / name).write_text("{}\n")
    with pytest.raises(md.InputError, match="line 3 is there twice, before 000000000003-"):
        md.join_shards(tmp_path)


def test_rows_of_parquet_give_the_same_records(model, prompts, tmp_path):
    """A row is the line of its values; a null is that of JSON."""
    pyarrow = pytest.importorskip("pyarrow", reason="the extra `ray` is not installed")
    from pyarrow import parquet

    rows = [{"prompt": text, "max_new_tokens": n} for text, n in (("the", 2), ("a\nsea", None), (None, 3), (" ", 1))]
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "rows.parquet")
    options = how(prompts, {})
    generate = md.ShardGenerator(model, tmp_path / "out", parquet=True, **options)
    for batch in as_batches(md.cut_shards(tmp_path / "rows.parquet", size=16)):
        generate(batch)
    lines = md.generate_lines(model, [json.dumps(row) for row in rows], jsonl=True, on_error="record", **options)
    expected = [[], []]
    for line in lines:
        expected[0].append(line.texts or str(line.error))
    for text in md.join_shards(tmp_path / "out"):
        record = json.loads(text)
        expected[1].append([h["text"] for h in record.get("hypotheses", ())] or record["error"])
    assert expected[0] == expected[1] and len(expected[0]) == 4
    (file,) = os.listdir(tmp_path / "out")
    assert parquet.read_table(tmp_path / "out" / file)["line"].to_pylist() == [1, 2, 3, 4]
    (tmp_path / "bad.parquet").write_bytes(b"PAR1")
    with pytest.raises(md.InputError, match=r"bad.parquet cannot be read as Parquet"):
        next(md.cut_shards(tmp_path / "bad.parquet"))


@pytest.mark.parametrize("keeps_order", [True, False])
@pytest.mark.parametrize("overlap", ["both", "none"])
def test_the_lines_of_a_part_have_the_numbers_of_the_whole(model, overlap, keeps_order):
    texts = ["the", "a", "", "sea"]
    how = {"on_error": "record", "overlap": overlap, "keeps_order": keeps_order, "max_new_tokens": 2}
    whole = {line.number: (line.texts, str(line.error)) for line in md.generate_lines(model, texts, **how)}
    with md.generate_lines(model, texts[2:], first_line=3, done={4}, **how) as run:
        part = {line.number: (line.texts, str(line.error)) for line in run}
    assert part == {3: whole[3]} and "line 3 is blank" in part[3][1]
    with md.generate_lines(model, texts[1:], first_line=2, done=1, **how) as run:
        assert {line.number for line in run} == {3, 4}
    with pytest.raises(md.InputError, match="2 lines done before, and there are 1"):
        list(md.generate_lines(model, texts[3:], first_line=4, done=2, **how))
    with pytest.raises(md.LineError, match="sample_ids are 1, and there are more lines"):
        list(md.generate_lines(model, ["the", "a"], sample_ids=[0], overlap=overlap))
    with pytest.raises(md.OptionError, match="first_line must be an integer from 1 up, not 0"):
        md.generate_lines(model, texts, first_line=0)
