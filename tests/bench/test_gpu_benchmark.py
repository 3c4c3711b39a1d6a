"""The GPU's benchmark in one command: parts that fail, hang and go on; each system and paper on toy shapes."""

import importlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from minidecode.errors import MemoryBudgetError

FOLDER = Path(__file__).parents[2] / "benchmarks"
NEEDED = "needs transformers itself: pip install '.[oracle]'"
GREEDY, BEAMS = "gpt2, greedy, 1 x 32, 64 new", "bart-large, beam 4, 32 x 1024, 32 new, n-gram 3"
A_PART = """
import os, time

def run(record):
    record.ask("first", lambda: {"milliseconds": [1.0, 0.5, 2.0]})
    record.ask("wrong", lambda: 1 / 0)
    record.ask("ends its process", lambda: os._exit(3))
    record.ask("hangs", lambda: time.sleep(60))
    record["last"] = record.device
"""
A_SCRIPT = """
import sys

def main():
    print("given", *sys.argv[1:], end="")
    print(" and printed\\n\\nlast")
"""
MENDED = """
def run(record):
    for name in ("first", "wrong", "ends its process", "hangs", "last"):
        record.ask(name, lambda: "asked again")
"""


@pytest.fixture
def scripts(monkeypatch):
    """Files of the folder by their own names, so that processes that they start find them."""
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module


@pytest.fixture
def record(scripts, tmp_path):
    """What a part of toy shapes is given, in this process."""

    def make(device: str, before: dict | None = None, **how):
        return scripts("gpu_timing").Record(device, True, tmp_path, before or {}, **how)

    return make


def called(monkeypatch, gpu, *arguments) -> None:
    monkeypatch.setattr("sys.argv", ["gpu.py", "--device", "cpu", *map(str, arguments)])
    gpu.main()


def test_what_fails_or_hangs_ends_alone_and_a_second_call_goes_on(scripts, monkeypatch, tmp_path, capfd):
    gpu, out = scripts("gpu"), tmp_path / "found.json"
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(gpu, "SLOWER", 1)
    monkeypatch.setattr(gpu, "PARTS", {"toy": gpu.Part("toy_part", "run", 60, figure_limit=2),
                                       "script": gpu.Part("toy_script", "main", 9, arguments=("--a", "b")),
                                       "gone": gpu.Part("no_such_part", "run", 9)})  # fmt: skip
    (tmp_path / "toy_script.py").write_text(A_SCRIPT, encoding="utf-8")
    (tmp_path / "toy_part.py").write_text(A_PART, encoding="utf-8")
    called(monkeypatch, gpu, "--only", "toy,script,gone", "--out", out)
    parts = json.loads(out.read_text(encoding="utf-8"))["parts"]
    assert parts["gone"]["state"] == "there is no no_such_part.py here"
    assert parts["script"]["state"] == "done"
    assert parts["script"]["figures"] == {"001": "given --a b and printed", "002": "last"}
    figures = parts["toy"]["figures"]
    assert parts["toy"]["state"] == "some figures failed" and figures["last"] == "cpu"
    assert figures["first"] == {"milliseconds": [1.0, 0.5, 2.0]}
    assert figures["wrong"] == {"failed": "ZeroDivisionError: division by zero"}
    assert figures["ends its process"] == {"failed": "its process ended: see what it printed"}
    assert figures["hangs"] == {"failed": "ended after 2 s of it"}
    printed = capfd.readouterr().out
    assert "s] toy: first: milliseconds 1 (0.5-2)" in printed and "| hangs | failed: ended after 2 s of it |" in printed

    (tmp_path / "toy_part.py").write_text(MENDED, encoding="utf-8")
    for says in ("toy: done (", "toy: done before"):
        called(monkeypatch, gpu, "--only", "toy", "--out", out)
        figures = json.loads(out.read_text(encoding="utf-8"))["parts"]["toy"]["figures"]
        assert says in capfd.readouterr().out and figures["first"] == {"milliseconds": [1.0, 0.5, 2.0]}
        assert [figures[name] for name in ("wrong", "ends its process", "hangs")] == ["asked again"] * 3


