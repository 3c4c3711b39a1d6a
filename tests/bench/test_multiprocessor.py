"""The model of a multiprocessor ranks kernels as an H100 did; `predict` reads it, with and without the toolkit."""

import dataclasses
import json
import re
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from numba import cuda

from minidecode.bench import predict
from minidecode.bench.multiprocessor import (
    H100,
    Code,
    Product,
    bandwidth_by_littles_law,
    bytes_moved,
    combine_limits,
    resident_blocks,
    seconds_by_limit,
    seconds_of_product,
)
from minidecode.catalog import CATALOG
from minidecode.device import matmul
from minidecode.device.launch import launch, recorded_launches
from minidecode.device.seen_kernels import note_kernel, seen_kernels
from minidecode.emulator.one_block import Asked, run_first_block
from minidecode.errors import EmulationError, OptionError
from minidecode.plan import has_file_of_row
from minidecode.reference import empty

ROOT = Path(__file__).parents[2]
MEASURED = json.loads((ROOT / "benchmarks" / "results" / "multiprocessor-h100.json").read_text(encoding="utf-8"))
WITH_KERNELS = [name for name, row in CATALOG.items() if has_file_of_row(row, "cuda")]
CODE = Code(32, 0, 40, 50, 4, 16, 1, 0, 60, 80, 2)  # four loads of 4 bytes, awaited together
WORK = Asked(10_000, 128, 1024, 0, 1024, 32_768, 32_768, 0, 0, 0, 0, 0)


def launched(case):
    return [predict.Launched(k, Code(*MEASURED["counts"][k]), Asked(*w)) for k, w in case["launches"]]


def share(case):
    return predict.predict_call(H100, case["name"], launched(case), case["useful"]).share


def share_by_flight(case):
    launches = launched(case)
    return case["useful"] / sum(
        min(case["useful"], bytes_moved(one.work)) / bandwidth_by_littles_law(H100, one.code, one.work)
        for one in launches
    )


def ranked(group, shares):
    cases = [case for case in MEASURED["cases"] if group in ("all", case["set"])]
    from scipy.stats import spearmanr  # loads for two seconds: not while tests are collected

    return spearmanr([shares(case) for case in cases], [case["share"] for case in cases]).statistic


@pytest.mark.parametrize(
    ("group", "least"), [("before", 0.7), ("linear", 0.85), ("vocabulary", 0.85), ("attention", 0.8), ("all", 0.85)]
)
def test_it_ranks_launches_as_an_h100_did(group, least):
    assert ranked(group, share) > least
    assert ranked(group, share) > ranked(group, share_by_flight)
    assert MEASURED["ranks"][group]["model"] == round(ranked(group, share), 2), "run benchmarks/multiprocessor.py"


def test_bytes_in_flight_alone_do_not_rank_them():
    assert ranked("all", share_by_flight) < 0.6
    assert ranked("linear", share_by_flight) < 0.5


@pytest.mark.parametrize("limit", ["issue", "latency", "L1"])
def test_each_limit_is_needed(limit, monkeypatch):
    """Without it, launches of all sets are ranked worse."""
    whole, before = ranked("all", share), predict.seconds_by_limit
    monkeypatch.setattr(predict, "seconds_by_limit", lambda *given: before(*given) | {limit: 0.0})
    assert ranked("all", share) < whole


def test_the_guide_says_how_well_it_ranks():
    ranks, guide = MEASURED["ranks"]["all"], (ROOT / "docs" / "guide" / "kernels.md").read_text(encoding="utf-8")
    assert f"Over {ranks['launches']} launches" in guide
    assert f"correlation is {ranks['model']:.2f}" in " ".join(guide.split())
    assert f"alone gives {ranks['in flight alone']:.2f}" in " ".join(guide.split())


