"""The log-probabilities that `generate` notes: those of `score` and of `logits`, whatever chose the tokens."""

import json

import numpy as np
import pytest

import minidecode as md

PROMPTS = [[5, 6, 7], [9, 3], [11]]
SEARCHES = [
    {}, {"num_beams": 3, "num_return_sequences": 2}, {"do_sample": True, "temperature": 1.5, "top_p": 0.9},
    {"repetition_penalty": 1.3, "plan": "numpy,cache=el"},
    {"num_beams": 2, "num_beam_groups": 2, "diversity_penalty": 1.0},
    {"plan": "fast"}, {"max_new_tokens": 1}, {"guidance_scale": 1.5},
]  # fmt: skip


@pytest.fixture(scope="module", params=["tiny-gpt2", "tiny-bart"])
def model(request):
    return md.load(request.param, dtype="float64")


def log_softmax(logits_NV):
    shifted_NV = logits_NV - logits_NV.max(axis=1, keepdims=True)
    return shifted_NV - np.log(np.exp(shifted_NV).sum(axis=1, keepdims=True))


def of_the_model(model, prompt, ids):
    """(N, V): the model's log-probabilities at each new token."""
    if model.is_encoder_decoder:
        start = model.options().decoder_start_token_id
        return log_softmax(model.logits([prompt], decoder_input_ids=[[start, *ids[:-1]]])[0])
    return log_softmax(model.logits([[*prompt, *ids[:-1]]])[0][len(prompt) - 1 :])


@pytest.mark.parametrize("search", SEARCHES, ids=str)
def test_they_are_those_of_a_forward_pass(model, search):
    if model.is_encoder_decoder and "guidance_scale" in search:
        pytest.skip("guidance is for decoder-only models")
    out = model.generate(input_ids=PROMPTS, logprobs=4, **{"max_new_tokens": 6, "min_length": 0} | search)
    for hypothesis in out:
        ids = hypothesis.token_ids.tolist()
        expected_NV = of_the_model(model, PROMPTS[hypothesis.prompt], ids)
        np.testing.assert_allclose(hypothesis.token_logprobs, expected_NV[np.arange(len(ids)), ids], atol=1e-9)
        assert len(hypothesis.top_logprobs) == len(ids)
        for step, expected_V in zip(hypothesis.top_logprobs, expected_NV, strict=True):
            order = np.argsort(-expected_V, kind="stable")[:4]
            assert list(step) == order.tolist()
            np.testing.assert_allclose(list(step.values()), expected_V[order], atol=1e-9)


def test_a_greedy_text_scores_their_sum(model):
    out = model.generate(input_ids=PROMPTS, max_new_tokens=5, num_beams=1, no_repeat_ngram_size=0, min_length=0,
                         forced_bos_token_id=(), forced_eos_token_id=(), length_penalty=0.0, logprobs=0)  # fmt: skip
    np.testing.assert_allclose(out.scores, [p.sum() for p in out.token_logprobs], atol=1e-9)
    assert out.top_logprobs == [[{}] * len(ids) for ids in out.token_ids]


def test_texts_are_the_same_with_and_without(model):
    how = {"input_ids": PROMPTS, "max_new_tokens": 5}
    assert [a.tolist() for a in model.generate(**how).token_ids] == [
        a.tolist() for a in model.generate(**how, logprobs=2).token_ids
    ]


@pytest.mark.parametrize("bad", [-1, 1.5, True, "3", 10**9])
def test_what_is_no_number_of_tokens_is_refused(model, bad):
    with pytest.raises(md.OptionError, match="logprobs must be an integer from 0 to"):
        model.generate(input_ids=PROMPTS, max_new_tokens=1, logprobs=bad)


def test_what_was_not_asked_for_is_not_there(model):
    with pytest.raises(md.OptionError, match="call generate with logprobs=0"):
        _ = model.generate(input_ids=PROMPTS, max_new_tokens=1).token_logprobs


def test_a_place_that_the_rules_left_empty_has_none():
    """A beam may find fewer texts than it was asked for."""
    model = md.load("tiny-gpt2")
    allowed = {"prefix_allowed_tokens_fn": lambda sentence, ids: [0]}
    out = model.generate(input_ids=[[5]], num_beams=2, num_return_sequences=2, max_new_tokens=1, logprobs=1,
                         eos_token_id=0, **allowed)  # fmt: skip
    assert [len(p) for p in out.token_logprobs] == [len(ids) for ids in out.token_ids]
    assert 0 in [len(ids) for ids in out.token_ids]


def test_records_hold_them(cli, tmp_path):
    file = tmp_path / "in.txt"
    file.write_text("I have\nIt was the\n", encoding="utf-8")
    out = cli("generate", "-i", file, "--json", "--logprobs", 2, "--max-new-tokens", 3, "--dtype", "float32").out
    for record in map(json.loads, out.splitlines()):
        (hypothesis,) = record["hypotheses"]
        assert hypothesis["finish_reason"] == "length"
        assert len(hypothesis["token_logprobs"]) == len(hypothesis["token_ids"]) == 3
        columns = [hypothesis[k] for k in ("token_ids", "token_logprobs", "token_texts", "top_logprobs")]
        for token, logprob, text, top in zip(*columns, strict=True):
            assert len(top) == 2 and top[0] == [token, pytest.approx(logprob, abs=1e-5), text], (
                "greedy takes the first choice"
            )
    plain = json.loads(cli("generate", "-i", file, "--json", "--max-new-tokens", 3).out.splitlines()[0])
    assert "token_logprobs" not in plain["hypotheses"][0]
    refused = cli("generate", "I have", "--logprobs", 2)
    assert refused.code == 1 and "say --json too" in refused.err


@pytest.mark.parametrize("best", [0, 2])
def test_scores_that_are_nan_are_noted_as_nan(model, best, monkeypatch):
    """With remove_invalid_values the text goes on; the model's own log-probabilities are no numbers."""
    head = model.network.lm_head

    def spoiled(*args):
        logits_RV = head(*args)
        logits_RV[:, 9] = np.nan
        return logits_RV

    monkeypatch.setattr(model.network, "lm_head", spoiled)
    how = {"input_ids": PROMPTS, "max_new_tokens": 3, "plan": "numpy", "num_beams": 1, "min_length": 0}
    out = model.generate(**how, remove_invalid_values=True, logprobs=best)
    for ids, logprobs, top in zip(out.token_ids, out.token_logprobs, out.top_logprobs, strict=True):
        assert len(ids) == len(logprobs) == len(top) and np.isnan(logprobs).all()
        assert all(len(step) <= best for step in top)
    with pytest.raises(md.NumericalError):
        model.generate(**how, logprobs=best)
