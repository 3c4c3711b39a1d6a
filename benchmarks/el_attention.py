"""EL's Figures 3 and 4: what attention over an input costs in one decode step, measured here and predicted elsewhere.

    python benchmarks/el_attention.py --machine v100 --out benchmarks/results/el-attention-cpu.json

Figure 3 is a table of the three groups of operations on a roofline. Figure 4 is time per sentence over input lengths
and beam widths, for four ways: keys and values built again at each step, kept per beam, kept per sentence, and EL.
All four must agree before anything is timed; they are timed by turns, and figures are medians of the runs with the
smallest and largest beside them. Predictions are the roofline's: it knows no latency, and counts every product as a
kernel of its own. For GPUs they are in float16 on tensor cores (--float32: without), at the paper's batches, which are
larger than ours; for this machine they are of what is measured. All are written to --out; --machine says which
to print.

Takes about a minute. Prints the tables; writes all figures to --out.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace

import numpy as np
from flags import check_heads, file_to_write, positive
from records import write_record

from minidecode.bench.compare import describe_machine, time_by_turns
from minidecode.bench.el_costs import METHODS, Sizes, costs_of_groups
from minidecode.bench.machines import MACHINES, Machine, this_machine
from minidecode.ops import Weight
from minidecode.reference.common.hidden_states import keys_and_values
from minidecode.reference.el import attend_el, attend_el_naive
from minidecode.reference.grouped import attend
from minidecode.reference.linear import linear
from minidecode.reference.shared import attend_shared

HERE = "this machine"
PAPERS_POSITIONS = 32 * 4 * 1024  # of all beams of a batch


def ways(s: Sizes) -> dict:
    """Method -> (function, ()) that runs the attention of one decode step, from the query product to the result's."""
    rng = np.random.default_rng(0)
    K = s.D // s.H

    def normal(*shape, size=1.0):
        return size * rng.standard_normal(shape, np.float32)

    x_RD, h_BND = normal(s.R, s.D), normal(s.B, s.N, s.D)
    w_q, w_o = (Weight(normal(s.D, s.D, size=s.D**-0.5)) for _ in range(2))
    weights = [normal(s.H, K, s.D, size=s.D**-0.5), normal(s.H, K), normal(s.H, K, s.D, size=s.D**-0.5), normal(s.H, K)]
    k_BGNK, v_BGNU = keys_and_values(h_BND, *weights)
    k_RGNK, v_RGNU, h_RND = (np.repeat(a, s.W, axis=0) for a in (k_BGNK, v_BGNU, h_BND))
    begin_B, begin_R, end_R = np.zeros(s.B, int), np.zeros(s.R, int), np.full(s.R, s.N)

    def step(attention):
        def run():
            q_RHK = linear(x_RD, w_q).reshape(s.R, s.H, K)
            return linear(attention(q_RHK), w_o)

        return run, ()

    return {
        "no cache": step(lambda q_RHK: attend_el_naive(q_RHK, h_RND, begin_R, *weights, K**-0.5)),
        "cache per beam": step(lambda q_RHK: attend(q_RHK, k_RGNK, v_RGNU, begin_R, end_R, K**-0.5)),
        "cache per sentence": step(lambda q_RHK: attend_shared(q_RHK, k_BGNK, v_BGNU, begin_B, K**-0.5)),
        "el": step(lambda q_RHK: attend_el(q_RHK, h_BND, begin_B, *weights, K**-0.5)),
    }


def time_setting(s: Sizes, runs: int, machines: dict[str, Machine]) -> dict:
    """One row: milliseconds per sentence, measured (median, fastest, slowest), and microseconds predicted."""
    calls = ways(s)
    results = {method: function() for method, (function, _) in calls.items()}
    for method, result in results.items():
        if not np.allclose(result, results["no cache"], atol=1e-3):
            raise SystemExit(f"{method} disagrees at {s}: nothing is timed")
    measured = {t.implementation: [round(1e3 * x / s.B, 4) for x in (t.median, t.fastest, t.slowest)]
                for t in time_by_turns(calls, runs)}  # fmt: skip
    predicted = {}
    for name, machine in machines.items():
        at = s if name == HERE else replace(s, B=batch_of(s.N, s.W, PAPERS_POSITIONS), itemsize=itemsize_on(machine))
        predicted[name] = {method: round(1e6 * seconds(at, method, machine) / at.B, 3) for method in METHODS}
    return {"N": s.N, "W": s.W, "B": s.B, "ms_per_sentence": measured, "predicted_us_per_sentence": predicted}


def seconds(s: Sizes, method: str, machine: Machine) -> float:
    """All groups of operations of a method, one after the other."""
    return sum(map(machine.seconds, costs_of_groups(s, method).values()))


