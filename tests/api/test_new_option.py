"""A new option that is a score processor: a row of the table and a function, so two files; all else is made of them."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROW = '    only_even: bool = rule(False, TRUE_OR_FALSE, "Generate even tokens alone.", dialects=HF)\n'
PROCESSOR = '''

@acts(lambda o: o.only_even)
def only_even(ops, scores_RV, rows, o):
    """Rules out odd tokens."""
    scores_RV[:, 1::2] = -np.inf
    return scores_RV
'''
TRIED = """
import sys
import minidecode as md
from minidecode.commands.cli import main
docs, folder = sys.argv[1:]
sys.path.insert(0, docs)
from write_options import page, typed_dict
model = md.load(folder, plan="numpy")
for beams in (1, 3):
    ids = model.generate("Fellow citizens,", only_even=True, num_beams=beams, max_new_tokens=6).token_ids[0]
    assert len(ids) == 6 and not (ids % 2).any(), ids
assert (model.generate("Fellow citizens,", max_new_tokens=6).token_ids[0] % 2).any()
for given in ({"only_even": 1}, {"only_even": True, "dialect": "fairseq"}):
    try: model.options(**given)
    except md.OptionError as error: print(error)
assert "    only_even: bool = False" in typed_dict() and "    only_even: bool\\n" in typed_dict()
assert "| `only_even` | `False` | `--only-even` | hf, hf4 |" in page()
sys.argv[1:] = ["generate", "Fellow citizens,", "-m", folder, "--only-even", "--max-new-tokens", "6", "--json", "-q"]
main()
"""


@pytest.fixture
def copied(tmp_path):
    """A copy of the package with one option more."""
    shutil.copytree(ROOT / "minidecode", tmp_path / "minidecode", ignore=shutil.ignore_patterns("__pycache__"))
    table = tmp_path / "minidecode" / "options" / "table.py"
    before, row, after = table.read_text(encoding="utf-8").partition("    remove_invalid_values: bool")
    table.write_text(before + ROW + row + after, encoding="utf-8")
    processors = tmp_path / "minidecode" / "search" / "processors.py"
    text = processors.read_text(encoding="utf-8").replace('"suppress_tokens", ', '"suppress_tokens", "only_even", ', 1)
    processors.write_text(text + PROCESSOR, encoding="utf-8")
    return tmp_path


def test_a_row_and_a_function_make_an_option(copied):
    """Checks, refusals, types, docs and the flag: of Python, and of the command line."""
    command = [sys.executable, "-c", TRIED, ROOT / "docs", ROOT / "weights" / "tiny-gpt2"]
    env = os.environ | {"PYTHONPATH": str(copied)}
    ran = subprocess.run(command, cwd=copied, env=env, capture_output=True, text=True)
    *refusals, record = ran.stdout.splitlines() or [""]
    assert refusals == [
        "only_even must be True or False, not 1",
        "only_even is no rule of dialect 'fairseq': leave it out, or use hf or hf4",
    ], ran.stderr
    (hypothesis,) = json.loads(record)["hypotheses"]
    assert ran.returncode == 0 and not any(token % 2 for token in hypothesis["token_ids"])
