"""Pictures of the results: one or two SVG files for each JSON file that the other scripts here wrote.

    pip install '.[plots]'
    python benchmarks/plots.py benchmarks/results/el-attention-cpu.json benchmarks/results/hars-cpu.json

Each picture lies beside its JSON file, under its name, and says what a script's table says, to the eye. Which script
wrote a file is read off its contents.

Takes some seconds, and measures nothing. Prints the names of the pictures that it writes.
"""

from __future__ import annotations

import argparse
import json
from itertools import groupby

import matplotlib
from flags import file_to_read
from matplotlib.figure import Figure

from minidecode.bench.pictures import figure_as_svg

matplotlib.rcParams |= {"font.size": 9, "axes.grid": True, "grid.alpha": 0.3}
COLOURS = ("#cf222e", "#bf8700", "#1a7f37", "#1f6feb", "#8250df", "#6e7781", "#0a7d91", "#24292f")


def el_figure_4(record: dict) -> Figure:
    """Time per sentence over input lengths (above) and beams (below): measured here, and predicted for machines."""
    columns = ["measured here", *record["machines"]]
    figure = Figure((3.2 * len(columns), 7), layout="constrained")
    panels = figure.subplots(2, len(columns), sharex="row")
    rows = record["figure_4"]
    longest = max(r["N"] for r in rows)
    sweeps = [("N", "input length N, beam 4", [r for r in rows if r["W"] == 4]),
              ("W", f"beams, N = {longest}", [r for r in rows if r["N"] == longest])]  # fmt: skip
    for (key, label, sweep), line in zip(sweeps, panels, strict=True):
        sweep = sorted(sweep, key=lambda r: r[key])
        x = [r[key] for r in sweep]
        for column, panel in zip(columns, line, strict=True):
            for colour, method in zip(COLOURS, sweep[0]["ms_per_sentence"], strict=False):
                if column == "measured here":
                    median, fastest, slowest = zip(*(r["ms_per_sentence"][method] for r in sweep), strict=True)
                    panel.fill_between(x, fastest, slowest, color=colour, alpha=0.15, linewidth=0)
                else:
                    median = [r["predicted_us_per_sentence"][column][method] / 1000 for r in sweep]
                panel.plot(x, median, marker="o", markersize=3, color=colour, label=method)
            panel.set(xscale="log", yscale="log", xlabel=label, xticks=x, xticklabels=x, ylabel="ms per sentence")
            panel.minorticks_off()
            panel.set_title(column if column == "measured here" else f"predicted: {column}")
    panels[0][0].legend()
    figure.supxlabel("\n".join(record["why"].values()), fontsize=7)
    return figure


def el_figure_3(record: dict) -> Figure:
    """Groups of operations on each machine's roofline: what they reach at the most, over operations per byte."""
    figure = Figure((4 * len(record["machines"]), 4.2), layout="constrained")
    for panel, (name, machine) in zip(
        figure.subplots(1, len(record["machines"])), record["machines"].items(), strict=True
    ):
        groups = record["figure_3"][name]
        intensities = [r["operations_per_byte"] for r in groups] + [machine["balance"]]
        ends = [min(intensities) / 2, machine["balance"], max(intensities) * 2]
        panel.plot(ends, [1e-9 * min(x * machine["bandwidth"], machine["operations"]) for x in ends], color="#24292f")
        methods = list(dict.fromkeys(r["method"] for r in groups))
        for r in groups:
            reached = 1e-9 * r["operations"] / r["seconds"]
            marker = "s" if r["group"] == "attend" else "^" if "keys" in r["group"] else "o"
            label = r["method"] if r["group"] == "attend" else None
            panel.scatter(r["operations_per_byte"], reached, marker=marker, color=COLOURS[methods.index(r["method"])],
                          label=label, zorder=3)  # fmt: skip
        panel.set(xscale="log", yscale="log", xlabel="operations per byte", ylabel="GFLOP/s at the most", title=name)
        panel.legend(title="squares: attend", fontsize=7)
    figure.supxlabel("triangle: keys and values built again; circles: queries and results", fontsize=8)
    return figure


