"""Classifier-free guidance: compared with two plain calls of `logits`, in every kind of cache, alone and in batches."""

import numpy as np
import pytest

import minidecode as md

PROMPTS, NEGATIVES = [[5, 6, 7], [9, 3], [11]], [[8, 2], [4, 4, 4, 4, 1], [10]]


@pytest.fixture(scope="module")
def model():
    return md.load("tiny-gpt2", dtype="float64")


def slow(model, prompt, negative, scale, new):
    """Greedy, whole texts read again at each step: u + scale * (c - u)."""
    said = []

    def log_softmax(ids):
        logits_V = model.logits([ids])[0][-1]
        return logits_V - np.log(np.exp(logits_V - logits_V.max()).sum()) - logits_V.max()

    while len(said) < new:
        c_V, u_V = log_softmax([*prompt, *said]), log_softmax([*negative, *said])
        said.append(int((u_V + scale * (c_V - u_V)).argmax()))
    return said


@pytest.mark.parametrize("plan", ["numpy", "fast", "cache=none", "cache=split", "cache=el", "drop_finished=on"])
@pytest.mark.parametrize("scale", [1.5, 3.0, 0.0, -1.0])
def test_greedy_says_what_the_equation_says(model, plan, scale):
    plan = plan if plan in ("numpy", "fast") else f"numpy,{plan}"
    out = model.generate(
        input_ids=PROMPTS, negative_prompt_ids=NEGATIVES, guidance_scale=scale, max_new_tokens=6, plan=plan,
        eos_token_id=None, no_repeat_ngram_size=0,
    )  # fmt: skip
    expected = [slow(model, p, n, scale, 6) for p, n in zip(PROMPTS, NEGATIVES, strict=True)]
    assert [ids.tolist() for ids in out.token_ids] == expected


def test_the_last_token_of_the_prompt_is_the_default(model):
    out = model.generate(
        input_ids=PROMPTS, guidance_scale=2.0, max_new_tokens=5, eos_token_id=None, no_repeat_ngram_size=0
    )
    assert [ids.tolist() for ids in out.token_ids] == [slow(model, p, p[-1:], 2.0, 5) for p in PROMPTS]


@pytest.mark.parametrize("options", [
    {"num_beams": 3}, {"num_beams": 3, "num_return_sequences": 2, "plan": "fast,drop_finished=on"},
    {"do_sample": True, "num_return_sequences": 2}, {"do_sample": True, "num_beams": 2},
], ids=str)  # fmt: skip
def test_a_sentence_is_the_same_alone_and_in_a_batch(model, options):
    """Beams that change parents take their unconditional caches along."""
    each = options.get("num_return_sequences", 1)
    how = {"guidance_scale": 2.0, "max_new_tokens": 8, **options}
    together = model.generate(input_ids=PROMPTS, negative_prompt_ids=NEGATIVES, **how)
    for b, (prompt, negative) in enumerate(zip(PROMPTS, NEGATIVES, strict=True)):
        alone = model.generate(input_ids=[prompt], negative_prompt_ids=[negative], **how)
        mine = together.token_ids[b * each : (b + 1) * each]
        assert [ids.tolist() for ids in alone.token_ids] == [ids.tolist() for ids in mine]


def test_beams_score_their_texts_by_the_equation(model):
    """The winner's score, and it is no worse than that of greedy's text."""
    how = {"input_ids": PROMPTS[:1], "negative_prompt_ids": NEGATIVES[:1], "guidance_scale": 1.5, "max_new_tokens": 4}
    found = model.generate(**how, num_beams=4, eos_token_id=None, length_penalty=0.0)

    def score(ids, prompt, negative):
        c, u = (
            model.score(input_ids=[start], target_ids=[ids]).token_log_probs[0].sum() for start in (prompt, negative)
        )
        return u + 1.5 * (c - u)

    assert found.scores[0] == pytest.approx(score(found.token_ids[0], PROMPTS[0], NEGATIVES[0]))
    greedy = model.generate(**how, eos_token_id=None).token_ids[0]
    assert found.scores[0] >= score(greedy, PROMPTS[0], NEGATIVES[0]) - 1e-9


