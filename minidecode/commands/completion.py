"""What a shell completes: plans, models, rows of the catalog, dialects, dtypes, topics.

It imports as little as --help does.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterable, Iterator, MutableMapping

from ..catalog import CATALOG
from ..plan import BACKENDS, BASES, CACHES, ROUNDED, STORED_AS, SWITCHES, has_file_of_row

BREAKS = {"=", ":"}  # bash takes each of these as a word of its own


def complete_plan(incomplete: str) -> list[str]:
    """Bases and keys; behind a key and =, its values. The choices before the last comma stay."""
    before, comma, last = incomplete.rpartition(",")
    if "=" not in last:
        given = {part.partition("=")[0] for part in before.split(",")}
        bases = [b for b in ([] if comma else BASES) if b.startswith(last)]
        keys = [k for k in ("cache", "cache_dtype", *SWITCHES, *CATALOG) if k not in given and k.startswith(last)]
        if bases or len(keys) != 1:
            return [*bases, *(f"{before}{comma}{key}=" for key in keys)]
        last = f"{keys[0]}="  # with its values at once: a shell puts a space behind the only word that fits
    key = last.partition("=")[0]
    return words_that_begin_with(
        f"{before}{comma}{last}", (f"{before}{comma}{key}={value}" for value in values_of_plan_key(key))
    )


def values_of_plan_key(key: str) -> list[str]:
    """What a key of a plan may be; a row of the catalog takes the backends that it has."""
    if key in CATALOG:
        row = CATALOG[key]
        optional = ["off", "auto"] if row.may_be_off else []
        places = {"naive": "reference", "emulator": "cuda"}
        backends = [b for b in BACKENDS if has_file_of_row(row, places.get(b, b))] + ["rounded"] * (key in ROUNDED)
        return list(row.spelled) or optional + backends
    return list({"cache": CACHES, "cache_dtype": STORED_AS, **SWITCHES}.get(key, ()))


def complete_model(incomplete: str) -> list[str]:
    """Bundled models, and published shapes; where none of them fits, a shell completes folders by itself."""
    from ..files.folder import bundled_models
    from ..files.published import PUBLISHED

    return words_that_begin_with(incomplete, [*bundled_models(), *PUBLISHED])


def complete_row(incomplete: str) -> list[str]:
    """Rows of the catalog."""
    return words_that_begin_with(incomplete, CATALOG)


def complete_dialect(incomplete: str) -> list[str]:
    from ..options.dialects import DIALECTS

    return words_that_begin_with(incomplete, DIALECTS)


def complete_dtype(incomplete: str) -> list[str]:
    from ..device.low_precision import COMPUTED_IN

    return words_that_begin_with(incomplete, COMPUTED_IN)


def words_that_begin_with(incomplete: str, words: Iterable[str]) -> list[str]:
    return [word for word in words if word.startswith(incomplete)]


@contextlib.contextmanager
def join_words_of_bash(environment: MutableMapping[str, str]) -> Iterator[None]:
    """Makes one argument again of `cache=split`, which bash hands over as three words, each on a line.

    bash puts a completion in the place of the last word alone, so what stands before the last = or : is not printed.
    """
    words = environment.get("COMP_WORDS", "").split("\n")[: int(environment.get("COMP_CWORD", "0")) + 1]
    joined, last = [], ""
    for word in words:
        if word and joined and (set(word) <= BREAKS or (last and set(last) <= BREAKS)):
            joined[-1] += word
        else:
            joined.append(word)
        last = word
    environment |= {"COMP_WORDS": "\n".join(joined), "COMP_CWORD": str(len(joined) - 1)}
    stands = joined[-1][: max(map(joined[-1].rfind, BREAKS)) + 1]
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            yield
    finally:  # typer ends the process
        for line in printed.getvalue().splitlines():
            print(line.removeprefix(stands).removeprefix(stands.partition("=")[2]))  # --plan=cache=, or cache=
