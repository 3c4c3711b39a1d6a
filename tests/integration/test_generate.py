"""The public surface on the bundled model: plans agree, receipts tell the truth, threads do not disturb each other."""

import json
import threading
from collections import UserDict

import numpy as np
import pytest
from toy_folder import write_bart_folder

import minidecode as md
from minidecode.reference import grouped, linear, ngram, prefill

PROMPTS = ["Fellow citizens,", "The Congress of the United States", "I", "Our army and our navy have"]


@pytest.fixture(scope="module")
def model():
    return md.load("tiny-gpt2")


def test_plans_give_the_same_tokens(model):
    plans = ("cache=none", "cache=replicated")
    for options in ({}, {"num_beams": 3, "num_return_sequences": 2, "no_repeat_ngram_size": 3}):
        outs = [model.generate(PROMPTS, plan=p, max_new_tokens=12, **options) for p in plans]
        assert [t.tolist() for t in outs[0].token_ids] == [t.tolist() for t in outs[1].token_ids]
        np.testing.assert_allclose(outs[0].scores, outs[1].scores, rtol=1e-4)


def test_alone_and_in_a_batch(model):
    together = model.generate(PROMPTS, max_new_tokens=12, num_beams=2)
    for prompt, ids in zip(PROMPTS, together.token_ids, strict=True):
        assert model.generate(prompt, max_new_tokens=12, num_beams=2).token_ids[0].tolist() == ids.tolist()


def test_padding_on_either_side_changes_nothing(model):
    ids = [model.tokenizer.encode(p) for p in PROMPTS]
    N = max(map(len, ids))
    expected = [t.tolist() for t in model.generate(input_ids=ids, max_new_tokens=6).token_ids]
    for left in (True, False):
        padded, mask = np.zeros((len(ids), N + 2), int), np.zeros((len(ids), N + 2), int)
        for b, row in enumerate(ids):
            where = slice(N + 2 - len(row), None) if left else slice(0, len(row))
            padded[b, where], mask[b, where] = row, 1
        got = model.generate(input_ids=padded, attention_mask=mask, max_new_tokens=6).token_ids
        assert [t.tolist() for t in got] == expected


def test_what_a_tokenizer_of_transformers_returns_stands_for_ids_and_mask(tiny_folder, tmp_path):
    """A dict, or a mapping that is none, with the ids of one text or of several; its own words are no prompts."""
    for model in (md.load(tiny_folder()), md.load(write_bart_folder(tmp_path / "toy-bart"))):
        how = {"max_new_tokens": 3, "decoder_start_token_id": 2}
        several = {"input_ids": [[0, 5, 6], [7, 8, 9]], "attention_mask": np.array([[0, 1, 1], [1, 1, 1]])}
        rows = [[5, 6], [7, 8, 9]]
        expected = [t.tolist() for t in model.generate(input_ids=rows, **how).token_ids]
        for given in (several, UserDict(several), {"input_ids": rows, "token_type_ids": [[0, 0], [0, 0, 0]]}):
            assert [t.tolist() for t in model.generate(given, **how).token_ids] == expected
            assert [t.tolist() for t in model.generate(input_ids=given, **how).token_ids] == expected
            model.check(given, **how)
        one = {"input_ids": [7, 8, 9], "attention_mask": [1, 1, 1]}
        assert [t.tolist() for t in model.generate(one, **how).token_ids] == expected[1:]
        target = {"target_ids": rows} if model.is_encoder_decoder else {}
        scores = model.score(several, **target)
        assert scores.log_probs.tolist() == model.score(input_ids=rows, **target).log_probs.tolist()
        target = {"decoder_input_ids": [[2, 5]] * 2} if model.is_encoder_decoder else {}
        for a, b in zip(model.logits(several, **target), model.logits(rows, **target), strict=True):
            np.testing.assert_array_equal(a, b)
        for wrong, words in [
            ({"prompt": "the"}, r"prompts is a mapping of 'prompt': one from a tokenizer holds 'input_ids'"),
            ({}, "prompts is a mapping of nothing"),
            (several | {"labels": [[1]]}, "prompts holds 'labels' beside 'input_ids'"),
        ]:
            with pytest.raises(md.InputError, match=words):
                model.generate(wrong, **how)
        with pytest.raises(md.InputError, match="attention_mask is given twice"):
            model.generate(several, attention_mask=[[1, 1, 1]] * 2, **how)


