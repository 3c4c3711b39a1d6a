"""Generation options that contradict each other, break a rule, or mean nothing: refused, and the rule is named."""

import json

import numpy as np
import pytest
from toy import told

import minidecode as md
from minidecode.options.dialects import DIALECTS
from minidecode.options.options import Options, refuse_unsupported, resolve

every_dialect = pytest.mark.parametrize("dialect", DIALECTS)

BROKEN = [  # options, what the message must say: the option at fault, and the rule
    # ---- values that are none
    ({"dialect": "hf3"}, "dialect must be hf, hf4, fairseq, unilm, ctranslate2, lightseq, not 'hf3'"),
    ({"num_beams": 0}, "num_beams must be an integer from 1 up"),
    ({"num_beams": 2.0}, "num_beams must be an integer"),
    ({"num_beams": "2"}, "num_beams must be an integer"),
    ({"num_beam_groups": 0}, "num_beam_groups must be an integer from 1 up"),
    ({"num_return_sequences": 0}, "num_return_sequences must be an integer from 1 up"),
    ({"max_new_tokens": 0}, "max_new_tokens must be an integer from 1 up"),
    ({"max_length": 0}, "max_length must be an integer from 1 up"),
    ({"max_len_b": -1}, "max_len_b must be an integer from 0 up"),
    ({"max_len_a": -0.1, "max_len_b": 1}, "max_len_a must be a number from 0 to 1e6"),
    ({"min_new_tokens": -1}, "min_new_tokens must be an integer from 0 up"),
    ({"min_length": -1}, "min_length must be an integer from 0 up"),
    ({"no_repeat_ngram_size": -1}, "no_repeat_ngram_size must be an integer from 0 up"),
    ({"do_sample": True, "seed": -1}, "seed must be an integer from 0 up"),
    ({"do_sample": True, "seed": 2**64}, "seed must be below 2\\*\\*64"),
    ({"do_sample": True, "seed": 1.0}, "seed must be an integer"),
    ({"length_penalty": 11}, "length_penalty must be a number from -10 to 10"),
    ({"length_penalty": float("nan")}, "length_penalty must be a number"),
    ({"length_normalization": "wu"}, "length_normalization must be 'power' or 'gnmt'"),
    ({"early_stopping": "always"}, "early_stopping must be True, False or 'never'"),
    ({"early_stopping": 1}, "early_stopping must be True, False or 'never'"),
    ({"do_sample": 1}, "do_sample must be True or False"),
    ({"renormalize_logits": None}, "renormalize_logits must be True or False"),
    ({"repetition_penalty": 0.0}, "repetition_penalty must be a number above 0"),
    ({"repetition_penalty": 1e300}, "repetition_penalty must be a number above 0 and at most 1e6, not 1e.300"),
    ({"encoder_repetition_penalty": -1.0}, "encoder_repetition_penalty must be a number above 0"),
    ({"sequence_bias": 3}, "sequence_bias must be {ids: bias} or a list"),
    ({"sequence_bias": [[5, 1.0]]}, "sequence_bias needs one token id or more"),
    ({"sequence_bias": {(): 1.0}}, "sequence_bias needs one token id or more"),
    ({"sequence_bias": {(1,): "much"}}, "sequence_bias must be numbers"),
    ({"sequence_bias": {(1,): float("nan")}}, "sequence_bias must be numbers"),
    ({"sequence_bias": [[[-1], 1.0]]}, "sequence_bias must be token ids from 0 up"),
    ({"exponential_decay_length_penalty": 1.5}, "exponential_decay_length_penalty must be"),
    ({"exponential_decay_length_penalty": (1.5, 2.0)}, "exponential_decay_length_penalty must be"),
    ({"exponential_decay_length_penalty": (1, -2.0)}, "exponential_decay_length_penalty must be"),
    ({"exponential_decay_length_penalty": (1, float("nan"))}, "exponential_decay_length_penalty must be"),
    ({"guidance_scale": float("inf")}, "guidance_scale must be a number between"),
    ({"guidance_scale": 2.0, "num_beams": 4, "num_beam_groups": 2, "diversity_penalty": 1.0}, "do not go together"),
    ({"do_sample": True, "typical_p": 0.0}, "typical_p must be a number above 0"),
    ({"do_sample": True, "epsilon_cutoff": 1.0}, "epsilon_cutoff must be a number from 0 to below 1"),
    ({"do_sample": True, "eta_cutoff": -0.1}, "eta_cutoff must be a number from 0 to below 1"),
    ({"do_sample": True, "top_h": 1.1}, "top_h must be a number above 0"),
    ({"do_sample": True, "top_h": 0.5, "dialect": "hf4"}, "top_h is no rule of dialect 'hf4'"),
    ({"remove_invalid_values": 1}, "remove_invalid_values must be True or False"),
    ({"dialect": "fairseq", "guidance_scale": 1.5}, "guidance_scale is no rule"),
    ({"diversity_penalty": -0.5}, "diversity_penalty must be a number from 0 to 1e6"),
    ({"sibling_penalty": -0.5}, "sibling_penalty must be a number from 0 to 1e6"),
    ({"unk_penalty": float("inf"), "unk_token_id": 3}, "unk_penalty must be a number"),
    ({"eos_token_id": -1}, "eos_token_id must be token ids from 0 up, not -1"),
    ({"eos_token_id": [2, 1.5]}, "eos_token_id must be token ids from 0 up, not 1.5"),
    ({"eos_token_id": True}, "eos_token_id must be token ids"),
    ({"suppress_tokens": "12"}, "suppress_tokens must be token ids"),
    ({"pad_token_id": -2}, "pad_token_id must be an integer from 0 up"),
    ({"bad_words_ids": [[]]}, "bad_words_ids must be lists of token ids, none of them empty"),
    ({"bad_words_ids": [3, 4]}, "bad_words_ids must be lists of token ids"),
    ({"bad_words_ids": "ab"}, "bad_words_ids must be lists of token ids"),
    ({"bad_words_ids": [[1, -1]]}, "bad_words_ids must be token ids from 0 up, not -1"),
    ({"prefix_allowed_tokens_fn": [1, 2]}, "must be a function, not"),
    ({"logits_processor": ["top_k"]}, "must be functions"),
    # ---- sampling
    ({"do_sample": True, "temperature": 0.0}, "temperature must be a number from 1e-30 to 1e6"),
    ({"do_sample": True, "temperature": -1.0}, "temperature must be a number from 1e-30 to 1e6"),
    ({"do_sample": True, "temperature": float("inf")}, "temperature must be a number from 1e-30 to 1e6"),
    ({"do_sample": True, "temperature": float("nan")}, "temperature must be a number from 1e-30 to 1e6"),
    ({"do_sample": True, "top_p": 0.0}, "top_p must be a number above 0 and at most 1"),
    ({"do_sample": True, "top_p": 1.01}, "top_p must be a number above 0 and at most 1"),
    ({"do_sample": True, "top_p": -0.1}, "top_p must be a number above 0 and at most 1"),
    ({"do_sample": True, "top_p": float("nan")}, "top_p must be a number above 0 and at most 1"),
    ({"do_sample": True, "top_p": True}, "top_p must be a number"),
    ({"do_sample": True, "top_k": -1}, "top_k must be an integer from 0 up"),
    ({"do_sample": True, "top_k": 2.5}, "top_k must be an integer from 0 up"),
    ({"do_sample": True, "min_p": 1.1}, "min_p must be a number from 0 to 1"),
    ({"do_sample": True, "min_p": -0.1}, "min_p must be a number from 0 to 1"),
    # ---- contradictions
    ({"num_return_sequences": 2}, "num_return_sequences 2 is above num_beams 1"),
    ({"num_return_sequences": 4, "num_beams": 3}, "num_return_sequences 4 is above num_beams 3"),
    ({"num_return_sequences": 4, "num_beams": 3, "do_sample": True}, "num_return_sequences 4 is above num_beams 3"),
    ({"min_new_tokens": 5, "max_new_tokens": 4}, "min_new_tokens 5 is above max_new_tokens 4: lower it"),
    ({"min_length": 9, "max_length": 8}, "min_length 9 is above max_length 8"),
    ({"max_len_b": 5, "max_new_tokens": 5}, "max_len_b and max_new_tokens are two spellings of one limit"),
    ({"max_len_a": 1.0}, "max_len_a needs max_len_b"),
    ({"match_source_len": 1}, "match_source_len must be True or False"),
    ({"match_source_len": True}, "match_source_len is no rule of dialect 'hf': leave it out, or use fairseq"),
    ({"dialect": "fairseq", "match_source_len": True, "max_new_tokens": 5}, "match_source_len and max_new_tokens are"),
    ({"num_beams": 4, "num_beam_groups": 3, "diversity_penalty": 1.0}, "num_beam_groups 3 does not divide num_beams 4"),
    ({"num_beams": 2, "num_beam_groups": 4, "diversity_penalty": 1.0}, "num_beam_groups 4 does not divide num_beams 2"),
    ({"num_beams": 4, "num_beam_groups": 2}, "num_beam_groups 2 and diversity_penalty 0.0 do not go together"),
    ({"num_beams": 4, "diversity_penalty": 1.0}, "num_beam_groups 1 and diversity_penalty 1.0 do not go together"),
    ({"num_beams": 4, "num_beam_groups": 2, "diversity_penalty": 1.0, "do_sample": True}, "choose one"),
    ({"num_beams": 4, "num_beam_groups": 2, "diversity_penalty": 1.0, "sibling_penalty": 1.0}, "choose one"),
    ({"sibling_penalty": 1.0}, "sibling_penalty needs num_beams above 1"),
    ({"num_beams": 2, "sibling_penalty": 1.0, "do_sample": True}, "sibling_penalty needs .* no do_sample"),
    # ---- what the dialect has no rule for
    ({"patience": 2.0}, "patience is no rule of dialect 'hf': leave it out, or use ctranslate2"),
    ({"dialect": "ctranslate2", "do_sample": True}, "ctranslate2 has greedy and beam search alone"),
    ({"dialect": "ctranslate2", "num_beams": 2, "eos_token_id": [2, 3]}, "CTranslate2 may continue a text past its"),
    ({"dialect": "ctranslate2", "num_beams": 4, "num_return_sequences": 3, "patience": 0.5}, "num_beams . patience"),
    ({"dialect": "lightseq", "eos_token_id": [2, 3]}, "dialect lightseq knows one EOS"),
    ({"dialect": "lightseq", "length_penalty": -1.0}, "length_penalty -1 means another rule in dialect lightseq"),
    ({"dialect": "ctranslate2", "forced_eos_token_id": 2}, "forced_eos_token_id is no rule of dialect 'ctranslate2'"),
    ({"dialect": "ctranslate2", "length_normalization": "gnmt"}, "length_normalization is no rule of dialect"),
    ({"unk_penalty": 1.0, "unk_token_id": 3}, "unk_penalty is no rule of dialect 'hf': .* use fairseq"),
    ({"dialect": "hf4", "unk_penalty": 1.0, "unk_token_id": 3}, "unk_penalty is no rule of dialect 'hf4'"),
    ({"dialect": "fairseq", "unk_penalty": 1.0}, "unk_penalty needs unk_token_id"),
    ({"dialect": "fairseq", "repetition_penalty": 1.2}, "repetition_penalty is no rule .* use hf or hf4"),
    ({"dialect": "fairseq", "encoder_repetition_penalty": 1.2}, "encoder_repetition_penalty is no rule"),
    ({"dialect": "fairseq", "encoder_no_repeat_ngram_size": 2}, "encoder_no_repeat_ngram_size is no rule"),
    ({"dialect": "fairseq", "bad_words_ids": [[3]]}, "bad_words_ids is no rule"),
    ({"dialect": "fairseq", "suppress_tokens": [3]}, "suppress_tokens is no rule"),
    ({"dialect": "fairseq", "begin_suppress_tokens": [3]}, "begin_suppress_tokens is no rule"),
    ({"dialect": "fairseq", "renormalize_logits": True}, "renormalize_logits is no rule"),
    ({"dialect": "fairseq", "do_sample": True, "min_p": 0.1}, "min_p is no rule of dialect 'fairseq'"),
    ({"dialect": "fairseq", "prefix_allowed_tokens_fn": lambda b, ids: [1]}, "prefix_allowed_tokens_fn is no rule"),
    ({"dialect": "fairseq", "eos_token_id": [2, 3]}, "fairseq knows one EOS"),
    ({"dialect": "fairseq", "do_sample": True, "top_k": 5, "top_p": 0.5}, "by top_k or by top_p, not by both"),
]  # fmt: skip


