"""How large a batch may get under a cap on memory, method by method (FastSeq, section 5.1; EL, Table 3)."""

from __future__ import annotations

import dataclasses
import statistics
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..catalog import Cost, sum_of_costs
from ..runtime.arena import Extent
from ..runtime.footprint import available_bytes, footprint, format_bytes
from ..runtime.receipt import Receipt
from .machines import Machine
from .rungs import Setting, Work, run_ids, weights_bytes

METHODS = {  # what is kept of the input; all else is the compiled code
    "no cache": {"cache": "none"},
    "cache per beam": {"cache": "replicated"},
    "de-duplicated": {"cache": "split"},
    "EL": {"cache": "el"},
    "de-dupl., float16": {"cache": "split", "cache_dtype": "float16"},
}
OUT, FITS, MEASURED, PREDICTED = "out of memory", "fits", "measured", "predicted"
HERE = "this"
WIDTH = 120  # columns of a terminal


@dataclass
class Cell:
    """A method at a batch size. needs: bytes of the generation at most, beside the weights (runtime/footprint.py).

    state: "measured" and "predicted" come with samples/s; "fits" is known by its bytes alone, and was not run;
    "out of memory" needs more than the cap.
    """

    machine: str
    method: str
    batch: int
    needs: int
    state: str
    samples_per_second: float | None = None
    spread: list[float] | None = None  # of seconds, fastest and slowest
    why: str = ""  # it was not run


@dataclass
class Frontier:
    """Cells of each machine, and what it may take beside the weights."""

    caps: dict[str, int]
    weights: int
    cells: list[Cell]

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> Frontier:
        return cls(record["caps"], record["weights"], [Cell(**c) for c in record["cells"]])

    def as_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    def __str__(self) -> str:
        return "\n\n".join(map(self._table_of_machine, self.caps))

    def _table_of_machine(self, machine: str) -> str:
        cells = {(c.method, c.batch): c for c in self.cells if c.machine == machine}
        batches, here = sorted({b for _, b in cells}), machine == HERE
        where = "this machine" if here else f"{machine}, predicted (the least time of its ops, summed)"
        lines = [f"batch sizes on {where}: {format_bytes(self.caps[machine])} beside"
                 f" {format_bytes(self.weights)} of weights",
                 f"{'samples/s':<10}" + "".join(f" {m:>21}" for m in METHODS)]  # fmt: skip
        for batch in batches:
            row = [cells.get((m, batch)) for m in METHODS]
            lines.append(f"{batch:<10,}" + "".join(f" {_cell_of_table(c):>21}" for c in row))
        if reasons := dict.fromkeys(c.why for c in cells.values() if c.why):
            lines.append(wrap_text(f"fits: by its bytes alone; not run, for {'; or '.join(reasons)}"))
        return "\n".join(lines)


def wrap_text(text: str, further: str = "") -> str:
    """Lines that a terminal shows whole; further: what each begins with, but for the first."""
    return textwrap.fill(text, WIDTH, subsequent_indent=further, break_on_hyphens=False, break_long_words=False)


def _cell_of_table(cell: Cell | None) -> str:
    if cell is None:
        return ""
    if cell.state == OUT:
        return f"OOM (needs {format_bytes(cell.needs)})"
    if cell.state == FITS:
        return f"fits ({format_bytes(cell.needs)})"
    digits = 2 if cell.samples_per_second < 1000 else 0
    return f"{cell.samples_per_second:,.{digits}f} ({format_bytes(cell.needs)})"


def explore(
    work: Work, no_repeat_ngram_size: int, cap: int | None, machines: list[Machine], repeats: int,
    cell_seconds: float,
) -> Frontier:  # fmt: skip
    """The batch doubled, method by method, until it would need more than it may: here the cap, beside the weights, as
    in `generate` (None: nothing runs here); on another machine its memory, less the weights.

    Here batches run by turns, under that cap, while the last one of the method and what the machine has left say that
    the next takes at most cell_seconds, and fits; what is not run says so. For other machines each call's bytes and
    operations are recorded at one and at two texts, and continued: they are a constant and so much for each text.
    """
    settings = {
        m: Setting(
            {"base": "fast", "arena": "none", "hars": "off"} | choices, work.model.dtype, 1, no_repeat_ngram_size
        )
        for m, choices in METHODS.items()
    }
    weights = weights_bytes(work.model)
    caps = {m.name: max(0, int(m.memory - weights)) for m in machines}
    cells = []
    if cap is not None:
        caps = {HERE: cap} | caps
        cells += measure_cells(work, settings, cap, repeats, cell_seconds)
    if machines:
        recorded = {m: record_receipts(work, setting) for m, setting in settings.items()}
        for machine in machines:
            cells += predict_cells(work, settings, recorded, machine, caps[machine.name])
    return Frontier(caps, weights, cells)


