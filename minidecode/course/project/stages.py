"""The stages of the course project: what each must do, and how that is judged.

A stage passes on right answers, on the bytes that its caches hold and on the multiply-adds that it spends. Each
message names what is wrong and, where the numbers tell it, the mistake.
"""

from __future__ import annotations

import math
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from . import measure

CLOSE = 2e-3  # that a logit may differ: rounding of float32 through six layers stays below 1e-4, and mistakes do not
SLACK = 1.02  # of multiply-adds and bytes
LEAST = 5  # a cache of 8-bit numbers has 1 / 4 of the bytes that are enough; less than 1 / LEAST is none
TEXT, MORE = "Fellow citizens of the Senate and of the House of Representatives,", "The people of this country"
COUNT, WIDTH, GROUPS = 6, 4, 2
PARENTS = [0, 0, 1, 3]  # of rows that are reordered


class Miss(Exception):  # noqa: N818 (it is a verdict)
    """What is wrong, in words."""


@dataclass
class Kit:
    """What the checks need: the student's module, its checkpoint, and our model of the same function."""

    engine: ModuleType
    folder: str
    numbers: dict[str, Any] = field(default_factory=dict)  # shown with the verdict
    _known: dict[tuple, np.ndarray] = field(default_factory=dict)

    @cached_property
    def oracle(self) -> Any:
        from ...loading import load

        return load("tiny-gpt2")

    @cached_property
    def prompts(self) -> list[list[int]]:
        return [[int(i) for i in self.oracle.tokenizer.encode(text)] for text in (TEXT, MORE)]

    @cached_property
    def model(self) -> Any:
        return measure.with_counted_weights(self.engine.load(self.folder))

    def logits(self, ids: list[int], model: Any = None) -> np.ndarray:
        """Ours, of each position; each is computed once."""
        key = (model, tuple(ids))
        if key not in self._known:
            self._known[key] = (model or self.oracle).logits([ids])[0]
        return self._known[key]

    def spent(self, function: Callable, *args: Any, **named: Any) -> tuple[Any, int]:
        """(its result, the multiply-adds with weights that it spent)."""
        measure.count()
        result = function(*args, **named)
        return result, measure.count()

    @cached_property
    def row(self) -> int:
        """Multiply-adds of one row through all layers and the output matrix."""
        _, spent = self.spent(self.engine.forward, self.model, self.prompts[0][:1])
        self.at_least("forward", spent, 1, 1)
        return spent

    def at_least(self, name: str, spent: int, rows: int, logits: int) -> None:
        """Raises Miss where fewer multiply-adds are counted than so many rows through the layers, and logits, take."""
        shapes = self.oracle.config
        width = shapes.n_embd
        least = rows * shapes.n_layer * 12 * width * width + logits * width * shapes.vocab_size
        if spent < least:
            raise Miss(
                f"{name} multiplies {spent:,} numbers with weights for {rows} row{'s' * (rows > 1)}, and {least:,} are"
                " needed: make products of the model's own arrays, with @, np.matmul, np.dot or np.einsum, so that they"
                " can be counted, and keep no results from one call to the next"
            )

    def rows(self, spent: int) -> float:
        return spent / self.row

    def shape(self, name: str, value: Any, wanted: tuple[int, ...]) -> np.ndarray:
        """The value as an array. Raises Miss on another shape."""
        array = measure.plain(np.asarray(value))
        if array.shape != wanted:
            raise Miss(f"{name} gives an array of shape {array.shape}, and {wanted} is wanted")
        return array

    def same(self, name: str, found: Any, wanted: np.ndarray, hint: str = "") -> None:
        """Raises Miss where logits differ."""
        found = self.shape(name, found, wanted.shape)
        apart = np.abs(found - wanted)
        if not (apart <= CLOSE).all():
            worst = np.unravel_index(np.nanargmax(np.where(np.isnan(apart), np.inf, apart)), apart.shape)
            where = "".join(f"[{k}]" for k in worst)
            raise Miss(f"{name}{where} is {found[worst]:.4f}, and should be {wanted[worst]:.4f}. {hint}".rstrip())