def test_the_limits_of_the_usual_parts_fit_two_calls_and_are_longer_without_a_gpu(scripts):
    gpu = scripts("gpu")
    usual = sum(gpu.PARTS[name].limit for name in gpu.groups()["usual"])
    assert f"limits add up to {usual} s" in gpu.__doc__ and usual <= 2 * 480
    assert gpu.groups()["usual"][-1] == "static"
    assert gpu.part_on("cuda", "smoke") == gpu.PARTS["smoke"]
    assert gpu.part_on("emulator", "smoke").limit == 8 * gpu.PARTS["smoke"].limit
    assert gpu.part_on("cpu", "static").figure_limit == 8 * gpu.PARTS["static"].figure_limit


def test_bandwidth_says_in_a_line_that_the_emulator_times_no_kernel(scripts, record):
    scripts("bandwidth").run(there := record("emulator"))
    assert list(there.figures) == ["skipped"] and "no kernel is timed in the emulator" in there.figures["skipped"]


@pytest.mark.parametrize("device", ["cpu", "emulator"])
def test_a_part_that_is_a_script_for_a_gpu_is_skipped_elsewhere(scripts, monkeypatch, tmp_path, device):
    """The pages name them all."""
    gpu, out = scripts("gpu"), tmp_path / "found.json"
    skipped = [name for name, part in gpu.PARTS.items() if part.needs_gpu]
    monkeypatch.setattr("sys.argv", ["gpu.py", "--device", device, "--only", ",".join(skipped), "--out", str(out)])
    gpu.main()
    for name, part in json.loads(out.read_text(encoding="utf-8"))["parts"].items():
        assert part["state"] == gpu.DONE
        assert part["figures"] == {"skipped": f"{gpu.PARTS[name].file}.py times kernels on a GPU alone"}
    guide = (FOLDER.parent / "docs" / "guide" / "gpu.md").read_text(encoding="utf-8")
    assert f"It skips {', '.join(f'`{name}`' for name in skipped)} and `bandwidth`" in guide
    assert f"Skipped there: {', '.join(skipped[:-1])} and {skipped[-1]}" in gpu.__doc__


def test_a_file_of_another_device_is_not_gone_on_with(scripts, monkeypatch, tmp_path):
    gpu, out = scripts("gpu"), tmp_path / "found.json"
    out.write_text(json.dumps({"device": "a card", "quick": True, "parts": {}}), encoding="utf-8")
    with pytest.raises(SystemExit, match=r"found\.json has device a card, and this is cpu: name another file"):
        called(monkeypatch, gpu, "--out", out)


def test_an_unknown_part_is_refused(scripts, monkeypatch, capsys):
    with pytest.raises(SystemExit):
        called(monkeypatch, scripts("gpu"), "--only", "smoke,lauches")
    assert "there is no part lauches: say smoke, launches" in (said := capsys.readouterr().err) and "papers" in said


def test_without_a_gpu_it_ends_in_a_line(scripts, monkeypatch):
    monkeypatch.setattr("sys.argv", ["gpu.py"])
    monkeypatch.setattr("minidecode.device.arrays.device_kind", lambda: "none")
    with pytest.raises(
        SystemExit, match=r"--device cuda: Numba finds no GPU here .minidecode doctor .*; --device emulator runs"
    ):
        scripts("gpu").main()


def test_an_interrupt_ends_in_a_line_and_the_same_command_goes_on(tmp_path):
    """Ctrl-C reaches the process that runs a part, too: it prints nothing."""
    part = "import time\nWORKS = {}\n\ndef smoke(record):\n    record['first'] = 1\n    time.sleep(60)\n"
    (tmp_path / "gpu_models.py").write_text(part, encoding="utf-8")
    code = f"import sys; sys.path[:0] = [{str(tmp_path)!r}, {str(FOLDER)!r}]; import gpu; gpu.main()"
    out = tmp_path / "found.json"
    command = [sys.executable, "-c", code, "--device", "cpu", "--only", "smoke", "--out", str(out)]
    with subprocess.Popen(command, stdout=-1, stderr=-1, text=True, start_new_session=True) as process:
        assert "smoke: first: 1" in process.stdout.readline()
        os.killpg(process.pid, signal.SIGINT)
        assert process.communicate(timeout=60)[1] == "gpu.py: interrupted: the same command goes on from here\n"
    assert process.returncode == 130
    assert json.loads(out.read_text(encoding="utf-8"))["parts"]["smoke"]["figures"] == {"first": 1}


