"""The server: OpenAI's interface over one scheduler, as a Starlette application.

A request is read and checked on its way in, by threads beside the one that steps (worker.py). Its tokens come back by
callbacks within a step, which hand them to the event loop. A client that leaves cancels its jobs between two steps.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import re
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from ..errors import InputError, MemoryBudgetError, MinidecodeError, NumericalError, OptionError, QueueFullError
from ..files.tokenizer import TextStream
from ..methods.scoring import score_new_tokens
from ..options.options import MAXIMA
from . import fields
from .fields import Asked, FieldError
from .jobs import Job
from .replies import Noted, Pieces, Reply, count_usage, error_body
from .scheduler import Scheduler
from .worker import Worker

PAGE = Path(__file__).with_name("page.html")
RETRY_AFTER = 1  # seconds that a client waits before it asks a full server again
CHAT_TOKENS = 1024  # of an answer, where nothing says otherwise and the context holds them
LOOPBACK = ("localhost", "127.0.0.1", "[::1]")  # this machine, as requests and addresses name it
FIELD_OF = {  # options of `generate` by the names that clients know
    "max_new_tokens": "max_tokens", "stop_strings": "stop", "num_return_sequences": "n", "sequence_bias": "logit_bias",
}  # fmt: skip
FIELDS = {*FIELD_OF.values(), *fields.OWN_OPTIONS}


@dataclass(frozen=True)
class Settings:
    """What the one who serves decides."""

    name: str  # of the model, for clients
    api_key: str | None = None
    most_bytes: int = 2**22  # of a body
    seconds: float | None = 600.0  # that a request may take, waiting included
    hosts: tuple[str, ...] | None = LOOPBACK  # that a request may name as its server; None: any


class RefusedRequestError(Exception):
    """An answer that is an error."""

    def __init__(self, status: int, message: str, kind: str = "invalid_request_error", param: str | None = None):
        super().__init__(message)
        self.status, self.kind, self.param = status, kind, param

    def response(self) -> Response:
        headers = {"Retry-After": str(RETRY_AFTER)} if self.status in (429, 503) else {}
        if self.status == 401:
            headers["WWW-Authenticate"] = "Bearer"
        return JSONResponse(self.body(), self.status, headers)

    def body(self) -> dict[str, Any]:
        return error_body(str(self), self.kind, self.param)


class HostGuard:
    """Refuses requests that name another server: a page of another site, whose name leads here, may not ask."""

    def __init__(self, app: ASGIApp, hosts: tuple[str, ...]):
        self.app, self.hosts = app, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan":
            named = Headers(scope=scope).get("host", "")
            host = re.fullmatch(r"(\[[0-9a-f:]+\]|[^:\[\]]+)(:\d+)?", named.lower())
            if host is None or host[1] not in self.hosts:
                answer = RefusedRequestError(
                    400, f"the host {named!r:.80} is not served: ask {' or '.join(self.hosts)}, or start with --host"
                )
                return await answer.response()(scope, receive, send)
        await self.app(scope, receive, send)


class Server:
    """The routes, and what they share."""

    def __init__(self, scheduler: Scheduler, settings: Settings):
        self.scheduler, self.settings, self.model = scheduler, settings, scheduler.model
        if self.model.tokenizer is None:
            raise InputError(self.model.inputs.no_tokenizer_message("call md.Scheduler with input_ids"))
        self.worker = Worker(scheduler)
        self.keys = _encode_key(settings.api_key)
        # A thread that compiles a pattern computes, and takes turns with the one that steps: never two of them.
        self.one_at_a_time = asyncio.Semaphore(1)
        self.answered: Counter[str] = Counter()  # by state
        self.first_token_seconds = self.seconds = 0.0
        self.new_tokens = self.prompt_tokens = 0
        self.to_score = 0  # prompts of requests that have no jobs; they count among those that wait
        self.began, self.ends = time.time(), False

    def app(self) -> Starlette:
        """Makes the ASGI application. When uvicorn shuts it down, the thread that steps ends."""
        routes = [
            Route("/", self.page), Route("/health", self.health), Route("/metrics", self.metrics),
            Route("/state", self.state), Route("/v1/models", self.models),
            Route("/v1/models/{name:path}", self.model_of_name),
            Route("/v1/completions", self.completions, methods=["POST"]),
            Route("/v1/chat/completions", self.chat_completions, methods=["POST"]),
        ]  # fmt: skip
        hosts = self.settings.hosts
        guard = [] if hosts is None else [Middleware(HostGuard, hosts)]
        errors = {
            RefusedRequestError: _refusal_response,
            HTTPException: _unserved_response,
            Exception: _failure_response,
        }
        return Starlette(routes=routes, middleware=guard, lifespan=self._lifespan, exception_handlers=errors)

    @contextlib.asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        yield
        self.ends = True
        await run_in_threadpool(self.worker.close)

    # ---- what is small --------------------------------------------------------------------------------------------

    async def page(self, request: Request) -> Response:
        """A page to look at what runs, and to type into. It asks for /state."""
        policy = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'"
        headers = {"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff"}
        return HTMLResponse(PAGE.read_text(encoding="utf-8"), headers=headers)

    async def health(self, request: Request) -> Response:
        return JSONResponse({"status": "ends" if self.ends else "ok"}, 503 if self.ends else 200)

    async def models(self, request: Request) -> Response:
        self._check_key(request)
        return JSONResponse({"object": "list", "data": [self._describe_model()]})

    async def model_of_name(self, request: Request) -> Response:
        self._check_key(request)
        self._check_model(request.path_params["name"])
        return JSONResponse(self._describe_model())

    async def state(self, request: Request) -> Response:
        """What the page shows: no texts of anybody's."""
        self._check_key(request)
        return JSONResponse(await asyncio.wrap_future(self.worker.ask(self._describe_state)))

    async def metrics(self, request: Request) -> Response:
        """Counts in the format of Prometheus."""
        self._check_key(request)
        figures = await asyncio.wrap_future(self.worker.ask(self._describe_state))
        lines = []
        for name, value, kind, about in _list_metrics(figures):
            lines += [f"# HELP {name} {about}", f"# TYPE {name} {kind}", f"{name} {value}"]
        answered = [
            f'minidecode_requests_total{{state="{state}"}} {n}' for state, n in sorted(figures["answered"].items())
        ]
        lines += ["# HELP minidecode_requests_total Requests that are over.",
                  "# TYPE minidecode_requests_total counter", *answered]  # fmt: skip
        return PlainTextResponse("\n".join(lines) + "\n", media_type="text/plain; version=0.0.4")

    def _describe_state(self, scheduler: Scheduler) -> dict[str, Any]:
        batch = scheduler.batch
        jobs = [
            {"number": job.number, "rows": count_rows_of_job(scheduler, job),
             "beams": job.options.num_beams, "samples": job.options.do_sample,
             "seconds": time.perf_counter() - job.arrived}
            for job in scheduler.running
        ]  # fmt: skip
        end_R = batch.rows.end_R[: batch.rows.number]
        return {
            "model": self.settings.name, "running": jobs, "waiting": len(scheduler.waiting) + self.to_score,
            "rows": batch.rows.number, "capacity": batch.rows.capacity, "positions": batch.rows.positions,
            "lengths": end_R.tolist(), "most_rows": batch.most_rows, "most_requests": batch.most_requests,
            "steps": batch.steps, "rows_computed": batch.rows_computed, "bytes": scheduler.bytes,
            "new_tokens": self.new_tokens, "prompt_tokens": self.prompt_tokens, "read_tokens": batch.tokens_read,
            "reused_tokens": batch.tokens_reused, "pages": batch.rows.page_counts(),
            "answered": dict(self.answered), "first_token_seconds": self.first_token_seconds,
            "seconds": self.seconds, "up_seconds": time.time() - self.began,
        }  # fmt: skip

    def _describe_model(self) -> dict[str, Any]:
        return {"id": self.settings.name, "object": "model", "created": int(self.began), "owned_by": "minidecode",
                "max_model_len": self.model.config.context}  # fmt: skip

    # ---- requests -------------------------------------------------------------------------------------------------

    async def completions(self, request: Request) -> Response:
        return await self._answer(request, fields.parse_completion, False)

    async def chat_completions(self, request: Request) -> Response:
        return await self._answer(request, fields.parse_chat, True)

    async def _answer(self, request: Request, read: Callable[[dict[str, Any]], Asked], is_chat: bool) -> Response:
        self._check_key(request)
        body = await self._read_body(request)
        if body.get("model") is not None:
            self._check_model(body["model"])
        with _answer_errors("messages" if is_chat else "prompt"):
            asked = read(body)
            is_long = {"regex", "json_schema"} & set(asked.options)
            async with self.one_at_a_time if is_long else contextlib.nullcontext():
                jobs, ids = await run_in_threadpool(self._make_jobs, asked, is_chat)
        reply = Reply(self.settings.name, is_chat, self.model.tokenizer, asked.logprobs, asked.usage_chunk)
        running = Running(self, asked, jobs, ids, reply)
        with _answer_errors():
            await running.begin()
        if asked.stream:
            headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
            return StreamingResponse(running.stream_events(), media_type="text/event-stream", headers=headers)
        return await running.respond_at_once(request)

    def _make_jobs(self, asked: Asked, is_chat: bool) -> tuple[list[Job], list[np.ndarray]]:
        """(what is to run, the token ids of each prompt)."""
        inputs, prompts = self.model.inputs, asked.prompts
        options = dict(asked.options)
        if is_chat:
            prompts = [inputs.encode_chat(asked.prompts[0]).tolist()]
            if not set(MAXIMA) & set(options):
                options["max_new_tokens"] = max(1, min(CHAT_TOKENS, self.model.config.context + 1 - len(prompts[0])))
        jobs: list[Job] = []
        read: list[np.ndarray] = []
        seen: Counter[bytes] = Counter()
        logprobs = asked.logprobs
        for prompt in prompts:
            is_text = isinstance(prompt, str)
            ids = inputs.read_texts_or_ids(prompt if is_text else None, None if is_text else [prompt], None)[0]
            if asked.echo and self.model.is_encoder_decoder:
                raise FieldError("echo", "echo is for decoder-only models: a source is no part of the answer")
            read.append(ids)
            if not asked.only_scored:
                key, rows = ids.tobytes(), max(asked.n, options.get("num_beams") or 1)
                if rows > (capacity := self.scheduler.batch.rows.capacity):
                    name = "n" if rows == asked.n else "num_beams"
                    raise FieldError(name, f"{name} is {rows}, and this server computes {capacity} rows at once")
                jobs.append(self.scheduler.make_job(None, ids, logprobs, None, asked.sample_id + seen[key], options))
                seen[key] += 1
            elif len(ids) > self.model.config.context:
                raise FieldError("prompt", f"prompt has {len(ids)} tokens, beyond the {self.model.config.context} held")
        return jobs, read

    def score_prompt(self, ids: np.ndarray, best: int) -> list[Noted | None]:
        """The log-probabilities of a prompt's tokens; the first one comes after nothing."""
        if len(ids) < 2:
            return [None]
        (scored,) = score_new_tokens(self.model, [], [ids[:1]], [ids[1:]], self.scheduler.plan, best, False, None)
        each = zip(scored.token_R, scored.best_RK, scored.best_logprob_RK, strict=True)
        return [None, *((float(p), ids_K, logprob_K) for p, ids_K, logprob_K in each)]

    def count_answered(self, jobs: Iterable[Job], prompt_tokens: int) -> None:
        """Counts what is over."""
        self.prompt_tokens += prompt_tokens
        for job in jobs:
            self.answered[job.state] += 1
            self.new_tokens += sum(len(ids) for ids, _ in job.texts.values())
            if job.first_token is not None:
                self.first_token_seconds += job.first_token - job.arrived
            self.seconds += (job.ended or time.perf_counter()) - job.arrived

    def _check_key(self, request: Request) -> None:
        if self.keys:
            scheme, _, given = request.headers.get("authorization", "").encode("latin-1").partition(b" ")
            is_right = any([hmac.compare_digest(given.strip(), key) for key in self.keys])
            if not (is_right and scheme.lower() == b"bearer"):
                raise RefusedRequestError(401, "the API key is missing or wrong: send Authorization: Bearer KEY")

    def _check_model(self, name: Any) -> None:
        if not isinstance(name, str):
            raise RefusedRequestError(400, "model must be a text", param="model")
        if name != self.settings.name:
            raise RefusedRequestError(
                404, f"the model {name!r:.80} is not served here: {self.settings.name} is", param="model"
            )

    async def _read_body(self, request: Request) -> dict[str, Any]:
        """The JSON object that was sent, never more of it than may be."""
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise RefusedRequestError(415, "the body must be JSON: send Content-Type: application/json")
        most, read = self.settings.most_bytes, bytearray()
        try:
            async for piece in request.stream():
                read += piece
                if len(read) > most:
                    raise RefusedRequestError(413, f"the body is above {most:,} bytes: send less")
        except ClientDisconnect:
            raise RefusedRequestError(499, "the client has left") from None
        try:
            body = json.loads(read)
        except (ValueError, RecursionError):
            raise RefusedRequestError(400, "the body is no JSON: send an object") from None
        if not isinstance(body, dict):
            raise RefusedRequestError(400, "the body must be a JSON object")
        return body


