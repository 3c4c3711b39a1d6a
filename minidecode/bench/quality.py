"""What an optimization does to the quality of texts: ROUGE and BLEU by model, plan and precision, side by side.

FastSeq's Table 4, EL's Table 5 and the BLEU columns of MQA's Table 1 are such tables. The scores are those of the
packages rouge-score and sacrebleu, which come with the extra `evaluate`.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from importlib import metadata
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError, LineError, MinidecodeError, MinidecodeWarning, OptionError, counted, pip_install
from ..lines.pipeline import generate_lines
from ..plan import Plan

if TYPE_CHECKING:
    from ..model import Model

METRICS = {"rouge1": "ROUGE-1", "rouge2": "ROUGE-2", "rougeL": "ROUGE-L", "bleu": "BLEU"}
RESAMPLES = 1000  # of the bootstrap
TOKENIZERS = {"characters": "char", "international": "intl"}  # our names -> sacrebleu's; its others are taken as well


@dataclass(frozen=True)
class Answers:
    """What a model said under one plan, a text for each prompt; None for one that it could not answer."""

    model: str
    plan: str
    dtype: str
    texts: list[str | None]
    tokens: float  # new ones of a text, on average
    seconds: float
    failures: list[LineError] = field(default_factory=list)  # the first of those


@dataclass(frozen=True)
class Row:
    """One line of the table. Scores go from 0 to 100, as papers print them."""

    model: str
    plan: str
    dtype: str
    scores: dict[str, float]  # by the names in METRICS
    tokens: float
    seconds: float
    different: int  # texts that are not those of the first row
    intervals: dict[str, tuple[float, float]] | None  # 95 % of (this score - the first row's), if that can be said


@dataclass(frozen=True)
class Evaluation:
    """The rows, and how their scores were computed: what another must know to compute them again."""

    rows: list[Row]
    texts: int
    rouge: str
    bleu: str
    left_out: int = 0  # texts that some row has no answer to

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        """The table; below it what differs from the first row, and how the scores were computed."""
        names = [(r.model, r.plan, r.dtype) for r in self.rows]
        widths = [max(map(len, column)) for column in zip(("model", "plan", "dtype"), *names, strict=True)]

        def format_line(labels, *cells):
            labels = "  ".join(f"{label:<{width}}" for label, width in zip(labels, widths, strict=True))
            return "  ".join([labels, *(f"{cell:>7}" for cell in cells)])

        lines = [format_line(("model", "plan", "dtype"), *METRICS.values(), "tokens", "seconds", "differ")]
        for name, r in zip(names, self.rows, strict=True):
            scores = [f"{r.scores[metric]:.2f}" for metric in METRICS]
            lines.append(format_line(name, *scores, f"{r.tokens:.1f}", f"{r.seconds:.2f}", r.different))
        for number, r in enumerate(self.rows[1:], 2):
            if r.intervals:
                changes = [f"{METRICS[m]} {low:+.2f} to {high:+.2f}" for m, (low, high) in r.intervals.items()]
                lines.append(f"row {number} less row 1, 95 %: {', '.join(changes)}")
        lines.append(
            f"{counted(self.texts, 'text')}; tokens: of a text, on average; seconds: one row after the other, on a"
            " machine that may do other work; differ: texts that are not those of row 1"
        )
        if self.left_out:
            lines.append(f"{self.left_out} more are left out of all rows, for not every row has an answer to them")
        return "\n".join([*lines, f"ROUGE: {self.rouge}", f"BLEU: {self.bleu}"])


def evaluate(
    model: Model, prompts: Sequence[str], references: Sequence[str | Sequence[str]], *,
    plans: Sequence[str | Plan] = ("auto",), batch_size: int = 8, truncate: bool = False,
    tokenizer: str | None = None, **options: Any,
) -> Evaluation:  # fmt: skip
    """A row for each plan: the model answers the prompts (or continues them), its texts are compared with references.

    references: of each prompt, a text or several. tokenizer: see `judge_answers`. options: those of `generate`, one
    text per prompt. To compare models or precisions, call `answer_prompts` for each, and `judge_answers` on all that
    was answered.

    Raises MinidecodeError where the packages are missing, and what `generate` raises.
    """
    make_scorers(tokenizer)
    prompts, references = ([given] if isinstance(given, str) else given for given in (prompts, references))
    check_and_list_references(references, len(prompts))
    for plan in plans:
        Plan.parse(plan)
    model.check(prompts, truncate=truncate, **options)
    common = {"batch_size": batch_size, "truncate": truncate} | options
    return judge_answers([answer_prompts(model, prompts, plan=plan, **common) for plan in plans], references, tokenizer)


def answer_prompts(
    model: Model, prompts: Sequence[str], *, name: str = "", plan: str | Plan | None = None, batch_size: int = 8,
    truncate: bool = False, on_error: str = "stop", source: str = "prompt",
    progress: Callable[[int], None] | None = None, **options: Any,
) -> Answers:  # fmt: skip
    """The best text for each prompt. name: what to call the model in the table; progress: called with prompts done.

    on_error: a prompt that cannot be answered raises its LineError ("stop"), or has None for its text ("skip").
    source: what a prompt is called in errors, before its number.
    """
    if options.setdefault("num_return_sequences", 1) != 1:
        raise OptionError("one text of each prompt is evaluated, the best: leave num_return_sequences out")
    if on_error not in ("stop", "skip"):
        raise OptionError(f"on_error must be stop or skip, not {on_error!r}")
    plan, texts, began = model.plan if plan is None else Plan.parse(plan), [], time.perf_counter()
    how = {"plan": plan, "batch_size": batch_size, "truncate": truncate, "source": source}
    lines = ({"prompt": prompt} for prompt in prompts)
    run = generate_lines(model, lines, on_error="stop" if on_error == "stop" else "record", **how, **options)
    with run:
        for line in run:
            texts.append(None if line.error else line.texts[0])
            if progress:
                progress(line.number)
    done, receipt = max(1, len(texts) - run.receipt.failed), run.receipt
    seconds = time.perf_counter() - began
    return Answers(name, str(plan), model.dtype, texts, receipt.new_tokens / done, seconds, receipt.failures)


def judge_answers(
    answers: Sequence[Answers], references: Sequence[str | Sequence[str]], tokenizer: str | None = None
) -> Evaluation:
    """The table of what was answered; the first row is what the others are compared with.

    tokenizer: what cuts texts into words, for both metrics: "characters", "international" (words of any alphabet,
    between spaces and marks), or a name of sacrebleu's such as "zh". None: each metric's own, which are made for
    English. Then references in another alphabet are warned of.

    A text that some row has no answer to is left out of all. Raises LineError where that leaves none, and OptionError
    on an unknown tokenizer.
    """
    listed = check_and_list_references(references, len(answers[0].texts))
    if tokenizer is None:
        warn_of_other_alphabets(listed)
    kept = [n for n in range(len(listed)) if all(a.texts[n] is not None for a in answers)]
    if not kept:
        raise next(error for a in answers for error in a.failures)
    left_out, listed = len(listed) - len(kept), [listed[n] for n in kept]
    texts_of = [[a.texts[n] for n in kept] for a in answers]
    measured = [Measured.from_texts(texts, listed, tokenizer) for texts in texts_of]
    first, everything = measured[0], np.arange(len(listed))
    rows = []
    for a, texts, m in zip(answers, texts_of, measured, strict=True):
        intervals = None if m is first or len(listed) < 2 else first.intervals_to(m)
        different = sum(mine != other for mine, other in zip(texts, texts_of[0], strict=True))
        scores = dict(zip(METRICS, m.scores(everything).tolist(), strict=True))
        rows.append(Row(a.model, a.plan, a.dtype, scores, a.tokens, a.seconds, different, intervals))
    bleu = make_scorers(tokenizer)[1]
    bleu.corpus_score(texts_of[0], _reference_streams(listed))  # its signature names the number of references
    words = "" if tokenizer is None else f" words of sacrebleu's {TOKENIZERS.get(tokenizer, tokenizer)};"
    rouge = f"rouge-score {metadata.version('rouge-score')},{words} F1, no stemmer; of several references the best"
    return Evaluation(rows, len(listed), rouge, str(bleu.get_signature()), left_out)


@dataclass(frozen=True)
class Measured:
    """What scores are made of, by text: ROUGE is a mean over texts, BLEU is computed from sums over them."""

    rouge_NX: np.ndarray  # rouge1, rouge2, rougeL
    bleu_NX: np.ndarray  # lengths of text and reference; n-grams matched for n = 1 to 4; n-grams there are

    @classmethod
    def from_texts(cls, texts: list[str], references: list[list[str]], tokenizer: str | None) -> Measured:
        rouge, bleu = make_scorers(tokenizer)
        bleu.effective_order = True  # else it warns of each sentence's score, of which only the counts are used
        rouge_rows, bleu_rows = [], []
        for text, mine in zip(texts, references, strict=True):
            scores = rouge.score_multi(mine, text)
            rouge_rows.append([100 * scores[metric].fmeasure for metric in METRICS if metric != "bleu"])
            scores = bleu.sentence_score(text, mine)
            bleu_rows.append([scores.sys_len, scores.ref_len, *scores.counts, *scores.totals])
        return cls(np.array(rouge_rows), np.array(bleu_rows))

    def scores(self, pick_X: np.ndarray) -> np.ndarray:
        """The scores of these texts, in the order of METRICS."""
        _, BLEU = metric_packages()
        sys_len, ref_len, *counts = self.bleu_NX[pick_X].sum(axis=0).tolist()
        bleu = BLEU.compute_bleu(counts[:4], counts[4:], sys_len, ref_len, smooth_method="exp")
        return np.append(self.rouge_NX[pick_X].mean(axis=0), bleu.score)

    def intervals_to(self, other: Measured) -> dict[str, tuple[float, float]]:
        """95 % intervals of (the other's scores - these), by a paired bootstrap: texts are drawn for both at once."""
        rng, N = np.random.default_rng(0), len(self.rouge_NX)
        draws = [rng.integers(N, size=N) for _ in range(RESAMPLES)]
        differences = np.array([other.scores(pick_X) - self.scores(pick_X) for pick_X in draws])
        low, high = np.percentile(differences, [2.5, 97.5], axis=0).tolist()
        return dict(zip(METRICS, zip(low, high, strict=True), strict=True))


def metric_packages() -> tuple[Any, Any]:
    """(RougeScorer, BLEU), loaded when they are needed. Raises MinidecodeError where they are not installed."""
    try:
        from rouge_score.rouge_scorer import RougeScorer
        from sacrebleu.metrics import BLEU
    except ModuleNotFoundError as error:
        raise MinidecodeError(f"the package {error.name} is missing: {pip_install(error.name, 'evaluate')}") from None
    return RougeScorer, BLEU


def make_scorers(tokenizer: str | None = None) -> tuple[Any, Any]:
    """(what scores ROUGE, what scores BLEU), both with one tokenizer, or each with its own.

    Raises OptionError on a tokenizer that is unknown, or that needs another package or a download.
    """
    RougeScorer, BLEU = metric_packages()
    metrics = [metric for metric in METRICS if metric != "bleu"]
    if tokenizer is None:
        return RougeScorer(metrics, use_stemmer=False), BLEU()
    name = TOKENIZERS.get(tokenizer, tokenizer)
    if name not in BLEU.TOKENIZERS:
        known = ", ".join([*TOKENIZERS, *(known for known in BLEU.TOKENIZERS if known not in TOKENIZERS.values())])
        raise OptionError(f"tokenizer {tokenizer!r} is unknown: choose {known}")
    try:
        bleu = BLEU(tokenize=name)
    except (RuntimeError, ImportError, OSError) as error:  # sacrebleu's own words, and what to install
        raise OptionError(f"tokenizer {tokenizer!r} cannot be loaded: {' '.join(str(error).split())}") from None
    return RougeScorer(metrics, tokenizer=_Words(bleu.tokenizer)), bleu


@dataclass(frozen=True)
class _Words:
    """sacrebleu's tokenizer as rouge-score takes one; case does not count, as in its own."""

    spaced: Callable[[str], str]

    def tokenize(self, text: str) -> list[str]:
        return self.spaced(text.lower()).split()


def warn_of_other_alphabets(references: list[list[str]]) -> None:
    """Warns of texts that ROUGE's own tokenizer drops the most of: it knows a-z and 0-9, and equal texts score 0."""
    dropped = [letters for mine in references for text in mine if (letters := _letters_the_metric_drops(text))]
    if dropped:
        warnings.warn(
            f"ROUGE counts a-z and 0-9 alone, and drops most letters of {len(dropped)} of "
            f"{sum(map(len, references))} references (such as {dropped[0][:5]!r}), so their scores mean nothing: "
            "choose --tokenizer international (words between spaces) or characters (Chinese, Japanese, Thai)",
            MinidecodeWarning, stacklevel=3,
        )  # fmt: skip


def _letters_the_metric_drops(text: str) -> str:
    """The letters and digits that are not a-z and 0-9, if most are not."""
    letters = [c for c in text.lower() if c.isalnum()]
    others = [c for c in letters if not c.isascii()]
    return "".join(others) if 2 * len(others) > len(letters) else ""


def check_and_list_references(references: Sequence[str | Sequence[str]], prompts: int) -> list[list[str]]:
    """Each prompt's references as a list, if there are as many as prompts and all are texts."""
    if len(references) != prompts:
        raise InputError(
            f"got {counted(prompts, 'prompt')} and {counted(len(references), 'reference')}: give each its own"
        )
    listed = [[r] if isinstance(r, str) else list(r) for r in references]
    for i, mine in enumerate(listed, 1):
        if not mine or not all(isinstance(text, str) for text in mine):
            raise InputError(f"reference {i} of {prompts} should be a text, or a list of texts, not {mine!r}")
    return listed


def _reference_streams(references: list[list[str]]) -> list[list[str | None]]:
    """The first reference of each text, then the second of each, None where there is none: as sacrebleu takes them."""
    return [[mine[i] if i < len(mine) else None for mine in references] for i in range(max(map(len, references)))]