def test_every_part_is_a_function_of_a_file_here_or_of_one_that_needs_a_gpu(scripts):
    gpu = scripts("gpu")
    for name, part in gpu.PARTS.items():
        if not part.needs_gpu:  # their files import CuPy
            assert callable(getattr(scripts(part.file), part.function)), name


def test_what_was_found_is_not_asked_again_and_a_lost_device_ends_the_part(record, scripts):
    def lose():
        raise RuntimeError("CUDA_ERROR_ILLEGAL_ADDRESS")

    there = record("cpu", {"done": 1, "failed": {"failed": "before"}}, tried={"tried"})
    there.ask("done", lambda: pytest.fail("it is done"))
    there.ask("tried", lambda: pytest.fail("it failed in this call"))
    there.ask("failed", lambda: 2)
    with pytest.raises(scripts("gpu_timing").DeviceLostError):
        there.ask("lost", lose)
    assert there.figures == {"done": 1, "failed": 2, "lost": {"failed": "RuntimeError: CUDA_ERROR_ILLEGAL_ADDRESS"}}


@pytest.mark.parametrize(
    "error",
    [MemoryError(), MemoryBudgetError("needs more"), RuntimeError("CUDA out of memory. Tried to allocate 2 GiB"),
     RuntimeError("[2] Call to cuMemAlloc results in CUDA_ERROR_OUT_OF_MEMORY"),
     RuntimeError("CUBLAS_STATUS_ALLOC_FAILED")],
)  # fmt: skip
def test_being_out_of_memory_has_many_names(scripts, error):
    timing = scripts("gpu_timing")
    assert timing.why(error) == timing.NO_MEMORY and not timing.is_sticky(error)


def test_other_failures_are_told_in_a_line_that_a_table_can_hold(scripts):
    assert scripts("gpu_timing").why(ValueError("a | b\nmore")) == "ValueError: a / b"


def test_whole_models_stand_beside_eager(scripts):
    gpu = scripts("gpu")
    mine = {"call_ms": [50.0, 49.0, 52.0], "step_ms": 0.75, "first_token_ms": [2.0, 1.0, 3.0], "host_us_a_step": 19.6,
            "stages_ms": {"prefill": 1.5, "steps": 1.25}, "graphs": {"captured": 0, "reused": 2},
            "tokens": [[1, 2, 3]]}  # fmt: skip
    eager = {"call_ms": [700.0, 650.0, 800.0], "step_ms": 11.0, "tokens": [[1, 2, 4]]}
    parts = {"ours": {"figures": {GREEDY: mine}}, "eager": {"figures": {GREEDY: eager}},
             "static": {"figures": {GREEDY: {"failed": "out of memory"}}}}  # fmt: skip
    lines = gpu.models_table(parts)
    assert lines[2] == (
        f"| {GREEDY} | 50.0 (49.0-52.0; 0.75 a step) | 700.0 (650.0-800.0; 11.00 a step) | out of memory |  | 14.00x |"
        " 51.2 reached | 2 of 3 |"
    )
    assert gpu.beside_goals(BEAMS, {"call_ms": [200.0, 190.0, 210.0]}) == "260 reached, **155 missed**"
    assert gpu.beside_goals(BEAMS, {"failed": "out of memory"}) == "260, 155"
    assert lines[-1] == f"| {GREEDY} | 2.00 | 0.750 | 19.6 | prefill 1.5, steps 1.2 | 0, 2 |"


# ---- the parts, on toy shapes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("device", "work"), [("emulator", GREEDY), ("cpu", BEAMS)])
def test_ours_is_timed_by_call_first_token_and_step(scripts, record, device, work):
    """In the emulator under the plan of a GPU; from a folder without a tokenizer, as the script makes it."""
    models, there = scripts("gpu_models"), record(device)
    models.timed_works(there, models.ours, [work])
    found = there.figures[work]
    assert len(found["tokens"][0]) == 2 and "prefill" in found["stages_ms"]
    assert any("(emulator)" in kernel for kernel in found["kernels"]) == (device == "emulator")
    assert {"call_ms", "first_token_ms", "step_ms", "host_us_a_step", "load_s"} <= found.keys()


