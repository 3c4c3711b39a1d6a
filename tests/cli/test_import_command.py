"""`minidecode import`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import minidecode as md

sys.path.insert(0, str(Path(__file__).parents[1] / "golden"))
from test_fairseq_imports import write_checkpoint


@pytest.mark.parametrize(("name", "kind"), [("bart-denoising", "bart"), ("lm-gpt", "gpt2")])
def test_a_folder_of_each_kind(cli, tmp_path, name, kind):
    path, out = write_checkpoint(name, tmp_path / "training"), tmp_path / "model"
    ran = cli("import", path, "-o", out, "--json")
    result = json.loads(ran.out)
    assert (ran.code, ran.err) == (0, "")
    assert (result["folder"], result["model_type"], result["codes"]) == (str(out), kind, "vocab.bpe")
    said = cli("generate", "the cat", "-m", out, "--max-len-b", 4, "--quiet")
    assert said.out.rstrip("\n") == md.load(out).generate("the cat", max_len_b=4).texts[0]


def test_what_is_refused(fails, tmp_path):
    path, out = write_checkpoint("lm-gpt", tmp_path / "training"), tmp_path / "model"
    other = path.with_suffix(".onnx")
    assert f"{other} is no file" in fails("import", other, "--output", out)
    other.write_bytes(b"weights of another kind")
    assert "of no kind that is read" in fails("import", other, "--output", out)
    assert "exists already" in fails("import", path, "--output", tmp_path)
    assert "there is no folder" in fails("import", path, "--output", out / "below")
    assert "gone.pt" in fails("import", path.with_name("gone.pt"), "--output", out)
    path.with_name("dict.txt").unlink()
    assert "dict.txt is missing" in fails("import", path, "--output", out)
    assert not out.exists()
