"""The benchmark of what dtypes cost in quality runs, in small, and its outliers are what it says."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from toy_folder import write_bart_folder, write_folder

import minidecode as md
from minidecode.device.low_precision import DYNAMIC

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
pytest.importorskip("rouge_score")
pytest.importorskip("sacrebleu")

import precision_quality as script

IDS = np.random.default_rng(0).integers(1, 250, (1, 12))


@pytest.fixture
def toys(tmp_path, monkeypatch):
    """Toy models in place of the bundled ones, and the folder of texts."""
    widths = {"d_model": 32, "encoder_ffn_dim": 64, "decoder_ffn_dim": 32}  # whole blocks of 32 inputs
    folders = {
        "gpt2": write_folder(tmp_path / "toy-gpt2", n_embd=32),
        "bart": write_bart_folder(tmp_path / "toy-bart", **widths),
    }
    monkeypatch.setattr(script, "MODELS", {family: str(folder) for family, folder in folders.items()})
    texts = tmp_path / "texts"
    texts.mkdir()
    for n in range(3):
        (texts / f"{n}.txt").write_text(f"Text {n}: the other the, and then the{' thy' * 20}.", encoding="utf-8")
    return folders, texts


def test_it_runs_in_small_and_writes_what_it_prints(toys, tmp_path, monkeypatch, capsys):
    out, page = tmp_path / "found.json", tmp_path / "page.md"
    page.write_text("<!-- precision-quality: x -->\n<!-- end of precision-quality -->\n", encoding="utf-8")
    monkeypatch.setattr("sys.argv", ["precision_quality.py", str(toys[1]), "--held-out", "1/2", "--channels", "2",
        "--windows", "3", "--length", "10", "--plan", "numpy", "--out", str(out), "--readme", str(page)])  # fmt: skip
    script.main()
    rows = json.loads(out.read_text(encoding="utf-8"))["rows"]
    assert [r["dtype"] for r in rows] == [*script.DTYPES] * 5
    assert [r["variant"] for r in rows[:: len(script.DTYPES)]] == [*script.VARIANTS["gpt2"], *script.VARIANTS["bart"]]
    by_name = {(Path(r["model"]).name, r["variant"], r["dtype"]): r for r in rows}
    for (model, variant, dtype), row in by_name.items():
        wide = by_name[model, variant, "float32"]
        least = {"float32": 1, "float16": 0.9}.get(dtype, 0)  # random weights: few bits may change every choice
        assert least <= row["agreement"] <= 1
        assert row["positions"] == wide["positions"] and abs(row["bits_per_byte"] / wide["bits_per_byte"] - 1) < 0.1
        assert ("scores" in row) == (model == "toy-bart" and variant == script.PLAIN)
    assert by_name["toy-bart", script.PLAIN, "int8"]["positions"] == 3 * 10, "<s> is given, so it is no position"
    printed = capsys.readouterr().out.strip()
    assert printed in page.read_text(encoding="utf-8") and printed.count("| int8_dynamic |") == 5


def test_every_dtype_of_load_is_in_it():
    with pytest.raises(md.OptionError) as said:
        md.load("tiny-gpt2", dtype="none")
    assert all(f"{dtype}, " in str(said.value) for dtype in script.DTYPES)
    assert {"float32", "float16", "int8", "int8_dynamic", "int8_dynamic7"} <= {*script.DTYPES}


def changed(toys, tmp_path, family, variant, **how):
    folder = tmp_path / "changed"
    script.changed_folder(family, variant, toys[0][family], folder, **{"channels": 3, "factor": 20.0} | how)
    return folder


def test_divided_back_computes_what_it_did(toys, tmp_path):
    before = md.load(toys[0]["gpt2"], dtype="float64").logits(IDS)
    after = md.load(changed(toys, tmp_path, "gpt2", script.DIVIDED), dtype="float64").logits(IDS)
    np.testing.assert_allclose(after, before, rtol=0, atol=1e-5 * np.abs(before).max())  # weights / 20 are float32


@pytest.mark.parametrize("family", ["gpt2", "bart"])
def test_outliers_are_in_all_norms_but_the_last(toys, tmp_path, family):
    """Each gain and bias in front of a rounded product has the same channels 20 times as large, and nothing else is."""
    before = md.load(toys[0][family]).tensors
    after = md.load(changed(toys, tmp_path, family, script.OUTLIERS)).tensors
    times = {name: after[name] / before[name] for name in before if not np.array_equal(after[name], before[name])}
    last = "ln_f" if family == "gpt2" else "decoder.layers.1.final_layer_norm"
    norms = {name for name in before if "norm" in name or "ln_" in name}
    assert {*times} == {name for name in norms if last not in name}
    channels = {tuple(np.flatnonzero(np.round(t, 3) == 20).tolist()) for t in times.values()}
    assert len(channels) == 1 and len(channels.pop()) == 3
    assert all((np.round(t, 3) == 1).sum() == t.size - 3 for t in times.values())


def test_more_channels_than_there_are_is_told_in_a_line(toys, tmp_path):
    with pytest.raises(SystemExit, match=r"norms of widths \[32\] cannot have 33 channels in common"):
        changed(toys, tmp_path, "gpt2", script.OUTLIERS, channels=33)


@pytest.mark.parametrize("text", ["12", "12/0", "a/b", "-1/2"])
def test_what_is_no_remainder_is_told(text, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["precision_quality.py", "texts", f"--held-out={text}"])
    with pytest.raises(SystemExit):
        script.main()
    assert f"'{text}' is not REMAINDER/MODULUS, such as 12/25" in capsys.readouterr().err


def test_the_readme_says_what_was_recorded():
    folder = Path(script.__file__).parent
    found = json.loads((folder / "results" / "precision-quality.json").read_text(encoding="utf-8"))
    page = (folder / "README.md").read_text(encoding="utf-8")
    assert script.table(found) in page
    changed = {r["dtype"]: 1 / (1 - r["agreement"]) for r in found["rows"] if r["variant"] == script.DIVIDED and
               r["dtype"] in DYNAMIC}  # fmt: skip
    assert {dtype: round(often) for dtype, often in changed.items()} == {"int8_dynamic": 12, "int8_dynamic7": 6}
    assert "at one position in\n  twelve, and to 7 bits at one in six" in page
