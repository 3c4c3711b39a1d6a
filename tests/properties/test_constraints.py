"""regex= and json_schema=: all of a new text matches, ends in time, and other rules still hold where they can."""

import json
import re

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from toy import ToyEngine
from toy_folder import write_tokenizer

import minidecode as md
from minidecode.files.tokenizer import Tokenizer
from minidecode.options.constraints import checked_schema
from minidecode.options.options import Options
from minidecode.search.beam import beam_search
from minidecode.search.constraints import Constraint
from minidecode.search.greedy import greedy_search
from minidecode.search.processors import regex
from minidecode.search.result import Request
from minidecode.search.shortest_match import shortest_json, shortest_match

SEARCHES = {
    "greedy": {}, "sampling": {"do_sample": True, "top_k": 0, "num_return_sequences": 2}, "beams": {"num_beams": 3},
    "drawn beams": {"num_beams": 3, "do_sample": True}, "hf4": {"num_beams": 3, "dialect": "hf4"},
    "diverse": {"num_beams": 4, "num_beam_groups": 2, "diversity_penalty": 0.5, "dialect": "hf4"},
    "fairseq greedy": {"dialect": "fairseq"}, "fairseq": {"num_beams": 3, "dialect": "fairseq"},
}  # fmt: skip
ALL = list(SEARCHES)
PROMPTS = ["Fellow citizens,", "The people of"]
PERSON = {
    "type": "object", "required": ["name", "age"], "additionalProperties": False,
    "properties": {"name": {"type": "string", "maxLength": 9}, "age": {"type": "integer", "minimum": 0}},
}  # fmt: skip


@pytest.fixture(scope="module")
def model():
    return md.load("tiny-gpt2", plan="numpy")


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    """A tokenizer of 260 tokens: bytes, "th", "the", " the" and <|endoftext|>, which is 0."""
    folder = tmp_path_factory.mktemp("toy")
    write_tokenizer(folder)
    return Tokenizer.from_folder(folder)


def texts_of(toy, seed, limit, search, prompts=((5, 9),), **given):
    """What a search finds with random scores: (texts, their ids, options, what the constraint counted)."""
    options = Options(eos_token_id=0, no_repeat_ngram_size=0, **SEARCHES[search], **given)
    if options.num_beams > 1:
        options = Options(eos_token_id=0, num_return_sequences=options.num_beams, **SEARCHES[search], **given)
    constraint = Constraint.make(options, toy, toy.size)
    prompts = [np.array(p) for p in prompts]
    limit_B = np.full(len(prompts), limit)
    if constraint:
        constraint.check_limits(limit_B, map(len, prompts))
    request = Request.make(prompts, limit_B, options, constraint=constraint)
    find = greedy_search if options.num_beams == 1 else beam_search
    found = find(ToyEngine(seed, toy.size), request, options)
    return [ids for sentence in found.tokens for ids in sentence if len(ids)], options, constraint


# ---- what must match -------------------------------------------------------------------------------------------------


def allowed(schema, value) -> bool:
    """Whether a value is one of a schema's; of the keywords that `schemas` draws."""
    if "enum" in schema:
        return any(type(value) is type(v) and value == v for v in schema["enum"])
    kind = schema["type"]
    if kind == "object":
        inside = isinstance(value, dict) and set(schema["required"]) <= set(value) <= set(schema["properties"])
        return inside and all(allowed(schema["properties"][key], v) for key, v in value.items())
    if kind == "array":
        right = isinstance(value, list) and schema["minItems"] <= len(value) <= schema["maxItems"]
        return right and all(allowed(schema["items"], v) for v in value)
    if kind == "string":
        return isinstance(value, str) and schema.get("minLength", 0) <= len(value) <= schema["maxLength"]
    if kind == "integer":
        return type(value) is int and schema["minimum"] <= value <= schema["maximum"]
    return value is None if kind == "null" else isinstance(value, bool)