def test_logits_agree_with_greedy(model):
    ids = model.tokenizer.encode(PROMPTS[1])
    first = model.generate(input_ids=[ids], max_new_tokens=1, no_repeat_ngram_size=0).token_ids[0][0]
    logits = model.logits([ids, ids[:3]])
    assert logits[0].shape == (len(ids), model.config.vocab_size) and logits[1].shape == (3, model.config.vocab_size)
    assert logits[0][-1].argmax() == first
    exact = md.load("tiny-gpt2", dtype="float64").logits([ids, ids[:3]])
    np.testing.assert_allclose(exact[0][:3], exact[1], rtol=1e-9)


@pytest.mark.parametrize("streamer", [object(), "print", 0, lambda: None, lambda text: None, lambda text, id, more: 0])
def test_what_is_no_streamer_is_refused_before_anything_is_computed(model, streamer, monkeypatch):
    monkeypatch.setattr("minidecode.methods.generation.engine_of", None)
    with pytest.raises(md.OptionError, match=r"streamer must be a function of \(text number, token id\), not .*: pass"):
        model.generate("I", max_new_tokens=2, streamer=streamer)


def test_functions_of_many_kinds_are_streamers(model, capsys):
    class Stream:
        def __call__(self, *both):
            print(*both)

    out = model.generate("I", max_new_tokens=2, streamer=Stream())
    assert model.generate("I", max_new_tokens=2, streamer=print).token_ids[0].tolist() == out.token_ids[0].tolist()
    assert capsys.readouterr().out == "".join(f"0 {i}\n" for i in out.token_ids[0]) * 2


def test_the_streamer_sees_every_token_in_order(model):
    seen = {0: [], 1: []}
    out = model.generate(PROMPTS[:2], max_new_tokens=9, streamer=lambda b, token: seen[b].append(token))
    assert [seen[0], seen[1]] == [t.tolist() for t in out.token_ids]
    with pytest.raises(md.OptionError, match="num_beams=1"):
        model.generate(PROMPTS[0], num_beams=2, streamer=print)


def test_objects_show_what_they_are(model):
    out = model.generate("the", num_beams=2, max_new_tokens=2)
    assert repr(out) == f"{out.scores[0]:9.4f}  {out.texts[0]!r}"
    assert f"{model.config.layers} layers of width" in repr(model) and f"plan {model.plan}" in repr(model)
    assert out.receipt.search["num_beams"] == 2 and "top_k" not in out.receipt.search  # nothing is sampled
    assert "search: num_beams 2, max_new_tokens 2" in str(out.receipt)
    arena = md.Arena(model.plan_step(max_new_tokens=3))
    assert repr(arena) == f"Arena({arena.bytes:,} bytes, for 1 x (prompts of 1 and 3 new tokens))"


def test_functions_among_the_options_stand_on_the_receipt_by_their_names(model):
    search = model.generate("the", max_new_tokens=2, logits_processor=unchanged).receipt.search
    assert [name.partition(" ")[0] for name in search["logits_processor"]] == [f"{__name__}.unchanged"]
    assert json.dumps(search)


def unchanged(scores_RV, rows):
    return scores_RV


def test_the_receipt_counts_what_ran(model):
    out = model.generate(PROMPTS[0], num_beams=2, max_new_tokens=5, no_repeat_ngram_size=2)
    r, layers = out.receipt, model.config.n_layer
    assert r.steps == 5
    assert r.ops["linear"].calls == 5 * (4 * layers + 1)
    assert r.ops["attend_prefill"].calls == layers
    assert r.ops["attend"].calls == 4 * layers
    assert r.ops["ban_ngrams"].calls == 5
    assert r.ops["linear"].implementation.startswith("minidecode.reference.linear.linear (linear.py:")
    N, D = r.prompt_tokens, model.config.n_embd
    assert r.cache_peak_bytes == 2 * layers * (N + 4) * D * 2 * 4, "K and V, two beams, float32"
    assert r.new_tokens == len(out.token_ids[0])
    recomputed = model.generate(PROMPTS[0], num_beams=2, max_new_tokens=5, plan="cache=none").receipt
    assert recomputed.cache_peak_bytes == 0 and "attend" not in recomputed.ops
    assert "ReplicatedCache" in str(r) and r.as_dict()["ops"]["linear"]["calls"] == r.ops["linear"].calls