def multi_query_speed(record: dict) -> Figure:
    """Microseconds per new token and sentence of the decoder, by setting; bars reach from fastest to slowest run."""
    figure = Figure((11, 7), layout="constrained")
    kinds = {"caches of fixed shape": ("preallocated", "rolling"), "growing caches": ("replicated",)}
    for panel, (title, memories) in zip(figure.subplots(2, 1, sharex=True), kinds.items(), strict=True):
        rows = [r for r in record["rows"] if r["cache"] in memories]
        variants = list(dict.fromkeys(r["variant"] for r in rows))
        settings = [key for key, _ in groupby(rows, lambda r: (r["batch"], r["length"], r["beams"]))]
        for i, variant in enumerate(variants):
            mine = [r for r in rows if r["variant"] == variant]
            x = [n + 0.2 * (i - 1.5) for n in range(len(mine))]
            y, low, high = ([r[f"decoder_us{end}"] for r in mine] for end in ("", "_fastest", "_slowest"))
            panel.bar(x, y, 0.18, color=COLOURS[i], label=variant)
            panel.vlines(x, low, high, color="#24292f", linewidth=1)
        panel.set(yscale="log", ylabel="us per token", title=title, xticks=range(len(settings)))
        panel.set_xticklabels([f"batch {b}\nlength {n}\nbeam {w}" for b, n, w in settings])
        panel.legend()
    return figure


def hars(record: dict) -> Figure:
    """What HARS retrieves, what the paper's two weak points lose, and what its ways take on this machine."""
    figure = Figure((15, 4.5), layout="constrained")
    retrieved, lost, time = figure.subplots(1, 3)
    x = [r["candidates"] for r in record["survivors"]]
    for key, label, marker in (("law", "law: C (1 + 1/2 + ... + 1/C)", ""), ("survivors", "C groups", "o"),
                               ("survivors_of_many_groups", "1,024 groups", "s")):  # fmt: skip
        retrieved.plot(x, [r[key] for r in record["survivors"]], marker=marker, label=label)
    retrieved.set(xscale="log", yscale="log", xlabel="candidates C that are asked for", ylabel="scores that survive",
                  title="rough retrieval", xticks=x, xticklabels=x)  # fmt: skip
    beams = [r["beams"] for r in record["weak_points"]]
    for key, label in (("strict_loses", "> for >=: one of the K best is lost"),
                       ("too_few_groups_lose", "K groups: fewer than 2K survive")):  # fmt: skip
        lost.plot(beams, [100 * r[key] for r in record["weak_points"]], marker="o", label=label)
    lost.set(xscale="log", xlabel="beams K", ylabel="% of rows", title="the two weak points, in a flat row",
             xticks=beams, xticklabels=beams)  # fmt: skip
    rows = [r for r in record["hars_ms"] if r["vocabulary"] == max(v["vocabulary"] for v in record["hars_ms"])]
    for colour, name in zip(COLOURS, rows[0]["milliseconds"], strict=False):
        median, fastest, slowest = zip(*(r["milliseconds"][name] for r in rows), strict=True)
        beams = [r["beams"] for r in rows]
        time.fill_between(beams, fastest, slowest, color=colour, alpha=0.15, linewidth=0)
        time.plot(beams, median, marker="o", color=colour, label=name)
    time.set(xscale="log", yscale="log", xlabel="beams", ylabel="ms", xticks=beams, xticklabels=beams,
             title=f"candidates from logits, vocabulary {rows[0]['vocabulary']:,}")  # fmt: skip
    for panel in (retrieved, lost, time):
        panel.minorticks_off()
        panel.legend()
    return figure


def lightseq(record: dict) -> Figure:
    """Shares of time by plan (Figure 4), and speedups over the naive plan by setting (Figures 5 and 6)."""
    figure = Figure((17, 4.6), layout="constrained")
    where, *faster = figure.subplots(1, 3, width_ratios=(1, 1, 2.4))
    percents = record["figure_4"]
    left = dict.fromkeys(percents, 0.0)
    for colour, part in zip(COLOURS, next(iter(percents.values())), strict=False):
        width = [percents[plan][part] for plan in percents]
        where.barh(list(percents), width, left=list(left.values()), color=colour, label=part)
        left = {plan: left[plan] + w for plan, w in zip(percents, width, strict=True)}
    where.set(xlabel="% of the time", title="Figure 4: where it goes")
    where.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2, fontsize=7)
    for panel, key, title in zip(faster, ("figure_5", "figure_6"), ("beam search", "sampling"), strict=True):
        rows = record[key]
        for i, plan in enumerate(("default", "compiled")):
            median, low, high = zip(*(r["speedup"][plan] for r in rows), strict=True)
            x = [n + 0.4 * i - 0.2 for n in range(len(rows))]
            panel.bar(x, median, 0.36, color=COLOURS[2 + i], label=plan)
            panel.vlines(x, low, high, color="#24292f", linewidth=1)
        panel.axhline(1, color="#cf222e", linewidth=1)
        works = [(r["options"].get("top_k"), r["options"].get("top_p"), r["batch"], r["length"]) for r in rows]
        names = [("" if k is None else f"k {k}\n" if k else f"p {p}\n") + f"({b}, {n})" for k, p, b, n in works]
        panel.set(ylabel="times as fast as naive", title=f"Figure {key[-1]}: {title}", xticks=range(len(rows)))
        panel.set_xticklabels(names, fontsize=7)
        panel.legend()
    return figure