def bounds(low, high, least, most, most_between):
    pairs = st.tuples(st.integers(least, most), st.integers(0, most_between))
    return pairs.map(lambda p: {low: p[0], high: p[0] + p[1]})


LEAVES = st.one_of(
    st.just({"type": "boolean"}), st.just({"type": "null"}),
    bounds("minimum", "maximum", -200, 200, 1000).map(lambda b: {"type": "integer", **b}),
    bounds("minLength", "maxLength", 0, 3, 6).map(lambda b: {"type": "string", **b}),
    st.lists(st.sampled_from(["red", "blue", "", 3, None, True, "a b"]), min_size=1, max_size=3, unique_by=repr)
    .map(lambda values: {"enum": values}),
)  # fmt: skip


def nested(inside):
    arrays = st.tuples(inside, bounds("minItems", "maxItems", 0, 2, 2)).map(
        lambda p: {"type": "array", "items": p[0], **p[1]}
    )
    objects = st.tuples(st.dictionaries(st.sampled_from(["a", "id", "name"]), inside, max_size=3), st.data()).map(
        lambda p: {
            "type": "object", "properties": p[0], "additionalProperties": False,
            "required": [key for key in p[0] if p[1].draw(st.booleans())],
        }
    )  # fmt: skip
    return st.one_of(arrays, objects)


SCHEMAS = st.recursive(LEAVES, nested, max_leaves=4)
PIECES = st.sampled_from(["a", "the", " the", "[a-f]", "[^x]", "[0-9]", r"\s", "é", "0|12", "[A-Z]x"]).map(
    "({})".format
)
REGEXES = st.recursive(
    PIECES,
    lambda inside: st.one_of(
        st.tuples(inside, inside).map("".join), st.tuples(inside, inside).map(lambda p: f"({p[0]}|{p[1]})"),
        st.tuples(inside, st.sampled_from(["*", "+", "?", "{2}", "{1,3}", "{0,4}"])).map(lambda p: f"({p[0]}){p[1]}"),
    ),
    max_leaves=5,
)  # fmt: skip


def test_the_validator_says_no():
    assert allowed({"type": "integer", "minimum": 0, "maximum": 3}, 3)
    assert not allowed({"type": "integer", "minimum": 0, "maximum": 3}, 4)
    assert not allowed({"type": "integer", "minimum": 0, "maximum": 3}, True)
    assert not allowed({"enum": [1]}, True)
    thing = {"type": "object", "properties": {"a": {"type": "null"}}, "required": ["a"]}
    assert allowed(thing, {"a": None}) and not allowed(thing, {}) and not allowed(thing, {"a": None, "b": 1})
    pair = {"type": "array", "items": {"type": "string", "maxLength": 1}, "minItems": 1, "maxItems": 2}
    assert allowed(pair, ["", "b"]) and not allowed(pair, []) and not allowed(pair, ["bb"])


def least_limit(toy, given) -> int:
    """The fewest new tokens that the constraint asks for, as its error says it."""
    constraint = Constraint.make(Options(eos_token_id=0, **given), toy, toy.size)
    with pytest.raises(md.OptionError, match="takes") as error:
        constraint.check_limits([0], [2])
    return int(re.search(r"takes (\d+) tokens", str(error.value))[1])


@pytest.mark.parametrize("search", ALL)
@settings(max_examples=12, deadline=None)
@given(schema=SCHEMAS, seed=st.integers(0, 99), more=st.integers(0, 12))
def test_every_text_is_json_of_its_schema(toy, search, schema, seed, more):
    """With scores of a toy model, which are random: and however little room a text has, its end comes in time."""
    limit = least_limit(toy, {"json_schema": schema}) + more
    assume(limit < 60)
    texts, *_ = texts_of(toy, seed, limit, search, json_schema=schema)
    assert texts
    for ids in texts:
        assert ids[-1] == 0 and 0 not in ids[:-1] and len(ids) <= limit
        assert allowed(schema, json.loads(toy.decode(ids)))


