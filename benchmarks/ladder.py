"""The ladder (FastSeq, Table 2) and its batch sizes (EL, Table 3), from what `minidecode ladder --json` wrote.

    minidecode ladder --json --memory-budget 1GB --machine v100 --machine t4 --machine h200 \\
        > benchmarks/results/ladder-cpu.json
    python benchmarks/ladder.py benchmarks/results/ladder-cpu.json --readme benchmarks/README.md \\
        --batch-sizes docs/tables.md

    minidecode ladder -m gpt2 --random-weights --input-length 64 --max-new-tokens 16 --seconds 500 --json \\
        > benchmarks/results/ladder-gpt2.json
    python benchmarks/ladder.py benchmarks/results/ladder-gpt2.json \\
        --light docs/static/ladder-light.svg --dark docs/static/ladder-dark.svg

`minidecode ladder` takes some minutes and measures; this script takes a second and measures nothing. Prints the tables;
writes the first into --readme between the marks ladder, the second into --batch-sizes between the marks batch-sizes.
--light and --dark draw the picture of the project's README.
"""

from __future__ import annotations

import argparse
from xml.sax.saxutils import escape

from flags import file_to_read, file_to_write
from readme import with_marks, write_between_markers

import minidecode as md
from minidecode.bench.frontier import HERE, METHODS, OUT, Cell
from minidecode.bench.ladder import Ladder, read_ladder
from minidecode.runtime.footprint import format_bytes


def markdown(ladder: Ladder) -> str:
    """A line a rung, the reasons of losers below, and where it ran."""
    lines = ["| rung | texts/s | speedup over the rung it builds on | over no cache | keys and values | peak |",
             "|---|---|---|---|---|---|"]  # fmt: skip
    for s in ladder.measured:
        step = f"{s.speedup:.2f}x{'' if s.carried else ', not carried on'}" if s.builds_on else ""
        _, least, most = s.seconds
        lines.append(
            f"| {s.name} | {s.samples_per_second:,.1f} ({least:.2f}-{most:.2f} s) | {step} | {s.speedup_total:.1f}x |"
            f" {format_bytes(s.memory_bytes)} | {format_bytes(s.peak_bytes)} |"
        )
    return "\n".join([*lines, "", f"{ladder.work['texts']} texts {summary(ladder)}"])


def batch_sizes(ladder: Ladder) -> str:
    """Texts/s by method and batch size under this machine's cap; of other machines what the largest batch would be."""
    cells = {(c.method, c.batch): c for c in ladder.frontier.cells if c.machine == HERE}
    lines = [f"| batch size | {' | '.join(METHODS)} |", "|---" * (1 + len(METHODS)) + "|"]
    for batch in sorted({batch for _, batch in cells}):
        row = (as_cell(cells.get((method, batch))) for method in METHODS)
        lines.append(f"| {batch:,} | {' | '.join(row)} |")
    cap = format_bytes(ladder.frontier.caps[HERE])
    lines.append(
        f"\nTexts/s (bytes of a batch at the most, beside the weights), under a cap of {cap}; OOM: more than that; "
        f"fits: by its bytes alone, not run. Texts {summary(ladder)}"
    )
    for machine, limit in ladder.frontier.caps.items():
        if machine != HERE:
            fit = {c.method: c.batch for c in ladder.frontier.cells if c.machine == machine and c.state != OUT}
            most = ", ".join(f"{batch:,} ({method})" for method, batch in fit.items())  # the last is the largest
            lines.append(f"Predicted for a {machine} ({format_bytes(limit)}), the largest batch: {most}.")
    return "\n".join(lines)


def as_cell(cell: Cell | None) -> str:
    if cell is None:
        return ""
    speed = f"{cell.samples_per_second:,.1f}" if cell.samples_per_second else {OUT: "OOM"}.get(cell.state, cell.state)
    return f"{speed} ({format_bytes(cell.needs)})"


