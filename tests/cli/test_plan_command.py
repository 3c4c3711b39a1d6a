"""`minidecode plan`: the table, its sums, JSON and the picture, from a config.json alone."""

import json
import re
import xml.etree.ElementTree as ElementTree

import pytest
from toy_folder import BART_CONFIG, CONFIG, write_json

import minidecode as md
from minidecode.loading import load_shapes
from minidecode.runtime.arena import SHOWN

SIZES = ["--batch-size", 2, "--input-length", 5, "--max-new-tokens", 6]
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def shape(tmp_path):
    """A folder without weights."""

    def make(config=CONFIG):
        (tmp_path / "shape").mkdir(exist_ok=True)
        write_json(tmp_path / "shape" / "config.json", config)
        return tmp_path / "shape"

    return make


def test_the_table_and_its_sums(cli, shape):
    ran = cli("plan", shape(), *SIZES, "--beam", 3, "--plan", "cache=split")
    assert (ran.code, ran.err) == (0, "")
    step = load_shapes(shape()).plan_step(
        batch_size=2, input_length=5, max_new_tokens=6, num_beams=3, plan="cache=split"
    )
    lines = ran.out.splitlines()
    assert lines[0].split() == ["intermediate", "bytes", "first", "last", "offset"]
    *table, rest = lines[1 : lines.index("")]
    rows = [re.fullmatch(r"(.+?) +([\d,]+) +(\d+) +(\d+) +([\d,]+)", line) for line in table]
    shown = [(m[1], *(int(m[i].replace(",", "")) for i in range(2, 6))) for m in rows]
    placed = [
        (a.name, a.bytes, a.first, a.last, offset)
        for a, offset in zip(step.layout.lifetimes, step.layout.offsets, strict=True)
    ]
    assert len(shown) == SHOWN and [row for row in placed if row in shown] == shown
    hidden = [row[1] for row in placed if row not in shown]
    assert max(hidden) <= min(row[1] for row in shown)
    assert rest == f"and {len(hidden)} smaller ones, {sum(hidden):,} bytes together"
    assert "attend_split 2: workspace" in {row[0] for row in shown} and shown[-1][0].startswith("update_sequences 1")
    for says, number in [("arena", step.bytes), ("separate buffers", step.layout.separate_bytes),
                         ("lower bound", step.layout.lower_bound)]:  # fmt: skip
        assert re.search(rf"^{says} +{number:,} bytes", ran.out, re.M), says
    assert step.layout.lower_bound <= step.bytes < step.layout.separate_bytes


def test_as_json_for_bart(cli, shape):
    shown = json.loads(cli("plan", shape(BART_CONFIG), *SIZES, "--json").out)
    assert shown["extent"] == {"sentences": 2, "source_tokens": 5, "prompt_tokens": 1, "new_tokens": 6,
                               "text_tokens": 7}  # fmt: skip
    rows = shown["intermediates"]
    assert shown["separate_bytes"] == sum(r["bytes"] for r in rows)
    assert shown["arena_bytes"] == max(r["offset"] + r["bytes"] for r in rows)
    alive = [sum(r["bytes"] for r in rows if r["first"] <= t <= r["last"]) for t in range(shown["calls"] + 1)]
    assert shown["lower_bound"] == max(alive)


def test_the_picture_has_a_rectangle_for_each_intermediate(cli, shape, tmp_path):
    path = tmp_path / "plan.svg"
    assert cli("plan", shape(), *SIZES, "--beam", 2, "--plan", "cache=preallocated", "--output", path).code == 0
    root = ElementTree.parse(path).getroot()
    drawn = [r for r in root.iter(f"{SVG}rect") if r.find(f"{SVG}title") is not None]
    rows = json.loads(cli("plan", shape(), *SIZES, "--beam", 2, "--plan", "cache=preallocated", "--json").out)
    rows = [r for r in rows["intermediates"] if r["bytes"]]
    assert [r.find(f"{SVG}title").text.split(":")[0] for r in drawn] == [r["name"].split(":")[0] for r in rows]
    boxes = [[float(r.get(k)) for k in ("x", "y", "width", "height")] for r in drawn]
    for i, (x, y, width, height) in enumerate(boxes):
        for other_x, other_y, other_width, other_height in boxes[:i]:
            beside = x + width <= other_x + 0.02 or other_x + other_width <= x + 0.02
            above = y + height <= other_y + 0.02 or other_y + other_height <= y + 0.02
            assert beside or above, "two rectangles overlap"
    text = path.read_text(encoding="utf-8")
    assert ">reorder<" in text and ">forward<" in text and ">search<" in text and "lower bound" in text