@pytest.mark.parametrize("module, op, options", [
    (linear, "linear", {}), (grouped, "attend", {}), (prefill, "attend_prefill", {"plan": "cache=none"}),
    (ngram, "ban_ngrams", {"no_repeat_ngram_size": 2}),
])  # fmt: skip
def test_sabotage(model, monkeypatch, module, op, options):
    """An op that is rebound to one that raises makes the generation raise: what the receipt names really runs."""

    def sabotaged(*args, **kwargs):
        raise ZeroDivisionError("sabotage")

    monkeypatch.setattr(module, op, sabotaged)
    with pytest.raises(ZeroDivisionError, match="sabotage"):
        model.generate(PROMPTS[0], max_new_tokens=3, **options)


def test_threads_share_a_model(model):
    jobs = [{"num_beams": w, "max_new_tokens": 8 + w, "plan": p} for w in (1, 3) for p in ("cache=none", "auto")]
    expected = [model.generate(PROMPTS, **job).token_ids for job in jobs]
    results = [None] * len(jobs)

    def work(i):
        results[i] = model.generate(PROMPTS, **jobs[i]).token_ids

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(jobs))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for e, r in zip(expected, results, strict=True):
        assert [t.tolist() for t in e] == [t.tolist() for t in r]


def test_the_context_can_be_filled_to_the_last_position(model):
    """A sentence that is done waits in the batch while others go on, without running past the context."""
    context = model.config.n_positions
    long, short = np.resize(model.tokenizer.encode(PROMPTS[0]), context), model.tokenizer.encode("I")
    for W in (1, 2):
        out = model.generate(input_ids=[long[:-3], short], max_length=context, num_beams=W, eos_token_id=None)
        assert len(out.token_ids[0]) == 3
        assert len(out.token_ids[1]) == context - len(short)
        last = model.generate(input_ids=[long, short], max_length=context + 1, num_beams=W, eos_token_id=None)
        assert [len(t) for t in last.token_ids] == [1, context + 1 - len(short)], "the last token needs no position"


def test_options_are_checked(model):
    for bad, words in [
        ({"num_beams": 0}, "num_beams must be"), ({"num_beams": True}, "num_beams must be"),
        ({"num_beam": 2}, "did you mean num_beams"), ({"length_penalty": float("nan")}, "length_penalty"),
        ({"early_stopping": "always"}, "early_stopping"), ({"early_stopping": 1}, "early_stopping"),
        ({"length_penalty": 1e6}, "length_penalty"), ({"num_return_sequences": 2}, "num_return_sequences"),
        ({"eos_token_id": 10**6}, "vocabulary"), ({"min_new_tokens": 5, "max_new_tokens": 4}, "min_new_tokens"),
        ({"max_new_tokens": 10**6}, "context"), ({"num_beams": 10**5}, "candidates"),
        ({"max_new_tokens": 0}, "max_new_tokens must be"),
    ]:  # fmt: skip
        with pytest.raises(md.OptionError if words != "context" else md.InputError, match=words):
            model.generate("Hello", **bad)


def test_prompts_are_checked(model):
    for bad, words in [
        ({"prompts": ""}, "empty"), ({"prompts": []}, "no prompt"), ({}, "either prompts"),
        ({"input_ids": [[1, 10**6]]}, "vocabulary"), ({"input_ids": [[1.5]]}, "integers"),
        ({"input_ids": [[1]], "attention_mask": [[1, 1]]}, "attention_mask"), ({"prompts": [3]}, "texts"),
        ({"prompts": "a\ud800b"}, "surrogate"), ({"input_ids": [[1, 2]], "attention_mask": [[0, 0]]}, "empty"),
        ({"input_ids": [[1, 2]], "attention_mask": [[0.0, -1e9]]}, "must be 1 for tokens"),
        ({"input_ids": [[1, 2]], "attention_mask": [["1", "0"]]}, "must be 1 for tokens"),
    ]:  # fmt: skip
        with pytest.raises(md.InputError, match=words):
            model.generate(**bad)