@pytest.mark.parametrize("search", ALL)
@settings(max_examples=12, deadline=None)
@given(pattern=REGEXES, seed=st.integers(0, 99), more=st.integers(0, 12))
def test_every_text_matches_its_pattern(toy, search, pattern, seed, more):
    limit = least_limit(toy, {"regex": pattern}) + more
    texts, *_ = texts_of(toy, seed, limit, search, regex=pattern)
    assert texts
    for ids in texts:
        assert ids[-1] == 0 and 0 not in ids[:-1] and len(ids) <= limit
        assert re.fullmatch(pattern, toy.decode(ids)), toy.decode(ids)


@pytest.mark.parametrize("search", ["greedy", "sampling", "beams"])
@settings(max_examples=6, deadline=None)
@given(schema=SCHEMAS, pattern=REGEXES, more=st.integers(0, 12))
def test_a_trained_model_keeps_to_its_constraint_too(model, search, schema, pattern, more):
    """With several prompts, and a tokenizer of 4,096 tokens; the bundled model's own defaults ban 3-grams."""
    for constraint in ({"json_schema": schema}, {"regex": pattern}):
        limit = least_limit(model.tokenizer, constraint) + more
        assume(limit < 60)
        out = model.generate(PROMPTS, max_new_tokens=limit, **SEARCHES[search] | {"top_k": None}, **constraint)
        for text, why in zip(out.texts, out.finish_reasons, strict=True):
            assert why == "stop"
            assert re.fullmatch(pattern, text) if "regex" in constraint else allowed(schema, json.loads(text))


# ---- what may follow -------------------------------------------------------------------------------------------------

WORDS = ["ab", "ba", "bab", "bca", "cab", "cabbage", "dab"]  # none of a token of several bytes


def may_follow(toy, words):
    """Naive: f(sentence, ids), for prompts of two tokens, by a look at each word."""

    def function(sentence, ids):
        text = toy.decode(ids[2:])
        following = {word[len(text)] for word in words if word.startswith(text) and word != text}
        ends = [0] if text in words else []
        return [*ends, *(int(toy.encode(letter)[0]) for letter in following)]

    return function


@pytest.mark.parametrize("search", [s for s in ALL if "fairseq" not in s])
@pytest.mark.parametrize("seed", range(3))
def test_a_search_goes_as_with_a_function_that_looks_at_each_word(toy, search, seed):
    """The same tokens for several sentences, whatever the prompts; beams change their parents on the way."""
    prompts = [(5, 9), (7, 7), (100, 3)]
    expected, *_ = texts_of(toy, seed, 20, search, prompts, prefix_allowed_tokens_fn=may_follow(toy, WORDS))
    found, *_ = texts_of(toy, seed, 20, search, prompts, regex="|".join(WORDS))
    assert [ids.tolist() for ids in found] == [ids.tolist() for ids in expected]
    assert len({toy.decode(ids) for ids in found}) > 1


def scores_after(toy, text, left, pattern, kept=None, V=None, **options):
    """Which tokens a row of zeros leaves after a text with room for `left` tokens more; kept: of the constraint."""
    V = toy.size if V is None else V
    options = Options(eos_token_id=0, regex=pattern, **options)
    constraint = Constraint.make(options, toy, V)
    if kept:
        constraint.kept = kept
    ids = toy.encode(text)
    tokens_1M = np.concatenate([[5, 9], ids])[None]
    request = Request.make([np.array([5, 9])], np.array([len(ids) + left]), options, constraint=constraint)
    rows = request.rows(tokens_1M, np.array([tokens_1M.shape[1]]), np.array([0]), len(ids))
    scores_1V = regex(None, np.zeros((1, V), np.float32), rows, options)
    return {toy.decode([i], keep_special=True) for i in np.flatnonzero(scores_1V[0] == 0)}, constraint


