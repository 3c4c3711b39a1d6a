"""FastSeq's Table 3: the no-repeat-n-gram ban, by FairSeq's loop, by the loop after one transfer, and by kernels.

    python benchmarks/ngram.py --out benchmarks/results/ngram-DEVICE.json --readme docs/tables.md

At the setting of the paper's Table 2 (32 sentences, 4 beams, n = 3) and with the vocabulary of BART-large, the ban of
every step of a batch: texts grow from one token to the 140 that CNN/DailyMail's summaries may have. (Table 3 itself
gives no sizes.) Their tokens are random, a few of them frequent, as words are, so that some n-grams come back. All
implementations must ban the same at each of these steps before anything is timed; they are timed by turns, and figures
are medians of the runs with the smallest and largest beside them.

On a GPU (with CuPy) scores and tokens lie on it: the loop fetches tokens for each row, or all at once, and writes its
bans there, and the kernels run there. Without one,
nothing need be fetched, so the paper's first two rows are one loop, and no kernel is timed, for an emulator's time says
nothing.

Takes half a minute without a GPU. Prints the table; writes it into --readme between the marks ngram, or, from a GPU,
ngram-gpu, and all figures to --out.
"""

from __future__ import annotations

import argparse
import copy

import numpy as np
from flags import file_to_write, positive
from readme import with_marks, write_between_markers
from records import write_record

from minidecode.bench.compare import ON_HOST, copy_calls_to_device, describe_machine, implementations, time_by_turns
from minidecode.catalog import CATALOG
from minidecode.conformance.rows.ngram import oracle
from minidecode.device.arrays import device_kind

N = 3
WORDS = 2_000  # different tokens of the texts
PAPER_MS = {"baseline": 4477.1, "CPU kernel": 584.9, "GPU kernel": 7.8}
TARGETS = {"baseline": 100, "CPU kernel": 75}  # how much faster than these a kernel should be
ROW_BY_ROW = "reference naive, a transfer a row"
LOOP = "reference naive"
WAYS = {  # label -> (row of the paper's table, what it does)
    ROW_BY_ROW: ("baseline", "FairSeq's loop, which fetches the tokens of each row"),
    LOOP: ("CPU kernel", "the same loop, tokens in one transfer (on a CPU: in none)"),
    "reference": ("", "all windows of a row at once, in NumPy"),
    "cpu": ("", "compiled loops"),
    "cuda v1": ("", "a kernel with a thread for each row"),
    "cuda v2": ("GPU kernel", "a kernel with a block for each row and a thread for each n-gram"),
    "cuda": ("", "the same, tokens in shared memory tile by tile"),
}


def texts(rows: int, longest: int) -> np.ndarray:
    """tokens_RM of texts in which few tokens are frequent, as words are."""
    return np.random.default_rng(0).zipf(1.3, (rows, longest)) % WORDS


def bans_at_every_step(ban):
    """All bans of a generation: one for each of the lengths."""

    def run(scores_RV, tokens_RM, lengths):
        for length_R in lengths:
            ban(scores_RV, tokens_RM, length_R, N)
        return scores_RV

    return run


def calls_on_host(scores_RV, tokens_RM, lengths) -> dict:
    """Label -> (function, arguments) of what runs without a GPU."""
    functions = {k: f for k, f in implementations(CATALOG["ngram"]).items() if not k.startswith("cuda")}
    return {label: (bans_at_every_step(ban), (scores_RV, tokens_RM, lengths)) for label, ban in functions.items()}


def calls_on_gpu(cupy, scores_RV, tokens_RM, lengths) -> dict:
    """Label -> (function, arguments): kernels and FairSeq's loop on the device's arrays, the others on the host's.

    Where a text ends the host knows, so the loop is handed that; it fetches tokens row by row, or all at once before.
    """
    functions = implementations(CATALOG["ngram"])
    on_device = [cupy.asarray(length_R) for length_R in lengths]
    calls = {}
    for label, (ban, given) in copy_calls_to_device(functions, (scores_RV, tokens_RM, lengths[0], N), cupy).items():
        summary = lengths if given[1] is tokens_RM else on_device
        calls[label.removesuffix(ON_HOST)] = bans_at_every_step(ban), (*given[:2], summary)
    loop, scores, tokens = functions[LOOP], cupy.asarray(scores_RV), cupy.asarray(tokens_RM)

    def after_one_transfer(scores_RV, tokens_RM, length_R, n):
        return loop(scores_RV, cupy.asnumpy(tokens_RM), length_R, n)

    calls[LOOP] = bans_at_every_step(after_one_transfer), (scores, tokens, lengths)
    return {ROW_BY_ROW: (bans_at_every_step(loop), (scores, tokens, lengths))} | calls