def test_the_guide_says_what_is_recorded_and_how_the_library_counts():
    guide = " ".join((ROOT / "docs" / "guide" / "kernels.md").read_text(encoding="utf-8").split())
    works = predict.read_recorded_counts()["works"]
    assert {work.split()[0] for work in works} == set(WITH_KERNELS)
    assert "`flags` and `extend` what a step has" in guide
    for name, megabytes in ((work.split()[0], kept["useful"] / 1e6) for work, kept in works.items()):
        if name not in ("flags", "extend") and megabytes < 900:
            assert f"`{name}` {megabytes:.0f} MB" in guide or f"`{name}` {megabytes:.1f} MB" in guide
    by_library = {
        work.split()[0]: [label for label, launches in w["versions"].items() if matmul.PRODUCT in dict(launches)]
        for work, w in works.items()
    }
    assert {name: labels for name, labels in by_library.items() if labels} == {
        "prefill": ["cuda v1", "cuda v2", "cuda v3", "cuda"], "cross_kv": ["cuda v1", "cuda v2", "cuda"],
        "linear_int8": ["cuda"], "el": ["cuda v3"],
    }  # fmt: skip
    assert "(in `prefill`, `cross_kv`, the newest `linear_int8` and version 3 of `el`)" in guide
    assert f"a launch of {1e6 * H100.product_launch:.1f} us, its bytes at {H100.copy / 1e12:.1f} TB/s" in guide
    assert f"in float16 at {H100.float16_products / 1e12:.0f} TFLOP/s" in guide
    assert f"in float32 at {H100.float32_products / 1e12:.0f}." in guide


@pytest.mark.parametrize(
    ("product", "memory_us", "products_us"),
    [
        (Product(1, 2_400_000, 40_000_000, 2), 1, 0.1),
        (Product(1, 2_400_000, 40_000_000, 1), 1, 0.05),
        (Product(3, 4_800_000, 39_000_000, 4), 2, 1),
    ],
)
def test_a_product_of_the_library_has_two_limits_and_its_launches(product, memory_us, products_us):
    limits = seconds_of_product(H100, product)
    assert limits == pytest.approx({"memory": 1e-6 * memory_us, "products": 1e-6 * products_us})
    one = predict.predict_call(H100, "cuda", [predict.Launched(matmul.PRODUCT, None, product)], 3e6)
    seconds = 2.6e-6 * product.calls + 1e-6 * np.hypot(memory_us, products_us)
    assert one.seconds == pytest.approx(seconds) and one.share == pytest.approx(1e-6 / seconds)
    assert (one.limit, one.kernels) == ("memory", (matmul.PRODUCT,))


def recorded_products(stacks, **how):
    with recorded_launches() as recorded:
        matmul.matmul(stacks, **how)
    return [predict.product_of(*launch.arguments) for launch in recorded]


def test_products_are_counted_by_hand():
    """A matrix; a stack whose second factor is one matrix; stacks of stacks, a call each; a product that is added."""
    a, b, out = np.ones((5, 8), np.float16), np.ones((8, 3), np.float16), np.full((5, 3), 7, np.float32)
    plain, added = Product(1, 80 + 48 + 60, 240), Product(1, 80 + 48 + 120, 240)
    assert recorded_products([(a, b, out), (a, b, out)]) == [plain, plain]
    assert recorded_products([(a, b, out)], adds=True) == [added]
    assert (out == 7).all(), "nothing is multiplied"
    floats = [np.ones(shape, np.float32) for shape in ((4, 5, 8), (8, 3), (4, 5, 3))]
    floats[1] = np.broadcast_to(floats[1], (4, 8, 3))
    assert recorded_products([floats]) == [Product(1, 4 * (160 + 24 + 60), 960, 4)]
    stacks = [np.ones((6, 2, *shape), np.int8) for shape in ((5, 8), (8, 4))]
    assert recorded_products([(*stacks, np.ones((6, 2, 5, 4), np.int32))]) == [
        Product(6, 12 * (40 + 32 + 4 * 20), 12 * 320, 1)
    ]


