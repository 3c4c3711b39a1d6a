"""regex= and json_schema= that cannot be: each error is one line, names what is wrong and says what to do."""

import json
import re
import sys
import time

import pytest
from toy_folder import write_json

import minidecode as md
from minidecode.search import constraints


@pytest.fixture(scope="module")
def model():
    return md.load("tiny-gpt2", plan="numpy")


def nested(depth):
    schema = {}
    for _ in range(depth):
        schema = {"items": schema}
    return schema


@pytest.mark.parametrize(
    ("given", "say"),
    [({"regex": "(ab"}, "regex is refused by llguidance (unclosed group): mend the pattern"),
     ({"regex": "a(?=b)"}, "look-around, including look-ahead and look-behind, is not supported): mend the pattern"),
     ({"regex": r"(a)\1"}, "backreferences are not supported): mend the pattern"),
     ({"regex": ""}, "regex must be a text that is not empty, not ''"), ({"regex": 7}, "not empty, not 7"),
     ({"regex": "\ud800"}, "regex holds half a surrogate pair"),
     ({"regex": r"[^\s\S]"}, "regex: no text that matches was found: mend it"),
     ({"json_schema": {"type": "objekt"}}, "json_schema is refused by llguidance (Invalid type: objekt): mend the"),
     ({"json_schema": {"type": "array", "uniqueItems": True}}, 'Unimplemented keys: ["uniqueItems"]'),
     ({"json_schema": {"type": "integer", "minimum": 3, "maximum": 2}}, "minimum (3) is greater than maximum (2)"),
     ({"json_schema": '{"type":'}, "json_schema is no JSON (Expecting value"),
     ({"json_schema": "/dev/zero"}, "json_schema /dev/zero cannot be read ("),
     ({"json_schema": "."}, "json_schema . cannot be read ("),
     ({"json_schema": "nowhere.json"}, "json_schema nowhere.json cannot be read (No such file or directory): give a"),
     ({"json_schema": "a\0b"}, "cannot be read"), ({"json_schema": {"enum": [object]}}, "holds what JSON does not"),
     ({"json_schema": {"const": "\ud800"}}, "refused by llguidance (unexpected end of hex escape"),
     ({"json_schema": {"minimum": float("nan")}}, "refused by llguidance (expected value"),
     ({"json_schema": nested(200)}, "refused by llguidance (recursion limit exceeded"),
     ({"json_schema": nested(100_000)}, "json_schema is nested too deep: make it simpler"),
     ({"json_schema": True}, "json_schema must be a dict, JSON text or the path of a file, not True"),
     ({"json_schema": 7}, "json_schema must be a dict, JSON text or the path of a file, not 7"),
     ({"regex": "a", "json_schema": {}}, "regex and json_schema do not go together: give one of them"),
     ({"regex": "a", "eos_token_id": None}, "regex needs an eos_token_id, for a text ends with it"),
     ({"regex": "a", "eos_token_id": 7}, "needs an eos_token_id that is a special token, for a text ends with it, and"),
     ({"regex": "a{9}", "max_new_tokens": 9}, "takes 10 tokens with its end, and a text may have 9: give max_new_tok"),
     ({"json_schema": {"type": "array", "minItems": 60, "items": {"type": "null"}}}, "and a text may have 64: give")],
)  # fmt: skip
def test_what_cannot_be_is_said_in_one_line(model, given, say):
    for call in (model.generate, model.check):
        with pytest.raises(md.OptionError) as error:
            call("A", **{"max_new_tokens": 64} | given)
        assert say in str(error.value) and "\n" not in str(error.value)


def test_a_file_that_holds_no_schema(model, tmp_path):
    for text, say in (("[1]", "must hold a JSON object, not '[1]'"), ("{", "is no JSON"), ("\xff", "cannot be read")):
        (tmp_path / "s.json").write_text(text, encoding="latin-1")
        with pytest.raises(md.OptionError, match=re.escape(say)):
            model.generate("A", json_schema=tmp_path / "s.json")