@contextmanager
def given(what: str) -> Iterator[None]:
    """An error of the student's code says what it was given."""
    try:
        yield
    except Exception as error:
        error.add_note(what)
        raise


# Stage 1


def check_forward(kit: Kit) -> None:
    ids = kit.prompts[0]
    check_load(kit, ids)
    wanted = kit.logits(ids)
    found = kit.shape("forward", kit.engine.forward(kit.model, ids), wanted.shape)
    if np.abs(found[0] - wanted[0]).max() <= CLOSE < np.abs(found - wanted).max():
        first = int(np.argmax(np.abs(found - wanted).max(1) > CLOSE))
        hint = (
            f"Row 0 is right, and row {first} is the first that is not: positions, the causal mask, or what is divided"
            " by sqrt(K), concern the rows behind the first."
        )
        kit.same("forward", found, wanted, hint)
    alone = kit.shape("forward", kit.engine.forward(kit.model, ids[:1]), wanted[:1].shape)
    if np.abs(alone - wanted[:1]).max() <= CLOSE < np.abs(found[:1] - wanted[:1]).max():
        raise Miss("forward: row 0 changes with the tokens behind it. The causal mask is missing: row t sees 0 to t.")
    hint = "Norm, GELU (the tanh form), heads, or a tensor of LAYOUT.txt: compare the layers one by one."
    kit.same("forward", found, wanted, hint)
    kit.same("forward", kit.engine.forward(kit.model, kit.prompts[1]), kit.logits(kit.prompts[1]))
    kit.numbers["multiply-adds of one row"] = kit.row


def check_load(kit: Kit, ids: list[int]) -> None:
    """Whether what `load` reads is in the folder: in a copy of it all ids are one higher, the last one is 0."""
    from safetensors.numpy import load_file, save_file

    config = kit.oracle.config
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy"
        shutil.copytree(kit.folder, copy)
        tensors = load_file(copy / "model.safetensors")
        shape = (config.vocab_size, config.n_embd)
        save_file({n: np.roll(t, 1, axis=0) if t.shape == shape else t for n, t in tensors.items()},
                  copy / "model.safetensors")  # fmt: skip
        model = kit.engine.load(str(copy))
    found = kit.engine.forward(model, [(i + 1) % config.vocab_size for i in ids])
    wanted = kit.logits(ids)
    if np.shape(found) == wanted.shape and np.abs(measure.plain(np.asarray(found)) - wanted).max() <= CLOSE:
        raise Miss("load gives the same model for another checkpoint: it is to read the folder that it is given")
    found = kit.shape("forward", found, wanted.shape)
    if (
        np.abs(np.roll(found, -1, axis=1) - wanted).max()
        > CLOSE
        >= np.abs(kit.shape("forward", kit.engine.forward(kit.model, ids), wanted.shape) - wanted).max()
    ):
        raise Miss("forward is right, but not for a copy of the checkpoint in which all ids are one higher: load is to"
                   " read everything in the folder that it is given")  # fmt: skip


# Stage 2


def check_greedy(kit: Kit) -> None:
    for ids in kit.prompts:
        given = list(ids)
        wanted = greedy_of(kit, ids)
        found, spent = kit.spent(kit.engine.greedy, kit.model, given, COUNT)
        tokens("greedy", found, wanted)
        if given != list(ids):
            raise Miss("greedy changed the list that it was given: copy it first")
        kit.numbers["rows through the layers"] = round(kit.rows(spent))
    kit.numbers["text"] = kit.oracle.tokenizer.decode(wanted)


def greedy_of(kit: Kit, ids: list[int], count: int = COUNT, model: Any = None) -> list[int]:
    ids = list(ids)
    for _ in range(count):
        ids.append(int(kit.logits(ids, model)[-1].argmax()))
    return ids[-count:]


def tokens(name: str, found: Any, wanted: list[int]) -> None:
    found = [int(i) for i in found]
    if found != wanted:
        raise Miss(f"{name} says the ids {found}, and {wanted} are the likeliest")


# Stage 3


