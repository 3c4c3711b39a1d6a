"""Writes docs/ops/NAME.md for each row of the catalog, docs/catalog.md, which lists them, and minidecode/plan_rows.py.

python docs/write_ops.py            write the pages
python docs/write_ops.py --check    exit with 1 if a page is stale

What stands between a page's markers gives way to code, costs, times and mistakes on the site (docs/op_pages.py).
"""

from __future__ import annotations

import inspect
import os
import re
import sys
from pathlib import Path

from equations import EQUATIONS
from excerpt import as_markdown

from minidecode import ops
from minidecode.catalog import CATALOG, Row
from minidecode.plan import CACHES, ops_of_cache

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
TO_ROOT = "../.."  # from an op's page
LIST_OF_OPS = "Exercises"  # the section of a chapter whose end links to the ops of the whole chapter
CODE = {"reference": "naive and NumPy", "cpu": "compiled for CPUs", "cuda": "CUDA"}
CONTRACTS = {
    "exact": "`exact`: every version gives the same bits.",
    "tolerance": "`tolerance`: every version is within a bound computed from the dtype and the number of terms.",
}
CATALOG_HEAD = """# The catalog

Each op has a page with its versions side by side: naive, NumPy, compiled for CPUs and CUDA. The page has the contract,
what each kernel changes, bytes and operations, recorded times and known mistakes. `python docs/write_ops.py` writes
it.

`minidecode check NAME mine.py:function` checks your function by the row's contract and names known mistakes.
`minidecode compare NAME` times all versions.

| op | function | contract | paper |
|---|---|---|---|
"""

PLAN_ROWS = '''"""A field of `Plan` for each row of the catalog; docs/write_ops.py writes this file."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class PlanRows:
    """What runs for each row; None leaves it to the plan's base."""

'''


def pages() -> dict[Path, str]:
    """Every file that this script writes, with its text."""
    rows = "".join(
        f"| [{row.name}](ops/{row.name}.md) | `{row.op}` | {row.contract} | {row.paper} |\n" for row in CATALOG.values()
    )
    toctree = "<!-- here: ops -->\n"  # the site's side bar
    fields = "".join(f"    {name}: str | None = None\n" for name in CATALOG)
    written = {DOCS / "catalog.md": f"{CATALOG_HEAD}{rows}\n{toctree}"}
    written[ROOT / "minidecode" / "plan_rows.py"] = PLAN_ROWS + fields
    return written | {DOCS / "ops" / f"{row.name}.md": page(row) for row in CATALOG.values()}


def page(row: Row) -> str:
    """The part of an op's page that is a file."""
    function = getattr(ops, row.op)
    what, _, contract = inspect.getdoc(function).partition("Contract: ")
    parameters = ", ".join(
        p.name if p.default is p.empty else f"{p.name}={p.default!r}"
        for p in inspect.signature(function).parameters.values()
    )
    chapters = [where for path in sorted((ROOT / "tutorials").glob("[0-9]*.md")) if (where := explained_in(path, row))]
    guide = [where for path in sorted((DOCS / "guide").glob("*.md")) if (where := explained_in(path, row))]
    callers = [cache for cache in CACHES if row.op in ops_of_cache(cache, has_encoder=False)]
    facts = [
        f"Paper: {row.paper} ([papers](../papers.md))",
        *([f"Called by: {', '.join(f'`cache={cache}`' for cache in callers)}"] if callers else []),
        *([f"In chapters: {', '.join(chapters)}"] if chapters else []),
        *([f"In the guide: {', '.join(guide)}"] if guide else []),
        *(f"Code, {kind}: {link(file)}" for folder, kind in CODE.items() if (file := code_file(folder, row)).exists()),
        f"Declared in: {link(ROOT / 'minidecode' / 'ops.py')}",
        f"Inputs that find mistakes: {link(code_file('conformance/rows', row))}",
    ]
    return "\n\n".join([
        f"# {row.name}: `{row.op}`",
        f"`{row.op}({parameters})`",
        f"```text\n{EQUATIONS[row.name]}\n```",
        as_markdown(what.strip()),
        "## Contract",
        as_markdown(contract[:1].upper() + contract[1:]),
        CONTRACTS[row.contract],
        "## Where",
        "\n".join(f"- {fact}" for fact in facts),
        f"<!-- here: versions {row.name} -->",
        f"The [site]({TO_ROOT}/tutorials/README.md#the-site) shows the code of all versions here, side by side.\n"
        f"The known mistakes are in [tests/mutants/{row.name}]({TO_ROOT}/tests/mutants/{row.name}).",
        "<!-- end of versions -->\n",
    ])  # fmt: skip


def code_file(folder: str, row: Row) -> Path:
    return ROOT / "minidecode" / folder / f"{row.name}.py"


def link(path: Path) -> str:
    file = path.relative_to(ROOT).as_posix()
    return f"[{file}]({TO_ROOT}/{file})"


def explained_in(path: Path, row: Row) -> str | None:
    """A link to the section of a page that first links to the op's page, or to the page if that is the list at its end.

    None where no link leads there.
    """
    before, link_to_op, _ = path.read_text(encoding="utf-8").partition(f"ops/{row.name}.md)")
    if not link_to_op:
        return None
    title, *sections = re.findall(
        r"^#+ (.+)$", re.sub(r"^```.*?^```", "", before, flags=re.MULTILINE | re.DOTALL), re.MULTILINE
    )
    target = Path(os.path.relpath(path, DOCS / "ops")).as_posix()
    if not sections or sections[-1] == LIST_OF_OPS:
        return f"[{title}]({target})"
    anchor = re.sub(r"[^\w -]", "", sections[-1].lower()).replace(" ", "-")
    return f"[{title}: {sections[-1]}]({target}#{anchor})"


def main() -> None:
    """Writes the pages, or checks them."""
    texts = pages()
    stale = [path for path, text in texts.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    left = sorted({*(DOCS / "ops").glob("*.md")} - {*texts})
    if "--check" not in sys.argv[1:]:
        for path in stale:
            path.write_text(texts[path], encoding="utf-8", newline="\n")
        for path in left:
            path.unlink()
    elif stale or left:
        listed = ", ".join(path.relative_to(ROOT).as_posix() for path in [*stale, *left])
        sys.exit(f"{listed}: stale, run python docs/write_ops.py")


if __name__ == "__main__":
    main()
