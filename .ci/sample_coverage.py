"""What share of the lines that `pytest --full` covers the short run covers: fails below 90 %.

python .ci/sample_coverage.py .coverage            compares a short run with the record
python .ci/sample_coverage.py .coverage --record   after a full run: writes the record, tests/coverage.json

Both runs: COVERAGE_CORE=sysmon pytest [--full] --cov=FOLDER --cov-report= (Python 3.12 or newer, and pytest-cov), where
FOLDER is the package that runs: the installed one, not the one beside the tests.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

RECORD = Path(__file__).resolve().parents[1] / "tests" / "coverage.json"
LEAST = 0.9
OF_ORACLE = "*/live/*,*/commands/prove.py"  # needs torch: `pytest -m oracle` runs it


def covered(data_file: str) -> dict[str, int]:
    """Lines that ran, and lines there are, in the package's own code."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        command = [sys.executable, "-m", "coverage", "json", "-q", f"--data-file={data_file}", "-o", str(report)]
        command.append(f"--omit={OF_ORACLE}")
        subprocess.run(command, check=True)
        totals = json.loads(report.read_text(encoding="utf-8"))["totals"]
    return {"covered": totals["covered_lines"], "lines": totals["num_statements"]}


def main() -> None:
    found = covered(sys.argv[1])
    if "--record" in sys.argv:
        RECORD.write_text(json.dumps(found) + "\n", encoding="utf-8")
        return
    full = json.loads(RECORD.read_text(encoding="utf-8"))
    share = (found["covered"] / found["lines"]) / (full["covered"] / full["lines"])
    print(
        f"the short run covers {found['covered']:,} of {found['lines']:,} lines; --full, when it was recorded, "
        f"{full['covered']:,} of {full['lines']:,}: {share:.1%} of its share"
    )
    if share < LEAST:
        sys.exit(f"that is below {LEAST:.0%}: let tests/sampled.json leave out less")


if __name__ == "__main__":
    main()
