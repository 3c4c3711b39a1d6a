"""A run as a notebook shows it: the verdict, the source with a margin of counts, and a picture."""

from __future__ import annotations

from . import report
from .outcome import Outcome
from .pictures import draw_run, xml_text


def html_of_run(run: Outcome) -> str:
    """One piece of HTML that stands alone; everything from the kernel is escaped."""
    colour = "#1a7f37" if run.ok else "#cf222e"
    paragraphs = "".join(f"<div>{xml_text(line)}</div>" for line in report.verdict_text(run).splitlines())
    parts = [
        f'<div style="border-left: 4px solid {colour}; padding: 4px 10px; margin-bottom: 8px">{paragraphs}</div>',
    ]
    if run.traced:
        parts.append(f"<div>{'<br/>'.join(xml_text(line) for line in report.summary_text(run).splitlines())}</div>")
        costs = [f"<div>{xml_text(cost)}</div>" for cost in report.cost_texts(run)]
        parts += [_source_table(run), *costs, draw_run(run)]
    return "<div>" + "\n".join(parts) + "</div>"


def _source_table(run: Outcome) -> str:
    """The margin as a table; lines that an error names are red."""
    named = {place.line for finding in run.errors for place in finding.places}
    rows = []
    for line in report.source_with_margin(run).splitlines():
        is_named = line[:5].strip().isdigit() and int(line[:5]) in named
        style = ' style="color: #cf222e"' if is_named else ""
        text = "\n".join(xml_text(piece) for piece in line.split("\n"))
        rows.append(f"<span{style}>{text}</span>")
    return '<pre style="line-height: 1.3; font-size: 12px">' + "\n".join(rows) + "</pre>"
