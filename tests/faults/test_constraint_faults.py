"""regex= and json_schema= that cannot be: each error is one line, names what is wrong and says what to do."""

import json
import re
import sys

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
