"""What `generate` returns, read hypothesis by hypothesis: why it ended, its prompt, its full text, its HTML."""

from xml.etree import ElementTree

import numpy as np
import pytest
from toy_folder import write_bart_folder

import minidecode as md

PROMPTS = ["Fellow citizens,", "The Congress of the United States"]


@pytest.fixture(scope="module")
def model():
    return md.load("tiny-gpt2")


def test_an_output_is_a_sequence_of_hypotheses(model):
    out = model.generate(PROMPTS, num_beams=3, num_return_sequences=2, max_new_tokens=4)
    assert len(out) == 4 and [h.prompt for h in out] == [0, 0, 1, 1]
    assert [h.text for h in out] == out.texts and [h.score for h in out] == out.scores.tolist()
    assert [h.token_ids.tolist() for h in out] == [ids.tolist() for ids in out.token_ids]
    assert out[-1] == out[3] and out[1:3] == [out[1], out[2]] and out.texts[0] in repr(out[0])
    with pytest.raises(IndexError):
        out[4]


@pytest.mark.parametrize("options", [{}, {"num_beams": 2, "num_return_sequences": 2}, {"do_sample": True}])
def test_a_text_ends_by_eos_or_by_its_limit(model, options):
    """The second token of the first text is made EOS: that text stops at it, also where the limit is two tokens."""
    free = model.generate(PROMPTS, max_new_tokens=6, eos_token_id=None, **options)
    assert set(free.finish_reasons) == {"length"}
    eos = int(free.token_ids[0][1])
    for limit in (2, 6):
        for plan in ("drop_finished=on", "drop_finished=off"):
            out = model.generate(PROMPTS, max_new_tokens=limit, eos_token_id=eos, plan=plan, **options)
            assert "stop" in out.finish_reasons
            for hypothesis in out:
                ended = hypothesis.token_ids[-1] == eos
                assert hypothesis.finish_reason == ("stop" if ended else "length")
                assert ended or len(hypothesis.token_ids) == limit


def test_a_stop_string_stops_a_text_also_in_its_last_token(model):
    (text,) = model.generate(PROMPTS[0], max_new_tokens=6).texts
    for limit in (6, 7):
        out = model.generate(PROMPTS[0], max_new_tokens=limit, stop_strings=text[-3:])
        assert out.finish_reasons == ["stop"]


def test_each_prompt_has_its_own_limit(model):
    """max_length counts the prompt."""
    out = model.generate(PROMPTS, max_length=12, eos_token_id=None)
    assert len(set(map(len, out.token_ids))) == 2 and out.finish_reasons == ["length", "length"]


def test_the_full_text_begins_with_the_prompt(model, tmp_path):
    how = {"max_new_tokens": 4, "num_beams": 2, "num_return_sequences": 2}
    new = model.generate(PROMPTS, **how).texts
    full = model.generate(PROMPTS, return_full_text=True, **how)
    assert full.texts == [PROMPTS[h.prompt] + new[h.index] for h in full] == [h.text for h in full]
    with pytest.raises(md.OptionError, match="a source is no part of the new text"):
        md.load(write_bart_folder(tmp_path / "bart")).generate("a", return_full_text=True)


def test_the_page_of_a_notebook_escapes_texts_and_folds_the_receipt(model):
    out = model.generate("a<b> & <script>", max_new_tokens=3, return_full_text=True, num_beams=2)
    page = ElementTree.fromstring(out._repr_html_())  # well-formed, so everything in it is escaped
    assert page.find(".//script") is None and out.texts[0] in "".join(page.itertext())
    assert "".join(page.find("details").itertext()).startswith("receipt") and "plan" in page.findtext("details/pre")


@pytest.mark.parametrize("plan", ["drop_finished=on", "drop_finished=off"])
@pytest.mark.parametrize("options", [{"num_beams": 3, "num_return_sequences": 2}, {}])
def test_what_is_kept_of_each_step_tells_where_each_token_came_from(model, options, plan):
    """By the kept rows alone, the scores of a text are those that `logprobs` finds in a pass over the whole text."""
    given = {"max_new_tokens": 6, "eos_token_id": 13, "repetition_penalty": 1.4, "plan": plan} | options
    what = ["scores", "logits"] + ["beam_indices"] * ("num_beams" in options)
    out = model.generate(PROMPTS, keep=what, logprobs=0, **given)
    plain = model.generate(PROMPTS, **given)
    assert plain.kept is None and [ids.tolist() for ids in plain.token_ids] == [ids.tolist() for ids in out.token_ids]
    kept, total = out.kept, 0.0
    for h, ids in enumerate(out.token_ids):
        rows = kept.beam_indices[h] if "num_beams" in options else [h] * len(ids)
        for t, (row, token) in enumerate(zip(rows, ids, strict=True)):
            logits_V = kept.logits[t][row].astype(np.float64)
            log_sum = logits_V.max() + np.log(np.exp(logits_V - logits_V.max()).sum())
            assert logits_V[token] - log_sum == pytest.approx(out.token_logprobs[h][t], abs=1e-4)
            total += kept.scores[t][row][token]
        if "num_beams" in options:
            assert total == pytest.approx(out.scores[h] * len(ids), abs=1e-4)
            total = 0.0
    rows = 3 * len(PROMPTS) if "num_beams" in options else len(PROMPTS)
    assert {step.shape for step in kept.scores} == {(rows, model.config.vocab_size)}


