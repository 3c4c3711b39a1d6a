"""generation_config.json: what it may ask for, what is refused, and what goes before it."""

import json

import pytest
from toy_folder import write_bart_folder

import minidecode as md
from minidecode.models import FAMILIES
from minidecode.options.options import Options

IDS = [[5, 6, 7]]


def with_defaults(folder, **settings):
    (folder / "generation_config.json").write_text(json.dumps(settings), encoding="utf-8")
    return md.load(folder)


@pytest.mark.parametrize(
    ("name", "value"),
    [("penalty_alpha", 0.6), ("watermarking_config", {"bias": 2.5}), ("constraints", ["x"]),
     ("a_setting_of_next_year", True)],
)  # fmt: skip
def test_what_would_change_the_tokens_is_refused(tiny_folder, name, value):
    """Never ignored in silence: the tokens would differ from those that the folder's maker meant."""
    model = with_defaults(tiny_folder(), **{name: value})
    with pytest.raises(md.OptionError, match=name):
        model.generate(input_ids=IDS)


@pytest.mark.parametrize(("name", "value"), [
    ("typical_p", 0.2), ("top_h", 0.05), ("eta_cutoff", 0.5), ("epsilon_cutoff", 0.5), ("sequence_bias", [[[3], 90.0]]),
    ("exponential_decay_length_penalty", [1, 3.0]), ("guidance_scale", 1.5), ("remove_invalid_values", True),
])  # fmt: skip
def test_the_models_own_wishes_are_followed(tiny_folder, name, value):
    """As if the call had said them; filters when sampling alone."""
    model, plain = with_defaults(tiny_folder(), **{name: value}), md.load(tiny_folder())
    sampling = {"do_sample": True} if name.endswith(("_p", "_h", "_cutoff")) else {}
    assert model.generate(input_ids=IDS, max_new_tokens=4).receipt.search.keys() >= (set() if sampling else {name})
    by_file = model.generate(input_ids=IDS, max_new_tokens=4, **sampling)
    by_call = plain.generate(input_ids=IDS, max_new_tokens=4, **sampling, **{name: value})
    assert name in by_file.receipt.search
    assert [ids.tolist() for ids in by_file.token_ids] == [ids.tolist() for ids in by_call.token_ids]


def test_a_refused_setting_names_file_setting_and_remedy(tiny_folder):
    folder = tiny_folder()
    with pytest.raises(md.OptionError) as caught:
        with_defaults(folder, penalty_alpha=0.6).options()
    message = str(caught.value)
    assert f"{folder / 'generation_config.json'} asks for penalty_alpha=0.6" in message
    assert "delete it there" in message and "--ignore-generation-config (generation_config=False)" in message


def test_a_switch_that_is_a_text_is_refused(tiny_folder):
    """transformers takes "false" for true, as Python does of any text but the empty one: surely not what was meant."""
    folder = tiny_folder()
    model = with_defaults(folder, do_sample="false")
    with pytest.raises(md.OptionError) as caught:
        model.options()
    message = str(caught.value)
    assert f"{folder / 'generation_config.json'}: do_sample must be True or False, not 'false'" in message
    assert "change that option, or ignore the defaults with --ignore-generation-config" in message
    assert model.options(do_sample=False).do_sample is False


def test_generation_config_may_be_left_out_or_replaced(tiny_folder, tmp_path):
    """The ids of special tokens stay: without them no text would end."""
    folder = tiny_folder()
    (folder / "generation_config.json").write_text(
        json.dumps({"penalty_alpha": 0.6, "num_beams": 3, "eos_token_id": 7})
    )
    without = md.load(folder, generation_config=False).options()
    assert (without.num_beams, without.eos_token_id) == (1, (7,))
    given = md.load(folder, generation_config={"num_beams": 2}).options()
    assert (given.num_beams, given.eos_token_id) == (2, (7,))
    path = tmp_path / "mine.json"
    path.write_text(json.dumps({"num_beams": 4, "eos_token_id": 8, "penalty_alpha": 0.5}))
    with pytest.raises(md.OptionError, match=f"{path} asks for penalty_alpha=0.5"):
        md.load(folder, generation_config=path).options()
    path.write_text(json.dumps({"num_beams": 4, "eos_token_id": 8}))
    assert md.load(folder, generation_config=str(path)).options().eos_token_id == (8,)
    assert md.load(folder, generation_config=path).options(num_beams=1).num_beams == 1
    for wrong in (True, 3, ["num_beams"]):
        with pytest.raises(md.OptionError, match="generation_config must be a dict, a path, False or None"):
            md.load(folder, generation_config=wrong)
    with pytest.raises(md.OptionError, match=r"generation_config: there is no file .*missing.json"):
        md.load(folder, generation_config=tmp_path / "missing.json")


