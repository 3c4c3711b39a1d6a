"""Fits the coefficients of the compiled erf (minidecode/cpu/common/activation.py), and prints them.

    python benchmarks/fit_erf.py

Below CUT, erf(x) = x + x r(x^2 - HALF): r is small, so that its rounding hardly counts. From there on,
erf(x) = 1 - p(x - CUT)^2, where p^2 = erfc is at most 0.11, and so are its errors. Each fit makes the largest error of
erf least, by least squares whose weights grow where the error is large (Lawson's method). Coefficients are rounded to
float32 one after the other, and what is left is fitted again, so that later ones make up for earlier roundings. Takes
some seconds. Prints the coefficients, and writes no file.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable

import numpy as np
from numpy.polynomial.chebyshev import Chebyshev, chebvander

CUT, HALF, END = 1.125, 0.5, 4.0
DEGREE_OF_R, DEGREE_OF_P = 6, 9
POINTS, ROUNDS = 600, 60

erf, erfc = np.vectorize(math.erf), np.vectorize(math.erfc)


def fit_polynomial(f: Callable, weight: Callable, low: float, high: float, degree: int) -> np.ndarray:
    """The polynomial, lowest power first, whose weighted error is least where it is largest."""
    u = np.cos(np.pi * (np.arange(POINTS) + 0.5) / POINTS)
    x = (low + high) / 2 + (high - low) / 2 * u
    powers, due, wanted = chebvander(u, degree), f(x), weight(x)
    share, best, least = np.full(POINTS, 1 / POINTS), np.zeros(degree + 1), math.inf
    for _ in range(ROUNDS):
        by = np.sqrt(share) * wanted
        found = np.linalg.lstsq(powers * by[:, None], due * by, rcond=None)[0]
        errors = np.abs((powers @ found - due) * wanted)
        if errors.max() < least:
            best, least = found, errors.max()
        share = share * errors / (share * errors).sum()
    return Chebyshev(best, domain=[low, high]).convert(kind=np.polynomial.Polynomial).coef


def fit_rounded(f: Callable, weight: Callable, low: float, high: float, degree: int) -> list[float]:
    """The coefficients as float32, each fixed before the rest is fitted again."""
    fixed: list[float] = []
    for k in range(degree + 1):

        def left(x: np.ndarray, k: int = k) -> np.ndarray:
            return (f(x) - sum(c * x**i for i, c in enumerate(fixed))) / x**k

        found = fit_polynomial(left, lambda x, k=k: weight(x) * np.abs(x) ** k, low, high, degree - k)
        fixed.append(float(np.float32(found[0])))
    return fixed


def erf_ratio(s: np.ndarray) -> np.ndarray:
    """erf(x) / x - 1 where x^2 = s + HALF."""
    x = np.sqrt(s + HALF)
    return erf(x) / x - 1


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    near = fit_rounded(erf_ratio, lambda s: 1 / (1 + erf_ratio(s)), 1e-9 - HALF, CUT**2 - HALF, DEGREE_OF_R)
    root = fit_rounded(
        lambda u: np.sqrt(erfc(u + CUT)), lambda u: 2 * np.sqrt(erfc(u + CUT)), 1e-9, END - CUT, DEGREE_OF_P
    )
    for name, coefficients in (("r", near), ("p", root)):
        print(name, ", ".join(f"{c:.9g}" for c in coefficients))


if __name__ == "__main__":
    main()
