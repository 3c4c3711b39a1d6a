"""A student's engine, as the judge sees it: functions that are called in processes of their own.

`load` runs where the checkpoint can be read. All that is counted runs elsewhere, in processes that never saw it: there
the model's arrays are with the judge (elsewhere.py), which makes each product with them and counts it. A cache that is
weighed goes as bytes into a process that knows nothing else. So no engine can keep results, or hide what it holds.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..exercises import sandbox
from ..exercises.kernel_source import Refused, parse_kernel_file
from .elsewhere import SMALL
from .weights import Weights

CHILD = Path(__file__).with_name("engine_child.py")
SECONDS, TOTAL = 60.0, 180.0  # for one call, and for all of a process
BESIDE = 256 * 1024  # bytes of a model that may be no large arrays: norms, biases, names, shapes
PICKLED = 200  # bytes that one array takes of a cache's description


class EngineError(Exception):
    """What the engine raised, or that its process ended. kind: the type's name, or that of a sandbox.Failed."""

    def __init__(self, kind: str, message: str, where: str = ""):
        super().__init__(message)
        self.kind, self.message, self.where = kind, message, where

    def __str__(self) -> str:
        notes = "".join(f" ({note})" for note in getattr(self, "__notes__", ()))
        message = self.message or self.kind
        return f"{self.where}{message if self.kind == 'NotImplementedError' else f'{self.kind}: {self.message}{notes}'}"


@dataclass(eq=False)
class Model:
    """What `load` or a function of models gave. plain: its number in the process that has the checkpoint."""

    plain: int
    stream: np.ndarray
    arrays: list[np.ndarray]
    first: int  # of its arrays among the judge's

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.arrays) + self.stream.nbytes


@dataclass
class Ask:
    """A function of the judge's, by its name among the engine's `callbacks`, that the engine's function may call."""

    name: str


@dataclass(eq=False)
class Kept:
    """An object of a process, such as a cache."""

    box: sandbox.Sandbox
    number: int


@dataclass
class Weighed:
    """A cache as bytes. nbytes: what must be held; seen: bytes of its arrays, parts of larger ones counted as parts."""

    stream: np.ndarray
    arrays: list[np.ndarray]
    seen: int

    @property
    def nbytes(self) -> int:
        described = self.stream.nbytes - PICKLED * (len(self.arrays) + 20)
        return sum(array.nbytes for array in self.arrays) + max(0, described)


