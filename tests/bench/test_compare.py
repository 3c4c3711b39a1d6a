"""What `compare` times: on a GPU each implementation gets its arrays where it needs them."""

import copy
import dataclasses
import json
import os

import numpy as np
import pytest

import minidecode as md
from minidecode.bench import compare
from minidecode.bench.compare import (
    Comparison,
    Timing,
    copy_calls_to_device,
    implementations,
    read_comparisons,
    table_of_comparisons,
    time_by_turns,
    ways_to_store,
)
from minidecode.bench.machines import MACHINES, Machine, this_machine
from minidecode.bench.pictures import MARKERS, draw_roofline
from minidecode.bench.verified import CORE_OPERATIONS, Submission
from minidecode.catalog import CATALOG, Cost
from minidecode.conformance.rows import row_module
from minidecode.cpu.common.panel_gemm import pack_int8
from minidecode.cpu.common.tile import DOT
from minidecode.device.arrays import fetch, put
from minidecode.device.low_precision import stored_weight
from minidecode.emulator.device_array import EmulatorArray
from minidecode.errors import InputError, NumericalError, RefusedError
from minidecode.ops import Heads, Norm, Weight
from minidecode.reference import norm as norm_file


class EmulatedCupy:
    """Stands in for CuPy where kernels run: arrays of the emulated device."""

    def asarray(self, array):
        return put(array, "emulator")

    def asnumpy(self, array):
        return fetch(array)


@pytest.mark.parametrize("name", CATALOG)
def test_paper_inputs_fit_the_op(name):
    row, (arguments, shape) = CATALOG[name], row_module(name).make_paper_inputs()
    assert row.cost(*arguments).bytes > 0 and shape
    assert implementations(row)["reference"](*copy.deepcopy(arguments)) is not None


@pytest.mark.parametrize("name", CATALOG)
def test_the_naive_code_comes_first_and_the_best_of_a_backend_last(name):
    """Ratios are to the first."""
    labels = list(implementations(CATALOG[name]))
    assert labels[0] == "reference naive"
    for backend in {label.split()[0] for label in labels}:
        assert [label for label in labels if label.startswith(backend)][-1] == backend


@pytest.mark.parametrize("name", ["ngram", "norm"])
def test_on_a_device_kernels_get_its_arrays_and_all_else_runs_on_the_host(name):
    row, arguments = CATALOG[name], row_module(name).planted_cases()[0]
    calls = copy_calls_to_device(implementations(row), arguments, EmulatedCupy())
    assert [label.removesuffix(" on the host") for label in calls] == list(implementations(row))
    for label, (function, given) in calls.items():
        results = function(*copy.deepcopy(given))
        first = results[0] if isinstance(results, tuple) else results
        assert isinstance(first, np.ndarray) == label.endswith(" on the host") != label.startswith("cuda")


def test_arrays_inside_of_dataclasses_go_to_the_device_too():
    x, norm = np.ones((2, 3), np.float32), Norm(np.ones(3, np.float32), np.ones(3, np.float32), 1e-5)
    _, given = copy_calls_to_device(implementations(CATALOG["norm"]), (x, x, None, norm), EmulatedCupy())["cuda"]
    assert isinstance(given[3].gain_D, EmulatorArray) and given[2] is None and given[3].eps == 1e-5


def test_an_array_that_stands_in_two_places_goes_to_the_device_once():
    """Where nothing touches the scores, they are the logits: the cost model counts them once."""
    arguments, _ = row_module("argmax").make_paper_inputs()
    ((_, given),) = copy_calls_to_device({"cuda": None}, arguments, EmulatedCupy()).values()
    assert arguments[0] is arguments[1] and given[0] is given[1] and isinstance(given[0], EmulatorArray)


def test_each_call_gets_arrays_of_its_own_and_the_first_turn_does_not_count():
    seen, waits = [], []
    x = np.zeros(3)
    timings = time_by_turns({"a": (lambda a: (seen.append(a[0]), a.fill(7)), (x,))}, 4, lambda: waits.append(1))
    assert seen == [0.0] * 5 and (x == 0).all() and len(waits) == 10
    assert 0 < timings[0].fastest <= timings[0].median <= timings[0].slowest


def test_a_machine_is_named_with_its_architecture_once(monkeypatch, tmp_path):
    monkeypatch.setattr(compare.platform, "machine", lambda: "x86_64")
    for told, name in (("", "x86_64"), ("x86_64", "x86_64"), ("Some Processor", "Some Processor x86_64")):
        monkeypatch.setattr(compare.platform, "processor", lambda told=told: told)
        monkeypatch.setattr(compare, "Path", lambda _: tmp_path / "cpuinfo")
        assert compare.name_of_processor() == name
    (tmp_path / "cpuinfo").write_text("flags\t: a\nmodel name\t: Two Cores @ 2 GHz\n", encoding="utf-8")
    assert compare.name_of_processor() == "Two Cores @ 2 GHz x86_64"