@pytest.mark.parametrize("options", [
    {"num_beams": 4, "num_return_sequences": 3}, {"num_beams": 3, "num_return_sequences": 3, "dialect": "fairseq"},
    {"num_beams": 3, "num_return_sequences": 2, "dialect": "ctranslate2", "patience": 2.0},
], ids=str)  # fmt: skip
def test_beam_indices_are_where_a_trace_shows_the_text(model, options):
    """A trace has the texts of all beams at each step."""
    out = model.generate(PROMPTS, max_new_tokens=8, eos_token_id=13, keep="beam_indices", trace=True, **options)
    for h, ids in enumerate(out.token_ids):
        b = h // options["num_return_sequences"]
        steps = out.trace.of(b)
        rows = [b * options["num_beams"] + steps[t].running.index(ids[:t].tolist()) for t in range(len(ids))]
        assert out.kept.beam_indices[h].tolist() == rows


@pytest.mark.parametrize("options", [
    {}, {"do_sample": True, "num_return_sequences": 2}, {"dialect": "fairseq"},
    {"num_beams": 4, "num_return_sequences": 3}, {"num_beams": 4, "do_sample": True},
    {"num_beams": 3, "num_return_sequences": 3, "dialect": "fairseq"},
    {"num_beams": 3, "num_return_sequences": 2, "dialect": "ctranslate2", "patience": 2.0},
], ids=str)  # fmt: skip
@pytest.mark.parametrize("plan", ["numpy", "fast,drop_finished=on"])
def test_token_scores_are_those_of_each_step_at_the_texts_own_tokens(model, options, plan):
    by_beam = ["beam_indices"] if "num_beams" in options else []
    given = options | {"max_new_tokens": 8, "eos_token_id": 13, "no_repeat_ngram_size": 2, "plan": plan}
    out = model.generate(PROMPTS, keep=["token_scores", "scores", "logits", *by_beam], **given)
    steps = out.kept.scores if by_beam or "dialect" in options else out.kept.logits  # hf: the model's, without a ban
    for h, (ids, each) in enumerate(zip(out.token_ids, out.kept.token_scores, strict=True)):
        assert len(each) == len(ids)
        rows = out.kept.beam_indices[h] if by_beam else [h] * len(ids)
        for t, (row, token) in enumerate(zip(rows, ids, strict=True)):
            scores_V = steps[t][row].astype(np.float64)
            if steps is out.kept.logits:
                scores_V -= np.log(np.exp(scores_V - scores_V.max()).sum()) + scores_V.max()
            assert each[t] == pytest.approx(scores_V[token], abs=1e-4)


@pytest.mark.parametrize("options", [{}, {"do_sample": True}, {"num_beams": 3}], ids=str)
def test_token_scores_add_up_to_the_score_where_tokens_are_forced(model, options):
    out = model.generate(PROMPTS, keep="token_scores", max_new_tokens=4, forced_eos_token_id=13, **options)
    for ids, score, each in zip(out.token_ids, out.scores, out.kept.token_scores, strict=True):
        assert sum(each) / len(ids) == pytest.approx(score, abs=1e-5)


def test_beam_indices_take_the_bytes_of_the_footprint_which_are_in_proportion_to_the_steps(model):
    taken = []
    for steps in (8, 16):
        given = {"max_new_tokens": steps, "num_beams": 4, "num_return_sequences": 4, "keep": ["beam_indices"]}
        kept = model.generate(PROMPTS, eos_token_id=None, **given).kept
        taken.append(sum(array.nbytes for array in (*kept.chosen, *kept.beam_indices)))
        less = model.footprint(PROMPTS, **given | {"keep": []}).stepping
        assert model.footprint(PROMPTS, **given).stepping - less == taken[-1]
    assert taken[1] == 2 * taken[0]


@pytest.mark.parametrize("kind", ["scores", "token_scores"])
def test_one_name_takes_the_bytes_of_a_list_of_it(model, kind):
    alone, listed = (model.footprint(PROMPTS, max_new_tokens=8, keep=keep) for keep in (kind, [kind]))
    assert alone == listed and alone.stepping > model.footprint(PROMPTS, max_new_tokens=8).stepping


def test_what_cannot_be_kept_is_refused(model):
    for given, says in [
        ({"keep": ["attentions"]}, "keep knows scores, logits, beam_indices, token_scores"),
        ({"keep": ["beam_indices"]}, "one beam has no beam_indices"),
        (
            {"keep": "scores", "num_beams": 2, "num_beam_groups": 2, "diversity_penalty": 1.0, "dialect": "hf4"},
            "groups",
        ),
    ]:
        with pytest.raises(md.OptionError, match=says):
            model.generate(PROMPTS, **given)
    asked, without = (
        model.footprint(PROMPTS, keep=["scores"], max_new_tokens=9),
        model.footprint(PROMPTS, max_new_tokens=9),
    )
    assert asked.stepping - without.stepping == 9 * len(PROMPTS) * model.config.vocab_size * 4
