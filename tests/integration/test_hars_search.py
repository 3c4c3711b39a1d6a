"""Beam search that takes candidates straight from the logits where it may: the same texts; the receipt says when."""

import numpy as np
import pytest
from test_attention_settings import IDS, SIZES, make, random_tensors
from toy import Ops, ToyEngine

import minidecode as md
from minidecode.cuda import candidates as cuda_candidates
from minidecode.models import FAMILIES
from minidecode.options.options import Options
from minidecode.reference import hars
from minidecode.search.beam import Beams, beam_search
from minidecode.search.result import Request

CHOICES = ["naive", "reference", "cpu", "emulator"]
SENTENCES = [*IDS, [17], [8, 9, 10, 11, 12, 13, 14, 15]]
SEARCHES = [
    {"num_beams": 4, "num_return_sequences": 3},
    {"num_beams": 3, "min_new_tokens": 4, "length_penalty": 0.3},
    {"num_beams": 2, "dialect": "hf4", "forced_eos_token_id": 1, "begin_suppress_tokens": [5, 6]},
    {"num_beams": 3, "dialect": "fairseq", "temperature": 1.3, "min_new_tokens": 2},
]


def model_in_float32(kind):
    """The kernels take no other."""
    config = FAMILIES[kind].config.from_json(SIZES[kind])
    return make(kind, {n: t.astype(np.float32) for n, t in random_tensors(FAMILIES[kind], config).items()})


def tokens(out):
    return [ids.tolist() for ids in out.token_ids]


@pytest.mark.parametrize("kind", ["gpt2", "bart"])
@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("options", SEARCHES, ids=str)
def test_the_same_texts_as_without(kind, choice, options):
    """Sentences of different lengths, some of which end early; steps at which processors act lie among the others."""
    model = model_in_float32(kind)
    settings = {"input_ids": SENTENCES, "max_new_tokens": 6 if choice == "emulator" else 11} | options
    expected, out = model.generate(**settings), model.generate(plan=f"hars={choice}", **settings)
    assert tokens(out) == tokens(expected)
    np.testing.assert_allclose(out.scores, expected.scores, rtol=1e-5)
    counts = out.receipt.ops
    assert counts["hars_candidates"].calls > 0 and "hars_candidates" not in expected.receipt.ops
    others = counts["top_candidates"].calls if "top_candidates" in counts else 0
    assert counts["hars_candidates"].calls + others == out.receipt.steps
    place = {"naive": "reference.hars.hars_candidates_naive", "emulator": "cuda.hars.hars_candidates"}
    expected_name = place.get(choice, f"{choice}.hars.hars_candidates")
    assert counts["hars_candidates"].implementation.startswith(f"minidecode.{expected_name} (hars.py:")
    assert (choice == "emulator") == bool(out.receipt.launches)


def test_the_receipt_counts_the_steps_that_went_either_way():
    """No text may end in its first four tokens, so a processor acts on those; and the last is forced."""
    options = {"num_beams": 2, "max_new_tokens": 9, "min_new_tokens": 4, "forced_eos_token_id": 1, "eos_token_id": 1}
    out = make("gpt2").generate(input_ids=[SENTENCES[0]], plan="hars=cpu", length_penalty=9.0, **options)
    assert out.receipt.steps == 9
    assert [out.receipt.ops[op].calls for op in ("hars_candidates", "top_candidates", "log_softmax")] == [4, 5, 5]


def test_a_sentence_that_is_done_keeps_no_other_from_going_straight():
    """The first has one token to go, which is forced; the other four more, of which the last is."""
    engine, options = ToyEngine(0, 20), Options(num_beams=2, forced_eos_token_id=0, eos_token_id=0, length_penalty=9.0)
    engine.ops, engine.drop_finished, calls = Ops("hars=reference"), False, []
    search = engine.ops.hars_candidates
    engine.ops.hars_candidates = lambda *a: (calls.append(1), search(*a))[1]
    request = Request.make([np.array([3, 4]), np.array([5])], [1, 5], options)
    assert beam_search(engine, request, options).steps == 5 and len(calls) == 3


