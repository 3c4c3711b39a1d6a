"""minidecode's fairseq-generate and fairseq-interactive print fairseq's own lines; damaged data folders are refused."""

import itertools
import json
import re
import struct

import numpy as np
import pytest
from fairseq_cases import FOLDER, write_checkpoint

import minidecode as md
from minidecode.commands import cli
from minidecode.commands.fairseq import Program, fairseq_generate, fairseq_interactive, parse_options
from minidecode.files.fairseq_data import HEADER, Pair, cut_into_batches, read_indexed

LINES = FOLDER.with_name("fairseq_lines")
CASES = json.loads((LINES / "cases.json").read_text(encoding="utf-8"))
NAMES = sorted(path.name for path in LINES.iterdir() if path.is_dir())
PROGRAMS = {"fairseq-generate": fairseq_generate, "fairseq-interactive": fairseq_interactive}
NUMBER = re.compile(r"(?<=[\t ])-\d+\.\d+(?:e-\d+)?(?=[\t ]|$)")


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    return {name: write_checkpoint(name, tmp_path_factory.mktemp("fairseq") / name) for name in NAMES}


def told(lines: list[str]) -> tuple[list[str], list[float]]:
    """(the lines with # in place of scores, the scores). How long a sentence took is left out."""
    lines = [re.sub(r"^(W-\d+)\t[\d.]+", r"\1", line) for line in lines]
    scored = [line.startswith(("H-", "D-", "P-")) for line in lines]
    return (
        [NUMBER.sub("#", line) if is_scored else line for line, is_scored in zip(lines, scored, strict=True)],
        [float(n) for line, is_scored in zip(lines, scored, strict=True) if is_scored for n in NUMBER.findall(line)],
    )


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("file", sorted(CASES))
def test_the_lines_are_those_of_fairseq(name, file, checkpoints, capsys, monkeypatch):
    """Byte for byte but for the last digits of scores, which float32 rounds in another order."""
    program, *options = CASES[file]
    if "sacrebleu" in options:
        pytest.importorskip("sacrebleu", reason="needs pip install '.[evaluate]'")
    monkeypatch.chdir(LINES / name)
    PROGRAMS[program]([".", "--path", str(checkpoints[name]), "--plan", "numpy", *options])
    (ours, our_scores), (theirs, their_scores) = (
        told(text.splitlines()) for text in (capsys.readouterr().out, (LINES / name / file).read_text("utf-8"))
    )
    assert ours == theirs and len(their_scores) > 40
    np.testing.assert_allclose(our_scores, their_scores, rtol=2e-6, atol=1.01e-4)


