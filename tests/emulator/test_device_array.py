"""The arrays of the emulated device: what CuPy's allow is allowed, what they refuse is refused, and a tape repeats."""

import numpy as np
import pytest

from minidecode.device.arrays import array_like, fetch, put, repeat_each
from minidecode.emulator.device_array import (
    BY_NUMBERS,
    ON_DEVICE,
    EmulatorArray,
    counted_arrays,
    counted_looks,
    recorded_tape,
)


def there(*numbers, dtype=np.float32):
    return put(np.array(numbers, dtype), "emulator")


def test_arithmetic_stays_there():
    a, b = there(1, 2, 3), there(4, 5, 6)
    c = np.where(a + 2 * b > 11, np.concatenate([a, b])[1:4], np.float32(0))
    assert isinstance(c, EmulatorArray) and fetch(c).tolist() == [0, 3, 4] and c.dtype == np.float32
    a += b
    a[1:] = 0
    assert fetch(a).tolist() == [5, 0, 0]


@pytest.mark.parametrize(
    "mix",
    [
        lambda a, here: a + here,
        lambda a, here: here * a,
        lambda a, here: np.concatenate([a, here]),
        lambda a, here: a.__setitem__(slice(None), here),
        lambda a, here: np.copyto(a, here),
        lambda a, here: a.__iadd__(here),
    ],
    ids=["plus", "times", "concatenate", "assign", "copyto", "in place"],
)
def test_an_array_of_the_hosts_among_them_is_refused(mix):
    with pytest.raises(TypeError, match=r"an array of the host's, float32\(3,\), among the device's"):
        mix(there(1, 2, 3), np.ones(3, np.float32))


REFUSED = {  # what NumPy does, CuPy does not, and minidecode did or might
    "ufunc.at": (lambda a: np.add.at(a, there(0, dtype=np.int64), 1), "refuse np.add.at"),
    "ufunc.reduceat": (lambda a: np.maximum.reduceat(a, [0]), "refuse np.maximum.reduceat"),
    "max(initial)": (lambda a: a.max(initial=0), "max has no argument initial"),
    "np.max(initial)": (lambda a: np.max(a, initial=0), "max has no argument initial"),
    "sum(where)": (lambda a: a.sum(where=a > 1), "sum has no argument where"),
    "take(mode)": (lambda a: np.take(a, there(0, dtype=np.int64), mode="clip"), "take has no argument mode"),
    "matmul(out)": (
        lambda a: np.matmul(a[:, None], a[None], out=put(np.zeros((3, 6), np.float32), "emulator")[:, ::2]),
        "no matmul into an `out` whose rows do not lie side by side",
    ),
    "range": (lambda a: a.__setitem__(slice(None), range(3)), "no range"),
    "list": (lambda a: a.__setitem__(slice(None), [1, 2, 3]), "no list"),
    "where": (lambda a: np.where(a > 1, a, np.int64(0)), "beside an array of another kind"),
    "number of the host's": (lambda a: a + np.array(1.0, np.float32), r"an array of the host's, float32\(\)"),
}


@pytest.mark.parametrize(("act", "says"), REFUSED.values(), ids=REFUSED)
def test_what_cupy_refuses_is_refused(act, says):
    with pytest.raises(TypeError, match=says):
        act(there(1, 2, 3))


def test_what_cupy_takes_is_taken():
    """The neighbours of what it refuses."""
    a = there(1, 2, 3)
    assert fetch(np.where(a > 1, a, np.float32(0))).tolist() == fetch(np.where(a > 1, a, 0)).tolist() == [0, 2, 3]
    whole = put(np.zeros((2, 3, 3), np.float32), "emulator")
    np.matmul(a[:, None], a[None], out=whole[1])
    assert fetch(whole)[1].tolist() == [[1, 2, 3], [2, 4, 6], [3, 6, 9]] and fetch(a.max()) == 3


@pytest.mark.parametrize("join", [np.concatenate, np.stack])
def test_no_graph_holds_a_join_of_many_arrays(join):
    """CuPy brings their addresses over from nine arrays up."""
    arrays = [there(k) for k in range(9)]
    join(arrays)
    with recorded_tape():
        join(arrays[:8])
        with pytest.raises(TypeError, match="9 arrays are joined while a step is captured"):
            join(arrays)