@pytest.mark.parametrize(("options", "words"), BROKEN, ids=told)
def test_a_broken_rule_is_named(options, words):
    """By the options themselves; and by a call of generate, whatever the model's defaults are."""
    with pytest.raises(md.OptionError, match=words) as raised:
        Options(**options)
    assert "\n" not in str(raised.value)
    if None not in options.values():  # in a call None means "not given"
        with pytest.raises(md.OptionError, match=words):
            resolve({"min_length": 1, "no_repeat_ngram_size": 3}, options)


@pytest.mark.parametrize(("options", "words"), [
    ({"dialect": ["hf"]}, "dialect must be"), ({"logits_processor": 5}, "must be functions"),
    ({"bad_words_ids": np.array([[1, -2]])}, "bad_words_ids must be"),
    ({"max_length": 5, "max_len_b": 3}, "max_len_b"),
    ({"dialect": "fairseq", "eos_token_id": 2, "max_new_tokens": 1}, "min_new_tokens"),
    ({"dialect": "fairseq", "eos_token_id": 2, "min_new_tokens": 4, "max_new_tokens": 4}, "min_new_tokens"),
    ({"dialect": "fairseq", "eos_token_id": 2, "min_new_tokens": 4, "max_len_b": 3}, "min_new_tokens"),
    ({"dialect": "fairseq", "forced_eos_token_id": 5, "eos_token_id": 2}, "forced_eos_token_id"),
], ids=str)  # fmt: skip
def test_a_rule_of_fairseq_or_of_kinds_is_named(options, words):
    """fairseq's last token is EOS, always."""
    with pytest.raises(md.OptionError, match=words):
        Options(**options)


