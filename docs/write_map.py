"""Writes docs/MAP.md: every file of the package with the first line of its docstring, a section for each folder.

python docs/write_map.py            write the page
python docs/write_map.py --check    exit with 1 if the page is stale
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parent
PACKAGE = DOCS.parent / "minidecode"
PAGE = DOCS / "MAP.md"
NOT_CODE = {"mutants", "skeletons", "tutorials", "weights", "tasks"}  # data, and exercises: found by their names


def first_line(path: Path) -> str:
    """The first line of a file's docstring, or nothing."""
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return docstring.partition("\n")[0]


def files() -> list[Path]:
    """The files of the package that the page lists, in the order of the page."""
    paths = [p for p in PACKAGE.rglob("*.py") if not NOT_CODE & set(p.relative_to(PACKAGE).parts)]
    return sorted(paths, key=lambda p: (p.parent.relative_to(PACKAGE).parts, p.name))


def page() -> str:
    """The text of docs/MAP.md."""
    folders: dict[Path, list[Path]] = {}
    for path in files():
        folders.setdefault(path.parent, []).append(path)
    lines = ["# Map of the package", "", "Written by `python docs/write_map.py` from the files' docstrings.", ""]
    for folder, paths in folders.items():
        lines += [f"## `{folder.relative_to(PACKAGE.parent).as_posix()}/`", ""]
        init = folder / "__init__.py"
        if init in paths and first_line(init):
            lines += [first_line(init), ""]
        lines += ["| file | what it holds |", "|---|---|"]
        for path in paths:
            if path != init:
                link = f"../{path.relative_to(PACKAGE.parent).as_posix()}"
                lines.append(f"| [`{path.name}`]({link}) | {first_line(path).replace('|', chr(92) + '|')} |")
        lines.append("")
    return "\n".join(lines)


def main() -> None:
    """Writes the page, or checks it."""
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(page(), encoding="utf-8", newline="\n")
    elif not PAGE.exists() or PAGE.read_text(encoding="utf-8") != page():
        sys.exit("docs/MAP.md is stale: run python docs/write_map.py")


if __name__ == "__main__":
    main()