def footprint_of_batch(work: Work, setting: Setting, batch: int) -> int:
    """The footprint of a batch of this many texts, each as long as the longest."""
    longest, new = max(map(len, work.ids)), work.options["max_new_tokens"]
    prompt, source = (1, longest) if work.model.is_encoder_decoder else (longest, 0)
    extent = Extent(batch, source, prompt, new, prompt + new)
    options = work.model.options(**work.options_for_setting(setting))
    return footprint(work.model, setting.plan, extent, options).total


def work_with_batch(work: Work, batch: int) -> Work:
    """The texts, as often as it takes, each as long as the longest."""
    longest = max(map(len, work.ids))
    ids = [np.resize(work.ids[i % len(work.ids)], longest) for i in range(batch)]
    return dataclasses.replace(work, ids=ids, texts=None)


def measure_cells(work: Work, settings: dict[str, Setting], cap: int, repeats: int, cell_seconds: float) -> list[Cell]:
    """Measures the cells of the table on this machine."""
    cells: list[Cell] = []
    last: dict[str, float] = {}  # seconds of the method's last batch
    alive, batch, left = list(settings), 1, available_bytes()
    for setting in settings.values():
        if footprint_of_batch(work, setting, 1) <= min(cap, left or cap):
            run_ids(work_with_batch(work, 1), setting)  # compiles
    while alive:
        row = [Cell(HERE, m, batch, footprint_of_batch(work, settings[m], batch), FITS) for m in alive]
        going = []
        for cell in row:
            before = last.get(cell.method, 0.0 if batch == 1 else float("inf"))
            if cell.needs > cap:
                cell.state = OUT
            elif left is not None and cell.needs > left:
                cell.why = f"this machine has {format_bytes(left)} left"
            elif 2 * before > cell_seconds:
                cell.why = f"it would take more than {cell_seconds:g} s"
            else:
                going.append(cell)
        texts = work_with_batch(work, batch)
        seconds: dict[str, list[float]] = {cell.method: [] for cell in going}
        for _ in range(repeats):
            for cell in going:
                setting = dataclasses.replace(settings[cell.method], batch_size=batch)
                seconds[cell.method].append(run_ids(texts, setting, memory_budget=cap).seconds)
        for cell in going:
            mine = seconds[cell.method]
            last[cell.method] = statistics.median(mine)
            cell.state, cell.spread = MEASURED, [min(mine), max(mine)]
            cell.samples_per_second = batch / last[cell.method]
        for cell in row:
            if cell.state != MEASURED:
                last.pop(cell.method, None)
        cells += row
        alive = [cell.method for cell in row if cell.state != OUT]
        batch *= 2
    return cells


# ---- other machines --------------------------------------------------------------------------------------------------


def record_receipts(work: Work, setting: Setting) -> tuple[list[Receipt], list[Receipt]]:
    """The receipts of one text, and of two in a batch, with the costs of their calls."""
    one, two = (
        run_ids(work_with_batch(work, n), dataclasses.replace(setting, batch_size=n), costs=True).receipts
        for n in (1, 2)
    )
    return one, two


def extrapolate_costs(one: Iterable[Receipt], two: Iterable[Receipt], batch: int) -> list[Cost]:
    """The cost of each call for a batch of this many texts.

    The n-th call of an op is a constant and so much for each text. An op whose calls depend on the texts (beams that
    stay where they are move nothing) has other numbers of them: then its sum is continued.
    """
    longer = []
    for a, b in zip(one, two, strict=True):
        for op in a.ops | b.ops:
            costs = [r.ops[op].costs if op in r.ops else [] for r in (a, b)]
            if len(costs[0]) != len(costs[1]):
                costs = [[sum_of_costs(part)] for part in costs]
            for first, second in zip(*costs, strict=True):
                pairs = zip(dataclasses.astuple(first), dataclasses.astuple(second), strict=True)
                longer.append(Cost(*(max(0, int(a + (batch - 1) * (b - a))) for a, b in pairs)))
    return longer


def predict_cells(
    work: Work, settings: dict[str, Setting], recorded: dict[str, tuple], machine: Machine, cap: int
) -> list[Cell]:
    """Another machine's cells."""
    cells = []
    for method, setting in settings.items():
        batch, fits = 1, True
        while fits:
            cell = Cell(machine.name, method, batch, footprint_of_batch(work, setting, batch), OUT)
            if fits := cell.needs <= cap:
                seconds = sum(map(machine.seconds, extrapolate_costs(*recorded[method], batch)))
                cell.state, cell.samples_per_second = PREDICTED, batch / seconds
            cells.append(cell)
            batch *= 2
    return cells
