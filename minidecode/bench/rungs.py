"""The rungs of the ladder as data, and what runs one of them: the same texts under a setting (FastSeq, Table 2)."""

from __future__ import annotations

import copy
import dataclasses
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..catalog import CATALOG, Cost
from ..device.low_precision import LOW_PRECISION, weights_stored_as
from ..errors import InputError, OptionError
from ..lines.pipeline import generate_lines
from ..model import Model
from ..plan import Plan, is_called
from ..runtime.receipt import CostOf, DraftCounts, Receipt, bytes_held_by, least_cost
from ..runtime.rounding import FLOAT32, FLOAT64, logit_bound, score_bound
from ..runtime.trace import TraceStep
from .elementary import Counts, run_on_counting_arrays

TEXT = "Fellow citizens of the Senate and of the House of Representatives, the state of the Union is good. "
ALL = 0  # a batch size: all texts together


@dataclass(frozen=True)
class Setting:
    """How the texts are generated. choices: of the plan; overlap: of the pipeline, if there is a tokenizer."""

    choices: dict[str, str]
    dtype: str
    batch_size: int
    no_repeat_ngram_size: int
    overlap: str = "none"
    drafts: int = 0  # tokens that a lookup in the text guesses at each step

    @property
    def plan(self) -> Plan:
        """Raises OptionError where the choices cannot stand together."""
        return Plan(**self.choices)

    @property
    def is_low_precision(self) -> bool:
        """Whether something is stored in fewer bits than it is computed in: equal tokens are not promised then."""
        return self.dtype in LOW_PRECISION or self.choices.get("cache_dtype", "computed") != "computed"


@dataclass(frozen=True)
class Rung:
    """One switch. choices: of the plan; change: fields of the setting.

    ran: what a run must show, and the words in it that prove that the switch was on (see `summarize_receipts`).
    only_without_ngrams: it is compared with the rung before it without an n-gram ban, which would leave it no step.
    carries: what later rungs, which have that ban again, get of it, where that is not `choices`.
    is_built_on: whether later rungs have it too, if it gains. with_source, without_source: choices of the plan for a
    decoder that sees a source, and for one that does not.
    """

    name: str
    paper: str
    choices: dict[str, str] = field(default_factory=dict)
    change: dict[str, Any] = field(default_factory=dict)
    ran: dict[str, str] = field(default_factory=dict)
    carries: dict[str, str] | None = None
    only_without_ngrams: bool = False
    is_built_on: bool = True
    with_source: dict[str, str] = field(default_factory=dict)
    without_source: dict[str, str] = field(default_factory=dict)


NO_CACHE = Rung("no cache", "what the papers start from", {"base": "naive"}, ran={"cache": "NoCache"})
RUNGS = (
    Rung("cache", "FastSeq, section 2.2", {"cache": "replicated"}, ran={"cache": "ReplicatedCache"}),
    Rung("pipeline", "FastSeq, section 4.3", change={"overlap": "both"}, ran={"overlap": "both"}),
    Rung("n-gram", "FastSeq, section 4.2", {"ngram": "cpu"}, ran={"ban_ngrams": "minidecode.cpu.ngram"}),
    Rung("cache de-duplication", "FastSeq, section 4.1", {"cache": "split", "split": "cpu", "reorder": "cpu"},
         ran={"cache": "SplitCache", "attend_split": "minidecode.cpu.split"}, with_source={"shared": "cpu"}),
    Rung("EL", "EL, section 3.2", {"cache": "el", "reorder": "cpu"}, ran={"cache": "minidecode.cache.el"},
         with_source={"el": "reference"}, without_source={"el_split": "reference"}),
    Rung("fused kernels", "LightSeq, section 2.1", {"base": "fast", "hars": "off"},
         ran={"residual_norm": "minidecode.cpu.norm", "bias_activation": "minidecode.cpu.activation"}),
    Rung("HARS", "LightSeq, section 2.2", {"hars": "cpu"}, ran={"hars_candidates": "minidecode.cpu.hars"},
         carries={"hars": "auto"}, only_without_ngrams=True),
    Rung("planned memory", "LightSeq, section 2.3", {"arena": "planned"}, ran={"arena": "bytes in one arena"}),
    Rung("paged cache", "vLLM, section 4", {"cache": "paged", "paged": "cpu"},
         ran={"cache": "PagedCache", "attend_paged": "minidecode.cpu.paged"}),
    Rung("drafted tokens", "Leviathan et al. 2023", {"cache": "paged"}, {"drafts": 4}, ran={"drafts": "accepted"},
         only_without_ngrams=True, is_built_on=False),
    Rung("low precision", "LightSeq, section 3.2", {"cache_dtype": "float16"}, {"dtype": "int8"},
         ran={"dtype": "int8", "cache": "in float16"}),
    Rung("larger batch", "FastSeq, section 5.1", change={"batch_size": ALL}, ran={"batches": "in 1 batch"}),
)  # fmt: skip


