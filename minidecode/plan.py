"""A plan: one choice per optimization, resolved once into (ops, cache factory)."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import importlib.util
import inspect
import pkgutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from . import ops as signatures
from . import reference
from .cache.el import ElCache
from .cache.factory import CacheFactory
from .cache.indirect import IndirectCache
from .cache.no_cache import NoCache
from .cache.paged import PagedCache
from .cache.preallocated import PreallocatedCache
from .cache.protocol import ChosenCache
from .cache.replicated import ReplicatedCache
from .cache.rolling import RollingCache
from .cache.split import SplitCache
from .catalog import CATALOG, Row
from .device.arrays import device_kind, why_kernels_do_not_compile
from .device.launch import InEmulator, OnHost, with_numba_launches
from .device.low_precision import DYNAMIC
from .device.user_functions import UserOp
from .errors import CompiledCodeError, OptionError, did_you_mean
from .plan_rows import PlanRows

CACHES: dict[str, type[ChosenCache]] = {
    "none": NoCache,
    "replicated": ReplicatedCache,
    "preallocated": PreallocatedCache,
    "split": SplitCache,
    "indirect": IndirectCache,
    "paged": PagedCache,
    "rolling": RollingCache,
    "el": ElCache,
}
BACKENDS = ("reference", "naive", "cpu", "cuda", "emulator")
ROUNDED = ("linear", "epilogue", "cross_kv")  # rows with one more choice: NumPy's code under the rule of devices
SWITCHES = {"drop_finished": ("off", "on"), "graphs": ("off", "auto", "on"), "launch": ("packed", "numba")}
BASES = {  # what a plan starts from, beside cache_dtype=computed; rows of the catalog follow Plan._base_choice
    "auto": {"cache": "replicated", "arena": "none", "drop_finished": "on", "graphs": "off"},
    "numpy": {"cache": "replicated", "arena": "none", "drop_finished": "on", "graphs": "off"},
    "naive": {"cache": "none", "arena": "none", "drop_finished": "off", "graphs": "off"},
    # An arena for one call costs more than it saves.
    "fast": {"cache": "split", "arena": "none", "drop_finished": "on", "graphs": "auto", "hars": "auto"},
    "emulator": {"cache": "split", "arena": "none", "drop_finished": "off", "graphs": "off"},
    # A step that is as large as the one before can be captured.
    "cuda": {"cache": "split", "arena": "none", "drop_finished": "off", "graphs": "auto"},
}
OF_ENCODERS = ("linear", "epilogue", "linear_int8", "norm", "heads", "prefill", "embedding", "activation")
# All that a plan chooses, in the order in which it is written.
CHOICES = ("cache", "cache_dtype", "arena", *SWITCHES, *(name for name in CATALOG if name != "arena"))
STORED_AS = {"computed": None, "float16": np.dtype(np.float16)}


@dataclass(frozen=True)
class Plan(PlanRows):
    """Which implementation of each optimization runs.

    base: what everything else is chosen by that is not said. "auto" is "fast" for a call that is long enough to gain by
    it and whose compiled code lies on disk, and else "numpy"; it never waits for a compiler, never changes within a
    call, and the receipt says which it was and why. It stands alone: beside it, any choice makes it "numpy", so that
    plans that are compared differ in what they name. "numpy": a cache, and NumPy's code; "naive": no cache, and of each
    optimization what its paper starts from; "fast": the compiled code of all that has some, and the split cache;
    "emulator": every kernel that there is, thread by thread, for toys; "cuda": every kernel, on a device, which is what
    "auto" and "fast" come to there. What a base chooses and a model has no use for
    is left out; what a user says must have an effect.
    cache: "none" computes every token again at every step; "replicated" keeps keys and values, a copy per beam, in
    arrays that grow; "preallocated" the same in arrays with room; "split" keeps a sentence's prompt (and source) once;
    "indirect" does too, and moves a table instead of keys and values when beams change places; "paged" keeps all in
    pages of 16 positions, which beams and samples share until one of them writes; "rolling" keeps the last positions
    alone, for a model with an attention_window; "el" keeps, in the place of the keys and values of a
    prompt or a source, the hidden states that they are made from.
    cache_dtype: "computed" stores in a cache what was computed; "float16" stores keys and values (and EL's hidden
    states) in half of the bytes, each rounded once when it is written. Queries, scores, softmax and sums stay as they
    are (LightSeq, section 3.2), and so does a prompt's attention to itself, which comes before anything is stored.
    What is beyond float16's range is stored as its largest number, 65,504. It is nearly the same model, but equal
    tokens are not promised.
    arena: "none" lets every op of a step find room for itself; "planned" gives all that a step makes its place in one
    buffer, those that no call needs together sharing it (LightSeq, section 2.3); "separate" gives each a buffer; and
    FILE.py:FUNCTION, a planner of yours (`assign_offsets`), finds the places, which are looked at before a step runs.
    drop_finished: "on" takes a sentence out of the batch when its search is done: later steps compute fewer rows;
    "off" computes its rows until all are done (the naive batch, and what has to be as large at every step).
    graphs: "on" captures on a device what is the same in every step, launches it as one (CUDA graphs), and keeps it for
    later calls with the same options and texts of about the same lengths; in a step with a function of the host, the
    forward pass alone is captured, and a cache must write in place. "auto", the choice of cuda and fast, does so where
    there are a device and such a cache. On the CPU, "auto" makes the forward pass of a step one compiled call, if it
    has at most 16 rows and all of its ops are compiled code of the plan fast; the receipt says why if they are not.
    "off" launches kernel by kernel, and calls op by op.
    launch: "packed" launches a kernel on a device with arguments that minidecode packs itself; "numba" leaves that to
    Numba, which takes the host about ten times as long. Captured steps take the same time in both.
    The others are rows of the catalog: "reference", "naive" (both NumPy), "cpu" (Numba), "cuda" (needs a GPU),
    "emulator" (the same kernel thread by thread, which is slow), or a function of yours as FILE.py:FUNCTION.
    linear, epilogue and cross_kv may be "rounded", too: NumPy's code, which rounds activations to float16 where weights
    have fewer bits than float32, as kernels do. So a CPU computes what a device does.
    hars is "auto" in fast, and "off" in other plans. With it, beam search takes candidates straight from the logits at
    the steps at which the options touch no score on its way: the receipt counts those as hars_candidates, the others as
    top_candidates.
    Options that leave no such step are refused, save with hars=auto, which takes it where it may. A search with one row
    per text has no candidates.
    epilogue is "off" by default, too. Otherwise the products of a layer's output and of its feed-forward part end in
    bias, activation and residual, and a kernel of bias and activation never runs.
    """

    base: str = "auto"
    cache: str | None = None
    cache_dtype: str = "computed"
    drop_finished: str | None = None
    graphs: str | None = None
    launch: str | None = None

    def __post_init__(self):
        if isinstance(self.base, str) and self.base not in BASES and ("=" in self.base or "," in self.base):
            raise OptionError(f"plan: Plan takes choices one by one: give the text to Plan.parse({self.base!r:.80})")
        if not isinstance(self.base, str) or self.base not in BASES:
            raise OptionError(f"plan: base={self.base!r:.80} is not one of {', '.join(BASES)}")
        said = [name for name in ("cache", *SWITCHES, *CATALOG) if getattr(self, name) is not None]
        if self.base == "auto" and (said or self.cache_dtype != "computed"):
            object.__setattr__(self, "base", "numpy")
        for name in ("cache", *SWITCHES, *CATALOG):
            if getattr(self, name) is None:
                object.__setattr__(self, name, self._base_choice(name))
        if not isinstance(self.cache, str) or self.cache not in CACHES:
            raise OptionError(
                f"plan: cache={self.cache!r} is not one of {', '.join(CACHES)}{did_you_mean(str(self.cache), CACHES)}"
            )
        if not isinstance(self.cache_dtype, str) or self.cache_dtype not in STORED_AS:
            raise OptionError(f"plan: cache_dtype={self.cache_dtype!r} is not one of {', '.join(STORED_AS)}")
        if self.cache_dtype != "computed" and not CACHES[self.cache].keeps:
            raise OptionError(f"plan: cache_dtype={self.cache_dtype} has no effect with cache={self.cache}")
        for name, choices in SWITCHES.items():
            if (switch := getattr(self, name)) not in choices:
                raise OptionError(f"plan: {name}={switch!r} is not one of {', '.join(choices)}")
        if self.graphs == "on" and not CACHES[self.cache].in_place:
            say = f"plan: graphs=on has no effect with cache={self.cache}, whose steps cannot be captured"
            raise OptionError(f"{say}: use cache=split")
        for row in CATALOG.values():
            choice, choices = getattr(self, row.name), ("off", "auto", *BACKENDS) if row.may_be_off else BACKENDS
            choices = tuple(row.spelled) or choices + ("rounded",) * (row.name in ROUNDED)
            if not isinstance(choice, str) or not (choice in choices or ":" in choice):
                raise OptionError(f"plan: {row.name}={choice!r} is not one of {', '.join(choices)} or FILE.py:FUNCTION")
            replaced = [name for name in row.instead_of if choice != "off" and self._is_asked_for(CATALOG[name])]
            if replaced:
                say = f"plan: {replaced[0]}={getattr(self, replaced[0])} has no effect with {row.name}={choice}"
                raise OptionError(f"{say}: leave one of the two out")
            if self._is_asked_for(row) and self.cache not in (callers := caches_that_call(row)):
                say = " or ".join(f"cache={cache}" for cache in callers)
                raise OptionError(f"plan: {row.name}={choice} has no effect with cache={self.cache}: say {say}")

    def _base_choice(self, name: str) -> str:
        """What the base chooses for a field of the plan."""
        if name == "cache_dtype":
            return "computed"
        if name in BASES[self.base]:
            return BASES[self.base][name]
        if name == "launch":
            return "packed"
        row = CATALOG[name]
        if row.may_be_off:
            return "off"
        if self.base == "fast" and has_file_of_row(row, "cpu"):
            return "cpu"
        if self.base in ("emulator", "cuda") and has_file_of_row(row, "cuda"):
            return self.base
        return "naive" if self.base == "naive" else "reference"

    def _is_asked_for(self, row: Row) -> bool:
        """Whether a choice is the user's own, so that it must have an effect; NumPy's code is nothing to ask for."""
        return getattr(self, row.name) not in ("reference", self._base_choice(row.name))

    def check_of_encoder(self) -> None:
        """Raises OptionError on a choice that has no effect in an encoder alone, which decodes nothing."""
        names = ("cache", "cache_dtype", *SWITCHES, *(n for n in CATALOG if n not in OF_ENCODERS))
        for name in (n for n in names if n != "launch"):
            choice = getattr(self, name)
            asked = self._is_asked_for(CATALOG[name]) if name in CATALOG else choice != self._base_choice(name)
            if asked:
                raise OptionError(
                    f"plan: {name}={choice} has no effect in an encoder, which decodes nothing: leave it out"
                )

    @property
    def may_compile(self) -> bool:
        """Whether some op may be code that Numba compiles for the CPU when it first runs."""
        return any(getattr(self, name) == "cpu" or ":" in getattr(self, name) for name in CATALOG)

    @classmethod
    def naive(cls) -> Plan:
        """The plan without a cache, with the code that each optimization's paper starts from."""
        return cls("naive")

    @classmethod
    def fast(cls) -> Plan:
        """The plan with compiled code wherever there is some: the fastest on a CPU."""
        return cls("fast")

    @property
    def own_functions(self) -> list[str]:
        """The choices that are the user's functions, such as "ngram=mine.py:ban"."""
        return [f"{name}={getattr(self, name)}" for name in CATALOG if ":" in getattr(self, name)]

    @classmethod
    def parse(cls, text: str | Plan) -> Plan:
        """A plan by a base, such as "auto" or "fast", and choices such as "cache=none,ngram=cpu", separated by commas.

        Raises OptionError.
        """
        if isinstance(text, Plan):
            return text
        if not isinstance(text, str):
            raise OptionError(f"plan must be a text such as 'cache=none', or a Plan, not {text!r}")
        if not text.strip(", "):
            raise OptionError("plan is empty: say auto, which chooses by itself, or leave it out")
        names = ["base", *CHOICES]
        choices: dict[str, str] = {}
        for part in filter(None, (p.strip() for p in text.split(","))):
            name, equals, value = part.partition("=")
            if part in BASES:
                name, equals, value = "base", "=", part
            if name in choices:
                raise OptionError(f"plan: {name} is chosen twice, as {choices[name]} and as {value}")
            if not equals or name not in names:
                known = f"; say {', '.join(BASES)}, or KEY=VALUE, such as cache=none: minidecode help plan lists all"
                near = did_you_mean(name, BASES) or did_you_mean(name, names).replace("?", "=...?")
                raise OptionError(f"plan: {part!r} is not understood{near or known}")
            choices[name] = value
        return cls(**choices)

    def on(self, device: str) -> Plan:
        """The plan for arrays that lie there: beyond the CPU `auto` and `fast` are kernels; what else is said stays."""
        if device == "cpu" or self.base not in ("auto", "fast"):
            return self
        return Plan(
            "cuda", **{name: getattr(self, name) for name in CHOICES if getattr(self, name) != self._base_choice(name)}
        )

    def resolve(
        self, has_encoder: bool = True, device: str = "cpu", dtype: str = "float32", is_rotary: bool = False,
        has_latent: bool = False, reads_in_front: bool = False,
    ) -> tuple[dict[str, Callable[..., Any]], CacheFactory]:  # fmt: skip
        """The functions that will run, by op name, and what makes a layer's cache. What is off is not there.

        On a device, what is no kernel runs on copies that are brought to the host and back, each time.
        dtype: the model's, for int8_dynamic has products of its own. is_rotary: whether it turns queries and keys.
        has_latent: whether a latent stands in front of texts. reads_in_front: whether a source does.

        Raises OptionError if one of them cannot run here, or never would: a plan never falls back in silence.
        """
        if self.base == "cuda" and device == "cpu" and device_kind() != "gpu":
            raise OptionError(
                "plan: cuda needs a GPU, and Numba finds none: say fast, which is for CPUs, or emulator for toy shapes"
            )
        assert self.cache is not None  # the base has chosen it
        traits = {"is_rotary": is_rotary, "has_latent": has_latent, "reads_in_front": reads_in_front}
        for trait, why in CACHES[self.cache].refuses.items():
            if traits[trait]:
                raise OptionError(f"plan: cache={self.cache}: {why}")
        if device == "cpu" and self.launch != "packed":
            raise OptionError(f"plan: launch={self.launch} has no effect on device=cpu: say device=cuda")
        functions = functions_of_backend(reference)
        if device != "cpu":  # what is no row of the catalog is a kernel, too
            functions |= functions_of_backend(importlib.import_module("minidecode.cuda"))
        elif self.base == "fast":  # or compiled
            functions |= functions_of_backend(importlib.import_module("minidecode.cpu"))
        ops_of_others = ops_of_caches() - ops_of_cache(self.cache, has_encoder)
        for row in CATALOG.values():
            choice = row.spelled.get(getattr(self, row.name), getattr(self, row.name))
            if row.op in ops_of_others:
                if not self._is_asked_for(row):
                    continue
                where = f"with cache={self.cache} in a model {'with' if has_encoder else 'without'} an encoder"
                raise OptionError(f"plan: {row.name}={choice} has no effect {where}")
            if row.of_rotary and not is_rotary:
                if self._is_asked_for(row):
                    raise OptionError(
                        f"plan: {row.name}={choice} has no effect in a model that is not rotary: leave it out"
                    )
                del functions[row.op]
                continue
            if row.with_dynamic is not None and row.with_dynamic != (dtype in DYNAMIC):
                if self._is_asked_for(row):
                    remedy = (
                        "the products end in bias and activation"
                        if dtype in DYNAMIC
                        else "load with dtype='int8_dynamic'"
                    )
                    raise OptionError(f"plan: {row.name}={choice} has no effect with dtype={dtype}: {remedy}")
                del functions[row.op]
                continue
            if choice in ("off", "auto"):  # auto: until `resolve_auto` replaces it
                del functions[row.op]
            else:  # places are found on the host, wherever they are
                functions[row.op] = _implementation(row, choice, "cpu" if row.op == "assign_offsets" else device)
        if self.launch == "numba":
            functions = {name: f if isinstance(f, OnHost) else with_numba_launches(f) for name, f in functions.items()}
        return functions, CacheFactory(self.cache_kind(has_encoder), STORED_AS[self.cache_dtype])

    def cache_kind(self, has_encoder: bool) -> type[ChosenCache]:
        """The class of each decoder layer's own cache."""
        assert self.cache is not None  # the base has chosen it
        return cache_kind(self.cache, has_encoder)

    def captures(self, device: str) -> bool:
        """Whether steps on this device are captured. Raises OptionError where that was asked for and cannot be."""
        if self.graphs == "on" and device == "cpu":
            raise OptionError(
                "plan: graphs=on needs a device: say device=cuda, or device=emulator for toy shapes; on the CPU, say"
                " graphs=auto"
            )
        assert self.cache is not None  # the base has chosen it
        return self.graphs != "off" and device != "cpu" and CACHES[self.cache].in_place

    @property
    def captures_on_cpu(self) -> bool:
        """Whether steps are captured on the CPU, where a graph needs no more room than caches have."""
        assert self.cache is not None  # the base has chosen it
        return self.graphs != "off" and self.base != "cuda" and CACHES[self.cache].in_place

    def resolve_auto(self, without: Iterable[str]) -> Plan:
        """What `auto` comes to: off for the rows in `without`, which a call has no room for; else compiled code."""
        chosen = {row: "off" if row in without else "cpu" for row in CATALOG if getattr(self, row) == "auto"}
        return dataclasses.replace(self, **chosen)

    def __str__(self) -> str:
        """The base and the cache, and what else is not the base's choice; `parse` reads it back."""
        if self.base == "auto":
            return "auto"
        said = [name for name in CHOICES if name == "cache" or getattr(self, name) != self._base_choice(name)]
        bases = [] if self.base == "numpy" else [self.base]
        return ",".join([*bases, *(f"{name}={getattr(self, name)}" for name in said)])


