"""Our engine of the course project: all twelve stages checked, then raced by turns against each other and minidecode.

    python benchmarks/project.py --out benchmarks/results/project-cpu.json --page docs/PROJECT.md

It does what `minidecode project start`, `check` and `race` do, with the solution as engine.py. Nothing is timed unless
every stage passes. Takes about a minute. Prints the table of the race; writes all figures to --out, its picture
(project-cpu.svg) beside it, and the table into --page.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

from flags import file_to_write
from readme import with_marks, write_between_markers
from records import write_record

from minidecode.bench.compare import describe_machine
from minidecode.commands.child_process import environment_of_child
from minidecode.course.project.check import results_of
from minidecode.course.project.checkpoint import write_checkpoint
from minidecode.course.project.process import race_of
from minidecode.course.project.race import NEW, PROMPT, TURNS, picture_of_race
from minidecode.course.project.rules import lines_of_code
from minidecode.course.project.stages import STAGES

SOLUTION = Path(__file__).resolve().parents[1] / "exercises" / "engine" / "solution.py"


def record() -> dict[str, Any]:
    """The stages as they were judged, and the race. Ends the script where a stage does not pass."""
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = Path(folder) / "checkpoint"
        write_checkpoint(checkpoint, None)
        asked = (SOLUTION, checkpoint, list(STAGES))
        stages = []
        for result in results_of(*asked):
            if result["state"] != "passed":
                raise SystemExit(f"stage {result['stage']} does not pass: {result['message']}")
            stages.append({key: result[key] for key in ("stage", "title", "numbers")})
            print(f"stage {result['stage']} passed", flush=True)
        race = [result for result in race_of(*asked, environment_of_child()) if "turn" not in result]
    lines = lines_of_code(SOLUTION.read_text(encoding="utf-8"))
    asks = {"prompt_tokens": PROMPT, "new_tokens": NEW, "turns": TURNS}
    return {"machine": describe_machine(), "lines_of_code": lines, **asks, "stages": stages, "race": race}


PICTURE = "![Bars: tokens per second of each stage, and of minidecode.](../benchmarks/results/project-cpu.svg)"


def table(recorded: dict[str, Any]) -> str:
    """The race as Markdown: tokens per second, and how many times the first of its work; then its picture."""
    lines = ["| work | stage | tokens per second | over the first |", "|---|---|---|---|"]
    first: dict[str, float] = {}
    for run in recorded["race"]:
        speed = run["tokens_per_second"]
        times = speed / first.setdefault(run["work"], speed)
        lines.append(f"| {run['work']} | {run['name']} | {speed:,.1f} | {times:.2f}x |")
    machine = recorded["machine"]
    lines += ["", f"Medians of {recorded['turns']} turns, a prompt of {recorded['prompt_tokens']} tokens and"
              f" {recorded['new_tokens']} new ones, on {machine['cores']} cores ({machine['processor']}); numpy"
              f" {machine['numpy']}, numba {machine['numba']}.", "", PICTURE]  # fmt: skip
    return "\n".join(lines)


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--out", type=file_to_write, help="JSON file to write, and a picture beside it")
    p.add_argument("--page", type=with_marks("project"), help="file whose table between these marks is replaced")
    a = p.parse_args()
    recorded = record()
    print(table(recorded))
    if a.out:
        write_record(a.out, recorded)
        a.out.with_suffix(".svg").write_text(picture_of_race(recorded["race"]), encoding="utf-8")
    if a.page:
        write_between_markers(a.page, "project", table(recorded))


if __name__ == "__main__":
    main()