def test_version_3_of_el_multiplies_all_heads_in_one_call():
    from minidecode.conformance.rows import el as row
    from minidecode.cuda.el import attend_el_v3

    arguments = row.make_arguments(B=2, W=2, N=9, H=4, G=4, K=3, U=2, D=8, h_dtype=np.float16)
    launches = predict.launches_without_work(attend_el_v3, *arguments)
    products = [predict.product_of(*launch.arguments) for launch in launches if launch.kernel == matmul.PRODUCT]
    assert [p.calls for p in products] == [1] * 4
    assert [p.operations for p in products] == [2 * 16 * 3 * 8, 2 * 16 * 8 * 9, 2 * 16 * 8 * 9, 2 * 16 * 8 * 2]


def test_a_launch_that_only_moves_reaches_the_bandwidth():
    useful = WORK.blocks * WORK.footprint
    alone = seconds_by_limit(H100, CODE, WORK, useful)
    assert max(alone, key=alone.get) == "memory"
    assert alone["memory"] == useful / H100.bandwidth
    assert useful / H100.bandwidth / combine_limits(alone) > 0.7


@pytest.mark.parametrize(
    ("code", "work", "limit"),
    [
        ({"turn_instructions": 4000, "turn_cycles": 5000}, {}, "issue"),
        ({"turn_waits": 4}, {"threads": 32}, "latency"),
        ({}, {"lines": 32 * 1024}, "L1"),
        ({}, {"shared_passes": 100_000}, "shared"),
    ],
)
def test_what_a_launch_has_too_much_of_is_its_limit(code, work, limit):
    alone = seconds_by_limit(H100, dataclasses.replace(CODE, **code), dataclasses.replace(WORK, **work), 1e9)
    assert max(alone, key=alone.get) == limit


def test_what_is_read_again_comes_from_the_nearest_memory_that_holds_it():
    again = dataclasses.replace(WORK, sectors=3 * WORK.sectors)
    small = dataclasses.replace(again, footprint=8_192.0, sectors=3 * 8_192.0)
    useful = again.blocks * again.footprint
    assert seconds_by_limit(H100, CODE, small, useful)["L2"] == pytest.approx(small.blocks * 8_192 / H100.l2_bandwidth)
    assert seconds_by_limit(H100, CODE, again, useful)["memory"] == pytest.approx(3 * useful / H100.bandwidth), (
        "L2 is too small"
    )


@pytest.mark.parametrize(
    ("registers", "shared_bytes", "threads", "blocks"),
    [(32, 0, 128, 16), (64, 0, 128, 8), (96, 0, 256, 2), (32, 100_000, 128, 2), (16, 0, 32, 32), (255, 0, 1024, 1)],
)
def test_occupancy(registers, shared_bytes, threads, blocks):
    code = dataclasses.replace(CODE, registers=registers, shared_bytes=shared_bytes)
    assert resident_blocks(H100, code, dataclasses.replace(WORK, threads=threads)) == blocks


def test_a_block_of_a_large_launch_is_counted_by_hand():
    from minidecode.cuda.activation import activation_per_column

    x_RX, bias_X, y_RX = np.zeros((50_000, 2048), np.float32), np.ones(2048, np.float32), np.zeros((50_000, 2048), "f4")
    asked = run_first_block(activation_per_column, (16, 50_000), 128, (x_RX, bias_X, 0, y_RX))
    assert (asked.blocks, asked.threads) == (800_000, 128)
    assert (asked.loaded, asked.stored) == (4 * 2 * 4, 4 * 4), "two loads and a store of each of four warps"
    assert asked.footprint == asked.sectors == 2 * 512
    assert (asked.written, asked.lines) == (512, 4 * 3 * 4)


def test_a_wide_load_counts_its_sectors_once():
    from minidecode.cuda.activation import activation_per_four_columns

    x_RX, y_RX = (np.zeros((4, 2048), np.float32) for _ in range(2))
    asked = run_first_block(activation_per_four_columns, (4, 4), 128, (x_RX, np.ones(2048, np.float32), 0, y_RX))
    assert asked.footprint == asked.sectors == 2 * 2048