@pytest.mark.gpu
@pytest.mark.parametrize("name", CATALOG)
def test_on_a_gpu_every_implementation_is_right_and_timed(name, monkeypatch):
    """Older kernels are judged there by this alone."""
    verdicts, judge = [], compare.check

    def noted(*arguments, **how):
        verdicts.append(judge(*arguments, **how))
        return verdicts[-1]

    monkeypatch.setattr(compare, "check", noted)
    timed = {t.implementation.removesuffix(" on the host") for t in md.compare(name, repeats=2).timings}
    labels = list(implementations(CATALOG[name]))
    assert timed == set(labels) and len(verdicts) == len(labels)
    for label, verdict in zip(labels, verdicts, strict=True):
        assert verdict.ok and not (verdict.warnings or verdict.left_out), str(verdict)
        assert ("lived on the GPU" in verdict.where) == label.startswith("cuda"), label


@pytest.fixture(scope="module")
def of_norm():
    return md.compare("norm", repeats=2, machine=["v100", "this"])


def test_what_beats_main_memory_is_explained(of_norm):
    fast = min(t.median for t in of_norm.timings) < of_norm.machine.seconds(of_norm.cost)
    assert fast == any("stay in a cache" in note for note in of_norm.notes)


def test_what_is_reached_follows_from_cost_and_median(of_norm):
    """128 rows of 768 numbers: x, y, their sum and the norm of it, and three vectors."""
    assert of_norm.cost.bytes == 4 * (4 * 128 * 768 + 3 * 768)
    for timing, told in zip(of_norm.timings, of_norm.as_dict()["timings"], strict=True):
        bytes_, operations, share = of_norm.reached(timing)
        assert bytes_ * timing.median == pytest.approx(of_norm.cost.bytes)
        assert operations * timing.median == pytest.approx(of_norm.cost.operations)
        at_most = max(bytes_ / of_norm.machine.bandwidth, operations / of_norm.machine.operations)
        assert share == pytest.approx(at_most) and told["share"] == share
    assert [m.name for m in of_norm.predicted] == ["v100"]


def test_all_of_it_is_read_back_and_laid_side_by_side(of_norm, tmp_path):
    ours, theirs = tmp_path / "ours.json", tmp_path / "theirs.json"
    ours.write_text(json.dumps(of_norm.as_dict()), encoding="utf-8")
    faster = dataclasses.replace(
        of_norm, timings=[dataclasses.replace(t, median=t.median / 2) for t in of_norm.timings[:1]]
    )
    theirs.write_text(json.dumps([faster.as_dict()]), encoding="utf-8")
    (again,), (other,) = read_comparisons(ours), read_comparisons(theirs)
    assert again.as_dict() == of_norm.as_dict()
    table = table_of_comparisons({"ours": [again], "theirs": [other]})
    naive = next(line for line in table.splitlines() if "reference naive" in line)
    assert f"{of_norm.timings[0].median * 1e3:,.3f} ms (1.0x)" in naive
    assert f"{of_norm.timings[0].median * 5e2:,.3f} ms (1.0x)" in naive
    assert next(line for line in table.splitlines() if line.strip().startswith("cpu")).count("ms") == 1


@pytest.mark.parametrize(
    "text",
    ["", "[1]", "{}", '{"name": "norm"}', "[[]]", "[" * 99_999, '{"machine": 3, "predicted": []}'],
    ids=lambda text: text[:9],
)
def test_other_files_are_told_apart(tmp_path, text):
    path = tmp_path / "other.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match="holds no comparisons"):
        read_comparisons(path)


def test_the_roofline_shows_each_implementation_at_its_place(of_norm):
    panel = draw_roofline({"here": [of_norm]}).axes[0]
    points = {tuple(line.get_xydata()[0]) for line in panel.lines if len(line.get_xydata()) == 1}
    intensity = of_norm.cost.operations / of_norm.cost.bytes
    for timing in of_norm.timings:
        assert any(x == pytest.approx(intensity) and y == pytest.approx(of_norm.cost.bytes / timing.median / 1e9)
                   for x, y in points)  # fmt: skip
    roof = panel.lines[0].get_xydata()
    assert roof[1][0] == pytest.approx(of_norm.machine.balance)
    assert roof[0][1] == roof[1][1] == pytest.approx(of_norm.machine.bandwidth / 1e9) and roof[2][1] < roof[1][1]


