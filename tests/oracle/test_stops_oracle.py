"""Stop strings against transformers', greedy and in beams; of prompts whose ends begin none, where it finds one too."""

import pytest

import minidecode as md

pytestmark = pytest.mark.oracle
torch = pytest.importorskip("torch", reason="needs transformers itself: pip install '.[oracle]'")
transformers = pytest.importorskip("transformers", reason="needs transformers itself: pip install '.[oracle]'")

PROMPTS = ["Fellow citizens,", "I have", "It was the", "A whale"]
SEARCHES = [{}, {"num_beams": 3}, {"num_beams": 4, "num_return_sequences": 3}, {"num_beams": 3, "early_stopping": True}]


@pytest.fixture(scope="module")
def both():
    folder = str(md.bundled_models()["tiny-gpt2"])
    theirs = transformers.AutoModelForCausalLM.from_pretrained(folder).double().eval()
    return md.load("tiny-gpt2", dtype="float64"), theirs, transformers.AutoTokenizer.from_pretrained(folder)


@pytest.mark.parametrize("search", SEARCHES, ids=str)
@pytest.mark.parametrize("stops", [["the"], ["s ", " of the"], [","], ["ing", "e"]], ids=str)
def test_texts_end_where_those_of_transformers_end(both, stops, search):
    ours, theirs, tokenizer = both
    for prompt in PROMPTS:
        inputs = tokenizer(prompt, return_tensors="pt")
        with torch.no_grad():
            found = theirs.generate(
                **inputs, max_new_tokens=12, stop_strings=stops, tokenizer=tokenizer, do_sample=False, pad_token_id=0,
                **search,
            )  # fmt: skip
        expected = [ids[inputs.input_ids.shape[1] :].tolist() for ids in found]
        out = ours.generate(prompt, max_new_tokens=12, stop_strings=stops, **search)
        for ids, theirs_padded in zip(out.token_ids, expected, strict=True):
            assert ids.tolist() + [0] * (len(theirs_padded) - len(ids)) == theirs_padded
