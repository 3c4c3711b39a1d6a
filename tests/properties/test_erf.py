"""erf of the activations, NumPy's and compiled, against the C library's in float64: off by less than one unit."""

import math

import numpy as np
import pytest

from minidecode.reference.activation import _erf


def numbers() -> np.ndarray:
    """Evenly up to where erf is 1, more densely where errors are largest, and of all sizes: to the least number; 0, the
    ends of the fits, infinity."""
    draw = np.random.default_rng(0)
    ends = [0.0, 3.92, np.nextafter(np.float32(3.92), 4), 4.0, 5.9, 6.0, 30.0, 3e38, math.inf, 1e-45, 1.2e-38]
    ends += [1.125, np.nextafter(np.float32(1.125), 0)]
    even = [np.linspace(0, 6, 60_001), np.linspace(1, 1.25, 20_001)]
    positive = np.concatenate([*even, 10.0 ** draw.uniform(-45, 1, 20_000), ends])
    return np.concatenate([positive, -positive]).astype(np.float32)


def off(found: np.ndarray, x: np.ndarray) -> float:
    """How many units in the last place of a float32 it is off, at most."""
    true = np.array([math.erf(number) for number in x.tolist()])
    units = np.spacing(np.abs(true).astype(np.float32)).astype(np.float64)
    return float(np.max(np.abs(found.astype(np.float64) - true) / units))


def test_numpys_erf_is_within_one_unit_of_a_float32():
    x = numbers()
    assert off(_erf(x), x) < 1
    inside = np.array(x)
    assert _erf(inside, out=inside) is inside and off(inside, x) < 1, "in place"
    apart = np.zeros((len(x), 2), np.float32)
    assert off(_erf(x, out=apart[:, 0]), x) < 1 and not apart[:, 1].any(), "into every second place"
    assert np.isnan(_erf(np.array([np.nan, 1], np.float32))).tolist() == [True, False]
    assert _erf(np.zeros((3, 0), np.float32)).shape == (3, 0)


@pytest.mark.parametrize("dtype", [np.float64, np.float16])
def test_erf_of_other_dtypes(dtype):
    x = numbers()[::7].astype(dtype)
    true = np.array([math.erf(number) for number in x.tolist()])
    found = _erf(x)
    assert found.dtype == dtype
    assert np.abs(found.astype(np.float64) - true).max() <= (1e-15 if dtype is np.float64 else 2.0**-11)


def test_compiled_erf_is_within_one_unit_of_a_float32():
    from numba import njit

    from minidecode.cpu.common.activation import erf

    @njit
    def of_each(x_X):
        y_X = np.empty_like(x_X)
        for i in range(len(x_X)):
            y_X[i] = erf(x_X[i])
        return y_X

    x = numbers()
    assert off(of_each(x), x) < 1
    odd = of_each(np.array([np.nan, -0.0, 0.0, 4, -4, math.inf, -math.inf], np.float32))
    assert np.isnan(odd[0]) and odd[1:].tolist() == [0, 0, 1, -1, 1, -1]
    assert np.signbit(odd[1]) and not np.signbit(odd[2])
