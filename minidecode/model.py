"""Loading a model, and what a loaded model does."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import functools
import inspect
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .cache.factory import CacheFactory
from .cache.no_cache import NoCache
from .errors import CheckpointError, InputError, MemoryBudgetError, NumericalError, OptionError, did_you_mean
from .files import hub
from .files.checkpoint import Stored, find_tensors, match_tensors, read_json
from .files.published import PUBLISHED, published_config, random_tensors
from .files.tokenizer import Tokenizer
from .models import bart, bart_tensors, gpt2, gpt2_tensors
from .models.config import BartConfig, GPT2Config
from .plan import Plan
from .runtime.arena import Arena, Extent, Fresh, Places, StepPlan
from .runtime.blas_threads import one_blas_thread, products_are_small
from .runtime.buckets import Buckets
from .runtime.compiled import compile_time, reason_for_numpy
from .runtime.device import chosen_device, fetch
from .runtime.dry_run import dry_run, search_of
from .runtime.engine import Engine
from .runtime.footprint import Footprint, check_fits, footprint, read_budget
from .runtime.launch import counted_launches
from .runtime.low_precision import COMPUTED_IN, NARROW, moved_to, read_only, stored_as
from .runtime.prompts import fit_prompts, fit_sources, ids_and_mask, token_rows
from .runtime.receipt import CostOf, CountedOps, Receipt
from .runtime.scoring import Piece, Scores, checked_stride, score_pieces, target_pieces, text_pieces
from .search.beam import beam_search
from .search.candidates import never_straight
from .search.draws import check_sample_ids
from .search.greedy import greedy
from .search.options import TOKENS, Options, refuse_unsupported, resolve
from .search.result import Request
from .search.trace import Trace

Texts = str | Sequence[str] | Mapping[str, Any]  # one, several, or what a tokenizer of transformers made of them


@dataclass(frozen=True)
class Family:
    """A kind of model: its config, its forward passes, and what its files hold."""

    name: str  # model_type in config.json
    config: type
    network: Any
    tensors: Any


FAMILIES = {
    "gpt2": Family("gpt2", GPT2Config, gpt2, gpt2_tensors),
    "bart": Family("bart", BartConfig, bart, bart_tensors),
}


@dataclass(repr=False)
class Output:
    """What `generate` returns: one entry per hypothesis, num_return_sequences of each prompt in turn, best first."""

    token_ids: list[np.ndarray]  # new tokens alone, EOS included where it was reached
    scores: np.ndarray  # sum of log-probabilities / length ** length_penalty
    receipt: Receipt
    tokenizer: Tokenizer | None
    trace: Trace | None = None  # if it was asked for

    def __repr__(self) -> str:
        said = self.texts if self.tokenizer else [f"{len(ids)} tokens" for ids in self.token_ids]
        return "\n".join(f"{score:9.4f}  {text!r}" for score, text in zip(self.scores, said, strict=True))

    @property
    def texts(self) -> list[str]:
        """The new text of each hypothesis, without the prompt and without special tokens."""
        if self.tokenizer is None:
            raise InputError("this model folder has no tokenizer: read token_ids instead of texts")
        return [self.tokenizer.decode(ids) for ids in self.token_ids]


def bundled_models() -> dict[str, Path]:
    """Name -> folder of the trained models that ship with the package."""
    here = Path(__file__).resolve().parent
    roots = [here / "weights", here.parent / "weights"]  # installed from a wheel; run from a checkout
    folders = [f for root in roots if root.is_dir() for f in sorted(root.iterdir()) if (f / "config.json").exists()]
    return {f.name: f for f in reversed(folders)}


def find_folder(name: str | Path, revision: str | None = None, weights: bool = True) -> Path:
    """The folder of a bundled name, of a path, or of a hub id, which is downloaded if the hub's cache has it not.

    revision: a branch, tag or commit of a hub id. weights: whether they are needed. Raises CheckpointError, which
    names the bundled models where there is nothing of that name.
    """
    if not isinstance(name, str | Path):
        raise CheckpointError(f"the model is named by a text or a Path, not {name!r}")
    bundled, folder = bundled_models(), Path(name)
    with contextlib.suppress(RuntimeError):  # the ~ of a user who is not there
        folder = folder.expanduser()
    local = bundled.get(str(name), folder if os.path.isdir(folder) else None)
    if not str(name):
        raise CheckpointError(f"the model has no name: name {' or '.join(bundled)}, or a folder")
    if local is not None:
        if revision is not None:
            raise OptionError(f"revision={revision!r} is for models on the hub; {str(name)!r} is the folder {local}")
        return local
    remedy = f"name {' or '.join(bundled)}, or a folder with a config.json"
    if os.path.exists(folder):
        raise CheckpointError(f"{str(name)!r} is a file, not a folder: {remedy}")
    remedy += did_you_mean(str(name), bundled if weights else [*bundled, *PUBLISHED])
    nowhere = f"{str(name)!r} is neither a bundled model nor a folder"
    if isinstance(name, Path) or not hub.looks_like_id(name):
        raise CheckpointError(f"{nowhere}: {remedy}")
    try:
        return hub.fetch(name, revision, check=lambda folder: read_settings(folder, None), weights=weights)
    except hub.NotOnHubError as error:
        raise CheckpointError(f"{nowhere} nor in the hub's cache, and {error}: {remedy}") from error


def load(
    name: str | Path, *, plan: str | Plan = "auto", dtype: str = "float32", device: str = "cpu",
    random_weights: bool = False, revision: str | None = None,
    generation_config: dict[str, Any] | str | Path | bool | None = None,
) -> Model:  # fmt: skip
    """A model from a bundled name, a local folder in the Hugging Face layout, or a hub id such as "gpt2".

    float32 weights on disk are mapped, not read: GPT-2 takes no memory of its own; BART copies its q, k and v matrices
    into one. (For a plan with linear=cpu, such as "fast", GPT-2's are copied too, into the order that few rows are
    multiplied fastest in.) So leave the files as they are while the model is in use: rewriting them changes the model,
    and cutting them short ends the program (deleting them is safe). dtype: "float32" or "float64" is what is computed
    in; "float16" or "int8" is what products store their matrices as, copies of those in the file, while their sums and
    all between products stay float32 (see precision.py). Each weight is then off by its rounding, or by half of its
    output's scale: nearly the same model, but equal tokens are not promised.
    device: "cuda" puts the weights, and all that is computed, on a GPU (it needs CuPy); "auto" does so where there is
    one. "emulator" runs the same code without a GPU, kernels thread by thread: for toy shapes. Both compute in float32.
    random_weights: only the shapes are those of the model; it needs no weights, so that gpt2,
    gpt2-medium, bart-base, bart-large and distilbart-12-6 can be timed without a download; pass input_ids to it.
    revision: the branch, tag or commit of a hub id; main if it is not given.
    generation_config: the defaults of `generate`; None takes those of the model's generation_config.json. A dict, or
    the path of a JSON file, goes in their place, and False leaves them out; in both cases the ids of the model's
    special tokens (the end of text, the first token of a target) stay as they are.

    Raises CheckpointError on a folder that cannot be used, OptionError on a plan, a dtype or a device.
    """
    _check_dtype(dtype)
    plan, device = Plan.parse(plan), chosen_device(device)
    if device != "cpu" and dtype == "float64":
        raise OptionError(f"device={device} computes in float32: dtype=float64 needs device=cpu")
    fields = published_config(str(name)) if random_weights else None
    if fields is not None and revision is not None:
        raise OptionError(f"revision={revision!r} is for models on the hub: {name} has random weights")
    folder = find_folder(name, revision, weights=not random_weights) if fields is None else None
    family, config, defaults = read_settings(folder, fields)
    defaults, source = _chosen_defaults(folder, defaults, generation_config)
    compute = np.dtype(COMPUTED_IN[dtype])
    with _memory_for_loading(name, dtype):
        if random_weights:
            tensors = random_tensors(family.tensors.tensor_shapes(config), compute)
        else:
            stored, shapes = stored_tensors(folder, family, config), family.tensors.tensor_shapes(config)
            tensors = {
                name: stored[name].read(compute) if name in stored else np.zeros(shape, compute)
                for name, shape in shapes.items()
            }
        tokenizer = Tokenizer.from_folder(folder) if folder else None
        return Model(family, config, tensors, tokenizer, defaults, plan, dtype, device, source)


@contextmanager
def _memory_for_loading(name: str | Path, dtype: str) -> Iterator[None]:
    """Raises MemoryBudgetError where the memory ends while a model is loaded: no batch is to blame."""
    try:
        yield
    except (MemoryError, OSError) as error:
        if isinstance(error, OSError) and error.errno != errno.ENOMEM:  # a file that cannot be mapped
            raise
        raise MemoryBudgetError(
            f"not enough memory to load {name} with dtype={dtype} ({error}): free some, or load a smaller model"
        ) from error


def _chosen_defaults(
    folder: Path | None, defaults: dict[str, Any], given: dict[str, Any] | str | Path | bool | None
) -> tuple[dict[str, Any], str]:
    """(defaults of generation, where they come from): the model's, or what `load` was given in their place."""
    if given is None:
        path = (folder or Path()) / "generation_config.json"
        return defaults, str(path if folder is None or path.exists() else folder / "config.json")
    if given is True or not isinstance(given, dict | str | Path | bool):
        raise OptionError(f"generation_config must be a dict, a path, False or None, not {given!r}")
    tokens = {name: value for name, value in defaults.items() if name in TOKENS}
    if isinstance(given, str | Path):
        return tokens | read_json(Path(given)), str(given)
    return tokens | (given or {}), "generation_config"


