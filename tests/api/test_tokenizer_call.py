"""A model's tokenizer is called as those of transformers are."""

import pytest

import minidecode as md


def test_generate_takes_what_the_tokenizer_returns():
    model = md.load("tiny-gpt2")
    texts = ["Fellow citizens,", "I"]
    for text in (texts[0], texts):
        encoded = model.tokenizer(text)
        expected = model.generate(text, max_new_tokens=3).token_ids
        got = (
            model.generate(**encoded, max_new_tokens=3) if text is texts else model.generate(encoded, max_new_tokens=3)
        )
        assert [ids.tolist() for ids in got.token_ids] == [ids.tolist() for ids in expected]
    assert model.tokenizer("I")["attention_mask"] == [1] * len(model.tokenizer.encode("I"))
    with pytest.raises(md.InputError, match="a text or a list of texts, not 3"):
        model.tokenizer(3)


def test_its_repr_names_its_size():
    tokenizer = md.load("tiny-gpt2").tokenizer
    assert repr(tokenizer) == f"Tokenizer({tokenizer._backend.get_vocab_size():,} tokens, special ids [0])"