@pytest.mark.parametrize(
    ("pattern", "text", "left", "stay"),
    [("ab|c", "", 9, {"a", "c"}), ("ab|c", "c", 9, {"<|endoftext|>"}), ("ab|c", "a", 9, {"b"}),
     ("ab|c", "", 2, {"c"}), ("ab|c", "", 3, {"a", "c"}), ("(the)*", "the", 9, {"<|endoftext|>", "t", "th", "the"}),
     ("(the)*", "the", 1, {"<|endoftext|>"}), ("(the)*", "the", 2, {"<|endoftext|>", "the"}),
     ("(the)*", "the", 3, {"<|endoftext|>", "th", "the"}), ("x*y|z{9}", "", 3, {"x", "y"}),
     ("é|b", "", 9, {"b", "\ufffd"}), ("(a|b) the", "a", 9, {" the"})],
)  # fmt: skip
def test_tokens_stay_that_can_still_reach_an_end(toy, pattern, text, left, stay):
    assert scores_after(toy, text, left, pattern, kept=300)[0] == stay


def test_ids_that_the_tokenizer_lacks_are_no_text(toy):
    """A model's vocabulary may be padded; and special tokens are no text either."""
    for V in (toy.size, toy.size + 37):
        stay, constraint = scores_after(toy, "", 9, "(?s).*", kept=400, V=V)
        assert "<|endoftext|>" in stay and "" not in stay  # "": what an unknown id stands for
        assert constraint.counts.of == V and constraint.counts.masked >= V - toy.size
        assert "<|endoftext|>" not in scores_after(toy, "", 9, "(?s).+", kept=400, V=V)[0]


def test_an_end_is_a_token_of_the_options_alone():
    """The library has an EOS of its own, which it reads off the tokenizer: it may not come inside a text."""
    bart = md.load("tiny-bart", plan="numpy")
    options = Options(eos_token_id=4096, regex="(ab)*")
    constraint = Constraint.make(options, bart.tokenizer, bart.config.vocab_size)
    request = Request.make([np.array([5, 9])], np.array([9]), options, constraint=constraint)
    rows = request.rows(np.array([[5, 9]]), np.array([2]), np.array([0]), 0)
    left = np.flatnonzero(regex(None, np.zeros((1, bart.config.vocab_size), np.float32), rows, options)[0] == 0)
    assert constraint.vocabulary.backend.eos_token == 4098
    assert [i for i in left if i in bart.tokenizer.special_ids] == [4096] and len(left) > 1


def test_where_none_of_the_likeliest_fits_the_known_end_goes_on(toy):
    """With its own score: it is not certain, for in a beam other texts compete with it."""
    options = Options(eos_token_id=0, regex="[a-z]*!")
    constraint = Constraint.make(options, toy, toy.size)
    constraint.kept = 1
    scores_1V = np.linspace(-2, -1, toy.size, dtype=np.float32)[None]
    mark = int(toy.encode("!")[0])
    assert mark not in np.argsort(-scores_1V[0])[:200]
    request = Request.make([np.array([5, 9])], np.array([2]), options, constraint=constraint)
    rows = request.rows(np.array([[5, 9]]), np.array([2]), np.array([0]), 0)
    left_V = regex(None, scores_1V.copy(), rows, options)[0]
    assert np.flatnonzero(left_V > -np.inf).tolist() == [mark] and left_V[mark] == scores_1V[0, mark]
    assert not rows.certain_R.any()


