"""Costs of a decode step as bars, by the cost models. On the site sliders change the sizes (docs/static/live)."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from html import escape
from math import floor

from ..bench.machines import MACHINES, Machine
from ..bench.step_costs import FIGURES, MODELS, Numbers, config_of_published_model, make_step_of_published_model
from .canvas import LETTER, Canvas
from .figure import Figure
from .recorded import recorded

WIDTH, LEFT, BAR, TITLE, ROW = 460, 10, 150, 28, 22  # pixels
UNITS = {
    "bytes": ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1, "bytes")),
    "operations": ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1, "")),
    "seconds": ((1, "s"), (1e-3, "ms"), (1e-6, "us")),
}
MODELS_OF = {"el": ("bart-base", "bart-large", "mbart-large-50")}  # of a kind of figure; MODELS of the others
SLIDERS = {  # of a size: what it is, and its values; or a size that it has to divide
    "B": ("sentences in the batch", [1, 2, 4, 8, 16, 32, 64, 128, 256]),
    "W": ("beams", [1, 2, 3, 4, 5, 6, 7, 8, 12, 16]),
    "N": ("positions of the prompt", [16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192]),
    "T": ("positions generated so far", [1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048]),
    "G": ("key/value heads", "H"),
    "H": ("query heads", "D"),
}
MOVES = {
    "cache": "BWNT",
    "reorder": "BWNT",
    "beams": "BWNT",
    "heads": "GBWN",
    "el": "HBWN",
}  # which sliders a figure has


@dataclass(frozen=True)
class CostFigure(Figure):
    """One picture, which the site's script replaces by one with sliders."""

    page: str = ""  # what the script needs, as JSON

    def _repr_html_(self) -> str:
        marked = f'<figure class="md-figure" data-live="{escape(self.page)}"'
        return super()._repr_html_().replace('<figure class="md-figure"', marked, 1)


def draw_costs(
    kind: str, *, name: str, caption: str, model: str, machine: str = "V100, tensor cores", **request: int
) -> CostFigure:
    """A figure of `bench.step_costs.FIGURES`: bars for a published model, a machine of `machines()` and a request.

    request: B, W, N, T and itemsize of a `Step`. The alternative text has all numbers.
    """
    numbers = FIGURES[kind](make_step_of_published_model(model, **request), machines()[machine])
    whats = [f"{what}: {', '.join(_values_in_words(what, of).values())}" for what, of in numbers.items()]
    alt = f"Bars for {model} on a machine ({machine}). {'; '.join(whats)}."
    page = json.dumps(_page_data(kind, model, machine, request))
    return CostFigure(name, caption, alt, ("",), (_draw_bars(numbers),), page)


def machines() -> dict[str, Machine]:
    """The CPU of the recorded ladder and the machines of data sheets, with tensor cores where they have some."""
    cpu = recorded("ladder-cpu")["machine"]
    machines = {"recorded CPU": Machine("CPU", cpu["bandwidth"], cpu["operations"], "recorded")}
    for m in MACHINES.values():
        machines |= {m.name.upper(): m, f"{m.name.upper()}, tensor cores": m.on_tensor_cores()}
    return machines


def _page_data(kind: str, model: str, machine: str, request: dict[str, int]) -> dict:
    """What docs/static/live/bars.js draws from."""
    of_step = {size: value for size, value in request.items() if size not in ("G", "H")}
    models = {m: asdict(make_step_of_published_model(m, **of_step)) for m in MODELS_OF.get(kind, MODELS)}
    models[model] |= request
    contexts = {m: config_of_published_model(m).context for m in models}
    return {
        "kind": kind,
        "model": model,
        "machine": machine,
        "models": models,
        "contexts": contexts,
        "machines": {n: {"bandwidth": m.bandwidth, "operations": m.operations} for n, m in machines().items()},
        "sliders": [
            {"size": size, "name": SLIDERS[size][0], "values": SLIDERS[size][1]}
            if isinstance(SLIDERS[size][1], list)
            else {"size": size, "name": SLIDERS[size][0], "divides": SLIDERS[size][1]}
            for size in MOVES[kind]
        ],
    }


def _draw_bars(numbers: Numbers) -> Canvas:
    height = sum(TITLE + ROW * len(of) for of in numbers.values()) + 12
    names = LETTER * max(len(name) for of in numbers.values() for name in of)
    canvas, y = Canvas(WIDTH, height), 0
    for what, of in numbers.items():
        canvas.text(LEFT, y + 20, what, bold=True)
        y += TITLE
        for (name, number), words in zip(of.items(), _values_in_words(what, of).values(), strict=True):
            x, width = LEFT + names + 8, BAR * number / (max(of.values()) or 1)
            canvas.text(LEFT, y + 14, name)
            canvas.cell(x, y + 2, "strong" if name == list(of)[-1] else "mid", width=width, height=15)
            canvas.text(x + width + 6, y + 14, words.removeprefix(f"{name} "))
            y += ROW
    return canvas


def _values_in_words(what: str, of: dict[str, float]) -> dict[str, str]:
    """Who -> who, how much, and by what factor it differs from the first."""
    first = next(iter(of.values()))
    return {
        name: f"{name} {quantity_in_words(what, number)}"
        + (f", {factor_in_words(number, first)}" if k and first else "")
        for k, (name, number) in enumerate(of.items())
    }


def quantity_in_words(what: str, number: float) -> str:
    """A number of bytes, operations or seconds (the first word of `what`) in three digits, with its unit."""
    if number == 0:
        return "0"
    units = UNITS[what.split()[0]]
    size, unit = next((u for u in units if number >= 0.9995 * u[0]), units[-1])
    text = str(floor(number + 0.5)) if unit in ("bytes", "") else number_in_digits(number / size)
    return f"{text} {unit}".rstrip()


def factor_in_words(number: float, first: float) -> str:
    """How many times the first: 2.62x. Below a tenth, which part of it: 1/3,460 of the first."""
    if not 0 < number < 0.1 * first:
        return f"{number_in_digits(number / first)}x"
    times = first / number
    unit = 10 ** max(0, len(str(floor(times))) - 3)  # three digits
    return f"1/{floor(times / unit + 0.5) * unit:,} of the first"


def number_in_digits(number: float) -> str:
    """Three digits, or as many as stand before the point."""
    return str(floor(number + 0.5)) if number >= 100 else format(number, "#.3g").rstrip(".")