def test_the_smoke_test_sees_other_tokens(scripts, record, monkeypatch):
    models = scripts("gpu_models")
    models.smoke(there := record("emulator"))
    assert there.figures == {"gpt2, beam 2": "the CPU's tokens"}
    load, given = __import__("minidecode").load, iter([0, 1])
    monkeypatch.setattr("minidecode.load", lambda *_, **how: Other(load(*_), next(given)))
    models.smoke(there := record("cpu"))
    assert "instead of the CPU's" in there.figures["gpt2, beam 2"]["failed"]


class Other:
    """A model whose tokens are off by a number."""

    def __init__(self, model, off):
        self.model, self.off = model, off

    def generate(self, **options):
        out = self.model.generate(**options)
        out.token_ids[0][-1] += self.off
        return out


def test_launches_on_the_emulated_device(scripts, record, monkeypatch):
    launches = scripts("gpu_launches")
    monkeypatch.setattr(launches, "generations", lambda record: {})
    launches.run(there := record("emulator"))
    failed = {name for name, found in there.figures.items() if isinstance(found, dict) and "failed" in found}
    assert there.figures["a kernel by launch(), in a graph"]["microseconds"][0] > 0
    assert there.figures["a kept graph sees what is copied into its arrays"] == "yes"
    assert there.figures["and launched by another thread"] == "yes" and not failed
    assert not [name for name in there.figures if "CuPy" in name or "nvmath" in name]


def test_generations_say_the_same_in_each_way_to_launch(scripts, record):
    launches, there = scripts("gpu_launches"), record("emulator")
    ways = launches.generations(there)
    for name in list(ways)[::2]:
        there.ask(name, ways[name])
    assert all(found["same_tokens"] for found in there.figures.values()) and len(there.figures) == 2


@pytest.mark.parametrize(("device", "quick"), [("emulator", True), ("cuda", False), ("cuda", True)])
def test_where_the_library_begins_to_win_is_kept_for_a_gpu_alone(scripts, monkeypatch, tmp_path, device, quick):
    part, kept, asked = scripts("gpu_library"), [], []

    def crossing(stored, *given):
        asked.append(given)
        return scripts("minidecode.bench.library_rows").Crossing(stored, 9, {8: {"kernels": 1.0, "library": 2.0}}, True)

    monkeypatch.setattr(part, "measure_crossing", crossing)
    monkeypatch.setattr(part, "save_library_rows", kept.append)
    part.run(there := scripts("gpu_timing").Record(device, quick, tmp_path, {}))
    assert set(asked) == {(device, part.TOYS if quick else part.DECODING)}
    assert all(there.figures[stored]["rows"] == 9 for stored in part.STORED)
    assert kept == ([dict.fromkeys(part.STORED, 9)] if (device, quick) == ("cuda", False) else [])
    assert ("kept" in there) == bool(kept)


def test_ways_to_attend_in_the_emulator_and_table_3(scripts, record, monkeypatch):
    papers = scripts("gpu_papers")
    monkeypatch.setattr(papers, "measure_setting", lambda *_, **__: {"call_ms": [1, 1, 1]})
    papers.run_el(there := record("emulator"))
    assert there.figures["EL, cuda"]["in_a_graph_ms"][0] > 0
    assert {"cache per beam, cuda", "cache per sentence, cuda"} <= there.figures.keys()
    papers.run_ngram(there := record("cpu"))
    assert there.figures["reference naive"]["times_as_fast"] == 1.0


def test_multi_query_attention_has_one_key_head(scripts, record):
    papers, there = scripts("gpu_papers"), record("cpu")
    papers.run_multi_query(there)
    assert list(there.figures) == ["multi-head, beam 1", "multi-head, beam 2", "multi-query, beam 1",
                                   "multi-query, beam 2"]  # fmt: skip
    caches = [there.figures[f"{kind}, beam 2"]["cache_mb"] for kind in ("multi-head", "multi-query")]
    assert all("call_ms" in found for found in there.figures.values()) and caches[1] <= caches[0]


