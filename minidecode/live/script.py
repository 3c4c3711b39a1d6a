"""An unchanged script of transformers: its models generate here, or its first calls are compared with ours.

`python -m minidecode.accelerate SCRIPT` and `minidecode prove SCRIPT` run the script in a process of its own. There
alone `GenerationMixin.generate` is replaced, when the script first imports it.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.abc
import importlib.util
import json
import runpy
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ..errors import MinidecodeError, RefusedError, quoted
from .accelerate import Accelerated
from .proof import compare_results

GENERATION = "transformers.generation.utils"  # the module whose GenerationMixin every model inherits from


class AfterImport(importlib.abc.MetaPathFinder):
    """Calls a function with a module when that is first imported."""

    def __init__(self, name: str, call: Callable[[Any], None]):
        self.name, self.call = name, call

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> Any:
        if fullname != self.name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def run_then_call(module: Any) -> None:
                run(module)
                self.call(module)

            spec.loader.exec_module = run_then_call  # type: ignore[method-assign]
        return spec


class Watched:
    """What stands in place of `generate` while a script runs, and what its calls were.

    proved: so many calls, from the first, are answered by transformers and compared with ours, and the others are
    transformers' alone. None: all calls are answered here.
    """

    def __init__(self, plan: str, proved: int | None):
        self.plan, self.proved = plan, proved
        self.calls: list[dict[str, Any]] = []
        self.sides: dict[int, Accelerated] = {}  # by the id of a model; the side keeps the model
        self.old: Any = None

    def install(self, module: Any) -> None:
        """Replaces `generate` of a module that is transformers.generation.utils."""
        self.old = module.GenerationMixin.generate
        watched = self

        def generate(model: Any, *args: Any, **kwargs: Any) -> Any:
            return watched.answer(model, args, kwargs)

        module.GenerationMixin.generate = generate

    def side(self, model: Any) -> Accelerated:
        """What generates here in place of this model."""
        if id(model) not in self.sides:
            self.sides[id(model)] = Accelerated(model, plan=self.plan)
        return self.sides[id(model)]

    def answer(self, model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """One call of `generate`."""
        call = {"call": len(self.calls) + 1, "model": type(model).__name__}
        if self.proved is not None:
            theirs = self.old(model, *args, **kwargs)
            if len(self.calls) < self.proved:
                self.calls.append(call | self._compare(model, args, kwargs, theirs))
            return theirs
        began = time.perf_counter()
        side = self.side(model)
        ours = side(*args, **kwargs)
        seconds = time.perf_counter() - began
        self.calls.append(call | {"new_tokens": side.receipt.new_tokens, "seconds": seconds})
        return ours

    def _compare(self, model: Any, args: tuple[Any, ...], kwargs: dict[str, Any], theirs: Any) -> dict[str, Any]:
        """What a comparison with transformers' answer says, and whether the two are the same."""
        try:
            side = self.side(model)
            of_call = side.arguments(*args, **kwargs)
            if side.draws(**of_call):
                return {"same": None, "says": "it draws at random, and the draws of the two differ: not compared"}
            ours = side(**{**of_call, "streamer": None})
            return {"same": True, "says": compare_results(side, theirs, ours, of_call)}
        except RefusedError as error:
            return {"same": False, "says": str(error)}
        except MinidecodeError as error:
            return {"same": False, "says": f"it cannot run here: {error}"}

    def report(self) -> str:
        """What there was, in words."""
        if self.proved is not None:
            return "\n".join(f"call {call['call']}, {call['model']}: {call['says']}" for call in self.calls)
        tokens, seconds = (sum(call[name] for call in self.calls) for name in ("new_tokens", "seconds"))
        lines = [f"{len(self.calls)} calls of generate ran in minidecode: {tokens} new tokens, {seconds:.2f} s"]
        lines += [f"{type(side.live).__name__}, the last call: {side.receipt}" for side in self.sides.values()]
        return "\n".join(lines)

    @property
    def is_proved(self) -> bool:
        """Whether some call was compared, and none differs."""
        same = [call["same"] for call in self.calls]
        return False not in same and True in same


def run_script(script: Path, arguments: Sequence[str], watched: Watched) -> tuple[int, str]:
    """Runs it as `python SCRIPT ARGUMENTS` would -> (its exit code, what ended it if an error did)."""
    sys.argv, sys.path[0] = [str(script), *arguments], str(script.resolve().parent)
    if GENERATION in sys.modules:
        watched.install(sys.modules[GENERATION])
    else:
        sys.meta_path.insert(0, AfterImport(GENERATION, watched.install))
    try:
        runpy.run_path(str(script), run_name="__main__")
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        return code, end.code if isinstance(end.code, str) else ""
    except MinidecodeError as error:
        return 1, str(error)
    return 0, ""


def main(given: Sequence[str] | None = None) -> int:
    """The command line of `python -m minidecode.accelerate`; the exit code."""
    parser = argparse.ArgumentParser(
        "python -m minidecode.accelerate",
        description="Run an unchanged script of transformers: its models generate in minidecode. A receipt ends it.",
    )
    parser.add_argument("--plan", default="fast", help="the plan of its models (default: fast)")
    parser.add_argument("--prove", type=int, metavar="N", help="compare its first N calls instead")
    parser.add_argument("--json", action="store_true", help="print the report as JSON to stdout, all else to stderr")
    parser.add_argument("script", type=Path)
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="what the script itself is given")
    asked = parser.parse_args(given)
    if not asked.script.is_file():
        parser.error(f"there is no script {quoted(asked.script)}")
    watched = Watched(asked.plan, asked.prove)
    with contextlib.redirect_stdout(sys.stderr) if asked.json else contextlib.nullcontext():
        code, failure = run_script(asked.script, asked.arguments, watched)
    sys.stdout.flush()
    for text in (failure, watched.report() if watched.calls else "no call of generate was seen"):
        if text:
            print(text, file=sys.stderr)
    if asked.json:
        print(json.dumps({"calls": watched.calls, "script_ended_with": code}, indent=1))
    return code or int(not (watched.calls if asked.prove is None else watched.is_proved))
