"""Compiled `append_kv` beside the reference: the same results, and the same errors where positions do not fit."""

import numpy as np
import pytest

from minidecode.cpu import append as cpu_append
from minidecode.ops import Heads
from minidecode.reference import append as append_file


def _one_position(R=3, M=5):
    """(qkv_RX, bias_X, heads, k_RGMK, v_RGMU, at_R) that fit."""
    rng, heads = np.random.default_rng(0), Heads(4, 2, 3, 5, 1.0)
    qkv_RX, bias_X = (rng.standard_normal(shape).astype(np.float32) for shape in ((R, 28), 28))
    k_RGMK, v_RGMU = np.zeros((R, 2, M, 3), np.float32), np.zeros((R, 2, M, 5), np.float32)
    return [qkv_RX, bias_X, heads, k_RGMK, v_RGMU, np.array([0, 4, 2])]


DO_NOT_FIT = {
    "position behind the last": (5, np.array([0, 5, 2])),
    "position far before the first": (5, np.array([0, -6, 2])),
    "fewer positions than rows": (5, np.array([0, 4])),
    "more positions than rows": (5, np.array([0, 4, 2, 1])),
    "no positions": (5, np.array([], np.int64)),
    "too few rows of keys": (3, np.zeros((2, 2, 5, 3), np.float32)),
    "too few values": (4, np.zeros((3, 2, 4, 5), np.float32)),
    "one key head": (3, np.zeros((3, 1, 5, 3), np.float32)),
    "narrow values": (4, np.zeros((3, 2, 5, 4), np.float32)),
    "short bias": (1, np.zeros(27, np.float32)),
    "long bias": (1, np.zeros(29, np.float32)),
    "narrow product": (0, np.zeros((3, 27), np.float32)),
}


@pytest.mark.parametrize("what", DO_NOT_FIT)
def test_compiled_append_refuses_what_the_reference_refuses(what):
    """In the same words, and it writes nowhere outside of its arrays."""
    place, wrong = DO_NOT_FIT[what]
    raised = []
    for append_kv in (append_file.append_kv, cpu_append.append_kv):
        arguments = _one_position()
        arguments[place] = wrong
        with pytest.raises((IndexError, ValueError)) as refused:
            append_kv(*arguments)
        raised.append((refused.type, str(refused.value)))
    assert raised[0] == raised[1]


def test_compiled_append_counts_from_the_end_as_numpy_does():
    """-1 is the last position; and a cache may have more rows than the step."""
    for at_R in (np.array([0, -1, 2]), np.array([0, 4, 2])):
        both = []
        for append_kv in (append_file.append_kv, cpu_append.append_kv):
            qkv_RX, bias_X, heads, *_ = _one_position()
            k_RGMK, v_RGMU = np.zeros((4, 2, 5, 3), np.float32), np.zeros((4, 2, 5, 5), np.float32)
            both.append((append_kv(qkv_RX, bias_X, heads, k_RGMK, v_RGMU, at_R), k_RGMK, v_RGMU))
        for mine, right in zip(*both, strict=True):
            assert np.array_equal(mine, right)
