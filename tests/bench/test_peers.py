"""The table of peers is what was measured; and ours is asked as the others are."""

import json
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from minidecode.cpu import ngram as cpu_ngram
from minidecode.device.user_functions import load_python_file

HERE = Path(__file__).parents[2]


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(str(HERE / "benchmarks"))  # as if it were run
    return load_python_file(HERE / "benchmarks" / "peers.py")


def test_ratios_are_to_the_best_of_each_peer(script):
    speeds = {"minidecode fp32": 60.0, "minidecode int8": 120.0, "minidecode int8_dynamic": 150.0,
              "CTranslate2 fp32, MKL": 40.0, "CTranslate2 fp32, own": 50.0, "CTranslate2 int8, own": 100.0}  # fmt: skip
    found = {
        "machine": {"processor": "p", "cores": 2, "threads": 2, "blas_kernels": "SkylakeX"}, "note": "busy",
        "versions": dict.fromkeys(("numpy", "numba", "transformers", "torch", "ctranslate2"), "1"),
        "work": {"gpt2": {n: {"tokens_per_second": s, "seconds": [9 / s, 10 / s, 12 / s]} for n, s in speeds.items()}},
    }  # fmt: skip
    lines = script.table(found).splitlines()
    assert lines[2] == "| gpt2 | 60.0 | 120.0 | 150.0 | 50.0 | 100.0 |  | 1.20x (1.20-1.20), 1.50x (1.50-1.50) |  |"
    assert "Medians of 3 turns" in lines[-3]
    assert lines[-1] == "busy" and "SkylakeX" in lines[-2]


def test_a_ratio_is_of_turns_and_a_missed_target_is_said(script):
    """Ours was slow when all were: turn by turn it is always twice as fast, and medians of each say the same."""
    rows = {"minidecode fp32": [1.0, 5.0, 2.0], "minidecode int8_dynamic": [1.0, 1.0, 1.0],
            "transformers": [3.0, 9.0, 6.0], "CTranslate2 fp32, own": [2.0, 10.0, 4.0],
            "CTranslate2 int8, own": [1.2, 1.0, 1.1]}  # fmt: skip
    rows = {name: {"tokens_per_second": 1 / sorted(s)[1], "seconds": s} for name, s in rows.items()}
    assert script.ratio(rows["minidecode fp32"], rows["CTranslate2 fp32, own"]) == "2.00x (2.00-2.00)"
    assert script.ratio(rows["minidecode fp32"], rows["transformers"]) == "3.00x (2.40-3.00)"
    work = "bart-base, beam 4, 4 x 512, 32 new, n-gram 3"
    record = {"machine": {"processor": "AMD EPYC x86_64"}, "work": {work: rows, "another work": rows}}
    assert script.target_lines(record)[2:] == [f"| {work} | 1.3x, 2.00x | 1.1x, 1.10x | 2.5x, 3.00x |"]
    rows["CTranslate2 fp32, own"]["seconds"] = [1.2, 6.0, 2.4]
    assert "| 1.3x, **1.20x, missed** |" in script.target_lines(record)[2]
    record["machine"]["processor"] = "Intel(R) Xeon(R) Processor x86_64"
    assert script.target_lines(record)[2] == f"| {work} | 1.2x, 1.20x | 1.3x, **1.10x, missed** | 2x, 3.00x |"


def test_the_readme_says_what_was_recorded(script):
    recorded = json.loads((HERE / "benchmarks" / "results" / "peers-cpu.json").read_text(encoding="utf-8"))
    assert script.table(recorded) in (HERE / "benchmarks" / "README.md").read_text(encoding="utf-8")
    assert set(recorded["work"]) == set(script.SETTINGS)


def test_the_readme_says_what_was_recorded_of_other_families(script):
    recorded = json.loads((HERE / "benchmarks" / "results" / "peers-models-cpu.json").read_text(encoding="utf-8"))
    assert script.table(recorded) in (HERE / "benchmarks" / "README.md").read_text(encoding="utf-8")
    assert set(recorded["work"]) <= set(script.MORE_SETTINGS)