@every_dialect
@pytest.mark.parametrize(("name", "value"), [
    ("temperature", 0.7), ("top_k", 5), ("top_k", 0), ("top_p", 0.9), ("top_p", 1.0), ("min_p", 0.1),
])  # fmt: skip
def test_sampling_options_without_sampling_are_refused(dialect, name, value):
    """They would change nothing, in silence; fairseq's temperature does change its scores."""
    if (dialect, name) == ("fairseq", "temperature"):
        assert resolve({"dialect": "fairseq"}, {name: value}).temperature == value
        return
    with pytest.raises(md.OptionError, match=f"{name} changes nothing without do_sample=True"):
        resolve({}, {name: value, "dialect": dialect})
    with pytest.raises(md.OptionError, match=f"{name} changes nothing without do_sample=True"):
        resolve({"do_sample": True}, {name: value, "dialect": dialect, "do_sample": False})
    if (dialect, name) != ("fairseq", "min_p") and dialect not in ("unilm", "ctranslate2", "lightseq"):
        assert not resolve({name: value, "dialect": dialect}, {}).do_sample, "as a default of the model it is let be"
        assert getattr(resolve({"do_sample": True}, {name: value, "dialect": dialect}), name) == value


@pytest.mark.parametrize(("name", "instead"), [
    ("penalty_alpha", "sample with top_h or typical_p"), ("constraints", "prefix_tokens says how it begins"),
    ("watermarking_config", "logits_processor"), ("assistant_model", "give the model to generate as draft"),
    ("max_tokens", "did you mean max_new_tokens"), ("stop", "did you mean stop_strings"),
])  # fmt: skip
def test_what_others_have_and_we_have_not_names_what_there_is(name, instead):
    with pytest.raises(md.OptionError, match=rf"generate has no option '{name}': .*{instead}"):
        resolve({}, {name: 0.5})


