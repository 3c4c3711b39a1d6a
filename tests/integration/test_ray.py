"""Ray Data runs ShardGenerator on a cluster of two nodes; five actors are killed, and nothing is lost or doubled.

The nodes are processes of this machine with four logical CPUs each, so this says nothing about speed.
"""

from __future__ import annotations

import json
import os
import random
import signal

import pytest
from toy_folder import write_folder

ray = pytest.importorskip("ray", reason="the extra `ray` is not installed")
pyarrow = pytest.importorskip("pyarrow", reason="the extra `ray` is not installed")
from pyarrow import parquet  # noqa: E402
from ray.cluster_utils import Cluster  # noqa: E402

import minidecode as md  # noqa: E402
from minidecode.lines.records import make_line_renderer  # noqa: E402

pytestmark = pytest.mark.ray
SHARDS, KILLED, ACTORS, SIZE = 20, 5, 5, 16  # five actors of a CPU each need both nodes
HOW = {"batch_size": 2, "max_new_tokens": 4, "do_sample": True, "seed": 3, "source": "prompts.jsonl, line"}


@pytest.fixture(scope="module")
def cluster():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        node = {"num_cpus": 4, "object_store_memory": 100 * 2**20}
        cluster = Cluster(initialize_head=True, head_node_args=node | {"include_dashboard": False})
        cluster.add_node(**node)
        ray.init(address=cluster.address, log_to_driver=False, logging_level="error")
        context = ray.data.DataContext.get_current()
        context.enable_progress_bars = False
        yield cluster
        ray.shutdown()
        cluster.shutdown()


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return md.load(write_folder(tmp_path_factory.mktemp("models") / "toy"), plan="numpy")


@pytest.fixture
def prompts(tmp_path):
    draw = random.Random(5)
    lines = []
    for number in range(SHARDS * SIZE + 5):
        line = {"prompt": draw.choice(["the", "a", "sea the sea", "a sea", " ", "x" * 17]), "id": number}
        lines.append(line | draw.choice([{}, {}, {"max_new_tokens": 2}, {"seed": 9}]))
    path = tmp_path / "prompts.jsonl"
    path.write_bytes(b"".join(json.dumps(line).encode() + b"\n" for line in lines) + b"\xff\n")
    return path


def one_machine(model, prompts) -> str:
    lines = prompts.read_bytes().removesuffix(b"\n").split(b"\n")
    render = make_line_renderer(True, model.tokenizer)
    run = md.generate_lines(model, lines, jsonl=True, on_error="record", render=render, **HOW)
    return "".join(line.rendered for line in run)


def watched(notes):
    """A ShardGenerator that notes its node; the first five actors die with a file half written."""

    class Watched(md.ShardGenerator):  # made here, so that it travels as code: actors have no path to tests
        def __call__(self, batch):
            me = f"{ray.get_runtime_context().get_node_id()}-{os.getpid()}"
            (notes / me).touch()
            for turn in range(KILLED):
                try:
                    (notes / f"killed-{turn}").open("x").close()
                except FileExistsError:
                    continue
                os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)
                break
            return super().__call__(batch)

    return Watched


def generated(data, kind, *arguments, actors, **how) -> list[dict]:
    pool = ray.data.ActorPoolStrategy(size=actors)
    return data.map_batches(
        kind, fn_constructor_args=arguments, fn_constructor_kwargs=how, batch_size=1, compute=pool, num_cpus=1
    ).take_all()


def test_five_killed_actors_lose_nothing_and_double_nothing(cluster, model, prompts, tmp_path):
    whole = one_machine(model, prompts)
    shards = list(md.cut_shards(prompts, size=SIZE, seed=3))
    data = ray.data.from_items(shards, override_num_blocks=len(shards))
    out, notes = tmp_path / "out", tmp_path / "notes"
    notes.mkdir()
    told = generated(data, watched(notes), model, out, actors=ACTORS, **HOW)
    nodes = {name.partition("-")[0] for name in os.listdir(notes) if not name.startswith("killed")}
    assert len(nodes) == 2 and all(node["Alive"] for node in ray.nodes()) and len(ray.nodes()) == 2
    assert len([name for name in os.listdir(notes) if name.startswith("killed")]) == KILLED
    assert len([name for name in os.listdir(out) if name.endswith(".part")]) == KILLED
    assert sum(row["lines"] for row in told) == whole.count("\n") == SHARDS * SIZE + 6
    assert sum(row["failed"] for row in told) == whole.count('"error"') > 50
    assert "".join(md.join_shards(out)) == whole

    files = sorted(name for name in os.listdir(out) if name.endswith(".jsonl"))
    for name in files[3:6]:
        (out / name).unlink()
    told = generated(data, md.ShardGenerator, model, out, actors=1, **HOW)
    assert (
        sorted(row["file"] for row in told if row["generated"]) == files[3:6] and len(told) == len(files) == SHARDS + 1
    )
    assert "".join(md.join_shards(out)) == whole


def test_rows_of_parquet_come_back_in_order_on_request(cluster, model, prompts, tmp_path):
    """A row of the file is a shard, and a block of its own, so that many actors can take part."""
    shards = list(md.cut_shards(prompts, size=SIZE, seed=3))
    parquet.write_table(pyarrow.Table.from_pylist(shards), tmp_path / "shards.parquet")
    data = ray.data.read_parquet(tmp_path / "shards.parquet").repartition(target_num_rows_per_block=1).limit(12)
    context = ray.data.DataContext.get_current()
    context.execution_options.preserve_order = True
    rows = generated(data, md.ShardGenerator, model, actors=1, **HOW)
    assert [row["line"] for row in rows] == [*range(1, 12 * SIZE + 1)]
    expected = one_machine(model, prompts).splitlines(keepends=True)[: len(rows)]
    assert [row["record"] + "\n" for row in rows] == expected
