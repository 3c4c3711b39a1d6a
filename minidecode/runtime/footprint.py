"""How much memory a generation takes, from shapes alone and before it starts; and how much the machine has left."""

from __future__ import annotations

import numbers
import re
from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
from pathlib import Path

from ..cache.drafted import DraftedCache
from ..cache.pages import PAGE, pages_for
from ..cache.protocol import CacheSize
from ..cache.queries import MOST_KEYS, rows_per_token
from ..device.low_precision import LOW_PRECISION
from ..device.weight_blocks import count_numbers
from ..errors import MemoryBudgetError, OptionError, counted
from ..options.options import Options
from ..plan import STORED_AS, Plan
from .arena import Extent
from .buckets import rounded_capacity
from .cpu_graphs import MOST_ROWS
from .engine import LOGITS_ROWS
from .kept import kinds_to_keep
from .model_on_device import ModelOnDevice

UNITS = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}
# Arrays of attention's scores, and of the feed-forward part with what the layer before has left: as NumPy's code works
# in place, and if each elementary operation writes one of its own (the last sentence's are there when the next begins).
SCORES, NAIVE_SCORES, FEEDS, NAIVE_FEEDS = 4, 7, 4, 6
EL_ROWS = 4  # as wide as hidden states, of each row and head: the queries times W_k and the sums, each in two orders
SEARCH_SCORES = 5  # logits, log-probabilities, sums of a beam, a processor's copy, what a choice of candidates sorts
LAUNCHES = 2**15  # of each layer: what a captured step holds beside its arrays
OBJECTS = 2**20  # Python's: the receipt, options, counters; they do not grow with a request
FILTER_SCORES = 8  # what a filter makes of one row, in float64 (filters.py)
NOTED_BEAM = 24  # of each row and step: its parent, its token, and an index of each text that is returned
NOTED_GAIN = 24  # of each candidate and step: its parent, its token, and what it adds
NOTED = 3  # copies of the log-probabilities that a call notes: of a pass, of all passes, and the output's
DRAWN_SCORES = 4  # more of them, in float64, where tokens are drawn: what filters sort and sum, and the noise


@dataclass(frozen=True)
class Footprint:
    """An upper bound on a generation's bytes besides the weights. `total` bounds what it holds at one moment."""

    cache: int  # what the caches hold between steps: the receipt's cache_peak_bytes is at most this
    reading: int  # the moment of the prefill (and of the encoder), with what it makes on its way
    expanding: int  # the moment at which the caches of the prefill become those of the steps
    stepping: int  # a step at its longest, with what it makes on its way
    arena: int  # there all the while
    scoring: int = 0  # the moment at which log-probabilities are noted, if the call asks for them
    planning: int = 0  # before all others: the dry runs of a step, which hold all that it makes

    def add(self, other: Footprint) -> Footprint:
        """The footprint of both together: a draft model's is there beside that of the model."""
        return Footprint(*(mine + theirs for mine, theirs in zip(astuple(self), astuple(other), strict=True)))

    @property
    def total(self) -> int:
        moments = self.reading, self.expanding, self.stepping, self.scoring
        return OBJECTS + max(self.planning, self.arena + max(moments))