@pytest.mark.parametrize("choice", ["reference", "cpu"])
def test_greedy_search_and_sampling_are_as_they_were(choice):
    model = make("gpt2")
    for options in ({}, {"do_sample": True, "num_return_sequences": 2, "seed": 3}):
        expected = model.generate(input_ids=IDS, max_new_tokens=8, **options)
        out = model.generate(input_ids=IDS, max_new_tokens=8, plan=f"hars={choice}", **options)
        assert tokens(out) == tokens(expected) and (out.scores == expected.scores).all()
        assert "hars_candidates" not in out.receipt.ops


@pytest.mark.parametrize(
    ("options", "reason"),
    [({"do_sample": True}, "do_sample"), ({"num_beam_groups": 2, "diversity_penalty": 0.5}, "num_beam_groups"),
     ({"sibling_penalty": 0.5}, "sibling_penalty"), ({"no_repeat_ngram_size": 3}, "no_repeat_ngram_size"),
     ({"repetition_penalty": 1.2}, "repetition_penalty"), ({"bad_words_ids": [[4, 5]]}, "bad_words_ids"),
     ({"suppress_tokens": [7]}, "suppress_tokens"), ({"renormalize_logits": True}, "renormalize_logits"),
     ({"logits_processor": lambda scores_RV, rows: scores_RV}, "logits_processor"),
     ({"prefix_allowed_tokens_fn": lambda sentence, ids: [3]}, "prefix_allowed_tokens_fn"),
     ({"dialect": "fairseq", "pad_token_id": 9}, r"never_pad \(dialect fairseq\)")],
    ids=lambda x: x if isinstance(x, str) else "",
)  # fmt: skip
def test_options_that_leave_no_step_to_it_are_refused(options, reason):
    settings = {"input_ids": IDS, "num_beams": 4, "max_new_tokens": 3, "plan": "hars=cpu"}
    with pytest.raises(md.OptionError, match=f"hars takes candidates straight from the logits, and {reason} .*leave"):
        make("gpt2").generate(**settings | options)


def test_a_prefix_is_followed_to_its_end():
    for dialect in ("hf", "fairseq"):
        options = {"input_ids": IDS, "num_beams": 3, "max_new_tokens": 8, "dialect": dialect}
        prefixes = [[4, -1, 7], [9]]
        expected, out = (make("gpt2").generate(plan=p, prefix_tokens=prefixes, **options) for p in ("auto", "hars=cpu"))
        assert tokens(out) == tokens(expected)
        assert all(t[0] == p[0] for t, p in zip(tokens(out), prefixes, strict=True))
        assert out.receipt.ops["hars_candidates"].calls > 0 and out.receipt.ops["top_candidates"].calls >= 3


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("bad", [[np.nan, 1], [np.inf, 1], [-np.inf] * 20])
def test_scores_that_are_none_are_reported_with_their_place(choice, bad):
    """At the third step, in the second beam of the second sentence."""
    engine, options = ToyEngine(1, 20), Options(num_beams=3, max_new_tokens=6)
    engine.ops, step = Ops(f"hars={choice}"), engine.step

    def spoilt(tokens_RM, length_R, parent_R):
        logits_RV = step(tokens_RM, length_R, parent_R)
        if length_R[0] == 4:
            logits_RV[4, : len(bad)] = bad
        return logits_RV

    engine.step = spoilt
    request = Request.make([np.array([3, 4]), np.array([5, 6])], [6, 6], options)
    with pytest.raises(md.NumericalError, match="NaN at step 3, sentence 2"):
        beam_search(engine, request, options)


def test_a_trace_has_the_same_steps():
    model, options = make("bart"), {"input_ids": IDS, "num_beams": 3, "max_new_tokens": 7, "min_new_tokens": 2}
    without, straight = ([(s.running, [(c.parent, c.token, c.fate) for c in s.candidates], s.changed)
                          for s in model.generate(plan=plan, trace=True, **options).trace.steps]
                         for plan in ("auto", "hars=reference"))  # fmt: skip
    assert straight == without