class Running:
    """One HTTP request on its way: its jobs, and what they tell."""

    def __init__(self, server: Server, asked: Asked, jobs: list[Job], ids: list[np.ndarray], reply: Reply):
        self.server, self.asked, self.jobs, self.ids, self.reply = server, asked, jobs, ids, reply
        self.queue: asyncio.Queue[tuple[Any, ...]] = asyncio.Queue()
        self.loop = asyncio.get_running_loop()
        self.until = None if server.settings.seconds is None else self.loop.time() + server.settings.seconds
        self.prompt_tokens = sum(map(len, ids))
        self.to_score = len(ids) if asked.only_scored else 0
        for place, job in enumerate(jobs):
            job.on_end = self._make_queue_callback(place, None)
            if asked.stream:
                job.on_token = self._make_queue_callback(place)

    def _make_queue_callback(self, place: int, *end: None) -> Callable[..., None]:
        """Returns what hands the event loop what a job tells: (place, text, token, noted); at its end (place, None)."""

        def tell_event_loop(*what: Any) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed, and no one listens
                self.loop.call_soon_threadsafe(self.queue.put_nowait, (place, *(end or what)))

        return tell_event_loop

    async def begin(self) -> None:
        """The jobs wait from now on, or prompts that are scored alone. Raises QueueFullError."""

        def enqueue_jobs(scheduler: Scheduler) -> None:
            scheduler.enqueue(self.jobs, self.server.to_score + self.to_score)
            self.server.to_score += self.to_score

        await asyncio.wrap_future(self.server.worker.ask(enqueue_jobs))

    async def respond_at_once(self, request: Request) -> Response:
        """The answer in one piece."""
        listening = asyncio.ensure_future(_wait_for_disconnect(request))
        try:
            await self._wait_for_answers(listening)
            return JSONResponse(await self._collect_answer(listening))
        finally:
            listening.cancel()
            await self._cancel_what_is_left()

    async def _wait_for_answers(self, listening: asyncio.Future[None]) -> None:
        for _ in self.jobs:
            await self._wait_in_time(self.queue.get(), listening)
        for job in self.jobs:
            _check_answered(job)

    async def _wait_in_time(self, what: Awaitable[Any], listening: asyncio.Future[None]) -> Any:
        """The awaited result. Raises RefusedRequestError if the client leaves first or the time is over."""
        getting = asyncio.ensure_future(what)
        left = None if self.until is None else max(0.0, self.until - self.loop.time())
        done, _pending = await asyncio.wait({getting, listening}, timeout=left, return_when="FIRST_COMPLETED")
        if getting not in done:
            getting.cancel()
            raise RefusedRequestError(499, "the client has left") if done else _make_timeout_error()
        return getting.result()

    async def _collect_answer(self, listening: asyncio.Future[None]) -> dict[str, Any]:
        choices: list[dict[str, Any]] = []
        for place, ids in enumerate(self.ids):
            echoed: list[Noted | None] | None = None
            said = self.server.model.tokenizer.decode(ids) if self.asked.echo else ""
            if self.asked.echo and self.asked.logprobs is not None:
                best = self.asked.logprobs
                ask = self.server.worker.ask(lambda _, ids=ids, best=best: self.server.score_prompt(ids, best))
                echoed = await self._wait_in_time(asyncio.wrap_future(ask), listening)
            if self.asked.only_scored:
                choices.append(self.reply.make_choice(len(choices), said, "length", ids, echoed))
                continue
            for hypothesis in self.jobs[place].answer:
                noted: list[Noted | None] | None = None
                new = hypothesis.token_ids
                if self.asked.logprobs is not None:
                    logs = self.jobs[place].answer._log_probs(hypothesis.index)
                    each = zip(logs.token_R, logs.best_RK, logs.best_logprob_RK, strict=True)
                    noted = [*(echoed or ()), *((float(p), best_K, top_K) for p, best_K, top_K in each)]
                shown = np.concatenate([ids, new]) if echoed else new
                choices.append(self.reply.make_choice(
                    len(choices), said + hypothesis.text, hypothesis.finish_reason or "stop", shown, noted
                ))  # fmt: skip
        return self.reply.make_response(choices, count_usage(self.jobs, self.prompt_tokens))

    async def stream_events(self) -> AsyncIterator[str]:
        """Server-sent events: chunks, at the end perhaps the usage, and [DONE]."""
        pieces: dict[int, Pieces] = {}
        try:
            for index in range(len(self.jobs) * self.asked.n if self.reply.is_chat else 0):
                yield _encode_event(self.reply.make_chunk(index, None, first=True))
            left = len(self.jobs)
            while left:
                wait = None if self.until is None else max(0.0, self.until - self.loop.time())
                try:
                    place, *event = await asyncio.wait_for(self.queue.get(), wait)
                except TimeoutError:
                    raise _make_timeout_error() from None
                job = self.jobs[place]
                if event == [None]:
                    left -= 1
                    _check_answered(job)
                    for chunk in self._last_chunks(place, pieces):
                        yield _encode_event(chunk)
                else:
                    text, token, noted = event
                    for chunk in self._pieces_of_text(place, text, pieces).push(token, noted):
                        yield _encode_event(chunk)
            if self.reply.usage_chunk:
                yield _encode_event(self.reply.make_usage_chunk(count_usage(self.jobs, self.prompt_tokens)))
            yield "data: [DONE]\n\n"
        except RefusedRequestError as refusal:
            yield _encode_event(refusal.body())
        finally:
            await asyncio.shield(self._cancel_what_is_left())

    def _pieces_of_text(self, place: int, text: int, pieces: dict[int, Pieces]) -> Pieces:
        index = place * self.asked.n + text
        if index not in pieces:
            options, model = self.jobs[place].options, self.server.model
            before = () if model.is_encoder_decoder else self.ids[place]
            stream = TextStream(model.tokenizer, options.stop_strings, options.keep_stop_strings, before)
            pieces[index] = Pieces(self.reply, index, stream)
        return pieces[index]

    def _last_chunks(self, place: int, pieces: dict[int, Pieces]) -> Iterator[dict[str, Any]]:
        """What was held back of each text; of beams all of it."""
        output = self.jobs[place].answer
        for hypothesis in output:
            growing = self._pieces_of_text(place, hypothesis.index, pieces)
            if self.jobs[place].options.num_beams > 1:
                logs = None if output.log_probs is None else output._log_probs(hypothesis.index)
                for n, token in enumerate(hypothesis.token_ids):
                    noted = logs and (float(logs.token_R[n]), logs.best_RK[n], logs.best_logprob_RK[n])
                    yield from growing.push(int(token), noted)
            yield from growing.end(hypothesis.finish_reason or "stop")

    async def _cancel_what_is_left(self) -> None:
        """What still waits or runs is cancelled: the client has left, or the time is over."""

        def cancel(scheduler: Scheduler) -> None:
            for job in self.jobs:
                scheduler.cancel(job)
            self.server.count_answered(self.jobs, self.prompt_tokens)
            self.server.to_score -= self.to_score

        self.server.worker.ask(cancel)