@pytest.mark.parametrize(("options", "name", "value"), [
    ({"do_sample": True, "top_k": 0}, "top_k", 0),  # off, as in transformers
    ({"do_sample": True}, "top_k", 50),
    ({"do_sample": True, "dialect": "hf4"}, "top_k", 50),
    ({"do_sample": True, "dialect": "fairseq"}, "top_k", None),
    ({"do_sample": True, "dialect": "fairseq", "top_k": 5}, "top_p", 1.0),
    ({"do_sample": True, "top_p": 1}, "top_p", 1.0),
    ({"do_sample": True, "min_p": 0}, "min_p", 0.0),
    ({"do_sample": True, "top_p": np.float32(0.5)}, "top_p", 0.5),
    ({"do_sample": True, "num_return_sequences": 7}, "num_return_sequences", 7),
    ({"do_sample": True, "seed": 2**64 - 1}, "seed", 2**64 - 1),
    ({"num_beams": np.int64(2)}, "num_beams", 2),
    ({"dialect": "fairseq"}, "min_new_tokens", 1),  # fairseq's default min_len
    ({"dialect": "fairseq", "min_new_tokens": 0}, "min_new_tokens", 0),
    ({"dialect": "fairseq", "min_length": 3}, "min_new_tokens", None),
    ({"dialect": "hf"}, "min_new_tokens", None),
    ({"eos_token_id": 2}, "eos_token_id", (2,)),
    ({"eos_token_id": np.array([2, 3])}, "eos_token_id", (2, 3)),
    ({"bad_words_ids": [[1], (2, 3)]}, "bad_words_ids", ((1,), (2, 3))),
    ({"logits_processor": print}, "logits_processor", (print,)),
    ({"num_beams": 4, "num_beam_groups": 4, "diversity_penalty": 0.2}, "num_beam_groups", 4),
    ({"dialect": "fairseq", "eos_token_id": 2, "num_beams": 4, "num_beam_groups": 2, "diversity_penalty": 0.2},
     "num_beam_groups", 2),
    ({"max_len_a": 1.2, "max_len_b": 10}, "max_len_a", 1.2),
    ({"max_len_a": 2.0, "max_len_b": -3}, "max_len_b", -3),
    ({"dialect": "fairseq", "match_source_len": True, "max_len_b": 5}, "match_source_len", True),
], ids=str)  # fmt: skip
def test_what_is_allowed_and_what_it_becomes(options, name, value):
    found = getattr(Options(**options), name)
    assert found == value and isinstance(found, type(value))


