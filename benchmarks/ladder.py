"""The README's table of the ladder (FastSeq, Table 2), from what `minidecode ladder --json` wrote.

    minidecode ladder --json --machine v100 --memory-budget 1GB > benchmarks/results/ladder-cpu.json
    python benchmarks/ladder.py benchmarks/results/ladder-cpu.json --readme README.md

The first takes about a minute and measures; this takes a second and measures nothing. Prints the table; writes it into
--readme between the marks ladder.
"""

from __future__ import annotations

import argparse

from flags import to_read
from readme import with_marks, write_between_markers

import minidecode as md
from minidecode.bench.ladder import Ladder, read_ladder
from minidecode.runtime.footprint import in_units


def markdown(found: Ladder) -> str:
    """A line a rung, the reasons of losers below, and where it ran."""
    lines = ["| rung | texts/s | speedup over the rung it builds on | over no cache | keys and values | peak |",
             "|---|---|---|---|---|---|"]  # fmt: skip
    for s in found.measured:
        step = f"{s.speedup:.2f}x{'' if s.carried else ', not carried on'}" if s.builds_on else ""
        _, least, most = s.seconds
        lines.append(
            f"| {s.name} | {s.samples_per_second:,.1f} ({least:.2f}-{most:.2f} s) | {step} | {s.speedup_total:.1f}x |"
            f" {in_units(s.memory_bytes)} | {in_units(s.peak_bytes)} |"
        )
    work = found.work
    lines.append(
        f"\n{work['texts']} texts of about {work['input_length']} tokens, {work['max_new_tokens']} new, beam "
        f"{work['num_beams']}, n-gram {work['no_repeat_ngram_size']}; machine: {found.where['cores']} cores "
        f"({found.where['processor']}), load {found.where['load']} (ours included), "
        f"BLAS threads: {found.where['blas_threads']}, NumPy {found.where['numpy']}."
    )
    return "\n".join(lines)


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("file", type=to_read, help="what minidecode ladder --json wrote")
    p.add_argument("--readme", type=with_marks("ladder"), help="README whose table is replaced")
    a = p.parse_args()
    try:
        text = markdown(read_ladder(a.file))
    except md.InputError as error:
        raise SystemExit(f"{error}") from None
    print(text)
    if a.readme:
        write_between_markers(a.readme, "ladder", text)


if __name__ == "__main__":
    main()