def test_the_command_line_hands_its_options_over(checkpoints, capsys, monkeypatch):
    name = NAMES[0]
    arguments = [str(LINES / name), "--path", str(checkpoints[name]), "--plan", "numpy", "--beam=2", "--max-len-b", "3"]
    monkeypatch.setattr("sys.argv", ["minidecode", "fairseq-generate", *arguments, "--quiet"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert not ended.value.code
    assert re.fullmatch(r"Generate test with beam=2: BLEU4 = .*, reflen=\d+\)\n", capsys.readouterr().out)
    for wrong, says in ((["--lm-path", "x"], "unrecognized arguments"), (["--path", "a.pt:b.pt"], "ensemble")):
        monkeypatch.setattr("sys.argv", ["minidecode", "fairseq-generate", *arguments, *wrong])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        assert ended.value.code and says in capsys.readouterr().err
    for data, says in (("nodir", "nodir is no folder: name one"), (str(LINES / name), "--path is missing: name the")):
        monkeypatch.setattr("sys.argv", ["minidecode", "fairseq-generate", data])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        assert ended.value.code and says in capsys.readouterr().err


def test_a_line_that_is_no_utf_8_is_named(checkpoints, tmp_path, capsys):
    name, path = NAMES[0], tmp_path / "lines.txt"
    path.write_bytes(b"a b\n\xffc\n")
    with pytest.raises(md.InputError, match=r"lines\.txt, line 2 is not UTF-8: byte 0xff; convert it to UTF-8 first"):
        fairseq_interactive(
            [str(LINES / name), "--path", str(checkpoints[name]), "--plan", "numpy", "--input", str(path)]
        )
    assert capsys.readouterr().out.startswith("S-0\t"), "what came before it is translated"


def test_the_guide_s_two_columns_mean_the_same(checkpoints, monkeypatch):
    """Each option of fairseq's, given alone, changes the one argument of `generate` that the guide names."""
    page = (FOLDER.parents[2] / "docs" / "guide" / "fairseq.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(--[\w-]+(?: [\d.]+)?)` \| `(\w+)=([\w.]+)` \|$", page, re.MULTILINE)
    asked = {}
    monkeypatch.setattr(md.Model, "generate", lambda _, **given: asked.update(given))
    pair = Pair.from_folder(LINES / NAMES[0], None, None)
    for option, name, value in rows:
        options = ["--max-len-b", "0"] if name == "max_len_a" else []
        given = [".", "--path", str(checkpoints[NAMES[0]]), "--plan", "numpy", "--beam", "5", *options, *option.split()]
        program = Program.start(parse_options("fairseq-generate", given), pair)
        with pytest.raises(AttributeError):  # there is no output
            program.translate([np.array([5, 6, 7, 8, 2])])
        limit = min(int(1.2 * 5) if name == "max_len_a" else 200, program.model.config.context - 1)
        expected = limit if name.startswith("max_len") else json.loads(value.lower())
        assert asked["max_len_b" if name == "max_len_a" else name] == expected, option
    assert len(rows) == 11


def test_batches_close_at_sentences_and_at_padded_tokens():
    """By hand: sorted by source, then by target; the longest source of a batch first, equal ones as they were."""
    sources, targets = np.array([3, 5, 3, 2, 5]), np.array([4, 1, 2, 9, 6])
    assert [b.tolist() for b in cut_into_batches([sources, targets], None, 2, 1)] == [[2, 3], [1, 0], [4]]
    # Target 3 has 9 tokens, so two sentences with it are 18 padded ones; three of 6 tokens are 18, too.
    assert [b.tolist() for b in cut_into_batches([sources, targets], 18, None, 1)] == [[2, 3], [1, 4, 0]]
    assert [b.tolist() for b in cut_into_batches([sources, targets], 17, None, 1)] == [[3], [1, 2, 0], [4]]
    assert [b.tolist() for b in cut_into_batches([sources], 9, None, 1)] == [[0, 2, 3], [1], [4]]
    assert [b.tolist() for b in cut_into_batches([sources], None, 3, 2)] == [[0, 3], [1, 4, 2]]


def test_damaged_data_is_refused_in_one_line(tmp_path):
    """Each byte of the index is changed in turn: the file is refused, or what is read lies within the data."""
    name = "test.src-tgt.src"
    index, data = ((LINES / NAMES[0] / f"{name}.{end}").read_bytes() for end in ("idx", "bin"))
    refused = 0
    for place, value in itertools.product(range(len(index)), (0x00, 0xFF)):
        (tmp_path / f"{name}.bin").write_bytes(data)
        (tmp_path / f"{name}.idx").write_bytes(index[:place] + bytes([value]) + index[place + 1 :])
        try:
            found = read_indexed(tmp_path / name, 40)
            assert sum(map(len, found)) <= len(data)
        except md.CheckpointError as error:
            assert "\n" not in str(error)
            refused += 1
    assert refused > len(index)
    (tmp_path / f"{name}.idx").write_bytes(HEADER.pack(b"MMIDIDX\0\0", 1, 8, 2**60))
    with pytest.raises(md.CheckpointError, match="damaged"):
        read_indexed(tmp_path / name, 40)
    (tmp_path / f"{name}.idx").write_bytes(HEADER.pack(b"MMIDIDX\0\0", 1, 8, 1) + struct.pack("<iq", 2, 0))
    (tmp_path / f"{name}.bin").write_bytes(struct.pack("<2H", 39, 40))
    with pytest.raises(md.CheckpointError, match="dictionary of 40 words"):
        read_indexed(tmp_path / name, 40)
