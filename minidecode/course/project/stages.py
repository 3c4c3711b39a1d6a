"""The stages of the course project: what each must do, and how that is judged.

A stage passes on right answers, on the bytes that its caches hold and on the multiply-adds that it spends. Each
message names what is wrong and, where the numbers tell it, the mistake. Nothing here runs in the engine's process:
see engine.py. Prompts are drawn for each check.
"""

from __future__ import annotations

import functools
import json
import math
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..exercises.kernel_source import Refused
from .engine import Ask, Engine, EngineError, Kept, Model, Weighed

CLOSE = 2e-3  # that a logit may differ: rounding of float32 through six layers stays below 1e-4, and mistakes do not
CLEAR = 1e-3  # by which a prompt's best token, and its best beams, lie above the next
SLACK = 1.02  # of multiply-adds and bytes
TEXT, MORE = "Fellow citizens of the Senate and of the House of Representatives,", "The people of this country"
WORDS = [
    "the", "people", "of", "this", "country", "have", "a", "Senate", "and", "two", "houses", "which", "may", "make",
    "laws", "for", "all", "citizens", "in", "peace",
]  # fmt: skip
COUNT, WIDTH, GROUPS = 6, 4, 2
PARENTS = [0, 0, 1, 3]  # of rows that are reordered


class Miss(Exception):  # noqa: N818 (it is a verdict)
    """A stage's check fails: the message says why."""


@functools.cache
def oracle() -> Any:
    """Our model of the same function."""
    from ...loading import load

    return load("tiny-gpt2")


