"""`minidecode serve` as a process: where it listens, how it ends, and OpenAI's own client before it."""

import json
import re
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from contextlib import contextmanager

import pytest


@contextmanager
def serving(*arguments):
    """(process, address) of a server that has begun to listen."""
    command = [sys.executable, "-m", "minidecode", "serve", "tiny-gpt2", "--port", "0", "--plan", "numpy", *arguments]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            for line in process.stderr:
                if found := re.search(r"at (http://127\.0\.0\.1:\d+)$", line.strip()):
                    break
            else:
                raise AssertionError("it ended")
            yield process, found[1]
        finally:
            process.kill()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGTERM that a process could see")
def test_a_signal_ends_it_when_what_runs_has_its_answer():
    with serving() as (process, address):
        body = {"prompt": "The war", "max_tokens": 200, "min_new_tokens": 200, "temperature": 0, "stream": True}
        request = urllib.request.Request(
            f"{address}/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            answer.readline()
            process.send_signal(signal.SIGTERM)
            assert answer.read().endswith(b"data: [DONE]\n\n")
        assert process.wait(30) == 0


def test_a_port_that_is_taken_and_an_empty_key(capsys, monkeypatch):
    from minidecode.commands.cli import main

    def refused(*arguments):
        monkeypatch.setattr(sys, "argv", ["minidecode", "serve", "tiny-gpt2", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 1
        return capsys.readouterr().err

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert re.search(
            rf"127\.0\.0\.1:{port} cannot be listened on .*: choose another --port", refused("--port", port)
        )
    assert "the API key is empty: give one, or none" in refused("--api-key", " ")


def test_openais_client():
    """Its own package, not ours, reads what the server says."""
    openai = pytest.importorskip("openai")
    with serving("--api-key", "secret") as (_, address):
        client = openai.OpenAI(base_url=f"{address}/v1", api_key="secret", max_retries=0)
        assert [model.id for model in client.models.list()] == ["tiny-gpt2"]
        asked = dict(model="tiny-gpt2", prompt="Fellow citizens,", max_tokens=12, temperature=0)
        whole = client.completions.create(**asked, logprobs=2)
        assert len(whole.choices[0].logprobs.token_logprobs) == 12 and whole.usage.completion_tokens == 12
        chunks = list(client.completions.create(**asked, stream=True, stream_options={"include_usage": True}))
        assert "".join(c.choices[0].text for c in chunks if c.choices) == whole.choices[0].text
        assert chunks[-1].usage == whole.usage and chunks[-2].choices[0].finish_reason == "length"
        beams = client.completions.create(**asked, n=2, extra_body={"num_beams": 4, "no_repeat_ngram_size": 2})
        assert len({choice.text for choice in beams.choices}) == 2
        with pytest.raises(openai.BadRequestError) as refused:
            client.completions.create(**asked | {"max_tokens": -1})
        assert refused.value.param == "max_tokens"
        with pytest.raises(openai.BadRequestError, match="no chat template"):
            client.chat.completions.create(model="tiny-gpt2", messages=[{"role": "user", "content": "a"}])
        with pytest.raises(openai.AuthenticationError):
            openai.OpenAI(base_url=f"{address}/v1", api_key="wrong").models.list()
        with pytest.raises(openai.NotFoundError):
            client.completions.create(**asked | {"model": "other"})
        seen = []
        threads = [threading.Thread(target=lambda n=n: seen.append(client.completions.create(**asked, seed=n)))
                   for n in range(6)]  # fmt: skip
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert {answer.choices[0].text for answer in seen} == {whole.choices[0].text}