def _check_dtype(dtype: str) -> None:
    if dtype not in COMPUTED_IN:
        raise OptionError(f"dtype must be one of {', '.join(COMPUTED_IN)}, not {dtype!r}")


def load_shapes(
    name: str | Path, *, plan: str | Plan = "auto", dtype: str = "float32", vocab_size: int | None = None,
    generation_config: dict[str, Any] | str | Path | bool | None = None,
) -> Model:  # fmt: skip
    """A model of that shape, whose weights are zeros that nobody wrote: for `plan_step`, which asks for no more.

    Memory that is only read as zeros is not taken on Linux and macOS; BART's q, k and v matrices are, for they are
    copied into one, and so are narrow ones. vocab_size: another vocabulary than the model's.
    generation_config, and what is raised: as in `load`.
    """
    _check_dtype(dtype)
    fields = published_config(str(name))
    folder = find_folder(name, weights=False) if fields is None else None
    fields = read_json(folder / "config.json") if fields is None else fields
    if vocab_size is not None:
        fields = fields | {"vocab_size": vocab_size}
    family, config, defaults = read_settings(folder, fields)
    defaults, source = _chosen_defaults(folder, defaults, generation_config)
    if vocab_size is not None:  # special tokens of the true vocabulary may lie beyond it
        defaults = {k: 0 if k.endswith("token_id") and value else value for k, value in defaults.items()}
    shapes = family.tensors.tensor_shapes(config)
    tensors = {k: np.zeros(shape, COMPUTED_IN[dtype]) for k, shape in shapes.items()}
    return Model(family, config, tensors, None, defaults, Plan.parse(plan), dtype, defaults_from=source)


