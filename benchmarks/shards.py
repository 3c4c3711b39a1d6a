"""Lines a second on this machine, for docs/guide/scale.md: cut, generated in one process, and by actors of Ray Data.

    NUMBA_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python benchmarks/shards.py --model tiny-gpt2

It needs the extra `ray`. Each actor has one thread, and there are as many actors as cores. First one process generates
for all lines, while the other cores are idle. Then the actors do, and must give the same bytes. Their time runs from
the start of the first shard to the end of the last one. The start of Ray and the actors is another figure. Other work
on the machine changes lines per second much, and lines per CPU second little. Takes about two minutes. Prints the
rates, and writes no file.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from pathlib import Path

from flags import positive

import minidecode as md
from minidecode.bench.compare import describe_machine
from minidecode.device.cores import usable_cores
from minidecode.lines.records import make_line_renderer

TEXT = "Fellow citizens of the Senate and the House the state of the Union is good"
THREADS = ("NUMBA_NUM_THREADS", "OPENBLAS_NUM_THREADS")


class Timed(md.ShardGenerator):
    """Notes when each shard began and ended, and its CPU seconds."""

    def __call__(self, batch):
        begin, cpu = time.time(), time.process_time()
        rows = super().__call__(batch)
        return rows | {"begin": [begin], "end": [time.time()], "cpu": [time.process_time() - cpu]}  # a shard at a time


def by_actors(model: md.Model, shards: list[dict], folder: str, actors: int, how: dict) -> dict[str, float]:
    """start: seconds until the first shard began. seconds: from there to the end of the last one.

    cpu: CPU seconds of all shards. idle: the share of the actors' time in which they had no shard.
    """
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    import ray

    began = time.time()
    ray.init(num_cpus=actors, include_dashboard=False, log_to_driver=False, logging_level="error")
    ray.data.DataContext.get_current().enable_progress_bars = False
    rows = (
        ray.data.from_items(shards, override_num_blocks=len(shards))
        .map_batches(
            Timed, fn_constructor_args=(model, folder), fn_constructor_kwargs=how, batch_size=1, num_cpus=1,
            compute=ray.data.ActorPoolStrategy(size=actors), runtime_env={"env_vars": dict.fromkeys(THREADS, "1")},
        )
        .take_all()
    )  # fmt: skip
    ray.shutdown()
    first, last = min(row["begin"] for row in rows), max(row["end"] for row in rows)
    busy = sum(row["end"] - row["begin"] for row in rows)
    return {
        "start": first - began,
        "seconds": last - first,
        "idle": 1 - busy / (actors * (last - first)),
        "cpu": sum(row["cpu"] for row in rows),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="tiny-gpt2")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--lines", type=positive, default=2048)
    parser.add_argument("--size", type=positive, default=128, help="lines of a shard")
    parser.add_argument("--new-tokens", type=positive, default=32)
    parser.add_argument("--batch-size", type=positive, default=16)
    given = parser.parse_args()
    if any(os.environ.get(name) != "1" for name in THREADS):
        parser.error(f"say {'=1 '.join(THREADS)}=1 in front of it: each process has one thread")
    model = md.load(given.model, plan="fast", dtype=given.dtype)
    words = TEXT.split()
    lines = [" ".join(words[i % 7 : i % 7 + 4 + i % 9]) + f" {i}" for i in range(given.lines)]
    how = {"batch_size": given.batch_size, "max_new_tokens": given.new_tokens, "on_error": "record"}
    list(md.generate_lines(model, lines[: given.batch_size], **how))  # compiles what is not compiled yet
    begin = time.perf_counter()
    shards = list(md.cut_shards(lines, size=given.size))
    cut = time.perf_counter() - begin
    begin, cpu = time.perf_counter(), time.process_time()
    run = md.generate_lines(model, lines, render=make_line_renderer(True, model.tokenizer), **how)
    alone = "".join(line.rendered for line in run)
    seconds, cpu = time.perf_counter() - begin, time.process_time() - cpu
    actors = usable_cores().number
    with tempfile.TemporaryDirectory() as folder:
        told = by_actors(model, shards, folder, actors, how)
        same = "".join(md.join_shards(Path(folder))) == alone
    print(json.dumps({
        "model": given.model, "dtype": given.dtype, "lines": given.lines, "new tokens of a line": given.new_tokens,
        "cut, lines/s": round(given.lines / cut), "one process, lines/s": round(given.lines / seconds, 2),
        "one process, lines per CPU second": round(given.lines / cpu, 2),
        "actors": actors, "actors, lines/s of each": round(given.lines / told["seconds"] / actors, 2),
        "actors, lines per CPU second": round(given.lines / told["cpu"], 2),
        "of their time without a shard": round(told["idle"], 4), "start, s": round(told["start"], 1),
        "the same bytes": same, "bytes of a record": round(len(alone.encode()) / given.lines),
        "where": describe_machine(),
    }, indent=1))  # fmt: skip


if __name__ == "__main__":
    main()