def memory_bytes(record: dict) -> Figure:
    """GiB of the states of the input by formula, beside what the papers print."""
    figure = Figure((13, 4.4), layout="constrained")
    el, fastseq = figure.subplots(1, 2, width_ratios=(2, 1))
    rows, colours = record["el_table_4"], iter(COLOURS)
    for i, (plan, source) in enumerate((p, s) for p in rows[0]["gib"] for s in ("gib", "paper")):
        heights = [r[source][plan] for r in rows]
        label = f"{plan}, {'here' if source == 'gib' else 'paper'}"
        el.bar([n + 0.2 * i - 0.3 for n in range(len(rows))], heights, 0.18, color=next(colours), label=label)
    el.set(yscale="log", ylabel="GiB", title="EL, Table 4", xticks=range(len(rows)))
    el.set_xticklabels([f"batch {r['batch']}\nlength {r['length']:,}" for r in rows])
    rows = record["fastseq_table_2"]
    for i, source in enumerate(("gib", "paper")):
        fastseq.bar([n + 0.4 * i - 0.2 for n in range(len(rows))], [r[source] for r in rows], 0.36, color=COLOURS[i],
                    label="here" if source == "gib" else "paper")  # fmt: skip
    fastseq.set(ylabel="GiB", title="FastSeq, Table 2", xticks=range(len(rows)))
    fastseq.set_xticklabels([f"{r['plan']}\nbatch {r['batch']}" for r in rows], fontsize=7)
    for panel in (el, fastseq):
        panel.legend()
    return figure


def multi_query_quality(record: dict) -> Figure:
    """Losses by variant: the mean over the seeds, and the line from the least to the largest."""
    families = [f for f in ("gpt2", "bart") if f in record]
    figure = Figure((6.5 * len(families), 4.2), layout="constrained")
    for panel, family in zip(figure.subplots(1, len(families), squeeze=False)[0], families, strict=True):
        rows = record[family]["rows"]
        names, losses = [r["variant"] for r in rows], [r["ln_ppl"] for r in rows]
        panel.hlines(names, [x["min"] for x in losses], [x["max"] for x in losses], color="#1f6feb", linewidth=3)
        panel.plot([x["mean"] for x in losses], names, "o", color="#24292f")
        panel.invert_yaxis()
        panel.set(xlabel="ln(PPL), lower is better", title=f"{family}, {record[family]['budget']['steps']:,} steps")
    return figure


def arena_bytes(record: dict) -> Figure:
    """MB of a step's intermediates: a buffer each, one arena, and what no arena goes below."""
    figure = Figure((6.5, 2.6), layout="constrained")
    panel, rows = figure.subplots(), record["arena_rows"]
    kinds = {"separate_bytes": "separate buffers", "arena_bytes": "arena", "lower_bound": "lower bound"}
    for i, (key, label) in enumerate(kinds.items()):
        places = [n + 0.27 * (i - 1) for n in range(len(rows))]
        bars = panel.barh(places, [r[key] / 1e6 for r in rows], 0.25, color=COLOURS[i], label=label)
        panel.bar_label(bars, fmt="%.1f", padding=3, fontsize=7)
    panel.margins(x=0.12)
    panel.set(xlabel="MB", yticks=range(len(rows)), yticklabels=[r["model"] for r in rows])
    panel.set_title(f"a decode step, {record['batch']} sentences, beam {record['beams']}, vocabulary "
                    f"{record['vocabulary']:,}", fontsize=9)  # fmt: skip
    panel.invert_yaxis()
    panel.legend()
    return figure


# The key that only one script writes -> its pictures, by what is added to the name of the file.
PICTURES = {
    "figure_3": {"": el_figure_4, "-roofline": el_figure_3},
    "figure_6": {"": lightseq},
    "el_table_4": {"": memory_bytes},
    "arena_rows": {"": arena_bytes},
    "weak_points": {"": hars},
    "paper_us": {"": multi_query_speed},
    "gpt2": {"": multi_query_quality},
    "bart": {"": multi_query_quality},
}


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("results", type=file_to_read, nargs="+", help="JSON files")
    a = p.parse_args()
    for path in a.results:
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise SystemExit(f"{path} cannot be read: {error}") from None
        key = next((key for key in PICTURES if isinstance(record, dict) and key in record), None)
        if key is None:
            if len(a.results) == 1:
                raise SystemExit(f"{path} holds none of the results that are drawn here")
            print(f"{path} holds none of the results that are drawn here: left out")
            continue
        for suffix, draw in PICTURES[key].items():
            picture = path.with_name(f"{path.stem}{suffix}.svg")
            picture.write_text(figure_as_svg(draw(record)), encoding="utf-8")
            print(picture)


if __name__ == "__main__":
    main()