def test_the_readme_says_what_a_live_model_reached(script):
    """At least 92 % of what ours reaches from a folder, in the median of the turns."""
    recorded = json.loads((HERE / "benchmarks" / "results" / "peers-accelerated-cpu.json").read_text(encoding="utf-8"))
    assert script.accelerated_table(recorded) in (HERE / "benchmarks" / "README.md").read_text(encoding="utf-8")
    assert set(recorded["work"]) == set(script.SETTINGS)
    for rows in recorded["work"].values():
        assert script.middle_ratio(rows["accelerated"], rows[script.OURS]) >= 0.92


def test_the_readme_says_what_was_recorded_on_a_zen_4(script):
    recorded = json.loads((HERE / "benchmarks" / "results" / "peers-zen4-cpu.json").read_text(encoding="utf-8"))
    ((work, rows),) = recorded["work"].items()
    assert work == "gpt2, greedy, 8 x 128, 32 new" and len(rows["minidecode fp32"]["seconds"]) == 11
    pairs = (("minidecode fp32", "CTranslate2 fp32, own, spinning"),
             ("minidecode int8_dynamic", "CTranslate2 int8, own, spinning"),
             ("minidecode fp32", "transformers, spinning"))  # fmt: skip
    cells = " | ".join(script.ratio(rows[ours], rows[theirs]) for ours, theirs in pairs)
    assert f"| {cells} |" in (HERE / "benchmarks" / "README.md").read_text(encoding="utf-8")


def test_the_readme_says_what_was_recorded_on_an_intel(script):
    recorded = json.loads((HERE / "benchmarks" / "results" / "peers-intel-cpu.json").read_text(encoding="utf-8"))
    assert script.table(recorded) in (HERE / "benchmarks" / "README.md").read_text(encoding="utf-8")
    assert script.is_intel(recorded) and set(recorded["work"]) == set(script.SETTINGS)
    assert all(len(row["seconds"]) >= 9 for rows in recorded["work"].values() for row in rows.values())
    floats, int8, _ = zip(*([script.middle_ratio(*pair) for pair in script.pairs_of_rows(rows)]
                            for rows in recorded["work"].values()), strict=True)  # fmt: skip
    said = (f"it is {min(int8):.1f} to {max(int8):.1f} times as fast, and float32 {min(floats):.1f} to"
            f" {max(floats):.1f} times.")  # fmt: skip
    assert said in (HERE / "README.md").read_text(encoding="utf-8")


def test_peers_wait_both_ways(script):
    """Which of the two is faster hangs on the machine; a peer that may only sleep is not at its best."""
    for name, (_, given, environment) in script.SYSTEMS.items():
        if not name.startswith(("minidecode", "llama.cpp", "accelerated")) and "spinning" not in name:
            _, same, spins = script.SYSTEMS[f"{name}, spinning"]
            assert given == same and environment == spins | {"OMP_WAIT_POLICY": "PASSIVE"}
    assert len(script.SYSTEMS) == 21


def test_ours_makes_as_many_tokens_as_were_asked_for(script, tiny_folder):
    setting = {"batch": 2, "length": 3, "new": 4, "beams": 2, "ngram": 0}
    script.prompts_of = lambda setting: [[1, 2, 3], [3, 2, 1]]
    run = script.ours(tiny_folder(), 1, "float32")(setting)
    assert [len(t) for t in run()] == [4, 4]


