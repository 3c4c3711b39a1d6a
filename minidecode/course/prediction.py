"""A prediction that is written down before the answer is seen."""

from __future__ import annotations

from ..errors import InputError


class Sealed:
    """What was predicted; `open` shows it beside what was found."""

    def __init__(self, guesses: dict[str, float | None]):
        self._guesses = dict(guesses)

    def __repr__(self) -> str:
        made = [name for name, guess in self._guesses.items() if guess is not None]
        return f"sealed: {', '.join(made)}" if made else "nothing predicted yet: put numbers in place of None"

    def open(self, **measured: float) -> None:
        """Prints a line for each: predicted, found, and by what factor they differ. What was not predicted says so."""
        for name in measured:
            if name not in self._guesses:
                raise InputError(f"{name} was not asked for: {', '.join(self._guesses)} were")
        for name, value in measured.items():
            guess = self._guesses[name]
            says = "not predicted" if guess is None else f"predicted {guess:,g}"
            off = "" if not guess or not value else f" (off by {max(guess / value, value / guess):.2g}x)"
            print(f"{name}: {says}, found {value:,.4g}{off}")


def seal(**guesses: float | None) -> Sealed:
    """Numbers by name, written down before the cell that computes them runs. None: no guess."""
    for name, guess in guesses.items():
        if guess is not None and (isinstance(guess, bool) or not isinstance(guess, int | float) or guess <= 0):
            raise InputError(f"{name} should be a number above 0, or None, not {guess!r:.40}")
    return Sealed(guesses)
