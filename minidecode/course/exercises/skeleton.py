"""Skeletons are made from solutions, by markers: there is no second copy that could fall behind.

    # --- variation            what follows, down to "# --- end", are constants that `start` draws anew
    # --- your turn: TEXT      down to "# --- end": the solution. The skeleton has TEXT as a comment there, and raises
    # --- was                  the same for a program to be mended: nothing in the skeleton says where the mistake is
    #| CODE                    inside of the two: a line that the skeleton has in the solution's place

Python alone is needed here, so that the build of the wheel can call it.
"""

from __future__ import annotations

import ast
import importlib.util
import re
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[3]  # where the package is run from one
VARIATION = re.compile(r"^# --- variation(?: (\d+) of exercise (\d+))?.*$", re.MULTILINE)
_OPENING = re.compile(r"^(\s*)# --- (?:your turn: (.*)|was)$")
_END = re.compile(r"^\s*# --- end$")
_INSTEAD = re.compile(r"^\s*#\| ?(.*)$")


def folders_with_solutions() -> list[Path]:
    """The folders that may have solutions: the checkout, the current folder, and the instructor's package."""
    instructor = importlib.util.find_spec("minidecode_instructor")
    installed = map(Path, instructor.submodule_search_locations or ()) if instructor else ()
    return [CHECKOUT, Path.cwd(), *installed]


class MarkerError(ValueError):
    """A marker of a solution is not closed, or closes nothing."""


def strip_solution(solution: str) -> str:
    """The solution without its answers and without its own docstring."""
    lines, kept, opening = _without_docstring(solution).splitlines(), [], None
    is_variation = False
    for number, line in enumerate(lines, 1):
        if opening is None and VARIATION.match(line):
            is_variation = True
        if match := _OPENING.match(line):
            if opening is not None or is_variation:
                raise MarkerError(f"line {number}: a marker within another")
            opening, instead = match, []
        elif _END.match(line):
            if opening is None and not is_variation:
                raise MarkerError(f"line {number}: this ends nothing")
            if opening is not None:
                kept += _lines_without_answer(opening, instead)
                opening = None
            else:
                kept.append(line)
                is_variation = False
        elif opening is None:
            kept.append(line)
        elif match := _INSTEAD.match(line):
            instead.append(match[1])
    if opening is not None or is_variation:
        raise MarkerError('a marker has no "# --- end"')
    return "\n".join(kept).strip("\n") + "\n"


def _lines_without_answer(opening: re.Match, instead: list[str]) -> list[str]:
    indent, text = opening[1], opening[2]
    if not instead:
        instead = [f'raise NotImplementedError("your turn: {text}")'] if text else []
    note = [f"{indent}# your turn: {text}"] if text else []
    return note + [f"{indent}{line}" for line in instead]


def _without_docstring(source: str) -> str:
    return re.sub(r'\A\s*""".*?"""\n*', "", source, count=1, flags=re.DOTALL)


def replace_variation(source: str, number: int, seed: int, constants: dict[str, object]) -> str:
    """The source with these constants between its variation's markers; a source without any stays as it is."""
    head = VARIATION.search(source)
    if head is None:
        return source
    end = source.index("# --- end", head.end())
    block = [f"# --- variation {seed} of exercise {number}: yours; leave these lines as they are"]
    block += [f"{name} = {_literal_as_source(value)}" for name, value in constants.items()]
    return source[: head.start()] + "\n".join(block) + "\n" + source[end:]


def _literal_as_source(value: object) -> str:
    if isinstance(value, str) and "\n" in value:
        return f'"""\\\n{value}"""'
    return f'"{value}"' if isinstance(value, str) else repr(value)


def seed_in_source(source: str, number: int) -> int | None:
    """The seed of the variation that a student's file holds; None where it says none, or another exercise's."""
    head = VARIATION.search(source)
    return int(head[1]) if head and head[1] and int(head[2]) == number else None


def changed_constants(source: str, constants: dict[str, object]) -> list[str]:
    """The constants of a file that differ from the drawn ones, a sentence each. What is no literal counts as changed.

    Constants that are gone, and a source that is no Python, are reported by the code that runs it.
    """
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    lines = {t.id: s for s in body if isinstance(s, ast.Assign) for t in s.targets if isinstance(t, ast.Name)}
    return [
        f"Line {lines[name].lineno} says {_shorten_text(ast.unparse(lines[name]))}, but your variation has"
        f" {_shorten_text(f'{name} = {value!r}')}, and that is what is judged: put it back."
        for name, value in constants.items() if name in lines and not _has_value(lines[name].value, value)
    ]  # fmt: skip


def _has_value(node: ast.expr, value: object) -> bool:
    try:
        return repr(ast.literal_eval(node)) == repr(value)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return False


def _shorten_text(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."


def is_untouched(source: str, template: str) -> bool:
    """Whether a file says what its skeleton says, whatever its variation: the student has written nothing."""
    return written_lines(source) == written_lines(template)


def written_lines(source: str) -> list[str]:
    """The lines that say something: without the statement on top, the variation's constants and what editors change."""
    source = _without_docstring(source)
    head = VARIATION.search(source)
    end = source.find("# --- end", head.end()) if head else -1
    if end >= 0:
        source = source[: head.start()] + source[end:]
    return [line.rstrip() for line in source.splitlines() if line.strip()]


def take_predictions_back(source: str, names: list[str], seed: int) -> str:
    """The source with None for each of these constants that is a plain value, which stays as a comment above.

    What is computed of other names stays: it holds for any variation. So does what is no Python.
    """
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return source
    lines = source.split("\n")
    alone = [s for k, s in enumerate(body) if all(s.lineno > o.end_lineno or o.lineno > s.end_lineno
                                                  for o in body[max(k - 1, 0) : k + 2] if o is not s)]  # fmt: skip
    for s in reversed(alone):
        if not isinstance(s, ast.Assign) or len(s.targets) != 1 or not isinstance(s.targets[0], ast.Name):
            continue
        is_plain = not any(isinstance(node, ast.Name) for node in ast.walk(s.value))
        if s.targets[0].id in names and is_plain and not (isinstance(s.value, ast.Constant) and s.value.value is None):
            behind = lines[s.end_lineno - 1].encode()[s.end_col_offset :].decode()
            given = " ".join(ast.get_source_segment(source, s).split())
            lines[s.lineno - 1 : s.end_lineno] = [f"# variation {seed}: {given}", f"{s.targets[0].id} = None{behind}"]
    return "\n".join(lines)


def replace_docstring_by_statement(template: str, statement: str) -> str:
    """The file with the statement on top, in the place of the docstring that it has."""
    return f'"""{statement.strip()}\n"""\n\n{_without_docstring(template)}'
