"""An op's page on the site: its versions side by side, what each kernel changes, costs, times, known mistakes.

docs/write_ops.py writes the part of the page that code hosts show too. This is the rest, made from the code when the
site is built.
"""

from __future__ import annotations

import ast
import difflib
import inspect
import re
import sys
from collections.abc import Callable
from functools import cache
from html import escape
from pathlib import Path

import numpy as np
import recorded
from excerpt import as_markdown, borrowed, code_of, functions

from minidecode.bench.machines import MACHINES
from minidecode.catalog import CATALOG, Row, arguments_of
from minidecode.conformance.check import drop_unused_bias, find_mistake, mutant_files, runnable_code
from minidecode.conformance.rows import row_module
from minidecode.device.launch import traced_launches
from minidecode.device.user_functions import load_python_file
from minidecode.dims import arrays_in

ROOT = Path(__file__).resolve().parents[1]
MUTANTS = ROOT / "tests" / "mutants"
LONGEST_INPUT = 1_500  # characters of an input that are shown
VERSIONS = {"naive": "reference", "numpy": "reference", "compiled": "cpu", "cuda": "cuda"}  # folder of each
TITLES = {"naive": "Naive", "numpy": "NumPy", "compiled": "Compiled for CPUs", "cuda": "CUDA"}
MISSING = {"compiled": "There is none: NumPy's runs on CPUs.", "cuda": "There is none: this op runs on the host."}


def versions(name: str) -> str:
    """What stands on the page between its markers."""
    row = CATALOG[name]
    parts = [side_by_side(row), ladder(row), costs(row), times(row), mistakes(row)]
    return "\n\n".join(filter(None, parts))


# The code


def files(name: str) -> list[Path]:
    """What the page is made of: when one of these changes, it is made anew."""
    folders = {*VERSIONS.values(), "conformance/rows"}
    return [*filter(Path.exists, (file_of(CATALOG[name], f) for f in sorted(folders))), *mutant_files(name)]


def file_of(row: Row, folder: str) -> Path:
    return ROOT / "minidecode" / folder / f"{row.name}.py"


def function_of(row: Row, version: str) -> str | None:
    """The function's name, or None where there is no such version."""
    function = f"{row.op}_naive" if version == "naive" else row.op
    return function if file_of(row, VERSIONS[version]).exists() else None


def side_by_side(row: Row) -> str:
    """A column for each version; the buttons above show one alone. On a phone they are tabs, and the first is open."""
    buttons = "".join(
        f'<label class="of-{value}"><input type="radio" name="version" value="{value}"'
        f"{' checked' * (value == 'all')}> {text}</label>"
        for value, text in {"all": "all", **TITLES}.items()
    )
    columns = "\n".join(column(row, version) for version in VERSIONS)
    return (
        "## Versions\n\n"
        "Each with what it needs of its own folder. The names of shapes are in "
        "[the glossary](../GLOSSARY.md#letters-of-shapes).\n\n"
        f"`````{{container}} versions\n<fieldset><legend>Show</legend>{buttons}</fieldset>\n\n"
        f"{columns}\n`````"
    )


def column(row: Row, version: str) -> str:
    function, file = function_of(row, version), file_of(row, VERSIONS[version])
    if function is None:
        text = MISSING[version]
    else:
        code = code_of(file, [function], entries(row) if version == "cuda" else ())
        text = f"{link_to(file)}\n\n```python\n{code}\n```"
        for other, names in borrowed(file, code).items():
            listed = ", ".join(f"<code>{name}</code>" for name in names)
            summary = f"From {other.relative_to(file.parent).as_posix()}: {listed}"
            text += "\n\n" + folded(summary, f"```python\n{code_of(other, names)}\n```")
    name = f":name: {anchor(row.name, version)}"
    return f"````{{container}} version {version}\n{name}\n\n**{TITLES[version]}**\n{text}\n````"


def anchor(name: str, version: str) -> str:
    """Where a version stands on the page, for links to it."""
    return f"{name}-{version}".replace("_", "-")


def link_to(path: Path) -> str:
    file = path.relative_to(ROOT).as_posix()
    return f"[{file.removeprefix('minidecode/')}](../../{file})"


# From kernel to kernel


def kernel_versions(row: Row) -> dict[int, tuple[str, str]]:
    """Number -> (function, its sentence in the file's ladder)."""
    if not file_of(row, "cuda").exists():
        return {}
    path = file_of(row, "cuda")
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    rungs = re.findall(r"^(\d+)\. (.*(?:\n   .*)*)", docstring, re.MULTILINE)
    named = {int(number): f"{row.op}_v{number}" for number, _ in rungs}
    return {
        int(number): (named[int(number)] if named[int(number)] in functions(path) else row.op, " ".join(text.split()))
        for number, text in rungs
    }


def entries(row: Row) -> tuple[str, ...]:
    """The functions that versions begin with: a version that hands what it cannot do to another one is shown alone."""
    return tuple(function for function, _ in kernel_versions(row).values())


