"""`minidecode convert`."""

from __future__ import annotations

import json

import pytest

import minidecode as md


@pytest.fixture
def out(tmp_path):
    return tmp_path / "converted"


def test_it_says_what_it_made(cli, toy, out):
    ran = cli("convert", toy, "--kv-heads", 1, "--output", out)
    assert (ran.code, ran.err) == (0, "")
    lines = ran.out.splitlines()
    assert lines[0] == str(out) and lines[1] == "key/value heads: decoder 2 -> 1"
    assert lines[2] == "keys and values of a token: 128 -> 64 bytes in float32"  # 2 layers of 2 heads, 4 + 4 wide
    assert lines[3].startswith("different model: ") and "needs training" in lines[3] and len(lines) == 4
    assert md.load(out).config.num_key_value_heads == 1
    assert cli("generate", "the", "-m", out, "--quiet").code == 0


def test_a_bart(cli, toy_bart, out):
    ran = cli("convert", toy_bart, "--kv-heads", 1, "--output", out)
    assert ran.code == 0 and "key/value heads: encoder 2 -> 1; decoder 2 -> 1" in ran.out
    assert cli("generate", "the", "-m", out, "--quiet").code == 0


def test_as_json(cli, toy, out):
    ran = cli("convert", toy, "--kv-heads", 1, "--output", out, "--json")
    assert (ran.code, ran.err) == (0, "")
    result = json.loads(ran.out)
    assert result.pop("different_model") == json.loads((out / "config.json").read_text())["different_model"]
    assert result == {"folder": str(out), "key_value_heads": {"decoder": [2, 1]}, "bytes_per_token": [128, 64]}


def test_what_is_refused(fails, toy, out, tmp_path):
    assert "choose 1" in fails("convert", toy, "--kv-heads", 3, "--output", out)
    assert "nothing to convert" in fails("convert", toy, "--kv-heads", 2, "--output", out)
    assert "exists already" in fails("convert", toy, "--kv-heads", 1, "--output", toy)
    assert "there is no folder" in fails("convert", toy, "--kv-heads", 1, "--output", out / "below")
    assert "neither a bundled model" in fails("convert", tmp_path / "gone", "--kv-heads", 1, "--output", out)
    assert "--kv-heads is missing" in fails("convert", toy, "--output", out)
    assert "say minidecode import model.pt" in fails("convert", "model.pt", "--kv-heads", 1, "--output", out)
    assert "--output" in fails("convert", toy, "--kv-heads", 1, code=2)
    assert "--kv-heads" in fails("convert", toy, "--kv-heads", "few", "--output", out, code=2)
    assert not out.exists()