def summary(ladder: Ladder) -> str:
    """What was generated, and where."""
    work = ladder.work
    return (
        f"of about {work['input_length']} tokens, {work['max_new_tokens']} new, beam "
        f"{work['num_beams']}, n-gram {work['no_repeat_ngram_size']}; machine: {ladder.where['cores']} cores "
        f"({ladder.where['processor']}), load {ladder.where['load']} (ours included), "
        f"BLAS threads: {ladder.where['blas_threads']}, NumPy {ladder.where['numpy']}."
    )


THEMES = {  # text, grid, bar
    "light": ("#1f2328", "#d1d9e0", "#1f6feb"),
    "dark": ("#f0f6fc", "#3d444d", "#58a6ff"),
}
ROW, LEFT, WIDTH = 26, 170, 720  # pixels: a bar's row, the names' column, the picture


def bars(ladder: Ladder, theme: str) -> str:
    """The rungs that give the first rung's text, as an SVG: a bar each; hollow if the ladder dropped the rung."""
    ink, grid, colour = THEMES[theme]
    ban = ladder.work["no_repeat_ngram_size"]
    same = [s for s in ladder.measured if not s.other_precision and s.no_repeat_ngram_size == ban]
    scale = (WIDTH - LEFT - 150) / max(s.speedup_total for s in same)
    height = ROW * len(same) + 20
    words = ", ".join(f"{s.name} {s.speedup_total:.1f}x" for s in same)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" aria-labelledby="t d" '
        f'font-family="system-ui, sans-serif" font-size="14" fill="{ink}">',
        f'<title id="t">{escape(ladder.work["model"])}: speed over no cache</title>',
        f'<desc id="d">{escape(words)}</desc>',
        f'<path d="M{LEFT} 6V{height - 6}" stroke="{grid}"/>',
    ]
    for k, s in enumerate(same):
        y, width = 10 + ROW * k, s.speedup_total * scale
        inside = f'fill="{colour}"' if s.carried else f'fill="none" stroke="{colour}" stroke-dasharray="4 3"'
        value = f"{s.speedup_total:.1f}x" + ("" if s.carried else ", slower: dropped")
        lines += [
            f'<text x="{LEFT - 10}" y="{y + 17}" text-anchor="end">{escape(s.name)}</text>',
            f'<rect x="{LEFT}" y="{y + 3}" width="{width:.1f}" height="{ROW - 6}" {inside}/>',
            f'<text x="{LEFT + width + 8:.1f}" y="{y + 17}">{value}</text>',
        ]
    return "\n".join([*lines, "</svg>\n"])


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("file", type=file_to_read, help="what minidecode ladder --json wrote")
    p.add_argument("--readme", type=with_marks("ladder"), help="README whose table is replaced")
    p.add_argument("--batch-sizes", type=with_marks("batch-sizes"), help="file whose table of them is replaced")
    p.add_argument("--light", type=file_to_write, help="where to draw the rungs for light pages, as SVG")
    p.add_argument("--dark", type=file_to_write, help="where to draw them for dark pages")
    a = p.parse_args()
    try:
        ladder = read_ladder(a.file)
    except md.InputError as error:
        raise SystemExit(f"{error}") from None
    print(markdown(ladder))
    if a.readme:
        write_between_markers(a.readme, "ladder", markdown(ladder))
    for theme, path in (("light", a.light), ("dark", a.dark)):
        if path:
            path.write_text(bars(ladder, theme), encoding="utf-8", newline="\n")
    if ladder.frontier and HERE in ladder.frontier.caps:
        print(f"\n{batch_sizes(ladder)}")
        if a.batch_sizes:
            write_between_markers(a.batch_sizes, "batch-sizes", batch_sizes(ladder))
    elif a.batch_sizes:
        raise SystemExit(f"{a.file} holds no batch sizes of this machine: they need --memory-budget")


if __name__ == "__main__":
    main()