def test_another_vocabulary_and_published_shapes(cli):
    shown = json.loads(cli("plan", "gpt2", "--vocab-size", 1000, "--max-new-tokens", 2, "--json").out)
    logits = [r for r in shown["intermediates"] if r["name"] == "linear 49"]  # four in each of twelve layers, and this
    assert [r["bytes"] for r in logits] == [4032], "1,000 numbers of 4 bytes, up to a multiple of 64"


@pytest.mark.parametrize("config", [CONFIG, BART_CONFIG], ids=["gpt2", "bart"])
def test_no_remedy_is_a_flag_that_there_is_not(cli, shape, config):
    for length in (12, 99):
        ran = cli("plan", shape(config), "--input-length", length, "--max-new-tokens", 9)
        assert "truncate" not in ran.err and ran.code == (0 if config is BART_CONFIG and length == 12 else 1)


@pytest.mark.parametrize("sentences", [10**6, 10**15])
def test_a_step_beyond_the_memory_that_is_left_is_not_tried(cli, shape, sentences):
    ran = cli("plan", shape(), "--batch-size", sentences)
    assert ran.code == 1 and ran.err.startswith(f"minidecode: planning a step of {sentences} x (prompts of 1 and")
    assert "are left: plan for fewer or shorter texts" in ran.err and len(ran.err.splitlines()) == 1


@pytest.mark.parametrize(("arguments", "says"), [
    (["--batch-size", 0], "--batch-size must be an integer from 1 up, not 0"),
    (["--input-length", 12, "--max-new-tokens", 9], "go beyond the context of 16"),
    (["--input-length", 99999], "--input-length must be at most 16, not 99999"),
    (["--vocab-size", 1], "--vocab-size must be at least 3: a step is planned with two tokens that end no text"),
    (["--plan", "arena=big"], "arena='big' is not one of none, separate, planned"),
    (["--truncate"], "--truncate has no effect on a plan"),
    (["--dtype", "int3"], "dtype must be one of float32, float64, float16, int8"),
    (["--dtype", "in8"], "not 'in8'; did you mean int8?"),
])  # fmt: skip
def test_what_cannot_be_planned(cli, shape, arguments, says):
    ran = cli("plan", shape(), *arguments)
    assert ran.code == 1 and says in ran.err and ran.err.count("\n") == 1


def test_generate_takes_the_plan(cli, toy):
    with_arena = cli("generate", "a story", "-m", toy, "--plan", "arena=planned", "--receipt", "--max-new-tokens", 4)
    without = cli("generate", "a story", "-m", toy, "--max-new-tokens", 4)
    assert with_arena.out == without.out and re.search(r"arena of [\d,]+ bytes", with_arena.err)


def test_separate_buffers_can_be_planned_too(shape):
    step = load_shapes(shape()).plan_step(max_new_tokens=4, plan="arena=separate")
    assert step.bytes == step.layout.separate_bytes and md.Arena(step).bytes == step.bytes


EXECUTES = "minidecode: {} executes {}: name only code that you trust\n"


def test_a_plan_that_executes_a_file_says_so(cli, toy, tmp_path):
    """One line on stderr, before the file runs; --quiet leaves it out."""
    mine = tmp_path / "mine.py"
    mine.write_text("import sys\nprint('runs', file=sys.stderr)\nfrom minidecode.reference.ngram import ban_ngrams\n")
    plan, limits = f"ngram={mine}:ban_ngrams", ("--no-repeat-ngram-size", 2, "--max-new-tokens", 2)
    ran = cli("generate", "the", "-m", toy, "--plan", plan, *limits)
    assert ran.code == 0 and ran.err.startswith(EXECUTES.format("--plan", mine) + "runs\n")
    assert EXECUTES[:11] not in cli("generate", "the", "-m", toy, "--plan", plan, "-q", *limits).err
    shapes = ("--batch-size", 1, "--input-length", 4)
    assert cli("plan", toy, *shapes, "--plan", plan, *limits).err.startswith(EXECUTES.format("--plan", mine))
    assert cli("trace", "the", "-m", toy, "--plan", plan, *limits).err.startswith(EXECUTES.format("--plan", mine))
    ran = cli("trace", "the", "-m", toy, "--against", f"plan={plan}", *limits)
    assert ran.err.startswith(EXECUTES.format("--against", mine))
    assert "executes the file" in " ".join(cli("generate", "--help").out.split())


def test_a_plan_of_our_own_code_executes_no_file(cli, toy):
    assert "executes" not in cli("trace", "the", "-m", toy, "--plan", "cache=split,ngram=reference").err


def test_a_shape_that_does_not_fit_blames_no_batch(fails, monkeypatch):
    def too_much(*_, **__):
        raise MemoryError("Unable to allocate 576 MiB")

    monkeypatch.setattr("minidecode.loading.np.zeros", too_much)
    message = fails("plan", "gpt2")
    assert "not enough memory to load gpt2" in message and "--batch-size" not in message
