"""A run as text: the verdict, the costs, the source with a margin of counts, two runs beside each other."""

from __future__ import annotations

import os

from .memory import ATOMIC
from .outcome import Outcome
from .schedules import MOST_TIMES
from .source import source_lines
from .traffic import SECTOR

COLUMNS = {
    "global_loads": "g.loads", "global_stores": "g.stores", "shared_loads": "s.loads", "shared_stores": "s.stores",
    "atomics": "atomics", "sectors": "sectors", "bank_conflicts": "conflicts",
    "operations": "ops",
}  # fmt: skip


def verdict_text(run: Outcome) -> str:
    """The errors, or "clean"; then the notes."""
    notes = [f for f in run.findings if f.severity == "note"]
    scope = [] if run.traced else ["Races were not looked for (trace=False)."]
    if run.partial:
        scope.append(
            f"A sample: {run._launch.blocks_run:,} of {run.blocks:,} blocks ran. The arrays hold what those wrote, and"
            " counts are theirs."
        )
    if run.stopped:
        scope.append("The launch stopped there: arrays and counts hold what ran until then.")
    clean = "clean" + " as far as the sample goes" * run.partial
    wanted = run._launch.settings.schedules
    if run.schedules > 1:
        clean += f" under {run.schedules} schedules"
        if run.ok and run.schedules < wanted:
            scope.append(f"{wanted} schedules would take over {MOST_TIMES} times as long as the first.")
        elif not run.ok:
            scope.append(
                f"Schedule {run.schedules} of {wanted} found it ({run.schedule}); those before were clean. Arrays hold"
                " the results of the first."
            )
    errors = [f"error: {f}" for f in run.errors] or [clean]
    return "\n".join([*errors, *scope, *(f"note: {f}" for f in notes)])


def cost_texts(run: Outcome) -> list[str]:
    """One sentence for each instruction that moves at least twice what it wants, or has bank conflicts."""
    sentences = {}
    for (site, _), c in sorted(run.sites.items()):
        if c.kind == ATOMIC or c.worst is None:
            continue
        place = run._launch.journal.place_of_site(site)
        _, block, warp, wanted, sectors, passes, lanes, stride = c.worst
        who = f"warp {warp}" + (f" of block {block}" if run.blocks > 1 else "")
        if not c.shared and c.sectors >= 2 * c.least_sectors:
            size = max(1, c.bytes // max(1, c.accesses))
            apart = f": neighbours lie {abs(stride) // size:,} elements apart" if stride and abs(stride) > size else ""
            share = 100 * wanted // (SECTOR * sectors)
            sentences[place] = (
                f"{place}: {who} wanted {wanted:,} bytes and moved {SECTOR * sectors:,} ({share} %){apart}."
            )
        elif c.shared and c.passes > c.requests:
            bank = f"{lanes} lanes, one bank" if passes == lanes else f"{lanes} lanes share banks"
            sentences[place] = f"{place}: {bank}, {passes} passes ({who})."
    return list(sentences.values())


def summary_text(run: Outcome) -> str:
    """The counts on two lines."""
    g, s = run.global_loads_per_thread, run.shared_loads_per_thread
    operations = ""
    if run.counts_operations:
        per_byte = f", {run.operations / run.bytes_moved:.3g} per byte moved" if run.bytes_moved else ""
        operations = f"\n{run.operations:,} operations{per_byte}"
    return (
        f"per thread: {g:.4g} global loads, {run.global_stores_per_thread:.4g} global stores, {s:.4g} shared loads,"
        f" {run.shared_stores_per_thread:.4g} shared stores\n"
        f"in all: {run.sectors:,} sectors ({run.bytes_moved:,} bytes moved, {run.bytes_wanted:,} wanted),"
        f" {run.bank_conflicts:,} bank conflicts, {run.atomics:,} atomics"
        f"{' (whose traffic is not counted)' * bool(run.atomics)}{operations}"
    )


def report_text(run: Outcome) -> str:
    """Everything, for a terminal."""
    launch = run._launch
    head = f"{run.name}[{_size_in_words(launch.grid)}, {_size_in_words(launch.block)}]"
    if not run.traced:
        return f"{head}\n{verdict_text(run)}"
    parts = [head, verdict_text(run), summary_text(run), source_with_margin(run)]
    return "\n".join([*parts, *(f"cost: {c}" for c in cost_texts(run) if not run.stopped)])


def _size_in_words(size) -> str:
    flat = size.y == size.z == 1
    return f"{size.x}" if flat else f"({', '.join(map(str, size))})"


def source_with_margin(run: Outcome) -> str:
    """The source of the kernel and of the functions it calls; before each line what it did.

    Columns that are all zero are left out.
    """
    counts = run.lines
    columns = [c for c in COLUMNS if any(getattr(count, c) for count in counts.values())]
    heads = [*(COLUMNS[c] for c in columns), "lanes"]
    rows = [f"{'line':>5} " + " ".join(f"{h:>9}" for h in heads)]
    kernel = run._launch.function.__code__
    for code in [kernel, *(c for c in run.codes if c.co_name != kernel.co_name)]:
        lines = {p.line: n for p, n in counts.items() if (p.file, p.function) == (code.co_filename, code.co_name)}
        shown = source_lines(code) or dict.fromkeys(sorted(lines), "")
        if code is not kernel and lines:
            rows.append(f"{'':>5} {code.co_name}, of {os.path.basename(code.co_filename)}:")
        for number in sorted({*shown, *lines}) if lines or code is kernel else ():
            count = lines.get(number)
            cells = [_margin_cell(getattr(count, c)) if count else "" for c in columns]
            cells.append(f"{100 * count.active:.0f} %" if count and count.lanes else "")
            rows.append(f"{number:>5} " + " ".join(f"{c:>9}" for c in cells) + f" | {shown.get(number, '')}")
    return "\n".join(row.rstrip() for row in rows)


def _margin_cell(number: int) -> str:
    return f"{number:,}" if number else ""


def comparison_table(one: Outcome, two: Outcome) -> str:
    """A table of both runs; the last column says by what the second multiplies the first."""
    names = {
        "global loads per thread": "global_loads_per_thread", "global stores per thread": "global_stores_per_thread",
        "shared loads per thread": "shared_loads_per_thread", "shared stores per thread": "shared_stores_per_thread",
        "sectors": "sectors", "bytes moved": "bytes_moved", "bytes wanted": "bytes_wanted",
        "bank conflicts": "bank_conflicts", "atomics": "atomics",
    }  # fmt: skip
    if one.counts_operations and two.counts_operations:
        names["operations"] = "operations"
    first, second = (one.name, two.name) if one.name != two.name else (f"{one.name} (1)", f"{two.name} (2)")
    width = max(12, len(first), len(second))
    rows = [f"{'':<26} {first:>{width}} {second:>{width}}   factor"]
    for label, name in names.items():
        a, b = getattr(one, name), getattr(two, name)
        if a or b:
            factor = f"{b / a:.3g}" if a else "new"
            rows.append(f"{label:<26} {a:>{width},.6g} {b:>{width},.6g} {factor:>8}")
    for run, name in ((one, first), (two, second)):
        if not run.ok or run.partial:
            rows.append(f"{name}: " + ("not clean" if not run.ok else "a sample of its blocks"))
    return "\n".join(rows)