def test_the_roofline_shows_the_machines_that_were_predicted_for(of_norm):
    (v100,) = of_norm.predicted
    panel = draw_roofline({"here": [of_norm], "there": [of_norm]}).axes[0]
    (roof,) = (line for line in panel.lines if line.get_label() == "v100: 900 GB/s, 15,700 GFLOP/s")
    (left, level), (bend, same), (right, lower) = roof.get_xydata()
    assert bend == pytest.approx(v100.balance) and level == same == pytest.approx(900) and lower < same
    assert left < bend < right and roof.get_linestyle() != "-"


def test_the_legend_of_the_roofline_names_what_is_drawn(of_norm):
    def named(comparison):
        (legend,) = draw_roofline({"here": [comparison]}).legends
        return {text.get_text() for text in legend.get_texts()} & {*MARKERS}

    assert named(of_norm) == {"reference naive", "reference", "cpu"}, "no GPU here, and no point for it"
    onto = dataclasses.replace(of_norm.timings[-1], implementation="cuda on the host")
    assert named(dataclasses.replace(of_norm, timings=[*of_norm.timings, onto])) == {*MARKERS}
    assert named(dataclasses.replace(of_norm, timings=of_norm.timings[1:2])) == {"reference"}


def test_what_only_moves_has_a_place_too(of_norm):
    moves = dataclasses.replace(of_norm, cost=Cost(1000, 0))
    assert draw_roofline({"a": [moves], "b": [of_norm]}).axes[0].get_xlim()[0] > 0


@pytest.mark.parametrize("name", [name for name in CATALOG if ways_to_store(name)])
def test_narrow_weights_and_memories_are_timed_too(name):
    """The cost model sees them, and the shape says so: figures of different ones are never set side by side."""
    found = {stored: row_module(name).make_paper_inputs(stored) for stored in ways_to_store(name)}
    bytes_ = {stored: CATALOG[name].cost(*arguments).bytes for stored, (arguments, _) in found.items()}
    assert len({said for _, said in found.values()}) == len(found)
    if name == "linear_int8":  # rows are rounded to fewer bits, and stay bytes
        assert ways_to_store(name) == ("int8_dynamic", "int8_dynamic7") and len(set(bytes_.values())) == 1
        return
    assert bytes_["float32"] > bytes_["float16"] > bytes_.get("int8", 0)
    assert ways_to_store(name)[:2] == ("float32", "float16") and set(ways_to_store(name)[2:]) <= {
        "int8",
        "int4",
        "int8_blocks",
    }


def test_every_row_that_reads_weights_or_memories_says_how_they_may_be_stored():
    reads = {row.name for row in CATALOG.values() if row.op.startswith(("linear", "attend", "project"))}
    assert {name for name in CATALOG if ways_to_store(name)} == reads - {"prefill", "el_split"}


def test_compare_in_float16():
    found = md.compare("cross_kv", repeats=1, stored="float16")
    assert "float16 weights" in found.shape
    refused = [("cross_kv", "int3", "say float32, float16, int8"), ("ngram", "int8", "in one type alone")]
    refused += [("el_split", "float16", "in one type alone")]  # which reads float16, and has no size of a paper for it
    for name, stored, says in refused:
        with pytest.raises(md.OptionError, match=says):
            md.compare(name, stored=stored)


def test_what_planning_is_for_stands_beside_its_time():
    """The naive planner is the fastest; what it wastes is told."""
    found = md.compare("arena", repeats=1)
    bytes_of = found.amounts
    assert bytes_of["reference naive"] > 5 * bytes_of["reference"]
    assert not any("no GPU" in note for note in found.notes), "it has no kernels"
    rows = {line.split("  ")[0]: line for line in str(found).splitlines()}
    smaller = bytes_of["reference naive"] / bytes_of["reference"]
    assert f"{bytes_of['reference']:,}" in rows["reference"] and f" {smaller:.1f}x " in rows["reference"]
    assert "0.0x" not in str(found) and "of roof" not in str(found)
    assert any("timed is the planner itself" in note for note in found.notes)
    least = next(int(note.split()[0].replace(",", "")) for note in found.notes if "alive at one call" in note)
    assert least <= bytes_of["reference"]
    again = Comparison.from_dict(json.loads(json.dumps(found.as_dict())))
    assert str(again) == str(found) and "x smaller)" in table_of_comparisons({"one": [again]})


def test_progress_goes_up_to_the_whole():
    seen = []
    md.compare("indirection", repeats=1, progress=lambda done, total: seen.append((done, total)))
    assert seen == sorted(seen) and seen[-1][0] == seen[-1][1] and seen[0][0] < 1


def test_a_wrong_implementation_is_not_timed(monkeypatch):
    monkeypatch.setattr(norm_file, "residual_norm_naive", lambda x, y, bias, norm, out=None: (x, y))
    with pytest.raises(NumericalError, match="nothing is timed"):
        md.compare("norm", repeats=1)


