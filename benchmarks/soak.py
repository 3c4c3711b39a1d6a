"""A soak of the server: clients that ask, leave, lie and die, for minutes; no answer may be lost or mixed up.

    python benchmarks/soak.py --minutes 10

Starts `minidecode serve` and eight threads of clients. Each does one of these at random: asks for a whole answer or a
stream and compares it with `generate` alone, leaves in the middle of a stream, sends half of a request and closes, a
body that is no JSON, a field that is wrong, a prompt that is too long. Now and then a client process is killed. At the
end no row runs, nothing waits, and the server's memory has not grown by more than --growth MB. Since it rises and falls
with the prompts of the moment, the least of the first third is compared with the least of the last third.

Takes about as long as --minutes says. Prints what it saw; writes nothing, and ends with 1 where something was wrong.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from typing import Any

from flags import positive, positive_number

import minidecode as md

PROMPTS = ["Fellow citizens,", "The war", "We have", "Our people and the state of the Union"]
SEARCHES: list[tuple[dict[str, Any], dict[str, Any]]] = [  # what a client says, and generate's options
    ({"temperature": 0}, {}),
    ({"seed": 5}, {"do_sample": True, "top_k": 0, "seed": 5}),
    ({"num_beams": 3, "n": 2}, {"num_beams": 3, "num_return_sequences": 2}),
    ({"temperature": 0, "no_repeat_ngram_size": 2}, {"no_repeat_ngram_size": 2}),
]
KILLED = """
import json, sys, urllib.request
body = json.dumps({"prompt": "The war", "max_tokens": 300, "min_new_tokens": 300, "stream": True}).encode()
for line in urllib.request.urlopen(urllib.request.Request(sys.argv[1], body, {"Content-Type": "application/json"})):
    print("token", flush=True)
