"""HARS (LightSeq, section 2.2): how much it retrieves, what its two weak points lose, and what it takes on this CPU.

    python benchmarks/hars.py --out benchmarks/results/hars-cpu.json

Three tables. Survivors: how many scores reach the rough threshold, beside the law, C (1 + 1/2 + ... + 1/C), and for the
closer threshold of 1,024 groups. Weak points, of one flat row of scores: how often a strict `>` loses one of the K
best, and how often K groups let fewer than 2K through. Times: candidates of one sentence by a full sort, by partial
selection and by HARS, given the scores; and straight from the logits, beside the composition. One thread; all
implementations by turns; medians, and in the JSON file the fastest and the slowest run beside them.

Takes some minutes, with --small less than one. Prints the tables; writes all figures to --out.

    python benchmarks/hars.py --losses benchmarks/results/hars-losses.json

Another table alone, in ten seconds: the two weak points of four beams whose scores lie apart, for thresholds of each
beam, as in the paper, and for one threshold of all. Its numbers come from a seed: they do not depend on the machine.
"""

from __future__ import annotations

import argparse

import numpy as np
from flags import file_to_write, positive
from records import write_record
from threadpoolctl import threadpool_limits

from minidecode.bench.compare import describe_machine, implementations, time_by_turns
from minidecode.catalog import CATALOG
from minidecode.reference.candidates import LANES, group_maxima, kth_largest, top_candidates
from minidecode.reference.softmax import log_softmax

VOCABULARIES = (1_000, 4_000, 16_000, 50_257, 128_000, 256_000)
BEAMS = (1, 2, 4, 8, 16, 32)
GROUPS = (1, 2, 4, 8, 16, 32, 64)
GAPS = (0, 0.1, 0.3, 1, 10)  # between the scores of a beam and the next; logits have a standard deviation of 1


def survivors(vocabulary: int, trials: int, rng) -> list[dict]:
    """For C groups the number that reach the least of their maxima, and for many the C-th largest of theirs."""
    rows = []
    for C in GROUPS:
        counts = []
        for _ in range(trials):
            scores_X = rng.standard_normal(vocabulary).astype(np.float32)
            rough = group_maxima(scores_X, C).min()
            closer = kth_largest(group_maxima(scores_X, LANES), C)
            counts.append([(scores_X >= rough).sum(), (scores_X >= closer).sum()])
        (of_C, of_many), most = np.mean(counts, axis=0), np.max(counts, axis=0)[0]
        law = C * sum(1 / k for k in range(1, C + 1))
        rows.append({"candidates": C, "law": round(law, 1), "survivors": round(float(of_C), 1), "most": int(most),
                     "survivors_of_many_groups": round(float(of_many), 1)})  # fmt: skip
    return rows


def weak_points(vocabulary: int, trials: int, rng) -> list[dict]:
    """K groups, once with `>` for the K best, once with `>=` for the 2K best that a beam search of K beams needs."""
    rows = []
    for K in GROUPS:
        reached = [0, 0]
        for _ in range(trials):
            scores_X = rng.standard_normal(vocabulary).astype(np.float32)
            threshold = group_maxima(scores_X, K).min()
            reached[0] += (scores_X > threshold).sum() < K
            reached[1] += (scores_X >= threshold).sum() < 2 * K
        strict, few = (round(float(n) / trials, 4) for n in reached)
        rows.append({"beams": K, "strict_loses": strict, "too_few_groups_lose": few})
    return rows


def beam_scores(vocabulary: int, trials: int, W: int = 4) -> list[dict]:
    """What is lost with W beams and thresholds of W groups, by the gap between the score of a beam and the next one's.

    Logits are standard normal numbers. `flat` lays the total scores of all beams in one row, which has one threshold.
    `per_beam` is the paper's retrieve: a threshold for each beam, from its own logits. `strict`: a `>` loses one of the
    W best total scores. `few`: `>=` loses one of the 2W best. The same logits serve all gaps.
    """
    rng, lost = np.random.default_rng(0), dict.fromkeys(GAPS, 0)
    for _ in range(trials):
        log_probability_WV = log_softmax(rng.standard_normal((W, vocabulary)).astype(np.float32))[0]
        for gap in GAPS:
            total_WV = log_probability_WV - np.float32(gap) * np.arange(W, dtype=np.float32)[:, None]
            lost[gap] += np.array([is_lost(total_WV, per_beam, strict)
                                   for strict in (True, False) for per_beam in (False, True)])  # fmt: skip
    columns = ("strict_flat", "strict_per_beam", "few_flat", "few_per_beam")
    return [{"beams": W, "gap": gap} | {c: round(float(n) / trials, 4) for c, n in zip(columns, lost[gap], strict=True)}
            for gap in GAPS]  # fmt: skip