def test_a_beam_that_other_rules_leave_nothing_is_left_out_while_another_goes_on(toy):
    """And where all are left nothing, the first goes on, with a token that is certain."""
    a, b, c, d = (int(toy.encode(letter)[0]) for letter in "abcd")
    for banned, stay in (([b], [[], [d]]), ([b, d], [[b], []])):
        options = Options(eos_token_id=0, regex="ab|cd", num_beams=2)
        constraint = Constraint.make(options, toy, toy.size)
        scores_2V = np.full((2, toy.size), -3, np.float32)
        scores_2V[:, banned] = -np.inf
        request = Request.make([np.array([5, 9])], np.array([9]), options, constraint=constraint)
        rows = request.rows(np.array([[5, 9, a], [5, 9, c]]), np.array([3, 3]), np.array([0, 0]), 1)
        left_2V = regex(None, scores_2V, rows, options)
        assert [np.flatnonzero(left_V > -np.inf).tolist() for left_V in left_2V] == stay
        assert rows.certain_R.tolist() == [len(banned) == 2, False] and (left_2V[0, b] == 0) == (len(banned) == 2)


def test_a_new_end_goes_over_into_the_known_one(toy):
    """Behind a backslash an n must come before what was known: a search that knew nothing would not get so far."""
    assert "\\" in scores_after(toy, '"', 300, r'"(a|\\n)*"[0-9]{210}!', kept=400)[0]


def test_of_many_tokens_the_likeliest_are_kept(toy):
    options = Options(eos_token_id=0, regex="[a-z]+", do_sample=True, top_k=70)
    constraint = Constraint.make(options, toy, toy.size)
    assert constraint.kept == 70
    scores_1V = np.random.default_rng(0).normal(size=(1, toy.size)).astype(np.float32)
    request = Request.make([np.array([5, 9])], np.array([9]), options, constraint=constraint)
    rows = request.rows(np.array([[5, 9]]), np.array([2]), np.array([0]), 0)
    letters = [int(toy.encode(c)[0]) for c in "abcdefghijklmnopqrstuvwxyz"] + [
        toy.token_to_id(t) for t in ("th", "the")
    ]
    constraint.kept = 7
    left_1V = regex(None, scores_1V.copy(), rows, options)
    best = sorted(letters, key=lambda i: -scores_1V[0, i])[:7]
    assert np.flatnonzero(left_1V[0] > -np.inf).tolist() == sorted(best)
    assert (left_1V[0, best] == scores_1V[0, best]).all()


def test_a_long_end_is_seen_before_it_is_too_late(toy):
    """Behind "b" come a hundred letters: with room for fewer, no search begins so, though its model wants to."""
    b = int(toy.encode("b")[0])

    def wants_b(scores_RV, rows):
        scores_RV[:, b] = 9.0
        return scores_RV

    short, *_ = texts_of(toy, 0, 50, "greedy", regex="a|b[0-9]{100}", logits_processor=wants_b)
    long, *_ = texts_of(toy, 0, 102, "greedy", regex="a|b[0-9]{100}", logits_processor=wants_b)
    assert toy.decode(short[0]) == "a" and re.fullmatch("b[0-9]{100}", toy.decode(long[0]))


# ---- beside other options --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("search", ALL)
def test_a_sentence_is_the_same_alone_and_in_a_batch(model, search):
    options = {"max_new_tokens": 14, "regex": "[a-z ]{4,}(!|, [A-Z][a-z]+)", **SEARCHES[search] | {"top_k": None}}
    for plan in ("cache=split,drop_finished=on", "cache=split,drop_finished=off,arena=planned"):
        together = model.generate(PROMPTS, plan=plan, **options)
        alone = [model.generate(p, plan=plan, sample_ids=[0], **options) for p in PROMPTS]
        assert together.texts == [text for out in alone for text in out.texts]
        assert all(re.fullmatch(options["regex"], text) for text in together.texts)


