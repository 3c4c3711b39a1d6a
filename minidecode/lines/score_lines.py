"""What `minidecode score` does with many texts: the stages of lines/pipeline.py, with scores for generation."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from ..errors import InputError, OptionError
from .pipeline import ON_ERROR, LineRun, RunReceipt, Stages, check_all_lines
from .records import Line, read_record

if TYPE_CHECKING:
    from ..model import Model

TOGETHER = 32  # lines that are computed by one call, which makes of them as many forward passes as it likes


class Scoring(Stages):
    """Texts, or targets given their texts, become ids, and of these come scores: `line.scores` of its tokens."""

    MODEL_STAGE = "score"

    def __init__(
        self, model: Model, *args: Any, stride: int | None, truncate: bool, progress: Callable[[float], None],
        **kwargs: Any,
    ):  # fmt: skip
        super().__init__(model, *args, batch_size=TOGETHER, sort_window=8 * TOGETHER, **kwargs)
        self.how, self.progress = {"stride": stride, "truncate": truncate}, progress
        self.have_targets: bool | None = None  # as the first line says
        self.scored = 0  # lines

    def parse_and_tokenize(self, line: Line) -> None:
        """Parses and tokenizes a line, and checks that the model can take it."""
        where = self.name_of_line(line.number)
        line.record = read_record(line.given, self.jsonl, where, "text", may_skip=self.on_error == "stop")
        target = line.record.get("target")
        if self.have_targets is None:
            self.have_targets = "target" in line.record
        if self.have_targets != isinstance(target, str) or ("target" in line.record) != self.have_targets:
            raise InputError(f'{where} has no text under "target": give all lines one, or none')
        if self.model.is_encoder_decoder and target is None:
            raise InputError('this model scores targets given their sources: give --input FILE.jsonl with a "prompt"'
                             ' and a "target" in each object')  # fmt: skip
        line.ids, line.target = self.model.tokenize_scored(line.record["prompt"], target, **self.how)

    def run_model(self, part: list[Line]) -> None:
        """The scores of these lines. Progress is counted in lines, those half done by their tokens."""
        targets = [line.target for line in part] if self.have_targets else None
        scores = self.model.score(
            input_ids=[line.ids for line in part], target_ids=targets, **self.how,
            progress=lambda done, total: self.progress(self.scored + len(part) * done / total),
        )  # fmt: skip
        for line, of_line in zip(part, scores, strict=True):
            line.scores = of_line
        self.scored += len(part)
        self.receipt.new_tokens += int(scores.tokens.sum())


def score_lines(
    model: Model, lines: Iterable[Any], *, jsonl: bool = False, source: str = "text", on_error: str = "stop",
    stride: int | None = None, truncate: bool = False, progress: Callable[[float], None] = lambda done: None,
) -> LineRun:  # fmt: skip
    """A `Line` for each text in its turn, whose `scores` are its `Scores`; texts of about one length go together.

    lines: texts, UTF-8 bytes, or objects with a "prompt" and perhaps a "target", which then all must have. jsonl,
    source, on_error: as in `generate_lines`. stride, truncate: as in `Model.score`. progress: called with lines done.

    Raises OptionError at once on options; while it is read LineError, and whatever reading `lines` raises.
    """
    stages = _make_stages(model, lines, jsonl, source, on_error, stride, truncate, progress)
    return LineRun(stages, prefetch=True, threads=0)


def check_texts(model: Model, lines: Iterable[Any], *, jsonl: bool, source: str, **how: Any) -> int:
    """How many lines there are. Raises the LineError of the first that cannot be scored; nothing is computed."""
    return check_all_lines(_make_stages(model, lines, jsonl, source, "stop", **how))


def _make_stages(
    model: Model, lines: Iterable[Any], jsonl: bool, source: str, on_error: str, stride: int | None, truncate: bool,
    progress: Callable[[float], None] = lambda done: None,
) -> Scoring:  # fmt: skip
    if on_error not in ON_ERROR:
        raise OptionError(f"on_error must be one of {', '.join(ON_ERROR)}, not {on_error!r}")
    if model.tokenizer is None:
        raise InputError(model.inputs.no_tokenizer_message("call score with input_ids"))
    model.check_scoring(stride, truncate)
    return Scoring(
        model, lines, RunReceipt("prefetch"), jsonl=jsonl, source=source, on_error=on_error, stride=stride,
        truncate=truncate, progress=progress,
    )  # fmt: skip