def check(calls_of, to_host, tokens_RM, lengths) -> None:
    """Each step's ban by itself, against a set of all n-grams. Ends the script if one is wrong."""
    scores_RV = np.zeros((len(tokens_RM), WORDS), np.float32)
    for length_R in lengths:
        right_RV = oracle(scores_RV, tokens_RM, length_R, N)
        for label, (run, given) in calls_of(scores_RV, tokens_RM, [length_R]).items():
            if not np.array_equal(to_host(run(*copy.deepcopy(given))), right_RV):
                raise SystemExit(f"{label} bans other tokens at length {length_R[0]}: nothing is timed")


def table(record: dict) -> str:
    """The paper's rows beside ours; ratios are to the loop that needs one transfer, or none."""
    timed = {r["way"]: r["milliseconds"] for r in record["ngram_ms"]}
    lines = ["| of the paper | here | ms here | speed | ms on a V100, paper |", "|---|---|---|---|---|"]
    for label, (row, what) in WAYS.items():
        paper = f"{PAPER_MS[row]:,.1f} ({PAPER_MS['CPU kernel'] / PAPER_MS[row]:.2f}x)" if row else ""
        here, speed = "no GPU", ""
        if label in timed:
            median, fastest, slowest = timed[label]
            here, speed = f"{median:,.1f} ({fastest:,.1f}-{slowest:,.1f})", f"{timed[LOOP][0] / median:.2f}x"
        lines.append(f"| {row} | {what} | {here} | {speed} | {paper} |")
    if kernels := {label: timed[label][0] for label in timed if label.startswith("cuda")}:
        label = min(kernels, key=kernels.get)
        ratios = [f"{timed[way][0] / kernels[label]:.1f}x as fast as the {row} (target: {TARGETS[row]}x)"
                  for way, (row, _) in WAYS.items() if row in TARGETS]  # fmt: skip
        lines.append(f"\nThe fastest kernel, {label}, is {' and '.join(ratios)}.")
    s, m = record["shape"], record["machine"]
    steps = f"All {s['steps']} steps of {s['sentences']} sentences with {s['beams']} beams, n = {N}"
    lines.append(
        f"\n{steps}, vocabulary {s['vocabulary']:,}. Machine: {m.get('gpu', 'no GPU')}, {m['cores']} cores"
        f" ({m['processor']}), NumPy {m['numpy']}, Numba {m['numba']}. {record['note']}".rstrip()
    )
    return "\n".join(lines)


def measure_ways(
    sentences: int = 32, beams: int = 4, longest: int = 140, vocabulary: int = 50_264, runs: int = 5, note: str = ""
) -> dict:
    """Milliseconds of each way, all checked before. Ends the script if one is wrong."""
    calls_of, to_host, synchronize = calls_on_host, np.asarray, lambda: None
    if device_kind() == "gpu":
        try:
            import cupy
        except ImportError:
            raise SystemExit("timing on a GPU needs CuPy: pip install 'minidecode[cu13]', or [cu12]") from None
        synchronize, to_host = cupy.cuda.get_current_stream().synchronize, cupy.asnumpy

        def calls_of(*given):
            return calls_on_gpu(cupy, *given)

    tokens_RM = texts(sentences * beams, longest)
    lengths = [np.full(len(tokens_RM), length) for length in range(1, longest + 1)]
    check(calls_of, to_host, tokens_RM, lengths)
    scores_RV = np.zeros((len(tokens_RM), vocabulary), np.float32)
    timings = time_by_turns(calls_of(scores_RV, tokens_RM, lengths), runs, synchronize)
    return {
        "machine": describe_machine(), "note": note, "paper_ms": PAPER_MS,
        "shape": {"sentences": sentences, "beams": beams, "steps": longest, "n": N, "vocabulary": vocabulary},
        "ngram_ms": [{"way": t.implementation,
                      "milliseconds": [round(1e3 * x, 4) for x in (t.median, t.fastest, t.slowest)]} for t in timings],
    }  # fmt: skip


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--sentences", type=positive, default=32)
    p.add_argument("--beams", type=positive, default=4)
    p.add_argument("--longest", type=positive, default=140, help="tokens of a text at the last step")
    p.add_argument("--vocabulary", type=positive, default=50_264, help=f"{WORDS} or more")
    p.add_argument("--runs", type=positive, default=5, help="turns that are timed")
    p.add_argument("--note", default="", help="what else ran on the machine meanwhile")
    p.add_argument("--out", type=file_to_write, help="JSON file to write")
    p.add_argument(
        "--readme",
        type=with_marks("ngram", "ngram-gpu"),
        help="file whose table between the marks ngram, or ngram-gpu, is replaced",
    )
    a = p.parse_args()
    if a.vocabulary < WORDS:
        p.error(f"argument --vocabulary: the texts have {WORDS} different tokens, so {a.vocabulary} are too few")
    record = measure_ways(a.sentences, a.beams, a.longest, a.vocabulary, a.runs, a.note)
    print(table(record))
    if a.out:
        write_record(a.out, record)
    if a.readme:
        write_between_markers(a.readme, "ngram-gpu" if "gpu" in record["machine"] else "ngram", table(record))


if __name__ == "__main__":
    main()