def cache_kind(name: str, has_encoder: bool) -> type[ChosenCache]:
    """The class of a decoder layer's own cache."""
    kind = CACHES[name]
    return (kind.beside_source or kind) if has_encoder else kind


def ops_of_cache(name: str, has_encoder: bool) -> frozenset[str]:
    """The ops that are called for this cache and not for every one, in a model with or without an encoder."""
    kind = cache_kind(name, has_encoder)
    if not has_encoder:
        return kind.ops
    return kind.ops | kind.cross.ops | ({kind.cross.op_of_step} if kind.keeps else set())


def ops_of_caches() -> set[str]:
    """The ops that not every cache calls."""
    return {op for name in CACHES for has_encoder in (False, True) for op in ops_of_cache(name, has_encoder)}


def is_called(row: Row, cache: str, has_encoder: bool) -> bool:
    """Whether a model under a plan with this cache calls the row's op."""
    return row.op in ops_of_cache(cache, has_encoder) or row.op not in ops_of_caches()


def caches_that_call(row: Row) -> list[str]:
    """The caches under which some model calls the row's op."""
    return [cache for cache in CACHES if is_called(row, cache, False) or is_called(row, cache, True)]


def _implementation(row: Row, choice: str, device: str) -> Callable[..., Any]:
    """The function of this name, looked up afresh, so that what is rebound is what runs."""
    if ":" in choice:
        return UserOp(row.op, choice) if device == "cpu" else OnHost(UserOp(row.op, choice))
    place = {"naive": "reference", "rounded": "reference", "emulator": "cuda"}.get(choice, choice)
    if choice == "cuda" and device == "cpu" and device_kind() != "gpu":
        raise OptionError(f"plan: {row.name}=cuda needs a GPU, and Numba finds none; {row.name}=emulator needs none")
    if choice == "cuda" and device == "cpu" and (unfit := why_kernels_do_not_compile()):
        raise OptionError(f"plan: {row.name}=cuda: {unfit}")
    if choice == "emulator" and device == "cuda":
        raise OptionError(f"plan: {row.name}=emulator has no place on device=cuda: say device=emulator, or device=cpu")
    if not has_file_of_row(row, place):
        raise OptionError(f"plan: {row.name} has no version for {place}")
    module = import_backend_file(place, row.name)
    function = vars(module)[f"{row.op}_{choice}" if choice in ("naive", "rounded") else row.op]
    if device != "cpu":
        return function if place == "cuda" else OnHost(function)
    return InEmulator(function) if choice == "emulator" else function


