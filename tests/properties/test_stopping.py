"""What ends texts beside EOS and limits: stop strings, functions of the caller's, and the clock."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import minidecode as md
from minidecode.files.tokenizer import TextStream
from minidecode.methods.generation import make_stopping
from minidecode.options.stop_strings import NewText, cut_at_stop, first_stop, length_of_possible_stop
from minidecode.runtime.engine import Engine
from minidecode.search import stopping

PROMPTS = ["Fellow citizens,", "The people of", "Il était", "A"]
LONG = {"max_new_tokens": 24, "eos_token_id": None}
SEARCHES = {
    "greedy": {}, "sampling": {"do_sample": True, "seed": 3, "num_return_sequences": 2},
    "beams": {"num_beams": 3}, "hf4": {"num_beams": 3, "dialect": "hf4"},
    "diverse": {"num_beams": 4, "num_beam_groups": 2, "diversity_penalty": 0.5, "dialect": "hf4"},
}  # fmt: skip


@pytest.fixture(scope="module")
def model():
    return md.load("tiny-gpt2", plan="numpy")


@given(st.text("ab", max_size=12), st.lists(st.text("ab", min_size=1, max_size=4), max_size=3), st.booleans())
def test_a_text_is_cut_where_its_first_stop_string_is_complete(text, stops, keep):
    """Naive: read the text character by character, and look for a stop string at its end."""
    ends = [(end, end - len(s)) for end in range(len(text) + 1) for s in stops if text[:end].endswith(s)]
    end, begin = min(ends, default=(None, None))
    assert first_stop(text, stops) == (None if end is None else (begin, end))
    assert cut_at_stop(text, stops, keep) == (text if end is None else text[: end if keep else begin])


@given(st.text("ab", max_size=12), st.lists(st.text("ab", min_size=1, max_size=4), max_size=3))
def test_what_may_begin_a_stop_string_is_held_back(text, stops):
    """All that more text could make part of a stop string, and no more."""
    begun = [n for s in stops for n in range(1, len(s)) if s.startswith(text[len(text) - n :]) and n <= len(text)]
    assert length_of_possible_stop(text, stops) == max(begun, default=0)


@given(st.lists(st.sampled_from(["a", "b", "<a>"]), max_size=8), st.booleans())
def test_a_stop_string_may_name_special_tokens(pieces, keep):
    """Naive: a special token is a letter of its own, X, and no text. Parts of its name are found in no token."""
    text, whole = "".join(p for p in pieces if p != "<a>"), "".join(pieces).replace("<a>", "X")
    new = NewText(text, [(n - whole[:n].count("X"), "<a>") for n, c in enumerate(whole) if c == "X"])
    stops, naive = ["b<a>", "<a><a>", "<a>ab", "a>", "<"], ["bX", "XX", "Xab", "a>", "<"]
    assert new.has(stops) == any(stop in whole for stop in naive)
    assert new.cut(stops, keep) == cut_at_stop(whole, naive, keep).replace("X", "")
    length = len(whole) - length_of_possible_stop(whole, naive)
    assert new.text_before_possible_stop(stops) == whole[:length].replace("X", "")


@pytest.mark.parametrize("beams", [1, 2])
@pytest.mark.parametrize(
    ("stops", "new", "text"),
    [
        (["<|endoftext|>"], 3, "ab"), (["b<|endoftext|>"], 3, "a"), (["<|endoftext|>cd", "ef"], 5, "ab"),
        (["bc"], 4, "a"), (["e", "<|endoftext|>f"], 6, "abcd"), (["<|", "endoftext"], 8, "abcdefg"),
    ],
)  # fmt: skip
def test_texts_end_at_a_special_token_that_a_stop_string_names(model, stops, new, text, beams):
    """It says a, b, the end of text, c, d and so on; what a stop string does not name as a whole is no text."""
    letters = [int(model.tokenizer.encode(letter)[0]) for letter in "abcdefg"]
    says = [*letters[:2], model.tokenizer.token_to_id("<|endoftext|>"), *letters[2:]]
    n = len(model.tokenizer.encode("A"))
    options = {
        "prefix_allowed_tokens_fn": lambda _, ids: says[len(ids) - n :][:1], "max_new_tokens": 8, "eos_token_id": None,
        "stop_strings": stops, "num_beams": beams,
    }  # fmt: skip
    out = model.generate("A", **options)
    assert out.token_ids[0].tolist() == says[:new]
    assert (out.text, out.finish_reasons) == (text, ["length" if new == 8 else "stop"])
    assert "".join(model.stream("A", **options)) == text


@pytest.mark.parametrize("repeated", [["<|endoftext|>"], ["<|endoftext|>", "a"]])
def test_special_tokens_that_a_stop_string_names_are_read_once_each(model, repeated, monkeypatch):
    """A text of n of them took n**2 reads of a stream, each of the whole: minutes for 2,000 tokens."""
    tokenizer, ids = model.tokenizer, [int(model.tokenizer.encode(word)[0]) for word in repeated] * 40
    counted, decode = [], tokenizer.decode
    monkeypatch.setattr(tokenizer, "decode", lambda *given, **how: counted.append(given) or decode(*given, **how))
    stream = TextStream(tokenizer, ["z<|endoftext|>"])
    assert "".join([*map(stream.push, ids), stream.finish()]) == "a" * 40 * (len(repeated) - 1)
    assert len(counted) <= 4 * len(ids) + 8


@pytest.mark.parametrize("search", ["greedy", "sampling"])
@settings(max_examples=12)
@given(data=st.data())
def test_texts_are_those_of_a_plain_search_in_the_text_without_stops(model, search, data):
    """Across the borders of tokens, each text of a batch for itself; and nothing is generated after the stop."""
    options = LONG | SEARCHES[search]
    whole = model.generate(PROMPTS, **options)
    text = data.draw(st.sampled_from(whole.texts))
    begin = data.draw(st.integers(0, len(text) - 1))
    stops = [text[begin : begin + data.draw(st.integers(1, 6))], *data.draw(st.lists(st.text(min_size=1), max_size=2))]
    keep = data.draw(st.booleans())
    out = model.generate(PROMPTS, stop_strings=stops, keep_stop_strings=keep, **options)
    assert out.texts == [cut_at_stop(t, stops, keep) for t in whole.texts]
    for ids, full in zip(out.token_ids, whole.token_ids, strict=True):
        assert ids.tolist() == full[: len(ids)].tolist()
        has_stop = first_stop(model.tokenizer.decode(full), stops) is not None
        assert first_stop(model.tokenizer.decode(ids[:-1]), stops) is None
        assert has_stop == (first_stop(model.tokenizer.decode(ids), stops) is not None)
        assert has_stop or len(ids) == len(full)


@pytest.mark.parametrize("drop_finished", ["on", "off"])
@pytest.mark.parametrize("search", SEARCHES)
def test_a_stopped_sentence_is_the_same_alone_and_in_a_batch(model, search, drop_finished):
    options = LONG | SEARCHES[search] | {"stop_strings": [" the", "s ", ","]}
    plan = f"cache=split,drop_finished={drop_finished}"
    together = model.generate(PROMPTS, plan=plan, **options)
    alone = [model.generate(p, plan=plan, sample_ids=[0], **options) for p in PROMPTS]
    assert together.texts == [text for out in alone for text in out.texts]
    assert np.allclose(together.scores, np.concatenate([out.scores for out in alone]))
    assert any(len(ids) < 24 for ids in together.token_ids)


@pytest.mark.parametrize(("search", "texts"), [("greedy", 4), ("sampling", 8), ("beams", 24)])
def test_a_text_that_is_done_is_not_read_again(model, search, texts, monkeypatch):
    """A step reads the texts, or candidates, of those that go on, though all keep their rows."""
    read, has_string = [], stopping.Stopping.ends_in_stop_string
    monkeypatch.setattr(
        stopping.Stopping, "ends_in_stop_string", lambda *given: read.append(given) or has_string(*given)
    )
    options = LONG | SEARCHES[search] | ({"early_stopping": True} if search == "beams" else {})
    plan = "cache=split,drop_finished=off"
    out = model.generate(PROMPTS, plan=plan, stop_strings=[" the", "s ", ","], **options)
    assert 0 < len(read) < texts * out.receipt.steps


@pytest.mark.parametrize("search", SEARCHES)
def test_a_function_that_stops_at_a_token_is_an_eos(model, search):
    """stopping_criteria sees every text with its newest token: a beam's candidates too."""
    options = LONG | SEARCHES[search]
    token = int(model.generate(PROMPTS[0], **options).token_ids[0][3])
    expected = model.generate(PROMPTS, **options | {"eos_token_id": token})
    prompts = [model.tokenizer.encode(p).tolist() for p in PROMPTS]

    def at_token(ids, scores):
        assert all(any(i[: len(p)].tolist() == p for p in prompts) for i in ids)
        assert scores is None or scores.shape == (len(ids), model.config.vocab_size)
        return np.array([i[-1] == token for i in ids])

    found = model.generate(PROMPTS, stopping_criteria=at_token, **options)
    assert [t.tolist() for t in found.token_ids] == [t.tolist() for t in expected.token_ids]
    assert found.scores.tolist() == expected.scores.tolist()
    assert "at_token" in str(found.receipt.search["stopping_criteria"])


