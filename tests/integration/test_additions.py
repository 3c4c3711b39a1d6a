"""What CONTRIBUTING's table says of an option, a dialect, a kernel version and an exercise: in a copy of the package,
its files alone are changed, and the new thing is there."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import minidecode

PACKAGE = Path(minidecode.__file__).parent
TASKS = "course/exercises/tasks"
ADDED = [  # file, a line in it, and what comes before that line
    # An option that changes scores: a row; a function, and its place in the order.
    (
        "options/table.py", "    suppress_tokens: ",
        '    odd_alone: bool = rule(False, TRUE_OR_FALSE, "No token with an even id.", dialects=HF)\n',
    ),
    ("search/processors.py", '    "suppress_tokens", "begin_suppress_tokens", ', '    "odd_alone",\n'),
    (
        "search/processors.py", "@acts(lambda o: o.suppress_tokens, ",
        "@acts(lambda o: o.odd_alone)\ndef odd_alone(ops, scores_RV, rows, o):\n"
        "    scores_RV[:, ::2] = -np.inf\n    return scores_RV\n\n\n",
    ),
    # A dialect: its rules; its processors in their order.
    ("options/dialects.py", "DIALECTS = {", 'TOY = Dialect("toy", float("-inf"), finished="first", stop="full")\n'),
    ("search/processors.py", '    "lightseq": UNILM,', '    "toy": ("min_new_tokens",),\n'),
    # A kernel version: a function whose name ends in _v and a number.
    (
        "cuda/gather.py", "@cuda.jit\ndef pick_logprob_of_token",
        "def gather_logprobs_v7(*arguments, **more):\n    return gather_logprobs(*arguments, **more)\n\n\n",
    ),
]  # fmt: skip
PROGRAM = """
import json, sys
import minidecode as md
from minidecode.bench.compare import implementations
from minidecode.catalog import find
from minidecode.commands.cli import app
from minidecode.course.exercises.find import exercises
from minidecode.errors import OptionError
from typer.testing import CliRunner

model, ids = md.load(sys.argv[1], plan="numpy"), [[5, 6, 7]]
how = {"input_ids": ids, "max_new_tokens": 12, "num_beams": 2, "eos_token_id": None}
refused = ""
try:
    model.generate(**how, odd_alone=True, dialect="ctranslate2")
except OptionError as error:
    refused = str(error)
print(json.dumps({
    "file": md.__file__,
    "tokens": model.generate(**how, odd_alone=True).token_ids[0].tolist(),
    "toy": model.generate(**how, dialect="toy").token_ids[0].tolist(),
    "refused": refused,
    "help": CliRunner().invoke(app, ["generate", "--help"], env={"COLUMNS": "200"}).output,
    "versions": list(implementations(find("gather"))),
    "exercise": [exercises()[97].name, exercises()[97].text.title],
}))
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What the program prints beside the changed copy."""
    root = tmp_path_factory.mktemp("copy")
    shutil.copytree(PACKAGE, root / "minidecode", ignore=shutil.ignore_patterns("__pycache__", "weights"))
    for file, line, added in ADDED:
        path = root / "minidecode" / file
        text = path.read_text(encoding="utf-8")
        assert text.count(line) == 1, (file, line)
        path.write_text(text.replace(line, added + line), encoding="utf-8")
    path = root / "minidecode" / "options" / "dialects.py"
    path.write_text(path.read_text(encoding="utf-8").replace("LIGHTSEQ)}", "LIGHTSEQ, TOY)}"), encoding="utf-8")
    for end in ("py", "md"):
        shutil.copy(PACKAGE / TASKS / f"e01_guard.{end}", root / "minidecode" / TASKS / f"e97_toy.{end}")
    command = [sys.executable, "-c", PROGRAM, str(minidecode.bundled_models()["tiny-gpt2"])]
    environment = os.environ | {"PYTHONPATH": str(root)}
    run = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    printed = json.loads(run.stdout)
    assert Path(printed["file"]).parent == root / "minidecode"
    return printed


def test_an_option_is_a_row_and_a_function(found):
    assert len(found["tokens"]) == 12 and all(token % 2 for token in found["tokens"])
    assert "odd_alone is no rule of dialect 'ctranslate2': leave it out, or use hf or hf4" in found["refused"]
    assert "--odd-alone" in found["help"] and "No token with an even id." in found["help"]


def test_a_dialect_is_its_rules_and_its_order(found):
    assert len(found["toy"]) == 12 and not all(token % 2 for token in found["toy"])


def test_a_kernel_version_is_a_function(found):
    assert "cuda v7" in found["versions"]


def test_an_exercise_is_a_task_and_its_text(found):
    name, title = found["exercise"]
    assert name == "toy" and f"title: {title}\n" in (PACKAGE / TASKS / "e01_guard.md").read_text(encoding="utf-8")
