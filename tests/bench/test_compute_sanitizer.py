"""compute-sanitizer's script: what it launches, how it reads a tool, and a lot under a program that plays the tool.

The samples are written in the form that the tool's manual describes.
"""

import importlib
import json
import pkgutil
import stat
import sys
from pathlib import Path

import numpy as np
import pytest

from minidecode import cuda

FOLDER = Path(__file__).parents[2] / "benchmarks"
OURS = "_ZN10minidecode4cuda9embedding22embedding_in_registers12_3clocals_3e14embedding_keptB4v232B1cE5ArrayIxLi1E"
MEMCHECK = f"""========= COMPUTE-SANITIZER
========= Invalid __global__ write of size 4 bytes
=========     at {OURS}+0x160 in embedding.py:40
=========     by thread (3,0,0) in block (0,0,0)
=========     Access at 0x7f0 is out of bounds
=========     and is 1 bytes after the nearest allocation at 0x7e0 of size 16 bytes
=========
========= Invalid __global__ write of size 4 bytes
=========     at 0x80 in {OURS}
=========     by thread (4,0,0) in block (0,0,0)
=========
========= Program hit CUDA_ERROR_LAUNCH_FAILED (error 719) due to "unspecified launch failure" on CUDA API call.
=========     Saved host backtrace up to driver entry point at error
=========
========= Invalid __shared__ read of size 8 bytes
=========     at 0x40 in plain_kernel
=========     by thread (0,0,0) in block (1,0,0)
=========
========= ERROR SUMMARY: 4 errors
"""
RACECHECK = """========= COMPUTE-SANITIZER
========= Error: Race reported between Write access at _ZN16labelled_kernels13shared_memory5racesB2v1E+0x160 in a.py:10
=========     and Read access at _ZN16labelled_kernels13shared_memory5racesB2v1E+0x1a0 in a.py:12 [124 hazards]
=========
========= Warning: Race reported between Read access at 0x60 in _Z5otherPf
=========     and Write access at 0x90 in _Z5otherPf [4 hazards]
=========
========= RACECHECK SUMMARY: 2 hazards displayed (1 error, 1 warning)
"""
SYNCCHECK = f"""========= COMPUTE-SANITIZER
========= Barrier error detected. Divergent thread(s) in block
=========     at {OURS}+0xb0
=========     by thread (0,0,0) in block (0,0,0)
=========
========= ERROR SUMMARY: 1 error
"""
INITCHECK = f"""========= COMPUTE-SANITIZER
========= Uninitialized __global__ memory read of size 4 bytes
=========     at 0xb0 in {OURS}
=========     by thread (64,0,0) in block (0,0,0)
=========     Address 0x7f0
=========
========= ERROR SUMMARY: 1 error
"""
PLAYER = '''#!{python}
"""Plays a tool: runs the program, and says of the first call what a sample says."""
import json, subprocess, sys
options = sys.argv[1 : sys.argv.index(sys.executable)]
given = dict(zip(options[::2], options[1::2]))
command = sys.argv[len(options) + 1 :]
code = subprocess.run(command).returncode
first = json.loads(command[-1])["calls"][0]
if given["--tool"] == "racecheck" and isinstance(first, str):
    report = "========= Error: Race reported between Write access at _Z%d%sPf+0x1\\n" % (len(first), first)
else:
    report = ""
with open(given["--log-file"], "w") as log:
    log.write("========= COMPUTE-SANITIZER\\n" + report + "========= ERROR SUMMARY: %d errors\\n" % bool(report))
sys.exit(code)
'''


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    monkeypatch.setattr(sys, "path", list(sys.path))
    return importlib.import_module("compute_sanitizer")