@pytest.mark.parametrize("name", ["linear", "softmax", "norm", "append", "reorder"])
def test_recorded_counts_are_those_of_the_kernels(name):
    """The newest version's first block is counted again; its machine code, where the toolkit is."""
    row, stored = CATALOG[name], "float16" if name == "linear" else None
    arguments, shape, useful = predict.enlarge_paper_inputs(row, predict.MEGABYTES, stored)
    kept = predict.read_recorded_counts()["works"][f"{name} {stored}"]
    assert (kept["shape"], kept["useful"]) == (shape, useful)
    again = predict.record_launches_of_call(predict.implementations(row)["cuda"], *arguments)
    assert [one.kernel for one in again] == [key for key, _ in kept["versions"]["cuda"]]
    for one, (_, work) in zip(again, kept["versions"]["cuda"], strict=True):
        assert dataclasses.astuple(one.work) == pytest.approx(work, abs=0.1, rel=2e-5)


@pytest.mark.parametrize(
    ("name", "sentences", "weights"), [("el", 32, 2 * 1024**2 * 4), ("el_split", 1, 2 * 768**2 * 4)]
)
def test_weights_of_el_move_once_for_all_sentences(name, sentences, weights):
    """By hand: two matrices; of each sentence its states, what its four beams have written, queries and results."""
    row, stored = CATALOG[name], predict.usual_way_to_store(name)
    arguments, shape, useful = predict.enlarge_paper_inputs(row, predict.MEGABYTES, stored)
    times = int(re.search(r"(\d+) times", shape)[1])
    states = 1024 * 1024 * 2 if name == "el" else 512 * 768 * 4 + 4 * 100 * 2 * 768 * 4
    width = 1024 if name == "el" else 768
    by_hand = weights + times * sentences * (states + 2 * 4 * width * 4)
    assert useful == pytest.approx(by_hand, rel=3e-3) and 1e9 <= useful < 1.04e9
    assert len(arguments[1]) == times * sentences and arguments[3].nbytes == weights // 2


def test_predict_prints_a_line_for_each_version(cli):
    ran = cli("predict", "linear")
    assert ran.code == 0
    labels = [line.split("  ")[0] for line in ran.out.splitlines()[3:]]
    assert labels == ["cuda v1", "cuda v2", "cuda v3", "cuda v4", "cuda"]
    found = json.loads(cli("predict", "linear", "--json").out)
    assert (found["machine"], found["name"]) == ("h100", "linear")
    shares = [version["share"] for version in found["versions"]]
    assert shares == sorted(shares) and 0 < shares[0] < 0.1 and shares[-1] > 0.5
    assert found["versions"][0]["limit"] in found["versions"][0]["limits"]


def test_every_op_with_kernels_prints_rows_without_the_toolkit(cli, monkeypatch):
    monkeypatch.setattr(predict, "build_code", None)
    monkeypatch.setattr(predict, "count_versions", None)
    for name in WITH_KERNELS:
        ran = cli("predict", name)
        assert ran.code == 0, ran.err
        head, *lines = ran.out.splitlines()[2:]
        rows = [line.split("  ")[0] for line in lines]
        assert sorted(rows) == sorted(predict.kernel_versions(CATALOG[name]))
        assert (" products " in head) == any(matmul.PRODUCT in line for line in lines)
    for name in predict.read_recorded_counts()["works"]:
        op, stored = name.split()
        found = predict.predict(op, stored=None if stored == "None" else stored)
        assert all(0 < version.share < 1.2 for version in found.versions) and not found.left_out, name


def key_of_launch(launch):
    if launch.kernel == matmul.PRODUCT:
        return launch.kernel
    with seen_kernels() as seen:
        note_kernel(launch.kernel, launch.arguments)
    ((_, types),) = seen
    return predict.key_of_kernel(launch.kernel, types)


