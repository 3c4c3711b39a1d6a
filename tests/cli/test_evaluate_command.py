"""`minidecode evaluate`: thin over minidecode.bench.quality, and how it fails."""

from __future__ import annotations

import json
import os
import sys

import pytest
from toy_folder import write_folder

import minidecode as md
from minidecode.bench import quality

RECORDS = [
    {"prompt": "the sea", "reference": "and the other"},
    {"prompt": "a", "reference": ["b c", "d"]},
    {"prompt": "other things", "reference": "the"},
]
PROMPTS, REFERENCES = ([r[field] for r in RECORDS] for field in ("prompt", "reference"))
FEW = ["--max-new-tokens", "4"]


@pytest.fixture
def pairs(tmp_path):
    path = tmp_path / "pairs.jsonl"
    path.write_text("".join(json.dumps(r) + "\n" for r in RECORDS))
    return path


def without_seconds(evaluation: dict) -> dict:
    for row in evaluation["rows"]:
        del row["seconds"]
    return evaluation


def test_one_row_as_the_library_computes_it(cli, toy, pairs):
    ran = cli("evaluate", pairs, "-m", toy, *FEW, "--num-beams", 2, "--json")
    answers = quality.answer_prompts(md.load(toy), PROMPTS, name=str(toy), max_new_tokens=4, num_beams=2)
    expected = json.loads(json.dumps(quality.judge_answers([answers], REFERENCES).as_dict()))
    assert (ran.code, ran.err) == (0, "")
    assert without_seconds(json.loads(ran.out)) == without_seconds(expected)


def test_a_row_for_each_model_precision_and_plan(cli, toy, toy_bart, pairs):
    ran = cli("evaluate", pairs, "-m", toy, "-m", toy_bart, *FEW, "--plan", "cache=none", "--plan", "auto",
              "--dtype", "float32", "--dtype", "float64", "--json")  # fmt: skip
    rows = json.loads(ran.out)["rows"]
    assert [(r["model"], r["dtype"], r["plan"]) for r in rows] == [
        (str(model), dtype, plan)
        for model in (toy, toy_bart)
        for dtype in ("float32", "float64")
        for plan in ("cache=none", "auto")
    ]
    assert [r["different"] for r in rows[:4]] == [0] * 4 and rows[4]["different"] == len(PROMPTS)
    assert rows[0]["intervals"] is None
    assert rows[1]["intervals"] == {metric: [0.0, 0.0] for metric in quality.METRICS}


def test_the_table(cli, toy, pairs):
    ran = cli("evaluate", pairs, "-m", toy, *FEW, "--plan", "auto", "--plan", "cache=none")
    lines = ran.out.splitlines()
    head = ["model", "plan", "dtype", "ROUGE-1", "ROUGE-2", "ROUGE-L", "BLEU", "tokens", "seconds", "differ"]
    assert lines[0].split() == head
    for line, plan in zip(lines[1:3], ("auto", "cache=none"), strict=True):
        cells = line.split()
        assert cells[:3] == [str(toy), plan, "float32"] and len(cells) == len(head) and cells[-1] == "0"
    assert lines[3].startswith("row 2 less row 1, 95 %: ROUGE-1 +0.00 to +0.00, ROUGE-2 ")
    assert lines[4].startswith("3 texts")
    assert lines[5].startswith("ROUGE: rouge-score ") and "no stemmer" in lines[5]
    assert lines[6].startswith("BLEU: nrefs:var|case:mixed|") and len(lines) == 7


def test_the_tokenizer_is_chosen_and_a_wrong_one_ends_at_once(cli, fails, toy, pairs, monkeypatch):
    ran = cli("evaluate", pairs, "-m", toy, *FEW, "--tokenizer", "characters", "--json")
    assert (ran.code, ran.err) == (0, "") and "tok:char|" in json.loads(ran.out)["bleu"]
    monkeypatch.setattr(md, "load", None)
    assert "tokenizer 'words' is unknown" in fails("evaluate", pairs, "-m", toy, "--tokenizer", "words")


def test_two_files_line_by_line(cli, toy, tmp_path):
    (tmp_path / "sources.txt").write_text("".join(f"{p}\n" for p in PROMPTS))
    (tmp_path / "refs.txt").write_text("one\ntwo\nthree\n")
    (tmp_path / "pairs.jsonl").write_text(
        "".join(json.dumps({"prompt": p, "reference": r}) + "\n" for p, r in zip(PROMPTS, ["one", "two", "three"],
                                                                               strict=True))
    )  # fmt: skip
    two = cli("evaluate", "--sources", tmp_path / "sources.txt", "--references", tmp_path / "refs.txt", "-m", toy,
              *FEW, "--json")  # fmt: skip
    one = cli("evaluate", tmp_path / "pairs.jsonl", "-m", toy, *FEW, "--json")
    assert two.code == 0
    assert without_seconds(json.loads(two.out)) == without_seconds(json.loads(one.out))


def test_pairs_from_standard_input(cli, toy, pairs):
    ran = cli("evaluate", "-", "-m", toy, *FEW, "--json", stdin=pairs.read_bytes())
    assert json.loads(ran.out)["texts"] == 3


def test_what_was_generated_is_written(cli, toy, pairs, tmp_path):
    path = tmp_path / "said.jsonl"
    ran = cli("evaluate", pairs, "-m", toy, *FEW, "--plan", "auto", "--plan", "cache=none", "--output", path,
              "--batch-size", 2)  # fmt: skip
    texts = md.load(toy).generate(PROMPTS, max_new_tokens=4).texts
    records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert ran.code == 0 and [r["text"] for r in records] == texts * 2
    assert records[4] == {"model": str(toy), "plan": "cache=none", "dtype": "float32"} | RECORDS[1] | {"text": texts[1]}


