"""An op's file shows the op: it imports no other op's file but those that docs/ARCHITECTURE.md says it is made of."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = "cpu", "cuda", "reference"


def made_of_others() -> set[tuple[str, str, str]]:
    """(folder, op, op that it calls): the rows of the page's table."""
    page = (ROOT / "docs" / "ARCHITECTURE.md").read_text(encoding="utf-8")
    section = page.partition("## Which op is made of another\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.*?) \| (`.*?) \| (`.*?) \|", section, re.MULTILINE)
    names = [[re.findall(r"`(.*?)`", cell) for cell in row] for row in rows]
    return {
        (folder, op, other) for folders, ops, others in names for folder in folders for op in ops for other in others
    }


def siblings(path: Path, folder: Path) -> set[str]:
    """The files beside an op's, or above a part's in common/, that it imports, also inside functions."""
    depth = len(path.relative_to(folder).parts)  # 1 in the folder itself, 2 in common/
    inside, found = {p.stem for p in folder.glob("*.py")} - {"__init__"}, set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        absolute = f"minidecode.{folder.name}"
        if isinstance(node, ast.ImportFrom):
            module = (node.module or "").split(".") if node.level == depth else []
            if node.level == 0 and f"{node.module}.".startswith(f"{absolute}."):
                module = node.module.removeprefix(absolute).strip(".").split(".")
            elif node.level != depth:
                continue
            found |= {module[0]} if module[0] else {alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {a.name.split(".")[2] for a in node.names if a.name.startswith(f"{absolute}.")}
    return found & inside


@pytest.mark.parametrize("name", FOLDERS)
def test_an_op_imports_no_other_op_but_those_it_is_made_of(name):
    folder = ROOT / "minidecode" / name
    files = [*folder.glob("*.py"), *(folder / "common").glob("*.py")]
    imported = {(name, path.stem, other) for path in files for other in siblings(path, folder)}
    assert imported == {row for row in made_of_others() if row[0] == name}, "docs/ARCHITECTURE.md lists exactly those"


def test_an_import_of_another_op_would_be_found(tmp_path):
    """Relative, absolute and late ones, from a file beside it and from common/."""
    folder = tmp_path / "cuda"
    (folder / "common").mkdir(parents=True)
    for stem in ("a", "b", "c", "d"):
        (folder / f"{stem}.py").write_text("", encoding="utf-8")
    late = (
        "from .a import x\nfrom . import b\ndef f():\n    import minidecode.cuda.c\n    from minidecode.cuda import d\n"
    )
    (folder / "op.py").write_text(f"{late}from .common import a\nfrom ..reference import c\n", encoding="utf-8")
    (folder / "common" / "part.py").write_text(
        "from ..a import x\nfrom .b import y\nfrom .. import c\n", encoding="utf-8"
    )
    assert siblings(folder / "op.py", folder) == {"a", "b", "c", "d"}
    assert siblings(folder / "common" / "part.py", folder) == {"a", "c"}
