"""A record that a benchmark writes is read back as it was, and each row of its lists has a line."""

import json
from pathlib import Path

from minidecode.device.user_functions import load_python_file

records = load_python_file(Path(__file__).parents[2] / "benchmarks" / "records.py")


def test_a_record_is_read_back_and_each_row_has_a_line(tmp_path):
    rows = [{"op": "norm", "ms": [0.25, 0.5]}, {"op": 'a "quoted" name', "ms": None}]
    record = {"machine": {"cores": 2}, "rows": rows, "turns": 3, "none": [], "numbers": [1, 2]}
    records.write_record(tmp_path / "record.json", record)
    text = (tmp_path / "record.json").read_text(encoding="utf-8")
    assert json.loads(text) == record
    assert [json.loads(line.rstrip(",")) for line in text.split("\n") if line.startswith('{"')] == rows
