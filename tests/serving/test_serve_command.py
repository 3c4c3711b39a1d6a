"""`minidecode serve` as a process: where it listens, and how it ends."""

import json
import re
import signal
import socket
import sys
import urllib.request

import pytest
from serving_cases import serving


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
    for host in ("1.2.3.4", "", "no host", "a" * 80 + ".com"):
        says = f"--host {host!r:.80} is no address of this machine: use 127.0.0.1, or 0.0.0.0 to let other machines in"
        assert refused("--host", host, "--port", "0") == f"minidecode: {says}\n", "and no word of who may ask"
    says = (
        r"minidecode: no request fits: the smallest may take .* MB, and 5 bytes may be used: raise the memory budget "
    )
    assert re.match(says, refused("--memory-budget", "5", "--port", "0", "--quiet"))
