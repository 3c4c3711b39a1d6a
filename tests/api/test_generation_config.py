"""generation_config= of one call, and arguments of transformers that say what is returned."""

import json

import pytest

import minidecode as md

PROMPT = "Fellow citizens,"


@pytest.fixture(scope="module")
def model():
    return md.load("tiny-gpt2")


def ids(output):
    return [ids.tolist() for ids in output.token_ids]


def test_the_config_of_a_call_takes_the_place_of_the_models(model, tmp_path):
    settings = {"max_new_tokens": 3, "num_beams": 2}
    path = tmp_path / "settings.json"
    path.write_text(json.dumps(settings), encoding="utf-8")
    expected = ids(model.generate(PROMPT, **settings))
    for config in (settings, path, str(path)):
        assert ids(model.generate(PROMPT, generation_config=config)) == expected
    longer = model.generate(PROMPT, generation_config=settings, max_new_tokens=5)  # the call goes before it
    assert len(longer.token_ids[0]) == 5 and model.options().num_beams == 1  # and the next call has the model's again


def test_the_config_of_a_call_keeps_the_special_tokens(model):
    for config in ({}, False):
        assert model.options(generation_config=config).eos_token_id == model.options().eos_token_id != ()


def test_an_error_names_the_config_of_the_call(model):
    with pytest.raises(md.OptionError, match="with the defaults of generation_config: num_beams"):
        model.generate(PROMPT, generation_config={"num_beams": 0})
    with pytest.raises(md.OptionError, match="generation_config must be a dict, a path"):
        model.generate(PROMPT, generation_config=3)


def test_what_is_returned_is_always_an_output(model):
    off = {"return_dict_in_generate": False, "output_scores": False}
    expected = ids(model.generate(PROMPT, max_new_tokens=3))
    assert ids(model.generate(PROMPT, max_new_tokens=3, **off)) == expected
    for name, instead in (("return_dict_in_generate", "token_ids"), ("output_scores", "keep=")):
        with pytest.raises(md.OptionError, match=f"{name}=True.*{instead}"):
            model.generate(PROMPT, **{name: True})