@pytest.mark.parametrize("search", ["greedy", "beams", "fairseq"])
def test_prefix_tokens_are_a_part_of_the_match(model, search):
    prefix = model.tokenizer.encode("Mr").tolist()
    options = {"regex": r"Mr[s]? [A-Z][a-z]*\.", "max_new_tokens": 9, **SEARCHES[search]}
    out = model.generate(PROMPTS, prefix_tokens=[prefix, prefix], **options)
    assert all(re.fullmatch(options["regex"], text) for text in out.texts)
    with pytest.raises(md.OptionError, match="prefix_tokens of sentence 2 begin no text that regex allows"):
        model.generate(PROMPTS, prefix_tokens=[prefix, model.tokenizer.encode("Ms").tolist()], **options)
    aaaaa, options = (
        [model.tokenizer.encode("a").tolist() * 5],
        {"regex": "a*b", "no_repeat_ngram_size": 0, **SEARCHES[search]},
    )
    with pytest.raises(md.OptionError, match="prefix_tokens of sentence 1 begin no text that regex allows within 6"):
        model.generate("A", prefix_tokens=aaaaa, max_new_tokens=6, **options)
    assert model.generate("A", prefix_tokens=aaaaa, max_new_tokens=7, **options).texts == ["aaaaab"]
    options = {"regex": r"Mr[s]? [A-Z][a-z]*\.", "max_new_tokens": 9, **SEARCHES[search]}
    with pytest.raises(md.OptionError, match="no token is left for sentence 1"):  # behind a free place
        wrong = [-1] * len(prefix) + model.tokenizer.encode("?").tolist()
        model.generate(PROMPTS[0], prefix_tokens=[wrong], **options)


@pytest.mark.parametrize("search", ["greedy", "sampling", "beams", "hf4"])
def test_the_constraint_wins_where_other_rules_leave_nothing(model, search):
    """3-grams that come again, tokens that are banned, a least length: none cuts a text off or lets it go on."""
    options = {"regex": "(a, ){5}a", "no_repeat_ngram_size": 2, "max_new_tokens": 20, **SEARCHES[search]}
    assert set(model.generate("A", **options).texts) == {"a, a, a, a, a, a"}
    out = model.generate("A", regex="b", suppress_tokens=model.tokenizer.encode("b").tolist(), max_new_tokens=4)
    assert out.texts == ["b"]
    assert model.generate("A", regex="b", min_new_tokens=5, max_new_tokens=9).token_ids[0].tolist()[1:] == [0]


def test_a_stop_string_may_end_a_text_before_it_matches(model):
    whole = model.generate("A", regex="[a-z]+ [a-z]+!", max_new_tokens=20).texts[0]
    cut = model.generate("A", regex="[a-z]+ [a-z]+!", max_new_tokens=20, stop_strings=" ").texts[0]
    assert cut == whole.partition(" ")[0] and whole.endswith("!")


@pytest.mark.parametrize("beams", [1, 4])
def test_a_forced_bos_is_no_part_of_the_match(beams):
    """BART's texts begin with <s> and end with </s>, and these are no text."""
    bart = md.load("tiny-bart", plan="numpy")
    out = bart.generate("The <mask> of the people", regex="[A-Z][a-z ]+[.]", max_length=12, num_beams=beams)
    assert out.token_ids[0][0] == 4096 and out.token_ids[0][-1] == 4098
    assert re.fullmatch("[A-Z][a-z ]+[.]", out.texts[0])
    with pytest.raises(md.OptionError, match="takes 3 tokens with its end, and a text may have 2"):
        bart.generate("The <mask>", regex="a", max_new_tokens=2, num_beams=beams)


@pytest.mark.parametrize("beams", [1, 2])
def test_scores_on_a_device(model, beams):
    there = md.load("tiny-gpt2", plan="numpy", device="emulator")
    options = {"regex": "[ab]", "max_new_tokens": 2, "num_beams": beams}
    assert there.generate("A", **options).texts == model.generate("A", **options).texts


@pytest.mark.parametrize(
    ("schema", "shortest"),
    [({"type": "string", "minLength": 60}, 62), ({"type": "array", "minItems": 9, "items": {"type": "null"}}, 54),
     ({"type": "object", "properties": {"e": {"type": "string", "format": "email"}, "u": {"type": "string", "format":
       "uuid"}}, "required": ["e", "u"]}, 57), ({"$ref": "#/$defs/n", "$defs": {"n": {"type": "array", "items": {
           "$ref": "#/$defs/n"}, "minItems": 0}}}, 2)],
)  # fmt: skip
def test_the_first_end_is_found_where_it_is_long_or_many_loops_lead_to_it(toy, schema, shortest):
    constraint = Constraint.make(Options(eos_token_id=0, json_schema=schema), toy, toy.size)
    assert len(constraint.root.end) == shortest and json.loads(constraint.root.end) is not None