def test_bart_starts_its_targets_without_generation_config(tmp_path):
    folder = write_bart_folder(tmp_path / "bart")
    (folder / "generation_config.json").write_text(json.dumps({"decoder_start_token_id": 2, "penalty_alpha": 0.6}))
    assert md.load(folder, generation_config=False).generate(input_ids=IDS, max_new_tokens=2).token_ids


MINIMA = [({"min_length": 9}, {"max_new_tokens": 4}), ({"min_length": 9}, {"max_length": 6}),
          ({"min_new_tokens": 5}, {"max_new_tokens": 4}), ({"min_new_tokens": 5}, {"max_length": 6}),
          ({"min_new_tokens": 9}, {"max_len_b": 3})]  # fmt: skip


@pytest.mark.parametrize(("least", "most"), MINIMA)
@pytest.mark.parametrize("num_beams", [1, 2])
def test_a_limit_of_the_call_below_the_least_length_of_the_file_is_warned_of(tiny_folder, least, most, num_beams):
    """As in transformers: facebook/bart-large-cnn has min_length 56, and a call may want 20 tokens."""
    model = with_defaults(tiny_folder(), **least, max_length=14)
    with pytest.warns(md.MinidecodeWarning, match=f"{next(iter(least))}=. of the model's defaults is out of reach"):
        out = model.generate(input_ids=IDS, num_beams=num_beams, eos_token_id=list(range(100)), **most)
    new = {"max_length": 3, "max_new_tokens": 4, "max_len_b": 4}[next(iter(most))]
    assert len(out.token_ids[0]) == new, "no text ends before the limit"
    with pytest.raises(md.OptionError, match="is above"):
        model.generate(input_ids=IDS, num_beams=num_beams, **least, **most)


def test_a_file_that_contradicts_itself_is_refused(tiny_folder):
    with pytest.raises(md.OptionError, match="min_length 9 is above max_length 6"):
        with_defaults(tiny_folder(), min_length=9, max_length=6).generate(input_ids=IDS)


def test_what_changes_nothing_is_let_be(tiny_folder):
    neutral = {"transformers_version": "5.0.0", "temperature": 0.7, "top_k": 50, "use_cache": True, "do_sample": False,
               "repetition_penalty": 1.0, "bad_words_ids": None, "pad_token_id": 10**6, "bos_token_id": 3}  # fmt: skip
    assert with_defaults(tiny_folder(), **neutral).generate(input_ids=IDS, max_new_tokens=2).token_ids


def test_config_json_speaks_only_where_there_is_no_generation_config(tiny_folder):
    """As in transformers: old folders keep the settings of generation in config.json, and only they do."""
    folder = tiny_folder(num_beams=3, eos_token_id=9)
    assert md.load(folder).options().num_beams == 3
    assert md.load(folder).options().eos_token_id == (9,)
    newer = with_defaults(folder, no_repeat_ngram_size=2).options()
    assert (newer.num_beams, newer.eos_token_id, newer.no_repeat_ngram_size) == (1, (), 2)


def test_the_names_that_transformers_takes_for_a_field(tiny_folder):
    """n_head under the name num_attention_heads: with the default of 12 the answers would be wrong, in silence."""
    folder = tiny_folder()
    expected = md.load(folder).logits(IDS)[0]
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    config["num_attention_heads"] = config.pop("n_head")
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    assert (md.load(folder).logits(IDS)[0] == expected).all()
    config["n_head"] = config["num_attention_heads"] + 1
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(md.CheckpointError, match="n_head twice"):
        md.load(folder)


def test_truncation_and_padding_stored_in_a_tokenizer_do_not_touch_prompts(tiny_folder):
    folder = tiny_folder()
    expected = md.load(folder).tokenizer.encode("a longer text than three")
    path = folder / "tokenizer.json"
    stored = json.loads(path.read_text(encoding="utf-8"))
    stored["truncation"] = {"direction": "Right", "max_length": 3, "strategy": "LongestFirst", "stride": 0}
    stored["padding"] = {"strategy": {"Fixed": 40}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0,
                         "pad_type_id": 0, "pad_token": "a"}  # fmt: skip
    path.write_text(json.dumps(stored), encoding="utf-8")
    assert md.load(folder).tokenizer.encode("a longer text than three").tolist() == expected.tolist()


