"""The server, over real sockets: its answers are those of `generate`, and its steps are shared."""

import contextlib
import json
import socket
import threading
import time

import httpx
import numpy as np
import pytest
import uvicorn
from serving_cases import bound
from toy_folder import write_folder

import minidecode as md
from minidecode.search.constraints import Constraint
from minidecode.serving.replies import text_of_token
from minidecode.serving.scheduler import Scheduler
from minidecode.serving.server import Server, Settings, count_rows_of_job
from minidecode.serving.sockets import http_of

AS_JSON = {"Content-Type": "application/json"}
TEMPLATE = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A toy whose texts may be long, with a chat template."""
    folder = write_folder(tmp_path_factory.mktemp("toys") / "toy", n_positions=256)
    (folder / "chat_template.jinja").write_text(TEMPLATE, encoding="utf-8")
    return md.load(folder, plan="numpy")


@contextlib.contextmanager
def served(model, scheduler=None, body_seconds=None, **settings):
    """(client, server, uvicorn's server): on a free port, in a thread."""
    server = Server(scheduler or Scheduler(model, max_rows=8, max_waiting=4), Settings("toy", **settings))
    listening = socket.create_server(("127.0.0.1", 0))
    runs = uvicorn.Server(uvicorn.Config(server.app(), http=http_of(body_seconds), log_level="error"))
    thread = threading.Thread(target=runs.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{listening.getsockname()[1]}", timeout=60) as client:
            yield client, server, runs
    finally:
        runs.should_exit = True
        thread.join()


@pytest.fixture(scope="module")
def toy(model):
    with served(model) as (client, *_):
        yield client


def completion(client, **body):
    answer = client.post("/v1/completions", json={"model": "toy", **body})
    assert answer.status_code == 200, answer.text
    return answer.json()


def events(client, path="/v1/completions", **body):
    """The events of a stream, as they come."""
    with client.stream("POST", path, json={"stream": True, **body}) as answer:
        assert answer.status_code == 200
        for line in answer.iter_lines():
            if line:
                assert line.startswith("data: ")
                yield line.removeprefix("data: ")


def test_answers_are_those_of_generate(toy, model):
    for body, options in [
        ({"temperature": 0}, {}),
        ({"temperature": 0, "stop": ["e"]}, {"stop_strings": ["e"]}),
        ({"seed": 3, "n": 3}, {"do_sample": True, "top_k": 0, "seed": 3, "num_return_sequences": 3}),
        ({"seed": 3, "top_p": 0.7, "temperature": 0.8}, {"do_sample": True, "top_k": 0, "seed": 3, "top_p": 0.7,
                                                         "temperature": 0.8}),
        ({"num_beams": 4, "n": 2, "dialect": "fairseq"}, {"num_beams": 4, "num_return_sequences": 2,
                                                          "dialect": "fairseq"}),
        ({"temperature": 0, "logit_bias": {"70": 9}}, {"sequence_bias": {(70,): 9.0}}),
    ]:  # fmt: skip
        for prompts in ("the th", ["the", "a", "the"]):
            found = completion(toy, prompt=prompts, max_tokens=12, unheard_of=1, **body)
            want = model.generate(prompts, max_new_tokens=12, **options)
            assert [c["text"] for c in found["choices"]] == want.texts, body
            assert [c["finish_reason"] for c in found["choices"]] == want.finish_reasons
            assert [c["index"] for c in found["choices"]] == list(range(len(want.texts)))
            new, given = sum(map(len, want.token_ids)), want.receipt.prompt_tokens
            usage = {"prompt_tokens": given, "completion_tokens": new, "total_tokens": given + new,
                     "prompt_tokens_details": {"cached_tokens": 0}}  # fmt: skip
            assert found["usage"] == usage and found["object"] == "text_completion"


def test_what_lm_eval_asks(toy, model):
    """Ids with echo, log-probabilities and one token: the first log-probability is null, the others are `score`'s."""
    ids = model.tokenizer.encode("the otter").tolist()
    (choice,) = completion(toy, prompt=[ids], echo=True, logprobs=1, max_tokens=1, temperature=0)["choices"]
    found, scores = choice["logprobs"], model.score("the otter")
    assert found["token_logprobs"][0] is None and found["top_logprobs"][0] is None
    np.testing.assert_allclose(found["token_logprobs"][1:-1], scores.token_log_probs[0], rtol=0, atol=bound(model))
    assert len(found["tokens"]) == len(ids) + 1 and "".join(found["tokens"]) == choice["text"]
    assert [choice["text"][at:][:1] for at in found["text_offset"]] == [word[:1] for word in found["tokens"]]
    best = [max(top, key=top.get) for top in found["top_logprobs"][1:]]
    assert best[:-1] == [text_of_token(model.tokenizer, int(i)) for i in scores.likeliest_ids[0]]
    whole = [*ids, *model.generate("the otter", max_new_tokens=30).token_ids[0].tolist()]
    for prompt in (whole, whole[:1] + whole[::-1]):  # the likeliest tokens, and others
        (choice,) = completion(toy, prompt=[prompt], echo=True, logprobs=1, max_tokens=1, temperature=0)["choices"]
        noted = choice["logprobs"]
        for token, p, top in zip(noted["tokens"], noted["token_logprobs"], noted["top_logprobs"], strict=True):
            # lm-eval calls a token greedy if its number is the largest one, to the last bit.
            assert p is top is None or (p == max(top.values())) == (token in top)
    only = completion(toy, prompt=[ids], echo=True, logprobs=1, max_tokens=0)["choices"][0]
    assert only["logprobs"]["token_logprobs"] == found["token_logprobs"][:-1]


def test_chat(toy, model):
    messages = [{"role": "user", "content": [{"type": "text", "text": "the"}, {"type": "text", "text": " a"}]}]
    body = dict(messages=messages, max_completion_tokens=6, temperature=0, logprobs=True, top_logprobs=2)
    found = toy.post("/v1/chat/completions", json=body).json()
    want = model.chat([{"role": "user", "content": "the a"}], max_new_tokens=6, logprobs=2)
    (choice,) = found["choices"]
    assert choice["message"] == {"role": "assistant", "content": want.text, "refusal": None}
    content = choice["logprobs"]["content"]
    np.testing.assert_allclose([step["logprob"] for step in content], want.token_logprobs[0], rtol=0, atol=bound(model))
    assert all(len(step["top_logprobs"]) == 2 for step in content)
    assert b"".join(bytes(step["bytes"]) for step in content).decode(errors="replace") == want.text

    said = [json.loads(event) for event in list(events(toy, "/v1/chat/completions", **body))[:-1]]
    deltas = [chunk["choices"][0]["delta"] for chunk in said]
    assert deltas[0] == {"role": "assistant", "content": ""} and deltas[-1] == {}
    assert "".join(delta.get("content", "") for delta in deltas) == want.text


@pytest.mark.parametrize("search", [{"temperature": 0}, {"seed": 1, "n": 2}, {"num_beams": 3, "n": 2}])
def test_streams(toy, model, search):
    """Inner chunks have no reason, the last of each text has nothing else; then the usage, then the end."""
    body = dict(prompt="the th", max_tokens=9, stop="q", logprobs=1, **search)
    whole = completion(toy, **body)
    *said, end = events(toy, stream_options={"include_usage": True}, **body)
    assert end == "[DONE]"
    *chunks, last = map(json.loads, said)
    assert last["choices"] == [] and last["usage"] == whole["usage"]
    for choice in whole["choices"]:
        mine = [c for chunk in chunks for c in chunk["choices"] if c["index"] == choice["index"]]
        assert all(c["finish_reason"] is None for c in mine[:-1])
        assert mine[-1]["text"] == "" and mine[-1]["finish_reason"] == choice["finish_reason"]
        assert "".join(c["text"] for c in mine) == choice["text"]
        noted = [p for c in mine if c["logprobs"] for p in c["logprobs"]["token_logprobs"]]
        np.testing.assert_allclose(noted, choice["logprobs"]["token_logprobs"], rtol=0, atol=bound(model))
    assert all(chunk["usage"] is None and chunk["id"] == last["id"] for chunk in chunks)


LONG = dict(prompt="the", max_tokens=200, min_new_tokens=200, temperature=0)


def unhurried(model, **limits):
    """A scheduler whose steps take 5 ms more: LONG still runs when a test has done what it does beside it."""

    def step():
        time.sleep(0.005)
        Scheduler.step(scheduler)

    scheduler = Scheduler(model, **(limits or dict(max_rows=8, max_waiting=4)))
    scheduler.step = step
    return scheduler


def check_that_steps_are_shared(model):
    """A short request sent after a long one ends first; the first chunk comes before the last token is computed."""
    with served(model, unhurried(model)) as (client, server, _):
        stream = events(client, **LONG)
        next(stream)
        assert server.scheduler.running, "the first chunk came when all was computed"
        with httpx.Client(base_url=client.base_url, timeout=60) as other:
            completion(other, prompt="a", max_tokens=2, temperature=0)
            assert server.scheduler.running, "the short request waited for the long one"
            metrics = dict(line.split() for line in other.get("/metrics").text.splitlines() if line[0] != "#")
        assert int(metrics["minidecode_requests_in_a_step_most"]) >= 2
        assert list(stream)[-1] == "[DONE]"


def test_steps_are_shared(model):
    check_that_steps_are_shared(model)


def test_a_server_that_answers_one_after_the_other_is_found(model, monkeypatch):
    def when_idle(self):
        return None if self.running else admit(self)

    admit = Scheduler._admit_waiting
    monkeypatch.setattr(Scheduler, "_admit_waiting", when_idle)
    with pytest.raises(AssertionError, match="waited"):
        check_that_steps_are_shared(model)


def test_a_prompt_that_came_before_is_found_in_pages(model):
    """The usage and the metrics say how many of its tokens were not read again."""
    paged = Scheduler(model, plan="cache=paged", max_rows=8)
    with served(model, paged) as (client, *_):
        body = dict(prompt="the the otter a b the th the otter", max_tokens=3, temperature=0)
        first, second = (completion(client, **body) for _ in range(2))
        assert first["choices"] == second["choices"]
        cached = [answer["usage"]["prompt_tokens_details"]["cached_tokens"] for answer in (first, second)]
        assert cached == [0, (first["usage"]["prompt_tokens"] - 1) // 16 * 16] and cached[1] > 0
        metrics = dict(line.split() for line in client.get("/metrics").text.splitlines() if line[0] != "#")
        read = first["usage"]["prompt_tokens"] * 2 - cached[1]
        assert metrics["minidecode_prefix_hit_tokens_total"] == str(cached[1])
        assert metrics["minidecode_read_tokens_total"] == str(read)
        pages = [int(metrics[f"minidecode_pages_{name}"]) for name in ("used", "cached", "free")]
        assert pages == [0, cached[1] // 16, paged.batch.rows.pool.pages - cached[1] // 16]


def test_steps_go_on_while_a_pattern_is_compiled(model, monkeypatch):
    """On a thread of the request, for one request at a time; requests without a pattern do not wait."""
    now, most, goes_on = [0], [0], threading.Event()

    def compiles(*given):
        now[0] += 1
        most[0] = max(most[0], now[0])
        assert goes_on.wait(20)
        now[0] -= 1
        return make(*given)

    make = Constraint.make
    monkeypatch.setattr(Constraint, "make", lambda options, *given: options.regex and compiles(options, *given))
    with served(model, unhurried(model)) as (client, server, _):
        stream = events(client, **LONG)
        next(stream)
        body = dict(prompt="a", max_tokens=3, temperature=0, regex="ab?")
        clients = [httpx.Client(base_url=client.base_url, timeout=60) for _ in range(3)]
        threads = [threading.Thread(target=completion, args=(one,), kwargs=body) for one in clients[:2]]
        for thread in threads:
            thread.start()
        waited_until(lambda: now[0])
        steps = server.scheduler.batch.steps
        waited_until(lambda: server.scheduler.batch.steps > steps + 5)
        completion(clients[2], prompt="a", max_tokens=2, temperature=0)
        goes_on.set()
        for thread, one in zip(threads, clients, strict=False):
            thread.join()
            one.close()
        clients[2].close()
        assert list(stream)[-1] == "[DONE]" and most == [1]


def test_a_client_that_leaves_frees_its_rows(model):
    with served(model, unhurried(model)) as (client, server, _):
        stream = events(client, **LONG)
        next(stream)
        steps = server.scheduler.batch.steps
        stream.close()
        waited_until(lambda: not server.scheduler.running)
        assert server.scheduler.batch.steps < steps + 150 and server.scheduler.batch.rows.number == 0
        with pytest.raises(httpx.ReadTimeout):
            client.post("/v1/completions", json=LONG, timeout=0.05)
        waited_until(lambda: server.scheduler.is_idle and server.answered["cancelled"] == 2)


def waited_until(what, seconds=20.0):
    ends = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < ends
        time.sleep(0.01)


def test_a_full_server_says_when_to_come_again(model):
    full = unhurried(model, max_rows=1, max_waiting=1)
    with served(model, full) as (client, *_):
        stream = events(client, **LONG)
        next(stream)
        with contextlib.ExitStack() as stack:
            others = [stack.enter_context(httpx.Client(base_url=client.base_url, timeout=60)) for _ in range(2)]
            waits = threading.Thread(target=completion, args=(others[0],), kwargs=dict(prompt="a", max_tokens=1))
            waits.start()
            waited_until(lambda: full.waiting)
            refused = others[1].post("/v1/completions", json={"prompt": "a"})
            assert refused.status_code == 429 and int(refused.headers["Retry-After"]) >= 1
            assert refused.json()["error"]["type"] == "rate_limit_error"
            stream.close()
            waits.join()


def test_a_request_that_takes_too_long(model):
    with served(model, unhurried(model), seconds=0.02) as (client, server, _):
        answer = client.post("/v1/completions", json=LONG)
        assert answer.status_code == 504 and "longer than the server allows" in answer.text
        waited_until(lambda: server.scheduler.is_idle)


SCORED = dict(prompt=["the", "a the"], echo=True, logprobs=1, max_tokens=0)


def test_prompts_that_are_scored_alone_count_among_those_that_wait(model, monkeypatch):
    """They have no jobs; and the time of their request ends, and its client may leave, while they wait."""
    with served(model, Scheduler(model, max_rows=1, max_waiting=2)) as (client, server, _):
        began, goes_on, echoed = threading.Event(), threading.Event(), server.score_prompt

        def waits(ids, best):
            began.set()
            assert goes_on.wait(20)
            return echoed(ids, best)

        monkeypatch.setattr(server, "score_prompt", waits)
        first = threading.Thread(target=completion, args=(client,), kwargs=SCORED)
        first.start()
        assert began.wait(20)
        answers = []

        def asks(body):
            with httpx.Client(base_url=client.base_url, timeout=60) as other:
                answers.append(other.post("/v1/completions", json=body))

        threads = [threading.Thread(target=asks, args=(body,)) for body in (SCORED, {"prompt": "a", "max_tokens": 1})]
        for thread in threads:
            thread.start()
        waited_until(lambda: server.worker._asked.qsize() == 2)
        goes_on.set()
        for thread in (first, *threads):
            thread.join()
        assert [answer.status_code for answer in answers] == [429, 429]
        assert all(int(answer.headers["Retry-After"]) >= 1 for answer in answers)
        waited_until(lambda: server.to_score == 0)
        completion(client, **SCORED)


def test_scoring_ends_in_time(model, monkeypatch):
    with served(model, seconds=0.05) as (client, server, _):
        monkeypatch.setattr(server, "score_prompt", lambda ids, best: time.sleep(0.3))
        answer = client.post("/v1/completions", json=SCORED)
        assert answer.status_code == 504 and "longer than the server allows" in answer.text
        waited_until(lambda: server.to_score == 0)


@pytest.mark.parametrize("sent", [
    b"", b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n",
    b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{",
    b"POST /v1/unheard_of HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\n{",
    b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\nGET /hea",
], ids=["nothing", "headers", "body", "body of what is refused", "second request"])  # fmt: skip
def test_a_request_that_does_not_come_holds_no_connection(model, sent):
    """A byte now and then does not help. A request that is there may take its time."""
    with served(model, unhurried(model), body_seconds=0.2) as (client, *_):
        with socket.create_connection((client.base_url.host, client.base_url.port)) as slow:
            slow.sendall(sent)
            slow.settimeout(0.05)
            ends, is_open = time.monotonic() + 5, True
            while is_open:
                assert time.monotonic() < ends
                with contextlib.suppress(TimeoutError):
                    is_open = slow.recv(9999) != b""
                with contextlib.suppress(OSError):
                    slow.sendall(b" " if b"{" in sent else b"x")
        if sent == b"":
            assert completion(client, **LONG)["usage"]["completion_tokens"] == 200  # which takes 1 s


@pytest.mark.parametrize("key", ["schlüssel", "ключ à"])
def test_a_key_that_is_not_ascii(model, key):
    """Clients send it as UTF-8 or, where they can, as latin-1."""
    with served(model, api_key=key) as (client, *_):
        for encoding in ("utf-8", "latin-1", "cp037"):
            sent = key.encode(encoding, "replace")
            answer = client.get("/v1/models", headers=[(b"Authorization", b"Bearer " + sent)])
            is_right = encoding == "utf-8" or (encoding == "latin-1" and b"?" not in sent)
            assert answer.status_code == (200 if is_right else 401), encoding


def test_a_graceful_end_finishes_what_runs(model):
    with served(model) as (client, _, runs):
        stream = events(client, **LONG)
        next(stream)
        runs.should_exit = True
        assert list(stream)[-1] == "[DONE]"


@pytest.mark.parametrize(
    ("body", "field", "says"),
    [
        ({}, "prompt", "prompt must be a text"),
        ({"prompt": [["a"]]}, "prompt", "list of token ids"),
        ({"prompt": [99999]}, "prompt", "not in the vocabulary"),
        ({"prompt": ""}, "prompt", "is empty"),
        ({"prompt": "the " * 300}, "prompt", "holds 256: shorten it"),
        ({"max_tokens": -1}, "max_tokens", "from 0 to"),
        ({"max_tokens": 0}, "max_tokens", "or 0 with echo"),
        ({"max_tokens": 1000}, "prompt", "context of 256"),
        ({"temperature": "hot"}, "temperature", "must be a number"),
        ({"temperature": float("inf")}, "temperature", "must be a number"),
        ({"top_p": 2}, "top_p", "from 0.0 to 1.0"),
        ({"n": 0}, "n", "from 1 to 128"),
        ({"n": 9}, "n", "this server computes 8 rows at once"),
        ({"n": 2, "temperature": 0}, "n", "raise temperature"),
        ({"seed": 1.5}, "seed", "must be an integer"),
        ({"stop": [""]}, "stop", "not empty"),
        ({"stop": ["a"] * 17}, "stop", "at most 16"),
        ({"logprobs": True}, "logprobs", "must be an integer"),
        ({"logit_bias": {"x": 1}}, "logit_bias", "no token id"),
        ({"logit_bias": {"1": 101}}, "logit_bias", "from -100 to 100"),
        ({"logit_bias": {"99999": 1}}, "logit_bias", "vocabulary"),
        ({"stream": "yes"}, "stream", "true or false"),
        ({"stream_options": {"include_usage": True}}, "stream_options", "needs stream"),
        ({"echo": True, "stream": True}, "echo", "do not go together"),
        ({"presence_penalty": 1}, "presence_penalty", "repetition_penalty"),
        ({"guidance_scale": 1.5}, "guidance_scale", "no guidance"),
        ({"max_time": 2}, "max_time", "--timeout"),
        ({"keep_stop_strings": True}, "keep_stop_strings", "before its stop string"),
        ({"num_return_sequences": 2}, "num_return_sequences", "use n"),
        ({"stop_strings": ["x"]}, "stop_strings", "use stop"),
        ({"sequence_bias": {"5": 1}}, "sequence_bias", "use logit_bias"),
        ({"suffix": "x"}, "suffix", "fills in"),
        ({"best_of": 3}, "best_of", "num_beams"),
        ({"num_beams": 1.5}, "num_beams", "must be an integer"),
        ({"dialect": "ours"}, "dialect", "dialect must be"),
        ({"no_repeat_ngram_size": -1}, "no_repeat_ngram_size", "from 0 up"),
        ({"json_schema": "/etc/passwd"}, "json_schema", "must be an object"),
    ],
)
def test_bad_values_name_their_fields(toy, body, field, says):
    content = json.dumps({"prompt": "the", **body} if body else {})
    answer = toy.post("/v1/completions", content=content, headers=AS_JSON)
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]["param"] == field and says in answer.json()["error"]["message"]


def test_errors_speak_of_what_a_client_can_send(model):
    """Not of options of commands, nor of arguments in Python; what the client cannot change, the operator can."""
    least = Scheduler(model).make_job(None, [5], None, None, None, {"max_new_tokens": 1}).bytes
    with served(model, Scheduler(model, memory_budget=least)) as (client, *_):
        answer = client.post("/v1/completions", json={"prompt": "the the the", "num_beams": 4, "max_tokens": 50})
        error = answer.json()["error"]
        assert answer.status_code == 400 and error["param"] == "max_tokens" and " may take " in error["message"]
        says = (
            ": shorten prompt, or lower max_tokens, n or num_beams; or the server's operator must raise --memory-budget"
        )
        assert error["message"].endswith(says) and "memory_budget" not in error["message"]
        answer = client.post("/v1/completions", json={"prompt": "the", "min_new_tokens": 9, "max_tokens": 5})
        assert "max_tokens" in answer.json()["error"]["message"], answer.text
        assert "max_new_tokens" not in answer.text
        answer = client.post("/v1/completions", json={"prompt": "the", "prompt_lookup_num_tokens": 3})
        assert answer.json()["error"] | {"type": 0} == {
            "message": "prompt_lookup_num_tokens is not served: a running batch drafts no tokens, or leave it out",
            "param": "prompt_lookup_num_tokens", "type": 0, "code": None,
        }  # fmt: skip


def test_chat_names_its_fields(toy):
    for body, field in [
        ({}, "messages"),
        ({"messages": [{"role": "user"}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": "a " * 300}]}, "messages"),
        ({"messages": [{"role": "user", "content": "\ud800"}]}, "messages"),
        ({"messages": [{"role": "user", "content": "a"}], "top_logprobs": 2}, "top_logprobs"),
        ({"messages": [{"role": "user", "content": "a"}], "max_completion_tokens": 0}, "max_completion_tokens"),
        ({"messages": [{"role": "user", "content": "a"}], "tools": [{}]}, "tools"),
        ({"messages": [{"role": "user", "content": "a"}], "response_format": {"type": "x"}}, "response_format"),
    ]:
        answer = toy.post("/v1/chat/completions", content=json.dumps(body), headers=AS_JSON)
        assert answer.status_code == 400 and answer.json()["error"]["param"] == field, answer.text


def test_other_addresses_and_methods_are_errors_that_clients_can_show(toy):
    for method, path, status, says in [
        ("POST", "/v1/embeddings", 404, "/v1/completions, /v1/chat/completions and /v1/models are"),
        ("GET", "/v1/completions", 405, "GET is not served at this address: send POST"),
        ("DELETE", "/v1/models", 405, "send GET or HEAD"),
    ]:
        answer = toy.request(method, path, json={})
        error = answer.json()["error"]
        assert answer.status_code == status and says in error["message"] and error["type"] == "invalid_request_error"


def test_who_may_ask(model):
    with served(model, api_key="secret", most_bytes=1000) as (client, *_):
        for path in ("/v1/models", "/metrics", "/state"):
            assert client.get(path).status_code == 401
            assert client.get(path, headers={"Authorization": "Bearer wrong"}).status_code == 401
            assert client.get(path, headers={"Authorization": "Bearer secret"}).status_code == 200
        assert client.post("/v1/completions", json={"prompt": "a"}).status_code == 401
        assert client.get("/health").json() == {"status": "ok"}
        assert "<title>minidecode serve</title>" in client.get("/").text
        client.headers["Authorization"] = "Bearer secret"
        assert client.post("/v1/completions", json={"prompt": "a" * 2000}).status_code == 413
        assert client.post("/v1/completions", content=b"{}").status_code == 415
        assert client.post("/v1/completions", json=[1]).status_code == 400
        for bad in (b"{", b"[" * 900, b"\xff"):
            assert client.post("/v1/completions", content=bad, headers=AS_JSON).status_code == 400
        assert client.post("/v1/completions", json={"model": "gpt-4", "prompt": "a"}).status_code == 404
        assert client.get("/v1/models/gpt-4").status_code == 404 and client.get("/v1/models/toy").status_code == 200
        client.headers.pop("Authorization")
        for host in ("evil.example", "localhost.evil.example", "localhost@evil.example", "", "[::1"):
            answer = client.get("/health", headers={"Host": host})
            error = answer.json()["error"]
            assert answer.status_code == 400 and error["type"] == "invalid_request_error"
            assert f"the host {host!r} is not served: ask localhost or 127.0.0.1" in error["message"]
        for host in ("localhost", "LocalHost:8000", "127.0.0.1:1", "[::1]:8000", "[::1]"):
            assert client.get("/health", headers={"Host": host}).status_code == 200


def test_a_mistake_of_the_server_is_an_error_that_clients_can_show(model, monkeypatch):
    with served(model) as (client, server, _):
        monkeypatch.setattr(server, "_make_jobs", lambda *_: 1 / 0)
        answer = client.post("/v1/completions", json={"prompt": "a"})
        assert answer.status_code == 500 and answer.json()["error"]["type"] == "server_error"


def test_samples_without_a_seed_differ(toy):
    found = {completion(toy, prompt="the", max_tokens=12)["choices"][0]["text"] for _ in range(4)}
    assert len(found) == 4


def test_the_rows_of_a_request_that_is_being_read_are_counted():
    busy = Scheduler(md.load("tiny-gpt2", plan="numpy"), max_prefill_tokens=2)
    busy.submit("the", max_new_tokens=9)
    job = busy.submit("the the the thea", num_beams=3, max_new_tokens=9)
    busy.step()
    busy.step()
    assert busy.readings and count_rows_of_job(busy, job) == 3 and busy.batch.rows.number == 4
    assert busy.batch.most_requests == 1, "the steps so far had no row of its"
    while busy.readings:
        busy.step()
    assert count_rows_of_job(busy, job) == 3 and busy.batch.most_requests == 2