@pytest.mark.parametrize(
    ("log", "found", "summary"),
    [
        (MEMCHECK, {"embedding_kept": {"Invalid __global__ write of size 4 bytes": 2},
                    "plain_kernel": {"Invalid __shared__ read of size 8 bytes": 1}}, "ERROR SUMMARY: 4 errors"),
        (RACECHECK, {"races": {"Error: Race reported between Write access": 1},
                     "other": {"Warning: Race reported between Read access": 1}},
         "RACECHECK SUMMARY: 2 hazards displayed (1 error, 1 warning)"),
        (SYNCCHECK, {"embedding_kept": {"Barrier error detected. Divergent thread(s) in block": 1}},
         "ERROR SUMMARY: 1 error"),
        (INITCHECK, {"embedding_kept": {"Uninitialized __global__ memory read of size 4 bytes": 1}},
         "ERROR SUMMARY: 1 error"),
        ("========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n", {}, "ERROR SUMMARY: 0 errors"),
        ("========= COMPUTE-SANITIZER\n========= Target application terminated before first instrumented API call\n"
         "========= Error: couldn't find exit code.\n", {}, None),
    ],
    ids=["memcheck", "racecheck", "synccheck", "initcheck", "clean", "no call of CUDA"],
)  # fmt: skip
def test_a_tools_output_is_read(script, log, found, summary):
    assert script.findings_in(log) == (found, summary)


def test_the_calls_launch_what_they_are_there_for(script):
    plan = script.planned(("ngram",))
    assert {tuple(call[:2]) for call in plan["calls"]} == {
        ("ngram", "cuda v1"),
        ("ngram", "cuda v2"),
        ("ngram", "cuda"),
    }
    names = {kernel.py_func.__name__ for kernel, _ in script.declared_signatures()}
    assert not set(plan["not launched"]) & {"thread_per_row", "block_per_row", "block_per_row_staged"}
    assert set(plan["not launched"]) <= names and plan["signatures"] - sum(plan["not launched"].values()) == 3


def test_each_signature_that_kernels_are_built_for_has_a_call(script):
    """The list of tests/conformance/test_kernel_build.py."""
    modules = [info.name for info in pkgutil.walk_packages(cuda.__path__, "minidecode.cuda.") if not info.ispkg]
    declared = [getattr(importlib.import_module(name), "SIGNATURES", {}) for name in modules]
    signatures = [of for each in declared for of in each.values()]
    plan = script.planned(None)
    assert plan["signatures"] == sum(map(len, signatures)) > 260
    assert plan["not launched"] == {}


def test_a_signature_without_a_call_is_named(script, monkeypatch):
    missing = {"softmax_kept": 4, "softmax_in_passes": 2, "warp_per_query": 1}
    assert missing.items() <= script.planned(("prefill",))["not launched"].items()
    calls = script.calls_of_prefill(lambda *shape, dtype="float32": np.ones(shape, dtype))
    monkeypatch.setattr(script, "special_calls", lambda: calls)
    monkeypatch.setattr(script, "CATALOG", {"prefill": script.CATALOG["prefill"]})
    assert not missing.keys() & script.planned(None)["not launched"].keys()


def test_special_calls_launch_kernels_with_constants(script, monkeypatch):
    from minidecode.cuda import linear
    from minidecode.device.seen_kernels import dry_launches, seen_kernels

    calls = script.special_calls()
    for stored, made in (*linear.FEW_ROWS.items(), *linear.FEW_BITS.items()):
        for m in made:
            with dry_launches(), seen_kernels() as seen:
                calls[m.kernel.py_func.__name__]("emulator")
            assert [kernel for kernel, _ in seen] == [m.kernel], stored


def test_calls_run_one_by_one_and_say_which_began_and_ended(script, tmp_path):
    labelled = {kernel.name: kernel for kernel in script.suite()}
    calls = ["one_barrier_a_step_with_two_buffers", "two_buffers_that_change_too_seldom"]
    assert set(calls) <= labelled.keys()
    script.child({"device": "emulator", "set": "suite", "calls": calls, "progress": str(tmp_path / "a")})
    lines = [json.loads(line) for line in (tmp_path / "a").read_text(encoding="utf-8").splitlines()]
    assert lines == [[what, call] for call in calls for what in ("begins", "ended")]
    wrong = [["ngram", "cuda v1", 0], ["ngram", "cuda v1", 10_000]]
    script.child({"device": "emulator", "set": "signatures", "calls": wrong, "progress": str(tmp_path / "b")})
    lines = [json.loads(line)[:2] for line in (tmp_path / "b").read_text(encoding="utf-8").splitlines()]
    assert lines == [["begins", wrong[0]], ["ended", wrong[0]], ["begins", wrong[1]], ["failed", wrong[1]]]