def is_lost(total_WV: np.ndarray, per_beam: bool, strict: bool) -> bool:
    """Whether thresholds of W groups lose one of the best total scores: of the W best with `>`, of the 2W with `>=`."""
    W = len(total_WV)
    rows = total_WV if per_beam else total_WV.reshape(1, -1)
    threshold_R1 = np.array([[group_maxima(row, W).min()] for row in rows])
    kept = rows > threshold_R1 if strict else rows >= threshold_R1
    C = W if strict else 2 * W
    kept_X = rows[kept]
    return len(kept_X) < C or not np.array_equal(largest_scores(kept_X, C), largest_scores(total_WV.reshape(-1), C))


def largest_scores(scores_X: np.ndarray, C: int) -> np.ndarray:
    """The C largest scores, in order."""
    return np.sort(np.partition(scores_X, len(scores_X) - C)[len(scores_X) - C :])


def time_implementations(name: str, repeats: int, small: bool) -> list[dict]:
    """Milliseconds of every implementation that runs on this CPU, for one sentence."""
    row, rows, rng = CATALOG[name], [], np.random.default_rng(0)
    functions = {label: f for label, f in implementations(row).items() if not label.startswith("cuda")}
    if name == "hars":
        functions["log_softmax and candidates"] = candidates_without_hars
    for V in VOCABULARIES[:2] if small else VOCABULARIES:
        for W in BEAMS[:3] if small else BEAMS:
            numbers_RV = 3 * rng.standard_normal((W, V)).astype(np.float32)
            base_BW = -rng.random((1, W)).astype(np.float32)
            arguments = (numbers_RV, base_BW) if name == "hars" else (numbers_RV.reshape(1, -1),)
            calls = {label: (f, (*arguments, 2 * W)) for label, f in functions.items()}
            milliseconds = {t.implementation: [round(1e3 * x, 4) for x in (t.median, t.fastest, t.slowest)]
                            for t in time_by_turns(calls, repeats)}  # fmt: skip
            rows.append({"vocabulary": V, "beams": W, "milliseconds": milliseconds})
    return rows


def candidates_without_hars(logits_RV, base_BW, C):
    """What a search does that has all scores written: the composition, with the best of the NumPy selections."""
    total_BWV = log_softmax(logits_RV)[0].reshape(*base_BW.shape, -1) + base_BW[:, :, None]
    best_BC, index_BC = top_candidates(total_BWV.reshape(len(base_BW), -1), C)
    return best_BC, *np.divmod(index_BC, logits_RV.shape[1])


def table(rows: list[dict]) -> str:
    """Text, one line a row; medians stand beside each other by implementation."""
    medians = [{name: times[0] for name, times in row.get("milliseconds", {}).items()} for row in rows]
    flat = [{k: v for k, v in row.items() if k != "milliseconds"} | m for row, m in zip(rows, medians, strict=True)]
    widths = [max(len(name), 9) + 2 for name in flat[0]]
    lines = ["".join(f"{name:>{w}}" for name, w in zip(flat[0], widths, strict=True))]
    lines += ["".join(f"{value:>{w},}" for value, w in zip(row.values(), widths, strict=True)) for row in flat]
    return "\n".join(lines)


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--vocabulary", type=positive, default=50_257, help="of the first two tables")
    p.add_argument("--trials", type=positive, default=1000)
    p.add_argument("--repeats", type=positive, default=9, help="turns that are timed")
    p.add_argument("--small", action="store_true", help="two vocabularies and three beam widths only")
    p.add_argument("--note", default="", help="what else ran on the machine meanwhile")
    p.add_argument("--out", type=file_to_write, help="JSON file to write")
    p.add_argument(
        "--losses", type=file_to_write, help="JSON file to write the losses by beam scores to, and nothing else"
    )
    a = p.parse_args()
    if a.losses:
        rows = beam_scores(a.vocabulary, a.trials)
        print(f"beam_scores\n{table(rows)}")
        settings = {"vocabulary": a.vocabulary, "trials": a.trials}
        record = {"machine": "any machine: the numbers come from a seed", **settings, "beam_scores": rows}
        write_record(a.losses, record)
        return
    rng = np.random.default_rng(0)
    with threadpool_limits(1):
        results = {
            "survivors": survivors(a.vocabulary, a.trials, rng),
            "weak_points": weak_points(a.vocabulary, a.trials, rng),
            "candidates_ms": time_implementations("candidates", a.repeats, a.small),
            "hars_ms": time_implementations("hars", a.repeats, a.small),
        }  # fmt: skip
    machine = describe_machine() | {"note": a.note}
    for name, rows in results.items():
        print(f"{name}\n{table(rows)}\n")
    if a.out:
        settings = {"vocabulary": a.vocabulary, "trials": a.trials, "repeats": a.repeats}
        write_record(a.out, {"machine": machine, **settings, **results})


if __name__ == "__main__":
    main()