def switch_setting(setting: Setting, rung: Rung, work: Work) -> Setting:
    """The setting with the rung's switch. Raises OptionError where that is no switch for this model or setting."""
    has_encoder, change = work.model.has_encoder, dict(rung.change)
    choices = rung.choices | (rung.with_source if has_encoder else rung.without_source)
    if "overlap" in change and work.texts is None:
        raise OptionError("the model has no tokenizer, so there is nothing to read ahead and no text to make behind")
    if "overlap" in change and setting.batch_size >= len(work.ids):
        raise OptionError("all texts are in one batch, so there is nothing to read ahead")
    if "ngram" in choices and setting.no_repeat_ngram_size == 0:
        raise OptionError("no n-gram is banned: no_repeat_ngram_size is 0")
    if choices.get("hars") == "cpu" and work.options["num_beams"] == 1:
        raise OptionError("a search with one row per text has no candidates")
    if "drafts" in change and work.options["num_beams"] > 1:
        raise OptionError("tokens are drafted for one text at a time, and beams are several: give --num-beams 1")
    if "dtype" in change and setting.dtype != "float32":
        raise OptionError(f"the weights are not float32 to begin with, but {setting.dtype}")
    if "batch_size" in change:
        if setting.batch_size >= len(work.ids):
            raise OptionError("all texts are in one batch already")
        change["batch_size"] = len(work.ids)
    before = dict(setting.choices)
    if "cache" in choices:  # what was chosen for the cache before goes, unless this one has a use for it
        before = {name: c for name, c in before.items()
                  if name not in CATALOG or is_called(CATALOG[name], choices["cache"], has_encoder)}  # fmt: skip
    after = dataclasses.replace(setting, choices=before | choices, **change)
    after.plan.resolve(has_encoder)
    return after