# ---- products of bytes -----------------------------------------------------------------------------------------------

WITH_BYTES = Machine("m", 1e9, 2e9, "by hand", int8_operations=8e9)


def test_products_of_bytes_have_a_roof_of_their_own():
    """By hand: 4e9 operations with floats take 2 s, 8e9 with bytes 1 s; where none multiplies bytes, 4 s."""
    cost = Cost(1, 12 * 10**9, 8 * 10**9)
    assert WITH_BYTES.seconds(cost) == WITH_BYTES.computing_seconds(cost) == 3
    assert dataclasses.replace(WITH_BYTES, int8_operations=None).seconds(cost) == 6
    assert WITH_BYTES.seconds(dataclasses.replace(cost, bytes=10**10)) == 10, "memory decides"
    assert WITH_BYTES.seconds(Cost(1, 12 * 10**9)) == 6, "an op of floats alone"


def test_a_comparison_says_what_bytes_take_and_comes_back_whole():
    cost = Cost(10**6, 12 * 10**9, 8 * 10**9)
    found = Comparison("linear_int8", "s", cost, [Timing("cpu", 6.0, 5.0, 7.0)], WITH_BYTES, [MACHINES["t4"]])
    assert "Gop/s  of roof" in str(found) and "(8,000.000 with bytes)" in str(found) and "50.0%" in str(found)
    assert "1.0 GB/s, 2 GFLOP/s, 8 Gop/s with bytes" in str(found) and "32,400 Gop/s with bytes" in str(found)
    assert str(Comparison.from_dict(json.loads(json.dumps(found.as_dict())))) == str(found)
    of_floats = dataclasses.replace(found, cost=Cost(10**6, 10**9))
    assert "with bytes" not in str(of_floats) and "GFLOP/s  of roof" in str(of_floats)


@pytest.mark.parametrize("ending", [{}, {"bias_X": True}, {"bias_X": True, "activation": "relu", "add_to": True}])
def test_what_a_product_of_bytes_costs_counts_the_rounding(ending):
    """Number by number: x, weights, scales, results; q and the row's scale, written and read; packed or not."""
    R, inputs, outputs = 3, 10, 7
    weight = stored_weight("int8_dynamic", Weight(np.ones((inputs, outputs), np.float32)))
    arrays = {"bias_X": np.ones(outputs, np.float32), "add_to": np.ones((R, outputs), np.float32)}
    given = {name: arrays[name] if value is True else value for name, value in ending.items()}
    bytes_ = 4 * R * inputs + inputs * outputs + 4 * outputs + 4 * R * outputs + 2 * (R * inputs + 4 * R)
    bytes_ += sum(a.nbytes for a in given.values() if isinstance(a, np.ndarray))
    each_result = 2 + len(given)  # of two scales
    of_bytes = 2 * R * inputs * outputs
    for packed in (weight, *([] if DOT is None else [pack_int8(weight)])):
        cost = CATALOG["linear_int8"].cost(np.ones((R, inputs), np.float32), packed, **given)
        assert cost == Cost(bytes_, of_bytes + 3 * R * inputs + each_result * R * outputs, of_bytes)


def test_keys_and_values_of_a_source_count_products_of_bytes_too():
    h_RD, heads = np.ones((3, 8), np.float32), Heads(2, 2, 2, 2, 1.0)
    wide = Weight(np.ones((8, 8), np.float32), bias=np.ones(8, np.float32))
    floats, whole = (CATALOG["cross_kv"].cost(h_RD, w, heads) for w in (wide, stored_weight("int8_dynamic", wide)))
    assert floats.int8_operations == 0 and whole.int8_operations == 2 * 3 * 8 * 8
    assert whole.bytes < floats.bytes


@pytest.mark.skipif(DOT is None, reason="no integer dot product here")
def test_this_machine_is_measured_with_bytes_where_it_is_asked():
    here = this_machine(repeats=1, int8=True)
    assert here.int8_operations > 0 and this_machine(repeats=1).int8_operations is None


def test_a_right_function_of_bytes_is_not_refused_as_impossible():
    """Four times as fast as floats can be is what an integer dot product does."""
    submission = Submission(CATALOG["linear_int8"], "mine.py:f", lambda: None)
    cores = os.cpu_count() or 1
    fastest = 10**13 / (CORE_OPERATIONS * cores)
    machine = Machine("m", 1e15, 1e9, "by hand", int8_operations=1e9)
    submission.refuse_impossible(0.3 * fastest, Cost(0, 10**13, 10**13), machine)
    for seconds, cost in ((0.2 * fastest, Cost(0, 10**13, 10**13)), (0.3 * fastest, Cost(0, 10**13))):
        with pytest.raises(RefusedError, match="the time cannot be right"):
            submission.refuse_impossible(seconds, cost, machine)