@pytest.mark.parametrize("search", SEARCHES)
def test_the_clock_ends_all_texts_with_their_next_token(model, search, monkeypatch):
    """As if their limit had been the tokens that they have."""
    options = LONG | SEARCHES[search]
    expected = model.generate(PROMPTS, **options | {"max_new_tokens": 5})

    def is_last(self, step):
        self.cut_at = step + 1 if step >= 4 else None
        return step >= 4

    monkeypatch.setattr(stopping.Stopping, "is_last", is_last)
    found = model.generate(PROMPTS, max_time=60.0, **options)
    assert [t.tolist() for t in found.token_ids] == [t.tolist() for t in expected.token_ids]
    assert found.finish_reasons == expected.finish_reasons, "cut off is cut off, by a limit or by the clock"


def test_the_true_clock(model):
    out = model.generate("A", max_new_tokens=500, eos_token_id=None, max_time=0.01)
    assert 1 <= len(out.token_ids[0]) < 500 and out.finish_reasons == ["length"]


@pytest.mark.parametrize("beams", [1, 2])
def test_stops_on_a_device(beams):
    """Texts and what is done lie on the emulated device; the host looks, and says who ends."""
    here = md.load("tiny-gpt2", plan="numpy")
    there = md.load("tiny-gpt2", plan="numpy", device="emulator")
    options = {"max_new_tokens": 3, "stop_strings": ["e"], "eos_token_id": None, "num_beams": beams}
    assert there.generate("The people", **options).texts == here.generate("The people", **options).texts