def test_a_schema_is_a_dict_a_text_or_a_file(model, tmp_path):
    (tmp_path / "person.json").write_text(json.dumps(PERSON), encoding="utf-8")
    given = [PERSON, json.dumps(PERSON), str(tmp_path / "person.json"), tmp_path / "person.json"]
    assert {checked_schema(schema) for schema in given} == {json.dumps(PERSON)}
    texts = {model.generate("A", json_schema=schema, max_new_tokens=40).texts[0] for schema in given}
    (text,) = texts
    assert text == json.dumps(json.loads(text), ensure_ascii=False) and set(json.loads(text)) == {"name", "age"}


def test_the_receipt_counts_what_was_masked(model, toy):
    """Of "ab": one token may come, then one, then the end. Every row of every step counts."""
    out = model.generate(["A", "B"], regex="q7", max_new_tokens=9)
    V = model.config.vocab_size
    assert out.receipt.as_dict()["constraint"] == {"masked": 6 * (V - 1), "of": 6 * V, "too_long": 0}
    assert f"regex: {6 * (V - 1):,} of {6 * V:,} tokens masked (100.0 %)" in str(out.receipt).splitlines()
    assert json.loads(json.dumps(out.receipt.as_dict()))["search"]["regex"] == "q7"
    assert model.generate("A", max_new_tokens=2).receipt.constraint is None
    out = model.generate(["A", "B", "The"], regex="[a-z ]+[.]|[A-Z]", max_new_tokens=9, plan="drop_finished=off")
    assert len({len(ids) for ids in out.token_ids}) > 1  # texts that are done are looked at no more
    assert out.receipt.constraint.of == V * out.receipt.new_tokens
    _, constraint = scores_after(toy, "", 2, "ab|c")
    assert vars(constraint.counts) == {"masked": toy.size - 2, "of": toy.size, "too_long": 1}


def test_a_trace_holds_what_the_constraint_ruled_out(model):
    out = model.generate("A", regex="ab|c", max_new_tokens=4, trace=True)
    ruled_out = {token for _, token in out.trace.steps[0].changed["regex"]}
    left = sorted(set(range(model.config.vocab_size)) - ruled_out)
    assert [model.tokenizer.decode([i]) for i in left] == ["a", "c", "ab"]


def test_threads_share_a_model(model):
    from concurrent.futures import ThreadPoolExecutor

    def one(seed):
        return model.generate("A", json_schema=PERSON, max_new_tokens=40, do_sample=True, seed=seed).texts[0]

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(one, range(4))) == [one(seed) for seed in range(4)]


@settings(max_examples=60, deadline=None)
@given(pattern=REGEXES)
def test_a_short_match_of_a_pattern_matches_it(pattern):
    text = shortest_match(pattern)
    assert re.fullmatch(pattern, text)
    assert re.fullmatch(f".*{pattern}x[^a-z]", shortest_match(f".*{pattern}x[^a-z]"), re.DOTALL)


@pytest.mark.parametrize(
    "pattern", ["(?=a)b", r"(a)\1", "(a", "a{99999}", "[^\\s\\S]", "((a{999}){999}){999}", "(" * 9999]
)
def test_what_has_no_short_match(pattern):
    assert shortest_match(pattern) is None