def check_cache(kit: Kit) -> None:
    engine, model = kit.engine, kit.model
    for ids in kit.prompts:
        wanted = kit.logits([*ids, *greedy_of(kit, ids)])
        (logits, cache), spent = kit.spent(engine.prefill, model, ids)
        kit.same("prefill", logits, wanted[len(ids) - 1])
        if kit.rows(spent) > SLACK * len(ids):
            raise Miss(f"prefill sends {kit.rows(spent):.1f} rows through the layers, and the prompt has {len(ids)}")
        kit.at_least("prefill", spent, len(ids), 1)
        for k, token in enumerate(greedy_of(kit, ids)):
            logits, spent = kit.spent(engine.step, model, cache, [token])
            if kit.rows(spent) > SLACK:
                raise Miss(
                    f"step sends {kit.rows(spent):.1f} rows through the layers, and one is new: the others' keys and"
                    " values are in the cache"
                )
            hint = "The first step is wrong: does the new token attend to itself, and is its position that of the next?"
            later = "The first step was right: each step must keep its token for the next one, and count positions on."
            kit.same("step", logits, wanted[len(ids) + k][None], later if k else hint)
            kit.at_least("step", spent, 1, 1)
    found, spent = kit.spent(engine.generate, model, kit.prompts[0], COUNT)
    tokens("generate", found, greedy_of(kit, kit.prompts[0]))
    if kit.rows(spent) > SLACK * (len(kit.prompts[0]) + COUNT):
        raise Miss(
            f"generate sends {kit.rows(spent):.1f} rows through the layers for a prompt of {len(kit.prompts[0])} and"
            f" {COUNT} tokens: begin with prefill, then a step for each token"
        )
    cache_at_most(kit, "the cache", cache, (len(ids) + COUNT) * per_position(kit))


def per_position(kit: Kit, groups: int | None = None) -> int:
    """Bytes of a position's keys and values, in float32."""
    config = kit.oracle.config
    width = config.n_embd * (groups or config.n_head) // config.n_head
    return 2 * 4 * width * config.n_layer


def cache_at_most(kit: Kit, name: str, cache: Any, most: int, hint: str = "", model: Any = None) -> None:
    held = measure.held_bytes(cache, kit.model if model is None else model)
    if held == 0:
        raise Miss(
            "the cache holds no arrays that could be counted: keep them in lists, dicts or attributes of an object"
        )
    at_most(kit, name, held, most, f"{hint} {measure.why_too_many(cache)}".strip())
    if held < most // LEAST:
        raise Miss(
            f"{name} holds {held:,} bytes of arrays that can be found, and all its positions have about {most:,}: keep"
            " them in lists, dicts or attributes of the cache"
        )


def at_most(kit: Kit, name: str, held: int, most: int, hint: str = "") -> None:
    kit.numbers[f"bytes of {name}"] = held
    if held > SLACK * most + 4096:
        raise Miss(f"{name} holds {held:,} bytes, and {most:,} are enough. {hint}".rstrip())


# Stage 4


def check_beams(kit: Kit) -> None:
    for ids in kit.prompts:
        compare_beams(kit, "beam_search", kit.engine.beam_search(kit.model, ids, COUNT, WIDTH), ids)
    _, spent = kit.spent(kit.engine.beam_search, kit.model, ids, COUNT, WIDTH)
    rows, most = kit.rows(spent), len(ids) + WIDTH * (COUNT - 1)
    kit.numbers["rows through the layers"] = round(rows)
    if rows > SLACK * most:
        raise Miss(f"beam_search sends {rows:.0f} rows through the layers, and {most} are enough: the prompt once, then"
                   f" {WIDTH} rows a step")  # fmt: skip
    kit.at_least("beam_search", spent, most, 1 + WIDTH * (COUNT - 1))


def compare_beams(kit: Kit, name: str, found: Any, ids: list[int]) -> None:
    wanted = beams_of(kit, ids)
    found = [(float(score), [int(i) for i in row]) for score, row in found]
    if len(found) != len(wanted):
        raise Miss(f"{name} gives {len(found)} texts, and {len(wanted)} beams were asked for")
    if all(row == wanted[0][1] for _, row in found):
        raise Miss(f"{name} says the same text {WIDTH} times: the first {WIDTH} beams come from one row, so its W best")
    for k, ((score, row), (right_score, right)) in enumerate(zip(found, wanted, strict=True)):
        if row != right:
            raise Miss(f"{name}: text {k} is {row}, and should be {right} (is the cache reordered with the beams?)")
        if abs(score - right_score) > CLOSE * COUNT:
            raise Miss(
                f"{name}: text {k} is right, and its score is {score:.4f} in place of {right_score:.4f}: the sum of the"
                " log-probabilities of all its tokens"
            )