def test_ours_over_the_plain_cache_is_the_median_of_the_turns_ratios(script):
    """Two systems that take as long as they say, on a clock that hangs on no machine."""
    told = {script.PLAIN: iter([9.0, 4.0, 6.0, 9.0]), script.OURS: iter([9.0, 2.0, 2.0, 2.0])}

    class Pipe:
        def __init__(self, name):
            self.name = name

        def send(self, setting):
            self.setting = setting

        def recv(self):
            return [[1] * self.setting["new"]] * self.setting["batch"], next(told[self.name])

    setting = {"batch": 2, "new": 3}
    rows = script.time_setting(setting, {name: Pipe(name) for name in script.PLAIN_CACHE}, 3)
    assert rows[script.OURS]["over_plain_cache"] == [3.0, 2.5, 3.75] and rows[script.PLAIN]["seconds"] == [
        4.0,
        6.0,
        9.0,
    ]
    found = {
        "machine": {"processor": "p", "cores": 2, "threads": 2, "blas_kernels": "SkylakeX"}, "note": "",
        "work": {"w": rows}, "versions": {"numpy": "1", "numba": "2"},
        "agreed": {"w": {
            "tied_texts": 1, "memory_bytes": {script.PLAIN: 4_000_000, script.OURS: 1_000_000}, "seconds": {
                label: {"encoder": 0.0, "prefill": 1.0, "steps": steps, "search": 0.25}
                for label, steps in ((script.PLAIN, 5.0), (script.OURS, 0.75))
            },
        }},
    }  # fmt: skip
    assert script.plain_table(found).splitlines()[2:] == [
        "| w | 1.0 (4.00-9.00 s) | 3.0 (2.00-2.00 s) | 3.00x (2.50-3.75) | 4.0 MB to 1.0 MB | 1 |", "",
        "| seconds of a run | encoder | prefill | decode steps | search |", "|---|---|---|---|---|",
        "| w: plain cache | 0.00 | 1.00 | 5.00 | 0.25 |", "| w: plan=fast | 0.00 | 1.00 | 0.75 | 0.25 |", "",
        "Tokens per second, 2 threads on 2 cores (p); kernels of our OpenBLAS: SkylakeX; numpy 1, numba 2.",
    ]  # fmt: skip


class Answers:
    """A system's process: takes as long as it says."""

    def __init__(self, *answers):
        self.answers = iter(answers)

    def send(self, setting):
        pass

    def recv(self):
        return next(self.answers)


def test_ours_is_held_against_what_the_machine_allows(script):
    """Each call of an op takes what its bytes or its operations take, whichever is longer."""
    pipes = {script.OURS: Answers(*[([[1, 2]], 30.0)] * 3)}
    beside = {
        "ceilings": Answers(([10.0, 12.0], 0.1), ([30.0, 8.0], 0.1)),  # of two turns: 20 bytes, 10 operations a second
        "least": Answers(([(200, 10), (20, 50)], 1.0)),  # 10 s, which reading takes, and 5 s, which computing takes
    }
    rows = script.time_setting({"batch": 1, "new": 2}, pipes, 2, beside)
    told = {"bytes": 220, "operations": 60, "read_per_second": 20, "operations_per_second": 10, "seconds": 15.0}
    assert rows[script.OURS]["limits"] == told
    (*_, line) = script.limits_table({"work": {"w": rows}}).splitlines()
    assert line.endswith("| 15.00 s | 30.00 s | 50% |")
    assert script.limits_table({"work": {"w": {script.OURS: {"seconds": [1.0]}}}}) == ""


def test_what_ours_does_at_the_least_is_counted_call_by_call(script, tiny_folder):
    setting = {"batch": 2, "length": 3, "new": 4, "beams": 2, "ngram": 0}
    script.prompts_of = lambda setting: [[1, 2, 3], [3, 2, 1]]
    few, more = (script.least_work(tiny_folder(), 1, "float32")(setting | {"new": new})() for new in (2, 4))
    assert 0 < len(few) < len(more) and sum(size for size, _ in few) > 0


class Sent(list):
    send = list.append


def test_texts_are_compared_before_they_are_timed(script, tiny_folder, monkeypatch):
    setting = {"batch": 2, "length": 3, "new": 6, "beams": 2, "ngram": 2}
    script.prompts_of = lambda setting: [[1, 2, 3], [3, 2, 1]]
    script.send_disagreements(good := Sent(), tiny_folder(), [setting])
    assert good[0]["tied_texts"] == 0
    assert good[0]["memory_bytes"][script.PLAIN] > good[0]["memory_bytes"][script.OURS] > 0
    assert all(seconds["steps"] > 0 for seconds in good[0]["seconds"].values())
    monkeypatch.setattr(cpu_ngram, "ban_ngrams", lambda scores_RV, *_: scores_RV)  # bans nothing
    script.send_disagreements(bad := Sent(), tiny_folder(), [setting])
    assert "is another under plan=fast, and no tie explains it" in bad[0]


