"""Unchanged scripts of transformers: run accelerated, or compared call by call; and the two meanings of one name."""

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

NEEDED = "needs transformers itself: pip install '.[oracle]'"
pytest.importorskip("torch", reason=NEEDED)
transformers = pytest.importorskip("transformers", minversion="5.0", reason=NEEDED)

from minidecode.commands import cli  # noqa: E402
from minidecode.live.script import main  # noqa: E402

pytestmark = pytest.mark.oracle

ROOT = Path(__file__).parents[2]
FOLDER = sorted((ROOT / "tests" / "golden" / "gpt2").glob("*/config.json"))[0].parent
SCRIPT = f"""
import os, sys
os.environ["HF_HUB_OFFLINE"] = "1"
import torch
from transformers import AutoModelForCausalLM
model = AutoModelForCausalLM.from_pretrained({str(FOLDER)!r}).eval()
if "--wrong" in sys.argv:  # transformers' own answers are changed, and ours are not
    inner = model.prepare_inputs_for_generation
    model.prepare_inputs_for_generation = lambda ids, *args, **kwargs: inner((ids + 1) % 30, *args, **kwargs)
ids = torch.tensor([[9, 10, 11, 12]])
for options in ({{"num_beams": 2}}, {{"do_sample": True}}, {{}}, {{"num_beams": 3}}):
    print(model.generate(ids, max_new_tokens=4, **options).tolist())
print("generate" in vars(model), sys.argv[1:])
if "--ends" in sys.argv:
    sys.exit(7)
"""

STATEFUL = (
    SCRIPT[: SCRIPT.index("for options")]
    + """
import threading
from transformers import LogitsProcessor, LogitsProcessorList
class Next(LogitsProcessor):  # the likeliest token is another at each call
    calls = 0
    def __call__(self, ids, scores):
        self.calls += 1
        scores = scores.clone()
        scores[:, 10 + self.calls] += 50
        return scores
def next_by_closure():
    calls = []
    def process(ids, scores):
        calls.append(1)
        used.append(1)
        scores = scores.clone()
        scores[:, 10 + len(calls)] += 50
        return scores
    return process
used, counts = [], Next()
cannot = Next()
cannot.lock = threading.Lock()
for each in (counts, next_by_closure(), cannot):
    for _ in range(2):
        print(model.generate(ids, max_new_tokens=3, logits_processor=LogitsProcessorList([each])).tolist())
print(counts.calls, cannot.calls, len(used))
"""
)
CANCELS = (
    SCRIPT[: SCRIPT.index("for options")]
    + """
class Cancelled(Exception):
    pass
def cancel(*given):
    raise Cancelled("stop")
class Streamer:
    put, end = cancel, cancel
for options in ({"stopping_criteria": [cancel]}, {"logits_processor": [cancel]},
                {"prefix_allowed_tokens_fn": cancel}, {"streamer": Streamer()}):
    try:
        model.generate(ids, max_new_tokens=3, **options)
    except Cancelled as error:
        print(error, error.__cause__, error.__context__)
"""
)


@pytest.fixture
def script(tmp_path, monkeypatch):
    """Its path; what a script changes in this process is put back afterwards."""
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(transformers.GenerationMixin, "generate", transformers.GenerationMixin.generate)
    path = tmp_path / "script.py"
    path.write_text(SCRIPT, encoding="utf-8")
    return str(path)


def run(*arguments):
    """(exit code, stdout, stderr) of Python, in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, env=environment, check=False)
    return done.returncode, done.stdout, done.stderr


def test_a_script_runs_unchanged_and_a_receipt_ends_it(script, capsys):
    """In a process of its own, which has not imported transformers before."""
    code, ours, says = run("-m", "minidecode.accelerate", "--plan", "numpy", script, "--ends")
    assert code == 7
    new = sum(len(line.split(",")) - 4 for line in ours.splitlines()[:4])  # what is drawn may end early
    assert f"4 calls of generate ran in minidecode: {new} new tokens" in says
    assert "plan" in says.split("the last call: ")[1]
    sys.argv = [script, "--ends"]
    with pytest.raises(SystemExit):
        runpy.run_path(script, run_name="__main__")
    lines = [out.splitlines() for out in (capsys.readouterr().out, ours)]
    del lines[0][1], lines[1][1]  # drawn at random
    assert lines[0] == lines[1] and len(lines[0]) == 4


def test_the_first_calls_of_a_script_are_compared(script, capsys, monkeypatch):
    assert main(["--plan", "numpy", "--json", "--prove", "3", script]) == 0
    assert [call["same"] for call in json.loads(capsys.readouterr().out)["calls"]] == [True, None, True]
    monkeypatch.undo()
    assert main(["--plan", "numpy", "--json", "--prove", "1", script, "--wrong"]) == 1
    found = json.loads(capsys.readouterr().out)["calls"]
    assert len(found) == 1 and not found[0]["same"] and "rounding does not explain it" in found[0]["says"]


def test_functions_that_keep_state_are_called_as_often_as_without_a_proof(script, capsys):
    """By hand: of each kind six tokens, 11 to 16, and so many calls."""
    Path(script).write_text(STATEFUL, encoding="utf-8")
    assert main(["--plan", "numpy", "--prove", "6", script]) == 0
    ran = capsys.readouterr()
    six = ["[[9, 10, 11, 12, 11, 12, 13]]", "[[9, 10, 11, 12, 14, 15, 16]]"]
    assert ran.out.splitlines() == [*six * 3, "6 6 6"]
    said = ran.err.splitlines()[-6:]
    assert all("the same on both sides" in line for line in said[:4])
    assert all("not compared: what it is given keeps state and cannot be copied" in line for line in said[4:])


def test_a_script_catches_its_own_exceptions(script, capsys):
    """They come through as they were raised; calls that raised are counted as such."""
    Path(script).write_text(CANCELS, encoding="utf-8")
    assert main(["--plan", "numpy", script]) == 1  # no call ran
    ran = capsys.readouterr()
    assert ran.out.splitlines() == ["stop None None"] * 4
    assert "0 calls of generate ran" in ran.err and ran.err.count("raised Cancelled: stop") == 4


def test_the_command_runs_the_script_in_a_process_of_its_own(script, monkeypatch):
    """With its options in front of the script, and the script's own behind it."""
    asked = []
    monkeypatch.setattr(subprocess, "run", lambda command, **_: asked.append(command) or SimpleNamespace(returncode=3))
    monkeypatch.setattr(sys, "argv", ["minidecode", "prove", script, "--calls", "5", "--json", "--", "--ends"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    expected = ["-m", "minidecode.accelerate", "--prove", "5", "--plan", "fast", "--json", script, "--ends"]
    assert ended.value.code == 3 and asked == [[sys.executable, *expected]]


def test_the_module_and_the_function_of_one_name_can_both_be_called():
    """In whichever order the two are imported: the error is that of the function, for what is no model."""
    program = """
import minidecode as md
kept = md.accelerate
import minidecode.accelerate
from minidecode import accelerate
for each in (kept, accelerate, minidecode.accelerate, md.accelerate):
    try:
        each(3)
    except md.OptionError as error:
        print(error)
"""
    assert run("-c", program)[1].count("takes a model of transformers, not 3") == 4
    module_first = program.replace("kept = md.accelerate\n", "").replace("kept, ", "")
    assert run("-c", module_first)[1].count("takes a model of transformers, not 3") == 3
