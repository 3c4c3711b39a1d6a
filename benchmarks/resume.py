"""Kills `minidecode generate` at random moments, resumes it, and compares the bytes with those of an uninterrupted run.

    python benchmarks/resume.py
    python benchmarks/resume.py --kills 20 --seed 7

Each run is killed (SIGKILL, which no program can handle) and resumed again and again, until one comes to its end. Takes
about five minutes. Prints how many runs were killed, and keeps none of their files. Exits with 1 if a file differs.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from flags import positive

WORDS = ["Fellow", "citizens", "of", "the", "Senate", "army", "peace", "Congress", "navy", "I", "have", "honor", "to"]
LINES = 60
# What is run: flags, and whether lines have options of their own and some cannot be done.
WORK = {
    "texts": (["--max-new-tokens", "4"], False),
    "beams, scores": (["--json", "--num-beams", "2", "--max-new-tokens", "4"], False),
    "samples, errors recorded": (["--json", "--do-sample", "--seed", "3", "--nbest", "2", "--max-new-tokens", "4",
                                  "--on-error", "record"], True),
    "samples, errors left out": (["--do-sample", "--max-new-tokens", "4", "--on-error", "skip"], True),
}  # fmt: skip


def write_input(path: Path, has_options: bool, draw: random.Random) -> None:
    """Prompts of many lengths, some of them equal."""
    with path.open("w", encoding="utf-8") as file:
        for number in range(LINES):
            record = {"prompt": " ".join(draw.choices(WORDS, k=draw.choice([1, 1, 2, 5, 9])))}
            if has_options and number % 5 == 0:
                record |= draw.choice([{"max_new_tokens": 2}, {"prefix": " the"}, {"seed": 7}, {"max_new_tokens": -1}])
            file.write(json.dumps(record) + "\n")


def start(folder: Path, output: str, flags: list[str], *more: str) -> subprocess.Popen:
    command = [sys.executable, "-m", "minidecode.commands.cli", "generate", "--input", "in.jsonl", "--output", output]
    command += ["--batch-size", "4", "--sort-window", "8", "--quiet", *flags, *more]
    return subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True)


def end(process: subprocess.Popen) -> None:
    _, err = process.communicate()
    if process.returncode:
        raise SystemExit(f"a run failed: {err}")


def measure(folder: Path, flags: list[str], kills: int, draw: random.Random) -> dict[str, int]:
    """Counts of what happened until so many runs were killed: of kills, of what they left, and of files."""
    counts = dict.fromkeys(("kills", "before the first record", "behind the last", "files", "files that differ"), 0)
    end(start(folder, "whole", flags))
    whole, journal, part = (folder / "whole").read_bytes(), folder / "out.part.journal", folder / "out.part"
    while counts["kills"] < kills:
        process, began = start(folder, "out", flags, "--resume"), time.monotonic()
        size = part.stat().st_size if part.exists() else 0
        if draw.random() < 0.8:  # of most of the time a short run does nothing but start
            while process.poll() is None and not (part.exists() and part.stat().st_size > size):
                time.sleep(0.002)
        time.sleep(draw.uniform(0, 0.3 * (time.monotonic() - began)))
        process.kill()
        if process.wait() == 0:
            counts["files"] += 1
            counts["files that differ"] += (folder / "out").read_bytes() != whole or part.exists() or journal.exists()
            (folder / "out").unlink()
            continue
        process.communicate()
        counts["kills"] += 1
        left = part.stat().st_size if part.exists() else 0
        counts["before the first record"] += left == 0
        counts["behind the last"] += left == len(whole)
    end(start(folder, "out", flags, "--resume"))
    counts["files"] += 1
    counts["files that differ"] += (folder / "out").read_bytes() != whole
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=positive, default=200, help="over all kinds of work (default: 200)")
    parser.add_argument("--seed", type=positive, default=1, help="of the moments (default: 1)")
    given = parser.parse_args()
    draw, differ = random.Random(given.seed), 0
    for number, (name, (flags, has_options)) in enumerate(WORK.items()):
        with tempfile.TemporaryDirectory() as folder:
            write_input(Path(folder) / "in.jsonl", has_options, draw)
            kills = given.kills * (number + 1) // len(WORK) - given.kills * number // len(WORK)
            counts = measure(Path(folder), flags, kills, draw)
        print(f"{name}: " + ", ".join(f"{count} {what}" for what, count in counts.items()), flush=True)
        differ += counts["files that differ"]
    sys.exit(differ > 0)


if __name__ == "__main__":
    main()