PAPERS = {  # part -> figures of a quick run that must be there
    "run_narrow": ["float16", "int8", "int8_blocks", "int4"],
    "run_whole_models": ["gpt2", "bart-large"],
    "run_rungs": ["bart-large, rung by rung"],
    "run_shares": ["baseline, %", "n-gram ban by a kernel, %", "cache de-duplication, %", "EL, %", "fused kernels, %"],
    "run_quality": [f"{label}, {dtype}" for dtype in ("float32", "float16") for label in ("baseline", "FastSeq", "EL",
                                                                                         "all")],
    "run_batch_sizes": [f"{cache}, batch {n}" for cache in ("cache per beam", "de-duplicated", "EL") for n in (1, 2)],
    "run_lightseq": ["beam 4, 1 x 4", "top-k 4, 1 x 4"],
}  # fmt: skip


def run_quickly(scripts, there, part: str) -> dict:
    """The figures of a part, all of which must be there and none failed."""
    place = "gpu_models" if part == "run_narrow" else "gpu_papers"
    getattr(scripts(place), part)(there)
    assert list(there.figures) == PAPERS[part]
    failed = {name: found for name, found in there.figures.items() if "failed" in found}
    assert not failed
    return there.figures


@pytest.mark.parametrize("part", list(PAPERS))
def test_the_papers_parts_run_to_their_end(scripts, record, part, monkeypatch):
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "0")
    figures = run_quickly(scripts, record("cpu"), part)
    if part == "run_narrow":
        assert all(found["over_float16"] > 0 for name, found in figures.items() if name != "float16")
        assert {found["ops"]["linear"]["ran"].partition(" ")[0] for found in figures.values()}
    if part in ("run_whole_models", "run_rungs"):
        for found in figures.values():
            assert found["baseline, speed"] == 1 and all(p["different_sentences"] == 0 for p in found["plans"].values())
    if part == "run_shares":
        for found in figures.values():
            assert 99 <= sum(share for stage, share in found.items() if stage != "seconds") <= 101
    if part == "run_quality":
        assert all(found == {"texts": 1, "other_than_the_cpus": 0} for found in figures.values())
    if part == "run_batch_sizes":
        held = [figures[f"{cache}, batch 2"]["cache_mb"] for cache in ("cache per beam", "de-duplicated", "EL")]
        assert held == sorted(held, reverse=True)


@pytest.mark.parametrize("part", list(PAPERS))
def test_each_part_runs_in_the_emulator(scripts, record, part, monkeypatch):
    """Minutes: `pytest --rest` runs one part in four."""
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "0")
    run_quickly(scripts, record("emulator"), part)


def test_each_plan_of_a_paper_can_be_chosen_on_a_device(scripts, monkeypatch):
    from minidecode import Plan

    monkeypatch.setattr("minidecode.device.arrays.device_kind", lambda: "gpu")
    monkeypatch.setattr("minidecode.plan.device_kind", lambda: "gpu", raising=False)
    plans = [scripts("whole_models").ON_DEVICE, scripts("gpu_papers").ON_RUNGS, scripts("lightseq").ON_DEVICE]
    for plan in (plan for each in plans for plan in each.values()):
        for has_encoder in (True, False):
            functions, _ = Plan.parse(plan).resolve(has_encoder)
            assert functions["residual_norm"].__module__ == "minidecode.cuda.norm"
            backend = "reference" if "ngram=naive" in plan else "cuda"
            assert functions["ban_ngrams"].__module__ == f"minidecode.{backend}.ngram"