def _encode_key(key: str | None) -> set[bytes]:
    """The bytes that clients may send for a key: a header has no encoding, so those of UTF-8, and of latin-1."""
    if key is None:
        return set()
    sent = {key.strip().encode("utf-8", "surrogateescape")}
    with contextlib.suppress(UnicodeEncodeError):
        sent.add(key.strip().encode("latin-1"))
    return sent


async def _wait_for_disconnect(request: Request) -> None:
    """Returns when the client has left."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _refusal_response(request: Request, refusal: Exception) -> Response:
    assert isinstance(refusal, RefusedRequestError)
    return refusal.response()


async def _unserved_response(request: Request, error: Exception) -> Response:
    """A wrong address or method: an error that OpenAI's clients can show."""
    assert isinstance(error, HTTPException)
    message = "this address is not served: /v1/completions, /v1/chat/completions and /v1/models are"
    if error.status_code == 405:
        allowed = sorted((error.headers or {})["Allow"].split(", "))
        message = f"{request.method:.20} is not served at this address: send {' or '.join(allowed)}"
    return JSONResponse(error_body(message, "invalid_request_error"), error.status_code, error.headers)


async def _failure_response(request: Request, error: Exception) -> Response:
    """A mistake of the server's own. uvicorn's log has its traceback."""
    return JSONResponse(error_body("the server made a mistake: its log says which", "server_error"), 500)