def make_texts_of_length(model: Model, texts: int, input_length: int) -> list[str]:
    """Different texts of about this many tokens, made by repeating a bundled sentence."""
    encoded, decode = model.tokenizer.encode(TEXT), model.tokenizer.decode
    if model.config.shares_vocabulary:
        given = [decode(np.resize(encoded, input_length + i)[i:]) for i in range(texts)]
        if all(text.strip() for text in given):
            return given
        words = [i for i in range(model.tokenizer.size) if decode([i]).strip()]  # those of the sentence are unknown
        return [decode(np.resize(words, input_length + i)[i:]) for i in range(texts)]
    words = TEXT.split()  # `decode` knows targets alone, so texts are made of words
    count = max(1, input_length * len(words) // len(encoded))
    return [" ".join(np.roll(words, -i).take(range(count), mode="wrap").tolist()) for i in range(texts)]


# ---- what is generated -----------------------------------------------------------------------------------------------


@dataclass
class Work:
    """The texts of a ladder, the same for all rungs. texts: None where the model has no tokenizer."""

    model: Model
    ids: list[np.ndarray]
    texts: list[str] | None
    options: dict[str, Any]
    models: dict[str, Model] = field(default_factory=dict)  # by dtype: the same weights, stored in that

    @classmethod
    def make(cls, model: Model, texts: int, input_length: int, num_beams: int, max_new_tokens: int) -> Work:
        """Different texts of about that many tokens: of a bundled sentence, or random ids without a tokenizer.

        All generate max_new_tokens, whatever the model says, so that every rung does the same work; under the rules of
        hf, for fairseq's search cannot do without an EOS.
        """
        options = {"num_beams": num_beams, "max_new_tokens": max_new_tokens, "min_new_tokens": 0, "eos_token_id": None,
                   "dialect": "hf"}  # fmt: skip
        if model.tokenizer is None:
            rng = np.random.default_rng(0)
            ids = [rng.integers(3, model.config.source_vocab_size, input_length) for _ in range(texts)]
            with too_long_in_words(input_length, max_new_tokens):
                model.footprint(input_ids=ids, truncate=None, **options)  # which refuses what the model cannot hold
            return cls(model, ids, None, options)
        given = make_texts_of_length(model, texts, input_length)
        resolved = model.options(**options)
        with too_long_in_words(input_length, max_new_tokens):
            ids = [model.tokenize(text, resolved, truncate=None) for text in given]
        return cls(model, ids, given, options)

    def model_stored_as(self, dtype: str) -> Model:
        """The model, or the same one with its products' weights stored in low precision."""
        if dtype == self.model.dtype:
            return self.model
        if dtype not in self.models:
            other = copy.copy(self.model)
            other.weights, other.dtype = weights_stored_as(dtype, self.model.weights), dtype
            self.models[dtype] = other
        return self.models[dtype]

    def options_for_setting(self, setting: Setting) -> dict[str, Any]:
        drafts = {"prompt_lookup_num_tokens": setting.drafts} if setting.drafts else {}
        return self.options | {"no_repeat_ngram_size": setting.no_repeat_ngram_size} | drafts

    def batches(self, setting: Setting) -> Iterator[list[np.ndarray]]:
        for first in range(0, len(self.ids), setting.batch_size):
            yield self.ids[first : first + setting.batch_size]


@contextmanager
def too_long_in_words(input_length: int, max_new_tokens: int) -> Iterator[None]:
    """Texts that a model cannot hold are an error of the two sizes that made them, not of a prompt of the user's."""
    try:
        yield
    except InputError as error:
        why = str(error).removesuffix(": shorten it")
        raise OptionError(
            f"input_length={input_length} or max_new_tokens={max_new_tokens} is too large, so lower one: {why}"
        ) from None


@dataclass
class Run:
    """What one run over all texts did."""

    seconds: float
    tokens: list[list[int]]  # of each text
    receipts: list[Receipt]  # of each batch
    busy: Counter[str]  # seconds of the stages beside generation
    overlap: str = "none"


def run_texts(work: Work, setting: Setting) -> Run:
    """All texts, through the pipeline's stages where there is a tokenizer: one after the other, or side by side."""
    model, receipts = work.model_stored_as(setting.dtype), []
    if work.texts is None:
        return run_ids(work, setting)
    started = time.perf_counter()
    lines = generate_lines(
        model, work.texts, batch_size=setting.batch_size, sort_window=1, overlap=setting.overlap,
        plan=setting.plan, memory_budget=None, on_batch=receipts.append, **work.options_for_setting(setting),
    )  # fmt: skip
    tokens = [line.token_ids[0].tolist() for line in lines]
    seconds = time.perf_counter() - started
    busy = Counter({stage: s for stage, s in lines.receipt.busy.items() if stage != "generate"})
    return Run(seconds, tokens, receipts, busy, lines.receipt.overlap)


def run_ids(work: Work, setting: Setting, costs: bool | CostOf = False, memory_budget: int | None = None) -> Run:
    """All texts from their ids, batch after batch; with costs, what each call takes is in the receipts.

    Raises MemoryBudgetError if a batch may take more than the budget.
    """
    model, plan, options = work.model_stored_as(setting.dtype), setting.plan, work.options_for_setting(setting)
    started, tokens, receipts = time.perf_counter(), [], []
    for ids in work.batches(setting):
        out = model.generate(input_ids=ids, plan=plan, memory_budget=memory_budget, costs=costs, **options)
        tokens += [t.tolist() for t in out.token_ids]
        receipts.append(out.receipt)
    return Run(time.perf_counter() - started, tokens, receipts, Counter())


ELEMENTARY = {"embed_norm", "residual_norm", "bias_activation", "split_heads", "attend_prefill", "attend"}


def cost_as_written(op: str, function: Any, given: dict[str, Any]) -> Cost | None:
    """What a call moves and computes at least; the naive versions of ELEMENTARY operation by operation.

    Their arrays come back from memory for every elementary operation, as where a framework launches a kernel for each:
    what such code moves on a GPU (and here, where a cache does not hold them). So they run once more, counting.
    """
    cost = least_cost(op, function, given)
    if op not in ELEMENTARY or not getattr(function, "__name__", "").endswith("_naive"):
        return cost
    counts = Counts()
    run_on_counting_arrays(function, counts)(*given.values())
    return dataclasses.replace(cost, bytes=max(cost.bytes, counts.bytes))


def run_and_measure_peak_bytes(call: Callable[[], Run]) -> tuple[Run, int]:
    """(the run, the most bytes that it held at one moment beyond what was there before it).

    Counted by tracemalloc: what Python and NumPy allocated, arrays included. What compiled code and the BLAS find room
    for within a call is not in it, and weights, which were there before, are not either. Nothing is timed so.
    """
    was_tracing = tracemalloc.is_tracing()
    if not was_tracing:
        tracemalloc.start()
    try:
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        result = call()
        return result, tracemalloc.get_traced_memory()[1] - before
    finally:
        if not was_tracing:
            tracemalloc.stop()


def weights_bytes(model: Model) -> int:
    """The bytes of the arrays that the forward pass reads, each once."""
    arrays: list[np.ndarray] = []

    def collect_arrays(part: Any) -> None:
        if isinstance(part, np.ndarray):
            arrays.append(part)
        elif isinstance(part, tuple):
            for each in part:
                collect_arrays(each)
        elif dataclasses.is_dataclass(part):
            for each in vars(part).values():
                collect_arrays(each)

    collect_arrays(model.weights)
    return bytes_held_by(arrays)


def summarize_receipts(done: Run) -> dict[str, str]:
    """What ran, by receipts: op -> implementation, and cache, dtype, arena, overlap and batches in words."""
    first, count = done.receipts[0], len(done.receipts)
    drafts = DraftCounts.sum(receipt.drafts for receipt in done.receipts if receipt.drafts)
    return {op: c.implementation for op, c in first.ops.items()} | {
        "cache": first.cache, "dtype": first.dtype, "overlap": done.overlap,
        "arena": f"{first.arena_bytes:,} bytes in one arena" if first.arena_bytes else "no arena",
        "batches": f"in {count} batch{'' if count == 1 else 'es'}", "drafts": str(drafts) if first.drafts else "none",
    }  # fmt: skip


# ---- are the tokens the same? ----------------------------------------------------------------------------------------


def is_tie(work: Work, number: int, one: Setting, other: Setting) -> bool:
    """Whether two settings part on a text where rounding alone may have parted them.

    At the first step whose candidates differ, the two that stand at the same place must be as near in score as twice
    what rounding does to either; and until then each candidate must score alike on both sides.
    """
    steps = [_trace_one_text(work, number, setting) for setting in (one, other)]
    error, unit = logit_error(work, number)
    for mine, theirs in zip(*steps, strict=False):
        allowed = 4 * score_bound(error, mine.step + 1, unit=unit)
        for x, y in zip(mine.candidates, theirs.candidates, strict=False):
            if abs(x.score - y.score) > allowed:
                return False
            if (x.parent, x.token) != (y.parent, y.token):
                return True
    return False


def is_tie_of_greedy(work: Work, number: int, one: Run, other: Run) -> bool:
    """Whether two greedy texts of a length part where rounding alone may have parted them, by the logits there.

    For texts of drafted tokens, of which there is no trace.
    """
    a, b = one.tokens[number], other.tokens[number]
    x = next(x for x, (mine, theirs) in enumerate(zip(a, b, strict=True)) if mine != theirs)
    logits_V = work.model.logits([np.concatenate([work.ids[number], np.array(a[:x], np.int64)])])[0][-1]
    return bool(abs(logits_V[a[x]] - logits_V[b[x]]) <= 2 * logit_error(work, number)[0])


def _trace_one_text(work: Work, number: int, setting: Setting) -> list[TraceStep]:
    """The search of one text in its batch."""
    size = min(setting.batch_size, len(work.ids))
    first = number // size * size
    out = work.model_stored_as(setting.dtype).generate(
        input_ids=work.ids[first : first + size], plan=setting.plan, trace=True, memory_budget=None,
        **work.options_for_setting(setting),
    )  # fmt: skip
    return out.trace.of(number - first)


def logit_error(work: Work, number: int) -> tuple[float, float]:
    """(what rounding may do to the logits behind a text, the unit roundoff of what the model computes in)."""
    model, unit = work.model, FLOAT64 if work.model.dtype == "float64" else FLOAT32
    start = [model.inputs.decoder_start(model.options())] if model.is_encoder_decoder else None
    largest = float(np.abs(model.logits([work.ids[number]], decoder_input_ids=start)[0]).max())
    return logit_bound(model, largest, model.config.context, unit), unit


def differing_texts(one: Run, other: Run) -> list[int]:
    """Which texts have other tokens."""
    if len(one.tokens) != len(other.tokens):
        raise InputError("two runs of the ladder have other numbers of texts")
    return [i for i, (a, b) in enumerate(zip(one.tokens, other.tokens, strict=True)) if a != b]
