"""Every op: its implementations beside each other, as `minidecode compare NAME` checks and times them.

    python benchmarks/ops.py --out benchmarks/results/ops-cpu.json

Each op has a process of its own. The file is written after each op, and a second call continues where the first ended.
An op that takes more than --most seconds is left out and named. The pages of the ops show the figures. Takes about half
an hour. Prints a line for each op, and writes all figures to --out.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

from flags import file_to_write, positive

from minidecode.catalog import CATALOG
from minidecode.commands.whole_file import whole_file


def compare_op(name: str, repeats: int, most: int) -> dict | None:
    """What the command prints of one op; None where it takes too long."""
    command = [sys.executable, "-m", "minidecode", "compare", name, "--json", "--quiet", "--repeats", str(repeats)]
    try:
        return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, timeout=most).stdout)
    except subprocess.TimeoutExpired:
        return None


def write(path: Path, records: list[dict]) -> None:
    """A line for each op, in the order of the catalog."""
    order = list(CATALOG)
    lines = [json.dumps(record) for record in sorted(records, key=lambda record: order.index(record["name"]))]
    with whole_file(path) as file:
        file.write("[\n" + ",\n".join(lines) + "\n]\n")


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--repeats", type=positive, default=5, help="how often each implementation is timed")
    p.add_argument("--most", type=positive, default=300, help="seconds that one op may take")
    p.add_argument("--out", type=file_to_write, required=True)
    a = p.parse_args()
    records = json.loads(a.out.read_text(encoding="utf-8")) if a.out.exists() else []
    there = {record["name"] for record in records}
    for name in (name for name in CATALOG if name not in there):
        record = compare_op(name, a.repeats, a.most)
        if record is None:
            print(f"{name}: left out, it takes more than {a.most} seconds")
            continue
        records.append(record)
        write(a.out, records)
        fastest = min(record["timings"], key=lambda timed: timed["median"])
        print(f"{name}: {fastest['implementation']} is the fastest, {1e6 * fastest['median']:,.2f} us", flush=True)


if __name__ == "__main__":
    main()