@pytest.mark.parametrize("name", WITH_KERNELS)
def test_every_op_with_kernels_stays_within_bounds_at_the_default_size(name, monkeypatch):
    """Nothing is multiplied, and arrays stay below a few gigabytes. What was recorded is what each version launches."""
    monkeypatch.setattr(matmul, "multiply_by_numpy", None)
    row, stored = CATALOG[name], predict.usual_way_to_store(name)
    recorded, launched = predict.read_recorded_counts()["works"][f"{name} {stored}"], {}
    tracemalloc.start()
    try:
        arguments, shape, useful = predict.enlarge_paper_inputs(row, predict.MEGABYTES, stored)
        assert useful < 1.1e9 and (shape, useful) == (recorded["shape"], recorded["useful"])
        for label, function in predict.kernel_versions(row).items():
            launched[label] = list(map(key_of_launch, predict.launches_without_work(function, *arguments)))
        assert tracemalloc.get_traced_memory()[1] < 5e9
    finally:
        tracemalloc.stop()
    assert launched == {label: [key for key, _ in kept] for label, kept in recorded["versions"].items()}


def test_where_memory_ends_it_names_an_option_of_predict(cli, monkeypatch):
    def without_memory(*given):
        raise MemoryError("Unable to allocate 167. GiB")

    monkeypatch.setattr(predict, "enlarge_paper_inputs", without_memory)
    ran = cli("predict", "softmax", "--megabytes", "2000")
    assert ran.code == 1 and ran.err.splitlines() == [
        "minidecode: not enough memory: Unable to allocate 167. GiB; use smaller --megabytes"
    ]


def test_what_lay_in_memory_before_does_not_count():
    """A launcher without a workspace hands arrays from kernel to kernel, and no kernel runs."""

    @cuda.jit
    def nothing(a, b, c):
        pass

    def call(x):
        launch(nothing, 1, 1, np.empty(5), np.empty_like(x), empty(x, 5))

    for _ in range(20):
        before = [np.full(5, 7.0) for _ in range(20)]
        del before  # NumPy hands this memory out again
        (recorded,) = predict.launches_without_work(call, np.ones(5))
        assert not any(array.any() for array in recorded.arguments)
    assert np.empty is not np.zeros and np.empty_like is not np.zeros_like


def test_where_the_emulator_stops_a_version_is_left_out_with_its_reason(monkeypatch):
    def stopped(*launch):
        raise EmulationError("a thread does not come out of its loop")

    monkeypatch.setattr(predict, "run_first_block", stopped)
    found = predict.count_versions(CATALOG["activation"], 1000, None)
    assert not found.versions
    assert found.left_out["cuda"] == "the emulator stops in activation_of_fours: a thread does not come out of its loop"
    with pytest.raises(OptionError, match="activation is not predicted: the emulator stops in activation_per_number"):
        predict.predict("activation", megabytes=999)


def test_another_size_is_emulated(cli):
    found = json.loads(cli("predict", "activation", "--megabytes", "50", "--json").out)
    assert 50e6 <= found["useful"] < 60e6
    assert found["versions"][-1]["share"] > found["versions"][0]["share"] > 0


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["lineer"], "lineer"),
        (["linear", "--machine", "abacus"], "--machine must be h100, not 'abacus': it predicts no other"),
        (["linear", "--stored", "float8"], "not stored as 'float8': say float32, float16"),
        (["softmax", "--stored", "float16"], "not stored as 'float16': leave it out"),
    ],
)
def test_what_cannot_be_predicted_is_one_line(cli, arguments, error):
    ran = cli("predict", *arguments)
    assert ran.code == 1 and error in ran.err and len(ran.err.splitlines()) == 1


def test_a_kernel_that_was_not_counted_needs_the_toolkit(monkeypatch):
    monkeypatch.setattr(predict, "read_recorded_counts", lambda: {"counts": {}, "works": {}})

    def without(kernel, types):
        raise OptionError("compiling kernels needs the toolkit: pip install it")

    monkeypatch.setattr(predict, "build_code", without)
    with pytest.raises(OptionError, match="activation_per_number was not counted before, and compiling kernels needs"):
        predict.predict("activation", megabytes=1)
