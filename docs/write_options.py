"""Writes what is made of the table of options: minidecode/options/typed_dict.py and docs/options.md.

python docs/write_options.py            write them
python docs/write_options.py --check    exit with 1 if they are stale
"""

from __future__ import annotations

import dataclasses
import sys
import textwrap
from pathlib import Path

from minidecode.options.table import ROWS, OptionTable

ROOT = Path(__file__).resolve().parents[1]
FIELDS = {f.name: f for f in dataclasses.fields(OptionTable)}
GROUPS = ("Length and stops", "Search", "Sampling", "Rules for tokens", "Special tokens")
FOR_ONE_CALL = '''
    For one call alone:

    generation_config: dict[str, Any] | str | Path | Literal[False] | None = None
        Defaults, or their file, in place of the model's; False: none.
    return_dict_in_generate, output_scores: False
        As callers of transformers may pass them; they change nothing.
    """
'''
MODULE = '''"""The options of `generate` for type checkers; docs/write_options.py writes this file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict

import numpy as np


class GenerateOptions(TypedDict, total=False):
    """The options of `generate`: keywords of a call, or one dict.

        model.generate("Fellow citizens,", num_beams=4, no_repeat_ngram_size=3)
        options: md.GenerateOptions = {"num_beams": 4, "no_repeat_ngram_size": 3}
        model.generate("Fellow citizens,", **options)

    What a call leaves out comes from the model's generation_config.json, and then from here. Names
    and meanings are Hugging Face's. `help(minidecode.options.options.Options)` explains more.
'''
PAGE = """# Options of a generation

These are keywords of `generate`, `stream` and `generate_lines`, and flags of the commands that generate. Names and
meanings are those of transformers. What a call leaves out comes from the model's `generation_config.json`, and then
from this page. [Search](guide/search.md) explains the rules, and what differs between the dialects.

An option without the one that it needs is an error. So is an option that the dialect has no rule
for. Where the column "dialects" is empty, all have it.
"""
HEAD = "| option | default | flags | dialects | needs | what it does |\n|---|---|---|---|---|---|"


def given_type(name: str) -> str:
    """The type of what a call may give."""
    return (ROWS[name].given or str(FIELDS[name].type)).replace("'", '"')


def default_of(name: str) -> str:
    """The default as Python writes it."""
    return repr(FIELDS[name].default).replace("'", '"')


def typed_dict() -> str:
    """The module that holds GenerateOptions."""
    lines = [MODULE]
    for group in GROUPS:
        lines.append(f"    {group}:\n")
        for name in (n for n, row in ROWS.items() if row.group == group):
            text = f"{ROWS[name].help} {ROWS[name].more}".strip()
            lines.append(f"    {name}: {given_type(name)} = {default_of(name)}")
            lines += textwrap.wrap(text, 96, initial_indent=" " * 8, subsequent_indent=" " * 8)
        lines.append("")
    fields = [f"    {name}: {given_type(name)}" for name in ROWS]
    first = "    generation_config: dict[str, Any] | str | Path | Literal[False] | None"
    last = ["    return_dict_in_generate: Literal[False]", "    output_scores: Literal[False]"]
    return "\n".join(["\n".join(lines).rstrip(), FOR_ONE_CALL, first, *fields, *last, ""])


def page() -> str:
    """The table of the docs, a part for each group."""
    parts = [PAGE]
    for group in GROUPS:
        parts.append(f"## {group}\n\n{HEAD}")
        for name, row in ROWS.items():
            if row.group == group:
                flags = [] if row.check.flag is None else row.flags.split()
                if row.check.flag is not None and not any("/" in flag for flag in flags):
                    flags.insert(0, f"--{name.replace('_', '-')}")
                dialects = "" if len(row.dialects) == len(ROWS["dialect"].check.values) else ", ".join(row.dialects)
                needs = row.needs.partition(":")[0]
                cells = [
                    f"`{name}`", f"`{default_of(name)}`", " ".join(f"`{flag}`" for flag in flags), dialects,
                    needs and f"`{needs}`", f"{row.help} {row.more}".strip(),
                ]  # fmt: skip
                parts.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
        parts.append("")
    return "\n".join(parts)


def written() -> dict[Path, str]:
    """Path -> text of each file."""
    return {ROOT / "minidecode" / "options" / "typed_dict.py": typed_dict(), ROOT / "docs" / "options.md": page()}


def main() -> None:
    stale = {p: text for p, text in written().items() if not p.exists() or p.read_text(encoding="utf-8") != text}
    if sys.argv[1:] == ["--check"] and stale:
        raise SystemExit(f"{', '.join(p.name for p in stale)}: run python docs/write_options.py")
    for path, text in stale.items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