def _check_answered(job: Job) -> None:
    """Raises RefusedRequestError unless the job has its answer."""
    if job.state == "failed":
        assert job.error is not None
        raise _make_refusal(job.error)
    if job.state != "done":
        raise RefusedRequestError(503, "the server ends: ask it again later", "server_error")


def _make_timeout_error() -> RefusedRequestError:
    return RefusedRequestError(504, "the request took longer than the server allows: ask for fewer tokens", "timeout")


def _make_refusal(error: Exception, text_field: str = "prompt") -> RefusedRequestError:
    """An error of the library as an answer. text_field: the field that holds what the model reads."""
    message = _in_fields(str(error))
    if isinstance(error, FieldError):
        return RefusedRequestError(400, str(error), param=error.name)
    if isinstance(error, QueueFullError):
        return RefusedRequestError(429, message, "rate_limit_error")
    if isinstance(error, InputError):
        return RefusedRequestError(400, message, param=text_field)
    if isinstance(error, OptionError):
        word = message.split()[0].partition("=")[0].strip(":'\"")
        return RefusedRequestError(400, message, param=word if word in FIELDS else None)
    if isinstance(error, MemoryBudgetError):
        cause = message.partition(": ")[0]  # its remedy names options of commands
        return RefusedRequestError(
            400, f"{cause}: shorten {text_field}, or lower max_tokens, n or num_beams; or the server's operator must"
            " raise --memory-budget", param="max_tokens"
        )  # fmt: skip
    return RefusedRequestError(500, message, "server_error")


