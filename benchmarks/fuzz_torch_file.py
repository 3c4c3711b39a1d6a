"""Damages torch files at random and reads them: each must be refused with a CheckpointError, or read right.

    python benchmarks/fuzz_torch_file.py                     # 100,000 files, a few minutes
    python benchmarks/fuzz_torch_file.py --kind fairseq      # checkpoints of fairseq
    python benchmarks/fuzz_torch_file.py --count 5000 --seed 7 --minutes 1 --json

The damage and the checks are those of tests/faults/test_torch_fuzz.py and test_fairseq_fuzz.py: flipped bits, pieces
cut, moved and replaced, other opcodes and numbers in right containers; no other exception, no file left, no module
imported, a peak of memory within 100 times the file; what is read is compared with Python's own unpickler. File number
n of a seed is always the same: `--only n` makes it again. Takes a few minutes. Prints what became of the files, and
keeps none of them. Exits with 1 if a file broke a rule, or if the time was up before the count was reached.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

from flags import positive, positive_number
from rich.console import Console
from rich.progress import track

TESTS = Path(__file__).resolve().parents[1] / "tests"
sys.path += [str(TESTS), str(TESTS / "faults")]

import test_fairseq_fuzz  # noqa: E402
import test_torch_fuzz  # noqa: E402

KINDS = {"torch": test_torch_fuzz, "fairseq": test_fairseq_fuzz}


def run(kind: str, path: Path, seed: int, numbers: range, seconds: float) -> tuple[Counter, list[dict]]:
    """({(kind of damage, outcome): how many}, the files that broke a rule), within the time."""
    counts, broken, stop = Counter(), [], time.monotonic() + seconds
    for n in track(numbers, "damaged files", console=Console(stderr=True), disable=not sys.stderr.isatty()):
        if time.monotonic() > stop:
            break
        damage, contents, damaged_pickle = KINDS[kind].damaged_file(random.Random(f"{seed}/{n}"))
        try:
            counts[damage, KINDS[kind].outcome(path, contents, damaged_pickle)] += 1
        except Exception:  # whatever it is, it is what this program looks for
            counts[damage, "BROKEN"] += 1
            broken.append({"number": n, "kind": damage, "traceback": traceback.format_exc()})
    return counts, broken


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", choices=list(KINDS), default="torch", help="whose files")
    parser.add_argument("--count", type=positive, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--minutes", type=positive_number, default=30.0, help="stop after so long, and say how far it came"
    )
    parser.add_argument("--only", type=int, help="the number of one file")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    numbers = range(arguments.count) if arguments.only is None else range(arguments.only, arguments.only + 1)
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "pytorch_model.bin"
        counts, broken = run(arguments.kind, path, arguments.seed, numbers, 60 * arguments.minutes)
    total = {what: sum(n for (_, o), n in counts.items() if o == what) for what in ("refused", "read", "BROKEN")}
    result = {
        "files": sum(total.values()), "asked": len(numbers), "seed": arguments.seed,
        "seconds": round(time.monotonic() - begin, 1), **total,
        "by_kind": {f"{kind} {what}": n for (kind, what), n in sorted(counts.items())}, "broken": broken,
    }  # fmt: skip
    if arguments.json:
        print(json.dumps(result))
    else:
        for name, value in [*result.items(), *result["by_kind"].items()]:
            if not isinstance(value, dict | list):
                print(f"{name:<26} {value}")
        for each in broken[:5]:
            print(f"\n--seed {arguments.seed} --only {each['number']} ({each['kind']}):\n{each['traceback']}")
    return 1 if broken or result["files"] < result["asked"] else 0


if __name__ == "__main__":
    sys.exit(main())
