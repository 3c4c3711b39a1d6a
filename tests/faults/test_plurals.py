"""A count of one has no plural."""

import re

import pytest

import minidecode as md
from minidecode.errors import counted

ONE_OF_MANY = re.compile(
    r"(?<![\d.,-])1 (\w+ )?(texts|lines|prompts|tokens|steps|rows|batches|beams|sources|targets)\b"
)


@pytest.mark.parametrize(("number", "thing", "says"), [
    (0, "line", "0 lines"), (1, "line", "1 line"), (2, "line", "2 lines"), (1000, "new token", "1,000 new tokens"),
    (1, "batch", "1 batch"), (2, "batch", "2 batches"),
])  # fmt: skip
def test_counts_in_words(number, thing, says):
    assert counted(number, thing) == says


def test_one_text_of_one_token():
    model = md.load("tiny-gpt2")
    out = model.generate(input_ids=[[5]], max_new_tokens=1)
    assert "\n1 prompt token, 1 new token, 1 step (0 rows); " in str(out.receipt)
    run = md.generate_lines(model, ["a"], max_new_tokens=1)
    assert len(list(run)) == 1 and str(run.receipt).startswith("1 line in 1 batch ")
    for refused in (
        lambda: model.generate("a", prefix_tokens=[[1], [2]]), lambda: model.generate("a", sample_ids=[1, 2]),
        lambda: model.generate("a", negative_prompt=["b", "c"], guidance_scale=2.0),
        lambda: model.generate(input_ids=[[5]], attention_mask=[[1], [1]]),
    ):  # fmt: skip
        with pytest.raises(md.MinidecodeError) as error:
            refused()
        assert not ONE_OF_MANY.search(str(error.value)) and "are 1 " not in str(error.value), error.value


@pytest.mark.parametrize(
    "arguments", [["generate", "a", "--receipt"], ["score", "the war"], ["trace", "a", "--num-beams", 1]]
)
def test_commands_with_one_text(cli, arguments):
    limit = [] if arguments[0] == "score" else ["--max-new-tokens", 1]
    ran = cli(*arguments, *limit)
    assert ran.code == 0 and not ONE_OF_MANY.search(ran.out + ran.err), ran