@pytest.mark.parametrize("pattern", [r".*\. The answer is [0-9]+\.", "[^x]*(the){2}", r"(?i)(ab|[^a]+zq){2}"])
def test_a_loop_that_allows_everything_does_not_hide_the_end(toy, pattern):
    """Nothing in the tokens that may follow says how near the end is; the pattern does."""
    texts, *_ = texts_of(toy, 1, 40, "greedy", regex=pattern)
    assert re.fullmatch(pattern, toy.decode(texts[0]))
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": f"^{pattern}$"}}, "required": ["a"],
              "additionalProperties": False}  # fmt: skip
    texts, *_ = texts_of(toy, 1, 60, "greedy", json_schema=schema)
    assert re.fullmatch(pattern, json.loads(toy.decode(texts[0]))["a"])


def node(**more):
    tree = {
        "type": "object",
        "properties": {"left": {"$ref": "#"}, "value": {"type": "integer"}},
        "required": ["value"],
    }
    return tree | more


@pytest.mark.parametrize(("schema", "shortest"), [
    (node(), '{"value": 0}'), (node(additionalProperties=False), '{"value": 0}'),
    ({"type": "array", "minItems": 12, "items": {"type": "object", "properties": {"x": {"type": "number"}, "y": {
        "type": "number"}}, "required": ["x", "y"]}}, json.dumps([{"x": 0, "y": 0}] * 12)),
    ({"type": "object", "properties": {"a": {"pattern": "foo[0-9]{2}"}, "b": {"pattern": "[a-z]{5}@x"}, "c": {
        "items": {"pattern": "[0-9]{5}"}, "minItems": 2}}, "required": ["c", "a", "b"]},
     '{"a": "foo00", "b": "aaaaa@x", "c": ["00000", "00000"]}'),
])  # fmt: skip
def test_the_first_end_is_found_where_a_search_alone_takes_long(toy, schema, shortest):
    constraint = Constraint.make(Options(eos_token_id=0, json_schema=schema), toy, toy.size)
    assert constraint.root.end.decode() == shortest


def test_an_optional_branch_may_come_before_what_is_required(toy):
    """Behind `{"` the letters l and v lead on alike for one byte, and to different ends."""
    stay = scores_after(toy, '{"', 40, r'\{("left": \{\}, )?"value": 0\}', kept=300)[0]
    assert stay == {"l", "v"}
    constraint = Constraint.make(Options(eos_token_id=0, json_schema=node()), toy, toy.size)
    for text, end in (('{"left": {', '"value": 0}, "value": 0}'), ('{"left": {"', 'value": 0}, "value": 0}')):
        assert constraint._search_end(text.encode(), constraint.root.end[1:], np.inf, 200).decode() == end


@pytest.mark.parametrize(("schema", "shortest"), [
    ({"type": "number", "minimum": 17.3, "maximum": 17.4}, "17.35"), ({"type": "integer", "minimum": 7}, "7"),
    ({"type": "integer", "exclusiveMinimum": 0}, "1"), ({"type": "integer", "exclusiveMaximum": -3}, "-4"),
    ({"type": "integer", "minimum": 5, "multipleOf": 4}, "8"), ({"type": ["null", "string"]}, '""'),
    ({"type": "string", "minLength": 3}, '"000"'), ({"type": "string", "format": "date"}, '"2000-01-01"'),
    ({"enum": ["long", 7]}, "7"), ({"const": None}, "null"), ({}, "0"), ({"allOf": [{"type": "boolean"}]}, "true"),
    ({"prefixItems": [{"type": "null"}], "minItems": 2, "items": {"type": "integer"}}, "[null, 0]"),
    ({"anyOf": [{"$ref": "#"}, {"type": "string"}]}, '""'), ({"required": ["a"]}, '{"a": 0}'),
    ({"$ref": "#"}, None), ({"$ref": "https://example.com"}, None), ({"type": "string", "format": "x"}, None),
    ({"pattern": "(?=a)"}, None), ({"anyOf": [{"$ref": "#"}]}, None), ({"minItems": 10**9}, None),
])  # fmt: skip
def test_a_short_json_of_a_schema(schema, shortest):
    assert shortest_json(schema) == shortest
