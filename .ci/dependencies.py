"""Prints the package's own dependencies, and those of the extras that are named, one per line, as pip takes them."""

import sys
import tomllib
from pathlib import Path

project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
needed = project["dependencies"] + [r for extra in sys.argv[1:] for r in project["optional-dependencies"][extra]]
print("\n".join(r.replace(" ", "") for r in needed))