def test_truncate_reaches_the_search(cli, fails, toy, tmp_path):
    path = tmp_path / "long.jsonl"
    path.write_text(json.dumps({"prompt": "x" * 30, "reference": "y"}))
    assert "long.jsonl, line 1: the prompt has 30 tokens" in fails("evaluate", path, "-m", toy, *FEW)
    assert cli("evaluate", path, "-m", toy, *FEW, "--truncate").code == 0


# --- failures ---


def test_a_line_that_cannot_be_answered_is_left_out_of_all_rows(cli, fails, toy, tmp_path):
    """20 letters are more than the first model's context of 16 holds, and not than the second's."""
    path, kept, texts = tmp_path / "p.jsonl", tmp_path / "kept.jsonl", tmp_path / "texts.jsonl"
    kept.write_text("".join(json.dumps(r) + "\n" for r in RECORDS))
    path.write_text(json.dumps(RECORDS[0]) + "\n" + json.dumps({"prompt": "x" * 20, "reference": "y"}) + "\n"
                    + "".join(json.dumps(r) + "\n" for r in RECORDS[1:]))  # fmt: skip
    models = ["-m", toy, "-m", write_folder(tmp_path / "wide", n_positions=64), "--json", *FEW]
    assert "p.jsonl, line 2: the prompt has 20 tokens" in fails("evaluate", path, *models)
    ran = cli("evaluate", path, *models, "--on-error", "skip", "--output", texts)
    found, expected = json.loads(ran.out), json.loads(cli("evaluate", kept, *models).out)
    assert (found["left_out"], expected["left_out"], found["texts"]) == (1, 0, len(RECORDS))
    assert [row["scores"] for row in found["rows"]] == [row["scores"] for row in expected["rows"]]
    assert ran.err.count("\n") == 1 and "the first error: " in ran.err and "p.jsonl, line 2" in ran.err
    said = [json.loads(line)["text"] for line in texts.read_text(encoding="utf-8").splitlines()]
    assert len(said) == 2 * (len(RECORDS) + 1) and said.count(None) == 1
    path.write_text(json.dumps({"prompt": "x" * 20, "reference": "y"}))
    assert "p.jsonl, line 1: the prompt" in fails("evaluate", path, "-m", toy, "--on-error", "skip", "--quiet", *FEW)


@pytest.mark.parametrize(("arguments", "named"), [
    ([], "give PAIRS"), (["--sources", "a.txt"], "give PAIRS"), (["--references", "a.txt"], "give PAIRS"),
    (["PAIRS", "--sources", "a.txt", "--references", "b.txt"], "give PAIRS"), (["no-file.jsonl"], "No such file"),
    (["PAIRS", "--plan", "cache=magic"], "magic"), (["PAIRS", "--dtype", "half"], "dtype must be"),
    (["PAIRS", "--dtype", "float64", "--dtype", "half"], "dtype must be"), (["PAIRS", "-m", "nobody"], "nobody"),
    (["PAIRS", "--batch-size", 0], "--batch-size"),
    (["PAIRS", "--num-beams", 2, "--nbest", 2], "--num-return-sequences"),
    (["PAIRS", "--on-error", "record"], "--on-error must be stop or skip"),
    (["PAIRS", "--num-beams", 0], "--num-beams"), (["PAIRS", "--output", "no/such/folder/x"], "no folder"),
])  # fmt: skip
def test_what_cannot_be_evaluated(fails, toy, pairs, arguments, named):
    arguments = [pairs if a == "PAIRS" else a for a in arguments]
    model = [] if "-m" in arguments else ["-m", toy]
    assert named in fails("evaluate", *arguments, *model)


@pytest.mark.parametrize("reference", [None, 3, [], ["a", 3]])
def test_a_record_without_a_reference(fails, toy, tmp_path, reference):
    path = tmp_path / "p.jsonl"
    path.write_text(json.dumps(RECORDS[0]) + "\n" + json.dumps({"prompt": "a", "reference": reference}))
    message = fails("evaluate", path, "-m", toy)
    assert "p.jsonl, line 2" in message and '"reference"' in message


def test_files_that_do_not_go_in_pairs(fails, toy, tmp_path):
    sources, references = tmp_path / "s.txt", tmp_path / "r.txt"
    sources.write_text("a\nb\n")
    for text, named in [
        ("one\n", "2 lines and"),
        ("\none\n", "r.txt, line 1 is blank"),
        ("one\n\n", "2 lines and"),
        ("", "r.txt is empty"),
    ]:
        references.write_text(text)
        assert named in fails("evaluate", "--sources", sources, "--references", references, "-m", toy)


def test_nothing_is_left_of_a_failure(fails, fails_on_z, tmp_path):
    (tmp_path / "p.jsonl").write_text('{"prompt": "zoo", "reference": "a"}')
    message = fails("evaluate", tmp_path / "p.jsonl", "-m", fails_on_z, "--output", tmp_path / "said.jsonl")
    assert "NaN" in message and sorted(os.listdir(tmp_path)) == ["p.jsonl", "toy-gpt2"]


@pytest.mark.parametrize("package", ["rouge_score", "sacrebleu"])
def test_a_missing_package(fails, toy, pairs, monkeypatch, package):
    for name in [n for n in sys.modules if n.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    message = fails("evaluate", pairs, "-m", toy)
    assert package in message and "pip install 'rouge-score>=0.1.2' 'sacrebleu>=2.4'" in message
