"""Prints the package's own dependencies, one per line, as pip takes them."""

import tomllib
from pathlib import Path

project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
print("\n".join(r.replace(" ", "") for r in project["dependencies"]))