def test_min_new_tokens_goes_before_min_length(tiny_folder):
    model = with_defaults(tiny_folder(), min_length=12)
    assert model.options().min_length == 12
    assert model.options(min_new_tokens=1).min_length == 0
    both = model.options(min_new_tokens=0, min_length=12)
    always_eos = model.generate(
        input_ids=IDS, max_new_tokens=5, min_new_tokens=0, min_length=12, eos_token_id=list(range(260))
    )
    assert both.min_new_tokens == 0 and len(always_eos.token_ids[0]) == 1


def test_the_default_length(tiny_folder):
    """64 tokens, or what the context still holds, which is 1 more than its positions."""
    model = md.load(tiny_folder(n_positions=100))
    assert len(model.generate(input_ids=IDS, eos_token_id=None).token_ids[0]) == 64
    assert len(model.generate(input_ids=[list(range(90))], eos_token_id=None).token_ids[0]) == 11


def test_truncate_leaves_alone_what_fits(tiny_folder):
    model = md.load(tiny_folder(n_positions=24))
    ids = [list(range(3, 18))]
    assert model.generate(input_ids=ids, max_length=20, truncate=True, eos_token_id=None).receipt.prompt_tokens == 15


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("num_beams", [1, 2])
def test_infinite_weights_are_told_and_named(tiny_folder, num_beams):
    model = md.load(tiny_folder())
    model.tensors["wte.weight"] = model.tensors["wte.weight"].copy()
    model.tensors["wte.weight"][7, 0] = float("inf")
    broken = md.Model(FAMILIES["gpt2"], model.config, model.tensors, None, {}, model.plan)
    with pytest.raises(md.NumericalError, match=r"step 1, sentence 1: .*infinity, first in wte.weight"):
        broken.generate(input_ids=IDS, num_beams=num_beams)


@pytest.mark.parametrize("num_beams", [1, 3])
def test_a_search_that_may_say_nothing_more_says_so(tiny_folder, num_beams):
    model = md.load(tiny_folder(n_positions=300))
    seen = [list(range(258))]
    with pytest.raises(md.OptionError, match="no token is left for sentence 1 at step 3"):
        model.generate(input_ids=seen, no_repeat_ngram_size=1, max_new_tokens=8, eos_token_id=None, num_beams=num_beams)


def test_places_that_no_text_fills(tiny_folder):
    """One token, and it is forced: a beam of three finds one text and stops."""
    model = md.load(tiny_folder())
    out = model.generate(input_ids=IDS, forced_eos_token_id=7, max_new_tokens=1, num_beams=3, num_return_sequences=3)
    assert [t.tolist() for t in out.token_ids] == [[7], [], []]
    assert out.scores.tolist() == [0.0, float("-inf"), float("-inf")]
    assert out.receipt.steps == 1
    out = model.generate(
        input_ids=[[5]], forced_bos_token_id=3, forced_eos_token_id=7, max_new_tokens=2, num_beams=3,
        num_return_sequences=3, early_stopping="never", length_penalty=2.0,
    )  # fmt: skip
    assert [t.tolist() for t in out.token_ids] == [[3, 7], [], []]
    assert out.scores.tolist() == [0.0, float("-inf"), float("-inf")]
    assert out.receipt.steps == 2


@pytest.mark.parametrize(
    "lengths",
    [{"min_length": 9, "max_new_tokens": 4}, {"min_new_tokens": 5, "max_length": 6},
     {"min_new_tokens": 9, "max_len_b": 4}, {"min_length": 9, "max_new_tokens": 4, "max_length": 5}],
)  # fmt: skip
@pytest.mark.parametrize("num_beams", [1, 2])
def test_a_least_length_above_the_most_is_refused_in_any_spelling(tiny_folder, lengths, num_beams):
    """Three tokens of prompt: counted with them or without."""
    with pytest.raises(md.OptionError, match=r"min_(length|new_tokens)[ =]\d is above"):
        md.load(tiny_folder()).generate(input_ids=IDS, num_beams=num_beams, **lengths)
    room = {"max_length": 9} if "max_length" in lengths and "max_new_tokens" not in lengths else {"max_new_tokens": 9}
    least = {name: value for name, value in lengths.items() if name.startswith("min")}
    assert md.load(tiny_folder()).generate(input_ids=IDS, num_beams=num_beams, **least, **room).token_ids


