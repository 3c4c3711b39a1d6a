"""The gated feed-forward: gate and up in pairs of columns, in NumPy and as a kernel, against float64 and mistakes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minidecode.cuda import activation as kernels
from minidecode.reference.activation import ACTIVATIONS, NAIVE, gated_activation, gated_activation_naive
from minidecode.runtime.launch import InEmulator

EPS = 2.0**-24
EVERY = {
    "naive": gated_activation_naive, "numpy": gated_activation, "kernel": InEmulator(kernels.gated_activation),
}  # fmt: skip


def case(seed, R, F):
    return np.random.default_rng(seed).standard_normal((R, 2 * F)).astype(np.float32) * np.float32(2)


def judge(f_RX, activation, found):
    """Whether it is within the bound: some roundings of the activation's argument and value, and one of the product."""
    gate_RF, up_RF = f_RX[:, 0::2].astype(np.float64), f_RX[:, 1::2].astype(np.float64)
    exact = NAIVE[ACTIVATIONS[activation]](gate_RF)
    bound = 16 * EPS * (np.abs(exact) + np.abs(gate_RF)) * np.abs(up_RF) + 1e-37
    return found.dtype == f_RX.dtype and (np.abs(found - exact * up_RF) <= bound).all()


@pytest.mark.parametrize("which", EVERY)
@settings(max_examples=8)
@given(seed=st.integers(0, 9), R=st.integers(1, 4), F=st.sampled_from([1, 3, 33]),
       activation=st.sampled_from(["gelu_new", "silu", "relu", "gelu", "linear"]))  # fmt: skip
def test_it_is_the_equation(which, seed, R, F, activation):
    f_RX = case(seed, R, F)
    before = f_RX.copy()
    assert judge(f_RX, activation, EVERY[which](f_RX, activation))
    out = np.full((R, F), 77, np.float32)
    assert EVERY[which](f_RX, activation, out=out) is out and judge(f_RX, activation, out)
    assert np.array_equal(f_RX, before)


def halves(f_RX, activation):
    F = f_RX.shape[1] // 2
    return NAIVE[ACTIVATIONS[activation]](f_RX[:, :F]) * f_RX[:, F:]


def the_other_way_round(f_RX, activation):
    return f_RX[:, 0::2] * NAIVE[ACTIVATIONS[activation]](f_RX[:, 1::2])


def both_activated(f_RX, activation):
    return NAIVE[ACTIVATIONS[activation]](f_RX[:, 0::2]) * NAIVE[ACTIVATIONS[activation]](f_RX[:, 1::2])


def not_gated(f_RX, activation):
    return NAIVE[ACTIVATIONS[activation]](f_RX[:, 0::2])


def a_thousandth_too_large(f_RX, activation):
    return gated_activation(f_RX, activation) * np.float32(1.001)


@pytest.mark.parametrize("mistake", [halves, the_other_way_round, both_activated, not_gated, a_thousandth_too_large])
def test_a_mistake_breaks_the_bound(mistake):
    f_RX = case(0, 3, 5)
    assert not judge(f_RX, "gelu_new", mistake(f_RX, "gelu_new").astype(np.float32))