def test_numbers_and_truth_values_of_numpy_are_pythons(tiny_folder):
    """They reach the receipt, which is JSON for machines; and a truth value of NumPy's is not `True` itself."""
    model = md.load(tiny_folder())
    numpys = {
        "max_new_tokens": np.int64(3), "num_beams": np.uint8(2), "early_stopping": np.True_, "length_penalty":
        np.float32(0.5), "eos_token_id": np.array([1, 2]), "bad_words_ids": [np.array([3, 4])],
        "num_return_sequences": np.array(2),
    }  # fmt: skip
    given = {"max_new_tokens": 3, "num_beams": 2, "early_stopping": True, "length_penalty": 0.5,
             "eos_token_id": [1, 2], "bad_words_ids": [[3, 4]], "num_return_sequences": 2}  # fmt: skip
    assert model.options(**numpys) == model.options(**given)
    out = model.generate(input_ids=[[5, 6]], memory_budget=np.int64(10**9), **numpys)
    expected = model.generate(input_ids=[[5, 6]], **given)
    assert [a.tolist() for a in out.token_ids] == [a.tolist() for a in expected.token_ids]
    assert json.loads(json.dumps(out.receipt.search)) == json.loads(json.dumps(expected.receipt.search))
    sampled = {"do_sample": np.True_, "seed": np.uint64(7), "max_new_tokens": np.int64(2), "top_k": np.int32(3)}
    assert type(model.options(**sampled).do_sample) is bool
    lines = list(md.generate_lines(model, ["the"], batch_size=np.int64(2), **sampled))
    assert len(lines) == 1
    with pytest.raises(md.OptionError, match="num_beams must be an integer"):
        model.options(num_beams=np.float64(2))
    with pytest.raises(md.OptionError, match="num_beams must be an integer"):
        model.options(num_beams=np.True_)