def player(folder: Path, text: str = PLAYER) -> str:
    path = folder / "compute-sanitizer"
    path.write_text(text.replace("{python}", sys.executable), encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


@pytest.mark.skipif(sys.platform == "win32", reason="the player is a script with a first line for Unix")
def test_a_lot_under_a_program_that_plays_the_tool(script, monkeypatch, tmp_path):
    """The same processes as on a GPU; the kernels run in the emulator."""
    monkeypatch.setattr(script, "TOOLS", ("memcheck", "racecheck"))
    calls = ["one_barrier_a_step_with_two_buffers", "two_buffers_that_change_too_seldom"]
    lot = script.run_lot("suite", calls, "emulator", player(tmp_path), seconds=200)
    assert lot["calls"] == calls and [lot[tool]["ended"] for tool in script.TOOLS] == [2, 2]
    assert lot["memcheck"]["found"] == {} and lot["memcheck"]["summaries"] == ["ERROR SUMMARY: 0 errors"]
    assert lot["racecheck"]["found"] == {calls[0]: {"Error: Race reported between Write access": 1}}


ENDS_EARLY = '''#!{python}
"""Notes what a process would, which one call ends and one fails."""
import json, sys
asked = json.loads(sys.argv[-1])
with open(asked["progress"], "a") as progress:
    for call in asked["calls"]:
        print(json.dumps(["begins", call]), file=progress)
        if call == "ends it":
            sys.exit(9)
        print(json.dumps(["failed", call, "an error"] if call == "fails" else ["ended", call]), file=progress)
'''


@pytest.mark.skipif(sys.platform == "win32", reason="the player is a script with a first line for Unix")
def test_what_ends_its_process_is_noted_and_the_rest_goes_on(script, tmp_path):
    tool = player(tmp_path, ENDS_EARLY)
    lot = script.run_lot("suite", ["a", "ends it", "fails", "b"], "emulator", tool, seconds=100)
    for name in script.TOOLS:
        assert lot[name]["ended"] == 2 and lot[name]["processes"] == 2
        assert lot[name]["lost"] == {"ends it": "did not end", "fails": "an error"}


@pytest.mark.skipif(sys.platform == "win32", reason="the player is a script with a first line for Unix")
def test_a_tool_that_makes_no_call_or_hangs_is_noted(script, tmp_path):
    lot = script.run_lot("suite", ["a"], "emulator", player(tmp_path, "#!/bin/sh\necho no such option\n"), seconds=60)
    assert lot["memcheck"]["lost"] == {"a": "the tool made no call: no such option"}
    lot = script.run_lot("suite", ["a"], "emulator", player(tmp_path, "#!/bin/sh\nexec sleep 60\n"), seconds=1)
    assert lot["memcheck"]["lost"] == {"a": "the tool made no call: it printed nothing"}
    assert script.looked_at([lot], "memcheck") == set()


@pytest.fixture
def recorded():
    return json.loads((FOLDER / "results" / "kernel-suite.json").read_text(encoding="utf-8"))["kernels"]


def test_tables_say_not_measured_until_all_was(script, recorded):
    words = importlib.import_module("kernel_suite").IN_WORDS
    rows = script.suite_table({}, recorded, words).splitlines()
    assert rows[-2] == "| all | 69 | 69 | " + " | ".join(["not measured"] * 5) + " |"
    assert rows[-1] == "| right kernels: false alarms | 59 | 0 | " + " | ".join(["not measured"] * 5) + " |"
    assert "| memcheck | not measured | | |" in script.signatures_table({})


def test_tables_say_who_finds_what(script, recorded):
    words = importlib.import_module("kernel_suite").IN_WORDS
    wrong = [k["kernel"] for k in recorded if not k["right"]]
    right = next(k["kernel"] for k in recorded if k["right"])

    def tool(found=(), lost=None):
        return {
            "ended": 3,
            "lost": lost or {},
            "processes": 1,
            "summaries": [],
            "found": {k: {"x": 1} for k in found},
        }

    hung = {wrong[2]: "did not end"}
    lot = {"calls": [k["kernel"] for k in recorded], "memcheck": tool(wrong[:2], hung), "racecheck": tool(wrong[1:4]),
           "initcheck": tool(), "synccheck": tool([right])}  # fmt: skip
    table = script.suite_table({"suite 1": lot}, recorded, words)
    assert "| all | 69 | 69 | 2 | 3 | 0 | 0 | 4 |" in table
    assert "| right kernels: false alarms | 59 | 0 | 0 | 0 | 0 | 1 | 1 |" in table
    assert (
        f"Found by no tool: `{wrong[4]}`" in table and f"Ended by an error or a limit of time: `{wrong[2]}`." in table
    )
    plan = {"calls": [1], "signatures": 5, "launched": 4, "not launched": {"divide": 2}}
    lot = {"calls": ["a"], **{name: tool() for name in script.TOOLS}} | {"racecheck": tool(["sums"], {"b": "an error"})}
    table = script.signatures_table({script.PLAN: plan, "signatures 1": lot})
    assert "| racecheck | 3 | b (an error) | `sums` (x) |" in table and "| memcheck | 3 |  | none |" in table
    assert "Calls that launch 3 of 5 signatures.\nNot launched: `divide` (2)." in table


@pytest.mark.skipif(sys.platform == "win32", reason="the player is a script with a first line for Unix")
def test_the_part_goes_on_where_it_ended_and_writes_its_tables(script, monkeypatch, tmp_path):
    """From the command on; the lots are played, which the tests above run."""
    gpu, asked = importlib.import_module("gpu"), []
    tool = {"ended": 1, "lost": {}, "processes": 1, "summaries": [], "found": {}}

    def lot(which, calls, device, program):
        asked.append((which, len(calls)))
        return {"calls": list(map(script.as_text, calls)), **dict.fromkeys(script.TOOLS, tool)}

    monkeypatch.setattr(script, "run_lot", lot)
    monkeypatch.setattr(script, "planned", lambda rows: {"calls": [["ngram", "cuda", n] for n in range(99)],
                                                         "signatures": 1, "not launched": {}})  # fmt: skip
    monkeypatch.setattr(script, "found_tool", lambda given=None: "a tool")
    monkeypatch.setattr(script, "QUICK_KERNELS", 99)
    record = importlib.import_module("gpu_timing").Record("emulator", True, tmp_path, {"signatures 1": {"kept": 1}})
    script.run(record)
    assert asked == [("signatures", 45), ("signatures", 9), ("suite", 32), ("suite", 32), ("suite", 32), ("suite", 3)]
    assert gpu.PARTS["compute_sanitizer"].file == "compute_sanitizer"
    page = tmp_path / "page.md"
    page.write_text("<!-- compute-sanitizer: x -->\n<!-- end of compute-sanitizer -->\n", encoding="utf-8")
    made = {"parts": {"compute_sanitizer": {"figures": record.figures}}, "machine": {"processor": "p", "cores": "2"},
            "versions": {}, "date": "d", "quick": True}  # fmt: skip
    monkeypatch.setattr(gpu, "measured_parts", lambda *_: made)
    monkeypatch.setattr("sys.argv", ["x", "--device", "emulator", "--readme", str(page)])
    script.main()
    assert "| kind of mistake | wrong kernels | emulator | memcheck |" in page.read_text(encoding="utf-8")


def test_without_the_tool_it_says_so(script, monkeypatch, tmp_path):
    monkeypatch.setattr(script, "found_tool", lambda given=None: None)
    record = importlib.import_module("gpu_timing").Record("emulator", True, tmp_path, {})
    script.run(record)
    assert record.figures == {"compute-sanitizer": "not found: it comes with the CUDA toolkit"}
    monkeypatch.setattr("sys.argv", ["x", "--device", "emulator"])
    with pytest.raises(SystemExit, match="there is no compute-sanitizer here"):
        script.main()


def test_the_page_has_the_table_as_it_stands(script, recorded):
    """Until a GPU has run it, the tools' columns say so."""
    results = FOLDER / "results" / "compute-sanitizer-h100.json"
    figures = (
        json.loads(results.read_text("utf-8"))["parts"]["compute_sanitizer"]["figures"] if results.exists() else {}
    )
    words = importlib.import_module("kernel_suite").IN_WORDS
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert script.suite_table(figures, recorded, words) in page and script.signatures_table(figures) in page