@dataclass
class Kit:
    """What the checks need: the student's engine, our model, and prompts of this check."""

    engine: Engine
    seed: int
    numbers: dict[str, Any] = field(default_factory=dict)  # shown with the verdict
    _known: dict[tuple, np.ndarray] = field(default_factory=dict)  # shared by the engines of a class
    _row: int = 0

    def begin_stage(self, stage: int) -> None:
        """Begins a stage with a fresh engine and new prompts."""
        self.engine.end_processes()
        self.numbers, self._row = {}, 0
        self.rng = np.random.default_rng([stage, self.seed])
        self.__dict__.pop("prompts", None)

    @property
    def oracle(self) -> Any:
        return oracle()

    @property
    def model(self) -> Model:
        return self.engine.load()

    def call(self, function: str, *args: Any, **how: Any) -> Any:
        return self.engine.call(function, *args, **how)

    def ids(self, text: str) -> list[int]:
        return [int(i) for i in self.oracle.tokenizer.encode(text)]

    @functools.cached_property
    def prompts(self) -> list[list[int]]:
        """Two of them: words in an order that no engine has seen, whose best continuations are clear."""
        prompts: list[list[int]] = []
        while len(prompts) < 2:
            words = self.rng.permutation(WORDS)[: self.rng.integers(8, 13)]
            ids = self.ids(" ".join(["The", *words.tolist()]))
            if self._is_clear(ids):
                prompts.append(ids)
        return prompts

    def _is_clear(self, ids: list[int]) -> bool:
        beams = [(0.0, list[int]())]
        for _ in range(COUNT):
            totals = scores_of_continuations(self, ids, beams)
            if np.diff(np.sort(totals)[-WIDTH - 1 :]).min() < CLEAR:
                return False
            beams = best_beams(totals, beams)
        return least_margin(self, ids) >= CLEAR

    def logits(self, ids: list[int], model: Any = None) -> np.ndarray:
        """Ours, of each position; each is computed once."""
        key = (model, tuple(ids))
        if key not in self._known:
            self._known[key] = (model or self.oracle).logits([ids])[0]
        return self._known[key]

    def call_and_count(self, function: str, *args: Any, **named: Any) -> tuple[Any, int]:
        """(its result, the multiply-adds with weights that it asked the judge for)."""
        self.engine.weights.take_counts()
        result = self.call(function, *args, **named)
        spent, self.fetched = self.engine.weights.take_counts()
        return result, spent

    @property
    def work_of_row(self) -> int:
        """Multiply-adds of one row through all layers and the output matrix."""
        if not self._row:
            _, spent = self.call_and_count("forward", self.model, self.prompts[0][:1])
            self.check_least_work("forward", spent, 1, 1)
            config = json.loads((self.engine.folder / "config.json").read_text("utf-8"))
            width, inner = config["n_embd"], config.get("n_inner") or 4 * config["n_embd"]
            most = int(SLACK * (config["n_layer"] * (4 * width + 2 * inner) + config["vocab_size"]) * width)
            if spent > most:
                raise Miss(f"forward multiplies {spent:,} numbers with weights for 1 row, and {most:,} are enough")
            self._row = spent
        return self._row

    def check_least_work(self, name: str, spent: int, rows: int, logits: int) -> None:
        """Raises Miss if fewer multiply-adds are counted than this many rows through the layers, and logits, take.

        Or where more of the model's numbers are taken out than the embeddings of this many rows.
        """
        shapes = self.oracle.config
        width = shapes.n_embd
        least = rows * shapes.n_layer * 12 * width * width + logits * width * shapes.vocab_size
        if spent < least:
            raise Miss(
                f"{name} multiplies {spent:,} numbers with weights for {rows} row{'s' * (rows > 1)}, and {least:,} are"
                " needed: make products of the model's own arrays, with @, np.matmul, np.dot or np.einsum, so that they"
                " can be counted, and keep no results from one call to the next"
            )
        if self.fetched > (most := 4 * width * rows + width * width // 8):
            raise Miss(
                f"{name} takes {self.fetched:,} numbers out of the model's arrays, and {most:,} are enough: rows of the"
                " embeddings; all else is multiplied as it is"
            )

    def rows_for_work(self, spent: int) -> float:
        return spent / self.work_of_row

    def check_shape(self, name: str, value: Any, wanted: tuple[int, ...]) -> np.ndarray:
        """The value as an array. Raises Miss on another shape."""
        array = np.asarray(value)
        if array.shape != wanted or array.dtype.kind not in "biuf":
            raise Miss(f"{name} gives an array of shape {array.shape}, and {wanted} is wanted")
        return array

    def check_logits(self, name: str, logits: Any, wanted: np.ndarray, hint: str = "") -> None:
        """Raises Miss where logits differ."""
        logits = self.check_shape(name, logits, wanted.shape)
        apart = np.abs(logits - wanted)
        if not (apart <= CLOSE).all():
            worst = np.unravel_index(np.nanargmax(np.where(np.isnan(apart), np.inf, apart)), apart.shape)
            where = "".join(f"[{k}]" for k in worst)
            raise Miss(f"{name}{where} is {logits[worst]:.4f}, and should be {wanted[worst]:.4f}. {hint}".rstrip())


@contextmanager
def error_with_input(what: str) -> Iterator[None]:
    """Adds the arguments to an error of the student's code."""
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
    logits, spent = kit.call_and_count("forward", kit.model, ids)
    logits = kit.check_shape("forward", logits, wanted.shape)
    if np.abs(logits[0] - wanted[0]).max() <= CLOSE < np.abs(logits - wanted).max():
        first = int(np.argmax(np.abs(logits - wanted).max(1) > CLOSE))
        hint = (
            f"Row 0 is right, and row {first} is the first that is not: positions, the causal mask, or what is divided"
            " by sqrt(K), concern the rows behind the first."
        )
        kit.check_logits("forward", logits, wanted, hint)
    alone = kit.check_shape("forward", kit.call("forward", kit.model, ids[:1]), wanted[:1].shape)
    if np.abs(alone - wanted[:1]).max() <= CLOSE < np.abs(logits[:1] - wanted[:1]).max():
        raise Miss("forward: row 0 changes with the tokens behind it. The causal mask is missing: row t sees 0 to t.")
    hint = "Norm, GELU (the tanh form), heads, or a tensor of LAYOUT.txt: compare the layers one by one."
    kit.check_logits("forward", logits, wanted, hint)
    kit.check_least_work("forward", spent, len(ids), len(ids))
    other, spent = kit.call_and_count("forward", kit.model, kit.prompts[1])
    kit.check_logits("forward", other, kit.logits(kit.prompts[1]))
    kit.check_least_work("forward", spent, len(kit.prompts[1]), len(kit.prompts[1]))
    kit.numbers["multiply-adds of one row"] = kit.work_of_row


def check_load(kit: Kit, ids: list[int]) -> None:
    """Whether what `load` reads is in the folder: in a copy of it all ids are one higher, the last one is 0."""
    from safetensors.numpy import load_file, save_file

    config = kit.oracle.config
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy"
        shutil.copytree(kit.engine.folder, copy)
        tensors = load_file(copy / "model.safetensors")
        shape = (config.vocab_size, config.n_embd)
        save_file({n: np.roll(t, 1, axis=0) if t.shape == shape else t for n, t in tensors.items()},
                  copy / "model.safetensors")  # fmt: skip
        model = kit.engine.load(copy)
    logits = kit.call("forward", model, [(i + 1) % config.vocab_size for i in ids])
    wanted = kit.logits(ids)
    if np.shape(logits) == wanted.shape and np.abs(logits - wanted).max() <= CLOSE:
        raise Miss("load gives the same model for another checkpoint: it is to read the folder that it is given")
    logits = kit.check_shape("forward", logits, wanted.shape)
    if (
        np.abs(np.roll(logits, -1, axis=1) - wanted).max()
        > CLOSE
        >= np.abs(kit.check_shape("forward", kit.call("forward", kit.model, ids), wanted.shape) - wanted).max()
    ):
        raise Miss("forward is right, but not for a copy of the checkpoint in which all ids are one higher: load is to"
                   " read everything in the folder that it is given")  # fmt: skip


# Stage 2


def check_greedy(kit: Kit) -> None:
    for ids in (*kit.prompts, kit.ids(TEXT)):
        wanted = greedy_continuation(kit, ids)
        ids_made, spent = kit.call_and_count("greedy", kit.model, list(ids), COUNT)
        check_tokens("greedy", ids_made, wanted)
        kit.numbers["rows through the layers"] = round(kit.rows_for_work(spent))
    kit.numbers["text"] = kit.oracle.tokenizer.decode(wanted)


def greedy_continuation(kit: Kit, ids: list[int], model: Any = None) -> list[int]:
    ids = list(ids)
    for _ in range(COUNT):
        ids.append(int(kit.logits(ids, model)[-1].argmax()))
    return ids[-COUNT:]


def least_margin(kit: Kit, ids: list[int], model: Any = None) -> float:
    """The least distance of one of the likeliest tokens to the next."""
    said = greedy_continuation(kit, ids, model=model)
    best = np.sort(kit.logits([*ids, *said[:-1]], model)[-COUNT:], axis=1)
    return float((best[:, -1] - best[:, -2]).min())


def check_tokens(name: str, ids: Any, wanted: list[int]) -> None:
    ids = [int(i) for i in ids]
    if ids != wanted:
        raise Miss(f"{name} says the ids {ids}, and {wanted} are the likeliest")


# Stage 3


def check_cache(kit: Kit) -> None:
    for ids in kit.prompts:
        said = [int(i) for i in kit.rng.integers(0, kit.oracle.config.vocab_size, COUNT)]  # what no engine can foresee
        wanted = kit.logits([*ids, *said])
        (logits, cache), spent = kit.call_and_count("prefill", kit.model, ids, kept=(1,))
        kit.check_logits("prefill", logits, wanted[len(ids) - 1])
        if kit.rows_for_work(spent) > SLACK * len(ids):
            raise Miss(
                f"prefill sends {kit.rows_for_work(spent):.1f} rows through the layers, and the prompt has {len(ids)}"
            )
        kit.check_least_work("prefill", spent, len(ids), 1)
        for k, token in enumerate(said):
            if k == COUNT - 2:  # the last two steps know nothing but the cache
                positions = len(ids) + k
                cache = move_cache(kit, "the cache", cache, positions * bytes_per_position(kit))
            hint = "The first step is wrong: does the new token attend to itself, and is its position that of the next?"
            later = "The first step was right: each step must keep its token for the next one, and count positions on."
            check_one_step(kit, "step", cache, [token], wanted[len(ids) + k][None], later if k else hint)
    ids = kit.prompts[0]
    ids_made, spent = kit.call_and_count("generate", kit.model, ids, COUNT)
    check_tokens("generate", ids_made, greedy_continuation(kit, ids))
    if kit.rows_for_work(spent) > SLACK * (len(ids) + COUNT):
        raise Miss(
            f"generate sends {kit.rows_for_work(spent):.1f} rows through the layers for a prompt of {len(ids)} and"
            f" {COUNT} tokens: begin with prefill, then a step for each token"
        )


def check_one_step(
    kit: Kit, name: str, cache: Kept, tokens: list[int], wanted: np.ndarray, hint: str = "", model: Model | None = None,
    most: float = 1.0, message: str = "",
) -> None:  # fmt: skip
    """Raises Miss where the logits of a step differ, or where it costs more rows than it has, or fewer.

    most: for each of them; told: what is said of more.
    """
    logits, spent = kit.call_and_count("step", model or kit.model, cache, tokens)
    if kit.rows_for_work(spent) > SLACK * most * len(tokens):
        message = message or (
            f"step sends {kit.rows_for_work(spent):.1f} rows through the layers, and {len(tokens)} are"
            " new: the others' keys and"
            " values are in the cache"
        )
        raise Miss(message.format(rows=kit.rows_for_work(spent)).replace("1 are new", "one is new"))
    kit.check_logits(name, logits, wanted, hint)
    if model is None:
        kit.check_least_work(name, spent, len(tokens), len(tokens))


def bytes_per_position(kit: Kit, groups: int | None = None) -> int:
    """Bytes of a position's keys and values, in float32."""
    config = kit.oracle.config
    width = config.n_embd * (groups or config.n_head) // config.n_head
    return 2 * 4 * width * config.n_layer


def move_cache(kit: Kit, name: str, cache: Kept, most: int, hint: str = "") -> Kept:
    """The cache in a process that knows nothing else. Raises Miss where it takes more bytes than are enough."""
    weighed = kit.engine.dump_cache(cache)
    check_at_most(kit, name, weighed.nbytes, most, f"{hint} {why_too_many_bytes(weighed)}".strip())
    return kit.engine.move_to_new_process(weighed)


def why_too_many_bytes(cache: Weighed) -> str:
    """What often lies behind too many bytes in a cache: float64, or parts of larger arrays. Empty if it is neither."""
    if any(array.dtype == np.float64 for array in cache.arrays):
        return "Some of it is float64: np.sqrt(2) makes float64 of float32 arrays, and math.sqrt(2) does not."
    if cache.seen < sum(array.nbytes for array in cache.arrays):
        return "Some arrays are parts of larger ones, which stay in memory as long as the part does: copy the parts."
    return ""


def check_at_most(kit: Kit, name: str, held: int, most: int, hint: str = "") -> None:
    kit.numbers[f"bytes of {name}"] = held
    if held > SLACK * most + 4096:
        raise Miss(f"{name} holds {held:,} bytes, and {most:,} are enough. {hint}".rstrip())


# Stage 4


def check_beams(kit: Kit) -> None:
    for ids in kit.prompts:
        beams, spent = kit.call_and_count("beam_search", kit.model, ids, COUNT, WIDTH)
        compare_beams(kit, "beam_search", beams, ids)
        rows, most = kit.rows_for_work(spent), len(ids) + WIDTH * (COUNT - 1)
        kit.numbers["rows through the layers"] = round(rows)
        if rows > SLACK * most:
            raise Miss(f"beam_search sends {rows:.0f} rows through the layers, and {most} are enough: the prompt once,"
                       f" then {WIDTH} rows a step")  # fmt: skip
        kit.check_least_work("beam_search", spent, most, 1 + WIDTH * (COUNT - 1))


def compare_beams(kit: Kit, name: str, beams: Any, ids: list[int]) -> None:
    wanted = beams_by_forward(kit, ids)
    beams = [(float(score), [int(i) for i in row]) for score, row in beams]
    if len(beams) != len(wanted):
        raise Miss(f"{name} gives {len(beams)} texts, and {len(wanted)} beams were asked for")
    if all(row == wanted[0][1] for _, row in beams):
        raise Miss(f"{name} says the same text {WIDTH} times: the first {WIDTH} beams come from one row, so its W best")
    both = list(enumerate(zip(beams, wanted, strict=True)))
    for k, ((_, row), (_, right)) in both:
        if row != right:
            raise Miss(f"{name}: text {k} is {row}, and should be {right} (is the cache reordered with the beams?)")
    for k, ((score, _), (right, _)) in both:
        if abs(score - right) > CLOSE * COUNT:
            raise Miss(
                f"{name}: the texts are right, and the score of text {k} is {score:.4f} in place of {right:.4f}: the"
                " sum of the log-probabilities of all its tokens (is the cache reordered with the beams?)"
            )


def beams_by_forward(kit: Kit, ids: list[int]) -> list[tuple[float, list[int]]]:
    """Ours: of all continuations the best, each beam's logits from a forward pass of its own."""
    beams = [(0.0, list[int]())]
    for _ in range(COUNT):
        beams = best_beams(scores_of_continuations(kit, ids, beams), beams)
    return beams


def scores_of_continuations(kit: Kit, ids: list[int], beams: list[tuple[float, list[int]]]) -> np.ndarray:
    return np.concatenate([s + log_softmax(kit.logits([*ids, *said])[-1]) for s, said in beams])


def best_beams(totals: np.ndarray, beams: list[tuple[float, list[int]]]) -> list[tuple[float, list[int]]]:
    best = np.argsort(-totals, kind="stable")[:WIDTH]
    parents, ids_of = np.divmod(best, len(totals) // len(beams))
    return [(float(totals[b]), [*beams[p][1], int(t)]) for b, p, t in zip(best, parents, ids_of, strict=True)]


def log_softmax(logits: np.ndarray) -> np.ndarray:
    logits = logits.astype(np.float64) - logits.max()
    return logits - math.log(np.exp(logits).sum())


# Stage 5


def check_split(kit: Kit) -> None:
    ids = kit.prompts[0]
    for name, prompts in (("repeat", WIDTH), ("split", 1)):
        _, cache = kit.call("prefill", kit.model, ids, kept=(1,))
        hint = f"The prompt of {len(ids)} positions is to be held {'once' if prompts == 1 else f'{WIDTH} times'}."
        cache = kit.call(name, cache, WIDTH, kept=(None,))
        check_steps_of_rows(kit, f"step after {name}", cache, weigh=(f"the cache of {name}", prompts, None, hint))
    beams = kit.call("beam_search", kit.model, ids, COUNT, WIDTH, expand="split")
    compare_beams(kit, "beam_search with split", beams, ids)


def check_steps_of_rows(
    kit: Kit, name: str, cache: Kept, hint: str = "", model: Model | None = None, ours: Any = None,
    weigh: tuple[str, int, int | None, str] | None = None, most: float = 1.0,
) -> None:  # fmt: skip
    """Takes steps of WIDTH rows, reordered after each. Raises Miss where logits or their work are wrong.

    model: a student's, `ours` its oracle. weigh: before the last step, name the cache, say how many prompts and of how
    many groups it may hold, and give a hint; the step then knows nothing but the cache.
    """
    ids = kit.prompts[0]
    texts = [list(ids) for _ in range(WIDTH)]
    first = "The first step is wrong: one softmax goes over the prompt's positions and the row's own together."
    later = "The first step was right, then reorder was called: do each row's own keys and values go with it?"
    for k, token in enumerate(kit.rng.integers(0, kit.oracle.config.vocab_size - WIDTH, 4).tolist()):
        if k == 3:
            if weigh is None:
                break
            called, prompts, groups, why = weigh
            positions = prompts * len(ids) + k * WIDTH
            cache = move_cache(kit, called, cache, positions * bytes_per_position(kit, groups), why)
        texts = [[*text, token + r] for r, text in enumerate(texts)]
        wanted = np.stack([kit.logits(text, ours)[-1] for text in texts])
        check_one_step(
            kit, name, cache, [text[-1] for text in texts], wanted, later if k else hint or first, model, most
        )
        cache, texts = kit.call("reorder", cache, PARENTS, kept=(None,)), [texts[parent] for parent in PARENTS]


# Stage 6


def check_ngrams(kit: Kit) -> None:
    rng = kit.rng
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
        with error_with_input(f"rows = {rows}, n = {n}"):
            banned = kit.call("ban_ngrams", scores.copy(), [list(row) for row in rows], n)
        banned = kit.check_shape("ban_ngrams", banned, wanted.shape)
        if not np.array_equal(banned, wanted):
            r, v = np.argwhere((banned != wanted) & ~(np.isnan(banned) & np.isnan(wanted)))[0]
            verb = (
                "is to be banned, and is not" if wanted[r, v] == -np.inf else "is banned (or changed), and is not to be"
            )
            raise Miss(f"ban_ngrams: in the row {rows[r]}, with n = {n}, token {v} {verb}")


# Stage 7


def check_top_p(kit: Kit) -> None:
    rng = kit.rng
    hand = np.log(np.array([0.1, 0.5, 0.15, 0.25]))
    cases = [(hand, 0.7, u) for u in (0.0, 0.6, 0.67, 0.999)] + [(hand, 0.5, 0.9), (hand, 1.0, 0.95), (hand, 1e-9, 0.5)]
    cases += [
        (rng.normal(0, 3, 200).astype(np.float32), float(rng.uniform(0.05, 1)), float(rng.random())) for _ in range(60)
    ]
    cases.append((np.array([0.0, 1.0, 1.0, 0.0]), 0.6, 0.6))
    exact = [(np.zeros(4), 1.0, u) for u in (0.0, 0.25, 0.5, 0.75)]  # all numbers are exact in binary
    for logits, p, u in cases + exact:
        wanted, margin = sample_top_p(logits, p, u)
        with error_with_input(f"{len(logits)} logits, p = {p:.3g}, u = {u:.3g}"):
            token = int(kit.call("top_p", logits.copy(), p, u))
        if token != wanted and (margin > 1e-6 or (logits == 0).all()):
            shown = np.round(np.exp(log_softmax(logits)), 3).tolist()
            what = f"tokens with the probabilities {shown}" if len(logits) < 9 else f"{len(logits)} tokens"
            raise Miss(
                f"top_p: of {what}, with p = {p:.3g} and u = {u:.3g}, it draws {token}, and should draw {wanted}"
            )


def sample_top_p(logits: np.ndarray, p: float, u: float) -> tuple[int, float]:
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
    ours = grouped_oracle()
    kit.prompts.sort(
        key=lambda ids: least_margin(kit, ids, ours), reverse=True
    )  # the one whose best tokens are clearest
    ids, model = kit.prompts[0], kit.engine.of_model("group_heads", GROUPS)
    hint = (
        f"The mean is over runs of {kit.oracle.config.n_head // GROUPS} neighbouring heads, of weights and of biases."
    )
    kit.check_logits("forward of group_heads", kit.call("forward", model, ids), kit.logits(ids, ours), hint)
    check_tokens(
        "generate of group_heads", kit.call("generate", model, ids, COUNT), greedy_continuation(kit, ids, model=ours)
    )
    _, cache = kit.call("prefill", model, ids, kept=(1,))
    hint = f"It must hold {GROUPS} heads of each position."
    said = kit.rng.integers(0, kit.oracle.config.vocab_size, 1).tolist()
    cache = move_cache(kit, "the cache of fewer heads", cache, len(ids) * bytes_per_position(kit, GROUPS), hint)
    wanted = kit.logits([*ids, *said], ours)[-1:]
    check_one_step(kit, "step of group_heads", cache, said, wanted, "The first step is wrong.", model)
    check_unchanged(kit, ids)
    _, cache = kit.call("prefill", model, ids, kept=(1,))
    if has_begun(lambda: kit.call("split", cache, WIDTH, kept=(None,))):
        cache = kit.call("split", cache, WIDTH, kept=(None,))
        weigh = "the split cache of fewer heads", 1, GROUPS, ""
        check_steps_of_rows(kit, "step after group_heads and split", cache, model=model, ours=ours, weigh=weigh)


def check_unchanged(kit: Kit, ids: list[int]) -> None:
    """Raises Miss where a function of models has changed the one that it was given."""
    logits = kit.engine.call_plainly("forward", kit.model, ids)
    kit.check_logits("forward of the model as it was", logits, kit.logits(ids), "It was changed.")


def has_begun(call: Callable[[], Any]) -> bool:
    """Whether a function of another stage is written."""
    try:
        call()
    except EngineError as error:
        if error.kind != "NotImplementedError":
            raise
        return False
    return True


@functools.cache
def grouped_oracle() -> Any:
    from ...files.head_pooling import convert
    from ...loading import load

    with tempfile.TemporaryDirectory() as folder:
        convert("tiny-gpt2", Path(folder) / "grouped", num_key_value_heads=GROUPS)
        return load(Path(folder) / "grouped")


# Stage 9


def check_el(kit: Kit) -> None:
    ids = kit.prompts[0]
    said = [int(i) for i in kit.rng.integers(0, kit.oracle.config.vocab_size, COUNT)]
    wanted = kit.logits([*ids, *said])
    logits, cache = kit.call("prefill_el", kit.model, ids, kept=(1,))
    config = kit.oracle.config
    most = 1 + config.n_layer * 2 * config.n_embd**2 / kit.work_of_row  # the new row's key and value may be made
    kit.check_logits("prefill_el", logits, wanted[len(ids) - 1])
    costly = (
        "step with hidden states costs as much as {rows:.1f} rows: do not make keys and values of all positions; move"
        " the query through the key's weights, (q Wk) h, and mix hidden states before Wv"
    )
    for k, token in enumerate(said):
        if k == COUNT - 2:
            positions = (len(ids) + k) * bytes_per_position(kit) // 2
            cache = move_cache(kit, "the cache of hidden states", cache, positions)
        hint = "Keep the normed row, not x. Divide scores by sqrt(K). The value's bias adds to each head's result once."
        right = wanted[len(ids) + k][None]
        check_one_step(kit, "step after prefill_el", cache, [token], right, hint, most=most, message=costly)
    hint = (
        "If a row's own positions are keys and values, their biases are in them. Then the prompt's scores need q . bk,"
        " and its part of the result needs bv times the prompt's share of the softmax."
    )
    _, cache = kit.call("prefill_el", kit.model, ids, kept=(1,))
    split = kit.call("split", cache, WIDTH, kept=(None,))
    check_steps_of_rows(kit, "step after prefill_el and split", split, hint, most=most)
    beams = kit.call("beam_search", kit.model, ids, COUNT, WIDTH, begin="prefill_el", expand="split")
    compare_beams(kit, "beam_search with prefill_el and split", beams, ids)


# Stage 10


def check_hars(kit: Kit) -> None:
    rng = kit.rng
    rows = [rng.normal(size=4096).astype(np.float32), kit.logits(kit.ids(TEXT))[-1], np.zeros(300, np.float32),
            np.arange(1000, dtype=np.float32), -np.arange(1001, dtype=np.float32)]  # fmt: skip
    rows.append(np.where(np.arange(640) % 7 == 0, -np.inf, rng.integers(0, 5, 640)).astype(np.float32))
    few = np.zeros(4000, np.float32)  # 5 scores of 2, 300 of 1: the ids decide among equal ones
    few[rng.permutation(4000)[:300]], few[rng.permutation(4000)[:5]] = 1, 2
    for scores in [*rows, few]:
        for count, groups in ((1, 1), (8, 8), (8, 32), (3, 16)):
            wanted = np.argsort(-scores, kind="stable")[:count]
            asked = f"of {len(scores)} scores, count = {count}, groups = {groups}"
            with error_with_input(asked):
                (best, ids), sorts = run_hars(kit, scores, count, groups)
            if np.ndim(ids) == 1 and np.size(ids) < count:
                raise Miss(f"hars: {asked}: it gives {np.size(ids)}: those equal to the threshold stay, and the"
                           " threshold is the count-th best of the groups' maxima")  # fmt: skip
            ids = kit.check_shape("hars (ids)", ids, (count,))
            if ids.tolist() != wanted.tolist():
                raise Miss(
                    f"hars: {asked}: the ids are {ids.tolist()},"
                    f" and should be {wanted.tolist()} (equal scores by id; those equal to the threshold stay)"
                )
            if not np.array_equal(kit.check_shape("hars (scores)", best, (count,)), scores[wanted]):
                raise Miss("hars: the ids are right, and the scores are not theirs")
            total = sum(len(numbers) for numbers in sorts)
            if groups >= 16 and len(np.unique(scores)) > 900 and total > len(scores) // 2:
                raise Miss(f"hars ranks {total} of {len(scores)} scores: rank what reaches the threshold alone")
    rich = np.where(np.arange(4096) // 600 == rng.integers(6), 2, 0)  # of some groups, many reach the threshold
    check_ranking(kit, (rng.normal(size=4096) + rich).astype(np.float32))


def run_hars(kit: Kit, scores: np.ndarray, count: int, groups: int, is_turned: bool = False) -> tuple[Any, list]:
    """(what hars gives, the numbers of each call of `rank`), which says the worst first if it is turned."""
    sorts: list[np.ndarray] = []

    def rank(numbers: Any) -> np.ndarray:
        sorts.append(np.asarray(numbers, np.float64).ravel())
        order = np.argsort(-sorts[-1], kind="stable")
        return order[::-1].copy() if is_turned else order

    kit.engine.callbacks["rank"] = rank
    return kit.call("hars", scores.copy(), count, groups, Ask("rank")), sorts


def check_ranking(kit: Kit, scores: np.ndarray) -> None:
    """Whether all that reaches the threshold is ranked, and by `rank`: one that says the worst first shows it."""
    count, groups = 8, 32
    maxima = np.sort(scores.reshape(groups, -1).max(1))
    reach = scores[scores >= maxima[-count]]
    _, sorts = run_hars(kit, scores, count, groups)
    missing = len(np.setdiff1d(reach, np.concatenate([*sorts, np.empty(0)])))
    if missing:
        raise Miss(f"hars is right, but {missing} of {len(reach)} scores that reach the threshold are never ranked by"
                   " `rank`: what is sorted or partitioned otherwise cannot be counted")  # fmt: skip
    (_, ids), _ = run_hars(kit, scores, count, groups, is_turned=True)
    lower = scores[scores >= maxima[count - 1]]  # where the maxima were ranked by it, too
    if not any(np.array_equal(np.sort(scores[np.asarray(ids, int)]), np.sort(of)[:count]) for of in (reach, lower)):
        raise Miss("hars ranks without `rank`: one that says the worst first does not give the worst of what reaches"
                   " the threshold")  # fmt: skip


# Stage 11


def check_int8(kit: Kit) -> None:
    ids = kit.ids(TEXT)
    model = kit.engine.of_model("quantize")
    config = kit.oracle.config
    embeddings = 4 * config.n_embd * (config.vocab_size + config.n_positions)
    check_at_most(kit, "the int8 model", model.nbytes, int(1.1 * (kit.model.nbytes - embeddings) / 4) + embeddings,
            "Keep int8 numbers and the scales; cast one matrix at a time, in the product.")  # fmt: skip
    wanted, numbers = (
        kit.logits(ids),
        kit.check_shape("forward of quantize", kit.call("forward", model, ids), (len(ids), config.vocab_size)),
    )
    share = float((numbers.argmax(1) == wanted.argmax(1)).mean())
    kit.numbers["same first choice"], kit.numbers["largest difference"] = share, float(np.abs(numbers - wanted).max())
    if not np.isfinite(numbers).all() or np.abs(numbers - wanted).mean() > 0.03 or share < 0.9:
        raise Miss(
            f"quantize: logits differ by {np.abs(numbers - wanted).mean():.2f} on average, and the first choice is the"
            f" same at {share:.0%} of the positions: a scale for each output, and rounding to the nearest, give 0.02"
            " and 95 %"
        )
    for name in ("prefill", "prefill_el"):
        if name in kit.engine.function_names and has_begun(lambda name=name: kit.call(name, kit.model, ids, kept=(1,))):
            hint = "It should be what forward gives for the same int8 model: use the scale wherever int8 numbers are."
            logits, cache = kit.call(name, model, ids[:-2], kept=(1,))
            kit.check_logits(f"{name} of quantize", logits, numbers[-3], hint)
            for k in (-2, -1):
                step = kit.call("step", model, cache, [ids[k]])
                kit.check_logits(f"step after {name} of quantize", step, numbers[k][None], hint)
    check_unchanged(kit, ids)


# Stage 12


def check_kernel(kit: Kit) -> None:
    rng = kit.rng
    for rows, positions, width, size in ((1, 1, 1, 3), (3, 5, 32, 3), (2, 40, 7, 3), (4, 33, 16, 3), (2, 40, 8, 15)):
        q, k, v = (rng.normal(0, size, (n, width)).astype(np.float32) for n in (rows, positions, positions))
        what = f"attend_kernel, {rows} rows, {positions} positions, K = {width}:"
        arrays, ran = run_kernel(kit, [q, k, v, np.full((rows, width), np.nan, np.float32)], rows)
        if errors := [f["message"] for f in ran["findings"] if f["severity"] == "error"]:
            raise Miss(f"{what} {errors[0]}")
        out = arrays[3]
        scores = q.astype(np.float64) @ k.T / math.sqrt(width)
        below = scores - scores.max(1, keepdims=True)
        weights = np.exp(below)
        wanted = weights / weights.sum(1, keepdims=True) @ v
        wrong = ~(np.abs(out - wanted) <= kernel_bound(q, k, v, below))
        if wrong.any():
            r, i = np.argwhere(wrong)[0]
            hint = "" if np.isfinite(out[r, i]) else f". A score is {scores[r].max():.0f}: take the largest off first"
            raise Miss(f"{what} out[{r}, {i}] is {out[r, i]:.4f}, and should be {wanted[r, i]:.4f}{hint}")
        if any(not np.array_equal(a, b) for a, b in zip(arrays[:3], (q, k, v), strict=True)):
            raise Miss("attend_kernel writes into q_RK, k_MK or v_MK: nothing but out_RK may be written")
        kit.engine.launched.clear()
        by_step = kit.check_shape("attend_step", kit.call("attend_step", q, k, v), wanted.shape)
        if not (np.abs(by_step - wanted) <= kernel_bound(q, k, v, below)).all():
            raise Miss("attend_kernel is right, and attend_step gives something else: it is to launch the kernel")
        given_back = [array for arrays in kit.engine.launched for array in arrays]
        if not any(array.shape == by_step.shape and np.array_equal(array, by_step) for array in given_back):
            raise Miss("attend_step is right, and does not give what the kernel has written: it is to launch it")
    kit.numbers["global loads of a thread"] = round(ran["counts"]["global_loads"] / (rows * 32), 1)


def run_kernel(kit: Kit, arrays: list[np.ndarray], rows: int) -> tuple[list[np.ndarray], dict[str, Any]]:
    try:
        return kit.engine.run_kernel("attend_kernel", [rows, 32], arrays, empty=["out_RK"])
    except Refused as refused:
        raise Miss(f"attend_kernel, {refused.message}") from None


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
