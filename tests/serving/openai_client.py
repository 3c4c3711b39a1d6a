"""OpenAI's own package before a server: `python openai_client.py ADDRESS WANTED`, in an environment of its own.

WANTED is a JSON file of what the server must say. Ends with an AssertionError where it says something else.
"""

import asyncio
import json
import sys
import time
from pathlib import Path

import openai
from client_cases import CHAT, GREEDY, KEY, LONG, MODEL, PROMPT, state_of


def completions(client, want):
    whole = client.completions.create(**GREEDY, logprobs=2)
    noted = whole.choices[0].logprobs
    assert whole.choices[0].text == want["greedy"] and whole.choices[0].finish_reason == "length"
    assert len(noted.token_logprobs) == 12 and noted.token_logprobs == [max(top.values()) for top in noted.top_logprobs]
    assert "".join(noted.tokens) == whole.choices[0].text and whole.usage.completion_tokens == 12
    sampled = client.completions.create(**GREEDY | {"temperature": 1, "seed": 3, "n": 3, "prompt": [PROMPT, "The war"]})
    assert [choice.text for choice in sampled.choices] == want["sampled"]
    assert client.completions.create(**GREEDY, stop=["the", "."]).choices[0].text == want["stopped"]
    assert client.completions.create(**GREEDY, logit_bias={"50": 100}).choices[0].text == want["biased"]
    by_ids = client.completions.create(**GREEDY | {"prompt": want["ids"], "max_tokens": 1}, echo=True, logprobs=1)
    assert by_ids.choices[0].text.startswith(PROMPT) and by_ids.choices[0].logprobs.token_logprobs[0] is None
    beams = client.completions.create(**GREEDY, n=2, extra_body={"num_beams": 4, "no_repeat_ngram_size": 2})
    assert [choice.text for choice in beams.choices] == want["beams"]


def streams(client, want):
    asked = GREEDY | {"stream": True, "logprobs": 1, "stream_options": {"include_usage": True}}
    *chunks, last = client.completions.create(**asked)
    assert "".join(chunk.choices[0].text for chunk in chunks) == want["greedy"] and not last.choices
    assert [chunk.choices[0].finish_reason for chunk in chunks] == [None] * (len(chunks) - 1) + ["length"]
    assert last.usage.completion_tokens == 12 and all(chunk.usage is None for chunk in chunks)
    two = GREEDY | {"temperature": 1, "seed": 3, "n": 3, "prompt": [PROMPT, "The war"], "stream": True}
    texts = [""] * 6
    for chunk in client.completions.create(**two):
        texts[chunk.choices[0].index] += chunk.choices[0].text
    assert texts == want["sampled"]
    with client.chat.completions.stream(**CHAT, logprobs=True, top_logprobs=2) as stream:
        said = "".join(event.delta for event in stream if event.type == "content.delta")
        assert said == want["chat"] == stream.current_completion_snapshot.choices[0].message.content


def chat(client, want):
    answer = client.chat.completions.create(**CHAT, logprobs=True, top_logprobs=2)
    assert answer.choices[0].message.content == want["chat"] and answer.usage.completion_tokens == 12
    assert all(len(token.top_logprobs) == 2 for token in answer.choices[0].logprobs.content)
    schema = {"type": "object", "properties": {"age": {"enum": [1, 22]}}, "required": ["age"],
              "additionalProperties": False}  # fmt: skip
    shaped = {"type": "json_schema", "json_schema": {"name": "age", "schema": schema}}
    answer = client.chat.completions.create(**CHAT | {"max_completion_tokens": 60}, response_format=shaped)
    assert json.loads(answer.choices[0].message.content)["age"] in (1, 22)


def errors(client):
    def refused(kind, field, ask, **given):
        try:
            ask(**given)
        except kind as error:
            assert error.param == field and error.body["message"], error
        else:
            raise AssertionError(f"{given} was answered")

    ask, talk = client.completions.create, client.chat.completions.create
    refused(openai.BadRequestError, "max_tokens", ask, **GREEDY | {"max_tokens": -1})
    refused(openai.BadRequestError, "prompt", ask, **GREEDY | {"prompt": "word " * 5000})
    long_talk = [{"role": "user", "content": "word " * 5000}]
    refused(openai.BadRequestError, "messages", talk, **CHAT | {"messages": long_talk})
    refused(openai.BadRequestError, "tools", talk, **CHAT, tools=[{"type": "function", "function": {"name": "f"}}])
    refused(openai.NotFoundError, "model", ask, **GREEDY | {"model": "other"})
    refused(openai.NotFoundError, None, client.embeddings.create, model=MODEL, input="a")
    refused(openai.APIStatusError, None, ask, **GREEDY | {"prompt": "a" * 10_000_000})
    refused(openai.AuthenticationError, None, openai.OpenAI(base_url=client.base_url, api_key="wrong").models.list)


def models(client):
    assert [model.id for model in client.models.list()] == [MODEL] == [client.models.retrieve(MODEL).id]


def leaves(client, address):
    """A time limit of the client's, and a stream that it closes: both free their rows."""
    try:
        client.with_options(timeout=0.3).completions.create(**LONG)
    except openai.APITimeoutError:
        pass
    else:
        raise AssertionError("400 tokens took less than 0.3 seconds")
    with client.completions.create(**LONG, stream=True) as stream:
        for _ in range(3):
            next(stream)
    ends = time.monotonic() + 20
    while (state := state_of(address))["running"] or state["answered"].get("cancelled", 0) < 2:
        assert time.monotonic() < ends, state
        time.sleep(0.05)


async def many(address, want):
    """Many at once, and each gets its own answer."""
    client = openai.AsyncOpenAI(base_url=f"{address}/v1", api_key=KEY, max_retries=0)
    asked = [GREEDY | {"max_tokens": tokens} for tokens in (1, 12, 5, 12, 3, 12, 9, 2)]
    answers = await asyncio.gather(*(client.completions.create(**body) for body in asked))
    for body, answer in zip(asked, answers, strict=True):
        assert answer.choices[0].text == want["by_length"][body["max_tokens"] - 1]


def main():
    address, want = sys.argv[1], json.loads(Path(sys.argv[2]).read_text(encoding="utf-8"))
    client = openai.OpenAI(base_url=f"{address}/v1", api_key=KEY, max_retries=0)
    completions(client, want)
    streams(client, want)
    chat(client, want)
    errors(client)
    models(client)
    leaves(client, address)
    asyncio.run(many(address, want))


if __name__ == "__main__":
    main()
