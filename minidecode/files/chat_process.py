"""The process that runs a chat template: JSON in, JSON out, with a limit on processor time and on memory.

It is started as a file by chat.py, and imports nothing but Python's own modules and Jinja.
"""

import contextlib
import json
import os
import signal
import sys
import threading


def limit_own_time_and_memory(seconds: float, most_bytes: int, out_of_time: int) -> None:
    """What the system can hold this process to from now on. Time is the processor's, where the system counts it."""
    with contextlib.suppress(ImportError):
        import resource

        limits = ("RLIMIT_DATA", most_bytes), ("RLIMIT_AS", 4 * most_bytes)  # files that are mapped count in AS
        for name, bytes in limits:
            with contextlib.suppress(AttributeError, ValueError, OSError):
                resource.setrlimit(getattr(resource, name), (bytes, bytes))
    if hasattr(signal, "setitimer"):
        signal.signal(signal.SIGPROF, signal.SIG_DFL)  # which ends the process
        signal.setitimer(signal.ITIMER_PROF, seconds)
    else:
        timer = threading.Timer(seconds, os._exit, (out_of_time,))
        timer.daemon = True
        timer.start()


def sandboxed_environment():
    """Jinja's sandbox with what transformers gives to templates."""
    from jinja2 import nodes
    from jinja2.exceptions import SecurityError, TemplateError
    from jinja2.ext import Extension
    from jinja2.sandbox import ImmutableSandboxedEnvironment
    from jinja2.utils import Namespace

    class Generation(Extension):
        """{% generation %} ... {% endgeneration %}: marks what an assistant said, and changes no text."""

        tags = frozenset({"generation"})

        def parse(self, parser):
            line = next(parser.stream).lineno
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            return nodes.Scope(body, lineno=line)  # what is set inside stays inside

    class PlainNamespace(Namespace):
        """namespace(): its names begin with no underscore."""

        def __init__(*args, **kwargs):  # `self` may be one of them
            self, *given = args
            names = dict(*given, **kwargs)
            for name in names:
                PlainNamespace.check_name(name)
            Namespace.__init__(self, names)

        def __setitem__(self, name, value):
            PlainNamespace.check_name(name)
            super().__setitem__(name, value)

        @staticmethod
        def check_name(name):
            if isinstance(name, str) and name.startswith("_"):
                raise SecurityError(f"a namespace takes no name that begins with an underscore: {name!r}")

    def raise_exception(message):
        raise TemplateError(message)

    def strftime_now(format):
        import datetime

        return datetime.datetime.now().strftime(format)

    def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    extensions = [Generation, "jinja2.ext.loopcontrols"]
    made = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=extensions)
    made.filters["tojson"] = tojson
    made.globals |= {
        "raise_exception": raise_exception, "strftime_now": strftime_now, "namespace": PlainNamespace,
    }  # fmt: skip
    return made


def main() -> None:
    job = json.load(sys.stdin.buffer)
    made = sandboxed_environment()
    out_of_time, out_of_memory = job["codes"]
    limit_own_time_and_memory(job["seconds"], job["bytes"], out_of_time)
    try:
        template = made.from_string(job["template"])
        known = {"messages": job["messages"], "tools": None, "documents": None, "add_generation_prompt": True}
        text = template.render(job["tokens"] | known)
        answer = {"text": text}
    except MemoryError:
        os._exit(out_of_memory)
    except Exception as error:  # whatever a template does
        message = " ".join("".join(c if c.isprintable() else " " for c in str(error)).split())[:200]
        answer = {"error": f"{type(error).__name__}: {message}" if message else type(error).__name__}
    try:
        data = json.dumps(answer).encode()
    except MemoryError:
        os._exit(out_of_memory)
    sys.stdout.buffer.write(data)


if __name__ == "__main__":
    main()