def test_a_missing_package(model, monkeypatch):
    monkeypatch.setitem(sys.modules, "llguidance", None)
    with pytest.raises(md.MinidecodeError, match=r"the package llguidance is missing: pip install 'llguidance>="):
        model.generate("A", regex="a")
    assert len(model.generate("A", max_new_tokens=2).token_ids[0]) == 2


def test_a_folder_without_a_tokenizer(tiny_folder):
    folder = tiny_folder()
    (folder / "tokenizer.json").unlink()
    with pytest.raises(md.OptionError, match="regex needs a tokenizer, and this model folder has none: add its tok"):
        md.load(folder, plan="numpy").generate(input_ids=[[5]], regex="a", max_new_tokens=3)


def test_tokens_that_are_not_made_of_bytes(tiny_folder):
    folder = tiny_folder()
    words = {"type": "WordLevel", "vocab": {"<end>": 0, "a": 1, "b": 2}, "unk_token": "<end>"}
    added = [{"id": 0, "content": "<end>", "special": True, "single_word": False, "lstrip": False, "rstrip": False,
              "normalized": False}]  # fmt: skip
    whole = {"version": "1.0", "model": words, "added_tokens": added, "pre_tokenizer": {"type": "Whitespace"}}
    write_json(folder / "tokenizer.json", whole)
    with pytest.raises(md.OptionError, match="need a byte-level tokenizer, as of GPT-2 and BART, and this model's is"):
        md.load(folder, plan="numpy").generate("a b", regex="a", max_new_tokens=3)


def test_a_tokenizer_that_the_library_cannot_read(model, monkeypatch):
    other = md.load("tiny-gpt2", plan="numpy")
    monkeypatch.setattr(type(other.tokenizer), "as_json", lambda self: json.dumps({"model": 7}))
    with pytest.raises(md.OptionError, match="llguidance cannot read this model's tokenizer") as error:
        other.generate("A", regex="a")
    assert "\n" not in str(error.value)


def test_grammars_are_kept_for_later_calls_but_not_all(model):
    roots = constraints.vocabulary_of(model.tokenizer).roots
    for n in range(2 * constraints.GRAMMARS):
        model.check("A", regex=f"a{{{n}}}b")
        assert 1 <= len(roots) <= constraints.GRAMMARS


def test_the_command_line_says_it_with_flags(cli, tmp_path):
    ran = cli("generate", "A", "--regex", "a{9}", "--max-new-tokens", 3)
    assert ran.code != 0 and "give --max-new-tokens 10 or more" in ran.err
    (tmp_path / "s.json").write_text('{"enum": ["yes", "no"]}', encoding="utf-8")
    ran = cli("generate", "A", "--json-schema", tmp_path / "s.json", "--receipt")
    assert ran.out.strip() in ('"yes"', '"no"') and "json_schema: " in ran.err and " tokens masked (" in ran.err


def test_a_line_whose_own_limit_is_too_low_is_its_own_error(cli, tmp_path):
    """The other lines of its batch are done."""
    lines = tmp_path / "in.jsonl"
    lines.write_text('{"prompt": "A", "max_new_tokens": 2}\n{"prompt": "A"}\n', encoding="utf-8")
    ran = cli("generate", "-i", lines, "--json", "--on-error", "record", "--regex", "[0-9]{4}-[0-9]{2}", "--quiet")
    bad, good = map(json.loads, ran.out.splitlines())
    assert "line 1: regex: the shortest match that was found takes" in bad["error"]
    assert good["hypotheses"][0]["finish_reason"] == "stop" and ran.code == 0


@pytest.mark.parametrize(("prefix", "options", "says"), [
    ("xyz", {"regex": "[0-9]{3}"}, 'line 1: "prefix" begins no text that regex allows within 9 tokens: give another'),
    ("12345", {"regex": "7|[0-9]{5}xqxqxq", "max_new_tokens": 5}, "allows within 5 tokens"),
    (" the", {"suppress_tokens": 260}, "no token is left"),
])  # fmt: skip
def test_a_prefix_that_cannot_be_is_the_error_of_its_line(model, prefix, options, says):
    """Also where it is the first of all, in a batch of its own."""
    lines, how = [{"prompt": "A", "prefix": prefix}, {"prompt": "A"}], {"max_new_tokens": 9, "on_error": "record"}
    with md.generate_lines(model, lines, **how | options) as run:
        bad, good = run
    assert says in str(bad.error) and good.error is None and good.texts[0]


