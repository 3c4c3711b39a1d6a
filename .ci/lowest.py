"""Prints the lowest versions that pyproject.toml allows, one package per line, as pip takes them.

python .ci/lowest.py          the package's own dependencies
python .ci/lowest.py EXTRA    and those of an extra
"""

import re
import sys
import tomllib
from pathlib import Path

project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
requirements = project["dependencies"] + [r for e in sys.argv[1:] for r in project["optional-dependencies"][e]]
lowest = {}
for requirement in requirements:
    found = re.fullmatch(r"([\w.\-\[\]]+)\s*>=\s*([\w.]+)(,.*)?", requirement)
    if not found:
        raise SystemExit(f"pyproject.toml: {requirement!r} has no lowest version: write name>=version")
    if lowest.setdefault(found[1], found[2]) != found[2]:
        raise SystemExit(f"pyproject.toml: {found[1]} has two lowest versions, {lowest[found[1]]} and {found[2]}")
print("\n".join(f"{name}=={version}" for name, version in lowest.items()))