@pytest.mark.parametrize(
    ("given", "say"),
    [({"stop_strings": ""}, "stop_strings must be texts that are not empty"),
     ({"stop_strings": ["a", 3]}, "stop_strings must be texts"), ({"stop_strings": 3}, "stop_strings must be texts"),
     ({"stopping_criteria": 3}, "stopping_criteria must be functions"), ({"max_time": 0}, "of seconds above 0"),
     ({"stop_strings": ["a", "\ud800"]}, "stop_strings holds half a surrogate pair"),
     ({"max_time": "1"}, "max_time must be a number"),
     ({"stopping_criteria": lambda ids, scores: 1}, "return True or False"),
     ({"stopping_criteria": lambda ids, scores: np.zeros(7, bool)}, "one for each of 1 text")],
)  # fmt: skip
def test_bad_stops_are_refused(model, given, say):
    with pytest.raises(md.OptionError, match=say):
        model.generate("A", max_new_tokens=2, **given)


def test_special_tokens_between_do_not_hide_a_stop_string(model):
    """Nor do ids that the tokenizer does not know, as a padded vocabulary has: they are no text."""
    t, h, e = (int(model.tokenizer.encode(letter)[0]) for letter in "the")
    end = int(model.tokenizer.token_to_id("<|endoftext|>"))
    criteria = model.options(stop_strings=["the"])
    for between in ([end] * 3, []):
        asked = make_stopping(model, criteria, 0.0)
        assert asked.tail == 3 and asked.ends([np.array([t, h, *between, e])], [0], [False], None).all()
        assert not asked.ends([np.array([t, *between, e])], [0], [False], None).any()
    padded = md.load("tiny-gpt2", plan="numpy")
    object.__setattr__(padded.config, "vocab_size", padded.config.vocab_size + 64)
    asked = make_stopping(padded, criteria, 0.0)
    assert asked.ends([np.array([t, h, *[padded.config.vocab_size - 1] * 3, e])], [0], [False], None).all()


def test_no_beam_goes_on_with_a_token_that_is_none(model, monkeypatch):
    """Where all candidates of a sentence end at once, its rows stay, out of play, while the others go on."""
    first, fed, step = len(model.tokenizer.encode(PROMPTS[0])), [], Engine.step
    begun = model.tokenizer.encode(PROMPTS[0]).tolist()

    def watched(self, tokens_RM, length_R, parent_R):
        fed.append(int(tokens_RM.min()))
        return step(self, tokens_RM, length_R, parent_R)

    monkeypatch.setattr(Engine, "step", watched)
    ends = lambda ids, scores: np.array([i[:first].tolist() == begun for i in ids])  # noqa: E731
    out = model.generate(PROMPTS, num_beams=3, stopping_criteria=ends, plan="cache=split,drop_finished=off", **LONG)
    assert len(out.token_ids[0]) == 1 and min(fed) >= 0 and len(fed) > 3


def test_a_file_of_defaults_may_hold_stops(model):
    settings = {"stop_strings": ["e"], "max_new_tokens": 20}
    loaded = md.load("tiny-gpt2", generation_config=settings)
    assert loaded.generate("A").texts == model.generate("A", eos_token_id=(0,), **settings).texts