@pytest.mark.parametrize("sort", [np.sort, np.argsort])
def test_no_graph_holds_a_sort(sort):
    """CuPy's waited for the device until 2025."""
    array = there(3, 1, 2)
    sort(array)
    with recorded_tape(), pytest.raises(TypeError, match=f"np.{sort.__name__} while a step is captured"):
        sort(array)


def test_what_nobody_asked_for_is_not_brought_over():
    for bring in (np.asarray, np.array):
        with pytest.raises(TypeError):
            bring(there(1, 2))
    with pytest.raises(TypeError, match="isneginf is none of the functions that run on a device"):
        np.isneginf(there(1, 2))


def test_views_share_numbers_and_know_their_base():
    a = put(np.zeros((2, 6), np.float32), "emulator")
    view = a.reshape(3, 4)[1:, ::2]
    view[...] = 7
    assert view.base is a and fetch(a).sum() == 7 * 4
    assert a.copy().base is None and a.T.base is a


def test_looks_are_counted_and_shapes_are_none():
    a = put(np.zeros((2, 3), np.float32), "emulator")
    with counted_looks() as looks:
        assert a.shape == (2, 3) and len(a) == 2 and a.nbytes == 24 and not looks
        assert not bool(a.any()) and int(a[0, 0]) == 0
        a.get()
        np.flatnonzero(a)
        a[a > 1]
    assert looks == [1, 4, 24, 24, 6]


def test_arrays_that_are_made_are_counted_and_views_are_none():
    a = put(np.zeros((2, 3), np.float32), "emulator")
    with counted_arrays() as made:
        room = np.empty((2, 3), np.float32, like=a)
        assert np.add(a, 1, out=room) is room
        a += 1
        a[...], room[:1] = 2, 3
        a.reshape(-1)[1:].view(np.uint8), a.T, np.broadcast_to(a, (2, 2, 3))
        assert made == [24]
        a + 1, a.copy(), a[np.array([1])], a.astype(np.float64), put(np.zeros(3), "emulator")
    assert made == [24, 24, 24, 12, 48, 24]


def test_arrays_are_made_where_others_lie():
    a = there(1, 2)
    assert fetch(array_like(a, (2, 2), np.int64, np.array([3, 4]))).tolist() == [[3, 4], [3, 4]]
    assert isinstance(np.zeros((2, 2), like=a), EmulatorArray) and fetch(np.arange(3, like=a)).tolist() == [0, 1, 2]
    here = np.ones(3)
    assert isinstance(array_like(here, 2, bool, True), np.ndarray) and fetch(here) is here


@pytest.mark.parametrize(("given", "times"), [([7, 9], 2), ([7], 3), ([7, 9], 1)])
def test_what_is_repeated_is_an_array_of_its_own(given, times):
    """Kernels take it as it lies, and a host function writes it back."""
    once = there(*given)
    many = repeat_each(once, times)
    assert many.flags.c_contiguous and fetch(many).tolist() == np.repeat(given, times).tolist()
    many[...] = 0
    assert fetch(once).tolist() == given


def test_a_tape_does_it_again_on_the_same_arrays():
    a, total = there(1, 2, 3), there(0)
    with recorded_tape() as tape:
        doubled = a * 2
        total += doubled.sum()
        doubled[0] = total[0]
        later = doubled[:2] + 1
    assert fetch(total).tolist() == [12] and fetch(later).tolist() == [13, 5]
    a[...] = there(10, 20, 30)
    tape.launch()
    assert fetch(total).tolist() == [132] and fetch(later).tolist() == [133, 41]
    tape.launch()
    assert fetch(total).tolist() == [252]


def test_all_that_is_allowed_is_cupys():
    cupy = pytest.importorskip("cupy", reason="CuPy, whose functions these are, is not installed")
    missing = [f.__name__ for f in ON_DEVICE | BY_NUMBERS if not hasattr(cupy, f.__name__)]
    own = {"there", "base", "data"}
    public = {name for name in vars(EmulatorArray) if not name.startswith("_")} - own
    assert not missing and not [name for name in public if not hasattr(cupy.ndarray, name)]
