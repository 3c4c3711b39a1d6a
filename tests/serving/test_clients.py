"""Clients of others before `minidecode serve`: OpenAI's package, `llm`, curl and lm-evaluation-harness.

Each runs in an environment of its own, which has what its line in NEEDED says and nothing of minidecode. They are made
in a folder for tests, or in the one that MINIDECODE_CLIENTS names, where they stay for the next run.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from client_cases import KEY, LONG, MESSAGES, MODEL, PROMPT, state_of
from lm_eval_tasks import ENDINGS, write_tasks
from serving_cases import bound, serving

import minidecode as md

pytestmark = pytest.mark.clients

ROOT = Path(__file__).parents[2]
NEEDED = {"openai": ["openai"], "llm": ["llm"], "lm-eval": ["lm-eval[api]", "transformers"]}
TEMPLATE = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:"
LLM_MODELS = """\
- {{model_id: tiny, model_name: {model}, api_base: "{address}/v1", api_key_name: tiny, completion: true}}
- {{model_id: talks, model_name: {model}, api_base: "{address}/v1", api_key_name: tiny, supports_schema: true}}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """(environment, program) -> its path."""
    folder = Path(os.environ.get("MINIDECODE_CLIENTS") or tmp_path_factory.mktemp("environments"))

    def path(name: str, command: str) -> str:
        found = folder / name / "bin" / command
        if not found.exists():
            subprocess.run([sys.executable, "-m", "venv", folder / name], check=True)
            pip = [folder / name / "bin" / "pip", "install", "--quiet", *NEEDED[name]]
            if (done := subprocess.run(pip, capture_output=True, text=True)).returncode:
                shutil.rmtree(folder / name)
                pytest.skip(f"{' '.join(NEEDED[name])} cannot be installed here: {done.stderr.strip()[-200:]}")
        return str(found)

    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """tiny-gpt2 with a chat template."""
    folder = tmp_path_factory.mktemp("models") / "tiny-gpt2"
    shutil.copytree(ROOT / "weights" / "tiny-gpt2", folder)
    (folder / "chat_template.jinja").write_text(TEMPLATE, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def model(folder):
    return md.load(folder, plan="numpy")


@pytest.fixture(scope="module")
def address(folder):
    with serving("--name", MODEL, "--api-key", KEY, "--max-body", "1000000", model=folder) as (_, address):
        yield address


def run(*command, **environment) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    command = [str(word) for word in command]
    return subprocess.run(command, env=clean | environment, capture_output=True, text=True, timeout=500)


def test_openai(model, address, program, tmp_path):
    greedy = [model.generate(PROMPT, max_new_tokens=n).texts[0] for n in range(1, 13)]
    draws = dict(do_sample=True, top_k=0, seed=3, num_return_sequences=3)
    want = {
        "greedy": greedy[-1], "by_length": greedy, "ids": model.tokenizer.encode(PROMPT).tolist(),
        "sampled": model.generate([PROMPT, "The war"], max_new_tokens=12, **draws).texts,
        "stopped": model.generate(PROMPT, max_new_tokens=12, stop_strings=["the", "."]).texts[0],
        "biased": model.generate(PROMPT, max_new_tokens=12, sequence_bias={(50,): 100.0}).texts[0],
        "beams": model.generate(
            PROMPT, max_new_tokens=12, num_beams=4, num_return_sequences=2, no_repeat_ngram_size=2
        ).texts,
        "chat": model.chat(MESSAGES, max_new_tokens=12).text,
    }  # fmt: skip
    path = tmp_path / "want.json"
    path.write_text(json.dumps(want), encoding="utf-8")
    done = run(program("openai", "python"), Path(__file__).with_name("openai_client.py"), address, path)
    assert done.returncode == 0, done.stderr


def test_llm(model, address, program, tmp_path):
    (tmp_path / "extra-openai-models.yaml").write_text(LLM_MODELS.format(model=MODEL, address=address))

    def said(*arguments, code=0):
        done = run(program("llm", "llm"), *arguments, LLM_USER_PATH=str(tmp_path))
        assert done.returncode == code, done.stderr
        return done.stdout.removesuffix("\n") if code == 0 else done.stderr

    said("keys", "set", "tiny", "--value", KEY)
    greedy = ["-o", "temperature", "0", "-o", "max_tokens", "12"]
    want = model.generate(PROMPT, max_new_tokens=12).texts[0]
    for streams in ([], ["--no-stream"]):
        assert said("-m", "tiny", PROMPT, *greedy, *streams) == want
        chat = model.chat(MESSAGES, max_new_tokens=12).text
        assert said("-m", "talks", PROMPT, *greedy, *streams) == chat
    talk = [*MESSAGES, {"role": "assistant", "content": chat}, {"role": "user", "content": "And then?"}]
    assert said("-m", "talks", "-c", "And then?", *greedy) == model.chat(talk, max_new_tokens=12).text
    assert said("-m", "tiny", PROMPT, *greedy, "-o", "stop", "the") == want.partition("the")[0]
    drawn = model.generate(PROMPT, max_new_tokens=12, do_sample=True, top_k=0, seed=4, top_p=0.8, temperature=0.7)
    options = {"seed": 4, "top_p": 0.8, "temperature": 0.7, "max_tokens": 12, "logprobs": 2}
    assert said("-m", "tiny", PROMPT, *(w for o in options.items() for w in ("-o", *o))) == drawn.texts[0]
    biased = model.generate(PROMPT, max_new_tokens=12, sequence_bias={(50,): 100.0}).texts[0]
    assert said("-m", "tiny", PROMPT, *greedy, "-o", "logit_bias", '{"50": 100}') == biased
    shaped = said("-m", "talks", PROMPT, *greedy, "-o", "max_tokens", "200", "--schema", "age int")
    assert isinstance(json.loads(shaped)["age"], int)
    assert "the API key is missing or wrong" in said("-m", "talks", "a", "--key", "wrong", code=1)
    assert "use repetition_penalty" in said("-m", "tiny", "a", "-o", "presence_penalty", "1", code=1)


def test_curl(model, address, tmp_path):
    if shutil.which("curl") is None:
        pytest.skip("there is no curl here")
    with_key, as_json = ["-H", f"Authorization: Bearer {KEY}"], ["-H", "Content-Type: application/json"]
    completions = f"{address}/v1/completions"

    def asked(*arguments):
        done = run("curl", "--silent", "--show-error", "--write-out", "\n%{http_code}", *arguments)
        assert done.returncode == 0, done.stderr
        body, _, status = done.stdout.rpartition("\n")
        return int(status), body

    def refused(status, says, *arguments):
        found, body = asked(*arguments)
        assert (found, says in json.loads(body)["error"]["message"]) == (status, True), (found, body)

    body = json.dumps({"prompt": PROMPT, "max_tokens": 12, "temperature": 0, "stream": True})
    status, stream = asked("-N", completions, *with_key, *as_json, "-d", body)
    *events, end = [event.removeprefix("data: ") for event in stream.strip().split("\n\n")]
    said = "".join(json.loads(event)["choices"][0]["text"] for event in events)
    assert (status, said, end) == (200, model.generate(PROMPT, max_new_tokens=12).texts[0], "[DONE]")

    large = tmp_path / "large.json"
    large.write_text(json.dumps({"prompt": "a" * 3_000_000}))
    for more in ([], ["-H", "Expect:"], ["-H", "Transfer-Encoding: chunked"]):
        refused(413, "the body is above 1,000,000 bytes", completions, *with_key, *as_json, *more, "-d", f"@{large}")
    for bad in ('{"prompt": "a"', "[]", "null", "", '{"prompt": "a", "seed": 1e400}', '{"prompt": NaN}'):
        refused(400, "", completions, *with_key, *as_json, "-d", bad)
    refused(415, "Content-Type: application/json", completions, *with_key, "-d", '{"prompt": "a"}')
    for key in ([], ["-H", "Authorization: Bearer wrong"], ["-H", "Authorization: Bearer"]):
        refused(401, "Bearer KEY", completions, *key, *as_json, "-d", '{"prompt": "a"}')
    refused(404, "this address is not served", f"{address}/v1/nothing", *with_key)
    refused(405, "send POST", completions, *with_key)
    assert asked(f"{address}/health") == (200, '{"status":"ok"}')

    body = json.dumps({name: value for name, value in LONG.items() if name != "extra_body"} | LONG["extra_body"])
    command = ["curl", "--silent", "-N", completions, *with_key, *as_json, "-d", body[:-1] + ', "stream": true}']
    before = state_of(address)["answered"].get("cancelled", 0)
    with subprocess.Popen(command, stdout=subprocess.PIPE) as killed:
        assert killed.stdout.readline().startswith(b"data: {"), "the first chunk comes before the last token"
        assert state_of(address)["running"]
        killed.kill()
    ends = time.monotonic() + 20
    while (state := state_of(address))["running"] or state["answered"].get("cancelled", 0) == before:
        assert time.monotonic() < ends, state
        time.sleep(0.05)


def test_lm_eval(model, folder, address, program, tmp_path):
    """Its log-likelihoods are those of `score`, and its texts those of `generate`."""
    guesses = [model.generate(start, max_new_tokens=3).texts[0] for start, _ in ENDINGS]
    guesses[1::2] = [" whale", " of the deck"]
    tasks = write_tasks(tmp_path, guesses)
    arguments = f"model={MODEL},base_url={address}/v1/completions,tokenizer={folder},max_length=512"
    done = run(
        program("lm-eval", "lm_eval"), "run", "--model", "local-completions", "--batch_size", 2, "--log_samples",
        "--model_args", f"{arguments},num_concurrent=3", "--tasks", ",".join(tasks),
        "--include_path", tmp_path, "--output_path", tmp_path / "out",
        OPENAI_API_KEY=KEY, HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", HF_HOME=str(tmp_path / "home"),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    samples = {
        task: [json.loads(line) for path in (tmp_path / "out").glob(f"**/samples_{task}_*") for line in path.open()]
        for task in tasks
    }
    assert [len(of_task) for of_task in samples.values()] == [len(ENDINGS)] * 4
    encode, atol = model.tokenizer.encode, bound(model)
    for sample in samples["endings"] + samples["guesses"]:
        for asked, answers in zip(sample["arguments"].values(), sample["resps"], strict=True):
            first = len(encode(asked["arg_0"]))
            ids = encode(asked["arg_0"] + asked["arg_1"])
            scores = model.score(input_ids=[ids[:first]], target_ids=[ids[first:]])
            ((log_likelihood, is_greedy),) = answers
            np.testing.assert_allclose(float(log_likelihood), scores.log_probs[0], rtol=0, atol=atol * len(ids))
            assert is_greedy == str(scores.accuracy == 1.0)
    assert [sample["acc"] for sample in samples["guesses"]] == [1, 0, 1, 0, 1]
    for sample in samples["reading"]:
        scores = model.score("<|endoftext|>" + sample["target"])
        np.testing.assert_allclose(
            float(sample["resps"][0][0]), scores.log_probs[0], rtol=0, atol=atol * scores.tokens[0]
        )
    for sample, (start, _) in zip(samples["going_on"], ENDINGS, strict=True):
        assert sample["resps"] == [[model.generate(start, max_new_tokens=12, stop_strings=".").texts[0]]]
