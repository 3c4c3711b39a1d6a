"""Damaged checkpoints of BART and of language models: refused in one line, or a folder that loads.

test_fairseq_fuzz.py damages pickles. Here settings and shapes lie, and bytes of real files change.

python tests/faults/test_fairseq_import_fuzz.py 2000    so many of each kind
"""

from __future__ import annotations

import collections
import dataclasses
import random
import shutil
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "golden"))
from taken_bytes import peak_of
from test_fairseq_imports import write_checkpoint

import minidecode as md
from minidecode.files import fairseq_folder
from minidecode.files.fairseq_folder import convert_fairseq, read_fairseq

NAMES = ("bart-translation", "lm-learned-tied", "lm-sinusoids-tied-relu")
LIES = [0, 1, 2, 3, -1, 5, 20, 40, 10**6, 2**31, 10**30, 0.5, True, False, None, "", "20", "relu", "a\nb", "bart_base"]
EXAMPLES = 60  # of each kind, in the suite


def lying(rng: random.Random, path: Path, monkeypatch) -> None:
    """Settings of other values, and tensors of other shapes and dtypes; the reader lets none pass its file's end."""
    settings, in_file = read_fairseq(path)
    for _ in range(rng.choice([1, 1, 2, 4])):
        if rng.random() < 0.6:
            settings[rng.choice([*settings, *fairseq_folder.KEPT])] = rng.choice(LIES)
            settings = {name: value for name, value in settings.items() if value is not None}
        else:
            name = rng.choice(list(in_file))
            shape = list(in_file[name].shape)
            match rng.randrange(4):
                case 0:
                    del in_file[name]
                case 1 if shape:
                    shape[rng.randrange(len(shape))] = rng.choice([0, 1])
                    in_file[name] = dataclasses.replace(in_file[name], shape=tuple(shape))
                case 2:
                    in_file[name] = dataclasses.replace(in_file[name], dtype=rng.choice(["F16", "I8", "BF16"]))
                case _:
                    in_file[name] = in_file[rng.choice(list(in_file))]
    monkeypatch.setattr(fairseq_folder, "read_fairseq", lambda path: (dict(settings), dict(in_file)))


def damaged(rng: random.Random, path: Path, monkeypatch) -> None:
    """Bytes flipped, moved, overwritten or cut off, in the checkpoint or in a file of its texts."""
    monkeypatch.setattr(fairseq_folder, "read_fairseq", read_fairseq)
    texts = [file for file in path.parent.iterdir() if file != path]
    file = path if rng.random() < 0.7 else rng.choice(texts)
    contents = bytearray(file.read_bytes())
    for _ in range(rng.choice([1, 1, 3])):
        at, size = rng.randrange(len(contents)), rng.choice([1, 2, 4, 8, 40])
        match rng.randrange(5):
            case 0:
                contents[at] ^= 1 << rng.randrange(8)
            case 1:
                contents[at : at + size] = rng.randbytes(size)
            case 2:
                start = rng.randrange(len(contents))
                contents[at : at + size] = contents[start : start + size]
            case 3:
                del contents[at : at + size]
            case _:
                del contents[max(at, 1) :]
    file.write_bytes(contents)


def outcome(name: str, kind, seed: int, folder: Path, monkeypatch) -> str:
    """ "refused" or "read"; AssertionError or any other exception on what must not happen."""
    rng = random.Random(f"{name} {kind.__name__} {seed}")
    path, out = write_checkpoint(name, folder), folder / "model"
    kind(rng, path, monkeypatch)
    there = sorted(p.name for p in folder.iterdir())
    result, peak = peak_of(lambda: converted(path, out), 30e6)
    assert peak < 30e6, peak
    if result == "refused" and out.exists():
        assert kind is damaged, "what is written loads, unless the files of texts were damaged"
    elif result == "refused":
        assert sorted(p.name for p in folder.iterdir()) == there, "nothing is left"
    return result


def converted(path: Path, out: Path) -> str:
    """ "read" if what is converted loads, "refused" if either is refused, in one line."""
    shutil.rmtree(out, ignore_errors=True)
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            convert_fairseq(path, out)
            md.load(out)
        return "read"
    except md.MinidecodeError as error:
        assert str(error).isprintable() and len(str(error)) < 4 * len(str(path)) + 700, str(error)
        return "refused"


@pytest.mark.parametrize("kind", [lying, damaged])
def test_what_is_damaged_is_refused_or_loads(kind, tmp_path, monkeypatch):
    found = collections.Counter()
    for name in NAMES:
        for seed in range(EXAMPLES // len(NAMES)):
            with monkeypatch.context() as patch:
                found[outcome(name, kind, seed, tmp_path / "training", patch)] += 1
            shutil.rmtree(tmp_path / "training")
    assert len(found) == 2, "some of each, or the test says little"


def main(examples: int) -> None:
    for name in NAMES:
        for kind in (lying, damaged):
            found = collections.Counter()
            for seed in range(examples):
                with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
                    found[outcome(name, kind, seed, Path(folder) / "training", patch)] += 1
            print(name, kind.__name__, dict(found), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]))
