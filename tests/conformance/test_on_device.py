"""`check` on arrays of a device: each memory is there once for all its views, and what is not written is found.

The device is emulated; CuPy's arrays go the same way, and `pytest -m gpu` judges every kernel with them.
"""

import dataclasses

import numpy as np
import pytest
from numba import cuda, types

from minidecode.conformance.check import OnDevice, check
from minidecode.cuda import gather as gather_kernels
from minidecode.device import launch as launch_file
from minidecode.device.arrays import Memories, fetch, view_at_offset
from minidecode.device.launch import InEmulator, counted_launches, launch
from minidecode.device.seen_kernels import note_kernel, seen_kernels
from minidecode.emulator.device_array import EmulatorArray
from minidecode.ops import Norm
from minidecode.reference import gather as gather_code


def views():
    """An array, a strided part of it, the same in other words and backwards; another array; and a dataclass of both."""
    whole = np.arange(24, dtype=np.float32).reshape(4, 6)
    other = np.arange(3)
    return whole, whole[1:3, ::2], whole.view(np.int32).T, whole[::-1, 1], other, Norm(whole[0], other, 1e-5)


def test_views_are_views_there_as_they_are_here():
    here = views()
    memories = Memories("emulator")
    there = memories.put_on_device(here)
    for mine, theirs in zip(here[:5], there[:5], strict=True):
        assert isinstance(theirs, EmulatorArray) and theirs.strides == mine.strides and theirs.dtype == mine.dtype
        assert np.array_equal(fetch(theirs), mine)
    assert there[4] is there[5].bias_D and there[5].eps == 1e-5, "one array in two places is one there"
    there[1][...] = 7
    assert np.count_nonzero(fetch(there[0]) == 7) == 7 and here[0][1, 0] == 6, "six and the one that was; not here yet"
    memories.copy_changes_back()
    assert np.count_nonzero(here[0] == 7) == 7
    assert np.shares_memory(memories.result_on_host(there[2]), here[0]), (
        "a view that comes back is one of the memory here"
    )
    made = np.zeros(3, like=there[0])
    assert not any(np.shares_memory(memories.result_on_host(made), a) for a in here[:5])


def test_empty_and_read_only_arrays_are_brought():
    wide = np.broadcast_to(np.float32(3), (2, 3))
    memories = Memories("emulator")
    empty, repeated, part = memories.put_on_device((np.zeros((0, 4)), wide, np.zeros((3, 4))[:, :0]))
    memories.copy_changes_back()
    assert empty.shape == (0, 4) and part.shape == (3, 0) and fetch(repeated).tolist() == [[3, 3, 3]] * 2


def test_cupys_views_are_made_by_its_constructor():
    class Cupys:
        def __init__(self, shape, dtype, memptr, strides):
            self.made = shape, dtype, memptr, strides
            self.data = 1000

    like = np.zeros((4, 6), np.float32)[1:, ::2]
    whole = Cupys(None, None, None, None)
    assert view_at_offset(whole, 24, like).made == ((3, 3), np.float32, 1024, (24, 8))


def test_numba_types_an_array_of_a_gpus_like_one_of_the_host():
    @dataclasses.dataclass
    class Cupys:
        array: np.ndarray
        __cuda_array_interface__ = {}  # noqa: RUF012

        def __getattr__(self, name):
            return getattr(self.array, name)

    matrix = np.zeros((4, 6), np.float16)
    with seen_kernels() as seen:
        note_kernel(gather_kernels.pick_logprob_of_token, tuple(map(Cupys, (matrix, matrix.T, matrix[:, ::2]))))
    ((_, found),) = seen
    assert found == tuple(types.Array(types.float16, 2, layout) for layout in "CFA")


@cuda.jit
def shifts_up(a_X, b_X):
    """Each number of a is one more; then b gets a's first number."""
    x = cuda.threadIdx.x
    a_X[x] += 1
    cuda.syncthreads()
    if x == 0:
        b_X[0] = a_X[0]


def test_views_that_are_launched_from_the_host_share_one_memory_on_a_gpu(monkeypatch):
    """Numba would copy each view there and back by itself, and the last one back would undo what the others got."""
    monkeypatch.setattr(launch_file, "device_kind", lambda: "gpu")
    monkeypatch.setattr(launch_file, "find_spec", lambda name: name == "cupy")
    monkeypatch.setattr(launch_file, "Memories", lambda device: Memories("emulator"))
    whole_X = np.arange(6)
    with counted_launches() as launches:
        launch(shifts_up, 1, 4, whole_X[:4], whole_X[3:])
    assert whole_X.tolist() == [1, 2, 3, 1, 4, 5] and dict(launches) == {"shifts_up (emulator)": 1}


def writes_nothing(token_R, scores_RV, logprobs_RV=None, out=None):
    return np.empty_like(scores_RV, shape=len(token_R)), np.empty_like(token_R)


def test_a_kernel_that_writes_nothing_is_found():
    """A device's pool lends memory again, with the right answer of last time."""
    verdict = check("gather", writes_nothing, examples=2, large_seconds=0, shrinks=1, device="emulator")
    assert not verdict.ok and "logprob_R[0] is nan; right is" in verdict.failure.what


def test_results_that_are_one_array_at_each_call_are_found_there_too():
    ring = {}

    def same_array(scores_RV, temperature, out=None):
        kept = ring.setdefault(scores_RV.shape, np.empty_like(scores_RV))
        np.divide(scores_RV, np.float32(temperature), out=kept)
        return kept

    mistake = OnDevice(same_array, "emulator")
    scores_RV = np.ones((2, 3), np.float32)
    mistake(scores_RV, 2.0)
    with pytest.raises(ValueError, match="what it returned before has changed"):
        mistake(scores_RV, 4.0)


def test_what_is_changed_in_place_comes_back_and_is_returned_as_it_is():
    def halved(scores_RV, temperature, out=None):
        scores_RV[:, 1:] *= np.float32(0.5)
        return scores_RV

    scores_RV = np.ones((2, 3), np.float32)
    result = OnDevice(halved, "emulator")(scores_RV, 2.0)
    assert np.shares_memory(result, scores_RV) and scores_RV.tolist() == [[1, 0.5, 0.5]] * 2


def test_the_verdict_says_where_arrays_lived():
    there = check("gather", gather_kernels.gather_logprobs, examples=2, large_seconds=0, device="emulator")
    assert there.ok and "Its arrays lived on the emulated device, each memory once for all its views" in str(there)
    here = check("gather", InEmulator(gather_kernels.gather_logprobs), examples=2, large_seconds=0)
    assert here.ok and "Its kernels ran in the emulator." in str(here)
    assert check("gather", gather_code.gather_logprobs, examples=2, large_seconds=0).where == ""