def test_both_engines_are_in_the_receipt_and_in_the_footprint(model):
    how = {"input_ids": PROMPTS, "max_new_tokens": 6, "eos_token_id": None, "plan": "numpy"}
    plain, guided = model.generate(**how), model.generate(**how, guidance_scale=2.0, negative_prompt_ids=PROMPTS)
    assert guided.receipt.rows == 2 * plain.receipt.rows
    assert guided.receipt.cache_peak_bytes == 2 * plain.receipt.cache_peak_bytes
    how.pop("plan")
    assert model.footprint(**how, guidance_scale=2.0).cache == 2 * model.footprint(**how).cache
    assert model.footprint(**how, guidance_scale=2.0).cache >= guided.receipt.cache_peak_bytes


def test_a_text_as_negative_prompt_serves_all(model):
    two = model.generate(["I have", "It was"], negative_prompt="Fellow", guidance_scale=2.0, max_new_tokens=4)
    one = model.generate("It was", negative_prompt=["Fellow"], guidance_scale=2.0, max_new_tokens=4)
    assert two.texts[1] == one.texts[0]


@pytest.mark.parametrize(("options", "says"), [
    ({"negative_prompt": "I"}, "negative_prompt changes nothing without guidance_scale"),
    ({"guidance_scale": 2.0, "negative_prompt": ["I", "we"]}, "2 negative prompts for 1 prompt"),
    ({"guidance_scale": 2.0, "negative_prompt": ""}, "negative_prompt 1 of 1 is empty"),
    ({"guidance_scale": 2.0, "negative_prompt_ids": [[3] * 510], "max_new_tokens": 20}, "or lower .* or cut it"),
    ({"guidance_scale": 2.0, "negative_prompt_ids": [[9**9]]}, "not in the vocabulary"),
    ({"guidance_scale": 2.0, "plan": "numpy,arena=planned"}, "guidance_scale needs arena=none"),
    ({"guidance_scale": 2.0, "plan": "numpy,hars=reference", "num_beams": 2}, "guidance_scale .* comes between them"),
])  # fmt: skip
def test_what_cannot_be_guided_is_refused(model, options, says):
    with pytest.raises((md.OptionError, md.InputError), match=says):
        model.generate("It was", **options)


def test_an_encoder_decoder_model_is_not_guided():
    with pytest.raises(md.OptionError, match="guidance_scale is for decoder-only models"):
        md.load("tiny-bart").generate("It was", guidance_scale=2.0)
    with pytest.raises(md.OptionError, match="guidance_scale is for decoder-only models"):
        md.load("tiny-bart").check("It was", guidance_scale=2.0)


def test_where_a_negative_prompt_is_no_argument_the_error_says_where_it_is_one(model):
    for call in (model.check, lambda prompt, **how: md.generate_lines(model, [prompt], **how)):
        with pytest.raises(md.OptionError, match="'negative_prompt': only generate, stream and footprint take it"):
            call("It was", guidance_scale=2.0, negative_prompt="A whale")


@pytest.mark.parametrize("search", [{}, {"num_beams": 2}], ids=str)
def test_a_negative_prompt_may_be_as_long_as_a_prompt_and_is_cut_as_it_is(model, search):
    """The last new token is never read, so it needs no position."""
    context = model.config.context
    ids = np.random.default_rng(2).integers(5, 4000, context).tolist()
    how = {"guidance_scale": 1.5, "max_new_tokens": 3, "eos_token_id": None, **search}
    fits = model.generate(input_ids=[[9]], negative_prompt_ids=[ids[2:]], **how)
    cut = model.generate(input_ids=[[9]], negative_prompt_ids=[ids], truncate=True, **how)
    assert [len(new) for new in fits.token_ids] == [3]
    assert fits.token_ids[0].tolist() == cut.token_ids[0].tolist() and fits.scores == cut.scores
    with pytest.raises(md.InputError, match=f"negative prompt 1 has {context - 1} tokens, and 3 new ones go beyond"):
        model.generate(input_ids=[[9]], negative_prompt_ids=[ids[1:]], **how)