"""


class Soak:
    """The clients of one server, and what they have seen."""

    def __init__(self, address: str, expected: dict[tuple[int, int, int], list[str]]):
        self.address, self.expected = address, expected
        self.seen: collections.Counter[str] = collections.Counter()
        self.wrong: list[str] = []
        self.ends = threading.Event()

    def client(self, seed: int) -> None:
        """Does one thing after the other until the end."""
        rng = random.Random(seed)
        acts = [self.whole] * 6 + [self.stream] * 3 + [self.leaves] * 2 + [self.half, self.malformed, self.too_long]
        while not self.ends.is_set():
            act = rng.choice(acts)
            try:
                act(rng)
                self.seen[act.__name__] += 1
            except urllib.error.HTTPError as error:
                self.seen[f"{act.__name__}: {error.code}"] += 1
                if error.code != 429:
                    self.wrong.append(f"{act.__name__}: {error.code} {error.read()[:200]!r}")
            except Exception as error:
                self.wrong.append(f"{act.__name__}: {error!r}")

    def asked(self, rng: random.Random) -> tuple[dict[str, Any], list[str]]:
        """(a body, the texts that generate gives alone)."""
        prompt, search, tokens = rng.randrange(len(PROMPTS)), rng.randrange(len(SEARCHES)), rng.choice((3, 9, 40))
        body = {"prompt": PROMPTS[prompt], "max_tokens": tokens, **SEARCHES[search][0]}
        return body, self.expected[prompt, search, tokens]

    def send(self, body: Any) -> Any:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.address}/v1/completions", data, {"Content-Type": "application/json"})
        return urllib.request.urlopen(request, timeout=120)

    def whole(self, rng: random.Random) -> None:
        body, want = self.asked(rng)
        with self.send(body) as answer:
            self.compare(body, [choice["text"] for choice in json.load(answer)["choices"]], want)

    def stream(self, rng: random.Random) -> None:
        body, want = self.asked(rng)
        texts: collections.Counter[int] = collections.Counter()
        said: dict[int, str] = {place: "" for place in range(len(want))}
        with self.send(body | {"stream": True}) as answer:
            for line in answer:
                if line.startswith(b"data: {"):
                    for choice in json.loads(line[6:])["choices"]:
                        said[choice["index"]] += choice["text"]
                        texts[choice["index"]] += choice["finish_reason"] is not None
        self.compare(body, list(said.values()), want)
        assert set(texts.values()) == {1}, "each text ends once"

    def compare(self, body: Any, got: list[str], want: list[str]) -> None:
        if got != want:
            self.wrong.append(f"{body}: {got} is not {want}")

    def leaves(self, rng: random.Random) -> None:
        with self.send({"prompt": "The war", "max_tokens": 300, "min_new_tokens": 300, "stream": True}) as answer:
            for _ in range(rng.randrange(1, 9)):
                answer.readline()

    def half(self, rng: random.Random) -> None:
        host, port = self.address.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=10) as connection:
            connection.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n"
                               b"Content-Type: application/json\r\n\r\n{\"prompt\":")  # fmt: skip

    def malformed(self, rng: random.Random) -> None:
        bodies = [b"{", b"\xff\xfe", b"[]", b'{"prompt": 1}', b'{"prompt": "a", "n": -1}', b'{"prompt": [99999999]}']
        self.refused(rng.choice(bodies))

    def too_long(self, rng: random.Random) -> None:
        self.refused({"prompt": "word " * rng.choice((1000, 100000)), "max_tokens": 5})

    def refused(self, body: Any) -> None:
        try:
            self.send(body)
        except urllib.error.HTTPError as error:
            if error.code != 400:
                raise
        else:
            self.wrong.append(f"{body!r:.80} was answered")


def resident_megabytes(pid: int) -> float:
    """MB that a process holds."""
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=positive_number, default=10.0)
    parser.add_argument("--clients", type=positive, default=8)
    parser.add_argument("--growth", type=positive, default=30, help="MB that the server may grow by")
    arguments = parser.parse_args()
    model = md.load("tiny-gpt2", plan="numpy")
    expected = {
        (p, s, tokens): model.generate(prompt, max_new_tokens=tokens, **options).texts
        for p, prompt in enumerate(PROMPTS)
        for s, (_, options) in enumerate(SEARCHES)
        for tokens in (3, 9, 40)
    }
    command = [sys.executable, "-m", "minidecode", "serve", "tiny-gpt2", "--port", "0", "--plan", "numpy"]
    with subprocess.Popen(
        [*command, "--max-rows", "12", "--max-waiting", "20"], stderr=subprocess.PIPE, text=True
    ) as server:
        assert server.stderr is not None
        address = next(match[1] for line in server.stderr if (match := re.search(r"at (http://\S+)$", line.strip())))
        soak = Soak(address, expected)
        threads = [threading.Thread(target=soak.client, args=(seed,)) for seed in range(arguments.clients)]
        for thread in threads:
            thread.start()
        ends, memory = time.monotonic() + 60 * arguments.minutes, [resident_megabytes(server.pid)]
        while time.monotonic() < ends:
            with subprocess.Popen(
                [sys.executable, "-c", KILLED, f"{address}/v1/completions"], stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            ) as client:  # fmt: skip
                assert client.stdout is not None
                client.stdout.readline()
                client.kill()
                soak.seen["killed"] += 1
            time.sleep(2)
            memory.append(resident_megabytes(server.pid))
        soak.ends.set()
        for thread in threads:
            thread.join()
        deadline = time.monotonic() + 20
        while True:
            with urllib.request.urlopen(f"{address}/state", timeout=20) as answer:
                state = json.load(answer)
            if not (state["running"] or state["waiting"]) or time.monotonic() > deadline:
                break
            time.sleep(0.1)
        memory.append(resident_megabytes(server.pid))
        server.send_signal(signal.SIGTERM)
        code = server.wait(60)
    print(dict(soak.seen))
    print(f"{state['answered']}; at most {state['most_requests']} requests in a step")
    third = 1 + len(memory) // 3
    early, late = (
        min(memory[third // 4 : third]),
        min(memory[-third:]),
    )  # the very first are before its arrays were made
    print(
        f"memory: at least {early:.0f} MB in the first third, {late:.0f} MB in the last; at most {max(memory):.0f} MB"
    )
    problems = soak.wrong[:5]
    if state["running"] or state["waiting"] or state["rows"]:
        problems.append(f"something is left: {state}")
    if late - early > arguments.growth:
        problems.append(f"the server has grown by {late - early:.0f} MB")
    if code != 0:
        problems.append(f"the server ended with code {code}")
    print("\n".join(problems) if problems else "no answer was lost or mixed up, and nothing is left")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
