"""LightSeq, section 2.3: bytes of a decode step's intermediates, each in a buffer of its own, and in one arena.

    python benchmarks/arena_bytes.py --out benchmarks/results/arena-bytes.json --readme benchmarks/README.md

At the paper's setting: 8 sentences, length 256, beam 4, a vocabulary of 30,000. Nothing is timed, and no weights are
needed: a dry run of one step says what is written when and read last when. One arena serves models that take turns
(the paper puts eight on a card): it is as large as the largest of their plans.

Takes some seconds. Prints the table; writes it into --readme between the marks arena-bytes, and its numbers to --out.
"""

from __future__ import annotations

import argparse

from flags import file_to_write
from readme import with_marks, write_between_markers
from records import write_record

import minidecode as md
from minidecode.loading import load_shapes

SETTINGS = [("gpt2", 128, 128), ("bart-large", 256, 256)]  # model, input tokens, new tokens
BATCH, BEAMS, VOCABULARY = 8, 4, 30_000


def measure() -> dict:
    rows, plans = [], []
    for name, length, new in SETTINGS:
        model = load_shapes(name, plan="cache=split", vocab_size=VOCABULARY)
        plans.append(model.plan_step(batch_size=BATCH, input_length=length, num_beams=BEAMS, max_new_tokens=new))
        summary = plans[-1].as_dict()
        sizes = {key: summary[key] for key in ("separate_bytes", "arena_bytes", "lower_bound")}
        rows.append({"model": name, "input_length": length, "new_tokens": new} | sizes)
    return {
        "machine": "any machine: nothing is timed",
        "batch": BATCH, "beams": BEAMS, "vocabulary": VOCABULARY, "plan": "cache=split", "arena_rows": rows,
        "all_in_turn_bytes": md.Arena(*plans).bytes,
    }  # fmt: skip


def table(record: dict) -> str:
    lines = [
        "| model | separate buffers | arena | lower bound (the most that is alive at one call) |",
        "|---|---|---|---|",
    ]
    for r in record["arena_rows"]:
        sizes = " | ".join(f"{r[key] / 1e6:.1f} MB" for key in ("separate_bytes", "arena_bytes", "lower_bound"))
        lines.append(f"| {r['model']} ({r['input_length']} + {r['new_tokens']} tokens) | {sizes} |")
    separate = sum(r["separate_bytes"] for r in record["arena_rows"]) / 1e6
    return "\n".join([*lines, f"| both, in turn | {separate:.1f} MB | {record['all_in_turn_bytes'] / 1e6:.1f} MB | |"])


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--out", type=file_to_write, help="JSON file to write")
    p.add_argument(
        "--readme", type=with_marks("arena-bytes"), help="file whose table between the marks arena-bytes is replaced"
    )
    a = p.parse_args()
    record = measure()
    print(table(record))
    if a.out:
        write_record(a.out, record)
    if a.readme:
        write_between_markers(a.readme, "arena-bytes", table(record))


if __name__ == "__main__":
    main()
