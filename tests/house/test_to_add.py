"""The table of CONTRIBUTING.md, "to add X, write these files": an example of each kind stands in these files alone."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TABLE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("## Add something\n")[2]
ROWS = dict(re.findall(r"^\| (an? [a-z ]+?) \| (.*) \|$", TABLE, re.MULTILINE))
CALLERS = ("bench/", "cache/", "course/", "models/", "search/")  # of an op, which a new one has as well
EXAMPLES = [  # kind, NAME, what names the example, files that may name it too
    ("an op", "gather", "gather_logprobs", CALLERS),
    ("an op", "rotation", "rotate_heads", CALLERS),
    ("a kernel version", "norm", "residual_norm_v2", ()),
    ("a kernel version", "split", "attend_split_v1", ()),
    ("a cache", "preallocated", "PreallocatedCache", ("serving/",)),
    ("a cache", "rolling", "RollingCache", ()),
    ("an option", "", "suppress_tokens", ("options/",)),
    ("an option", "", "renormalize_logits", ("options/", "search/")),
    ("a dialect", "hf4", '"hf4"', ("options/typed_dict.py",)),
    ("an importer", "fairseq", "fairseq_folder", ("commands/fairseq.py",)),
    ("a model family", "t5", '"mt5"', ()),
    ("a model family", "prophetnet", "ProphetNetConfig", ()),
    ("an exercise", "guard", "e01_guard", ()),
]


def test_every_kind_is_there():
    assert set(ROWS) >= {kind for kind, *_ in EXAMPLES} | {"a chapter"}


@pytest.mark.parametrize(("kind", "name", "word", "others"), EXAMPLES, ids=lambda value: str(value)[:30])
def test_an_example_stands_in_the_files_of_its_row_alone(kind, name, word, others):
    listed = {f.replace("NAME", name).replace("NN", "01") for f in re.findall(r"`([\w/.]+\.\w+)`", ROWS[kind])}
    missing = [
        f for f in listed if f.endswith(".py") and not any((ROOT / base / f).exists() for base in ("minidecode", ""))
    ]
    assert not set(missing) - {f"cpu/{name}.py"}, "the table names a file that is not there"
    files = {path.relative_to(ROOT / "minidecode").as_posix(): path for path in (ROOT / "minidecode").rglob("*.py")}
    found = {
        file for file, path in files.items() if re.search(rf"(?<!\w){word}(?!\w)", path.read_text(encoding="utf-8"))
    }
    found |= {file for file in files if Path(file).stem == word}
    assert found, f"{word} is nowhere"
    assert not [file for file in found if file not in listed and not file.startswith(others)]
