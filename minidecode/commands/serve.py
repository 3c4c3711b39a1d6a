"""`minidecode serve`: a model behind OpenAI's interface."""

from __future__ import annotations

import errno
import os
import socket
import sys
from typing import Annotated

import typer

from ..errors import OptionError, pip_install
from .completion import complete_model
from .flags import MODEL_HELP, Debug, Dtype, PlanText, Quiet, Revision, warn_of_files
from .interrupts import Terminated
from .progress_bar import progress_bar

KEY_VARIABLE = "MINIDECODE_API_KEY"


def serve(
    model: Annotated[str, typer.Argument(autocompletion=complete_model, help=MODEL_HELP)] = "tiny-gpt2",
    revision: Revision = None,
    host: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 lets other machines in.")]
    = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")] = 8000,
    api_key: Annotated[str | None, typer.Option(help="Key that clients send; better in MINIDECODE_API_KEY.")] = None,
    name: Annotated[str | None, typer.Option(help="Name of the model for clients.  [default: as given]")] = None,
    max_rows: Annotated[int, typer.Option(min=1, help="Rows (texts and beams) that run at once.")] = 32,
    max_prefill_tokens: Annotated[int, typer.Option(min=1, help="Tokens of prompts that one step reads.")] = 512,
    max_waiting: Annotated[int, typer.Option(min=0, help="Requests that wait; beyond them, 429.")] = 256,
    memory_budget: Annotated[str, typer.Option(help="Memory for all requests, such as 2GB, or none for no limit.")]
    = "available",
    timeout: Annotated[float, typer.Option(min=0, help="Seconds that a request may take; 0: no limit.")] = 600,
    max_body: Annotated[int, typer.Option(min=1, help="Bytes of a request's body at most.")] = 2**22,
    body_timeout: Annotated[float, typer.Option(min=0, help="Seconds that a request may take to come; 0: no limit.")]
    = 30,
    plan: PlanText = "auto", dtype: Dtype = "float32",
    quiet: Quiet = False, debug: Debug = False,
):  # fmt: skip
    """Serve a model by OpenAI's interface: completions and chat.

    Requests share steps: each joins the running batch when it comes and leaves when it is done. The address / has a
    page to look at. Ctrl-C or SIGTERM ends the server when all that runs has its answer.
    """
    try:
        import uvicorn

        from ..serving.server import LOOPBACK, Server, Settings
        from ..serving.sockets import http_of
    except ModuleNotFoundError as error:
        if error.name in ("starlette", "uvicorn"):
            raise OptionError(f"serve needs the package {error.name}: {pip_install(error.name, 'serve')}") from None
        raise
    from .. import load
    from ..serving.scheduler import Scheduler

    key = api_key if api_key is not None else os.environ.get(KEY_VARIABLE)
    if key is not None and not key.strip():
        raise OptionError("the API key is empty: give one, or none")
    shown_host = f"[{host}]" if ":" in host else host
    is_local = shown_host in LOOPBACK
    try:
        socket.getaddrinfo(host, port)  # a name that is none is an error of its own here
        listening = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except (OSError, UnicodeError) as error:  # UnicodeError: a name that no address could have
        raise OptionError(_listening_error(host, port, error)) from None
    if not is_local and key is None:
        print(f"minidecode: {host} lets other machines in, and no --api-key is set: anybody may ask", file=sys.stderr)
    warn_of_files(plan)
    with progress_bar(f"loading {model}", quiet):
        loaded = load(model, plan=plan, dtype=dtype, revision=revision)
    scheduler = Scheduler(
        loaded, max_rows=max_rows, max_prefill_tokens=max_prefill_tokens, max_waiting=max_waiting,
        memory_budget=memory_budget,
    )  # fmt: skip
    settings = Settings(name or model, key, max_body, timeout or None, LOOPBACK if is_local else None)
    app = Server(scheduler, settings).app()
    print(
        f"minidecode: {settings.name} at http://{shown_host}:{listening.getsockname()[1]}", file=sys.stderr, flush=True
    )
    http = http_of(body_timeout or None)
    config = uvicorn.Config(app, http=http, log_level="warning", server_header=False, timeout_keep_alive=30)
    server = uvicorn.Server(config)
    try:
        server.run(sockets=[listening])
    except (KeyboardInterrupt, Terminated):  # uvicorn raises the signal again when all is done
        if not server.should_exit:
            raise


def _listening_error(host: str, port: int, error: OSError | UnicodeError) -> str:
    """Why no server can listen there, and which of the two options to change."""
    if isinstance(error, socket.gaierror | UnicodeError) or error.errno in (errno.EADDRNOTAVAIL, errno.EINVAL):
        return f"--host {host!r:.80} is no address of this machine: use 127.0.0.1, or 0.0.0.0 to let other machines in"
    if error.errno == errno.EACCES:
        return f"{host}:{port} cannot be listened on ({os.strerror(error.errno)}): choose a --port from 1024 up"
    why = os.strerror(error.errno) if error.errno else error.strerror  # Python adds the address, in its own words
    return f"{host}:{port} cannot be listened on ({why}): choose another --port"