def test_els_figures_are_of_rates_and_of_kernels(scripts, record, monkeypatch):
    papers = scripts("gpu_papers")
    monkeypatch.setattr(papers, "ways_to_attend", lambda *_: {"EL, cuda": lambda: lambda: None, "EL, cuda v1": None})
    papers.run_el_figures(there := record("cpu"))
    assert there.figures["rates"].keys() == {"bytes_per_second", "float16_operations_per_second"}
    groups = [name for name in there.figures if name.startswith("Figure 3: ")]
    assert len(groups) == 9 and all(there.figures[name]["us"] > 0 for name in groups)
    assert there.figures["Figure 4: N = 4, beam 2, EL, cuda"]["by_host_ms"][0] >= 0
    assert not any("v1" in name for name in there.figures)


def test_larger_batches_end_where_memory_does(scripts, record, monkeypatch):
    papers, asked = scripts("gpu_papers"), []

    def of_model(model, plan):
        def prepare(setting):
            asked.append((plan, setting["batch"]))
            if "split" in plan and setting["batch"] == 2:
                raise MemoryError
            return lambda: ([[0]], {"cache_mb": 1.0})

        return prepare

    monkeypatch.setattr(papers, "system_of_model", of_model)
    monkeypatch.setattr(papers, "load_ours", lambda *_: None)
    papers.run_batch_sizes(there := record("cpu"))
    assert there.figures["de-duplicated, batch 2"] == {"failed": "out of memory"}
    assert asked[-1] == ("numpy,cache=el", 2) and "EL, batch 2" in there.figures


def test_groups_of_parts_have_names(scripts, monkeypatch, tmp_path):
    gpu, asked = scripts("gpu"), []
    record = {"parts": {}, "machine": {"processor": "p", "cores": "2"}, "versions": {}, "date": "d", "quick": True}
    monkeypatch.setattr(gpu, "measured_parts", lambda chosen, *_: asked.append(chosen) or record)
    for only in ("usual", "papers", "compute_sanitizer", "papers,library", "all"):
        called(monkeypatch, gpu, "--only", only)
    usual, papers, sanitizer, two, everything = asked
    assert "ours" in usual and "narrow" in usual and "rungs" not in usual and sanitizer == ["compute_sanitizer"]
    assert "rungs" in papers and two == [*papers, "library"]
    assert set(everything) == {*usual, *papers, *sanitizer}


# ---- transformers ----------------------------------------------------------------------------------------------------


@pytest.mark.oracle
@pytest.mark.parametrize("work", [GREEDY, BEAMS])
def test_both_sides_have_the_same_weights(scripts, record, work):
    """Of random weights the first token is clear enough to survive float16."""
    pytest.importorskip("torch", reason=NEEDED)
    pytest.importorskip("transformers", minversion="5.0", reason=NEEDED)
    models = scripts("gpu_models")
    mine, theirs = record("cpu"), record("cpu")
    models.timed_works(mine, models.ours, [work])
    models.timed_works(theirs, models.transformers, [work])
    assert mine.figures[work]["tokens"][0][0] == theirs.figures[work]["tokens"][0][0]


@pytest.mark.oracle
def test_a_static_cache_says_the_same_and_is_compiled(scripts, record, monkeypatch):
    torch = pytest.importorskip("torch", reason=NEEDED)
    transformers = pytest.importorskip("transformers", minversion="5.0", reason=NEEDED)
    compiled = []
    monkeypatch.setattr(torch, "compile", lambda f, **how: compiled.append(how["mode"]) or f)
    monkeypatch.setattr(transformers.CompileConfig, "_compile_all_devices", True)  # this is no GPU
    models = scripts("gpu_models")
    models.run_static(static := record("cpu"))
    models.timed_works(eager := record("cpu"), models.transformers, list(static.figures))
    assert all(static.figures[work]["tokens"] == eager.figures[work]["tokens"] for work in eager.figures)
    assert set(compiled) == {"reduce-overhead"}


@pytest.mark.parametrize("name", ["gpu_attention", "gpu_linear", "gpu_rows", "gpu_vocab"])
def test_scripts_that_need_a_gpu_say_what_to_install(scripts, monkeypatch, name):
    monkeypatch.setattr(scripts("gpu_timing"), "find_spec", lambda package: None)
    monkeypatch.setattr("sys.argv", [f"{name}.py"])
    with pytest.raises(SystemExit, match=rf"^{name}\.py needs a GPU and CuPy: pip install '\.\[cu13\]'"):
        scripts(name).main()