def test_a_process_has_its_variables_before_numpy_is_loaded(script, monkeypatch):
    """Its BLAS reads them then; afterwards they are as they were here."""
    seen = []

    class Process:
        def __init__(self, **given):
            pass

        def start(self):
            seen.append(os.environ.get("OPENBLAS_CORETYPE"))

    monkeypatch.setenv("OPENBLAS_CORETYPE", "mine")
    script.start_process(SimpleNamespace(Process=Process), print, (), {"OPENBLAS_CORETYPE": "Haswell"})
    assert seen == ["Haswell"] and os.environ["OPENBLAS_CORETYPE"] == "mine"


def test_a_process_that_ends_is_named(script):
    class Ended:
        def recv(self):
            raise EOFError

    with pytest.raises(SystemExit, match="transformers: its process ended without an answer"):
        script.receive_answer(Ended(), "transformers")


def test_nothing_to_do_is_said(script, monkeypatch):
    monkeypatch.setattr("sys.argv", ["peers.py", "--only", "no such work"])
    with pytest.raises(SystemExit, match="nothing to do: works are gpt2, greedy"):
        script.main()


def test_llama_cpp_runs_what_it_can_and_has_a_table_of_its_own(script):
    for system in ("llama.cpp F32", "minidecode int4"):
        assert [script.can_run(system, s) for s in script.SETTINGS.values()] == [True, True, False, False]
    assert all(script.can_run("minidecode fp32", s) for s in script.SETTINGS.values())
    speeds = {"minidecode fp32": 60.0, "minidecode int8_dynamic": 150.0, "llama.cpp F32": 40.0,
              "llama.cpp F32, no flash attention": 50.0, "llama.cpp Q8_0": 100.0}  # fmt: skip
    rows = {n: {"tokens_per_second": s, "seconds": [10 / s] * 3} for n, s in speeds.items()}
    assert script.llama_lines({"work": {"gpt2": rows, "beams": {"minidecode fp32": rows["minidecode fp32"]}}})[2:] == [
        "| gpt2 | 50.0 | 100.0 | 1.20x (1.20-1.20), 1.50x (1.50-1.50) |"
    ]
    assert script.llama_lines({"work": {"beams": {"minidecode fp32": rows["minidecode fp32"]}}}) == []


def test_four_bits_have_columns_where_they_were_timed(script):
    speeds = {"minidecode fp32": 60.0, "minidecode int4": 300.0, "llama.cpp F32": 50.0, "llama.cpp Q4_0": 200.0,
              "llama.cpp Q4_0, no flash attention": 250.0}  # fmt: skip
    rows = {n: {"tokens_per_second": s, "seconds": [10 / s] * 3} for n, s in speeds.items()}
    old = {n: rows[n] for n in ("minidecode fp32", "llama.cpp F32")}
    assert script.llama_lines({"work": {"SmolLM2": rows, "gpt2": old}}) == [
        "| work | llama.cpp F32 | Q8_0 | Q4_0 | minidecode int4 | minidecode / llama.cpp: fp32, int8_dynamic / Q8_0,"
        " int4 / Q4_0 |",
        "|---|---|---|---|---|---|",
        "| SmolLM2 | 50.0 |  | 250.0 | 300.0 | 1.20x (1.20-1.20), , 1.20x (1.20-1.20) |",
        "| gpt2 | 50.0 |  |  |  | 1.20x (1.20-1.20), ,  |",
    ]


def test_a_missing_package_of_llama_cpp_is_named(script, monkeypatch, capsys):
    find = script.importlib.util.find_spec
    absent = ("llama_cpp", "gguf")
    monkeypatch.setattr(script.importlib.util, "find_spec", lambda name: None if name in absent else find(name))
    monkeypatch.setattr("sys.argv", ["peers.py", "--systems", "llama"])
    with pytest.raises(SystemExit, match="nothing to do"):
        script.main()
    assert (
        "llama.cpp is left out, because packages are missing: pip install llama-cpp-python gguf"
        in capsys.readouterr().out
    )