def read_settings(folder: Path | None, fields: dict[str, Any] | None) -> tuple[Family, Any, dict[str, Any]]:
    """(family, config, generation defaults) from the folder's JSON files, or from the fields of a config.json."""
    if folder is not None:
        check_whole(folder)
    fields = read_json(folder / "config.json") if fields is None else fields
    model_type = fields.get("model_type")
    family = FAMILIES.get(model_type) if isinstance(model_type, str) else None
    if family is None:
        kinds = " or ".join(FAMILIES)
        raise CheckpointError(
            f"{folder / 'config.json'}: model_type {model_type!r} is not known: name a model of type {kinds}"
        )
    if folder is not None and (folder / "generation_config.json").exists():
        defaults = read_json(folder / "generation_config.json")
    else:  # old folders keep the settings of generation in config.json
        options = {f.name for f in dataclasses.fields(Options)} | {"bos_token_id"}
        defaults = {name: value for name, value in fields.items() if name in options}
        if fields.get("force_bos_token_to_be_generated"):  # as the first BART configs say it
            defaults.setdefault("forced_bos_token_id", fields.get("bos_token_id", 0))
    try:
        return family, family.config.from_json(fields), defaults
    except CheckpointError as error:
        raise CheckpointError(f"{folder}: {error}") from None


def check_whole(folder: Path) -> None:
    """Raises CheckpointError on a folder that holds an adapter alone."""
    files = {file for file in (*hub.WEIGHTS, *hub.ADAPTER) if (folder / file).exists()}
    if files & set(hub.ADAPTER) and not files & set(hub.WEIGHTS):
        raise CheckpointError(hub.is_an_adapter(str(folder)))


def stored_tensors(folder: Path, family: Family, config) -> dict[str, Stored]:
    """Where the weights of a folder lie, each of the shape that config.json asks for."""
    found = find_tensors(folder)
    hub.warn_of_adapter(folder)
    if config.layers > len(found):  # seen before their shapes are listed: a lying number costs no memory
        raise CheckpointError(
            f"{folder}: config.json says {config.layers} layers, and the weights are {len(found)} tensors in all: "
            "one of the two is not this model's"
        )
    f = family.tensors
    return match_tensors(
        folder, found, f.tensor_shapes(config), prefix=f.PREFIX, ignored=f.IGNORED, layer=f.LAYER, tied=f.tied(config),
        optional=f.OPTIONAL,
    )  # fmt: skip


def _check_streamer(streamer: Any) -> None:
    """Raises OptionError on what cannot be called with a text's number and a token id."""
    try:
        inspect.signature(streamer).bind(0, 0)
    except (TypeError, ValueError) as error:  # ValueError: a function of C's does not say what it takes
        if not callable(streamer) or isinstance(error, TypeError):
            raise OptionError(
                f"streamer must be a function of (text number, token id), not {streamer!r:.80}: pass one, such as "
                "lambda text, token: print(token)"
            ) from None