@pytest.mark.parametrize("name", [
    "eos_token_id", "pad_token_id", "decoder_start_token_id", "unk_token_id", "forced_bos_token_id",
    "forced_eos_token_id", "suppress_tokens", "begin_suppress_tokens", "no_repeat_ngram_exempt_ids",
])  # fmt: skip
def test_a_token_outside_of_the_vocabulary_is_refused(name):
    needed = {"no_repeat_ngram_size": 2} if "ngram" in name else {}
    Options(**{name: 8}, **needed).check_vocabulary(9)
    with pytest.raises(md.OptionError, match=f"{name} 9 is not in the vocabulary of 9 tokens"):
        Options(**{name: 9}, **needed).check_vocabulary(9)


def test_exempt_tokens_need_a_ban():
    with pytest.raises(md.OptionError, match="no_repeat_ngram_exempt_ids needs no_repeat_ngram_size"):
        Options(no_repeat_ngram_exempt_ids=[3])


def test_a_bad_word_outside_of_the_vocabulary_is_refused():
    Options(bad_words_ids=[[1, 8]]).check_vocabulary(9)
    with pytest.raises(md.OptionError, match="bad_words_ids 9 is not in the vocabulary"):
        Options(bad_words_ids=[[1], [9, 2]]).check_vocabulary(9)


@every_dialect
def test_a_vocabulary_without_enough_candidates_is_refused(dialect):
    """num_beams times (EOS ids + 1), and twice at least; one beam needs none.

    fairseq's beams may be wider (tests/golden/test_fairseq_golden.py), if they need no siblings. unilm needs one each.
    ctranslate2 and lightseq have one EOS.
    """
    for options, candidates in [({"eos_token_id": 0}, 6), ({}, 6), ({"eos_token_id": (0, 1, 2)}, 12)]:
        if dialect == "fairseq":
            options, candidates = {"eos_token_id": 0, "sibling_penalty": 0.5}, 6
        if dialect == "unilm":
            options, candidates = {"eos_token_id": 0}, 3
        if dialect in ("ctranslate2", "lightseq"):
            options, candidates = {"eos_token_id": 0}, 6
        o = Options(dialect=dialect, num_beams=3, **options)
        o.check_vocabulary(candidates)
        with pytest.raises(md.OptionError, match=f"needs {candidates} candidates .* has {candidates - 1} tokens"):
            o.check_vocabulary(candidates - 1)
    Options(dialect=dialect, eos_token_id=0).check_vocabulary(1)