def footprint(
    model: ModelOnDevice,
    plan: Plan,
    extent: Extent,
    options: Options,
    arena_given: bool = False,
    logprobs: int | None = None,
    keep: Sequence[str] = (),
) -> Footprint:
    """The bytes of a generation of this extent: B sentences of N prompt tokens (S source tokens) and T new ones.

    With R = B * W rows (beams, or samples of each), L layers, numbers of s bytes, and position = G * (K + U) * s, the
    keys and values of one position in one layer (`cross` the same of a source), each layer's cache holds what
    `bytes_between_steps` of its class says: the replicated one position * R * (N + T - 1), the split one position * (B
    * N + R * T). Of sources, caches hold beside that L * cross * R * S where each beam has a copy, else L * cross * B *
    S (none: R * S * D * s; el: B * S * D * s). What a cache stores narrow takes that many bytes, not s. A forward pass
    over r rows that see M positions makes, in a layer, r * (6 D + 2 X) numbers (X: queries, keys and values), and then
    either 4 F a row (F: feed-forward) or one F and 4 H * M, the scores, whichever is more; 6 and 7 in place of 4 if
    written naively, or by a user function. A step makes R * V logits, and the search copies of them; with
    el it makes 4 D numbers more of each row and head, beside the scores. A step of r rows that is captured on the CPU
    keeps r * (8 D + 2 X + 2 F) numbers of each layer, and its logits. A cache that grows or follows its beams copies
    one layer at a time. Scores or logits that a call keeps of each step are T * R * V numbers, and beam_indices take 24
    * T * R bytes, token_scores another 24 for each candidate. Noting log-probabilities is a forward pass more over
    whole texts, while the caches are still there, and keeps K ids and numbers of each token. A latent is one more of
    the N positions, and adds B * D * s. Where steps are captured, N, S and T are rounded up (`rounded_capacity`).
    With query rows a step and a scored text have two rows in place of each, and a prefill has one more a sentence,
    which copies the keys and values that it sees. Where k tokens are drafted, a step has k + 1 rows in place of each,
    and each of the R texts has pages of its own.

    Upper bounds, apart from what the process takes once: buffers of the BLAS, compiled code, imported modules.
    """
    if model.has_latent:
        extent = replace(extent, prompt_tokens=extent.prompt_tokens + 1)
    if plan.captures(model.device):
        names = "source_tokens", "prompt_tokens", "new_tokens"
        extent = replace(extent, **{name: rounded_capacity(getattr(extent, name)) for name in names})
    blocks, s = model.weights.blocks, model.weights.blocks[0].qkv.computed_in.itemsize
    B, N, S, T = extent.sentences, extent.prompt_tokens, extent.source_tokens, extent.new_tokens
    if model.reads_in_front:  # sources are read like prompts
        N, S = S + N, 0
    R = B * (options.num_beams if options.num_beams > 1 else options.num_return_sequences)
    L, D, h, V = len(blocks), model.config.width, blocks[0].heads, model.config.vocab_size
    position, has_source = h.G * (h.K + h.U) * s, S > 0
    each = rows_per_token(model.weights)
    narrow = model.dtype in LOW_PRECISION or blocks[0].qkv.layout == "panels"
    stored_as = STORED_AS[plan.cache_dtype]
    m = s if stored_as is None else min(s, stored_as.itemsize)  # bytes of a number in a cache
    kept = h.G * (h.K + h.U) * m

    kind = DraftedCache if options.tokens_ahead else plan.cache_kind(has_source)
    el, hidden = kind.reads_hidden_states, D if kind.reads_hidden_states else 0
    size = CacheSize(B, R, N, T, h.G, h.window, stored=kept, computed=position, hidden=D * m)
    cache_bytes = kind.bytes_between_steps(size)
    # One layer's, as wide as it is computed: so it is made, and so code that is not compiled reads it.
    held_reading, held_stepping = L * kind.prompt_bytes(size), L * cache_bytes
    layer = max(cache_bytes * s // m, position * B * N)
    if has_source:
        cross = blocks[0].cross_heads
        source, cross_position = D * s, cross.G * (cross.K + cross.U) * s
        sources_held = 0 if el or not kind.keeps else R if kind.cross.is_per_beam else B
        per_layer = sources_held * S * cross_position
        held_reading += B * S * (source + (L * cross_position * m // s if sources_held else 0))
        held_stepping += L * per_layer * m // s + (B * D * m if el else 0 if kind.keeps else R * source) * S
        layer = max(layer, per_layer)
    if el and narrow:
        wide = blocks[0].cross_heads if has_source else h
        held_reading, held_stepping = (held + L * wide.G * (wide.K + wide.U) * D * s
                                       for held in (held_reading, held_stepping))  # fmt: skip

    latent = 0
    if model.has_latent:  # what it gives each layer, and rows of queries, keys and values with the latents' in front
        X = blocks[0].qkv.outputs
        sentences, rows = (B, B * N) if kind.keeps else (R, R * (N + T))
        latent = (sentences * (L * (h.G * h.K + X) + D) + 2 * rows * X) * s
        held_reading, held_stepping = (held + kind.keeps * B * D * s for held in (held_reading, held_stepping))
    ahead = 1 + options.tokens_ahead  # rows of a text in a step
    if ahead > 1:  # the pages of each row, gathered
        layer = max(layer, R * ahead * pages_for(N + T) * PAGE * position)
    naive = any(choice == "naive" or ":" in choice for choice in vars(plan).values())
    copies = 2 * layer * (h.H // h.G if naive else 1)
    choice = (
        R * ahead * V * (SEARCH_SCORES * s + (8 * DRAWN_SCORES if options.do_sample else 0)) + 8 * FILTER_SCORES * V
    )
    if ahead > 1:  # a text for each row, and where they are drawn, the probabilities of a draft
        choice += R * ahead * 8 * (N + T + (V if options.do_sample else 0))
    widened = _widest_matrix(model) * s if narrow else 0

    def intermediate_bytes(rows: int, seen: int, rows_at_once: int, hidden: int = 0) -> int:
        """Bytes that one layer makes. rows_at_once: of queries in attention. hidden: the width of what EL looks at."""
        stack = [*blocks, *(model.weights.encoder.blocks if has_source else ())]
        F, X = max(b.up.outputs for b in stack), max(b.qkv.outputs for b in stack) + model.config.position_bias_outputs
        H = max(b.heads.H for b in stack)
        scores, feeds = (NAIVE_SCORES, NAIVE_FEEDS) if naive else (SCORES, FEEDS)
        of_heads = scores * seen + EL_ROWS * hidden
        attention = rows * F + H * rows_at_once * of_heads  # with what the layer before has left
        return s * (rows * (6 * D + (1 + each) * X) + max(attention, feeds * rows * F))

    def query_copies(queries: int, kept: int, seen: int) -> int:
        """Keys and values that query rows of a prefill copy: all of them once, and those that some rows see."""
        return position * (kept + queries + min(queries * (seen + 1), max(MOST_KEYS, seen + 1))) if each == 2 else 0

    if not kind.keeps:  # a step reads whole texts again, and each beam a source of its own
        text = N + T
        every = intermediate_bytes(R * (max(text, S) + each - 1), max(text, S), max(text, S)) + query_copies(
            R, R * text, text
        )
        again = 3 * L * R * S * cross_position if has_source else 0
        reading, step = every + again + latent, every + again + latent + R * text * 2 * position
    else:
        reading = (
            intermediate_bytes(B * (max(N, S) + each - 1), max(N, S), max(N, S)) + query_copies(B, B * N, N) + latent
        )
        if has_source:  # its keys and values are made, of all layers at once, when the encoder is done
            reading = max(
                reading, intermediate_bytes(B * (N + each - 1), max(N, S), N) + 2 * L * B * S * cross_position
            )
        step = intermediate_bytes(each * R * ahead, max(N + T, S), each * R * ahead, hidden) + copies
    one_layer = intermediate_bytes(each * R, max(N + T, S), each * R, hidden) + kind.gathered_bytes(size)
    separate = L * 4 * one_layer + choice  # what a user's planner may take, too
    step += captured_bytes(model, plan, min(R, MOST_ROWS))  # of more, when sentences have left
    arena = 0 if plan.arena == "none" else one_layer + choice if plan.arena == "planned" else separate
    planning = 0
    if plan.arena != "none" and not arena_given:  # up to two ways of a step, with caches that grow as it makes them
        grown = 2 * held_stepping if kind.grows else 0
        planning = 2 * (L * one_layer + choice + grown) + cache_bytes
    kinds = set(kinds_to_keep(keep, options))
    noted_steps = T * R * V * s * len({"scores", "logits"} & kinds)
    noted_steps += T * R * NOTED_BEAM * bool({"beam_indices", "token_scores"} & kinds)
    noted_steps += T * max(R, B * options.candidates) * NOTED_GAIN * ("token_scores" in kinds)
    scoring = 0
    if logprobs is not None:
        texts, at_once = B * options.num_return_sequences, model.config.context  # tokens of texts in one pass
        read, heard = (min(texts * longest, max(at_once, longest)) for longest in (N + T, S))
        pieces = intermediate_bytes(each * read, max(N + T, S), each * (N + T)) + query_copies(read, read, N + T)
        passes = max(pieces, intermediate_bytes(heard, S, S))
        sources = heard * (D * s + 3 * L * cross_position) if has_source else 0
        logits = min(read, LOGITS_ROWS) * V * (SEARCH_SCORES * s + 16)
        noted = NOTED * texts * T * (s + max(1, logprobs) * (s + 8))
        scoring = noted_steps + held_stepping + passes + sources + logits + noted + widened
    twice = 1 if options.guidance_scale == 1.0 else 2  # a second engine steps behind the negative prompts
    return Footprint(
        cache=twice * max(held_reading, held_stepping), reading=twice * (held_reading + reading + widened + choice),
        expanding=twice * (held_reading + held_stepping + copies + choice),
        stepping=twice * (held_stepping + step + widened + choice) + noted_steps, arena=0 if arena_given else arena,
        scoring=scoring and scoring + (twice - 1) * held_stepping, planning=planning,
    )  # fmt: skip


def captured_bytes(model: ModelOnDevice, plan: Plan, rows: int) -> int:
    """Bytes that a step of this many rows keeps when it is captured on the CPU; 0 where none is."""
    if model.device != "cpu" or not plan.captures_on_cpu or plan.arena != "none":
        return 0
    blocks, each = model.weights.blocks, rows_per_token(model.weights)
    F, X = max(b.up.outputs for b in blocks), max(b.qkv.outputs for b in blocks)
    numbers = len(blocks) * each * (8 * model.config.width + 2 * X + 2 * F) + model.config.vocab_size
    return rows * blocks[0].qkv.computed_in.itemsize * numbers


def captured_rows_within(model: ModelOnDevice, plan: Plan, rows: int, budget: int | None) -> tuple[int, int]:
    """(rows of the largest step that a running batch captures, bytes of one step of each number of rows up to it).

    They take a quarter of the budget at most. rows: of the batch.
    """
    objects = LAUNCHES * len(model.weights.blocks)
    each = [captured_bytes(model, plan, r) + objects for r in range(1, min(rows, MOST_ROWS) + 1)]
    if each[0] == objects:  # none is captured
        return MOST_ROWS, 0
    while budget is not None and sum(each) > budget // 4:
        each.pop()
    return len(each), sum(each)


def _widest_matrix(model: ModelOnDevice) -> int:
    """Numbers of the largest product's matrix, which a naive product of low-precision weights makes wide."""
    blocks = (*model.weights.blocks, *(model.weights.encoder.blocks if model.weights.encoder else ()))
    products = [w for b in blocks for w in vars(b).values() if hasattr(w, "layout")]
    return max(count_numbers(w) for w in [*products, model.weights.lm_head])


def check_fits(needed: Footprint, budget: int, extent: Extent) -> None:
    """Raises MemoryBudgetError, with figures, if a generation may take more than the budget."""
    if needed.total > budget:
        raise MemoryBudgetError(
            f"{extent} may take {format_bytes(needed.total)} (keys and values {format_bytes(needed.cache)}), "
            f"and {format_bytes(budget)} may be used: ask for fewer or shorter texts or fewer beams, or"
            " raise the memory "
            "budget (--memory-budget, memory_budget=)"
        )


def parse_budget(budget: int | str | None, device: str = "cpu") -> int | None:
    """Bytes from a number, from a text such as "2GB" or "512 MiB", or of what is left ("available").

    None, and "none": no limit. device: whose memory is asked what is left. Raises OptionError on what is no amount.
    """
    if budget is None or budget == "none":
        return None
    if isinstance(budget, numbers.Integral) and not isinstance(budget, bool) and budget > 0:
        return int(budget)
    if budget == "available":
        return available_bytes() if device == "cpu" else free_on_device(device)
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", budget.lower()) if isinstance(budget, str) else None
    size = float(match[1]) * UNITS.get(match[2] or "b", 0) if match else 0
    if size < 1:
        raise OptionError(
            "memory_budget must be bytes, at least one, a text such as 2GB or 512MiB, available (what is left) or none"
            f" (no limit), not {budget!r:.80}"
        )
    return int(size)


def format_bytes(size: int) -> str:
    """Bytes for people: three digits and a unit."""
    for name in ("GB", "MB", "kB"):
        if size >= UNITS[name.lower()]:
            return f"{size / UNITS[name.lower()]:.3g} {name}"
    return counted(size, "byte")


MEMINFO, CGROUP = Path("/proc/meminfo"), Path("/sys/fs/cgroup")


def free_on_device(device: str) -> int | None:
    """What a device has left: of a GPU, with what CuPy's pool holds unused, within the pool's limit if it has one."""
    if device == "emulator":
        from ..emulator.device_array import MEMORY

        return available_bytes() if (memory := MEMORY.get()) is None else memory.free
    import cupy

    pool = cupy.get_default_memory_pool()
    free, limit = cupy.cuda.runtime.memGetInfo()[0] + pool.free_bytes(), pool.get_limit()
    return min(free, max(0, limit - pool.used_bytes())) if limit else free


def available_bytes() -> int | None:
    """What Linux could give without swapping, and a container's limit leaves; None where neither is known."""
    limits = []
    try:
        line = re.search(r"^MemAvailable:\s+(\d+) kB", MEMINFO.read_text(), re.MULTILINE)
        limits += [int(line[1]) * 1024] if line else []
    except OSError:
        pass
    try:
        limit, used = ((CGROUP / name).read_text().strip() for name in ("memory.max", "memory.current"))
        cached = re.search(r"^inactive_file (\d+)", (CGROUP / "memory.stat").read_text(), re.MULTILINE)
        limits += [max(0, int(limit) - int(used) + int(cached[1] if cached else 0))] if limit != "max" else []
    except (OSError, ValueError):
        pass
    return min(limits, default=None)