def test_what_the_receipt_names_is_what_runs(monkeypatch):
    def sabotaged(*arguments):
        raise ZeroDivisionError("sabotage")

    monkeypatch.setattr(hars, "hars_candidates", sabotaged)
    with pytest.raises(ZeroDivisionError, match="sabotage"):
        make("gpt2").generate(input_ids=IDS, num_beams=2, max_new_tokens=3, plan="hars=reference")
    make("gpt2").generate(input_ids=IDS, num_beams=2, max_new_tokens=3)


@pytest.mark.parametrize("choice", ["naive", "cpu", "emulator"])
def test_candidates_given_the_scores_are_bit_equal(choice):
    for kind in ("gpt2", "bart"):
        model = model_in_float32(kind)
        settings = {"input_ids": SENTENCES, "num_beams": 3, "max_new_tokens": 4, "no_repeat_ngram_size": 2}
        expected, out = model.generate(**settings), model.generate(plan=f"candidates={choice}", **settings)
        assert tokens(out) == tokens(expected) and (out.scores == expected.scores).all()
        assert out.receipt.ops["top_candidates"].calls == out.receipt.steps


def test_a_wider_number_than_the_kernels_take_is_refused():
    with pytest.raises(md.OptionError, match="these kernels compute in float32, not float64"):
        make("gpt2").generate(input_ids=IDS, num_beams=2, max_new_tokens=2, plan="hars=emulator")


@pytest.mark.parametrize("dialect", ["hf", "hf4"])
@pytest.mark.parametrize(
    "plan", ["auto,candidates=emulator", "candidates=emulator,random=emulator,beam_scores=emulator"]
)
def test_kernels_draw_the_samples_of_beams_too(dialect, plan):
    """By sums in float64, of scores in float32 and noise; the same op puts those that are drawn in order."""
    model, settings = model_in_float32("gpt2"), {"num_beams": 2, "do_sample": True, "max_new_tokens": 4, "seed": 3}
    expected = model.generate(input_ids=SENTENCES, dialect=dialect, **settings)
    out = model.generate(input_ids=SENTENCES, dialect=dialect, plan=plan, **settings)
    assert tokens(out) == tokens(expected)
    np.testing.assert_allclose(out.scores, expected.scores, rtol=1e-6)
    assert out.receipt.ops["top_candidates"].implementation.startswith("minidecode.cuda.candidates.top_candidates (")
    assert out.receipt.launches["merge_shares (emulator)"] == 2 * out.receipt.steps


@pytest.mark.parametrize("version", ["top_candidates_v1", "top_candidates_v2", "top_candidates_v3", "top_candidates"])
@pytest.mark.parametrize("X", [5, 300, 5000])
def test_kernels_tell_scores_apart_that_float32_cannot(version, X):
    scores_BX = np.random.default_rng(X).standard_normal((2, X))
    scores_BX[:, :5] = 9 + 1e-12 * np.array([1, 1, 0, 3, 2])
    best_BC, index_BC = getattr(cuda_candidates, version)(scores_BX, 5)
    assert index_BC.tolist() == [[3, 4, 0, 1, 2]] * 2
    assert best_BC.dtype == np.float64 and np.array_equal(best_BC, np.take_along_axis(scores_BX, index_BC, axis=1))


def test_a_plan_says_that_it_is_on():
    assert str(md.Plan.parse("hars=cpu,candidates=cpu")) == "cache=replicated,candidates=cpu,hars=cpu"
    assert str(md.Plan.parse("hars=off")) == "cache=replicated"
    for bad in ("ngram=off", "hars=on", "hars=best"):
        with pytest.raises(md.OptionError, match="is not one of"):
            md.Plan.parse(bad)


@pytest.mark.parametrize("hars", ["reference", "off"])
def test_the_rows_of_a_step_are_made_once(hars, monkeypatch):
    """For the question whether a processor is due, and for the processors; once more for their tables."""
    made, rows = [], Beams.rows
    monkeypatch.setattr(Beams, "rows", lambda *arguments: (made.append(1), rows(*arguments))[1])
    options = {"num_beams": 3, "min_new_tokens": 4, "max_new_tokens": 9, "eos_token_id": [3]}
    out = make("gpt2").generate(input_ids=SENTENCES, plan=f"hars={hars}", **options)
    assert len(made) == out.receipt.steps + 1 and ("hars_candidates" in out.receipt.ops) == (hars != "off")