def chained(depth: int) -> dict:
    """A schema that names its last part 2**depth times."""
    both = ({x: {"$ref": f"#/$defs/a{i + 1}"} for x in "xy"} for i in range(depth))
    parts = {f"a{i}": {"type": "object", "required": ["x", "y"], "properties": xy} for i, xy in enumerate(both)}
    return {"$defs": {**parts, f"a{depth}": {"type": "string"}}, "$ref": "#/$defs/a0"}


TABLES = {"type": "array", "minItems": 3999, "items": {"type": "array", "minItems": 3999, "items": {"minItems": 3999}}}
ENDLESS = [  # what took one core seconds to minutes, or gigabytes, before it was refused
    (
        {"regex": "a{100000}"},
        "regex: no text that matches was found: mend it, or make it simpler (one of more than 4,0",
    ),
    ({"regex": "ab" * 45_000}, "regex: no text that matches was found"),
    ({"regex": "ab" * 2_000_000}, "regex has 4,000,000 characters: make it simpler, at most 100,000 are read"),
    ({"regex": "[a-z]" * 20_000}, "regex: no text that matches was found"),
    ({"json_schema": {"type": "string", "minLength": 100_000}}, "json_schema: no text that matches was found"),
    ({"json_schema": {"enum": ["x" * 60_000]}}, "json_schema: no text that matches was found"),
    ({"json_schema": chained(18)}, "json_schema: no text that matches was found"),
    ({"json_schema": TABLES}, "json_schema: no text that matches was found"),
    ({"json_schema": {"type": "integer", "multipleOf": 999_983}}, "json_schema: its multipleOf, added up, take more"),
    ({"json_schema": {"allOf": [{"multipleOf": step} for step in (97, 101, 103)]}}, "its multipleOf, multiplied, t"),
    (
        {"json_schema": {"allOf": [{"pattern": f"(a|b)*a(a|b){{{i}}}"} for i in range(40)]}},
        "json_schema: 40 patterns",
    ),
    ({"json_schema": {"patternProperties": {f"x{i}": {} for i in range(300)}}}, "patternProperties has more than 100"),
]


@pytest.mark.parametrize(("given", "say"), ENDLESS)
def test_what_would_take_long_is_refused_at_once(model, given, say):
    """Each takes 0.6 s of this process at most, on an idle machine; the first took 4 s before, others minutes."""
    began = time.process_time()
    with pytest.raises(md.OptionError) as error:
        model.check("A", max_new_tokens=64, **given)
    assert time.process_time() - began < 4.0 and say in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("given", [
    {"regex": "[0-9]{1,500}"}, {"regex": "(x{1,100}){1,100}"}, {"regex": "|".join(f"w{i}" for i in range(9000))},
    {"json_schema": {"enum": [f"w{i}" for i in range(5000)]}}, {"json_schema": {"type": "number", "multipleOf": 0.01}},
    {"json_schema": {"type": "integer", "multipleOf": 1_000_000}},
    {"json_schema": chained(2)}, {"json_schema": {"type": "string", "maxLength": 100_000}},
])  # fmt: skip
def test_what_is_of_a_sensible_size_goes_on_working(model, given):
    model.check("A", max_new_tokens=64, **given)


def test_a_long_end_takes_memory_that_grows_with_its_length(model):
    """Each of its ends was kept: 8 MB for 4,000 bytes, of each request that waits."""
    options = model.options(regex="a{3900}", max_new_tokens=64)
    constraint = constraints.Constraint.make(options, model.tokenizer, model.config.vocab_size)
    assert (
        constraint._fewest_tokens(constraint.root.end) == 3900
        and constraint._fewest_tokens(constraint.root.end[900:]) == 3000
    )
    assert not constraint._fewest and [len(fewest) for _, fewest in constraint._long] == [3901]