def test_notes_of_transformers_to_itself_are_passed_over(tiny_folder):
    """save_pretrained writes _from_model_config: true for every model that was made from a config."""
    assert with_defaults(tiny_folder(), _from_model_config=True).generate(input_ids=IDS, max_new_tokens=2).token_ids


def test_the_first_bart_configs_ask_for_bos_in_another_way(tmp_path):
    folder = write_bart_folder(tmp_path / "old", force_bos_token_to_be_generated=True, bos_token_id=4)
    assert md.load(folder).options().forced_bos_token_id == (4,)
    assert md.load(folder).generate(input_ids=IDS, max_new_tokens=3).token_ids[0][0] == 4


# --- tokens that the model cannot say ---


@pytest.mark.parametrize(
    ("settings", "same"),
    [({"eos_token_id": 50256}, {"eos_token_id": None}), ({"eos_token_id": [3, 50256]}, {"eos_token_id": [3]}),
     ({"suppress_tokens": [7, 50256]}, {"suppress_tokens": [7]}), ({"eos_token_id": -1}, {"eos_token_id": None})],
)  # fmt: skip
def test_a_default_beyond_the_vocabulary_is_ignored_with_one_warning(tiny_folder, settings, same):
    """As transformers does, which only compares with it; 50256 is GPT-2's own end of text."""
    folder, (name, ids) = tiny_folder(), *settings.items()
    with pytest.warns(md.MinidecodeWarning) as caught:
        model = with_defaults(folder, **settings)
    beyond = ids if isinstance(ids, int) else 50256
    assert [str(warning.message) for warning in caught] == [
        f"{folder / 'generation_config.json'}: {name} {beyond} is not in the vocabulary of 260 tokens, so it is "
        "ignored: set it to the model's own"
    ]
    wanted = with_defaults(tiny_folder(), **same)
    for options in ({}, {"num_beams": 3}):
        found, expected = (m.generate(input_ids=IDS, max_new_tokens=9, **options) for m in (model, wanted))
        assert found.token_ids[0].tolist() == expected.token_ids[0].tolist()


def test_a_default_beyond_the_vocabulary_in_config_json_is_named_there(tiny_folder):
    folder = tiny_folder()
    fields = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(fields | {"eos_token_id": 50256}))
    with pytest.warns(md.MinidecodeWarning, match=r"config.json: eos_token_id 50256 is not in the vocabulary"):
        md.load(folder).generate(input_ids=IDS, max_new_tokens=2)


def test_a_token_beyond_the_vocabulary_that_the_call_asks_for_is_an_error(tiny_folder):
    with pytest.raises(md.OptionError, match="eos_token_id 50256 is not in the vocabulary of 260 tokens"):
        md.load(tiny_folder()).generate(input_ids=IDS, eos_token_id=50256)


@pytest.mark.parametrize("name", ["eos_token_id", "suppress_tokens"])
def test_a_default_token_that_is_none_is_the_files_fault(tiny_folder, name):
    """It was reported as if the caller had given it."""
    folder = tiny_folder()
    model = with_defaults(folder, **{name: 1.5})
    says = rf"{name} must be token ids from 0 up, not 1\.5; change that"
    with pytest.raises(md.OptionError, match=f"with the defaults of .*: {says}"):
        model.generate("the", max_new_tokens=1)
    with pytest.raises(md.OptionError, match=r"^eos_token_id must be token ids from 0 up, not 2\.5"):
        with_defaults(folder).generate("the", eos_token_id=2.5)


@pytest.mark.parametrize(
    "smaller", [lambda o: o.for_head(5), lambda o: o.for_vocabulary(3)], ids=["head", "vocabulary"]
)
def test_options_for_a_smaller_head_or_vocabulary_know_a_default_minimum(smaller):
    """Where the call gives a maximum alone, a minimum of the file's is warned of: it is no error of the caller's."""
    options = Options(dialect="fairseq", num_beams=4, eos_token_id=(2,))
    object.__setattr__(options, "has_default_minimum", True)
    changed = smaller(options)
    assert changed is not options and changed.has_default_minimum
