"""Kernels of ops that are no row of the catalog: the same numbers as in NumPy, whatever shapes and types."""

import numpy as np
import pytest

from minidecode import MinidecodeError, reference
from minidecode.cuda import activation, beam_scores, move, random, sample, softmax, temperature
from minidecode.device.launch import InEmulator, traced_launches
from minidecode.plan import functions_of_backend

REFERENCE = functions_of_backend(reference)
RNG = np.random.default_rng(0)


def normal(*shape, dtype=np.float32):
    return RNG.standard_normal(shape).astype(dtype)


CASES = [
    ("gather_rows", move, (normal(5, 33), np.array([4, 0, 0, 2]))),
    ("gather_rows", move, (normal(3, 2, 4, 5), np.array([2, 1, 1]))),  # as caches have it
    ("gather_rows", move, (normal(3, 1, 3, 5, dtype=np.float16), np.array([1, 1, 0, 2]))),  # an odd number of halves
    ("gather_rows", move, (normal(4, 3, dtype=np.float64), np.array([3]))),
    ("gather_rows", move, (RNG.integers(0, 2, (4, 7)).astype(bool), np.array([3, 0]))),
    ("gather_rows", move, (normal(2, 300), np.array([1, 0]))),  # past a block
    ("pad_left", move, (normal(6, 2, 3), np.array([0, 1, 4, 6]))),
    ("pad_left", move, (normal(4, 3, 50), np.array([0, 4]))),
    ("pad_left", move, (normal(4, 3, 5, dtype=np.float16), np.array([0, 1, 4]))),  # an odd number of halves
    ("pad_left", move, (normal(4, 3, 16)[..., ::2], np.array([0, 1, 4]))),
    ("pad_left", move, (normal(6, 2, 3), np.array([0, 1, 4, 6]), 5)),
    ("concat_step", move, (normal(3, 2, 4, 5), normal(3, 2, 5))),
    ("concat_step", move, (normal(2, 1, 1, 140), normal(2, 1, 140))),
    ("concat_step", move, (normal(2, 2, 3, 5, dtype=np.float16), 40_000 * normal(2, 2, 5))),  # beyond its range
    ("add_bias", activation, (normal(5, 130), normal(130))),
    ("add_bias", activation, (normal(1, 3), normal(3))),
]


@pytest.mark.parametrize(("name", "file", "given"), CASES, ids=lambda x: x if isinstance(x, str) else "")
def test_a_kernel_moves_what_numpy_moves(name, file, given):
    expected, kernel = REFERENCE[name](*given), InEmulator(vars(file)[name])
    with traced_launches():
        found = kernel(*given)
        assert found.dtype == expected.dtype and np.array_equal(found, expected)
        out = np.full_like(expected, 77)
        assert kernel(*given, out=out) is out and np.array_equal(out, expected)


@pytest.mark.parametrize("view_RX", [
    normal(5, 40, dtype=np.float16)[:, 1:17], normal(5, 41, dtype=np.float16)[:, :16], normal(5, 40)[:, 1:17],
    RNG.integers(0, 2, (4, 40)).astype(bool)[:, 1:9], RNG.integers(0, 2, (4, 40)).astype(bool)[:, 2:10],
    normal(4, 33)[1:],
], ids=lambda view: f"{view.dtype}{view.shape}{view.strides}")  # fmt: skip
def test_rows_within_others_are_read_by_words_that_are_aligned(monkeypatch, view_RX):
    """A GPU faults at others, the emulator does not."""
    launch, handed = move.launch, []
    monkeypatch.setattr(move, "launch", lambda *given: handed.extend(given[3:]) or launch(*given))
    pick_R = np.array([2, 0, 2])
    found, out = move.gather_rows(view_RX, pick_R), np.full((4, 40), 77).astype(view_RX.dtype)
    assert np.array_equal(found, view_RX[pick_R])
    into_RX = out[1:, 3 : 3 + view_RX.shape[1]]
    move.gather_rows(view_RX, pick_R, out=into_RX)
    assert np.array_equal(into_RX, found) and (out[:, :3] == out[0, 0]).all()
    assert handed and all(array.flags.aligned for array in handed)


@pytest.mark.parametrize(("file", "name", "given"), [
    (move, "concat_step", (normal(1, 4, 16384, 1), normal(1, 4, 1))),
    (move, "concat_step", (normal(70_000, 1, 1, 1), normal(70_000, 1, 1))),
    (temperature, "apply_temperature", (normal(70_000, 1), 0.5)),
    (beam_scores, "add_beam_scores", (normal(70_000, 1), normal(70_000))),
    (random, "gumbel", (np.ones((70_000, 2), np.uint32), np.zeros(70_000, np.int64), 1, 0)),
    (random, "gumbel_v1", (np.ones((70_000, 2), np.uint32), np.zeros(70_000, np.int64), 1, 0)),
    *((sample, name, (normal(70_000, 1), np.ones((70_000, 2), np.uint32), np.zeros(70_000, np.int64), 0))
      for name in ("sample_tokens_v1", "sample_tokens_v2", "sample_tokens")),
], ids=lambda x: x if isinstance(x, str) else "")  # fmt: skip
def test_a_grid_has_room_for_many_rows(monkeypatch, file, name, given):
    """Its first axis goes to 2**31 - 1, the other two to 65,535."""
    grids = []
    for module in {file, random}:  # some launch by the launcher of another file
        monkeypatch.setattr(module, "launch", lambda kernel, grid, *_: grids.append(grid))
    getattr(file, name)(*given)
    grids = [grid if isinstance(grid, tuple) else (grid,) for grid in grids]
    assert grids and all(max(others, default=1) <= 65_535 for _, *others in grids)
    assert max(first for first, *_ in grids) > 65_535


@pytest.mark.parametrize("V", [1, 5, 129, 600])
def test_one_log_probability_a_row(V):
    logits_RV, token_R = 3 * normal(4, V), RNG.integers(0, V, 4)
    logits_RV[1] -= 500
    with traced_launches():
        found = InEmulator(softmax.token_logprobs)(logits_RV, token_R)
    expected = REFERENCE["token_logprobs"](logits_RV.astype(np.float64), token_R)
    assert found.dtype == np.float32
    # As in conformance/rows/hars.py; what is rounded on the way is no larger than the logits' spread and the sum's log.
    spread_R = logits_RV.max(axis=1).astype(np.float64) - logits_RV[np.arange(4), token_R]
    assert (np.abs(found - expected) <= 2.0**-24 * (4 * spread_R + 4 * np.log(V) + np.sqrt(V) / 4 + 2)).all()


def test_a_row_without_probabilities_scores_nan():
    logits_RV = np.array([[np.nan, 1.0], [-np.inf, -np.inf], [1.0, np.inf]], np.float32)
    assert np.isnan(InEmulator(softmax.token_logprobs)(logits_RV, np.array([1, 0, 0]))).all()


@pytest.mark.parametrize(("name", "file", "given"), [
    ("concat_step", move, (normal(2, 1, 3, 4, dtype=np.float64), normal(2, 1, 4))),
    ("add_bias", activation, (normal(2, 3, dtype=np.float64), normal(3, dtype=np.float64))),
    ("token_logprobs", softmax, (normal(2, 3, dtype=np.float64), np.array([0, 1]))),
    ("log_softmax", softmax, (normal(2, 3, dtype=np.float64),)),
], ids=lambda x: x if isinstance(x, str) else "")  # fmt: skip
def test_double_precision_is_refused(name, file, given):
    with pytest.raises(MinidecodeError):
        vars(file)[name](*given)