def beams_of(kit: Kit, ids: list[int]) -> list[tuple[float, list[int]]]:
    """Ours: of all continuations the best, each beam's logits from a forward pass of its own."""
    beams = [(0.0, [])]
    for _ in range(COUNT):
        totals = np.concatenate([s + log_softmax(kit.logits([*ids, *said])[-1]) for s, said in beams])
        best = np.argsort(-totals, kind="stable")[:WIDTH]
        parents, ids_of = np.divmod(best, len(totals) // len(beams))
        beams = [(float(totals[b]), [*beams[p][1], int(t)]) for b, p, t in zip(best, parents, ids_of, strict=True)]
    return beams


def log_softmax(logits: np.ndarray) -> np.ndarray:
    logits = logits.astype(np.float64) - logits.max()
    return logits - math.log(np.exp(logits).sum())


# Stage 5


def check_split(kit: Kit) -> None:
    engine, ids = kit.engine, kit.prompts[0]
    for name, prompts in (("repeat", WIDTH), ("split", 1)):
        _, cache = engine.prefill(kit.model, ids)
        cache = steps_of_rows(kit, f"step after {name}", getattr(engine, name)(cache, WIDTH))
        most = (prompts * len(ids) + 3 * WIDTH) * per_position(kit)
        hint = f"The prompt of {len(ids)} positions is to be held {'once' if prompts == 1 else f'{WIDTH} times'}."
        cache_at_most(kit, f"the cache of {name}", cache, most, hint)
    compare_beams(
        kit, "beam_search with split", engine.beam_search(kit.model, ids, COUNT, WIDTH, expand=engine.split), ids
    )


def steps_of_rows(kit: Kit, name: str, cache: Any, hint: str = "", model: Any = None, ours: Any = None) -> Any:
    """The cache after three steps of WIDTH rows, reordered after each. Raises Miss where logits differ.

    model: a student's, `ours` its oracle.
    """
    texts = [list(kit.prompts[0]) for _ in range(WIDTH)]
    first = "The first step is wrong: one softmax goes over the prompt's positions and the row's own together."
    later = "The first step was right, then reorder was called: do each row's own keys and values go with it?"
    for k, token in enumerate(greedy_of(kit, kit.prompts[0])[:3]):
        texts = [[*text, token + r] for r, text in enumerate(texts)]
        wanted = np.stack([kit.logits(text, ours)[-1] for text in texts])
        found = kit.engine.step(kit.model if model is None else model, cache, [text[-1] for text in texts])
        kit.same(name, found, wanted, later if k else hint or first)
        cache, texts = kit.engine.reorder(cache, PARENTS), [texts[parent] for parent in PARENTS]
    return cache


# Stage 6


def check_ngrams(kit: Kit) -> None:
    rng = np.random.default_rng(5)
    cases = [
        ([[1, 2, 3, 1, 2]], 3),
        ([[5, 5, 5]], 2),
        ([[1, 2]], 3),
        ([[7]], 3),
        ([[5, 5]], 2),
        ([[4, 9, 4, 9, 4]], 1),
        ([[1, 1, 1, 1]], 3),
    ]
    cases += [(rng.integers(0, 4, (3, int(length))).tolist(), int(n)) for length in (5, 17, 40) for n in (2, 3, 4)]
    for rows, n in cases:
        scores = rng.normal(size=(len(rows), 12)).astype(np.float32)
        wanted = scores.copy()
        for r, row in enumerate(rows):
            for start in range(len(row) - n + 1):
                if row[start : start + n - 1] == row[len(row) - n + 1 :] and len(row) >= n - 1:
                    wanted[r, row[start + n - 1]] = -np.inf
        with given(f"rows = {rows}, n = {n}"):
            found = kit.engine.ban_ngrams(scores.copy(), [list(row) for row in rows], n)
        found = kit.shape("ban_ngrams", found, wanted.shape)
        if not np.array_equal(found, wanted):
            r, v = np.argwhere((found != wanted) & ~(np.isnan(found) & np.isnan(wanted)))[0]
            verb = (
                "is to be banned, and is not" if wanted[r, v] == -np.inf else "is banned (or changed), and is not to be"
            )
            raise Miss(f"ban_ngrams: in the row {rows[r]}, with n = {n}, token {v} {verb}")


# Stage 7


def check_top_p(kit: Kit) -> None:
    rng = np.random.default_rng(7)
    hand = np.log(np.array([0.1, 0.5, 0.15, 0.25]))
    cases = [(hand, 0.7, u) for u in (0.0, 0.6, 0.67, 0.999)] + [(hand, 0.5, 0.9), (hand, 1.0, 0.95), (hand, 1e-9, 0.5)]
    cases += [
        (rng.normal(0, 3, 200).astype(np.float32), float(rng.uniform(0.05, 1)), float(rng.random())) for _ in range(60)
    ]
    cases.append((np.array([0.0, 1.0, 1.0, 0.0]), 0.6, 0.6))
    exact = [(np.zeros(4), 1.0, u) for u in (0.0, 0.25, 0.5, 0.75)]  # all numbers are exact in binary
    for logits, p, u in cases + exact:
        wanted, margin = top_p_of(logits, p, u)
        with given(f"{len(logits)} logits, p = {p:.3g}, u = {u:.3g}"):
            found = int(kit.engine.top_p(logits.copy(), p, u))
        if found != wanted and (margin > 1e-6 or (logits == 0).all()):
            shown = np.round(np.exp(log_softmax(logits)), 3).tolist()
            what = f"tokens with the probabilities {shown}" if len(logits) < 9 else f"{len(logits)} tokens"
            raise Miss(
                f"top_p: of {what}, with p = {p:.3g} and u = {u:.3g}, it draws {found}, and should draw {wanted}"
            )


def top_p_of(logits: np.ndarray, p: float, u: float) -> tuple[int, float]:
    """(the token, how near its decision is to another)."""
    probability = np.exp(log_softmax(logits))
    order = np.argsort(-probability, kind="stable")
    sums = np.cumsum(probability[order])
    number = min(int((sums < p).sum()) + 1, len(order))
    shares = sums[:number] / sums[number - 1]
    place = min(int((shares <= u).sum()), number - 1)
    return int(order[place]), float(min(np.abs(sums - p).min() if p < 1 else 1.0, np.abs(shares - u).min()))


# Stage 8


def check_groups(kit: Kit) -> None:
    engine, ids = kit.engine, kit.prompts[0]
    ours = grouped_oracle(kit)
    model = measure.with_counted_weights(engine.group_heads(kit.model, GROUPS))
    hint = (
        f"The mean is over runs of {kit.oracle.config.n_head // GROUPS} neighbouring heads, of weights and of biases."
    )
    kit.same("forward of group_heads", engine.forward(model, ids), kit.logits(ids, ours), hint)
    tokens("generate of group_heads", engine.generate(model, ids, COUNT), greedy_of(kit, ids, model=ours))
    _, cache = engine.prefill(model, ids)
    hint = f"It is to hold {GROUPS} heads of each position."
    cache_at_most(kit, "the cache of fewer heads", cache, len(ids) * per_position(kit, GROUPS), hint, model)
    kit.same("forward of the model as it was", engine.forward(kit.model, ids), kit.logits(ids), "It was changed.")
    if begun(lambda: engine.split(engine.prefill(kit.model, ids)[1], WIDTH)):
        name = "step after group_heads and split"
        cache = steps_of_rows(kit, name, engine.split(cache, WIDTH), model=model, ours=ours)
        most = (len(ids) + 3 * WIDTH) * per_position(kit, GROUPS)
        cache_at_most(kit, "the split cache of fewer heads", cache, most, hint, model)


def begun(call: Callable[[], Any]) -> bool:
    """Whether a function of another stage is written."""
    try:
        call()
    except NotImplementedError:
        return False
    return True


def grouped_oracle(kit: Kit) -> Any:
    from ...files.head_pooling import convert
    from ...loading import load

    with tempfile.TemporaryDirectory() as folder:
        convert("tiny-gpt2", Path(folder) / "grouped", num_key_value_heads=GROUPS)
        return load(Path(folder) / "grouped")


# Stage 9


def check_el(kit: Kit) -> None:
    engine, ids = kit.engine, kit.prompts[0]
    said = greedy_of(kit, ids)
    wanted = kit.logits([*ids, *said])
    logits, cache = engine.prefill_el(kit.model, ids)
    config = kit.oracle.config
    # The new row's key and value may be made. Hidden states are sums with rows of the embedding: their products count.
    more = 2 * config.n_embd**2 + 2 * config.n_head * (len(ids) + COUNT) * config.n_embd
    most = SLACK * (1 + config.n_layer * more / kit.row)
    kit.same("prefill_el", logits, wanted[len(ids) - 1])
    for k, token in enumerate(said):
        logits, spent = kit.spent(engine.step, kit.model, cache, [token])
        if kit.rows(spent) > most:
            raise Miss(
                f"step with hidden states costs as much as {kit.rows(spent):.1f} rows: do not make keys and values of"
                " all positions; move the query through the key's weights, (q Wk) h, and mix hidden states before Wv"
            )
        hint = "Keep the normed row, not x. Divide scores by sqrt(K). The value's bias adds to each head's result once."
        kit.same("step after prefill_el", logits, wanted[len(ids) + k][None], hint)
        kit.at_least("step with hidden states", spent, 1, 1)
    cache_at_most(kit, "the cache of hidden states", cache, (len(ids) + COUNT) * per_position(kit) // 2)
    hint = (
        "If a row's own positions are keys and values, their biases are in them. Then the prompt's scores need q . bk,"
        " and its part of the result needs bv times the prompt's share of the softmax."
    )
    split = engine.split(engine.prefill_el(kit.model, ids)[1], WIDTH)
    steps_of_rows(kit, "step after prefill_el and split", split, hint)
    found = engine.beam_search(kit.model, ids, COUNT, WIDTH, begin=engine.prefill_el, expand=engine.split)
    compare_beams(kit, "beam_search with prefill_el and split", found, ids)


# Stage 10


def check_hars(kit: Kit) -> None:
    rng = np.random.default_rng(10)
    rows = [rng.normal(size=4096).astype(np.float32), kit.logits(kit.prompts[0])[-1], np.zeros(300, np.float32),
            np.arange(1000, dtype=np.float32), -np.arange(1001, dtype=np.float32)]  # fmt: skip
    rows.append(np.where(np.arange(640) % 7 == 0, -np.inf, rng.integers(0, 5, 640)).astype(np.float32))
    few = np.zeros(4000, np.float32)  # 5 scores of 2, 300 of 1: the ids decide among equal ones
    few[rng.permutation(4000)[:300]], few[rng.permutation(4000)[:5]] = 1, 2
    for scores in [*rows, few]:
        for count, groups in ((1, 1), (8, 8), (8, 32), (3, 16)):
            wanted = np.argsort(-scores, kind="stable")[:count]
            asked = f"of {len(scores)} scores, count = {count}, groups = {groups}"
            with given(asked), Sorts(kit.engine) as sorts:
                best, ids = kit.engine.hars(scores.copy(), count, groups)
            if np.ndim(ids) == 1 and np.size(ids) < count:
                raise Miss(f"hars: {asked}: it gives {np.size(ids)}: those equal to the threshold stay, and the"
                           " threshold is the count-th best of the groups' maxima")  # fmt: skip
            ids = kit.shape("hars (ids)", ids, (count,))
            if ids.tolist() != wanted.tolist():
                raise Miss(
                    f"hars: {asked}: the ids are {ids.tolist()},"
                    f" and should be {wanted.tolist()} (equal scores by id; those equal to the threshold stay)"
                )
            if not np.array_equal(kit.shape("hars (scores)", best, (count,)), scores[wanted]):
                raise Miss("hars: the ids are right, and the scores are not theirs")
            if groups >= 16 and len(np.unique(scores)) > 900 and sorts.numbers > len(scores) // 2:
                raise Miss(f"hars sorts {sorts.numbers} of {len(scores)} scores: sort what reaches the threshold alone")


class Sorts:
    """Counts the numbers that are sorted: by arrays and lists, and by what the engine calls of NumPy and Python."""

    METHODS = ("sort", "argsort", "partition", "argpartition")  # np.sort and its like call them

    def __init__(self, engine: ModuleType):
        self.numbers, self._engine, self._before = 0, engine, None

    def __enter__(self) -> Sorts:
        self._engine.__dict__.setdefault("sorted", self._sorted)
        self._lexsort, np.lexsort = np.lexsort, self._lexsorted
        self._before = sys.getprofile()
        sys.setprofile(self._see)
        return self

    def __exit__(self, *_: Any) -> None:
        sys.setprofile(self._before)
        np.lexsort = self._lexsort
        if vars(self._engine)["sorted"] == self._sorted:
            del self._engine.sorted

    def _see(self, frame: Any, event: str, called: Any) -> None:
        if event == "c_call" and called.__name__ in self.METHODS and isinstance(called.__self__, np.ndarray | list):
            array = called.__self__
            self.numbers += len(array) if isinstance(array, list) else array.size

    def _sorted(self, numbers: Any, **how: Any) -> list:
        found = sorted(numbers, **how)
        self.numbers += len(found)
        return found

    def _lexsorted(self, keys: Any, axis: int = -1) -> np.ndarray:
        self.numbers += np.size(keys[-1])
        return self._lexsort(keys, axis)


# Stage 11


def check_int8(kit: Kit) -> None:
    engine, ids = kit.engine, kit.prompts[0]
    before = measure.held_bytes(kit.model)
    model = measure.with_counted_weights(engine.quantize(kit.model))
    held = measure.held_bytes(model)
    config = kit.oracle.config
    embeddings = 4 * config.n_embd * (config.vocab_size + config.n_positions)
    at_most(kit, "the int8 model", held, int(1.1 * (before - embeddings) / 4) + embeddings,
            "Keep int8 numbers and the scales; cast one matrix at a time, in the product.")  # fmt: skip
    wanted, found = (
        kit.logits(ids),
        kit.shape("forward of quantize", engine.forward(model, ids), (len(ids), config.vocab_size)),
    )
    share = float((found.argmax(1) == wanted.argmax(1)).mean())
    kit.numbers["same first choice"], kit.numbers["largest difference"] = share, float(np.abs(found - wanted).max())
    if not np.isfinite(found).all() or np.abs(found - wanted).mean() > 0.03 or share < 0.9:
        raise Miss(
            f"quantize: logits differ by {np.abs(found - wanted).mean():.2f} on average, and the first choice is the"
            f" same at {share:.0%} of the positions: a scale for each output, and rounding to the nearest, give 0.02"
            " and 95 %"
        )
    for name, begin in (("prefill", engine.prefill), ("prefill_el", engine.prefill_el)):
        if begun(lambda begin=begin: begin(kit.model, ids)):
            hint = "It should be what forward gives for the same int8 model: use the scale wherever int8 numbers are."
            logits, cache = begin(model, ids[:-2])
            kit.same(f"{name} of quantize", logits, found[-3], hint)
            for k in (-2, -1):
                kit.same(f"step after {name} of quantize", engine.step(model, cache, [ids[k]]), found[k][None], hint)
    kit.same("forward of the model as it was", engine.forward(kit.model, ids), kit.logits(ids), "It was changed.")


# Stage 12


def check_kernel(kit: Kit) -> None:
    from numba import typeof

    from ...conformance.kernel_types import check_types
    from ...emulator import emulate

    rng = np.random.default_rng(12)
    for rows, positions, width, size in ((1, 1, 1, 3), (3, 5, 32, 3), (2, 40, 7, 3), (4, 33, 16, 3), (2, 40, 8, 15)):
        q, k, v = (rng.normal(0, size, (n, width)).astype(np.float32) for n in (rows, positions, positions))
        out = np.full((rows, width), np.nan, np.float32)
        for note in check_types(kit.engine.attend_kernel, tuple(map(typeof, (q, k, v, out)))):
            if note.kind == "error":
                raise Miss(f"attend_kernel, line {note.line}: Numba's compiler would refuse this: {note.message}")
        before = [a.copy() for a in (q, k, v)]
        run = emulate(kit.engine.attend_kernel, empty=["out_RK"])[rows, 32](q, k, v, out)
        if not run.ok:
            raise Miss(f"attend_kernel, {rows} rows, {positions} positions, K = {width}: {run.errors[0]}")
        scores = q.astype(np.float64) @ k.T / math.sqrt(width)
        below = scores - scores.max(1, keepdims=True)
        weights = np.exp(below)
        wanted = weights / weights.sum(1, keepdims=True) @ v
        wrong = ~(np.abs(out - wanted) <= kernel_bound(q, k, v, below))
        if wrong.any():
            r, i = np.argwhere(wrong)[0]
            hint = "" if np.isfinite(out[r, i]) else f". A score is {scores[r].max():.0f}: take the largest off first"
            raise Miss(f"attend_kernel, {rows} rows, {positions} positions, K = {width}: out[{r}, {i}] is"
                       f" {out[r, i]:.4f}, and should be {wanted[r, i]:.4f}{hint}")  # fmt: skip
        if any(not np.array_equal(a, b) for a, b in zip(before, (q, k, v), strict=True)):
            raise Miss("attend_kernel writes into q_RK, k_MK or v_MK: nothing but out_RK may be written")
        by_step = kit.shape("attend_step", kit.engine.attend_step(q, k, v), wanted.shape)
        if not (np.abs(by_step - wanted) <= kernel_bound(q, k, v, below)).all():
            raise Miss("attend_kernel is right, and attend_step gives something else: it is to launch the kernel")
    kit.numbers["global loads of a thread"] = round(run.global_loads_per_thread, 1)


def kernel_bound(q_RK: np.ndarray, k_MK: np.ndarray, v_MK: np.ndarray, below_RM: np.ndarray) -> float:
    """What float32 may be off by, to first order in u = 2**-24, for any order of the sums and a running maximum.

    A score is off by (K + 2) u sum |q k| / sqrt(K), a weight in proportion by twice that, by u |score - maximum| and by
    2 u for each of the M rescalings; numerator and denominator both have such weights.
    """
    M, K = k_MK.shape
    products = float((np.abs(q_RK) @ np.abs(k_MK).T).max()) / math.sqrt(K)
    return 2 * (2 * (K + 2) * products + np.abs(below_RM).max() + 3 * (M + 4)) * 2.0**-24 * float(np.abs(v_MK).max())


@dataclass(frozen=True)
class Stage:
    """One stage: the functions that it asks for, and its check."""

    number: int
    title: str
    chapter: str  # after which it can be done
    functions: tuple[str, ...]
    check: Callable[[Kit], None]


STAGES = {
    stage.number: stage for stage in (
        Stage(1, "the forward pass", "01", ("load", "forward"), check_forward),
        Stage(2, "greedy search", "01", ("greedy",), check_greedy),
        Stage(3, "a key/value cache", "02", ("prefill", "step", "generate"), check_cache),
        Stage(4, "beam search", "03", ("repeat", "reorder", "beam_search"), check_beams),
        Stage(5, "the prompt once for all beams", "07", ("split",), check_split),
        Stage(6, "no n-gram twice", "06", ("ban_ngrams",), check_ngrams),
        Stage(7, "top-p sampling", "12", ("top_p",), check_top_p),
        Stage(8, "fewer key/value heads", "08", ("group_heads",), check_groups),
        Stage(9, "EL-attention", "09", ("prefill_el",), check_el),
        Stage(10, "the best candidates without sorting", "11", ("hars",), check_hars),
        Stage(11, "int8 weights", "13", ("quantize",), check_int8),
        Stage(12, "attention as a kernel", "10", ("attend_kernel", "attend_step"), check_kernel),
    )
}  # fmt: skip