def _extent(sources, prompts, limit_B) -> Extent:
    """How large a request is."""
    prompt_B = np.array([len(p) for p in prompts])
    longest_source = max(map(len, sources), default=0)
    return Extent(len(prompts), longest_source, int(prompt_B.max()), int(max(limit_B)), int((prompt_B + limit_B).max()))


class Model:
    """Weights, tokenizer and defaults, which no generation changes; and captured steps, which one has at a time.

    So threads may share a model.
    """

    def __init__(
        self, family: Family, config, tensors: dict[str, np.ndarray], tokenizer, defaults, plan: Plan,
        dtype: str | None = None, device: str = "cpu", defaults_from: str = "generation_config.json",
    ):  # fmt: skip
        self.device, self.defaults_from = device, defaults_from
        self.config, self.tokenizer, self.defaults, self.plan = config, tokenizer, defaults, plan
        self.tensors, self.network = tensors, family.network
        self.weights = family.tensors.bind(config, tensors)
        self.parameters = sum(t.size for t in tensors.values())  # numbers in the weights, tied ones once
        self.dtype = dtype or str(next(iter(tensors.values())).dtype)  # as given to `load`
        if dtype in NARROW:
            self._check_finite()
            self.weights, self.tensors = stored_as(dtype, self.weights), {}  # the wide ones are dropped
        elif dtype == "float32" and (plan.linear == "cpu" or device != "cpu"):
            self.weights = stored_as("float32", self.weights)
        self.weights = read_only(self.weights) if device == "cpu" else moved_to(device, self.weights)
        self.is_small = products_are_small(self.weights)
        self.buckets = Buckets(device)

    def __repr__(self) -> str:
        return (
            f"Model({self.config.layers} layers of width {self.config.width}, {self.parameters / 1e6:.1f} million "
            f"parameters, dtype {self.dtype}, plan {self.plan}, on {self.device})"
        )

    @property
    def is_encoder_decoder(self) -> bool:
        """Whether texts given are sources that another text is generated from (BART), or beginnings (GPT-2)."""
        return hasattr(self.network, "encode")

    def options(self, **given: Any) -> Options:
        """The options that a call of `generate` with these would run under: generation_config.json fills the gaps.

        Raises OptionError on an unknown name, a value that breaks a rule, or one that this model cannot serve.
        """
        options = resolve(self.defaults, given, self.defaults_from)
        refuse_unsupported(self.defaults, options.do_sample, self.defaults_from)
        options = options.for_vocabulary(self.config.vocab_size)
        options.check_vocabulary(self.config.vocab_size)
        return options

    def tokenize(self, prompt: str, options: Options, *, truncate: bool | None = False) -> np.ndarray:
        """The token ids of one prompt (or source) as `generate` would start from them, checked and cut.

        options: made by `options`. truncate: None where nobody can ask for it, so that errors do not name it.
        Raises InputError on a prompt that cannot be used.
        """
        sources, prompts, _ = self._fitted(prompt, None, None, options, truncate)
        return (sources or prompts)[0]

    def check(self, prompts: Texts, *, truncate: bool = False, **options: Any) -> None:
        """Raises what `generate` would raise on these prompts and options, without computing anything."""
        self._fitted(prompts, None, None, self.options(**options), truncate)

    def generate(
        self,
        prompts: Texts | None = None,
        *,
        input_ids: Any = None,
        attention_mask: Any = None,
        prefix_tokens: Sequence[Sequence[int]] | None = None,
        plan: str | Plan | None = None,
        arena: Arena | None = None,
        truncate: bool = False,
        streamer: Callable[[int, int], None] | None = None,
        trace: bool = False,
        sample_ids: Sequence[int] | None = None,
        memory_budget: int | str | None = "available",
        costs: bool | CostOf = False,
        **options: Any,
    ) -> Output:
        """Continues each prompt, or for an encoder-decoder model answers each source: greedily, by sampling or a beam.

        prompts: one text or several. Or input_ids, a list of token id sequences or an array (B, N) whose padding
        attention_mask (B, N) marks with 0. A mapping that a tokenizer of transformers returned stands for both.
        A sentence gives the same tokens alone and in any batch.
        prefix_tokens: for each sentence the ids that its new text must begin with; -1 leaves a place free.
        plan: overrides the one given to `load`. arena: where the steps keep what they make, of `plan_step`'s plans;
        a plan with arena=planned makes one for this call. truncate: cut what is too long for the context, prompts at
        their beginning, sources at their end. streamer: called with (text number, token id) as tokens are chosen; not
        with a beam. trace: keep every step's candidates, scores, bans and parents in the output (search/trace.py).
        sample_ids: numbers that tell equal prompts apart when sampling; by default each copy in the call is another.
        memory_budget: bytes, or a text such as "2GB", that the call may take beside the weights; by default what the
        machine has left, where it says so (Linux); None: no limit. What may take more (`footprint`) is refused before
        anything is computed. costs: note in the receipt what each call of an op takes at the least, by its cost model;
        or what your function of (op, implementation, arguments by name) says, a Cost; no step is captured then.
        options: see search/options.py; unset ones come from generation_config.json.

        Raises InputError on prompts that cannot be used, OptionError on options, MemoryBudgetError on what does not
        fit, NumericalError on NaN scores.
        """
        started = time.perf_counter()
        resolved = self.options(**options)
        if streamer is not None:
            _check_streamer(streamer)
        if streamer is not None and resolved.num_beams > 1:
            raise OptionError("a streamer needs num_beams=1: a beam's text is not settled until the search ends")
        sources, prompts_ids, limit_B = self._fitted(prompts, input_ids, attention_mask, resolved, truncate)
        prefixes = self._prefixes(prefix_tokens, len(prompts_ids))
        if sample_ids is not None:
            check_sample_ids(sample_ids, len(prompts_ids))
        request = Request.make(prompts_ids, limit_B, resolved, sources, prefixes, sample_ids)
        tokenized = time.perf_counter()

        plan = self.plan if plan is None else Plan.parse(plan)
        if arena is not None and not isinstance(arena, Arena):
            raise OptionError(f"arena must be an Arena, made of plans of plan_step, not {arena!r}")
        if arena is not None and arena.device != self.device:
            where = f"the arena is for device={arena.device}, and this model lies on device={self.device}"
            raise OptionError(f"{where}: make one of this model's plans")
        if arena is not None and plan.arena == "none":
            plan = dataclasses.replace(plan.on(self.device), arena="planned")
        extent, stages = _extent(sources, prompts_ids, limit_B), {"prompts": tokenized - started}
        plan, chosen = self._settled(plan, resolved, extent)
        if chosen and plan.base == "fast":
            stages["code"] = time.perf_counter() - tokenized
        if (budget := read_budget(memory_budget, self.device)) is not None:
            needed = footprint(self, plan, extent, resolved, arena_given=arena is not None)
            if needed.total > budget and self.buckets.idle:  # what is kept for later generations goes first
                self.buckets.clear()
                budget = read_budget(memory_budget, self.device)
            check_fits(needed, budget, extent)
        steps = Trace() if trace else None
        try:
            with (
                one_blas_thread(self.is_small),
                compile_time(plan.is_compiled) as compiling,
                self._places(plan, arena, extent, resolved) as places,
                counted_launches() as launches,
            ):
                if plan.arena != "none":
                    stages["plan"] = time.perf_counter() - tokenized
                engine = self._engine(plan, places, costs)
                if sources:
                    engine.encode(sources)
                if resolved.num_beams == 1:
                    found = greedy(engine, request, resolved, streamer, steps)
                else:
                    found = beam_search(engine, request, resolved, steps)
                engine.give_back()
        except NumericalError as error:
            raise NumericalError(f"{error}{self._nan_tensors(plan)}") from None
        stages |= engine.seconds
        stages["search"] = time.perf_counter() - started - sum(stages.values())
        token_ids = [hypothesis for sentence in found.tokens for hypothesis in sentence]
        receipt = Receipt(
            plan=str(plan), chosen=chosen, dtype=self.dtype, ops=engine.ops.counts(),
            cache=engine.make_cache.name(self.is_encoder_decoder),
            cache_peak_bytes=engine.cache_peak_bytes, arena_bytes=places.bytes, arena_placed_by=places.placed_by,
            prompt_tokens=sum(map(len, sources or prompts_ids)),
            new_tokens=sum(map(len, token_ids)), steps=found.steps, rows=engine.rows,
            graphs=engine.graphs,
            search=resolved.changed(), seconds=stages, compile_seconds=sum(compiling), launches=dict(launches),
        )  # fmt: skip
        return Output(token_ids, found.scores_BX.reshape(-1), receipt, self.tokenizer, steps)

    def footprint(
        self,
        prompts: Texts | None = None,
        *,
        input_ids: Any = None,
        attention_mask: Any = None,
        plan: str | Plan | None = None,
        truncate: bool | None = False,
        **options: Any,
    ) -> Footprint:
        """The bytes that `generate` may take with these arguments, beside the weights: upper bounds from shapes alone.

        The formula stands in runtime/footprint.py. Raises InputError and OptionError as `generate` does.
        """
        resolved = self.options(**options)
        plan = self.plan if plan is None else Plan.parse(plan)
        extent = _extent(*self._fitted(prompts, input_ids, attention_mask, resolved, truncate))
        return footprint(self, self._settled(plan, resolved, extent)[0], extent, resolved)

    def plan_step(
        self, *, batch_size: int = 1, input_length: int = 1, plan: str | Plan | None = None, **options: Any
    ) -> StepPlan:
        """Where a decode step's intermediates lie in an arena, learnt from a dry run (LightSeq, section 2.3).

        For requests of up to batch_size prompts (sources, for an encoder-decoder model) of up to input_length tokens,
        under these options, whose max_new_tokens is the most that a request may ask for. plan: arena=separate lays
        them out one behind the other; anything else means planned. `Arena` makes room for it.

        Raises OptionError on options, InputError on lengths that the model cannot hold.
        """
        for name, number in (("batch_size", batch_size), ("input_length", input_length)):
            if number < 1:
                raise OptionError(f"{name} must be a whole number from 1 up, not {number}")
        resolved = self.options(**options)
        plan = self.plan if plan is None else Plan.parse(plan)
        if plan.arena == "none":
            plan = dataclasses.replace(plan.on(self.device), arena="planned")
        not_words = {*resolved.eos_token_id, resolved.pad_token_id}  # what match_source_len does not count
        word = next((i for i in range(self.config.vocab_size) if i not in not_words), 0)
        ids = np.full((batch_size, input_length), word)
        extent = _extent(*self._fitted(None, ids, None, resolved, truncate=None))
        return self._plan_step(self._settled(plan, resolved, extent)[0], extent, search_of(resolved))

    def _settled(self, plan: Plan, options: Options, extent: Extent) -> tuple[Plan, str]:
        """What a plan comes to in a call, and for the plan `auto` why; hars=auto hangs on the options alone."""
        chosen = ""
        plan = plan.on(self.device)
        if plan.base == "auto":
            reason = reason_for_numpy(self, extent, options)
            plan = Plan("fast" if reason is None else "numpy")
            chosen = "auto: compiled code, which was on disk" if reason is None else f"auto: NumPy ({reason})"
        return plan.settled(["hars"] if options.num_beams == 1 or never_straight(options) else []), chosen

    def _plan_step(self, plan: Plan, extent: Extent, search: Options) -> StepPlan:
        functions, make_cache = plan.resolve(self.is_encoder_decoder, self.device)
        with np.errstate(all="ignore"):
            made_for, captured = (self, plan, search), plan.captures(self.device)
            return dry_run(
                self.network, self.weights, functions, make_cache, extent, search, made_for, self.device, captured
            )

    @contextmanager
    def _places(self, plan: Plan, arena: Arena | None, extent: Extent, options: Options) -> Iterator[Fresh | Places]:
        """Where a generation's steps keep what they make. Raises MemoryBudgetError if the arena is too small."""
        if plan.arena == "none":
            yield Fresh()
            return
        search = search_of(options)
        make = functools.partial(self._plan_step, plan, extent, search)
        arena = Arena(make()) if arena is None else arena
        with arena.lent(arena.plan_for(extent, (self, plan, search), make)) as places:
            yield places

    def logits(
        self, input_ids: Any, attention_mask: Any = None, decoder_input_ids: Any = None,
        decoder_attention_mask: Any = None,
    ) -> list[np.ndarray]:  # fmt: skip
        """The scores before softmax of every position, one array (N, V) per sentence, padding left out.

        An encoder-decoder model takes its sources as input_ids and its targets as decoder_input_ids, which must begin
        with decoder_start_token_id to mean what they do in training; the scores are those of the targets' positions.
        """
        if self.is_encoder_decoder != (decoder_input_ids is not None):
            what = "needs" if self.is_encoder_decoder else "takes no"
            raise InputError(f"this model {what} decoder_input_ids beside input_ids")
        if decoder_input_ids is None and decoder_attention_mask is not None:
            raise InputError("decoder_attention_mask goes with decoder_input_ids, which this model does not take")
        ids, context = self._checked(token_rows(input_ids, attention_mask)), self.config.context
        engine, sources = self._engine(self.plan.on(self.device)), []
        if self.is_encoder_decoder:
            sources, ids = ids, self._checked(token_rows(decoder_input_ids, decoder_attention_mask))
            if len(sources) != len(ids):
                raise InputError(
                    f"there are {len(sources)} sources and {len(ids)} decoder_input_ids: give each source one target"
                )
            sources = fit_sources(sources, context, truncate=None)
        ids, _ = fit_prompts(ids, context, Options(), truncate=None)
        with one_blas_thread(self.is_small):
            if sources:
                engine.encode(sources)
            logits_RV = fetch(engine.prefill(ids, every_row=True))
        return np.split(logits_RV, np.cumsum([len(i) for i in ids])[:-1])

    def score(
        self,
        texts: Texts | None = None,
        *,
        input_ids: Any = None,
        attention_mask: Any = None,
        targets: str | Sequence[str] | None = None,
        target_ids: Any = None,
        stride: int | None = None,
        truncate: bool = False,
        decoder_start_token_id: int | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> Scores:
        """How likely the model finds texts: the log-probability of each token after those before it; see `Scores`.

        texts, or input_ids and attention_mask: as for `generate`. The first token of a text comes after nothing, so it
        is not scored; begin the text with <|endoftext|> to have all of it scored.
        targets (texts) or target_ids: one for each text; these alone are scored, after their text, or for an
        encoder-decoder model given their source, and it needs them. `generate`'s token_ids as target_ids score what
        `generate` says (before length_penalty), where no option changed the model's own probabilities of them.
        stride: a text longer than the context is read in windows that start so many tokens apart, half a context by
        default. Each token is scored once, by the first window that reaches it; so all but those of the first window
        come after at least context - stride tokens. truncate: cut sources that are too long at their end.
        decoder_start_token_id: instead of the model's. progress: called with (tokens scored, of how many).

        Logits exist for a few rows at a time, so long texts and large vocabularies take no more memory than a
        forward pass does. Raises InputError on texts that cannot be used, NumericalError on NaN scores.
        """
        self.check_scoring(stride, truncate)
        ids = self._given(texts, input_ids, attention_mask, "text")
        target_rows = None
        if targets is not None or target_ids is not None:
            target_rows = self._given(targets, target_ids, None, "target")
            if len(target_rows) != len(ids):
                raise InputError(f"there are {len(ids)} texts and {len(target_rows)} targets: give each text its own")
        pieces = self._pieces(ids, target_rows, stride, truncate, decoder_start_token_id)
        functions, _ = self.plan.on(self.device).resolve(device=self.device)
        # Nothing comes after the scored tokens, so no keys and values are kept.
        cache = CacheFactory(NoCache)
        engine = Engine(self.network, self.weights, CountedOps(functions), cache, device=self.device)
        try:
            with one_blas_thread(self.is_small):
                log_probs, likeliest = score_pieces(engine, pieces, len(ids), self.config.context, progress)
        except NumericalError as error:
            raise NumericalError(f"{error}{self._nan_tensors(self.plan)}") from None
        scored = [row[1:] for row in ids] if target_rows is None else target_rows
        sizes = None if self.tokenizer is None else [self.tokenizer.count_bytes(row) for row in scored]
        return Scores(scored, log_probs, likeliest, None if sizes is None or None in sizes else sizes)

    def check_scoring(self, stride: int | None, truncate: bool) -> None:
        """Raises OptionError on what `score` would refuse whatever the texts."""
        if self.is_encoder_decoder and stride is not None:
            raise OptionError("stride is for decoder-only models: a target is read whole")
        if truncate and not self.is_encoder_decoder:
            raise OptionError("truncate is for sources: a decoder-only model scores all of a text, window after window")
        checked_stride(stride, self.config.context)

    def tokenize_scored(
        self, text: str, target: str | None, *, stride: int | None = None, truncate: bool = False
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """The token ids of one text, and of its target if it has one, checked as `score` would.

        Raises InputError on texts that cannot be used.
        """
        ids = self._given(text, None, None, "text")
        targets = None if target is None else self._given(target, None, None, "target")
        self._pieces(ids, targets, stride, truncate)
        return ids[0], None if targets is None else targets[0]

    def _pieces(self, ids, target_rows, stride: int | None, truncate: bool, decoder_start_token_id=None) -> list[Piece]:
        """What forward passes do of these texts and targets."""
        context = self.config.context
        if not self.is_encoder_decoder:
            return text_pieces(ids, target_rows, context, checked_stride(stride, context))
        if target_rows is None:
            raise InputError("this model scores targets given their sources: give targets (texts) or target_ids beside")
        start = self._decoder_start(self._scoring_options(decoder_start_token_id))
        return target_pieces(fit_sources(ids, context, truncate), target_rows, start, context)

    def _scoring_options(self, decoder_start_token_id: int | None) -> Options:
        """Options of which only decoder_start_token_id matters, in a call or else in generation_config.json."""
        if decoder_start_token_id is None:
            decoder_start_token_id = self.defaults.get("decoder_start_token_id")
        options = Options(decoder_start_token_id=decoder_start_token_id)
        options.check_vocabulary(self.config.vocab_size)
        return options

    def _engine(self, plan: Plan, places: Fresh | Places | None = None, costs: bool | CostOf = False) -> Engine:
        functions, make_cache = plan.resolve(self.is_encoder_decoder, self.device)
        ops, drop_finished, buckets = CountedOps(functions, places, costs), plan.drop_finished == "on", None
        if plan.captures(self.device) and not costs:  # whose models look at lengths, at each step anew
            # A kept step writes into no arena of another call.
            buckets = Buckets(self.device) if plan.arena != "none" else self.buckets
        return Engine(self.network, self.weights, ops, make_cache, drop_finished, self.device, buckets)

    def _fitted(self, prompts, input_ids, attention_mask, options: Options, truncate: bool | None):
        """(sources, prompts, most new tokens of each): checked, and cut to what the model holds; see `fit_prompts`.

        A decoder-only model has no sources; in an encoder-decoder model each prompt is decoder_start_token_id alone.
        """
        ids, context = self._given(prompts, input_ids, attention_mask), self.config.context
        if not self.is_encoder_decoder:
            return (), *fit_prompts(ids, context, options, truncate)
        sources = fit_sources(ids, context, truncate)
        return sources, *fit_prompts([self._decoder_start(options)] * len(ids), context, options, False, sources)

    def _given(self, texts, input_ids, attention_mask, what: str = "prompt") -> list[np.ndarray]:
        """Token ids without padding from texts or from ids, checked; `what` they are, for the errors."""
        name = "target_ids" if what == "target" else "input_ids"
        if isinstance(texts, Mapping) and input_ids is None:  # of a tokenizer of transformers
            (input_ids, attention_mask), texts = ids_and_mask(texts, attention_mask, f"{what}s"), None
        if (texts is None) == (input_ids is None):
            raise InputError(f"give either {what}s or {name} (token ids)")
        if texts is not None and attention_mask is not None:
            raise InputError("attention_mask goes with input_ids: texts bring no padding")
        ids = token_rows(input_ids, attention_mask, name) if texts is None else self._encode(texts, what, name)
        return self._checked(ids, what)

    def _prefixes(self, prefix_tokens, sentences: int) -> list[np.ndarray] | None:
        """The prefixes as arrays, if there are as many as sentences and their ids are in the vocabulary."""
        if prefix_tokens is None:
            return None
        prefixes = token_rows(prefix_tokens, None, "prefix_tokens")
        if len(prefixes) != sentences:
            raise InputError(f"prefix_tokens has {len(prefixes)} rows for {sentences} sentences: give each its own")
        V = self.config.vocab_size
        for row in prefixes:
            if len(row) and (row.min() < -1 or row.max() >= V):
                bad = row[(row < -1) | (row >= V)][0]
                raise InputError(f"prefix_tokens: {bad} is neither in the vocabulary of {V} tokens nor -1 (free)")
        return prefixes

    def _encode(self, prompts, what: str, name: str) -> list[np.ndarray]:
        if self.tokenizer is None:
            raise InputError(f"this model folder has no tokenizer: add its tokenizer.json, or pass {name}")
        if not isinstance(prompts, Iterable):
            raise InputError(f"{what}s must be a text or several, not {prompts!r}")
        texts = [prompts] if isinstance(prompts, str) else list(prompts)
        if not all(isinstance(t, str) for t in texts):
            raise InputError(f"{what}s must be texts; pass token ids as {name}")
        return [self.tokenizer.encode(t) for t in texts]

    def _checked(self, ids: list[np.ndarray], what: str = "prompt") -> list[np.ndarray]:
        """The same ids, if there are any and all are in the vocabulary."""
        if not ids:
            raise InputError(f"there is no {what}: give at least one")
        V = self.config.vocab_size
        for b, row in enumerate(ids, 1):
            if len(row) == 0:
                is_prompt = what == "prompt" and not self.is_encoder_decoder
                remedy = "to start from nothing, give the text <|endoftext|>" if is_prompt else "leave it out"
                raise InputError(f"{what} {b} of {len(ids)} is empty: {remedy}")
            if row.min() < 0 or row.max() >= V:
                bad = row[(row < 0) | (row >= V)][0]
                raise InputError(f"{what} {b} of {len(ids)}: token id {bad} is not in the vocabulary of {V} tokens")
        return ids

    def _decoder_start(self, options: Options) -> np.ndarray:
        start = options.decoder_start_token_id
        if start is None:
            start = self.defaults.get("bos_token_id")
        if start is None:
            raise OptionError("decoder_start_token_id is set nowhere: put it into generation_config.json, or pass it")
        return np.array([start])

    def _check_finite(self) -> None:
        """Raises CheckpointError on weights that no narrow number stands for."""
        if bad := self._not_finite():
            raise CheckpointError(f"the weights hold NaN or infinity, first in {bad[0]}: use another file")

    def _not_finite(self) -> list[str]:
        return [name for name, tensor in self.tensors.items() if not np.isfinite(tensor).all()]

    def _nan_tensors(self, plan: Plan) -> str:
        """Where NaN may come from: the weights, what is computed of them, or functions of the user's."""
        bad = self._not_finite()
        if not bad:
            own = "".join(f", or {choice} made it" for choice in plan.own_functions)
            return f": the weights are all finite, so a value overflowed on the way{own}"
        count = f"{len(bad)} of {len(self.tensors)} tensors"
        return f": the weights themselves hold NaN or infinity, first in {bad[0]} ({count}): use another file"