def _in_fields(message: str) -> str:
    """An error of the library, which names options of `generate`, in the words of clients."""
    return re.sub(r"\w+", lambda word: FIELD_OF.get(word[0], word[0]), message)


@contextlib.contextmanager
def _answer_errors(text_field: str = "prompt") -> Iterator[None]:
    """Errors of the library become answers."""
    try:
        yield
    except (MinidecodeError, NumericalError) as error:
        raise _make_refusal(error, text_field) from None


def _encode_event(body: dict[str, Any]) -> str:
    return f"data: {json.dumps(body, ensure_ascii=False)}\n\n"


def count_rows_of_job(scheduler: Scheduler, job: Job) -> int:
    """How many rows a request has now: of texts that it writes, or that are being read."""
    reading = sum(len(reading.row_X) for reading in scheduler.readings if reading.job is job)
    return reading + sum(other is job for lane in scheduler.lanes for other in lane.jobs)


def _list_metrics(state: dict[str, Any]) -> list[tuple[str, Any, str, str]]:
    """(name, value, type, what it is)."""
    return [
        ("minidecode_requests_running", len(state["running"]), "gauge",
         "Requests that run, or whose texts are being read."),
        ("minidecode_requests_waiting", state["waiting"], "gauge", "Requests that wait."),
        ("minidecode_rows_running", state["rows"], "gauge",
         "Rows that run, or whose texts are being read."),
        ("minidecode_rows_most", state["most_rows"], "gauge", "Rows that there were at once, at most."),
        ("minidecode_requests_in_a_step_most", state["most_requests"], "gauge",
         "Requests whose rows shared one step at most."),
        ("minidecode_rows_capacity", state["capacity"], "gauge", "Rows that there may be at once."),
        ("minidecode_steps_total", state["steps"], "counter", "Steps."),
        ("minidecode_rows_computed_total", state["rows_computed"], "counter", "Rows of all steps."),
        ("minidecode_bytes_running", state["bytes"], "gauge", "Bytes that running requests may take."),
        ("minidecode_prompt_tokens_total", state["prompt_tokens"], "counter", "Tokens of prompts."),
        ("minidecode_read_tokens_total", state["read_tokens"], "counter",
         "Tokens of texts that were read, again after a preemption."),
        ("minidecode_prefix_hit_tokens_total", state["reused_tokens"], "counter",
         "Tokens that were not read, because pages had their keys and values."),
        *((f"minidecode_pages_{name}", number, "gauge", f"Pages that are {name}.")
          for name, number in state["pages"].items()),
        ("minidecode_new_tokens_total", state["new_tokens"], "counter", "Tokens of answers."),
        ("minidecode_first_token_seconds_total", state["first_token_seconds"], "counter",
         "Seconds from arrival to first token, summed."),
        ("minidecode_request_seconds_total", state["seconds"], "counter", "Seconds of requests that are over, summed."),
    ]  # fmt: skip
