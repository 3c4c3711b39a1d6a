"""An unchanged script of transformers: its models generate here, or its first calls are compared with ours.

`python -m minidecode.accelerate SCRIPT` and `minidecode prove SCRIPT` run the script in a process of its own. There
alone `GenerationMixin.generate` is replaced, when the script first imports it.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import importlib.abc
import importlib.util
import json
import runpy
import sys
import time
import types
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ..errors import MinidecodeError, RefusedError, counted, quoted
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


def copy_with_functions(value: Any, memo: dict[int, Any]) -> Any:
    """A deep copy, in which the script's own functions have variables of their own, too.

    memo: by the id of an object, what stands for it in the copy. Raises what the class of an object raises.
    """
    if id(value) in memo or isinstance(value, types.ModuleType):
        return memo.get(id(value), value)
    if isinstance(value, types.FunctionType):
        return _copy_of_function(value, memo) if value.__module__ == "__main__" else value
    if isinstance(value, tuple):
        return tuple(copy_with_functions(each, memo) for each in value)
    if isinstance(value, list | dict):
        memo[id(value)] = copied = copy.copy(value)  # it may hold itself
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            copied[key] = copy_with_functions(each, memo)
        return copied
    copied = copy.deepcopy(value, memo)
    if copied is not value and hasattr(copied, "__dict__"):
        functions = {key: each for key, each in vars(value).items() if isinstance(each, types.FunctionType)}
        vars(copied).update({key: copy_with_functions(each, memo) for key, each in functions.items()})
    return copied


def _copy_of_function(function: types.FunctionType, memo: dict[int, Any]) -> types.FunctionType:
    cells = tuple(types.CellType() for _ in function.__closure__ or ())
    variables = dict(function.__globals__)
    copied = types.FunctionType(function.__code__, variables, function.__name__, None, cells)
    memo[id(function)] = copied  # it may name itself
    copied.__defaults__, copied.__kwdefaults__ = (
        copy_with_functions(each, memo) for each in (function.__defaults__, function.__kwdefaults__)
    )
    for cell, old in zip(cells, function.__closure__ or (), strict=True):
        cell.cell_contents = copy_with_functions(old.cell_contents, memo)
    for name in _names_used(function.__code__) & variables.keys():
        variables[name] = copy_with_functions(variables[name], memo)
    return copied


def _names_used(code: types.CodeType) -> set[str]:
    """The names of other things that a function uses, and those of functions inside it."""
    return set(code.co_names).union(*(_names_used(each) for each in code.co_consts if isinstance(each, types.CodeType)))


class Watched:
    """What stands in place of `generate` while a script runs, and what its calls were.

    proved: this many calls, from the first, are answered by transformers and compared with ours, and the others are
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

    def accelerated_model(self, model: Any) -> Accelerated:
        """What generates here in place of this model."""
        if id(model) not in self.sides:
            self.sides[id(model)] = Accelerated(model, plan=self.plan)
        return self.sides[id(model)]

    def answer(self, model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """One call of `generate`. What it raises is counted, and raised on."""
        if self.proved is not None and len(self.calls) >= self.proved:
            return self.old(model, *args, **kwargs)
        call: dict[str, Any] = {"call": len(self.calls) + 1, "model": type(model).__name__}
        self.calls.append(call)
        try:
            if self.proved is not None:
                return self._generate_and_compare(call, model, args, kwargs)
            began = time.perf_counter()
            side = self.accelerated_model(model)
            ours = side(*args, **kwargs)
            call |= {"new_tokens": side.receipt.new_tokens, "seconds": time.perf_counter() - began}
            return ours
        except BaseException as error:
            how = (
                f"refused: {error}" if isinstance(error, MinidecodeError) else f"raised {type(error).__name__}: {error}"
            )
            call["raised"] = how
            raise

    def _generate_and_compare(
        self, call: dict[str, Any], model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """transformers' answer, and in `call` how it compares with ours.

        What functions keep is copied before: the script's own are called by transformers alone.
        """
        why = ""
        try:
            copied = copy_with_functions((args, {**kwargs, "streamer": None}), {id(model): model})
        except Exception as error:  # whatever the object's class does
            why = f"not compared: what it is given keeps state and cannot be copied ({type(error).__name__}: {error})"
        call |= {"same": None, "says": "not compared: generate of transformers raised an exception"}
        theirs = self.old(model, *args, **kwargs)
        call |= {"same": None, "says": why} if why else self._compare(model, *copied, theirs)
        return theirs

    def _compare(self, model: Any, args: tuple[Any, ...], kwargs: dict[str, Any], theirs: Any) -> dict[str, Any]:
        """What a comparison with transformers' answer says, and whether the two are the same."""
        try:
            side = self.accelerated_model(model)
            of_call = side.arguments(*args, **kwargs)
            if side.is_sampled(**of_call):
                return {"same": None, "says": "it draws at random, and the draws of the two differ: not compared"}
            ours = side(**of_call)
            return {"same": True, "says": compare_results(side, theirs, ours, of_call)}
        except RefusedError as error:
            return {"same": False, "says": str(error)}
        except MinidecodeError as error:
            return {"same": False, "says": f"it cannot run here: {error}"}
        except Exception as error:  # of a function of the script's; the script itself goes on as without a proof
            return {"same": False, "says": f"it cannot run here: it raised {type(error).__name__}: {error}"}

    def report(self) -> str:
        """What there was, in words."""
        if not self.calls:
            return "no call of generate was seen"
        if self.proved is not None:
            return "\n".join(f"call {call['call']}, {call['model']}: {call['says']}" for call in self.calls)
        ran = [call for call in self.calls if "raised" not in call]
        tokens, seconds = (sum(call[name] for call in ran) for name in ("new_tokens", "seconds"))
        lines = [
            f"{counted(len(ran), 'call')} of generate ran in minidecode: {counted(tokens, 'new token')}, "
            f"{seconds:.2f} s"
        ]
        lines += [f"call {c['call']}, {c['model']}, {c['raised']}" for c in self.calls if "raised" in c]
        sides = [side for side in self.sides.values() if side.receipt is not None]
        return "\n".join(lines + [f"{type(side.live).__name__}, the last call: {side.receipt}" for side in sides])

    @property
    def has_succeeded(self) -> bool:
        """Whether what was asked for was done: some call ran here, or some was compared and none differs."""
        if self.proved is None:
            return any("raised" not in call for call in self.calls)
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
    for text in (failure, watched.report()):
        if text:
            print(text, file=sys.stderr)
    if asked.json:
        print(json.dumps({"calls": watched.calls, "script_ended_with": code}, indent=1))
    return code or int(not watched.has_succeeded)