def ladder(row: Row) -> str:
    """Each kernel version's reason, and what it changes."""
    versions, before, lines = kernel_versions(row), None, []
    for number, (function, reason) in versions.items():
        code = whole(row, function)
        lines += [f"**Version {number}.** {as_markdown(reason)}"]
        if before:
            lines += [folded(f"Version {number} against version {before[0]}", diff(before[1], code))]
        elif len(versions) > 1:
            lines += [folded(f"The code of version {number}", f"```python\n{code}\n```")]
        before = number, code
    return "\n\n".join(["## From kernel to kernel", *lines]) if lines else ""


def whole(row: Row, function: str) -> str:
    """A kernel version, with what it takes from the files of other ops: some kernels serve two of them."""
    path = file_of(row, "cuda")
    code = code_of(path, [function], entries(row))
    others = {file: names for file, names in borrowed(path, code).items() if file.parent == path.parent}
    return "\n\n\n".join([code, *(code_of(file, names, entries(CATALOG[file.stem])) for file, names in others.items())])


def diff(old: str, new: str) -> str:
    lines = list(difflib.unified_diff(old.splitlines(), new.splitlines(), lineterm="", n=3))[3:]
    return "\n".join(["```diff", *("..." if line.startswith("@@") else line for line in lines), "```"])


def folded(summary: str, text: str) -> str:
    return f"<details><summary>{summary}</summary>\n\n{text}\n\n</details>"


# Costs and times


def costs(row: Row) -> str:
    """The cost model's formula, and its numbers for the inputs that `minidecode compare` times."""
    arguments, shape = row_module(row.name).make_paper_inputs()
    cost = row.cost(*arguments)
    per_byte = f"{cost.operations / cost.bytes:.2f}" if cost.bytes else "none"
    rows = [("bytes moved", f"{cost.bytes:,}"), ("operations", f"{cost.operations:,}"), ("operations a byte", per_byte)]
    rows += [(f"least time, {m.name.upper()}", in_us(m.seconds(cost))) for m in MACHINES.values()]
    return "\n\n".join([
        "## Bytes and operations",
        f"The least that any version must do, for the inputs that `minidecode compare {row.name}` times: "
        f"{as_markdown(shape)}.",
        recorded.table(("what", "how much"), rows),
        folded("The formula", f"```python\n{inspect.getsource(row.cost).strip()}\n```"),
    ])  # fmt: skip


def in_us(seconds: float) -> str:
    value = 1e6 * seconds
    return f"{value:,.2f} us" if value >= 0.1 or not value else f"{value:.2g} us"


def times(row: Row) -> str:
    """Tables of what was recorded, each with its machine."""
    sections = [
        f"{as_markdown(what[:1].upper() + what[1:])}. Recorded in [{file}](../../benchmarks/results/{file}), "
        f"{as_markdown(recorded.machine_of(recorded.RESULTS / file))}\n\n{table}"
        for file, what, table in recorded.times_of(row.name, row.op)
    ]
    yours = f"For times on your machine, run `minidecode compare {row.name}`."
    return "\n\n".join(["## Recorded times", *sections, yours])


# Known mistakes


def mistakes(row: Row) -> str:
    """Each known wrong version, with the smallest of the planted inputs that shows it."""
    lines = []
    for path in mutant_files(row.name):
        module = load_python_file(path)
        shown = shown_by(row, getattr(module, row.op))
        text = f"`{path.stem}` {as_markdown(module.__doc__.strip().splitlines()[0])}"
        in_tree = MUTANTS / row.name / path.name  # an installed package has them in a folder of its own
        lines.append(folded(html_of(text), f"{shown}\n\n{link_to(in_tree)}"))
    what = (
        f"`minidecode check {row.name} FILE.py:FUNCTION` tries such inputs on your version. It names the mistake "
        "if yours is one of these."
    )
    return "\n\n".join(["## Known mistakes", what, *lines])


def html_of(text: str) -> str:
    """A line of Markdown's code and escapes as HTML, for a summary."""
    plain = re.sub(r"\\(.)", r"\1", text)
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(plain, quote=False))


def shown_by(row: Row, mistake: Callable) -> str:
    for arguments in inputs_by_size(row.name):
        with traced_launches(), np.errstate(all="ignore"):
            mistake_seen = find_mistake(row, mistake, drop_unused_bias(mistake, arguments))
        if mistake_seen:
            named = arguments_of(row, drop_unused_bias(mistake, arguments))
            sizes = ", ".join(f"{name} {list(a.shape)}" for name, a in arrays_in(list(named.items())))
            code = runnable_code(named) if size_of(arguments) < LONGEST_INPUT else ""
            shown = f"```python\n{code}\n```" if 0 < len(code) <= LONGEST_INPUT else f"Input: {as_markdown(sizes)}."
            return f"{as_markdown(mistake_seen.what)}\n\n{shown}"
    return "Random inputs find it."


@cache
def inputs_by_size(name: str) -> list[tuple]:
    """The planted inputs from the smallest on, and the large ones behind them."""
    return [*sorted(row_module(name).planted_cases(), key=size_of), *row_module(name).large_cases()]


def size_of(arguments: tuple) -> int:
    return sum(a.size for _, a in arrays_in([("", argument) for argument in arguments]))


if __name__ == "__main__":  # to look at one: python docs/op_pages.py NAME
    print(versions(sys.argv[1]))