def batch_of(N: int, W: int, positions: int) -> int:
    """Section 4.1.2: the batch shrinks as inputs and beams grow."""
    return max(1, positions // (N * W))


def itemsize_on(machine: Machine) -> int:
    return 2 if machine.operations == machine.tensor_operations else 4


def figure_3(s: Sizes, machine: Machine) -> list[dict]:
    """Every group of every method that has any: its bytes, its operations, and which of them bounds it."""
    rows = []
    for method in METHODS:
        for group, cost in costs_of_groups(replace(s, itemsize=itemsize_on(machine)), method).items():
            if cost.bytes:
                intensity = cost.operations / cost.bytes
                rows.append({
                    "method": method, "group": group, "bytes": cost.bytes, "operations": cost.operations,
                    "operations_per_byte": round(intensity, 2), "seconds": machine.seconds(cost),
                    "bound_by": "memory" if intensity < machine.balance else "arithmetic",
                })  # fmt: skip
    return rows


def why(s: Sizes, machine: Machine, measured: dict | None = None) -> str:
    """Where EL stands on a machine beside either cache, in two sentences."""
    s = replace(s, itemsize=itemsize_on(machine))
    attend = costs_of_groups(s, "el")["attend"]
    intensity = attend.operations / attend.bytes
    bound = "memory" if intensity < machine.balance else "arithmetic"
    verdicts = []
    for cache in ("cache per beam", "cache per sentence"):
        verdict = f"{seconds(s, 'el', machine) / seconds(s, cache, machine):.2f}"
        verdict += f" (measured: {measured['el'][0] / measured[cache][0]:.2f})" if measured else ""
        verdicts.append(f"{verdict} times as long as a {cache}")
    return (
        f"EL computes {intensity:.0f} operations for each byte that it moves (N = {s.N}, beam {s.W}), {machine.name}"
        f" {machine.balance:.0f} in the time of a byte: there EL waits for {bound}. It should take"
        f" {' and '.join(verdicts)}: a shared cache is read no oftener than the hidden states, and EL computes {s.H}"
        " times as much on what it reads."
    )


def markdown(figure3: list[dict], rows: list[dict], sentences: list[str], machine: str, elsewhere: str) -> str:
    lines = [
        f"On {elsewhere}, by the roofline:",
        "",
        "| method | group | GB | GFLOP | operations per byte | bound by | us |",
        "|---|---|---|---|---|---|---|",
    ]
    for r in figure3:
        cost = f"{r['bytes'] / 1e9:.3f} | {r['operations'] / 1e9:.1f} | {r['operations_per_byte']:.1f}"
        lines.append(f"| {r['method']} | {r['group']} | {cost} | {r['bound_by']} | {1e6 * r['seconds']:.1f} |")
    lines += [
        "",
        f"Time per sentence: ms here, in float32 (fastest to slowest) / us predicted for {elsewhere}:",
        "",
        f"| N | beam | {' | '.join(METHODS)} |",
        "|---" * (2 + len(METHODS)) + "|",
    ]
    for r in rows:
        cells = []
        for method in METHODS:
            median, fastest, slowest = r["ms_per_sentence"][method]
            cells.append(
                f"{median:.2f} ({fastest:.2f}-{slowest:.2f}) / {r['predicted_us_per_sentence'][machine][method]:.2f}"
            )
        lines.append(f"| {r['N']} | {r['W']} | {' | '.join(cells)} |")
    return "\n".join([*lines, "", *sentences])


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--positions", type=positive, nargs="+", default=[64, 128, 256, 512, 1024], help="N, at beam 4")
    p.add_argument("--beams", type=positive, nargs="+", default=[1, 2, 4, 8], help="W, at the largest N")
    p.add_argument("--heads", type=positive, default=16)
    p.add_argument("--width", type=positive, default=1024)
    p.add_argument("--runs", type=positive, default=9, help="turns that are timed")
    p.add_argument("--machine", choices=[*MACHINES], default="v100", help="what is predicted for")
    p.add_argument("--float32", action="store_true", help="predict float32 without tensor cores")
    p.add_argument("--note", default="", help="what else ran on the machine meanwhile")
    p.add_argument("--out", type=file_to_write, help="JSON file to write")
    a = p.parse_args()
    check_heads(p, a)
    here = replace(this_machine(), name=HERE)
    machines = {HERE: here, **{name: m if a.float32 else m.on_tensor_cores() for name, m in MACHINES.items()}}
    longest = max(a.positions)
    settings = dict.fromkeys([(N, 4) for N in a.positions] + [(longest, W) for W in a.beams])
    rows = []
    for N, W in settings:
        s = Sizes(B=batch_of(N, W, 4 * longest), W=W, N=N, H=a.heads, D=a.width, itemsize=4)
        rows.append(time_setting(s, a.runs, machines))
        print(json.dumps(rows[-1]), flush=True)
    timed = next(r for r in rows if (r["N"], r["W"]) == (longest, 4))
    ours, paper = (Sizes(B=B, W=4, N=longest, H=a.heads, D=a.width) for B in (timed["B"], 32))
    figure3 = {name: figure_3(ours if name == HERE else paper, m) for name, m in machines.items()}
    sentences = {name: why(paper, m) for name, m in machines.items()} | {
        HERE: why(ours, here, timed["ms_per_sentence"])
    }
    elsewhere = f"{a.machine}{', float32' if a.float32 else ', float16 on tensor cores'}"
    print(markdown(figure3[a.machine], rows, [sentences[HERE], sentences[a.machine]], a.machine, elsewhere))
    if a.out:
        machine = describe_machine() | {"note": a.note}
        rooflines = {name: vars(m) | {"balance": m.balance} for name, m in machines.items()}
        record = {"machine": machine, "machines": rooflines,
                 "figure_3": figure3, "figure_4": rows, "why": sentences}  # fmt: skip
        write_record(a.out, record)


if __name__ == "__main__":
    main()