@dataclass
class Engine:
    """The engine at `path`, with its checkpoint. Close it; each stage begins with `fresh`."""

    path: Path
    folder: Path
    weights: Weights = field(default_factory=Weights)
    launched: list[Any] = field(default_factory=list)  # what kernels gave that the engine launched

    def __post_init__(self) -> None:
        self.folder = self.folder.resolve()
        self.source = self.path.read_text(encoding="utf-8-sig", errors="replace")
        self._boxes: list[sandbox.Sandbox] = []
        self._loaders: dict[Path, sandbox.Sandbox] = {}
        self._models: dict[tuple[sandbox.Sandbox, Model], int] = {}  # its number in a process
        self.callbacks: dict[str, Callable] = {
            "numbers": self.weights.numbers, "product": self.weights.product, "launch": self._launch
        }  # fmt: skip
        self._model: Model | None = None

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        for box in (*self._boxes, *self._loaders.values()):
            box.close()
        self._boxes, self._loaders = [], {}

    def end_processes(self) -> None:
        """Ends the processes in which something may be kept."""
        for box in self._boxes:
            box.close()
        self._boxes, self._models = [], {}

    @property
    def function_names(self) -> list[str]:
        return self._ask(self._loader(self.folder), "names")["names"]

    # Where the checkpoint is

    def load(self, folder: Path | None = None) -> Model:
        """The model in a folder; that of the checkpoint is loaded once."""
        if folder is not None:
            return self._make_model(folder.resolve(), "load", str(folder.resolve()))
        if self._model is None:
            self._model = self._make_model(self.folder, "load", str(self.folder))
        return self._model

    def of_model(self, function: str, *args: Any) -> Model:
        """Another model, such as an int8 one, made where the numbers are."""
        return self._make_model(self.folder, function, {"kept": self.load().plain}, *args)

    def call_plainly(self, function: str, model: Model, *args: Any) -> Any:
        """A function's result where the numbers are: nothing is counted."""
        return self._use(self._loader(self.folder), function, [{"kept": model.plain}, *args], [])

    def _make_model(self, folder: Path, function: str, *args: Any) -> Model:
        box = self._loader(folder)
        number = self._use(box, function, list(args), [None])["kept"]
        reply = self._ask(box, "dump", number=number, small=SMALL)
        if reply["stream"].nbytes > BESIDE:
            weighs = f"{function} gives a model with {reply['stream'].nbytes:,} bytes beside its large arrays"
            raise EngineError("ValueError", f"{weighs}, and {BESIDE:,} are the most: keep weights in arrays of NumPy")
        return Model(number, reply["stream"], reply["arrays"], self.weights.add(reply["arrays"]))

    def _loader(self, folder: Path) -> sandbox.Sandbox:
        if folder not in self._loaders or not self._loaders[folder].is_alive:
            self._loaders[folder] = self._started(folder)
        return self._loaders[folder]

    # Where it is not

    def call(self, function: str, *args: Any, kept: tuple[int | None, ...] = (), **named: str) -> Any:
        """A function's result. Caches come as Kept; named: functions of the engine, by their names."""
        caches = [a for a in args if isinstance(a, Kept)]
        box = caches[0].box if caches else self._compute_box()
        given = [self._send_argument(box, a) for a in args]
        return self._use(box, function, given, list(kept), {k: {"function": n} for k, n in named.items()})

    def dump_cache(self, cache: Kept) -> Weighed:
        reply = self._ask(cache.box, "dump", number=cache.number, small=0)
        return Weighed(reply["stream"], reply["arrays"], reply["seen"])

    def move_to_new_process(self, cache: Weighed) -> Kept:
        """The cache in a process that has nothing else."""
        self._boxes.append(self._started(None))
        box = self._boxes[-1]
        arrays = cache.arrays or [np.empty(0, np.uint8)]
        return Kept(box, self._ask(box, "take", stream=cache.stream, arrays=arrays, first=0)["number"])

    def _compute_box(self) -> sandbox.Sandbox:
        if not self._boxes or not self._boxes[0].is_alive:
            self._boxes[:1] = [self._started(None)]
        return self._boxes[0]

    def _send_argument(self, box: sandbox.Sandbox, value: Any) -> Any:
        if isinstance(value, Ask):
            return {"ask": value.name}
        if isinstance(value, Kept):
            return {"kept": value.number}
        if not isinstance(value, Model):
            return value
        key = box, value
        if key not in self._models:
            reply = self._ask(box, "take", stream=value.stream, arrays=[], first=value.first)
            self._models[key] = reply["number"]
        return {"kept": self._models[key]}

    def _started(self, folder: Path | None) -> sandbox.Sandbox:
        box = sandbox.numpy_sandbox(folder, CHILD, seconds=SECONDS)
        box.end_after(TOTAL)
        with self._closed_on_failure(box):
            self._ask(box, "load", source=self.source, file=self.path.name, package="", measure=False)
        return box

    @contextlib.contextmanager
    def _closed_on_failure(self, box: sandbox.Sandbox):
        try:
            yield
        except BaseException:
            box.close()
            raise

    def _use(self, box: sandbox.Sandbox, function: str, args: list[Any], kept: list, named: dict | None = None) -> Any:
        reply = self._ask(box, "use", function=function, arguments=args, named=named or {}, kept=kept)
        result = reply["result"]
        if reply.get("changed"):
            raise EngineError("ValueError", f"{function} changed the list that it was given: copy it first")
        if kept == [None]:
            return Kept(box, result["kept"]) if box in self._boxes else result
        if kept:
            return [Kept(box, r["kept"]) if k in kept else r for k, r in enumerate(result)]
        return result

    def _ask(self, box: sandbox.Sandbox, do: str, **what: Any) -> dict[str, Any]:
        try:
            reply = box.ask(do, callbacks=self.callbacks, **what)
        except sandbox.Failed as failed:
            what_ = "is there an endless loop, or a call that ends Python?"
            raise EngineError(failed.kind, f"{failed.what}: {what_}") from None
        if isinstance(error := reply.get("error"), dict):
            line, inside = error.get("line"), error.get("function")
            where = (
                f"line {line}" + (f", in {inside}" if inside and inside != "<module>" else "") + ": " if line else ""
            )
            raise EngineError(str(error.get("type")), str(error.get("message")), where)
        return reply

    # Kernels

    def _launch(self, kernel: str, shape: list[Any], arguments: list[Any]) -> list[np.ndarray]:
        arrays, _ = self.run_kernel(kernel, shape, arguments)
        self.launched.append(arrays)
        return arrays

    def run_kernel(self, kernel: str, shape: list[Any], arguments: list[Any], **options: Any) -> tuple[list, dict]:
        """(the arrays afterwards, what the emulator saw): the kernel is read as data, and runs with the judge."""
        parse_kernel_file(self.source, self.path.name)
        with sandbox.kernel_sandbox(seconds=SECONDS) as box:
            box.end_after(SECONDS)
            try:
                reply = box.ask("load", source=self.source, file=self.path.name, kernel=kernel, shape="")
                if "refused" not in reply:
                    reply = box.ask("run", arguments=arguments, shape_arguments=[], launch=shape, options=options,
                                   picture=False)  # fmt: skip
            except sandbox.Failed as failed:
                raise EngineError(failed.kind, failed.what) from None
        if "refused" in reply:
            raise Refused(str(reply["refused"]), str(reply["message"]))
        return reply["arrays"], reply