def import_backend_file(place: str, name: str) -> ModuleType:
    """A file of a backend. Raises CompiledCodeError where it is compiled, and there is no folder to keep that in."""
    try:
        return importlib.import_module(f"minidecode.{place}.{name}")
    except RuntimeError as error:
        if "no locator available" not in str(error):
            raise
        raise CompiledCodeError(
            "compiled code has no folder to be kept in, for neither the package's nor your home may be written to: set"
            " NUMBA_CACHE_DIR to one that may; plan=numpy needs none"
        ) from error


@functools.cache
def has_file_of_row(row: Row, place: str) -> bool:
    """Whether a backend has a file for the row."""
    return importlib.util.find_spec(f"minidecode.{place}.{row.name}") is not None


def op_names() -> list[str]:
    """The ops, in the order of ops.py."""
    functions = inspect.getmembers(signatures, inspect.isfunction)
    names = [name for name, f in functions if f.__module__ == signatures.__name__ and name != "returns"]
    return sorted(names, key=lambda name: getattr(signatures, name).__code__.co_firstlineno)


@functools.cache
def files_of_ops(package) -> dict[str, ModuleType]:
    """The file of each op in a backend: the one that defines it, not one that imports it from there.

    A user function may stand in the op's place already: it comes from no file of minidecode.
    """
    names, modules = op_names(), {}
    for info in pkgutil.iter_modules(package.__path__):
        module = importlib.import_module(f"{package.__name__}.{info.name}")
        for name in filter(vars(module).__contains__, names):
            home = getattr(vars(module)[name], "__module__", None) or ""
            if home == module.__name__ or not home.startswith("minidecode."):
                modules[name] = module
    return modules


def functions_of_backend(package) -> dict[str, Callable[..., Any]]:
    """The ops that a backend's files define, looked up afresh, so that what is rebound there is what runs."""
    return {name: vars(module)[name] for name, module in files_of_ops(package).items()}


files_of_ops(reference)  # before anyone can rebind an op