def test_generate_refuses_what_the_vocabulary_cannot_give(tiny_folder):
    model = md.load(tiny_folder())
    V = model.config.vocab_size
    for options, words in [
        ({"eos_token_id": V}, "eos_token_id"), ({"suppress_tokens": [1, V]}, "suppress_tokens"),
        ({"num_beams": V // 2 + 1}, "candidates"), ({"bad_words_ids": [[V]]}, "bad_words_ids"),
    ]:  # fmt: skip
        with pytest.raises(md.OptionError, match=words):
            model.generate(input_ids=[[5]], max_new_tokens=2, **options)


def test_padding_is_the_first_eos_where_none_is_given():
    """As in transformers; 0 where there is no EOS either."""
    assert Options(eos_token_id=(5, 6)).padding == 5
    assert Options(eos_token_id=5, pad_token_id=0).padding == 0
    assert Options(pad_token_id=7).padding == 7
    assert Options().padding == 0


def test_ctranslate2_forces_no_token_of_a_models_files():
    forced = {"forced_bos_token_id": 3, "forced_eos_token_id": 2}
    options = resolve(forced, {"dialect": "ctranslate2"})
    assert options.forced_bos_token_id == options.forced_eos_token_id == ()
    assert resolve(forced, {}).forced_bos_token_id == (3,)


@pytest.mark.parametrize("dialect", ["fairseq", "unilm", "ctranslate2", "lightseq"])
def test_some_dialects_have_no_early_stopping_to_set(dialect):
    for value in (True, False, "never"):
        with pytest.raises(md.OptionError, match=f"early_stopping is no rule of dialect '{dialect}', which stops when"):
            resolve({}, {"dialect": dialect, "early_stopping": value})
        assert resolve({"early_stopping": value}, {"dialect": dialect}).dialect == dialect


def test_early_stopping_is_for_beams():
    for value in (True, "never"):
        for beams in ({}, {"num_beams": 1}, {"do_sample": True}):
            with pytest.raises(md.OptionError, match="early_stopping changes nothing with one beam: add num_beams"):
                resolve({}, {"early_stopping": value} | beams)
        assert resolve({"num_beams": 2}, {"early_stopping": value}).early_stopping == value
        assert resolve({"early_stopping": value}, {"num_beams": 1}).num_beams == 1, "a file's is for another day"
    assert resolve({}, {"early_stopping": False}).early_stopping is False, "off is no wish"


def test_a_rule_broken_with_a_default_says_where_it_comes_from():
    with pytest.raises(md.OptionError, match=r"defaults of generation_config\.json: num_beam_groups 2 does not"):
        resolve({"num_beam_groups": 2, "diversity_penalty": 1.0}, {"num_beams": 3})
    with pytest.raises(md.OptionError, match=r"defaults of generation_config\.json: repetition_penalty is no"):
        resolve({"repetition_penalty": 1.2}, {"dialect": "fairseq"})


def test_a_filter_of_the_models_defaults_matters_only_when_sampling():
    defaults = {"typical_p": 0.9, "top_h": 0.4, "eta_cutoff": 0.1, "epsilon_cutoff": 0.1}
    refuse_unsupported(defaults, do_sample=False)
    refuse_unsupported(defaults, do_sample=True)
    assert resolve(defaults, {}).changed() == {}
    assert resolve(defaults, {"do_sample": True}).changed() == defaults | {"do_sample": True, "top_k": 50}


def test_unilm_always_has_the_norm_of_gnmt():
    with pytest.raises(md.OptionError, match="length_normalization is always gnmt in dialect 'unilm'"):
        resolve({}, {"dialect": "unilm", "length_normalization": "power"})
    assert resolve({}, {"dialect": "unilm", "length_normalization": "gnmt"}).dialect == "unilm"
    assert resolve({"length_normalization": "power"}, {"dialect": "unilm"}).dialect == "unilm", "a model's default"
